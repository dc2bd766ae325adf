//! The host's side: enrols, keeps a few connections to the manager, answers calls, opens tunnels,
//! and renews its certificate.

use crate::authority::new_key;
use crate::frame::{self, HELLO_MAX, Kind, PAYLOAD_MAX};
use crate::message::{Binary, Hello, Purpose, Token, VERSION, Welcome};
use crate::{AgentError, now_s, read_private, tls, write_private};
use rcgen::PublicKeyData;
use rustix::net::sockopt;
use rustls::ClientConfig;
use rustls::pki_types::{CertificateDer, PrivatePkcs8KeyDer};
use serde::{Deserialize, Serialize};
use std::io;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// Connections that wait for calls: as many calls at a time.
const CHANNELS: usize = 8;
/// Tunnels at a time.
const TUNNELS_MAX: usize = 64;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The manager asks every 5 s whether the agent is there; silent for longer, it is gone.
const SILENCE_MAX: Duration = Duration::from_secs(20);
/// Pauses between attempts to connect: the first, and the longest.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(5);
/// Pause after the manager refused: only a person can help.
const PAUSE_REFUSED: Duration = Duration::from_secs(30);
/// How often the stop flag and the age of the certificate are looked at.
const TICK: Duration = Duration::from_millis(100);
/// Seconds until a dead peer is noticed by a tunnel without traffic: 10, and three times 5.
const KEEP_ALIVE_IDLE: Duration = Duration::from_secs(10);
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(5);

type Stream = TlsStream<TcpStream>;

/// What an agent does for its manager. Called from threads of a pool; calls may overlap.
pub trait Handler: Send + Sync + 'static {
    /// Returns the reply to a request.
    fn call(&self, request: &[u8]) -> Vec<u8>;

    /// Opens a stream for the manager.
    ///
    /// # Errors
    /// The request is not understood, or the stream can't be opened.
    fn open(&self, request: &[u8]) -> io::Result<StdUnixStream>;
}

/// How an agent runs.
#[derive(Clone, Debug)]
pub struct AgentOptions {
    /// Directory with the agent's key and certificate.
    pub state_directory: PathBuf,
    /// Address of the manager if it has moved since the host enrolled.
    pub manager: Option<String>,
    /// Address at which other hosts reach this one.
    pub address: Option<String>,
}

/// Content of the agent's file.
#[derive(Clone, Serialize, Deserialize)]
struct Identity {
    manager: String,
    host: String,
    authority: Binary,
    certificate: Binary,
    key: Binary,
    expires_s: u64,
    renew_s: u64,
}

impl Identity {
    fn path(directory: &Path) -> PathBuf {
        directory.join("agent.json")
    }

    fn read(directory: &Path) -> Result<Identity, AgentError> {
        let path = Identity::path(directory);
        if !path.exists() {
            return Err(AgentError::NotEnrolled);
        }
        serde_json::from_slice(&read_private(&path)?).map_err(AgentError::damaged(&path))
    }

    fn write(&self, directory: &Path) -> Result<(), AgentError> {
        let text = serde_json::to_vec_pretty(self).expect("texts and numbers");
        write_private(&Identity::path(directory), &text)
    }

    fn tls(&self) -> Result<Arc<ClientConfig>, AgentError> {
        let certificate = CertificateDer::from(self.certificate.0.clone());
        let key = PrivatePkcs8KeyDer::from(self.key.0.clone()).into();
        tls::client(&CertificateDer::from(self.authority.0.clone()), certificate, key)
    }
}

/// Returns whether the host has a certificate in this directory.
pub fn is_enrolled(state_directory: &Path) -> bool {
    Identity::path(state_directory).exists()
}

