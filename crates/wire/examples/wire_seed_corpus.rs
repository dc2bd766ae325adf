//! Writes the seeds of the fuzzers' corpora: `cargo run -p nw-wire --example wire_seed_corpus`.
//!
//! `ok-…` are valid, `bad-<fault>-…` are near-misses and hostile lengths. `tests/all/corpus.rs`
//! holds them to their names.

use nw_name::tlv::{push_integer, push_tlv};
use nw_name::{Component, ComponentType, Name};
use nw_wire::{DataBuilder, DigestSha256, InterestBuilder, LpHeader, NackReason, Token, sha256};
use std::{fs, io, path::Path};

type Seeds = Vec<(&'static str, Vec<u8>)>;

fn main() -> io::Result<()> {
    let corpora = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let (interests, data, certificates, links, management) =
        (interests(), data(), certificates(), links(), management());
    // Bare packets also test the packets inside link packets.
    let behind_links = interests.iter().chain(&data).filter(|(name, _)| !starts_outside(name));
    let decoded =
        behind_links.map(|(name, bytes)| (*name, link(&LpHeader::default(), bytes))).collect();
    let dissected = [&interests, &data, &certificates, &links, &management].into_iter().flatten();
    let dissected = dissected
        .enumerate()
        .map(|(n, (name, bytes))| (format!("ok-{n:03}-{name}"), bytes.clone()));
    for (target, seeds) in [
        ("name", names()),
        ("name_uri", uris()),
        ("interest", interests.clone()),
        ("data", data.clone()),
        ("certificate", certificates.clone()),
        ("lp", links.clone()),
        ("decode", decoded),
        ("stream", streams()),
    ] {
        write(&corpora.join(target), seeds)?;
    }
    write(&corpora.join("dissect"), dissected)
}

fn write<N: AsRef<Path>>(
    folder: &Path,
    seeds: impl IntoIterator<Item = (N, Vec<u8>)>,
) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    seeds.into_iter().try_for_each(|(name, bytes)| fs::write(folder.join(name), bytes))
}

/// Faults of a packet's outermost element are the link header's fault when there is one, or become
/// another.
fn starts_outside(name: &str) -> bool {
    ["trailing", "unknown_packet", "outer", "empty-input"].iter().any(|word| name.contains(word))
}

fn element(typ: u32, value: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    push_tlv(typ, value, &mut out);
    out
}

fn name(uri: &str) -> Name {
    uri.parse().expect("a name")
}

fn name_element(uri: &str) -> Vec<u8> {
    let mut out = Vec::new();
    name(uri).as_ref().encode(&mut out);
    out
}

fn value(uri: &str) -> Vec<u8> {
    name(uri).as_ref().as_bytes().to_vec()
}

const HUGE: [u8; 9] = [255; 9];

fn names() -> Seeds {
    let digest = "sha256digest=".to_owned() + &"ab".repeat(32);
    vec![
        ("ok-root", vec![]),
        ("ok-generic", value("/a/b/c")),
        ("ok-empty-component", value("/...")),
        ("ok-periods", value("/..../....../a.b")),
        ("ok-typed", value("/seg=1/v=2/t=3/off=4/seq=5")),
        ("ok-largest-numbers", value("/seg=18446744073709551615/v=4294967296")),
        ("ok-keyword", value("/32=metadata")),
        ("ok-implicit-digest", value(&format!("/a/{digest}"))),
        ("ok-parameters-digest", value(&format!("/a/params-sha256={}", "00".repeat(32)))),
        (
            "ok-all-bytes",
            name("/").with_generic((0..=255).collect::<Vec<u8>>()).as_ref().as_bytes().to_vec(),
        ),
        ("ok-largest-type", value("/65535=x")),
        ("ok-type-253", value("/253=x/252=y")),
        ("ok-long-value", name("/").with_generic(vec![7; 300]).as_ref().as_bytes().to_vec()),
        ("ok-not-a-number-segment", value("/50=abc")),
        ("ok-number-not-shortest", vec![50, 2, 0, 1]),
        ("ok-deep", (0..200).flat_map(|_| [8, 0]).collect()),
        ("ok-not-utf8", vec![8, 2, 0xc3, 0x28]),
        ("bad-truncated-value", vec![8, 3, 1]),
        ("bad-truncated-type-only", vec![8]),
        ("bad-truncated-in-length", vec![8, 253, 1]),
        ("bad-truncated-huge-length", [&[8][..], &HUGE].concat()),
        ("bad-truncated-second", vec![8, 0, 8, 9]),
        ("bad-type_range-zero", vec![0, 0]),
        ("bad-type_range-65536", vec![254, 0, 1, 0, 0, 0]),
        ("bad-type_range-huge", [&HUGE[..], &[0]].concat()),
        ("bad-number_not_minimal-type", vec![253, 0, 8, 0]),
        ("bad-number_not_minimal-length", vec![8, 253, 0, 1, 0]),
        ("bad-number_not_minimal-length-of-9", vec![8, 255, 0, 0, 0, 0, 0, 0, 0, 1, 0]),
        ("bad-digest_length-31", [&[1, 31][..], &[0; 31]].concat()),
        ("bad-digest_length-none", vec![2, 0]),
    ]
}

