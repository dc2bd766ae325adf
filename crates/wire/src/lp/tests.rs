use super::*;
use nw_name::tlv::push_tlv;

const FRAGMENT: &[u8] = &[80, 2, 5, 0];

fn lp(fields: &[&[u8]]) -> Vec<u8> {
    let mut wire = Vec::new();
    push_tlv(t::LP_PACKET, &fields.concat(), &mut wire);
    wire
}

fn fault(fields: &[&[u8]]) -> Option<Fault> {
    LpPacket::check(&lp(fields)).err().map(|e| e.fault)
}

fn field(typ: u32, value: &[u8]) -> Vec<u8> {
    let mut wire = Vec::new();
    push_tlv(typ, value, &mut wire);
    wire
}

#[test]
fn bare_packet_is_its_own_fragment() {
    for bare in [&[5, 1, 0][..], &[6, 0]] {
        let packet = LpPacket::check(bare).unwrap();
        assert_eq!((packet.fragment, packet.fragment_start, packet.frag_count), (Some(bare), 0, 1));
    }
    assert_eq!(LpPacket::check(&[7, 0]).unwrap_err().fault, Fault::UnknownPacket);
    assert_eq!(LpPacket::check(&[]).unwrap_err().fault, Fault::Truncated);
    assert_eq!(LpPacket::check(&[5, 0, 5, 0]).unwrap_err(), Error::new(Fault::Trailing, 2));
    assert_eq!(LpPacket::check(&[5, 3, 0]).unwrap_err().fault, Fault::Truncated);
}

#[test]
fn idle_packet_has_no_fragment() {
    let wire = lp(&[]);
    assert_eq!(LpPacket::check(&wire).unwrap().fragment, None);
    let ack = field(t::LP_ACK, &7u64.to_be_bytes());
    let wire = lp(&[&ack]);
    assert_eq!(LpPacket::check(&wire).unwrap().acks().collect::<Vec<_>>(), [7]);
    assert_eq!(fault(&[&[80, 0]]), Some(Fault::FieldLength), "an empty Fragment is none");
}

#[test]
fn field_order_is_checked_and_fragment_is_last() {
    let token = field(t::LP_PIT_TOKEN, &[1]);
    let mark = field(t::LP_CONGESTION_MARK, &[1]);
    assert_eq!(fault(&[&token, &mark, FRAGMENT]), None);
    assert_eq!(fault(&[&mark, &token, FRAGMENT]), Some(Fault::FieldOrder));
    assert_eq!(fault(&[FRAGMENT, &token]), Some(Fault::FieldOrder));
    assert_eq!(fault(&[&token, FRAGMENT, FRAGMENT]), Some(Fault::FieldOrder));
}

#[test]
fn repeated_field_is_rejected_except_ack() {
    let eight = [0, 0, 0, 0, 0, 0, 0, 9];
    let once: [(u32, &[u8]); 9] = [
        (t::LP_SEQUENCE, &eight),
        (t::LP_FRAG_INDEX, &[0]),
        (t::LP_FRAG_COUNT, &[1]),
        (t::LP_PIT_TOKEN, &[1]),
        (t::LP_NACK, &[]),
        (t::LP_INCOMING_FACE_ID, &[1]),
        (t::LP_CACHE_POLICY, &[253, 3, 53, 1, 1]),
        (t::LP_TX_SEQUENCE, &eight),
        (t::LP_NON_DISCOVERY, &[]),
    ];
    for (typ, value) in once {
        let element = field(typ, value);
        assert_eq!(fault(&[&element, FRAGMENT]), None, "{typ}");
        assert_eq!(fault(&[&element, &element, FRAGMENT]), Some(Fault::FieldOrder), "{typ} twice");
    }
    let acks: Vec<_> = (0..50u64).map(|n| field(t::LP_ACK, &n.to_be_bytes())).collect();
    let wire = lp(&[&acks.concat(), FRAGMENT]);
    let packet = LpPacket::check(&wire).unwrap();
    assert_eq!(packet.acks().collect::<Vec<_>>(), (0..50).collect::<Vec<_>>());
}

#[test]
fn unknown_field_is_ignored_or_rejected_by_number() {
    for (typ, ignored) in [
        (1, false),
        (84, false),
        (97, false),
        (99, false),
        (101, false),
        (804, true),
        (956, true),
        (802, false),
        (805, false),
        (806, false),
        (959, false),
        (960, false),
        (796, false),
    ] {
        let expected = (!ignored).then_some(Fault::UnknownCritical);
        assert_eq!(fault(&[&field(typ, &[1]), FRAGMENT]), expected, "{typ}");
    }
    // Ignored fields must be in order too.
    assert_eq!(fault(&[&field(808, &[]), &field(804, &[])]), Some(Fault::FieldOrder));
}

