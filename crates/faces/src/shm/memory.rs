//! Memory shared with another process, which may write to it at any time.
//!
//! Only two operations are done on it: atomic words are read and written, and bytes are copied in
//! and out. Nothing in it is ever borrowed. So a write by the other process can give wrong bytes,
//! but no undefined behaviour (decision 0032).

#![allow(unsafe_code)]

use super::access::{ReadMemory, WriteMemory};
use super::fault::SharedMemoryFault;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use core::time::Duration;
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::thread::futex;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// File system type of memory files with ordinary pages (TMPFS_MAGIC).
const ORDINARY_PAGES: i64 = 0x0102_1994;

/// A shared mapping, unmapped on drop.
#[derive(Debug)]
pub struct Memory {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the pointer refers to memory that the value owns until it is dropped, and that belongs to
// no thread.
unsafe impl Send for Memory {}

/// Creates a memory file of `len` zero bytes, sealed against changes of its length.
///
/// # Errors
/// The error of the system call.
pub fn new_file(len: usize) -> Result<OwnedFd, Errno> {
    let file = unsealed_file(len)?;
    rustix::fs::fcntl_add_seals(&file, required_seals() | SealFlags::SEAL)?;
    Ok(file)
}

/// Creates and maps a memory file of `len` zero bytes that only the returned mapping can write:
/// other processes can map the file for reading only (F_SEAL_FUTURE_WRITE).
///
/// # Errors
/// The error of the system call.
pub fn new_broadcast_file(len: usize) -> Result<(Memory, OwnedFd), Errno> {
    let file = unsealed_file(len)?;
    rustix::fs::fcntl_add_seals(&file, required_seals())?;
    let memory = Memory::map(file.as_fd(), len).map_err(|_| Errno::NOMEM)?;
    rustix::fs::fcntl_add_seals(&file, SealFlags::FUTURE_WRITE | SealFlags::SEAL)?;
    Ok((memory, file))
}

fn unsealed_file(len: usize) -> Result<OwnedFd, Errno> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    // Some systems require NOEXEC_SEAL; older ones don't know it.
    let file =
        rustix::fs::memfd_create("nw-shm", flags | MemfdFlags::NOEXEC_SEAL).or_else(|errno| {
            match errno {
                Errno::INVAL => rustix::fs::memfd_create("nw-shm", flags),
                errno => Err(errno),
            }
        })?;
    rustix::fs::ftruncate(&file, len as u64)?;
    Ok(file)
}

/// Required seals. Without them the other process could truncate the file under the mapping, and
/// the next access would end this process (SIGBUS).
const fn required_seals() -> SealFlags {
    SealFlags::SHRINK.union(SealFlags::GROW)
}

impl Memory {
    /// Maps a file that may come from another process: only one of exactly this length that can't
    /// change it, and with ordinary pages, which neither run out on access, as huge ones can, nor
    /// are served by a program, as those of a file system can.
    ///
    /// # Errors
    /// [`SharedMemoryFault::Memory`] if the file is not of that kind.
    pub fn map(file: BorrowedFd<'_>, len: usize) -> Result<Self, SharedMemoryFault> {
        Memory::map_with(file, len, required_seals(), ProtFlags::READ | ProtFlags::WRITE)
    }

    fn map_with(
        file: BorrowedFd<'_>,
        len: usize,
        required: SealFlags,
        rights: ProtFlags,
    ) -> Result<Self, SharedMemoryFault> {
        let refused = |_: Errno| SharedMemoryFault::Memory;
        let seals = rustix::fs::fcntl_get_seals(file).map_err(refused)?;
        let kind = rustix::fs::fstatfs(file).map_err(refused)?.f_type as i64;
        let size = rustix::fs::fstat(file).map_err(refused)?.st_size;
        if !seals.contains(required)
            || kind != ORDINARY_PAGES
            || u64::try_from(size) != Ok(len as u64)
        {
            return Err(SharedMemoryFault::Memory);
        }
        // SAFETY: the kernel chooses the address, so nothing that exists is touched.
        let start = unsafe { mmap(ptr::null_mut(), len, rights, MapFlags::SHARED, file, 0) };
        let start =
            NonNull::new(start.map_err(refused)?.cast()).ok_or(SharedMemoryFault::Memory)?;
        Ok(Memory { start, len })
    }
}

impl ReadMemory for Memory {
    #[inline]
    fn load(&self, at: usize, order: Ordering) -> u64 {
        self.word(at).load(order)
    }

    #[inline]
    fn copy_out(&self, at: usize, bytes: &mut [u8]) {
        assert!(
            at <= self.len && bytes.len() <= self.len - at,
            "{} bytes at {at} of {}",
            bytes.len(),
            self.len
        );
        // SAFETY: within the mapping, as asserted above; `bytes` is memory of this process alone,
        // so they don't overlap. A process that writes meanwhile decides which bytes arrive here,
        // as it does anyway; they are examined only in `bytes`, where it can't change them.
        unsafe {
            ptr::copy_nonoverlapping(self.start.as_ptr().add(at), bytes.as_mut_ptr(), bytes.len())
        }
    }
}

