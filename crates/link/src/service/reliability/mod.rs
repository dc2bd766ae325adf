//! Link reliability, one end of a link: copies of unacknowledged link packets, acknowledgements to
//! send, and Sequences received recently.
//!
//! NDNLPv2, Link Layer Reliability: each transmission of a link packet has its own TxSequence; the
//! receiver returns it as an Ack, on any packet it sends or, 5 ms later, on an idle one. A
//! transmission is lost when three later ones are acknowledged, or after the timeout of RFC 6298;
//! then the link packet is retransmitted, at most three times. If that fails, its network packet is
//! given up with all its fragments. Sequence stays the same over retransmissions, so the receiver
//! detects duplicates.
//!
//! Unlike NFD, an Ack of a transmission declared lost still counts: it measures the real round-trip
//! time, so a link whose delay grew is not flooded with retransmissions.
//!
//! ```text
//!  send ─▶ protect ─▶ window ──Ack──▶ acknowledged
//!                       │ ▲
//!         lost, timeout ▼ │ process_due: retransmit, with a new TxSequence
//!                      lost ──more than three times──▶ given up, with its other fragments
//! ```
//!
//! Invariants: `window` holds TxSequences `first`, `first + 1`, … and its front is never `None`;
//! `stored_bytes` is the sum of all copies in `window` and `lost`.

mod recent_sequences;
mod rto;

use crate::config::ReliabilityLimits;
use crate::counters::ReliabilityCounters;
use core::time::Duration;
use nw_element_api::{Kind, Timestamp};
use nw_name::tlv::Reader;
use nw_wire::types;
use recent_sequences::RecentSequences;
use rto::RetransmissionTimer;
use std::collections::VecDeque;

/// "A fragment is considered lost if 3 with greater TxSequences are acknowledged."
const LATER_ACKS: usize = 3;

/// "Acks wait at most 5 ms for a packet that takes them along."
const ACK_DELAY: Duration = Duration::from_millis(5);

/// This many acknowledgements are sent without waiting.
const ACKS_PER_IDLE_PACKET: usize = 64;

/// Acknowledgements that may be queued; more can only arrive within one loop iteration. One that is
/// not sent costs the peer a retransmission.
const ACKS_MAX: usize = 16_384;

/// Bytes of one Ack or TxSequence field: type 3, length 1, value 8.
pub const ACK_LEN: usize = 12;

/// Acks that one network packet carries at most.
pub const ACKS_PER_PACKET: usize = 16;

/// Lost transmissions that are remembered for a late Ack.
const SUPERSEDED_MAX: usize = 1024;

/// Buffers kept for the next copies.
const FREE_BUFFERS_MAX: usize = 128;

/// A link packet that was sent and is not acknowledged yet.
#[derive(Debug)]
struct Unacknowledged {
    tx_sequence: u64,
    sent: Timestamp,
    /// Retransmissions so far.
    retries: u32,
    /// Sequence of its network packet's first fragment.
    first_sequence: u64,
    /// Kind of its network packet.
    kind: Kind,
    /// The link packet, without Acks.
    bytes: Vec<u8>,
}

/// A transmission declared lost, whose link packet was retransmitted with TxSequence `successor`.
#[derive(Clone, Copy, Debug)]
struct Superseded {
    tx_sequence: u64,
    sent: Timestamp,
    successor: u64,
}

