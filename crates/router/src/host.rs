//! The loop: wait, read, forward, answer, write. One thread, nothing crosses it.
//!
//! ```text
//! epoll ─▶ faces.on_ready ─▶ plane.process ─▶ faces.send … ─▶ management, a bounded amount ─▶ faces.flush ─▶ timers ─▶ epoll
//! ```
//!
//! The clock is read once per wake-up. While there is nothing to do the thread sleeps until the next timer.

use crate::StartError;
use crate::authorize::Authority;
use crate::control::{Control, ControlConfig, Ingress, Refusal, Ticket};
use crate::environment::{Hands, last_status};
use crate::plane::Plane;
use crate::settings;
use crossbeam_channel::{Receiver, Sender};
use nw_api::config::Config;
use nw_api::management::FaceEventKind;
use nw_element::{FaceId, FaceTable, Instant, Packet, Pool, Scope};
use nw_faces::{FaceEvent, Faces};
use nw_name::HashKey;
use nw_wire::LpPacket;
use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::time::Timespec;
use std::sync::Arc;
use std::time::{self, SystemTime, UNIX_EPOCH};

/// Management Interests answered before packets get their turn again.
const MANAGEMENT_PER_TURN: usize = 64;
/// Sockets served per wait.
const EVENTS_MAX: usize = 256;
/// Chunks of 64 KiB that packets of one turn are read into.
const CHUNKS_MAX: usize = 256;
/// Packets under way at one time.
const PACKETS_MAX: usize = 65_536;
/// The host's own epoll token; those of faces are above 2^32.
const WAKE: u64 = 0;

/// What others ask of a running router.
#[derive(Debug)]
enum Message {
    Reload(Box<Config>),
    Stop,
}

/// Wakes a running router and tells it something; from any thread.
#[derive(Clone, Debug)]
pub struct Handle {
    sender: Sender<Message>,
    wake: Arc<OwnedFd>,
}

impl Handle {
    /// Ends the router: [`Host::run`] returns.
    pub fn stop(&self) {
        self.tell(Message::Stop);
    }

    /// Takes over what can change while running: routes, faces, strategies.
    pub fn reload(&self, config: Config) {
        self.tell(Message::Reload(Box::new(config)));
    }

    fn tell(&self, message: Message) {
        // A router that has ended needs to be told nothing.
        if self.sender.send(message).is_ok() {
            let _ = rustix::io::write(&*self.wake, &1u64.to_ne_bytes());
        }
    }
}

/// A router with its sockets.
#[derive(Debug)]
pub struct Host {
    epoll: OwnedFd,
    wake: Arc<OwnedFd>,
    messages: Receiver<Message>,
    handle: Handle,
    started: time::Instant,
    config: Config,
    faces: Faces,
    known: FaceTable,
    plane: Plane,
    pool: Pool,
    control: Control,
    authority: Authority,
    batch: Vec<Packet>,
    out: Vec<Packet>,
    untold: Vec<FaceEvent>,
    connecting: Vec<(FaceId, Ticket)>,
}

/// Lends everything but control.
macro_rules! hands {
    ($host:expr, $now:expr) => {
        Hands {
            now: $now,
            faces: &mut $host.faces,
            known: &mut $host.known,
            plane: &mut $host.plane,
            pool: &mut $host.pool,
            batch: &mut $host.batch,
            out: &mut $host.out,
            untold: &mut $host.untold,
            connecting: &mut $host.connecting,
        }
    };
}

impl Host {
    /// Opens every listener of a configuration, fills in its faces, routes and strategies.
    ///
    /// # Errors
    /// What can't be had, and what helps: a port that is taken, a path one may not write to.
    pub fn new(config: Config) -> Result<Self, StartError> {
        let system = |what| move |errno| StartError::System { what, errno };
        raise_descriptor_limit();
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(system("an epoll descriptor"))?;
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(system("an event descriptor"))?;
        epoll::add(&epoll, &wake, epoll::EventData::new_u64(WAKE), epoll::EventFlags::IN)
            .map_err(system("to watch a descriptor"))?;
        let (key, seed) = random().map_err(system("random octets"))?;
        let start_unix_ms =
            SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64;
        let authority = Authority::new(&config.management, start_unix_ms)?;
        let now = Instant::START;
        let mut faces = Faces::new(settings::faces(&config), epoll.as_fd())?;
        let mut known = FaceTable::new();
        let mut plane = settings::plane(&config, key, seed);
        let mut pool = Pool::new(key, CHUNKS_MAX, PACKETS_MAX);
        let (mut batch, mut out, mut untold, mut connecting) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        faces.open_internal(now);
        listen(&config, &mut faces)?;
        let mut hands = Hands {
            now,
            faces: &mut faces,
            known: &mut known,
            plane: &mut plane,
            pool: &mut pool,
            batch: &mut batch,
            out: &mut out,
            untold: &mut untold,
            connecting: &mut connecting,
        };
        hands.absorb_face_events();
        let control_config = ControlConfig {
            version: concat!("namewire ", env!("CARGO_PKG_VERSION")).to_owned(),
            start_unix_ms,
            next_hops_max: config.tables.next_hops_per_prefix as usize,
            routes_max: config.tables.routes as usize,
        };
        let mut control =
            Control::new(control_config, &mut hands).map_err(|refusal| StartError::Tables(refusal.text))?;
        control.apply_config(now, &config, &mut hands);
        let (sender, messages) = crossbeam_channel::bounded(64);
        let wake = Arc::new(wake);
        Ok(Host {
            handle: Handle { sender, wake: Arc::clone(&wake) },
            epoll,
            wake,
            messages,
            started: time::Instant::now(),
            config,
            faces,
            known,
            plane,
            pool,
            control,
            authority,
            batch,
            out,
            untold,
            connecting,
        })
    }

