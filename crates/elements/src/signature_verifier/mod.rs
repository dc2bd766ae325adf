//! Verifies the signatures of Data and of signed Interests, and reports the names of those that fail.
//!
//! ```text
//! In:     packet
//! Out:    valid, invalid
//! Needs:  kind, name, prefixes, ingress
//! Sets:   nothing
//! State:  keys, rules, certificates, results of packets seen before, packets that wait for other threads, names that failed: each up to a number
//! Timers: due at once while jobs wait that no thread has taken
//! Cost:   that of the signature, benchmark `verify/TYPE`; the library allocates while it verifies by a public key
//! Drops:  signature_invalid (unless what is invalid is to leave by its port), draining (what waits when the element is taken away)
//! Spec:   NDN Packet Format 0.3, Signature and Signed Interest; the signature verifier of µNDN
//! ```
//!
//! Every type of signature is verified: digest, HMAC, ECDSA, RSA, Ed25519. Who may sign what is said by [`TrustConfig`]: known keys, anchors to which chains of
//! certificates lead, rules that tie names of Data to names of keys. Certificates that are missing are named by [`SignatureVerifier::wanted`]; they are
//! taken from Data that pass, or put in by the host. Interests that are not signed, and Nacks, pass as valid: they claim nothing.
//!
//! Where signatures can't all be checked, a share of packets is (`sample`), drawn by the seed; the others pass as valid and are counted as skipped.
//!
//! **Threads.** The element starts none. With `held_max` above 0 packets wait while others verify some of them at a time: a host takes that work with
//! [`take_work`](Element::take_work) after a batch, any thread runs it on octets that the pool lends, and [`finish_work`](Element::finish_work) takes it back and lets
//! the packets go. When as many packets wait as may, the next are verified at once by whoever brings them; work that nobody has taken is done by
//! [`tick`](Element::tick). So nothing is lost or stuck, unless a thread dies with its job: those packets stay here until the element goes. Packets of one job leave in the order in which they came, jobs in the
//! order in which they are done: packets of one name may overtake one another.

mod cache;
mod failures;
mod job;
mod trust;

pub use failures::{Failure, Fault};
pub use trust::{TrustConfig, TrustRule, WANTED_MAX};

use crate::strategy::Generator;
use cache::{Cache, Known};
use core::any::Any;
use failures::Failures;
use job::{By, Signed, VerifyJob, whole};
use nw_element_api::{Cause, Context, Element, Instant, Kind, Packet, Work};
use nw_name::{Name, NameRef};
use nw_trust::Refusal;
use nw_wire::types::content_type;
use nw_wire::{Data, Interest, SignatureInfo, SignatureType, sha256};
use std::collections::VecDeque;
use trust::Trust;

nw_element_api::ports! {
    /// Where packets enter.
    pub enum In {
        /// Any packet.
        Packet = "packet" [Interest, Data, Nack],
    }
}

nw_element_api::ports! {
    /// Where packets leave.
    pub enum Out {
        /// What is signed by who may sign it, or claims nothing.
        Valid = "valid" [Interest, Data, Nack],
        /// All else, if it is not to be dropped.
        Invalid = "invalid" [Interest, Data],
    }
}

/// What a verifier is made with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SignatureVerifierConfig {
    /// Packets of which is remembered what came of them; 0 for none.
    pub results_max: usize,
    /// Packets that may wait for other threads at one time; 0: each is verified at once.
    pub held_max: usize,
    /// Packets of one job, at most.
    pub job_len: usize,
    /// Names that failed and are kept for control.
    pub failures_max: usize,
    /// Makes the draws of a sample.
    pub seed: u64,
}

impl Default for SignatureVerifierConfig {
    fn default() -> Self {
        SignatureVerifierConfig { results_max: 1 << 14, held_max: 0, job_len: 16, failures_max: 64, seed: 0 }
    }
}

/// What became of packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// That were found good.
    pub valid: u64,
    /// That were not.
    pub invalid: u64,
    /// Of both: those known from before.
    pub from_results: u64,
    /// That claim nothing: Interests without signature, Nacks.
    pub unsigned: u64,
    /// That were not in the sample.
    pub skipped: u64,
}

