//! The HTTP server: sockets, connections and their bounds. It runs in one thread with its own
//! runtime, so it never delays packets.
//!
//! * Bounds on connections: `control.connections` on the Unix socket, as many on `control.listen`
//!   and as many on `control.metrics_listen`; `page.connections` on `page.listen`; those of a
//!   listener with TLS. Others wait in the kernel.
//! * A handshake of TLS within 5 s.
//! * One request per connection: its head within 5 s and 16 KiB, its body within 30 s and 64 KiB.
//! * A client that reads nothing of a response for 10 s is disconnected.

use crate::entry::{Peer, TlsListener};
use crate::guard::{Rules, guard};
use crate::page::{self, PageAccess, TlsError};
use crate::router_client::RouterClient;
use crate::{Programs, State, openapi};
use axum::Router;
use axum::http::Request;
use axum::middleware::from_fn_with_state;
use core::future::Future;
use core::pin::Pin;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use core::task::{Context, Poll, ready};
use core::time::Duration;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use nw_api::config::{Control, Page};
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
use tokio::time::{Instant, Sleep, sleep, timeout};
use tokio_rustls::TlsAcceptor;

const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
const HEAD_BYTES_MAX: usize = 16 * 1024;
const STALL_TIMEOUT: Duration = Duration::from_secs(10);
/// At the end, responses in progress get this long, such as the one to the command that stops the
/// program.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(300);
/// Pause after a failed accept: file descriptors may be exhausted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// Errors of [`serve`].
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// A socket can't be opened.
    #[error("can't listen on {address}: {error}")]
    Listen {
        /// Path or address of the socket.
        address: String,
        /// Error of the operating system.
        error: io::Error,
    },
    /// The path exists and is not a socket.
    #[error("{} exists already and is not a socket", .0.display())]
    NotASocket(PathBuf),
    /// Another router listens on the path.
    #[error("{} is in use: another router is running", .0.display())]
    InUse(PathBuf),
    /// The token can't be read.
    #[error("can't read control.token_file {}: {reason}", path.display())]
    Token {
        /// Path of the file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A page without an address.
    #[error("the page has no address: give one, such as 127.0.0.1:6390")]
    NoAddress,
    /// The page's certificate can't be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The thread can't be started.
    #[error("can't start the control thread: {0}")]
    Thread(io::Error),
}

/// A running server. Stops when dropped.
#[derive(Debug)]
pub struct Server {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    path: Option<PathBuf>,
    addresses: Vec<String>,
}

