//! The pod of an instance, and what a pod says about its instance. Pure.
//!
//! Invariant: everything that identifies an instance is in the labels and annotations of its pod. A
//! pod is never restarted in place: an ended one is replaced, as the plan says.
//!
//! ```text
//!  pod NETWORK-INSTANCE-DIGEST                        user 65532, restricted
//!    agent    (sidecar) ── mutual TLS ──▶ operator    outlives the service, so it drains in sight
//!      │ /run/nw/i/INSTANCE/control.sock  (emptyDir)
//!    service  nw service run ── DIR/l/LINK.sock       (volume of links)
//!      /etc/nw/service.graph ◀── annotation           (downward API)
//! ```

use crate::node;
use crate::resource::{LinkVolume, NetworkSpec};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use nw_manager::engine::{InstanceSpec, InstanceState, LINKS, Labels, TERM_DRAIN_S};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::path::Path;

/// Network's directory in pods. Only the directory of the own instance is there.
pub const POD_DIRECTORY: &str = "/run/nw";
/// Name of the container that runs the service.
pub const SERVICE: &str = "service";
/// Name of the sidecar.
const AGENT: &str = "agent";
/// User and group of all containers; `nw image build` has the same.
const USER: u32 = 65_532;
/// Seconds beyond draining until a pod is killed.
const GRACE_S: u64 = TERM_DRAIN_S + 4;
/// Longest graph that an annotation takes: all annotations have 256 KiB.
pub const GRAPH_BYTES_MAX: usize = 240 << 10;

pub const LABEL_MANAGED: &str = "app.kubernetes.io/managed-by";
pub const MANAGED: &str = "namewire-operator";
pub const LABEL_NETWORK: &str = "namewire.dev/network";
pub const LABEL_SERVICE: &str = "namewire.dev/service";
const LABEL_HOST: &str = "namewire.dev/host";
const LABEL_GRAPH_HASH: &str = "namewire.dev/graph-hash";
const NOTE_INSTANCE: &str = "namewire.dev/instance";
const NOTE_GENERATION: &str = "namewire.dev/generation";
const NOTE_GRAPH: &str = "namewire.dev/graph";

/// What a pod needs beyond its instance.
#[derive(Clone, Debug)]
pub struct Place {
    /// Namespace of the resource and its pods.
    pub namespace: String,
    /// Name of the resource.
    pub name: String,
    /// Unique id of the resource, for owner references.
    pub uid: String,
    /// Where agents of pods reach the operator, as HOST:PORT.
    pub agents: String,
    /// Image, unless the resource names one.
    pub image: String,
    /// The resource's specification.
    pub spec: NetworkSpec,
}

impl Place {
    /// Returns a digest of what pods are made of beside their instances, 6 hexadecimal digits. With
    /// another one they are replaced.
    pub fn revision(&self) -> String {
        let spec = &self.spec;
        let parts = json!([
            image(self),
            pull_policy(self),
            spec.image_pull_secrets,
            spec.links,
            spec.resources,
            spec.node_selector,
        ]);
        let digest = Sha256::digest(parts.to_string().as_bytes());
        digest[..3].iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Returns the name of an instance's pod: it follows from network and instance, so that a second
/// start finds the first, and is a plain word of at most 63 characters.
pub fn pod_name(network: &str, instance: &str) -> String {
    let digest = Sha256::digest(format!("{network}\n{instance}").as_bytes());
    let digest: String = digest[..4].iter().map(|byte| format!("{byte:02x}")).collect();
    let name = plain(&format!("{network}-{instance}"), 54);
    format!("{name}-{digest}")
}

/// Returns the first characters of a text as a word of lower-case letters, digits and `-`.
fn plain(text: &str, len_max: usize) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let word: String = text.chars().take(len_max).map(plain).collect();
    word.trim_matches('-').to_owned()
}

/// Returns the name and the host of an instance's key: `cs~1@here`.
fn split_key(instance: &str) -> (&str, &str) {
    instance.rsplit_once('@').unwrap_or((instance, "here"))
}

/// Returns the labels that select a service's pods.
pub fn service_labels(network: &str, service: &str) -> String {
    format!(
        "{LABEL_MANAGED}={MANAGED},{LABEL_NETWORK}={network},{LABEL_SERVICE}={}",
        plain(service, 63)
    )
}

fn owner(place: &Place) -> Value {
    json!([{
        "apiVersion": "namewire.dev/v1alpha1",
        "kind": "Network",
        "name": place.name,
        "uid": place.uid,
        "controller": true,
        "blockOwnerDeletion": false,
    }])
}

/// Returns the secret with the token by which a pod's agent enrols.
pub fn secret(place: &Place, name: &str, token: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": name,
            "namespace": place.namespace,
            "labels": { LABEL_MANAGED: MANAGED, LABEL_NETWORK: place.name },
            "ownerReferences": owner(place),
        },
        "type": "Opaque",
        "stringData": { "token": token },
    })
}

