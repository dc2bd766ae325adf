//! Tests of the link service: fields, fragments, reassembly, reliability, settings.

use super::*;
use crate::config::{FaceOptions, LinkDefaults, ReassemblyLimits};
use crate::counters::FaceCounters;
use crate::error::LinkError;
use crate::outbox::Outbox;
use nw_element_api::{DropCounters, Kind, LinkFields, LinkType, Scope, SharedPool};
use nw_name::HashKey;
use nw_name::tlv::{push_integer, push_tlv};
use nw_packet_types::random::Random;
use nw_wire::lp::{FRAG_COUNT_MAX, LpHeader};
use nw_wire::publication::EnvelopeBuilder;
use nw_wire::{Fault, NackReason, Token};
use proptest::prelude::*;

/// Returns an Interest for `/name` with a nonce.
fn interest(name: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    push_name(name, &mut body);
    push_tlv(types::NONCE, &[1, 2, 3, 4], &mut body);
    wrap(types::INTEREST, &body)
}

/// Returns a Data `/name` with `content_len` bytes of content.
fn data(name: &[u8], content_len: usize) -> Vec<u8> {
    let mut body = Vec::new();
    push_name(name, &mut body);
    let content: Vec<u8> = (0..content_len).map(|at| at as u8).collect();
    push_tlv(types::CONTENT, &content, &mut body);
    push_tlv(types::SIGNATURE_INFO, &[types::SIGNATURE_TYPE as u8, 1, 0], &mut body);
    push_tlv(types::SIGNATURE_VALUE, &[0; 32], &mut body);
    wrap(types::DATA, &body)
}

fn push_name(name: &[u8], out: &mut Vec<u8>) {
    out.extend(wrap(types::NAME, &wrap(8, name)));
}

fn wrap(typ: u32, value: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    push_tlv(typ, value, &mut out);
    out
}

fn lp(header: LpHeader<'_>, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    header.encode(payload.len(), &mut out);
    out.extend_from_slice(payload);
    out
}

fn fragment(sequence: u64, index: u64, count: u64, payload: &[u8]) -> Vec<u8> {
    lp(
        LpHeader {
            sequence: Some(sequence),
            fragment: Some((index, count)),
            ..LpHeader::default()
        },
        payload,
    )
}

/// A link service with the pool, budget and counters that its calls take.
struct TestLink {
    link: LinkService,
    pool: Pool,
    budget: ReassemblyBudget,
    face: FaceCounters,
    all: DropCounters,
    now: Timestamp,
}

impl TestLink {
    fn new(mtu: Option<usize>, flags: FaceFlags) -> Self {
        let mut settings = LinkSettings::new(&LinkDefaults::default(), mtu);
        settings.flags = flags;
        TestLink {
            link: LinkService::new(settings, u64::MAX),
            pool: Pool::new(HashKey::new([1, 2, 3, 4]), 16, 1024),
            budget: ReassemblyBudget::new(ReassemblyLimits::default()),
            face: FaceCounters::default(),
            all: DropCounters::default(),
            now: Timestamp::from_millis(1000),
        }
    }

    /// Passes a link packet to the service. Returns the bytes, kind and fields of the network
    /// packet that comes out.
    fn receive(&mut self, link_packet: &[u8]) -> Option<(Vec<u8>, Kind, LinkFields)> {
        let packet = self.pool.copy_of(link_packet).expect("the pool has room");
        let source =
            Source { face: FaceId::from_slot(300, 0), local: true, congested: false, sender: 0 };
        let mut drops = DropRecorder { face: &mut self.face, total: &mut self.all };
        let packet = self.link.receive(
            self.now,
            packet,
            source,
            &mut self.pool,
            &mut self.budget,
            &mut drops,
        )?;
        let meta = self.pool.meta(&packet);
        assert_eq!((meta.ingress, meta.ingress_local, meta.arrival), (source.face, true, self.now));
        let out = (self.pool.bytes(&packet).to_vec(), meta.kind, meta.link);
        self.pool.release(packet);
        Some(out)
    }

    /// Sends a network packet. Returns the link packets.
    fn send(
        &mut self,
        bytes: &[u8],
        kind: Kind,
        link: LinkFields,
        queue_bytes: usize,
    ) -> Vec<Vec<u8>> {
        let packet = self.pool.copy_of(bytes).expect("the pool has room");
        let meta = self.pool.meta_mut(&packet);
        meta.kind = kind;
        meta.link = link;
        let mut outbox = Outbox::default();
        let mut drops = DropRecorder { face: &mut self.face, total: &mut self.all };
        let queue = QueueState { bytes: queue_bytes as u64, bytes_max: 1 << 20 };
        let refused =
            self.link.send(self.now, packet, queue, &mut self.pool, &mut outbox, &mut drops);
        refused.into_iter().for_each(|packet| self.pool.release(packet));
        let out =
            outbox.items().iter().map(|item| outbox.parts(item, &self.pool).concat()).collect();
        outbox.clear(&mut self.pool);
        out
    }

