//! The declared faces of a graph as sockets: opened, opened again after errors, matched with
//! accepted faces by their address.

use crate::model::Graph;
use nw_element_api::{FaceId, Pool, Timestamp};
use nw_faces::uri::UriError;
use nw_faces::{CloseReason, FaceError, FaceOptions, FaceStatus, FaceUri, Faces, Persistency};
use std::fmt;
use std::time::Duration;

/// First and longest pause before a face that could not be opened, or is down, is tried again; it
/// doubles each time. Services that are started together find each other at once that way.
pub(super) const RETRY_PAUSES: (Duration, Duration) = (Duration::from_millis(20), Duration::from_secs(1));
/// Any local user may connect.
const UNIX_SOCKET_MODE: u32 = 0o666;
/// Shared memory is only for services of the same user.
const SHARED_MEMORY_MODE: u32 = 0o600;

/// A declared face.
#[derive(Clone, Debug)]
pub(super) struct Endpoint {
    pub name: String,
    pub uri: FaceUri,
    pub is_listener: bool,
    /// Open, or listening.
    pub is_open: bool,
    /// The face to the peer.
    pub face: Option<FaceId>,
    /// Failures since the face was last up.
    failures: u32,
    /// True if an error was logged since the face was last up.
    warned: bool,
    /// True while the first connection is being established.
    pub is_connecting: bool,
}

/// Reasons why a declared face can't be opened.
#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    /// The face has no URI.
    #[error(
        "face `{0}` has no URI: write face {0} = URI, or face {0} listens URI (only tests need none)"
    )]
    NoUri(String),
    /// The URI is invalid.
    #[error("face `{0}`: {1}")]
    Uri(String, UriError),
}

/// Resolves the URI of each declared face. Blocks while host names are resolved.
pub(super) fn endpoints(graph: &Graph) -> Result<Vec<Endpoint>, EndpointError> {
    let endpoint = |face: &crate::Face| {
        let text = face.uri.as_deref().ok_or_else(|| EndpointError::NoUri(face.name.clone()))?;
        let wrong = |error| EndpointError::Uri(face.name.clone(), error);
        let uris = text.parse::<FaceUri>().and_then(|uri| uri.resolve()).map_err(wrong)?;
        let uri = uris.into_iter().next().ok_or_else(|| EndpointError::NoUri(face.name.clone()))?;
        let (name, is_listener) = (face.name.clone(), face.is_listener);
        Ok(Endpoint {
            name,
            uri,
            is_listener,
            is_open: false,
            face: None,
            failures: 0,
            warned: false,
            is_connecting: false,
        })
    };
    graph.faces.iter().map(endpoint).collect()
}

impl Endpoint {
    /// Returns whether name, URI and direction are the same.
    pub fn is_same_as(&self, other: &Endpoint) -> bool {
        (&self.name, &self.uri, self.is_listener) == (&other.name, &other.uri, other.is_listener)
    }

    /// Returns whether a new face to the same peer can't be opened while the other one exists, as
    /// datagram faces are found by their addresses.
    pub fn shares_face_with(&self, other: &Endpoint) -> bool {
        let has_connections = matches!(
            self.uri,
            FaceUri::Unix(_) | FaceUri::Shm(_) | FaceUri::Tcp(_) | FaceUri::WsClient(_)
        );
        self.uri == other.uri && !has_connections
    }

    /// Returns the name and the URI.
    pub fn name_and_uri(&self) -> (String, String) {
        (self.name.clone(), self.uri.to_string())
    }

    /// Connects to the peer, or starts to listen.
    pub fn open(&mut self, now: Timestamp, faces: &mut Faces) -> Result<(), FaceError> {
        match (&self.uri, self.is_listener) {
            (FaceUri::Unix(path), true) => faces.listen_unix(path, UNIX_SOCKET_MODE)?,
            (FaceUri::Shm(path), true) => faces.listen_shared_memory(path, SHARED_MEMORY_MODE)?,
            (FaceUri::Tcp(address), true) => drop(faces.listen_tcp(*address)?),
            (FaceUri::Udp(address), true) => drop(faces.listen_udp(*address)?),
            (FaceUri::Ws(address), true) => drop(faces.listen_websocket(*address)?),
            (uri, _) => {
                let options = FaceOptions {
                    persistency: Some(Persistency::Permanent),
                    ..FaceOptions::default()
                };
                self.face = Some(faces.connect(now, uri, None, &options)?);
            }
        }
        self.is_open = true;
        Ok(())
    }

    /// Opens the face, or logs the error once. Returns when to try again if it is not open.
    pub fn try_open(&mut self, now: Timestamp, faces: &mut Faces) -> Option<Timestamp> {
        let Err(error) = self.open(now, faces) else { return None };
        self.warn_once(&error);
        Some(now + self.next_pause())
    }

    /// Marks the face as closed. Returns when to open it again.
    pub fn mark_closed(&mut self, now: Timestamp, reason: &CloseReason) -> Timestamp {
        (self.is_open, self.face) = (false, None);
        self.warn_once(reason);
        now + self.next_pause()
    }

    fn next_pause(&mut self) -> Duration {
        let pause = RETRY_PAUSES.0 * 2_u32.pow(self.failures.min(10));
        self.failures = self.failures.saturating_add(1);
        pause.min(RETRY_PAUSES.1)
    }

    /// Logs that the face is up; its next error is logged again.
    pub fn mark_up(&mut self) {
        tracing::info!(face = self.name, uri = %self.uri, "up");
        (self.warned, self.failures) = (false, 0);
    }

    /// Logs that the face is down, unless it was never up.
    pub fn mark_down(&mut self) {
        if !std::mem::take(&mut self.is_connecting) {
            tracing::warn!(face = self.name, uri = %self.uri, "down, reconnecting");
        }
    }

    fn warn_once(&mut self, why: &dyn fmt::Display) {
        if !std::mem::replace(&mut self.warned, true) {
            tracing::warn!(face = self.name, uri = %self.uri, "not open, trying again: {why}");
        }
    }

    /// Closes the face, or stops listening. Accepted faces stay.
    pub fn close(&mut self, faces: &mut Faces, pool: &mut Pool) {
        if let Some(face) = self.face.take() {
            faces.close(face, pool);
        }
        if self.is_listener {
            faces.stop_listening(&self.uri);
        }
        self.is_open = false;
    }

    /// Returns whether this listener has accepted the face.
    pub fn has_accepted(&self, status: &FaceStatus) -> bool {
        if !self.is_listener {
            return false;
        }
        match (&self.uri, &status.local_uri) {
            (FaceUri::Unix(own), FaceUri::Unix(path)) | (FaceUri::Shm(own), FaceUri::Shm(path)) => {
                own == path
            }
            (FaceUri::Tcp(own), FaceUri::Tcp(local))
            | (FaceUri::Udp(own), FaceUri::Udp(local))
            | (FaceUri::Ws(own), FaceUri::Ws(local)) => {
                own.port() == local.port() && (own.ip().is_unspecified() || own.ip() == local.ip())
            }
            _ => false,
        }
    }
}
