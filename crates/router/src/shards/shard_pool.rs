//! The pool of the other shards, as seen by the first one, which has control and all faces.
//!
//! Commands go to all shards, and are numbered. Each shard reports how many it has applied; a reply
//! of management is deferred until all shards have applied the command behind it.

use super::command::{AppliedCounts, Report, ShardCommand, ShardEvent};
use super::fib_replica::{FibUpdater, LeftRight};
use super::ring_message::RingMessage;
use super::shard_links::{ShardLinks, Waker};
use super::worker::Worker;
use crate::StartError;
use crate::placement::{Placement, prefer};
use crate::settings::{self, ShardShare};
use crossbeam_channel::{Receiver, Sender, bounded};
use nw_api::config::Config;
use nw_api::management::ShardStatus;
use nw_element_api::decision_trace::{EVENTS_MAX, Event};
use nw_element_api::{DropCounters, FaceId, FaceTable, Peer, Pool, Timestamp};
use nw_elements::router::routes;
use nw_faces::{Faces, ReuseportSockets};
use nw_kernel::{ReuseportProgram, ShardCounters};
use nw_name::{HashKey, Name, NameRef};
use nw_tables::cs::EraseCursor;
use nw_tables::fib::Fib;
use nw_wire::Token;
use rustix::event::epoll;
use rustix::fd::AsFd;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time;

/// Commands that may be queued for one shard; control blocks beyond that.
const COMMANDS_MAX: usize = 4096;
/// Events that may be queued for control.
const EVENTS_QUEUED_MAX: usize = 4096;
/// Interval of polling at the start, while shards apply the configuration.
const POLL_INTERVAL: time::Duration = time::Duration::from_micros(200);
/// Replies of management that may be deferred.
const DEFERRED_REPLIES_MAX: usize = 4096;

/// The threads of the other shards, their command queues and last reports.
#[derive(Debug)]
pub struct ShardPool {
    links: ShardLinks,
    shards: Vec<ShardHandle>,
    updaters: Vec<UpdaterHandle>,
    /// Kernel programs that select the socket of a datagram, one per address; kept for their
    /// counters.
    dispatch: Vec<ReuseportProgram>,
    /// Commands sent to each shard so far.
    issued: AppliedCounts,
    messages: Vec<RingMessage>,
    /// Replies with the commands they wait for, in order.
    deferred_replies: VecDeque<(AppliedCounts, Vec<u8>, Token)>,
    erasures: BTreeMap<u64, Erasure>,
    last_erasure: u64,
    /// Packets that the content stores of all shards were allocated for, and their current limit.
    store_packets: (usize, usize),
    /// Traced decisions from other shards.
    pub trace_events: Vec<(Event, Name)>,
    /// Number of traced decisions that did not fit.
    pub trace_lost: u64,
    /// CPU of the first shard, if it is bound to one.
    first_cpu: Option<usize>,
    /// There is an observer, so the first shard has all faces alone.
    pub observed: bool,
}

/// The thread that changes a shared FIB.
#[derive(Debug)]
struct UpdaterHandle {
    commands: Sender<ShardCommand>,
    thread: JoinHandle<()>,
}

#[derive(Debug)]
struct ShardHandle {
    commands: Sender<ShardCommand>,
    /// An updater sends it the changes of its FIB.
    reads_shared_fib: bool,
    events: Receiver<ShardEvent>,
    last_report: Report,
    thread: Option<JoinHandle<()>>,
}

/// An erasure that visits one shard after the other, as all share one limit.
#[derive(Debug)]
struct Erasure {
    shard: usize,
    result: Option<EraseCursor>,
}

