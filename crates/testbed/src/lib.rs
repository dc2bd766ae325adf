//! The testbed of a cluster behind its balancer, from network namespaces on one machine: consumers, balancers, members, producers, links with rates,
//! shares of processors. See the README for a picture.
//!
//! Layer 6 (users).

#![forbid(unsafe_code)]

mod balancer;
mod cluster;
mod ends;
mod error;
mod ethtool;
mod losses;
mod node;
mod picture;
mod plan;
mod process;
mod quota;
mod remains;
mod router;
mod space;

pub use balancer::Balancer;
pub use cluster::{Cluster, Member};
pub use ends::{
    Consumer, Download, FetchPlan, Fetched, Generated, Generating, Producer, Publication, PublishPlan,
};
pub use error::LabError;
pub use losses::Losses;
pub use node::{Node, Traffic};
pub use plan::{Addresses, ENDS_MAX, MEMBERS_MAX, PORT, Plan, RouterProgram, Transport, member_port};
pub use process::Running;
pub use remains::{Cleaned, clean, needs_root};
pub use router::Router;
pub use space::within;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
