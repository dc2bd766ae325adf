//! Resolves the host names of configured faces in a thread of its own, as a resolver may take
//! seconds.

use crossbeam_channel::{Sender, TrySendError, bounded};
use nw_control::OperationId;
use nw_faces::FaceUri;

/// Names that may be queued. If a name is refused, its face is retried later.
const QUEUED_MAX: usize = 1024;

/// An operation and the face URIs with the addresses of its name, or the error.
pub type Resolved = (OperationId, Result<Vec<String>, String>);

/// One thread that calls the system's resolver, started with the first name.
pub struct Resolver {
    names: Option<Sender<(OperationId, String)>>,
    report: Option<Box<dyn Fn(Resolved) + Send>>,
}

impl core::fmt::Debug for Resolver {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Resolver")
    }
}

impl Resolver {
    /// Creates a resolver. `report` is called in the resolver's thread, once per name.
    pub fn new(report: impl Fn(Resolved) + Send + 'static) -> Self {
        Resolver { names: None, report: Some(Box::new(report)) }
    }

    /// Queues a URI. Returns `false` if the queue is full or there is no thread.
    pub fn resolve(&mut self, operation: OperationId, uri: &str) -> bool {
        if let Some(report) = self.report.take() {
            let (sender, names) = bounded::<(OperationId, String)>(QUEUED_MAX);
            let resolve_all = move || {
                for (operation, uri) in names {
                    report((operation, addresses(&uri)));
                }
            };
            match std::thread::Builder::new().name("resolver".into()).spawn(resolve_all) {
                Ok(_) => self.names = Some(sender),
                Err(error) => {
                    tracing::error!(%error, "can't start the resolver thread: faces with host names stay down")
                }
            }
        }
        let queued = self.names.as_ref().map(|names| names.try_send((operation, uri.to_owned())));
        match queued {
            Some(Ok(())) => true,
            Some(Err(TrySendError::Full(_) | TrySendError::Disconnected(_))) | None => false,
        }
    }
}

/// Returns the face URIs with the addresses of a URI's host name, or the URI itself if it has an
/// address. Blocks until the system's resolver answers.
pub fn addresses(uri: &str) -> Result<Vec<String>, String> {
    let uris = uri.parse::<FaceUri>().and_then(|uri| uri.resolve());
    uris.map(|uris| uris.iter().map(FaceUri::to_string).collect())
        .map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolver_each_name_is_reported_once_from_its_thread() {
        let (sender, reports) = bounded(8);
        let mut resolver = Resolver::new(move |resolved| drop(sender.send(resolved)));
        assert!(resolver.resolve(OperationId(1), "tcp4://localhost:6364"));
        assert!(resolver.resolve(OperationId(2), "udp4://127.0.0.1"));
        assert!(resolver.resolve(OperationId(3), "tcp4://name.invalid"));
        let (operation, found) = reports.recv().unwrap();
        assert_eq!(
            (operation, found.unwrap()[0].as_str()),
            (OperationId(1), "tcp4://127.0.0.1:6364")
        );
        let (operation, found) = reports.recv().unwrap();
        assert_eq!(
            (operation, found.unwrap()),
            (OperationId(2), vec!["udp4://127.0.0.1:6363".to_owned()])
        );
        let (operation, found) = reports.recv().unwrap();
        assert!(operation == OperationId(3) && found.unwrap_err().contains("name.invalid"));
        drop(resolver);
        assert!(reports.recv().is_err(), "the thread ends with its resolver");
    }
}
