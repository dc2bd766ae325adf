//! `nw key …`: keys of identities.

use super::{KeyCommand, KeyType, StoreQueryArgs, files, passphrase};
use crate::output::{json_line, row, table};
use crate::signing::{open, parse_key_name, store_location};
use anyhow::{Context, Result, bail};
use nw_app::keystore::{Identity, KeyEntry, KeyStore, Level, level};
use nw_name::Name;
use nw_trust::{Key, KeyKind, VerifyKey, safebag};
use serde_json::{Value, json};
use std::process::ExitCode;

/// Validity of a self-signed certificate, days: twenty years, as in ndn-cxx.
const SELF_SIGNED_DAYS: u64 = 20 * 365;

/// Runs `nw key …`.
pub fn key(action: &KeyCommand) -> Result<ExitCode> {
    match action {
        KeyCommand::Generate { identity, kind, size, default, query } => {
            generate(identity, *kind, *size, *default, query)?
        }
        KeyCommand::List { query } => list(query)?,
        KeyCommand::Default { name, query } => {
            must_be_key(name)?;
            let level = open(&query.store)?.set_default(name.as_ref())?;
            print_result(query, json!({ "default": name.to_string() }), || match level {
                Level::Identity => format!("{name} is the default identity"),
                _ => format!("{name} is the default key of its identity"),
            })?;
        }
        KeyCommand::Delete { name, query } => {
            must_be_key(name)?;
            let keys = open(&query.store)?.delete(name.as_ref())?;
            let names: Vec<String> = keys.iter().map(Name::to_string).collect();
            print_result(query, json!({ "deleted": name.to_string(), "keys": names }), || {
                match level(name.as_ref()) {
                    Level::Identity => format!("{name} is deleted with its keys ({})", keys.len()),
                    _ => format!("{name} is deleted"),
                }
            })?;
        }
        KeyCommand::Export { name, output, passphrase, store } => {
            let (store, name) = (open(store)?, parse_key_name(name)?);
            // Fails for a key that can't be exported before a passphrase is requested.
            let key = store.key(name.as_ref().map(Name::as_ref))?;
            store.private_key(key.name.as_ref())?;
            let passphrase = passphrase::choose(passphrase)?;
            let bag = store.export(name.as_ref().map(Name::as_ref), passphrase.as_bytes())?;
            files::write(output, &bag)?;
        }
        KeyCommand::Import { file, passphrase, query } => {
            let location = store_location(&query.store)?;
            let bag = safebag::read_file(&files::read(file)?)
                .with_context(|| format!("{} does not contain an exported key", file.display()))?;
            let passphrase = passphrase::read(passphrase)?;
            // Decrypted first, so that a wrong passphrase does not create a key store.
            let (wire, key) = safebag::open(&bag, passphrase.as_bytes())?;
            KeyStore::create(location)?.add_key(&key, &wire)?;
            let name = key.name();
            print_result(query, json!({ "key": name.to_string() }), || {
                format!("{name} is installed")
            })?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn generate(
    identity: &Name,
    kind: KeyType,
    size: Option<u16>,
    default: bool,
    query: &StoreQueryArgs,
) -> Result<()> {
    if identity.as_ref().is_empty() || level(identity.as_ref()) != Level::Identity {
        bail!("{identity} is not the name of an identity: use a name such as /alice");
    }
    let identity = identity.as_ref();
    let key = match (kind, size) {
        (KeyType::Rsa, bits) => Key::generate_rsa(bits.unwrap_or(2048), identity)?,
        (KeyType::Ecdsa, None | Some(256)) => Key::generate(KeyKind::EcdsaP256, identity)?,
        (KeyType::Ecdsa, Some(bits)) => {
            bail!("ECDSA keys of {bits} bits are not supported: use 256")
        }
        (KeyType::Ed25519, None) => Key::generate(KeyKind::Ed25519, identity)?,
        (KeyType::Ed25519, Some(_)) => bail!("Ed25519 keys have a fixed size: omit --size"),
    };
    let mut store = KeyStore::create(store_location(&query.store)?)?;
    let now_ms = super::cert::now_ms();
    store.add_new_key(&key, now_ms, now_ms / 1000 + SELF_SIGNED_DAYS * 86_400)?;
    if default {
        store.set_default(key.name())?;
        store.set_default(identity)?;
    }
    let name = key.name();
    print_result(query, json!({ "key": name.to_string() }), || name.to_string())
}

fn list(query: &StoreQueryArgs) -> Result<()> {
    let identities = open(&query.store)?.identities()?;
    let keys = || {
        identities.iter().flat_map(|identity| identity.keys.iter().map(move |key| (identity, key)))
    };
    if query.json {
        return keys().try_for_each(|(identity, key)| json_line(&as_json(identity, key)));
    }
    let mut rows = vec![row([&"key", &"type", &"default", &"private key", &"certificates"])];
    for (identity, key) in keys() {
        let default = match (identity.is_default, key.is_default) {
            (true, true) => "yes",
            (false, true) => "of its identity",
            (_, false) => "-",
        };
        let private = if key.has_private { "present" } else { "missing" };
        rows.push(row([&key.name, &kind_of(key), &default, &private, &key.certificates.len()]));
    }
    table(&rows)
}

fn as_json(identity: &Identity, key: &KeyEntry) -> Value {
    let certificates: Vec<_> = key.certificates.iter().map(|c| c.name.to_string()).collect();
    json!({
        "identity": identity.name.to_string(),
        "default_identity": identity.is_default,
        "key": key.name.to_string(),
        "default_key": key.is_default,
        "type": kind_of(key),
        "private": key.has_private,
        "certificates": certificates,
    })
}

fn kind_of(key: &KeyEntry) -> &'static str {
    VerifyKey::from_spki(&key.public_key).map_or("unknown", |key| key.kind())
}

fn must_be_key(name: &Name) -> Result<()> {
    if level(name.as_ref()) == Level::Certificate {
        bail!("{name} is the name of a certificate: use `nw cert`");
    }
    Ok(())
}

/// Prints the result of a command as JSON or text.
pub fn print_result(
    query: &StoreQueryArgs,
    json: Value,
    text: impl FnOnce() -> String,
) -> Result<()> {
    if query.json {
        return json_line(&json);
    }
    outln!("{}", text())?;
    Ok(())
}
