//! Commands and questions to a running manager. Each command is noted in the audit, with its
//! result.

use super::change::shown_plan;
use super::wanted::{Wanted, read_document};
use super::{CommandError, FOLDER_SETTING, HELD_SETTING, Shared, locked, now_ms};
use crate::events::{About, EventLog};
use crate::map::{MapInput, service_of};
use crate::store::StoredReplicas;
use nw_api::network::{
    AuditEntry, DocumentText, DocumentVersion, GraphInstance, GraphPositions, GraphService,
    InstanceDetail, InstanceLog, NetworkChange, NetworkEventKind, NetworkGraph, NetworkPlan,
    NetworkRoute, NetworkState, NetworkStatus, PlanRequest, ServiceScale,
};
use nw_manage::plan::plan;
use nw_manage::target::{InstanceId, Target};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::PoisonError;
use std::time::Duration;

/// Most lines of a log that are returned.
const LOG_LINES_MAX: usize = 10_000;
/// Instances with positions that are kept.
const POSITIONS_MAX: usize = 10_000;

/// What asks for a change: a user of this machine, a token's name.
#[derive(Clone, Debug)]
pub struct Author(pub String);

/// Sends commands to a running manager, and asks it; usable from any thread.
#[derive(Clone)]
pub struct Handle {
    pub(super) shared: Arc<Shared>,
}

impl Handle {
    pub(super) const fn new(shared: Arc<Shared>) -> Self {
        Handle { shared }
    }

    pub(super) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Notes a command in the audit and returns its result.
    pub(super) fn audit<T>(
        &self,
        author: &Author,
        action: impl Into<String>,
        result: Result<T, CommandError>,
    ) -> Result<T, CommandError> {
        let entry = AuditEntry {
            at_ms: now_ms(),
            author: author.0.clone(),
            action: action.into(),
            result: match &result {
                Ok(_) => "accepted".to_owned(),
                Err(error) => format!("refused: {error}"),
            },
        };
        let noted = self.shared.store().add_audit(&entry);
        let value = result?;
        noted?;
        Ok(value)
    }

    /// Returns the events of the manager.
    pub fn events(&self) -> &EventLog {
        &self.shared.events
    }

    /// Returns the directory of the network.
    pub fn directory(&self) -> &Path {
        &self.shared.directory
    }

    /// Returns the name of the network.
    pub fn network(&self) -> &str {
        &self.shared.network
    }

    /// Returns the network and its document.
    pub fn status(&self) -> NetworkStatus {
        let wanted = self.shared.wanted();
        let (version, text) = (wanted.version, wanted.document.text.clone());
        let change = wanted.change;
        drop(wanted);
        let view = self.shared.view();
        NetworkStatus {
            name: self.shared.network.clone(),
            program: concat!("namewire ", env!("CARGO_PKG_VERSION")).to_owned(),
            pid: std::process::id(),
            version,
            text,
            state: view.state_for(change),
            conditions: view.conditions.all().to_vec(),
        }
    }

    /// Puts another document into effect. Returns its version: the current one if the text is the
    /// same.
    ///
    /// # Errors
    /// The document is wrong, another version or plan is in effect, or the store refuses; nothing
    /// has changed then.
    pub fn set_document(
        &self,
        change: &NetworkChange,
        author: &Author,
    ) -> Result<u64, CommandError> {
        let result = self.replace_document(change, author);
        let action = match &result {
            Ok(version) => format!("document version {version}"),
            Err(_) => "document".to_owned(),
        };
        self.audit(author, action, result)
    }

    fn replace_document(
        &self,
        change: &NetworkChange,
        author: &Author,
    ) -> Result<u64, CommandError> {
        let document = read_document(&self.shared.network, &change.text)?;
        let mut wanted = self.shared.wanted();
        if let Some(expected) = change.version.filter(|expected| *expected != wanted.version) {
            return Err(CommandError::Conflict(format!(
                "version {} is in effect, not {expected}: look at the difference (`nw network \
                 diff`) and try again",
                wanted.version
            )));
        }
        let folder = change.folder.clone().unwrap_or_else(|| wanted.folder.clone());
        let digest = document.digest();
        let mut next = wanted.with_document(document, &folder)?;
        let missing = self.shared.world.missing_engines(&next.target.hosts);
        if !missing.is_empty() {
            return Err(CommandError::Wrong(missing.join("\n")));
        }
        if let Some(expected) = &change.plan {
            self.check_plan(&next.target, expected)?;
        }
        if change.text == wanted.document.text && folder == wanted.folder {
            return Ok(wanted.version);
        }
        let reason = change.reason.as_deref().unwrap_or("");
        let store = self.shared.store();
        next.version = store.add_document((now_ms(), &author.0, reason), &digest, &change.text)?;
        store.set_setting(FOLDER_SETTING, &folder.display().to_string())?;
        drop(store);
        let version = next.version;
        *wanted = next;
        drop(wanted);
        let text = format!("version {version} of the document is in effect");
        self.shared.event(NetworkEventKind::DocumentChanged, text, About::default());
        self.shared.wake_change();
        Ok(version)
    }

