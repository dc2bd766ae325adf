//! The decoder against tungstenite's own connection, and what ends one.

use super::*;
use nw_element_api::Pool;
use nw_name::HashKey;
use proptest::prelude::*;
use std::cell::Cell;
use std::io::{Cursor, Read, Write};
use tungstenite::Message;
use tungstenite::protocol::{Role as TheirRole, WebSocketConfig as TheirConfig};

/// What a peer's octets came to.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    messages: Vec<Vec<u8>>,
    /// What was answered, as it goes to the peer.
    answers: Vec<u8>,
    end: Option<CloseReason>,
}

/// Reads octets that come in pieces of these lengths.
fn ours(role: Role, bytes: &[u8], cuts: &[usize]) -> Seen {
    let mut pool = Pool::new(HashKey::new([1, 2, 3, 4]), 4, 256);
    let mut socket = WebSocket { role, ..WebSocket::accepted() };
    let (mut seen, mut answers, mut carry) = (Seen::default(), ByteQueue::default(), Vec::new());
    let (mut rest, mut cuts) = (bytes, cuts.iter().cycle());
    while !rest.is_empty() {
        let (now, later) = rest.split_at(rest.len().min(*cuts.next().unwrap()));
        rest = later;
        let chunk = pool.take_chunk().unwrap();
        let filled = carry.len() + now.len();
        pool.chunk_bytes_mut(&chunk)[..filled].copy_from_slice(&[&carry[..], now].concat());
        let mut each = |packet: Option<Packet>, pool: &mut Pool| {
            let packet = packet.expect("there is room");
            seen.messages.push(pool.bytes(&packet).to_vec());
            pool.release(packet);
        };
        let (at, result) =
            socket.cut(&chunk, filled, &mut pool, (&mut answers, &Cell::new(usize::MAX)), &mut each);
        carry = pool.chunk_bytes(&chunk)[at..filled].to_vec();
        pool.release_chunk(chunk);
        assert!(result.is_err() || carry.len() < frame::HEAD_LEN_MAX + LINK_PACKET_LEN_MAX);
        assert!(socket.begun.as_ref().is_none_or(|begun| begun.len() <= LINK_PACKET_LEN_MAX));
        if let Err(reason) = result {
            seen.end = Some(reason);
            break;
        }
    }
    seen.answers = answers.slices().collect::<Vec<_>>().concat();
    seen
}

/// Octets to read, and what is written.
struct Line<'a>(Cursor<&'a [u8]>, Vec<u8>);

impl Read for Line<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Write for Line<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.1.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The reference: messages until the first that is no binary one, and whether it came to the end of the octets without complaint.
fn theirs(bytes: &[u8]) -> (Vec<Vec<u8>>, bool) {
    let config = TheirConfig::default()
        .max_message_size(Some(LINK_PACKET_LEN_MAX))
        .max_frame_size(Some(LINK_PACKET_LEN_MAX));
    let line = Line(Cursor::new(bytes), Vec::new());
    let mut socket = tungstenite::WebSocket::from_raw_socket(line, TheirRole::Server, Some(config));
    let mut messages = Vec::new();
    loop {
        match socket.read() {
            Ok(Message::Binary(message)) => messages.push(message.to_vec()),
            Ok(Message::Ping(_) | Message::Pong(_)) => {}
            Ok(_) => return (messages, false),
            Err(tungstenite::Error::Protocol(
                tungstenite::error::ProtocolError::ResetWithoutClosingHandshake,
            )) => {
                return (messages, true);
            }
            Err(_) => return (messages, false),
        }
    }
}

/// A frame as a peer might write it.
#[derive(Clone, Debug)]
struct Frame {
    first: u8,
    payload: Vec<u8>,
    mask: Option<[u8; 4]>,
}

impl Frame {
    fn push(&self, out: &mut Vec<u8>) {
        out.push(self.first);
        let masked = if self.mask.is_some() { 0x80 } else { 0 };
        match self.payload.len() {
            len @ 0..126 => out.push(masked | len as u8),
            len @ 126..0x1_0000 => {
                out.push(masked | 126);
                out.extend((len as u16).to_be_bytes());
            }
            len => {
                out.push(masked | 127);
                out.extend((len as u64).to_be_bytes());
            }
        }
        out.extend(self.mask.unwrap_or_default().iter().take(if self.mask.is_some() { 4 } else { 0 }));
        let mask = self.mask.unwrap_or_default();
        out.extend(self.payload.iter().zip(mask.iter().cycle()).map(|(octet, mask)| octet ^ mask));
    }
}

fn frames(frames: &[(u8, &[u8])]) -> Vec<u8> {
    let mut out = Vec::new();
    for (first, payload) in frames {
        Frame { first: *first, payload: payload.to_vec(), mask: Some([1, 2, 3, 250]) }.push(&mut out);
    }
    out
}

