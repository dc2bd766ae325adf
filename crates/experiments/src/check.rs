//! Checks: a measured number beside the expected one. And the verdict on a run, by one rule for all
//! papers.

use nw_report_kit::bounds::{Bound, Limit, bound};
use nw_report_kit::page::escape;
use serde::{Deserialize, Serialize};
use std::fmt::Write;

/// The relation between a measured number and the expected one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Relation {
    /// The deviation is at most this share of the expected number.
    Within(f64),
    /// The number is at most the expected one.
    AtMost,
    /// The number is at least the expected one.
    AtLeast,
}

/// The source of an expected number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The paper's text.
    Paper,
    /// A model of this project, computed from numbers in the paper's text.
    Model,
    /// A bound of this project, from `bounds.toml`.
    Bound,
    /// Another number of the same run.
    Run,
}

impl Source {
    /// Returns a description.
    pub const fn as_str(self) -> &'static str {
        match self {
            Source::Paper => "the paper",
            Source::Model => "our model",
            Source::Bound => "our bound",
            Source::Run => "the same run",
        }
    }
}

/// The comparison of a measured number with the expected one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// The description of the number.
    pub what: String,
    /// The measured number.
    pub here: f64,
    /// The expected number.
    #[serde(rename = "wanted")]
    pub paper: f64,
    /// The source of the expected number.
    pub source: Source,
    /// The relation between the two.
    pub relation: Relation,
    /// Whether the relation does not depend on the machine and its load: a count, for example.
    #[serde(default)]
    pub on_any_machine: bool,
}

impl Check {
    /// Compares with a number of the paper.
    pub(crate) fn new(what: impl Into<String>, here: f64, paper: f64, relation: Relation) -> Check {
        let (source, on_any_machine) = (Source::Paper, false);
        Check { what: what.into(), here, paper, relation, source, on_any_machine }
    }

    /// Compares with a bound of `bounds.toml`.
    pub(crate) fn bound(key: &str, what: impl Into<String>, here: f64) -> Check {
        Check::of(bound(key), what, here)
    }

    /// Compares with a bound.
    pub(crate) fn of(bound: &Bound, what: impl Into<String>, here: f64) -> Check {
        let relation = match bound.limit {
            Limit::AtMost(_) => Relation::AtMost,
            Limit::AtLeast(_) => Relation::AtLeast,
        };
        Check::new(what, here, bound.limit.value(), relation).from(Source::Bound)
    }

    /// Sets the source of the expected number.
    pub(crate) fn from(self, source: Source) -> Check {
        Check { source, ..self }
    }

    /// Marks a relation that does not depend on the machine and its load.
    pub(crate) fn on_any_machine(self) -> Check {
        Check { on_any_machine: true, ..self }
    }

    /// Returns true if the relation holds. It never holds for NaN.
    pub fn holds(&self) -> bool {
        match self.relation {
            Relation::Within(share) => (self.here - self.paper).abs() <= share * self.paper.abs(),
            Relation::AtMost => self.here <= self.paper,
            Relation::AtLeast => self.here >= self.paper,
        }
    }

    /// Returns the used share of the tolerance, which is above 1 if the check does not hold.
    pub(crate) fn margin_used(&self) -> f64 {
        let used = match self.relation {
            Relation::Within(share) => (self.here - self.paper).abs() / (share * self.paper.abs()),
            Relation::AtMost => self.here / self.paper,
            Relation::AtLeast => self.paper / self.here,
        };
        if used.is_nan() { f64::INFINITY } else { used }
    }

    /// Returns a description.
    pub fn describe(&self) -> String {
        let expected = match self.relation {
            Relation::Within(share) => format!("{} ± {:.0} %", short(self.paper), 100.0 * share),
            Relation::AtMost => format!("at most {}", short(self.paper)),
            Relation::AtLeast => format!("at least {}", short(self.paper)),
        };
        format!(
            "{} is {} (expected by {}: {expected})",
            self.what,
            short(self.here),
            self.source.as_str()
        )
    }