    /// For telling this router something once it runs.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Where it listens, as URIs; and advice about what the system granted.
    pub fn listeners(&self) -> Vec<(String, Option<String>)> {
        let describe = |listener: nw_faces::ListenerStatus| {
            (listener.uri.to_string(), listener.udp.as_ref().and_then(nw_faces::UdpBuffer::advice))
        };
        self.faces.listeners().into_iter().map(describe).collect()
    }

    fn now(&self) -> Instant {
        Instant::START + self.started.elapsed()
    }

    /// Runs until [`Handle::stop`], then sends what can be sent at once and closes every face.
    ///
    /// # Errors
    /// When the system refuses to wait for packets.
    pub fn run(&mut self) -> Result<(), StartError> {
        let result = self.turn_until_stopped();
        self.out.drain(..).chain(self.batch.drain(..)).for_each(|packet| self.pool.release(packet));
        self.faces.close_all(&mut self.pool);
        result
    }

    fn turn_until_stopped(&mut self) -> Result<(), StartError> {
        let mut events = Vec::with_capacity(EVENTS_MAX);
        loop {
            let timeout = self.timeout();
            events.clear();
            match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), timeout.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(StartError::System { what: "to wait for packets", errno }),
            }
            let now = self.now();
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
            self.tell_face_events(now);
            self.faces.flush(&mut self.pool);
            self.manage(now);
            self.tick(now);
        }
    }

    fn timeout(&self) -> Option<Timespec> {
        let timers = [self.faces.deadline(), self.plane.deadline(), Some(self.control.next_timeout())];
        let due = timers.into_iter().flatten().min().filter(|due| *due != Instant::NEVER)?;
        let wait = due.since(self.now());
        Some(Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: i64::from(wait.subsec_nanos()) })
    }

    /// Takes what was read through the plane, and queues what leaves.
    fn forward(&mut self, now: Instant) {
        hands!(self, now).absorb_face_events();
        self.plane.process(now, &mut self.batch, &mut self.pool, &mut self.out);
        self.send(now);
    }

    fn send(&mut self, now: Instant) {
        for packet in self.out.drain(..) {
            let egress = self.pool.meta(&packet).egress;
            self.faces.send(now, egress, packet, &mut self.pool);
        }
    }

    /// Answers what came to the internal face; a bounded amount, then packets have their turn.
    fn manage(&mut self, now: Instant) {
        for _ in 0..MANAGEMENT_PER_TURN {
            let Some(link_packet) = self.faces.next_internal() else { return };
            self.answer(now, &link_packet);
            self.tell_face_events(now);
            self.faces.flush(&mut self.pool);
        }
        // More is waiting: do not sleep.
        let _ = rustix::io::write(&*self.wake, &1u64.to_ne_bytes());
    }

    fn answer(&mut self, now: Instant, link_packet: &[u8]) {
        let Ok(packet) = LpPacket::check(link_packet) else { return };
        let (Some(wire), None) = (packet.fragment, packet.nack) else { return };
        let face = packet.incoming_face_id.and_then(FaceId::from_number).unwrap_or(FaceId::NONE);
        let local = self.known.info(face).is_some_and(|info| info.scope == Scope::Local);
        let ingress = Ingress { face, local };
        self.control.on_interest(now, ingress, wire, &mut self.authority, &mut hands!(self, now));
        self.forward(now);
    }

    fn tell_face_events(&mut self, now: Instant) {
        while !self.untold.is_empty() {
            for event in core::mem::take(&mut self.untold) {
                self.tell_face_event(now, event);
            }
            self.forward(now);
        }
    }

    fn tell_face_event(&mut self, now: Instant, event: FaceEvent) {
        let hands = &mut hands!(self, now);
        let kind = match &event {
            FaceEvent::Created(_) => FaceEventKind::Created,
            FaceEvent::Destroyed(..) => FaceEventKind::Destroyed,
            FaceEvent::Up(_) => FaceEventKind::Up,
            FaceEvent::Down(_) => FaceEventKind::Down,
        };
        let (id, status) = match &event {
            FaceEvent::Created(status) | FaceEvent::Destroyed(status, _) => {
                (status.id, Some(last_status(status, now)))
            }
            FaceEvent::Up(id) | FaceEvent::Down(id) => {
                (*id, hands.faces.status(*id).map(|status| last_status(&status, now)))
            }
        };
        let waiting = |connecting: &mut Vec<(FaceId, Ticket)>| {
            let at = connecting.iter().position(|(face, _)| *face == id)?;
            Some(connecting.swap_remove(at).1)
        };
        match &event {
            FaceEvent::Up(id) => {
                if let Some(ticket) = waiting(hands.connecting) {
                    self.control.face_completed(now, ticket, Ok(*id), hands);
                }
            }
            FaceEvent::Destroyed(_, reason) => {
                if let Some(ticket) = waiting(hands.connecting) {
                    self.control.face_completed(
                        now,
                        ticket,
                        Err(Refusal::new(504, reason.to_string())),
                        hands,
                    );
                }
            }
            FaceEvent::Created(_) | FaceEvent::Down(_) => {}
        }
        // The internal face has always been there.
        if let Some(status) = status.filter(|_| id != FaceId::INTERNAL) {
            self.control.face_event(now, kind, &status, hands);
        }
    }

    fn tick(&mut self, now: Instant) {
        if self.plane.deadline().is_some_and(|due| due <= now) {
            self.plane.tick(now, &mut self.pool, &mut self.out);
            self.send(now);
        }
        if self.faces.deadline().is_some_and(|due| due <= now) {
            self.faces.tick(now, &mut self.pool);
            self.forward(now);
        }
        if self.control.next_timeout() <= now {
            self.control.on_timeout(now, &mut hands!(self, now));
            self.forward(now);
        }
        // What timers made leave or happen is dealt with before the loop sleeps.
        self.tell_face_events(now);
        self.faces.flush(&mut self.pool);
    }

    /// False when the router shall end.
    fn take_messages(&mut self, now: Instant) -> bool {
        let mut count = [0; 8];
        let _ = rustix::io::read(&*self.wake, &mut count[..]);
        while let Ok(message) = self.messages.try_recv() {
            match message {
                Message::Stop => return false,
                Message::Reload(config) => {
                    let (store_before, store) = (&self.config.content_store, &config.content_store);
                    let fits = settings::change_store(&mut self.plane, store_before, store);
                    if !fits || self.config.needs_restart(&config) {
                        tracing::warn!(
                            "some options that changed take effect at the next start: all but faces, routes, strategies, log level and the content store up to its size at the start"
                        );
                    }
                    self.control.apply_config(now, &config, &mut hands!(self, now));
                    self.config = *config;
                    self.forward(now);
                    tracing::info!("configuration taken over");
                }
            }
        }
        true
    }
}

/// A face is a descriptor, and the usual soft limit of 1024 is for programs with few.
fn raise_descriptor_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    if let Err(errno) = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })
    {
        tracing::warn!(%errno, "can't raise the limit of open files; faces may be refused");
    }
}

/// The keyed hash's secret and the seed of nonces.
fn random() -> Result<(HashKey, u64), Errno> {
    let mut octets = [0; 40];
    getrandom::fill(&mut octets).map_err(|_| Errno::IO)?;
    let word = |at: usize| u64::from_ne_bytes(core::array::from_fn(|i| octets[8 * at + i]));
    Ok((HashKey::new([word(0), word(1), word(2), word(3)]), word(4)))
}

fn listen(config: &Config, faces: &mut Faces) -> Result<(), StartError> {
    if config.unix.enabled {
        let runtime_dir = std::env::var_os("XDG_RUNTIME_DIR").map(std::path::PathBuf::from);
        let path = config.unix_path(rustix::process::geteuid().is_root(), runtime_dir.as_deref());
        faces.listen_unix(&path, config.unix.mode.0)?;
    }
    for address in &config.tcp.listen {
        faces.listen_tcp(*address)?;
    }
    for address in &config.udp.listen {
        faces.listen_udp(*address)?;
    }
    Ok(())
}
