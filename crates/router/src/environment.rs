//! Implements [`nw_control::Environment`] for the host: faces, FIB, content store and counters.

use crate::plane::Plane;
use crate::resolver::Resolver;
use crate::settings::ShardShare;
use crate::shards::ShardPool;
use crate::shards::command::{Report, ShardCommand};
use crate::wall_clock::WallClock;
use core::time::Duration;
use nw_api::management::{
    self as api, ChannelStatus, CsInfo, DropCount, ForwarderStatus, ShardStatus, XdpStatus, flags,
};
use nw_api::rest::EventLoopStats;
use nw_control::{
    Environment, FaceChange, FaceCreation, FaceRequest, FibChange, FibRefusal, OperationId,
    Refusal, UpdateRefusal,
};
use nw_element_api::{
    DropReason, Element as _, FaceId, FaceTable, LinkType, Packet, Pool, Scope, Timestamp,
};
use nw_elements::strategy::{StrategyError, StrategyId};
use nw_faces::{
    FaceError, FaceEvent, FaceFlags, FaceOptions, FaceStatus, FaceUri, Faces, Persistency,
};
use nw_name::{Name, NameRef};
use nw_tables::cs::EraseCursor;
use nw_wire::{LpHeader, PACKET_LEN_MAX, Token};
use rustix::io::Errno;
use std::sync::Arc;

/// Everything of a host except control, borrowed for one call.
pub struct HostEnvironment<'a> {
    pub now: Timestamp,
    pub faces: &'a mut Faces,
    pub face_table: &'a mut FaceTable,
    pub plane: &'a mut Plane,
    pub pool: &'a mut Pool,
    /// Packets that control sends and that are still to be forwarded: its replies.
    pub batch: &'a mut Vec<Packet>,
    /// Packets that leave because of a change: pending Interests that got a new next hop.
    pub out: &'a mut Vec<Packet>,
    /// Closed faces that the plane still has, as their last packets may not be forwarded yet.
    pub closed_faces: &'a mut Vec<FaceEvent>,
    /// Face events that control has not received yet. The plane has processed them.
    pub pending_face_events: &'a mut Vec<FaceEvent>,
    /// Connecting faces and the operations that wait for them.
    pub pending_connects: &'a mut Vec<(FaceId, OperationId)>,
    /// Resolves host names.
    pub resolver: &'a mut Resolver,
    /// The other shards, if there are any.
    pub shard_pool: Option<&'a mut ShardPool>,
    /// Packets forwarded by this shard, and how its loop spent its time.
    pub load: (u64, EventLoopStats),
    pub wall: WallClock,
}

/// Borrows everything that control may change from a [`Host`](crate::Host), or from its parts while
/// it starts, as a [`HostEnvironment`]. Control itself stays free to be borrowed.
macro_rules! environment {
    ($host:expr, $now:expr) => {
        HostEnvironment {
            now: $now,
            faces: &mut $host.faces,
            face_table: &mut $host.face_table,
            plane: &mut $host.plane,
            pool: &mut $host.pool,
            batch: &mut $host.batch,
            out: &mut $host.out,
            closed_faces: &mut $host.closed_faces,
            pending_face_events: &mut $host.pending_face_events,
            pending_connects: &mut $host.pending_connects,
            resolver: &mut $host.resolver,
            shard_pool: $host.shard_pool.as_mut(),
            load: ($host.packets, $host.loop_time),
            wall: $host.wall,
        }
    };
}
pub(crate) use environment;

