//! The event loop of `nw balancer run`. It owns the members, the slot table and the kernel's state.
//!
//! Other threads (health checks, route watcher, agents, HTTP) send [`Event`]s. After each batch of
//! events, [`Balancer::tick`] derives all that follows: state changes, probe targets, agents, the
//! kernel's tables. Invariant: only this thread writes to the kernel.

mod agents;
mod commands;
mod fragments;
mod kernel;
mod pods;
mod reload;
mod report;
mod scaling;
#[cfg(test)]
mod tests;

use crate::agent::{RouteWatcher, SharedSnapshot, WatchEvent};
use crate::config::{Config, LauncherKind, MemberItem};
use crate::datapath::{self, DataPath};
use crate::health::{Outcome, Probed, Prober, Target};
use crate::key::{KeyError, key};
use crate::launcher::{MemberLauncher, ProcessLauncher};
use crate::member_count::MemberCount;
use crate::members::{Change, Members, Timeouts};
use crate::neighbours::NextHopResolver;
use crate::state_file::{self, PersistedMember, PersistedState};
use crate::{slots, sysctl};
use agents::Agents;
pub use commands::CommandError;
use core::time::Duration;
use kernel::Written;
use nw_agent::EnrolmentCounts;
use nw_api::balancer::{AgentReport, MemberState, ReplicaStatus, SystemSetting};
use nw_element_api::Timestamp;
use nw_kernel::KernelError;
use nw_kernel::balancer::{AttachMode, BalancerOptions, EthernetOptions};
use nw_name::HashKey;
use nw_slot_table::{RuleError, Rules};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time;

/// A balancer can't start.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The process lacks rights.
    #[error(
        "this process lacks the rights for a balancer: run it as root, or with \
         `AmbientCapabilities=CAP_BPF CAP_NET_ADMIN CAP_NET_RAW` in its systemd unit"
    )]
    Rights,
    /// The kernel is too old or lacks a feature.
    #[error("this kernel lacks what a balancer needs")]
    Kernel(#[source] KernelError),
    /// The program can't be attached to an interface.
    #[error("can't attach to {interface}")]
    Attach {
        /// The interface's name.
        interface: String,
        /// The kernel's error.
        #[source]
        error: KernelError,
    },
    /// An interface for Ethernet faces does not exist or has no Ethernet address.
    #[error("there is no Ethernet interface {0}; `ip link` lists all interfaces")]
    NoInterface(String),
    /// The balancer is to count pods, and this program can't.
    #[error(
        "elastic.engine = \"kubernetes\" needs a program with the cargo feature `kubernetes`: \
         `cargo build -p nw-cli --features kubernetes`, or set elastic.enabled = false"
    )]
    NoMemberCount,
    /// The key can't be read or created.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// A rule is invalid.
    #[error("{0}")]
    Rule(RuleError),
    /// The rtnetlink sockets for routes, neighbours and interfaces can't be opened.
    #[error("can't watch routes and neighbours: {0}")]
    NextHopResolver(#[from] nw_faces::FaceError),
    /// A thread or its socket can't be created.
    #[error("can't start a thread or its socket: {0}")]
    Thread(#[from] std::io::Error),
}

/// What is left in the kernel when the balancer ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shutdown {
    /// Nothing: the program is detached, settings are restored, started routers are stopped.
    Detach,
    /// The program stays attached and works without this process; the next balancer takes it over.
    LeaveAttached,
}

/// An event for the event loop.
pub(crate) enum Event {
    Probed(Probed),
    /// The report of a member's agent.
    Agent(String, AgentReport),
    /// The router of this member closed the connection.
    Lost(String),
    Routes(WatchEvent),
    /// The result of measuring this member, Interests per second.
    Measured(String, Result<u32, String>),
    /// A function to run in the event loop.
    Call(Box<dyn FnOnce(&mut Balancer) + Send>),
    /// The end; `None`: leave what was set at the start.
    End(Option<Shutdown>),
}

/// Controls a running balancer from other threads.
#[derive(Clone)]
pub struct Handle {
    events: Sender<Event>,
}

impl Handle {
    /// Ends the balancer. `None`: leave in the kernel what was set at the start.
    pub fn end(&self, ending: Option<Shutdown>) {
        // It may have ended already.
        let _ = self.events.send(Event::End(ending));
    }

    /// Applies a changed configuration: members, rules and drain limits. Other changes are logged;
    /// they need a restart.
    pub fn reload(&self, config: Config) {
        self.with(move |balancer| balancer.reload(config));
    }

