use super::*;
use crate::config::{FaceOptions, ReassemblyLimits};
use crate::outbox::Outbox;
use nw_element_api::{Kind, SharedPool};
use nw_name::HashKey;
use nw_name::tlv::{push_integer, push_tlv};
use nw_wire::lp::{FRAG_COUNT_MAX, LpHeader};
use proptest::prelude::*;

/// An Interest for `/name` with a nonce.
fn interest(name: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    push_name(name, &mut body);
    push_tlv(types::NONCE, &[1, 2, 3, 4], &mut body);
    wrap(types::INTEREST, &body)
}

/// A Data `/name` with so many octets of content.
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
    lp(LpHeader { sequence: Some(sequence), fragment: Some((index, count)), ..LpHeader::default() }, payload)
}

/// A link service with all it is lent.
struct Bench {
    link: LinkService,
    pool: Pool,
    budget: ReassemblyBudget,
    face: FaceCounters,
    all: DropCounters,
    now: Instant,
}

impl Bench {
    fn new(mtu: Option<usize>, flags: FaceFlags) -> Self {
        let mut settings = LinkSettings::new(&FacesConfig::default(), mtu);
        settings.flags = flags;
        Bench {
            link: LinkService::new(settings, u64::MAX),
            pool: Pool::new(HashKey::new([1, 2, 3, 4]), 16, 1024),
            budget: ReassemblyBudget::new(ReassemblyLimits::default()),
            face: FaceCounters::default(),
            all: DropCounters::default(),
            now: Instant::from_millis(1000),
        }
    }

    /// Gives a link packet to the service; the network packet's bytes, kind and fields, if one comes out.
    fn receive(&mut self, link_packet: &[u8]) -> Option<(Vec<u8>, Kind, LinkFields)> {
        let packet = self.pool.copy_of(link_packet).expect("the pool has room");
        let source = Source { face: FaceId::from_slot(300, 0), local: true, congested: false, sender: 0 };
        let mut tally = Tally { face: &mut self.face, all: &mut self.all };
        let packet =
            self.link.receive(self.now, packet, source, &mut self.pool, &mut self.budget, &mut tally)?;
        let meta = self.pool.meta(&packet);
        assert_eq!((meta.ingress, meta.ingress_local, meta.arrival), (source.face, true, self.now));
        let out = (self.pool.bytes(&packet).to_vec(), meta.kind, meta.link);
        self.pool.release(packet);
        Some(out)
    }

    /// Sends a network packet; the link packets that come out.
    fn send(&mut self, bytes: &[u8], kind: Kind, link: LinkFields, queue_bytes: usize) -> Vec<Vec<u8>> {
        let packet = self.pool.copy_of(bytes).expect("the pool has room");
        let meta = self.pool.meta_mut(&packet);
        meta.kind = kind;
        meta.link = link;
        let mut outbox = Outbox::default();
        let mut tally = Tally { face: &mut self.face, all: &mut self.all };
        let queue = QueueState { bytes: queue_bytes as u64, bytes_max: 1 << 20 };
        self.link.send(self.now, packet, queue, &mut self.pool, &mut outbox, &mut tally);
        let out = outbox.items().iter().map(|item| outbox.parts(item, &self.pool).concat()).collect();
        outbox.clear(&mut self.pool);
        out
    }

    /// Gives up what is not whole in time.
    fn expire(&mut self, at_ms: u64) {
        let mut tally = Tally { face: &mut self.face, all: &mut self.all };
        self.link.expire(Instant::from_millis(at_ms), &mut self.budget, &mut tally);
    }

    fn dropped(&self, reason: impl Into<DropReason>) -> u64 {
        let reason = reason.into();
        assert_eq!(self.all.total(reason), self.face.dropped(reason));
        self.all.total(reason)
    }
}

