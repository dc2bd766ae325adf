//! The agent of one member: gives its router what the control member has, answers probes at its end, says what is pending there.

use super::router::Router;
use super::snapshot::{Difference, FaceText, Seen, Snapshot};
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

/// Why the balancer can't be asked.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct LeadError(pub String);

/// Whom an agent follows: the balancer, in the same process or far away.
pub trait Lead {
    /// The routes that the member shall have, unless they are those of the generation that is `known`.
    ///
    /// # Errors
    /// When the balancer can't be asked.
    fn newer(&mut self, known: u64) -> Result<Option<Arc<Snapshot>>, LeadError>;

    /// Says how the member's router is; what is wanted of it. `None`: it is the control member itself, whose routes are its own.
    ///
    /// # Errors
    /// When the balancer can't be told.
    fn report(&mut self, report: &AgentReport) -> Result<AgentOrder, LeadError>;

    /// True while the member's routes are those that the others get.
    fn is_led(&self) -> bool;

    /// The router of the member went away.
    fn lost(&mut self);
}

/// See the module.
pub struct Agent<L> {
    /// The unix socket of the router.
    pub path: PathBuf,
    /// Under which probes are answered.
    pub probes: Name,
    /// The cluster's addresses.
    pub cluster: Vec<IpAddr>,
    /// Between two questions to the balancer.
    pub interval: Duration,
    /// Routes the router is looked after again so often, in case that somebody else changed them.
    pub look_again: Duration,
    /// Ends it.
    pub stop: Arc<AtomicBool>,
    /// The balancer.
    pub lead: L,
}

const RETRY: Duration = Duration::from_millis(300);
const STOP_LATENCY: Duration = Duration::from_millis(50);

/// What the router has, as far as is known.
struct Held {
    snapshot: Snapshot,
    faces: HashMap<FaceText, u64>,
    /// Faces made here, which go when no route leads to them any more.
    made: BTreeSet<FaceText>,
}

impl<L: Lead> Agent<L> {
    /// Works until it is stopped.
    pub fn run(mut self) {
        while !self.stop.load(Ordering::Relaxed) {
            let was_there = match Router::connect(&self.path, Arc::clone(&self.stop)) {
                Ok(router) => self.attend(router),
                Err(error) => {
                    Err((false, format!("its router can't be reached at {}: {error}", self.path.display())))
                }
            };
            let Err((was_there, trouble)) = was_there else { continue };
            if was_there {
                self.lead.lost();
            }
            let report = AgentReport { trouble: Some(trouble), ..AgentReport::default() };
            // A balancer that is away is told when it is back.
            let _ = self.lead.report(&report);
            self.pause(RETRY);
        }
    }

    /// Until the router goes away or does not do what it is told: whether it went away, and why.
    fn attend(&mut self, mut router: Router) -> Result<(), (bool, String)> {
        let said = |error: ControlError| match error {
            ControlError::Client(ClientError::Closed(_)) => (true, "its router went away".to_owned()),
            error => (false, error.to_string()),
        };
        router.answer_probes(self.probes.clone()).map_err(said)?;
        let mut held: Option<Held> = None;
        let mut looked = Instant::now();
        let mut trouble = None;
        let mut ask_pending = false;
        let mut last: Option<(AgentReport, Instant)> = None;
        while !self.stop.load(Ordering::Relaxed) {
            if self.lead.is_led() {
                held = None;
                trouble = None;
            } else {
                if held.as_ref().is_none_or(|_| looked.elapsed() >= self.look_again) {
                    let generation = 0;
                    let made = held.take().map(|held| held.made).unwrap_or_default();
                    held = Some(self.look(&mut router, generation, made).map_err(said)?);
                    looked = Instant::now();
                }
                let known = held.as_ref().map_or(0, |held| held.snapshot.generation);
                let newer = self.lead.newer(known);
                if let (Ok(Some(wanted)), Some(held)) = (newer, held.as_mut()) {
                    trouble = self.follow(&mut router, held, &wanted).map_err(said)?;
                }
            }
            let generation = match &held {
                Some(held) => Some(held.snapshot.generation).filter(|generation| *generation > 0),
                None => Some(0),
            };
            let pending = if ask_pending { Some(router.pending().map_err(said)?) } else { None };
            let report = AgentReport { generation, pending, trouble: trouble.clone() };
            let fresh = |(before, at): &(AgentReport, Instant)| {
                *before == report && at.elapsed() < self.interval && !ask_pending
            };
            if !last.as_ref().is_some_and(fresh) {
                if let Ok(order) = self.lead.report(&report) {
                    ask_pending = order.ask_pending;
                }
                last = Some((report, Instant::now()));
            }
            router.serve(STOP_LATENCY).map_err(|error| said(error.into()))?;
        }
        Ok(())
    }

