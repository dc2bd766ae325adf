//! The faces of one shard: listeners, sockets, link services, ids and timers.
//!
//! ```text
//!  on_ready ─▶ ingress ─▶ LinkService ─▶ batch          open, handshakes, interfaces: create faces
//!  send ─▶ LinkService ─▶ outbox ─▶ flush (egress)      admission: evicts faces if too many
//!  tick ─▶ timers                                       replicas: the same face on several shards
//! ```
//!
//! Invariant: every face has one slot, at most one timer of each kind, and is counted in the
//! accounts and budgets exactly as long as it has its slot.

mod admission;
mod backpressure;
mod egress;
mod face;
mod frames;
mod handshakes;
mod ingress;
mod interfaces;
mod open;
mod received_frame;
mod reconnect;
mod replicas;
mod shedding;
mod xdp;

use crate::config::{FaceUpdate, FacesConfig};
use crate::datagram::{DatagramSocket, Peer};
use crate::error::FaceError;
use crate::internal_face::InternalQueue;
use crate::listener::Listener;
use crate::send_budget::SendBudget;
use crate::slab::FaceSlab;
use crate::status::{CloseReason, FaceEvent, FaceStatus, ListenerStatus};
use crate::stream::BufferPool;
use crate::timers::{Timer, Timers};
use admission::{AdmissionPools, Descriptors};
use backpressure::ReadState;
use core::time::Duration;
use face::{Face, Token, Transport};
use handshakes::Handshake;
use interfaces::InterfaceFaces;
use nw_element_api::{DropCause, DropCounters, FaceId, Packet, Pool, SharedPool, Timestamp};
use nw_link::{
    DropRecorder, FaceCounters, FaceUri, LinkError, LinkService, LinkSettings, Outbox,
    ReassemblyBudget,
};
use replicas::SecondaryState;
pub use replicas::{FaceReplica, Origin, ReuseportSockets, UnknownPeerPacket};
use rustix::event::epoll;
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Pause of a listener that ran out of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Retransmissions of one face in one loop iteration.
const RETRANSMIT_MAX: usize = 64;

/// Delay before AF_XDP frames, whose return another shard blocked, are returned again.
const RETURN_DELAY: Duration = Duration::from_micros(50);

/// Reads of up to 64 KiB from a connection whose face is about to close.
const LAST_READS_MAX: usize = 128;

/// Timers processed in one call of `tick`.
const TIMERS_PER_TURN: usize = 1024;

/// Empty outboxes kept for reuse.
const OUTBOX_POOL_MAX: usize = 256;

/// All faces of a shard.
#[derive(Debug)]
pub struct Faces {
    config: FacesConfig,
    epoll: OwnedFd,
    slots: FaceSlab<Face>,
    accounts: AdmissionPools,
    descriptors: Descriptors,
    /// Listeners by index; `None` once closed.
    listeners: Vec<Option<Listener>>,
    /// Accepted connections without a face yet.
    handshakes: Vec<Option<Handshake>>,
    sockets: Vec<Option<DatagramSocket>>,
    interfaces: InterfaceFaces,
    xdp: xdp::Xdp,
    internal_queue: InternalQueue,
    /// Stream and internal faces with link packets in their outbox.
    dirty: Vec<FaceId>,
    outbox_pool: Vec<Outbox>,
    buffer_pool: BufferPool,
    timers: Timers,
    budget: ReassemblyBudget,
    send_budget: SendBudget,
    shedding: shedding::Shedding,
    events: Vec<FaceEvent>,
    /// Packets that closed faces had received, not passed to the host yet.
    last_packets: Vec<Packet>,
    /// Interests that faces refused, as Nacks, not passed to the host yet.
    refused: Vec<Packet>,
    drops: DropCounters,
    /// Counters of closed faces.
    closed_totals: FaceCounters,
    /// The latest `now` passed by the host.
    current_time: Timestamp,
    /// Present on shards other than the first.
    secondary: Option<SecondaryState>,
    /// Counters of closed replicas, for the first shard.
    closed_replica_counts: Vec<(FaceId, FaceCounters)>,
    /// Faces whose peer advertised another receive buffer, KiB. Only where ports are shared.
    window_updates: Vec<(FaceId, u64)>,
}

