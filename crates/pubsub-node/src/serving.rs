//! Several publishers of an item: which of them serve which subscribers.
//!
//! A publisher may choose that one of them serves each subscriber: the nearest or the strongest.
//! The choice is a property of the item, as a strategy is of a scope. Link-state records list the
//! publishers of such items, so every node computes the same without an election, when states
//! change and not for each publication: this node's publishers serve the nodes and applications
//! for which they are selected, and others have no subscribers. Invariants: of the publishers that
//! reach a subscriber's node one is selected, the same at all nodes that have the same records; of
//! two choices given at the same time, that of the lowest node counts everywhere; publications that
//! a publisher made while it did not serve a subscriber do not count as lost for it.

use crate::domain::{ItemPublisher, NodeId, PUBLISHERS_BYTES_MAX};
use crate::matching::Refusal;
use crate::node::Node;
use crate::publisher::{Item, Origin};
use crate::rules::Party;
use crate::session::{PublisherId, SessionId};
use nw_api::pubsub::{ItemName, PublisherChoice, Reply, Strategy};
use nw_pubsub::strategy::Candidate;
use std::collections::{BTreeMap, BTreeSet};

/// Milliseconds within which another node may serve this one before this one knows why.
const LAG_MS: u64 = 1000;

/// Publishers of items with a choice.
#[derive(Debug, Default)]
pub struct Serving {
    /// Publishers at other nodes that can be reached, by item.
    others: BTreeMap<ItemName, Vec<(NodeId, ItemPublisher)>>,
    /// What other nodes are told of those of this node, by item: one that serves other nodes, and
    /// one that serves this node if that is another one.
    own: BTreeMap<ItemName, Vec<ItemPublisher>>,
    /// Bytes of `own` in the record of this node.
    own_bytes: usize,
    /// The other node that serves this one, by item.
    serving_nodes: BTreeMap<ItemName, NodeId>,
}

impl Serving {
    fn set_own(&mut self, name: &ItemName, publishers: Vec<ItemPublisher>) -> bool {
        let len = |publishers: &[ItemPublisher]| -> usize {
            publishers.iter().map(|publisher| publisher.record_len(name)).sum()
        };
        let before = self.own.get(name).map_or(&[][..], Vec::as_slice);
        if before == publishers {
            return false;
        }
        self.own_bytes = self.own_bytes + len(&publishers) - len(before);
        match publishers.is_empty() {
            true => self.own.remove(name),
            false => self.own.insert(name.clone(), publishers),
        };
        true
    }

    /// Returns whether this node can tell others of a further item.
    fn has_space(&self, name: &ItemName) -> bool {
        let longest = ItemPublisher {
            choice: PublisherChoice::Strongest,
            strength: u32::MAX,
            strategy: Strategy::Broadcast,
        };
        // The head of the list, and two publishers of the item.
        let needed = 10 + 2 * longest.record_len(name);
        self.own.contains_key(name) || self.own_bytes + needed <= PUBLISHERS_BYTES_MAX
    }
}

impl Node {
    /// Returns the choice of a new item: the one it asks for, or that of the item's publishers.
    /// Items of other nodes have none here.
    pub(crate) fn item_choice(
        &self,
        id: PublisherId,
        name: &ItemName,
        wanted: Option<PublisherChoice>,
        strategy: Strategy,
    ) -> Result<Option<PublisherChoice>, Refusal> {
        let origin = self.publishers.get(&id).map(|publisher| publisher.origin);
        if origin != Some(Origin::Application) {
            return Ok(None);
        }
        let given = self.given_choice(name);
        match (wanted, given) {
            (Some(wanted), Some(given)) if wanted != given => {
                let text = format!("{name} has publishers with the choice {given}, not {wanted}");
                Err((Reply::Mismatch, text))
            }
            (Some(wanted), _) if strategy == Strategy::Implicit => {
                let text = format!("the strategy implicit says where {name} goes, not {wanted}");
                Err((Reply::Mismatch, text))
            }
            (Some(_), _) if !self.serving.has_space(name) => {
                let text = "too many items of this node have a choice of publishers: withdraw some";
                Err((Reply::Full, text.into()))
            }
            _ => Ok(wanted.or(given).filter(|_| self.serving.has_space(name))),
        }
    }

