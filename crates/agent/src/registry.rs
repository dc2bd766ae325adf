//! Which hosts there are: tokens that may be redeemed once, and the certificates given out.
//!
//! A certificate counts only while it is listed here, so forgetting a host ends its rights at once.
//! Tokens are stored as digests. The file is complete at all times. Several processes may change
//! it: a lock keeps their changes apart, and each reads the file again when it has changed.

use crate::{AgentError, HOSTS_MAX, digest, lock_file, read_private, write_private};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
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
    /// Inode and time of the file that was read.
    stamp: Option<(u64, i64, i64)>,
}

impl Registry {
    /// Reads the file, or begins with no hosts.
    pub fn open(directory: &Path) -> Result<Registry, AgentError> {
        let path = directory.join("hosts.json");
        let mut registry = Registry { path, hosts: BTreeMap::new(), stamp: None };
        registry.refresh()?;
        Ok(registry)
    }

    /// Reads the file if it is not the one that was read last.
    fn refresh(&mut self) -> Result<(), AgentError> {
        let metadata = self.path.metadata().ok();
        let stamp = metadata.map(|found| (found.ino(), found.mtime(), found.mtime_nsec()));
        if stamp != self.stamp {
            self.hosts = match stamp {
                Some(_) => serde_json::from_slice(&read_private(&self.path)?)
                    .map_err(AgentError::damaged(&self.path))?,
                None => BTreeMap::new(),
            };
            self.stamp = stamp;
        }
        Ok(())
    }

    /// Changes the list by `change` and writes it, with no change of another process between.
    fn change<T>(
        &mut self,
        change: impl FnOnce(&mut BTreeMap<String, Host>) -> Result<T, AgentError>,
    ) -> Result<T, AgentError> {
        let lock = lock_file(&self.path.with_extension("lock"))?;
        self.refresh()?;
        let result = change(&mut self.hosts)?;
        let text = serde_json::to_vec_pretty(&self.hosts).expect("texts and numbers");
        write_private(&self.path, &text)?;
        self.refresh()?;
        drop(lock);
        Ok(result)
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
        let token = Token { digest: digest(secret), expires_s };
        self.change(|hosts| {
            if hosts.len() >= HOSTS_MAX && !hosts.contains_key(host) {
                return Err(AgentError::HostsMax);
            }
            hosts.entry(host.to_owned()).or_default().token = Some(token);
            Ok(())
        })
    }

    /// Takes a token back: returns its host, once, if it has not expired. It is written before a
    /// certificate is given out, so that a token is never redeemed twice.
    pub fn redeem(&mut self, secret: &[u8], now_s: u64) -> Result<Option<String>, AgentError> {
        let digest = digest(secret);
        let is_it = |host: &Host| host.token.as_ref().is_some_and(|token| token.digest == digest);
        self.refresh()?;
        if !self.hosts.values().any(is_it) {
            return Ok(None);
        }
        self.change(|hosts| {
            let found = hosts.iter_mut().find(|(_, host)| is_it(host));
            Ok(found.and_then(|(name, host)| {
                let is_valid = host.token.take().is_some_and(|token| now_s < token.expires_s);
                is_valid.then(|| name.clone())
            }))
        })
    }

    /// Lists a certificate of a host. Of earlier ones the latest stays, until the agent has
    /// written the new one; none stays when the host has enrolled anew. Returns false if the host
    /// was forgotten meanwhile.
    pub fn add_certificate(
        &mut self,
        host: &str,
        certificate: &[u8],
        expires_s: u64,
        is_new: bool,
    ) -> Result<bool, AgentError> {
        let digest = digest(certificate);
        self.change(|hosts| {
            let Some(entry) = hosts.get_mut(host) else { return Ok(false) };
            if is_new {
                entry.certificates.clear();
            }
            entry.certificates.push(Certificate { digest, expires_s });
            let surplus = entry.certificates.len().saturating_sub(CERTIFICATES_MAX);
            entry.certificates.drain(..surplus);
            Ok(true)
        })
    }

    /// Returns the host with this certificate, if it is listed and has not expired.
    pub fn host_of(&mut self, certificate: &[u8], now_s: u64) -> Option<String> {
        if let Err(error) = self.refresh() {
            tracing::error!(%error, "the list of hosts can't be read: agents are refused");
            return None;
        }
        let digest = digest(certificate);
        let has = |host: &Host| {
            let mut valid = host.certificates.iter().filter(|found| now_s < found.expires_s);
            valid.any(|found| found.digest == digest)
        };
        self.hosts.iter().find(|(_, host)| has(host)).map(|(name, _)| name.clone())
    }

    /// Removes a host. Returns whether there was one.
    pub fn forget(&mut self, host: &str) -> Result<bool, AgentError> {
        self.change(|hosts| Ok(hosts.remove(host).is_some()))
    }

    /// Returns the names of all hosts, and whether each has a certificate.
    pub fn hosts(&mut self) -> Result<Vec<(String, bool)>, AgentError> {
        self.refresh()?;
        let hosts = self.hosts.iter();
        Ok(hosts.map(|(name, host)| (name.clone(), !host.certificates.is_empty())).collect())
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
        assert!(!registry.add_certificate("h1", b"x", 100, true).unwrap(), "there is no h1");
        registry.set_token("h1", b"secret", 100).unwrap();
        for certificate in [b"a", b"b", b"c"] {
            registry.add_certificate("h1", certificate, 100, false).unwrap();
        }
        let valid = |registry: &mut Registry| {
            [b"a", b"b", b"c", b"d"].map(|found| registry.host_of(found, 99).is_some())
        };
        assert_eq!(valid(&mut registry), [false, true, true, false]);
        assert_eq!(registry.host_of(b"c", 100), None);
        registry.add_certificate("h1", b"d", 100, true).unwrap();
        assert_eq!(valid(&mut registry), [false, false, false, true]);
        assert!(registry.forget("h1").unwrap());
        assert_eq!(valid(&mut registry), [false; 4]);
    }

    #[test]
    fn change_of_another_process_is_seen_and_kept() {
        let folder = tempfile::tempdir().unwrap();
        let mut first = Registry::open(folder.path()).unwrap();
        let mut second = Registry::open(folder.path()).unwrap();
        first.set_token("h1", b"a", 100).unwrap();
        second.set_token("h2", b"b", 100).unwrap();
        assert_eq!(first.redeem(b"b", 1).unwrap().as_deref(), Some("h2"));
        first.add_certificate("h2", b"c", 100, true).unwrap();
        assert!(second.forget("h2").unwrap());
        assert_eq!(first.host_of(b"c", 1), None);
        assert_eq!(first.hosts().unwrap(), [("h1".to_owned(), false)]);
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
