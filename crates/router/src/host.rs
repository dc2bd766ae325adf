//! The loop: wait, read, forward, answer, write. One thread, nothing crosses it.
//!
//! ```text
//! epoll ─▶ faces.on_ready ─▶ plane.process ─▶ faces.send … ─▶ management, a bounded amount ─▶ faces.flush ─▶ timers ─▶ epoll
//! ```
//!
//! The clock is read once per wake-up. While there is nothing to do the thread sleeps until the next timer.

use crate::StartError;
use crate::authorize::{self, Authority, advertiser_signer};
use crate::control::{Control, ControlConfig, Ingress, Plan, Refusal, Ticket};
use crate::environment::{Hands, last_status};
use crate::inside::watch::Watch;
use crate::inside::{Answer, AskError, QUESTIONS_PER_TURN, Question, Reply};
use crate::placement::{self, Machine, Placement};
use crate::plane::Plane;
use crate::resolver::{Resolved, Resolver};
use crate::settings::{self, Share};
use crate::shards::Crew;
use crate::shortages::ShortageLog;
use crate::wall::WallClock;
use crate::xdp::KernelSteering;
use crossbeam_channel::{Receiver, Sender, TrySendError};
use nw_api::config::Config;
use nw_api::management::FaceEventKind;
use nw_api::rest::LoopTime;
use nw_element_api::{FaceId, FaceTable, Instant, Kind, Packet, Pool, Scope, Shortages};
use nw_faces::{FaceEvent, Faces, InheritedUnix};
use nw_name::HashKey;
use nw_trust::{Peer, Rules};
use nw_wire::{LpPacket, Token};
use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::time::Timespec;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{self, Duration};

/// How long management may keep packets waiting in one turn. What is begun is ended: one command, or one part of what takes long.
const MANAGEMENT_PER_TURN: Duration = Duration::from_micros(250);
/// Management Interests answered before the answers leave.
const MANAGEMENT_AT_ONCE: usize = 8;
/// Sockets served per wait.
const EVENTS_MAX: usize = 256;
/// Chunks of 64 KiB that packets of one turn are read into.
pub(crate) const CHUNKS_MAX: usize = 256;
/// Packets under way at one time.
pub(crate) const PACKETS_MAX: usize = 65_536;
/// First octet of a Data.
const DATA: u8 = nw_wire::types::DATA as u8;
/// Turns that take longer are counted apart: packets may have waited so long.
const SLOW_TURN_NS: u64 = 1_000_000;
/// The host's own epoll token; those of faces are above 2^32.
const WAKE: u64 = 0;
/// Likewise: another shard has something for this one.
const BELL: u64 = 1;

/// What others ask of a running router.
enum Message {
    Reload(Box<Plan>, Result<Box<Rules>, StartError>),
    Ask(Question, Reply),
    Resolved(Resolved),
    Stop,
}

impl core::fmt::Debug for Message {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Message::Reload(..) => f.write_str("Reload"),
            Message::Ask(question, _) => write!(f, "Ask({question:?})"),
            Message::Resolved(_) => f.write_str("Resolved"),
            Message::Stop => f.write_str("Stop"),
        }
    }
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

    /// Takes over what can change while running: routes, faces, strategies, the content store, who may command.
    pub fn reload(&self, config: Config) {
        let signer = advertiser_signer(&config);
        // Files are read here, not in the router's thread.
        let rules = authorize::rules(&config, WallClock::start().unix_ms()).map(Box::new);
        let mut plan = Plan::of(config);
        match signer {
            Ok(signer) => plan = plan.signed_by(signer),
            Err(error) => tracing::error!(%error, "commands to others are signed as before"),
        }
        self.tell(Message::Reload(Box::new(plan), rules));
    }

    /// Asks; `reply` is called in the router's thread, soon. It is let go of without being called when the router ends meanwhile.
    ///
    /// # Errors
    /// When the question is not taken.
    pub fn ask(
        &self,
        question: Question,
        reply: impl FnOnce(Answer, Duration) + Send + 'static,
    ) -> Result<(), AskError> {
        self.sender.try_send(Message::Ask(question, Box::new(reply))).map_err(|error| match error {
            TrySendError::Full(_) => AskError::Busy,
            TrySendError::Disconnected(_) => AskError::Ended,
        })?;
        let _ = rustix::io::write(&*self.wake, &1u64.to_ne_bytes());
        Ok(())
    }

    fn tell(&self, message: Message) {
        // A router that has ended needs to be told nothing.
        if self.sender.send(message).is_ok() {
            let _ = rustix::io::write(&*self.wake, &1u64.to_ne_bytes());
        }
    }
}

