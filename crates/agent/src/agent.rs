//! The host's side where the manager calls: keeps a few connections to it, answers calls, opens
//! tunnels, and renews the certificate.

use crate::dial::{Backoff, Stream, greet, runtime};
use crate::frame::{self, Kind, PAYLOAD_MAX};
use crate::identity::Identity;
use crate::message::Purpose;
use crate::{AgentError, now_s};
use rustls::ClientConfig;
use std::io;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::UnixStream;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

/// Connections that wait for calls: as many calls at a time.
const CHANNELS: usize = 8;
/// Tunnels at a time.
const TUNNELS_MAX: usize = 64;
/// The manager asks every 5 s whether the agent is there; silent for longer, it is gone.
const SILENCE_MAX: Duration = Duration::from_secs(20);
/// How often the stop flag and the age of the certificate are looked at.
const TICK: Duration = Duration::from_millis(100);

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
                match identity.renew(&options.state_directory).await {
                    Ok(tls) => {
                        *agent.tls.lock().unwrap_or_else(PoisonError::into_inner) = tls;
                        tracing::info!(until_s = identity.expires_s, "certificate renewed");
                    }
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

/// Keeps one connection that waits for calls.
async fn keep_channel(agent: Arc<Agent>) {
    let mut backoff = Backoff::default();
    loop {
        let purpose = Purpose::Channel { address: agent.address.clone() };
        let pause = match greet(&agent.manager, agent.tls(), purpose).await {
            Ok((welcome, stream)) => {
                tracing::debug!(host = welcome.host, "connected");
                backoff = Backoff::default();
                match serve(&agent, stream).await {
                    // The connection is a tunnel now: another one takes its place at once.
                    Ok(()) => continue,
                    Err(error) => tracing::debug!(%error, "the connection has ended"),
                }
                backoff.next_pause(None)
            }
            Err(error) => {
                tracing::warn!(%error, "not connected to the manager");
                backoff.next_pause(Some(&error))
            }
        };
        sleep(pause).await;
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
