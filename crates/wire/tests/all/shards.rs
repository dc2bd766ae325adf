//! The choice of shards: golden vectors that the kernel program is held to as well, and that it
//! agrees with decoding.
//!
//! `NW_WRITE_VECTORS=1 cargo test -p nw-wire --test all shards` regenerates the vectors after the
//! rules changed on purpose.

use nw_name::tlv::push_tlv;
use nw_name::{Component, ComponentType, HashKey, Name, PrefixHashes};
use nw_packet_types::random::Random;
use nw_wire::forwarding::{DataFields, InterestFields, PaddedPacket};
use nw_wire::lp::{LpHeader, LpPacket, NackReason, Token};
use nw_wire::shard::{COMPONENTS_MAX, NAME_BYTES_MAX, Reason, fragments_hash, shard_of_packet};
use nw_wire::types as t;
use proptest::prelude::*;
use std::fmt::Write;
use std::path::PathBuf;

const KEYS: [[u64; 4]; 3] = [
    [0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210, 0, 0],
    [0xffff_ffff_ffff_ffff, 0xffff_ffff_ffff_ffff, 0, 0],
    [0x9e37_79b9_7f4a_7c15, 0x0000_0001_0000_0000, 0, 0],
];
const SHARDS: [u8; 6] = [1, 2, 3, 8, 61, 64];

const SAMPLE_NAME: &str = "/ndn/edu/video/episode-1/v=7/seg=42";

/// The same numbers on every machine, as vectors must be.
struct Dice(Random);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }

    fn component(&mut self) -> (u16, Vec<u8>) {
        let len = match self.below(40) {
            0..=29 => self.below(18),
            30..=37 => self.below(64),
            38 => [14, 15, 16, 30, 31, 252, 253, 254][self.below(8)],
            _ => self.below(301),
        };
        match self.below(24) {
            0 => (1, self.bytes(32)),
            1 => (2, self.bytes(32)),
            2 => (300 + self.below(65_236) as u16, self.bytes(len)),
            3 => ([3, 252, 253, 254, 65_535][self.below(5)], self.bytes(len)),
            _ => (8, self.bytes(len)),
        }
    }

    fn name(&mut self, count: usize) -> Name {
        (0..count).fold(Name::new(), |name, _| {
            let (typ, value) = self.component();
            name.with(
                Component::new(ComponentType::new(typ).expect("not 0"), &value)
                    .expect("a component"),
            )
        })
    }
}

fn network(typ: u32, name: &Name, tail: &[u8]) -> Vec<u8> {
    let (mut value, mut out) = (Vec::new(), Vec::new());
    push_tlv(t::NAME, name.as_ref().as_bytes(), &mut value);
    value.extend_from_slice(tail);
    push_tlv(typ, &value, &mut out);
    out
}

const NONCE: &[u8] = &[10, 4, 1, 2, 3, 4];
const SIGNATURE: &[u8] = &[22, 3, 27, 1, 0, 23, 4, 1, 2, 3, 4];

fn interest(name: &Name) -> Vec<u8> {
    network(t::INTEREST, name, NONCE)
}

fn data(name: &Name) -> Vec<u8> {
    network(t::DATA, name, SIGNATURE)
}

fn link(header: &LpHeader<'_>, fragment: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    header.encode(fragment.len(), &mut out);
    out.extend_from_slice(fragment);
    out
}

/// A link packet of these fields, well-formed or not.
fn fields(list: &[(u32, &[u8])]) -> Vec<u8> {
    let (mut value, mut out) = (Vec::new(), Vec::new());
    list.iter().for_each(|(typ, field)| push_tlv(*typ, field, &mut value));
    push_tlv(t::LP_PACKET, &value, &mut out);
    out
}

fn token(bytes: &[u8]) -> Token {
    Token::new(bytes).expect("at most 32 bytes")
}

fn name(uri: &str) -> Name {
    uri.parse().expect("a name")
}

