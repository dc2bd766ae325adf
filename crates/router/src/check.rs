//! Checks whether a router can run with a configuration, as far as possible without opening a
//! socket.
//!
//! `nw config --check`, `nw run --check`, a start and a reload on SIGHUP all call [`check`], so
//! they accept the same configurations. What needs sockets or permissions is not tried;
//! [`Checked::unchecked`] lists it.

use crate::authority;
use crate::placement::Machine;
use crate::privileges::User;
use crate::wall_clock::WallClock;
use crate::{StartError, settings};
use nw_api::config::file::{self, ReadError, TEXT_MAX};
use nw_api::config::{self, Check, Config, Diagnostics, FaceItem, Uri, suggest};
use nw_elements::strategy::{Strategy, StrategyError};
use nw_faces::{FaceError, FaceFlags, FaceOptions, FaceUri, Persistency, request};
use nw_name::Name;
use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// Strategies with different parameters that may be in use at the same time; two are the router's
/// own.
const STRATEGIES_MAX: usize = 254;
/// FIB prefixes that every router has.
const OWN_PREFIXES: usize = 8;

/// A configuration that a router can run with.
#[derive(Clone, Debug)]
pub struct Checked {
    /// The configuration, with the caller's adjustments.
    pub config: Config,
    /// What was not checked, as it needs sockets, permissions or the network: clauses that begin
    /// with "whether".
    pub unchecked: Vec<String>,
    /// Valid settings with no effect, or with an effect the author may not expect.
    pub warnings: Vec<String>,
}

/// Purpose of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The configuration is for a start.
    Start,
    /// The configuration is for a running router that reloads its file.
    Reload,
}

/// Errors of [`check_file`].
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// The file can't be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The file has mistakes.
    #[error(transparent)]
    Diagnostics(#[from] Diagnostics),
}

/// Reads and checks a file. `adjust` changes the configuration before it is checked, as command
/// line options do.
///
/// # Errors
/// If the file can't be read, or with every mistake in it.
pub fn check_file(
    path: &Path,
    stage: Stage,
    adjust: impl FnOnce(&mut Config),
) -> Result<Checked, CheckError> {
    let text = file::read_text(path, TEXT_MAX)?;
    Ok(check(&path.display().to_string(), &text, stage, adjust)?)
}

/// Checks the text of a file; `file` is its name in messages.
///
/// # Errors
/// Every mistake, each with its line.
pub fn check(
    file: &str,
    text: &str,
    stage: Stage,
    adjust: impl FnOnce(&mut Config),
) -> Result<Checked, Diagnostics> {
    let (mut unchecked, mut warnings) = (Vec::new(), Vec::new());
    let config = Config::parse_with(file, text, |config, check| {
        adjust(config);
        check_keys(config, check, &mut warnings);
        check_faces(config, check);
        check_strategies(config, check);
        check_tables(config, check);
        // A running router has its memory already.
        if stage == Stage::Start
            && let Err(sentence) = settings::address_space_fits(config)
        {
            check.sentence("tables", sentence);
        }
        check_sockets(config, check);
        check_processors(config, check);
        if let Some(Err(reason)) = config.process.user.as_deref().map(User::find) {
            check.sentence("process.user", reason);
        }
        unchecked = unchecked_of(config);
    })?;
    Ok(Checked { config, unchecked, warnings })
}

