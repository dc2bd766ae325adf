//! Findings: the paper's result, the measured result, and whether they agree within a stated
//! tolerance.

use crate::caching::Caching;
use crate::check::{Check, Relation, Source};
use crate::multicast::Multicast;
use crate::paper_data::Csr;
use crate::report::Report;
use crate::scale::{Cell, MEMBERS, MEMBERS_MAX, Scale};
use crate::timeline::Timeline;
use crate::weights::Weights;
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;

/// The result of a figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// The figure's number in the paper.
    pub figure: u8,
    /// The paper's caption.
    pub caption: String,
    /// The paper's finding.
    pub paper: String,
    /// The finding here.
    pub here: String,
    /// The checks that determine the verdict.
    pub checks: Vec<Check>,
}

impl Finding {
    fn new(csr: &Csr, figure: u8, here: String, checks: Vec<Check>) -> Finding {
        let text = csr.text(figure);
        Finding { figure, caption: text.caption.clone(), paper: text.found.clone(), here, checks }
    }

    /// Returns true if there are checks and all of them hold.
    pub fn agrees(&self) -> bool {
        !self.checks.is_empty() && self.checks.iter().all(Check::holds)
    }

    /// Returns the paper's finding, the finding here and the verdict.
    pub fn sentence(&self) -> String {
        format!("The paper found that {}. Here {}. {}", self.paper, self.here, self.verdict())
    }

    /// Returns whether the findings agree, with the decisive checks.
    pub fn verdict(&self) -> String {
        let count = self.checks.len();
        let failed: Vec<_> = self.checks.iter().filter(|check| !check.holds()).collect();
        let closest = self.checks.iter().max_by(|a, b| a.margin_used().total_cmp(&b.margin_used()));
        match (failed.first(), closest) {
            (None, None) => "Nothing was measured, so agreement is unknown.".to_owned(),
            (None, Some(closest)) => {
                format!(
                    "That agrees: all {count} checks hold; the closest to its bound: {}.",
                    closest.describe()
                )
            }
            (Some(_), _) => format!(
                "That does not agree: of {count} checks {} fail; first {}.",
                failed.len(),
                failed.iter().map(|check| check.describe()).take(3).collect::<Vec<_>>().join("; ")
            ),
        }
    }
}

/// Returns the findings of the selected figures that were measured.
pub(crate) fn findings(csr: &Csr, report: &Report, selected: &[u8]) -> Vec<Finding> {
    let mut all = Vec::new();
    if let Some(scale) = &report.scale {
        all.extend([
            figure_6(csr, scale),
            figure_7(csr, scale),
            figure_8(csr, scale, report.setup.share),
        ]);
    }
    if let Some(weights) = &report.weights {
        all.extend([figure_9(csr, weights), figure_10(csr, weights)]);
    }
    if let Some(multicast) = &report.multicast {
        all.push(figure_11(csr, multicast, report.scale.as_ref()));
    }
    if let Some(caching) = &report.caching {
        all.extend([figure_12(csr, caching), figure_13(csr, caching)]);
    }
    if let Some(timeline) = &report.timeline {
        all.push(figure_14(csr, timeline));
    }
    all.retain(|finding| selected.contains(&finding.figure));
    all
}

fn figure_6(csr: &Csr, scale: &Scale) -> Finding {
    let within = Relation::Within(0.15);
    let mut checks: Vec<_> = scale
        .cells
        .iter()
        .map(|cell| {
            let subject = if cell.members == 0 {
                "a single router".to_owned()
            } else {
                count(cell.members, "member")
            };
            let what = format!(
                "throughput of {subject} with {}, in members' capacities,",
                count(cell.downloads, "download")
            );
            Check::new(
                what,
                cell.throughput(),
                csr.throughput(cell.members, cell.downloads),
                within,
            )
        })
        .collect();
    let most = |members| scale.row(members).map(Cell::throughput).fold(0.0, f64::max);
    let (single, one, four) = (most(0), most(1), most(MEMBERS_MAX));
    if single > 0.0 {
        let what = "one member behind the balancer relative to a single router";
        checks.push(Check::new(what, one / single, 1.0, Relation::Within(0.1)));
    }
    let here = format!(
        "a single router reached {single:.2} members' capacities at most, one member behind the balancer {one:.2}, and four {four:.2}: {:.2} times one",
        four / one
    );
    Finding::new(csr, 6, here, checks)
}

