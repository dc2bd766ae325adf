//! Holds faces and prefixes to rates of Interests, and faces that flood to less.
//!
//! ```text
//! In:     interest, data, nack
//! Out:    interest, data, nack
//! Needs:  interest: ingress, name, prefixes; data, nack: egress (whom it goes to)
//! Sets:   nack of its own: egress (the asker), link.nack
//! State:  a bucket and a share for each face there is; a bucket for each prefix with a limit, up to a number
//! Timers: none: periods end with the next packet
//! Cost:   one cache line for the face, one for each length of name at which there are limits
//! Drops:  rate_limited, face_gone (an Interest of a face that is not known)
//! Spec:   NDNLPv2, Nack reason Congestion; satisfaction-based Interest acceptance, see below
//! ```
//!
//! Each face has a token bucket, and each prefix that was given a limit has one for all faces; of several prefixes of a name the longest counts. An
//! Interest passes when both have room. What has none is dropped, or answered by Nack(Congestion) where the link has one peer; both count as `rate_limited`.
//!
//! Interest flooding asks for names that nobody answers, so the share of Interests that are answered tells a flood from many questions (Afanasyev, Mahadevan, Moiseenko,
//! Uzun, Zhang, "Interest Flooding Attack and Countermeasures in Named Data Networking", IFIP Networking 2013: each neighbour's limit in proportion to
//! its satisfaction ratio, enforced hop by hop, so that a flood is pushed back to where it begins). Here a face's rate is the given one times its
//! share, and never below a least share, so that a face can show that it has changed. Data to the face speak for it; silence for longer than
//! `patience` and Nacks speak against it, but for Nack(Congestion) and Nack(Duplicate), which say nothing of its names. So answers must pass
//! here, with egress set: next to the faces, or in a chain.

mod bucket;
mod satisfaction;

pub use crate::by_kind::{ByKind as In, ByKind as Out};
pub use bucket::Rate;

use crate::name_router::make_nack;
use bucket::Bucket;
use core::time::Duration;
use nw_element_api::{Cause, Context, Element, FaceId, FaceInfo, Instant, LinkType, Packet, Pool};
use nw_name::{HashKey, Name, NameRef};
use nw_tables::prefix_map::{PrefixMap, PrefixMapError};
use nw_wire::NackReason;
use satisfaction::{ALL, Satisfaction};

/// What a rate limiter is made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimiterConfig {
    /// Prefixes with limits, at most.
    pub prefixes_max: usize,
    /// What may be changed later.
    pub limits: Limits,
}

impl Default for RateLimiterConfig {
    /// No limit at all.
    fn default() -> Self {
        RateLimiterConfig { prefixes_max: 1 << 12, limits: Limits::default() }
    }
}

/// Limits that hold for all faces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Of each face.
    pub face: Option<Rate>,
    /// Thousandths of its rate that a face keeps whatever becomes of its Interests, at least 1; 1000: satisfaction is not looked at.
    pub share_min_milli: u32,
    /// How long an answer may take; one that takes up to twice as long may still count.
    pub patience: Duration,
    /// Answers what is too much by a Nack, where the link has one peer.
    pub nacks: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { face: None, share_min_milli: 10, patience: Duration::from_secs(2), nacks: false }
    }
}

#[derive(Clone, Copy, Debug)]
struct Face {
    id: FaceId,
    link_type: LinkType,
    /// From its first packet on.
    state: Option<(Bucket, Satisfaction)>,
    limited: u64,
}

#[derive(Clone, Copy, Debug)]
struct Prefix {
    rate: Rate,
    bucket: Option<Bucket>,
    limited: u64,
}

/// What is known of one face, for status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaceStatus {
    /// Which one.
    pub face: FaceId,
    /// Thousandths of its Interests that are answered, of late.
    pub satisfied_milli: u32,
    /// Interests that were too many, so far.
    pub limited: u64,
}

/// See the module.
#[derive(Debug)]
pub struct RateLimiter {
    limits: Limits,
    /// By slot.
    faces: Vec<Option<Face>>,
    prefixes: PrefixMap<Prefix>,
}

impl RateLimiter {
    /// Without faces and limits of prefixes. `key` is the one packets are decoded with.
    pub fn new(key: HashKey, config: RateLimiterConfig) -> Self {
        let mut limiter = RateLimiter {
            limits: Limits::default(),
            faces: Vec::new(),
            prefixes: PrefixMap::new(key, config.prefixes_max),
        };
        limiter.set_limits(config.limits);
        limiter
    }

