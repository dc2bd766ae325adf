//! Anonymous memory from the kernel, returned to it when dropped.
//!
//! The allocator keeps freed blocks of this size between others that are in use: after thousands of
//! send queues have drained, the process would keep its size.

#![allow(unsafe_code)]

use core::ops::{Deref, DerefMut};
use core::ptr::{self, NonNull};
use core::slice;
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// Bytes that are zero at first. A page takes memory from its first write on.
#[derive(Debug)]
pub struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping is private memory that this value alone owns, as a `Box<[u8]>` does.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps `len` bytes.
    ///
    /// # Errors
    /// If the system has no memory, or this process has too many mappings.
    pub fn new(len: usize) -> Result<Self, Errno> {
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses the place, so nothing that exists is touched.
        let start = unsafe { mmap_anonymous(ptr::null_mut(), len, rights, MapFlags::PRIVATE) }?;
        Ok(Mapping { start: NonNull::new(start.cast()).ok_or(Errno::NOMEM)?, len })
    }
}

impl Deref for Mapping {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: mapped and initialised (with zeros) for `len` bytes as long as `self` is, and
        // borrowed with it.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for Mapping {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`; `self` is borrowed mutably, so there is no other borrow.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: mapped by this type, with this length, and no borrow of it outlives `self`.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mapping_is_zero_and_keeps_written_bytes() {
        let mut mapping = Mapping::new(64 << 10).unwrap();
        assert!(mapping.len() == 64 << 10 && mapping.iter().all(|byte| *byte == 0));
        mapping[65_535] = 7;
        assert_eq!(mapping.last(), Some(&7));
    }
}