#[test]
fn bare_when_nothing_is_to_be_said() {
    let mut bench = Bench::new(None, FaceFlags::default());
    for (bytes, kind) in [(interest(b"a"), Kind::Interest), (data(b"a", 8000), Kind::Data)] {
        assert_eq!(bench.send(&bytes, kind, LinkFields::default(), 0), std::slice::from_ref(&bytes));
        let (received, got, _) = bench.receive(&bytes).unwrap();
        assert_eq!((received, got), (bytes, kind));
    }
    assert_eq!(
        (bench.face.in_interests, bench.face.in_data, bench.face.out_interests, bench.face.out_data),
        (1, 1, 1, 1)
    );
    assert_eq!(bench.face.in_bytes, bench.face.out_bytes);
}

#[test]
fn fields_go_through() {
    let mut bench = Bench::new(None, FaceFlags::LOCAL_FIELDS);
    let link = LinkFields {
        token: Token::new(&[9; 32]).unwrap(),
        congestion_mark: 3,
        next_hop_face: FaceId::from_number(777),
        incoming_face: FaceId::from_slot(256, 0),
        non_discovery: true,
        ..LinkFields::default()
    };
    let sent = bench.send(&interest(b"a"), Kind::Interest, link, 0);
    assert_eq!(LpPacket::check(&sent[0]).unwrap().incoming_face_id, Some(256));
    let (bytes, kind, got) = bench.receive(&sent[0]).unwrap();
    assert_eq!((bytes, kind), (interest(b"a"), Kind::Interest));
    assert_eq!((got.token, got.congestion_mark, got.next_hop_face), (link.token, 3, link.next_hop_face));
    assert_eq!((got.non_discovery, got.incoming_face), (true, FaceId::NONE));

    let nack = LinkFields { nack: Some(NackReason::NoRoute), token: link.token, ..LinkFields::default() };
    let sent = bench.send(&interest(b"a"), Kind::Nack, nack, 0);
    let (_, kind, got) = bench.receive(&sent[0]).unwrap();
    assert_eq!((kind, got.nack, got.token), (Kind::Nack, Some(NackReason::NoRoute), link.token));

    let sent =
        bench.send(&data(b"a", 5), Kind::Data, LinkFields { no_cache: true, ..LinkFields::default() }, 0);
    assert!(bench.receive(&sent[0]).unwrap().2.no_cache);
}

#[test]
fn local_fields_only_where_enabled() {
    let mut bench = Bench::new(None, FaceFlags::default());
    let asked = lp(LpHeader { next_hop_face_id: Some(300), ..LpHeader::default() }, &interest(b"a"));
    assert!(bench.receive(&asked).is_none());
    assert_eq!(bench.dropped(Cause::LinkFieldRefused), 1);
    let told = lp(LpHeader { incoming_face_id: Some(300), ..LpHeader::default() }, &interest(b"a"));
    assert_eq!(bench.receive(&told).unwrap().2.incoming_face, FaceId::NONE);
    let link = LinkFields { incoming_face: FaceId::from_slot(256, 0), ..LinkFields::default() };
    assert_eq!(bench.send(&interest(b"a"), Kind::Interest, link, 0), [interest(b"a")]);

    let mut bench = Bench::new(None, FaceFlags::LOCAL_FIELDS);
    assert!(bench.receive(&asked).is_some());
    let nobody = lp(LpHeader { next_hop_face_id: Some(1 << 40), ..LpHeader::default() }, &interest(b"a"));
    assert!(bench.receive(&nobody).is_none());
    assert_eq!(bench.dropped(Cause::NextHopUnknown), 1);
}

#[test]
fn fields_in_the_wrong_place_end_the_packet() {
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
    let mut bench = Bench::new(None, FaceFlags::LOCAL_FIELDS);
    for (at, case) in cases.iter().enumerate() {
        assert!(bench.receive(case).is_none(), "case {at}");
        assert_eq!(bench.dropped(DropReason::Malformed(Fault::LinkField)), at as u64 + 1);
    }
    assert!(bench.receive(&lp(announcement, &data)).is_some());
    assert!(bench.receive(&lp(no_cache, &data)).is_some());
    assert_eq!(bench.pool.packets_in_use(), 0);
}

