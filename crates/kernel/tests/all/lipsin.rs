//! The XDP program for publications against the element `lipsin_forwarder`: with given frames, and
//! with real ones between interfaces of a network namespace.

use crate::common::may_run;
use crate::common::net::{alone, give_mac, index_of, ip};
use aya::programs::{TestRun, TestRunOptions};
use nw_elements::lipsin_forwarder::{In, LipsinLink as ElementLink};
use nw_elements::{LipsinForwarder, LipsinForwarderConfig};
use nw_faces::EthernetSocket;
use nw_faces::interfaces::Interfaces;
use nw_faces::mac::Mac;
use nw_faces::xdp::rings::{Sizes, Xsk};
use nw_kernel::{LIPSIN_TABLES, LipsinLink, LipsinLinks, LipsinProgram, NO_LINK_ID, XdpMode};
use nw_packet_types::random::splitmix64;
use nw_pubsub::filter::{FILL_BITS_MAX, LinkScheme};
use nw_testkit::bench::{TestBench, face};
use nw_wire::publication::{
    ETHER_TYPE, Envelope, EnvelopeBuilder, EnvelopeKind, Fid, STAGES_TABLE, Stage, StagedFilter,
};
use std::collections::BTreeSet;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

const DROP: u32 = 1;
const PASS: u32 = 2;
const REDIRECT: u32 = 4;
const HEADER_LEN: usize = 14;
/// Pairs of interfaces; the last neighbour of the first interface and one over UDP are more links.
const PAIRS: usize = 6;
const LINKS: usize = PAIRS + 2;
const SECOND: usize = PAIRS;
const UDP: usize = PAIRS + 1;
const INTERNAL: u32 = 1;

struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = splitmix64(self.0);
        self.0 % end
    }
}

fn own_mac(pair: usize) -> [u8; 6] {
    [2, 0, 0, 0, 0, pair as u8]
}

fn station_mac(link: usize) -> [u8; 6] {
    [2, 0, 0, 0, 1, link as u8]
}

/// Returns the pair that a link is at. `None`: it is over UDP.
fn pair_of(link: usize) -> Option<usize> {
    match link {
        SECOND => Some(0),
        UDP => None,
        pair => Some(pair),
    }
}

fn number_of(link: usize) -> u32 {
    10 + link as u32
}

fn ids_of(number: u32) -> [Fid; LIPSIN_TABLES] {
    core::array::from_fn(|table| {
        LinkScheme::default().link_id(number, table as u8).unwrap_or(NO_LINK_ID)
    })
}

/// Makes the pairs of interfaces a0-b0 and so on, and returns the indexes of the a's.
fn make_pairs() -> Vec<u32> {
    for pair in 0..PAIRS {
        ip(&format!("link add a{pair} type veth peer name b{pair}"));
        give_mac(&format!("a{pair}"), own_mac(pair));
        give_mac(&format!("b{pair}"), station_mac(pair));
        ip(&format!("link set a{pair} up"));
        ip(&format!("link set b{pair} up"));
    }
    (0..PAIRS).map(|pair| index_of(&format!("a{pair}"))).collect()
}

fn program(interfaces: &[u32], mode: XdpMode) -> LipsinProgram {
    let mut program = LipsinProgram::load().expect("loaded");
    for (pair, interface) in interfaces.iter().enumerate() {
        let attached = program.attach((*interface, &format!("a{pair}")), Some(mode));
        assert_eq!(attached.expect("attached"), mode);
    }
    let link = |link: usize| LipsinLink {
        interface: pair_of(link).map_or(0, |pair| interfaces[pair]),
        own: pair_of(link).map_or([0; 6], own_mac),
        station: station_mac(link),
        outgoing: ids_of(number_of(link)),
    };
    let links = LipsinLinks {
        internal: ids_of(INTERNAL),
        links: (0..LINKS).map(link).collect(),
        fill_bits_max: FILL_BITS_MAX,
        last_hop: 0,
    };
    program.set_links(&links).expect("links");
    program
}

fn element() -> TestBench<LipsinForwarder> {
    let config =
        LipsinForwarderConfig { loop_memory: Duration::ZERO, ..LipsinForwarderConfig::default() };
    let mut forwarder = LipsinForwarder::new(config);
    forwarder.set_internal(Some(INTERNAL));
    let link = |link: usize| ElementLink {
        face: face(300 + link as u32),
        outgoing: number_of(link),
        incoming: None,
    };
    forwarder.set_links(&(0..LINKS).map(link).collect::<Vec<_>>());
    TestBench::new(forwarder)
}

