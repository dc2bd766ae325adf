//! The workload: which names are requested, and in which order, all derived from a seed.
//!
//! A name encodes a number. Its hexadecimal digits begin the last component, so that both ends find
//! the number in a name without a table. Upper components are shared by many names, as in real name
//! trees.

use super::number_range::NumberRange;
use nw_name::{ComponentType, Name, NameRef};
use nw_packet_types::random::splitmix64;
use nw_report_kit::zipf::{Zipf, unit};
use serde::Serialize;

const GENERIC: u8 = ComponentType::GENERIC.number() as u8;
/// Hexadecimal digits of the number in a name.
const DIGITS: usize = 10;
/// Count of numbers that these digits can express.
const NUMBERS: u64 = 1 << (4 * DIGITS);
/// Maximum length of a component's value in bytes: its length then takes one byte.
const COMPONENT_LEN_MAX: usize = 252;
/// Bytes of type and length of a component.
const HEAD_LEN: usize = 2;
/// Maximum number of popular names: the table of the distribution takes 8 bytes per name.
pub const NAMES_MAX: usize = 10_000_000;
/// Maximum number of draws for a popular name that is not outstanding already.
const REDRAWS_MAX: usize = 16;

/// Order in which names are requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Pattern {
    /// Drawn by Zipf's law.
    Popular,
    /// In order of their numbers, again from the first after the last.
    Sequential,
}

/// Description of the requests and answers, shared by both ends.
#[derive(Clone, Debug, Serialize)]
pub struct Workload {
    /// Prefix of all names.
    #[serde(serialize_with = "as_text")]
    pub prefix: Name,
    /// Seed: equal seeds give equal names in equal order.
    pub seed: u64,
    /// Number of distinct popular names.
    pub names: usize,
    /// Order of requests.
    pub pattern: Pattern,
    /// Exponent of Zipf's law; 0 is uniform.
    pub zipf: f64,
    /// Number of components of a name, including the prefix.
    pub components: NumberRange,
    /// Bytes of a name: its components with their types and lengths.
    #[serde(rename = "name_len")] // (retired word) in the JSON of results
    pub name_len: NumberRange,
    /// Bytes of content.
    pub payload: NumberRange,
    /// Share of Interests with CanBePrefix, from 0 to 1.
    pub can_be_prefix: f64,
    /// Wanted share of Interests that caches can answer. `None`: not controlled.
    pub hit_ratio: Option<f64>,
}

fn as_text<S: serde::Serializer>(name: &Name, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(name)
}

/// Reason why a workload is impossible.
#[derive(Debug, thiserror::Error, PartialEq)]
pub enum WorkloadError {
    /// No component below the prefix, where names differ.
    #[error(
        "names below {prefix} need at least {least} components: raise --components or shorten --prefix"
    )]
    TooFewComponents {
        /// The prefix.
        prefix: Name,
        /// The least number of components.
        least: usize,
    },
    /// The components do not fit the length of a name.
    #[error(
        "{components} components below {prefix} need {least} to {most} bytes: change --name-bytes or --components"
    )]
    NameLen {
        /// The prefix.
        prefix: Name,
        /// The wanted number of components.
        components: usize,
        /// The least number of bytes of such a name.
        least: usize,
        /// The greatest number of bytes of such a name.
        most: usize,
    },
    /// A share outside 0 to 1.
    #[error("{option} is a share: write a number from 0 to 1, such as 0.3")]
    Share {
        /// The option.
        option: &'static str,
    },
    /// An exponent outside 0 to 10.
    #[error("--zipf is an exponent from 0 (uniform) to 10; usual values are 0.6 to 1.2")]
    Exponent,
    /// A number of names outside the bounds.
    #[error("--names is a number from 1 to {NAMES_MAX}")]
    Names,
    /// Larger than a packet may be.
    #[error(
        "--payload is at most 8000 bytes and the name at most 600 bytes: a packet has at most 8800"
    )]
    Packet,
}

