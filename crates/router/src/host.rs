//! The event loop of the first shard: wait, read, forward, manage, write. One thread owns all its
//! state.
//!
//! ```text
//! epoll ─▶ faces.on_ready ─▶ plane.process ─▶ faces.send ─▶ management ─▶ faces.flush
//!   ▲                                                                        │
//!   └──────────────────────────────── timers ◀───────────────────────────────┘
//! ```
//!
//! The clock is read once per wake-up. Management has a bounded time per iteration, so that packets
//! never wait long. Busy faces do not delay what others sent: outgoing packets are written also
//! within an iteration, and a socket that many new peers send to is read after all others. Without
//! work the thread sleeps until the next timer.

use crate::StartError;
use crate::authority::Authority;
use crate::environment::{HostEnvironment, environment, face_status};
use crate::handle::{Handle, HostRequest};
use crate::introspection::observer::PacketObserver;
use crate::introspection::{QUERIES_PER_ITERATION, ReplyCallback};
use crate::placement;
use crate::plane::Plane;
use crate::resolver::Resolver;
use crate::shards::ShardPool;
use crate::shortage_log::ShortageLog;
use crate::trace::Tracer;
use crate::wall_clock::WallClock;
use crossbeam_channel::Receiver;
use nw_api::config::Config;
use nw_api::management::FaceEventKind;
use nw_api::rest::EventLoopStats;
use nw_control::{Control, Ingress, OperationId, Refusal};
use nw_element_api::capture::FaceLabel;
use nw_element_api::{FaceId, FaceTable, Kind, Packet, Pool, Scope, Shortages, Timestamp};
use nw_faces::{FaceEvent, Faces};
use nw_trust::PeerGroup;
use nw_wire::{LpPacket, Token};
use rustix::event::epoll;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::time::Timespec;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{self, Duration};

/// Time that management may take in one iteration. A command, or a part of a long operation, that
/// has begun is completed.
const MANAGEMENT_PER_ITERATION: Duration = Duration::from_micros(250);
/// Management Interests that are processed before their replies are forwarded.
const MANAGEMENT_INTERESTS_MAX: usize = 8;
/// Packets received in one iteration after which outgoing ones are written: with many busy faces
/// they would wait for all of them.
pub(crate) const UNSENT_MAX: usize = 128;
/// Socket events per call of `epoll_wait`.
const EVENTS_MAX: usize = 256;
/// Chunks of 64 KiB in the packet pool of a shard.
pub(crate) const CHUNKS_MAX: usize = 256;
/// Packets in the pool of a shard at the same time.
pub(crate) const PACKETS_MAX: usize = 65_536;
/// First byte of a Data packet.
const DATA: u8 = nw_wire::types::DATA as u8;
/// Iterations that take longer are counted separately, as packets may have waited as long.
const SLOW_ITERATION_NS: u64 = 1_000_000;
/// Epoll token of the descriptor that a [`Handle`] writes to. Tokens of faces are above 2^32.
pub(crate) const WAKE_TOKEN: u64 = 0;
/// Epoll token of the waker that other shards use.
pub(crate) const SHARD_WAKE_TOKEN: u64 = 1;