    /// Drops incomplete packets whose time is over.
    fn expire(&mut self, at_ms: u64) {
        let mut drops = DropRecorder { face: &mut self.face, total: &mut self.all };
        self.link.expire(Timestamp::from_millis(at_ms), &mut self.budget, &mut drops);
    }

    fn dropped(&self, reason: impl Into<DropReason>) -> u64 {
        let reason = reason.into();
        assert_eq!(self.all.total(reason), self.face.dropped(reason));
        self.all.total(reason)
    }
}

#[test]
fn packet_without_fields_has_no_link_header() {
    let mut test = TestLink::new(None, FaceFlags::default());
    for (bytes, kind) in [(interest(b"a"), Kind::Interest), (data(b"a", 8000), Kind::Data)] {
        assert_eq!(test.send(&bytes, kind, LinkFields::default(), 0), std::slice::from_ref(&bytes));
        let (received, got, _) = test.receive(&bytes).unwrap();
        assert_eq!((received, got), (bytes, kind));
    }
    assert_eq!(
        (test.face.in_interests, test.face.in_data, test.face.out_interests, test.face.out_data),
        (1, 1, 1, 1)
    );
    assert_eq!(test.face.in_bytes, test.face.out_bytes);
}

#[test]
fn link_fields_survive_sending_and_receiving() {
    let mut test = TestLink::new(None, FaceFlags::LOCAL_FIELDS);
    let link = LinkFields {
        token: Token::new(&[9; 32]).unwrap(),
        congestion_mark: 3,
        next_hop_face: FaceId::from_number(777),
        incoming_face: FaceId::from_slot(256, 0),
        non_discovery: true,
        ..LinkFields::default()
    };
    let sent = test.send(&interest(b"a"), Kind::Interest, link, 0);
    assert_eq!(LpPacket::check(&sent[0]).unwrap().incoming_face_id, Some(256));
    let (bytes, kind, got) = test.receive(&sent[0]).unwrap();
    assert_eq!((bytes, kind), (interest(b"a"), Kind::Interest));
    assert_eq!(
        (got.token, got.congestion_mark, got.next_hop_face),
        (link.token, 3, link.next_hop_face)
    );
    assert_eq!((got.non_discovery, got.incoming_face), (true, FaceId::NONE));

    let nack =
        LinkFields { nack: Some(NackReason::NoRoute), token: link.token, ..LinkFields::default() };
    let sent = test.send(&interest(b"a"), Kind::Nack, nack, 0);
    let (_, kind, got) = test.receive(&sent[0]).unwrap();
    assert_eq!((kind, got.nack, got.token), (Kind::Nack, Some(NackReason::NoRoute), link.token));

    let sent = test.send(
        &data(b"a", 5),
        Kind::Data,
        LinkFields { no_cache: true, ..LinkFields::default() },
        0,
    );
    assert!(test.receive(&sent[0]).unwrap().2.no_cache);
}

/// Returns a publication with `payload_len` bytes of payload.
fn publication(payload_len: usize) -> Vec<u8> {
    let (payload, mut out) = (vec![7; payload_len], Vec::new());
    let builder = EnvelopeBuilder { hop_limit: 9, payload: &payload, ..EnvelopeBuilder::default() };
    builder.encode(&mut out).expect("it fits a packet");
    out
}

#[test]
fn publication_passes_bare_and_in_fragments() {
    let mut test = TestLink::new(Some(1400), FaceFlags::default());
    for (payload_len, packets) in [(100, 1), (3000, 3)] {
        let sent = publication(payload_len);
        let link_packets = test.send(&sent, Kind::Publication, LinkFields::default(), 0);
        assert_eq!(link_packets.len(), packets);
        let received = link_packets.iter().filter_map(|packet| test.receive(packet)).last();
        let (bytes, kind, _) = received.expect("whole");
        assert_eq!((bytes, kind), (sent, Kind::Publication));
    }
    let bare = publication(10);
    assert_eq!(test.receive(&bare).map(|(_, kind, _)| kind), Some(Kind::Publication));
    let nacked = lp(LpHeader { nack: Some(NackReason::NoRoute), ..LpHeader::default() }, &bare);
    assert!(test.receive(&nacked).is_none(), "a Nack is an Interest");
}

