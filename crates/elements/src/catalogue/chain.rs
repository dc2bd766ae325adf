//! Parameters of `backward_router`, `name_router` and `strategy_forwarder`.

use super::Configured;
use super::standard::configured_routes;
use super::verifier::{certificates, rule};
use crate::name_router::{RouteOrigin, SourcedHop};
use crate::{BackwardRouter, BackwardRouterConfig, NameRouter, NameRouterConfig};
use crate::{StrategyForwarder, StrategyForwarderConfig};
use crate::{backward_router, name_router, strategy_forwarder};
use nw_element_api::parameters::{ParameterInfo, ParameterReader};
use nw_element_api::{Context, FaceId, Timestamp};
use nw_name::Name;
use nw_tables::fib::{Fib, FibConfig};
use nw_tables::pit::{ENTRIES_MAX, PitConfig};
use nw_trust::chain::AnchorSet;
use nw_trust::{AllowFrom, AllowRule, Anchor, CommandRules, FaceScope, Privilege, Rules};

impl Configured for BackwardRouter {
    const PARAMETERS: &'static [ParameterInfo] = &[
        ParameterInfo::fixed("pending", "262144", "most pending Interests"),
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
        ParameterInfo::live(
            "interests_per_face",
            "0",
            "most pending Interests of one face; 0 is no limit",
        ),
    ];

    fn make(reader: &mut ParameterReader<'_>) -> Self {
        let pending = reader.integer("pending", 1 << 18, 1..=ENTRIES_MAX as u64) as usize;
        let config = BackwardRouterConfig {
            pit: PitConfig::for_entries(pending),
            dead_nonces: reader.integer("dead_nonces", 1 << 18, 1..=1 << 26) as usize,
            tokens: reader.bool("tokens", true),
            ..BackwardRouterConfig::default()
        };
        BackwardRouter::new(reader.context().key, config)
    }

    fn apply(
        &mut self,
        _: Timestamp,
        reader: &mut ParameterReader<'_>,
        _: &mut Context<'_, backward_router::Out>,
    ) {
        let limit = reader.integer("interests_per_face", 0, 0..=ENTRIES_MAX as u64) as u32;
        self.set_face_limit((limit != 0).then_some(limit));
    }
}

impl Configured for NameRouter {
    const PARAMETERS: &'static [ParameterInfo] = &[
        ParameterInfo::fixed("prefixes", "262144", "most prefixes"),
        ParameterInfo::live(
            "routes",
            "[]",
            "\"/prefix FACE [cost=N] …\": where Interests go; the cheapest is used",
        ),
        ParameterInfo::live(
            "nacks",
            "true",
            "whether an Interest without route is answered by a Nack",
        ),
        ParameterInfo::live(
            "data_from_next_hops_only",
            "false",
            "whether Data is accepted only from a next hop of its name",
        ),
        ParameterInfo::live(
            "regions",
            "[]",
            "names of the producer regions it is in, where ForwardingHints are removed",
        ),
        ParameterInfo::live(
            "commands",
            "[]",
            "localhost, localhop: rib commands by which faces register prefixes for themselves",
        ),
        ParameterInfo::live(
            "command_unverified",
            "local",
            "faces whose commands need no trusted key: nowhere, local, anywhere",
        ),
        ParameterInfo::live(
            "command_anchors",
            "[]",
            "certificates (base64) of trust anchors for commands",
        ),
        ParameterInfo::live(
            "command_certificates",
            "[]",
            "certificates (base64) that chains to these anchors may need",
        ),
        ParameterInfo::live(
            "command_rules",
            "[]",
            "\"/prefix/<who>/<..> by /site/<who>/KEY/<_>\": which keys may register which prefixes",
        ),
    ];

    fn make(reader: &mut ParameterReader<'_>) -> Self {
        let prefixes = reader.integer(
            "prefixes",
            FibConfig::PREFIXES_DEFAULT as u64,
            1..=FibConfig::PREFIXES_MAX as u64,
        ) as usize;
        let config =
            NameRouterConfig { fib: FibConfig::new(prefixes), ..NameRouterConfig::default() };
        NameRouter::new(reader.context().key, config)
    }

    fn apply(
        &mut self,
        _: Timestamp,
        reader: &mut ParameterReader<'_>,
        _: &mut Context<'_, name_router::Out>,
    ) {
        self.set_switches(
            reader.bool("nacks", true),
            reader.bool("data_from_next_hops_only", false),
        );
        let regions = reader.strings("regions");
        let regions = regions.into_iter().filter_map(|uri| reader.name("regions", uri)).collect();
        self.set_regions(regions);
        let routes = graph_routes(reader);
        for (name, error) in self.set_graph_routes(routes).err().into_iter().flatten() {
            reader.error("routes", format!("{name}: {error}"));
        }
        let faces = reader.context().faces;
        let face = |name: &str| faces(name).unwrap_or(FaceId::NONE);
        // A route of control that does not fit is missing from the list that control reads.
        let _ = self.resolve_control_routes(face);
        let commands = reader.strings("commands");
        for unknown in commands.iter().filter(|word| !["localhost", "localhop"].contains(*word)) {
            reader.error("commands", format!("{unknown:?}: localhost or localhop is expected"));
        }
        self.set_commands(commands.contains(&"localhost"), commands.contains(&"localhop"));
        let rules = command_rules(reader);
        self.authority_mut().reconfigure(rules);
        let given = certificates(reader, "command_certificates");
        for refusal in self.authority_mut().set_certificates(&given) {
            reader.error("command_certificates", format!("{refusal:?}"));
        }
        self.clear_wanted_certificates();
    }
}

