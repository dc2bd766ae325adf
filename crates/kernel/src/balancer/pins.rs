//! The folder where maps and links outlive the process.
//!
//! ```text
//! FOLDER/maps-LAYOUT/NAME          maps of one layout
//! FOLDER/links/INDEX-MODE          links: the interface's index, how the program is attached
//! ```

use super::maps::LAYOUT;
use super::options::AttachMode;
use crate::error::KernelError;
use rustix::fs::statfs;
use rustix::mount::{MountFlags, mount};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// "CAFE4A11", as Linux knows a bpf file system.
const BPF_FS_MAGIC: u64 = 0xcafe_4a11;
const BPF_FS: &str = "/sys/fs/bpf";

#[derive(Debug)]
pub(super) struct Pins {
    folder: PathBuf,
    had_maps: bool,
}

impl Pins {
    /// The folder, made where it is missing; maps of other layouts go.
    pub fn open(folder: &Path) -> Result<Pins, KernelError> {
        if folder.starts_with(BPF_FS) && !is_bpf_fs(Path::new(BPF_FS)) {
            mount("bpf", BPF_FS, "bpf", MountFlags::empty(), None)
                .map_err(|e| refusal(folder, "no bpf file system is mounted at /sys/fs/bpf, and this process may not mount one (`mount -t bpf bpf /sys/fs/bpf` as root does)", e.into()))?;
        }
        let mut pins = Pins { folder: folder.to_owned(), had_maps: false };
        let maps = pins.maps_folder();
        pins.had_maps = maps.is_dir();
        for needed in [&maps, &pins.links_folder()] {
            fs::create_dir_all(needed).map_err(|e| refusal(folder, "the folder can't be made", e))?;
        }
        if !is_bpf_fs(folder) {
            // A folder on a disk: what was made of it goes again, if it is empty.
            [maps, pins.links_folder(), folder.to_owned()].iter().for_each(|made| drop(fs::remove_dir(made)));
            let why = "it is not in a bpf file system; take a folder below /sys/fs/bpf";
            return Err(refusal(folder, why, io::ErrorKind::Unsupported.into()));
        }
        pins.remove_other_layouts()
            .map_err(|e| refusal(folder, "maps of another version can't be removed", e))?;
        Ok(pins)
    }

    /// Whether maps of this layout were there.
    pub fn had_maps(&self) -> bool {
        self.had_maps
    }

    /// Where a map is pinned.
    pub fn map(&self, name: &str) -> PathBuf {
        self.maps_folder().join(name)
    }

    /// Where a link is pinned.
    pub fn link(&self, index: u32, mode: AttachMode) -> PathBuf {
        self.links_folder().join(format!("{index}-{}", mode.as_str()))
    }

    /// The links that are pinned.
    pub fn links(&self) -> Result<Vec<(u32, AttachMode)>, KernelError> {
        let read = || -> io::Result<Vec<_>> {
            let names: Vec<_> = fs::read_dir(self.links_folder())?.collect::<io::Result<_>>()?;
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
        read().map_err(|e| refusal(&self.folder, "the links there can't be read", e))
    }

    /// Removes everything that is pinned, and the folder.
    pub fn remove(self) -> Result<(), KernelError> {
        fs::remove_dir_all(&self.folder).map_err(|e| refusal(&self.folder, "it can't be removed", e))
    }

    fn maps_folder(&self) -> PathBuf {
        self.folder.join(format!("maps-{LAYOUT}"))
    }

    fn links_folder(&self) -> PathBuf {
        self.folder.join("links")
    }

    fn remove_other_layouts(&self) -> io::Result<()> {
        for entry in fs::read_dir(&self.folder)? {
            let path = entry?.path();
            let is_maps = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("maps-"));
            if is_maps && path != self.maps_folder() {
                fs::remove_dir_all(path)?;
            }
        }
        Ok(())
    }
}

fn is_bpf_fs(path: &Path) -> bool {
    statfs(path).is_ok_and(|found| found.f_type as u64 == BPF_FS_MAGIC)
}

fn refusal(folder: &Path, why: &str, source: io::Error) -> KernelError {
    let why = why.to_owned();
    KernelError::Pin { folder: folder.display().to_string(), why, source: source.into() }
}
