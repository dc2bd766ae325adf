//! Rows of results: value, spread, reference, bound. As a table and as JSON.

use nw_report_kit::bounds::{Limit, bound_of_row, bounds};
use nw_traffic::machine::Machine;
use serde::{Serialize, Serializer};
use std::fmt::Write;

/// One result.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Name of the row. It is stable, because scripts and documents refer to it.
    pub name: String,
    /// Unit of the value. Rows of one name differ by their unit.
    pub unit: String,
    /// Median over the runs.
    pub value: f64,
    /// Largest minus smallest value over the runs.
    pub spread: f64,
    /// Value of the reference in the same run.
    pub reference: Option<f64>,
    /// Value divided by reference.
    pub ratio: Option<f64>,
    /// Bound of the value, from `bounds.toml` by the row's name and unit.
    #[serde(serialize_with = "as_text")]
    pub bound: Option<Limit>,
}

fn as_text<S: Serializer>(bound: &Option<Limit>, serializer: S) -> Result<S::Ok, S::Error> {
    bound.map(|limit| limit.to_string()).serialize(serializer)
}

impl Row {
    /// Creates a row from the values of several runs.
    pub fn new(name: impl Into<String>, unit: impl Into<String>, runs: &[f64]) -> Self {
        let (name, unit) = (name.into(), unit.into());
        let mut sorted = runs.to_vec();
        sorted.sort_by(f64::total_cmp);
        Row {
            value: median(runs),
            spread: sorted.last().unwrap_or(&0.0) - sorted.first().unwrap_or(&0.0),
            reference: None,
            ratio: None,
            bound: bound_of_row(&name, &unit).map(|bound| bound.limit),
            name,
            unit,
        }
    }

    /// Adds the reference, measured in the same run.
    #[must_use]
    pub fn with_reference(mut self, reference: f64) -> Self {
        self.reference = Some(reference);
        self.ratio = Some(self.value / reference);
        self
    }

    /// Lowers the bound to a value of the same run, if that is less.
    #[must_use]
    pub fn also_at_most(mut self, value: f64) -> Self {
        let least = self.bound.map_or(value, |bound| bound.value().min(value));
        self.bound = Some(Limit::AtMost(least));
        self
    }

    /// Returns true if the row keeps its bound, or has none.
    pub fn meets_bound(&self) -> bool {
        self.bound.is_none_or(|bound| bound.holds(self.value))
    }
}

/// Returns the keys of bounds that belong to measured rows, but to none of their values: a value
/// was left out, or a key is wrong.
pub fn bounds_without_value(rows: &[Row]) -> Vec<&'static str> {
    let is_open = |key: &&str| {
        let (row, unit) = key.rsplit_once('.').unwrap_or((key, ""));
        let mut named = rows.iter().filter(|one| one.name == row).peekable();
        named.peek().is_some() && named.all(|one| one.unit.split(" (").next() != Some(unit))
    };
    bounds().keys().map(String::as_str).filter(is_open).collect()
}

/// Returns the median of values in any order.
pub fn median(runs: &[f64]) -> f64 {
    let mut sorted = runs.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        odd if odd % 2 == 1 => sorted[odd / 2],
        even => (sorted[even / 2 - 1] + sorted[even / 2]) / 2.0,
    }
}

/// Formats rows as a table.
pub fn table(rows: &[Row], machine: &Machine) -> String {
    let mut out = format!("{machine}\n\n");
    let width = rows.iter().map(|row| row.name.len()).max().unwrap_or(0).max(4);
    let units = rows.iter().map(|row| row.unit.len()).max().unwrap_or(0).max(4);
    let _ = writeln!(
        out,
        "{:width$}  {:units$}  {:>12} {:>12} {:>12} {:>7}  bound",
        "row", "unit", "value", "spread", "reference", "ratio"
    );
    for row in rows {
        let optional = |value: Option<f64>, digits: usize| {
            value.map_or("-".into(), |v| format!("{v:.digits$}"))
        };
        let verdict = match (&row.bound, row.meets_bound()) {
            (None, _) => String::new(),
            (Some(bound), true) => format!("{bound}  kept"),
            (Some(bound), false) => format!("{bound}  MISSED"),
        };
        let _ = writeln!(
            out,
            "{:width$}  {:units$}  {:>12.3} {:>12.3} {:>12} {:>7}  {verdict}",
            row.name,
            row.unit,
            row.value,
            row.spread,
            optional(row.reference, 3),
            optional(row.ratio, 3),
        );
    }
    out
}

/// Formats rows as a Markdown table, with the facts of the machine below it.
pub fn markdown(rows: &[Row], machine: &Machine) -> String {
    let mut out = String::from(
        "| row | unit | value | spread | reference | ratio | bound | |\n|---|---|---|---|---|---|---|---|\n",
    );
    let number = |value: f64| match value.abs() {
        100.0.. => format!("{value:.0}"),
        10.0..100.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    };
    let optional = |value: Option<f64>| value.map_or(String::new(), number);
    for row in rows {
        let verdict = match (row.bound, row.meets_bound()) {
            (None, _) => "",
            (Some(_), true) => "kept",
            (Some(_), false) => "**missed**",
        };
        let bound = row.bound.map_or(String::new(), |bound| bound.to_string());
        let _ = writeln!(
            out,
            "| `{}` | {} | {} | {} | {} | {} | {bound} | {verdict} |",
            row.name,
            row.unit,
            number(row.value),
            number(row.spread),
            optional(row.reference),
            optional(row.ratio),
        );
    }
    let _ = write!(out, "\n{machine}.\n");
    out
}

/// Formats rows as a JSON list, each with the facts of the machine.
///
/// # Errors
/// If serialization fails.
pub fn json(rows: &[Row], machine: &Machine) -> serde_json::Result<String> {
    #[derive(Serialize)]
    struct WithMachine<'a> {
        #[serde(flatten)]
        row: &'a Row,
        machine: &'a Machine,
    }
    let rows: Vec<_> = rows.iter().map(|row| WithMachine { row, machine }).collect();
    serde_json::to_string_pretty(&rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_of_runs_has_median_ratio_and_bound() {
        let row = Row::new("a", "ns", &[3.0, 1.0, 2.0]).with_reference(4.0).also_at_most(2.0);
        assert_eq!((row.value, row.spread, row.ratio), (2.0, 2.0, Some(0.5)));
        assert!(row.meets_bound());
        let missed = Row::new("forward/veth/udp", "ratio_to_null", &[0.5]);
        assert!(!missed.meets_bound());
        let other = Row::new("forward/veth/udp", "busy", &[0.5]);
        assert_eq!(other.bound, None);
        assert_eq!(bounds_without_value(&[other]), ["forward/veth/udp.ratio_to_null"]);
        assert_eq!(bounds_without_value(std::slice::from_ref(&missed)), Vec::<&str>::new());
        let page = markdown(&[row, missed], &Machine::here());
        assert!(page.contains("| `a` | ns | 2.00 | 2.00 | 4.00 | 0.50 | <= 2 | kept |"), "{page}");
        assert!(
            page.contains("| ratio_to_null | 0.50 | 0.00 |  |  | >= 0.8 | **missed** |"),
            "{page}"
        );
    }
}
