//! `nw ping` and `nw ping-server`: round-trip times of Interests `<name>/ping/<number>`, the names
//! that ndnping uses.

use crate::args::packet::{Ping, PingServer};
use crate::connect::{Registration, connect_with_retry};
use crate::exit::Status;
use crate::output::{duration_us, json_line};
use crate::{signals, signing};
use anyhow::Result;
use hdrhistogram::Histogram;
use nw_app::ClientError;
use nw_app::object::fresh_nonce;
use nw_app::packet::{PacketError, RetryPolicy, fetch_packet};
use nw_element_api::Kind;
use nw_name::{Component, Name};
use nw_wire::{DataBuilder, InterestBuilder};
use serde_json::json;
use std::process::ExitCode;
use std::time::Duration;

fn ping_name(name: &Name) -> Name {
    name.clone().with_generic("ping")
}

/// Round-trip times: rounded quantiles from a histogram, exact minimum and maximum.
struct RoundTrips {
    histogram: Histogram<u64>,
    min_us: u64,
    max_us: u64,
}

impl RoundTrips {
    fn new() -> Result<Self> {
        let histogram = Histogram::new_with_bounds(1, 3_600_000_000, 3)?;
        Ok(RoundTrips { histogram, min_us: u64::MAX, max_us: 0 })
    }

    fn record(&mut self, us: u64) {
        self.histogram.saturating_record(us);
        self.min_us = self.min_us.min(us);
        self.max_us = self.max_us.max(us);
    }

    /// Returns minimum, median, 99th percentile and maximum, in microseconds. `None` before the
    /// first measurement.
    fn summary_us(&self) -> Option<[u64; 4]> {
        let quantile = |quantile| {
            // The histogram rounds; its quantiles must not exceed the measured range.
            self.histogram.value_at_quantile(quantile).clamp(self.min_us, self.max_us)
        };
        (!self.histogram.is_empty())
            .then(|| [self.min_us, quantile(0.5), quantile(0.99), self.max_us])
    }
}

/// The results of all pings so far.
struct PingCounters {
    rtts: RoundTrips,
    sent: u64,
    nacks: u64,
    timeouts: u64,
    invalid: u64,
}

/// Runs `nw ping`: sends Interests at an interval and prints a summary. Fails if none was answered.
pub fn ping(args: &Ping) -> Result<ExitCode> {
    let stop_flag = signals::StopFlag::watch()?;
    let mut verifier = signing::verifier(&args.verify)?;
    let mut client = connect_with_retry(&args.router, args.no_reconnect)?;
    client.stop_when(stop_flag.flag());
    let mut counters =
        PingCounters { rtts: RoundTrips::new()?, sent: 0, nacks: 0, timeouts: 0, invalid: 0 };
    let timeout = Duration::from_millis(args.timeout);
    let first_number = u64::from(fresh_nonce(&client));
    let has_more = |sent: u64| args.count.is_none_or(|count| sent < count);
    while !stop_flag.is_set() && has_more(counters.sent) {
        let number = (first_number + counters.sent).to_string();
        let name = ping_name(&args.name).with(Component::generic(number.as_bytes()));
        let started = client.now();
        let interest = InterestBuilder::new(name.clone()).must_be_fresh(true);
        let reply = fetch_packet(
            &mut client,
            interest,
            &mut verifier,
            RetryPolicy::single_attempt(timeout),
        );
        let us = client.now().since(started).as_micros() as u64;
        match reply {
            Err(PacketError::Client(ClientError::Interrupted)) => break,
            Err(PacketError::Client(error)) => return Err(error.into()),
            reply => counters.record(args, &name, us, reply.err())?,
        }
        let next = started + Duration::from_millis(args.interval);
        while !stop_flag.is_set() && client.now() < next && has_more(counters.sent) {
            let remaining = next.since(client.now()).min(Duration::from_millis(100));
            match client.poll(Some(remaining), |_, _, _| {}) {
                Err(ClientError::Interrupted) => break,
                result => drop(result?),
            }
        }
    }
    counters.print_summary(args.json)?;
    Ok(counters.exit_code())
}

