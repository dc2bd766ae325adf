//! The router's hands, as management asks them to move: faces, FIB, content store. See [`crate::control::environment`] for what each must do.

use crate::control::environment::{
    Created, Environment, FaceChange, FaceRequest, FibChange, FibRefusal, Refusal, Ticket, UpdateRefusal,
};
use crate::plane::Plane;
use crate::resolver::Resolver;
use crate::settings::Share;
use crate::shards::Crew;
use crate::shards::order::{Order, Report};
use crate::wall::WallClock;
use core::time::Duration;
use nw_api::management::{
    self as api, ChannelStatus, CsInfo, DropCount, ForwarderStatus, ShardStatus, XdpStatus, flags,
};
use nw_api::rest::LoopTime;
use nw_element_api::{DropReason, Element as _, FaceId, FaceTable, Instant, LinkType, Packet, Pool, Scope};
use nw_elements::strategy::{StrategyError, StrategyId};
use nw_faces::{FaceError, FaceEvent, FaceFlags, FaceOptions, FaceStatus, FaceUri, Faces, Persistency};
use nw_name::{Name, NameRef};
use nw_tables::cs::Erasing;
use nw_wire::{LpHeader, PACKET_LEN_MAX, Token};
use rustix::io::Errno;
use std::sync::Arc;

/// Everything but control itself, lent for the time of one call.
pub struct Hands<'a> {
    pub now: Instant,
    pub faces: &'a mut Faces,
    pub known: &'a mut FaceTable,
    pub plane: &'a mut Plane,
    pub pool: &'a mut Pool,
    /// Packets that come in by what control does: its own answers.
    pub batch: &'a mut Vec<Packet>,
    /// Packets that leave by what control does: pending Interests that got a new next hop.
    pub out: &'a mut Vec<Packet>,
    /// Faces that ended and whose last packets may still have to be forwarded: forwarding does not know of it yet.
    pub ended: &'a mut Vec<FaceEvent>,
    /// Face events to be told to control afterwards; forwarding knows of them already.
    pub untold: &'a mut Vec<FaceEvent>,
    /// Faces that are being connected for somebody.
    pub connecting: &'a mut Vec<(FaceId, Ticket)>,
    /// Looks up host names.
    pub resolver: &'a mut Resolver,
    /// The other shards, if there are any.
    pub crew: Option<&'a mut Crew>,
    /// Packets that this shard forwarded, and how it spent its time.
    pub work: (u64, LoopTime),
    pub wall: WallClock,
}

impl Hands<'_> {
    /// Tells forwarding what happened to faces, at once; control is told later. The ends of faces wait for
    /// [`absorb_ended`](Self::absorb_ended): what they received before is forwarded first.
    pub fn absorb_face_events(&mut self) {
        for event in self.faces.events() {
            if matches!(event, FaceEvent::Destroyed(..)) {
                self.ended.push(event);
                continue;
            }
            self.absorb(event);
        }
        self.faces.take_last_packets(self.batch);
    }

    /// Tells forwarding which faces have ended, after their last packets were forwarded.
    pub fn absorb_ended(&mut self) {
        for event in core::mem::take(self.ended) {
            self.absorb(event);
        }
    }

    fn absorb(&mut self, event: FaceEvent) {
        match &event {
            FaceEvent::Created(status) => {
                let (id, mut info) = (status.id, status.info());
                if id == FaceId::NULL {
                    // Not to be asked by strategies that try every neighbour.
                    info.scope = Scope::Local;
                }
                self.known.insert(id, info);
                let peer = status.peer();
                self.plane.with_router(self.now, self.pool, self.out, |router, _| {
                    router.add_face(id, info);
                    router.set_peer(id, peer);
                });
            }
            FaceEvent::Destroyed(status, reason) => {
                tracing::debug!(face = status.id.number(), uri = %status.uri, %reason, "face ended");
                self.known.remove(status.id);
                self.plane.remove_face(self.now, status.id);
            }
            FaceEvent::Up(_) | FaceEvent::Down(_) => {}
        }
        let changed = match &event {
            FaceEvent::Created(status) | FaceEvent::Destroyed(status, _) => Some(status.id),
            // A face that is up again may be on another socket.
            FaceEvent::Up(id) => Some(*id),
            FaceEvent::Down(_) => None,
        };
        if let (Some(crew), Some(id)) = (&mut self.crew, changed) {
            crew.tell_face(self.faces, self.known, id);
        }
        self.untold.push(event);
    }

    fn share(&self) -> Share {
        Share { shard: 0, shards: self.crew.as_ref().map_or(1, |crew| crew.shards()) }
    }

    /// Gives an order to the other shards, if there are any.
    fn order(&mut self, order: impl FnOnce() -> Order) {
        if let Some(crew) = &mut self.crew {
            crew.order(&order());
        }
    }
}

