//! The loop of a shard that is not the first: its own sockets, tables and buffers.
//!
//! ```text
//! epoll, rings ─▶ orders of control ─▶ whose is it? ─▶ plane.process ─▶ lanes, or the ring to the first shard ─▶ flush ─▶ timers ─▶ report
//! ```

use super::exchange::{Exchange, TAKES_TO_EMPTY};
use super::order::{Order, Orders, Report, Snapshot, Tidings};
use super::parcel::{Arrival, Errand};
use crate::placement::pin_shard;
use crate::plane::Plane;
use crate::settings;
use core::time::Duration;
use crossbeam_channel::{Receiver, Sender};
use nw_api::management::ShardStatus;
use nw_element_api::decode::decode;
use nw_element_api::journal::Journal;
use nw_element_api::{DropReason, Element as _, Instant, Packet, Pool};
use nw_faces::{FaceEvent, Faces};
use nw_tables::cs::Erasing;
use rustix::event::epoll;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::time::Timespec;
use std::collections::VecDeque;
use std::time;

/// Sockets served per wait.
const EVENTS_MAX: usize = 256;
/// The bell's epoll token; those of faces are above 2^32.
const BELL: u64 = 0;
/// A report while there is work.
const REPORT_BUSY: Duration = Duration::from_millis(50);
/// A report before going to sleep, at most so often.
const REPORT_IDLE: Duration = Duration::from_millis(2);
/// Faces whose counters one report has.
const REPORT_FACES_MAX: usize = 1024;

/// A shard.
pub struct Worker {
    pub epoll: OwnedFd,
    pub started: time::Instant,
    pub faces: Faces,
    pub plane: Plane,
    pub pool: Pool,
    pub exchange: Exchange,
    pub orders: Receiver<Order>,
    pub tidings: Sender<Tidings>,
    /// Its processor, if it is to be bound to one.
    pub cpu: Option<usize>,
    /// This shard's part of what is divided.
    pub share: settings::Share,
    /// How many orders were carried out.
    pub carried_out: Orders,
    pub batch: Vec<Packet>,
    pub out: Vec<Packet>,
    pub arrivals: Vec<Arrival>,
    /// Tidings that control's queue had no room for.
    pub untold: VecDeque<Tidings>,
    /// Erasures under way.
    pub erasing: Vec<(u64, std::sync::Arc<nw_name::Name>, Erasing)>,
    pub status: ShardStatus,
    /// Something was done since the last report.
    pub changed: bool,
    pub reported: Instant,
    /// Faces that control says are gone.
    pub gone: Vec<nw_element_api::FaceId>,
    /// Control has told it to end.
    pub stopped: bool,
    /// Control waits for a report.
    pub report_due: bool,
}

