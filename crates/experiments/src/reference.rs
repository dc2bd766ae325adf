//! One member measured beside each point: a plain router with the same share of a processor, its own consumers and producers, in a laboratory
//! of its own. A machine that others share becomes faster and slower within seconds; what is measured at the same time compares.

use crate::bed::{Bed, CALIBRATING, ENDS, Failure, Passed};
use nw_testbed::{Cluster, Download, Plan, Publication};
use std::time::Duration;

/// A running plain router.
pub(crate) struct Reference {
    cluster: Cluster,
    contents: Vec<Publication>,
}

/// Downloads through it, which end when this is dropped.
pub(crate) struct Running<'a> {
    reference: &'a Reference,
    _downloads: Vec<Download>,
}

impl Reference {
    /// Builds the router with contents that last for `longest` at least.
    pub(crate) fn build(bed: &Bed<'_>, longest: Duration) -> Result<Reference, Failure> {
        let plan = Plan { balancers: 0, members: 1, consumers: ENDS, producers: ENDS, ..bed.plan() };
        let cluster = Cluster::build(&plan)?;
        let contents = bed.publish_for(&cluster, CALIBRATING, longest)?;
        Ok(Reference { cluster, contents })
    }

    pub(crate) fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Starts enough downloads to keep the router busy.
    pub(crate) fn start(&self, bed: &Bed<'_>) -> Result<Running<'_>, Failure> {
        let plan = bed.fetch_plan();
        let started = self.contents.iter().zip(self.cluster.consumers());
        let downloads = started.map(|(content, consumer)| consumer.fetch(&content.name, &plan));
        Ok(Running { reference: self, _downloads: downloads.collect::<Result<_, _>>()? })
    }
}

impl Running<'_> {
    pub(crate) fn cluster(&self) -> &Cluster {
        &self.reference.cluster
    }
}

/// What one member could do at the time, from what passed the reference: Mbit/s, and the share of its quota that it used.
pub(crate) fn capacity(passed: &Passed, share: f64) -> (f64, f64) {
    let used = passed.members.values().copied().fold(0.0, f64::max) / share;
    (passed.consumers_mbit(), used)
}
