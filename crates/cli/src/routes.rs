//! `nw route import` and `nw route export`: many routes as text, one a line.

use crate::args::{Order, Reading};
use crate::connect::connect;
use crate::control::{face_of, origin_number};
use crate::output::json_line;
use crate::signing::commanded;
use anyhow::{Context, Result, bail};
use nw_api::management::client::decode_items;
use nw_api::management::{ControlParameters, Dataset, FaceStatus, RibEntry, flags, origin};
use nw_app::Client;
use nw_app::control::{Commander, dataset};
use nw_app::import::{ImportError, import_by};
use nw_name::Name;
use std::collections::HashMap;
use std::io::{BufWriter, Read, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

/// `nw route import`
pub fn import(file: &Path, order: &Order) -> Result<ExitCode> {
    let mut text = String::new();
    match file == Path::new("-") {
        true => drop(std::io::stdin().lock().read_to_string(&mut text)?),
        false => {
            text = std::fs::read_to_string(file).with_context(|| format!("can't read {}", file.display()))?
        }
    }
    let mut router = commanded(order)?;
    let (client, commander) = router.parts();
    let mut faces = HashMap::new();
    let (mut routes, mut lines) = (Vec::new(), Vec::new());
    for (at, line) in text.lines().enumerate() {
        if line.trim().is_empty() || line.trim_start().starts_with('#') {
            continue;
        }
        let route = parse(line, |next_hop| face(client, commander, &mut faces, next_hop));
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
    match order.reading.json {
        true => json_line(&serde_json::json!({ "routes": count, "seconds": seconds }))?,
        false => {
            outln!("{count} routes in {seconds:.2} s ({:.0} a second)", count as f64 / seconds.max(1e-9))?
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Each face is asked for once.
fn face(
    client: &mut Client,
    commander: Commander<'_>,
    known: &mut HashMap<String, u64>,
    next_hop: &str,
) -> Result<u64> {
    if let Some(id) = known.get(next_hop) {
        return Ok(*id);
    }
    let id = face_of(client, commander, next_hop)?;
    known.insert(next_hop.to_owned(), id);
    Ok(id)
}

fn parse(line: &str, face: impl FnOnce(&str) -> Result<u64>) -> Result<ControlParameters> {
    let mut words = line.split_whitespace();
    let prefix: Name = words.next().context("a prefix is missing")?.parse()?;
    let next_hop = words.next().context("a face is missing behind the prefix")?;
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
                route.expiration_period = Some(ms.parse().context("expires is in milliseconds")?)
            }
            _ => bail!("{word:?} is no cost, origin=, expires=, no-inherit or capture"),
        }
    }
    route.flags = Some(set);
    route.face_id = Some(face(next_hop)?);
    Ok(route)
}

/// `nw route export`
pub fn export(only: Option<&str>, reading: &Reading) -> Result<ExitCode> {
    let only = only.map(origin_number).transpose()?;
    let mut client = connect(&reading.router)?;
    let faces: Vec<FaceStatus> = decode_items(&dataset(&mut client, Dataset::FacesList, None)?)?;
    // A peer's address holds longer than its number.
    let faces: HashMap<u64, String> =
        faces.into_iter().filter(|face| is_address(&face.uri)).map(|face| (face.face_id, face.uri)).collect();
    let entries: Vec<RibEntry> = decode_items(&dataset(&mut client, Dataset::RibList, None)?)?;
    let mut out = BufWriter::new(crate::output::stdout());
    for entry in &entries {
        for route in entry.routes.iter().filter(|route| only.is_none_or(|only| route.origin == only)) {
            if reading.json {
                let line = serde_json::json!({ "name": entry.name.to_string(), "route": route });
                writeln!(out, "{line}")?;
                continue;
            }
            let face = faces.get(&route.face_id).cloned().unwrap_or_else(|| route.face_id.to_string());
            write!(out, "{} {face} {}", entry.name, route.cost)?;
            if route.origin != origin::STATIC {
                let word = origin::word(route.origin).map_or_else(|| route.origin.to_string(), str::to_owned);
                write!(out, " origin={word}")?;
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

/// True for faces that can be made anew from their URI.
fn is_address(uri: &str) -> bool {
    ["udp4://", "udp6://", "tcp4://", "tcp6://", "ws://"].iter().any(|scheme| uri.starts_with(scheme))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let route = |line| parse(line, |face| Ok(face.parse()?)).map_err(|error| error.to_string());
        let full = route("/a/b 300 7 origin=nlsr expires=5000 no-inherit capture").unwrap();
        assert_eq!((full.face_id, full.cost, full.origin), (Some(300), Some(7), Some(128)));
        assert_eq!((full.flags, full.expiration_period), (Some(flags::CAPTURE), Some(5000)));
        let short = route("/ 256").unwrap();
        assert_eq!((short.cost, short.origin, short.flags), (None, Some(255), Some(flags::CHILD_INHERIT)));
        for bad in ["/a", "a 300", "/a 300 x", "/a 300 7 8", "/a 300 expires=soon", "/a 300 origin=mars"] {
            assert!(route(bad).is_err(), "{bad}");
        }
    }
}