/// A router with its sockets.
pub struct Host {
    epoll: OwnedFd,
    wake: Arc<OwnedFd>,
    messages: Receiver<Message>,
    handle: Handle,
    started: time::Instant,
    pub(crate) wall: WallClock,
    /// Without faces, routes and strategies, which control keeps.
    pub(crate) config: Config,
    pub(crate) faces: Faces,
    pub(crate) known: FaceTable,
    pub(crate) plane: Plane,
    pub(crate) pool: Pool,
    /// The other shards, if there are any.
    pub(crate) crew: Option<Crew>,
    pub(crate) control: Control,
    pub(crate) authority: Authority,
    pub(crate) batch: Vec<Packet>,
    pub(crate) out: Vec<Packet>,
    /// Packets that other shards handed over.
    pub(crate) own: Vec<Packet>,
    ended: Vec<FaceEvent>,
    untold: Vec<FaceEvent>,
    connecting: Vec<(FaceId, Ticket)>,
    resolver: Resolver,
    /// Management has more to do.
    busy: bool,
    /// Commands of others whose face is being connected.
    pub(crate) waiting: Vec<(Ticket, Reply)>,
    pub(crate) loop_time: LoopTime,
    /// Packets taken through the plane.
    pub(crate) packets: u64,
    /// Present while somebody looks.
    pub(crate) watch: Option<Box<Watch>>,
    pub(crate) trace_id: u64,
    pub(crate) shortage_log: ShortageLog,
    /// Of the places for commands of others that wait.
    pub(crate) rest_shortages: Shortages,
}

impl core::fmt::Debug for Host {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Host({} faces)", self.faces.len())
    }
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
            ended: &mut $host.ended,
            untold: &mut $host.untold,
            connecting: &mut $host.connecting,
            resolver: &mut $host.resolver,
            crew: $host.crew.as_mut(),
            work: ($host.packets, $host.loop_time),
            wall: $host.wall,
        }
    };
}

impl Host {
    /// Opens every listener of a configuration, fills in its faces, routes and strategies.
    ///
    /// # Errors
    /// What can't be had, and what helps: a port that is taken, a path one may not write to.
    pub fn new(config: Config) -> Result<Self, StartError> {
        Host::with_inherited(config, None)
    }

