//! Publications received from other nodes: fragments joined, gaps repaired, order kept.
//!
//! ```text
//! packet ─▶ Reassembler ─▶ GapDetector ─▶ held until all before it are received or lost ─▶ event
//!                               └─ gap ─▶ RepairRequest to the publisher's node, or lost
//! ```
//!
//! Where an item starts is requested first if it is not known, see `starts`.
//!
//! The detectors and the reassembler are those of `nw-pubsub`. Invariants: publications of an item
//! are passed on in order; each is passed on or counted as lost, never both; bounded in items, and
//! in bytes of incomplete and of held publications.

use super::NodeId;
use super::message::{END, LAST_VALUE, RANGES_MAX, REPAIRED, RepairRequest, START};
use super::starts::{Ended, LastNumber, StartRequest};
use nw_api::pubsub::ItemName;
use nw_pubsub::Timestamp;
use nw_pubsub::fragments::{Reassembler, ReassemblerLimits, Reassembly};
use nw_pubsub::sequences::{Arrival as Order, Gap, GapDetector, RepairPolicy};
use nw_wire::publication::{FragmentInfo, Label, StreamPosition};
use std::collections::{BTreeMap, BTreeSet};

/// Items followed at most.
const STREAMS_MAX: usize = 65_536;
/// Bytes of all held publications at most; above it their items lose what is missing.
const HELD_BYTES_MAX: usize = 64 << 20;
/// Missing publications of all items at most; above it their items lose what is missing.
const MISSING_MAX: usize = 262_144;
/// Milliseconds between two looks for incomplete publications that are too old.
const EXPIRY_MS: u64 = 100;
/// Gaps of an item that one step requests.
const GAPS_PER_STEP: usize = 4 * RANGES_MAX;
/// Numbers that one range of a request asks for, so that answers of several nodes interleave.
const NUMBERS_PER_RANGE: u64 = 256;
/// Numbers of a gap that may be incomplete; later ones are requested whole.
const INCOMPLETE_PER_GAP: u64 = 256;
/// Items whose start is requested at most. Others start with what is received of them first.
const UNSTARTED_MAX: usize = 4096;
/// Missing fragments that one request looks for.
const FRAGMENTS_PER_REQUEST: usize = 1024;

/// The node and the name of an item.
pub type StreamKey = (NodeId, ItemName);

/// A publication as it arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrived {
    /// Sequence number.
    pub sequence: u64,
    /// The bytes.
    pub payload: Vec<u8>,
    /// Flags of its packet.
    pub flags: u8,
}

/// What became known about an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Progress {
    /// A publication that is next in order. Numbers before it that were not passed on are lost.
    Publication(Arrived),
    /// Publications up to this number are lost.
    Missing(u64),
    /// The item has ended, and nothing is missing any more.
    End,
}

/// What a packet was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A publication, or a part of one.
    Accepted,
    /// A publication that had been missing.
    Repaired,
    /// Received or counted as lost before, or it can't be stored.
    Duplicate,
}

#[derive(Debug)]
struct Stream {
    /// Number for the reassembler.
    id: u64,
    gaps: GapDetector,
    held: BTreeMap<u64, Arrived>,
    /// Number of the last publication passed on or told as lost.
    told: u64,
    has_ended: bool,
    /// Missing publications when they were counted last.
    missing: usize,
    /// Requests for where it starts. Nothing is passed on until that is known.
    start_request: Option<StartRequest>,
    /// Whether no publication of it was passed on.
    is_silent: bool,
    /// The round of its numbers; 0: not known yet.
    round: u32,
    /// Number of the publication that is older than the subscription and is wanted all the same.
    last_value: Option<u64>,
}

