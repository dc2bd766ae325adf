//! Carries out the steps of a plan: intent into the journal, precondition, action, evidence, note.
//!
//! Invariants: a step is noted in the journal before it has an effect outside. A plan ends at the
//! first failed wave, with the undo actions of that wave; nothing is resumed, as planning anew from
//! what is observed leads to the same target. There is no other path that changes a network.

use crate::service_client::{self, ServiceError};
use crate::store::Store;
use crate::world::World;
use nw_api::network::PlanState;
use nw_api::service::{
    CachedPackets, GraphChange, GraphOrder, GraphText, ImportedPackets, PacketImport,
};
use nw_graph_language::network::InsertionOrder;
use nw_manage::observed::{InstanceState, Observed};
use nw_manage::plan::{Action, Condition, OnLimit, Plan, Step};
use nw_manage::target::{InstanceId, Target};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Steps of a wave that run at one time.
const PARALLEL_MAX: usize = 16;
/// First and longest interval between looks for a step's evidence.
const POLL_INTERVALS: (Duration, Duration) = (Duration::from_millis(4), Duration::from_millis(80));
/// Time limit for a change of a graph: its host may resolve names.
const GRAPH_TIMEOUT: Duration = Duration::from_secs(20);
/// Most time that stopping an instance may take after it was drained.
const STOP_LIMIT: Duration = Duration::from_secs(2);
/// Bytes in one slice of a store that is copied.
const SLICE_BYTES: u64 = 256 << 10;
/// Test support: kill this process at the boundary of this number, counted from 1. Each step has
/// three boundaries: after its intent is noted, after its effect, after its end is noted. A release
/// has no switch for tests.
#[cfg(debug_assertions)]
const KILL_VARIABLE: &str = "NW_NETWORK_TEST_KILL_AT";

/// How a plan ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanEnd {
    /// All steps are done.
    Done,
    /// A step failed: its id, and why.
    Failed(String, String),
    /// Something else is wanted, or changes are held.
    Replaced,
}

/// Receives a step, its state, a remark, and the duration in milliseconds.
pub type Progress<'a> = dyn Fn(&Step, PlanState, Option<String>, u64) + Sync + 'a;

/// What a plan is carried out with.
pub struct Run<'a> {
    /// Engines.
    pub world: &'a World,
    /// Target of the plan.
    pub target: &'a Target,
    /// Version of the document.
    pub version: u64,
    /// Journal.
    pub store: &'a Mutex<Store>,
    /// Returns milliseconds since 1970.
    pub now_ms: &'a (dyn Fn() -> u64 + Sync),
    /// Receives each change of a step's state, with a remark and the duration in milliseconds.
    pub progress: &'a Progress<'a>,
    /// Returns whether the plan is to be given up at the next wave or wait.
    pub is_cancelled: &'a (dyn Fn() -> bool + Sync),
}

/// How a step ended.
enum StepEnd {
    Done(Option<String>),
    Failed(String),
    Cancelled,
}

