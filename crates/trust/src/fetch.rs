//! Commands that wait for certificates, and the certificate requests sent for them.
//!
//! Sans-I/O: time is an argument, requests are returned by [`Fetcher::next_request`].
//!
//! Bounds: [`WAITING_MAX`] commands; [`FETCHES_MAX`] certificate requests at a time; [`FETCH_MS`]
//! for each certificate; [`WAIT_MS_MAX`] (and the Interest's lifetime) for a command with its whole
//! chain; [`WAITING_PER_FACE_MAX`] commands of one face.
//!
//! Remote and local faces have separate quotas. When a quota is used up, the oldest command of the
//! face with most commands, in the peer group with most commands, is evicted: so a flood from one
//! address can't lock others out.

use crate::command::Refusal;
use crate::peer_group::PeerGroup;
use nw_name::{Name, NameRef};
use nw_wire::{Interest, sha256};
use std::collections::{BTreeMap, VecDeque};

/// Maximum number of certificates requested at a time.
pub const FETCHES_MAX: usize = 64;
/// Maximum number of waiting commands.
pub const WAITING_MAX: usize = 128;
/// 1/n of each quota is reserved for faces of this machine.
const LOCAL_SHARE: usize = 4;
/// Maximum number of waiting commands of one face.
pub const WAITING_PER_FACE_MAX: usize = 8;
/// Time limit for a certificate, milliseconds.
pub const FETCH_MS: u64 = 4000;
/// Time limit for a command with its whole chain, milliseconds.
pub const WAIT_MS_MAX: u64 = 10_000;
/// How long a certificate is not requested again after a failure, milliseconds.
pub const FAILED_MS: u64 = 5000;
/// Maximum number of remembered failures.
const FAILED_MAX: usize = 256;

/// A certificate to request: CanBePrefix, MustBeFresh, lifetime [`FETCH_MS`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateRequest {
    /// The name of the certificate, or of its key.
    pub name: Name,
    /// Send the Interest to this face only, as a signer may serve its certificate on no other path.
    /// `None`: forward it like any Interest.
    pub face: Option<u64>,
}

/// The ingress face of a command or announcement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// The face's id.
    pub face: u64,
    /// True if the face connects to an application on this machine.
    pub local: bool,
    /// The group whose quota applies.
    pub peer: PeerGroup,
}

/// A command to be authorized again, as its certificate has arrived or failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadyCommand {
    /// The Interest's wire encoding.
    pub interest: Vec<u8>,
    /// The ingress face.
    pub face: u64,
    /// True if the face connects to an application on this machine.
    pub local: bool,
}

/// How often quotas were used up, so that something was evicted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FetchShortages {
    /// Evictions of waiting commands.
    pub commands: u64,
    /// Evictions of certificate requests.
    pub certificates: u64,
}

#[derive(Debug)]
struct WaitingCommand {
    interest: Vec<u8>,
    source: Source,
    certificate: Name,
    until_ms: u64,
}

/// A certificate requested from the network.
#[derive(Clone, Copy, Debug)]
struct PendingRequest {
    /// The source whose quota it uses: the first to request it, or after that one's eviction
    /// another that waits for it.
    source: Source,
    /// True if no command waits for it.
    is_background: bool,
    /// Sequence number of the request: smaller is older.
    order: u64,
    until_ms: u64,
}

/// A command to be authorized again.
#[derive(Debug)]
struct ResumedCommand {
    ready: ReadyCommand,
    until_ms: u64,
    /// True if it was evicted, and so will be refused.
    is_evicted: bool,
}

/// Keeps waiting commands and decides which certificates to request.
#[derive(Debug, Default)]
pub struct Fetcher {
    requests: VecDeque<CertificateRequest>,
    pending: BTreeMap<Name, PendingRequest>,
    started_count: u64,
    /// Failed certificates with the end of their pause, by name and the face of the command. Per
    /// face, so that a wrong answer to one face does not block others.
    failed: BTreeMap<(Name, u64), u64>,
    /// Oldest first.
    waiting: Vec<WaitingCommand>,
    ready: VecDeque<ResumedCommand>,
    /// The command returned last by `next_ready`: its digest, its time limit, whether it was
    /// evicted.
    resumed: Option<([u8; 32], u64, bool)>,
    shortages: FetchShortages,
}

