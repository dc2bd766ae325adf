//! Local rendezvous: which application gets which item, and by ring or by messages.
//!
//! Invariants: a ring is passed only to applications that may read all items in it; others of its
//! items reach them by messages. Items whose rule wants signatures are not read from a ring that an
//! application writes, but come by messages of this node, which checks them.

use crate::node::Node;
use crate::presence::Presence;
use crate::publisher::{Delivery, Item, Origin, Publisher, Ring, RingUser};
use crate::rules::Party;
use crate::session::{PublisherId, SessionId};
use nw_api::pubsub::{Event, Fragment, ImplicitRoute, ItemName, ItemOptions, Reply, ScopePattern};
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
        options: ItemOptions,
    ) -> Result<(), Refusal> {
        let rule = self.rules.find(&name);
        self.take_back_rings(id, rule);
        self.check_new_item(id, number, &name, rule)?;
        let strategy = self.item_strategy(&name, options.strategy)?;
        let choice = self.item_choice(id, &name, options.choice, strategy)?;
        let further = self.further_names(id, &name, rule);
        let ring = self.publishers.get(&id).and_then(|publisher| publisher.ring.as_ref());
        let item = Item {
            begin: ring.map_or(0, |ring| ring.reader.tail()),
            id: self.new_item_id(),
            name: name.clone(),
            rule,
            further: further.clone(),
            keeps_last: options.keeps_last,
            strategy,
            has_own_strategy: options.strategy.is_some(),
            choice,
            strength: options.strength,
            serves_here: choice.is_none(),
            unexpected_ms: None,
            route: ImplicitRoute::Nowhere,
            subscribers: BTreeMap::new(),
            nodes: BTreeSet::new(),
            path_nodes: BTreeSet::new(),
        };
        let Some(publisher) = self.publishers.get_mut(&id) else {
            return Err((Reply::Unknown, "offer a ring first".into()));
        };
        publisher.items.insert(number, item);
        publisher.rules.extend(rule);
        let origin = publisher.origin;
        self.index.insert_item(name.clone(), id, number);
        let mut wanting = self.index.subscribers(&name);
        for name in further {
            wanting.extend(self.index.subscribers(&name));
            self.index.insert_alias(name, id, number);
        }
        for session in wanting {
            // What another node had published before is in the ring by now, if it is wanted.
            let history = match origin {
                Origin::Application => 0,
                Origin::Node(_) => {
                    let item = self.publishers.get(&id).and_then(|p| p.items.get(&number));
                    let found = self.sessions.get(&session).zip(item);
                    found.and_then(|(found, item)| found.matches_item(item)).unwrap_or(0)
                }
            };
            if session != id {
                self.attach(id, number, session, history);
            }
        }
        if origin == Origin::Application {
            match choice {
                // If it is the first one that chooses, others follow.
                Some(_) => self.update_item_serving(&name),
                None => self.update_nodes(id, number),
            }
            self.report_presence(id, &Presence::Item(name), true);
        }
        Ok(())
    }

    /// Takes a publisher's ring from applications that read no item of it now and may not read one
    /// with a rule.
    fn take_back_rings(&mut self, id: PublisherId, rule: Option<usize>) {
        let Some(publisher) = self.publishers.get(&id) else { return };
        if rule.is_none() {
            return;
        }
        let may_read = |session: &SessionId| {
            let found = self.sessions.get(session);
            found.is_some_and(|session| self.rules.may_subscribe(rule, session.party()))
        };
        let paused = publisher.users.iter().filter(|(_, user)| user.items == 0);
        let refused: Vec<SessionId> =
            paused.map(|(session, _)| *session).filter(|session| !may_read(session)).collect();
        for session in refused {
            self.end_source(id, session);
        }
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
        if self.announced(id, name).is_some() {
            return Err((Reply::Exists, format!("this application publishes {name} already")));
        }
        let may_read = |session: &SessionId| {
            self.sessions
                .get(session)
                .is_some_and(|session| self.rules.may_subscribe(rule, session.party()))
        };
        if rule.is_some() && !publisher.users.keys().all(may_read) {
            let text = format!(
                "some that read this publisher's ring may not read {name}: publish it from a \
                 connection of its own"
            );
            return Err((Reply::Forbidden, text));
        }
        Ok(())
    }

    /// Returns the number of the item that a publisher announced under a name.
    pub(crate) fn announced(&self, id: PublisherId, name: &ItemName) -> Option<u32> {
        let items = &self.publishers.get(&id)?.items;
        let mut named = self.index.named(name).filter(|(publisher, _)| *publisher == id);
        named
            .find(|(_, number)| items.get(number).is_some_and(|item| item.name == *name))
            .map(|i| i.1)
    }

    /// Subscribes an application to a pattern, and attaches it to the items there are.
    pub(crate) fn match_subscription(
        &mut self,
        session: SessionId,
        pattern: &ScopePattern,
        history: u32,
    ) {
        // The ring of a publisher whose node is lost still has what is kept of it.
        let (mut live, mut in_rings): (BTreeSet<ItemName>, BTreeSet<ItemName>) = Default::default();
        for (id, number) in self.index.matching(pattern) {
            let Some(publisher) = self.publishers.get(&id) else { continue };
            let Some(item) = publisher.items.get(&number) else { continue };
            if !item.serves_here {
                continue;
            }
            let ring = publisher.ring.as_ref();
            let sequence = ring.and_then(|ring| ring.reader.sequence(number));
            if sequence.is_some_and(|sequence| sequence > 0) {
                let names = if self.is_live(publisher.origin) { &mut live } else { &mut in_rings };
                names.insert(item.name.clone());
            }
            // The index has plain names.
            let found = self.sessions.get(&session);
            let is_matched = pattern.demand_path().is_none()
                || found.is_some_and(|found| found.matches_item(item).is_some());
            if id != session && is_matched {
                self.attach(id, number, session, history);
            }
        }
        live.iter().for_each(|name| self.last_values.remove(name));
        if history > 0 {
            for name in self.last_values.matching(pattern) {
                if !in_rings.contains(&name) {
                    self.send_kept(session, &name, history, 0);
                }
            }
        }
    }

    /// Attaches an application to an item, if it may read it and the item's publisher serves this
    /// node. It first gets the last `history`
    /// publications, as far as the item and the ring keep them.
    pub(crate) fn attach(
        &mut self,
        id: PublisherId,
        number: u32,
        session_id: SessionId,
        history: u32,
    ) {
        let user = self.publishers.get(&id).and_then(|found| found.users.get(&session_id));
        if user.is_some_and(|user| user.had(number)) {
            self.end_source(id, session_id);
        }
        let Some(session) = self.sessions.get(&session_id) else { return };
        if let Some(paused) = session.ring_to_take_back(id) {
            self.end_source(paused, session_id);
        }
        let Some(session) = self.sessions.get_mut(&session_id) else { return };
        let Some(publisher) = self.publishers.get_mut(&id) else { return };
        let party = session.party();
        // Only this node checks signatures, before it writes or passes on.
        let ring = publisher.ring.as_ref();
        let is_checked = ring.is_some_and(|ring| ring.writer.is_some());
        let Some(item) = publisher.items.get_mut(&number) else { return };
        let may_read_ring = session.page.is_some()
            && (is_checked || !self.rules.wants_signature(item.rule))
            && publisher.rules.iter().all(|rule| self.rules.may_subscribe(Some(*rule), party));
        if item.subscribers.contains_key(&session_id)
            || !item.serves_here
            || !self.rules.may_subscribe(item.rule, party)
            || session.is_kept_from(item)
        {
            return;
        }
        let slot = if may_read_ring { session.slot_for(id) } else { None };
        let delivery = if slot.is_some() { Delivery::Ring } else { Delivery::Messages };
        item.subscribers.insert(session_id, delivery);
        let history = if item.keeps_last { history } else { 0 };
        let count = item.subscriber_count();
        let origin = publisher.origin;
        match slot {
            Some(slot) => self.attach_to_ring(id, number, session_id, slot, history),
            None => self.attach_by_messages(id, number, session_id, history),
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
        history: u32,
    ) {
        let Some(publisher) = self.publishers.get_mut(&id) else { return };
        let Some(ring) = &publisher.ring else { return };
        let begin = publisher.items.get(&number).map_or(0, |item| item.begin);
        let now = (ring.reader.tail(), ring.reader.sequence(number).unwrap_or(0));
        let earlier = if history > 1 { ring.reader.history(number, history, begin) } else { None };
        let reads_last = history > 0 && earlier.is_none();
        let (position, after) = earlier.unwrap_or(now);
        let Some(item) = publisher.items.get(&number) else { return };
        let Some(found) = self.sessions.get(&session) else { return };
        let name = found.shown_name(&item.name);
        let event = Event::Item { source: slot, item: number, position, after, reads_last, name };
        let node_writes = ring.writer.is_some();
        let item_reader = Event::ItemReader { item: number, reader: session as u32, after: now.1 };
        let Some(found) = self.sessions.get_mut(&session) else { return };
        let Some(page) = found.page.as_ref() else { return };
        if let Some(user) = publisher.users.get_mut(&session) {
            user.items += 1;
            if user.items == 1 {
                // It stands at the end of what it read before.
                page.page.report(slot, Progress { cursor: position, ..page.page.progress(slot) });
                found.paused.retain(|paused| *paused != id);
            }
            if !node_writes {
                self.send(id, &item_reader, None, true);
            }
            return self.send(session, &event, None, false);
        }
        let files = (ring.file.try_clone(), page.file.try_clone());
        let (Ok(ring_file), Ok(page_file)) = files else {
            return self.fail(session, &"too many open files: raise the limit (ulimit -n)");
        };
        page.page.report(slot, Progress { cursor: position, ..Progress::default() });
        let own_page = match node_writes {
            true => ReaderPage::map(page_file.as_fd()).ok(),
            false => None,
        };
        let (bytes, items) = (ring.size.bytes, ring.size.items);
        let user = RingUser { slot, items: 1, ended: BTreeSet::new(), page: own_page };
        publisher.users.insert(session, user);
        if !node_writes {
            let reader = Event::Reader { reader: session as u32, slot };
            self.send(id, &reader, Some(page_file), true);
            self.send(id, &item_reader, None, true);
        }
        self.send(session, &Event::Source { source: slot, bytes, items }, Some(ring_file), false);
        self.send(session, &event, None, false);
    }

    fn attach_by_messages(
        &mut self,
        id: PublisherId,
        number: u32,
        session: SessionId,
        history: u32,
    ) {
        self.follow(id, number);
        let earlier = self.checked_history(id, number, history);
        let Some(publisher) = self.publishers.get_mut(&id) else { return };
        let Publisher { ring: Some(ring), items, .. } = publisher else { return };
        let Some(item) = items.get(&number) else { return };
        let (source, item_id) = (u32::MAX, item.id);
        let after = ring.reader.sequence(number).unwrap_or(0);
        let Some(found) = self.sessions.get(&session) else { return };
        let name = found.shown_name(&item.name);
        let reads_last = history > 0;
        let event = Event::Item { source, item: item_id, position: 0, after, reads_last, name };
        self.send(session, &event, None, false);
        for (sequence, payload) in earlier {
            let Some(found) = self.sessions.get_mut(&session) else { return };
            if !found.has_relay_space(payload.len()) {
                continue;
            }
            found.relayed += 1;
            for fragment in Fragment::parts(sequence, &payload) {
                let data = Event::Data { item: item_id, is_last_value: true, fragment };
                self.send_data(session, &data);
            }
        }
    }

    /// Returns the last publications of a followed item that this node has read and the ring still
    /// has, oldest first, and that have the signatures that its rule wants.
    pub(crate) fn checked_history(
        &mut self,
        id: PublisherId,
        number: u32,
        history: u32,
    ) -> Vec<(u64, Vec<u8>)> {
        let Some(publisher) = self.publishers.get_mut(&id) else { return Vec::new() };
        let Publisher { ring: Some(ring), items, .. } = publisher else { return Vec::new() };
        let Some(item) = items.get(&number) else { return Vec::new() };
        // Later ones are still to be read by this node, and come then.
        let last = ring.reader.accounted(number).unwrap_or(0);
        let mut found = ring.history(number, history, item.begin);
        found.retain(|(sequence, _)| *sequence <= last);
        let rules = &mut self.rules;
        found.retain(|(sequence, payload)| {
            rules.check_signature(item.rule, &item.name, *sequence, payload).is_ok()
        });
        found
    }

    /// Makes this node a reader of an item: for applications without the ring, and for other nodes.
    pub(crate) fn follow(&mut self, id: PublisherId, number: u32) {
        let Some(publisher) = self.publishers.get_mut(&id) else { return };
        let Some(ring) = &mut publisher.ring else { return };
        if ring.reader.accounted(number).is_some() {
            return;
        }
        let (position, after) = (ring.reader.tail(), ring.reader.sequence(number).unwrap_or(0));
        ring.reader.follow(number, position, after);
        if ring.writer.is_some() {
            return;
        }
        let item_reader = Event::ItemReader { item: number, reader: NODE_READER, after };
        if ring.page.is_some() {
            // Before it waits again this node says that the item wakes it, too.
            self.ready.insert(id);
            return self.send(id, &item_reader, None, true);
        }
        match ReaderPage::create() {
            Ok((page, file)) => {
                page.report(0, Progress { cursor: position, ..Progress::default() });
                page.announce_wait(true);
                ring.page = Some(page);
                let reader = Event::Reader { reader: NODE_READER, slot: 0 };
                self.send(id, &reader, Some(file), true);
                self.send(id, &item_reader, None, true);
                self.ready.insert(id);
            }
            Err(errno) => tracing::error!(%errno, "can't create shared memory for a reader"),
        }
    }

    /// Ends this node's reading of an item.
    pub(crate) fn unfollow(&mut self, id: PublisherId, number: u32) {
        let ring = self.publishers.get_mut(&id).and_then(|publisher| publisher.ring.as_mut());
        let Some(ring) = ring else { return };
        if ring.reader.unfollow(number).is_some() && ring.writer.is_none() {
            let end = Event::ItemReaderEnd { item: number, reader: NODE_READER };
            self.send(id, &end, None, false);
        }
    }

    /// Ends the attachments of an application to items of a pattern that no subscription matches
    /// any more.
    pub(crate) fn detach_unmatched(&mut self, session: SessionId, pattern: &ScopePattern) {
        let matching = self.index.matching(pattern);
        let Some(found) = self.sessions.get(&session) else { return };
        let is_unmatched = |(id, number): &(PublisherId, u32)| {
            let item = self.publishers.get(id).and_then(|publisher| publisher.items.get(number));
            item.is_some_and(|item| {
                item.subscribers.contains_key(&session) && found.matches_item(item).is_none()
            })
        };
        let unmatched: Vec<_> = matching.into_iter().filter(is_unmatched).collect();
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