impl Environment for Hands<'_> {
    fn unix_ms(&self) -> u64 {
        self.wall.unix_ms()
    }

    fn create_face(&mut self, ticket: Ticket, request: &FaceRequest<'_>) -> Created {
        let parse =
            |text: &str| text.parse::<FaceUri>().map_err(|error| Refusal::new(400, error.to_string()));
        let uri = match parse(request.uri) {
            Ok(uri) => uri,
            Err(refusal) => return Created::Refused(refusal),
        };
        let local = match request.local_uri.map(parse).transpose() {
            Ok(local) => local,
            Err(refusal) => return Created::Refused(refusal),
        };
        let options =
            FaceOptions { persistency: Some(persistency(request.persistency)), ..options(&request.options) };
        if uri == FaceUri::Null {
            return Created::Exists(FaceId::NULL);
        }
        match self.faces.connect(self.now, &uri, local.as_ref(), &options) {
            Ok(id) => {
                self.absorb_face_events();
                if self.faces.status(id).is_some_and(|status| status.up) {
                    Created::Now(id)
                } else {
                    self.connecting.push((id, ticket));
                    Created::Later
                }
            }
            Err(FaceError::Exists(id)) => Created::Exists(id),
            Err(error) => Created::Refused(refusal(&error)),
        }
    }

    fn abandon_face(&mut self, ticket: Ticket) {
        if let Some(at) = self.connecting.iter().position(|(_, other)| *other == ticket) {
            let (face, _) = self.connecting.swap_remove(at);
            self.destroy_face(face);
        }
    }

    fn resolve(&mut self, ticket: Ticket, uri: &str) -> bool {
        self.resolver.resolve(ticket, uri)
    }

    fn update_face(&mut self, face: FaceId, change: &FaceChange) -> Result<(), UpdateRefusal> {
        let updated = self.faces.update(self.now, face, &options(change));
        if let Some(crew) = self.crew.as_mut().filter(|_| updated.is_ok()) {
            crew.tell_face(self.faces, self.known, face);
        }
        updated.map_err(|error| {
            let text = error.to_string();
            match error {
                FaceError::Persistency(_) => {
                    UpdateRefusal { persistency: true, text, ..UpdateRefusal::default() }
                }
                FaceError::Mtu(_) => UpdateRefusal { mtu: true, text, ..UpdateRefusal::default() },
                FaceError::LocalFieldsNonLocal => {
                    UpdateRefusal { flags: flags::LOCAL_FIELDS, text, ..UpdateRefusal::default() }
                }
                FaceError::ReliabilityShared => {
                    UpdateRefusal { flags: flags::RELIABILITY, text, ..UpdateRefusal::default() }
                }
                _ => UpdateRefusal { text, ..UpdateRefusal::default() },
            }
        })
    }

    fn destroy_face(&mut self, face: FaceId) {
        self.faces.close(face, self.pool);
        self.absorb_face_events();
        if self.batch.is_empty() {
            self.absorb_ended();
        }
    }

    fn face_status(&self, face: FaceId) -> Option<api::FaceStatus> {
        self.faces.status(face).map(|status| describe(&status, self.now))
    }

    fn has_face(&self, face: FaceId) -> bool {
        let has_ended = self
            .ended
            .iter()
            .any(|event| matches!(event, FaceEvent::Destroyed(status, _) if status.id == face));
        self.known.contains(face) && !has_ended
    }

    fn face_ids(&self) -> Vec<FaceId> {
        let mut ids: Vec<_> = self.known.ids().filter(|id| self.has_face(*id)).collect();
        ids.sort_unstable();
        ids
    }

    fn channels(&self) -> Vec<ChannelStatus> {
        self.faces
            .listeners()
            .iter()
            .map(|listener| ChannelStatus { local_uri: listener.uri.to_string() })
            .collect()
    }

    fn apply_fib(&mut self, changes: &[FibChange<'_>]) -> Result<(), FibRefusal> {
        let now = self.now;
        let done = self.plane.with_router(now, self.pool, self.out, |router, context| {
            for (index, change) in changes.iter().enumerate() {
                match change {
                    FibChange::Set { name, next_hops, strategy } => router
                        .set_route(now, *name, next_hops, *strategy, context)
                        .map_err(|error| FibRefusal { index, text: error.to_string() })?,
                    FibChange::Remove { name } => {
                        router.remove_route(*name);
                    }
                }
            }
            Ok(())
        });
        // Those before the one that could not be made are in effect.
        let made = done.as_ref().map_or_else(|refusal: &FibRefusal| &changes[..refusal.index], |()| changes);
        if !made.is_empty() {
            self.order(|| Order::Fib(made.iter().map(Into::into).collect()));
        }
        done
    }

    fn resolve_strategy(&mut self, name: NameRef<'_>) -> Result<(StrategyId, Name), Refusal> {
        let resolved = self.plane.with_router(self.now, self.pool, self.out, |router, _| {
            let id = router.resolve_strategy(name).map_err(|error| {
                let code = match error {
                    StrategyError::Unknown => 404,
                    StrategyError::TooMany => 500,
                    _ => 409,
                };
                Refusal::new(code, error.to_string())
            })?;
            let listed = router.strategy_name(id).map_or_else(|| name.to_name(), NameRef::to_name);
            Ok((id, listed))
        });
        if resolved.is_ok() {
            self.order(|| Order::Strategy(Arc::new(name.to_name())));
        }
        resolved
    }

    fn keep_announcement(&mut self, prefix: NameRef<'_>, announcement: &[u8], until: Instant) {
        let now = self.now;
        self.plane.with_router(now, self.pool, self.out, |router, _| {
            router.keep_announcement(now, prefix, announcement, until);
        });
        self.order(|| Order::Announcement(Arc::new(prefix.to_name()), announcement.into(), until));
    }

    fn cs_config(&mut self, capacity: Option<u64>, admit: Option<bool>, serve: Option<bool>) {
        let share = self.share();
        let capacity = capacity.map(|capacity| usize::try_from(capacity).unwrap_or(usize::MAX));
        self.order(|| Order::ContentStore { capacity, admit, serve });
        let store = self.plane.content_store_mut().store_mut();
        if let Some(capacity) = capacity {
            let bytes_max = store.limits().bytes_max;
            store.set_limits(share.of(capacity), bytes_max);
        }
        if let Some(admit) = admit {
            store.set_admit(admit);
        }
        if let Some(serve) = serve {
            store.set_serve(serve);
        }
    }

    fn cs_erase(&mut self, prefix: NameRef<'_>, erasing: &mut Erasing) -> bool {
        // Ticket 0: the part of this shard is not done.
        if erasing.elsewhere == 0 && !self.plane.content_store_mut().store_mut().erase_part(prefix, erasing) {
            return false;
        }
        self.crew.as_mut().is_none_or(|crew| crew.erase(prefix, erasing))
    }

    fn cs_info(&self) -> CsInfo {
        let store = self.plane.content_store().store();
        let counters = store.counters();
        let others = || self.crew.iter().flat_map(|crew| crew.reports());
        let all = |own: usize, other: fn(&Report) -> u64| own as u64 + others().map(other).sum::<u64>();
        let bits = [(store.admits(), flags::CS_ADMIT), (store.serves(), flags::CS_SERVE)];
        CsInfo {
            capacity: store.limits().packets_max as u64
                + self.crew.as_ref().map_or(0, |crew| crew.store_capacity()),
            flags: bits.iter().filter(|(on, _)| *on).fold(0, |set, (_, bit)| set | bit),
            entries: all(store.len(), |report| report.status.cs_entries),
            hits: all(counters.hits as usize, |report| report.status.cs_hits),
            misses: all(counters.misses as usize, |report| report.status.cs_misses),
        }
    }

    fn forwarder_status(&self) -> ForwarderStatus {
        let totals = self.faces.totals();
        let router = self.plane.router();
        let pending = router.counters();
        let others = || self.crew.iter().flat_map(|crew| crew.reports());
        let all = |own: u64, other: fn(&Report) -> u64| own + others().map(other).sum::<u64>();
        ForwarderStatus {
            start_timestamp: self.wall.start_unix_ms(),
            current_timestamp: self.wall.unix_ms(),
            fib_entries: router.fib().len() as u64,
            pit_entries: all(router.pit().len() as u64, |report| report.status.pit_entries),
            measurements_entries: all(router.measurements().len() as u64, |report| report.measurements),
            cs_entries: self.cs_info().entries,
            in_interests: totals.in_interests,
            in_data: totals.in_data,
            in_nacks: totals.in_nacks,
            out_interests: totals.out_interests,
            out_data: totals.out_data,
            out_nacks: totals.out_nacks,
            // As the reference counts: what the content store answered was satisfied, too.
            satisfied_interests: all(pending.satisfied, |report| report.satisfied) + self.cs_info().hits,
            unsatisfied_interests: all(pending.unsatisfied, |report| report.unsatisfied),
            ..ForwarderStatus::default()
        }
    }

    fn drops(&self) -> Vec<DropCount> {
        let mut all = self.plane.drops().clone();
        all.merge(self.faces.drops());
        self.crew.iter().for_each(|crew| crew.add_drops(&mut all));
        let counted = all.iter().filter(|(_, packets)| *packets > 0);
        counted.map(|(reason, count)| DropCount { reason: drop_name(reason), count }).collect()
    }

    fn xdp(&self) -> Vec<XdpStatus> {
        self.faces.xdp().into_iter().map(crate::xdp::status).collect()
    }

    fn shards(&self) -> Vec<ShardStatus> {
        let store = self.plane.content_store().store();
        let (packets, loop_time) = self.work;
        let exchange = self.crew.as_ref().map(|crew| crew.exchange());
        let first = ShardStatus {
            shard: 0,
            packets,
            handed_over: exchange.map_or(0, |exchange| exchange.handed_over),
            waiting_bytes: exchange.map_or(0, |exchange| exchange.waiting_bytes() as u64),
            busy_ns: loop_time.busy_ns,
            turns: loop_time.turns,
            pit_entries: self.plane.router().pit().len() as u64,
            cs_entries: store.len() as u64,
            cs_hits: store.counters().hits,
            cs_misses: store.counters().misses,
            chosen_in_kernel: 0,
            xdp_frames: 0,
        };
        let others = self.crew.iter().flat_map(|crew| crew.reports()).map(|report| report.status);
        let mut shards: Vec<_> = core::iter::once(first).chain(others).collect();
        for (at, shard) in shards.iter_mut().enumerate() {
            shard.xdp_frames = self.faces.xdp_frames(at);
        }
        for counters in self.crew.iter().flat_map(|crew| crew.kernel_counters()) {
            for (shard, packets) in shards.iter_mut().zip(counters.shards()) {
                shard.chosen_in_kernel += packets;
            }
        }
        shards
    }

    fn send(&mut self, data: &[u8], token: Token) {
        if self.crew.as_mut().is_some_and(|crew| crew.hold(data, token)) {
            return;
        }
        self.faces.inject(self.now, &answer_packet(data, token), self.pool, self.batch);
    }

    fn ask(&mut self, interest: &[u8], next_hop: Option<FaceId>) {
        let header = LpHeader { next_hop_face_id: next_hop.map(FaceId::number), ..LpHeader::default() };
        let mut link_packet = Vec::with_capacity(interest.len() + 16);
        header.encode(interest.len(), &mut link_packet);
        link_packet.extend_from_slice(interest);
        self.faces.inject(self.now, &link_packet, self.pool, self.batch);
    }
}

