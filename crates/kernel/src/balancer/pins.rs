//! The directory in which maps and links outlive the process.
//!
//! ```text
//! DIRECTORY/maps-LAYOUT/NAME          maps of one layout
//! DIRECTORY/links/INDEX-MODE          links: interface index and attach mode
//! ```

use super::maps::LAYOUT;
use super::options::AttachMode;
use crate::error::KernelError;
use rustix::fs::statfs;
use rustix::mount::{MountFlags, mount};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The magic number of a bpf file system.
const BPF_FS_MAGIC: u64 = 0xcafe_4a11;
const BPF_FS: &str = "/sys/fs/bpf";

#[derive(Debug)]
pub(super) struct Pins {
    directory: PathBuf,
    had_maps: bool,
}

impl Pins {
    /// Opens the directory, creating it if needed. Removes maps of other layouts.
    pub fn open(directory: &Path) -> Result<Pins, KernelError> {
        if directory.starts_with(BPF_FS) && !is_bpf_fs(Path::new(BPF_FS)) {
            mount("bpf", BPF_FS, "bpf", MountFlags::empty(), None).map_err(|e| {
                let why = "no bpf file system is mounted at /sys/fs/bpf, and this process may not mount one \
                               (run `mount -t bpf bpf /sys/fs/bpf` as root)";
                refusal(directory, why, e.into())
            })?;
        }
        let mut pins = Pins { directory: directory.to_owned(), had_maps: false };
        let maps = pins.maps_directory();
        pins.had_maps = maps.is_dir();
        for needed in [&maps, &pins.links_directory()] {
            fs::create_dir_all(needed)
                .map_err(|e| refusal(directory, "the directory can't be created", e))?;
        }
        if !is_bpf_fs(directory) {
            // Not a bpf file system: remove what was created, if it is empty.
            [maps, pins.links_directory(), directory.to_owned()]
                .iter()
                .for_each(|path| drop(fs::remove_dir(path)));
            let why = "it is not in a bpf file system; use a directory below /sys/fs/bpf";
            return Err(refusal(directory, why, io::ErrorKind::Unsupported.into()));
        }
        pins.remove_other_layouts()
            .map_err(|e| refusal(directory, "maps of another version can't be removed", e))?;
        Ok(pins)
    }

    /// Returns whether maps of this layout were pinned before.
    pub fn had_maps(&self) -> bool {
        self.had_maps
    }

    /// Returns the path of a map's pin.
    pub fn map(&self, name: &str) -> PathBuf {
        self.maps_directory().join(name)
    }

    /// Returns the path of a link's pin.
    pub fn link(&self, index: u32, mode: AttachMode) -> PathBuf {
        self.links_directory().join(format!("{index}-{}", mode.as_str()))
    }

    /// Returns the pinned links: interface index and mode.
    pub fn links(&self) -> Result<Vec<(u32, AttachMode)>, KernelError> {
        let read = || -> io::Result<Vec<_>> {
            let names: Vec<_> = fs::read_dir(self.links_directory())?.collect::<io::Result<_>>()?;
            let parse = |name: &str| {
                let (index, mode) = name.split_once('-')?;
                let mode = AttachMode::ALL.into_iter().find(|known| known.as_str() == mode)?;
                Some((index.parse().ok()?, mode))
            };
            let mut links: Vec<_> =
                names.iter().filter_map(|entry| parse(entry.file_name().to_str()?)).collect();
            links.sort_unstable();
            Ok(links)
        };
        read().map_err(|e| refusal(&self.directory, "the links there can't be read", e))
    }

    /// Removes all pins and the directory.
    pub fn remove(self) -> Result<(), KernelError> {
        fs::remove_dir_all(&self.directory)
            .map_err(|e| refusal(&self.directory, "it can't be removed", e))
    }

    fn maps_directory(&self) -> PathBuf {
        self.directory.join(format!("maps-{LAYOUT}"))
    }

    fn links_directory(&self) -> PathBuf {
        self.directory.join("links")
    }

    fn remove_other_layouts(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.directory)? {
            let path = entry?.path();
            let is_maps =
                path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("maps-"));
            if is_maps && path != self.maps_directory() {
                fs::remove_dir_all(path)?;
            }
        }
        Ok(())
    }
}

fn is_bpf_fs(path: &Path) -> bool {
    statfs(path).is_ok_and(|found| found.f_type as u64 == BPF_FS_MAGIC)
}

fn refusal(directory: &Path, why: &str, source: io::Error) -> KernelError {
    let why = why.to_owned();
    KernelError::Pin { directory: directory.display().to_string(), why, source: source.into() }
}
