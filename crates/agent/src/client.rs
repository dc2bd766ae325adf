//! The host's side where the host calls: one connection to the manager, made again with growing
//! pauses when it breaks, and the certificate renewed in time.

use crate::credits::Credits;
use crate::dial::{Backoff, Stream, greet, needs_enrolment, runtime};
use crate::frame::{self, Kind, PAYLOAD_MAX};
use crate::identity::{Identity, enrol_in_group};
use crate::message::Purpose;
use crate::{AgentError, now_s};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::time::timeout;

/// Bytes of a reply, at most.
const REPLY_MAX: usize = 4 << 30;
/// Pause between attempts to renew a certificate that is still valid.
const RENEW_PAUSE: Duration = Duration::from_secs(10);

/// Enrolments of a host of a group: at once, and the time in which one returns. Two agents of one
/// name would take the right from each other without end.
const ENROLMENTS_MAX: u32 = 3;
const ENROLMENT_INTERVAL: Duration = Duration::from_secs(30);

/// A host as client of its manager.
pub struct ManagerClient {
    state_directory: PathBuf,
    manager: String,
    host: String,
    /// `None` until a host of a group has enrolled.
    identity: Option<Identity>,
    /// File with the token of its group: it enrols by itself, and again when that is needed.
    group_token_file: Option<PathBuf>,
    enrolments: Credits<()>,
    runtime: Runtime,
    connection: Option<Stream>,
    backoff: Backoff,
    /// The error of the last attempt to connect, and the time before which there is no other.
    failed: Option<(String, Instant)>,
    renew_after: Instant,
}

impl ManagerClient {
    /// Reads the certificate in `state_directory`. `manager`: address of the manager if it has
    /// moved since the host enrolled. The connection is made with the first call.
    ///
    /// # Errors
    /// The host is not enrolled, or its file can't be read.
    pub fn open(state_directory: &Path, manager: Option<&str>) -> Result<Self, AgentError> {
        let identity = Identity::read(state_directory)?;
        let manager = manager.unwrap_or(&identity.manager).to_owned();
        let host = identity.host.clone();
        ManagerClient::new(state_directory, manager, host, Some(identity), None)
    }

    /// Returns a host of a group, which enrols with the token in a file when it has no certificate
    /// that its manager accepts: at first, after its certificate has expired, and if the manager
    /// has another authority. The connection is made with the first call.
    ///
    /// # Errors
    /// The state directory has the certificate of another host, or can't be read.
    pub fn open_in_group(
        state_directory: &Path,
        manager: &str,
        host: &str,
        token_file: &Path,
    ) -> Result<Self, AgentError> {
        let identity = match Identity::read(state_directory) {
            Ok(identity) if identity.host != host => {
                return Err(AgentError::OtherHost {
                    found: identity.host,
                    wanted: host.to_owned(),
                });
            }
            Ok(identity) => Some(identity),
            Err(AgentError::NotEnrolled) => None,
            Err(error) => return Err(error),
        };
        let (manager, host) = (manager.to_owned(), host.to_owned());
        ManagerClient::new(state_directory, manager, host, identity, Some(token_file.to_owned()))
    }

    fn new(
        state_directory: &Path,
        manager: String,
        host: String,
        mut identity: Option<Identity>,
        group_token_file: Option<PathBuf>,
    ) -> Result<Self, AgentError> {
        if let Some(identity) = &mut identity {
            identity.manager.clone_from(&manager);
        }
        Ok(ManagerClient {
            state_directory: state_directory.to_owned(),
            runtime: runtime(&manager)?,
            manager,
            host,
            identity,
            group_token_file,
            enrolments: Credits::new(ENROLMENTS_MAX, ENROLMENT_INTERVAL),
            connection: None,
            backoff: Backoff::default(),
            failed: None,
            renew_after: Instant::now(),
        })
    }

    /// Returns the name of the host.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Returns the address of the manager.
    pub fn manager(&self) -> &str {
        &self.manager
    }