/// All items followed.
#[derive(Debug)]
pub struct Streams {
    policy: RepairPolicy,
    streams: BTreeMap<StreamKey, Stream>,
    reassembler: Reassembler,
    held_bytes: usize,
    /// Items with missing publications.
    gapped: BTreeSet<StreamKey>,
    /// Items whose start is requested.
    unstarted: BTreeSet<StreamKey>,
    ended: Ended,
    /// Time of the last packet.
    now: Timestamp,
    /// Missing publications of all items.
    missing: usize,
    /// When requests are due at the earliest.
    due: Option<Timestamp>,
    /// When incomplete publications are looked at.
    expiry: Timestamp,
    next_id: u64,
    /// Results that were not taken yet.
    results: Vec<(StreamKey, Progress)>,
}

impl Streams {
    /// Creates streams without items.
    pub fn new(policy: RepairPolicy) -> Self {
        Streams {
            policy,
            streams: BTreeMap::new(),
            reassembler: Reassembler::new(ReassemblerLimits::default()),
            held_bytes: 0,
            gapped: BTreeSet::new(),
            unstarted: BTreeSet::new(),
            ended: Ended::default(),
            now: Timestamp::from_millis(0),
            missing: 0,
            due: None,
            expiry: Timestamp::from_millis(0),
            next_id: 0,
            results: Vec::new(),
        }
    }

    /// Takes what became known since the last call.
    pub fn take_results(&mut self) -> Vec<(StreamKey, Progress)> {
        core::mem::take(&mut self.results)
    }

    /// Returns when [`requests`](Self::requests) is to be called.
    pub const fn deadline(&self) -> Option<Timestamp> {
        self.due
    }

    /// Notes that a gap may have been found now.
    fn note_gap(&mut self, now: Timestamp) {
        let due = now.plus_millis(self.policy.delay_ms);
        self.due = Some(self.due.map_or(due, |earlier| earlier.min(due)));
    }

    /// Adds an item of which `before` is the number before those that were received. Where it
    /// starts is requested, if publications may be missing. Returns whether it is followed.
    fn follow_from(&mut self, key: &StreamKey, before: u64) -> bool {
        let is_new = !self.streams.contains_key(key);
        if !self.follow(key, before.saturating_add(1)) {
            return false;
        }
        if is_new
            && before > 0
            && self.unstarted.len() < UNSTARTED_MAX
            && let Some(stream) = self.streams.get_mut(key)
        {
            let due = self.now.plus_millis(self.policy.delay_ms);
            let earlier = self.ended.last(key, self.now);
            stream.start_request = Some(StartRequest::new(before, earlier, due));
            self.unstarted.insert(key.clone());
            self.note_gap(self.now);
        }
        true
    }

    /// Passes on what was held until the start of an item was known: after the number `last`, or
    /// with what was received of it first.
    fn set_start(&mut self, key: &StreamKey, last: Option<LastNumber>) {
        if !self.unstarted.remove(key) {
            return;
        }
        let Some(stream) = self.streams.get_mut(key) else { return };
        let Some(request) = stream.start_request.take() else { return };
        stream.told = last.map_or(request.before, |last| request.start(last));
        let (first, expected) = (stream.told.saturating_add(1), request.before.saturating_add(1));
        stream.gaps.start_earlier(first, expected, self.now);
        if stream.gaps.missing() > stream.missing {
            self.note_gap(self.now);
        }
        self.pass_on(key);
    }

    /// Adds an item whose first number is `next`. Returns whether it is followed.
    fn follow(&mut self, key: &StreamKey, next: u64) -> bool {
        if self.streams.contains_key(key) {
            return true;
        }
        if self.streams.len() >= STREAMS_MAX {
            return false;
        }
        self.next_id += 1;
        let stream = Stream {
            id: self.next_id,
            gaps: GapDetector::expecting(self.policy, next),
            held: BTreeMap::new(),
            told: next.saturating_sub(1),
            has_ended: false,
            missing: 0,
            start_request: None,
            is_silent: true,
            round: 0,
            last_value: None,
        };
        self.streams.insert(key.clone(), stream);
        true
    }