impl Faces {
    /// Creates the manager without faces. Sockets are registered with `epoll`, of which a duplicate
    /// is kept.
    ///
    /// # Errors
    /// If the process has no descriptor left.
    pub fn new(config: FacesConfig, epoll: BorrowedFd<'_>) -> Result<Self, FaceError> {
        let epoll = epoll.try_clone_to_owned().map_err(|e| {
            FaceError::system("use", "epoll")(Errno::from_io_error(&e).unwrap_or(Errno::IO))
        })?;
        Ok(Faces {
            budget: ReassemblyBudget::new(config.reassembly),
            shedding: shedding::Shedding::default(),
            send_budget: SendBudget::new(config.queues_bytes_max),
            config,
            descriptors: Descriptors::new(&epoll),
            epoll,
            slots: FaceSlab::new(),
            accounts: AdmissionPools::default(),
            listeners: Vec::new(),
            handshakes: Vec::new(),
            sockets: Vec::new(),
            interfaces: InterfaceFaces::default(),
            xdp: xdp::Xdp::default(),
            internal_queue: InternalQueue::default(),
            dirty: Vec::new(),
            outbox_pool: Vec::new(),
            buffer_pool: Vec::new(),
            timers: Timers::default(),
            events: Vec::new(),
            last_packets: Vec::new(),
            refused: Vec::new(),
            drops: DropCounters::default(),
            closed_totals: FaceCounters::default(),
            current_time: Timestamp::START,
            secondary: None,
            closed_replica_counts: Vec::new(),
            window_updates: Vec::new(),
        })
    }

    /// Returns whether an epoll event with this token is for [`on_ready`](Self::on_ready). The
    /// host's own tokens are below 2^32.
    pub const fn owns(token: u64) -> bool {
        Token::from_bits(token).is_some()
    }

    /// Takes the events since the last call, in order. Process [`FaceEvent::Created`] before
    /// packets received since the last call, and [`FaceEvent::Destroyed`] after them and after
    /// [`take_last_packets`](Self::take_last_packets): packets that a peer sent before its face
    /// closed count.
    pub fn events(&mut self) -> impl Iterator<Item = FaceEvent> + use<> {
        core::mem::take(&mut self.events).into_iter()
    }

    /// Moves to `batch` the packets that faces had received before they closed in another call than
    /// [`on_ready`](Self::on_ready): on a command, a failed write, a timer.
    #[inline]
    pub fn take_last_packets(&mut self, batch: &mut Vec<Packet>) {
        batch.append(&mut self.last_packets);
    }

    /// Returns whether [`events`](Self::events) or [`take_last_packets`](Self::take_last_packets)
    /// have something to return.
    #[inline]
    pub fn has_events(&self) -> bool {
        !self.events.is_empty() || !self.last_packets.is_empty()
    }

    /// Returns when [`tick`](Self::tick) must be called next. `None`: no need.
    pub fn deadline(&self) -> Option<Timestamp> {
        let return_frames =
            self.xdp.has_unreturned_frames.then(|| self.current_time + RETURN_DELAY);
        self.timers.deadline().into_iter().chain(return_frames).min()
    }

    /// Processes due timers: drops incomplete packets, closes idle faces, reconnects, resumes
    /// listeners.
    pub fn tick(&mut self, now: Timestamp, pool: &mut Pool) {
        self.current_time = now;
        for _ in 0..TIMERS_PER_TURN {
            match self.timers.pop(now) {
                None => return,
                Some(Timer::Idle(id)) => self.check_idle(now, id, pool),
                Some(Timer::Link(id)) => self.check_link(now, id, pool),
                Some(Timer::Pacing(id)) => self.send_queued(now, id),
                Some(Timer::ReadPause(id)) => self.check_reading(now, id, pool),
                Some(Timer::Reconnect(id)) => self.check_connection(now, id, pool),
                Some(Timer::Drain(index)) => self.drain_udp(now, index as usize),
                Some(Timer::Handshake(index)) => self.expire_handshake(index),
                Some(Timer::Accept(index)) => self.resume_accepting(now, index),
                Some(Timer::XdpQueue) => self.reconcile_xdp(now),
                Some(Timer::Interfaces) => self.reconcile_interfaces(now, pool),
            }
        }
    }