impl Fetcher {
    /// Keeps a command until its certificate has arrived or failed, and requests that certificate.
    ///
    /// # Errors
    /// [`Refusal::CertificateMissing`] if the certificate failed recently;
    /// [`Refusal::TooManyWaiting`]
    /// if the face has too many waiting commands, or this command was evicted.
    pub fn wait(
        &mut self,
        interest: &Interest<'_>,
        source: Source,
        certificate: NameRef<'_>,
        now_ms: u64,
    ) -> Result<(), Refusal> {
        let (face, local) = (source.face, source.local);
        let until_ms = match self.resumed.take() {
            Some((digest, until_ms, is_evicted)) if digest == sha256(&[interest.wire()]) => {
                if is_evicted {
                    return Err(Refusal::TooManyWaiting);
                }
                until_ms
            }
            _ => now_ms.saturating_add(interest.lifetime_ms().min(WAIT_MS_MAX)),
        };
        self.check_failed(certificate, face, now_ms)?;
        if self.waiting.iter().filter(|waiting| waiting.source.face == face).count()
            >= WAITING_PER_FACE_MAX
        {
            return Err(Refusal::TooManyWaiting);
        }
        while self.waiting.iter().filter(|waiting| waiting.source.local == local).count()
            >= quota(WAITING_MAX, local)
        {
            self.shortages.commands += 1;
            self.evict_command(local);
        }
        let is_pending = self.pending.contains_key(certificate.as_bytes());
        if !is_pending {
            self.start(certificate, source, false, now_ms);
        }
        let is_requested_from_face = self.waiting.iter().any(|waiting| {
            waiting.source.face == face && waiting.certificate.as_ref() == certificate
        });
        if !is_pending || !is_requested_from_face {
            self.requests
                .push_back(CertificateRequest { name: certificate.to_name(), face: Some(face) });
        }
        if let Some(pending) = self.pending.get_mut(certificate.as_bytes()) {
            pending.is_background = false;
        }
        let interest = interest.wire().to_vec();
        self.waiting.push(WaitingCommand {
            interest,
            source,
            certificate: certificate.to_name(),
            until_ms,
        });
        Ok(())
    }

    /// Requests a certificate that no command waits for.
    ///
    /// # Errors
    /// [`Refusal::CertificateMissing`] if the certificate failed recently.
    pub fn request_in_background(
        &mut self,
        certificate: NameRef<'_>,
        source: Source,
        now_ms: u64,
    ) -> Result<(), Refusal> {
        self.check_failed(certificate, source.face, now_ms)?;
        if self.pending.contains_key(certificate.as_bytes()) {
            return Ok(());
        }
        self.start(certificate, source, true, now_ms);
        self.requests
            .push_back(CertificateRequest { name: certificate.to_name(), face: Some(source.face) });
        Ok(())
    }

    /// Returns the next certificate to request. Call until `None` after every other call.
    pub fn next_request(&mut self) -> Option<CertificateRequest> {
        while let Some(request) = self.requests.pop_front() {
            if self.pending.contains_key(&request.name) {
                return Some(request);
            }
        }
        None
    }

    /// Removes and returns the requested names that a Data of this name answers.
    pub fn take_answered(&mut self, data: NameRef<'_>) -> Vec<Name> {
        let answered = self.pending.keys().filter(|name| name.as_ref().is_prefix_of(data));
        let answered: Vec<Name> = answered.cloned().collect();
        answered.iter().for_each(|name| {
            self.pending.remove(name);
        });
        answered
    }

