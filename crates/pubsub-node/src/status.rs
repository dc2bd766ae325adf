//! The status of a node as JSON.

use crate::node::Node;
use crate::publisher::{Delivery, Item, Origin, Publisher};
use crate::session::PublisherId;
use nw_api::pubsub::ItemName;
use nw_api::pubsub::status::{
    ApplicationStatus, Delivery as DeliveryName, ItemStatus, NameTrace, PubSubStatus,
    PublisherTrace, SubscriberTrace,
};
use std::collections::BTreeMap;

/// Items that a status lists at most.
const ITEMS_LISTED_MAX: usize = 10_000;
/// Patterns that a status lists of one application at most.
const PATTERNS_LISTED_MAX: usize = 1000;

impl Node {
    /// Answers a query: `status`, or `trace` and a name. Unknown topics get an empty object.
    pub(crate) fn describe(&self, topic: &str) -> String {
        let json = match topic.split_once(' ') {
            None if topic == "status" => serde_json::to_string(&self.status()),
            Some(("trace", name)) => match name.parse() {
                Ok(name) => serde_json::to_string(&self.trace(&name)),
                Err(_) => Ok("{}".into()),
            },
            _ => Ok("{}".into()),
        };
        json.unwrap_or_else(|_| "{}".into())
    }

    /// Returns the status of this node.
    pub(crate) fn status(&self) -> PubSubStatus {
        let items = self.publishers.iter().flat_map(|(id, publisher)| {
            publisher
                .items
                .iter()
                .map(move |(number, item)| item_status(*id, publisher, *number, item))
        });
        let items: Vec<ItemStatus> = items.take(ITEMS_LISTED_MAX).collect();
        let domain = self.domain.as_ref();
        PubSubStatus {
            node: domain.map_or_else(String::new, |domain| domain.node().to_string()),
            applications: self.applications(),
            scopes: self.scope_status(),
            items_omitted: (self.index.len().saturating_sub(items.len())) as u64,
            items,
            last_values: self.last_values.len() as u64,
            last_values_bytes: self.last_values.bytes() as u64,
            last_values_dropped: self.last_values.dropped(),
            faults: self.counters.faults,
            refusals: self.counters.refusals,
            refused_signatures: self.counters.refused_signatures,
            nodes: domain.map_or_else(Vec::new, |domain| domain.nodes()),
            domain: domain.map_or_else(Default::default, |domain| domain.counters()),
            blackadder: self
                .blackadder
                .as_ref()
                .map_or_else(Default::default, |b| b.counters.clone()),
            ethernet: self.ethernet_status.clone(),
        }
    }

    fn applications(&self) -> Vec<ApplicationStatus> {
        let describe = |(id, session): (&u64, &crate::session::Session)| {
            let (delivered, lost) = session.counts();
            let patterns = session.subscriptions.iter().take(PATTERNS_LISTED_MAX);
            ApplicationStatus {
                session: *id,
                program: session.program.clone(),
                pid: session.credentials.pid,
                uid: session.credentials.uid,
                shared_memory: session.page.is_some(),
                items: self.publishers.get(id).map_or(0, |publisher| publisher.items.len() as u64),
                subscriptions: patterns.map(|s| s.pattern.to_string()).collect(),
                delivered,
                lost,
            }
        };
        self.sessions.iter().filter(|(_, session)| session.is_welcome).map(describe).collect()
    }

    /// Returns what becomes of publications under a name.
    fn trace(&self, name: &ItemName) -> NameTrace {
        let publishers = self.index.named(name).filter_map(|(id, number)| {
            let publisher = self.publishers.get(&id)?;
            let item = publisher.items.get(&number)?;
            let status = item_status(id, publisher, number, item);
            let subscribers = item.subscribers.iter().map(|(session, delivery)| SubscriberTrace {
                session: *session,
                program: self.sessions.get(session).map_or_else(String::new, |s| s.program.clone()),
                delivery: match delivery {
                    Delivery::Ring => DeliveryName::Ring,
                    Delivery::Messages => DeliveryName::Messages,
                },
            });
            let subscribers = subscribers.collect();
            let trees = self.domain.as_ref().map(|domain| domain.tree(&item.nodes));
            let paths = self.domain.iter().flat_map(|domain| domain.forwarding_paths(&item.nodes));
            let stages = self.domain.iter().flat_map(|domain| domain.staged_trees(&item.nodes));
            Some(PublisherTrace {
                item: status,
                subscribers,
                links: trees.unwrap_or_default(),
                paths: paths.map(|path| path.to_string()).collect(),
                stages: stages.collect(),
            })
        });
        let publishers = publishers.collect();
        let matching: BTreeMap<_, _> = self
            .sessions
            .iter()
            .filter(|(_, session)| session.subscriptions.matches(name).is_some())
            .map(|(id, session)| (*id, session.program.clone()))
            .collect();
        let rule = self.rules.find(name);
        let refused = matching.keys().filter(|id| {
            self.sessions
                .get(id)
                .is_some_and(|session| !self.rules.may_subscribe(rule, session.party()))
        });
        NameTrace {
            name: name.to_string(),
            rule: rule.map(|rule| rule as u64 + 1),
            publishers,
            refused: refused.copied().collect(),
            matching: matching.keys().copied().collect(),
        }
    }
}

fn item_status(id: PublisherId, publisher: &Publisher, number: u32, item: &Item) -> ItemStatus {
    let sequence = publisher.ring.as_ref().and_then(|ring| ring.reader.sequence(number));
    let (session, node) = match publisher.origin {
        Origin::Application => (id, String::new()),
        Origin::Node(node) => (0, node.to_string()),
    };
    ItemStatus {
        name: item.name.to_string(),
        session,
        node,
        published: sequence.unwrap_or(0),
        subscribers: item.subscribers.len() as u64,
        nodes: item.nodes.len() as u64,
        choice: item.choice.map_or_else(String::new, |choice| choice.to_string()),
        strength: u64::from(item.strength),
        standby: item.is_standby(),
    }
}
