//! Proofs that a host has the token of its group, and that its manager knows it.
//!
//! The token is a secret of both sides and is never sent. As in SCRAM (RFC 5802) with channel
//! bindings (RFC 9266), both prove to have it for one TLS connection, one name and one key: a proof
//! that was recorded, or passed on by a third party, proves nothing on another connection. The
//! manager keeps what checks proofs, from which none can be made.
//!
//! SCRAM's salt and iterations make guessing a password expensive. A token is random and long, so
//! they are left out.

use crate::{AgentError, digest_bytes};
use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::{self, Read};
use std::path::Path;

/// Length of proofs and keys, bytes.
pub const PROOF_LEN: usize = 32;
/// Length of a token, bytes.
const TOKEN_LEN_MIN: usize = 24;
const TOKEN_LEN_MAX: usize = 1024;
/// Start of the tokens that are made here.
const TOKEN_PREFIX: &str = "nwg1-";
/// Random bytes of such a token.
const RANDOM_LEN: usize = 32;

type Digest = [u8; PROOF_LEN];

/// What is proven: that a host of this name and with this key is on this connection.
pub struct Statement(Vec<u8>);

impl Statement {
    /// `binding` identifies the TLS connection.
    pub fn new(binding: &Digest, host: &str, key: &[u8]) -> Self {
        Statement(join(&[binding, host.as_bytes(), key]))
    }
}

/// Joins texts so that no other texts have the same result.
fn join(parts: &[&[u8]]) -> Vec<u8> {
    let part = |part: &&[u8]| [&(part.len() as u64).to_be_bytes(), *part].concat();
    parts.iter().flat_map(part).collect()
}

fn mac(key: &[u8], text: &[u8]) -> Digest {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text);
    tag.as_ref().try_into().expect("SHA-256 has 32 bytes")
}

/// Text of which the manager's proof is the code.
fn answer(statement: &Statement, authority: &[u8], certificate: &[u8]) -> Vec<u8> {
    join(&[&statement.0, authority, certificate])
}

/// The token, as a host of the group has it.
pub struct GroupToken {
    host_key: Digest,
    manager_key: Digest,
}

/// The token, as the manager keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredToken {
    /// Digest of the hosts' key: checks proofs, and makes none.
    host_digest: Digest,
    manager_key: Digest,
}

impl GroupToken {
    /// Returns the text of a new token.
    pub fn generate() -> String {
        let mut bytes = [0; RANDOM_LEN];
        getrandom::fill(&mut bytes).expect("the system has random numbers");
        format!("{TOKEN_PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes))
    }

    /// Reads the text of a token; space around it does not count.
    pub fn new(text: &str) -> Result<Self, AgentError> {
        let text = text.trim();
        let is_valid = text.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_valid || !(TOKEN_LEN_MIN..=TOKEN_LEN_MAX).contains(&text.len()) {
            return Err(AgentError::GroupToken);
        }
        let key = |text: &[u8]| mac(text, b"namewire group token, version 1");
        let root = key(text.as_bytes());
        Ok(GroupToken { host_key: mac(&root, b"host"), manager_key: mac(&root, b"manager") })
    }

    /// Reads a file with a token.
    pub fn read(path: &Path) -> Result<Self, AgentError> {
        let read = || {
            let mut text = String::new();
            fs::File::open(path)?.take(2 * TOKEN_LEN_MAX as u64).read_to_string(&mut text)?;
            io::Result::Ok(text)
        };
        GroupToken::new(&read().map_err(AgentError::file("read", path))?)
    }

    /// Returns what the manager keeps.
    pub fn stored(&self) -> StoredToken {
        let host_digest = digest_bytes(&self.host_key);
        StoredToken { host_digest, manager_key: self.manager_key }
    }

    /// Returns the host's proof.
    pub fn prove(&self, statement: &Statement) -> Digest {
        let mask = mac(&digest_bytes(&self.host_key), &statement.0);
        core::array::from_fn(|index| self.host_key[index] ^ mask[index])
    }

    /// Returns whether the manager that signed `certificate` has proven to know the token.
    pub fn is_answer(
        &self,
        statement: &Statement,
        authority: &[u8],
        certificate: &[u8],
        proof: &[u8],
    ) -> bool {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &self.manager_key);
        hmac::verify(&key, &answer(statement, authority, certificate), proof).is_ok()
    }
}

