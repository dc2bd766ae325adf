//! Networks of services: what a document asks for, what runs, and the steps from one to the other.
//! Layer 3, pure: no clock, socket, thread or file. Time is passed in, in milliseconds.
//!
//! ```text
//!  Document ─┐                                     ┌─ observed ◀─ engines, control sockets
//!  Decisions ┴─ expand ─▶ Target ─ plan(target, observed) ─▶ Plan: waves of steps
//!      ▲                                           └─ samples, reports
//!      └── scaling, defence, registrations ◀─────────────┘
//! ```
//!
//! | module | content |
//! |---|---|
//! | [`document`] | the wanted network: a checked graph file with hosts, services and bounds |
//! | [`target`] | what must run: instances with their graph texts, links, routes |
//! | [`mod@expand`] | document and decisions to target |
//! | [`observed`] | what runs, as plain data |
//! | [`mod@plan`] | the difference, and the steps in waves |
//! | [`scale`] | number of instances, from their load |
//! | [`defence`] | countermeasures, from signals of attacks |
//! | [`routes`] | routes of all name routers, from registrations |

#![forbid(unsafe_code)]

pub mod defence;
pub mod document;
pub mod expand;
pub mod observed;
pub mod plan;
pub mod routes;
pub mod scale;
pub mod target;

pub use document::Document;
pub use expand::{ExpandError, expand};
pub use observed::Observed;
pub use plan::{Plan, plan};
pub use target::{Decisions, InstanceId, Target};

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