/// Redeems `token` at the manager for a certificate, and writes it. Returns the host's name.
///
/// # Errors
/// The text is no token, the manager can't be reached, is not the one of the token, or refuses.
pub fn enrol(state_directory: &Path, manager: &str, token: &str) -> Result<String, AgentError> {
    let token = Token::decode(token)?;
    let config = tls::enrolment(token.authority)?;
    let key = new_key();
    let public = Binary(key.der_bytes().to_vec());
    let purpose = Purpose::Enrol { secret: Binary(token.secret.to_vec()), key: public };
    let greeted = runtime(manager)?.block_on(greet(manager, config, purpose));
    let (welcome, _) = greeted?;
    let (Some(certificate), Some(authority)) = (welcome.certificate, welcome.authority) else {
        return Err(AgentError::Refused {
            manager: manager.to_owned(),
            reason: "it sent no certificate".to_owned(),
        });
    };
    let identity = Identity {
        manager: manager.to_owned(),
        host: welcome.host,
        authority,
        certificate,
        key: Binary(key.serialize_der()),
        expires_s: welcome.expires_s,
        renew_s: welcome.renew_s,
    };
    identity.write(state_directory)?;
    Ok(identity.host)
}

/// Serves the manager until `stop` is set. Connections that break are made again.
///
/// # Errors
/// The host is not enrolled, or its file can't be read.
pub fn run(
    options: &AgentOptions,
    handler: Arc<dyn Handler>,
    stop: &AtomicBool,
) -> Result<(), AgentError> {
    let mut identity = Identity::read(&options.state_directory)?;
    if let Some(manager) = &options.manager {
        identity.manager.clone_from(manager);
    }
    let agent = Arc::new(Agent {
        tls: Mutex::new(identity.tls()?),
        manager: identity.manager.clone(),
        address: options.address.clone(),
        handler,
        tunnels: Arc::new(Semaphore::new(TUNNELS_MAX)),
    });
    let runtime = runtime(&identity.manager)?;
    runtime.block_on(async {
        for _ in 0..CHANNELS {
            tokio::spawn(keep_channel(agent.clone()));
        }
        let mut next_attempt_s = 0;
        while !stop.load(Relaxed) {
            if now_s() >= identity.renew_s.max(next_attempt_s) {
                match renew(&agent, &mut identity, &options.state_directory).await {
                    Ok(()) => tracing::info!(until_s = identity.expires_s, "certificate renewed"),
                    Err(error) => tracing::warn!(%error, "the certificate was not renewed"),
                }
                next_attempt_s = now_s() + 1;
            }
            sleep(TICK).await;
        }
    });
    // A handler that is in a call may take long; its reply has no reader any more.
    runtime.shutdown_background();
    Ok(())
}

fn runtime(manager: &str) -> Result<tokio::runtime::Runtime, AgentError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|source| AgentError::Connection { manager: manager.to_owned(), source })
}

struct Agent {
    tls: Mutex<Arc<ClientConfig>>,
    manager: String,
    address: Option<String>,
    handler: Arc<dyn Handler>,
    tunnels: Arc<Semaphore>,
}

