use super::*;
use nw_pubsub::filter::SINGLE_BIT_TABLE;
use nw_pubsub::stages::{StageLinks, build, positions};
use nw_testkit::bench::{TestBench, face, ports};
use nw_wire::publication::{EnvelopeBuilder, Stage, StagedFilter};
use proptest::prelude::*;

fn publication(table: u8, fid: Fid, hop_limit: u8) -> Vec<u8> {
    let mut wire = Vec::new();
    let builder = EnvelopeBuilder { table, fid, hop_limit, payload: b"x", ..Default::default() };
    builder.encode(&mut wire).expect("a short packet");
    wire
}

fn forwarder(links: u32) -> LipsinForwarder {
    let mut forwarder = LipsinForwarder::new(LipsinForwarderConfig::default());
    let link = |at: u32| LipsinLink {
        face: face(300 + at),
        outgoing: 10 + 2 * at,
        incoming: Some(11 + 2 * at),
    };
    forwarder.set_internal(Some(1));
    forwarder.set_links(&(0..links).map(link).collect::<Vec<_>>());
    forwarder
}

#[test]
fn copies_share_the_bytes_with_one_hop_less() {
    let mut bench = TestBench::new(forwarder(3));
    let fid: Fid = "1+10+14".parse().expect("bits");
    let wire = publication(SINGLE_BIT_TABLE, fid, 5);
    let emitted = bench.process(In::Packet, &wire, |meta| meta.ingress = face(999));
    assert_eq!(ports(&emitted), ["network", "network", "local"]);
    assert_eq!([emitted[0].egress, emitted[1].egress], [face(300), face(302)]);
    for emitted in emitted {
        let envelope = Envelope::check(&emitted.wire).expect("a publication");
        assert_eq!((envelope.hop_limit(), envelope.payload()), (4, &b"x"[..]));
    }
    assert_eq!(bench.pool.packets_in_use(), 0);
}

#[test]
fn removed_face_is_no_link_any_more() {
    let mut bench = TestBench::new(forwarder(2));
    bench.element.face_gone(Timestamp::START, face(300));
    let wire = publication(SINGLE_BIT_TABLE, "10+12".parse().expect("bits"), 5);
    let emitted = bench.process(In::Packet, &wire, |_| {});
    assert_eq!((emitted.len(), emitted[0].egress), (1, face(301)));
}

#[test]
fn no_buffer_forwards_the_packet_by_the_last_link() {
    let mut bench = TestBench::with_packets(forwarder(3), 1);
    let wire = publication(SINGLE_BIT_TABLE, "10+12+14".parse().expect("bits"), 5);
    let emitted = bench.process(In::Packet, &wire, |_| {});
    assert_eq!((emitted.len(), emitted[0].egress), (1, face(302)));
    assert_eq!(bench.drops.total(DropCause::NoBuffer), 2);
}

/// The time after which a path that really changed is accepted.
#[test]
fn loop_memory_ends_after_its_time() {
    let mut bench = TestBench::new(forwarder(3));
    // Out by 300 and 301, and back in by both.
    let wire = publication(SINGLE_BIT_TABLE, "10+11+12+13+14+15".parse().expect("bits"), 5);
    for (ms, from, leaves) in
        [(0, 300, true), (1, 301, false), (999, 300, true), (1500, 301, false), (2000, 301, true)]
    {
        bench.now = Timestamp::from_millis(ms);
        let emitted = bench.process(In::Packet, &wire, |meta| meta.ingress = face(from));
        assert_eq!(!emitted.is_empty(), leaves, "at {ms} ms from {from}");
    }
    assert_eq!(bench.drops.total(DropCause::PublicationLoop), 2);
}

proptest! {
    /// Against a naive form: one link after the other, bit by bit.
    #[test]
    fn links_are_those_whose_bits_are_all_set(
        words in any::<[u64; 4]>(), table in 0..10_u8, ingress in 299..310_u32, local in any::<bool>(),
    ) {
        let fid = Fid::from_words(words);
        let mut bench = TestBench::new(forwarder(8));
        bench.element.set_fill_bits_max(256);
        let wire = publication(table, fid, 5);
        let emitted = bench.process(In::Packet, &wire, |meta| {
            (meta.ingress, meta.ingress_local) = (face(ingress), local);
        });
        let scheme = LinkScheme::default();
        let has = |number: u32| scheme.link_id(number, table).is_some_and(|id| {
            (0..=255).all(|bit| !id.contains(&Fid::of_bit(bit)) || fid.contains(&Fid::of_bit(bit)))
        });
        let mut expected: Vec<FaceId> = (0..8)
            .filter(|at| has(10 + 2 * at) && 300 + at != ingress)
            .map(|at| face(300 + at))
            .collect();
        if !local && has(1) {
            expected.push(FaceId::NONE);
        }
        let egress: Vec<FaceId> = emitted.iter().map(|emitted| emitted.egress).collect();
        prop_assert_eq!(egress, expected);
    }
}

