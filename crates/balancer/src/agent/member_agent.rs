//! The agent of one member: keeps its router's routes equal to the control member's, answers probes
//! on the router's far side, and reports its number of pending Interests.

use super::management_client::ManagementClient;
use super::snapshot::{Difference, FaceSpec, RouterState, Snapshot};
use core::time::Duration;
use nw_api::balancer::{AgentOrder, AgentReport};
use nw_api::management::{ControlParameters, FacePersistency, Strategy, Verb};
use nw_app::ClientError;
use nw_app::control::ControlError;
use nw_name::Name;
use nw_name::convention;
use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// The balancer can't be reached.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ConnectionError(pub String);

/// The agent's connection to the balancer, which is in the same process or on another machine.
pub trait BalancerConnection {
    /// Returns the snapshot that the member should have. `None` if its generation is `known`.
    ///
    /// # Errors
    /// The balancer can't be reached.
    fn newer_snapshot(&mut self, known: u64) -> Result<Option<Arc<Snapshot>>, ConnectionError>;

    /// Reports the state of the member's router, and returns the balancer's order.
    ///
    /// # Errors
    /// The balancer can't be reached.
    fn report(&mut self, report: &AgentReport) -> Result<AgentOrder, ConnectionError>;

    /// Returns whether the router keeps its own routes, as the control member does.
    fn keeps_own_routes(&self) -> bool;

    /// Reports that the member's router closed the connection.
    fn router_lost(&mut self);
}

/// The agent of one member. [`run`](Agent::run) is its thread.
pub struct Agent<L> {
    /// The unix socket of the router.
    pub router_socket: PathBuf,
    /// The prefix under which probes are answered.
    pub probe_prefix: Name,
    /// The cluster's addresses.
    pub cluster: Vec<IpAddr>,
    /// Maximum time between two reports to the balancer.
    pub report_interval: Duration,
    /// The router's routes are read again at this interval, in case something else changed them.
    pub resync_interval: Duration,
    /// Set to end the agent.
    pub stop: Arc<AtomicBool>,
    /// The connection to the balancer.
    pub balancer: L,
}

const RETRY: Duration = Duration::from_millis(300);
const STOP_LATENCY: Duration = Duration::from_millis(50);

/// The state of the router as last read and changed.
struct Installed {
    snapshot: Snapshot,
    faces: HashMap<FaceSpec, u64>,
    /// Faces created by the agent. They are destroyed once no route leads to them.
    created_faces: BTreeSet<FaceSpec>,
}

impl<L: BalancerConnection> Agent<L> {
    /// Runs until it is stopped.
    pub fn run(mut self) {
        while !self.stop.load(Ordering::Relaxed) {
            let result =
                match ManagementClient::connect(&self.router_socket, Arc::clone(&self.stop)) {
                    Ok(router) => self.run_connected(router),
                    Err(error) => Err((
                        false,
                        format!(
                            "its router can't be reached at {}: {error}",
                            self.router_socket.display()
                        ),
                    )),
                };
            let Err((was_lost, trouble)) = result else { continue };
            if was_lost {
                self.balancer.router_lost();
            }
            let report = AgentReport { trouble: Some(trouble), ..AgentReport::default() };
            // If the balancer can't be reached, the next report will tell it.
            let _ = self.balancer.report(&report);
            self.pause(RETRY);
        }
    }

