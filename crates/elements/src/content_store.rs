//! Answers Interests from Data that passed before, and stores the Data that pass.
//!
//! It comes before the PIT: a hit needs no PIT entry.
//!
//! An Interest with CanBePrefix is compared with the 64 most recently useful Data. If that fails
//! while there are more Data, a tree of prefixes is built in the background and kept until no such
//! Interest came for a minute; with a complete tree no match is missed.
//!
//! ```text
//! In:     interest, data
//! Out:    hit, miss, data
//! Needs:  interest: name, prefixes, flags, ingress, link.token; data: name, prefixes, freshness,
//!         cached, egress
//! Sets:   hit: a Data with egress (the downstream), link.token (the downstream's),
//!         link.incoming_face (254), cached; data: cached
//! State:  Data packets up to a number and a total of bytes, which can be lowered and raised again;
//!         a policy decides which are evicted
//! Timers: due at once while lowered limits or a tree being built need work; else none: stale Data
//!         stays
//! Cost:   one cache line for a miss; one copy of the packet for a hit; six lines and the copy for
//!         a new Data that evicts one
//! Drops:  cache_hit (the Interest, when answered), no_buffer, no_downstream (a Data with egress 0,
//!         after it was stored), malformed_truncated, malformed_number_not_minimal,
//!         malformed_type_range, malformed_digest_length (the last four: names resolved late)
//! Spec:   NDN Packet Format 0.3, MustBeFresh and FreshnessPeriod; NDNLPv2, CachePolicy and
//!         PitToken
//! ```

use crate::interest_key::interest_key;
use nw_element_api::decode::{decode, resolve_name_or_drop};
use nw_element_api::{
    Context, DropCause, Element, ElementStatus, FaceId, Kind, LinkFields, Meta, Packet, Pool,
    Timestamp,
};
use nw_name::HashKey;
use nw_tables::cs::{ContentStore as Store, CsConfig, CsRef, IncomingData, Insertion};

nw_element_api::ports! {
    /// Input ports.
    pub enum In {
        /// Interests, to be answered or forwarded.
        Interest = "interest" [Interest],
        /// Data, to be stored and forwarded.
        Data = "data" [Data],
    }
}

nw_element_api::ports! {
    /// Output ports.
    pub enum Out {
        /// Data that answers, for the downstream.
        Hit = "hit" [Data],
        /// The Interest, unchanged.
        Miss = "miss" [Interest],
        /// Data, unchanged.
        Data = "data" [Data],
    }
}

/// The result of [`ContentStore::import`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Import {
    /// The packet was stored.
    Stored,
    /// The packet was stored already.
    Known,
    /// It is no Data, or the store does not admit it.
    Rejected,
    /// The store is full.
    Full,
}

/// The content store element.
#[derive(Debug)]
pub struct ContentStore {
    store: Store,
}

impl ContentStore {
    /// Creates an empty store. `key` must be the key that packets are decoded with.
    pub fn new(key: HashKey, config: CsConfig) -> Self {
        ContentStore { store: Store::new(key, config) }
    }

    /// Returns the table, for sizes and counters.
    pub const fn store(&self) -> &Store {
        &self.store
    }

    /// Returns the table, for control: erase, limits, switches.
    pub const fn store_mut(&mut self) -> &mut Store {
        &mut self.store
    }

    /// Returns whether the Interest certainly has no answer here, and counts the miss if so. Such
    /// an Interest leaves by `miss`; for any other the host calls [`look_up`](Self::look_up). For
    /// hosts that know where `miss` leads and can skip the outbox.
    #[inline(always)]
    pub fn is_sure_miss(&mut self, interest: &Meta) -> bool {
        let hint = &interest.cs_probe;
        let is_miss = !interest.can_be_prefix
            && !hint.may_be_cached()
            && !self.store.may_contain(&interest.prefixes, hint);
        if is_miss {
            self.store.record_miss();
        }
        is_miss
    }

    /// Answers an Interest, or lets it leave by `miss`.
    #[inline(always)]
    fn interest(&mut self, now: Timestamp, packet: Packet, context: &mut Context<'_, Out>) {
        if self.is_sure_miss(context.pool.meta(&packet)) {
            context.out.send(Out::Miss, packet);
        } else {
            self.look_up(now, packet, context);
        }
    }

