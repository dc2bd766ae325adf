//! The second half of [`StrategyContext`]: measurements, strategy bits, timers, self-learning.
//! Strategies that only choose among next hops need the first half only.

use super::{RouteEvent, StrategyContext, WANTS_DATA, WANTS_TIMER};
use core::time::Duration;
use nw_element_api::{AnnouncementRef, FaceId};
use nw_name::NameRef;
use nw_tables::measurements::Record;

/// Measurements of prefixes.
impl<'a> StrategyContext<'a> {
    /// Returns the measurements of the first `components` of the packet's name, if there are any.
    pub fn peek(&self, components: usize) -> Option<&Record> {
        let (event, name) = (&self.event, self.name());
        self.state.measurements.peek(
            event.now,
            event.strategy,
            name,
            &event.meta.prefixes,
            components,
        )
    }

    /// As [`peek`](Self::peek), for changes.
    pub fn record(&mut self, components: usize) -> Option<&mut Record> {
        let (event, name) = (&self.event, self.name());
        self.state.measurements.record(
            event.now,
            event.strategy,
            name,
            &event.meta.prefixes,
            components,
        )
    }

    /// As [`record`](Self::record), creating it if needed and keeping it for at least `lifetime_ms`
    /// from now. `None` if the table is full.
    pub fn record_or_new(&mut self, components: usize, lifetime_ms: u64) -> Option<&mut Record> {
        let (event, name) = (&self.event, self.name());
        let prefixes = &event.meta.prefixes;
        let measurements = &mut self.state.measurements;
        measurements.record_or_new(
            event.now,
            event.strategy,
            name,
            prefixes,
            components,
            lifetime_ms,
        )
    }

    /// Returns the measurements of the longest prefix that has any.
    pub fn longest_record(&mut self) -> Option<&mut Record> {
        let (event, name) = (&self.event, self.name());
        self.state.measurements.longest(event.now, event.strategy, name, &event.meta.prefixes)
    }

    /// Starts a round-trip time measurement: the Interest was sent to a face. A missing answer
    /// counts as a timeout after the face's retransmission timeout, at least `rto_min`.
    pub fn start_measurement(
        &mut self,
        components: usize,
        face: FaceId,
        lifetime_ms: u64,
        rto_min: Duration,
    ) {
        let (now, hash) = (self.event.now, self.pit.name_hash(self.event.entry));
        if let Some(record) = self.record_or_new(components, lifetime_ms) {
            record.face_or_new(now, face).expect_reply(now, hash, rto_min);
        }
    }

    /// Records the round-trip time of this Data's face, if the Interest was sent there and its
    /// measurement still exists.
    pub fn finish_measurement(&mut self, components: usize) {
        let (now, ingress, hash) =
            (self.event.now, self.event.ingress, self.pit.name_hash(self.event.entry));
        let Some(sent) = self.out_record(ingress).map(|record| record.sent) else { return };
        if let Some(face) = self.record(components).and_then(|record| record.face_mut(ingress)) {
            face.record_rtt(now, now.since(sent));
            face.clear_expected(hash);
        }
    }

    /// Returns a random number below `end`; 0 if `end` is 0.
    pub fn random_below(&mut self, end: u64) -> u64 {
        self.state.random.below(end)
    }

    /// Returns the packet's name.
    fn name(&self) -> NameRef<'a> {
        self.event.meta.name_in(self.event.bytes)
    }
}

/// State of the pending Interest.
impl StrategyContext<'_> {
    /// Sets strategy bits of the pending Interest. Bits 8 to 31 are free for strategies.
    pub fn set_bits(&mut self, bits: u32) {
        let current = self.pit.strategy_bits(self.event.entry);
        self.pit.set_strategy_bits(self.event.entry, current | bits);
    }

    /// Clears strategy bits of the pending Interest.
    pub fn clear_bits(&mut self, bits: u32) {
        let current = self.pit.strategy_bits(self.event.entry);
        self.pit.set_strategy_bits(self.event.entry, current & !bits);
    }

    /// Returns whether any of these strategy bits is set.
    pub fn has_bits(&self, bits: u32) -> bool {
        self.pit.strategy_bits(self.event.entry) & bits != 0
    }

    /// Requests [`after_data`](crate::strategy::ForwardingStrategy::after_data) for Data that
    /// satisfies this Interest.
    pub fn request_data_event(&mut self) {
        self.set_bits(WANTS_DATA);
    }

    /// Requests [`on_timer`](crate::strategy::ForwardingStrategy::on_timer) after this time, if the
    /// Interest is still pending. It may be up to 4.2 ms late; a later call replaces an earlier
    /// one.
    pub fn set_timer(&mut self, time: Duration) {
        self.set_bits(WANTS_TIMER);
        self.decisions.extras.timer_ms = u32::try_from(time.as_millis()).unwrap_or(u32::MAX).max(1);
    }

    /// Holds the pending Interest for this time after the Data, so that next hops that have not
    /// answered yet are measured.
    pub fn hold_for_late_data(&mut self, time: Duration) {
        self.decisions.extras.hold_ms = u16::try_from(time.as_millis()).unwrap_or(u16::MAX);
    }
}

/// Self-learning.
impl<'a> StrategyContext<'a> {
    /// Returns whether the Interest carries NonDiscovery: it must not be flooded.
    pub fn is_non_discovery(&self) -> bool {
        self.event.meta.link.non_discovery
    }

    /// Returns whether the Data carries a prefix announcement.
    pub fn has_announcement(&self) -> bool {
        self.event.meta.link.announcement != AnnouncementRef::NONE
    }

    /// Returns the faces to other machines that this Interest may use.
    pub fn neighbours(&self) -> impl Iterator<Item = FaceId> + use<'a> {
        self.event.eligibility.neighbours()
    }

    /// Returns whether another machine is waiting for the answer.
    pub fn has_neighbour_downstream(&self) -> bool {
        let mut waiting =
            self.pit.in_records(self.event.entry).filter(|r| r.expiry > self.event.now);
        waiting.any(|record| self.event.eligibility.is_neighbour(record.face))
    }

    /// Makes the Data's announcement a route to its ingress face, and forwards it to neighbours.
    pub fn announce_route(&mut self) {
        self.decisions.extras.route_event = RouteEvent::Announce;
    }

    /// Sends the stored announcement for the Data's name to neighbours with it.
    pub fn attach_announcement(&mut self) {
        self.decisions.extras.route_event = RouteEvent::AttachAnnouncement;
    }

    /// Removes the route to the ingress face of this Nack.
    pub fn withdraw_route(&mut self) {
        self.decisions.extras.route_event = RouteEvent::Withdraw;
    }
}
