//! Host D: a node of the simulator.

use crate::fused::SIZES;
use crate::memory::{InMemory, faces, run};
use crate::{FACES, Host, KEY, Outcome, Trace, memory};
use nw_element::{DropCounters, Instant, Packet, Pool};
use nw_sim::node::{Fused, Node};

/// See the module.
pub struct Simulated {
    node: Fused,
    drops: DropCounters,
}