    /// Handles an Interest that is not a [sure miss](Self::is_sure_miss), as
    /// [`process`](Element::process) does.
    #[inline(never)]
    pub fn look_up(&mut self, now: Timestamp, packet: Packet, context: &mut Context<'_, Out>) {
        let meta = context.pool.meta(&packet);
        let key = interest_key(meta, context.pool.bytes(&packet));
        let Some(found) = self.store.find(now, &key) else {
            context.out.send(Out::Miss, packet);
            return;
        };
        match self.answer(now, found, &packet, context.pool) {
            Some(data) => {
                context.out.send(Out::Hit, data);
                context.pool.drop_packet(packet, DropCause::CacheHit, context.drops);
            }
            None => context.pool.drop_packet(packet, DropCause::NoBuffer, context.drops),
        }
    }

    /// Returns a copy of a packet, and the milliseconds that it stays fresh. `None` if it was
    /// evicted.
    pub fn export(&self, now: Timestamp, packet: CsRef) -> Option<(Vec<u8>, u64)> {
        let mut wire = vec![0; self.store.wire_len(packet)];
        if self.store.copy_wire(packet, &mut wire) == 0 {
            return None;
        }
        let fresh = self.store.fresh_until(packet).since(now);
        Some((wire, fresh.as_millis() as u64))
    }

    /// Stores a packet of another store, which stays fresh for `fresh_ms` milliseconds, but not
    /// longer than its FreshnessPeriod. Evicts nothing.
    pub fn import(
        &mut self,
        now: Timestamp,
        wire: &[u8],
        fresh_ms: u64,
        pool: &mut Pool,
    ) -> Import {
        if !self.store.has_capacity_for(wire.len()) {
            return Import::Full;
        }
        let Some(packet) = pool.copy_of(wire) else { return Import::Full };
        let is_data = decode(pool, &packet).is_ok() && pool.meta(&packet).kind == Kind::Data;
        let import = if is_data {
            let (wire, meta) = pool.view(&packet);
            let incoming = IncomingData {
                name: meta.name.into(),
                prefixes: &meta.prefixes,
                wire,
                freshness_ms: meta.freshness_ms.min(u32::try_from(fresh_ms).unwrap_or(u32::MAX)),
                unsolicited: false,
            };
            match self.store.insert(now, &incoming) {
                Insertion::New => Import::Stored,
                Insertion::Refreshed => Import::Known,
                Insertion::Rejected => Import::Rejected,
            }
        } else {
            Import::Rejected
        };
        pool.release(packet);
        import
    }

    /// Creates the packet that answers an Interest. `None` if no buffer is free.
    fn answer(
        &self,
        now: Timestamp,
        found: CsRef,
        interest: &Packet,
        pool: &mut Pool,
    ) -> Option<Packet> {
        let data = pool.alloc(self.store.wire_len(found))?;
        self.store.copy_wire(found, pool.bytes_mut(&data));
        let (downstream, token) = {
            let meta = pool.meta(interest);
            (meta.ingress, meta.link.token)
        };
        let meta = pool.meta_mut(&data);
        meta.kind = Kind::Data;
        meta.name = self.store.name_span(found).into();
        meta.ingress = FaceId::CONTENT_STORE;
        meta.ingress_local = true;
        meta.egress = downstream;
        meta.arrival = now;
        meta.link =
            LinkFields { token, incoming_face: FaceId::CONTENT_STORE, ..LinkFields::default() };
        meta.cached = true;
        Some(data)
    }

    /// Resolves a deferred name whose prefixes are needed to store the Data.
    #[cold]
    fn resolve_name_first(
        &mut self,
        now: Timestamp,
        packet: Packet,
        context: &mut Context<'_, Out>,
    ) {
        if let Some(packet) = resolve_name_or_drop(context.pool, packet, context.drops) {
            self.data(now, packet, context);
        }
    }

    /// Stores a Data and forwards it, if it has a downstream.
    #[inline(always)]
    fn data(&mut self, now: Timestamp, packet: Packet, context: &mut Context<'_, Out>) {
        let (wire, meta) = context.pool.view_mut(&packet);
        let egress = meta.egress;
        if !meta.cached {
            if meta.name_deferred && (self.store.has_tree() || !meta.has_full_hash()) {
                return self.resolve_name_first(now, packet, context);
            }
            let incoming = IncomingData {
                name: meta.name.into(),
                prefixes: &meta.prefixes,
                wire,
                freshness_ms: meta.freshness_ms,
                unsolicited: egress == FaceId::NONE,
            };
            self.store.insert(now, &incoming);
            meta.cached = true;
        }
        if egress == FaceId::NONE {
            context.pool.drop_packet(packet, DropCause::NoDownstream, context.drops);
        } else {
            context.out.send(Out::Data, packet);
        }
    }
}

impl Element for ContentStore {
    type In = In;
    type Out = Out;

    const ACCEPTS_DEFERRED_NAMES: bool = true;

