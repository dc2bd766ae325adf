//! The manager's side: accepts agents, knows which host each is, and passes calls and tunnels to
//! them.
//!
//! One thread with an event loop owns all connections. Each is a task: until the peer has shown who
//! it is, it has few seconds and few bytes; after that it takes commands from its host's queue, one
//! at a time.

use crate::authority::Authority;
use crate::callers::{self, CallHandler};
use crate::frame::{self, HELLO_MAX, Kind, PAYLOAD_MAX};
use crate::groups::{self, Applicant, EnrolmentCounts, GroupFile, Groups};
use crate::message::{Binary, Hello, HelloVersion, NOT_A_HOST, Purpose, VERSION, Welcome};
use crate::registry::{Redemption, Registry};
use crate::{AgentError, HOSTS_MAX, now_s, tls};
use std::collections::{HashMap, VecDeque};
use std::future::{Future, poll_fn};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener as StdListener};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::{Notify, oneshot};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// Time for the handshake and the first message.
const HELLO_TIMEOUT: Duration = Duration::from_secs(5);
/// An agent that had nothing to do for this long is asked whether it is there.
const PING_INTERVAL: Duration = Duration::from_secs(5);
/// Time for its answer.
const PONG_TIMEOUT: Duration = Duration::from_secs(5);
/// Connections of unknown peers at a time, in all and from one address.
const UNKNOWN_MAX: usize = 64;
const UNKNOWN_OF_ADDRESS_MAX: usize = 16;
/// Connections of one host, tunnels included.
const CONNECTIONS_MAX: usize = 128;
/// Commands that wait for one host.
const QUEUE_MAX: usize = 256;
/// Lifetime of a host's certificate: 30 days. It is renewed after two thirds of it.
const CERTIFICATE_LIFETIME_S: u64 = 30 * 86_400;

type Stream = TlsStream<TcpStream>;
type ReplySender = SyncSender<Result<Vec<u8>, AgentError>>;

/// Where a hub listens and keeps its state.
pub struct HubOptions {
    /// Directory for the authority and the list of hosts; made if missing.
    pub state_directory: PathBuf,
    /// Address for agents.
    pub listen: SocketAddr,
    /// Lifetime of the certificates of hosts, seconds.
    pub certificate_lifetime_s: u64,
    /// Answers calls of hosts; `None`: hosts may not call.
    pub call_handler: Option<Arc<dyn CallHandler>>,
    /// Command that makes a token, for messages.
    pub token_command: &'static str,
    /// A group whose token is in a file, beside those of [`add_group`](crate::add_group).
    pub group: Option<GroupFile>,
    /// Counts attempts to enrol in groups.
    pub enrolment_counts: Arc<EnrolmentCounts>,
}

impl HubOptions {
    /// Returns options with certificates of 30 days.
    pub fn new(state_directory: PathBuf, listen: SocketAddr) -> Self {
        HubOptions {
            state_directory,
            listen,
            certificate_lifetime_s: CERTIFICATE_LIFETIME_S,
            call_handler: None,
            token_command: "nw network host add",
            group: None,
            enrolment_counts: Arc::default(),
        }
    }
}

/// A host as the manager sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostStatus {
    /// Name of the host.
    pub name: String,
    /// Whether it has redeemed its token.
    pub is_enrolled: bool,
    /// Connections of its agent at this moment.
    pub connections: usize,
    /// Address at which other hosts reach it, as its agent says.
    pub address: Option<String>,
}

/// Accepts agents. Ends when it is dropped.
pub struct Hub {
    shared: Arc<Shared>,
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    authority: Authority,
    registry: Mutex<Registry>,
    hosts: Mutex<HashMap<String, Arc<Channels>>>,
    unknown: Mutex<HashMap<IpAddr, usize>>,
    certificate_lifetime_s: u64,
    call_handler: Option<Arc<dyn CallHandler>>,
    token_command: &'static str,
    groups: Groups,
}

