//! Host names of the configuration's faces, looked up beside the loop: a resolver may take seconds to answer.

use crate::control::Ticket;
use crossbeam_channel::{Sender, TrySendError, bounded};
use nw_faces::FaceUri;

/// Names that may wait to be looked up. A face that finds no place is tried again later, as one whose name has no address.
const WAITING_MAX: usize = 1024;

/// A ticket, and the addresses of a name as URIs; or why there are none.
pub type Resolved = (Ticket, Result<Vec<String>, String>);

/// One thread that asks the system's resolver, started when the first name comes.
pub struct Resolver {
    names: Option<Sender<(Ticket, String)>>,
    report: Option<Box<dyn Fn(Resolved) + Send>>,
}

impl core::fmt::Debug for Resolver {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Resolver")
    }
}

impl Resolver {
    /// `report` is called in the resolver's thread.
    pub fn new(report: impl Fn(Resolved) + Send + 'static) -> Self {
        Resolver { names: None, report: Some(Box::new(report)) }
    }

    /// Has a URI's host name looked up. False when there is no place for it, or no thread.
    pub fn resolve(&mut self, ticket: Ticket, uri: &str) -> bool {
        if let Some(report) = self.report.take() {
            let (sender, names) = bounded::<(Ticket, String)>(WAITING_MAX);
            let work = move || {
                for (ticket, uri) in names {
                    report((ticket, addresses(&uri)));
                }
            };
            match std::thread::Builder::new().name("resolver".into()).spawn(work) {
                Ok(_) => self.names = Some(sender),
                Err(error) => tracing::error!(%error, "host names can't be looked up: no thread"),
            }
        }
        let sent = self.names.as_ref().map(|names| names.try_send((ticket, uri.to_owned())));
        match sent {
            Some(Ok(())) => true,
            Some(Err(TrySendError::Full(_) | TrySendError::Disconnected(_))) | None => false,
        }
    }
}

/// The addresses of a URI's host name, as URIs; the URI itself where it has an address. Waits for the system's resolver.
pub fn addresses(uri: &str) -> Result<Vec<String>, String> {
    let uris = uri.parse::<FaceUri>().and_then(|uri| uri.resolve());
    uris.map(|uris| uris.iter().map(FaceUri::to_string).collect()).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_looked_up_beside_the_caller_and_reported_once_each() {
        let (sender, reports) = bounded(8);
        let mut resolver = Resolver::new(move |resolved| drop(sender.send(resolved)));
        assert!(resolver.resolve(Ticket(1), "tcp4://localhost:6364"));
        assert!(resolver.resolve(Ticket(2), "udp4://127.0.0.1"));
        assert!(resolver.resolve(Ticket(3), "tcp4://name.invalid"));
        let (ticket, found) = reports.recv().unwrap();
        assert_eq!((ticket, found.unwrap()[0].as_str()), (Ticket(1), "tcp4://127.0.0.1:6364"));
        let (ticket, found) = reports.recv().unwrap();
        assert_eq!((ticket, found.unwrap()), (Ticket(2), vec!["udp4://127.0.0.1:6363".to_owned()]));
        let (ticket, found) = reports.recv().unwrap();
        assert!(ticket == Ticket(3) && found.unwrap_err().contains("name.invalid"));
        drop(resolver);
        assert!(reports.recv().is_err(), "the thread ends with its resolver");
    }
}
