use super::*;
use crate::signature::DigestSha256;
use nw_name::Name;
use nw_name::tlv::push_tlv;

/// The Name element of `/a`.
const NAME: &[u8] = &[7, 3, 8, 1, b'a'];
const NONCE: &[u8] = &[10, 4, 1, 2, 3, 4];

fn interest(fields: &[&[u8]]) -> Vec<u8> {
    let mut wire = Vec::new();
    push_tlv(t::INTEREST, &fields.concat(), &mut wire);
    wire
}

fn fault(fields: &[&[u8]]) -> Option<Fault> {
    Interest::check(&interest(fields)).err().map(|e| e.fault)
}

fn name(uri: &str) -> Name {
    uri.parse().unwrap()
}

/// An Interest named `before`, the digest of `tail`, and `after`.
fn with_digest(before: &str, after: &str, tail: &[u8]) -> Vec<u8> {
    let digest = sha256(&[tail]);
    let component =
        nw_name::Component::new(nw_name::ComponentType::PARAMETERS_DIGEST, &digest).unwrap();
    let mut element = Vec::new();
    name(before).with(component).with_name(name(after).as_ref()).as_ref().encode(&mut element);
    interest(&[&element, NONCE, tail])
}

#[test]
fn all_fields_are_read() {
    let wire = InterestBuilder::new(name("/a/b"))
        .can_be_prefix(true)
        .must_be_fresh(true)
        .forwarding_hint(name("/h1"))
        .forwarding_hint(name("/h2"))
        .nonce(0x0102_0304)
        .lifetime_ms(1000)
        .hop_limit(9)
        .parameters(*b"pp")
        .encode();
    let seen = Interest::check(&wire).unwrap();
    assert_eq!(seen.name().prefix(2), name("/a/b").as_ref());
    assert!(seen.can_be_prefix() && seen.must_be_fresh());
    let hints: Vec<_> = seen.forwarding_hint().map(|n| n.to_string()).collect();
    assert_eq!(hints, ["/h1", "/h2"]);
    assert_eq!(
        (seen.nonce(), seen.lifetime_ms(), seen.hop_limit()),
        (Some(0x0102_0304), 1000, Some(9))
    );
    assert_eq!(seen.parameters(), Some(&b"pp"[..]));
    assert_eq!(wire[seen.hop_limit_start().unwrap()], 9);
    assert_eq!(wire[seen.nonce_start().unwrap()..][..4], [1, 2, 3, 4]);
    assert_eq!(&wire[seen.name_start()..][..seen.name().as_bytes().len()], seen.name().as_bytes());
    assert_eq!(seen.forwarding_hint_span().len, 12);
    assert!(seen.signature_info().is_none() && seen.signed_portion().is_none());
}

#[test]
fn absent_fields_have_their_defaults() {
    let wire = interest(&[NAME]);
    let seen = Interest::check(&wire).unwrap();
    assert!(!seen.can_be_prefix() && !seen.must_be_fresh());
    assert_eq!((seen.nonce(), seen.nonce_start(), seen.hop_limit()), (None, None, None));
    assert_eq!(seen.lifetime_ms(), LIFETIME_DEFAULT_MS);
    assert_eq!((seen.parameters(), seen.forwarding_hint_span()), (None, Span::NONE));
    assert_eq!(seen.forwarding_hint().count(), 0);
    // A present empty field is not absent.
    let wire = with_digest("/a", "/", &[36, 0]);
    assert_eq!(Interest::check(&wire).unwrap().parameters(), Some(&[][..]));
}

#[test]
fn name_must_be_first_single_and_not_empty() {
    assert_eq!(fault(&[]), Some(Fault::MissingField));
    assert_eq!(fault(&[NONCE, NAME]), Some(Fault::MissingField));
    assert_eq!(fault(&[&[7, 0]]), Some(Fault::NameEmpty));
    assert_eq!(fault(&[NAME, NAME]), Some(Fault::FieldOrder));
}

#[test]
fn critical_field_out_of_order_or_repeated_is_rejected() {
    let fields: [&[u8]; 5] = [&[33, 0], &[18, 0], &[30, 5, 7, 3, 8, 1, b'h'], NONCE, &[12, 1, 9]];
    for (i, first) in fields.iter().enumerate() {
        for second in &fields[..=i] {
            // All these fields are critical by their numbers.
            assert_eq!(
                fault(&[NAME, first, second]),
                Some(Fault::FieldOrder),
                "{first:?} {second:?}"
            );
            assert_eq!(fault(&[NAME, first, second, &[34, 1, 5]]), Some(Fault::FieldOrder));
        }
        for second in &fields[i + 1..] {
            assert_eq!(fault(&[NAME, first, second]), None, "{first:?} {second:?}");
        }
    }
}

