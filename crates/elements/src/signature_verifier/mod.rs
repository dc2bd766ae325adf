//! Verifies the signatures of Data and of signed Interests, and reports the names of those that
//! fail.
//!
//! ```text
//! In:     packet
//! Out:    valid, invalid
//! Needs:  kind, name, prefixes, ingress
//! Sets:   nothing
//! State:  keys, rules, certificates, results of packets seen before, packets held for other
//!         threads, names that failed: each up to a number
//! Timers: due at once while there are jobs that no thread has taken
//! Cost:   that of the signature, benchmark `verify/TYPE`; the library allocates while it verifies
//!         with a public key
//! Drops:  signature_invalid (unless invalid packets leave by their port), draining (packets held
//!         when the element is removed)
//! Spec:   NDN Packet Format 0.3, Signature and Signed Interest; the signature verifier of µNDN
//! ```
//!
//! All signature types are verified: digest, HMAC, ECDSA, RSA, Ed25519. [`TrustConfig`] defines
//! which key may sign which name: known keys, anchors for certificate chains, and rules that tie
//! names of Data to names of keys. Missing certificates are listed by
//! [`SignatureVerifier::missing_certificates`]; they are taken from Data that passes, or added by
//! the host. Unsigned Interests and Nacks pass as valid, as they claim nothing.
//!
//! With `sample` below 1, only a random share of packets is checked; the others pass as valid and
//! are counted as skipped.
//!
//! **Threads.** The element starts none. With `queue_max` above 0, packets are held while other
//! threads verify several of them per job: a host takes jobs by [`take_task`](Element::take_task)
//! after a batch, any thread runs them on leased bytes, and
//! [`complete_task`](Element::complete_task) takes them back and emits the packets. When
//! `queue_max` packets are held, further ones are verified at once by the calling thread; jobs that
//! no thread has taken are done by [`tick`](Element::tick). So no packet is lost or stuck, unless a
//! thread panics with its job: those packets stay held until the element is removed. Packets of one
//! job leave in order of arrival, jobs in order of completion: packets of one name may be
//! reordered.

mod cache;
mod failures;
mod job;
mod trust;

pub use failures::{Failure, Fault};
pub use trust::{MISSING_MAX, TrustConfig, TrustRule};

use cache::{Cache, CacheLookup};
use core::any::Any;
use failures::Failures;
use job::{Signed, VerifyJob, VerifyMethod, non_empty_parts};
use nw_element_api::{
    Context, DropCause, Element, ElementStatus, FaceId, Kind, OffloadTask, Packet, PacketFailure,
    Timestamp,
};
use nw_name::{Name, NameRef};
use nw_packet_types::random::Random;
use nw_trust::Refusal;
use nw_wire::types::content_type;
use nw_wire::{Data, Interest, SignatureInfo, SignatureType, sha256};
use std::collections::VecDeque;
use trust::Trust;

nw_element_api::ports! {
    /// Input ports.
    pub enum In {
        /// All packets.
        Packet = "packet" [Interest, Data, Nack],
    }
}

nw_element_api::ports! {
    /// Output ports.
    pub enum Out {
        /// Packets signed by a key that may sign them, and unsigned Interests and Nacks.
        Valid = "valid" [Interest, Data, Nack],
        /// All others, unless they are dropped.
        Invalid = "invalid" [Interest, Data],
    }
}

/// Configuration of a verifier.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SignatureVerifierConfig {
    /// Most packets whose result is remembered; 0 for none.
    pub results_max: usize,
    /// Most packets held for other threads; 0: each is verified at once.
    pub queue_max: usize,
    /// Most packets per job.
    pub job_len: usize,
    /// Failures kept for status.
    pub failures_max: usize,
    /// Seed of the random sample.
    pub seed: u64,
}

impl Default for SignatureVerifierConfig {
    fn default() -> Self {
        SignatureVerifierConfig {
            results_max: 1 << 14,
            queue_max: 0,
            job_len: 16,
            failures_max: 64,
            seed: 0,
        }
    }
}

