//! The AF_XDP sockets of one queue, two a shard: rings shared with the kernel, and the memory that their frames lie in.
//!
//! ```text
//!  fill ──▶ kernel ──▶ rx, one a shard           each frame for receiving is in fill, with the kernel, in an rx, or taken here
//!  tx, one a shard ──▶ kernel ──▶ completion     each frame for sending has its shard: it is free there, in tx, with the kernel, in completion, or sent
//! ```
//!
//! A shard receives by one socket and sends by another. By epoll it is in the first one's list of waiters at all times, and the kernel goes through
//! that list for each frame that has left: at the second nobody waits.
//!
//! Fill and completion ring a queue has once, and they have one user at a time: who uses them holds a lock that is only ever tried. A shard that
//! finds it taken keeps what it would hand back, and tries again in its next turn, or a moment later where its shard would sleep: nobody waits for anybody.
//! A shard's rx has room for its own part of the frames, so one that nobody reads keeps none from the others.
//!
//! A ring is written by one side and read by the other; each side moves one of two counters. The calls are rustix's; here is what is done in the
//! shared memory, and nowhere else in this module's folder is `unsafe` (decision 0024).

#![allow(unsafe_code)]

use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicU32, Ordering};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};
use rustix::net::sockopt;
use rustix::net::xdp::{
    SocketAddrXdp, SocketAddrXdpFlags, SocketAddrXdpWithSharedUmem, XDP_PGOFF_RX_RING, XDP_PGOFF_TX_RING,
    XDP_UMEM_PGOFF_COMPLETION_RING, XDP_UMEM_PGOFF_FILL_RING, XdpDesc, XdpDescOptions, XdpOptionsFlags,
    XdpRingFlags, XdpRingOffset, XdpUmemReg, XdpUmemRegFlags,
};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};

/// What the kernel keeps free before each received frame.
const HEADROOM: usize = 256;
const HUGE_PAGE: usize = 2 << 20;
/// Calls in which the kernel is asked to send what is in the ring: in copy mode it takes 32 frames a call.
const KICKS_MAX: usize = 256;
/// Frames that a thread may have taken without handing them back.
const TAKEN_MAX: usize = 512;

/// How many frames the threads of a queue have, and how long they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// For what each receives; a power of two.
    pub received: u32,
    /// For what each sends; a power of two.
    pub sent: u32,
    /// Octets of one: 2048 or 4096.
    pub frame: u32,
    /// Threads that receive and send by the queue.
    pub threads: u32,
}

impl Sizes {
    /// For frames of up to so many octets; `None` when none are so long.
    pub const fn for_frames(len_max: usize, received: u32, sent: u32, threads: u32) -> Option<Self> {
        match len_max + HEADROOM {
            0..=2048 => Some(Sizes { received, sent, frame: 2048, threads }),
            2049..=4096 => Some(Sizes { received, sent, frame: 4096, threads }),
            _ => None,
        }
    }

    /// Frames for receiving, which come first.
    const fn all_received(self) -> u32 {
        self.received * self.threads
    }

    /// Frames for sending.
    const fn all_sent(self) -> u32 {
        self.sent * self.threads
    }

    const fn bytes(self) -> usize {
        (self.all_received() + self.all_sent()) as usize * self.frame as usize
    }

    /// Where a frame is.
    const fn place(self, frame: u32) -> u64 {
        frame as u64 * self.frame as u64
    }

    /// Where the frame is that has this octet.
    const fn start(self, address: u64) -> u64 {
        address & !(self.frame as u64 - 1)
    }

    /// Frames that a thread sends from.
    const fn frames_of(self, thread: u32) -> core::ops::Range<u32> {
        let first = self.all_received() + thread * self.sent;
        first..first + self.sent
    }

    /// Which thread sends from the frame there.
    const fn sender(self, address: u64) -> Option<usize> {
        let frame = address / self.frame as u64;
        match frame.checked_sub(self.all_received() as u64) {
            Some(of_sent) => Some((of_sent / self.sent as u64) as usize),
            None => None,
        }
    }
}

