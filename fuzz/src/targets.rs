//! The fuzz targets for packets and names. The fuzzers call these functions, and so does the replay
//! of the corpora in `cargo test` (`crates/wire/tests/all/corpus.rs`), which also compares each
//! outcome with the one in the seed's file name.

use nw_name::{HashKey, Name, NameRef, PrefixHashes};
use nw_wire::certificate::Certificate;
use nw_wire::dissect::{self, Options};
use nw_wire::forwarding::{DataFields, InterestFields, PaddedPacket};
use nw_wire::tlv::frame;
use nw_wire::{Data, Error, Framing, Interest, LpHeader, LpPacket, PACKET_LEN_MAX};

/// Accepted, or refused for the named fault.
pub type Outcome = Result<(), &'static str>;

/// A target's name and function.
pub type Target = (&'static str, fn(&[u8]) -> Outcome);

/// Every target.
pub const ALL: [Target; 9] = [
    ("name", name),
    ("name_uri", name_uri),
    ("interest", interest),
    ("data", data),
    ("lp", lp),
    ("certificate", certificate),
    ("dissect", dissect),
    ("stream", stream),
    ("decode", decode),
];

const KEY: HashKey = HashKey::new([1, 2, 3, 4]);

fn refuse(bytes: &[u8], error: Error) -> &'static str {
    assert!(error.offset <= bytes.len(), "a fault outside of the input: {error}");
    error.fault.as_str()
}

/// Checks the TLV-VALUE of a name.
pub fn name(bytes: &[u8]) -> Outcome {
    let name = NameRef::check(bytes).map_err(|e| refuse(bytes, e))?;
    let rebuilt: Name = name.components().collect();
    assert_eq!(rebuilt.as_ref(), name);
    assert_eq!(name.to_string().parse::<Name>().as_ref(), Ok(&rebuilt));
    let prefixes = PrefixHashes::of(&KEY, name);
    assert_eq!((prefixes.full_hash(), prefixes.count()), (KEY.name(name), name.len()));
    assert!(name.prefix(name.len() / 2).is_prefix_of(name));
    Ok(())
}

/// Parses a name URI.
pub fn name_uri(bytes: &[u8]) -> Outcome {
    let uri = std::str::from_utf8(bytes).map_err(|_| "uri")?;
    let name: Name = uri.parse().map_err(|e: nw_name::uri::UriError| {
        assert!(e.offset <= uri.len());
        "uri"
    })?;
    assert!(NameRef::check(name.as_ref().as_bytes()).is_ok());
    assert_eq!(name.to_string().parse::<Name>().as_ref(), Ok(&name));
    Ok(())
}

/// Checks an Interest.
pub fn interest(bytes: &[u8]) -> Outcome {
    let interest = Interest::check(bytes).map_err(|e| refuse(bytes, e))?;
    let start = interest.name_start();
    assert_eq!(&bytes[start..start + interest.name().as_bytes().len()], interest.name().as_bytes());
    assert_eq!(
        interest.nonce_start().map(|at| bytes[at..at + 4].to_vec()),
        interest.nonce().map(|n| n.to_be_bytes().to_vec())
    );
    assert_eq!(interest.hop_limit_start().map(|at| bytes[at]), interest.hop_limit());
    assert_eq!(
        interest.forwarding_hint().next().is_some(),
        interest.forwarding_hint_span().is_some()
    );
    assert_eq!(interest.signature_info().is_some(), interest.signed_portion().is_some());
    assert_eq!(interest.signature_info().is_some(), interest.signature_value().is_some());
    assert!(interest.signature_info().is_none() || interest.parameters().is_some());
    assert!(interest.is_answered_by(interest.name(), || [0; 32]));
    refuse_cuts(bytes, |cut| Interest::check(cut).is_err());
    Ok(())
}

/// Checks a Data.
pub fn data(bytes: &[u8]) -> Outcome {
    let data = Data::check(bytes).map_err(|e| refuse(bytes, e))?;
    let start = data.name_start();
    assert_eq!(&bytes[start..start + data.name().as_bytes().len()], data.name().as_bytes());
    assert!(
        data.content().len() + data.signature_value().len() + data.signature_info().value().len()
            < bytes.len()
    );
    assert!(data.signed_portion().len() < bytes.len());
    if let Some(component) = data.final_block() {
        assert!(component.encoded_len() > 1);
    }
    refuse_cuts(bytes, |cut| Data::check(cut).is_err());
    Ok(())
}

