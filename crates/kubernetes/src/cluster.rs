//! The connection to a cluster: one client behind a fence, and blocking calls for engines.
//!
//! Invariant: each call has a time limit, and its error says what a person can do.

use crate::fence::{Fence, FenceLayer, FencedError};
use kube::client::ClientBuilder;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use std::future::Future;
use std::path::Path;
use std::time::Duration;
use tokio::runtime::{Handle, Runtime};
use tokio::sync::oneshot;
use tower::BoxError;

/// Time limit of one request.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Errors of a cluster.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// No configuration names a cluster.
    #[error(
        "no cluster is configured ({0}): set KUBECONFIG, or run in a pod with a service account"
    )]
    Configuration(String),
    /// The API server does not answer.
    #[error("the API server does not answer: {0}; is its address in KUBECONFIG right?")]
    Unreachable(String),
    /// The API server refused for want of rights.
    #[error(
        "the API server refused: {0}; grant the rights that `nw network kubernetes manifests` lists"
    )]
    Forbidden(String),
    /// The resource type is not there.
    #[error(
        "the cluster does not know the resource Network: apply what `nw network kubernetes \
         crd` prints"
    )]
    NoDefinition,
    /// The API server refused for another reason.
    #[error("the API server refused: {0}")]
    Refused(String),
    /// The lease is lost.
    #[error(transparent)]
    Fenced(#[from] FencedError),
    /// The system refused.
    #[error("{0}")]
    System(String),
}

impl ClusterError {
    /// Returns the error for one of the client, with what helps.
    pub(crate) fn from_kube(error: kube::Error) -> Self {
        match error {
            kube::Error::Api(status) if status.code == 403 => {
                ClusterError::Forbidden(status.message.clone())
            }
            kube::Error::Api(status) => {
                let is_type = status.message.contains("the server could not find the requested");
                match status.code == 404 && is_type || status.message == "404 page not found" {
                    true => ClusterError::NoDefinition,
                    false => ClusterError::Refused(status.message.clone()),
                }
            }
            kube::Error::Service(source) if source.is::<FencedError>() => FencedError.into(),
            other => ClusterError::Unreachable(with_sources(&other)),
        }
    }
}

fn runtime() -> Result<Runtime, ClusterError> {
    let built = tokio::runtime::Builder::new_current_thread().enable_all().build();
    built.map_err(|error| ClusterError::System(error.to_string()))
}

fn misconfigured(error: &dyn std::error::Error) -> ClusterError {
    ClusterError::Configuration(with_sources(error))
}

/// Returns an error with what caused it.
pub(crate) fn with_sources(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

/// A client, and the thread that it runs on.
pub struct Cluster {
    runtime: Handle,
    /// Ends the thread when it is dropped.
    _stop: oneshot::Sender<()>,
    config: Config,
    client: Client,
    fence: Fence,
    namespace: String,
}

impl Cluster {
    /// Connects as KUBECONFIG says, or as a pod does with its service account. Writes pass `fence`.
    ///
    /// # Errors
    /// There is no configuration, or it can't be used.
    pub fn from_environment(fence: Fence) -> Result<Self, ClusterError> {
        let runtime = runtime()?;
        let config = runtime.block_on(Config::infer()).map_err(|error| misconfigured(&error))?;
        Self::new(runtime, config, fence)
    }

    /// Connects as a kubeconfig file says.
    ///
    /// # Errors
    /// The file can't be used.
    pub fn from_file(path: &Path, fence: Fence) -> Result<Self, ClusterError> {
        let runtime = runtime()?;
        let config = async {
            let file = Kubeconfig::read_from(path)?;
            Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await
        };
        let config = runtime.block_on(config).map_err(|error| misconfigured(&error))?;
        Self::new(runtime, config, fence)
    }

    fn new(runtime: Runtime, mut config: Config, fence: Fence) -> Result<Self, ClusterError> {
        config.connect_timeout = Some(REQUEST_TIMEOUT);
        // A watch is quiet for longer than a request may take: requests have their own limit.
        config.read_timeout = Some(Duration::from_secs(300));
        let namespace = config.default_namespace.clone();
        let entered = runtime.enter();
        let client = client(&config, Some(fence.clone()))?;
        drop(entered);
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new().name("kubernetes".to_owned());
        // Ends with the sender: an answer to it is not needed.
        let serve = move || drop(runtime.block_on(stopped));
        thread.spawn(serve).map_err(|error| ClusterError::System(error.to_string()))?;
        Ok(Cluster { runtime: handle, _stop: stop, config, client, fence, namespace })
    }

    /// Returns the client whose writes pass the fence.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Returns a client for the lease, whose writes do not pass the fence.
    pub(crate) fn lease_client(&self) -> Result<Client, ClusterError> {
        let _entered = self.runtime.enter();
        client(&self.config, None)
    }

    /// Returns the fence of the client.
    pub fn fence(&self) -> &Fence {
        &self.fence
    }

    /// Returns the namespace of the configuration, or of the pod.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Returns the runtime, for tasks.
    pub(crate) fn handle(&self) -> &Handle {
        &self.runtime
    }

    /// Waits for a request, from a thread that is not one of the runtime's.
    ///
    /// # Errors
    /// The API server refuses, or does not answer in time.
    pub fn wait<T>(
        &self,
        request: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, ClusterError> {
        self.runtime.block_on(limited(request))
    }

    /// Waits for a request as [`Cluster::wait`] does, and returns the client's own error if there
    /// is one.
    pub(crate) fn wait_kube<T>(
        &self,
        request: impl Future<Output = Result<T, kube::Error>>,
    ) -> Result<T, Result<kube::Error, ClusterError>> {
        let answer = async { Ok(request.await) };
        self.wait(answer).map_err(Err)?.map_err(Ok)
    }
}

/// Gives a request the time limit of all requests.
pub(crate) async fn limited<T>(
    request: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, ClusterError> {
    match tokio::time::timeout(REQUEST_TIMEOUT, request).await {
        Ok(answer) => answer.map_err(ClusterError::from_kube),
        Err(_) => Err(ClusterError::Unreachable(format!(
            "no answer within {} s",
            REQUEST_TIMEOUT.as_secs()
        ))),
    }
}

fn client(config: &Config, fence: Option<Fence>) -> Result<Client, ClusterError> {
    let builder = ClientBuilder::try_from(config.clone()).map_err(|error| misconfigured(&error))?;
    let fence = fence.unwrap_or_else(Fence::open);
    let layer = tower::util::MapErrLayer::new(|error: BoxError| error);
    Ok(builder.with_layer(&layer).with_layer(&FenceLayer(fence)).build())
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::core::Status;

    fn refusal(code: u16, message: &str) -> String {
        let status = Status::failure(message, "").with_code(code);
        ClusterError::from_kube(kube::Error::Api(Box::new(status))).to_string()
    }

    #[test]
    fn refusals_say_what_helps() {
        let text = refusal(403, "pods is forbidden: User \"x\" cannot list resource \"pods\"");
        assert!(text.contains("cannot list") && text.contains("kubernetes manifests"), "{text}");
        let text = refusal(404, "the server could not find the requested resource");
        assert!(text.contains("kubernetes crd"), "{text}");
        let text = refusal(507, "etcdserver: mvcc: database space exceeded");
        assert_eq!(text, "the API server refused: etcdserver: mvcc: database space exceeded");
        let fenced = kube::Error::Service(Box::new(FencedError));
        assert!(matches!(ClusterError::from_kube(fenced), ClusterError::Fenced(_)));
    }
}
