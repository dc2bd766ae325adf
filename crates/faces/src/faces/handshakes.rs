//! WebSocket connections and shared memory: from accepted socket to face; and whether a WebSocket peer is still there.
//!
//! A connection becomes a face when its handshake is over, as only then it is known whether it is local. Until then it holds a descriptor and at
//! most 8 KiB, for a few seconds; when there are too many, the oldest gives way to the newest.

use super::face::{Token, Transport};
use super::{Faces, watch_stream};
use crate::config::FaceOptions;
use crate::shares::{Owner, PeerKey};
use crate::shm::Shared;
use crate::status::{CloseReason, Persistency};
use crate::stream::{self, Stream};
use crate::timers::Timer;
use crate::uri::FaceUri;
use crate::websocket::WebSocket;
use crate::websocket::handshake::{self, Asked, HTTP_LEN_MAX};
use nw_element_api::{Cause, FaceId, Instant, Pool, Scope, SharedPool};
use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};

/// Octets read of a request at a time.
const READ_LEN: usize = 2048;

/// A connection whose request is not whole.
#[derive(Debug)]
pub(super) struct Handshake {
    socket: OwnedFd,
    listener: u32,
    ends: (FaceUri, FaceUri),
    owner: Owner,
    request: Vec<u8>,
    /// When it is given up.
    due: Instant,
}

impl Handshake {
    /// Memory is to be offered, and nothing asked in words.
    const fn is_of_memory(&self) -> bool {
        matches!(self.ends.1, FaceUri::Shm(_))
    }
}

impl Faces {
    /// Waits for what the peer of an accepted connection asks.
    pub(super) fn expect_handshake(
        &mut self,
        now: Instant,
        listener: u32,
        socket: OwnedFd,
        ends: (FaceUri, FaceUri),
        owner: Owner,
    ) {
        let waiting = self.handshakes.iter().flatten().count();
        if waiting >= self.config.websocket.handshakes_max {
            self.drops.shortages.record(SharedPool::Faces);
            // In a flood the newcomer's peer has most, and is found without counting all.
            let of_newcomer =
                self.handshakes.iter().flatten().filter(|shaken| shaken.owner.peer == owner.peer);
            let peer = match of_newcomer.count() * 2 > waiting {
                true => Some(owner.peer),
                false => self.most_handshakes().map(|(peer, _)| peer),
            };
            peer.into_iter().for_each(|peer| self.expire_oldest_handshake(peer));
        }
        let index = self.handshakes.iter().position(Option::is_none).unwrap_or(self.handshakes.len());
        if self.watch(socket.as_fd(), Token::Handshake(index as u32), false).is_err() {
            self.count_refusal(listener);
            return;
        }
        if index == self.handshakes.len() {
            self.handshakes.push(None);
        }
        let due = now + self.config.websocket.handshake_timeout;
        self.handshakes[index] = Some(Handshake { socket, listener, ends, owner, request: Vec::new(), due });
        self.timers.set(due, Timer::Handshake(index as u32));
    }

    /// Returns the peer with most connections whose handshake is not over, and how many those are.
    fn most_handshakes(&self) -> Option<(PeerKey, usize)> {
        let mut counts = BTreeMap::new();
        for shaken in self.handshakes.iter().flatten() {
            *counts.entry(shaken.owner.peer).or_insert(0) += 1;
        }
        counts.into_iter().max_by_key(|(_, count)| *count)
    }

    fn expire_oldest_handshake(&mut self, peer: PeerKey) {
        let waiting = self.handshakes.iter().enumerate();
        let of_peer = waiting.filter_map(|(at, shaken)| {
            let shaken = shaken.as_ref().filter(|shaken| shaken.owner.peer == peer)?;
            Some((shaken.due, at))
        });
        if let Some((_, at)) = of_peer.min() {
            self.expire_handshake(at as u32);
        }
    }

    /// Gives up a handshake for a newcomer's descriptor, of the peer with most; false when no peer has more than the newcomer has connections.
    pub(super) fn drop_handshake_for(&mut self, newcomer: Owner) -> bool {
        let own = self.connections_of(newcomer);
        match self.most_handshakes() {
            Some((peer, count)) if count > own => {
                self.expire_oldest_handshake(peer);
                true
            }
            _ => false,
        }
    }

