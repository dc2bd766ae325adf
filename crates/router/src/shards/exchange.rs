//! What connects a shard with the others: a ring to and from each, a bell that wakes a sleeper, and the board of prefixes that are pending.

use super::board::Board;
use super::parcel::{self, Arrival, Errand};
use core::sync::atomic::{AtomicBool, Ordering, fence};
use nw_element_api::decode::read_name;
use nw_element_api::{Cause, DropCounters, DropReason, Instant, Kind, Meta, Packet, Pool};
use nw_faces::Stray;
use nw_name::hash::shard_of;
use nw_tables::pit::TOKEN_LEN;
use rtrb::{Consumer, Producer, RingBuffer};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use std::sync::Arc;

/// Octets that may be under way from one shard to another.
const RING_LEN: usize = 4 << 20;

/// A ring with less room is crowded: who fills it takes in nothing more until it is not. What one turn takes in, of the longest packets, fits.
const ROOM_MIN: usize = RING_LEN / 2;

/// Parcels taken in one turn, all rings together.
const PARCELS_PER_TURN: usize = 192;

/// After so many calls of [`Exchange::take`] nothing is left of what was there before.
pub const TAKES_TO_EMPTY: usize = RING_LEN / parcel::HEAD_LEN;

/// Wakes a shard that sleeps.
#[derive(Debug)]
pub struct Bell {
    fd: OwnedFd,
    asleep: AtomicBool,
}

impl Bell {
    /// Of a shard that is awake.
    ///
    /// # Errors
    /// When there is no descriptor left.
    pub fn new() -> Result<Self, Errno> {
        let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Bell { fd, asleep: AtomicBool::new(false) })
    }

    /// To be watched for reading.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Something was put where the shard looks before it sleeps.
    pub fn ring(&self) {
        // What was put there is seen by a shard that says only now that it sleeps, or that it sleeps is seen here.
        fence(Ordering::SeqCst);
        if self.asleep.swap(false, Ordering::Relaxed) {
            let _ = rustix::io::write(&self.fd, &1u64.to_ne_bytes());
        }
    }

    /// The shard is about to sleep, unless it now finds something.
    pub fn sleep(&self) {
        self.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// The shard is awake, for whatever reason.
    pub fn wake(&self) {
        self.asleep.store(false, Ordering::Relaxed);
    }

    /// The descriptor said that the bell was rung: it is not to say so again. Whoever rang may have done so for a sleep before the last.
    pub fn hush(&self) {
        let _ = rustix::io::read(&self.fd, &mut [0u8; 8]);
    }
}

/// One shard's end of all ways between shards.
#[derive(Debug)]
pub struct Exchange {
    me: usize,
    /// By shard; none to itself.
    ways: Vec<Option<Way>>,
    bells: Arc<[Bell]>,
    board: Arc<Board>,
    /// Upstream gets tokens of ours, so a token of six octets says whose a Data is.
    tokens: bool,
    /// Packets that did not get into a ring.
    pub drops: DropCounters,
    /// Packets handed to others to be forwarded.
    pub handed_over: u64,
}

#[derive(Debug)]
struct Way {
    to: Producer<u8>,
    from: Consumer<u8>,
    rang_for: bool,
}

impl Exchange {
    /// The ends for so many shards.
    ///
    /// # Errors
    /// When there are no descriptors left.
    pub fn between(shards: usize, tokens: bool) -> Result<Vec<Exchange>, Errno> {
        let bells: Arc<[Bell]> = (0..shards).map(|_| Bell::new()).collect::<Result<Vec<_>, _>>()?.into();
        let board = Arc::new(Board::default());
        let mut ends: Vec<_> = (0..shards)
            .map(|me| Exchange {
                me,
                ways: (0..shards).map(|_| None).collect(),
                bells: Arc::clone(&bells),
                board: Arc::clone(&board),
                tokens,
                drops: DropCounters::default(),
                handed_over: 0,
            })
            .collect();
        for a in 0..shards {
            for b in a + 1..shards {
                let (a_to_b, b_from_a) = RingBuffer::new(RING_LEN);
                let (b_to_a, a_from_b) = RingBuffer::new(RING_LEN);
                ends[a].ways[b] = Some(Way { to: a_to_b, from: a_from_b, rang_for: false });
                ends[b].ways[a] = Some(Way { to: b_to_a, from: b_from_a, rang_for: false });
            }
        }
        Ok(ends)
    }

    /// How many shards there are.
    pub fn shards(&self) -> usize {
        self.ways.len()
    }

