//! From packets to as few system calls as will do.

use super::face::{Face, Token, Transport};
use super::{Faces, SPARE_OUTBOXES_MAX, watch_again};
use crate::datagram::ether::Head;
use crate::datagram::{DatagramSocket, Peer, Refusal, Sender, address_of};
use crate::link::{QueueState, Tally};
use crate::outbox::Outbox;
use crate::status::Persistency;
use crate::timers::Timer;
use arrayvec::ArrayVec;
use nw_element_api::{Cause, FaceId, Instant, Packet, Pool, Scope, SharedPool};
use rustix::io::Errno;
use std::os::fd::AsFd;

/// Faces of one datagram socket that are served together.
const SENDERS_MAX: usize = 64;

impl Faces {
    /// Queues a packet, with the link fields in its metadata, to be sent by [`flush`](Self::flush). It is sent, or dropped and counted.
    #[inline]
    pub fn send(&mut self, now: Instant, id: FaceId, packet: Packet, pool: &mut Pool) {
        let Some(mut face) = self.slots.get_mut(id) else {
            let cause = if id == FaceId::NULL { Cause::NullFace } else { Cause::FaceGone };
            return pool.drop_packet(packet, cause, &mut self.drops);
        };
        if face.down || matches!(face.transport, Transport::Down | Transport::Null) {
            let cause = if id == FaceId::NULL { Cause::NullFace } else { Cause::FaceDown };
            let kind = pool.meta(&packet).kind;
            face.counters.count_out_dropped(kind);
            Tally { face: &mut face.counters, all: &mut self.drops }.drops(cause, 1);
            return pool.release(packet);
        }
        if !face.dirty {
            self.open_outbox(now, id);
            self.touch(id);
            match self.slots.get_mut(id) {
                Some(opened) => face = opened,
                None => return pool.drop_packet(packet, Cause::FaceGone, &mut self.drops),
            }
        }
        if face.link.awaits_path_mtu(pool.bytes(&packet).len()) {
            fit_path(face, &self.sockets);
        }
        let queue_bytes = match &face.transport {
            Transport::Stream(stream) => stream.queue_bytes() + stream.kernel_queue,
            Transport::Datagram { socket, burst, .. } => {
                burst.waiting.len()
                    + self.sockets[*socket].as_ref().map_or(0, DatagramSocket::all_queue_bytes)
            }
            Transport::Internal => self.mailbox.bytes(),
            Transport::Null | Transport::Down => 0,
        };
        let mut tally = Tally { face: &mut face.counters, all: &mut self.drops };
        let queue = QueueState { bytes: queue_bytes as u64, bytes_max: self.config.queue_bytes_max as u64 };
        face.link.send(now, packet, queue, pool, &mut face.outbox, &mut tally);
        let (full, reliable) = (face.outbox.is_full(), face.link.is_reliable());
        if reliable {
            self.arm_link(id, Instant::START);
        }
        if full {
            self.flush_face(id, pool);
        }
    }

    /// Makes a face ready to queue link packets, as the first of this turn is to come.
    pub(super) fn open_outbox(&mut self, now: Instant, id: FaceId) {
        let Some(face) = self.slots.get_mut(id).filter(|face| !face.dirty) else { return };
        face.dirty = true;
        if face.link.is_reliable() {
            let shared_max = self.send_budget.limit(face.is_local(), usize::MAX);
            face.link.limit_unacknowledged(shared_max);
        }
        face.outbox = self.spare_outboxes.pop().unwrap_or_default();
        match &mut face.transport {
            Transport::Datagram { socket, burst, .. } => {
                burst.begin(now, self.config.burst_pause);
                if let Some(socket) = &mut self.sockets[*socket] {
                    socket.dirty.push(id);
                    socket.look_at_queue(now);
                }
            }
            Transport::Stream(stream) => {
                if face.uri.address().is_some() {
                    stream.look_at_queue(now);
                }
                if let Some(websocket) = &stream.websocket {
                    face.outbox.frame_as(websocket.role());
                }
                self.dirty.push(id);
            }
            Transport::Internal | Transport::Null | Transport::Down => self.dirty.push(id),
        }
    }