/// Packets by result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VerifierCounters {
    /// Valid packets.
    pub valid: u64,
    /// Invalid packets.
    pub invalid: u64,
    /// Of both: packets whose result was remembered.
    pub from_results: u64,
    /// Interests without signature, and Nacks.
    pub unsigned: u64,
    /// Packets not in the sample.
    pub skipped: u64,
}

/// A held packet.
#[derive(Debug)]
struct HeldPacket {
    packet: Packet,
    /// Where its result is to be stored: fingerprint and digest.
    result_key: Option<(u64, [u8; 32])>,
}

/// The signature verifier element.
#[derive(Debug)]
pub struct SignatureVerifier {
    config: SignatureVerifierConfig,
    trust: Trust,
    /// Whether the clock follows the host's, as opposed to a configured one.
    follows_host_clock: bool,
    /// A packet is checked if a random number is below this.
    sample: u64,
    drop_invalid: bool,
    random: Random,
    cache: Cache,
    /// Held packets by slot; a job's items refer to slots.
    held: Vec<Option<HeldPacket>>,
    free_slots: Vec<usize>,
    /// The job that packets are added to.
    open_job: Box<VerifyJob>,
    /// Full jobs that no thread has taken.
    ready: VecDeque<Box<VerifyJob>>,
    /// Empty jobs, for reuse.
    #[expect(
        clippy::vec_box,
        reason = "jobs are handed out in their boxes, and come back in them"
    )]
    spare: Vec<Box<VerifyJob>>,
    failures: Failures,
    counters: VerifierCounters,
}

/// How a packet is to be handled.
enum Verdict<'a> {
    /// Emit it as valid.
    Pass,
    /// Emit or drop it as invalid.
    Fail(Fault),
    /// Verify its signature over `parts`.
    Verify { by: VerifyMethod, parts: [&'a [u8]; 3], signature: &'a [u8], cache_key: CacheKey },
}

/// Whether and where a result is stored.
#[derive(Clone, Copy)]
enum CacheKey {
    /// Not stored.
    None,
    /// Under this fingerprint, which was seen before.
    Fingerprint(u64),
}

impl SignatureVerifier {
    /// Creates a verifier that trusts no key yet: see [`set_trust`](Self::set_trust). It checks all
    /// packets and drops invalid ones.
    pub fn new(config: SignatureVerifierConfig) -> Self {
        let config = SignatureVerifierConfig { job_len: config.job_len.max(1), ..config };
        SignatureVerifier {
            config,
            trust: Trust::default(),
            follows_host_clock: true,
            sample: u64::MAX,
            drop_invalid: true,
            random: Random::new(config.seed),
            cache: Cache::new(config.results_max),
            held: Vec::with_capacity(config.queue_max),
            free_slots: Vec::with_capacity(config.queue_max),
            open_job: Box::new(VerifyJob::with_capacity(config.job_len)),
            ready: VecDeque::new(),
            spare: Vec::new(),
            failures: Failures::new(config.failures_max),
            counters: VerifierCounters::default(),
        }
    }

    /// Changes keys and rules. Results are removed, certificates are kept.
    pub fn set_trust(&mut self, config: TrustConfig) {
        self.trust.configure(config);
        self.cache.clear();
    }

    /// Sets whether [`Element::wall_clock_set`] changes the clock: not if the time is configured.
    pub const fn set_follow_host_clock(&mut self, follows: bool) {
        self.follows_host_clock = follows;
    }

    /// Sets the wall clock, milliseconds since 1970, by which certificates are valid. Before this
    /// call it is 1970, when none is valid.
    pub const fn set_clock(&mut self, now: Timestamp, unix_ms: u64) {
        self.trust.set_clock(now, unix_ms);
    }

    /// Sets the share of packets that is checked: 1 for all, 0 for none.
    pub fn set_sample(&mut self, share: f64) {
        // The cast saturates at both ends.
        self.sample = (share * u64::MAX as f64) as u64;
    }