impl Server {
    /// Returns the path and the addresses on which it listens, with the ports chosen by the system.
    pub fn addresses(&self) -> &[String] {
        &self.addresses
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

/// Opens the sockets and serves a router's REST interface in a thread. `path` is the path of the
/// Unix socket, if there is to be one; `inherited` is one that systemd has opened.
///
/// # Errors
/// If a socket, the token file or the thread can't be had.
pub fn serve(
    config: &Control,
    path: Option<&Path>,
    inherited: Option<UnixListener>,
    handle: Handle,
    programs: Programs,
    page: &Page,
) -> Result<Server, ServeError> {
    let access = page_access(page, "router")?;
    let state = State {
        router: RouterClient::new(handle),
        logs: programs.logs,
        pubsub: programs.pubsub,
        face_metrics: config.face_metrics,
        events: Arc::default(),
        page: access.clone(),
    };
    let page = access.map(|access| (page, access));
    serve_paths_and_page(config, path, inherited, openapi::router(state), page)
}

/// Returns the access control of a page. `None` if no page is configured. `program`: router,
/// network or balancer.
///
/// # Errors
/// If the token file can't be read.
pub fn page_access(
    page: &Page,
    program: &'static str,
) -> Result<Option<Arc<PageAccess>>, ServeError> {
    if page.listen.is_empty() {
        return Ok(None);
    }
    let token = page.token_file.as_deref().map(read_token).transpose()?;
    Ok(Some(PageAccess::new(page, program, token)?))
}

/// Serves any paths, with the same bounds and access control as [`serve`].
///
/// # Errors
/// As [`serve`].
pub fn serve_paths(
    config: &Control,
    path: Option<&Path>,
    inherited: Option<UnixListener>,
    router: Router,
) -> Result<Server, ServeError> {
    serve_paths_and_page(config, path, inherited, router, None)
}

/// Serves any paths as [`serve_paths`] does, and a page in front of them.
///
/// # Errors
/// As [`serve`].
pub fn serve_paths_and_page(
    config: &Control,
    path: Option<&Path>,
    inherited: Option<UnixListener>,
    router: Router,
    page: Option<(&Page, Arc<PageAccess>)>,
) -> Result<Server, ServeError> {
    serve_with_tls(config, (path, inherited), router, page, None)
}

/// Serves any paths as [`serve_paths_and_page`] does, and by TLS as well. `unix` is the path of the
/// Unix socket and one that systemd has opened.
///
/// # Errors
/// As [`serve`].
pub fn serve_with_tls(
    config: &Control,
    unix: (Option<&Path>, Option<UnixListener>),
    router: Router,
    page: Option<(&Page, Arc<PageAccess>)>,
    tls: Option<TlsListener>,
) -> Result<Server, ServeError> {
    let (path, inherited) = unix;
    let token = config.token_file.as_deref().map(read_token).transpose()?;
    let own_path = path.filter(|_| inherited.is_none());
    let unix = match (inherited, path) {
        (Some(socket), _) => Some(socket),
        (None, Some(path)) => Some(bind_unix(path, config.mode.0)?),
        (None, None) => None,
    };
    let mut addresses = Vec::new();
    if let Some(socket) = &unix {
        socket.set_nonblocking(true).map_err(listen_error(&"the control socket"))?;
        addresses.extend(path.map(|path| path.display().to_string()));
    }
    let mut tcp = bind_tcp(config, token.as_ref(), &mut addresses)?;
    let mut limits = Limits::new(config.connections);
    if let Some((page, access)) = page {
        tcp.extend(bind_page(page, &access)?);
        addresses.push(access.url());
        limits.page = semaphore(page.connections);
    }
    if let Some(tls) = tls {
        let (local, socket) = bind(&tls.address)?;
        addresses.push(format!("https://{local}"));
        limits.tls = semaphore(tls.connections);
        tcp.push((socket, Rules::Tls(tls.config)));
    }
    let (stop, stopped) = oneshot::channel();
    let thread = std::thread::Builder::new()
        .name("control".into())
        .spawn(move || run(unix, tcp, &router, limits, stopped))
        .map_err(ServeError::Thread)?;
    Ok(Server {
        stop: Some(stop),
        thread: Some(thread),
        path: own_path.map(Path::to_owned),
        addresses,
    })
}

fn listen_error(address: &dyn core::fmt::Display) -> impl Fn(io::Error) -> ServeError + use<> {
    let address = address.to_string();
    move |error| ServeError::Listen { address: address.clone(), error }
}

/// Opens the listeners of a page.
fn bind_page(
    page: &Page,
    access: &Arc<PageAccess>,
) -> Result<Vec<(std::net::TcpListener, Rules)>, ServeError> {
    let mut listeners = Vec::new();
    for address in &page.listen {
        let (local, socket) = bind(address)?;
        access.set_address(local);
        listeners.push((socket, Rules::Page(Arc::clone(access))));
    }
    Ok(listeners)
}

fn bind(address: &SocketAddr) -> Result<(SocketAddr, std::net::TcpListener), ServeError> {
    let bind = || {
        let socket = std::net::TcpListener::bind(address)?;
        socket.set_nonblocking(true)?;
        Ok((socket.local_addr()?, socket))
    };
    bind().map_err(listen_error(address))
}

/// Opens the TCP listeners, and appends their addresses.
fn bind_tcp(
    config: &Control,
    token: Option<&Arc<str>>,
    addresses: &mut Vec<String>,
) -> Result<Vec<(std::net::TcpListener, Rules)>, ServeError> {
    let control = config.listen.iter().map(|address| (address, Rules::Control(token.cloned())));
    let metrics = config.metrics_listen.iter();
    let metrics =
        metrics.map(|address| (address, Rules::Metrics { loopback: address.ip().is_loopback() }));
    let mut listeners = Vec::new();
    for (address, rules) in control.chain(metrics) {
        let (local, socket) = bind(address)?;
        if matches!(rules, Rules::Control(None)) {
            tracing::warn!(
                "control.listen {local} serves /metrics, /healthz and /readyz only, as there is no \
                 control.token_file; control.metrics_listen serves the same without this warning"
            );
        }
        addresses.push(local.to_string());
        listeners.push((socket, rules));
    }
    Ok(listeners)
}

fn semaphore(connections: u32) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(connections as usize))
}