    /// As [`new`](Self::new), with a unix socket that listens already in place of the configuration's.
    ///
    /// # Errors
    /// See there.
    pub fn with_inherited(mut config: Config, inherited: Option<InheritedUnix>) -> Result<Self, StartError> {
        let system = |what| move |errno| StartError::System { what, errno };
        settings::address_space_fits(&config).map_err(StartError::Tables)?;
        raise_descriptor_limit();
        nw_faces::free_at_once();
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(system("an epoll descriptor"))?;
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(system("an event descriptor"))?;
        epoll::add(&epoll, &wake, epoll::EventData::new_u64(WAKE), epoll::EventFlags::IN)
            .map_err(system("to watch a descriptor"))?;
        let (key, seed) = random().map_err(system("random octets"))?;
        let wall = WallClock::start();
        let authority = Authority::new(&config, wall.unix_ms())?;
        let (now, started) = (Instant::START, time::Instant::now());
        if config.forwarder.shards == 0 {
            config.forwarder.shards = Machine::here().shards() as u32;
        }
        let shards = config.forwarder.shards as usize;
        let placement = Placement::of(&config.forwarder);
        // Frames of AF_XDP are touched by whoever registers them.
        let visit = placement.at_first();
        let mut faces = Faces::new(settings::faces(&config, Share { shard: 0, shards }), epoll.as_fd())?;
        let mut known = FaceTable::new();
        let mut plane = settings::plane(&config, key, seed, Share { shard: 0, shards });
        let mut pool = Pool::new(key, CHUNKS_MAX, PACKETS_MAX);
        let (mut batch, mut out, mut ended, mut untold, mut connecting) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
        faces.open_internal(now);
        faces.open_null(now);
        listen(&config, inherited, &mut faces)?;
        faces.set_interface_policy(now, settings::interfaces(&config), &mut pool)?;
        faces.set_xdp(now, settings::xdp(&config), Box::new(KernelSteering { key, shards: shards as u8 }))?;
        // Threads that can't be bound run anywhere.
        drop(visit);
        let mut crew = match shards {
            1 => None,
            _ => Some(Crew::start(&config, (key, seed), started, &faces, &placement)?),
        };
        // So are the tables by the first routes.
        let _visit = placement.at_first();
        if let Some(crew) = &mut crew {
            let bell = crew.exchange_mut().bell().as_fd();
            epoll::add(&epoll, bell, epoll::EventData::new_u64(BELL), epoll::EventFlags::IN)
                .map_err(system("to watch a descriptor"))?;
        }
        let (sender, messages) = crossbeam_channel::bounded(64);
        let wake = Arc::new(wake);
        let handle = Handle { sender, wake: Arc::clone(&wake) };
        let resolved = handle.clone();
        let mut resolver = Resolver::new(move |addresses| resolved.tell(Message::Resolved(addresses)));
        let mut hands = Hands {
            now,
            faces: &mut faces,
            known: &mut known,
            plane: &mut plane,
            pool: &mut pool,
            batch: &mut batch,
            out: &mut out,
            ended: &mut ended,
            untold: &mut untold,
            connecting: &mut connecting,
            resolver: &mut resolver,
            crew: crew.as_mut(),
            work: (0, LoopTime::default()),
            wall,
        };
        hands.absorb_face_events();
        let control_config = ControlConfig {
            version: concat!("namewire ", env!("CARGO_PKG_VERSION")).to_owned(),
            seed,
            next_hops_max: config.tables.next_hops_per_prefix as usize,
            routes_max: config.tables.routes as usize,
        };
        let mut control =
            Control::new(control_config, &mut hands).map_err(|refusal| StartError::Tables(refusal.text))?;
        let signer = advertiser_signer(&config)?;
        let plan = Plan::of(config).signed_by(signer);
        let config = plan.rest.clone();
        control.apply_config(plan, &mut hands);
        while control.has_work() {
            control.work(now, &mut hands);
        }
        if let Some(crew) = &mut crew {
            crew.settle(now, &mut faces, &known, &mut pool);
        }
        if config.tables.lock {
            let locked = rustix::mm::mlockall(rustix::mm::MlockAllFlags::CURRENT);
            locked.map_err(|errno| StartError::Lock { errno })?;
        }
        Ok(Host {
            handle,
            epoll,
            wake,
            messages,
            started,
            wall,
            config,
            faces,
            known,
            plane,
            pool,
            crew,
            control,
            authority,
            batch,
            out,
            own: Vec::new(),
            ended,
            untold,
            connecting,
            resolver,
            busy: false,
            waiting: Vec::new(),
            loop_time: LoopTime::default(),
            packets: 0,
            watch: None,
            trace_id: 0,
            shortage_log: ShortageLog::default(),
            rest_shortages: Shortages::default(),
        })
    }

    /// For telling this router something once it runs.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Threads that forward.
    pub const fn shards(&self) -> u32 {
        self.config.forwarder.shards
    }

    /// Where it listens, as URIs; and advice about what the system granted.
    pub fn listeners(&self) -> Vec<(String, Option<String>)> {
        let describe = |listener: nw_faces::ListenerStatus| {
            (listener.uri.to_string(), listener.udp.as_ref().and_then(nw_faces::UdpBuffer::advice))
        };
        self.faces.listeners().into_iter().map(describe).collect()
    }