/// What is known of a peer after the handshake.
struct Peer<'a> {
    address: IpAddr,
    certificate: Option<&'a [u8]>,
    /// Identifies the TLS connection.
    binding: [u8; 32],
}

/// The connections of one host, and what waits for them.
#[derive(Default)]
struct Channels {
    queue: Mutex<VecDeque<Command>>,
    notify: Notify,
    connections: AtomicUsize,
    address: Mutex<Option<String>>,
}

/// What a channel is to do.
struct Command {
    action: Action,
    request: Vec<u8>,
    deadline: Instant,
    reply: ReplySender,
    is_repeated: bool,
}

enum Action {
    Call,
    Open(StdUnixStream),
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Hub {
    /// Opens the state directory and listens.
    ///
    /// # Errors
    /// The directory can't be used, or the address can't be bound.
    pub fn start(options: HubOptions) -> Result<Hub, AgentError> {
        let authority = Authority::open(&options.state_directory, now_s())?;
        let registry = Registry::open(&options.state_directory)?;
        let acceptor = TlsAcceptor::from(tls::server(&authority, now_s())?);
        let listen_error =
            |source| AgentError::Listen { address: options.listen.to_string(), source };
        let listener = StdListener::bind(options.listen).map_err(listen_error)?;
        listener.set_nonblocking(true).map_err(listen_error)?;
        let address = listener.local_addr().map_err(listen_error)?;
        let groups = Groups::new(
            &options.state_directory,
            options.group,
            options.token_command,
            options.enrolment_counts,
        );
        let shared = Arc::new(Shared {
            authority,
            groups,
            registry: Mutex::new(registry),
            hosts: Mutex::default(),
            unknown: Mutex::default(),
            certificate_lifetime_s: options.certificate_lifetime_s,
            call_handler: options.call_handler,
            token_command: options.token_command,
        });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(listen_error)?;
        let (stop, stopped) = oneshot::channel();
        let accept = accept(shared.clone(), listener, acceptor);
        let run = move || {
            runtime.block_on(async {
                let accepting = tokio::spawn(accept);
                // An error means that the sender was dropped: the end as well.
                let _ = stopped.await;
                accepting.abort();
            });
            // A handler that is in a call may take long; its reply has no reader any more.
            runtime.shutdown_background();
        };
        let thread = std::thread::Builder::new().name("agents".to_owned()).spawn(run);
        let thread = Some(thread.map_err(listen_error)?);
        Ok(Hub { shared, address, stop: Some(stop), thread })
    }

    /// Returns the address at which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns all hosts by name.
    pub fn hosts(&self) -> Vec<HostStatus> {
        let connected = lock(&self.shared.hosts);
        let listed = lock(&self.shared.registry).hosts().unwrap_or_default();
        let status = |(name, is_enrolled): (String, bool)| {
            let channels = connected.get(&name);
            HostStatus {
                name,
                is_enrolled,
                connections: channels.map_or(0, |found| found.connections.load(Relaxed)),
                address: channels.and_then(|found| lock(&found.address).clone()),
            }
        };
        listed.into_iter().map(status).collect()
    }

    /// Sends a request to a host's agent and returns its reply. A request may arrive twice if the
    /// connection breaks.
    ///
    /// # Errors
    /// The host is not connected, or does not answer within `limit`.
    pub fn call(
        &self,
        host: &str,
        request: Vec<u8>,
        limit: Duration,
    ) -> Result<Vec<u8>, AgentError> {
        self.command(host, Action::Call, request, limit)
    }

    /// Joins `local` to what the host's agent opens for `request`, and returns when that is open.
    ///
    /// # Errors
    /// As for [`Hub::call`]; or the agent can't open it.
    pub fn open(
        &self,
        host: &str,
        request: Vec<u8>,
        local: StdUnixStream,
        limit: Duration,
    ) -> Result<(), AgentError> {
        self.command(host, Action::Open(local), request, limit).map(drop)
    }

    fn command(
        &self,
        host: &str,
        action: Action,
        request: Vec<u8>,
        limit: Duration,
    ) -> Result<Vec<u8>, AgentError> {
        if request.len() > PAYLOAD_MAX {
            return Err(AgentError::RequestLength(request.len()));
        }
        let channels = lock(&self.shared.hosts).get(host).cloned();
        let channels = channels.filter(|found| found.connections.load(Relaxed) > 0);
        let Some(channels) = channels else {
            return Err(AgentError::NotConnected(host.to_owned()));
        };
        let (reply, received) = sync_channel(1);
        let deadline = Instant::now() + limit;
        let command = Command { action, request, deadline, reply, is_repeated: false };
        if !channels.put(command, false) {
            return Err(AgentError::Busy(host.to_owned()));
        }
        // The task reports the end of the limit itself; this one is for a command in the queue.
        match received.recv_timeout(limit + Duration::from_millis(100)) {
            Ok(result) => result,
            Err(RecvTimeoutError::Timeout) => Err(AgentError::Timeout(host.to_owned())),
            Err(RecvTimeoutError::Disconnected) => Err(AgentError::NotConnected(host.to_owned())),
        }
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It has panicked, or has ended: there is nothing to do in either case.
            let _ = thread.join();
        }
    }
}