    /// Returns the choice that publishers of an item gave: that of the lowest node.
    fn given_choice(&self, name: &ItemName) -> Option<PublisherChoice> {
        let others = self.serving.others.get(name).into_iter().flatten();
        let lowest = others.map(|(node, publisher)| (*node, publisher.choice)).min_by_key(|o| o.0);
        let mut own = self.own_publishers(name).into_iter();
        let own = own.find_map(|(id, number)| self.publishers[&id].items[&number].choice);
        match (lowest, own) {
            (Some((node, choice)), Some(_)) if node < self.own_node() => Some(choice),
            (Some((_, choice)), None) => Some(choice),
            (_, own) => own,
        }
    }

    /// Returns the items that applications of this node announced under a name, in ascending order.
    fn own_publishers(&self, name: &ItemName) -> Vec<(PublisherId, u32)> {
        let is_own = |(id, number): &(PublisherId, u32)| {
            let publisher = self.publishers.get(id).filter(|p| p.origin == Origin::Application);
            publisher.and_then(|p| p.items.get(number)).is_some_and(|item| item.name == *name)
        };
        self.index.named(name).filter(is_own).collect()
    }

    /// Reads which publishers other nodes have, after a change of the domain.
    pub(crate) fn update_serving(&mut self) {
        let Some(domain) = &self.domain else { return };
        let mut others: BTreeMap<ItemName, Vec<(NodeId, ItemPublisher)>> = BTreeMap::new();
        for (node, (name, publisher)) in domain.publishers() {
            others.entry(name.clone()).or_default().push((node, *publisher));
        }
        let before = core::mem::replace(&mut self.serving.others, others);
        let known = before.keys().chain(self.serving.others.keys()).chain(self.serving.own.keys());
        let names: BTreeSet<ItemName> = known.cloned().collect();
        let mut has_changed = false;
        for name in &names {
            has_changed |= self.select_own(name);
        }
        if has_changed {
            self.tell_publishers();
        }
        names.iter().for_each(|name| self.apply_selection(name));
    }

    /// Finds again which publishers of an item serve, after a change at this node.
    pub(crate) fn update_item_serving(&mut self, name: &ItemName) {
        // Others are told first: they stop when they know of a better one.
        if self.select_own(name) {
            self.tell_publishers();
        }
        self.apply_selection(name);
    }

    fn tell_publishers(&mut self) {
        let own = self.serving.own.iter();
        let own = own.flat_map(|(name, all)| all.iter().map(|one| (name.clone(), *one)));
        let own = own.collect();
        if let Some(domain) = &mut self.domain {
            domain.set_publishers(own);
        }
    }

    /// Gives this node's publishers of an item the choice that counts, and finds what others are
    /// told of them. Returns whether that changed.
    fn select_own(&mut self, name: &ItemName) -> bool {
        let own = self.own_publishers(name);
        let choice = self.given_choice(name).filter(|_| self.serving.has_space(name));
        let Some(choice) = choice.filter(|_| !own.is_empty()) else {
            return self.serving.set_own(name, Vec::new());
        };
        for (id, number) in &own {
            if let Some(item) = self.item_mut(*id, *number) {
                item.choice = Some(choice);
            }
        }
        let outside = self.outside_publisher(name, choice);
        let inside = self.inside_publisher(&own, choice);
        let mut told = Vec::new();
        for ((id, number), is_outside) in
            [(outside, true), (inside.filter(|_| inside != outside), false)]
                .into_iter()
                .filter_map(|(found, is_outside)| found.map(|found| (found, is_outside)))
        {
            let item = &self.publishers[&id].items[&number];
            let strategy = if is_outside { item.strategy } else { Strategy::NodeLocal };
            told.push(ItemPublisher { choice, strength: item.strength, strategy });
        }
        self.serving.set_own(name, told)
    }

