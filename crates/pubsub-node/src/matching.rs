//! Local rendezvous: which application gets which item, and by ring or by messages.
//!
//! Invariant: a ring is passed only to applications that may read all items in it. Others of its
//! items reach them by messages.

use crate::node::Node;
use crate::publisher::{Delivery, Item, Origin, Publisher, Ring, RingUser};
use crate::rules::Party;
use crate::session::{PublisherId, SessionId};
use nw_api::pubsub::{Event, Fragment, ItemName, Reply, ScopePattern};
use nw_faces::local_pubsub::{Progress, ReaderPage};
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::AsFd;

/// Why a request was refused: code and a sentence for a person.
pub type Refusal = (Reply, String);

/// Number of the node as a reader of an application's ring.
const NODE_READER: u32 = 0;

impl Node {
    /// Announces an item of an application or another node, and attaches its subscribers.
    pub(crate) fn add_item(
        &mut self,
        id: PublisherId,
        number: u32,
        name: ItemName,
        keeps_last: bool,
    ) -> Result<(), Refusal> {
        let rule = self.rules.find(&name);
        self.check_new_item(id, number, &name, rule)?;
        let item = Item {
            id: self.new_item_id(),
            name: name.clone(),
            rule,
            keeps_last,
            subscribers: BTreeMap::new(),
            nodes: BTreeSet::new(),
        };
        let Some(publisher) = self.publishers.get_mut(&id) else {
            return Err((Reply::Unknown, "offer a ring first".into()));
        };
        publisher.items.insert(number, item);
        publisher.rules.extend(rule);
        let origin = publisher.origin;
        self.index.insert_item(name.clone(), id, number);
        for session in self.index.subscribers(&name) {
            // What another node had published before is in the ring by now, if it is wanted.
            let wants_last = origin != Origin::Application
                && self.sessions.get(&session).and_then(|found| found.matches(&name)) == Some(true);
            if session != id {
                self.attach(id, number, session, wants_last);
            }
        }
        if origin == Origin::Application {
            self.update_nodes(id, number);
        }
        Ok(())
    }

    fn check_new_item(
        &mut self,
        id: PublisherId,
        number: u32,
        name: &ItemName,
        rule: Option<usize>,
    ) -> Result<(), Refusal> {
        let party = self.sessions.get(&id).map_or(Party::Remote, |session| session.party());
        let Some(publisher) = self.publishers.get(&id) else {
            return Err((Reply::Unknown, "offer a ring first".into()));
        };
        if !self.rules.may_publish(rule, party) {
            return Err((Reply::Forbidden, format!("a pubsub_rule forbids publishing {name}")));
        }
        if publisher.items.contains_key(&number) {
            return Err((Reply::Exists, format!("item {number} is in use")));
        }
        if publisher.items.len() >= self.config.items_per_application as usize {
            let text = "pubsub.items_per_application is reached: withdraw items, or raise it";
            return Err((Reply::Full, text.into()));
        }
        if self.index.len() >= self.config.items as usize {
            return Err((Reply::Full, "pubsub.items is reached: raise it".into()));
        }
        if self.index.named(name).any(|(publisher, _)| publisher == id) {
            return Err((Reply::Exists, format!("this application publishes {name} already")));
        }
        let may_read = |session: &SessionId| {
            self.sessions
                .get(session)
                .is_some_and(|session| self.rules.may_subscribe(rule, session.party()))
        };
        if !publisher.users.keys().all(may_read) {
            let text = format!(
                "some that read this publisher's ring may not read {name}: publish it from a \
                 connection of its own"
            );
            return Err((Reply::Forbidden, text));
        }
        Ok(())
    }

