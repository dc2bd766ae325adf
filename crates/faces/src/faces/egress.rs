//! From packets to as few system calls as will do.

use super::face::{Face, Token, Transport};
use super::{Faces, SPARE_OUTBOXES_MAX, watch_again};
use crate::datagram::ether::Head;
use crate::datagram::{DatagramSocket, Peer, Refusal, Sender};
use crate::link::Tally;
use crate::outbox::Outbox;
use arrayvec::ArrayVec;
use nw_element::{Cause, FaceId, Instant, Packet, Pool};
use rustix::io::Errno;

/// Faces of one datagram socket that are served together.
const SENDERS_MAX: usize = 64;

impl Faces {
    /// Queues a packet, with the link fields in its metadata, to be sent by [`flush`](Self::flush). It is sent, or dropped and counted.
    #[inline]
    pub fn send(&mut self, now: Instant, id: FaceId, packet: Packet, pool: &mut Pool) {
        let Some(face) = self.slots.get_mut(id) else {
            let cause = if id == FaceId::NULL { Cause::Sink } else { Cause::FaceGone };
            return pool.drop_packet(packet, cause, &mut self.drops);
        };
        let queue_bytes = match &face.transport {
            Transport::Stream(stream) => stream.queue_bytes(),
            Transport::Datagram { socket, .. } => {
                self.sockets[*socket].as_ref().map_or(0, DatagramSocket::queue_bytes)
            }
            Transport::Internal => self.mailbox.bytes(),
        };
        if !face.dirty {
            face.dirty = true;
            face.outbox = self.spare_outboxes.pop().unwrap_or_default();
            match &face.transport {
                Transport::Datagram { socket, .. } => {
                    if let Some(socket) = &mut self.sockets[*socket] {
                        socket.dirty.push(id);
                    }
                }
                _ => self.dirty.push(id),
            }
        }
        let mut tally = Tally { face: &mut face.counters, all: &mut self.drops };
        face.link.send(now, packet, queue_bytes, pool, &mut face.outbox, &mut tally);
        if face.outbox.is_full() {
            self.flush_face(id, pool);
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
        let result = stream.flush(&outbox, pool, self.config.queue_bytes_max, |item, len, cause| {
            counters.take_back(item.kind, len);
            Tally { face: counters, all: drops }.drops(cause, 1);
        });
        if stream.queue_bytes() > 0 && !face.awaits_writable && result.is_ok() {
            face.awaits_writable = true;
            watch_again(&self.epoll, &stream.socket, Token::Face(id), true);
        }
        if let Err(reason) = result {
            // Its packets are lost with it.
            face.outbox = outbox;
            return self.end_face(id, reason, pool);
        }
        self.put_back(outbox, pool);
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
        let mut taken = ArrayVec::<(FaceId, Peer, Head, usize, Outbox), SENDERS_MAX>::new();
        for id in ids {
            let Some(face) = self.slots.get_mut(*id).filter(|face| face.dirty) else { continue };
            let Transport::Datagram { peer, run_datagram_max, .. } = face.transport else { continue };
            face.dirty = false;
            taken.push((*id, peer, socket.head(peer), run_datagram_max, core::mem::take(&mut face.outbox)));
        }
        let mut senders: ArrayVec<Sender<'_>, SENDERS_MAX> = taken
            .iter()
            .map(|(face, peer, head, run_datagram_max, outbox)| Sender {
                face: *face,
                peer: *peer,
                head: head.as_slice(),
                run_datagram_max: *run_datagram_max,
                outbox,
            })
            .collect();
        let (slots, drops) = (&mut self.slots, &mut self.drops);
        socket.flush(&mut senders, pool, self.config.queue_bytes_max, |id, item, len, refusal| {
            let Some(face) = slots.get_mut(id) else { return };
            let cause = match refusal {
                Refusal::NoRuns(longest) => {
                    if let Transport::Datagram { run_datagram_max, .. } = &mut face.transport {
                        *run_datagram_max = longest;
                    }
                    return;
                }
                Refusal::QueueFull => Cause::FaceQueueFull,
                Refusal::Failed(Errno::MSGSIZE) => Cause::FaceMtu,
                Refusal::Failed(_) => Cause::SendFailed,
            };
            face.counters.take_back(item.and_then(|item| item.kind), len);
            Tally { face: &mut face.counters, all: drops }.drops(cause, 1);
        });
        drop(senders);
        for (.., outbox) in taken.drain(..) {
            self.put_back(outbox, pool);
        }
    }

    fn put_back(&mut self, mut outbox: Outbox, pool: &mut Pool) {
        outbox.clear(pool);
        if self.spare_outboxes.len() < SPARE_OUTBOXES_MAX {
            self.spare_outboxes.push(outbox);
        }
    }
}
