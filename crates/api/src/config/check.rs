//! Finds options of the router's configuration that are valid one by one and contradict each other.

use super::checker::Check;
use super::{AllowFrom, Config, Page};
use nw_name::{Name, NameRef};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

/// Maximum number of name components of a prefix in the FIB.
pub(super) const COMPONENTS_MAX: usize = 32;
/// Maximum length of a unix socket's path, bytes.
const UNIX_PATH_MAX: usize = 107;

/// Reports all contradictions in a configuration.
pub(super) fn contradictions(config: &Config, check: &mut Check<'_, '_>) {
    sockets(config, check);
    listeners("faces.tcp.listen", &config.tcp.listen, check);
    listeners("faces.udp.listen", &config.udp.listen, check);
    listeners("faces.websocket.listen", &config.websocket.listen, check);
    ports(config, check);
    groups(&config.multicast.groups, check);
    limits(config, check);
    management(config, check);
    super::trust::contradictions(config, check);
    if config.rib.key.is_some() != config.rib.certificate.is_some() {
        let given = if config.rib.key.is_some() { "rib.key" } else { "rib.certificate" };
        check.mismatch(given, "one of key and certificate", "both, or neither");
    }
    control(config, check);
    page(config, check);
    faces(config, check);
    routes(config, check);
    strategies(config, check);
}

fn sockets(config: &Config, check: &mut Check<'_, '_>) {
    if !config.unix.enabled && config.unix.path.is_some() {
        check.mismatch(
            "faces.unix.path",
            "a path, while faces.unix.enabled is false",
            "no path, or enabled = true",
        );
    }
    let listens = [&config.tcp.listen, &config.udp.listen, &config.websocket.listen];
    if !config.unix.enabled && listens.iter().all(|listen| listen.is_empty()) {
        check.mismatch(
            "faces.unix.enabled",
            "no listener at all",
            "at least one of faces.unix, faces.tcp, faces.udp and faces.websocket to listen",
        );
    }
    let paths = [("faces.unix.path", &config.unix.path), ("control.path", &config.control.path)];
    for (option, path) in paths {
        let len = path.as_ref().map_or(0, |path| path.as_os_str().len());
        if len > UNIX_PATH_MAX {
            let expected = format!("at most {UNIX_PATH_MAX}, as the system allows for a socket");
            check.mismatch(option, format!("a path of {len} bytes"), expected);
        }
    }
}

fn limits(config: &Config, check: &mut Check<'_, '_>) {
    let store = &config.content_store;
    if (store.packets == 0) != (store.mib == 0) {
        let zero_option =
            if store.packets == 0 { "content_store.packets" } else { "content_store.mib" };
        check.mismatch(
            zero_option,
            "0 for one of packets and mib",
            "0 for both, to have no content store, or for none",
        );
    }
    let tables = &config.tables;
    if tables.pit_entries_per_face > tables.pit_entries {
        check.mismatch(
            "tables.pit_entries_per_face",
            tables.pit_entries_per_face.to_string(),
            format!("at most tables.pit_entries ({})", tables.pit_entries),
        );
    }
    if config.rib.retry_min_s > config.rib.retry_max_s {
        let expected = format!("at most rib.retry_max_s ({})", config.rib.retry_max_s);
        check.mismatch("rib.retry_min_s", config.rib.retry_min_s.to_string(), expected);
    }
    if config.faces.marking_threshold_kib > config.faces.queue_kib
        && config.faces.congestion_marking
    {
        let expected = format!(
            "at most faces.queue_kib ({}), or no mark is ever made",
            config.faces.queue_kib
        );
        check.mismatch(
            "faces.marking_threshold_kib",
            config.faces.marking_threshold_kib.to_string(),
            expected,
        );
    }
}

fn management(config: &Config, check: &mut Check<'_, '_>) {
    let management = &config.management;
    if management.known_key < management.unknown_key {
        check.mismatch(
            "management.known_key",
            "less trust in known keys than in unknown ones",
            "at least what unknown_key says",
        );
    }
    let accepts_none = [management.digest, management.unknown_key]
        .iter()
        .all(|reach| *reach == AllowFrom::Nowhere);
    if accepts_none && management.trusted_keys.is_empty() && !check.has("allow") {
        let digest = check.has("management.digest");
        check.mismatch(
            if digest { "management.digest" } else { "management.unknown_key" },
            "rules under which no command is accepted",
            "trusted_keys, [[allow]], or a wider rule",
        );
    }
}

