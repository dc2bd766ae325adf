//! Checks of the configuration that involve more than one option.

use super::options::{Cluster, Elastic, LauncherKind, MemberItem};
use super::{Config, Weight};
use nw_api::config::diagnostics::Source;
use nw_api::config::read::Places;
use nw_api::config::{Diagnostics, file};
use std::collections::BTreeSet;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// Maximum number of members: numbers from 1 in six bits.
pub const MEMBERS_MAX: usize = 63;

/// A fault of a member that is to join a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The option, such as `port`.
    pub option: &'static str,
    /// The value found.
    pub seen: String,
    /// The value expected.
    pub expected: String,
}

impl core::fmt::Display for Fault {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}: saw {}; expected {}", self.option, self.seen, self.expected)
    }
}

/// Returns all reasons why `member` can't join a cluster with the members `others`.
pub fn member_faults(cluster: &Cluster, member: &MemberItem, others: &[MemberItem]) -> Vec<Fault> {
    let mut faults = Vec::new();
    let mut fault =
        |option, seen: String, expected: String| faults.push(Fault { option, seen, expected });
    if !is_identifier(&member.name) {
        let expected = "letters, digits, - and _, at most 32";
        fault("name", format!("{:?}", member.name), expected.to_owned());
    }
    if others.iter().any(|other| other.name == member.name) {
        fault(
            "name",
            format!("{:?} again", member.name),
            "a name that no other member has".to_owned(),
        );
    }
    if member.port == cluster.port {
        let seen = format!("{}, which is the cluster's port", member.port);
        fault(
            "port",
            seen,
            "a port of the member's own, which distinguishes its packets from those for the cluster"
                .to_owned(),
        );
    }
    if let Some(other) = others.iter().find(|other| other.port == member.port) {
        let seen = format!("{}, which {} has already", member.port, other.name);
        fault(
            "port",
            seen,
            "a port that no other member has, as replies find their member by it".to_owned(),
        );
    }
    for (family, is_family) in FAMILIES {
        let count = member.addresses.iter().filter(|ip| is_family(&ip.0)).count();
        let is_needed = cluster.addresses.iter().any(|ip| is_family(&ip.0));
        if count > 1 {
            let seen = format!("{count} addresses of {family}");
            fault("addresses", seen, "at most one of each family".to_owned());
        }
        if is_needed && count == 0 {
            let seen = format!("no address of {family}");
            fault("addresses", seen, format!("one, as the cluster has an address of {family}"));
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
            "1 or more; use `nw balancer drain` to take all names from a member".to_owned(),
        );
    }
    if others.len() >= MEMBERS_MAX {
        fault(
            "name",
            format!("member {}", others.len() + 1),
            format!("at most {MEMBERS_MAX} members"),
        );
    }
    faults
}

type IsOf = fn(&IpAddr) -> bool;

const FAMILIES: [(&str, IsOf); 2] = [("IPv4", IpAddr::is_ipv4), ("IPv6", IpAddr::is_ipv6)];

/// Returns whether the text is fit for a name component, a file name and a metric label.
pub(crate) fn is_identifier(text: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    (1..=32).contains(&text.len()) && text.bytes().all(is_allowed)
}

/// Where faults are reported: the option, the value found, the value expected.
type Report<'a> = dyn FnMut(&str, String, &str) + 'a;

/// Reports all contradictions between options.
pub(super) fn contradictions(config: &Config, places: &Places, source: &mut Source<'_>) {
    let mut problem = |option: &str, seen: String, expected: &str| {
        let shown = places.shown(option);
        if !source.is_unread(&shown) {
            source.mismatch(&places.near(option), shown, seen, expected);
        }
    };
    cluster_faults(&config.cluster, &mut problem);
    for (index, member) in config.member.iter().enumerate() {
        for fault in member_faults(&config.cluster, member, &config.member[..index]) {
            let option = format!("member[{index}].{}", fault.option);
            problem(&option, fault.seen, &fault.expected);
        }
    }
    control_member_faults(config, &mut problem);
    rules(config, &mut problem);
    elastic_faults(config, &mut problem);
    control_socket_faults(config, &mut problem);
    if config.health.slow_ms > config.health.timeout_ms {
        let seen = format!("{}, above timeout_ms", config.health.slow_ms);
        problem("health.slow_ms", seen, "at most timeout_ms");
    }
    files(config, |option, sentence| source.sentence(&places.near(option), option, sentence));
}