#[test]
fn local_fields_disabled_are_refused_or_ignored() {
    let mut test = TestLink::new(None, FaceFlags::default());
    let with_next_hop =
        lp(LpHeader { next_hop_face_id: Some(300), ..LpHeader::default() }, &interest(b"a"));
    assert!(test.receive(&with_next_hop).is_none());
    assert_eq!(test.dropped(DropCause::LinkFieldRefused), 1);
    let with_incoming =
        lp(LpHeader { incoming_face_id: Some(300), ..LpHeader::default() }, &interest(b"a"));
    assert_eq!(test.receive(&with_incoming).unwrap().2.incoming_face, FaceId::NONE);
    let link = LinkFields { incoming_face: FaceId::from_slot(256, 0), ..LinkFields::default() };
    assert_eq!(test.send(&interest(b"a"), Kind::Interest, link, 0), [interest(b"a")]);

    let mut test = TestLink::new(None, FaceFlags::LOCAL_FIELDS);
    assert!(test.receive(&with_next_hop).is_some());
    let unknown_hop =
        lp(LpHeader { next_hop_face_id: Some(1 << 40), ..LpHeader::default() }, &interest(b"a"));
    assert!(test.receive(&unknown_hop).is_none());
    assert_eq!(test.dropped(DropCause::NextHopUnknown), 1);
}

#[test]
fn link_fields_on_wrong_kind_drop_the_packet() {
    let (interest, data) = (interest(b"a"), data(b"a", 5));
    let nack = LpHeader { nack: Some(NackReason::Duplicate), ..LpHeader::default() };
    let no_cache = LpHeader { no_cache: true, ..LpHeader::default() };
    let announcement = LpHeader { prefix_announcement: Some(&data), ..LpHeader::default() };
    let cases = [
        lp(nack, &data),
        lp(LpHeader { next_hop_face_id: Some(300), ..LpHeader::default() }, &data),
        lp(LpHeader { non_discovery: true, ..LpHeader::default() }, &data),
        lp(no_cache, &interest),
        lp(LpHeader { no_cache: true, ..nack }, &interest),
        lp(announcement, &interest),
    ];
    let mut test = TestLink::new(None, FaceFlags::LOCAL_FIELDS);
    for (at, case) in cases.iter().enumerate() {
        assert!(test.receive(case).is_none(), "case {at}");
        assert_eq!(test.dropped(DropReason::Malformed(Fault::LinkField)), at as u64 + 1);
    }
    assert!(test.receive(&lp(announcement, &data)).is_some());
    assert!(test.receive(&lp(no_cache, &data)).is_some());
    assert_eq!(test.pool.packets_in_use(), 0);
}

/// A received announcement is sent with the Data: unfragmented, in fragments, and not at all where
/// the MTU leaves no space.
#[test]
fn prefix_announcement_is_stored_and_sent_with_data() {
    let (payload, announcement) = (data(b"a", 3000), data(b"pa", 500));
    let mut test = TestLink::new(Some(1400), FaceFlags::default());
    let came = LpHeader { prefix_announcement: Some(&announcement), ..LpHeader::default() };
    let (_, _, link) = test.receive(&lp(came, &payload)).unwrap();
    assert_eq!(test.pool.announcement(link.announcement), Some(&announcement[..]));
    let sent = test.send(&payload, Kind::Data, link, 0);
    assert_eq!(sent.len(), 3);
    assert!(sent.iter().all(|link_packet| link_packet.len() <= 1400));
    let announced: Vec<_> = sent
        .iter()
        .map(|bytes| LpPacket::check(bytes).unwrap().prefix_announcement.is_some())
        .collect();
    assert_eq!(announced, [true, false, false]);
    let received = sent.iter().filter_map(|link_packet| test.receive(link_packet)).next().unwrap();
    assert_eq!((&received.0, received.1), (&payload, Kind::Data));
    assert_ne!(received.2.announcement, link.announcement, "another copy");
    assert_eq!(test.pool.announcement(received.2.announcement), Some(&announcement[..]));
    // Not on an Interest, even if its fields carry one.
    assert_eq!(test.send(&interest(b"a"), Kind::Interest, link, 0), [interest(b"a")]);
    // Too long for the link, or to be stored: the Data is sent without it.
    let mut narrow = TestLink::new(Some(600), FaceFlags::default());
    let (_, _, link) = narrow.receive(&lp(came, &data(b"a", 5))).unwrap();
    assert_eq!(narrow.send(&data(b"a", 5), Kind::Data, link, 0), [data(b"a", 5)]);
    let long = data(b"pa", nw_element_api::ANNOUNCEMENT_LEN_MAX);
    let came = LpHeader { prefix_announcement: Some(&long), ..LpHeader::default() };
    let (_, _, link) = narrow.receive(&lp(came, &data(b"a", 5))).unwrap();
    assert_eq!(link.announcement, AnnouncementRef::NONE);
    assert_eq!(narrow.all, DropCounters::default());
}

