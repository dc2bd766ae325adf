//! `nw tap`: live packets, one line each, or as a pcapng file for Wireshark.

use super::ControlArgs;
use super::http::{ControlAddress, Method, Response, escape, request, request_json};
use crate::output::stdout;
use crate::output::{count, json_line};
use crate::signals::StopFlag;
use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use core::time::Duration;
use nw_api::management::FaceStatus;
use nw_api::pcapng::{self, Block, Packet};
use nw_wire::{Data, Interest, LpPacket};
use serde::Serialize;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::path::PathBuf;
use std::process::ExitCode;

/// Interval at which Ctrl-C is checked.
const SLICE: Duration = Duration::from_millis(100);

#[derive(Debug, Args)]
pub struct Tap {
    #[command(flatten)]
    pub control: ControlArgs,
    /// Only packets with names under this prefix
    #[arg(long, short, value_name = "PREFIX")]
    pub name: Option<nw_name::Name>,
    #[command(flatten)]
    pub options: TapOptions,
}

/// What is captured, and how it is shown.
#[derive(Debug, Args)]
pub struct TapOptions {
    /// Only packets received or sent on this face
    #[arg(long, short, value_name = "ID")]
    pub face: Option<u64>,
    /// Only packets of these kinds, separated by commas
    #[arg(long, short, value_enum, value_delimiter = ',')]
    pub kind: Vec<Kind>,
    /// Only received, or only sent packets
    #[arg(long, short, value_enum)]
    pub direction: Option<Direction>,
    /// Exit after this many packets
    #[arg(long, short, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// Write pcapng to this file, or - for standard output, instead of lines
    ///
    /// Packets are written as Ethernet frames with EtherType 0x8624 and artificial addresses, one
    /// interface per face.
    #[arg(long, short, value_name = "FILE", conflicts_with = "json")]
    pub write: Option<PathBuf>,
    /// Print one JSON object per packet
    #[arg(long)]
    pub json: bool,
}

/// An element of a graph, or one of its output ports: `ELEMENT` or `ELEMENT.PORT`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ElementPort {
    element: String,
    port: Option<String>,
}

impl core::str::FromStr for ElementPort {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (element, port) = match text.split_once('.') {
            Some((element, port)) => (element, Some(port)),
            None => (text, None),
        };
        if element.is_empty() || port.is_some_and(str::is_empty) {
            return Err("write ELEMENT or ELEMENT.PORT");
        }
        Ok(ElementPort { element: element.to_owned(), port: port.map(str::to_owned) })
    }
}

