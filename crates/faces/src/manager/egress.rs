//! Sending: packets to link packets in outboxes, and outboxes to few system calls.

use super::face::{Face, Token, Transport};
use super::{Faces, OUTBOX_POOL_MAX, watch_again};
use crate::datagram::ether::Head;
use crate::datagram::{DatagramSocket, Peer, Refusal, Sender, address_of};
use crate::timers::Timer;
use arrayvec::ArrayVec;
use core::ops::Range;
use nw_element_api::{DropCause, FaceId, Packet, Pool, Scope, SharedPool, Timestamp};
use nw_link::{DropRecorder, Outbox, Persistency, QueueState};
use rustix::io::Errno;
use std::os::fd::AsFd;

/// Faces of one datagram socket that one call serves.
const SENDERS_MAX: usize = 64;

/// The outbox of one face, moved out of it while its packets are sent.
struct TakenOutbox {
    face: FaceId,
    peer: Peer,
    /// Ethernet head of frames to the peer; empty for UDP.
    head: Head,
    /// Longest datagram that the kernel takes as part of a run, bytes.
    run_datagram_max: usize,
    outbox: Outbox,
    /// Link packets that AF_XDP did not send.
    unsent: Range<usize>,
}

impl Faces {
    /// Queues a packet, with the link fields in its metadata, for [`flush`](Self::flush); or drops
    /// and counts it; or keeps it as a Nack for [`take_refused`](Self::take_refused).
    #[inline]
    pub fn send(&mut self, now: Timestamp, id: FaceId, packet: Packet, pool: &mut Pool) {
        let Some(mut face) = self.slots.get_mut(id) else {
            let cause = if id == FaceId::NULL { DropCause::NullFace } else { DropCause::FaceGone };
            return pool.drop_packet(packet, cause, &mut self.drops);
        };
        if face.down || matches!(face.transport, Transport::Down | Transport::Null) {
            let cause = if id == FaceId::NULL { DropCause::NullFace } else { DropCause::FaceDown };
            let kind = pool.meta(&packet).kind;
            face.counters.count_out_dropped(kind);
            DropRecorder { face: &mut face.counters, total: &mut self.drops }.record(cause, 1);
            return pool.release(packet);
        }
        if !face.dirty {
            self.open_outbox(now, id);
            self.mark_active(id);
            match self.slots.get_mut(id) {
                Some(opened) => face = opened,
                None => return pool.drop_packet(packet, DropCause::FaceGone, &mut self.drops),
            }
        }
        if face.link.needs_path_mtu(pool.bytes(&packet).len()) {
            discover_path_mtu(face, &self.sockets);
        }
        let queue_bytes = match &face.transport {
            Transport::Stream(stream) => stream.queue_bytes() + stream.kernel_queue,
            Transport::Datagram { socket, pacer, .. } => {
                pacer.queue.len()
                    + self.sockets[*socket].as_ref().map_or(0, DatagramSocket::all_queue_bytes)
            }
            Transport::Internal => self.internal_queue.bytes(),
            Transport::Null | Transport::Down => 0,
        };
        let mut drops = DropRecorder { face: &mut face.counters, total: &mut self.drops };
        let queue =
            QueueState { bytes: queue_bytes as u64, bytes_max: self.config.queue_bytes_max as u64 };
        let refused = face.link.send(now, packet, queue, pool, &mut face.outbox, &mut drops);
        let (full, timed) =
            (face.outbox.is_full(), face.link.is_reliable() || face.link.is_shaping());
        self.refused.extend(refused);
        if timed {
            self.arm_link(id, Timestamp::START);
        }
        if full {
            self.flush_face(id, pool);
        }
    }

    /// Gives a face an outbox, before its first link packet of this loop iteration.
    pub(super) fn open_outbox(&mut self, now: Timestamp, id: FaceId) {
        let Some(face) = self.slots.get_mut(id).filter(|face| !face.dirty) else { return };
        face.dirty = true;
        if face.link.is_reliable() {
            let shared_max = self.send_budget.limit(face.is_local(), usize::MAX);
            face.link.limit_unacknowledged(shared_max);
        }
        face.outbox = self.outbox_pool.pop().unwrap_or_default();
        match &mut face.transport {
            Transport::Datagram { socket, pacer, .. } => {
                pacer.start(now, self.config.burst_pause);
                if let Some(socket) = &mut self.sockets[*socket] {
                    socket.dirty.push(id);
                    socket.sample_queue(now);
                }
            }
            Transport::Stream(stream) => {
                if face.uri.address().is_some() {
                    stream.sample_queue(now);
                }
                if let Some(websocket) = &stream.websocket {
                    face.outbox.set_framing(websocket.framing());
                }
                self.dirty.push(id);
            }
            Transport::Internal | Transport::Null | Transport::Down => self.dirty.push(id),
        }
    }

