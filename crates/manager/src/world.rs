//! What runs: engines are asked for instances, and each instance over its control socket.
//!
//! Invariant: nothing here is taken from memory. If an engine can't be asked, the observation says
//! so, and no plan may rest on it: an instance that was not seen may run all the same.

use crate::engine::{
    Engine, EngineError, EngineInstance, InstanceSpec, InstanceState as EngineState, LINKS, Labels,
    ProcessEngine, Started, graph_hash,
};
use crate::remote_hosts::RemoteHosts;
use crate::service_client::{self, ServiceError};
use nw_api::network::NetworkRoute;
use nw_api::service::{
    ElementRouteOrigin, ElementRoutes, ErasedPackets, GraphText, PrefixErasure, ServiceElement,
    ServiceLink, ServiceStatus,
};
use nw_graph_language::network::EngineKind;
use nw_manage::observed::{InstanceState, Observed, ObservedFace, ObservedInstance};
use nw_manage::target::{InstanceId, Registration, Target, TargetHost};
use std::collections::BTreeMap;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Elements that have routes on their control socket.
const ROUTED_ELEMENTS: [&str; 2] = ["name_router", "router"];
/// Threads that ask services at one time.
const ASKING_THREADS_MAX: usize = 8;

/// An instance as its engine and its control socket describe it.
#[derive(Clone, Debug)]
pub struct SeenInstance {
    /// As the engine lists it.
    pub engine: EngineInstance,
    /// `GET /v1/service`; `None` if it does not answer.
    pub status: Option<ServiceStatus>,
    /// `GET /v1/links`.
    pub links: Vec<ServiceLink>,
    /// `GET /v1/elements`.
    pub elements: Vec<ServiceElement>,
    /// `GET /v1/graph`.
    pub graph: Option<String>,
}

/// Everything that was seen at one time.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Milliseconds since 1970.
    pub at_ms: u64,
    /// Instances by id.
    pub instances: BTreeMap<InstanceId, SeenInstance>,
    /// Engines that could not be asked, and why. No plan may be made from this then.
    pub engine_errors: Vec<(EngineKind, String)>,
}

/// The engines of a network and the directory that its instances share.
#[derive(Clone)]
pub struct World {
    network: String,
    directory: PathBuf,
    engines: Vec<(EngineKind, Arc<dyn Engine>)>,
    remote: Option<RemoteHosts>,
    /// Packets imported by instances. Not observable: after a restart of the manager a copy that
    /// was under way is repeated, which stores nothing twice.
    imports: Arc<Mutex<BTreeMap<InstanceId, u64>>>,
}

/// Returns the name under which an engine knows an instance.
pub fn engine_key(id: &InstanceId) -> String {
    format!("{}@{}", id.name, id.host)
}

/// Returns the instance of an engine's name.
pub fn instance_id(key: &str) -> InstanceId {
    let (name, host) = key.rsplit_once('@').unwrap_or((key, ""));
    InstanceId { name: name.to_owned(), host: host.to_owned() }
}

impl World {
    /// Creates a world with the process engine, which runs `program` (usually this one, `nw`).
    /// Makes the directory of link sockets.
    ///
    /// # Errors
    /// The directory can't be made.
    pub fn new(network: &str, directory: &Path, program: PathBuf) -> std::io::Result<Self> {
        let links = directory.join(LINKS);
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(links)?;
        let process: Arc<dyn Engine> = Arc::new(ProcessEngine::new(program));
        let engines = vec![(EngineKind::Process, process)];
        Ok(World {
            network: network.to_owned(),
            directory: directory.to_owned(),
            engines,
            imports: Arc::default(),
            remote: None,
        })
    }

    /// Notes that an instance has imported packets; none count as one, as the import is complete.
    pub fn note_import(&self, id: &InstanceId, packets: u64) {
        let mut imports = self.imports.lock().unwrap_or_else(PoisonError::into_inner);
        *imports.entry(id.clone()).or_default() += packets.max(1);
    }

