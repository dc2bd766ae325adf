//! The information graph as a list, for people and tools.

use super::Rendezvous;
use crate::graph::{Slot, VertexKind};
use crate::strategy::{ItemOptions, Strategy};
use nw_wire::publication::{Id, Label};

/// A scope or item as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedVertex {
    /// Full identifiers.
    pub ids: Vec<Id>,
    /// Scope or item.
    pub kind: VertexKind,
    /// Strategy.
    pub strategy: Strategy,
    /// Options of an item.
    pub options: ItemOptions,
    /// Publishers.
    pub publishers: Vec<Label>,
    /// Subscribers to the scope or item itself.
    pub subscribers: Vec<Label>,
    /// Subscribers of an item with those of its scopes and patterns; 0 without publishers.
    pub subscriber_count: u32,
}

impl Rendezvous {
    /// Returns scopes and items from a position on, at most `count_max`, with the position to
    /// continue from; `None` at the end.
    pub fn list(&self, position: u32, count_max: usize) -> (Vec<ListedVertex>, Option<u32>) {
        let mut slots = self.graph.slots().skip_while(|slot| *slot < position);
        let listed = slots.by_ref().take(count_max).map(|slot| self.listed(slot)).collect();
        (listed, slots.next())
    }

    /// Returns one scope or item.
    pub fn find(&self, id: &Id) -> Option<ListedVertex> {
        let slot = self.graph.find(id).filter(|_| !id.is_empty())?;
        Some(self.listed(slot))
    }

    fn listed(&self, slot: Slot) -> ListedVertex {
        let vertex = self.graph.vertex(slot);
        ListedVertex {
            ids: self.graph.ids(slot),
            kind: vertex.kind,
            strategy: vertex.strategy,
            options: vertex.options,
            publishers: self.labels(&vertex.publisher_clients()),
            subscribers: self.labels(&vertex.subscriber_clients()),
            subscriber_count: vertex.subscriber_count,
        }
    }
}
