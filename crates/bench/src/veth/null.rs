//! The reference of `forward/veth`: receives and sends the same packets by the same calls as a
//! router's UDP faces, batches of equal lengths as one call, without a lookup.

use anyhow::Result;
use nw_faces::raw::{self, Message, RECEIVED_MAX, Received};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::sockopt;
use std::io::IoSlice;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;

/// Receive calls before packets are sent, and bytes per call, as in the router.
const READS: usize = 4;
const READ_LEN: usize = 64 << 10;
const RECEIVE_BUFFER: usize = 8 << 20;
const SEND_BUFFER: usize = 4 << 20;
/// Maximum number of datagrams per send call.
const GROUP_MAX: usize = 64;

/// Forwards datagrams between two peers until the process is ended.
///
/// # Errors
/// If a system call fails.
pub fn forward(at: SocketAddr, one: SocketAddr, other: SocketAddr) -> Result<()> {
    let socket = UdpSocket::bind(at)?;
    if sockopt::set_socket_recv_buffer_size_force(&socket, RECEIVE_BUFFER).is_err() {
        sockopt::set_socket_recv_buffer_size(&socket, RECEIVE_BUFFER)?;
    }
    sockopt::set_socket_send_buffer_size(&socket, SEND_BUFFER)?;
    raw::set_gro(socket.as_fd(), true);
    let mut memory = vec![0; READS * RECEIVED_MAX * READ_LEN];
    loop {
        poll(&mut [PollFd::new(&socket, PollFlags::IN)], None)?;
        let mut came = Vec::with_capacity(READS * RECEIVED_MAX);
        for (read, memory) in memory.chunks_exact_mut(RECEIVED_MAX * READ_LEN).enumerate() {
            let mut received = [Received::NONE; RECEIVED_MAX];
            let mut places = memory.chunks_exact_mut(READ_LEN);
            let buffers: [&mut [u8]; RECEIVED_MAX] =
                core::array::from_fn(|_| places.next().unwrap_or_default());
            let count = raw::receive(socket.as_fd(), buffers, &mut received).unwrap_or(0);
            let first = read * RECEIVED_MAX;
            came.extend(
                received[..count]
                    .iter()
                    .enumerate()
                    .map(|(n, message)| ((first + n) * READ_LEN, *message)),
            );
            if count < RECEIVED_MAX {
                break;
            }
        }
        let (pieces, messages) =
            group_by_length(&memory, &came, |from| if from == one { other } else { one });
        let mut at = 0;
        while at < messages.len() {
            match raw::send(socket.as_fd(), &messages[at..], &pieces) {
                Ok(sent) => at += sent,
                // Lost, as on a wire.
                Err(_) => at += 1,
            }
        }
    }
}

/// Groups received datagrams by peer and length for segmentation offload.
fn group_by_length<'a>(
    memory: &'a [u8],
    came: &[(usize, Received)],
    to: impl Fn(SocketAddr) -> SocketAddr,
) -> (Vec<IoSlice<'a>>, Vec<Message>) {
    let (mut pieces, mut messages) = (Vec::<IoSlice<'a>>::new(), Vec::<Message>::new());
    // Length and number of the group's datagrams, and whether it may grow.
    let (mut len, mut count, mut open) = (0, 0, false);
    for (start, message) in came {
        let peer = Some(to(message.peer));
        for at in (0..message.len).step_by(message.stride) {
            let datagram = &memory[start + at..start + (at + message.stride).min(message.len)];
            let last = messages.last_mut().filter(|last| {
                open && last.peer == peer && datagram.len() <= len && count < GROUP_MAX
            });
            pieces.push(IoSlice::new(datagram));
            match last {
                Some(last) => {
                    last.pieces.1 = pieces.len();
                    last.segment = Some(len as u16);
                    count += 1;
                    open = datagram.len() == len;
                }
                None => {
                    messages.push(Message {
                        peer,
                        pieces: (pieces.len() - 1, pieces.len()),
                        segment: None,
                    });
                    (len, count, open) = (datagram.len(), 1, true);
                }
            }
        }
    }
    (pieces, messages)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_end_at_shorter_other_peer_or_longer() {
        let memory = vec![0; 4 * READ_LEN];
        let [a, b] = ["127.0.0.1:1", "127.0.0.1:2"].map(|at| at.parse().unwrap());
        let message = |peer, len, stride| Received { peer, len, stride, truncated: false };
        let came = [
            (0, message(a, 250, 100)),
            (READ_LEN, message(a, 70, 70)),
            (2 * READ_LEN, message(b, 70, 70)),
            (3 * READ_LEN, message(b, 71, 71)),
        ];
        let (pieces, messages) =
            group_by_length(&memory, &came, |from| if from == a { b } else { a });
        let seen: Vec<_> =
            messages.iter().map(|m| (m.peer.unwrap(), m.pieces, m.segment)).collect();
        assert_eq!(
            seen,
            [(b, (0, 3), Some(100)), (b, (3, 4), None), (a, (4, 5), None), (a, (5, 6), None)]
        );
        assert_eq!(pieces.iter().map(|piece| piece.len()).sum::<usize>(), 250 + 70 + 70 + 71);
    }
}
