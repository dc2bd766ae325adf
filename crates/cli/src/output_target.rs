//! The destination of a command's content: standard output, a file, a device or a pipe.
//!
//! Invariant: a regular file appears under its name only when it is complete.

use crate::output::{Output, stdout};
use anyhow::{Context, Result, bail};
use rustix::fs::{AtFlags, CWD, FlockOperation, Mode, OFlags};
use std::fs::{self, File, OpenOptions};
use std::io::{self, IsTerminal, Seek, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Bytes that are buffered before a write.
const BUFFER_LEN: usize = 256 * 1024;
/// Prefix of the names of incomplete files, on file systems without unnamed files.
const PART_PREFIX: &str = ".nw-";
/// Suffix of the names of incomplete files.
const PART_SUFFIX: &str = ".part";
/// An incomplete file that was not written to for this time is removed.
const STALE_AFTER: Duration = Duration::from_secs(3600);

/// The destination of a command's content.
pub enum OutputTarget {
    /// Standard output.
    Stdout { out: io::BufWriter<Output>, refuses_binary: bool },
    /// A device or a pipe, which is written to directly: replacing it by a file would remove it for
    /// all programs.
    Stream { file: io::BufWriter<File>, path: PathBuf },
    /// A file without a name until it is complete, so that nothing is left if the program is
    /// killed.
    Unnamed { file: File, path: PathBuf, mode: u32 },
    /// A file with a temporary name until it is complete, on file systems without unnamed files.
    Named { file: tempfile::NamedTempFile, path: PathBuf },
}

impl OutputTarget {
    /// Opens a destination; `None` or `-` is standard output. A symbolic link is followed.
    ///
    /// `mode`: permission bits of a new file.
    pub fn new(path: Option<&Path>, mode: u32) -> Result<Self> {
        let Some(path) = path.filter(|path| *path != Path::new("-")) else {
            let out = io::BufWriter::with_capacity(BUFFER_LEN, stdout());
            return Ok(OutputTarget::Stdout {
                out,
                refuses_binary: path.is_none() && io::stdout().is_terminal(),
            });
        };
        // A path that can't be resolved is reported by the attempt to write to it.
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        match path.metadata() {
            Ok(metadata) if metadata.is_dir() => {
                bail!("{} is a folder: give the name of a file", path.display())
            }
            Ok(metadata) if !metadata.is_file() => {
                let file = OpenOptions::new().write(true).open(&path);
                let file = file.with_context(|| format!("can't write to {}", path.display()))?;
                return Ok(OutputTarget::Stream {
                    file: io::BufWriter::with_capacity(BUFFER_LEN, file),
                    path,
                });
            }
            _ => {}
        }
        let folder = folder_of(&path);
        match unnamed(folder, mode) {
            Some(file) => Ok(OutputTarget::Unnamed { file, path, mode }),
            None => {
                remove_stale(folder);
                Ok(OutputTarget::Named { file: named(folder, mode)?, path })
            }
        }
    }

    /// Appends content. Fails for binary content on a terminal, unless `-` was given.
    pub fn write_all(&mut self, content: &[u8]) -> io::Result<()> {
        match self {
            OutputTarget::Stdout { refuses_binary: true, .. } if is_binary(content) => {
                Err(io::Error::other(
                    "the content is binary and standard output is a terminal (write it to a file with \
                 -o FILE, or pipe it; -o - writes it here)",
                ))
            }
            OutputTarget::Stdout { out, .. } => out.write_all(content),
            OutputTarget::Stream { file, .. } => file.write_all(content),
            OutputTarget::Unnamed { file, .. } => file.write_all(content),
            OutputTarget::Named { file, .. } => file.write_all(content),
        }
    }

    /// Writes buffered content, and gives a file its name.
    pub fn finish(self) -> Result<()> {
        match self {
            OutputTarget::Stdout { mut out, .. } => Ok(out.flush()?),
            OutputTarget::Stream { mut file, path } => {
                file.flush().with_context(|| format!("can't write to {}", path.display()))
            }
            OutputTarget::Unnamed { mut file, path, mode } => {
                file.sync_all().with_context(|| format!("can't write {}", path.display()))?;
                if give_name(&file, &path).is_ok() {
                    return Ok(());
                }
                // Some file systems create unnamed files but can't name them later.
                let mut copy = named(folder_of(&path), mode)?;
                file.rewind()
                    .and_then(|()| io::copy(&mut file, &mut copy))
                    .with_context(|| format!("can't write {}", path.display()))?;
                persist(copy, &path)
            }
            OutputTarget::Named { file, path } => persist(file, &path),
        }
    }
}

/// Returns whether content has control characters that a terminal would interpret.
pub fn is_binary(content: &[u8]) -> bool {
    content.iter().any(|byte| matches!(byte, 0..=8 | 14..=31 | 127))
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Creates an unnamed file. `None` if the file system does not support it.
fn unnamed(folder: &Path, mode: u32) -> Option<File> {
    // Needed to name the file later.
    if !Path::new("/proc/self/fd").exists() {
        return None;
    }
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    rustix::fs::open(folder, flags, Mode::from_raw_mode(mode)).ok().map(File::from)
}

/// Gives an unnamed file its name, replacing an existing file.
fn give_name(file: &File, path: &Path) -> io::Result<()> {
    let source = format!("/proc/self/fd/{}", file.as_raw_fd());
    let link =
        |path: &Path| rustix::fs::linkat(CWD, source.as_str(), CWD, path, AtFlags::SYMLINK_FOLLOW);
    match link(path) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::EXIST) => {
            // linkat does not replace an existing file; rename does.
            let part = tempfile::Builder::new()
                .prefix(PART_PREFIX)
                .suffix(PART_SUFFIX)
                .make_in(folder_of(path), |part| Ok(link(part)?))?;
            Ok(part.into_temp_path().persist(path)?)
        }
        Err(error) => Err(error.into()),
    }
}

