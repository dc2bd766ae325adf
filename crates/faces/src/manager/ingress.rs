//! Receiving: ready sockets to decoded packets.

use super::backpressure::ReadState;
use super::face::{Face, Token, Transport};
use super::{ACCEPT_PAUSE, Faces, LAST_READS_MAX, Origin, watch_again, watch_stream};
use crate::accounts::Account;
use crate::config::FaceOptions;
use crate::datagram::sys::{self, Received};
use crate::datagram::{DatagramSocket, Medium, Peer};
use crate::listener;
use crate::status::CloseReason;
use crate::stream::{READ_LEN_MAX, Stream};
use crate::timers::Timer;
use arrayvec::ArrayVec;
use core::time::Duration;
use nw_element_api::{
    Chunk, DropCause, DropReason, FaceId, Kind, Packet, Pool, Scope, SharedPool, Timestamp,
};
use nw_link::{DropRecorder, FaceUri, Persistency, Source};
use nw_wire::{Fault, LpPacket};
use rustix::event::epoll::{self, EventFlags};
use rustix::io::Errno;
use std::cell::Cell;
use std::os::fd::{AsFd, OwnedFd};

/// Pause of a UDP socket whose interface queue in the kernel is full.
const DRAIN_PAUSE: Duration = Duration::from_millis(1);

/// Packets after which a UDP socket is not read again in one call; those of one read are never
/// split.
const UDP_PACKETS_PER_TURN: usize = 128;

/// New peers after which a UDP socket is not read again in one call: creating a face, and closing
/// another for it, takes as long as forwarding twenty packets, and forged sources bring one each.
const NEW_PEERS_PER_TURN: u64 = 4;

/// Messages per read of a flooded socket.
const FLOOD_MESSAGES: usize = 4;

/// Messages per read while the kernel merges many small datagrams into each.
const MERGED_MESSAGES: usize = 2;

impl Faces {
    /// Processes a ready socket: accepts, reads, sends queued bytes. Decoded packets are appended
    /// to `batch`; new faces are reported by [`events`](Self::events), which the host processes
    /// before the packets. The work is bounded: epoll reports the socket again for the remainder.
    pub fn on_ready(
        &mut self,
        now: Timestamp,
        token: u64,
        flags: EventFlags,
        pool: &mut Pool,
        batch: &mut Vec<Packet>,
    ) {
        self.current_time = now;
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

    /// Returns whether the last turn of a ready socket brought new peers up to the limit of a turn,
    /// so that other sockets come first.
    #[inline]
    pub fn is_flooded(&self, token: u64) -> bool {
        match Token::from_bits(token) {
            Some(Token::Datagram(index)) => {
                self.sockets.get(index as usize).and_then(Option::as_ref).is_some_and(|s| s.flooded)
            }
            _ => false,
        }
    }

    /// Receives a link packet from the router's management, on the internal face.
    pub fn inject(
        &mut self,
        now: Timestamp,
        link_packet: &[u8],
        pool: &mut Pool,
        batch: &mut Vec<Packet>,
    ) {
        let Some(face) = self.slots.get_mut(FaceId::INTERNAL) else { return };
        let mut drops = DropRecorder { face: &mut face.counters, total: &mut self.drops };
        match pool.copy_of(link_packet) {
            Some(packet) => {
                let source =
                    Source { face: FaceId::INTERNAL, local: true, congested: false, sender: 0 };
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
        self.arm_link(FaceId::INTERNAL, Timestamp::START);
    }

    fn accept(&mut self, now: Timestamp, index: u32, pool: &mut Pool) {
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
                    // The connection stays in the backlog, so epoll would report it without end.
                    let Some(Some(listener)) = self.listeners.get_mut(index as usize) else {
                        return;
                    };
                    listener.refused += 1;
                    let data = epoll::EventData::new_u64(Token::Listener(index).bits());
                    let _ = epoll::modify(&self.epoll, &listener.socket, data, EventFlags::empty());
                    self.timers.set(now + ACCEPT_PAUSE, Timer::Accept(index));
                    return;
                }
            }
        }
    }