    /// Takes a packet of a publication. `is_repair`: it was sent again.
    pub fn receive(
        &mut self,
        key: &StreamKey,
        arrived: Arrived,
        fragment: Option<FragmentInfo>,
        is_repair: bool,
        now: Timestamp,
    ) -> Outcome {
        self.now = now;
        if is_repair && !self.streams.contains_key(key) {
            return Outcome::Duplicate;
        }
        if !is_repair && self.streams.get(key).is_some_and(|stream| stream.has_ended) {
            // A new publisher of the name: what is missing of the one before is lost.
            self.abandon(key);
        }
        let is_followed = match arrived.flags & LAST_VALUE {
            0 => self.follow_from(key, arrived.sequence.saturating_sub(1)),
            _ => self.follow(key, arrived.sequence),
        };
        if !is_followed {
            return Outcome::Duplicate;
        }
        let Some(stream) = self.streams.get_mut(key) else { return Outcome::Duplicate };
        let sequence = arrived.sequence;
        if !stream.gaps.is_open(sequence) {
            return Outcome::Duplicate;
        }
        let payload = match fragment {
            None => arrived.payload,
            Some(info) => {
                let position = StreamPosition { source: Label::from_number(stream.id), sequence };
                match self.reassembler.insert(position, info, &arrived.payload, now) {
                    Reassembly::Complete(payload) => payload,
                    Reassembly::Refused => return Outcome::Duplicate,
                    Reassembly::Incomplete => {
                        stream.gaps.restart_requests(sequence, now);
                        return Outcome::Accepted;
                    }
                }
            }
        };
        let outcome = match stream.gaps.receive(sequence, now) {
            Order::Duplicate => return Outcome::Duplicate,
            Order::Late => Outcome::Repaired,
            Order::InOrder | Order::Ahead(_) => Outcome::Accepted,
        };
        self.held_bytes += payload.len();
        stream.held.insert(sequence, Arrived { payload, ..arrived });
        if stream.gaps.missing() > stream.missing {
            self.note_gap(now);
        }
        match self.held_bytes > HELD_BYTES_MAX {
            true => self.abandon(key),
            false => self.pass_on(key),
        }
        outcome
    }

    /// Takes the number of an item's last publication, with the flags of its packet: where it
    /// starts for this node, or that no other one follows.
    pub fn receive_number(&mut self, key: &StreamKey, last: LastNumber, flags: u8, now: Timestamp) {
        self.now = now;
        let (round, has_ended) = (last.round, flags & END != 0);
        let known = self.streams.get(key).map(|stream| stream.round);
        let ended = self.ended.last(key, now);
        let known = known.or(ended.map(|last| last.round)).unwrap_or(0);
        if round != 0 && round < known {
            // Of a publisher that has ended.
            return;
        }
        if round > known && known != 0 && self.streams.contains_key(key) {
            // A new one, which the end of the one before has not overtaken.
            self.end(key);
        }
        let is_followed = match (flags & START, self.streams.contains_key(key)) {
            (0, false) => {
                let is_same = |known: &LastNumber| known.may_be_in(round);
                match ended.filter(is_same).filter(|known| known.number >= last.number) {
                    Some(_) if has_ended => false,
                    Some(_) => self.follow(key, last.number.saturating_add(1)),
                    None => self.follow_from(key, last.number),
                }
            }
            (0, true) => true,
            _ => self.start(key, last, flags),
        };
        let Some(stream) = self.streams.get_mut(key).filter(|_| is_followed) else { return };
        stream.round = stream.round.max(round);
        stream.gaps.announce(last.number, now);
        stream.has_ended |= has_ended;
        if stream.gaps.missing() > stream.missing {
            self.note_gap(now);
        }
        self.pass_on(key);
    }

