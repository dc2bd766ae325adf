//! Requests, notices and publications of this node in a domain of Blackadder's nodes.
//!
//! ```text
//! programs of Blackadder ── their requests ──────────▶ Requests ─▶ rendezvous node
//! other applications ────── their presence ──────────▶     │
//! items with subscribers ◀─ a subscription ◀── Route ◀── notices ◀─ topology manager
//!                        ── publications ────▶ Route ─▶ links
//! ```
//!
//! The domain is one connection of this node. What the topology manager starts, it subscribes to,
//! and sends with the forwarding identifier of the notice; what comes from other nodes, it
//! publishes (`inward.rs`). So publishers see the domain as one subscriber, and rules for `remote`
//! hold for it. Invariant: tables are bounded; what exceeds a limit is counted.

use super::BlackadderDomain;
use super::forwarder::Forwarder;
use super::requests::{DOMAIN, Owner};
use crate::domain::{PacketQueue, Target};
use crate::node::Node;
use crate::presence::Presence;
use crate::session::SessionId;
use nw_api::pubsub::{Event, ItemName, Request, ScopePattern, VERSION};
use nw_faces::credentials::Credentials;
use nw_faces::local_pubsub::FrameSocket;
use nw_faces::local_pubsub::frame_socket::Frame;
use nw_pubsub::Strategy;
use nw_wire::publication::{
    ApplicationMessage, Fid, Id, IdRef, Label, NODE_SCOPE, NetworkPacket, NetworkPacketBuilder,
    NodeNotice, Operation, RENDEZVOUS_SCOPE, RequestBody,
};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

/// Bytes of a packet at most: what a UDP datagram holds.
const PACKET_BYTES_MAX: usize = 65_507;
/// Items that the topology manager started, and scopes of other nodes, at most.
const ROUTES_MAX: usize = 65_536;
const SCOPES_MAX: usize = 65_536;
/// Notices about scopes that wait for the programs at most.
const SCOPE_NOTICES_MAX: usize = 4096;
/// Calls to receive messages of the node in one step.
const RECEIVES_PER_STEP: usize = 16;

/// How the publications of an item leave.
#[derive(Debug)]
pub(super) struct Route {
    fid: Fid,
    /// Full identifiers of the item.
    ids: Vec<Id>,
    /// Numbers of the subscriptions to the item, and to what is directly below it.
    subscriptions: [u32; 2],
}

/// This node's end of its connection to the domain.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) session: SessionId,
    socket: FrameSocket,
}

impl BlackadderDomain {
    /// Connects the domain with the node, if it has a rendezvous node.
    ///
    /// # Errors
    /// A sentence, if the node or the system refuses.
    pub fn connect(&mut self, node: &mut Node) -> Result<(), String> {
        if !self.takes_part() {
            return Ok(());
        }
        let (own, other) = UnixStream::pair()
            .map_err(|error| format!("pubsub.blackadder_node: a socket pair: {error}"))?;
        let credentials = Credentials {
            uid: rustix::process::getuid().as_raw(),
            gid: rustix::process::getgid().as_raw(),
            pid: std::process::id(),
        };
        let session = node.open(OwnedFd::from(other), credentials);
        let session = session.ok_or("pubsub.applications: raise it")?;
        if let Some(found) = node.sessions.get_mut(&session) {
            found.is_remote = true;
        }
        let hello = Request::Hello { version: VERSION, program: "blackadder nodes".into() };
        let frame = Frame { kind: hello.kind(), body: hello.encode(), file: None };
        node.handle(session, frame)?;
        let socket = FrameSocket::new(OwnedFd::from(own));
        self.connection = Some(Connection { session, socket });
        Ok(())
    }

    /// Connects again, if the node ended the connection: it had more for the domain than may wait.
    /// Returns whether there is a new connection.
    pub fn reconnect(&mut self, node: &mut Node) -> bool {
        let may_open = node.sessions.len() < node.config.applications as usize;
        if self.connection.is_some() || !self.takes_part() || !may_open {
            return false;
        }
        if let Err(text) = self.connect(node) {
            tracing::debug!("{text}");
            return false;
        }
        // Items of the earlier connection ended with it.
        self.inward.clear();
        self.inward_order.clear();
        self.outward.clear();
        let items: Vec<Id> = self.routes.keys().cloned().collect();
        items.iter().for_each(|id| self.subscribe_to_item(node, id));
        true
    }

