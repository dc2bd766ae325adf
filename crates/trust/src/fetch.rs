//! Commands that wait for certificates, and the certificates asked for. A pure machine: time comes in, names to ask for go out.
//!
//! Bounded: [`FETCHES_MAX`] certificates at one time, [`WAITING_MAX`] commands, [`WAITING_PER_FACE_MAX`] of one face, [`FETCH_MS`] for each
//! certificate, [`WAIT_MS_MAX`] (and no longer than the Interest lives) for a command with its whole chain.

use crate::command::Refusal;
use nw_name::{Name, NameRef};
use nw_wire::{Interest, sha256};
use std::collections::{BTreeMap, VecDeque};

/// Certificates asked for at one time.
pub const FETCHES_MAX: usize = 64;
/// Certificates asked for at one time beyond which none is that no command waits for.
const WANTED_MAX: usize = FETCHES_MAX / 2;
/// Commands that wait.
pub const WAITING_MAX: usize = 128;
/// Commands of one face that wait.
pub const WAITING_PER_FACE_MAX: usize = 8;
/// How long a certificate may take, milliseconds.
pub const FETCH_MS: u64 = 4000;
/// How long a command may wait, milliseconds.
pub const WAIT_MS_MAX: u64 = 10_000;
/// How long a certificate that could not be had is not asked for again, milliseconds.
pub const FAILED_MS: u64 = 5000;
/// Names remembered that could not be had.
const FAILED_MAX: usize = 256;

/// A certificate to be asked for: CanBePrefix, MustBeFresh, lifetime [`FETCH_MS`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// The name, of a certificate or of a key.
    pub name: Name,
    /// Ask this face and no other: whoever commands may have nobody else to serve its certificate. `None`: forwarded as any Interest.
    pub face: Option<u64>,
}

/// A command to be decided once more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ready {
    /// The Interest.
    pub interest: Vec<u8>,
    /// The face it came by.
    pub face: u64,
    /// True when that face is of this machine.
    pub local: bool,
}

#[derive(Debug)]
struct Waiting {
    ready: Ready,
    needs: Name,
    until_ms: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Fetcher {
    asks: VecDeque<Ask>,
    /// Until when an answer may come.
    pending: BTreeMap<Name, u64>,
    /// By name and the face whose command wanted it: what one face is answered keeps no other from trying.
    failed: BTreeMap<(Name, u64), u64>,
    waiting: Vec<Waiting>,
    ready: VecDeque<(Ready, u64)>,
    /// The command handed out last, and until when it may wait in all.
    resumed: Option<([u8; 32], u64)>,
}

impl Fetcher {
    /// Keeps a command until the certificate `needs` is there or can't be had.
    ///
    /// # Errors
    /// [`Refusal::CertificateMissing`] when it could not be had just now, [`Refusal::TooManyWaiting`].
    pub fn wait(
        &mut self,
        interest: &Interest<'_>,
        face: u64,
        local: bool,
        needs: NameRef<'_>,
        now_ms: u64,
    ) -> Result<(), Refusal> {
        if self.failed.get(&(needs.to_name(), face)).is_some_and(|until_ms| now_ms < *until_ms) {
            return Err(Refusal::CertificateMissing);
        }
        let of_face = self.waiting.iter().filter(|waiting| waiting.ready.face == face).count();
        let is_pending = self.pending.contains_key(needs.as_bytes());
        if self.waiting.len() >= WAITING_MAX
            || of_face >= WAITING_PER_FACE_MAX
            || !is_pending && self.pending.len() >= FETCHES_MAX
        {
            return Err(Refusal::TooManyWaiting);
        }
        let until_ms = match self.resumed.take() {
            Some((digest, until_ms)) if digest == sha256(&[interest.wire()]) => until_ms,
            _ => now_ms.saturating_add(interest.lifetime_ms().min(WAIT_MS_MAX)),
        };
        if !is_pending {
            self.pending.insert(needs.to_name(), now_ms.saturating_add(FETCH_MS));
            // The network first: were it last and without a route, it would end the entry that the face is to answer.
            self.asks.push_back(Ask { name: needs.to_name(), face: None });
        }
        let asked =
            self.waiting.iter().any(|other| other.ready.face == face && other.needs.as_ref() == needs);
        if !is_pending || !asked {
            self.asks.push_back(Ask { name: needs.to_name(), face: Some(face) });
        }
        let ready = Ready { interest: interest.wire().to_vec(), face, local };
        self.waiting.push(Waiting { ready, needs: needs.to_name(), until_ms });
        Ok(())
    }

