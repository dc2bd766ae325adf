//! Runs a cluster of routers behind a kernel balancer: members and their states, health checks,
//! route replication, weights, autoscaling.
//!
//! Layer 6 (users): configures the kernel's program and the members' routers. Does not depend on
//! how packets are balanced or how routers forward.

#![forbid(unsafe_code)]
#![doc = include_str!("../README.md")]

pub mod agent;
pub mod autoscaler;
mod calibrate;
pub mod config;
pub mod control;
mod datapath;
pub mod health;
mod key;
pub mod launcher;
pub mod member_count;
pub mod members;
pub mod metrics;
mod neighbours;
pub mod probe;
pub mod remote_agents;
mod run;
pub mod slots;
mod state_file;
mod sysctl;
pub mod vrrp;

pub use config::Config;
pub use key::{KeyError, key};
pub use run::{Balancer, CommandError, Handle, RunError, Shutdown};
