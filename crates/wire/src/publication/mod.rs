//! Publish/subscribe packets: Blackadder 0.4's layouts, and an envelope of this project.
//!
//! ```text
//! Blackadder, between nodes:  FID 32 | count 1 | { length 1 | labels 8·length }·count | payload
//! this project:               TLV of type 176: head | FID | stream | fragment | ids | payload
//! ```
//!
//! One file per layout. Views ([`NetworkPacket`], [`Envelope`]) are checked once; control messages
//! are small and parsed into owned values. Every length is checked; a fault has its byte offset.
//! The layouts of Blackadder are those of version 0.4 (2013), recorded from the running program:
//! `tests/vectors/blackadder.txt`.

mod application;
mod cursor;
mod envelope;
mod fid;
mod id;
mod link_state;
mod message;
mod network;
mod stages;
mod topology;

pub use application::{
    ApplicationMessage, Event, EventKind, NETLINK_HEADER_LEN, NetlinkHeader, Operation, RequestBody,
};
pub use envelope::{
    ENVELOPE_HEAD_LEN_MAX, Envelope, EnvelopeBuilder, EnvelopeKind, FragmentInfo, HopLimitField,
    StreamPosition,
};
pub use fid::{FID_BITS, FID_LEN, Fid};
pub use id::{Id, IdList, IdRef, LABEL_LEN, LABELS_MAX, Label};
pub use link_state::{LinkNotification, LinkReport, LinkStateItem, LinkStateReport};
pub use message::{
    AssignedLink, Assignment, DeliveryChange, LinkAdvertisement, Message, NeighbourLink,
    RendezvousReply, RendezvousRequest, RepairRequest, RequestFlags, SubscriptionScope,
};
pub use network::{NetworkPacket, NetworkPacketBuilder};
pub use stages::{
    STAGE_HEAD_LEN, STAGE_ONES_MAX, STAGE_ONES_MIN, STAGE_SEEDS, STAGED_LEN_MAX, STAGES_MAX,
    STAGES_TABLE, Stage, StagedFilter,
};
pub use topology::{MatchMessage, NodeNotice, ScopeChange};

/// Ethernet type of Blackadder's frames.
pub const ETHER_TYPE: u16 = 0x080a;

/// Netlink port of a Blackadder node.
pub const NETLINK_PORT: u32 = 9999;

/// Root scope of requests to the rendezvous function.
pub const RENDEZVOUS_SCOPE: Label = Label([0xff; LABEL_LEN]);

/// Root scope of requests to the topology function.
pub const TOPOLOGY_SCOPE: Label = reserved(0xfe);

/// Root scope of notifications to nodes.
pub const NODE_SCOPE: Label = reserved(0xfd);

/// Root scope of link state reports.
pub const LINK_REPORT_SCOPE: Label = reserved(0xfb);

/// Root scope of notifications about links that appear and disappear.
pub const LINK_NOTIFICATION_SCOPE: Label = reserved(0xfa);

/// Returns the reserved label with this last byte.
const fn reserved(last: u8) -> Label {
    let mut bytes = [0xff; LABEL_LEN];
    bytes[LABEL_LEN - 1] = last;
    Label(bytes)
}