/// An action that [`Reliability::process_due`] requests.
#[derive(Debug, PartialEq, Eq)]
pub enum ReliabilityAction<'a> {
    /// Retransmit this link packet.
    Retransmit(&'a [u8]),
    /// Send an idle packet with these Acks.
    SendAcks(&'a [u64]),
    /// A network packet of this kind was given up: count the drop.
    GaveUp(Kind),
}

/// Reliability state of one end of a link.
#[derive(Debug)]
pub struct Reliability {
    limits: ReliabilityLimits,
    timer: RetransmissionTimer,
    /// Transmissions by TxSequence, from `first` on; `None` once acknowledged or retransmitted. The
    /// front is never `None`.
    window: VecDeque<Option<Unacknowledged>>,
    /// TxSequence of the first in the window.
    first: u64,
    /// Transmissions declared lost, to be retransmitted or given up, by ascending TxSequence.
    lost: VecDeque<Unacknowledged>,
    /// Lost transmissions that were retransmitted, by ascending TxSequence.
    superseded: VecDeque<Superseded>,
    /// Greatest TxSequences acknowledged, greatest first.
    greatest_acked: [Option<u64>; LATER_ACKS],
    /// Bytes of all copies.
    stored_bytes: usize,
    /// Limit on `stored_bytes` from memory shared with other faces.
    shared_max: usize,
    free_buffers: Vec<Vec<u8>>,
    /// TxSequences to acknowledge.
    acks: VecDeque<u64>,
    acks_due: Option<Timestamp>,
    recent: RecentSequences,
    counters: ReliabilityCounters,
}

impl Reliability {
    /// Creates the state of a new link. `tx_sequence` numbers the first transmission.
    pub fn new(limits: ReliabilityLimits, tx_sequence: u64) -> Self {
        Reliability {
            timer: RetransmissionTimer::new(limits.rto_min),
            limits,
            window: VecDeque::new(),
            first: tx_sequence,
            lost: VecDeque::new(),
            superseded: VecDeque::new(),
            greatest_acked: [None; LATER_ACKS],
            stored_bytes: 0,
            shared_max: usize::MAX,
            free_buffers: Vec::new(),
            acks: VecDeque::new(),
            acks_due: None,
            recent: RecentSequences::default(),
            counters: ReliabilityCounters::default(),
        }
    }

    /// Returns the counters.
    pub const fn counters(&self) -> &ReliabilityCounters {
        &self.counters
    }

    /// Returns the bytes of copies kept for retransmission.
    pub const fn stored_bytes(&self) -> usize {
        self.stored_bytes
    }

    /// Returns when [`process_due`](Self::process_due) must be called next. `None`: no need.
    pub fn deadline(&self) -> Option<Timestamp> {
        if !self.lost.is_empty() {
            return Some(Timestamp::START);
        }
        let timeout =
            self.window.front().and_then(Option::as_ref).map(|first| first.sent + self.timer.rto());
        [timeout, self.acks_due].into_iter().flatten().min()
    }

    /// Returns the TxSequence for the next link packet; the caller must then call
    /// [`protect`](Self::protect). `None` if a copy of `copy_len` bytes exceeds the limits: the
    /// packet is sent unprotected.
    pub fn next_tx_sequence(&mut self, copy_len: usize) -> Option<u64> {
        let fits = self.window.len() + self.lost.len() < self.limits.packets_max
            && self.stored_bytes + copy_len <= self.limits.bytes_max.min(self.shared_max);
        if !fits {
            self.counters.unprotected += 1;
        }
        fits.then(|| self.tx_sequence())
    }

    /// Returns whether a copy of `copy_len` bytes exceeds the limit on memory shared with other
    /// faces.
    pub fn is_shared_memory_short(&self, copy_len: usize) -> bool {
        self.stored_bytes + copy_len > self.shared_max && self.shared_max < self.limits.bytes_max
    }

    /// Limits the bytes of all copies, as memory shared with other faces is short.
    pub const fn set_shared_max(&mut self, bytes: usize) {
        self.shared_max = bytes;
    }

    fn tx_sequence(&self) -> u64 {
        self.first.wrapping_add(self.window.len() as u64)
    }

    /// Keeps a copy of a link packet, given in two parts, that carries
    /// [`next_tx_sequence`](Self::next_tx_sequence) and no Acks.
    pub fn protect(&mut self, now: Timestamp, kind: Kind, first_sequence: u64, parts: [&[u8]; 2]) {
        let mut bytes = self.free_buffers.pop().unwrap_or_default();
        bytes.extend_from_slice(parts[0]);
        bytes.extend_from_slice(parts[1]);
        self.stored_bytes += bytes.len();
        let tx_sequence = self.tx_sequence();
        let copy =
            Unacknowledged { tx_sequence, sent: now, retries: 0, first_sequence, kind, bytes };
        self.window.push_back(Some(copy));
    }

    /// Appends to `out` the Acks that a packet with `ack_bytes_max` free bytes carries.
    pub fn take_acks(&mut self, ack_bytes_max: usize, out: &mut impl Extend<u64>) {
        let count = (ack_bytes_max / ACK_LEN).min(ACKS_PER_PACKET).min(self.acks.len());
        out.extend(self.acks.drain(..count));
        if self.acks.is_empty() {
            self.acks_due = None;
        }
    }

    /// Processes a received link packet: its Acks and, if it has a Fragment, its TxSequence and
    /// Sequence. Returns false if it is a duplicate.
    pub fn receive(
        &mut self,
        now: Timestamp,
        acks: impl Iterator<Item = u64>,
        transmission: Option<(u64, Option<u64>)>,
    ) -> bool {
        let mut any_acked = false;
        for ack in acks {
            any_acked |= self.acknowledge(now, ack);
        }
        if any_acked {
            self.detect_lost();
        }
        let Some((tx_sequence, sequence)) = transmission else { return true };
        if self.acks.len() == ACKS_MAX {
            self.counters.acks_dropped += 1;
        } else {
            self.acks.push_back(tx_sequence);
            let due = if self.acks.len() >= ACKS_PER_IDLE_PACKET { now } else { now + ACK_DELAY };
            self.acks_due = Some(self.acks_due.map_or(due, |earlier| earlier.min(due)));
        }
        let is_new = sequence.is_none_or(|sequence| self.recent.insert(now, sequence));
        self.counters.duplicates += u64::from(!is_new);
        is_new
    }

    /// Processes one Ack. Returns false if it matches no transmission.
    fn acknowledge(&mut self, now: Timestamp, ack: u64) -> bool {
        let acked = self.take(ack);
        let sent = match (&acked, position(&self.superseded, ack, |entry| entry.tx_sequence)) {
            (Some(acked), _) => acked.sent,
            (None, Some(at)) => {
                let sent = self.superseded[at].sent;
                self.acknowledge_successor(at);
                sent
            }
            (None, None) => return false,
        };
        // Each transmission has its own number, so there is no ambiguity about which one was
        // acknowledged (Karn's problem).
        self.timer.sample(now.since(sent));
        if let Some(acked) = acked {
            self.counters.acknowledged += 1;
            self.recycle(acked);
        }
        self.record_acked(ack);
        self.trim();
        true
    }

    /// Removes and returns the copy whose latest transmission has this number.
    fn take(&mut self, tx_sequence: u64) -> Option<Unacknowledged> {
        let offset = tx_sequence.wrapping_sub(self.first);
        let slot = usize::try_from(offset).ok().and_then(|at| self.window.get_mut(at));
        if let Some(found) = slot.and_then(Option::take) {
            return Some(found);
        }
        let at = position(&self.lost, tx_sequence, |lost| lost.tx_sequence)?;
        self.lost.remove(at)
    }

    /// Acknowledges the retransmission of the link packet in `superseded[at]`, whose earlier
    /// transmission arrived after all.
    fn acknowledge_successor(&mut self, at: usize) {
        let Some(mut superseded) = self.superseded.remove(at) else { return };
        for _ in 0..=self.limits.retries_max {
            if let Some(acked) = self.take(superseded.successor) {
                self.counters.acknowledged += 1;
                self.counters.needless += 1;
                return self.recycle(acked);
            }
            match position(&self.superseded, superseded.successor, |entry| entry.tx_sequence) {
                Some(at) => superseded = self.superseded[at],
                None => return,
            }
        }
    }

    /// Records an acknowledged number among the greatest (modulo 2^64). Each is acknowledged once,
    /// so they differ.
    fn record_acked(&mut self, ack: u64) {
        let mut ack = ack;
        for slot in &mut self.greatest_acked {
            match slot {
                Some(greater) if (ack.wrapping_sub(*greater) as i64) < 0 => {}
                Some(smaller) => core::mem::swap(smaller, &mut ack),
                None => {
                    *slot = Some(ack);
                    return;
                }
            }
        }
    }

    /// Declares lost all transmissions before the third greatest acknowledged number.
    fn detect_lost(&mut self) {
        let Some(third) = self.greatest_acked[LATER_ACKS - 1] else { return };
        while !self.window.is_empty() && (third.wrapping_sub(self.first) as i64) > 0 {
            self.declare_first_lost();
        }
    }

    fn declare_first_lost(&mut self) {
        if let Some(Some(lost)) = self.window.pop_front() {
            self.lost.push_back(lost);
        }
        self.first = self.first.wrapping_add(1);
        self.trim();
    }

    /// Removes acknowledged entries from the front of the window.
    fn trim(&mut self) {
        while let Some(None) = self.window.front() {
            self.window.pop_front();
            self.first = self.first.wrapping_add(1);
        }
    }

    fn recycle(&mut self, mut acked: Unacknowledged) {
        self.stored_bytes -= acked.bytes.len();
        if self.free_buffers.len() < FREE_BUFFERS_MAX {
            acked.bytes.clear();
            self.free_buffers.push(acked.bytes);
        }
    }

    /// Does what is due, passing each action to `on_action`. Idle packets carry at most
    /// `ack_bytes_max` bytes of Acks. At most `retransmit_max` link packets are retransmitted or
    /// given up; the remaining ones stay due.
    pub fn process_due(
        &mut self,
        now: Timestamp,
        ack_bytes_max: usize,
        retransmit_max: usize,
        mut on_action: impl FnMut(ReliabilityAction<'_>),
    ) {
        let acks_max = (ack_bytes_max / ACK_LEN).clamp(1, ACKS_PER_IDLE_PACKET);
        // Timeouts are checked before retransmissions, whose own timeout starts now.
        while let Some(Some(first)) = self.window.front()
            && first.sent + self.timer.rto() <= now
        {
            self.declare_first_lost();
        }
        for _ in 0..retransmit_max {
            let Some(lost) = self.lost.pop_front() else { break };
            if lost.retries < self.limits.retries_max {
                self.retransmit(now, lost, &mut on_action);
            } else {
                self.give_up(lost, &mut on_action);
            }
        }
        if self.acks_due.is_some_and(|due| due <= now) {
            while !self.acks.is_empty() {
                let (acks, _) = self.acks.as_slices();
                let acks = &acks[..acks.len().min(acks_max)];
                let count = acks.len();
                on_action(ReliabilityAction::SendAcks(acks));
                self.acks.drain(..count);
            }
            self.acks_due = None;
        }
    }

    fn retransmit(
        &mut self,
        now: Timestamp,
        mut lost: Unacknowledged,
        on_action: &mut impl FnMut(ReliabilityAction<'_>),
    ) {
        let successor = self.tx_sequence();
        if self.superseded.len() == SUPERSEDED_MAX {
            self.superseded.pop_front();
        }
        self.superseded.push_back(Superseded {
            tx_sequence: lost.tx_sequence,
            sent: lost.sent,
            successor,
        });
        set_tx_sequence(&mut lost.bytes, successor);
        lost.tx_sequence = successor;
        lost.sent = now;
        lost.retries += 1;
        self.counters.retransmitted += 1;
        on_action(ReliabilityAction::Retransmit(&lost.bytes));
        self.window.push_back(Some(lost));
    }

    /// "When one fragment is given up, so are the others of its packet."
    fn give_up(&mut self, lost: Unacknowledged, on_action: &mut impl FnMut(ReliabilityAction<'_>)) {
        let packet = lost.first_sequence;
        self.counters.given_up += 1;
        on_action(ReliabilityAction::GaveUp(lost.kind));
        self.recycle(lost);
        for slot in &mut self.window {
            if let Some(sibling) = slot.take_if(|entry| entry.first_sequence == packet) {
                self.stored_bytes -= sibling.bytes.len();
            }
        }
        let stored_bytes = &mut self.stored_bytes;
        self.lost.retain(|entry| {
            let is_sibling = entry.first_sequence == packet;
            *stored_bytes -= if is_sibling { entry.bytes.len() } else { 0 };
            !is_sibling
        });
        self.trim();
    }
}

/// Returns the index of a TxSequence in a queue ordered by ascending TxSequence (modulo 2^64).
fn position<T>(row: &VecDeque<T>, tx_sequence: u64, of: impl Fn(&T) -> u64) -> Option<usize> {
    let start = of(row.front()?);
    let offset = tx_sequence.wrapping_sub(start);
    row.binary_search_by_key(&offset, |item| of(item).wrapping_sub(start)).ok()
}

/// Replaces the TxSequence of a link packet.
fn set_tx_sequence(bytes: &mut [u8], tx_sequence: u64) {
    if let Some(at) = tx_sequence_at(bytes) {
        bytes[at..at + 8].copy_from_slice(&tx_sequence.to_be_bytes());
    } else {
        debug_assert!(false, "a copy without TxSequence was kept");
    }
}

/// Returns the offset of the value of TxSequence.
fn tx_sequence_at(bytes: &[u8]) -> Option<usize> {
    let outer = Reader::new(bytes, 0).next().ok()??;
    let mut fields = Reader::new(outer.value, outer.value_start);
    loop {
        let field = fields.next().ok()??;
        if field.typ == types::LP_TX_SEQUENCE {
            return (field.value.len() == 8).then_some(field.value_start);
        }
    }
}

#[cfg(test)]
mod tests;
