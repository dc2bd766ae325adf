//! What runs: engines are asked for instances, and each instance over its control socket.
//!
//! Invariant: nothing here is taken from memory. If an engine can't be asked, the observation says
//! so, and no plan that uses it may rest on that: an instance that was not seen may run all the
//! same.

use crate::engine::{
    Engine, EngineError, EngineInstance, InstanceSpec, InstanceState as EngineState, LINKS, Labels,
    ProcessEngine, Started, graph_hash,
};
use crate::remote_hosts::RemoteHosts;
use crate::service_client::{self, Asked, ServiceError};
use nw_api::network::NetworkRoute;
use nw_api::service::{
    ElementRouteOrigin, ElementRoutes, ErasedPackets, GraphText, PrefixErasure, ServiceElement,
    ServiceLink, ServiceStatus,
};
use nw_graph_language::network::EngineKind;
use nw_manage::defence::Erasure;
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
/// Instances that a thread asks at least.
const ASKED_PER_THREAD_MIN: usize = 16;
/// Samples in a row for which an instance that is as before is asked for its status alone.
const REUSED_MAX: u32 = 10;
/// Path of an instance's status.
const STATUS_PATH: &str = "/v1/service";

/// An instance as its engine and its control socket describe it.
#[derive(Clone, Debug)]
pub struct SeenInstance {
    /// As the engine lists it.
    pub engine: EngineInstance,
    /// `GET /v1/service`; `None` if it does not answer.
    pub status: Option<ServiceStatus>,
    /// `GET /v1/links`.
    pub links: Arc<Vec<ServiceLink>>,
    /// `GET /v1/elements`.
    pub elements: Arc<Vec<ServiceElement>>,
    /// `GET /v1/graph`.
    pub graph: Option<Arc<str>>,
}

/// Everything that was seen at one time.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Milliseconds since 1970.
    pub at_ms: u64,
    /// Instances by id.
    pub instances: BTreeMap<InstanceId, SeenInstance>,
    /// Engines that could not be asked, and why. No plan for a target that uses them may be made
    /// from this then.
    pub engine_errors: Vec<(EngineKind, String)>,
}

impl Seen {
    /// Returns why engines that a target uses could not be asked. An engine that no host of it uses
    /// keeps nothing else from working: what it may still run is removed when it answers.
    pub fn errors_for(&self, target: &Target) -> Vec<&str> {
        let is_used = |kind: EngineKind| {
            target.hosts.iter().any(|host| host.engine == kind && !host.is_remote)
        };
        let errors = self.engine_errors.iter().filter(|(kind, _)| is_used(*kind));
        errors.map(|(_, text)| text.as_str()).collect()
    }
}

/// An instance and the engine that knows it.
type Found = (Arc<dyn Engine>, EngineInstance);

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
    /// What instances answered in the last samples.
    answers: Arc<Mutex<BTreeMap<InstanceId, Answers>>>,
}

/// What an instance answered when it was last asked for everything.
#[derive(Clone, Debug)]
struct Answers {
    seen: SeenInstance,
    /// Time of the last sample, milliseconds since 1970.
    at_ms: u64,
    /// Samples since then with nothing but a new status.
    reused: u32,
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
            answers: Arc::default(),
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

    /// Returns the engine that knows an instance, and the instance. An engine that can't be asked
    /// is an error only if no other one knows it.
    ///
    /// # Errors
    /// An engine can't be asked, with its kind.
    fn find(&self, id: &InstanceId) -> Result<Option<Found>, (EngineKind, EngineError)> {
        let (key, mut failure) = (engine_key(id), None);
        for (kind, engine) in self.engines_of(&id.host) {
            match engine.find(&self.directory, &self.network, &key) {
                Ok(Some(instance)) => return Ok(Some((engine, instance))),
                Ok(None) => {}
                Err(error) => failure = Some((kind, error)),
            }
        }
        failure.map_or(Ok(None), Err)
    }

    fn engine_of(&self, id: &InstanceId) -> Result<Option<Arc<dyn Engine>>, EngineError> {
        let found = self.find(id).map_err(|(_, error)| error)?;
        Ok(found.map(|(engine, _)| engine))
    }

