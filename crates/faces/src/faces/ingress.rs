//! From readiness of sockets to decoded packets.

use super::backpressure::Reading;
use super::face::{Face, Token, Transport};
use super::{ACCEPT_PAUSE, Faces, LAST_READS_MAX, Whence, watch_again, watch_stream};
use crate::config::FaceOptions;
use crate::datagram::sys::{self, Received};
use crate::datagram::{DatagramSocket, Medium, Peer};
use crate::link::{Source, Tally};
use crate::listener;
use crate::shares::Owner;
use crate::status::{CloseReason, Persistency};
use crate::stream::{READ_LEN_MAX, Stream};
use crate::timers::Timer;
use crate::uri::FaceUri;
use arrayvec::ArrayVec;
use core::time::Duration;
use nw_element_api::{Cause, DropReason, FaceId, Instant, Kind, Packet, Pool, Scope, SharedPool};
use nw_wire::{Fault, LpPacket};
use rustix::event::epoll::{self, EventFlags};
use rustix::io::Errno;
use std::cell::Cell;
use std::os::fd::{AsFd, OwnedFd};

/// A UDP socket for which the system had no room rests for so long.
const DRAIN_PAUSE: Duration = Duration::from_millis(1);

/// Packets that a UDP socket gives in one turn, but for those of one read.
const UDP_PACKETS_PER_TURN: usize = 128;

/// Messages of one read while the system merges many small datagrams into each.
const MERGED_MESSAGES: usize = 2;
/// Packets a message above which a read counts as merged.
const MERGED_PACKETS: usize = 16;

impl Faces {
    /// Serves a socket that epoll says is ready: accepts, reads, goes on with what waits to be written. Decoded packets are appended to
    /// `batch`; new faces are told by [`events`](Self::events), which the host takes in before the packets. A bounded amount of work: what is
    /// left makes epoll say so again.
    pub fn on_ready(
        &mut self,
        now: Instant,
        token: u64,
        flags: EventFlags,
        pool: &mut Pool,
        batch: &mut Vec<Packet>,
    ) {
        self.latest = now;
        match Token::from_bits(token) {
            Some(Token::Listener(index)) => self.accept(now, index, pool),
            Some(Token::Datagram(index)) => self.udp_ready(now, index as usize, flags, pool, batch),
            Some(Token::Interfaces) => self.interfaces_ready(now, pool),
            Some(Token::Xdp(queue)) => self.xdp_ready(now, queue, flags, pool, batch),
            Some(Token::Routes) => self.routes_ready(),
            Some(Token::Handshake(index)) => self.handshake_ready(now, index, pool),
            Some(Token::Face(id)) => self.stream_ready(now, id, flags, pool, batch),
            None => {}
        }
        self.take_last_packets(batch);
    }

    /// Takes in a link packet that the owner of the internal face sends; as if it had been received.
    pub fn inject(&mut self, now: Instant, link_packet: &[u8], pool: &mut Pool, batch: &mut Vec<Packet>) {
        let Some(face) = self.slots.get_mut(FaceId::INTERNAL) else { return };
        let mut tally = Tally { face: &mut face.counters, all: &mut self.drops };
        match pool.copy_of(link_packet) {
            Some(packet) => {
                let source = Source { face: FaceId::INTERNAL, local: true, congested: false, sender: 0 };
                batch.extend(face.link.receive(now, packet, source, pool, &mut self.budget, &mut tally));
            }
            None => tally.drops(Cause::NoBuffer, 1),
        }
        self.arm_link(FaceId::INTERNAL, Instant::START);
    }

    fn accept(&mut self, now: Instant, index: u32, pool: &mut Pool) {
        for _ in 0..self.config.accepts_per_turn {
            let Some(Some(listener)) = self.listeners.get_mut(index as usize) else { return };
            match listener.accept(&self.config) {
                Ok(None) => return,
                Ok(Some((socket, uri, local))) => {
                    self.take_connection(now, index, socket, (uri, local), pool);
                    self.restore_spare_descriptor();
                }
                Err(errno) => {
                    if [Errno::MFILE, Errno::NFILE].contains(&errno) {
                        self.drops.shortages.record(SharedPool::Descriptors);
                        if self.use_spare_descriptor() {
                            continue;
                        }
                        self.restore_spare_descriptor();
                    }
                    // The connection keeps waiting, and epoll would say so without end.
                    let Some(Some(listener)) = self.listeners.get_mut(index as usize) else { return };
                    listener.refused += 1;
                    let data = epoll::EventData::new_u64(Token::Listener(index).bits());
                    let _ = epoll::modify(&self.epoll, &listener.socket, data, EventFlags::empty());
                    self.timers.set(now + ACCEPT_PAUSE, Timer::Accept(index));
                    return;
                }
            }
        }
    }