    fn check_plan(&self, target: &Target, expected: &str) -> Result<(), CommandError> {
        let seen = self.shared.world.observe(now_ms());
        let id = plan(target, &self.shared.world.observed(&seen)).id;
        if id == expected {
            return Ok(());
        }
        Err(CommandError::Conflict(format!(
            "the network has changed since plan {expected} was made (it would be {id} now): plan \
             again, and look at the new plan"
        )))
    }

    /// Returns what would be done for a document, or for the one in effect.
    ///
    /// # Errors
    /// The document is wrong, or an engine can't be asked.
    pub fn plan(&self, request: &PlanRequest) -> Result<NetworkPlan, CommandError> {
        let mut wanted = self.shared.wanted().clone();
        let is_current = request.text.is_none() && request.replicas.is_empty();
        if let Some(text) = &request.text {
            let folder = request.folder.clone().unwrap_or_else(|| wanted.folder.clone());
            wanted = wanted.with_document(read_document(&self.shared.network, text)?, &folder)?;
        }
        for (service, count) in &request.replicas {
            check_bounds(&wanted, service, *count)?;
            let set = StoredReplicas { instances: *count, is_pinned: true };
            wanted.replicas.insert(service.clone(), set);
        }
        wanted.refresh()?;
        let missing = self.shared.world.missing_engines(&wanted.target.hosts);
        if !missing.is_empty() {
            return Err(CommandError::Wrong(missing.join("\n")));
        }
        let seen = self.shared.world.observe(now_ms());
        if let Some(error) = seen.errors_for(&wanted.target).first() {
            return Err(CommandError::System((*error).to_owned()));
        }
        let mut shown = shown_plan(&plan(&wanted.target, &self.shared.world.observed(&seen)));
        shown.version = is_current.then_some(wanted.version);
        self.shared.view().keep_plan(shown.clone());
        Ok(shown)
    }

    /// Returns a plan that was made or carried out lately.
    ///
    /// # Errors
    /// There is none with this id.
    pub fn plan_by_id(&self, id: &str) -> Result<NetworkPlan, CommandError> {
        let view = self.shared.view();
        let mut plans = view.plan.iter().chain(&view.plans);
        let found = plans.find(|plan| plan.id == id).cloned();
        let unknown = || CommandError::Unknown(format!("there is no plan {id}, or no longer"));
        found.ok_or_else(unknown)
    }

    /// Returns the network as a map shows it.
    pub fn graph(&self) -> NetworkGraph {
        // The number first: an event that comes in between is sent again, and does no harm.
        let event = self.shared.events.newest_id();
        let wanted = self.shared.wanted().clone();
        let view = self.shared.view();
        let input = MapInput {
            target: &wanted.target,
            seen: &view.seen,
            rates: &view.rates,
            positions: &view.positions,
        };
        let instances = input.instances();
        NetworkGraph {
            network: self.shared.network.clone(),
            version: wanted.version,
            event,
            at_ms: view.seen.at_ms,
            state: view.state_for(wanted.change),
            conditions: view.conditions.all().to_vec(),
            hosts: input.hosts(&instances),
            services: services(&wanted, &instances, |service| {
                view.scale_reasons.get(service).cloned()
            }),
            links: input.links(),
            edges: input.edges(),
            instances,
            plan: view.plan.as_ref().map(|plan| plan.id.clone()),
        }
    }

