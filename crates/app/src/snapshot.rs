//! A fixed state of a file, independent of later changes: a private copy, or the file itself
//! with detection of every change.
//!
//! The reasons: decision 0047.

use rustix::fs::{Mode, OFlags};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, SystemTime};

/// Longest file that is copied where the file system can't share blocks, bytes.
pub const COPY_BYTES_MAX: u64 = 64 << 20;
/// Coarsest resolution of file times: two changes within it may have the same time.
const CLOCK_STEP: Duration = Duration::from_millis(20);
/// Attempts to copy a file that is being written.
const COPY_TRIES_MAX: u32 = 3;

/// File attributes that reveal a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    len: u64,
    modified: (i64, i64),
    changed: (i64, i64),
    /// Links, mode and owner: changing them changes `changed`, but not the content.
    attributes: (u64, u32, u32, u32),
}

impl Stamp {
    fn read(file: &File) -> io::Result<Stamp> {
        let metadata = file.metadata()?;
        Ok(Stamp {
            len: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
            attributes: (metadata.nlink(), metadata.mode(), metadata.uid(), metadata.gid()),
        })
    }

    /// Returns whether the content may have changed between `self` and `now`.
    fn differs(&self, now: &Stamp) -> bool {
        let change_time_explained =
            self.changed == now.changed || self.attributes != now.attributes;
        self.len != now.len || self.modified != now.modified || !change_time_explained
    }
}

/// Reasons why a part can't be read.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The file was changed.
    #[error("the file was changed while it was published")]
    Changed,
    /// Reading failed.
    #[error(transparent)]
    Read(#[from] io::Error),
}

/// A fixed state of a file.
#[derive(Debug)]
pub struct FileSnapshot {
    file: File,
    len: u64,
    /// Attributes of a file that others can change.
    stamp: Option<Stamp>,
}

impl FileSnapshot {
    /// Captures what `file` contains now: shares its blocks if the file system can (Btrfs, XFS),
    /// copies it up to [`COPY_BYTES_MAX`], and otherwise detects changes.
    ///
    /// # Errors
    /// If the file can't be read, or is being written all the time.
    pub fn new(file: File) -> io::Result<FileSnapshot> {
        Self::with_copy_max(file, COPY_BYTES_MAX)
    }

    /// Like [`new`](Self::new), with another limit for copies.
    ///
    /// # Errors
    /// As for [`new`](Self::new).
    pub fn with_copy_max(file: File, copy_bytes_max: u64) -> io::Result<FileSnapshot> {
        let metadata = file.metadata()?;
        // A temporary file of this process has no name by which others could open it.
        if metadata.nlink() == 0 {
            return Ok(FileSnapshot { len: metadata.len(), file, stamp: None });
        }
        for _ in 0..COPY_TRIES_MAX {
            let before = read_stable_stamp(&file)?;
            let copy = match share_blocks(&file) {
                Some(copy) => Some(copy),
                None if before.len <= copy_bytes_max => copy_content(&file).ok(),
                None => None,
            };
            let Some(copy) = copy else {
                return Ok(FileSnapshot { file, len: before.len, stamp: Some(before) });
            };
            if !before.differs(&Stamp::read(&file)?) && copy.metadata()?.len() == before.len {
                return Ok(FileSnapshot { file: copy, len: before.len, stamp: None });
            }
        }
        Err(io::Error::other("the file is being written: publish it when it is complete"))
    }

    /// Returns the length, bytes.
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// Returns whether the file is empty.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns whether others can change the file, which then can't be read any more.
    pub const fn is_watched(&self) -> bool {
        self.stamp.is_some()
    }

    /// Fills `part` from `offset` on.
    ///
    /// # Errors
    /// [`SnapshotError::Changed`] if the file was changed.
    pub fn read_exact_at(&mut self, part: &mut [u8], offset: u64) -> Result<(), SnapshotError> {
        let read = self.file.read_exact_at(part, offset);
        // Checked after reading: a write sets the times before it changes a byte.
        self.check()?;
        Ok(read?)
    }

