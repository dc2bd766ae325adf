//! `nw tap`: live packets, a line each, or as a file for Wireshark.

use super::Control;
use super::http::{Answer, Method, ask, escape};
use crate::output::json_line;
use crate::output::stdout;
use crate::signals::Ended;
use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use core::time::Duration;
use nw_api::pcapng::{self, Block, Packet};
use nw_wire::{Data, Interest, LpPacket};
use serde::Serialize;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// Between two looks at whether Ctrl-C was pressed.
const SLICE: Duration = Duration::from_millis(100);

#[derive(Debug, Args)]
pub struct Tap {
    #[command(flatten)]
    pub control: Control,
    /// Only what comes or leaves by this face
    #[arg(long, short, value_name = "ID")]
    pub face: Option<u64>,
    /// Only names under this
    #[arg(long, short, value_name = "PREFIX")]
    pub name: Option<nw_name::Name>,
    /// Only these kinds
    #[arg(long, short, value_enum, value_delimiter = ',')]
    pub kind: Vec<Kind>,
    /// Only what comes, or leaves
    #[arg(long, short, value_enum)]
    pub direction: Option<Direction>,
    /// End after so many packets
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// Write pcapng to this file, or - for standard output, instead of lines
    ///
    /// Ethernet frames with EtherType 0x8624 and made up addresses, one interface for each face.
    #[arg(long, short, value_name = "FILE", conflicts_with = "json")]
    pub write: Option<PathBuf>,
    /// Print one JSON object for each packet
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// Asks
    Interest,
    /// Answers
    Data,
    /// Refuses
    Nack,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Direction {
    /// Comes
    In,
    /// Leaves
    Out,
}

/// A packet as a line.
#[derive(Debug, Serialize)]
struct Line {
    at_ns: u64,
    direction: &'static str,
    interface: String,
    uri: String,
    kind: &'static str,
    name: String,
    details: String,
    bytes: usize,
    #[serde(skip_serializing_if = "is_zero")]
    lost: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // serde wants it so
const fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// `nw tap`
pub fn tap(args: &Tap) -> Result<ExitCode> {
    let ended = Ended::watch()?;
    let answer = ask(&args.control.place()?, Method::Get, &query(args), None)?;
    answer.set_patience(SLICE)?;
    let mut blocks = Blocks { answer, bytes: Vec::new(), start: 0 };
    let (packets, lost) = match &args.write {
        Some(path) => copy(&mut blocks, path, &ended)?,
        None => print(&mut blocks, args.json, &ended)?,
    };
    if args.write.is_some() || lost > 0 {
        let more = if lost > 0 { format!(", {lost} lost: this reader was too slow") } else { String::new() };
        note!("{packets} packets{more}");
    }
    Ok(ExitCode::SUCCESS)
}

fn query(args: &Tap) -> String {
    let mut parts = Vec::new();
    parts.extend(args.face.map(|face| format!("face={face}")));
    parts.extend(args.name.as_ref().map(|name| format!("name={}", escape(&name.to_string()))));
    if !args.kind.is_empty() {
        let kinds: Vec<_> = args.kind.iter().map(word).collect();
        parts.push(format!("kind={}", kinds.join(",")));
    }
    parts.extend(args.direction.as_ref().map(|direction| format!("direction={}", word(direction))));
    parts.extend(args.count.map(|count| format!("count={count}")));
    format!("/v1/tap?{}", parts.join("&"))
}

fn word(value: &impl ValueEnum) -> String {
    value.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

/// Blocks of a file as they come.
struct Blocks {
    answer: Answer,
    bytes: Vec<u8>,
    start: usize,
}

impl Blocks {
    /// The next whole block; `None` at the end, or when the user wants it to end.
    fn next(&mut self, ended: &Ended) -> Result<Option<&[u8]>> {
        loop {
            let rest = &self.bytes[self.start..];
            if let Some(len) = pcapng::block_len(rest)?.filter(|len| *len <= rest.len()) {
                let start = self.start;
                self.start += len;
                return Ok(Some(&self.bytes[start..start + len]));
            }
            self.bytes.drain(..self.start);
            self.start = 0;
            let mut more = [0; 64 * 1024];
            match self.answer.read(&mut more) {
                _ if ended.is_ended() => return Ok(None),
                Ok(0) if self.bytes.is_empty() => return Ok(None),
                Ok(0) => bail!("the capture broke off: the router has ended"),
                Ok(len) => self.bytes.extend_from_slice(&more[..len]),
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                    ) => {}
                Err(error) => return Err(error).context("the capture broke off"),
            }
        }
    }
}

/// Writes blocks as they are; packets written and lost.
fn copy(blocks: &mut Blocks, path: &PathBuf, ended: &Ended) -> Result<(u64, u64)> {
    let mut out: Box<dyn Write> = match path.as_os_str() == "-" {
        true => Box::new(stdout()),
        false => Box::new(File::create(path).with_context(|| format!("can't write {}", path.display()))?),
    };
    let (mut packets, mut lost) = (0, 0);
    while let Some(block) = blocks.next(ended)? {
        if let Block::Packet(packet) = pcapng::read(block)? {
            packets += 1;
            lost += packet.lost;
        }
        out.write_all(block).with_context(|| format!("can't write {}", path.display()))?;
        out.flush()?;
    }
    Ok((packets, lost))
}

fn print(blocks: &mut Blocks, json: bool, ended: &Ended) -> Result<(u64, u64)> {
    let mut interfaces: Vec<(String, String)> = Vec::new();
    let (mut packets, mut lost) = (0, 0);
    while let Some(block) = blocks.next(ended)? {
        match pcapng::read(block)? {
            Block::Interface(name, uri) => interfaces.push((name, uri)),
            Block::Packet(packet) => {
                packets += 1;
                lost += packet.lost;
                let unknown = (String::from("face ?"), String::new());
                let (interface, uri) = interfaces.get(packet.interface as usize).unwrap_or(&unknown).clone();
                let line = describe(&packet, interface, uri);
                if json { json_line(&line)? } else { print_line(&line)? }
            }
            Block::Section | Block::Other => {}
        }
    }
    Ok((packets, lost))
}

fn print_line(line: &Line) -> Result<()> {
    if line.lost > 0 {
        outln!("… {} packets lost here", line.lost)?;
    }
    let (s, us) = (line.at_ns / 1_000_000_000 % 86_400, line.at_ns / 1000 % 1_000_000);
    outln!(
        "{:02}:{:02}:{:02}.{us:06} {:3} {:9} {:8} {} {}({} octets)",
        s / 3600,
        s / 60 % 60,
        s % 60,
        line.direction,
        line.interface,
        line.kind,
        line.name,
        line.details,
        line.bytes
    )?;
    Ok(stdout().flush()?)
}

/// What a packet is, as far as it can be read.
fn describe(packet: &Packet<'_>, interface: String, uri: String) -> Line {
    let (kind, name, details) = words(packet.link_packet);
    Line {
        at_ns: packet.at_ns,
        direction: if packet.incoming { "in" } else { "out" },
        interface,
        uri,
        kind,
        name,
        details,
        bytes: packet.link_packet.len(),
        lost: packet.lost,
    }
}

fn words(link_packet: &[u8]) -> (&'static str, String, String) {
    let mut details = String::new();
    let Ok(lp) = LpPacket::check(link_packet) else { return ("unknown", String::new(), details) };
    if !lp.pit_token.is_none() {
        let hex: String = lp.pit_token.as_bytes().iter().map(|octet| format!("{octet:02x}")).collect();
        details.push_str(&format!("token {hex} "));
    }
    if lp.congestion_mark != 0 {
        details.push_str(&format!("mark {} ", lp.congestion_mark));
    }
    let Some(fragment) = lp.fragment else { return ("idle", String::new(), details) };
    if let Ok(interest) = Interest::check(fragment) {
        if interest.can_be_prefix() {
            details.push_str("prefix ");
        }
        if interest.must_be_fresh() {
            details.push_str("fresh ");
        }
        let kind = match lp.nack {
            Some(reason) => {
                details.push_str(&format!("{} ", reason.as_str()));
                "Nack"
            }
            None => "Interest",
        };
        return (kind, interest.name().to_string(), details);
    }
    match Data::check(fragment) {
        Ok(data) => {
            if data.freshness_ms() > 0 {
                details.push_str(&format!("fresh for {} ms ", data.freshness_ms()));
            }
            ("Data", data.name().to_string(), details)
        }
        Err(_) => ("unknown", String::new(), details),
    }
}
