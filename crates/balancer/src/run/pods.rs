//! Members as pods of a StatefulSet: its number of replicas, read and set in a thread.
//!
//! ```text
//!  event loop: Pods ── Call (one at a time) ─▶ thread: MemberCount ─▶ API server
//!                 ◀── Answer (an event) ─────┘
//! ```
//! Invariant: a number that was changed by another program since the decision is not overwritten.

use crate::member_count::{CountError, MemberCount};
use core::time::Duration;
use nw_element_api::Timestamp;
use std::ops::RangeInclusive;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Time between two reads of the number.
const READ_INTERVAL: Duration = Duration::from_secs(5);
/// Longest time until a failed call is repeated.
const RETRY_MAX: Duration = Duration::from_secs(60);
/// A call that takes longer than this is reported.
const SLOW_CALL: Duration = Duration::from_secs(30);
/// The error of a change is reported for this time, unless a change succeeds before.
const CHANGE_ERROR_TIME: Duration = Duration::from_secs(600);
/// How often a change is tried at once while the StatefulSet changes for another reason, such as
/// its status.
const ATTEMPTS: usize = 3;

/// A call to the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    Read,
    Change { from: u32, to: u32 },
}

/// The answer to a call: the number of replicas from now on.
pub(super) type Answer = Result<u32, CountError>;

/// What the members show.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    /// Members of the StatefulSet that take names, or were drained by a command.
    pub(super) settled: u32,
    /// All members of the StatefulSet.
    pub(super) members: u32,
    /// A member of any kind is joining or draining.
    pub(super) is_moving: bool,
}

/// Errors of one kind of call in a row.
#[derive(Default)]
struct Failures {
    count: u32,
    last: Option<(Timestamp, String)>,
}

impl Failures {
    fn add(&mut self, now: Timestamp, error: String) {
        self.count += 1;
        self.last = Some((now, error));
    }

    /// Returns whether the next call has to wait.
    fn is_waiting(&self, now: Timestamp) -> bool {
        let retry = Duration::from_secs(1 << self.count.saturating_sub(1).min(6)).min(RETRY_MAX);
        self.last.as_ref().is_some_and(|(at, _)| now.since(*at) < retry)
    }

    fn error(&self) -> Option<&str> {
        self.last.as_ref().map(|(_, error)| error.as_str())
    }
}

/// The replicas of a StatefulSet.
pub(super) struct Pods {
    /// `NAMESPACE/NAME` or `NAME`, for sentences.
    shown: String,
    /// The time after which decisions go on although pods do not come or go.
    timeout: Duration,
    calls: SyncSender<Call>,
    in_flight: Option<(Timestamp, Call)>,
    replicas: Option<u32>,
    read_at: Option<Timestamp>,
    reads: Failures,
    changes: Failures,
    moving_since: Option<Timestamp>,
    seen: Seen,
}

impl Pods {
    /// Starts the thread of the calls. It ends with the value, after the call that it is in.
    pub(super) fn start(
        shown: String,
        timeout: Duration,
        count: Box<dyn MemberCount>,
        mut answer: impl FnMut(Answer) + Send + 'static,
    ) -> std::io::Result<Self> {
        let (pods, calls) = Self::new(shown, timeout);
        // Not joined at the end: a call may take as long as its time limit.
        super::spawn("pods", move || serve(count, &calls, &mut answer))?;
        Ok(pods)
    }

    fn new(shown: String, timeout: Duration) -> (Self, Receiver<Call>) {
        let (calls, received) = sync_channel(1);
        let pods = Pods {
            shown,
            timeout,
            calls,
            in_flight: None,
            replicas: None,
            read_at: None,
            reads: Failures::default(),
            changes: Failures::default(),
            moving_since: None,
            seen: Seen::default(),
        };
        (pods, received)
    }

    /// Returns the number of replicas, once it is known.
    pub(super) const fn replicas(&self) -> Option<u32> {
        self.replicas
    }

    /// Reads the number if it is time to.
    pub(super) fn read_if_due(&mut self, now: Timestamp) {
        let is_due = self.read_at.is_none_or(|at| now.since(at) >= READ_INTERVAL);
        if is_due && self.in_flight.is_none() && !self.reads.is_waiting(now) {
            self.send(now, Call::Read);
        }
    }

    /// Starts a change of the known number by one, within bounds, or to the bound that it exceeds.
    /// Returns the sentence for the status.
    pub(super) fn change(
        &mut self,
        now: Timestamp,
        step: i32,
        bounds: &RangeInclusive<u32>,
    ) -> String {
        let Some(from) = self.replicas else { return self.unknown() };
        let to = from.saturating_add_signed(step).clamp(*bounds.start(), *bounds.end());
        if to == from {
            return format!("{} keeps its {from} replicas, the bound", self.shown);
        }
        self.send(now, Call::Change { from, to });
        format!("{} gets {to} replicas, after {from}", self.shown)
    }

