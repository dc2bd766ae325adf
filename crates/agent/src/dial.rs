//! How a host reaches its manager: connect, shake hands, greet; when to try again; and what a
//! failure means, as a sentence with the remedy.

use crate::AgentError;
use crate::frame::{self, HELLO_MAX, Kind};
use crate::message::{Hello, NOT_A_HOST, Purpose, VERSION, Welcome};
use crate::tls;
use rustix::net::sockopt;
use rustls::{AlertDescription, CertificateError, ClientConfig, Error as TlsError};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Pauses between attempts to connect: the first, and the longest.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// Pause after the manager refused: only a person can help.
const PAUSE_REFUSED: Duration = Duration::from_secs(30);
/// Seconds until a dead peer is noticed by a connection without traffic: 10, and three times 5.
const KEEP_ALIVE_IDLE: Duration = Duration::from_secs(10);
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(5);

/// Connection of a host to its manager.
pub type Stream = TlsStream<TcpStream>;

/// Pauses between attempts to connect, each twice as long as the one before.
pub struct Backoff(Duration);

impl Default for Backoff {
    fn default() -> Self {
        Backoff(PAUSE_MIN)
    }
}

impl Backoff {
    /// Returns the pause after an attempt with this error, or after the end of a connection.
    pub fn next_pause(&mut self, error: Option<&AgentError>) -> Duration {
        let pause = self.0;
        self.0 = (pause * 2).min(PAUSE_MAX);
        match error {
            Some(
                AgentError::Refused { .. }
                | AgentError::Expired { .. }
                | AgentError::NotTheManager { .. },
            ) => PAUSE_REFUSED,
            _ => pause,
        }
    }
}

/// Returns an event loop for connections to `manager`.
pub fn runtime(manager: &str) -> Result<tokio::runtime::Runtime, AgentError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|source| AgentError::Connection { manager: manager.to_owned(), source })
}

/// Connects and greets. Returns the manager's answer.
pub async fn greet(
    manager: &str,
    config: Arc<ClientConfig>,
    purpose: Purpose,
) -> Result<(Welcome, Stream), AgentError> {
    greet_as(manager, config, |_| purpose).await
}

/// Connects, and greets with a purpose that depends on the TLS connection, which is identified by
/// 32 bytes.
pub async fn greet_as(
    manager: &str,
    config: Arc<ClientConfig>,
    purpose: impl FnOnce(&[u8; 32]) -> Purpose,
) -> Result<(Welcome, Stream), AgentError> {
    let exchange = async {
        let stream = TcpStream::connect(manager).await?;
        stream.set_nodelay(true)?;
        keep_alive(&stream)?;
        let mut stream = TlsConnector::from(config).connect(tls::manager_name(), stream).await?;
        let binding = tls::channel_binding(stream.get_ref().1).map_err(io::Error::other)?;
        let hello = serde_json::to_vec(&Hello { version: VERSION, purpose: purpose(&binding) });
        let hello = hello.expect("texts and numbers");
        // A manager that refuses the certificate says so after the handshake of this side, and
        // closes: then the greeting may not be written, and the reason can be read.
        let written = frame::write(&mut stream, Kind::Hello, &hello).await;
        let answer = frame::read(&mut stream, HELLO_MAX).await;
        match (written, answer) {
            (_, Ok(answer)) => Ok((answer, stream)),
            (Err(error), Err(reason)) if tls_error(&reason).is_none() => Err(error),
            (_, Err(reason)) => Err(reason),
        }
    };
    let connection =
        |source| AgentError::Connection { manager: manager.to_owned(), source: explain(source) };
    let done = timeout(CONNECT_TIMEOUT, exchange).await;
    let done = done.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
    let ((kind, payload), stream) = done.map_err(connection)?;
    match kind {
        Kind::Welcome => {
            let welcome = serde_json::from_slice(&payload);
            Ok((welcome.map_err(|error| connection(error.into()))?, stream))
        }
        Kind::Refused => Err(AgentError::Refused {
            manager: manager.to_owned(),
            reason: String::from_utf8_lossy(&payload).into_owned(),
        }),
        _ => Err(connection(io::Error::new(io::ErrorKind::InvalidData, "no answer to a greeting"))),
    }
}