    /// Makes a face of a connection, or waits for its handshake. Where it may not be, it is closed here: the peer learns at once.
    fn take_connection(
        &mut self,
        now: Instant,
        index: u32,
        socket: OwnedFd,
        ends: (FaceUri, FaceUri),
        pool: &mut Pool,
    ) {
        let owner = Self::owner_of(&socket, &ends.0);
        let Some(socket) = self.admit_descriptor(now, socket, owner, pool) else {
            return self.count_refusal(index);
        };
        let ends = match ends.0 {
            // Its number may have changed.
            FaceUri::Fd(_) => (listener::fd_uri(&socket), ends.1),
            _ => ends,
        };
        if let FaceUri::Ws(_) | FaceUri::Shm(_) = ends.1 {
            return self.expect_handshake(now, index, socket, ends, owner);
        }
        if !self.admit(now, owner, pool) {
            return self.count_refusal(index);
        }
        let (scope, stream) = (self.scope_of(&ends.0), Stream::new(socket, true, None));
        self.add_accepted(now, index, stream, ends, (scope, owner));
    }

    fn stream_ready(
        &mut self,
        now: Instant,
        id: FaceId,
        flags: EventFlags,
        pool: &mut Pool,
        batch: &mut Vec<Packet>,
    ) {
        let Some(Face { transport: Transport::Stream(stream), .. }) = self.slots.get_mut(id) else { return };
        let connecting = !stream.connected;
        let opening = stream.is_opening();
        // Beside shared memory the socket says nothing of room: whatever comes by it may mean some.
        let may_send = connecting || flags.contains(EventFlags::OUT) || stream.shared.is_some();
        let has_deferred = stream.has_deferred();
        if connecting && let Err(errno) = self.finish_connecting(id) {
            return self.lose_stream(now, id, CloseReason::Socket(errno), pool);
        }
        if may_send && let Err(reason) = self.drain_stream(now, id) {
            return self.lose_stream(now, id, reason, pool);
        }
        let ended = flags.intersects(EventFlags::HUP | EventFlags::ERR);
        if ended && self.is_resting(id) {
            // Nothing is read there any more: its queue would not drain.
            self.read_on(id, Reading::Stalled { until: now });
        }
        if (ended || has_deferred || flags.contains(EventFlags::IN)) && !self.is_resting(id) {
            let (interests_max, len_max) = self.slots.get(id).map_or((0, 0), |face| self.read_bounds(face));
            let bounds = (self.config.stream_reads_per_turn, interests_max, len_max);
            if let Err(reason) = self.read_stream(now, id, bounds, pool, batch) {
                return self.lose_stream(now, id, reason, pool);
            }
            if opening {
                self.finish_opening(now, id);
            }
            if let Err(reason) = self.send_answers(id) {
                return self.lose_stream(now, id, reason, pool);
            }
            self.arm_link(id, Instant::START);
            self.update_stream(now, id, false);
        }
    }

    /// Takes in what became of a stream's queue.
    pub(super) fn update_stream(&mut self, now: Instant, id: FaceId, progress: bool) {
        let Some(face) = self.slots.get_mut(id) else { return };
        let held = face.held_bytes();
        if held != face.charged {
            self.send_budget.recharge(&mut face.charged, held);
        }
        self.update_reading(now, id, progress);
        if let Some(face) = self.slots.get_mut(id) {
            watch_stream(&self.epoll, id, face);
        }
    }