    /// Creates the face of an accepted connection, or waits for its handshake. A refused one is
    /// closed at once.
    fn take_connection(
        &mut self,
        now: Timestamp,
        index: u32,
        socket: OwnedFd,
        uris: (FaceUri, FaceUri),
        pool: &mut Pool,
    ) {
        let account = Self::account_of(&socket, &uris.0);
        let Some(socket) = self.admit_descriptor(now, socket, account, pool) else {
            return self.count_refusal(index);
        };
        let uris = match uris.0 {
            // The descriptor's number may have changed.
            FaceUri::Fd(_) => (listener::fd_uri(&socket), uris.1),
            _ => uris,
        };
        if let FaceUri::Ws(_) | FaceUri::Shm(_) = uris.1 {
            return self.start_handshake(now, index, socket, uris, account);
        }
        if !self.admit(now, account, pool) {
            return self.count_refusal(index);
        }
        let (scope, stream) = (self.scope_of(&uris.0), Stream::new(socket, true, None));
        self.add_accepted(now, index, stream, uris, (scope, account));
    }

    fn stream_ready(
        &mut self,
        now: Timestamp,
        id: FaceId,
        flags: EventFlags,
        pool: &mut Pool,
        batch: &mut Vec<Packet>,
    ) {
        let Some(Face { transport: Transport::Stream(stream), .. }) = self.slots.get_mut(id) else {
            return;
        };
        let connecting = !stream.connected;
        let opening = stream.is_opening();
        // Shared memory has no event for free space: every message on the socket may mean some.
        let may_send = connecting || flags.contains(EventFlags::OUT) || stream.shared.is_some();
        let has_deferred = stream.has_deferred();
        if connecting && let Err(errno) = self.finish_connecting(id) {
            return self.lose_stream(now, id, CloseReason::Socket(errno), pool);
        }
        if may_send && let Err(reason) = self.drain_stream(now, id) {
            return self.lose_stream(now, id, reason, pool);
        }
        let ended = flags.intersects(EventFlags::HUP | EventFlags::ERR);
        if ended && self.is_reading_paused(id) {
            // The peer reads no more, so the queue would never drain.
            self.resume_reading(id, ReadState::Stalled { until: now });
        }
        if (ended || has_deferred || flags.contains(EventFlags::IN)) && !self.is_reading_paused(id)
        {
            let (interests_max, len_max) =
                self.slots.get(id).map_or((0, 0), |face| self.read_bounds(face));
            let bounds = (self.config.stream_reads_per_turn, interests_max, len_max);
            if let Err(reason) = self.read_stream(now, id, bounds, pool, batch) {
                return self.lose_stream(now, id, reason, pool);
            }
            if opening {
                self.finish_handshake(now, id);
            }
            if let Err(reason) = self.send_replies(id) {
                return self.lose_stream(now, id, reason, pool);
            }
            self.arm_link(id, Timestamp::START);
            self.update_stream(now, id, false);
        }
    }

    /// Updates budget, read state and epoll events after a stream's queue changed.
    pub(super) fn update_stream(&mut self, now: Timestamp, id: FaceId, progress: bool) {
        let Some(face) = self.slots.get_mut(id) else { return };
        let queued = face.queued_memory_bytes();
        if queued != face.charged {
            self.send_budget.recharge(&mut face.charged, queued);
        }
        self.update_reading(now, id, progress);
        if let Some(face) = self.slots.get_mut(id) {
            watch_stream(&self.epoll, id, face);
        }
    }

    pub(super) fn drain_stream(&mut self, now: Timestamp, id: FaceId) -> Result<(), CloseReason> {
        let Some(face) = self.slots.get_mut(id) else { return Ok(()) };
        let Transport::Stream(stream) = &mut face.transport else { return Ok(()) };
        let old_queue_bytes = stream.queue_bytes();
        stream.drain()?;
        let progress = stream.queue_bytes() < old_queue_bytes;
        self.update_stream(now, id, progress);
        Ok(())
    }

    /// Reads what the connection of a closing face still holds: packets that were complete before
    /// the end are processed.
    pub(super) fn read_last(&mut self, id: FaceId, pool: &mut Pool) {
        let Some(Face { transport: Transport::Stream(stream), .. }) = self.slots.get(id) else {
            return;
        };
        if stream.is_readable() {
            let mut batch = core::mem::take(&mut self.last_packets);
            // The reason for closing is known already.
            let bounds = (LAST_READS_MAX, usize::MAX, READ_LEN_MAX);
            let _ = self.read_stream(self.current_time, id, bounds, pool, &mut batch);
            self.last_packets = batch;
        }
    }

