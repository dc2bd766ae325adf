//! Names of strategies: `/localhost/nfd/strategy/<strategy>/v=<version>/<parameter>~<value>…`.

use super::{BestRoute, Multicast, Strategy, Suppression};
use core::fmt;
use nw_name::convention::{self, Kind};
use nw_name::{Name, NameRef};

/// Why a name is not a strategy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StrategyError {
    /// No strategy is called that: management answers 404.
    Unknown,
    /// There is one, but not with this version or these parameters: management answers 409.
    BadParameter(&'static str),
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
            StrategyError::TooMany => f.write_str("256 strategies with different parameters are in use"),
        }
    }
}

impl core::error::Error for StrategyError {}

const PREFIX: &str = "/localhost/nfd/strategy";
/// Components of [`PREFIX`].
const PREFIX_LEN: usize = 3;

pub(super) struct Known {
    pub(super) name: &'static str,
    pub(super) version: u64,
    make: fn(Suppression) -> Strategy,
}

impl Strategy {
    /// Every strategy there is.
    pub(super) const KNOWN: &'static [Known] = &[
        Known {
            name: "best-route",
            version: 5,
            make: |suppression| Strategy::BestRoute(BestRoute { suppression }),
        },
        Known {
            name: "multicast",
            version: 5,
            make: |suppression| Strategy::Multicast(Multicast { suppression }),
        },
    ];

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
            .find(|known| word == nw_name::Component::generic(known.name.as_bytes()))
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
        let mut suppression = Suppression::default();
        rest.try_for_each(|component| parameter(component.value(), &mut suppression))?;
        if suppression.max_ms < suppression.initial_ms {
            return Err(StrategyError::BadParameter(
                "retx-suppression-max is less than retx-suppression-initial",
            ));
        }
        debug_assert!(convention::version(listed.as_ref().prefix(PREFIX_LEN + 2)).is_some());
        Ok(((known.make)(suppression), listed))
    }
}

fn parameter(text: &[u8], suppression: &mut Suppression) -> Result<(), StrategyError> {
    let bad = StrategyError::BadParameter;
    let text = core::str::from_utf8(text).map_err(|_| bad("a parameter is <name>~<value>"))?;
    let (key, value) = text.split_once('~').ok_or(bad("a parameter is <name>~<value>"))?;
    match key {
        "retx-suppression-initial" => {
            suppression.initial_ms = milliseconds(value)
                .ok_or(bad("retx-suppression-initial is a number of milliseconds from 1 to 65535"))?;
        }
        "retx-suppression-max" => {
            suppression.max_ms = milliseconds(value)
                .ok_or(bad("retx-suppression-max is a number of milliseconds from 1 to 65535"))?;
        }
        "retx-suppression-multiplier" => {
            suppression.multiplier_milli = thousandths(value)
                .filter(|milli| *milli >= 1000)
                .ok_or(bad("retx-suppression-multiplier is a number from 1 to 1000"))?;
        }
        _ => {
            return Err(bad(
                "known parameters are retx-suppression-initial, retx-suppression-max and retx-suppression-multiplier",
            ));
        }
    }
    Ok(())
}

fn milliseconds(value: &str) -> Option<u16> {
    value.parse().ok().filter(|ms| *ms > 0)
}

/// A decimal number of up to three places behind the point, times 1000.
fn thousandths(value: &str) -> Option<u32> {
    let (whole, part) = value.split_once('.').unwrap_or((value, "0"));
    if part.is_empty() || part.len() > 3 || !part.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let whole = whole.parse::<u32>().ok().filter(|n| *n <= 1000)?;
    Some(whole * 1000 + part.parse::<u32>().ok()? * 10u32.pow(3 - part.len() as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

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
            assert!(matches!(error, StrategyError::BadParameter(_)), "{tail}: {error}");
        }
    }
}