/// A packet that waits.
#[derive(Debug)]
struct Held {
    packet: Packet,
    /// To be remembered.
    seal: Option<(u64, [u8; 32])>,
}

/// See the module.
#[derive(Debug)]
pub struct SignatureVerifier {
    config: SignatureVerifierConfig,
    trust: Trust,
    /// The clock is the host's, not one that was chosen for it.
    follows_clock: bool,
    /// A packet is in the sample when what is drawn is not above.
    sample: u64,
    drop_invalid: bool,
    generator: Generator,
    cache: Cache,
    held: Vec<Option<Held>>,
    places_free: Vec<usize>,
    filling: Box<VerifyJob>,
    ready: VecDeque<Box<VerifyJob>>,
    #[expect(clippy::vec_box, reason = "jobs are handed out in their boxes, and come back in them")]
    spare: Vec<Box<VerifyJob>>,
    failures: Failures,
    verified: Verified,
}

/// What is to be done about a packet.
enum Task<'a> {
    Pass,
    Fail(Fault),
    Verify { by: By, parts: [&'a [u8]; 3], signature: &'a [u8], seal: Seal },
}

/// Whether a result is remembered.
#[derive(Clone, Copy)]
enum Seal {
    No,
    /// It has this mark and was there before.
    Of(u64),
}

impl SignatureVerifier {
    /// Believes nobody yet: see [`set_trust`](Self::set_trust). Checks all, drops what is invalid.
    pub fn new(config: SignatureVerifierConfig) -> Self {
        let config = SignatureVerifierConfig { job_len: config.job_len.max(1), ..config };
        SignatureVerifier {
            config,
            trust: Trust::default(),
            follows_clock: true,
            sample: u64::MAX,
            drop_invalid: true,
            generator: Generator::new(config.seed),
            cache: Cache::new(config.results_max),
            held: Vec::with_capacity(config.held_max),
            places_free: Vec::with_capacity(config.held_max),
            filling: Box::new(VerifyJob::with_capacity(config.job_len)),
            ready: VecDeque::new(),
            spare: Vec::new(),
            failures: Failures::new(config.failures_max),
            verified: Verified::default(),
        }
    }

    /// Other keys and rules from now on. Results are forgotten, certificates stay.
    pub fn set_trust(&mut self, config: TrustConfig) {
        self.trust.configure(config);
        self.cache.clear();
    }

    /// Whether [`Element::wall_clock_set`] changes the clock: not if the configuration says what time it is.
    pub const fn set_follows_clock(&mut self, follows: bool) {
        self.follows_clock = follows;
    }

    /// Tells what time it is outside, milliseconds since 1970: certificates have a time. Until then it is 1970, when none is valid.
    pub const fn set_clock(&mut self, now: Instant, unix_ms: u64) {
        self.trust.set_clock(now, unix_ms);
    }

    /// Checks this share of packets from now on: 1 for all, 0 for none.
    pub fn set_sample(&mut self, share: f64) {
        // Saturates at both ends.
        self.sample = (share * u64::MAX as f64) as u64;
    }

    /// Whether what is invalid is dropped, or leaves by its port.
    pub const fn set_drop_invalid(&mut self, drop_invalid: bool) {
        self.drop_invalid = drop_invalid;
    }

    /// Keeps a certificate. Nothing is believed by that.
    ///
    /// # Errors
    /// When it is none.
    pub fn add_certificate(&mut self, wire: &[u8]) -> Result<(), Refusal> {
        self.trust.add_certificate(wire)
    }

    /// Certificates that were missing, by their names or those of their keys.
    pub fn wanted(&self) -> &[Name] {
        self.trust.wanted()
    }

    /// The last packets that failed, the oldest first.
    pub fn failures(&self) -> impl Iterator<Item = &Failure> {
        self.failures.iter()
    }

    /// What became of packets so far.
    pub const fn verified(&self) -> Verified {
        self.verified
    }

    /// Packets that wait for jobs to be done.
    pub fn held(&self) -> usize {
        self.held.len() - self.places_free.len()
    }

    /// The next job that nobody has taken; `None` when no packet waits for one.
    fn next_job(&mut self) -> Option<Box<VerifyJob>> {
        if let Some(job) = self.ready.pop_front() {
            return Some(job);
        }
        if self.filling.is_empty() { None } else { Some(self.full_one()) }
    }