/// Returns the pod that runs an instance.
pub fn pod(place: &Place, spec: &InstanceSpec) -> Value {
    let labels = &spec.labels;
    let name = pod_name(&place.name, &labels.instance);
    let (instance, host) = split_key(&labels.instance);
    let service = instance.rsplit_once('~').map_or(instance, |(service, _)| service);
    let volumes = volumes(place, host);
    let host = plain(host, 63);
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": place.namespace,
            "labels": {
                "app.kubernetes.io/name": "namewire",
                "app.kubernetes.io/component": "service",
                LABEL_MANAGED: MANAGED,
                LABEL_NETWORK: place.name,
                LABEL_SERVICE: plain(service, 63),
                LABEL_HOST: host,
                LABEL_GRAPH_HASH: labels.graph_hash,
            },
            "annotations": {
                NOTE_INSTANCE: labels.instance,
                NOTE_GENERATION: labels.generation.to_string(),
                NOTE_GRAPH: spec.graph,
            },
            "ownerReferences": owner(place),
        },
        "spec": {
            "restartPolicy": "Never",
            "automountServiceAccountToken": false,
            "enableServiceLinks": false,
            "terminationGracePeriodSeconds": GRACE_S,
            "nodeSelector": place.spec.node_selector,
            "imagePullSecrets":
                place.spec.image_pull_secrets.iter().map(|name| json!({ "name": name }))
                    .collect::<Vec<_>>(),
            "securityContext": {
                "runAsNonRoot": true,
                "runAsUser": USER,
                "runAsGroup": USER,
                "fsGroup": USER,
                "fsGroupChangePolicy": "OnRootMismatch",
                "seccompProfile": { "type": "RuntimeDefault" },
            },
            "affinity": affinity(place, &host),
            "tolerations": node::tolerations(place.spec.node_loss_seconds),
            "initContainers": [agent(place, &name, &labels.instance)],
            "containers": [container(place, spec)],
            "volumes": volumes,
        },
    })
}

/// Links of one host of the document are sockets: its pods share a node. Several hosts are several
/// nodes, if there are as many.
fn affinity(place: &Place, host: &str) -> Value {
    let topology = "kubernetes.io/hostname";
    json!({
        "podAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [{
            "topologyKey": topology,
            "labelSelector": { "matchLabels": { LABEL_NETWORK: place.name, LABEL_HOST: host } },
        }] },
        "podAntiAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": [{
            "weight": 100,
            "podAffinityTerm": {
                "topologyKey": topology,
                "labelSelector": {
                    "matchLabels": { LABEL_NETWORK: place.name },
                    "matchExpressions": [
                        { "key": LABEL_HOST, "operator": "NotIn", "values": [host] },
                    ],
                },
            },
        }] },
    })
}