    pub(super) fn drain_stream(&mut self, now: Instant, id: FaceId) -> Result<(), CloseReason> {
        let Some(face) = self.slots.get_mut(id) else { return Ok(()) };
        let Transport::Stream(stream) = &mut face.transport else { return Ok(()) };
        let before = stream.queue_bytes();
        stream.drain()?;
        let progress = stream.queue_bytes() < before;
        self.update_stream(now, id, progress);
        Ok(())
    }

    /// Reads what the connection of a face that is about to end still holds: what was complete before its end is processed as ever.
    pub(super) fn read_last(&mut self, id: FaceId, pool: &mut Pool) {
        let Some(Face { transport: Transport::Stream(stream), .. }) = self.slots.get(id) else { return };
        if stream.is_readable() {
            let mut batch = core::mem::take(&mut self.last_packets);
            // How it ends is known already.
            let bounds = (LAST_READS_MAX, usize::MAX, READ_LEN_MAX);
            let _ = self.read_stream(self.latest, id, bounds, pool, &mut batch);
            self.last_packets = batch;
        }
    }

    fn read_stream(
        &mut self,
        now: Instant,
        id: FaceId,
        (reads, interests_max, len_max): (usize, usize, usize),
        pool: &mut Pool,
        batch: &mut Vec<Packet>,
    ) -> Result<(), CloseReason> {
        let Some(Face { transport, link, counters, scope, heard, requests, .. }) = self.slots.get_mut(id)
        else {
            return Ok(());
        };
        let Transport::Stream(stream) = transport else { return Ok(()) };
        *heard = now;
        let source = Source { face: id, local: *scope == Scope::Local, congested: false, sender: 0 };
        let (drops, budget) = (&mut self.drops, &mut self.budget);
        if let Some(websocket) = &mut stream.websocket {
            websocket.heard();
        }
        let spare = &mut self.spare_buffers;
        let (left, mut others) = (Cell::new(interests_max), 0);
        let read = stream.read((reads, len_max, &left), pool, spare, |packet, pool| {
            let mut tally = Tally { face: counters, all: drops };
            match packet {
                Some(packet) => {
                    let packet = link.receive(now, packet, source, pool, budget, &mut tally);
                    match packet.as_ref().map(|packet| pool.meta(packet).kind) {
                        Some(Kind::Interest) => left.set(left.get().saturating_sub(1)),
                        Some(_) => others += 1,
                        None => {}
                    }
                    batch.extend(packet);
                }
                None => tally.drops(Cause::NoBuffer, 1),
            }
        });
        let interests = interests_max - left.get();
        if interests + others > 0 {
            *requests = interests > others;
        }
        if let Err(CloseReason::WebSocket(_)) = read {
            Tally { face: counters, all: drops }.drops(Cause::WebSocketFault, 1);
        }
        read
    }

    fn udp_ready(
        &mut self,
        now: Instant,
        index: usize,
        flags: EventFlags,
        pool: &mut Pool,
        batch: &mut Vec<Packet>,
    ) {
        if flags.contains(EventFlags::ERR) {
            self.udp_errors(index, pool);
        }
        if flags.contains(EventFlags::OUT) {
            self.drain_udp(now, index);
        }
        if flags.contains(EventFlags::IN) {
            let enough = batch.len() + UDP_PACKETS_PER_TURN;
            for _ in 0..self.config.udp_reads_per_turn {
                let more = match self.sockets.get(index) {
                    Some(Some(DatagramSocket { medium: Medium::Ether(_), .. })) => {
                        self.read_frames(now, index, pool, batch)
                    }
                    // A full read would be a thousand packets, and stream faces take in far fewer in their turn.
                    Some(Some(DatagramSocket { merged: true, .. })) => {
                        self.read_udp::<MERGED_MESSAGES>(now, index, pool, batch)
                    }
                    _ => self.read_udp::<{ sys::RECEIVED_MAX }>(now, index, pool, batch),
                };
                // Small datagrams that the kernel has merged are many packets a read, and each keeps other faces waiting.
                if !more || batch.len() >= enough {
                    break;
                }
            }
        }
    }