#[test]
fn idle_packets_release_and_noise_is_dropped() {
    let mut test = TestLink::new(Some(8800), FaceFlags::default());
    let mut idle = Vec::new();
    LpHeader { acks: &[1, 2], ..LpHeader::default() }.encode(0, &mut idle);
    assert!(test.receive(&idle).is_none());
    assert_eq!(test.all, DropCounters::default());
    for noise in [&[][..], &[0], &[5], &[0x64, 0xff, 0xff], b"GET / HTTP/1.1\r\n\r\n"] {
        assert!(test.receive(noise).is_none());
    }
    assert_eq!(test.all.iter().map(|(_, n)| n).sum::<u64>(), 5);
    assert_eq!((test.face.in_packets, test.pool.packets_in_use()), (6, 0));
}

#[test]
fn packet_over_mtu_is_fragmented_with_header_in_first() {
    let mut test = TestLink::new(Some(1400), FaceFlags::default());
    let link = LinkFields {
        token: Token::new(&[7; 6]).unwrap(),
        congestion_mark: 1,
        ..LinkFields::default()
    };
    let whole = data(b"a", 8000);
    let sent = test.send(&whole, Kind::Data, link, 0);
    assert_eq!(sent.len(), 6);
    assert!(sent.iter().all(|link_packet| link_packet.len() <= 1400));
    let first = LpPacket::check(&sent[0]).unwrap();
    // The first Sequence is 2^64 - 1 here, so the numbers wrap around.
    assert_eq!(
        (first.sequence, first.pit_token, first.frag_count),
        (Some(u64::MAX), link.token, 6)
    );
    let second = LpPacket::check(&sent[1]).unwrap();
    assert_eq!((second.sequence, second.pit_token, second.frag_index), (Some(0), Token::NONE, 1));
    assert_eq!((test.face.out_data, test.face.out_packets), (1, 6));
    for part in &sent[1..] {
        assert!(test.receive(part).is_none());
    }
    let (bytes, kind, got) = test.receive(&sent[0]).unwrap();
    // A local face: its mark is passed on as it is, and nothing is shaped.
    assert!(
        bytes == whole && (kind, got.token, got.congestion_mark) == (Kind::Data, link.token, 1)
    );
    assert!(test.budget.bytes() == 0 && test.link.deadline().is_none());
}

#[test]
fn path_mtu_limits_link_packets_unless_mtu_is_explicit() {
    let mut test = TestLink::new(Some(8800), FaceFlags::default());
    let whole = data(b"a", 8000);
    let lens = |test: &mut TestLink| {
        let sent = test.send(&whole, Kind::Data, LinkFields::default(), 0);
        (sent.len(), sent.iter().map(Vec::len).max().unwrap())
    };
    assert_eq!(lens(&mut test), (1, whole.len()));
    test.link.set_path_mtu(1472);
    assert_eq!((test.link.mtu(), lens(&mut test).0), (Some(1472), 6));
    assert!(lens(&mut test).1 <= 1472);
    for (explicit, mtu, pieces) in [(8800, 8800, 1), (1200, 1200, 7), (usize::MAX, 1472, 6)] {
        let update = FaceOptions { mtu: Some(explicit), ..FaceOptions::default() };
        let settings = test.link.settings().updated(&update, Scope::NonLocal).unwrap();
        test.link.apply_settings(settings);
        assert_eq!(
            (test.link.mtu(), lens(&mut test).0),
            (Some(mtu), pieces),
            "explicit MTU {explicit}"
        );
    }
    test.link.set_path_mtu(usize::MAX);
    assert_eq!((test.link.mtu(), lens(&mut test).0), (Some(8800), 1));
    let mut stream = TestLink::new(None, FaceFlags::default());
    stream.link.set_path_mtu(1472);
    assert_eq!((stream.link.mtu(), lens(&mut stream).0), (None, 1));
}

