//! The other shards, as the first one, which has control and all faces, deals with them.

use super::exchange::Exchange;
use super::order::{Order, Report, Tidings};
use super::parcel::Arrival;
use super::worker::Worker;
use crate::StartError;
use crate::placement::Machine;
use crate::settings::{self, Share};
use crossbeam_channel::{Receiver, Sender, bounded};
use nw_api::config::Config;
use nw_api::management::ShardStatus;
use nw_element::journal::{EVENTS_MAX, Event};
use nw_element::{DropCounters, FaceId, FaceTable, Instant, Pool};
use nw_faces::{Faces, Twins};
use nw_kernel::{Dispatch, ShardCounters};
use nw_name::{HashKey, Name, NameRef};
use nw_tables::cs::Erasing;
use nw_wire::Token;
use rustix::event::epoll;
use rustix::fd::AsFd;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time;

/// Orders that may wait for one shard; control waits beyond them.
const ORDERS_MAX: usize = 4096;
/// Tidings that may wait for control.
const TIDINGS_MAX: usize = 4096;
/// Answers of management that may wait for other shards.
const HELD_MAX: usize = 4096;

/// See the module.
#[derive(Debug)]
pub struct Crew {
    exchange: Exchange,
    members: Vec<Member>,
    /// The kernel's choice of sockets, one for each address, where it has it; kept for its counters.
    dispatch: Vec<Dispatch>,
    /// Orders given to each so far.
    given: u64,
    arrivals: Vec<Arrival>,
    /// Answers to be given once so many orders are carried out.
    held: VecDeque<(u64, Vec<u8>, Token)>,
    erasures: BTreeMap<u64, Erasure>,
    tickets: u64,
    /// Packets that the content stores of all shards were made for, and may hold now.
    store_packets: (usize, usize),
    /// Decisions that other shards wrote down for who traces here.
    pub traced: Vec<(Event, Name)>,
    /// How many did not fit.
    pub trace_lost: u64,
    /// The processor of the first shard, if it is to be bound to one.
    first_cpu: Option<usize>,
    /// Somebody looks at packets, so all faces are this shard's alone.
    pub observed: bool,
}

#[derive(Debug)]
struct Member {
    orders: Sender<Order>,
    tidings: Receiver<Tidings>,
    last: Report,
    thread: Option<JoinHandle<()>>,
}

/// An erasure that goes from shard to shard, as it has one limit.
#[derive(Debug)]
struct Erasure {
    member: usize,
    done: Option<Erasing>,
}

impl Crew {
    /// Starts the other shards. `faces` are those of the first, with `share_ports` set and their listeners open.
    ///
    /// # Errors
    /// What the system refuses.
    pub fn start(
        config: &Config,
        (key, seed): (HashKey, u64),
        started: time::Instant,
        faces: &Faces,
    ) -> Result<Self, StartError> {
        let system = |what| move |errno| StartError::System { what, errno };
        let shards = config.forwarder.shards as usize;
        let mut ends = Exchange::between(shards, config.forwarder.upstream_tokens)
            .map_err(system("an event descriptor"))?
            .into_iter();
        let exchange = ends.next().ok_or(StartError::Tables("a router has at least one shard".into()))?;
        let mut members = Vec::new();
        let mut twins = (1..shards).map(|_| faces.twins()).collect::<Result<Vec<_>, _>>()?;
        let dispatch =
            if config.forwarder.kernel { choose_in_kernel(faces, &twins, &key) } else { Vec::new() };
        let chosen = &config.forwarder.cpus;
        let cpus: Vec<usize> = match (config.forwarder.pin, chosen.is_empty()) {
            (false, _) => Vec::new(),
            (true, true) => Machine::here().place(shards),
            (true, false) => chosen.iter().map(|cpu| *cpu as usize).cycle().take(shards).collect(),
        };
        for end in ends {
            let shard = end.me();
            let share = Share { shard, shards };
            let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(system("an epoll descriptor"))?;
            let mut own_faces = Faces::new(settings::faces(config), epoll.as_fd())?;
            own_faces.adopt_twins(shard as u8, core::mem::take(&mut twins[shard - 1]))?;
            let (orders, to_carry_out) = bounded(ORDERS_MAX);
            let (tidings, told) = bounded(TIDINGS_MAX);
            let worker = Worker {
                epoll,
                started,
                faces: own_faces,
                plane: settings::plane(config, key, seed.rotate_left(shard as u32), share),
                share,
                cpu: cpus.get(shard).copied(),
                pool: Pool::new(key, crate::host::CHUNKS_MAX, crate::host::PACKETS_MAX),
                exchange: end,
                orders: to_carry_out,
                tidings,
                carried_out: 0,
                batch: Vec::new(),
                out: Vec::new(),
                arrivals: Vec::new(),
                untold: VecDeque::new(),
                erasing: Vec::new(),
                status: ShardStatus { shard: shard as u64, ..ShardStatus::default() },
                changed: false,
                reported: Instant::START,
                report_due: true,
                gone: Vec::new(),
                stopped: false,
            };
            let thread = std::thread::Builder::new()
                .name(format!("shard {shard}"))
                .spawn(move || worker.run())
                .map_err(|e| {
                    system("a thread")(
                        rustix::io::Errno::from_io_error(&e).unwrap_or(rustix::io::Errno::AGAIN),
                    )
                })?;
            members.push(Member { orders, tidings: told, last: Report::default(), thread: Some(thread) });
        }
        Ok(Crew {
            exchange,
            members,
            dispatch,
            given: 0,
            arrivals: Vec::new(),
            held: VecDeque::new(),
            erasures: BTreeMap::new(),
            tickets: 0,
            store_packets: (config.content_store.packets as usize, config.content_store.packets as usize),
            traced: Vec::new(),
            trace_lost: 0,
            first_cpu: cpus.first().copied(),
            observed: false,
        })
    }