impl PingCounters {
    /// Counts and prints the result of one ping. `error`: why it was not answered.
    fn record(
        &mut self,
        args: &Ping,
        name: &Name,
        us: u64,
        error: Option<PacketError>,
    ) -> Result<()> {
        self.sent += 1;
        let (result, text) = match error {
            None => {
                self.rtts.record(us);
                ("data", format!("content from {name}: {}", duration_us(us)))
            }
            Some(PacketError::Nack { reason, .. }) => {
                self.nacks += 1;
                (
                    "nack",
                    format!("{name} was refused: Nack({}), {}", reason.as_str(), duration_us(us)),
                )
            }
            Some(PacketError::Timeout { .. }) => {
                self.timeouts += 1;
                ("timeout", format!("no answer from {name} within {} ms", args.timeout))
            }
            Some(error) => {
                self.invalid += 1;
                ("invalid", error.to_string())
            }
        };
        if args.json {
            let rtt_us = matches!(result, "data" | "nack").then_some(us);
            json_line(&json!({ "name": name.to_string(), "result": result, "rtt_us": rtt_us }))
        } else {
            Ok(outln!("{text}")?)
        }
    }

    fn answered(&self) -> u64 {
        self.rtts.histogram.len()
    }

    fn print_summary(&self, as_json: bool) -> Result<()> {
        let PingCounters { sent, nacks, timeouts, invalid, .. } = self;
        let (answered, summary) = (self.answered(), self.rtts.summary_us());
        if as_json {
            let rtt = summary.map(
                |[min, p50, p99, max]| json!({ "min": min, "p50": p50, "p99": p99, "max": max }),
            );
            return json_line(&json!({ "sent": sent, "answered": answered, "nacks": nacks,
                "timeouts": timeouts, "invalid": invalid, "rtt_us": rtt }));
        }
        let invalid =
            if *invalid > 0 { format!(", {invalid} not accepted") } else { String::new() };
        outln!(
            "{sent} sent, {answered} answered, {nacks} refused, {timeouts} without answer{invalid}"
        )?;
        if let Some(summary) = summary {
            let [min, median, p99, max] = summary.map(duration_us);
            outln!("round trip: min {min}, median {median}, p99 {p99}, max {max}")?;
        }
        Ok(())
    }

    fn exit_code(&self) -> ExitCode {
        match (self.answered(), self.timeouts) {
            (1.., _) => ExitCode::SUCCESS,
            (0, 0) if self.invalid > 0 => Status::Unverified.into(),
            (0, 0) if self.nacks > 0 => Status::Nack.into(),
            (0, _) => Status::TimedOut.into(),
        }
    }
}

/// Runs `nw ping-server`: answers until Ctrl-C.
pub fn serve(args: &PingServer) -> Result<ExitCode> {
    let stop_flag = signals::StopFlag::watch()?;
    let signer = signing::signer(&args.signing)?;
    let mut client = connect_with_retry(&args.router, args.serve.no_reconnect)?;
    client.stop_when(stop_flag.flag());
    let prefix = ping_name(&args.name);
    let commander = signer.commander(&args.router)?;
    let mut registration = Registration::new(
        &mut client,
        commander,
        Some(prefix.clone()),
        signer.key_name(),
        &args.serve,
    )?;
    if !args.json {
        note!("answering under {prefix}; Ctrl-C ends it");
    }
    let content = vec![b'.'; usize::from(args.size)];
    let (mut answered, mut failed) = (0u64, 0u64);
    let outcome = loop {
        let result = client.poll(Some(Duration::from_millis(100)), |_, received, out| {
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
        match result.and_then(|_| registration.update(&mut client)) {
            Ok(change) => change.report(args.json, args.json)?,
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
    outcome?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips_report_exact_minimum_and_maximum() {
        let mut rtts = RoundTrips::new().unwrap();
        assert_eq!(rtts.summary_us(), None);
        rtts.record(60_179);
        assert_eq!(rtts.summary_us(), Some([60_179; 4]));
        rtts.record(18_656);
        let [min, _, _, max] = rtts.summary_us().unwrap();
        assert_eq!((min, max), (18_656, 60_179));
    }
}