    /// Checks that the file is unchanged.
    ///
    /// # Errors
    /// [`SnapshotError::Changed`] if the file was changed.
    pub fn check(&mut self) -> Result<(), SnapshotError> {
        if let Some(stamp) = &mut self.stamp {
            let now = Stamp::read(&self.file)?;
            if stamp.differs(&now) {
                return Err(SnapshotError::Changed);
            }
            *stamp = now;
        }
        Ok(())
    }
}

/// Returns the attributes of a file once any later change must show in them.
fn read_stable_stamp(file: &File) -> io::Result<Stamp> {
    let stamp = Stamp::read(file)?;
    let modified = file.metadata()?.modified()?;
    let age = SystemTime::now().duration_since(modified).unwrap_or_default();
    if age < CLOCK_STEP {
        thread::sleep(CLOCK_STEP);
    }
    Ok(if age < CLOCK_STEP { Stamp::read(file)? } else { stamp })
}

/// Returns an unnamed file that shares the blocks of another one; `None` if that is not possible.
fn share_blocks(file: &File) -> Option<File> {
    use std::os::fd::AsRawFd;
    let path: PathBuf = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()?;
    let copy = create_unnamed(path.parent()?).ok()?;
    rustix::fs::ioctl_ficlone(&copy, file).ok()?;
    Some(copy)
}

/// Creates an unnamed file in a folder.
fn create_unnamed(folder: &Path) -> io::Result<File> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::open(folder, flags, Mode::RUSR | Mode::WUSR)?))
}

fn copy_content(file: &File) -> io::Result<File> {
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

    fn read(snapshot: &mut FileSnapshot) -> Result<Vec<u8>, SnapshotError> {
        let mut content = vec![0; snapshot.len() as usize];
        snapshot.read_exact_at(&mut content, 0).map(|()| content)
    }

    type Change = fn(&Path);
    const CHANGES: [(&str, Change); 4] = [
        ("overwritten", |path| {
            fs::OpenOptions::new().write(true).open(path).unwrap().write_all(b"X").unwrap()
        }),
        ("truncated", |path| File::options().write(true).open(path).unwrap().set_len(3).unwrap()),
        ("appended", |path| {
            File::options().append(true).open(path).unwrap().write_all(b"X").unwrap()
        }),
        ("overwritten with its old time", |path| {
            let modified = path.metadata().unwrap().modified().unwrap();
            let mut file = File::options().write(true).open(path).unwrap();
            file.write_all(b"X").unwrap();
            file.set_modified(modified).unwrap();
        }),
    ];

    #[test]
    fn small_file_changed_later_reads_original_content() {
        for (what, change) in CHANGES {
            let (_folder, path) = file_with(b"0123456789");
            let mut snapshot = FileSnapshot::new(File::open(&path).unwrap()).unwrap();
            change(&path);
            assert_eq!(read(&mut snapshot).unwrap(), b"0123456789", "{what}");
            fs::remove_file(&path).unwrap();
            assert_eq!(read(&mut snapshot).unwrap(), b"0123456789", "{what} and removed");
        }
    }

    #[test]
    fn watched_file_changed_later_fails() {
        for (what, change) in CHANGES {
            let (_folder, path) = file_with(b"0123456789");
            let mut snapshot = FileSnapshot::with_copy_max(File::open(&path).unwrap(), 0).unwrap();
            assert_eq!(read(&mut snapshot).unwrap(), b"0123456789");
            if !snapshot.is_watched() {
                continue; // its blocks are shared, see the test above
            }
            change(&path);
            assert!(matches!(read(&mut snapshot), Err(SnapshotError::Changed)), "{what}");
        }
    }

    #[test]
    fn watched_file_replaced_reads_original_content() {
        let (folder, path) = file_with(b"0123456789");
        let mut snapshot = FileSnapshot::with_copy_max(File::open(&path).unwrap(), 0).unwrap();
        fs::write(folder.path().join("other"), b"other").unwrap();
        fs::rename(folder.path().join("other"), &path).unwrap();
        assert_eq!(read(&mut snapshot).unwrap(), b"0123456789");
    }
}
