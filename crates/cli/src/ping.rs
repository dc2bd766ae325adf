//! `nw ping` and `nw ping-server`: round trips by name, `<name>/ping/<number>`, as the ecosystem's own ping tools ask.

use crate::args::{Ping, PingServer};
use crate::connect::connect;
use crate::exit::Status;
use crate::output::{duration_us, json_line};
use crate::{signals, signing};
use anyhow::{Context, Result};
use hdrhistogram::Histogram;
use nw_app::object::{Reply, exchange, fresh_nonce};
use nw_element::Kind;
use nw_name::{Component, Name};
use nw_wire::{DataBuilder, InterestBuilder};
use serde_json::json;
use std::process::ExitCode;
use std::time::Duration;

fn ping_name(name: &Name) -> Name {
    name.clone().with_generic("ping")
}

/// Asks, measures, sums up. Fails when nothing was answered.
pub fn ping(args: &Ping) -> Result<ExitCode> {
    let ended = signals::Ended::watch()?;
    let mut client = connect(&args.router)?;
    let mut rtt_us = Histogram::<u64>::new_with_bounds(1, 3_600_000_000, 3)?;
    let (mut sent, mut nacks, mut timeouts) = (0u64, 0u64, 0u64);
    let patience = Duration::from_millis(args.timeout);
    let first = u64::from(fresh_nonce(&client));
    while !ended.is_ended() && args.count.is_none_or(|count| sent < count) {
        let number = (first + sent).to_string();
        let name = ping_name(&args.name).with(Component::generic(number.as_bytes()));
        let started = client.now();
        sent += 1;
        let interest = InterestBuilder::new(name.clone()).must_be_fresh(true).lifetime_ms(args.timeout);
        let reply = exchange(&mut client, interest, patience)?;
        let took = client.now().since(started);
        let us = took.as_micros() as u64;
        let (word, text) = match reply {
            Reply::Data(_) => {
                rtt_us.saturating_record(us);
                ("data", format!("content from {name}: {}", duration_us(us)))
            }
            Reply::Nack(reason) => {
                nacks += 1;
                ("nack", format!("{name} was refused: Nack({}), {}", reason.as_str(), duration_us(us)))
            }
            Reply::Silence => {
                timeouts += 1;
                ("timeout", format!("no answer from {name} within {} ms", args.timeout))
            }
        };
        if args.json {
            json_line(&json!({ "name": name.to_string(), "result": word, "rtt_us": us }))?;
        } else {
            outln!("{text}")?;
        }
        let pause_until = started + Duration::from_millis(args.interval);
        while !ended.is_ended() && client.now() < pause_until && args.count.is_none_or(|count| sent < count) {
            let left = pause_until.since(client.now()).min(Duration::from_millis(100));
            client.turn(Some(left), |_, _, _| {})?;
        }
    }
    let answered = rtt_us.len();
    if args.json {
        json_line(&json!({ "sent": sent, "answered": answered, "nacks": nacks, "timeouts": timeouts,
            "rtt_us": { "min": rtt_us.min(), "p50": rtt_us.value_at_quantile(0.5), "p99": rtt_us.value_at_quantile(0.99), "max": rtt_us.max() } }))?;
    } else {
        outln!("{sent} sent, {answered} answered, {nacks} refused, {timeouts} without answer")?;
        if answered > 0 {
            let [min, median, p99, max] =
                [rtt_us.min(), rtt_us.value_at_quantile(0.5), rtt_us.value_at_quantile(0.99), rtt_us.max()]
                    .map(duration_us);
            outln!("round trip: {min} least, {median} median, {p99} 99 %, {max} most")?;
        }
    }
    Ok(match (answered, timeouts) {
        (1.., _) => ExitCode::SUCCESS,
        (0, 0) if nacks > 0 => Status::Nack.into(),
        (0, _) => Status::TimedOut.into(),
    })
}

/// Answers until the user or the router ends it.
pub fn serve(args: &PingServer) -> Result<ExitCode> {
    let ended = signals::Ended::watch()?;
    let signer = signing::signer(&args.signing)?;
    let mut client = connect(&args.router)?;
    let prefix = ping_name(&args.name);
    signer.commander(&args.router)?.register(&mut client, prefix.clone()).context("can't serve the name")?;
    if !args.json {
        note!("answering under {prefix}; Ctrl-C ends it");
    }
    let content = vec![b'.'; usize::from(args.size)];
    let (mut answered, mut failed) = (0u64, 0u64);
    client.run(
        |_, received, out| {
            let asks = received.kind() == Kind::Interest && prefix.as_ref().is_prefix_of(received.name());
            if !asks {
                return;
            }
            match DataBuilder::new(received.name(), &content).freshness_ms(1000).encode(&signer) {
                Ok(packet) => {
                    answered += 1;
                    out.answer(&received, &packet);
                }
                Err(_) => failed += 1,
            }
        },
        || ended.is_ended(),
    )?;
    if args.json {
        json_line(&json!({ "answered": answered, "failed": failed }))?;
    } else {
        note!("{answered} answered");
    }
    Ok(ExitCode::SUCCESS)
}
