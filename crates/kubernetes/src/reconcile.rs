//! One resource and its manager: what the resource wants goes to the manager, what the manager says
//! goes into the status.
//!
//! Invariant: all that changes the network is the manager's plan. A resource that is deleted drains
//! first: a finalizer keeps it until no instance is left.

use crate::cluster::{Cluster, ClusterError};
use crate::conditions::{Facts, status};
use crate::engine::{FIELD_MANAGER, KubernetesEngine, Place};
use crate::resource::{DOCUMENT_BYTES_MAX, Network, NetworkStatus, ServiceCount};
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::{Patch, PatchParams};
use nw_agent::Hub;
use nw_api::config::Page;
use nw_api::network::{GraphInstance, GraphInstanceState, NetworkChange, NetworkState};
use nw_graph_language::network::EngineKind;
use nw_manager::engine::{Engine, InstanceState};
use nw_manager::{Author, FirstDocument, Handle, Manager, Options};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Keeps a resource until its services have drained.
const FINALIZER: &str = "namewire.dev/drain";
/// Time between attempts to start a manager that could not be started.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);
/// Time after which instances that no version of the document explains are removed.
const ORPHAN_GRACE: Duration = Duration::from_secs(60);
/// Time in which an instance may end when its manager is gone.
const END_LIMIT: Duration = Duration::from_secs(8);

/// What all resources share.
pub(crate) struct Common {
    pub cluster: Arc<Cluster>,
    pub hub: Arc<Hub>,
    /// State directory of the hub.
    pub authority: PathBuf,
    /// Folder of the networks' directories.
    pub networks: PathBuf,
    /// Where pods reach the hub.
    pub agents: String,
    pub image: String,
    pub program: PathBuf,
    pub period: Duration,
}

/// A manager that runs, and where it can be asked.
struct Running {
    manager: Manager,
    handle: Handle,
    /// Serves the control socket until it is dropped.
    _server: nw_rest_api::Server,
}

/// A resource that this operator looks after.
pub(crate) struct Held {
    key: String,
    engine: Arc<KubernetesEngine>,
    running: Option<Running>,
    /// Generation that was put into effect, or refused.
    generation: i64,
    refusal: Option<String>,
    next_start: Instant,
    counts: BTreeMap<String, u32>,
    is_stopping: bool,
    has_finalizer: bool,
    status: NetworkStatus,
    /// What keeps pods from running, by instance, as it was told last.
    troubles: BTreeMap<String, String>,
}

fn author() -> Author {
    Author("the resource".to_owned())
}

fn name_of(network: &Network) -> (String, String) {
    let metadata = &network.metadata;
    (metadata.namespace.clone().unwrap_or_default(), metadata.name.clone().unwrap_or_default())
}

/// Returns the key of a resource, which names its directory. No namespace has a `_` in its name.
pub(crate) fn key_of(network: &Network) -> String {
    let (namespace, name) = name_of(network);
    format!("{namespace}_{name}")
}

fn place(common: &Common, network: &Network) -> Place {
    let (namespace, name) = name_of(network);
    Place {
        namespace,
        name,
        uid: network.metadata.uid.clone().unwrap_or_default(),
        agents: common.agents.clone(),
        image: common.image.clone(),
        spec: network.spec.clone(),
    }
}

impl Held {
    /// Begins to look after a resource.
    pub fn new(common: &Common, network: &Network) -> Self {
        let engine = KubernetesEngine::new(
            common.cluster.clone(),
            common.hub.clone(),
            common.authority.clone(),
            place(common, network),
        );
        let finalizers = network.metadata.finalizers.as_deref().unwrap_or_default();
        Held {
            key: key_of(network),
            engine: Arc::new(engine),
            running: None,
            generation: 0,
            refusal: None,
            next_start: Instant::now(),
            counts: BTreeMap::new(),
            is_stopping: false,
            has_finalizer: finalizers.iter().any(|found| found == FINALIZER),
            status: network.status.clone().unwrap_or_default(),
            troubles: BTreeMap::new(),
        }
    }