    /// Makes the commands that wait for this certificate ready: it has arrived, or has `failed`.
    pub fn resolve(&mut self, name: &Name, failed: bool, now_ms: u64) {
        for waiting in
            self.waiting.extract_if(.., |waiting| waiting.certificate == *name).collect::<Vec<_>>()
        {
            if failed {
                self.fail(name, waiting.source.face, now_ms);
            }
            self.ready.push_back(waiting.resume(false));
        }
    }

    /// Records that this certificate failed or is wrong: it is not requested again for commands of
    /// that face within [`FAILED_MS`].
    pub fn fail(&mut self, name: &Name, face: u64, now_ms: u64) {
        if self.failed.len() >= FAILED_MAX {
            let soonest = self.failed.iter().min_by_key(|(_, until_ms)| **until_ms);
            if let Some(soonest) = soonest.map(|(key, _)| key.clone()) {
                self.failed.remove(&soonest);
            }
        }
        self.failed.insert((name.clone(), face), now_ms.saturating_add(FAILED_MS));
    }

    /// Returns the next command to be authorized again.
    pub fn next_ready(&mut self) -> Option<ReadyCommand> {
        let ResumedCommand { ready, until_ms, is_evicted } = self.ready.pop_front()?;
        self.resumed = Some((sha256(&[&ready.interest]), until_ms, is_evicted));
        Some(ready)
    }

    /// Returns when to call [`on_timeout`](Self::on_timeout), on the caller's clock. May change
    /// after any other call.
    pub fn next_timeout_ms(&self) -> Option<u64> {
        let waiting = self.waiting.iter().map(|waiting| waiting.until_ms);
        self.pending.values().map(|pending| pending.until_ms).chain(waiting).min()
    }

    /// Fails certificate requests past their time limit, and drops expired commands.
    pub fn on_timeout(&mut self, now_ms: u64) {
        self.waiting.retain(|waiting| now_ms < waiting.until_ms);
        self.failed.retain(|_, until_ms| now_ms < *until_ms);
        let late = self.pending.iter().filter(|(_, pending)| pending.until_ms <= now_ms);
        let late: Vec<Name> = late.map(|(name, _)| name.clone()).collect();
        for name in late {
            self.pending.remove(&name);
            self.resolve(&name, true, now_ms);
        }
    }

    /// Returns the number of waiting commands.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Returns the number of requested certificates.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Returns how often quotas were used up.
    pub const fn shortages(&self) -> FetchShortages {
        self.shortages
    }

    fn check_failed(
        &self,
        certificate: NameRef<'_>,
        face: u64,
        now_ms: u64,
    ) -> Result<(), Refusal> {
        let failed = self
            .failed
            .get(&(certificate.to_name(), face))
            .is_some_and(|until_ms| now_ms < *until_ms);
        if failed { Err(Refusal::CertificateMissing) } else { Ok(()) }
    }

    /// Requests a certificate within the quota of `source`. Background requests have half of it.
    fn start(
        &mut self,
        certificate: NameRef<'_>,
        source: Source,
        is_background: bool,
        now_ms: u64,
    ) {
        let local = source.local;
        let same_quota = |pending: &PendingRequest| {
            pending.source.local == local && (!is_background || pending.is_background)
        };
        let max = quota(FETCHES_MAX, local) / if is_background { 2 } else { 1 };
        while self.pending.values().filter(|pending| same_quota(pending)).count() >= max {
            self.shortages.certificates += 1;
            self.evict_certificate(same_quota);
        }
        let until_ms = now_ms.saturating_add(FETCH_MS);
        self.started_count += 1;
        let pending = PendingRequest { source, is_background, order: self.started_count, until_ms };
        self.pending.insert(certificate.to_name(), pending);
        // Via the FIB first: without a route, its Nack would otherwise end the PIT entry that the
        // Interest to the face has created.
        self.requests.push_back(CertificateRequest { name: certificate.to_name(), face: None });
    }