    /// Runs a function in the event loop. Does nothing if the balancer has ended.
    pub(crate) fn with(&self, function: impl FnOnce(&mut Balancer) + Send + 'static) {
        let _ = self.events.send(Event::Call(Box::new(function)));
    }

    /// Returns a function that sends the events of the route watcher to the event loop.
    fn route_events(&self) -> impl FnMut(WatchEvent) + Send + 'static {
        let events = self.events.clone();
        move |event| drop(events.send(Event::Routes(event)))
    }
}

/// A running balancer: the state of the event loop.
pub struct Balancer {
    config: Config,
    key: HashKey,
    rules: Rules,
    data_path: Option<Box<dyn DataPath>>,
    next_hops: NextHopResolver,
    members: Members,
    written: Written,
    agents: Agents,
    shared_snapshot: Arc<SharedSnapshot>,
    source: Arc<Mutex<Option<(String, PathBuf)>>>,
    probe_targets: Sender<Vec<Target>>,
    targets: Vec<Target>,
    threads: Vec<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
    launcher: Option<Box<dyn MemberLauncher>>,
    /// Process ids of the routers that the launcher started, by member.
    processes: BTreeMap<String, u32>,
    scaling: scaling::Scaling,
    /// The member whose weight is being measured.
    measuring: Option<String>,
    /// The last probe of each member.
    probes: BTreeMap<String, Probed>,
    /// Errors by member and source (`agent`, `routes`, `measure`).
    member_errors: BTreeMap<(String, &'static str), String>,
    /// Other errors, by subject.
    warnings: BTreeMap<&'static str, String>,
    replica: ReplicaStatus,
    peers: BTreeSet<SocketAddr>,
    interfaces: Vec<(String, AttachMode)>,
    adopted: bool,
    settings: Vec<SystemSetting>,
    saved: Option<PersistedState>,
    events: Receiver<Event>,
    handle: Handle,
    enrolment_counts: Arc<EnrolmentCounts>,
    started: time::Instant,
    counters_read: Option<Timestamp>,
    end: Option<Option<Shutdown>>,
    /// Members of the file that join once their predecessors of the same name are gone.
    rejoining: Vec<MemberItem>,
}

/// What starts members.
#[derive(Default)]
struct Starters {
    launcher: Option<Box<dyn MemberLauncher>>,
    count: Option<Box<dyn MemberCount>>,
}

/// Maximum time between two ticks: neighbours change without an event.
const TICK: Duration = Duration::from_millis(50);
/// Time between two reads of the kernel's counters.
const COUNTERS_INTERVAL: Duration = Duration::from_millis(250);
/// Maximum number of events per tick.
const EVENTS_PER_TICK: usize = 4096;

impl Balancer {
    /// Loads the kernel's program or takes over a running one, attaches it, and starts the threads.
    /// `count` scales members that are pods; it is needed with `elastic.engine = "kubernetes"` only.
    ///
    /// # Errors
    /// Returns an error if the machine lacks something. Nothing new is left behind then.
    pub fn start(config: Config, count: Option<Box<dyn MemberCount>>) -> Result<Self, RunError> {
        let has_pods = config.elastic.enabled && config.elastic.engine == LauncherKind::Kubernetes;
        let count = count.filter(|_| has_pods);
        if has_pods && count.is_none() {
            return Err(RunError::NoMemberCount);
        }
        // Checked first: otherwise a directory that can't be written would be reported instead.
        if !sysctl::has_rights() {
            return Err(RunError::Rights);
        }
        config.renamed.iter().for_each(|renamed| tracing::warn!("{renamed}"));
        let next_hops = NextHopResolver::watch()?;
        let (key, is_new) = key(&config.cluster)?;
        if is_new {
            tracing::info!(
                "a key for the cluster was created; a second balancer needs the same file"
            );
        }
        let options = options(&config, &key, &next_hops)?;
        let data_path = datapath::load(&options).map_err(|error| match error {
            KernelError::Rights { .. } => RunError::Rights,
            error => RunError::Kernel(error),
        })?;
        let program = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("nw"));
        let directory = config.cluster.state_dir.join(format!("{}.members", config.cluster.name));
        let launcher = ProcessLauncher::new(config.elastic.clone(), program, directory);
        let has_processes = config.elastic.enabled && !has_pods;
        let launcher = has_processes.then(|| Box::new(launcher) as Box<dyn MemberLauncher>);
        let starters = Starters { launcher, count };
        let mut balancer = Self::from_parts(config, key, data_path, next_hops, starters)?;
        if let Err(error) = balancer.attach() {
            balancer.shut_down(Shutdown::Detach);
            return Err(error);
        }
        balancer.hold_fragments()?;
        balancer.change_system_settings();
        balancer.save_state();
        Ok(balancer)
    }

