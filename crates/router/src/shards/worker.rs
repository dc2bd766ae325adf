//! The event loop of a shard other than the first: its own sockets, tables and buffers.
//!
//! ```text
//! epoll, rings ─▶ commands ─▶ distribute ─▶ plane.process ─▶ face replicas, or ring to shard 0
//!   ▲                                                           │
//!   └───────────────── report ◀─ timers ◀─ flush ◀──────────────┘
//! ```

use super::command::{AppliedCounts, OwnedFibChange, Report, ShardCommand, ShardEvent, Snapshot};
use super::ring_message::{MessageKind, RingMessage};
use super::shard_links::{RECEIVES_TO_DRAIN, ShardLinks};
use crate::host::UNSENT_MAX;
use crate::placement::pin_shard;
use crate::plane::Plane;
use crate::settings;
use crate::trace::Tracer;
use core::time::Duration;
use crossbeam_channel::{Receiver, Sender};
use nw_api::management::ShardStatus;
use nw_element_api::decision_trace::DecisionTrace;
use nw_element_api::decode::decode;
use nw_element_api::{DropReason, Element as _, Packet, Pool, Timestamp};
use nw_faces::{FaceEvent, Faces};
use nw_tables::cs::EraseCursor;
use rustix::event::epoll;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::time::Timespec;
use std::collections::VecDeque;
use std::time;

/// Socket events per call of `epoll_wait`.
const EVENTS_MAX: usize = 256;
/// Epoll token of the shard's waker. Tokens of faces are above 2^32.
const WAKER_TOKEN: u64 = 0;
/// Interval of reports while packets keep arriving.
const REPORT_BUSY: Duration = Duration::from_millis(50);
/// Shortest interval of reports otherwise.
const REPORT_IDLE: Duration = Duration::from_millis(2);
/// Faces with counters in one report.
const REPORT_FACES_MAX: usize = 1024;

/// State of a shard's thread.
pub struct Worker {
    pub epoll: OwnedFd,
    pub started: time::Instant,
    pub faces: Faces,
    pub plane: Plane,
    pub pool: Pool,
    pub tracer: Option<Box<Tracer>>,
    pub links: ShardLinks,
    pub commands: Receiver<ShardCommand>,
    pub event_sender: Sender<ShardEvent>,
    /// CPU that the thread is bound to, if any.
    pub cpu: Option<usize>,
    /// This shard's part of the tables.
    pub share: settings::ShardShare,
    /// Commands applied so far.
    pub applied: AppliedCounts,
    pub batch: Vec<Packet>,
    pub out: Vec<Packet>,
    pub messages: Vec<RingMessage>,
    /// Events that did not fit into control's queue.
    pub pending_events: VecDeque<ShardEvent>,
    /// Erasures in progress: id, prefix, state.
    pub erasures: Vec<(u64, std::sync::Arc<nw_name::Name>, EraseCursor)>,
    pub status: ShardStatus,
    /// Something has changed since the last report.
    pub has_changes: bool,
    pub last_report: Timestamp,
    /// Faces removed by control; their last packets may still be in the rings.
    pub removed_faces: Vec<nw_element_api::FaceId>,
    /// Control has requested to stop.
    pub stop_requested: bool,
    /// Control waits for a report, as commands were applied.
    pub report_due: bool,
}

