//! `nw network edge`: exchanges routes between a network of services and a router at its edge, and
//! so with the routing daemon of that router.
//!
//! Prefixes that are registered inside the network are registered at the router, towards a listener
//! of the network. Routes that a routing protocol has set at the router become routes of the
//! network by its face to the router. What this program has set it also takes back.

use super::Network;
use super::access::parse_place;
use crate::args::flags::RouterArgs;
use crate::connect::{connect, uri};
use crate::face::find_or_create;
use crate::management::fetch_records;
use crate::observe::http::{self, ControlAddress, Method};
use crate::output::describe;
use crate::signals::StopFlag;
use anyhow::{Context, Result};
use clap::Args;
use nw_api::management::{ControlParameters, Dataset, RibEntry, Verb, flags, origin};
use nw_api::network::NetworkRoute;
use nw_api::network_access::PersonRoute;
use nw_app::Client;
use nw_app::control::{Commander, ControlError};
use nw_name::Name;
use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::time::Duration;

/// Most prefixes that are passed on in one direction.
const PREFIXES_MAX: usize = 10_000;
/// Interval at which the end is looked for.
const STOP_INTERVAL: Duration = Duration::from_millis(50);
/// TLV type of a keyword component: routing protocols use such names among themselves.
const KEYWORD: u16 = 32;

#[derive(Debug, Args)]
pub struct Edge {
    #[command(flatten)]
    network: Network,
    /// Element and face of the graph file that lead to the router: ELEMENT.FACE. The routes that
    /// persons have set for this face are replaced
    #[arg(value_name = "ELEMENT.FACE", value_parser = parse_place)]
    out: (String, String),
    /// Listener of the graph file by which the router reaches the network, such as
    /// tcp4://127.0.0.1:6400
    listener: String,
    /// Milliseconds between two comparisons
    #[arg(long, value_name = "MS", default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(100..=60_000))]
    interval_ms: u64,
    #[command(flatten)]
    router: RouterArgs,
}