    fn send(&mut self, now: Timestamp, call: Call) {
        // Fails only if the thread has panicked: then the call stays without an answer, which the
        // warning says.
        let _ = self.calls.try_send(call);
        self.in_flight = Some((now, call));
    }

    /// Processes an answer. Returns false if a change failed.
    pub(super) fn on_answer(&mut self, now: Timestamp, answer: Answer) -> bool {
        let Some((_, call)) = self.in_flight.take() else { return true };
        let failures = match call {
            Call::Read => &mut self.reads,
            Call::Change { .. } => &mut self.changes,
        };
        let replicas = match answer {
            Ok(replicas) => replicas,
            Err(error) => {
                failures.add(now, error.to_string());
                return call == Call::Read;
            }
        };
        *failures = Failures::default();
        (self.reads, self.read_at) = (Failures::default(), Some(now));
        let before = self.replicas.replace(replicas);
        if before != Some(replicas) {
            // Pods need time again.
            self.moving_since = None;
            let reason = match call {
                Call::Change { to, .. } if to == replicas => "set by this balancer",
                _ if before.is_none() => "read",
                _ => "set by another program",
            };
            tracing::info!(stateful_set = self.shown, replicas, "{reason}");
        }
        match call {
            Call::Read => true,
            Call::Change { to, .. } => to == replicas,
        }
    }

    /// Takes what the members show, each second.
    pub(super) fn observe(&mut self, now: Timestamp, seen: Seen) {
        self.seen = seen;
        let is_moving = self.replicas.is_some_and(|replicas| {
            seen.is_moving || seen.settled != replicas || seen.members != replicas
        });
        self.moving_since = is_moving.then(|| self.moving_since.unwrap_or(now));
    }

    /// Returns why no call is possible now.
    pub(super) fn call_obstacle(&self, now: Timestamp) -> Option<String> {
        if let Some(error) = self.reads.error() {
            return Some(format!("the replicas of {} can't be read: {error}", self.shown));
        }
        if self.replicas.is_none() {
            return Some(self.unknown());
        }
        if self.in_flight.is_some() {
            return Some(format!("waiting for the API server: replicas of {}", self.shown));
        }
        self.change_error().filter(|_| self.changes.is_waiting(now))
    }

    /// Returns why nothing may be decided yet, although a call is possible.
    pub(super) fn pod_obstacle(&self, now: Timestamp) -> Option<String> {
        let is_moving = self.moving_since.is_some_and(|since| now.since(since) < self.timeout);
        is_moving.then(|| format!("pods of {} are joining or leaving", self.shown))
    }

    fn unknown(&self) -> String {
        format!("the replicas of {} are not known yet", self.shown)
    }

    fn change_error(&self) -> Option<String> {
        let error = self.changes.error()?;
        Some(format!("the replicas of {} can't be changed: {error}", self.shown))
    }

    /// Returns what a person should know or do.
    pub(super) fn warning(&self, now: Timestamp) -> Option<String> {
        let mut all = Vec::new();
        match self.in_flight {
            Some((since, _)) if now.since(since) >= SLOW_CALL => all.push(format!(
                "the API server has not answered for {} s: replicas of {}",
                now.since(since).as_secs(),
                self.shown
            )),
            _ => {}
        }
        if let Some(error) = self.reads.error() {
            all.push(format!("the replicas of {} can't be read: {error}", self.shown));
        }
        let is_recent = |(at, _): &(Timestamp, String)| now.since(*at) < CHANGE_ERROR_TIME;
        if self.changes.last.as_ref().is_some_and(is_recent) {
            all.extend(self.change_error());
        }
        if let (Some(since), Some(replicas)) = (self.moving_since, self.replicas)
            && now.since(since) >= self.timeout
        {
            let Seen { settled, members, .. } = self.seen;
            let shown = &self.shown;
            all.push(match settled == replicas && members == replicas {
                true => "a member has been joining or draining for longer than pod_timeout_s: see \
                         `nw balancer status`"
                    .to_owned(),
                false => format!(
                    "{settled} of {replicas} pods of {shown} take names and {members} are members, \
                     for longer than pod_timeout_s: see `kubectl describe pods`"
                ),
            });
        }
        (!all.is_empty()).then(|| all.join("; "))
    }
}

