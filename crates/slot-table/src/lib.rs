//! Which member of a cluster serves a name: a pure function of the members, their weights, the rules and two secrets that all balancers share.
//!
//! ```text
//! name ─▶ rules: the longest prefix says how many components count, or "the control member" ─▶ hash ─▶ slot ─▶ member
//! ```
//!
//! The twin of `crates/kernel/bpf/balance.h`, which decides the same for each packet in the kernel. As nothing here remembers what was
//! before, two balancers with one configuration agree without talking. Layer 2: refuses to know packets, sockets and addresses.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod rules;
mod table;

pub use rules::{Decision, Effect, Rule, RuleError, Rules};
pub use table::{MEMBERS_MAX, Member, NO_MEMBER, SLOTS, Served, Table, where_is};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
