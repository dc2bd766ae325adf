//! The other shards, as the first one, which has control and all faces, deals with them.

use super::exchange::Exchange;
use super::keeper::{Copies, Keeper};
use super::order::{Order, Orders, Report, Tidings};
use super::parcel::Arrival;
use super::worker::Worker;
use crate::StartError;
use crate::placement::{Placement, prefer};
use crate::settings::{self, Share};
use crossbeam_channel::{Receiver, Sender, bounded};
use nw_api::config::Config;
use nw_api::management::ShardStatus;
use nw_element_api::journal::{EVENTS_MAX, Event};
use nw_element_api::{DropCounters, FaceId, FaceTable, Instant, Peer, Pool};
use nw_elements::router::routes;
use nw_faces::{Faces, Twins};
use nw_kernel::{Dispatch, ShardCounters};
use nw_name::{HashKey, Name, NameRef};
use nw_tables::cs::Erasing;
use nw_tables::fib::Fib;
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
/// Between two looks at whether others are as far, at the start.
const SETTLING_PAUSE: time::Duration = time::Duration::from_micros(200);
/// Answers of management that may wait for other shards.
const HELD_MAX: usize = 4096;

/// See the module.
#[derive(Debug)]
pub struct Crew {
    exchange: Exchange,
    members: Vec<Member>,
    keepers: Vec<Kept>,
    /// The kernel's choice of sockets, one for each address, where it has it; kept for its counters.
    dispatch: Vec<Dispatch>,
    /// Orders given to each so far.
    given: Orders,
    arrivals: Vec<Arrival>,
    /// Answers to be given once so many orders are carried out.
    held: VecDeque<(Orders, Vec<u8>, Token)>,
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

/// Who changes the FIB that several shards read.
#[derive(Debug)]
struct Kept {
    orders: Sender<Order>,
    thread: JoinHandle<()>,
}

#[derive(Debug)]
struct Member {
    orders: Sender<Order>,
    /// Its FIB is shared: a keeper gives it what orders about the FIB come to.
    kept: bool,
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
        placement: &Placement,
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
        let mut fibs =
            fibs(shards, |shard| placement.node(shard), || routes::empty_fib(key, settings::fib(config)));
        for end in ends {
            let shard = end.me();
            let share = Share { shard, shards };
            let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(system("an epoll descriptor"))?;
            let mut own_faces = Faces::new(settings::faces(config, share), epoll.as_fd())?;
            own_faces.adopt_twins(shard as u8, core::mem::take(&mut twins[shard - 1]))?;
            let (orders, to_carry_out) = bounded(ORDERS_MAX);
            let (tidings, told) = bounded(TIDINGS_MAX);
            let mut plane = settings::plane(config, key, seed.rotate_left(shard as u32), share);
            let shared = fibs.iter_mut().find(|shared| shared.shards.contains(&shard));
            let kept = shared.is_some();
            if let Some(shared) = shared {
                plane.share_fib(shared.copies.live());
                shared.readers.push((shard, orders.clone()));
            }
            let worker = Worker {
                epoll,
                started,
                faces: own_faces,
                plane,
                share,
                cpu: placement.cpu(shard),
                pool: Pool::new(key, crate::host::CHUNKS_MAX, crate::host::PACKETS_MAX),
                exchange: end,
                orders: to_carry_out,
                tidings,
                carried_out: Orders::default(),
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
            let thread = spawn(format!("shard {shard}"), move || worker.run())?;
            members.push(Member {
                orders,
                kept,
                tidings: told,
                last: Report::default(),
                thread: Some(thread),
            });
        }
        let mut keepers = Vec::new();
        for Shared { node, shards, copies, readers } in fibs {
            let (to_keeper, orders) = bounded(ORDERS_MAX);
            let keeper = Keeper { orders, readers, bells: Arc::clone(exchange.bells()), copies };
            let near = placement.near(node);
            tracing::info!(node, ?shards, "these shards read one FIB");
            let thread = spawn(format!("routes {node}"), move || {
                prefer(&near);
                keeper.run();
            })?;
            keepers.push(Kept { orders: to_keeper, thread });
        }
        Ok(Crew {
            exchange,
            members,
            keepers,
            dispatch,
            given: Orders::default(),
            arrivals: Vec::new(),
            held: VecDeque::new(),
            erasures: BTreeMap::new(),
            tickets: 0,
            store_packets: (config.content_store.packets as usize, config.content_store.packets as usize),
            traced: Vec::new(),
            trace_lost: 0,
            first_cpu: placement.cpu(0),
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
        self.given.count(order);
        let about_fib = order.is_about_fib();
        for (at, member) in self.members.iter().enumerate().filter(|(_, member)| !(about_fib && member.kept))
        {
            self.give(at, member, order.clone());
        }
        for keeper in self.keepers.iter().filter(|_| about_fib) {
            let _ = keeper.orders.send(order.clone());
        }
    }

    fn give(&self, at: usize, member: &Member, order: Order) {
        // A shard that has ended said why in the log.
        let _ = member.orders.send(order);
        self.exchange.bells()[at + 1].ring();
    }

    /// Tells all what became of a face.
    pub fn tell_face(&mut self, faces: &Faces, known: &FaceTable, id: FaceId) {
        let lane = faces.lane(id).filter(|_| !self.observed).map(Box::new);
        match known.info(id) {
            Some(info) => {
                let peer = faces.status(id).map_or(Peer::UNKNOWN, |status| status.peer());
                self.order(&Order::Face(id, info, peer, lane));
            }
            None => self.order(&Order::FaceGone(id)),
        }
    }

    /// Keeps an answer of management until what it says is done is in effect everywhere; gives it back if it is already.
    pub fn hold(&mut self, data: &[u8], token: Token) -> bool {
        if self.held.is_empty() && self.carried_out().reach(self.given) || self.held.len() >= HELD_MAX {
            return false;
        }
        self.held.push_back((self.given, data.to_vec(), token));
        true
    }

    /// The next answer that need not wait any more.
    pub fn next_held(&mut self) -> Option<(Vec<u8>, Token)> {
        let carried_out = self.carried_out();
        let (_, data, token) = self.held.pop_front_if(|(given, ..)| carried_out.reach(*given))?;
        Some((data, token))
    }

    /// Orders that all have carried out. A shard that has ended holds nobody up.
    fn carried_out(&self) -> Orders {
        let running = self
            .members
            .iter()
            .filter(|member| member.thread.as_ref().is_some_and(|thread| !thread.is_finished()));
        running.map(|member| member.last.carried_out).fold(Orders::ALL, Orders::least)
    }

    /// True when something was told, or what is held may be given.
    pub fn has_tidings(&self) -> bool {
        let carried_out = self.carried_out();
        self.held.front().is_some_and(|(given, ..)| carried_out.reach(*given))
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

    /// Waits until all have carried out what they were told so far.
    pub fn settle(&mut self, now: Instant, faces: &mut Faces, known: &FaceTable, pool: &mut Pool) {
        loop {
            self.hear(now, faces, known, pool);
            if self.carried_out().reach(self.given) {
                return;
            }
            std::thread::sleep(SETTLING_PAUSE);
        }
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
        if next == self.members.len() {
            return true;
        }
        self.tickets += 1;
        erasing.elsewhere = self.tickets;
        self.erasures.insert(self.tickets, Erasure { member: next, done: None });
        let part = Erasing::new(erasing.limit - erasing.erased);
        self.given.count(&Order::Nothing);
        // The others' count of orders goes on too, so that one number serves for all.
        let prefix = Arc::new(prefix.to_name());
        for (at, member) in self.members.iter().enumerate() {
            let erase = || Order::Erase(self.tickets, Arc::clone(&prefix), part);
            self.give(at, member, if at == next { erase() } else { Order::Nothing });
        }
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

    /// Returns the shortages that the other shards and the links to them have reported.
    pub fn shortages_total(&self) -> u64 {
        let reported = self.reports().map(|report| report.drops.shortages.total());
        self.exchange.drops.shortages.total() + reported.sum::<u64>()
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
        for Kept { orders, thread } in self.keepers.drain(..) {
            drop(orders);
            if thread.join().is_err() {
                tracing::error!("the keeper of a FIB ended by a bug; its reason is above");
            }
        }
    }
}

/// A FIB for several shards.
struct Shared {
    /// Their memory node.
    node: u32,
    shards: Vec<usize>,
    copies: Copies,
    readers: Vec<(usize, Sender<Order>)>,
}

/// One FIB for the other shards of each memory node, where there are several: a single one is as well off with its own.
fn fibs(shards: usize, node: impl Fn(usize) -> u32, make: impl Fn() -> Fib) -> Vec<Shared> {
    let mut by_node: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for shard in 1..shards {
        by_node.entry(node(shard)).or_default().push(shard);
    }
    let several = by_node.into_iter().filter(|(_, shards)| shards.len() > 1);
    several
        .map(|(node, shards)| Shared { node, shards, copies: Copies::new(&make), readers: Vec::new() })
        .collect()
}

fn spawn(name: String, work: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, StartError> {
    std::thread::Builder::new().name(name).spawn(work).map_err(|error| StartError::System {
        what: "a thread",
        errno: rustix::io::Errno::from_io_error(&error).unwrap_or(rustix::io::Errno::AGAIN),
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_of_one_memory_node_share_a_fib_where_there_are_several() {
        let key = HashKey::new([1, 2, 3, 4]);
        let groups = |nodes: &[u32]| {
            let fibs = fibs(
                nodes.len(),
                |shard| nodes[shard],
                || routes::empty_fib(key, nw_tables::fib::FibConfig::new(4)),
            );
            fibs.into_iter().map(|shared| (shared.node, shared.shards)).collect::<Vec<_>>()
        };
        assert_eq!(groups(&[0]), []);
        assert_eq!(groups(&[0, 0]), []);
        assert_eq!(groups(&[0, 0, 0]), [(0, vec![1, 2])]);
        assert_eq!(groups(&[0, 0, 1]), []);
        assert_eq!(groups(&[1, 1, 0, 0, 1, 0]), [(0, vec![2, 3, 5]), (1, vec![1, 4])]);
    }
}
