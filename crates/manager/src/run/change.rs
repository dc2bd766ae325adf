//! The change thread: observes, plans, carries out, until the plan is empty. Normal changes and
//! recovery are the same path.
//!
//! After a failure it waits, longer each time, and plans anew. An instance that ends again and
//! again is started again after a pause that grows as well.

use super::wanted::Wanted;
use super::{PLANS_KEPT, Shared, locked, now_ms};
use crate::engine::InstanceState as EngineState;
use crate::events::About;
use crate::steps::{PlanEnd, Run, action_instance};
use crate::world::Seen;
use nw_api::network::{NetworkEventKind, NetworkPlan, NetworkState, PlanState, PlanStep};
use nw_manage::plan::{Action, Plan, Step, plan};
use nw_manage::target::InstanceId;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::PoisonError;
use std::time::{Duration, Instant};

/// First and longest pause after a failure.
const RETRY_PAUSES: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));
/// An instance that ran for this long is started again at once.
const STABLE: Duration = Duration::from_secs(60);
/// Conditions that belong to plans.
const STEP_FAILED: &str = "StepFailed";
const ENGINE_UNREACHABLE: &str = "EngineUnreachable";
const CRASH_LOOP: &str = "CrashLoop";
const NETWORK: &str = "network";

/// What the thread remembers between two plans.
#[derive(Default)]
struct Memory {
    failures: u32,
    retry_at: Option<Instant>,
    /// Change of what is wanted at the last failure: another one is tried at once.
    failed_change: u64,
    /// Number of starts and time of the last one, of instances that ended.
    starts: BTreeMap<InstanceId, (u32, Instant)>,
    /// Instances whose end was reported, until they run again.
    reported: BTreeSet<InstanceId>,
    /// Actions of the last plan that was done.
    done_actions: Vec<Action>,
}

/// Runs until the manager ends.
pub fn run(shared: &Shared) {
    let mut memory = Memory::default();
    while !shared.is_quitting() {
        wait(shared, &mut memory);
        if shared.is_quitting() {
            break;
        }
        look(shared, &mut memory);
    }
    shared.event(NetworkEventKind::Stopping, "the manager ends", About::default());
    *locked(&shared.has_ended) = true;
    shared.ended.notify_all();
}