fn some_frame() -> impl Strategy<Value = Frame> {
    // Binary, its beginning, a middle, an end, ping, pong, seldom something that is wrong; no text, which the reference takes.
    let first = prop_oneof![
        20 => Just(0x82u8),
        6 => Just(0x02),
        6 => Just(0x00),
        6 => Just(0x80),
        4 => Just(0x89),
        2 => Just(0x8a),
        1 => prop_oneof![Just(0x09u8), Just(0xc2), Just(0x83), Just(0x8b), Just(0x8f)],
    ];
    let len = prop_oneof![30 => 0usize..130, 5 => 8000usize..8820, 1 => Just(LINK_PACKET_LEN_MAX), 1 => 9000usize..70_000];
    let mask = prop_oneof![60 => any::<[u8; 4]>().prop_map(Some), 1 => Just(None)];
    (first, len, mask, any::<u8>()).prop_map(|(first, len, mask, fill)| Frame {
        first,
        payload: (0..len).map(|at| (at as u8).wrapping_mul(3) ^ fill).collect(),
        mask,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn messages_are_those_that_the_reference_reads_however_they_are_cut(
        sent in proptest::collection::vec(some_frame(), 1..40),
        cuts in proptest::collection::vec(1usize..12_000, 1..20),
    ) {
        let mut bytes = Vec::new();
        sent.iter().for_each(|frame| frame.push(&mut bytes));
        let seen = ours(Role::Server, &bytes, &cuts);
        let (messages, whole) = theirs(&bytes);
        prop_assert_eq!(&seen.messages, &messages);
        prop_assert_eq!(seen.end.is_none(), whole, "{:?}", seen.end);
    }

    #[test]
    fn any_octets_are_read_as_the_reference_reads_them(
        mut bytes in proptest::collection::vec(any::<u8>(), 1..200),
        cut in 1usize..50,
    ) {
        // Most are to go on for a while: binary, and masked.
        bytes[0] = bytes[0] & 0x80 | 2;
        if let Some(second) = bytes.get_mut(1) {
            *second |= 0x80;
        }
        let seen = ours(Role::Server, &bytes, &[cut]);
        let (messages, _) = theirs(&bytes);
        let text_or_close = matches!(seen.end, Some(CloseReason::WebSocket(WebSocketFault::Text) | CloseReason::PeerClosed));
        prop_assert!(seen.messages == messages || text_or_close);
    }

    #[test]
    fn masks_come_off_as_they_went_on(bytes in proptest::collection::vec(any::<u8>(), 0..100), key in any::<[u8; 4]>()) {
        let mut masked = bytes.clone();
        frame::mask(&mut masked, Some(key));
        prop_assert!(masked.iter().zip(&bytes).enumerate().all(|(at, (masked, octet))| masked ^ octet == key[at % 4]));
        frame::mask(&mut masked, Some(key));
        prop_assert_eq!(masked, bytes);
    }

    #[test]
    fn heads_are_read_as_they_are_written(len in prop_oneof![0usize..200, 60_000usize..70_000], key in any::<[u8; 4]>()) {
        for (role, key) in [(Role::Server, Some(key)), (Role::Client, None)] {
            let octets = frame::head_of(Kind::Binary, len, key);
            let expected = frame::Head { len: octets.len(), payload_len: len, kind: Kind::Binary, is_final: true, mask: key };
            prop_assert_eq!(frame::head(&octets, role), Ok(Some(expected)));
            prop_assert_eq!(frame::head(&octets[..octets.len() - 1], role), Ok(None));
        }
    }
}

#[test]
fn each_fault_ends_the_connection_with_its_code() {
    let long = vec![0; LINK_PACKET_LEN_MAX + 1];
    let half = &long[..LINK_PACKET_LEN_MAX / 2 + 1];
    for (fault, code, bytes) in [
        (WebSocketFault::Text, 1003, frames(&[(0x81, b"hello")])),
        (WebSocketFault::TooLong, 1009, frames(&[(0x82, &long)])),
        (WebSocketFault::TooLong, 1009, frames(&[(0x02, half), (0x80, half)])),
        (
            WebSocketFault::TooLong,
            1009,
            vec![0x82, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 2, 3, 4],
        ),
        (WebSocketFault::Mask, 1002, vec![0x82, 1, 0]),
        (WebSocketFault::Frame, 1002, frames(&[(0xc2, b"")])),
        (WebSocketFault::Frame, 1002, frames(&[(0x83, b"")])),
        (WebSocketFault::Control, 1002, frames(&[(0x89, &[0; 126])])),
        (WebSocketFault::Control, 1002, frames(&[(0x09, b"")])),
        (WebSocketFault::Order, 1002, frames(&[(0x80, b"")])),
        (WebSocketFault::Order, 1002, frames(&[(0x02, b"a"), (0x82, b"b")])),
        (WebSocketFault::Close, 1002, frames(&[(0x88, &[3])])),
        (WebSocketFault::Close, 1002, frames(&[(0x88, &1005u16.to_be_bytes())])),
    ] {
        let seen = ours(Role::Server, &bytes, &[7, 1000]);
        assert_eq!((seen.end, seen.messages.len()), (Some(CloseReason::WebSocket(fault)), 0));
        assert_eq!((fault.code(), fault.as_str().len() <= CONTROL_LEN_MAX - 2), (code, true));
    }
    assert_eq!(
        ours(Role::Client, &frames(&[(0x82, b"")]), &[9]).end,
        Some(CloseReason::WebSocket(WebSocketFault::Mask))
    );
}

#[test]
fn pings_are_answered_in_the_middle_of_a_message_and_a_close_comes_back() {
    let sent = frames(&[
        (0x02, b"one "),
        (0x89, b"there?"),
        (0x00, b"and "),
        (0x80, b"two"),
        (0x88, &[0x0f, 0xa0, b'x']),
    ]);
    let seen = ours(Role::Server, &sent, &[3]);
    assert_eq!(seen.messages, [b"one and two".to_vec()]);
    let pong = [&[0x8a, 6][..], b"there?"].concat();
    assert_eq!(seen.answers, [&pong[..], &[0x88, 2, 0x0f, 0xa0]].concat());
    assert_eq!(seen.end, Some(CloseReason::PeerClosed));
}

#[test]
fn answers_to_a_peer_that_does_not_read_are_bounded() {
    let pings = frames(&[(0x89, &[0; 125][..]); 2000]);
    let seen = ours(Role::Server, &pings, &[60_000]);
    assert!(seen.end.is_none());
    assert!((60_000..ANSWERS_MAX + 200).contains(&seen.answers.len()), "{}", seen.answers.len());
}
