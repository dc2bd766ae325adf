//! Fetching a named object: finding its newest version, then all its segments, in order, in constant memory.

use crate::client::{Client, ClientError, Outgoing, Received};
use crate::fetch::{Answer, COPIES_MAX, FetchCounters, FetchError, FetchOptions, Fetcher};
use crate::packet::{Brought, PacketError, Patience, bring, certificate_interest, fetch_packet};
use crate::verify::{Finding, Invalid, Signer, Verifier, check_digest};
use core::time::Duration;
use hdrhistogram::Histogram;
use nw_element_api::{Instant, Kind, LinkFields};
use nw_name::tlv::{Integer, Reader, number_len, push_number, push_tlv};
use nw_name::{Name, NameRef, convention};
use nw_wire::{Data, InterestBuilder, NackReason, types};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;

/// How an object is fetched.
#[derive(Clone, Debug)]
pub struct ObjectOptions {
    /// Pace and patience.
    pub fetch: FetchOptions,
    /// InterestLifetime, milliseconds.
    pub lifetime_ms: u64,
    /// Ask `32=metadata` for the newest version first, unless the name ends in a version.
    pub discover_version: bool,
    /// Segments ask for fresh Data only.
    pub must_be_fresh: bool,
    /// An object of more bytes of content is refused; `None`: of any size.
    pub bytes_max: Option<u64>,
}

impl Default for ObjectOptions {
    fn default() -> Self {
        ObjectOptions {
            fetch: FetchOptions::default(),
            lifetime_ms: 4000,
            discover_version: true,
            must_be_fresh: false,
            bytes_max: None,
        }
    }
}

/// Why an object could not be fetched.
#[derive(Debug, thiserror::Error)]
pub enum ObjectError {
    /// The router can't be talked to.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// A segment did not come.
    #[error("{name}: {error}")]
    Fetch {
        /// Of what.
        name: Name,
        /// Which and why.
        error: FetchError,
    },
    /// Nobody told the version.
    #[error("nobody answers {0}/32=metadata: is the producer running, and does a route lead to it?")]
    NoMetadata(Name),
    /// The network refused the question for the version.
    #[error("{name}/32=metadata was refused with Nack({}): is there a route?", reason.as_str())]
    MetadataRefused {
        /// Of what.
        name: Name,
        /// Why.
        reason: NackReason,
    },
    /// The answer names nothing, or something else.
    #[error("the metadata of {0} names no version of it")]
    BadMetadata(Name),
    /// What came can't be written where it should go.
    #[error("can't write what was fetched")]
    Sink(#[from] io::Error),
    /// A packet did not pass verification.
    #[error("{name} is not accepted ({copies} copies tried): {why}")]
    Invalid {
        /// Which.
        name: Name,
        /// Number of copies that came.
        copies: u32,
        /// What is wrong with the last one.
        why: Invalid,
    },
    /// The producer says that there is no such thing.
    #[error("the producer says that it has no {0} (application Nack)")]
    ApplicationNack(Name),
    /// What is no content of an object.
    #[error("{name} is {what}, which is no content to write out (`nw peek --show tree` shows it)")]
    ContentType {
        /// Which packet.
        name: Name,
        /// What it is.
        what: String,
    },
    /// It is larger than is wanted.
    #[error("{name} has more than {bytes_max} bytes of content, the most that is wanted")]
    TooLarge {
        /// What.
        name: Name,
        /// How much is wanted.
        bytes_max: u64,
    },
    /// The connection was lost and could not be made again.
    #[error("the router went away and has not come back for {0} s")]
    Lost(u64),
}

impl ObjectError {
    /// What a Data means that is no blob.
    pub fn of_content_type(data: &Data<'_>) -> Self {
        use types::content_type as t;
        let name = data.name().to_name();
        let what = match data.content_type() {
            t::NACK => return ObjectError::ApplicationNack(name),
            t::LINK => "a Link (names to look under)".to_owned(),
            t::KEY => "a key or certificate".to_owned(),
            t::MANIFEST => "a manifest".to_owned(),
            t::PREFIX_ANNOUNCEMENT => "a prefix announcement".to_owned(),
            other => format!("of content type {other}"),
        };
        ObjectError::ContentType { name, what }
    }
}

/// What a fetch was like.
#[derive(Clone, Debug)]
pub struct ObjectReport {
    /// Name of the segments, without the segment number.
    pub name: Name,
    /// How many.
    pub segments: u64,
    /// Octets of content.
    pub bytes: u64,
    /// From the first Interest for a segment to the last Data.
    pub elapsed: Duration,
    /// Interests, retransmissions, marks, Nacks.
    pub counters: FetchCounters,
    /// Round-trip times in microseconds, of segments asked for once.
    pub rtt_us: Histogram<u64>,
    /// What is known of the signer of all segments.
    pub signer: Signer,
}

/// How far a fetch is.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Octets written so far.
    pub bytes: u64,
    /// Segments written so far.
    pub segments: u64,
    /// Of how many, once known.
    pub segments_total: Option<u64>,
}