    /// The job that is being filled; an empty one is in its place then.
    fn full_one(&mut self) -> Box<VerifyJob> {
        let len = self.config.job_len;
        let empty = self.spare.pop().unwrap_or_else(|| Box::new(VerifyJob::with_capacity(len)));
        core::mem::replace(&mut self.filling, empty)
    }

    /// Takes back a job that was run; its packets leave.
    fn done(&mut self, now: Instant, mut job: Box<VerifyJob>, context: &mut Context<'_, Out>) {
        for item in job.items.drain(..) {
            context.pool.end_loan(item.octets);
            let Some(Held { packet, seal }) = self.held[item.place].take() else { continue };
            self.places_free.push(item.place);
            if let Some((mark, seal)) = seal {
                self.cache.remember(mark, seal, item.valid);
            }
            self.finish(now, packet, if item.valid { Ok(()) } else { Err(Fault::Mismatch) }, context);
        }
        self.spare.push(job);
    }

    #[inline]
    fn packet(&mut self, now: Instant, packet: Packet, context: &mut Context<'_, Out>) {
        let (bytes, meta) = context.pool.view(&packet);
        let task = match meta.kind {
            Kind::Nack => {
                self.verified.unsigned += 1;
                Task::Pass
            }
            Kind::Interest => self.interest(now, bytes, meta.prefixes.key()),
            Kind::Data => self.data(now, bytes, meta.prefixes.key()),
        };
        let (by, parts, signature, seal) = match task {
            Task::Pass => return context.out.send(Out::Valid, packet),
            Task::Fail(fault) => return self.finish(now, packet, Err(fault), context),
            Task::Verify { by, parts, signature, seal } => (by, parts, signature, seal),
        };
        let seal = match seal {
            Seal::No => None,
            Seal::Of(mark) => {
                let seal = sha256(&[parts[0], parts[1], parts[2], signature]);
                if let Some(valid) = self.cache.result(mark, &seal) {
                    self.verified.from_results += 1;
                    let result = if valid { Ok(()) } else { Err(Fault::Mismatch) };
                    return self.finish(now, packet, result, context);
                }
                Some((mark, seal))
            }
        };
        let place = match self.places_free.pop() {
            None if self.held.len() < self.config.held_max => {
                self.held.push(None);
                self.held.len() - 1
            }
            None => {
                let valid = by.verify(whole(&parts), signature);
                if let Some((mark, seal)) = seal {
                    self.cache.remember(mark, seal, valid);
                }
                return self.finish(now, packet, if valid { Ok(()) } else { Err(Fault::Mismatch) }, context);
            }
            Some(place) => place,
        };
        let signed = Signed::of(bytes, &parts, signature);
        self.filling.push(by, context.pool.lend(&packet), signed, place);
        self.held[place] = Some(Held { packet, seal });
        if self.filling.items.len() >= self.config.job_len {
            let job = self.full_one();
            self.ready.push_back(job);
        }
    }