/// Memory that is given back when this is dropped.
#[derive(Debug)]
struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: it says where memory is, and that stays so whichever thread looks. Who touches which frame there is the rings' to say: a frame is in one
// place at a time, and only who has it there reads or writes it.
unsafe impl Send for Mapping {}

// SAFETY: as above; nothing of it is changed while it is shared.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// For frames: in huge pages where there are any.
    fn of_frames(len: usize) -> Result<Self, Errno> {
        let whole = len.next_multiple_of(HUGE_PAGE);
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::POPULATE;
        let map = |len, flags| {
            // SAFETY: new memory, at a place that the kernel chooses: nothing that exists is touched.
            let start = unsafe { mmap_anonymous(ptr::null_mut(), len, rights, flags) }?;
            Ok(Mapping { start: NonNull::new(start.cast()).ok_or(Errno::NOMEM)?, len })
        };
        map(whole, flags | MapFlags::HUGETLB).or_else(|_: Errno| {
            let mapping = map(whole, MapFlags::PRIVATE)?;
            // SAFETY: advice on memory that was mapped just now, all of it; it changes no content.
            let _ = unsafe { madvise(mapping.start.as_ptr().cast(), whole, Advice::LinuxHugepage) };
            Ok(mapping)
        })
    }

    fn of_ring(socket: &OwnedFd, len: usize, which: u64) -> Result<Self, Errno> {
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses the place, so nothing that exists is touched.
        let start = unsafe {
            mmap(ptr::null_mut(), len, rights, MapFlags::SHARED | MapFlags::POPULATE, socket, which)
        }?;
        Ok(Mapping { start: NonNull::new(start.cast()).ok_or(Errno::NOMEM)?, len })
    }

    /// A place in it for a `T`.
    fn at<T>(&self, offset: u64) -> Result<NonNull<T>, Errno> {
        let offset = usize::try_from(offset).map_err(|_| Errno::INVAL)?;
        let fits = offset.checked_add(size_of::<T>()).is_some_and(|end| end <= self.len);
        if !fits || offset % align_of::<T>() != 0 {
            return Err(Errno::INVAL);
        }
        // SAFETY: within the mapping, as was just seen; a mapping starts at a page, so the place is aligned as its offset is.
        Ok(unsafe { self.start.add(offset) }.cast())
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by this type, with this length, and whoever holds a pointer into it holds this value too.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
    }
}

/// One ring, whichever side writes it.
#[derive(Debug)]
struct Ring<T> {
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    flags: Option<NonNull<AtomicU32>>,
    entries: NonNull<T>,
    size: u32,
    /// Our counter, ahead of what the kernel was told of it.
    ours: u32,
    /// The kernel's, as last seen.
    theirs: u32,
    /// Keeps the above alive.
    _mapping: Mapping,
}

impl<T: Copy> Ring<T> {
    fn new(socket: &OwnedFd, which: u64, size: u32, offsets: XdpRingOffset) -> Result<Self, Errno> {
        let len = usize::try_from(offsets.desc).map_err(|_| Errno::INVAL)? + size as usize * size_of::<T>();
        let mapping = Mapping::of_ring(socket, len, which)?;
        Ok(Ring {
            producer: mapping.at(offsets.producer)?,
            consumer: mapping.at(offsets.consumer)?,
            flags: offsets.flags.map(|flags| mapping.at(flags)).transpose()?,
            // The last entry ends where the mapping does.
            entries: mapping.at(offsets.desc)?,
            size,
            ours: 0,
            theirs: 0,
            _mapping: mapping,
        })
    }

    const fn place(&self) -> NonNull<T> {
        // SAFETY: the mask keeps it below the number of entries, which are all in the mapping.
        unsafe { self.entries.add((self.ours & (self.size - 1)) as usize) }
    }

    /// A ring that we write: entries there is room for.
    fn room(&mut self) -> u32 {
        let room = self.size - self.ours.wrapping_sub(self.theirs);
        if room > 0 {
            return room;
        }
        // SAFETY: in the mapping, and only touched as an atomic, by the kernel too. What it has read is free: acquire.
        self.theirs = unsafe { self.consumer.as_ref() }.load(Ordering::Acquire);
        self.size - self.ours.wrapping_sub(self.theirs)
    }