/// Checks files with keys, certificates and secrets.
fn check_keys(config: &Config, check: &mut Check<'_, '_>, warnings: &mut Vec<String>) {
    let now_ms = WallClock::start().unix_ms();
    for (index, item) in config.anchor.iter().enumerate() {
        let given = ["file", "folder", "base64"].map(|key| format!("anchor[{index}].{key}"));
        let option = given.iter().find(|option| check.has(option));
        let Some(option) = option else { continue };
        match authority::anchors_of(item, now_ms) {
            Err(reason) => check.sentence(option, format!("this can't be an anchor: {reason}")),
            Ok(anchors) => {
                let invalid =
                    anchors.iter().filter(|anchor| !anchor.validity().contains(now_ms / 1000));
                warnings.extend(invalid.map(|anchor| {
                    format!(
                        "{option}: {} is outside its validity period, so it is not trusted",
                        anchor.key_name()
                    )
                }));
            }
        }
    }
    for path in &config.management.trusted_keys {
        if let Err(StartError::TrustedKey { path, reason }) = authority::read_key(path) {
            let sentence = format!("the key in {} can't be trusted: {reason}", path.display());
            check.sentence("management.trusted_keys", sentence);
        }
    }
    if let Err(StartError::SigningKey { path, reason }) = authority::advertiser_signer(config) {
        let option =
            if config.rib.key.as_ref() == Some(&path) { "rib.key" } else { "rib.certificate" };
        check.sentence(
            option,
            format!("commands can't be signed with {}: {reason}", path.display()),
        );
    }
    if let Some(Err(error)) = config.control.token_file.as_deref().map(file::read_token) {
        check.sentence("control.token_file", error.to_string());
    }
}

/// Checks `[[face]]`, `[[route]]`, and other options with face URIs.
fn check_faces(config: &Config, check: &mut Check<'_, '_>) {
    let mut seen: HashMap<FaceUri, usize> = HashMap::new();
    for (index, item) in config.face.iter().enumerate() {
        let option = format!("face[{index}].uri");
        if let Some(uri) = check_face(item, &option, &format!("face[{index}].local_uri"), check)
            && let Some(first) = seen.insert(uri, index)
            && config.face[first].uri != item.uri
        {
            let expected = "each face once";
            check.mismatch(
                &option,
                format!("the face {} again, in another notation", config.face[first].uri.0),
                expected,
            );
        }
    }
    let configured: BTreeSet<&Uri> = config.face.iter().map(|item| &item.uri).collect();
    let mut route_faces = BTreeSet::new();
    for (index, item) in config.route.iter().enumerate() {
        if !configured.contains(&item.face) {
            route_faces.insert(&item.face);
            let option = format!("route[{index}].face");
            check_face(&FaceItem::to(item.face.clone()), &option, &option, check);
        }
    }
    let count = config.face.len() + route_faces.len();
    if count >= config.faces.max as usize {
        let expected = format!("more than the {count} faces that [[face]] and [[route]] name");
        check.mismatch("faces.max", config.faces.max.to_string(), expected);
    }
    for uri in &config.rib.readvertise_to {
        if let Err(error) = uri.0.parse::<FaceUri>() {
            check.sentence("rib.readvertise_to", error.to_string());
        }
    }
}

/// Checks one face and returns its remote URI.
fn check_face(
    item: &FaceItem,
    option: &str,
    local_option: &str,
    check: &mut Check<'_, '_>,
) -> Option<FaceUri> {
    let uri = match item.uri.0.parse::<FaceUri>() {
        Ok(uri) => uri,
        Err(error) => {
            check.sentence(option, error.to_string());
            return None;
        }
    };
    let local = match item.local_uri.as_ref().map(|uri| uri.0.parse::<FaceUri>()).transpose() {
        Ok(local) => local,
        Err(error) => {
            check.sentence(local_option, error.to_string());
            return Some(uri);
        }
    };
    let reliability =
        if item.reliability == Some(true) { FaceFlags::RELIABILITY } else { FaceFlags::default() };
    let options = FaceOptions {
        persistency: Some(match item.persistency {
            config::Persistency::Persistent => Persistency::Persistent,
            config::Persistency::Permanent => Persistency::Permanent,
        }),
        flags: reliability,
        flags_mask: reliability,
        mtu: item.mtu.map(|mtu| mtu as usize),
        ..FaceOptions::default()
    };
    if let Err(error) = request::check(&uri, local.as_ref(), &options) {
        let item = option.rsplit_once('.').map_or(option, |(item, _)| item);
        match error {
            FaceError::Scheme(uri_given) if Some(&uri_given) == local.as_ref() => {
                let expected = format!(
                    "the local URI of {uri}: an address of the same family, or an interface for \
                     multicast groups"
                );
                check.mismatch(local_option, uri_given.to_string(), expected);
            }
            FaceError::Scheme(_) => check.mismatch(option, uri.to_string(), "one peer's address and port"),
            FaceError::InterfaceNeeded(_) => check.sentence(
                option,
                format!("a face to {uri} needs an interface: add local_uri = \"dev://eth0\", in a [[face]]"),
            ),
            FaceError::Link(nw_faces::LinkError::Mtu(_)) => check.sentence(&format!("{item}.mtu"), error.to_string()),
            FaceError::Link(nw_faces::LinkError::ReliabilityShared) => check.sentence(&format!("{item}.reliability"), error.to_string()),
            _ => check.sentence(option, error.to_string()),
        }
    }
    Some(uri)
}

