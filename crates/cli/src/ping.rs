//! `nw ping` and `nw ping-server`: round trips by name, `<name>/ping/<number>`, as the ecosystem's own ping tools ask.

use crate::args::{Ping, PingServer};
use crate::connect::{Registration, connect_lasting};
use crate::exit::Status;
use crate::output::{duration_us, json_line};
use crate::{signals, signing};
use anyhow::Result;
use hdrhistogram::Histogram;
use nw_app::ClientError;
use nw_app::object::fresh_nonce;
use nw_app::packet::{PacketError, Patience, fetch_packet};
use nw_element_api::Kind;
use nw_name::{Component, Name};
use nw_wire::{DataBuilder, InterestBuilder};
use serde_json::json;
use std::process::ExitCode;
use std::time::Duration;

fn ping_name(name: &Name) -> Name {
    name.clone().with_generic("ping")
}

/// Round-trip times: quantiles by a histogram, minimum and maximum as they were measured.
struct RoundTrips {
    histogram: Histogram<u64>,
    least_us: u64,
    most_us: u64,
}

impl RoundTrips {
    fn new() -> Result<Self> {
        let histogram = Histogram::new_with_bounds(1, 3_600_000_000, 3)?;
        Ok(RoundTrips { histogram, least_us: u64::MAX, most_us: 0 })
    }

    fn record(&mut self, us: u64) {
        self.histogram.saturating_record(us);
        self.least_us = self.least_us.min(us);
        self.most_us = self.most_us.max(us);
    }

    /// Minimum, median, 99th percentile and maximum, in microseconds; `None` before the first.
    fn summary_us(&self) -> Option<[u64; 4]> {
        let quantile = |quantile| {
            // The histogram rounds; what it says is never beyond what was measured.
            self.histogram.value_at_quantile(quantile).clamp(self.least_us, self.most_us)
        };
        (!self.histogram.is_empty()).then(|| [self.least_us, quantile(0.5), quantile(0.99), self.most_us])
    }
}

/// Pings, measures, sums up. Fails when nothing was answered.
pub fn ping(args: &Ping) -> Result<ExitCode> {
    let ended = signals::Ended::watch()?;
    let mut verifier = signing::verifier(&args.verifying)?;
    let mut client = connect_lasting(&args.router, args.no_reconnect)?;
    client.stop_when(ended.flag());
    let mut rtts = RoundTrips::new()?;
    let (mut sent, mut nacks, mut timeouts, mut invalid) = (0u64, 0u64, 0u64, 0u64);
    let patience = Duration::from_millis(args.timeout);
    let first = u64::from(fresh_nonce(&client));
    while !ended.is_ended() && args.count.is_none_or(|count| sent < count) {
        let number = (first + sent).to_string();
        let name = ping_name(&args.name).with(Component::generic(number.as_bytes()));
        let started = client.now();
        let interest = InterestBuilder::new(name.clone()).must_be_fresh(true);
        let reply = fetch_packet(&mut client, interest, &mut verifier, Patience::single(patience));
        sent += 1;
        let us = client.now().since(started).as_micros() as u64;
        let (word, text) = match reply {
            Ok(_) => {
                rtts.record(us);
                ("data", format!("content from {name}: {}", duration_us(us)))
            }
            Err(PacketError::Client(ClientError::Interrupted)) => {
                sent -= 1;
                break;
            }
            Err(PacketError::Client(error)) => return Err(error.into()),
            Err(PacketError::Nack { reason, .. }) => {
                nacks += 1;
                ("nack", format!("{name} was refused: Nack({}), {}", reason.as_str(), duration_us(us)))
            }
            Err(PacketError::Silence { .. }) => {
                timeouts += 1;
                ("timeout", format!("no answer from {name} within {} ms", args.timeout))
            }
            Err(error @ PacketError::Invalid { .. }) => {
                invalid += 1;
                ("invalid", error.to_string())
            }
        };
        if args.json {
            json_line(
                &json!({ "name": name.to_string(), "result": word, "rtt_us": matches!(word, "data" | "nack").then_some(us) }),
            )?;
        } else {
            outln!("{text}")?;
        }
        let pause_until = started + Duration::from_millis(args.interval);
        while !ended.is_ended() && client.now() < pause_until && args.count.is_none_or(|count| sent < count) {
            let left = pause_until.since(client.now()).min(Duration::from_millis(100));
            match client.turn(Some(left), |_, _, _| {}) {
                Err(ClientError::Interrupted) => break,
                turned => drop(turned?),
            }
        }
    }
    let summary = rtts.summary_us();
    let answered = rtts.histogram.len();
    if args.json {
        let rtt =
            summary.map(|[min, p50, p99, max]| json!({ "min": min, "p50": p50, "p99": p99, "max": max }));
        json_line(&json!({ "sent": sent, "answered": answered, "nacks": nacks, "timeouts": timeouts,
            "invalid": invalid, "rtt_us": rtt }))?;
    } else {
        let invalid = if invalid > 0 { format!(", {invalid} not accepted") } else { String::new() };
        outln!("{sent} sent, {answered} answered, {nacks} refused, {timeouts} without answer{invalid}")?;
        if let Some(summary) = summary {
            let [min, median, p99, max] = summary.map(duration_us);
            outln!("round trip: min {min}, median {median}, p99 {p99}, max {max}")?;
        }
    }
    Ok(match (answered, timeouts) {
        (1.., _) => ExitCode::SUCCESS,
        (0, 0) if invalid > 0 => Status::Unverified.into(),
        (0, 0) if nacks > 0 => Status::Nack.into(),
        (0, _) => Status::TimedOut.into(),
    })
}

