//! `nw trace`: how the router forwards an Interest, and why.

use super::ControlArgs;
use super::http::{ControlAddress, Method, escape, request, request_json};
use crate::connect::connect;
use crate::exit::{Failure, Status};
use crate::output::json_line;
use crate::signals::StopFlag;
use anyhow::{Context, Result};
use clap::Args;
use core::time::Duration;
use nw_api::management::FaceStatus;
use nw_api::trace::TraceEvent;
use nw_app::object::fresh_nonce;
use nw_name::Name;
use nw_wire::InterestBuilder;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, ErrorKind};
use std::process::ExitCode;
use std::time::Instant;

/// Interval at which Ctrl-C is checked.
const SLICE: Duration = Duration::from_millis(100);
/// How long decisions are shown after the Interest was answered or refused.
const AFTERMATH: Duration = Duration::from_millis(300);

#[derive(Debug, Args)]
pub struct Trace {
    #[command(flatten)]
    pub control: ControlArgs,
    /// Name of the Interest to send and trace
    pub name: Name,
    /// Send nothing: wait for Interests of other programs under the name
    #[arg(long, short)]
    pub wait: bool,
    /// Set CanBePrefix: Data with a longer name may answer
    #[arg(long, short = 'P')]
    pub prefix: bool,
    /// Set MustBeFresh: cached Data must be fresh
    #[arg(long, short)]
    pub fresh: bool,
    /// InterestLifetime, milliseconds
    #[arg(
        long,
        default_value_t = 4000,
        value_name = "MS",
        value_parser = clap::value_parser!(u64).range(1..=600_000)
    )]
    pub lifetime: u64,
    /// Duration of the trace, seconds; default: 60 with --wait, else until the Interest is finished
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub seconds: Option<u64>,
    /// Print one JSON object per decision
    #[arg(long)]
    pub json: bool,
}

/// Runs `nw trace`.
pub fn trace(args: &Trace) -> Result<ExitCode> {
    let stop_flag = StopFlag::watch()?;
    let address = args.control.address()?;
    let lifetime_s = args.lifetime.div_ceil(1000) + 2;
    let seconds = args.seconds.unwrap_or(if args.wait { 60 } else { lifetime_s });
    let path = format!("/v1/trace?name={}&seconds={seconds}", escape(&args.name.to_string()));
    let response = request(&address, Method::Get, &path, None)?;
    response.set_timeout(SLICE)?;
    let mut lines = BufReader::new(response);
    let mut printer = Printer {
        address: &address,
        json: args.json,
        faces: BTreeMap::new(),
        packet: 0,
        start_us: None,
        decisions: 0,
    };
    let mut client = None;
    let mut until = None;
    let mut line = Vec::new();
    while !stop_flag.is_set() && until.is_none_or(|until| Instant::now() < until) {
        // An incomplete line is completed by the next read.
        match lines.read_until(b'\n', &mut line) {
            Ok(0) => break,
            Ok(_) if line.ends_with(b"\n") => {}
            Ok(_) => continue,
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                ) =>
            {
                continue;
            }
            Err(error) => return Err(error).context("the trace was interrupted"),
        }
        let text = core::mem::take(&mut line);
        if text.trim_ascii().is_empty() {
            // An empty line: the router now records decisions, so the Interest can be sent.
            if !args.wait {
                client = Some(send(args)?);
            }
            continue;
        }
        let event: TraceEvent = serde_json::from_slice(&text).context("a line of the trace")?;
        printer.print(&event)?;
        let ends = ["face", "drop", "nack"].contains(&event.step.as_str())
            || event.step == "pit" && event.words.contains("ended");
        if ends && !args.wait && args.seconds.is_none() {
            until.get_or_insert(Instant::now() + AFTERMATH);
        }
    }
    drop(client);
    if printer.decisions == 0 {
        let text = format!("no Interest below {} arrived", args.name);
        return Err(Failure::new(Status::TimedOut, text).into());
    }
    Ok(ExitCode::SUCCESS)
}

/// Sends the Interest. The returned connection must stay open: closing it removes the Interest.
fn send(args: &Trace) -> Result<nw_app::Client> {
    let mut client = connect(&args.control.router)?;
    let interest = InterestBuilder::new(args.name.clone())
        .can_be_prefix(args.prefix)
        .must_be_fresh(args.fresh)
        .lifetime_ms(args.lifetime)
        .nonce(fresh_nonce(&client));
    client.send(&interest.encode());
    client.flush();
    Ok(client)
}

struct Printer<'a> {
    address: &'a ControlAddress,
    json: bool,
    /// URIs of the faces in decisions so far. `None`: unknown.
    faces: BTreeMap<u64, Option<String>>,
    packet: u32,
    start_us: Option<u64>,
    decisions: u64,
}

impl Printer<'_> {
    fn print(&mut self, event: &TraceEvent) -> Result<()> {
        self.decisions += 1;
        if self.json {
            return json_line(event);
        }
        let start_us = *self.start_us.get_or_insert(event.at_us);
        if event.packet != self.packet {
            self.packet = event.packet;
            outln!(
                "{:9.3} ms  {}",
                event.at_us.saturating_sub(start_us) as f64 / 1000.0,
                event.name
            )?;
        }
        let uri = event
            .face_id
            .and_then(|id| self.uri(id))
            .map(|uri| format!("  [{uri}]"))
            .unwrap_or_default();
        outln!("{:14}{}{uri}", "", event.words)?;
        if event.lost > 0 {
            outln!("{:14}… {} more decisions were discarded", "", event.lost)?;
        }
        Ok(())
    }

    fn uri(&mut self, id: u64) -> Option<String> {
        let address = self.address;
        let fetch = || {
            request_json::<FaceStatus>(address, Method::Get, &format!("/v1/faces/{id}"), None).ok()
        };
        self.faces.entry(id).or_insert_with(|| fetch().map(|face| face.uri)).clone()
    }
}