impl Worker {
    /// Runs until control sends [`ShardCommand::Stop`].
    pub fn run(mut self) {
        if let Some(cpu) = self.cpu {
            pin_shard(self.links.index(), cpu);
        }
        let waker = self.links.waker().as_fd();
        if let Err(errno) = epoll::add(
            &self.epoll,
            waker,
            epoll::EventData::new_u64(WAKER_TOKEN),
            epoll::EventFlags::IN,
        ) {
            let shard = self.links.index();
            return tracing::error!(shard, %errno, "the shard can't wait for packets");
        }
        let mut events = Vec::with_capacity(EVENTS_MAX);
        let mut woke_at = self.now();
        loop {
            let iteration_end = self.now();
            self.status.busy_ns += iteration_end.since(woke_at).as_nanos() as u64;
            let timeout = self.prepare_to_sleep(iteration_end);
            events.clear();
            match epoll::wait(
                &self.epoll,
                rustix::buffer::spare_capacity(&mut events),
                timeout.as_ref(),
            ) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => {
                    let shard = self.links.index();
                    return tracing::error!(shard, %errno, "the shard can't wait for packets");
                }
            }
            self.links.waker().set_awake();
            let now = self.now();
            woke_at = now;
            self.status.turns += 1;
            self.has_changes |= !events.is_empty();
            // A shard sends packets of a face before control announces the removal of the face. So
            // messages are received first, then commands, and only then processed.
            if !self.links.is_backpressured_to_first() {
                self.links.receive(&mut self.pool, &mut self.messages);
            }
            self.apply_commands(now);
            self.process_messages(now);
            self.close_removed_faces(now);
            if self.stop_requested {
                return self.faces.close_all(&mut self.pool);
            }
            let mut unsent = 0;
            for event in &events {
                if event.data.u64() == WAKER_TOKEN {
                    self.links.waker().clear();
                } else if !self.links.is_backpressured() {
                    unsent += self.receive_and_forward(now, event);
                }
                if unsent >= UNSENT_MAX {
                    unsent = 0;
                    self.faces.flush(&mut self.pool);
                }
            }
            self.tick(now);
            self.forward_refused(now);
            self.faces.flush(&mut self.pool);
            self.queue_face_events();
            self.erase_step();
            self.links.wake_peers();
            self.report(now);
        }
    }

    /// Receives packets of a face that is ready, and forwards those of this shard. Returns the
    /// number of packets received.
    #[inline]
    fn receive_and_forward(&mut self, now: Timestamp, event: &epoll::Event) -> usize {
        let token = event.data.u64();
        self.faces.on_ready(now, token, event.flags, &mut self.pool, &mut self.batch);
        let received = self.batch.len();
        self.hand_over_unknown_peers();
        self.links.distribute(now, &mut self.batch, &mut self.pool);
        self.forward(now);
        received
    }

    fn now(&self) -> Timestamp {
        Timestamp::START + self.started.elapsed()
    }

    fn prepare_to_sleep(&mut self, now: Timestamp) -> Option<Timespec> {
        self.links.waker().set_asleep();
        let has_work = !self.links.is_empty()
            || !self.removed_faces.is_empty()
            || !self.commands.is_empty()
            || !self.erasures.is_empty();
        if has_work {
            return Some(Timespec { tv_sec: 0, tv_nsec: 0 });
        }
        let report = (self.has_changes || !self.pending_events.is_empty())
            .then(|| self.last_report + REPORT_IDLE);
        let due =
            [self.faces.deadline(), self.plane.deadline(), report].into_iter().flatten().min()?;
        let wait = due.since(now);
        Some(Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: i64::from(wait.subsec_nanos()) })
    }

    fn process_messages(&mut self, now: Timestamp) {
        for message in self.messages.drain(..) {
            self.has_changes = true;
            match message {
                RingMessage::Packet(MessageKind::Forward, packet) => {
                    match decode(&mut self.pool, &packet) {
                        Ok(()) => self.batch.push(packet),
                        // It was decoded by the sender, except for a deferred name, which may be
                        // malformed.
                        Err(error) => {
                            let reason = DropReason::Malformed(error.fault);
                            self.pool.drop_packet(packet, reason, &mut self.links.drops);
                        }
                    }
                }
                // Only the first shard has streams, control and unknown peers.
                RingMessage::Packet(_, packet) | RingMessage::UnknownPeer(_, packet) => {
                    self.pool.release(packet)
                }
                RingMessage::Lost => {}
            }
        }
        self.forward(now);
    }

    /// Removes closed faces. Packets that such a face received before it closed (an application may
    /// reply and disconnect) were sent to this shard before the command. So all messages in the
    /// rings are processed first, with the commands that later packets depend on.
    fn close_removed_faces(&mut self, now: Timestamp) {
        if self.removed_faces.is_empty() {
            return;
        }
        let removed = core::mem::take(&mut self.removed_faces);
        for _ in 0..RECEIVES_TO_DRAIN {
            if self.links.is_empty() {
                break;
            }
            self.links.receive(&mut self.pool, &mut self.messages);
        }
        self.apply_commands(now);
        self.process_messages(now);
        for id in removed {
            self.plane.remove_face(now, id);
            self.faces.remove_replica(id, &mut self.pool);
        }
    }

    /// Processes the packets of this shard and sends those that leave.
    fn forward(&mut self, now: Timestamp) {
        self.status.packets += self.batch.len() as u64;
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
            self.links.send(0, MessageKind::RouteEvent, &event, &self.pool);
            self.pool.release(event);
        }
    }

    fn send(&mut self, now: Timestamp) {
        for packet in self.out.drain(..) {
            self.links.record_prefix_interest(now, &packet, &self.pool);
            let egress = self.pool.meta(&packet).egress;
            if self.faces.has_replica(egress) {
                self.faces.send(now, egress, packet, &mut self.pool);
            } else {
                self.links.send(0, MessageKind::Transmit, &packet, &self.pool);
                self.pool.release(packet);
            }
        }
    }

    /// Forwards the Interests that faces with a short link refused, as Nacks from their peers.
    fn forward_refused(&mut self, now: Timestamp) {
        self.faces.take_refused(&mut self.batch);
        if !self.batch.is_empty() {
            self.links.distribute(now, &mut self.batch, &mut self.pool);
            self.forward(now);
        }
    }

    fn hand_over_unknown_peers(&mut self) {
        for stray in self.faces.take_unknown_packets() {
            self.links.send_unknown_peer(&stray, &self.pool);
            self.pool.release(stray.packet);
        }
    }

    fn tick(&mut self, now: Timestamp) {
        if self.plane.deadline().is_some_and(|due| due <= now) {
            match &mut self.tracer {
                None => self.plane.tick(now, &mut self.pool, &mut self.out),
                Some(tracer) => tracer.tick(now, &mut self.plane, &mut self.pool, &mut self.out),
            }
            self.send(now);
            self.has_changes = true;
        }
        if self.faces.deadline().is_some_and(|due| due <= now) {
            self.faces.tick(now, &mut self.pool);
            self.has_changes = true;
        }
    }

    /// Queues events for control. A face replica closes only if the system reports that no process
    /// receives at the remote port.
    fn queue_face_events(&mut self) {
        for event in self.faces.events() {
            if let FaceEvent::Destroyed(status, _) = event {
                self.pending_events.push_back(ShardEvent::PeerClosed(status.id));
            }
        }
        self.pending_events
            .extend(self.faces.window_updates().map(|(id, kib)| ShardEvent::PeerWindow(id, kib)));
    }

    /// Applies the commands that were queued before this call: control can't delay packets by
    /// sending more meanwhile.
    fn apply_commands(&mut self, now: Timestamp) {
        for _ in 0..self.commands.len() {
            let Ok(command) = self.commands.try_recv() else { return };
            self.applied.add(&command);
            self.apply(now, command);
            // Deferred replies wait for a report.
            self.report_due = true;
        }
    }

    fn apply(&mut self, now: Timestamp, command: ShardCommand) {
        match command {
            ShardCommand::SetFace(id, info, peer, replica) => {
                self.plane.with_router(now, &mut self.pool, &mut self.out, |router, _| {
                    router.add_face(id, info);
                    router.set_peer(id, peer);
                });
                match replica {
                    Some(replica) => self.faces.add_replica(now, *replica),
                    None => self.faces.remove_replica(id, &mut self.pool),
                }
            }
            ShardCommand::RemoveFace(id) => self.removed_faces.push(id),
            ShardCommand::Fib(changes) => self.apply_fib_changes(now, &changes),
            ShardCommand::Snapshot(Snapshot { fib, new, return_to, .. }) => {
                let previous = self.plane.with_router(
                    now,
                    &mut self.pool,
                    &mut self.out,
                    |router, context| router.replace_fib(now, fib, &new, context),
                );
                // If the updater has stopped, the replica is freed here.
                let _ = return_to.try_send(previous);
            }
            ShardCommand::Strategy(name) => {
                let strategy = name.as_ref().as_ref();
                let resolved =
                    self.plane.with_router(now, &mut self.pool, &mut self.out, |router, _| {
                        router.resolve_strategy(strategy)
                    });
                if let Err(error) = resolved {
                    tracing::error!(%name, %error, "a shard refuses a strategy that another has (a bug)");
                }
            }
            ShardCommand::Announcement(prefix, announcement, until) => {
                self.plane.with_router(now, &mut self.pool, &mut self.out, |router, _| {
                    router.keep_announcement(now, prefix.as_ref().as_ref(), &announcement, until);
                });
            }
            ShardCommand::ContentStore { capacity, admit, serve } => {
                let store = self.plane.content_store_mut().store_mut();
                if let Some(capacity) = capacity {
                    store.set_limits(self.share.part_of(capacity), store.limits().bytes_max);
                }
                admit.into_iter().for_each(|admit| store.set_admit(admit));
                serve.into_iter().for_each(|serve| store.set_serve(serve));
            }
            ShardCommand::Erase(id, prefix, erasing) => self.erasures.push((id, prefix, erasing)),
            ShardCommand::Reload(stores) => {
                settings::change_store(&mut self.plane, &stores.0, &stores.1, self.share);
            }
            ShardCommand::Trace(request) => {
                self.tracer = request.map(|(prefix, duration)| {
                    let journal = DecisionTrace::new(prefix.as_ref().clone(), now + duration);
                    Box::new(Tracer::new(journal))
                });
            }
            ShardCommand::Xdp(update) => self.faces.apply_socket_update(&update),
            ShardCommand::Noop => {}
            ShardCommand::Stop => self.stop_requested = true,
        }
        self.send(now);
    }

    fn apply_fib_changes(&mut self, now: Timestamp, changes: &[OwnedFibChange]) {
        self.plane.with_router(now, &mut self.pool, &mut self.out, |router, context| {
            for OwnedFibChange { name, set } in changes {
                let result = match set {
                    Some((next_hops, strategy)) => {
                        router.set_route(now, name.as_ref(), next_hops, *strategy, context)
                    }
                    None => {
                        router.remove_route(name.as_ref());
                        Ok(())
                    }
                };
                // The tables of all shards have the same size, so all accept what the first one
                // accepted.
                if let Err(error) = result {
                    tracing::error!(%name, %error, "a shard refuses a route that another has (a bug)");
                }
            }
        });
    }

    /// Executes one bounded part of each erasure.
    fn erase_step(&mut self) {
        let store = self.plane.content_store_mut().store_mut();
        let pending_events = &mut self.pending_events;
        self.erasures.retain_mut(|(id, prefix, erasing)| {
            let is_complete = store.erase_part(prefix.as_ref().as_ref(), erasing);
            if is_complete {
                pending_events.push_back(ShardEvent::Erased(*id, *erasing));
            }
            !is_complete
        });
    }

    fn report(&mut self, now: Timestamp) {
        let is_busy = !self.links.is_empty();
        let interval = if is_busy { REPORT_BUSY } else { REPORT_IDLE };
        if self.report_due || self.has_changes && now >= self.last_report + interval {
            if let Some(tracer) = &mut self.tracer {
                let (events, lost) = tracer.journal.take();
                if !events.is_empty() || lost > 0 {
                    self.pending_events.push_back(ShardEvent::TraceEvents(events, lost));
                }
            }
            let report = self.create_report();
            self.pending_events.push_back(ShardEvent::Report(Box::new(report)));
            self.last_report = now;
            self.has_changes = false;
            self.report_due = false;
        }
        let mut has_sent = false;
        while let Some(event) = self.pending_events.pop_front() {
            if let Err(refused) = self.event_sender.try_send(event) {
                self.pending_events.push_front(refused.into_inner());
                break;
            }
            has_sent = true;
        }
        if has_sent {
            self.links.wakers()[0].wake();
        }
    }

    fn create_report(&mut self) -> Report {
        let mut drops = self.plane.drops().clone();
        drops.merge(self.faces.drops());
        drops.merge(&self.links.drops);
        let store = self.plane.content_store().store();
        let router = self.plane.router();
        let counters = router.counters();
        let status = ShardStatus {
            handed_over: self.links.handed_over,
            waiting_bytes: self.links.waiting_bytes() as u64,
            pit_entries: router.pit().len() as u64,
            cs_entries: store.len() as u64,
            cs_hits: store.counters().hits,
            cs_misses: store.counters().misses,
            ..self.status
        };
        Report {
            applied: self.applied,
            drops,
            satisfied: counters.satisfied,
            unsatisfied: counters.unsatisfied,
            measurements: router.measurements().len() as u64,
            store_bytes: store.bytes() as u64,
            packets_in_use: self.pool.packets_in_use() as u64,
            status,
            faces: self.faces.take_counts(REPORT_FACES_MAX),
        }
    }
}