    /// How many shards there are, the first one included.
    pub fn shards(&self) -> usize {
        self.exchange.shards()
    }

    /// The processor of the first shard, if it is to be bound to one.
    pub const fn first_cpu(&self) -> Option<usize> {
        self.first_cpu
    }

    /// The first shard's ways to the others.
    pub const fn exchange(&self) -> &Exchange {
        &self.exchange
    }

    /// To use them.
    pub const fn exchange_mut(&mut self) -> &mut Exchange {
        &mut self.exchange
    }

    /// Gives an order to all. Waits only for a shard that is thousands of orders behind.
    pub fn order(&mut self, order: &Order) {
        match order {
            Order::ContentStore { capacity: Some(packets), .. } => self.store_packets.1 = *packets,
            Order::Reload(stores) if (stores.0.packets, stores.0.mib) != (stores.1.packets, stores.1.mib) => {
                self.store_packets.1 = stores.1.packets as usize;
            }
            _ => {}
        }
        self.given += 1;
        for (member, bell) in self.members.iter().zip(self.exchange.bells()[1..].iter()) {
            // A shard that has ended said why in the log.
            let _ = member.orders.send(order.clone());
            bell.ring();
        }
    }

    /// Tells all what became of a face.
    pub fn tell_face(&mut self, faces: &Faces, known: &FaceTable, id: FaceId) {
        let lane = faces.lane(id).filter(|_| !self.observed).map(Box::new);
        match known.info(id) {
            Some(info) => self.order(&Order::Face(id, info, lane)),
            None => self.order(&Order::FaceGone(id)),
        }
    }

    /// Keeps an answer of management until what it says is done is in effect everywhere; gives it back if it is already.
    pub fn hold(&mut self, data: &[u8], token: Token) -> bool {
        if self.held.is_empty() && self.carried_out() >= self.given || self.held.len() >= HELD_MAX {
            return false;
        }
        self.held.push_back((self.given, data.to_vec(), token));
        true
    }

    /// The next answer that need not wait any more.
    pub fn next_held(&mut self) -> Option<(Vec<u8>, Token)> {
        let carried_out = self.carried_out();
        let (_, data, token) = self.held.pop_front_if(|(given, ..)| *given <= carried_out)?;
        Some((data, token))
    }

    /// Orders that all have carried out. A shard that has ended holds nobody up.
    fn carried_out(&self) -> u64 {
        let running = self
            .members
            .iter()
            .filter(|member| member.thread.as_ref().is_some_and(|thread| !thread.is_finished()));
        running.map(|member| member.last.carried_out).min().unwrap_or(u64::MAX)
    }

    /// True when something was told, or what is held may be given.
    pub fn has_tidings(&self) -> bool {
        let carried_out = self.carried_out();
        self.held.front().is_some_and(|(given, ..)| *given <= carried_out)
            || self.members.iter().any(|member| !member.tidings.is_empty())
    }

    /// Takes what other shards sent: packets to forward, packets to send, what control is to learn from.
    pub fn take_arrivals(&mut self, pool: &mut Pool) -> Vec<Arrival> {
        self.exchange.take(pool, &mut self.arrivals);
        core::mem::take(&mut self.arrivals)
    }

    /// Gives the room for arrivals back.
    pub fn put_back(&mut self, arrivals: Vec<Arrival>) {
        self.arrivals = arrivals;
    }