    fn change_system_settings(&mut self) {
        let (changed, failed) = match self.config.cluster.system_settings {
            true => sysctl::set(&self.config),
            false => (Vec::new(), Vec::new()),
        };
        for setting in &changed {
            tracing::info!(
                "{} is {} from now on (it was {})",
                setting.name,
                setting.now,
                setting.before
            );
        }
        // Settings that an earlier balancer changed and did not restore are restored by this one.
        self.settings =
            self.saved.as_ref().map(|saved| saved.system_settings.clone()).unwrap_or_default();
        for setting in changed {
            if !self.settings.iter().any(|known| known.name == setting.name) {
                self.settings.push(setting);
            }
        }
        if !failed.is_empty() {
            failed.iter().for_each(|failed| tracing::warn!("{failed}"));
            self.warnings.insert("system", failed.join("; "));
        }
    }

    /// Creates a balancer with these parts, and runs the first tick.
    fn from_parts(
        config: Config,
        key: HashKey,
        data_path: Box<dyn DataPath>,
        next_hops: NextHopResolver,
        Starters { launcher, count }: Starters,
    ) -> Result<Self, RunError> {
        let rules = slots::rules(&config.rule).map_err(RunError::Rule)?;
        let (sender, events) = mpsc::channel();
        let handle = Handle { events: sender };
        let (probe_targets, targets) = mpsc::channel();
        let stop = Arc::new(AtomicBool::new(false));
        let shared_snapshot = Arc::new(SharedSnapshot::default());
        let (source, mut threads) = (Arc::new(Mutex::new(None)), Vec::new());
        if config.health.enabled {
            threads.push(spawn_prober(&config, &handle, targets)?);
        }
        if config.routes.replicate {
            let watcher = RouteWatcher {
                source: Arc::clone(&source),
                shared_snapshot: Arc::clone(&shared_snapshot),
                routes: config.routes.clone(),
                cluster: cluster_addresses(&config),
                stop: Arc::clone(&stop),
                on_event: handle.route_events(),
            };
            threads.push(spawn("routes", move || watcher.run())?);
        }
        let agents = create_agents(&config, &shared_snapshot, &handle);
        let mut balancer = Balancer {
            members: Members::new(timeouts(&config), config.cluster.control_member.clone()),
            scaling: scaling::Scaling::new(&config.elastic, count, &handle)?,
            adopted: data_path.adopted(),
            data_path: Some(data_path),
            key,
            rules,
            next_hops,
            written: Written::default(),
            agents,
            shared_snapshot,
            source,
            probe_targets,
            targets: Vec::new(),
            threads,
            stop,
            launcher,
            processes: BTreeMap::new(),
            measuring: None,
            probes: BTreeMap::new(),
            member_errors: BTreeMap::new(),
            warnings: BTreeMap::new(),
            replica: ReplicaStatus::default(),
            peers: BTreeSet::new(),
            interfaces: Vec::new(),
            settings: Vec::new(),
            saved: None,
            events,
            handle,
            enrolment_counts: Arc::default(),
            started: time::Instant::now(),
            counters_read: None,
            end: None,
            rejoining: Vec::new(),
            config,
        };
        balancer.load_members();
        balancer.initialize_kernel();
        balancer.tick();
        Ok(balancer)
    }

    /// Adds the configured members, and those of the state file that were added by commands.
    fn load_members(&mut self) {
        let path = self.state_path();
        self.saved = PersistedState::load(&path).unwrap_or_else(|message| {
            tracing::warn!("{message}");
            self.warnings.insert("state", message);
            None
        });
        let saved: Vec<PersistedMember> =
            self.saved.as_ref().map(|saved| saved.members.clone()).unwrap_or_default();
        let configured = self.config.member.clone();
        let added = saved.iter().filter(|member| {
            member.added
                && !member.leaving
                && configured.iter().all(|item| item.name != member.name)
        });
        let all = configured.iter().cloned().chain(added.map(PersistedMember::item));
        for item in all.collect::<Vec<_>>() {
            let known = saved.iter().find(|member| member.name == item.name);
            self.load_member(item, known);
        }
    }

