//! Publish/subscribe as pure state machines: what is published and wanted (`rendezvous`), which
//! nodes a publication must reach (`topology`), and by which identifier (`filter`, `stages`).
//!
//! ```text
//! request ─▶ Rendezvous (Graph) ─▶ replies, notices, membership changes
//! membership change, link state ─▶ Topology (paths, LinkIds) ─▶ deliveries: publisher, FID
//! publication ─▶ History, Sequencer ─▶ fragments ─▶ Reassembler, GapDetector ─▶ subscriber
//! ```
//!
//! Every table is bounded at construction. Time and seeds are arguments. Layer 2: it does not
//! depend on packets, faces or elements.

#![forbid(unsafe_code)]

pub mod filter;
pub mod fragments;
pub mod graph;
pub mod history;
pub mod leases;
pub mod names;
pub mod parents;
pub mod rendezvous;
pub mod sequences;
mod small_set;
pub mod stages;
pub mod strategy;
pub mod topology;

pub use nw_packet_types::Timestamp;
pub use rendezvous::ReturnCode;
pub use rendezvous::{Effect, ItemKey, MembershipChange, Rendezvous, RendezvousLimits, Request};
pub use strategy::{Candidate, ItemOptions, PublisherChoice, Strategy};
pub use topology::{Delivery, Topology, TopologyConfig};

/// The README's example is compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
