//! Runs a graph with sockets: wait, read, take through the elements, write. One thread; only what an element lets others do crosses it (`threads.rs`).
//!
//! ```text
//! epoll ─▶ faces.on_ready ─▶ engine.process ─▶ faces.send … ─▶ faces.flush ─▶ timers ─▶ epoll
//! ```

mod doors;
mod report;
mod threads;

pub use doors::DoorError;
pub use report::{FaceReport, PortReport, Report};

use crate::engine::{ChangeOrder, Engine, Fault};
use crate::model::Graph;
use crossbeam_channel::{Receiver, Sender};
use doors::Door;
use nw_element_api::{Cause, DropCounters, FaceId, Instant, Kind, Packet, Pool};
use nw_faces::{CloseReason, FaceError, FaceEvent, FaceStatus, Faces, FacesConfig};
use nw_name::HashKey;
use rustix::event::{EventfdFlags, Timespec, epoll, eventfd};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use std::fmt;
use std::sync::Arc;
use std::time::{self, Duration, SystemTime, UNIX_EPOCH};
use threads::Threads;

/// Sockets served per wait.
const EVENTS_MAX: usize = 256;
/// Chunks of 64 KiB that packets of one turn are read into.
const CHUNKS_MAX: usize = 256;
/// Packets under way at one time.
const PACKETS_MAX: usize = 65_536;
/// Messages that may wait for the loop.
const MESSAGES_MAX: usize = 64;
/// A drained graph ends after so long, whatever is awaited; and not before so long, as it may not know.
const DRAIN_MAX: Duration = Duration::from_secs(8);
const DRAIN_LEAST: Duration = Duration::from_millis(500);
/// The host's own epoll token; those of faces are above 2^32.
const WAKE: u64 = 0;

/// Why a graph can't run, or can't be changed.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// A declared face that leads nowhere.
    #[error(transparent)]
    Door(#[from] DoorError),
    /// A declared face that can't be opened.
    #[error("face `{name}`: {error}")]
    Face {
        /// In the graph.
        name: String,
        /// Why.
        error: FaceError,
    },
    /// Elements that can't be made.
    #[error("{}", lines(.0))]
    Faults(Vec<Fault>),
    /// The graph has changed, but for these.
    #[error("the graph has changed, but these parameters are not in effect: mend them and change it again\n{}", lines(.0))]
    NotInEffect(Vec<Fault>),
    /// The system refused something every program needs.
    #[error("the system refused {what}: {errno}")]
    System {
        /// What.
        what: &'static str,
        /// Why.
        errno: Errno,
    },
    /// It runs no longer.
    #[error("the graph runs no longer")]
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
    Change(Box<Graph>, Vec<Door>, ChangeOrder, Sender<Result<(), HostError>>),
    Report(Sender<Report>),
    Drain,
    Stop,
}

/// Wakes a running graph and tells it something; from any thread.
#[derive(Clone)]
pub struct Handle {
    sender: Sender<Message>,
    wake: Arc<OwnedFd>,
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Handle")
    }
}

impl Handle {
    /// Ends it: [`Host::run`] returns.
    pub fn stop(&self) {
        // What has ended needs to be told nothing.
        let _ = self.tell(Message::Stop);
    }

    /// Takes no more Interests, and ends when nothing is awaited any more, or after some seconds.
    ///
    /// # Errors
    /// When it has ended.
    pub fn drain(&self) -> Result<(), HostError> {
        self.tell(Message::Drain)
    }

    /// Takes another graph, which was found good, in place of the one that runs; when this returns, packets go through it. Asks the system's
    /// resolver for host names, and waits for it. Not to be called by the thread that runs the graph.
    ///
    /// # Errors
    /// When a declared face leads nowhere, an element can't be made or the graph has ended: then nothing has changed. And when it has
    /// changed, but for some parameters: [`HostError::NotInEffect`].
    pub fn change(&self, graph: Graph, order: ChangeOrder) -> Result<(), HostError> {
        let doors = doors::doors(&graph)?;
        let (sender, receiver) = crossbeam_channel::bounded(1);
        self.tell(Message::Change(Box::new(graph), doors, order, sender))?;
        receiver.recv().map_err(|_| HostError::Ended)?
    }