fn serve(mut count: Box<dyn MemberCount>, calls: &Receiver<Call>, answer: &mut impl FnMut(Answer)) {
    while let Ok(call) = calls.recv() {
        answer(match call {
            Call::Read => count.get(),
            Call::Change { from, to } => change(&mut *count, from, to),
        });
    }
}

/// Changes the number unless another program has. Returns the number then.
fn change(count: &mut dyn MemberCount, from: u32, to: u32) -> Answer {
    let mut outcome = Err(CountError::Changed);
    for _ in 0..ATTEMPTS {
        let present = count.get()?;
        if present != from {
            return Ok(present);
        }
        outcome = count.set(to).map(|()| to);
        if outcome != Err(CountError::Changed) {
            break;
        }
    }
    outcome
}

/// Returns the index of a member that is a pod of this StatefulSet: its name is `NAME-INDEX`.
pub(super) fn pod_index(stateful_set: &str, member: &str) -> Option<u32> {
    let digits = member.strip_prefix(stateful_set)?.strip_prefix('-')?;
    let index: u32 = digits.parse().ok()?;
    (index.to_string() == digits).then_some(index)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    const BOUNDS: RangeInclusive<u32> = 1..=3;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::START + Duration::from_secs(seconds)
    }

    fn pods() -> (Pods, Receiver<Call>) {
        Pods::new("site/m".to_owned(), Duration::from_secs(100))
    }

    fn failed(text: &str) -> Answer {
        Err(CountError::Failed(text.to_owned()))
    }

    impl Pods {
        fn obstacle(&self, now: Timestamp) -> Option<String> {
            self.call_obstacle(now).or_else(|| self.pod_obstacle(now))
        }
    }

    fn seen(settled: u32, members: u32) -> Seen {
        Seen { settled, members, is_moving: false }
    }

    #[test]
    fn calls_run_one_at_a_time() {
        let (mut pods, calls) = pods();
        assert!(pods.obstacle(at(0)).unwrap().contains("not known yet"));
        pods.read_if_due(at(0));
        pods.read_if_due(at(9));
        assert_eq!(calls.try_iter().collect::<Vec<_>>(), [Call::Read]);
        assert!(pods.warning(at(29)).is_none());
        assert!(pods.warning(at(30)).unwrap().contains("not answered for 30 s"));
        assert!(pods.on_answer(at(31), Ok(2)));
        pods.observe(at(31), seen(2, 2));
        assert_eq!((pods.obstacle(at(31)), pods.warning(at(31))), (None, None));
        let told = pods.change(at(32), 1, &BOUNDS);
        assert_eq!(told, "site/m gets 3 replicas, after 2");
        pods.read_if_due(at(60));
        assert_eq!(calls.try_iter().collect::<Vec<_>>(), [Call::Change { from: 2, to: 3 }]);
        assert!(pods.obstacle(at(60)).unwrap().contains("waiting for the API server"));
    }

    #[test]
    fn failed_reads_are_repeated_with_growing_pauses() {
        let (mut pods, calls) = pods();
        let mut sent = Vec::new();
        for second in 0..300 {
            pods.read_if_due(at(second));
            if calls.try_recv().is_ok() {
                sent.push(second);
                assert!(pods.on_answer(at(second), failed("no route")));
            }
        }
        assert_eq!(sent, [0, 1, 3, 7, 15, 31, 63, 123, 183, 243]);
        assert!(pods.warning(at(300)).unwrap().contains("can't be read: no route"));
        assert!(pods.obstacle(at(300)).unwrap().contains("can't be read: no route"));
        pods.read_if_due(at(303));
        pods.on_answer(at(303), Ok(1));
        assert_eq!(pods.warning(at(303)), None);
    }

    #[test]
    fn failed_change_is_a_warning_until_one_succeeds() {
        let (mut pods, _calls) = pods();
        pods.read_if_due(at(0));
        pods.on_answer(at(0), Ok(2));
        pods.observe(at(0), seen(2, 2));
        for (second, obstacle_s) in [(10, 1), (20, 2), (30, 4)] {
            pods.change(at(second), -1, &BOUNDS);
            assert!(!pods.on_answer(at(second), failed("cannot patch")));
            assert!(pods.obstacle(at(second + obstacle_s - 1)).unwrap().contains("cannot patch"));
            assert_eq!(pods.obstacle(at(second + obstacle_s)), None);
        }
        // A read shows nothing about the right to change.
        pods.read_if_due(at(40));
        pods.on_answer(at(40), Ok(2));
        assert!(pods.warning(at(629)).unwrap().contains("can't be changed: cannot patch"));
        assert_eq!(pods.warning(at(630)), None, "the need for it may have gone");
        pods.change(at(630), -1, &BOUNDS);
        assert!(pods.on_answer(at(631), Ok(1)));
        assert_eq!((pods.replicas(), pods.warning(at(631))), (Some(1), None));
    }

    #[test]
    fn pod_that_does_not_come_is_reported_and_decisions_go_on() {
        let (mut pods, _calls) = pods();
        pods.read_if_due(at(0));
        pods.on_answer(at(0), Ok(2));
        for (second, seen) in [(0, seen(1, 1)), (50, seen(1, 2)), (99, seen(1, 1))] {
            pods.observe(at(second), seen);
            assert!(pods.obstacle(at(second)).unwrap().contains("joining or leaving"));
            assert_eq!(pods.warning(at(second)), None);
        }
        pods.observe(at(100), seen(1, 1));
        assert_eq!(pods.obstacle(at(100)), None);
        assert!(pods.warning(at(100)).unwrap().contains("1 of 2 pods of site/m take names"));
        // Another number gives pods time again.
        pods.change(at(100), 1, &BOUNDS);
        pods.on_answer(at(101), Ok(3));
        pods.observe(at(101), seen(1, 1));
        assert!(pods.obstacle(at(200)).is_some() && pods.warning(at(200)).is_none());
        pods.observe(at(210), seen(3, 3));
        assert_eq!((pods.obstacle(at(210)), pods.warning(at(210))), (None, None));
        // A member that stays after its pod.
        pods.observe(at(220), seen(3, 4));
        assert!(pods.obstacle(at(221)).is_some());
        assert!(pods.warning(at(320)).unwrap().contains("4 are members"));
    }

    #[test]
    fn number_stays_within_bounds() {
        let (mut pods, calls) = pods();
        pods.read_if_due(at(0));
        pods.on_answer(at(0), Ok(3));
        let _ = calls.recv();
        assert!(pods.change(at(1), 1, &BOUNDS).contains("keeps its 3 replicas"));
        assert!(calls.try_recv().is_err());
        pods.change(at(1), 0, &(1..=2));
        assert_eq!(calls.recv(), Ok(Call::Change { from: 3, to: 2 }));
    }

    /// A number that another program changes before each of the first `conflicts` changes.
    struct Count {
        members: u32,
        conflicts: u32,
        by: u32,
    }

    impl MemberCount for Count {
        fn get(&mut self) -> Result<u32, CountError> {
            Ok(self.members)
        }

        fn set(&mut self, members: u32) -> Result<(), CountError> {
            if self.conflicts > 0 {
                self.conflicts -= 1;
                self.members += self.by;
                return Err(CountError::Changed);
            }
            self.members = members;
            Ok(())
        }
    }

    #[test]
    fn change_never_overwrites_another_one() {
        let count = |conflicts, by| Count { members: 2, conflicts, by };
        let mut changed = count(1, 5);
        assert_eq!((change(&mut changed, 2, 3), changed.members), (Ok(7), 7));
        let mut status_only = count(2, 0);
        assert_eq!((change(&mut status_only, 2, 3), status_only.members), (Ok(3), 3));
        assert_eq!(change(&mut count(9, 0), 2, 3), Err(CountError::Changed));
        // The decision is taken again, as it was for another number.
        let (mut pods, _calls) = pods();
        pods.read_if_due(at(0));
        pods.on_answer(at(0), Ok(2));
        pods.change(at(1), 1, &BOUNDS);
        assert!(!pods.on_answer(at(1), Ok(7)));
        assert_eq!((pods.replicas(), pods.warning(at(1))), (Some(7), None));
    }

    #[test]
    fn thread_answers_and_ends() {
        let (sender, answers) = channel();
        let count = Box::new(Count { members: 2, conflicts: 0, by: 0 });
        let limit = Duration::from_secs(5);
        let answer = move |answer| drop(sender.send(answer));
        let mut pods = Pods::start("m".to_owned(), limit, count, answer).unwrap();
        pods.read_if_due(at(0));
        pods.on_answer(at(0), answers.recv_timeout(limit).unwrap());
        pods.change(at(1), 1, &BOUNDS);
        assert_eq!(answers.recv_timeout(limit), Ok(Ok(3)));
        drop(pods);
        assert!(answers.recv_timeout(limit).is_err(), "the thread has ended");
    }

    #[test]
    fn pods_are_known_by_their_names() {
        assert_eq!(pod_index("nw-member", "nw-member-12"), Some(12));
        for other in
            ["nw-member", "nw-member-", "nw-member-01", "nw-member-+1", "m1", "nw-member-x"]
        {
            assert_eq!(pod_index("nw-member", other), None, "{other}");
        }
    }
}
