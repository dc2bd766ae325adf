//! The links of a shard with the others: a ring to and from each, a waker per shard, and the filter
//! of pending prefixes.
//!
//! Back-pressure instead of loss: a shard reads no more packets from its sockets while its ring to
//! another shard is more than half full. This can't deadlock: only the first shard may block
//! others, and it always drains its rings.

use super::pending_prefix_filter::PendingPrefixFilter;
use super::ring_message::{self, MessageKind, RingMessage};
use core::sync::atomic::{AtomicBool, Ordering, fence};
use nw_element_api::decode::resolve_name;
use nw_element_api::{DropCause, DropCounters, DropReason, Kind, Meta, Packet, Pool, Timestamp};
use nw_faces::UnknownPeerPacket;
use nw_name::hash::shard_of;
use nw_tables::pit::TOKEN_LEN;
use rtrb::{Consumer, Producer, RingBuffer};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::sync::Arc;

/// Bytes that may be in the ring from one shard to another.
const RING_LEN: usize = 4 << 20;

/// With fewer free bytes in a ring its sender applies back-pressure. All packets of one iteration,
/// at their largest size, fit into this space.
const FREE_MIN: usize = RING_LEN / 2;

/// Messages received per call, from all rings together.
const MESSAGES_PER_CALL: usize = 192;

/// After this many calls of [`ShardLinks::receive`], all messages that were in the rings before are
/// received.
pub const RECEIVES_TO_DRAIN: usize = RING_LEN / ring_message::HEADER_LEN;

/// Wakes a shard that sleeps in `epoll_wait`.
#[derive(Debug)]
pub struct Waker {
    fd: OwnedFd,
    asleep: AtomicBool,
}

impl Waker {
    /// Creates a waker of a shard that is awake.
    ///
    /// # Errors
    /// If there is no file descriptor left.
    pub fn new() -> Result<Self, Errno> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Waker { fd, asleep: AtomicBool::new(false) })
    }

    /// Returns the descriptor that the shard watches for reading.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Wakes the shard if it sleeps. To be called after a message was written.
    pub fn wake(&self) {
        // Either a shard that is about to sleep sees the message, or this load sees that it sleeps.
        fence(Ordering::SeqCst);
        if self.asleep.swap(false, Ordering::Relaxed) {
            let _ = rustix::io::write(&self.fd, &1u64.to_ne_bytes());
        }
    }

    /// Marks the shard as asleep. The shard must check for messages afterwards, before it sleeps.
    pub fn set_asleep(&self) {
        self.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Marks the shard as awake.
    pub fn set_awake(&self) {
        self.asleep.store(false, Ordering::Relaxed);
    }

    /// Clears the descriptor after it became readable. The wake-up may have been meant for an
    /// earlier sleep.
    pub fn clear(&self) {
        let _ = rustix::io::read(&self.fd, &mut [0u8; 8]);
    }
}

/// One shard's links with all others.
#[derive(Debug)]
pub struct ShardLinks {
    index: usize,
    /// Rings by shard; `None` for the shard itself.
    peers: Vec<Option<RingPair>>,
    wakers: Arc<[Waker]>,
    pending_prefixes: Arc<PendingPrefixFilter>,
    /// Interests carry our PIT tokens upstream, so the token of a Data packet tells which shard it
    /// belongs to.
    uses_tokens: bool,
    /// Packets lost because a ring was full or the pool was empty.
    pub drops: DropCounters,
    /// Packets handed over to other shards for forwarding.
    pub handed_over: u64,
}

#[derive(Debug)]
struct RingPair {
    sender: Producer<u8>,
    receiver: Consumer<u8>,
    wake_pending: bool,
}

impl ShardLinks {
    /// Connects `shards` shards with each other and returns the links of each.
    ///
    /// # Errors
    /// If there are no file descriptors left.
    pub fn connect(shards: usize, uses_tokens: bool) -> Result<Vec<ShardLinks>, Errno> {
        let wakers: Arc<[Waker]> =
            (0..shards).map(|_| Waker::new()).collect::<Result<Vec<_>, _>>()?.into();
        let pending_prefixes = Arc::new(PendingPrefixFilter::default());
        let mut links: Vec<_> = (0..shards)
            .map(|index| ShardLinks {
                index,
                peers: (0..shards).map(|_| None).collect(),
                wakers: Arc::clone(&wakers),
                pending_prefixes: Arc::clone(&pending_prefixes),
                uses_tokens,
                drops: DropCounters::default(),
                handed_over: 0,
            })
            .collect();
        for a in 0..shards {
            for b in a + 1..shards {
                let (a_to_b, b_from_a) = RingBuffer::new(RING_LEN);
                let (b_to_a, a_from_b) = RingBuffer::new(RING_LEN);
                links[a].peers[b] =
                    Some(RingPair { sender: a_to_b, receiver: a_from_b, wake_pending: false });
                links[b].peers[a] =
                    Some(RingPair { sender: b_to_a, receiver: b_from_a, wake_pending: false });
            }
        }
        Ok(links)
    }