fn uris() -> Seeds {
    let texts = [
        ("ok-root", "/"),
        ("ok-plain", "/a/b/c"),
        ("ok-scheme", "ndn:/a/b"),
        ("ok-authority", "ndn://host/a"),
        ("ok-slash-at-end", "/a/b/"),
        ("ok-escapes", "/%00%ff%2F%25/a%20b"),
        ("ok-periods", "/.../..../....../a.b/..a"),
        ("ok-typed", "/8=a/9=b/65535=c"),
        ("ok-aliases", "/seg=0/v=1/t=2/off=3/seq=18446744073709551615"),
        ("ok-keyword", "/32=metadata"),
        ("ok-unescaped", "/a b/ä/~_-"),
        (
            "ok-digests",
            "/sha256digest=00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff/params-sha256=00FF00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff00ff",
        ),
        ("ok-empty-typed", "/9=..."),
        ("ok-equals-in-value", "/8=a=b"),
        ("ok-segment-as-type", "/50=%00%01"),
        ("bad-uri-empty", ""),
        ("bad-uri-no-slash", "a"),
        ("bad-uri-empty-component", "/a//b"),
        ("bad-uri-one-period", "/a/."),
        ("bad-uri-two-periods", "/../a"),
        ("bad-uri-half-an-escape", "/%4"),
        ("bad-uri-no-hexadecimal", "/%zz"),
        ("bad-uri-multibyte-escape", "/%ä0"),
        ("bad-uri-type-zero", "/0=a"),
        ("bad-uri-type-65536", "/65536=a"),
        ("bad-uri-leading-zero", "/08=a"),
        ("bad-uri-word", "/word=a"),
        ("bad-uri-negative", "/seg=-1"),
        ("bad-uri-too-large", "/seg=18446744073709551616"),
        ("bad-uri-short-digest", "/sha256digest=00"),
        ("bad-uri-digest-by-type", "/1=a"),
    ];
    let mut seeds: Seeds = texts.map(|(name, uri)| (name, uri.as_bytes().to_vec())).to_vec();
    seeds.push(("bad-uri-not-utf8", vec![b'/', 0xff]));
    seeds
}

/// An Interest of `/a` and these fields.
fn interest(fields: &[&[u8]]) -> Vec<u8> {
    element(5, &[&name_element("/a")[..], &fields.concat()].concat())
}

/// An Interest of `/a`, the digest of `tail`, and `tail`.
fn with_digest(tail: &[u8]) -> Vec<u8> {
    let digest = sha256(&[tail]);
    let component = Component::new(ComponentType::PARAMETERS_DIGEST, &digest).expect("32 bytes");
    let mut body = Vec::new();
    name("/a").with(component).as_ref().encode(&mut body);
    element(5, &[&body, tail].concat())
}

