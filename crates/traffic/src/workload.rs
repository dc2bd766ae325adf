//! What is asked for: names made by rule from a seed, and in which order.
//!
//! A name is a number written as components. The number stands at the front of its last component, so that whoever sees a Data knows which it
//! answers without a table. Upper components are shared by many names, as names are.

use super::span::Span;
use nw_name::{ComponentType, Name, NameRef};
use nw_report_kit::random::splitmix64;
use nw_report_kit::zipf::{Zipf, unit};
use serde::Serialize;

const GENERIC: u8 = ComponentType::GENERIC.number() as u8;
/// Hexadecimal digits of a name's number.
const DIGITS: usize = 10;
/// Numbers that can be written so.
const NUMBERS: u64 = 1 << (4 * DIGITS);
/// Octets in a component's value at most, so that its length takes one octet.
const COMPONENT_LEN_MAX: usize = 252;
/// Type and length of a component.
const HEAD_LEN: usize = 2;
/// Names among which popularity is drawn, at most: their table takes eight octets for each.
pub const NAMES_MAX: usize = 10_000_000;
/// How often another popular name is drawn when the drawn one is on its way already.
const REDRAWS_MAX: usize = 16;

/// In which order names are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Pattern {
    /// By Zipf's law.
    Popular,
    /// One after the other, then from the start.
    Sequential,
}

/// One description for both ends.
#[derive(Clone, Debug, Serialize)]
pub struct Workload {
    /// Below which all names are.
    #[serde(serialize_with = "as_text")]
    pub prefix: Name,
    /// The same seed makes the same names in the same order.
    pub seed: u64,
    /// Names that are asked for again and again.
    pub names: usize,
    /// In which order.
    pub pattern: Pattern,
    /// Exponent of Zipf's law; 0 draws all alike.
    pub zipf: f64,
    /// Components of a name, the prefix's included.
    pub components: Span,
    /// Octets of a name: its components with their types and lengths.
    pub name_octets: Span,
    /// Octets of content.
    pub payload: Span,
    /// Share of Interests that a longer name may answer.
    pub can_be_prefix: f64,
    /// Share of Interests that caches can answer; as it happens when absent.
    pub hit_ratio: Option<f64>,
}

fn as_text<S: serde::Serializer>(name: &Name, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(name)
}

/// What a workload can't be.
#[derive(Debug, thiserror::Error, PartialEq)]
pub enum WorkloadError {
    /// Components below the prefix are what makes names differ.
    #[error("names below {prefix} need at least {least} components: raise --components or shorten --prefix")]
    TooFewComponents {
        /// As given.
        prefix: Name,
        /// The prefix's and one.
        least: usize,
    },
    /// They do not fit.
    #[error(
        "{components} components below {prefix} need {least} to {most} octets: change --name-octets or --components"
    )]
    Octets {
        /// As given.
        prefix: Name,
        /// How many were wanted.
        components: usize,
        /// Octets that such a name has at least.
        least: usize,
        /// Octets that it may have.
        most: usize,
    },
    /// A share is from 0 to 1.
    #[error("{option} is a share: write a number from 0 to 1, such as 0.3")]
    Share {
        /// Which.
        option: &'static str,
    },
    /// An exponent that makes no sense.
    #[error("--zipf is an exponent from 0 (all alike) to 10; usual ones are 0.6 to 1.2")]
    Exponent,
    /// Too few or too many.
    #[error("--names is a number from 1 to {NAMES_MAX}")]
    Names,
    /// Larger than a packet.
    #[error("--payload is at most 8000 octets and the name at most 600 then: a packet has at most 8800")]
    Packet,
}

impl Workload {
    /// Whether such names can be made.
    ///
    /// # Errors
    /// With what to change, when not.
    pub fn check(&self) -> Result<(), WorkloadError> {
        let (own, own_len) = (self.prefix.as_ref().len(), self.prefix.as_ref().as_bytes().len());
        if self.components.min <= own {
            return Err(WorkloadError::TooFewComponents { prefix: self.prefix.clone(), least: own + 1 });
        }
        for components in [self.components.min, self.components.max] {
            let more = components - own;
            let least = own_len + more * HEAD_LEN + (more - 1) + DIGITS;
            let most = own_len + more * (HEAD_LEN + COMPONENT_LEN_MAX);
            if self.name_octets.min < least || self.name_octets.max > most {
                let prefix = self.prefix.clone();
                return Err(WorkloadError::Octets { prefix, components, least, most });
            }
        }
        for (option, share) in
            [("--can-be-prefix", self.can_be_prefix), ("--hit-ratio", self.hit_ratio.unwrap_or(0.0))]
        {
            if !(0.0..=1.0).contains(&share) {
                return Err(WorkloadError::Share { option });
            }
        }
        if !(0.0..=10.0).contains(&self.zipf) {
            return Err(WorkloadError::Exponent);
        }
        if !(1..=NAMES_MAX).contains(&self.names) {
            return Err(WorkloadError::Names);
        }
        if self.payload.max > 8000 || self.name_octets.max > 600 {
            return Err(WorkloadError::Packet);
        }
        Ok(())
    }

