//! `nw balancer top`: rates of members, at intervals.

use super::BalancerArgs;
use crate::observe::http::{self, ControlAddress, Method};
use crate::output::stdout;
use crate::output::{self, row};
use crate::signals::StopFlag;
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
    pub balancer: BalancerArgs,
    /// Update interval, milliseconds
    #[arg(
        long,
        short,
        default_value_t = 1000,
        value_name = "MS",
        value_parser = clap::value_parser!(u64).range(100..=60_000)
    )]
    pub interval: u64,
    /// Measure one interval, print, and exit
    #[arg(long)]
    pub once: bool,
    /// Print one JSON object per interval, with rates per second
    #[arg(long)]
    pub json: bool,
}

/// The rates of one interval.
#[derive(Debug, Serialize)]
struct Rates {
    cluster: String,
    interval_s: f64,
    members: Vec<MemberRates>,
    dropped_per_s: f64,
    warnings: Vec<String>,
}

/// The rates of one member, per second.
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

/// The verdicts that stand for dropped packets.
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

/// Runs `nw balancer top`.
pub fn top(args: &Top) -> Result<ExitCode> {
    let stop_flag = StopFlag::watch()?;
    let address = args.balancer.address()?;
    let mut before = (Instant::now(), fetch_status(&address)?);
    loop {
        let next = before.0 + Duration::from_millis(args.interval);
        while Instant::now() < next && !stop_flag.is_set() {
            std::thread::sleep(
                next.saturating_duration_since(Instant::now()).min(Duration::from_millis(50)),
            );
        }
        if stop_flag.is_set() {
            return Ok(ExitCode::SUCCESS);
        }
        let now = (Instant::now(), fetch_status(&address)?);
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

fn fetch_status(address: &ControlAddress) -> Result<BalancerStatus> {
    http::request_json(address, Method::Get, "/v1/balancer", None)
}

fn rates(before: &BalancerStatus, now: &BalancerStatus, seconds: f64) -> Rates {
    let rate = |before: u64, now: u64| now.saturating_sub(before) as f64 / seconds;
    let member = |member: &BalancerMember| {
        let earlier = before.members.iter().find(|earlier| earlier.name == member.name);
        // A new member's counters may start above zero: they belong to its number, which may be
        // reused.
        let earlier = earlier.unwrap_or(member);
        let (old, new) = (&earlier.counters, &member.counters);
        MemberRates {
            name: member.name.clone(),
            state: member.state,
            share: member.share,
            interests_per_s: rate(old.in_interests, new.in_interests),
            data_per_s: rate(old.out_data, new.out_data),
            nacks_per_s: rate(old.out_nacks, new.out_nacks),
            in_mbps: rate(old.in_bytes, new.in_bytes) * 8.0 / 1e6,
            out_mbps: rate(old.out_bytes, new.out_bytes) * 8.0 / 1e6,
        }
    };
    let drops = |status: &BalancerStatus| {
        DROPS.iter().filter_map(|drop| status.verdicts.get(*drop)).sum::<u64>()
    };
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
        // Cursor home, and clear the screen below.
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
