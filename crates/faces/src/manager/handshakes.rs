//! Handshakes of WebSocket and shared-memory connections, and pings of idle WebSocket peers.
//!
//! A connection becomes a face when its handshake is complete, as only then its scope is known.
//! Until then it holds a descriptor and at most 8 KiB, for a few seconds; when there are too many,
//! the oldest of the peer with most is closed.

use super::face::{Token, Transport};
use super::{Faces, watch_stream};
use crate::accounts::{Account, PeerKey};
use crate::config::FaceOptions;
use crate::shm::SharedMemoryLink;
use crate::status::CloseReason;
use crate::stream::{self, Stream};
use crate::timers::Timer;
use nw_element_api::{DropCause, FaceId, Pool, Scope, SharedPool, Timestamp};
use nw_link::websocket::WebSocket;
use nw_link::websocket::handshake::{self, HTTP_LEN_MAX, RequestOutcome};
use nw_link::{FaceUri, Persistency};
use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};

/// Bytes of a request per read.
const READ_LEN: usize = 2048;

/// A connection whose handshake is not complete.
#[derive(Debug)]
pub(super) struct Handshake {
    socket: OwnedFd,
    /// Index of the listener.
    listener: u32,
    /// Remote and local URI.
    uris: (FaceUri, FaceUri),
    account: Account,
    /// Bytes of the HTTP request so far.
    request: Vec<u8>,
    /// When it is closed.
    due: Timestamp,
}

impl Handshake {
    /// Returns whether the peer is to offer shared memory, instead of an HTTP request.
    const fn is_shared_memory(&self) -> bool {
        matches!(self.uris.1, FaceUri::Shm(_))
    }
}

impl Faces {
    /// Waits for the handshake of an accepted connection.
    pub(super) fn start_handshake(
        &mut self,
        now: Timestamp,
        listener: u32,
        socket: OwnedFd,
        uris: (FaceUri, FaceUri),
        account: Account,
    ) {
        let waiting = self.handshakes.iter().flatten().count();
        if waiting >= self.config.websocket.handshakes_max {
            self.drops.shortages.record(SharedPool::Faces);
            // In a flood the newcomer's peer has most, and is found without counting all.
            let own = self
                .handshakes
                .iter()
                .flatten()
                .filter(|handshake| handshake.account.peer == account.peer);
            let peer = match own.count() * 2 > waiting {
                true => Some(account.peer),
                false => self.most_handshakes().map(|(peer, _)| peer),
            };
            peer.into_iter().for_each(|peer| self.expire_oldest_handshake(peer));
        }
        let index =
            self.handshakes.iter().position(Option::is_none).unwrap_or(self.handshakes.len());
        if self.watch(socket.as_fd(), Token::Handshake(index as u32), false).is_err() {
            self.count_refusal(listener);
            return;
        }
        if index == self.handshakes.len() {
            self.handshakes.push(None);
        }
        let due = now + self.config.websocket.handshake_timeout;
        self.handshakes[index] =
            Some(Handshake { socket, listener, uris, account, request: Vec::new(), due });
        self.timers.set(due, Timer::Handshake(index as u32));
    }

    /// Returns the peer with most incomplete handshakes, and their number.
    fn most_handshakes(&self) -> Option<(PeerKey, usize)> {
        let mut counts = BTreeMap::new();
        for handshake in self.handshakes.iter().flatten() {
            *counts.entry(handshake.account.peer).or_insert(0) += 1;
        }
        counts.into_iter().max_by_key(|(_, count)| *count)
    }

    fn expire_oldest_handshake(&mut self, peer: PeerKey) {
        let waiting = self.handshakes.iter().enumerate();
        let of_peer = waiting.filter_map(|(at, handshake)| {
            let handshake =
                handshake.as_ref().filter(|handshake| handshake.account.peer == peer)?;
            Some((handshake.due, at))
        });
        if let Some((_, at)) = of_peer.min() {
            self.expire_handshake(at as u32);
        }
    }

    /// Closes a handshake of the peer with most, for a newcomer's descriptor. Returns false if no
    /// peer has more than the newcomer has connections.
    pub(super) fn drop_handshake_for(&mut self, newcomer: Account) -> bool {
        let own = self.connections_of(newcomer);
        match self.most_handshakes() {
            Some((peer, count)) if count > own => {
                self.expire_oldest_handshake(peer);
                true
            }
            _ => false,
        }
    }