/// Bounds on connections. They are separate, so that monitoring can't use up the connections for
/// commands.
struct Limits {
    unix: Arc<Semaphore>,
    control: Arc<Semaphore>,
    metrics: Arc<Semaphore>,
    page: Arc<Semaphore>,
    tls: Arc<Semaphore>,
}

impl Limits {
    fn new(connections: u32) -> Self {
        Limits {
            unix: semaphore(connections),
            control: semaphore(connections),
            metrics: semaphore(connections),
            page: semaphore(connections),
            tls: semaphore(connections),
        }
    }
}

/// Runs the server until `stopped` completes or its sender is dropped.
fn run(
    unix: Option<UnixListener>,
    tcp: Vec<(std::net::TcpListener, Rules)>,
    router: &Router,
    limits: Limits,
    stopped: oneshot::Receiver<()>,
) {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return tracing::error!(%error, "the control server can't run"),
    };
    runtime.block_on(async move {
        let open_connections = Arc::new(AtomicUsize::new(0));
        if let Err(error) = listen(unix, tcp, router, &limits, &open_connections) {
            return tracing::error!(%error, "the control server can't run");
        }
        let _ = stopped.await;
        let deadline = Instant::now() + DRAIN_TIMEOUT;
        while open_connections.load(Relaxed) > 0 && Instant::now() < deadline {
            sleep(Duration::from_millis(5)).await;
        }
    });
    // Captures and slow clients are cut off: the program is stopping.
    runtime.shutdown_background();
}

fn listen(
    unix: Option<UnixListener>,
    tcp: Vec<(std::net::TcpListener, Rules)>,
    router: &Router,
    limits: &Limits,
    open_connections: &Arc<AtomicUsize>,
) -> io::Result<()> {
    if let Some(socket) = unix {
        let socket = tokio::net::UnixListener::from_std(socket)?;
        let router = router.clone().layer(from_fn_with_state(Rules::default(), guard));
        tokio::spawn(accept(
            router,
            Arc::clone(&limits.unix),
            Arc::clone(open_connections),
            move |context| socket.poll_accept(context).map_ok(|(stream, _)| stream),
            |stream: tokio::net::UnixStream| {
                let peer = Peer(stream.peer_cred().ok().map(|peer| peer.uid()));
                core::future::ready(Ok((stream, peer)))
            },
        ));
    }
    for (socket, rules) in tcp {
        let socket = tokio::net::TcpListener::from_std(socket)?;
        let (permits, router) = match &rules {
            Rules::Metrics { .. } => (&limits.metrics, router.clone()),
            Rules::Page(access) => (&limits.page, page::router(Arc::clone(access), router.clone())),
            Rules::Tls(_) => (&limits.tls, router.clone()),
            Rules::Unix | Rules::Control(_) => (&limits.control, router.clone()),
        };
        let acceptor = match &rules {
            Rules::Tls(config) => Some(TlsAcceptor::from(Arc::clone(config))),
            Rules::Page(access) => access.tls().map(TlsAcceptor::from),
            _ => None,
        };
        let router = router.layer(from_fn_with_state(rules, guard));
        let (permits, open_connections) = (Arc::clone(permits), Arc::clone(open_connections));
        let poll = move |context: &mut Context<'_>| {
            socket.poll_accept(context).map_ok(|(stream, _)| stream)
        };
        match acceptor {
            None => {
                let plain = |stream| core::future::ready(Ok((stream, Peer::default())));
                tokio::spawn(accept(router, permits, open_connections, poll, plain));
            }
            Some(acceptor) => {
                let shake = move |stream| {
                    let handshake = acceptor.accept(stream);
                    async { Ok((timeout(HEAD_TIMEOUT, handshake).await??, Peer::default())) }
                };
                tokio::spawn(accept(router, permits, open_connections, poll, shake));
            }
        }
    }
    Ok(())
}