fn listeners(option: &str, listen: &[SocketAddr], check: &mut Check<'_, '_>) {
    let mut taken = Taken::default();
    for address in listen {
        if let Some(other) = taken.insert(*address) {
            check.mismatch(
                option,
                format!("{address}, which {other} covers"),
                "each address and port once",
            );
        }
    }
    if let Some(group) = listen.iter().find(|address| address.ip().is_multicast()) {
        check.mismatch(option, format!("{group}, which is a group"), "addresses of this machine");
    }
}

/// Checks that listeners over TCP do not share a port.
fn ports(config: &Config, check: &mut Check<'_, '_>) {
    let mut taken = Taken::default();
    let streams = [
        ("faces.tcp.listen", &config.tcp.listen),
        ("control.listen", &config.control.listen),
        ("control.metrics_listen", &config.control.metrics_listen),
        ("page.listen", &config.page.listen),
        ("faces.websocket.listen", &config.websocket.listen),
    ];
    for (option, listen) in streams {
        let before = taken.clone();
        for address in listen {
            taken.insert(*address);
            if let Some(other) = before.clash(*address) {
                let seen = format!("{address}, which {other} of another listener covers");
                check.mismatch(option, seen, "a port of its own, such as 9696");
            }
        }
    }
}

fn groups(groups: &[SocketAddr], check: &mut Check<'_, '_>) {
    let mut before = BTreeSet::new();
    for group in groups {
        let fits = match group.ip() {
            IpAddr::V4(v4) => v4.is_multicast(),
            // Only groups of one link can be told apart by interface.
            IpAddr::V6(v6) => v6.segments()[0] & 0xff0f == 0xff02,
        };
        if !fits || group.port() == 0 {
            let expected = "multicast addresses: IPv4 from 224.0.0.0 to 239.255.255.255, or link-local \
                            IPv6 such as [ff02::1234]:56363";
            check.mismatch("faces.multicast.groups", group.to_string(), expected);
        } else if !before.insert(group) {
            check.mismatch("faces.multicast.groups", format!("{group} again"), "each group once");
        }
    }
}

fn control(config: &Config, check: &mut Check<'_, '_>) {
    let control = &config.control;
    if !control.enabled && control.path.is_some() {
        check.mismatch(
            "control.path",
            "a path, while control.enabled is false",
            "no path, or enabled = true",
        );
    }
    listeners("control.listen", &control.listen, check);
    listeners("control.metrics_listen", &control.metrics_listen, check);
    let remote =
        |listen: &[SocketAddr]| listen.iter().copied().find(|address| !address.ip().is_loopback());
    for (option, listen) in
        [("control.listen", &control.listen), ("control.metrics_listen", &control.metrics_listen)]
    {
        if let Some(remote) = remote(listen).filter(|_| !control.allow_remote) {
            check.mismatch(
                option,
                format!("{remote}, which other machines reach"),
                "addresses of this machine only, such as 127.0.0.1:6380, or allow_remote = true",
            );
        }
    }
    if control.allow_remote && remote(&control.listen).is_some() && control.token_file.is_none() {
        check.mismatch(
            "control.allow_remote",
            "true, without a token_file",
            "a token_file, as other machines may command the router only with its secret",
        );
    }
}

fn page(config: &Config, check: &mut Check<'_, '_>) {
    listeners("page.listen", &config.page.listen, check);
    for (option, seen, expected) in config.page.contradictions() {
        check.mismatch(option, seen, expected);
    }
}

impl Page {
    /// Returns the options that contradict each other: option, value and what is expected.
    pub fn contradictions(&self) -> Vec<(&'static str, String, &'static str)> {
        let mut found = Vec::new();
        let url = self.public_url.as_deref();
        let is_https = url.is_some_and(|url| url.starts_with("https://"));
        if let Some(url) = url {
            let authority = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
            if authority.is_none_or(|rest| rest.is_empty() || rest.contains(['/', '?'])) {
                let expected = "a scheme, a host and a port, such as https://router.example";
                found.push(("page.public_url", url.to_owned(), expected));
            }
        }
        if self.certificate.is_some() != self.key.is_some() {
            let (option, seen) = match self.key {
                None => ("page.certificate", "a certificate without a key"),
                Some(_) => ("page.key", "a key without a certificate"),
            };
            found.push((option, seen.to_owned(), "both page.certificate and page.key, or none"));
        }
        if self.certificate.is_some() && url.is_some() && !is_https {
            let expected = "a URL with https, as the page has a certificate";
            found.push(("page.public_url", url.unwrap_or_default().to_owned(), expected));
        }
        let has_tls = is_https || self.certificate.is_some();
        match self.listen.iter().find(|address| !address.ip().is_loopback()) {
            Some(remote) if !self.allow_remote => found.push((
                "page.listen",
                format!("{remote}, which other machines reach"),
                "addresses of this machine only, such as 127.0.0.1:6390, or allow_remote = true",
            )),
            Some(_) if self.token_file.is_none() || !has_tls => found.push((
                "page.allow_remote",
                "true, without a token_file, and a certificate or a public_url with https"
                    .to_owned(),
                "both: the page commands the program, and its session must not be sent in clear",
            )),
            _ => {}
        }
        found
    }
}

