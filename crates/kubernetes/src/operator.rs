//! The operator: looks at all resources each half second, and keeps a manager for each.
//!
//! ```text
//!  Network ──list──▶ Held ─▶ Manager ─plan─▶ KubernetesEngine ─▶ pods, secrets
//!     ▲ status         │                          ▲
//!     └────────────────┘         Hub ◀─ mutual TLS ─ agents of pods (control sockets)
//! ```
//!
//! Invariant: it holds nothing that it could not read again from the API server and its state
//! directory; an end at any time loses no packet, as services go on.

use crate::cluster::{Cluster, ClusterError};
use crate::fence::FencedError;
use crate::lease::{Holder, LeaseOptions};
use crate::reconcile::{Common, Held, key_of};
use crate::resource::Network;
use kube::Api;
use kube::api::ListParams;
use nw_agent::{Hub, HubOptions};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// Interval between looks at the resources.
const INTERVAL: Duration = Duration::from_millis(500);
/// Interval at which the end is looked for.
const STOP_INTERVAL: Duration = Duration::from_millis(50);
/// Networks of one operator, at most: each has two threads.
const NETWORKS_MAX: usize = 200;

/// How an operator runs.
#[derive(Clone, Debug)]
pub struct OperatorOptions {
    /// Folder for the state of networks, and for the authority of agents. Pods have paths in it: it
    /// is the same for all operators of a cluster.
    pub state_directory: PathBuf,
    /// Namespaces with networks; none for all.
    pub namespaces: Vec<String>,
    /// Where agents of pods connect.
    pub listen: SocketAddr,
    /// How pods reach `listen`, as HOST:PORT.
    pub agents: String,
    /// Image of pods.
    pub image: String,
    /// This program.
    pub program: PathBuf,
    /// Period of samples, and of decisions.
    pub period: Duration,
    /// Lease of several operators; `None` if this is the only one.
    pub lease: Option<LeaseOptions>,
}

/// Looks after all networks until `stop` is set. The fence of `cluster` is closed at the start if
/// there is a lease.
///
/// # Errors
/// There are no rights, the resource is not defined, or the lease is lost: the caller ends then,
/// and what starts it again starts it again.
pub fn run(
    cluster: &Arc<Cluster>,
    options: &OperatorOptions,
    stop: &AtomicBool,
) -> Result<(), ClusterError> {
    let mut lease = None;
    if let Some(wanted) = &options.lease {
        let mut holder = Holder::new(cluster, wanted.clone())?;
        if !holder.acquire(cluster, stop)? {
            return Ok(());
        }
        tracing::info!(identity = wanted.identity, "this operator leads");
        lease = Some(cluster.handle().spawn(holder.keep(cluster.fence().clone())));
    }
    let result = serve(cluster, options, stop);
    if let Some(lease) = lease {
        // Another operator waits until the lease runs out.
        lease.abort();
        cluster.fence().close();
    }
    result
}

fn serve(
    cluster: &Arc<Cluster>,
    options: &OperatorOptions,
    stop: &AtomicBool,
) -> Result<(), ClusterError> {
    let system = |error: nw_agent::AgentError| ClusterError::System(error.to_string());
    let authority = options.state_directory.join("authority");
    let hub = Hub::start(HubOptions::new(authority.clone(), options.listen)).map_err(system)?;
    tracing::info!(address = %hub.address(), agents = options.agents, "agents connect here");
    let common = Common {
        cluster: cluster.clone(),
        hub: Arc::new(hub),
        authority,
        networks: options.state_directory.join("networks"),
        agents: options.agents.clone(),
        image: options.image.clone(),
        program: options.program.clone(),
        period: options.period,
    };
    let mut held = BTreeMap::new();
    let result = look_until(&common, options, &mut held, stop);
    held.into_values().for_each(Held::quit);
    result
}

fn look_until(
    common: &Common,
    options: &OperatorOptions,
    held: &mut BTreeMap<String, Held>,
    stop: &AtomicBool,
) -> Result<(), ClusterError> {
    let mut is_first = true;
    while !stop.load(Relaxed) {
        let begun = Instant::now();
        if !common.cluster.fence().is_open() {
            return Err(FencedError.into());
        }
        match look(common, options, held) {
            Ok(()) => is_first = false,
            // A cluster that never answered as it should is a fault of the configuration.
            Err(error) if is_first || matches!(error, ClusterError::Fenced(_)) => {
                return Err(error);
            }
            Err(error) => tracing::warn!(%error, "the resources can't be looked at"),
        }
        while begun.elapsed() < INTERVAL && !stop.load(Relaxed) {
            std::thread::sleep(STOP_INTERVAL);
        }
    }
    Ok(())
}

fn look(
    common: &Common,
    options: &OperatorOptions,
    held: &mut BTreeMap<String, Held>,
) -> Result<(), ClusterError> {
    let networks = list(common, &options.namespaces)?;
    let known: BTreeSet<String> = networks.iter().map(key_of).collect();
    for network in &networks {
        let key = key_of(network);
        if !held.contains_key(&key) {
            if held.len() >= NETWORKS_MAX {
                tracing::error!(network = key, "an operator has {NETWORKS_MAX} networks at most");
                continue;
            }
            held.insert(key.clone(), Held::new(common, network));
        }
        let Some(entry) = held.get_mut(&key) else { continue };
        match entry.reconcile(common, network) {
            Ok(false) => {}
            Ok(true) => {
                held.remove(&key);
            }
            Err(error @ ClusterError::Fenced(_)) => return Err(error),
            // The others go on.
            Err(error) => tracing::warn!(network = key, %error, "the resource was not served"),
        }
    }
    let gone: Vec<String> = held.keys().filter(|key| !known.contains(*key)).cloned().collect();
    for key in gone {
        // Deleted with its finalizer taken away: its pods go by their owner references.
        if let Some(entry) = held.remove(&key) {
            entry.quit();
        }
    }
    Ok(())
}

fn list(common: &Common, namespaces: &[String]) -> Result<Vec<Network>, ClusterError> {
    let parameters = ListParams::default();
    let client = || common.cluster.client();
    let mut networks = Vec::new();
    if namespaces.is_empty() {
        let api: Api<Network> = Api::all(client());
        networks.extend(common.cluster.wait(api.list(&parameters))?.items);
    }
    for namespace in namespaces {
        let api: Api<Network> = Api::namespaced(client(), namespace);
        networks.extend(common.cluster.wait(api.list(&parameters))?.items);
    }
    Ok(networks)
}