/// What comes with a Data goes on with it: whole, in pieces, and not at all where there is no room.
#[test]
fn prefix_announcements_come_and_go() {
    let (payload, announcement) = (data(b"a", 3000), data(b"pa", 500));
    let mut bench = Bench::new(Some(1400), FaceFlags::default());
    let came = LpHeader { prefix_announcement: Some(&announcement), ..LpHeader::default() };
    let (_, _, link) = bench.receive(&lp(came, &payload)).unwrap();
    assert_eq!(bench.pool.announcement(link.announcement), Some(&announcement[..]));
    let sent = bench.send(&payload, Kind::Data, link, 0);
    assert_eq!(sent.len(), 3);
    assert!(sent.iter().all(|link_packet| link_packet.len() <= 1400));
    let announced: Vec<_> =
        sent.iter().map(|octets| LpPacket::check(octets).unwrap().prefix_announcement.is_some()).collect();
    assert_eq!(announced, [true, false, false]);
    let received = sent.iter().filter_map(|link_packet| bench.receive(link_packet)).next().unwrap();
    assert_eq!((&received.0, received.1), (&payload, Kind::Data));
    assert_ne!(received.2.announcement, link.announcement, "another copy");
    assert_eq!(bench.pool.announcement(received.2.announcement), Some(&announcement[..]));
    // Not on an Interest, whatever its fields say.
    assert_eq!(bench.send(&interest(b"a"), Kind::Interest, link, 0), [interest(b"a")]);
    // Too long for the link, or to be kept at all: the Data goes without.
    let mut narrow = Bench::new(Some(600), FaceFlags::default());
    let (_, _, link) = narrow.receive(&lp(came, &data(b"a", 5))).unwrap();
    assert_eq!(narrow.send(&data(b"a", 5), Kind::Data, link, 0), [data(b"a", 5)]);
    let long = data(b"pa", nw_element_api::ANNOUNCEMENT_LEN_MAX);
    let came = LpHeader { prefix_announcement: Some(&long), ..LpHeader::default() };
    let (_, _, link) = narrow.receive(&lp(came, &data(b"a", 5))).unwrap();
    assert_eq!(link.announcement, Ticket::NONE);
    assert_eq!(narrow.all, DropCounters::default());
}

#[test]
fn idle_packets_and_noise() {
    let mut bench = Bench::new(Some(8800), FaceFlags::default());
    let mut idle = Vec::new();
    LpHeader { acks: &[1, 2], ..LpHeader::default() }.encode(0, &mut idle);
    assert!(bench.receive(&idle).is_none());
    assert_eq!(bench.all, DropCounters::default());
    for noise in [&[][..], &[0], &[5], &[0x64, 0xff, 0xff], b"GET / HTTP/1.1\r\n\r\n"] {
        assert!(bench.receive(noise).is_none());
    }
    assert_eq!(bench.all.iter().map(|(_, n)| n).sum::<u64>(), 5);
    assert_eq!((bench.face.in_packets, bench.pool.packets_in_use()), (6, 0));
}

#[test]
fn over_the_mtu_in_fragments_with_the_header_in_the_first() {
    let mut bench = Bench::new(Some(1400), FaceFlags::default());
    let link =
        LinkFields { token: Token::new(&[7; 6]).unwrap(), congestion_mark: 1, ..LinkFields::default() };
    let whole = data(b"a", 8000);
    let sent = bench.send(&whole, Kind::Data, link, 0);
    assert_eq!(sent.len(), 6);
    assert!(sent.iter().all(|link_packet| link_packet.len() <= 1400));
    let first = LpPacket::check(&sent[0]).unwrap();
    // The first Sequence is 2^64 - 1 here, so the packet's name goes round.
    assert_eq!((first.sequence, first.pit_token, first.frag_count), (Some(u64::MAX), link.token, 6));
    let second = LpPacket::check(&sent[1]).unwrap();
    assert_eq!((second.sequence, second.pit_token, second.frag_index), (Some(0), Token::NONE, 1));
    assert_eq!((bench.face.out_data, bench.face.out_packets), (1, 6));
    for part in &sent[1..] {
        assert!(bench.receive(part).is_none());
    }
    let (bytes, kind, got) = bench.receive(&sent[0]).unwrap();
    assert_eq!((bytes, kind, got.token, got.congestion_mark), (whole, Kind::Data, link.token, 1));
    assert_eq!((bench.budget.bytes(), bench.link.deadline()), (0, None));
}

