//! Options that are right one by one and contradict each other.

use super::problem::Source;
use super::read::Places;
use super::{Config, Reach};
use nw_name::{Name, NameRef};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

/// Prefixes of the FIB have at most so many components.
pub(super) const COMPONENTS_MAX: usize = 32;
/// Bytes of a unix socket's path, at most.
const UNIX_PATH_MAX: usize = 107;

pub(super) fn contradictions(config: &Config, check: &mut Check<'_, '_>) {
    check.sockets(config);
    check.listeners("faces.tcp.listen", &config.tcp.listen);
    check.listeners("faces.udp.listen", &config.udp.listen);
    check.listeners("faces.websocket.listen", &config.websocket.listen);
    check.ports(config);
    check.groups(&config.multicast.groups);
    check.limits(config);
    check.management(config);
    super::trust::contradictions(config, check);
    if config.rib.key.is_some() != config.rib.certificate.is_some() {
        let one = if config.rib.key.is_some() { "rib.key" } else { "rib.certificate" };
        check.say(one, "one of key and certificate", "both, or neither");
    }
    check.control(config);
    check.items(config);
}

/// Notes what is wrong with a configuration, at the place where the file says it.
#[derive(Debug)]
pub struct Check<'a, 'b> {
    places: &'a Places,
    source: &'a mut Source<'b>,
}

impl<'a, 'b> Check<'a, 'b> {
    pub(super) const fn new(places: &'a Places, source: &'a mut Source<'b>) -> Self {
        Check { places, source }
    }

    /// Notes that an option has one value and should have another. An option that could not be read is left out.
    pub fn say(&mut self, option: &str, seen: impl Into<String>, expected: impl Into<String>) {
        let shown = self.places.shown(option);
        if !self.source.is_unread(&shown) {
            self.source.problem(&self.places.near(option), shown, seen, expected);
        }
    }

    /// Notes a mistake as a sentence.
    pub fn sentence(&mut self, option: &str, sentence: impl Into<String>) {
        let shown = self.places.shown(option);
        if !self.source.is_unread(&shown) {
            self.source.sentence(&self.places.near(option), shown, sentence);
        }
    }

    /// Returns true when the file has this option, item or section.
    pub fn has(&self, option: &str) -> bool {
        self.places.contains(option)
    }

    fn line(&self, option: &str) -> usize {
        self.source.line(self.places.near(option).start)
    }

    fn sockets(&mut self, config: &Config) {
        if !config.unix.enabled && config.unix.path.is_some() {
            self.say(
                "faces.unix.path",
                "a path, while faces.unix.enabled is false",
                "no path, or enabled = true",
            );
        }
        let listens = [&config.tcp.listen, &config.udp.listen, &config.websocket.listen];
        if !config.unix.enabled && listens.iter().all(|listen| listen.is_empty()) {
            self.say(
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
                self.say(option, format!("a path of {len} bytes"), expected);
            }
        }
    }

    fn limits(&mut self, config: &Config) {
        let store = &config.content_store;
        if (store.packets == 0) != (store.mib == 0) {
            let one = if store.packets == 0 { "content_store.packets" } else { "content_store.mib" };
            self.say(
                one,
                "0 for one of packets and mib",
                "0 for both, to have no content store, or for none",
            );
        }
        let tables = &config.tables;
        if tables.pit_entries_per_face > tables.pit_entries {
            self.say(
                "tables.pit_entries_per_face",
                tables.pit_entries_per_face.to_string(),
                format!("at most tables.pit_entries ({})", tables.pit_entries),
            );
        }
        if config.rib.retry_min_s > config.rib.retry_max_s {
            let most = format!("at most rib.retry_max_s ({})", config.rib.retry_max_s);
            self.say("rib.retry_min_s", config.rib.retry_min_s.to_string(), most);
        }
        if config.faces.marking_threshold_kib > config.faces.queue_kib && config.faces.congestion_marking {
            let most =
                format!("at most faces.queue_kib ({}), or no mark is ever made", config.faces.queue_kib);
            self.say("faces.marking_threshold_kib", config.faces.marking_threshold_kib.to_string(), most);
        }
    }

    fn management(&mut self, config: &Config) {
        let management = &config.management;
        if management.known_key < management.unknown_key {
            self.say(
                "management.known_key",
                "less trust in known keys than in unknown ones",
                "at least what unknown_key says",
            );
        }
        let nobody = [management.digest, management.unknown_key].iter().all(|reach| *reach == Reach::Nowhere);
        if nobody && management.trusted_keys.is_empty() && !self.has("allow") {
            let digest = self.has("management.digest");
            self.say(
                if digest { "management.digest" } else { "management.unknown_key" },
                "rules under which no command is accepted",
                "trusted_keys, [[allow]], or a wider rule",
            );
        }
    }

    fn listeners(&mut self, option: &str, listen: &[SocketAddr]) {
        let mut taken = Taken::default();
        for address in listen {
            if let Some(other) = taken.insert(*address) {
                self.say(option, format!("{address}, which {other} covers"), "each address and port once");
            }
        }
        if let Some(group) = listen.iter().find(|address| address.ip().is_multicast()) {
            self.say(option, format!("{group}, which is a group"), "addresses of this machine");
        }
    }

    /// TCP and WebSocket can't share a port.
    fn ports(&mut self, config: &Config) {
        let mut taken = Taken::default();
        let streams = [
            ("faces.tcp.listen", &config.tcp.listen),
            ("control.listen", &config.control.listen),
            ("control.metrics_listen", &config.control.metrics_listen),
            ("faces.websocket.listen", &config.websocket.listen),
        ];
        for (option, listen) in streams {
            let before = taken.clone();
            for address in listen {
                taken.insert(*address);
                if let Some(other) = before.clash(*address) {
                    let seen = format!("{address}, which {other} of another listener covers");
                    self.say(option, seen, "a port of its own, such as 9696");
                }
            }
        }
    }

