//! Limits the rate of Interests per face and per prefix, and further for faces whose Interests are
//! not answered.
//!
//! ```text
//! In:     interest, data, nack
//! Out:    interest, data, nack
//! Needs:  interest: ingress, name, prefixes; data, nack: egress (the downstream)
//! Sets:   nack of its own: egress (the downstream), link.nack
//! State:  a bucket and a satisfaction ratio per face; a bucket per limited prefix, up to a number
//! Timers: none: periods end with the next packet
//! Cost:   one cache line for the face, one per length of name at which there are limits
//! Drops:  rate_limited, face_gone (an Interest of an unknown face)
//! Spec:   NDNLPv2, Nack reason Congestion; satisfaction-based Interest acceptance, see below
//! ```
//!
//! Each face has a token bucket; each limited prefix has one for all faces together, and of several
//! prefixes of a name the longest counts. An Interest passes if both have a token. Otherwise it is
//! dropped, or answered by Nack(Congestion) if the link has one peer; both count as `rate_limited`.
//!
//! Interest flooding requests names that do not exist, so the satisfaction ratio of a face (the
//! share of its Interests that are answered) tells a flood from heavy use: Afanasyev, Mahadevan,
//! Moiseenko, Uzun, Zhang, "Interest Flooding Attack and Countermeasures in Named Data Networking",
//! IFIP Networking 2013. As there, each face's limit is proportional to its ratio and enforced at
//! every hop, so that a flood is pushed back to its source. A face's rate is the configured rate
//! times its ratio, but never below a minimum share, so that a face can recover. Data to the face
//! raises the ratio; a reply timeout or a Nack lowers it, except Nack(Congestion) and
//! Nack(Duplicate), which say nothing about its names. So replies must pass this element with
//! egress set: next to the faces, or in a chain.

mod bucket;
mod satisfaction;

pub use crate::by_kind::{ByKind as In, ByKind as Out};
pub use bucket::Rate;

use crate::name_router::make_nack;
use bucket::Bucket;
use core::time::Duration;
use nw_element_api::{
    Context, DropCause, Element, FaceId, FaceInfo, LinkType, Packet, Pool, Timestamp,
};
use nw_name::{HashKey, Name, NameRef};
use nw_tables::prefix_map::{PrefixMap, PrefixMapError};
use nw_wire::NackReason;
use satisfaction::{SHARE_FULL, Satisfaction};

/// Configuration of a rate limiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimiterConfig {
    /// Most prefixes with limits.
    pub prefixes_max: usize,
    /// The limits, which can be changed later.
    pub limits: Limits,
}

impl Default for RateLimiterConfig {
    /// No limits.
    fn default() -> Self {
        RateLimiterConfig { prefixes_max: 1 << 12, limits: Limits::default() }
    }
}

/// Limits that apply to all faces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The rate limit of each face; `None` for no limit.
    pub face: Option<Rate>,
    /// Thousandths of its rate that a face keeps even if none of its Interests is answered, at
    /// least 1. 1000: the satisfaction ratio is not used.
    pub share_min_milli: u32,
    /// Time within which a reply counts as an answer. A reply that takes up to twice as long may
    /// still count.
    pub reply_timeout: Duration,
    /// Whether rejected Interests are answered by a Nack if the link has one peer.
    pub nacks: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            face: None,
            share_min_milli: 10,
            reply_timeout: Duration::from_secs(2),
            nacks: false,
        }
    }
}

/// State of one face.
#[derive(Clone, Copy, Debug)]
struct Face {
    id: FaceId,
    link_type: LinkType,
    /// Created with the face's first Interest.
    state: Option<(Bucket, Satisfaction)>,
    limited: u64,
}

/// State of one limited prefix.
#[derive(Clone, Copy, Debug)]
struct Prefix {
    rate: Rate,
    bucket: Option<Bucket>,
    limited: u64,
}

/// Status of one face.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaceStatus {
    /// The face.
    pub face: FaceId,
    /// Current satisfaction ratio in thousandths.
    pub satisfied_milli: u32,
    /// Interests rejected so far.
    pub limited: u64,
}

/// The rate limiter element.
#[derive(Debug)]
pub struct RateLimiter {
    limits: Limits,
    /// By face slot.
    faces: Vec<Option<Face>>,
    prefixes: PrefixMap<Prefix>,
}

impl RateLimiter {
    /// Creates a limiter without faces and prefix limits. `key` must be the key that packets are
    /// decoded with.
    pub fn new(key: HashKey, config: RateLimiterConfig) -> Self {
        let mut limiter = RateLimiter {
            limits: Limits::default(),
            faces: Vec::new(),
            prefixes: PrefixMap::new(key, config.prefixes_max),
        };
        limiter.set_limits(config.limits);
        limiter
    }

