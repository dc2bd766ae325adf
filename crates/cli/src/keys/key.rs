//! `nw key …`

use super::{KeyType, KeyVerb, Showing, files, passphrase};
use crate::output::{json_line, row, table};
use crate::signing::{named, open, place};
use anyhow::{Context, Result, bail};
use nw_app::keystore::{Identity, KeyEntry, KeyStore, Level, level};
use nw_name::Name;
use nw_trust::{Key, KeyKind, VerifyKey, safebag};
use serde_json::{Value, json};
use std::process::ExitCode;

/// How long a certificate that a key signs for itself is valid, days: some twenty years, as those of ndn-cxx.
const SELF_SIGNED_DAYS: u64 = 20 * 365;

/// Does it.
pub fn key(verb: &KeyVerb) -> Result<ExitCode> {
    match verb {
        KeyVerb::Generate { identity, kind, size, default, showing } => {
            generate(identity, *kind, *size, *default, showing)?
        }
        KeyVerb::List { showing } => list(showing)?,
        KeyVerb::Default { name, showing } => {
            must_be_key(name)?;
            let level = open(&showing.store)?.set_default(name.as_ref())?;
            say(showing, json!({ "default": name.to_string() }), || match level {
                Level::Identity => format!("{name} is meant when no identity is named"),
                _ => format!("{name} is meant by its identity"),
            })?;
        }
        KeyVerb::Delete { name, showing } => {
            must_be_key(name)?;
            let keys = open(&showing.store)?.delete(name.as_ref())?;
            let names: Vec<String> = keys.iter().map(Name::to_string).collect();
            say(showing, json!({ "deleted": name.to_string(), "keys": names }), || {
                match level(name.as_ref()) {
                    Level::Identity => format!("{name} is deleted with its keys ({})", keys.len()),
                    _ => format!("{name} is deleted"),
                }
            })?;
        }
        KeyVerb::Export { name, writing, passphrase, store } => {
            let (store, name) = (open(store)?, named(name)?);
            // What can't be exported is said before a passphrase is asked for.
            let key = store.key(name.as_ref().map(Name::as_ref))?;
            store.private_key(key.name.as_ref())?;
            let passphrase = passphrase::choose(passphrase)?;
            let bag = store.export(name.as_ref().map(Name::as_ref), passphrase.as_bytes())?;
            files::write(writing, &bag)?;
        }
        KeyVerb::Import { file, passphrase, showing } => {
            let place = place(&showing.store)?;
            let bag = safebag::read_file(&files::read(file)?)
                .with_context(|| format!("{} holds no key that was exported", file.display()))?;
            let passphrase = passphrase::ask(passphrase)?;
            // Opened first: a wrong passphrase makes no store.
            let (wire, key) = safebag::open(&bag, passphrase.as_bytes())?;
            KeyStore::create(place)?.add_key(&key, &wire)?;
            let name = key.name();
            say(showing, json!({ "key": name.to_string() }), || format!("{name} is here now"))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn generate(
    identity: &Name,
    kind: KeyType,
    size: Option<u16>,
    default: bool,
    showing: &Showing,
) -> Result<()> {
    if identity.as_ref().is_empty() || level(identity.as_ref()) != Level::Identity {
        bail!("{identity} is no name of an identity: say whose key it is, as /alice");
    }
    let identity = identity.as_ref();
    let key = match (kind, size) {
        (KeyType::Rsa, bits) => Key::generate_rsa(bits.unwrap_or(2048), identity)?,
        (KeyType::Ecdsa, None | Some(256)) => Key::generate(KeyKind::EcdsaP256, identity)?,
        (KeyType::Ecdsa, Some(bits)) => bail!("ECDSA keys have 256 bits here, not {bits}"),
        (KeyType::Ed25519, None) => Key::generate(KeyKind::Ed25519, identity)?,
        (KeyType::Ed25519, Some(_)) => bail!("Ed25519 keys have one size: leave --size out"),
    };
    let mut store = KeyStore::create(place(&showing.store)?)?;
    let now_ms = super::cert::now_ms();
    store.add_new_key(&key, now_ms, now_ms / 1000 + SELF_SIGNED_DAYS * 86_400)?;
    if default {
        store.set_default(key.name())?;
        store.set_default(identity)?;
    }
    let name = key.name();
    say(showing, json!({ "key": name.to_string() }), || name.to_string())
}

fn list(showing: &Showing) -> Result<()> {
    let identities = open(&showing.store)?.identities()?;
    let keys = || identities.iter().flat_map(|identity| identity.keys.iter().map(move |key| (identity, key)));
    if showing.json {
        return keys().try_for_each(|(identity, key)| json_line(&as_json(identity, key)));
    }
    let mut rows = vec![row([&"key", &"type", &"default", &"private key", &"certificates"])];
    for (identity, key) in keys() {
        let default = match (identity.is_default, key.is_default) {
            (true, true) => "yes",
            (false, true) => "of its identity",
            (_, false) => "-",
        };
        let private = if key.has_private { "here" } else { "missing" };
        rows.push(row([&key.name, &kind_of(key), &default, &private, &key.certificates.len()]));
    }
    table(&rows)
}

fn as_json(identity: &Identity, key: &KeyEntry) -> Value {
    let certificates: Vec<_> = key.certificates.iter().map(|c| c.name.to_string()).collect();
    json!({ "identity": identity.name.to_string(), "default_identity": identity.is_default, "key": key.name.to_string(),
        "default_key": key.is_default, "type": kind_of(key), "private": key.has_private, "certificates": certificates })
}

fn kind_of(key: &KeyEntry) -> &'static str {
    VerifyKey::from_spki(&key.public_key).map_or("unknown", |key| key.kind())
}

fn must_be_key(name: &Name) -> Result<()> {
    if level(name.as_ref()) == Level::Certificate {
        bail!("{name} names a certificate: see `nw cert`");
    }
    Ok(())
}

/// What was done.
pub fn say(showing: &Showing, json: Value, text: impl FnOnce() -> String) -> Result<()> {
    if showing.json {
        return json_line(&json);
    }
    outln!("{}", text())?;
    Ok(())
}
