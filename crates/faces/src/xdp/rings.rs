//! The AF_XDP sockets of one queue, two per shard: the rings shared with the kernel, and the memory
//! of their frames (UMEM).
//!
//! ```text
//!  fill ──▶ kernel ──▶ rx, one per shard
//!      a receive frame is in fill, with the kernel, in an rx, or in `received`
//!  tx, one per shard ──▶ kernel ──▶ completion
//!      a send frame belongs to a shard: in `free`, in tx, with the kernel, or in completion
//! ```
//!
//! A shard receives by one socket and sends by another. The receiving one is always registered with
//! epoll, and the kernel would walk its waiters for each frame sent; the sending one has none.
//!
//! A queue has one fill and one completion ring, for one user at a time: a lock that is only ever
//! tried. A shard that finds it locked keeps the frames it would return, and tries again in its
//! next loop iteration, or a moment later if it would sleep: no shard waits for another. A shard's
//! rx has space for its own share of frames, so one that is not read does not starve the others.
//!
//! Each ring is written by one side and read by the other; each side advances one of two counters.
//! The system calls are rustix's; the accesses to shared memory are here, the only `unsafe` in this
//! folder (decision 0024).
//!
//! Invariant: every frame is in exactly one place, and only its holder reads or writes it.

#![allow(unsafe_code)]

use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicU32, Ordering};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};
use rustix::net::sockopt;
use rustix::net::xdp::{
    SocketAddrXdp, SocketAddrXdpFlags, SocketAddrXdpWithSharedUmem, XDP_PGOFF_RX_RING,
    XDP_PGOFF_TX_RING, XDP_UMEM_PGOFF_COMPLETION_RING, XDP_UMEM_PGOFF_FILL_RING, XdpDesc,
    XdpDescOptions, XdpOptionsFlags, XdpRingFlags, XdpRingOffset, XdpUmemReg, XdpUmemRegFlags,
};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};

/// Bytes that the kernel keeps free before each received frame.
const HEADROOM: usize = 256;
/// Bytes of a huge page.
const HUGE_PAGE: usize = 2 << 20;
/// Send calls per kick: in copy mode the kernel sends 32 frames per call.
const KICKS_MAX: usize = 256;
/// Received frames that a thread may hold without returning them.
const RECEIVED_MAX: usize = 512;

/// Number and size of the frames of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Receive frames per thread; a power of two.
    pub received: u32,
    /// Send frames per thread; a power of two.
    pub sent: u32,
    /// Bytes of one frame: 2048 or 4096.
    pub frame: u32,
    /// Threads that use the queue.
    pub threads: u32,
}

impl Sizes {
    /// Returns the sizes for frames of up to `len_max` bytes. `None` if that is too long.
    pub const fn for_frames(
        len_max: usize,
        received: u32,
        sent: u32,
        threads: u32,
    ) -> Option<Self> {
        match len_max + HEADROOM {
            0..=2048 => Some(Sizes { received, sent, frame: 2048, threads }),
            2049..=4096 => Some(Sizes { received, sent, frame: 4096, threads }),
            _ => None,
        }
    }

    /// Returns the number of receive frames, which come first in memory.
    const fn all_received(self) -> u32 {
        self.received * self.threads
    }

    /// Returns the number of send frames.
    const fn all_sent(self) -> u32 {
        self.sent * self.threads
    }

    const fn bytes(self) -> usize {
        (self.all_received() + self.all_sent()) as usize * self.frame as usize
    }

    /// Returns the offset of a frame.
    const fn offset_of(self, frame: u32) -> u64 {
        frame as u64 * self.frame as u64
    }

    /// Returns the offset of the frame that contains this offset.
    const fn start(self, address: u64) -> u64 {
        address & !(self.frame as u64 - 1)
    }

    /// Returns the send frames of a thread.
    const fn frames_of(self, thread: u32) -> core::ops::Range<u32> {
        let first = self.all_received() + thread * self.sent;
        first..first + self.sent
    }

    /// Returns the thread that sends from the frame at this offset. `None` for receive frames.
    const fn sender(self, address: u64) -> Option<usize> {
        let frame = address / self.frame as u64;
        match frame.checked_sub(self.all_received() as u64) {
            Some(send_index) => Some((send_index / self.sent as u64) as usize),
            None => None,
        }
    }
}

/// Mapped memory, unmapped on drop.
#[derive(Debug)]
struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the value is only an address, the same for every thread. Which thread accesses which
// frame is decided by the rings: a frame is in one place at a time, and only its holder reads or
// writes it.
unsafe impl Send for Mapping {}