fn check_strategies(config: &Config, check: &mut Check<'_, '_>) {
    let mut chosen = BTreeSet::new();
    for (index, item) in config.strategy.iter().enumerate() {
        let option = format!("strategy[{index}].strategy");
        match Strategy::parse(item.strategy.0.as_ref()) {
            Ok((_, listed)) => {
                chosen.insert(listed);
                if chosen.len() > STRATEGIES_MAX {
                    let seen = format!("{} different ones", chosen.len());
                    check.mismatch(
                        &option,
                        seen,
                        format!("at most {STRATEGIES_MAX} with different parameters"),
                    );
                }
            }
            Err(StrategyError::Unknown) => {
                let (name, known) =
                    (&item.strategy.0, Strategy::ALL.iter().map(|known| known.name));
                let word = short_name(name);
                let hint = suggest::hint(&word, known.clone());
                let known: Vec<&str> = known.collect();
                let seen = format!("{name}{hint}");
                check.mismatch(
                    &option,
                    seen,
                    format!("one of {}, in its newest version", known.join(", ")),
                );
            }
            Err(error) => check.sentence(&option, error.to_string()),
        }
    }
}

/// Returns the component after `/localhost/nfd/strategy`, or the last one.
fn short_name(name: &Name) -> String {
    let uri = name.to_string();
    let short =
        uri.strip_prefix("/localhost/nfd/strategy/").and_then(|suffix| suffix.split('/').next());
    short.or_else(|| uri.rsplit('/').next()).unwrap_or_default().to_owned()
}

/// Checks that the tables have capacity for the configured routes.
fn check_tables(config: &Config, check: &mut Check<'_, '_>) {
    let routes = config.route.len();
    if routes > config.tables.routes as usize {
        let expected = format!("at least the {routes} of [[route]]");
        check.mismatch("tables.routes", config.tables.routes.to_string(), expected);
    }
    let prefixes: BTreeSet<&Name> = config.route.iter().map(|route| &route.prefix).collect();
    let needed = prefixes.len() + OWN_PREFIXES;
    if needed > config.tables.fib_prefixes as usize {
        let expected =
            format!("at least {needed}: the prefixes of [[route]], and the router's own");
        check.mismatch("tables.fib_prefixes", config.tables.fib_prefixes.to_string(), expected);
    }
}

/// Checks the paths of sockets.
fn check_sockets(config: &Config, check: &mut Check<'_, '_>) {
    let unix = crate::unix_path(config);
    let paths = [
        ("faces.unix.path", config.unix.enabled.then(|| unix.clone())),
        ("control.path", config.control_path(&unix)),
    ];
    for (option, path) in paths {
        let Some(path) = path else { continue };
        if option == "control.path" && path == unix {
            check.mismatch(option, "the path of faces.unix", "a path of its own");
        }
        let metadata = fs::symlink_metadata(&path);
        if metadata.is_ok_and(|metadata| !metadata.file_type().is_socket()) {
            let seen = format!("{}, which exists and is not a socket", path.display());
            check.mismatch(
                option,
                seen,
                "a path of a socket, or an unused one: remove the file, or choose another path",
            );
        }
    }
}

fn check_processors(config: &Config, check: &mut Check<'_, '_>) {
    let machine = Machine::detect();
    let exists = |cpu: &u32| machine.cpus.iter().any(|known| known.id == *cpu as usize);
    if let Some(missing) = config.forwarder.cpus.iter().find(|cpu| !exists(cpu)) {
        let expected = "processors of this machine: `nw status --hardware` lists them";
        check.mismatch("forwarder.cpus", missing.to_string(), expected);
    }
}