impl Run<'_> {
    /// Carries out a plan and returns how it ended.
    pub fn carry_out(&self, plan: &Plan) -> PlanEnd {
        for wave in &plan.waves {
            if (self.is_cancelled)() {
                return PlanEnd::Replaced;
            }
            let mut failed = None;
            let mut is_cancelled = false;
            for part in wave.steps.chunks(PARALLEL_MAX) {
                for (step, end) in self.carry_out_part(&plan.id, part) {
                    match end {
                        StepEnd::Failed(reason) if failed.is_none() => {
                            failed = Some((step.id.clone(), reason));
                        }
                        StepEnd::Cancelled => is_cancelled = true,
                        StepEnd::Failed(_) | StepEnd::Done(_) => {}
                    }
                }
                if failed.is_some() || is_cancelled {
                    break;
                }
            }
            if let Some((id, reason)) = failed {
                self.undo(&wave.steps);
                return PlanEnd::Failed(id, reason);
            }
            if is_cancelled {
                return PlanEnd::Replaced;
            }
        }
        PlanEnd::Done
    }

    fn carry_out_part<'s>(&self, plan: &str, steps: &'s [Step]) -> Vec<(&'s Step, StepEnd)> {
        if let [step] = steps {
            return vec![(step, self.carry_out_step(plan, step))];
        }
        std::thread::scope(|scope| {
            let run = |step: &'s Step| scope.spawn(move || self.carry_out_step(plan, step));
            let threads: Vec<_> = steps.iter().map(|step| (step, run(step))).collect();
            let ended = threads.into_iter().map(|(step, thread)| {
                let panicked = |_| StepEnd::Failed("the step panicked: this is a bug".to_owned());
                (step, thread.join().unwrap_or_else(panicked))
            });
            ended.collect()
        })
    }

    fn store(&self) -> std::sync::MutexGuard<'_, Store> {
        self.store.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn carry_out_step(&self, plan: &str, step: &Step) -> StepEnd {
        (self.progress)(step, PlanState::Running, None, 0);
        let begun = Instant::now();
        let row = match self.store().begin_step(plan, step, (self.now_ms)()) {
            Ok(row) => row,
            Err(error) => return self.report(step, StepEnd::Failed(error.to_string()), begun),
        };
        test_boundary();
        let end = self.make_so(step, begun);
        test_boundary();
        let result = match &end {
            StepEnd::Done(_) => "done",
            StepEnd::Failed(reason) => reason,
            StepEnd::Cancelled => "given up: something else is wanted",
        };
        // A missing end note only says "interrupted" after the next start.
        let _ = self.store().end_step(row, (self.now_ms)(), result);
        test_boundary();
        self.report(step, end, begun)
    }

    fn report(&self, step: &Step, end: StepEnd, begun: Instant) -> StepEnd {
        let took_ms = begun.elapsed().as_millis() as u64;
        let (state, remark) = match &end {
            StepEnd::Done(remark) => (PlanState::Done, remark.clone()),
            StepEnd::Failed(reason) => (PlanState::Failed, Some(reason.clone())),
            StepEnd::Cancelled => (PlanState::Replaced, None),
        };
        (self.progress)(step, state, remark, took_ms);
        end
    }

    fn make_so(&self, step: &Step, begun: Instant) -> StepEnd {
        match self.holds(&step.evidence) {
            Ok(true) if matches!(step.action, Action::Await { .. }) => return StepEnd::Done(None),
            Ok(true) => return StepEnd::Done(Some("it is so already".to_owned())),
            Ok(false) => {}
            Err(reason) => return StepEnd::Failed(reason),
        }
        match self.holds(&step.precondition) {
            Ok(true) => {}
            Ok(false) => {
                let reason = "the network has changed since the plan was made";
                return StepEnd::Failed(reason.to_owned());
            }
            Err(reason) => return StepEnd::Failed(reason),
        }
        let remark = match self.act(&step.action) {
            Ok(remark) => remark,
            Err(reason) if step.on_limit == OnLimit::Continue => {
                return StepEnd::Done(Some(format!("goes on without it: {reason}")));
            }
            Err(reason) => return StepEnd::Failed(reason),
        };
        let limit = Duration::from_millis(step.limit_ms);
        let mut interval = POLL_INTERVALS.0;
        loop {
            match self.look(&step.evidence) {
                Ok((true, _)) => return StepEnd::Done(remark),
                Ok((false, true)) if step.on_limit == OnLimit::Fail => {
                    return StepEnd::Failed(self.explain(step, "it has ended".to_owned()));
                }
                Ok(_) => {}
                Err(reason) => return StepEnd::Failed(reason),
            }
            if (self.is_cancelled)() {
                return StepEnd::Cancelled;
            }
            if begun.elapsed() >= limit {
                let text = format!("not so within {:.1} s", limit.as_secs_f64());
                return match step.on_limit {
                    OnLimit::Continue => StepEnd::Done(Some(text)),
                    OnLimit::Fail => StepEnd::Failed(self.explain(step, text)),
                };
            }
            std::thread::sleep(interval);
            interval = (interval * 3 / 2).min(POLL_INTERVALS.1);
        }
    }

    /// Adds to a reason what the instance logged last, if it has ended.
    fn explain(&self, step: &Step, text: String) -> String {
        let Some(id) = condition_instance(&step.evidence) else { return text };
        let logs = self.world.logs(id, 1).unwrap_or_default();
        match logs.trim() {
            "" => text,
            line => format!("{text}; the last line of its log: {line}"),
        }
    }

    fn holds(&self, condition: &Condition) -> Result<bool, String> {
        self.look(condition).map(|(holds, _)| holds)
    }

    /// Returns whether a condition holds, and whether it never will, as its instance has ended.
    fn look(&self, condition: &Condition) -> Result<(bool, bool), String> {
        let Some(id) = condition_instance(condition) else {
            return Ok((condition.holds(&Observed::default()), false));
        };
        let observed =
            self.world.observe_one(id, self.target).map_err(|error| error.to_string())?;
        let has_ended =
            observed.instance(id).is_some_and(|seen| seen.state == InstanceState::Ended);
        let needs_running = matches!(
            condition,
            Condition::Running { .. } | Condition::Graph { .. } | Condition::Up { .. }
        );
        Ok((condition.holds(&observed), needs_running && has_ended))
    }

    /// Carries out an action. Returns a remark.
    fn act(&self, action: &Action) -> Result<Option<String>, String> {
        match action {
            Action::Await { .. } => Ok(None),
            Action::Start { instance, graph, quota_cores } => {
                let started =
                    self.world.start(self.target, self.version, instance, graph, *quota_cores);
                let notes = started.map_err(|error| error.to_string())?.notes;
                Ok((!notes.is_empty()).then(|| notes.join("; ")))
            }
            Action::SetGraph { instance, graph, order } => {
                let change = GraphChange { graph: graph.clone(), order: graph_order(*order) };
                let control = self.world.control(instance);
                let changed: Result<GraphText, _> =
                    service_client::send(&control, "PUT", "/v1/graph", &change, GRAPH_TIMEOUT);
                changed.map(|_| None).map_err(|error| error.to_string())
            }
            Action::CopyStore { from, to, element, bytes_max } => {
                let copied = self.copy_store(from, to, element, *bytes_max);
                copied.map(Some).map_err(|error| error.to_string())
            }
            Action::Drain { instance } => {
                // One that does not answer has ended, which is what draining leads to.
                match service_client::post(&self.world.control(instance), "/v1/drain") {
                    Ok(()) | Err(ServiceError::Unreachable(_)) => Ok(None),
                    Err(error) => Err(error.to_string()),
                }
            }
            Action::Stop { instance } => {
                let stopped = self.world.stop(instance, STOP_LIMIT);
                stopped.map(|()| None).map_err(|error| error.to_string())
            }
        }
    }

    /// Copies cached packets in slices, newest first. Returns how many were stored.
    fn copy_store(
        &self,
        from: &InstanceId,
        to: &InstanceId,
        element: &str,
        bytes_max: u64,
    ) -> Result<String, ServiceError> {
        let (source, sink) = (self.world.control(from), self.world.control(to));
        let path = format!("/v1/elements/{element}/packets");
        let (mut after, mut bytes, mut stored) = (None, 0, 0);
        while bytes < bytes_max {
            let after_part = after.map(|after| format!("&after={after}")).unwrap_or_default();
            let query = format!("{path}?bytes={SLICE_BYTES}{after_part}");
            let slice: CachedPackets = service_client::get(&source, &query)?;
            bytes +=
                slice.packets.iter().map(|packet| packet.data.len() as u64 * 3 / 4).sum::<u64>();
            let import = PacketImport { packets: slice.packets };
            let timeout = service_client::TIMEOUT;
            let imported: ImportedPackets =
                service_client::send(&sink, "POST", &path, &import, timeout)?;
            stored += imported.stored;
            after = slice.next;
            if after.is_none() || imported.full > 0 || (self.is_cancelled)() {
                break;
            }
        }
        self.world.note_import(to, stored);
        Ok(format!("{stored} packets handed over"))
    }

    /// Carries out the undo actions of a wave; what fails is found by the next plan.
    fn undo(&self, steps: &[Step]) {
        for step in steps {
            let Some(action) = &step.undo else { continue };
            let result = self.act(action).err();
            (self.progress)(step, PlanState::Undone, result, 0);
        }
    }
}

