//! The agents of members with a router on this machine, one thread each, and the reports of agents
//! on other machines.

use super::{Balancer, Event, Handle, spawn};
use crate::agent::{Agent, BalancerConnection, ConnectionError, SharedSnapshot, Snapshot};
use crate::members::{Members, Pending};
use crate::probe;
use core::time::Duration;
use nw_api::balancer::{AgentOrder, AgentReport, MemberState};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Maximum time between two reports of an agent.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);
/// The routes of a member's router are read again at this interval.
const RESYNC_INTERVAL: Duration = Duration::from_secs(30);

struct Local {
    path: PathBuf,
    balancer: LocalBalancer,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// All agents that the balancer runs or knows.
pub(super) struct Agents {
    cluster: String,
    addresses: Vec<IpAddr>,
    shared_snapshot: Arc<SharedSnapshot>,
    handle: Handle,
    local: BTreeMap<String, Local>,
    /// Members with an agent on another machine.
    remote: BTreeSet<String>,
    /// Threads of agents that were stopped.
    ending: Vec<JoinHandle<()>>,
}

/// The connection of an agent to the balancer in the same process.
#[derive(Clone)]
struct LocalBalancer {
    name: String,
    shared_snapshot: Arc<SharedSnapshot>,
    handle: Handle,
    /// True while the router keeps its own routes.
    keeps_routes: Arc<AtomicBool>,
    report_pending: Arc<AtomicBool>,
}

impl BalancerConnection for LocalBalancer {
    fn newer_snapshot(&mut self, known: u64) -> Result<Option<Arc<Snapshot>>, ConnectionError> {
        Ok(self.shared_snapshot.newer(known))
    }

    fn report(&mut self, report: &AgentReport) -> Result<AgentOrder, ConnectionError> {
        let ended = |_| ConnectionError("the balancer has ended".to_owned());
        self.handle.events.send(Event::Agent(self.name.clone(), report.clone())).map_err(ended)?;
        Ok(AgentOrder { generation: 0, ask_pending: self.report_pending.load(Ordering::Relaxed) })
    }

    fn keeps_own_routes(&self) -> bool {
        self.keeps_routes.load(Ordering::Relaxed)
    }

    fn router_lost(&mut self) {
        let _ = self.handle.events.send(Event::Lost(self.name.clone()));
    }
}

impl Agents {
    pub(super) fn new(
        cluster: String,
        addresses: Vec<IpAddr>,
        shared_snapshot: Arc<SharedSnapshot>,
        handle: Handle,
    ) -> Self {
        Agents {
            cluster,
            addresses,
            shared_snapshot,
            handle,
            local: BTreeMap::new(),
            remote: BTreeSet::new(),
            ending: Vec::new(),
        }
    }

    /// Returns whether an agent on another machine has reported for the member.
    pub(super) fn is_remote(&self, name: &str) -> bool {
        self.remote.contains(name)
    }

    /// Runs one agent for each member with a socket. `control` is the member whose routes are
    /// replicated.
    pub(super) fn update(&mut self, members: &Members, control: Option<&str>) {
        let removed: Vec<String> = self
            .local
            .iter()
            .filter(|(name, local)| {
                let path = members.named(name).ok().and_then(|member| member.item.control.as_ref());
                path != Some(&local.path)
            })
            .map(|(name, _)| name.clone())
            .collect();
        removed.iter().for_each(|name| self.stop(name));
        self.remote.retain(|name| members.named(name).is_ok());
        self.ending.retain(|thread| !thread.is_finished());
        for member in members.iter() {
            let name = &member.item.name;
            if let Some(path) = &member.item.control
                && !self.local.contains_key(name)
            {
                self.start(name, path.clone());
            }
            let Some(local) = self.local.get(name) else { continue };
            let keeps_routes = control == Some(name.as_str()) || member.item.external_routes;
            local.balancer.keeps_routes.store(keeps_routes, Ordering::Relaxed);
            local
                .balancer
                .report_pending
                .store(member.state == MemberState::Draining, Ordering::Relaxed);
        }
    }

