//! What a strategy remembers from one event to the next, and the seldom things it may ask for.
//!
//! The second half of [`StrategyContext`]: strategies that only choose among next hops need the first only.

use super::{Lesson, StrategyContext, WANTS_DATA, WANTS_WAKING};
use core::time::Duration;
use nw_element_api::{FaceId, Ticket};
use nw_name::NameRef;
use nw_tables::measurements::Record;

/// Of a prefix.
impl<'a> StrategyContext<'a> {
    /// What is remembered of the first `components` of the packet's name, if anything.
    pub fn peek(&self, components: usize) -> Option<&Record> {
        let (event, name) = (&self.event, self.name());
        self.state.measurements.peek(event.now, event.strategy, name, &event.meta.prefixes, components)
    }

    /// As [`peek`](Self::peek), to be changed.
    pub fn record(&mut self, components: usize) -> Option<&mut Record> {
        let (event, name) = (&self.event, self.name());
        self.state.measurements.record(event.now, event.strategy, name, &event.meta.prefixes, components)
    }

    /// As [`record`](Self::record), a new one where there is none; it is kept for so long from now at least. `None` when there is no room.
    pub fn record_or_new(&mut self, components: usize, lifetime_ms: u64) -> Option<&mut Record> {
        let (event, name) = (&self.event, self.name());
        let prefixes = &event.meta.prefixes;
        let measurements = &mut self.state.measurements;
        measurements.record_or_new(event.now, event.strategy, name, prefixes, components, lifetime_ms)
    }

    /// What is remembered of the longest prefix of which anything is.
    pub fn longest_record(&mut self) -> Option<&mut Record> {
        let (event, name) = (&self.event, self.name());
        self.state.measurements.longest(event.now, event.strategy, name, &event.meta.prefixes)
    }

    /// Remembers that the Interest goes to a face, whose answer is awaited.
    pub fn note_sent(&mut self, components: usize, face: FaceId, lifetime_ms: u64, rto_min: Duration) {
        let (now, hash) = (self.event.now, self.pit.name_hash(self.event.entry));
        if let Some(record) = self.record_or_new(components, lifetime_ms) {
            record.face_or_new(now, face).sent(now, hash, rto_min);
        }
    }

    /// Remembers how long the face of this Data took to answer, if it was asked and its record is still there.
    pub fn measure(&mut self, components: usize) {
        let (now, ingress, hash) = (self.event.now, self.event.ingress, self.pit.name_hash(self.event.entry));
        let Some(sent) = self.out_record(ingress).map(|record| record.sent) else { return };
        if let Some(face) = self.record(components).and_then(|record| record.face_mut(ingress)) {
            face.measured(now, now.since(sent));
            face.answered(hash);
        }
    }

    /// A random number below `end`; 0 when `end` is 0.
    pub fn random_below(&mut self, end: u64) -> u64 {
        self.state.generator.below(end)
    }

    fn name(&self) -> NameRef<'a> {
        self.event.meta.name_in(self.event.bytes)
    }
}

/// Of the pending Interest.
impl StrategyContext<'_> {
    /// Keeps bits from bit 8 on with the pending Interest.
    pub fn mark(&mut self, bits: u32) {
        let marked = self.pit.strategy_bits(self.event.entry);
        self.pit.set_strategy_bits(self.event.entry, marked | bits);
    }

    /// Takes bits away.
    pub fn unmark(&mut self, bits: u32) {
        let marked = self.pit.strategy_bits(self.event.entry);
        self.pit.set_strategy_bits(self.event.entry, marked & !bits);
    }

    /// True when any of these bits is kept.
    pub fn is_marked(&self, bits: u32) -> bool {
        self.pit.strategy_bits(self.event.entry) & bits != 0
    }

    /// The strategy is to be shown the Data that answers.
    pub fn want_data(&mut self) {
        self.mark(WANTS_DATA);
    }

    /// The strategy is to be woken after this time, if the Interest waits then. Up to 4.2 ms late; a later call replaces an earlier one.
    pub fn wake_after(&mut self, time: Duration) {
        self.mark(WANTS_WAKING);
        self.decisions.extras.wake_ms = u32::try_from(time.as_millis()).unwrap_or(u32::MAX).max(1);
    }

    /// The pending Interest is to stay for a while after this Data, for next hops that have not answered yet to be measured.
    pub fn linger(&mut self, time: Duration) {
        self.decisions.extras.linger_ms = u16::try_from(time.as_millis()).unwrap_or(u16::MAX);
    }
}

/// Of self-learning.
impl<'a> StrategyContext<'a> {
    /// True when the Interest must not be flooded.
    pub fn is_non_discovery(&self) -> bool {
        self.event.meta.link.non_discovery
    }

    /// True when the Data came with a prefix announcement.
    pub fn has_announcement(&self) -> bool {
        self.event.meta.link.announcement != Ticket::NONE
    }

    /// Faces to other machines that this Interest may go to.
    pub fn neighbours(&self) -> impl Iterator<Item = FaceId> + use<'a> {
        self.event.eligibility.neighbours()
    }

    /// True when another machine waits for the answer.
    pub fn has_neighbour_downstream(&self) -> bool {
        let mut waiting = self.pit.in_records(self.event.entry).filter(|r| r.expiry > self.event.now);
        waiting.any(|record| self.event.eligibility.is_neighbour(record.face))
    }

    /// The Data's announcement becomes a route to where it came from, and goes on to neighbours.
    pub fn learn_route(&mut self) {
        self.decisions.extras.lesson = Lesson::Learn;
    }

    /// The announcement known for the Data's name goes to neighbours with it.
    pub fn attach_announcement(&mut self) {
        self.decisions.extras.lesson = Lesson::Attach;
    }

    /// The route by which this Nack came is gone.
    pub fn forget_route(&mut self) {
        self.decisions.extras.lesson = Lesson::Forget;
    }
}