impl HostEnvironment<'_> {
    /// Updates the plane after face events, at once; control receives them later. Closed faces wait
    /// for [`absorb_closed_faces`](Self::absorb_closed_faces), as their last packets are forwarded
    /// first.
    pub fn absorb_face_events(&mut self) {
        for event in self.faces.events() {
            if matches!(event, FaceEvent::Destroyed(..)) {
                self.closed_faces.push(event);
                continue;
            }
            self.absorb(event);
        }
        self.faces.take_last_packets(self.batch);
    }

    /// Removes closed faces from the plane, after their last packets were forwarded.
    pub fn absorb_closed_faces(&mut self) {
        for event in core::mem::take(self.closed_faces) {
            self.absorb(event);
        }
    }

    fn absorb(&mut self, event: FaceEvent) {
        match &event {
            FaceEvent::Created(status) => {
                let (id, mut info) = (status.id, status.info());
                if id == FaceId::NULL {
                    // Local scope, so that strategies that try every neighbour skip it.
                    info.scope = Scope::Local;
                }
                self.face_table.insert(id, info);
                let peer = status.peer();
                self.plane.with_router(self.now, self.pool, self.out, |router, _| {
                    router.add_face(id, info);
                    router.set_peer(id, peer);
                });
            }
            FaceEvent::Destroyed(status, reason) => {
                tracing::debug!(face = status.id.number(), uri = %status.uri, %reason, "face ended");
                self.face_table.remove(status.id);
                self.plane.remove_face(self.now, status.id);
            }
            FaceEvent::Up(_) | FaceEvent::Down(_) => {}
        }
        let changed = match &event {
            FaceEvent::Created(status) | FaceEvent::Destroyed(status, _) => Some(status.id),
            // A face that is up again may use another socket.
            FaceEvent::Up(id) => Some(*id),
            FaceEvent::Down(_) => None,
        };
        if let (Some(shard_pool), Some(id)) = (&mut self.shard_pool, changed) {
            shard_pool.update_face(self.faces, self.face_table, id);
        }
        self.pending_face_events.push(event);
    }

    fn share(&self) -> ShardShare {
        ShardShare {
            shard: 0,
            shards: self.shard_pool.as_ref().map_or(1, |shard_pool| shard_pool.shards()),
        }
    }

    /// Sends a command to the other shards, if there are any.
    fn command_shards(&mut self, command: impl FnOnce() -> ShardCommand) {
        if let Some(shard_pool) = &mut self.shard_pool {
            shard_pool.command(&command());
        }
    }
}

