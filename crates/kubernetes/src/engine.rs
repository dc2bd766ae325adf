//! Instances as pods.
//!
//! Invariant: see [`nw_manager::engine`]; what runs is what the API server lists by labels. A pod's
//! name follows from network and instance, so a second start finds the first. A pod is deleted by
//! its unique id, never by its name alone.

use crate::cluster::{Cluster, ClusterError};
use crate::node::{Deletions, Unanswered};
pub use crate::pod::Place;
use crate::pod::{
    GRAPH_BYTES_MAX, LABEL_MANAGED, LABEL_NETWORK, MANAGED, POD_DIRECTORY, SERVICE, labels,
    millicores, pod, pod_name, quota, secret, state, trouble, volume_fault,
};
use k8s_openapi::api::core::v1::{Pod, Secret};
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use kube::api::{DeleteParams, ListParams, LogParams, Patch, PatchParams, Preconditions};
use nw_agent::{Hub, add_host, forget_host};
use nw_manager::engine::{
    ControlTunnels, Engine, EngineError, EngineInstance, InstanceSpec, InstanceState, Started,
};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Field manager of everything that the operator writes.
pub(crate) const FIELD_MANAGER: &str = "namewire-operator";
/// Time for which a list of pods answers questions about single ones.
const LIST_LIFETIME: Duration = Duration::from_millis(150);
/// Interval between looks for a pod's end.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Time beyond a pod's grace until it is removed by force.
const FORCE_AFTER: Duration = Duration::from_secs(10);
/// Seconds that the token of a pod's agent is valid: scheduling and pulling may take long.
const TOKEN_S: u64 = 3600;

/// Runs the instances of one network as pods.
pub struct KubernetesEngine {
    cluster: Arc<Cluster>,
    tunnels: ControlTunnels,
    /// State directory of the hub.
    authority: PathBuf,
    place: Mutex<Place>,
    listed: Mutex<Listed>,
    unanswered: Mutex<Unanswered>,
}

/// The last list of pods.
#[derive(Default)]
struct Listed {
    /// When it was requested; `None` after a write.
    at: Option<Instant>,
    pods: Vec<Pod>,
    deletions: Deletions,
}

impl KubernetesEngine {
    /// Creates the engine of a network. Agents of its pods connect to `hub`, whose state directory
    /// is `authority`.
    pub fn new(cluster: Arc<Cluster>, hub: Arc<Hub>, authority: PathBuf, place: Place) -> Self {
        let tunnels = ControlTunnels::new(hub);
        let place = Mutex::new(place);
        KubernetesEngine {
            cluster,
            tunnels,
            authority,
            place,
            listed: Mutex::default(),
            unanswered: Mutex::default(),
        }
    }

    /// Changes where and how pods that are started from now on run.
    pub fn set_place(&self, place: Place) {
        *lock(&self.place) = place;
    }

    /// Returns what keeps pods from running, by instance: sentences. Of a network that is as
    /// described (`is_converged`) the last list tells it, without a request. Those of `silent` do
    /// not answer the manager.
    ///
    /// # Errors
    /// The API server does not answer.
    pub fn troubles(
        &self,
        is_converged: bool,
        silent: &BTreeSet<String>,
    ) -> Result<BTreeMap<String, String>, EngineError> {
        let pods = match is_converged {
            true => lock(&self.listed).pods.clone(),
            false => self.pods()?,
        };
        let instance = |pod: &Pod| labels(pod).map(|labels| labels.instance);
        let of_silent =
            |pod| instance(pod).filter(|key| silent.contains(key)).map(|key| (key, pod));
        let silent: Vec<(String, &Pod)> = pods.iter().filter_map(of_silent).collect();
        let mut troubles = lock(&self.unanswered).note(&silent, (Instant::now(), Timestamp::now()));
        let found = |pod: &Pod| Some((instance(pod)?, trouble(pod)?));
        troubles.extend(pods.iter().filter_map(found));
        Ok(troubles)
    }

    fn place(&self) -> Place {
        lock(&self.place).clone()
    }

    fn api(&self) -> Api<Pod> {
        Api::namespaced(self.cluster.client(), &lock(&self.place).namespace)
    }

    fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.cluster.client(), &lock(&self.place).namespace)
    }

    /// Returns the pods of the network: a list that is at most [`LIST_LIFETIME`] old, and newer
    /// than each write of this engine.
    fn pods(&self) -> Result<Vec<Pod>, EngineError> {
        let mut listed = lock(&self.listed);
        if listed.at.is_some_and(|at| at.elapsed() < LIST_LIFETIME) {
            return Ok(listed.pods.clone());
        }
        let selector =
            format!("{LABEL_MANAGED}={MANAGED},{LABEL_NETWORK}={}", lock(&self.place).name);
        let parameters = ListParams::default().labels(&selector);
        let pods = self.cluster.wait(self.api().list(&parameters)).map_err(unreachable)?.items;
        let now = Instant::now();
        listed.deletions.note(&pods, now);
        listed.at = Some(now);
        listed.pods.clone_from(&pods);
        Ok(pods)
    }

    /// Notes that the list of pods is out of date.
    fn forget_list(&self) {
        lock(&self.listed).at = None;
    }

    /// Returns whether a pod's service runs, or how it ended. One whose node is lost has ended.
    fn state(&self, pod: &Pod) -> InstanceState {
        match state(pod) {
            InstanceState::Running => lock(&self.listed)
                .deletions
                .loss(pod, Instant::now())
                .map_or(InstanceState::Running, InstanceState::Ended),
            ended => ended,
        }
    }

    /// Removes pods of lost nodes by force: others of their host could be scheduled to no other
    /// node before. Their agents have no rights from then on.
    fn remove_lost(&self) -> Result<(), EngineError> {
        let is_lost = |pod: &Pod| state(pod) == InstanceState::Running && self.has_ended(pod);
        for pod in self.pods()?.iter().filter(|pod| is_lost(pod)) {
            let name = pod.metadata.name.clone().unwrap_or_default();
            tracing::warn!(pod = name, "its node is lost: the pod is removed by force");
            forget_host(&self.authority, &name).map_err(EngineError::failed("remove", &name))?;
            self.delete(pod, Duration::ZERO)?;
        }
        Ok(())
    }

    fn has_ended(&self, pod: &Pod) -> bool {
        self.state(pod) != InstanceState::Running
    }

    fn pod_of(&self, instance: &str) -> Result<Option<Pod>, EngineError> {
        let is_it = |pod: &Pod| labels(pod).is_some_and(|labels| labels.instance == instance);
        Ok(self.pods()?.into_iter().find(is_it))
    }

    fn name_of(&self, instance: &str) -> String {
        pod_name(&lock(&self.place).name, instance)
    }

    fn describe(&self, directory: &Path, pod: &Pod) -> Result<Option<EngineInstance>, EngineError> {
        let Some(labels) = labels(pod) else { return Ok(None) };
        let host = pod.metadata.name.clone().unwrap_or_default();
        let there = Path::new(POD_DIRECTORY);
        let control = self.tunnels.socket(directory, &labels.instance, &host, there)?;
        let address = pod.status.as_ref().and_then(|status| status.pod_ip.clone());
        let (state, quota) = (self.state(pod), quota(pod));
        Ok(Some(EngineInstance { labels, state, control, pid: None, quota, address }))
    }

    /// Deletes a pod with a grace period and waits until it is gone.
    fn delete(&self, pod: &Pod, grace: Duration) -> Result<(), EngineError> {
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        let failed = EngineError::failed("stop", name);
        let uid = pod.metadata.uid.as_ref();
        let preconditions = Preconditions { uid: uid.cloned(), resource_version: None };
        let delete = |grace_s: u32| {
            let parameters =
                DeleteParams::default().grace_period(grace_s).preconditions(preconditions.clone());
            self.forget_list();
            self.cluster.wait(gone_is_done(self.api().delete(name, &parameters)))
        };
        // A limit of less than a second would be zero, which means by force.
        let grace_s = grace.as_millis().div_ceil(1000) as u32;
        let mut deadline = Instant::now() + grace + FORCE_AFTER;
        let mut is_forced = grace_s == 0;
        delete(grace_s).map_err(failed_by)?;
        loop {
            let found = self.cluster.wait(self.api().get_opt(name)).map_err(failed_by)?;
            self.forget_list();
            if found.is_none_or(|found| found.metadata.uid.as_ref() != uid) {
                return Ok(());
            }
            if Instant::now() >= deadline {
                if is_forced {
                    return Err(failed("the pod does not go away: see `kubectl describe pod`"));
                }
                // Its node does not answer.
                is_forced = true;
                delete(0).map_err(failed_by)?;
                deadline = Instant::now() + FORCE_AFTER;
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }
}

/// Counts "there is none" as deleted, and "there is another one of this name".
async fn gone_is_done<T>(
    request: impl Future<Output = Result<T, kube::Error>>,
) -> Result<(), kube::Error> {
    match request.await {
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        answer => answer.map(drop),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn unreachable(error: ClusterError) -> EngineError {
    EngineError::Unreachable { engine: "kubernetes", reason: error.to_string() }
}

fn failed_by(error: ClusterError) -> EngineError {
    match error {
        ClusterError::Refused(reason) => {
            EngineError::Failed { action: "change", subject: "a pod".into(), reason }
        }
        other => unreachable(other),
    }
}

impl Engine for KubernetesEngine {
    fn name(&self) -> &'static str {
        "kubernetes"
    }

    fn start(&self, spec: &InstanceSpec) -> Result<Started, EngineError> {
        let instance = &spec.labels.instance;
        let place = self.place();
        let refuse = |reason: &str| Err(EngineError::failed("start", instance)(reason));
        if spec.graph.len() > GRAPH_BYTES_MAX {
            return refuse("its graph is longer than 240 KiB: split the service");
        }
        if let Some(fault) = volume_fault(&place, &spec.directory, instance, &spec.graph) {
            return refuse(&fault);
        }
        self.remove_lost()?;
        let name = self.name_of(instance);
        if let Some(found) = self.pod_of(instance)? {
            let is_same = labels(&found).is_some_and(|l| l.graph_hash == spec.labels.graph_hash);
            match self.state(&found) {
                InstanceState::Running if is_same => return Ok(Started::default()),
                InstanceState::Running => {
                    return refuse("one of this name runs with another graph: stop it first");
                }
                InstanceState::Ended(_) => self.delete(&found, Duration::ZERO)?,
            }
        }
        // An earlier pod of this name may run on, on a node that was lost: its agent has no
        // rights any more, so that no command for the new pod reaches the old one.
        forget_host(&self.authority, &name).map_err(EngineError::failed("start", instance))?;
        let token = add_host(&self.authority, &name, TOKEN_S);
        let token = token.map_err(EngineError::failed("start", instance))?;
        let parameters = PatchParams::apply(FIELD_MANAGER).force();
        let secret = Patch::Apply(secret(&place, &name, &token));
        self.cluster.wait(self.secrets().patch(&name, &parameters, &secret)).map_err(failed_by)?;
        let pod = Patch::Apply(pod(&place, spec));
        let made = self.cluster.wait(self.api().patch(&name, &parameters, &pod));
        self.forget_list();
        made.map_err(failed_by)?;
        Ok(Started::default())
    }

    fn stop(&self, _: &Path, instance: &str, limit: Duration) -> Result<(), EngineError> {
        match self.pod_of(instance)? {
            // An ended pod stays until it is removed, for its log.
            Some(pod) if !self.has_ended(&pod) => self.delete(&pod, limit),
            _ => Ok(()),
        }
    }

    fn remove(&self, directory: &Path, instance: &str) -> Result<(), EngineError> {
        let name = self.name_of(instance);
        if let Some(pod) = self.pod_of(instance)? {
            if !self.has_ended(&pod) {
                return Err(EngineError::failed("remove", instance)("it runs: stop it first"));
            }
            self.delete(&pod, Duration::ZERO)?;
        }
        let parameters = DeleteParams::default();
        let secrets = self.secrets();
        let deleted = gone_is_done(secrets.delete(&name, &parameters));
        self.cluster.wait(deleted).map_err(failed_by)?;
        self.tunnels.close(directory, instance);
        let forgotten = forget_host(&self.authority, &name);
        forgotten.map(drop).map_err(EngineError::failed("remove", instance))
    }

    fn list(&self, directory: &Path, _: &str) -> Result<Vec<EngineInstance>, EngineError> {
        let mut instances = Vec::new();
        for pod in self.pods()? {
            instances.extend(self.describe(directory, &pod)?);
        }
        instances.sort_by(|one, other| one.labels.instance.cmp(&other.labels.instance));
        Ok(instances)
    }

    fn logs(&self, _: &Path, instance: &str, lines: usize) -> Result<String, EngineError> {
        let pod = self.pod_of(instance)?;
        let pod = pod.ok_or_else(|| EngineError::Unknown(instance.to_owned()))?;
        if let Some(trouble) = trouble(&pod) {
            return Ok(format!("{trouble}\n"));
        }
        let parameters = LogParams {
            container: Some(SERVICE.to_owned()),
            tail_lines: Some(lines.try_into().unwrap_or(i64::MAX)),
            ..LogParams::default()
        };
        let text = self.cluster.wait(self.api().logs(&self.name_of(instance), &parameters));
        text.map_err(failed_by)
    }

    fn set_quota(
        &self,
        _: &Path,
        instance: &str,
        quota: Option<f64>,
    ) -> Result<Option<String>, EngineError> {
        if self.pod_of(instance)?.is_none() {
            return Err(EngineError::Unknown(instance.to_owned()));
        }
        // Null removes the limit.
        let cpu = quota.map(millicores);
        let change = json!({ "spec": { "containers": [
            { "name": SERVICE, "resources": { "limits": { "cpu": cpu } } },
        ] } });
        let resized = self.cluster.wait(self.api().patch_subresource(
            "resize",
            &self.name_of(instance),
            &PatchParams::default(),
            &Patch::Strategic(change),
        ));
        self.forget_list();
        match resized {
            Ok(_) => Ok(None),
            Err(ClusterError::Unreachable(reason)) => {
                Err(unreachable(ClusterError::Unreachable(reason)))
            }
            Err(error) => Ok(Some(format!("the quota is not in effect: {error}"))),
        }
    }
}
