//! What happens when the PIT is nearly or completely full.
//!
//! While it is more than half full, lifetimes of Interests from remote faces are reduced to 4 s or
//! 1 s, also of pending ones, so that a flood decays by itself. When it is full, an entry of the
//! peer with the most entries is evicted, or the new Interest is rejected.

use super::{Out, Router};
use crate::interest_key::interest_key;
use crate::scope::NameScope;
use nw_element_api::{Context, DropCause, FaceInfo, Packet, SharedPool, Timestamp};
use nw_tables::pit::{Claim, EntryRef, PitFull, Shortage};
use nw_wire::NackReason;

/// Milliseconds between two checks of how full the PIT is.
const CHECK_INTERVAL_MS: u64 = 100;
/// Milliseconds between two scans that reduce lifetimes of pending Interests.
const PASS_INTERVAL_MS: u64 = 1000;
/// From this many eighths on, the PIT is checked periodically.
const WATCHED_EIGHTHS: usize = 2;
/// From this many eighths on, lifetimes of remote Interests are at most [`PRESSED_LIFETIME_MS`].
const PRESSED_EIGHTHS: usize = 4;
/// The default InterestLifetime, milliseconds.
const PRESSED_LIFETIME_MS: u32 = 4000;
/// From this many eighths on, lifetimes of remote Interests are at most
/// [`NEARLY_FULL_LIFETIME_MS`].
const NEARLY_FULL_EIGHTHS: usize = 7;
const NEARLY_FULL_LIFETIME_MS: u32 = 1000;
/// Resources that one Interest may lack one after the other: an entry, a slot, digests.
const EVICTIONS_MAX: usize = 4;

/// Current lifetime limit and the next checks.
#[derive(Debug)]
pub(super) struct ShortageState {
    /// Longest lifetime of Interests from remote faces, milliseconds.
    pub(super) remote_lifetime_max_ms: u32,
    next_check: Timestamp,
    next_pass: Timestamp,
}

impl ShortageState {
    /// Creates the state without a reduced lifetime.
    pub(super) const fn new(lifetime_max_ms: u32) -> Self {
        ShortageState {
            remote_lifetime_max_ms: lifetime_max_ms,
            next_check: Timestamp::START,
            next_pass: Timestamp::START,
        }
    }
}

impl Router {
    /// Returns when to check how full the PIT is. `None` while it is nearly empty.
    pub(super) fn shortage_deadline(&self) -> Option<Timestamp> {
        let is_reduced = self.shortage.remote_lifetime_max_ms != self.lifetime_max_ms;
        (!self.pit.is_empty() && (is_reduced || self.pit.pressure_reaches(WATCHED_EIGHTHS)))
            .then_some(self.shortage.next_check)
    }

    /// Reduces lifetimes while the PIT is short of space, and restores them afterwards.
    pub(super) fn check_shortage(&mut self, now: Timestamp) {
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
        if eighths >= PRESSED_EIGHTHS
            && now >= self.shortage.next_pass
            && self.scans.lifetime_cut_slot.is_none()
        {
            self.shortage.next_pass = now.plus_millis(PASS_INTERVAL_MS);
            self.scans.lifetime_cut_slot = Some(0);
        }
    }

    /// Handles an Interest that the PIT has no space for: evicts an entry, or rejects it.
    #[cold]
    pub(super) fn interest_when_full(
        &mut self,
        now: Timestamp,
        packet: Packet,
        face: FaceInfo,
        mut full: PitFull,
        context: &mut Context<'_, Out>,
    ) {
        for _ in 0..EVICTIONS_MAX {
            if full != PitFull::Table || !self.evict_for_interest(now, &packet, context) {
                break;
            }
            let (bytes, meta) = context.pool.view(&packet);
            match self.find_or_insert_entry(self.expiry(now, meta), bytes, meta) {
                Ok((entry, true)) => {
                    return self.select_next_hop(now, entry, packet, face, true, context);
                }
                Ok((entry, false)) => return self.on_pending(now, entry, packet, face, context),
                Err(still_full) => full = still_full,
            }
        }
        self.reject_full(packet, face, full, context);
    }

    /// Evicts an entry to make space for this Interest. Returns whether one was evicted.
    fn evict_for_interest(
        &mut self,
        now: Timestamp,
        packet: &Packet,
        context: &mut Context<'_, Out>,
    ) -> bool {
        let (bytes, meta) = context.pool.view(packet);
        let Some(shortage) = self.pit.shortage(&interest_key(meta, bytes), bytes.len()) else {
            context.drops.shortages.record(SharedPool::PendingInterests);
            return false;
        };
        let claim = self.claim(None, packet, context);
        self.evict(now, shortage, &claim, context)
    }

    /// Evicts an entry to make space for another record of `entry`. Returns whether one was
    /// evicted.
    #[cold]
    pub(super) fn evict_for_record(
        &mut self,
        now: Timestamp,
        entry: EntryRef,
        packet: &Packet,
        context: &mut Context<'_, Out>,
    ) -> bool {
        if !self.pit.contains(entry) {
            return false;
        }
        let claim = self.claim(Some(entry), packet, context);
        if !self.pit.records_full() {
            return self.evict_record_in_entry(entry, &claim, context);
        }
        self.evict(now, Shortage::Records, &claim, context)
    }

    /// Removes one face's in-record from an entry that has the most in-records allowed. Returns
    /// whether one was removed.
    fn evict_record_in_entry(
        &mut self,
        entry: EntryRef,
        claim: &Claim,
        context: &mut Context<'_, Out>,
    ) -> bool {
        context.drops.shortages.record(SharedPool::PendingInterests);
        let Some(face) = self.pit.record_victim(entry, claim) else { return false };
        if let Some(record) = self.pit.in_record(entry, face) {
            self.send_nack(entry, record, (NackReason::Congestion, 0), context);
        }
        context.drops.count(DropCause::PitEvicted);
        self.pit.remove_in(entry, face)
    }

    /// Returns what this Interest may evict: entries of peers with more, but not `keep`.
    fn claim(&self, keep: Option<EntryRef>, packet: &Packet, context: &Context<'_, Out>) -> Claim {
        let (bytes, meta) = context.pool.view(packet);
        // Only local faces may use `/localhost` names; they are answered by management.
        let scope = self.scopes.of(|| meta.name_in(bytes), &meta.prefixes);
        Claim { face: meta.ingress, is_management: scope == NameScope::Localhost, keep }
    }

    /// Evicts the entry that the PIT selects, with Nack(Congestion) to its downstreams. Returns
    /// whether one was evicted.
    fn evict(
        &mut self,
        now: Timestamp,
        shortage: Shortage,
        claim: &Claim,
        context: &mut Context<'_, Out>,
    ) -> bool {
        context.drops.shortages.record(match shortage {
            Shortage::Interests(_) => SharedPool::LargeInterests,
            _ => SharedPool::PendingInterests,
        });
        let Some(victim) = self.pit.select_victim(shortage, claim) else { return false };
        self.send_nacks(victim, (NackReason::Congestion, 0), context);
        self.finish_unsatisfied(now, victim);
        context.drops.count(DropCause::PitEvicted);
        true
    }
}
