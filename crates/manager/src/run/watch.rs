//! The watch thread: notices instances that ended, takes samples, and asks `nw-manage` for decisions
//! on numbers of instances and on countermeasures. It changes what is wanted, never the network.

use super::{Shared, locked, now_ms};
use crate::engine::{EngineInstance, InstanceState as EngineState};
use crate::events::About;
use crate::map::Rates;
use crate::samples::element_samples;
use crate::store::StoredReplicas;
use crate::world::{Seen, instance_id};
use nw_api::network::{NetworkEventKind, NetworkState};
use nw_manage::observed::Observed;
use nw_manage::plan::plan;
use nw_manage::scale::{LoadSample, ScaleDecision, Scaler};
use nw_manage::target::InstanceId;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Shortest interval between looks for instances that ended.
const TICK: Duration = Duration::from_millis(200);
/// Part of that interval for each instance: the looks cost the same share of a core with any number
/// of instances.
const TICK_PER_INSTANCE: Duration = Duration::from_millis(10);

/// What the thread remembers between two looks.
#[derive(Default)]
struct Memory {
    scaler: Scaler,
    /// Last sample: rates are its difference to the next.
    sampled: Seen,
    /// Instances at the last look, and whether they ran.
    running: BTreeMap<InstanceId, bool>,
    /// What was observed, and the change of what is wanted, when the plan was last empty.
    converged: Option<(Observed, u64)>,
}

/// Runs until the manager ends.
pub fn run(shared: &Shared) {
    let mut memory = Memory::default();
    let mut next_sample = Instant::now();
    while !shared.is_quitting() {
        if Instant::now() >= next_sample {
            next_sample = Instant::now() + shared.period;
            sample(shared, &mut memory);
        } else {
            notice_ended(shared, &mut memory);
        }
        let tick = TICK.max(TICK_PER_INSTANCE * memory.running.len() as u32);
        let until_sample = next_sample.saturating_duration_since(Instant::now());
        // A sample looks for ended instances as well: no look just before one.
        std::thread::sleep(if until_sample < 2 * tick { until_sample } else { tick });
    }
}

/// Looks for instances that have ended or appeared.
fn notice_ended(shared: &Shared, memory: &mut Memory) {
    // An engine that can't be asked is reported by the change thread.
    let (listed, _) = shared.world.list();
    compare_running(shared, memory, listed.iter());
}

/// Wakes the change thread if an instance has ended or appeared.
fn compare_running<'a>(
    shared: &Shared,
    memory: &mut Memory,
    listed: impl Iterator<Item = &'a EngineInstance>,
) {
    let is_running = |instance: &EngineInstance| {
        (instance_id(&instance.labels.instance), instance.state == EngineState::Running)
    };
    let running = listed.map(is_running).collect();
    if running != memory.running {
        memory.running = running;
        shared.wake_change();
    }
}

/// Observes everything, keeps it for those who ask, and decides.
fn sample(shared: &Shared, memory: &mut Memory) {
    let seen = shared.world.sample(now_ms());
    compare_running(shared, memory, seen.instances.values().map(|seen| &seen.engine));
    let (change, target) = {
        let wanted = shared.wanted();
        (wanted.change, std::sync::Arc::clone(&wanted.target))
    };
    if !seen.errors_for(&target).is_empty() {
        return shared.wake_change();
    }
    let is_changing = {
        let mut view = shared.view();
        view.rates = Rates::between(&memory.sampled, &seen);
        view.seen = seen.clone();
        view.plan.is_some() || view.state_for(change) != NetworkState::Converged
    };
    shared.events.note_sample();
    scale(shared, memory, &seen, is_changing);
    defend(shared, &memory.sampled, &seen);
    register(shared, &seen);
    locate(shared, &seen);
    look_for_drift(shared, memory, &seen);
    memory.sampled = seen;
}

/// Wakes the change thread if what runs is not what is wanted. The plan is computed only if
/// something that plans rest on has changed since it was empty.
fn look_for_drift(shared: &Shared, memory: &mut Memory, seen: &Seen) {
    let mut observed = shared.world.observed(seen);
    for instance in &mut observed.instances {
        (instance.pending, instance.cached_packets, instance.imported_packets) = (0, 0, 0);
        instance.faces.iter_mut().for_each(|face| face.pending = 0);
    }
    let (target, change) = {
        let wanted = shared.wanted();
        (std::sync::Arc::clone(&wanted.target), wanted.change)
    };
    let held = shared.held_orphans(&target, seen);
    observed.instances.retain(|instance| !held.contains(&instance.id));
    let facts = (observed, change);
    if memory.converged.as_ref() == Some(&facts) {
        return;
    }
    let mut observed = shared.world.observed(seen);
    observed.instances.retain(|instance| !held.contains(&instance.id));
    match plan(&target, &observed).is_empty() {
        true => memory.converged = Some(facts),
        false => shared.wake_change(),
    }
}

/// Gives links between hosts the addresses of the instances that listen, where these have some of
/// their own. One that is not seen, as it is being replaced, keeps its last address.
fn locate(shared: &Shared, seen: &Seen) {
    let mut wanted = shared.wanted();
    let Some(known) = &wanted.addresses else { return };
    let mut addresses: BTreeMap<InstanceId, IpAddr> = BTreeMap::new();
    for link in &wanted.target.links {
        let id = &link.to.instance;
        if link.from.instance.host == id.host {
            continue;
        }
        let now = seen.instances.get(id).and_then(|seen| seen.engine.address.as_deref());
        let now = now.and_then(|address| address.parse().ok());
        let last = || known.iter().find(|(other, _)| other == id).map(|(_, address)| *address);
        if let Some(address) = now.or_else(last) {
            addresses.insert(id.clone(), address);
        }
    }
    let addresses: Vec<(InstanceId, IpAddr)> = addresses.into_iter().collect();
    if *known == addresses || wanted.is_stopping {
        return;
    }
    let mut changed = wanted.clone();
    changed.addresses = Some(addresses);
    // It was expanded before with the same number of links.
    if changed.refresh().is_ok() {
        *wanted = changed;
        drop(wanted);
        shared.wake_change();
    }
}

