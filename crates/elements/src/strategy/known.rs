//! Every strategy there is: name, version, parameters.

use super::names::{Parameters, StrategyError};
use super::{
    Access, Asf, BestRoute, FailOver, Hash, Multicast, Random, RoundRobin, SelfLearning, Strategy,
    Suppression, WEIGHTS_MAX, Weighted,
};

/// A strategy, whatever its parameters.
#[derive(Debug)]
pub struct Known {
    /// What stands behind `/localhost/nfd/strategy/`.
    pub name: &'static str,
    /// Its only version.
    pub version: u64,
    /// Names of its parameters.
    pub parameters: &'static [&'static str],
    pub(super) make: fn(&Parameters<'_>) -> Result<Strategy, StrategyError>,
}

const INITIAL: &str = "retx-suppression-initial";
const MAX: &str = "retx-suppression-max";
const MULTIPLIER: &str = "retx-suppression-multiplier";

impl Strategy {
    /// Every strategy there is. The first six are the reference's, with its versions.
    pub const KNOWN: &'static [Known] = &[
        Known {
            name: "best-route",
            version: 5,
            parameters: &[INITIAL, MAX, MULTIPLIER],
            make: |given| Ok(Strategy::BestRoute(BestRoute { suppression: suppression(given)? })),
        },
        Known {
            name: "multicast",
            version: 5,
            parameters: &[INITIAL, MAX, MULTIPLIER],
            make: |given| Ok(Strategy::Multicast(Multicast { suppression: suppression(given)? })),
        },
        Known {
            name: "asf",
            version: 5,
            parameters: &[
                "probing-interval",
                "max-timeouts",
                "measurements-lifetime",
                INITIAL,
                MAX,
                MULTIPLIER,
            ],
            make: asf,
        },
        Known {
            name: "self-learning",
            version: 1,
            parameters: &[],
            make: |_| Ok(Strategy::SelfLearning(SelfLearning)),
        },
        Known { name: "random", version: 1, parameters: &[], make: |_| Ok(Strategy::Random(Random)) },
        Known { name: "access", version: 1, parameters: &[], make: |_| Ok(Strategy::Access(Access)) },
        Known {
            name: "weighted",
            version: 1,
            parameters: &["weights", INITIAL, MAX, MULTIPLIER],
            make: |given| {
                let suppression = suppression(given)?;
                Ok(Strategy::Weighted(Weighted { suppression, weights: weights(given)? }))
            },
        },
        Known {
            name: "hash",
            version: 1,
            parameters: &["depth", INITIAL, MAX, MULTIPLIER],
            make: |given| {
                let depth = given.number("depth", 1..=32, "depth is a number of components from 1 to 32")?;
                let depth = depth.map_or(0, |depth| depth as u8);
                Ok(Strategy::Hash(Hash { suppression: suppression(given)?, depth }))
            },
        },
        Known {
            name: "round-robin",
            version: 1,
            parameters: &[INITIAL, MAX, MULTIPLIER],
            make: |given| Ok(Strategy::RoundRobin(RoundRobin { suppression: suppression(given)? })),
        },
        Known {
            name: "fail-over",
            version: 1,
            parameters: &["max-timeouts", "recovery-interval", INITIAL, MAX, MULTIPLIER],
            make: fail_over,
        },
    ];
}

fn suppression(given: &Parameters<'_>) -> Result<Suppression, StrategyError> {
    let mut suppression = Suppression::default();
    let initial = "retx-suppression-initial is a number of milliseconds from 1 to 65535";
    if let Some(ms) = given.number(INITIAL, 1..=65_535, initial)? {
        suppression.initial_ms = ms as u16;
    }
    let max = "retx-suppression-max is a number of milliseconds from 1 to 65535";
    if let Some(ms) = given.number(MAX, 1..=65_535, max)? {
        suppression.max_ms = ms as u16;
    }
    if let Some(text) = given.text(MULTIPLIER) {
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

/// A decimal number of up to three places behind the point, times 1000.
fn thousandths(value: &str) -> Option<u32> {
    let (whole, part) = value.split_once('.').unwrap_or((value, "0"));
    let digits = |text: &str| text.bytes().all(|octet| octet.is_ascii_digit());
    if part.is_empty() || part.len() > 3 || !digits(part) || !digits(whole) {
        return None;
    }
    let whole = whole.parse::<u32>().ok().filter(|n| *n <= 1000)?;
    Some(whole * 1000 + part.parse::<u32>().ok()? * 10u32.pow(3 - part.len() as u32))
}

const TIMEOUTS: &str = "max-timeouts is a number of timeouts from 1 to 255";

fn asf(given: &Parameters<'_>) -> Result<Strategy, StrategyError> {
    let mut asf = Asf { suppression: suppression(given)?, ..Asf::default() };
    let interval = "probing-interval is a number of milliseconds from 1000 to 4294967295";
    if let Some(ms) = given.number("probing-interval", 1000..=u32::MAX, interval)? {
        asf.probing_interval_ms = ms;
    }
    if let Some(timeouts) = given.number("max-timeouts", 1..=255, TIMEOUTS)? {
        asf.timeouts_max = timeouts as u8;
    }
    let lifetime = "measurements-lifetime is a number of milliseconds from 1 to 4294967295";
    if let Some(ms) = given.number("measurements-lifetime", 1..=u32::MAX, lifetime)? {
        asf.lifetime_ms = ms;
    }
    if asf.lifetime_ms <= asf.probing_interval_ms {
        return Err(StrategyError::BadParameter(
            "measurements-lifetime (300000 if not given) must be longer than probing-interval",
        ));
    }
    Ok(Strategy::Asf(asf))
}

fn fail_over(given: &Parameters<'_>) -> Result<Strategy, StrategyError> {
    let mut fail_over = FailOver { suppression: suppression(given)?, ..FailOver::default() };
    if let Some(timeouts) = given.number("max-timeouts", 1..=255, TIMEOUTS)? {
        fail_over.timeouts_max = timeouts as u8;
    }
    let interval = "recovery-interval is a number of milliseconds from 100 to 4294967295";
    if let Some(ms) = given.number("recovery-interval", 100..=u32::MAX, interval)? {
        fail_over.recovery_interval_ms = ms;
    }
    Ok(Strategy::FailOver(fail_over))
}

fn weights(given: &Parameters<'_>) -> Result<[u8; WEIGHTS_MAX], StrategyError> {
    let mut weights = [0; WEIGHTS_MAX];
    let Some(text) = given.text("weights") else { return Ok(weights) };
    let bad = || StrategyError::BadParameter("weights is 1 to 8 numbers from 1 to 255, as in weights~5-3-1");
    let mut places = weights.iter_mut();
    for number in text.split('-') {
        let digits = number.bytes().all(|octet| octet.is_ascii_digit());
        let weight = number.parse().ok().filter(|weight| *weight > 0 && digits).ok_or_else(bad)?;
        *places.next().ok_or_else(bad)? = weight;
    }
    Ok(weights)
}