    /// Brings the manager and the status up to the resource. Returns whether the resource is gone.
    pub fn reconcile(&mut self, common: &Common, network: &Network) -> Result<bool, ClusterError> {
        let is_deleted = network.metadata.deletion_timestamp.is_some();
        if is_deleted && !self.has_finalizer {
            return Ok(true);
        }
        if !self.has_finalizer {
            self.set_finalizer(common, network, true)?;
        }
        let generation = network.metadata.generation.unwrap_or_default();
        if self.running.is_none() && Instant::now() >= self.next_start {
            self.next_start = Instant::now() + RETRY_INTERVAL;
            self.start(common, network);
        } else if self.running.is_some() && generation != self.generation && !is_deleted {
            self.refusal = self.change(common, network).err();
        }
        self.generation = generation;
        if is_deleted && self.has_drained(common)? {
            self.set_finalizer(common, network, false)?;
            // What can't be removed is found by the next resource of this name, and replaced.
            let _ = std::fs::remove_dir_all(common.networks.join(&self.key));
            return Ok(true);
        }
        self.report(common, network, is_deleted)?;
        Ok(false)
    }

    /// Ends the manager; services go on.
    pub fn quit(self) {
        if let Some(running) = self.running {
            running.handle.quit();
            running.manager.wait();
        }
    }

    fn start(&mut self, common: &Common, network: &Network) {
        match self.try_start(common, network) {
            Ok(running) => {
                self.running = Some(running);
                self.refusal = self.set_counts(network).err();
            }
            Err(reason) => self.refusal = Some(reason),
        }
    }

    fn try_start(&self, common: &Common, network: &Network) -> Result<Running, String> {
        check(network)?;
        let directory = common.networks.join(&self.key);
        let engine: Arc<dyn Engine> = self.engine.clone();
        let options = Options {
            network: name_of(network).1,
            directory: directory.clone(),
            program: common.program.clone(),
            period: common.period,
            // Whatever a document names: everything runs in pods.
            engines: vec![(EngineKind::Process, engine.clone()), (EngineKind::Docker, engine)],
            remote: None,
            orphan_grace: ORPHAN_GRACE,
            revision: place(common, network).revision(),
            has_addresses: true,
        };
        let text = network.spec.document.clone();
        let first = FirstDocument { text, folder: directory, author: author() };
        let manager = Manager::start(options, Some(first)).map_err(|error| error.to_string())?;
        let handle = manager.handle();
        let server = nw_manager::serve::serve(handle.clone(), &Page::default(), None);
        match server {
            Ok(server) => Ok(Running { manager, handle, _server: server }),
            Err(error) => {
                handle.quit();
                manager.wait();
                Err(error.to_string())
            }
        }
    }

    /// Puts a changed resource into effect. What is refused changes nothing.
    fn change(&mut self, common: &Common, network: &Network) -> Result<(), String> {
        check(network)?;
        let Some(running) = &self.running else { return Ok(()) };
        let text = network.spec.document.clone();
        if running.handle.status().text != text {
            let change =
                NetworkChange { text, version: None, plan: None, folder: None, reason: None };
            running.handle.set_document(&change, &author()).map_err(|error| error.to_string())?;
        }
        let place = place(common, network);
        let revision = place.revision();
        self.engine.set_place(place);
        let set = running.handle.set_revision(&revision, &author());
        set.map_err(|error| error.to_string())?;
        self.set_counts(network)
    }

    /// Sets the numbers of instances that the resource has, and releases those that it had.
    fn set_counts(&mut self, network: &Network) -> Result<(), String> {
        let Some(running) = &self.running else { return Ok(()) };
        let wanted = network.spec.counts();
        let is_held = network.spec.hold.unwrap_or(false);
        let is_in_effect = running.handle.status().state == NetworkState::Held;
        if is_held != is_in_effect {
            running.handle.hold(is_held, &author()).map_err(|error| error.to_string())?;
        }
        let released = self.counts.keys().filter(|service| !wanted.contains_key(*service));
        let released: Vec<String> = released.cloned().collect();
        for service in released {
            // A service that is gone has no number any more.
            let _ = running.handle.set_scale(&service, None, &author());
            self.counts.remove(&service);
        }
        for (service, count) in wanted {
            if self.counts.get(&service) != Some(&count) {
                let set = running.handle.set_scale(&service, Some(count), &author());
                set.map_err(|error| format!("{service}: {error}"))?;
                self.counts.insert(service, count);
            }
        }
        Ok(())
    }

