//! Names of strategies: `/localhost/nfd/strategy/<strategy>/v=<version>/<parameter>~<value>…`.

use super::Strategy;
use super::known::Known;
use core::fmt;
use core::ops::RangeInclusive;
use nw_name::convention::{self, Kind};
use nw_name::{Component, Name, NameRef};

/// Why a name is not a strategy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StrategyError {
    /// No strategy is called that: management answers 404.
    Unknown,
    /// There is one, but not with this version or these parameters: management answers 409.
    BadParameter(&'static str),
    /// There is one, but it has only these parameters: management answers 409.
    UnknownParameter(&'static [&'static str]),
    /// There are as many strategies with parameters as there can be: management answers 500.
    TooMany,
}

impl fmt::Display for StrategyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StrategyError::Unknown => {
                f.write_str("no such strategy; known are")?;
                Strategy::KNOWN
                    .iter()
                    .try_for_each(|known| write!(f, " {PREFIX}/{}/v={}", known.name, known.version))
            }
            StrategyError::BadParameter(what) => f.write_str(what),
            StrategyError::UnknownParameter([]) => f.write_str("this strategy has no parameters"),
            StrategyError::UnknownParameter(known) => {
                write!(f, "this strategy's parameters are {}", known.join(", "))
            }
            StrategyError::TooMany => f.write_str("256 strategies with different parameters are in use"),
        }
    }
}

impl core::error::Error for StrategyError {}

const PREFIX: &str = "/localhost/nfd/strategy";
/// Components of [`PREFIX`].
const PREFIX_LEN: usize = 3;

impl Strategy {
    /// The strategy of a name, and the name it is listed by: with its version.
    ///
    /// # Errors
    /// See [`StrategyError`].
    pub fn parse(name: NameRef<'_>) -> Result<(Strategy, Name), StrategyError> {
        let prefix: Name = PREFIX.parse().expect("a constant name");
        if !prefix.as_ref().is_prefix_of(name) {
            return Err(StrategyError::Unknown);
        }
        let mut rest = name.components().skip(PREFIX_LEN);
        let word = rest.next().ok_or(StrategyError::Unknown)?;
        let known = Strategy::KNOWN
            .iter()
            .find(|known| word == Component::generic(known.name.as_bytes()))
            .ok_or(StrategyError::Unknown)?;
        let mut listed = name.to_name();
        match rest.next() {
            // "Without a version: the highest there is."
            None => listed = listed.with_version(known.version),
            Some(component) => match Kind::Version.number(component) {
                Some(version) if version == known.version => {}
                // As the reference does: an older version finds this strategy, which then refuses it.
                Some(version) if version < known.version => {
                    return Err(StrategyError::BadParameter("this strategy has only a newer version"));
                }
                _ => return Err(StrategyError::Unknown),
            },
        }
        let given = Parameters::read(rest, known)?;
        debug_assert!(convention::version(listed.as_ref().prefix(PREFIX_LEN + 2)).is_some());
        Ok(((known.make)(&given)?, listed))
    }
}

/// `<parameter>~<value>` of one name, all of them known to its strategy.
#[derive(Debug)]
pub(super) struct Parameters<'n> {
    pairs: Vec<(&'n str, &'n str)>,
}

impl<'n> Parameters<'n> {
    fn read(
        components: impl Iterator<Item = Component<'n>>,
        known: &'static Known,
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

    /// A parameter's value; of several the last.
    pub(super) fn text(&self, name: &str) -> Option<&'n str> {
        self.pairs.iter().rev().find(|(key, _)| *key == name).map(|(_, value)| *value)
    }