/// Asks the defences of the document for countermeasures and applies what is decided.
fn defend(shared: &Shared, before: &Seen, seen: &Seen) {
    let document = {
        let wanted = shared.wanted();
        if wanted.document.file.network.defences.is_empty() && wanted.countermeasures.is_empty() {
            return;
        }
        wanted.document.clone()
    };
    let samples = element_samples(&document, before, seen);
    let (events, countermeasures) = {
        let mut defences = locked(&shared.defences);
        (defences.observe(&document, seen.at_ms, &samples), defences.countermeasures())
    };
    if !events.is_empty() {
        shared.keep_defences();
    }
    for event in events {
        let attack = event.attack.name();
        let (from, to) = (word(&event.from), word(&event.to));
        let text = format!("{attack} at {}: {from} to {to}: {}", event.element, event.reason);
        let about = About { subject: Some(event.element.clone()), ..About::default() };
        shared.event(NetworkEventKind::Defence, text, about);
        event.erase.iter().for_each(|erasure| shared.world.erase(seen, erasure));
    }
    let subject = "network";
    let mut wanted = shared.wanted();
    if wanted.countermeasures == countermeasures || wanted.is_held || wanted.is_stopping {
        return;
    }
    let mut changed = wanted.clone();
    changed.countermeasures = countermeasures;
    if let Err(error) = changed.refresh() {
        drop(wanted);
        return shared.begin_condition(subject, "NotDefended", error.to_string());
    }
    *wanted = changed;
    drop(wanted);
    shared.end_condition(subject, "NotDefended");
    shared.wake_change();
}

/// Returns a state as in JSON.
fn word(state: &nw_manage::defence::DefenceState) -> String {
    let value = serde_json::to_value(state).unwrap_or_default();
    value.as_str().unwrap_or_default().to_owned()
}

/// Takes the prefixes that producers have registered at name routers into the target, so that all
/// other name routers get routes to them.
fn register(shared: &Shared, seen: &Seen) {
    let registrations = shared.world.registrations(seen);
    let mut wanted = shared.wanted();
    if wanted.registrations == registrations || wanted.is_stopping {
        return;
    }
    let mut changed = wanted.clone();
    changed.registrations = registrations;
    if let Err(error) = changed.refresh() {
        drop(wanted);
        return shared.begin_condition("network", "NotRouted", error.to_string());
    }
    let count = changed.registrations.len();
    *wanted = changed;
    drop(wanted);
    shared.end_condition("network", "NotRouted");
    let text = format!("{count} prefixes are registered by producers");
    shared.event(NetworkEventKind::RoutesChanged, text, About::default());
    shared.wake_change();
}

/// Asks for the numbers of instances and applies what is decided.
fn scale(shared: &Shared, memory: &mut Memory, seen: &Seen, is_changing: bool) {
    let samples: Vec<LoadSample> = seen
        .instances
        .iter()
        .filter_map(|(id, seen)| {
            let status = seen.status.as_ref()?;
            Some(LoadSample {
                instance: id.clone(),
                cpu_s: status.cpu_user_s + status.cpu_system_s,
                interests: status.received[0],
                dropped: status.dropped,
            })
        })
        .collect();
    let (document, target, counts) = {
        let wanted = shared.wanted();
        if wanted.document.file.network.scales.is_empty() {
            return;
        }
        (wanted.document.clone(), wanted.target.clone(), wanted.replica_counts())
    };
    let decisions =
        memory.scaler.observe(&document, &target, &counts, seen.at_ms, &samples, is_changing);
    for decision in decisions {
        apply(shared, &decision);
    }
}

fn apply(shared: &Shared, decision: &ScaleDecision) {
    let reason = decision.reason.clone();
    shared.view().scale_reasons.insert(decision.service.clone(), reason);
    let is_pinned = |set: &StoredReplicas| set.is_pinned;
    let mut wanted = shared.wanted();
    let pinned = wanted.replicas.get(&decision.service).is_some_and(is_pinned);
    if decision.from == decision.to || pinned || wanted.is_held || wanted.is_stopping {
        return;
    }
    let set = StoredReplicas { instances: decision.to, is_pinned: false };
    let mut changed = wanted.clone();
    changed.replicas.insert(decision.service.clone(), set);
    let subject = format!("service {}", decision.service);
    let refused = match changed.refresh() {
        Err(error) => Some(error.to_string()),
        Ok(()) => {
            let stored = locked(&shared.store).set_replicas(&decision.service, set);
            stored.err().map(|error| error.to_string())
        }
    };
    if let Some(reason) = refused {
        drop(wanted);
        return shared.begin_condition(&subject, "NotScaled", reason);
    }
    *wanted = changed;
    drop(wanted);
    shared.end_condition(&subject, "NotScaled");
    let text = format!(
        "{}: {} instances instead of {}: {}",
        decision.service, decision.to, decision.from, decision.reason
    );
    let about = About { subject: Some(decision.service.clone()), ..About::default() };
    shared.event(NetworkEventKind::Scaled, text, about);
    shared.wake_change();
}