    /// What was counted until now; waits for the end of a turn.
    ///
    /// # Errors
    /// When it has ended.
    pub fn report(&self) -> Result<Report, HostError> {
        let (sender, receiver) = crossbeam_channel::bounded(1);
        self.tell(Message::Report(sender))?;
        receiver.recv().map_err(|_| HostError::Ended)
    }

    fn tell(&self, message: Message) -> Result<(), HostError> {
        self.sender.send(message).map_err(|_| HostError::Ended)?;
        let _ = rustix::io::write(&*self.wake, &1u64.to_ne_bytes());
        Ok(())
    }
}

/// How often the wall clock is read.
const WALL_CLOCK_INTERVAL: Duration = Duration::from_secs(1);
/// The wall clock was set when it differs by more from what the clock of the loop makes of it, milliseconds.
const WALL_CLOCK_STEP_MS: u64 = 500;

/// Tells the time.
pub type Clock = Box<dyn Fn() -> Instant + Send>;

/// A graph with its sockets.
pub struct Host {
    epoll: OwnedFd,
    wake: Arc<OwnedFd>,
    messages: Receiver<Message>,
    handle: Handle,
    clock: Clock,
    /// What the wall clock shows at [`Instant::START`], and when it is read again; `None` where the caller has a clock of its own.
    wall: Option<(u64, Instant)>,
    engine: Engine,
    faces: Faces,
    doors: Vec<Door>,
    /// Faces that were accepted where nothing listens any more: they stay until a change is complete.
    leaving: Vec<FaceId>,
    /// Faces that ended and whose last packets may still have to be processed: elements do not know of it yet.
    ended: Vec<(Box<FaceStatus>, CloseReason)>,
    pool: Pool,
    batch: Vec<Packet>,
    out: Vec<Packet>,
    /// Started with the first work for them.
    threads: Option<Threads>,
    /// When faces that are not there are tried again.
    retry: Option<Instant>,
    /// While it is drained: until when at most.
    drained: Option<Instant>,
    /// Interests refused meanwhile.
    drained_drops: DropCounters,
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Host({} faces)", self.faces.len())
    }
}

impl Host {
    /// Makes the elements of a graph that was found good, and opens its faces. Asks the system's resolver for host names.
    ///
    /// # Errors
    /// What can't be had, and what helps. A peer that is not there yet is no error.
    pub fn new(graph: &Graph) -> Result<Self, HostError> {
        let started = time::Instant::now();
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let start_unix_ms = since_1970.as_millis() as u64;
        let clock = Box::new(move || Instant::START + started.elapsed());
        let mut host = Host::with_clock(graph, clock, start_unix_ms)?;
        host.wall = Some((start_unix_ms, Instant::START));
        Ok(host)
    }

    /// As [`new`](Self::new), by a clock of the caller's: it starts at [`Instant::START`], when the wall clock shows `start_unix_ms`. Whoever sets it on
    /// wakes the loop, by asking for a report for example.
    ///
    /// # Errors
    /// See there.
    pub fn with_clock(graph: &Graph, clock: Clock, start_unix_ms: u64) -> Result<Self, HostError> {
        let doors = doors::doors(graph)?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(system("an epoll descriptor"))?;
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let wake = Arc::new(eventfd(0, flags).map_err(system("an event descriptor"))?);
        epoll::add(&epoll, &*wake, epoll::EventData::new_u64(WAKE), epoll::EventFlags::IN)
            .map_err(system("to watch a descriptor"))?;
        let (key, seed) = random().map_err(system("random octets"))?;
        let engine = Engine::starting_at(graph, key, seed, start_unix_ms).map_err(HostError::Faults)?;
        let faces = Faces::new(FacesConfig::default(), epoll.as_fd())
            .map_err(|error| HostError::Face { name: crate::model::FACES.to_owned(), error })?;
        let (sender, messages) = crossbeam_channel::bounded(MESSAGES_MAX);
        let mut host = Host {
            epoll,
            handle: Handle { sender, wake: Arc::clone(&wake) },
            wake,
            messages,
            clock,
            wall: None,
            engine,
            faces,
            doors,
            leaving: Vec::new(),
            ended: Vec::new(),
            pool: Pool::new(key, CHUNKS_MAX, PACKETS_MAX),
            batch: Vec::new(),
            out: Vec::new(),
            threads: None,
            retry: None,
            drained: None,
            drained_drops: DropCounters::default(),
        };
        host.open_all()?;
        Ok(host)
    }