    /// A parameter's value as a number; `otherwise` says what it should have been.
    pub(super) fn number(
        &self,
        name: &str,
        range: RangeInclusive<u32>,
        otherwise: &'static str,
    ) -> Result<Option<u32>, StrategyError> {
        let Some(text) = self.text(name) else { return Ok(None) };
        // "+5" is a number to the standard library.
        let digits = text.bytes().all(|octet| octet.is_ascii_digit());
        let number = text.parse().ok().filter(|number| digits && range.contains(number));
        number.map(Some).ok_or(StrategyError::BadParameter(otherwise))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strategy::{Asf, BestRoute, FailOver, Hash, Multicast, Suppression, Weighted};

    fn parse(uri: &str) -> Result<(Strategy, String), StrategyError> {
        Strategy::parse(uri.parse::<Name>().unwrap().as_ref())
            .map(|(strategy, name)| (strategy, name.to_string()))
    }

    #[test]
    fn names_versions_and_parameters() {
        let default = Strategy::BestRoute(BestRoute::default());
        let full = "/localhost/nfd/strategy/best-route/v=5";
        assert_eq!(parse(full), Ok((default, full.to_owned())));
        assert_eq!(parse("/localhost/nfd/strategy/best-route"), Ok((default, full.to_owned())));
        let tuned = "/localhost/nfd/strategy/multicast/v=5/retx-suppression-initial~20/retx-suppression-multiplier~1.5";
        let suppression = Suppression { initial_ms: 20, multiplier_milli: 1500, ..Suppression::default() };
        assert_eq!(parse(tuned), Ok((Strategy::Multicast(Multicast { suppression }), tuned.to_owned())));
        assert!(
            parse("/localhost/nfd/strategy/best-route/%FD%05").is_ok(),
            "either convention of versions is read"
        );
    }

    #[test]
    fn unknown_and_bad_ones() {
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
            assert!(!matches!(error, StrategyError::Unknown | StrategyError::TooMany), "{tail}: {error}");
        }
    }

    #[test]
    fn each_has_its_version_and_its_parameters() {
        for known in Strategy::KNOWN {
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
                    let StrategyError::BadParameter(text) = error else { panic!("{parameter}: {error}") };
                    assert!(text.contains(parameter), "{text:?} does not name {parameter}");
                }
            }
        }
    }

    #[test]
    fn parameters_are_taken_over() {
        let of = |tail: &str| parse(&format!("{PREFIX}/{tail}")).map(|(strategy, _)| strategy);
        let asf = Asf { probing_interval_ms: 30_000, timeouts_max: 5, ..Asf::default() };
        assert_eq!(of("asf/v=5/probing-interval~30000/max-timeouts~5"), Ok(Strategy::Asf(asf)));
        let asf = Asf { probing_interval_ms: 60_000, lifetime_ms: 60_001, ..Asf::default() };
        assert_eq!(of("asf/v=5/measurements-lifetime~60001"), Ok(Strategy::Asf(asf)));
        for tail in ["measurements-lifetime~60000", "probing-interval~300000", "probing-interval~999"] {
            assert!(matches!(of(&format!("asf/v=5/{tail}")), Err(StrategyError::BadParameter(_))), "{tail}");
        }
        let weights = [5, 3, 1, 0, 0, 0, 0, 0];
        let weighted = Weighted { weights, ..Weighted::default() };
        assert_eq!(of("weighted/v=1/weights~5-3-1"), Ok(Strategy::Weighted(weighted)));
        for value in ["5-", "-5", "256", "1-0", "1-1-1-1-1-1-1-1-1", "1,2"] {
            assert!(of(&format!("weighted/v=1/weights~{value}")).is_err(), "{value}");
        }
        assert_eq!(of("hash/v=1/depth~2"), Ok(Strategy::Hash(Hash { depth: 2, ..Hash::default() })));
        assert!(of("hash/v=1/depth~33").is_err());
        let fail_over = FailOver { timeouts_max: 1, recovery_interval_ms: 100, ..FailOver::default() };
        assert_eq!(
            of("fail-over/v=1/max-timeouts~1/recovery-interval~100"),
            Ok(Strategy::FailOver(fail_over))
        );
    }
}