fn container(place: &Place, spec: &InstanceSpec) -> Value {
    let key = &spec.labels.instance;
    let control = format!("{POD_DIRECTORY}/i/{key}/control.sock");
    let asked = place.spec.resources.clone().unwrap_or_default();
    let mut resources = json!({ "requests": {
        "cpu": asked.cpu.as_deref().unwrap_or("10m"),
        "memory": asked.memory.as_deref().unwrap_or("32Mi"),
    } });
    if let Some(quota) = spec.quota {
        resources["limits"] = json!({ "cpu": millicores(quota) });
        resources["requests"]["cpu"] =
            json!(asked.cpu.unwrap_or_else(|| millicores(quota.min(0.01))));
    }
    let probe = |period_s: u32, failures: u32| {
        json!({
            "exec": { "command": ["/usr/bin/nw", "service", "status", control] },
            "periodSeconds": period_s,
            "timeoutSeconds": 5,
            "failureThreshold": failures,
        })
    };
    json!({
        "name": SERVICE,
        "image": image(place),
        "imagePullPolicy": pull_policy(place),
        "command": ["/usr/bin/nw"],
        "args": [
            "service", "run", "--graph", "/etc/nw/service.graph", "--name", key,
            "--control", control, "--drain-on-term", TERM_DRAIN_S.to_string(),
        ],
        // The container gets SIGTERM only when no Interest is pending any more.
        "lifecycle": { "preStop": { "exec": {
            "command": ["/usr/bin/nw", "service", "drain", "--wait", control],
        } } },
        "startupProbe": probe(1, 30),
        "livenessProbe": probe(10, 3),
        "securityContext": container_security(),
        "resources": resources,
        "volumeMounts": [
            { "name": "control", "mountPath": format!("{POD_DIRECTORY}/i/{key}") },
            { "name": "graph", "mountPath": "/etc/nw", "readOnly": true },
            { "name": "links", "mountPath": spec.directory.join(LINKS) },
            { "name": "temporary", "mountPath": "/tmp" },
        ],
    })
}

fn agent(place: &Place, name: &str, key: &str) -> Value {
    json!({
        "name": AGENT,
        "image": image(place),
        "imagePullPolicy": pull_policy(place),
        "restartPolicy": "Always",
        "command": ["/usr/bin/nw"],
        "args": [
            "network", "agent", "--manager", place.agents, "--enrol", "$(NW_AGENT_TOKEN)",
            "--enrol-once", "--state", "/var/lib/nw",
        ],
        "env": [{ "name": "NW_AGENT_TOKEN", "valueFrom": { "secretKeyRef": {
            "name": name, "key": "token",
        } } }],
        "securityContext": container_security(),
        "resources": { "requests": { "cpu": "5m", "memory": "16Mi" } },
        "volumeMounts": [
            { "name": "control", "mountPath": format!("{POD_DIRECTORY}/i/{key}") },
            { "name": "agent", "mountPath": "/var/lib/nw" },
        ],
    })
}

fn image(place: &Place) -> &str {
    place.spec.image.as_deref().unwrap_or(&place.image)
}

fn pull_policy(place: &Place) -> &str {
    place.spec.image_pull_policy.as_deref().unwrap_or("IfNotPresent")
}

fn container_security() -> Value {
    json!({
        "allowPrivilegeEscalation": false,
        "readOnlyRootFilesystem": true,
        "capabilities": { "drop": ["ALL"] },
    })
}

/// Returns a small volume in memory, which goes with its pod.
fn memory(name: &str) -> Value {
    json!({ "name": name, "emptyDir": { "medium": "Memory", "sizeLimit": "16Mi" } })
}

fn volumes(place: &Place, host: &str) -> Value {
    let links = place.spec.links.as_ref();
    let claim = links.and_then(|links| links.claim_of(host));
    let path = links.and_then(|links| links.host_path.as_deref());
    let links = match (claim, path) {
        (Some(claim), _) => {
            json!({ "name": "links", "persistentVolumeClaim": { "claimName": claim } })
        }
        (None, Some(path)) => {
            json!({ "name": "links", "hostPath": { "path": path, "type": "Directory" } })
        }
        (None, None) => memory("links"),
    };
    json!([
        memory("control"),
        memory("agent"),
        links,
        { "name": "temporary", "emptyDir": { "sizeLimit": "64Mi" } },
        { "name": "graph", "downwardAPI": { "items": [{
            "path": "service.graph",
            "fieldRef": { "fieldPath": format!("metadata.annotations['{NOTE_GRAPH}']") },
        }] } },
    ])
}

