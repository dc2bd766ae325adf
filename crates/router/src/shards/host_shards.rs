//! The part of the first shard's event loop that deals with the other shards.

use super::command::ShardCommand;
use super::ring_message::{MessageKind, RingMessage};
use crate::Host;
use crate::environment::reply_packet;
use nw_element_api::decode::decode;
use nw_element_api::{DropReason, Timestamp};

impl Host {
    /// Processes messages and events of other shards, and sends deferred replies of management
    /// after all shards have applied their commands.
    pub(crate) fn process_shard_messages(&mut self, now: Timestamp) {
        let Some(shard_pool) = &mut self.shard_pool else { return };
        shard_pool.poll_events(now, &mut self.faces, &self.face_table, &mut self.pool);
        let mut messages = shard_pool.receive_messages(&mut self.pool);
        for message in messages.drain(..) {
            self.process_shard_message(now, message);
        }
        if let Some(shard_pool) = &mut self.shard_pool {
            shard_pool.return_buffer(messages);
        }
        // The senders have checked that these packets belong to this shard.
        core::mem::swap(&mut self.batch, &mut self.local_batch);
        self.forward_local(now);
        core::mem::swap(&mut self.batch, &mut self.local_batch);
        // Packets that control sends while it learns may belong to any shard.
        self.batch.append(&mut self.local_batch);
        while let Some((data, token)) =
            self.shard_pool.as_mut().and_then(|shard_pool| shard_pool.next_reply())
        {
            self.faces.inject(now, &reply_packet(&data, token), &mut self.pool, &mut self.batch);
        }
        self.forward(now);
    }

    fn process_shard_message(&mut self, now: Timestamp, message: RingMessage) {
        match message {
            RingMessage::Packet(MessageKind::Forward, packet) => {
                match decode(&mut self.pool, &packet) {
                    Ok(()) => self.local_batch.push(packet),
                    // It was decoded by the sender, except for a deferred name, which may be
                    // malformed.
                    Err(error) => {
                        if let Some(shard_pool) = &mut self.shard_pool {
                            let drops = &mut shard_pool.links_mut().drops;
                            drops.count(DropReason::Malformed(error.fault));
                        }
                        self.pool.release(packet);
                    }
                }
            }
            RingMessage::Packet(MessageKind::Transmit, packet) => {
                if let Some(observer) = &mut self.observer {
                    observer.outgoing(now, &packet, &self.pool);
                }
                let egress = self.pool.meta(&packet).egress;
                self.faces.send(now, egress, packet, &mut self.pool);
            }
            RingMessage::Packet(MessageKind::RouteEvent, packet) => {
                self.learn(now, packet);
                self.forward(now);
            }
            RingMessage::UnknownPeer(origin, packet) => {
                self.faces.accept_unknown(now, origin, packet, &mut self.pool, &mut self.batch);
                self.forward(now);
            }
            RingMessage::Lost => {}
        }
    }

    /// Sends AF_XDP sockets to the shards that use them.
    pub(crate) fn send_xdp_updates(&mut self) {
        let updates = self.faces.socket_updates();
        if let Some(shard_pool) = &mut self.shard_pool {
            updates.for_each(|update| shard_pool.command(&ShardCommand::Xdp(update)));
        }
    }

    /// Returns whether another shard is too slow: packets then wait in their sockets.
    pub(crate) fn is_backpressured(&self) -> bool {
        self.shard_pool.as_ref().is_some_and(|shard_pool| shard_pool.links().is_backpressured())
    }

    /// Clears this shard's waker.
    pub(crate) fn clear_waker(&self) {
        if let Some(shard_pool) = &self.shard_pool {
            shard_pool.links().waker().clear();
        }
    }

    /// Marks this shard as asleep, and returns whether it must not sleep after all, as there is
    /// work from other shards.
    pub(crate) fn must_not_sleep(&mut self) -> bool {
        let Some(shard_pool) = &mut self.shard_pool else { return false };
        shard_pool.links_mut().waker().set_asleep();
        !shard_pool.links_mut().is_empty() || shard_pool.has_events()
    }

    /// Hands over packets of the batch that belong to other shards.
    pub(crate) fn distribute(&mut self, now: Timestamp) {
        if let Some(shard_pool) = &mut self.shard_pool {
            shard_pool.links_mut().distribute(now, &mut self.batch, &mut self.pool);
        }
    }

    /// Records outgoing Interests with CanBePrefix in the filter of pending prefixes.
    pub(crate) fn record_prefix_interests(&mut self, now: Timestamp) {
        if let Some(shard_pool) = &mut self.shard_pool {
            let links = shard_pool.links_mut();
            self.out
                .iter()
                .for_each(|packet| links.record_prefix_interest(now, packet, &self.pool));
        }
    }

    /// While there is an observer, removes the replicas of faces from the other shards, so that all
    /// packets pass this one.
    pub(crate) fn update_replicas(&mut self) {
        let observed = self.observer.is_some();
        if let Some(shard_pool) =
            self.shard_pool.as_mut().filter(|shard_pool| shard_pool.observed != observed)
        {
            shard_pool.observed = observed;
            let ids: Vec<_> = self.faces.ids().collect();
            ids.into_iter()
                .for_each(|id| shard_pool.update_face(&self.faces, &self.face_table, id));
        }
    }
}