/// Reads the parameter `routes`, with the names of faces.
fn graph_routes(reader: &mut ParameterReader<'_>) -> Vec<(Name, SourcedHop)> {
    let routes = reader.routes("routes");
    let links = reader.strings("routes").into_iter().map(|text| {
        let words = text.split_whitespace().skip(1);
        words.filter(|word| !word.starts_with("cost=")).collect::<Vec<_>>()
    });
    let hops = |((prefix, hops), links): ((Name, Vec<_>), Vec<&str>)| {
        let hop = |(hop, link): (nw_tables::fib::NextHop, &str)| SourcedHop {
            origin: RouteOrigin::Graph,
            link: link.to_owned(),
            face: hop.face,
            cost: hop.cost,
            until: Timestamp::NEVER,
        };
        // Only after an error are there fewer next hops than names.
        hops.into_iter().zip(links).map(|pair| (prefix.clone(), hop(pair))).collect::<Vec<_>>()
    };
    routes.into_iter().zip(links).flat_map(hops).collect()
}

/// All anchors are in one set.
const ANCHORS: AnchorSet = 1;

/// Reads the rules for commands.
fn command_rules(reader: &mut ParameterReader<'_>) -> Rules {
    let unverified = match reader.choice("command_unverified", 1, &["nowhere", "local", "anywhere"])
    {
        0 => AllowFrom::Nowhere,
        1 => AllowFrom::Local,
        _ => AllowFrom::Anywhere,
    };
    let mut rules = Rules {
        basic: CommandRules {
            digest: unverified,
            unknown_key: unverified,
            ..CommandRules::default()
        },
        ..Rules::default()
    };
    for wire in certificates(reader, "command_anchors") {
        match Anchor::from_certificate(&wire) {
            Ok(anchor) => rules.anchors.push((ANCHORS, anchor)),
            Err(error) => reader.error("command_anchors", error.to_string()),
        }
    }
    for text in reader.strings("command_rules") {
        match rule(text) {
            Ok(rule) => rules.allow.push(AllowRule {
                id: text.to_owned(),
                scope: FaceScope::Both,
                anchors: Some(ANCHORS),
                signer: Some(rule.signer),
                privileges: [Privilege::Rib].into_iter().collect(),
                prefix: rule.data,
            }),
            Err(error) => reader.error("command_rules", format!("{text:?}: {error}")),
        }
    }
    rules
}

impl Configured for StrategyForwarder {
    const PARAMETERS: &'static [ParameterInfo] = &[
        ParameterInfo::fixed("prefixes", "65536", "most prefixes"),
        ParameterInfo::fixed(
            "outstanding_max",
            "65536",
            "most outstanding Interests that are remembered",
        )
        .formerly("ways"),
        ParameterInfo::live("routes", "[]", "\"/prefix FACE [cost=N] …\": where Interests may go"),
        ParameterInfo::live(
            "strategies",
            "[\"/ best-route\"]",
            "\"/prefix STRATEGY\": how a next hop is chosen, by name and parameters, such as round-robin",
        ),
    ];

    fn make(reader: &mut ParameterReader<'_>) -> Self {
        let prefixes =
            reader.integer("prefixes", 1 << 16, 1..=FibConfig::PREFIXES_MAX as u64) as usize;
        let outstanding =
            reader.integer("outstanding_max", 1 << 16, 1..=ENTRIES_MAX as u64) as usize;
        let config = StrategyForwarderConfig {
            fib: FibConfig::new(prefixes),
            outstanding: PitConfig::for_entries(outstanding),
            seed: reader.context().seed,
            ..StrategyForwarderConfig::default()
        };
        StrategyForwarder::new(reader.context().key, config)
    }

    fn apply(
        &mut self,
        _: Timestamp,
        reader: &mut ParameterReader<'_>,
        _: &mut Context<'_, strategy_forwarder::Out>,
    ) {
        let configured = configured_routes(reader, &mut |name| self.resolve_strategy(name));
        for name in removed_prefixes(self.fib(), |name| configured.contains_key(name)) {
            self.remove_route(name.as_ref());
        }
        for (name, (next_hops, strategy)) in &configured {
            if let Err(error) = self.set_route(name.as_ref(), next_hops, *strategy) {
                reader.error("routes", format!("{name}: {error}"));
            }
        }
    }
}

/// Returns the prefixes that are no longer configured.
fn removed_prefixes(fib: &Fib, is_configured: impl Fn(&Name) -> bool) -> Vec<Name> {
    let known = fib.entries().into_iter().map(|(name, _)| name.to_name());
    known.filter(|name| !is_configured(name)).collect()
}
