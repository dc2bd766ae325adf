//! An AF_XDP socket: four rings shared with the kernel, and the memory that their frames lie in.
//!
//! ```text
//!  fill ──▶ kernel ──▶ rx           frames 0 … received: each is in fill, with the kernel, or in rx
//!  tx   ──▶ kernel ──▶ completion   frames received … all: each is free here, in tx, with the kernel, or in completion
//! ```
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
    SocketAddrXdp, SocketAddrXdpFlags, XDP_PGOFF_RX_RING, XDP_PGOFF_TX_RING, XDP_UMEM_PGOFF_COMPLETION_RING,
    XDP_UMEM_PGOFF_FILL_RING, XdpDesc, XdpDescOptions, XdpOptionsFlags, XdpRingFlags, XdpRingOffset,
    XdpUmemReg, XdpUmemRegFlags,
};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// What the kernel keeps free before each received frame.
const HEADROOM: usize = 256;
const HUGE_PAGE: usize = 2 << 20;
/// Calls in which the kernel is asked to send what is in the ring: in copy mode it takes 32 frames a call.
const KICKS_MAX: usize = 256;

/// How many frames a socket has, and how long they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// For what is received; a power of two.
    pub received: u32,
    /// For what is sent; a power of two.
    pub sent: u32,
    /// Octets of one: 2048 or 4096.
    pub frame: u32,
}

impl Sizes {
    /// For frames of up to so many octets; `None` when none are so long.
    pub const fn for_frames(len_max: usize, received: u32, sent: u32) -> Option<Self> {
        match len_max + HEADROOM {
            0..=2048 => Some(Sizes { received, sent, frame: 2048 }),
            2049..=4096 => Some(Sizes { received, sent, frame: 4096 }),
            _ => None,
        }
    }

    const fn bytes(self) -> usize {
        (self.received + self.sent) as usize * self.frame as usize
    }
}

/// Memory that is given back when this is dropped.
#[derive(Debug)]
struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

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

/// An AF_XDP socket, bound to one queue of an interface.
#[derive(Debug)]
pub struct Xsk {
    socket: OwnedFd,
    fill: Ring<u64>,
    rx: Ring<XdpDesc>,
    tx: Ring<XdpDesc>,
    completion: Ring<u64>,
    /// Frames that nothing is to be sent from: their places.
    free: Vec<u64>,
    sizes: Sizes,
    zero_copy: bool,
    /// After the rings and the socket: while those are there the kernel may write to it.
    frames: Mapping,
}

// SAFETY: the pointers are into mappings that the value owns, and no other thread has them; the kernel does not care which thread it is.
unsafe impl Send for Xsk {}

