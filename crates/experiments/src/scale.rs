//! Figures 6, 7 and 8: throughput over downloads and members; with three members, what each handles and how busy processors are.

use crate::bed::{Bed, ENDS, Failure, Point};
use crate::reference::Reference;
use nw_testbed::{Cluster, Plan};
use serde::{Deserialize, Serialize};

/// Members of figures 7 and 8.
pub(crate) const MEMBERS: usize = 3;
/// Most members of figure 6.
pub(crate) const MEMBERS_MAX: usize = 4;

/// What was measured. Without a cluster (a plain router in its place) there are no members.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Scale {
    /// Each number of members with each number of downloads.
    pub cells: Vec<Cell>,
}

/// One point.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// 0 is a plain router.
    pub members: usize,
    /// At a time.
    pub downloads: usize,
    /// What one member beside it could do at the same time, Mbit/s.
    pub capacity_mbit: f64,
    /// All consumers', in and out, Mbit/s.
    pub throughput_mbit: f64,
    /// What each member handled, from and to consumers, Mbit/s.
    pub member_mbit: Vec<f64>,
    /// Share of one processor that each member's router took.
    pub member_cpu: Vec<f64>,
    /// Share of one processor that the balancer took.
    pub balancer_cpu: f64,
}

impl Cell {
    /// Throughput, where 1 is what one member can do.
    pub fn throughput(&self) -> f64 {
        self.throughput_mbit / self.capacity_mbit
    }

    /// What the members handled together, likewise.
    pub fn handled(&self) -> f64 {
        self.member_mbit.iter().sum::<f64>() / self.capacity_mbit
    }
}

impl Scale {
    /// A point, if it was measured.
    pub fn cell(&self, members: usize, downloads: usize) -> Option<&Cell> {
        self.cells.iter().find(|cell| (cell.members, cell.downloads) == (members, downloads))
    }

    /// The points of one number of members, in order of downloads.
    pub fn row(&self, members: usize) -> impl Iterator<Item = &Cell> {
        self.cells.iter().filter(move |cell| cell.members == members)
    }
}

/// All numbers of members, or three only.
pub(crate) fn run(bed: &Bed<'_>, all: bool) -> Result<Scale, Failure> {
    let mut scale = Scale::default();
    if all {
        bed.say("a plain router in the cluster's place");
        let reference = bed.calibrate(bed.options.window().1)?;
        let cluster = Cluster::build(&Plan { balancers: 0, members: 1, ..bed.plan_of_equals() })?;
        measure(bed, (&cluster, &reference), 0, &mut scale)?;
    }
    for members in 1..=MEMBERS_MAX {
        if !all && members != MEMBERS {
            continue;
        }
        bed.say(&format!("{members} of {MEMBERS_MAX} members"));
        let reference = bed.calibrate(bed.options.window().1)?;
        let cluster = Cluster::build(&Plan { members, ..bed.plan_of_equals() })?;
        measure(bed, (&cluster, &reference), members, &mut scale)?;
    }
    Ok(scale)
}

fn measure(
    bed: &Bed<'_>,
    at: (&Cluster, &Reference),
    members: usize,
    scale: &mut Scale,
) -> Result<(), Failure> {
    let contents = bed.publish(at.0, ENDS)?;
    for downloads in bed.options.downloads() {
        let point = bed.measure(at, &contents, *downloads, *downloads >= members.max(1))?;
        scale.cells.push(cell(&point, members, *downloads));
    }
    Ok(())
}

/// A point from what passed.
pub(crate) fn cell(point: &Point, members: usize, downloads: usize) -> Cell {
    let passed = &point.passed;
    let names = (1..=members).map(|number| format!("m{number}"));
    Cell {
        members,
        downloads,
        capacity_mbit: point.capacity_mbit,
        throughput_mbit: passed.consumers_mbit(),
        // Each packet enters and leaves once for consumers, and once for producers.
        member_mbit: names.map(|name| passed.mbit(&name) / 2.0).collect(),
        member_cpu: passed.members.values().copied().collect(),
        balancer_cpu: passed.balancer,
    }
}