/// Returns the instance that a condition is about.
fn condition_instance(condition: &Condition) -> Option<&InstanceId> {
    match condition {
        Condition::Always => None,
        Condition::Absent { instance }
        | Condition::Alive { instance }
        | Condition::Running { instance }
        | Condition::Graph { instance, .. }
        | Condition::Up { instance, .. }
        | Condition::Idle { instance, .. }
        | Condition::Leaving { instance }
        | Condition::Finished { instance }
        | Condition::Imported { instance, .. } => Some(instance),
    }
}

/// Returns the instance that an action is about; of a copy, the one that receives.
pub fn action_instance(action: &Action) -> &InstanceId {
    match action {
        Action::Start { instance, .. }
        | Action::Await { instance }
        | Action::SetGraph { instance, .. }
        | Action::CopyStore { to: instance, .. }
        | Action::Drain { instance }
        | Action::Stop { instance } => instance,
    }
}

const fn graph_order(order: InsertionOrder) -> GraphOrder {
    match order {
        InsertionOrder::Drop => GraphOrder::Drop,
        InsertionOrder::Buffer => GraphOrder::Buffer,
        InsertionOrder::MakeBeforeBreak => GraphOrder::MakeBeforeBreak,
    }
}

/// Ends this process as `kill -9` does, if a test asked for it at this boundary.
#[cfg(debug_assertions)]
fn test_boundary() {
    use rustix::process::{Signal, getpid, kill_process};
    use std::sync::atomic::{AtomicU64, Ordering};

    static PASSED: AtomicU64 = AtomicU64::new(0);
    let wanted: Option<u64> =
        std::env::var(KILL_VARIABLE).ok().and_then(|number| number.parse().ok());
    let passed = PASSED.fetch_add(1, Ordering::SeqCst) + 1;
    if wanted == Some(passed) {
        let _ = kill_process(getpid(), Signal::KILL);
    }
}

/// Does nothing in a release.
#[cfg(not(debug_assertions))]
const fn test_boundary() {}
