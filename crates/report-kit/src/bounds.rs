//! Bounds that claims rest on, from `bounds.toml` at the root of the repository: each number once,
//! for benchmarks, experiments, tests and documents.

use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::sync::OnceLock;

const TABLE: &str = include_str!("../../../bounds.toml");

/// A limit of a value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    /// The value is at most this. Written `<= 150`.
    AtMost(f64),
    /// The value is at least this. Written `>= 0.8`.
    AtLeast(f64),
}

impl Limit {
    /// Returns the number.
    pub const fn value(self) -> f64 {
        match self {
            Limit::AtMost(value) | Limit::AtLeast(value) => value,
        }
    }

    /// Returns whether a value keeps it. NaN never does.
    pub fn holds(self, value: f64) -> bool {
        match self {
            Limit::AtMost(limit) => value <= limit,
            Limit::AtLeast(limit) => value >= limit,
        }
    }

    const fn with_value(self, value: f64) -> Limit {
        match self {
            Limit::AtMost(_) => Limit::AtMost(value),
            Limit::AtLeast(_) => Limit::AtLeast(value),
        }
    }
}

impl Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Limit::AtMost(limit) => write!(f, "<= {limit}"),
            Limit::AtLeast(limit) => write!(f, ">= {limit}"),
        }
    }
}

/// A bound of the table.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    /// The limit that is claimed.
    pub limit: Limit,
    /// Unit of the value.
    pub unit: String,
    /// Source of the number.
    pub source: String,
    /// The number that was asked for, where the claim is a weaker one.
    pub asked: Option<f64>,
    /// The limit on a machine that others share, and why it is weaker.
    pub busy: Option<(Limit, String)>,
}

/// The columns of an entry of the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    at_most: Option<f64>,
    at_least: Option<f64>,
    unit: String,
    source: String,
    asked: Option<f64>,
    busy: Option<f64>,
    reason: Option<String>,
}

impl Entry {
    /// Returns the bound, or what is wrong with the entry.
    fn bound(self) -> Result<Bound, &'static str> {
        let limit = match (self.at_most, self.at_least) {
            (Some(value), None) => Limit::AtMost(value),
            (None, Some(value)) => Limit::AtLeast(value),
            _ => return Err("give either at_most or at_least"),
        };
        // A value at the weaker limit breaks the other one.
        let is_weaker = |other: f64| other != limit.value() && !limit.holds(other);
        let busy = match (self.busy, self.reason) {
            (Some(value), Some(reason)) if is_weaker(value) => {
                Some((limit.with_value(value), reason))
            }
            (None, None) => None,
            _ => return Err("busy is weaker than the bound and has a reason"),
        };
        if self.asked.is_some_and(|asked| !limit.holds(asked) || asked == limit.value()) {
            return Err("asked is stronger than the bound");
        }
        Ok(Bound { limit, unit: self.unit, source: self.source, asked: self.asked, busy })
    }
}

fn parse(text: &str) -> Result<BTreeMap<String, Bound>, String> {
    let entries: BTreeMap<String, Entry> = toml::from_str(text).map_err(|e| e.to_string())?;
    let checked = |(key, entry): (String, Entry)| match entry.bound() {
        Ok(bound) => Ok((key, bound)),
        Err(mistake) => Err(format!("{key}: {mistake}")),
    };
    entries.into_iter().map(checked).collect()
}

/// Returns all bounds by their keys.
pub fn bounds() -> &'static BTreeMap<String, Bound> {
    static BOUNDS: OnceLock<BTreeMap<String, Bound>> = OnceLock::new();
    BOUNDS.get_or_init(|| parse(TABLE).expect("a test parses the built-in file"))
}

/// Returns a bound by its key, such as `overload/bulk/*.goodput_share`.
///
/// # Panics
/// If the table has no such key.
pub fn bound(key: &str) -> &'static Bound {
    bounds().get(key).unwrap_or_else(|| panic!("bounds.toml has no {key}"))
}

/// Returns the bound of a benchmark row and unit, if it has one. `*` in a key stands for the last
/// part of a row's name; a unit's addition in parentheses does not count.
pub fn bound_of_row(row: &str, unit: &str) -> Option<&'static Bound> {
    let unit = unit.split(" (").next().unwrap_or(unit);
    let find = |row: &str| bounds().get(&format!("{row}.{unit}"));
    let (parent, _) = row.rsplit_once('/').unwrap_or((row, ""));
    find(row).or_else(|| find(&format!("{parent}/*")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_table_is_complete() {
        for (key, bound) in bounds() {
            assert!(key.contains('.'), "{key}: a subject, a dot, and what is bounded");
            assert!(!bound.unit.is_empty() && !bound.source.is_empty(), "{key}");
        }
    }

    #[test]
    fn row_finds_its_bound_by_name_and_unit() {
        let goodput = bound("overload/bulk/*.goodput_share");
        assert_eq!(bound_of_row("overload/bulk/2", "goodput_share (tcp)"), Some(goodput));
        assert_eq!(bound_of_row("overload/bulk/2", "bytes"), None);
        assert_eq!(bound_of_row("lipsin/memory/fan4", "ns_per_packet"), None);
        assert!(goodput.limit.holds(goodput.limit.value()) && !goodput.limit.holds(f64::NAN));
    }

    #[test]
    fn wrong_entries_are_refused_with_their_key() {
        let refused = |columns: &str| {
            parse(&format!("[\"a.b\"]\nunit = \"s\"\nsource = \"x\"\n{columns}")).err()
        };
        assert_eq!(refused("at_most = 3\nbusy = 4\nreason = \"shared\""), None);
        assert_eq!(refused("at_most = 8\nasked = 4"), None);
        for columns in [
            "",
            "at_most = 3\nat_least = 3",
            "at_most = 3\nbusy = 4",
            "at_most = 3\nbusy = 2\nreason = \"shared\"",
            "at_least = 3\nasked = 2",
            "at_most = 3\nlimit = 4",
        ] {
            assert!(refused(columns).is_some(), "{columns}");
        }
        assert!(refused("").is_some_and(|text| text.starts_with("a.b: give either")));
    }
}