/// Runs `nw network edge`.
pub fn edge(args: &Edge) -> Result<ExitCode> {
    let network = args.network.address()?;
    let stop = StopFlag::watch()?;
    // Mistakes in the arguments end the program; what fails later is tried again.
    let mut sent = exchange(args, &network)?;
    note!("routes are exchanged with the router; Ctrl-C takes them back");
    let mut error = None;
    while !stop.is_set() {
        let result = match exchange(args, &network) {
            Ok(routes) => {
                sent = routes;
                None
            }
            Err(error) => Some(describe(&error)),
        };
        if result != error {
            match &result {
                Some(text) => note!("no exchange: {text}; trying again"),
                None => note!("routes are exchanged again"),
            }
            error = result;
        }
        let mut waited = Duration::ZERO;
        while waited < Duration::from_millis(args.interval_ms) && !stop.is_set() {
            std::thread::sleep(STOP_INTERVAL);
            waited += STOP_INTERVAL;
        }
    }
    let (mut client, commander) = router(args)?;
    let client = &mut client;
    let face = find_or_create(client, commander, &args.listener)?;
    let announced = announced(&fetch_records(client, Dataset::RibList, None)?, face);
    for prefix in announced {
        unregister(client, commander, prefix, face)?;
    }
    let routes: Vec<NetworkRoute> = http::request_json(&network, Method::Get, "/v1/routes", None)?;
    let installed = installed(&routes, &args.out);
    for (prefix, cost) in &installed {
        send_route(&network, "/v1/routes/remove", args, prefix, *cost)?;
    }
    // The manager lists what it has seen at its services, so the newest can be missing there.
    for (prefix, cost) in sent.iter().filter(|(prefix, _)| !installed.contains_key(*prefix)) {
        if let Err(error) = send_route(&network, "/v1/routes/remove", args, prefix, *cost) {
            tracing::debug!("{prefix} was not there any more: {}", describe(&error));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Connects to the router, which is on this machine.
fn router(args: &Edge) -> Result<(Client, Commander<'static>)> {
    Ok((connect(&args.router)?, Commander::at(&uri(&args.router)?, None)))
}

/// Compares both sides once and changes what differs. Returns the routes that the network has now.
fn exchange(args: &Edge, network: &ControlAddress) -> Result<BTreeMap<Name, u64>> {
    let routes: Vec<NetworkRoute> = http::request_json(network, Method::Get, "/v1/routes", None)?;
    let (mut client, commander) = router(args)?;
    let client = &mut client;
    let face = find_or_create(client, commander, &args.listener).with_context(|| {
        format!("the router has no face to {}: does the network listen there?", args.listener)
    })?;
    let entries: Vec<RibEntry> = fetch_records(client, Dataset::RibList, None)?;
    let (wanted, known) = (registered(&routes), announced(&entries, face));
    for prefix in wanted.difference(&known) {
        let parameters = ControlParameters {
            face_id: Some(face),
            origin: Some(origin::CLIENT),
            cost: Some(0),
            flags: Some(flags::CHILD_INHERIT),
            ..ControlParameters::of(prefix.clone())
        };
        commander.command(client, Verb::RibRegister, &parameters)?;
    }
    for prefix in known.difference(&wanted) {
        unregister(client, commander, prefix.clone(), face)?;
    }
    let (wanted, known) = (outside(&entries, face), installed(&routes, &args.out));
    for (prefix, cost) in wanted.iter().filter(|(prefix, cost)| known.get(*prefix) != Some(cost)) {
        send_route(network, "/v1/routes", args, prefix, *cost)?;
    }
    for (prefix, cost) in known.iter().filter(|(prefix, _)| !wanted.contains_key(*prefix)) {
        send_route(network, "/v1/routes/remove", args, prefix, *cost)?;
    }
    Ok(wanted)
}

fn unregister(
    client: &mut Client,
    commander: Commander<'_>,
    prefix: Name,
    face: u64,
) -> Result<()> {
    let parameters = ControlParameters {
        face_id: Some(face),
        origin: Some(origin::CLIENT),
        ..ControlParameters::of(prefix)
    };
    match commander.command(client, Verb::RibUnregister, &parameters) {
        // Something else has removed it.
        Err(ControlError::Refused { response, .. }) if response.code == 404 => Ok(()),
        result => Ok(result.map(drop)?),
    }
}

fn send_route(
    network: &ControlAddress,
    path: &str,
    args: &Edge,
    prefix: &Name,
    cost: u64,
) -> Result<()> {
    let (element, face) = args.out.clone();
    let route = PersonRoute { prefix: prefix.to_string(), element, face, cost };
    let body = serde_json::to_value(route)?;
    http::request(network, Method::Post, path, Some(&body)).map(drop)
}

/// Returns the prefixes that producers have registered inside the network.
fn registered(routes: &[NetworkRoute]) -> BTreeSet<Name> {
    let registered = routes.iter().filter(|route| route.origin == "registration");
    let names = registered.filter_map(|route| route.prefix.parse().ok());
    names.filter(is_for_others).take(PREFIXES_MAX).collect()
}

/// Returns the prefixes that the router has towards the network by this program.
fn announced(entries: &[RibEntry], face: u64) -> BTreeSet<Name> {
    let is_own = |entry: &&RibEntry| {
        entry.routes.iter().any(|route| route.face_id == face && route.origin == origin::CLIENT)
    };
    entries.iter().filter(is_own).map(|entry| entry.name.clone()).collect()
}

/// Returns the prefixes and costs that routing protocols have found outside of the network.
fn outside(entries: &[RibEntry], face: u64) -> BTreeMap<Name, u64> {
    let found = entries.iter().filter(|entry| is_for_others(&entry.name)).filter_map(|entry| {
        let routes = entry.routes.iter();
        let outside = routes.filter(|route| route.origin == origin::NLSR && route.face_id != face);
        let cost = outside.map(|route| route.cost.min(u64::from(u32::MAX))).min()?;
        Some((entry.name.clone(), cost))
    });
    found.take(PREFIXES_MAX).collect()
}

/// Returns the prefixes and costs that persons, or this program, have set for a face.
fn installed(routes: &[NetworkRoute], (element, face): &(String, String)) -> BTreeMap<Name, u64> {
    let is_face = |route: &&NetworkRoute| {
        let rest = route.face.strip_prefix(face.as_str());
        route.element == *element
            && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
    };
    let set = routes.iter().filter(|route| route.origin == "graph" && route.by.is_some());
    let own = set.filter(is_face);
    own.filter_map(|route| Some((route.prefix.parse().ok()?, route.cost))).collect()
}

/// Returns whether other networks may use a prefix: it is neither of one machine or link, nor of a
/// routing protocol.
fn is_for_others(prefix: &Name) -> bool {
    let text = prefix.to_string();
    let is_local = ["/localhost", "/localhop"]
        .iter()
        .any(|scope| text == *scope || text.starts_with(&format!("{scope}/")));
    let mut components = prefix.as_ref().components();
    !is_local && !components.any(|component| component.typ().number() == KEYWORD)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_of_machines_links_and_routing_protocols_are_not_passed_on() {
        for (prefix, expected) in [
            ("/site/file", true),
            ("/localhostess", true),
            ("/localhost/x", false),
            ("/localhop", false),
            ("/net/32=DV/32=PFS", false),
        ] {
            assert_eq!(is_for_others(&prefix.parse().expect("a name")), expected, "{prefix}");
        }
    }

    #[test]
    fn registered_and_installed_routes_are_told_apart() {
        let route = |prefix: &str, face: &str, origin: &str, by: Option<&str>| NetworkRoute {
            instance: "nr~1 on here".to_owned(),
            element: "nr".to_owned(),
            prefix: prefix.to_owned(),
            face: face.to_owned(),
            cost: 4,
            origin: origin.to_owned(),
            by: by.map(str::to_owned),
        };
        let routes = [
            route("/inside", "apps", "registration", None),
            route("/computed", "out_ab", "graph", None),
            route("/outside", "out_ab", "graph", Some("root")),
            route("/elsewhere", "outer_ab", "graph", Some("root")),
        ];
        let inside: Vec<String> = registered(&routes).iter().map(Name::to_string).collect();
        assert_eq!(inside, ["/inside"]);
        let known = installed(&routes, &("nr".to_owned(), "out".to_owned()));
        let known: Vec<(String, u64)> =
            known.iter().map(|(prefix, cost)| (prefix.to_string(), *cost)).collect();
        assert_eq!(known, [("/outside".to_owned(), 4)]);
    }
}
