//! What reading commands print with `--json`: all there is to know of a router, in one value.
//!
//! The parts are the management messages themselves, whose field names and units are part of the interface: units stand last, names are URIs.

use crate::management::{
    ChannelStatus, CsInfo, DropCount, FaceStatus, FibEntry, ForwarderStatus, RibEntry, ShardStatus,
    StrategyChoice, XdpStatus,
};
use serde::Serialize;

/// `nw status --json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Status {
    /// The router as a whole.
    pub forwarder: ForwarderStatus,
    /// Its content store.
    pub content_store: CsInfo,
    /// Its faces.
    pub faces: Vec<FaceStatus>,
    /// Its listeners.
    pub channels: Vec<ChannelStatus>,
    /// Its FIB.
    pub fib: Vec<FibEntry>,
    /// Its routes.
    pub rib: Vec<RibEntry>,
    /// Its strategies.
    pub strategies: Vec<StrategyChoice>,
    /// Packets it dropped, by reason; empty where the router doesn't say.
    pub drops: Vec<DropCount>,
    /// Its threads that forward; empty where the router doesn't say.
    pub shards: Vec<ShardStatus>,
    /// Its interfaces that go by AF_XDP.
    pub xdp: Vec<XdpStatus>,
}
