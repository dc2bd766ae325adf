//! Testbeds built from network namespaces on one machine: a cluster behind its balancer, with
//! consumers, balancers, members, producers, links with rates, and shares of processors; a chain of
//! two routers; and the network of a simulator's scenario. See the README for a diagram.
//!
//! Layer 6 (users).

#![forbid(unsafe_code)]

mod balancer;
mod cgroup;
mod chain;
mod cleanup;
mod cluster;
mod diagram;
mod endpoints;
mod error;
mod ethtool;
mod loss_counters;
mod netns;
mod network;
mod node;
mod plan;
mod point_network;
mod process;
mod router;

pub use balancer::Balancer;
pub use chain::{Chain, ChainPlan, ChainTransport};
pub use cleanup::{Cleaned, clean, needs_root};
pub use cluster::{Cluster, Member};
pub use endpoints::{
    Consumer, Download, FetchPlan, Fetched, Generated, Generator, Producer, Publication,
    PublishPlan,
};
pub use error::LabError;
pub use loss_counters::LossCounters;
pub use netns::within_netns;
pub use network::{LINKS_MAX, NODES_MAX, NetworkOutcome, run_network};
pub use node::{Node, Traffic};
pub use plan::{
    Addresses, ENDPOINTS_MAX, MEMBERS_MAX, PORT, Plan, RouterProgram, Transport, member_port,
};
pub use point_network::{PointLink, PointNetwork};
pub use process::Running;
pub use router::Router;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
