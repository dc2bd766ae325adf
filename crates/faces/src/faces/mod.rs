//! The faces of one shard: listeners, sockets, link services, ids, timers.

mod admission;
mod backpressure;
mod egress;
mod face;
mod frames;
mod handshakes;
mod ingress;
mod interfaces;
mod lanes;
mod open;
mod reconnect;
mod relief;
mod xdp;

use crate::config::{FaceUpdate, FacesConfig};
use crate::counters::FaceCounters;
use crate::datagram::{DatagramSocket, Peer};
use crate::error::FaceError;
use crate::link::{LinkService, LinkSettings, ReassemblyBudget, Tally};
use crate::listener::Listener;
use crate::memory::Mailbox;
use crate::outbox::Outbox;
use crate::send_budget::SendBudget;
use crate::slab::FaceSlab;
use crate::status::{CloseReason, FaceEvent, FaceStatus, ListenerStatus};
use crate::stream::Spare;
use crate::timers::{Timer, Timers};
use crate::uri::FaceUri;
use admission::{Descriptors, Shares};
use backpressure::Reading;
use core::time::Duration;
use face::{Face, Token, Transport};
use handshakes::Handshake;
use interfaces::InterfaceFaces;
use lanes::Junior;
pub use lanes::{Lane, Stray, Twins, Whence};
use nw_element_api::{Cause, DropCounters, FaceId, Instant, Packet, Pool, SharedPool};
use rustix::event::epoll;
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// A listener that ran out of descriptors rests for so long.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Link packets of one face that are sent again in one turn.
const AGAIN_PER_TURN: usize = 64;

/// Frames of AF_XDP that another shard hindered from being handed back are to be in so long.
const SETTLE_PAUSE: Duration = Duration::from_micros(50);

/// Reads of up to 64 KiB of what a connection still holds when its face ends for another reason than its own end.
const LAST_READS_MAX: usize = 128;

/// Timers served in one turn.
const TIMERS_PER_TURN: usize = 1024;

/// Outboxes kept for faces that will need one.
const SPARE_OUTBOXES_MAX: usize = 256;

/// All faces of a shard.
#[derive(Debug)]
pub struct Faces {
    config: FacesConfig,
    epoll: OwnedFd,
    slots: FaceSlab<Face>,
    shares: Shares,
    descriptors: Descriptors,
    /// Some are empty: nothing listens there any more.
    listeners: Vec<Option<Listener>>,
    /// WebSocket connections that are no faces yet.
    handshakes: Vec<Option<Handshake>>,
    sockets: Vec<Option<DatagramSocket>>,
    interfaces: InterfaceFaces,
    xdp: xdp::Xdp,
    mailbox: Mailbox,
    /// Stream and internal faces with something in their outbox.
    dirty: Vec<FaceId>,
    spare_outboxes: Vec<Outbox>,
    spare_buffers: Spare,
    timers: Timers,
    budget: ReassemblyBudget,
    send_budget: SendBudget,
    relief: relief::Relief,
    events: Vec<FaceEvent>,
    /// What faces that ended had received and not given yet.
    last_packets: Vec<Packet>,
    drops: DropCounters,
    /// Counters of faces that have ended.
    ended: FaceCounters,
    /// When the host last said the time.
    latest: Instant,
    /// On shards that are not the first.
    junior: Option<Junior>,
    /// What lanes that ended had counted.
    ended_lanes: Vec<(FaceId, FaceCounters)>,
    /// Peers that said something new of their room: KiB. Only where ports are shared.
    rooms: Vec<(FaceId, u64)>,
}

