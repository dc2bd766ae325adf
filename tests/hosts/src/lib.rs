//! The differential test: one trace of packets through every host of the standard router. Packets
//! sent, drops and table contents must be equal.

#![forbid(unsafe_code)]

pub mod fused;
pub mod graph;
pub mod memory;
pub mod recorded;
pub mod service;
pub mod simulated;
pub mod tables;
pub mod trace;

pub use tables::Tables;
pub use trace::{Answer, FACES, Routes, Sent, Step, Trace};

use nw_name::HashKey;
use std::collections::BTreeMap;

/// Hash key of all hosts.
pub const KEY: HashKey = HashKey::new([0x9e37_79b9, 0x7f4a_7c15, 0xbf58_476d, 0x94d0_49bb]);

/// The outcome of a trace in a host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// By step: the packets sent because of it.
    pub sent: Vec<Vec<Sent>>,
    /// Packets dropped, by reason.
    pub drops: BTreeMap<String, u64>,
    /// Table contents at the end, and their counters.
    pub tables: Tables,
}

impl Outcome {
    /// Returns the first difference from another outcome, as text; `None` if there is none.
    pub fn difference(&self, other: &Outcome) -> Option<String> {
        for (step, (own, expected)) in self.sent.iter().zip(&other.sent).enumerate() {
            if own != expected {
                return Some(format!("step {}: sent\n  {own:?}\nand\n  {expected:?}", step + 1));
            }
        }
        if self.drops != other.drops {
            return Some(format!("dropped\n  {:?}\nand\n  {:?}", self.drops, other.drops));
        }
        (self.tables != other.tables)
            .then(|| format!("tables\n  {:?}\nand\n  {:?}", self.tables, other.tables))
    }
}

/// A host of the standard router.
pub trait Host {
    /// Name in messages.
    const NAME: &'static str;

    /// Runs a trace from the first step to the last.
    fn run(trace: &Trace) -> Outcome;
}
