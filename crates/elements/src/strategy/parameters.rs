//! Strategy names and parameters:
//! `/localhost/nfd/strategy/<strategy>/v=<version>/<parameter>~<value>…`.

use super::{Strategy, StrategyInfo, Suppression};
use core::fmt;
use core::ops::RangeInclusive;
use nw_name::convention::{self, Kind};
use nw_name::{Component, Name, NameRef};

/// Why a name does not select a strategy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StrategyError {
    /// There is no strategy of this name; management answers 404.
    Unknown,
    /// The strategy does not exist in this version, or a parameter's value is wrong; management
    /// answers 409. Holds what is expected.
    BadParameter(&'static str),
    /// The strategy does not have such a parameter; management answers 409. Holds the names of
    /// those it has.
    UnknownParameter(&'static [&'static str]),
    /// All 256 instances (strategies with their parameters) are in use; management answers 500.
    TooMany,
}

impl fmt::Display for StrategyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StrategyError::Unknown => {
                f.write_str("no such strategy; known are")?;
                Strategy::ALL
                    .iter()
                    .try_for_each(|known| write!(f, " {PREFIX}/{}/v={}", known.name, known.version))
            }
            StrategyError::BadParameter(expected) => f.write_str(expected),
            StrategyError::UnknownParameter([]) => f.write_str("this strategy has no parameters"),
            StrategyError::UnknownParameter(known) => {
                write!(f, "this strategy's parameters are {}", known.join(", "))
            }
            StrategyError::TooMany => {
                f.write_str("256 strategies with different parameters are in use")
            }
        }
    }
}

impl core::error::Error for StrategyError {}

const PREFIX: &str = "/localhost/nfd/strategy";
/// Components of [`PREFIX`].
const PREFIX_LEN: usize = 3;

pub(super) const INITIAL: &str = "retx-suppression-initial";
pub(super) const MAX: &str = "retx-suppression-max";
pub(super) const MULTIPLIER: &str = "retx-suppression-multiplier";
/// The parameters of retransmission suppression.
pub(super) const SUPPRESSION: &[&str] = &[INITIAL, MAX, MULTIPLIER];

impl Strategy {
    /// Returns the strategy that a name selects, and the name with its version, as listed by
    /// management.
    ///
    /// # Errors
    /// When the strategy, its version or a parameter is unknown, or a value is out of range.
    pub fn parse(name: NameRef<'_>) -> Result<(Strategy, Name), StrategyError> {
        let prefix: Name = PREFIX.parse().expect("a constant name");
        if !prefix.as_ref().is_prefix_of(name) {
            return Err(StrategyError::Unknown);
        }
        let mut components = name.components().skip(PREFIX_LEN);
        let strategy = components.next().ok_or(StrategyError::Unknown)?;
        let known = Strategy::ALL
            .iter()
            .find(|known| strategy == Component::generic(known.name.as_bytes()))
            .ok_or(StrategyError::Unknown)?;
        let mut listed = name.to_name();
        match components.next() {
            // "Without a version: the highest there is."
            None => listed = listed.with_version(known.version),
            Some(component) => match Kind::Version.number(component) {
                Some(version) if version == known.version => {}
                // As in NFD, an older version selects this strategy, which then rejects it.
                Some(version) if version < known.version => {
                    return Err(StrategyError::BadParameter(
                        "this strategy has only a newer version",
                    ));
                }
                _ => return Err(StrategyError::Unknown),
            },
        }
        let given = Parameters::parse(components, known)?;
        debug_assert!(convention::version(listed.as_ref().prefix(PREFIX_LEN + 2)).is_some());
        Ok(((known.from_parameters)(&given)?, listed))
    }
}

/// The `<parameter>~<value>` components of a strategy name. All of them are known to the strategy.
#[derive(Debug)]
pub struct Parameters<'n> {
    pairs: Vec<(&'n str, &'n str)>,
}

impl<'n> Parameters<'n> {
    /// Reads `<parameter>~<value>` components.
    fn parse(
        components: impl Iterator<Item = Component<'n>>,
        known: &'static StrategyInfo,
    ) -> Result<Self, StrategyError> {
        let mut pairs = Vec::new();
        for component in components {
            let text = core::str::from_utf8(component.value()).ok();
            let pair = text.and_then(|text| text.split_once('~'));
            let pair = pair.ok_or(StrategyError::BadParameter("a parameter is <name>~<value>"))?;
            if !known.parameters.contains(&pair.0) {
                return Err(StrategyError::UnknownParameter(known.parameters));
            }
            pairs.push(pair);
        }
        Ok(Parameters { pairs })
    }

