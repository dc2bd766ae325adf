//! The decoder compared with tungstenite's own connection, and each fault that ends a connection.

use super::*;
use nw_element_api::Pool;
use nw_name::HashKey;
use proptest::prelude::*;
use std::cell::Cell;
use std::io::{Cursor, Read, Write};
use tungstenite::Message;
use tungstenite::protocol::{Role as TungsteniteRole, WebSocketConfig as TungsteniteConfig};

/// What the decoder made of a peer's bytes.
#[derive(Debug, Default, PartialEq, Eq)]
struct Decoded {
    messages: Vec<Vec<u8>>,
    /// Bytes to send to the peer.
    answers: Vec<u8>,
    end: Option<ConnectionEnd>,
}

/// Decodes bytes that arrive in pieces of these lengths.
fn decode(role: Role, bytes: &[u8], cuts: &[usize]) -> Decoded {
    let mut pool = Pool::new(HashKey::new([1, 2, 3, 4]), 4, 256);
    let mut socket = WebSocket { role, ..WebSocket::server() };
    let (mut decoded, mut answers, mut carried) = (Decoded::default(), Vec::new(), Vec::new());
    let (mut remaining, mut cuts) = (bytes, cuts.iter().cycle());
    while !remaining.is_empty() {
        let (now, later) = remaining.split_at(remaining.len().min(*cuts.next().unwrap()));
        remaining = later;
        let chunk = pool.take_chunk().unwrap();
        let filled = carried.len() + now.len();
        pool.chunk_bytes_mut(&chunk)[..filled].copy_from_slice(&[&carried[..], now].concat());
        let mut each = |packet: Option<Packet>, pool: &mut Pool| {
            let packet = packet.expect("there is room");
            decoded.messages.push(pool.bytes(&packet).to_vec());
            pool.release(packet);
        };
        let (at, result) = socket.read_messages(
            &chunk,
            filled,
            &mut pool,
            (&mut answers, &Cell::new(usize::MAX)),
            &mut each,
        );
        carried = pool.chunk_bytes(&chunk)[at..filled].to_vec();
        pool.release_chunk(chunk);
        assert!(result.is_err() || carried.len() < frame::HEAD_LEN_MAX + LINK_PACKET_LEN_MAX);
        assert!(
            socket
                .partial_message
                .as_ref()
                .is_none_or(|partial| partial.len() <= LINK_PACKET_LEN_MAX)
        );
        if let Err(reason) = result {
            decoded.end = Some(reason);
            break;
        }
    }
    decoded.answers = answers;
    decoded
}

/// A stream over bytes to read and a buffer for written ones.
struct MemoryStream<'a>(Cursor<&'a [u8]>, Vec<u8>);

impl Read for MemoryStream<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Write for MemoryStream<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.1.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The reference: returns the messages before the first that is not binary, and whether all bytes
/// were read without an error.
fn decode_with_tungstenite(bytes: &[u8]) -> (Vec<Vec<u8>>, bool) {
    let config = TungsteniteConfig::default()
        .max_message_size(Some(LINK_PACKET_LEN_MAX))
        .max_frame_size(Some(LINK_PACKET_LEN_MAX));
    let stream = MemoryStream(Cursor::new(bytes), Vec::new());
    let mut socket =
        tungstenite::WebSocket::from_raw_socket(stream, TungsteniteRole::Server, Some(config));
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

/// A frame as a peer might encode it.
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
        out.extend(self.mask.unwrap_or_default().iter().take(if self.mask.is_some() {
            4
        } else {
            0
        }));
        let mask = self.mask.unwrap_or_default();
        out.extend(self.payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    }
}

fn frames(frames: &[(u8, &[u8])]) -> Vec<u8> {
    let mut out = Vec::new();
    for (first, payload) in frames {
        Frame { first: *first, payload: payload.to_vec(), mask: Some([1, 2, 3, 250]) }
            .push(&mut out);
    }
    out
}

