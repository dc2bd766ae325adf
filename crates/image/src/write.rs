//! Writes an image to its place: complete under its final name, or not at all.

use crate::ImageError;
use crate::files::Entry;
use crate::layer::{Blob, Layer, append};
use crate::manifest::{Documents, LAYOUT};
use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// Returns the files of the layout, in the order of their paths but blobs first.
fn blobs<'a>(layers: &'a [Layer], documents: &'a Documents) -> Vec<&'a Blob> {
    let mut blobs: Vec<_> = layers.iter().map(|layer| &layer.blob).collect();
    blobs.extend([&documents.config, &documents.manifest]);
    blobs.sort_by(|a, b| a.digest.cmp(&b.digest));
    blobs
}

/// Writes the layout as a folder.
pub fn layout(output: &Path, layers: &[Layer], documents: &Documents) -> Result<(), ImageError> {
    let unwritable = |source| ImageError::Unwritable { path: output.into(), source };
    if is_occupied(output).map_err(unwritable)? {
        return Err(ImageError::Occupied { path: output.into() });
    }
    write_layout(output, layers, documents).map_err(unwritable)
}

/// Returns whether `output` has files that are not those of an image layout.
fn is_occupied(output: &Path) -> io::Result<bool> {
    match fs::read_dir(output) {
        Ok(mut entries) => Ok(entries.next().is_some() && !output.join("oci-layout").is_file()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn write_layout(output: &Path, layers: &[Layer], documents: &Documents) -> io::Result<()> {
    let parent = parent(output);
    fs::create_dir_all(parent)?;
    let staging = tempfile::Builder::new().prefix(".nw-image-").tempdir_in(parent)?;
    let new = staging.path().join("new");
    fs::create_dir_all(new.join("blobs/sha256"))?;
    for blob in blobs(layers, documents) {
        fs::write(new.join(blob.path()), &blob.bytes)?;
    }
    fs::write(new.join("index.json"), &documents.index)?;
    fs::write(new.join("oci-layout"), LAYOUT)?;
    if output.exists() {
        fs::rename(output, staging.path().join("old"))?;
    }
    fs::rename(new, output)
}

/// Writes the layout as a tar archive, with the list that `docker load` reads.
pub fn archive(
    output: &Path,
    layers: &[Layer],
    documents: &Documents,
    created_s: u64,
) -> Result<(), ImageError> {
    write_archive(output, layers, documents, created_s)
        .map_err(|source| ImageError::Unwritable { path: output.into(), source })
}

fn write_archive(
    output: &Path,
    layers: &[Layer],
    documents: &Documents,
    created_s: u64,
) -> io::Result<()> {
    if output.is_dir() {
        return Err(io::Error::new(
            io::ErrorKind::IsADirectory,
            "it is a folder; give the name of a file, or --format oci",
        ));
    }
    let file = tempfile::NamedTempFile::new_in(parent(output))?;
    let mut archive = tar::Builder::new(BufWriter::new(file));
    let directory = Entry::Directory { mode: 0o755, owner: 0 };
    for path in ["blobs", "blobs/sha256"] {
        append(&mut archive, path, &directory, created_s)?;
    }
    let mut add = |path: &str, bytes: &[u8]| {
        append(&mut archive, path, &Entry::File { mode: 0o644, bytes: bytes.to_vec() }, created_s)
    };
    for blob in blobs(layers, documents) {
        add(&blob.path(), &blob.bytes)?;
    }
    add("index.json", &documents.index)?;
    add("manifest.json", &documents.load_list)?;
    add("oci-layout", LAYOUT.as_bytes())?;
    let mut writer = archive.into_inner()?;
    writer.flush()?;
    let file = writer.into_inner().map_err(io::IntoInnerError::into_error)?;
    // Others may read it, as a file that a command writes usually is.
    fs::set_permissions(file.path(), std::os::unix::fs::PermissionsExt::from_mode(0o644))?;
    file.persist(output).map_err(|error| error.error)?;
    Ok(())
}

fn parent(output: &Path) -> &Path {
    output.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}
