//! What holds for every packet: what is built is read back; what is cut or random is refused
//! without a panic.

use nw_name::{Component, ComponentType, HashKey, Name, PrefixHashes};
use nw_wire::certificate::Certificate;
use nw_wire::forwarding::{DataFields, InterestFields, PaddedPacket, read_name};
use nw_wire::{
    Data, DataBuilder, DigestSha256, Fault, Interest, InterestBuilder, LpHeader, LpPacket,
    NackReason, Token, sha256,
};
use proptest::collection::vec;
use proptest::prelude::*;

const KEY: HashKey = HashKey::new([0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210, 5, 6]);

/// Any name without parameters digests.
fn any_name(components: std::ops::Range<usize>) -> impl Strategy<Value = Name> {
    let component =
        (prop_oneof![4 => Just(8u16), 1 => 3u16..=65535, 1 => Just(1u16)], vec(any::<u8>(), 0..40));
    vec(component, components).prop_map(|parts| {
        parts.iter().fold(Name::new(), |name, (typ, value)| {
            let typ = ComponentType::new(*typ).unwrap();
            let digest = sha256(&[value]);
            name.with(Component::new(typ, if typ.is_digest() { &digest } else { value }).unwrap())
        })
    })
}

#[derive(Clone, Debug)]
struct Ask {
    name: Name,
    can_be_prefix: bool,
    must_be_fresh: bool,
    hints: Vec<Name>,
    nonce: Option<u32>,
    lifetime_ms: Option<u64>,
    hop_limit: Option<u8>,
    parameters: Option<Vec<u8>>,
}

impl Ask {
    fn build(&self) -> InterestBuilder {
        let builder = InterestBuilder::new(self.name.clone())
            .can_be_prefix(self.can_be_prefix)
            .must_be_fresh(self.must_be_fresh);
        let builder = self.hints.iter().cloned().fold(builder, InterestBuilder::forwarding_hint);
        let builder = self.nonce.into_iter().fold(builder, InterestBuilder::nonce);
        let builder = self.lifetime_ms.into_iter().fold(builder, InterestBuilder::lifetime_ms);
        let builder = self.hop_limit.into_iter().fold(builder, InterestBuilder::hop_limit);
        self.parameters.iter().cloned().fold(builder, InterestBuilder::parameters)
    }

    fn matches(&self, seen: &Interest<'_>) {
        assert!(self.name.as_ref().is_prefix_of(seen.name()));
        assert_eq!(
            (seen.can_be_prefix(), seen.must_be_fresh()),
            (self.can_be_prefix, self.must_be_fresh)
        );
        assert_eq!(seen.forwarding_hint().map(|n| n.to_name()).collect::<Vec<_>>(), self.hints);
        assert_eq!((seen.nonce(), seen.hop_limit()), (self.nonce, self.hop_limit));
        assert_eq!(seen.lifetime_ms(), self.lifetime_ms.unwrap_or(4000));
    }
}

prop_compose! {
    fn any_ask()(
        name in any_name(1..8),
        can_be_prefix: bool,
        must_be_fresh: bool,
        hints in vec(any_name(0..3), 0..3),
        nonce: Option<u32>,
        lifetime_ms: Option<u64>,
        hop_limit: Option<u8>,
        parameters in proptest::option::of(vec(any::<u8>(), 0..300)),
    ) -> Ask {
        Ask { name, can_be_prefix, must_be_fresh, hints, nonce, lifetime_ms, hop_limit, parameters }
    }
}

prop_compose! {
    fn any_header()(
        sequence: Option<u64>,
        fragment in proptest::option::of((0u64..400).prop_flat_map(|index| (Just(index), index + 1..=400))),
        token in vec(any::<u8>(), 0..=32),
        nack in proptest::option::of(prop_oneof![
            Just(NackReason::None), Just(NackReason::Congestion), Just(NackReason::Duplicate), Just(NackReason::NoRoute)
        ]),
        faces: (Option<u64>, Option<u64>),
        flags: (bool, bool),
        congestion_mark: u64,
        tx_sequence: Option<u64>,
    ) -> LpHeader<'static> {
        LpHeader {
            // A fragment without a sequence is refused.
            sequence: sequence.or(fragment.map(|_| 7)),
            fragment,
            pit_token: Token::new(&token).unwrap(),
            nack,
            incoming_face_id: faces.0,
            next_hop_face_id: faces.1,
            no_cache: flags.0,
            congestion_mark,
            acks: &[],
            tx_sequence,
            non_discovery: flags.1,
            prefix_announcement: None,
            receive_window_kib: tx_sequence.map(|number| number / 3),
        }
    }
}

/// Every strict prefix of a whole element is truncated, wherever it is cut.
fn assert_cuts_refused<T>(wire: &[u8], check: impl Fn(&[u8]) -> Result<T, nw_wire::Error>) {
    for end in 0..wire.len() {
        match check(&wire[..end]) {
            Err(e) => assert_eq!(e.fault, Fault::Truncated, "cut at {end}"),
            Ok(_) => panic!("accepted though cut at {end}"),
        }
    }
}

