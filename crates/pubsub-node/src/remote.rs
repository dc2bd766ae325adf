//! Between the state of this node and the domain: items and publications of other nodes.

use crate::domain::{DomainEvent, LaterUse, LinkAddress, NodeId, Receivers};
use crate::matching::Refusal;
use crate::node::Node;
use crate::publisher::{Origin, Publisher};
use crate::rules::Party;
use crate::session::PublisherId;
use nw_api::pubsub::{Event, ImplicitRoute, ItemName, ItemOptions, Reply, Strategy};
use std::collections::BTreeSet;

impl Node {
    /// Returns when the domain needs to run, milliseconds. `None` without a domain.
    pub fn deadline_ms(&self) -> Option<u64> {
        self.domain.as_ref().map(|domain| domain.deadline_ms())
    }

    /// Does what is due in the domain, and handles its events.
    pub fn run_domain(&mut self, now_ms: u64) {
        if self.domain.is_none() {
            return;
        }
        if core::mem::take(&mut self.patterns_changed) {
            let kept = self.keeping.patterns.iter();
            let accepted = self.index.patterns().chain(kept).collect();
            let subscriptions = self.sessions.values().flat_map(|s| s.subscriptions.iter());
            let told = subscriptions.filter(|subscription| !subscription.is_here);
            let told = told.map(|subscription| &subscription.pattern);
            let told: BTreeSet<_> = told.chain(&self.keeping.patterns).cloned().collect();
            if let Some(domain) = &mut self.domain {
                domain.set_patterns(told.into_iter().collect(), accepted);
                if core::mem::take(&mut self.patterns_removed) {
                    domain.forget_unwanted();
                }
            }
            self.drop_unwanted_items();
        }
        self.update_watches();
        if let Some(domain) = &mut self.domain {
            domain.tick(now_ms);
        }
        // What follows from an event may be further ones.
        while let Some(events) = self.domain.as_mut().map(|d| core::mem::take(&mut d.events))
            && !events.is_empty()
        {
            self.handle_domain_events(events);
        }
    }

    fn handle_domain_events(&mut self, events: Vec<DomainEvent>) {
        let mut has_changed = false;
        for event in events {
            match event {
                DomainEvent::Changed => has_changed = true,
                DomainEvent::Publication {
                    node,
                    name,
                    sequence,
                    payload,
                    use_after,
                    is_last_value,
                    is_kept,
                } => {
                    if is_kept && self.remote_item(node, &name).is_none() {
                        self.receive_kept(node, &name, sequence, &payload);
                        continue;
                    }
                    let flags = (use_after, is_last_value);
                    self.receive_publication(node, &name, sequence, &payload, flags);
                }
                DomainEvent::Missing { node, name, last } => self.miss(node, &name, last),
                DomainEvent::End { node, name } => {
                    if let Some((id, number)) = self.remote_item(node, &name) {
                        self.end_item(id, number);
                    }
                    self.end_fetch(node, &name);
                }
                DomainEvent::Offer { origin, keeper, name, numbers, kept_ms } => {
                    self.receive_offer((origin, name), keeper, numbers, kept_ms);
                }
                DomainEvent::KeptRequest { node, origin, name, request } => {
                    self.answer_kept(node, (origin, &name), &request);
                }
            }
        }
        if has_changed {
            self.update_parents();
            self.update_strategies();
            self.update_serving();
            self.update_all_nodes();
            self.check_paths();
            self.update_remote_presence();
            self.update_kept();
        }
    }

    /// Handles a packet.
    pub fn receive_packet(&mut self, now_ms: u64, from: LinkAddress, bytes: &[u8]) {
        if let Some(domain) = &mut self.domain {
            domain.receive(now_ms, from, bytes);
        } else {
            self.with_blackadder(|blackadder, node| {
                if let Some(packet) = blackadder.receive(&from, bytes) {
                    blackadder.take(node, &packet);
                }
            });
        }
    }

    pub(crate) fn remote_item(&self, node: NodeId, name: &ItemName) -> Option<(PublisherId, u32)> {
        let id = *self.remotes.get(&node)?;
        self.announced(id, name).map(|number| (id, number))
    }

