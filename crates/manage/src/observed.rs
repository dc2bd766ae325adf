//! What engines and control sockets report, as plain data. Never taken from memory: a manager reads
//! all of it anew before each plan.

use crate::target::InstanceId;
use serde::{Deserialize, Serialize};

/// Everything of one network that runs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Observed {
    /// Instances, sorted by id.
    pub instances: Vec<ObservedInstance>,
}

/// An instance that an engine knows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ObservedInstance {
    /// Name and host.
    pub id: InstanceId,
    /// What it does.
    pub state: InstanceState,
    /// Text of its graph, from its control socket. `None` if the socket does not answer.
    pub graph: Option<String>,
    /// Faces of its graph.
    pub faces: Vec<ObservedFace>,
    /// Interests pending in all its elements.
    pub pending: u64,
    /// Whether elements of the previous graph still have pending Interests.
    pub is_changing: bool,
    /// Data packets in its content stores.
    pub cached_packets: u64,
    /// Data packets that imports brought since its start, stored or not.
    pub imported_packets: u64,
}

/// State of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InstanceState {
    /// Started; its control socket does not answer yet.
    Starting,
    /// Its control socket answers.
    Running,
    /// It accepts no more Interests and ends when none is pending.
    Draining,
    /// Its process has ended; the engine still knows it.
    Ended,
}

/// A face of an instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObservedFace {
    /// Name in the graph.
    pub name: String,
    /// Whether it is connected, or listens.
    pub is_up: bool,
    /// Interests sent by this face and not answered yet.
    pub pending: u64,
}

impl Observed {
    /// Returns an instance by id.
    pub fn instance(&self, id: &InstanceId) -> Option<&ObservedInstance> {
        self.instances
            .binary_search_by(|instance| instance.id.cmp(id))
            .ok()
            .map(|at| &self.instances[at])
    }
}

impl ObservedInstance {
    /// Returns whether it runs or starts, and is not on its way out.
    pub fn is_alive(&self) -> bool {
        matches!(self.state, InstanceState::Starting | InstanceState::Running)
    }

    /// Returns a face by name.
    pub fn face(&self, name: &str) -> Option<&ObservedFace> {
        self.faces.iter().find(|face| face.name == name)
    }
}