    /// Sends all queued packets: about one system call per stream face, and one per 64 runs of
    /// datagrams. Call once per loop iteration, before waiting.
    pub fn flush(&mut self, pool: &mut Pool) {
        // After an early flush, an id may be listed twice or its face be closed: both are no-ops.
        let mut dirty = core::mem::take(&mut self.dirty);
        dirty.drain(..).for_each(|id| self.flush_face(id, pool));
        // No packet is queued meanwhile; the list is put back to reuse its memory.
        debug_assert!(self.dirty.is_empty());
        self.dirty = dirty;
        for index in 0..self.sockets.len() {
            self.flush_udp(index, pool);
        }
        self.shed_longest_queues();
        self.xdp.kick();
        if self.xdp.changed {
            self.reconcile_xdp(self.current_time);
        }
    }

    /// Moves the Interests that faces refused, because their link is short, to `batch`: as Nacks
    /// received from their peers. Call it before waiting.
    #[inline]
    pub fn take_refused(&mut self, batch: &mut Vec<Packet>) {
        batch.append(&mut self.refused);
    }

    /// Sends the Interests of a face whose turn it is.
    pub(super) fn release_interests(&mut self, now: Timestamp, id: FaceId, pool: &mut Pool) {
        let Some(face) = self.slots.get_mut(id) else { return };
        if face.down || matches!(face.transport, Transport::Down | Transport::Null) {
            let mut drops = DropRecorder { face: &mut face.counters, total: &mut self.drops };
            return face.link.drop_waiting_interests(&mut drops);
        }
        self.open_outbox(now, id);
        let Some(face) = self.slots.get_mut(id) else { return };
        let mut drops = DropRecorder { face: &mut face.counters, total: &mut self.drops };
        // Interests are small: they do not fill the queue of their own direction.
        let queue = QueueState { bytes: 0, bytes_max: self.config.queue_bytes_max as u64 };
        face.link.release_interests(now, queue, pool, &mut face.outbox, &mut drops);
        if face.outbox.is_full() {
            self.flush_face(id, pool);
        }
    }

    /// Takes the oldest link packet sent to the internal face.
    pub fn next_internal(&mut self) -> Option<Vec<u8>> {
        self.internal_queue.pop()
    }

    /// Returns whether [`next_internal`](Self::next_internal) has a packet.
    pub const fn has_internal(&self) -> bool {
        self.internal_queue.bytes() > 0
    }

    pub(super) fn flush_face(&mut self, id: FaceId, pool: &mut Pool) {
        match self.slots.get(id) {
            Some(Face { dirty: true, transport: Transport::Stream(_), .. }) => {
                self.flush_stream(id, pool)
            }
            Some(Face { dirty: true, transport: Transport::Internal, .. }) => {
                self.flush_internal(id, pool)
            }
            Some(Face { dirty: true, transport: Transport::Datagram { socket, .. }, .. }) => {
                self.flush_udp(*socket, pool)
            }
            _ => {}
        }
    }

    fn flush_stream(&mut self, id: FaceId, pool: &mut Pool) {
        let Some(face) = self.slots.get_mut(id) else { return };
        let Transport::Stream(stream) = &mut face.transport else { return };
        face.dirty = false;
        let outbox = core::mem::take(&mut face.outbox);
        let (counters, drops) = (&mut face.counters, &mut self.drops);
        let shedding = &mut self.shedding.is_needed;
        let queue_max =
            self.send_budget.limit(face.scope == Scope::Local, self.config.queue_bytes_max);
        let is_short = queue_max < self.config.queue_bytes_max;
        let result = stream.flush(&outbox, pool, queue_max, |item, len, cause| {
            if is_short && cause == DropCause::FaceQueueFull {
                drops.shortages.record(SharedPool::SendQueues);
                *shedding = true;
            }
            counters.uncount_out(item.kind, len);
            DropRecorder { face: counters, total: drops }.record(cause, 1);
        });
        if let Err(reason) = result {
            // Its packets are dropped with the face.
            face.outbox = outbox;
            return self.lose_stream(self.current_time, id, reason, pool);
        }
        self.recycle_outbox(outbox, pool);
        self.update_stream(self.current_time, id, false);
    }