    fn prefetch_stages(port: In) -> usize {
        match port {
            In::Interest => 2,
            In::Data => Store::PREFETCH_STAGES,
        }
    }

    fn outputs_for(port: In) -> &'static [Out] {
        match port {
            In::Interest => &[Out::Hit, Out::Miss],
            In::Data => &[Out::Data],
        }
    }

    #[inline]
    fn main_output(port: In) -> Option<Out> {
        Some(match port {
            In::Interest => Out::Miss,
            In::Data => Out::Data,
        })
    }

    #[inline(always)]
    fn prefetch(&self, stage: usize, port: In, meta: &Meta) {
        match port {
            In::Interest => {
                let may_be_cached = self.store.prefetch(stage, &meta.prefixes, &meta.cs_probe);
                // A stale Data does not answer an Interest with MustBeFresh.
                if may_be_cached && meta.must_be_fresh {
                    meta.cs_probe.clear();
                }
            }
            In::Data if meta.cached => {}
            // The token has led to the pending Interest, whose hash it is most likely.
            In::Data if meta.name_deferred => {
                if stage == 2 {
                    self.store.prefetch_hash(meta.predicted_hash.get());
                }
            }
            In::Data => self.store.prefetch_insert(stage, &meta.prefixes),
        }
    }

    #[inline(always)]
    fn process(
        &mut self,
        now: Timestamp,
        port: In,
        packet: Packet,
        context: &mut Context<'_, Out>,
    ) {
        match port {
            In::Interest => self.interest(now, packet, context),
            In::Data => self.data(now, packet, context),
        }
    }

    fn status(&self) -> ElementStatus {
        let (counters, limits) = (self.store.counters(), self.store.limits());
        let values = vec![
            ("packets", self.store.len() as u64),
            ("packets_max", limits.packets_max as u64),
            ("bytes", self.store.bytes() as u64),
            ("bytes_max", limits.bytes_max as u64),
            ("hits", counters.hits),
            ("misses", counters.misses),
            ("insertions", counters.insertions),
            ("evictions", counters.evictions),
        ];
        ElementStatus { values, ..ElementStatus::default() }
    }

    fn deadline(&self) -> Option<Timestamp> {
        self.store.has_work().then_some(Timestamp::START)
    }

    fn tick(&mut self, now: Timestamp, _: &mut Context<'_, Out>) {
        self.store.work(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nw_element_api::decode::decode;
    use nw_element_api::{DropCounters, Outbox};
    use nw_wire::{DataBuilder, DigestSha256, InterestBuilder};

    const KEY: HashKey = HashKey::new([1, 2, 3, 4]);

    /// `is_sure_miss` agrees with `process`, and each miss is counted once.
    #[test]
    fn sure_miss_agrees_with_process_and_is_counted_once() {
        let (mut pool, mut drops) = (Pool::new(KEY, 4, 16), DropCounters::default());
        let mut out = Outbox::with_capacity(4);
        let mut store = ContentStore::new(KEY, CsConfig { packets_max: 4, bytes_max: 1 << 16 });
        let packet = |pool: &mut Pool, wire: &[u8]| {
            let packet = pool.copy_of(wire).unwrap();
            pool.meta_mut(&packet).egress = FaceId::from_slot(300, 0);
            decode(pool, &packet).unwrap();
            packet
        };
        let Ok(data) = DataBuilder::new(&"/stored/1".parse().unwrap(), b"x").encode(&DigestSha256);
        let data = packet(&mut pool, &data);
        let mut context = Context { pool: &mut pool, out: &mut out, drops: &mut drops };
        store.process(Timestamp::START, In::Data, data, &mut context);
        let (_, data) = out.take().unwrap();
        pool.release(data);
        for (uri, can_be_prefix, is_sure_miss) in [
            ("/other", false, true),
            ("/stored/1", false, false),
            ("/stored", true, false),
            ("/none", true, false),
        ] {
            let ask = InterestBuilder::new(uri.parse::<nw_name::Name>().unwrap())
                .can_be_prefix(can_be_prefix)
                .nonce(7);
            let interest = packet(&mut pool, &ask.encode());
            let misses = store.store().counters().misses;
            assert_eq!(store.is_sure_miss(pool.meta(&interest)), is_sure_miss, "{uri}");
            assert_eq!(store.store().counters().misses - misses, u64::from(is_sure_miss), "{uri}");
            let mut context = Context { pool: &mut pool, out: &mut out, drops: &mut drops };
            store.process(Timestamp::START, In::Interest, interest, &mut context);
            let (port, emitted) = out.take().unwrap();
            assert_eq!(port == Out::Miss, is_sure_miss || uri == "/none", "{uri}");
            pool.release(emitted);
        }
    }
}
