//! This node as one of Blackadder 0.4's, in its domain and its wire format.
//!
//! ```text
//! neighbour ─▶ Forwarder ─▶ neighbours whose link is in the packet's identifier
//!                  │
//!                  └─▶ notices (dispatcher.rs), publications (inward.rs) ◀─▶ Node
//! ```
//!
//! Invariants: what is forwarded leaves byte by byte as it came; a packet with lengths that lie is
//! dropped here and reaches no node of Blackadder, which would believe them.

mod authority;
mod dispatcher;
mod forwarder;
mod inward;
#[cfg(test)]
mod node_tests;
mod requests;
mod settings;
#[cfg(test)]
mod tests;

pub use settings::Settings;

use crate::blackadder::Names;
use crate::domain::{LinkAddress, PacketQueue, Target};
use crate::node::Node;
use authority::Authority;
use dispatcher::{Connection, Route};
use forwarder::Forwarder;
use inward::InwardItem;
use nw_api::pubsub::ItemName;
use nw_api::pubsub::status::BlackadderCounters;
use nw_wire::publication::{Fid, Id, Label, NetworkPacket, RequestBody};
use requests::{Owner, Requests};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// This node in a domain of Blackadder's nodes.
#[derive(Debug)]
pub struct BlackadderDomain {
    node: Label,
    /// Forwarding identifier to the rendezvous node. `None`: this node only forwards.
    rendezvous: Option<Fid>,
    /// The domain's rendezvous and topology functions, if this node has them.
    authority: Option<Authority>,
    /// Requests of this node to its own rendezvous function.
    own_requests: VecDeque<RequestBody>,
    names: Names,
    forwarder: Forwarder,
    connection: Option<Connection>,
    requests: Requests,
    /// Items of this node that the topology manager started.
    routes: BTreeMap<Id, Route>,
    next_subscription: u32,
    /// Items that the node passes on, by their number there.
    outward: BTreeMap<u32, Id>,
    /// Scopes of other nodes below those that are subscribed to here.
    scopes: BTreeSet<Id>,
    /// Subscriptions to all below a scope, by the scope.
    subtrees: BTreeMap<Id, BTreeSet<Owner>>,
    scope_notices: Vec<(bool, Id)>,
    /// Items of other nodes by their first name, and these oldest first.
    inward: BTreeMap<ItemName, InwardItem>,
    inward_order: VecDeque<ItemName>,
    /// Packets to send.
    pub packets: PacketQueue,
    /// What it did.
    pub counters: BlackadderCounters,
}

impl BlackadderDomain {
    /// Creates the node of a configuration.
    pub fn new(settings: Settings, names: Names, port: u16) -> Self {
        BlackadderDomain {
            node: settings.node,
            rendezvous: settings.rendezvous,
            forwarder: Forwarder::new(&settings, port),
            authority: settings.authority,
            own_requests: VecDeque::new(),
            names,
            connection: None,
            requests: Requests::default(),
            routes: BTreeMap::new(),
            next_subscription: 0,
            outward: BTreeMap::new(),
            scopes: BTreeSet::new(),
            subtrees: BTreeMap::new(),
            scope_notices: Vec::new(),
            inward: BTreeMap::new(),
            inward_order: VecDeque::new(),
            packets: PacketQueue::default(),
            counters: BlackadderCounters::default(),
        }
    }

    /// Sets the interfaces that there are, by name.
    pub fn set_interfaces(&mut self, index_of: impl Fn(&str) -> Option<u32>) {
        self.forwarder.set_interfaces(index_of);
    }

    /// Returns the scopes of other nodes directly below one.
    pub fn scopes_below(&self, scope: &Id) -> Vec<Id> {
        self.subtree(scope).filter(|id| id.len() == scope.len() + 1).cloned().collect()
    }

    /// Returns a scope, if other nodes have it, and theirs below it.
    fn subtree(&self, scope: &Id) -> impl Iterator<Item = &Id> {
        self.scopes.range(scope.clone()..).take_while(move |id| scope.is_prefix_of(id))
    }

    /// Returns which scopes other nodes published or withdrew since the last call.
    pub fn take_scope_notices(&mut self) -> Vec<(bool, Id)> {
        core::mem::take(&mut self.scope_notices)
    }

    /// Takes a packet of a neighbour: forwards it, and returns it if it is for this node.
    pub fn receive<'a>(
        &mut self,
        from: &LinkAddress,
        bytes: &'a [u8],
    ) -> Option<NetworkPacket<'a>> {
        let Some(ingress) = self.forwarder.link_from(from) else {
            self.counters.unknown_sender += 1;
            return None;
        };
        self.counters.received += 1;
        let Ok(packet) = NetworkPacket::check(bytes) else {
            self.counters.invalid += 1;
            return None;
        };
        let fid = packet.fid();
        let mut neighbours = self.forwarder.neighbours(&fid, Some(ingress)).peekable();
        let is_local = self.forwarder.is_for_this_node(&fid);
        if neighbours.peek().is_some() {
            let range = self.packets.append(|out| {
                out.extend_from_slice(bytes);
                true
            });
            for address in neighbours {
                self.counters.forwarded += 1;
                if let Some(range) = range.clone() {
                    self.packets.push(Target::Neighbour(*address), range);
                }
            }
        } else if !is_local {
            self.counters.no_link += 1;
        }
        is_local.then_some(packet)
    }
}

impl Node {
    /// Runs something of a domain of Blackadder's nodes with the node, if it is in one.
    pub(crate) fn with_blackadder(&mut self, run: impl FnOnce(&mut BlackadderDomain, &mut Node)) {
        if let Some(mut domain) = self.blackadder.take() {
            run(&mut domain, self);
            domain.serve_own_requests(self);
            self.blackadder = Some(domain);
        }
    }
}