    /// Writes where there is room, for the kernel to see once it is published.
    fn write(&mut self, entry: T) {
        debug_assert!(self.ours.wrapping_sub(self.theirs) < self.size, "no room");
        // SAFETY: a valid place, which the kernel does not read before our counter has passed it.
        unsafe { self.place().write(entry) };
        self.ours = self.ours.wrapping_add(1);
    }

    fn publish(&mut self) {
        // SAFETY: as in `room`. The entries before the counter: release.
        unsafe { self.producer.as_ref() }.store(self.ours, Ordering::Release);
    }

    /// A ring that we write: true while the kernel has not read all of it.
    fn is_behind(&mut self) -> bool {
        // SAFETY: as in `room`.
        self.theirs = unsafe { self.consumer.as_ref() }.load(Ordering::Acquire);
        self.theirs != self.ours
    }

    /// A ring that we read: entries there are.
    fn available(&mut self) -> u32 {
        // SAFETY: as in `room`. The entries behind the counter: acquire.
        self.theirs = unsafe { self.producer.as_ref() }.load(Ordering::Acquire);
        self.theirs.wrapping_sub(self.ours).min(self.size)
    }

    /// The first of those that are available.
    const fn peek(&self) -> T {
        // SAFETY: a valid place, which the kernel has written, and does not write again before our counter has passed it and it was told so.
        unsafe { self.place().read() }
    }

    /// On to the next.
    const fn skip(&mut self) {
        self.ours = self.ours.wrapping_add(1);
    }

    fn release(&mut self) {
        // SAFETY: as in `room`. What was read before the counter: release.
        unsafe { self.consumer.as_ref() }.store(self.ours, Ordering::Release);
    }

    fn wants_a_call(&self) -> bool {
        let wakeup = XdpRingFlags::XDP_RING_NEED_WAKEUP.bits();
        // SAFETY: as in `room`.
        self.flags.is_none_or(|flags| unsafe { flags.as_ref() }.load(Ordering::Relaxed) & wakeup != 0)
    }
}

// SAFETY: the pointers are into the mapping that the value owns, and no other thread has them; the kernel does not care which thread it is.
unsafe impl<T: Send> Send for Ring<T> {}

/// What the threads of a queue share.
#[derive(Debug)]
struct Queue {
    rings: Mutex<Common>,
    sizes: Sizes,
    /// After the rings: while those are there the kernel may write to it.
    frames: Mapping,
}

/// What one thread of a queue uses at a time.
#[derive(Debug)]
struct Common {
    fill: Ring<u64>,
    completion: Ring<u64>,
    /// Frames that were sent, by the thread whose they are, until that takes them back.
    sent: Box<[Vec<u64>]>,
}

impl Common {
    /// Gives each thread back what it has sent.
    fn reap(&mut self, sizes: Sizes) {
        let count = self.completion.available();
        for _ in 0..count {
            let addr = self.completion.peek();
            self.completion.skip();
            let sent = sizes.sender(addr).and_then(|thread| self.sent.get_mut(thread));
            // Only what was ours to send.
            if let Some(sent) = sent.filter(|sent| sent.len() < sent.capacity()) {
                sent.push(sizes.start(addr));
            }
        }
        if count > 0 {
            self.completion.release();
        }
    }
}