impl WriteMemory for Memory {
    type Word = AtomicU64;
    type FutexWord = AtomicU32;

    #[inline]
    fn word(&self, at: usize) -> &AtomicU64 {
        assert!(at.is_multiple_of(8) && at + 8 <= self.len, "a word at {at} of {}", self.len);
        // SAFETY: within the mapping and aligned, as asserted above (a mapping starts at a page),
        // and mapped as long as `self` lives. Both ends access these words by atomic instructions;
        // a process that does otherwise stores an arbitrary value, and any value is a valid u64.
        unsafe { AtomicU64::from_ptr(self.start.as_ptr().add(at).cast()) }
    }

    #[inline]
    fn futex_word(&self, at: usize) -> &AtomicU32 {
        assert!(at.is_multiple_of(4) && at + 4 <= self.len, "a word at {at} of {}", self.len);
        // SAFETY: as in `word`.
        unsafe { AtomicU32::from_ptr(self.start.as_ptr().add(at).cast()) }
    }

    #[inline]
    fn copy_in(&self, at: usize, bytes: &[u8]) {
        assert!(
            at <= self.len && bytes.len() <= self.len - at,
            "{} bytes at {at} of {}",
            bytes.len(),
            self.len
        );
        // SAFETY: as in `copy_out`. If the other process reads or writes there meanwhile, its own
        // packets are damaged.
        unsafe {
            ptr::copy_nonoverlapping(bytes.as_ptr(), self.start.as_ptr().add(at), bytes.len())
        }
    }

    fn futex_wait(&self, at: usize, expected: u32, timeout: Duration) {
        let (word, timeout) = (self.futex_word(at), timeout.try_into().ok());
        let _ = futex::wait(word, futex::Flags::empty(), expected, timeout.as_ref());
    }

    fn futex_wake(&self, at: usize) {
        let _ = futex::wake(self.futex_word(at), futex::Flags::empty(), 1);
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: mapped by this type, with this length, and no borrow of it outlives `self`.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
    }
}

/// A mapping without the right to write, of a file that only its creator can write.
#[derive(Debug)]
pub struct ReadOnlyMemory(Memory);

impl ReadOnlyMemory {
    /// Maps a file that may come from another process: only one made as
    /// [`new_broadcast_file`] does, of exactly this length.
    ///
    /// # Errors
    /// [`SharedMemoryFault::Memory`] if the file is not of that kind.
    pub fn map(file: BorrowedFd<'_>, len: usize) -> Result<Self, SharedMemoryFault> {
        let required = required_seals().union(SealFlags::FUTURE_WRITE);
        Memory::map_with(file, len, required, ProtFlags::READ).map(ReadOnlyMemory)
    }
}

impl ReadMemory for ReadOnlyMemory {
    #[inline]
    fn load(&self, at: usize, order: Ordering) -> u64 {
        self.0.load(at, order)
    }

    #[inline]
    fn copy_out(&self, at: usize, bytes: &mut [u8]) {
        self.0.copy_out(at, bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEN: usize = 8192;

    fn refused(file: &OwnedFd) {
        assert_eq!(Memory::map(file.as_fd(), LEN).err(), Some(SharedMemoryFault::Memory));
    }

    #[test]
    fn mappings_of_one_file_share_memory() {
        let file = new_file(LEN).unwrap();
        let [first, second] = [(); 2].map(|()| Memory::map(file.as_fd(), LEN).unwrap());
        first.copy_in(LEN - 3, b"abc");
        first.word(8).store(7, core::sync::atomic::Ordering::Relaxed);
        let mut copied = [0; 3];
        second.copy_out(LEN - 3, &mut copied);
        assert_eq!(
            (&copied, second.word(8).load(core::sync::atomic::Ordering::Relaxed)),
            (b"abc", 7)
        );
        assert!(rustix::fs::ftruncate(&file, 0).is_err(), "the file can't be truncated");
    }

    #[test]
    fn file_that_could_shrink_is_refused() {
        let plain =
            rustix::fs::memfd_create("x", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
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
    fn broadcast_file_is_writable_by_its_first_mapping_only() {
        let (memory, file) = new_broadcast_file(LEN).unwrap();
        let reader = ReadOnlyMemory::map(file.as_fd(), LEN).unwrap();
        memory.copy_in(100, b"abc");
        memory.word(8).store(7, Ordering::Relaxed);
        let mut copied = [0; 3];
        reader.copy_out(100, &mut copied);
        assert_eq!((&copied, reader.load(8, Ordering::Relaxed)), (b"abc", 7));
        refused(&file);
        assert!(rustix::io::write(&file, b"x").is_err(), "the file can't be written");
        let unsealed = new_file(LEN).unwrap();
        assert!(ReadOnlyMemory::map(unsealed.as_fd(), LEN).is_err(), "others could write it");
    }

    #[test]
    #[should_panic = "bytes at 8190 of 8192"]
    fn copy_beyond_end_panics() {
        let file = new_file(LEN).unwrap();
        Memory::map(file.as_fd(), LEN).unwrap().copy_out(LEN - 2, &mut [0; 3]);
    }
}