fn interests() -> Seeds {
    let build = || InterestBuilder::new(name("/a/b/seg=7"));
    let signed =
        build().nonce(1).parameters(*b"p").encode_signed(&DigestSha256, &[38, 1, 7, 40, 1, 9]);
    let parameters = with_digest(&[36, 2, 1, 2]);
    let mut mismatch = parameters.clone();
    *mismatch.last_mut().expect("not empty") ^= 1;
    let digest = "/params-sha256=".to_owned() + &"00".repeat(32);
    let mut trailing = interest(&[]);
    trailing.push(0);
    vec![
        ("ok-name-only", interest(&[])),
        (
            "ok-every-field",
            build()
                .can_be_prefix(true)
                .must_be_fresh(true)
                .forwarding_hint(name("/h/1"))
                .forwarding_hint(name("/h/2"))
                .nonce(7)
                .lifetime_ms(1000)
                .hop_limit(9)
                .parameters([0; 30])
                .encode(),
        ),
        (
            "ok-six-components",
            InterestBuilder::new(name("/ndn/example/videos/lecture/v=7/seg=1042"))
                .nonce(1)
                .encode(),
        ),
        ("ok-signed", signed.unwrap_or_else(|never| match never {})),
        ("ok-empty-parameters", with_digest(&[36, 0])),
        ("ok-unknown-behind-parameters", with_digest(&[36, 1, 0, 250, 1, 7])),
        ("ok-hop-limit-twice", interest(&[&[34, 1, 7], &[34, 1, 3]])),
        ("ok-hop-limit-zero", interest(&[&[34, 1, 0]])),
        (
            "ok-unknown-non-critical",
            interest(&[&[250, 2, 1, 2], &[10, 4, 1, 2, 3, 4], &[253, 1, 0, 0]]),
        ),
        ("ok-largest-lifetime", interest(&[&[12, 8, 255, 255, 255, 255, 255, 255, 255, 255]])),
        ("ok-old-delegation", interest(&[&[30, 10, 31, 8, 30, 1, 9, 7, 3, 8, 1, b'd']])),
        ("ok-hint-of-root", interest(&[&[30, 2, 7, 0]])),
        (
            "ok-hundred-components",
            InterestBuilder::new((0..100).fold(Name::new(), Name::with_segment)).encode(),
        ),
        ("bad-truncated-empty-input", vec![]),
        ("bad-truncated-outer", vec![5, 9, 7, 0]),
        ("bad-truncated-outer-huge", [&[5][..], &HUGE].concat()),
        ("bad-truncated-name", element(5, &[7, 9, 8, 1, b'a'])),
        ("bad-truncated-component", element(5, &[7, 3, 8, 2, b'a'])),
        ("bad-truncated-component-huge", element(5, &element(7, &[&[8][..], &HUGE].concat()))),
        ("bad-truncated-hint", interest(&[&[30, 3, 7, 2, 8]])),
        ("bad-trailing", trailing),
        ("bad-unknown_packet", vec![9, 0]),
        ("bad-missing_field-no-name", element(5, &[10, 4, 1, 2, 3, 4])),
        ("bad-missing_field-empty", vec![5, 0]),
        ("bad-missing_field-empty-hint", interest(&[&[30, 0]])),
        ("bad-name_empty", element(5, &[7, 0])),
        ("bad-field_order-name-twice", interest(&[&[7, 0]])),
        ("bad-field_order-nonce-twice", interest(&[&[10, 4, 1, 2, 3, 4], &[10, 4, 1, 2, 3, 4]])),
        ("bad-field_order-fresh-before-prefix", interest(&[&[18, 0], &[33, 0]])),
        ("bad-unknown_critical", interest(&[&[251, 0]])),
        ("bad-unknown_critical-selectors-of-0.2", interest(&[&[9, 2, 18, 0]])),
        ("bad-field_length-nonce-of-3", interest(&[&[10, 3, 1, 2, 3]])),
        ("bad-field_length-hop-limit-of-2", interest(&[&[34, 2, 1, 2]])),
        ("bad-field_length-full-can-be-prefix", interest(&[&[33, 1, 0]])),
        ("bad-number_length-lifetime-of-3", interest(&[&[12, 3, 1, 2, 3]])),
        ("bad-number_length-lifetime-of-0", interest(&[&[12, 0]])),
        ("bad-number_not_minimal-type", vec![253, 0, 5, 5, 7, 3, 8, 1, b'a']),
        ("bad-number_not_minimal-field", interest(&[&[12, 253, 0, 1, 7]])),
        ("bad-type_range-component-zero", element(5, &[7, 2, 0, 0])),
        ("bad-digest_length", element(5, &element(7, &[2, 1, 0]))),
        ("bad-digest_place-no-parameters", element(5, &name_element(&digest))),
        ("bad-digest_place-no-digest", interest(&[&[36, 1, 0]])),
        (
            "bad-digest_place-twice",
            element(5, &[&name_element(&digest.repeat(2))[..], &[36, 0]].concat()),
        ),
        ("bad-digest_mismatch", mismatch),
        ("bad-signature_incomplete-no-value", with_digest(&[36, 0, 44, 3, 27, 1, 0])),
        ("bad-signature_incomplete-no-info", with_digest(&[36, 0, 46, 1, 0])),
        ("bad-too_long", InterestBuilder::new(name("/a").with_generic(vec![0; 8800])).encode()),
    ]
}