/// An answer of management as it enters forwarding: for the Interest with this token, and not to be kept.
pub fn answer_packet(data: &[u8], token: Token) -> Vec<u8> {
    let header = LpHeader { no_cache: true, pit_token: token, ..LpHeader::default() };
    let mut link_packet = Vec::with_capacity(data.len() + 16);
    header.encode(data.len(), &mut link_packet);
    link_packet.extend_from_slice(data);
    link_packet
}

/// A drop counter's name, as [`nw_api::counters::drop_reasons`] lists it.
pub fn drop_name(reason: DropReason) -> String {
    match reason {
        DropReason::Malformed(fault) => format!("malformed_{}", fault.as_str()),
        DropReason::Cause(cause) => cause.as_str().to_owned(),
    }
}

const fn persistency(persistency: api::FacePersistency) -> Persistency {
    match persistency {
        api::FacePersistency::Persistent => Persistency::Persistent,
        api::FacePersistency::OnDemand => Persistency::OnDemand,
        api::FacePersistency::Permanent => Persistency::Permanent,
    }
}

fn options(change: &FaceChange) -> FaceOptions {
    FaceOptions {
        persistency: change.persistency.map(persistency),
        flags: FaceFlags(change.flags),
        flags_mask: FaceFlags(change.mask),
        mtu: change.mtu.map(|mtu| usize::try_from(mtu).unwrap_or(usize::MAX)),
        marking_interval: change.base_congestion_marking_interval_ns.map(Duration::from_nanos),
        marking_threshold: change.default_congestion_threshold,
    }
}

