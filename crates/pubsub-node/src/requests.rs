//! The requests of applications.

use crate::matching::Refusal;
use crate::node::Node;
use crate::presence::Presence;
use crate::publisher::{MESSAGE_BYTES_MAX, Origin, Publisher, Ring};
use crate::session::{Page, SessionId};
use crate::subscriptions::Subscription;
use nw_api::pubsub::message::{ANSWER_BYTES_MAX, Blob};
use nw_api::pubsub::{Event, Fragment, ItemOptions, Reply, Request, ScopePattern, VERSION};
use nw_faces::local_pubsub::frame_socket::Frame;
use nw_faces::local_pubsub::{ReaderPage, RingSize};
use std::os::fd::{AsFd, OwnedFd};

/// Bytes of a program's name that are kept.
const PROGRAM_BYTES_MAX: usize = 64;
/// Patterns that a connection watches at most.
const WATCHES_MAX: usize = 64;
/// Earlier publications of an item that a subscription gets at most.
const HISTORY_MAX: u32 = 65_536;

impl Node {
    /// Handles a message of an application.
    ///
    /// # Errors
    /// Why the application is disconnected.
    pub(crate) fn handle(&mut self, id: SessionId, frame: Frame) -> Result<(), String> {
        let request =
            Request::decode(frame.kind, &frame.body).map_err(|fault| fault.to_string())?;
        let is_welcome = self.sessions.get(&id).is_some_and(|session| session.is_welcome);
        if is_welcome == matches!(request, Request::Hello { .. }) {
            return Err("its first message must be a hello, and no other".into());
        }
        match request {
            Request::Hello { version, program } => self.welcome(id, version, program, frame.file),
            Request::Ring { bytes, items } => self.take_ring(id, bytes, items, frame.file),
            Request::Publish { request, item, options, name } => {
                let outcome = self.publish(id, item, options, &name);
                self.reply(id, request, outcome)
            }
            Request::Unpublish { request, item } => {
                let outcome = self.unpublish(id, item);
                self.reply(id, request, outcome)
            }
            Request::Subscribe { request, subscription, wants_last, pattern } => {
                let history = u32::from(wants_last);
                self.subscribe(id, request, subscription, (history, false), &pattern)
            }
            Request::SubscribeHistory { request, subscription, history, pattern } => {
                self.subscribe(id, request, subscription, (history, false), &pattern)
            }
            Request::SubscribeHere { request, subscription, history, pattern } => {
                self.subscribe(id, request, subscription, (history, true), &pattern)
            }
            Request::PublishScope { request, strategy, name } => {
                let outcome = self.publish_scope(id, strategy, &name);
                self.reply(id, request, outcome)
            }
            Request::UnpublishScope { request, name } => {
                let outcome = self.unpublish_scope(id, &name);
                self.reply(id, request, outcome)
            }
            Request::AddParent { request, name, parent } => {
                let outcome = self.add_parent(id, &name, &parent);
                self.reply(id, request, outcome)
            }
            Request::RemoveParent { request, name, parent } => {
                let outcome = self.remove_parent(id, &name, &parent);
                self.reply(id, request, outcome)
            }
            Request::Route { request, item, route } => {
                let outcome = self.set_route(id, item, route);
                self.reply(id, request, outcome)
            }
            Request::Watch { request, pattern } => self.start_watch(id, request, &pattern),
            Request::Unsubscribe { request, subscription } => {
                let outcome = self.unsubscribe(id, subscription);
                self.reply(id, request, outcome)
            }
            Request::Data { item, fragment } => self.take_data(id, item, fragment),
            Request::Wake {} => {
                self.ready.insert(id);
                Ok(())
            }
            Request::Query { request, topic } => {
                self.answer(id, request, &topic);
                Ok(())
            }
        }
    }

    fn reply(
        &mut self,
        id: SessionId,
        request: u32,
        outcome: Result<(), Refusal>,
    ) -> Result<(), String> {
        let (code, text) = outcome.err().unwrap_or((Reply::Done, String::new()));
        self.counters.refusals += u64::from(code != Reply::Done);
        let event = Event::Reply { request, code: code as u16, text };
        self.send(id, &event, None, false);
        Ok(())
    }