fn figure_7(csr: &Csr, scale: &Scale) -> Finding {
    let mut checks = Vec::new();
    let (mut least, mut most) = (f64::INFINITY, 0.0_f64);
    for cell in scale.row(MEMBERS) {
        let all: f64 = cell.member_mbit.iter().sum();
        for (at, mbit) in cell.member_mbit.iter().enumerate() {
            let share = mbit / all;
            (least, most) = (least.min(share), most.max(share));
            let what =
                format!("member {}'s share with {}", at + 1, count(cell.downloads, "download"));
            checks.push(Check::new(what, share, 1.0 / MEMBERS as f64, Relation::Within(0.1)));
        }
    }
    let here = format!(
        "a member handled {:.1} to {:.1} % of the traffic, independent of the number of downloads",
        100.0 * least,
        100.0 * most
    );
    Finding::new(csr, 7, here, checks)
}

fn figure_8(csr: &Csr, scale: &Scale, share: f64) -> Finding {
    let mut checks = Vec::new();
    let mut last = (0.0, 0.0, 0.0);
    for cell in scale.row(MEMBERS) {
        let most = cell.member_cpu.iter().copied().fold(0.0, f64::max) / share;
        let least = cell.member_cpu.iter().copied().fold(f64::INFINITY, f64::min) / share;
        let with = count(cell.downloads, "download");
        checks.push(Check::bound(
            "paper/csr.busiest_member",
            format!("the busiest member's processor time over the least busy one's with {with}"),
            most / least,
        ));
        checks.push(Check::bound(
            "paper/csr.balancer",
            format!("the balancer's processor time over the least busy member's with {with}"),
            cell.balancer_cpu / share / least,
        ));
        if cell.downloads >= MEMBERS {
            let what = format!("the busiest member's load, in its own processor, with {with}");
            checks.push(Check::bound("paper/csr.member_load", what, most));
        }
        last = (most, least, cell.balancer_cpu / share);
    }
    let here = format!(
        "with most downloads the members' load was {:.0} to {:.0} % of what each has, and the balancer's {:.0} %",
        100.0 * last.1,
        100.0 * last.0,
        100.0 * last.2
    );
    Finding::new(csr, 8, here, checks)
}

fn figure_9(csr: &Csr, weights: &Weights) -> Finding {
    let mut checks = Vec::new();
    for (cells, of, what) in
        [(&weights.uniform, [1; 3], "equal"), (&weights.weighted, weights.weights, "matching")]
    {
        for cell in cells {
            let what = format!(
                "throughput with {what} weights and {}, in members' capacities,",
                count(cell.downloads, "download")
            );
            checks.push(
                Check::new(
                    what,
                    cell.throughput(),
                    csr.heterogeneous(of, cell.downloads),
                    Relation::Within(0.15),
                )
                .from(Source::Model),
            );
        }
    }
    let last = |cells: &[Cell]| cells.last().map_or(0.0, Cell::throughput);
    let (uniform, weighted) = (last(&weights.uniform), last(&weights.weighted));
    let model =
        csr.heterogeneous(weights.weights, usize::MAX) / csr.heterogeneous([1; 3], usize::MAX);
    checks.push(
        Check::new(
            "throughput with matching weights relative to equal ones with most downloads",
            weighted / uniform,
            model,
            Relation::Within(0.1),
        )
        .from(Source::Model),
    );
    let here = format!(
        "with most downloads equal weights reached {uniform:.2} members' capacities, matching ones {weighted:.2}: {:.2} times as much",
        weighted / uniform
    );
    Finding::new(csr, 9, here, checks)
}

fn figure_10(csr: &Csr, weights: &Weights) -> Finding {
    let all: f64 = weights.weights.iter().map(|weight| f64::from(*weight)).sum();
    let mut checks = Vec::new();
    let mut last = Vec::new();
    for cell in &weights.weighted {
        let sum: f64 = cell.member_mbit.iter().sum();
        last = cell.member_mbit.iter().map(|mbit| mbit / sum).collect();
        for (at, (share, weight)) in last.iter().zip(weights.weights).enumerate() {
            let what =
                format!("member {}'s share with {}", at + 1, count(cell.downloads, "download"));
            checks.push(Check::new(what, *share, f64::from(weight) / all, Relation::Within(0.1)));
        }
    }
    let shares: Vec<_> = last.iter().map(|share| format!("{:.0}", 100.0 * share)).collect();
    Finding::new(
        csr,
        10,
        format!("the members handled {} % with most downloads", shares.join(", ")),
        checks,
    )
}

