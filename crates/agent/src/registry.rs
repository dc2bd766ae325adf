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
    /// The group by whose token it enrolled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    group: Option<String>,
}

impl Host {
    fn is_of(&self, group: &str) -> bool {
        self.group.as_deref() == Some(group)
    }

    fn has_valid_certificate(&self, now_s: u64) -> bool {
        self.certificates.iter().any(|found| now_s < found.expires_s)
    }
}

#[derive(Serialize, Deserialize)]
struct Token {
    digest: String,
    expires_s: u64,
    #[serde(default)]
    is_used: bool,
}

/// What became of an attempt to redeem a token.
#[derive(Debug, PartialEq, Eq)]
pub enum Redemption {
    /// The host may have a certificate.
    Valid(String),
    /// It was redeemed before.
    Used(String),
    /// Its time is over.
    Expired(String),
    /// No host has it.
    Unknown,
}

/// What became of an attempt to enrol in a group.
#[derive(Debug, PartialEq, Eq)]
pub enum Admission {
    /// The host may have a certificate.
    Admitted,
    /// The name is that of a host outside the group.
    Taken,
    /// There are as many hosts as there may be.
    Full,
}

#[derive(Serialize, Deserialize)]
struct Certificate {
    digest: String,
    expires_s: u64,
}

/// Returns whether a host can have this name.
pub fn is_host_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    (1..=NAME_LEN_MAX).contains(&name.len()) && name.bytes().all(plain)
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
    /// Certificates that the host has stay valid; if it was in a group, it is so no more.
    pub fn set_token(
        &mut self,
        host: &str,
        secret: &[u8],
        expires_s: u64,
    ) -> Result<(), AgentError> {
        if !is_host_name(host) {
            return Err(AgentError::HostName(host.chars().take(NAME_LEN_MAX).collect()));
        }
        let token = Token { digest: digest(secret), expires_s, is_used: false };
        self.change(|hosts| {
            if hosts.len() >= HOSTS_MAX && !hosts.contains_key(host) {
                return Err(AgentError::HostsMax);
            }
            let entry = hosts.entry(host.to_owned()).or_default();
            (entry.token, entry.group) = (Some(token), None);
            Ok(())
        })
    }

    /// Lists a host as one of a group with at most `hosts_max` hosts. Hosts of the group whose
    /// certificates have expired are removed.
    pub fn admit(
        &mut self,
        host: &str,
        group: &str,
        hosts_max: usize,
        now_s: u64,
    ) -> Result<Admission, AgentError> {
        self.refresh()?;
        if self.hosts.get(host).is_some_and(|found| !found.is_of(group)) {
            return Ok(Admission::Taken);
        }
        self.change(|hosts| {
            hosts.retain(|name, found| {
                name == host || !found.is_of(group) || found.has_valid_certificate(now_s)
            });
            let others = hosts.iter().filter(|(name, found)| *name != host && found.is_of(group));
            let is_new = !hosts.contains_key(host);
            if others.count() >= hosts_max || is_new && hosts.len() >= HOSTS_MAX {
                return Ok(Admission::Full);
            }
            let entry = hosts.entry(host.to_owned()).or_default();
            // Another process may have added it meanwhile.
            if is_new {
                entry.group = Some(group.to_owned());
            }
            Ok(if entry.is_of(group) { Admission::Admitted } else { Admission::Taken })
        })
    }

    /// Returns the group of a host.
    pub fn group_of(&self, host: &str) -> Option<String> {
        self.hosts.get(host)?.group.clone()
    }

    /// Returns the number of a group's hosts with a certificate in force.
    pub fn group_size(&mut self, group: &str, now_s: u64) -> Result<usize, AgentError> {
        self.refresh()?;
        let is_there = |host: &&Host| host.is_of(group) && host.has_valid_certificate(now_s);
        Ok(self.hosts.values().filter(is_there).count())
    }

    /// Removes all hosts of a group. Returns their number.
    pub fn forget_group(&mut self, group: &str) -> Result<usize, AgentError> {
        self.change(|hosts| {
            let before = hosts.len();
            hosts.retain(|_, host| !host.is_of(group));
            Ok(before - hosts.len())
        })
    }

    /// Redeems a token: valid once, and before it expires. That it is used is written before a
    /// certificate is given out, so that a token is never redeemed twice.
    pub fn redeem(&mut self, secret: &[u8], now_s: u64) -> Result<Redemption, AgentError> {
        let digest = digest(secret);
        let is_it = |host: &Host| host.token.as_ref().is_some_and(|token| token.digest == digest);
        self.refresh()?;
        if !self.hosts.values().any(is_it) {
            return Ok(Redemption::Unknown);
        }
        self.change(|hosts| {
            let found = hosts.iter_mut().find(|(_, host)| is_it(host));
            let found = found.and_then(|(name, host)| Some((name.clone(), host.token.as_mut()?)));
            let Some((name, token)) = found else { return Ok(Redemption::Unknown) };
            if token.is_used {
                return Ok(Redemption::Used(name));
            }
            if now_s >= token.expires_s {
                return Ok(Redemption::Expired(name));
            }
            token.is_used = true;
            Ok(Redemption::Valid(name))
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
        let name = "h1".to_owned();
        assert_eq!(registry.redeem(b"other", 50).unwrap(), Redemption::Unknown);
        assert_eq!(registry.redeem(b"secret", 50).unwrap(), Redemption::Valid(name.clone()));
        let mut registry = Registry::open(folder.path()).unwrap();
        assert_eq!(registry.redeem(b"secret", 50).unwrap(), Redemption::Used(name));
        let text = std::fs::read_to_string(folder.path().join("hosts.json")).unwrap();
        assert!(!text.contains("secret"));
    }

    #[test]
    fn expired_token_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let mut registry = Registry::open(folder.path()).unwrap();
        registry.set_token("h1", b"secret", 100).unwrap();
        let expired = Redemption::Expired("h1".to_owned());
        assert_eq!(registry.redeem(b"secret", 100).unwrap(), expired);
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
        assert_eq!(first.redeem(b"b", 1).unwrap(), Redemption::Valid("h2".to_owned()));
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