    fn flush_internal(&mut self, id: FaceId, pool: &mut Pool) {
        let Some(face) = self.slots.get_mut(id) else { return };
        face.dirty = false;
        let outbox = core::mem::take(&mut face.outbox);
        for item in outbox.items() {
            if !self.internal_queue.push(outbox.parts(item, pool), self.config.queue_bytes_max) {
                face.counters.uncount_out(item.kind, outbox.item_len(item, pool));
                DropRecorder { face: &mut face.counters, total: &mut self.drops }
                    .record(DropCause::FaceQueueFull, 1);
            }
        }
        self.recycle_outbox(outbox, pool);
    }

    fn flush_udp(&mut self, index: usize, pool: &mut Pool) {
        let Some(Some(socket)) = self.sockets.get_mut(index) else { return };
        if socket.dirty.is_empty() {
            return;
        }
        let mut dirty = core::mem::take(&mut socket.dirty);
        for ids in dirty.chunks(SENDERS_MAX) {
            self.flush_senders(index, ids, pool);
        }
        dirty.clear();
        if let Some(socket) = &mut self.sockets[index] {
            socket.dirty = dirty;
            if socket.queue_bytes() > 0 {
                watch_again(&self.epoll, &socket.socket, Token::Datagram(index as u32), true);
            }
        }
    }

    /// Sends the outboxes of faces of one socket.
    fn flush_senders(&mut self, index: usize, ids: &[FaceId], pool: &mut Pool) {
        // Outboxes are moved out of their faces, so that faces can count meanwhile.
        let mut taken = ArrayVec::<TakenOutbox, SENDERS_MAX>::new();
        taken.extend(ids.iter().filter_map(|id| self.take_outbox(index, *id, pool)));
        self.send_outboxes(index, &taken, pool);
        for sender in taken.drain(..) {
            self.recharge(sender.face);
            self.recycle_outbox(sender.outbox, pool);
        }
    }

    /// Moves the outbox out of a face. Packets beyond the pacer's burst are queued there, and those
    /// that AF_XDP takes are sent; the others are left in `unsent`. `None` if the face has none.
    fn take_outbox(&mut self, index: usize, id: FaceId, pool: &Pool) -> Option<TakenOutbox> {
        let socket = self.sockets.get(index)?.as_ref()?;
        let face = self.slots.get_mut(id).filter(|face| face.dirty)?;
        let Transport::Datagram { peer, run_datagram_max, pacer, route, .. } = &mut face.transport
        else {
            return None;
        };
        face.dirty = false;
        let outbox = core::mem::take(&mut face.outbox);
        let items = outbox.items();
        let max = face.link.receive_window().burst_bytes_max(self.config.burst_bytes_max);
        let count =
            items.iter().take_while(|item| pacer.admits(outbox.item_len(item, pool), max)).count();
        let queue_max =
            self.send_budget.limit(face.scope == Scope::Local, self.config.queue_bytes_max);
        let mut drops = DropRecorder { face: &mut face.counters, total: &mut self.drops };
        for item in &items[count..] {
            if !pacer.queue.push(outbox.parts(item, pool), queue_max) {
                if queue_max < self.config.queue_bytes_max {
                    drops.total.shortages.record(SharedPool::SendQueues);
                    self.shedding.is_needed = true;
                }
                drops.face.uncount_out(item.kind, outbox.item_len(item, pool));
                drops.record(DropCause::FaceQueueFull, 1);
            }
        }
        if !pacer.queue.is_empty() && pacer.timer.is_none() {
            let due = self.current_time + self.config.burst_pause;
            pacer.timer = Some(due);
            self.timers.set(due, Timer::Pacing(id));
        }
        let sent = self.xdp.send((&socket.medium, *peer), route, (&outbox, count), pool);
        Some(TakenOutbox {
            face: id,
            peer: *peer,
            head: socket.head(*peer),
            run_datagram_max: *run_datagram_max,
            outbox,
            unsent: sent..count,
        })
    }