    /// Receives up to `N` messages; true when there may be more.
    fn read_udp<const N: usize>(
        &mut self,
        now: Instant,
        index: usize,
        pool: &mut Pool,
        batch: &mut Vec<Packet>,
    ) -> bool {
        let Some(Some(socket)) = self.sockets.get_mut(index) else { return false };
        let mut chunks = ArrayVec::<_, N>::new();
        while !chunks.is_full() {
            match pool.take_chunk() {
                Some(chunk) => chunks.push(chunk),
                None => break,
            }
        }
        let chunks = match chunks.into_inner() {
            Ok(chunks) => chunks,
            // Memory is short: one at a time, or none at all until packets have ended. The kernel keeps the rest.
            Err(few) => {
                let any = !few.is_empty();
                few.into_iter().for_each(|chunk| pool.release_chunk(chunk));
                return any && N > 1 && self.read_udp::<1>(now, index, pool, batch);
            }
        };
        let mut received = [Received::NONE; N];
        let count = match sys::receive(socket.socket.as_fd(), pool.chunks_bytes_mut(&chunks), &mut received) {
            Ok(count) => count,
            // An error that an earlier datagram met on its way: reported once, then reading goes on.
            Err(Errno::CONNREFUSED | Errno::HOSTUNREACH | Errno::NETUNREACH | Errno::INTR) => {
                chunks.into_iter().for_each(|chunk| pool.release_chunk(chunk));
                return true;
            }
            Err(_) => {
                chunks.into_iter().for_each(|chunk| pool.release_chunk(chunk));
                return false;
            }
        };
        if count == N && N > 1 {
            socket.look_at_buffer();
        } else {
            socket.congested = false;
        }
        let packets: usize =
            received[..count].iter().map(|message| message.len.div_ceil(message.stride.max(1)).max(1)).sum();
        socket.merged = packets > count * MERGED_PACKETS;
        let congested = socket.congested;
        let mut last: Option<(Peer, FaceId)> = None;
        // What is sent to a group comes in by the group's face, whoever sent it.
        let group = match socket.medium {
            Medium::Group { group, .. } => Some(Peer::Ip(group)),
            _ => None,
        };
        for (chunk, message) in chunks.iter().zip(&received[..count]) {
            if message.truncated {
                self.unheard(index, DropReason::Malformed(Fault::Truncated), 1);
                continue;
            }
            let sender = Peer::Ip(message.peer);
            let peer = group.unwrap_or(sender);
            let known = last.filter(|(known, _)| *known == peer).map(|(_, id)| id);
            let id = match known {
                Some(id) => Ok(id),
                None => {
                    let first = &pool.chunk_bytes(chunk)[..message.len.min(message.stride)];
                    let is_packet = LpPacket::check(first).map(drop);
                    self.peer_face(now, index, peer, is_packet, pool)
                }
            };
            let id = match id {
                Ok(id) => id,
                Err(_) if self.junior.is_some() => {
                    for start in (0..message.len.max(1)).step_by(message.stride.max(1)) {
                        let end = (start + message.stride).min(message.len);
                        let whence = Whence::Socket(index as u32, message.peer);
                        self.keep_stray(whence, pool.packet_in(chunk, start..end));
                    }
                    continue;
                }
                Err(reason) => {
                    self.unheard(index, reason, message.len.div_ceil(message.stride).max(1) as u64);
                    continue;
                }
            };
            last = Some((peer, id));
            self.touch(id);
            let Some(face) = self.slots.get_mut(id) else { continue };
            face.heard = now;
            let sender = if group.is_some() { sender.mark() } else { 0 };
            let source = Source { face: id, local: face.scope == Scope::Local, congested, sender };
            let mut tally = Tally { face: &mut face.counters, all: &mut self.drops };
            let mut at = 0;
            loop {
                let end = (at + message.stride).min(message.len);
                match pool.packet_in(chunk, at..end) {
                    Some(packet) => {
                        batch.extend(face.link.receive(
                            now,
                            packet,
                            source,
                            pool,
                            &mut self.budget,
                            &mut tally,
                        ));
                    }
                    None => tally.drops(Cause::NoBuffer, 1),
                }
                at = end;
                if at >= message.len {
                    break;
                }
            }
            self.note_room(id);
            self.arm_link(id, Instant::START);
        }
        chunks.into_iter().for_each(|chunk| pool.release_chunk(chunk));
        count == N
    }

