//! `nw service elements|erase|hand-over|routes|events`: the elements of a running service.

use super::Service;
use crate::observe::http::{self, ControlAddress, Method};
use crate::output;
use anyhow::{Context, Result, bail};
use clap::Args;
use nw_api::service::{
    CachedPackets, ElementRoutes, ErasedPackets, ImportedPackets, PacketImport, PrefixErasure,
    ServiceElement, ServiceEvent,
};
use nw_name::Name;
use std::io::{BufRead, BufReader};
use std::time::{Duration, Instant};

/// Bytes of packets per request of a hand-over.
const SLICE_BYTES: u64 = 512 << 10;

#[derive(Debug, Args)]
pub struct HandOver {
    /// Name of the service that has the packets, or path of its control socket
    from: String,
    /// Name of the service that gets them, or path of its control socket
    to: String,
    /// Stop after this many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    seconds: u64,
    /// Stop after this many MiB of packets
    #[arg(long, value_name = "MIB", default_value_t = 1024)]
    mib: u64,
    /// Name of the content store in the graph that has the packets; needed if there are several
    #[arg(long, value_name = "NAME")]
    from_element: Option<String>,
    /// Name of the content store in the graph that gets them; needed if there are several
    #[arg(long, value_name = "NAME")]
    to_element: Option<String>,
}

fn read(address: &ControlAddress) -> Result<Vec<ServiceElement>> {
    http::request_json(address, Method::Get, "/v1/elements", None)
}

/// Returns the name of the only element of a kind, or the given one.
fn element_name(address: &ControlAddress, kind: &str, given: Option<&str>) -> Result<String> {
    if let Some(given) = given {
        return Ok(given.to_owned());
    }
    let elements = read(address)?;
    let mut names = elements.into_iter().filter(|state| state.element == kind);
    match (names.next(), names.next()) {
        (Some(only), None) => Ok(only.name),
        (Some(first), Some(second)) => bail!(
            "the service has several elements of type {kind}, such as {} and {}: name one with --element",
            first.name,
            second.name
        ),
        (None, _) => bail!("the service has no element of type {kind}"),
    }
}

/// Shows the state of each element.
pub fn show(address: &ControlAddress, json: bool) -> Result<()> {
    let elements = read(address)?;
    if json {
        return output::json_line(&elements);
    }
    let mut rows = vec![output::row([&"element", &"type", &"idle", &"values"])];
    rows.extend(elements.iter().map(|state| {
        let values = state.values.iter().map(|(name, value)| format!("{name} {value}"));
        let values = values.collect::<Vec<_>>().join(", ");
        output::row([&state.name, &state.element, &state.idle, &values])
    }));
    output::table(&rows)?;
    for state in &elements {
        for failure in &state.failures {
            let link = failure.link.as_deref().unwrap_or("a face that ended");
            let age_s = failure.age_ms / 1000;
            outln!(
                "{}: {} from {link}, {age_s} s ago: {}",
                state.name,
                failure.name,
                failure.reason
            )?;
        }
        for name in &state.wanted_certificates {
            outln!("{}: the certificate {name} is needed", state.name)?;
        }
    }
    Ok(())
}

/// Removes cached packets.
pub fn erase(
    address: &ControlAddress,
    element: Option<&str>,
    prefix: &Name,
    packets_max: Option<u64>,
) -> Result<()> {
    let element = element_name(address, "content_store", element)?;
    let erasure = PrefixErasure { prefix: prefix.to_string(), packets_max };
    let body = serde_json::to_value(erasure)?;
    let path = format!("/v1/elements/{element}/erase");
    let erased: ErasedPackets = http::request_json(address, Method::Post, &path, Some(&body))?;
    Ok(outln!("erased {} packets under {prefix}", erased.erased)?)
}

/// Gives the packets of one content store to another one.
pub fn hand_over(args: &HandOver) -> Result<()> {
    let address = |name: &str| Service { name: name.to_owned() }.address();
    let (from, to) = (address(&args.from), address(&args.to));
    let source = element_name(&from, "content_store", args.from_element.as_deref())?;
    let target = element_name(&to, "content_store", args.to_element.as_deref())?;
    let until = Instant::now() + Duration::from_secs(args.seconds);
    let (mut total, mut requests, mut after) = (ImportedPackets::default(), 0, String::new());
    while Instant::now() < until && requests * SLICE_BYTES < args.mib << 20 {
        requests += 1;
        let path = format!("/v1/elements/{source}/packets?bytes={SLICE_BYTES}{after}");
        let slice: CachedPackets = http::request_json(&from, Method::Get, &path, None)?;
        let body = serde_json::to_value(PacketImport { packets: slice.packets })?;
        let path = format!("/v1/elements/{target}/packets");
        let part: ImportedPackets = http::request_json(&to, Method::Post, &path, Some(&body))?;
        total.stored += part.stored;
        total.known += part.known;
        total.rejected += part.rejected;
        total.full += part.full;
        let Some(next) = slice.next.filter(|_| part.full == 0) else { break };
        after = format!("&after={next}");
    }
    let ImportedPackets { stored, known, rejected, full } = total;
    outln!("{stored} packets stored, {known} known already, {rejected} refused")?;
    if full > 0 {
        outln!("{} is full: older packets were not handed over", args.to)?;
    }
    Ok(())
}

/// Shows the routes of a name router.
pub fn routes(address: &ControlAddress, element: Option<&str>, json: bool) -> Result<()> {
    let element = element_name(address, "name_router", element)?;
    let path = format!("/v1/elements/{element}/routes");
    let routes: ElementRoutes = http::request_json(address, Method::Get, &path, None)?;
    if json {
        return output::json_line(&routes);
    }
    let mut rows = vec![output::row([&"prefix", &"link", &"face", &"cost", &"set by", &"ends in"])];
    rows.extend(routes.routes.iter().map(|route| {
        let face = route.face.map_or_else(|| "-".to_owned(), |face| face.to_string());
        let ends = route.expires_ms.map_or_else(|| "-".to_owned(), |ms| format!("{} s", ms / 1000));
        let origin = format!("{:?}", route.origin).to_lowercase();
        output::row([&route.prefix, &route.link, &face, &route.cost, &origin, &ends])
    }));
    output::table(&rows)
}

/// Prints events until the service ends.
pub fn events(address: &ControlAddress, after: Option<&str>, json: bool) -> Result<()> {
    let headers: Vec<(&str, &str)> = after.map(|id| ("Last-Event-ID", id)).into_iter().collect();
    let response = http::request_with(address, Method::Get, "/v1/events", None, &headers)?;
    // The server sends a comment every ten seconds.
    response.set_timeout(Duration::from_secs(60))?;
    for line in BufReader::new(response).lines() {
        let line = line.context("the service has ended")?;
        let Some(data) = line.strip_prefix("data: ") else { continue };
        let event: ServiceEvent = serde_json::from_str(data)?;
        if json {
            output::json_line(&event)?;
            continue;
        }
        let kind = serde_json::to_value(event.kind)?;
        let subjects = [&event.element, &event.link, &event.name, &event.detail];
        let subjects: Vec<&str> = subjects.into_iter().flatten().map(String::as_str).collect();
        outln!("{} {} {}", event.number, kind.as_str().unwrap_or_default(), subjects.join(" "))?;
    }
    Ok(())
}
