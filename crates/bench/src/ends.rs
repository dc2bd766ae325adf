//! The two ends of a transfer, each a process of its own, as cheap as can be so that what is between them is what is measured.
//!
//! The producer signs nothing and reads no file: it copies one prepared packet per Interest and writes the segment number into it.

use anyhow::{Context, Result};
use nw_app::fetch::FetchOptions;
use nw_app::object::{ObjectOptions, fetch_object_verified};
use nw_app::verify::Verifier;
use nw_app::{Client, FaceUri, control};
use nw_element_api::{Kind, LinkFields};
use nw_name::{Component, ComponentType, Name};
use nw_wire::{DataBuilder, Sign};
use serde::{Deserialize, Serialize};
use std::cell::Cell;

/// What the consumer saw.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Seen {
    /// Segments fetched.
    pub segments: u64,
    /// Octets of content.
    pub bytes: u64,
    /// First Interest to last Data.
    pub seconds: f64,
    /// Interests sent, retransmissions included.
    pub interests: u64,
    /// Interests sent again.
    pub retransmissions: u64,
    /// Data with a congestion mark.
    pub marks: u64,
    /// Median and 99th percentile of the round-trip time.
    pub rtt_us: (u64, u64),
}

/// 32 octets that claim to be a digest: routers look at the form only.
struct Unsigned;

impl Sign for Unsigned {
    type Error = core::convert::Infallible;
    fn info(&self) -> Vec<u8> {
        vec![27, 1, 0]
    }
    fn sign(&self, _: &[&[u8]]) -> Result<Vec<u8>, Self::Error> {
        Ok(vec![0; 32])
    }
}

/// Answers `prefix`/seg until the router goes away.
///
/// # Errors
/// When the router can't be reached.
pub fn produce(uri: &FaceUri, prefix: &Name, segments: u32, len: usize, register: bool) -> Result<()> {
    let mut client = Client::connect(uri)?;
    if register {
        control::register(&mut client, prefix.clone()).context("can't register")?;
    }
    let shortest = nw_name::tlv::Integer::new(u64::from(segments - 1));
    let last = Component::new(ComponentType::SEGMENT, shortest.as_bytes()).expect("not a digest");
    let content = vec![0x5a; len];
    let encode = |name: &Name| {
        let Ok(wire) =
            DataBuilder::new(name, &content).freshness_ms(1000).final_block(last).encode(&Unsigned);
        wire
    };
    // One prepared packet for each length a segment number can have.
    let template = |octets: usize| -> (Vec<u8>, usize) {
        let number = [0u8; 4];
        let name = prefix
            .clone()
            .with(Component::new(ComponentType::SEGMENT, &number[..octets]).expect("not a digest"));
        let wire = encode(&name);
        let name_len = prefix.as_ref().as_bytes().len();
        let start = wire
            .windows(name_len)
            .position(|w| w == prefix.as_ref().as_bytes())
            .expect("the name is in the packet");
        (wire, start + name_len + 2)
    };
    let mut templates = [template(1), template(2), template(4)];
    let prefix_len = prefix.as_ref().as_bytes().len();
    let result = client.run(
        |_, received, out| {
            if received.kind() != Kind::Interest {
                return;
            }
            let Some([_, len, number @ ..]) = received.name().as_bytes().get(prefix_len..) else { return };
            let (wire, at) = match (*len, number.len()) {
                (1, 1) => &mut templates[0],
                (2, 2) => &mut templates[1],
                (4, 4) => &mut templates[2],
                _ => return,
            };
            wire[*at..*at + number.len()].copy_from_slice(number);
            let link = LinkFields { token: received.token(), ..LinkFields::default() };
            out.send_with(wire, link);
        },
        || false,
    );
    until_closed(result)
}

/// Answers segments by packets made before, in their order, until the other side goes away.
///
/// # Errors
/// When nobody is there.
pub fn produce_prepared(uri: &FaceUri, packets: &[Vec<u8>]) -> Result<()> {
    let mut client = Client::connect(uri)?;
    let result = client.run(
        |_, received, out| {
            let number = received.name().component(-1).and_then(|number| number.integer());
            if let Some(wire) = number.and_then(|number| packets.get(number as usize)) {
                let link = LinkFields { token: received.token(), ..LinkFields::default() };
                out.send_with(wire, link);
            }
        },
        || false,
    );
    until_closed(result)
}

fn until_closed(result: Result<(), nw_app::ClientError>) -> Result<()> {
    match result {
        Err(nw_app::ClientError::Closed(_)) => Ok(()),
        other => Ok(other?),
    }
}

/// Fetches the whole series and prints what it saw as JSON.
///
/// # Errors
/// When something does not come.
pub fn consume(uri: &FaceUri, prefix: &Name, window_max: usize) -> Result<Seen> {
    let mut client = Client::connect(uri)?;
    let options = ObjectOptions {
        fetch: FetchOptions { window_max, ..FetchOptions::default() },
        discover_version: false,
        ..ObjectOptions::default()
    };
    let sum = Cell::new(0u64);
    let report = fetch_object_verified(
        &mut client,
        prefix.as_ref(),
        &options,
        // The prepared packets carry no valid digest, and the router is what is measured.
        &mut Verifier::off(),
        |_| {},
        |content| {
            sum.set(sum.get() + u64::from(content[0]));
            Ok(())
        },
    )?;
    let counters = report.counters;
    Ok(Seen {
        segments: report.segments,
        bytes: report.bytes,
        seconds: report.elapsed.as_secs_f64(),
        interests: counters.interests,
        retransmissions: counters.retransmissions,
        marks: counters.marks,
        rtt_us: (report.rtt_us.value_at_quantile(0.5), report.rtt_us.value_at_quantile(0.99)),
    })
}
