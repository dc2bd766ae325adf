//! Connections to the router that the command line or the environment names, and prefixes that stay
//! registered across reconnects.

use crate::args::flags::{RouterArgs, ServeArgs};
use crate::exit::{Failure, Status};
use crate::output::json_line;
use crate::parse::origin_number;
use anyhow::{Context, Result};
use core::time::Duration;
use nw_api::management::{Root, origin};
use nw_app::control::{Commander, ControlError};
use nw_app::{Client, ClientError, FaceUri, transport};
use nw_element_api::Timestamp;
use nw_name::Name;
use serde_json::json;

/// Returns the face URI of the router to use.
pub fn uri(router: &RouterArgs) -> Result<FaceUri> {
    Ok(match &router.socket {
        Some(uri) => uri.clone(),
        None => transport::default_uri()?,
    })
}

/// Connects to the router.
pub fn connect(router: &RouterArgs) -> Result<Client> {
    crate::logs::show_warnings();
    let uri = uri(router)?;
    Client::connect(&uri).with_context(|| {
        let text = format!(
            "can't reach a router at {uri} (start one with `nw run`, or name another with --socket)"
        );
        Failure::new(Status::Unreachable, text)
    })
}

/// Connects to the router, and reconnects when it restarts, unless `no_reconnect` is set.
pub fn connect_with_retry(router: &RouterArgs, no_reconnect: bool) -> Result<Client> {
    let mut client = connect(router)?;
    if !no_reconnect {
        client.reconnect_when_lost();
    }
    Ok(client)
}

/// Delay before a failed registration is retried. It doubles each time.
const RETRY_DELAY_MIN: Duration = Duration::from_millis(200);
/// Maximum delay before a failed registration is retried.
const RETRY_DELAY_MAX: Duration = Duration::from_secs(5);

/// Interval of repeated registrations over UDP, where a restart of the router is not noticed.
const REFRESH_INTERVAL: Duration = Duration::from_secs(20);

/// A registered prefix, registered again after each reconnect.
pub struct Registration<'a> {
    commander: Commander<'a>,
    prefix: Option<Name>,
    /// Name under which certificates of the signing key are served; registered like the prefix.
    key_name: Option<Name>,
    origin: Option<u64>,
    /// Number of the connection on which the prefix is registered.
    registered_connection: u64,
    /// After a failed registration: the time of the next attempt, and the delay that led to it.
    retry: Option<(Timestamp, Duration)>,
    was_lost: bool,
    /// Over UDP: time of the next repeated registration.
    refresh_at: Option<Timestamp>,
}

/// A change of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkChange {
    /// No change.
    Unchanged,
    /// The connection to the router was lost.
    Lost,
    /// The connection is up again and the prefix is registered.
    Restored,
}

impl LinkChange {
    /// Reports a change: as JSON on standard output, or as text on standard error.
    pub fn report(self, json: bool, quiet: bool) -> Result<()> {
        let (event, text) = match self {
            LinkChange::Unchanged => return Ok(()),
            LinkChange::Lost => ("lost", "lost the connection to the router: reconnecting"),
            LinkChange::Restored => ("back", "reconnected and registered again"),
        };
        if json {
            json_line(&json!({ "event": event }))?;
        } else if !quiet {
            note!("{text}");
        }
        Ok(())
    }
}

impl<'a> Registration<'a> {
    /// Registers a prefix, and the name of the signing key, so that consumers can fetch its
    /// certificates. With `None` as `prefix` only the connection is watched.
    pub fn new(
        client: &mut Client,
        commander: Commander<'a>,
        prefix: Option<Name>,
        key_name: Option<Name>,
        serving: &ServeArgs,
    ) -> Result<Self> {
        let origin = match (&serving.origin, serving.expose) {
            (Some(word), _) => Some(origin_number(word)?),
            (None, true) => Some(origin::CLIENT),
            (None, false) => None,
        };
        let registration = Registration {
            commander,
            // A remote router fetches certificates over the face of the command, and its rules may
            // not allow a second registration.
            key_name: key_name.filter(|_| prefix.is_some() && commander.root == Root::Localhost),
            prefix,
            origin,
            registered_connection: client.connections(),
            retry: None,
            was_lost: false,
            refresh_at: (!serving.no_reconnect
                && matches!(client.local_uri(), Some(FaceUri::Udp(_))))
            .then(|| client.now() + REFRESH_INTERVAL),
        };
        registration.register(client).context("can't serve the name")?;
        Ok(registration)
    }

    fn register(&self, client: &mut Client) -> Result<(), ControlError> {
        let Some(prefix) = &self.prefix else { return Ok(()) };
        self.commander.register_as(client, prefix.clone(), self.origin)?;
        let Some(key_name) = &self.key_name else { return Ok(()) };
        match self.commander.register_as(client, key_name.clone(), self.origin) {
            Err(error @ ControlError::Client(_)) => Err(error),
            // Not fatal: certificates may be served elsewhere, or verifiers may have them.
            Err(error) => {
                tracing::warn!(%error, %key_name, "certificates of the key are not served");
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    /// Registers again after a reconnect. To be called after each [`Client::poll`].
    pub fn update(&mut self, client: &mut Client) -> Result<LinkChange, ClientError> {
        if client.lost_for().is_some() {
            let is_new = !core::mem::replace(&mut self.was_lost, true);
            return Ok(if is_new { LinkChange::Lost } else { LinkChange::Unchanged });
        }
        if self.refresh_at.is_some_and(|at| client.now() >= at) {
            self.refresh_at = Some(client.now() + REFRESH_INTERVAL);
            return match self.register(client) {
                Err(ControlError::Client(error)) => Err(error),
                _ => Ok(LinkChange::Unchanged),
            };
        }
        let due = self.retry.is_none_or(|(at, _)| client.now() >= at);
        if self.registered_connection == client.connections() || !due {
            return Ok(LinkChange::Unchanged);
        }
        let connection = client.connections();
        match self.register(client) {
            Ok(()) => {
                self.registered_connection = connection;
                self.retry = None;
                self.was_lost = false;
                Ok(LinkChange::Restored)
            }
            Err(ControlError::Client(error)) => Err(error),
            // A router that has just started may not accept registrations yet.
            Err(error) => {
                tracing::debug!(%error, "can't register again yet");
                let delay = self
                    .retry
                    .map_or(RETRY_DELAY_MIN, |(_, delay)| (delay * 2).min(RETRY_DELAY_MAX));
                self.retry = Some((client.now() + delay, delay));
                Ok(LinkChange::Unchanged)
            }
        }
    }
}
