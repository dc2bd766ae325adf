//! The three elements of the standard router, made from parameters.

use super::{Configured, fixed, live};
use crate::strategy::StrategyError;
use crate::{ContentStore, PacketDispatcher, Router, RouterConfig, content_store, packet_dispatcher, router};
use nw_element_api::parameters::{ParameterInfo, Reader};
use nw_element_api::{Context, Instant};
use nw_name::{Name, NameRef};
use nw_tables::cs::{CsConfig, PolicyKind};
use nw_tables::fib::{FibConfig, NextHop, StrategyId};
use nw_tables::pit::{ENTRIES_MAX, PitConfig};
use std::collections::BTreeMap;

impl Configured for PacketDispatcher {
    const PARAMETERS: &'static [ParameterInfo] = &[];

    fn make(reader: &mut Reader<'_>) -> Self {
        let making = reader.making();
        PacketDispatcher::new(&making.key, making.seed)
    }

    fn apply(&mut self, _: Instant, _: &mut Reader<'_>, _: &mut Context<'_, packet_dispatcher::Out>) {}
}

const POLICIES: [(&str, PolicyKind); 3] =
    [("lru", PolicyKind::Lru), ("priority-fifo", PolicyKind::PriorityFifo), ("s3-fifo", PolicyKind::S3Fifo)];

impl Configured for ContentStore {
    const PARAMETERS: &'static [ParameterInfo] = &[
        fixed("packets", "65536", "Data packets kept at most"),
        fixed("mib", "256", "memory for them, MiB"),
        live("policy", "lru", "which one others push out: lru, priority-fifo or s3-fifo"),
        live("admit", "true", "whether Data that pass are kept"),
    ];

    fn make(reader: &mut Reader<'_>) -> Self {
        let packets_max = reader.integer("packets", 1 << 16, 0..=1 << 30) as usize;
        let bytes_max = (reader.integer("mib", 256, 0..=1 << 20) as usize) << 20;
        ContentStore::new(reader.making().key, CsConfig { packets_max, bytes_max })
    }

    fn apply(&mut self, _: Instant, reader: &mut Reader<'_>, _: &mut Context<'_, content_store::Out>) {
        let (_, policy) = POLICIES[reader.word("policy", 0, &POLICIES.map(|(word, _)| word))];
        if self.store().policy() != policy {
            self.store_mut().set_policy(policy);
        }
        self.store_mut().set_admit(reader.bool("admit", true));
    }
}

impl Configured for Router {
    const PARAMETERS: &'static [ParameterInfo] = &[
        fixed("pending", "262144", "pending Interests at most"),
        fixed("prefixes", "262144", "prefixes in the FIB at most"),
        fixed("dead_nonces", "262144", "nonces remembered after their Interest is gone"),
        fixed("tokens", "true", "whether each Interest that is sent carries a token for its answer"),
        fixed("lifetime_max_ms", "600000", "milliseconds that an Interest may wait at most"),
        live("routes", "[]", "\"/prefix FACE [cost=N] …\": where Interests go"),
        live(
            "strategies",
            "[\"/ best-route\"]",
            "\"/prefix STRATEGY\": how they are forwarded, by name and parameters, such as random",
        ),
        live("interests_per_face", "0", "Interests that one face may have pending; 0 is no limit"),
    ];

    fn make(reader: &mut Reader<'_>) -> Self {
        let (key, seed) = (reader.making().key, reader.making().seed);
        let pending = reader.integer("pending", 1 << 18, 1..=ENTRIES_MAX as u64) as usize;
        let prefixes = reader.integer("prefixes", FibConfig::PREFIXES_DEFAULT as u64, 1..=1 << 26) as usize;
        let config = RouterConfig {
            pit: PitConfig::for_entries(pending),
            fib: FibConfig::new(prefixes),
            dead_nonces: reader.integer("dead_nonces", 1 << 18, 1..=1 << 26) as usize,
            upstream_tokens: reader.bool("tokens", true),
            lifetime_max_ms: reader.integer("lifetime_max_ms", 600_000, 1..=u64::from(u32::MAX)) as u32,
            seed,
            ..RouterConfig::default()
        };
        Router::new(key, config)
    }

    fn apply(&mut self, now: Instant, reader: &mut Reader<'_>, context: &mut Context<'_, router::Out>) {
        let limit = reader.integer("interests_per_face", 0, 0..=ENTRIES_MAX as u64) as u32;
        self.set_face_limit((limit != 0).then_some(limit));
        let wanted = wanted_routes(reader, &mut |name| self.resolve_strategy(name));
        let known: Vec<Name> = self.fib().entries().iter().map(|(name, _)| name.to_name()).collect();
        for name in known.iter().filter(|name| !wanted.contains_key(*name)) {
            self.remove_route(name.as_ref());
        }
        for (name, (next_hops, strategy)) in &wanted {
            if let Err(error) = self.set_route(now, name.as_ref(), next_hops, *strategy, context) {
                reader.wrong("routes", format!("{name}: {error}"));
            }
        }
    }
}

/// Finds the number of a strategy.
type Resolve<'a> = dyn FnMut(NameRef<'_>) -> Result<StrategyId, StrategyError> + 'a;

/// Next hops and strategy of every prefix, by `routes` and `strategies`.
pub(super) fn wanted_routes(
    reader: &mut Reader<'_>,
    resolve: &mut Resolve<'_>,
) -> BTreeMap<Name, (Vec<NextHop>, StrategyId)> {
    let mut wanted: BTreeMap<Name, (Vec<_>, StrategyId)> = BTreeMap::new();
    for (name, next_hops) in reader.routes("routes") {
        wanted.insert(name, (next_hops, StrategyId::default()));
    }
    for (name, strategy) in chosen_strategies(reader, resolve) {
        // What has a strategy of its own keeps the next hops of the longest prefix that has some.
        let inherited = || {
            let mut above = wanted.iter().filter(|(prefix, _)| prefix.as_ref().is_prefix_of(name.as_ref()));
            above.next_back().map(|(_, (next_hops, _))| next_hops.clone()).unwrap_or_default()
        };
        let next_hops = wanted.get(&name).map_or_else(inherited, |(next_hops, _)| next_hops.clone());
        wanted.insert(name.clone(), (next_hops, strategy));
        for (_, (_, below)) in
            wanted.iter_mut().filter(|(longer, _)| name.as_ref().is_prefix_of(longer.as_ref()))
        {
            *below = strategy;
        }
    }
    wanted
}

/// Prefixes and their strategies, the shorter ones first.
fn chosen_strategies(reader: &mut Reader<'_>, resolve: &mut Resolve<'_>) -> Vec<(Name, StrategyId)> {
    let mut chosen = Vec::new();
    for text in reader.texts("strategies") {
        let Some((prefix, strategy)) = text.split_once(' ') else {
            reader.wrong("strategies", format!("{text:?}: \"/prefix STRATEGY\" is expected"));
            continue;
        };
        let uri = format!("/localhost/nfd/strategy/{}", strategy.trim().trim_start_matches('/'));
        let (Some(prefix), Some(strategy)) =
            (reader.name("strategies", prefix), reader.name("strategies", &uri))
        else {
            continue;
        };
        match resolve(strategy.as_ref()) {
            Ok(id) => chosen.push((prefix, id)),
            Err(error) => reader.wrong("strategies", format!("{text:?}: {error}")),
        }
    }
    chosen.sort();
    chosen
}