    fn item_mut(&mut self, id: PublisherId, number: u32) -> Option<&mut Item> {
        self.publishers.get_mut(&id)?.items.get_mut(&number)
    }

    /// Returns the publisher of this node that serves applications of this node if no other node's
    /// does.
    fn inside_publisher(
        &self,
        own: &[(PublisherId, u32)],
        choice: PublisherChoice,
    ) -> Option<(PublisherId, u32)> {
        let candidate = |(id, number): &(PublisherId, u32)| Candidate {
            publisher: (*id, *number),
            hops: 0,
            strength: self.publishers[id].items[number].strength,
        };
        choice.select(own.iter().map(candidate))
    }

    /// Returns the publisher of this node that serves other nodes, if any is selected for them.
    fn outside_publisher(
        &self,
        name: &ItemName,
        choice: PublisherChoice,
    ) -> Option<(PublisherId, u32)> {
        let mut own = self.own_publishers(name);
        own.retain(|(id, number)| {
            let item = &self.publishers[id].items[number];
            let stays = matches!(item.strategy, Strategy::NodeLocal | Strategy::Implicit);
            !stays && self.rules.may_subscribe(item.rule, Party::Remote)
        });
        match choice {
            // They all do; one is told, for the choice.
            PublisherChoice::All => own.first().copied(),
            _ => self.inside_publisher(&own, choice),
        }
    }

    /// Returns the node whose publisher serves another one.
    fn serving_node(
        &mut self,
        name: &ItemName,
        choice: PublisherChoice,
        to: NodeId,
    ) -> Option<NodeId> {
        let own_node = self.own_node();
        let own = self.serving.own.get(name).into_iter().flatten();
        let own = own.map(|publisher| (own_node, *publisher));
        let others = self.serving.others.get(name).into_iter().flatten().copied();
        let domain = self.domain.as_mut()?;
        let candidates = own.chain(others).filter_map(|(node, publisher)| {
            let hops = domain.hops(node, to).filter(|hops| publisher.reaches(*hops))?;
            Some(Candidate { publisher: node, hops, strength: publisher.strength })
        });
        choice.select(candidates)
    }

    /// Returns the nodes that a publisher serves, of those that subscribe to its item.
    pub(crate) fn served_nodes(
        &mut self,
        id: PublisherId,
        number: u32,
        mut nodes: BTreeSet<NodeId>,
    ) -> BTreeSet<NodeId> {
        let item = self.publishers.get(&id).and_then(|publisher| publisher.items.get(&number));
        let Some(item) = item else { return nodes };
        let selecting = item.choice.filter(|choice| *choice != PublisherChoice::All);
        let Some(choice) = selecting.filter(|_| item.strategy != Strategy::Implicit) else {
            return nodes;
        };
        let name = item.name.clone();
        if self.outside_publisher(&name, choice) != Some((id, number)) {
            return BTreeSet::new();
        }
        let own_node = self.own_node();
        nodes.retain(|node| self.serving_node(&name, choice, *node) == Some(own_node));
        nodes
    }