    /// Synchronizes one router until it closes the connection or refuses a command. The error tells
    /// whether the connection was lost, and why.
    fn run_connected(&mut self, mut router: ManagementClient) -> Result<(), (bool, String)> {
        router.answer_probes(self.probe_prefix.clone()).map_err(describe)?;
        let mut installed: Option<Installed> = None;
        let mut read_at = Instant::now();
        let mut trouble = None;
        let mut report_pending = false;
        let mut last: Option<(AgentReport, Instant)> = None;
        while !self.stop.load(Ordering::Relaxed) {
            if self.balancer.keeps_own_routes() {
                installed = None;
                trouble = None;
            } else {
                if installed.as_ref().is_none_or(|_| read_at.elapsed() >= self.resync_interval) {
                    let generation = 0;
                    let created_faces = installed
                        .take()
                        .map(|installed| installed.created_faces)
                        .unwrap_or_default();
                    installed = Some(
                        self.read_state(&mut router, generation, created_faces)
                            .map_err(describe)?,
                    );
                    read_at = Instant::now();
                }
                let known = installed.as_ref().map_or(0, |installed| installed.snapshot.generation);
                let newer = self.balancer.newer_snapshot(known);
                if let (Ok(Some(wanted)), Some(installed)) = (newer, installed.as_mut()) {
                    trouble =
                        self.synchronize(&mut router, installed, &wanted).map_err(describe)?;
                }
            }
            let generation = match &installed {
                Some(installed) => {
                    Some(installed.snapshot.generation).filter(|generation| *generation > 0)
                }
                None => Some(0),
            };
            let pending =
                if report_pending { Some(router.pending().map_err(describe)?) } else { None };
            let report = AgentReport { generation, pending, trouble: trouble.clone() };
            let is_reported = |(before, at): &(AgentReport, Instant)| {
                *before == report && at.elapsed() < self.report_interval && !report_pending
            };
            if !last.as_ref().is_some_and(is_reported) {
                if let Ok(order) = self.balancer.report(&report) {
                    report_pending = order.ask_pending;
                }
                last = Some((report, Instant::now()));
            }
            router.serve(STOP_LATENCY).map_err(|error| describe(error.into()))?;
        }
        Ok(())
    }

    /// Reads the state of the router.
    fn read_state(
        &self,
        router: &mut ManagementClient,
        generation: u64,
        created_faces: BTreeSet<FaceSpec>,
    ) -> Result<Installed, ControlError> {
        let (rib, strategies) = (router.rib()?, router.strategies()?);
        let faces = router.faces()?;
        let state = RouterState::of(rib, &faces, strategies, &self.cluster, usize::MAX);
        let snapshot = Snapshot { generation, ..state.snapshot };
        Ok(Installed { snapshot, faces: state.faces, created_faces })
    }

    /// Changes the router's routes to `wanted`. Returns the first refusal; all else is done.
    fn synchronize(
        &self,
        router: &mut ManagementClient,
        installed: &mut Installed,
        wanted: &Snapshot,
    ) -> Result<Option<String>, ControlError> {
        let difference = installed.snapshot.difference_to(wanted);
        let mut refused: Vec<String> = Vec::new();
        let routes = create_faces(router, installed, &difference, &mut refused)?;
        // Additions before removals, so that no prefix is without a route in between.
        let register: Vec<_> = routes.iter().map(|(_, parameters)| parameters.clone()).collect();
        for (index, reason) in router.register(&register)? {
            let (key, _) = routes[index].0;
            refused.push(format!("the route {} {}: {reason}", key.prefix, key.face));
        }
        let unregister: Vec<_> = difference
            .remove
            .iter()
            .filter_map(|key| {
                let face_id = Some(*installed.faces.get(&key.face)?);
                let parameters = ControlParameters::of(key.prefix.clone());
                Some((
                    Verb::RibUnregister,
                    ControlParameters { face_id, origin: Some(key.origin), ..parameters },
                ))
            })
            .collect();
        router.commands(unregister)?;
        set_strategies(router, &difference, &mut refused)?;
        installed.snapshot = wanted.clone();
        self.destroy_unused_faces(router, installed)?;
        let count = refused.len();
        Ok(refused.into_iter().next().map(|first| format!("its router refused {count}: {first}")))
    }

    /// Destroys the faces that the agent created and that no route uses any more.
    fn destroy_unused_faces(
        &self,
        router: &mut ManagementClient,
        installed: &mut Installed,
    ) -> Result<(), ControlError> {
        if installed.created_faces.is_empty() {
            return Ok(());
        }
        let used: BTreeSet<_> =
            installed.snapshot.routes.keys().map(|key| Arc::clone(&key.face)).collect();
        let unused: Vec<_> = installed.created_faces.difference(&used).cloned().collect();
        let mut commands = Vec::new();
        for face in &unused {
            installed.created_faces.remove(face);
            if let Some(id) = installed.faces.remove(face) {
                let parameters =
                    ControlParameters { face_id: Some(id), ..ControlParameters::default() };
                commands.push((Verb::FacesDestroy, parameters));
            }
        }
        router.commands(commands)?;
        Ok(())
    }

