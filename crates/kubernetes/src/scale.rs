//! The number of pods of a StatefulSet, through its `scale` subresource.

use crate::cluster::{Cluster, ClusterError, with_sources};
use crate::fence::Fence;
use k8s_openapi::api::apps::v1::StatefulSet;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

/// The number of pods could not be read or set.
#[derive(Debug, thiserror::Error)]
pub enum ScaleError {
    /// The StatefulSet has changed since its number was read.
    #[error("the StatefulSet {0} was changed at the same time: read its number again")]
    Changed(String),
    /// The account lacks rights.
    #[error(
        "the API server refused: {0}; the account of this pod needs the rights to `get` and \
         `patch` statefulsets/scale of that name, which the chart grants with \
         cluster.elastic.enabled"
    )]
    Forbidden(String),
    /// There is no such StatefulSet.
    #[error("there is no StatefulSet {0}: correct elastic.stateful_set, or create it")]
    NotFound(String),
    /// Another error.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
}

/// The number of pods of a StatefulSet. The API server needs rights for `get` and `patch` of
/// `statefulsets/scale` only.
pub struct StatefulSetScale {
    cluster: Cluster,
    api: Api<StatefulSet>,
    name: String,
    shown: String,
    /// The version of the last read: a later change by others makes it invalid.
    version: Option<String>,
}

impl StatefulSetScale {
    /// Connects as KUBECONFIG says, or as a pod does with its service account. Sends nothing yet.
    /// Without `namespace`, that of the configuration or of the pod.
    ///
    /// # Errors
    /// There is no configuration, or it can't be used.
    pub fn from_environment(namespace: Option<&str>, name: &str) -> Result<Self, ClusterError> {
        Ok(Self::new(Cluster::from_environment(Fence::open())?, namespace, name))
    }

    /// Uses a connection.
    pub fn new(cluster: Cluster, namespace: Option<&str>, name: &str) -> Self {
        let namespace = namespace.unwrap_or(cluster.namespace());
        let api = Api::namespaced(cluster.client(), namespace);
        let shown = format!("{namespace}/{name}");
        StatefulSetScale { cluster, api, name: name.to_owned(), shown, version: None }
    }

    /// Returns the number of pods that there should be.
    ///
    /// # Errors
    /// The API server refuses, or does not answer in time.
    pub fn replicas(&mut self) -> Result<u32, ScaleError> {
        let read = self.cluster.wait_kube(self.api.get_scale(&self.name));
        let scale = read.map_err(|error| self.failed(error))?;
        self.version = scale.metadata.resource_version;
        let replicas = scale.spec.and_then(|spec| spec.replicas).unwrap_or(0);
        Ok(u32::try_from(replicas).unwrap_or(0))
    }

    /// Sets the number of pods, unless the StatefulSet has changed since [`Self::replicas`].
    ///
    /// # Errors
    /// The StatefulSet has changed, or the API server refuses or does not answer in time.
    pub fn set_replicas(&mut self, replicas: u32) -> Result<(), ScaleError> {
        let Some(version) = self.version.take() else {
            return Err(ScaleError::Changed(self.shown.clone()));
        };
        let body = json!({
            "metadata": { "resourceVersion": version },
            "spec": { "replicas": replicas },
        });
        let params = PatchParams::default();
        let patch = Patch::Merge(body);
        let changed = self.api.patch_scale(&self.name, &params, &patch);
        self.cluster.wait_kube(changed).map(drop).map_err(|error| self.failed(error))
    }

    fn failed(&self, error: Result<kube::Error, ClusterError>) -> ScaleError {
        match error {
            Ok(kube::Error::Api(status)) if status.code == 409 => {
                ScaleError::Changed(self.shown.clone())
            }
            Ok(kube::Error::Api(status)) if status.code == 403 => {
                ScaleError::Forbidden(status.message.clone())
            }
            Ok(kube::Error::Api(status)) if status.code == 404 => {
                ScaleError::NotFound(self.shown.clone())
            }
            // Also a token that can't be read.
            Ok(kube::Error::Auth(error)) => {
                ClusterError::Configuration(with_sources(&error)).into()
            }
            Ok(error) => ClusterError::from_kube(error).into(),
            Err(error) => error.into(),
        }
    }
}