#[test]
fn non_critical_field_out_of_order_is_ignored() {
    let wire = interest(&[NAME, NONCE, &[34, 1, 7], &[34, 1, 3]]);
    assert_eq!(Interest::check(&wire).unwrap().hop_limit(), Some(7));
    // Even if they are malformed.
    assert_eq!(fault(&[NAME, &[34, 1, 7], &[34, 2, 3, 3]]), None);
    // HopLimit after ApplicationParameters, and a second ApplicationParameters: the first ones
    // count.
    let wire = with_digest("/a", "/", &[36, 1, b'x', 34, 1, 9, 36, 1, b'y']);
    let seen = Interest::check(&wire).unwrap();
    assert_eq!((seen.hop_limit(), seen.parameters()), (None, Some(&b"x"[..])));
}

#[test]
fn unknown_critical_field_is_rejected() {
    for (typ, critical) in
        [(1u8, true), (31, true), (35, true), (251, true), (32, false), (48, false), (250, false)]
    {
        let expected = critical.then_some(Fault::UnknownCritical);
        assert_eq!(fault(&[NAME, &[typ, 1, 0], NONCE]), expected, "{typ}");
        assert_eq!(fault(&[NAME, NONCE, &[typ, 1, 0]]), expected, "{typ}");
    }
    assert_eq!(fault(&[NAME, &[253, 1, 1, 0]]), Some(Fault::UnknownCritical));
    assert_eq!(fault(&[NAME, &[253, 1, 0, 0]]), None);
    // No element may precede the name.
    assert_eq!(fault(&[&[32, 0], NAME]), Some(Fault::MissingField));
}

#[test]
fn field_of_wrong_size_is_rejected() {
    assert_eq!(fault(&[NAME, &[33, 1, 0]]), Some(Fault::FieldLength));
    assert_eq!(fault(&[NAME, &[18, 1, 0]]), Some(Fault::FieldLength));
    for len in [0u8, 1, 2, 3, 5, 8] {
        let nonce = [&[10, len][..], &[0; 8][..usize::from(len)]].concat();
        assert_eq!(fault(&[NAME, &nonce]), Some(Fault::FieldLength), "Nonce of {len}");
    }
    for len in 0u8..=9 {
        let lifetime = [&[12, len][..], &[0; 9][..usize::from(len)]].concat();
        let expected = (![1, 2, 4, 8].contains(&len)).then_some(Fault::NumberLength);
        assert_eq!(fault(&[NAME, &lifetime]), expected, "InterestLifetime of {len}");
    }
    assert_eq!(fault(&[NAME, &[34, 0]]), Some(Fault::FieldLength));
    assert_eq!(fault(&[NAME, &[34, 2, 1, 1]]), Some(Fault::FieldLength));
}

#[test]
fn forwarding_hints() {
    assert_eq!(fault(&[NAME, &[30, 0]]), Some(Fault::MissingField));
    assert_eq!(fault(&[NAME, &[30, 2, 32, 0]]), Some(Fault::MissingField));
    assert_eq!(fault(&[NAME, &[30, 2, 11, 0]]), Some(Fault::UnknownCritical));
    assert_eq!(fault(&[NAME, &[30, 3, 7, 2, 8]]), Some(Fault::Truncated));
    assert_eq!(fault(&[NAME, &[30, 4, 7, 2, 8, 9]]), Some(Fault::Truncated));
    // A Delegation of packet format 0.2: preference and name.
    let wire = interest(&[NAME, &[30, 10, 31, 8, 30, 1, 9, 7, 3, 8, 1, b'd']]);
    let hints: Vec<_> =
        Interest::check(&wire).unwrap().forwarding_hint().map(|n| n.to_string()).collect();
    assert_eq!(hints, ["/d"]);
    assert_eq!(fault(&[NAME, &[30, 5, 31, 3, 30, 1, 9]]), Some(Fault::MissingField));
}

#[test]
fn parameters_digest_is_checked() {
    let tail = [36, 2, 1, 2];
    let good = with_digest("/a", "/", &tail);
    assert!(Interest::check(&good).is_ok());
    assert!(Interest::check(&with_digest("/a", "/b", &tail)).is_ok(), "it need not be last");
    let mut other = good.clone();
    *other.last_mut().unwrap() ^= 1;
    let at = other.len() - tail.len() - NONCE.len() - DIGEST_COMPONENT_LEN;
    assert_eq!(Interest::check(&other).unwrap_err(), Error::new(Fault::DigestMismatch, at));
    assert_eq!(fault(&[NAME, &tail]), Some(Fault::DigestPlace), "parameters without digest");
    let digest_uri = format!("/params-sha256={}", "00".repeat(32));
    let mut element = Vec::new();
    name(&digest_uri).as_ref().encode(&mut element);
    assert_eq!(fault(&[&element]), Some(Fault::DigestPlace), "digest without parameters");
    let twice = with_digest("/a", &digest_uri, &tail);
    let second_at = at + DIGEST_COMPONENT_LEN;
    assert_eq!(Interest::check(&twice).unwrap_err(), Error::new(Fault::DigestPlace, second_at));
    // All elements after the parameters are covered, known or not.
    assert!(Interest::check(&with_digest("/a", "/", &[36, 0, 250, 1, 7])).is_ok());
    assert_eq!(fault(&[&[7, 35, 2, 33], &[0; 33], &tail]), Some(Fault::DigestLength));
}