    /// Starts an item after a number, or with it. Returns whether it is followed then.
    fn start(&mut self, key: &StreamKey, last: LastNumber, flags: u8) -> bool {
        let has_value = flags & LAST_VALUE != 0;
        let number = if has_value { last.number.saturating_sub(1) } else { last.number };
        if self.unstarted.contains(key) {
            // It may end with that.
            self.set_start(key, Some(LastNumber { number, ..last }));
        } else if flags & REPAIRED != 0 || !self.follow(key, number.saturating_add(1)) {
            // A late answer: the start is known, or not requested.
            return false;
        }
        match self.streams.get_mut(key) {
            Some(stream) if has_value => stream.last_value = Some(last.number),
            Some(_) => {}
            None => return false,
        }
        true
    }

    /// Follows an item that is kept elsewhere from `first` to `last`: what is missing of it is
    /// requested. One that was not followed ends with `last`.
    pub fn fetch(&mut self, key: &StreamKey, (first, last): (u64, u64), now: Timestamp) {
        self.now = now;
        let is_new = !self.streams.contains_key(key);
        if !self.follow(key, first) {
            return;
        }
        let Some(stream) = self.streams.get_mut(key) else { return };
        stream.gaps.announce(last, now);
        stream.has_ended |= is_new;
        self.note_gap(now);
        self.pass_on(key);
    }

    /// Gives up the numbers up to `last`, which the publisher's node does not have any more.
    pub fn give_up(&mut self, key: &StreamKey, last: u64) {
        if let Some(stream) = self.streams.get_mut(key) {
            stream.gaps.give_up(last);
            self.pass_on(key);
        }
    }

    /// Passes on all that is complete and in order.
    fn pass_on(&mut self, key: &StreamKey) {
        let Some(stream) = self.streams.get_mut(key) else { return };
        if self.missing - stream.missing + stream.gaps.missing() > MISSING_MAX {
            stream.gaps.give_up(u64::MAX);
        }
        self.missing = self.missing - stream.missing + stream.gaps.missing();
        stream.missing = stream.gaps.missing();
        if stream.missing > 0 {
            self.gapped.insert(key.clone());
        }
        if stream.start_request.is_some() {
            return;
        }
        let open = stream.gaps.first_open();
        while let Some(entry) = stream.held.first_entry()
            && *entry.key() < open
        {
            let mut arrived = entry.remove();
            self.held_bytes -= arrived.payload.len();
            stream.told = arrived.sequence;
            stream.is_silent = false;
            if stream.last_value == Some(arrived.sequence) {
                arrived.flags |= LAST_VALUE;
            }
            self.results.push((key.clone(), Progress::Publication(arrived)));
        }
        if stream.told.saturating_add(1) < open {
            stream.told = open - 1;
            self.results.push((key.clone(), Progress::Missing(stream.told)));
        }
        if stream.missing > 0 {
            return;
        }
        self.gapped.remove(key);
        if stream.has_ended {
            let last = LastNumber { number: stream.told, round: stream.round };
            self.ended.insert(key.clone(), last, self.now);
            self.streams.remove(key);
            self.results.push((key.clone(), Progress::End));
        }
    }

    /// Ends an item that is not received from its node any more: what is missing of it is lost.
    /// Returns whether it was followed.
    pub fn end(&mut self, key: &StreamKey) -> bool {
        let Some(stream) = self.streams.get_mut(key) else { return false };
        stream.has_ended = true;
        self.abandon(key);
        true
    }

    /// Ends an item, without what is missing of it.
    fn abandon(&mut self, key: &StreamKey) {
        self.set_start(key, None);
        if let Some(stream) = self.streams.get_mut(key) {
            stream.gaps.give_up(u64::MAX);
            self.pass_on(key);
        }
    }