/// Fetches `name` and hands its content, in order, to `sink`. `progress` is told after each turn. Digests are checked; see
/// [`fetch_object_verified`] for signatures.
///
/// # Errors
/// What did not come, or could not be written.
pub fn fetch_object(
    client: &mut Client,
    name: NameRef<'_>,
    options: &ObjectOptions,
    progress: impl FnMut(Progress),
    sink: impl FnMut(&[u8]) -> io::Result<()>,
) -> Result<ObjectReport, ObjectError> {
    fetch_object_verified(client, name, options, &mut Verifier::default(), progress, sink)
}

/// As [`fetch_object`]; only what `verifier` accepts is handed on, the packet that tells the version included.
///
/// # Errors
/// As [`fetch_object`], and what was not accepted.
pub fn fetch_object_verified(
    client: &mut Client,
    name: NameRef<'_>,
    options: &ObjectOptions,
    verifier: &mut Verifier,
    mut progress: impl FnMut(Progress),
    mut sink: impl FnMut(&[u8]) -> io::Result<()>,
) -> Result<ObjectReport, ObjectError> {
    let name = match options.discover_version && convention::version(name).is_none() {
        true => discover_version(client, name, verifier, options.fetch.patience)?,
        false => name.to_name(),
    };
    let started = client.now();
    let mut state = Download {
        fetcher: Fetcher::new(options.fetch.clone()),
        prefix: &name,
        options,
        verifier,
        signer: None,
        needs: BTreeMap::new(),
        unverified: VecDeque::new(),
        suspect: BTreeSet::new(),
        waiting: BTreeMap::new(),
        written: 0,
        bytes: 0,
        rtt_us: Histogram::new_with_bounds(1, 60_000_000, 3).expect("bounds that hdrhistogram allows"),
        nonce: started.as_nanos() as u32 ^ std::process::id().rotate_left(16),
        failed: None,
    };
    let mut connections = client.connections();
    while !state.is_done() {
        let now = client.now();
        if client.connections() != connections {
            connections = client.connections();
            state.fetcher.on_reconnect(now);
            state.needs.clear();
        }
        match client.lost_for() {
            None => state.ask(client, now)?,
            Some(lost) if lost > options.fetch.patience => return Err(ObjectError::Lost(lost.as_secs())),
            Some(_) => {}
        }
        let wait = state.fetcher.deadline().map_or(LOOK, |at| at.since(now));
        let wait = if state.needs.is_empty() && client.lost_for().is_none() { wait } else { wait.min(LOOK) };
        let wait = wait.max(Duration::from_micros(10));
        client.turn(Some(wait), |now, received, _: &mut Outgoing| state.take(now, received, &mut sink))?;
        state.verify_again(client.now(), &mut sink);
        if let Some(error) = state.failed.take() {
            return Err(error);
        }
        progress(Progress {
            bytes: state.bytes,
            segments: state.written,
            segments_total: state.fetcher.segments_total(),
        });
    }
    Ok(ObjectReport {
        segments: state.written,
        bytes: state.bytes,
        elapsed: client.now().since(started),
        counters: state.fetcher.counters(),
        rtt_us: state.rtt_us,
        signer: state.signer.unwrap_or(Signer::Digest),
        name,
    })
}

/// How often to look at what has no deadline of its own.
const LOOK: Duration = Duration::from_millis(100);
/// How long a certificate may take.
const CERTIFICATE_PATIENCE: Duration = Duration::from_secs(4);

struct Download<'a> {
    fetcher: Fetcher,
    prefix: &'a Name,
    options: &'a ObjectOptions,
    verifier: &'a mut Verifier,
    /// Of the segments accepted so far: the weakest statement.
    signer: Option<Signer>,
    /// Certificates that segments wait for, and when each was asked for; `None`: not yet.
    needs: BTreeMap<Name, Option<Instant>>,
    /// Packets that wait for a certificate; bounded by what the fetcher asks for.
    unverified: VecDeque<Unverified>,
    /// Segments of which a copy was not accepted: asked for fresh, so that caches are passed by.
    suspect: BTreeSet<u64>,
    /// Contents that came before one that they follow; bounded by the fetcher.
    waiting: BTreeMap<u64, Vec<u8>>,
    written: u64,
    bytes: u64,
    rtt_us: Histogram<u64>,
    nonce: u32,
    failed: Option<ObjectError>,
}

