//! Whether what is observed meets a condition.

use super::Condition;
use crate::observed::{InstanceState, Observed, ObservedInstance};
use crate::target::{InstanceId, digest};
use nw_graph_language::{GraphFile, language};

impl Condition {
    /// Returns whether the condition holds in what is observed.
    pub fn holds(&self, observed: &Observed) -> bool {
        let find = |instance: &InstanceId| observed.instance(instance);
        let answers = |instance: &InstanceId| {
            find(instance).filter(|seen| seen.graph.is_some() && seen.is_alive())
        };
        match self {
            Condition::Always => true,
            Condition::Absent { instance } => find(instance).is_none(),
            Condition::Alive { instance } => find(instance).is_some_and(ObservedInstance::is_alive),
            Condition::Running { instance } => find(instance)
                .is_some_and(|seen| seen.state == InstanceState::Running && seen.graph.is_some()),
            Condition::Graph { instance, digest } => answers(instance)
                .and_then(|seen| seen.graph.as_deref())
                .is_some_and(|graph| graph_digest(graph) == *digest),
            Condition::Up { instance, faces } => answers(instance).is_some_and(|seen| {
                faces.iter().all(|face| seen.face(face).is_some_and(|face| face.is_up))
            }),
            Condition::Idle { instance, faces } => answers(instance).is_some_and(|seen| {
                let is_idle = |face: &String| seen.face(face).is_none_or(|face| face.pending == 0);
                !seen.is_changing && faces.iter().all(is_idle)
            }),
            Condition::Leaving { instance } => find(instance).is_none_or(|seen| {
                matches!(seen.state, InstanceState::Draining | InstanceState::Ended)
            }),
            Condition::Finished { instance } => find(instance)
                .is_none_or(|seen| seen.state == InstanceState::Ended || seen.pending == 0),
            Condition::Imported { instance, above } => {
                find(instance).is_some_and(|seen| seen.imported_packets > *above)
            }
        }
    }
}

/// Returns the digest of a graph in canonical form: two texts of the same graph have the same
/// digest. A text that is not a graph has the digest of its bytes.
pub fn graph_digest(text: &str) -> String {
    let (file, problems) = GraphFile::parse(text);
    match problems.is_empty() {
        true => digest(&[&language::write(&file.graph)]),
        false => digest(&[text]),
    }
}