    /// Changes the limits. Counts and buckets are kept.
    pub fn set_limits(&mut self, limits: Limits) {
        let share_min_milli = limits.share_min_milli.clamp(1, SHARE_FULL);
        let reply_timeout = limits.reply_timeout.max(Duration::from_millis(1));
        self.limits = Limits { share_min_milli, reply_timeout, ..limits };
    }

    /// Sets the limit of a prefix, replacing an earlier one. If the rate is the same, its bucket is
    /// kept.
    ///
    /// # Errors
    /// When there are too many limits, or the prefix is too long; nothing has changed then.
    pub fn set_prefix_limit(
        &mut self,
        prefix: NameRef<'_>,
        rate: Rate,
    ) -> Result<(), PrefixMapError> {
        match self.prefixes.exact(prefix) {
            Some(place) if self.prefixes.value(place).rate == rate => Ok(()),
            _ => self.prefixes.insert(prefix, Prefix { rate, bucket: None, limited: 0 }).map(drop),
        }
    }

    /// Removes a prefix's limit. Returns whether there was one.
    pub fn remove_prefix_limit(&mut self, prefix: NameRef<'_>) -> bool {
        self.prefixes.remove(prefix).is_some()
    }

    /// Returns the prefixes with their limits and the Interests rejected so far, sorted by name.
    pub fn prefix_limits(&self) -> Vec<(Name, Rate, u64)> {
        let mut limits: Vec<_> = self
            .prefixes
            .iter()
            .map(|(name, prefix)| (name.to_name(), prefix.rate, prefix.limited))
            .collect();
        limits.sort_by(|(a, ..), (b, ..)| a.cmp(b));
        limits
    }

    /// Returns the status of all faces.
    pub fn faces(&self) -> impl Iterator<Item = FaceStatus> {
        self.faces.iter().flatten().map(|face| FaceStatus {
            face: face.id,
            satisfied_milli: face
                .state
                .map_or(SHARE_FULL, |(_, satisfaction)| satisfaction.share()),
            limited: face.limited,
        })
    }

    /// Passes an Interest if both its face and its prefix have a token, or rejects it.
    #[inline]
    fn interest(&mut self, now: Timestamp, packet: Packet, context: &mut Context<'_, Out>) {
        let (bytes, meta) = context.pool.view(&packet);
        let slot = meta.ingress.slot();
        let Some(Some(face)) =
            self.faces.get_mut(slot).filter(|f| f.is_some_and(|f| f.id == meta.ingress))
        else {
            return context.pool.drop_packet(packet, DropCause::FaceGone, context.drops);
        };
        let limits = &self.limits;
        let rate = limits.face.unwrap_or(Rate { per_s: 0, burst: 1 });
        let (bucket, satisfaction) = face.state.get_or_insert_with(|| {
            (Bucket::new(now, rate), Satisfaction::new(now, limits.reply_timeout))
        });
        satisfaction.roll(now, limits.reply_timeout);
        let share = satisfaction.share().max(limits.share_min_milli);
        let within_face = limits.face.is_none() || bucket.has_token(now, rate, share);

        let prefix = match self.prefixes.is_empty() {
            true => None,
            false => self.prefixes.longest(meta.name_in(bytes), &meta.prefixes),
        };
        let mut prefix = prefix.map(|place| self.prefixes.value_mut(place));
        let within_prefix = prefix.as_mut().is_none_or(|prefix| {
            let bucket = prefix.bucket.get_or_insert_with(|| Bucket::new(now, prefix.rate));
            bucket.has_token(now, prefix.rate, SHARE_FULL)
        });

        if within_face && within_prefix {
            bucket.take();
            if let Some(bucket) = prefix.and_then(|prefix| prefix.bucket.as_mut()) {
                bucket.take();
            }
            satisfaction.on_interest();
            return context.out.send(Out::Interest, packet);
        }
        face.limited += u64::from(!within_face);
        if let Some(prefix) = prefix.filter(|_| !within_prefix) {
            prefix.limited += 1;
        }
        if !limits.nacks || face.link_type != LinkType::PointToPoint {
            return context.pool.drop_packet(packet, DropCause::RateLimited, context.drops);
        }
        context.drops.count(DropCause::RateLimited);
        make_nack(context.pool, &packet, NackReason::Congestion);
        context.out.send(Out::Nack, packet);
    }

