//! The faces that a graph declares, as sockets: opened, tried again, known by what they lead to.

use crate::model::Graph;
use nw_element_api::{FaceId, Instant, Pool};
use nw_faces::uri::UriError;
use nw_faces::{CloseReason, FaceError, FaceOptions, FaceStatus, FaceUri, Faces, Persistency};
use std::fmt;
use std::time::Duration;

/// A face that could not be made is tried again after so long.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// Clients of others expect to be let in.
const UNIX_MODE: u32 = 0o666;
/// Memory is for services of one owner.
const SHARED_MODE: u32 = 0o600;

/// A declared face.
#[derive(Clone, Debug)]
pub(super) struct Door {
    pub name: String,
    pub uri: FaceUri,
    pub listens: bool,
    /// Open, or listening.
    pub is_open: bool,
    /// The face that leads there.
    pub face: Option<FaceId>,
    /// It was said once that it can't be made.
    complained: bool,
    /// It is there, and the peer has still to answer.
    pub is_connecting: bool,
}

/// Why a declared face has no place to lead to.
#[derive(Debug, thiserror::Error)]
pub enum DoorError {
    /// Nothing is said of where it leads.
    #[error(
        "face `{0}` leads nowhere: write face {0} = URI, or face {0} listens URI (tests need neither, `run` does)"
    )]
    NoUri(String),
    /// Something is said that is no address.
    #[error("face `{0}`: {1}")]
    Uri(String, UriError),
}

/// Looks up where each declared face leads. Asks the system's resolver, and waits for it.
pub(super) fn doors(graph: &Graph) -> Result<Vec<Door>, DoorError> {
    let door = |face: &crate::Face| {
        let text = face.uri.as_deref().ok_or_else(|| DoorError::NoUri(face.name.clone()))?;
        let wrong = |error| DoorError::Uri(face.name.clone(), error);
        let uris = text.parse::<FaceUri>().and_then(|uri| uri.resolve()).map_err(wrong)?;
        let uri = uris.into_iter().next().ok_or_else(|| DoorError::NoUri(face.name.clone()))?;
        let (name, listens) = (face.name.clone(), face.listens);
        Ok(Door { name, uri, listens, is_open: false, face: None, complained: false, is_connecting: false })
    };
    graph.faces.iter().map(door).collect()
}

impl Door {
    /// The same face, leading to the same place.
    pub fn is_like(&self, other: &Door) -> bool {
        (&self.name, &self.uri, self.listens) == (&other.name, &other.uri, other.listens)
    }

    /// Its name, and where it leads.
    pub fn place(&self) -> (String, String) {
        (self.name.clone(), self.uri.to_string())
    }

    /// Opens it.
    pub fn open(&mut self, now: Instant, faces: &mut Faces) -> Result<(), FaceError> {
        match (&self.uri, self.listens) {
            (FaceUri::Unix(path), true) => faces.listen_unix(path, UNIX_MODE)?,
            (FaceUri::Shm(path), true) => faces.listen_shared_memory(path, SHARED_MODE)?,
            (FaceUri::Tcp(address), true) => drop(faces.listen_tcp(*address)?),
            (FaceUri::Udp(address), true) => drop(faces.listen_udp(*address)?),
            (FaceUri::Ws(address), true) => drop(faces.listen_websocket(*address)?),
            (uri, _) => {
                let options =
                    FaceOptions { persistency: Some(Persistency::Permanent), ..FaceOptions::default() };
                self.face = Some(faces.connect(now, uri, None, &options)?);
            }
        }
        self.is_open = true;
        Ok(())
    }

    /// Opens it, or says once why not. When it is not open, when to try again.
    pub fn try_open(&mut self, now: Instant, faces: &mut Faces) -> Option<Instant> {
        let Err(error) = self.open(now, faces) else { return None };
        self.complain(&error);
        Some(now + RETRY_PAUSE)
    }

    /// It has ended: to be opened anew, after a pause.
    pub fn gone(&mut self, now: Instant, reason: &CloseReason) -> Instant {
        (self.is_open, self.face) = (false, None);
        self.complain(reason);
        now + RETRY_PAUSE
    }

    /// It is there; what ends it next is news.
    pub fn up(&mut self) {
        tracing::info!(face = self.name, uri = %self.uri, "up");
        self.complained = false;
    }

    /// It is not connected: news, unless it never was.
    pub fn down(&mut self) {
        if !std::mem::take(&mut self.is_connecting) {
            tracing::warn!(face = self.name, uri = %self.uri, "down, connecting again");
        }
    }

    fn complain(&mut self, why: &dyn fmt::Display) {
        if !std::mem::replace(&mut self.complained, true) {
            tracing::warn!(face = self.name, uri = %self.uri, "not there, tried again every second: {why}");
        }
    }

    /// Closes what leads there, or stops listening. Faces that were accepted stay.
    pub fn close(&mut self, faces: &mut Faces, pool: &mut Pool) {
        if let Some(face) = self.face.take() {
            faces.close(face, pool);
        }
        if self.listens {
            faces.stop_listening(&self.uri);
        }
        self.is_open = false;
    }

    /// True when this face was accepted here.
    pub fn accepted(&self, status: &FaceStatus) -> bool {
        if !self.listens {
            return false;
        }
        match (&self.uri, &status.local_uri) {
            (FaceUri::Unix(own), FaceUri::Unix(path)) | (FaceUri::Shm(own), FaceUri::Shm(path)) => {
                own == path
            }
            (FaceUri::Tcp(own), FaceUri::Tcp(end))
            | (FaceUri::Udp(own), FaceUri::Udp(end))
            | (FaceUri::Ws(own), FaceUri::Ws(end)) => {
                own.port() == end.port() && (own.ip().is_unspecified() || own.ip() == end.ip())
            }
            _ => false,
        }
    }
}