impl Faces {
    /// Without faces. Readiness is asked for from `epoll`, of which a duplicate is kept.
    ///
    /// # Errors
    /// When there is no descriptor left.
    pub fn new(config: FacesConfig, epoll: BorrowedFd<'_>) -> Result<Self, FaceError> {
        let epoll = epoll
            .try_clone_to_owned()
            .map_err(|e| FaceError::system("use", "epoll")(Errno::from_io_error(&e).unwrap_or(Errno::IO)))?;
        Ok(Faces {
            budget: ReassemblyBudget::new(config.reassembly),
            relief: relief::Relief::default(),
            send_budget: SendBudget::new(config.queues_bytes_max),
            config,
            descriptors: Descriptors::new(&epoll),
            epoll,
            slots: FaceSlab::new(),
            shares: Shares::default(),
            listeners: Vec::new(),
            handshakes: Vec::new(),
            sockets: Vec::new(),
            interfaces: InterfaceFaces::default(),
            xdp: xdp::Xdp::default(),
            mailbox: Mailbox::default(),
            dirty: Vec::new(),
            spare_outboxes: Vec::new(),
            spare_buffers: Vec::new(),
            timers: Timers::default(),
            events: Vec::new(),
            last_packets: Vec::new(),
            drops: DropCounters::default(),
            ended: FaceCounters::default(),
            latest: Instant::START,
            junior: None,
            ended_lanes: Vec::new(),
            rooms: Vec::new(),
        })
    }

    /// True when an epoll event with this token is for [`on_ready`](Self::on_ready). The host's own tokens are below 2^32.
    pub const fn owns(token: u64) -> bool {
        Token::from_bits(token).is_some()
    }

    /// Takes what happened since the last call, in order. [`FaceEvent::Created`] goes before packets that were received since the last call,
    /// [`FaceEvent::Destroyed`] behind them and behind [`take_last_packets`](Self::take_last_packets): what a peer sent before its end counts.
    pub fn events(&mut self) -> impl Iterator<Item = FaceEvent> + use<> {
        core::mem::take(&mut self.events).into_iter()
    }

    /// Takes packets that faces had received before they ended, where that was found out by another call than [`on_ready`](Self::on_ready):
    /// a command, a failed write, a timer.
    #[inline]
    pub fn take_last_packets(&mut self, batch: &mut Vec<Packet>) {
        batch.append(&mut self.last_packets);
    }

    /// Returns whether [`events`](Self::events) or [`take_last_packets`](Self::take_last_packets) have something to give.
    #[inline]
    pub fn has_events(&self) -> bool {
        !self.events.is_empty() || !self.last_packets.is_empty()
    }

    /// When [`tick`](Self::tick) wants to be called, if ever.
    pub fn deadline(&self) -> Option<Instant> {
        let unsettled = self.xdp.unsettled.then(|| self.latest + SETTLE_PAUSE);
        self.timers.deadline().into_iter().chain(unsettled).min()
    }

    /// Does what is due: gives up packets in pieces, ends idle faces, lets listeners try again.
    pub fn tick(&mut self, now: Instant, pool: &mut Pool) {
        self.latest = now;
        for _ in 0..TIMERS_PER_TURN {
            match self.timers.pop(now) {
                None => return,
                Some(Timer::Idle(id)) => self.check_idle(now, id, pool),
                Some(Timer::Link(id)) => self.check_link(now, id),
                Some(Timer::Burst(id)) => self.send_waiting(now, id),
                Some(Timer::Reading(id)) => self.check_reading(now, id, pool),
                Some(Timer::Reconnect(id)) => self.check_connection(now, id, pool),
                Some(Timer::Drain(index)) => self.drain_udp(now, index as usize),
                Some(Timer::Handshake(index)) => self.expire_handshake(index),
                Some(Timer::Accept(index)) => self.resume_accepting(now, index),
                Some(Timer::Xdp) => self.match_xdp(now),
                Some(Timer::Interfaces) => self.match_interfaces(now, pool),
            }
        }
    }

    /// Ends a face; false when it was not there. What it was to send is sent if the socket takes it at once.
    pub fn close(&mut self, id: FaceId, pool: &mut Pool) -> bool {
        if self.slots.get(id).is_none() || id.number() < u64::from(FaceId::FIRST) {
            return false;
        }
        self.flush_face(id, pool);
        // The flush may have ended it for a reason of its own.
        self.end_face(id, CloseReason::Asked, pool);
        true
    }