    /// Returns a parameter's value. If it is given several times, the last value counts.
    pub fn text(&self, name: &str) -> Option<&'n str> {
        self.pairs.iter().rev().find(|(key, _)| *key == name).map(|(_, value)| *value)
    }

    /// Returns a parameter's value as a number within `range`. `None` if it is not given.
    ///
    /// # Errors
    /// [`StrategyError::BadParameter`] with the text `expected` for any other value.
    pub fn number(
        &self,
        name: &str,
        range: RangeInclusive<u32>,
        expected: &'static str,
    ) -> Result<Option<u32>, StrategyError> {
        let Some(text) = self.text(name) else { return Ok(None) };
        // The standard library would also accept "+5".
        let digits = text.bytes().all(|byte| byte.is_ascii_digit());
        let number = text.parse().ok().filter(|number| digits && range.contains(number));
        number.map(Some).ok_or(StrategyError::BadParameter(expected))
    }

    /// Returns the value of `max-timeouts`, 1 to 255.
    pub(super) fn timeouts_max(&self) -> Result<Option<u8>, StrategyError> {
        let expected = "max-timeouts is a number of timeouts from 1 to 255";
        Ok(self.number("max-timeouts", 1..=255, expected)?.map(|timeouts| timeouts as u8))
    }

    /// Returns the intervals of retransmission suppression, with defaults for those not given.
    pub(super) fn suppression(&self) -> Result<Suppression, StrategyError> {
        let mut suppression = Suppression::default();
        let initial = "retx-suppression-initial is a number of milliseconds from 1 to 65535";
        if let Some(ms) = self.number(INITIAL, 1..=65_535, initial)? {
            suppression.initial_ms = ms as u16;
        }
        let max = "retx-suppression-max is a number of milliseconds from 1 to 65535";
        if let Some(ms) = self.number(MAX, 1..=65_535, max)? {
            suppression.max_ms = ms as u16;
        }
        if let Some(text) = self.text(MULTIPLIER) {
            suppression.multiplier_milli =
                thousandths(text).filter(|milli| *milli >= 1000).ok_or(StrategyError::BadParameter(
                    "retx-suppression-multiplier is a number from 1 to 1000 with up to three decimals",
                ))?;
        }
        if suppression.max_ms < suppression.initial_ms {
            return Err(StrategyError::BadParameter(
                "retx-suppression-max is less than retx-suppression-initial",
            ));
        }
        Ok(suppression)
    }
}