    /// Sets whether invalid packets are dropped or leave by their port.
    pub const fn set_drop_invalid(&mut self, drop_invalid: bool) {
        self.drop_invalid = drop_invalid;
    }

    /// Stores the certificates of the configuration in place of those of an earlier one; no key
    /// becomes trusted by this alone. Returns why some can't be used.
    pub fn set_certificates(&mut self, certificates: &[Vec<u8>]) -> Vec<Refusal> {
        self.trust.set_certificates(certificates)
    }

    /// Returns the names of missing certificates, or of their keys.
    pub fn missing_certificates(&self) -> &[Name] {
        self.trust.missing_certificates()
    }

    /// Returns the last packets that failed, oldest first.
    pub fn failures(&self) -> impl Iterator<Item = &Failure> {
        self.failures.iter()
    }

    /// Returns the packets by result so far.
    pub const fn counters(&self) -> VerifierCounters {
        self.counters
    }

    /// Returns the number of packets held for other threads.
    pub fn held(&self) -> usize {
        self.held.len() - self.free_slots.len()
    }

    /// Takes the next job that no thread has taken. `None` if there is none.
    fn next_job(&mut self) -> Option<Box<VerifyJob>> {
        if let Some(job) = self.ready.pop_front() {
            return Some(job);
        }
        if self.open_job.is_empty() { None } else { Some(self.take_open_job()) }
    }

    /// Takes the job being filled and starts an empty one.
    fn take_open_job(&mut self) -> Box<VerifyJob> {
        let len = self.config.job_len;
        let empty = self.spare.pop().unwrap_or_else(|| Box::new(VerifyJob::with_capacity(len)));
        core::mem::replace(&mut self.open_job, empty)
    }

    /// Takes back a job that was run; its packets leave.
    fn finish_job(
        &mut self,
        now: Timestamp,
        mut job: Box<VerifyJob>,
        context: &mut Context<'_, Out>,
    ) {
        for item in job.items.drain(..) {
            context.pool.end_lease(item.bytes);
            let Some(HeldPacket { packet, result_key }) = self.held[item.slot].take() else {
                continue;
            };
            self.free_slots.push(item.slot);
            if let Some((fingerprint, digest)) = result_key {
                self.cache.remember(fingerprint, digest, item.valid);
            }
            self.finish(
                now,
                packet,
                if item.valid { Ok(()) } else { Err(Fault::Mismatch) },
                context,
            );
        }
        self.spare.push(job);
    }

    /// Verifies one packet at once, or holds it and adds it to a job.
    #[inline]
    fn packet(&mut self, now: Timestamp, packet: Packet, context: &mut Context<'_, Out>) {
        let (bytes, meta) = context.pool.view(&packet);
        let task = match meta.kind {
            Kind::Nack | Kind::Publication => {
                self.counters.unsigned += 1;
                Verdict::Pass
            }
            Kind::Interest => self.interest(now, bytes, meta.prefixes.lookup_hash()),
            // The answer of this process to a command: it has a plain digest.
            Kind::Data if meta.ingress == FaceId::INTERNAL => Verdict::Pass,
            Kind::Data => self.data(now, bytes, meta.prefixes.lookup_hash()),
        };
        let (by, parts, signature, cache_key) = match task {
            Verdict::Pass => return context.out.send(Out::Valid, packet),
            Verdict::Fail(fault) => return self.finish(now, packet, Err(fault), context),
            Verdict::Verify { by, parts, signature, cache_key } => {
                (by, parts, signature, cache_key)
            }
        };
        let result_key = match cache_key {
            CacheKey::None => None,
            CacheKey::Fingerprint(fingerprint) => {
                let digest = sha256(&[parts[0], parts[1], parts[2], signature]);
                if let Some(valid) = self.cache.result(fingerprint, &digest) {
                    self.counters.from_results += 1;
                    let result = if valid { Ok(()) } else { Err(Fault::Mismatch) };
                    return self.finish(now, packet, result, context);
                }
                Some((fingerprint, digest))
            }
        };
        let slot = match self.free_slots.pop() {
            None if self.held.len() < self.config.queue_max => {
                self.held.push(None);
                self.held.len() - 1
            }
            None => {
                let valid = by.verify(non_empty_parts(&parts), signature);
                if let Some((fingerprint, digest)) = result_key {
                    self.cache.remember(fingerprint, digest, valid);
                }
                return self.finish(
                    now,
                    packet,
                    if valid { Ok(()) } else { Err(Fault::Mismatch) },
                    context,
                );
            }
            Some(slot) => slot,
        };
        let signed = Signed::of(bytes, &parts, signature);
        self.open_job.push(by, context.pool.lease(&packet), signed, slot);
        self.held[slot] = Some(HeldPacket { packet, result_key });
        if self.open_job.items.len() >= self.config.job_len {
            let job = self.take_open_job();
            self.ready.push_back(job);
        }
    }