fn named(folder: &Path, mode: u32) -> Result<tempfile::NamedTempFile> {
    let file = tempfile::Builder::new()
        .prefix(PART_PREFIX)
        .suffix(PART_SUFFIX)
        .permissions(PermissionsExt::from_mode(mode))
        .tempfile_in(folder)
        .with_context(|| format!("can't write into {}", folder.display()))?;
    // The lock protects the file from `remove_stale`; without locks its age does.
    let _ = rustix::fs::flock(file.as_file(), FlockOperation::NonBlockingLockExclusive);
    Ok(file)
}

fn persist(file: tempfile::NamedTempFile, path: &Path) -> Result<()> {
    file.as_file().sync_all().with_context(|| format!("can't write {}", path.display()))?;
    file.persist(path)
        .map_err(|e| e.error)
        .with_context(|| format!("can't rename it to {}", path.display()))?;
    Ok(())
}

/// Removes incomplete files of killed programs.
fn remove_stale(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let is_part = name
            .to_str()
            .is_some_and(|name| name.starts_with(PART_PREFIX) && name.ends_with(PART_SUFFIX));
        let is_old = entry.metadata().is_ok_and(|metadata| {
            metadata.is_file()
                && metadata
                    .modified()
                    .is_ok_and(|at| at.elapsed().is_ok_and(|age| age > STALE_AFTER))
        });
        if is_part
            && is_old
            && let Ok(file) = OpenOptions::new().write(true).open(entry.path())
            && rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok()
        {
            let _ = fs::remove_file(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileTypeExt;

    fn write(path: &Path) {
        let mut target = OutputTarget::new(Some(path), 0o644).unwrap();
        target.write_all(b"content").unwrap();
        target.finish().unwrap();
    }

    #[test]
    fn device_is_written_to_and_not_replaced() {
        write(Path::new("/dev/null"));
        assert!(Path::new("/dev/null").metadata().unwrap().file_type().is_char_device());
        let mut full = OutputTarget::new(Some(Path::new("/dev/full")), 0o644).unwrap();
        full.write_all(b"content").unwrap();
        assert!(full.finish().unwrap_err().to_string().contains("/dev/full"));
    }

    #[test]
    fn link_is_kept_and_its_file_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        std::fs::write(&file, "older and longer content").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        write(&link);
        assert!(link.symlink_metadata().unwrap().is_symlink());
        assert_eq!(std::fs::read(&file).unwrap(), b"content");
    }

    #[test]
    fn file_appears_when_complete() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let mut target = OutputTarget::new(Some(&path), 0o600).unwrap();
        target.write_all(b"content").unwrap();
        assert!(!path.exists());
        target.finish().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"content");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        drop(OutputTarget::new(Some(&folder.path().join("other")), 0o600).unwrap());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        assert!(OutputTarget::new(Some(folder.path()), 0o600).is_err());
    }

    #[test]
    fn file_is_replaced_and_no_other_left() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        for content in [&b"first"[..], b"second"] {
            let mut target = OutputTarget::new(Some(&path), 0o644).unwrap();
            target.write_all(content).unwrap();
            target.finish().unwrap();
            assert_eq!(std::fs::read(&path).unwrap(), content);
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn incomplete_file_has_no_name() {
        let folder = tempfile::tempdir().unwrap();
        let mut target = OutputTarget::new(Some(&folder.path().join("file")), 0o644).unwrap();
        target.write_all(b"content").unwrap();
        match target {
            OutputTarget::Unnamed { .. } => {
                assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0)
            }
            // Written directly, so that the test framework does not capture it.
            _ => writeln!(
                io::stderr(),
                "not tested: {} has no files without names",
                folder.path().display()
            )
            .unwrap(),
        }
    }

    #[test]
    fn stale_incomplete_files_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let old = std::time::SystemTime::now() - 2 * STALE_AFTER;
        let make = |name: &str, is_old: bool| {
            let file = File::create(folder.path().join(name)).unwrap();
            if is_old {
                file.set_modified(old).unwrap();
            }
            file
        };
        let _others =
            [make(".nw-stale.part", true), make(".nw-new.part", false), make("old.part", true)];
        let held = make(".nw-held.part", true);
        rustix::fs::flock(&held, FlockOperation::NonBlockingLockExclusive).unwrap();
        remove_stale(folder.path());
        let mut left: Vec<_> =
            std::fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, [".nw-held.part", ".nw-new.part", "old.part"]);
    }

    #[test]
    fn binary_content_is_detected() {
        assert!(!is_binary("Grüße\n\ttab\r\n".as_bytes()));
        assert!(is_binary(b"\x1b[31m") && is_binary(b"a\0b") && is_binary(b"\x7fELF"));
    }
}