    /// What listens must be had at once; peers may come later.
    fn open_all(&mut self) -> Result<(), HostError> {
        let now = Instant::START;
        for door in self.doors.iter_mut().filter(|door| door.listens) {
            let open = door.open(now, &mut self.faces);
            open.map_err(|error| HostError::Face { name: door.name.clone(), error })?;
        }
        self.open_missing(now);
        self.take_in_faces(now);
        self.take_in_ended(now);
        Ok(())
    }

    fn open_missing(&mut self, now: Instant) {
        let missing = self.doors.iter_mut().filter(|door| !door.is_open);
        self.retry = missing.filter_map(|door| door.try_open(now, &mut self.faces)).min();
    }

    /// For telling it something once it runs.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Where it listens, as URIs.
    pub fn listeners(&self) -> Vec<String> {
        self.faces.listeners().into_iter().map(|listener| listener.uri.to_string()).collect()
    }

    /// What it runs, for tests that look inside.
    pub const fn engine(&self) -> &Engine {
        &self.engine
    }

    /// What was counted until now.
    pub fn report(&self) -> Report {
        let faces: Vec<(String, FaceStatus)> = self
            .faces
            .ids()
            .filter_map(|id| self.faces.status(id))
            .map(|status| (self.name_of(&status).unwrap_or_default(), status))
            .collect();
        let mut drops = self.engine.drops().clone();
        drops.merge(self.faces.drops());
        drops.merge(&self.drained_drops);
        let totals = self.faces.totals();
        Report {
            uptime_s: self.now().since(Instant::START).as_secs_f64(),
            changing: self.engine.is_changing(),
            draining: self.drained.is_some(),
            received: report::received(&totals),
            sent: report::sent(&totals),
            faces: faces.iter().map(|(name, status)| FaceReport::new(name, status)).collect(),
            missing: self.doors.iter().filter(|door| !door.is_open).map(Door::place).collect(),
            ports: self.engine.counts().iter().map(PortReport::new).collect(),
            drops: report::drops(&drops),
        }
    }

    fn name_of(&self, status: &FaceStatus) -> Option<String> {
        self.door_of(status).map(|(at, _)| self.doors[at].name.clone())
    }

    /// The declared face that a face is, or was accepted by.
    fn door_of(&self, status: &FaceStatus) -> Option<(usize, bool)> {
        let own = self.doors.iter().position(|door| door.face == Some(status.id));
        let accepted = || self.doors.iter().position(|door| door.accepted(status));
        own.map(|at| (at, false)).or_else(|| accepted().map(|at| (at, true)))
    }

    fn now(&self) -> Instant {
        (self.clock)()
    }

    /// Runs until [`Handle::stop`], then sends what can be sent at once and closes every face.
    ///
    /// # Errors
    /// When the system refuses to wait for packets.
    pub fn run(&mut self) -> Result<(), HostError> {
        let result = self.turn_until_stopped();
        self.out.drain(..).chain(self.batch.drain(..)).for_each(|packet| self.pool.release(packet));
        self.faces.close_all(&mut self.pool);
        result
    }