fn data_of(fields: &[&[u8]]) -> Vec<u8> {
    element(6, &[&name_element("/a")[..], &fields.concat()].concat())
}

fn built(builder: &DataBuilder<'_>, fields: &[u8]) -> Vec<u8> {
    builder.encode_with(&DigestSha256, fields).unwrap_or_else(|never| match never {})
}

const INFO: &[u8] = &[22, 3, 27, 1, 0];
const VALUE: &[u8] = &[23, 2, 9, 9];

fn data() -> Seeds {
    let (segment, last) = (name("/a/b/v=1/seg=7"), name("/seg=99"));
    let whole = DataBuilder::new(&segment, b"content")
        .content_type(0)
        .freshness_ms(1000)
        .final_block_of(last.as_ref());
    let large = vec![1; 8000];
    let meta = |inside: &[u8]| data_of(&[&element(20, inside), INFO, VALUE]);
    let info = |inside: &[u8]| data_of(&[&element(22, inside), VALUE]);
    let mut trailing = data_of(&[INFO, VALUE]);
    trailing.push(0);
    vec![
        ("ok-least", data_of(&[INFO, VALUE])),
        ("ok-every-field", built(&whole, &[])),
        ("ok-8000-bytes", built(&DataBuilder::new(&segment, &large), &[])),
        ("ok-name-of-root", element(6, &[&[7, 0], INFO, VALUE].concat())),
        ("ok-null-signature", info(&[27, 1, 200])),
        ("ok-key-name", info(&[27, 1, 3, 28, 5, 7, 3, 8, 1, b'k'])),
        ("ok-key-digest", info(&[27, 1, 1, 28, 4, 29, 2, 1, 2])),
        ("ok-empty-key-locator", info(&[27, 1, 1, 28, 0])),
        ("ok-unknown-signature-type", info(&[27, 4, 1, 2, 3, 4])),
        ("ok-description", info(&[27, 1, 0, 253, 1, 2, 0])),
        ("ok-unknown-non-critical", data_of(&[&[36, 1, 1], INFO, &[250, 0], VALUE])),
        ("ok-application-meta", meta(&[128, 1, 7])),
        ("ok-nack-content", built(&DataBuilder::new(&segment, &[]).content_type(3), &[])),
        ("bad-truncated-empty-input", vec![]),
        ("bad-truncated-outer-huge", [&[6][..], &HUGE].concat()),
        ("bad-truncated-name", element(6, &[7, 200, 8, 0])),
        ("bad-truncated-content", data_of(&[&[21, 100, 1], INFO, VALUE][..2])),
        ("bad-truncated-meta", meta(&[25, 2, 1])),
        ("bad-truncated-locator", info(&[27, 1, 1, 28, 3, 7, 9, 8])),
        ("bad-trailing", trailing),
        ("bad-unknown_packet", vec![128, 0]),
        ("bad-missing_field-no-signature", data_of(&[])),
        ("bad-missing_field-no-value", data_of(&[INFO])),
        ("bad-missing_field-no-info", data_of(&[VALUE])),
        ("bad-missing_field-no-signature-type", info(&[])),
        ("bad-field_order-value-first", data_of(&[VALUE, INFO])),
        ("bad-field_order-content-twice", data_of(&[&[21, 0], &[21, 0], INFO, VALUE])),
        ("bad-field_order-meta", meta(&[25, 1, 1, 24, 1, 0])),
        ("bad-unknown_critical", data_of(&[&[9, 0], INFO, VALUE])),
        ("bad-unknown_critical-meta", meta(&[251, 0])),
        ("bad-unknown_critical-locator", info(&[27, 1, 1, 28, 2, 9, 0])),
        ("bad-number_length-freshness-of-3", meta(&[25, 3, 1, 2, 3])),
        ("bad-number_length-signature-type", info(&[27, 0])),
        ("bad-field_length-no-final-block", meta(&[26, 0])),
        ("bad-field_length-two-final-blocks", meta(&[26, 4, 8, 0, 8, 0])),
        ("bad-number_not_minimal", data_of(&[&[21, 253, 0, 1, 0], INFO, VALUE])),
        ("bad-field_value-validity", info(&[27, 1, 1, 253, 0, 253, 5, 253, 0, 254, 1, b'x'])),
        ("bad-too_long", built(&DataBuilder::new(&segment, &[0; 8800]), &[])),
    ]
}