#[test]
fn packet_that_mtu_cannot_carry_is_dropped() {
    // 64 bytes leave 38 for the payload of a fragment; a token of 32 bytes leaves none in the
    // first.
    let mut test = TestLink::new(Some(64), FaceFlags::default());
    assert_eq!(test.send(&data(b"a", 8000), Kind::Data, LinkFields::default(), 0).len(), 212);
    let link = LinkFields { token: Token::new(&[7; 32]).unwrap(), ..LinkFields::default() };
    assert!(test.send(&data(b"a", 800), Kind::Data, link, 0).is_empty());
    assert_eq!(
        (test.dropped(DropCause::FaceMtu), test.face.out_data_dropped, test.face.out_data),
        (1, 1, 1)
    );
}

#[test]
fn long_queue_sets_congestion_marks() {
    let mut test = TestLink::new(None, FaceFlags::CONGESTION_MARKING);
    let mut marked = |ms, queue| {
        test.now = Timestamp::from_millis(ms);
        let sent = test.send(&data(b"a", 5), Kind::Data, LinkFields::default(), queue);
        LpPacket::check(&sent[0]).unwrap().congestion_mark
    };
    assert_eq!(
        [marked(0, 65_537), marked(99, 65_537), marked(101, 65_537), marked(102, 65_537)],
        [0, 0, 1, 0]
    );
    // Two packets are never a long queue.
    assert_eq!(marked(1000, 17_600), 0);
    assert_eq!(test.face.out_marks, 1);
    let mut off = TestLink::new(None, FaceFlags::default());
    off.send(&data(b"a", 5), Kind::Data, LinkFields::default(), 1 << 20);
    off.now = Timestamp::from_millis(5000);
    assert_eq!(
        off.send(&data(b"a", 5), Kind::Data, LinkFields::default(), 1 << 20),
        [data(b"a", 5)]
    );
}

#[test]
fn duplicate_and_conflicting_fragments_are_dropped() {
    let whole = data(b"a", 300);
    let (a, b) = whole.split_at(100);
    let mut test = TestLink::new(Some(8800), FaceFlags::default());
    assert!(test.receive(&fragment(10, 0, 2, a)).is_none());
    assert!(test.receive(&fragment(10, 0, 2, b)).is_none());
    assert_eq!(test.dropped(DropCause::DuplicateSequence), 1);
    assert!(test.receive(&fragment(11, 1, 3, b)).is_none());
    assert_eq!(test.dropped(DropCause::ReassemblyConflict), 1);
    assert_eq!(test.receive(&fragment(11, 1, 2, b)).unwrap().0, whole);
    // Too long together, though each fragment is short.
    for index in 0..3 {
        assert!(test.receive(&fragment(20 + index, index, 3, &vec![0; 4000])).is_none());
    }
    assert_eq!(test.dropped(DropReason::Malformed(Fault::TooLong)), 3);
    assert_eq!(test.budget.bytes(), 0);
}

#[test]
fn incomplete_packet_is_dropped_after_timeout() {
    let mut test = TestLink::new(Some(8800), FaceFlags::default());
    assert!(test.receive(&fragment(10, 0, 3, &[6; 50])).is_none());
    for (at_ms, fragments) in [(1399, 0), (1400, 0), (1499, 0), (1500, 1)] {
        test.expire(at_ms);
        assert_eq!(test.dropped(DropCause::ReassemblyTimeout), fragments, "at {at_ms} ms");
    }
    assert_eq!((test.budget.bytes(), test.link.deadline()), (0, None));

    // Each of several packets has its own deadline.
    test.now = Timestamp::from_millis(2000);
    assert!(test.receive(&fragment(20, 0, 3, &[6; 50])).is_none());
    test.now = Timestamp::from_millis(2300);
    assert!(test.receive(&fragment(31, 1, 3, &[6; 50])).is_none());
    assert!(test.receive(&fragment(90, 0, 3, &[6; 50])).is_none());
    for (at_ms, fragments, next_ms) in
        [(2399, 1, 2400), (2400, 1, 2500), (2500, 2, 2700), (2700, 2, 2800)]
    {
        test.expire(at_ms);
        assert_eq!(test.dropped(DropCause::ReassemblyTimeout), fragments, "at {at_ms} ms");
        assert_eq!(test.link.deadline(), Some(Timestamp::from_millis(next_ms)), "at {at_ms} ms");
    }
    test.expire(2800);
    assert_eq!(
        (test.dropped(DropCause::ReassemblyTimeout), test.budget.bytes(), test.link.deadline()),
        (4, 0, None)
    );
}

