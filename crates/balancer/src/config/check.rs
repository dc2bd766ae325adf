//! What is right option by option and wrong together.

use super::options::{Cluster, MemberItem};
use super::{Config, Weight};
use nw_api::config::problem::Source;
use nw_api::config::read::Places;
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

/// Members are numbered from 1 on in six bits.
pub const MEMBERS_MAX: usize = 63;

/// What is wrong with a member among others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The option.
    pub option: &'static str,
    /// What is there.
    pub seen: String,
    /// What should be.
    pub expected: String,
}

impl core::fmt::Display for Fault {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}: saw {}; expected {}", self.option, self.seen, self.expected)
    }
}

/// What keeps `member` from standing beside `others` in a cluster.
pub fn member_faults(cluster: &Cluster, member: &MemberItem, others: &[MemberItem]) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut fault = |option, seen: String, expected: String| faults.push(Fault { option, seen, expected });
    if !is_word(&member.name) {
        let expected = "letters, digits, - and _, at most 32";
        fault("name", format!("{:?}", member.name), expected.to_owned());
    }
    if others.iter().any(|other| other.name == member.name) {
        fault("name", format!("{:?} again", member.name), "a name that no other member has".to_owned());
    }
    if member.port == cluster.port {
        let seen = format!("{}, which is the cluster's port", member.port);
        fault(
            "port",
            seen,
            "a port of the member's own: what comes to it there is told from what comes to the cluster"
                .to_owned(),
        );
    }
    if let Some(other) = others.iter().find(|other| other.port == member.port) {
        let seen = format!("{}, which {} has already", member.port, other.name);
        fault("port", seen, "a port that no other member has: answers find their member by it".to_owned());
    }
    for (family, is_family) in FAMILIES {
        let count = member.addresses.iter().filter(|ip| is_family(&ip.0)).count();
        let wanted = cluster.addresses.iter().any(|ip| is_family(&ip.0));
        if count > 1 {
            let seen = format!("{count} addresses of {family}");
            fault("addresses", seen, "at most one of each family".to_owned());
        }
        if wanted && count == 0 {
            let seen = format!("no address of {family}");
            fault(
                "addresses",
                seen,
                format!("one, as the cluster has one: what comes by {family} leaves by it"),
            );
        }
    }
    for ip in &member.addresses {
        if cluster.addresses.contains(ip) {
            let seen = format!("{}, which is the cluster's", ip.0);
            fault("addresses", seen, "an address of the member's own".to_owned());
        }
    }
    if member.weight == Weight::Fixed(0) {
        fault(
            "weight",
            "0".to_owned(),
            "1 or more; `nw balancer drain` takes a member's names away".to_owned(),
        );
    }
    if others.len() >= MEMBERS_MAX {
        fault("name", format!("member {}", others.len() + 1), format!("at most {MEMBERS_MAX} members"));
    }
    faults
}

type IsOf = fn(&IpAddr) -> bool;

const FAMILIES: [(&str, IsOf); 2] = [("IPv4", IpAddr::is_ipv4), ("IPv6", IpAddr::is_ipv6)];

/// Fit for a component of a name, a file's name and a metric's label.
pub(crate) fn is_word(text: &str) -> bool {
    let plain = |octet: u8| octet.is_ascii_alphanumeric() || b"-_".contains(&octet);
    (1..=32).contains(&text.len()) && text.bytes().all(plain)
}

