//! Commands that wait for certificates, and the certificates asked for. A pure machine: time comes in, names to ask for go out.
//!
//! Bounded: [`WAITING_MAX`] commands, [`FETCHES_MAX`] certificates at one time, [`FETCH_MS`] for each certificate, [`WAIT_MS_MAX`] (and no longer
//! than the Interest lives) for a command with its whole chain. Remote and local faces have places of their own. When the places are used up, the
//! peer with most of them gives way: of its faces the one with most, and of that face the oldest. A face has [`WAITING_PER_FACE_MAX`] at most.

use crate::command::Refusal;
use crate::peer::Peer;
use nw_name::{Name, NameRef};
use nw_wire::{Interest, sha256};
use std::collections::{BTreeMap, VecDeque};

/// Certificates asked for at one time.
pub const FETCHES_MAX: usize = 64;
/// Commands that wait.
pub const WAITING_MAX: usize = 128;
/// A quarter of all places is for faces of this machine.
const LOCAL_PART: usize = 4;
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
    /// Ask this face and no other: a signer may have no other way to serve its certificate. `None`: forwarded as any Interest.
    pub face: Option<u64>,
}

/// The face that a command or announcement came by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// The face.
    pub face: u64,
    /// True when that face is of this machine.
    pub local: bool,
    /// The peer whose share is used.
    pub peer: Peer,
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

/// How often places were used up, so that something gave way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FetchShortages {
    /// Places for commands.
    pub commands: u64,
    /// Places for certificates.
    pub certificates: u64,
}

#[derive(Debug)]
struct Waiting {
    interest: Vec<u8>,
    source: Source,
    needs: Name,
    until_ms: u64,
}

/// A certificate that was asked for.
#[derive(Clone, Copy, Debug)]
struct Pending {
    /// The source whose share it uses: the first that wanted it, or another that waits for it once that gave way.
    source: Source,
    /// True when no command waits for it.
    wanted: bool,
    /// Smaller for older ones.
    order: u64,
    until_ms: u64,
}

/// A command on its way back to be decided.
#[derive(Debug)]
struct Resumed {
    ready: Ready,
    until_ms: u64,
    /// It gave way to others.
    evicted: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub struct Fetcher {
    asks: VecDeque<Ask>,
    pending: BTreeMap<Name, Pending>,
    begun: u64,
    /// By name and the face whose command wanted it: what one face is answered keeps no other from trying.
    failed: BTreeMap<(Name, u64), u64>,
    /// The oldest first.
    waiting: Vec<Waiting>,
    ready: VecDeque<Resumed>,
    /// The command handed out last, until when it may wait in all, and whether it gave way.
    resumed: Option<([u8; 32], u64, bool)>,
    shortages: FetchShortages,
}

impl Fetcher {
    /// Keeps a command until the certificate `needs` is there or can't be had.
    ///
    /// # Errors
    /// [`Refusal::CertificateMissing`] when it could not be had just now, [`Refusal::TooManyWaiting`].
    pub fn wait(
        &mut self,
        interest: &Interest<'_>,
        source: Source,
        needs: NameRef<'_>,
        now_ms: u64,
    ) -> Result<(), Refusal> {
        let (face, local) = (source.face, source.local);
        let until_ms = match self.resumed.take() {
            Some((digest, until_ms, evicted)) if digest == sha256(&[interest.wire()]) => {
                if evicted {
                    return Err(Refusal::TooManyWaiting);
                }
                until_ms
            }
            _ => now_ms.saturating_add(interest.lifetime_ms().min(WAIT_MS_MAX)),
        };
        self.check_failed(needs, face, now_ms)?;
        if self.waiting.iter().filter(|waiting| waiting.source.face == face).count() >= WAITING_PER_FACE_MAX {
            return Err(Refusal::TooManyWaiting);
        }
        while self.waiting.iter().filter(|waiting| waiting.source.local == local).count()
            >= places(WAITING_MAX, local)
        {
            self.shortages.commands += 1;
            self.evict_command(local);
        }
        let is_pending = self.pending.contains_key(needs.as_bytes());
        if !is_pending {
            self.begin(needs, source, false, now_ms);
        }
        let asked =
            self.waiting.iter().any(|other| other.source.face == face && other.needs.as_ref() == needs);
        if !is_pending || !asked {
            self.asks.push_back(Ask { name: needs.to_name(), face: Some(face) });
        }
        if let Some(pending) = self.pending.get_mut(needs.as_bytes()) {
            pending.wanted = false;
        }
        let interest = interest.wire().to_vec();
        self.waiting.push(Waiting { interest, source, needs: needs.to_name(), until_ms });
        Ok(())
    }

    /// Asks for a certificate that no command waits for.
    ///
    /// # Errors
    /// [`Refusal::CertificateMissing`] when it could not be had just now.
    pub fn want(&mut self, needs: NameRef<'_>, source: Source, now_ms: u64) -> Result<(), Refusal> {
        self.check_failed(needs, source.face, now_ms)?;
        if self.pending.contains_key(needs.as_bytes()) {
            return Ok(());
        }
        self.begin(needs, source, true, now_ms);
        self.asks.push_back(Ask { name: needs.to_name(), face: Some(source.face) });
        Ok(())
    }

