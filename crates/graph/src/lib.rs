//! Host B: runs elements connected as a graph file describes. Layer 5: does not depend on what an
//! element does. The graph itself (file, model, checker, drawings) is in `nw-graph-language`, which
//! this crate re-exports.
//!
//! ```text
//!  Graph ─▶ Engine ─▶ packets, with the same interface as the fused plane
//!             ▲
//!  sockets ─ host        graph_test: the tests of a graph file, in virtual time
//! ```

#![forbid(unsafe_code)]

pub mod engine;
pub mod graph_test;
pub mod host;

pub use engine::{
    ChangeMode, ChangeSummary, Engine, Fault, OffloadJob, PortSelection, StartedTap, TapError,
};
pub use nw_graph_language::{
    Connection, Face, Graph, GraphFile, Node, Position, Problem, Problems, Source, Target, Test,
    check, draw, help, labels, language, model, network, partition, standard,
};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
