//! The node as a reader of rings: for applications without shared memory, and for other nodes.
//!
//! Invariant: an application whose socket is full loses publications, and is told how many; no
//! other one waits for it.

use crate::node::Node;
use crate::publisher::{Delivery, Publisher};
use crate::session::{PublisherId, SessionId};
use nw_api::pubsub::{Event, Fragment};
use nw_faces::local_pubsub::{Progress, ReadEvent};

/// Publications of one ring that one step reads.
pub const PUBLICATIONS_PER_STEP: usize = 256;
/// Bytes of a buffer that is kept after a publication.
const BUFFER_BYTES_KEPT: usize = 1 << 20;

impl Node {
    /// Writes a publication to a ring that this node writes. One that the ring can't hold goes to
    /// each subscriber by messages. One without the signature that its rule wants is told as lost.
    /// Returns whether it is passed on.
    pub(crate) fn write_publication(
        &mut self,
        id: PublisherId,
        number: u32,
        sequence: u64,
        payload: &[u8],
    ) -> bool {
        let Some(publisher) = self.publishers.get_mut(&id) else { return false };
        let Publisher { ring: Some(ring), items, .. } = publisher else { return false };
        if let Some(item) = items.get(&number)
            && self.rules.check_signature(item.rule, &item.name, sequence, payload).is_err()
        {
            self.counters.refused_signatures += 1;
            ring.report_missing(number, sequence);
            publisher.wake_readers(number);
            self.ready.insert(id);
            return false;
        }
        if ring.holds(payload.len()) {
            ring.publish(number, sequence, payload);
        } else {
            ring.report_elsewhere(number, sequence);
        }
        publisher.wake_readers(number);
        self.ready.insert(id);
        let Some(publisher) = self.publishers.get(&id) else { return false };
        if publisher.ring.as_ref().is_some_and(|ring| ring.holds(payload.len())) {
            return true;
        }
        self.write_elsewhere(id, number, sequence, payload);
        true
    }

    /// Sends a publication that a ring of this node can't hold to each subscriber by messages.
    fn write_elsewhere(&mut self, id: PublisherId, number: u32, sequence: u64, payload: &[u8]) {
        let Some(publisher) = self.publishers.get(&id) else { return };
        let Some(item) = publisher.items.get(&number) else { return };
        if let Some(domain) = &mut self.domain
            && item.reaches_nodes()
        {
            domain.publish(&item.name, sequence, payload, item.later_use(), &item.nodes);
        }
        let (name, subscribers) = (item.name.to_string(), item.subscribers.clone());
        for (session, delivery) in subscribers {
            let item = match delivery {
                Delivery::Messages => self.publishers[&id].items[&number].id,
                Delivery::Ring => self.new_item_id(),
            };
            if delivery == Delivery::Ring {
                let (source, after, name) = (u32::MAX, sequence, name.clone());
                let begin =
                    Event::Item { source, item, position: 0, after, reads_last: false, name };
                self.send(session, &begin, None, false);
            }
            self.relay(session, item, sequence, payload);
            if delivery == Delivery::Ring {
                let end = Event::ItemEnd { source: u32::MAX, item, last: sequence };
                self.has_space(session);
                self.report_losses(session);
                self.send(session, &end, None, false);
            }
        }
    }

    /// Sends a publication to an application by messages, or counts it as lost.
    fn relay(&mut self, session: SessionId, item: u32, sequence: u64, payload: &[u8]) {
        let Some(found) = self.sessions.get_mut(&session) else { return };
        if !found.has_relay_space(payload.len()) {
            found.relay_lost += 1;
            *found.pending_lost.entry(item).or_default() += 1;
            self.has_space(session);
            return;
        }
        found.relayed += 1;
        for fragment in Fragment::parts(sequence, payload) {
            let data = Event::Data { item, is_last_value: false, fragment };
            self.send_data(session, &data);
        }
    }

    /// Reads the rings that have something for this node.
    pub fn pump_ready(&mut self) {
        let ready: Vec<PublisherId> = self.ready.iter().copied().collect();
        for id in ready {
            if self.pump(id, PUBLICATIONS_PER_STEP) {
                self.ready.remove(&id);
            }
        }
    }