    /// The next certificate to ask for.
    pub fn next_ask(&mut self) -> Option<Ask> {
        while let Some(ask) = self.asks.pop_front() {
            if self.pending.contains_key(&ask.name) {
                return Some(ask);
            }
        }
        None
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
        for waiting in self.waiting.extract_if(.., |waiting| waiting.needs == *name).collect::<Vec<_>>() {
            if failed {
                self.fail(name, waiting.source.face, now_ms);
            }
            self.ready.push_back(waiting.resume(false));
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
        let Resumed { ready, until_ms, evicted } = self.ready.pop_front()?;
        self.resumed = Some((sha256(&[&ready.interest]), until_ms, evicted));
        Some(ready)
    }

    /// When [`on_timeout`](Self::on_timeout) is to be called, on the clock that was passed in.
    pub fn next_timeout_ms(&self) -> Option<u64> {
        let waiting = self.waiting.iter().map(|waiting| waiting.until_ms);
        self.pending.values().map(|pending| pending.until_ms).chain(waiting).min()
    }

    /// Gives up certificates that took too long, and forgets commands whose Interest is over.
    pub fn on_timeout(&mut self, now_ms: u64) {
        self.waiting.retain(|waiting| now_ms < waiting.until_ms);
        self.failed.retain(|_, until_ms| now_ms < *until_ms);
        let late = self.pending.iter().filter(|(_, pending)| pending.until_ms <= now_ms);
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

    /// Returns how often places were used up.
    pub const fn shortages(&self) -> FetchShortages {
        self.shortages
    }

    fn check_failed(&self, needs: NameRef<'_>, face: u64, now_ms: u64) -> Result<(), Refusal> {
        let failed = self.failed.get(&(needs.to_name(), face)).is_some_and(|until_ms| now_ms < *until_ms);
        if failed { Err(Refusal::CertificateMissing) } else { Ok(()) }
    }

    /// Asks the network for a certificate, on the share of `source`. Those that no command waits for have half of the places.
    fn begin(&mut self, needs: NameRef<'_>, source: Source, wanted: bool, now_ms: u64) {
        let local = source.local;
        let of_kind = |pending: &Pending| pending.source.local == local && (!wanted || pending.wanted);
        let max = places(FETCHES_MAX, local) / if wanted { 2 } else { 1 };
        while self.pending.values().filter(|pending| of_kind(pending)).count() >= max {
            self.shortages.certificates += 1;
            self.evict_certificate(of_kind);
        }
        let until_ms = now_ms.saturating_add(FETCH_MS);
        self.begun += 1;
        self.pending.insert(needs.to_name(), Pending { source, wanted, order: self.begun, until_ms });
        // The network first: were it last and without a route, it would end the entry that the face is to answer.
        self.asks.push_back(Ask { name: needs.to_name(), face: None });
    }

    /// Refuses the oldest command of the face with most, of the peer with most.
    fn evict_command(&mut self, local: bool) {
        let sources = self.waiting.iter().map(|waiting| waiting.source).filter(|from| from.local == local);
        let Some(face) = face_with_most(sources) else { return };
        if let Some(at) = self.waiting.iter().position(|waiting| waiting.source.face == face) {
            let evicted = self.waiting.remove(at).resume(true);
            self.refuse(evicted);
        }
    }

    /// Gives up the oldest certificate of the face with most, of the peer with most, and refuses the commands of that face that wait for it. If
    /// others wait for it as well it uses the share of the first of these.
    fn evict_certificate(&mut self, of_kind: impl Fn(&Pending) -> bool) {
        let sources = self.pending.values().filter(|pending| of_kind(pending)).map(|pending| pending.source);
        let Some(face) = face_with_most(sources) else { return };
        let own = self.pending.iter().filter(|(_, pending)| pending.source.face == face && of_kind(pending));
        let Some(name) = own.min_by_key(|(_, pending)| pending.order).map(|(name, _)| name.clone()) else {
            return;
        };
        let gives_way = |waiting: &mut Waiting| waiting.source.face == face && waiting.needs == name;
        for waiting in self.waiting.extract_if(.., gives_way).collect::<Vec<_>>() {
            self.refuse(waiting.resume(true));
        }
        let other = self.waiting.iter().find(|waiting| waiting.needs == name).map(|waiting| waiting.source);
        match (other, self.pending.get_mut(&name)) {
            (Some(source), Some(pending)) => pending.source = source,
            _ => drop(self.pending.remove(&name)),
        }
    }

    /// Passes a command in once more so that its refusal is answered. Under a flood some are not.
    fn refuse(&mut self, evicted: Resumed) {
        if self.ready.len() < WAITING_MAX {
            self.ready.push_back(evicted);
        }
    }
}

impl Waiting {
    fn resume(self, evicted: bool) -> Resumed {
        let Waiting { interest, source, until_ms, .. } = self;
        let ready = Ready { interest, face: source.face, local: source.local };
        Resumed { ready, until_ms, evicted }
    }
}

const fn places(all: usize, local: bool) -> usize {
    if local { all / LOCAL_PART } else { all - all / LOCAL_PART }
}

/// The face with most places, of the peer with most.
fn face_with_most(sources: impl Iterator<Item = Source> + Clone) -> Option<u64> {
    let mut peers = BTreeMap::new();
    sources.clone().for_each(|source| *peers.entry(source.peer).or_insert(0usize) += 1);
    let peer = peers.into_iter().max_by_key(|(_, count)| *count)?.0;
    let mut faces = BTreeMap::new();
    let of_peer = sources.filter(|source| source.peer == peer);
    of_peer.for_each(|source| *faces.entry(source.face).or_insert(0usize) += 1);
    faces.into_iter().max_by_key(|(_, count)| *count).map(|(face, _)| face)
}
