//! What the domain reports to the node.

use super::{LaterUse, NodeId, RepairRequest};
use nw_api::pubsub::ItemName;

/// What the domain reports to the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DomainEvent {
    /// Links or subscriptions of other nodes changed.
    Changed,
    /// A publication for applications of this node.
    Publication {
        /// Node of the publisher.
        node: NodeId,
        /// Name of the item.
        name: ItemName,
        /// Sequence number.
        sequence: u64,
        /// The bytes.
        payload: Vec<u8>,
        /// What becomes of it afterwards.
        use_after: LaterUse,
        /// Whether it is older than the subscription.
        is_last_value: bool,
        /// Whether its publisher has ended, and another node kept it.
        is_kept: bool,
    },
    /// A node keeps publications of an item whose publisher has ended.
    Offer {
        /// Node of the publisher.
        origin: NodeId,
        /// The node that keeps them.
        keeper: NodeId,
        /// Name of the item.
        name: ItemName,
        /// First and last numbers.
        numbers: (u64, u64),
        /// When that node had the last one, milliseconds of this node's clock.
        kept_ms: u64,
    },
    /// A node requests publications that this node keeps.
    KeptRequest {
        /// The node.
        node: NodeId,
        /// Node of the publisher.
        origin: NodeId,
        /// Name of the item.
        name: ItemName,
        /// What it requests.
        request: RepairRequest,
    },
    /// Publications up to a sequence number are lost.
    Missing {
        /// Node of the publisher.
        node: NodeId,
        /// Name of the item.
        name: ItemName,
        /// Sequence number of the last one.
        last: u64,
    },
    /// An item has ended.
    End {
        /// Node of the publisher.
        node: NodeId,
        /// Name of the item.
        name: ItemName,
    },
}