    /// Reads a peer's request or offer.
    pub(super) fn handshake_ready(&mut self, now: Timestamp, index: u32, pool: &mut Pool) {
        let Some(Some(handshake)) = self.handshakes.get_mut(index as usize) else { return };
        if handshake.is_shared_memory() {
            return self.read_memory_offer(now, index, pool);
        }
        let checked = handshake.request.len();
        let mut buffer = [0; READ_LEN];
        let len_max = READ_LEN.min(HTTP_LEN_MAX + 1 - checked);
        let read =
            match rustix::net::recv(&handshake.socket, &mut buffer[..len_max], RecvFlags::DONTWAIT)
            {
                Ok((0, _)) => return self.refuse_handshake(index, &[]),
                Ok((read, _)) => read,
                Err(Errno::AGAIN | Errno::INTR) => return,
                Err(_) => return self.refuse_handshake(index, &[]),
            };
        handshake.request.extend_from_slice(&buffer[..read]);
        let Some(peer) = handshake.uris.0.address() else { return };
        match handshake::answer_request(&handshake.request, checked, peer, &self.config.websocket) {
            RequestOutcome::Partial => {}
            RequestOutcome::Refused(answer) => self.refuse_handshake(index, &answer),
            RequestOutcome::Accepted(scope, answer) => {
                self.accept_handshake(now, index, scope, &answer, pool)
            }
        }
    }

    /// Reads a peer's offer of shared memory and creates its face.
    fn read_memory_offer(&mut self, now: Timestamp, index: u32, pool: &mut Pool) {
        let Some(Some(handshake)) = self.handshakes.get(index as usize) else { return };
        let (listener, account) = (handshake.listener, handshake.account);
        let bound = (listener, self.config.shared_faces_max);
        if !self.admit_to_listener(now, bound, account, pool) || !self.admit(now, account, pool) {
            return self.refuse_handshake(index, &[]);
        }
        let Some(Some(handshake)) = self.handshakes.get(index as usize) else { return };
        let shared = match SharedMemoryLink::accept(handshake.socket.as_fd()) {
            Ok(None) => return,
            Ok(Some(shared)) => shared,
            Err(reason) => {
                if let CloseReason::SharedMemory(fault) = reason {
                    tracing::debug!(at = %handshake.uris.1, %fault, "an offer of shared memory refused");
                    self.drops.add(DropCause::SharedMemoryFault.into(), 1);
                }
                return self.refuse_handshake(index, &[]);
            }
        };
        let Some(handshake) = self.take_handshake(index) else { return };
        let stream = Stream::over_shared_memory(handshake.socket, shared);
        self.add_accepted(now, listener, stream, handshake.uris, (Scope::Local, account));
    }

    /// Accepts a WebSocket handshake and creates the face.
    fn accept_handshake(
        &mut self,
        now: Timestamp,
        index: u32,
        scope: Scope,
        answer: &[u8],
        pool: &mut Pool,
    ) {
        let Some(Some(handshake)) = self.handshakes.get(index as usize) else { return };
        let (listener, account) = (handshake.listener, handshake.account);
        let bound = (listener, self.config.websocket.faces_max);
        if !self.admit_to_listener(now, bound, account, pool) || !self.admit(now, account, pool) {
            return self.refuse_handshake(index, &handshake::too_many_connections());
        }
        let Some(Some(handshake)) = self.handshakes.get(index as usize) else { return };
        // This response is short and the first bytes sent: a socket that doesn't take it whole is
        // broken.
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        if rustix::net::send(&handshake.socket, answer, flags) != Ok(answer.len()) {
            return self.refuse_handshake(index, &[]);
        }
        let Some(handshake) = self.take_handshake(index) else { return };
        let stream = Stream::new(handshake.socket, true, Some(WebSocket::server()));
        if let Some(id) = self.add_accepted(now, listener, stream, handshake.uris, (scope, account))
        {
            self.start_keepalive(now, id);
        }
    }

    /// Creates the face of an accepted connection whose handshake, if any, is complete.
    pub(super) fn add_accepted(
        &mut self,
        now: Timestamp,
        listener: u32,
        stream: Stream,
        uris: (FaceUri, FaceUri),
        (scope, account): (Scope, Account),
    ) -> Option<FaceId> {
        let options =
            FaceOptions { persistency: Some(Persistency::OnDemand), ..FaceOptions::default() };
        let Ok(id) = self.add_stream(now, stream, uris, scope, &options) else {
            self.count_refusal(listener);
            return None;
        };
        if let Some(known) = &mut self.listeners[listener as usize] {
            known.accepted += 1;
        }
        if let Some(face) = self.slots.get_mut(id) {
            face.listener = Some(listener);
        }
        self.register_on_demand(id, account);
        Some(id)
    }