    /// Time since the start, on the clock of the loop.
    pub(crate) fn started(&self) -> Duration {
        self.started.elapsed()
    }

    pub(crate) fn now(&self) -> Instant {
        Instant::START + self.started.elapsed()
    }

    /// Lends control, and everything else to its hands.
    pub(crate) fn with_control<R>(
        &mut self,
        now: Instant,
        work: impl FnOnce(&mut Control, &mut Hands<'_>) -> R,
    ) -> R {
        work(&mut self.control, &mut hands!(self, now))
    }

    /// Runs until [`Handle::stop`], then sends what can be sent at once and closes every face.
    ///
    /// # Errors
    /// When the system refuses to wait for packets.
    pub fn run(&mut self) -> Result<(), StartError> {
        let result = self.turn_until_stopped();
        self.out.drain(..).chain(self.batch.drain(..)).for_each(|packet| self.pool.release(packet));
        self.faces.close_all(&mut self.pool);
        if let Some(crew) = &mut self.crew {
            crew.stop();
        }
        result
    }

    fn turn_until_stopped(&mut self) -> Result<(), StartError> {
        if let Some(cpu) = self.crew.as_ref().and_then(|crew| crew.first_cpu()) {
            placement::pin_shard(0, cpu);
        }
        let mut events = Vec::with_capacity(EVENTS_MAX);
        let mut woke = self.now();
        let mut cpu_before = None;
        loop {
            // One look at the clock serves for this turn's end and the next timer.
            let done = self.now();
            self.count_turn(done.since(woke), cpu_before);
            cpu_before = self.busy.then(cpu_time);
            self.tell_xdp_news();
            let timeout = self.timeout(done);
            let timeout =
                if self.must_not_sleep() { Some(Timespec { tv_sec: 0, tv_nsec: 0 }) } else { timeout };
            events.clear();
            match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), timeout.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(StartError::System { what: "to wait for packets", errno }),
            }
            let now = self.now();
            woke = now;
            if let Some(crew) = &mut self.crew {
                crew.exchange_mut().bell().wake();
            }
            self.meet_others(now);
            for event in &events {
                match event.data.u64() {
                    BELL => self.hush(),
                    // It says so again at the next turn.
                    token if token != WAKE && self.is_crowded() => {}
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
            self.take_in_ends(now);
            self.log_shortages(now);
            self.expire_watch(now);
            if let Some(crew) = &mut self.crew {
                crew.exchange_mut().ring();
            }
        }
    }

    /// `cpu_before` is there when management waited as the turn began; packets alone cost no look at that clock.
    fn count_turn(&mut self, took: Duration, cpu_before: Option<Duration>) {
        let took_ns = took.as_nanos() as u64;
        self.loop_time.turns += 1;
        self.loop_time.slow_turns += u64::from(took_ns > SLOW_TURN_NS);
        self.loop_time.busy_ns += took_ns;
        self.loop_time.longest_ns = self.loop_time.longest_ns.max(took_ns);
        if let Some(before) = cpu_before {
            let cpu_ns = cpu_time().saturating_sub(before).as_nanos() as u64;
            self.loop_time.longest_management_cpu_ns = self.loop_time.longest_management_cpu_ns.max(cpu_ns);
            self.loop_time.slow_management_turns += u64::from(cpu_ns > SLOW_TURN_NS);
        }
    }

    fn timeout(&self, now: Instant) -> Option<Timespec> {
        let timers = [
            self.faces.deadline(),
            self.plane.deadline(),
            Some(self.control.next_timeout()),
            Some(self.authority.next_timeout()),
        ];
        if self.busy {
            return Some(Timespec { tv_sec: 0, tv_nsec: 0 });
        }
        let due = timers.into_iter().flatten().min().filter(|due| *due != Instant::NEVER)?;
        let wait = due.since(now);
        Some(Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: i64::from(wait.subsec_nanos()) })
    }

