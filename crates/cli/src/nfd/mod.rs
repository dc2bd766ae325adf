//! Translates nfd.conf to nw.toml, as docs/guide/from-nfd.md describes it. Options without an
//! equivalent are reported with their line.

mod info;
mod security;

use anyhow::{Context, Result};
use info::Node;
use nw_api::config::file::{TEXT_MAX, read_text};
use nw_api::config::value::quote;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

/// The translated configuration, and notes about what needs attention.
#[derive(Debug)]
pub struct Translation {
    pub toml: String,
    /// Notes with line numbers of the original file; 0 for notes about the result.
    pub notes: Vec<(usize, String)>,
}

/// Translates a file.
///
/// # Errors
/// The file can't be read, or is not an nfd.conf.
pub fn translate_file(path: &Path) -> Result<Translation> {
    let text = read_text(path, TEXT_MAX)?;
    translate(&text).with_context(|| format!("{} is not an nfd.conf", path.display()))
}

/// Translates a text.
pub fn translate(text: &str) -> Result<Translation> {
    let nodes = info::read(text)?;
    let mut out = TranslationBuilder::default();
    for node in &nodes {
        match node.key.as_str() {
            "general" => general(node, &mut out),
            "log" => log(node, &mut out),
            "tables" => tables(node, &mut out),
            "face_system" => face_system(node, &mut out),
            "authorizations" => security::authorizations(node, &mut out),
            "rib" => rib(node, &mut out),
            "#include" => out.note(node, "included files are not read: translate each on its own"),
            _ => out.unknown(node),
        }
    }
    if !nodes.iter().any(|node| node.key == "face_system") {
        // NFD opens no faces without this section.
        face_system(&Node::default(), &mut out);
    }
    security::finish(&mut out);
    Ok(out.finish())
}

/// The translation so far.
#[derive(Debug, Default)]
struct TranslationBuilder {
    /// Lines by section.
    sections: BTreeMap<&'static str, Vec<String>>,
    items: Vec<String>,
    notes: Vec<(usize, String)>,
    access: security::Access,
}

impl TranslationBuilder {
    fn set(&mut self, section: &'static str, key: &str, value: impl AsRef<str>) {
        self.sections.entry(section).or_default().push(format!("{key} = {}", value.as_ref()));
    }

    fn note(&mut self, node: &Node, text: impl Into<String>) {
        self.notes.push((node.line, format!("{}: {}", node.key, text.into())));
    }

    fn unknown(&mut self, node: &Node) {
        self.note(node, "unknown, left out");
    }

    fn finish(mut self) -> Translation {
        let mut toml = String::from(
            "# Translated from nfd.conf by `nw config --from-nfd`. `nw config` explains every \
             option.\n",
        );
        for (section, lines) in &self.sections {
            let _ = write!(toml, "\n[{section}]\n{}\n", lines.join("\n"));
        }
        self.items.iter().for_each(|item| toml.push_str(&format!("\n{item}\n")));
        if let Err(problems) = nw_api::Config::parse("translated", &toml) {
            self.notes.extend(
                problems
                    .0
                    .iter()
                    .map(|problem| (0, format!("the result needs a correction: {problem}"))),
            );
        }
        self.notes.sort_by_key(|(line, _)| *line);
        Translation { toml, notes: self.notes }
    }
}

fn general(node: &Node, out: &mut TranslationBuilder) {
    for option in &node.children {
        match (option.key.as_str(), option.value.as_str()) {
            (_, "") => {}
            ("user", user) => out.set("process", "user", quote(user)),
            ("group", _) => out
                .note(option, "the group is that of process.user in /etc/passwd, or uid:gid there"),
            _ => out.unknown(option),
        }
    }
}

fn log(node: &Node, out: &mut TranslationBuilder) {
    for option in &node.children {
        let level = match option.value.to_ascii_uppercase().as_str() {
            "NONE" => "off",
            "ERROR" => "error",
            "WARN" => "warn",
            "INFO" => "info",
            "DEBUG" => "debug",
            "TRACE" | "ALL" => "trace",
            _ => {
                out.note(option, format!("{:?} is not a level", option.value));
                continue;
            }
        };
        match option.key.as_str() {
            "default_level" if level != "info" => out.set("log", "level", quote(level)),
            "default_level" => {}
            _ => out.note(
                option,
                "modules differ here: log.level = \"info,router=debug\" sets levels for parts of \
                 the program",
            ),
        }
    }
}