/// Returns the name with an additional component of a digest.
fn with_digest(name: &Name, typ: u16) -> Name {
    let typ = ComponentType::new(typ).expect("not 0");
    name.clone().with(Component::new(typ, &[9; 32]).expect("a digest"))
}

fn sample_interest() -> Vec<u8> {
    interest(&name(SAMPLE_NAME))
}

fn sample_data() -> Vec<u8> {
    data(&name(SAMPLE_NAME))
}

/// Returns all packets of the vectors, in their order.
fn packets() -> Vec<Vec<u8>> {
    let mut packets = Vec::new();
    add_random_names(&mut packets);
    add_digests(&mut packets);
    add_names_at_limits(&mut packets);
    add_tokens_and_nacks(&mut packets);
    add_fragments(&mut packets);
    add_links(&mut packets);
    add_long_headers(&mut packets);
    add_invalid_fields(&mut packets);
    add_invalid_bytes(&mut packets);
    add_truncated(&mut packets);
    packets
}

/// Interests and Data with random names.
fn add_random_names(packets: &mut Vec<Vec<u8>>) {
    let mut dice = Dice(Random::new(7));
    for round in 0..260 {
        let name = dice.name(round % 20 + 1);
        packets.push(if round % 4 == 3 { data(&name) } else { interest(&name) });
    }
}

/// Names with and without implicit digests, and the empty name.
fn add_digests(packets: &mut Vec<Vec<u8>>) {
    let (asked, answer) = (sample_interest(), sample_data());
    let name = name(SAMPLE_NAME);
    packets.extend([asked.clone(), answer.clone(), interest(&Name::new()), data(&Name::new())]);
    packets.extend([interest(&with_digest(&name, 1)), interest(&with_digest(&name, 2))]);
    packets.push(interest(&with_digest(&with_digest(&name, 1), 1)));
    packets.push(interest(&with_digest(&Name::new(), 1)));
    packets.push(interest(&with_digest(&name, 1).with_generic(b"behind")));
}

/// Names at and around the limits.
fn add_names_at_limits(packets: &mut Vec<Vec<u8>>) {
    for count in [15, 16, 17, 18] {
        let many = (0..count).fold(Name::new(), |name, i: u32| name.with_generic(i.to_be_bytes()));
        packets.extend([interest(&many), interest(&with_digest(&many, 1)), data(&many)]);
    }
    for last in 90..=110 {
        let long =
            Name::new().with_generic([1; 200]).with_generic([2; 198]).with_generic(vec![3; last]);
        packets.extend([interest(&long), interest(&long.with_generic([4; 5]))]);
    }
    packets.push(interest(&Name::new().with_generic([5; 508])));
    packets.push(interest(&Name::new().with_generic([5; 509])));
    packets.push(interest(&Name::new().with_generic([5; 3000]).with_generic([6; 3000])));
}

/// Tokens, on packets that are sent by them and on others; Nacks.
fn add_tokens_and_nacks(packets: &mut Vec<Vec<u8>>) {
    let (asked, answer) = (sample_interest(), sample_data());
    for bytes in
        [&[0u8; 6][..], &[1; 6], &[2; 6], &[63; 6], &[64; 6], &[255; 6], &[1; 5], &[1; 7], &[1; 32]]
    {
        let header = LpHeader { pit_token: token(bytes), ..LpHeader::default() };
        let nack = LpHeader { nack: Some(NackReason::NoRoute), ..header };
        packets.extend([link(&header, &asked), link(&header, &answer), link(&nack, &asked)]);
    }
    packets.push(link(&LpHeader::default(), &asked));
    packets
        .push(link(&LpHeader { nack: Some(NackReason::Duplicate), ..LpHeader::default() }, &asked));
    packets.push(link(
        &LpHeader { nack: Some(NackReason::Duplicate), ..LpHeader::default() },
        &answer,
    ));
    packets.push(link(
        &LpHeader { congestion_mark: 1, no_cache: true, ..LpHeader::default() },
        &answer,
    ));
}