impl ShardPool {
    /// Starts the other shards. `faces` are those of the first one, with `share_ports` set and
    /// listeners open.
    ///
    /// # Errors
    /// If the system refuses a descriptor, socket or thread.
    pub fn start(
        config: &Config,
        (key, seed): (HashKey, u64),
        started: time::Instant,
        faces: &Faces,
        placement: &Placement,
    ) -> Result<Self, StartError> {
        let refused = |request| move |errno| StartError::System { request, errno };
        let shards = config.forwarder.shards as usize;
        let mut links = ShardLinks::connect(shards, config.forwarder.upstream_tokens)
            .map_err(refused("an event descriptor"))?
            .into_iter();
        let host_links =
            links.next().ok_or(StartError::Tables("a router has at least one shard".into()))?;
        let sockets =
            (1..shards).map(|_| faces.reuseport_siblings()).collect::<Result<Vec<_>, _>>()?;
        let dispatch = match config.forwarder.kernel {
            true => attach_kernel_dispatch(faces, &sockets, &key),
            false => Vec::new(),
        };
        let empty_fib = || routes::empty_fib(key, settings::fib(config));
        let mut fibs = shared_fibs(shards, |shard| placement.node(shard), empty_fib);
        let context = WorkerContext { config, key, seed, started, placement };
        let handles = links
            .zip(sockets)
            .map(|(links, sockets)| context.start_worker(links, sockets, &mut fibs))
            .collect::<Result<Vec<_>, _>>()?;
        let updaters = fibs
            .into_iter()
            .map(|fib| start_updater(fib, host_links.wakers(), placement))
            .collect::<Result<Vec<_>, _>>()?;
        let store_packets = config.content_store.packets as usize;
        Ok(ShardPool {
            links: host_links,
            shards: handles,
            updaters,
            dispatch,
            issued: AppliedCounts::default(),
            messages: Vec::new(),
            deferred_replies: VecDeque::new(),
            erasures: BTreeMap::new(),
            last_erasure: 0,
            store_packets: (store_packets, store_packets),
            trace_events: Vec::new(),
            trace_lost: 0,
            first_cpu: placement.cpu(0),
            observed: false,
        })
    }

    /// Returns the number of shards, including the first one.
    pub fn shards(&self) -> usize {
        self.links.shards()
    }

    /// Returns the CPU of the first shard, if it is bound to one.
    pub const fn first_cpu(&self) -> Option<usize> {
        self.first_cpu
    }

    /// Returns the first shard's links with the others.
    pub const fn links(&self) -> &ShardLinks {
        &self.links
    }

    /// Returns the first shard's links, to send and receive.
    pub const fn links_mut(&mut self) -> &mut ShardLinks {
        &mut self.links
    }

    /// Sends a command to all shards. Blocks only if a shard is thousands of commands behind.
    pub fn command(&mut self, command: &ShardCommand) {
        match command {
            ShardCommand::ContentStore { capacity: Some(packets), .. } => {
                self.store_packets.1 = *packets
            }
            ShardCommand::Reload(stores)
                if (stores.0.packets, stores.0.mib) != (stores.1.packets, stores.1.mib) =>
            {
                self.store_packets.1 = stores.1.packets as usize;
            }
            _ => {}
        }
        self.issued.add(command);
        let changes_fib = command.changes_fib();
        for (index, shard) in self.shards.iter().enumerate() {
            if !(changes_fib && shard.reads_shared_fib) {
                self.send_to(index, shard, command.clone());
            }
        }
        for updater in self.updaters.iter().filter(|_| changes_fib) {
            let _ = updater.commands.send(command.clone());
        }
    }

    fn send_to(&self, index: usize, shard: &ShardHandle, command: ShardCommand) {
        // Fails only if the shard has stopped, which is logged.
        let _ = shard.commands.send(command);
        self.links.wakers()[index + 1].wake();
    }

    /// Tells all shards that a face was added, changed or removed.
    pub fn update_face(&mut self, faces: &Faces, face_table: &FaceTable, id: FaceId) {
        let replica = faces.replica(id).filter(|_| !self.observed).map(Box::new);
        match face_table.info(id) {
            Some(info) => {
                let peer = faces.status(id).map_or(Peer::UNKNOWN, |status| status.peer());
                self.command(&ShardCommand::SetFace(id, info, peer, replica));
            }
            None => self.command(&ShardCommand::RemoveFace(id)),
        }
    }