/// A segment that waits for a certificate.
struct Unverified {
    segment: u64,
    marked: bool,
    wire: Vec<u8>,
}

impl Download<'_> {
    fn is_done(&self) -> bool {
        self.fetcher.is_done() && self.unverified.is_empty()
    }

    /// Sends what is to be sent now.
    fn ask(&mut self, client: &mut Client, now: Instant) -> Result<(), ObjectError> {
        let mut interest = Vec::new();
        loop {
            let next = self.fetcher.next_request(now);
            let next = next.map_err(|error| ObjectError::Fetch { name: self.prefix.clone(), error })?;
            let Some(segment) = next else { break };
            interest.clear();
            self.write_interest(segment, &mut interest);
            client.send(&interest);
        }
        let late: Vec<Name> = self
            .needs
            .iter()
            .filter(|(_, sent)| sent.is_some_and(|at| now.since(at) >= CERTIFICATE_PATIENCE))
            .map(|(name, _)| name.clone())
            .collect();
        for name in late {
            self.needs.remove(&name);
            self.verifier.add_certificate(&name, None);
        }
        for (name, sent) in self.needs.iter_mut().filter(|(_, sent)| sent.is_none()) {
            *sent = Some(now);
            client.send(&certificate_interest(client, name));
        }
        Ok(())
    }

    /// The Interest for one segment, without the detours of a builder: this is sent a million times.
    fn write_interest(&mut self, segment: u64, out: &mut Vec<u8>) {
        // Distinct for 2^32 Interests, and not guessable in order: an odd multiplier permutes.
        self.nonce = self.nonce.wrapping_add(0x9e37_79b9);
        let prefix = self.prefix.as_ref().as_bytes();
        let number = Integer::new(segment);
        let lifetime = Integer::new(self.options.lifetime_ms);
        let name_len = prefix.len() + 2 + number.as_bytes().len();
        let must_be_fresh = self.options.must_be_fresh || self.suspect.contains(&segment);
        let fresh_len = if must_be_fresh { 2 } else { 0 };
        let body_len =
            1 + number_len(name_len as u64) + name_len + fresh_len + 6 + 2 + lifetime.as_bytes().len();
        push_number(u64::from(types::INTEREST), out);
        push_number(body_len as u64, out);
        push_number(u64::from(types::NAME), out);
        push_number(name_len as u64, out);
        out.extend_from_slice(prefix);
        push_tlv(u32::from(nw_name::ComponentType::SEGMENT.number()), number.as_bytes(), out);
        if must_be_fresh {
            push_tlv(types::MUST_BE_FRESH, &[], out);
        }
        push_tlv(types::NONCE, &self.nonce.wrapping_mul(0x85eb_ca6b).to_be_bytes(), out);
        push_tlv(types::INTEREST_LIFETIME, lifetime.as_bytes(), out);
    }

    fn take(&mut self, now: Instant, received: Received<'_>, sink: &mut impl FnMut(&[u8]) -> io::Result<()>) {
        if self.failed.is_some() || received.kind() == Kind::Interest {
            return;
        }
        let Some(segment) = self.segment_of(received.name()) else {
            return self.take_certificate(&received);
        };
        if received.kind() == Kind::Nack {
            if received.is_marked() {
                self.fetcher.on_marked_nack(now, segment);
            }
            return self.fetcher.on_nack(now, segment, received.nack().unwrap_or_default());
        }
        let Ok(data) = Data::check(received.wire) else { return };
        self.take_segment(now, segment, received.is_marked(), &data, sink);
    }

    fn take_segment(
        &mut self,
        now: Instant,
        segment: u64,
        marked: bool,
        data: &Data<'_>,
        sink: &mut impl FnMut(&[u8]) -> io::Result<()>,
    ) {
        if self.fetcher.is_wanted(segment) {
            match self.verifier.check(data) {
                Ok(Finding::Accepted(signer)) => self.note_signer(signer),
                Ok(Finding::Needs(name)) => {
                    self.needs.entry(name).or_default();
                    if !self.unverified.iter().any(|waiting| waiting.segment == segment) {
                        self.unverified.push_back(Unverified { segment, marked, wire: data.wire().to_vec() });
                    }
                    return;
                }
                Err(why) => {
                    self.suspect.insert(segment);
                    if !self.fetcher.on_invalid(now, segment) {
                        let (name, copies) = (data.name().to_name(), COPIES_MAX);
                        self.failed = Some(ObjectError::Invalid { name, copies, why });
                    }
                    return;
                }
            }
            if data.content_type() != types::content_type::BLOB {
                self.failed = Some(ObjectError::of_content_type(data));
                return;
            }
        }
        let last = data.final_block().and_then(|c| convention::Kind::Segment.number(c));
        if let Answer::New(rtt) = self.fetcher.on_data(now, segment, last, marked) {
            if let Some(rtt) = rtt {
                self.rtt_us.saturating_record(rtt.as_micros() as u64);
            }
            let result =
                self.check_size(segment, data).and_then(|()| self.write(segment, data.content(), sink));
            self.failed = self.failed.take().or(result.err());
        }
    }

    /// The weakest of what is known of signers, as that is what holds of the whole.
    fn note_signer(&mut self, signer: Signer) {
        let strength = |signer: &Signer| match signer {
            Signer::Unverified(_) => 0,
            Signer::Digest => 1,
            Signer::Verified(_) => 2,
        };
        if self.signer.as_ref().is_none_or(|before| strength(&signer) < strength(before)) {
            self.signer = Some(signer);
        }
    }

    /// A Data or Nack that is no segment may be for a certificate that segments wait for.
    fn take_certificate(&mut self, received: &Received<'_>) {
        let asked = self
            .needs
            .iter()
            .find(|(name, sent)| sent.is_some() && name.as_ref().is_prefix_of(received.name()));
        let Some(name) = asked.map(|(name, _)| name.clone()) else { return };
        let is_whole = |data: Data<'_>| check_digest(&data).is_ok();
        match received.kind() {
            Kind::Data if !Data::check(received.wire).is_ok_and(is_whole) => return,
            Kind::Data => self.verifier.add_certificate(&name, Some(received.wire)),
            // No route to it, now: the other tries are left to the time that a certificate may take.
            _ => return,
        }
        self.needs.remove(&name);
    }

    /// Verifies what waited for certificates, once none is awaited.
    fn verify_again(&mut self, now: Instant, sink: &mut impl FnMut(&[u8]) -> io::Result<()>) {
        if !self.needs.is_empty() || self.failed.is_some() {
            return;
        }
        for waiting in core::mem::take(&mut self.unverified) {
            let data = Data::check(&waiting.wire).expect("checked when it came in");
            self.take_segment(now, waiting.segment, waiting.marked, &data, sink);
        }
    }

    /// Refuses what will be larger than is wanted, as soon as that is known.
    fn check_size(&self, segment: u64, data: &Data<'_>) -> Result<(), ObjectError> {
        let Some(bytes_max) = self.options.bytes_max else { return Ok(()) };
        let total = self.fetcher.segments_total().unwrap_or(0);
        // All but the last segment are equally long, as a rule; what is written is counted besides.
        let expected = if segment == 0 && total > 1 { (total - 1) * data.content().len() as u64 } else { 0 };
        let held: u64 = self.waiting.values().map(|content| content.len() as u64).sum();
        if expected.max(self.bytes + held + data.content().len() as u64) > bytes_max {
            return Err(ObjectError::TooLarge { name: self.prefix.clone(), bytes_max });
        }
        Ok(())
    }

    fn segment_of(&self, name: NameRef<'_>) -> Option<u64> {
        let rest = name.as_bytes().strip_prefix(self.prefix.as_ref().as_bytes())?;
        let mut components = NameRef::check(rest).ok()?.components();
        let segment = convention::Kind::Segment.number(components.next()?)?;
        components.next().is_none().then_some(segment)
    }

    fn write(
        &mut self,
        segment: u64,
        content: &[u8],
        sink: &mut impl FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<(), ObjectError> {
        if self.fetcher.segments_total().is_some_and(|total| segment >= total) {
            return Ok(());
        }
        if segment != self.written {
            self.waiting.insert(segment, content.to_vec());
            return Ok(());
        }
        self.put_out(content, sink)?;
        while let Some(content) = self.waiting.remove(&self.written) {
            self.put_out(&content, sink)?;
        }
        Ok(())
    }

    fn put_out(
        &mut self,
        content: &[u8],
        sink: &mut impl FnMut(&[u8]) -> io::Result<()>,
    ) -> Result<(), ObjectError> {
        sink(content)?;
        self.bytes += content.len() as u64;
        self.written += 1;
        Ok(())
    }
}