/// A router: the first shard with its sockets and tables, control, and the pool of other shards.
pub struct Host {
    pub(crate) epoll: OwnedFd,
    pub(crate) wake: Arc<OwnedFd>,
    pub(crate) requests: Receiver<HostRequest>,
    pub(crate) handle: Handle,
    pub(crate) started: time::Instant,
    pub(crate) wall: WallClock,
    /// All options except faces, routes and strategies, which control keeps.
    pub(crate) config: Config,
    pub(crate) faces: Faces,
    pub(crate) face_table: FaceTable,
    pub(crate) plane: Plane,
    pub(crate) pool: Pool,
    /// The other shards, if there are any.
    pub(crate) shard_pool: Option<ShardPool>,
    pub(crate) control: Control,
    pub(crate) authority: Authority,
    pub(crate) batch: Vec<Packet>,
    pub(crate) out: Vec<Packet>,
    /// Packets that other shards handed over: their names belong to this shard.
    pub(crate) local_batch: Vec<Packet>,
    /// Closed faces, with last packets that are still to be forwarded.
    pub(crate) closed_faces: Vec<FaceEvent>,
    /// Face events that control has not received yet.
    pub(crate) pending_face_events: Vec<FaceEvent>,
    /// Connecting faces and the operations that wait for them.
    pub(crate) pending_connects: Vec<(FaceId, OperationId)>,
    pub(crate) resolver: Resolver,
    /// Management has more work than the last iteration had time for.
    pub(crate) has_backlog: bool,
    /// Queries with a command that is not complete yet.
    pub(crate) deferred_queries: Vec<(OperationId, ReplyCallback)>,
    pub(crate) loop_time: EventLoopStats,
    /// Number of packets processed by the plane.
    pub(crate) packets: u64,
    /// Captures and prefix counters; present only while a client uses them.
    pub(crate) observer: Option<Box<PacketObserver>>,
    /// Records decisions; present only while a client traces.
    pub(crate) tracer: Option<Box<Tracer>>,
    pub(crate) trace_id: u64,
    pub(crate) shortage_log: ShortageLog,
    /// Queries that were refused because too many commands were waiting.
    pub(crate) query_shortages: Shortages,
}

impl core::fmt::Debug for Host {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Host({} faces)", self.faces.len())
    }
}

impl Host {
    /// Returns a handle that sends requests to this router from other threads.
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Returns the number of shards.
    pub const fn shards(&self) -> u32 {
        self.config.forwarder.shards
    }

    /// Returns the URI of each listener, with advice if the system granted less than was
    /// configured.
    pub fn listeners(&self) -> Vec<(String, Option<String>)> {
        let describe = |listener: nw_faces::ListenerStatus| {
            (listener.uri.to_string(), listener.udp.as_ref().and_then(nw_faces::UdpBuffer::advice))
        };
        self.faces.listeners().into_iter().map(describe).collect()
    }

