//! Fetches a named object: finds its newest version, then all its segments, in order, in constant
//! memory.

use crate::client::{Client, ClientError, Outgoing, Received};
use crate::fetch::{COPIES_MAX, DataOutcome, FetchCounters, FetchError, FetchOptions, Fetcher};
use crate::packet::{
    PacketError, RawReply, RetryPolicy, certificate_interest, exchange_raw, fetch_packet,
};
use crate::verify::{InvalidData, Signer, Verdict, Verifier, check_digest};
use core::time::Duration;
use hdrhistogram::Histogram;
use nw_element_api::{Kind, LinkFields, Timestamp};
use nw_name::tlv::{Integer, Reader, number_len, push_number, push_tlv};
use nw_name::{Name, NameRef, convention};
use nw_wire::{Data, InterestBuilder, NackReason, types};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;

/// Options for fetching an object.
#[derive(Clone, Debug)]
pub struct ObjectOptions {
    /// Window, retransmissions and timeouts.
    pub fetch: FetchOptions,
    /// InterestLifetime, milliseconds.
    pub lifetime_ms: u64,
    /// Whether to request `32=metadata` for the newest version first, unless the name ends in a
    /// version.
    pub discover_version: bool,
    /// Whether Interests for segments set MustBeFresh.
    pub must_be_fresh: bool,
    /// Maximum bytes of content; larger objects are rejected. `None`: unlimited.
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

/// Reasons why an object could not be fetched.
#[derive(Debug, thiserror::Error)]
pub enum ObjectError {
    /// The connection to the router failed.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// A segment was not received.
    #[error("{name}: {error}")]
    Fetch {
        /// Name of the object.
        name: Name,
        /// The segment and the reason.
        error: FetchError,
    },
    /// No reply with the version.
    #[error("no answer to {0}/32=metadata: is the producer running, and is there a route to it?")]
    NoMetadata(Name),
    /// The Interest for the version was answered by a Nack.
    #[error("{name}/32=metadata was refused with Nack({}): is there a route?", reason.as_str())]
    MetadataRefused {
        /// Name of the object.
        name: Name,
        /// Nack reason.
        reason: NackReason,
    },
    /// The metadata contains no version of this object.
    #[error("the metadata of {0} names no version of it")]
    BadMetadata(Name),
    /// Writing the content failed.
    #[error("can't write the content")]
    Sink(#[from] io::Error),
    /// A packet did not pass verification.
    #[error("{name} is not accepted ({copies} copies tried): {why}")]
    Invalid {
        /// Name of the packet.
        name: Name,
        /// Number of copies received.
        copies: u32,
        /// Error of the last copy.
        why: InvalidData,
    },
    /// The producer has no such object.
    #[error("the producer has no {0} (application Nack)")]
    ApplicationNack(Name),
    /// The packet is not content of an object.
    #[error("{name} is {what}, not content that can be written (`nw peek --show tree` shows it)")]
    ContentType {
        /// Name of the packet.
        name: Name,
        /// Description of the packet.
        what: String,
    },
    /// The object exceeds the size limit.
    #[error("{name} has more than {bytes_max} bytes of content, the limit given")]
    TooLarge {
        /// Name of the object.
        name: Name,
        /// The limit, bytes.
        bytes_max: u64,
    },
    /// The connection was lost and could not be restored.
    #[error("the connection to the router was lost and could not be restored for {0} s")]
    Lost(u64),
}

impl ObjectError {
    /// Returns the error for Data whose content type is not Blob.
    pub fn from_content_type(data: &Data<'_>) -> Self {
        use types::content_type as t;
        let name = data.name().to_name();
        let what = match data.content_type() {
            t::NACK => return ObjectError::ApplicationNack(name),
            t::LINK => "a Link (names to look under)".to_owned(),
            t::KEY => "a key or certificate".to_owned(),
            t::MANIFEST => "a manifest".to_owned(),
            t::PREFIX_ANNOUNCEMENT => "a prefix announcement".to_owned(),
            unknown => format!("of content type {unknown}"),
        };
        ObjectError::ContentType { name, what }
    }
}

/// Statistics of a fetch.
#[derive(Clone, Debug)]
pub struct ObjectReport {
    /// Name of the segments, without the segment number.
    pub name: Name,
    /// Number of segments.
    pub segments: u64,
    /// Bytes of content.
    pub bytes: u64,
    /// Time from the first Interest for a segment to the last Data.
    pub elapsed: Duration,
    /// Interests, retransmissions, marks, Nacks.
    pub counters: FetchCounters,
    /// Round-trip times in microseconds, of segments requested once.
    pub rtt_us: Histogram<u64>,
    /// Verification result that holds for all segments.
    pub signer: Signer,
}

/// Progress of a fetch.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Bytes written so far.
    pub bytes: u64,
    /// Segments written so far.
    pub segments: u64,
    /// Total number of segments, once known.
    pub segments_total: Option<u64>,
}

/// Fetches `name` and passes its content to `sink`, in order. Calls `progress` after each poll.
/// Checks digests; [`fetch_object_verified`] also checks signatures.
///
/// # Errors
/// If a segment can't be fetched or written.
pub fn fetch_object(
    client: &mut Client,
    name: NameRef<'_>,
    options: &ObjectOptions,
    progress: impl FnMut(Progress),
    sink: impl FnMut(&[u8]) -> io::Result<()>,
) -> Result<ObjectReport, ObjectError> {
    fetch_object_verified(client, name, options, &mut Verifier::default(), progress, sink)
}

/// Like [`fetch_object`]; only passes on what `verifier` accepts, which includes the packet with
/// the version.
///
/// # Errors
/// As for [`fetch_object`]; also if a packet is not accepted.
pub fn fetch_object_verified(
    client: &mut Client,
    name: NameRef<'_>,
    options: &ObjectOptions,
    verifier: &mut Verifier,
    mut progress: impl FnMut(Progress),
    mut sink: impl FnMut(&[u8]) -> io::Result<()>,
) -> Result<ObjectReport, ObjectError> {
    let name = match options.discover_version && convention::version(name).is_none() {
        true => discover_version(client, name, verifier, options.fetch.timeout)?,
        false => name.to_name(),
    };
    let started = client.now();
    let mut state = Download {
        fetcher: Fetcher::new(options.fetch.clone()),
        prefix: &name,
        options,
        verifier,
        signer: None,
        missing_certificates: BTreeMap::new(),
        unverified: VecDeque::new(),
        rejected_segments: BTreeSet::new(),
        reorder_buffer: BTreeMap::new(),
        written: 0,
        bytes: 0,
        rtt_us: Histogram::new_with_bounds(1, 60_000_000, 3)
            .expect("bounds that hdrhistogram allows"),
        nonce: started.as_nanos() as u32 ^ std::process::id().rotate_left(16),
        failed: None,
    };
    let mut connections = client.connections();
    while !state.is_done() {
        let now = client.now();
        if client.connections() != connections {
            connections = client.connections();
            state.fetcher.on_reconnect(now);
            state.missing_certificates.clear();
        }
        match client.lost_for() {
            None => state.send_interests(client, now)?,
            Some(lost) if lost > options.fetch.timeout => {
                return Err(ObjectError::Lost(lost.as_secs()));
            }
            Some(_) => {}
        }
        let wait = state.next_wait(now, client.lost_for().is_some());
        client.poll(Some(wait), |now, received, _: &mut Outgoing| {
            state.on_packet(now, received, &mut sink)
        })?;
        state.verify_waiting(client.now(), &mut sink);
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

/// Interval for checks that have no deadline of their own.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Longest wait for a certificate.
const CERTIFICATE_TIMEOUT: Duration = Duration::from_secs(4);

struct Download<'a> {
    fetcher: Fetcher,
    prefix: &'a Name,
    options: &'a ObjectOptions,
    verifier: &'a mut Verifier,
    /// Weakest verification result of the segments accepted so far.
    signer: Option<Signer>,
    /// Certificates that segments wait for, and when each was requested; `None`: not yet.
    missing_certificates: BTreeMap<Name, Option<Timestamp>>,
    /// Segments that wait for a certificate; bounded by the fetcher.
    unverified: VecDeque<Unverified>,
    /// Segments with a rejected copy: requested with MustBeFresh, to bypass caches.
    rejected_segments: BTreeSet<u64>,
    /// Content received ahead of an earlier segment; bounded by the fetcher.
    reorder_buffer: BTreeMap<u64, Vec<u8>>,
    written: u64,
    bytes: u64,
    rtt_us: Histogram<u64>,
    nonce: u32,
    failed: Option<ObjectError>,
}

/// A segment that waits for a certificate.
struct Unverified {
    segment: u64,
    is_marked: bool,
    wire: Vec<u8>,
}

impl Download<'_> {
    fn is_done(&self) -> bool {
        self.fetcher.is_done() && self.unverified.is_empty()
    }

    /// Returns how long to wait for packets at most.
    fn next_wait(&self, now: Timestamp, is_disconnected: bool) -> Duration {
        let wait = self.fetcher.deadline().map_or(POLL_INTERVAL, |at| at.since(now));
        let must_check = is_disconnected || !self.missing_certificates.is_empty();
        let wait = if must_check { wait.min(POLL_INTERVAL) } else { wait };
        wait.max(Duration::from_micros(10))
    }

    /// Sends the Interests that are due.
    fn send_interests(&mut self, client: &mut Client, now: Timestamp) -> Result<(), ObjectError> {
        let mut interest = Vec::new();
        loop {
            let next = self.fetcher.next_request(now);
            let next =
                next.map_err(|error| ObjectError::Fetch { name: self.prefix.clone(), error })?;
            let Some(segment) = next else { break };
            interest.clear();
            self.write_interest(segment, &mut interest);
            client.send(&interest);
        }
        let timed_out: Vec<Name> = self
            .missing_certificates
            .iter()
            .filter(|(_, sent)| sent.is_some_and(|at| now.since(at) >= CERTIFICATE_TIMEOUT))
            .map(|(name, _)| name.clone())
            .collect();
        for name in timed_out {
            self.missing_certificates.remove(&name);
            self.verifier.add_certificate(&name, None);
        }
        for (name, sent) in self.missing_certificates.iter_mut().filter(|(_, sent)| sent.is_none())
        {
            *sent = Some(now);
            client.send(&certificate_interest(client, name));
        }
        Ok(())
    }

    /// Writes the Interest for one segment directly, for speed: this runs for every segment.
    fn write_interest(&mut self, segment: u64, out: &mut Vec<u8>) {
        // Distinct for 2^32 Interests and hard to guess: an odd multiplier permutes.
        self.nonce = self.nonce.wrapping_add(0x9e37_79b9);
        let prefix = self.prefix.as_ref().as_bytes();
        let number = Integer::new(segment);
        let lifetime = Integer::new(self.options.lifetime_ms);
        let name_len = prefix.len() + 2 + number.as_bytes().len();
        let must_be_fresh = self.options.must_be_fresh || self.rejected_segments.contains(&segment);
        let fresh_len = if must_be_fresh { 2 } else { 0 };
        let body_len = 1
            + number_len(name_len as u64)
            + name_len
            + fresh_len
            + 6
            + 2
            + lifetime.as_bytes().len();
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

    fn on_packet(
        &mut self,
        now: Timestamp,
        received: Received<'_>,
        sink: &mut impl FnMut(&[u8]) -> io::Result<()>,
    ) {
        if self.failed.is_some() || received.kind() == Kind::Interest {
            return;
        }
        let Some(segment) = self.segment_of(received.name()) else {
            return self.on_certificate(&received);
        };
        if received.kind() == Kind::Nack {
            if received.is_marked() {
                self.fetcher.on_marked_nack(now, segment);
            }
            let reason = received.nack().unwrap_or_default();
            return self.fetcher.on_refusal(now, segment, reason, received.pause());
        }
        let Ok(data) = Data::check(received.wire) else { return };
        self.on_segment(now, segment, received.is_marked(), &data, sink);
    }

    fn on_segment(
        &mut self,
        now: Timestamp,
        segment: u64,
        is_marked: bool,
        data: &Data<'_>,
        sink: &mut impl FnMut(&[u8]) -> io::Result<()>,
    ) {
        if self.fetcher.is_wanted(segment) {
            match self.verifier.check(data) {
                Ok(Verdict::Accepted(signer)) => self.record_signer(signer),
                Ok(Verdict::NeedsCertificate(name)) => {
                    self.missing_certificates.entry(name).or_default();
                    if !self.unverified.iter().any(|waiting| waiting.segment == segment) {
                        self.unverified.push_back(Unverified {
                            segment,
                            is_marked,
                            wire: data.wire().to_vec(),
                        });
                    }
                    return;
                }
                Err(why) => {
                    self.rejected_segments.insert(segment);
                    if !self.fetcher.on_invalid(now, segment) {
                        let (name, copies) = (data.name().to_name(), COPIES_MAX);
                        self.failed = Some(ObjectError::Invalid { name, copies, why });
                    }
                    return;
                }
            }
            if data.content_type() != types::content_type::BLOB {
                self.failed = Some(ObjectError::from_content_type(data));
                return;
            }
        }
        let final_segment = data.final_block().and_then(|c| convention::Kind::Segment.number(c));
        if let DataOutcome::New(rtt) = self.fetcher.on_data(now, segment, final_segment, is_marked)
        {
            if let Some(rtt) = rtt {
                self.rtt_us.saturating_record(rtt.as_micros() as u64);
            }
            let result = self
                .check_size(segment, data)
                .and_then(|()| self.write(segment, data.content(), sink));
            self.failed = self.failed.take().or(result.err());
        }
    }

    /// Keeps the weakest verification result, which holds for the whole object.
    fn record_signer(&mut self, signer: Signer) {
        let strength = |signer: &Signer| match signer {
            Signer::Unverified(_) => 0,
            Signer::Digest => 1,
            Signer::Verified(_) => 2,
        };
        if self.signer.as_ref().is_none_or(|weakest| strength(&signer) < strength(weakest)) {
            self.signer = Some(signer);
        }
    }

    /// Handles a Data or Nack that may be for a certificate that segments wait for.
    fn on_certificate(&mut self, received: &Received<'_>) {
        let requested = self
            .missing_certificates
            .iter()
            .find(|(name, sent)| sent.is_some() && name.as_ref().is_prefix_of(received.name()));
        let Some(name) = requested.map(|(name, _)| name.clone()) else { return };
        let has_valid_digest = |data: Data<'_>| check_digest(&data).is_ok();
        match received.kind() {
            Kind::Data if !Data::check(received.wire).is_ok_and(has_valid_digest) => return,
            Kind::Data => self.verifier.add_certificate(&name, Some(received.wire)),
            // No route at the moment: wait until the certificate's timeout.
            _ => return,
        }
        self.missing_certificates.remove(&name);
    }

    /// Verifies the waiting segments once no certificate is missing.
    fn verify_waiting(&mut self, now: Timestamp, sink: &mut impl FnMut(&[u8]) -> io::Result<()>) {
        if !self.missing_certificates.is_empty() || self.failed.is_some() {
            return;
        }
        for waiting in core::mem::take(&mut self.unverified) {
            let data = Data::check(&waiting.wire).expect("checked on reception");
            self.on_segment(now, waiting.segment, waiting.is_marked, &data, sink);
        }
    }

    /// Rejects an object that will exceed the limit, as soon as that is known.
    fn check_size(&self, segment: u64, data: &Data<'_>) -> Result<(), ObjectError> {
        let Some(bytes_max) = self.options.bytes_max else { return Ok(()) };
        let total = self.fetcher.segments_total().unwrap_or(0);
        // Segments other than the last usually have equal length; the bytes received are checked as
        // well.
        let expected =
            if segment == 0 && total > 1 { (total - 1) * data.content().len() as u64 } else { 0 };
        let buffered: u64 = self.reorder_buffer.values().map(|content| content.len() as u64).sum();
        if expected.max(self.bytes + buffered + data.content().len() as u64) > bytes_max {
            return Err(ObjectError::TooLarge { name: self.prefix.clone(), bytes_max });
        }
        Ok(())
    }

    fn segment_of(&self, name: NameRef<'_>) -> Option<u64> {
        let suffix = name.as_bytes().strip_prefix(self.prefix.as_ref().as_bytes())?;
        let mut components = NameRef::check(suffix).ok()?.components();
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
            self.reorder_buffer.insert(segment, content.to_vec());
            return Ok(());
        }
        self.write_to_sink(content, sink)?;
        while let Some(content) = self.reorder_buffer.remove(&self.written) {
            self.write_to_sink(&content, sink)?;
        }
        Ok(())
    }

    fn write_to_sink(
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

/// Returns the newest version of `name`: the Name in the content of `<name>/32=metadata` (RDR).
/// Retries for `timeout` on congestion or without a reply, and for some seconds without a route.
///
/// # Errors
/// If there is no acceptable reply.
pub fn discover_version(
    client: &mut Client,
    name: NameRef<'_>,
    verifier: &mut Verifier,
    timeout: Duration,
) -> Result<Name, ObjectError> {
    let metadata = name.to_name().with(convention::METADATA);
    let interest = InterestBuilder::new(metadata).can_be_prefix(true).must_be_fresh(true);
    let (wire, _) = fetch_packet(client, interest, verifier, RetryPolicy::within(timeout))
        .map_err(|error| match error {
            PacketError::Client(error) => ObjectError::Client(error),
            PacketError::Nack { reason, .. } => {
                ObjectError::MetadataRefused { name: name.to_name(), reason }
            }
            PacketError::Timeout { .. } => ObjectError::NoMetadata(name.to_name()),
            PacketError::Invalid { name, copies, why } => {
                ObjectError::Invalid { name, copies, why }
            }
        })?;
    let data = Data::check(&wire).expect("checked on reception");
    if data.content_type() != types::content_type::BLOB {
        return Err(ObjectError::from_content_type(&data));
    }
    version_in_metadata(name, data.content()).ok_or(ObjectError::BadMetadata(name.to_name()))
}

/// Returns the versioned name in the content of `<name>/32=metadata`. `None` if it is not a name
/// below `name`.
pub fn version_in_metadata(name: NameRef<'_>, content: &[u8]) -> Option<Name> {
    let element = Reader::new(content, 0).next().ok()??;
    let versioned = NameRef::check(element.value).ok().filter(|_| element.typ == types::NAME)?;
    name.is_prefix_of(versioned).then(|| versioned.to_name())
}

/// The reply to an Interest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Data that satisfies the Interest, with a valid digest.
    Data(Vec<u8>),
    /// A Nack.
    Nack(NackReason),
    /// No reply in time.
    Timeout,
}

/// Sends one Interest with a new nonce and waits for the reply, at most `timeout`. Data with a
/// wrong SHA-256 digest is ignored.
///
/// # Errors
/// If the connection is closed.
pub fn exchange(
    client: &mut Client,
    interest: InterestBuilder,
    timeout: Duration,
) -> Result<Reply, ClientError> {
    exchange_with(
        client,
        &interest.nonce(fresh_nonce(client)).encode(),
        LinkFields::default(),
        timeout,
    )
}

/// Like [`exchange`], for an encoded Interest and with link fields.
///
/// # Errors
/// If the connection is closed.
pub fn exchange_with(
    client: &mut Client,
    wire: &[u8],
    link: LinkFields,
    timeout: Duration,
) -> Result<Reply, ClientError> {
    exchange_serving(client, wire, link, timeout, |_, _| {})
}

/// Like [`exchange_with`]; calls `serve` with Interests that arrive in the meantime.
///
/// # Errors
/// If the connection is closed.
pub fn exchange_serving(
    client: &mut Client,
    wire: &[u8],
    link: LinkFields,
    timeout: Duration,
    serve: impl FnMut(&Received<'_>, &mut Outgoing),
) -> Result<Reply, ClientError> {
    let has_valid_digest = |data: &Data<'_>| match check_digest(data) {
        Ok(()) => true,
        Err(why) => {
            tracing::warn!(name = %data.name(), %why, "a reply was rejected");
            false
        }
    };
    Ok(match exchange_raw(client, wire, link, timeout, has_valid_digest, serve)? {
        RawReply::Data(wire) => Reply::Data(wire),
        RawReply::Nack(reason) => Reply::Nack(reason),
        RawReply::Timeout => Reply::Timeout,
    })
}

/// Returns a random nonce.
pub fn fresh_nonce(client: &Client) -> u32 {
    let mut bytes = [0; 4];
    match getrandom::fill(&mut bytes) {
        Ok(()) => u32::from_ne_bytes(bytes),
        Err(_) => client.now().as_nanos() as u32,
    }
}

pub(crate) fn pause(client: &mut Client, pause: Duration) -> Result<(), ClientError> {
    let until = client.now() + pause;
    while client.now() < until {
        client.poll(Some(until.since(client.now())), |_, _, _| {})?;
    }
    Ok(())
}
