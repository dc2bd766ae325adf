//! Where a command's octets go: standard output, a file, or what else has a name.

use crate::output::{Output, stdout};
use anyhow::{Context, Result, bail};
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Where content goes. A file gets its name when it is whole; until then it has a name that nobody takes for it, and is removed when
/// something fails. A device or a FIFO is written to as it stands: a file in its place would take it from the whole machine. A link leads
/// to what it names.
pub enum Target {
    Stdout(io::BufWriter<Output>),
    Stream { file: io::BufWriter<File>, path: PathBuf },
    File { file: tempfile::NamedTempFile, path: PathBuf },
}

impl Target {
    /// `mode`: who may do what with a file that is made.
    pub fn new(path: Option<&Path>, mode: u32) -> Result<Self> {
        let Some(path) = path else {
            return Ok(Target::Stdout(io::BufWriter::with_capacity(256 * 1024, stdout())));
        };
        // What is not there, or may not be looked at, is for the attempt to write it to say.
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        match path.metadata() {
            Ok(there) if there.is_dir() => bail!("{} is a folder: name the file", path.display()),
            Ok(there) if !there.is_file() => {
                let file = OpenOptions::new().write(true).open(&path);
                let file = file.with_context(|| format!("can't write to {}", path.display()))?;
                return Ok(Target::Stream { file: io::BufWriter::with_capacity(256 * 1024, file), path });
            }
            _ => {}
        }
        let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let file = tempfile::Builder::new()
            .prefix(".nw-")
            .suffix(".part")
            .permissions(PermissionsExt::from_mode(mode))
            .tempfile_in(folder)
            .with_context(|| format!("can't write into {}", folder.display()))?;
        Ok(Target::File { file, path })
    }

    pub fn write_all(&mut self, content: &[u8]) -> io::Result<()> {
        match self {
            Target::Stdout(out) => out.write_all(content),
            Target::Stream { file, .. } => file.write_all(content),
            Target::File { file, .. } => file.write_all(content),
        }
    }

    pub fn finish(self) -> Result<()> {
        match self {
            Target::Stdout(mut out) => Ok(out.flush()?),
            Target::Stream { mut file, path } => {
                file.flush().with_context(|| format!("can't write to {}", path.display()))
            }
            Target::File { file, path } => {
                file.as_file().sync_all().with_context(|| format!("can't write {}", path.display()))?;
                file.persist(&path)
                    .map_err(|e| e.error)
                    .with_context(|| format!("can't name it {}", path.display()))?;
                Ok(())
            }
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
}