    /// Defers a reply of management until its change is in effect in every shard. Returns `false`
    /// if it is already, or the queue is full: the caller then sends the reply.
    pub fn defer_reply(&mut self, data: &[u8], token: Token) -> bool {
        if self.deferred_replies.is_empty() && self.applied().covers(self.issued)
            || self.deferred_replies.len() >= DEFERRED_REPLIES_MAX
        {
            return false;
        }
        self.deferred_replies.push_back((self.issued, data.to_vec(), token));
        true
    }

    /// Returns the next deferred reply, once all shards have applied the commands it waits for.
    pub fn next_reply(&mut self) -> Option<(Vec<u8>, Token)> {
        let applied = self.applied();
        let (_, data, token) =
            self.deferred_replies.pop_front_if(|(issued, ..)| applied.covers(*issued))?;
        Some((data, token))
    }

    /// Returns the commands that all running shards have applied.
    fn applied(&self) -> AppliedCounts {
        let running = self
            .shards
            .iter()
            .filter(|shard| shard.thread.as_ref().is_some_and(|thread| !thread.is_finished()));
        running.map(|shard| shard.last_report.applied).fold(AppliedCounts::MAX, AppliedCounts::min)
    }

    /// Returns whether an event is waiting, or a deferred reply may be sent.
    pub fn has_events(&self) -> bool {
        let applied = self.applied();
        self.deferred_replies.front().is_some_and(|(issued, ..)| applied.covers(*issued))
            || self.shards.iter().any(|shard| !shard.events.is_empty())
    }

    /// Receives messages from other shards. The buffer is given back by
    /// [`return_buffer`](Self::return_buffer).
    pub fn receive_messages(&mut self, pool: &mut Pool) -> Vec<RingMessage> {
        self.links.receive(pool, &mut self.messages);
        core::mem::take(&mut self.messages)
    }

    /// Returns the empty message buffer, to reuse its memory.
    pub fn return_buffer(&mut self, messages: Vec<RingMessage>) {
        self.messages = messages;
    }