    /// Other limits from now on; what was counted stays.
    pub fn set_limits(&mut self, limits: Limits) {
        let share_min_milli = limits.share_min_milli.clamp(1, ALL);
        let patience = limits.patience.max(Duration::from_millis(1));
        self.limits = Limits { share_min_milli, patience, ..limits };
    }

    /// Gives a prefix a limit, in place of what was; what is left of that stays if the limit is the same.
    ///
    /// # Errors
    /// When there are as many as there may be, or the prefix is too long; nothing has changed then.
    pub fn set_prefix_limit(&mut self, prefix: NameRef<'_>, rate: Rate) -> Result<(), PrefixMapError> {
        match self.prefixes.exact(prefix) {
            Some(place) if self.prefixes.value(place).rate == rate => Ok(()),
            _ => self.prefixes.insert(prefix, Prefix { rate, bucket: None, limited: 0 }).map(drop),
        }
    }

    /// Takes a prefix's limit away; false when it has none.
    pub fn remove_prefix_limit(&mut self, prefix: NameRef<'_>) -> bool {
        self.prefixes.remove(prefix).is_some()
    }

    /// Prefixes with their limits, and the Interests that were too many so far.
    pub fn prefix_limits(&self) -> Vec<(Name, Rate, u64)> {
        let mut limits: Vec<_> = self
            .prefixes
            .iter()
            .map(|(name, prefix)| (name.to_name(), prefix.rate, prefix.limited))
            .collect();
        limits.sort_by(|(a, ..), (b, ..)| a.cmp(b));
        limits
    }

    /// All faces.
    pub fn faces(&self) -> impl Iterator<Item = FaceStatus> {
        self.faces.iter().flatten().map(|face| FaceStatus {
            face: face.id,
            satisfied_milli: face.state.map_or(ALL, |(_, satisfaction)| satisfaction.share()),
            limited: face.limited,
        })
    }

    #[inline]
    fn interest(&mut self, now: Instant, packet: Packet, context: &mut Context<'_, Out>) {
        let (bytes, meta) = context.pool.view(&packet);
        let slot = meta.ingress.slot();
        let Some(Some(face)) = self.faces.get_mut(slot).filter(|f| f.is_some_and(|f| f.id == meta.ingress))
        else {
            return context.pool.drop_packet(packet, Cause::FaceGone, context.drops);
        };
        let limits = &self.limits;
        let rate = limits.face.unwrap_or(Rate { per_s: 0, burst: 1 });
        let (bucket, satisfaction) = face
            .state
            .get_or_insert_with(|| (Bucket::new(now, rate), Satisfaction::new(now, limits.patience)));
        satisfaction.roll(now, limits.patience);
        let share = satisfaction.share().max(limits.share_min_milli);
        let within_face = limits.face.is_none() || bucket.has(now, rate, share);

        let prefix = match self.prefixes.is_empty() {
            true => None,
            false => self.prefixes.longest(meta.name_in(bytes), &meta.prefixes),
        };
        let mut prefix = prefix.map(|place| self.prefixes.value_mut(place));
        let within_prefix = prefix.as_mut().is_none_or(|prefix| {
            let bucket = prefix.bucket.get_or_insert_with(|| Bucket::new(now, prefix.rate));
            bucket.has(now, prefix.rate, ALL)
        });

        if within_face && within_prefix {
            bucket.take();
            if let Some(bucket) = prefix.and_then(|prefix| prefix.bucket.as_mut()) {
                bucket.take();
            }
            satisfaction.asked();
            return context.out.send(Out::Interest, packet);
        }
        face.limited += u64::from(!within_face);
        if let Some(prefix) = prefix.filter(|_| !within_prefix) {
            prefix.limited += 1;
        }
        if !limits.nacks || face.link_type != LinkType::PointToPoint {
            return context.pool.drop_packet(packet, Cause::RateLimited, context.drops);
        }
        context.drops.count(Cause::RateLimited);
        make_nack(context.pool, &packet, NackReason::Congestion);
        context.out.send(Out::Nack, packet);
    }

