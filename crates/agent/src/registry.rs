//! Which hosts there are: tokens that may be redeemed once, and the certificates given out.
//!
//! A certificate counts only while it is listed here, so forgetting a host ends its rights at once.
//! Tokens are stored as digests. The file is complete at all times.

use crate::{AgentError, HOSTS_MAX, digest, read_private, write_private};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Valid certificates of one host at a time: the current one, and the one before it.
const CERTIFICATES_MAX: usize = 2;
/// Bytes of a host's name, at most.
const NAME_LEN_MAX: usize = 63;

#[derive(Default, Serialize, Deserialize)]
struct Host {
    token: Option<Token>,
    #[serde(default)]
    certificates: Vec<Certificate>,
}

#[derive(Serialize, Deserialize)]
struct Token {
    digest: String,
    expires_s: u64,
}

#[derive(Serialize, Deserialize)]
struct Certificate {
    digest: String,
    expires_s: u64,
}

/// The hosts of a manager, in a file.
pub struct Registry {
    path: PathBuf,
    hosts: BTreeMap<String, Host>,
}

impl Registry {
    /// Reads the file, or begins with no hosts.
    pub fn open(directory: &Path) -> Result<Registry, AgentError> {
        let path = directory.join("hosts.json");
        let hosts = match path.exists() {
            true => {
                serde_json::from_slice(&read_private(&path)?).map_err(AgentError::damaged(&path))?
            }
            false => BTreeMap::new(),
        };
        Ok(Registry { path, hosts })
    }

    /// Makes `secret` the token of a host until `expires_s`, in place of an earlier token.
    /// Certificates that the host has stay valid.
    pub fn set_token(
        &mut self,
        host: &str,
        secret: &[u8],
        expires_s: u64,
    ) -> Result<(), AgentError> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if host.is_empty() || host.len() > NAME_LEN_MAX || !host.bytes().all(plain) {
            return Err(AgentError::HostName(host.chars().take(NAME_LEN_MAX).collect()));
        }
        if self.hosts.len() >= HOSTS_MAX && !self.hosts.contains_key(host) {
            return Err(AgentError::HostsMax);
        }
        let token = Token { digest: digest(secret), expires_s };
        self.hosts.entry(host.to_owned()).or_default().token = Some(token);
        self.save()
    }

    /// Takes a token back: returns its host, once, if it has not expired.
    pub fn redeem(&mut self, secret: &[u8], now_s: u64) -> Result<Option<String>, AgentError> {
        let digest = digest(secret);
        let is_it = |host: &Host| host.token.as_ref().is_some_and(|token| token.digest == digest);
        let Some((name, host)) = self.hosts.iter_mut().find(|(_, host)| is_it(host)) else {
            return Ok(None);
        };
        let name = name.clone();
        let is_valid = host.token.take().is_some_and(|token| now_s < token.expires_s);
        // Written before a certificate is given out: a token is never redeemed twice.
        self.save()?;
        Ok(is_valid.then_some(name))
    }

    /// Lists a certificate of a host. Of earlier ones the latest stays, until the agent has
    /// written the new one; none stays when the host has enrolled anew.
    pub fn add_certificate(
        &mut self,
        host: &str,
        certificate: &[u8],
        expires_s: u64,
        is_new: bool,
    ) -> Result<(), AgentError> {
        let entry = self.hosts.entry(host.to_owned()).or_default();
        if is_new {
            entry.certificates.clear();
        }
        entry.certificates.push(Certificate { digest: digest(certificate), expires_s });
        let surplus = entry.certificates.len().saturating_sub(CERTIFICATES_MAX);
        entry.certificates.drain(..surplus);
        self.save()
    }

    /// Returns the host with this certificate, if it is listed and has not expired.
    pub fn host_of(&self, certificate: &[u8], now_s: u64) -> Option<String> {
        let digest = digest(certificate);
        let has = |host: &Host| {
            let mut valid = host.certificates.iter().filter(|found| now_s < found.expires_s);
            valid.any(|found| found.digest == digest)
        };
        self.hosts.iter().find(|(_, host)| has(host)).map(|(name, _)| name.clone())
    }

    /// Removes a host. Returns whether there was one.
    pub fn forget(&mut self, host: &str) -> Result<bool, AgentError> {
        let existed = self.hosts.remove(host).is_some();
        self.save()?;
        Ok(existed)
    }

    /// Returns the names of all hosts, and whether each has a certificate.
    pub fn hosts(&self) -> impl Iterator<Item = (&str, bool)> {
        self.hosts.iter().map(|(name, host)| (name.as_str(), !host.certificates.is_empty()))
    }

    fn save(&self) -> Result<(), AgentError> {
        let text = serde_json::to_vec_pretty(&self.hosts).expect("texts and numbers");
        write_private(&self.path, &text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn token_is_redeemed_once_and_survives_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let mut registry = Registry::open(folder.path()).unwrap();
        registry.set_token("h1", b"secret", 100).unwrap();
        let mut registry = Registry::open(folder.path()).unwrap();
        assert_eq!(registry.redeem(b"other", 50).unwrap(), None);
        assert_eq!(registry.redeem(b"secret", 50).unwrap().as_deref(), Some("h1"));
        assert_eq!(registry.redeem(b"secret", 50).unwrap(), None);
        let text = std::fs::read_to_string(folder.path().join("hosts.json")).unwrap();
        assert!(!text.contains("secret"));
    }

    #[test]
    fn expired_token_is_refused_and_gone() {
        let folder = tempfile::tempdir().unwrap();
        let mut registry = Registry::open(folder.path()).unwrap();
        registry.set_token("h1", b"secret", 100).unwrap();
        assert_eq!(registry.redeem(b"secret", 100).unwrap(), None);
        assert_eq!(registry.redeem(b"secret", 50).unwrap(), None);
    }

    #[test]
    fn renewed_certificate_leaves_one_before_it_and_enrolment_none() {
        let folder = tempfile::tempdir().unwrap();
        let mut registry = Registry::open(folder.path()).unwrap();
        for certificate in [b"a", b"b", b"c"] {
            registry.add_certificate("h1", certificate, 100, false).unwrap();
        }
        let valid = |registry: &Registry| {
            [b"a", b"b", b"c", b"d"].map(|found| registry.host_of(found, 99).is_some())
        };
        assert_eq!(valid(&registry), [false, true, true, false]);
        assert_eq!(registry.host_of(b"c", 100), None);
        registry.add_certificate("h1", b"d", 100, true).unwrap();
        assert_eq!(valid(&registry), [false, false, false, true]);
        assert!(registry.forget("h1").unwrap());
        assert_eq!(valid(&registry), [false; 4]);
    }

    #[test]
    fn names_of_hosts_are_plain_words() {
        let folder = tempfile::tempdir().unwrap();
        let mut registry = Registry::open(folder.path()).unwrap();
        for name in ["", "a b", "../x", "é", &"x".repeat(64)] {
            assert!(registry.set_token(name, b"s", 1).is_err(), "{name}");
        }
    }
}
