//! The differential test: one trace of packets through every host of the standard router. What leaves, and what is counted, must be the same.

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

/// One for all hosts.
pub const KEY: HashKey = HashKey::new([0x9e37_79b9, 0x7f4a_7c15, 0xbf58_476d, 0x94d0_49bb]);

/// What a host made of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// By step: what left because of it.
    pub sent: Vec<Vec<Sent>>,
    /// Packets dropped, by reason.
    pub drops: BTreeMap<String, u64>,
    /// What the tables hold in the end, and what was counted there.
    pub tables: Tables,
}

impl Outcome {
    /// The first difference from another outcome, for a person; `None` where there is none.
    pub fn difference(&self, other: &Outcome) -> Option<String> {
        for (step, (own, others)) in self.sent.iter().zip(&other.sent).enumerate() {
            if own != others {
                return Some(format!("step {}: sent\n  {own:?}\nand\n  {others:?}", step + 1));
            }
        }
        if self.drops != other.drops {
            return Some(format!("dropped\n  {:?}\nand\n  {:?}", self.drops, other.drops));
        }
        (self.tables != other.tables)
            .then(|| format!("tables\n  {:?}\nand\n  {:?}", self.tables, other.tables))
    }
}

/// A way to run the standard router.
pub trait Host {
    /// What it is called.
    const NAME: &'static str;

    /// Takes a trace from the first step to the last.
    fn run(trace: &Trace) -> Outcome;
}
