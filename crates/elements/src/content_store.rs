//! Answers Interests from Data that passed before, and keeps the Data that pass.
//!
//! It is asked before the pending Interest table: a hit costs no entry there.
//!
//! An Interest with CanBePrefix is looked for among the 64 Data that would stay longest; once that was in vain while there are more, a tree of
//! prefixes is made along with the packets that come, and kept until nobody asked by prefix for a minute: while it is whole none is missed.
//!
//! ```text
//! In:     interest, data
//! Out:    hit, miss, data
//! Needs:  interest: name, prefixes, flags, ingress, link.token; data: name, prefixes, freshness, cached, egress
//! Sets:   hit: a Data with egress (the asker), link.token (the asker's), link.incoming_face (254), cached; data: cached
//! State:  Data packets up to a number and a sum of octets, which may be lowered and raised again; a policy says which ones others push out
//! Timers: due at once while lowered bounds or a tree in the making ask for slices of work; else none: what is not fresh any more stays
//! Cost:   one cache line for a miss; one copy of the packet for a hit; six lines and the copy for a new Data that pushes one out
//! Drops:  cache_hit (the Interest, when answered), no_buffer, no_downstream (a Data that only wanted to be kept: egress 0), malformed_truncated,
//!         malformed_number_not_minimal, malformed_type_range, malformed_digest_length (the last four: names that were read late)
//! Spec:   NDN Packet Format 0.3, MustBeFresh and FreshnessPeriod; NDNLPv2, CachePolicy and PitToken
//! ```

use nw_element_api::decode::read_or_drop;
use nw_element_api::{Cause, Context, Element, FaceId, Instant, Kind, LinkFields, Meta, Packet, Pool};
use nw_name::HashKey;
use nw_tables::Ask;
use nw_tables::cs::{ContentStore as Store, CsConfig, CsRef, Incoming};

nw_element_api::ports! {
    /// Where packets enter.
    pub enum In {
        /// To be answered or passed on.
        Interest = "interest" [Interest],
        /// To be kept and passed on.
        Data = "data" [Data],
    }
}

nw_element_api::ports! {
    /// Where packets leave.
    pub enum Out {
        /// The answer, for the face that asked.
        Hit = "hit" [Data],
        /// The Interest, unchanged.
        Miss = "miss" [Interest],
        /// As it came.
        Data = "data" [Data],
    }
}

/// See the module.
#[derive(Debug)]
pub struct ContentStore {
    store: Store,
}

impl ContentStore {
    /// Empty, of a size. `key` is the one packets are decoded with.
    pub fn new(key: HashKey, config: CsConfig) -> Self {
        ContentStore { store: Store::new(key, config) }
    }

    /// The table: sizes, counters.
    pub const fn store(&self) -> &Store {
        &self.store
    }

    /// The table, for control: erase, limits, switches.
    pub const fn store_mut(&mut self) -> &mut Store {
        &mut self.store
    }

    /// True for an Interest that is surely not answered, which is counted: [`process`](Element::process) lets it leave by `miss`, and any other be
    /// [looked up](Self::look_up). A host that knows where `miss` leads may save the way through an outbox.
    #[inline(always)]
    pub fn passes(&mut self, interest: &Meta) -> bool {
        let hint = &interest.cache_hint;
        let passes = !interest.can_be_prefix
            && !hint.is_maybe_here()
            && !self.store.may_hold(&interest.prefixes, hint);
        if passes {
            self.store.missed();
        }
        passes
    }

    #[inline(always)]
    fn interest(&mut self, now: Instant, packet: Packet, context: &mut Context<'_, Out>) {
        if self.passes(context.pool.meta(&packet)) {
            context.out.send(Out::Miss, packet);
        } else {
            self.look_up(now, packet, context);
        }
    }

    /// What [`process`](Element::process) does with an Interest that does not [pass](Self::passes).
    #[inline(never)]
    pub fn look_up(&mut self, now: Instant, packet: Packet, context: &mut Context<'_, Out>) {
        let meta = context.pool.meta(&packet);
        let ask = Ask {
            name: meta.name_in(context.pool.bytes(&packet)),
            prefixes: &meta.prefixes,
            can_be_prefix: meta.can_be_prefix,
            must_be_fresh: meta.must_be_fresh,
        };
        let Some(found) = self.store.find(now, &ask) else {
            context.out.send(Out::Miss, packet);
            return;
        };
        match self.answer(now, found, &packet, context.pool) {
            Some(data) => {
                context.out.send(Out::Hit, data);
                context.pool.drop_packet(packet, Cause::CacheHit, context.drops);
            }
            None => context.pool.drop_packet(packet, Cause::NoBuffer, context.drops),
        }
    }

    fn answer(&self, now: Instant, found: CsRef, interest: &Packet, pool: &mut Pool) -> Option<Packet> {
        let data = pool.alloc(self.store.wire_len(found))?;
        self.store.copy_wire(found, pool.bytes_mut(&data));
        let (asker, token) = {
            let meta = pool.meta(interest);
            (meta.ingress, meta.link.token)
        };
        let meta = pool.meta_mut(&data);
        meta.kind = Kind::Data;
        meta.name = self.store.name_place(found);
        meta.ingress = FaceId::CONTENT_STORE;
        meta.ingress_local = true;
        meta.egress = asker;
        meta.arrival = now;
        meta.link = LinkFields { token, incoming_face: FaceId::CONTENT_STORE, ..LinkFields::default() };
        meta.cached = true;
        Some(data)
    }