#[test]
fn link_packets_fit_the_way_unless_an_mtu_was_said() {
    let mut bench = Bench::new(Some(8800), FaceFlags::default());
    let whole = data(b"a", 8000);
    let lens = |bench: &mut Bench| {
        let sent = bench.send(&whole, Kind::Data, LinkFields::default(), 0);
        (sent.len(), sent.iter().map(Vec::len).max().unwrap())
    };
    assert_eq!(lens(&mut bench), (1, whole.len()));
    bench.link.set_path_mtu(1472);
    assert_eq!((bench.link.mtu(), lens(&mut bench).0), (Some(1472), 6));
    assert!(lens(&mut bench).1 <= 1472);
    for (said, mtu, pieces) in [(8800, 8800, 1), (1200, 1200, 7), (usize::MAX, 1472, 6)] {
        let update = FaceOptions { mtu: Some(said), ..FaceOptions::default() };
        let settings = bench.link.settings().updated(&update, Scope::NonLocal).unwrap();
        bench.link.set(settings);
        assert_eq!((bench.link.mtu(), lens(&mut bench).0), (Some(mtu), pieces), "{said} was said");
    }
    bench.link.set_path_mtu(usize::MAX);
    assert_eq!((bench.link.mtu(), lens(&mut bench).0), (Some(8800), 1));
    let mut stream = Bench::new(None, FaceFlags::default());
    stream.link.set_path_mtu(1472);
    assert_eq!((stream.link.mtu(), lens(&mut stream).0), (None, 1));
}

#[test]
fn what_no_mtu_can_carry_is_dropped() {
    // 64 octets leave 38 of payload a fragment; a token of 32 octets leaves none in the first.
    let mut bench = Bench::new(Some(64), FaceFlags::default());
    assert_eq!(bench.send(&data(b"a", 8000), Kind::Data, LinkFields::default(), 0).len(), 212);
    let link = LinkFields { token: Token::new(&[7; 32]).unwrap(), ..LinkFields::default() };
    assert!(bench.send(&data(b"a", 800), Kind::Data, link, 0).is_empty());
    assert_eq!((bench.dropped(Cause::FaceMtu), bench.face.out_data_dropped, bench.face.out_data), (1, 1, 1));
}

#[test]
fn a_long_queue_is_marked() {
    let mut bench = Bench::new(None, FaceFlags::CONGESTION_MARKING);
    let mut marked = |ms, queue| {
        bench.now = Instant::from_millis(ms);
        let sent = bench.send(&data(b"a", 5), Kind::Data, LinkFields::default(), queue);
        LpPacket::check(&sent[0]).unwrap().congestion_mark
    };
    assert_eq!(
        [marked(0, 65_537), marked(99, 65_537), marked(101, 65_537), marked(102, 65_537)],
        [0, 0, 1, 0]
    );
    assert_eq!(marked(1000, 65_536), 0);
    assert_eq!(bench.face.out_marks, 1);
    let mut off = Bench::new(None, FaceFlags::default());
    off.send(&data(b"a", 5), Kind::Data, LinkFields::default(), 1 << 20);
    off.now = Instant::from_millis(5000);
    assert_eq!(off.send(&data(b"a", 5), Kind::Data, LinkFields::default(), 1 << 20), [data(b"a", 5)]);
}

