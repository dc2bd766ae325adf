//! Input of a WebSocket peer: a request, an answer to our request, or frames in pieces.
//! Replayed by `crates/faces/tests/all/corpus.rs`.

use nw_element_api::{Packet, Pool};
use nw_faces::queue::ByteQueue;
use nw_link::config::{LINK_PACKET_LEN_MAX, WebSocketConfig};
use nw_link::websocket::WebSocket;
use nw_link::websocket::frame::HEAD_LEN_MAX;
use nw_link::websocket::handshake::{
    ClientHandshake, HTTP_LEN_MAX, RequestOutcome, answer_request,
};
use nw_name::HashKey;
use std::cell::Cell;
use std::net::SocketAddr;

/// Runs one side of a connection. The first byte is the kind of the others: 0 a request, 1 an
/// answer, any other number: frames that arrive in chunks of this many bytes.
pub fn websocket(bytes: &[u8]) -> Result<(), &'static str> {
    let Some((kind, bytes)) = bytes.split_first() else { return Err("partial") };
    match kind {
        0 => request(bytes),
        1 => answer(bytes),
        chunk_len => frames(bytes, usize::from(*chunk_len)),
    }
}

fn request(bytes: &[u8]) -> Result<(), &'static str> {
    let peer = SocketAddr::from(([127, 0, 0, 1], 1));
    match answer_request(bytes, 0, peer, &WebSocketConfig::default()) {
        RequestOutcome::Accepted(_, answer) => {
            assert!(answer.starts_with(b"HTTP/1.1 101 ") && answer.ends_with(b"\r\n\r\n"));
            Ok(())
        }
        RequestOutcome::Partial => {
            assert!(bytes.len() < HTTP_LEN_MAX);
            Err("partial")
        }
        RequestOutcome::Refused(answer) => {
            assert!(answer.starts_with(b"HTTP/1.1 4"));
            Err("refused")
        }
    }
}

/// The key of an opening is random, so no answer is accepted.
fn answer(bytes: &[u8]) -> Result<(), &'static str> {
    let opening =
        ClientHandshake::new(SocketAddr::from(([127, 0, 0, 1], 9696)), "bm90IHRoZSBzYW1wbGUhIQ==");
    match opening.check_response(bytes) {
        Ok(None) => Err("partial"),
        Ok(Some(_)) => panic!("accepted an answer to another request"),
        Err(_) => Err("refused"),
    }
}

fn frames(bytes: &[u8], chunk_len: usize) -> Result<(), &'static str> {
    let mut pool = Pool::new(HashKey::new([1, 2, 3, 4]), 2, 64);
    let (mut socket, mut answers, mut carry) =
        (WebSocket::server(), ByteQueue::default(), Vec::new());
    for received in bytes.chunks(chunk_len) {
        let chunk = pool.take_chunk().expect("one is free");
        carry.extend_from_slice(received);
        pool.chunk_bytes_mut(&chunk)[..carry.len()].copy_from_slice(&carry);
        let mut deliver = |packet: Option<Packet>, pool: &mut Pool| {
            if let Some(packet) = packet {
                assert!(pool.bytes(&packet).len() <= LINK_PACKET_LEN_MAX);
                pool.release(packet);
            }
        };
        let (at, result) = socket.read_messages(
            &chunk,
            carry.len(),
            &mut pool,
            (&mut answers, &Cell::new(usize::MAX)),
            &mut deliver,
        );
        carry.drain(..at);
        pool.release_chunk(chunk);
        assert_eq!(pool.packets_in_use(), 0);
        if result.is_err() {
            return Err("ended");
        }
        assert!(carry.len() < HEAD_LEN_MAX + LINK_PACKET_LEN_MAX);
    }
    if carry.is_empty() { Ok(()) } else { Err("partial") }
}
