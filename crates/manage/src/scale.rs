//! Number of instances of each service, from the processor time they use.

use crate::document::Document;
use crate::target::{InstanceId, Target};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Load of an instance, from its control socket.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadSample {
    /// Instance.
    pub instance: InstanceId,
    /// Processor time since its start, seconds.
    pub cpu_s: f64,
    /// Interests received since its start.
    pub interests: u64,
    /// Packets dropped since its start.
    pub dropped: u64,
}

/// A change of the number of instances of a service, or the reason why there is none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScaleDecision {
    /// Service.
    pub service: String,
    /// Number of instances now.
    pub from: u32,
    /// Wanted number of instances.
    pub to: u32,
    /// Why, with figures: one sentence for a person.
    pub reason: String,
}

/// Decides the number of instances of each service with bounds.
#[derive(Clone, Debug, Default)]
pub struct Scaler {}

impl Scaler {
    /// Takes the loads of all instances and returns a decision for each service with bounds.
    /// `replicas` is the number of instances that each service has been given; `is_changing` is
    /// true while a plan is carried out, in which no decision changes anything.
    pub fn observe(
        &mut self,
        document: &Document,
        target: &Target,
        replicas: &BTreeMap<String, u32>,
        now_ms: u64,
        samples: &[LoadSample],
        is_changing: bool,
    ) -> Vec<ScaleDecision> {
        let _ = (document, target, replicas, now_ms, samples, is_changing);
        Vec::new()
    }
}