    /// Returns the number of shards.
    pub fn shards(&self) -> usize {
        self.peers.len()
    }

    /// Returns the index of this shard.
    pub const fn index(&self) -> usize {
        self.index
    }

    /// Returns the wakers of all shards, by index.
    pub const fn wakers(&self) -> &Arc<[Waker]> {
        &self.wakers
    }

    /// Returns this shard's waker.
    pub fn waker(&self) -> &Waker {
        &self.wakers[self.index]
    }

    /// Keeps the packets that belong to this shard, and hands the others over. Reads deferred names
    /// that decide which shard a packet belongs to.
    pub fn distribute(&mut self, now: Timestamp, packets: &mut Vec<Packet>, pool: &mut Pool) {
        let mut own_count = 0;
        for position in 0..packets.len() {
            if !self.has_shard_token(pool.meta(&packets[position]))
                && let Err(error) = resolve_name(pool, &packets[position])
            {
                self.drops.count(DropReason::Malformed(error.fault));
                continue;
            }
            let meta = pool.meta(&packets[position]);
            let owner = self.owner(meta);
            if meta.kind == Kind::Data
                && !self.has_shard_token(meta)
                && self.pending_prefixes.has_pending(now)
            {
                self.offer_to_candidates(now, owner, &packets[position], pool);
                if owner != self.index && self.is_local_candidate(now, &packets[position], pool) {
                    self.send(owner, MessageKind::Forward, &packets[position], pool);
                    packets.swap(own_count, position);
                    own_count += 1;
                    continue;
                }
            }
            if owner == self.index {
                packets.swap(own_count, position);
                own_count += 1;
            } else {
                self.handed_over += 1;
                self.send(owner, MessageKind::Forward, &packets[position], pool);
            }
        }
        for packet in packets.drain(own_count..) {
            pool.release(packet);
        }
    }

    /// Returns the shard that a packet belongs to, by its token or its name.
    fn owner(&self, meta: &Meta) -> usize {
        if meta.kind != Kind::Interest && self.has_shard_token(meta) {
            return usize::from(meta.link.token.as_bytes()[0]);
        }
        shard_of(meta.prefixes.lookup_hash(), self.shards())
    }

    fn has_shard_token(&self, meta: &Meta) -> bool {
        let token = meta.link.token.as_bytes();
        self.uses_tokens && token.len() == TOKEN_LEN && usize::from(token[0]) < self.shards()
    }

    /// Offers Data without a token to the shards where a prefix of its name may be pending.
    #[cold]
    fn offer_to_candidates(&mut self, now: Timestamp, owner: usize, packet: &Packet, pool: &Pool) {
        let mut offered = 1u64 << owner | 1 << self.index;
        for shard in self.candidate_shards(now, packet, pool) {
            if offered & 1 << shard == 0 {
                offered |= 1 << shard;
                self.send(shard, MessageKind::Forward, packet, pool);
            }
        }
    }

    fn is_local_candidate(&self, now: Timestamp, packet: &Packet, pool: &Pool) -> bool {
        self.candidate_shards(now, packet, pool).any(|shard| shard == self.index)
    }

