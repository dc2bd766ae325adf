//! The reference measured beside each point: a single router with the same share of a processor and
//! its own consumers and producers in a separate testbed. The speed of a shared machine changes
//! within seconds, so only simultaneous measurements can be compared.

use crate::testbed::{CALIBRATION_DOWNLOADS, ENDPOINTS, Failure, Measurement, Testbed};
use nw_testbed::{Cluster, Download, Plan, Publication};
use std::time::Duration;

/// A running single router.
pub(crate) struct Reference {
    cluster: Cluster,
    contents: Vec<Publication>,
}

/// Downloads through the reference router, which end on drop.
pub(crate) struct Running<'a> {
    reference: &'a Reference,
    _downloads: Vec<Download>,
}

impl Reference {
    /// Builds the router with contents that last for at least `longest`.
    pub(crate) fn build(testbed: &Testbed<'_>, longest: Duration) -> Result<Reference, Failure> {
        let plan = Plan {
            balancers: 0,
            members: 1,
            consumers: ENDPOINTS,
            producers: ENDPOINTS,
            ..testbed.plan()
        };
        let cluster = Cluster::build(&plan)?;
        let contents = testbed.publish_for(&cluster, CALIBRATION_DOWNLOADS, longest)?;
        Ok(Reference { cluster, contents })
    }

    pub(crate) fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Starts enough downloads to keep the router busy.
    pub(crate) fn start(&self, testbed: &Testbed<'_>) -> Result<Running<'_>, Failure> {
        let plan = testbed.fetch_plan();
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

/// Returns the capacity of one member in Mbit/s and the used share of its quota, from a measurement
/// of the reference.
pub(crate) fn capacity(passed: &Measurement, share: f64) -> (f64, f64) {
    let used = passed.members.values().copied().fold(0.0, f64::max) / share;
    (passed.consumers_mbit(), used)
}
