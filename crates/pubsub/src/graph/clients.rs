//! Clients of the graph: labels of nodes or applications as small numbers, and what each one uses.

use super::Slot;
use nw_wire::publication::Label;
use std::collections::{BTreeMap, BTreeSet};

/// Number of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientKey(u32);

/// All clients.
#[derive(Clone, Debug)]
pub(crate) struct Clients {
    by_label: BTreeMap<Label, ClientKey>,
    labels: Vec<Label>,
    free: Vec<ClientKey>,
    /// Vertices that a client publishes or subscribes to.
    uses: BTreeSet<(ClientKey, Slot)>,
    use_counts: Vec<u32>,
    clients_max: usize,
}

impl Clients {
    pub(super) const fn new(clients_max: usize) -> Self {
        Clients {
            by_label: BTreeMap::new(),
            labels: Vec::new(),
            free: Vec::new(),
            uses: BTreeSet::new(),
            use_counts: Vec::new(),
            clients_max,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.by_label.len()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        (self.by_label.len() * size_of::<(Label, ClientKey)>()
            + self.uses.len() * size_of::<(ClientKey, Slot)>())
            * 3
            / 2
            + self.labels.capacity() * size_of::<Label>()
            + self.use_counts.capacity() * size_of::<u32>()
    }

    /// Returns the number of a client.
    pub(crate) fn find(&self, label: Label) -> Option<ClientKey> {
        self.by_label.get(&label).copied()
    }

    /// Returns the number of a client, which is added if it is new. `None` if there are too many.
    pub(crate) fn find_or_insert(&mut self, label: Label) -> Option<ClientKey> {
        if let Some(client) = self.find(label) {
            return Some(client);
        }
        let client = match self.free.pop() {
            Some(client) => {
                self.labels[client.0 as usize] = label;
                client
            }
            None if self.labels.len() < self.clients_max => {
                self.labels.push(label);
                self.use_counts.push(0);
                ClientKey((self.labels.len() - 1) as u32)
            }
            None => return None,
        };
        self.by_label.insert(label, client);
        Some(client)
    }

    /// Removes a client that uses nothing.
    pub(crate) fn remove(&mut self, client: ClientKey) {
        debug_assert_eq!(self.use_count(client), 0, "a client in use");
        if self.by_label.remove(&self.label(client)).is_some() {
            self.free.push(client);
        }
    }

    pub(crate) fn label(&self, client: ClientKey) -> Label {
        self.labels[client.0 as usize]
    }

    /// Returns the number of vertices that a client publishes or subscribes to.
    pub(crate) fn use_count(&self, client: ClientKey) -> usize {
        self.use_counts[client.0 as usize] as usize
    }

    /// Returns the vertices that a client publishes or subscribes to, in the order of slots.
    pub(crate) fn uses(&self, client: ClientKey) -> Vec<Slot> {
        self.uses.range((client, 0)..=(client, Slot::MAX)).map(|(_, slot)| *slot).collect()
    }

    pub(super) fn add_use(&mut self, client: ClientKey, slot: Slot) {
        if self.uses.insert((client, slot)) {
            self.use_counts[client.0 as usize] += 1;
        }
    }

    pub(super) fn remove_use(&mut self, client: ClientKey, slot: Slot) {
        if self.uses.remove(&(client, slot)) {
            self.use_counts[client.0 as usize] -= 1;
        }
    }
}