impl Environment for HostEnvironment<'_> {
    fn unix_ms(&self) -> u64 {
        self.wall.unix_ms()
    }

    fn create_face(&mut self, operation: OperationId, request: &FaceRequest<'_>) -> FaceCreation {
        let parse = |text: &str| {
            text.parse::<FaceUri>().map_err(|error| Refusal::new(400, error.to_string()))
        };
        let uri = match parse(request.uri) {
            Ok(uri) => uri,
            Err(refusal) => return FaceCreation::Refused(refusal),
        };
        let local = match request.local_uri.map(parse).transpose() {
            Ok(local) => local,
            Err(refusal) => return FaceCreation::Refused(refusal),
        };
        let options = FaceOptions {
            persistency: Some(to_persistency(request.persistency)),
            ..face_options(&request.options)
        };
        if uri == FaceUri::Null {
            return FaceCreation::Exists(FaceId::NULL);
        }
        match self.faces.connect(self.now, &uri, local.as_ref(), &options) {
            Ok(id) => {
                self.absorb_face_events();
                if self.faces.status(id).is_some_and(|status| status.up) {
                    FaceCreation::Created(id)
                } else {
                    self.pending_connects.push((id, operation));
                    FaceCreation::Connecting
                }
            }
            Err(FaceError::Exists(id)) => FaceCreation::Exists(id),
            Err(error) => FaceCreation::Refused(face_refusal(&error)),
        }
    }

    fn cancel_face(&mut self, operation: OperationId) {
        if let Some(index) =
            self.pending_connects.iter().position(|(_, pending)| *pending == operation)
        {
            let (face, _) = self.pending_connects.swap_remove(index);
            self.destroy_face(face);
        }
    }

    fn resolve(&mut self, operation: OperationId, uri: &str) -> bool {
        self.resolver.resolve(operation, uri)
    }

    fn update_face(&mut self, face: FaceId, change: &FaceChange) -> Result<(), UpdateRefusal> {
        let updated = self.faces.update(self.now, face, &face_options(change));
        if let Some(shard_pool) = self.shard_pool.as_mut().filter(|_| updated.is_ok()) {
            shard_pool.update_face(self.faces, self.face_table, face);
        }
        updated.map_err(|error| {
            let text = error.to_string();
            match error {
                FaceError::Persistency(_) => {
                    UpdateRefusal { persistency: true, text, ..UpdateRefusal::default() }
                }
                FaceError::Link(nw_faces::LinkError::Mtu(_)) => {
                    UpdateRefusal { mtu: true, text, ..UpdateRefusal::default() }
                }
                FaceError::Link(nw_faces::LinkError::LocalFieldsNonLocal) => {
                    UpdateRefusal { flags: flags::LOCAL_FIELDS, text, ..UpdateRefusal::default() }
                }
                FaceError::Link(nw_faces::LinkError::ReliabilityShared) => {
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
            self.absorb_closed_faces();
        }
    }

    fn face_status(&self, face: FaceId) -> Option<api::FaceStatus> {
        self.faces.status(face).map(|status| face_status(&status, self.now))
    }

    fn has_face(&self, face: FaceId) -> bool {
        let is_closed = self
            .closed_faces
            .iter()
            .any(|event| matches!(event, FaceEvent::Destroyed(status, _) if status.id == face));
        self.face_table.contains(face) && !is_closed
    }

    fn face_ids(&self) -> Vec<FaceId> {
        let mut ids: Vec<_> = self.face_table.ids().filter(|id| self.has_face(*id)).collect();
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
        let result = self.plane.with_router(now, self.pool, self.out, |router, context| {
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
        // The changes before a refused one are in effect.
        let applied = result
            .as_ref()
            .map_or_else(|refusal: &FibRefusal| &changes[..refusal.index], |()| changes);
        if !applied.is_empty() {
            self.command_shards(|| ShardCommand::Fib(applied.iter().map(Into::into).collect()));
        }
        result
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
            self.command_shards(|| ShardCommand::Strategy(Arc::new(name.to_name())));
        }
        resolved
    }

    fn store_announcement(&mut self, prefix: NameRef<'_>, announcement: &[u8], until: Timestamp) {
        let now = self.now;
        self.plane.with_router(now, self.pool, self.out, |router, _| {
            router.keep_announcement(now, prefix, announcement, until);
        });
        self.command_shards(|| {
            ShardCommand::Announcement(Arc::new(prefix.to_name()), announcement.into(), until)
        });
    }

    fn cs_config(&mut self, capacity: Option<u64>, admit: Option<bool>, serve: Option<bool>) {
        let share = self.share();
        let capacity = capacity.map(|capacity| usize::try_from(capacity).unwrap_or(usize::MAX));
        self.command_shards(|| ShardCommand::ContentStore { capacity, admit, serve });
        let store = self.plane.content_store_mut().store_mut();
        if let Some(capacity) = capacity {
            let bytes_max = store.limits().bytes_max;
            store.set_limits(share.part_of(capacity), bytes_max);
        }
        if let Some(admit) = admit {
            store.set_admit(admit);
        }
        if let Some(serve) = serve {
            store.set_serve(serve);
        }
    }

    fn cs_erase(&mut self, prefix: NameRef<'_>, erasing: &mut EraseCursor) -> bool {
        // 0: this shard's own part is not complete.
        if erasing.continuation == 0
            && !self.plane.content_store_mut().store_mut().erase_part(prefix, erasing)
        {
            return false;
        }
        self.shard_pool.as_mut().is_none_or(|shard_pool| shard_pool.erase(prefix, erasing))
    }

    fn cs_info(&self) -> CsInfo {
        let store = self.plane.content_store().store();
        let counters = store.counters();
        let reports = || self.shard_pool.iter().flat_map(|shard_pool| shard_pool.reports());
        let total =
            |own: usize, field: fn(&Report) -> u64| own as u64 + reports().map(field).sum::<u64>();
        let bits = [(store.admits(), flags::CS_ADMIT), (store.serves(), flags::CS_SERVE)];
        CsInfo {
            capacity: store.limits().packets_max as u64
                + self.shard_pool.as_ref().map_or(0, |shard_pool| shard_pool.store_capacity()),
            flags: bits.iter().filter(|(on, _)| *on).fold(0, |set, (_, bit)| set | bit),
            entries: total(store.len(), |report| report.status.cs_entries),
            hits: total(counters.hits as usize, |report| report.status.cs_hits),
            misses: total(counters.misses as usize, |report| report.status.cs_misses),
        }
    }

    fn forwarder_status(&self) -> ForwarderStatus {
        let totals = self.faces.totals();
        let router = self.plane.router();
        let pending = router.counters();
        let reports = || self.shard_pool.iter().flat_map(|shard_pool| shard_pool.reports());
        let total = |own: u64, field: fn(&Report) -> u64| own + reports().map(field).sum::<u64>();
        ForwarderStatus {
            start_timestamp: self.wall.start_unix_ms(),
            current_timestamp: self.wall.unix_ms(),
            fib_entries: router.fib().len() as u64,
            pit_entries: total(router.pit().len() as u64, |report| report.status.pit_entries),
            measurements_entries: total(router.measurements().len() as u64, |report| {
                report.measurements
            }),
            cs_entries: self.cs_info().entries,
            in_interests: totals.in_interests,
            in_data: totals.in_data,
            in_nacks: totals.in_nacks,
            out_interests: totals.out_interests,
            out_data: totals.out_data,
            out_nacks: totals.out_nacks,
            // As NFD counts: Interests answered from the content store are satisfied too.
            satisfied_interests: total(pending.satisfied, |report| report.satisfied)
                + self.cs_info().hits,
            unsatisfied_interests: total(pending.unsatisfied, |report| report.unsatisfied),
            ..ForwarderStatus::default()
        }
    }

    fn drops(&self) -> Vec<DropCount> {
        let mut drops = self.plane.drops().clone();
        drops.merge(self.faces.drops());
        self.shard_pool.iter().for_each(|shard_pool| shard_pool.add_drops(&mut drops));
        let counted = drops.iter().filter(|(_, packets)| *packets > 0);
        counted.map(|(reason, count)| DropCount { reason: drop_name(reason), count }).collect()
    }

    fn xdp(&self) -> Vec<XdpStatus> {
        self.faces.xdp().into_iter().map(crate::xdp::status).collect()
    }

    fn shards(&self) -> Vec<ShardStatus> {
        let store = self.plane.content_store().store();
        let (packets, loop_time) = self.load;
        let links = self.shard_pool.as_ref().map(|shard_pool| shard_pool.links());
        let first = ShardStatus {
            shard: 0,
            packets,
            handed_over: links.map_or(0, |links| links.handed_over),
            waiting_bytes: links.map_or(0, |links| links.waiting_bytes() as u64),
            busy_ns: loop_time.busy_ns,
            turns: loop_time.turns,
            pit_entries: self.plane.router().pit().len() as u64,
            cs_entries: store.len() as u64,
            cs_hits: store.counters().hits,
            cs_misses: store.counters().misses,
            chosen_in_kernel: 0,
            xdp_frames: 0,
        };
        let other_shards = self
            .shard_pool
            .iter()
            .flat_map(|shard_pool| shard_pool.reports())
            .map(|report| report.status);
        let mut shards: Vec<_> = core::iter::once(first).chain(other_shards).collect();
        for (index, shard) in shards.iter_mut().enumerate() {
            shard.xdp_frames = self.faces.xdp_frames(index);
        }
        for counters in self.shard_pool.iter().flat_map(|shard_pool| shard_pool.kernel_counters()) {
            for (shard, packets) in shards.iter_mut().zip(counters.shards()) {
                shard.chosen_in_kernel += packets;
            }
        }
        shards
    }

    fn send_data(&mut self, data: &[u8], token: Token) {
        if self.shard_pool.as_mut().is_some_and(|shard_pool| shard_pool.defer_reply(data, token)) {
            return;
        }
        self.faces.inject(self.now, &reply_packet(data, token), self.pool, self.batch);
    }

    fn send_interest(&mut self, interest: &[u8], next_hop: Option<FaceId>) {
        let header =
            LpHeader { next_hop_face_id: next_hop.map(FaceId::number), ..LpHeader::default() };
        let mut link_packet = Vec::with_capacity(interest.len() + 16);
        header.encode(interest.len(), &mut link_packet);
        link_packet.extend_from_slice(interest);
        self.faces.inject(self.now, &link_packet, self.pool, self.batch);
    }
}

/// Encodes a reply of management as a link packet of the internal face: with the PIT token of its
/// Interest, not to be cached.
pub fn reply_packet(data: &[u8], token: Token) -> Vec<u8> {
    let header = LpHeader { no_cache: true, pit_token: token, ..LpHeader::default() };
    let mut link_packet = Vec::with_capacity(data.len() + 16);
    header.encode(data.len(), &mut link_packet);
    link_packet.extend_from_slice(data);
    link_packet
}

/// Returns the name of a drop counter, as listed by [`nw_api::counters::drop_reasons`].
pub fn drop_name(reason: DropReason) -> String {
    match reason {
        DropReason::Malformed(fault) => format!("malformed_{}", fault.as_str()),
        DropReason::Cause(cause) => cause.as_str().to_owned(),
    }
}

const fn to_persistency(persistency: api::FacePersistency) -> Persistency {
    match persistency {
        api::FacePersistency::Persistent => Persistency::Persistent,
        api::FacePersistency::OnDemand => Persistency::OnDemand,
        api::FacePersistency::Permanent => Persistency::Permanent,
    }
}

fn face_options(change: &FaceChange) -> FaceOptions {
    FaceOptions {
        persistency: change.persistency.map(to_persistency),
        flags: FaceFlags(change.flags),
        flags_mask: FaceFlags(change.mask),
        mtu: change.mtu.map(|mtu| usize::try_from(mtu).unwrap_or(usize::MAX)),
        marking_interval: change.base_congestion_marking_interval_ns.map(Duration::from_nanos),
        marking_threshold: change.default_congestion_threshold,
    }
}

/// Returns the status code that NFD uses, and the text of the error.
fn face_refusal(error: &FaceError) -> Refusal {
    let code = match error {
        FaceError::Uri(_) | FaceError::NotCanonical(_) | FaceError::InterfaceNeeded(_) => 400,
        FaceError::NoInterface(_) | FaceError::NoAddress(..) => 504,
        // No process accepts connections there. A Unix socket fails at once, also if the file is
        // missing.
        FaceError::System { action: "connect to", errno, .. }
            if error.is_retryable()
                || matches!(
                    *errno,
                    Errno::NOENT
                        | Errno::NOTDIR
                        | Errno::CONNRESET
                        | Errno::HOSTUNREACH
                        | Errno::NETUNREACH
                ) =>
        {
            504
        }
        FaceError::System { .. } if error.is_retryable() => 504,
        // A local address that this machine does not have, or that is in use: an error of the
        // command.
        FaceError::System { errno: Errno::ADDRNOTAVAIL | Errno::ADDRINUSE, .. } => 406,
        FaceError::TooMany(_) | FaceError::PacketSocket | FaceError::System { .. } => 500,
        _ => 406,
    };
    Refusal::new(code, error.to_string())
}

/// Converts the status of a face to its form in the management protocol.
pub fn face_status(status: &FaceStatus, now: Timestamp) -> api::FaceStatus {
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
        // As in NFD: a face without an MTU of its own carries packets up to the largest size.
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
        held_interests: status.shaping.map(|shaping| shaping.held),
        refused_interests: some_if_counted(counters.shaping.refused),
        shaping_marks: some_if_counted(counters.shaping.marked),
        shaping_rate_bytes: status.shaping.map(|shaping| shaping.bytes_per_s),
    }
}

/// Returns a counter that few faces have. `None` if it is 0.
fn some_if_counted(count: u64) -> Option<u64> {
    (count > 0).then_some(count)
}