impl Workload {
    /// Checks that such names can be made.
    ///
    /// # Errors
    /// With the option to change.
    pub fn check(&self) -> Result<(), WorkloadError> {
        let (own, own_len) = (self.prefix.as_ref().len(), self.prefix.as_ref().as_bytes().len());
        if self.components.min <= own {
            return Err(WorkloadError::TooFewComponents {
                prefix: self.prefix.clone(),
                least: own + 1,
            });
        }
        for components in [self.components.min, self.components.max] {
            let more = components - own;
            let least = own_len + more * HEAD_LEN + (more - 1) + DIGITS;
            let most = own_len + more * (HEAD_LEN + COMPONENT_LEN_MAX);
            if self.name_len.min < least || self.name_len.max > most {
                let prefix = self.prefix.clone();
                return Err(WorkloadError::NameLen { prefix, components, least, most });
            }
        }
        for (option, share) in [
            ("--can-be-prefix", self.can_be_prefix),
            ("--hit-ratio", self.hit_ratio.unwrap_or(0.0)),
        ] {
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
        if self.payload.max > 8000 || self.name_len.max > 600 {
            return Err(WorkloadError::Packet);
        }
        Ok(())
    }

    /// Returns the name of this number.
    pub fn name(&self, number: u64) -> Name {
        let mut bytes = Vec::with_capacity(self.name_len.max);
        self.write_name(number, &mut bytes);
        NameRef::from_checked(&bytes).to_name()
    }

    /// Appends the encoded components of the name of this number.
    pub fn write_name(&self, number: u64, out: &mut Vec<u8>) {
        let own = self.prefix.as_ref();
        out.extend_from_slice(own.as_bytes());
        let random = splitmix64(self.seed ^ splitmix64(number));
        let more = self.components.pick(random) - own.len();
        let name_len = self.name_len.pick(random >> 32);
        // The bytes of component values are spread evenly; the last component takes the number and
        // the remainder.
        let values = name_len - own.as_bytes().len() - more * HEAD_LEN;
        let upper = match more - 1 {
            0 => 0,
            above => {
                let even = (values / more).min((values - DIGITS) / above);
                even.max(values.saturating_sub(COMPONENT_LEN_MAX).div_ceil(above))
            }
        };
        for depth in 1..more {
            // The deeper a component, the fewer names share it.
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

    /// Returns the number in a name, or in the requested name if the answer has one component more.
    /// `None` if the name is not of this workload.
    pub fn number(&self, name: NameRef<'_>) -> Option<ParsedName> {
        let last = name.component(-1)?;
        let is_longer = last.typ() == ComponentType::SEGMENT;
        let last = if is_longer { name.component(-2)? } else { last };
        let digits = std::str::from_utf8(last.value().get(..DIGITS)?).ok()?;
        Some(ParsedName { number: u64::from_str_radix(digits, 16).ok()?, is_longer })
    }

    /// Returns the bytes of content under this name, derived from the name alone.
    pub fn payload_of(&self, name: NameRef<'_>) -> usize {
        if self.payload.min == self.payload.max {
            return self.payload.min;
        }
        let number = self.number(name).map_or(0, |parsed| parsed.number);
        self.payload.pick(splitmix64(self.seed ^ splitmix64(number) ^ 0x7061_796c_6f61_6421))
    }
}

/// The number found in a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParsedName {
    /// The number.
    pub number: u64,
    /// Whether the name has a segment component after the requested name.
    pub is_longer: bool,
}

/// Appends pseudo-random letters.
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
    /// Number of the requested name.
    pub number: u64,
    /// Whether a longer name may answer it.
    pub can_be_prefix: bool,
}

/// The sequence of requests of a workload.
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
    /// Creates the sequence from its first request on.
    pub fn new(workload: &Workload) -> Self {
        Requests {
            popular: (workload.pattern == Pattern::Popular)
                .then(|| Zipf::new(workload.names, workload.zipf)),
            names: workload.names as u64,
            can_be_prefix: workload.can_be_prefix,
            hit_ratio: workload.hit_ratio,
            random: splitmix64(workload.seed ^ 0x7265_7175_6573_7473),
            drawn: 0,
            next: 0,
            fresh: 0,
        }
    }

    /// Creates a sequence with each name once, which fills caches before a measurement.
    pub fn each_once(workload: &Workload) -> Self {
        Requests { popular: None, can_be_prefix: 0.0, hit_ratio: None, ..Requests::new(workload) }
    }

