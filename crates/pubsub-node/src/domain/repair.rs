//! Requests for missing publications, and the answers of the publisher's node.
//!
//! Invariant: answers are limited in packets per millisecond, so that requests can't make a node
//! send more than that. What is not sent is requested again.

use super::message::{GONE, REPAIR, REPAIRED, RepairRequest};
use super::sent::{Kept, SentPublications};
use super::{Domain, Head, NodeId, Start};
use nw_api::pubsub::ItemName;
use nw_pubsub::Timestamp;
use std::collections::BTreeSet;

/// Packets that are sent again at once at most.
const PACKETS_MAX: u64 = 2048;
/// Packets that are sent again per millisecond.
const PACKETS_PER_MS: u64 = 20;

/// The packets that may be sent again now.
#[derive(Debug)]
pub struct Budget {
    packets: u64,
    updated_ms: u64,
}

impl Default for Budget {
    fn default() -> Self {
        Budget { packets: PACKETS_MAX, updated_ms: 0 }
    }
}

impl Budget {
    pub(super) fn update(&mut self, now_ms: u64) {
        let passed_ms = now_ms.saturating_sub(self.updated_ms);
        let added = passed_ms.saturating_mul(PACKETS_PER_MS);
        self.packets = self.packets.saturating_add(added).min(PACKETS_MAX);
        self.updated_ms = now_ms;
    }

    pub(super) const fn take(&mut self) -> bool {
        let has_some = self.packets > 0;
        self.packets = self.packets.saturating_sub(1);
        has_some
    }
}

impl Domain {
    /// Sends the requests that are due to the nodes of the publishers.
    pub(super) fn request_repairs(&mut self) {
        for (key, request) in self.streams.requests(Timestamp::from_millis(self.now_ms)) {
            self.counters.repair_requests += 1;
            let is_start = matches!(request, RepairRequest::Start(_));
            if is_start || !self.request_kept(&key, &request) {
                let (node, name) = key;
                self.send(&name, 0, &request.encode(), REPAIR, &BTreeSet::from([node]));
            }
        }
        self.report_progress();
    }

    /// Sends publications, or fragments of one, again to the node that requests them.
    pub(super) fn send_again(&mut self, node: NodeId, name: &ItemName, request: &[u8]) {
        self.budget.update(self.now_ms);
        if self.paths.contains_key(name) && self.links.knows(node) {
            // The receivers of a given path are those that ask.
            self.sent.add_nodes(name, &BTreeSet::from([node]));
        }
        match RepairRequest::decode(request) {
            Some(RepairRequest::Numbers(ranges)) => {
                for (first, last) in ranges {
                    self.send_range_again(node, name, first, last);
                }
            }
            Some(RepairRequest::Fragments(sequence, ranges)) => {
                let is_wanted = |index| ranges.iter().any(|(a, b)| (*a..=*b).contains(&index));
                self.send_one_again(node, name, sequence, is_wanted);
            }
            Some(RepairRequest::Start(before)) => self.answer_start(node, name, before),
            None => self.counters.invalid += 1,
        }
    }

    /// Tells a node that received the numbers after `before` where an item starts for it.
    fn answer_start(&mut self, node: NodeId, name: &ItemName, before: u64) {
        if !self.budget.take() {
            self.counters.repair_limit += 1;
            return;
        }
        let known = self.starts.get(name, node).filter(|start| start.last <= before);
        let start = known.unwrap_or(Start { last: before, has_value: false });
        self.send_start(name, start, REPAIRED, &BTreeSet::from([node]));
    }

    fn send_range_again(&mut self, node: NodeId, name: &ItemName, first: u64, last: u64) {
        let mut sequence = first;
        while sequence <= last {
            match self.send_one_again(node, name, sequence, |_| true) {
                Some(next) => sequence = next,
                None => return,
            }
        }
    }

    /// Sends a publication again. Returns the number to go on with; `None` if no other one can be
    /// sent now.
    fn send_one_again(
        &mut self,
        node: NodeId,
        name: &ItemName,
        sequence: u64,
        is_wanted: impl Fn(u32) -> bool,
    ) -> Option<u64> {
        if self.budget.packets == 0 {
            self.counters.repair_limit += 1;
            return None;
        }
        // Moved out while it is read, so that nothing is copied.
        let sent = core::mem::replace(&mut self.sent, SentPublications::new(0));
        let kept = sent.publication(name, sequence, node);
        let next = kept.and_then(|kept| self.answer(node, (name, sequence), kept, is_wanted));
        self.sent = sent;
        next
    }

    fn answer(
        &mut self,
        node: NodeId,
        (name, sequence): (&ItemName, u64),
        kept: Kept<'_>,
        is_wanted: impl Fn(u32) -> bool,
    ) -> Option<u64> {
        // One packet is counted also if the node can't be reached.
        let mut budget = core::mem::take(&mut self.budget);
        budget.take();
        let receiver = BTreeSet::from([node]);
        let next = match kept {
            Kept::Publication(payload, flags) => {
                let mut has_first = false;
                let may_send = |index| {
                    is_wanted(index) && (!core::mem::replace(&mut has_first, true) || budget.take())
                };
                let (flags, source) = (flags | REPAIRED, self.node);
                let head = Head { name, sequence, flags, source };
                self.send_parts(head, payload, &receiver, may_send);
                self.counters.sent_again += 1;
                sequence
            }
            Kept::GoneUpTo(last) => {
                self.send(name, last, &[], GONE, &receiver);
                last
            }
        };
        self.budget = budget;
        next.checked_add(1)
    }
}
