//! A cluster of routers behind a kernel balancer: members and their states, health, routes, weights, elasticity.
//!
//! Layer 6 (users): tells the kernel's program where names go, and members' routers which routes there are; refuses to know how either does it.

#![forbid(unsafe_code)]
#![doc = include_str!("../README.md")]

pub mod agent;
pub mod config;
pub mod control;
mod datapath;
pub mod elastic;
pub mod engine;
pub mod health;
mod kept;
mod key;
mod measure;
pub mod members;
pub mod metrics;
pub mod probe;
mod run;
pub mod slots;
mod system;
pub mod vrrp;
mod ways;

pub use config::Config;
pub use key::{KeyError, key};
pub use run::{Balancer, CommandError, Ending, Handle, RunError};