fn staged(stages: &[(u8, u8, Vec<u8>)], hop_limit: u8) -> Vec<u8> {
    let (mut filter, mut wire) = (vec![stages.len() as u8], Vec::new());
    for (ones, seed, bits) in stages {
        Stage { ones: *ones, seed: *seed, bits }.encode(&mut filter).expect("in range");
    }
    let staged = StagedFilter::check(&filter).ok();
    EnvelopeBuilder { staged, hop_limit, payload: b"x", ..Default::default() }
        .encode(&mut wire)
        .expect("a short packet");
    wire
}

#[test]
fn stage_of_the_hop_limit_lacks_removed_faces() {
    let mut bench = TestBench::new(forwarder(3));
    let stage = |numbers: &[u32]| {
        let keys = numbers.iter().map(|number| LinkScheme::default().stage_key(*number));
        StageLinks { tree: keys.collect(), others: vec![] }
    };
    let tree = build(&[stage(&[10, 14]), stage(&[1, 12])], 64).expect("short");
    let staged = StagedFilter::check(&tree.bytes).ok();
    let mut wire = Vec::new();
    EnvelopeBuilder { staged, hop_limit: 2, ..Default::default() }.encode(&mut wire).unwrap();
    let emitted = bench.process(In::Packet, &wire, |meta| meta.ingress = face(999));
    assert_eq!(emitted.iter().map(|one| one.egress).collect::<Vec<_>>(), [face(300), face(302)]);
    for emitted in &emitted {
        let envelope = Envelope::check(&emitted.wire).expect("a publication");
        assert_eq!((envelope.hop_limit(), envelope.staged()), (1, staged));
    }
    bench.element.face_gone(Timestamp::START, face(300));
    let emitted = bench.process(In::Packet, &wire, |meta| meta.ingress = face(999));
    assert_eq!((emitted.len(), emitted[0].egress), (1, face(302)));
    assert_eq!(bench.pool.packets_in_use(), 0);
}

proptest! {
    /// Against a naive form: all bits of each link, in the stage before the hop limit from the end.
    #[test]
    fn links_in_a_stage_are_those_whose_bits_are_all_set(
        stages in prop::collection::vec(
            (5..21_u8, 0..16_u8, prop::collection::vec(any::<u8>(), 1..6)), 1..5),
        hop_limit in 0..6_u8, ingress in 299..310_u32, local in any::<bool>(),
    ) {
        let mut bench = TestBench::new(forwarder(8));
        bench.element.set_fill_bits_max(256);
        let wire = staged(&stages, hop_limit);
        let emitted = bench.process(In::Packet, &wire, |meta| {
            (meta.ingress, meta.ingress_local) = (face(ingress), local);
        });
        let at = stages.len().checked_sub(usize::from(hop_limit));
        let stage = at.and_then(|at| stages.get(at));
        let has = |number: u32| stage.is_some_and(|(ones, seed, bits)| {
            let key = LinkScheme::default().stage_key(number);
            let set: Vec<bool> =
                bits.iter().flat_map(|byte| (0..8).map(move |bit| byte & 1 << bit != 0)).collect();
            positions(key, *seed, *ones, set.len() as u32).all(|at| set[at])
        });
        let is_last = hop_limit == 1;
        let mut expected: Vec<FaceId> = (0..8)
            .filter(|at| !is_last && has(10 + 2 * at) && 300 + at != ingress)
            .map(|at| face(300 + at))
            .collect();
        if !local && has(1) {
            expected.push(FaceId::NONE);
        }
        let egress: Vec<FaceId> = emitted.iter().map(|emitted| emitted.egress).collect();
        prop_assert_eq!(egress, expected);
    }
}