/// Returns a publication with the identifiers of random links, and some random bits.
fn publication(random: &mut Random, payload: &[u8]) -> Vec<u8> {
    let table = match random.below(16) {
        0 => 9 + random.below(247) as u8,
        _ => random.below(9) as u8,
    };
    let id = |number| LinkScheme::default().link_id(number, table).unwrap_or_default();
    let mut fid = Fid::EMPTY;
    for link in 0..LINKS {
        if random.below(4) == 0 {
            fid = fid.union(id(number_of(link)));
        }
    }
    if random.below(4) == 0 {
        fid = fid.union(id(INTERNAL));
    }
    let bits = match random.below(16) {
        0 => 300 + random.below(600),
        1 => 4000,
        _ => random.below(20),
    };
    for _ in 0..bits {
        fid = fid.union(Fid::of_bit(random.below(256) as u8));
    }
    let hop_limit = random.below(4) as u8;
    let stages = stages(random);
    let staged = StagedFilter::check(&stages).ok().filter(|_| random.below(16) == 0);
    let builder =
        EnvelopeBuilder { table, fid, staged, hop_limit, payload, ..EnvelopeBuilder::default() };
    let mut bytes = Vec::new();
    builder.encode(&mut bytes).expect("a short packet");
    bytes
}

/// Returns an identifier of one to three stages with random bits.
fn stages(random: &mut Random) -> Vec<u8> {
    let count = 1 + random.below(3) as u8;
    let mut bytes = vec![count];
    for _ in 0..count {
        let len = 1 + random.below(60);
        let bits: Vec<u8> =
            (0..len).map(|_| [0xff, random.below(256) as u8][random.below(2) as usize]).collect();
        Stage { ones: 5, seed: 0, bits: &bits }.encode(&mut bytes).expect("in range");
    }
    bytes
}

fn frame(link: usize, packet: &[u8]) -> Vec<u8> {
    let to = own_mac(pair_of(link).unwrap_or(0));
    [&to[..], &station_mac(link), &ETHER_TYPE.to_be_bytes(), packet].concat()
}