    /// Begins and ends the service of this node's publishers of an item, and the reception from
    /// those of other nodes.
    fn apply_selection(&mut self, name: &ItemName) {
        let Some(choice) = self.given_choice(name) else {
            self.serving.serving_nodes.remove(name);
            return;
        };
        let own_node = self.own_node();
        let mut own = self.own_publishers(name);
        own.retain(|(id, number)| self.publishers[id].items[number].choice.is_some());
        let may_come = self.rules.may_publish(self.rules.find(name), Party::Remote);
        let node = match may_come && self.domain.is_some() {
            true => self.serving_node(name, choice, own_node),
            false => Some(own_node),
        };
        let inside = self.inside_publisher(&own, choice).filter(|_| node == Some(own_node));
        let is_for_all = choice == PublisherChoice::All;
        for serves in [false, true] {
            for (id, number) in &own {
                if serves == (is_for_all || inside == Some((*id, *number))) {
                    self.set_serves_here(*id, *number, serves);
                }
            }
        }
        // Nodes are told the end of one publisher before the beginning of the next.
        let outside = self.outside_publisher(name, choice);
        own.sort_by_key(|found| outside == Some(*found));
        own.into_iter().for_each(|(id, number)| self.update_nodes(id, number));
        if let Some(node) = node.filter(|_| !is_for_all) {
            self.end_replaced(name, node);
        }
    }

    fn set_serves_here(&mut self, id: PublisherId, number: u32, serves: bool) {
        let Some(item) = self.item_mut(id, number) else { return };
        if core::mem::replace(&mut item.serves_here, serves) == serves {
            return;
        }
        // What it published while it served is passed on, also to other nodes.
        self.pump(id, usize::MAX);
        let Some(item) = self.item_mut(id, number) else { return };
        if !serves {
            let sessions: Vec<SessionId> = item.subscribers.keys().copied().collect();
            sessions.into_iter().for_each(|session| self.detach(id, number, session));
            return;
        }
        let names: Vec<ItemName> = item.names().cloned().collect();
        let wanting: BTreeSet<SessionId> =
            names.iter().flat_map(|name| self.index.subscribers(name)).collect();
        for session in wanting {
            // Its last publication may be one that subscribers missed before they were switched.
            let history = self.wanted_history(session, id, number).unwrap_or(0).min(1);
            if session != id {
                self.attach(id, number, session, history);
            }
        }
    }

    /// Ends what this node received of an item from nodes whose publishers do not serve it now.
    fn end_replaced(&mut self, name: &ItemName, serving: NodeId) {
        let before = match serving == self.own_node() {
            true => self.serving.serving_nodes.remove(name),
            false => self.serving.serving_nodes.insert(name.clone(), serving),
        };
        let named: Vec<(PublisherId, u32)> = self.index.named(name).collect();
        let Some(domain) = &mut self.domain else { return };
        let now_ms = domain.now_ms();
        let is_late = |since_ms: u64| since_ms + LAG_MS <= now_ms;
        let (mut ended, mut is_received) = (Vec::new(), false);
        for (id, number) in named {
            let Some(publisher) = self.publishers.get_mut(&id) else { continue };
            let Origin::Node(node) = publisher.origin else { continue };
            let item = publisher.items.get_mut(&number).filter(|item| item.name == *name);
            let Some(item) = item else { continue };
            is_received |= node == serving;
            let is_replaced = match node == serving {
                true => item.unexpected_ms.take().is_some_and(is_late),
                false => domain.lists_publisher(node, name),
            };
            if is_replaced && !domain.end_stream(node, name) {
                ended.push((id, number));
            }
        }
        if before != Some(serving) && !is_received {
            // At most a number is known, from when it served this node last.
            domain.forget_numbers(serving, name);
        }
        ended.into_iter().for_each(|(id, number)| self.end_item(id, number));
    }

    /// Returns the time if another node's publications of an item are not expected, because another
    /// publisher serves this node: it may just have begun, or be late to end.
    pub(crate) fn unexpected_ms(&self, node: NodeId, name: &ItemName) -> Option<u64> {
        let choice = self.given_choice(name)?;
        let is_expected =
            choice == PublisherChoice::All || self.serving.serving_nodes.get(name) == Some(&node);
        self.domain.as_ref().map(|domain| domain.now_ms()).filter(|_| !is_expected)
    }
}

#[cfg(test)]
mod tests;
