//! The hosts of a network that agents connect: an engine of each kind for each of them.
//!
//! A host that is not connected has no instances that can be seen. The others of the network go on;
//! what it runs is found again when its agent is back.

use crate::engine::{Engine, RemoteEngine};
use nw_agent::Hub;
use nw_graph_language::network::EngineKind;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Engines by host and name.
type Engines = BTreeMap<(String, &'static str), Arc<dyn Engine>>;

/// Engines of other hosts.
#[derive(Clone)]
pub struct RemoteHosts {
    hub: Arc<Hub>,
    engines: Arc<Mutex<Engines>>,
}

impl RemoteHosts {
    /// Creates the engines of the hosts that connect to `hub`.
    pub fn new(hub: Arc<Hub>) -> Self {
        RemoteHosts { hub, engines: Arc::default() }
    }

    /// Returns the engine of a kind on a host.
    pub fn engine(&self, host: &str, kind: EngineKind) -> Arc<dyn Engine> {
        let mut engines = self.engines.lock().unwrap_or_else(PoisonError::into_inner);
        let engine = engines.entry((host.to_owned(), kind.name())).or_insert_with(|| {
            Arc::new(RemoteEngine::new(self.hub.clone(), host.to_owned(), kind.name()))
        });
        engine.clone()
    }

    /// Returns whether a host has enrolled, or has a token to do so.
    pub fn is_known(&self, host: &str) -> bool {
        self.hub.hosts().iter().any(|status| status.name == host)
    }

    /// Returns the engines of all hosts whose agents are connected.
    pub fn connected(&self) -> Vec<(EngineKind, Arc<dyn Engine>)> {
        self.connected_if(|_| true)
    }

    /// Returns the engines of a host if its agent is connected.
    pub fn connected_of(&self, host: &str) -> Vec<(EngineKind, Arc<dyn Engine>)> {
        self.connected_if(|name| name == host)
    }

    fn connected_if(&self, is_wanted: impl Fn(&str) -> bool) -> Vec<(EngineKind, Arc<dyn Engine>)> {
        let hosts = self.hub.hosts().into_iter();
        let connected = hosts.filter(|status| status.connections > 0 && is_wanted(&status.name));
        let kinds = EngineKind::NAMES.map(|(_, kind)| kind);
        connected
            .flat_map(|status| kinds.map(|kind| (kind, self.engine(&status.name, kind))))
            .collect()
    }
}
