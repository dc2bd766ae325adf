//! `nw balancer top`: what members carry, again and again.

use super::BalancerPlace;
use crate::inside::http::{self, Method, Place};
use crate::output::stdout;
use crate::output::{self, row};
use crate::signals::Ended;
use anyhow::Result;
use clap::Args;
use core::time::Duration;
use nw_api::balancer::{BalancerMember, BalancerStatus, MemberState};
use serde::Serialize;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::Instant;

#[derive(Debug, Args)]
pub struct Top {
    #[command(flatten)]
    pub place: BalancerPlace,
    /// Between two looks, milliseconds
    #[arg(long, short, default_value_t = 1000, value_name = "MS", value_parser = clap::value_parser!(u64).range(100..=60_000))]
    pub interval: u64,
    /// Look for one interval, print, and end
    #[arg(long)]
    pub once: bool,
    /// Print one JSON object for each interval: rates a second
    #[arg(long)]
    pub json: bool,
}

/// What happened in one interval.
#[derive(Debug, Serialize)]
struct Rates {
    cluster: String,
    interval_s: f64,
    members: Vec<MemberRates>,
    dropped_per_s: f64,
    warnings: Vec<String>,
}

/// Rates a second.
#[derive(Debug, Serialize)]
struct MemberRates {
    name: String,
    state: MemberState,
    share: f64,
    interests_per_s: f64,
    data_per_s: f64,
    nacks_per_s: f64,
    in_mbps: f64,
    out_mbps: f64,
}

/// Verdicts that mean the end of a packet.
const DROPS: [&str; 12] = [
    "no_member",
    "no_hop",
    "no_route",
    "time_to_live",
    "too_long",
    "ip_fragment_lost",
    "reliability",
    "idle",
    "header_limit",
    "malformed",
    "not_ndn",
    "failed",
];

/// `nw balancer top`
pub fn top(args: &Top) -> Result<ExitCode> {
    let ended = Ended::watch()?;
    let place = args.place.place()?;
    let mut before = (Instant::now(), look(&place)?);
    loop {
        let wake = before.0 + Duration::from_millis(args.interval);
        while Instant::now() < wake && !ended.is_ended() {
            std::thread::sleep(wake.saturating_duration_since(Instant::now()).min(Duration::from_millis(50)));
        }
        if ended.is_ended() {
            return Ok(ExitCode::SUCCESS);
        }
        let now = (Instant::now(), look(&place)?);
        let rates = rates(&before.1, &now.1, (now.0 - before.0).as_secs_f64());
        match args.json {
            true => output::json_line(&rates)?,
            false => draw(&rates, !args.once && std::io::stdout().is_terminal())?,
        }
        if args.once {
            return Ok(ExitCode::SUCCESS);
        }
        before = now;
    }
}

fn look(place: &Place) -> Result<BalancerStatus> {
    http::body(place, Method::Get, "/v1/balancer", None)
}

fn rates(before: &BalancerStatus, now: &BalancerStatus, seconds: f64) -> Rates {
    let rate = |before: u64, now: u64| now.saturating_sub(before) as f64 / seconds;
    let member = |member: &BalancerMember| {
        let earlier = before.members.iter().find(|earlier| earlier.name == member.name);
        // Counters of one that has just come begin with the number it got, which another may have had.
        let earlier = earlier.unwrap_or(member);
        let (was, is) = (&earlier.counters, &member.counters);
        MemberRates {
            name: member.name.clone(),
            state: member.state,
            share: member.share,
            interests_per_s: rate(was.in_interests, is.in_interests),
            data_per_s: rate(was.out_data, is.out_data),
            nacks_per_s: rate(was.out_nacks, is.out_nacks),
            in_mbps: rate(was.in_bytes, is.in_bytes) * 8.0 / 1e6,
            out_mbps: rate(was.out_bytes, is.out_bytes) * 8.0 / 1e6,
        }
    };
    let drops =
        |status: &BalancerStatus| DROPS.iter().filter_map(|drop| status.verdicts.get(*drop)).sum::<u64>();
    Rates {
        cluster: now.cluster.clone(),
        interval_s: seconds,
        members: now.members.iter().map(member).collect(),
        dropped_per_s: rate(drops(before), drops(now)),
        warnings: now.warnings.clone(),
    }
}

fn draw(rates: &Rates, clear: bool) -> Result<()> {
    if clear {
        // Home, and away with what is below.
        write!(stdout(), "\x1b[H\x1b[J")?;
    }
    outln!("{}: {:.0} packets/s dropped", rates.cluster, rates.dropped_per_s)?;
    for warning in &rates.warnings {
        outln!("warning: {warning}")?;
    }
    let mut rows = vec![row([
        &"member",
        &"state",
        &"share",
        &"Interests/s",
        &"Data/s",
        &"Nacks/s",
        &"in Mbit/s",
        &"out Mbit/s",
    ])];
    rows.extend(rates.members.iter().map(|member| {
        row([
            &member.name,
            &member.state,
            &format!("{:.1} %", 100.0 * member.share),
            &format!("{:.0}", member.interests_per_s),
            &format!("{:.0}", member.data_per_s),
            &format!("{:.0}", member.nacks_per_s),
            &format!("{:.1}", member.in_mbps),
            &format!("{:.1}", member.out_mbps),
        ])
    }));
    output::table(&rows)
}