fn tables(node: &Node, out: &mut TranslationBuilder) {
    for option in &node.children {
        match (option.key.as_str(), option.value.as_str()) {
            ("cs_max_packets", packets) => match packets.parse::<u32>() {
                Ok(0) => {
                    out.set("content_store", "packets", "0");
                    out.set("content_store", "mib", "0");
                }
                Ok(packets) => {
                    out.set("content_store", "packets", packets.to_string());
                    // NFD has no limit in bytes: allow for packets of maximum size.
                    let mib = (u64::from(packets) * 8800).div_ceil(1 << 20);
                    out.set("content_store", "mib", mib.to_string());
                }
                Err(_) => out.note(option, format!("{packets:?} is not a number of packets")),
            },
            ("cs_policy", "lru") => {}
            ("cs_policy", "priority_fifo") => {
                out.set("content_store", "policy", quote("priority-fifo"))
            }
            ("cs_unsolicited_policy", "drop-all") => {}
            ("cs_unsolicited_policy", _) => out.note(
                option,
                "unsolicited Data is never cached here; forwarder.accept_data_from_any_face \
                 accepts Data from faces to which no Interest was sent",
            ),
            ("strategy_choice", _) => {
                option.children.iter().for_each(|choice| strategy(choice, out))
            }
            ("network_region", _) => {
                let regions: Vec<String> =
                    option.children.iter().map(|region| quote(&region.key)).collect();
                if !regions.is_empty() {
                    out.set("forwarder", "regions", format!("[{}]", regions.join(", ")));
                }
            }
            _ => out.unknown(option),
        }
    }
}

fn strategy(choice: &Node, out: &mut TranslationBuilder) {
    let built_in = [
        ("/", "best-route"),
        ("/localhost", "multicast"),
        ("/localhost/nfd", "best-route"),
        ("/ndn/broadcast", "multicast"),
    ];
    // `%FD%05` and `v=5` are the same version; the translation uses the newest one.
    let name = choice.value.strip_prefix("/localhost/nfd/strategy/").unwrap_or(&choice.value);
    let short = name.split('/').next().unwrap_or(name);
    let parameters: Vec<&str> = name.split('/').skip(2).collect();
    if parameters.is_empty() && built_in.contains(&(choice.key.as_str(), short)) {
        return;
    }
    let mut translated = short.to_owned();
    if let (false, Some(strategy)) = (parameters.is_empty(), name.split('/').nth(1)) {
        let _ = write!(translated, "/{strategy}/{}", parameters.join("/"));
    }
    out.items.push(format!(
        "[[strategy]]\nprefix = {}\nstrategy = {}",
        quote(&choice.key),
        quote(&translated)
    ));
}

fn is_yes(value: &str) -> bool {
    ["yes", "true", "1"].contains(&value)
}

/// Returns a yes/no option, or NFD's default.
fn yes(node: &Node, key: &str, default: bool) -> bool {
    node.children
        .iter()
        .find(|option| option.key == key)
        .map_or(default, |option| is_yes(&option.value))
}

fn text<'n>(node: &'n Node, key: &str, default: &'n str) -> &'n str {
    node.children
        .iter()
        .find(|option| option.key == key)
        .map_or(default, |option| option.value.as_str())
}