/// Parses a decimal number of at most 1000 with up to three decimals. Returns it times 1000.
fn thousandths(value: &str) -> Option<u32> {
    let (whole, decimals) = value.split_once('.').unwrap_or((value, "0"));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if decimals.is_empty() || decimals.len() > 3 || !digits(decimals) || !digits(whole) {
        return None;
    }
    let whole = whole.parse::<u32>().ok().filter(|n| *n <= 1000)?;
    Some(whole * 1000 + decimals.parse::<u32>().ok()? * 10u32.pow(3 - decimals.len() as u32))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strategy::{Asf, BestRoute, FailOver, Hash, Multicast, Weighted};

    fn parse(uri: &str) -> Result<(Strategy, String), StrategyError> {
        Strategy::parse(uri.parse::<Name>().unwrap().as_ref())
            .map(|(strategy, name)| (strategy, name.to_string()))
    }

    #[test]
    fn strategy_name_with_or_without_version_selects_strategy() {
        let default = Strategy::BestRoute(BestRoute::default());
        let full = "/localhost/nfd/strategy/best-route/v=5";
        assert_eq!(parse(full), Ok((default, full.to_owned())));
        assert_eq!(parse("/localhost/nfd/strategy/best-route"), Ok((default, full.to_owned())));
        let tuned = "/localhost/nfd/strategy/multicast/v=5/retx-suppression-initial~20/retx-suppression-multiplier~1.5";
        let suppression =
            Suppression { initial_ms: 20, multiplier_milli: 1500, ..Suppression::default() };
        assert_eq!(
            parse(tuned),
            Ok((Strategy::Multicast(Multicast { suppression }), tuned.to_owned()))
        );
        assert!(
            parse("/localhost/nfd/strategy/best-route/%FD%05").is_ok(),
            "either convention of versions is read"
        );
    }

    #[test]
    fn unknown_name_or_bad_parameter_is_rejected() {
        for uri in [
            "/",
            "/localhost/nfd/strategy",
            "/localhost/nfd/strategy/worst-route",
            "/localhost/nfd/strategy/best-route/v=6",
            "/localhost/nfd/strategy/best-route/x",
            "/ndn/strategy/best-route/v=5",
        ] {
            assert_eq!(parse(uri), Err(StrategyError::Unknown), "{uri}");
        }
        for tail in [
            "v=4",
            "v=5/x",
            "v=5/x~1",
            "v=5/retx-suppression-initial~0",
            "v=5/retx-suppression-initial~-1",
            "v=5/retx-suppression-initial~",
            "v=5/retx-suppression-max~65536",
            "v=5/retx-suppression-initial~300",
            "v=5/retx-suppression-multiplier~0.5",
            "v=5/retx-suppression-multiplier~1.2345",
            "v=5/%FF",
        ] {
            let error = parse(&format!("/localhost/nfd/strategy/best-route/{tail}")).unwrap_err();
            assert!(
                !matches!(error, StrategyError::Unknown | StrategyError::TooMany),
                "{tail}: {error}"
            );
        }
    }

    #[test]
    fn every_strategy_checks_version_and_parameters() {
        for known in Strategy::ALL {
            let name = format!("{PREFIX}/{}/v={}", known.name, known.version);
            assert_eq!(parse(&format!("{PREFIX}/{}", known.name)).unwrap(), parse(&name).unwrap());
            assert_eq!(parse(&name).unwrap().1, name);
            let newer = format!("{PREFIX}/{}/v={}", known.name, known.version + 1);
            assert_eq!(parse(&newer), Err(StrategyError::Unknown));
            let other = parse(&format!("{name}/no-such~1")).unwrap_err();
            assert_eq!(other, StrategyError::UnknownParameter(known.parameters));
            for parameter in known.parameters {
                for value in ["", "x", "-1", "0", "+5", "4294967296"] {
                    let error = parse(&format!("{name}/{parameter}~{value}")).unwrap_err();
                    let StrategyError::BadParameter(text) = error else {
                        panic!("{parameter}: {error}")
                    };
                    assert!(text.contains(parameter), "{text:?} does not name {parameter}");
                }
            }
        }
    }

    #[test]
    fn parameter_values_reach_the_strategy() {
        let of = |tail: &str| parse(&format!("{PREFIX}/{tail}")).map(|(strategy, _)| strategy);
        let asf = Asf { probing_interval_ms: 30_000, timeouts_max: 5, ..Asf::default() };
        assert_eq!(of("asf/v=5/probing-interval~30000/max-timeouts~5"), Ok(Strategy::Asf(asf)));
        let asf = Asf { probing_interval_ms: 60_000, lifetime_ms: 60_001, ..Asf::default() };
        assert_eq!(of("asf/v=5/measurements-lifetime~60001"), Ok(Strategy::Asf(asf)));
        for tail in
            ["measurements-lifetime~60000", "probing-interval~300000", "probing-interval~999"]
        {
            assert!(
                matches!(of(&format!("asf/v=5/{tail}")), Err(StrategyError::BadParameter(_))),
                "{tail}"
            );
        }
        let weights = [5, 3, 1, 0, 0, 0, 0, 0];
        let weighted = Weighted { weights, ..Weighted::default() };
        assert_eq!(of("weighted/v=1/weights~5-3-1"), Ok(Strategy::Weighted(weighted)));
        for value in ["5-", "-5", "256", "1-0", "1-1-1-1-1-1-1-1-1", "1,2"] {
            assert!(of(&format!("weighted/v=1/weights~{value}")).is_err(), "{value}");
        }
        assert_eq!(
            of("hash/v=1/depth~2"),
            Ok(Strategy::Hash(Hash { depth: 2, ..Hash::default() }))
        );
        assert!(of("hash/v=1/depth~33").is_err());
        let fail_over =
            FailOver { timeouts_max: 1, recovery_interval_ms: 100, ..FailOver::default() };
        assert_eq!(
            of("fail-over/v=1/max-timeouts~1/recovery-interval~100"),
            Ok(Strategy::FailOver(fail_over))
        );
    }
}
