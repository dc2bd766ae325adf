//! Rows: what was measured, beside what, how sure; a table for people, JSON for programs.

use nw_traffic::machine::Machine;
use serde::Serialize;
use std::fmt::Write;

/// One figure of one row.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Stable: scripts and issues refer to it.
    pub name: String,
    /// What the value counts; several figures of one name differ by it.
    pub unit: String,
    /// Median over the runs.
    pub value: f64,
    /// Largest minus smallest over the runs, in the same unit.
    pub spread: f64,
    /// What it is held against.
    pub reference: Option<f64>,
    /// Value over reference.
    pub ratio: Option<f64>,
    /// The bound this project set itself: `<= 150`, `>= 0.8`.
    pub wanted: Option<String>,
}

impl Row {
    /// From the figures of several runs.
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
            wanted: None,
        }
    }

    /// Beside what was measured in the same run.
    #[must_use]
    pub fn beside(mut self, reference: f64) -> Self {
        self.reference = Some(reference);
        self.ratio = Some(self.value / reference);
        self
    }

    /// With the bound it should keep.
    #[must_use]
    pub fn at_most(mut self, bound: f64) -> Self {
        self.wanted = Some(format!("<= {bound}"));
        self
    }

    /// With the bound it should keep.
    #[must_use]
    pub fn at_least(mut self, bound: f64) -> Self {
        self.wanted = Some(format!(">= {bound}"));
        self
    }

    /// True when the value keeps its bound, or has none.
    pub fn keeps_its_bound(&self) -> bool {
        let Some(wanted) = &self.wanted else { return true };
        let bound: f64 = wanted[3..].parse().expect("written above");
        if wanted.starts_with('<') { self.value <= bound } else { self.value >= bound }
    }
}

/// The middle of some figures, in any order.
pub fn median(runs: &[f64]) -> f64 {
    let mut sorted = runs.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        odd if odd % 2 == 1 => sorted[odd / 2],
        even => (sorted[even / 2 - 1] + sorted[even / 2]) / 2.0,
    }
}

/// Rows as a table.
pub fn table(rows: &[Row], machine: &Machine) -> String {
    let mut out = format!("{machine}\n\n");
    let width = rows.iter().map(|row| row.name.len()).max().unwrap_or(0).max(4);
    let units = rows.iter().map(|row| row.unit.len()).max().unwrap_or(0).max(4);
    let _ = writeln!(
        out,
        "{:width$}  {:units$}  {:>12} {:>12} {:>12} {:>7}  wanted",
        "row", "unit", "value", "spread", "reference", "ratio"
    );
    for row in rows {
        let optional =
            |value: Option<f64>, digits: usize| value.map_or("-".into(), |v| format!("{v:.digits$}"));
        let verdict = match (&row.wanted, row.keeps_its_bound()) {
            (None, _) => String::new(),
            (Some(wanted), true) => format!("{wanted}  kept"),
            (Some(wanted), false) => format!("{wanted}  MISSED"),
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

/// Rows as a JSON list, each with the machine it was measured on.
///
/// # Errors
/// None that a number could cause; serialization's.
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
    fn medians_and_bounds() {
        let row = Row::new("a", "ns", &[3.0, 1.0, 2.0]).beside(4.0).at_most(2.0);
        assert_eq!((row.value, row.spread, row.ratio), (2.0, 2.0, Some(0.5)));
        assert!(row.keeps_its_bound());
        assert!(!Row::new("a", "ratio", &[0.5]).at_least(0.8).keeps_its_bound());
    }
}