    /// Blocks until all shards have applied all commands.
    pub fn wait_applied(
        &mut self,
        now: Timestamp,
        faces: &mut Faces,
        face_table: &FaceTable,
        pool: &mut Pool,
    ) {
        loop {
            self.poll_events(now, faces, face_table, pool);
            if self.applied().covers(self.issued) {
                return;
            }
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Processes the events of other shards.
    pub fn poll_events(
        &mut self,
        now: Timestamp,
        faces: &mut Faces,
        face_table: &FaceTable,
        pool: &mut Pool,
    ) {
        for index in 0..self.shards.len() {
            while let Ok(event) = self.shards[index].events.try_recv() {
                match event {
                    ShardEvent::Report(mut report) => {
                        for (id, counters) in report.faces.drain(..) {
                            faces.add_counts(now, id, &counters);
                        }
                        self.shards[index].last_report = *report;
                    }
                    ShardEvent::Erased(erasure_id, erasing) => {
                        if let Some(erasure) = self.erasures.get_mut(&erasure_id) {
                            erasure.result = Some(erasing);
                        }
                    }
                    ShardEvent::PeerWindow(id, kib) => faces.set_peer_window(id, kib),
                    ShardEvent::PeerClosed(id) => faces.on_peer_unreachable(id, pool),
                    ShardEvent::TraceEvents(events, lost) => {
                        // Bounded like the journal of one shard, in case no client fetches them.
                        let free = (self.shards.len() * EVENTS_MAX)
                            .saturating_sub(self.trace_events.len());
                        self.trace_lost += lost + events.len().saturating_sub(free) as u64;
                        self.trace_events.extend(events.into_iter().take(free));
                    }
                }
            }
        }
        for (id, _) in faces.window_updates() {
            self.update_face(faces, face_table, id);
        }
    }

    /// Continues an erasure after the first shard's part. Returns `true` when all shards have
    /// finished.
    pub fn erase(&mut self, prefix: NameRef<'_>, erasing: &mut EraseCursor) -> bool {
        let next = match self.erasures.get_mut(&erasing.continuation) {
            None => 0,
            Some(Erasure { result: None, .. }) => return false,
            Some(Erasure { shard, result: Some(result) }) => {
                erasing.erased += result.erased;
                erasing.has_more |= result.has_more;
                let next = *shard + 1;
                self.erasures.remove(&erasing.continuation);
                next
            }
        };
        if next == self.shards.len() {
            return true;
        }
        self.last_erasure += 1;
        erasing.continuation = self.last_erasure;
        self.erasures.insert(self.last_erasure, Erasure { shard: next, result: None });
        let part = EraseCursor::new(erasing.limit - erasing.erased);
        self.issued.add(&ShardCommand::Noop);
        // The other shards get a Noop, so that one count serves for all.
        let prefix = Arc::new(prefix.to_name());
        for (index, shard) in self.shards.iter().enumerate() {
            let erase = || ShardCommand::Erase(self.last_erasure, Arc::clone(&prefix), part);
            self.send_to(index, shard, if index == next { erase() } else { ShardCommand::Noop });
        }
        false
    }

    /// Returns the capacity of the other shards' content stores, in packets.
    pub fn store_capacity(&self) -> u64 {
        let shards = self.shards();
        let (capacity, limit) = self.store_packets;
        let shares = (1..shards).map(|shard| ShardShare { shard, shards });
        shares.map(|share| share.part_of(limit).min(share.part_of(capacity)) as u64).sum()
    }

    /// Returns the kernel's counters of selected sockets, by address. Empty if it does not select.
    pub fn kernel_counters(&self) -> Vec<ShardCounters> {
        self.dispatch.iter().filter_map(|dispatch| dispatch.counters().ok()).collect()
    }

    /// Returns the last report of each other shard.
    pub fn reports(&self) -> impl Iterator<Item = &Report> {
        self.shards.iter().map(|shard| &shard.last_report)
    }

    /// Returns the shortages that the other shards and the links to them have reported.
    pub fn shortages_total(&self) -> u64 {
        let reported = self.reports().map(|report| report.drops.shortages.total());
        self.links.drops.shortages.total() + reported.sum::<u64>()
    }

    /// Adds the drop counters of all other shards and of the links to them.
    pub fn add_drops(&self, all: &mut DropCounters) {
        all.merge(&self.links.drops);
        self.reports().for_each(|report| all.merge(&report.drops));
    }

    /// Stops the other shards and waits for their threads.
    pub fn stop(&mut self) {
        self.command(&ShardCommand::Stop);
        for shard in &mut self.shards {
            if let Some(Err(_)) = shard.thread.take().map(JoinHandle::join) {
                tracing::error!("a shard stopped because of a bug; the log above has the panic");
            }
        }
        for UpdaterHandle { commands, thread } in self.updaters.drain(..) {
            drop(commands);
            if thread.join().is_err() {
                tracing::error!(
                    "the updater of a FIB stopped because of a bug; the log above has the panic"
                );
            }
        }
    }
}

/// Parameters that all workers of a pool share.
struct WorkerContext<'a> {
    config: &'a Config,
    key: HashKey,
    seed: u64,
    started: time::Instant,
    placement: &'a Placement,
}

impl WorkerContext<'_> {
    /// Starts the thread of one shard, which reads one of `fibs` if its memory node has one.
    fn start_worker(
        &self,
        links: ShardLinks,
        sockets: ReuseportSockets,
        fibs: &mut [SharedFib],
    ) -> Result<ShardHandle, StartError> {
        let refused = |request| move |errno| StartError::System { request, errno };
        let shard = links.index();
        let share = ShardShare { shard, shards: links.shards() };
        let epoll =
            epoll::create(epoll::CreateFlags::CLOEXEC).map_err(refused("an epoll descriptor"))?;
        let mut faces = Faces::new(settings::faces(self.config, share), epoll.as_fd())?;
        faces.adopt_sockets(shard as u8, sockets)?;
        let (commands, command_receiver) = bounded(COMMANDS_MAX);
        let (event_sender, events) = bounded(EVENTS_QUEUED_MAX);
        let seed = self.seed.rotate_left(shard as u32);
        let mut plane = settings::plane(self.config, self.key, seed, share);
        let shared_fib = fibs.iter_mut().find(|fib| fib.shards.contains(&shard));
        let reads_shared_fib = shared_fib.is_some();
        if let Some(fib) = shared_fib {
            plane.share_fib(fib.replicas.live());
            fib.readers.push((shard, commands.clone()));
        }
        let worker = Worker {
            epoll,
            started: self.started,
            faces,
            plane,
            tracer: None,
            share,
            cpu: self.placement.cpu(shard),
            pool: Pool::new(self.key, crate::host::CHUNKS_MAX, crate::host::PACKETS_MAX),
            links,
            commands: command_receiver,
            event_sender,
            applied: AppliedCounts::default(),
            batch: Vec::new(),
            out: Vec::new(),
            messages: Vec::new(),
            pending_events: VecDeque::new(),
            erasures: Vec::new(),
            status: ShardStatus { shard: shard as u64, ..ShardStatus::default() },
            has_changes: false,
            last_report: Timestamp::START,
            report_due: true,
            removed_faces: Vec::new(),
            stop_requested: false,
        };
        let thread = spawn(format!("shard {shard}"), move || worker.run())?;
        Ok(ShardHandle {
            commands,
            reads_shared_fib,
            events,
            last_report: Report::default(),
            thread: Some(thread),
        })
    }
}

