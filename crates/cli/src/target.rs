//! Where a command's octets go: standard output, a file, or what else has a name.

use crate::output::{Output, stdout};
use anyhow::{Context, Result, bail};
use rustix::fs::{AtFlags, CWD, FlockOperation, Mode, OFlags};
use std::fs::{self, File, OpenOptions};
use std::io::{self, IsTerminal, Seek, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Bytes that are written at once.
const BUFFER_LEN: usize = 256 * 1024;
/// Names of files that are not whole yet, where files without names can't be had.
const PART_PREFIX: &str = ".nw-";
/// See [`PART_PREFIX`].
const PART_SUFFIX: &str = ".part";
/// An unfinished file that was not written to for so long is left over.
const STALE_AFTER: Duration = Duration::from_secs(3600);

/// Where content goes. A file gets its name when it is whole; until then it has none, so that nothing is left of it however the program ends. Where
/// that can't be, it has a name that can't be taken for it, and is removed when something fails. A device or a FIFO is written to as it stands: a file
/// in its place would take it from the whole machine. A link leads to what it names.
pub enum Target {
    Stdout { out: io::BufWriter<Output>, refuses_binary: bool },
    Stream { file: io::BufWriter<File>, path: PathBuf },
    Unnamed { file: File, path: PathBuf, mode: u32 },
    Named { file: tempfile::NamedTempFile, path: PathBuf },
}

impl Target {
    /// `mode`: who may do what with a file that is made.
    pub fn new(path: Option<&Path>, mode: u32) -> Result<Self> {
        let Some(path) = path.filter(|path| *path != Path::new("-")) else {
            let out = io::BufWriter::with_capacity(BUFFER_LEN, stdout());
            return Ok(Target::Stdout { out, refuses_binary: path.is_none() && io::stdout().is_terminal() });
        };
        // What is not there, or may not be looked at, is for the attempt to write it to say.
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        match path.metadata() {
            Ok(there) if there.is_dir() => bail!("{} is a folder: name the file", path.display()),
            Ok(there) if !there.is_file() => {
                let file = OpenOptions::new().write(true).open(&path);
                let file = file.with_context(|| format!("can't write to {}", path.display()))?;
                return Ok(Target::Stream { file: io::BufWriter::with_capacity(BUFFER_LEN, file), path });
            }
            _ => {}
        }
        let folder = folder_of(&path);
        match unnamed(folder, mode) {
            Some(file) => Ok(Target::Unnamed { file, path, mode }),
            None => {
                remove_stale(folder);
                Ok(Target::Named { file: named(folder, mode)?, path })
            }
        }
    }

    pub fn write_all(&mut self, content: &[u8]) -> io::Result<()> {
        match self {
            Target::Stdout { refuses_binary: true, .. } if is_binary(content) => Err(io::Error::other(
                "it is binary, and standard output is a terminal (write it to a file with -o FILE, or pipe it; -o - writes it here)",
            )),
            Target::Stdout { out, .. } => out.write_all(content),
            Target::Stream { file, .. } => file.write_all(content),
            Target::Unnamed { file, .. } => file.write_all(content),
            Target::Named { file, .. } => file.write_all(content),
        }
    }

    pub fn finish(self) -> Result<()> {
        match self {
            Target::Stdout { mut out, .. } => Ok(out.flush()?),
            Target::Stream { mut file, path } => {
                file.flush().with_context(|| format!("can't write to {}", path.display()))
            }
            Target::Unnamed { mut file, path, mode } => {
                file.sync_all().with_context(|| format!("can't write {}", path.display()))?;
                if give_name(&file, &path).is_ok() {
                    return Ok(());
                }
                // Some file systems make files without names and give them none afterwards.
                let mut copy = named(folder_of(&path), mode)?;
                file.rewind()
                    .and_then(|()| io::copy(&mut file, &mut copy))
                    .with_context(|| format!("can't write {}", path.display()))?;
                persist(copy, &path)
            }
            Target::Named { file, path } => persist(file, &path),
        }
    }
}

/// True for what a terminal would take for commands, or show as noise.
pub fn is_binary(content: &[u8]) -> bool {
    content.iter().any(|byte| matches!(byte, 0..=8 | 14..=31 | 127))
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A file without a name; `None` where there can't be any.
fn unnamed(folder: &Path, mode: u32) -> Option<File> {
    // The name is given by way of this folder.
    if !Path::new("/proc/self/fd").exists() {
        return None;
    }
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    rustix::fs::open(folder, flags, Mode::from_raw_mode(mode)).ok().map(File::from)
}

/// Names a file that has no name; what has the name is replaced.
fn give_name(file: &File, path: &Path) -> io::Result<()> {
    let own = format!("/proc/self/fd/{}", file.as_raw_fd());
    let link = |path: &Path| rustix::fs::linkat(CWD, own.as_str(), CWD, path, AtFlags::SYMLINK_FOLLOW);
    match link(path) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::EXIST) => {
            // A link replaces nothing, a rename does.
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
    // It tells others that this one is not left over; where files can't be locked, its age does.
    let _ = rustix::fs::flock(file.as_file(), FlockOperation::NonBlockingLockExclusive);
    Ok(file)
}

fn persist(file: tempfile::NamedTempFile, path: &Path) -> Result<()> {
    file.as_file().sync_all().with_context(|| format!("can't write {}", path.display()))?;
    file.persist(path).map_err(|e| e.error).with_context(|| format!("can't name it {}", path.display()))?;
    Ok(())
}

/// Removes what programs left that were killed.
fn remove_stale(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let is_part =
            name.to_str().is_some_and(|name| name.starts_with(PART_PREFIX) && name.ends_with(PART_SUFFIX));
        let is_old = entry.metadata().is_ok_and(|metadata| {
            metadata.is_file()
                && metadata.modified().is_ok_and(|at| at.elapsed().is_ok_and(|age| age > STALE_AFTER))
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
        let mut target = Target::new(Some(path), 0o644).unwrap();
        target.write_all(b"content").unwrap();
        target.finish().unwrap();
    }

    #[test]
    fn a_device_stays_one() {
        write(Path::new("/dev/null"));
        assert!(Path::new("/dev/null").metadata().unwrap().file_type().is_char_device());
        let mut full = Target::new(Some(Path::new("/dev/full")), 0o644).unwrap();
        full.write_all(b"content").unwrap();
        assert!(full.finish().unwrap_err().to_string().contains("/dev/full"));
    }

    #[test]
    fn a_link_stays_one_and_its_file_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link) = (folder.path().join("file"), folder.path().join("link"));
        std::fs::write(&file, "older and longer content").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        write(&link);
        assert!(link.symlink_metadata().unwrap().is_symlink());
        assert_eq!(std::fs::read(&file).unwrap(), b"content");
    }

    #[test]
    fn a_file_is_there_when_it_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let mut target = Target::new(Some(&path), 0o600).unwrap();
        target.write_all(b"content").unwrap();
        assert!(!path.exists());
        target.finish().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"content");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        drop(Target::new(Some(&folder.path().join("other")), 0o600).unwrap());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        assert!(Target::new(Some(folder.path()), 0o600).is_err());
    }

    #[test]
    fn file_is_replaced_and_nothing_else_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        for content in [&b"first"[..], b"second"] {
            let mut target = Target::new(Some(&path), 0o644).unwrap();
            target.write_all(content).unwrap();
            target.finish().unwrap();
            assert_eq!(std::fs::read(&path).unwrap(), content);
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn file_that_is_not_whole_has_no_name() {
        let folder = tempfile::tempdir().unwrap();
        let mut target = Target::new(Some(&folder.path().join("file")), 0o644).unwrap();
        target.write_all(b"content").unwrap();
        match target {
            Target::Unnamed { .. } => assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0),
            // Past the capture of the test's output, so that it is seen.
            _ => writeln!(io::stderr(), "not tested: {} has no files without names", folder.path().display())
                .unwrap(),
        }
    }

    #[test]
    fn stale_parts_are_removed_and_others_stay() {
        let folder = tempfile::tempdir().unwrap();
        let old = std::time::SystemTime::now() - 2 * STALE_AFTER;
        let make = |name: &str, is_old: bool| {
            let file = File::create(folder.path().join(name)).unwrap();
            if is_old {
                file.set_modified(old).unwrap();
            }
            file
        };
        let _others = [make(".nw-stale.part", true), make(".nw-new.part", false), make("old.part", true)];
        let held = make(".nw-held.part", true);
        rustix::fs::flock(&held, FlockOperation::NonBlockingLockExclusive).unwrap();
        remove_stale(folder.path());
        let mut left: Vec<_> =
            std::fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, [".nw-held.part", ".nw-new.part", "old.part"]);
    }

    #[test]
    fn binary_content_is_told_from_text() {
        assert!(!is_binary("Grüße\n\ttab\r\n".as_bytes()));
        assert!(is_binary(b"\x1b[31m") && is_binary(b"a\0b") && is_binary(b"\x7fELF"));
    }
}