fn validity(from: &[u8], to: &[u8]) -> Vec<u8> {
    element(253, &[element(254, from), element(255, to)].concat())
}

fn certificates() -> Seeds {
    let (from, to) = (b"20260101T000000", b"20360101T000000");
    let good = validity(from, to);
    let make = |uri: &str, content_type: u64, fields: &[u8]| {
        built(
            &DataBuilder::new(&name(uri), &[0x30; 91])
                .content_type(content_type)
                .freshness_ms(3_600_000),
            fields,
        )
    };
    let usual = "/alice/KEY/%01%02/self/v=1";
    let key_locator = [element(28, &name_element("/alice/KEY/%01%02")), good.clone()].concat();
    let described = [
        good.clone(),
        element(258, &element(512, &[element(513, b"k"), element(514, b"v")].concat())),
    ]
    .concat();
    let short_period = element(253, &element(254, from));
    vec![
        ("ok-self-signed", make(usual, 2, &good)),
        ("ok-key-locator", make(usual, 2, &key_locator)),
        ("ok-described", make(usual, 2, &described)),
        ("ok-root-identity", make("/KEY/%01/self/v=1", 2, &good)),
        ("ok-long-identity", make("/a/b/c/d/e/f/g/h/i/j/KEY/x/issuer/v=99", 2, &good)),
        ("ok-generic-version", make("/a/KEY/k/i/%FD%01", 2, &good)),
        ("ok-key-in-identity", make("/KEY/KEY/KEY/KEY/KEY/i/v=1", 2, &good)),
        ("ok-backwards-period", make(usual, 2, &validity(to, from))),
        ("bad-field_value-no-key", make("/alice/KAY/k/self/v=1", 2, &good)),
        ("bad-field_value-short-name", make("/KEY/k/v=1", 2, &good)),
        ("bad-field_value-typed-key", make("/a/9=KEY/k/self/v=1", 2, &good)),
        ("bad-field_value-long-name", make("/alice/KEY/k/self/v=1/seg=0", 2, &good)),
        ("bad-field_value-blob", make(usual, 0, &good)),
        ("bad-field_value-nack", make(usual, 3, &good)),
        ("bad-missing_field-no-period", make(usual, 2, &[])),
        ("bad-missing_field-empty-period", make(usual, 2, &[253, 0, 253, 0])),
        ("bad-missing_field-half-a-period", make(usual, 2, &short_period)),
        ("bad-field_value-no-t", make(usual, 2, &validity(b"20260101 000000", to))),
        ("bad-field_value-letters", make(usual, 2, &validity(from, b"2036O101T000000"))),
        ("bad-field_value-short-moment", make(usual, 2, &validity(b"2026", to))),
        ("bad-field_order-period-twice", make(usual, 2, &good.repeat(2))),
        ("bad-unknown_packet", vec![5, 0]),
        ("bad-truncated-empty-input", vec![]),
        ("bad-truncated", make(usual, 2, &good)[..100].to_vec()),
    ]
}

fn link(header: &LpHeader<'_>, payload: &[u8]) -> Vec<u8> {
    let mut wire = Vec::new();
    header.encode(payload.len(), &mut wire);
    wire.extend_from_slice(payload);
    wire
}