    fn groups(&mut self, groups: &[SocketAddr]) {
        let mut before = BTreeSet::new();
        for group in groups {
            let fits = match group.ip() {
                IpAddr::V4(v4) => v4.is_multicast(),
                // Only groups of one link can be told apart by interface.
                IpAddr::V6(v6) => v6.segments()[0] & 0xff0f == 0xff02,
            };
            if !fits || group.port() == 0 {
                let expected = "group addresses: IPv4 ones from 224.0.0.0 to 239.255.255.255, IPv6 ones of one link, such as [ff02::1234]:56363";
                self.say("faces.multicast.groups", group.to_string(), expected);
            } else if !before.insert(group) {
                self.say("faces.multicast.groups", format!("{group} again"), "each group once");
            }
        }
    }

    fn control(&mut self, config: &Config) {
        let control = &config.control;
        if !control.enabled && control.path.is_some() {
            self.say("control.path", "a path, while control.enabled is false", "no path, or enabled = true");
        }
        self.listeners("control.listen", &control.listen);
        self.listeners("control.metrics_listen", &control.metrics_listen);
        let remote =
            |listen: &[SocketAddr]| listen.iter().copied().find(|address| !address.ip().is_loopback());
        for (option, listen) in
            [("control.listen", &control.listen), ("control.metrics_listen", &control.metrics_listen)]
        {
            if let Some(remote) = remote(listen).filter(|_| !control.allow_remote) {
                self.say(
                    option,
                    format!("{remote}, which other machines reach"),
                    "addresses of this machine only, such as 127.0.0.1:6380, or allow_remote = true",
                );
            }
        }
        if control.allow_remote && remote(&control.listen).is_some() && control.token_file.is_none() {
            self.say(
                "control.allow_remote",
                "true, without a token_file",
                "a token_file, as other machines may command the router only with its secret",
            );
        }
    }

    fn items(&mut self, config: &Config) {
        let reserved: [Name; 2] =
            ["/localhost/nfd", "/localhop/nfd"].map(|uri| uri.parse().expect("a constant name"));
        let gateway = reserved[1].clone();
        let mut faces = BTreeMap::new();
        for (index, face) in config.face.iter().enumerate() {
            if let Some(first) = faces.insert(&face.uri, index) {
                let option = format!("face[{index}].uri");
                let first = self.line(&format!("face[{first}].uri"));
                self.say(&option, format!("the face of line {first} again"), "each face once");
            }
        }
        let mut routes = BTreeMap::new();
        for (index, route) in config.route.iter().enumerate() {
            let option = format!("route[{index}].prefix");
            self.prefix(&option, route.prefix.as_ref());
            // The way to a gateway is a route like any other.
            let reserved = reserved.iter().any(|name| name.as_ref().is_prefix_of(route.prefix.as_ref()));
            if reserved && route.prefix != gateway {
                self.say(&option, route.prefix.to_string(), "a prefix that is not the router's own");
            }
            if let Some(first) = routes.insert((&route.prefix, &route.face), index) {
                let first = self.line(&format!("route[{first}].prefix"));
                self.say(&option, format!("the route of line {first} again"), "each prefix and face once");
            }
        }
        let mut strategies = BTreeMap::new();
        for (index, choice) in config.strategy.iter().enumerate() {
            let option = format!("strategy[{index}].prefix");
            self.prefix(&option, choice.prefix.as_ref());
            if let Some(first) = strategies.insert(&choice.prefix, index) {
                let first = self.line(&format!("strategy[{first}].prefix"));
                self.say(
                    &option,
                    format!("the prefix of line {first} again"),
                    "one strategy for each prefix",
                );
            }
        }
    }

    fn prefix(&mut self, option: &str, prefix: NameRef<'_>) {
        if prefix.len() > COMPONENTS_MAX {
            self.say(
                option,
                format!("{} components", prefix.len()),
                format!("at most {COMPONENTS_MAX} components"),
            );
        }
    }
}

/// Addresses that are listened on.
#[derive(Clone, Debug, Default)]
struct Taken {
    /// All of them, ports first, so that those of a port stand together: any address first.
    by_port: BTreeSet<(bool, u16, IpAddr)>,
}

impl Taken {
    /// Returns what is listened on already and covers this address.
    fn insert(&mut self, address: SocketAddr) -> Option<SocketAddr> {
        let clash = self.clash(address);
        self.by_port.insert((address.is_ipv4(), address.port(), address.ip()));
        clash
    }

    /// `[::]` and `0.0.0.0` do not cover each other: the former is IPv6 only. Port 0 is any free port, so it can't be taken.
    fn clash(&self, address: SocketAddr) -> Option<SocketAddr> {
        let (v4, port) = (address.is_ipv4(), address.port());
        if port == 0 {
            return None;
        }
        let any: IpAddr = if v4 { [0, 0, 0, 0].into() } else { [0u16; 8].into() };
        let is_taken = |ip: &IpAddr| self.by_port.contains(&(v4, port, *ip));
        let covering = [address.ip(), any].into_iter().find(is_taken);
        let of_port = || {
            let mut of_port = self.by_port.range((v4, port, any)..);
            of_port
                .next()
                .filter(|(its_v4, its_port, _)| (*its_v4, *its_port) == (v4, port))
                .map(|(.., ip)| *ip)
        };
        let covering = covering.or_else(|| if address.ip().is_unspecified() { of_port() } else { None });
        covering.map(|ip| SocketAddr::new(ip, port))
    }
}