    /// Returns an instance by `NAME` or `NAME@HOST`.
    ///
    /// # Errors
    /// There is none.
    pub fn instance(&self, name: &str) -> Result<InstanceDetail, CommandError> {
        let graph = self.graph();
        let instance = graph.instances.into_iter().find(|instance| {
            instance.name == name || format!("{}@{}", instance.name, instance.host) == name
        });
        let instance = instance.ok_or_else(|| {
            CommandError::Unknown(format!(
                "there is no instance {name}: `nw network show` lists all, as SERVICE~N"
            ))
        })?;
        let id = InstanceId { name: instance.name.clone(), host: instance.host.clone() };
        let wanted = self.shared.wanted().target.instance(&id).map(|found| found.graph.clone());
        let view = self.shared.view();
        let seen = view.seen.instances.get(&id);
        Ok(InstanceDetail {
            control: seen.map(|seen| seen.engine.control.display().to_string()),
            graph: seen.and_then(|seen| seen.graph.as_deref().map(str::to_owned)),
            wanted_graph: wanted,
            instance,
        })
    }

    /// Returns the path of an instance's control socket.
    ///
    /// # Errors
    /// There is none, or it does not run.
    pub fn control_of(&self, name: &str) -> Result<PathBuf, CommandError> {
        let control = self.instance(name)?.control;
        control.map(PathBuf::from).ok_or_else(|| {
            CommandError::Conflict(format!("{name} does not run: wait until it is started"))
        })
    }

    /// Returns the last lines of an instance's log.
    ///
    /// # Errors
    /// There is no such instance, or its log can't be read.
    pub fn logs(&self, name: &str, lines: usize) -> Result<InstanceLog, CommandError> {
        let found = self.instance(name)?.instance;
        let id = InstanceId { name: found.name, host: found.host };
        let text = self.shared.world.logs(&id, lines.min(LOG_LINES_MAX));
        let text = text.map_err(|error| CommandError::System(error.to_string()))?;
        Ok(InstanceLog { lines: text.lines().map(str::to_owned).collect() })
    }

    /// Returns the numbers of instances of all services of the document.
    pub fn scales(&self) -> Vec<ServiceScale> {
        let services = self.graph().services;
        let scale = |service: GraphService| ServiceScale {
            service: service.name,
            wanted: service.wanted,
            running: service.running,
            min: service.min,
            max: service.max,
            pinned: service.pinned,
            reason: service.reason,
        };
        services.into_iter().map(scale).collect()
    }

    /// Returns the number of instances of a service.
    ///
    /// # Errors
    /// There is no such service.
    pub fn scale(&self, service: &str) -> Result<ServiceScale, CommandError> {
        let found = self.scales().into_iter().find(|scale| scale.service == service);
        found.ok_or_else(|| unknown_service(&self.shared.wanted(), service))
    }

    /// Sets the number of instances of a service, which scaling does not change then; `None` lets
    /// scaling decide again.
    ///
    /// # Errors
    /// The service is unknown, the number is out of bounds, or the store refuses.
    pub fn set_scale(
        &self,
        service: &str,
        instances: Option<u32>,
        author: &Author,
    ) -> Result<ServiceScale, CommandError> {
        let text = instances.map_or_else(|| "auto".to_owned(), |count| count.to_string());
        let result = self.change_scale(service, instances);
        self.audit(author, format!("scale {service} {text}"), result)?;
        self.scale(service)
    }

    fn change_scale(&self, service: &str, instances: Option<u32>) -> Result<(), CommandError> {
        let mut wanted = self.shared.wanted();
        let Some((_, _, current)) = wanted.bounds(service) else {
            return Err(unknown_service(&wanted, service));
        };
        let count = instances.unwrap_or(current);
        check_bounds(&wanted, service, count)?;
        let set = StoredReplicas { instances: count, is_pinned: instances.is_some() };
        let mut next = wanted.clone();
        next.replicas.insert(service.to_owned(), set);
        next.refresh()?;
        self.shared.store().set_replicas(service, set)?;
        *wanted = next;
        drop(wanted);
        let text = match instances {
            Some(count) => format!("{service}: {count} instances, set by a person"),
            None => format!("{service}: the number of instances is decided by load again"),
        };
        let about = About { subject: Some(service.to_owned()), ..About::default() };
        self.shared.event(NetworkEventKind::Scaled, text, about);
        self.shared.wake_change();
        Ok(())
    }

    /// Returns the routes of all name routers, as they were seen last.
    pub fn routes(&self) -> Vec<NetworkRoute> {
        let seen = self.shared.view().seen.clone();
        let mut routes = self.shared.world.routes(&seen);
        let wanted = self.shared.wanted();
        for route in routes.iter_mut().filter(|route| route.by.is_none()) {
            let author = wanted.route_author(&route.prefix, &route.element, &route.face);
            route.by = author.map(str::to_owned);
        }
        routes
    }

