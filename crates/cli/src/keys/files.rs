//! Packets from files and to files.

use super::Writing;
use crate::target::Target;
use anyhow::{Context, Result, bail};
use nw_api::config::file::read_bytes;
use nw_trust::text;
use std::io::{Read, stdin};
use std::path::Path;

/// No certificate or SafeBag is longer, as base64 neither.
const LEN_MAX: u64 = 64 << 10;

/// The octets of a small file; `-` is standard input.
pub fn read(path: &Path) -> Result<Vec<u8>> {
    if path != Path::new("-") {
        return Ok(read_bytes(path, LEN_MAX)?);
    }
    let mut octets = Vec::new();
    stdin().lock().take(LEN_MAX + 1).read_to_end(&mut octets).context("can't read standard input")?;
    if octets.len() as u64 > LEN_MAX {
        bail!("standard input is too long for a certificate or a key");
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