impl Channels {
    /// Adds a command. Returns false if the queue is full.
    fn put(&self, command: Command, first: bool) -> bool {
        let mut queue = lock(&self.queue);
        if queue.len() >= QUEUE_MAX {
            return false;
        }
        match first {
            true => queue.push_front(command),
            false => queue.push_back(command),
        }
        self.notify.notify_one();
        true
    }

    /// Takes the next command whose time is not over.
    fn take(&self) -> Option<Command> {
        let mut queue = lock(&self.queue);
        let now = Instant::now();
        while let Some(command) = queue.pop_front() {
            if command.deadline > now {
                // One wake-up may stand for several commands.
                if !queue.is_empty() {
                    self.notify.notify_one();
                }
                return Some(command);
            }
        }
        None
    }
}

/// Counts a connection while it lives.
struct Connection(Arc<Channels>);

impl Connection {
    fn new(channels: Arc<Channels>) -> Option<Connection> {
        let before = channels.connections.fetch_add(1, Relaxed);
        let connection = Connection(channels);
        (before < CONNECTIONS_MAX).then_some(connection)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if self.0.connections.fetch_sub(1, Relaxed) == 1 {
            // No connection is left to take them: their callers learn it now.
            lock(&self.0.queue).clear();
        }
    }
}

/// Counts the connection of an unknown peer while it lives.
struct Unknown(Arc<Shared>, IpAddr);

impl Unknown {
    fn new(shared: &Arc<Shared>, peer: IpAddr) -> Option<Unknown> {
        let mut unknown = lock(&shared.unknown);
        let total: usize = unknown.values().sum();
        let count = unknown.entry(peer).or_default();
        if *count >= UNKNOWN_OF_ADDRESS_MAX || total >= UNKNOWN_MAX {
            return None;
        }
        *count += 1;
        Some(Unknown(shared.clone(), peer))
    }
}

impl Drop for Unknown {
    fn drop(&mut self) {
        let mut unknown = lock(&self.0.unknown);
        if let Some(count) = unknown.get_mut(&self.1) {
            *count -= 1;
            if *count == 0 {
                unknown.remove(&self.1);
            }
        }
    }
}

async fn accept(shared: Arc<Shared>, listener: StdListener, acceptor: TlsAcceptor) {
    let listener = TcpListener::from_std(listener).expect("inside of the event loop");
    loop {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of descriptors, as a rule: others may be closed meanwhile.
                tracing::warn!(%error, "an agent was not accepted");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let Some(unknown) = Unknown::new(&shared, peer.ip()) else {
            tracing::debug!(%peer, "too many connections of unknown peers: closed");
            continue;
        };
        let (shared, acceptor) = (shared.clone(), acceptor.clone());
        tokio::spawn(async move {
            let greeted =
                timeout(HELLO_TIMEOUT, greet(&shared, &acceptor, stream, peer.ip())).await;
            drop(unknown);
            match greeted {
                Ok(Ok(Some(greeted))) => serve_host(&shared, greeted).await,
                Ok(Ok(None)) => {}
                Ok(Err(error)) => tracing::debug!(%peer, %error, "not an agent"),
                Err(_) => tracing::debug!(%peer, "silent, and closed"),
            }
        });
    }
}