impl Xsk {
    /// Opens a socket on a queue. Frames come once an XDP program sends them here. Without `copy` the driver's own way is tried first: it then
    /// writes to our frames and sends from them.
    ///
    /// # Errors
    /// `PERM` without CAP_NET_RAW; `NOBUFS` when the limit of locked memory is too low; `BUSY` when the queue has a socket; `INVAL` when there is no
    /// such queue.
    pub fn open(interface: u32, queue: u32, sizes: Sizes, copy: bool) -> Result<Self, Errno> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = rustix::net::socket_with(AddressFamily::XDP, SocketType::RAW, flags, None)?;
        let frames = Mapping::of_frames(sizes.bytes())?;
        let registration = XdpUmemReg {
            addr: frames.start.as_ptr().expose_provenance() as u64,
            len: sizes.bytes() as u64,
            chunk_size: sizes.frame,
            headroom: 0,
            flags: XdpUmemRegFlags::empty(),
            tx_metadata_len: 0,
        };
        sockopt::set_xdp_umem_reg(&socket, registration)?;
        sockopt::set_xdp_umem_fill_ring_size(&socket, sizes.received)?;
        sockopt::set_xdp_umem_completion_ring_size(&socket, sizes.sent)?;
        sockopt::set_xdp_rx_ring_size(&socket, sizes.received)?;
        sockopt::set_xdp_tx_ring_size(&socket, sizes.sent)?;
        let offsets = sockopt::xdp_mmap_offsets(&socket)?;
        let mut fill = Ring::new(&socket, XDP_UMEM_PGOFF_FILL_RING, sizes.received, offsets.fr)?;
        let completion = Ring::new(&socket, XDP_UMEM_PGOFF_COMPLETION_RING, sizes.sent, offsets.cr)?;
        let rx = Ring::new(&socket, XDP_PGOFF_RX_RING, sizes.received, offsets.rx)?;
        let tx = Ring::new(&socket, XDP_PGOFF_TX_RING, sizes.sent, offsets.tx)?;
        let place = |frame: u32| u64::from(frame) * u64::from(sizes.frame);
        (0..sizes.received).for_each(|frame| fill.write(place(frame)));
        fill.publish();
        let mut wanted = SocketAddrXdpFlags::XDP_USE_NEED_WAKEUP;
        wanted.set(SocketAddrXdpFlags::XDP_COPY, copy);
        rustix::net::bind(&socket, &SocketAddrXdp::new(wanted, interface, queue))?;
        Ok(Xsk {
            zero_copy: sockopt::xdp_options(&socket)?.contains(XdpOptionsFlags::XDP_OPTIONS_ZEROCOPY),
            fill,
            rx,
            tx,
            completion,
            free: (sizes.received..sizes.received + sizes.sent).map(place).collect(),
            sizes,
            socket,
            frames,
        })
    }

    /// The driver uses our frames; else the kernel copies.
    pub const fn is_zero_copy(&self) -> bool {
        self.zero_copy
    }

    /// Shows up to `max` received frames, as long as `each` takes them: what it says false to is shown again. Whether there may be more; whether
    /// more than half of all frames waited.
    pub fn receive(&mut self, max: u32, mut each: impl FnMut(&[u8]) -> bool) -> (bool, bool) {
        let available = self.rx.available();
        let mut taken = 0;
        while taken < available.min(max) {
            let frame = self.rx.peek();
            let (start, len) = (frame.addr as usize, frame.len as usize);
            if start.checked_add(len).is_some_and(|end| end <= self.frames.len) {
                // SAFETY: within the mapping, as was just seen, and the kernel does not write to it before the frame is in the fill ring again.
                let octets =
                    unsafe { core::slice::from_raw_parts(self.frames.start.as_ptr().add(start), len) };
                if !each(octets) {
                    break;
                }
            }
            self.rx.skip();
            taken += 1;
            // As many frames as the fill ring has entries go round.
            if self.fill.room() > 0 {
                self.fill.write(frame.addr & !(u64::from(self.sizes.frame) - 1));
            }
        }
        if taken > 0 {
            self.rx.release();
            self.fill.publish();
            if self.fill.wants_a_call() {
                let _ = rustix::net::recv(&self.socket, &mut [0u8; 0], RecvFlags::DONTWAIT);
            }
        }
        (taken < available, available > self.sizes.received / 2)
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
        let len = self.sizes.frame as usize;
        // SAFETY: a whole frame of the mapping. It is in no ring, so the kernel leaves it alone, and nothing else here points at it.
        let frame =
            unsafe { core::slice::from_raw_parts_mut(self.frames.start.as_ptr().add(addr as usize), len) };
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
            if !self.tx.is_behind() || !self.tx.wants_a_call() {
                break;
            }
            match rustix::net::send(&self.socket, &[], SendFlags::DONTWAIT) {
                // The kernel took as many as it takes at once, or has no room for what it has sent until that is reaped.
                Ok(_) | Err(Errno::AGAIN | Errno::INTR) => {}
                Err(Errno::BUSY | Errno::NOBUFS) => self.reap(),
                Err(errno) => return Err(errno),
            }
            if self.completion.available() > self.sizes.sent / 2 {
                self.reap();
            }
        }
        self.reap();
        Ok(())
    }

    /// Takes back frames that were sent.
    fn reap(&mut self) {
        let count = self.completion.available();
        for _ in 0..count {
            let addr = self.completion.peek();
            self.completion.skip();
            // Only what was ours to send.
            if self.free.len() < self.free.capacity() {
                self.free.push(addr & !(u64::from(self.sizes.frame) - 1));
            }
        }
        if count > 0 {
            self.completion.release();
        }
    }

    /// Frames that were lost here: no room in the ring or none free, or longer than a frame.
    pub fn lost(&self) -> u64 {
        let seen = sockopt::xdp_statistics(&self.socket).ok();
        seen.map_or(0, |seen| seen.rx_dropped + seen.rx_ring_full.unwrap_or(0))
    }
}

impl AsFd for Xsk {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_as_long_as_they_have_to_be() {
        let of = |len| Sizes::for_frames(len, 64, 64).map(|sizes| sizes.frame);
        assert_eq!(
            (of(1518), of(1792), of(1793), of(3840), of(3841)),
            (Some(2048), Some(2048), Some(4096), Some(4096), None)
        );
    }

    #[test]
    fn what_can_not_be_opened_leaves_nothing_behind() {
        let sizes = Sizes { received: 64, sent: 64, frame: 2048 };
        for interface in [0, u32::MAX >> 1] {
            let errno = Xsk::open(interface, 0, sizes, true).expect_err("no such interface");
            assert!([Errno::NODEV, Errno::PERM, Errno::AFNOSUPPORT].contains(&errno), "{errno}");
        }
    }
}
