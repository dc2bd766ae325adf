//! Steps from what runs to what must run.
//!
//! | file | content |
//! |---|---|
//! | `condition.rs` | whether what is observed meets a condition |
//! | `merge.rs` | graphs between two graphs: faces of both |
//! | `steps.rs` | the steps, in waves |
//! | `successions.rs` | containers that listen where others listen, and start after them |
//!
//! Every step says "make it so that": carrying it out twice has the effect of once. A step is done
//! when its evidence holds in what is observed; a step whose evidence holds already is skipped. A
//! plan is never resumed after a failure: what runs is observed, and planned anew.

mod condition;
mod merge;
mod steps;
mod successions;

pub use condition::graph_digest;
pub use steps::plan;

use crate::target::InstanceId;
use nw_graph_language::network::InsertionOrder;
use serde::{Deserialize, Serialize};

/// Steps in waves.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Digest of the target and of what was observed, 16 hexadecimal digits. A plan may be carried
    /// out only while planning again gives the same id.
    pub id: String,
    /// Waves, in order. All steps of a wave may run at once; a wave begins when all steps of the
    /// wave before it are done.
    pub waves: Vec<Wave>,
}

/// Steps that may run at once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Wave {
    /// What the steps of the wave do.
    pub phase: Phase,
    /// The steps; never empty.
    pub steps: Vec<Step>,
}

/// What the steps of a wave do, in the order of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Removes what has ended.
    Forget,
    /// Starts new instances.
    Start,
    /// Waits until new instances answer.
    Ready,
    /// Fills content stores of new instances.
    Prefill,
    /// Adds faces that nothing is sent to yet.
    Wire,
    /// Waits until added faces are connected.
    Connect,
    /// Sends Interests by the new path, nearest to the producers first.
    Switch,
    /// Changes routes, so that no Interest is sent where there is none.
    Route,
    /// Waits until nothing is pending by faces of the old path.
    AwaitIdle,
    /// Removes faces of the old path.
    Unwire,
    /// Hands the content of stores over to the instances that stay.
    HandOver,
    /// Lets old instances finish.
    Drain,
    /// Stops old instances and removes what they leave.
    Stop,
}

/// One step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// Id within the plan: `W.N`, wave and number from 1.
    pub id: String,
    /// What is done.
    pub action: Action,
    /// What must be observed before.
    pub precondition: Condition,
    /// What is observed when the step is done.
    pub evidence: Condition,
    /// Time limit, milliseconds.
    pub limit_ms: u64,
    /// What happens when the limit passes without evidence.
    pub on_limit: OnLimit,
    /// Action that takes the step back. `None` if nothing needs to be taken back.
    pub undo: Option<Action>,
    /// Why the step is needed: one sentence for a person.
    pub reason: String,
}

/// What happens when a step's time limit passes without evidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnLimit {
    /// The plan fails: no later wave is begun, and the undo actions of this wave are carried out.
    Fail,
    /// The plan goes on: the step bounds a wait, or moves state that may be lost.
    Continue,
}

/// An action on one instance. Idempotent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "action")]
pub enum Action {
    /// Starts an instance with a graph. Does nothing if it runs.
    Start {
        /// Instance.
        instance: InstanceId,
        /// Text of its graph.
        graph: String,
        /// Share of a processor core that it may use at most.
        quota_cores: Option<f64>,
    },
    /// Does nothing: the step waits for its evidence.
    Await {
        /// Instance that is waited for.
        instance: InstanceId,
    },
    /// Replaces the graph of an instance (`PUT /v1/graph`).
    SetGraph {
        /// Instance.
        instance: InstanceId,
        /// Text of the graph.
        graph: String,
        /// How its host handles packets meanwhile.
        order: InsertionOrder,
    },
    /// Copies cached Data from one instance to another, newest first.
    CopyStore {
        /// Instance that exports.
        from: InstanceId,
        /// Instance that imports.
        to: InstanceId,
        /// Element of both that stores Data.
        element: String,
        /// Most bytes of packets.
        bytes_max: u64,
    },
    /// Lets an instance finish (`POST /v1/drain`).
    Drain {
        /// Instance.
        instance: InstanceId,
    },
    /// Stops an instance and removes what the engine keeps of it. Does nothing if it is unknown.
    Stop {
        /// Instance.
        instance: InstanceId,
    },
}

/// What must be observed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "condition")]
pub enum Condition {
    /// Always holds.
    Always,
    /// The engine does not know the instance.
    Absent {
        /// Instance.
        instance: InstanceId,
    },
    /// The engine knows the instance, and it has not ended.
    Alive {
        /// Instance.
        instance: InstanceId,
    },
    /// Its control socket answers.
    Running {
        /// Instance.
        instance: InstanceId,
    },
    /// It runs a graph, by the digest of its canonical text.
    Graph {
        /// Instance.
        instance: InstanceId,
        /// Result of [`graph_digest`].
        digest: String,
    },
    /// All these faces are up.
    Up {
        /// Instance.
        instance: InstanceId,
        /// Names of faces.
        faces: Vec<String>,
    },
    /// Nothing is pending by these faces, and nothing in elements of a previous graph.
    Idle {
        /// Instance.
        instance: InstanceId,
        /// Names of faces.
        faces: Vec<String>,
    },
    /// It has ended, or is draining, or is unknown.
    Leaving {
        /// Instance.
        instance: InstanceId,
    },
    /// Nothing is pending in it, or it has ended.
    Finished {
        /// Instance.
        instance: InstanceId,
    },
    /// It has been sent more Data by imports than before.
    Imported {
        /// Instance.
        instance: InstanceId,
        /// Packets imported before the plan.
        above: u64,
    },
}

impl Plan {
    /// Returns whether nothing needs to be done.
    pub fn is_empty(&self) -> bool {
        self.waves.is_empty()
    }

    /// Returns all steps, in order.
    pub fn steps(&self) -> impl Iterator<Item = &Step> {
        self.waves.iter().flat_map(|wave| &wave.steps)
    }
}