    /// What the router has.
    fn look(
        &self,
        router: &mut Router,
        generation: u64,
        made: BTreeSet<FaceText>,
    ) -> Result<Held, ControlError> {
        let (rib, strategies) = (router.rib()?, router.strategies()?);
        let faces = router.faces()?;
        let seen = Seen::of(rib, &faces, strategies, &self.cluster, usize::MAX);
        let snapshot = Snapshot { generation, ..seen.snapshot };
        Ok(Held { snapshot, faces: seen.faces, made })
    }

    /// Makes the router have what is wanted. What it refuses is said; the rest is done.
    fn follow(
        &self,
        router: &mut Router,
        held: &mut Held,
        wanted: &Snapshot,
    ) -> Result<Option<String>, ControlError> {
        let difference = held.snapshot.to(wanted);
        let mut refused: Vec<String> = Vec::new();
        let routes = routes(router, held, &difference, &mut refused)?;
        // First what is new, then away with the old: no name is without a route in between.
        let register: Vec<_> = routes.iter().map(|(_, parameters)| parameters.clone()).collect();
        for (index, why) in router.register(&register)? {
            refused.push(format!("the route {} {}: {why}", routes[index].0.0.prefix, routes[index].0.0.face));
        }
        let gone: Vec<_> = difference
            .remove
            .iter()
            .filter_map(|key| {
                let face_id = Some(*held.faces.get(&key.face)?);
                let parameters = ControlParameters::of(key.prefix.clone());
                Some((
                    Verb::RibUnregister,
                    ControlParameters { face_id, origin: Some(key.origin), ..parameters },
                ))
            })
            .collect();
        router.commands(gone)?;
        strategies(router, &difference, &mut refused)?;
        held.snapshot = wanted.clone();
        self.clean(router, held)?;
        let count = refused.len();
        Ok(refused.into_iter().next().map(|first| format!("its router refused {count}: {first}")))
    }

    /// Ends faces that were made here and that no route leads to any more.
    fn clean(&self, router: &mut Router, held: &mut Held) -> Result<(), ControlError> {
        if held.made.is_empty() {
            return Ok(());
        }
        let used: BTreeSet<_> = held.snapshot.routes.keys().map(|key| Arc::clone(&key.face)).collect();
        let idle: Vec<_> = held.made.difference(&used).cloned().collect();
        let mut commands = Vec::new();
        for face in &idle {
            held.made.remove(face);
            if let Some(id) = held.faces.remove(face) {
                let parameters = ControlParameters { face_id: Some(id), ..ControlParameters::default() };
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

type Route<'a> = (&'a (super::snapshot::RouteKey, super::snapshot::RouteUse), ControlParameters);

/// The commands that register what is new; faces that are missing are made.
fn routes<'a>(
    router: &mut Router,
    held: &mut Held,
    difference: &'a Difference,
    refused: &mut Vec<String>,
) -> Result<Vec<Route<'a>>, ControlError> {
    let wanted: BTreeSet<_> = difference.add.iter().map(|(key, _)| &key.face).collect();
    let missing: Vec<_> =
        wanted.into_iter().filter(|face| !held.faces.contains_key(*face)).cloned().collect();
    let create = |face: &FaceText| {
        let (uri, local) = face.split_once(' ').map_or((&**face, None), |(uri, local)| (uri, Some(local)));
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
            // There already is one: 409.
            Some(answer) if answer.is_ok() || answer.code == 409 && answer.body.face_id.is_some() => {
                held.faces.insert(Arc::clone(&face), answer.body.face_id.unwrap_or_default());
                if answer.is_ok() {
                    held.made.insert(face);
                }
            }
            Some(answer) => refused.push(format!("the face {face}: {} {}", answer.code, answer.text)),
            None => return Err(ControlError::Silence(Verb::FacesCreate.to_string())),
        }
    }
    let command = |added: &'a (super::snapshot::RouteKey, super::snapshot::RouteUse)| {
        let (key, usage) = added;
        let face_id = Some(*held.faces.get(&key.face)?);
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

/// Strategies are chosen one by one: a router of another make may have another version of one, or none.
fn strategies(
    router: &mut Router,
    difference: &Difference,
    refused: &mut Vec<String>,
) -> Result<(), ControlError> {
    for (prefix, strategy) in &difference.choose {
        let set = |router: &mut Router, strategy: Name| {
            let parameters = ControlParameters {
                strategy: Some(Strategy(strategy)),
                ..ControlParameters::of(prefix.clone())
            };
            router.command(Verb::StrategyChoiceSet, &parameters)
        };
        let without_version = |name: &Name| {
            convention::version(name.as_ref()).and(name.as_ref().parent()).map(|name| name.to_name())
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
        .unset
        .iter()
        .map(|prefix| (Verb::StrategyChoiceUnset, ControlParameters::of(prefix.clone())));
    router.commands(unset.collect())?;
    Ok(())
}