/// Returns a share of a core as Kubernetes writes it.
pub fn millicores(cores: f64) -> String {
    format!("{}m", (cores * 1000.0).round().max(1.0) as u64)
}

/// Returns the labels of the instance that a pod runs; `None` if it is not one of ours.
pub fn labels(pod: &Pod) -> Option<Labels> {
    let (labels, notes) = (pod.metadata.labels.as_ref()?, pod.metadata.annotations.as_ref()?);
    (labels.get(LABEL_MANAGED)? == MANAGED).then_some(())?;
    Some(Labels {
        network: labels.get(LABEL_NETWORK)?.clone(),
        instance: notes.get(NOTE_INSTANCE)?.clone(),
        generation: notes.get(NOTE_GENERATION)?.parse().ok()?,
        graph_hash: labels.get(LABEL_GRAPH_HASH)?.clone(),
    })
}

fn container_status<'p>(pod: &'p Pod, name: &str) -> Option<&'p ContainerStatus> {
    let status = pod.status.as_ref()?;
    let all = status.container_statuses.iter().chain(&status.init_container_statuses);
    all.flatten().find(|status| status.name == name)
}

/// Returns whether a pod's service runs, or how it ended, as its node has reported it.
pub fn state(pod: &Pod) -> InstanceState {
    let status = pod.status.as_ref();
    let phase = status.and_then(|status| status.phase.as_deref()).unwrap_or("Pending");
    let ended = container_status(pod, SERVICE)
        .and_then(|status| status.state.as_ref()?.terminated.as_ref());
    if let Some(ended) = ended {
        let reason = ended.reason.as_deref().unwrap_or("it ended");
        let message = ended.message.as_deref().map(|text| format!(": {}", text.trim()));
        let message = message.unwrap_or_default();
        return InstanceState::Ended(format!("{reason}, exit code {}{message}", ended.exit_code));
    }
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    match (phase, status) {
        ("Failed" | "Succeeded", Some(status)) => {
            let words = [text(&status.reason), text(&status.message)].join(" ");
            InstanceState::Ended(format!("the pod has ended: {}", words.trim()))
        }
        _ => InstanceState::Running,
    }
}

/// Returns what keeps a pod from running, as a sentence; `None` if nothing does.
pub fn trouble(pod: &Pod) -> Option<String> {
    if let Some(trouble) = node::trouble(pod) {
        return Some(trouble);
    }
    for name in [SERVICE, AGENT] {
        let waiting = container_status(pod, name).and_then(|c| c.state.as_ref()?.waiting.as_ref());
        let Some(waiting) = waiting else { continue };
        let reason = waiting.reason.as_deref().unwrap_or_default();
        let advice = match reason {
            "ErrImagePull" | "ImagePullBackOff" | "InvalidImageName" => {
                "; set spec.image to an image that the node can pull, or load it there"
            }
            "ErrImageNeverPull" => "; load the image on the node, or set spec.imagePullPolicy",
            "CreateContainerConfigError" | "CreateContainerError" | "CrashLoopBackOff" => "",
            // It starts.
            _ => continue,
        };
        let message = waiting.message.as_deref().unwrap_or("no message");
        return Some(format!("{reason}: {message}{advice}"));
    }
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let unscheduled = conditions.iter().find(|c| c.type_ == "PodScheduled" && c.status == "False");
    let message = unscheduled?.message.as_deref().unwrap_or("no message");
    let advice = if message.contains("volume node affinity") {
        "; a claim keeps its pods on its node: spec.links.claims gives each host one of its own"
    } else {
        ""
    };
    Some(format!("no node takes the pod: {message}{advice}"))
}