/// Starts the thread that changes a shared FIB.
fn start_updater(
    fib: SharedFib,
    wakers: &Arc<[Waker]>,
    placement: &Placement,
) -> Result<UpdaterHandle, StartError> {
    let SharedFib { node, shards, replicas, readers } = fib;
    let (commands, receiver) = bounded(COMMANDS_MAX);
    let updater = FibUpdater { commands: receiver, readers, wakers: Arc::clone(wakers), replicas };
    let cpus = placement.node_cpus(node);
    tracing::info!(node, ?shards, "these shards read one FIB");
    let thread = spawn(format!("routes {node}"), move || {
        prefer(&cpus);
        updater.run();
    })?;
    Ok(UpdaterHandle { commands, thread })
}

/// A FIB for several shards.
struct SharedFib {
    /// Memory node of the shards.
    node: u32,
    shards: Vec<usize>,
    replicas: LeftRight,
    readers: Vec<(usize, Sender<ShardCommand>)>,
}

/// Returns one shared FIB per memory node with several of the other shards. A single shard has its
/// own.
fn shared_fibs(
    shards: usize,
    node: impl Fn(usize) -> u32,
    make: impl Fn() -> Fib,
) -> Vec<SharedFib> {
    let mut by_node: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for shard in 1..shards {
        by_node.entry(node(shard)).or_default().push(shard);
    }
    let groups = by_node.into_iter().filter(|(_, shards)| shards.len() > 1);
    groups
        .map(|(node, shards)| SharedFib {
            node,
            shards,
            replicas: LeftRight::new(|| Arc::new(make())),
            readers: Vec::new(),
        })
        .collect()
}

fn spawn(name: String, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, StartError> {
    std::thread::Builder::new().name(name).spawn(run).map_err(|error| StartError::System {
        request: "a thread",
        errno: rustix::io::Errno::from_io_error(&error).unwrap_or(rustix::io::Errno::AGAIN),
    })
}

/// Attaches kernel programs that bring datagrams to the shard of their name, if permitted.
fn attach_kernel_dispatch(
    faces: &Faces,
    sockets: &[ReuseportSockets],
    key: &HashKey,
) -> Vec<ReuseportProgram> {
    let mut attached = Vec::new();
    for (address, group) in faces.reuseport_groups(sockets) {
        match ReuseportProgram::attach(&group, key) {
            Ok(dispatch) => attached.push(dispatch),
            Err(error) => {
                let reason =
                    core::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
                tracing::warn!(%address, why = reason, "{error}");
                break;
            }
        }
    }
    attached
}

impl Drop for ShardPool {
    fn drop(&mut self) {
        self.stop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_fibs_nodes_with_several_shards_get_one_each() {
        let key = HashKey::new([1, 2, 3, 4]);
        let groups = |nodes: &[u32]| {
            let fibs = shared_fibs(
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