#[test]
fn grace_period_starts_at_expire_and_not_before() {
    let mut test = TestLink::new(Some(8800), FaceFlags::default());
    let packet = data(b"a", 300);
    let (a, b) = packet.split_at(100);
    assert!(test.receive(&fragment(10, 0, 2, a)).is_none());
    assert!(test.receive(&fragment(20, 0, 2, a)).is_none());
    test.expire(3000);
    test.now = Timestamp::from_millis(3050);
    let (whole, ..) =
        test.receive(&fragment(11, 1, 2, b)).expect("the grace period starts at expire");
    assert_eq!(whole, packet);
    test.expire(3100);
    assert_eq!(
        (test.dropped(DropCause::ReassemblyTimeout), test.budget.bytes()),
        (1, 0),
        "the other packet timed out"
    );
    // A new fragment restarts the whole timeout.
    assert!(test.receive(&fragment(30, 0, 3, a)).is_none());
    test.expire(9000);
    test.now = Timestamp::from_millis(9050);
    assert!(test.receive(&fragment(31, 1, 3, a)).is_none());
    assert_eq!(test.link.deadline(), Some(Timestamp::from_millis(9450)));
}

#[test]
fn hostile_fragments_stay_within_limits() {
    let mut test = TestLink::new(Some(8800), FaceFlags::default());
    let limits = ReassemblyLimits::default();
    for packet in 0..20_000 {
        let count = if packet % 2 == 0 { FRAG_COUNT_MAX } else { 2 };
        assert!(test.receive(&fragment(packet * 1000, 0, count, &vec![1; 4000])).is_none());
        assert!(test.budget.bytes() <= limits.bytes_max);
        assert!(test.link.reassembler.as_ref().unwrap().len() <= limits.packets_max);
    }
    assert!(test.dropped(DropCause::ReassemblyFull) > 9_000);
    for count in [FRAG_COUNT_MAX + 1, 1 << 60, u64::MAX] {
        assert!(test.receive(&fragment(1, 0, count, &[1])).is_none());
    }
    assert_eq!(test.dropped(DropReason::Malformed(Fault::FragmentIndex)), 3);
    let mut drops = DropRecorder { face: &mut test.face, total: &mut test.all };
    test.link.close(&mut test.budget, &mut drops);
    assert_eq!((test.budget.bytes(), test.pool.packets_in_use()), (0, 0));
}

#[test]
fn reassembly_budget_is_shared_by_faces() {
    let limits = ReassemblyLimits { bytes_max_all: 20_000, ..ReassemblyLimits::default() };
    let (mut a, mut b) = (
        TestLink::new(Some(8800), FaceFlags::default()),
        TestLink::new(Some(8800), FaceFlags::default()),
    );
    a.budget = ReassemblyBudget::new(limits);
    a.receive(&fragment(1, 0, 2, &[1; 8000]));
    core::mem::swap(&mut a.budget, &mut b.budget);
    assert!(b.receive(&fragment(1, 0, 2, &[1; 8000])).is_none());
    // Another face's fragments aren't evicted, but the free part can be used.
    assert_eq!(
        (a.dropped(DropCause::ReassemblyFull), b.dropped(DropCause::ReassemblyFull)),
        (0, 1)
    );
    assert_eq!(b.all.shortages.count(SharedPool::Reassembly), 1);
    b.receive(&fragment(1, 0, 2, &[1; 4000]));
    assert_eq!(b.dropped(DropCause::ReassemblyFull), 1);
    core::mem::swap(&mut a.budget, &mut b.budget);
    // The face with most is the first to evict.
    a.receive(&fragment(5, 0, 2, &[1; 1000]));
    assert_eq!((a.dropped(DropCause::ReassemblyFull), a.budget.bytes() < 7_000), (1, true));
}