    /// Sends what outboxes hold by their socket. What the socket can't take is queued there, or
    /// dropped and counted.
    fn send_outboxes(&mut self, index: usize, taken: &[TakenOutbox], pool: &Pool) {
        let Some(Some(socket)) = self.sockets.get_mut(index) else { return };
        let mut senders: ArrayVec<Sender<'_>, SENDERS_MAX> = taken
            .iter()
            .filter(|taken| !taken.unsent.is_empty())
            .map(|taken| Sender {
                face: taken.face,
                peer: taken.peer,
                head: taken.head.as_slice(),
                run_datagram_max: taken.run_datagram_max,
                outbox: &taken.outbox,
                items: (taken.unsent.start, taken.unsent.end),
            })
            .collect();
        let (slots, drops, shedding) =
            (&mut self.slots, &mut self.drops, &mut self.shedding.is_needed);
        let queue_max = self.send_budget.limit(false, self.config.queue_bytes_max);
        let is_short = queue_max < self.config.queue_bytes_max;
        socket.flush(&mut senders, pool, queue_max, |id, item, len, refusal| {
            let Some(face) = slots.get_mut(id) else { return };
            let cause = match refusal {
                Refusal::NoRuns(longest) => {
                    if let Transport::Datagram { run_datagram_max, .. } = &mut face.transport {
                        *run_datagram_max = longest;
                    }
                    return;
                }
                Refusal::QueueFull => {
                    if is_short {
                        drops.shortages.record(SharedPool::SendQueues);
                        *shedding = true;
                    }
                    DropCause::FaceQueueFull
                }
                Refusal::Failed(Errno::MSGSIZE) => DropCause::FaceMtu,
                Refusal::Failed(_) => DropCause::SendFailed,
            };
            face.counters.uncount_out(item.and_then(|item| item.kind), len);
            DropRecorder { face: &mut face.counters, total: drops }.record(cause, 1);
        });
        let queued = socket.memory_bytes();
        self.send_budget.recharge(&mut socket.charged, queued);
    }

    /// Sends the next burst to a UDP peer, after a pause, if the socket isn't busy.
    pub(super) fn send_queued(&mut self, now: Timestamp, id: FaceId) {
        let Some(face) = self.slots.get_mut(id) else { return };
        let Transport::Datagram { socket, peer, pacer, .. } = &mut face.transport else { return };
        pacer.timer = None;
        let Some(Some(socket)) = self.sockets.get(*socket) else { return };
        if socket.queue_bytes() == 0 {
            let head = socket.head(*peer);
            let to = (address_of(*peer), head.as_slice());
            let max = face.link.receive_window().burst_bytes_max(self.config.burst_bytes_max);
            let mut drops = DropRecorder { face: &mut face.counters, total: &mut self.drops };
            // What the socket doesn't take now is sent after the next pause.
            let _ = pacer.send_queued(now, socket.socket.as_fd(), to, max, |errno| {
                let cause = if errno == Errno::MSGSIZE {
                    DropCause::FaceMtu
                } else {
                    DropCause::SendFailed
                };
                drops.record(cause, 1);
            });
        }
        if !pacer.queue.is_empty() {
            let due = now + self.config.burst_pause;
            pacer.timer = Some(due);
            self.timers.set(due, Timer::Pacing(id));
        }
        self.recharge(id);
    }

    /// Updates the bytes that a face's queue is charged to the common budget.
    fn recharge(&mut self, id: FaceId) {
        if let Some(face) = self.slots.get_mut(id) {
            let queued = face.queued_memory_bytes();
            self.send_budget.recharge(&mut face.charged, queued);
        }
    }

    pub(super) fn recycle_outbox(&mut self, mut outbox: Outbox, pool: &mut Pool) {
        outbox.clear(pool);
        if self.outbox_pool.len() < OUTBOX_POOL_MAX {
            self.outbox_pool.push(outbox);
        }
    }
}

/// Sets the path MTU of a face whose peer advertises its receive buffer: such a peer reassembles
/// link packets. Only for on-demand faces, as fragments sent to the address that the peer sent from
/// all arrive there (decision 0035). Otherwise fragmentation is left to IP.
#[cold]
fn discover_path_mtu(face: &mut Face, sockets: &[Option<DatagramSocket>]) {
    let path_mtu = match &face.transport {
        Transport::Datagram { socket, peer, .. } if face.persistency == Persistency::OnDemand => {
            sockets[*socket].as_ref().and_then(|socket| socket.path_mtu(*peer))
        }
        _ => None,
    };
    face.link.set_path_mtu(path_mtu.unwrap_or(usize::MAX));
}