    fn random(&mut self) -> u64 {
        self.drawn += 1;
        splitmix64(self.random.wrapping_add(self.drawn.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
    }

    /// Returns the next request. With a hit ratio, popular names for which `is_pending` is true are
    /// passed over: a second request at the same time would not be a cache hit.
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

    /// The workload of most tests.
    pub fn workload() -> Workload {
        Workload {
            prefix: "/bench".parse().unwrap(),
            seed: 7,
            names: 1000,
            pattern: Pattern::Popular,
            zipf: 1.0,
            components: NumberRange::exactly(6),
            name_len: NumberRange::exactly(60),
            payload: NumberRange::exactly(100),
            can_be_prefix: 0.0,
            hit_ratio: None,
        }
    }

    proptest! {
        #[test]
        fn names_have_wanted_components_and_length(
            number in 0..NUMBERS,
            seed: u64,
            least in 2usize..12,
            more in 0usize..4,
            len in 60usize..150,
            wider in 0usize..40,
        ) {
            let workload = Workload {
                seed,
                components: NumberRange { min: least, max: least + more },
                name_len: NumberRange { min: len, max: len + wider },
                ..workload()
            };
            prop_assert_eq!(workload.check(), Ok(()));
            let name = workload.name(number);
            let name = name.as_ref();
            prop_assert!(NameRef::check(name.as_bytes()).is_ok());
            prop_assert!(workload.prefix.as_ref().is_prefix_of(name));
            prop_assert!((least..=least + more).contains(&name.len()), "{} components", name.len());
            prop_assert!((len..=len + wider).contains(&name.as_bytes().len()));
            prop_assert_eq!(workload.number(name), Some(ParsedName { number, is_longer: false }));
            let longer = name.to_name().with_segment(0);
            prop_assert_eq!(workload.number(longer.as_ref()), Some(ParsedName { number, is_longer: true }));
        }

        /// Every workload that passes `check` can make names, up to its bounds.
        #[test]
        fn workload_that_passes_check_makes_names(
            components in 1usize..8,
            len in 0usize..620,
            number in 0..NUMBERS,
        ) {
            let workload = Workload {
                components: NumberRange::exactly(components),
                name_len: NumberRange::exactly(len),
                ..workload()
            };
            if workload.check().is_ok() {
                prop_assert_eq!(workload.name(number).as_ref().as_bytes().len(), len);
            }
        }
    }

    #[test]
    fn equal_seeds_give_equal_requests() {
        let sequence = |seed| {
            let workload =
                Workload { seed, hit_ratio: Some(0.5), can_be_prefix: 0.5, ..workload() };
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
    fn shares_are_kept_within_one_percent() {
        let workload = Workload { hit_ratio: Some(0.3), can_be_prefix: 0.1, ..workload() };
        let mut requests = Requests::new(&workload);
        let many = 100_000;
        let drawn: Vec<_> = (0..many).map(|_| requests.next(|_| false)).collect();
        let share = |of: &dyn Fn(&Request) -> bool| {
            drawn.iter().filter(|r| of(r)).count() as f64 / f64::from(many)
        };
        assert!((share(&|r| r.number < 1000) - 0.3).abs() < 0.01);
        assert!((share(&|r| r.can_be_prefix) - 0.1).abs() < 0.01);
    }

    #[test]
    fn sequential_pattern_repeats_from_first() {
        let mut requests =
            Requests::new(&Workload { names: 3, pattern: Pattern::Sequential, ..workload() });
        let numbers: Vec<_> = (0..7).map(|_| requests.next(|_| false).number).collect();
        assert_eq!(numbers, [0, 1, 2, 0, 1, 2, 0]);
    }

    #[test]
    fn workload_errors_name_the_option() {
        let error_for = |wrong: Workload| wrong.check().unwrap_err().to_string();
        assert!(
            error_for(Workload { components: NumberRange::exactly(1), ..workload() })
                .contains("--components")
        );
        assert!(
            error_for(Workload { name_len: NumberRange::exactly(10), ..workload() })
                .contains("--name-bytes")
        );
        assert!(error_for(Workload { hit_ratio: Some(1.5), ..workload() }).contains("--hit-ratio"));
        assert!(
            error_for(Workload { can_be_prefix: f64::NAN, ..workload() })
                .contains("--can-be-prefix")
        );
        assert!(error_for(Workload { zipf: -1.0, ..workload() }).contains("--zipf"));
        assert!(error_for(Workload { names: 0, ..workload() }).contains("--names"));
        assert!(
            error_for(Workload { payload: NumberRange::exactly(9000), ..workload() })
                .contains("--payload")
        );
    }
}