    /// Returns the shards in which a prefix of the packet's name may be pending.
    fn candidate_shards<'a>(
        &self,
        now: Timestamp,
        packet: &Packet,
        pool: &'a Pool,
    ) -> impl Iterator<Item = usize> + use<'a> {
        let (pending_prefixes, shards) = (Arc::clone(&self.pending_prefixes), self.shards());
        let prefixes = &pool.meta(packet).prefixes;
        let hashes = (0..=prefixes.stored_len()).map(|count| prefixes.hash(count));
        hashes
            .filter(move |hash| pending_prefixes.may_be_pending(*hash, now))
            .map(move |hash| shard_of(hash, shards))
    }

    /// Records an outgoing Interest with CanBePrefix, which Data with a longer name may satisfy.
    #[inline]
    pub fn record_prefix_interest(&self, now: Timestamp, packet: &Packet, pool: &Pool) {
        let meta = pool.meta(packet);
        if meta.kind == Kind::Interest && meta.can_be_prefix {
            let lifetime = core::time::Duration::from_millis(u64::from(meta.lifetime_ms));
            self.pending_prefixes.insert(meta.prefixes.lookup_hash(), now + lifetime);
        }
    }

    /// Copies a packet to another shard. Counts it as dropped if the ring is full.
    pub fn send(&mut self, to: usize, kind: MessageKind, packet: &Packet, pool: &Pool) {
        let Some(pair) = &mut self.peers[to] else { return };
        if ring_message::write(&mut pair.sender, kind, packet, pool) {
            pair.wake_pending = true;
        } else {
            self.drops.count(DropCause::ShardFull);
        }
    }

    /// Copies a packet of an unknown peer to the first shard.
    pub fn send_unknown_peer(&mut self, stray: &UnknownPeerPacket, pool: &Pool) {
        let Some(pair) = &mut self.peers[0] else { return };
        if ring_message::write_unknown_peer(&mut pair.sender, stray, pool) {
            pair.wake_pending = true;
        } else {
            self.drops.count(DropCause::ShardFull);
        }
    }

    /// Wakes the shards to which messages were sent since the last call.
    pub fn wake_peers(&mut self) {
        for (pair, waker) in self.peers.iter_mut().zip(self.wakers.iter()) {
            if let Some(pair) = pair.as_mut().filter(|pair| pair.wake_pending) {
                pair.wake_pending = false;
                waker.wake();
            }
        }
    }

    /// Receives messages from other shards, a bounded number.
    pub fn receive(&mut self, pool: &mut Pool, messages: &mut Vec<RingMessage>) {
        let messages_per_ring = (MESSAGES_PER_CALL / self.peers.len()).max(1);
        for pair in self.peers.iter_mut().flatten() {
            for _ in 0..messages_per_ring {
                match ring_message::read(&mut pair.receiver, pool) {
                    Some(RingMessage::Lost) => self.drops.count(DropCause::NoBuffer),
                    Some(message) => messages.push(message),
                    None => break,
                }
            }
        }
    }

    /// Returns whether another shard is too slow to receive what this one hands over. The caller
    /// then reads no more packets, so that senders wait and nothing is lost.
    pub fn is_backpressured(&self) -> bool {
        self.peers.iter().flatten().any(|pair| pair.sender.slots() < FREE_MIN)
    }

    /// Returns whether the first shard is too slow to receive what this one sends to its faces.
    pub fn is_backpressured_to_first(&self) -> bool {
        self.peers[0].as_ref().is_some_and(|pair| pair.sender.slots() < FREE_MIN)
    }

    /// Returns whether no message from another shard is waiting.
    pub fn is_empty(&self) -> bool {
        self.peers.iter().flatten().all(|pair| pair.receiver.is_empty())
    }

    /// Returns the bytes of waiting messages from other shards.
    pub fn waiting_bytes(&self) -> usize {
        self.peers.iter().flatten().map(|pair| pair.receiver.slots()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, poll};
    use std::time::Duration;

    fn is_readable(waker: &Waker) -> bool {
        let mut fds = [PollFd::new(&waker.fd, PollFlags::IN)];
        let now = rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut fds, Some(&now)).unwrap() > 0
    }

    #[test]
    fn waker_wakes_sleeping_shard_only_and_clears() {
        let waker = Waker::new().unwrap();
        waker.wake();
        assert!(!is_readable(&waker), "the shard is awake");
        waker.set_asleep();
        waker.wake();
        waker.wake();
        assert!(is_readable(&waker));
        // The wake-up was meant for the last sleep, but the shard was awake before it read the
        // descriptor: the next sleep ends at once.
        waker.set_awake();
        waker.set_asleep();
        assert!(is_readable(&waker));
        waker.set_awake();
        waker.clear();
        waker.set_asleep();
        assert!(!is_readable(&waker), "a cleared waker is not readable");
    }

    #[test]
    fn waker_message_to_sleeping_shard_always_wakes_it() {
        let mut links = ShardLinks::connect(2, true).unwrap();
        let (mut remote, mut local) = (links.pop().unwrap(), links.pop().unwrap());
        const MESSAGES: usize = 20_000;
        let sender = std::thread::spawn(move || {
            let mut pool = Pool::new(nw_name::HashKey::new([1, 2, 3, 4]), 4, 16);
            let packet = pool.copy_of(&[5, 0]).unwrap();
            for sent in 0..MESSAGES {
                remote.send(0, MessageKind::Transmit, &packet, &pool);
                remote.wake_peers();
                if sent % 64 == 0 {
                    std::thread::yield_now();
                }
            }
            pool.release(packet);
            (remote.drops.total(DropCause::ShardFull), remote)
        });
        let mut pool = Pool::new(nw_name::HashKey::new([1, 2, 3, 4]), 8, 4096);
        let (mut received, mut messages) = (0, Vec::new());
        let wakers = Arc::clone(local.wakers());
        let mut fds = [PollFd::new(&wakers[0].fd, PollFlags::IN)];
        let timeout = rustix::time::Timespec::try_from(Duration::from_secs(20)).unwrap();
        while received < MESSAGES {
            local.waker().set_asleep();
            if local.is_empty() {
                assert!(
                    poll(&mut fds, Some(&timeout)).unwrap() > 0,
                    "missed a message: {received} received"
                );
                local.wakers()[0].clear();
            }
            local.waker().set_awake();
            local.receive(&mut pool, &mut messages);
            for message in messages.drain(..) {
                let RingMessage::Packet(MessageKind::Transmit, packet) = message else {
                    panic!("{message:?}")
                };
                pool.release(packet);
                received += 1;
            }
        }
        assert_eq!(sender.join().unwrap().0, 0);
    }
}
