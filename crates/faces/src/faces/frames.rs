//! Ethernet: from frames to packets, and how faces of network cards come to be.

use super::Faces;
use super::interfaces::interface_of;
use crate::config::FaceOptions;
use crate::datagram::ether::{self, Port};
use crate::datagram::sys::{self, Received};
use crate::datagram::{DatagramSocket, Medium, Peer};
use crate::error::FaceError;
use crate::link::{Source, Tally};
use crate::mac::Mac;
use crate::uri::FaceUri;
use nw_element_api::{Cause, DropReason, FaceId, Instant, Packet, Pool};
use nw_wire::{Fault, LpPacket};
use rustix::io::Errno;
use std::os::fd::AsFd;

/// Frames of usual length received in one call, into one chunk.
const FRAMES: usize = 16;
/// Long ones.
const LONG_FRAMES: usize = 4;
/// Longer ones are long.
const USUAL_LEN: usize = 4096;

impl Faces {
    /// Receives frames of an interface; true when there may be more.
    pub(super) fn read_frames(
        &mut self,
        now: Instant,
        index: usize,
        pool: &mut Pool,
        batch: &mut Vec<Packet>,
    ) -> bool {
        let Some(Some(DatagramSocket { medium: Medium::Ether(port), .. })) = self.sockets.get(index) else {
            return false;
        };
        let (own, group, len_max) = (port.mac, port.group, port.frame_len_max());
        if len_max <= USUAL_LEN {
            self.read_some::<FRAMES>(now, index, (own, group), len_max, pool, batch)
        } else {
            self.read_some::<LONG_FRAMES>(now, index, (own, group), len_max, pool, batch)
        }
    }

    fn read_some<const N: usize>(
        &mut self,
        now: Instant,
        index: usize,
        (own, group): (Mac, Mac),
        len_max: usize,
        pool: &mut Pool,
        batch: &mut Vec<Packet>,
    ) -> bool {
        let Some(Some(socket)) = self.sockets.get_mut(index) else { return false };
        // Without a chunk nothing is read: the kernel keeps it.
        let Some(chunk) = pool.take_chunk() else { return false };
        let mut places = pool.chunk_bytes_mut(&chunk).chunks_exact_mut(len_max);
        let buffers = core::array::from_fn(|_| places.next().unwrap_or_default());
        let mut received = [Received::NONE; N];
        let count = match sys::receive(socket.socket.as_fd(), buffers, &mut received) {
            Ok(count) => count,
            Err(errno) => {
                pool.release_chunk(chunk);
                return errno == Errno::INTR;
            }
        };
        if count == N {
            socket.look_at_buffer();
        } else {
            socket.congested = false;
        }
        let congested = socket.congested;
        for (at, message) in received[..count].iter().enumerate() {
            let start = at * len_max;
            if message.truncated {
                self.unheard(index, DropReason::Malformed(Fault::Truncated), 1);
                continue;
            }
            let frame = ether::read(&pool.chunk_bytes(&chunk)[start..start + message.len]);
            // What a switch sends back to us was ours.
            let Some(frame) = frame.filter(|frame| frame.source != own) else {
                self.unheard(index, DropReason::Malformed(Fault::UnknownPacket), 1);
                continue;
            };
            let range = start + frame.packet.start..start + frame.packet.end;
            let to_group = frame.destination == group;
            let peer = Peer::Mac(if to_group { group } else { frame.source });
            let is_packet = LpPacket::check(&pool.chunk_bytes(&chunk)[range.clone()]).map(drop);
            let id = match self.peer_face(now, index, peer, is_packet, pool) {
                Ok(id) => id,
                Err(reason) => {
                    self.unheard(index, reason, 1);
                    continue;
                }
            };
            let Some(face) = self.slots.get_mut(id) else { continue };
            face.heard = now;
            let sender = if to_group { Peer::Mac(frame.source).mark() } else { 0 };
            let source = Source { face: id, local: false, congested, sender };
            let mut tally = Tally { face: &mut face.counters, all: &mut self.drops };
            match pool.packet_in(&chunk, range) {
                Some(packet) => {
                    batch.extend(face.link.receive(now, packet, source, pool, &mut self.budget, &mut tally));
                }
                None => tally.drops(Cause::NoBuffer, 1),
            }
            self.arm_link(id, Instant::START);
        }
        pool.release_chunk(chunk);
        count == N
    }

    /// Makes a face to a network card, or to the group, on the interface that `local` names.
    pub(super) fn connect_ether(
        &mut self,
        now: Instant,
        mac: Mac,
        local: Option<&FaceUri>,
        options: &FaceOptions,
    ) -> Result<FaceId, FaceError> {
        let Some(FaceUri::Dev(name)) = local else {
            return Err(FaceError::InterfaceNeeded(FaceUri::Ether(mac)));
        };
        let interface = interface_of(self.watch_interfaces()?, name)?.clone();
        let policy = self.interfaces.ether_policy();
        let group = if mac.is_group() { mac } else { policy.group };
        let port = Port::new(&interface, group, policy.vlan)?;
        if mac == port.mac || mac == Mac([0; 6]) {
            return Err(FaceError::Scheme(FaceUri::Ether(mac)));
        }
        let index = self.open_port(port, false)?;
        self.add_member(now, index, Peer::Mac(mac), options)
    }

    /// The socket of an interface and VLAN; opened if it is not yet.
    pub(super) fn open_port(&mut self, port: Port, listening: bool) -> Result<usize, FaceError> {
        let known = |socket: &DatagramSocket| match &socket.medium {
            Medium::Ether(known) if (known.interface, known.vlan) == (port.interface, port.vlan) => {
                Some(known.group)
            }
            _ => None,
        };
        let mut sockets = self.sockets.iter().enumerate();
        let found = sockets.find_map(|(at, socket)| Some((at, known(socket.as_ref()?)?)));
        match found {
            Some((index, group)) => {
                if group != port.group {
                    return Err(FaceError::OtherGroup(group));
                }
                if let Some(socket) = &mut self.sockets[index] {
                    socket.listening |= listening;
                }
                Ok(index)
            }
            None => self.add_socket(DatagramSocket::ether(port, listening, &self.config)?),
        }
    }

    /// A face of a socket that stays only as long as it has any.
    pub(super) fn add_member(
        &mut self,
        now: Instant,
        index: usize,
        peer: Peer,
        options: &FaceOptions,
    ) -> Result<FaceId, FaceError> {
        let known = self.sockets[index].as_ref().and_then(|socket| socket.peers.get(&peer));
        if let Some(id) = known {
            return Err(FaceError::Exists(*id));
        }
        let added = self.add_peer(now, index, peer, options);
        if added.is_err() {
            self.drop_socket_without_peers(index);
        }
        added
    }
}