    fn load_member(&mut self, item: MemberItem, known: Option<&PersistedMember>) {
        let others: Vec<_> = self.members.iter().map(|member| member.item.clone()).collect();
        let faults = crate::config::member_faults(&self.config.cluster, &item, &others);
        if let Some(fault) = faults.first() {
            tracing::warn!(
                "{} was added earlier and conflicts with the configuration: {fault}",
                item.name
            );
            return;
        }
        let name = item.name.clone();
        let control = item.control.clone();
        // If the data path went on, members keep their states; otherwise all join again. A drained
        // member stays drained in either case.
        let state = match known.map(|member| member.state) {
            Some(MemberState::Drained | MemberState::Draining) => MemberState::Drained,
            Some(state @ (MemberState::Active | MemberState::Failed)) if self.adopted => state,
            _ => MemberState::Joining,
        };
        let added = self.members.add(self.now(), item, state, known.map(|known| known.number));
        let (Ok(member), Some(known)) = (added, known) else { return };
        member.added = known.added;
        member.measured_per_s = known.measured_per_s;
        let member = member.item.clone();
        if let (Some(process), Some(launcher)) = (known.process, &mut self.launcher)
            && control.is_some()
        {
            if launcher.adopt(&member, process) {
                self.processes.insert(name, process);
            } else {
                tracing::info!("the router of {name} exited while no balancer ran");
                let _ = self.members.remove(&name);
            }
        }
    }

    fn attach(&mut self) -> Result<(), RunError> {
        use crate::config::Attach;
        let interfaces = self.config.cluster.interfaces.clone();
        let has_bridge = interfaces.iter().any(|name| self.next_hops.is_bridge(name));
        let mut wanted = match self.config.cluster.attach {
            // Drivers can't send to a bridge, and cards behind one leave checksums unfinished,
            // which XDP would spoil (decision 0145).
            Attach::Auto if has_bridge => Some(AttachMode::TrafficControl),
            Attach::Auto => None,
            Attach::Native => Some(AttachMode::Native),
            Attach::Generic => Some(AttachMode::Generic),
            Attach::TrafficControl => Some(AttachMode::TrafficControl),
        };
        let Some(path) = &mut self.data_path else { return Ok(()) };
        for interface in interfaces {
            let mut attached = path.attach(&interface, wanted);
            if self.config.cluster.attach == Attach::Auto
                && matches!(attached, Err(KernelError::NoTrafficControl { .. }))
            {
                wanted = Some(AttachMode::Generic);
                attached = path.attach(&interface, wanted);
            }
            let mode = attached
                .map_err(|error| RunError::Attach { interface: interface.clone(), error })?;
            tracing::info!(%interface, mode = mode.as_str(), "attached");
            self.interfaces.push((interface, mode));
        }
        let is_tc = |(_, mode): &(String, AttachMode)| *mode == AttachMode::TrafficControl;
        if has_bridge && !self.interfaces.iter().all(is_tc) {
            let warning = "XDP is attached, and there is a bridge: answers of members behind it \
                           have wrong checksums unless each card there sends full ones (ethtool \
                           -K DEVICE tx off); with Linux 6.6 set cluster.attach = \"tc\"";
            tracing::warn!("{warning}");
            self.warnings.insert("bridge", warning.to_owned());
        }
        // Detach from interfaces that only an earlier configuration had.
        let removed = |index: u32, next_hops: &NextHopResolver| {
            let name = next_hops.interface_name(index).map(str::to_owned);
            name.filter(|name| !self.config.cluster.interfaces.contains(name))
        };
        for interface in
            path.attached().into_iter().filter_map(|(index, _)| removed(index, &self.next_hops))
        {
            if let Err(error) = path.detach(&interface) {
                tracing::warn!(%interface, "{error}");
            }
        }
        Ok(())
    }

    /// Returns a handle for other threads.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Returns the counts of agents' enrolments, which are shared with the listener for agents.
    pub fn enrolment_counts(&self) -> Arc<EnrolmentCounts> {
        Arc::clone(&self.enrolment_counts)
    }

    /// Returns the configuration.
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// Returns whether it took over a data path that an earlier process left.
    pub const fn adopted(&self) -> bool {
        self.adopted
    }

