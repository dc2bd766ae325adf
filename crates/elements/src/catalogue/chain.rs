//! The parts of a router that stand alone in a chain, made from parameters.

use super::standard::wanted_routes;
use super::{Configured, fixed, live};
use crate::{BackwardRouter, BackwardRouterConfig, NameRouter, NameRouterConfig};
use crate::{StrategyForwarder, StrategyForwarderConfig};
use crate::{backward_router, name_router, strategy_forwarder};
use nw_element_api::parameters::{ParameterInfo, Reader};
use nw_element_api::{Context, Instant};
use nw_name::Name;
use nw_tables::fib::{Fib, FibConfig};
use nw_tables::pit::{ENTRIES_MAX, PitConfig};

impl Configured for BackwardRouter {
    const PARAMETERS: &'static [ParameterInfo] = &[
        fixed("pending", "262144", "pending Interests at most"),
        fixed("dead_nonces", "262144", "nonces remembered after their Interest is gone"),
        fixed("tokens", "true", "whether each Interest that is sent carries a token for its answer"),
        live("interests_per_face", "0", "Interests that one face may have pending; 0 is no limit"),
    ];

    fn make(reader: &mut Reader<'_>) -> Self {
        let pending = reader.integer("pending", 1 << 18, 1..=ENTRIES_MAX as u64) as usize;
        let config = BackwardRouterConfig {
            pit: PitConfig::for_entries(pending),
            dead_nonces: reader.integer("dead_nonces", 1 << 18, 1..=1 << 26) as usize,
            tokens: reader.bool("tokens", true),
            ..BackwardRouterConfig::default()
        };
        BackwardRouter::new(reader.making().key, config)
    }

    fn apply(&mut self, _: Instant, reader: &mut Reader<'_>, _: &mut Context<'_, backward_router::Out>) {
        let limit = reader.integer("interests_per_face", 0, 0..=ENTRIES_MAX as u64) as u32;
        self.set_face_limit((limit != 0).then_some(limit));
    }
}

impl Configured for NameRouter {
    const PARAMETERS: &'static [ParameterInfo] = &[
        fixed("prefixes", "262144", "prefixes at most"),
        live("routes", "[]", "\"/prefix FACE [cost=N] …\": where Interests go; the cheapest is taken"),
        live("nacks", "true", "whether what has no route is answered by a Nack"),
        live("data_from_next_hops_only", "false", "whether Data passes only from a next hop of its name"),
        live("regions", "[]", "names of the regions it is in, where ForwardingHints have done their work"),
    ];

    fn make(reader: &mut Reader<'_>) -> Self {
        let prefixes = reader.integer("prefixes", FibConfig::PREFIXES_DEFAULT as u64, 1..=1 << 26) as usize;
        let config = NameRouterConfig { fib: FibConfig::new(prefixes), ..NameRouterConfig::default() };
        NameRouter::new(reader.making().key, config)
    }

    fn apply(&mut self, _: Instant, reader: &mut Reader<'_>, _: &mut Context<'_, name_router::Out>) {
        self.set_switches(reader.bool("nacks", true), reader.bool("data_from_next_hops_only", false));
        let regions = reader.texts("regions");
        let regions = regions.into_iter().filter_map(|uri| reader.name("regions", uri)).collect();
        self.set_regions(regions);
        let wanted = reader.routes("routes");
        for name in gone(self.fib(), |name| wanted.iter().any(|(wanted, _)| wanted == name)) {
            self.remove_route(name.as_ref());
        }
        for (name, next_hops) in &wanted {
            if let Err(error) = self.set_route(name.as_ref(), next_hops) {
                reader.wrong("routes", format!("{name}: {error}"));
            }
        }
    }
}

impl Configured for StrategyForwarder {
    const PARAMETERS: &'static [ParameterInfo] = &[
        fixed("prefixes", "65536", "prefixes at most"),
        fixed("ways", "65536", "Interests of which is remembered where they went, at most"),
        live("routes", "[]", "\"/prefix FACE [cost=N] …\": where Interests may go"),
        live(
            "strategies",
            "[\"/ best-route\"]",
            "\"/prefix STRATEGY\": how one is chosen, by name and parameters, such as round-robin",
        ),
    ];

    fn make(reader: &mut Reader<'_>) -> Self {
        let prefixes = reader.integer("prefixes", 1 << 16, 1..=1 << 26) as usize;
        let ways = reader.integer("ways", 1 << 16, 1..=ENTRIES_MAX as u64) as usize;
        let config = StrategyForwarderConfig {
            fib: FibConfig::new(prefixes),
            ways: PitConfig::for_entries(ways),
            seed: reader.making().seed,
            ..StrategyForwarderConfig::default()
        };
        StrategyForwarder::new(reader.making().key, config)
    }

    fn apply(&mut self, _: Instant, reader: &mut Reader<'_>, _: &mut Context<'_, strategy_forwarder::Out>) {
        let wanted = wanted_routes(reader, &mut |name| self.resolve_strategy(name));
        for name in gone(self.fib(), |name| wanted.contains_key(name)) {
            self.remove_route(name.as_ref());
        }
        for (name, (next_hops, strategy)) in &wanted {
            if let Err(error) = self.set_route(name.as_ref(), next_hops, *strategy) {
                reader.wrong("routes", format!("{name}: {error}"));
            }
        }
    }
}

/// Prefixes that are no longer wanted.
fn gone(fib: &Fib, is_wanted: impl Fn(&Name) -> bool) -> Vec<Name> {
    let known = fib.entries().into_iter().map(|(name, _)| name.to_name());
    known.filter(|name| !is_wanted(name)).collect()
}
