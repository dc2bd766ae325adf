//! Benchmark rows: each claim about speed is measured here together with its reference, in the same
//! run.
//!
//! Layer 6 (tools). A developers' tool: no product crate depends on it.

#![forbid(unsafe_code)]

pub mod balancer;
pub mod cluster;
pub mod control;
pub mod domain_join;
pub mod endpoints;
pub mod forward;
pub mod idle;
pub mod insert;
mod lipsin_relay;
mod lipsin_xdp;
pub mod local_pubsub;
pub mod manager;
mod netns;
pub mod overload;
pub mod poison;
pub mod process;
pub mod publish_subscribe;
pub mod pubsub_nodes;
mod references;
pub mod registration;
pub mod relay;
pub mod report;
pub mod scaling;
pub mod services;
pub mod shards;
pub mod sim;
pub mod table_rows;
pub mod tables;
pub mod transfer;
pub mod udp_baseline;
pub mod verify;
pub mod veth;
pub mod wire;