#[test]
fn invalid_settings_are_refused() {
    let config = LinkDefaults::default();
    let (stream, datagram) =
        (LinkSettings::new(&config, None), LinkSettings::new(&config, Some(8800)));
    let flags = |flags| FaceOptions { flags, flags_mask: flags, ..FaceOptions::default() };
    let mtu = |mtu| FaceOptions { mtu: Some(mtu), ..FaceOptions::default() };
    assert!(matches!(
        stream.updated(&flags(FaceFlags::LOCAL_FIELDS), Scope::NonLocal),
        Err(LinkError::LocalFieldsNonLocal)
    ));
    assert!(stream.updated(&flags(FaceFlags::LOCAL_FIELDS), Scope::Local).is_ok());
    let reliable = datagram.updated(&flags(FaceFlags::RELIABILITY), Scope::NonLocal).unwrap();
    for shared in [LinkType::MultiAccess, LinkType::AdHoc] {
        assert!(matches!(reliable.check_link_type(shared), Err(LinkError::ReliabilityShared)));
        assert!(datagram.check_link_type(shared).is_ok());
    }
    assert!(reliable.check_link_type(LinkType::PointToPoint).is_ok());
    assert!(LinkService::new(reliable, 1).is_reliable());
    assert!(matches!(stream.updated(&mtu(1400), Scope::Local), Err(LinkError::Mtu(1400))));
    let small = datagram.updated(&mtu(1400), Scope::NonLocal).unwrap();
    assert_eq!(small.updated(&mtu(usize::MAX), Scope::NonLocal).unwrap().mtu, Some(8800));
    for refused in [0, 63] {
        assert!(matches!(datagram.updated(&mtu(refused), Scope::NonLocal), Err(LinkError::Mtu(_))));
    }
    assert_eq!(datagram.updated(&mtu(1400), Scope::NonLocal).unwrap().mtu, Some(1400));
    let off = FaceOptions { flags_mask: FaceFlags::CONGESTION_MARKING, ..FaceOptions::default() };
    assert_eq!(stream.updated(&off, Scope::Local).unwrap().flags, FaceFlags::default());
}

/// Receives a link packet from one of several senders of a group. Returns whether it completes a
/// packet.
fn receive_from(test: &mut TestLink, sender: u64, link_packet: &[u8]) -> bool {
    let packet = test.pool.copy_of(link_packet).expect("the pool has room");
    let source = Source { face: FaceId::from_slot(300, 0), local: false, congested: false, sender };
    let mut drops = DropRecorder { face: &mut test.face, total: &mut test.all };
    let whole =
        test.link.receive(test.now, packet, source, &mut test.pool, &mut test.budget, &mut drops);
    whole.map(|packet| test.pool.release(packet)).is_some()
}

#[test]
fn sender_with_most_fragments_is_evicted_first() {
    let limits = ReassemblyLimits { bytes_max: 100_000, ..ReassemblyLimits::default() };
    let mut test = TestLink::new(Some(8800), FaceFlags::default());
    test.budget = ReassemblyBudget::new(limits);
    let whole = data(b"a", 8000);
    let (a, b) = whole.split_at(4000);
    // The first half of a packet that is older than all of the other sender's.
    assert!(!receive_from(&mut test, 7, &fragment(10, 0, 2, a)));
    for packet in 0..1000 {
        receive_from(&mut test, 9, &fragment(packet * 10, 0, 2, &[1; 4000]));
    }
    assert!(receive_from(&mut test, 7, &fragment(11, 1, 2, b)), "it was not evicted");
    assert!(test.dropped(DropCause::ReassemblyFull) > 900 && test.budget.bytes() <= 100_000);
    let mut drops = DropRecorder { face: &mut test.face, total: &mut test.all };
    test.link.close(&mut test.budget, &mut drops);
    assert_eq!(test.budget.bytes(), 0);
}

/// Sends fragmented packets of 8 kB, `in_flight` at a time, over a link of 265 Mbit/s that delays
/// every other fragment by up to 20 ms.
#[test]
fn reordering_by_20_ms_loses_no_packet() {
    let (mut sender, mut test) = (
        TestLink::new(Some(1472), FaceFlags::default()),
        TestLink::new(Some(1472), FaceFlags::default()),
    );
    let (in_flight, packets) = (256, 4000);
    let mut under_way = std::collections::BTreeMap::new();
    let (mut sent, mut whole, mut random, mut clock_us) = (0, 0, 1u64, 1_000_000u64);
    while whole < packets {
        while sent < packets && sent - whole < in_flight {
            let name = format!("{sent}");
            for piece in
                sender.send(&data(name.as_bytes(), 8000), Kind::Data, LinkFields::default(), 0)
            {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let held_us = if random >> 63 == 0 { 0 } else { (random >> 32) % 20_000 };
                clock_us += piece.len() as u64 * 8 / 265;
                under_way.insert((clock_us + held_us, random), piece);
            }
            sent += 1;
        }
        let Some(((at_us, _), piece)) = under_way.pop_first() else { break };
        test.now = Timestamp::from_nanos(at_us * 1000);
        test.expire(at_us / 1000);
        whole += usize::from(test.receive(&piece).is_some());
    }
    assert_eq!((whole, test.all.iter().map(|(_, count)| count).sum::<u64>()), (packets, 0));
    assert_eq!(test.budget.bytes(), 0);
}

