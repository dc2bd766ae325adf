//! The rendezvous function: matches publishers and subscribers. A pure function from requests to
//! replies, notices and membership changes.
//!
//! ```text
//! Request ─▶ handle ─▶ rules (scopes.rs, items.rs) ─▶ Graph
//!                            │
//!                            ▼  membership.rs: who joined, who left, by item
//!               Reply, Scope, Membership, Start / Stop, Presence
//! ```
//!
//! * The rules and codes are those of Blackadder 0.4, with these differences: every request is
//!   answered; a repeated request gets its first reply; a strategy may be inherited; a numbered
//!   subscription to what does not exist yet is kept; changes are increments.
//! * Publications and subscriptions belong to a client under a parent scope. A client is a node,
//!   or for the strategy node an application.
//! * `subscriber_count` of an item with publishers is the number of clients that subscribe to it,
//!   to one of its scopes or to a pattern that matches one of its identifiers.

mod effect;
mod items;
mod listing;
mod membership;
mod patterns;
mod replies;
mod scopes;

pub use effect::{Effect, ItemKey, MembershipChange, Publisher, ReturnCode};
pub use listing::ListedVertex;

use crate::graph::{ClientKey, Graph, GraphSize, ROOT, Slot};
use crate::leases::Leases;
use crate::names::LabelTable;
use crate::small_set::SmallSet;
use crate::strategy::{ItemOptions, PublisherChoice, Strategy};
use nw_packet_types::Timestamp;
use nw_wire::publication::{Label, Operation, RendezvousReply, RequestFlags, SubscriptionScope};
use patterns::Patterns;
use replies::Replies;
use std::collections::BTreeMap;

pub use nw_wire::publication::RendezvousRequest as Request;

/// Bounds of the rendezvous function.
#[derive(Clone, Copy, Debug)]
pub struct RendezvousLimits {
    /// Most scopes and items.
    pub vertices_max: usize,
    /// Most publications and subscriptions of one client.
    pub uses_per_client_max: usize,
    /// Most clients.
    pub clients_max: usize,
    /// Most full identifiers of a scope or item.
    pub ids_max: usize,
    /// Most subscriptions to patterns.
    pub patterns_max: usize,
    /// Most bytes of names as text.
    pub name_bytes_max: usize,
    /// Milliseconds after its last request or renewal when a client is removed; 0 for never.
    pub lease_ms: u64,
}

impl Default for RendezvousLimits {
    fn default() -> Self {
        RendezvousLimits {
            vertices_max: 4_000_000,
            uses_per_client_max: 1_000_000,
            clients_max: 65_536,
            ids_max: 1024,
            patterns_max: 65_536,
            name_bytes_max: 64 << 20,
            lease_ms: 0,
        }
    }
}

/// The rendezvous function with its information graph.
#[derive(Clone, Debug)]
pub struct Rendezvous {
    limits: RendezvousLimits,
    graph: Graph,
    patterns: Patterns,
    /// Clients that asked for notices about a scope or item.
    watchers: BTreeMap<Slot, SmallSet<ClientKey>>,
    /// Strengths above 0 of publishers.
    strengths: BTreeMap<(Slot, ClientKey), u8>,
    names: LabelTable,
    replies: Replies,
    leases: Leases<Label>,
    effects: Vec<Effect>,
}

/// A request with its identifiers resolved.
struct Task<'a> {
    request: &'a Request,
    client: Label,
    parent: Option<Slot>,
    strategy: Strategy,
}

impl Rendezvous {
    /// Creates a rendezvous function with an empty graph.
    pub fn new(limits: RendezvousLimits) -> Self {
        Rendezvous {
            limits,
            graph: Graph::new(limits.vertices_max, limits.clients_max, limits.ids_max),
            patterns: Patterns::new(limits.patterns_max),
            watchers: BTreeMap::new(),
            strengths: BTreeMap::new(),
            names: LabelTable::new(limits.name_bytes_max),
            replies: Replies::new(limits.clients_max),
            leases: Leases::new(limits.lease_ms),
            effects: Vec::new(),
        }
    }