    /// Returns the node's number of the connection.
    pub fn session(&self) -> Option<SessionId> {
        self.connection.as_ref().map(|connection| connection.session)
    }

    /// Returns what is readable when the node has something for the domain.
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.connection.as_ref().map(|connection| connection.socket.as_fd())
    }

    /// Takes what the node has for the domain.
    pub fn run(&mut self, node: &mut Node) {
        for _ in 0..RECEIVES_PER_STEP {
            let Some(connection) = &mut self.connection else { return };
            let received = connection.socket.receive();
            while let Some(connection) = &mut self.connection {
                let Ok(Some(frame)) = connection.socket.next_frame() else { break };
                if let Ok(event) = Event::decode(frame.kind, &frame.body) {
                    self.handle_event(node, event);
                }
            }
            match received {
                Ok(true) => {}
                Ok(false) => return,
                Err(fault) => {
                    tracing::warn!("pubsub.blackadder_node: its connection begins anew: {fault}");
                    self.connection = None;
                    return;
                }
            }
        }
    }

    /// Takes a request that a program of this node made, and that its own rules accepted.
    pub fn take_request(&mut self, node: &mut Node, session: SessionId, body: &RequestBody) {
        if !self.takes_part() || body.strategy != DOMAIN {
            return;
        }
        let owner = Owner::Program(session);
        match body.operation {
            Operation::PublishScope
            | Operation::PublishItem
            | Operation::SubscribeScope
            | Operation::SubscribeItem => self.begin(node, &owner, body),
            _ => {
                let ended = self.requests.end(&owner, body);
                self.end_requests(node, &ended);
            }
        }
    }

    /// Ends all that a program of this node requested.
    pub fn end_program(&mut self, node: &mut Node, session: SessionId) {
        let ended = self.requests.end_all(&Owner::Program(session));
        self.end_requests(node, &ended);
    }

    fn begin(&mut self, node: &Node, owner: &Owner, body: &RequestBody) {
        if self.requests.len() >= node.config.items as usize {
            self.counters.omitted += 1;
        } else if self.requests.begin(owner, body) {
            self.send_request(body);
        }
    }

    fn end_requests(&mut self, node: &mut Node, ended: &[RequestBody]) {
        for body in ended {
            self.send_request(body);
            let full = body.prefix.child(body.id.last().unwrap_or_default());
            match body.operation {
                Operation::UnpublishItem => self.stop(node, &full),
                Operation::UnsubscribeScope => {
                    for scope in self.scopes_below(&full) {
                        self.scopes.remove(&scope);
                    }
                }
                _ => {}
            }
        }
    }

    /// Sends a request as the publication that the rendezvous node expects.
    fn send_request(&mut self, body: &RequestBody) {
        self.counters.requests += 1;
        if self.authority.is_some() {
            return self.own_requests.push_back(body.clone());
        }
        let Some(fid) = self.rendezvous else { return };
        let ids = [Id::new(vec![RENDEZVOUS_SCOPE, self.node])];
        let mut payload = Vec::new();
        ApplicationMessage::Request(body.clone()).encode(&mut payload);
        self.send(fid, &ids, &payload);
    }

    /// Sends data of a program with the forwarding identifier that it gave; without one, to all
    /// neighbours.
    pub fn send_to(&mut self, fid: Option<Fid>, id: &Id, data: &[u8]) {
        self.counters.published += 1;
        self.send(fid.unwrap_or(Fid::BROADCAST), core::slice::from_ref(id), data);
    }

    fn send(&mut self, fid: Fid, ids: &[Id], payload: &[u8]) {
        let packet = NetworkPacketBuilder { fid, ids, payload };
        self.counters.too_long += u64::from(!queue(&self.forwarder, &mut self.packets, &packet));
    }

    /// Takes a packet for this node: a notice of the topology manager, or a publication.
    pub fn take(&mut self, node: &mut Node, packet: &NetworkPacket<'_>) {
        let payload = packet.payload();
        match packet.ids().iter().next().and_then(pair) {
            Some([NODE_SCOPE, to]) if to == self.node => match NodeNotice::parse(payload) {
                Ok(notice) => self.take_notice(node, notice),
                Err(_) => self.counters.invalid += 1,
            },
            Some([RENDEZVOUS_SCOPE, from]) if self.authority.is_some() => {
                match ApplicationMessage::parse(payload) {
                    Ok(ApplicationMessage::Request(body)) => self.serve(node, from, &body),
                    _ => self.counters.invalid += 1,
                }
            }
            _ => self.publish_inward(node, packet.ids(), payload),
        }
    }

    /// Takes a notice of the topology manager.
    fn take_notice(&mut self, node: &mut Node, notice: NodeNotice) {
        self.counters.notices += 1;
        match notice {
            NodeNotice::Start { ids, fid } => self.start(node, ids, fid),
            NodeNotice::Stop { ids } => ids.iter().for_each(|id| self.stop(node, id)),
            NodeNotice::Scope { published, ids } => self.take_scopes(node, published, ids),
            NodeNotice::UpdateFids { rendezvous, .. } => self.rendezvous = Some(rendezvous),
        }
    }

    /// Returns whether this node publishes and subscribes in the domain.
    const fn takes_part(&self) -> bool {
        self.rendezvous.is_some() || self.authority.is_some()
    }

    /// Executes the requests of this node, if it is the rendezvous node.
    pub(super) fn serve_own_requests(&mut self, node: &mut Node) {
        while let Some(body) = self.own_requests.pop_front() {
            self.serve(node, self.node, &body);
        }
    }

    /// Executes a request of a node, and sends the notices.
    fn serve(&mut self, node: &mut Node, from: Label, body: &RequestBody) {
        let Some(authority) = &mut self.authority else { return };
        self.counters.served += 1;
        let notices = authority.request(from, body);
        let with_fids = notices.into_iter().map(|(to, n)| (to, authority.fid_to(to), n));
        for (to, fid, notice) in with_fids.collect::<Vec<_>>() {
            if to == self.node {
                self.take_notice(node, notice);
                continue;
            }
            let mut payload = Vec::new();
            if let Some(fid) = fid
                && notice.encode(&mut payload).is_ok()
            {
                self.send(fid, &[Id::new(vec![NODE_SCOPE, to])], &payload);
            }
        }
    }

    /// Starts an item under the first of its identifiers by which it is published here.
    fn start(&mut self, node: &mut Node, ids: Vec<Id>, fid: Fid) {
        let Some(id) = ids.iter().find(|id| self.requests.publishes(id)).cloned() else { return };
        if let Some(route) = self.routes.get_mut(&id) {
            (route.fid, route.ids) = (fid, ids);
            return;
        }
        if self.routes.len() >= ROUTES_MAX {
            self.counters.omitted += 1;
            return;
        }
        // First the route: publications may come at once.
        self.routes.insert(id.clone(), Route { fid, ids, subscriptions: [0; 2] });
        self.subscribe_to_item(node, &id);
    }

    /// Subscribes to a started item and to what is directly below it. Without both there is no
    /// route, so that the next notice tries again.
    fn subscribe_to_item(&mut self, node: &mut Node, id: &Id) {
        let Some(session) = self.session() else { return };
        let (Some(name), Some(below)) = (self.names.name_of(id), self.names.below(id)) else {
            self.routes.remove(id);
            return;
        };
        let subscriptions = [self.next_subscription, self.next_subscription.wrapping_add(1)];
        self.next_subscription = self.next_subscription.wrapping_add(2);
        let Some(route) = self.routes.get_mut(id) else { return };
        route.subscriptions = subscriptions;
        for (number, pattern) in subscriptions.into_iter().zip([name.as_str(), below.as_str()]) {
            match node.add_subscription(session, number, (1, true), pattern) {
                Ok(pattern) => node.match_subscription(session, &pattern, 1),
                Err((_, text)) => {
                    self.counters.omitted += 1;
                    tracing::debug!("pubsub.blackadder_node: {pattern}: {text}");
                    return self.stop(node, id);
                }
            }
        }
    }

    fn stop(&mut self, node: &mut Node, id: &Id) {
        let Some(route) = self.routes.remove(id) else { return };
        let Some(session) = self.session() else { return };
        for number in route.subscriptions {
            let _was_there = node.unsubscribe(session, number);
        }
    }

    /// Takes scopes that other nodes published or withdrew.
    fn take_scopes(&mut self, node: &Node, is_published: bool, ids: Vec<Id>) {
        for id in ids {
            let is_wanted = id
                .parent()
                .is_some_and(|scope| is_published && self.requests.subscribes_to_scope(&scope));
            if is_published && (!is_wanted || self.scopes.len() >= SCOPES_MAX) {
                self.counters.omitted += u64::from(is_wanted);
                continue;
            }
            match is_published {
                true => self.scopes.insert(id.clone()),
                false => self.scopes.remove(&id),
            };
            if is_published {
                for owner in self.subtree_owners(&id) {
                    self.subscribe_to_scope(node, &owner, &id);
                }
            }
            if self.scope_notices.len() < SCOPE_NOTICES_MAX {
                self.scope_notices.push((is_published, id));
            } else {
                self.counters.omitted += 1;
            }
        }
    }

    fn handle_event(&mut self, node: &mut Node, event: Event) {
        match event {
            Event::Item { item, name, .. } => {
                if let Some(id) = self.routed_id(node, &name) {
                    self.outward.insert(item, id);
                }
            }
            Event::ItemEnd { item, .. } => {
                self.outward.remove(&item);
            }
            Event::Data { item, fragment, .. } => {
                let is_whole = fragment.offset == 0 && fragment.is_last();
                match is_whole {
                    true => self.publish_outward(item, &fragment.payload),
                    false => self.counters.too_long += u64::from(fragment.offset == 0),
                }
            }
            _ => {}
        }
    }

    /// Returns the identifier by which an item is started, or below which it is.
    fn routed_id(&self, node: &Node, name: &str) -> Option<Id> {
        let is_routed = |id: &Id| {
            self.routes.contains_key(id)
                || id.parent().is_some_and(|p| self.routes.contains_key(&p))
        };
        let parsed = name.parse::<ItemName>();
        let named = parsed.iter().flat_map(|name| node.index.named(name));
        let items = named.filter_map(|(publisher, number)| {
            node.publishers.get(&publisher).and_then(|found| found.items.get(&number))
        });
        let leaving =
            items.filter(|item| matches!(item.strategy, Strategy::Domain | Strategy::Implicit));
        let mut ids = leaving.flat_map(|i| i.names()).map(|name| self.names.id_of(name.as_str()));
        ids.find(is_routed)
    }

    fn publish_outward(&mut self, item: u32, data: &[u8]) {
        let Some(id) = self.outward.get(&item) else { return };
        let (fid, ids) = match self.routes.get(id) {
            Some(route) => (route.fid, &route.ids[..]),
            // An item without a request goes where the one above goes, under its own identifier.
            None => match id.parent().and_then(|above| self.routes.get(&above)) {
                Some(route) => (route.fid, core::slice::from_ref(id)),
                None => return,
            },
        };
        self.counters.published += 1;
        let packet = NetworkPacketBuilder { fid, ids, payload: data };
        self.counters.too_long += u64::from(!queue(&self.forwarder, &mut self.packets, &packet));
    }

    /// Makes the requests of an application's item or subscription, or ends them. The node calls
    /// this at once: what waits could exceed any queue.
    pub fn take_presence(
        &mut self,
        node: &mut Node,
        session: SessionId,
        presence: &Presence,
        is_here: bool,
    ) {
        let (is_publisher, name) = match presence {
            Presence::Item(name) => (true, name.as_str()),
            Presence::Pattern(pattern) => (false, pattern.as_str()),
        };
        let owner = match is_publisher {
            true => Owner::Item(session, name.to_owned()),
            false => Owner::Pattern(session, name.to_owned()),
        };
        let Ok(pattern) = name.parse::<ScopePattern>() else { return };
        let id = self.names.id_of(pattern.literal_prefix());
        if !is_here {
            self.end_subtree(&owner, &id);
            let ended = self.requests.end_all(&owner);
            return self.end_requests(node, &ended);
        }
        let leaves = match presence {
            Presence::Item(name) => item_leaves(node, session, name),
            Presence::Pattern(_) => pattern_leaves(node, session, name),
        };
        if !leaves || id.is_empty() {
            return;
        }
        for depth in 1..id.len() {
            let scope = request(Operation::PublishScope, &Id::from(&id.labels()[..depth]));
            self.begin(node, &owner, &scope);
        }
        match (is_publisher, pattern.is_name()) {
            (true, _) => self.begin(node, &owner, &request(Operation::PublishItem, &id)),
            (false, true) => self.begin(node, &owner, &request(Operation::SubscribeItem, &id)),
            (false, false) => {
                let is_flat = pattern.as_str().strip_prefix(pattern.literal_prefix()) == Some("/*");
                self.subscribe_to_scope(node, &owner, &id);
                if !is_flat {
                    let known: Vec<Id> = self.subtree(&id).cloned().collect();
                    known.iter().for_each(|scope| self.subscribe_to_scope(node, &owner, scope));
                    self.subtrees.entry(id).or_default().insert(owner);
                }
            }
        }
    }

    /// Returns the subscriptions to all below a scope above this one, or this one itself.
    fn subtree_owners(&self, scope: &Id) -> Vec<Owner> {
        let above = (1..=scope.len())
            .filter_map(|depth| self.subtrees.get(&Id::from(&scope.labels()[..depth])));
        above.flatten().cloned().collect()
    }

    fn end_subtree(&mut self, owner: &Owner, scope: &Id) {
        let Some(owners) = self.subtrees.get_mut(scope) else { return };
        owners.remove(owner);
        if owners.is_empty() {
            self.subtrees.remove(scope);
        }
    }

    fn subscribe_to_scope(&mut self, node: &Node, owner: &Owner, scope: &Id) {
        self.begin(node, owner, &request(Operation::SubscribeScope, scope));
    }
}