fn cluster_faults(cluster: &Cluster, problem: &mut Report<'_>) {
    if !is_identifier(&cluster.name) {
        problem(
            "cluster.name",
            format!("{:?}", cluster.name),
            "letters, digits, - and _, at most 32",
        );
    }
    if cluster.addresses.is_empty() {
        let expected = "the address of the cluster, such as [\"192.0.2.1\"]";
        problem("cluster.addresses", "none".to_owned(), expected);
    }
    for (family, is_family) in FAMILIES {
        let count = cluster.addresses.iter().filter(|ip| is_family(&ip.0)).count();
        if count > 1 {
            let seen = format!("{count} addresses of {family}");
            problem("cluster.addresses", seen, "at most one of each family");
        }
    }
    if cluster.interfaces.is_empty() {
        let expected = "the interfaces towards clients and members; `ip link` lists all interfaces";
        problem("cluster.interfaces", "none".to_owned(), expected);
    }
    let names: BTreeSet<_> = cluster.interfaces.iter().collect();
    if names.len() != cluster.interfaces.len() {
        problem("cluster.interfaces", "an interface twice".to_owned(), "each interface once");
    }
    if cluster.secret.is_some() && cluster.key_file.is_some() {
        problem("cluster.secret", "a secret and a key_file".to_owned(), "only one of them");
    }
    if cluster.secret.as_ref().is_some_and(|secret| secret.len() < 16) {
        let expected = "at least 16 characters: with a guessed secret, names can be chosen that all fall to one member";
        problem("cluster.secret", "a shorter one".to_owned(), expected);
    }
    if cluster.ethernet_outside.is_some() != cluster.ethernet_inside.is_some() {
        let option = match cluster.ethernet_outside {
            Some(_) => "cluster.ethernet_outside",
            None => "cluster.ethernet_inside",
        };
        problem(
            option,
            "one interface".to_owned(),
            "ethernet_outside and ethernet_inside, or neither",
        );
    }
}

fn control_member_faults(config: &Config, problem: &mut Report<'_>) {
    let cluster = &config.cluster;
    match &cluster.control_member {
        Some(name) if !config.member.iter().any(|member| member.name == *name) => {
            let names: Vec<_> = config.member.iter().map(|member| member.name.as_str()).collect();
            let expected = format!("one of the members: {}", names.join(", "));
            problem("cluster.control_member", format!("{name:?}"), &expected);
        }
        None if !config.member.is_empty() => {
            let expected =
                "the name of the member that receives commands and whose routes are replicated";
            problem("cluster.control_member", "none".to_owned(), expected);
        }
        _ => {}
    }
    let is_control = |member: &MemberItem| cluster.control_member.as_ref() == Some(&member.name);
    if let Some(index) = config.member.iter().position(is_control)
        && config.routes.replicate
        && config.member[index].control.is_none()
    {
        let expected = "the socket of its router, whose routes are replicated; or replicate = false in [routes]";
        problem(&format!("member[{index}].control"), "none".to_owned(), expected);
    }
}

fn control_socket_faults(config: &Config, problem: &mut Report<'_>) {
    for (option, seen, expected) in config.page.contradictions() {
        problem(option, seen, expected);
    }
    let control = &config.control;
    let remote =
        |listen: &[SocketAddr]| listen.iter().copied().find(|address| !address.ip().is_loopback());
    for (option, listen, expected) in [
        (
            "control.listen",
            &control.listen,
            "a loopback address, or allow_remote = true and a token_file",
        ),
        (
            "control.metrics_listen",
            &control.metrics_listen,
            "a loopback address, or allow_remote = true",
        ),
    ] {
        if let Some(remote) = remote(listen).filter(|_| !control.allow_remote) {
            problem(option, format!("{remote}, which other machines reach"), expected);
        }
    }
    if control.allow_remote && remote(&control.listen).is_some() && control.token_file.is_none() {
        problem("control.allow_remote", "no token_file".to_owned(), "a token_file beside it");
    }
    match (&control.group, &control.group_token_file) {
        (Some(group), Some(_)) => {
            if nw_agent::check_group_name(group).is_err() {
                let expected = "1 to 48 letters, digits, and - _ .";
                problem("control.group", format!("{group:?}"), expected);
            }
            if control.agents_listen.is_none() {
                let expected = "agents_listen beside it, where members of the group enrol";
                problem("control.group", "no agents_listen".to_owned(), expected);
            }
        }
        (Some(_), None) => {
            let expected = "a group_token_file beside it";
            problem("control.group", "no group_token_file".to_owned(), expected);
        }
        (None, Some(_)) => {
            let expected = "the name of the group beside it";
            problem("control.group_token_file", "no group".to_owned(), expected);
        }
        (None, None) => {}
    }
}

/// Checks the files that are read at the start, and the path of the control socket.
fn files(config: &Config, mut wrong: impl FnMut(&str, String)) {
    if let Some(Err(error)) = config.control.token_file.as_deref().map(file::read_token) {
        wrong("control.token_file", error.to_string());
    }
    let group_token = config.control.group_token_file.as_deref();
    if let Some(Err(error)) = group_token.map(nw_agent::check_group_token_file) {
        let text = match std::error::Error::source(&error) {
            Some(source) => format!("{error}: {source}"),
            None => error.to_string(),
        };
        wrong("control.group_token_file", text);
    }
    // A key file that does not exist is created at the first start.
    let key = config.cluster.key_file.as_deref().filter(|path| path.exists());
    if let Some(Err(error)) = key.map(crate::key::read) {
        wrong("cluster.key_file", error.to_string());
    }
    let socket = &config.control.path;
    if fs::symlink_metadata(socket).is_ok_and(|there| !there.file_type().is_socket()) {
        let sentence = format!(
            "{} exists and is not a socket: remove it, or choose another path",
            socket.display()
        );
        wrong("control.path", sentence);
    }
    if let Some(path) = config.elastic.router_config.as_deref().filter(|_| config.elastic.enabled)
        && let Err(why) = router_config(path)
    {
        wrong("elastic.router_config", why);
    }
}

