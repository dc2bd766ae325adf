//! Publications of other nodes for applications of this node.
//!
//! Data is matched again here, as in Blackadder: a forwarding identifier may lead to nodes without
//! a subscriber. Items are announced when the first publication comes that is wanted.

use super::BlackadderDomain;
use crate::node::Node;
use crate::session::SessionId;
use nw_api::pubsub::{Fragment, ItemName, ItemOptions, Reply};
use nw_wire::publication::IdList;
use std::collections::BTreeSet;

/// Items of other nodes that are announced here at once.
const ITEMS_MAX: usize = 4096;
/// Names of an item at most: as many as one packet may have. Further ones are counted as omitted.
const NAMES_MAX: usize = 255;

/// An item of other nodes.
#[derive(Debug)]
pub(super) struct InwardItem {
    /// Its number at the node.
    number: u32,
    /// Number of the last publication.
    sequence: u64,
    /// Names by which it is known here.
    names: BTreeSet<ItemName>,
}

impl BlackadderDomain {
    /// Passes a publication on to those of this node that want it.
    pub(super) fn publish_inward(&mut self, node: &mut Node, ids: IdList<'_>, payload: &[u8]) {
        let Some(session) = self.session() else {
            self.counters.unwanted += 1;
            return;
        };
        let names: Vec<ItemName> =
            ids.iter().filter_map(|id| self.names.name_of_labels(id.labels())).collect();
        let is_wanted = |name: &ItemName| {
            node.index.subscribers(name).iter().any(|subscriber| *subscriber != session)
        };
        let Some(first) = names.first().filter(|_| names.iter().any(is_wanted)) else {
            self.counters.unwanted += 1;
            return;
        };
        if !self.inward.contains_key(first)
            && let Err(text) = self.announce(node, session, first)
        {
            node.counters.refusals += 1;
            tracing::debug!(%first, "pubsub.blackadder_node: a publication is dropped: {text}");
            return;
        }
        let Some(item) = self.inward.get_mut(first) else { return };
        for name in &names {
            if item.names.contains(name) {
                continue;
            }
            if item.names.len() >= NAMES_MAX {
                self.counters.omitted += 1;
                continue;
            }
            item.names.insert(name.clone());
            // What stands under another scope is the same item there.
            let scope = name.scopes().next();
            if let Some(scope) = scope.filter(|_| last_component(name) == last_component(first)) {
                match node.add_parent(session, first.as_str(), scope.as_str()) {
                    Ok(()) | Err((Reply::Exists, _)) => {}
                    Err((Reply::Full, _)) => self.counters.omitted += 1,
                    Err(_) => node.counters.refusals += 1,
                }
            }
        }
        item.sequence += 1;
        for part in Fragment::parts(item.sequence, payload) {
            if let Err(text) = node.take_data(session, item.number, part) {
                tracing::warn!(%first, "pubsub.blackadder_node: {text}");
                return;
            }
        }
        self.counters.delivered += 1;
    }

    fn announce(
        &mut self,
        node: &mut Node,
        session: SessionId,
        name: &ItemName,
    ) -> Result<(), String> {
        let items_max = node.config.items_per_application;
        if self.inward.len() >= ITEMS_MAX.min(items_max as usize)
            && let Some(oldest) = self.inward_order.pop_front()
            && let Some(item) = self.inward.remove(&oldest)
        {
            let _was_there = node.unpublish(session, item.number);
        }
        let number = match node.publishers.get(&session) {
            Some(publisher) => publisher.free_item(items_max).ok_or("there are too many items")?,
            None => 0,
        };
        let options = ItemOptions::default();
        node.publish(session, number, options, name.as_str()).map_err(|(_, text)| text)?;
        let names = BTreeSet::from([name.clone()]);
        self.inward.insert(name.clone(), InwardItem { number, sequence: 0, names });
        self.inward_order.push_back(name.clone());
        Ok(())
    }
}

fn last_component(name: &ItemName) -> &str {
    name.as_str().rsplit('/').next().unwrap_or_default()
}
