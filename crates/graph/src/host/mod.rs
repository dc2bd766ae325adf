//! Runs a graph with sockets: waits for readiness, reads packets, processes them, writes. One
//! thread; only [`OffloadJob`](crate::OffloadJob)s run on others (`worker_pool.rs`).
//!
//! ```text
//! epoll ─▶ faces.on_ready ─▶ engine.process ─▶ faces.send … ─▶ faces.flush ─▶ timers ─▶ epoll
//! ```

mod closing;
mod commands;
mod control;
mod endpoints;
mod events;
mod face_events;
mod report;
mod taps;
mod worker_pool;

pub use control::RouteError;
pub use endpoints::EndpointError;
pub use events::EventLog;
pub use report::{FaceReport, PortReport, Report};

use crate::engine::{ChangeMode, Engine, Fault};
use crate::model::Graph;
use closing::ClosingFaces;
use commands::{Answers, Registrants};
use control::ReportedFailures;
use crossbeam_channel::{Receiver, Sender};
use endpoints::Endpoint;
use events::EventSubject;
use nw_api::service::ServiceEventKind;
use nw_element_api::{DropCause, DropCounters, FaceId, Kind, Packet, Pool, Timestamp};
use nw_faces::{CloseReason, FaceError, FaceStatus, Faces};
use nw_name::HashKey;
use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use std::fmt;
use std::sync::Arc;
use std::time::{self, Duration, SystemTime, UNIX_EPOCH};
use worker_pool::WorkerPool;

/// Readiness events handled per wait.
const EVENTS_MAX: usize = 256;
/// Chunks of 64 KiB in the packet pool.
const CHUNKS_MAX: usize = 256;
/// Packets in use at one time.
const PACKETS_MAX: usize = 65_536;
/// Messages from handles that may wait for the loop.
const MESSAGES_MAX: usize = 64;
/// Default of the time after which a draining graph ends even if replies are awaited.
pub const DRAIN_MAX: Duration = Duration::from_secs(8);
/// Least time of draining: elements without state don't show what is still awaited.
const DRAIN_MIN: Duration = Duration::from_millis(400);
/// Epoll token of the host's own event descriptor; tokens of faces are above 2^32.
const WAKE: u64 = 0;

/// Reasons why a graph can't run, or can't be changed.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// A declared face without a usable URI.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// A declared face that can't be opened.
    #[error("face `{name}`: {error}")]
    Face {
        /// Name of the face in the graph.
        name: String,
        /// The error.
        error: FaceError,
    },
    /// Elements that can't be built.
    #[error("{}", lines(.0))]
    Faults(Vec<Fault>),
    /// The graph has changed, except for these parameters.
    #[error("the graph has changed, but these parameters are not in effect: correct them and change it again\n{}", lines(.0))]
    ParametersRejected(Vec<Fault>),
    /// A system call that every program needs has failed.
    #[error("{what} failed: {errno}")]
    System {
        /// What was requested.
        what: &'static str,
        /// The error.
        errno: Errno,
    },
    /// The graph has ended.
    #[error("the graph has ended")]
    Ended,
}

fn lines(faults: &[Fault]) -> String {
    let line = |fault: &Fault| format!("`{}`: {}", fault.node, fault.error);
    faults.iter().map(line).collect::<Vec<_>>().join("\n")
}

fn system(what: &'static str) -> impl Fn(Errno) -> HostError {
    move |errno| HostError::System { what, errno }
}

enum Message {
    Change(Box<Graph>, Vec<Endpoint>, ChangeMode, Sender<Result<(), HostError>>),
    Report(Sender<Report>),
    Drain(Duration),
    Call(HostCall),
    Stop,
}

/// A function that runs on the loop's thread.
type HostCall = Box<dyn FnOnce(&mut Host, Timestamp) + Send>;

/// Sends messages to a running graph and wakes it; usable from any thread.
#[derive(Clone)]
pub struct Handle {
    sender: Sender<Message>,
    wake: Arc<OwnedFd>,
    events: Arc<EventLog>,
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Handle")
    }
}

impl Handle {
    /// Stops the graph: [`Host::run`] returns.
    pub fn stop(&self) {
        // If the host has ended there is nothing to stop.
        let _ = self.send_message(Message::Stop);
    }

