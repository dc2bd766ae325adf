//! `nw route …`. `import` and `export` read and write routes as text, one per line.

use crate::args::flags::{CommandArgs, QueryArgs};
use crate::args::route::RouteCommand;
use crate::connect::connect;
use crate::exit::not_found;
use crate::face::{find, find_or_create};
use crate::management::{connect_and_fetch, fetch_records, print_outcome};
use crate::output::{json_line, row, table};
use crate::parse::origin_number;
use crate::render::{self, ROUTE_FLAGS};
use crate::signing::connect_signed;
use anyhow::{Context, Result, bail};
use nw_api::config::file::read_text;
use nw_api::management::{
    ControlParameters, Dataset, FaceStatus, FibEntry, RibEntry, Verb, flags, origin,
};
use nw_app::Client;
use nw_app::control::Commander;
use nw_app::import::{ImportError, import_by};
use nw_name::Name;
use std::collections::HashMap;
use std::io::{BufWriter, Read, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

/// Maximum size of a file of routes, bytes: enough for the largest RIB with long names.
const ROUTES_MAX: u64 = 16 << 30;

/// Runs `nw route …`.
pub fn route(action: &RouteCommand) -> Result<ExitCode> {
    match action {
        RouteCommand::List { fib: true, query, .. } => {
            let entries: Vec<FibEntry> = connect_and_fetch(query, Dataset::FibList)?;
            if query.json {
                entries.iter().try_for_each(json_line)?;
                return Ok(ExitCode::SUCCESS);
            }
            let mut rows = vec![row([&"prefix", &"next hops (face:cost)"])];
            for entry in &entries {
                let hops: Vec<_> = entry
                    .next_hops
                    .iter()
                    .map(|hop| format!("{}:{}", hop.face_id, hop.cost))
                    .collect();
                rows.push(row([&entry.name, &hops.join(" ")]));
            }
            table(&rows)?;
            Ok(ExitCode::SUCCESS)
        }
        RouteCommand::List { fib: false, nexthop, origin, query } => {
            list(query, nexthop.as_deref(), origin.as_deref())
        }
        RouteCommand::Show { name, query } => show(query, name),
        RouteCommand::Add {
            prefix,
            next_hop,
            cost,
            origin,
            no_inherit,
            capture,
            expires,
            command,
        } => {
            let mut router = connect_signed(command)?;
            let (client, commander) = router.parts();
            let face = find_or_create(client, commander, next_hop)?;
            let inherit = if *no_inherit { 0 } else { flags::CHILD_INHERIT };
            let parameters = ControlParameters {
                face_id: Some(face),
                cost: Some(*cost),
                origin: Some(origin_number(origin)?),
                flags: Some(inherit | if *capture { flags::CAPTURE } else { 0 }),
                expiration_period: *expires,
                ..ControlParameters::of(prefix.clone())
            };
            let body = commander.command(client, Verb::RibRegister, &parameters)?;
            print_outcome(&command.query, render::answer(&body, ROUTE_FLAGS), || {
                format!(
                    "{prefix} goes to face {} at cost {}",
                    body.face_id.unwrap_or(face),
                    body.cost.unwrap_or(*cost)
                )
            })
        }
        RouteCommand::Import { file, command } => import(file, command),
        RouteCommand::Export { origin, query } => export(origin.as_deref(), query),
        RouteCommand::Remove { prefix, next_hop, origin, command } => {
            remove(prefix, next_hop, origin, command)
        }
    }
}

/// The routes to list. `None` accepts any value.
#[derive(Default)]
struct RouteFilter {
    face: Option<u64>,
    origin: Option<u64>,
}

fn list(query: &QueryArgs, nexthop: Option<&str>, origin: Option<&str>) -> Result<ExitCode> {
    let mut client = connect(&query.router)?;
    let face = match nexthop {
        None => None,
        Some(nexthop) => Some(find(&mut client, nexthop)?.ok_or_else(|| no_face_to(nexthop))?),
    };
    let filter = RouteFilter { face, origin: origin.map(origin_number).transpose()? };
    let mut entries: Vec<RibEntry> = fetch_records(&mut client, Dataset::RibList, None)?;
    for entry in &mut entries {
        entry.routes.retain(|route| {
            filter.face.is_none_or(|face| route.face_id == face)
                && filter.origin.is_none_or(|origin| route.origin == origin)
        });
    }
    entries.retain(|entry| !entry.routes.is_empty());
    if entries.is_empty() && (nexthop.is_some() || origin.is_some()) {
        return Err(not_found("no route matches (`nw route list` shows all routes)"));
    }
    print(query, &entries)
}

/// Prints the routes that Interests for `name` follow: those of its longest prefix with a route.
fn show(query: &QueryArgs, name: &Name) -> Result<ExitCode> {
    let mut client = connect(&query.router)?;
    let entries: Vec<RibEntry> = fetch_records(&mut client, Dataset::RibList, None)?;
    let covers_name = |entry: &RibEntry| entry.name.as_ref().is_prefix_of(name.as_ref());
    let longest =
        entries.into_iter().filter(covers_name).max_by_key(|entry| entry.name.as_ref().len());
    match longest {
        Some(entry) => print(query, &[entry]),
        None => Err(not_found(format!("no route covers {name} (`nw route add` makes one)"))),
    }
}

fn print(query: &QueryArgs, entries: &[RibEntry]) -> Result<ExitCode> {
    if query.json {
        entries.iter().try_for_each(|entry| json_line(&render::rib_entry(entry)))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut rows = vec![row([&"prefix", &"face", &"cost", &"origin", &"flags", &"expires"])];
    for entry in entries {
        for route in &entry.routes {
            let flags = render::flag_words(route.flags, ROUTE_FLAGS).join(" ");
            let expires =
                route.expiration_period.map_or("-".to_owned(), |ms| format!("{} s", ms / 1000));
            let origin = origin::describe(route.origin);
            rows.push(row([&entry.name, &route.face_id, &route.cost, &origin, &flags, &expires]));
        }
    }
    table(&rows)?;
    Ok(ExitCode::SUCCESS)
}

fn no_face_to(next_hop: &str) -> anyhow::Error {
    not_found(format!("there is no face to {next_hop} (`nw face list` shows all faces)"))
}

fn remove(prefix: &Name, next_hop: &str, origin: &str, command: &CommandArgs) -> Result<ExitCode> {
    let mut router = connect_signed(command)?;
    let (client, commander) = router.parts();
    let face = find(client, next_hop)?.ok_or_else(|| no_face_to(next_hop))?;
    let number = origin_number(origin)?;
    // A neighbour may be allowed to command routes to itself and not to read datasets.
    if let Ok(entries) = fetch_records::<RibEntry>(client, Dataset::RibList, None) {
        let exists = entries.iter().filter(|entry| entry.name == *prefix).any(|entry| {
            entry.routes.iter().any(|route| route.face_id == face && route.origin == number)
        });
        if !exists {
            return Err(not_found(format!(
                "{prefix} has no route of origin {origin} to face {face} (`nw route list` shows \
                 all routes)"
            )));
        }
    }
    let parameters = ControlParameters {
        face_id: Some(face),
        origin: Some(number),
        ..ControlParameters::of(prefix.clone())
    };
    let body = commander.command(client, Verb::RibUnregister, &parameters)?;
    print_outcome(&command.query, render::answer(&body, ROUTE_FLAGS), || {
        format!("{prefix} does not go to face {face} any more")
    })
}

/// Runs `nw route import`.
fn import(file: &Path, command: &CommandArgs) -> Result<ExitCode> {
    let mut text = String::new();
    match file == Path::new("-") {
        true => drop(std::io::stdin().lock().read_to_string(&mut text)?),
        false => text = read_text(file, ROUTES_MAX)?,
    }
    let mut router = connect_signed(command)?;
    let (client, commander) = router.parts();
    let mut faces = HashMap::new();
    let (mut routes, mut lines) = (Vec::new(), Vec::new());
    for (at, line) in text.lines().enumerate() {
        if line.trim().is_empty() || line.trim_start().starts_with('#') {
            continue;
        }
        let route =
            parse_line(line, |next_hop| cached_face(client, commander, &mut faces, next_hop));
        routes.push(route.with_context(|| format!("line {}: {line}", at + 1))?);
        lines.push(at + 1);
    }
    let start = Instant::now();
    let count = match import_by(client, commander, routes) {
        Ok(count) => count,
        Err(ImportError::Refused { index, response }) => {
            let line = lines.get(index as usize).copied().unwrap_or_default();
            bail!("line {line} refused ({}): {}", response.code, response.text);
        }
        Err(error) => return Err(error.into()),
    };
    let seconds = start.elapsed().as_secs_f64();
    match command.query.json {
        true => json_line(&serde_json::json!({ "routes": count, "seconds": seconds }))?,
        false => outln!(
            "{count} routes in {seconds:.2} s ({:.0} per second)",
            count as f64 / seconds.max(1e-9)
        )?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the id of the face to `next_hop`, created if needed. Each next hop is requested only
/// once.
fn cached_face(
    client: &mut Client,
    commander: Commander<'_>,
    cache: &mut HashMap<String, u64>,
    next_hop: &str,
) -> Result<u64> {
    if let Some(id) = cache.get(next_hop) {
        return Ok(*id);
    }
    let id = find_or_create(client, commander, next_hop)?;
    cache.insert(next_hop.to_owned(), id);
    Ok(id)
}

/// Parses a line of a file of routes. `face` returns the face id of a next hop.
fn parse_line(line: &str, face: impl FnOnce(&str) -> Result<u64>) -> Result<ControlParameters> {
    let mut words = line.split_whitespace();
    let prefix: Name = words.next().context("a prefix is missing")?.parse()?;
    let next_hop = words.next().context("a face is missing after the prefix")?;
    let mut route = ControlParameters {
        origin: Some(origin::STATIC),
        flags: Some(flags::CHILD_INHERIT),
        ..ControlParameters::of(prefix)
    };
    let mut set = flags::CHILD_INHERIT;
    for (at, word) in words.enumerate() {
        match word.split_once('=') {
            None if at == 0 && word.parse::<u64>().is_ok() => route.cost = word.parse().ok(),
            None if word == "no-inherit" => set &= !flags::CHILD_INHERIT,
            None if word == "capture" => set |= flags::CAPTURE,
            Some(("origin", word)) => route.origin = Some(origin_number(word)?),
            Some(("expires", ms)) => {
                route.expiration_period =
                    Some(ms.parse().context("expires= needs a number of milliseconds")?)
            }
            _ => bail!("{word:?} is not a cost, origin=, expires=, no-inherit or capture"),
        }
    }
    route.flags = Some(set);
    route.face_id = Some(face(next_hop)?);
    Ok(route)
}

/// Runs `nw route export`.
fn export(origin: Option<&str>, query: &QueryArgs) -> Result<ExitCode> {
    let only_origin = origin.map(origin_number).transpose()?;
    let mut client = connect(&query.router)?;
    let faces: Vec<FaceStatus> = fetch_records(&mut client, Dataset::FacesList, None)?;
    // Addresses stay valid after a restart, face ids do not.
    let faces: HashMap<u64, String> = faces
        .into_iter()
        .filter(|face| is_address(&face.uri))
        .map(|face| (face.face_id, face.uri))
        .collect();
    let entries: Vec<RibEntry> = fetch_records(&mut client, Dataset::RibList, None)?;
    let mut out = BufWriter::new(crate::output::stdout());
    for entry in &entries {
        for route in entry
            .routes
            .iter()
            .filter(|route| only_origin.is_none_or(|origin| route.origin == origin))
        {
            if query.json {
                // The format of `nw route list`, with one route per line.
                let entry = RibEntry { name: entry.name.clone(), routes: vec![route.clone()] };
                let mut line = render::rib_entry(&entry);
                line["route"] = line["routes"][0].take();
                line.as_object_mut().map(|line| line.remove("routes"));
                writeln!(out, "{line}")?;
                continue;
            }
            let face =
                faces.get(&route.face_id).cloned().unwrap_or_else(|| route.face_id.to_string());
            write!(out, "{} {face} {}", entry.name, route.cost)?;
            if route.origin != origin::STATIC {
                write!(out, " origin={}", origin::describe(route.origin))?;
            }
            if let Some(ms) = route.expiration_period {
                write!(out, " expires={ms}")?;
            }
            if route.flags & flags::CHILD_INHERIT == 0 {
                write!(out, " no-inherit")?;
            }
            if route.flags & flags::CAPTURE != 0 {
                write!(out, " capture")?;
            }
            writeln!(out)?;
        }
    }
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// Returns whether a face can be created again from this URI.
fn is_address(uri: &str) -> bool {
    ["udp4://", "udp6://", "tcp4://", "tcp6://", "ws://"]
        .iter()
        .any(|scheme| uri.starts_with(scheme))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_line_accepts_all_options_and_refuses_mistakes() {
        let route =
            |line| parse_line(line, |face| Ok(face.parse()?)).map_err(|error| error.to_string());
        let full = route("/a/b 300 7 origin=nlsr expires=5000 no-inherit capture").unwrap();
        assert_eq!((full.face_id, full.cost, full.origin), (Some(300), Some(7), Some(128)));
        assert_eq!((full.flags, full.expiration_period), (Some(flags::CAPTURE), Some(5000)));
        let short = route("/ 256").unwrap();
        assert_eq!(
            (short.cost, short.origin, short.flags),
            (None, Some(255), Some(flags::CHILD_INHERIT))
        );
        for bad in
            ["/a", "a 300", "/a 300 x", "/a 300 7 8", "/a 300 expires=soon", "/a 300 origin=mars"]
        {
            assert!(route(bad).is_err(), "{bad}");
        }
    }
}
