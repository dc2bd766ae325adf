//! Packets from files and to files.

use super::Writing;
use crate::target::Target;
use anyhow::{Context, Result, bail};
use nw_trust::text;
use std::fs::File;
use std::io::{Read, stdin};
use std::path::Path;

/// No certificate or SafeBag is longer, as base64 neither.
const LEN_MAX: u64 = 64 << 10;

/// The octets of a small file; `-` is standard input.
pub fn read(path: &Path) -> Result<Vec<u8>> {
    let mut octets = Vec::new();
    let read = match path == Path::new("-") {
        true => stdin().lock().take(LEN_MAX + 1).read_to_end(&mut octets),
        false => File::open(path).and_then(|file| file.take(LEN_MAX + 1).read_to_end(&mut octets)),
    };
    read.with_context(|| format!("can't read {}", path.display()))?;
    if octets.len() as u64 > LEN_MAX {
        bail!("{} is too long for a certificate or a key", path.display());
    }
    Ok(octets)
}

/// Writes a packet: to standard output, or to a file that only its owner reads and that is there when it is whole.
pub fn write(writing: &Writing, packet: &[u8]) -> Result<()> {
    let octets = match writing.raw {
        true => packet.to_vec(),
        false => text::armor(packet).into_bytes(),
    };
    let mut target = Target::new(writing.output.as_deref(), 0o600)?;
    target.write_all(&octets).context("can't write all of it")?;
    target.finish()
}