    /// Drops new Interests from now on, and stops when no reply is awaited any more, or after
    /// `limit`. A graph that is draining already keeps its limit.
    ///
    /// # Errors
    /// If the graph has ended.
    pub fn drain(&self, limit: Duration) -> Result<(), HostError> {
        self.send_message(Message::Drain(limit))
    }

    /// Replaces the running graph by a checked one; when this returns, packets pass through the new
    /// graph. Resolves host names and blocks meanwhile. Must not be called by the thread that runs
    /// the graph.
    ///
    /// # Errors
    /// If a declared face has no usable URI, an element can't be built, or the graph has ended:
    /// then nothing has changed. With [`HostError::ParametersRejected`] the graph has changed,
    /// except for some parameters.
    pub fn change(&self, graph: Graph, mode: ChangeMode) -> Result<(), HostError> {
        let endpoints = endpoints::endpoints(&graph)?;
        let (sender, receiver) = crossbeam_channel::bounded(1);
        self.send_message(Message::Change(Box::new(graph), endpoints, mode, sender))?;
        receiver.recv().map_err(|_| HostError::Ended)?
    }

    /// Returns the counters; waits for the end of the current loop iteration.
    ///
    /// # Errors
    /// If the graph has ended.
    pub fn report(&self) -> Result<Report, HostError> {
        let (sender, receiver) = crossbeam_channel::bounded(1);
        self.send_message(Message::Report(sender))?;
        receiver.recv().map_err(|_| HostError::Ended)
    }

    /// Returns the last events.
    pub fn events(&self) -> &EventLog {
        &self.events
    }

    fn send_message(&self, message: Message) -> Result<(), HostError> {
        self.sender.send(message).map_err(|_| HostError::Ended)?;
        let _ = rustix::io::write(&*self.wake, &1u64.to_ne_bytes());
        Ok(())
    }
}

/// Interval between readings of the wall clock.
const WALL_CLOCK_INTERVAL: Duration = Duration::from_secs(1);
/// Difference, in milliseconds, between the wall clock and the loop's clock from which on the wall
/// clock counts as set.
const WALL_CLOCK_STEP_MS: u64 = 500;

/// A clock: returns the current time.
pub type Clock = Box<dyn Fn() -> Timestamp + Send>;

/// A graph with its sockets.
pub struct Host {
    epoll: OwnedFd,
    wake: Arc<OwnedFd>,
    messages: Receiver<Message>,
    handle: Handle,
    clock: Clock,
    /// Wall clock time at [`Timestamp::START`] in milliseconds since 1970, and when to read it
    /// again; `None` if the caller has its own clock.
    wall_clock: Option<(u64, Timestamp)>,
    engine: Engine,
    faces: Faces,
    endpoints: Vec<Endpoint>,
    /// Faces that a change has removed: closed when nothing is pending by them.
    closing: ClosingFaces,
    /// Faces that ended, but whose last packets may still have to be processed: elements are not
    /// notified yet.
    ended_faces: Vec<(Box<FaceStatus>, CloseReason)>,
    pool: Pool,
    batch: Vec<Packet>,
    out: Vec<Packet>,
    /// Started with the first job.
    workers: Option<WorkerPool>,
    /// When to open missing faces again.
    retry_at: Option<Timestamp>,
    /// Earliest and latest end of draining; `None` if the graph is not draining.
    draining: Option<(Timestamp, Timestamp)>,
    /// Interests dropped while draining, or while a change holds too many.
    drain_drops: DropCounters,
    events: Arc<EventLog>,
    /// Wall clock time at [`Timestamp::START`] in milliseconds since 1970, as given at the start.
    given_start_unix_ms: u64,
    reported: ReportedFailures,
    answers: Answers,
    registrants: Registrants,
    /// Name routers that hold commands for the host.
    command_routers: Vec<String>,
    /// Whether the last change was complete when that was last reported.
    was_changing: bool,
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Host({} faces)", self.faces.len())
    }
}

impl Host {
    /// Builds the elements of a checked graph and opens its faces. Resolves host names and blocks
    /// meanwhile.
    ///
    /// # Errors
    /// If a listener can't be opened, an element can't be built, or a system call fails. A peer
    /// that is not reachable yet is not an error.
    pub fn new(graph: &Graph) -> Result<Self, HostError> {
        let started = time::Instant::now();
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let start_unix_ms = since_1970.as_millis() as u64;
        let clock = Box::new(move || Timestamp::START + started.elapsed());
        let mut host = Host::with_clock(graph, clock, start_unix_ms)?;
        host.wall_clock = Some((start_unix_ms, Timestamp::START));
        Ok(host)
    }

