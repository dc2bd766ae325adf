//! What happens when the table of pending Interests is short.
//!
//! While it is more than half full, Interests of remote faces wait for seconds, not for as long as they say, and those that are there are cut
//! as well, so that a flood ends by itself. Where there is no room at all an entry of the peer with the most gives way, or the newcomer is refused.

use super::{Out, Router};
use crate::scope::NameScope;
use nw_element_api::{Cause, Context, FaceInfo, Instant, Packet, SharedPool};
use nw_tables::Ask;
use nw_tables::pit::{Claim, EntryRef, PitFull, Shortage};
use nw_wire::NackReason;

/// Between two looks at how full the table is, milliseconds.
const CHECK_INTERVAL_MS: u64 = 100;
/// Between two passes that cut what waits already, milliseconds.
const PASS_INTERVAL_MS: u64 = 1000;
/// From so many eighths on the table is looked at in intervals.
const WATCHED_EIGHTHS: usize = 2;
/// From so many eighths on remote Interests wait at most for [`PRESSED_LIFETIME_MS`].
const PRESSED_EIGHTHS: usize = 4;
/// Milliseconds: the default lifetime.
const PRESSED_LIFETIME_MS: u32 = 4000;
/// From so many eighths on remote Interests wait at most for [`NEARLY_FULL_LIFETIME_MS`].
const NEARLY_FULL_EIGHTHS: usize = 7;
const NEARLY_FULL_LIFETIME_MS: u32 = 1000;
/// Things that one Interest may be short of, one after another: an entry, a slot, digests.
const ROUNDS_MAX: usize = 4;

/// How the shortage is dealt with now.
#[derive(Debug)]
pub(super) struct ShortageState {
    /// Lifetimes of Interests of remote faces are cut to this many milliseconds.
    pub(super) remote_lifetime_max_ms: u32,
    next_check: Instant,
    next_pass: Instant,
}

impl ShortageState {
    pub(super) const fn new(lifetime_max_ms: u32) -> Self {
        ShortageState {
            remote_lifetime_max_ms: lifetime_max_ms,
            next_check: Instant::START,
            next_pass: Instant::START,
        }
    }
}

impl Router {
    /// When to look at how full the table is.
    pub(super) fn shortage_deadline(&self) -> Option<Instant> {
        let is_cut = self.shortage.remote_lifetime_max_ms != self.lifetime_max_ms;
        (!self.pit.is_empty() && (is_cut || self.pit.is_pressed(WATCHED_EIGHTHS)))
            .then_some(self.shortage.next_check)
    }

    /// Cuts lifetimes while the table is short, and no longer.
    pub(super) fn check_shortage(&mut self, now: Instant) {
        if now < self.shortage.next_check {
            return;
        }
        self.shortage.next_check = now.plus_millis(CHECK_INTERVAL_MS);
        let eighths = self.pit.pressure();
        self.shortage.remote_lifetime_max_ms = match eighths {
            NEARLY_FULL_EIGHTHS.. => NEARLY_FULL_LIFETIME_MS,
            PRESSED_EIGHTHS.. => PRESSED_LIFETIME_MS,
            _ => u32::MAX,
        }
        .min(self.lifetime_max_ms);
        if eighths >= PRESSED_EIGHTHS && now >= self.shortage.next_pass && self.scans.shortening.is_none() {
            self.shortage.next_pass = now.plus_millis(PASS_INTERVAL_MS);
            self.scans.shortening = Some(0);
        }
    }

    /// An Interest for which there is no room: makes some, or refuses it.
    #[cold]
    pub(super) fn interest_without_room(
        &mut self,
        now: Instant,
        packet: Packet,
        face: FaceInfo,
        mut full: PitFull,
        context: &mut Context<'_, Out>,
    ) {
        for _ in 0..ROUNDS_MAX {
            if full != PitFull::Table || !self.make_room(now, &packet, context) {
                break;
            }
            let (bytes, meta) = context.pool.view(&packet);
            match self.enter(self.expiry(now, meta), meta.name_in(bytes), bytes, meta) {
                Ok((entry, true)) => return self.choose(now, entry, packet, face, true, context),
                Ok((entry, false)) => return self.ask_again(now, entry, packet, face, context),
                Err(still) => full = still,
            }
        }
        self.refuse_full(packet, face, full, context);
    }

    /// Lets an entry give way to a new one for this Interest; false when none does.
    fn make_room(&mut self, now: Instant, packet: &Packet, context: &mut Context<'_, Out>) -> bool {
        let (bytes, meta) = context.pool.view(packet);
        let ask = Ask {
            name: meta.name_in(bytes),
            prefixes: &meta.prefixes,
            can_be_prefix: meta.can_be_prefix,
            must_be_fresh: meta.must_be_fresh,
        };
        let Some(shortage) = self.pit.shortage(&ask, bytes.len()) else {
            context.drops.shortages.record(SharedPool::PendingInterests);
            return false;
        };
        let claim = self.claim(None, packet, context);
        self.let_give_way(now, shortage, &claim, context)
    }

    /// Lets an entry give way to a further record of `entry`, for the sake of this Interest; false when none does.
    #[cold]
    pub(super) fn make_room_for_record(
        &mut self,
        now: Instant,
        entry: EntryRef,
        packet: &Packet,
        context: &mut Context<'_, Out>,
    ) -> bool {
        if !self.pit.contains(entry) {
            return false;
        }
        let claim = self.claim(Some(entry), packet, context);
        if !self.pit.records_full() {
            return self.make_room_in_entry(entry, &claim, context);
        }
        self.let_give_way(now, Shortage::Records, &claim, context)
    }

    /// Lets the record of a face give way in an entry for which as many faces wait as may; false when none does.
    fn make_room_in_entry(&mut self, entry: EntryRef, claim: &Claim, context: &mut Context<'_, Out>) -> bool {
        context.drops.shortages.record(SharedPool::PendingInterests);
        let Some(face) = self.pit.crowding_face(entry, claim) else { return false };
        if let Some(record) = self.pit.in_record(entry, face) {
            self.send_nack(entry, record, NackReason::Congestion, context);
        }
        context.drops.count(Cause::PitEvicted);
        self.pit.remove_in(entry, face)
    }

    fn claim(&self, keep: Option<EntryRef>, packet: &Packet, context: &Context<'_, Out>) -> Claim {
        let (bytes, meta) = context.pool.view(packet);
        // Only local faces may use such names, and management answers them.
        let scope = self.scopes.of(|| meta.name_in(bytes), &meta.prefixes);
        Claim { face: meta.ingress, is_management: scope == NameScope::Localhost, keep }
    }

    fn let_give_way(
        &mut self,
        now: Instant,
        shortage: Shortage,
        claim: &Claim,
        context: &mut Context<'_, Out>,
    ) -> bool {
        context.drops.shortages.record(match shortage {
            Shortage::Interests(_) => SharedPool::LargeInterests,
            _ => SharedPool::PendingInterests,
        });
        let Some(victim) = self.pit.victim(shortage, claim) else { return false };
        self.send_nacks(victim, NackReason::Congestion, context);
        self.finish_unsatisfied(now, victim);
        context.drops.count(Cause::PitEvicted);
        true
    }
}
