//! What pods say about their nodes: whether a node answers, and whether a pod has to leave it.
//!
//! Invariant: nothing here reads a node, to which an operator has no right, and no clock of another
//! machine is compared with this one: a deletion counts from when it was first seen. Pure.
//!
//! ```text
//!  node lost ─▶ pod: Ready=False ─ tolerationSeconds ─▶ deletionTimestamp ─▶ held for ended
//!               (by the node controller; its containers are ready still)      removed by force
//! ```

use k8s_openapi::api::core::v1::{Pod, PodCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// Seconds after which pods of a lost node are replaced, unless the resource says otherwise.
pub const NODE_LOSS_S: u32 = 30;
/// Time beyond the grace of a deleted pod in which its node reports the end.
const END_REPORT_TIMEOUT: Duration = Duration::from_secs(10);
/// Time without an answer of a ready pod that is nothing unusual: agents connect in it.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);
/// Taints of a node that does not report, or reports that it can't run pods.
const TAINTS: [&str; 2] = ["node.kubernetes.io/unreachable", "node.kubernetes.io/not-ready"];

/// Returns the tolerations of a pod: how long it stays on a node that is lost.
pub fn tolerations(loss_s: Option<u32>) -> Value {
    let toleration = |key: &str| {
        json!({
            "key": key,
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": loss_s.unwrap_or(NODE_LOSS_S),
        })
    };
    TAINTS.map(toleration).into()
}

fn condition<'p>(pod: &'p Pod, kind: &str) -> Option<&'p PodCondition> {
    pod.status.as_ref()?.conditions.as_ref()?.iter().find(|condition| condition.type_ == kind)
}

fn node_of(pod: &Pod) -> &str {
    pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or("of the pod")
}

fn is_ready(pod: &Pod) -> bool {
    condition(pod, "Ready").is_some_and(|ready| ready.status == "True")
}

/// Returns whether the cluster holds the pod's node for lost. A kubelet reports a pod with ready
/// containers as ready; only the node controller says otherwise, in the kubelet's place.
pub fn is_silent(pod: &Pod) -> bool {
    let Some(status) = &pod.status else { return false };
    let has = |kind: &str, wanted: &str| condition(pod, kind).is_some_and(|c| c.status == wanted);
    status.reason.as_deref() == Some("NodeLost")
        || status.phase.as_deref() == Some("Unknown")
        || has("Ready", "False") && has("ContainersReady", "True")
}

/// Returns when a pod of a lost node is replaced.
fn replacement(pod: &Pod) -> String {
    let tolerations = pod.spec.as_ref().and_then(|spec| spec.tolerations.as_deref());
    let of_loss = tolerations.unwrap_or_default().iter();
    let of_loss = of_loss.filter(|found| found.key.as_deref() == Some(TAINTS[0]));
    match of_loss.filter_map(|found| found.toleration_seconds).next() {
        Some(seconds) => format!("{seconds} s after its loss"),
        None => "when it is deleted".to_owned(),
    }
}

/// Returns what a pod says about the loss of its node, or why it has to leave it, as a sentence;
/// `None` if it stays.
pub fn trouble(pod: &Pod) -> Option<String> {
    let node = node_of(pod);
    if is_silent(pod) {
        let changed = condition(pod, "Ready").and_then(|ready| ready.last_transition_time.as_ref());
        let since = changed.map(|Time(at)| format!(" since {at:.0}")).unwrap_or_default();
        let what = match pod.metadata.deletion_timestamp {
            Some(_) => "is being replaced".to_owned(),
            None => format!("is replaced {}", replacement(pod)),
        };
        return Some(format!("the node {node} does not answer{since}; the pod {what}"));
    }
    let disruption = condition(pod, "DisruptionTarget").filter(|found| found.status == "True")?;
    let message = disruption.message.as_deref().unwrap_or("no message");
    Some(format!("the pod has to leave the node {node}: {message}"))
}