    /// The name with this number.
    pub fn name(&self, number: u64) -> Name {
        let mut octets = Vec::with_capacity(self.name_octets.max);
        self.write_name(number, &mut octets);
        NameRef::from_checked(&octets).to_name()
    }

    /// Appends the components of the name with this number.
    pub fn write_name(&self, number: u64, out: &mut Vec<u8>) {
        let own = self.prefix.as_ref();
        out.extend_from_slice(own.as_bytes());
        let random = splitmix64(self.seed ^ splitmix64(number));
        let more = self.components.pick(random) - own.len();
        let octets = self.name_octets.pick(random >> 32);
        // What is neither prefix nor head of a component, spread; the last component has the number and what is left over.
        let values = octets - own.as_bytes().len() - more * HEAD_LEN;
        let upper = match more - 1 {
            0 => 0,
            above => {
                let even = (values / more).min((values - DIGITS) / above);
                even.max(values.saturating_sub(COMPONENT_LEN_MAX).div_ceil(above))
            }
        };
        for depth in 1..more {
            // The deeper, the more names have a component of their own.
            let shared = number >> (8 * (more - depth)).min(63);
            out.extend_from_slice(&[GENERIC, upper as u8]);
            push_letters(splitmix64(self.seed ^ splitmix64(shared) ^ depth as u64), upper, out);
        }
        let len = values - (more - 1) * upper;
        out.extend_from_slice(&[GENERIC, len as u8]);
        (0..DIGITS)
            .rev()
            .for_each(|digit| out.push(b"0123456789abcdef"[(number >> (4 * digit) & 15) as usize]));
        push_letters(random, len - DIGITS, out);
    }

    /// The number of a name, or of the name that was asked for when the answer's is one longer.
    pub fn number(&self, name: NameRef<'_>) -> Option<Numbered> {
        let last = name.component(-1)?;
        let is_longer = last.typ() == ComponentType::SEGMENT;
        let last = if is_longer { name.component(-2)? } else { last };
        let digits = std::str::from_utf8(last.value().get(..DIGITS)?).ok()?;
        Some(Numbered { number: u64::from_str_radix(digits, 16).ok()?, is_longer })
    }

    /// Octets of content under this name: known from the name alone, so that whoever answers needs no table.
    pub fn payload_of(&self, name: NameRef<'_>) -> usize {
        if self.payload.min == self.payload.max {
            return self.payload.min;
        }
        let number = self.number(name).map_or(0, |numbered| numbered.number);
        self.payload.pick(splitmix64(self.seed ^ splitmix64(number) ^ 0x7061_796c_6f61_6421))
    }
}

/// What a name in an answer says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Numbered {
    /// Its number.
    pub number: u64,
    /// One component longer than what was asked for.
    pub is_longer: bool,
}

/// Letters that look random.
fn push_letters(random: u64, len: usize, out: &mut Vec<u8>) {
    let mut bits = 0;
    for i in 0..len as u64 {
        bits = if i % 12 == 0 { splitmix64(random ^ i) } else { bits >> 5 };
        out.push(b'a' + (bits & 31) as u8 % 26);
    }
}

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Request {
    /// Of its name.
    pub number: u64,
    /// Whether a longer name may answer.
    pub can_be_prefix: bool,
}

/// Requests in their order.
#[derive(Clone, Debug)]
pub struct Requests {
    popular: Option<Zipf>,
    names: u64,
    can_be_prefix: f64,
    hit_ratio: Option<f64>,
    random: u64,
    drawn: u64,
    next: u64,
    fresh: u64,
}

impl Requests {
    /// From the first on.
    pub fn new(workload: &Workload) -> Self {
        Requests {
            popular: (workload.pattern == Pattern::Popular).then(|| Zipf::new(workload.names, workload.zipf)),
            names: workload.names as u64,
            can_be_prefix: workload.can_be_prefix,
            hit_ratio: workload.hit_ratio,
            random: splitmix64(workload.seed ^ 0x7265_7175_6573_7473),
            drawn: 0,
            next: 0,
            fresh: 0,
        }
    }

    /// Each name once, in order: what fills caches before it is measured.
    pub fn each_once(workload: &Workload) -> Self {
        Requests { popular: None, can_be_prefix: 0.0, hit_ratio: None, ..Requests::new(workload) }
    }