    /// Subscribes an application to a pattern, and attaches it to the items there are.
    pub(crate) fn match_subscription(
        &mut self,
        session: SessionId,
        pattern: &ScopePattern,
        wants_last: bool,
    ) {
        let mut named_live: BTreeSet<ItemName> = BTreeSet::new();
        for (id, number) in self.index.matching(pattern) {
            let Some(item) = self.publishers.get(&id).and_then(|p| p.items.get(&number)) else {
                continue;
            };
            let has_values = self.publishers[&id]
                .ring
                .as_ref()
                .and_then(|ring| ring.reader.sequence(number))
                .is_some_and(|sequence| sequence > 0);
            if has_values {
                named_live.insert(item.name.clone());
            }
            if id != session {
                self.attach(id, number, session, wants_last);
            }
        }
        for name in &named_live {
            self.last_values.remove(name);
        }
        if wants_last {
            self.send_last_values(session, pattern);
        }
    }

    /// Sends the last values of ended publishers that match a pattern.
    fn send_last_values(&mut self, id: SessionId, pattern: &ScopePattern) {
        let values: Vec<_> = self
            .last_values
            .matching(pattern)
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        for (name, value) in values {
            let rule = self.rules.find(&name);
            let Some(session) = self.sessions.get_mut(&id) else { return };
            let may = self.rules.may_subscribe(rule, session.party());
            if !may || !session.has_relay_space(value.payload.len()) {
                continue;
            }
            session.relayed += 1;
            let item = self.new_item_id();
            let (source, after, name) = (u32::MAX, value.sequence, name.to_string());
            let begin = Event::Item { source, item, position: 0, after, reads_last: true, name };
            self.send(id, &begin, None, false);
            for fragment in Fragment::parts(value.sequence, &value.payload) {
                let data = Event::Data { item, is_last_value: true, fragment };
                self.send(id, &data, None, false);
            }
            self.send(id, &Event::ItemEnd { source, item, last: value.sequence }, None, false);
        }
    }

    /// Attaches an application to an item, if it may read it.
    pub(crate) fn attach(
        &mut self,
        id: PublisherId,
        number: u32,
        session_id: SessionId,
        wants_last: bool,
    ) {
        let Some(session) = self.sessions.get_mut(&session_id) else { return };
        let Some(publisher) = self.publishers.get_mut(&id) else { return };
        let party = session.party();
        let may_read_ring = session.page.is_some()
            && publisher.rules.iter().all(|rule| self.rules.may_subscribe(Some(*rule), party));
        let Some(item) = publisher.items.get_mut(&number) else { return };
        if item.subscribers.contains_key(&session_id) || !self.rules.may_subscribe(item.rule, party)
        {
            return;
        }
        let slot = if may_read_ring { session.slot_for(id) } else { None };
        let delivery = if slot.is_some() { Delivery::Ring } else { Delivery::Messages };
        item.subscribers.insert(session_id, delivery);
        let reads_last = wants_last && item.keeps_last;
        let count = item.subscriber_count();
        let origin = publisher.origin;
        match slot {
            Some(slot) => self.attach_to_ring(id, number, session_id, slot, reads_last),
            None => self.attach_by_messages(id, number, session_id, reads_last),
        }
        if origin == Origin::Application {
            self.send(id, &Event::Subscribers { item: number, count }, None, true);
        }
    }

    fn attach_to_ring(
        &mut self,
        id: PublisherId,
        number: u32,
        session: SessionId,
        slot: u32,
        reads_last: bool,
    ) {
        let Some(publisher) = self.publishers.get_mut(&id) else { return };
        let Some(ring) = &publisher.ring else { return };
        let position = ring.reader.tail();
        let after = ring.reader.sequence(number).unwrap_or(0);
        let Some(item) = publisher.items.get(&number) else { return };
        let event = Event::Item {
            source: slot,
            item: number,
            position,
            after,
            reads_last,
            name: item.name.to_string(),
        };
        if let Some(user) = publisher.users.get_mut(&session) {
            user.items += 1;
            return self.send(session, &event, None, false);
        }
        let Some(page) = self.sessions.get(&session).and_then(|session| session.page.as_ref())
        else {
            return;
        };
        let files = (ring.file.try_clone(), page.file.try_clone());
        let (Ok(ring_file), Ok(page_file)) = files else {
            return self.fail(session, &"too many open files: raise the limit (ulimit -n)");
        };
        page.page.report(slot, Progress { cursor: position, ..Progress::default() });
        let own_page = match ring.writer.is_some() {
            true => ReaderPage::map(page_file.as_fd()).ok(),
            false => None,
        };
        let (bytes, items) = (ring.size.bytes, ring.size.items);
        let node_writes = ring.writer.is_some();
        publisher.users.insert(session, RingUser { slot, items: 1, page: own_page });
        if !node_writes {
            let reader = Event::Reader { reader: session as u32, slot };
            self.send(id, &reader, Some(page_file), true);
        }
        self.send(session, &Event::Source { source: slot, bytes, items }, Some(ring_file), false);
        self.send(session, &event, None, false);
    }