    /// Closes a connection that gets no face, after sending `answer`.
    fn refuse_handshake(&mut self, index: u32, answer: &[u8]) {
        let Some(handshake) = self.take_handshake(index) else { return };
        self.count_refusal(handshake.listener);
        if !answer.is_empty() {
            let reason = answer
                .split(|byte| *byte == b'\n')
                .rfind(|line| !line.is_empty())
                .unwrap_or_default();
            let reason = String::from_utf8_lossy(reason);
            tracing::debug!(peer = %handshake.uris.0, %reason, "WebSocket connection refused");
            let _ = rustix::net::send(
                &handshake.socket,
                answer,
                SendFlags::DONTWAIT | SendFlags::NOSIGNAL,
            );
            stream::shutdown_write(handshake.socket.as_fd());
        }
    }

    /// Counts a refused connection of a listener.
    pub(super) fn count_refusal(&mut self, listener: u32) {
        if let Some(listener) = &mut self.listeners[listener as usize] {
            listener.refused += 1;
        }
    }

    /// Closes the connections without a face of a listener that is closed.
    pub(super) fn drop_handshakes_of(&mut self, listener: u32) {
        let of = |at: &usize| {
            self.handshakes[*at].as_ref().is_some_and(|handshake| handshake.listener == listener)
        };
        let waiting: Vec<usize> = (0..self.handshakes.len()).filter(of).collect();
        waiting.into_iter().for_each(|at| drop(self.take_handshake(at as u32)));
    }

    /// Closes a handshake that took too long.
    pub(super) fn expire_handshake(&mut self, index: u32) {
        let is_shared_memory = self
            .handshakes
            .get(index as usize)
            .and_then(Option::as_ref)
            .is_some_and(Handshake::is_shared_memory);
        // A shared-memory peer reads no HTTP.
        let answer = if is_shared_memory { Vec::new() } else { handshake::request_timed_out() };
        self.refuse_handshake(index, &answer);
    }

    pub(super) fn take_handshake(&mut self, index: u32) -> Option<Handshake> {
        let handshake = self.handshakes.get_mut(index as usize)?.take()?;
        self.timers.cancel(handshake.due, Timer::Handshake(index));
        let _ = epoll::delete(&self.epoll, &handshake.socket);
        Some(handshake)
    }

    /// Starts sending pings to a WebSocket peer when it is idle.
    pub(super) fn start_keepalive(&mut self, now: Timestamp, id: FaceId) {
        let Some(face) = self.slots.get_mut(id) else { return };
        let due = now + self.config.websocket.ping_interval;
        if let Some(old_due) = face.idle_timer.replace(due) {
            self.timers.cancel(old_due, Timer::Idle(id));
        }
        self.timers.set(due, Timer::Idle(id));
    }

    /// Processes the idle timer of a WebSocket face: an active peer is left alone, an idle one gets
    /// a ping, and one that did not answer a ping is closed.
    pub(super) fn check_keepalive(&mut self, now: Timestamp, id: FaceId, pool: &mut Pool) {
        let interval = self.config.websocket.ping_interval;
        let Some(face) = self.slots.get_mut(id) else { return };
        face.idle_timer = None;
        let Transport::Stream(stream) = &mut face.transport else { return };
        // A face that is connecting has another timer; this one starts when it is connected.
        if !stream.connected {
            return;
        }
        let mut due = face.last_received + interval;
        if due <= now {
            if !stream.ping() {
                return self.lose_stream(now, id, CloseReason::Idle, pool);
            }
            due = now + interval;
            if let Err(reason) = self.send_replies(id) {
                return self.lose_stream(now, id, reason, pool);
            }
        }
        if let Some(face) = self.slots.get_mut(id) {
            face.idle_timer = Some(due);
            self.timers.set(due, Timer::Idle(id));
        }
    }

    /// Sends the replies that reading produced (pongs, close frames); the remainder waits until the
    /// socket is writable.
    pub(super) fn send_replies(&mut self, id: FaceId) -> Result<(), CloseReason> {
        let Some(face) = self.slots.get_mut(id) else { return Ok(()) };
        let Transport::Stream(stream) = &mut face.transport else { return Ok(()) };
        let refused = face.awaits_writable && !stream.has_deferred();
        if stream.queue_bytes() == 0 || refused || !stream.connected {
            return Ok(());
        }
        stream.drain()?;
        watch_stream(&self.epoll, id, face);
        Ok(())
    }
}