proptest! {
    #[test]
    fn fragments_in_any_order_with_duplicates_reassemble(
        mtu in 64usize..1500,
        content_len in 0usize..8000,
        sequence in any::<u64>(),
        seed in any::<u64>(),
    ) {
        let mut test = TestLink::new(Some(mtu), FaceFlags::default());
        test.link.sequence = sequence;
        let whole = data(b"some/name", content_len);
        let mut parts = test.send(&whole, Kind::Data, LinkFields::default(), 0);
        let extra = parts.len() / 3;
        parts.extend_from_within(..extra);
        let mut random = Random::new(seed);
        for at in (1..parts.len()).rev() {
            parts.swap(at, random.below(at as u64 + 1) as usize);
        }
        let mut wholes = Vec::new();
        for part in &parts {
            prop_assert!(part.len() <= mtu || parts.len() == 1);
            wholes.extend(test.receive(part).map(|(bytes, _, _)| bytes));
        }
        prop_assert_eq!(&wholes[0], &whole);
        prop_assert_eq!(test.pool.packets_in_use(), 0);
    }

    #[test]
    fn reliable_fragments_with_acks_stay_within_mtu(
        mtu in 64usize..1500,
        content_len in 0usize..8000,
        token_len in 0usize..10,
        acks in 0usize..40,
    ) {
        let mut test = TestLink::new(Some(mtu), FaceFlags::RELIABILITY);
        // Receives numbered link packets, so that there is something to acknowledge.
        for at in 0..acks {
            let header = LpHeader { tx_sequence: Some(at as u64), ..LpHeader::default() };
            test.receive(&lp(header, &interest(&at.to_be_bytes())));
        }
        let whole = data(b"some/name", content_len);
        let token = Token::new(&[7; 10][..token_len]).unwrap();
        let parts = test.send(&whole, Kind::Data, LinkFields { token, ..LinkFields::default() }, 0);
        prop_assert!(!parts.is_empty());
        let mut numbers = Vec::new();
        let mut got = None;
        let mut other = TestLink::new(Some(mtu), FaceFlags::RELIABILITY);
        for part in &parts {
            prop_assert!(part.len() <= mtu, "{} > {mtu}", part.len());
            let checked = LpPacket::check(part).unwrap();
            numbers.push((checked.sequence.unwrap(), checked.tx_sequence.unwrap()));
            got = got.or(other.receive(part));
        }
        let got = got.unwrap();
        prop_assert_eq!((&got.0, got.2.token), (&whole, token));
        // Nothing is acknowledged: all is retransmitted with new TxSequences, and received as
        // duplicates.
        test.now = Timestamp::from_millis(2000);
        other.now = test.now;
        let mut outbox = Outbox::default();
        let mut drops = DropRecorder { face: &mut test.face, total: &mut test.all };
        test.link.send_due(test.now, usize::MAX, &mut outbox, &mut drops);
        let mut again = Vec::new();
        for item in outbox.items() {
            let part = outbox.head(item);
            prop_assert!(part.len() <= mtu);
            let checked = LpPacket::check(part).unwrap();
            if let Some(tx_sequence) = checked.tx_sequence {
                again.push((checked.sequence.unwrap(), tx_sequence));
                let before = other.dropped(DropCause::DuplicateSequence);
                prop_assert!(other.receive(part).is_none());
                prop_assert!(other.dropped(DropCause::DuplicateSequence) == before + 1 || parts.len() > 1);
            }
        }
        let count = numbers.len() as u64;
        let expected: Vec<_> = numbers.iter().map(|(sequence, tx)| (*sequence, tx.wrapping_add(count))).collect();
        prop_assert_eq!(again, expected);
        prop_assert_eq!(test.pool.packets_in_use(), 0);
    }

    #[test]
    fn any_bytes_never_leak_a_packet(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        as_fragment in any::<bool>(),
    ) {
        let mut test = TestLink::new(Some(8800), FaceFlags::LOCAL_FIELDS);
        let bytes = if as_fragment {
            let mut body = Vec::new();
            push_tlv(types::LP_SEQUENCE, &[0; 8], &mut body);
            push_integer(types::LP_FRAG_INDEX, 0, &mut body);
            body.extend_from_slice(&bytes);
            wrap(types::LP_PACKET, &body)
        } else {
            bytes
        };
        test.receive(&bytes);
        prop_assert_eq!(test.pool.packets_in_use(), 0);
        prop_assert!(test.face.in_packets == 1);
    }
}