    /// Returns what plans rest on.
    pub fn observed(&self, seen: &Seen) -> Observed {
        let imports = self.imports.lock().unwrap_or_else(PoisonError::into_inner);
        let instances = seen.instances.iter().map(|(id, seen)| {
            let imported = imports.get(id).copied().unwrap_or(0);
            observed_instance(id.clone(), seen, imported)
        });
        Observed { instances: instances.collect() }
    }

    /// Returns the folder of the link sockets.
    pub fn links_folder(&self) -> PathBuf {
        self.directory.join(LINKS)
    }

    /// Adds an engine, in place of one of the same kind.
    pub fn set_engine(&mut self, kind: EngineKind, engine: Arc<dyn Engine>) {
        self.engines.retain(|(known, _)| *known != kind);
        self.engines.push((kind, engine));
    }

    /// Returns what keeps a target's hosts from being used: one sentence for each.
    pub fn missing_engines(&self, hosts: &[TargetHost]) -> Vec<String> {
        let missing = hosts.iter().filter_map(|host| {
            if host.is_remote {
                return self.missing_agent(&host.name);
            }
            self.engine(host.engine).is_none().then(|| {
                format!(
                    "host {} wants the engine {}, which this program was built without: use \
                     `process`",
                    host.name,
                    host.engine.name()
                )
            })
        });
        missing.collect()
    }

    /// Returns what keeps another machine from being used.
    fn missing_agent(&self, host: &str) -> Option<String> {
        let Some(remote) = &self.remote else {
            return Some(format!(
                "host {host} is another machine: start the network with `--agents ADDRESS`, where \
                 its agent can connect"
            ));
        };
        (!remote.is_known(host)).then(|| {
            format!(
                "host {host} is unknown: `nw network host add {host}` prints a token for \
                 `nw network agent --enrol` there"
            )
        })
    }

    /// Adds the engines of other hosts.
    pub fn set_remote(&mut self, remote: RemoteHosts) {
        self.remote = Some(remote);
    }

    fn engine(&self, kind: EngineKind) -> Option<&Arc<dyn Engine>> {
        self.engines.iter().find(|(known, _)| *known == kind).map(|(_, engine)| engine)
    }

    /// Returns the engines that may know instances: those here, and those of connected hosts.
    fn all_engines(&self) -> Vec<(EngineKind, Arc<dyn Engine>)> {
        let remote = self.remote.as_ref().map(RemoteHosts::connected);
        self.engines.iter().cloned().chain(remote.unwrap_or_default()).collect()
    }

    /// Returns the engines that may know instances of a host.
    fn engines_of(&self, host: &str) -> Vec<(EngineKind, Arc<dyn Engine>)> {
        let remote = self.remote.as_ref().map(|remote| remote.connected_of(host));
        self.engines.iter().cloned().chain(remote.unwrap_or_default()).collect()
    }

    /// Returns the engine that knows an instance.
    ///
    /// # Errors
    /// An engine can't be asked.
    fn engine_of(&self, id: &InstanceId) -> Result<Option<Arc<dyn Engine>>, EngineError> {
        let key = engine_key(id);
        for (_, engine) in self.engines_of(&id.host) {
            if engine.find(&self.directory, &self.network, &key)?.is_some() {
                return Ok(Some(engine));
            }
        }
        Ok(None)
    }

    /// Asks all engines what they run.
    pub fn list(&self) -> Result<Vec<EngineInstance>, Vec<(EngineKind, String)>> {
        let (mut instances, mut errors) = (Vec::new(), Vec::new());
        for (kind, engine) in self.all_engines() {
            match engine.list(&self.directory, &self.network) {
                Ok(listed) => instances.extend(listed),
                // The host went away, which is no fault of the others.
                Err(EngineError::Unreachable { engine: "agent", .. }) => {}
                Err(error) => errors.push((kind, error.to_string())),
            }
        }
        if errors.is_empty() { Ok(instances) } else { Err(errors) }
    }

