//! Runs a network of services as a document describes it: starts and stops instances, changes their
//! graphs while packets flow, scales and heals.
//!
//! Layer 6 (users): decides nothing by itself. `nw-manage` computes targets, plans and decisions;
//! this crate observes, carries out steps, and keeps the journal.

#![forbid(unsafe_code)]
#![doc = include_str!("../README.md")]

mod access;
mod drawing;
pub mod engine;
mod events;
mod map;
mod metrics;
mod remote_hosts;
mod run;
mod samples;
pub mod serve;
mod service_client;
mod steps;
pub mod store;
mod world;

pub use remote_hosts::RemoteHosts;
pub use run::{
    AUTHORITY_FOLDER, Author, CONTROL_SOCKET, CommandError, DOCUMENT_BYTES_MAX, FirstDocument,
    Handle, Manager, Options, StartError,
};