    /// Adds the requests for starts that are due.
    fn request_starts(&mut self, now: Timestamp, requests: &mut Vec<(StreamKey, RepairRequest)>) {
        for key in self.unstarted.clone() {
            let stream = self.streams.get_mut(&key);
            let Some(request) = stream.and_then(|stream| stream.start_request.as_mut()) else {
                continue;
            };
            if request.due > now {
                continue;
            }
            match request.next(now) {
                true => requests.push((key, RepairRequest::Start(request.before))),
                false => self.set_start(&key, None),
            }
        }
    }

    /// Returns the requests that are due, and gives up what was requested too often.
    pub fn requests(&mut self, now: Timestamp) -> Vec<(StreamKey, RepairRequest)> {
        self.now = now;
        if self.expiry <= now {
            self.reassembler.expire(now);
            self.expiry = now.plus_millis(EXPIRY_MS);
        }
        let mut requests = Vec::new();
        if self.due.is_none_or(|due| due > now) {
            return requests;
        }
        self.request_starts(now, &mut requests);
        for key in self.gapped.clone() {
            let Some(stream) = self.streams.get_mut(&key) else { continue };
            if stream.gaps.deadline().is_none_or(|deadline| deadline > now) {
                continue;
            }
            let mut ranges = Vec::new();
            for _ in 0..GAPS_PER_STEP {
                let Some(gap) = stream.gaps.take_due(now) else { break };
                let looked_at = gap.last.min(gap.first.saturating_add(INCOMPLETE_PER_GAP - 1));
                for sequence in gap.first..=looked_at {
                    let source = Label::from_number(stream.id);
                    let position = StreamPosition { source, sequence };
                    let missing = self.reassembler.missing(position, FRAGMENTS_PER_REQUEST);
                    if let Some(indexes) = missing {
                        let request = RepairRequest::Fragments(sequence, joined(&indexes));
                        requests.push((key.clone(), request));
                    } else {
                        add_number(&mut ranges, sequence);
                    }
                }
                divide(Gap { first: looked_at + 1, last: gap.last }, &mut ranges);
            }
            for part in ranges.chunks(RANGES_MAX) {
                requests.push((key.clone(), RepairRequest::Numbers(part.to_vec())));
            }
            self.pass_on(&key);
        }
        let gapped = self.gapped.iter().filter_map(|key| self.streams.get(key));
        let gaps = gapped.filter_map(|stream| stream.gaps.deadline());
        let unstarted = self.unstarted.iter().filter_map(|key| self.streams.get(key));
        let starts = unstarted.filter_map(|stream| stream.start_request.map(|found| found.due));
        self.due = gaps.chain(starts).min();
        requests
    }

    /// Returns the items of which no publication was passed on.
    pub fn silent(&self) -> Vec<StreamKey> {
        let silent = self.streams.iter().filter(|(_, stream)| stream.is_silent);
        silent.map(|(key, _)| key.clone()).collect()
    }

    /// Forgets all items of a node.
    pub fn remove_node(&mut self, node: NodeId) {
        let keys = self.streams.keys().filter(|(found, _)| *found == node);
        for (_, name) in keys.cloned().collect::<Vec<_>>() {
            self.remove(node, &name);
        }
    }

    /// Forgets an item.
    pub fn remove(&mut self, node: NodeId, name: &ItemName) {
        let key = (node, name.clone());
        if let Some(stream) = self.streams.remove(&key) {
            self.held_bytes -= stream.held.values().map(|held| held.payload.len()).sum::<usize>();
            self.missing -= stream.missing;
            let last = LastNumber { number: stream.told, round: stream.round };
            self.ended.insert(key.clone(), last, self.now);
        }
        self.gapped.remove(&key);
        self.unstarted.remove(&key);
    }
}

/// Adds a number to the last range, or as a range of its own.
fn add_number(ranges: &mut Vec<(u64, u64)>, sequence: u64) {
    match ranges.last_mut() {
        Some((_, last)) if *last + 1 == sequence => *last = sequence,
        _ => ranges.push((sequence, sequence)),
    }
}