    /// This shard's number.
    pub const fn me(&self) -> usize {
        self.me
    }

    /// All bells, by shard.
    pub const fn bells(&self) -> &Arc<[Bell]> {
        &self.bells
    }

    /// This shard's bell.
    pub fn bell(&self) -> &Bell {
        &self.bells[self.me]
    }

    /// Keeps what is this shard's among decoded packets, and hands over the others. Names that tell whose a packet is are read, if they were not.
    pub fn distribute(&mut self, now: Instant, packets: &mut Vec<Packet>, pool: &mut Pool) {
        let mut kept = 0;
        for at in 0..packets.len() {
            if !self.is_labelled(pool.meta(&packets[at]))
                && let Err(error) = read_name(pool, &packets[at])
            {
                self.drops.count(DropReason::Malformed(error.fault));
                continue;
            }
            let meta = pool.meta(&packets[at]);
            let owner = self.owner(meta);
            if meta.kind == Kind::Data && !self.is_labelled(meta) && self.board.is_used(now) {
                self.show_others(now, owner, &packets[at], pool);
                if owner != self.me && self.may_be_mine(now, &packets[at], pool) {
                    self.put(owner, Errand::Enter, &packets[at], pool);
                    packets.swap(kept, at);
                    kept += 1;
                    continue;
                }
            }
            if owner == self.me {
                packets.swap(kept, at);
                kept += 1;
            } else {
                self.handed_over += 1;
                self.put(owner, Errand::Enter, &packets[at], pool);
            }
        }
        for packet in packets.drain(kept..) {
            pool.release(packet);
        }
    }

    /// Whose a packet is: by the token that shard gave, or by the name.
    fn owner(&self, meta: &Meta) -> usize {
        if meta.kind != Kind::Interest && self.is_labelled(meta) {
            return usize::from(meta.link.token.as_bytes()[0]);
        }
        shard_of(meta.prefixes.key(), self.shards())
    }

    fn is_labelled(&self, meta: &Meta) -> bool {
        let token = meta.link.token.as_bytes();
        self.tokens && token.len() == TOKEN_LEN && usize::from(token[0]) < self.shards()
    }

    /// A Data that says nothing of who asked: it may be for Interests with CanBePrefix, which are where their own names lead.
    #[cold]
    fn show_others(&mut self, now: Instant, owner: usize, packet: &Packet, pool: &Pool) {
        let mut shown = 1u64 << owner | 1 << self.me;
        for shard in self.pending_in(now, packet, pool) {
            if shown & 1 << shard == 0 {
                shown |= 1 << shard;
                self.put(shard, Errand::Enter, packet, pool);
            }
        }
    }

    fn may_be_mine(&self, now: Instant, packet: &Packet, pool: &Pool) -> bool {
        self.pending_in(now, packet, pool).any(|shard| shard == self.me)
    }