    /// Returns the time since the start, on the clock of the event loop.
    pub(crate) fn started(&self) -> Duration {
        self.started.elapsed()
    }

    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::START + self.started.elapsed()
    }

    /// Calls `work` with control and its environment.
    pub(crate) fn with_control<R>(
        &mut self,
        now: Timestamp,
        work: impl FnOnce(&mut Control, &mut HostEnvironment<'_>) -> R,
    ) -> R {
        work(&mut self.control, &mut environment!(self, now))
    }

    /// Runs until [`Handle::stop`], then sends what can be sent at once and closes every face.
    ///
    /// # Errors
    /// If the system refuses to wait for packets.
    pub fn run(&mut self) -> Result<(), StartError> {
        let result = self.event_loop();
        self.out.drain(..).chain(self.batch.drain(..)).for_each(|packet| self.pool.release(packet));
        self.faces.close_all(&mut self.pool);
        if let Some(shard_pool) = &mut self.shard_pool {
            shard_pool.stop();
        }
        result
    }

    fn event_loop(&mut self) -> Result<(), StartError> {
        if let Some(cpu) = self.shard_pool.as_ref().and_then(|shard_pool| shard_pool.first_cpu()) {
            placement::pin_shard(0, cpu);
        }
        let mut events = Vec::with_capacity(EVENTS_MAX);
        let mut woke_at = self.now();
        let mut cpu_before = None;
        loop {
            // One reading of the clock serves for the end of this iteration and the next timer.
            let iteration_end = self.now();
            self.record_iteration(iteration_end.since(woke_at), cpu_before);
            cpu_before = self.has_backlog.then(cpu_time);
            self.send_xdp_updates();
            let mut timeout = self.timeout(iteration_end);
            if self.must_not_sleep() {
                timeout = Some(Timespec { tv_sec: 0, tv_nsec: 0 });
            }
            events.clear();
            match epoll::wait(
                &self.epoll,
                rustix::buffer::spare_capacity(&mut events),
                timeout.as_ref(),
            ) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => {
                    return Err(StartError::System { request: "to wait for packets", errno });
                }
            }
            let now = self.now();
            woke_at = now;
            if let Some(shard_pool) = &mut self.shard_pool {
                shard_pool.links_mut().waker().set_awake();
            }
            self.process_shard_messages(now);
            if !self.process_events(now, &events) {
                return Ok(());
            }
            self.report_face_events(now);
            self.faces.flush(&mut self.pool);
            self.run_management(now);
            self.tick(now);
            self.drain_closed_faces(now);
            self.log_shortages(now);
            self.expire_observer(now);
            self.forward_refused(now);
            if let Some(shard_pool) = &mut self.shard_pool {
                shard_pool.links_mut().wake_peers();
            }
        }
    }

    /// Reads the ready sockets and forwards their packets; those flooded by new peers last. Returns
    /// `false` if the router must stop.
    fn process_events(&mut self, now: Timestamp, events: &[epoll::Event]) -> bool {
        let (mut unsent, mut flooded) = (0, 0);
        for event in events {
            match event.data.u64() {
                SHARD_WAKE_TOKEN => self.clear_waker(),
                // Level-triggered: the event is reported again in the next iteration.
                token if token != WAKE_TOKEN && self.is_backpressured() => {}
                WAKE_TOKEN => {
                    if !self.process_requests(now) {
                        return false;
                    }
                }
                token if self.faces.is_flooded(token) => flooded += 1,
                token => unsent += self.receive(now, token, event.flags),
            }
            // What the first faces sent does not wait for all that other faces brought.
            if unsent >= UNSENT_MAX {
                unsent = 0;
                self.faces.flush(&mut self.pool);
            }
        }
        if flooded > 0 {
            self.faces.flush(&mut self.pool);
            for event in events {
                if self.faces.is_flooded(event.data.u64()) && !self.is_backpressured() {
                    self.receive(now, event.data.u64(), event.flags);
                }
            }
        }
        true
    }

    /// Reads a ready socket and forwards its packets. Returns their number.
    fn receive(&mut self, now: Timestamp, token: u64, flags: epoll::EventFlags) -> usize {
        self.faces.on_ready(now, token, flags, &mut self.pool, &mut self.batch);
        let received = self.batch.len();
        self.forward(now);
        received
    }

    /// Updates the loop's counters. `cpu_before` is the thread's CPU time at the start of the
    /// iteration, read only if management had work then.
    fn record_iteration(&mut self, elapsed: Duration, cpu_before: Option<Duration>) {
        let elapsed_ns = elapsed.as_nanos() as u64;
        self.loop_time.turns += 1;
        self.loop_time.slow_turns += u64::from(elapsed_ns > SLOW_ITERATION_NS);
        self.loop_time.busy_ns += elapsed_ns;
        self.loop_time.longest_ns = self.loop_time.longest_ns.max(elapsed_ns);
        if let Some(before) = cpu_before {
            let cpu_ns = cpu_time().saturating_sub(before).as_nanos() as u64;
            self.loop_time.longest_management_cpu_ns =
                self.loop_time.longest_management_cpu_ns.max(cpu_ns);
            self.loop_time.slow_management_turns += u64::from(cpu_ns > SLOW_ITERATION_NS);
        }
    }

    /// Returns how long the loop may sleep. `None`: until an event.
    fn timeout(&self, now: Timestamp) -> Option<Timespec> {
        let timers = [
            self.faces.deadline(),
            self.plane.deadline(),
            Some(self.control.next_timeout()),
            Some(self.authority.next_timeout()),
        ];
        // Packets for the internal face may have been flushed after management had its turn, such
        // as a certificate that the content store returned at once.
        if self.has_backlog || self.faces.has_internal() {
            return Some(Timespec { tv_sec: 0, tv_nsec: 0 });
        }
        let due = timers.into_iter().flatten().min().filter(|due| *due != Timestamp::NEVER)?;
        let wait = due.since(now);
        Some(Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: i64::from(wait.subsec_nanos()) })
    }

    /// Hands over packets that belong to other shards, and forwards the others.
    pub(crate) fn forward(&mut self, now: Timestamp) {
        environment!(self, now).absorb_face_events();
        if let Some(observer) = &mut self.observer {
            self.plane.resolve_names(&mut self.batch, &mut self.pool);
            observer.incoming(now, &self.batch, &self.pool);
        }
        self.distribute(now);
        self.forward_local(now);
        if !self.closed_faces.is_empty() {
            environment!(self, now).absorb_closed_faces();
        }
    }

    /// Processes the packets of this shard and queues those that leave.
    pub(crate) fn forward_local(&mut self, now: Timestamp) {
        self.packets += self.batch.len() as u64;
        match &mut self.tracer {
            None => self.plane.process(now, &mut self.batch, &mut self.pool, &mut self.out),
            Some(tracer) => {
                tracer.process(
                    now,
                    &mut self.plane,
                    &mut self.batch,
                    &mut self.pool,
                    &mut self.out,
                );
            }
        }
        self.send(now);
        while let Some(event) = self.plane.next_route_event() {
            self.learn(now, event);
        }
    }

    /// Passes an announcement or a Nack to control, which adds or removes learned routes.
    #[cold]
    pub(crate) fn learn(&mut self, now: Timestamp, event: Packet) {
        let meta = self.pool.meta(&event);
        let (kind, face) = (meta.kind, meta.ingress);
        let ingress = self.ingress(face);
        let bytes = self.pool.bytes(&event).to_vec();
        self.pool.release(event);
        let env = &mut environment!(self, now);
        match kind {
            Kind::Data => {
                self.control.learn(now, ingress, &bytes, &mut self.authority, env);
            }
            Kind::Interest | Kind::Nack | Kind::Publication => {
                if let Ok(interest) = nw_wire::Interest::check(&bytes) {
                    self.control.unlearn(now, ingress, interest.name(), env);
                }
            }
        }
        self.send(now);
    }

    /// Passes outgoing packets to their faces.
    fn send(&mut self, now: Timestamp) {
        self.record_prefix_interests(now);
        if let Some(observer) = &mut self.observer {
            self.out.iter().for_each(|packet| observer.outgoing(now, packet, &self.pool));
        }
        for packet in self.out.drain(..) {
            let egress = self.pool.meta(&packet).egress;
            self.faces.send(now, egress, packet, &mut self.pool);
        }
    }

    /// Forwards the Interests that faces with a short link refused, as Nacks from their peers.
    fn forward_refused(&mut self, now: Timestamp) {
        self.faces.take_refused(&mut self.batch);
        if !self.batch.is_empty() {
            self.forward(now);
            self.faces.flush(&mut self.pool);
        }
    }

    /// Processes packets received on the internal face and parts of long operations, for a bounded
    /// time.
    fn run_management(&mut self, now: Timestamp) {
        let start = time::Instant::now();
        let is_over = || start.elapsed() >= MANAGEMENT_PER_ITERATION;
        self.has_backlog = true;
        while !is_over() {
            let mut processed = 0;
            // Even if commands take all the time, one part of what they began is executed per
            // iteration.
            while processed < MANAGEMENT_INTERESTS_MAX
                && (processed == 0 || !is_over())
                && let Some(link_packet) = self.faces.next_internal()
            {
                self.process_internal(now, &link_packet);
                processed += 1;
            }
            let has_work = self.control.has_work();
            if has_work {
                self.control.work(now, &mut environment!(self, now));
            }
            let has_certificates = self.process_certificates(now);
            if processed == 0 && !has_work && !has_certificates {
                self.has_backlog = false;
                break;
            }
            self.forward(now);
            self.report_face_events(now);
        }
        self.faces.flush(&mut self.pool);
    }

    /// Processes a link packet received on the internal face: an Interest, or a reply to one of the
    /// router's own.
    fn process_internal(&mut self, now: Timestamp, link_packet: &[u8]) {
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
        self.control.on_interest(
            now,
            ingress,
            token,
            wire,
            authority,
            &mut environment!(self, now),
        );
    }

    /// Returns the ingress information for a face.
    fn ingress(&self, face: FaceId) -> Ingress {
        let local = self.face_table.info(face).is_some_and(|info| info.scope == Scope::Local);
        let address = || self.faces.status(face)?.uri.address();
        let peer = match local {
            false => address().map_or(PeerGroup::Face(face.number()), |address| {
                PeerGroup::of_address(address.ip())
            }),
            true => PeerGroup::Face(face.number()),
        };
        Ingress { face, local, peer }
    }

    /// Sends Interests for certificates that commands wait for, and passes on one command after its
    /// certificate has arrived or timed out: verifying its signatures takes as long as a part of
    /// other work. Returns whether it did anything; if so it must be called again, with packets in
    /// between.
    fn process_certificates(&mut self, now: Timestamp) -> bool {
        let mut is_active = false;
        if let Some((interest, face)) = self.authority.next_ready() {
            is_active = true;
            if self.face_table.contains(face) {
                let ingress = self.ingress(face);
                let (authority, env) = (&mut self.authority, &mut environment!(self, now));
                self.control.on_interest(now, ingress, Token::NONE, &interest, authority, env);
            }
        }
        while let Some(link_packet) = self.authority.next_fetch(random_nonce) {
            self.faces.inject(now, &link_packet, &mut self.pool, &mut self.batch);
            is_active = true;
        }
        is_active
    }

    /// Reports all pending face events, and those that they cause.
    fn report_face_events(&mut self, now: Timestamp) {
        while !self.pending_face_events.is_empty() {
            for event in core::mem::take(&mut self.pending_face_events) {
                self.report_face_event(now, event);
            }
            self.forward(now);
        }
        self.send_deferred_replies();
    }

    /// Processes faces that closed after a failed write or by a query, until none is left, so that
    /// the loop may sleep.
    fn drain_closed_faces(&mut self, now: Timestamp) {
        while self.faces.has_events() || !self.closed_faces.is_empty() {
            self.forward(now);
            self.report_face_events(now);
            self.faces.flush(&mut self.pool);
        }
    }

    /// Reports an event to access control and to control, and completes a pending connect.
    fn report_face_event(&mut self, now: Timestamp, event: FaceEvent) {
        let env = &mut environment!(self, now);
        let kind = match &event {
            FaceEvent::Created(_) => FaceEventKind::Created,
            FaceEvent::Destroyed(..) => FaceEventKind::Destroyed,
            FaceEvent::Up(_) => FaceEventKind::Up,
            FaceEvent::Down(_) => FaceEventKind::Down,
        };
        let (id, status) = match &event {
            FaceEvent::Created(status) | FaceEvent::Destroyed(status, _) => {
                (status.id, Some(face_status(status, now)))
            }
            FaceEvent::Up(id) | FaceEvent::Down(id) => {
                (*id, env.faces.status(*id).map(|status| face_status(&status, now)))
            }
        };
        match &event {
            FaceEvent::Created(status) => self.authority.record_face(status.id, &status.uri, true),
            FaceEvent::Destroyed(status, _) => {
                self.authority.record_face(status.id, &status.uri, false);
                if let Some(observer) = &mut self.observer {
                    let uri = &status.uri;
                    let label = || FaceLabel { name: String::new(), uri: uri.to_string() };
                    observer.face_ended(status.id, label);
                }
            }
            FaceEvent::Up(_) | FaceEvent::Down(_) => {}
        }
        let take_operation = |pending: &mut Vec<(FaceId, OperationId)>| {
            let index = pending.iter().position(|(face, _)| *face == id)?;
            Some(pending.swap_remove(index).1)
        };
        match &event {
            FaceEvent::Up(id) => {
                if let Some(operation) = take_operation(env.pending_connects) {
                    self.control.on_face_connected(now, operation, Ok(*id), env);
                }
            }
            FaceEvent::Destroyed(_, reason) => {
                if let Some(operation) = take_operation(env.pending_connects) {
                    self.control.on_face_connected(
                        now,
                        operation,
                        Err(Refusal::new(504, reason.to_string())),
                        env,
                    );
                }
            }
            FaceEvent::Created(_) | FaceEvent::Down(_) => {}
        }
        // The router's own faces exist from the start.
        if let Some(status) = status.filter(|_| id.number() >= u64::from(FaceId::FIRST)) {
            self.control.on_face_event(now, kind, &status, env);
        }
    }

    /// Runs all due timers.
    fn tick(&mut self, now: Timestamp) {
        if self.plane.deadline().is_some_and(|due| due <= now) {
            match &mut self.tracer {
                None => self.plane.tick(now, &mut self.pool, &mut self.out),
                Some(tracer) => tracer.tick(now, &mut self.plane, &mut self.pool, &mut self.out),
            }
            self.send(now);
        }
        if self.faces.deadline().is_some_and(|due| due <= now) {
            self.faces.tick(now, &mut self.pool);
            self.forward(now);
        }
        if self.authority.next_timeout() <= now {
            self.authority.on_timeout(now);
            // The next iteration continues with commands that waited for a certificate.
            self.has_backlog = true;
        }
        if self.control.next_timeout() <= now {
            self.control.on_timeout(now, &mut environment!(self, now));
            self.forward(now);
        }
        // Process the effects of timers before the loop sleeps.
        self.report_face_events(now);
        self.faces.flush(&mut self.pool);
    }

    /// Processes requests from other threads. Returns `false` if the router must stop.
    fn process_requests(&mut self, now: Timestamp) -> bool {
        let mut count = [0; 8];
        let _ = rustix::io::read(&*self.wake, &mut count[..]);
        let mut queries = 0;
        while let Ok(request) = self.requests.try_recv() {
            match request {
                HostRequest::Stop => return false,
                HostRequest::Resolved((operation, addresses)) => {
                    self.control.on_host_resolved(
                        now,
                        operation,
                        addresses,
                        &mut environment!(self, now),
                    );
                    self.forward(now);
                }
                HostRequest::Query(query, reply) => {
                    self.answer_query(now, query, reply);
                    queries += 1;
                    if queries == QUERIES_PER_ITERATION {
                        // More may be queued: continue after packets had their turn.
                        let _ = rustix::io::write(&*self.wake, &1u64.to_ne_bytes());
                        return true;
                    }
                }
                HostRequest::Reload(desired, rules) => self.reload(now, *desired, rules),
            }
        }
        true
    }
}

/// Returns the CPU time of this thread.
fn cpu_time() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32)
}

/// Returns a nonce for an Interest of the router itself.
fn random_nonce() -> u32 {
    let mut bytes = [0; 4];
    // Without randomness the nonce is 0: loops are still detected, as the name differs.
    let _ = getrandom::fill(&mut bytes);
    u32::from_ne_bytes(bytes)
}

/// Returns the path of this process's Unix socket, from its configuration, user and environment.
pub fn unix_path(config: &Config) -> PathBuf {
    let runtime_dir = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    config.unix_path(rustix::process::geteuid().is_root(), runtime_dir.as_deref())
}
