//! Who publishes and subscribes to an item, and the effects of a change.

use super::{Effect, ItemKey, MembershipChange, Publisher, Rendezvous};
use crate::graph::{ClientKey, Slot, VertexKind};
use crate::strategy::{PublisherChoice, Strategy};
use nw_wire::publication::Id;

/// A change of an item's members, after it was made.
#[derive(Clone, Debug, Default)]
pub(super) struct Delta {
    pub(super) publishers_joined: Vec<ClientKey>,
    pub(super) publishers_left: Vec<ClientKey>,
    pub(super) subscribers_joined: Vec<ClientKey>,
    pub(super) subscribers_left: Vec<ClientKey>,
    pub(super) ids_changed: bool,
}

impl Delta {
    const fn is_empty(&self) -> bool {
        self.publishers_joined.is_empty()
            && self.publishers_left.is_empty()
            && self.subscribers_joined.is_empty()
            && self.subscribers_left.is_empty()
            && !self.ids_changed
    }
}

impl Rendezvous {
    pub(super) fn is_item(&self, slot: Slot) -> bool {
        self.graph.vertex(slot).kind == VertexKind::Item
    }

    fn key(&self, slot: Slot) -> ItemKey {
        ItemKey(u64::from(self.graph.vertex(slot).generation) << 32 | u64::from(slot))
    }

    /// Returns the slot of an item that still exists.
    pub(super) fn slot_of(&self, item: ItemKey) -> Option<Slot> {
        let slot = item.0 as Slot;
        let is_it = |slot: &Slot| self.key(*slot) == item && self.is_item(*slot);
        Some(slot).filter(|slot| self.graph.is_used(*slot)).filter(is_it)
    }

    /// Returns every client that subscribes to an item, to one of its scopes or to a pattern that
    /// matches it: sorted, each once.
    pub(super) fn effective_subscribers(&self, item: Slot) -> Vec<ClientKey> {
        let vertex = self.graph.vertex(item);
        let mut clients = vertex.subscriber_clients();
        for parent in vertex.parents.as_slice() {
            clients.extend(self.graph.vertex(*parent).subscriber_clients());
        }
        if self.patterns.len() > 0 {
            self.graph.ids(item).iter().for_each(|id| self.patterns.collect(id, &mut clients));
        }
        clients.sort_unstable();
        clients.dedup();
        clients
    }

    /// Returns whether a client receives an item's publications.
    pub(super) fn is_effective(&self, item: Slot, client: ClientKey) -> bool {
        let vertex = self.graph.vertex(item);
        if vertex.has_subscriber(client) {
            return true;
        }
        let mut parents = vertex.parents.as_slice().iter();
        if parents.any(|parent| self.graph.vertex(*parent).has_subscriber(client)) {
            return true;
        }
        self.patterns.len() > 0 && {
            let mut matched = Vec::new();
            self.graph.ids(item).iter().for_each(|id| self.patterns.collect(id, &mut matched));
            matched.contains(&client)
        }
    }

    /// Returns the publishers of an item with their strengths.
    fn publishers(&self, item: Slot, clients: &[ClientKey]) -> Vec<Publisher> {
        let publisher = |client: &ClientKey| Publisher {
            client: self.label(*client),
            strength: self.strengths.get(&(item, *client)).copied().unwrap_or(0),
        };
        clients.iter().map(publisher).collect()
    }

    /// Emits the effects of a change that was made to an item.
    pub(super) fn emit_change(&mut self, item: Slot, mut delta: Delta) {
        let publishers = self.graph.vertex(item).publisher_clients();
        if delta.is_empty() || publishers.is_empty() && delta.publishers_left.is_empty() {
            return;
        }
        let before = self.graph.vertex(item).subscriber_count;
        let is_first = !publishers.is_empty() && publishers == delta.publishers_joined;
        if is_first {
            delta.subscribers_joined = self.effective_subscribers(item);
            delta.subscribers_left.clear();
            delta.ids_changed = true;
        }
        let ended = publishers.is_empty();
        let count = match (ended, is_first) {
            (true, _) => 0,
            (_, true) => delta.subscribers_joined.len() as u32,
            _ => {
                before + delta.subscribers_joined.len() as u32 - delta.subscribers_left.len() as u32
            }
        };
        let vertex = self.graph.vertex_mut(item);
        vertex.subscriber_count = count;
        vertex.version = vertex.version.wrapping_add(1);
        self.emit_presence(item, &delta);
        if self.graph.vertex(item).strategy == Strategy::NodeLocal {
            self.emit_local(item, &publishers, before, &delta);
        }
        let vertex = self.graph.vertex(item);
        let change = MembershipChange {
            item: self.key(item),
            version: vertex.version,
            strategy: vertex.strategy,
            options: vertex.options,
            publishers_joined: self.publishers(item, &delta.publishers_joined),
            publishers_left: self.labels(&delta.publishers_left),
            subscribers_joined: self.labels(&delta.subscribers_joined),
            subscribers_left: self.labels(&delta.subscribers_left),
            ids: if delta.ids_changed { self.graph.ids(item) } else { Vec::new() },
            ended,
        };
        self.effects.push(Effect::Membership(change));
    }