#[test]
fn sequence_of_other_than_8_bytes_is_rejected() {
    for typ in [t::LP_SEQUENCE, t::LP_ACK, t::LP_TX_SEQUENCE] {
        for len in [0, 1, 4, 7, 9] {
            assert_eq!(
                fault(&[&field(typ, &vec![0; len])]),
                Some(Fault::FieldLength),
                "{typ} {len}"
            );
        }
    }
    let wire = lp(&[&field(t::LP_SEQUENCE, &[255; 8]), FRAGMENT]);
    assert_eq!(LpPacket::check(&wire).unwrap().sequence, Some(u64::MAX));
}

#[test]
fn token_of_1_to_32_bytes_is_accepted() {
    for len in 0..=40 {
        let wire = lp(&[&field(t::LP_PIT_TOKEN, &vec![7; len]), FRAGMENT]);
        match LpPacket::check(&wire) {
            Ok(packet) => assert_eq!(packet.pit_token.as_bytes(), vec![7; len]),
            Err(e) => assert!(e.fault == Fault::FieldLength && (len == 0 || len > 32), "{len}"),
        }
    }
    assert!(Token::new(&[0; 33]).is_none() && Token::new(&[]).unwrap().is_none());
    assert_eq!(format!("{:?}", Token::new(&[1, 0xff]).unwrap()), "01ff");
}

#[test]
fn nack_reasons() {
    let reason = |inside: &[u8]| {
        let wire = lp(&[&field(t::LP_NACK, inside), FRAGMENT]);
        LpPacket::check(&wire).map(|packet| packet.nack.unwrap()).map_err(|e| e.fault)
    };
    assert_eq!(reason(&[]), Ok(NackReason::None));
    for known in
        [NackReason::None, NackReason::Congestion, NackReason::Duplicate, NackReason::NoRoute]
    {
        assert_eq!(reason(&field(t::LP_NACK_REASON, &[known.number() as u8])), Ok(known));
    }
    assert_eq!(reason(&field(t::LP_NACK_REASON, &[151])), Ok(NackReason::None), "unknown");
    assert_eq!(reason(&field(t::LP_NACK_REASON, &[])), Err(Fault::NumberLength));
    let twice = field(t::LP_NACK_REASON, &[50]).repeat(2);
    assert_eq!(reason(&twice), Err(Fault::FieldOrder));
    assert_eq!(reason(&[253, 3, 34, 0]), Ok(NackReason::None), "unknown, non-critical");
    assert_eq!(reason(&[253, 3, 35, 0]), Err(Fault::UnknownCritical));
    assert_eq!(reason(&[253]), Err(Fault::Truncated));
    let mut by_severity =
        [NackReason::None, NackReason::NoRoute, NackReason::Duplicate, NackReason::Congestion];
    by_severity.sort_by_key(|reason| reason.severity());
    assert_eq!(by_severity.map(NackReason::as_str), ["Congestion", "Duplicate", "NoRoute", "None"]);
}

#[test]
fn cache_policies() {
    let policy = |inside: &[u8]| fault(&[&field(t::LP_CACHE_POLICY, inside), FRAGMENT]);
    assert_eq!(policy(&field(t::LP_CACHE_POLICY_TYPE, &[1])), None);
    assert_eq!(policy(&field(t::LP_CACHE_POLICY_TYPE, &[0, 1])), None);
    assert_eq!(policy(&field(t::LP_CACHE_POLICY_TYPE, &[2])), Some(Fault::FieldValue));
    assert_eq!(policy(&[]), Some(Fault::MissingField));
    assert_eq!(policy(&field(t::LP_CACHE_POLICY_TYPE, &[1]).repeat(2)), Some(Fault::FieldOrder));
    assert_eq!(policy(&[9, 0]), Some(Fault::UnknownCritical));
}