    /// Runs until it is ended. `ending` applies unless the end event says otherwise; returns what
    /// was applied.
    pub fn run(mut self, ending: Shutdown) -> Shutdown {
        while self.end.is_none() {
            match self.events.recv_timeout(TICK) {
                Ok(event) => self.handle_event(event),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            for _ in 0..EVENTS_PER_TICK {
                let Ok(event) = self.events.try_recv() else { break };
                self.handle_event(event);
            }
            self.tick();
        }
        let ending = self.end.flatten().unwrap_or(ending);
        self.shut_down(ending);
        ending
    }

    fn now(&self) -> Timestamp {
        Timestamp::START + self.started.elapsed()
    }

    fn handle_event(&mut self, event: Event) {
        match event {
            Event::Probed(probed) => {
                // A lost probe must not confirm an earlier healthy verdict.
                let is_back = matches!(probed.outcome, Outcome::Answered(_));
                if let Some(healthy) = probed.verdict.filter(|healthy| is_back || !healthy) {
                    self.members.on_health(&probed.name, healthy);
                }
                self.probes.insert(probed.name.clone(), probed);
            }
            Event::Agent(name, report) => drop(self.on_report(&name, &report)),
            Event::Lost(name) => self.members.on_lost(&name),
            Event::Routes(WatchEvent::Changed { status, one_port_peers }) => {
                self.replica = status;
                self.peers = one_port_peers;
            }
            Event::Routes(WatchEvent::ConnectionLost(name)) => self.handle_event(Event::Lost(name)),
            Event::Routes(WatchEvent::Recovered(name)) => {
                self.member_errors.remove(&(name, "routes"));
            }
            Event::Routes(WatchEvent::Failed(name, error)) => {
                let message = format!("its routes can't be read: {error}");
                self.member_errors.insert((name, "routes"), message);
            }
            Event::Measured(name, result) => self.on_measured(&name, result),
            Event::Call(function) => function(self),
            Event::End(ending) => self.end = Some(ending),
        }
    }

    /// Applies everything that follows from the events so far.
    fn tick(&mut self) {
        let now = self.now();
        if self.counters_read.is_none_or(|at| now.since(at) >= COUNTERS_INTERVAL) {
            self.read_counters(now);
            self.counters_read = Some(now);
        }
        let changes = self.members.tick(now);
        self.on_changes(changes);
        if !self.rejoining.is_empty() {
            self.rejoin();
        }
        self.update_targets_and_agents();
        self.write_kernel();
        self.scale(now);
        self.measure_next();
    }

    /// Logs and saves state changes, and cleans up after members that are gone.
    fn on_changes(&mut self, changes: Vec<Change>) {
        if changes.is_empty() {
            return;
        }
        for change in &changes {
            match change.to {
                MemberState::Failed => {
                    tracing::warn!(member = change.name, "failed: {}", change.reason)
                }
                to => tracing::info!(member = change.name, "{to}: {}", change.reason),
            }
            if change.to == MemberState::Gone {
                self.processes.remove(&change.name);
                if let Some(launcher) = &mut self.launcher {
                    launcher.stop(&change.name);
                }
                self.probes.remove(&change.name);
                self.member_errors.retain(|(name, _), _| *name != change.name);
            }
        }
        self.save_state();
    }

    /// Adapts probe targets, agents and the route watcher to the list of members.
    fn update_targets_and_agents(&mut self) {
        let mut targets = Vec::new();
        let control = self.members.control_member(self.now()).map(|member| member.item.clone());
        for member in self.members.iter() {
            // A draining member is not probed, so that no Interest of the balancer is pending
            // there.
            if member.state == MemberState::Draining {
                continue;
            }
            let address = SocketAddr::new(member.item.addresses[0].0, member.item.port as u16);
            let has_agent =
                member.item.control.is_some() || self.agents.is_remote(&member.item.name);
            targets.push(Target { name: member.item.name.clone(), address, has_agent });
        }
        if targets != self.targets {
            self.targets.clone_from(&targets);
            // Fails without health checks: then no thread receives it.
            let _ = self.probe_targets.send(targets);
        }
        let source = control.and_then(|item| item.control.map(|path| (item.name, path)));
        self.agents.update(&self.members, source.as_ref().map(|(name, _)| name.as_str()));
        let mut current = self.source.lock().unwrap_or_else(PoisonError::into_inner);
        if *current != source {
            *current = source;
        }
    }

    fn state_path(&self) -> PathBuf {
        state_file::path(&self.config.cluster.state_dir, &self.config.cluster.name)
    }

    /// Saves the state for the next start. A failure is reported as a warning and stops nothing.
    fn save_state(&mut self) {
        let member = |member: &crate::members::Member| {
            PersistedMember::of(member, self.processes.get(&member.item.name).copied())
        };
        let state = PersistedState {
            members: self.members.iter().map(member).collect(),
            system_settings: self.settings.clone(),
        };
        if self.saved.as_ref() == Some(&state) && !self.warnings.contains_key("state") {
            return;
        }
        match state.save(&self.state_path()) {
            Ok(()) => drop(self.warnings.remove("state")),
            Err(error) => {
                let path = self.state_path();
                let message = format!(
                    "{} can't be written ({error}): changes made by commands would be lost at a restart",
                    path.display()
                );
                tracing::warn!("{message}");
                self.warnings.insert("state", message);
            }
        }
        self.saved = Some(state);
    }

    fn shut_down(mut self, ending: Shutdown) {
        self.stop.store(true, Ordering::Relaxed);
        self.agents.end();
        drop(self.probe_targets);
        for thread in self.threads.drain(..) {
            // A thread that panicked has printed the reason.
            let _ = thread.join();
        }
        let Some(path) = self.data_path.take() else { return };
        if ending == Shutdown::LeaveAttached {
            tracing::info!("the data path goes on; `nw balancer run` takes it over");
            return;
        }
        for name in self.processes.keys() {
            self.launcher.iter_mut().for_each(|launcher| launcher.stop(name));
        }
        if let Err(error) = path.remove() {
            tracing::warn!("the program may still be attached: {error}");
        }
        sysctl::restore(&self.settings);
        let members = self.saved.take().map(|saved| saved.members).unwrap_or_default();
        let members = members.into_iter().filter(|member| member.process.is_none()).collect();
        let path = state_file::path(&self.config.cluster.state_dir, &self.config.cluster.name);
        if let Err(error) = (PersistedState { members, system_settings: Vec::new() }).save(&path) {
            tracing::warn!(%error, "the state for the next start can't be saved");
        }
    }
}

/// Returns the configured time limits.
fn timeouts(config: &Config) -> Timeouts {
    Timeouts {
        has_probes: config.health.enabled,
        has_replication: config.routes.replicate,
        drain_limit: Duration::from_secs(u64::from(config.drain.limit_s)),
        idle: Duration::from_millis(u64::from(config.drain.idle_ms)),
        failover: Duration::from_secs(u64::from(config.routes.failover_timeout_s)),
    }
}

fn cluster_addresses(config: &Config) -> Vec<IpAddr> {
    config.cluster.addresses.iter().map(|ip| ip.0).collect()
}

fn create_agents(config: &Config, snapshot: &Arc<SharedSnapshot>, handle: &Handle) -> Agents {
    let (name, addresses) = (config.cluster.name.clone(), cluster_addresses(config));
    Agents::new(name, addresses, Arc::clone(snapshot), handle.clone())
}

/// Starts the thread that probes members.
fn spawn_prober(
    config: &Config,
    handle: &Handle,
    targets: Receiver<Vec<Target>>,
) -> Result<JoinHandle<()>, RunError> {
    let sender = handle.clone();
    let prober = Prober::new(&config.cluster.name, &config.health, move |probed| {
        let _ = sender.events.send(Event::Probed(probed));
    })?;
    Ok(spawn("health", move || prober.run(&targets))?)
}

fn options(
    config: &Config,
    key: &HashKey,
    next_hops: &NextHopResolver,
) -> Result<BalancerOptions, RunError> {
    let cluster = &config.cluster;
    let address = |v4: bool| cluster.addresses.iter().map(|ip| ip.0).find(|ip| ip.is_ipv4() == v4);
    let ethernet = match (&cluster.ethernet_outside, &cluster.ethernet_inside) {
        (Some(outside), Some(inside)) => {
            let missing = |name: &String| RunError::NoInterface(name.clone());
            let found = next_hops.interface(outside).ok_or_else(|| missing(outside))?;
            Some(EthernetOptions {
                outside_index: found.0,
                outside_mac: found.1.ok_or_else(|| missing(outside))?,
                inside_index: next_hops.interface(inside).ok_or_else(|| missing(inside))?.0,
                group: EthernetOptions::GROUP,
            })
        }
        _ => None,
    };
    Ok(BalancerOptions {
        key: *key,
        cluster_v4: address(true)
            .and_then(|ip| if let IpAddr::V4(v4) = ip { Some(v4) } else { None }),
        cluster_v6: address(false)
            .and_then(|ip| if let IpAddr::V6(v6) = ip { Some(v6) } else { None }),
        port: cluster.port as u16,
        ethernet,
        pin: Some(cluster.bpffs_dir.join(&cluster.name)),
    })
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> std::io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name.into()).spawn(run)
}