    /// Asks all engines what they run. Returns also the engines that could not be asked, and why.
    pub fn list(&self) -> (Vec<EngineInstance>, Vec<(EngineKind, String)>) {
        let (mut instances, mut errors) = (Vec::new(), Vec::new());
        for (kind, engine) in self.all_engines() {
            match engine.list(&self.directory, &self.network) {
                Ok(listed) => instances.extend(listed),
                // The host went away, which is no fault of the others.
                Err(EngineError::Unreachable { engine: "agent", .. }) => {}
                Err(error) => errors.push((kind, error.to_string())),
            }
        }
        (instances, errors)
    }

    /// Observes all instances, and asks each for everything.
    pub fn observe(&self, at_ms: u64) -> Seen {
        self.observe_by(at_ms, |listed| listed.iter().map(see).collect())
    }

    /// Observes all instances for a sample. An instance through which no packet has passed since
    /// the last sample, and without an event, is asked for its status alone; for everything at
    /// least every [`REUSED_MAX`] samples.
    pub fn sample(&self, at_ms: u64) -> Seen {
        let seen = self.observe_by(at_ms, |listed| self.see_changes(listed, at_ms));
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        answers.retain(|id, _| seen.instances.contains_key(id));
        seen
    }

    fn observe_by(
        &self,
        at_ms: u64,
        see: impl Fn(&[EngineInstance]) -> Vec<(InstanceId, SeenInstance)> + Sync,
    ) -> Seen {
        let (listed, engine_errors) = self.list();
        let per_thread = listed.len().div_ceil(ASKING_THREADS_MAX).max(ASKED_PER_THREAD_MIN);
        let see = &see;
        let instances = std::thread::scope(|scope| {
            let threads: Vec<_> =
                listed.chunks(per_thread).map(|part| scope.spawn(move || see(part))).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap_or_default()).collect()
        });
        Seen { at_ms, instances, engine_errors }
    }

    /// Asks all instances that answered before for their status, then reads the responses: they
    /// answer while others are asked.
    fn see_changes(
        &self,
        listed: &[EngineInstance],
        at_ms: u64,
    ) -> Vec<(InstanceId, SeenInstance)> {
        let answers = || self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        let ask = |listed: &EngineInstance| {
            let id = instance_id(&listed.labels.instance);
            let earlier = answers().remove(&id).filter(|_| listed.state == EngineState::Running);
            let asked = earlier.as_ref().map(|_| service_client::ask(&listed.control, STATUS_PATH));
            (id, earlier.zip(asked))
        };
        let asked: Vec<_> = listed.iter().map(ask).collect();
        let finish = |(listed, (id, asked)): (&EngineInstance, (InstanceId, Option<_>))| {
            let found = match asked {
                Some((earlier, asked)) => see_status(listed, earlier, asked, at_ms),
                None => Answers { seen: see(listed).1, at_ms, reused: 0 },
            };
            let seen = found.seen.clone();
            if seen.status.is_some() {
                answers().insert(id.clone(), found);
            }
            (id, seen)
        };
        listed.iter().zip(asked).map(finish).collect()
    }

    /// Observes one instance, for a step towards a target.
    ///
    /// # Errors
    /// The engine of its host can't be asked.
    pub fn observe_one(&self, id: &InstanceId, target: &Target) -> Result<Observed, EngineError> {
        let listed = match self.find(id) {
            Ok(found) => found.map(|(_, listed)| listed),
            Err((kind, error)) => {
                let host = target.hosts.iter().find(|host| host.name == id.host);
                // Another engine than that of its host: it has no say.
                match host.is_some_and(|host| host.engine != kind || host.is_remote) {
                    true => None,
                    false => return Err(error),
                }
            }
        };
        let Some(listed) = listed else { return Ok(Observed::default()) };
        let seen = Seen { instances: [see(&listed)].into(), ..Seen::default() };
        Ok(self.observed(&seen))
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
        let (directory, graph) = (self.directory.clone(), graph.to_owned());
        let image = host.and_then(|host| host.image.clone());
        engine.start(&InstanceSpec { labels, directory, graph, quota, image })
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

    /// Sets or removes the limit of processor time of an instance that runs. Returns a sentence if
    /// the system does not allow it.
    ///
    /// # Errors
    /// There is no such instance, or the engine refuses.
    pub fn set_quota(
        &self,
        id: &InstanceId,
        quota: Option<f64>,
    ) -> Result<Option<String>, EngineError> {
        match self.engine_of(id)? {
            Some(engine) => engine.set_quota(&self.directory, &engine_key(id), quota),
            None => Err(EngineError::Unknown(id.to_string())),
        }
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
                        by: route.registered_by,
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

    /// Erases the packets below a prefix from the content stores that it names. One that does not
    /// answer has none, or ends.
    pub fn erase(&self, seen: &Seen, Erasure { prefix, element }: &Erasure) {
        let is_meant = |known: &&ServiceElement| {
            known.element == "content_store"
                && element.as_ref().is_none_or(|element| known.name == *element)
        };
        for instance in seen.instances.values() {
            let stores = instance.elements.iter().filter(is_meant);
            for element in stores {
                let path = format!("/v1/elements/{}/erase", element.name);
                let body = PrefixErasure { prefix: prefix.clone(), packets_max: None };
                let control = &instance.engine.control;
                let erased: Result<ErasedPackets, _> =
                    service_client::send(control, "POST", &path, &body, service_client::TIMEOUT);
                if let Err(error) = erased {
                    tracing::warn!(%prefix, control = %control.display(), "not erased: {error}");
                }
            }
        }
    }

    /// Returns the path on this host of the control socket of an instance: its own, or the tunnel
    /// to it.
    pub fn control(&self, id: &InstanceId) -> PathBuf {
        if let Ok(Some((_, found))) = self.find(id) {
            return found.control;
        }
        // One that no engine knows does not answer there.
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
        links: Arc::default(),
        elements: Arc::default(),
        graph: None,
    };
    if listed.state == EngineState::Running {
        // An instance that does not answer is being started, or ends.
        let _ = ask(&mut seen);
    }
    (id, seen)
}

/// Reads the status of an instance, and asks for the rest if that differs or was reused for long.
fn see_status(listed: &EngineInstance, earlier: Answers, asked: Asked, at_ms: u64) -> Answers {
    let now: Option<ServiceStatus> = asked.response().ok();
    let before = earlier.seen.status.as_ref();
    let is_as_before = before.zip(now.as_ref()).is_some_and(|(old, new)| new.is_as_before(old));
    if !is_as_before || earlier.reused >= REUSED_MAX {
        return Answers { seen: see(listed).1, at_ms, reused: 0 };
    }
    let mut seen = SeenInstance { engine: listed.clone(), status: now, ..earlier.seen };
    let elapsed_ms = at_ms.saturating_sub(earlier.at_ms);
    if seen.elements.iter().any(|element| !element.failures.is_empty()) {
        let elements = Arc::make_mut(&mut seen.elements).iter_mut();
        let failures = elements.flat_map(|element| &mut element.failures);
        failures.for_each(|failure| failure.age_ms = failure.age_ms.saturating_add(elapsed_ms));
    }
    Answers { seen, at_ms, reused: earlier.reused + 1 }
}

fn ask(seen: &mut SeenInstance) -> Result<(), ServiceError> {
    let control = &seen.engine.control;
    let graph: GraphText = service_client::get(control, "/v1/graph")?;
    seen.links = Arc::new(service_client::get(control, "/v1/links")?);
    seen.elements = match service_client::get(control, "/v1/elements") {
        Err(error) if error.has_code(404) => Arc::default(),
        elements => Arc::new(elements?),
    };
    seen.status = Some(service_client::get(control, STATUS_PATH)?);
    seen.graph = Some(graph.graph.into());
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
        graph: seen.graph.as_deref().filter(|_| status.is_some()).map(str::to_owned),
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
    for link in seen.links.iter() {
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
    use std::io::{Read as _, Write as _};
    use std::sync::atomic::{AtomicU64, Ordering};

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
            links: Arc::default(),
            elements: Arc::default(),
            graph: None,
        }
    }

    #[test]
    fn listener_without_connections_is_up_and_connections_are_added() {
        let mut seen = seen(EngineState::Running);
        seen.graph = Some("face near listens unix:///a\nface next = unix:///b\n".into());
        seen.links = Arc::new(vec![
            link("next", false, [5, 0, 0], [0, 0, 0]),
            link("other", true, [9, 0, 0], [0, 4, 1]),
            link("other", true, [1, 0, 0], [0, 0, 0]),
        ]);
        let faces = observed_faces(&seen);
        let plain: Vec<_> =
            faces.iter().map(|face| (face.name.as_str(), face.is_up, face.pending)).collect();
        assert_eq!(plain, [("near", true, 0), ("next", false, 0), ("other", true, 5)]);
    }

    /// Serves a status, whose event number is the second value, and counts requests for links.
    fn serve(path: &Path) -> Arc<[AtomicU64; 2]> {
        let listener = std::os::unix::net::UnixListener::bind(path).unwrap();
        let shared: Arc<[AtomicU64; 2]> = Arc::default();
        let counts = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut bytes = [0; 1024];
                let len = stream.read(&mut bytes).unwrap();
                let request = String::from_utf8_lossy(&bytes[..len]).into_owned();
                let event = counts[1].load(Ordering::SeqCst);
                let body = match request.split(' ').nth(1).unwrap() {
                    "/v1/graph" => "{\"graph\":\"g\"}".to_owned(),
                    "/v1/service" => status_text(event),
                    "/v1/links" => {
                        counts[0].fetch_add(1, Ordering::SeqCst);
                        "[]".to_owned()
                    }
                    _ => "[]".to_owned(),
                };
                write!(stream, "HTTP/1.0 200 OK\r\n\r\n{body}").unwrap();
            }
        });
        shared
    }

    fn status_text(last_event: u64) -> String {
        format!(
            "{{\"name\":\"s\",\"uptime_s\":1.5,\"changing\":false,\"draining\":false,\
             \"received\":[1,0,0],\"sent\":[0,1,0],\"dropped\":0,\"graphs\":1,\
             \"last_event\":{last_event}}}"
        )
    }

    #[test]
    fn instance_as_before_is_asked_for_its_status_alone_and_at_times_for_everything() {
        let folder = tempfile::tempdir().unwrap();
        let control = folder.path().join("control.sock");
        let served = serve(&control);
        let links = || served[0].load(Ordering::SeqCst);
        let mut listed = seen(EngineState::Running).engine;
        listed.control = control;
        let ask = || service_client::ask(&listed.control, STATUS_PATH);
        let mut answers = Answers { seen: see(&listed).1, at_ms: 0, reused: 0 };
        assert_eq!(links(), 1);
        for sample in 1..=u64::from(REUSED_MAX) {
            answers = see_status(&listed, answers, ask(), 1000 * sample);
            assert_eq!((links(), answers.seen.graph.as_deref()), (1, Some("g")));
        }
        answers = see_status(&listed, answers, ask(), 20_000);
        assert_eq!((links(), answers.reused), (2, 0));
        served[1].store(7, Ordering::SeqCst);
        answers = see_status(&listed, answers, ask(), 21_000);
        assert_eq!((links(), answers.seen.status.map(|status| status.last_event)), (3, Some(7)));
    }

    /// An engine on another host, whose instances are reached by tunnels.
    struct Elsewhere(EngineInstance);

    impl Engine for Elsewhere {
        fn name(&self) -> &'static str {
            "elsewhere"
        }

        fn start(&self, _: &InstanceSpec) -> Result<Started, EngineError> {
            Ok(Started::default())
        }

        fn stop(&self, _: &Path, _: &str, _: std::time::Duration) -> Result<(), EngineError> {
            Ok(())
        }

        fn remove(&self, _: &Path, _: &str) -> Result<(), EngineError> {
            Ok(())
        }

        fn list(&self, _: &Path, _: &str) -> Result<Vec<EngineInstance>, EngineError> {
            Ok(vec![self.0.clone()])
        }

        fn logs(&self, _: &Path, _: &str, _: usize) -> Result<String, EngineError> {
            Ok(String::new())
        }

        fn set_quota(
            &self,
            _: &Path,
            _: &str,
            _: Option<f64>,
        ) -> Result<Option<String>, EngineError> {
            Ok(None)
        }
    }

    #[test]
    fn control_of_an_instance_elsewhere_is_its_tunnel() {
        let folder = tempfile::tempdir().unwrap();
        let mut world = World::new("n", folder.path(), PathBuf::from("nw")).unwrap();
        let mut listed = seen(EngineState::Running).engine;
        listed.control = folder.path().join("r/cs~1@here.sock");
        let tunnel = listed.control.clone();
        world.set_engine(EngineKind::Docker, Arc::new(Elsewhere(listed)));
        assert_eq!(world.control(&instance_id("cs~1@here")), tunnel);
        let own = folder.path().join("i/br~1@here/control.sock");
        assert_eq!(world.control(&instance_id("br~1@here")), own);
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