    /// Something goes to a face.
    #[inline]
    fn answer(&mut self, now: Instant, port: In, packet: &Packet, pool: &Pool) {
        let meta = pool.meta(packet);
        let Some(Some(face)) = self.faces.get_mut(meta.egress.slot()) else { return };
        let Some((_, satisfaction)) = face.state.as_mut().filter(|_| face.id == meta.egress) else { return };
        satisfaction.roll(now, self.limits.patience);
        satisfaction.answered(match (port, meta.link.nack) {
            (In::Nack, Some(NackReason::Congestion | NackReason::Duplicate)) => None,
            (In::Nack, _) => Some(false),
            _ => Some(true),
        });
    }
}

impl Element for RateLimiter {
    type In = In;
    type Out = Out;

    fn leads(port: In) -> &'static [Out] {
        match port {
            In::Interest => &[Out::Interest, Out::Nack],
            In::Data => &[Out::Data],
            In::Nack => &[Out::Nack],
        }
    }

    fn usual(port: In) -> Option<Out> {
        Some(match port {
            In::Interest => Out::Interest,
            In::Data => Out::Data,
            In::Nack => Out::Nack,
        })
    }

    #[inline]
    fn process(&mut self, now: Instant, port: In, packet: Packet, context: &mut Context<'_, Out>) {
        match port {
            In::Interest => self.interest(now, packet, context),
            In::Data | In::Nack => {
                self.answer(now, port, &packet, context.pool);
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
            place => *place = Some(Face { id: face, link_type: info.link_type, state: None, limited: 0 }),
        }
    }

    fn face_gone(&mut self, _: Instant, face: FaceId) {
        if let Some(place) = self.faces.get_mut(face.slot()).filter(|f| f.is_some_and(|f| f.id == face)) {
            *place = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::{KEY, Lab, as_nack, data, face, interest, name, ports};
    use nw_element_api::Scope;

    /// 300 and 301 have one peer each, 302 has many.
    fn lab(limits: Limits) -> Lab<RateLimiter> {
        let mut lab = Lab::new(RateLimiter::new(KEY, RateLimiterConfig { prefixes_max: 2, limits }));
        for number in 300..303 {
            let link_type = if number == 302 { LinkType::MultiAccess } else { LinkType::PointToPoint };
            lab.element.face_added(face(number), FaceInfo { scope: Scope::NonLocal, link_type });
        }
        lab
    }

    /// True when it passes.
    fn ask(lab: &mut Lab<RateLimiter>, from: u32, uri: &str) -> bool {
        ports(&lab.give(In::Interest, &interest(uri, 1), |meta| meta.ingress = face(from))) == ["interest"]
    }

    fn answer(lab: &mut Lab<RateLimiter>, to: u32) {
        let left = lab.give(In::Data, &data("/a"), |meta| meta.egress = face(to));
        assert_eq!(ports(&left), ["data"]);
    }

    fn limits(per_s: u32, burst: u32) -> Limits {
        Limits { face: Some(Rate { per_s, burst }), share_min_milli: ALL, ..Limits::default() }
    }

    #[test]
    fn each_face_has_its_rate() {
        let mut lab = lab(limits(10, 3));
        for from in [300, 301] {
            let passed = (0..10).filter(|_| ask(&mut lab, from, "/a")).count();
            assert_eq!(passed, 3);
        }
        lab.advance_ms(1000);
        assert_eq!((0..10).filter(|_| ask(&mut lab, 300, "/a")).count(), 3, "no more than the burst");
        lab.advance_ms(100);
        assert_eq!((0..10).filter(|_| ask(&mut lab, 300, "/a")).count(), 1);
        assert!(!ask(&mut lab, 999, "/a"), "a face nobody knows");
        assert_eq!((lab.drops.total(Cause::RateLimited), lab.drops.total(Cause::FaceGone)), (30, 1));
        let status: Vec<_> = lab.element.faces().map(|f| (f.face.bits(), f.limited)).collect();
        assert_eq!(status, [(300, 23), (301, 7), (302, 0)]);
        lab.element.face_gone(Instant::START, face(301));
        assert_eq!(lab.element.faces().count(), 2);
    }

    #[test]
    fn prefixes_have_theirs_and_the_longest_counts() {
        let mut lab = lab(Limits::default());
        let rate = |burst| Rate { per_s: 1, burst };
        lab.element.set_prefix_limit(name("/a").as_ref(), rate(2)).unwrap();
        lab.element.set_prefix_limit(name("/a/b").as_ref(), rate(4)).unwrap();
        assert_eq!(lab.element.set_prefix_limit(name("/c").as_ref(), rate(1)), Err(PrefixMapError::Full));
        let count =
            |lab: &mut Lab<RateLimiter>, uri: &str| (0..10).filter(|n| ask(lab, 300 + n % 2, uri)).count();
        assert_eq!(count(&mut lab, "/a/x"), 2, "of all faces together");
        assert_eq!(count(&mut lab, "/a/b/x"), 4);
        assert_eq!(count(&mut lab, "/b"), 10);
        // The same again changes nothing.
        lab.element.set_prefix_limit(name("/a").as_ref(), rate(2)).unwrap();
        assert_eq!(count(&mut lab, "/a"), 0);
        assert_eq!(lab.element.prefix_limits()[0], (name("/a"), rate(2), 18));
        assert!(lab.element.remove_prefix_limit(name("/a").as_ref()));
        assert_eq!(count(&mut lab, "/a"), 10);
    }

    /// What a prefix has no room for takes nothing of the face's.
    #[test]
    fn both_must_have_room() {
        let mut lab = lab(limits(1, 2));
        lab.element.set_prefix_limit(name("/a").as_ref(), Rate { per_s: 1, burst: 1 }).unwrap();
        assert!(ask(&mut lab, 300, "/a") && !ask(&mut lab, 300, "/a"));
        assert!(ask(&mut lab, 300, "/b") && !ask(&mut lab, 300, "/b"));
    }

    #[test]
    fn who_asks_too_much_may_be_told() {
        let mut lab = lab(Limits { nacks: true, ..limits(1, 1) });
        assert!(ask(&mut lab, 300, "/a") && ask(&mut lab, 302, "/a"));
        let left = lab.give(In::Interest, &interest("/a", 1), |meta| meta.ingress = face(300));
        assert_eq!((ports(&left), left[0].egress), (vec!["nack"], face(300)));
        assert_eq!(left[0].link.nack, Some(NackReason::Congestion));
        assert!(!ask(&mut lab, 302, "/a"), "a link of many is told nothing");
        assert_eq!(lab.drops.total(Cause::RateLimited), 2);
    }

    /// Two faces ask as much: one for what there is, one for what there is not.
    #[test]
    fn a_flood_is_held_down_and_nobody_else() {
        let limits = Limits { patience: Duration::from_secs(1), share_min_milli: 20, ..limits(100, 10) };
        let mut lab = lab(limits);
        let mut passed = [0; 2];
        for turn in 0..6000 {
            lab.advance_ms(10);
            if turn == 3000 {
                passed = [0; 2];
            }
            if ask(&mut lab, 300, "/good") {
                passed[0] += 1;
                answer(&mut lab, 300);
            }
            passed[1] += i32::from(ask(&mut lab, 301, "/flood"));
        }
        // 30 s: 100 a second, and 2 % of that.
        assert!(passed[0] >= 2990 && (50..=90).contains(&passed[1]), "{passed:?}");
        let shares: Vec<_> = lab.element.faces().map(|f| f.satisfied_milli).collect();
        assert!(shares[0] == ALL && shares[1] < 300, "{shares:?}");
        // It changes its ways.
        passed = [0; 2];
        for _ in 0..3000 {
            lab.advance_ms(10);
            if ask(&mut lab, 301, "/good") {
                passed[1] += 1;
                answer(&mut lab, 301);
            }
        }
        assert!(passed[1] > 2000, "{passed:?}");
    }

    #[test]
    fn refusals_speak_against_a_face_congestion_does_not() {
        for (reason, held) in [(NackReason::NoRoute, true), (NackReason::Congestion, false)] {
            let mut lab = lab(Limits { share_min_milli: 20, ..limits(100, 10) });
            for _ in 0..2000 {
                lab.advance_ms(10);
                if ask(&mut lab, 300, "/a") {
                    let nack = as_nack(reason);
                    let left = lab.give(In::Nack, &interest("/a", 1), |meta| {
                        nack(meta);
                        meta.egress = face(300);
                    });
                    assert_eq!(ports(&left), ["nack"]);
                }
            }
            let share = lab.element.faces().next().unwrap().satisfied_milli;
            assert_eq!(share < 300, held, "{reason:?}: {share}");
        }
    }
}