/// Since when pods that are ready do not answer the operator, by instance. The cluster notices the
/// loss of a node later: after 40 s, unless it is set otherwise.
#[derive(Debug, Default)]
pub struct Unanswered(BTreeMap<String, (Instant, Timestamp)>);

impl Unanswered {
    /// Notes the instances that do not answer though their pods are ready, with these pods.
    /// Returns a sentence for each that has not answered for some time.
    pub fn note(
        &mut self,
        silent: &[(String, &Pod)],
        (now, time): (Instant, Timestamp),
    ) -> BTreeMap<String, String> {
        let mut before = std::mem::take(&mut self.0);
        let mut sentences = BTreeMap::new();
        for (instance, pod) in silent.iter().filter(|(_, pod)| is_ready(pod)) {
            let since = before.remove(instance).unwrap_or((now, time));
            self.0.insert(instance.clone(), since);
            if now.saturating_duration_since(since.0) >= ANSWER_TIMEOUT {
                let (node, when) = (node_of(pod), replacement(pod));
                sentences.insert(
                    instance.clone(),
                    format!(
                        "the pod on the node {node} does not answer since {:.0}; if the cluster \
                     holds the node for lost, the pod is replaced {when}",
                        since.1
                    ),
                );
            }
        }
        sentences
    }
}

/// When the deletion of each pod was first seen, by the pod's unique id.
#[derive(Debug, Default)]
pub struct Deletions(BTreeMap<String, Instant>);

impl Deletions {
    /// Notes the deletions in a complete list of pods, and forgets pods that are not in it.
    pub fn note(&mut self, pods: &[Pod], now: Instant) {
        let is_deleted = |pod: &&Pod| pod.metadata.deletion_timestamp.is_some();
        let before = std::mem::take(&mut self.0);
        for uid in pods.iter().filter(is_deleted).filter_map(|pod| pod.metadata.uid.as_ref()) {
            self.0.insert(uid.clone(), before.get(uid).copied().unwrap_or(now));
        }
    }