    /// Takes what was read, as far as it is this shard's, through the plane, and queues what leaves.
    pub(crate) fn forward(&mut self, now: Instant) {
        hands!(self, now).absorb_face_events();
        if let Some(watch) = &mut self.watch {
            self.plane.read_names(&mut self.batch, &mut self.pool);
            watch.incoming(now, &self.batch, &self.pool);
        }
        self.distribute(now);
        self.forward_own(now);
        if !self.ended.is_empty() {
            hands!(self, now).absorb_ended();
        }
    }

    /// Takes what is this shard's through the plane, and queues what leaves.
    pub(crate) fn forward_own(&mut self, now: Instant) {
        self.packets += self.batch.len() as u64;
        self.plane.process(now, &mut self.batch, &mut self.pool, &mut self.out);
        self.send(now);
        while let Some(lesson) = self.plane.next_lesson() {
            self.learn(now, lesson);
        }
    }

    /// Lets control change routes by what self-learning found out.
    #[cold]
    pub(crate) fn learn(&mut self, now: Instant, lesson: Packet) {
        let meta = self.pool.meta(&lesson);
        let (kind, face) = (meta.kind, meta.ingress);
        let ingress = self.ingress(face);
        let bytes = self.pool.bytes(&lesson).to_vec();
        self.pool.release(lesson);
        let hands = &mut hands!(self, now);
        match kind {
            Kind::Data => {
                self.control.learn(now, ingress, &bytes, &mut self.authority, hands);
            }
            Kind::Interest | Kind::Nack => {
                if let Ok(interest) = nw_wire::Interest::check(&bytes) {
                    self.control.unlearn(now, ingress, interest.name(), hands);
                }
            }
        }
        self.send(now);
    }

    fn send(&mut self, now: Instant) {
        self.note_asked(now);
        if let Some(watch) = &mut self.watch {
            self.out.iter().for_each(|packet| watch.outgoing(now, packet, &self.pool));
        }
        for packet in self.out.drain(..) {
            let egress = self.pool.meta(&packet).egress;
            self.faces.send(now, egress, packet, &mut self.pool);
        }
    }

    /// Answers what came to the internal face; a bounded amount, then packets have their turn.
    fn manage(&mut self, now: Instant) {
        let start = time::Instant::now();
        let is_over = || start.elapsed() >= MANAGEMENT_PER_TURN;
        self.busy = true;
        while !is_over() {
            let mut answered = 0;
            // Where commands take all the time, what they began goes on nevertheless: a part each turn.
            while answered < MANAGEMENT_AT_ONCE
                && (answered == 0 || !is_over())
                && let Some(link_packet) = self.faces.next_internal()
            {
                self.answer(now, &link_packet);
                answered += 1;
            }
            let works = self.control.has_work();
            if works {
                self.control.work(now, &mut hands!(self, now));
            }
            let follows = self.follow_up_on_certificates(now);
            if answered == 0 && !works && !follows {
                self.busy = false;
                break;
            }
            self.forward(now);
            self.tell_face_events(now);
        }
        self.faces.flush(&mut self.pool);
    }

    fn answer(&mut self, now: Instant, link_packet: &[u8]) {
        let Ok(packet) = LpPacket::check(link_packet) else { return };
        let Some(wire) = packet.fragment else { return };
        match (packet.nack, wire.first()) {
            (Some(reason), _) => return self.control.on_nack(now, wire, reason.as_str()),
            (None, Some(&DATA)) => {
                self.authority.on_data(now, wire);
                return self.control.on_data(now, wire);
            }
            (None, _) => {}
        }
        let face = packet.incoming_face_id.and_then(FaceId::from_number).unwrap_or(FaceId::NONE);
        let ingress = self.ingress(face);
        let (authority, token) = (&mut self.authority, packet.pit_token);
        self.control.on_interest(now, ingress, token, wire, authority, &mut hands!(self, now));
    }

    /// What management is told of the face that something came by.
    fn ingress(&self, face: FaceId) -> Ingress {
        let local = self.known.info(face).is_some_and(|info| info.scope == Scope::Local);
        let address = || self.faces.status(face)?.uri.address();
        let peer = match local {
            false => address().map_or(Peer::Face(face.number()), |address| Peer::at(address.ip())),
            true => Peer::Face(face.number()),
        };
        Ingress { face, local, peer }
    }

