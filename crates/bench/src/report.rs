//! Rows of results: value, spread, reference, bound. As a table and as JSON.

use nw_traffic::machine::Machine;
use serde::{Serialize, Serializer};
use std::fmt::{self, Display, Write};

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
    /// Bound of the value.
    pub bound: Option<Bound>,
}

/// A bound that the project sets for a value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// The value should be at most this. Written `<= 150`.
    AtMost(f64),
    /// The value should be at least this. Written `>= 0.8`.
    AtLeast(f64),
}

impl Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Bound::AtMost(bound) => write!(f, "<= {bound}"),
            Bound::AtLeast(bound) => write!(f, ">= {bound}"),
        }
    }
}

impl Serialize for Bound {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Row {
    /// Creates a row from the values of several runs.
    pub fn new(name: impl Into<String>, unit: impl Into<String>, runs: &[f64]) -> Self {
        let mut sorted = runs.to_vec();
        sorted.sort_by(f64::total_cmp);
        Row {
            name: name.into(),
            unit: unit.into(),
            value: median(runs),
            spread: sorted.last().unwrap_or(&0.0) - sorted.first().unwrap_or(&0.0),
            reference: None,
            ratio: None,
            bound: None,
        }
    }

    /// Adds the reference, measured in the same run.
    #[must_use]
    pub fn with_reference(mut self, reference: f64) -> Self {
        self.reference = Some(reference);
        self.ratio = Some(self.value / reference);
        self
    }

    /// Adds an upper bound of the value.
    #[must_use]
    pub const fn at_most(mut self, bound: f64) -> Self {
        self.bound = Some(Bound::AtMost(bound));
        self
    }

    /// Adds a lower bound of the value.
    #[must_use]
    pub const fn at_least(mut self, bound: f64) -> Self {
        self.bound = Some(Bound::AtLeast(bound));
        self
    }

    /// Returns true if the row keeps its bound, or has none.
    pub fn meets_bound(&self) -> bool {
        match self.bound {
            Some(Bound::AtMost(bound)) => self.value <= bound,
            Some(Bound::AtLeast(bound)) => self.value >= bound,
            None => true,
        }
    }
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
        let row = Row::new("a", "ns", &[3.0, 1.0, 2.0]).with_reference(4.0).at_most(2.0);
        assert_eq!((row.value, row.spread, row.ratio), (2.0, 2.0, Some(0.5)));
        assert!(row.meets_bound());
        let missed = Row::new("b", "ratio", &[0.5]).at_least(0.8);
        assert!(!missed.meets_bound());
        let page = markdown(&[row, missed], &Machine::here());
        assert!(page.contains("| `a` | ns | 2.00 | 2.00 | 4.00 | 0.50 | <= 2 | kept |"), "{page}");
        assert!(
            page.contains("| `b` | ratio | 0.50 | 0.00 |  |  | >= 0.8 | **missed** |"),
            "{page}"
        );
    }
}
