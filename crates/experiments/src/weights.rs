//! Figures 9 and 10: three members, the links of two limited; equal weights, and weights that match what the members can do.

use crate::bed::{Bed, ENDS, Failure};
use crate::numbers::Csr;
use crate::scale::{Cell, MEMBERS, cell};
use nw_testbed::{Cluster, Plan};
use serde::{Deserialize, Serialize};

/// What was measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Weights {
    /// With equal weights.
    pub uniform: Vec<Cell>,
    /// With the paper's.
    pub weighted: Vec<Cell>,
    /// These.
    pub weights: [u32; 3],
}

pub(crate) fn run(bed: &Bed<'_>) -> Result<Weights, Failure> {
    let csr = Csr::read();
    let measure = |weights: [u32; 3], what: &str| -> Result<Vec<Cell>, Failure> {
        let reference = bed.calibrate(bed.options.window().1)?;
        let limited_mbit = csr.limited() * bed.capacity_mbit();
        bed.say(&format!("two members limited to {limited_mbit:.0} Mbit/s, {what}"));
        let plan = Plan {
            members: MEMBERS,
            member_rates_mbit: vec![Some(limited_mbit), Some(limited_mbit), None],
            weights: weights.to_vec(),
            ..bed.plan_of_equals()
        };
        let cluster = Cluster::build(&plan)?;
        let contents = bed.publish(&cluster, ENDS)?;
        let downloads = bed.options.downloads().iter();
        downloads
            .map(|downloads| {
                // Two members are held back by their links, so no quota is to be filled.
                let point = bed.measure((&cluster, &reference), &contents, *downloads, false)?;
                Ok(cell(&point, MEMBERS, *downloads))
            })
            .collect()
    };
    let weights = csr.weights();
    Ok(Weights {
        uniform: measure([100; 3], "equal weights")?,
        weighted: measure(weights, "weights that match")?,
        weights,
    })
}