    /// Evicts the oldest command of the face with most commands, in the group with most commands.
    fn evict_command(&mut self, local: bool) {
        let sources =
            self.waiting.iter().map(|waiting| waiting.source).filter(|from| from.local == local);
        let Some(face) = face_with_most(sources) else { return };
        if let Some(at) = self.waiting.iter().position(|waiting| waiting.source.face == face) {
            let evicted = self.waiting.remove(at).resume(true);
            self.refuse(evicted);
        }
    }

    /// Evicts the oldest certificate request of the face with most requests, in the group with most
    /// requests, and the commands of that face that wait for it. If others wait for it as well, the
    /// request stays and moves to the quota of the first of these.
    fn evict_certificate(&mut self, same_quota: impl Fn(&PendingRequest) -> bool) {
        let sources = self.pending.values().filter(|pending| same_quota(pending));
        let Some(face) = face_with_most(sources.map(|pending| pending.source)) else { return };
        let own = self
            .pending
            .iter()
            .filter(|(_, pending)| pending.source.face == face && same_quota(pending));
        let Some(name) = own.min_by_key(|(_, pending)| pending.order).map(|(name, _)| name.clone())
        else {
            return;
        };
        let is_victim = |waiting: &mut WaitingCommand| {
            waiting.source.face == face && waiting.certificate == name
        };
        for waiting in self.waiting.extract_if(.., is_victim).collect::<Vec<_>>() {
            self.refuse(waiting.resume(true));
        }
        let next_owner = self
            .waiting
            .iter()
            .find(|waiting| waiting.certificate == name)
            .map(|waiting| waiting.source);
        match (next_owner, self.pending.get_mut(&name)) {
            (Some(source), Some(pending)) => pending.source = source,
            _ => drop(self.pending.remove(&name)),
        }
    }

    /// Queues an evicted command, so that its refusal is answered; drops it if the queue is full.
    fn refuse(&mut self, evicted: ResumedCommand) {
        if self.ready.len() < WAITING_MAX {
            self.ready.push_back(evicted);
        }
    }
}

impl WaitingCommand {
    fn resume(self, is_evicted: bool) -> ResumedCommand {
        let WaitingCommand { interest, source, until_ms, .. } = self;
        let ready = ReadyCommand { interest, face: source.face, local: source.local };
        ResumedCommand { ready, until_ms, is_evicted }
    }
}

/// Returns the part of `total` that local or remote faces may use.
const fn quota(total: usize, local: bool) -> usize {
    if local { total / LOCAL_SHARE } else { total - total / LOCAL_SHARE }
}

/// Returns the face with most sources, in the peer group with most sources.
fn face_with_most(sources: impl Iterator<Item = Source> + Clone) -> Option<u64> {
    let mut peers = BTreeMap::new();
    sources.clone().for_each(|source| *peers.entry(source.peer).or_insert(0usize) += 1);
    let peer = peers.into_iter().max_by_key(|(_, count)| *count)?.0;
    let mut faces = BTreeMap::new();
    let of_peer = sources.filter(|source| source.peer == peer);
    of_peer.for_each(|source| *faces.entry(source.face).or_insert(0usize) += 1);
    faces.into_iter().max_by_key(|(_, count)| *count).map(|(face, _)| face)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names of certificates are chosen by those that send commands.
    #[test]
    fn full_table_of_failures_forgets_those_that_end_first() {
        let mut fetcher = Fetcher::default();
        let name = |at: u64| format!("/k/{at}").parse::<Name>().expect("a name");
        let count = 10 * FAILED_MAX as u64;
        for at in 0..count {
            fetcher.fail(&name(at), 1, at);
            assert!(fetcher.failed.len() <= FAILED_MAX);
        }
        let is_failed = |at| fetcher.check_failed(name(at).as_ref(), 1, count).is_err();
        let kept = count - FAILED_MAX as u64;
        assert!((0..kept).all(|at| !is_failed(at)) && (kept..count).all(is_failed));
    }
}