fn tls_error(error: &io::Error) -> Option<&TlsError> {
    error.get_ref().and_then(|error| error.downcast_ref())
}

/// What is wrong with the host's certificate, or with its authority.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct IdentityFault(&'static str);

/// Returns whether a host that enrols anew can overcome the error.
pub fn needs_enrolment(error: &AgentError) -> bool {
    match error {
        AgentError::Expired { .. } => true,
        AgentError::Refused { reason, .. } => reason.starts_with(NOT_A_HOST),
        AgentError::Connection { source, .. } => {
            source.get_ref().is_some_and(|inner| inner.is::<IdentityFault>())
        }
        _ => false,
    }
}

/// Replaces an error of TLS by what it means here, with the remedy.
fn explain(error: io::Error) -> io::Error {
    let identity_fault = |text| io::Error::new(error.kind(), IdentityFault(text));
    let text = match tls_error(&error) {
        Some(TlsError::InvalidMessage(_)) => {
            "it does not speak TLS: is this its address for agents?"
        }
        Some(TlsError::AlertReceived(AlertDescription::CertificateExpired)) => {
            return identity_fault(
                "the certificate of this host has expired: compare the clocks, or enrol again with \
                 a new token",
            );
        }
        Some(TlsError::AlertReceived(
            AlertDescription::UnknownCA
            | AlertDescription::DecryptError
            | AlertDescription::BadCertificate
            | AlertDescription::CertificateUnknown,
        )) => {
            return identity_fault(
                "it did not sign the certificate of this host: enrol again with a token of this \
                 manager",
            );
        }
        Some(TlsError::AlertReceived(AlertDescription::ProtocolVersion)) => {
            "it does not speak TLS 1.3: is this its address for agents?"
        }
        Some(TlsError::InvalidCertificate(
            CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. },
        )) => "its certificate is not valid at this time: compare the clocks of both machines",
        Some(TlsError::InvalidCertificate(_)) => {
            return identity_fault(
                "it is not the manager at which this host enrolled: check the address, or enrol \
                 again with a token of this manager",
            );
        }
        Some(_) => return error,
        None if error.kind() == io::ErrorKind::UnexpectedEof => {
            "it closed the connection: is this its address for agents?"
        }
        None => return error,
    };
    io::Error::new(error.kind(), text)
}

/// Lets the system notice that the peer's machine is gone.
pub fn keep_alive(stream: &TcpStream) -> io::Result<()> {
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, KEEP_ALIVE_IDLE)?;
    sockopt::set_tcp_keepintvl(stream, KEEP_ALIVE_INTERVAL)?;
    sockopt::set_tcp_keepcnt(stream, 3)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_doubles_to_its_bound_and_waits_long_after_a_refusal() {
        let mut backoff = Backoff::default();
        let pauses: Vec<_> = (0..8).map(|_| backoff.next_pause(None).as_millis()).collect();
        assert_eq!(pauses, [100, 200, 400, 800, 1600, 3200, 5000, 5000]);
        let refused = AgentError::Refused { manager: String::new(), reason: String::new() };
        assert_eq!(backoff.next_pause(Some(&refused)), PAUSE_REFUSED);
    }

    #[test]
    fn alerts_of_tls_become_sentences_with_a_remedy() {
        for (alert, words) in [
            (AlertDescription::CertificateExpired, "has expired"),
            (AlertDescription::UnknownCA, "did not sign the certificate of this host"),
            (AlertDescription::ProtocolVersion, "does not speak TLS 1.3"),
        ] {
            let error = io::Error::other(TlsError::AlertReceived(alert));
            let text = explain(error).to_string();
            assert!(text.contains(words), "{text}");
        }
        let unlike = io::Error::from(io::ErrorKind::ConnectionRefused);
        assert_eq!(explain(unlike).kind(), io::ErrorKind::ConnectionRefused);
    }
}
