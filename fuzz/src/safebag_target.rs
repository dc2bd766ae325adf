//! The target for SafeBags, in a file of its own because it needs the `trust` crate.
//! Replayed by `crates/trust/tests/all/corpus.rs`.

use nw_trust::{Error, safebag};

/// Maximum of key derivation rounds: more only take time.
const ROUNDS_MAX: u32 = 5000;

/// Opens a SafeBag with the passphrase of the seeds.
pub fn safebag(bytes: &[u8]) -> Result<(), &'static str> {
    let rounds = safebag::rounds(bytes).map_err(|_| "unreadable")?;
    let certificate = safebag::certificate(bytes).expect("a bag with rounds has a certificate");
    assert!(certificate.len() < bytes.len());
    if rounds > ROUNDS_MAX {
        return Err("slow");
    }
    match safebag::open(bytes, b"vector") {
        Ok((wire, key)) => {
            assert_eq!(wire, certificate);
            assert!(key.public_key().is_ok());
            Ok(())
        }
        Err(Error::WrongPassphrase) => Err("passphrase"),
        Err(_) => Err("key"),
    }
}
