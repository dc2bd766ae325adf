//! The control vocabulary: NFD management messages, configuration, counters' names.
//!
//! Layer 4: knows what is said to and by a router, refuses to know how it is done. The only crate that derives serialization for the outside.

#![forbid(unsafe_code)]
#![doc = include_str!("../README.md")]

pub mod balancer;
pub mod config;
pub mod counters;
pub mod management;
pub mod pcapng;
pub mod report;
pub mod rest;
pub mod schema;
pub mod service;
pub mod trace;

pub use config::Config;