    /// Like [`new`](Self::new), with a clock of the caller that starts at [`Timestamp::START`],
    /// when the wall clock shows `start_unix_ms`. After setting that clock forward, wake the loop,
    /// for example with [`Handle::report`].
    ///
    /// # Errors
    /// As for [`new`](Self::new).
    pub fn with_clock(graph: &Graph, clock: Clock, start_unix_ms: u64) -> Result<Self, HostError> {
        let endpoints = endpoints::endpoints(graph)?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)
            .map_err(system("creating an epoll descriptor"))?;
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let wake = Arc::new(eventfd(0, flags).map_err(system("creating an event descriptor"))?);
        epoll::add(&epoll, &*wake, epoll::EventData::new_u64(WAKE), epoll::EventFlags::IN)
            .map_err(system("watching a descriptor"))?;
        let (key, seed) = random_key_and_seed().map_err(system("reading random bytes"))?;
        let engine =
            Engine::with_start_time(graph, key, seed, start_unix_ms).map_err(HostError::Faults)?;
        let faces = Faces::new(endpoints::faces_config(), epoll.as_fd())
            .map_err(|error| HostError::Face { name: crate::model::FACES.to_owned(), error })?;
        let (sender, messages) = crossbeam_channel::bounded(MESSAGES_MAX);
        let events = Arc::new(EventLog::new(start_unix_ms));
        let mut host = Host {
            epoll,
            handle: Handle { sender, wake: Arc::clone(&wake), events: Arc::clone(&events) },
            wake,
            messages,
            clock,
            wall_clock: None,
            engine,
            faces,
            endpoints,
            closing: ClosingFaces::default(),
            ended_faces: Vec::new(),
            pool: Pool::new(key, CHUNKS_MAX, PACKETS_MAX),
            batch: Vec::new(),
            out: Vec::new(),
            workers: None,
            retry_at: None,
            draining: None,
            drain_drops: DropCounters::default(),
            events,
            given_start_unix_ms: start_unix_ms,
            reported: ReportedFailures::default(),
            answers: Answers::default(),
            registrants: Registrants::default(),
            command_routers: Vec::new(),
            was_changing: false,
        };
        host.command_routers = commands::command_routers(host.engine.graph());
        host.open_all()?;
        Ok(host)
    }

    /// Returns the wall clock time at [`Timestamp::START`] in milliseconds since 1970.
    fn start_unix_ms(&self) -> u64 {
        self.wall_clock.map_or(self.given_start_unix_ms, |(start_unix_ms, _)| start_unix_ms)
    }

    /// Listeners must open at once; peers may become reachable later.
    fn open_all(&mut self) -> Result<(), HostError> {
        let now = Timestamp::START;
        for endpoint in self.endpoints.iter_mut().filter(|endpoint| endpoint.is_listener) {
            let open = endpoint.open(now, &mut self.faces);
            open.map_err(|error| HostError::Face { name: endpoint.name.clone(), error })?;
        }
        self.open_missing_endpoints(now);
        self.process_face_events(now);
        self.process_ended_faces(now);
        Ok(())
    }

    fn open_missing_endpoints(&mut self, now: Timestamp) {
        let missing = self.endpoints.iter_mut().filter(|endpoint| !endpoint.is_open);
        self.retry_at =
            missing.filter_map(|endpoint| endpoint.try_open(now, &mut self.faces)).min();
    }

    /// Returns a handle to control the graph while it runs.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Returns the URIs of all listeners.
    pub fn listeners(&self) -> Vec<String> {
        self.faces.listeners().into_iter().map(|listener| listener.uri.to_string()).collect()
    }

    /// Returns the engine, for tests.
    pub const fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Returns the counters.
    pub fn report(&self) -> Report {
        let faces: Vec<(String, FaceStatus)> = self
            .faces
            .ids()
            .filter_map(|id| self.faces.status(id))
            .map(|status| (self.name_of(&status).unwrap_or_default(), status))
            .collect();
        let face_report = |(name, status): &(String, FaceStatus)| {
            FaceReport::new(name, status, self.closing.contains(status.id))
        };
        let mut drops = self.engine.drops().clone();
        drops.merge(self.faces.drops());
        drops.merge(&self.drain_drops);
        let totals = self.faces.totals();
        Report {
            uptime_s: self.now().since(Timestamp::START).as_secs_f64(),
            changing: self.is_changing(),
            draining: self.draining.is_some(),
            received: report::received(&totals),
            sent: report::sent(&totals),
            faces: faces.iter().map(face_report).collect(),
            missing: self
                .endpoints
                .iter()
                .filter(|endpoint| !endpoint.is_open)
                .map(Endpoint::name_and_uri)
                .collect(),
            ports: self.engine.counts().iter().map(PortReport::new).collect(),
            drops: report::drops(&drops),
        }
    }

    fn name_of(&self, status: &FaceStatus) -> Option<String> {
        if let Some(name) = self.closing.name_of(status.id) {
            return Some(name.to_owned());
        }
        self.endpoint_of(status).map(|(at, _)| self.endpoints[at].name.clone())
    }

    /// Returns the index of the declared face that a face belongs to, and whether the face was
    /// accepted by its listener.
    fn endpoint_of(&self, status: &FaceStatus) -> Option<(usize, bool)> {
        let connected = self.endpoints.iter().position(|endpoint| endpoint.face == Some(status.id));
        let accepted = || self.endpoints.iter().position(|endpoint| endpoint.has_accepted(status));
        connected.map(|at| (at, false)).or_else(|| accepted().map(|at| (at, true)))
    }

    fn now(&self) -> Timestamp {
        (self.clock)()
    }

    /// Runs until [`Handle::stop`], then writes what can be written at once and closes every face.
    ///
    /// # Errors
    /// If waiting for packets fails.
    pub fn run(&mut self) -> Result<(), HostError> {
        let result = self.event_loop();
        let held = self.closing.take_held();
        let unsent = self.out.drain(..).chain(self.batch.drain(..)).chain(held);
        unsent.for_each(|packet| self.pool.release(packet));
        self.faces.close_all(&mut self.pool);
        result
    }

    fn event_loop(&mut self) -> Result<(), HostError> {
        let mut events = Vec::with_capacity(EVENTS_MAX);
        loop {
            let timeout = self.timeout(self.now());
            events.clear();
            match epoll::wait(
                &self.epoll,
                rustix::buffer::spare_capacity(&mut events),
                timeout.as_ref(),
            ) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(system("waiting for packets")(errno)),
            }
            let now = self.now();
            self.update_wall_clock(now);
            for event in &events {
                match event.data.u64() {
                    WAKE => {
                        if !self.process_messages(now) {
                            return Ok(());
                        }
                    }
                    token => {
                        self.faces.on_ready(
                            now,
                            token,
                            event.flags,
                            &mut self.pool,
                            &mut self.batch,
                        );
                        self.forward(now);
                    }
                }
            }
            self.tick(now);
            self.faces.flush(&mut self.pool);
            // A write may have detected the end of a face: handle it before waiting again.
            while self.faces.has_events() {
                self.forward(now);
                self.faces.flush(&mut self.pool);
            }
            if self.is_drained(now) {
                return Ok(());
            }
        }
    }

    /// Passes the wall clock to the elements if it was set, or if the machine was suspended. Reads
    /// it at most once a second.
    fn update_wall_clock(&mut self, now: Timestamp) {
        let Some((start_unix_ms, next_read)) = &mut self.wall_clock else { return };
        if now < *next_read {
            return;
        }
        *next_read = now + WALL_CLOCK_INTERVAL;
        let unix_ms =
            SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64;
        let start_ms = unix_ms.saturating_sub(now.as_millis());
        if start_ms.abs_diff(*start_unix_ms) > WALL_CLOCK_STEP_MS {
            *start_unix_ms = start_ms;
            self.engine.wall_clock_set(now, unix_ms);
        }
    }

    fn timeout(&self, now: Timestamp) -> Option<Timespec> {
        // A graph that is idle at the earliest end of draining ends then. Later it becomes idle by
        // a packet or a timer of an element, after which the loop checks again.
        let drain =
            self.draining.map(|(earliest, latest)| if now < earliest { earliest } else { latest });
        let closing = self.closing.next_check();
        let failures = self.reported.next_check;
        let own = [self.retry_at, drain, closing, failures];
        let timers = [self.faces.deadline(), self.engine.deadline()].into_iter().chain(own);
        let due = timers.flatten().min().filter(|due| *due != Timestamp::NEVER)?;
        let wait = due.since(now);
        Some(Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: i64::from(wait.subsec_nanos()) })
    }

    /// Processes the packets that were read, and queues those that leave.
    fn forward(&mut self, now: Timestamp) {
        self.process_face_events(now);
        if self.draining.is_some() {
            self.drop_interests();
        }
        if self.closing.holds_interests() {
            self.closing.hold(&mut self.batch, &mut self.pool, &mut self.drain_drops);
        }
        if !self.batch.is_empty() {
            self.schedule_failure_check(now);
            self.engine.taps().incoming(now, &self.batch, &self.pool);
        }
        self.engine.process(now, &mut self.batch, &mut self.pool, &mut self.out);
        self.exchange_jobs(now);
        self.process_commands(now);
        self.send(now);
        self.process_ended_faces(now);
    }

    /// Accepts finished jobs and submits waiting ones.
    fn exchange_jobs(&mut self, now: Timestamp) {
        if self.workers.is_none() {
            // The first job runs here: it shows that there are jobs.
            if !self.run_job_here(now) {
                return;
            }
            self.workers = Some(WorkerPool::start(&self.wake));
        }
        let Some(workers) = &mut self.workers else { return };
        while let Some(job) = workers.next_finished() {
            self.engine.complete_task(now, job, &mut self.pool, &mut self.out);
        }
        while workers.has_capacity()
            && let Some(job) = self.engine.take_task()
        {
            workers.submit(job);
        }
        // The other threads are busy: one more job runs here, so that no processor idles.
        if !workers.has_capacity() {
            self.run_job_here(now);
        }
    }

    /// Runs a job on this thread. Returns false if there is none.
    fn run_job_here(&mut self, now: Timestamp) -> bool {
        let Some(mut job) = self.engine.take_task() else { return false };
        job.run();
        self.engine.complete_task(now, job, &mut self.pool, &mut self.out);
        true
    }

    fn drop_interests(&mut self) {
        let mut replies = Vec::with_capacity(self.batch.len());
        for packet in self.batch.drain(..) {
            match self.pool.meta(&packet).kind {
                Kind::Interest => {
                    self.pool.drop_packet(packet, DropCause::Draining, &mut self.drain_drops)
                }
                Kind::Data | Kind::Nack | Kind::Publication => replies.push(packet),
            }
        }
        self.batch = replies;
    }

    /// Returns whether draining is complete: no reply is awaited, or its time is over.
    fn is_drained(&self, now: Timestamp) -> bool {
        self.draining.is_some_and(|(earliest, latest)| {
            now >= latest || now >= earliest && self.engine.is_idle()
        })
    }

    fn send(&mut self, now: Timestamp) {
        if !self.engine.taps().is_empty() {
            self.engine.expire_taps(now);
            let taps = self.engine.taps();
            self.out.iter().for_each(|packet| taps.outgoing(now, packet, &self.pool));
        }
        for packet in self.out.drain(..) {
            let egress = self.pool.meta(&packet).egress;
            self.faces.send(now, egress, packet, &mut self.pool);
        }
    }

    /// Applies routes that name faces which were added or removed.
    fn apply(&mut self, now: Timestamp) {
        if let Err(faults) = self.engine.apply(now, &mut self.pool, &mut self.out) {
            tracing::error!("some parameters are not in effect: {}", HostError::Faults(faults));
        }
        self.send(now);
    }

    fn tick(&mut self, now: Timestamp) {
        if self.engine.deadline().is_some_and(|due| due <= now) {
            self.engine.tick(now, &mut self.pool, &mut self.out);
            self.send(now);
        }
        if self.faces.deadline().is_some_and(|due| due <= now) {
            self.faces.tick(now, &mut self.pool);
        }
        if self.retry_at.is_some_and(|due| due <= now) {
            self.open_missing_endpoints(now);
        }
        self.check_closing_faces(now);
        self.check_failures(now);
        self.forward(now);
        let is_changing = self.is_changing();
        if core::mem::replace(&mut self.was_changing, is_changing) && !is_changing {
            self.log_event(now, ServiceEventKind::ChangeCompleted, EventSubject::default());
        }
    }

    /// Returns whether elements or faces of an earlier graph still wait for replies.
    fn is_changing(&self) -> bool {
        self.engine.is_changing() || !self.closing.is_empty()
    }

    /// Closes faces of earlier graphs by which nothing is pending, and releases held Interests.
    fn check_closing_faces(&mut self, now: Timestamp) {
        if self.closing.is_empty() && !self.closing.holds_interests() {
            return;
        }
        let (faces, endpoints) = (&self.faces, &self.endpoints);
        let is_up = |id: FaceId| faces.status(id).is_some_and(|status| status.up);
        // A removed name has no new face to wait for.
        let is_replaced = |name: &str| {
            endpoints
                .iter()
                .find(|endpoint| endpoint.name == name)
                .is_none_or(|endpoint| endpoint.is_listener || endpoint.face.is_some_and(is_up))
        };
        let is_changing = self.engine.is_changing();
        let done = self.closing.check(now, is_changing, |id| faces.status(id), is_replaced);
        for face in done {
            self.faces.close(face, &mut self.pool);
        }
        self.batch.extend(self.closing.take_released());
    }

    /// Handles waiting messages. Returns false if the loop must end.
    fn process_messages(&mut self, now: Timestamp) -> bool {
        let mut count = [0; 8];
        let _ = rustix::io::read(&*self.wake, &mut count[..]);
        while let Ok(message) = self.messages.try_recv() {
            match message {
                Message::Stop => return false,
                Message::Drain(limit) => {
                    if self.draining.is_none() {
                        self.draining = Some((now + DRAIN_MIN.min(limit), now + limit));
                        self.log_event(now, ServiceEventKind::Draining, EventSubject::default());
                    }
                }
                Message::Call(call) => {
                    call(self, now);
                    self.send(now);
                }
                // The requester may have ended.
                Message::Report(reply) => drop(reply.send(self.report())),
                Message::Change(graph, endpoints, mode, reply) => {
                    let result = self.change(now, &graph, endpoints, mode);
                    if let Err(error) = &result {
                        tracing::error!("{error}");
                    }
                    // The requester may have ended.
                    drop(reply.send(result));
                }
            }
        }
        true
    }

    fn change(
        &mut self,
        now: Timestamp,
        graph: &Graph,
        mut endpoints: Vec<Endpoint>,
        mode: ChangeMode,
    ) -> Result<(), HostError> {
        self.forward(now);
        let summary = self.engine.change(now, graph, mode, &mut self.pool, &mut self.out);
        let summary = summary.map_err(HostError::Faults)?;
        for old in &mut self.endpoints {
            match endpoints.iter_mut().find(|new| new.is_same_as(old)) {
                Some(new) => new.clone_from(old),
                None => {
                    let accepted = |id: &FaceId| {
                        self.faces.status(*id).is_some_and(|status| old.has_accepted(&status))
                    };
                    let mut removed: Vec<FaceId> = self.faces.ids().filter(accepted).collect();
                    let is_shared = endpoints.iter().any(|new| new.shares_face_with(old));
                    if mode != ChangeMode::Drop && !is_shared {
                        removed.extend(old.face.take());
                    }
                    self.closing.add(now, &old.name, removed, mode);
                    old.close(&mut self.faces, &mut self.pool);
                }
            }
        }
        // Notify elements of faces that ended while the old names are valid.
        self.forward(now);
        self.endpoints = endpoints;
        self.open_missing_endpoints(now);
        self.process_face_events(now);
        self.process_ended_faces(now);
        self.apply(now);
        self.command_routers = commands::command_routers(self.engine.graph());
        self.log_event(now, ServiceEventKind::GraphChanged, EventSubject::default());
        self.was_changing = true;
        let crate::engine::ChangeSummary {
            kept_elements,
            added_elements,
            removed_elements,
            rejected_parameters,
            ..
        } = summary;
        tracing::info!(
            kept = kept_elements,
            added = added_elements,
            removed = removed_elements,
            "graph changed"
        );
        if rejected_parameters.is_empty() {
            Ok(())
        } else {
            Err(HostError::ParametersRejected(rejected_parameters))
        }
    }
}

/// Returns the secret of the keyed hash, and the seed for elements.
fn random_key_and_seed() -> Result<(HashKey, u64), Errno> {
    let mut bytes = [0; 40];
    getrandom::fill(&mut bytes).map_err(|_| Errno::IO)?;
    let word = |at: usize| u64::from_ne_bytes(core::array::from_fn(|i| bytes[8 * at + i]));
    Ok((HashKey::new([word(0), word(1), word(2), word(3)]), word(4)))
}