    /// Returns the description and whether it holds: the line that every paper prints.
    pub fn statement(&self) -> String {
        let mark = if self.holds() { "holds" } else { "does not hold" };
        format!("{}: {mark}", self.describe())
    }
}

fn short(value: f64) -> String {
    let digits = if value.abs() < 0.01 { 5 } else { 3 };
    let text = format!("{value:.digits$}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Writes statements onto a page, as a list.
pub(crate) fn write_statements<'a>(checks: impl IntoIterator<Item = &'a Check>, out: &mut String) {
    out.push_str("<ul>\n");
    for check in checks {
        let _ = writeln!(out, "<li class=\"note\">{}</li>", escape(&check.statement()));
    }
    out.push_str("</ul>\n");
}

/// What a run comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// All statements hold.
    Holds,
    /// A statement does not hold.
    DoesNotHold,
    /// The conditions did not allow a verdict.
    Inconclusive,
}

/// The results of a repeated experiment, with statements about them.
pub trait Judged {
    /// Returns all statements.
    fn checks(&self) -> Vec<Check>;

    /// Returns what makes results inconclusive: one sentence each.
    fn problems(&self) -> Vec<String>;

    /// Returns the verdict. Under bad conditions, only statements that hold on any machine are
    /// judged: one that does not hold is a fault, and otherwise the run says nothing.
    fn verdict(&self) -> Verdict {
        let is_inconclusive = !self.problems().is_empty();
        let mut judged = self.checks();
        judged.retain(|check| check.on_any_machine || !is_inconclusive);
        match (judged.iter().all(Check::holds), is_inconclusive) {
            (false, _) => Verdict::DoesNotHold,
            (true, true) => Verdict::Inconclusive,
            (true, false) => Verdict::Holds,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Run(Vec<Check>, Vec<String>);

    impl Judged for Run {
        fn checks(&self) -> Vec<Check> {
            self.0.clone()
        }

        fn problems(&self) -> Vec<String> {
            self.1.clone()
        }
    }

    #[test]
    fn check_holds_by_its_relation() {
        let check = |here, relation| Check::new("a", here, 2.0, relation);
        assert!(
            check(2.19, Relation::Within(0.1)).holds()
                && !check(2.3, Relation::Within(0.1)).holds()
        );
        assert!(check(2.0, Relation::AtMost).holds() && !check(2.1, Relation::AtMost).holds());
        assert!(check(2.0, Relation::AtLeast).holds() && !check(1.9, Relation::AtLeast).holds());
        assert!(
            !check(f64::NAN, Relation::Within(9.0)).holds()
                && !check(f64::NAN, Relation::AtMost).holds()
        );
        assert_eq!(
            check(2.3, Relation::Within(0.1)).statement(),
            "a is 2.3 (expected by the paper: 2 ± 10 %): does not hold"
        );
    }

    #[test]
    fn verdict_needs_good_conditions_and_every_statement() {
        let (kept, missed) = (
            Check::new("a", 1.0, 2.0, Relation::AtMost),
            Check::new("b", 3.0, 2.0, Relation::AtMost),
        );
        let busy = vec!["Other programs ran.".to_owned()];
        let verdict = |checks: &[&Check], problems: &[String]| {
            Run(checks.iter().copied().cloned().collect(), problems.to_vec()).verdict()
        };
        assert_eq!(verdict(&[&kept, &kept], &[]), Verdict::Holds);
        assert_eq!(verdict(&[&kept, &missed], &[]), Verdict::DoesNotHold);
        assert_eq!(verdict(&[&kept, &missed], &busy), Verdict::Inconclusive);
        assert_eq!(verdict(&[&kept], &busy), Verdict::Inconclusive);
        let lost = missed.on_any_machine();
        assert_eq!(verdict(&[&kept, &lost], &busy), Verdict::DoesNotHold);
    }
}