    /// Holds all changes, or lets them go on. A plan ends at its next wave.
    ///
    /// # Errors
    /// The store refuses.
    pub fn hold(&self, is_held: bool, author: &Author) -> Result<(), CommandError> {
        let value = if is_held { "yes" } else { "no" };
        let stored = self.shared.store().set_setting(HELD_SETTING, value);
        let action = if is_held { "hold" } else { "resume" };
        self.audit(author, action, stored.map_err(CommandError::from))?;
        self.shared.wanted().is_held = is_held;
        let text = if is_held { "changes are held" } else { "changes go on" };
        self.shared.event(NetworkEventKind::HoldChanged, text, About::default());
        self.shared.wake_change();
        Ok(())
    }

    /// Sets the revision of instances. With another one the plan starts new instances beside those
    /// that run, and these drain when the new ones are ready.
    ///
    /// # Errors
    /// The document can't be expanded, as names become too long; nothing has changed then.
    pub fn set_revision(&self, revision: &str, author: &Author) -> Result<(), CommandError> {
        if self.shared.wanted().revision == revision {
            return Ok(());
        }
        self.audit(author, format!("revision {revision}"), self.change_revision(revision))
    }

    fn change_revision(&self, revision: &str) -> Result<(), CommandError> {
        let mut wanted = self.shared.wanted();
        let mut next = wanted.clone();
        next.revision = revision.to_owned();
        next.refresh()?;
        *wanted = next;
        drop(wanted);
        self.shared.wake_change();
        Ok(())
    }

    /// Sets where a map shows instances.
    ///
    /// # Errors
    /// A number is not finite, there are too many, or the store refuses.
    pub fn set_positions(
        &self,
        change: &GraphPositions,
        author: &Author,
    ) -> Result<(), CommandError> {
        let action = format!("positions of {} instances", change.positions.len());
        self.audit(author, action, self.change_positions(change))
    }

    fn change_positions(&self, change: &GraphPositions) -> Result<(), CommandError> {
        let finite = |p: &nw_api::network::GraphPosition| p.x.abs() <= 1e6 && p.y.abs() <= 1e6;
        if !change.positions.iter().filter_map(|set| set.position.as_ref()).all(finite) {
            return Err(CommandError::Wrong("a position is beyond -1e6 to 1e6".to_owned()));
        }
        let mut view = self.shared.view();
        if view.positions.len() + change.positions.len() > POSITIONS_MAX {
            let reason = format!("more than {POSITIONS_MAX} positions: remove some first");
            return Err(CommandError::Wrong(reason));
        }
        let store = self.shared.store();
        for set in &change.positions {
            store.set_position(&set.instance, set.position)?;
            match set.position {
                None => drop(view.positions.remove(&set.instance)),
                Some(mut position) => {
                    position.fixed = true;
                    view.positions.insert(set.instance.clone(), position);
                }
            }
        }
        Ok(())
    }

    /// Returns all versions of the document, the newest first.
    ///
    /// # Errors
    /// The store can't be read.
    pub fn history(&self) -> Result<Vec<DocumentVersion>, CommandError> {
        Ok(self.shared.store().history()?)
    }

    /// Returns the text of a version.
    ///
    /// # Errors
    /// There is none of this number, or the store can't be read.
    pub fn document_at(&self, version: u64) -> Result<DocumentText, CommandError> {
        let text = self.shared.store().document_at(version)?;
        let unknown = || {
            CommandError::Unknown(format!(
                "there is no version {version}: `nw network history` lists all"
            ))
        };
        Ok(DocumentText { version, text: text.ok_or_else(unknown)? })
    }

    /// Puts the text of an earlier version into effect, as a new version; by default the one
    /// before the current one. Returns the new version.
    ///
    /// # Errors
    /// There is no such version, or it is wrong for this program.
    pub fn undo(&self, version: Option<u64>, author: &Author) -> Result<u64, CommandError> {
        let current = self.shared.wanted().version;
        let wanted = version.unwrap_or(current.saturating_sub(1));
        if version.is_none() && wanted == 0 {
            let reason = "there is no earlier version to return to";
            return self.audit(author, "undo", Err(CommandError::Conflict(reason.to_owned())));
        }
        let text = match self.document_at(wanted) {
            Ok(document) => document.text,
            Err(error) => return self.audit(author, format!("undo to {wanted}"), Err(error)),
        };
        let reason = Some(format!("return to version {wanted}"));
        let change =
            NetworkChange { text, version: Some(current), plan: None, folder: None, reason };
        self.set_document(&change, author)
    }