/// Options that select an element inside of a service.
#[derive(Debug, Args)]
pub struct ElementOption {
    /// Packets that leave this element of the graph, or only by this output port: ELEMENT[.PORT]
    ///
    /// Instead of the packets at faces. Each line has the port by which the packet left.
    #[arg(long, short, value_name = "ELEMENT", conflicts_with_all = ["face", "direction"])]
    pub element: Option<ElementPort>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// Interests
    Interest,
    /// Data
    Data,
    /// Network Nacks
    Nack,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Direction {
    /// Received packets
    In,
    /// Sent packets
    Out,
}

/// A packet as a line of output.
#[derive(Debug, Serialize)]
struct Line {
    at_ns: u64,
    direction: &'static str,
    interface: String,
    /// Remote URI of the face. `None` for faces created after the capture began.
    uri: Option<String>,
    kind: &'static str,
    name: Option<String>,
    #[serde(flatten)]
    details: Details,
    bytes: usize,
    /// Packets lost before this one: more than are captured, or than this program reads.
    lost: u64,
}

/// Header fields of a packet. `None` for fields that it does not have.
#[derive(Debug, Default, Serialize)]
struct Details {
    pit_token: Option<String>,
    congestion_mark: Option<u64>,
    can_be_prefix: Option<bool>,
    must_be_fresh: Option<bool>,
    nack_reason: Option<&'static str>,
    freshness_ms: Option<u64>,
}

impl Details {
    /// Returns the fields as text, each followed by a blank.
    fn describe(&self) -> String {
        let mut parts = Vec::new();
        parts.extend(self.pit_token.as_ref().map(|token| format!("token {token}")));
        parts.extend(self.congestion_mark.map(|mark| format!("mark {mark}")));
        parts.extend(self.can_be_prefix.filter(|is_set| *is_set).map(|_| "prefix".to_owned()));
        parts.extend(self.must_be_fresh.filter(|is_set| *is_set).map(|_| "fresh".to_owned()));
        parts.extend(self.nack_reason.map(str::to_owned));
        parts.extend(self.freshness_ms.filter(|ms| *ms > 0).map(|ms| format!("fresh for {ms} ms")));
        parts.iter().map(|part| format!("{part} ")).collect()
    }
}

/// Runs `nw tap`.
pub fn tap(args: &Tap) -> Result<ExitCode> {
    let address = args.control.address()?;
    if let Some(face) = args.options.face {
        // Fails for a face that does not exist, whose packets would never arrive.
        let _: FaceStatus =
            request_json(&address, Method::Get, &format!("/v1/faces/{face}"), None)?;
    }
    show(&address, "/v1/tap", args.name.as_ref(), None, &args.options)
}

/// Shows or writes the capture of a program that serves one under `path`: packets with names under
/// `prefix`.
pub fn show(
    address: &ControlAddress,
    path: &str,
    prefix: Option<&nw_name::Name>,
    element: Option<&ElementPort>,
    args: &TapOptions,
) -> Result<ExitCode> {
    let stop_flag = StopFlag::watch()?;
    let path = format!("{path}?{}", query(prefix, element, args));
    let response = request(address, Method::Get, &path, None)?;
    response.set_timeout(SLICE)?;
    let mut blocks = Blocks { response, bytes: Vec::new(), start: 0 };
    let (packets, lost) = match &args.write {
        Some(path) => copy(&mut blocks, path, &stop_flag)?,
        None => print(&mut blocks, args.json, &stop_flag)?,
    };
    if args.write.is_some() || lost > 0 {
        let lost_note = if lost > 0 {
            format!(", {lost} lost: more than were captured, or than this program read")
        } else {
            String::new()
        };
        note!("{}{lost_note}", count(packets, "packet"));
    }
    Ok(ExitCode::SUCCESS)
}

fn query(
    prefix: Option<&nw_name::Name>,
    element: Option<&ElementPort>,
    args: &TapOptions,
) -> String {
    let mut parts = Vec::new();
    if let Some(ElementPort { element, port }) = element {
        parts.push(format!("element={}", escape(element)));
        parts.extend(port.as_ref().map(|port| format!("port={}", escape(port))));
    }
    parts.extend(args.face.map(|face| format!("face={face}")));
    parts.extend(prefix.map(|name| format!("name={}", escape(&name.to_string()))));
    if !args.kind.is_empty() {
        let kinds: Vec<_> = args.kind.iter().map(value_name).collect();
        parts.push(format!("kind={}", kinds.join(",")));
    }
    parts.extend(
        args.direction.as_ref().map(|direction| format!("direction={}", value_name(direction))),
    );
    parts.extend(args.count.map(|count| format!("count={count}")));
    parts.join("&")
}

/// Returns the name of a value on the command line, as in queries.
fn value_name(value: &impl ValueEnum) -> String {
    value.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

/// The blocks of a pcapng stream as they arrive.
struct Blocks {
    response: Response,
    bytes: Vec<u8>,
    start: usize,
}

impl Blocks {
    /// Returns the next complete block. `None` at the end of the stream, or after Ctrl-C.
    fn next(&mut self, stop_flag: &StopFlag) -> Result<Option<&[u8]>> {
        loop {
            let unread = &self.bytes[self.start..];
            if let Some(len) = pcapng::block_len(unread)?.filter(|len| *len <= unread.len()) {
                let start = self.start;
                self.start += len;
                return Ok(Some(&self.bytes[start..start + len]));
            }
            self.bytes.drain(..self.start);
            self.start = 0;
            let mut buffer = [0; 64 * 1024];
            match self.response.read(&mut buffer) {
                _ if stop_flag.is_set() => return Ok(None),
                Ok(0) if self.bytes.is_empty() => return Ok(None),
                Ok(0) => bail!("the capture was interrupted: the program has ended"),
                Ok(len) => self.bytes.extend_from_slice(&buffer[..len]),
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                    ) => {}
                Err(error) => return Err(error).context("the capture was interrupted"),
            }
        }
    }
}

/// Writes blocks unchanged to a file. Returns the numbers of packets written and lost.
fn copy(blocks: &mut Blocks, path: &PathBuf, stop_flag: &StopFlag) -> Result<(u64, u64)> {
    let mut out: Box<dyn Write> = match path.as_os_str() == "-" {
        true => Box::new(stdout()),
        false => {
            Box::new(File::create(path).with_context(|| format!("can't write {}", path.display()))?)
        }
    };
    let (mut packets, mut lost) = (0, 0);
    while let Some(block) = blocks.next(stop_flag)? {
        match pcapng::read(block)? {
            Block::Packet(packet) => {
                packets += 1;
                lost += packet.lost;
            }
            Block::Lost(total) => lost = lost.max(total),
            Block::Section | Block::Interface(..) | Block::Other => {}
        }
        out.write_all(block).with_context(|| format!("can't write {}", path.display()))?;
        out.flush()?;
    }
    Ok((packets, lost))
}

/// Prints packets as lines. Returns the numbers of packets printed and lost.
fn print(blocks: &mut Blocks, json: bool, stop_flag: &StopFlag) -> Result<(u64, u64)> {
    let mut interfaces: Vec<(String, String)> = Vec::new();
    let (mut packets, mut lost) = (0, 0);
    while let Some(block) = blocks.next(stop_flag)? {
        match pcapng::read(block)? {
            Block::Interface(name, uri) => interfaces.push((name, uri)),
            Block::Packet(packet) => {
                packets += 1;
                lost += packet.lost;
                let unknown = (String::from("face ?"), String::new());
                let (interface, uri) =
                    interfaces.get(packet.interface as usize).unwrap_or(&unknown).clone();
                let line = describe(&packet, interface, uri);
                if json { json_line(&line)? } else { print_line(&line)? }
            }
            Block::Lost(total) => {
                let more = total.saturating_sub(lost);
                lost += more;
                if !json && more > 0 {
                    outln!("… {} lost here", count(more, "packet"))?;
                }
            }
            Block::Section | Block::Other => {}
        }
    }
    Ok((packets, lost))
}

fn print_line(line: &Line) -> Result<()> {
    if line.lost > 0 {
        outln!("… {} lost here", count(line.lost, "packet"))?;
    }
    let (s, us) = (line.at_ns / 1_000_000_000 % 86_400, line.at_ns / 1000 % 1_000_000);
    outln!(
        "{:02}:{:02}:{:02}.{us:06} {:3} {:9} {:8} {} {}({} bytes)",
        s / 3600,
        s / 60 % 60,
        s % 60,
        line.direction,
        line.interface,
        line.kind,
        line.name.as_deref().unwrap_or_default(),
        line.details.describe(),
        line.bytes
    )?;
    Ok(stdout().flush()?)
}

/// Returns the line for a packet, with all fields that can be parsed.
fn describe(packet: &Packet<'_>, interface: String, uri: String) -> Line {
    let (kind, name, details) = read_packet(packet.link_packet);
    Line {
        at_ns: packet.at_ns,
        direction: if packet.incoming { "in" } else { "out" },
        interface,
        uri: Some(uri).filter(|uri| !uri.is_empty()),
        kind,
        name,
        details,
        bytes: packet.link_packet.len(),
        lost: packet.lost,
    }
}

fn read_packet(link_packet: &[u8]) -> (&'static str, Option<String>, Details) {
    let mut details = Details::default();
    let Ok(lp) = LpPacket::check(link_packet) else { return ("unknown", None, details) };
    if !lp.pit_token.is_none() {
        details.pit_token =
            Some(lp.pit_token.as_bytes().iter().map(|byte| format!("{byte:02x}")).collect());
    }
    details.congestion_mark = (lp.congestion_mark != 0).then_some(lp.congestion_mark);
    let Some(fragment) = lp.fragment else { return ("idle", None, details) };
    if let Ok(interest) = Interest::check(fragment) {
        details.can_be_prefix = Some(interest.can_be_prefix());
        details.must_be_fresh = Some(interest.must_be_fresh());
        details.nack_reason = lp.nack.map(|reason| reason.as_str());
        let kind = if lp.nack.is_some() { "Nack" } else { "Interest" };
        return (kind, Some(interest.name().to_string()), details);
    }
    match Data::check(fragment) {
        Ok(data) => {
            details.freshness_ms = Some(data.freshness_ms());
            ("Data", Some(data.name().to_string()), details)
        }
        Err(_) => ("unknown", None, details),
    }
}