    /// Takes a publication of another node.
    fn receive_publication(
        &mut self,
        node: NodeId,
        name: &ItemName,
        sequence: u64,
        payload: &[u8],
        (use_after, is_last_value): (LaterUse, bool),
    ) {
        let (id, number) = match self.remote_item(node, name) {
            Some(found) => found,
            None => {
                let Some(found) =
                    self.add_remote_item(node, name, sequence, payload, (use_after, is_last_value))
                else {
                    return;
                };
                if is_last_value {
                    return;
                }
                found
            }
        };
        let ring = self.publishers.get(&id).and_then(|publisher| publisher.ring.as_ref());
        let last = ring.and_then(|ring| ring.reader.sequence(number)).unwrap_or(0);
        if sequence <= last {
            return;
        }
        if !self.last_values.is_empty() {
            self.last_values.remove(name);
        }
        let delivered = u64::from(self.write_publication(id, number, sequence, payload));
        if let Some(domain) = &mut self.domain {
            domain.count_delivery(delivered, sequence - last - delivered);
        }
    }

    /// Announces an item of another node to the applications of this one. A last value is in the
    /// ring before they are attached, for those that want it.
    fn add_remote_item(
        &mut self,
        node: NodeId,
        name: &ItemName,
        sequence: u64,
        payload: &[u8],
        (use_after, is_last_value): (LaterUse, bool),
    ) -> Option<(PublisherId, u32)> {
        let id = match self.remotes.get(&node) {
            Some(id) => *id,
            None => {
                let id = self.new_id();
                self.publishers.insert(id, Publisher::new(Origin::Node(node)));
                self.remotes.insert(node, id);
                id
            }
        };
        let ring = self.ring_for(id).map_err(|text| tracing::error!("{text}")).ok()?;
        let items_max = ring.size.items;
        let number = self.publishers.get(&id)?.free_item(items_max)?;
        let ring = self.ring_for(id).ok()?;
        if let Some(writer) = &ring.writer {
            writer.start_item(number, sequence.saturating_sub(1));
        }
        let rule = self.rules.find(name);
        let is_signed = self.rules.check_signature(rule, name, sequence, payload).is_ok();
        let ring = self.ring_for(id).ok()?;
        let begin = ring.reader.tail();
        if is_last_value && is_signed && ring.holds(payload.len()) {
            ring.publish(number, sequence, payload);
        }
        let unexpected_ms = self.unexpected_ms(node, name);
        let options = ItemOptions { keeps_last: use_after.keeps_last, ..ItemOptions::default() };
        match self.add_item(id, number, name.clone(), options) {
            Ok(()) => {
                let publisher = self.publishers.get_mut(&id);
                let item = publisher.and_then(|found| found.items.get_mut(&number))?;
                item.begin = begin;
                if use_after.is_bound {
                    item.strategy = Strategy::LinkLocal;
                }
                item.unexpected_ms = unexpected_ms;
                Some((id, number))
            }
            Err((_, text)) => {
                self.counters.refusals += 1;
                tracing::debug!(%node, "item of another node refused: {text}");
                None
            }
        }
    }

    /// Tells the subscribers of an item that publications are lost on the way to this node.
    fn miss(&mut self, node: NodeId, name: &ItemName, last: u64) {
        let Some((id, number)) = self.remote_item(node, name) else { return };
        let Some(publisher) = self.publishers.get_mut(&id) else { return };
        let Some(ring) = &mut publisher.ring else { return };
        let before = ring.reader.sequence(number).unwrap_or(0);
        if last > before {
            ring.report_missing(number, last);
            publisher.wake_readers(number);
            self.ready.insert(id);
            if let Some(domain) = &mut self.domain {
                domain.count_delivery(0, last - before);
            }
        }
    }

    /// Ends the items of other nodes that no application of this node subscribes to.
    fn drop_unwanted_items(&mut self) {
        let mut unwanted = Vec::new();
        for (id, publisher) in &self.publishers {
            let Origin::Node(node) = publisher.origin else { continue };
            let items = publisher.items.iter().filter(|(_, item)| {
                item.subscribers.is_empty() && !self.keeping.follows(&item.name)
            });
            unwanted.extend(items.map(|(number, item)| (*id, *number, node, item.name.clone())));
        }
        for (id, number, node, name) in unwanted {
            let is_lost = !self.is_live(Origin::Node(node));
            let publisher = self.publishers.get_mut(&id);
            let item = publisher.and_then(|publisher| publisher.items.get_mut(&number));
            if let Some(item) = item {
                item.keeps_last &= is_lost;
            }
            self.end_item(id, number);
            if let Some(domain) = &mut self.domain {
                domain.forget(node, &name);
            }
        }
        self.drop_unfollowed_values();
    }