/// Fragments.
fn add_fragments(packets: &mut Vec<Vec<u8>>) {
    let asked = sample_interest();
    for (sequence, index, count) in [
        (100, 0, 3),
        (101, 1, 3),
        (102, 2, 3),
        (0, 1, 2),
        (u64::MAX, 399, 400),
        (5, 0, 401),
        (5, 3, 3),
        (5, 0, 0),
    ] {
        let header = LpHeader {
            sequence: Some(sequence),
            fragment: Some((index, count)),
            ..LpHeader::default()
        };
        packets.push(link(&LpHeader { pit_token: token(&[1; 6]), ..header }, &[1, 2, 3]));
        packets.push(link(&header, &asked));
    }
    packets.push(fields(&[(t::LP_FRAG_COUNT, &[2]), (t::LP_FRAGMENT, &asked)]));
    packets.push(fields(&[(t::LP_FRAG_INDEX, &[0, 0, 0]), (t::LP_FRAGMENT, &asked)]));
    packets.push(fields(&[(t::LP_FRAG_COUNT, &[0, 0, 0, 1]), (t::LP_FRAGMENT, &asked)]));
}

/// Links with reliability, and idle packets.
fn add_links(packets: &mut Vec<Vec<u8>>) {
    let (asked, answer) = (sample_interest(), sample_data());
    let sequence = LpHeader { sequence: Some(9), ..LpHeader::default() };
    packets.push(link(&sequence, &asked));
    packets.push(link(&LpHeader { tx_sequence: Some(9), ..sequence }, &asked));
    packets.push(link(&LpHeader { acks: &[1, 2, 3], ..LpHeader::default() }, &answer));
    packets.push(link(&LpHeader { acks: &[1], ..LpHeader::default() }, &[]));
    packets.push(link(&LpHeader::default(), &[]));
    packets.push(link(&LpHeader { congestion_mark: 1, ..LpHeader::default() }, &[]));
}

/// Long headers, and names that begin late.
fn add_long_headers(packets: &mut Vec<Vec<u8>>) {
    let answer = sample_data();
    for len in [30, 70, 80, 90, 93, 94, 95, 96, 97, 100, 110, 120, 200, 3000] {
        let filler = vec![7; len];
        packets.push(fields(&[(t::LP_PREFIX_ANNOUNCEMENT, &filler), (t::LP_FRAGMENT, &answer)]));
        packets
            .push(fields(&[(t::LP_PREFIX_ANNOUNCEMENT, &filler), (t::LP_FRAGMENT, &[5, 2, 7, 0])]));
        packets.push(fields(&[
            (t::LP_PIT_TOKEN, &[1; 6]),
            (848, &filler),
            (t::LP_FRAGMENT, &answer),
        ]));
    }
    let empty: &[u8] = &[];
    for count in [14, 15, 16, 17] {
        let mut list: Vec<_> = (0..count).map(|i| (852 + 4 * i, empty)).collect();
        list.push((t::LP_FRAGMENT, &[5, 2, 7, 0]));
        packets.push(fields(&list));
    }
}

/// Invalid and unknown fields.
fn add_invalid_fields(packets: &mut Vec<Vec<u8>>) {
    let (asked, answer) = (sample_interest(), sample_data());
    let empty: &[u8] = &[];
    for typ in [0, 79, 84, 99, 300, 799, 801, 803, 804, 956, 957, 960, 65_536] {
        if typ > 0 {
            packets.push(fields(&[(typ, &[1]), (t::LP_FRAGMENT, &asked)]));
        }
    }
    packets.push(fields(&[(t::LP_SEQUENCE, &[1; 7]), (t::LP_FRAGMENT, &asked)]));
    packets.push(fields(&[(t::LP_PIT_TOKEN, empty), (t::LP_FRAGMENT, &asked)]));
    packets.push(fields(&[(t::LP_PIT_TOKEN, &[1; 33]), (t::LP_FRAGMENT, &asked)]));
    packets.push(fields(&[
        (t::LP_NACK, empty),
        (t::LP_PIT_TOKEN, &[1; 6]),
        (t::LP_FRAGMENT, &asked),
    ]));
    packets.push(fields(&[(t::LP_NACK, empty), (t::LP_NACK, empty), (t::LP_FRAGMENT, &asked)]));
    packets.push(fields(&[(t::LP_FRAGMENT, &asked), (t::LP_FRAGMENT, &asked)]));
    packets.push(fields(&[(t::LP_FRAGMENT, empty)]));
    packets.push(fields(&[(t::LP_FRAGMENT, &fields(&[(t::LP_FRAGMENT, &asked)]))]));
    packets.push([&asked[..], &answer].concat());
}

