//! Generators, references and comparisons: each claim about speed is a row here, measured beside its reference in the same run.
//!
//! Layer 6 (users).

#![forbid(unsafe_code)]

pub mod balancer;
pub mod cluster;
pub mod control;
pub mod ends;
pub mod forward;
pub mod idle;
pub mod plain;
pub mod process;
pub mod relay;
pub mod report;
pub mod services;
pub mod shards;
pub mod sim;
mod space;
pub mod table_rows;
pub mod tables;
pub mod transfer;
pub mod verify;
pub mod veth;
pub mod wire;
