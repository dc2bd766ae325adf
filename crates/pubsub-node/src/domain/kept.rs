//! Publications of publishers that have ended: offered to late subscribers by the nodes that keep
//! them, and sent at their request.
//!
//! ```text
//! keeper ── offer: item, publisher's node, numbers, age ──▶ node of a late subscriber
//! keeper ◀── request (numbers, or fragments of one) ─────── node: gaps of a stream, as in repair
//! keeper ── publications, or GONE ────────────────────────▶ node
//! ```
//!
//! All are packets of publications with the flag [`KEPT`]. The bytes after the name:
//!
//! ```text
//! offer   with HEARTBEAT: source = node of the publisher, number = last one
//!         keeper 8 | first number 8 | age of the last one 8, ms
//! request with REPAIR: source = node that asks;  node of the publisher 8 | repair request
//! answer  with REPAIRED, or GONE: source = node of the publisher
//! ```
//!
//! Invariants: offers and what is fetched are bounded in number; publications are sent within the
//! limit of repairs; what was not offered is not accepted.

use super::message::{GONE, HEARTBEAT, KEEPS_LAST, KEPT, LAST_VALUE, REPAIR, REPAIRED};
use super::message::{KeptOffer, RepairRequest};
use super::streams::StreamKey;
use super::{Domain, DomainEvent, HEARTBEATS_MS, Head, NodeId};
use nw_api::pubsub::{ItemName, ScopePattern};
use nw_pubsub::Timestamp;
use nw_pubsub::history::History;
use std::collections::{BTreeMap, BTreeSet};

/// Items that are offered at the same time at most.
const OFFERS_MAX: usize = 65_536;
/// Offers that are sent at once.
const OFFERS_PER_STEP: usize = 256;
/// Items that are fetched at the same time at most.
pub const FETCHES_MAX: usize = 4096;
/// Nodes that one item is fetched from in turn at most.
const KEEPERS_MAX: usize = 2;

#[derive(Debug)]
struct Offer {
    origin: NodeId,
    numbers: (u64, u64),
    kept_ms: u64,
    nodes: BTreeSet<NodeId>,
    due_ms: u64,
    /// Times it was sent.
    count: usize,
}

/// The nodes that have an item that is fetched.
#[derive(Debug, Default)]
struct Fetch {
    keepers: Vec<NodeId>,
    requests: usize,
}

/// What is offered and fetched.
#[derive(Debug, Default)]
pub struct Exchange {
    offers: BTreeMap<ItemName, Offer>,
    due: BTreeSet<(u64, ItemName)>,
    fetches: BTreeMap<StreamKey, Fetch>,
}

impl Exchange {
    /// Returns when the next offer is due.
    pub fn deadline_ms(&self) -> Option<u64> {
        self.due.first().map(|(due_ms, _)| *due_ms)
    }

    /// Returns whether an item is fetched.
    pub fn is_fetched(&self, key: &StreamKey) -> bool {
        self.fetches.contains_key(key)
    }

    /// Ends fetching an item.
    pub fn end(&mut self, key: &StreamKey) {
        self.fetches.remove(key);
    }

    /// Returns the node to ask next for an item that is fetched.
    pub fn next_keeper(&mut self, key: &StreamKey) -> Option<NodeId> {
        let fetch = self.fetches.get_mut(key)?;
        fetch.requests += 1;
        fetch.keepers.get(fetch.requests % fetch.keepers.len().max(1)).copied()
    }

    fn remove_offer(&mut self, name: &ItemName) -> Option<Offer> {
        let offer = self.offers.remove(name)?;
        self.due.remove(&(offer.due_ms, name.clone()));
        Some(offer)
    }

    fn insert_offer(&mut self, name: ItemName, offer: Offer) {
        self.due.insert((offer.due_ms, name.clone()));
        self.offers.insert(name, offer);
    }
}

impl Domain {
    /// Returns the other nodes that can be reached, with version and patterns of their records.
    pub fn subscriptions(&self) -> impl Iterator<Item = (NodeId, u64, &[ScopePattern])> {
        self.links
            .reachable()
            .map(|(node, _, record)| (node, record.version, &record.body.patterns[..]))
    }

    /// Returns the other nodes that can be reached and subscribe to an item.
    pub fn subscribed_nodes(&self, name: &ItemName) -> BTreeSet<NodeId> {
        let all = self.links.reachable();
        all.filter(|(_, _, record)| record.wanted.matches(name)).map(|(node, _, _)| node).collect()
    }

    /// Returns whether a node can be reached, or is this one.
    pub fn is_reachable(&self, node: NodeId) -> bool {
        node == self.node || !self.links.path(node).is_empty()
    }

    /// Offers other nodes the publications `numbers` of an item that this node keeps.
    pub fn offer(
        &mut self,
        name: &ItemName,
        origin: NodeId,
        numbers: (u64, u64),
        kept_ms: u64,
        mut nodes: BTreeSet<NodeId>,
    ) {
        nodes.remove(&self.node);
        if nodes.is_empty() {
            return;
        }
        match self.exchange.remove_offer(name) {
            Some(earlier) if (earlier.origin, earlier.numbers) == (origin, numbers) => {
                nodes.extend(earlier.nodes);
            }
            None if self.exchange.offers.len() >= OFFERS_MAX => {
                self.counters.kept_omitted += 1;
                return;
            }
            _ => {}
        }
        let offer = Offer { origin, numbers, kept_ms, nodes, due_ms: self.now_ms, count: 0 };
        self.exchange.insert_offer(name.clone(), offer);
    }

