//! Commands that change the balancer: add, remove, drain, weight, stop.

use super::{Add, BalancerArgs, BalancerQueryArgs};
use crate::observe::http::{self, ControlAddress, Method};
use crate::output;
use crate::signals::StopFlag;
use anyhow::{Result, bail};
use core::time::Duration;
use nw_api::balancer::{BalancerMember, MemberChange, MemberState, MemberWanted};
use std::io::Read;

impl BalancerArgs {
    /// Returns the address of the balancer's control socket.
    pub fn address(&self) -> Result<ControlAddress> {
        Ok(match ControlAddress::parse(&self.control, self.token_file.as_deref())? {
            ControlAddress::Unix(path) => ControlAddress::Balancer(path),
            address => address,
        })
    }
}

/// Returns the path of a member.
pub(super) fn member_path(name: &str) -> String {
    format!("/v1/members/{}", http::escape(name).replace('/', "%2F"))
}

pub fn add(args: &Add) -> Result<()> {
    let address = args.query.balancer.address()?;
    let member: BalancerMember = match args.port {
        Some(port) => {
            let request = MemberWanted {
                name: args.name.clone(),
                addresses: args.address.clone(),
                port,
                weight: args.weight.clone(),
                control: args.socket.clone(),
                external_routes: args.external_routes,
            };
            http::request_json(
                &address,
                Method::Post,
                "/v1/members",
                Some(&serde_json::to_value(request)?),
            )?
        }
        None => change(
            &address,
            &args.name,
            &MemberChange { drain: Some(false), ..MemberChange::default() },
        )?,
    };
    let member = match args.wait {
        true => wait(&address, member, |state| state == MemberState::Active)?,
        false => Some(member),
    };
    print_member(member.as_ref(), &args.name, args.query.json)
}

pub fn remove(name: &str, wait: bool, query: &BalancerQueryArgs) -> Result<()> {
    let address = query.balancer.address()?;
    let mut text = String::new();
    http::request(&address, Method::Delete, &member_path(name), None)?
        .take(1 << 20)
        .read_to_string(&mut text)?;
    // Empty if the member had no names and is removed already.
    let member: Option<BalancerMember> =
        (!text.is_empty()).then(|| serde_json::from_str(&text)).transpose()?;
    let member = match member {
        Some(member) if wait => self::wait(&address, member, |_| false)?,
        member => member,
    };
    print_member(member.as_ref(), name, query.json)
}

pub fn drain(name: &str, wait: bool, undo: bool, query: &BalancerQueryArgs) -> Result<()> {
    let address = query.balancer.address()?;
    let member =
        change(&address, name, &MemberChange { drain: Some(!undo), ..MemberChange::default() })?;
    let member = match wait {
        true => self::wait(&address, member, |state| state == MemberState::Drained)?,
        false => Some(member),
    };
    print_member(member.as_ref(), name, query.json)
}

pub fn weight(name: &str, weight: &str, query: &BalancerQueryArgs) -> Result<()> {
    let address = query.balancer.address()?;
    let changed = MemberChange { weight: Some(weight.to_owned()), ..MemberChange::default() };
    let member = change(&address, name, &changed)?;
    print_member(Some(&member), name, query.json)
}

pub fn stop(balancer: &BalancerArgs, keep: bool) -> Result<()> {
    let path = if keep { "/v1/stop?keep=true" } else { "/v1/stop?keep=false" };
    http::request(&balancer.address()?, Method::Post, path, None).map(drop)
}

fn change(address: &ControlAddress, name: &str, change: &MemberChange) -> Result<BalancerMember> {
    http::request_json(
        address,
        Method::Patch,
        &member_path(name),
        Some(&serde_json::to_value(change)?),
    )
}

/// Waits until the member's state is accepted. Returns `None` if the member was removed.
fn wait(
    address: &ControlAddress,
    mut member: BalancerMember,
    is_done: impl Fn(MemberState) -> bool,
) -> Result<Option<BalancerMember>> {
    let stop_flag = StopFlag::watch()?;
    while !is_done(member.state) {
        if stop_flag.is_set() {
            bail!("interrupted: {} is {}, and the change continues", member.name, member.state);
        }
        std::thread::sleep(Duration::from_millis(100));
        let members: Vec<BalancerMember> =
            http::request_json(address, Method::Get, "/v1/members", None)?;
        match members.into_iter().find(|candidate| candidate.name == member.name) {
            Some(current) => member = current,
            None => return Ok(None),
        }
    }
    Ok(Some(member))
}

fn print_member(member: Option<&BalancerMember>, name: &str, json: bool) -> Result<()> {
    match (member, json) {
        (Some(member), true) => output::json_line(member)?,
        (None, true) => {
            output::json_line(&serde_json::json!({ "name": name, "state": MemberState::Gone }))?
        }
        (None, false) => outln!("{name} is removed")?,
        (Some(member), false) => outln!(
            "{name} is {}, with weight {} and {:.1} % of the names",
            member.state,
            member.weight,
            100.0 * member.share
        )?,
    }
    Ok(())
}