// SAFETY: as above; nothing of it is changed while it is shared.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps memory for frames, in huge pages if available.
    fn of_frames(len: usize) -> Result<Self, Errno> {
        let whole = len.next_multiple_of(HUGE_PAGE);
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::POPULATE;
        let map = |len, flags| {
            // SAFETY: new memory, at an address that the kernel chooses: nothing that exists is
            // touched.
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

    fn of_ring(socket: &OwnedFd, len: usize, page_offset: u64) -> Result<Self, Errno> {
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses the address, so nothing that exists is touched.
        let start = unsafe {
            mmap(
                ptr::null_mut(),
                len,
                rights,
                MapFlags::SHARED | MapFlags::POPULATE,
                socket,
                page_offset,
            )
        }?;
        Ok(Mapping { start: NonNull::new(start.cast()).ok_or(Errno::NOMEM)?, len })
    }

    /// Returns a pointer to a `T` at an offset.
    fn at<T>(&self, offset: u64) -> Result<NonNull<T>, Errno> {
        let offset = usize::try_from(offset).map_err(|_| Errno::INVAL)?;
        let fits = offset.checked_add(size_of::<T>()).is_some_and(|end| end <= self.len);
        if !fits || offset % align_of::<T>() != 0 {
            return Err(Errno::INVAL);
        }
        // SAFETY: within the mapping, as checked above; a mapping starts at a page, so the address
        // is aligned as its offset is.
        Ok(unsafe { self.start.add(offset) }.cast())
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by this type, with this length; every holder of a pointer into it holds
        // this value too.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
    }
}

/// One ring, for either direction.
#[derive(Debug)]
struct Ring<T> {
    producer: NonNull<AtomicU32>,
    consumer: NonNull<AtomicU32>,
    flags: Option<NonNull<AtomicU32>>,
    entries: NonNull<T>,
    size: u32,
    /// Own counter, ahead of what was published to the kernel.
    own_counter: u32,
    /// The kernel's counter, as last read.
    kernel_counter: u32,
    /// Keeps the memory of the pointers mapped.
    _mapping: Mapping,
}

impl<T: Copy> Ring<T> {
    fn new(
        socket: &OwnedFd,
        page_offset: u64,
        size: u32,
        offsets: XdpRingOffset,
    ) -> Result<Self, Errno> {
        let len = usize::try_from(offsets.desc).map_err(|_| Errno::INVAL)?
            + size as usize * size_of::<T>();
        let mapping = Mapping::of_ring(socket, len, page_offset)?;
        Ok(Ring {
            producer: mapping.at(offsets.producer)?,
            consumer: mapping.at(offsets.consumer)?,
            flags: offsets.flags.map(|flags| mapping.at(flags)).transpose()?,
            // The last entry ends where the mapping does.
            entries: mapping.at(offsets.desc)?,
            size,
            own_counter: 0,
            kernel_counter: 0,
            _mapping: mapping,
        })
    }

    /// Returns the entry at the own counter.
    const fn entry(&self) -> NonNull<T> {
        // SAFETY: the mask keeps it below the number of entries, which are all in the mapping.
        unsafe { self.entries.add((self.own_counter & (self.size - 1)) as usize) }
    }

    /// Written ring: returns the number of free entries.
    fn free_slots(&mut self) -> u32 {
        let free = self.size - self.own_counter.wrapping_sub(self.kernel_counter);
        if free > 0 {
            return free;
        }
        // SAFETY: in the mapping, and only accessed as an atomic, by the kernel too. Entries
        // that it has read are free: acquire.
        self.kernel_counter = unsafe { self.consumer.as_ref() }.load(Ordering::Acquire);
        self.size - self.own_counter.wrapping_sub(self.kernel_counter)
    }

    /// Writes an entry, which the kernel sees once it is published.
    fn write(&mut self, entry: T) {
        debug_assert!(
            self.own_counter.wrapping_sub(self.kernel_counter) < self.size,
            "the ring is full"
        );
        // SAFETY: a valid entry, which the kernel does not read before our counter has passed it.
        unsafe { self.entry().write(entry) };
        self.own_counter = self.own_counter.wrapping_add(1);
    }

    /// Makes written entries visible to the kernel.
    fn publish(&mut self) {
        // SAFETY: as in `free_slots`. The entries before the counter: release.
        unsafe { self.producer.as_ref() }.store(self.own_counter, Ordering::Release);
    }

    /// Written ring: returns whether the kernel has not read all of it.
    fn is_behind(&mut self) -> bool {
        // SAFETY: as in `free_slots`.
        self.kernel_counter = unsafe { self.consumer.as_ref() }.load(Ordering::Acquire);
        self.kernel_counter != self.own_counter
    }

    /// Read ring: returns the number of entries.
    fn available(&mut self) -> u32 {
        // SAFETY: as in `free_slots`. The entries behind the counter: acquire.
        self.kernel_counter = unsafe { self.producer.as_ref() }.load(Ordering::Acquire);
        self.kernel_counter.wrapping_sub(self.own_counter).min(self.size)
    }

    /// Returns the first available entry.
    const fn peek(&self) -> T {
        // SAFETY: a valid entry, which the kernel has written, and does not write again before our
        // counter has passed it and was published.
        unsafe { self.entry().read() }
    }

    /// Advances to the next entry.
    const fn skip(&mut self) {
        self.own_counter = self.own_counter.wrapping_add(1);
    }

    /// Returns read entries to the kernel.
    fn release(&mut self) {
        // SAFETY: as in `free_slots`. What was read before the counter: release.
        unsafe { self.consumer.as_ref() }.store(self.own_counter, Ordering::Release);
    }

    /// Returns whether the kernel needs a system call to continue with this ring.
    fn needs_wakeup(&self) -> bool {
        let wakeup = XdpRingFlags::XDP_RING_NEED_WAKEUP.bits();
        // SAFETY: as in `free_slots`.
        self.flags
            .is_none_or(|flags| unsafe { flags.as_ref() }.load(Ordering::Relaxed) & wakeup != 0)
    }
}

// SAFETY: the pointers are into the mapping that the value owns, and no other thread has them; the
// kernel does not depend on the thread.
unsafe impl<T: Send> Send for Ring<T> {}

/// State shared by the threads of a queue.
#[derive(Debug)]
struct Queue {
    rings: Mutex<SharedRings>,
    sizes: Sizes,
    /// Dropped after the rings: while they exist, the kernel may write to it.
    frames: Mapping,
}

/// Rings that one thread of a queue uses at a time.
#[derive(Debug)]
struct SharedRings {
    fill: Ring<u64>,
    completion: Ring<u64>,
    /// Sent frames by thread, until it takes them back.
    sent: Box<[Vec<u64>]>,
}

impl SharedRings {
    /// Sorts sent frames by the thread that they belong to.
    fn reap(&mut self, sizes: Sizes) {
        let count = self.completion.available();
        for _ in 0..count {
            let addr = self.completion.peek();
            self.completion.skip();
            let sent = sizes.sender(addr).and_then(|thread| self.sent.get_mut(thread));
            // Offsets that are not send frames are ignored.
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
    /// Opens the shared rings and the frames, on the first socket; all receive frames are put into
    /// the fill ring.
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
        (0..sizes.all_received()).for_each(|frame| fill.write(sizes.offset_of(frame)));
        fill.publish();
        let sent = (0..sizes.threads).map(|_| Vec::with_capacity(sizes.sent as usize)).collect();
        Ok(Queue { rings: Mutex::new(SharedRings { fill, completion, sent }), sizes, frames })
    }

    /// Locks the shared rings. `None` if another thread holds them.
    fn rings(&self) -> Option<MutexGuard<'_, SharedRings>> {
        match self.rings.try_lock() {
            Ok(rings) => Some(rings),
            // A thread that panicked with the lock was between two frames: at worst one is missing.
            Err(TryLockError::Poisoned(rings)) => Some(rings.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

/// The sockets of one thread on one queue of an interface.
#[derive(Debug)]
pub struct Xsk {
    rx: Ring<XdpDesc>,
    tx: Ring<XdpDesc>,
    /// Received frames to return to the fill ring.
    received: Vec<u64>,
    /// Offsets of free send frames.
    free: Vec<u64>,
    /// Index of the thread.
    number: usize,
    zero_copy: bool,
    receiver: Arc<OwnedFd>,
    sender: OwnedFd,
    queue: Arc<Queue>,
}

impl Xsk {
    /// Opens the sockets of a queue, for `sizes.threads` threads. Frames arrive once an XDP program
    /// sends them here. Without `copy`, zero-copy mode is tried first: the driver then accesses the
    /// frames itself.
    ///
    /// # Errors
    /// `PERM` without CAP_NET_RAW; `NOBUFS` if the limit on locked memory is too low; `BUSY` if the
    /// queue has a socket; `INVAL` if there is no such queue.
    pub fn open(interface: u32, queue: u32, sizes: Sizes, copy: bool) -> Result<Vec<Self>, Errno> {
        let mut opened: Vec<Self> = Vec::with_capacity(sizes.threads as usize);
        for number in 0..sizes.threads {
            let (sender, receiver) = (new_socket()?, new_socket()?);
            let first = opened.first();
            let shared = match first {
                // The UMEM belongs to a sending socket: drivers of older kernels require that.
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
                received: Vec::with_capacity(RECEIVED_MAX),
                free: sizes.frames_of(number).map(|frame| sizes.offset_of(frame)).collect(),
                number: number as usize,
                zero_copy: options.contains(XdpOptionsFlags::XDP_OPTIONS_ZEROCOPY),
                receiver: Arc::new(receiver),
                sender,
                queue: shared,
            });
        }
        Ok(opened)
    }

    /// Returns whether the driver uses the frames itself; else the kernel copies.
    pub const fn is_zero_copy(&self) -> bool {
        self.zero_copy
    }

    /// Passes up to `max` received frames to `on_frame`; one that it returns false for is passed
    /// again later. Returns whether there may be more, and whether more than half of all frames
    /// were waiting. Call [`return_frames`](Self::return_frames) before the thread sleeps.
    pub fn receive(&mut self, max: u32, mut on_frame: impl FnMut(&[u8]) -> bool) -> (bool, bool) {
        let sizes = self.queue.sizes;
        let available = self.rx.available();
        let capacity = (RECEIVED_MAX - self.received.len()) as u32;
        let mut count = 0;
        while count < available.min(max).min(capacity) {
            let frame = self.rx.peek();
            let (start, len) = (frame.addr as usize, frame.len as usize);
            if start.checked_add(len).is_some_and(|end| end <= self.queue.frames.len) {
                // SAFETY: within the mapping, as checked above. The frame came by this thread's
                // ring, so no other thread has it, and the kernel does not write to it before it is
                // in the fill ring again.
                let bytes = unsafe {
                    core::slice::from_raw_parts(self.queue.frames.start.as_ptr().add(start), len)
                };
                if !on_frame(bytes) {
                    break;
                }
            }
            self.rx.skip();
            count += 1;
            self.received.push(sizes.start(frame.addr));
        }
        if count > 0 {
            self.rx.release();
        }
        self.return_frames();
        (count < available, available > sizes.received / 2)
    }

    /// Returns received frames to the kernel. Returns false if another thread holds the ring: until
    /// the next call, other threads may lack these frames.
    #[inline]
    pub fn return_frames(&mut self) -> bool {
        self.received.is_empty() || self.try_return_frames()
    }

    fn try_return_frames(&mut self) -> bool {
        let Some(mut rings) = self.queue.rings() else { return false };
        for addr in self.received.drain(..) {
            // There are at most as many frames as entries of the fill ring.
            if rings.fill.free_slots() > 0 {
                rings.fill.write(addr);
            }
        }
        rings.fill.publish();
        let needs_wakeup = rings.fill.needs_wakeup();
        drop(rings);
        if needs_wakeup {
            let _ = rustix::net::recv(&*self.receiver, &mut [0u8; 0], RecvFlags::DONTWAIT);
        }
        true
    }

    /// Puts a frame into the ring: `write` fills it and returns its length, or `None` to skip it.
    /// Returns false if no frame is free. [`kick`](Self::kick) sends.
    pub fn put(&mut self, write: impl FnOnce(&mut [u8]) -> Option<usize>) -> bool {
        if self.free.is_empty() {
            self.reap();
        }
        if self.tx.free_slots() == 0 {
            return false;
        }
        let Some(addr) = self.free.pop() else { return false };
        let len = self.queue.sizes.frame as usize;
        // SAFETY: a whole frame of the mapping. It is one of this thread's send frames and in no
        // ring, so the kernel and other threads don't access it, and no other pointer here refers
        // to it.
        let frame = unsafe {
            core::slice::from_raw_parts_mut(
                self.queue.frames.start.as_ptr().add(addr as usize),
                len,
            )
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

    /// Sends the frames in the ring.
    ///
    /// # Errors
    /// `NETDOWN`, `NXIO`, `NODEV`: the interface is down or removed; the frames stay in the ring.
    pub fn kick(&mut self) -> Result<(), Errno> {
        self.tx.publish();
        for _ in 0..KICKS_MAX {
            // In copy mode the kernel sends during the call, whatever the ring's flag.
            if !self.tx.is_behind() || self.zero_copy && !self.tx.needs_wakeup() {
                break;
            }
            match rustix::net::send(&self.sender, &[], SendFlags::DONTWAIT) {
                // The driver was woken, and will send all frames.
                Ok(_) if self.zero_copy => break,
                // The kernel took as many as it takes in one call.
                Ok(_) | Err(Errno::AGAIN | Errno::INTR) => {}
                Err(Errno::BUSY | Errno::NOBUFS) => self.reap(),
                Err(errno) => return Err(errno),
            }
        }
        self.reap();
        Ok(())
    }

    /// Takes back sent frames, unless another thread holds the ring. The completion ring has space
    /// for all frames, so nothing depends on this.
    fn reap(&mut self) {
        if let Some(mut rings) = self.queue.rings() {
            rings.reap(self.queue.sizes);
            self.free.append(&mut rings.sent[self.number]);
        }
    }

    /// Returns the receiving socket, for its [`lost`] counter.
    pub fn receiver(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.receiver)
    }
}

/// Binds a socket to a queue, sharing frames and mode with a bound one.
fn join(socket: &OwnedFd, bound: &OwnedFd, interface: u32, queue: u32) -> Result<(), Errno> {
    let addr = SocketAddrXdp::new(SocketAddrXdpFlags::XDP_SHARED_UMEM, interface, queue);
    rustix::net::bind(socket, &SocketAddrXdpWithSharedUmem { addr, shared_umem_fd: bound.as_fd() })
}

/// Opens the ring of a socket that only receives.
fn receive_ring(socket: &OwnedFd, sizes: Sizes) -> Result<Ring<XdpDesc>, Errno> {
    sockopt::set_xdp_rx_ring_size(socket, sizes.received)?;
    Ring::new(socket, XDP_PGOFF_RX_RING, sizes.received, sockopt::xdp_mmap_offsets(socket)?.rx)
}

/// Opens the ring of a socket that only sends.
fn send_ring(socket: &OwnedFd, sizes: Sizes) -> Result<Ring<XdpDesc>, Errno> {
    sockopt::set_xdp_tx_ring_size(socket, sizes.sent)?;
    Ring::new(socket, XDP_PGOFF_TX_RING, sizes.sent, sockopt::xdp_mmap_offsets(socket)?.tx)
}

fn new_socket() -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    rustix::net::socket_with(AddressFamily::XDP, SocketType::RAW, flags, None)
}

/// Returns the frames lost at a socket: its ring was full, no frame was free, or longer than a
/// frame.
pub fn lost(socket: &impl AsFd) -> u64 {
    let seen = sockopt::xdp_statistics(socket).ok();
    seen.map_or(0, |seen| seen.rx_dropped + seen.rx_ring_full.unwrap_or(0))
}

/// The receiving socket, for epoll and for the XDP program.
impl AsFd for Xsk {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.receiver.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frame_size_is_smallest_that_fits() {
        let of = |len| Sizes::for_frames(len, 64, 64, 1).map(|sizes| sizes.frame);
        assert_eq!(
            (of(1518), of(1792), of(1793), of(3840), of(3841)),
            (Some(2048), Some(2048), Some(4096), Some(4096), None)
        );
    }

    #[test]
    fn send_frame_belongs_to_its_thread() {
        let sizes = Sizes { received: 64, sent: 16, frame: 4096, threads: 3 };
        assert_eq!(sizes.bytes(), (3 * 64 + 3 * 16) * 4096);
        let senders = |frames: core::ops::Range<u32>| {
            frames.map(|frame| sizes.sender(sizes.offset_of(frame) + 77)).collect::<Vec<_>>()
        };
        assert_eq!(senders(0..3 * 64), vec![None; 3 * 64]);
        for thread in 0..3 {
            assert_eq!(senders(sizes.frames_of(thread)), vec![Some(thread as usize); 16]);
        }
        assert_eq!(sizes.frames_of(2).end as usize * 4096, sizes.bytes());
    }

    #[test]
    fn open_on_missing_interface_fails() {
        let sizes = Sizes { received: 64, sent: 64, frame: 2048, threads: 2 };
        for interface in [0, u32::MAX >> 1] {
            let errno = Xsk::open(interface, 0, sizes, true).expect_err("no such interface");
            assert!([Errno::NODEV, Errno::PERM, Errno::AFNOSUPPORT].contains(&errno), "{errno}");
        }
    }
}