    /// Ends all faces and listeners: the host goes. What was to be sent is sent if the sockets take it at once.
    pub fn close_all(&mut self, pool: &mut Pool) {
        self.flush(pool);
        let ids: Vec<FaceId> = self.ids().collect();
        ids.into_iter().for_each(|id| self.remove_face(id, CloseReason::Asked, pool));
        self.last_packets.drain(..).for_each(|packet| pool.release(packet));
        (0..self.handshakes.len()).for_each(|index| drop(self.take_handshake(index as u32)));
        self.listeners.clear();
        self.sockets.clear();
    }

    /// Changes a face.
    ///
    /// # Errors
    /// When it is not there, or can't be so; then nothing is changed.
    pub fn update(&mut self, now: Instant, id: FaceId, update: &FaceUpdate) -> Result<(), FaceError> {
        let face = self.slots.get_mut(id).ok_or(FaceError::Unknown(id))?;
        let settings = face.link.settings().updated(update, face.scope)?;
        if let (Transport::Datagram { socket, .. }, Some(mtu)) = (&face.transport, settings.mtu)
            && self.sockets[*socket].as_ref().is_some_and(|socket| mtu > socket.link_mtu_max())
        {
            return Err(FaceError::Mtu(mtu));
        }
        settings.fit(face.link_type)?;
        if let Some(persistency) = update.persistency.filter(|persistency| *persistency != face.persistency) {
            if !face.may_be(persistency) {
                return Err(FaceError::Persistency(persistency.as_str()));
            }
            face.persistency = persistency;
            face.heard = now;
            if let (Some(expiry), None) = (face.expiry(&self.config), face.idle_timer) {
                face.idle_timer = Some(expiry);
                self.timers.set(expiry, Timer::Idle(id));
            }
        }
        face.link.set(settings);
        self.arm_link(id, Instant::START);
        Ok(())
    }

    /// All there is to say of a face.
    pub fn status(&self, id: FaceId) -> Option<FaceStatus> {
        self.slots.get(id).map(|face| self.describe(id, face))
    }