/// A host that has shown its certificate, on a connection that stays.
struct Greeted {
    host: String,
    connection: Connection,
    certificate: Vec<u8>,
    stream: Stream,
    /// Whether the host calls.
    is_caller: bool,
}

async fn serve_host(shared: &Shared, greeted: Greeted) {
    let Greeted { host, connection, certificate, mut stream, is_caller } = greeted;
    match shared.call_handler.as_ref().filter(|_| is_caller) {
        Some(handler) => {
            let has_right =
                || lock(&shared.registry).host_of(&certificate, now_s()).as_ref() == Some(&host);
            if let Err(error) = callers::serve(&mut stream, &host, handler, has_right).await {
                tracing::debug!(host, %error, "a connection has ended");
            }
        }
        None => serve(shared, &host, connection, &certificate, stream).await,
    }
    tracing::debug!(host, "a connection has ended");
}

/// Shakes hands and answers the first message. Returns the connection if it stays.
async fn greet(
    shared: &Shared,
    acceptor: &TlsAcceptor,
    mut stream: TcpStream,
    address: IpAddr,
) -> io::Result<Option<Greeted>> {
    if !callers::begin(&mut stream).await? {
        return Ok(None);
    }
    let mut stream = acceptor.accept(stream).await?;
    let certificates = stream.get_ref().1.peer_certificates();
    let certificate = certificates.and_then(|chain| chain.first()).map(|found| found.to_vec());
    let binding = tls::channel_binding(stream.get_ref().1).map_err(io::Error::other)?;
    let peer = Peer { address, certificate: certificate.as_deref(), binding };
    let (kind, payload) = frame::read(&mut stream, HELLO_MAX).await?;
    let no_greeting = || io::Error::new(io::ErrorKind::InvalidData, "no greeting");
    if kind != Kind::Hello {
        return Err(no_greeting());
    }
    let HelloVersion { version } = serde_json::from_slice(&payload).map_err(|_| no_greeting())?;
    let mut is_caller = false;
    let answered = match version {
        VERSION => {
            let hello: Hello = serde_json::from_slice(&payload).map_err(|_| no_greeting())?;
            is_caller = matches!(hello.purpose, Purpose::Caller);
            shared.answer(hello.purpose, &peer)
        }
        version => Err(format!(
            "the agent speaks version {version} of the protocol and the manager version \
             {VERSION}; install the same version of nw on both"
        )),
    };
    let (welcome, connection) = match answered {
        Ok(answer) => answer,
        Err(reason) => {
            tracing::info!(reason, "an agent was refused");
            frame::write(&mut stream, Kind::Refused, reason.as_bytes()).await?;
            return Ok(None);
        }
    };
    let text = serde_json::to_vec(&welcome).expect("texts and numbers");
    frame::write(&mut stream, Kind::Welcome, &text).await?;
    let host = welcome.host;
    Ok(connection.zip(certificate).map(|(connection, certificate)| Greeted {
        host,
        connection,
        certificate,
        stream,
        is_caller,
    }))
}