    /// Finds the subscribed nodes of all items again, after a change of the domain.
    fn update_all_nodes(&mut self) {
        let of_applications =
            self.publishers.iter().filter(|(_, p)| p.origin == Origin::Application);
        let items: Vec<(PublisherId, u32)> = of_applications
            .flat_map(|(id, publisher)| publisher.items.keys().map(|number| (*id, *number)))
            .collect();
        for (id, number) in items {
            self.update_nodes(id, number);
        }
        let Some(domain) = &self.domain else { return };
        let gone: Vec<(NodeId, PublisherId)> = self
            .remotes
            .iter()
            .filter(|(node, _)| !domain.is_known(**node))
            .map(|(node, id)| (*node, *id))
            .collect();
        for (node, id) in gone {
            self.end_publisher(id);
            self.remotes.remove(&node);
            if let Some(domain) = &mut self.domain {
                domain.forget_node(node);
            }
        }
    }

    /// Finds the subscribed nodes of an item, and tells new ones where it stands.
    pub(crate) fn update_nodes(&mut self, id: PublisherId, number: u32) {
        let Some(domain) = &self.domain else { return };
        let Some(publisher) = self.publishers.get(&id) else { return };
        let Some(item) = publisher.items.get(&number) else { return };
        let nodes = match (&item.route, self.rules.may_subscribe(item.rule, Party::Remote)) {
            (_, false) => BTreeSet::new(),
            (ImplicitRoute::Like(name), true) => {
                domain.receivers(core::slice::from_ref(name), Strategy::Domain)
            }
            _ => domain.receivers(item.names(), item.strategy),
        };
        let nodes = self.served_nodes(id, number, nodes);
        let item = self.publishers.get(&id).and_then(|publisher| publisher.items.get(&number));
        if item.is_none_or(|item| item.nodes == nodes) {
            return;
        }
        let round = self.round(id, number);
        let Some(domain) = &mut self.domain else { return };
        let Some(publisher) = self.publishers.get_mut(&id) else { return };
        let Some(item) = publisher.items.get_mut(&number) else { return };
        if item.choice.is_some() {
            let removed: BTreeSet<NodeId> = item.nodes.difference(&nodes).copied().collect();
            let reader = publisher.ring.as_ref().map(|ring| &ring.reader);
            let last = reader.and_then(|r| r.accounted(number).or_else(|| r.sequence(number)));
            domain.hand_over(&item.name, last.unwrap_or(0), &removed, nodes.is_empty());
        }
        let added: BTreeSet<NodeId> = nodes.difference(&item.nodes).copied().collect();
        if !item.nodes.is_subset(&nodes) {
            domain.retain_receivers(&item.name, &nodes);
        }
        item.nodes = nodes;
        let (count, needs_node) = (item.subscriber_count(), item.needs_node());
        let Some(ring) = &mut publisher.ring else { return };
        if needs_node && !added.is_empty() {
            let goes_to_all = item.strategy == Strategy::Broadcast
                || matches!(item.route, ImplicitRoute::Like(_));
            let receivers = Receivers { nodes: &added, round, have_subscribed: !goes_to_all };
            let last = ring.reader.sequence(number).unwrap_or(0);
            let value = if item.keeps_last { ring.last(number) } else { None };
            let value = value.filter(|(sequence, payload)| {
                self.rules.check_signature(item.rule, &item.name, *sequence, payload).is_ok()
            });
            let value = value.as_ref().map(|(sequence, payload)| (*sequence, &payload[..]));
            domain.start_item(&item.name, last, value, item.later_use(), receivers);
        }
        match needs_node {
            true => self.follow(id, number),
            false => self.unfollow(id, number),
        }
        self.send(id, &Event::Subscribers { item: number, count }, None, true);
    }
}