    /// Returns how to verify a Data.
    fn data<'a>(&mut self, now: Timestamp, bytes: &'a [u8], hash: u64) -> Verdict<'a> {
        if !self.is_in_sample() {
            self.counters.skipped += 1;
            return Verdict::Pass;
        }
        // Forwarding checked only the fields it needs.
        let Ok(data) = Data::check(bytes) else { return Verdict::Fail(Fault::Unsigned) };
        if data.content_type() == content_type::KEY && self.trust.is_missing(data.name()) {
            let _: Result<(), Refusal> = self.trust.add_certificate(bytes);
        }
        let (info, name) = (data.signature_info(), data.name());
        self.task(now, &info, name, hash, [data.signed_portion(), &[], &[]], data.signature_value())
    }

    /// Returns how to verify an Interest.
    fn interest<'a>(&mut self, now: Timestamp, bytes: &'a [u8], hash: u64) -> Verdict<'a> {
        let Ok(interest) = Interest::check(bytes) else { return Verdict::Fail(Fault::Unsigned) };
        let (Some(info), Some(parts), Some(signature)) =
            (interest.signature_info(), interest.signed_portion(), interest.signature_value())
        else {
            self.counters.unsigned += 1;
            return Verdict::Pass;
        };
        if !self.is_in_sample() {
            self.counters.skipped += 1;
            return Verdict::Pass;
        }
        self.task(now, &info, interest.name(), hash, parts, signature)
    }

    /// Finds the key of a signature and whether its result is cached.
    fn task<'a>(
        &mut self,
        now: Timestamp,
        info: &SignatureInfo<'_>,
        name: NameRef<'_>,
        hash: u64,
        parts: [&'a [u8]; 3],
        signature: &'a [u8],
    ) -> Verdict<'a> {
        let typ = info.typ();
        if typ == SignatureType::DigestSha256 {
            return match self.trust.accept_digest {
                true => Verdict::Verify {
                    by: VerifyMethod::Digest,
                    parts,
                    signature,
                    cache_key: CacheKey::None,
                },
                false => Verdict::Fail(Fault::Unsigned),
            };
        }
        let Some(locator) = info.key_locator() else { return Verdict::Fail(Fault::UnknownKey) };
        let key = match self.trust.key(now, locator, name) {
            Ok(key) => key,
            Err(fault) => return Verdict::Fail(fault),
        };
        // A digest of all bytes costs as much as verifying an HMAC.
        let cache_key = match typ {
            SignatureType::HmacWithSha256 => CacheKey::None,
            _ => {
                let fingerprint = fingerprint(hash, signature);
                if self.cache.lookup(fingerprint) == CacheLookup::Seen {
                    CacheKey::Fingerprint(fingerprint)
                } else {
                    CacheKey::None
                }
            }
        };
        Verdict::Verify { by: VerifyMethod::Key(key, typ), parts, signature, cache_key }
    }

    /// Draws whether the next packet is checked.
    fn is_in_sample(&mut self) -> bool {
        self.sample == u64::MAX || self.random.next_u64() < self.sample
    }

    /// Counts the result and emits or drops the packet.
    #[inline]
    fn finish(
        &mut self,
        now: Timestamp,
        packet: Packet,
        result: Result<(), Fault>,
        context: &mut Context<'_, Out>,
    ) {
        let Err(fault) = result else {
            self.counters.valid += 1;
            if self.failures.total() > 0 {
                let hash = context.pool.meta(&packet).prefixes.lookup_hash();
                self.failures.mark_contested(hash);
            }
            return context.out.send(Out::Valid, packet);
        };
        self.counters.invalid += 1;
        let (bytes, meta) = context.pool.view(&packet);
        let name = (meta.name_in(bytes), meta.prefixes.lookup_hash());
        self.failures.record(now, name, fault, meta.ingress);
        if self.drop_invalid {
            context.pool.drop_packet(packet, DropCause::SignatureInvalid, context.drops);
        } else {
            context.out.send(Out::Invalid, packet);
        }
    }
}

