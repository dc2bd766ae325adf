//! Figures 9 and 10: three members, two of them with limited links; equal weights, and weights that
//! match the members' capacities.

use crate::paper_data::Csr;
use crate::scale::{Cell, MEMBERS, cell};
use crate::testbed::{ENDPOINTS, Failure, Testbed};
use nw_testbed::{Cluster, Plan};
use serde::{Deserialize, Serialize};

/// The measurements of figures 9 and 10.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Weights {
    /// Points with equal weights.
    pub uniform: Vec<Cell>,
    /// Points with the paper's weights.
    pub weighted: Vec<Cell>,
    /// The paper's weights.
    pub weights: [u32; 3],
}

pub(crate) fn run(testbed: &Testbed<'_>) -> Result<Weights, Failure> {
    let csr = Csr::read();
    let measure = |weights: [u32; 3], what: &str| -> Result<Vec<Cell>, Failure> {
        let reference = testbed.calibrate(testbed.options.window().1)?;
        let limited_mbit = csr.limited() * testbed.capacity_mbit();
        testbed.say(&format!("two members limited to {limited_mbit:.0} Mbit/s, {what}"));
        let plan = Plan {
            members: MEMBERS,
            member_rates_mbit: vec![Some(limited_mbit), Some(limited_mbit), None],
            weights: weights.to_vec(),
            ..testbed.plan_with_limited_endpoints()
        };
        let cluster = Cluster::build(&plan)?;
        let contents = testbed.publish(&cluster, ENDPOINTS)?;
        let downloads = testbed.options.downloads().iter();
        downloads
            .map(|downloads| {
                // Two members are limited by their links, so no quota is filled.
                let point =
                    testbed.measure((&cluster, &reference), &contents, *downloads, false)?;
                Ok(cell(&point, MEMBERS, *downloads))
            })
            .collect()
    };
    let weights = csr.weights();
    Ok(Weights {
        uniform: measure([100; 3], "equal weights")?,
        weighted: measure(weights, "matching weights")?,
        weights,
    })
}