/// Waits until there is something to look at, and a pause after a failure is over.
fn wait(shared: &Shared, memory: &mut Memory) {
    let mut is_dirty = locked(&shared.is_dirty);
    loop {
        if shared.is_quitting() {
            return;
        }
        let now = Instant::now();
        let pause = memory.retry_at.map(|at| at.saturating_duration_since(now));
        let is_new = || shared.wanted().change != memory.failed_change;
        match pause {
            Some(pause) if !(pause.is_zero() || *is_dirty && is_new()) => {
                let waited = shared.wake.wait_timeout(is_dirty, pause);
                is_dirty = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
            Some(_) => break,
            None if *is_dirty => break,
            None => {
                is_dirty = shared.wake.wait(is_dirty).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }
    *is_dirty = false;
    memory.retry_at = None;
}

/// Observes and plans once, and carries the plan out.
fn look(shared: &Shared, memory: &mut Memory) {
    let wanted = shared.wanted().clone();
    let seen = shared.world.observe(now_ms());
    if !seen.errors_for(&wanted.target).is_empty() {
        return engine_failed(shared, memory, &wanted, &seen);
    }
    shared.end_condition(NETWORK, ENGINE_UNREACHABLE);
    report_ended(shared, memory, &wanted, &seen);
    let mut observed = shared.world.observed(&seen);
    let held = shared.held_orphans(&wanted.target, &seen);
    observed.instances.retain(|instance| !held.contains(&instance.id));
    let next = plan(&wanted.target, &observed);
    if next.is_empty() {
        return converged(shared, memory, &wanted, seen);
    }
    if wanted.is_held {
        shared.view().state = NetworkState::Held;
        return;
    }
    if let Some(pause) = crash_pause(shared, memory, &next, &seen) {
        memory.retry_at = Some(Instant::now() + pause);
        memory.failed_change = wanted.change;
        return;
    }
    let actions: Vec<Action> = next.steps().map(|step| step.action.clone()).collect();
    if actions == memory.done_actions {
        let reason = "all steps were done, but the network is still not as wanted: this is a bug";
        memory.done_actions.clear();
        return failed(shared, memory, &wanted, reason.to_owned());
    }
    match carry_out(shared, &wanted, &next) {
        PlanEnd::Done => {
            memory.done_actions = actions;
            shared.wake_change();
        }
        PlanEnd::Replaced => shared.wake_change(),
        PlanEnd::Failed(step, reason) => {
            failed(shared, memory, &wanted, format!("step {step}: {reason}"));
        }
    }
}

/// Reports instances that are wanted and have ended, each once.
fn report_ended(shared: &Shared, memory: &mut Memory, wanted: &Wanted, seen: &Seen) {
    for (id, instance) in &seen.instances {
        let EngineState::Ended(reason) = &instance.engine.state else {
            memory.reported.remove(id);
            continue;
        };
        if wanted.target.instance(id).is_some() && memory.reported.insert(id.clone()) {
            let text = format!("{id} has ended by itself; the last line of its log: {reason}");
            let about = About { instance: Some(id.to_string()), ..About::default() };
            shared.event(NetworkEventKind::InstanceEnded, text, about);
        }
    }
    memory.reported.retain(|id| seen.instances.contains_key(id));
}

fn converged(shared: &Shared, memory: &mut Memory, wanted: &Wanted, seen: Seen) {
    memory.failures = 0;
    memory.done_actions.clear();
    shared.end_condition(NETWORK, STEP_FAILED);
    shared.end_condition(NETWORK, CRASH_LOOP);
    if wanted.is_stopping {
        return shared.quit();
    }
    shared.keep_quotas(&wanted.target, &seen);
    let mut view = shared.view();
    view.state = NetworkState::Converged;
    view.converged_change = wanted.change;
    view.seen = seen;
}

fn engine_failed(shared: &Shared, memory: &mut Memory, wanted: &Wanted, seen: &Seen) {
    let reasons = seen.errors_for(&wanted.target);
    let reason = format!("nothing is changed meanwhile: {}", reasons.join("; "));
    shared.begin_condition(NETWORK, ENGINE_UNREACHABLE, reason);
    pause(shared, memory, wanted);
}

fn failed(shared: &Shared, memory: &mut Memory, wanted: &Wanted, reason: String) {
    let pause = pause(shared, memory, wanted);
    let reason = format!("{reason}; planned anew in {:.1} s", pause.as_secs_f64());
    shared.begin_condition(NETWORK, STEP_FAILED, reason);
}

/// Plans the next look after a failure. Returns the pause.
fn pause(shared: &Shared, memory: &mut Memory, wanted: &Wanted) -> Duration {
    let pause = grown(RETRY_PAUSES.0, memory.failures);
    memory.failures += 1;
    memory.failed_change = wanted.change;
    memory.retry_at = Some(Instant::now() + pause);
    shared.view().state = NetworkState::Retrying;
    pause
}

fn grown(first: Duration, failures: u32) -> Duration {
    (first * 2_u32.pow(failures.min(6))).min(RETRY_PAUSES.1)
}

/// Returns how long to wait before instances that ended again and again are started. Notes the
/// starts that are about to happen otherwise.
fn crash_pause(shared: &Shared, memory: &mut Memory, next: &Plan, seen: &Seen) -> Option<Duration> {
    let started = next.steps().filter_map(|step| match &step.action {
        Action::Start { instance, .. } => Some(instance),
        _ => None,
    });
    let ended: Vec<&InstanceId> = started.filter(|id| seen.instances.contains_key(id)).collect();
    let now = Instant::now();
    for id in &ended {
        let Some((count, last)) = memory.starts.get(*id) else { continue };
        let due = *last + grown(RETRY_PAUSES.0, *count);
        if *count > 0 && due > now {
            let subject = format!("instance {id}");
            shared.begin_condition(NETWORK, CRASH_LOOP, format!(
                "{subject} has ended {count} times soon after its start; it is started again in \
                 {:.1} s (see `nw network show --logs {id}`)", (due - now).as_secs_f64()));
            shared.view().state = NetworkState::Retrying;
            return Some(due - now);
        }
    }
    for id in ended {
        let start = memory.starts.entry(id.clone()).or_insert((0, now));
        *start = if now - start.1 > STABLE { (1, now) } else { (start.0 + 1, now) };
    }
    None
}

/// Carries a plan out and reports its progress.
fn carry_out(shared: &Shared, wanted: &Wanted, next: &Plan) -> PlanEnd {
    let mut shown = shown_plan(next);
    shown.version = Some(wanted.version);
    shown.state = PlanState::Running;
    let count = shown.steps.len();
    {
        let mut view = shared.view();
        view.state =
            if wanted.is_stopping { NetworkState::Stopping } else { NetworkState::Changing };
        view.plan = Some(shown);
    }
    let about = || About { plan: Some(next.id.clone()), ..About::default() };
    let text = format!("plan {} with {count} steps", next.id);
    shared.event(NetworkEventKind::PlanStarted, text, about());
    let run = Run {
        world: &shared.world,
        target: &wanted.target,
        version: wanted.version,
        store: &shared.store,
        now_ms: &now_ms,
        progress: &|step, state, remark, took_ms| {
            report_step(shared, &next.id, step, state, remark, took_ms);
        },
        is_cancelled: &|| {
            let now = shared.wanted();
            shared.is_quitting() || now.is_held || now.change != wanted.change
        },
    };
    let end = run.carry_out(next);
    let (state, kind, text) = match &end {
        PlanEnd::Done => (PlanState::Done, NetworkEventKind::PlanDone, "is done".to_owned()),
        PlanEnd::Failed(step, reason) => {
            let text = format!("failed at step {step}: {reason}");
            (PlanState::Failed, NetworkEventKind::PlanEnded, text)
        }
        PlanEnd::Replaced => {
            let text = "ends early: something else is wanted".to_owned();
            (PlanState::Replaced, NetworkEventKind::PlanEnded, text)
        }
    };
    let mut view = shared.view();
    if let Some(mut plan) = view.plan.take() {
        plan.state = state;
        view.keep_plan(plan);
    }
    drop(view);
    shared.event(kind, format!("plan {} {text}", next.id), about());
    end
}

fn report_step(
    shared: &Shared,
    plan: &str,
    step: &Step,
    state: PlanState,
    remark: Option<String>,
    took_ms: u64,
) {
    let instance = action_instance(&step.action).to_string();
    if let Some(shown) = shared.view().plan.as_mut()
        && let Some(shown) = shown.steps.iter_mut().find(|shown| shown.id == step.id)
    {
        shown.state = state;
        shown.remark.clone_from(&remark);
        shown.took_ms = (state != PlanState::Running).then_some(took_ms);
    }
    let what = describe(&step.action);
    let remark = remark.map(|remark| format!(": {remark}")).unwrap_or_default();
    let (kind, text) = match state {
        PlanState::Running => (NetworkEventKind::StepStarted, format!("{what} ({})", step.reason)),
        PlanState::Done => {
            (NetworkEventKind::StepDone, format!("{what}: done in {took_ms} ms{remark}"))
        }
        PlanState::Undone => (NetworkEventKind::StepFailed, format!("{what}: taken back{remark}")),
        _ => (NetworkEventKind::StepFailed, format!("{what}: failed{remark}")),
    };
    let (plan, step) = (Some(plan.to_owned()), Some(step.id.clone()));
    shared.event(kind, text, About { instance: Some(instance), subject: None, plan, step });
}

/// Returns what an action does, for a person.
pub(super) fn describe(action: &Action) -> String {
    match action {
        Action::Start { instance, .. } => format!("start {instance}"),
        Action::Await { instance } => format!("wait for {instance}"),
        Action::SetGraph { instance, .. } => format!("change the graph of {instance}"),
        Action::CopyStore { from, to, element, .. } => {
            format!("copy the packets of {element} from {from} to {to}")
        }
        Action::Drain { instance } => format!("drain {instance}"),
        Action::Stop { instance } => format!("stop {instance}"),
    }
}

/// Returns a plan as the interface shows it.
pub(super) fn shown_plan(plan: &Plan) -> NetworkPlan {
    let steps = plan.waves.iter().flat_map(|wave| {
        let phase = serde_json::to_value(wave.phase).unwrap_or_default();
        let phase = phase.as_str().unwrap_or_default().to_owned();
        wave.steps.iter().map(move |step| {
            let instance = action_instance(&step.action);
            PlanStep {
                id: step.id.clone(),
                phase: phase.clone(),
                instance: instance.name.clone(),
                host: instance.host.clone(),
                reason: step.reason.clone(),
                limit_ms: step.limit_ms,
                state: PlanState::Planned,
                remark: None,
                took_ms: None,
            }
        })
    });
    let steps = steps.collect();
    NetworkPlan { id: plan.id.clone(), version: None, state: PlanState::Planned, steps }
}

impl super::View {
    /// Keeps a plan for those who ask by its id.
    pub(super) fn keep_plan(&mut self, plan: NetworkPlan) {
        self.plans.retain(|known| known.id != plan.id);
        if self.plans.len() == PLANS_KEPT {
            self.plans.pop_front();
        }
        self.plans.push_back(plan);
    }
}