/// Returns a number, never 0, that nearly always differs between packets.
fn fingerprint(hash: u64, signature: &[u8]) -> u64 {
    let mut last = [0; 8];
    let len = signature.len().min(8);
    last[..len].copy_from_slice(&signature[signature.len() - len..]);
    // The start of ECDSA signatures is nearly the same in all of them.
    (hash ^ u64::from_le_bytes(last)).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1
}

impl Element for SignatureVerifier {
    type In = In;
    type Out = Out;

    fn main_output(_: In) -> Option<Out> {
        Some(Out::Valid)
    }

    fn status(&self) -> ElementStatus {
        let failure = |failure: &Failure| PacketFailure {
            name: failure.name().to_name(),
            reason: failure.fault.as_str(),
            ingress: failure.ingress,
            at: failure.at,
            is_contested: failure.is_contested,
        };
        ElementStatus {
            values: vec![
                ("valid", self.counters.valid),
                ("invalid", self.counters.invalid),
                ("from_results", self.counters.from_results),
                ("unsigned", self.counters.unsigned),
                ("skipped", self.counters.skipped),
                ("held", self.held() as u64),
            ],
            failures_total: self.failures.total(),
            failures: self.failures.iter().map(failure).collect(),
            wanted_certificates: self.missing_certificates().to_vec(),
        }
    }

    fn process(
        &mut self,
        now: Timestamp,
        port: In,
        packet: Packet,
        context: &mut Context<'_, Out>,
    ) {
        let In::Packet = port;
        self.packet(now, packet, context);
    }

    fn wall_clock_set(&mut self, now: Timestamp, unix_ms: u64) {
        if self.follows_host_clock {
            self.set_clock(now, unix_ms);
        }
    }

    fn is_idle(&self) -> bool {
        self.held() == 0
    }

    fn deadline(&self) -> Option<Timestamp> {
        (!self.ready.is_empty() || !self.open_job.is_empty()).then_some(Timestamp::START)
    }

    fn take_task(&mut self) -> Option<Box<dyn OffloadTask>> {
        Some(self.next_job()?)
    }

    fn complete_task(
        &mut self,
        now: Timestamp,
        work: Box<dyn OffloadTask>,
        context: &mut Context<'_, Out>,
    ) {
        let work: Box<dyn Any> = work;
        // No other type of task was handed out.
        if let Ok(job) = work.downcast::<VerifyJob>() {
            self.finish_job(now, job, context);
        }
    }

    fn drop_held(&mut self, context: &mut Context<'_, Out>) {
        self.open_job.cancel(context.pool);
        self.ready.drain(..).for_each(|mut job| job.cancel(context.pool));
        for (slot, held) in self.held.iter_mut().enumerate() {
            if let Some(HeldPacket { packet, .. }) = held.take() {
                self.free_slots.push(slot);
                context.pool.drop_packet(packet, DropCause::Draining, context.drops);
            }
        }
    }

    /// Runs one job that no thread has taken.
    fn tick(&mut self, now: Timestamp, context: &mut Context<'_, Out>) {
        if let Some(mut job) = self.next_job() {
            job.run();
            self.finish_job(now, job, context);
        }
    }
}

#[cfg(test)]
mod tests;
