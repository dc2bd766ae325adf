//! Reaching the router that the command line or the environment names, and staying with it.

use crate::args::{Router, Serving};
use crate::exit::{Failure, Status};
use crate::output::json_line;
use crate::routes::origin_number;
use anyhow::{Context, Result};
use core::time::Duration;
use nw_api::management::{Root, origin};
use nw_app::control::{Commander, ControlError};
use nw_app::{Client, ClientError, FaceUri, transport};
use nw_element_api::Instant;
use nw_name::Name;
use serde_json::json;

/// The router's place.
pub fn uri(router: &Router) -> Result<FaceUri> {
    Ok(match &router.socket {
        Some(uri) => uri.clone(),
        None => transport::default_uri()?,
    })
}

/// A connection to it.
pub fn connect(router: &Router) -> Result<Client> {
    let uri = uri(router)?;
    Client::connect(&uri).with_context(|| {
        let text =
            format!("can't reach a router at {uri} (start one with `nw run`, or name another with --socket)");
        Failure::new(Status::Unreachable, text)
    })
}

/// A connection that is made again when the router restarts, unless `no_reconnect`.
pub fn connect_lasting(router: &Router, no_reconnect: bool) -> Result<Client> {
    let mut client = connect(router)?;
    if !no_reconnect {
        client.reconnect_when_lost();
    }
    Ok(client)
}

/// The first pause after a registration that failed; it doubles.
const PAUSE_FIRST: Duration = Duration::from_millis(200);
/// The longest such pause.
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// How often to register over a transport that does not notice that its peer restarted.
const REFRESH_PAUSE: Duration = Duration::from_secs(20);

/// A prefix that is registered, and again after each loss of the connection.
pub struct Registration<'a> {
    commander: Commander<'a>,
    prefix: Option<Name>,
    /// Where certificates of the signing key are served.
    key_name: Option<Name>,
    origin: Option<u64>,
    /// The connection that the prefix is registered on.
    connections: u64,
    /// A registration failed: when to try again, and the pause after that.
    again: Option<(Instant, Duration)>,
    was_lost: bool,
    /// Over UDP: when to register though nothing seems to have happened.
    refresh_at: Option<Instant>,
}

/// What changed since the last look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// Nothing.
    AsBefore,
    /// The router went away.
    Lost,
    /// The router is back, and the prefix registered.
    Back,
}

impl Link {
    /// Says what changed: as JSON on standard output, else to the user.
    pub fn report(self, json: bool, quiet: bool) -> Result<()> {
        let (event, text) = match self {
            Link::AsBefore => return Ok(()),
            Link::Lost => ("lost", "the router went away: connecting again"),
            Link::Back => ("back", "connected and registered again"),
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
    /// Registers the prefix, and the name of the key that signs, whose certificates consumers need. `None` as `prefix` only watches the connection.
    pub fn new(
        client: &mut Client,
        commander: Commander<'a>,
        prefix: Option<Name>,
        key_name: Option<Name>,
        serving: &Serving,
    ) -> Result<Self> {
        let origin = match (&serving.origin, serving.expose) {
            (Some(word), _) => Some(origin_number(word)?),
            (None, true) => Some(origin::CLIENT),
            (None, false) => None,
        };
        let registration = Registration {
            commander,
            // A router that takes commands of neighbours fetches certificates from their faces by itself, and its rules may allow no more.
            key_name: key_name.filter(|_| prefix.is_some() && commander.root == Root::Localhost),
            prefix,
            origin,
            connections: client.connections(),
            again: None,
            was_lost: false,
            refresh_at: (!serving.no_reconnect && matches!(client.local_uri(), Some(FaceUri::Udp(_))))
                .then(|| client.now() + REFRESH_PAUSE),
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
            // Others may serve the certificates, or verifiers may have them.
            Err(error) => {
                tracing::warn!(%error, %key_name, "certificates of the key are not served");
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    /// Registers again when the connection was lost and made again. Call it after each turn of the client.
    pub fn keep(&mut self, client: &mut Client) -> Result<Link, ClientError> {
        if client.lost_for().is_some() {
            let is_new = !core::mem::replace(&mut self.was_lost, true);
            return Ok(if is_new { Link::Lost } else { Link::AsBefore });
        }
        if self.refresh_at.is_some_and(|at| client.now() >= at) {
            self.refresh_at = Some(client.now() + REFRESH_PAUSE);
            return match self.register(client) {
                Err(ControlError::Client(error)) => Err(error),
                _ => Ok(Link::AsBefore),
            };
        }
        let due = self.again.is_none_or(|(at, _)| client.now() >= at);
        if self.connections == client.connections() || !due {
            return Ok(Link::AsBefore);
        }
        let connections = client.connections();
        match self.register(client) {
            Ok(()) => {
                self.connections = connections;
                self.again = None;
                self.was_lost = false;
                Ok(Link::Back)
            }
            Err(ControlError::Client(error)) => Err(error),
            // A router that has just started may not be ready to take it.
            Err(error) => {
                tracing::debug!(%error, "can't register again yet");
                let pause = self.again.map_or(PAUSE_FIRST, |(_, pause)| (pause * 2).min(PAUSE_MAX));
                self.again = Some((client.now() + pause, pause));
                Ok(Link::AsBefore)
            }
        }
    }
}
