//! Reading and writing certificates and exported keys.

use super::PacketOutputArgs;
use crate::output_target::OutputTarget;
use anyhow::{Context, Result, bail};
use nw_api::config::file::read_bytes;
use nw_trust::pem;
use std::io::{Read, stdin};
use std::path::Path;

/// Maximum size of a certificate or SafeBag in any encoding, bytes.
const LEN_MAX: u64 = 64 << 10;

/// Reads a file; `-` is standard input.
pub fn read(path: &Path) -> Result<Vec<u8>> {
    if path != Path::new("-") {
        return Ok(read_bytes(path, LEN_MAX)?);
    }
    let mut bytes = Vec::new();
    stdin()
        .lock()
        .take(LEN_MAX + 1)
        .read_to_end(&mut bytes)
        .context("can't read standard input")?;
    if bytes.len() as u64 > LEN_MAX {
        bail!("standard input is too long for a certificate or a key");
    }
    Ok(bytes)
}

/// Writes a packet to standard output, or to a file that only its owner can read.
pub fn write(args: &PacketOutputArgs, packet: &[u8]) -> Result<()> {
    let bytes = match args.raw {
        true => packet.to_vec(),
        false => pem::encode_base64(packet).into_bytes(),
    };
    let mut target = OutputTarget::new(args.output.as_deref(), 0o600)?;
    target.write_all(&bytes).context("can't write the packet")?;
    target.finish()
}
