//! Networks in Kubernetes: the operator, what it needs in a cluster, and `up --engine kubernetes`,
//! which leads to the same as `kubectl apply`.

use super::hosts::IMAGE;
use crate::exit::Status;
use crate::output::json_line;
use crate::signals::StopFlag;
use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use nw_kubernetes::{
    Applied, Cluster, Fence, LeaseOptions, LinkVolume, ManifestOptions, NetworkSpec, NetworkStatus,
    OperatorOptions, apply, definition, delete, follow, manifests,
};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Name of the lease unless another one is given.
const LEASE: &str = "namewire-operator";

#[derive(Debug, Args)]
pub struct Operator {
    /// Namespace with networks; may be repeated; default: all
    #[arg(long, value_name = "NAMESPACE")]
    namespace: Vec<String>,
    /// Folder for the state of networks; pods have paths in it
    #[arg(long, value_name = "FOLDER", default_value = "/var/lib/nw/operator")]
    state: PathBuf,
    /// Listen here for the agents of pods
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "0.0.0.0:6366")]
    agents: SocketAddr,
    /// Address where pods reach that, such as namewire-operator.namewire.svc:6366
    #[arg(long, value_name = "HOST:PORT")]
    agents_address: String,
    /// Image of pods, unless a network names one
    #[arg(long, value_name = "NAME:TAG", default_value = IMAGE)]
    image: String,
    /// Milliseconds between samples, and between decisions
    #[arg(
        long,
        value_name = "MS",
        default_value_t = 1_000,
        value_parser = clap::value_parser!(u64).range(100..=60_000)
    )]
    period_ms: u64,
    /// Take this name for the lease, different for each operator; default: the host's name
    #[arg(long, value_name = "NAME")]
    identity: Option<String>,
    /// Namespace of the lease; default: that of the pod
    #[arg(long, value_name = "NAMESPACE")]
    lease_namespace: Option<String>,
    /// Run without a lease: this is the only operator
    #[arg(long, conflicts_with_all = ["identity", "lease_namespace"])]
    alone: bool,
}

/// Runs `nw network operator`.
pub fn operator(args: &Operator) -> Result<ExitCode> {
    crate::logs::Levels::start("info", nw_api::config::LogFormat::Text)?;
    let fence = if args.alone { Fence::open() } else { Fence::closed() };
    let cluster = Arc::new(Cluster::from_environment(fence)?);
    let lease = match args.alone {
        true => None,
        false => Some(LeaseOptions {
            namespace: match &args.lease_namespace {
                Some(namespace) => namespace.clone(),
                None => cluster.namespace().to_owned(),
            },
            name: LEASE.to_owned(),
            identity: identity(args)?,
        }),
    };
    let options = OperatorOptions {
        state_directory: args.state.clone(),
        namespaces: args.namespace.clone(),
        listen: args.agents,
        agents: args.agents_address.clone(),
        image: args.image.clone(),
        program: std::env::current_exe().context("can't find the path of this program")?,
        period: Duration::from_millis(args.period_ms),
        lease,
    };
    let stop = StopFlag::watch()?;
    nw_kubernetes::run(&cluster, &options, &stop.flag())?;
    Ok(ExitCode::SUCCESS)
}

fn identity(args: &Operator) -> Result<String> {
    if let Some(identity) = &args.identity {
        return Ok(identity.clone());
    }
    let name = rustix::system::uname();
    match name.nodename().to_str() {
        Ok(name) if !name.is_empty() => Ok(name.to_owned()),
        _ => bail!("this host has no name: give --identity NAME"),
    }
}

#[derive(Debug, Subcommand)]
pub enum KubernetesCommand {
    /// Print the definition of the resource Network
    Crd,
    /// Print account, rights and network policies of the operator
    Manifests {
        /// Namespace of the operator
        #[arg(long, value_name = "NAMESPACE", default_value = "namewire")]
        namespace: String,
        /// Namespace with networks; may be repeated; default: all
        #[arg(long, value_name = "NAMESPACE")]
        watch: Vec<String>,
    },
}

/// Runs `nw network kubernetes …`.
pub fn print(action: &KubernetesCommand) -> Result<()> {
    match action {
        KubernetesCommand::Crd => out!("{}", definition())?,
        KubernetesCommand::Manifests { namespace, watch } => {
            let (namespace, watched) = (namespace.clone(), watch.clone());
            out!("{}", manifests(&ManifestOptions { namespace, watched }))?;
        }
    }
    Ok(())
}