    /// Returns why a deleted pod is held for ended though no node has reported its end; `None` if
    /// a node may still end it.
    pub fn loss(&self, pod: &Pod, now: Instant) -> Option<String> {
        pod.metadata.deletion_timestamp.as_ref()?;
        let node = node_of(pod);
        let has_run = pod.status.as_ref().is_some_and(|status| status.container_statuses.is_some());
        if !has_run || is_silent(pod) {
            return Some(format!("the node {node} does not answer"));
        }
        let seen = self.0.get(pod.metadata.uid.as_ref()?)?;
        let grace_s = pod.metadata.deletion_grace_period_seconds.unwrap_or(0);
        let grace = Duration::from_secs(grace_s.try_into().unwrap_or(0));
        let is_overdue = now.saturating_duration_since(*seen) > grace + END_REPORT_TIMEOUT;
        is_overdue.then(|| {
            let limit_s = END_REPORT_TIMEOUT.as_secs();
            format!("the node {node} has not ended the pod {limit_s} s after its grace period")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(uid: &str, is_deleted: bool, ready: &str) -> Pod {
        let mut value = json!({
            "metadata": { "uid": uid },
            "spec": {
                "nodeName": "n2", "containers": [], "tolerations": tolerations(Some(7)),
            },
            "status": {
                "phase": "Running",
                "conditions": [
                    { "type": "Ready", "status": ready },
                    { "type": "ContainersReady", "status": "True" },
                ],
                "containerStatuses": [],
            },
        });
        if is_deleted {
            value["metadata"]["deletionTimestamp"] = json!("2001-01-01T00:00:00Z");
            value["metadata"]["deletionGracePeriodSeconds"] = json!(16);
        }
        serde_json::from_value(value).unwrap()
    }

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    #[test]
    fn deleted_pod_of_a_node_held_for_lost_has_ended_at_once() {
        let (mut deletions, now) = (Deletions::default(), Instant::now());
        let waits = pod("a", false, "False");
        let goes = pod("a", true, "False");
        deletions.note(std::slice::from_ref(&waits), now);
        assert_eq!(deletions.loss(&waits, now + seconds(900)), None, "the node may come back");
        deletions.note(std::slice::from_ref(&goes), now);
        assert_eq!(deletions.loss(&goes, now).as_deref(), Some("the node n2 does not answer"));
        let told = trouble(&waits).unwrap();
        assert_eq!(told, "the node n2 does not answer; the pod is replaced 7 s after its loss");
    }

    #[test]
    fn silent_node_is_told_with_the_time_of_its_loss_until_the_pod_is_gone() {
        let mut lost = pod("a", true, "False");
        let at = Timestamp::from_second(1_800_000_000).unwrap();
        let conditions = lost.status.as_mut().unwrap().conditions.as_mut().unwrap();
        conditions[0].last_transition_time = Some(Time(at));
        let told = trouble(&lost).unwrap();
        let since = "2027-01-15T08:00:00Z";
        assert_eq!(
            told,
            format!("the node n2 does not answer since {since}; the pod is being replaced")
        );
    }

    #[test]
    fn ready_pod_without_an_answer_is_told_after_some_seconds_and_until_it_answers() {
        let (mut unanswered, begun) = (Unanswered::default(), Instant::now());
        let at = |count: u64| {
            let time = Timestamp::from_second(1_800_000_000 + count.cast_signed()).unwrap();
            (begun + seconds(count), time)
        };
        let (ready, lost) = (pod("a", false, "True"), pod("b", false, "False"));
        let silent = [("nr~1@west".to_owned(), &ready), ("br~1@west".to_owned(), &lost)];
        assert!(unanswered.note(&silent, at(0)).is_empty(), "its agent may be connecting");
        let told = unanswered.note(&silent, at(3));
        assert_eq!(told.keys().collect::<Vec<_>>(), ["nr~1@west"], "others tell it by themselves");
        assert_eq!(
            told["nr~1@west"],
            "the pod on the node n2 does not answer since 2027-01-15T08:00:00Z; if the cluster \
             holds the node for lost, the pod is replaced 7 s after its loss"
        );
        assert!(unanswered.note(&[], at(4)).is_empty());
        assert!(unanswered.note(&silent, at(5)).is_empty(), "counted anew");
    }

    #[test]
    fn deleted_pod_that_drains_runs_until_its_grace_and_the_report_are_overdue() {
        let (mut deletions, now) = (Deletions::default(), Instant::now());
        let pods = [pod("a", true, "True"), pod("b", false, "True")];
        // The timestamp of the API server is of another clock, and decades old.
        deletions.note(&pods, now);
        deletions.note(&pods, now + seconds(20));
        assert_eq!(deletions.loss(&pods[0], now + seconds(26)), None);
        let reason = deletions.loss(&pods[0], now + seconds(27)).unwrap();
        assert!(reason.contains("n2 has not ended the pod"), "{reason}");
        assert_eq!(deletions.loss(&pods[1], now + seconds(900)), None);
        // A pod of the same name is another pod.
        deletions.note(&[pod("c", true, "True")], now + seconds(27));
        assert_eq!(deletions.loss(&pod("c", true, "True"), now + seconds(30)), None);
        assert_eq!(deletions.0.len(), 1);
    }

    #[test]
    fn pod_that_must_leave_says_why() {
        let mut pod = pod("a", true, "True");
        assert_eq!(trouble(&pod), None);
        let disruption = PodCondition {
            type_: "DisruptionTarget".to_owned(),
            status: "True".to_owned(),
            message: Some("Eviction API: evicting".to_owned()),
            ..PodCondition::default()
        };
        pod.status.as_mut().unwrap().conditions.as_mut().unwrap().push(disruption);
        let told = trouble(&pod).unwrap();
        assert_eq!(told, "the pod has to leave the node n2: Eviction API: evicting");
    }
}
