//! Sockets, connections and their bounds. One thread with its own runtime: whatever happens here, packets are forwarded elsewhere.
//!
//! * At most `control.connections` connections at one time by the unix socket, as many by `control.listen` and as many by
//!   `control.metrics_listen`; others wait in the kernel.
//! * One request a connection; its head within 5 s and 16 KiB, its body within 30 s and 64 KiB.
//! * A client that takes nothing of an answer for 10 s is cut off.

use crate::asker::Asker;
use crate::guard::{Rules, guard};
use crate::logs::LogSwitch;
use crate::{State, openapi};
use axum::Router;
use axum::middleware::from_fn_with_state;
use core::future::Future;
use core::pin::Pin;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use core::task::{Context, Poll, ready};
use core::time::Duration;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use nw_api::config::Control;
use nw_router::Handle;
use rustix::fs::Mode;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{Semaphore, oneshot};
use tokio::time::{Instant, Sleep, sleep};

const HEAD_MAX: Duration = Duration::from_secs(5);
const HEAD_BYTES_MAX: usize = 16 * 1024;
const STALLED_MAX: Duration = Duration::from_secs(10);
/// At the end, answers that are under way have this long: the one to the command that ends the program is among them.
const LAST_ANSWERS_MAX: Duration = Duration::from_millis(300);
/// After an accept that failed: descriptors may be used up.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// Why the control server can't start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// A socket.
    #[error("can't listen on {place}: {error}")]
    Listen {
        /// Where.
        place: String,
        /// Why.
        error: io::Error,
    },
    /// There is something that is no socket.
    #[error("{} is there already and is no socket", .0.display())]
    NotASocket(PathBuf),
    /// Another router listens there.
    #[error("{} is in use: another router is running", .0.display())]
    InUse(PathBuf),
    /// The token.
    #[error("can't read control.token_file {}: {why}", path.display())]
    Token {
        /// Which.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// A thread.
    #[error("can't start the control thread: {0}")]
    Thread(io::Error),
}

/// A running server; ends when it is let go.
#[derive(Debug)]
pub struct Server {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    path: Option<PathBuf>,
    places: Vec<String>,
}

impl Server {
    /// Where it listens: a path, or addresses with the ports they got.
    pub fn places(&self) -> &[String] {
        &self.places
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            let _ = fs::remove_file(path);
        }
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Opens the sockets and serves a router's REST there in a thread. `path` is the unix socket's, if there is to be one; `inherited` one that systemd opened.
///
/// # Errors
/// What can't be had.
pub fn serve(
    config: &Control,
    path: Option<&Path>,
    inherited: Option<UnixListener>,
    handle: Handle,
    logs: Arc<dyn LogSwitch>,
) -> Result<Server, ServeError> {
    let state = State { asker: Asker::new(handle), logs, face_metrics: config.face_metrics };
    serve_paths(config, path, inherited, openapi::router(state))
}

/// As [`serve`], for whatever paths there are: the same bounds, and the same rules for who may ask.
///
/// # Errors
/// What can't be had.
pub fn serve_paths(
    config: &Control,
    path: Option<&Path>,
    inherited: Option<UnixListener>,
    router: Router,
) -> Result<Server, ServeError> {
    let mut places = Vec::new();
    let failed = |place: &dyn core::fmt::Display| {
        let place = place.to_string();
        move |error| ServeError::Listen { place, error }
    };
    let token = config.token_file.as_deref().map(read_token).transpose()?;
    let own_path = path.filter(|_| inherited.is_none());
    let unix = match (inherited, path) {
        (Some(socket), _) => Some(socket),
        (None, Some(path)) => Some(bind_unix(path, config.mode.0)?),
        (None, None) => None,
    };
    if let Some(socket) = &unix {
        socket.set_nonblocking(true).map_err(failed(&"the control socket"))?;
        places.extend(path.map(|path| path.display().to_string()));
    }
    let token = token.as_ref();
    let mut tcp = Vec::new();
    let control = config.listen.iter().map(|address| (address, Rules::Control(token.cloned())));
    let metrics = config.metrics_listen.iter();
    let metrics = metrics.map(|address| (address, Rules::Metrics { loopback: address.ip().is_loopback() }));
    for (address, rules) in control.chain(metrics) {
        let bind = |address: &SocketAddr| {
            let socket = std::net::TcpListener::bind(address)?;
            socket.set_nonblocking(true)?;
            Ok((socket.local_addr()?, socket))
        };
        let (local, socket) = bind(address).map_err(failed(address))?;
        if matches!(rules, Rules::Control(None)) {
            tracing::warn!(
                "control.listen {local} serves /metrics, /healthz and /readyz only, as there is no control.token_file; \
                 control.metrics_listen says the same without this line"
            );
        }
        places.push(local.to_string());
        tcp.push((socket, rules));
    }
    let connections = config.connections as usize;
    let (stop, stopped) = oneshot::channel();
    let thread = std::thread::Builder::new().name("control".into()).spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = match runtime {
            Ok(runtime) => runtime,
            Err(error) => return tracing::error!(%error, "the control server can't run"),
        };
        runtime.block_on(async move {
            let served = Arc::new(AtomicUsize::new(0));
            if let Err(error) = listen(unix, tcp, &router, connections, &served) {
                return tracing::error!(%error, "the control server can't run");
            }
            let _ = stopped.await;
            let end = Instant::now() + LAST_ANSWERS_MAX;
            while served.load(Relaxed) > 0 && Instant::now() < end {
                sleep(Duration::from_millis(5)).await;
            }
        });
        // Captures and slow readers are cut off: the program ends.
        runtime.shutdown_background();
    });
    Ok(Server {
        stop: Some(stop),
        thread: Some(thread.map_err(ServeError::Thread)?),
        path: own_path.map(Path::to_owned),
        places,
    })
}