#[test]
fn duplicates_and_contradictions() {
    let whole = data(b"a", 300);
    let (a, b) = whole.split_at(100);
    let mut bench = Bench::new(Some(8800), FaceFlags::default());
    assert!(bench.receive(&fragment(10, 0, 2, a)).is_none());
    assert!(bench.receive(&fragment(10, 0, 2, b)).is_none());
    assert_eq!(bench.dropped(Cause::DuplicateSequence), 1);
    assert!(bench.receive(&fragment(11, 1, 3, b)).is_none());
    assert_eq!(bench.dropped(Cause::ReassemblyConflict), 1);
    assert_eq!(bench.receive(&fragment(11, 1, 2, b)).unwrap().0, whole);
    // Too long together, though each piece is short.
    for index in 0..3 {
        assert!(bench.receive(&fragment(20 + index, index, 3, &vec![0; 4000])).is_none());
    }
    assert_eq!(bench.dropped(DropReason::Malformed(Fault::TooLong)), 3);
    assert_eq!(bench.budget.bytes(), 0);
}

#[test]
fn what_is_not_whole_in_time_is_given_up() {
    let mut bench = Bench::new(Some(8800), FaceFlags::default());
    assert!(bench.receive(&fragment(10, 0, 3, &[6; 50])).is_none());
    for (at_ms, fragments) in [(1399, 0), (1400, 0), (1499, 0), (1500, 1)] {
        bench.expire(at_ms);
        assert_eq!(bench.dropped(Cause::ReassemblyTimeout), fragments, "at {at_ms} ms");
    }
    assert_eq!((bench.budget.bytes(), bench.link.deadline()), (0, None));

    // Of several each has its own time.
    bench.now = Instant::from_millis(2000);
    assert!(bench.receive(&fragment(20, 0, 3, &[6; 50])).is_none());
    bench.now = Instant::from_millis(2300);
    assert!(bench.receive(&fragment(31, 1, 3, &[6; 50])).is_none());
    assert!(bench.receive(&fragment(90, 0, 3, &[6; 50])).is_none());
    for (at_ms, fragments, next_ms) in [(2399, 1, 2400), (2400, 1, 2500), (2500, 2, 2700), (2700, 2, 2800)] {
        bench.expire(at_ms);
        assert_eq!(bench.dropped(Cause::ReassemblyTimeout), fragments, "at {at_ms} ms");
        assert_eq!(bench.link.deadline(), Some(Instant::from_millis(next_ms)), "at {at_ms} ms");
    }
    bench.expire(2800);
    assert_eq!(
        (bench.dropped(Cause::ReassemblyTimeout), bench.budget.bytes(), bench.link.deadline()),
        (4, 0, None)
    );
}

#[test]
fn who_was_held_up_reads_what_waits_before_anything_is_given_up() {
    let mut bench = Bench::new(Some(8800), FaceFlags::default());
    let packet = data(b"a", 300);
    let (a, b) = packet.split_at(100);
    assert!(bench.receive(&fragment(10, 0, 2, a)).is_none());
    assert!(bench.receive(&fragment(20, 0, 2, a)).is_none());
    bench.expire(3000);
    bench.now = Instant::from_millis(3050);
    let (whole, ..) = bench.receive(&fragment(11, 1, 2, b)).expect("its time goes on when somebody looks");
    assert_eq!(whole, packet);
    bench.expire(3100);
    assert_eq!(
        (bench.dropped(Cause::ReassemblyTimeout), bench.budget.bytes()),
        (1, 0),
        "the other's is over"
    );
    // A piece that comes gives it all of its time again.
    assert!(bench.receive(&fragment(30, 0, 3, a)).is_none());
    bench.expire(9000);
    bench.now = Instant::from_millis(9050);
    assert!(bench.receive(&fragment(31, 1, 3, a)).is_none());
    assert_eq!(bench.link.deadline(), Some(Instant::from_millis(9450)));
}

