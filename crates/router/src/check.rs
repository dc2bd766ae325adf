//! Whether a router can run with a configuration: all that can be known without opening a socket.
//!
//! `nw config --check`, `nw run --check`, a start and a reload on SIGHUP go through [`check`], so that what one of them accepts all of them accept. What
//! needs sockets or rights is not tried here and said in [`Checked::unchecked`].

use crate::authorize;
use crate::placement::Machine;
use crate::privileges::User;
use crate::wall::WallClock;
use crate::{StartError, settings};
use nw_api::config::file::{self, ReadError, TEXT_MAX};
use nw_api::config::{self, Check, Config, FaceItem, Problems, Uri, suggest};
use nw_elements::strategy::{Strategy, StrategyError};
use nw_faces::{FaceError, FaceFlags, FaceOptions, FaceUri, Persistency, request};
use nw_name::Name;
use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// Strategies with different parameters that may be in use at one time; two are the router's own.
const STRATEGIES_MAX: usize = 254;
/// Prefixes of the FIB that a router has by itself.
const OWN_PREFIXES: usize = 8;

/// A configuration that a router can run with.
#[derive(Clone, Debug)]
pub struct Checked {
    /// What the file says, with what was adjusted.
    pub config: Config,
    /// What was not checked, as it needs sockets, rights or the network: sentences that begin with "whether".
    pub unchecked: Vec<String>,
}

/// What a configuration is checked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// A start, now or later.
    Start,
    /// A router that runs, and reads its file again.
    Reload,
}

/// Why a configuration file can't be used.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// It could not be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// It has mistakes.
    #[error(transparent)]
    Problems(#[from] Problems),
}

/// Reads and checks a file. `adjust` changes what it says before that is checked, as a command line does.
///
/// # Errors
/// When it can't be read, and every mistake in it.
pub fn check_file(
    path: &Path,
    stage: Stage,
    adjust: impl FnOnce(&mut Config),
) -> Result<Checked, CheckError> {
    let text = file::read_text(path, TEXT_MAX)?;
    Ok(check(&path.display().to_string(), &text, stage, adjust)?)
}

/// Checks a file's text; `file` is what problems call it.
///
/// # Errors
/// Every mistake, each with its line.
pub fn check(
    file: &str,
    text: &str,
    stage: Stage,
    adjust: impl FnOnce(&mut Config),
) -> Result<Checked, Problems> {
    let mut unchecked = Vec::new();
    let config = Config::parse_with(file, text, |config, check| {
        adjust(config);
        keys(config, check);
        faces(config, check);
        strategies(config, check);
        tables(config, check);
        // A router that runs has its memory.
        if stage == Stage::Start
            && let Err(sentence) = settings::address_space_fits(config)
        {
            check.sentence("tables", sentence);
        }
        sockets(config, check);
        processors(config, check);
        if let Some(Err(why)) = config.process.user.as_deref().map(User::find) {
            check.sentence("process.user", why);
        }
        unchecked = unchecked_of(config);
    })?;
    Ok(Checked { config, unchecked })
}

/// Files of keys, certificates and secrets.
fn keys(config: &Config, check: &mut Check<'_, '_>) {
    let now_ms = WallClock::start().unix_ms();
    for (index, item) in config.anchor.iter().enumerate() {
        let given = ["file", "folder", "base64"].map(|key| format!("anchor[{index}].{key}"));
        let option = given.iter().find(|option| check.has(option));
        if let (Some(option), Err(why)) = (option, authorize::anchors_of(item, now_ms)) {
            check.sentence(option, format!("this can't be an anchor: {why}"));
        }
    }
    for path in &config.management.trusted_keys {
        if let Err(StartError::TrustedKey { path, why }) = authorize::read_key(path) {
            let sentence = format!("the key in {} can't be trusted: {why}", path.display());
            check.sentence("management.trusted_keys", sentence);
        }
    }
    if let Err(StartError::SigningKey { path, why }) = authorize::advertiser_signer(config) {
        let option = if config.rib.key.as_ref() == Some(&path) { "rib.key" } else { "rib.certificate" };
        check.sentence(option, format!("commands can't be signed with {}: {why}", path.display()));
    }
    if let Some(Err(error)) = config.control.token_file.as_deref().map(file::read_token) {
        check.sentence("control.token_file", error.to_string());
    }
}

