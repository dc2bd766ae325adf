//! Recorded traces: what `nw tap --write` kept of a running router, as a trace.
//!
//! Only what came to the router is taken, as what left is for each host to make of it. Time passes as it did. Faces that answer are the peers of a trace, in the
//! order of their first answer; all others are its applications. Management is left out: hosts here have none, and are told routes by a file beside the capture,
//! NAME.routes, one a line as graphs have them: `/prefix north cost=1`, or `strategy /prefix multicast`.
//!
//! `tests/hosts/record` makes the files.

use crate::trace::{FACES, Routes, Step, Trace};
use nw_api::pcapng::{Block, block_len, read};
use nw_name::Name;
use nw_wire::{Data, Interest, LpPacket};
use std::collections::BTreeMap;

/// A packet of a capture that came.
struct Came {
    at_ns: u64,
    interface: u32,
    wire: Vec<u8>,
    token: Vec<u8>,
    nack: Option<u8>,
}

/// A trace of a capture and what is written of routes.
///
/// # Errors
/// What can't be read, or does not fit a trace.
pub fn trace_of(capture: &[u8], routes: &str) -> Result<Trace, String> {
    let came = packets(capture)?;
    let mut faces: BTreeMap<u32, usize> = BTreeMap::new();
    for packet in came.iter().filter(|packet| packet.is_data()) {
        let next = faces.len() + 1;
        faces.entry(packet.interface).or_insert(next);
    }
    if faces.len() >= FACES.len() {
        return Err(format!("{} faces answer, and traces have {}", faces.len(), FACES.len() - 1));
    }
    let mut steps = Vec::new();
    let mut now_ms = came.first().map_or(0, |first| first.at_ns / 1_000_000);
    for packet in came {
        let mut passed_ms = (packet.at_ns / 1_000_000).saturating_sub(now_ms);
        now_ms += passed_ms;
        while passed_ms > 0 {
            let ms = u16::try_from(passed_ms).unwrap_or(u16::MAX);
            steps.push(Step::Wait { ms });
            passed_ms -= u64::from(ms);
        }
        let face = faces.get(&packet.interface).copied().unwrap_or(0);
        steps.push(Step::Recorded { face, wire: packet.wire, token: packet.token, nack: packet.nack });
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

fn packets(capture: &[u8]) -> Result<Vec<Came>, String> {
    let mut came = Vec::new();
    let mut rest = capture;
    while !rest.is_empty() {
        let len = block_len(rest).map_err(|error| error.to_string())?;
        let (block, behind) =
            len.and_then(|len| rest.split_at_checked(len)).ok_or("a block that is not whole")?;
        rest = behind;
        let Block::Packet(packet) = read(block).map_err(|error| error.to_string())? else { continue };
        let lp = LpPacket::check(packet.link_packet).map_err(|error| error.to_string())?;
        if lp.frag_count > 1 {
            return Err("a packet in pieces: record where links carry whole ones".to_owned());
        }
        let Some(wire) = lp.fragment.filter(|_| packet.incoming) else { continue };
        let token = lp.pit_token.as_bytes().to_vec();
        let nack = lp.nack.map(|reason| reason.number() as u8);
        let packet =
            Came { at_ns: packet.at_ns, interface: packet.interface, wire: wire.to_vec(), token, nack };
        if !name_of(&packet.wire)?.to_string().starts_with("/localhost/") {
            came.push(packet);
        }
    }
    Ok(came)
}

impl Came {
    fn is_data(&self) -> bool {
        Data::check(&self.wire).is_ok()
    }
}

/// The name of a packet.
///
/// # Errors
/// When it is none.
pub fn name_of(wire: &[u8]) -> Result<Name, String> {
    match Interest::check(wire) {
        Ok(interest) => Ok(interest.name().to_name()),
        Err(_) => Data::check(wire).map(|data| data.name().to_name()).map_err(|error| error.to_string()),
    }
}