#[test]
fn hostile_fragments_are_bounded() {
    let mut bench = Bench::new(Some(8800), FaceFlags::default());
    let limits = ReassemblyLimits::default();
    for packet in 0..20_000 {
        let count = if packet % 2 == 0 { FRAG_COUNT_MAX } else { 2 };
        assert!(bench.receive(&fragment(packet * 1000, 0, count, &vec![1; 4000])).is_none());
        assert!(bench.budget.bytes() <= limits.bytes_max);
        assert!(bench.link.reassembler.as_ref().unwrap().len() <= limits.packets_max);
    }
    assert!(bench.dropped(Cause::ReassemblyFull) > 9_000);
    for count in [FRAG_COUNT_MAX + 1, 1 << 60, u64::MAX] {
        assert!(bench.receive(&fragment(1, 0, count, &[1])).is_none());
    }
    assert_eq!(bench.dropped(DropReason::Malformed(Fault::FragmentIndex)), 3);
    let mut tally = Tally { face: &mut bench.face, all: &mut bench.all };
    bench.link.end(&mut bench.budget, &mut tally);
    assert_eq!((bench.budget.bytes(), bench.pool.packets_in_use()), (0, 0));
}

#[test]
fn faces_share_one_bound() {
    let limits = ReassemblyLimits { bytes_max_all: 20_000, ..ReassemblyLimits::default() };
    let (mut a, mut b) =
        (Bench::new(Some(8800), FaceFlags::default()), Bench::new(Some(8800), FaceFlags::default()));
    a.budget = ReassemblyBudget::new(limits);
    a.receive(&fragment(1, 0, 2, &[1; 8000]));
    core::mem::swap(&mut a.budget, &mut b.budget);
    assert!(b.receive(&fragment(1, 0, 2, &[1; 8000])).is_none());
    // Another's pieces aren't pushed out, but what is free beside them can be used.
    assert_eq!((a.dropped(Cause::ReassemblyFull), b.dropped(Cause::ReassemblyFull)), (0, 1));
    assert_eq!(b.all.shortages.count(SharedPool::Reassembly), 1);
    b.receive(&fragment(1, 0, 2, &[1; 4000]));
    assert_eq!(b.dropped(Cause::ReassemblyFull), 1);
    core::mem::swap(&mut a.budget, &mut b.budget);
    // The face with most has to give way when it goes on.
    a.receive(&fragment(5, 0, 2, &[1; 1000]));
    assert_eq!((a.dropped(Cause::ReassemblyFull), a.budget.bytes() < 7_000), (1, true));
}

#[test]
fn settings_that_cannot_be() {
    let config = FacesConfig::default();
    let (stream, datagram) = (LinkSettings::new(&config, None), LinkSettings::new(&config, Some(8800)));
    let flags = |flags| FaceOptions { flags, flags_mask: flags, ..FaceOptions::default() };
    let mtu = |mtu| FaceOptions { mtu: Some(mtu), ..FaceOptions::default() };
    assert!(matches!(
        stream.updated(&flags(FaceFlags::LOCAL_FIELDS), Scope::NonLocal),
        Err(FaceError::LocalFieldsNonLocal)
    ));
    assert!(stream.updated(&flags(FaceFlags::LOCAL_FIELDS), Scope::Local).is_ok());
    let reliable = datagram.updated(&flags(FaceFlags::RELIABILITY), Scope::NonLocal).unwrap();
    for shared in [LinkType::MultiAccess, LinkType::AdHoc] {
        assert!(matches!(reliable.fit(shared), Err(FaceError::ReliabilityShared)));
        assert!(datagram.fit(shared).is_ok());
    }
    assert!(reliable.fit(LinkType::PointToPoint).is_ok());
    assert!(LinkService::new(reliable, 1).is_reliable());
    assert!(matches!(stream.updated(&mtu(1400), Scope::Local), Err(FaceError::Mtu(1400))));
    let small = datagram.updated(&mtu(1400), Scope::NonLocal).unwrap();
    assert_eq!(small.updated(&mtu(usize::MAX), Scope::NonLocal).unwrap().mtu, Some(8800));
    for refused in [0, 63] {
        assert!(matches!(datagram.updated(&mtu(refused), Scope::NonLocal), Err(FaceError::Mtu(_))));
    }
    assert_eq!(datagram.updated(&mtu(1400), Scope::NonLocal).unwrap().mtu, Some(1400));
    let off = FaceOptions { flags_mask: FaceFlags::CONGESTION_MARKING, ..FaceOptions::default() };
    assert_eq!(stream.updated(&off, Scope::Local).unwrap().flags, FaceFlags::default());
}

