//! Host C: an element, or a part of a graph, as a process of its own. Layer 5: refuses to know what elements do, and how packets travel between processes.
//!
//! ```text
//!  service a                      service b                        each a process: graph engine, faces, control socket
//!  ┌──────────────────┐  link     ┌──────────────────┐
//!  │ pd ─▶ cs ─▶ link ┼──────────▶┼ link ─▶ br ─▶ nr ┼─▶ producer
//!  │          faces ◀─┼◀──────────┼─ link ◀─ br ◀─ … │            a link: one face, both ways (unix, shared memory, TCP, UDP)
//!  └──────────────────┘           └──────────────────┘
//! ```
//!
//! What is missing: HTTP over TCP for the control socket (decision 0029).

#![forbid(unsafe_code)]

pub mod control;
pub mod cut;
pub mod single;

pub use control::{ControlError, serve};
pub use cut::{CutError, LinkKind, Piece, cut};
pub use nw_rest_api::Server;
pub use single::{Ends, SingleError, single};
