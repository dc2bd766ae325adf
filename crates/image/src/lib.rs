#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod elf;
mod files;
mod layer;
mod manifest;
mod reference;
mod write;

use elf::ElfFault;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

pub use reference::{Reference, ReferenceError};

/// Form in which an image is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// A directory: the OCI image layout.
    Oci,
    /// A tar archive of the same layout with the list that `docker load` reads.
    Docker,
}

/// What goes into an image.
#[derive(Clone, Debug)]
pub struct Image {
    /// The executable.
    pub binary: PathBuf,
    /// Folder that stands for `/` where the loader and the libraries are looked up.
    pub sysroot: PathBuf,
    /// Name and tag.
    pub reference: Reference,
    /// Labels of the image.
    pub labels: BTreeMap<String, String>,
    /// Time of the image and all its files, in seconds since 1970.
    pub created_s: u64,
}

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Summary {
    /// Name and tag.
    pub reference: String,
    /// Machine of the binary, as images name it.
    pub architecture: &'static str,
    /// Digest of the manifest.
    pub digest: String,
    /// Digest of the configuration; Docker's image id.
    pub config_digest: String,
    /// Bytes of the compressed layers.
    pub compressed_bytes: u64,
    /// Bytes of the layers when unpacked.
    pub unpacked_bytes: u64,
}

/// Why an image was not made.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// A file of the image can't be read.
    #[error("can't read {}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
    /// The binary is not an executable of Linux.
    #[error("{} {fault}; --binary names an nw executable for Linux", path.display())]
    Elf {
        /// The binary.
        path: PathBuf,
        /// What is wrong with it.
        fault: ElfFault,
    },
    /// A library is on none of the folders that a loader searches.
    #[error(
        "{} needs the library {name}, which is in none of {folders}; install it, or name with \
         --sysroot the folder of a system that has it", path.display()
    )]
    NoLibrary {
        /// The binary.
        path: PathBuf,
        /// File name of the library.
        name: String,
        /// Folders that were searched.
        folders: String,
    },
    /// The binary needs more libraries than any build of `nw`.
    #[error("{} needs more than {max} libraries; is it an nw executable?", path.display())]
    LibrariesMax {
        /// The binary.
        path: PathBuf,
        /// The limit.
        max: usize,
    },
    /// A file is too large for an image.
    #[error("{} has {bytes} bytes; at most {max} are taken", path.display())]
    FileMax {
        /// The file.
        path: PathBuf,
        /// Its size.
        bytes: u64,
        /// The limit.
        max: u64,
    },
    /// The folder for the image has files of something else.
    #[error(
        "{} exists and is no image layout; give a folder that does not exist, or an empty one",
        path.display()
    )]
    Occupied {
        /// The folder.
        path: PathBuf,
    },
    /// The image can't be written.
    #[error("can't write {}", path.display())]
    Unwritable {
        /// The file or folder.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
}

/// Builds `image` and writes it to `output`: a folder for [`Format::Oci`], a file for
/// [`Format::Docker`]. A previous image at `output` is replaced when the new one is complete.
pub fn build(image: &Image, format: Format, output: &Path) -> Result<Summary, ImageError> {
    let contents = files::collect(&image.binary, &image.sysroot)?;
    let unwritable = |source| ImageError::Unwritable { path: output.into(), source };
    let layers = contents.layers.iter().map(|files| layer::pack(files, image.created_s));
    let layers = layers.collect::<io::Result<Vec<_>>>().map_err(unwritable)?;
    let documents = manifest::describe(
        contents.architecture,
        &layers,
        &image.reference,
        &image.labels,
        image.created_s,
    );
    match format {
        Format::Oci => write::layout(output, &layers, &documents)?,
        Format::Docker => write::archive(output, &layers, &documents, image.created_s)?,
    }
    Ok(Summary {
        reference: image.reference.to_string(),
        architecture: contents.architecture,
        digest: documents.manifest.digest,
        config_digest: documents.config.digest,
        compressed_bytes: layers.iter().map(|layer| layer.blob.bytes.len() as u64).sum(),
        unpacked_bytes: layers.iter().map(|layer| layer.archive_bytes).sum(),
    })
}