    fn read_stream(
        &mut self,
        now: Timestamp,
        id: FaceId,
        (reads, interests_max, len_max): (usize, usize, usize),
        pool: &mut Pool,
        batch: &mut Vec<Packet>,
    ) -> Result<(), CloseReason> {
        let Some(Face { transport, link, counters, scope, last_received, requests, .. }) =
            self.slots.get_mut(id)
        else {
            return Ok(());
        };
        let Transport::Stream(stream) = transport else { return Ok(()) };
        *last_received = now;
        let source =
            Source { face: id, local: *scope == Scope::Local, congested: false, sender: 0 };
        let (drops, budget) = (&mut self.drops, &mut self.budget);
        if let Some(websocket) = &mut stream.websocket {
            websocket.mark_active();
        }
        let buffers = &mut self.buffer_pool;
        let (remaining, mut other_packets) = (Cell::new(interests_max), 0);
        let read = stream.read((reads, len_max, &remaining), pool, buffers, |packet, pool| {
            let mut drops = DropRecorder { face: counters, total: drops };
            match packet {
                Some(packet) => {
                    let packet = link.receive(now, packet, source, pool, budget, &mut drops);
                    match packet.as_ref().map(|packet| pool.meta(packet).kind) {
                        Some(Kind::Interest) => remaining.set(remaining.get().saturating_sub(1)),
                        Some(_) => other_packets += 1,
                        None => {}
                    }
                    batch.extend(packet);
                }
                None => drops.record(DropCause::NoBuffer, 1),
            }
        });
        let interests = interests_max - remaining.get();
        if interests + other_packets > 0 {
            *requests = interests > other_packets;
        }
        if let Err(CloseReason::WebSocket(_)) = read {
            DropRecorder { face: counters, total: drops }.record(DropCause::WebSocketFault, 1);
        }
        read
    }

