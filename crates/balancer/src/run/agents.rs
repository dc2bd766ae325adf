//! Agents of members whose routers are on this machine, one thread each; and what agents on other machines said last.

use super::{Balancer, Event, Handle, spawn};
use crate::agent::{Agent, Board, Lead, LeadError, Snapshot};
use crate::members::{Members, Pending};
use crate::probe;
use core::time::Duration;
use nw_api::balancer::{AgentOrder, AgentReport, MemberState};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Agents report at least so often.
const REPORT: Duration = Duration::from_secs(1);
/// The routes of a member are looked after again so often.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

struct Local {
    path: PathBuf,
    lead: LocalLead,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// See the module.
pub(super) struct Agents {
    cluster: String,
    addresses: Vec<IpAddr>,
    board: Arc<Board>,
    handle: Handle,
    local: BTreeMap<String, Local>,
    remote: BTreeMap<String, ()>,
    /// Those that were told to end.
    ending: Vec<JoinHandle<()>>,
}

/// The balancer, as an agent in the same process sees it.
#[derive(Clone)]
struct LocalLead {
    name: String,
    board: Arc<Board>,
    handle: Handle,
    /// Its routes are its own.
    led: Arc<AtomicBool>,
    ask_pending: Arc<AtomicBool>,
}

impl Lead for LocalLead {
    fn newer(&mut self, known: u64) -> Result<Option<Arc<Snapshot>>, LeadError> {
        Ok(self.board.newer(known))
    }

    fn report(&mut self, report: &AgentReport) -> Result<AgentOrder, LeadError> {
        let ended = |_| LeadError("the balancer has ended".to_owned());
        self.handle.events.send(Event::Agent(self.name.clone(), report.clone())).map_err(ended)?;
        Ok(AgentOrder { generation: 0, ask_pending: self.ask_pending.load(Ordering::Relaxed) })
    }

    fn is_led(&self) -> bool {
        self.led.load(Ordering::Relaxed)
    }

    fn lost(&mut self) {
        let _ = self.handle.events.send(Event::Lost(self.name.clone()));
    }
}

impl Agents {
    pub(super) fn new(cluster: String, addresses: Vec<IpAddr>, board: Arc<Board>, handle: Handle) -> Self {
        Agents {
            cluster,
            addresses,
            board,
            handle,
            local: BTreeMap::new(),
            remote: BTreeMap::new(),
            ending: Vec::new(),
        }
    }

    /// An agent on another machine has spoken for the member.
    pub(super) fn is_remote(&self, name: &str) -> bool {
        self.remote.contains_key(name)
    }

    /// One agent for each member with a socket. `leads` is the member whose routes the others get.
    pub(super) fn follow(&mut self, members: &Members, leads: Option<&str>) {
        let gone: Vec<String> = self
            .local
            .iter()
            .filter(|(name, local)| {
                let path = members.named(name).ok().and_then(|member| member.item.control.as_ref());
                path != Some(&local.path)
            })
            .map(|(name, _)| name.clone())
            .collect();
        gone.iter().for_each(|name| self.stop(name));
        self.remote.retain(|name, ()| members.named(name).is_ok());
        self.ending.retain(|thread| !thread.is_finished());
        for member in members.iter() {
            let name = &member.item.name;
            if let Some(path) = &member.item.control
                && !self.local.contains_key(name)
            {
                self.start(name, path.clone());
            }
            let Some(local) = self.local.get(name) else { continue };
            let led = leads == Some(name.as_str()) || member.item.own_routes;
            local.lead.led.store(led, Ordering::Relaxed);
            local.lead.ask_pending.store(member.state == MemberState::Draining, Ordering::Relaxed);
        }
    }

    fn start(&mut self, name: &str, path: PathBuf) {
        let stop = Arc::new(AtomicBool::new(false));
        let lead = LocalLead {
            name: name.to_owned(),
            board: Arc::clone(&self.board),
            handle: self.handle.clone(),
            // Until it is known better: routes of another must not be taken away.
            led: Arc::new(AtomicBool::new(true)),
            ask_pending: Arc::new(AtomicBool::new(false)),
        };
        let agent = Agent {
            path: path.clone(),
            probes: probe::prefix(&self.cluster, name),
            cluster: self.addresses.clone(),
            interval: REPORT,
            look_again: LOOK_AGAIN,
            stop: Arc::clone(&stop),
            lead: lead.clone(),
        };
        match spawn("agent", move || agent.run()) {
            Ok(thread) => {
                self.local.insert(name.to_owned(), Local { path, lead, stop, thread: Some(thread) });
            }
            Err(error) => tracing::error!(member = name, "can't start a thread for its agent: {error}"),
        }
    }

    fn stop(&mut self, name: &str) {
        if let Some(mut local) = self.local.remove(name) {
            local.stop.store(true, Ordering::Relaxed);
            self.ending.extend(local.thread.take());
        }
    }

    /// Ends all, and waits for them.
    pub(super) fn end(&mut self) {
        let names: Vec<_> = self.local.keys().cloned().collect();
        names.iter().for_each(|name| self.stop(name));
        for thread in self.ending.drain(..) {
            // One that panicked has said so.
            let _ = thread.join();
        }
    }
}

impl Balancer {
    /// What an agent says of its member.
    pub(super) fn on_report(&mut self, name: &str, report: &AgentReport) -> AgentOrder {
        let now = self.now();
        let local = self.agents.local.get(name);
        let leads = local.is_some_and(|local| local.lead.is_led());
        // 0 before anything was read: then nobody can have it all.
        let complete =
            report.generation.is_some_and(|has| leads || has > 0 && has >= self.replica.generation);
        self.members.on_routes(name, complete);
        let draining = self.members.named(name).is_ok_and(|member| member.state == MemberState::Draining);
        if draining {
            let pending = report.pending.map_or(Pending::Unknown, Pending::Interests);
            self.members.on_pending(now, name, pending);
        }
        let key = (name.to_owned(), "agent");
        match &report.trouble {
            Some(trouble) => drop(self.troubles.insert(key, trouble.clone())),
            None => drop(self.troubles.remove(&key)),
        }
        AgentOrder { generation: self.replica.generation, ask_pending: draining }
    }

    /// As [`on_report`](Self::on_report), from another machine.
    pub(crate) fn on_remote_report(
        &mut self,
        name: &str,
        report: &AgentReport,
    ) -> Result<AgentOrder, crate::members::MemberError> {
        self.members.named(name)?;
        if self.agents.remote.insert(name.to_owned(), ()).is_none() {
            tracing::info!(member = name, "its agent is there");
        }
        Ok(self.on_report(name, report))
    }

    /// What an agent gives its router; nothing when it is what is known.
    ///
    /// # Errors
    /// When there is no such member.
    pub(crate) fn replica_for(
        &self,
        name: &str,
        known: u64,
    ) -> Result<Option<nw_api::balancer::Replica>, crate::members::MemberError> {
        self.members.named(name)?;
        let snapshot = self.board.newer(known);
        Ok(snapshot.map(|snapshot| snapshot.to_replica(&self.config.cluster.name, name)))
    }
}