    /// Takes in what other shards tell.
    pub fn hear(&mut self, now: Instant, faces: &mut Faces, known: &FaceTable, pool: &mut Pool) {
        for at in 0..self.members.len() {
            while let Ok(tidings) = self.members[at].tidings.try_recv() {
                match tidings {
                    Tidings::Report(mut report) => {
                        for (id, counters) in report.faces.drain(..) {
                            faces.add_counts(now, id, &counters);
                        }
                        self.members[at].last = *report;
                    }
                    Tidings::Erased(ticket, erasing) => {
                        if let Some(erasure) = self.erasures.get_mut(&ticket) {
                            erasure.done = Some(erasing);
                        }
                    }
                    Tidings::Room(id, kib) => faces.set_room(id, kib),
                    Tidings::PeerGone(id) => faces.peer_is_gone(id, pool),
                    Tidings::Traced(events, lost) => {
                        // Nobody takes them: as a journal of one shard, this one has an end.
                        let room = (self.members.len() * EVENTS_MAX).saturating_sub(self.traced.len());
                        self.trace_lost += lost + events.len().saturating_sub(room) as u64;
                        self.traced.extend(events.into_iter().take(room));
                    }
                }
            }
        }
        for (id, _) in faces.rooms() {
            self.tell_face(faces, known, id);
        }
    }

    /// Goes on with an erasure whose part in the first shard is done; true when the others are done too.
    pub fn erase(&mut self, prefix: NameRef<'_>, erasing: &mut Erasing) -> bool {
        let next = match self.erasures.get_mut(&erasing.elsewhere) {
            None => 0,
            Some(Erasure { done: None, .. }) => return false,
            Some(Erasure { member, done: Some(done) }) => {
                erasing.erased += done.erased;
                erasing.more |= done.more;
                let next = *member + 1;
                self.erasures.remove(&erasing.elsewhere);
                next
            }
        };
        let Some(member) = self.members.get(next) else { return true };
        self.tickets += 1;
        erasing.elsewhere = self.tickets;
        self.erasures.insert(self.tickets, Erasure { member: next, done: None });
        let part = Erasing::new(erasing.limit - erasing.erased);
        let _ = member.orders.send(Order::Erase(self.tickets, Arc::new(prefix.to_name()), part));
        // The others' count of orders goes on too, so that one number serves for all.
        for (_, other) in self.members.iter().enumerate().filter(|(at, _)| *at != next) {
            let _ = other.orders.send(Order::Nothing);
        }
        self.given += 1;
        self.exchange.bells()[1..].iter().for_each(|bell| bell.ring());
        false
    }

    /// Packets that the content stores of the other shards may hold.
    pub fn store_capacity(&self) -> u64 {
        let shards = self.shards();
        let (made_for, wanted) = self.store_packets;
        let others = (1..shards).map(|shard| Share { shard, shards });
        others.map(|share| share.of(wanted).min(share.of(made_for)) as u64).sum()
    }

    /// What the kernel counted as it chose sockets, by address; empty where it does not choose.
    pub fn kernel_counters(&self) -> Vec<ShardCounters> {
        self.dispatch.iter().filter_map(|dispatch| dispatch.counters().ok()).collect()
    }

    /// What each other shard said last.
    pub fn reports(&self) -> impl Iterator<Item = &Report> {
        self.members.iter().map(|member| &member.last)
    }

    /// All other shards' drops, and this one's on the way to them.
    pub fn add_drops(&self, all: &mut DropCounters) {
        all.merge(&self.exchange.drops);
        self.reports().for_each(|report| all.merge(&report.drops));
    }

    /// Ends the other shards and waits for them.
    pub fn stop(&mut self) {
        self.order(&Order::Stop);
        for member in &mut self.members {
            if let Some(Err(_)) = member.thread.take().map(JoinHandle::join) {
                tracing::error!("a shard ended by a bug; its reason is above");
            }
        }
    }
}

/// Lets the kernel bring datagrams to the shards they are for, if it may.
fn choose_in_kernel(faces: &Faces, twins: &[Twins], key: &HashKey) -> Vec<Dispatch> {
    let mut all = Vec::new();
    for (address, sockets) in faces.groups(twins) {
        match Dispatch::attach_reuseport(&sockets, key) {
            Ok(dispatch) => all.push(dispatch),
            Err(error) => {
                let why = core::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
                tracing::warn!(%address, why, "{error}");
                break;
            }
        }
    }
    all
}

impl Drop for Crew {
    fn drop(&mut self) {
        self.stop();
    }
}
