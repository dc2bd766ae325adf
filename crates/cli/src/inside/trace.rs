//! `nw trace`: which way an Interest goes, and why.

use super::Control;
use super::http::{Method, Place, ask, body, escape};
use crate::connect::connect;
use crate::exit::{Failure, Status};
use crate::output::json_line;
use crate::signals::Ended;
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

const SLICE: Duration = Duration::from_millis(100);
/// After the Interest was answered or refused, what follows from it is shown for so long.
const AFTERMATH: Duration = Duration::from_millis(300);

#[derive(Debug, Args)]
pub struct Trace {
    #[command(flatten)]
    pub control: Control,
    /// Send an Interest of this name and show what becomes of it
    pub name: Name,
    /// Send nothing: wait for Interests of others under the name
    #[arg(long, short)]
    pub wait: bool,
    /// A Data with a longer name may answer
    #[arg(long, short = 'P')]
    pub prefix: bool,
    /// A cached Data must be fresh
    #[arg(long, short)]
    pub fresh: bool,
    /// InterestLifetime, milliseconds
    #[arg(long, default_value_t = 4000, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=600_000))]
    pub lifetime: u64,
    /// Look for so long; with --wait 60 when not given, else until the Interest has ended
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub seconds: Option<u64>,
    /// Print one JSON object for each decision
    #[arg(long)]
    pub json: bool,
}

/// `nw trace`
pub fn trace(args: &Trace) -> Result<ExitCode> {
    let ended = Ended::watch()?;
    let place = args.control.place()?;
    let own = args.lifetime.div_ceil(1000) + 2;
    let seconds = args.seconds.unwrap_or(if args.wait { 60 } else { own });
    let path = format!("/v1/trace?name={}&seconds={seconds}", escape(&args.name.to_string()));
    let answer = ask(&place, Method::Get, &path, None)?;
    answer.set_patience(SLICE)?;
    let mut lines = BufReader::new(answer);
    let mut printer = Printer {
        place: &place,
        json: args.json,
        faces: BTreeMap::new(),
        packet: 0,
        zero_us: None,
        decisions: 0,
    };
    let mut client = None;
    let mut until = None;
    let mut line = Vec::new();
    while !ended.is_ended() && until.is_none_or(|until| Instant::now() < until) {
        // An incomplete line stays for the next read.
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
            Err(error) => return Err(error).context("the trace broke off"),
        }
        let text = core::mem::take(&mut line);
        if text.trim_ascii().is_empty() {
            // From now on nothing is missed.
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
        let text = format!("no Interest below {} came", args.name);
        return Err(Failure::new(Status::TimedOut, text).into());
    }
    Ok(ExitCode::SUCCESS)
}

/// Sends the Interest; the connection is to be kept, as its end would end the Interest.
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
    place: &'a Place,
    json: bool,
    /// URIs of faces that were mentioned.
    faces: BTreeMap<u64, Option<String>>,
    packet: u32,
    zero_us: Option<u64>,
    decisions: u64,
}

impl Printer<'_> {
    fn print(&mut self, event: &TraceEvent) -> Result<()> {
        self.decisions += 1;
        if self.json {
            return json_line(event);
        }
        let zero = *self.zero_us.get_or_insert(event.at_us);
        if event.packet != self.packet {
            self.packet = event.packet;
            outln!("{:9.3} ms  {}", event.at_us.saturating_sub(zero) as f64 / 1000.0, event.name)?;
        }
        let uri =
            event.face_id.and_then(|id| self.uri(id)).map(|uri| format!("  [{uri}]")).unwrap_or_default();
        outln!("{:14}{}{uri}", "", event.words)?;
        if event.lost > 0 {
            outln!("{:14}… {} decisions were too many to keep", "", event.lost)?;
        }
        Ok(())
    }

    fn uri(&mut self, id: u64) -> Option<String> {
        let place = self.place;
        let look = || body::<FaceStatus>(place, Method::Get, &format!("/v1/faces/{id}"), None).ok();
        self.faces.entry(id).or_insert_with(|| look().map(|face| face.uri)).clone()
    }
}
