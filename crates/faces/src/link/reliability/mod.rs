//! Link reliability, one end of it: what was sent and is not acknowledged, what is to be acknowledged, what came before.
//!
//! NDNLPv2, Link Layer Reliability: each transmission of a link packet has a TxSequence of its own; the receiver returns it as an Ack, on any
//! packet it sends or, 5 ms later, on an idle one. A transmission is lost when three later ones were acknowledged, or after the time-out of
//! RFC 6298; then the link packet is sent again, at most three times. When that does not help, its network packet is given up whole.
//! Sequence stays the same over retransmissions, so the receiver knows copies. A pure state machine: time and packets are arguments.
//!
//! Unlike the reference, an Ack of a transmission that was taken for lost still counts: it says how long the way really is, which keeps a link
//! whose delay grew from being flooded with copies.
//!
//! ```text
//!  send ─▶ protect ─▶ window ──Ack──▶ gone
//!                       │ ▲
//!            lost, late ▼ │ pump: again, with another TxSequence
//!                      lost ──more than three times──▶ given up, with its siblings
//! ```

mod rto;
mod seen;

use crate::config::ReliabilityLimits;
use core::time::Duration;
use nw_element_api::{Instant, Kind};
use nw_name::tlv::Reader;
use nw_wire::types;
use rto::RetransmissionTimer;
use seen::Seen;
use std::collections::VecDeque;

/// "A fragment is considered lost if 3 with greater TxSequences are acknowledged."
const LATER_ACKS: usize = 3;

/// "Acks wait at most 5 ms for a packet that takes them along."
const ACK_DELAY: Duration = Duration::from_millis(5);

/// So many acknowledgements don't wait for time.
const ACKS_PER_IDLE_PACKET: usize = 64;

/// Acknowledgements that may wait; more can only come within one turn. One that is not sent costs the peer a retransmission.
const ACKS_MAX: usize = 16_384;

/// Octets of one Ack, or of a TxSequence: type 3, length 1, value 8.
pub const ACK_LEN: usize = 12;

/// Acks that a packet takes along at most.
pub const ACKS_PER_PACKET: usize = 16;

/// Transmissions taken for lost whose Ack is still of use.
const SUPERSEDED_MAX: usize = 1024;

/// Buffers kept for copies to come.
const SPARE_MAX: usize = 128;

/// What reliability did for one face.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReliabilityCounters {
    /// Link packets acknowledged, the first time they were sent or later.
    pub acknowledged: u64,
    /// Link packets sent again.
    pub retransmitted: u64,
    /// Of those sent again, the ones that had arrived the time before.
    pub needless: u64,
    /// Network packets given up: sent four times without an answer.
    pub given_up: u64,
    /// Link packets sent without protection, because the store of copies was full.
    pub unprotected: u64,
    /// Link packets received again and dropped.
    pub duplicates: u64,
    /// Acknowledgements not sent because too many waited.
    pub acks_dropped: u64,
}

impl ReliabilityCounters {
    /// Adds another face's counts to these.
    pub const fn merge(&mut self, other: &ReliabilityCounters) {
        self.acknowledged += other.acknowledged;
        self.retransmitted += other.retransmitted;
        self.needless += other.needless;
        self.given_up += other.given_up;
        self.unprotected += other.unprotected;
        self.duplicates += other.duplicates;
        self.acks_dropped += other.acks_dropped;
    }
}

/// A link packet that was sent and may have to be sent again.
#[derive(Debug)]
struct Unacknowledged {
    tx_sequence: u64,
    sent: Instant,
    /// Times it was sent again.
    retries: u32,
    /// Sequence of its network packet's first fragment.
    first_sequence: u64,
    /// What its network packet is.
    kind: Kind,
    /// The link packet, without Acks.
    bytes: Vec<u8>,
}

/// A transmission that another one took the place of.
#[derive(Clone, Copy, Debug)]
struct Superseded {
    tx_sequence: u64,
    sent: Instant,
    by: u64,
}