    /// The face of a peer that sent something; made now if there is none, so that nothing of a first burst is lost.
    pub(super) fn peer_face(
        &mut self,
        now: Instant,
        index: usize,
        peer: Peer,
        is_packet: Result<(), nw_wire::Error>,
        pool: &mut Pool,
    ) -> Result<FaceId, DropReason> {
        let Some(Some(socket)) = self.sockets.get(index) else { return Err(Cause::FaceGone.into()) };
        if let Some(id) = socket.peers.get(&peer) {
            return Ok(*id);
        }
        if self.junior.is_some() {
            return Err(Cause::FaceGone.into());
        }
        let nobody = peer.is_group() || matches!(peer, Peer::Ip(address) if address.port() == 0);
        if !socket.listening || nobody {
            return Err(Cause::FaceGone.into());
        }
        // Noise gets no face.
        is_packet.map_err(|error| DropReason::Malformed(error.fault))?;
        let options = FaceOptions { persistency: Some(Persistency::OnDemand), ..FaceOptions::default() };
        // A source address can be forged, so senders don't get all the faces there are, nor keep them.
        let admitted = self.admit(now, Owner::of_sender(peer), pool);
        let added = if admitted { self.add_peer(now, index, peer, &options).ok() } else { None };
        if let Some(socket) = &mut self.sockets[index] {
            *if added.is_some() { &mut socket.accepted } else { &mut socket.refused } += 1;
        }
        added.ok_or(Cause::PeersFull.into())
    }

    pub(super) fn unheard(&mut self, index: usize, reason: DropReason, datagrams: u64) {
        self.drops.add(reason, datagrams);
        if let Some(socket) = &mut self.sockets[index] {
            socket.unheard += datagrams;
        }
    }

    /// Peers that are gone: "port unreachable" ends an on-demand face, others live on and count.
    fn udp_errors(&mut self, index: usize, pool: &mut Pool) {
        let Some(Some(socket)) = self.sockets.get(index) else { return };
        let mut failed = ArrayVec::<FaceId, 64>::new();
        socket.errors(|peer, errno| {
            let refused = [Errno::CONNREFUSED, Errno::HOSTUNREACH, Errno::NETUNREACH].contains(&errno);
            if let Some(id) = socket.peers.get(&Peer::Ip(peer)).filter(|_| refused) {
                let _ = failed.try_push(*id);
            }
        });
        // What is left of it in the socket would make epoll report it without end.
        let _ = rustix::net::sockopt::socket_error(&socket.socket);
        for id in failed {
            let Some(face) = self.slots.get_mut(id) else { continue };
            Tally { face: &mut face.counters, all: &mut self.drops }.drops(Cause::SendFailed, 1);
            if face.persistency == Persistency::OnDemand {
                self.end_face(id, CloseReason::Socket(Errno::CONNREFUSED), pool);
            }
        }
    }

    pub(super) fn drain_udp(&mut self, now: Instant, index: usize) {
        let Some(Some(socket)) = self.sockets.get_mut(index).filter(|socket| is_up(socket)) else { return };
        let mut failed = ArrayVec::<FaceId, 64>::new();
        let slots = &self.slots;
        let peer_of = |id| match slots.get(id)?.transport {
            Transport::Datagram { peer, .. } => Some(peer),
            _ => None,
        };
        let drained = socket.drain(peer_of, |id| {
            let _ = failed.try_push(id);
        });
        // A queue of the system behind the socket is full: epoll would say without end that the socket is not.
        let pause = matches!(drained, Err(Errno::NOBUFS));
        if pause {
            self.timers.set(now + DRAIN_PAUSE, Timer::Drain(index as u32));
        }
        watch_again(&self.epoll, &socket.socket, Token::Datagram(index as u32), drained.is_err() && !pause);
        let held = socket.memory_bytes();
        self.send_budget.recharge(&mut socket.charged, held);
        for id in failed {
            if let Some(face) = self.slots.get_mut(id) {
                Tally { face: &mut face.counters, all: &mut self.drops }.drops(Cause::SendFailed, 1);
            }
        }
    }
}

fn is_up(socket: &Option<DatagramSocket>) -> bool {
    socket.as_ref().is_some_and(|socket| socket.up)
}