impl Queue {
    /// Opens the rings and frames that belong to the first of the sockets; all frames for receiving are in the fill ring.
    fn open(socket: &OwnedFd, sizes: Sizes) -> Result<Self, Errno> {
        let frames = Mapping::of_frames(sizes.bytes())?;
        let registration = XdpUmemReg {
            addr: frames.start.as_ptr().expose_provenance() as u64,
            len: sizes.bytes() as u64,
            chunk_size: sizes.frame,
            headroom: 0,
            flags: XdpUmemRegFlags::empty(),
            tx_metadata_len: 0,
        };
        let (received, sent) =
            (sizes.all_received().next_power_of_two(), sizes.all_sent().next_power_of_two());
        sockopt::set_xdp_umem_reg(socket, registration)?;
        sockopt::set_xdp_umem_fill_ring_size(socket, received)?;
        sockopt::set_xdp_umem_completion_ring_size(socket, sent)?;
        let offsets = sockopt::xdp_mmap_offsets(socket)?;
        let mut fill = Ring::new(socket, XDP_UMEM_PGOFF_FILL_RING, received, offsets.fr)?;
        let completion = Ring::new(socket, XDP_UMEM_PGOFF_COMPLETION_RING, sent, offsets.cr)?;
        (0..sizes.all_received()).for_each(|frame| fill.write(sizes.place(frame)));
        fill.publish();
        let sent = (0..sizes.threads).map(|_| Vec::with_capacity(sizes.sent as usize)).collect();
        Ok(Queue { rings: Mutex::new(Common { fill, completion, sent }), sizes, frames })
    }