/// Notes what contradicts.
pub(super) fn contradictions(config: &Config, places: &Places, source: &mut Source<'_>) {
    let mut problem = |option: &str, seen: String, expected: &str| {
        let shown = places.shown(option);
        if !source.is_unread(&shown) {
            source.problem(&places.near(option), shown, seen, expected);
        }
    };
    let cluster = &config.cluster;
    if !is_word(&cluster.name) {
        problem("cluster.name", format!("{:?}", cluster.name), "letters, digits, - and _, at most 32");
    }
    if cluster.addresses.is_empty() {
        problem(
            "cluster.addresses",
            "none".to_owned(),
            "the address of the cluster, such as [\"192.0.2.1\"]",
        );
    }
    for (family, is_family) in FAMILIES {
        let count = cluster.addresses.iter().filter(|ip| is_family(&ip.0)).count();
        if count > 1 {
            let seen = format!("{count} addresses of {family}");
            problem("cluster.addresses", seen, "at most one of each family");
        }
    }
    if cluster.interfaces.is_empty() {
        let expected =
            "the interfaces that packets of clients and members come by; `ip link` lists those there are";
        problem("cluster.interfaces", "none".to_owned(), expected);
    }
    let names: BTreeSet<_> = cluster.interfaces.iter().collect();
    if names.len() != cluster.interfaces.len() {
        problem("cluster.interfaces", "one of them twice".to_owned(), "each interface once");
    }
    if cluster.secret.is_some() && cluster.key_file.is_some() {
        problem("cluster.secret", "a secret beside a key_file".to_owned(), "one of them");
    }
    if cluster.secret.as_ref().is_some_and(|secret| secret.len() < 16) {
        let expected = "at least 16 characters: who guesses it chooses names that all fall to one member";
        problem("cluster.secret", "a short one".to_owned(), expected);
    }
    if cluster.ethernet_outside.is_some() != cluster.ethernet_inside.is_some() {
        let option = match cluster.ethernet_outside {
            Some(_) => "cluster.ethernet_outside",
            None => "cluster.ethernet_inside",
        };
        problem(option, "one interface".to_owned(), "ethernet_outside and ethernet_inside, or neither");
    }
    for (index, member) in config.member.iter().enumerate() {
        for fault in member_faults(cluster, member, &config.member[..index]) {
            let option = format!("member[{index}].{}", fault.option);
            problem(&option, fault.seen, &fault.expected);
        }
    }
    match &cluster.control_member {
        Some(name) if !config.member.iter().any(|member| member.name == *name) => {
            let there: Vec<_> = config.member.iter().map(|member| member.name.as_str()).collect();
            let expected = format!("one of the members: {}", there.join(", "));
            problem("cluster.control_member", format!("{name:?}"), &expected);
        }
        None if !config.member.is_empty() => {
            let expected = "the name of the member that commands go to and whose routes the others get";
            problem("cluster.control_member", "none".to_owned(), expected);
        }
        _ => {}
    }
    let is_control = |member: &MemberItem| cluster.control_member.as_ref() == Some(&member.name);
    if let Some(index) = config.member.iter().position(is_control)
        && config.routes.replicate
        && config.member[index].control.is_none()
    {
        let expected =
            "the socket of its router, as the others get its routes; or replicate = false in [routes]";
        problem(&format!("member[{index}].control"), "none".to_owned(), expected);
    }
    rules(config, &mut problem);
    let elastic = &config.elastic;
    if elastic.members_min > elastic.members_max {
        let seen = format!("{} above members_max, {}", elastic.members_min, elastic.members_max);
        problem("elastic.members_min", seen, "at most members_max");
    }
    if elastic.low_percent >= elastic.high_percent {
        let seen = format!("{}, with high_percent {}", elastic.low_percent, elastic.high_percent);
        problem("elastic.low_percent", seen, "less than high_percent, or members come and go all the time");
    }
    if elastic.enabled {
        elastic_faults(config, &mut problem);
    }
    let control = &config.control;
    let remote = |listen: &[SocketAddr]| listen.iter().copied().find(|address| !address.ip().is_loopback());
    for (option, listen, expected) in [
        ("control.listen", &control.listen, "a loopback address, or allow_remote = true and a token_file"),
        ("control.metrics_listen", &control.metrics_listen, "a loopback address, or allow_remote = true"),
    ] {
        if let Some(remote) = remote(listen).filter(|_| !control.allow_remote) {
            problem(option, format!("{remote}, which other machines reach"), expected);
        }
    }
    if control.allow_remote && remote(&control.listen).is_some() && control.token_file.is_none() {
        problem("control.allow_remote", "no token_file".to_owned(), "a token_file beside it");
    }
    if config.health.slow_ms > config.health.timeout_ms {
        let seen = format!("{}, above timeout_ms", config.health.slow_ms);
        problem("health.slow_ms", seen, "at most timeout_ms");
    }
}

fn rules(config: &Config, problem: &mut impl FnMut(&str, String, &str)) {
    for (index, rule) in config.rule.iter().enumerate() {
        let option = format!("rule[{index}].prefix");
        let len = rule.prefix.as_ref().len();
        if rule.depth.is_some() == rule.control {
            let seen = if rule.control { "depth and control" } else { "neither depth nor control" };
            problem(&option, seen.to_owned(), "depth = N, or control = true");
        }
        if !(1..=16).contains(&len) {
            problem(&option, format!("{len} components"), "1 to 16 components");
        }
        if rule.depth.is_some_and(|depth| (depth as usize) < len) {
            let seen = format!("depth {} below the prefix' {len} components", rule.depth.unwrap_or(0));
            problem(&option, seen, "a depth of at least the prefix' length: the rule is found at its end");
        }
        if config.rule[..index].iter().any(|other| other.prefix == rule.prefix) {
            problem(&option, format!("{} again", rule.prefix), "each prefix once");
        }
    }
}

fn elastic_faults(config: &Config, problem: &mut impl FnMut(&str, String, &str)) {
    let elastic = &config.elastic;
    if elastic.addresses.is_empty() {
        let expected = "addresses for the members that are started, one each";
        problem("elastic.addresses", "none".to_owned(), expected);
    }
    let ports = elastic.port_first..elastic.port_first + elastic.addresses.len() as u32;
    if ports.contains(&config.cluster.port) {
        let seen = format!("{} to {}, the cluster's among them", ports.start, ports.end - 1);
        problem("elastic.port_first", seen, "ports that nobody else has");
    }
    if let Some(member) = config.member.iter().find(|member| ports.contains(&member.port)) {
        let seen = format!("{} to {}, {}'s among them", ports.start, ports.end - 1, member.name);
        problem("elastic.port_first", seen, "ports that nobody else has");
    }
    let taken = |ip| config.cluster.addresses.contains(ip);
    if elastic.addresses.iter().any(taken) {
        problem("elastic.addresses", "the cluster's address".to_owned(), "addresses of members");
    }
}