/// Asks for the newest version of `name`: the Name in the content of `<name>/32=metadata` (RDR). Congestion and silence are waited out for
/// `patience`, a missing route for some seconds.
///
/// # Errors
/// When nobody tells, or what is told is not accepted.
pub fn discover_version(
    client: &mut Client,
    name: NameRef<'_>,
    verifier: &mut Verifier,
    patience: Duration,
) -> Result<Name, ObjectError> {
    let metadata = name.to_name().with(convention::METADATA);
    let interest = InterestBuilder::new(metadata).can_be_prefix(true).must_be_fresh(true);
    let (wire, _) =
        fetch_packet(client, interest, verifier, Patience::of(patience)).map_err(|error| match error {
            PacketError::Client(error) => ObjectError::Client(error),
            PacketError::Nack { reason, .. } => ObjectError::MetadataRefused { name: name.to_name(), reason },
            PacketError::Silence { .. } => ObjectError::NoMetadata(name.to_name()),
            PacketError::Invalid { name, copies, why } => ObjectError::Invalid { name, copies, why },
        })?;
    let data = Data::check(&wire).expect("checked when it came in");
    if data.content_type() != types::content_type::BLOB {
        return Err(ObjectError::of_content_type(&data));
    }
    version_in_metadata(name, data.content()).ok_or(ObjectError::BadMetadata(name.to_name()))
}