impl Shared {
    /// Returns the answer to a greeting, or the sentence that refuses it.
    fn answer(
        &self,
        purpose: Purpose,
        peer: &Peer<'_>,
    ) -> Result<(Welcome, Option<Connection>), String> {
        let add = self.token_command;
        let host = || {
            let found =
                peer.certificate.and_then(|found| lock(&self.registry).host_of(found, now_s()));
            found.ok_or_else(|| {
                format!(
                    "{NOT_A_HOST}, or the host was removed: enrol again with a new token (`{add}`)"
                )
            })
        };
        match purpose {
            Purpose::Enrol { secret, key } => {
                let redeemed = lock(&self.registry).redeem(&secret.0, now_s());
                let (reason, host) = match redeemed.map_err(|error| error.to_string())? {
                    Redemption::Valid(host) => {
                        let welcome = self.issue(host, &key.0, true)?;
                        let authority = Some(Binary(self.authority.certificate().to_vec()));
                        return Ok((Welcome { authority, ..welcome }, None));
                    }
                    Redemption::Used(host) => ("was used already, and serves once", host),
                    Redemption::Expired(host) => ("has expired", host),
                    Redemption::Unknown => (
                        "is not known: a later one replaced it, or its host was removed",
                        "NAME".to_owned(),
                    ),
                };
                Err(format!("the token {reason}; make a new one (`{add} {host}`)"))
            }
            Purpose::EnrolInGroup { host, key, proof } => {
                Ok((self.enrol_in_group(host, &key.0, &proof.0, peer)?, None))
            }
            Purpose::Renew { key } => {
                let host = host()?;
                let group = lock(&self.registry).group_of(&host);
                if let Some(group) = group
                    && !self.groups.has(&group).map_err(|error| error.to_string())?
                {
                    return Err(format!("there is no group {group} any more"));
                }
                Ok((self.issue(host, &key.0, false)?, None))
            }
            Purpose::Caller if self.call_handler.is_none() => Err(
                "hosts do not call this manager; is it that of a network, and this agent one of a \
                 balancer?"
                    .to_owned(),
            ),
            Purpose::Channel { .. } if self.call_handler.is_some() => {
                Err("this manager does not call hosts; is it a balancer, and this agent one of a \
                 network?"
                    .to_owned())
            }
            Purpose::Caller => self.connect(host()?, None),
            Purpose::Channel { address } => self.connect(host()?, address),
        }
    }

    /// Returns a certificate for a host of a group, and the proof that this is its manager.
    fn enrol_in_group(
        &self,
        host: String,
        key: &[u8],
        proof: &[u8],
        peer: &Peer<'_>,
    ) -> Result<Welcome, String> {
        let Peer { address, binding, .. } = peer;
        let applicant = Applicant { address: *address, host: &host, key, proof, binding };
        let admitted = self.groups.admit(&self.registry, &applicant, now_s())?;
        let welcome = self.issue(host, key, true)?;
        let authority = self.authority.certificate();
        let certificate = welcome.certificate.as_ref().map_or(&[][..], |found| &found.0);
        let answer = Binary(admitted.answer(authority, certificate).to_vec());
        Ok(Welcome { authority: Some(Binary(authority.to_vec())), proof: Some(answer), ..welcome })
    }

    /// Counts a connection of a host.
    fn connect(
        &self,
        host: String,
        address: Option<String>,
    ) -> Result<(Welcome, Option<Connection>), String> {
        let channels = {
            let mut hosts = lock(&self.hosts);
            if hosts.len() >= HOSTS_MAX {
                // Those of hosts that were forgotten.
                hosts.retain(|_, found| found.connections.load(Relaxed) > 0);
            }
            hosts.entry(host.clone()).or_default().clone()
        };
        *lock(&channels.address) = address;
        let connection = Connection::new(channels)
            .ok_or("the host has too many connections; is its agent running twice?")?;
        Ok((Welcome { host, ..Welcome::default() }, Some(connection)))
    }