    /// Sends what was queued: about one system call for each stream face, one for up to 64 runs of datagrams. To be called once per turn of
    /// the host's loop, before it waits.
    pub fn flush(&mut self, pool: &mut Pool) {
        // An early flush may have left an id in the list twice, or of a face that is gone: both do nothing.
        let mut dirty = core::mem::take(&mut self.dirty);
        dirty.drain(..).for_each(|id| self.flush_face(id, pool));
        // Nothing is sent to a face in between; the list goes back for its room.
        debug_assert!(self.dirty.is_empty());
        self.dirty = dirty;
        for index in 0..self.sockets.len() {
            self.flush_udp(index, pool);
        }
        self.relieve_queues();
        self.xdp.kick();
        if self.xdp.changed {
            self.match_xdp(self.latest);
        }
    }

    /// Takes the oldest link packet that was sent to the internal face.
    pub fn next_internal(&mut self) -> Option<Vec<u8>> {
        self.mailbox.pop()
    }

    pub(super) fn flush_face(&mut self, id: FaceId, pool: &mut Pool) {
        match self.slots.get(id) {
            Some(Face { dirty: true, transport: Transport::Stream(_), .. }) => self.flush_stream(id, pool),
            Some(Face { dirty: true, transport: Transport::Internal, .. }) => self.flush_internal(id, pool),
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
        let relief = &mut self.relief.is_needed;
        let queue_max = self.send_budget.limit(face.scope == Scope::Local, self.config.queue_bytes_max);
        let is_short = queue_max < self.config.queue_bytes_max;
        let result = stream.flush(&outbox, pool, queue_max, |item, len, cause| {
            if is_short && cause == Cause::FaceQueueFull {
                drops.shortages.record(SharedPool::SendQueues);
                *relief = true;
            }
            counters.take_back(item.kind, len);
            Tally { face: counters, all: drops }.drops(cause, 1);
        });
        if let Err(reason) = result {
            // Its packets are lost with it.
            face.outbox = outbox;
            return self.lose_stream(self.latest, id, reason, pool);
        }
        self.put_back(outbox, pool);
        self.update_stream(self.latest, id, false);
    }

    fn flush_internal(&mut self, id: FaceId, pool: &mut Pool) {
        let Some(face) = self.slots.get_mut(id) else { return };
        face.dirty = false;
        let outbox = core::mem::take(&mut face.outbox);
        for item in outbox.items() {
            if !self.mailbox.push(outbox.parts(item, pool), self.config.queue_bytes_max) {
                face.counters.take_back(item.kind, outbox.item_len(item, pool));
                Tally { face: &mut face.counters, all: &mut self.drops }.drops(Cause::FaceQueueFull, 1);
            }
        }
        self.put_back(outbox, pool);
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

    fn flush_senders(&mut self, index: usize, ids: &[FaceId], pool: &mut Pool) {
        let Some(Some(socket)) = self.sockets.get_mut(index) else { return };
        // Outboxes are taken out of their faces, so that faces can count meanwhile.
        let mut taken =
            ArrayVec::<(FaceId, Peer, Head, usize, Outbox, core::ops::Range<usize>), SENDERS_MAX>::new();
        for id in ids {
            let Some(face) = self.slots.get_mut(*id).filter(|face| face.dirty) else { continue };
            let Transport::Datagram { peer, run_datagram_max, burst, way, .. } = &mut face.transport else {
                continue;
            };
            face.dirty = false;
            let outbox = core::mem::take(&mut face.outbox);
            let items = outbox.items();
            let max = face.link.room().burst_max(self.config.burst_bytes_max);
            let count = items.iter().take_while(|item| burst.takes(outbox.item_len(item, pool), max)).count();
            let queue_max = self.send_budget.limit(face.scope == Scope::Local, self.config.queue_bytes_max);
            let mut tally = Tally { face: &mut face.counters, all: &mut self.drops };
            for item in &items[count..] {
                if !burst.waiting.push(outbox.parts(item, pool), queue_max) {
                    if queue_max < self.config.queue_bytes_max {
                        tally.all.shortages.record(SharedPool::SendQueues);
                        self.relief.is_needed = true;
                    }
                    tally.face.take_back(item.kind, outbox.item_len(item, pool));
                    tally.drops(Cause::FaceQueueFull, 1);
                }
            }
            let is_waiting = !burst.waiting.is_empty();
            if is_waiting && burst.timer.is_none() {
                let due = self.latest + self.config.burst_pause;
                burst.timer = Some(due);
                self.timers.set(due, Timer::Burst(*id));
            }
            let gone = self.xdp.send((&socket.medium, *peer), way, (&outbox, count), pool);
            taken.push((*id, *peer, socket.head(*peer), *run_datagram_max, outbox, gone..count));
        }
        let mut senders: ArrayVec<Sender<'_>, SENDERS_MAX> = taken
            .iter()
            .filter(|(.., items)| !items.is_empty())
            .map(|(face, peer, head, run_datagram_max, outbox, items)| Sender {
                face: *face,
                peer: *peer,
                head: head.as_slice(),
                run_datagram_max: *run_datagram_max,
                outbox,
                items: (items.start, items.end),
            })
            .collect();
        let (slots, drops, relief) = (&mut self.slots, &mut self.drops, &mut self.relief.is_needed);
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
                        *relief = true;
                    }
                    Cause::FaceQueueFull
                }
                Refusal::Failed(Errno::MSGSIZE) => Cause::FaceMtu,
                Refusal::Failed(_) => Cause::SendFailed,
            };
            face.counters.take_back(item.and_then(|item| item.kind), len);
            Tally { face: &mut face.counters, all: drops }.drops(cause, 1);
        });
        drop(senders);
        let held = socket.memory_bytes();
        self.send_budget.recharge(&mut socket.charged, held);
        for (id, .., outbox, _) in taken.drain(..) {
            self.recharge(id);
            self.put_back(outbox, pool);
        }
    }

    /// A UDP peer has had time for what it got: the next burst, if the socket isn't busy.
    pub(super) fn send_waiting(&mut self, now: Instant, id: FaceId) {
        let Some(face) = self.slots.get_mut(id) else { return };
        let Transport::Datagram { socket, peer, burst, .. } = &mut face.transport else { return };
        burst.timer = None;
        let Some(Some(socket)) = self.sockets.get(*socket) else { return };
        if socket.queue_bytes() == 0 {
            let head = socket.head(*peer);
            let to = (address_of(*peer), head.as_slice());
            let max = face.link.room().burst_max(self.config.burst_bytes_max);
            let mut tally = Tally { face: &mut face.counters, all: &mut self.drops };
            // What the socket doesn't take now waits for the next pause.
            let _ = burst.send_waiting(now, socket.socket.as_fd(), to, max, |errno| {
                let cause = if errno == Errno::MSGSIZE { Cause::FaceMtu } else { Cause::SendFailed };
                tally.drops(cause, 1);
            });
        }
        if !burst.waiting.is_empty() {
            let due = now + self.config.burst_pause;
            burst.timer = Some(due);
            self.timers.set(due, Timer::Burst(id));
        }
        self.recharge(id);
    }

    /// Charges the common budget of send queues with what waits for a face.
    fn recharge(&mut self, id: FaceId) {
        if let Some(face) = self.slots.get_mut(id) {
            let held = face.held_bytes();
            self.send_budget.recharge(&mut face.charged, held);
        }
    }

    pub(super) fn put_back(&mut self, mut outbox: Outbox, pool: &mut Pool) {
        outbox.clear(pool);
        if self.spare_outboxes.len() < SPARE_OUTBOXES_MAX {
            self.spare_outboxes.push(outbox);
        }
    }
}

/// A peer that says how much room it has puts pieces together, and pieces sent to where it sent from all come to it (decision 0035): link packets to it
/// are no longer than what the way takes whole. Where *we* opened the face, or the way isn't known, it is left to IP.
#[cold]
fn fit_path(face: &mut Face, sockets: &[Option<DatagramSocket>]) {
    let whole = match &face.transport {
        Transport::Datagram { socket, peer, .. } if face.persistency == Persistency::OnDemand => {
            sockets[*socket].as_ref().and_then(|socket| socket.path_mtu(*peer))
        }
        _ => None,
    };
    face.link.set_path_mtu(whole.unwrap_or(usize::MAX));
}