    fn welcome(
        &mut self,
        id: SessionId,
        version: u16,
        mut program: String,
        file: Option<OwnedFd>,
    ) -> Result<(), String> {
        if version != VERSION {
            let event =
                Event::Welcome { version: VERSION, session: 0, ring_bytes_max: 0, items_max: 0 };
            self.send(id, &event, None, false);
            return Err(format!("its version {version} is not {VERSION}"));
        }
        let (ring_bytes_max, items_max) =
            (self.config.ring_mib << 20, self.config.items_per_application);
        let Some(session) = self.sessions.get_mut(&id) else { return Ok(()) };
        program.truncate(program.floor_char_boundary(PROGRAM_BYTES_MAX));
        program.retain(|c| !c.is_control());
        session.program = program;
        if let Some(file) = file {
            let page = ReaderPage::map(file.as_fd()).map_err(|fault| fault.to_string())?;
            session.page = Some(Page { page, file });
        }
        session.is_welcome = true;
        let event = Event::Welcome { version: VERSION, session: id, ring_bytes_max, items_max };
        self.send(id, &event, None, false);
        Ok(())
    }

    fn take_ring(
        &mut self,
        id: SessionId,
        bytes: u32,
        items: u32,
        file: Option<OwnedFd>,
    ) -> Result<(), String> {
        let file = file.ok_or("its ring came without a file")?;
        if bytes > self.config.ring_mib << 20 || items > self.config.items_per_application {
            return Err("its ring is larger than the limits of the welcome".into());
        }
        let ring = Ring::map(file, RingSize { bytes, items }).map_err(|fault| fault.to_string())?;
        let publisher =
            self.publishers.entry(id).or_insert_with(|| Publisher::new(Origin::Application));
        if publisher.ring.is_some() {
            return Err("it offered a second ring".into());
        }
        publisher.ring = Some(ring);
        Ok(())
    }

    pub(crate) fn publish(
        &mut self,
        id: SessionId,
        item: u32,
        options: ItemOptions,
        name: &str,
    ) -> Result<(), Refusal> {
        let name = name.parse().map_err(|fault| (Reply::InvalidName, format!("{fault}")))?;
        self.publishers.entry(id).or_insert_with(|| Publisher::new(Origin::Application));
        let ring = self.ring_for(id).map_err(|text| (Reply::Full, text))?;
        if item >= ring.size.items {
            let text = format!("the ring has items 0 to {}", ring.size.items - 1);
            return Err((Reply::Full, text));
        }
        if let Some(writer) = &ring.writer {
            writer.start_item(item, 0);
        }
        self.add_item(id, item, name, options)
    }

    pub(crate) fn unpublish(&mut self, id: SessionId, item: u32) -> Result<(), Refusal> {
        let publisher = self.publishers.get(&id);
        if !publisher.is_some_and(|publisher| publisher.items.contains_key(&item)) {
            return Err((Reply::Missing, format!("there is no item {item}")));
        }
        self.end_item(id, item);
        Ok(())
    }

    /// Sends an application the events of a pattern.
    fn start_watch(&mut self, id: SessionId, request: u32, pattern: &str) -> Result<(), String> {
        let outcome = match pattern.parse::<ScopePattern>() {
            Err(fault) => Err((Reply::InvalidName, format!("{fault}"))),
            Ok(_) if self.watch_count(id) >= WATCHES_MAX => {
                Err((Reply::Full, format!("a connection can watch {WATCHES_MAX} patterns")))
            }
            Ok(pattern) => {
                self.reply(id, request, Ok(()))?;
                self.watch(id, pattern);
                return Ok(());
            }
        };
        self.reply(id, request, outcome)
    }

    /// Subscribes, and replies.
    fn subscribe(
        &mut self,
        id: SessionId,
        request: u32,
        subscription: u32,
        (history, is_here): (u32, bool),
        pattern: &str,
    ) -> Result<(), String> {
        match self.add_subscription(id, subscription, (history, is_here), pattern) {
            Ok(pattern) => {
                // The reply is first, so that the application knows what it may receive.
                self.reply(id, request, Ok(()))?;
                self.match_subscription(id, &pattern, history);
                Ok(())
            }
            Err(refusal) => self.reply(id, request, Err(refusal)),
        }
    }