    /// All faces by ascending slot.
    pub fn ids(&self) -> impl Iterator<Item = FaceId> + '_ {
        self.slots.iter().map(|(id, _)| id)
    }

    /// The face to a peer, if there is one.
    pub fn find(&self, uri: &FaceUri) -> Option<FaceId> {
        self.slots.iter().find(|(_, face)| face.uri == *uri).map(|(id, _)| id)
    }

    /// Faces there are, reserved ones aside.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// True when there are none but reserved ones.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where peers are accepted, and how that goes.
    pub fn listeners(&self) -> Vec<ListenerStatus> {
        let streams = self.listeners.iter().flatten().map(|listener| ListenerStatus {
            uri: listener.uri.clone(),
            accepted: listener.accepted,
            refused: listener.refused,
            udp: None,
        });
        let datagrams =
            self.sockets.iter().flatten().filter(|socket| socket.listening).map(|socket| ListenerStatus {
                uri: socket.local_uri(),
                accepted: socket.accepted,
                refused: socket.refused,
                udp: Some(socket.buffer()),
            });
        streams.chain(datagrams).collect()
    }

    /// Drops of all faces there were, by reason, and of packets that never had one.
    pub const fn drops(&self) -> &DropCounters {
        &self.drops
    }

    /// Counters of all faces there were, together. Walks over all faces.
    pub fn totals(&self) -> FaceCounters {
        let mut totals = self.ended.clone();
        self.slots.iter().for_each(|(_, face)| totals.merge(&face.counters));
        totals
    }

    /// Octets held in pieces by all faces.
    pub const fn reassembly_bytes(&self) -> usize {
        self.budget.bytes()
    }

    /// Bytes of memory in the send queues of all faces.
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
            counters: face.counters.clone(),
        }
    }

    /// Returns an error when there are as many faces as others than on-demand ones may fill.
    fn check_commanded(&mut self) -> Result<(), FaceError> {
        if self.slots.len() >= self.commanded_faces_max() {
            self.drops.shortages.record(SharedPool::Faces);
            return Err(FaceError::TooMany(self.commanded_faces_max()));
        }
        Ok(())
    }

    /// Makes a face, if there may be one more, and tells.
    fn add_face(&mut self, make: impl FnOnce(FaceId) -> Face) -> Result<FaceId, FaceError> {
        if self.slots.len() >= self.config.faces_max {
            self.drops.shortages.record(SharedPool::Faces);
            return Err(FaceError::TooMany(self.config.faces_max));
        }
        let id = self.slots.insert(make).ok_or(FaceError::TooMany(self.config.faces_max))?;
        self.tell_created(id);
        Ok(id)
    }

    fn tell_created(&mut self, id: FaceId) {
        if let Some(status) = self.status(id) {
            self.events.push(FaceEvent::Created(Box::new(status)));
        }
    }

    fn link(&self, now: Instant, settings: LinkSettings) -> LinkService {
        LinkService::new(settings, now.as_nanos())
    }

    /// Ends a face. What its connection still holds is read first.
    fn end_face(&mut self, id: FaceId, reason: CloseReason, pool: &mut Pool) {
        self.read_last(id, pool);
        self.remove_face(id, reason, pool);
    }

    fn remove_face(&mut self, id: FaceId, reason: CloseReason, pool: &mut Pool) {
        let Some(mut face) = self.slots.remove(id) else { return };
        let mut tally = Tally { face: &mut face.counters, all: &mut self.drops };
        for item in face.outbox.items() {
            tally.face.take_back(item.kind, face.outbox.item_len(item, pool));
        }
        if !face.outbox.is_empty() {
            tally.drops(Cause::FaceGone, face.outbox.items().len() as u64);
        }
        face.outbox.clear(pool);
        face.link.end(&mut self.budget, &mut tally);
        self.send_budget.recharge(&mut face.charged, 0);
        self.send_budget.return_kernel_buffer(core::mem::take(&mut face.kernel_buffer));
        let reconnect_timer = face.reconnect.as_ref().and_then(|reconnect| reconnect.timer);
        let burst_timer = match &face.transport {
            Transport::Datagram { burst, .. } => {
                if !burst.waiting.is_empty() {
                    tally.drops(Cause::FaceGone, burst.waiting.records() as u64);
                }
                burst.timer
            }
            _ => None,
        };
        let timers = [
            (face.idle_timer, Timer::Idle(id)),
            (face.link_timer, Timer::Link(id)),
            (reconnect_timer, Timer::Reconnect(id)),
            (burst_timer, Timer::Burst(id)),
            (face.reading.due(), Timer::Reading(id)),
        ];
        for (due, timer) in timers {
            due.into_iter().for_each(|due| self.timers.cancel(due, timer));
        }
        match self.junior {
            None => self.ended.merge(&face.counters),
            Some(_) => self.ended_lanes.push((id, core::mem::take(&mut face.counters))),
        }
        self.forget_owner(&face);
        let status = self.describe(id, &face);
        match &mut face.transport {
            Transport::Stream(stream) => {
                stream.part(&reason);
                // Closing would do, were the descriptor not shared with somebody.
                let _ = epoll::delete(&self.epoll, &stream.socket);
            }
            Transport::Datagram { socket, peer, .. } => self.forget_peer(*socket, peer, id),
            Transport::Internal | Transport::Null | Transport::Down => {}
        }
        self.events.push(FaceEvent::Destroyed(Box::new(status), reason));
    }

    fn forget_peer(&mut self, index: usize, peer: &Peer, id: FaceId) {
        if let Some(socket) = &mut self.sockets[index] {
            // It may have another face by now, or the socket's place another socket.
            if socket.peers.get(peer) == Some(&id) {
                socket.peers.remove(peer);
            }
            self.drop_socket_without_peers(index);
        }
    }

    /// A socket that does not listen ends with the last of its faces.
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

    fn check_idle(&mut self, now: Instant, id: FaceId, pool: &mut Pool) {
        let Some(face) = self.slots.get_mut(id) else { return };
        if matches!(face.uri, FaceUri::Ws(_) | FaceUri::WsClient(_)) {
            return self.check_presence(now, id, pool);
        }
        match face.expiry(&self.config) {
            Some(expiry) if expiry <= now => self.end_face(id, CloseReason::Idle, pool),
            Some(expiry) => {
                face.idle_timer = Some(expiry);
                self.timers.set(expiry, Timer::Idle(id));
            }
            None => face.idle_timer = None,
        }
    }

    fn check_link(&mut self, now: Instant, id: FaceId) {
        let Some(face) = self.slots.get_mut(id) else { return };
        face.link_timer = None;
        let mut tally = Tally { face: &mut face.counters, all: &mut self.drops };
        face.link.expire(now, &mut self.budget, &mut tally);
        let mut not_before = Instant::START;
        if face.link.is_reliable() && !face.down && !matches!(face.transport, Transport::Down) {
            // What is to be sent again waits here, not in a queue: until then it may be acknowledged after all.
            let busy = self.slots.get(id).is_some_and(|face| self.waiting_bytes(face) > 0);
            let again_max = if busy { 0 } else { AGAIN_PER_TURN };
            self.open_outbox(now, id);
            let Some(face) = self.slots.get_mut(id) else { return };
            let mut tally = Tally { face: &mut face.counters, all: &mut self.drops };
            face.link.pump(now, again_max, &mut face.outbox, &mut tally);
            let held = face.held_bytes();
            self.send_budget.recharge(&mut face.charged, held);
            not_before = now + self.config.burst_pause;
        }
        self.arm_link(id, not_before);
    }

    /// Octets that wait for a face's socket.
    fn waiting_bytes(&self, face: &Face) -> usize {
        match &face.transport {
            Transport::Stream(stream) => stream.queue_bytes(),
            Transport::Datagram { socket, burst, .. } => {
                self.sockets[*socket].as_ref().map_or(0, DatagramSocket::queue_bytes) + burst.waiting.len()
            }
            Transport::Internal => self.mailbox.bytes(),
            Transport::Null | Transport::Down => 0,
        }
    }

    /// Sees to it that the link service is asked in time.
    fn arm_link(&mut self, id: FaceId, not_before: Instant) {
        let Some(face) = self.slots.get_mut(id) else { return };
        let Some(deadline) = face.link.deadline() else { return };
        let deadline = deadline.max(not_before);
        if face.link_timer.is_some_and(|due| due <= deadline) {
            return;
        }
        if let Some(later) = face.link_timer.replace(deadline) {
            self.timers.cancel(later, Timer::Link(id));
        }
        self.timers.set(deadline, Timer::Link(id));
    }

    fn resume_accepting(&mut self, now: Instant, index: u32) {
        let Some(Some(listener)) = self.listeners.get(index as usize) else { return };
        let data = epoll::EventData::new_u64(Token::Listener(index).bits());
        if epoll::modify(&self.epoll, &listener.socket, data, epoll::EventFlags::IN).is_err() {
            self.timers.set(now + ACCEPT_PAUSE, Timer::Accept(index));
        }
    }

    /// Asks epoll for what a socket waits for.
    fn watch(&self, socket: BorrowedFd<'_>, token: Token, writable: bool) -> Result<(), Errno> {
        let mut flags = epoll::EventFlags::IN;
        flags.set(epoll::EventFlags::OUT, writable);
        epoll::add(&self.epoll, socket, epoll::EventData::new_u64(token.bits()), flags)
    }
}

/// Registers with epoll the events that a stream face waits for.
fn watch_stream(epoll: &OwnedFd, id: FaceId, face: &mut face::Face) {
    let Transport::Stream(stream) = &face.transport else { return };
    let readable = !matches!(face.reading, Reading::Resting { .. });
    // Packets that were read and are not taken in yet: the next turn goes on with them, as soon as the socket takes answers.
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

/// As [`Faces::watch`], for a socket that is watched already.
fn watch_again(epoll: &OwnedFd, socket: &impl AsFd, token: Token, writable: bool) {
    let mut flags = epoll::EventFlags::IN;
    flags.set(epoll::EventFlags::OUT, writable);
    // It can only fail for sockets that are not watched, which would be a bug.
    let result = epoll::modify(epoll, socket, epoll::EventData::new_u64(token.bits()), flags);
    debug_assert!(result.is_ok(), "{token:?} is not watched: {result:?}");
}