fn links() -> Seeds {
    let asked = InterestBuilder::new(name("/a/b")).nonce(1).encode();
    let lp = |fields: &[Vec<u8>]| element(100, &fields.concat());
    let header = LpHeader::default;
    let token = |len: usize| LpHeader {
        pit_token: Token::new(&vec![7; len]).expect("up to 32"),
        ..header()
    };
    let fragment = element(80, &asked);
    let (sequence, number) = (element(81, &[0; 8]), |typ, value| {
        let mut out = Vec::new();
        push_integer(typ, value, &mut out);
        out
    });
    let mut deep = asked.clone();
    (0..50).for_each(|_| deep = link(&header(), &deep));
    let every = LpHeader {
        sequence: Some(u64::MAX),
        fragment: Some((399, 400)),
        nack: Some(NackReason::Congestion),
        incoming_face_id: Some(256),
        next_hop_face_id: Some(257),
        no_cache: true,
        congestion_mark: 1,
        acks: &[1, 2, u64::MAX],
        tx_sequence: Some(5),
        non_discovery: true,
        prefix_announcement: Some(&[6, 0]),
        receive_window_kib: Some(4096),
        ..token(32)
    };
    let fragmented = |index, count| {
        lp(&[sequence.clone(), number(82, index), number(83, count), fragment.clone()])
    };
    vec![
        ("ok-bare-interest", asked.clone()),
        ("ok-bare-data", data_of(&[INFO, VALUE])),
        ("ok-envelope", link(&header(), &asked)),
        ("ok-idle", vec![100, 0]),
        ("ok-every-field", link(&every, &asked)),
        ("ok-token-1", link(&token(1), &asked)),
        ("ok-token-6", link(&token(6), &asked)),
        ("ok-token-32", link(&token(32), &asked)),
        ("ok-nack", link(&LpHeader { nack: Some(NackReason::NoRoute), ..header() }, &asked)),
        ("ok-nack-without-reason", lp(&[element(800, &[]), fragment.clone()])),
        ("ok-nack-of-unknown-reason", lp(&[element(800, &number(801, 7)), fragment.clone()])),
        ("ok-acks-only", link(&LpHeader { acks: &[1, 2, 3], ..header() }, &[])),
        ("ok-first-fragment", fragmented(0, 2)),
        ("ok-last-fragment-of-400", fragmented(399, 400)),
        ("ok-ignored-field", lp(&[element(804, &[1]), element(956, &[]), fragment.clone()])),
        ("ok-in-itself", deep),
        ("ok-garbage-inside", lp(&[element(80, &[0xff; 20])])),
        ("bad-truncated-empty-input", vec![]),
        ("bad-truncated-outer-huge", [&[100][..], &HUGE].concat()),
        ("bad-truncated-fragment", element(100, &[80, 50, 5, 0])),
        ("bad-trailing", vec![100, 0, 0]),
        ("bad-unknown_packet", vec![7, 0]),
        ("bad-field_order-fragment-first", lp(&[fragment.clone(), element(98, &[1])])),
        ("bad-field_order-fragment-twice", lp(&[fragment.clone(), fragment.clone()])),
        (
            "bad-field_order-decreasing",
            lp(&[element(832, &[1]), element(98, &[1]), fragment.clone()]),
        ),
        (
            "bad-field_order-token-twice",
            lp(&[element(98, &[1]), element(98, &[1]), fragment.clone()]),
        ),
        ("bad-field_length-no-token", lp(&[element(98, &[]), fragment.clone()])),
        ("bad-field_length-token-33", lp(&[element(98, &[0; 33]), fragment.clone()])),
        ("bad-field_length-sequence-of-4", lp(&[element(81, &[0; 4]), fragment.clone()])),
        ("bad-field_length-ack-of-1", lp(&[element(836, &[0])])),
        ("bad-field_length-empty-fragment", lp(&[element(80, &[])])),
        ("bad-field_length-full-non-discovery", lp(&[element(844, &[1]), fragment.clone()])),
        ("bad-fragment_index-401", fragmented(0, 401)),
        ("bad-fragment_index-2-to-60", fragmented(0, 1 << 60)),
        ("bad-fragment_index-none", fragmented(0, 0)),
        ("bad-fragment_index-beyond", fragmented(2, 2)),
        ("bad-missing_field-no-sequence", lp(&[number(83, 2), fragment.clone()])),
        ("bad-missing_field-no-policy-type", lp(&[element(820, &[]), fragment.clone()])),
        ("bad-field_value-policy", lp(&[element(820, &number(821, 2)), fragment.clone()])),
        ("bad-unknown_critical-99", lp(&[element(99, &[]), fragment.clone()])),
        ("bad-unknown_critical-802", lp(&[element(802, &[]), fragment.clone()])),
        ("bad-unknown_critical-960", lp(&[element(960, &[]), fragment.clone()])),
        ("bad-number_length-mark-of-3", lp(&[element(832, &[0; 3]), fragment.clone()])),
        ("bad-number_not_minimal", vec![100, 4, 253, 0, 98, 0]),
    ]
}

