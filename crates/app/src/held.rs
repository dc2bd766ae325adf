//! One state of a file, whatever happens to the file afterwards: a private copy, or a guard that notices every change.
//!
//! See decision 0047.

use rustix::fs::{Mode, OFlags};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, SystemTime};

/// Files of at most so many bytes are copied where the file system can't share their blocks.
pub const COPY_BYTES_MAX: u64 = 64 << 20;
/// Times of files are this coarse at worst: two changes within it may leave the same time.
const CLOCK_STEP: Duration = Duration::from_millis(20);
/// Attempts to copy a file that is being written.
const COPY_TRIES_MAX: u32 = 3;

/// What tells that a file was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    len: u64,
    modified: (i64, i64),
    changed: (i64, i64),
    /// Links, mode and owner: their changes change `changed`, and not the content.
    attributes: (u64, u32, u32, u32),
}

impl Stamp {
    fn of(file: &File) -> io::Result<Stamp> {
        let metadata = file.metadata()?;
        Ok(Stamp {
            len: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
            attributes: (metadata.nlink(), metadata.mode(), metadata.uid(), metadata.gid()),
        })
    }

    /// True when the content may differ from what it was at `self`.
    fn differs(&self, now: &Stamp) -> bool {
        let explained = self.changed == now.changed || self.attributes != now.attributes;
        self.len != now.len || self.modified != now.modified || !explained
    }
}

/// Why a part can't be read.
#[derive(Debug, thiserror::Error)]
pub enum HeldError {
    /// The file is no longer what it was.
    #[error("the file was changed while it was published")]
    Changed,
    /// It can't be read.
    #[error(transparent)]
    Read(#[from] io::Error),
}

/// One state of a file.
#[derive(Debug)]
pub struct HeldFile {
    file: File,
    len: u64,
    /// Of a file that others can change.
    stamp: Option<Stamp>,
}

impl HeldFile {
    /// Holds what `file` contains now: shares its blocks where the file system can (Btrfs, XFS), copies it up to
    /// [`COPY_BYTES_MAX`], and watches it beyond.
    ///
    /// # Errors
    /// When it can't be read, or is being written all the time.
    pub fn new(file: File) -> io::Result<HeldFile> {
        Self::with_copy_max(file, COPY_BYTES_MAX)
    }

    /// As [`new`](Self::new), with another bound for copies.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_copy_max(file: File, copy_bytes_max: u64) -> io::Result<HeldFile> {
        let metadata = file.metadata()?;
        // A temporary file of this process: it has no name that others could open it by.
        if metadata.nlink() == 0 {
            return Ok(HeldFile { len: metadata.len(), file, stamp: None });
        }
        for _ in 0..COPY_TRIES_MAX {
            let before = settled(&file)?;
            let copy = match share_blocks(&file) {
                Some(copy) => Some(copy),
                None if before.len <= copy_bytes_max => copy_of(&file).ok(),
                None => None,
            };
            let Some(copy) = copy else {
                return Ok(HeldFile { file, len: before.len, stamp: Some(before) });
            };
            if !before.differs(&Stamp::of(&file)?) && copy.metadata()?.len() == before.len {
                return Ok(HeldFile { file: copy, len: before.len, stamp: None });
            }
        }
        Err(io::Error::other("the file is being written: publish it when it is complete"))
    }

    /// Length in bytes.
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// True for an empty file.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// True when others can change the file, which then can't be read any more.
    pub const fn is_watched(&self) -> bool {
        self.stamp.is_some()
    }

    /// Reads a part.
    ///
    /// # Errors
    /// [`HeldError::Changed`] when it is no longer as it was held.
    pub fn read_exact_at(&mut self, part: &mut [u8], offset: u64) -> Result<(), HeldError> {
        let read = self.file.read_exact_at(part, offset);
        // After reading: a write sets the times before it changes a byte.
        self.check()?;
        Ok(read?)
    }