fn listen(
    unix: Option<UnixListener>,
    tcp: Vec<(std::net::TcpListener, Rules)>,
    router: &Router,
    connections: usize,
    served: &Arc<AtomicUsize>,
) -> io::Result<()> {
    if let Some(socket) = unix {
        let socket = tokio::net::UnixListener::from_std(socket)?;
        let router = router.clone().layer(from_fn_with_state(Rules::default(), guard));
        tokio::spawn(accept(
            router,
            Arc::new(Semaphore::new(connections)),
            Arc::clone(served),
            move |context| socket.poll_accept(context).map_ok(|(stream, _)| stream),
        ));
    }
    // Readers of metrics can't take the connections that commands need.
    let (control, metrics) = (Arc::new(Semaphore::new(connections)), Arc::new(Semaphore::new(connections)));
    for (socket, rules) in tcp {
        let socket = tokio::net::TcpListener::from_std(socket)?;
        let permits = if matches!(rules, Rules::Metrics { .. }) { &metrics } else { &control };
        let router = router.clone().layer(from_fn_with_state(rules, guard));
        tokio::spawn(accept(router, Arc::clone(permits), Arc::clone(served), move |context| {
            socket.poll_accept(context).map_ok(|(stream, _)| stream)
        }));
    }
    Ok(())
}

async fn accept<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    router: Router,
    permits: Arc<Semaphore>,
    served: Arc<AtomicUsize>,
    poll: impl Fn(&mut Context<'_>) -> Poll<io::Result<S>>,
) {
    loop {
        let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { return };
        match core::future::poll_fn(&poll).await {
            Ok(stream) => {
                let (router, served) = (router.clone(), Arc::clone(&served));
                served.fetch_add(1, Relaxed);
                tokio::spawn(async move {
                    let io = TokioIo::new(Patient { stream, stalled: None });
                    let ended = http1::Builder::new()
                        .timer(TokioTimer::new())
                        .header_read_timeout(HEAD_MAX)
                        .max_buf_size(HEAD_BYTES_MAX)
                        .keep_alive(false)
                        .serve_connection(io, TowerToHyperService::new(router))
                        .await;
                    if let Err(error) = ended {
                        tracing::debug!(%error, "a control connection ended early");
                    }
                    served.fetch_sub(1, Relaxed);
                    drop(permit);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "can't accept a control connection");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// A stream whose peer may not stall what is written.
struct Patient<S> {
    stream: S,
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<S> Patient<S> {
    fn judge<T>(&mut self, context: &mut Context<'_>, done: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if done.is_ready() {
            self.stalled = None;
            return done;
        }
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(STALLED_MAX)));
        ready!(stalled.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let done = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.judge(context, done)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let done = Pin::new(&mut self.stream).poll_flush(context);
        self.judge(context, done)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let done = Pin::new(&mut self.stream).poll_shutdown(context);
        self.judge(context, done)
    }
}

fn read_token(path: &Path) -> Result<Arc<str>, ServeError> {
    let token = nw_api::config::file::read_token(path);
    token.map(Into::into).map_err(|error| ServeError::Token { path: error.path, why: error.why })
}

/// A unix socket that has its access rights from the moment it is there; takes the place of one that nobody listens on any more.
fn bind_unix(path: &Path, mode: u32) -> Result<UnixListener, ServeError> {
    let failed = |error: io::Error| ServeError::Listen { place: path.display().to_string(), error };
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    if let Ok(there) = fs::symlink_metadata(path) {
        if !there.file_type().is_socket() {
            return Err(ServeError::NotASocket(path.to_owned()));
        }
        match UnixStream::connect(path) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                fs::remove_file(path).map_err(failed)?;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Ok(_) => return Err(ServeError::InUse(path.to_owned())),
            Err(error) => return Err(failed(error)),
        }
    }
    let bind = || {
        let flags = SocketFlags::CLOEXEC;
        let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        // Linux gives the file the rights of the socket, so nobody gets in between bind and chmod.
        rustix::fs::fchmod(&socket, Mode::from_raw_mode(mode))?;
        rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
        fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
        rustix::net::listen(&socket, 128)?;
        Ok(UnixListener::from(socket))
    };
    bind().map_err(failed)
}