    fn udp_ready(
        &mut self,
        now: Timestamp,
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
            let batch_len_max = batch.len() + UDP_PACKETS_PER_TURN;
            let new_peers = |sockets: &[Option<DatagramSocket>]| {
                let socket = sockets.get(index).and_then(Option::as_ref);
                socket.map_or(0, |socket| socket.accepted + socket.refused)
            };
            let before = new_peers(&self.sockets);
            for _ in 0..self.config.udp_reads_per_turn {
                let may_have_more = match self.sockets.get(index) {
                    Some(Some(DatagramSocket { medium: Medium::Ether(_), .. })) => {
                        self.read_frames(now, index, pool, batch)
                    }
                    // A full read would bring a thousand packets, and stream faces read far fewer
                    // per iteration.
                    Some(Some(DatagramSocket { merged: true, .. })) => {
                        self.read_udp::<MERGED_MESSAGES>(now, index, pool, batch)
                    }
                    Some(Some(DatagramSocket { flooded: true, .. })) => {
                        self.read_udp::<FLOOD_MESSAGES>(now, index, pool, batch)
                    }
                    _ => self.read_udp::<{ sys::RECEIVED_MAX }>(now, index, pool, batch),
                };
                // Many merged datagrams in one read delay the other faces, as do new peers.
                if !may_have_more
                    || batch.len() >= batch_len_max
                    || new_peers(&self.sockets) >= before + NEW_PEERS_PER_TURN
                {
                    break;
                }
            }
            let new = new_peers(&self.sockets) - before;
            if let Some(Some(socket)) = self.sockets.get_mut(index) {
                socket.flooded = new >= if socket.flooded { 1 } else { NEW_PEERS_PER_TURN };
            }
        }
    }

    /// Receives up to `N` messages. Returns whether there may be more.
    fn read_udp<const N: usize>(
        &mut self,
        now: Timestamp,
        index: usize,
        pool: &mut Pool,
        batch: &mut Vec<Packet>,
    ) -> bool {
        let Some(Some(socket)) = self.sockets.get(index) else { return false };
        let chunks = match take_chunks::<N>(pool) {
            Ok(chunks) => chunks,
            // Memory is short: read one message at a time, or none until packets are released. The
            // kernel keeps the others.
            Err(available) => {
                return available > 0 && N > 1 && self.read_udp::<1>(now, index, pool, batch);
            }
        };
        let mut received = [Received::NONE; N];
        let result =
            sys::receive(socket.socket.as_fd(), pool.chunks_bytes_mut(&chunks), &mut received);
        let may_have_more = match result {
            Ok(count) => {
                let is_full = count == N;
                self.take_messages(now, index, (&chunks, &received[..count]), is_full, pool, batch);
                is_full
            }
            // The error of an earlier datagram is reported once; then reading continues.
            Err(Errno::CONNREFUSED | Errno::HOSTUNREACH | Errno::NETUNREACH | Errno::INTR) => true,
            Err(_) => false,
        };
        chunks.into_iter().for_each(|chunk| pool.release_chunk(chunk));
        may_have_more
    }

    /// Delivers received messages to the faces of their peers. Creates faces where permitted.
    fn take_messages(
        &mut self,
        now: Timestamp,
        index: usize,
        (chunks, received): (&[Chunk], &[Received]),
        is_full: bool,
        pool: &mut Pool,
        batch: &mut Vec<Packet>,
    ) {
        let Some(Some(socket)) = self.sockets.get_mut(index) else { return };
        socket.note_read(received, is_full && received.len() > 1);
        let congested = socket.congested;
        // Datagrams to a group arrive on the group's face, from every sender.
        let group = match socket.medium {
            Medium::Group { group, .. } => Some(Peer::Ip(group)),
            _ => None,
        };
        // The previous message's peer and face: datagrams of one peer mostly follow each other.
        let mut previous: Option<(Peer, FaceId)> = None;
        for (chunk, message) in chunks.iter().zip(received) {
            if message.truncated {
                self.count_unattributed(index, DropReason::Malformed(Fault::Truncated), 1);
                continue;
            }
            let sender = Peer::Ip(message.peer);
            let peer = group.unwrap_or(sender);
            let id = match previous.filter(|(known, _)| *known == peer) {
                Some((_, id)) => Ok(id),
                None => {
                    let first = &pool.chunk_bytes(chunk)[..message.len.min(message.stride)];
                    let is_packet = LpPacket::check(first).map(drop);
                    self.peer_face(now, index, peer, is_packet, pool)
                }
            };
            match id {
                Ok(id) => {
                    previous = Some((peer, id));
                    let sender = if group.is_some() { sender.sender_number() } else { 0 };
                    self.take_run(now, id, (chunk, message), (congested, sender), pool, batch);
                }
                Err(reason) => self.reject_message(index, (chunk, message), reason, pool),
            }
        }
    }

    /// Delivers the datagrams that the kernel merged into one message (GRO) to their face.
    #[inline]
    fn take_run(
        &mut self,
        now: Timestamp,
        id: FaceId,
        (chunk, message): (&Chunk, &Received),
        (congested, sender): (bool, u64),
        pool: &mut Pool,
        batch: &mut Vec<Packet>,
    ) {
        self.mark_active(id);
        let Some(face) = self.slots.get_mut(id) else { return };
        face.last_received = now;
        let source = Source { face: id, local: face.scope == Scope::Local, congested, sender };
        let mut drops = DropRecorder { face: &mut face.counters, total: &mut self.drops };
        let budget = &mut self.budget;
        let mut at = 0;
        loop {
            let end = (at + message.stride).min(message.len);
            match pool.packet_in(chunk, at..end) {
                Some(packet) => {
                    batch.extend(face.link.receive(now, packet, source, pool, budget, &mut drops));
                }
                None => drops.record(DropCause::NoBuffer, 1),
            }
            at = end;
            if at >= message.len {
                break;
            }
        }
        self.note_window_change(id);
        self.arm_link(id, Timestamp::START);
    }

    /// Counts a message of a peer without a face. On a secondary shard its datagrams are kept for
    /// the first shard instead.
    fn reject_message(
        &mut self,
        index: usize,
        (chunk, message): (&Chunk, &Received),
        reason: DropReason,
        pool: &mut Pool,
    ) {
        if self.secondary.is_none() {
            let datagrams = message.len.div_ceil(message.stride).max(1) as u64;
            return self.count_unattributed(index, reason, datagrams);
        }
        for start in (0..message.len.max(1)).step_by(message.stride.max(1)) {
            let end = (start + message.stride).min(message.len);
            let origin = Origin::Socket(index as u32, message.peer);
            self.keep_unknown(origin, pool.packet_in(chunk, start..end));
        }
    }

    /// Returns the face of a datagram's sender, created now if permitted, so that the first burst
    /// is not lost.
    ///
    /// # Errors
    /// The drop reason: malformed packets get no face; the socket does not listen; faces are
    /// exhausted.
    pub(super) fn peer_face(
        &mut self,
        now: Timestamp,
        index: usize,
        peer: Peer,
        is_packet: Result<(), nw_wire::Error>,
        pool: &mut Pool,
    ) -> Result<FaceId, DropReason> {
        let Some(Some(socket)) = self.sockets.get(index) else {
            return Err(DropCause::FaceGone.into());
        };
        if let Some(id) = socket.peers.get(&peer) {
            return Ok(*id);
        }
        if self.secondary.is_some() {
            return Err(DropCause::FaceGone.into());
        }
        let has_no_face =
            peer.is_group() || matches!(peer, Peer::Ip(address) if address.port() == 0);
        if !socket.listening || has_no_face {
            return Err(DropCause::FaceGone.into());
        }
        // A malformed datagram gets no face.
        is_packet.map_err(|error| DropReason::Malformed(error.fault))?;
        let options =
            FaceOptions { persistency: Some(Persistency::OnDemand), ..FaceOptions::default() };
        // Source addresses can be forged, so they are subject to admission.
        let admitted = self.admit(now, Account::of_sender(peer), pool);
        let added = if admitted { self.add_peer(now, index, peer, &options).ok() } else { None };
        if let Some(socket) = &mut self.sockets[index] {
            *if added.is_some() { &mut socket.accepted } else { &mut socket.refused } += 1;
        }
        added.ok_or(DropCause::PeersFull.into())
    }

    /// Counts datagrams of a socket that belong to no face.
    pub(super) fn count_unattributed(&mut self, index: usize, reason: DropReason, datagrams: u64) {
        self.drops.add(reason, datagrams);
        if let Some(socket) = &mut self.sockets[index] {
            socket.unattributed += datagrams;
        }
    }

    /// Processes ICMP errors: "port unreachable" closes an on-demand face; other faces count a
    /// drop.
    fn udp_errors(&mut self, index: usize, pool: &mut Pool) {
        let Some(Some(socket)) = self.sockets.get(index) else { return };
        let mut failed = ArrayVec::<FaceId, 64>::new();
        socket.errors(|peer, errno| {
            let refused =
                [Errno::CONNREFUSED, Errno::HOSTUNREACH, Errno::NETUNREACH].contains(&errno);
            if let Some(id) = socket.peers.get(&Peer::Ip(peer)).filter(|_| refused) {
                let _ = failed.try_push(*id);
            }
        });
        // A pending error would make epoll report the socket without end.
        let _ = rustix::net::sockopt::socket_error(&socket.socket);
        for id in failed {
            let Some(face) = self.slots.get_mut(id) else { continue };
            DropRecorder { face: &mut face.counters, total: &mut self.drops }
                .record(DropCause::SendFailed, 1);
            if face.persistency == Persistency::OnDemand {
                self.close_face(id, CloseReason::Socket(Errno::CONNREFUSED), pool);
            }
        }
    }

    pub(super) fn drain_udp(&mut self, now: Timestamp, index: usize) {
        let Some(Some(socket)) = self.sockets.get_mut(index).filter(|socket| is_up(socket)) else {
            return;
        };
        let mut failed = ArrayVec::<FaceId, 64>::new();
        let slots = &self.slots;
        let peer_of = |id| match slots.get(id)?.transport {
            Transport::Datagram { peer, .. } => Some(peer),
            _ => None,
        };
        let drained = socket.drain(peer_of, |id| {
            let _ = failed.try_push(id);
        });
        // A kernel queue behind the socket is full: epoll would report the socket as writable
        // without end.
        let pause = matches!(drained, Err(Errno::NOBUFS));
        if pause {
            self.timers.set(now + DRAIN_PAUSE, Timer::Drain(index as u32));
        }
        watch_again(
            &self.epoll,
            &socket.socket,
            Token::Datagram(index as u32),
            drained.is_err() && !pause,
        );
        let queued = socket.memory_bytes();
        self.send_budget.recharge(&mut socket.charged, queued);
        for id in failed {
            if let Some(face) = self.slots.get_mut(id) {
                DropRecorder { face: &mut face.counters, total: &mut self.drops }
                    .record(DropCause::SendFailed, 1);
            }
        }
    }
}

/// Takes `N` chunks from the pool. If it has fewer, takes none and returns how many it has.
fn take_chunks<const N: usize>(pool: &mut Pool) -> Result<[Chunk; N], usize> {
    let mut chunks = ArrayVec::<Chunk, N>::new();
    while !chunks.is_full() {
        match pool.take_chunk() {
            Some(chunk) => chunks.push(chunk),
            None => break,
        }
    }
    chunks.into_inner().map_err(|chunks| {
        let available = chunks.len();
        chunks.into_iter().for_each(|chunk| pool.release_chunk(chunk));
        available
    })
}

fn is_up(socket: &Option<DatagramSocket>) -> bool {
    socket.as_ref().is_some_and(|socket| socket.up)
}