fn face_system(node: &Node, out: &mut TranslationBuilder) {
    let find = |key: &str| node.children.iter().find(|protocol| protocol.key == key);
    match find("unix") {
        None => out.set("faces.unix", "enabled", "false"),
        Some(unix) => {
            let path = text(unix, "path", "/run/nfd/nfd.sock");
            if path != "/run/nfd/nfd.sock" {
                out.set("faces.unix", "path", quote(path));
            }
            report_unknown(unix, &["path"], out);
        }
    }
    listener(find("tcp"), "faces.tcp", "6363", true, out);
    listener(find("udp"), "faces.udp", "6363", true, out);
    if find("websocket").is_some() {
        listener(find("websocket"), "faces.websocket", "9696", false, out);
    }
    if let Some(tcp) = find("tcp") {
        report_unknown(tcp, &["listen", "port", "enable_v4", "enable_v6"], out);
    }
    if let Some(udp) = find("udp") {
        self::udp(udp, out);
    }
    if let Some(ether) = find("ether") {
        self::ether(ether, out);
    }
    for protocol in &node.children {
        match protocol.key.as_str() {
            "unix" | "tcp" | "udp" | "ether" => {}
            "websocket" => {
                report_unknown(protocol, &["listen", "port", "enable_v4", "enable_v6"], out)
            }
            "general" => {
                if !yes(protocol, "enable_congestion_marking", true) {
                    out.set("faces", "congestion_marking", "false");
                }
                report_unknown(protocol, &["enable_congestion_marking"], out);
            }
            "netdev_bound" => {
                out.note(protocol, "faces bound to network devices are not supported")
            }
            _ => out.unknown(protocol),
        }
    }
}

/// Writes the addresses of a listener, unless they are the default.
fn listener(
    node: Option<&Node>,
    section: &'static str,
    port: &str,
    default_on: bool,
    out: &mut TranslationBuilder,
) {
    let mut addresses = Vec::new();
    if let Some(node) = node.filter(|node| yes(node, "listen", true)) {
        let port = text(node, "port", port);
        let families = [("enable_v6", "[::]"), ("enable_v4", "0.0.0.0")];
        let enabled = families.iter().filter(|(key, _)| yes(node, key, true));
        addresses = enabled.map(|(_, any)| quote(&format!("{any}:{port}"))).collect();
        let is_default = default_on && addresses.len() == families.len() && port == "6363";
        if is_default {
            return;
        }
    }
    out.set(section, "listen", format!("[{}]", addresses.join(", ")));
}

fn udp(node: &Node, out: &mut TranslationBuilder) {
    number(node, "idle_timeout", "600", "faces.udp", "idle_timeout_s", out);
    number(node, "unicast_mtu", "8800", "faces.udp", "mtu", out);
    // NFD's default is yes, here it is no.
    if yes(node, "mcast", true) {
        out.set("faces.multicast", "enabled", "true");
        let groups = [
            ("mcast_group", "224.0.23.170", "mcast_port"),
            ("mcast_group_v6", "ff02::1234", "mcast_port_v6"),
        ];
        let address = |(key, default, port): &(&str, &str, &str)| {
            let group = text(node, key, default);
            let port = text(node, port, "56363");
            if group.contains(':') {
                format!("[{group}]:{port}")
            } else {
                format!("{group}:{port}")
            }
        };
        let groups: Vec<String> = groups.iter().map(address).collect();
        if groups != ["224.0.23.170:56363", "[ff02::1234]:56363"] {
            let quoted: Vec<String> = groups.iter().map(|group| quote(group)).collect();
            out.set("faces.multicast", "groups", format!("[{}]", quoted.join(", ")));
        }
        if yes(node, "mcast_ad_hoc", false) {
            out.set("faces.multicast", "ad_hoc", "true");
        }
        interfaces(node, "faces.multicast", out);
    }
    let translated = [
        "listen",
        "port",
        "enable_v4",
        "enable_v6",
        "idle_timeout",
        "unicast_mtu",
        "mcast",
        "mcast_group",
        "mcast_port",
        "mcast_group_v6",
        "mcast_port_v6",
        "mcast_ad_hoc",
        "whitelist",
        "blacklist",
    ];
    report_unknown(node, &translated, out);
}