/// Bytes that are no packet, in hexadecimal.
fn add_invalid_bytes(packets: &mut Vec<Vec<u8>>) {
    for text in [
        "",
        "00",
        "07",
        "05",
        "0500",
        "0600",
        "6400",
        "05020700",
        "05020800",
        "05030700ff",
        "050407020800",
        "05040702080a",
        "0504070201aa",
        "0504070200aa",
        "050407020300",
        "0508070608fd00010203",
        "fd00050400",
        "05fd0004070208aa",
        "05fe00000004",
        "64fd0002",
        "45000014",
        "50fdffff",
        "ff",
        "05ff0000000000000004",
        "050a0708fd0008020304aabb",
        "050a0708fe00010000020304",
    ] {
        packets.push(
            (0..text.len() / 2)
                .map(|i| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).expect("hex"))
                .collect(),
        );
    }
}

/// Packets cut off at each byte.
fn add_truncated(packets: &mut Vec<Vec<u8>>) {
    let header =
        LpHeader { pit_token: token(&[1; 6]), congestion_mark: 300, ..LpHeader::default() };
    let sample = link(&header, &data(&name("/a/long-component-of-this-name/x")));
    packets.extend((0..sample.len()).map(|len| sample[..len].to_vec()));
    let sample = interest(&with_digest(&name("/a/b/c"), 1));
    packets.extend((0..sample.len()).map(|len| sample[..len].to_vec()));
}

fn vectors() -> String {
    let mut text = String::from(
        "# Which shard each packet goes to: held by crates/wire (in Rust) and crates/kernel (in the kernel). Written by\n\
         # NW_WRITE_VECTORS=1 cargo test -p nw-wire --test all shards\n\
         # key WORD WORD: of the hash, for the lines behind it. Else: shards, shard, reason, \
         packet.\n",
    );
    for (number, packet) in packets().iter().enumerate() {
        let words = KEYS[number % KEYS.len()];
        let key = HashKey::new(words);
        let shards = SHARDS[number / KEYS.len() % SHARDS.len()];
        let (shard, reason) = shard_of_packet(packet, &key, shards);
        let hex = packet.iter().fold(String::new(), |mut hex, byte| {
            let _ = write!(hex, "{byte:02x}");
            hex
        });
        let [a, b] = key.words();
        let _ = writeln!(text, "key {a:016x} {b:016x}");
        let _ = writeln!(
            text,
            "{shards} {shard} {} {}",
            reason.as_str(),
            if hex.is_empty() { "-" } else { &hex }
        );
    }
    text
}

#[test]
fn shard_vectors_match_the_rules() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/vectors/shards.txt");
    let made = vectors();
    if std::env::var_os("NW_WRITE_VECTORS").is_some() {
        std::fs::write(&path, &made).expect("the vectors' file can be written");
    }
    let kept = std::fs::read_to_string(&path).expect("tests/vectors/shards.txt");
    for (number, (made, kept)) in made.lines().zip(kept.lines()).enumerate() {
        assert_eq!(
            made,
            kept,
            "line {}; if it changed on purpose, NW_WRITE_VECTORS=1 writes the file",
            number + 1
        );
    }
    assert_eq!(made.len(), kept.len());
    for reason in Reason::ALL {
        assert!(
            kept.contains(&format!(" {} ", reason.as_str())),
            "no vector for {}",
            reason.as_str()
        );
    }
}

