//! What `nw network up --engine kubernetes` does: applies a resource and follows its conditions, as
//! `kubectl apply` and `kubectl wait` do.

use crate::cluster::{Cluster, ClusterError};
use crate::resource::{Network, NetworkSpec, NetworkStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;
use std::time::Duration;

/// Field manager of what a person applies with `nw`.
const FIELD_MANAGER: &str = "nw";
/// Interval between looks.
const INTERVAL: Duration = Duration::from_millis(250);

/// A resource that was applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Generation of its specification.
    pub generation: i64,
}

/// Applies a resource: makes it, or changes the fields that were applied before.
///
/// # Errors
/// The API server refuses; `kubectl` may own a field that would change.
pub fn apply(
    cluster: &Cluster,
    namespace: &str,
    name: &str,
    spec: &NetworkSpec,
) -> Result<Applied, ClusterError> {
    let api: Api<Network> = Api::namespaced(cluster.client(), namespace);
    let object = json!({
        "apiVersion": "namewire.dev/v1alpha1",
        "kind": "Network",
        "metadata": { "name": name },
        "spec": spec,
    });
    let parameters = PatchParams::apply(FIELD_MANAGER);
    let made = cluster.wait(api.patch(name, &parameters, &Patch::Apply(object)))?;
    let generation = made.metadata.generation.unwrap_or_default();
    Ok(Applied { namespace: namespace.to_owned(), name: name.to_owned(), generation })
}

/// Deletes a resource; its services drain.
///
/// # Errors
/// The API server refuses.
pub fn delete(cluster: &Cluster, applied: &Applied) -> Result<(), ClusterError> {
    let api: Api<Network> = Api::namespaced(cluster.client(), &applied.namespace);
    cluster.wait(api.delete(&applied.name, &DeleteParams::default())).map(drop)
}

/// Passes each new status to `next` until it returns false, or the resource is gone.
///
/// # Errors
/// The API server refuses.
pub fn follow(
    cluster: &Cluster,
    applied: &Applied,
    mut next: impl FnMut(Option<&NetworkStatus>) -> bool,
) -> Result<(), ClusterError> {
    let api: Api<Network> = Api::namespaced(cluster.client(), &applied.namespace);
    loop {
        let found = cluster.wait(api.get_opt(&applied.name))?;
        let Some(found) = found else { return Ok(()) };
        let is_current = |status: &&NetworkStatus| status.observed_generation >= applied.generation;
        if !next(found.status.as_ref().filter(is_current)) {
            return Ok(());
        }
        std::thread::sleep(INTERVAL);
    }
}

impl NetworkStatus {
    /// Returns a condition by its type.
    pub fn condition(&self, kind: &str) -> Option<&Condition> {
        self.conditions.iter().find(|condition| condition.type_ == kind)
    }

    /// Returns whether a condition is `True`.
    pub fn is(&self, kind: &str) -> bool {
        self.condition(kind).is_some_and(|condition| condition.status == "True")
    }
}
