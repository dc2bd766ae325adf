//! Figures 6, 7 and 8: throughput by downloads and members; with three members also the traffic and
//! processor load of each.

use crate::reference::Reference;
use crate::testbed::{ENDPOINTS, Failure, MeasuredPoint, Testbed};
use nw_testbed::{Cluster, Plan};
use serde::{Deserialize, Serialize};

/// Number of members in figures 7 and 8.
pub(crate) const MEMBERS: usize = 3;
/// Maximum number of members in figure 6.
pub(crate) const MEMBERS_MAX: usize = 4;

/// The measurements of figures 6 to 8. The single router has no members.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Scale {
    /// The points of each number of members with each number of downloads.
    pub cells: Vec<Cell>,
}

/// A point.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// Number of members; 0 stands for the single router.
    pub members: usize,
    /// Number of concurrent downloads.
    pub downloads: usize,
    /// Capacity of one member at the same time in Mbit/s.
    pub capacity_mbit: f64,
    /// Throughput of all consumers in Mbit/s, received and sent.
    pub throughput_mbit: f64,
    /// Throughput of each member from and to consumers in Mbit/s.
    pub member_mbit: Vec<f64>,
    /// Share of one processor used by each member's router.
    pub member_cpu: Vec<f64>,
    /// Share of one processor used by the balancer.
    pub balancer_cpu: f64,
}

impl Cell {
    /// Returns the throughput in units of the capacity of one member.
    pub fn throughput(&self) -> f64 {
        self.throughput_mbit / self.capacity_mbit
    }

    /// Returns the throughput of all members in units of the capacity of one member.
    pub fn handled(&self) -> f64 {
        self.member_mbit.iter().sum::<f64>() / self.capacity_mbit
    }
}

impl Scale {
    /// Returns a point, if it was measured.
    pub fn cell(&self, members: usize, downloads: usize) -> Option<&Cell> {
        self.cells.iter().find(|cell| (cell.members, cell.downloads) == (members, downloads))
    }

    /// Returns the points of a number of members, in order of downloads.
    pub fn row(&self, members: usize) -> impl Iterator<Item = &Cell> {
        self.cells.iter().filter(move |cell| cell.members == members)
    }
}

/// Measures all numbers of members, or only three.
pub(crate) fn run(testbed: &Testbed<'_>, all: bool) -> Result<Scale, Failure> {
    let mut scale = Scale::default();
    if all {
        testbed.say("a single router instead of a cluster");
        let reference = testbed.calibrate(testbed.options.window().1)?;
        let cluster = Cluster::build(&Plan {
            balancers: 0,
            members: 1,
            ..testbed.plan_with_limited_endpoints()
        })?;
        measure(testbed, (&cluster, &reference), 0, &mut scale)?;
    }
    for members in 1..=MEMBERS_MAX {
        if !all && members != MEMBERS {
            continue;
        }
        testbed.say(&format!("{members} of {MEMBERS_MAX} members"));
        let reference = testbed.calibrate(testbed.options.window().1)?;
        let cluster = Cluster::build(&Plan { members, ..testbed.plan_with_limited_endpoints() })?;
        measure(testbed, (&cluster, &reference), members, &mut scale)?;
    }
    Ok(scale)
}

fn measure(
    testbed: &Testbed<'_>,
    at: (&Cluster, &Reference),
    members: usize,
    scale: &mut Scale,
) -> Result<(), Failure> {
    let contents = testbed.publish(at.0, ENDPOINTS)?;
    for downloads in testbed.options.downloads() {
        let point = testbed.measure(at, &contents, *downloads, *downloads >= members.max(1))?;
        scale.cells.push(cell(&point, members, *downloads));
    }
    Ok(())
}

/// Returns the point of a measurement.
pub(crate) fn cell(point: &MeasuredPoint, members: usize, downloads: usize) -> Cell {
    let passed = &point.passed;
    let names = (1..=members).map(|number| format!("m{number}"));
    Cell {
        members,
        downloads,
        capacity_mbit: point.capacity_mbit,
        throughput_mbit: passed.consumers_mbit(),
        // Each packet enters and leaves once for consumers and once for producers.
        member_mbit: names.map(|name| passed.mbit(&name) / 2.0).collect(),
        member_cpu: passed.members.values().copied().collect(),
        balancer_cpu: passed.balancer,
    }
}