/// Answers until the user ends it.
pub fn serve(args: &PingServer) -> Result<ExitCode> {
    let ended = signals::Ended::watch()?;
    let signer = signing::signer(&args.signing)?;
    let mut client = connect_lasting(&args.router, args.serving.no_reconnect)?;
    client.stop_when(ended.flag());
    let prefix = ping_name(&args.name);
    let commander = signer.commander(&args.router)?;
    let mut registration =
        Registration::new(&mut client, commander, Some(prefix.clone()), signer.key_name(), &args.serving)?;
    if !args.json {
        note!("answering under {prefix}; Ctrl-C ends it");
    }
    let content = vec![b'.'; usize::from(args.size)];
    let (mut answered, mut failed) = (0u64, 0u64);
    let result = loop {
        let turned = client.turn(Some(Duration::from_millis(100)), |_, received, out| {
            if signer.answer(&received, out)
                || received.kind() != Kind::Interest
                || !prefix.as_ref().is_prefix_of(received.name())
            {
                return;
            }
            match DataBuilder::new(received.name(), &content).freshness_ms(1000).encode(&signer) {
                Ok(packet) => {
                    answered += 1;
                    out.answer(&received, &packet);
                }
                Err(_) => failed += 1,
            }
        });
        match turned.and_then(|_| registration.keep(&mut client)) {
            Ok(link) => link.report(args.json, args.json)?,
            Err(ClientError::Interrupted) => break Ok(()),
            Err(error) => break Err(error),
        }
    };
    client.flush();
    if args.json {
        json_line(&json!({ "answered": answered, "failed": failed }))?;
    } else {
        note!("{answered} answered");
    }
    result?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minimum_and_maximum_are_exact() {
        let mut rtts = RoundTrips::new().unwrap();
        assert_eq!(rtts.summary_us(), None);
        rtts.record(60_179);
        assert_eq!(rtts.summary_us(), Some([60_179; 4]));
        rtts.record(18_656);
        let [min, _, _, max] = rtts.summary_us().unwrap();
        assert_eq!((min, max), (18_656, 60_179));
    }
}
