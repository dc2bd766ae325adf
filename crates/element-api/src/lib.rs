//! The contract of a packet function ("element").
//!
//! An element is a plain value: [`Element::process`] gets the time, a packet and an outbox. It
//! reads no clock, opens no socket, takes no lock and starts no thread. Hosts own time, threads and
//! I/O. Layer 3; it depends on no element.

#![forbid(unsafe_code)]

mod announcements;
pub mod capture;
pub mod decision_trace;
pub mod decode;
pub mod drops;
pub mod element;
pub mod erased;
pub mod meta;
pub mod parameters;
pub mod pool;
pub mod shortages;
pub mod status;

pub use announcements::{ANNOUNCEMENT_LEN_MAX, AnnouncementRef};
pub use drops::{DropCause, DropCounters, DropReason};
pub use element::{
    Context, Element, OffloadTask, Outbox, PREFETCH_STAGES_MAX, Port, PortInfo, Prediction,
};
pub use erased::{AnyElement, Erased, ErasedContext, TaggedBatch};
pub use meta::{Kind, LinkFields, Meta};
pub use nw_tables::Timestamp;
pub use nw_tables::memory::shared_buffer::ReadLease;
pub use nw_tables::{FaceId, FaceInfo, FaceTable, LinkType, Peer, Scope};
pub use parameters::{Parameters, Value};
pub use pool::{Chunk, Packet, Pool};
pub use shortages::{SharedPool, Shortages};
pub use status::{ElementStatus, PacketFailure};