    /// Closes a face. Returns false if it does not exist. Queued packets are sent if the socket
    /// takes them at once.
    pub fn close(&mut self, id: FaceId, pool: &mut Pool) -> bool {
        if self.slots.get(id).is_none() || id.number() < u64::from(FaceId::FIRST) {
            return false;
        }
        self.flush_face(id, pool);
        // The flush may have closed it for another reason.
        self.close_face(id, CloseReason::Requested, pool);
        true
    }

    /// Closes all faces and listeners, as the host stops. Queued packets are sent if the sockets
    /// take them at once.
    pub fn close_all(&mut self, pool: &mut Pool) {
        self.flush(pool);
        let ids: Vec<FaceId> = self.ids().collect();
        ids.into_iter().for_each(|id| self.remove_face(id, CloseReason::Requested, pool));
        self.last_packets.drain(..).for_each(|packet| pool.release(packet));
        self.refused.drain(..).for_each(|packet| pool.release(packet));
        (0..self.handshakes.len()).for_each(|index| drop(self.take_handshake(index as u32)));
        self.listeners.clear();
        self.sockets.clear();
    }

    /// Changes the settings of a face.
    ///
    /// # Errors
    /// If the face does not exist or can't have these settings; then nothing is changed.
    pub fn update(
        &mut self,
        now: Timestamp,
        id: FaceId,
        update: &FaceUpdate,
    ) -> Result<(), FaceError> {
        let face = self.slots.get_mut(id).ok_or(FaceError::Unknown(id))?;
        let settings = face.link.settings().updated(update, face.scope)?;
        if let (Transport::Datagram { socket, .. }, Some(mtu)) = (&face.transport, settings.mtu)
            && self.sockets[*socket].as_ref().is_some_and(|socket| mtu > socket.link_mtu_max())
        {
            return Err(FaceError::Link(LinkError::Mtu(mtu)));
        }
        settings.check_link_type(face.link_type)?;
        if let Some(persistency) =
            update.persistency.filter(|persistency| *persistency != face.persistency)
        {
            if !face.supports(persistency) {
                return Err(FaceError::Persistency(persistency.as_str()));
            }
            face.persistency = persistency;
            face.last_received = now;
            if let (Some(expiry), None) = (face.expiry(&self.config), face.idle_timer) {
                face.idle_timer = Some(expiry);
                self.timers.set(expiry, Timer::Idle(id));
            }
        }
        face.link.apply_settings(settings);
        self.arm_link(id, Timestamp::START);
        Ok(())
    }

    /// Returns the status of a face.
    pub fn status(&self, id: FaceId) -> Option<FaceStatus> {
        self.slots.get(id).map(|face| self.describe(id, face))
    }

