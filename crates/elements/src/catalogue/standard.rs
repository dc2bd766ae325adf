//! Parameters of the standard router's elements: `packet_dispatcher`, `content_store`, `router`.

use super::Configured;
use crate::INTEREST_LIFETIME_MAX_MS;
use crate::strategy::StrategyError;
use crate::{
    ContentStore, PacketDispatcher, Router, RouterConfig, content_store, packet_dispatcher, router,
};
use nw_element_api::parameters::{ParameterInfo, ParameterReader};
use nw_element_api::{Context, Timestamp};
use nw_name::{Name, NameRef};
use nw_tables::cs::{CsConfig, PolicyKind};
use nw_tables::fib::{FibConfig, NextHop, StrategyId};
use nw_tables::pit::{ENTRIES_MAX, PitConfig};
use std::collections::BTreeMap;

impl Configured for PacketDispatcher {
    const PARAMETERS: &'static [ParameterInfo] = &[];

    fn make(reader: &mut ParameterReader<'_>) -> Self {
        let build = reader.context();
        PacketDispatcher::new(&build.key, build.seed)
    }

    fn apply(
        &mut self,
        _: Timestamp,
        _: &mut ParameterReader<'_>,
        _: &mut Context<'_, packet_dispatcher::Out>,
    ) {
    }
}

const POLICIES: [(&str, PolicyKind); 3] = [
    ("lru", PolicyKind::Lru),
    ("priority-fifo", PolicyKind::PriorityFifo),
    ("s3-fifo", PolicyKind::S3Fifo),
];

impl Configured for ContentStore {
    const PARAMETERS: &'static [ParameterInfo] = &[
        ParameterInfo::fixed("packets", "65536", "most Data packets stored"),
        ParameterInfo::fixed("mib", "256", "memory for them, MiB"),
        ParameterInfo::live("policy", "lru", "eviction policy: lru, priority-fifo or s3-fifo"),
        ParameterInfo::live("admit", "true", "whether Data that passes is stored"),
    ];

    fn make(reader: &mut ParameterReader<'_>) -> Self {
        let packets_max = reader.integer("packets", 1 << 16, 0..=1 << 30) as usize;
        let bytes_max = (reader.integer("mib", 256, 0..=1 << 20) as usize) << 20;
        ContentStore::new(reader.context().key, CsConfig { packets_max, bytes_max })
    }

    fn apply(
        &mut self,
        _: Timestamp,
        reader: &mut ParameterReader<'_>,
        _: &mut Context<'_, content_store::Out>,
    ) {
        let (_, policy) = POLICIES[reader.choice("policy", 0, &POLICIES.map(|(word, _)| word))];
        if self.store().policy() != policy {
            self.store_mut().set_policy(policy);
        }
        self.store_mut().set_admit(reader.bool("admit", true));
    }
}