    fn random(&mut self) -> u64 {
        self.drawn += 1;
        splitmix64(self.random.wrapping_add(self.drawn.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
    }

    /// The next one. With a hit ratio, popular names for which `is_pending` holds are passed over: asked for twice at a time they would be no hits.
    pub fn next(&mut self, is_pending: impl Fn(Request) -> bool) -> Request {
        let can_be_prefix = self.can_be_prefix > 0.0 && unit(self.random()) < self.can_be_prefix;
        let request = |number| Request { number, can_be_prefix };
        let Some(hit_ratio) = self.hit_ratio else { return request(self.popular_number()) };
        if unit(self.random()) >= hit_ratio {
            self.fresh += 1;
            return request((self.names + self.fresh - 1) % NUMBERS);
        }
        let mut chosen = request(self.popular_number());
        for _ in 0..REDRAWS_MAX {
            if !is_pending(chosen) {
                break;
            }
            chosen = request(self.popular_number());
        }
        chosen
    }

    fn popular_number(&mut self) -> u64 {
        let random = self.random();
        match &self.popular {
            Some(zipf) => zipf.draw(random) as u64,
            None => {
                self.next += 1;
                (self.next - 1) % self.names
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What most tests ask for.
    pub fn workload() -> Workload {
        Workload {
            prefix: "/bench".parse().unwrap(),
            seed: 7,
            names: 1000,
            pattern: Pattern::Popular,
            zipf: 1.0,
            components: Span::of(6),
            name_octets: Span::of(60),
            payload: Span::of(100),
            can_be_prefix: 0.0,
            hit_ratio: None,
        }
    }

    proptest! {
        #[test]
        fn names_are_as_wanted(
            number in 0..NUMBERS, seed: u64, least in 2usize..12, more in 0usize..4, octets in 60usize..150, wider in 0usize..40
        ) {
            let workload = Workload {
                seed,
                components: Span { min: least, max: least + more },
                name_octets: Span { min: octets, max: octets + wider },
                ..workload()
            };
            prop_assert_eq!(workload.check(), Ok(()));
            let name = workload.name(number);
            let name = name.as_ref();
            prop_assert!(NameRef::check(name.as_bytes()).is_ok());
            prop_assert!(workload.prefix.as_ref().is_prefix_of(name));
            prop_assert!((least..=least + more).contains(&name.len()), "{} components", name.len());
            prop_assert!((octets..=octets + wider).contains(&name.as_bytes().len()), "{} octets", name.as_bytes().len());
            prop_assert_eq!(workload.number(name), Some(Numbered { number, is_longer: false }));
            let longer = name.to_name().with_segment(0);
            prop_assert_eq!(workload.number(longer.as_ref()), Some(Numbered { number, is_longer: true }));
        }

        /// What `check` lets through can be made, up to its bounds.
        #[test]
        fn every_checked_workload_makes_names(components in 1usize..8, octets in 0usize..620, number in 0..NUMBERS) {
            let workload =
                Workload { components: Span::of(components), name_octets: Span::of(octets), ..workload() };
            if workload.check().is_ok() {
                prop_assert_eq!(workload.name(number).as_ref().as_bytes().len(), octets);
            }
        }
    }

    #[test]
    fn the_same_seed_asks_for_the_same() {
        let sequence = |seed| {
            let workload = Workload { seed, hit_ratio: Some(0.5), can_be_prefix: 0.5, ..workload() };
            let mut requests = Requests::new(&workload);
            (0..1000)
                .map(|_| requests.next(|_| false))
                .map(|r| (workload.name(r.number), r))
                .collect::<Vec<_>>()
        };
        assert_eq!(sequence(1), sequence(1));
        assert_ne!(sequence(1), sequence(2));
    }

    #[test]
    fn shares_are_kept_within_a_point() {
        let workload = Workload { hit_ratio: Some(0.3), can_be_prefix: 0.1, ..workload() };
        let mut requests = Requests::new(&workload);
        let many = 100_000;
        let drawn: Vec<_> = (0..many).map(|_| requests.next(|_| false)).collect();
        let share =
            |of: &dyn Fn(&Request) -> bool| drawn.iter().filter(|r| of(r)).count() as f64 / f64::from(many);
        assert!((share(&|r| r.number < 1000) - 0.3).abs() < 0.01);
        assert!((share(&|r| r.can_be_prefix) - 0.1).abs() < 0.01);
    }

    #[test]
    fn sequences_start_again() {
        let mut requests = Requests::new(&Workload { names: 3, pattern: Pattern::Sequential, ..workload() });
        let numbers: Vec<_> = (0..7).map(|_| requests.next(|_| false).number).collect();
        assert_eq!(numbers, [0, 1, 2, 0, 1, 2, 0]);
    }

    #[test]
    fn mistakes_say_what_to_change() {
        let says = |wrong: Workload| wrong.check().unwrap_err().to_string();
        assert!(says(Workload { components: Span::of(1), ..workload() }).contains("--components"));
        assert!(says(Workload { name_octets: Span::of(10), ..workload() }).contains("--name-octets"));
        assert!(says(Workload { hit_ratio: Some(1.5), ..workload() }).contains("--hit-ratio"));
        assert!(says(Workload { can_be_prefix: f64::NAN, ..workload() }).contains("--can-be-prefix"));
        assert!(says(Workload { zipf: -1.0, ..workload() }).contains("--zipf"));
        assert!(says(Workload { names: 0, ..workload() }).contains("--names"));
        assert!(says(Workload { payload: Span::of(9000), ..workload() }).contains("--payload"));
    }
}