fn shard_of(hash: u64, shards: u8) -> u8 {
    nw_name::hash::shard_of(hash, usize::from(shards)) as u8
}

/// The result of decoding a valid packet.
fn decoded(packet: &[u8], key: &HashKey, shards: u8) -> Option<(u8, Reason)> {
    let outer = LpPacket::check(packet).ok()?;
    if outer.acks().next().is_some() || outer.tx_sequence.is_some() {
        return Some((0, Reason::Reliability));
    }
    let Some(fragment) = outer.fragment else { return Some((0, Reason::Idle)) };
    if outer.is_fragmented() {
        let hash = fragments_hash(key, outer.sequence?.wrapping_sub(outer.frag_index));
        return Some((shard_of(hash, shards), Reason::Fragment));
    }
    let mut prefixes = PrefixHashes::new(key);
    let whole = PaddedPacket::from(fragment);
    let reason = match fragment.first()? {
        5 => {
            InterestFields::check(whole, key, &mut prefixes).ok()?;
            if outer.nack.is_some() { Reason::Nack } else { Reason::Interest }
        }
        _ => {
            DataFields::check(whole, key, &mut prefixes).ok()?;
            Reason::Data
        }
    };
    outer.check_fields_on(u32::from(fragment[0])).ok()?;
    match outer.pit_token.as_bytes() {
        [shard, _, _, _, _, _] if reason != Reason::Interest && *shard < shards => {
            Some((*shard, Reason::Token))
        }
        _ => {
            let name_len = prefixes.end(prefixes.stored_len());
            let limited = prefixes.count() > COMPONENTS_MAX || name_len > NAME_BYTES_MAX;
            (!limited).then(|| (shard_of(prefixes.lookup_hash(), shards), reason))
        }
    }
}

#[test]
fn decoding_agrees_with_shard_vectors() {
    let key = HashKey::new(KEYS[0]);
    let mut agreed = 0;
    for packet in packets() {
        let chosen = shard_of_packet(&packet, &key, 8);
        if chosen.1 == Reason::HeaderLimit {
            continue;
        }
        if let Some(expected) = decoded(&packet, &key, 8) {
            assert_eq!(chosen, expected, "{packet:02x?}");
            agreed += 1;
        }
    }
    assert!(agreed > 200, "{agreed}");
}

proptest! {
    #[test]
    fn decoding_agrees(
        seed: u64,
        count in 1..17usize,
        shards in 1..=64u8,
        is_data: bool,
        nack: bool,
        bytes in proptest::collection::vec(any::<u8>(), 0..10),
    ) {
        let key = HashKey::new(KEYS[1]);
        let name = Dice(Random::new(seed)).name(count);
        let packet = if is_data { data(&name) } else { interest(&name) };
        let nack = (nack && !is_data).then_some(NackReason::Congestion);
        let header = LpHeader { pit_token: token(&bytes), nack, ..LpHeader::default() };
        let packet = link(&header, &packet);
        if let Some(expected) = decoded(&packet, &key, shards) {
            prop_assert_eq!(shard_of_packet(&packet, &key, shards), expected);
        }
    }

    #[test]
    fn any_bytes_have_a_shard(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        first in 0..4usize,
        shards in 1..=64u8,
    ) {
        let packet = [&[5, 6, 100, 7][first..=first], &bytes].concat();
        prop_assert!(shard_of_packet(&packet, &HashKey::new(KEYS[2]), shards).0 < shards);
    }

    #[test]
    fn fragments_of_a_packet_share_a_shard(first: u64, count in 2..400u64, shards in 1..=64u8) {
        let key = HashKey::new(KEYS[0]);
        let shard = |index: u64| {
            let header = LpHeader {
                sequence: Some(first.wrapping_add(index)),
                fragment: Some((index, count)),
                ..LpHeader::default()
            };
            shard_of_packet(&link(&header, b"part"), &key, shards)
        };
        prop_assert_eq!(shard(0), shard(count - 1));
        prop_assert_eq!(shard(0).1, Reason::Fragment);
    }
}
