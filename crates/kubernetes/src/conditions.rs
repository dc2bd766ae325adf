//! The status of a resource, from what its manager says. Pure: time is passed in.
//!
//! Invariant: the time of a condition changes only when its status does, and the same facts give
//! the same status. So nothing is written when nothing has happened.

use crate::pod::{pod_name, service_labels};
use crate::resource::{InstanceStatus, NetworkSpec, NetworkStatus, ServiceCount};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;
use nw_api::network::{GraphInstance, GraphInstanceState, NetworkCondition, NetworkState};
use std::collections::BTreeMap;

/// Instances in a status, at most.
const INSTANCES_MAX: usize = 256;
/// Longest message of a condition, bytes.
const MESSAGE_BYTES_MAX: usize = 1024;

/// What is known about a network at one time.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Generation of the resource.
    pub generation: i64,
    /// Why its specification is refused; `None` if it is in effect.
    pub refusal: Option<String>,
    /// Whether the resource is being deleted.
    pub is_deleted: bool,
    /// State of the network.
    pub state: NetworkState,
    /// Version of the document.
    pub version: u64,
    /// What a person should know, from the manager.
    pub conditions: Vec<NetworkCondition>,
    /// Instances.
    pub instances: Vec<GraphInstance>,
    /// Wanted number of instances by service.
    pub services: Vec<ServiceCount>,
    /// What keeps pods from running, by instance key.
    pub troubles: BTreeMap<String, String>,
}

/// Returns the status of a resource. `before` is the one that it has.
pub fn status(
    name: &str,
    spec: &NetworkSpec,
    facts: &Facts,
    before: &NetworkStatus,
    now: Timestamp,
) -> NetworkStatus {
    let wanted = facts.instances.iter().filter(|found| found.state != GraphInstanceState::Ended);
    let is_running = |found: &&GraphInstance| found.state == GraphInstanceState::Running;
    let running = facts.instances.iter().filter(is_running).count();
    let counted = spec.replicas_of.as_deref().unwrap_or_default();
    let replicas = facts.instances.iter().filter(is_running);
    let replicas = replicas.filter(|found| found.service == counted).count();
    let condition = |kind: &str, (is_true, reason, message): (bool, &str, String)| {
        let status = if is_true { "True" } else { "False" };
        let known = before.conditions.iter().find(|known| known.type_ == kind);
        let since = known.filter(|known| known.status == status);
        Condition {
            type_: kind.to_owned(),
            status: status.to_owned(),
            reason: reason.to_owned(),
            message: shortened(message),
            observed_generation: Some(facts.generation),
            last_transition_time: since
                .map_or(Time(now), |known| known.last_transition_time.clone()),
        }
    };
    let conditions = vec![
        condition("Accepted", accepted(facts)),
        condition("Ready", ready(facts)),
        condition("Degraded", degraded(facts)),
    ];
    NetworkStatus {
        observed_generation: facts.generation,
        conditions,
        document_version: facts.version,
        replicas: replicas as i32,
        selector: service_labels(name, counted),
        summary: format!("{running}/{}", wanted.count()),
        services: facts.services.clone(),
        instances: facts
            .instances
            .iter()
            .take(INSTANCES_MAX)
            .map(|found| instance(name, facts, found))
            .collect(),
    }
}

fn instance(network: &str, facts: &Facts, found: &GraphInstance) -> InstanceStatus {
    let key = format!("{}@{}", found.name, found.host);
    let state = serde_json::to_value(found.state).unwrap_or_default();
    InstanceStatus {
        name: found.name.clone(),
        host: found.host.clone(),
        pod: pod_name(network, &key),
        state: state.as_str().unwrap_or_default().to_owned(),
        reason: facts.troubles.get(&key).cloned().or_else(|| found.reason.clone()),
    }
}