/// Adds the numbers of a gap, if any, as ranges of limited length.
fn divide(gap: Gap, ranges: &mut Vec<(u64, u64)>) {
    let mut first = gap.first;
    while first <= gap.last {
        let last = gap.last.min(first.saturating_add(NUMBERS_PER_RANGE - 1));
        ranges.push((first, last));
        first = last + 1;
    }
}

/// Returns ascending indexes as at most [`RANGES_MAX`] ranges.
fn joined(indexes: &[u32]) -> Vec<(u32, u32)> {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for index in indexes {
        let is_full = ranges.len() == RANGES_MAX;
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *index => *last = *index,
            _ if is_full => break,
            _ => ranges.push((*index, *index)),
        }
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: RepairPolicy =
        RepairPolicy { delay_ms: 2, interval_ms: 10, requests_max: 2, missing_max: 1000 };

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_millis(ms)
    }

    fn key() -> StreamKey {
        (NodeId(1), "/a".parse().unwrap())
    }

    fn up_to(number: u64) -> LastNumber {
        LastNumber { number, round: 0 }
    }

    fn arrived(sequence: u64) -> Arrived {
        Arrived { sequence, payload: vec![sequence as u8; 2], flags: 0 }
    }

    fn info(index: u32) -> Option<FragmentInfo> {
        Some(FragmentInfo { index, count: 3, total_len: 6 })
    }

    fn results(streams: &mut Streams) -> Vec<Progress> {
        streams.take_results().into_iter().map(|(_, progress)| progress).collect()
    }

    #[test]
    fn gap_is_requested_and_order_is_kept() {
        let mut streams = Streams::new(POLICY);
        let receive =
            |streams: &mut Streams, n| streams.receive(&key(), arrived(n), None, false, at(0));
        streams.receive_number(&key(), up_to(4), START, at(0));
        assert_eq!(receive(&mut streams, 5), Outcome::Accepted);
        assert_eq!(receive(&mut streams, 8), Outcome::Accepted);
        assert_eq!(results(&mut streams), [Progress::Publication(arrived(5))]);
        let due = streams.requests(at(2));
        assert_eq!(due, [(key(), RepairRequest::Numbers(vec![(6, 7)]))]);
        assert_eq!(receive(&mut streams, 7), Outcome::Repaired);
        assert_eq!(results(&mut streams), []);
        streams.give_up(&key(), 6);
        let expected = [7, 8].map(|n| Progress::Publication(arrived(n)));
        assert_eq!(results(&mut streams), expected, "6 is lost");
        assert_eq!(receive(&mut streams, 6), Outcome::Duplicate);
        streams.requests(at(20));
        assert_eq!((streams.held_bytes, streams.missing, streams.deadline()), (0, 0, None));
    }

    #[test]
    fn missing_fragments_are_requested_alone() {
        let mut streams = Streams::new(POLICY);
        streams.receive_number(&key(), up_to(0), 0, at(0));
        for index in [0, 0] {
            streams.receive(&key(), arrived(1), info(index), false, at(0));
        }
        assert!(streams.requests(at(50)).is_empty(), "its other fragments may follow");
        streams.receive_number(&key(), up_to(1), 0, at(50));
        let due = streams.requests(at(52));
        assert_eq!(due, [(key(), RepairRequest::Fragments(1, vec![(1, 2)]))]);
        for index in [2, 1] {
            streams.receive(&key(), arrived(1), info(index), true, at(53));
        }
        let whole = Arrived { payload: vec![1; 6], ..arrived(1) };
        assert_eq!(results(&mut streams), [Progress::Publication(whole)]);
    }

    #[test]
    fn end_waits_for_what_is_missing_and_a_new_publisher_does_not() {
        let mut streams = Streams::new(POLICY);
        streams.receive(&key(), arrived(1), None, false, at(0));
        streams.receive_number(&key(), up_to(2), END, at(0));
        assert_eq!(results(&mut streams), [Progress::Publication(arrived(1))]);
        for now in [2, 12, 22] {
            streams.requests(at(now));
        }
        assert_eq!(results(&mut streams), [Progress::Missing(2), Progress::End]);
        streams.receive_number(&key(), up_to(2), END, at(30));
        assert_eq!(results(&mut streams), [], "an item that is not known does not end");
        streams.receive(&key(), arrived(4), None, false, at(40));
        streams.receive_number(&key(), up_to(9), END, at(40));
        streams.receive(&key(), arrived(1), None, false, at(41));
        let expected = [
            Progress::Publication(arrived(4)),
            Progress::Missing(9),
            Progress::End,
            Progress::Publication(arrived(1)),
        ];
        assert_eq!(results(&mut streams), expected);
        streams.remove(NodeId(1), &key().1);
        assert!(streams.streams.is_empty() && streams.gapped.is_empty());
    }

    #[test]
    fn missing_and_held_publications_of_all_items_are_bounded() {
        let mut streams = Streams::new(RepairPolicy::default());
        for number in 0..200 {
            let key = (NodeId(1), format!("/a/{number}").parse().unwrap());
            streams.receive(&key, arrived(1), None, false, at(0));
            streams.receive_number(&key, up_to(u64::MAX / 2), 0, at(0));
            assert!(streams.missing <= MISSING_MAX);
            let sum: usize = streams.streams.values().map(|stream| stream.gaps.missing()).sum();
            assert_eq!(streams.missing, sum);
        }
        for number in 2..70 {
            let payload = vec![0; 1 << 20];
            let large = Arrived { payload, ..arrived(u64::MAX / 2 - 2 * number) };
            streams.receive(&(NodeId(1), "/a/0".parse().unwrap()), large, None, true, at(1));
            assert!(streams.held_bytes <= HELD_BYTES_MAX + (1 << 20));
        }
        streams.take_results();
        for now in 1..10 {
            streams.requests(at(now * 100));
        }
        assert_eq!((streams.missing, streams.held_bytes, streams.gapped.len()), (0, 0, 0));
    }

    #[test]
    fn highest_numbers_do_not_overflow() {
        let mut streams = Streams::new(POLICY);
        streams.receive_number(&key(), up_to(u64::MAX - 4), START, at(0));
        streams.receive(&key(), arrived(u64::MAX - 3), None, false, at(0));
        streams.receive(&key(), arrived(u64::MAX), None, false, at(0));
        streams.receive_number(&key(), up_to(u64::MAX), 0, at(0));
        let numbers = RepairRequest::Numbers(vec![(u64::MAX - 2, u64::MAX - 1)]);
        assert_eq!(streams.requests(at(2)), [(key(), numbers)]);
        streams.give_up(&key(), u64::MAX);
        assert_eq!(results(&mut streams).len(), 2, "one publication, and those lost after it");
        // Of an item whose start is not known: with an answer, and without.
        for (node, answer) in [(2, None), (3, Some(u64::MAX)), (4, Some(u64::MAX - 3))] {
            let key = (NodeId(node), key().1);
            streams.receive_number(&key, up_to(u64::MAX), END, at(3));
            if let Some(last) = answer {
                streams.receive_number(&key, up_to(last), START | REPAIRED, at(4));
            }
            (0..20).for_each(|step| drop(streams.requests(at(10 + 50 * step))));
            assert!(!streams.streams.contains_key(&key), "it has ended");
        }
    }

    #[test]
    fn long_gap_is_requested_in_ranges() {
        let mut streams = Streams::new(POLICY);
        streams.receive(&key(), arrived(1), None, false, at(0));
        streams.receive_number(&key(), up_to(601), 0, at(0));
        let due = streams.requests(at(2));
        let expected = vec![(2, 257), (258, 513), (514, 601)];
        assert_eq!(due, [(key(), RepairRequest::Numbers(expected))]);
    }
}