    /// Returns an item's whole membership, for a receiver that missed a change. `None` if the item
    /// does not exist or has no publisher.
    pub fn membership(&self, item: ItemKey) -> Option<MembershipChange> {
        let slot = self.slot_of(item)?;
        let vertex = self.graph.vertex(slot);
        let publishers = vertex.publisher_clients();
        (!publishers.is_empty()).then(|| MembershipChange {
            item,
            version: vertex.version,
            strategy: vertex.strategy,
            options: vertex.options,
            publishers_joined: self.publishers(slot, &publishers),
            publishers_left: Vec::new(),
            subscribers_joined: self.labels(&self.effective_subscribers(slot)),
            subscribers_left: Vec::new(),
            ids: self.graph.ids(slot),
            ended: false,
        })
    }

    /// Returns the keys of all items with publishers, so that a new topology function can get
    /// every membership.
    pub fn published_items(&self) -> impl Iterator<Item = ItemKey> + '_ {
        let is_published =
            |slot: &Slot| self.is_item(*slot) && !self.graph.vertex(*slot).publishers.is_empty();
        self.graph.slots().filter(is_published).map(|slot| self.key(slot))
    }

    /// Returns the publishers that serve the item's subscribers on this node.
    fn serving(&self, item: Slot, publishers: &[ClientKey]) -> Vec<ClientKey> {
        let strength = |client: &ClientKey| {
            let strength = self.strengths.get(&(item, *client)).copied().unwrap_or(0);
            (core::cmp::Reverse(strength), self.label(*client))
        };
        match self.graph.vertex(item).options.choice {
            PublisherChoice::All => publishers.to_vec(),
            PublisherChoice::Nearest => publishers
                .iter()
                .min_by_key(|client| self.label(**client))
                .copied()
                .into_iter()
                .collect(),
            PublisherChoice::Strongest => publishers
                .iter()
                .min_by_key(|client| strength(client))
                .copied()
                .into_iter()
                .collect(),
        }
    }

    /// Emits `Start` and `Stop` for publishers of strategy node.
    fn emit_local(
        &mut self,
        item: Slot,
        publishers: &[ClientKey],
        count_before: u32,
        delta: &Delta,
    ) {
        let joined = &delta.publishers_joined;
        let mut earlier: Vec<ClientKey> =
            publishers.iter().filter(|client| !joined.contains(client)).copied().collect();
        earlier.extend(&delta.publishers_left);
        let serving_before = match count_before {
            0 => Vec::new(),
            _ => self.serving(item, &earlier),
        };
        let count = self.graph.vertex(item).subscriber_count;
        let serving = match count {
            0 => Vec::new(),
            _ => self.serving(item, publishers),
        };
        let (ids, key) = (self.graph.ids(item), self.key(item));
        for client in &serving {
            let is_new = !serving_before.contains(client);
            if is_new || !delta.subscribers_joined.is_empty() {
                let subscribers = match is_new {
                    true => self.effective_subscribers(item),
                    false => delta.subscribers_joined.clone(),
                };
                self.effects.push(Effect::Start {
                    publisher: self.label(*client),
                    item: key,
                    ids: ids.clone(),
                    subscribers: count,
                    joined: self.labels(&subscribers),
                });
            }
        }
        let stopped = publishers.iter().filter(|client| !serving.contains(client));
        for client in stopped {
            if serving_before.contains(client) || joined.contains(client) {
                let publisher = self.label(*client);
                self.effects.push(Effect::Stop { publisher, item: key, ids: ids.clone() });
            }
        }
    }

    fn emit_presence(&mut self, item: Slot, delta: &Delta) {
        if self.watchers.is_empty() {
            return;
        }
        let parents = self.graph.vertex(item).parents.as_slice();
        let watched = parents.iter().chain(core::iter::once(&item));
        let mut watchers: Vec<ClientKey> = watched
            .filter_map(|slot| self.watchers.get(slot))
            .flat_map(|clients| clients.as_slice())
            .copied()
            .collect();
        watchers.sort_unstable();
        watchers.dedup();
        if watchers.is_empty() {
            return;
        }
        let ids: Vec<Id> = self.graph.ids(item);
        for watcher in watchers {
            self.effects.push(Effect::Presence {
                watcher: self.label(watcher),
                ids: ids.clone(),
                publishers_joined: self.labels(&delta.publishers_joined),
                publishers_left: self.labels(&delta.publishers_left),
                subscribers_joined: delta.subscribers_joined.len() as u32,
                subscribers_left: delta.subscribers_left.len() as u32,
            });
        }
    }
}
