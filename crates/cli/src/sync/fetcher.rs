//! Verifies state vectors and fetches publications, in threads with connections of their own, so
//! that a publication that can't be had delays neither Sync Interests nor answers.
//!
//! One thread verifies; the others have the members by their names, so that the publications of a
//! member stay in order, and one that can't be reached delays only a part of the others.

use crate::args::flags::RouterArgs;
use crate::connect::connect_with_retry;
use crate::signals::StopFlag;
use anyhow::Result;
use core::fmt;
use core::time::Duration;
use nw_app::object::version_in_metadata;
use nw_app::packet::{PacketError, RetryPolicy, fetch_packet, verify};
use nw_app::sync::{SEGMENTS_MAX, StateVector, SyncUpdate};
use nw_app::sync::{is_vector_name, publication_name, snapshot_name};
use nw_app::verify::Verifier;
use nw_app::{Client, ClientError};
use nw_name::convention::{Kind, METADATA};
use nw_name::{Name, NameRef};
use nw_wire::{Data, InterestBuilder};
use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Threads that fetch.
const FETCHING: usize = 3;
/// Updates that wait for a thread at most.
const UPDATES_MAX: usize = 1024;
/// State vectors that wait at most; further ones are dropped, as the next one has all of them.
const VECTORS_MAX: usize = 64;
/// Outcomes that wait at most; then the threads wait.
const OUTCOMES_MAX: usize = 256;
/// Failed publications in a row after which the rest of an update is given up.
const FAILURES_MAX: u64 = 3;
/// How long a packet of a publication is asked for.
const TIMEOUT: Duration = Duration::from_secs(3);

/// What a thread does.
enum Job {
    /// Verify the Data of a Sync Interest.
    Vector(Vec<u8>),
    /// Fetch publications.
    Fetch(SyncUpdate),
}

/// What was found.
pub enum Outcome {
    /// A verified state vector.
    Vector(StateVector),
    /// A verified publication.
    Publication(Publication),
    /// Publications that could not be fetched.
    Missing(Missing),
    /// Data of a Sync Interest that was refused.
    Refused(String),
}

/// Publications that could not be fetched.
pub struct Missing {
    /// The member.
    pub member: Name,
    /// Number of the first one.
    pub first: u64,
    /// Number of the last one.
    pub last: u64,
    /// Why it could not be fetched.
    pub why: String,
    /// Whether it was received and did not pass verification.
    pub is_refused: bool,
}

impl Missing {
    /// Returns how many they are.
    pub const fn count(&self) -> u64 {
        (self.last - self.first).saturating_add(1)
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Missing { member, first, last, why, is_refused } = self;
        let state = if *is_refused { "refused" } else { "missing" };
        match first == last {
            true => write!(f, "publication {first} of {member} is {state}: {why}"),
            false => write!(f, "publications {first} to {last} of {member} are {state}: {why}"),
        }
    }
}

/// Why a packet could not be fetched.
struct Fault {
    why: String,
    is_refused: bool,
}

/// A publication of a member.
pub struct Publication {
    /// The member.
    pub member: Name,
    /// When it started, seconds since 1970.
    pub boot_s: u64,
    /// Number of the publication.
    pub number: u64,
    /// Whether it is a snapshot, which stands for all publications up to the number.
    pub is_snapshot: bool,
    /// The bytes.
    pub content: Vec<u8>,
}

/// The threads.
pub struct Fetcher {
    vectors: SyncSender<Job>,
    updates: Vec<SyncSender<Job>>,
    pub outcomes: Receiver<Outcome>,
}

/// What is in a thread.
struct Worker {
    client: Client,
    verifier: Verifier,
    group: Name,
    outcomes: SyncSender<Outcome>,
    /// Numbers of the last snapshots, by member and start. As many as state vectors have.
    snapshots: BTreeMap<(Name, u64), u64>,
}

