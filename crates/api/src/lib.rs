//! The control interface: NFD management messages, configuration, names of counters, JSON of REST.
//!
//! Layer 4: defines messages and options, not their implementation: no tables, no sockets, no
//! clock. The only crate that derives serialization for external interfaces.

#![forbid(unsafe_code)]
#![doc = include_str!("../README.md")]

pub mod balancer;
pub mod config;
pub mod counters;
pub mod draft;
pub mod exposition;
pub mod management;
pub mod network;
pub mod network_access;
pub mod pcapng;
pub mod pubsub;
pub mod recording;
pub mod report;
pub mod rest;
pub mod schema;
pub mod service;
pub mod trace;

pub use config::Config;
