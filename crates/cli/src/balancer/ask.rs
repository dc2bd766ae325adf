//! Commands that change something.

use super::{Add, Answered, BalancerPlace};
use crate::inside::http::{self, Method, Place};
use crate::output;
use crate::signals::Ended;
use anyhow::{Result, bail};
use core::time::Duration;
use nw_api::balancer::{BalancerMember, MemberChange, MemberState, MemberWanted};
use std::io::Read;

impl BalancerPlace {
    /// Where to ask.
    pub fn place(&self) -> Result<Place> {
        Ok(match Place::parse(&self.control, self.token_file.as_deref())? {
            Place::Unix(path) => Place::Balancer(path),
            place => place,
        })
    }
}

fn of(name: &str) -> String {
    format!("/v1/members/{}", http::escape(name).replace('/', "%2F"))
}

pub fn add(args: &Add) -> Result<()> {
    let place = args.answer.place.place()?;
    let member: BalancerMember = match args.port {
        Some(port) => {
            let wanted = MemberWanted {
                name: args.name.clone(),
                addresses: args.address.clone(),
                port,
                weight: args.weight.clone(),
                control: args.socket.clone(),
                own_routes: args.own_routes,
            };
            http::body(&place, Method::Post, "/v1/members", Some(&serde_json::to_value(wanted)?))?
        }
        None => change(&place, &args.name, &MemberChange { drain: Some(false), ..MemberChange::default() })?,
    };
    let member = match args.wait {
        true => wait(&place, member, |state| state == MemberState::Active)?,
        false => Some(member),
    };
    say(member.as_ref(), &args.name, args.answer.json)
}

pub fn remove(name: &str, wait: bool, answer: &Answered) -> Result<()> {
    let place = answer.place.place()?;
    let mut text = String::new();
    http::ask(&place, Method::Delete, &of(name), None)?.take(1 << 20).read_to_string(&mut text)?;
    // One that had no names is gone already.
    let member: Option<BalancerMember> =
        (!text.is_empty()).then(|| serde_json::from_str(&text)).transpose()?;
    let member = match member {
        Some(member) if wait => self::wait(&place, member, |_| false)?,
        member => member,
    };
    say(member.as_ref(), name, answer.json)
}

pub fn drain(name: &str, wait: bool, undo: bool, answer: &Answered) -> Result<()> {
    let place = answer.place.place()?;
    let member = change(&place, name, &MemberChange { drain: Some(!undo), ..MemberChange::default() })?;
    let member = match wait {
        true => self::wait(&place, member, |state| state == MemberState::Drained)?,
        false => Some(member),
    };
    say(member.as_ref(), name, answer.json)
}

pub fn weight(name: &str, weight: &str, answer: &Answered) -> Result<()> {
    let place = answer.place.place()?;
    let changed = MemberChange { weight: Some(weight.to_owned()), ..MemberChange::default() };
    let member = change(&place, name, &changed)?;
    say(Some(&member), name, answer.json)
}

pub fn stop(place: &BalancerPlace, keep: bool) -> Result<()> {
    let path = if keep { "/v1/stop?keep=true" } else { "/v1/stop?keep=false" };
    http::ask(&place.place()?, Method::Post, path, None).map(drop)
}

fn change(place: &Place, name: &str, change: &MemberChange) -> Result<BalancerMember> {
    http::body(place, Method::Patch, &of(name), Some(&serde_json::to_value(change)?))
}

/// Until the member is as wanted (then it is given), or is gone.
fn wait(
    place: &Place,
    mut member: BalancerMember,
    wanted: impl Fn(MemberState) -> bool,
) -> Result<Option<BalancerMember>> {
    let ended = Ended::watch()?;
    while !wanted(member.state) {
        if ended.is_ended() {
            bail!("interrupted: {} is {}, and goes on", member.name, member.state);
        }
        std::thread::sleep(Duration::from_millis(100));
        let members: Vec<BalancerMember> = http::body(place, Method::Get, "/v1/members", None)?;
        match members.into_iter().find(|other| other.name == member.name) {
            Some(now) => member = now,
            None => return Ok(None),
        }
    }
    Ok(Some(member))
}

fn say(member: Option<&BalancerMember>, name: &str, json: bool) -> Result<()> {
    match (member, json) {
        (Some(member), true) => output::json_line(member)?,
        (None, true) => output::json_line(&serde_json::json!({ "name": name, "state": MemberState::Gone }))?,
        (None, false) => outln!("{name} is gone")?,
        (Some(member), false) => outln!(
            "{name} is {}, with weight {} and {:.1} % of the names",
            member.state,
            member.weight,
            100.0 * member.share
        )?,
    }
    Ok(())
}