/// What [`Reliability::pump`] wants done.
#[derive(Debug, PartialEq, Eq)]
pub enum Pumped<'a> {
    /// Send this link packet, again.
    Again(&'a [u8]),
    /// Send an idle packet with these Acks.
    Idle(&'a [u64]),
    /// A network packet of this kind was given up.
    GivenUp(Kind),
}

/// One end of a reliable link.
#[derive(Debug)]
pub struct Reliability {
    limits: ReliabilityLimits,
    timer: RetransmissionTimer,
    /// Transmissions, by TxSequence from `first` on; `None` when acknowledged or sent again. The first is never `None`.
    window: VecDeque<Option<Unacknowledged>>,
    /// TxSequence of the first in the window.
    first: u64,
    /// Those taken for lost, to be sent again or given up, by ascending TxSequence.
    lost: VecDeque<Unacknowledged>,
    /// By ascending TxSequence.
    superseded: VecDeque<Superseded>,
    /// The greatest TxSequences acknowledged, greatest first.
    greatest_acked: [Option<u64>; LATER_ACKS],
    /// Bytes of all copies.
    stored_bytes: usize,
    /// Bytes that they may be because of other faces.
    shared_max: usize,
    spare: Vec<Vec<u8>>,
    /// TxSequences to be acknowledged.
    acks: VecDeque<u64>,
    acks_due: Option<Instant>,
    seen: Seen,
    counters: ReliabilityCounters,
}

impl Reliability {
    /// Nothing sent, nothing received. `tx_sequence` is that of the first transmission.
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
            spare: Vec::new(),
            acks: VecDeque::new(),
            acks_due: None,
            seen: Seen::default(),
            counters: ReliabilityCounters::default(),
        }
    }

    /// What it did.
    pub const fn counters(&self) -> &ReliabilityCounters {
        &self.counters
    }

    /// Octets of copies held for retransmission.
    pub const fn stored_bytes(&self) -> usize {
        self.stored_bytes
    }

    /// When [`pump`](Self::pump) has something to do, if ever.
    pub fn deadline(&self) -> Option<Instant> {
        if !self.lost.is_empty() {
            return Some(Instant::START);
        }
        let late = self.window.front().and_then(Option::as_ref).map(|first| first.sent + self.timer.rto());
        [late, self.acks_due].into_iter().flatten().min()
    }

    /// The TxSequence that the next link packet is to carry; `None` when there is no room for a copy of so many octets, so that it has to go
    /// without. [`protect`](Self::protect) is to follow.
    pub fn next_tx_sequence(&mut self, copy_len: usize) -> Option<u64> {
        let room = self.window.len() + self.lost.len() < self.limits.packets_max
            && self.stored_bytes + copy_len <= self.limits.bytes_max.min(self.shared_max);
        if !room {
            self.counters.unprotected += 1;
        }
        room.then(|| self.tx_sequence())
    }

    /// True when a copy of so many bytes has no room because memory that all faces share is short.
    pub fn is_shared_memory_short(&self, copy_len: usize) -> bool {
        self.stored_bytes + copy_len > self.shared_max && self.shared_max < self.limits.bytes_max
    }

    /// Sets how many bytes the copies may be because of other faces.
    pub const fn set_shared_max(&mut self, bytes: usize) {
        self.shared_max = bytes;
    }

    fn tx_sequence(&self) -> u64 {
        self.first.wrapping_add(self.window.len() as u64)
    }

    /// Keeps a copy, in parts, of a link packet that carries [`next_tx_sequence`](Self::next_tx_sequence) and no Acks.
    pub fn protect(&mut self, now: Instant, kind: Kind, first_sequence: u64, parts: [&[u8]; 2]) {
        let mut bytes = self.spare.pop().unwrap_or_default();
        bytes.extend_from_slice(parts[0]);
        bytes.extend_from_slice(parts[1]);
        self.stored_bytes += bytes.len();
        let tx_sequence = self.tx_sequence();
        let copy = Unacknowledged { tx_sequence, sent: now, retries: 0, first_sequence, kind, bytes };
        self.window.push_back(Some(copy));
    }

    /// Acks that a packet with so many octets left shall take along, appended to `out`.
    pub fn take_acks(&mut self, room: usize, out: &mut impl Extend<u64>) {
        let count = (room / ACK_LEN).min(ACKS_PER_PACKET).min(self.acks.len());
        out.extend(self.acks.drain(..count));
        if self.acks.is_empty() {
            self.acks_due = None;
        }
    }

    /// A link packet came with these Acks, and this TxSequence and Sequence if it has a Fragment. False when it is a copy of one that came before.
    pub fn receive(
        &mut self,
        now: Instant,
        acks: impl Iterator<Item = u64>,
        transmission: Option<(u64, Option<u64>)>,
    ) -> bool {
        let mut any = false;
        for ack in acks {
            any |= self.acknowledge(now, ack);
        }
        if any {
            self.find_lost();
        }
        let Some((tx_sequence, sequence)) = transmission else { return true };
        if self.acks.len() == ACKS_MAX {
            self.counters.acks_dropped += 1;
        } else {
            self.acks.push_back(tx_sequence);
            let due = if self.acks.len() >= ACKS_PER_IDLE_PACKET { now } else { now + ACK_DELAY };
            self.acks_due = Some(self.acks_due.map_or(due, |before| before.min(due)));
        }
        let is_new = sequence.is_none_or(|sequence| self.seen.insert(now, sequence));
        self.counters.duplicates += u64::from(!is_new);
        is_new
    }

    /// False for an Ack of nothing that is waited for.
    fn acknowledge(&mut self, now: Instant, ack: u64) -> bool {
        let done = self.take(ack);
        let sent = match (&done, position(&self.superseded, ack, |other| other.tx_sequence)) {
            (Some(done), _) => done.sent,
            (None, Some(at)) => {
                let sent = self.superseded[at].sent;
                self.end_successor(at);
                sent
            }
            (None, None) => return false,
        };
        // Each transmission has its own number, so there is no doubt which one was answered (Karn).
        self.timer.sample(now.since(sent));
        if let Some(done) = done {
            self.counters.acknowledged += 1;
            self.forget(done);
        }
        self.note_acked(ack);
        self.trim();
        true
    }

    /// Takes what was sent by this number and not sent again since.
    fn take(&mut self, tx_sequence: u64) -> Option<Unacknowledged> {
        let offset = tx_sequence.wrapping_sub(self.first);
        let slot = usize::try_from(offset).ok().and_then(|at| self.window.get_mut(at));
        if let Some(found) = slot.and_then(Option::take) {
            return Some(found);
        }
        let at = position(&self.lost, tx_sequence, |lost| lost.tx_sequence)?;
        self.lost.remove(at)
    }

    /// A transmission that was taken for lost arrived: what took its place need not.
    fn end_successor(&mut self, at: usize) {
        let Some(mut link) = self.superseded.remove(at) else { return };
        for _ in 0..=self.limits.retries_max {
            if let Some(done) = self.take(link.by) {
                self.counters.acknowledged += 1;
                self.counters.needless += 1;
                return self.forget(done);
            }
            match position(&self.superseded, link.by, |other| other.tx_sequence) {
                Some(at) => link = self.superseded[at],
                None => return,
            }
        }
    }

    /// Keeps the greatest, modulo 2^64. Each TxSequence is acknowledged once, so they differ.
    fn note_acked(&mut self, ack: u64) {
        let mut ack = ack;
        for place in &mut self.greatest_acked {
            match place {
                Some(other) if (ack.wrapping_sub(*other) as i64) < 0 => {}
                Some(other) => core::mem::swap(other, &mut ack),
                None => {
                    *place = Some(ack);
                    return;
                }
            }
        }
    }

    /// Transmissions before the third greatest acknowledged are lost.
    fn find_lost(&mut self) {
        let Some(third) = self.greatest_acked[LATER_ACKS - 1] else { return };
        while !self.window.is_empty() && (third.wrapping_sub(self.first) as i64) > 0 {
            self.lose_first();
        }
    }

    fn lose_first(&mut self) {
        if let Some(Some(lost)) = self.window.pop_front() {
            self.lost.push_back(lost);
        }
        self.first = self.first.wrapping_add(1);
        self.trim();
    }

    /// Takes empty places off the front.
    fn trim(&mut self) {
        while let Some(None) = self.window.front() {
            self.window.pop_front();
            self.first = self.first.wrapping_add(1);
        }
    }

    fn forget(&mut self, mut done: Unacknowledged) {
        self.stored_bytes -= done.bytes.len();
        if self.spare.len() < SPARE_MAX {
            done.bytes.clear();
            self.spare.push(done.bytes);
        }
    }

    /// Does what is due; each thing that is to be sent, or that is over, is shown to `each`. Idle packets get `room` octets of Acks at most; no more
    /// than `again_max` link packets are sent again, the rest is due later.
    pub fn pump(&mut self, now: Instant, room: usize, again_max: usize, mut each: impl FnMut(Pumped<'_>)) {
        let acks_max = (room / ACK_LEN).clamp(1, ACKS_PER_IDLE_PACKET);
        // Before anything is sent again, as the time-out of what is sent now is still to come.
        while let Some(Some(first)) = self.window.front()
            && first.sent + self.timer.rto() <= now
        {
            self.lose_first();
        }
        for _ in 0..again_max {
            let Some(lost) = self.lost.pop_front() else { break };
            if lost.retries < self.limits.retries_max {
                self.send_again(now, lost, &mut each);
            } else {
                self.give_up(lost, &mut each);
            }
        }
        if self.acks_due.is_some_and(|due| due <= now) {
            while !self.acks.is_empty() {
                let (acks, _) = self.acks.as_slices();
                let acks = &acks[..acks.len().min(acks_max)];
                let count = acks.len();
                each(Pumped::Idle(acks));
                self.acks.drain(..count);
            }
            self.acks_due = None;
        }
    }

    fn send_again(&mut self, now: Instant, mut lost: Unacknowledged, each: &mut impl FnMut(Pumped<'_>)) {
        let by = self.tx_sequence();
        if self.superseded.len() == SUPERSEDED_MAX {
            self.superseded.pop_front();
        }
        self.superseded.push_back(Superseded { tx_sequence: lost.tx_sequence, sent: lost.sent, by });
        set_tx_sequence(&mut lost.bytes, by);
        lost.tx_sequence = by;
        lost.sent = now;
        lost.retries += 1;
        self.counters.retransmitted += 1;
        each(Pumped::Again(&lost.bytes));
        self.window.push_back(Some(lost));
    }

    /// "When one fragment is given up, so are the others of its packet."
    fn give_up(&mut self, lost: Unacknowledged, each: &mut impl FnMut(Pumped<'_>)) {
        let packet = lost.first_sequence;
        self.counters.given_up += 1;
        each(Pumped::GivenUp(lost.kind));
        self.forget(lost);
        for slot in &mut self.window {
            if let Some(sibling) = slot.take_if(|other| other.first_sequence == packet) {
                self.stored_bytes -= sibling.bytes.len();
            }
        }
        let stored_bytes = &mut self.stored_bytes;
        self.lost.retain(|other| {
            let is_sibling = other.first_sequence == packet;
            *stored_bytes -= if is_sibling { other.bytes.len() } else { 0 };
            !is_sibling
        });
        self.trim();
    }
}

/// Where a TxSequence stands in a row by ascending TxSequence (modulo 2^64).
fn position<T>(row: &VecDeque<T>, tx_sequence: u64, of: impl Fn(&T) -> u64) -> Option<usize> {
    let start = of(row.front()?);
    let offset = tx_sequence.wrapping_sub(start);
    row.binary_search_by_key(&offset, |item| of(item).wrapping_sub(start)).ok()
}

/// Writes another TxSequence into a link packet that has one.
fn set_tx_sequence(bytes: &mut [u8], tx_sequence: u64) {
    if let Some(at) = tx_sequence_at(bytes) {
        bytes[at..at + 8].copy_from_slice(&tx_sequence.to_be_bytes());
    } else {
        debug_assert!(false, "a copy without TxSequence was kept");
    }
}

/// Where the value of TxSequence stands.
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