    fn start(&mut self, name: &str, path: PathBuf) {
        let stop = Arc::new(AtomicBool::new(false));
        let balancer = LocalBalancer {
            name: name.to_owned(),
            shared_snapshot: Arc::clone(&self.shared_snapshot),
            handle: self.handle.clone(),
            // Until the first update: the routes of a control member must not be removed.
            keeps_routes: Arc::new(AtomicBool::new(true)),
            report_pending: Arc::new(AtomicBool::new(false)),
        };
        let agent = Agent {
            router_socket: path.clone(),
            probe_prefix: probe::prefix(&self.cluster, name),
            cluster: self.addresses.clone(),
            report_interval: REPORT_INTERVAL,
            resync_interval: RESYNC_INTERVAL,
            stop: Arc::clone(&stop),
            balancer: balancer.clone(),
        };
        match spawn("agent", move || agent.run()) {
            Ok(thread) => {
                self.local
                    .insert(name.to_owned(), Local { path, balancer, stop, thread: Some(thread) });
            }
            Err(error) => {
                tracing::error!(member = name, "can't start a thread for its agent: {error}")
            }
        }
    }

    fn stop(&mut self, name: &str) {
        if let Some(mut local) = self.local.remove(name) {
            local.stop.store(true, Ordering::Relaxed);
            self.ending.extend(local.thread.take());
        }
    }

    /// Stops all agents and waits for their threads.
    pub(super) fn end(&mut self) {
        let names: Vec<_> = self.local.keys().cloned().collect();
        names.iter().for_each(|name| self.stop(name));
        for thread in self.ending.drain(..) {
            // A thread that panicked has printed the reason.
            let _ = thread.join();
        }
    }
}

impl Balancer {
    /// Processes a report of a member's agent, and returns the order for it.
    pub(super) fn on_report(&mut self, name: &str, report: &AgentReport) -> AgentOrder {
        let now = self.now();
        let local = self.agents.local.get(name);
        let keeps_routes = local.is_some_and(|local| local.balancer.keeps_own_routes());
        // Generation 0: no routes were read yet, so no member can have them all.
        let complete = report
            .generation
            .is_some_and(|has| keeps_routes || has > 0 && has >= self.replica.generation);
        self.members.on_routes(name, complete);
        let draining =
            self.members.named(name).is_ok_and(|member| member.state == MemberState::Draining);
        if draining {
            let pending = report.pending.map_or(Pending::Unknown, Pending::Interests);
            self.members.on_pending(now, name, pending);
        }
        let key = (name.to_owned(), "agent");
        match &report.trouble {
            Some(trouble) => drop(self.member_errors.insert(key, trouble.clone())),
            None => drop(self.member_errors.remove(&key)),
        }
        AgentOrder { generation: self.replica.generation, ask_pending: draining }
    }

    /// Processes a report of an agent on another machine.
    pub(crate) fn on_remote_report(
        &mut self,
        name: &str,
        report: &AgentReport,
    ) -> Result<AgentOrder, crate::members::MemberError> {
        self.members.named(name)?;
        if self.agents.remote.insert(name.to_owned()) {
            tracing::info!(member = name, "first report of its agent");
        }
        Ok(self.on_report(name, report))
    }

    /// Returns the routes that a member should have. `None` if their generation is `known`.
    ///
    /// # Errors
    /// [`MemberError::Unknown`](crate::members::MemberError::Unknown).
    pub(crate) fn replica_for(
        &self,
        name: &str,
        known: u64,
    ) -> Result<Option<nw_api::balancer::Replica>, crate::members::MemberError> {
        self.members.named(name)?;
        let snapshot = self.shared_snapshot.newer(known);
        Ok(snapshot.map(|snapshot| snapshot.to_replica(&self.config.cluster.name, name)))
    }
}