/// Queues a packet of this node to the neighbours of its identifier. Returns false if it is too
/// long for a packet.
fn queue(
    forwarder: &Forwarder,
    packets: &mut PacketQueue,
    packet: &NetworkPacketBuilder<'_>,
) -> bool {
    let ids_len = packet.ids.iter().map(|id| 1 + 8 * id.len()).sum::<usize>();
    if 33 + ids_len + packet.payload.len() > PACKET_BYTES_MAX {
        return false;
    }
    if let Some(range) = packets.append(|out| packet.encode(out).is_ok()) {
        for address in forwarder.neighbours(&packet.fid, None) {
            packets.push(Target::Neighbour(*address), range.clone());
        }
    }
    true
}

fn request(operation: Operation, full: &Id) -> RequestBody {
    let id = Id::new(full.last().into_iter().collect());
    let prefix = full.parent().unwrap_or_default();
    RequestBody { operation, id, prefix, strategy: DOMAIN, option: None }
}

/// Returns the labels of an identifier that has two.
fn pair(id: IdRef<'_>) -> Option<[Label; 2]> {
    let mut labels = id.labels();
    let pair = [labels.next()?, labels.next()?];
    labels.next().is_none().then_some(pair)
}

/// Returns whether an application's item is for other nodes too.
fn item_leaves(node: &Node, session: SessionId, name: &ItemName) -> bool {
    let number = node.announced(session, name);
    let item = number.and_then(|number| node.publishers.get(&session)?.items.get(&number));
    item.is_some_and(|item| item.strategy == Strategy::Domain)
}

/// Returns whether other nodes are told of an application's subscription.
fn pattern_leaves(node: &Node, session: SessionId, pattern: &str) -> bool {
    let subscriptions = node.sessions.get(&session).map(|found| found.subscriptions.iter());
    let mut subscriptions = subscriptions.into_iter().flatten();
    subscriptions.any(|found| !found.is_here && found.pattern.as_str() == pattern)
}