/// `[[face]]`, `[[route]]`, and other places where a face is named.
fn faces(config: &Config, check: &mut Check<'_, '_>) {
    let mut known: HashMap<FaceUri, usize> = HashMap::new();
    for (index, item) in config.face.iter().enumerate() {
        let option = format!("face[{index}].uri");
        if let Some(uri) = face(item, &option, &format!("face[{index}].local_uri"), check)
            && let Some(first) = known.insert(uri, index)
            && config.face[first].uri != item.uri
        {
            let expected = "each face once";
            check.say(
                &option,
                format!("the face {} again, written otherwise", config.face[first].uri.0),
                expected,
            );
        }
    }
    let configured: BTreeSet<&Uri> = config.face.iter().map(|item| &item.uri).collect();
    let mut of_routes = BTreeSet::new();
    for (index, item) in config.route.iter().enumerate() {
        if !configured.contains(&item.face) {
            of_routes.insert(&item.face);
            let option = format!("route[{index}].face");
            face(&FaceItem::to(item.face.clone()), &option, &option, check);
        }
    }
    let count = config.face.len() + of_routes.len();
    if count >= config.faces.max as usize {
        let expected = format!("more than the {count} faces that [[face]] and [[route]] name");
        check.say("faces.max", config.faces.max.to_string(), expected);
    }
    for uri in &config.rib.readvertise_to {
        if let Err(error) = uri.0.parse::<FaceUri>() {
            check.sentence("rib.readvertise_to", error.to_string());
        }
    }
}

/// Checks one face; returns its far end.
fn face(item: &FaceItem, option: &str, local_option: &str, check: &mut Check<'_, '_>) -> Option<FaceUri> {
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
            FaceError::Scheme(of) if Some(&of) == local.as_ref() => {
                let expected =
                    format!("the near end of {uri}: an address of its kind, or for groups an interface");
                check.say(local_option, of.to_string(), expected);
            }
            FaceError::Scheme(_) => check.say(option, uri.to_string(), "one peer's address and port"),
            FaceError::InterfaceNeeded(_) => check.sentence(
                option,
                format!("a face to {uri} is on one interface: add local_uri = \"dev://eth0\", in a [[face]]"),
            ),
            FaceError::Mtu(_) => check.sentence(&format!("{item}.mtu"), error.to_string()),
            FaceError::ReliabilityShared => check.sentence(&format!("{item}.reliability"), error.to_string()),
            _ => check.sentence(option, error.to_string()),
        }
    }
    Some(uri)
}

fn strategies(config: &Config, check: &mut Check<'_, '_>) {
    let mut chosen = BTreeSet::new();
    for (index, item) in config.strategy.iter().enumerate() {
        let option = format!("strategy[{index}].strategy");
        match Strategy::parse(item.strategy.0.as_ref()) {
            Ok((_, listed)) => {
                chosen.insert(listed);
                if chosen.len() > STRATEGIES_MAX {
                    let seen = format!("{} different ones", chosen.len());
                    check.say(&option, seen, format!("at most {STRATEGIES_MAX} with different parameters"));
                }
            }
            Err(StrategyError::Unknown) => {
                let (name, known) = (&item.strategy.0, Strategy::KNOWN.iter().map(|known| known.name));
                let word = short_name(name);
                let hint = suggest::hint(&word, known.clone());
                let known: Vec<&str> = known.collect();
                let seen = format!("{name}{hint}");
                check.say(&option, seen, format!("one of {}, in its newest version", known.join(", ")));
            }
            Err(error) => check.sentence(&option, error.to_string()),
        }
    }
}

/// The word behind `/localhost/nfd/strategy`, or the last one.
fn short_name(name: &Name) -> String {
    let uri = name.to_string();
    let short = uri.strip_prefix("/localhost/nfd/strategy/").and_then(|rest| rest.split('/').next());
    short.or_else(|| uri.rsplit('/').next()).unwrap_or_default().to_owned()
}