    /// Reads what a peer asks.
    pub(super) fn handshake_ready(&mut self, now: Instant, index: u32, pool: &mut Pool) {
        let Some(Some(shaken)) = self.handshakes.get_mut(index as usize) else { return };
        if shaken.is_of_memory() {
            return self.offer_ready(now, index, pool);
        }
        let seen = shaken.request.len();
        let mut buffer = [0; READ_LEN];
        let room = READ_LEN.min(HTTP_LEN_MAX + 1 - seen);
        let read = match rustix::net::recv(&shaken.socket, &mut buffer[..room], RecvFlags::DONTWAIT) {
            Ok((0, _)) => return self.refuse_handshake(index, &[]),
            Ok((read, _)) => read,
            Err(Errno::AGAIN | Errno::INTR) => return,
            Err(_) => return self.refuse_handshake(index, &[]),
        };
        shaken.request.extend_from_slice(&buffer[..read]);
        let Some(peer) = shaken.ends.0.address() else { return };
        match handshake::judge(&shaken.request, seen, peer, &self.config.websocket) {
            Asked::Partial => {}
            Asked::Refused(answer) => self.refuse_handshake(index, &answer),
            Asked::Accepted(scope, answer) => self.accept_handshake(now, index, scope, &answer, pool),
        }
    }

    /// Looks at the memory that a peer offers.
    fn offer_ready(&mut self, now: Instant, index: u32, pool: &mut Pool) {
        let Some(Some(shaken)) = self.handshakes.get(index as usize) else { return };
        let (listener, owner) = (shaken.listener, shaken.owner);
        let bound = (listener, self.config.shared_faces_max);
        if !self.admit_to_listener(now, bound, owner, pool) || !self.admit(now, owner, pool) {
            return self.refuse_handshake(index, &[]);
        }
        let Some(Some(shaken)) = self.handshakes.get(index as usize) else { return };
        let shared = match Shared::accept(shaken.socket.as_fd()) {
            Ok(None) => return,
            Ok(Some(shared)) => shared,
            Err(reason) => {
                if let CloseReason::SharedMemory(fault) = reason {
                    tracing::debug!(at = %shaken.ends.1, %fault, "an offer of shared memory refused");
                    self.drops.add(Cause::SharedMemoryFault.into(), 1);
                }
                return self.refuse_handshake(index, &[]);
            }
        };
        let Some(shaken) = self.take_handshake(index) else { return };
        let stream = Stream::beside(shaken.socket, shared);
        self.add_accepted(now, listener, stream, shaken.ends, (Scope::Local, owner));
    }

    /// Makes the face of a WebSocket connection.
    fn accept_handshake(&mut self, now: Instant, index: u32, scope: Scope, answer: &[u8], pool: &mut Pool) {
        let Some(Some(shaken)) = self.handshakes.get(index as usize) else { return };
        let (listener, owner) = (shaken.listener, shaken.owner);
        let bound = (listener, self.config.websocket.faces_max);
        if !self.admit_to_listener(now, bound, owner, pool) || !self.admit(now, owner, pool) {
            return self.refuse_handshake(index, &handshake::no_room());
        }
        let Some(Some(shaken)) = self.handshakes.get(index as usize) else { return };
        // The first that is sent, and short: a socket that doesn't take it whole is broken.
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        if rustix::net::send(&shaken.socket, answer, flags) != Ok(answer.len()) {
            return self.refuse_handshake(index, &[]);
        }
        let Some(shaken) = self.take_handshake(index) else { return };
        let stream = Stream::new(shaken.socket, true, Some(WebSocket::accepted()));
        if let Some(id) = self.add_accepted(now, listener, stream, shaken.ends, (scope, owner)) {
            self.watch_over(now, id);
        }
    }