    fn turn_until_stopped(&mut self) -> Result<(), HostError> {
        let mut events = Vec::with_capacity(EVENTS_MAX);
        loop {
            let timeout = self.timeout(self.now());
            events.clear();
            match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), timeout.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(system("to wait for packets")(errno)),
            }
            let now = self.now();
            self.follow_wall_clock(now);
            for event in &events {
                match event.data.u64() {
                    WAKE => {
                        if !self.take_messages(now) {
                            return Ok(());
                        }
                    }
                    token => {
                        self.faces.on_ready(now, token, event.flags, &mut self.pool, &mut self.batch);
                        self.forward(now);
                    }
                }
            }
            self.tick(now);
            self.faces.flush(&mut self.pool);
            // A write may have failed: that face has ended, and the loop does not sleep over it.
            while self.faces.has_events() {
                self.forward(now);
                self.faces.flush(&mut self.pool);
            }
            if self.is_drained(now) {
                return Ok(());
            }
        }
    }

    /// Passes the wall clock on when it was set, or went on while the machine slept. Read once a second at most.
    fn follow_wall_clock(&mut self, now: Instant) {
        let Some((start_unix_ms, next_read)) = &mut self.wall else { return };
        if now < *next_read {
            return;
        }
        *next_read = now + WALL_CLOCK_INTERVAL;
        let unix_ms = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64;
        let start_ms = unix_ms.saturating_sub(now.as_millis());
        if start_ms.abs_diff(*start_unix_ms) > WALL_CLOCK_STEP_MS {
            *start_unix_ms = start_ms;
            self.engine.wall_clock_set(now, unix_ms);
        }
    }

    fn timeout(&self, now: Instant) -> Option<Timespec> {
        let timers = [self.faces.deadline(), self.engine.deadline(), self.retry, self.drained];
        let due = timers.into_iter().flatten().min().filter(|due| *due != Instant::NEVER)?;
        let wait = due.since(now);
        Some(Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: i64::from(wait.subsec_nanos()) })
    }

    /// Takes what was read through the elements, and queues what leaves.
    fn forward(&mut self, now: Instant) {
        self.take_in_faces(now);
        if self.drained.is_some() {
            self.refuse_interests();
        }
        self.engine.process(now, &mut self.batch, &mut self.pool, &mut self.out);
        self.exchange_work(now);
        self.send(now);
        self.take_in_ended(now);
    }

    /// Takes back what other threads have done, and gives them what waits.
    fn exchange_work(&mut self, now: Instant) {
        if self.threads.is_none() {
            // The first errand is done here: it shows that there are some.
            if !self.work_here(now) {
                return;
            }
            self.threads = Some(Threads::start(&self.wake));
        }
        let Some(threads) = &mut self.threads else { return };
        while let Some(errand) = threads.take_back() {
            self.engine.finish_work(now, errand, &mut self.pool, &mut self.out);
        }
        while threads.has_room()
            && let Some(errand) = self.engine.take_work()
        {
            threads.give(errand);
        }
        // They have enough to do: one more is done here, so that no processor waits.
        if !threads.has_room() {
            self.work_here(now);
        }
    }

    /// Does an errand on this thread; false when there is none.
    fn work_here(&mut self, now: Instant) -> bool {
        let Some(mut errand) = self.engine.take_work() else { return false };
        errand.run();
        self.engine.finish_work(now, errand, &mut self.pool, &mut self.out);
        true
    }

    fn refuse_interests(&mut self) {
        let mut others = Vec::with_capacity(self.batch.len());
        for packet in self.batch.drain(..) {
            match self.pool.meta(&packet).kind {
                Kind::Interest => self.pool.drop_packet(packet, Cause::Draining, &mut self.drained_drops),
                Kind::Data | Kind::Nack => others.push(packet),
            }
        }
        self.batch = others;
    }

    /// True when it was to be drained, and is. Who remembers no Interests can't know what is still awaited, so all wait for a moment.
    fn is_drained(&self, now: Instant) -> bool {
        self.drained.is_some_and(|until| {
            now >= until || now + DRAIN_MAX >= until + DRAIN_LEAST && self.engine.is_idle()
        })
    }

    fn send(&mut self, now: Instant) {
        for packet in self.out.drain(..) {
            let egress = self.pool.meta(&packet).egress;
            self.faces.send(now, egress, packet, &mut self.pool);
        }
    }

    /// Tells elements of faces that came. Those that ended wait for [`take_in_ended`](Self::take_in_ended): what they received before is
    /// processed first.
    fn take_in_faces(&mut self, now: Instant) {
        let mut routes_change = false;
        for event in self.faces.events() {
            match event {
                FaceEvent::Created(status) => match self.door_of(&status) {
                    Some((at, is_accepted)) => {
                        self.engine.add_face(status.id, status.info(), at, is_accepted);
                        self.engine.set_peer(status.id, status.peer());
                        self.doors[at].is_connecting = !is_accepted && !status.up;
                        routes_change |= !is_accepted || self.engine.graph().faces[at].is_single;
                        tracing::debug!(face = self.doors[at].name, id = status.id.number(), uri = %status.uri, "face");
                    }
                    // Its listener is of a graph that runs no longer.
                    None => drop(self.faces.close(status.id, &mut self.pool)),
                },
                FaceEvent::Destroyed(status, reason) => self.ended.push((status, reason)),
                FaceEvent::Up(id) => {
                    self.doors.iter_mut().filter(|door| door.face == Some(id)).for_each(Door::up);
                }
                FaceEvent::Down(id) => {
                    self.doors.iter_mut().filter(|door| door.face == Some(id)).for_each(Door::down);
                }
            }
        }
        self.faces.take_last_packets(&mut self.batch);
        if routes_change {
            self.apply(now);
        }
    }

    /// Tells elements of faces that ended.
    fn take_in_ended(&mut self, now: Instant) {
        let mut routes_change = false;
        for (status, reason) in core::mem::take(&mut self.ended) {
            tracing::debug!(id = status.id.number(), uri = %status.uri, %reason, "face ended");
            self.engine.remove_face(now, status.id);
            routes_change |= self.engine.graph().faces.iter().any(|face| face.is_single);
            if let Some(door) = self.doors.iter_mut().find(|door| door.face == Some(status.id)) {
                let again = door.gone(now, &reason);
                self.retry = Some(self.retry.map_or(again, |retry| retry.min(again)));
            }
        }
        if routes_change {
            self.apply(now);
        }
    }

    /// Routes that name a face lead there from now on.
    fn apply(&mut self, now: Instant) {
        if let Err(faults) = self.engine.apply(now, &mut self.pool, &mut self.out) {
            tracing::error!("some parameters are not in effect: {}", HostError::Faults(faults));
        }
        self.send(now);
    }

    fn tick(&mut self, now: Instant) {
        if self.engine.deadline().is_some_and(|due| due <= now) {
            self.engine.tick(now, &mut self.pool, &mut self.out);
            self.send(now);
        }
        if self.faces.deadline().is_some_and(|due| due <= now) {
            self.faces.tick(now, &mut self.pool);
        }
        if self.retry.is_some_and(|due| due <= now) {
            self.open_missing(now);
        }
        if !self.engine.is_changing() {
            for face in self.leaving.drain(..) {
                self.faces.close(face, &mut self.pool);
            }
        }
        self.forward(now);
    }

    /// False when it shall end.
    fn take_messages(&mut self, now: Instant) -> bool {
        let mut count = [0; 8];
        let _ = rustix::io::read(&*self.wake, &mut count[..]);
        while let Ok(message) = self.messages.try_recv() {
            match message {
                Message::Stop => return false,
                Message::Drain => drop(self.drained.get_or_insert(now + DRAIN_MAX)),
                // Who asked may have gone.
                Message::Report(reply) => drop(reply.send(self.report())),
                Message::Change(graph, doors, order, reply) => {
                    let done = self.change(now, &graph, doors, order);
                    if let Err(error) = &done {
                        tracing::error!("{error}");
                    }
                    // Likewise.
                    drop(reply.send(done));
                }
            }
        }
        true
    }

    fn change(
        &mut self,
        now: Instant,
        graph: &Graph,
        mut doors: Vec<Door>,
        order: ChangeOrder,
    ) -> Result<(), HostError> {
        self.forward(now);
        let changed = self.engine.change(now, graph, order, &mut self.pool, &mut self.out);
        let changed = changed.map_err(HostError::Faults)?;
        for old in &mut self.doors {
            match doors.iter_mut().find(|new| new.is_like(old)) {
                Some(new) => new.clone_from(old),
                None => {
                    let accepted =
                        |id: &FaceId| self.faces.status(*id).is_some_and(|status| old.accepted(&status));
                    self.leaving.extend(self.faces.ids().filter(accepted));
                    old.close(&mut self.faces, &mut self.pool);
                }
            }
        }
        // Those that ended are told of while their names are known.
        self.forward(now);
        self.doors = doors;
        self.open_missing(now);
        self.take_in_faces(now);
        self.take_in_ended(now);
        self.apply(now);
        let crate::engine::Changed { kept, added, removed, not_in_effect, .. } = changed;
        tracing::info!(kept, added, removed, "graph changed");
        if not_in_effect.is_empty() { Ok(()) } else { Err(HostError::NotInEffect(not_in_effect)) }
    }
}

/// The keyed hash's secret, and the seed of what elements draw.
fn random() -> Result<(HashKey, u64), Errno> {
    let mut octets = [0; 40];
    getrandom::fill(&mut octets).map_err(|_| Errno::IO)?;
    let word = |at: usize| u64::from_ne_bytes(core::array::from_fn(|i| octets[8 * at + i]));
    Ok((HashKey::new([word(0), word(1), word(2), word(3)]), word(4)))
}
