//! The output of `nw status --json`: the whole state of a router.
//!
//! The parts are management messages. Their field names and units are a stable interface: units are
//! the last part of a field name, NDN names are URIs.

use crate::management::{
    ChannelStatus, CsInfo, DropCount, FaceStatus, FibEntry, ForwarderStatus, RibEntry, ShardStatus,
    StrategyChoice, XdpStatus,
};
use serde::Serialize;

/// The state of a router, as `nw status --json` prints it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Status {
    /// The router as a whole.
    pub forwarder: ForwarderStatus,
    /// State of the content store.
    pub content_store: CsInfo,
    /// All faces.
    pub faces: Vec<FaceStatus>,
    /// Addresses on which it listens.
    pub channels: Vec<ChannelStatus>,
    /// The FIB.
    pub fib: Vec<FibEntry>,
    /// The RIB.
    pub rib: Vec<RibEntry>,
    /// Strategy choices.
    pub strategies: Vec<StrategyChoice>,
    /// Dropped packets by reason; empty if the router does not report them.
    pub drops: Vec<DropCount>,
    /// Forwarding threads; empty if the router does not report them.
    pub shards: Vec<ShardStatus>,
    /// Interfaces that use AF_XDP.
    pub xdp: Vec<XdpStatus>,
}