/// A fragment from one of several senders of a group.
fn receive_from(bench: &mut Bench, sender: u64, link_packet: &[u8]) -> bool {
    let packet = bench.pool.copy_of(link_packet).expect("the pool has room");
    let source = Source { face: FaceId::from_slot(300, 0), local: false, congested: false, sender };
    let mut tally = Tally { face: &mut bench.face, all: &mut bench.all };
    let whole = bench.link.receive(bench.now, packet, source, &mut bench.pool, &mut bench.budget, &mut tally);
    whole.map(|packet| bench.pool.release(packet)).is_some()
}

#[test]
fn sender_with_most_gives_way_to_others_of_its_group() {
    let limits = ReassemblyLimits { bytes_max: 100_000, ..ReassemblyLimits::default() };
    let mut bench = Bench::new(Some(8800), FaceFlags::default());
    bench.budget = ReassemblyBudget::new(limits);
    let whole = data(b"a", 8000);
    let (a, b) = whole.split_at(4000);
    // The first half of a packet that is older than all of the other sender's.
    assert!(!receive_from(&mut bench, 7, &fragment(10, 0, 2, a)));
    for packet in 0..1000 {
        receive_from(&mut bench, 9, &fragment(packet * 10, 0, 2, &[1; 4000]));
    }
    assert!(receive_from(&mut bench, 7, &fragment(11, 1, 2, b)), "it was not pushed out");
    assert!(bench.dropped(Cause::ReassemblyFull) > 900 && bench.budget.bytes() <= 100_000);
    let mut tally = Tally { face: &mut bench.face, all: &mut bench.all };
    bench.link.end(&mut bench.budget, &mut tally);
    assert_eq!(bench.budget.bytes(), 0);
}

/// Packets of 8 kB in pieces, `in_flight` at a time, over a link of 265 Mbit/s that holds back every other piece for up to 20 ms.
#[test]
fn link_that_reorders_by_20_ms_loses_nothing() {
    let (mut sender, mut bench) =
        (Bench::new(Some(1472), FaceFlags::default()), Bench::new(Some(1472), FaceFlags::default()));
    let (in_flight, packets) = (256, 4000);
    let mut under_way = std::collections::BTreeMap::new();
    let (mut sent, mut whole, mut random, mut clock_us) = (0, 0, 1u64, 1_000_000u64);
    while whole < packets {
        while sent < packets && sent - whole < in_flight {
            let name = format!("{sent}");
            for piece in sender.send(&data(name.as_bytes(), 8000), Kind::Data, LinkFields::default(), 0) {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let held_us = if random >> 63 == 0 { 0 } else { (random >> 32) % 20_000 };
                clock_us += piece.len() as u64 * 8 / 265;
                under_way.insert((clock_us + held_us, random), piece);
            }
            sent += 1;
        }
        let Some(((at_us, _), piece)) = under_way.pop_first() else { break };
        bench.now = Instant::from_nanos(at_us * 1000);
        bench.expire(at_us / 1000);
        whole += usize::from(bench.receive(&piece).is_some());
    }
    assert_eq!((whole, bench.all.iter().map(|(_, count)| count).sum::<u64>()), (packets, 0));
    assert_eq!(bench.budget.bytes(), 0);
}