    /// Handles a request. The first effect is the reply; a repetition causes nothing else.
    pub fn handle(&mut self, request: &Request, now: Timestamp) -> Vec<Effect> {
        self.renew(request.client, now);
        if let Some(code) = self.replies.find(request.client, request.number) {
            return vec![reply(request, code)];
        }
        // The reply comes first, and its code is known last.
        self.effects.push(reply(request, ReturnCode::Success));
        let code = match self.execute(request) {
            Ok(()) => ReturnCode::Success,
            Err(code) => code,
        };
        self.effects[0] = reply(request, code);
        self.replies.insert(request.client, request.number, code);
        if let Some(client) = self.graph.clients().find(request.client) {
            self.release_client(client);
        }
        core::mem::take(&mut self.effects)
    }

    /// Renews the lease of a client.
    pub fn renew(&mut self, client: Label, now: Timestamp) {
        if self.limits.lease_ms > 0 {
            self.leases.renew(client, now);
        }
    }

    /// Removes clients whose lease ended by `now`, with all that they published and subscribed to.
    pub fn expire(&mut self, now: Timestamp) -> Vec<Effect> {
        let mut effects = Vec::new();
        while let Some(client) = self.leases.take_expired(now) {
            effects.append(&mut self.remove_client(client));
        }
        effects
    }

    /// Returns when [`expire`](Self::expire) is to be called.
    pub fn deadline(&self) -> Option<Timestamp> {
        self.leases.deadline()
    }

    /// Returns the numbers of scopes, items and clients.
    pub fn size(&self) -> GraphSize {
        self.graph.size()
    }

    /// Returns the number of subscriptions to patterns.
    pub fn pattern_count(&self) -> usize {
        self.patterns.len()
    }

    /// Returns the bytes of memory of the graph, estimated.
    pub fn memory_bytes(&self) -> usize {
        self.graph.memory_bytes()
    }

    /// Returns the texts of labels, as far as requests had them.
    pub const fn names(&self) -> &LabelTable {
        &self.names
    }

    fn execute(&mut self, request: &Request) -> Result<(), ReturnCode> {
        let wanted = match request.strategy.map(Strategy::from_number) {
            Some(None) => return Err(ReturnCode::StrategyMismatch),
            Some(Some(strategy)) if !strategy.has_rendezvous() => {
                return Err(ReturnCode::NoRendezvous);
            }
            Some(strategy) => strategy,
            None => None,
        };
        if request.id.is_empty() {
            return Err(ReturnCode::WrongIds);
        }
        let scope = self.pattern_of(request);
        if !scope.is_exact() {
            return self.handle_pattern(request, scope);
        }
        let parent = self.graph.find(&request.prefix);
        let inherited = parent.filter(|slot| *slot != ROOT);
        let inherited = inherited.map(|slot| self.graph.vertex(slot).strategy);
        let strategy = wanted.or(inherited).unwrap_or_default();
        let task = Task { request, client: request.client, parent, strategy };
        self.execute_operation(&task)?;
        self.insert_name(request);
        Ok(())
    }

    fn execute_operation(&mut self, task: &Task<'_>) -> Result<(), ReturnCode> {
        let republished = task.request.id.len() > 1;
        match task.request.operation {
            Operation::PublishScope if republished => self.republish_scope(task),
            Operation::PublishScope => self.publish_scope(task),
            Operation::PublishItem if republished => self.republish_item(task),
            Operation::PublishItem => self.publish_item(task),
            _ if republished => Err(ReturnCode::WrongIds),
            Operation::UnpublishScope => self.unpublish_scope(task),
            Operation::UnpublishItem => self.unpublish_item(task),
            Operation::SubscribeScope => self.subscribe_scope(task),
            Operation::SubscribeItem => self.subscribe_item(task),
            Operation::UnsubscribeScope => self.unsubscribe_scope(task),
            Operation::UnsubscribeItem => self.unsubscribe_item(task),
        }
    }

