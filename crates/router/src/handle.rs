//! Requests to a running router from other threads: stop, reload, queries.

use crate::StartError;
use crate::authority::{self, advertiser_signer};
use crate::introspection::{Query, QueryError, QueryReply, ReplyCallback};
use crate::resolver::{Resolved, addresses};
use crate::wall_clock::WallClock;
use core::time::Duration;
use crossbeam_channel::{Sender, TrySendError};
use nw_api::config::Config;
use nw_control::DesiredConfig;
use nw_trust::Rules;
use rustix::fd::OwnedFd;
use std::sync::Arc;

/// A request to the router's event loop.
pub(crate) enum HostRequest {
    /// Apply a configuration and the command rules read with it.
    Reload(Box<DesiredConfig>, Result<Box<Rules>, StartError>),
    /// Answer a query.
    Query(Query, ReplyCallback),
    /// A host name is resolved.
    Resolved(Resolved),
    /// Stop the loop.
    Stop,
}

impl core::fmt::Debug for HostRequest {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            HostRequest::Reload(..) => f.write_str("Reload"),
            HostRequest::Query(query, _) => write!(f, "Query({query:?})"),
            HostRequest::Resolved(_) => f.write_str("Resolved"),
            HostRequest::Stop => f.write_str("Stop"),
        }
    }
}

/// Sends requests to a running router from any thread, and wakes it.
#[derive(Clone, Debug)]
pub struct Handle {
    pub(crate) sender: Sender<HostRequest>,
    pub(crate) wake: Arc<OwnedFd>,
}

impl Handle {
    /// Stops the router: [`Host::run`](crate::Host::run) returns.
    pub fn stop(&self) {
        self.send(HostRequest::Stop);
    }

    /// Applies the options of a configuration that can change while the router runs: routes, faces,
    /// strategies, the content store, the rules for commands. Reads key files and resolves host
    /// names in the calling thread.
    pub fn reload(&self, config: Config) {
        let signer = advertiser_signer(&config);
        let rules = authority::rules(&config, WallClock::start().unix_ms()).map(Box::new);
        let mut desired = DesiredConfig::new(config, &addresses);
        match signer {
            Ok(signer) => desired = desired.signed_by(signer),
            Err(error) => {
                tracing::error!(%error, "commands to other routers are still signed with the previous key");
            }
        }
        self.send(HostRequest::Reload(Box::new(desired), rules));
    }

    /// Sends a query. `reply` is called in the router's thread, between two batches of packets, and
    /// must not block. It is dropped without a call if the router stops before.
    ///
    /// # Errors
    /// If too many requests are queued, or the router has stopped.
    pub fn query(
        &self,
        query: Query,
        reply: impl FnOnce(QueryReply, Duration) + Send + 'static,
    ) -> Result<(), QueryError> {
        let request = HostRequest::Query(query, Box::new(reply));
        self.sender.try_send(request).map_err(|error| match error {
            TrySendError::Full(_) => QueryError::Busy,
            TrySendError::Disconnected(_) => QueryError::Ended,
        })?;
        let _ = rustix::io::write(&*self.wake, &1u64.to_ne_bytes());
        Ok(())
    }

    pub(crate) fn send(&self, request: HostRequest) {
        // Fails only if the router has stopped.
        if self.sender.send(request).is_ok() {
            let _ = rustix::io::write(&*self.wake, &1u64.to_ne_bytes());
        }
    }
}