/// Returns the limit of processor time of a pod's service, as a share of one core.
pub fn quota(pod: &Pod) -> Option<f64> {
    let containers = &pod.spec.as_ref()?.containers;
    let service = containers.iter().find(|container| container.name == SERVICE)?;
    let text = &service.resources.as_ref()?.limits.as_ref()?.get("cpu")?.0;
    match text.strip_suffix('m') {
        Some(milli) => milli.parse::<f64>().ok().map(|milli| milli / 1000.0),
        None => text.parse().ok(),
    }
}

/// Returns why a graph can't run: it has links that only a shared volume carries, and pods of the
/// instance's host have none. `directory` is the network's.
pub fn volume_fault(
    place: &Place,
    directory: &Path,
    instance: &str,
    graph: &str,
) -> Option<String> {
    let folder = format!("://{}/", directory.join(LINKS).display());
    let host = split_key(instance).1;
    let links = place.spec.links.as_ref();
    let has_volume =
        |links: &LinkVolume| links.host_path.is_some() || links.claim_of(host).is_some();
    if links.is_some_and(has_volume) || !graph.contains(&folder) {
        return None;
    }
    let what = match links {
        None => "spec.links names no volume for them".to_owned(),
        Some(_) => format!("spec.links.claims names no claim for the host {host}"),
    };
    Some(format!("it has links to other pods of its host, and {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::Resources;

    pub fn place() -> Place {
        let text = r#"{"document":"x","links":{"claim":"links"},"nodeSelector":{"disk":"fast"}}"#;
        Place {
            namespace: "site".into(),
            name: "net".into(),
            uid: "9a7e0f6c-0000-4000-8000-000000000001".into(),
            agents: "namewire-operator.site.svc:6366".into(),
            image: "namewire:0.1.0".into(),
            spec: serde_json::from_str(text).unwrap(),
        }
    }

    fn spec(quota: Option<f64>) -> InstanceSpec {
        let labels = Labels {
            network: "net".into(),
            instance: "cs~1@here".into(),
            generation: 3,
            graph_hash: "0123456789abcdef".into(),
        };
        let directory = "/var/lib/nw/networks/site.net".into();
        InstanceSpec { labels, directory, graph: "face near\n".into(), quota, image: None }
    }

    fn parsed(value: Value) -> Pod {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn pod_of_an_instance_is_as_the_file_says() {
        let text = serde_json::to_string_pretty(&pod(&place(), &spec(Some(0.67)))).unwrap();
        crate::manifests::tests::compare("pod.json", &format!("{text}\n"));
    }

    #[test]
    fn revision_changes_with_what_pods_are_made_of_and_nothing_else() {
        let mut other = place();
        let first = other.revision();
        assert!(first.len() == 6 && first.bytes().all(|b| b.is_ascii_hexdigit()), "{first}");
        other.spec.document = "y".into();
        other.spec.replicas = Some(2);
        other.spec.hold = Some(true);
        assert_eq!(other.revision(), first);
        other.image = "namewire:0.2.0".into();
        let second = other.revision();
        assert_ne!(second, first);
        // The image that was the default, by its name.
        other.spec.image = Some("namewire:0.1.0".into());
        assert_eq!(other.revision(), first);
        other.spec.resources = Some(Resources { cpu: Some("1".into()), memory: None });
        assert_ne!(other.revision(), first);
    }

    #[test]
    fn instance_is_found_again_from_its_pod() {
        let spec = spec(Some(0.67));
        let pod = parsed(pod(&place(), &spec));
        assert_eq!(labels(&pod), Some(spec.labels));
        assert_eq!(quota(&pod), Some(0.67));
        assert_eq!(labels(&Pod::default()), None);
    }

    #[test]
    fn names_of_pods_are_plain_short_and_different() {
        let long = "x".repeat(80);
        let names = [
            pod_name("net", "cs~1@here"),
            pod_name("net", "cs-1@here"),
            pod_name("Net", "cs~1@here"),
            pod_name(&long, "cs~1@here"),
            pod_name(&long, "cs~2@here"),
        ];
        let mut sorted = names.to_vec();
        sorted.sort();
        sorted.dedup();
        assert_eq!(sorted.len(), names.len(), "{names:?}");
        for name in names {
            assert!(
                name.len() <= 63 && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
            );
        }
    }

    #[test]
    fn state_and_trouble_follow_from_the_status() {
        let with = |status: Value| parsed(json!({ "metadata": {}, "status": status }));
        let ended = with(json!({ "phase": "Failed", "containerStatuses": [{
            "name": "service", "image": "", "imageID": "", "ready": false, "restartCount": 0,
            "state": { "terminated": { "exitCode": 137, "reason": "OOMKilled" } },
        }] }));
        assert_eq!(state(&ended), InstanceState::Ended("OOMKilled, exit code 137".into()));
        let evicted = with(json!({ "phase": "Failed", "reason": "Evicted", "message": "disk" }));
        assert_eq!(state(&evicted), InstanceState::Ended("the pod has ended: Evicted disk".into()));
        let pulling = with(json!({ "phase": "Pending", "containerStatuses": [{
            "name": "service", "image": "", "imageID": "", "ready": false, "restartCount": 0,
            "state": { "waiting": { "reason": "ImagePullBackOff", "message": "no such image" } },
        }] }));
        assert_eq!(state(&pulling), InstanceState::Running);
        assert!(trouble(&pulling).unwrap().starts_with("ImagePullBackOff: no such image; set"));
        let unscheduled = with(json!({ "phase": "Pending", "conditions": [{
            "type": "PodScheduled", "status": "False", "message": "0/1 nodes are available",
        }] }));
        assert_eq!(
            trouble(&unscheduled).as_deref(),
            Some("no node takes the pod: 0/1 nodes are available")
        );
        let apart = with(json!({ "phase": "Pending", "conditions": [{
            "type": "PodScheduled", "status": "False",
            "message": "0/2 nodes are available: 1 node(s) had volume node affinity conflict",
        }] }));
        assert!(trouble(&apart).unwrap().contains("spec.links.claims"));
        assert_eq!(trouble(&with(json!({ "phase": "Running" }))), None);
    }

    #[test]
    fn links_without_a_volume_are_noticed() {
        let (mut place, directory) = (place(), Path::new("/d"));
        let fault = |place: &Place, instance: &str, graph: &str| {
            volume_fault(place, directory, instance, graph).unwrap_or_default()
        };
        let graph = "face near = shm:///d/l/1.sock\n";
        assert_eq!(fault(&place, "cs~1@here", graph), "");
        place.spec.links = None;
        assert!(fault(&place, "cs~1@here", graph).ends_with("spec.links names no volume for them"));
        assert_eq!(fault(&place, "cs~1@here", "face near = unix:///app/1.sock\n"), "");
        let text = r#"{"claims":{"east":"links-east"}}"#;
        place.spec.links = serde_json::from_str(text).unwrap();
        assert_eq!(fault(&place, "cs~1@east", graph), "");
        assert!(fault(&place, "cs~1@west", graph).ends_with("names no claim for the host west"));
        assert_eq!(fault(&place, "cs~1@west", "face near = tcp4://192.0.2.1:6363\n"), "");
    }

    #[test]
    fn pods_mount_the_claim_of_their_host_and_others_have_a_volume_of_their_own() {
        let mut place = place();
        let text = r#"{"claims":{"east":"links-east","west":"links-west"}}"#;
        place.spec.links = serde_json::from_str(text).unwrap();
        let links = |host: &str| volumes(&place, host)[2].clone();
        for (host, claim) in [("east", "links-east"), ("west", "links-west")] {
            assert_eq!(links(host)["persistentVolumeClaim"]["claimName"], claim);
        }
        assert_eq!(links("south")["emptyDir"]["medium"], "Memory");
    }
}
