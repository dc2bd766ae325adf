//! Memory that a neighbour has mapped as well, and may write to at any time. Two things are done in it: atomic words are read and written, and octets are
//! copied in and out. Nothing in it is ever borrowed, so what a neighbour writes can be wrong, but not dangerous (decision 0032).

#![allow(unsafe_code)]

use super::fault::SharedMemoryFault;
use core::ptr::{self, NonNull};
use core::sync::atomic::AtomicU64;
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::os::fd::{BorrowedFd, OwnedFd};

/// What `fstatfs` says of memory files of ordinary pages (TMPFS_MAGIC).
const ORDINARY_PAGES: i64 = 0x0102_1994;

/// A mapping that is given back when this is dropped.
#[derive(Debug)]
pub struct Memory {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the pointer is to memory that the value owns until it is dropped, and which belongs to no thread.
unsafe impl Send for Memory {}

/// A file in memory of so many octets, all 0, that nobody can make shorter or longer any more.
///
/// # Errors
/// What the system says.
pub fn new_file(len: usize) -> Result<OwnedFd, Errno> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    // Some systems want to hear that it is nothing to execute; older ones don't know the word.
    let file =
        rustix::fs::memfd_create("nw-shm", flags | MemfdFlags::NOEXEC_SEAL).or_else(|errno| match errno {
            Errno::INVAL => rustix::fs::memfd_create("nw-shm", flags),
            errno => Err(errno),
        })?;
    rustix::fs::ftruncate(&file, len as u64)?;
    rustix::fs::fcntl_add_seals(&file, needed() | SealFlags::SEAL)?;
    Ok(file)
}

/// Without these a neighbour could cut the file off under a mapping, and the next access would end this process (SIGBUS).
const fn needed() -> SealFlags {
    SealFlags::SHRINK.union(SealFlags::GROW)
}

impl Memory {
    /// Maps a file that a neighbour may have made: only one of exactly this length that stays so, and whose pages can't run out on access, as huge ones can,
    /// or come from a program, as those of a file system can.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn map(file: BorrowedFd<'_>, len: usize) -> Result<Self, SharedMemoryFault> {
        let refused = |_: Errno| SharedMemoryFault::Memory;
        let seals = rustix::fs::fcntl_get_seals(file).map_err(refused)?;
        let kind = rustix::fs::fstatfs(file).map_err(refused)?.f_type as i64;
        let size = rustix::fs::fstat(file).map_err(refused)?.st_size;
        if !seals.contains(needed()) || kind != ORDINARY_PAGES || u64::try_from(size) != Ok(len as u64) {
            return Err(SharedMemoryFault::Memory);
        }
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses the place, so nothing that exists is touched.
        let start = unsafe { mmap(ptr::null_mut(), len, rights, MapFlags::SHARED, file, 0) };
        let start = NonNull::new(start.map_err(refused)?.cast()).ok_or(SharedMemoryFault::Memory)?;
        Ok(Memory { start, len })
    }

    /// The word at a place, which this end chose.
    pub fn word(&self, at: usize) -> &AtomicU64 {
        assert!(at.is_multiple_of(8) && at + 8 <= self.len, "a word at {at} of {}", self.len);
        // SAFETY: within the mapping and aligned, as was just seen (a mapping starts at a page), and mapped as long as `self` is. Both ends touch these places
        // by atomic instructions; a neighbour that does otherwise gets a value of its making into the word, and any value is a good u64.
        unsafe { AtomicU64::from_ptr(self.start.as_ptr().add(at).cast()) }
    }

    /// Copies octets to a place, which this end chose.
    pub fn copy_in(&self, at: usize, octets: &[u8]) {
        assert!(
            at <= self.len && octets.len() <= self.len - at,
            "{} octets at {at} of {}",
            octets.len(),
            self.len
        );
        // SAFETY: within the mapping, as was just seen; `octets` is memory of this process alone, so they don't overlap. The neighbour may read or write there
        // meanwhile: then it is its own packets that are spoilt.
        unsafe { ptr::copy_nonoverlapping(octets.as_ptr(), self.start.as_ptr().add(at), octets.len()) }
    }

    /// Copies octets from a place, which this end chose.
    pub fn copy_out(&self, at: usize, octets: &mut [u8]) {
        assert!(
            at <= self.len && octets.len() <= self.len - at,
            "{} octets at {at} of {}",
            octets.len(),
            self.len
        );
        // SAFETY: as in `copy_in`. A neighbour that writes meanwhile decides which octets arrive here, as it does anyway; they are looked at only here, where it
        // can't change them any more.
        unsafe { ptr::copy_nonoverlapping(self.start.as_ptr().add(at), octets.as_mut_ptr(), octets.len()) }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: mapped by this type, with this length, and no borrow of it outlives `self`.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    const LEN: usize = 8192;

    fn refused(file: &OwnedFd) {
        assert_eq!(Memory::map(file.as_fd(), LEN).err(), Some(SharedMemoryFault::Memory));
    }

    #[test]
    fn both_ends_see_the_same() {
        let file = new_file(LEN).unwrap();
        let [one, other] = [(); 2].map(|()| Memory::map(file.as_fd(), LEN).unwrap());
        one.copy_in(LEN - 3, b"abc");
        one.word(8).store(7, core::sync::atomic::Ordering::Relaxed);
        let mut seen = [0; 3];
        other.copy_out(LEN - 3, &mut seen);
        assert_eq!((&seen, other.word(8).load(core::sync::atomic::Ordering::Relaxed)), (b"abc", 7));
        assert!(rustix::fs::ftruncate(&file, 0).is_err(), "nobody cuts it off");
    }

    #[test]
    fn files_that_could_vanish_are_refused() {
        let plain = rustix::fs::memfd_create("x", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        rustix::fs::ftruncate(&plain, LEN as u64).unwrap();
        refused(&plain);
        rustix::fs::fcntl_add_seals(&plain, SealFlags::SHRINK).unwrap();
        refused(&plain);
        rustix::fs::fcntl_add_seals(&plain, SealFlags::GROW).unwrap();
        assert!(Memory::map(plain.as_fd(), LEN).is_ok());
        // Nothing can be written, so nothing can be mapped for writing.
        rustix::fs::fcntl_add_seals(&plain, SealFlags::WRITE).unwrap();
        refused(&plain);
        refused(&new_file(LEN - 1).unwrap());
        refused(&new_file(LEN + 4096).unwrap());
        refused(&tempfile::tempfile().unwrap().into());
        refused(&rustix::event::eventfd(0, rustix::event::EventfdFlags::CLOEXEC).unwrap());
    }

    #[test]
    #[should_panic = "octets at 8190 of 8192"]
    fn nothing_beyond_its_end() {
        let file = new_file(LEN).unwrap();
        Memory::map(file.as_fd(), LEN).unwrap().copy_out(LEN - 2, &mut [0; 3]);
    }
}