    /// A Data whose prefixes are to be kept, and nobody has read its name yet.
    #[cold]
    fn read_first(&mut self, now: Instant, packet: Packet, context: &mut Context<'_, Out>) {
        if let Some(packet) = read_or_drop(context.pool, packet, context.drops) {
            self.data(now, packet, context);
        }
    }

    #[inline(always)]
    fn data(&mut self, now: Instant, packet: Packet, context: &mut Context<'_, Out>) {
        let (wire, meta) = context.pool.view_mut(&packet);
        let egress = meta.egress;
        if !meta.cached {
            if meta.name_unread && (self.store.has_tree() || !meta.knows_hash()) {
                return self.read_first(now, packet, context);
            }
            let incoming = Incoming {
                name: meta.name,
                prefixes: &meta.prefixes,
                wire,
                freshness_ms: meta.freshness_ms,
                unsolicited: egress == FaceId::NONE,
            };
            self.store.insert(now, &incoming);
            meta.cached = true;
        }
        if egress == FaceId::NONE {
            context.pool.drop_packet(packet, Cause::NoDownstream, context.drops);
        } else {
            context.out.send(Out::Data, packet);
        }
    }
}

impl Element for ContentStore {
    type In = In;
    type Out = Out;

    const TAKES_UNREAD_NAMES: bool = true;

    fn prefetch_stages(port: In) -> usize {
        match port {
            In::Interest => 2,
            In::Data => Store::PREFETCH_STAGES,
        }
    }

    fn leads(port: In) -> &'static [Out] {
        match port {
            In::Interest => &[Out::Hit, Out::Miss],
            In::Data => &[Out::Data],
        }
    }

    #[inline]
    fn usual(port: In) -> Option<Out> {
        Some(match port {
            In::Interest => Out::Miss,
            In::Data => Out::Data,
        })
    }

    #[inline(always)]
    fn prefetch(&self, stage: usize, port: In, meta: &Meta) {
        match port {
            In::Interest => {
                let may_be_here = self.store.prefetch(stage, &meta.prefixes, &meta.cache_hint);
                // A stale one is no answer to who wants a fresh one.
                if may_be_here && meta.must_be_fresh {
                    meta.cache_hint.forget();
                }
            }
            In::Data if meta.cached => {}
            // The label has said by now whose hash it is likely to be.
            In::Data if meta.name_unread => {
                if stage == 2 {
                    self.store.prefetch_hash(meta.likely_hash.get());
                }
            }
            In::Data => self.store.prefetch_insert(stage, &meta.prefixes),
        }
    }

    #[inline(always)]
    fn process(&mut self, now: Instant, port: In, packet: Packet, context: &mut Context<'_, Out>) {
        match port {
            In::Interest => self.interest(now, packet, context),
            In::Data => self.data(now, packet, context),
        }
    }

    fn deadline(&self) -> Option<Instant> {
        self.store.has_work().then_some(Instant::START)
    }

    fn tick(&mut self, now: Instant, _: &mut Context<'_, Out>) {
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

    /// Whoever asks first is told what `process` would do, and it counts once.
    #[test]
    fn what_passes_is_counted_as_what_leaves_by_miss() {
        let (mut pool, mut drops) = (Pool::new(KEY, 4, 16), DropCounters::default());
        let mut out = Outbox::with_capacity(4);
        let mut store = ContentStore::new(KEY, CsConfig { packets_max: 4, bytes_max: 1 << 16 });
        let packet = |pool: &mut Pool, wire: &[u8]| {
            let packet = pool.copy_of(wire).unwrap();
            pool.meta_mut(&packet).egress = FaceId::from_slot(300, 0);
            decode(pool, &packet).unwrap();
            packet
        };
        let Ok(data) = DataBuilder::new(&"/kept/1".parse().unwrap(), b"x").encode(&DigestSha256);
        let data = packet(&mut pool, &data);
        let mut context = Context { pool: &mut pool, out: &mut out, drops: &mut drops };
        store.process(Instant::START, In::Data, data, &mut context);
        let (_, data) = out.take().unwrap();
        pool.release(data);
        for (uri, can_be_prefix, passes) in [
            ("/other", false, true),
            ("/kept/1", false, false),
            ("/kept", true, false),
            ("/none", true, false),
        ] {
            let ask = InterestBuilder::new(uri.parse::<nw_name::Name>().unwrap())
                .can_be_prefix(can_be_prefix)
                .nonce(7);
            let interest = packet(&mut pool, &ask.encode());
            let misses = store.store().counters().misses;
            assert_eq!(store.passes(pool.meta(&interest)), passes, "{uri}");
            assert_eq!(store.store().counters().misses - misses, u64::from(passes), "{uri}");
            let mut context = Context { pool: &mut pool, out: &mut out, drops: &mut drops };
            store.process(Instant::START, In::Interest, interest, &mut context);
            let (port, left) = out.take().unwrap();
            assert_eq!(port == Out::Miss, passes || uri == "/none", "{uri}");
            pool.release(left);
        }
    }
}