    /// Looks whether the file is as it was held.
    ///
    /// # Errors
    /// [`HeldError::Changed`] when it is not.
    pub fn check(&mut self) -> Result<(), HeldError> {
        if let Some(stamp) = &mut self.stamp {
            let now = Stamp::of(&self.file)?;
            if stamp.differs(&now) {
                return Err(HeldError::Changed);
            }
            *stamp = now;
        }
        Ok(())
    }
}

/// The stamp of a file, once any later change must show in it.
fn settled(file: &File) -> io::Result<Stamp> {
    let stamp = Stamp::of(file)?;
    let modified = file.metadata()?.modified()?;
    let age = SystemTime::now().duration_since(modified).unwrap_or_default();
    if age < CLOCK_STEP {
        thread::sleep(CLOCK_STEP);
    }
    Ok(if age < CLOCK_STEP { Stamp::of(file)? } else { stamp })
}

/// A file without a name that shares the blocks of another; `None` where that can't be.
fn share_blocks(file: &File) -> Option<File> {
    use std::os::fd::AsRawFd;
    let path: PathBuf = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()?;
    let copy = unnamed(path.parent()?).ok()?;
    rustix::fs::ioctl_ficlone(&copy, file).ok()?;
    Some(copy)
}

/// A file without a name in a folder.
fn unnamed(folder: &Path) -> io::Result<File> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::open(folder, flags, Mode::RUSR | Mode::WUSR)?))
}

fn copy_of(file: &File) -> io::Result<File> {
    let copy = tempfile::tempfile()?;
    let mut part = vec![0; 1 << 20];
    let mut offset = 0;
    loop {
        match file.read_at(&mut part, offset)? {
            0 => return Ok(copy),
            len => {
                copy.write_all_at(&part[..len], offset)?;
                offset += len as u64;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn file_with(content: &[u8]) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, content).unwrap();
        (folder, path)
    }

    fn read(held: &mut HeldFile) -> Result<Vec<u8>, HeldError> {
        let mut content = vec![0; held.len() as usize];
        held.read_exact_at(&mut content, 0).map(|()| content)
    }

    type Change = fn(&Path);
    const CHANGES: [(&str, Change); 4] = [
        ("overwritten", |path| {
            fs::OpenOptions::new().write(true).open(path).unwrap().write_all(b"X").unwrap()
        }),
        ("truncated", |path| File::options().write(true).open(path).unwrap().set_len(3).unwrap()),
        ("appended", |path| File::options().append(true).open(path).unwrap().write_all(b"X").unwrap()),
        ("overwritten with its old time", |path| {
            let modified = path.metadata().unwrap().modified().unwrap();
            let mut file = File::options().write(true).open(path).unwrap();
            file.write_all(b"X").unwrap();
            file.set_modified(modified).unwrap();
        }),
    ];

    #[test]
    fn small_file_changed_afterwards_reads_as_it_was() {
        for (what, change) in CHANGES {
            let (_folder, path) = file_with(b"0123456789");
            let mut held = HeldFile::new(File::open(&path).unwrap()).unwrap();
            change(&path);
            assert_eq!(read(&mut held).unwrap(), b"0123456789", "{what}");
            fs::remove_file(&path).unwrap();
            assert_eq!(read(&mut held).unwrap(), b"0123456789", "{what} and removed");
        }
    }

    #[test]
    fn watched_file_changed_afterwards_is_an_error() {
        for (what, change) in CHANGES {
            let (_folder, path) = file_with(b"0123456789");
            let mut held = HeldFile::with_copy_max(File::open(&path).unwrap(), 0).unwrap();
            assert_eq!(read(&mut held).unwrap(), b"0123456789");
            if !held.is_watched() {
                continue; // its blocks are shared, see the test above
            }
            change(&path);
            assert!(matches!(read(&mut held), Err(HeldError::Changed)), "{what}");
        }
    }

    #[test]
    fn watched_file_replaced_or_removed_reads_as_it_was() {
        let (folder, path) = file_with(b"0123456789");
        let mut held = HeldFile::with_copy_max(File::open(&path).unwrap(), 0).unwrap();
        fs::write(folder.path().join("other"), b"other").unwrap();
        fs::rename(folder.path().join("other"), &path).unwrap();
        assert_eq!(read(&mut held).unwrap(), b"0123456789");
    }
}