/// Returns what a start may find wrong nevertheless.
fn unchecked_of(config: &Config) -> Vec<String> {
    let mut unchecked = vec![
        "whether the addresses, ports and paths it listens on are this machine's and free"
            .to_owned(),
    ];
    let uris = || {
        let faces = config.face.iter().map(|item| &item.uri.0);
        faces
            .chain(config.route.iter().map(|item| &item.face.0))
            .chain(config.rib.readvertise_to.iter().map(|uri| &uri.0))
    };
    let parsed = || uris().filter_map(|uri| uri.parse::<FaceUri>().ok());
    if let Some(uri) = parsed().find(|uri| !uri.is_canonical()) {
        unchecked.push(format!("whether host names have addresses, such as that of {uri}"));
    }
    let ethernet = config.ethernet.multicast || config.ethernet.listen;
    if ethernet || parsed().any(|uri| matches!(uri, FaceUri::Ether(_))) {
        unchecked.push("whether it may open packet sockets for Ethernet (CAP_NET_RAW)".to_owned());
    }
    let groups =
        parsed().any(|uri| uri.address().is_some_and(|address| address.ip().is_multicast()));
    if ethernet || groups || config.multicast.enabled || !config.xdp.interfaces.is_empty() {
        unchecked.push("whether the network interfaces it names exist".to_owned());
    }
    if !config.xdp.interfaces.is_empty() {
        unchecked.push(
            "whether it may use AF_XDP (CAP_BPF, CAP_NET_ADMIN, CAP_NET_RAW, Linux 5.18)"
                .to_owned(),
        );
    }
    if config.process.user.is_some() {
        unchecked.push("whether process.user may read this file and those it names".to_owned());
    }
    if config.tables.lock {
        unchecked.push(
            "whether it may lock the memory of its tables (CAP_IPC_LOCK or LimitMEMLOCK)"
                .to_owned(),
        );
    }
    unchecked
}

#[cfg(test)]
mod tests {
    use super::*;
    use nw_api::config::value::STRATEGIES;
    use nw_trust::certificate::Validity;

    #[test]
    fn config_options_name_every_strategy() {
        let known: Vec<&str> = Strategy::ALL.iter().map(|known| known.name).collect();
        assert_eq!(STRATEGIES.to_vec(), known);
        let sections = Config::sections();
        let section = sections.iter().find(|section| section.path == "strategy").unwrap();
        let doc = section.doc.join("");
        let missing: Vec<_> = known.iter().filter(|name| !doc.contains(*name)).collect();
        assert!(missing.is_empty(), "[[strategy]] does not name {missing:?}");
    }

    #[test]
    fn check_expired_anchor_is_warning() {
        let name: Name = "/site".parse().unwrap();
        let key = nw_trust::Key::generate(nw_trust::KeyKind::EcdsaP256, name.as_ref()).unwrap();
        let expired = Validity { not_before_s: 1_000_000_000, not_after_s: 1_000_000_001 };
        let valid = Validity { not_before_s: 1_000_000_000, not_after_s: 4_000_000_000 };
        for (validity, warnings) in [(expired, 1), (valid, 0)] {
            let wire = nw_trust::certificate::self_signed(&key, 1, validity).unwrap();
            let base64: String = nw_trust::pem::encode_base64(&wire).split_whitespace().collect();
            let text = format!("[[anchor]]\nid = \"site\"\nbase64 = {base64:?}\n");
            let checked = check("f", &text, Stage::Start, |_| {}).unwrap();
            assert_eq!(checked.warnings.len(), warnings, "{:?}", checked.warnings);
        }
    }

    #[test]
    fn check_list_reports_each_mistake() {
        let text = "[management]\ntrusted_keys = [\"/no/one\", \"/no/two\"]\n";
        let Diagnostics(problems, _) = check("f", text, Stage::Start, |_| {}).unwrap_err();
        let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
        assert!(
            lines.len() == 2 && lines[0].contains("/no/one") && lines[1].contains("/no/two"),
            "{lines:?}"
        );
    }
}
