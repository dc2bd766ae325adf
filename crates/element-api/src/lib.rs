//! The contract of a packet function.
//!
//! An element is a plain value: [`Element::process`] takes the time, a packet and an outbox. It reads no clock, opens no socket, takes no lock,
//! starts no thread. Hosts own time, threads and I/O. Layer 3 (action): refuses to know any element.

#![forbid(unsafe_code)]

mod announcements;
pub mod case;
pub mod decode;
pub mod drops;
pub mod element;
pub mod erased;
pub mod journal;
pub mod meta;
pub mod parameters;
pub mod pool;
pub mod shortages;

pub use announcements::{ANNOUNCEMENT_LEN_MAX, Ticket};
pub use drops::{Cause, DropCounters, DropReason};
pub use element::{Context, Element, Outbox, PREFETCH_STAGES_MAX, Port, PortInfo, Work};
pub use erased::{AnyElement, Erased, Lent, Runs};
pub use meta::{Kind, LinkFields, Meta};
pub use nw_tables::face::{FaceId, FaceInfo, FaceTable, LinkType, Peer, Scope};
pub use nw_tables::memory::lending::Loan;
pub use nw_tables::time::Instant;
pub use parameters::{Parameters, Value};
pub use pool::{Chunk, Packet, Pool};
pub use shortages::{SharedPool, Shortages};
