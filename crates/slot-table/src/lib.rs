//! Maps names to the members of a cluster: a pure function of the members, their weights, the rules
//! and two secrets that all balancers of the cluster share.
//!
//! ```text
//! name ─▶ rule of the longest prefix ─┬─ depth: hash of that many components ─▶ slot ─▶ member
//!                                     └─ control ─────────────────────────────────▶ control member
//! ```
//!
//! `crates/kernel/bpf/balance.h` implements the same function for each packet in the kernel. The
//! function has no state, so two balancers with one configuration agree without messages.
//! Layer 2: it does not depend on packets, sockets or addresses.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod rules;
mod table;

pub use rules::{Decision, Effect, Rule, RuleError, Rules};
pub use table::{MEMBERS_MAX, Member, NO_MEMBER, Placement, SLOTS, Table, locate_name};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