/// Tables that must hold what the file says, in a process that must hold the tables.
fn tables(config: &Config, check: &mut Check<'_, '_>) {
    let routes = config.route.len();
    if routes > config.tables.routes as usize {
        let expected = format!("at least the {routes} of [[route]]");
        check.say("tables.routes", config.tables.routes.to_string(), expected);
    }
    let prefixes: BTreeSet<&Name> = config.route.iter().map(|route| &route.prefix).collect();
    let needed = prefixes.len() + OWN_PREFIXES;
    if needed > config.tables.fib_prefixes as usize {
        let expected = format!("at least {needed}: the prefixes of [[route]], and the router's own");
        check.say("tables.fib_prefixes", config.tables.fib_prefixes.to_string(), expected);
    }
}

/// Paths where a socket is to be made.
fn sockets(config: &Config, check: &mut Check<'_, '_>) {
    let unix = crate::unix_path(config);
    let paths = [
        ("faces.unix.path", config.unix.enabled.then(|| unix.clone())),
        ("control.path", config.control_path(&unix)),
    ];
    for (option, path) in paths {
        let Some(path) = path else { continue };
        let there = fs::symlink_metadata(&path);
        if there.is_ok_and(|there| !there.file_type().is_socket()) {
            let seen = format!("{}, which is there and is no socket", path.display());
            check.say(
                option,
                seen,
                "a path that is free, or a socket's: remove what is there, or name another",
            );
        }
    }
}

fn processors(config: &Config, check: &mut Check<'_, '_>) {
    let machine = Machine::here();
    let is_here = |cpu: &u32| machine.cpus.iter().any(|known| known.id == *cpu as usize);
    if let Some(missing) = config.forwarder.cpus.iter().find(|cpu| !is_here(cpu)) {
        let expected = "processors of this machine: `nw status --hardware` lists them";
        check.say("forwarder.cpus", missing.to_string(), expected);
    }
}

/// What a start may find wrong nevertheless.
fn unchecked_of(config: &Config) -> Vec<String> {
    let mut unchecked =
        vec!["whether the addresses, ports and paths it listens on are this machine's and free".to_owned()];
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
    let groups = parsed().any(|uri| uri.address().is_some_and(|address| address.ip().is_multicast()));
    if ethernet || groups || config.multicast.enabled || !config.xdp.interfaces.is_empty() {
        unchecked.push("whether the network interfaces it names are there".to_owned());
    }
    if !config.xdp.interfaces.is_empty() {
        unchecked
            .push("whether it may use AF_XDP (CAP_BPF, CAP_NET_ADMIN, CAP_NET_RAW, Linux 5.18)".to_owned());
    }
    if config.process.user.is_some() {
        unchecked.push("whether process.user may read this file and those it names".to_owned());
    }
    if config.tables.lock {
        unchecked
            .push("whether it may lock the memory of its tables (CAP_IPC_LOCK or LimitMEMLOCK)".to_owned());
    }
    unchecked
}

#[cfg(test)]
mod tests {
    use super::*;
    use nw_api::config::value::STRATEGIES;

    #[test]
    fn the_options_know_every_strategy_of_the_catalogue() {
        let known: Vec<&str> = Strategy::KNOWN.iter().map(|known| known.name).collect();
        assert_eq!(STRATEGIES.to_vec(), known);
        let sections = Config::sections();
        let section = sections.iter().find(|section| section.path == "strategy").unwrap();
        let doc = section.doc.join("");
        let missing: Vec<_> = known.iter().filter(|name| !doc.contains(*name)).collect();
        assert!(missing.is_empty(), "[[strategy]] does not name {missing:?}");
    }

    #[test]
    fn every_mistake_of_a_list_is_named() {
        let text = "[management]\ntrusted_keys = [\"/no/one\", \"/no/two\"]\n";
        let Problems(problems, _) = check("f", text, Stage::Start, |_| {}).unwrap_err();
        let said: Vec<String> = problems.iter().map(ToString::to_string).collect();
        assert!(said.len() == 2 && said[0].contains("/no/one") && said[1].contains("/no/two"), "{said:?}");
    }
}