    fn pause(&self, time: Duration) {
        let end = Instant::now() + time;
        while Instant::now() < end && !self.stop.load(Ordering::Relaxed) {
            std::thread::sleep(STOP_LATENCY.min(end.saturating_duration_since(Instant::now())));
        }
    }
}

/// Turns a router error into whether the connection was lost, and a message.
fn describe(error: ControlError) -> (bool, String) {
    match error {
        ControlError::Client(ClientError::Closed(_)) => {
            (true, "its router closed the connection".to_owned())
        }
        error => (false, error.to_string()),
    }
}

type Route<'a> =
    (&'a (super::snapshot::RouteKey, super::snapshot::RouteAttributes), ControlParameters);

/// Creates the faces that the new routes need, and returns the parameters that register these
/// routes.
fn create_faces<'a>(
    router: &mut ManagementClient,
    installed: &mut Installed,
    difference: &'a Difference,
    refused: &mut Vec<String>,
) -> Result<Vec<Route<'a>>, ControlError> {
    let wanted: BTreeSet<_> = difference.add.iter().map(|(key, _)| &key.face).collect();
    let missing: Vec<_> =
        wanted.into_iter().filter(|face| !installed.faces.contains_key(*face)).cloned().collect();
    let create = |face: &FaceSpec| {
        let (uri, local) =
            face.split_once(' ').map_or((&**face, None), |(uri, local)| (uri, Some(local)));
        let parameters = ControlParameters {
            uri: Some(uri.to_owned()),
            local_uri: local.map(str::to_owned),
            face_persistency: Some(FacePersistency::Persistent as u64),
            ..ControlParameters::default()
        };
        (Verb::FacesCreate, parameters)
    };
    let answers = router.commands(missing.iter().map(create).collect())?;
    for (face, answer) in missing.into_iter().zip(answers) {
        match answer {
            // 409: such a face exists already.
            Some(answer)
                if answer.is_ok() || answer.code == 409 && answer.body.face_id.is_some() =>
            {
                installed.faces.insert(Arc::clone(&face), answer.body.face_id.unwrap_or_default());
                if answer.is_ok() {
                    installed.created_faces.insert(face);
                }
            }
            Some(answer) => {
                refused.push(format!("the face {face}: {} {}", answer.code, answer.text))
            }
            None => return Err(ControlError::Timeout(Verb::FacesCreate.to_string())),
        }
    }
    let command = |added: &'a (super::snapshot::RouteKey, super::snapshot::RouteAttributes)| {
        let (key, usage) = added;
        let face_id = Some(*installed.faces.get(&key.face)?);
        let parameters = ControlParameters {
            face_id,
            origin: Some(key.origin),
            cost: Some(usage.cost),
            flags: Some(usage.flags),
            ..ControlParameters::of(key.prefix.clone())
        };
        Some((added, parameters))
    };
    Ok(difference.add.iter().filter_map(command).collect())
}

/// Sets and unsets strategies one by one. If a router refuses a strategy's version, it is tried
/// without the version.
fn set_strategies(
    router: &mut ManagementClient,
    difference: &Difference,
    refused: &mut Vec<String>,
) -> Result<(), ControlError> {
    for (prefix, strategy) in &difference.set_strategies {
        let set = |router: &mut ManagementClient, strategy: Name| {
            let parameters = ControlParameters {
                strategy: Some(Strategy(strategy)),
                ..ControlParameters::of(prefix.clone())
            };
            router.command(Verb::StrategyChoiceSet, &parameters)
        };
        let without_version = |name: &Name| {
            convention::version(name.as_ref())
                .and(name.as_ref().parent())
                .map(|name| name.to_name())
        };
        let answer = match set(router, strategy.clone()) {
            Err(ControlError::Refused { .. }) if without_version(strategy).is_some() => {
                set(router, without_version(strategy).unwrap_or_default())
            }
            answer => answer,
        };
        match answer {
            Ok(_) => {}
            Err(ControlError::Refused { response, .. }) => {
                refused.push(format!(
                    "the strategy {strategy} of {prefix}: {} {}",
                    response.code, response.text
                ));
            }
            Err(error) => return Err(error),
        }
    }
    let unset = difference
        .unset_strategies
        .iter()
        .map(|prefix| (Verb::StrategyChoiceUnset, ControlParameters::of(prefix.clone())));
    router.commands(unset.collect())?;
    Ok(())
}