    pub(crate) fn add_subscription(
        &mut self,
        id: SessionId,
        subscription: u32,
        (history, is_here): (u32, bool),
        pattern: &str,
    ) -> Result<ScopePattern, Refusal> {
        let pattern: ScopePattern =
            pattern.parse().map_err(|fault| (Reply::InvalidName, format!("{fault}")))?;
        let limit = self.config.items_per_application as usize;
        let Some(session) = self.sessions.get_mut(&id) else { return Ok(pattern) };
        if session.subscriptions.contains(subscription) {
            return Err((Reply::Exists, format!("subscription {subscription} is in use")));
        }
        if session.subscriptions.len() >= limit {
            let text = "pubsub.items_per_application is reached: end subscriptions, or raise it";
            return Err((Reply::Full, text.into()));
        }
        let history = history.min(HISTORY_MAX);
        let new = Subscription { pattern: pattern.clone(), history, is_here };
        let is_new = session.subscriptions.insert(subscription, new);
        self.index.insert_subscription(pattern.clone(), id);
        self.patterns_changed = true;
        if is_new {
            self.report_presence(id, &Presence::Pattern(pattern.clone()), true);
        }
        Ok(pattern)
    }

    pub(crate) fn unsubscribe(&mut self, id: SessionId, subscription: u32) -> Result<(), Refusal> {
        let Some(session) = self.sessions.get_mut(&id) else { return Ok(()) };
        let Some((ended, is_last)) = session.subscriptions.remove(subscription) else {
            return Err((Reply::Missing, format!("there is no subscription {subscription}")));
        };
        self.patterns_changed = true;
        if is_last {
            self.patterns_removed = true;
            self.index.remove_subscription(&ended.pattern, id);
            self.detach_unmatched(id, &ended.pattern);
            self.report_presence(id, &Presence::Pattern(ended.pattern), false);
        }
        Ok(())
    }

    /// Takes a publication, or a part, of an application without a ring.
    pub(crate) fn take_data(
        &mut self,
        id: SessionId,
        item: u32,
        part: Fragment,
    ) -> Result<(), String> {
        let Some(publisher) = self.publishers.get_mut(&id) else {
            return Err("it published before it announced an item".into());
        };
        let Some(ring) = &mut publisher.ring else { return Err("it has no ring".into()) };
        if ring.writer.is_none() || !publisher.items.contains_key(&item) {
            return Err("it sent a publication for an item that it did not announce".into());
        }
        // Only in a ring that this node writes do numbers go up one by one.
        let next = ring.reader.sequence(item).map_or(1, |last| last + 1);
        if part.sequence != next || part.total_bytes > MESSAGE_BYTES_MAX as u64 {
            return Err(format!("its publication {} should be {next}", part.sequence));
        }
        let is_last = part.is_last();
        let mut payload = match publisher.partial.take() {
            Some((started, sequence, payload)) if (started, sequence) == (item, next) => payload,
            Some(_) => return Err("it mixed the parts of two publications".into()),
            None => Vec::new(),
        };
        if payload.len() as u64 != part.offset {
            return Err("its publication has a gap".into());
        }
        payload.extend_from_slice(&part.payload);
        if is_last {
            self.write_publication(id, item, next, &payload);
        } else {
            publisher.partial = Some((item, next, payload));
        }
        Ok(())
    }

    /// Answers a query in parts.
    fn answer(&mut self, id: SessionId, request: u32, topic: &str) {
        let json = self.describe(topic).into_bytes();
        let count = json.len().div_ceil(ANSWER_BYTES_MAX).max(1);
        for (index, part) in json.chunks(ANSWER_BYTES_MAX).enumerate() {
            let is_last = index + 1 == count;
            let event = Event::Answer { request, is_last, json: Blob(part.to_vec()) };
            self.send(id, &event, None, false);
        }
    }
}

#[cfg(test)]
mod tests;