    /// Asks for a certificate that no command waits for.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub fn want(&mut self, needs: NameRef<'_>, face: u64, now_ms: u64) -> Result<(), Refusal> {
        if self.failed.get(&(needs.to_name(), face)).is_some_and(|until_ms| now_ms < *until_ms) {
            return Err(Refusal::CertificateMissing);
        }
        if self.pending.contains_key(needs.as_bytes()) {
            return Ok(());
        }
        if self.pending.len() >= WANTED_MAX {
            return Err(Refusal::TooManyWaiting);
        }
        self.pending.insert(needs.to_name(), now_ms.saturating_add(FETCH_MS));
        self.asks.push_back(Ask { name: needs.to_name(), face: None });
        self.asks.push_back(Ask { name: needs.to_name(), face: Some(face) });
        Ok(())
    }

    /// The next certificate to ask for.
    pub fn next_ask(&mut self) -> Option<Ask> {
        self.asks.pop_front()
    }

    /// The names asked for that a Data of this name answers: they are no longer pending.
    pub fn answered(&mut self, data: NameRef<'_>) -> Vec<Name> {
        let answered = self.pending.keys().filter(|name| name.as_ref().is_prefix_of(data));
        let answered: Vec<Name> = answered.cloned().collect();
        answered.iter().for_each(|name| {
            self.pending.remove(name);
        });
        answered
    }

    /// The certificate of this name has come, or (`failed`) will not: commands that wait for it are decided again.
    pub fn settle(&mut self, name: &Name, failed: bool, now_ms: u64) {
        let mut at = 0;
        while at < self.waiting.len() {
            if self.waiting[at].needs == *name {
                let waiting = self.waiting.remove(at);
                if failed {
                    self.fail(name, waiting.ready.face, now_ms);
                }
                self.ready.push_back((waiting.ready, waiting.until_ms));
            } else {
                at += 1;
            }
        }
    }

    /// The certificate of this name could not be had, or is wrong: it is not asked for again for a while on behalf of that face.
    pub fn fail(&mut self, name: &Name, face: u64, now_ms: u64) {
        if self.failed.len() >= FAILED_MAX {
            let soonest = self.failed.iter().min_by_key(|(_, until_ms)| **until_ms);
            if let Some(soonest) = soonest.map(|(key, _)| key.clone()) {
                self.failed.remove(&soonest);
            }
        }
        self.failed.insert((name.clone(), face), now_ms.saturating_add(FAILED_MS));
    }

    /// The next command to be decided once more.
    pub fn next_ready(&mut self) -> Option<Ready> {
        let (ready, until_ms) = self.ready.pop_front()?;
        self.resumed = Some((sha256(&[&ready.interest]), until_ms));
        Some(ready)
    }

    /// When [`on_timeout`](Self::on_timeout) is to be called, milliseconds since 1970.
    pub fn next_timeout_ms(&self) -> Option<u64> {
        let waiting = self.waiting.iter().map(|waiting| waiting.until_ms);
        self.pending.values().copied().chain(waiting).min()
    }

    /// Gives up certificates that took too long, and forgets commands whose Interest is over.
    pub fn on_timeout(&mut self, now_ms: u64) {
        self.waiting.retain(|waiting| now_ms < waiting.until_ms);
        self.failed.retain(|_, until_ms| now_ms < *until_ms);
        let late = self.pending.iter().filter(|(_, until_ms)| **until_ms <= now_ms);
        let late: Vec<Name> = late.map(|(name, _)| name.clone()).collect();
        for name in late {
            self.pending.remove(&name);
            self.settle(&name, true, now_ms);
        }
    }

    /// Commands that wait.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Certificates asked for.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }
}
