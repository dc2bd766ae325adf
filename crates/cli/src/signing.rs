//! The signer that the command line names.

use crate::args::Signing;
use anyhow::{Context, Result};
use nw_trust::{Key, Signer};
use std::fs;

/// A plain digest, or the key of a file.
pub fn signer(signing: &Signing) -> Result<Signer> {
    let Some(name) = &signing.key_name else { return Ok(Signer::Digest) };
    if let Some(path) = &signing.key {
        let pem =
            fs::read_to_string(path).with_context(|| format!("can't read the key {}", path.display()))?;
        let key = Key::from_pem(name.as_ref(), &pem).with_context(|| {
            format!("{} (make one with `openssl genpkey -algorithm ed25519`)", path.display())
        })?;
        return Ok(key.into());
    }
    if let Some(path) = &signing.hmac {
        let secret = fs::read(path).with_context(|| format!("can't read the secret {}", path.display()))?;
        anyhow::ensure!(!secret.is_empty(), "the secret in {} is empty", path.display());
        return Ok(Key::from_secret(name.as_ref(), &secret).into());
    }
    anyhow::bail!("--key-name names a key: say which with --key or --hmac")
}