#[test]
fn fragments() {
    let sequence = field(t::LP_SEQUENCE, &[0; 8]);
    let with = |index: u64, count: u64| {
        let mut fields = sequence.clone();
        nw_name::tlv::push_integer(t::LP_FRAG_INDEX, index, &mut fields);
        nw_name::tlv::push_integer(t::LP_FRAG_COUNT, count, &mut fields);
        fault(&[&fields, FRAGMENT])
    };
    assert_eq!((with(0, 1), with(1, 2), with(399, 400)), (None, None, None));
    for (index, count) in [(0, 0), (2, 2), (0, 401), (400, 401), (0, 1 << 60), (u64::MAX, u64::MAX)]
    {
        assert_eq!(with(index, count), Some(Fault::FragmentIndex), "{index} of {count}");
    }
    let two = field(t::LP_FRAG_COUNT, &[2]);
    assert_eq!(fault(&[&two, FRAGMENT]), Some(Fault::MissingField), "no Sequence");
    assert_eq!(fault(&[&sequence, &two]), Some(Fault::MissingField), "no Fragment");
    assert_eq!(fault(&[&field(t::LP_FRAG_INDEX, &[1]), FRAGMENT]), Some(Fault::FragmentIndex));
    let wire = lp(&[&sequence, &two, FRAGMENT]);
    assert!(LpPacket::check(&wire).unwrap().is_fragmented());
}

#[test]
fn face_ids_and_announcement_are_read() {
    let announcement = field(t::LP_PREFIX_ANNOUNCEMENT, &[6, 0]);
    let faces =
        [field(t::LP_INCOMING_FACE_ID, &[1, 0]), field(t::LP_NEXT_HOP_FACE_ID, &[5])].concat();
    let wire = lp(&[&faces, &field(t::LP_NON_DISCOVERY, &[]), &announcement, FRAGMENT]);
    let packet = LpPacket::check(&wire).unwrap();
    assert_eq!((packet.incoming_face_id, packet.next_hop_face_id), (Some(256), Some(5)));
    assert_eq!((packet.non_discovery, packet.prefix_announcement), (true, Some(&[6, 0][..])));
    assert_eq!(&wire[packet.fragment_start..], [5, 0]);
    assert_eq!(fault(&[&field(t::LP_NON_DISCOVERY, &[0])]), Some(Fault::FieldLength));
    for typ in [t::LP_INCOMING_FACE_ID, t::LP_NEXT_HOP_FACE_ID, t::LP_CONGESTION_MARK] {
        assert_eq!(fault(&[&field(typ, &[0; 3])]), Some(Fault::NumberLength), "{typ}");
    }
}

#[test]
fn field_on_wrong_kind_of_packet_is_rejected() {
    let on = |element: Vec<u8>| {
        let wire = lp(&[&element, FRAGMENT]);
        let packet = LpPacket::check(&wire).unwrap();
        (packet.check_fields_on(t::INTEREST).is_ok(), packet.check_fields_on(t::DATA).is_ok())
    };
    let policy = field(t::LP_CACHE_POLICY, &field(t::LP_CACHE_POLICY_TYPE, &[1]));
    assert_eq!(on(policy), (false, true));
    assert_eq!(on(field(t::LP_PREFIX_ANNOUNCEMENT, &[6, 0])), (false, true));
    assert_eq!(on(field(t::LP_NACK, &[])), (true, false));
    assert_eq!(on(field(t::LP_NEXT_HOP_FACE_ID, &[1])), (true, false));
    assert_eq!(on(field(t::LP_NON_DISCOVERY, &[])), (true, false));
    for either in [t::LP_INCOMING_FACE_ID, t::LP_CONGESTION_MARK, t::LP_PIT_TOKEN] {
        assert_eq!(on(field(either, &[1])), (true, true));
    }
}

#[test]
fn deep_nesting_is_not_followed() {
    let mut wire = vec![5, 0];
    for _ in 0..1000 {
        wire = lp(&[&field(t::LP_FRAGMENT, &wire)]);
    }
    let mut inside = &wire[..];
    for _ in 0..1000 {
        inside = LpPacket::check(inside).unwrap().fragment.unwrap();
    }
    assert_eq!(inside, [5, 0]);
}

#[test]
fn short_token_form_round_trips() {
    for len in 0..=32usize {
        let bytes: Vec<u8> = (0..len).map(|i| 0xa0 | i as u8).collect();
        let token = Token::new(&bytes).unwrap();
        match token.to_short() {
            Some((short, short_len)) => {
                assert!(len <= 8);
                assert_eq!(Token::from_short(short, short_len), token);
                // Bytes beyond the length are not part of the token.
                let mut dirty = [0xff; 8];
                dirty[..len].copy_from_slice(&bytes);
                assert_eq!(Token::from_short(dirty, short_len), token);
            }
            None => assert!(len > 8),
        }
    }
}
