//! Ethernet: frames to packets, and the faces of network cards.

use super::Faces;
use super::interfaces::interface_of;
use crate::config::FaceOptions;
use crate::datagram::ether::{self, ETHERTYPE_NDN, EthernetInterface};
use crate::datagram::sys::{self, Received};
use crate::datagram::{DatagramSocket, Medium, Peer};
use crate::error::FaceError;
use core::ops::Range;
use nw_element_api::{Chunk, DropCause, DropReason, FaceId, Packet, Pool, Timestamp};
use nw_link::{DropRecorder, FaceUri, Mac, Source};
use nw_wire::{Fault, LpPacket};
use rustix::io::Errno;
use std::os::fd::AsFd;

/// Frames of ordinary length per call, into one chunk.
const FRAMES: usize = 16;
/// Long frames per call.
const LONG_FRAMES: usize = 4;
/// Length above which a frame is long, bytes.
const ORDINARY_LEN: usize = 4096;

impl Faces {
    /// Receives frames of an interface. Returns whether there may be more.
    pub(super) fn read_frames(
        &mut self,
        now: Timestamp,
        index: usize,
        pool: &mut Pool,
        batch: &mut Vec<Packet>,
    ) -> bool {
        let Some(Some(DatagramSocket { medium: Medium::Ether(ethernet), .. })) =
            self.sockets.get(index)
        else {
            return false;
        };
        let (own, group, len_max) = (ethernet.mac, ethernet.group, ethernet.frame_len_max());
        if len_max <= ORDINARY_LEN {
            self.read_batch::<FRAMES>(now, index, (own, group), len_max, pool, batch)
        } else {
            self.read_batch::<LONG_FRAMES>(now, index, (own, group), len_max, pool, batch)
        }
    }

    fn read_batch<const N: usize>(
        &mut self,
        now: Timestamp,
        index: usize,
        (own, group): (Mac, Mac),
        len_max: usize,
        pool: &mut Pool,
        batch: &mut Vec<Packet>,
    ) -> bool {
        let Some(Some(socket)) = self.sockets.get_mut(index) else { return false };
        // Without a chunk nothing is read: the kernel keeps the frames.
        let Some(chunk) = pool.take_chunk() else { return false };
        let mut slots = pool.chunk_bytes_mut(&chunk).chunks_exact_mut(len_max);
        let buffers = core::array::from_fn(|_| slots.next().unwrap_or_default());
        let mut received = [Received::NONE; N];
        let count = match sys::receive(socket.socket.as_fd(), buffers, &mut received) {
            Ok(count) => count,
            Err(errno) => {
                pool.release_chunk(chunk);
                return errno == Errno::INTR;
            }
        };
        if count == N {
            socket.sample_buffer();
        } else {
            socket.congested = false;
        }
        let congested = socket.congested;
        for (at, message) in received[..count].iter().enumerate() {
            let start = at * len_max;
            if message.truncated {
                self.count_unattributed(index, DropReason::Malformed(Fault::Truncated), 1);
                continue;
            }
            let range = start..start + message.len;
            let (id, range, sender) =
                match self.face_of_frame_in(now, index, (own, group), &chunk, range, pool) {
                    Ok(found) => found,
                    Err(reason) => {
                        self.count_unattributed(index, reason, 1);
                        continue;
                    }
                };
            let Some(face) = self.slots.get_mut(id) else { continue };
            face.last_received = now;
            let source = Source { face: id, local: false, congested, sender };
            let mut drops = DropRecorder { face: &mut face.counters, total: &mut self.drops };
            match pool.packet_in(&chunk, range) {
                Some(packet) => {
                    batch.extend(face.link.receive(
                        now,
                        packet,
                        source,
                        pool,
                        &mut self.budget,
                        &mut drops,
                    ));
                }
                None => drops.record(DropCause::NoBuffer, 1),
            }
            self.arm_link(id, Timestamp::START);
        }
        pool.release_chunk(chunk);
        count == N
    }

    /// Returns the face of a frame in a chunk, the range of its packet, and the number that
    /// distinguishes the senders to the group.
    #[inline]
    fn face_of_frame_in(
        &mut self,
        now: Timestamp,
        index: usize,
        (own, group): (Mac, Mac),
        chunk: &Chunk,
        range: Range<usize>,
        pool: &mut Pool,
    ) -> Result<(FaceId, Range<usize>, u64), DropReason> {
        let start = range.start;
        let frame = ether::read(&pool.chunk_bytes(chunk)[range], ETHERTYPE_NDN);
        // A switch may send back our own frames.
        let Some(frame) = frame.filter(|frame| frame.source != own) else {
            return Err(DropReason::Malformed(Fault::UnknownPacket));
        };
        let range = start + frame.packet.start..start + frame.packet.end;
        let to_group = frame.destination == group;
        let peer = Peer::Mac(if to_group { group } else { frame.source });
        let is_packet = LpPacket::check(&pool.chunk_bytes(chunk)[range.clone()]).map(drop);
        let id = self.peer_face(now, index, peer, is_packet, pool)?;
        let sender = if to_group { Peer::Mac(frame.source).sender_number() } else { 0 };
        Ok((id, range, sender))
    }

    /// Creates a face to a network card, or to the group, on the interface that `local` names.
    pub(super) fn connect_ether(
        &mut self,
        now: Timestamp,
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
        let ethernet = EthernetInterface::new(&interface, group, policy.vlan)?;
        if mac == ethernet.mac || mac == Mac([0; 6]) {
            return Err(FaceError::Scheme(FaceUri::Ether(mac)));
        }
        let index = self.open_ethernet(ethernet, false)?;
        self.add_member(now, index, Peer::Mac(mac), options)
    }

    /// Returns the socket of an interface and VLAN, opened if necessary.
    pub(super) fn open_ethernet(
        &mut self,
        ethernet: EthernetInterface,
        listening: bool,
    ) -> Result<usize, FaceError> {
        let known = |socket: &DatagramSocket| match &socket.medium {
            Medium::Ether(known)
                if (known.interface, known.vlan) == (ethernet.interface, ethernet.vlan) =>
            {
                Some(known.group)
            }
            _ => None,
        };
        let mut sockets = self.sockets.iter().enumerate();
        let found = sockets.find_map(|(at, socket)| Some((at, known(socket.as_ref()?)?)));
        match found {
            Some((index, group)) => {
                if group != ethernet.group {
                    return Err(FaceError::OtherGroup(group));
                }
                if let Some(socket) = &mut self.sockets[index] {
                    socket.listening |= listening;
                }
                Ok(index)
            }
            None => self.add_socket(DatagramSocket::ether(ethernet, listening, &self.config)?),
        }
    }

    /// Adds a face to a socket that is closed with its last face.
    pub(super) fn add_member(
        &mut self,
        now: Timestamp,
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