    /// Signs a certificate for a host and lists it.
    fn issue(&self, host: String, key: &[u8], is_new: bool) -> Result<Welcome, String> {
        let now_s = now_s();
        let lifetime_s = match lock(&self.registry).group_of(&host) {
            Some(_) => self.certificate_lifetime_s.min(groups::LIFETIME_S),
            None => self.certificate_lifetime_s,
        };
        let signed = self.authority.sign(&host, key, now_s, lifetime_s);
        let certificate = signed.ok_or("the public key is not a point on P-256")?;
        let expires_s = now_s.saturating_add(lifetime_s);
        let listed = lock(&self.registry).add_certificate(&host, &certificate, expires_s, is_new);
        if !listed.map_err(|error| error.to_string())? {
            return Err("the host was forgotten".to_owned());
        }
        tracing::info!(host, expires_s, "a certificate was signed");
        let certificate = Some(Binary(certificate.to_vec()));
        let renew_s = now_s.saturating_add(lifetime_s - lifetime_s / 3);
        Ok(Welcome { host, certificate, expires_s, renew_s, ..Welcome::default() })
    }
}

/// Passes commands to an agent until the connection ends, is a tunnel, or has lost its right.
async fn serve(
    shared: &Shared,
    host: &str,
    connection: Connection,
    certificate: &[u8],
    mut stream: Stream,
) {
    let channels = &connection.0;
    loop {
        if lock(&shared.registry).host_of(certificate, now_s()).as_deref() != Some(host) {
            return;
        }
        let Some(command) = channels.take() else {
            match wait(channels, &mut stream).await {
                true => continue,
                false => return,
            }
        };
        let kind = match command.action {
            Action::Call => Kind::Call,
            Action::Open(_) => Kind::Open,
        };
        let exchange = exchange(&mut stream, kind, &command.request);
        match timeout_at(command.deadline, exchange).await {
            Ok(Ok((Kind::Reply, reply))) => drop(command.reply.try_send(Ok(reply))),
            Ok(Ok((Kind::Opened, _))) => {
                let Action::Open(local) = command.action else { return };
                let _ = command.reply.try_send(Ok(Vec::new()));
                return join(stream, local).await;
            }
            Ok(Ok((Kind::Failed, reason))) => {
                let reason = String::from_utf8_lossy(&reason).into_owned();
                let error = AgentError::Tunnel { host: host.to_owned(), reason };
                let _ = command.reply.try_send(Err(error));
            }
            // The connection was dead: another one takes it.
            Ok(Err(_)) if !command.is_repeated && channels.connections.load(Relaxed) > 1 => {
                channels.put(Command { is_repeated: true, ..command }, true);
                return;
            }
            Ok(_) => {
                let _ = command.reply.try_send(Err(AgentError::NotConnected(host.to_owned())));
                return;
            }
            // A reply that comes later would be taken for that of another call.
            Err(_) => {
                let _ = command.reply.try_send(Err(AgentError::Timeout(host.to_owned())));
                return;
            }
        }
    }
}

async fn exchange(stream: &mut Stream, kind: Kind, request: &[u8]) -> io::Result<(Kind, Vec<u8>)> {
    frame::write(stream, kind, request).await?;
    frame::read(stream, PAYLOAD_MAX).await
}

/// Waits until there may be a command. Returns false if the connection has ended.
async fn wait(channels: &Channels, stream: &mut Stream) -> bool {
    let mut byte = [0];
    {
        let mut notified = pin!(channels.notify.notified());
        // An agent sends nothing by itself: what can be read is its end, or against the protocol.
        let mut end = pin!(stream.read(&mut byte));
        let either = poll_fn(|ctx| {
            if notified.as_mut().poll(ctx).is_ready() {
                return Poll::Ready(true);
            }
            end.as_mut().poll(ctx).map(|_| false)
        });
        if let Ok(has_command) = timeout(PING_INTERVAL, either).await {
            return has_command;
        }
    }
    let answer = timeout(PONG_TIMEOUT, exchange(stream, Kind::Ping, &[])).await;
    matches!(answer, Ok(Ok((Kind::Pong, _))))
}

/// Copies bytes both ways until both sides have ended.
async fn join(mut stream: Stream, local: StdUnixStream) {
    let local = local.set_nonblocking(true).and_then(|()| UnixStream::from_std(local));
    let Ok(mut local) = local else { return };
    // Either side may end at any time.
    let _ = tokio::io::copy_bidirectional(&mut stream, &mut local).await;
}