    /// Stops all services of a deleted resource. Returns whether nothing is left.
    fn has_drained(&mut self, common: &Common) -> Result<bool, ClusterError> {
        let directory = common.networks.join(&self.key);
        if let Some(running) = &self.running {
            if !self.is_stopping {
                self.is_stopping = true;
                running.handle.stop(false, &author()).map_err(system)?;
            }
            if !running.handle.wait_ended(Duration::ZERO) {
                return Ok(false);
            }
        }
        if let Some(running) = self.running.take() {
            running.manager.wait();
        }
        // One whose document can't be read any more had no manager.
        self.remove_rest(&directory)?;
        Ok(true)
    }

    fn remove_rest(&self, directory: &Path) -> Result<(), ClusterError> {
        for left in self.engine.list(directory, "").map_err(system)? {
            let instance = &left.labels.instance;
            if left.state == InstanceState::Running {
                self.engine.stop(directory, instance, END_LIMIT).map_err(system)?;
            }
            self.engine.remove(directory, instance).map_err(system)?;
        }
        Ok(())
    }

    fn report(
        &mut self,
        common: &Common,
        network: &Network,
        is_deleted: bool,
    ) -> Result<(), ClusterError> {
        let mut facts = Facts {
            generation: self.generation,
            refusal: self.refusal.clone(),
            is_deleted,
            ..Facts::default()
        };
        if let Some(Running { handle, .. }) = &self.running {
            let graph = handle.graph();
            (facts.state, facts.version) = (graph.state, graph.version);
            facts.conditions = graph.conditions;
            facts.instances = graph.instances;
            facts.services = handle
                .scales()
                .into_iter()
                .map(|scale| ServiceCount {
                    name: scale.service,
                    wanted: scale.wanted,
                    running: scale.running,
                })
                .collect();
            let is_converged = facts.state == NetworkState::Converged;
            let is_silent = |found: &&GraphInstance| found.state == GraphInstanceState::Starting;
            let silent = facts.instances.iter().filter(is_silent);
            let silent = silent.map(|found| format!("{}@{}", found.name, found.host)).collect();
            // Without an answer what was true last is the best that is known.
            if let Ok(troubles) = self.engine.troubles(is_converged, &silent) {
                self.troubles = troubles;
            }
            facts.troubles = self.troubles.clone();
        }
        let (_, name) = name_of(network);
        let next = status(&name, &network.spec, &facts, &self.status, Timestamp::now());
        if next != self.status {
            let applied = object(network, json!({}), Some(&next));
            let parameters = PatchParams::apply(FIELD_MANAGER).force();
            let api = self.api(common, network);
            let patch = Patch::Apply(applied);
            common.cluster.wait(api.patch_status(&name, &parameters, &patch))?;
            self.status = next;
        }
        Ok(())
    }

    fn api(&self, common: &Common, network: &Network) -> Api<Network> {
        Api::namespaced(common.cluster.client(), &name_of(network).0)
    }

    fn set_finalizer(
        &mut self,
        common: &Common,
        network: &Network,
        is_set: bool,
    ) -> Result<(), ClusterError> {
        let finalizers = if is_set { vec![FINALIZER] } else { Vec::new() };
        let applied = object(network, json!({ "finalizers": finalizers }), None);
        let parameters = PatchParams::apply(FIELD_MANAGER);
        let (_, name) = name_of(network);
        let patch = Patch::Apply(applied);
        common.cluster.wait(self.api(common, network).patch(&name, &parameters, &patch))?;
        self.has_finalizer = is_set;
        Ok(())
    }
}

fn system(error: impl ToString) -> ClusterError {
    ClusterError::System(error.to_string())
}

/// Returns what is applied to a resource: metadata, and the status if there is one.
fn object(network: &Network, mut metadata: Value, status: Option<&NetworkStatus>) -> Value {
    metadata["name"] = json!(network.metadata.name);
    let mut applied = json!({
        "apiVersion": "namewire.dev/v1alpha1",
        "kind": "Network",
        "metadata": metadata,
    });
    match status {
        Some(status) => applied["status"] = json!(status),
        // Makes the request fail if the resource was deleted and made anew meanwhile.
        None => applied["metadata"]["uid"] = json!(network.metadata.uid),
    }
    applied
}

fn check(network: &Network) -> Result<(), String> {
    if network.spec.document.len() > DOCUMENT_BYTES_MAX as usize {
        return Err("spec.document is longer than 512 KiB".to_owned());
    }
    network.spec.fault().map_or(Ok(()), Err)
}