    /// Returns the ids of all faces, by ascending slot.
    pub fn ids(&self) -> impl Iterator<Item = FaceId> + '_ {
        self.slots.iter().map(|(id, _)| id)
    }

    /// Returns the face with this remote URI.
    pub fn find(&self, uri: &FaceUri) -> Option<FaceId> {
        self.slots.iter().find(|(_, face)| face.uri == *uri).map(|(id, _)| id)
    }

    /// Returns the number of faces without the reserved ones.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Returns whether there are only reserved faces.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the status of all listeners.
    pub fn listeners(&self) -> Vec<ListenerStatus> {
        let streams = self.listeners.iter().flatten().map(|listener| ListenerStatus {
            uri: listener.uri.clone(),
            accepted: listener.accepted,
            refused: listener.refused,
            udp: None,
        });
        let datagrams =
            self.sockets.iter().flatten().filter(|socket| socket.listening).map(|socket| {
                ListenerStatus {
                    uri: socket.local_uri(),
                    accepted: socket.accepted,
                    refused: socket.refused,
                    udp: Some(socket.buffer()),
                }
            });
        streams.chain(datagrams).collect()
    }

    /// Returns the drops of all faces so far by reason, including packets without a face.
    pub const fn drops(&self) -> &DropCounters {
        &self.drops
    }

    /// Returns the sum of the counters of all faces so far. Iterates over all faces.
    pub fn totals(&self) -> FaceCounters {
        let mut totals = self.closed_totals.clone();
        self.slots.iter().for_each(|(_, face)| totals.merge(&face.counters));
        totals
    }

    /// Returns the bytes of incomplete packets of all faces.
    pub const fn reassembly_bytes(&self) -> usize {
        self.budget.bytes()
    }

    /// Returns the bytes of memory in the send queues of all faces.
    pub const fn send_queue_bytes(&self) -> usize {
        self.send_budget.bytes()
    }

    fn describe(&self, id: FaceId, face: &Face) -> FaceStatus {
        let settings = face.link.settings();
        let up = match &face.transport {
            Transport::Stream(stream) => stream.connected,
            Transport::Datagram { .. } => !face.down,
            Transport::Internal | Transport::Null => true,
            Transport::Down => false,
        };
        FaceStatus {
            id,
            uri: face.uri.clone(),
            local_uri: face.local_uri.clone(),
            scope: face.scope,
            persistency: face.persistency,
            link_type: face.link_type,
            mtu: face.link.mtu(),
            flags: settings.flags,
            marking_interval: settings.marking_interval,
            marking_threshold: settings.marking_threshold,
            up,
            expiry: face.expiry(&self.config),
            queue_bytes: self.waiting_bytes(face),
            shaping: face.link.shaping_state(),
            counters: face.counters.clone(),
        }
    }

    /// Returns an error if there are as many faces as management may create.
    fn check_capacity(&mut self) -> Result<(), FaceError> {
        if self.slots.len() >= self.requested_faces_max() {
            self.drops.shortages.record(SharedPool::Faces);
            return Err(FaceError::TooMany(self.requested_faces_max()));
        }
        Ok(())
    }

    /// Creates a face and reports it, if `faces_max` permits.
    fn add_face(&mut self, make: impl FnOnce(FaceId) -> Face) -> Result<FaceId, FaceError> {
        if self.slots.len() >= self.config.faces_max {
            self.drops.shortages.record(SharedPool::Faces);
            return Err(FaceError::TooMany(self.config.faces_max));
        }
        let id = self.slots.insert(make).ok_or(FaceError::TooMany(self.config.faces_max))?;
        self.push_created(id);
        Ok(id)
    }

    fn push_created(&mut self, id: FaceId) {
        if let Some(status) = self.status(id) {
            self.events.push(FaceEvent::Created(Box::new(status)));
        }
    }

    fn link(&self, now: Timestamp, settings: LinkSettings) -> LinkService {
        LinkService::new(settings, now.as_nanos())
    }

    /// Closes a face after reading what its connection still holds.
    fn close_face(&mut self, id: FaceId, reason: CloseReason, pool: &mut Pool) {
        self.read_last(id, pool);
        self.remove_face(id, reason, pool);
    }

    fn remove_face(&mut self, id: FaceId, reason: CloseReason, pool: &mut Pool) {
        let Some(mut face) = self.slots.remove(id) else { return };
        let mut drops = DropRecorder { face: &mut face.counters, total: &mut self.drops };
        for item in face.outbox.items() {
            drops.face.uncount_out(item.kind, face.outbox.item_len(item, pool));
        }
        if !face.outbox.is_empty() {
            drops.record(DropCause::FaceGone, face.outbox.items().len() as u64);
        }
        face.outbox.clear(pool);
        face.link.drop_waiting_interests(&mut drops);
        face.link.close(&mut self.budget, &mut drops);
        self.send_budget.recharge(&mut face.charged, 0);
        self.send_budget.return_kernel_buffer(core::mem::take(&mut face.kernel_buffer));
        let reconnect_timer = face.reconnect.as_ref().and_then(|reconnect| reconnect.timer);
        let pacing_timer = match &face.transport {
            Transport::Datagram { pacer, .. } => {
                if !pacer.queue.is_empty() {
                    drops.record(DropCause::FaceGone, pacer.queue.records() as u64);
                }
                pacer.timer
            }
            _ => None,
        };
        let timers = [
            (face.idle_timer, Timer::Idle(id)),
            (face.link_timer, Timer::Link(id)),
            (reconnect_timer, Timer::Reconnect(id)),
            (pacing_timer, Timer::Pacing(id)),
            (face.reading.due(), Timer::ReadPause(id)),
        ];
        for (due, timer) in timers {
            due.into_iter().for_each(|due| self.timers.cancel(due, timer));
        }
        match self.secondary {
            None => self.closed_totals.merge(&face.counters),
            Some(_) => self.closed_replica_counts.push((id, core::mem::take(&mut face.counters))),
        }
        self.unregister_on_demand(&face);
        let status = self.describe(id, &face);
        match &mut face.transport {
            Transport::Stream(stream) => {
                stream.close_with_reason(&reason);
                // The descriptor may be shared with another process, so closing it would not
                // unregister it.
                let _ = epoll::delete(&self.epoll, &stream.socket);
            }
            Transport::Datagram { socket, peer, .. } => self.forget_peer(*socket, peer, id),
            Transport::Internal | Transport::Null | Transport::Down => {}
        }
        self.events.push(FaceEvent::Destroyed(Box::new(status), reason));
    }

    fn forget_peer(&mut self, index: usize, peer: &Peer, id: FaceId) {
        if let Some(socket) = &mut self.sockets[index] {
            // The peer may have another face by now, or the index another socket.
            if socket.peers.get(peer) == Some(&id) {
                socket.peers.remove(peer);
            }
            self.drop_socket_without_peers(index);
        }
    }

    /// Closes a socket that does not listen and has no face left.
    fn drop_socket_without_peers(&mut self, index: usize) {
        let unused = |socket: &&DatagramSocket| !socket.listening && socket.peers.is_empty();
        if self.sockets[index].as_ref().is_some_and(|socket| unused(&socket)) {
            drop(self.take_socket(index));
            self.xdp.changed = true;
        }
    }

    fn take_socket(&mut self, index: usize) -> Option<DatagramSocket> {
        let mut socket = self.sockets[index].take()?;
        let _ = epoll::delete(&self.epoll, &socket.socket);
        self.send_budget.recharge(&mut socket.charged, 0);
        Some(socket)
    }

    fn check_idle(&mut self, now: Timestamp, id: FaceId, pool: &mut Pool) {
        let Some(face) = self.slots.get_mut(id) else { return };
        if matches!(face.uri, FaceUri::Ws(_) | FaceUri::WsClient(_)) {
            return self.check_keepalive(now, id, pool);
        }
        match face.expiry(&self.config) {
            Some(expiry) if expiry <= now => self.close_face(id, CloseReason::Idle, pool),
            Some(expiry) => {
                face.idle_timer = Some(expiry);
                self.timers.set(expiry, Timer::Idle(id));
            }
            None => face.idle_timer = None,
        }
    }

    fn check_link(&mut self, now: Timestamp, id: FaceId, pool: &mut Pool) {
        let Some(face) = self.slots.get_mut(id) else { return };
        face.link_timer = None;
        let mut drops = DropRecorder { face: &mut face.counters, total: &mut self.drops };
        face.link.expire(now, &mut self.budget, &mut drops);
        let mut not_before = Timestamp::START;
        if face.link.is_reliable() && !face.down && !matches!(face.transport, Transport::Down) {
            // Retransmissions are not queued while the socket is busy: they may be acknowledged
            // meanwhile.
            let busy = self.slots.get(id).is_some_and(|face| self.waiting_bytes(face) > 0);
            let retransmit_max = if busy { 0 } else { RETRANSMIT_MAX };
            self.open_outbox(now, id);
            let Some(face) = self.slots.get_mut(id) else { return };
            let mut drops = DropRecorder { face: &mut face.counters, total: &mut self.drops };
            face.link.send_due(now, retransmit_max, &mut face.outbox, &mut drops);
            let queued = face.queued_memory_bytes();
            self.send_budget.recharge(&mut face.charged, queued);
            not_before = now + self.config.burst_pause;
        }
        if self.slots.get(id).is_some_and(|face| face.link.is_shaping()) {
            self.release_interests(now, id, pool);
        }
        self.arm_link(id, not_before);
    }

    /// Returns the bytes queued for a face's socket.
    fn waiting_bytes(&self, face: &Face) -> usize {
        match &face.transport {
            Transport::Stream(stream) => stream.queue_bytes(),
            Transport::Datagram { socket, pacer, .. } => {
                self.sockets[*socket].as_ref().map_or(0, DatagramSocket::queue_bytes)
                    + pacer.queue.len()
            }
            Transport::Internal => self.internal_queue.bytes(),
            Transport::Null | Transport::Down => 0,
        }
    }

    /// Sets the link service's timer to its deadline, but not before `not_before`.
    fn arm_link(&mut self, id: FaceId, not_before: Timestamp) {
        let Some(face) = self.slots.get_mut(id) else { return };
        let Some(deadline) = face.link.deadline() else { return };
        let deadline = deadline.max(not_before);
        if face.link_timer.is_some_and(|due| due <= deadline) {
            return;
        }
        if let Some(old_due) = face.link_timer.replace(deadline) {
            self.timers.cancel(old_due, Timer::Link(id));
        }
        self.timers.set(deadline, Timer::Link(id));
    }

    fn resume_accepting(&mut self, now: Timestamp, index: u32) {
        let Some(Some(listener)) = self.listeners.get(index as usize) else { return };
        let data = epoll::EventData::new_u64(Token::Listener(index).bits());
        if epoll::modify(&self.epoll, &listener.socket, data, epoll::EventFlags::IN).is_err() {
            self.timers.set(now + ACCEPT_PAUSE, Timer::Accept(index));
        }
    }

    /// Registers a socket with epoll, for readability and optionally for writability.
    fn watch(&self, socket: BorrowedFd<'_>, token: Token, writable: bool) -> Result<(), Errno> {
        let mut flags = epoll::EventFlags::IN;
        flags.set(epoll::EventFlags::OUT, writable);
        epoll::add(&self.epoll, socket, epoll::EventData::new_u64(token.bits()), flags)
    }
}