fn any_frame() -> impl Strategy<Value = Frame> {
    // Binary messages, their first, middle and last parts, pings, pongs, and sometimes an invalid
    // frame; no text, which the reference accepts.
    let first = prop_oneof![
        20 => Just(0x82u8),
        6 => Just(0x02),
        6 => Just(0x00),
        6 => Just(0x80),
        4 => Just(0x89),
        2 => Just(0x8a),
        1 => prop_oneof![Just(0x09u8), Just(0xc2), Just(0x83), Just(0x8b), Just(0x8f)],
    ];
    let len = prop_oneof![
        30 => 0usize..130,
        5 => 8000usize..8820,
        1 => Just(LINK_PACKET_LEN_MAX),
        1 => 9000usize..70_000,
    ];
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
    fn messages_equal_tungstenite_for_any_split(
        sent in proptest::collection::vec(any_frame(), 1..40),
        cuts in proptest::collection::vec(1usize..12_000, 1..20),
    ) {
        let mut bytes = Vec::new();
        sent.iter().for_each(|frame| frame.push(&mut bytes));
        let decoded = decode(Role::Server, &bytes, &cuts);
        let (messages, whole) = decode_with_tungstenite(&bytes);
        prop_assert_eq!(&decoded.messages, &messages);
        prop_assert_eq!(decoded.end.is_none(), whole, "{:?}", decoded.end);
    }

    #[test]
    fn any_bytes_decode_as_with_tungstenite(
        mut bytes in proptest::collection::vec(any::<u8>(), 1..200),
        cut in 1usize..50,
    ) {
        // Most inputs should be long valid: binary and masked.
        bytes[0] = bytes[0] & 0x80 | 2;
        if let Some(second) = bytes.get_mut(1) {
            *second |= 0x80;
        }
        let decoded = decode(Role::Server, &bytes, &[cut]);
        let (messages, _) = decode_with_tungstenite(&bytes);
        let text_or_close = matches!(
            decoded.end,
            Some(ConnectionEnd::Fault(WebSocketFault::Text) | ConnectionEnd::PeerClosed)
        );
        prop_assert!(decoded.messages == messages || text_or_close);
    }

    #[test]
    fn mask_applied_twice_restores_bytes(
        bytes in proptest::collection::vec(any::<u8>(), 0..100),
        key in any::<[u8; 4]>(),
    ) {
        let mut masked = bytes.clone();
        frame::mask(&mut masked, Some(key));
        let mut pairs = masked.iter().zip(&bytes).enumerate();
        prop_assert!(pairs.all(|(at, (masked, byte))| masked ^ byte == key[at % 4]));
        frame::mask(&mut masked, Some(key));
        prop_assert_eq!(masked, bytes);
    }

    #[test]
    fn encoded_head_parses_to_itself(
        len in prop_oneof![0usize..200, 60_000usize..70_000],
        key in any::<[u8; 4]>(),
    ) {
        for (role, key) in [(Role::Server, Some(key)), (Role::Client, None)] {
            let bytes = frame::encode_head(Kind::Binary, len, key);
            let expected = frame::Head {
                len: bytes.len(),
                payload_len: len,
                kind: Kind::Binary,
                is_final: true,
                mask: key,
            };
            prop_assert_eq!(frame::parse_head(&bytes, role), Ok(Some(expected)));
            prop_assert_eq!(frame::parse_head(&bytes[..bytes.len() - 1], role), Ok(None));
        }
    }
}

#[test]
fn fault_ends_connection_with_its_code() {
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
        let decoded = decode(Role::Server, &bytes, &[7, 1000]);
        assert_eq!((decoded.end, decoded.messages.len()), (Some(ConnectionEnd::Fault(fault)), 0));
        assert_eq!((fault.code(), fault.as_str().len() <= CONTROL_LEN_MAX - 2), (code, true));
    }
    assert_eq!(
        decode(Role::Client, &frames(&[(0x82, b"")]), &[9]).end,
        Some(ConnectionEnd::Fault(WebSocketFault::Mask))
    );
}

#[test]
fn ping_within_message_is_answered_and_close_is_echoed() {
    let sent = frames(&[
        (0x02, b"one "),
        (0x89, b"there?"),
        (0x00, b"and "),
        (0x80, b"two"),
        (0x88, &[0x0f, 0xa0, b'x']),
    ]);
    let decoded = decode(Role::Server, &sent, &[3]);
    assert_eq!(decoded.messages, [b"one and two".to_vec()]);
    let pong = [&[0x8a, 6][..], b"there?"].concat();
    assert_eq!(decoded.answers, [&pong[..], &[0x88, 2, 0x0f, 0xa0]].concat());
    assert_eq!(decoded.end, Some(ConnectionEnd::PeerClosed));
}

#[test]
fn pongs_to_peer_that_does_not_read_are_bounded() {
    let pings = frames(&[(0x89, &[0; 125][..]); 2000]);
    let decoded = decode(Role::Server, &pings, &[60_000]);
    assert!(decoded.end.is_none());
    assert!(
        (60_000..ANSWERS_MAX + 200).contains(&decoded.answers.len()),
        "{}",
        decoded.answers.len()
    );
}
