//! Producer and consumer of a transfer, each a process of its own, with as little work as possible,
//! so that the router between them dominates.
//!
//! The producer neither signs nor reads files: it copies one prepared packet per Interest and
//! writes the segment number into it.

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

/// Results of the consumer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TransferStats {
    /// Segments fetched.
    pub segments: u64,
    /// Bytes of content.
    pub bytes: u64,
    /// Time from the first Interest to the last Data.
    pub seconds: f64,
    /// Interests sent, including retransmissions.
    pub interests: u64,
    /// Retransmitted Interests.
    pub retransmissions: u64,
    /// Data with a congestion mark.
    pub marks: u64,
    /// Median and 99th percentile of the round-trip time in microseconds.
    pub rtt_us: (u64, u64),
}

/// A SHA-256 digest of zeros: routers check only the form.
struct ZeroDigest;

impl Sign for ZeroDigest {
    type Error = core::convert::Infallible;
    fn info(&self) -> Vec<u8> {
        vec![27, 1, 0]
    }
    fn sign(&self, _: &[&[u8]]) -> Result<Vec<u8>, Self::Error> {
        Ok(vec![0; 32])
    }
}

/// Segments that a producer serves.
#[derive(Debug)]
pub struct Series {
    /// Name of the segments without their segment component.
    pub prefix: Name,
    /// Number of segments.
    pub segments: u32,
    /// Bytes of content of each segment.
    pub len: usize,
    /// FreshnessPeriod of the Data packets.
    pub freshness_ms: u64,
}

/// Answers Interests for segments of a series until the router closes the connection.
///
/// # Errors
/// If the router can't be reached.
pub fn produce(uri: &FaceUri, series: &Series, register: bool) -> Result<()> {
    let Series { prefix, segments, len, freshness_ms } = series;
    let mut client = Client::connect(uri)?;
    if register {
        control::register(&mut client, prefix.clone()).context("can't register")?;
    }
    let shortest = nw_name::tlv::Integer::new(u64::from(segments - 1));
    let last = Component::new(ComponentType::SEGMENT, shortest.as_bytes()).expect("not a digest");
    let content = vec![0x5a; *len];
    let encode = |name: &Name| {
        let Ok(wire) = DataBuilder::new(name, &content)
            .freshness_ms(*freshness_ms)
            .final_block(last)
            .encode(&ZeroDigest);
        wire
    };
    // One prepared packet per encoded length of a segment number.
    let template = |bytes: usize| -> (Vec<u8>, usize) {
        let number = [0u8; 4];
        let name = prefix
            .clone()
            .with(Component::new(ComponentType::SEGMENT, &number[..bytes]).expect("not a digest"));
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
            let Some([_, len, number @ ..]) = received.name().as_bytes().get(prefix_len..) else {
                return;
            };
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

/// Answers Interests for segments with prepared packets, in order, until the peer closes the
/// connection.
///
/// # Errors
/// If no peer connects.
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

/// Fetches all segments and returns the results.
///
/// # Errors
/// If a segment can't be fetched.
pub fn consume(uri: &FaceUri, prefix: &Name, window_max: usize) -> Result<TransferStats> {
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
        // The prepared packets have no valid digest, and only the router is measured.
        &mut Verifier::off(),
        |_| {},
        |content| {
            sum.set(sum.get() + u64::from(content[0]));
            Ok(())
        },
    )?;
    let counters = report.counters;
    Ok(TransferStats {
        segments: report.segments,
        bytes: report.bytes,
        seconds: report.elapsed.as_secs_f64(),
        interests: counters.interests,
        retransmissions: counters.retransmissions,
        marks: counters.marks,
        rtt_us: (report.rtt_us.value_at_quantile(0.5), report.rtt_us.value_at_quantile(0.99)),
    })
}