/// Checks a link packet, without its fragment.
pub fn lp(bytes: &[u8]) -> Outcome {
    let packet = LpPacket::check(bytes).map_err(|e| refuse(bytes, e))?;
    assert!(packet.frag_index < packet.frag_count && packet.frag_count <= 400);
    let acks: Vec<u64> = packet.acks().collect();
    let header = LpHeader {
        sequence: packet.sequence,
        fragment: (packet.frag_count > 1).then_some((packet.frag_index, packet.frag_count)),
        pit_token: packet.pit_token,
        nack: packet.nack,
        incoming_face_id: packet.incoming_face_id,
        next_hop_face_id: packet.next_hop_face_id,
        no_cache: packet.no_cache,
        congestion_mark: packet.congestion_mark,
        acks: &acks,
        tx_sequence: packet.tx_sequence,
        non_discovery: packet.non_discovery,
        prefix_announcement: packet.prefix_announcement,
        receive_window_kib: packet.receive_window_kib,
    };
    // Encoded and decoded again, it is the same.
    let payload = packet.fragment.unwrap_or(&[]);
    let mut again = Vec::new();
    header.encode(payload.len(), &mut again);
    again.extend_from_slice(payload);
    let second = LpPacket::check(&again).expect("an encoded packet is valid");
    assert_eq!((second.fragment, second.sequence), (packet.fragment, packet.sequence));
    assert_eq!((second.pit_token, second.nack), (packet.pit_token, packet.nack));
    assert_eq!(second.acks().collect::<Vec<_>>(), acks);
    assert_eq!(
        (second.congestion_mark, second.no_cache),
        (packet.congestion_mark, packet.no_cache)
    );
    assert_eq!(second.receive_window_kib, packet.receive_window_kib);
    refuse_cuts(bytes, |cut| LpPacket::check(cut).is_err());
    Ok(())
}

/// Checks a certificate's structure, without its signature.
pub fn certificate(bytes: &[u8]) -> Outcome {
    let certificate = Certificate::check(bytes).map_err(|e| refuse(bytes, e))?;
    assert!(certificate.identity().is_prefix_of(certificate.key_name()));
    assert!(certificate.key_name().is_prefix_of(certificate.data().name()));
    assert_eq!(certificate.identity().len() + 4, certificate.data().name().len());
    assert_eq!(certificate.data().name().component(-2), Some(certificate.issuer()));
    assert_eq!(certificate.validity().0.len(), 15);
    Ok(())
}

/// Prints the readable tree: every input has one, of bounded size.
pub fn dissect(bytes: &[u8]) -> Outcome {
    let options = Options { depth_max: 9, lines_max: 200, bytes_max: 16 };
    let lines: Vec<_> = dissect::lines(bytes, options).collect();
    assert!(lines.len() <= options.lines_max + 1);
    assert!(lines.iter().all(|line| line.depth < options.depth_max && line.offset <= bytes.len()));
    let mut text = String::new();
    dissect::dissect(bytes, &mut text, options).expect("a String takes all");
    assert_eq!(text.lines().count(), lines.len());
    Ok(())
}

/// Frames the first packet of a stream that arrives in pieces.
pub fn stream(bytes: &[u8]) -> Outcome {
    let whole = frame(bytes, PACKET_LEN_MAX).map_err(|e| refuse(bytes, e))?;
    if let Framing::Whole(len) = whole {
        assert!(len >= 2 && len <= bytes.len() && len <= PACKET_LEN_MAX);
    }
    // Fewer bytes give the same result, or `Partial` until the packet is complete.
    for end in 0..bytes.len().min(300) {
        match (frame(&bytes[..end], PACKET_LEN_MAX), whole) {
            (Ok(Framing::Partial), Framing::Whole(len)) => assert!(end < len),
            (Ok(Framing::Whole(short)), Framing::Whole(len)) => assert!(short == len && end >= len),
            (Ok(Framing::Partial), Framing::Partial) => {}
            outcome => panic!("{outcome:?} of the first {end} bytes"),
        }
    }
    Ok(())
}

/// Decodes a datagram as a router does: removes the link header, checks the packet and hashes
/// prefixes in the same pass.
pub fn decode(bytes: &[u8]) -> Outcome {
    let packet = LpPacket::check(bytes).map_err(|e| refuse(bytes, e))?;
    let Some(fragment) = packet.fragment.filter(|_| !packet.is_fragmented()) else { return Ok(()) };
    let mut prefixes = PrefixHashes::new(&KEY);
    let within = PaddedPacket::new(&bytes[packet.fragment_start..], fragment.len());
    let (place, name) = match fragment[0] {
        5 => (
            InterestFields::check(within, &KEY, &mut prefixes).map(|fields| fields.name),
            Interest::check(fragment).map(|interest| interest.name()),
        ),
        _ => (
            DataFields::check(within, &KEY, &mut prefixes).map(|fields| fields.name),
            Data::check(fragment).map(|data| data.name()),
        ),
    };
    assert_eq!(place.err(), name.err());
    let name = name.map_err(|e| refuse(fragment, e))?;
    let place = place.unwrap_or_default();
    assert_eq!(*place.in_bytes(fragment), *name.as_bytes());
    assert_eq!((prefixes.full_hash(), prefixes.count()), (KEY.name(name), name.len()));
    for count in 0..=prefixes.stored_len() {
        assert_eq!(prefixes.end(count), name.prefix(count).as_bytes().len());
    }
    Ok(())
}

/// Checks that no truncated input is accepted. Long inputs are cut at some places only, for speed.
fn refuse_cuts(bytes: &[u8], refused: impl Fn(&[u8]) -> bool) {
    (0..bytes.len())
        .step_by(1 + bytes.len() / 64)
        .for_each(|end| assert!(refused(&bytes[..end]), "cut at {end}"));
}