type Parts = (bool, &'static str, String);

fn accepted(facts: &Facts) -> Parts {
    match &facts.refusal {
        None => (true, "DocumentInEffect", format!("version {} is in effect", facts.version)),
        Some(reason) => (false, "Refused", reason.clone()),
    }
}

fn ready(facts: &Facts) -> Parts {
    let (is_ready, reason, message) = match facts.state {
        _ if facts.is_deleted => (false, "Deleting", "the services drain and stop"),
        _ if facts.version == 0 => (false, "Refused", "no document was in effect yet"),
        NetworkState::Converged => (true, "Converged", "everything is as the document describes"),
        NetworkState::Unknown => (false, "Unknown", "nothing has been observed yet"),
        NetworkState::Changing => (false, "Changing", "steps are carried out"),
        NetworkState::Retrying => (false, "Retrying", "a step failed; it is tried again"),
        NetworkState::Held => (false, "Held", "a person holds the changes"),
        NetworkState::Stopping => (false, "Stopping", "all services are being stopped"),
    };
    (is_ready, reason, message.to_owned())
}

fn degraded(facts: &Facts) -> Parts {
    let troubles = facts.troubles.iter().map(|(key, text)| format!("{key}: {text}"));
    let conditions = facts.conditions.iter().map(|c| format!("{}: {}", c.subject, c.reason));
    let all: Vec<String> = troubles.chain(conditions).collect();
    match all.is_empty() {
        true => (false, "Healthy", "nothing needs a person".to_owned()),
        false => (true, "NeedsPerson", all.join("; ")),
    }
}

fn shortened(mut text: String) -> String {
    if text.len() > MESSAGE_BYTES_MAX {
        let end = (0..=MESSAGE_BYTES_MAX).rev().find(|at| text.is_char_boundary(*at));
        text.truncate(end.unwrap_or_default());
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn instance(name: &str, state: GraphInstanceState) -> GraphInstance {
        let service = name.split('~').next().unwrap().to_owned();
        GraphInstance {
            name: name.to_owned(),
            host: "here".to_owned(),
            service,
            state,
            ..GraphInstance::default()
        }
    }

    fn facts() -> Facts {
        Facts {
            generation: 2,
            state: NetworkState::Converged,
            version: 1,
            instances: vec![
                instance("cs~1", GraphInstanceState::Running),
                instance("cs~2", GraphInstanceState::Starting),
            ],
            ..Facts::default()
        }
    }

    fn named<'s>(status: &'s NetworkStatus, kind: &str) -> &'s Condition {
        status.conditions.iter().find(|condition| condition.type_ == kind).unwrap()
    }

    #[test]
    fn times_change_only_with_the_status() {
        let spec = NetworkSpec { replicas_of: Some("cs".into()), ..NetworkSpec::default() };
        let first = status("net", &spec, &facts(), &NetworkStatus::default(), at(10));
        let second = status("net", &spec, &facts(), &first, at(20));
        assert_eq!(first, second);
        assert_eq!((first.summary.as_str(), first.replicas), ("1/2", 1));
        assert_eq!(first.observed_generation, 2);
        let changing = Facts { state: NetworkState::Changing, ..facts() };
        let third = status("net", &spec, &changing, &second, at(30));
        let ready = named(&third, "Ready");
        assert_eq!((ready.status.as_str(), ready.reason.as_str()), ("False", "Changing"));
        assert_eq!(ready.last_transition_time, Time(at(30)));
        assert_eq!(named(&third, "Accepted").last_transition_time, Time(at(10)));
    }

    #[test]
    fn refusals_and_troubles_are_told() {
        let mut facts = facts();
        facts.refusal = Some("x".repeat(5000));
        facts.troubles.insert("cs~2@here".into(), "ImagePullBackOff: none".into());
        let status =
            status("net", &NetworkSpec::default(), &facts, &NetworkStatus::default(), at(1));
        let accepted = named(&status, "Accepted");
        assert_eq!((accepted.status.as_str(), accepted.message.len()), ("False", 1024 + 3));
        assert_eq!(named(&status, "Degraded").message, "cs~2@here: ImagePullBackOff: none");
        assert_eq!(status.instances[1].reason.as_deref(), Some("ImagePullBackOff: none"));
        assert_eq!(status.instances[0].reason, None);
    }
}
