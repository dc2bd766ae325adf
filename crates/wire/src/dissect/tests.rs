use super::*;
use crate::{DataBuilder, DigestSha256, InterestBuilder, LpHeader, NackReason, Token};
use nw_name::Name;
use nw_name::tlv::{push_integer, push_tlv};
use proptest::prelude::*;

fn text(bytes: &[u8]) -> String {
    let mut out = String::new();
    dissect(bytes, &mut out, Options::default()).unwrap();
    out
}

fn name(uri: &str) -> Name {
    uri.parse().unwrap()
}

fn element(typ: u32, value: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    push_tlv(typ, value, &mut out);
    out
}

fn data(uri: &str, content: &[u8]) -> Vec<u8> {
    DataBuilder::new(&name(uri), content).encode(&DigestSha256).unwrap()
}

#[test]
fn nack_in_lp_packet_is_printed_as_tree() {
    let interest =
        InterestBuilder::new(name("/a/b")).can_be_prefix(true).nonce(1).lifetime_ms(4000).encode();
    let mut wire = Vec::new();
    let header = LpHeader {
        pit_token: Token::new(&[0xab, 1]).unwrap(),
        nack: Some(NackReason::NoRoute),
        ..LpHeader::default()
    };
    header.encode(interest.len(), &mut wire);
    wire.extend_from_slice(&interest);
    let expected = "    0  LpPacket (100), 37 bytes
    2    PitToken (98), 2 bytes: ab01
    6    Nack (800), 5 bytes
   10      NackReason (801), 1 byte: 150 (NoRoute)
   15    Fragment (80), 22 bytes
   17      Interest (5), 20 bytes
   19        Name (7), 6 bytes: /a/b
   27        CanBePrefix (33), 0 bytes
   29        Nonce (10), 4 bytes: 00000001
   35        InterestLifetime (12), 2 bytes: 4000 ms
";
    assert_eq!(text(&wire), expected);
}

#[test]
fn content_is_read_by_the_name_of_its_data() {
    let mut route = element(105, &[5]);
    push_integer(111, 65, &mut route);
    push_integer(106, 10, &mut route);
    push_integer(108, 3, &mut route);
    let entry = [element(7, &element(8, b"p")), element(129, &route)].concat();
    let shown = text(&data("/localhost/nfd/rib/list/v=1/seg=0", &element(128, &entry)));
    for line in [
        "RibEntry (128)",
        "Route (129)",
        "Origin (111), 1 byte: 65 (client)",
        "Flags (108), 1 byte: 0x3 child-inherit capture",
        "Name (7), 3 bytes: /p",
    ] {
        assert!(shown.contains(line), "{line} in\n{shown}");
    }
    let status = [element(128, b"nw 0.1"), element(130, &[0; 8])].concat();
    let shown = text(&data("/localhost/nfd/status/general/v=1/seg=0", &status));
    assert!(shown.contains("NfdVersion (128), 6 bytes: \"nw 0.1\""), "{shown}");
    assert!(shown.contains("CurrentTimestamp (130), 8 bytes: 0 ms since 1970"), "{shown}");
    let response = element(101, &[element(102, &[200]), element(103, b"OK")].concat());
    let shown = text(&data("/localhost/nfd/rib/register/x", &response));
    assert!(shown.contains("StatusCode (102), 1 byte: 200"), "{shown}");
    // The same bytes under another name are shown as bytes or text.
    assert!(!text(&data("/a", &response)).contains("StatusCode"));
    assert!(text(&data("/a", b"hello")).contains("Content (21), 5 bytes: \"hello\""));
    let metadata = element(7, &element(8, b"target"));
    assert!(text(&data("/a/32=metadata/v=1", &metadata)).contains(": /target"));
}

#[test]
fn parameters_in_command_name_are_shown() {
    let parameters = element(104, &[element(7, &element(8, b"p")), element(106, &[7])].concat());
    let command = name("/localhost/nfd/rib/register").with_generic(&parameters);
    let wire = InterestBuilder::new(command).encode();
    let shown = text(&wire);
    assert!(shown.contains("ControlParameters (104)"), "{shown}");
    assert!(shown.contains("Cost (106), 1 byte: 7"), "{shown}");
    let elsewhere =
        InterestBuilder::new(name("/a/nfd/rib/register").with_generic(&parameters)).encode();
    assert!(!text(&elsewhere).contains("ControlParameters"));
    // Offsets are relative to the packet.
    let at = wire.windows(2).position(|w| w == [106, 1]).unwrap();
    assert!(shown.contains(&format!("{at:>5}  ")), "{shown}");
}

#[test]
fn fault_is_shown_at_its_offset() {
    let truncated = [6, 8, 7, 3, 8, 1, b'a', 22, 9, 0];
    let shown = text(&truncated);
    assert!(shown.contains("    7    !! truncated"), "{shown}");
    assert_eq!(text(&[5, 9, 0]), "    0  !! truncated\n");
    assert_eq!(text(&[]), "");
    // A fault of the packet as a whole: the signature is missing.
    assert!(text(&[6, 5, 7, 3, 8, 1, b'a']).contains("!! missing_field"));
    // A lifetime of three bytes; the walk continues after it.
    let shown = text(&[5, 13, 7, 3, 8, 1, b'a', 12, 3, 0, 0, 1, 34, 1, 9]);
    assert!(
        shown.contains("!! number_length") && shown.contains("HopLimit (34), 1 byte: 9"),
        "{shown}"
    );
    let shown = text(&[5, 7, 7, 3, 8, 1, b'a', 251, 0]);
    assert!(shown.contains("!! unknown_critical") && shown.contains("unknown (251)"), "{shown}");
}

#[test]
fn fragment_is_shown_as_bytes() {
    let mut wire = Vec::new();
    let header = LpHeader { sequence: Some(1), fragment: Some((0, 2)), ..LpHeader::default() };
    header.encode(4, &mut wire);
    wire.extend_from_slice(&[5, 200, 7, 3]);
    let shown = text(&wire);
    assert!(shown.contains("Fragment (80), 4 bytes: 05c80703"), "{shown}");
}

#[test]
fn depth_lines_and_values_are_bounded() {
    let mut nested = vec![5, 0];
    for _ in 0..1000 {
        nested = element(100, &element(80, &nested));
    }
    let options = Options::default();
    assert!(lines(&nested, options).all(|line| line.depth < options.depth_max));
    let many = [5, 0].repeat(10_000);
    assert_eq!(lines(&many, options).count(), options.lines_max + 1);
    assert!(matches!(lines(&many, options).last().unwrap().value, Value::Cut));
    let long = element(99, &[0xff; 8000]);
    assert_eq!(text(&long), format!("    0  unknown (99), 8000 bytes: {}…\n", "ff".repeat(32)));
    let text_content = data("/a", "ä".repeat(1000).as_bytes());
    assert!(text(&text_content).contains(&format!("\"{}\"…", "ä".repeat(32))));
}

proptest! {
    #[test]
    fn any_bytes_do_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _: String = text(&bytes);
    }

    /// Mutated packets.
    #[test]
    fn mutated_packet_does_not_panic(at in 0usize..200, to: u8, cut in 0usize..200) {
        let parameters = element(104, &[element(7, &element(8, b"p")), element(106, &[7])].concat());
        let mut wire = data("/localhost/nfd/faces/list/v=1/seg=0", &element(128, &parameters));
        let len = wire.len();
        wire[at % len] = to;
        wire.truncate(len - cut % len);
        let _: String = text(&wire);
    }
}