fn ether(node: &Node, out: &mut TranslationBuilder) {
    if yes(node, "listen", true) {
        out.set("faces.ethernet", "listen", "true");
    }
    number(node, "idle_timeout", "600", "faces.ethernet", "idle_timeout_s", out);
    if yes(node, "mcast", true) {
        out.set("faces.ethernet", "multicast", "true");
    }
    let group = text(node, "mcast_group", "01:00:5e:00:17:aa").to_ascii_lowercase();
    if group != "01:00:5e:00:17:aa" {
        out.set("faces.ethernet", "group", quote(&group));
    }
    if yes(node, "mcast_ad_hoc", false) {
        out.set("faces.ethernet", "ad_hoc", "true");
    }
    interfaces(node, "faces.ethernet", out);
    report_unknown(
        node,
        &[
            "listen",
            "idle_timeout",
            "mcast",
            "mcast_group",
            "mcast_ad_hoc",
            "whitelist",
            "blacklist",
        ],
        out,
    );
}

fn number(
    node: &Node,
    key: &str,
    default: &str,
    section: &'static str,
    option: &str,
    out: &mut TranslationBuilder,
) {
    let Some(found) = node.children.iter().find(|option| option.key == key) else { return };
    match found.value.parse::<u32>() {
        Ok(_) if found.value == default => {}
        Ok(number) => out.set(section, option, number.to_string()),
        Err(_) => out.note(found, format!("{:?} is not a number", found.value)),
    }
}

/// Lists of interfaces: `*`, `ifname eth*`, `ether 01:…`, `subnet 192.0.2.0/24`.
fn interfaces(node: &Node, section: &'static str, out: &mut TranslationBuilder) {
    for (list, option_name) in [("whitelist", "allow"), ("blacklist", "deny")] {
        let Some(found) = node.children.iter().find(|option| option.key == list) else { continue };
        let pattern = |item: &Node| match item.key.as_str() {
            "*" => "*".to_owned(),
            _ => item.value.clone(),
        };
        let patterns: Vec<String> = found.children.iter().map(pattern).collect();
        let default = if list == "whitelist" { vec!["*".to_owned()] } else { Vec::new() };
        if patterns != default {
            let quoted: Vec<String> = patterns.iter().map(|pattern| quote(pattern)).collect();
            out.set(section, option_name, format!("[{}]", quoted.join(", ")));
        }
    }
}

/// Reports options of a section that are not translated.
fn report_unknown(node: &Node, known: &[&str], out: &mut TranslationBuilder) {
    for option in node.children.iter().filter(|option| !known.contains(&option.key.as_str())) {
        match (node.key.as_str(), option.key.as_str()) {
            ("tcp", "local") => out
                .note(option, "only peers on this machine are local faces; that can't be changed"),
            (_, "keep_alive_interval") => {}
            _ => out.unknown(option),
        }
    }
}

fn rib(node: &Node, out: &mut TranslationBuilder) {
    for option in &node.children {
        match option.key.as_str() {
            "localhost_security" => security::localhost(option, out),
            "localhop_security" => security::localhop(option, out),
            "prefix_announcement_validation" => {
                out.note(
                    option,
                    "write an [[allow]] with privileges = [\"announce\"]: its rules can't be \
                     translated",
                );
            }
            "readvertise_nlsr" => {
                if is_yes(&option.value) {
                    out.set("rib", "readvertise_nlsr", "true");
                }
            }
            "auto_prefix_propagate" => propagate(option, out),
            _ => out.unknown(option),
        }
    }
}