    /// Returns what a subscription covers beyond its identifier.
    const fn pattern_of(&self, request: &Request) -> SubscriptionScope {
        SubscriptionScope {
            wildcards: request.wildcards,
            subtree: request.flags.has(RequestFlags::SUBTREE),
        }
    }

    /// Subscribes to a pattern, or ends such a subscription.
    fn handle_pattern(
        &mut self,
        request: &Request,
        scope: SubscriptionScope,
    ) -> Result<(), ReturnCode> {
        let pattern = request.prefix.join(&request.id);
        match request.operation {
            Operation::SubscribeScope | Operation::SubscribeItem => {
                self.subscribe_pattern(request.client, &pattern, scope)?;
                self.insert_name(request);
                Ok(())
            }
            Operation::UnsubscribeScope | Operation::UnsubscribeItem => {
                let client = self.graph.clients().find(request.client);
                let client = client.ok_or(ReturnCode::NotMember)?;
                self.unsubscribe_pattern(client, &pattern, scope)
            }
            _ => Err(ReturnCode::WrongIds),
        }
    }

    /// Remembers the texts of labels. On a collision the known text stays: texts are only shown.
    fn insert_name(&mut self, request: &Request) {
        let _collision = self.names.insert_name(&request.name);
    }

    /// Returns the number of a client that is about to publish or subscribe to something.
    fn client_for_use(&mut self, label: Label) -> Result<ClientKey, ReturnCode> {
        let client = self.graph.clients_mut().find_or_insert(label);
        let client = client.ok_or(ReturnCode::LimitReached)?;
        match self.graph.clients().use_count(client) < self.limits.uses_per_client_max {
            true => Ok(client),
            false => Err(ReturnCode::LimitReached),
        }
    }

    /// Removes a client that uses nothing any more.
    fn release_client(&mut self, client: ClientKey) {
        let is_unused = self.graph.clients().use_count(client) == 0;
        if is_unused && self.patterns.of_client(client).is_empty() {
            self.graph.clients_mut().remove(client);
        }
    }

    fn label(&self, client: ClientKey) -> Label {
        self.graph.clients().label(client)
    }

    fn labels(&self, clients: &[ClientKey]) -> Vec<Label> {
        clients.iter().map(|client| self.label(*client)).collect()
    }

    /// Removes a client with all that it published and subscribed to: it ended, or its node did.
    pub fn remove_client(&mut self, label: Label) -> Vec<Effect> {
        self.leases.remove(label);
        self.replies.remove(label);
        let Some(client) = self.graph.clients().find(label) else { return Vec::new() };
        for (id, scope) in self.patterns.of_client(client) {
            let _was_there = self.unsubscribe_pattern(client, &id, scope);
        }
        // Items before scopes, so that scopes that are empty then end too.
        let uses = self.graph.clients().uses(client);
        let (items, scopes): (Vec<Slot>, Vec<Slot>) =
            uses.into_iter().partition(|slot| self.is_item(*slot));
        items.into_iter().chain(scopes).for_each(|slot| self.withdraw(slot, client));
        if self.graph.clients().find(label) == Some(client) {
            self.release_client(client);
        }
        core::mem::take(&mut self.effects)
    }
}

/// Returns the options that a request asks for.
const fn options_of(request: &Request) -> ItemOptions {
    let choice = if request.flags.has(RequestFlags::STRONGEST) {
        PublisherChoice::Strongest
    } else if request.flags.has(RequestFlags::NEAREST) {
        PublisherChoice::Nearest
    } else {
        PublisherChoice::All
    };
    ItemOptions { choice, immutable: request.flags.has(RequestFlags::IMMUTABLE) }
}

fn reply(request: &Request, code: ReturnCode) -> Effect {
    Effect::Reply(RendezvousReply {
        number: request.number,
        client: request.client,
        code: code as u8,
    })
}