    /// Observes all instances.
    pub fn observe(&self, at_ms: u64) -> Seen {
        let listed = match self.list() {
            Ok(listed) => listed,
            Err(engine_errors) => return Seen { at_ms, engine_errors, ..Seen::default() },
        };
        let per_thread = listed.len().div_ceil(ASKING_THREADS_MAX).max(1);
        let instances = std::thread::scope(|scope| {
            let ask = |part: &[EngineInstance]| part.iter().map(see).collect::<Vec<_>>();
            let threads: Vec<_> =
                listed.chunks(per_thread).map(|part| scope.spawn(move || ask(part))).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap_or_default()).collect()
        });
        Seen { at_ms, instances, engine_errors: Vec::new() }
    }

    /// Observes one instance.
    ///
    /// # Errors
    /// An engine can't be asked.
    pub fn observe_one(&self, id: &InstanceId) -> Result<Observed, EngineError> {
        let key = engine_key(id);
        for (_, engine) in self.engines_of(&id.host) {
            if let Some(listed) = engine.find(&self.directory, &self.network, &key)? {
                let seen = Seen { instances: [see(&listed)].into(), ..Seen::default() };
                return Ok(self.observed(&seen));
            }
        }
        Ok(Observed::default())
    }

    /// Starts an instance of the target with a graph.
    ///
    /// # Errors
    /// Its host has no engine here, or the engine refuses.
    pub fn start(
        &self,
        target: &Target,
        version: u64,
        id: &InstanceId,
        graph: &str,
        quota: Option<f64>,
    ) -> Result<Started, EngineError> {
        let host = target.hosts.iter().find(|host| host.name == id.host);
        let engine = host.and_then(|host| match &self.remote {
            Some(remote) if host.is_remote => Some(remote.engine(&host.name, host.engine)),
            _ => self.engine(host.engine).cloned(),
        });
        let no_engine = || EngineError::failed("start", id)("its host has no engine here");
        let engine = engine.ok_or_else(no_engine)?;
        let labels = Labels {
            network: self.network.clone(),
            instance: engine_key(id),
            generation: version,
            graph_hash: graph_hash(graph),
        };
        let directory = self.directory.clone();
        engine.start(&InstanceSpec { labels, directory, graph: graph.to_owned(), quota })
    }

    /// Stops an instance and removes what is left of it. It drains for at most `limit`.
    ///
    /// # Errors
    /// The engine can't stop it.
    pub fn stop(&self, id: &InstanceId, limit: std::time::Duration) -> Result<(), EngineError> {
        self.imports.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
        let Some(engine) = self.engine_of(id)? else { return Ok(()) };
        engine.stop(&self.directory, &engine_key(id), limit)?;
        engine.remove(&self.directory, &engine_key(id))
    }

    /// Returns the end of an instance's log.
    ///
    /// # Errors
    /// There is no such instance, or its log can't be read.
    pub fn logs(&self, id: &InstanceId, lines: usize) -> Result<String, EngineError> {
        match self.engine_of(id)? {
            Some(engine) => engine.logs(&self.directory, &engine_key(id), lines),
            None => Err(EngineError::Unknown(id.to_string())),
        }
    }

    /// Asks all name routers of an observation for their routes.
    pub fn routes(&self, seen: &Seen) -> Vec<NetworkRoute> {
        let mut routes = Vec::new();
        for (id, instance) in &seen.instances {
            let is_router =
                |element: &&ServiceElement| ROUTED_ELEMENTS.contains(&&*element.element);
            for element in instance.elements.iter().filter(is_router) {
                let path = format!("/v1/elements/{}/routes", element.name);
                let listed = service_client::get::<ElementRoutes>(&instance.engine.control, &path);
                // One that does not answer ends, or is reported as not running.
                for route in listed.into_iter().flat_map(|listed| listed.routes) {
                    let origin = serde_json::to_value(route.origin).unwrap_or_default();
                    routes.push(NetworkRoute {
                        instance: id.to_string(),
                        element: element.name.clone(),
                        prefix: route.prefix,
                        face: route.link,
                        cost: route.cost.into(),
                        origin: origin.as_str().unwrap_or_default().to_owned(),
                    });
                }
            }
        }
        routes
    }

    /// Returns the prefixes that producers have registered at name routers, sorted.
    pub fn registrations(&self, seen: &Seen) -> Vec<Registration> {
        let mut registrations = Vec::new();
        for (id, instance) in &seen.instances {
            let routers = instance.elements.iter().filter(|element| {
                element.values.get("registered").is_none_or(|count| *count > 0)
                    && element.element == ROUTED_ELEMENTS[0]
            });
            for element in routers {
                let path = format!("/v1/elements/{}/routes", element.name);
                let listed = service_client::get::<ElementRoutes>(&instance.engine.control, &path);
                let registered = listed
                    .into_iter()
                    .flat_map(|listed| listed.routes)
                    .filter(|route| route.origin == ElementRouteOrigin::Registration);
                registrations.extend(registered.map(|route| Registration {
                    instance: id.clone(),
                    element: element.name.clone(),
                    prefix: route.prefix,
                    cost: route.cost.into(),
                }));
            }
        }
        registrations.sort();
        // Two connections of one producer may register the same prefix.
        registrations.dedup_by(|left, right| {
            (&left.instance, &left.element, &left.prefix)
                == (&right.instance, &right.element, &right.prefix)
        });
        registrations
    }

    /// Erases the packets below a prefix from all content stores. One that does not answer has
    /// none, or ends.
    pub fn erase(&self, seen: &Seen, prefix: &str) {
        for instance in seen.instances.values() {
            let stores = instance.elements.iter().filter(|e| e.element == "content_store");
            for element in stores {
                let path = format!("/v1/elements/{}/erase", element.name);
                let body = PrefixErasure { prefix: prefix.to_owned(), packets_max: None };
                let control = &instance.engine.control;
                let erased: Result<ErasedPackets, _> =
                    service_client::send(control, "POST", &path, &body, service_client::TIMEOUT);
                if let Err(error) = erased {
                    tracing::warn!(%prefix, control = %control.display(), "not erased: {error}");
                }
            }
        }
    }

    /// Returns the control socket of an instance.
    pub fn control(&self, id: &InstanceId) -> PathBuf {
        let directory = crate::engine::instance_directory(&self.directory, &engine_key(id));
        directory.join(crate::engine::CONTROL_SOCKET)
    }
}