    /// Returns the newest lines of the audit.
    ///
    /// # Errors
    /// The store can't be read.
    pub fn audit_entries(&self) -> Result<Vec<AuditEntry>, CommandError> {
        Ok(self.shared.store().audit()?)
    }

    /// Ends the manager: at once with `keep`, else when all services are drained and stopped.
    ///
    /// # Errors
    /// What is wanted can't be computed.
    pub fn stop(&self, keep: bool, author: &Author) -> Result<(), CommandError> {
        let result = self.begin_stop(keep);
        self.audit(author, if keep { "stop, services go on" } else { "stop" }, result)
    }

    fn begin_stop(&self, keep: bool) -> Result<(), CommandError> {
        if keep {
            self.shared.quit();
            return Ok(());
        }
        let mut wanted = self.shared.wanted();
        (wanted.is_stopping, wanted.is_held) = (true, false);
        wanted.refresh()?;
        drop(wanted);
        self.shared.view().state = NetworkState::Stopping;
        self.shared.wake_change();
        Ok(())
    }

    /// Ends the manager at once; services go on.
    pub fn quit(&self) {
        self.shared.quit();
    }

    /// Waits until there is an event after a number, until [`wake`](Self::wake) after `is_woken` has
    /// become true, or until the manager has ended. Returns whether it has.
    pub fn wait_event(&self, number: u64, is_woken: impl Fn() -> bool) -> bool {
        let is_waiting = |has_ended: &mut bool| {
            !*has_ended && !is_woken() && self.shared.events.newest() <= number
        };
        let waited = self.shared.ended.wait_while(locked(&self.shared.has_ended), is_waiting);
        *waited.unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets those look who wait for events.
    pub fn wake(&self) {
        self.shared.wake_waiting();
    }

    /// Waits until the manager has ended. Returns whether it has.
    pub fn wait_ended(&self, limit: Duration) -> bool {
        let ended = locked(&self.shared.has_ended);
        let waited = self.shared.ended.wait_timeout_while(ended, limit, |has_ended| !*has_ended);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// Returns the path of the manager's control socket.
    pub fn control(&self) -> PathBuf {
        self.shared.directory.join(super::CONTROL_SOCKET)
    }
}

fn unknown_service(wanted: &Wanted, service: &str) -> CommandError {
    let names = wanted.services().join(", ");
    CommandError::Unknown(format!("the document has no service {service}; it has {names}"))
}

fn check_bounds(wanted: &Wanted, service: &str, count: u32) -> Result<(), CommandError> {
    let (min, max, _) = wanted.bounds(service).ok_or_else(|| unknown_service(wanted, service))?;
    if (min..=max).contains(&count) {
        return Ok(());
    }
    let has_line = wanted.document.file.network.scales.iter().any(|s| s.service == service);
    let remedy = match has_line {
        true => format!("change `scale {service} {min}..{max}` in the document"),
        false => format!("add a line such as `scale {service} 1..4` to the document"),
    };
    Err(CommandError::Wrong(format!(
        "{service} may have {min} to {max} instances, not {count}: {remedy}"
    )))
}

fn services(
    wanted: &Wanted,
    instances: &[GraphInstance],
    reason: impl Fn(&str) -> Option<String>,
) -> Vec<GraphService> {
    let mut names = wanted.services();
    for instance in &wanted.target.instances {
        let name = service_of(&instance.id, &wanted.target);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let service = |name: String| {
        let target = &wanted.target.instances;
        let of_target = || target.iter().filter(|instance| instance.service == name);
        let is_running = |instance: &&GraphInstance| {
            instance.service == name
                && instance.state == nw_api::network::GraphInstanceState::Running
        };
        let count = of_target().count() as u32;
        let (min, max, _) = wanted.bounds(&name).unwrap_or((count, count, count));
        GraphService {
            origin: of_target()
                .next()
                .map_or_else(Default::default, |instance| crate::map::origin(instance.origin)),
            running: instances.iter().filter(is_running).count() as u32,
            wanted: count,
            min,
            max,
            pinned: wanted.replicas.get(&name).is_some_and(|set| set.is_pinned),
            reason: reason(&name),
            name,
        }
    };
    names.into_iter().map(service).collect()
}