/// What is expected of a frame: the action, the counter, and the frame that leaves.
#[derive(Debug, PartialEq)]
struct Outcome(u32, &'static str, Option<Vec<u8>>);

/// Returns what the element says about a packet that came by a link, as the program's outcome.
fn expected(
    bench: &mut TestBench<LipsinForwarder>,
    ingress: usize,
    frame: &[u8],
) -> Option<Outcome> {
    let packet = match nw_name::tlv::frame(&frame[HEADER_LEN..], 8800) {
        Ok(nw_name::tlv::Framing::Whole(len)) => &frame[HEADER_LEN..HEADER_LEN + len],
        _ => &frame[HEADER_LEN..],
    };
    if Envelope::forwarding_fields(packet).is_err() {
        return Some(Outcome(PASS, "malformed", None));
    }
    match Envelope::check(packet).map(|envelope| envelope.kind()) {
        Ok(EnvelopeKind::Publication) => {}
        Ok(EnvelopeKind::Control) => return Some(Outcome(PASS, "control", None)),
        Err(_) => return None,
    }
    let (table, fid) = Envelope::check(packet).map(|e| (e.table(), e.fid())).ok()?;
    if table == STAGES_TABLE {
        let name = if fid == Fid::BROADCAST { "local" } else { "stages" };
        return Some(Outcome(PASS, name, None));
    }
    let before = bench.drops.clone();
    let emitted =
        bench.process(In::Packet, packet, |meta| meta.ingress = face(300 + ingress as u32));
    let dropped = |cause| bench.drops.total(cause) > before.total(cause);
    use nw_element_api::DropCause::{FillLimit, NoLink, PublicationHopLimit};
    let is_local = emitted.iter().any(|packet| packet.port == "local");
    let links: Vec<usize> = (0..LINKS)
        .filter(|link| {
            emitted.iter().any(|p| p.port == "network" && p.egress == face(300 + *link as u32))
        })
        .collect();
    if dropped(PublicationHopLimit) {
        return Some(Outcome(if is_local { PASS } else { DROP }, "hop_limit", None));
    }
    if dropped(FillLimit) {
        return Some(Outcome(DROP, "fill_limit", None));
    }
    if dropped(NoLink) {
        return Some(Outcome(DROP, "no_link", None));
    }
    if links.is_empty() {
        return Some(Outcome(PASS, "local", None));
    }
    let pairs: Vec<Option<usize>> = links.iter().map(|link| pair_of(*link)).collect();
    let distinct: BTreeSet<_> = pairs.iter().collect();
    let by_ingress = links.len() > 1 && pairs.contains(&pair_of(ingress));
    if is_local || pairs.contains(&None) || distinct.len() < pairs.len() || by_ingress {
        return Some(Outcome(PASS, "local_and_links", None));
    }
    let mut left = frame.to_vec();
    let at = HEADER_LEN..HEADER_LEN + packet.len();
    left[at].copy_from_slice(&emitted[0].wire);
    if let [link] = links[..] {
        left[..6].copy_from_slice(&station_mac(link));
        left[6..12].copy_from_slice(&own_mac(pair_of(link).unwrap_or(0)));
        return Some(Outcome(REDIRECT, "forwarded", Some(left)));
    }
    Some(Outcome(REDIRECT, "multicast", Some(left)))
}

fn run(program: &mut LipsinProgram, frame: &[u8], interface: u32) -> (u32, Vec<u8>) {
    let context: Vec<u8> = [0, frame.len() as u32, 0, interface, 0, 0]
        .iter()
        .flat_map(|number: &u32| number.to_ne_bytes())
        .collect();
    let mut out = vec![0; 2048];
    let options = TestRunOptions {
        data_in: Some(frame),
        data_out: Some(&mut out),
        ctx_in: Some(&context),
        ..TestRunOptions::default()
    };
    let main = program.program("nw_lipsin").expect("loaded");
    let result = main.test_run(options).expect("a test run");
    out.truncate(result.data_size_out as usize);
    (result.return_value, out)
}

/// Runs a frame, and returns its outcome by the counter that changed.
fn outcome(program: &mut LipsinProgram, frame: &[u8], interface: u32) -> Outcome {
    let before = program.counters().expect("counters");
    let (action, out) = run(program, frame, interface);
    let after = program.counters().expect("counters");
    let changed: Vec<_> =
        after.iter().zip(before.iter()).filter(|(now, then)| now != then).collect();
    let [((name, now), (_, then))] = changed[..] else { panic!("{changed:?}") };
    assert_eq!(now, then + 1, "{name}");
    match action {
        REDIRECT => Outcome(action, name, Some(out)),
        _ => {
            assert!(action == DROP || out == frame, "{name}: a frame that passes is unchanged");
            Outcome(action, name, None)
        }
    }
}

#[test]
fn random_frames_are_treated_as_by_the_element() {
    if !may_run("lipsin, random frames") {
        return;
    }
    alone(|| {
        let interfaces = make_pairs();
        let mut program = program(&interfaces, XdpMode::Native);
        let (mut bench, mut random) = (element(), Random(38));
        let mut seen = BTreeSet::new();
        for number in 0..6000 {
            let payload = vec![7; random.below(1400) as usize];
            let packet = publication(&mut random, &payload);
            let ingress = random.below(PAIRS as u64 + 1) as usize;
            let mut frame = frame(ingress, &packet);
            match random.below(8) {
                0 => {
                    let value = [1, random.below(256) as u8][random.below(2) as usize];
                    frame[HEADER_LEN + random.below(12) as usize] = value;
                }
                1 => frame.truncate(HEADER_LEN + random.below(packet.len() as u64) as usize),
                2 => frame.extend(vec![0; random.below(60) as usize]),
                _ => {}
            }
            let Some(expected) = expected(&mut bench, ingress, &frame) else { continue };
            let interface = interfaces[pair_of(ingress).unwrap_or(0)];
            let got = outcome(&mut program, &frame, interface);
            assert_eq!(got, expected, "frame {number} by link {ingress}: {frame:02x?}");
            seen.insert(got.1);
        }
        // Everything happened but frames of strangers, and copies, which a test run has none of.
        assert_eq!(seen.len(), 10, "{seen:?}");
        let packet = publication(&mut random, b"x");
        for (what, frame, interface) in [
            ("an unknown station", frame(PAIRS + 9, &packet), interfaces[0]),
            ("another interface", frame(1, &packet), interfaces[2]),
            (
                "to another station",
                [&[2, 9, 9, 9, 9, 9], &frame(1, &packet)[6..]].concat(),
                interfaces[1],
            ),
        ] {
            let expected = Outcome(PASS, "unknown_sender", None);
            assert_eq!(outcome(&mut program, &frame, interface), expected, "{what}");
        }
        let mut other = frame(1, &packet);
        other[13] = 0x0b;
        assert_eq!(run(&mut program, &other, interfaces[1]), (PASS, other.clone()), "EtherType");
    });
}

fn sockets(interfaces: &Interfaces, side: char) -> Vec<EthernetSocket> {
    let open = |pair: usize| {
        let interface = interfaces.named(&format!("{side}{pair}")).expect("an interface");
        EthernetSocket::open(interface, Mac::NDN_GROUP, ETHER_TYPE, 4 << 20).expect("a socket")
    };
    (0..PAIRS).map(open).collect()
}

/// Notes a packet of a pair by the number in its payload's first bytes.
fn note(into: &mut BTreeSet<(usize, u32)>, pair: usize, bytes: &[u8]) {
    if let Ok(envelope) = Envelope::check(bytes)
        && let Some(number) = envelope.payload().first_chunk()
    {
        assert!(into.insert((pair, u32::from_be_bytes(*number))), "once");
    }
}

/// Receives what has come.
fn receive(sockets: &mut [EthernetSocket], into: &mut BTreeSet<(usize, u32)>) {
    for (pair, socket) in sockets.iter_mut().enumerate() {
        while let Ok(1..) = socket.receive(|_, bytes| note(into, pair, bytes)) {}
    }
}

/// Opens an AF_XDP socket on each near interface.
fn af_xdp_sockets(program: &mut LipsinProgram, interfaces: &[u32], mode: XdpMode) -> Vec<Xsk> {
    let sizes = Sizes { received: 512, sent: 64, frame: 2048, threads: 1 };
    let open = |(pair, interface): (usize, &u32)| {
        let copy = mode == XdpMode::Generic;
        let xsk = Xsk::open(*interface, 0, sizes, copy).expect("an AF_XDP socket").remove(0);
        program.set_socket((*interface, 0), own_mac(pair), xsk.as_fd()).expect("set");
        xsk
    };
    interfaces.iter().enumerate().map(open).collect()
}

fn receive_by_af_xdp(sockets: &mut [Xsk], into: &mut BTreeSet<(usize, u32)>) {
    for (pair, socket) in sockets.iter_mut().enumerate() {
        socket.receive(512, |bytes| {
            note(into, pair, &bytes[HEADER_LEN..]);
            true
        });
    }
}

/// Waits until a packet of a pair has come by what `receive` reads.
fn wait_for(expected: (usize, u32), mut receive: impl FnMut(&mut BTreeSet<(usize, u32)>)) {
    let (mut got, end) = (BTreeSet::new(), Instant::now() + Duration::from_secs(20));
    while got.is_empty() && Instant::now() < end {
        receive(&mut got);
        std::thread::sleep(Duration::from_millis(2));
    }
    assert_eq!(got, BTreeSet::from([expected]));
}

/// Sends random frames by all links. Those for the service reach packet sockets, or AF_XDP sockets.
fn frames_reach_links(mode: XdpMode, uses_af_xdp: bool) {
    let interfaces = make_pairs();
    let mut program = program(&interfaces, mode);
    let mut by_af_xdp = match uses_af_xdp {
        true => af_xdp_sockets(&mut program, &interfaces, mode),
        false => Vec::new(),
    };
    // A driver of pairs receives redirected frames only where it has a program itself.
    let mut far = LipsinProgram::load().expect("loaded");
    for pair in 0..PAIRS {
        let name = format!("b{pair}");
        far.attach((index_of(&name), &name), Some(mode)).expect("attached");
    }
    let table = Interfaces::watch().expect("interfaces");
    let (mut near, mut beyond) = (sockets(&table, 'a'), sockets(&table, 'b'));
    let (mut bench, mut random) = (element(), Random(39));
    let (mut expect_far, mut expect_near) = (BTreeSet::new(), BTreeSet::new());
    for number in 0..400_u32 {
        let payload = [&number.to_be_bytes()[..], &[7; 1000]].concat();
        let packet = publication(&mut random, &payload);
        let ingress = random.below(PAIRS as u64) as usize;
        let frame = frame(ingress, &packet);
        let Some(expected) = expected(&mut bench, ingress, &frame) else { continue };
        let emitted =
            bench.process(In::Packet, &packet, |meta| meta.ingress = face(300 + ingress as u32));
        match expected.0 {
            // The second neighbour of the first interface has no socket here.
            REDIRECT => expect_far.extend((0..PAIRS).filter_map(|pair| {
                let is_out = emitted.iter().any(|packet| packet.egress == face(300 + pair as u32));
                is_out.then_some((pair, number))
            })),
            PASS => drop(expect_near.insert((ingress, number))),
            _ => {}
        }
        assert_eq!(beyond[ingress].send([(Mac(own_mac(ingress)), &packet[..])]), 0);
    }
    let (mut got_far, mut got_near) = (BTreeSet::new(), BTreeSet::new());
    let mut got_by_af_xdp = BTreeSet::new();
    let end = Instant::now() + Duration::from_secs(20);
    while got_far.len() + got_near.len() + got_by_af_xdp.len()
        < expect_far.len() + expect_near.len()
        && Instant::now() < end
    {
        receive(&mut beyond, &mut got_far);
        receive(&mut near, &mut got_near);
        receive_by_af_xdp(&mut by_af_xdp, &mut got_by_af_xdp);
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(got_far, expect_far);
    let (used, other) = match uses_af_xdp {
        true => (got_by_af_xdp, got_near),
        false => (got_near, got_by_af_xdp),
    };
    assert_eq!((used, other), (expect_near, BTreeSet::new()));
    let counters = program.counters().expect("counters");
    assert!(counters.of("multicast") > 20 && counters.of("forwarded") > 20, "{counters:?}");
    assert!(counters.of("copies") >= 2 * counters.of("multicast"), "{counters:?}");
    if uses_af_xdp {
        sockets_follow_the_destination(&mut program, (by_af_xdp, &mut near[..]), &beyond);
    }
}

/// Frames to a group, and those to a closed socket, reach the packet socket; without links, all
/// frames to the interface's own address reach the AF_XDP socket.
fn sockets_follow_the_destination(
    program: &mut LipsinProgram,
    (mut by_af_xdp, near): (Vec<Xsk>, &mut [EthernetSocket]),
    beyond: &[EthernetSocket],
) {
    let send = |number: u32, to: Mac| {
        let (fid, payload) = (Fid::BROADCAST, &number.to_be_bytes()[..]);
        let builder = EnvelopeBuilder { fid, payload, ..EnvelopeBuilder::default() };
        let mut packet = Vec::new();
        builder.encode(&mut packet).expect("a short packet");
        assert_eq!(beyond[2].send([(to, &packet[..])]), 0);
    };
    send(1000, Mac::NDN_GROUP);
    wait_for((2, 1000), |got| receive(near, got));
    let (internal, links) = (ids_of(INTERNAL), Vec::new());
    let none = LipsinLinks { internal, links, fill_bits_max: FILL_BITS_MAX, last_hop: 0 };
    program.set_links(&none).expect("no links");
    send(1001, Mac(own_mac(2)));
    wait_for((2, 1001), |got| receive_by_af_xdp(&mut by_af_xdp, got));
    send(1002, Mac::NDN_GROUP);
    wait_for((2, 1002), |got| receive(near, got));
    let queue = (index_of("a2"), 0);
    program.clear_sockets(queue.0).expect("cleared");
    send(1003, Mac(own_mac(2)));
    wait_for((2, 1003), |got| receive(near, got));
    program.set_socket(queue, own_mac(2), by_af_xdp[2].as_fd()).expect("set again");
    send(1004, Mac(own_mac(2)));
    wait_for((2, 1004), |got| receive_by_af_xdp(&mut by_af_xdp, got));
    drop(by_af_xdp);
    // The kernel may end a closed socket a moment later: frames for it until then are lost.
    let (mut got, mut numbers) = (BTreeSet::new(), 1005..1405);
    while got.is_empty() {
        send(numbers.next().expect("a frame reaches the packet socket"), Mac(own_mac(2)));
        std::thread::sleep(Duration::from_millis(50));
        receive(near, &mut got);
    }
    assert!(program.set_socket(queue, own_mac(2), beyond[0].as_fd()).is_err(), "no AF_XDP socket");
}

#[test]
fn frames_reach_all_links_of_their_identifier_in_both_modes() {
    if !may_run("lipsin, frames between interfaces") {
        return;
    }
    alone(|| frames_reach_links(XdpMode::Native, false));
    alone(|| frames_reach_links(XdpMode::Generic, false));
}

#[test]
fn frames_for_the_service_reach_af_xdp_sockets_in_both_modes() {
    if !may_run("lipsin, AF_XDP sockets") {
        return;
    }
    alone(|| frames_reach_links(XdpMode::Native, true));
    alone(|| frames_reach_links(XdpMode::Generic, true));
}
