//! Host C: an element, or a part of a graph, as a process of its own. Layer 5: does not depend on
//! what elements do, or on how packets travel between processes.
//!
//! ```text
//!  service a                      service b             a process each, with a control socket
//!  ┌──────────────────┐  link     ┌──────────────────┐
//!  │ pd ─▶ cs ─▶ link ┼──────────▶┼ link ─▶ br ─▶ nr ┼─▶ producer
//!  │          faces ◀─┼◀──────────┼─ link ◀─ br ◀─ … │            link: a face at both ends
//!  └──────────────────┘           └──────────────────┘
//! ```
//!
//! Not implemented: HTTP over TCP for the control socket (decision 0029).

#![forbid(unsafe_code)]

pub mod control;
pub mod partition;
pub mod single_element;
mod usage;

pub use control::{ControlError, serve};
pub use nw_rest_api::Server;
pub use partition::{LinkKind, PartitionError, ServicePart, partition};
pub use single_element::{Endpoints, SingleElementError, single_element_graph};