/// Accepts connections. `prepare` returns the stream of a connection, and its peer.
async fn accept<S, T, F>(
    router: Router,
    permits: Arc<Semaphore>,
    open_connections: Arc<AtomicUsize>,
    poll: impl Fn(&mut Context<'_>) -> Poll<io::Result<S>>,
    prepare: impl Fn(S) -> F,
) where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    F: Future<Output = io::Result<(T, Peer)>> + Send + 'static,
{
    loop {
        let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { return };
        match core::future::poll_fn(&poll).await {
            Ok(stream) => {
                let (router, open_connections) = (router.clone(), Arc::clone(&open_connections));
                let prepared = prepare(stream);
                open_connections.fetch_add(1, Relaxed);
                tokio::spawn(async move {
                    match prepared.await {
                        Ok((stream, peer)) => serve_connection(stream, peer, router).await,
                        Err(error) => tracing::debug!(%error, "a TLS handshake failed"),
                    }
                    open_connections.fetch_sub(1, Relaxed);
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

async fn serve_connection<T>(stream: T, peer: Peer, router: Router)
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let io = TokioIo::new(StallTimeout { stream, stall_timer: None });
    let service = PeerService { service: TowerToHyperService::new(router), peer };
    let result = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(HEAD_BYTES_MAX)
        .keep_alive(false)
        .serve_connection(io, service)
        .await;
    if let Err(error) = result {
        tracing::debug!(%error, "a control connection ended with an error");
    }
}

/// Adds the peer of a connection to each of its requests.
struct PeerService {
    service: TowerToHyperService<Router>,
    peer: Peer,
}

impl Service<Request<Incoming>> for PeerService {
    type Response = <TowerToHyperService<Router> as Service<Request<Incoming>>>::Response;
    type Error = <TowerToHyperService<Router> as Service<Request<Incoming>>>::Error;
    type Future = <TowerToHyperService<Router> as Service<Request<Incoming>>>::Future;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        request.extensions_mut().insert(self.peer);
        self.service.call(request)
    }
}

/// A stream that fails if its peer reads nothing for [`STALL_TIMEOUT`].
struct StallTimeout<S> {
    stream: S,
    stall_timer: Option<Pin<Box<Sleep>>>,
}

impl<S> StallTimeout<S> {
    fn check_stall<T>(
        &mut self,
        context: &mut Context<'_>,
        result: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if result.is_ready() {
            self.stall_timer = None;
            return result;
        }
        let timer = self.stall_timer.get_or_insert_with(|| Box::pin(sleep(STALL_TIMEOUT)));
        ready!(timer.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for StallTimeout<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for StallTimeout<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.check_stall(context, result)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.stream).poll_flush(context);
        self.check_stall(context, result)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.stream).poll_shutdown(context);
        self.check_stall(context, result)
    }
}

fn read_token(path: &Path) -> Result<Arc<str>, ServeError> {
    let token = nw_api::config::file::read_token(path);
    token
        .map(Into::into)
        .map_err(|error| ServeError::Token { path: error.path, reason: error.reason })
}

/// Creates a Unix socket with its permissions from the first moment. Replaces a socket file without
/// a listener.
fn bind_unix(path: &Path, mode: u32) -> Result<UnixListener, ServeError> {
    let failed = listen_error(&path.display());
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(&failed)?;
    }
    if let Ok(metadata) = fs::symlink_metadata(path) {
        if !metadata.file_type().is_socket() {
            return Err(ServeError::NotASocket(path.to_owned()));
        }
        match UnixStream::connect(path) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                fs::remove_file(path).map_err(&failed)?;
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Ok(_) => return Err(ServeError::InUse(path.to_owned())),
            Err(error) => return Err(failed(error)),
        }
    }
    let bind = || {
        let flags = SocketFlags::CLOEXEC;
        let socket =
            rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        // Linux gives the file the permissions of the socket, so there is no gap between bind and
        // chmod.
        rustix::fs::fchmod(&socket, Mode::from_raw_mode(mode))?;
        rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
        fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
        rustix::net::listen(&socket, 128)?;
        Ok(UnixListener::from(socket))
    };
    bind().map_err(&failed)
}