    /// Sends a request and returns the reply. A request may arrive twice if the connection breaks.
    /// Between two attempts to connect it fails at once, with the reason of the last one.
    ///
    /// # Errors
    /// The manager can't be reached, refuses, or does not answer within `limit`.
    pub fn call(&mut self, request: &[u8], limit: Duration) -> Result<Vec<u8>, AgentError> {
        self.renew_in_time();
        if let Some(stream) = self.connection.take()
            && let Ok(reply) = self.exchange(stream, request, limit)
        {
            return Ok(reply);
        }
        let stream = self.connect()?;
        self.exchange(stream, request, limit)
            .map_err(|source| AgentError::Connection { manager: self.manager.clone(), source })
    }

    /// Sends a request and reads its reply, which keeps the connection.
    fn exchange(
        &mut self,
        mut stream: Stream,
        request: &[u8],
        limit: Duration,
    ) -> io::Result<Vec<u8>> {
        let exchange = async {
            frame::write(&mut stream, Kind::Call, request).await?;
            let mut reply = Vec::new();
            loop {
                let (kind, mut part) = frame::read(&mut stream, PAYLOAD_MAX).await?;
                if reply.len() + part.len() > REPLY_MAX {
                    return Err(io::Error::from(io::ErrorKind::FileTooLarge));
                }
                reply.append(&mut part);
                match kind {
                    Kind::Part => {}
                    Kind::Reply => return Ok(reply),
                    _ => return Err(io::ErrorKind::InvalidData.into()),
                }
            }
        };
        let reply = self.runtime.block_on(async { timeout(limit, exchange).await });
        let reply = reply.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))?;
        self.connection = Some(stream);
        Ok(reply)
    }

    fn connect(&mut self) -> Result<Stream, AgentError> {
        if let Some((reason, until)) = &self.failed
            && Instant::now() < *until
        {
            return Err(AgentError::Waiting(reason.clone()));
        }
        match self.greet_or_enrol() {
            Ok(stream) => {
                (self.failed, self.backoff) = (None, Backoff::default());
                Ok(stream)
            }
            Err(error) => {
                let pause = self.backoff.next_pause(Some(&error));
                self.failed = Some((error.to_string(), Instant::now() + pause));
                Err(error)
            }
        }
    }

    /// Connects with the certificate, or with a new one if the host may enrol by itself and has to.
    fn greet_or_enrol(&mut self) -> Result<Stream, AgentError> {
        let Some(token_file) = self.group_token_file.clone() else { return self.greet() };
        match self.greet() {
            Err(AgentError::NotEnrolled) => {}
            Err(error) => {
                if !needs_enrolment(&error) || !self.enrolments.has(&(), Instant::now()) {
                    return Err(error);
                }
                tracing::warn!("{error}: enrolling again, with the group's token");
            }
            connected => return connected,
        }
        let ManagerClient { state_directory, manager, host, .. } = &*self;
        let enrolment = enrol_in_group(state_directory, manager, host, &token_file);
        // The certificate that it has stays until there is another one.
        self.identity = Some(self.runtime.block_on(enrolment)?);
        self.enrolments.take(&(), Instant::now());
        let folder = self.state_directory.display();
        tracing::info!("enrolled as {}; the certificate is in {folder}", self.host);
        self.greet()
    }

    fn greet(&self) -> Result<Stream, AgentError> {
        let identity = self.identity.as_ref().ok_or(AgentError::NotEnrolled)?;
        identity.check_time()?;
        let greeting = greet(&self.manager, identity.tls()?, Purpose::Caller);
        self.runtime.block_on(greeting).map(|(_, stream)| stream)
    }

    /// Renews the certificate if it is time. A failure leaves the one there is.
    fn renew_in_time(&mut self) {
        let Some(identity) = &mut self.identity else { return };
        let is_due = now_s() >= identity.renew_s && Instant::now() >= self.renew_after;
        if !is_due || identity.check_time().is_err() {
            return;
        }
        match self.runtime.block_on(identity.renew(&self.state_directory)) {
            Ok(_) => {
                // The next connection shows the new certificate.
                self.connection = None;
                tracing::info!(until_s = identity.expires_s, "certificate renewed");
            }
            Err(error) => {
                self.renew_after = Instant::now() + RENEW_PAUSE;
                tracing::warn!(%error, "the certificate was not renewed");
            }
        }
    }
}
