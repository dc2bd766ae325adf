//! Instances that follow others at the same address.
//!
//! Containers of one host share its paths and ports, unless each has an address of its own. An
//! instance that listens there can't run beside the one that it replaces: it starts when that one
//! has drained and ended. All others start, and are connected, before. Until the followers run,
//! nothing else is taken away.

use crate::observed::{InstanceState, Observed, ObservedInstance};
use crate::target::{Instance, InstanceId, Target, TargetHost};
use nw_graph_language::GraphFile;
use nw_graph_language::network::EngineKind;
use std::collections::BTreeSet;

/// Which instances wait, and for which.
#[derive(Debug, Default)]
pub(super) struct Successions<'a> {
    /// Instances of the target that start later.
    pub later: BTreeSet<&'a InstanceId>,
    /// Instances that must end before.
    first: BTreeSet<&'a InstanceId>,
}

impl<'a> Successions<'a> {
    /// Finds the instances that an unwanted one of the same service keeps from listening.
    pub fn find(target: &'a Target, observed: &'a Observed) -> Self {
        let mut found = Successions::default();
        if target.has_addresses {
            return found;
        }
        let has_containers = |id: &InstanceId| {
            let is_its = |host: &&TargetHost| host.name == id.host;
            let host = target.hosts.iter().find(is_its);
            host.is_some_and(|host| host.engine == EngineKind::Docker || host.image.is_some())
        };
        let is_old = |seen: &&ObservedInstance| {
            target.instance(&seen.id).is_none()
                && seen.state != InstanceState::Ended
                && has_containers(&seen.id)
        };
        for seen in observed.instances.iter().filter(is_old) {
            let Some(text) = &seen.graph else { continue };
            let follows = |wanted: &&Instance| {
                wanted.service == seen.id.service()
                    && wanted.id.host == seen.id.host
                    && !observed.instance(&wanted.id).is_some_and(ObservedInstance::is_alive)
            };
            for wanted in target.instances.iter().filter(follows) {
                if !listeners(text).is_disjoint(&listeners(&wanted.graph)) {
                    found.later.insert(&wanted.id);
                    found.first.insert(&seen.id);
                }
            }
        }
        found
    }

    /// Returns whether an instance that is no longer wanted may end now.
    pub fn may_end(&self, id: &InstanceId) -> bool {
        self.later.is_empty() || self.first.contains(id)
    }
}

/// Returns the addresses at which the faces of a graph listen.
fn listeners(text: &str) -> BTreeSet<String> {
    let faces = GraphFile::parse(text).0.graph.faces;
    faces.into_iter().filter(|face| face.is_listener).filter_map(|face| face.uri).collect()
}