    /// Shards in which a prefix of a packet's name may be pending.
    fn pending_in<'a>(
        &self,
        now: Instant,
        packet: &Packet,
        pool: &'a Pool,
    ) -> impl Iterator<Item = usize> + use<'a> {
        let (board, shards) = (Arc::clone(&self.board), self.shards());
        let prefixes = &pool.meta(packet).prefixes;
        let hashes = (0..=prefixes.kept()).map(|count| prefixes.hash(count));
        hashes.filter(move |hash| board.is_pending(*hash, now)).map(move |hash| shard_of(hash, shards))
    }

    /// Notes what leaves and may be answered under a longer name.
    #[inline]
    pub fn note_asked(&self, now: Instant, packet: &Packet, pool: &Pool) {
        let meta = pool.meta(packet);
        if meta.kind == Kind::Interest && meta.can_be_prefix {
            let lifetime = core::time::Duration::from_millis(u64::from(meta.lifetime_ms));
            self.board.note(meta.prefixes.key(), now + lifetime);
        }
    }

    /// Copies a packet to another shard, or counts that there was no room.
    pub fn put(&mut self, to: usize, errand: Errand, packet: &Packet, pool: &Pool) {
        let Some(way) = &mut self.ways[to] else { return };
        if parcel::put(&mut way.to, errand, packet, pool) {
            way.rang_for = true;
        } else {
            self.drops.count(Cause::ShardFull);
        }
    }

    /// Copies a datagram of a stranger to the first shard.
    pub fn put_stray(&mut self, stray: &Stray, pool: &Pool) {
        let Some(way) = &mut self.ways[0] else { return };
        if parcel::put_stray(&mut way.to, stray, pool) {
            way.rang_for = true;
        } else {
            self.drops.count(Cause::ShardFull);
        }
    }

    /// Wakes those who were sent something since the last call.
    pub fn ring(&mut self) {
        for (way, bell) in self.ways.iter_mut().zip(self.bells.iter()) {
            if let Some(way) = way.as_mut().filter(|way| way.rang_for) {
                way.rang_for = false;
                bell.ring();
            }
        }
    }

    /// Takes what others sent, a bounded amount.
    pub fn take(&mut self, pool: &mut Pool, arrivals: &mut Vec<Arrival>) {
        let parcels_per_ring = (PARCELS_PER_TURN / self.ways.len()).max(1);
        for way in self.ways.iter_mut().flatten() {
            for _ in 0..parcels_per_ring {
                match parcel::take(&mut way.from, pool) {
                    Some(Arrival::Lost) => self.drops.count(Cause::NoBuffer),
                    Some(arrival) => arrivals.push(arrival),
                    None => break,
                }
            }
        }
    }

    /// True when another shard is behind with what this one hands over: read no more, so that senders wait and nothing is lost. Whoever is behind
    /// catches up by itself, as what it takes in needs no room here but the first shard's, and that one always takes.
    pub fn is_crowded(&self) -> bool {
        self.ways.iter().flatten().any(|way| way.to.slots() < ROOM_MIN)
    }

    /// The same of the ring to the first shard, where what leaves by its faces goes.
    pub fn is_crowded_to_first(&self) -> bool {
        self.ways[0].as_ref().is_some_and(|way| way.to.slots() < ROOM_MIN)
    }

    /// True when nothing of others waits.
    pub fn is_empty(&self) -> bool {
        self.ways.iter().flatten().all(|way| way.from.is_empty())
    }

    /// Octets that others have sent and that wait.
    pub fn waiting_bytes(&self) -> usize {
        self.ways.iter().flatten().map(|way| way.from.slots()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, poll};
    use std::time::Duration;

    fn rung(bell: &Bell) -> bool {
        let mut fds = [PollFd::new(&bell.fd, PollFlags::IN)];
        let now = rustix::time::Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut fds, Some(&now)).unwrap() > 0
    }

    #[test]
    fn a_bell_wakes_sleepers_only_and_is_silent_once_heard() {
        let bell = Bell::new().unwrap();
        bell.ring();
        assert!(!rung(&bell), "nobody sleeps");
        bell.sleep();
        bell.ring();
        bell.ring();
        assert!(rung(&bell));
        // It rang for that sleep, but the shard had woken before it looked: heard at the next.
        bell.wake();
        bell.sleep();
        assert!(rung(&bell));
        bell.wake();
        bell.hush();
        bell.sleep();
        assert!(!rung(&bell), "nothing rings without end");
    }

    #[test]
    fn nothing_sent_to_a_sleeper_is_slept_over() {
        let mut ends = Exchange::between(2, true).unwrap();
        let (mut there, mut here) = (ends.pop().unwrap(), ends.pop().unwrap());
        const PARCELS: usize = 20_000;
        let sender = std::thread::spawn(move || {
            let mut pool = Pool::new(nw_name::HashKey::new([1, 2, 3, 4]), 4, 16);
            let packet = pool.copy_of(&[5, 0]).unwrap();
            for sent in 0..PARCELS {
                there.put(0, Errand::Leave, &packet, &pool);
                there.ring();
                if sent % 64 == 0 {
                    std::thread::yield_now();
                }
            }
            pool.release(packet);
            (there.drops.total(Cause::ShardFull), there)
        });
        let mut pool = Pool::new(nw_name::HashKey::new([1, 2, 3, 4]), 8, 4096);
        let (mut got, mut arrivals) = (0, Vec::new());
        let bells = Arc::clone(here.bells());
        let mut fds = [PollFd::new(&bells[0].fd, PollFlags::IN)];
        let patience = rustix::time::Timespec::try_from(Duration::from_secs(20)).unwrap();
        while got < PARCELS {
            here.bell().sleep();
            if here.is_empty() {
                assert!(poll(&mut fds, Some(&patience)).unwrap() > 0, "slept over what was sent: {got} came");
                here.bells()[0].hush();
            }
            here.bell().wake();
            here.take(&mut pool, &mut arrivals);
            for arrival in arrivals.drain(..) {
                let Arrival::Packet(Errand::Leave, packet) = arrival else { panic!("{arrival:?}") };
                pool.release(packet);
                got += 1;
            }
        }
        assert_eq!(sender.join().unwrap().0, 0);
    }
}