/// Asks an instance over its control socket.
fn see(listed: &EngineInstance) -> (InstanceId, SeenInstance) {
    let id = instance_id(&listed.labels.instance);
    let mut seen = SeenInstance {
        engine: listed.clone(),
        status: None,
        links: Vec::new(),
        elements: Vec::new(),
        graph: None,
    };
    if listed.state == EngineState::Running {
        // An instance that does not answer is being started, or ends.
        let _ = ask(&mut seen);
    }
    (id, seen)
}

fn ask(seen: &mut SeenInstance) -> Result<(), ServiceError> {
    let control = &seen.engine.control;
    let graph: GraphText = service_client::get(control, "/v1/graph")?;
    seen.links = service_client::get(control, "/v1/links")?;
    seen.elements = match service_client::get(control, "/v1/elements") {
        Err(error) if error.has_code(404) => Vec::new(),
        elements => elements?,
    };
    seen.status = Some(service_client::get(control, "/v1/service")?);
    seen.graph = Some(graph.graph);
    Ok(())
}

fn observed_instance(
    id: InstanceId,
    seen: &SeenInstance,
    imported_packets: u64,
) -> ObservedInstance {
    let status = seen.status.as_ref();
    let state = match (&seen.engine.state, status) {
        (EngineState::Ended(_), _) => InstanceState::Ended,
        (EngineState::Running, None) => InstanceState::Starting,
        (EngineState::Running, Some(status)) if status.draining => InstanceState::Draining,
        (EngineState::Running, Some(_)) => InstanceState::Running,
    };
    let sum = |name: &str| -> u64 {
        seen.elements.iter().filter_map(|element| element.values.get(name)).sum()
    };
    ObservedInstance {
        id,
        state,
        graph: seen.graph.clone().filter(|_| status.is_some()),
        faces: observed_faces(seen),
        pending: sum("pending"),
        is_changing: status.is_some_and(|status| status.changing),
        cached_packets: sum("packets"),
        imported_packets,
    }
}