    /// Returns whether rings are to be read.
    pub fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Reads up to `limit` publications of a ring. Returns whether it has been read to its end.
    pub(crate) fn pump(&mut self, id: PublisherId, limit: usize) -> bool {
        let Some(publisher) = self.publishers.get_mut(&id) else { return true };
        let Some(mut ring) = publisher.ring.take_if(|ring| ring.reader.follows_any()) else {
            return true;
        };
        let mut buffer = core::mem::take(&mut ring.buffer);
        let (mut is_at_end, mut delivered, mut steps) = (false, 0, 0);
        while steps < limit {
            steps += 1;
            match ring.reader.read(&mut buffer) {
                Ok(ReadEvent::Publication { item, sequence, len, lost }) => {
                    delivered += 1;
                    if lost > 0 {
                        self.distribute_loss(id, item, lost);
                    }
                    self.distribute(id, item, sequence, &buffer[..len]);
                }
                Ok(ReadEvent::Lost { item, lost }) => self.distribute_loss(id, item, lost),
                Ok(ReadEvent::Skipped) => {}
                Ok(ReadEvent::Empty) => {
                    let Some(page) = &ring.page else {
                        is_at_end = true;
                        break;
                    };
                    page.set_items(0, ring.reader.followed_items());
                    page.announce_wait(true);
                    if !ring.reader.has_records() {
                        is_at_end = true;
                        break;
                    }
                    page.end_wait();
                    // A ring that is written all the time is left at its end at some point.
                    if limit == usize::MAX && steps > PUBLICATIONS_PER_STEP {
                        break;
                    }
                }
                Err(fault) => {
                    self.fail(id, &fault);
                    is_at_end = true;
                    break;
                }
            }
        }
        if let Some(page) = &ring.page {
            let before = page.progress(0);
            let delivered = before.delivered.wrapping_add(delivered);
            page.report(0, Progress { cursor: ring.reader.cursor(), delivered, ..before });
        }
        // A large one is not kept for each publisher.
        if buffer.len() <= BUFFER_BYTES_KEPT || ring.reader.is_between_parts() {
            ring.buffer = buffer;
        }
        if let Some(publisher) = self.publishers.get_mut(&id) {
            publisher.ring = Some(ring);
        }
        is_at_end
    }

    /// Sends a publication to the applications and nodes that do not read the ring.
    fn distribute(&mut self, id: PublisherId, number: u32, sequence: u64, payload: &[u8]) {
        let Some(item) = self.publishers.get(&id).and_then(|p| p.items.get(&number)) else {
            return;
        };
        if self.rules.check_signature(item.rule, &item.name, sequence, payload).is_err() {
            self.counters.refused_signatures += 1;
            return self.distribute_loss(id, number, 1);
        }
        if let Some(domain) = &mut self.domain
            && item.reaches_nodes()
        {
            domain.publish(&item.name, sequence, payload, item.later_use(), &item.nodes);
        }
        let global = item.id;
        for session in relayed(item) {
            self.relay(session, global, sequence, payload);
        }
    }

    /// Counts what this node has not read of an item that ends as lost: its publisher was writing
    /// faster than this node could read.
    pub(crate) fn settle_item(&mut self, id: PublisherId, number: u32) {
        let ring = self.publishers.get(&id).and_then(|publisher| publisher.ring.as_ref());
        let Some(reader) = ring.map(|ring| &ring.reader) else { return };
        let Some(read) = reader.accounted(number) else { return };
        let lost = reader.sequence(number).unwrap_or(0).saturating_sub(read);
        if lost > 0 {
            self.distribute_loss(id, number, lost);
        }
    }

    /// Counts publications that this node did not read in time as lost for those it reads for.
    fn distribute_loss(&mut self, id: PublisherId, number: u32, lost: u64) {
        let Some(item) = self.publishers.get(&id).and_then(|p| p.items.get(&number)) else {
            return;
        };
        let global = item.id;
        for session in relayed(item) {
            if let Some(found) = self.sessions.get_mut(&session) {
                found.relay_lost += lost;
                *found.pending_lost.entry(global).or_default() += lost;
            }
            self.has_space(session);
        }
    }
}

/// Returns the applications that get an item by messages.
fn relayed(item: &crate::publisher::Item) -> Vec<SessionId> {
    let by_messages =
        item.subscribers.iter().filter(|(_, delivery)| **delivery == Delivery::Messages);
    by_messages.map(|(session, _)| *session).collect()
}

#[cfg(test)]
pub(crate) mod tests;