impl Fetcher {
    /// Starts the threads. Each gets a verifier of its own.
    pub fn start(
        router: &RouterArgs,
        verifier: impl Fn() -> Result<Verifier>,
        group: &Name,
        stop: &StopFlag,
    ) -> Result<Self> {
        let (outcomes, found) = sync_channel(OUTCOMES_MAX);
        let start = |jobs_max: usize| {
            let mut client = connect_with_retry(router, false)?;
            client.stop_when(stop.flag());
            let (verifier, outcomes, group) = (verifier()?, outcomes.clone(), group.clone());
            let (jobs, queue) = sync_channel(jobs_max);
            let snapshots = BTreeMap::new();
            let mut worker = Worker { client, verifier, group, outcomes, snapshots };
            std::thread::Builder::new().name("nw-sync".into()).spawn(move || {
                // Ends with the program: when the flag is set or the other end is gone.
                while let Ok(job) = queue.recv() {
                    if let Err(error) = worker.carry_out(job) {
                        return tracing::debug!(%error, "no more publications are fetched");
                    }
                }
            })?;
            anyhow::Ok(jobs)
        };
        let updates = (0..FETCHING).map(|_| start(UPDATES_MAX)).collect::<Result<Vec<_>>>()?;
        Ok(Fetcher { vectors: start(VECTORS_MAX)?, updates, outcomes: found })
    }

    /// Verifies the Data of a Sync Interest.
    pub fn verify(&self, data: Vec<u8>) {
        if self.vectors.try_send(Job::Vector(data)).is_err() {
            tracing::debug!("a state vector is dropped: too many wait");
        }
    }

    /// Fetches publications. Returns false if too many updates wait.
    pub fn fetch(&self, update: SyncUpdate) -> bool {
        let bytes = update.name.as_ref().as_bytes().iter();
        let sum = bytes.fold(0_usize, |sum, byte| sum.wrapping_mul(31) + usize::from(*byte));
        self.updates[sum % self.updates.len()].try_send(Job::Fetch(update)).is_ok()
    }
}

impl Worker {
    fn carry_out(&mut self, job: Job) -> Result<(), ClientError> {
        match job {
            Job::Vector(wire) => {
                let Ok(data) = Data::check(&wire) else { return Ok(()) };
                let outcome = self.verify_vector(&data)?;
                self.report(outcome);
                Ok(())
            }
            Job::Fetch(update) => self.fetch(update),
        }
    }

    /// Verifies the Data of a Sync Interest. Its name is a part of that: else whatever a trusted
    /// key signs, as for another group, could be sent as a state vector.
    fn verify_vector(&mut self, data: &Data<'_>) -> Result<Outcome, ClientError> {
        if !is_vector_name(&self.group, data.name()) {
            let (name, group) = (data.name(), &self.group);
            return Ok(Outcome::Refused(format!("{name}: not the name of a vector of {group}")));
        }
        Ok(match verify(&mut self.client, &mut self.verifier, data)? {
            Err(why) => Outcome::Refused(format!("{}: {why}", data.name())),
            Ok(_) => match StateVector::decode(data.content()) {
                Some(vector) => Outcome::Vector(vector),
                None => Outcome::Refused(format!("{}: no state vector", data.name())),
            },
        })
    }

    fn report(&self, outcome: Outcome) {
        // Without a receiver the program ends.
        let _ = self.outcomes.send(outcome);
    }

    /// Fetches publications. Where one can't be had, the member's newest snapshot stands for those
    /// up to its number.
    fn fetch(&mut self, update: SyncUpdate) -> Result<(), ClientError> {
        let SyncUpdate { name: member, boot_s, first, last } = update;
        let known = self.snapshots.get(&(member.clone(), boot_s));
        let mut number = known.map_or(first, |known| first.max(known.saturating_add(1)));
        let (mut failures, mut has_asked) = (0, false);
        while number <= last {
            let name = publication_name(&self.group, &member, boot_s, number);
            let object = name.as_ref().parent().map_or_else(Name::new, NameRef::to_name);
            let done = match self.fetch_object(&object)? {
                Ok(content) => {
                    failures = 0;
                    self.report_publication(&member, boot_s, number, false, content);
                    number
                }
                Err(fault) => {
                    failures += 1;
                    let snapshot = match core::mem::replace(&mut has_asked, true) {
                        true => None,
                        false => self.fetch_snapshot(&member, boot_s)?,
                    };
                    match snapshot.filter(|(newest, _)| *newest >= number) {
                        Some(snapshot) => {
                            self.report_snapshot(&member, boot_s, number, fault, snapshot)
                        }
                        None => self.give_up(&member, number, last, failures, fault),
                    }
                }
            };
            if done >= last {
                break;
            }
            number = done + 1;
        }
        Ok(())
    }