    fn attach_by_messages(
        &mut self,
        id: PublisherId,
        number: u32,
        session: SessionId,
        reads_last: bool,
    ) {
        self.follow(id, number);
        let Some(publisher) = self.publishers.get_mut(&id) else { return };
        let Publisher { ring: Some(ring), items, .. } = publisher else { return };
        let Some(item) = items.get(&number) else { return };
        let last = reads_last.then(|| ring.reader.peek_last(number, &mut self.buffer)).flatten();
        let (source, item_id) = (u32::MAX, item.id);
        let after = ring.reader.sequence(number).unwrap_or(0);
        let name = item.name.to_string();
        let event = Event::Item { source, item: item_id, position: 0, after, reads_last, name };
        self.send(session, &event, None, false);
        let Some((sequence, len)) = last else { return };
        let payload = self.buffer[..len].to_vec();
        if let Some(session) = self.sessions.get_mut(&session) {
            session.relayed += 1;
        }
        for fragment in Fragment::parts(sequence, &payload) {
            let data = Event::Data { item: item_id, is_last_value: true, fragment };
            self.send(session, &data, None, false);
        }
    }

    /// Makes this node a reader of an item: for applications without the ring, and for other nodes.
    pub(crate) fn follow(&mut self, id: PublisherId, number: u32) {
        let Some(publisher) = self.publishers.get_mut(&id) else { return };
        let Some(ring) = &mut publisher.ring else { return };
        let (position, after) = (ring.reader.tail(), ring.reader.sequence(number).unwrap_or(0));
        ring.reader.follow(number, position, after);
        if ring.writer.is_some() || ring.page.is_some() {
            return;
        }
        match ReaderPage::create() {
            Ok((page, file)) => {
                page.report(0, Progress { cursor: position, ..Progress::default() });
                page.announce_wait(true);
                ring.page = Some(page);
                let reader = Event::Reader { reader: NODE_READER, slot: 0 };
                self.send(id, &reader, Some(file), true);
                self.ready.insert(id);
            }
            Err(errno) => tracing::error!(%errno, "can't create shared memory for a reader"),
        }
    }

    /// Ends the attachments of an application that no subscription matches any more.
    pub(crate) fn detach_unmatched(&mut self, session: SessionId) {
        let mut unmatched = Vec::new();
        let Some(found) = self.sessions.get(&session) else { return };
        for (id, publisher) in &self.publishers {
            for (number, item) in &publisher.items {
                if item.subscribers.contains_key(&session) && found.matches(&item.name).is_none() {
                    unmatched.push((*id, *number));
                }
            }
        }
        for (id, number) in unmatched {
            self.detach(id, number, session);
        }
    }

    /// Returns the ring of a publisher, and creates one that this node writes if there is none.
    pub(crate) fn ring_for(&mut self, id: PublisherId) -> Result<&mut Ring, String> {
        let size = nw_faces::local_pubsub::RingSize::at_least(
            (8 << 20).min(self.config.ring_mib << 20),
            self.config.items_per_application,
        );
        let publisher = self.publishers.get_mut(&id).ok_or("there is no such publisher")?;
        match &mut publisher.ring {
            Some(ring) => Ok(ring),
            empty => Ok(empty.insert(Ring::create(size)?)),
        }
    }
}