impl Agent {
    fn tls(&self) -> Arc<ClientConfig> {
        self.tls.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Replaces the certificate and its key by new ones.
async fn renew(agent: &Agent, identity: &mut Identity, directory: &Path) -> Result<(), AgentError> {
    let key = new_key();
    let purpose = Purpose::Renew { key: Binary(key.der_bytes().to_vec()) };
    let (welcome, _) = greet(&agent.manager, agent.tls(), purpose).await?;
    let Some(certificate) = welcome.certificate else { return Err(AgentError::NotEnrolled) };
    identity.certificate = certificate;
    identity.key = Binary(key.serialize_der());
    (identity.expires_s, identity.renew_s) = (welcome.expires_s, welcome.renew_s);
    identity.write(directory)?;
    *agent.tls.lock().unwrap_or_else(PoisonError::into_inner) = identity.tls()?;
    Ok(())
}

/// Connects and greets. Returns the manager's answer.
async fn greet(
    manager: &str,
    config: Arc<ClientConfig>,
    purpose: Purpose,
) -> Result<(Welcome, Stream), AgentError> {
    let exchange = async {
        let stream = TcpStream::connect(manager).await?;
        stream.set_nodelay(true)?;
        keep_alive(&stream)?;
        let mut stream = TlsConnector::from(config).connect(tls::manager_name(), stream).await?;
        let hello = serde_json::to_vec(&Hello { version: VERSION, purpose });
        frame::write(&mut stream, Kind::Hello, &hello.expect("texts and numbers")).await?;
        let answer = frame::read(&mut stream, HELLO_MAX).await?;
        Ok((answer, stream))
    };
    let connection = |source| AgentError::Connection { manager: manager.to_owned(), source };
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

/// Keeps one connection that waits for calls.
async fn keep_channel(agent: Arc<Agent>) {
    let mut pause = PAUSE_MIN;
    loop {
        let purpose = Purpose::Channel { address: agent.address.clone() };
        let refused = match greet(&agent.manager, agent.tls(), purpose).await {
            Ok((welcome, stream)) => {
                tracing::debug!(host = welcome.host, "connected");
                pause = PAUSE_MIN;
                match serve(&agent, stream).await {
                    // The connection is a tunnel now: another one takes its place at once.
                    Ok(()) => continue,
                    Err(error) => tracing::debug!(%error, "the connection has ended"),
                }
                false
            }
            Err(error) => {
                tracing::warn!(%error, "not connected to the manager");
                matches!(error, AgentError::Refused { .. })
            }
        };
        sleep(if refused { PAUSE_REFUSED } else { pause }).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

/// Answers the manager. Returns when the connection has become a tunnel.
async fn serve(agent: &Arc<Agent>, mut stream: Stream) -> io::Result<()> {
    loop {
        let read = timeout(SILENCE_MAX, frame::read(&mut stream, PAYLOAD_MAX)).await;
        let (kind, request) = read.map_err(|_| io::ErrorKind::TimedOut)??;
        match kind {
            Kind::Ping => frame::write(&mut stream, Kind::Pong, &[]).await?,
            Kind::Call => {
                let handler = agent.handler.clone();
                let reply = tokio::task::spawn_blocking(move || handler.call(&request));
                let reply = reply.await.map_err(io::Error::other)?;
                frame::write(&mut stream, Kind::Reply, &reply).await?;
            }
            Kind::Open => match open(agent, request).await {
                Ok((permit, local)) => {
                    frame::write(&mut stream, Kind::Opened, &[]).await?;
                    tokio::spawn(async move {
                        let mut local = local;
                        // Either side may end at any time.
                        let _ = tokio::io::copy_bidirectional(&mut stream, &mut local).await;
                        drop(permit);
                    });
                    return Ok(());
                }
                Err(error) => {
                    frame::write(&mut stream, Kind::Failed, error.to_string().as_bytes()).await?;
                }
            },
            _ => return Err(io::Error::new(io::ErrorKind::InvalidData, "an unexpected message")),
        }
    }
}

async fn open(
    agent: &Agent,
    request: Vec<u8>,
) -> io::Result<(tokio::sync::OwnedSemaphorePermit, UnixStream)> {
    let permit = agent.tunnels.clone().try_acquire_owned();
    let permit = permit.map_err(|_| io::Error::other("too many streams are open on this host"))?;
    let handler = agent.handler.clone();
    let local = tokio::task::spawn_blocking(move || handler.open(&request));
    let local = local.await.map_err(io::Error::other)??;
    local.set_nonblocking(true)?;
    Ok((permit, UnixStream::from_std(local)?))
}

/// Lets the system notice that the peer's machine is gone.
pub fn keep_alive(stream: &TcpStream) -> io::Result<()> {
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, KEEP_ALIVE_IDLE)?;
    sockopt::set_tcp_keepintvl(stream, KEEP_ALIVE_INTERVAL)?;
    sockopt::set_tcp_keepcnt(stream, 3)?;
    Ok(())
}