    /// Counts a reply to a face.
    #[inline]
    fn reply(&mut self, now: Timestamp, port: In, packet: &Packet, pool: &Pool) {
        let meta = pool.meta(packet);
        let Some(Some(face)) = self.faces.get_mut(meta.egress.slot()) else { return };
        let Some((_, satisfaction)) = face.state.as_mut().filter(|_| face.id == meta.egress) else {
            return;
        };
        satisfaction.roll(now, self.limits.reply_timeout);
        satisfaction.on_reply(match (port, meta.link.nack) {
            (In::Nack, Some(NackReason::Congestion | NackReason::Duplicate)) => None,
            (In::Nack, _) => Some(false),
            _ => Some(true),
        });
    }
}

impl Element for RateLimiter {
    type In = In;
    type Out = Out;

    fn outputs_for(port: In) -> &'static [Out] {
        match port {
            In::Interest => &[Out::Interest, Out::Nack],
            In::Data => &[Out::Data],
            In::Nack => &[Out::Nack],
        }
    }

    fn main_output(port: In) -> Option<Out> {
        Some(match port {
            In::Interest => Out::Interest,
            In::Data => Out::Data,
            In::Nack => Out::Nack,
        })
    }

    #[inline]
    fn process(
        &mut self,
        now: Timestamp,
        port: In,
        packet: Packet,
        context: &mut Context<'_, Out>,
    ) {
        match port {
            In::Interest => self.interest(now, packet, context),
            In::Data | In::Nack => {
                self.reply(now, port, &packet, context.pool);
                context.out.send(if port == In::Data { Out::Data } else { Out::Nack }, packet);
            }
        }
    }

    fn face_added(&mut self, face: FaceId, info: FaceInfo) {
        if self.faces.len() <= face.slot() {
            self.faces.resize(face.slot() + 1, None);
        }
        match &mut self.faces[face.slot()] {
            Some(known) if known.id == face => known.link_type = info.link_type,
            slot => {
                *slot = Some(Face { id: face, link_type: info.link_type, state: None, limited: 0 })
            }
        }
    }

    fn face_gone(&mut self, _: Timestamp, face: FaceId) {
        if let Some(slot) =
            self.faces.get_mut(face.slot()).filter(|f| f.is_some_and(|f| f.id == face))
        {
            *slot = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nw_element_api::Scope;
    use nw_testkit::bench::{KEY, TestBench, as_nack, data, face, interest, name, ports};

    /// Faces 300 and 301 have one peer each, 302 has many.
    fn bench(limits: Limits) -> TestBench<RateLimiter> {
        let mut bench =
            TestBench::new(RateLimiter::new(KEY, RateLimiterConfig { prefixes_max: 2, limits }));
        for number in 300..303 {
            let link_type =
                if number == 302 { LinkType::MultiAccess } else { LinkType::PointToPoint };
            bench.element.face_added(face(number), FaceInfo { scope: Scope::NonLocal, link_type });
        }
        bench
    }

    /// Sends an Interest and returns whether it passes.
    fn passes(bench: &mut TestBench<RateLimiter>, from: u32, uri: &str) -> bool {
        ports(&bench.process(In::Interest, &interest(uri, 1), |meta| meta.ingress = face(from)))
            == ["interest"]
    }

    fn reply(bench: &mut TestBench<RateLimiter>, to: u32) {
        let emitted = bench.process(In::Data, &data("/a"), |meta| meta.egress = face(to));
        assert_eq!(ports(&emitted), ["data"]);
    }

    fn limits(per_s: u32, burst: u32) -> Limits {
        Limits {
            face: Some(Rate { per_s, burst }),
            share_min_milli: SHARE_FULL,
            ..Limits::default()
        }
    }

    #[test]
    fn faces_have_separate_rates() {
        let mut bench = bench(limits(10, 3));
        for from in [300, 301] {
            let passed = (0..10).filter(|_| passes(&mut bench, from, "/a")).count();
            assert_eq!(passed, 3);
        }
        bench.advance_ms(1000);
        assert_eq!(
            (0..10).filter(|_| passes(&mut bench, 300, "/a")).count(),
            3,
            "no more than the burst"
        );
        bench.advance_ms(100);
        assert_eq!((0..10).filter(|_| passes(&mut bench, 300, "/a")).count(), 1);
        assert!(!passes(&mut bench, 999, "/a"), "an unknown face");
        assert_eq!(
            (bench.drops.total(DropCause::RateLimited), bench.drops.total(DropCause::FaceGone)),
            (30, 1)
        );
        let status: Vec<_> = bench.element.faces().map(|f| (f.face.bits(), f.limited)).collect();
        assert_eq!(status, [(300, 23), (301, 7), (302, 0)]);
        bench.element.face_gone(Timestamp::START, face(301));
        assert_eq!(bench.element.faces().count(), 2);
    }

    #[test]
    fn longest_limited_prefix_counts() {
        let mut bench = bench(Limits::default());
        let rate = |burst| Rate { per_s: 1, burst };
        bench.element.set_prefix_limit(name("/a").as_ref(), rate(2)).unwrap();
        bench.element.set_prefix_limit(name("/a/b").as_ref(), rate(4)).unwrap();
        assert_eq!(
            bench.element.set_prefix_limit(name("/c").as_ref(), rate(1)),
            Err(PrefixMapError::Full)
        );
        let count = |bench: &mut TestBench<RateLimiter>, uri: &str| {
            (0..10).filter(|n| passes(bench, 300 + n % 2, uri)).count()
        };
        assert_eq!(count(&mut bench, "/a/x"), 2, "of all faces together");
        assert_eq!(count(&mut bench, "/a/b/x"), 4);
        assert_eq!(count(&mut bench, "/b"), 10);
        // Setting the same limit again changes nothing.
        bench.element.set_prefix_limit(name("/a").as_ref(), rate(2)).unwrap();
        assert_eq!(count(&mut bench, "/a"), 0);
        assert_eq!(bench.element.prefix_limits()[0], (name("/a"), rate(2), 18));
        assert!(bench.element.remove_prefix_limit(name("/a").as_ref()));
        assert_eq!(count(&mut bench, "/a"), 10);
    }

    /// A rejection by the prefix takes no token from the face.
    #[test]
    fn interest_needs_a_token_of_face_and_prefix() {
        let mut bench = bench(limits(1, 2));
        bench.element.set_prefix_limit(name("/a").as_ref(), Rate { per_s: 1, burst: 1 }).unwrap();
        assert!(passes(&mut bench, 300, "/a") && !passes(&mut bench, 300, "/a"));
        assert!(passes(&mut bench, 300, "/b") && !passes(&mut bench, 300, "/b"));
    }

    #[test]
    fn rejected_interest_returns_congestion_nack_on_point_to_point_face() {
        let mut bench = bench(Limits { nacks: true, ..limits(1, 1) });
        assert!(passes(&mut bench, 300, "/a") && passes(&mut bench, 302, "/a"));
        let emitted =
            bench.process(In::Interest, &interest("/a", 1), |meta| meta.ingress = face(300));
        assert_eq!((ports(&emitted), emitted[0].egress), (vec!["nack"], face(300)));
        assert_eq!(emitted[0].link.nack, Some(NackReason::Congestion));
        assert!(!passes(&mut bench, 302, "/a"), "a multi-access face gets no Nack");
        assert_eq!(bench.drops.total(DropCause::RateLimited), 2);
    }

    /// Two faces send Interests at the same rate: one for names that exist, one for names that do
    /// not.
    #[test]
    fn flooding_face_is_throttled_alone() {
        let limits = Limits {
            reply_timeout: Duration::from_secs(1),
            share_min_milli: 20,
            ..limits(100, 10)
        };
        let mut bench = bench(limits);
        let mut passed = [0; 2];
        for turn in 0..6000 {
            bench.advance_ms(10);
            if turn == 3000 {
                passed = [0; 2];
            }
            if passes(&mut bench, 300, "/good") {
                passed[0] += 1;
                reply(&mut bench, 300);
            }
            passed[1] += i32::from(passes(&mut bench, 301, "/flood"));
        }
        // 30 s: 100 per second, and 2 % of that.
        assert!(passed[0] >= 2990 && (50..=90).contains(&passed[1]), "{passed:?}");
        let shares: Vec<_> = bench.element.faces().map(|f| f.satisfied_milli).collect();
        assert!(shares[0] == SHARE_FULL && shares[1] < 300, "{shares:?}");
        // The face now requests names that exist.
        passed = [0; 2];
        for _ in 0..3000 {
            bench.advance_ms(10);
            if passes(&mut bench, 301, "/good") {
                passed[1] += 1;
                reply(&mut bench, 301);
            }
        }
        assert!(passed[1] > 2000, "{passed:?}");
    }

    #[test]
    fn nacks_lower_the_ratio_except_congestion() {
        for (reason, is_lowered) in [(NackReason::NoRoute, true), (NackReason::Congestion, false)] {
            let mut bench = bench(Limits { share_min_milli: 20, ..limits(100, 10) });
            for _ in 0..2000 {
                bench.advance_ms(10);
                if passes(&mut bench, 300, "/a") {
                    let nack = as_nack(reason);
                    let emitted = bench.process(In::Nack, &interest("/a", 1), |meta| {
                        nack(meta);
                        meta.egress = face(300);
                    });
                    assert_eq!(ports(&emitted), ["nack"]);
                }
            }
            let share = bench.element.faces().next().unwrap().satisfied_milli;
            assert_eq!(share < 300, is_lowered, "{reason:?}: {share}");
        }
    }
}
