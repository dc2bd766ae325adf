//! Recorded traces: converts what `nw tap --write` recorded at a running router to a trace.
//!
//! Only received packets are used, since each host generates its own output. Time passes as
//! recorded. Faces that send Data are the peers of a trace, in the order of their first Data; all
//! others are applications. Management packets are left out: the hosts have none and read the
//! routes from a file next to the capture, NAME.routes, one per line in the form of graph
//! parameters: `/prefix north cost=1`, or `strategy /prefix multicast`.
//!
//! `tests/hosts/record` creates the files.

use crate::trace::{FACES, Routes, Step, Trace};
use nw_api::pcapng::{Block, block_len, read};
use nw_name::Name;
use nw_wire::{Data, Interest, LpPacket};
use std::collections::BTreeMap;

/// A received packet of a capture.
struct ReceivedPacket {
    at_ns: u64,
    interface: u32,
    wire: Vec<u8>,
    token: Vec<u8>,
    nack: Option<u8>,
}

/// Converts a capture and its routes to a trace.
///
/// # Errors
/// If the capture can't be read, or does not fit a trace.
pub fn trace_of(capture: &[u8], routes: &str) -> Result<Trace, String> {
    let received = packets(capture)?;
    let mut faces: BTreeMap<u32, usize> = BTreeMap::new();
    for packet in received.iter().filter(|packet| packet.is_data()) {
        let next = faces.len() + 1;
        faces.entry(packet.interface).or_insert(next);
    }
    if faces.len() >= FACES.len() {
        return Err(format!(
            "{} faces send Data, and traces have {}",
            faces.len(),
            FACES.len() - 1
        ));
    }
    let mut steps = Vec::new();
    let mut now_ms = received.first().map_or(0, |first| first.at_ns / 1_000_000);
    for packet in received {
        let mut passed_ms = (packet.at_ns / 1_000_000).saturating_sub(now_ms);
        now_ms += passed_ms;
        while passed_ms > 0 {
            let ms = u16::try_from(passed_ms).unwrap_or(u16::MAX);
            steps.push(Step::Wait { ms });
            passed_ms -= u64::from(ms);
        }
        let face = faces.get(&packet.interface).copied().unwrap_or(0);
        steps.push(Step::Recorded {
            face,
            wire: packet.wire,
            token: packet.token,
            nack: packet.nack,
        });
    }
    let (strategies, routes): (Vec<&str>, Vec<&str>) =
        routes.lines().filter(|line| !line.is_empty()).partition(|line| line.starts_with(STRATEGY));
    let strategies = strategies.iter().map(|line| line[STRATEGY.len()..].to_owned()).collect();
    Ok(Trace {
        routes: Routes { routes: routes.into_iter().map(str::to_owned).collect(), strategies },
        steps,
    })
}

const STRATEGY: &str = "strategy ";

fn packets(capture: &[u8]) -> Result<Vec<ReceivedPacket>, String> {
    let mut received = Vec::new();
    let mut remaining = capture;
    while !remaining.is_empty() {
        let len = block_len(remaining).map_err(|error| error.to_string())?;
        let (block, after) =
            len.and_then(|len| remaining.split_at_checked(len)).ok_or("an incomplete block")?;
        remaining = after;
        let Block::Packet(packet) = read(block).map_err(|error| error.to_string())? else {
            continue;
        };
        let lp = LpPacket::check(packet.link_packet).map_err(|error| error.to_string())?;
        if lp.frag_count > 1 {
            return Err("a fragmented packet: record on links without fragmentation".to_owned());
        }
        let Some(wire) = lp.fragment.filter(|_| packet.incoming) else { continue };
        let token = lp.pit_token.as_bytes().to_vec();
        let nack = lp.nack.map(|reason| reason.number() as u8);
        let packet = ReceivedPacket {
            at_ns: packet.at_ns,
            interface: packet.interface,
            wire: wire.to_vec(),
            token,
            nack,
        };
        if !name_of(&packet.wire)?.to_string().starts_with("/localhost/") {
            received.push(packet);
        }
    }
    Ok(received)
}

impl ReceivedPacket {
    fn is_data(&self) -> bool {
        Data::check(&self.wire).is_ok()
    }
}

/// Returns the name of a packet.
///
/// # Errors
/// If it is neither an Interest nor Data.
pub fn name_of(wire: &[u8]) -> Result<Name, String> {
    match Interest::check(wire) {
        Ok(interest) => Ok(interest.name().to_name()),
        Err(_) => {
            Data::check(wire).map(|data| data.name().to_name()).map_err(|error| error.to_string())
        }
    }
}
