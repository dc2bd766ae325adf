//! Options that are right one by one and contradict each other.

use super::problem::Source;
use super::read::Places;
use super::{Config, Reach};
use nw_name::{Name, NameRef};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

/// Prefixes of the FIB have at most so many components.
pub(super) const COMPONENTS_MAX: usize = 32;

pub(super) fn contradictions(config: &Config, places: &Places, source: &mut Source<'_>) {
    let mut check = Check { places, source };
    if !config.unix.enabled && config.unix.path.is_some() {
        check.say(
            "faces.unix.path",
            "a path, while faces.unix.enabled is false",
            "no path, or enabled = true",
        );
    }
    let listens = [&config.tcp.listen, &config.udp.listen, &config.websocket.listen];
    if !config.unix.enabled && listens.iter().all(|listen| listen.is_empty()) {
        check.say(
            "faces.unix.enabled",
            "no listener at all",
            "at least one of faces.unix, faces.tcp, faces.udp and faces.websocket to listen",
        );
    }
    check.listeners("faces.tcp.listen", &config.tcp.listen);
    check.listeners("faces.udp.listen", &config.udp.listen);
    check.listeners("faces.websocket.listen", &config.websocket.listen);
    check.ports(config);
    check.groups(&config.multicast.groups);
    let store = &config.content_store;
    if (store.packets == 0) != (store.mib == 0) {
        let one = if store.packets == 0 { "content_store.packets" } else { "content_store.mib" };
        check.say(one, "0 for one of packets and mib", "0 for both, to have no content store, or for none");
    }
    if config.tables.pit_entries_per_face > config.tables.pit_entries {
        check.say(
            "tables.pit_entries_per_face",
            config.tables.pit_entries_per_face.to_string(),
            format!("at most tables.pit_entries ({})", config.tables.pit_entries),
        );
    }
    let management = &config.management;
    if management.known_key < management.unknown_key {
        check.say(
            "management.known_key",
            "less trust in known keys than in unknown ones",
            "at least what unknown_key says",
        );
    }
    let nobody = [management.digest, management.unknown_key].iter().all(|reach| *reach == Reach::Nowhere);
    if nobody
        && management.trusted_keys.is_empty()
        && !places.keys().any(|option| option.starts_with("allow["))
    {
        let option = if places.contains_key("management.digest") {
            "management.digest"
        } else {
            "management.unknown_key"
        };
        check.say(
            option,
            "rules by which nobody may command the router",
            "trusted_keys, [[allow]], or a wider rule",
        );
    }
    super::trust::contradictions(config, &mut check);
    if config.rib.key.is_some() != config.rib.certificate.is_some() {
        let one = if config.rib.key.is_some() { "rib.key" } else { "rib.certificate" };
        check.say(one, "one of key and certificate", "both, or neither");
    }
    if config.rib.retry_min_s > config.rib.retry_max_s {
        let most = format!("at most rib.retry_max_s ({})", config.rib.retry_max_s);
        check.say("rib.retry_min_s", config.rib.retry_min_s.to_string(), most);
    }
    check.control(config);
    check.items(config);
}

pub(super) struct Check<'a, 'b> {
    places: &'a Places,
    source: &'a mut Source<'b>,
}

impl<'a, 'b> Check<'a, 'b> {
    pub(super) const fn new(places: &'a Places, source: &'a mut Source<'b>) -> Self {
        Check { places, source }
    }
}

impl Check<'_, '_> {
    pub(super) fn say(&mut self, option: &str, seen: impl Into<String>, expected: impl Into<String>) {
        let at = self.places.get(option).cloned().unwrap_or(0..0);
        self.source.problem(&at, option, seen, expected);
    }

    fn listeners(&mut self, option: &str, listen: &[SocketAddr]) {
        for (at, address) in listen.iter().enumerate() {
            let earlier = listen[..at].iter();
            // Port 0 is any free port, so it can't be taken.
            let clash = earlier.filter(|_| address.port() != 0).find(|other| overlaps(**other, *address));
            if let Some(other) = clash {
                self.say(option, format!("{address}, which {other} covers"), "each address and port once");
            }
        }
    }

    /// TCP and WebSocket can't share a port.
    fn ports(&mut self, config: &Config) {
        for address in config.websocket.listen.iter().filter(|address| address.port() != 0) {
            let control = &config.control;
            let mut streams = config.tcp.listen.iter().chain(&control.listen).chain(&control.metrics_listen);
            if let Some(other) = streams.find(|other| overlaps(**other, *address)) {
                let seen = format!("{address}, which {other} of another listener covers");
                self.say("faces.websocket.listen", seen, "a port of its own, such as 9696");
            }
        }
    }

    fn groups(&mut self, groups: &[SocketAddr]) {
        for (at, group) in groups.iter().enumerate() {
            let fits = match group.ip() {
                IpAddr::V4(v4) => v4.is_multicast(),
                // Only groups of one link can be told apart by interface.
                IpAddr::V6(v6) => v6.segments()[0] & 0xff0f == 0xff02,
            };
            if !fits || group.port() == 0 {
                let expected = "group addresses: IPv4 ones from 224.0.0.0 to 239.255.255.255, IPv6 ones of one link, such as [ff02::1234]:56363";
                self.say("faces.multicast.groups", group.to_string(), expected);
            } else if groups[..at].contains(group) {
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
        for metrics in control.metrics_listen.iter().filter(|address| address.port() != 0) {
            if let Some(other) = control.listen.iter().find(|other| overlaps(**other, *metrics)) {
                let seen = format!("{metrics}, which {other} of control.listen covers");
                self.say("control.metrics_listen", seen, "a port of its own");
            }
        }
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

    fn line(&self, option: &str) -> usize {
        self.places.get(option).map_or(0, |at| self.source.line(at.start))
    }
}

/// True when the second can't be listened on beside the first. `[::]` and `0.0.0.0` can: the former is IPv6 only.
fn overlaps(one: SocketAddr, other: SocketAddr) -> bool {
    let same_family = one.is_ipv4() == other.is_ipv4();
    let any = |ip: IpAddr| ip.is_unspecified();
    same_family && one.port() == other.port() && (one.ip() == other.ip() || any(one.ip()) || any(other.ip()))
}
