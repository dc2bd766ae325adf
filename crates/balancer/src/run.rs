//! `nw balancer run`: one loop owns members, table and kernel; threads around it probe, look at routes, give them to members and serve HTTP, and tell
//! the loop by messages.

mod agents;
mod commands;
mod fragments;
mod kernel;
mod reload;
mod report;
mod scaling;
#[cfg(test)]
mod tests;

use crate::agent::{Board, Looked, Watcher};
use crate::config::{Config, MemberItem};
use crate::datapath::{self, DataPath};
use crate::engine::{Engine, ProcessEngine};
use crate::health::{Outcome, Probed, Prober, Target};
use crate::kept::{self, Kept, KeptMember};
use crate::key::{KeyError, key};
use crate::members::{Change, Members, Patience};
use crate::{slots, system};
use agents::Agents;
pub use commands::CommandError;
use core::time::Duration;
use kernel::Written;
use nw_api::balancer::{AgentReport, MemberState, ReplicaStatus, SystemSetting};
use nw_element_api::Instant;
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

/// Why a balancer can't run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The process may not.
    #[error(
        "a balancer works in the kernel, and this process may not: run it as root, or with `AmbientCapabilities=CAP_BPF CAP_NET_ADMIN CAP_NET_RAW` in its systemd unit"
    )]
    Rights,
    /// The kernel is too old or lacks something.
    #[error("this kernel can't do what a balancer needs")]
    Kernel(#[source] KernelError),
    /// An interface.
    #[error("can't attach to {interface}")]
    Attach {
        /// Which.
        interface: String,
        /// Why.
        #[source]
        error: KernelError,
    },
    /// An interface for Ethernet faces.
    #[error("there is no Ethernet interface {0}; `ip link` lists those there are")]
    NoInterface(String),
    /// The key.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// A rule.
    #[error("{0}")]
    Rule(RuleError),
    /// Sockets that tell about neighbours and routes.
    #[error("the kernel does not tell neighbours and routes: {0}")]
    Ways(#[from] nw_faces::FaceError),
    /// A thread or a socket of one.
    #[error("can't start a thread or its socket: {0}")]
    Thread(#[from] std::io::Error),
}

/// What is left behind at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The program is taken off, settings are put back, routers that were started end.
    Clean,
    /// All goes on without this process; the next one takes it over.
    Keep,
}

/// What the loop is told.
pub(crate) enum Event {
    Probed(Probed),
    Agent(String, AgentReport),
    /// The router of a member went away.
    Lost(String),
    Looked(Looked),
    Measured(String, Result<u32, String>),
    Do(Box<dyn FnOnce(&mut Balancer) + Send>),
    End(Option<Ending>),
}

/// Reaches a running balancer from other threads.
#[derive(Clone)]
pub struct Handle {
    events: Sender<Event>,
}

impl Handle {
    /// Ends it; `None`: as it was told at its start.
    pub fn end(&self, ending: Option<Ending>) {
        // It may have ended already.
        let _ = self.events.send(Event::End(ending));
    }

    /// Applies a changed configuration: members, rules and drain limits. What needs a new start is logged.
    pub fn reload(&self, config: Config) {
        self.with(move |balancer| balancer.reload(config));
    }

    /// Has something done in the loop; nothing happens when it has ended.
    pub(crate) fn with(&self, what: impl FnOnce(&mut Balancer) + Send + 'static) {
        let _ = self.events.send(Event::Do(Box::new(what)));
    }
}

/// A running balancer.
pub struct Balancer {
    config: Config,
    key: HashKey,
    rules: Rules,
    path: Option<Box<dyn DataPath>>,
    ways: crate::ways::Ways,
    members: Members,
    written: Written,
    agents: Agents,
    board: Arc<Board>,
    source: Arc<Mutex<Option<(String, PathBuf)>>>,
    aim: Sender<Vec<Target>>,
    targets: Vec<Target>,
    threads: Vec<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
    engine: Option<Box<dyn Engine>>,
    /// Processes that the engine started, by member.
    processes: BTreeMap<String, u32>,
    scaling: scaling::Scaling,
    measuring: Option<String>,
    probes: BTreeMap<String, Probed>,
    /// What is wrong with a member, by who says so.
    troubles: BTreeMap<(String, &'static str), String>,
    /// What is wrong otherwise, by what it is about.
    warnings: BTreeMap<&'static str, String>,
    replica: ReplicaStatus,
    peers: BTreeSet<SocketAddr>,
    interfaces: Vec<(String, AttachMode)>,
    adopted: bool,
    settings: Vec<SystemSetting>,
    kept: Option<Kept>,
    events: Receiver<Event>,
    handle: Handle,
    started: time::Instant,
    looked: Option<Instant>,
    end: Option<Option<Ending>>,
    /// Members of the file that join when their predecessors of the same name have left.
    rejoining: Vec<MemberItem>,
}

/// The loop turns at least so often: neighbours change without a message of ours.
const TURN: Duration = Duration::from_millis(50);
/// Between two looks at counters.
const LOOK: Duration = Duration::from_millis(250);
/// Messages of one turn.
const EVENTS_PER_TURN: usize = 4096;

impl Balancer {
    /// Loads or takes over the kernel's program, attaches it, and begins to watch members.
    ///
    /// # Errors
    /// What the machine lacks; then nothing is left behind that was not there before.
    pub fn start(config: Config) -> Result<Self, RunError> {
        // Before anything is made: a folder that can't be written would be named in place of what is missing.
        if !system::has_rights() {
            return Err(RunError::Rights);
        }
        let ways = crate::ways::Ways::watch()?;
        let (key, made) = key(&config.cluster)?;
        if made {
            tracing::info!("a key for the cluster was made; a second balancer needs the same file");
        }
        let options = options(&config, &key, &ways)?;
        let path = datapath::load(&options).map_err(|error| match error {
            KernelError::Rights { .. } => RunError::Rights,
            error => RunError::Kernel(error),
        })?;
        let program = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("nw"));
        let folder = config.cluster.folder.join(format!("{}.members", config.cluster.name));
        let engine = ProcessEngine::new(config.elastic.clone(), program, folder);
        let engine = config.elastic.enabled.then(|| Box::new(engine) as Box<dyn Engine>);
        let mut balancer = Self::with(config, key, path, ways, engine)?;
        if let Err(error) = balancer.attach() {
            balancer.finish(Ending::Clean);
            return Err(error);
        }
        balancer.hold_fragments()?;
        let (changed, failed) = match balancer.config.cluster.system_settings {
            true => system::set(&balancer.config),
            false => (Vec::new(), Vec::new()),
        };
        for setting in &changed {
            tracing::info!("{} is {} from now on (it was {})", setting.name, setting.now, setting.before);
        }
        // Settings that an earlier balancer changed and did not put back are this one's to put back.
        let earlier = balancer.kept.as_ref().map(|kept| kept.system_settings.clone()).unwrap_or_default();
        balancer.settings = earlier;
        for setting in changed {
            if !balancer.settings.iter().any(|known| known.name == setting.name) {
                balancer.settings.push(setting);
            }
        }
        if !failed.is_empty() {
            failed.iter().for_each(|failed| tracing::warn!("{failed}"));
            balancer.warnings.insert("system", failed.join("; "));
        }
        balancer.keep();
        Ok(balancer)
    }

    /// With a data path and an engine of one's own.
    fn with(
        config: Config,
        key: HashKey,
        path: Box<dyn DataPath>,
        ways: crate::ways::Ways,
        engine: Option<Box<dyn Engine>>,
    ) -> Result<Self, RunError> {
        let rules = slots::rules(&config.rule).map_err(RunError::Rule)?;
        let (sender, events) = mpsc::channel();
        let handle = Handle { events: sender };
        let (aim, targets) = mpsc::channel();
        let stop = Arc::new(AtomicBool::new(false));
        let board = Arc::new(Board::default());
        let source = Arc::new(Mutex::new(None));
        let mut threads = Vec::new();
        if config.health.enabled {
            let tell = handle.clone();
            let prober = Prober::new(&config.cluster.name, &config.health, move |probed| {
                let _ = tell.events.send(Event::Probed(probed));
            })?;
            threads.push(spawn("health", move || prober.run(&targets))?);
        }
        let cluster: Vec<IpAddr> = config.cluster.addresses.iter().map(|ip| ip.0).collect();
        if config.routes.replicate {
            let tell = handle.clone();
            let watcher = Watcher {
                source: Arc::clone(&source),
                board: Arc::clone(&board),
                routes: config.routes.clone(),
                cluster: cluster.clone(),
                stop: Arc::clone(&stop),
                tell: move |looked| drop(tell.events.send(Event::Looked(looked))),
            };
            threads.push(spawn("routes", move || watcher.run())?);
        }
        let agents = Agents::new(config.cluster.name.clone(), cluster, Arc::clone(&board), handle.clone());
        let mut balancer = Balancer {
            members: Members::new(patience(&config), config.cluster.control_member.clone()),
            scaling: scaling::Scaling::new(&config.elastic),
            adopted: path.adopted(),
            path: Some(path),
            key,
            rules,
            ways,
            written: Written::default(),
            agents,
            board,
            source,
            aim,
            targets: Vec::new(),
            threads,
            stop,
            engine,
            processes: BTreeMap::new(),
            measuring: None,
            probes: BTreeMap::new(),
            troubles: BTreeMap::new(),
            warnings: BTreeMap::new(),
            replica: ReplicaStatus::default(),
            peers: BTreeSet::new(),
            interfaces: Vec::new(),
            settings: Vec::new(),
            kept: None,
            events,
            handle,
            started: time::Instant::now(),
            looked: None,
            end: None,
            rejoining: Vec::new(),
            config,
        };
        balancer.take_members();
        balancer.tell_kernel_first();
        balancer.turn();
        Ok(balancer)
    }

    /// The configured members, and those of before.
    fn take_members(&mut self) {
        let now = self.now();
        let path = self.kept_path();
        self.kept = Kept::load(&path).unwrap_or_else(|why| {
            tracing::warn!("{why}");
            self.warnings.insert("kept", why);
            None
        });
        let kept: Vec<KeptMember> = self.kept.as_ref().map(|kept| kept.members.clone()).unwrap_or_default();
        // What worked on without a process is as it was; else all begin anew. That a member rests is its owner's will either way.
        let state_of = |kept: Option<&KeptMember>| match kept.map(|kept| kept.state) {
            Some(MemberState::Drained | MemberState::Draining) => MemberState::Drained,
            Some(state @ (MemberState::Active | MemberState::Failed)) if self.adopted => state,
            _ => MemberState::Joining,
        };
        let configured = self.config.member.clone();
        let added = kept.iter().filter(|kept| {
            kept.added && !kept.leaving && configured.iter().all(|item| item.name != kept.name)
        });
        let all = configured.iter().cloned().chain(added.map(KeptMember::item));
        for item in all.collect::<Vec<_>>() {
            let known = kept.iter().find(|kept| kept.name == item.name);
            let there: Vec<_> = self.members.iter().map(|member| member.item.clone()).collect();
            let faults = crate::config::member_faults(&self.config.cluster, &item, &there);
            if let Some(fault) = faults.first() {
                tracing::warn!("{} was added earlier and does not fit the configuration: {fault}", item.name);
                continue;
            }
            let name = item.name.clone();
            let control = item.control.clone();
            let added = self.members.add(now, item, state_of(known), known.map(|known| known.number));
            let (Ok(member), Some(known)) = (added, known) else { continue };
            member.added = known.added;
            member.measured_per_s = known.measured_per_s;
            let member = member.item.clone();
            if let (Some(process), Some(engine)) = (known.process, &mut self.engine)
                && control.is_some()
            {
                if engine.adopt(&member, process) {
                    self.processes.insert(name, process);
                } else {
                    tracing::info!("{name} ended while no balancer ran");
                    let _ = self.members.remove(&name);
                }
            }
        }
    }

    fn attach(&mut self) -> Result<(), RunError> {
        use crate::config::Attach;
        let wanted = match self.config.cluster.attach {
            Attach::Auto => None,
            Attach::Native => Some(AttachMode::Native),
            Attach::Generic => Some(AttachMode::Generic),
            Attach::TrafficControl => Some(AttachMode::TrafficControl),
        };
        let Some(path) = &mut self.path else { return Ok(()) };
        for interface in self.config.cluster.interfaces.clone() {
            let attached = path.attach(&interface, wanted);
            let mode = attached.map_err(|error| RunError::Attach { interface: interface.clone(), error })?;
            tracing::info!(%interface, mode = mode.as_str(), "attached");
            self.interfaces.push((interface, mode));
        }
        // One that the configuration named before has no more business with the program.
        let named = |index: u32, ways: &crate::ways::Ways| {
            let name = ways.name_of(index).map(str::to_owned);
            name.filter(|name| !self.config.cluster.interfaces.contains(name))
        };
        for interface in path.attached().into_iter().filter_map(|(index, _)| named(index, &self.ways)) {
            if let Err(error) = path.detach(&interface) {
                tracing::warn!(%interface, "{error}");
            }
        }
        Ok(())
    }

    /// For other threads.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// The configuration it runs with.
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// It took over what an earlier process left working.
    pub const fn adopted(&self) -> bool {
        self.adopted
    }

    /// Runs until it is ended; `ending` is what is left behind when nobody says otherwise.
    pub fn run(mut self, ending: Ending) -> Ending {
        while self.end.is_none() {
            match self.events.recv_timeout(TURN) {
                Ok(event) => self.take(event),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            for _ in 0..EVENTS_PER_TURN {
                let Ok(event) = self.events.try_recv() else { break };
                self.take(event);
            }
            self.turn();
        }
        let ending = self.end.flatten().unwrap_or(ending);
        self.finish(ending);
        ending
    }

    fn now(&self) -> Instant {
        Instant::START + self.started.elapsed()
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Probed(probed) => {
                // A lost probe does not speak for a member, though the verdict on those before still may.
                let is_back = matches!(probed.outcome, Outcome::Back(_));
                if let Some(healthy) = probed.verdict.filter(|healthy| is_back || !healthy) {
                    self.members.on_health(&probed.name, healthy);
                }
                self.probes.insert(probed.name.clone(), probed);
            }
            Event::Agent(name, report) => drop(self.on_report(&name, &report)),
            Event::Lost(name) => self.members.on_lost(&name),
            Event::Looked(Looked::Changed { status, one_port_peers }) => {
                self.replica = status;
                self.peers = one_port_peers;
            }
            Event::Looked(Looked::Lost(name)) => self.take(Event::Lost(name)),
            Event::Looked(Looked::Well(name)) => drop(self.troubles.remove(&(name, "routes"))),
            Event::Looked(Looked::Trouble(name, why)) => {
                let why = format!("its routes can't be read: {why}");
                self.troubles.insert((name, "routes"), why);
            }
            Event::Measured(name, result) => self.on_measured(&name, result),
            Event::Do(what) => what(self),
            Event::End(ending) => self.end = Some(ending),
        }
    }

    /// Everything that follows from what was told.
    fn turn(&mut self) {
        let now = self.now();
        if self.looked.is_none_or(|at| now.since(at) >= LOOK) {
            self.look(now);
            self.looked = Some(now);
        }
        let changes = self.members.turn(now);
        self.changed(changes);
        if !self.rejoining.is_empty() {
            self.rejoin();
        }
        self.follow_members();
        self.write_kernel();
        self.scale(now);
        self.measure_next();
    }

    /// What becomes of a member is said, done and kept.
    fn changed(&mut self, changes: Vec<Change>) {
        if changes.is_empty() {
            return;
        }
        for change in &changes {
            match change.to {
                MemberState::Failed => tracing::warn!(member = change.name, "failed: {}", change.why),
                to => tracing::info!(member = change.name, "{to}: {}", change.why),
            }
            if change.to == MemberState::Gone {
                self.processes.remove(&change.name);
                if let Some(engine) = &mut self.engine {
                    engine.stop(&change.name);
                }
                self.probes.remove(&change.name);
                self.troubles.retain(|(name, _), _| *name != change.name);
            }
        }
        self.keep();
    }

    /// Probes, agents and the look at routes follow the list of members.
    fn follow_members(&mut self) {
        let mut targets = Vec::new();
        let control = self.members.control(self.now()).map(|member| member.item.clone());
        for member in self.members.iter() {
            // What drains is let alone, so that nothing of ours is pending there.
            if member.state == MemberState::Draining {
                continue;
            }
            let address = SocketAddr::new(member.item.addresses[0].0, member.item.port as u16);
            let has_agent = member.item.control.is_some() || self.agents.is_remote(&member.item.name);
            targets.push(Target { name: member.item.name.clone(), address, has_agent });
        }
        if targets != self.targets {
            self.targets.clone_from(&targets);
            // Without health checks nobody listens.
            let _ = self.aim.send(targets);
        }
        let source = control.and_then(|item| item.control.map(|path| (item.name, path)));
        self.agents.follow(&self.members, source.as_ref().map(|(name, _)| name.as_str()));
        let mut place = self.source.lock().unwrap_or_else(PoisonError::into_inner);
        if *place != source {
            *place = source;
        }
    }

    fn kept_path(&self) -> PathBuf {
        kept::path(&self.config.cluster.folder, &self.config.cluster.name)
    }

    /// Writes what a restart must find. A disk that is full is said, and does not stop anything.
    fn keep(&mut self) {
        let member = |member: &crate::members::Member| {
            KeptMember::of(member, self.processes.get(&member.item.name).copied())
        };
        let kept = Kept {
            members: self.members.iter().map(member).collect(),
            system_settings: self.settings.clone(),
        };
        if self.kept.as_ref() == Some(&kept) && !self.warnings.contains_key("kept") {
            return;
        }
        match kept.save(&self.kept_path()) {
            Ok(()) => drop(self.warnings.remove("kept")),
            Err(error) => {
                let path = self.kept_path();
                let why = format!(
                    "{} can't be written ({error}): after a restart, what was changed by commands would be forgotten",
                    path.display()
                );
                tracing::warn!("{why}");
                self.warnings.insert("kept", why);
            }
        }
        self.kept = Some(kept);
    }

    fn finish(mut self, ending: Ending) {
        self.stop.store(true, Ordering::Relaxed);
        self.agents.end();
        drop(self.aim);
        for thread in self.threads.drain(..) {
            // One that panicked has said so.
            let _ = thread.join();
        }
        let Some(path) = self.path.take() else { return };
        if ending == Ending::Keep {
            tracing::info!("the data path goes on; `nw balancer run` takes it over");
            return;
        }
        for name in self.processes.keys() {
            self.engine.iter_mut().for_each(|engine| engine.stop(name));
        }
        if let Err(error) = path.remove() {
            tracing::warn!("the program may still be attached: {error}");
        }
        system::restore(&self.settings);
        let kept = Kept { members: Vec::new(), system_settings: Vec::new() };
        let members = self.kept.take().map(|kept| kept.members).unwrap_or_default();
        let members = members.into_iter().filter(|member| member.process.is_none()).collect();
        let path = kept::path(&self.config.cluster.folder, &self.config.cluster.name);
        if let Err(error) = (Kept { members, ..kept }).save(&path) {
            tracing::warn!(%error, "what a next start must find can't be kept");
        }
    }
}

/// How long members are waited for, as the configuration says.
fn patience(config: &Config) -> Patience {
    Patience {
        probes: config.health.enabled,
        routes: config.routes.replicate,
        drain_limit: Duration::from_secs(u64::from(config.drain.limit_s)),
        quiet: Duration::from_millis(u64::from(config.drain.quiet_ms)),
        control: Duration::from_secs(u64::from(config.routes.patience_s)),
    }
}

fn options(config: &Config, key: &HashKey, ways: &crate::ways::Ways) -> Result<BalancerOptions, RunError> {
    let cluster = &config.cluster;
    let address = |v4: bool| cluster.addresses.iter().map(|ip| ip.0).find(|ip| ip.is_ipv4() == v4);
    let ethernet = match (&cluster.ethernet_outside, &cluster.ethernet_inside) {
        (Some(outside), Some(inside)) => {
            let missing = |name: &String| RunError::NoInterface(name.clone());
            let found = ways.interface(outside).ok_or_else(|| missing(outside))?;
            Some(EthernetOptions {
                outside_index: found.0,
                outside_mac: found.1.ok_or_else(|| missing(outside))?,
                inside_index: ways.interface(inside).ok_or_else(|| missing(inside))?.0,
                group: EthernetOptions::GROUP,
            })
        }
        _ => None,
    };
    Ok(BalancerOptions {
        key: *key,
        cluster_v4: address(true).and_then(|ip| if let IpAddr::V4(v4) = ip { Some(v4) } else { None }),
        cluster_v6: address(false).and_then(|ip| if let IpAddr::V6(v6) = ip { Some(v6) } else { None }),
        port: cluster.port as u16,
        ethernet,
        pin: Some(cluster.pin.join(&cluster.name)),
    })
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> std::io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name(name.into()).spawn(run)
}