/// Returns the faces of the graph. All connections of a listener are one face; a listener without
/// connections listens, so it is up.
fn observed_faces(seen: &SeenInstance) -> Vec<ObservedFace> {
    let mut faces: BTreeMap<&str, ObservedFace> = BTreeMap::new();
    let face = |name: &str, is_up| ObservedFace { name: name.to_owned(), is_up, pending: 0 };
    for line in seen.graph.iter().flat_map(|text| text.lines()) {
        let words: Vec<&str> = line.split_whitespace().take(3).collect();
        if let ["face", name, "listens"] = words[..] {
            faces.insert(name, face(name, true));
        }
    }
    for link in &seen.links {
        let known = faces.entry(&link.name).or_insert_with(|| face(&link.name, false));
        known.is_up |= link.up && !link.closing;
        known.pending += pending(link);
    }
    faces.into_values().collect()
}

/// Returns the Interests that a link has sent and that were not answered, as far as counters tell.
pub fn pending(link: &ServiceLink) -> u64 {
    let answered = link.received[1] + link.received[2];
    if link.up { link.sent[0].saturating_sub(answered) } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(name: &str, up: bool, sent: [u64; 3], received: [u64; 3]) -> ServiceLink {
        ServiceLink {
            name: name.to_owned(),
            id: None,
            uri: String::new(),
            local: String::new(),
            up,
            closing: false,
            received,
            sent,
        }
    }

    fn seen(state: EngineState) -> SeenInstance {
        let labels = Labels {
            network: "n".to_owned(),
            instance: "cs~1@here".to_owned(),
            generation: 1,
            graph_hash: String::new(),
        };
        SeenInstance {
            engine: EngineInstance {
                labels,
                state,
                control: PathBuf::new(),
                pid: None,
                quota: None,
                address: None,
            },
            status: None,
            links: Vec::new(),
            elements: Vec::new(),
            graph: None,
        }
    }

    #[test]
    fn listener_without_connections_is_up_and_connections_are_added() {
        let mut seen = seen(EngineState::Running);
        seen.graph = Some("face near listens unix:///a\nface next = unix:///b\n".to_owned());
        seen.links = vec![
            link("next", false, [5, 0, 0], [0, 0, 0]),
            link("other", true, [9, 0, 0], [0, 4, 1]),
            link("other", true, [1, 0, 0], [0, 0, 0]),
        ];
        let faces = observed_faces(&seen);
        let plain: Vec<_> =
            faces.iter().map(|face| (face.name.as_str(), face.is_up, face.pending)).collect();
        assert_eq!(plain, [("near", true, 0), ("next", false, 0), ("other", true, 5)]);
    }

    #[test]
    fn instance_that_does_not_answer_is_starting_and_has_no_graph() {
        let id = instance_id("cs~1@here");
        assert_eq!((id.name.as_str(), id.host.as_str()), ("cs~1", "here"));
        assert_eq!(engine_key(&id), "cs~1@here");
        let observed = observed_instance(id.clone(), &seen(EngineState::Running), 0);
        assert_eq!((observed.state, observed.graph), (InstanceState::Starting, None));
        let ended = observed_instance(id, &seen(EngineState::Ended(String::new())), 0);
        assert_eq!(ended.state, InstanceState::Ended);
    }
}