/// The code NFD answers with, and the sentence.
fn refusal(error: &FaceError) -> Refusal {
    let code = match error {
        FaceError::Uri(_) | FaceError::NotCanonical(_) | FaceError::InterfaceNeeded(_) => 400,
        FaceError::NoInterface(_) | FaceError::NoAddress(..) => 504,
        // Nothing answers there: over a unix socket the system says so at once, and says that the file is missing.
        FaceError::System { action: "connect to", errno, .. }
            if error.is_retryable()
                || matches!(
                    *errno,
                    Errno::NOENT | Errno::NOTDIR | Errno::CONNRESET | Errno::HOSTUNREACH | Errno::NETUNREACH
                ) =>
        {
            504
        }
        FaceError::System { .. } if error.is_retryable() => 504,
        // A near end that this machine doesn't have, or has given away: the command's fault.
        FaceError::System { errno: Errno::ADDRNOTAVAIL | Errno::ADDRINUSE, .. } => 406,
        FaceError::TooMany(_) | FaceError::PacketSocket | FaceError::System { .. } => 500,
        _ => 406,
    };
    Refusal::new(code, error.to_string())
}

fn describe(status: &FaceStatus, now: Instant) -> api::FaceStatus {
    let counters = &status.counters;
    api::FaceStatus {
        face_id: status.id.number(),
        uri: status.uri.to_string(),
        local_uri: status.local_uri.to_string(),
        expiration_period: status.expiry.map(|expiry| expiry.since(now).as_millis() as u64),
        scope: match status.scope {
            Scope::Local => api::FaceScope::Local,
            Scope::NonLocal => api::FaceScope::NonLocal,
        },
        persistency: match status.persistency {
            Persistency::Persistent => api::FacePersistency::Persistent,
            Persistency::OnDemand => api::FacePersistency::OnDemand,
            Persistency::Permanent => api::FacePersistency::Permanent,
        },
        link_type: match status.link_type {
            LinkType::PointToPoint => api::LinkType::PointToPoint,
            LinkType::MultiAccess => api::LinkType::MultiAccess,
            LinkType::AdHoc => api::LinkType::AdHoc,
        },
        base_congestion_marking_interval: Some(status.marking_interval.as_nanos() as u64),
        default_congestion_threshold: Some(status.marking_threshold),
        // As NFD: a face without a limit of its own carries the largest packet there is.
        mtu: Some(status.mtu.map_or(PACKET_LEN_MAX, |mtu| mtu.min(PACKET_LEN_MAX)) as u64),
        in_interests: counters.in_interests,
        in_data: counters.in_data,
        in_nacks: counters.in_nacks,
        out_interests: counters.out_interests,
        out_data: counters.out_data,
        out_nacks: counters.out_nacks,
        in_bytes: counters.in_bytes,
        out_bytes: counters.out_bytes,
        flags: status.flags.0,
    }
}

/// What a face event needs to say about a face that is gone.
pub fn last_status(status: &FaceStatus, now: Instant) -> api::FaceStatus {
    describe(status, now)
}