impl Worker {
    /// Runs until it is told to stop.
    pub fn run(mut self) {
        if let Some(cpu) = self.cpu {
            pin_shard(self.exchange.me(), cpu);
        }
        let bell = self.exchange.bell().as_fd();
        if let Err(errno) =
            epoll::add(&self.epoll, bell, epoll::EventData::new_u64(BELL), epoll::EventFlags::IN)
        {
            return tracing::error!(shard = self.exchange.me(), %errno, "the shard can't wait for packets");
        }
        let mut events = Vec::with_capacity(EVENTS_MAX);
        let mut woke = self.now();
        loop {
            let done = self.now();
            self.status.busy_ns += done.since(woke).as_nanos() as u64;
            let timeout = self.prepare_to_sleep(done);
            events.clear();
            match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), timeout.as_ref()) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => {
                    return tracing::error!(shard = self.exchange.me(), %errno, "the shard can't wait for packets");
                }
            }
            self.exchange.bell().wake();
            let now = self.now();
            woke = now;
            self.status.turns += 1;
            self.changed |= !events.is_empty();
            // Whoever sends a packet has sent before what control says of its face: first the packets are taken, then the orders, then they meet.
            if !self.exchange.is_crowded_to_first() {
                self.exchange.take(&mut self.pool, &mut self.arrivals);
            }
            self.carry_out_orders(now);
            self.take_arrivals(now);
            self.end_faces(now);
            if self.stopped {
                return self.faces.close_all(&mut self.pool);
            }
            for event in &events {
                if event.data.u64() == BELL {
                    self.exchange.bell().hush();
                } else if !self.exchange.is_crowded() {
                    self.faces.on_ready(now, event.data.u64(), event.flags, &mut self.pool, &mut self.batch);
                    self.hand_over_strays();
                    self.exchange.distribute(now, &mut self.batch, &mut self.pool);
                    self.forward(now);
                }
            }
            self.tick(now);
            self.faces.flush(&mut self.pool);
            self.tell_face_events();
            self.erase_parts();
            self.exchange.ring();
            self.report(now);
        }
    }

    fn now(&self) -> Instant {
        Instant::START + self.started.elapsed()
    }

    fn prepare_to_sleep(&mut self, now: Instant) -> Option<Timespec> {
        self.exchange.bell().sleep();
        let works = !self.exchange.is_empty()
            || !self.gone.is_empty()
            || !self.orders.is_empty()
            || !self.erasing.is_empty();
        if works {
            return Some(Timespec { tv_sec: 0, tv_nsec: 0 });
        }
        let report = (self.changed || !self.untold.is_empty()).then(|| self.reported + REPORT_IDLE);
        let due = [self.faces.deadline(), self.plane.deadline(), report].into_iter().flatten().min()?;
        let wait = due.since(now);
        Some(Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: i64::from(wait.subsec_nanos()) })
    }

    fn take_arrivals(&mut self, now: Instant) {
        for arrival in self.arrivals.drain(..) {
            self.changed = true;
            match arrival {
                Arrival::Packet(Errand::Enter, packet) => match decode(&mut self.pool, &packet) {
                    Ok(()) => self.batch.push(packet),
                    // It was decoded where it came in, but for a name that waits to be read.
                    Err(error) => {
                        let reason = DropReason::Malformed(error.fault);
                        self.pool.drop_packet(packet, reason, &mut self.exchange.drops);
                    }
                },
                // Only the first shard has faces of its own, control, and strangers.
                Arrival::Packet(_, packet) | Arrival::Stray(_, packet) => self.pool.release(packet),
                Arrival::Lost => {}
            }
        }
        self.forward(now);
    }

    /// Forgets faces that are gone. What came by one before it ended (an application may answer and leave) was sent here before the order was,
    /// so it is in the rings by now, and has its turn first. With it comes what was sent since, by faces of which the orders that follow tell.
    fn end_faces(&mut self, now: Instant) {
        if self.gone.is_empty() {
            return;
        }
        let gone = core::mem::take(&mut self.gone);
        for _ in 0..TAKES_TO_EMPTY {
            if self.exchange.is_empty() {
                break;
            }
            self.exchange.take(&mut self.pool, &mut self.arrivals);
        }
        self.carry_out_orders(now);
        self.take_arrivals(now);
        for id in gone {
            self.plane.remove_face(now, id);
            self.faces.close_lane(id, &mut self.pool);
        }
    }

    /// Takes what is this shard's through the plane, and sends what leaves.
    fn forward(&mut self, now: Instant) {
        self.status.packets += self.batch.len() as u64;
        self.plane.process(now, &mut self.batch, &mut self.pool, &mut self.out);
        self.send(now);
        while let Some(lesson) = self.plane.next_lesson() {
            self.exchange.put(0, Errand::Lesson, &lesson, &self.pool);
            self.pool.release(lesson);
        }
    }

    fn send(&mut self, now: Instant) {
        for packet in self.out.drain(..) {
            self.exchange.note_asked(now, &packet, &self.pool);
            let egress = self.pool.meta(&packet).egress;
            if self.faces.has_lane(egress) {
                self.faces.send(now, egress, packet, &mut self.pool);
            } else {
                self.exchange.put(0, Errand::Leave, &packet, &self.pool);
                self.pool.release(packet);
            }
        }
    }

    fn hand_over_strays(&mut self) {
        for stray in self.faces.strays() {
            self.exchange.put_stray(&stray, &self.pool);
            self.pool.release(stray.packet);
        }
    }

    fn tick(&mut self, now: Instant) {
        if self.plane.deadline().is_some_and(|due| due <= now) {
            self.plane.tick(now, &mut self.pool, &mut self.out);
            self.send(now);
            self.changed = true;
        }
        if self.faces.deadline().is_some_and(|due| due <= now) {
            self.faces.tick(now, &mut self.pool);
            self.changed = true;
        }
    }

    /// Lanes end only when the system says that nobody is there.
    fn tell_face_events(&mut self) {
        for event in self.faces.events() {
            if let FaceEvent::Destroyed(status, _) = event {
                self.untold.push_back(Tidings::PeerGone(status.id));
            }
        }
        self.untold.extend(self.faces.rooms().map(|(id, kib)| Tidings::Room(id, kib)));
    }

    /// Those that were given before this is called: control can't keep packets waiting by giving more meanwhile.
    fn carry_out_orders(&mut self, now: Instant) {
        for _ in 0..self.orders.len() {
            let Ok(order) = self.orders.try_recv() else { return };
            self.carried_out.count(&order);
            self.carry_out(now, order);
            // Answers wait for a report that says so.
            self.report_due = true;
        }
    }

    fn carry_out(&mut self, now: Instant, order: Order) {
        match order {
            Order::Face(id, info, peer, lane) => {
                self.plane.with_router(now, &mut self.pool, &mut self.out, |router, _| {
                    router.add_face(id, info);
                    router.set_peer(id, peer);
                });
                match lane {
                    Some(lane) => self.faces.open_lane(now, *lane),
                    None => self.faces.close_lane(id, &mut self.pool),
                }
            }
            Order::FaceGone(id) => self.gone.push(id),
            Order::Fib(changes) => {
                self.plane.with_router(now, &mut self.pool, &mut self.out, |router, context| {
                    for change in changes.iter() {
                        let name = change.name.as_ref();
                        let result = match &change.set {
                            Some((next_hops, strategy)) => {
                                router.set_route(now, name, next_hops, *strategy, context)
                            }
                            None => {
                                router.remove_route(name);
                                Ok(())
                            }
                        };
                        // Tables of all shards are alike, so what the first one took the others take.
                        if let Err(error) = result {
                            tracing::error!(%name, %error, "a shard can't take a route that another has");
                        }
                    }
                })
            }
            Order::Snapshot(Snapshot { fib, new, back, .. }) => {
                let former = self.plane.with_router(now, &mut self.pool, &mut self.out, |router, context| {
                    router.take_fib(now, fib, &new, context)
                });
                // Where nobody waits for it, it ends here.
                let _ = back.try_send(former);
            }
            Order::Strategy(name) => {
                let strategy = name.as_ref().as_ref();
                let found = self.plane.with_router(now, &mut self.pool, &mut self.out, |router, _| {
                    router.resolve_strategy(strategy)
                });
                if let Err(error) = found {
                    tracing::error!(%name, %error, "a shard can't take a strategy that another has");
                }
            }
            Order::Announcement(prefix, announcement, until) => {
                self.plane.with_router(now, &mut self.pool, &mut self.out, |router, _| {
                    router.keep_announcement(now, prefix.as_ref().as_ref(), &announcement, until);
                });
            }
            Order::ContentStore { capacity, admit, serve } => {
                let store = self.plane.content_store_mut().store_mut();
                if let Some(capacity) = capacity {
                    store.set_limits(self.share.of(capacity), store.limits().bytes_max);
                }
                admit.into_iter().for_each(|admit| store.set_admit(admit));
                serve.into_iter().for_each(|serve| store.set_serve(serve));
            }
            Order::Erase(ticket, prefix, erasing) => self.erasing.push((ticket, prefix, erasing)),
            Order::Reload(stores) => {
                settings::change_store(&mut self.plane, &stores.0, &stores.1, self.share);
            }
            Order::Trace(wanted) => {
                let journal =
                    wanted.map(|(prefix, patience)| Journal::new(prefix.as_ref().clone(), now + patience));
                self.plane.set_journal(journal);
            }
            Order::Xdp(news) => self.faces.hear_xdp_news(&news),
            Order::Nothing => {}
            Order::Stop => self.stopped = true,
        }
        self.send(now);
    }

    /// Goes on erasing, a bounded piece of each.
    fn erase_parts(&mut self) {
        let store = self.plane.content_store_mut().store_mut();
        let untold = &mut self.untold;
        self.erasing.retain_mut(|(ticket, prefix, erasing)| {
            let done = store.erase_part(prefix.as_ref().as_ref(), erasing);
            if done {
                untold.push_back(Tidings::Erased(*ticket, *erasing));
            }
            !done
        });
    }

    fn report(&mut self, now: Instant) {
        let busy = !self.exchange.is_empty();
        let pause = if busy { REPORT_BUSY } else { REPORT_IDLE };
        if self.report_due || self.changed && now >= self.reported + pause {
            if let Some(journal) = self.plane.journal_mut() {
                let (events, lost) = journal.take();
                if !events.is_empty() || lost > 0 {
                    self.untold.push_back(Tidings::Traced(events, lost));
                }
            }
            let report = self.describe();
            self.untold.push_back(Tidings::Report(Box::new(report)));
            self.reported = now;
            self.changed = false;
            self.report_due = false;
        }
        let mut told = false;
        while let Some(tidings) = self.untold.pop_front() {
            if let Err(refused) = self.tidings.try_send(tidings) {
                self.untold.push_front(refused.into_inner());
                break;
            }
            told = true;
        }
        if told {
            self.exchange.bells()[0].ring();
        }
    }

    fn describe(&mut self) -> Report {
        let mut drops = self.plane.drops().clone();
        drops.merge(self.faces.drops());
        drops.merge(&self.exchange.drops);
        let store = self.plane.content_store().store();
        let router = self.plane.router();
        let counters = router.counters();
        let status = ShardStatus {
            handed_over: self.exchange.handed_over,
            waiting_bytes: self.exchange.waiting_bytes() as u64,
            pit_entries: router.pit().len() as u64,
            cs_entries: store.len() as u64,
            cs_hits: store.counters().hits,
            cs_misses: store.counters().misses,
            ..self.status
        };
        Report {
            carried_out: self.carried_out,
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
