//! Fetching a named object: finding its newest version, then all its segments, in order, in constant memory.

use crate::client::{Client, ClientError, Outgoing, Received};
use crate::fetch::{Answer, FetchCounters, FetchError, FetchOptions, Fetcher};
use core::time::Duration;
use hdrhistogram::Histogram;
use nw_element::{Instant, Kind, LinkFields};
use nw_name::tlv::{Integer, Reader, number_len, push_number, push_tlv};
use nw_name::{Name, NameRef, convention};
use nw_wire::{Data, InterestBuilder, NackReason, types};
use std::collections::BTreeMap;
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
}

impl Default for ObjectOptions {
    fn default() -> Self {
        ObjectOptions {
            fetch: FetchOptions::default(),
            lifetime_ms: 4000,
            discover_version: true,
            must_be_fresh: false,
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
    #[error("can't write what was fetched: {0}")]
    Sink(#[from] io::Error),
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

/// Fetches `name` and hands its content, in order, to `sink`. `progress` is told after each turn.
///
/// # Errors
/// What did not come, or could not be written.
pub fn fetch_object(
    client: &mut Client,
    name: NameRef<'_>,
    options: &ObjectOptions,
    mut progress: impl FnMut(Progress),
    mut sink: impl FnMut(&[u8]) -> io::Result<()>,
) -> Result<ObjectReport, ObjectError> {
    let name = match options.discover_version && convention::version(name).is_none() {
        true => discover_version(client, name)?,
        false => name.to_name(),
    };
    let started = client.now();
    let mut state = Download {
        fetcher: Fetcher::new(options.fetch.clone()),
        prefix: &name,
        options,
        waiting: BTreeMap::new(),
        written: 0,
        bytes: 0,
        rtt_us: Histogram::new_with_bounds(1, 60_000_000, 3).expect("bounds that hdrhistogram allows"),
        nonce: started.as_nanos() as u32 ^ std::process::id().rotate_left(16),
        failed: None,
    };
    let failed = |error| ObjectError::Fetch { name: name.clone(), error };
    while !state.fetcher.is_done() {
        let now = client.now();
        let mut interest = Vec::new();
        while let Some(segment) = state.fetcher.next_request(now).map_err(failed)? {
            interest.clear();
            state.write_interest(segment, &mut interest);
            client.send(&interest);
        }
        let wait = state.fetcher.deadline().map_or(Duration::from_millis(100), |at| at.since(now));
        client.turn(Some(wait), |now, received, _: &mut Outgoing| state.take(now, received, &mut sink))?;
        if let Some(error) = state.failed.take() {
            return Err(error.into());
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
        name,
    })
}

struct Download<'a> {
    fetcher: Fetcher,
    prefix: &'a Name,
    options: &'a ObjectOptions,
    /// Contents that came before one that they follow; bounded by the fetcher.
    waiting: BTreeMap<u64, Vec<u8>>,
    written: u64,
    bytes: u64,
    rtt_us: Histogram<u64>,
    nonce: u32,
    failed: Option<io::Error>,
}

impl Download<'_> {
    /// The Interest for one segment, without the detours of a builder: this is sent a million times.
    fn write_interest(&mut self, segment: u64, out: &mut Vec<u8>) {
        // Distinct for 2^32 Interests, and not guessable in order: an odd multiplier permutes.
        self.nonce = self.nonce.wrapping_add(0x9e37_79b9);
        let prefix = self.prefix.as_ref().as_bytes();
        let number = Integer::new(segment);
        let lifetime = Integer::new(self.options.lifetime_ms);
        let name_len = prefix.len() + 2 + number.as_bytes().len();
        let fresh_len = if self.options.must_be_fresh { 2 } else { 0 };
        let body_len =
            1 + number_len(name_len as u64) + name_len + fresh_len + 6 + 2 + lifetime.as_bytes().len();
        push_number(u64::from(types::INTEREST), out);
        push_number(body_len as u64, out);
        push_number(u64::from(types::NAME), out);
        push_number(name_len as u64, out);
        out.extend_from_slice(prefix);
        push_tlv(u32::from(nw_name::ComponentType::SEGMENT.number()), number.as_bytes(), out);
        if self.options.must_be_fresh {
            push_tlv(types::MUST_BE_FRESH, &[], out);
        }
        push_tlv(types::NONCE, &self.nonce.wrapping_mul(0x85eb_ca6b).to_be_bytes(), out);
        push_tlv(types::INTEREST_LIFETIME, lifetime.as_bytes(), out);
    }

    fn take(&mut self, now: Instant, received: Received<'_>, sink: &mut impl FnMut(&[u8]) -> io::Result<()>) {
        let Some(segment) = self.segment_of(received.name()) else { return };
        match received.kind() {
            Kind::Interest => {}
            Kind::Nack => self.fetcher.on_nack(now, segment, received.nack().unwrap_or_default()),
            Kind::Data => {
                let Ok(data) = Data::check(received.wire) else { return };
                let last = data.final_block().and_then(|c| convention::Kind::Segment.number(c));
                if let Answer::New(rtt) = self.fetcher.on_data(now, segment, last, received.is_marked()) {
                    if let Some(rtt) = rtt {
                        self.rtt_us.saturating_record(rtt.as_micros() as u64);
                    }
                    let result = self.write(segment, data.content(), sink);
                    self.failed = self.failed.take().or(result.err());
                }
            }
        }
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
    ) -> io::Result<()> {
        if self.fetcher.segments_total().is_some_and(|total| segment >= total) {
            return Ok(());
        }
        if segment != self.written {
            self.waiting.insert(segment, content.to_vec());
            return Ok(());
        }
        sink(content)?;
        self.bytes += content.len() as u64;
        self.written += 1;
        while let Some(content) = self.waiting.remove(&self.written) {
            sink(&content)?;
            self.bytes += content.len() as u64;
            self.written += 1;
        }
        Ok(())
    }
}

/// Asks for the newest version of `name`: the Name in the content of `<name>/32=metadata` (RDR).
///
/// # Errors
/// When nobody tells.
pub fn discover_version(client: &mut Client, name: NameRef<'_>) -> Result<Name, ObjectError> {
    const TRIES: u32 = 3;
    const LIFETIME: Duration = Duration::from_millis(1000);
    let metadata = name.to_name().with(convention::METADATA);
    let mut refused = None;
    for _ in 0..TRIES {
        let interest = InterestBuilder::new(metadata.clone())
            .can_be_prefix(true)
            .must_be_fresh(true)
            .lifetime_ms(LIFETIME.as_millis() as u64);
        match exchange(client, interest, LIFETIME)? {
            Reply::Data(wire) => {
                let data = Data::check(&wire).expect("checked when it came in");
                let versioned = Reader::new(data.content(), 0)
                    .next()
                    .ok()
                    .flatten()
                    .filter(|element| element.typ == types::NAME)
                    .and_then(|element| NameRef::check(element.value).ok())
                    .filter(|versioned| name.is_prefix_of(*versioned));
                return versioned.map(NameRef::to_name).ok_or(ObjectError::BadMetadata(name.to_name()));
            }
            Reply::Nack(reason) => {
                refused = Some(reason);
                pause(client, Duration::from_millis(100))?;
            }
            Reply::Silence => {}
        }
    }
    Err(match refused {
        Some(reason) => ObjectError::MetadataRefused { name: name.to_name(), reason },
        None => ObjectError::NoMetadata(name.to_name()),
    })
}

/// What one Interest brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// A Data packet that answers it, checked.
    Data(Vec<u8>),
    /// A refusal.
    Nack(NackReason),
    /// Nothing in time.
    Silence,
}

/// Sends one Interest with a fresh nonce and waits for what answers it, at most `patience`.
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
    mut serve: impl FnMut(&Received<'_>, &mut Outgoing),
) -> Result<Reply, ClientError> {
    let Ok(interest) = nw_wire::Interest::check(wire) else { return Ok(Reply::Silence) };
    let deadline = client.now() + patience;
    let mut reply = None;
    client.send_with(wire, link);
    while reply.is_none() && client.now() < deadline {
        let left = deadline.since(client.now());
        client.turn(Some(left), |_, received, out| match received.kind() {
            Kind::Data => {
                let digest = || nw_wire::sha256(&[received.wire]);
                if reply.is_none() && interest.is_answered_by(received.name(), digest) {
                    reply = Some(Reply::Data(received.wire.to_vec()));
                }
            }
            Kind::Nack if received.name() == interest.name() => {
                reply = Some(Reply::Nack(received.nack().unwrap_or_default()));
            }
            Kind::Interest => serve(&received, out),
            Kind::Nack => {}
        })?;
    }
    Ok(reply.unwrap_or(Reply::Silence))
}

/// A nonce that no other Interest of this machine is likely to have.
pub fn fresh_nonce(client: &Client) -> u32 {
    let mut octets = [0; 4];
    match getrandom::fill(&mut octets) {
        Ok(()) => u32::from_ne_bytes(octets),
        Err(_) => client.now().as_nanos() as u32,
    }
}

fn pause(client: &mut Client, pause: Duration) -> Result<(), ClientError> {
    let until = client.now() + pause;
    while client.now() < until {
        client.turn(Some(until.since(client.now())), |_, _, _| {})?;
    }
    Ok(())
}