    fn data<'a>(&mut self, now: Instant, bytes: &'a [u8], hash: u64) -> Task<'a> {
        if !self.is_in_sample() {
            self.verified.skipped += 1;
            return Task::Pass;
        }
        // Forwarding looked at what it needs only.
        let Ok(data) = Data::check(bytes) else { return Task::Fail(Fault::Unsigned) };
        if data.content_type() == content_type::KEY && self.trust.wants(data.name()) {
            let _: Result<(), Refusal> = self.trust.add_certificate(bytes);
        }
        let (info, name) = (data.signature_info(), data.name());
        self.task(now, &info, name, hash, [data.signed_portion(), &[], &[]], data.signature_value())
    }

    fn interest<'a>(&mut self, now: Instant, bytes: &'a [u8], hash: u64) -> Task<'a> {
        let Ok(interest) = Interest::check(bytes) else { return Task::Fail(Fault::Unsigned) };
        let (Some(info), Some(parts), Some(signature)) =
            (interest.signature_info(), interest.signed_portion(), interest.signature_value())
        else {
            self.verified.unsigned += 1;
            return Task::Pass;
        };
        if !self.is_in_sample() {
            self.verified.skipped += 1;
            return Task::Pass;
        }
        self.task(now, &info, interest.name(), hash, parts, signature)
    }

    fn task<'a>(
        &mut self,
        now: Instant,
        info: &SignatureInfo<'_>,
        name: NameRef<'_>,
        hash: u64,
        parts: [&'a [u8]; 3],
        signature: &'a [u8],
    ) -> Task<'a> {
        let typ = info.typ();
        if typ == SignatureType::DigestSha256 {
            return match self.trust.accept_digest {
                true => Task::Verify { by: By::Digest, parts, signature, seal: Seal::No },
                false => Task::Fail(Fault::Unsigned),
            };
        }
        let Some(locator) = info.key_locator() else { return Task::Fail(Fault::UnknownKey) };
        let key = match self.trust.key(now, locator, name) {
            Ok(key) => key,
            Err(fault) => return Task::Fail(fault),
        };
        // A digest of all octets costs as much as an HMAC.
        let seal = match typ {
            SignatureType::HmacWithSha256 => Seal::No,
            _ => {
                let mark = mark(hash, signature);
                if self.cache.look(mark) == Known::Seen { Seal::Of(mark) } else { Seal::No }
            }
        };
        Task::Verify { by: By::Key(key, typ), parts, signature, seal }
    }

    fn is_in_sample(&mut self) -> bool {
        self.sample == u64::MAX || self.generator.draw() < self.sample
    }

    #[inline]
    fn finish(
        &mut self,
        now: Instant,
        packet: Packet,
        result: Result<(), Fault>,
        context: &mut Context<'_, Out>,
    ) {
        let Err(fault) = result else {
            self.verified.valid += 1;
            return context.out.send(Out::Valid, packet);
        };
        self.verified.invalid += 1;
        let (bytes, meta) = context.pool.view(&packet);
        self.failures.note(now, meta.name_in(bytes), fault, meta.ingress);
        if self.drop_invalid {
            context.pool.drop_packet(packet, Cause::SignatureInvalid, context.drops);
        } else {
            context.out.send(Out::Invalid, packet);
        }
    }
}

/// Tells packets apart, nearly always; not 0.
fn mark(hash: u64, signature: &[u8]) -> u64 {
    let mut last = [0; 8];
    let len = signature.len().min(8);
    last[..len].copy_from_slice(&signature[signature.len() - len..]);
    // The start of an ECDSA signature is the same in all of them.
    (hash ^ u64::from_le_bytes(last)).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1
}

impl Element for SignatureVerifier {
    type In = In;
    type Out = Out;

    fn usual(_: In) -> Option<Out> {
        Some(Out::Valid)
    }

    fn process(&mut self, now: Instant, port: In, packet: Packet, context: &mut Context<'_, Out>) {
        let In::Packet = port;
        self.packet(now, packet, context);
    }

    fn wall_clock_set(&mut self, now: Instant, unix_ms: u64) {
        if self.follows_clock {
            self.set_clock(now, unix_ms);
        }
    }

    fn is_idle(&self) -> bool {
        self.held() == 0
    }

    fn deadline(&self) -> Option<Instant> {
        (!self.ready.is_empty() || !self.filling.is_empty()).then_some(Instant::START)
    }

    fn take_work(&mut self) -> Option<Box<dyn Work>> {
        Some(self.next_job()?)
    }

    fn finish_work(&mut self, now: Instant, work: Box<dyn Work>, context: &mut Context<'_, Out>) {
        let work: Box<dyn Any> = work;
        // Nothing else was given out.
        if let Ok(job) = work.downcast::<VerifyJob>() {
            self.done(now, job, context);
        }
    }

    fn give_up(&mut self, context: &mut Context<'_, Out>) {
        self.filling.give_up(context.pool);
        self.ready.drain(..).for_each(|mut job| job.give_up(context.pool));
        for (place, held) in self.held.iter_mut().enumerate() {
            if let Some(Held { packet, .. }) = held.take() {
                self.places_free.push(place);
                context.pool.drop_packet(packet, Cause::Draining, context.drops);
            }
        }
    }

    /// Does work that nobody has taken, a job of it.
    fn tick(&mut self, now: Instant, context: &mut Context<'_, Out>) {
        if let Some(mut job) = self.next_job() {
            job.run();
            self.done(now, job, context);
        }
    }
}

#[cfg(test)]
mod tests;