    /// To use what is shared; nothing while another does.
    fn rings(&self) -> Option<MutexGuard<'_, Common>> {
        match self.rings.try_lock() {
            Ok(rings) => Some(rings),
            // Whoever ended in there by a bug was between two frames: at worst one is missing.
            Err(TryLockError::Poisoned(rings)) => Some(rings.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

/// What one thread receives and sends by, of a queue of an interface.
#[derive(Debug)]
pub struct Xsk {
    rx: Ring<XdpDesc>,
    tx: Ring<XdpDesc>,
    /// Frames that were received and are to go round again.
    taken: Vec<u64>,
    /// Frames that nothing is to be sent from: their places.
    free: Vec<u64>,
    /// Which of the queue's it is.
    number: usize,
    zero_copy: bool,
    receiver: Arc<OwnedFd>,
    sender: OwnedFd,
    queue: Arc<Queue>,
}

impl Xsk {
    /// Opens the sockets of a queue, for as many threads as `sizes` says. Frames come once an XDP program sends them here. Without `copy`
    /// the driver's own way is tried first: it then writes to our frames and sends from them.
    ///
    /// # Errors
    /// `PERM` without CAP_NET_RAW; `NOBUFS` when the limit of locked memory is too low; `BUSY` when the queue has a socket; `INVAL` when there is no
    /// such queue.
    pub fn open(interface: u32, queue: u32, sizes: Sizes, copy: bool) -> Result<Vec<Self>, Errno> {
        let mut opened: Vec<Self> = Vec::with_capacity(sizes.threads as usize);
        for number in 0..sizes.threads {
            let (sender, receiver) = (new_socket()?, new_socket()?);
            let first = opened.first();
            let shared = match first {
                // Frames belong to a socket that sends: drivers of older kernels need that.
                None => Arc::new(Queue::open(&sender, sizes)?),
                Some(first) => Arc::clone(&first.queue),
            };
            let (rx, tx) = (receive_ring(&receiver, sizes)?, send_ring(&sender, sizes)?);
            match first {
                None => {
                    let mut wanted = SocketAddrXdpFlags::XDP_USE_NEED_WAKEUP;
                    wanted.set(SocketAddrXdpFlags::XDP_COPY, copy);
                    rustix::net::bind(&sender, &SocketAddrXdp::new(wanted, interface, queue))?;
                }
                Some(first) => join(&sender, &first.sender, interface, queue)?,
            }
            join(&receiver, first.map_or(&sender, |first| &first.sender), interface, queue)?;
            let options = sockopt::xdp_options(&sender)?;
            opened.push(Xsk {
                rx,
                tx,
                taken: Vec::with_capacity(TAKEN_MAX),
                free: sizes.frames_of(number).map(|frame| sizes.place(frame)).collect(),
                number: number as usize,
                zero_copy: options.contains(XdpOptionsFlags::XDP_OPTIONS_ZEROCOPY),
                receiver: Arc::new(receiver),
                sender,
                queue: shared,
            });
        }
        Ok(opened)
    }

    /// The driver uses our frames; else the kernel copies.
    pub const fn is_zero_copy(&self) -> bool {
        self.zero_copy
    }

    /// Shows up to `max` received frames, as long as `each` takes them: what it says false to is shown again. Whether there may be more; whether
    /// more than half of all frames waited. To be followed by [`settle`](Self::settle) before the thread sleeps.
    pub fn receive(&mut self, max: u32, mut each: impl FnMut(&[u8]) -> bool) -> (bool, bool) {
        let sizes = self.queue.sizes;
        let available = self.rx.available();
        let room = (TAKEN_MAX - self.taken.len()) as u32;
        let mut count = 0;
        while count < available.min(max).min(room) {
            let frame = self.rx.peek();
            let (start, len) = (frame.addr as usize, frame.len as usize);
            if start.checked_add(len).is_some_and(|end| end <= self.queue.frames.len) {
                // SAFETY: within the mapping, as was just seen. The frame came by this thread's ring, so no other thread has it, and the kernel does not
                // write to it before it is in the fill ring again.
                let octets =
                    unsafe { core::slice::from_raw_parts(self.queue.frames.start.as_ptr().add(start), len) };
                if !each(octets) {
                    break;
                }
            }
            self.rx.skip();
            count += 1;
            self.taken.push(sizes.start(frame.addr));
        }
        if count > 0 {
            self.rx.release();
        }
        self.settle();
        (count < available, available > sizes.received / 2)
    }

    /// Hands back frames that were received; false when another thread hinders it at this moment: then other threads may lack them until it is called
    /// again.
    #[inline]
    pub fn settle(&mut self) -> bool {
        self.taken.is_empty() || self.hand_back()
    }

    fn hand_back(&mut self) -> bool {
        let Some(mut rings) = self.queue.rings() else { return false };
        for addr in self.taken.drain(..) {
            // As many frames go round as the fill ring has entries, or fewer.
            if rings.fill.room() > 0 {
                rings.fill.write(addr);
            }
        }
        rings.fill.publish();
        let wants_a_call = rings.fill.wants_a_call();
        drop(rings);
        if wants_a_call {
            let _ = rustix::net::recv(&*self.receiver, &mut [0u8; 0], RecvFlags::DONTWAIT);
        }
        true
    }

    /// Puts a frame into the ring, as `write` makes it: it is given the room there is, and says how much it took, or `None`. False when there is no
    /// frame free. [`kick`](Self::kick) sends.
    pub fn put(&mut self, write: impl FnOnce(&mut [u8]) -> Option<usize>) -> bool {
        if self.free.is_empty() {
            self.reap();
        }
        if self.tx.room() == 0 {
            return false;
        }
        let Some(addr) = self.free.pop() else { return false };
        let len = self.queue.sizes.frame as usize;
        // SAFETY: a whole frame of the mapping. It is this thread's to send from and in no ring, so the kernel and other threads leave it alone, and
        // nothing else here points at it.
        let frame = unsafe {
            core::slice::from_raw_parts_mut(self.queue.frames.start.as_ptr().add(addr as usize), len)
        };
        match write(frame) {
            Some(taken) => {
                let len = taken.min(len) as u32;
                self.tx.write(XdpDesc { addr, len, options: XdpDescOptions::empty() });
            }
            None => self.free.push(addr),
        }
        true
    }

    /// Sends what is in the ring.
    ///
    /// # Errors
    /// `NETDOWN`, `NXIO`, `NODEV`: the interface is down or gone; what is in the ring stays there.
    pub fn kick(&mut self) -> Result<(), Errno> {
        self.tx.publish();
        for _ in 0..KICKS_MAX {
            // Where the kernel copies it does so in the call, whatever the ring says.
            if !self.tx.is_behind() || self.zero_copy && !self.tx.wants_a_call() {
                break;
            }
            match rustix::net::send(&self.sender, &[], SendFlags::DONTWAIT) {
                // The driver was woken, and sends all there is when it comes to it.
                Ok(_) if self.zero_copy => break,
                // The kernel took as many as it takes at once.
                Ok(_) | Err(Errno::AGAIN | Errno::INTR) => {}
                Err(Errno::BUSY | Errno::NOBUFS) => self.reap(),
                Err(errno) => return Err(errno),
            }
        }
        self.reap();
        Ok(())
    }

    /// Takes back frames that were sent, unless another thread hinders it. The completion ring has room for all frames, so nothing waits for this.
    fn reap(&mut self) {
        if let Some(mut rings) = self.queue.rings() {
            rings.reap(self.queue.sizes);
            self.free.append(&mut rings.sent[self.number]);
        }
    }

    /// The socket that receives, to be asked what it [lost] by whoever does not receive from it.
    pub fn receiver(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.receiver)
    }
}

/// Binds a socket to a queue, with the frames and in the mode of one that is bound to it.
fn join(socket: &OwnedFd, bound: &OwnedFd, interface: u32, queue: u32) -> Result<(), Errno> {
    let addr = SocketAddrXdp::new(SocketAddrXdpFlags::XDP_SHARED_UMEM, interface, queue);
    rustix::net::bind(socket, &SocketAddrXdpWithSharedUmem { addr, shared_umem_fd: bound.as_fd() })
}

/// The ring of a socket that receives only.
fn receive_ring(socket: &OwnedFd, sizes: Sizes) -> Result<Ring<XdpDesc>, Errno> {
    sockopt::set_xdp_rx_ring_size(socket, sizes.received)?;
    Ring::new(socket, XDP_PGOFF_RX_RING, sizes.received, sockopt::xdp_mmap_offsets(socket)?.rx)
}

/// The ring of a socket that sends only.
fn send_ring(socket: &OwnedFd, sizes: Sizes) -> Result<Ring<XdpDesc>, Errno> {
    sockopt::set_xdp_tx_ring_size(socket, sizes.sent)?;
    Ring::new(socket, XDP_PGOFF_TX_RING, sizes.sent, sockopt::xdp_mmap_offsets(socket)?.tx)
}

fn new_socket() -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socket_with(AddressFamily::XDP, SocketType::RAW, flags, None)
}

/// Frames that were lost at a socket: no room in its ring or none free, or longer than a frame.
pub fn lost(socket: &impl AsFd) -> u64 {
    let seen = sockopt::xdp_statistics(socket).ok();
    seen.map_or(0, |seen| seen.rx_dropped + seen.rx_ring_full.unwrap_or(0))
}

/// To wait for frames, and to have them brought.
impl AsFd for Xsk {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.receiver.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_as_long_as_they_have_to_be() {
        let of = |len| Sizes::for_frames(len, 64, 64, 1).map(|sizes| sizes.frame);
        assert_eq!(
            (of(1518), of(1792), of(1793), of(3840), of(3841)),
            (Some(2048), Some(2048), Some(4096), Some(4096), None)
        );
    }

    #[test]
    fn each_frame_for_sending_has_its_thread() {
        let sizes = Sizes { received: 64, sent: 16, frame: 4096, threads: 3 };
        assert_eq!(sizes.bytes(), (3 * 64 + 3 * 16) * 4096);
        let senders = |frames: core::ops::Range<u32>| {
            frames.map(|frame| sizes.sender(sizes.place(frame) + 77)).collect::<Vec<_>>()
        };
        assert_eq!(senders(0..3 * 64), vec![None; 3 * 64]);
        for thread in 0..3 {
            assert_eq!(senders(sizes.frames_of(thread)), vec![Some(thread as usize); 16]);
        }
        assert_eq!(sizes.frames_of(2).end as usize * 4096, sizes.bytes());
    }

    #[test]
    fn what_can_not_be_opened_leaves_nothing_behind() {
        let sizes = Sizes { received: 64, sent: 64, frame: 2048, threads: 2 };
        for interface in [0, u32::MAX >> 1] {
            let errno = Xsk::open(interface, 0, sizes, true).expect_err("no such interface");
            assert!([Errno::NODEV, Errno::PERM, Errno::AFNOSUPPORT].contains(&errno), "{errno}");
        }
    }
}