    /// Reports a snapshot in place of the publication `number`, which could not be fetched, and
    /// those after it. Returns the number of the snapshot.
    fn report_snapshot(
        &mut self,
        member: &Name,
        boot_s: u64,
        number: u64,
        fault: Fault,
        (newest, content): (u64, Vec<u8>),
    ) -> u64 {
        let mut first = number;
        if newest > number && fault.is_refused {
            self.report_missing(member, number, number, fault);
            first += 1;
        }
        if newest > first {
            let why = "a snapshot stands for them".to_owned();
            self.report_missing(member, first, newest - 1, Fault { why, is_refused: false });
        }
        self.snapshots.insert((member.clone(), boot_s), newest);
        self.report_publication(member, boot_s, newest, true, content);
        newest
    }

    /// Reports a publication that could not be fetched, and all up to `last` if others before it
    /// could not be fetched either. Returns the last number that was reported.
    fn give_up(&self, member: &Name, number: u64, last: u64, failures: u64, fault: Fault) -> u64 {
        let why = format!("the {FAILURES_MAX} before them could not be fetched: {}", fault.why);
        self.report_missing(member, number, number, fault);
        if failures < FAILURES_MAX || number >= last {
            return number;
        }
        self.report_missing(member, number + 1, last, Fault { why, is_refused: false });
        last
    }

    fn report_missing(&self, member: &Name, first: u64, last: u64, fault: Fault) {
        let Fault { why, is_refused } = fault;
        let member = member.clone();
        self.report(Outcome::Missing(Missing { member, first, last, why, is_refused }));
    }

    fn report_publication(
        &self,
        member: &Name,
        boot_s: u64,
        number: u64,
        is_snapshot: bool,
        content: Vec<u8>,
    ) {
        let member = member.clone();
        let publication = Publication { member, boot_s, number, is_snapshot, content };
        self.report(Outcome::Publication(publication));
    }

    /// Fetches the newest snapshot of a member: its number and content. `None` if there is none.
    fn fetch_snapshot(
        &mut self,
        member: &Name,
        boot_s: u64,
    ) -> Result<Option<(u64, Vec<u8>)>, ClientError> {
        let base = snapshot_name(&self.group, member, boot_s);
        let interest = InterestBuilder::new(base.clone().with(METADATA));
        let interest = interest.can_be_prefix(true).must_be_fresh(true);
        let Ok(wire) = self.fetch_packet(interest)? else { return Ok(None) };
        let content = Data::check(&wire).map_or(&[][..], |data| data.content());
        let Some(object) = version_in_metadata(base.as_ref(), content) else { return Ok(None) };
        let version = object.as_ref().component(-1);
        let Some(number) = version.and_then(|version| Kind::Version.number(version)) else {
            return Ok(None);
        };
        Ok(self.fetch_object(&object)?.ok().map(|content| (number, content)))
    }

    /// Fetches all segments of a publication or snapshot.
    fn fetch_object(&mut self, object: &Name) -> Result<Result<Vec<u8>, Fault>, ClientError> {
        let (mut content, mut last) = (Vec::new(), 0);
        for segment in 0..SEGMENTS_MAX {
            let interest = InterestBuilder::new(object.clone().with_segment(segment));
            let wire = match self.fetch_packet(interest)? {
                Ok(wire) => wire,
                Err(fault) => return Ok(Err(fault)),
            };
            let data = Data::check(&wire).expect("checked on reception");
            content.extend_from_slice(data.content());
            last = data.final_block().and_then(|last| Kind::Segment.number(last)).unwrap_or(last);
            if segment >= last {
                return Ok(Ok(content));
            }
        }
        let why = format!("it has more than {SEGMENTS_MAX} segments: nw cat --no-version {object}");
        Ok(Err(Fault { why, is_refused: false }))
    }

    fn fetch_packet(
        &mut self,
        interest: InterestBuilder,
    ) -> Result<Result<Vec<u8>, Fault>, ClientError> {
        let policy =
            RetryPolicy { no_route_timeout: Duration::ZERO, ..RetryPolicy::within(TIMEOUT) };
        match fetch_packet(&mut self.client, interest, &mut self.verifier, policy) {
            Ok((wire, _)) => Ok(Ok(wire)),
            Err(PacketError::Client(error)) => Err(error),
            Err(error) => {
                let is_refused = matches!(error, PacketError::Invalid { .. });
                Ok(Err(Fault { why: error.to_string(), is_refused }))
            }
        }
    }
}