impl Configured for Router {
    const PARAMETERS: &'static [ParameterInfo] = &[
        ParameterInfo::fixed("pending", "262144", "most pending Interests"),
        ParameterInfo::fixed("prefixes", "262144", "most prefixes in the FIB"),
        ParameterInfo::fixed(
            "dead_nonces",
            "262144",
            "nonces remembered after their Interest has ended",
        ),
        ParameterInfo::fixed(
            "tokens",
            "true",
            "whether each Interest that is sent carries a token to be returned",
        ),
        ParameterInfo::fixed(
            "lifetime_max_ms",
            "3600000",
            "longest InterestLifetime, milliseconds",
        ),
        ParameterInfo::live("routes", "[]", "\"/prefix FACE [cost=N] …\": where Interests go"),
        ParameterInfo::live(
            "strategies",
            "[\"/ best-route\"]",
            "\"/prefix STRATEGY\": how they are forwarded, by name and parameters, such as random",
        ),
        ParameterInfo::live(
            "interests_per_face",
            "0",
            "most pending Interests of one face; 0 is no limit",
        ),
    ];

    fn make(reader: &mut ParameterReader<'_>) -> Self {
        let (key, seed) = (reader.context().key, reader.context().seed);
        let pending = reader.integer("pending", 1 << 18, 1..=ENTRIES_MAX as u64) as usize;
        let prefixes = reader.integer(
            "prefixes",
            FibConfig::PREFIXES_DEFAULT as u64,
            1..=FibConfig::PREFIXES_MAX as u64,
        ) as usize;
        let config = RouterConfig {
            pit: PitConfig::for_entries(pending),
            fib: FibConfig::new(prefixes),
            dead_nonces: reader.integer("dead_nonces", 1 << 18, 1..=1 << 26) as usize,
            upstream_tokens: reader.bool("tokens", true),
            lifetime_max_ms: reader.integer(
                "lifetime_max_ms",
                u64::from(INTEREST_LIFETIME_MAX_MS),
                1..=u64::from(u32::MAX),
            ) as u32,
            seed,
            ..RouterConfig::default()
        };
        Router::new(key, config)
    }

    fn apply(
        &mut self,
        now: Timestamp,
        reader: &mut ParameterReader<'_>,
        context: &mut Context<'_, router::Out>,
    ) {
        let limit = reader.integer("interests_per_face", 0, 0..=ENTRIES_MAX as u64) as u32;
        self.set_face_limit((limit != 0).then_some(limit));
        let configured = configured_routes(reader, &mut |name| self.resolve_strategy(name));
        let known: Vec<Name> =
            self.fib().entries().iter().map(|(name, _)| name.to_name()).collect();
        for name in known.iter().filter(|name| !configured.contains_key(*name)) {
            self.remove_route(name.as_ref());
        }
        for (name, (next_hops, strategy)) in &configured {
            if let Err(error) = self.set_route(now, name.as_ref(), next_hops, *strategy, context) {
                reader.error("routes", format!("{name}: {error}"));
            }
        }
    }
}

/// Returns the number of a strategy name.
type Resolve<'a> = dyn FnMut(NameRef<'_>) -> Result<StrategyId, StrategyError> + 'a;

/// Reads `routes` and `strategies`. Returns next hops and strategy of every prefix.
pub(super) fn configured_routes(
    reader: &mut ParameterReader<'_>,
    resolve: &mut Resolve<'_>,
) -> BTreeMap<Name, (Vec<NextHop>, StrategyId)> {
    let mut configured: BTreeMap<Name, (Vec<_>, StrategyId)> = BTreeMap::new();
    for (name, next_hops) in reader.routes("routes") {
        configured.insert(name, (next_hops, StrategyId::default()));
    }
    for (name, strategy) in chosen_strategies(reader, resolve) {
        // A prefix with a strategy but no route inherits the next hops of the longest prefix above.
        let inherited = || {
            let mut above =
                configured.iter().filter(|(prefix, _)| prefix.as_ref().is_prefix_of(name.as_ref()));
            above.next_back().map(|(_, (next_hops, _))| next_hops.clone()).unwrap_or_default()
        };
        let next_hops =
            configured.get(&name).map_or_else(inherited, |(next_hops, _)| next_hops.clone());
        configured.insert(name.clone(), (next_hops, strategy));
        for (_, (_, below)) in
            configured.iter_mut().filter(|(longer, _)| name.as_ref().is_prefix_of(longer.as_ref()))
        {
            *below = strategy;
        }
    }
    configured
}

/// Reads `strategies`. Returns prefixes and their strategies, shorter prefixes first.
fn chosen_strategies(
    reader: &mut ParameterReader<'_>,
    resolve: &mut Resolve<'_>,
) -> Vec<(Name, StrategyId)> {
    let mut chosen = Vec::new();
    for text in reader.strings("strategies") {
        let Some((prefix, strategy)) = text.split_once(' ') else {
            reader.error("strategies", format!("{text:?}: \"/prefix STRATEGY\" is expected"));
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
            Err(error) => reader.error("strategies", format!("{text:?}: {error}")),
        }
    }
    chosen.sort();
    chosen
}