fn figure_11(csr: &Csr, multicast: &Multicast, scale: Option<&Scale>) -> Finding {
    let one = multicast.one_consumer_mbit();
    let consumers: f64 = multicast.consumers_mbit.iter().sum();
    let members: f64 = multicast.members_mbit.iter().sum();
    let close = Relation::Within(0.05);
    let mut checks = vec![
        Check::new(
            "the producer's traffic over one consumer's",
            multicast.producer_mbit / one,
            1.0,
            close,
        ),
        Check::new("the consumers' traffic over the members'", consumers / members, 1.0, close),
    ];
    if let Some(different) = scale.and_then(|scale| scale.row(MEMBERS).last()) {
        checks.push(Check::new(
            "the members' traffic relative to that with different contents",
            members / multicast.capacity_mbit / different.handled(),
            1.0,
            Relation::AtLeast,
        ));
    }
    let here = format!(
        "the producer's traffic was {:.2} times that of one consumer, while five received {consumers:.0} Mbit/s from members that handled {members:.0}",
        multicast.producer_mbit / one
    );
    Finding::new(csr, 11, here, checks)
}

fn figure_12(csr: &Csr, caching: &Caching) -> Finding {
    let [first, second] = [0, 1].map(|at| caching.producer_bytes[at] / caching.consumer_bytes[at]);
    let checks = vec![
        Check::new(
            "the producer's traffic over the consumer's in the first download",
            first,
            1.0,
            Relation::Within(0.05),
        ),
        // Only version discovery goes to the producer again.
        Check::bound("paper/csr.second_download", "the same in the second", second),
    ];
    let here = format!(
        "the producer sent and received {:.1} % of what the consumer did in the first download, and {:.2} % in the second",
        100.0 * first,
        100.0 * second
    );
    Finding::new(csr, 12, here, checks)
}

fn figure_13(csr: &Csr, caching: &Caching) -> Finding {
    let [first, second] = caching.downloads.map(|(_, end)| caching.stored_at(end + 0.5));
    let packets = caching.packets as f64;
    let mut checks = Vec::new();
    for (at, stored) in first.iter().enumerate() {
        let what = format!("member {}'s share of the content after the first download", at + 1);
        checks.push(Check::new(
            what,
            stored / packets,
            1.0 / MEMBERS as f64,
            Relation::Within(0.1),
        ));
    }
    let (before, after): (f64, f64) = (first.iter().sum(), second.iter().sum());
    checks.push(Check::new(
        "packets stored after the second download relative to before it",
        after / before,
        1.0,
        Relation::Within(0.02),
    ));
    let list = first.iter().map(|stored| format!("{stored:.0}")).collect::<Vec<_>>().join(", ");
    let here = format!(
        "the members held {list} packets after the first download of {packets:.0}, and {after:.0} together after the second"
    );
    Finding::new(csr, 13, here, checks)
}

fn figure_14(csr: &Csr, timeline: &Timeline) -> Finding {
    let mut checks: Vec<_> = timeline
        .stages
        .iter()
        .enumerate()
        .map(|(at, stage)| {
            let what = format!(
                "throughput in stage {} ({}), in members' capacities,",
                at + 1,
                count(stage.members, "member")
            );
            Check::new(
                what,
                stage.throughput_mbit / stage.capacity_mbit,
                stage.members as f64,
                Relation::Within(0.15),
            )
        })
        .collect();
    checks.push(Check::new(
        "completed downloads",
        timeline.completed as f64,
        timeline.downloads as f64,
        Relation::AtLeast,
    ));
    checks.push(Check::new(
        "retransmitted Interests",
        timeline.retransmissions as f64,
        0.0,
        Relation::AtMost,
    ));
    let stages: Vec<_> =
        timeline.stages.iter().map(|stage| format!("{:.0}", stage.throughput_mbit)).collect();
    let mut here = format!(
        "throughput was {} Mbit/s in the stages; {} of {} downloads were completed, and {} Interests were retransmitted",
        stages.join(", "),
        timeline.completed,
        timeline.downloads,
        timeline.retransmissions
    );
    if !timeline.losses.is_empty() {
        let _ = write!(here, "; packets were lost: {}", timeline.losses);
    }
    Finding::new(csr, 14, here, checks)
}

fn count(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figure_without_measurement_does_not_agree() {
        let finding = Finding::new(&Csr::read(), 6, "nothing was measured".into(), Vec::new());
        assert!(!finding.agrees());
        assert!(finding.sentence().contains("Nothing was measured, so"));
    }
}
