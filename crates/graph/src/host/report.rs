//! Counters of a running graph.

use crate::engine::PortCount;
use nw_element_api::DropCounters;
use nw_faces::{FaceCounters, FaceStatus};
use serde::Serialize;

/// Counters since the start.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Seconds since the start.
    pub uptime_s: f64,
    /// True while elements of a replaced graph wait for replies.
    pub changing: bool,
    /// True while the graph is draining: it drops new Interests.
    pub draining: bool,
    /// Interests, Data and Nacks received by all faces, including closed ones.
    pub received: [u64; 3],
    /// Interests, Data and Nacks sent by all faces, including closed ones.
    pub sent: [u64; 3],
    /// Open faces, by id.
    pub faces: Vec<FaceReport>,
    /// Declared faces that are not open and are tried again: name and URI.
    pub missing: Vec<(String, String)>,
    /// Ports, in the order of the graph.
    pub ports: Vec<PortReport>,
    /// Drops by reason, without zeros.
    pub drops: Vec<(String, u64)>,
}

/// Counters of a face.
#[derive(Clone, Debug, Serialize)]
pub struct FaceReport {
    /// Name of the face in the graph.
    pub name: String,
    /// Face id.
    pub id: u64,
    /// URI of the peer.
    pub uri: String,
    /// Local URI.
    pub local: String,
    /// True if connected, or if the face needs no connection.
    pub up: bool,
    /// True if the face belongs to an earlier graph, and is closed when nothing is pending by it.
    pub closing: bool,
    /// Interests, Data and Nacks received.
    pub received: [u64; 3],
    /// Interests, Data and Nacks sent.
    pub sent: [u64; 3],
}

/// Counter of an element's port.
#[derive(Clone, Debug, Serialize)]
pub struct PortReport {
    /// Name of the element in the graph.
    pub node: String,
    /// `in` or `out`.
    pub side: &'static str,
    /// Name of the port.
    pub port: &'static str,
    /// Packets that passed.
    pub packets: u64,
}

pub(super) const fn received(counters: &FaceCounters) -> [u64; 3] {
    [counters.in_interests, counters.in_data, counters.in_nacks]
}

pub(super) const fn sent(counters: &FaceCounters) -> [u64; 3] {
    [counters.out_interests, counters.out_data, counters.out_nacks]
}

pub(super) fn drops(drops: &DropCounters) -> Vec<(String, u64)> {
    let happened = drops.iter().filter(|(_, count)| *count > 0);
    happened.map(|(reason, count)| (reason.as_str().to_owned(), count)).collect()
}

impl FaceReport {
    pub(super) fn new(name: &str, status: &FaceStatus, closing: bool) -> Self {
        FaceReport {
            name: name.to_owned(),
            id: status.id.number(),
            uri: status.uri.to_string(),
            local: status.local_uri.to_string(),
            up: status.up,
            closing,
            received: received(&status.counters),
            sent: sent(&status.counters),
        }
    }
}

impl PortReport {
    pub(super) fn new(count: &PortCount<'_>) -> Self {
        PortReport {
            node: count.node.to_owned(),
            side: if count.is_out { "out" } else { "in" },
            port: count.port,
            packets: count.packets,
        }
    }
}
