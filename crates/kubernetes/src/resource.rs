//! The custom resource: what a person writes, and what the operator reports.
//!
//! Invariant: `status` says for which `generation` of `spec` it holds. The operator writes `status`
//! only; persons and autoscalers write `spec` only.

#![expect(
    clippy::duplicated_attributes,
    reason = "each printed column is an attribute of the same name"
)]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Longest document in a resource, bytes.
pub const DOCUMENT_BYTES_MAX: u32 = 1 << 19;

/// A network of services, as a graph file describes it.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "namewire.dev",
    version = "v1alpha1",
    kind = "Network",
    plural = "networks",
    singular = "network",
    shortname = "nwn",
    category = "namewire",
    namespaced,
    status = "NetworkStatus",
    derive = "PartialEq",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    ),
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(
        name = "Reason",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].reason"
    ),
    printcolumn(name = "Instances", type_ = "string", json_path = ".status.summary"),
    printcolumn(name = "Document", type_ = "integer", json_path = ".status.documentVersion"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NetworkSpec {
    /// Graph file that describes the network: services, links, bounds, routes, defences.
    #[schemars(length(min = 1, max = 524_288))]
    pub document: String,
    /// Container image with `nw`. Default: the operator's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// When a node pulls the image: `Always`, `IfNotPresent` or `Never`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_pull_policy: Option<String>,
    /// Names of secrets for pulling the image.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub image_pull_secrets: Vec<String>,
    /// Volume for the sockets of links between pods of one node. Without it each pod has a volume
    /// of its own, which is enough where each host of the document has one instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub links: Option<LinkVolume>,
    /// Service whose number of instances `replicas` sets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replicas_of: Option<String>,
    /// Number of instances of the service `replicasOf`; `kubectl scale` and autoscalers set it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 64))]
    pub replicas: Option<i32>,
    /// Number of instances by service. Services without a number follow their load.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub instances: BTreeMap<String, u32>,
    /// Processor time and memory that each service's container asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    /// Labels that a node must have to run the network.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
    /// Seconds after which pods of a node that does not answer are replaced on another one; holds
    /// for pods that start from now on. Default: 30.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 86_400))]
    pub node_loss_seconds: Option<u32>,
    /// Holds all changes while true; services run on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<bool>,
}

/// Where the sockets of links are: exactly one of the three.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LinkVolume {
    /// Name of a PersistentVolumeClaim on a file system of the node (not NFS). With the access mode
    /// ReadWriteOnce it keeps all pods on one node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<String>,
    /// Such a claim for each host of the document, so that each host is a node. A host with one
    /// instance needs none.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub claims: BTreeMap<String, String>,
    /// Folder of the node. It exists, belongs to user 65532, and is used by no other network. The
    /// namespace permits host paths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_path: Option<String>,
}

/// What a container asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Resources {
    /// Processor time, such as `100m`. Default: 10m.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu: Option<String>,
    /// Memory, such as `64Mi`. Default: 32Mi.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<String>,
}

/// What the operator reports.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkStatus {
    /// Generation of `spec` that this status holds for.
    #[serde(default)]
    pub observed_generation: i64,
    /// `Accepted`: the document is valid and in effect. `Ready`: the network is as it describes.
    /// `Degraded`: something needs a person.
    #[serde(default)]
    pub conditions: Vec<Condition>,
    /// Version of the document, from 1.
    #[serde(default)]
    pub document_version: u64,
    /// Number of instances of the service `replicasOf` that run.
    #[serde(default)]
    pub replicas: i32,
    /// Selector of the pods that `replicas` counts.
    #[serde(default)]
    pub selector: String,
    /// Running and wanted instances, as `3/4`.
    #[serde(default)]
    pub summary: String,
    /// Instances by service.
    #[serde(default)]
    pub services: Vec<ServiceCount>,
    /// Instances, at most 256.
    #[serde(default)]
    pub instances: Vec<InstanceStatus>,
}

/// Number of instances of a service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceCount {
    /// Service.
    pub name: String,
    /// Number that is wanted.
    pub wanted: u32,
    /// Number that runs.
    pub running: u32,
}

/// An instance.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct InstanceStatus {
    /// Name, as SERVICE~N.
    pub name: String,
    /// Host of the document.
    pub host: String,
    /// Pod that runs it.
    pub pod: String,
    /// State: starting, running, draining, ended, missing.
    pub state: String,
    /// Why the state is as it is, if that needs a word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl LinkVolume {
    /// Returns the claim that pods of a host of the document mount.
    pub fn claim_of(&self, host: &str) -> Option<&str> {
        self.claims.get(host).or(self.claim.as_ref()).map(String::as_str)
    }
}

impl NetworkSpec {
    /// Returns the numbers of instances that the resource sets, by service.
    pub fn counts(&self) -> BTreeMap<String, u32> {
        let mut counts = self.instances.clone();
        if let (Some(service), Some(replicas)) = (&self.replicas_of, self.replicas) {
            counts.insert(service.clone(), replicas.max(1) as u32);
        }
        counts
    }

    /// Returns what is wrong with it beyond what the schema says, as a sentence.
    pub fn fault(&self) -> Option<String> {
        if self.replicas.is_some() && self.replicas_of.is_none() {
            return Some("spec.replicas needs spec.replicasOf, the service that it counts".into());
        }
        let links = self.links.as_ref()?;
        let kinds = [links.claim.is_some(), !links.claims.is_empty(), links.host_path.is_some()];
        if kinds.into_iter().filter(|is_given| *is_given).count() != 1 {
            return Some("spec.links has exactly one of claim, claims and hostPath".into());
        }
        let path = links.host_path.as_deref()?;
        let is_wrong = !path.starts_with('/') || path.contains("..");
        is_wrong
            .then(|| format!("spec.links.hostPath is an absolute path without `..`, not {path:?}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(text: &str) -> NetworkSpec {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn replicas_count_for_their_service() {
        let spec =
            spec(r#"{"document":"x","replicas":3,"replicasOf":"cs","instances":{"cs":1,"br":2}}"#);
        let counts: Vec<_> = spec.counts().into_iter().collect();
        assert_eq!(counts, [("br".to_owned(), 2), ("cs".to_owned(), 3)]);
        assert_eq!(spec.fault(), None);
    }

    #[test]
    fn contradictions_have_a_sentence() {
        for (text, word) in [
            (r#"{"document":"x","replicas":3}"#, "replicasOf"),
            (r#"{"document":"x","links":{}}"#, "exactly one"),
            (r#"{"document":"x","links":{"claim":"a","hostPath":"/b"}}"#, "exactly one"),
            (r#"{"document":"x","links":{"claim":"a","claims":{"b":"c"}}}"#, "exactly one"),
            (r#"{"document":"x","links":{"hostPath":"b"}}"#, "absolute"),
            (r#"{"document":"x","links":{"hostPath":"/b/../c"}}"#, "absolute"),
        ] {
            let fault = spec(text).fault().unwrap();
            assert!(fault.contains(word), "{text}: {fault}");
        }
        assert!(serde_json::from_str::<NetworkSpec>(r#"{"document":"x","imag":"y"}"#).is_err());
    }
}