impl Node {
    /// Sets where the publications of an item with the strategy implicit go.
    pub(crate) fn set_route(
        &mut self,
        id: PublisherId,
        number: u32,
        route: ImplicitRoute,
    ) -> Result<(), Refusal> {
        let publisher = self.publishers.get_mut(&id);
        let item = publisher.and_then(|publisher| publisher.items.get_mut(&number));
        let Some(item) = item else {
            return Err((Reply::Missing, format!("there is no item {number}")));
        };
        if item.strategy != Strategy::Implicit {
            let text = format!("{} has the strategy {}, not implicit", item.name, item.strategy);
            return Err((Reply::Mismatch, text));
        }
        let Some(domain) = &mut self.domain else {
            return Err((Reply::Unknown, "this node has no domain (pubsub.domain)".into()));
        };
        if route != ImplicitRoute::Nowhere && !self.rules.may_subscribe(item.rule, Party::Remote) {
            let text = format!("a pubsub_rule forbids other nodes to read {}", item.name);
            return Err((Reply::Forbidden, text));
        }
        let path = match &route {
            ImplicitRoute::Path(path) => Some(*path),
            _ => None,
        };
        domain.set_path(&item.name, path).map_err(|text| (Reply::Full, text.into()))?;
        item.route = route;
        item.path_nodes.clear();
        self.update_nodes(id, number);
        self.check_path(id, number);
        if path.is_some() {
            self.follow(id, number);
            self.start_path(id, number);
        }
        Ok(())
    }

    /// Finds where all given forwarding identifiers lead, after a change of the domain.
    fn check_paths(&mut self) {
        let all = self.publishers.iter().flat_map(|(id, publisher)| {
            let items = publisher.items.iter();
            let given = items.filter(|(_, item)| matches!(item.route, ImplicitRoute::Path(_)));
            given.map(|(number, _)| (*id, *number))
        });
        for (id, number) in all.collect::<Vec<_>>() {
            self.check_path(id, number);
        }
    }

    /// Finds where the forwarding identifier of an item leads, and tells its publisher the number
    /// of nodes. Links that are gone make an identifier outdated.
    fn check_path(&mut self, id: PublisherId, number: u32) {
        let publisher = self.publishers.get_mut(&id);
        let item = publisher.and_then(|publisher| publisher.items.get_mut(&number));
        let (Some(item), Some(domain)) = (item, &mut self.domain) else { return };
        let now = domain.path_nodes(&item.name);
        if now == item.path_nodes {
            return;
        }
        let before = core::mem::replace(&mut item.path_nodes, now);
        let missing = before.difference(&item.path_nodes).count();
        if missing > 0 {
            domain.count_outdated_path();
            tracing::warn!(
                "the forwarding identifier of {} leads to {missing} nodes less than before: give \
                 it a new one, as `nw pubsub trace` shows for its receivers",
                item.name
            );
        }
        let count = item.subscriber_count();
        self.send(id, &Event::Subscribers { item: number, count }, None, true);
    }

    /// Tells the nodes on a given path where an item stands.
    fn start_path(&mut self, id: PublisherId, number: u32) {
        let round = self.round(id, number);
        let Some(publisher) = self.publishers.get_mut(&id) else { return };
        let Publisher { ring: Some(ring), items, .. } = publisher else { return };
        let (Some(domain), Some(item)) = (&mut self.domain, items.get(&number)) else { return };
        let last = ring.reader.sequence(number).unwrap_or(0);
        let nodes = &BTreeSet::new();
        let receivers = Receivers { nodes, round, have_subscribed: false };
        domain.start_item(&item.name, last, None, item.later_use(), receivers);
    }

    /// Returns the round of an item's numbers: that of its name's first publisher at this node.
    /// Other nodes see the numbers of all publishers of a name at a node as one sequence.
    fn round(&self, id: PublisherId, number: u32) -> u32 {
        let item = |(id, number)| self.publishers.get(&id)?.items.get(&number);
        let Some(own) = item((id, number)) else { return 0 };
        let of_applications = self.index.named(&own.name).filter(|(id, _)| {
            self.publishers.get(id).is_some_and(|found| found.origin == Origin::Application)
        });
        let named = of_applications.filter_map(item).filter(|found| found.name == own.name);
        named.map(|found| found.id).min().unwrap_or(own.id)
    }
}