impl StoredToken {
    /// Returns whether this is the proof of a host that has the token.
    pub fn is_proof(&self, statement: &Statement, proof: &[u8]) -> bool {
        let Ok(proof): Result<&Digest, _> = proof.try_into() else { return false };
        let mask = mac(&self.host_digest, &statement.0);
        let host_key: Digest = core::array::from_fn(|index| proof[index] ^ mask[index]);
        // Digests of what the peer can't choose: the time of the comparison reveals nothing.
        digest_bytes(&host_key) == self.host_digest
    }

    /// Returns the manager's proof, which covers its authority and the certificate that it signed.
    pub fn answer(&self, statement: &Statement, authority: &[u8], certificate: &[u8]) -> Digest {
        mac(&self.manager_key, &answer(statement, authority, certificate))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "0123456789abcdefghijklmn";

    #[test]
    fn proof_holds_for_its_connection_name_and_key_only() {
        let token = GroupToken::new(&format!(" {TEXT}\n")).unwrap();
        let stored = token.stored();
        let statement =
            |binding: u8, host: &str, key: &[u8]| Statement::new(&[binding; PROOF_LEN], host, key);
        let proof = token.prove(&statement(1, "g-0", b"key"));
        assert!(stored.is_proof(&statement(1, "g-0", b"key"), &proof));
        for other in [
            statement(2, "g-0", b"key"),
            statement(1, "g-1", b"key"),
            statement(1, "g-0", b"kez"),
            statement(1, "g-0k", b"ey"),
        ] {
            assert!(!stored.is_proof(&other, &proof));
        }
        let statement = statement(1, "g-0", b"key");
        assert!(!stored.is_proof(&statement, &proof[1..]));
        let other = GroupToken::new(&format!("{TEXT}x")).unwrap();
        assert!(!stored.is_proof(&statement, &other.prove(&statement)));
        // What the manager keeps is no key of a host.
        let thief = GroupToken { host_key: stored.host_digest, manager_key: stored.manager_key };
        assert!(!stored.is_proof(&statement, &thief.prove(&statement)));
    }

    #[test]
    fn answer_holds_for_its_authority_and_certificate_only() {
        let token = GroupToken::new(TEXT).unwrap();
        let statement = Statement::new(&[1; PROOF_LEN], "g-0", b"key");
        let answer = token.stored().answer(&statement, b"authority", b"certificate");
        assert!(token.is_answer(&statement, b"authority", b"certificate", &answer));
        assert!(!token.is_answer(&statement, b"Authority", b"certificate", &answer));
        assert!(!token.is_answer(&statement, b"authority", b"Certificate", &answer));
        assert!(!token.is_answer(&statement, b"authority", b"certificate", &[]));
        let other = Statement::new(&[2; PROOF_LEN], "g-0", b"key");
        assert!(!token.is_answer(&other, b"authority", b"certificate", &answer));
        // The host's own proof sent back is none of the manager.
        let proof = token.prove(&statement);
        assert!(!token.is_answer(&statement, b"authority", b"certificate", &proof));
    }

    #[test]
    fn short_and_split_texts_are_no_tokens() {
        for wrong in ["", &TEXT[1..], &format!("{TEXT} {TEXT}"), &"x".repeat(1025)] {
            assert!(GroupToken::new(wrong).is_err(), "{wrong}");
        }
        let text = GroupToken::generate();
        assert_ne!(text, GroupToken::generate());
        GroupToken::new(&text).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        assert!(GroupToken::read(&path).is_err());
        fs::write(&path, format!("{text}\n")).unwrap();
        let read = GroupToken::read(&path).unwrap();
        assert_eq!(read.stored(), GroupToken::new(&text).unwrap().stored());
    }
}