/// Checks the additional configuration of started routers, together with what the launcher writes.
fn router_config(path: &Path) -> Result<(), String> {
    let additional = file::read_text(path, file::TEXT_MAX).map_err(|error| error.to_string())?;
    let whole =
        format!("[faces.unix]\n[faces.udp]\nlisten = []\n[faces.tcp]\nlisten = []\n{additional}");
    let parsed = nw_api::Config::parse("", &whole);
    parsed.map(drop).map_err(|Diagnostics(problems, _)| {
        let first = problems.first().map(|first| format!("{}: {}", first.option, first.fault));
        format!(
            "routers of members can't run with {}: {}",
            path.display(),
            first.unwrap_or_default()
        )
    })
}

fn rules(config: &Config, problem: &mut Report<'_>) {
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
            let seen =
                format!("depth {} below the prefix' {len} components", rule.depth.unwrap_or(0));
            problem(&option, seen, "a depth of at least the length of the prefix");
        }
        if config.rule[..index].iter().any(|other| other.prefix == rule.prefix) {
            problem(&option, format!("{} again", rule.prefix), "each prefix once");
        }
    }
}

impl Elastic {
    /// Returns namespace and name of the StatefulSet. `None` without a valid one.
    pub fn stateful_set(&self) -> Option<(Option<&str>, &str)> {
        let text = self.stateful_set.as_deref()?;
        let (namespace, name) = match text.split_once('/') {
            Some((namespace, name)) => (Some(namespace), name),
            None => (None, text),
        };
        // Members are called NAME-INDEX.
        let longest = format!("{name}-{MEMBERS_MAX}");
        let is_valid = is_label(name) && is_identifier(&longest) && namespace.is_none_or(is_label);
        is_valid.then_some((namespace, name))
    }
}

/// Returns whether the text is a name of Kubernetes (RFC 1123 label).
fn is_label(text: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=63).contains(&text.len())
        && text.bytes().all(is_allowed)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

fn elastic_faults(config: &Config, problem: &mut Report<'_>) {
    let elastic = &config.elastic;
    if elastic.members_min > elastic.members_max {
        let seen = format!("{} above members_max, {}", elastic.members_min, elastic.members_max);
        problem("elastic.members_min", seen, "at most members_max");
    }
    if elastic.low_percent >= elastic.high_percent {
        let seen = format!("{}, with high_percent {}", elastic.low_percent, elastic.high_percent);
        let expected = "less than high_percent, or members are added and removed all the time";
        problem("elastic.low_percent", seen, expected);
    }
    if !elastic.enabled {
        return;
    }
    let pods = elastic.engine == LauncherKind::Kubernetes;
    match &elastic.stateful_set {
        None if pods => {
            let expected = "the StatefulSet whose pods are members: NAME or NAMESPACE/NAME";
            problem("elastic.stateful_set", "none".to_owned(), expected);
        }
        Some(text) if !pods => {
            let expected = "engine = \"kubernetes\" beside it";
            problem("elastic.stateful_set", format!("{text:?}"), expected);
        }
        Some(text) if elastic.stateful_set().is_none() => {
            let expected = "NAME or NAMESPACE/NAME: lower-case letters, digits and -, for members' \
                            names of at most 32 characters";
            problem("elastic.stateful_set", format!("{text:?}"), expected);
        }
        _ => {}
    }
    if pods {
        if !elastic.addresses.is_empty() {
            let expected = "none, as pods have addresses of their own";
            problem("elastic.addresses", "addresses".to_owned(), expected);
        }
        return;
    }
    if elastic.addresses.is_empty() {
        let expected = "addresses for the members to start, one for each";
        problem("elastic.addresses", "none".to_owned(), expected);
    }
    let ports = elastic.port_first..elastic.port_first + elastic.addresses.len() as u32;
    if ports.contains(&config.cluster.port) {
        let seen = format!("{} to {}, the cluster's among them", ports.start, ports.end - 1);
        problem("elastic.port_first", seen, "ports that are not in use");
    }
    if let Some(member) = config.member.iter().find(|member| ports.contains(&member.port)) {
        let seen = format!("{} to {}, {}'s among them", ports.start, ports.end - 1, member.name);
        problem("elastic.port_first", seen, "ports that are not in use");
    }
    let taken = |ip| config.cluster.addresses.contains(ip);
    if elastic.addresses.iter().any(taken) {
        problem("elastic.addresses", "the cluster's address".to_owned(), "addresses of members");
    }
}