/// Returns the name of the version that the content of `<name>/32=metadata` names. `None` if it is no name below `name`.
pub fn version_in_metadata(name: NameRef<'_>, content: &[u8]) -> Option<Name> {
    let element = Reader::new(content, 0).next().ok()??;
    let versioned = NameRef::check(element.value).ok().filter(|_| element.typ == types::NAME)?;
    name.is_prefix_of(versioned).then(|| versioned.to_name())
}

/// What one Interest brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// A Data packet that answers it, checked, its digest included.
    Data(Vec<u8>),
    /// A refusal.
    Nack(NackReason),
    /// Nothing in time.
    Silence,
}

/// Sends one Interest with a fresh nonce and waits for what answers it, at most `patience`. A Data whose SHA-256 digest is wrong is no answer.
///
/// # Errors
/// When the router went away.
pub fn exchange(
    client: &mut Client,
    interest: InterestBuilder,
    patience: Duration,
) -> Result<Reply, ClientError> {
    exchange_with(client, &interest.nonce(fresh_nonce(client)).encode(), LinkFields::default(), patience)
}

/// As [`exchange`], for an encoded Interest and with link fields.
///
/// # Errors
/// When the router went away.
pub fn exchange_with(
    client: &mut Client,
    wire: &[u8],
    link: LinkFields,
    patience: Duration,
) -> Result<Reply, ClientError> {
    exchange_serving(client, wire, link, patience, |_, _| {})
}

/// As [`exchange_with`], and meanwhile `serve` sees the Interests that come.
///
/// # Errors
/// When the router went away.
pub fn exchange_serving(
    client: &mut Client,
    wire: &[u8],
    link: LinkFields,
    patience: Duration,
    serve: impl FnMut(&Received<'_>, &mut Outgoing),
) -> Result<Reply, ClientError> {
    let is_whole = |data: &Data<'_>| match check_digest(data) {
        Ok(()) => true,
        Err(why) => {
            tracing::warn!(name = %data.name(), %why, "an answer is not accepted");
            false
        }
    };
    Ok(match bring(client, wire, link, patience, is_whole, serve)? {
        Brought::Data(wire) => Reply::Data(wire),
        Brought::Nack(reason) => Reply::Nack(reason),
        Brought::Nothing => Reply::Silence,
    })
}

/// A nonce that no other Interest of this machine is likely to have.
pub fn fresh_nonce(client: &Client) -> u32 {
    let mut octets = [0; 4];
    match getrandom::fill(&mut octets) {
        Ok(()) => u32::from_ne_bytes(octets),
        Err(_) => client.now().as_nanos() as u32,
    }
}

pub(crate) fn pause(client: &mut Client, pause: Duration) -> Result<(), ClientError> {
    let until = client.now() + pause;
    while client.now() < until {
        client.turn(Some(until.since(client.now())), |_, _, _| {})?;
    }
    Ok(())
}