    /// Sends the offers that are due. Each is repeated like the numbers of publications.
    pub(super) fn send_offers(&mut self) {
        for _ in 0..OFFERS_PER_STEP {
            let Some((due_ms, name)) = self.exchange.due.first().cloned() else { return };
            if due_ms > self.now_ms {
                return;
            }
            let Some(mut offer) = self.exchange.remove_offer(&name) else { return };
            let (first, last) = offer.numbers;
            let age_ms = self.now_ms.saturating_sub(offer.kept_ms);
            let bytes = KeptOffer { keeper: self.node, first, age_ms }.encode();
            let head =
                Head { name: &name, sequence: last, flags: KEPT | HEARTBEAT, source: offer.origin };
            self.send_parts(head, &bytes, &offer.nodes, |_| true);
            self.counters.kept_offers += 1;
            if let Some(delay_ms) = HEARTBEATS_MS.get(offer.count) {
                offer.count += 1;
                offer.due_ms = self.now_ms + delay_ms;
                self.exchange.insert_offer(name, offer);
            }
        }
    }

    /// Fetches publications of an item that a node keeps.
    pub fn fetch(&mut self, key: &StreamKey, keeper: NodeId, (first, last): (u64, u64)) {
        if !self.exchange.is_fetched(key) && self.exchange.fetches.len() >= FETCHES_MAX {
            self.counters.kept_omitted += 1;
            return;
        }
        let fetch = self.exchange.fetches.entry(key.clone()).or_default();
        if fetch.keepers.len() < KEEPERS_MAX && !fetch.keepers.contains(&keeper) {
            fetch.keepers.push(keeper);
        }
        self.streams.fetch(key, (first, last), Timestamp::from_millis(self.now_ms));
        self.report_progress();
    }

    /// Handles an offer or a request.
    pub(super) fn receive_kept(
        &mut self,
        (source, name): StreamKey,
        last: u64,
        flags: u8,
        bytes: &[u8],
    ) {
        let event = if flags & REPAIR != 0 {
            KeptOffer::split_request(bytes).map(|(origin, request)| {
                self.withdraw_offer(&name, source);
                DomainEvent::KeptRequest { node: source, origin, name, request }
            })
        } else if source == self.node || !self.is_wanted(&name) {
            self.counters.unwanted += 1;
            return;
        } else {
            KeptOffer::decode(bytes).map(|KeptOffer { keeper, first, age_ms }| {
                let kept_ms = self.now_ms.saturating_sub(age_ms);
                DomainEvent::Offer { origin: source, keeper, name, numbers: (first, last), kept_ms }
            })
        };
        match event {
            Some(event) => self.events.push(event),
            None => self.counters.invalid += 1,
        }
    }

    /// Ends an offer to a node that has answered it.
    fn withdraw_offer(&mut self, name: &ItemName, node: NodeId) {
        let Some(mut offer) = self.exchange.remove_offer(name) else { return };
        offer.nodes.remove(&node);
        if !offer.nodes.is_empty() {
            self.exchange.insert_offer(name.clone(), offer);
        }
    }

    /// Sends a node the kept publications that it requests. `None`: nothing is kept any more.
    pub fn answer_kept(
        &mut self,
        node: NodeId,
        (origin, name): (NodeId, &ItemName),
        request: &RepairRequest,
        history: Option<&History>,
    ) {
        let head = |sequence, flags| Head { name, sequence, flags: KEPT | flags, source: origin };
        let receiver = BTreeSet::from([node]);
        let (ranges, fragments) = match request {
            RepairRequest::Numbers(ranges) => (ranges.clone(), None),
            RepairRequest::Fragments(sequence, parts) => {
                (vec![(*sequence, *sequence)], Some(parts))
            }
            RepairRequest::Start(_) => return,
        };
        let is_wanted = |index| {
            fragments.is_none_or(|parts| parts.iter().any(|(a, b)| (*a..=*b).contains(&index)))
        };
        let first = history.and_then(|history| history.iter().next()).map(|(first, _)| first);
        if ranges.iter().any(|(start, _)| first.is_none_or(|first| *start < first)) {
            let up_to = first.map_or(u64::MAX, |first| first - 1);
            self.send_parts(head(up_to, GONE), &[], &receiver, |_| true);
        }
        for (sequence, payload) in history.into_iter().flat_map(History::iter) {
            if !ranges.iter().any(|(start, end)| (*start..=*end).contains(&sequence)) {
                continue;
            }
            self.budget.update(self.now_ms);
            if !self.budget.take() {
                self.counters.repair_limit += 1;
                return;
            }
            let mut budget = core::mem::take(&mut self.budget);
            let flags = REPAIRED | LAST_VALUE | KEEPS_LAST;
            let may_send = |index| is_wanted(index) && (index == 0 || budget.take());
            self.send_parts(head(sequence, flags), payload, &receiver, may_send);
            self.budget = budget;
            self.counters.kept_sent += 1;
        }
    }

    /// Sends a request for an item that is fetched. Returns whether it is.
    pub(super) fn request_kept(&mut self, key: &StreamKey, request: &RepairRequest) -> bool {
        let Some(keeper) = self.exchange.next_keeper(key) else { return false };
        let bytes = KeptOffer::request(key.0, request);
        let head = Head { name: &key.1, sequence: 0, flags: KEPT | REPAIR, source: self.node };
        self.send_parts(head, &bytes, &BTreeSet::from([keeper]), |_| true);
        true
    }

    /// Forgets all that was received of a node that is lost for good.
    pub fn forget_node(&mut self, node: NodeId) {
        self.streams.remove_node(node);
        self.exchange.fetches.retain(|(origin, _), _| *origin != node);
    }

    /// Ends fetching for nodes that can be reached again.
    pub(super) fn end_fetches(&mut self) {
        let links = &self.links;
        self.exchange.fetches.retain(|(origin, _), fetch| {
            links.path(*origin).is_empty() || fetch.keepers.contains(origin)
        });
    }
}