proptest! {
    #[test]
    fn built_interest_is_read_back(ask in any_ask()) {
        let wire = ask.build().encode();
        let seen = Interest::check(&wire).unwrap();
        ask.matches(&seen);
        prop_assert_eq!(seen.parameters(), ask.parameters.as_deref());
        prop_assert_eq!(seen.name().len(), ask.name.as_ref().len() + usize::from(ask.parameters.is_some()));
        assert_cuts_refused(&wire, |cut| Interest::check(cut).map(drop));
    }

    #[test]
    fn signed_interest_is_read_back(ask in any_ask(), nonce in vec(any::<u8>(), 1..9)) {
        let mut fields = vec![];
        nw_wire::tlv::push_tlv(nw_wire::types::SIGNATURE_NONCE, &nonce, &mut fields);
        let wire = ask.build().encode_signed(&DigestSha256, &fields).unwrap();
        let seen = Interest::check(&wire).unwrap();
        ask.matches(&seen);
        prop_assert_eq!(seen.signature_info().unwrap().nonce(), Some(&nonce[..]));
        prop_assert_eq!(&sha256(&seen.signed_portion().unwrap())[..], seen.signature_value().unwrap());
        let mut changed = wire.clone();
        let at = wire.len() - 30;
        changed[at] ^= 1;
        prop_assert_eq!(Interest::check(&changed).unwrap_err().fault, Fault::DigestMismatch);
    }

    #[test]
    fn data_is_read_back(
        name in any_name(0..8),
        content in vec(any::<u8>(), 0..400),
        content_type: u64,
        freshness_ms: u64,
        last: Option<u64>,
    ) {
        let last = last.map(|n| Name::new().with_segment(n));
        let mut builder =
            DataBuilder::new(&name, &content).content_type(content_type).freshness_ms(freshness_ms);
        if let Some(last) = &last {
            builder = builder.final_block_of(last.as_ref());
        }
        let wire = builder.encode(&DigestSha256).unwrap();
        let seen = Data::check(&wire).unwrap();
        prop_assert_eq!(seen.name(), name.as_ref());
        prop_assert_eq!(seen.content(), &content[..]);
        prop_assert_eq!((seen.content_type(), seen.freshness_ms()), (content_type, freshness_ms));
        prop_assert_eq!(seen.final_block(), last.as_ref().and_then(|n| n.as_ref().component(0)));
        prop_assert_eq!(&sha256(&[seen.signed_portion()])[..], seen.signature_value());
        assert_cuts_refused(&wire, |cut| Data::check(cut).map(drop));
    }

    #[test]
    fn link_packet_is_read_back(
        header in any_header(), acks in vec(any::<u64>(), 0..4), payload in vec(any::<u8>(), 1..300)
    ) {
        let header = LpHeader { acks: &acks, ..header };
        let mut wire = vec![];
        header.encode(payload.len(), &mut wire);
        wire.extend_from_slice(&payload);
        let seen = LpPacket::check(&wire).unwrap();
        prop_assert_eq!(seen.fragment, Some(&payload[..]));
        prop_assert_eq!(&wire[seen.fragment_start..], &payload[..]);
        prop_assert_eq!(seen.sequence, header.sequence);
        prop_assert_eq!((seen.frag_index, seen.frag_count), header.fragment.unwrap_or((0, 1)));
        prop_assert_eq!(seen.pit_token, header.pit_token);
        prop_assert_eq!((seen.nack, seen.no_cache), (header.nack, header.no_cache));
        let faces = (seen.incoming_face_id, seen.next_hop_face_id);
        prop_assert_eq!(faces, (header.incoming_face_id, header.next_hop_face_id));
        prop_assert_eq!(seen.congestion_mark, header.congestion_mark);
        prop_assert_eq!(seen.tx_sequence, header.tx_sequence);
        prop_assert_eq!(seen.acks().collect::<Vec<_>>(), acks.clone());
        prop_assert_eq!(seen.non_discovery, header.non_discovery);
        prop_assert_eq!(seen.receive_window_kib, header.receive_window_kib);
        assert_cuts_refused(&wire, |cut| LpPacket::check(cut).map(drop));
    }

    #[test]
    fn prefix_hashes_equal_name_hashes(ask in any_ask(), secret: [u64; 4]) {
        let key = HashKey::new(secret);
        let wire = ask.build().encode();
        let mut prefixes = PrefixHashes::new(&key);
        let seen = Interest::check_hashing(&wire, &key, &mut prefixes).unwrap();
        prop_assert_eq!(prefixes.full_hash(), key.name(seen.name()));
        prop_assert_eq!(prefixes.count(), seen.name().len());
    }

    /// The fast form returns what the full check returns, whatever follows the packet and whichever
    /// byte was changed.
    #[test]
    fn fast_and_slow_interest_parsing_agree(
        ask in any_ask(), at: proptest::sample::Index, to: Option<u8>, tail in vec(any::<u8>(), 0..40)
    ) {
        let mut wire = ask.build().encode();
        if let Some(to) = to {
            let at = at.index(wire.len());
            wire[at] = to;
        }
        let buffer = [&wire[..], &tail].concat();
        let (mut prefixes, mut expected) = (PrefixHashes::new(&KEY), PrefixHashes::new(&KEY));
        let fields = InterestFields::check(PaddedPacket::new(&buffer, wire.len()), &KEY, &mut prefixes);
        let checked = Interest::check_hashing(&wire, &KEY, &mut expected);
        match (fields, checked) {
            (Ok(fields), Ok(checked)) => {
                let name = fields.name.in_bytes(&wire);
                prop_assert_eq!(name, checked.name().as_bytes());
                prop_assert_eq!(fields.forwarding_hint, checked.forwarding_hint_span());
                prop_assert_eq!(usize::from(fields.nonce_start), checked.nonce_start().unwrap_or(0));
                prop_assert_eq!(fields.nonce, checked.nonce().unwrap_or(0));
                prop_assert_eq!(usize::from(fields.hop_limit_start), checked.hop_limit_start().unwrap_or(0));
                prop_assert_eq!(u64::from(fields.lifetime_ms), checked.lifetime_ms().min(u32::MAX.into()));
                let flags = (checked.can_be_prefix(), checked.must_be_fresh());
                prop_assert_eq!((fields.can_be_prefix, fields.must_be_fresh), flags);
                prop_assert_eq!((prefixes.full_hash(), prefixes.count()), (expected.full_hash(), expected.count()));
            }
            (fields, checked) => prop_assert_eq!(fields.err(), checked.err()),
        }
    }

    #[test]
    fn fast_and_slow_data_parsing_agree(
        name in any_name(0..8),
        content in vec(any::<u8>(), 0..600),
        content_type in 0..300u64,
        freshness_ms in prop_oneof![Just(0), 0..70_000u64, any::<u64>()],
        last in proptest::option::of(any::<u8>()),
        at: proptest::sample::Index,
        to: Option<u8>,
        tail in vec(any::<u8>(), 0..40),
    ) {
        let last = last.map(|last| nw_name::Name::new().with_generic([last]));
        let mut data =
            DataBuilder::new(&name, &content).content_type(content_type).freshness_ms(freshness_ms);
        if let Some(last) = &last {
            data = data.final_block_of(last.as_ref());
        }
        let mut wire = data.encode(&DigestSha256).unwrap();
        if let Some(to) = to {
            let at = at.index(wire.len());
            wire[at] = to;
        }
        let buffer = [&wire[..], &tail].concat();
        let (mut prefixes, mut expected) = (PrefixHashes::new(&KEY), PrefixHashes::new(&KEY));
        let fields = DataFields::check(PaddedPacket::new(&buffer, wire.len()), &KEY, &mut prefixes);
        let checked = Data::check_hashing(&wire, &KEY, &mut expected);
        match (fields, checked) {
            (Ok(fields), Ok(checked)) => {
                let name = fields.name.in_bytes(&wire);
                prop_assert_eq!(name, checked.name().as_bytes());
                prop_assert_eq!(u64::from(fields.freshness_ms), checked.freshness_ms().min(u32::MAX.into()));
                prop_assert_eq!((prefixes.full_hash(), prefixes.count()), (expected.full_hash(), expected.count()));
            }
            (fields, checked) => prop_assert_eq!(fields.err(), checked.err()),
        }
        // The name later makes no difference.
        let mut later = PrefixHashes::of(&KEY, "/some/other/name".parse::<Name>().unwrap().as_ref());
        let packet = PaddedPacket::new(&buffer, wire.len());
        let read = match DataFields::parse_fast(&wire) {
            Some(fields) => read_name(packet, fields.name, &KEY, &mut later).map(|()| fields),
            None => DataFields::parse_slow(&wire, &KEY, &mut later),
        };
        prop_assert_eq!(read, fields);
        if fields.is_ok() {
            prop_assert_eq!(later.full_hash(), prefixes.full_hash());
            prop_assert_eq!(later.lookup_hash(), prefixes.lookup_hash());
            prop_assert_eq!(later.count(), prefixes.count());
        }
    }

    #[test]
    fn any_bytes_do_not_panic(
        bytes in vec(any::<u8>(), 0..200), first in prop_oneof![Just(5u8), Just(6), Just(100), any::<u8>()]
    ) {
        let mut bytes = bytes;
        bytes.insert(0, first);
        let _: Result<_, nw_wire::Error> = Interest::check(&bytes);
        let _: Result<_, nw_wire::Error> = Data::check(&bytes);
        let _: Result<_, nw_wire::Error> = LpPacket::check(&bytes);
        let _: Result<_, nw_wire::Error> = Certificate::check(&bytes);
    }

    /// Faults point into the input.
    #[test]
    fn error_offset_is_within_the_input(ask in any_ask(), at: proptest::sample::Index, to: u8) {
        let mut wire = ask.build().encode();
        let at = at.index(wire.len());
        wire[at] = to;
        if let Err(e) = Interest::check(&wire) {
            prop_assert!(e.offset <= wire.len(), "{e}");
        }
    }
}
