//! A layer: its files as a tar archive, compressed, with the digests by which others name it.
//!
//! The bytes depend on the files and the time given, and on nothing else.

use crate::files::{Entry, Files};
use flate2::{Compression, GzBuilder};
use sha2::{Digest, Sha256};
use std::io::{self, Write};
use tar::{EntryType, Header};

/// A compressed layer.
pub struct Layer {
    /// The compressed archive.
    pub blob: Blob,
    /// Digest of the archive before compression.
    pub diff_id: String,
    /// Bytes of the archive before compression.
    pub archive_bytes: u64,
}

/// Bytes that are named by their digest.
pub struct Blob {
    /// `sha256:` and 64 hexadecimal digits.
    pub digest: String,
    pub bytes: Vec<u8>,
}

impl Blob {
    /// Names `bytes` by their digest.
    pub fn new(bytes: Vec<u8>) -> Blob {
        Blob { digest: digest(&bytes), bytes }
    }

    /// Returns the path in an image layout.
    pub fn path(&self) -> String {
        format!("blobs/{}", self.digest.replacen(':', "/", 1))
    }
}

fn digest(bytes: &[u8]) -> String {
    let digits = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    format!("sha256:{digits}")
}

/// Packs the files of a layer. `modified_s` is the time of all of them, in seconds since 1970.
pub fn pack(files: &Files, modified_s: u64) -> io::Result<Layer> {
    let mut archive = tar::Builder::new(Vec::new());
    for (path, entry) in files {
        append(&mut archive, path, entry, modified_s)?;
    }
    let archive = archive.into_inner()?;
    let mut encoder = GzBuilder::new().mtime(0).write(Vec::new(), Compression::best());
    encoder.write_all(&archive)?;
    Ok(Layer {
        blob: Blob::new(encoder.finish()?),
        diff_id: digest(&archive),
        archive_bytes: archive.len() as u64,
    })
}

/// Appends one file or directory, with the names of owners left out.
pub fn append(
    archive: &mut tar::Builder<impl Write>,
    path: &str,
    entry: &Entry,
    modified_s: u64,
) -> io::Result<()> {
    let mut header = Header::new_ustar();
    let (kind, mode, owner, bytes): (_, _, _, &[u8]) = match entry {
        Entry::Directory { mode, owner } => (EntryType::Directory, *mode, *owner, &[]),
        Entry::File { mode, bytes } => (EntryType::Regular, *mode, 0, bytes),
    };
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_uid(owner.into());
    header.set_gid(owner.into());
    header.set_mtime(modified_s);
    header.set_size(bytes.len() as u64);
    let end = if kind == EntryType::Directory { "/" } else { "" };
    archive.append_data(&mut header, format!("{path}{end}"), bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::read::GzDecoder;
    use std::io::Read;

    fn files() -> Files {
        Files::from([
            ("tmp".to_owned(), Entry::Directory { mode: 0o1777, owner: 7 }),
            ("tmp/hello".to_owned(), Entry::File { mode: 0o644, bytes: b"hello".to_vec() }),
        ])
    }

    #[test]
    fn layer_unpacks_to_its_files() {
        let layer = pack(&files(), 1_000_000_000).unwrap();
        assert_eq!(layer.blob.digest, digest(&layer.blob.bytes));
        let mut archive = Vec::new();
        GzDecoder::new(&layer.blob.bytes[..]).read_to_end(&mut archive).unwrap();
        assert_eq!(layer.diff_id, digest(&archive));
        assert_eq!(layer.archive_bytes, archive.len() as u64);
        let mut archive = tar::Archive::new(&archive[..]);
        let seen: Vec<_> = archive
            .entries()
            .unwrap()
            .map(|entry| {
                let mut entry = entry.unwrap();
                let mut text = String::new();
                entry.read_to_string(&mut text).unwrap();
                let header = entry.header();
                let (mode, time) = (header.mode().unwrap(), header.mtime().unwrap());
                (
                    entry.path().unwrap().display().to_string(),
                    mode,
                    header.uid().unwrap(),
                    time,
                    text,
                )
            })
            .collect();
        let expected = [
            ("tmp/".to_owned(), 0o1777, 7, 1_000_000_000, String::new()),
            ("tmp/hello".to_owned(), 0o644, 0, 1_000_000_000, "hello".to_owned()),
        ];
        assert_eq!(seen, expected);
    }

    #[test]
    fn layer_with_another_time_has_another_digest() {
        let digests = [1, 1, 2].map(|time| pack(&files(), time).unwrap().blob.digest);
        assert_eq!(digests[0], digests[1]);
        assert_ne!(digests[0], digests[2]);
    }
}