    /// Asks for certificates that commands wait for, and passes a command in again whose certificates came, or will not: one, for checking its
    /// signatures takes as long as a part of other work. True when there was something: to be called again, with packets in between.
    fn follow_up_on_certificates(&mut self, now: Instant) -> bool {
        let mut done = false;
        if let Some((interest, face)) = self.authority.next_ready() {
            done = true;
            if self.known.contains(face) {
                let ingress = self.ingress(face);
                let (authority, hands) = (&mut self.authority, &mut hands!(self, now));
                self.control.on_interest(now, ingress, Token::NONE, &interest, authority, hands);
            }
        }
        while let Some(link_packet) = self.authority.next_ask(nonce) {
            self.faces.inject(now, &link_packet, &mut self.pool, &mut self.batch);
            done = true;
        }
        done
    }

    fn tell_face_events(&mut self, now: Instant) {
        while !self.untold.is_empty() {
            for event in core::mem::take(&mut self.untold) {
                self.tell_face_event(now, event);
            }
            self.forward(now);
        }
        self.answer_waiting();
    }

    /// Deals with faces that ended because a write failed or a question asked for it, until none is left: the loop may sleep then.
    fn take_in_ends(&mut self, now: Instant) {
        while self.faces.has_events() || !self.ended.is_empty() {
            self.forward(now);
            self.tell_face_events(now);
            self.faces.flush(&mut self.pool);
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
        match &event {
            FaceEvent::Created(status) => self.authority.note_face(status.id, &status.uri, true),
            FaceEvent::Destroyed(status, _) => self.authority.note_face(status.id, &status.uri, false),
            FaceEvent::Up(_) | FaceEvent::Down(_) => {}
        }
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
        // The router's own faces have always been there.
        if let Some(status) = status.filter(|_| id.number() >= u64::from(FaceId::FIRST)) {
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
        if self.authority.next_timeout() <= now {
            self.authority.on_timeout(now);
            // Commands may wait no longer: the next turn goes on with them.
            self.busy = true;
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
        let mut questions = 0;
        while let Ok(message) = self.messages.try_recv() {
            match message {
                Message::Stop => return false,
                Message::Resolved((ticket, addresses)) => {
                    self.control.host_resolved(now, ticket, addresses, &mut hands!(self, now));
                    self.forward(now);
                }
                Message::Ask(question, reply) => {
                    self.answer_question(now, question, reply);
                    questions += 1;
                    if questions == QUESTIONS_PER_TURN {
                        // More may wait: packets first, then again.
                        let _ = rustix::io::write(&*self.wake, &1u64.to_ne_bytes());
                        return true;
                    }
                }
                Message::Reload(plan, rules) => self.reload(now, *plan, rules),
            }
        }
        true
    }
}

/// Processor time of this thread.
fn cpu_time() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32)
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

/// Of an Interest of our own.
fn nonce() -> u32 {
    let mut octets = [0; 4];
    // Without randomness a nonce is still one; loops are known by the name too.
    let _ = getrandom::fill(&mut octets);
    u32::from_ne_bytes(octets)
}

/// Where this process' unix socket is, by its configuration, user and environment.
pub fn unix_path(config: &Config) -> PathBuf {
    let runtime_dir = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    config.unix_path(rustix::process::geteuid().is_root(), runtime_dir.as_deref())
}

fn listen(config: &Config, inherited: Option<InheritedUnix>, faces: &mut Faces) -> Result<(), StartError> {
    if let Some(inherited) = inherited {
        faces.adopt_unix(inherited)?;
    } else if config.unix.enabled {
        faces.listen_unix(&unix_path(config), config.unix.mode.0)?;
    }
    for address in &config.tcp.listen {
        faces.listen_tcp(*address)?;
    }
    for address in &config.udp.listen {
        faces.listen_udp(*address)?;
    }
    for address in &config.websocket.listen {
        faces.listen_websocket(*address)?;
    }
    Ok(())
}