    /// Makes the face of an accepted connection, whose ends have agreed how they speak.
    pub(super) fn add_accepted(
        &mut self,
        now: Instant,
        listener: u32,
        stream: Stream,
        ends: (FaceUri, FaceUri),
        (scope, owner): (Scope, Owner),
    ) -> Option<FaceId> {
        let options = FaceOptions { persistency: Some(Persistency::OnDemand), ..FaceOptions::default() };
        let Ok(id) = self.add_stream(now, stream, ends, scope, &options) else {
            self.count_refusal(listener);
            return None;
        };
        if let Some(known) = &mut self.listeners[listener as usize] {
            known.accepted += 1;
        }
        if let Some(face) = self.slots.get_mut(id) {
            face.listener = Some(listener);
        }
        self.note_owner(id, owner);
        Some(id)
    }

    /// Ends a connection that becomes no face.
    fn refuse_handshake(&mut self, index: u32, answer: &[u8]) {
        let Some(shaken) = self.take_handshake(index) else { return };
        self.count_refusal(shaken.listener);
        if !answer.is_empty() {
            let why =
                answer.split(|octet| *octet == b'\n').rfind(|line| !line.is_empty()).unwrap_or_default();
            let why = String::from_utf8_lossy(why);
            tracing::debug!(peer = %shaken.ends.0, %why, "WebSocket connection refused");
            let _ = rustix::net::send(&shaken.socket, answer, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
            stream::hang_up(shaken.socket.as_fd());
        }
    }

    pub(super) fn count_refusal(&mut self, listener: u32) {
        if let Some(listener) = &mut self.listeners[listener as usize] {
            listener.refused += 1;
        }
    }

    /// Ends connections that are no faces yet, of a listener that goes.
    pub(super) fn drop_handshakes_of(&mut self, listener: u32) {
        let of = |at: &usize| self.handshakes[*at].as_ref().is_some_and(|shaken| shaken.listener == listener);
        let waiting: Vec<usize> = (0..self.handshakes.len()).filter(of).collect();
        waiting.into_iter().for_each(|at| drop(self.take_handshake(at as u32)));
    }

    /// A handshake took too long.
    pub(super) fn expire_handshake(&mut self, index: u32) {
        let is_of_memory =
            self.handshakes.get(index as usize).and_then(Option::as_ref).is_some_and(Handshake::is_of_memory);
        // Who offers memory reads no words.
        let answer = if is_of_memory { Vec::new() } else { handshake::too_slow() };
        self.refuse_handshake(index, &answer);
    }

    pub(super) fn take_handshake(&mut self, index: u32) -> Option<Handshake> {
        let shaken = self.handshakes.get_mut(index as usize)?.take()?;
        self.timers.cancel(shaken.due, Timer::Handshake(index));
        let _ = epoll::delete(&self.epoll, &shaken.socket);
        Some(shaken)
    }

    /// From now on asks the peer of a WebSocket face, when it is silent, whether it is there.
    pub(super) fn watch_over(&mut self, now: Instant, id: FaceId) {
        let Some(face) = self.slots.get_mut(id) else { return };
        let due = now + self.config.websocket.ping_interval;
        if let Some(before) = face.idle_timer.replace(due) {
            self.timers.cancel(before, Timer::Idle(id));
        }
        self.timers.set(due, Timer::Idle(id));
    }

    /// A WebSocket face's timer is due: a peer that was heard is fine, a silent one is asked, one that was asked is gone.
    pub(super) fn check_presence(&mut self, now: Instant, id: FaceId, pool: &mut Pool) {
        let interval = self.config.websocket.ping_interval;
        let Some(face) = self.slots.get_mut(id) else { return };
        face.idle_timer = None;
        let Transport::Stream(stream) = &mut face.transport else { return };
        // One that is still to be connected has a timer of its own; this begins anew when it is.
        if !stream.connected {
            return;
        }
        let mut due = face.heard + interval;
        if due <= now {
            if !stream.ping() {
                return self.lose_stream(now, id, CloseReason::Idle, pool);
            }
            due = now + interval;
            if let Err(reason) = self.send_answers(id) {
                return self.lose_stream(now, id, reason, pool);
            }
        }
        if let Some(face) = self.slots.get_mut(id) {
            face.idle_timer = Some(due);
            self.timers.set(due, Timer::Idle(id));
        }
    }

    /// Sends what reading made necessary to say; what the socket doesn't take waits for it.
    pub(super) fn send_answers(&mut self, id: FaceId) -> Result<(), CloseReason> {
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