/// Options of `up --engine kubernetes`.
#[derive(Debug, Args)]
pub struct UpOptions {
    /// Namespace of the network in Kubernetes; default: that of the configuration
    #[arg(long, value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// PersistentVolumeClaim for the sockets of links between pods; HOST=NAME for the pods of a
    /// host of the document, may be repeated
    #[arg(long, value_name = "NAME", conflicts_with = "links_path")]
    links_claim: Vec<String>,
    /// Folder of the node for the sockets of links between pods
    #[arg(long, value_name = "FOLDER")]
    links_path: Option<String>,
    /// Image of the pods; default: the operator's
    #[arg(long, value_name = "NAME:TAG")]
    pod_image: Option<String>,
}

/// How `up` behaves.
#[derive(Clone, Copy, Debug)]
pub struct Behaviour {
    /// Returns when the network is as described.
    pub is_detached: bool,
    /// Leaves the resource when it ends.
    pub is_kept: bool,
    /// Prints JSON.
    pub is_json: bool,
}

/// Applies a document as a resource and follows its conditions. The first signal deletes it, and
/// waits until its services have drained.
pub fn up(
    options: &UpOptions,
    name: &str,
    document: String,
    behaviour: Behaviour,
) -> Result<ExitCode> {
    let links = links(options)?;
    let cluster = Cluster::from_environment(Fence::open())?;
    let spec =
        NetworkSpec { document, links, image: options.pod_image.clone(), ..NetworkSpec::default() };
    let namespace = options.namespace.as_deref().unwrap_or(cluster.namespace());
    let applied = apply(&cluster, namespace, name, &spec)?;
    note!("network {name} of namespace {namespace} is applied");
    let stop = StopFlag::watch()?;
    let flag = stop.flag();
    let mut shown = Shown { is_json: behaviour.is_json, ..Shown::default() };
    let (mut is_ready, mut failure) = (false, None);
    follow(&cluster, &applied, |status| {
        if let Some(status) = status {
            failure = shown.show(status).err();
            is_ready = status.is("Ready") && status.is("Accepted");
        }
        let is_refused = status.is_some_and(|status| !status.is("Accepted"));
        let has_ended = behaviour.is_detached && (is_ready || is_refused);
        failure.is_none() && !has_ended && !flag.load(Relaxed)
    })?;
    if let Some(error) = failure {
        return Err(error);
    }
    if !behaviour.is_detached && !behaviour.is_kept {
        return end(&cluster, &applied, &mut shown);
    }
    Ok(if is_ready || !behaviour.is_detached { Status::Done } else { Status::Failed }.into())
}

/// Returns the volume that the options name.
fn links(options: &UpOptions) -> Result<Option<LinkVolume>> {
    let mut links = LinkVolume { host_path: options.links_path.clone(), ..LinkVolume::default() };
    for claim in &options.links_claim {
        let earlier = match claim.split_once('=') {
            Some((host, name)) => links.claims.insert(host.to_owned(), name.to_owned()),
            None => links.claim.replace(claim.clone()),
        };
        if earlier.is_some() || (links.claim.is_some() && !links.claims.is_empty()) {
            bail!("--links-claim {claim}: give one claim for all hosts, or HOST=NAME once a host");
        }
    }
    Ok((links != LinkVolume::default()).then_some(links))
}

fn end(cluster: &Cluster, applied: &Applied, shown: &mut Shown) -> Result<ExitCode> {
    note!("deleting the network; its services drain");
    delete(cluster, applied)?;
    // A second signal ends the program; the operator goes on with it.
    follow(cluster, applied, |status| {
        if let Some(status) = status {
            // What is shown helps; it is not what is waited for.
            let _ = shown.show(status);
        }
        true
    })?;
    Ok(Status::Done.into())
}

/// What was printed last, so that only changes are printed.
#[derive(Default)]
struct Shown {
    is_json: bool,
    last: Option<String>,
}

impl Shown {
    fn show(&mut self, status: &NetworkStatus) -> Result<()> {
        let text = |kind: &str| {
            let condition = status.condition(kind)?;
            Some(format!("{}: {}", condition.reason, condition.message))
        };
        let kinds = ["Accepted", "Ready", "Degraded"].map(|kind| {
            let is_told = match kind {
                "Ready" => true,
                "Degraded" => status.is(kind),
                _ => !status.is(kind),
            };
            text(kind).filter(|_| is_told)
        });
        let told: Vec<String> = kinds.into_iter().flatten().collect();
        let line = format!("{} instances; {}", status.summary, told.join("; "));
        if self.last.as_ref() == Some(&line) {
            return Ok(());
        }
        match self.is_json {
            true => json_line(status)?,
            false => outln!("{line}")?,
        }
        self.last = Some(line);
        Ok(())
    }
}