#[test]
fn signed_interests() {
    let wire = InterestBuilder::new(name("/a/b"))
        .parameters(*b"p")
        .encode_signed(&DigestSha256, &[38, 1, 7]);
    let wire = wire.unwrap();
    let seen = Interest::check(&wire).unwrap();
    let info = seen.signature_info().unwrap();
    assert_eq!((info.nonce(), info.value()), (Some(&[7][..]), &[27, 1, 0, 38, 1, 7][..]));
    let parts = seen.signed_portion().unwrap();
    assert_eq!(sha256(&parts), seen.signature_value().unwrap());
    assert_eq!(parts[0], name("/a/b").as_ref().as_bytes());
    assert!(parts[1].is_empty());
    assert_eq!(parts[2], [36, 1, b'p', 44, 6, 27, 1, 0, 38, 1, 7]);
}

#[test]
fn incomplete_signature_is_rejected() {
    let (parameters, info, value): (&[u8], &[u8], &[u8]) =
        (&[36, 0], &[44, 3, 27, 1, 0], &[46, 1, 9]);
    let fault = |tail: &[&[u8]]| {
        Interest::check(&with_digest("/a", "/", &tail.concat())).err().map(|e| e.fault)
    };
    assert_eq!(fault(&[parameters, info, value]), None);
    assert_eq!(fault(&[parameters, info]), Some(Fault::SignatureIncomplete));
    assert_eq!(fault(&[parameters, value]), Some(Fault::SignatureIncomplete));
    assert_eq!(fault(&[parameters, value, info]), Some(Fault::SignatureIncomplete));
    assert_eq!(fault(&[info, value]), Some(Fault::SignatureIncomplete), "no parameters");
    assert_eq!(fault(&[parameters, &[44, 0], value]), Some(Fault::MissingField));
}

#[test]
fn interest_is_answered_by_matching_names() {
    let digest = [7; 32];
    let full = name("/a/b")
        .with(nw_name::Component::new(nw_name::ComponentType::IMPLICIT_DIGEST, &digest).unwrap());
    let answers = |asked: &Name, prefix: bool, data: &str, digest: [u8; 32]| {
        let wire = InterestBuilder::new(asked.clone()).can_be_prefix(prefix).encode();
        Interest::check(&wire).unwrap().is_answered_by(name(data).as_ref(), || digest)
    };
    assert!(answers(&name("/a/b"), false, "/a/b", digest));
    assert!(!answers(&name("/a"), false, "/a/b", digest));
    assert!(answers(&name("/a"), true, "/a/b", digest));
    assert!(!answers(&name("/a/c"), true, "/a/b", digest));
    assert!(answers(&full, false, "/a/b", digest));
    assert!(answers(&full, true, "/a/b", digest));
    assert!(!answers(&full, false, "/a/b", [8; 32]));
    assert!(!answers(&full, true, "/a", digest));
}

#[test]
fn malformed_outermost_element_is_rejected() {
    assert_eq!(Interest::check(&[]).unwrap_err(), Error::new(Fault::Truncated, 0));
    assert_eq!(Interest::check(&[6, 0]).unwrap_err(), Error::new(Fault::UnknownPacket, 0));
    let mut wire = interest(&[NAME]);
    wire.push(0);
    assert_eq!(Interest::check(&wire).unwrap_err(), Error::new(Fault::Trailing, 7));
    assert_eq!(
        Interest::check(&[253, 0, 5, 5, 7, 3, 8, 1, b'a']).unwrap_err().fault,
        Fault::NumberNotMinimal
    );
    assert_eq!(
        Interest::check(&[5, 253, 0, 5, 7, 3, 8, 1, b'a']).unwrap_err().fault,
        Fault::NumberNotMinimal
    );
    assert_eq!(
        Interest::check(&[5, 255, 255, 255, 255, 255, 255, 255, 255, 255]).unwrap_err(),
        Error::new(Fault::Truncated, 0)
    );
}

#[test]
fn packet_over_8800_bytes_is_rejected() {
    let sized = |len: usize| InterestBuilder::new(name("/a")).parameters(vec![0; len]).encode();
    let content_len = 8800 - sized(8000).len() + 8000;
    assert_eq!(sized(content_len).len(), 8800);
    assert!(Interest::check(&sized(content_len)).is_ok());
    assert_eq!(Interest::check(&sized(content_len + 1)).unwrap_err().fault, Fault::TooLong);
}
