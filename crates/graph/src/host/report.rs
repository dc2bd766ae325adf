//! What a running graph counted.

use crate::engine::PortCount;
use nw_element_api::DropCounters;
use nw_faces::{FaceCounters, FaceStatus};
use serde::Serialize;

/// What was counted since the start.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Seconds since the start.
    pub uptime_s: f64,
    /// True while elements of an older graph still wait for answers.
    pub changing: bool,
    /// True while it takes no more Interests, before its end.
    pub draining: bool,
    /// Interests, Data and Nacks received by all faces there were.
    pub received: [u64; 3],
    /// Interests, Data and Nacks sent by them.
    pub sent: [u64; 3],
    /// Those there are, by id.
    pub faces: Vec<FaceReport>,
    /// Declared faces that are not there, and are tried again: name, and where it leads.
    pub missing: Vec<(String, String)>,
    /// In the order of the graph.
    pub ports: Vec<PortReport>,
    /// By reason: those that happened.
    pub drops: Vec<(String, u64)>,
}

/// A face.
#[derive(Clone, Debug, Serialize)]
pub struct FaceReport {
    /// In the graph.
    pub name: String,
    /// Its number.
    pub id: u64,
    /// Its peer.
    pub uri: String,
    /// Its near end.
    pub local: String,
    /// Connected, or needs no connection.
    pub up: bool,
    /// Interests, Data and Nacks received.
    pub received: [u64; 3],
    /// Interests, Data and Nacks sent.
    pub sent: [u64; 3],
}

/// A port of an element.
#[derive(Clone, Debug, Serialize)]
pub struct PortReport {
    /// The element in the graph.
    pub node: String,
    /// `in` or `out`.
    pub side: &'static str,
    /// The port.
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
    pub(super) fn new(name: &str, status: &FaceStatus) -> Self {
        FaceReport {
            name: name.to_owned(),
            id: status.id.number(),
            uri: status.uri.to_string(),
            local: status.local_uri.to_string(),
            up: status.up,
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