/// Updates with epoll the events that a stream face waits for.
fn watch_stream(epoll: &OwnedFd, id: FaceId, face: &mut face::Face) {
    let Transport::Stream(stream) = &face.transport else { return };
    let readable = !matches!(face.reading, ReadState::Paused { .. });
    // With deferred packets, a writable socket triggers the next read: as soon as it takes Data,
    // further Interests can be processed.
    let writable =
        stream.awaits_connection() || stream.awaits_writable() || stream.has_deferred() && readable;
    if (readable, writable) == (face.awaits_readable, face.awaits_writable) {
        return;
    }
    (face.awaits_readable, face.awaits_writable) = (readable, writable);
    let mut flags = epoll::EventFlags::empty();
    flags.set(epoll::EventFlags::IN, readable);
    flags.set(epoll::EventFlags::OUT, writable);
    let data = epoll::EventData::new_u64(Token::Face(id).bits());
    let result = epoll::modify(epoll, &stream.socket, data, flags);
    debug_assert!(result.is_ok(), "{id:?} is not watched: {result:?}");
}

/// Changes the events of a socket that is registered already.
fn watch_again(epoll: &OwnedFd, socket: &impl AsFd, token: Token, writable: bool) {
    let mut flags = epoll::EventFlags::IN;
    flags.set(epoll::EventFlags::OUT, writable);
    // This fails only for sockets that are not registered, which would be a bug.
    let result = epoll::modify(epoll, socket, epoll::EventData::new_u64(token.bits()), flags);
    debug_assert!(result.is_ok(), "{token:?} is not watched: {result:?}");
}