/// The packets at the start of a stream.
fn streams() -> Seeds {
    let asked = interest(&[]);
    let head = |len: u64| {
        let mut out = vec![6];
        nw_name::tlv::push_number(len, &mut out);
        out
    };
    vec![
        ("ok-nothing", vec![]),
        ("ok-one", asked.clone()),
        ("ok-two", asked.repeat(2)),
        ("ok-one-and-a-half", asked.repeat(2)[..10].to_vec()),
        ("ok-type-only", vec![6]),
        ("ok-half-a-type", vec![253, 1]),
        ("ok-half-a-length", vec![6, 253, 1]),
        ("ok-head-only", head(100)),
        ("ok-largest", head(8796)),
        ("ok-empty-element", vec![6, 0]),
        ("ok-unknown-type", vec![253, 3, 32, 0]),
        ("ok-largest-type", vec![254, 255, 255, 255, 255, 0]),
        ("ok-data", data_of(&[INFO, VALUE])),
        ("ok-link", link(&LpHeader::default(), &asked)),
        ("bad-too_long-by-one", head(8797)),
        ("bad-too_long-64-kib", head(65_536)),
        ("bad-too_long-4-gib", head(1 << 32)),
        ("bad-too_long-2-to-64", [&[6][..], &HUGE].concat()),
        ("bad-type_range-zero", vec![0, 0]),
        ("bad-type_range-2-to-32", vec![255, 0, 0, 0, 1, 0, 0, 0, 0, 0]),
        ("bad-number_not_minimal-type", vec![253, 0, 6, 0]),
        ("bad-number_not_minimal-length", vec![6, 253, 0, 6]),
        ("bad-number_not_minimal-length-of-9", vec![6, 255, 0, 0, 0, 0, 255, 255, 255, 255]),
        ("bad-type_range-text", vec![0; 40]),
    ]
}

/// Messages of the management protocol, for the dissector only.
fn management() -> Seeds {
    let number = |typ, value: u8| element(typ, &[value]);
    let parameters = element(
        104,
        &[name_element("/p"), number(105, 7), number(106, 10), number(108, 1)].concat(),
    );
    let command =
        InterestBuilder::new(name("/localhost/nfd/rib/register").with_generic(&parameters))
            .encode();
    let response =
        element(101, &[number(102, 200), element(103, b"OK"), parameters.clone()].concat());
    let reply = |uri: &str, content: &[u8]| built(&DataBuilder::new(&name(uri), content), &[]);
    let face = [
        number(105, 1),
        element(114, b"unix:///a"),
        number(132, 1),
        number(144, 9),
        number(108, 7),
    ]
    .concat();
    let route = element(
        128,
        &[name_element("/p"), element(129, &[number(105, 1), number(111, 65)].concat())].concat(),
    );
    vec![
        ("command", command),
        ("response", reply("/localhost/nfd/rib/register/x", &response)),
        ("faces-list", reply("/localhost/nfd/faces/list/v=1/seg=0", &element(128, &face))),
        ("faces-events", reply("/localhost/nfd/faces/events/seq=1", &element(192, &face))),
        ("rib-list", reply("/localhost/nfd/rib/list/v=1/seg=0", &route)),
        ("fib-list", reply("/localhop/nfd/fib/list/v=1/seg=0", &route)),
        (
            "status",
            reply(
                "/localhost/nfd/status/general/v=1/seg=0",
                &[element(128, b"1"), number(144, 1)].concat(),
            ),
        ),
        ("metadata", reply("/a/32=metadata/v=1/seg=0", &name_element("/a/v=1"))),
    ]
}