proptest! {
    #[test]
    fn fragments_in_any_order_with_copies(
        mtu in 64usize..1500,
        content_len in 0usize..8000,
        sequence in any::<u64>(),
        seed in any::<u64>(),
    ) {
        let mut bench = Bench::new(Some(mtu), FaceFlags::default());
        bench.link.sequence = sequence;
        let whole = data(b"some/name", content_len);
        let mut parts = bench.send(&whole, Kind::Data, LinkFields::default(), 0);
        let extra = parts.len() / 3;
        parts.extend_from_within(..extra);
        // A shuffle by a linear congruence.
        let mut state = seed;
        for at in (1..parts.len()).rev() {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            parts.swap(at, (state >> 33) as usize % (at + 1));
        }
        let mut wholes = Vec::new();
        for part in &parts {
            prop_assert!(part.len() <= mtu || parts.len() == 1);
            wholes.extend(bench.receive(part).map(|(bytes, _, _)| bytes));
        }
        prop_assert_eq!(&wholes[0], &whole);
        prop_assert_eq!(bench.pool.packets_in_use(), 0);
    }

    #[test]
    fn reliable_fragments_keep_to_the_mtu_with_acks_and_again(
        mtu in 64usize..1500,
        content_len in 0usize..8000,
        token_len in 0usize..10,
        acks in 0usize..40,
    ) {
        let mut bench = Bench::new(Some(mtu), FaceFlags::RELIABILITY);
        // Numbered link packets in, so that there is something to acknowledge.
        for at in 0..acks {
            let header = LpHeader { tx_sequence: Some(at as u64), ..LpHeader::default() };
            bench.receive(&lp(header, &interest(&at.to_be_bytes())));
        }
        let whole = data(b"some/name", content_len);
        let token = Token::new(&[7; 10][..token_len]).unwrap();
        let parts = bench.send(&whole, Kind::Data, LinkFields { token, ..LinkFields::default() }, 0);
        prop_assert!(!parts.is_empty());
        let mut numbers = Vec::new();
        let mut got = None;
        let mut other = Bench::new(Some(mtu), FaceFlags::RELIABILITY);
        for part in &parts {
            prop_assert!(part.len() <= mtu, "{} > {mtu}", part.len());
            let checked = LpPacket::check(part).unwrap();
            numbers.push((checked.sequence.unwrap(), checked.tx_sequence.unwrap()));
            got = got.or(other.receive(part));
        }
        let got = got.unwrap();
        prop_assert_eq!((&got.0, got.2.token), (&whole, token));
        // Nothing is acknowledged: all comes again, as it was but for TxSequence, and is known as copies.
        bench.now = Instant::from_millis(2000);
        other.now = bench.now;
        let mut outbox = Outbox::default();
        let mut tally = Tally { face: &mut bench.face, all: &mut bench.all };
        bench.link.pump(bench.now, usize::MAX, &mut outbox, &mut tally);
        let mut again = Vec::new();
        for item in outbox.items() {
            let part = outbox.head(item);
            prop_assert!(part.len() <= mtu);
            let checked = LpPacket::check(part).unwrap();
            if let Some(tx_sequence) = checked.tx_sequence {
                again.push((checked.sequence.unwrap(), tx_sequence));
                let before = other.dropped(Cause::DuplicateSequence);
                prop_assert!(other.receive(part).is_none());
                prop_assert!(other.dropped(Cause::DuplicateSequence) == before + 1 || parts.len() > 1);
            }
        }
        let count = numbers.len() as u64;
        let expected: Vec<_> = numbers.iter().map(|(sequence, tx)| (*sequence, tx.wrapping_add(count))).collect();
        prop_assert_eq!(again, expected);
        prop_assert_eq!(bench.pool.packets_in_use(), 0);
    }

    #[test]
    fn any_bytes_are_taken(bytes in proptest::collection::vec(any::<u8>(), 0..200), as_fragment in any::<bool>()) {
        let mut bench = Bench::new(Some(8800), FaceFlags::LOCAL_FIELDS);
        let bytes = if as_fragment {
            let mut body = Vec::new();
            push_tlv(types::LP_SEQUENCE, &[0; 8], &mut body);
            push_integer(types::LP_FRAG_INDEX, 0, &mut body);
            body.extend_from_slice(&bytes);
            wrap(types::LP_PACKET, &body)
        } else {
            bytes
        };
        bench.receive(&bytes);
        prop_assert_eq!(bench.pool.packets_in_use(), 0);
        prop_assert!(bench.face.in_packets == 1);
    }
}
