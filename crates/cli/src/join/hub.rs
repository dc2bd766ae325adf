//! The search for a hub, in the order of ndn-autoconfig: multicast, DNS by the search list, a hub
//! finder (FCH), DNS by the name of the site. The last two only if the user wants them.
//!
//! Invariant: multicast and DNS search side by side, then the other two, which show outside that
//! there is a site here. Order decides between their answers, so a silent one delays no later one,
//! and the whole search ends within [`LOCAL_TIMEOUT`] and [`OUTSIDE_TIMEOUT`].

use super::{dns, fch, multicast};
use crate::exit::{Failure, Status};
use crate::parse::canonical_uri;
use anyhow::{Context, Result};
use core::time::Duration;
use nw_api::config::file::read_text;
use nw_name::Name;
use std::path::Path;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Instant;

/// How long the search by DNS may take, with the address of the hub that it names.
const LOCAL_TIMEOUT: Duration = Duration::from_millis(1500);
/// How long a hub finder, and DNS for the name of the site, may take.
const OUTSIDE_TIMEOUT: Duration = Duration::from_millis(2500);
/// Longest resolver configuration, bytes.
const RESOLVER_LEN_MAX: u64 = 64 << 10;

/// A hub, and how it was found.
#[derive(Clone, Debug)]
pub struct Hub {
    /// Canonical face URI.
    pub uri: String,
    /// `given`, `multicast`, `DNS`, `FCH` or `home hub`.
    pub source: &'static str,
}

impl Hub {
    /// Returns the hub that the user names.
    pub fn configured(uri: &str) -> Result<Self> {
        let text = if uri.contains("://") { uri.to_owned() } else { format!("udp4://{uri}") };
        Ok(Hub { uri: canonical_uri(&text)?, source: "given" })
    }
}

/// What the user allows in the search.
#[derive(Clone, Copy, Debug)]
pub struct Search<'a> {
    /// Resolver configuration.
    pub resolver: &'a Path,
    /// URL of a hub finder, if one may be asked.
    pub fch: Option<&'a str>,
    /// Name of the site, if DNS may be asked for its hub.
    pub home_hub_of: Option<&'a Name>,
}

/// A search that runs in a thread of its own. One that is not awaited ends with the process.
struct Pending<T> {
    answer: Receiver<T>,
    deadline: Instant,
}

impl<T: Send + 'static> Pending<T> {
    fn start(timeout: Duration, search: impl FnOnce() -> T + Send + 'static) -> Self {
        let (sender, answer) = sync_channel(1);
        let run = move || drop(sender.send(search()));
        if let Err(error) = std::thread::Builder::new().name("hub search".into()).spawn(run) {
            tracing::debug!(%error, "no thread for a search");
        }
        Pending { answer, deadline: Instant::now() + timeout }
    }

    /// Returns what the search found. `None` after its time.
    fn wait(self) -> Option<T> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        self.answer.recv_timeout(left).ok()
    }
}

/// Finds a hub. Changes nothing in the router.
pub fn find(search: &Search<'_>) -> Result<Hub> {
    let text = read_text(search.resolver, RESOLVER_LEN_MAX).unwrap_or_default();
    let resolver = dns::ResolverConfig::parse(&text);
    let config = resolver.clone();
    let by_dns = Pending::start(LOCAL_TIMEOUT, move || {
        dns::find_hub(&config).map(|found| hub_at(&found, "DNS"))
    });
    let mut hubs = multicast::find_hubs().unwrap_or_else(|error| {
        tracing::debug!(%error, "no search by multicast");
        Vec::new()
    });
    if let Some(uri) = choose(&mut hubs) {
        let uri = canonical_uri(&uri).context("the hub that answers has no usable address")?;
        return Ok(Hub { uri, source: "multicast" });
    }
    if let Some(found) = by_dns.wait().flatten() {
        return found;
    }
    if let Some(found) = find_outside(search, resolver) {
        return found;
    }
    let text = "no hub answers by multicast, and DNS names none in the search domains: name one \
                with --hub, such as --hub udp4://192.0.2.1, or a hub finder with --fch";
    Err(Failure::new(Status::NotFound, text.to_owned()).into())
}

/// Asks those outside this network that the user allows. `None` if they are none, or know no hub.
fn find_outside(search: &Search<'_>, resolver: dns::ResolverConfig) -> Option<Result<Hub>> {
    let by_finder = search.fch.map(|url| {
        let asked = url.to_owned();
        let find = move || hub_at(&fch::find_hub(&asked)?, "FCH");
        (url, Pending::start(OUTSIDE_TIMEOUT, find))
    });
    let by_site = search.home_hub_of.cloned().map(|site| {
        Pending::start(OUTSIDE_TIMEOUT, move || {
            dns::find_home_hub(&resolver, &site).map(|found| hub_at(&found, "home hub"))
        })
    });
    let by_finder = by_finder.map(|(url, pending)| {
        pending.wait().unwrap_or_else(|| {
            let text = format!("the hub finder {url} does not answer: name a hub with --hub");
            Err(Failure::new(Status::Failed, text).into())
        })
    });
    match by_finder {
        Some(Ok(hub)) => Some(Ok(hub)),
        // A home hub makes up for a finder that fails.
        failed => by_site.and_then(Pending::wait).flatten().or(failed),
    }
}

/// Returns one of the hubs that answer: by UDP rather than by another transport, then the one with
/// the first URI in order. Says so if there are several.
fn choose(hubs: &mut [String]) -> Option<String> {
    hubs.sort_by_key(|uri| (!uri.starts_with("udp"), uri.clone()));
    let chosen = hubs.first()?.clone();
    if hubs.len() > 1 {
        note!(
            "{} hubs answer: {}; {chosen} is chosen (UDP first, then by order); --hub names another",
            hubs.len(),
            hubs.join(", ")
        );
    }
    Some(chosen)
}

fn hub_at((host, port): &(String, u16), source: &'static str) -> Result<Hub> {
    let uri = canonical_uri(&format!("udp4://{host}:{port}"))
        .with_context(|| format!("the hub {host} ({source}) has no address"))?;
    Ok(Hub { uri, source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hub_by_udp_with_first_uri_is_chosen() {
        let mut hubs = ["tcp4://192.0.2.1:6363", "udp4://192.0.2.9:6363", "udp4://192.0.2.3:6363"]
            .map(str::to_owned);
        assert_eq!(choose(&mut hubs).as_deref(), Some("udp4://192.0.2.3:6363"));
        assert_eq!(choose(&mut hubs[2..]).as_deref(), Some("tcp4://192.0.2.1:6363"));
        assert_eq!(choose(&mut []), None);
    }
}
