//! Figures 6, 7 and 8: throughput over downloads and members; with three members, what each handles and how busy processors are.

use crate::bed::{Bed, ENDS, Failure, Passed};
use nw_lab::{Cluster, Plan};
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
    /// What one member could do just before, Mbit/s.
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
        bed.calibrate()?;
        let cluster = Cluster::build(&Plan { balancers: 0, members: 1, ..bed.plan_of_equals() })?;
        measure(bed, &cluster, 0, &mut scale)?;
    }
    for members in 1..=MEMBERS_MAX {
        if !all && members != MEMBERS {
            continue;
        }
        bed.say(&format!("{members} of {MEMBERS_MAX} members"));
        bed.calibrate()?;
        let cluster = Cluster::build(&Plan { members, ..bed.plan_of_equals() })?;
        measure(bed, &cluster, members, &mut scale)?;
    }
    Ok(scale)
}

fn measure(bed: &Bed<'_>, cluster: &Cluster, members: usize, scale: &mut Scale) -> Result<(), Failure> {
    let contents = bed.publish(cluster, ENDS)?;
    for downloads in bed.options.downloads() {
        let passed = bed.measure(cluster, &contents, *downloads)?;
        scale.cells.push(cell(bed, &passed, members, *downloads));
    }
    Ok(())
}

/// A point from what passed.
pub(crate) fn cell(bed: &Bed<'_>, passed: &Passed, members: usize, downloads: usize) -> Cell {
    let names = (1..=members).map(|number| format!("m{number}"));
    Cell {
        members,
        downloads,
        capacity_mbit: bed.capacity_mbit(),
        throughput_mbit: passed.consumers_mbit(),
        // Each packet enters and leaves once for consumers, and once for producers.
        member_mbit: names.map(|name| passed.mbit(&name) / 2.0).collect(),
        member_cpu: passed.members.values().copied().collect(),
        balancer_cpu: passed.balancer,
    }
}