fn propagate(node: &Node, out: &mut TranslationBuilder) {
    out.note(
        node,
        "list the prefixes in rib.propagate: they are not derived from identities of a key store",
    );
    for (key, option) in [
        ("cost", "propagate_cost"),
        ("timeout", "command_timeout_ms"),
        ("refresh_interval", "refresh_s"),
        ("base_retry_wait", "retry_min_s"),
        ("max_retry_wait", "retry_max_s"),
    ] {
        number(node, key, "", "rib", option, out);
    }
    report_unknown(
        node,
        &["cost", "timeout", "refresh_interval", "base_retry_wait", "max_retry_wait"],
        out,
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Modelled on NFD's sample configuration, with common changes.
    const SAMPLE: &str = include_str!("sample.conf");

    #[test]
    fn sample_is_translated_and_unknown_options_are_reported() {
        let Translation { toml, notes } = translate(SAMPLE).unwrap();
        let config =
            nw_api::Config::parse("translated", &toml).unwrap_or_else(|e| panic!("{e}\n{toml}"));
        assert_eq!((config.content_store.packets, config.content_store.mib), (100_000, 840));
        assert_eq!(config.content_store.policy, nw_api::config::CsPolicy::PriorityFifo);
        assert_eq!(config.log.level.as_str(), "debug");
        assert_eq!(config.process.user.as_deref(), Some("ndn"));
        assert_eq!(config.udp.listen.len(), 1);
        assert_eq!((config.udp.mtu, config.udp.idle_timeout_s), (1400, 300));
        assert_eq!(config.tcp.listen, nw_api::Config::default().tcp.listen);
        assert_eq!(config.websocket.listen.len(), 2);
        assert!(config.multicast.enabled && !config.ethernet.multicast && config.ethernet.listen);
        assert_eq!((config.multicast.allow.len(), config.multicast.deny.len()), (2, 1));
        let strategies: Vec<_> = config
            .strategy
            .iter()
            .map(|s| (s.prefix.to_string(), s.strategy.0.to_string()))
            .collect();
        assert_eq!(
            strategies,
            [
                ("/sync".to_owned(), "/localhost/nfd/strategy/multicast".to_owned()),
                ("/tuned".to_owned(), "/localhost/nfd/strategy/asf/v=5/max-timeouts~5".to_owned())
            ]
        );
        assert_eq!(config.forwarder.regions[0].to_string(), "/region/one");
        assert!(config.rib.readvertise_nlsr && config.rib.propagate_cost == 20);
        let notes: Vec<String> =
            notes.iter().map(|(line, note)| format!("{line}: {note}")).collect();
        for part in [
            "group: ",
            "Forwarder: ",
            "cs_unsolicited_policy: ",
            "local: ",
            "netdev_bound: ",
            "auto_prefix_propagate: ",
            "mystery: ",
        ] {
            assert!(notes.iter().any(|note| note.contains(part)), "{part}: {notes:#?}");
        }
        assert_eq!(notes.len(), 7, "{notes:#?}");
    }

    #[test]
    fn access_rules_are_translated_or_left_out_but_never_widened() {
        let with = |rib: &str, privileges: &str| {
            let text = format!(
                "face_system {{ unix {{ }} }}\nauthorizations {{ authorize {{ certfile any\n \
                 privileges {{ {privileges} }} }} }}\nrib {{ {rib} }}\n"
            );
            let translated = translate(&text).unwrap();
            (nw_api::Config::parse("translated", &translated.toml).unwrap(), translated)
        };
        let any = "localhost_security\n{\n trust-anchor\n{\n type any\n}\n}";
        let all = "faces\nfib\ncs\nstrategy-choice";
        let (config, _) = with(any, all);
        assert_eq!(config.management, nw_api::Config::default().management);
        let (config, _) = with(any, "faces");
        assert_eq!(config.management.digest, nw_api::config::AllowFrom::Nowhere);
        let allowed: Vec<_> = config.allow.iter().map(|rule| rule.privileges.clone()).collect();
        use nw_api::config::Allowed;
        assert_eq!(allowed, [vec![Allowed::Faces], vec![Allowed::Rib]]);
        let hop = format!("{any}\nlocalhop_security\n{{\n trust-anchor\n{{\n type any\n}}\n}}");
        let (config, _) = with(&hop, all);
        assert_eq!(config.management.localhop, nw_api::config::AllowFrom::Anywhere);
        assert_eq!(config.allow.len(), 1);
        let file = "localhost_security\n{\n trust-anchor\n{\n type file\n file-name /x\n}\n}";
        let (config, translated) = with(file, all);
        assert!(
            config.allow.iter().all(|rule| !rule.privileges.contains(&Allowed::Rib)),
            "{:?}",
            config.allow
        );
        assert!(translated.notes.iter().any(|(_, note)| note.contains("localhost_security")));
    }

    #[test]
    fn no_text_panics() {
        for text in [
            "",
            "face_system",
            "face_system { udp { mcast_port x } }",
            "log { a }",
            "tables { cs_max_packets -1 }",
        ] {
            translate(text).unwrap();
        }
    }
}