fn faces(config: &Config, check: &mut Check<'_, '_>) {
    let mut indexes = BTreeMap::new();
    for (index, face) in config.face.iter().enumerate() {
        if let Some(first) = indexes.insert(&face.uri, index) {
            let option = format!("face[{index}].uri");
            let first = check.line(&format!("face[{first}].uri"));
            check.mismatch(&option, format!("the face of line {first} again"), "each face once");
        }
    }
}

fn routes(config: &Config, check: &mut Check<'_, '_>) {
    let own: [Name; 2] =
        ["/localhost/nfd", "/localhop/nfd"].map(|uri| uri.parse().expect("a constant name"));
    let gateway = own[1].clone();
    let mut indexes = BTreeMap::new();
    for (index, route) in config.route.iter().enumerate() {
        let option = format!("route[{index}].prefix");
        prefix_len(&option, route.prefix.as_ref(), check);
        // A route for /localhop/nfd itself is allowed: it marks a face as a gateway.
        let is_own = own.iter().any(|name| name.as_ref().is_prefix_of(route.prefix.as_ref()));
        if is_own && route.prefix != gateway {
            check.mismatch(
                &option,
                route.prefix.to_string(),
                "a prefix that is not the router's own",
            );
        }
        if let Some(first) = indexes.insert((&route.prefix, &route.face), index) {
            let first = check.line(&format!("route[{first}].prefix"));
            check.mismatch(
                &option,
                format!("the route of line {first} again"),
                "each prefix and face once",
            );
        }
    }
}

fn strategies(config: &Config, check: &mut Check<'_, '_>) {
    let mut indexes = BTreeMap::new();
    for (index, choice) in config.strategy.iter().enumerate() {
        let option = format!("strategy[{index}].prefix");
        prefix_len(&option, choice.prefix.as_ref(), check);
        if let Some(first) = indexes.insert(&choice.prefix, index) {
            let first = check.line(&format!("strategy[{first}].prefix"));
            let seen = format!("the prefix of line {first} again");
            check.mismatch(&option, seen, "one strategy for each prefix");
        }
    }
}

fn prefix_len(option: &str, prefix: NameRef<'_>, check: &mut Check<'_, '_>) {
    if prefix.len() > COMPONENTS_MAX {
        check.mismatch(
            option,
            format!("{} components", prefix.len()),
            format!("at most {COMPONENTS_MAX} components"),
        );
    }
}

/// The addresses of listeners.
#[derive(Clone, Debug, Default)]
struct Taken {
    /// Sorted by family, port and address, so that the addresses of a port are adjacent and the
    /// unspecified address is first.
    by_port: BTreeSet<(bool, u16, IpAddr)>,
}

impl Taken {
    /// Inserts an address. Returns an address inserted earlier that conflicts with it.
    fn insert(&mut self, address: SocketAddr) -> Option<SocketAddr> {
        let clash = self.clash(address);
        self.by_port.insert((address.is_ipv4(), address.port(), address.ip()));
        clash
    }

    /// Returns an address that conflicts with this one.
    ///
    /// `[::]` and `0.0.0.0` do not conflict, as the former is IPv6 only. Port 0 is any free port,
    /// so it never conflicts.
    fn clash(&self, address: SocketAddr) -> Option<SocketAddr> {
        let (is_v4, port) = (address.is_ipv4(), address.port());
        if port == 0 {
            return None;
        }
        let unspecified: IpAddr = if is_v4 { [0, 0, 0, 0].into() } else { [0u16; 8].into() };
        let is_taken = |ip: &IpAddr| self.by_port.contains(&(is_v4, port, *ip));
        let covering = [address.ip(), unspecified].into_iter().find(is_taken);
        let of_port = || {
            let mut of_port = self.by_port.range((is_v4, port, unspecified)..);
            of_port
                .next()
                .filter(|(entry_is_v4, entry_port, _)| (*entry_is_v4, *entry_port) == (is_v4, port))
                .map(|(.., ip)| *ip)
        };
        let covering =
            covering.or_else(|| if address.ip().is_unspecified() { of_port() } else { None });
        covering.map(|ip| SocketAddr::new(ip, port))
    }
}
