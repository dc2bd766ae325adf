//! `nw cert …`

use super::key::say;
use super::{CertVerb, Showing, Writing, files};
use crate::args::Store;
use crate::output::{json_line, row, table};
use crate::signing::{named, open};
use anyhow::{Context, Result, bail};
use nw_app::keystore::{Level, level};
use nw_name::{Name, NameRef};
use nw_trust::certificate::{self, ISSUER_SELF};
use nw_trust::{Validity, VerifyKey, calendar, verify_data};
use nw_wire::certificate::Certificate;
use nw_wire::{Data, KeyLocator, SignatureType};
use serde_json::{Value, json};
use std::path::Path;
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

const DAY_S: u64 = 86_400;
/// How long a request that is made anew is valid, days.
const REQUEST_DAYS: u64 = 10;

/// Does it.
pub fn cert(verb: &CertVerb) -> Result<ExitCode> {
    match verb {
        CertVerb::List { showing } => list(showing)?,
        CertVerb::Show { what, showing } => show(&find(what, &showing.store)?, showing)?,
        CertVerb::Request { name, writing, store } => request(name, writing, store)?,
        CertVerb::Sign { file, signer, issuer, not_before, not_after, writing, store } => {
            let validity = Validity { not_before_s: *not_before, not_after_s: *not_after };
            let certificate = sign(&read(file)?, signer, issuer, validity, store)
                .with_context(|| format!("can't sign {}", file.display()))?;
            files::write(writing, &certificate)?;
        }
        CertVerb::Install { file, no_default, showing } => {
            let name = open(&showing.store)?.add_certificate(&read(file)?, !no_default)?;
            say(showing, json!({ "certificate": name.to_string() }), || format!("{name} is here now"))?;
        }
        CertVerb::Export { name, writing, store } => {
            let name = named(name)?;
            files::write(writing, &open(store)?.certificate(name.as_ref().map(Name::as_ref))?.wire)?;
        }
        CertVerb::Default { name, showing } => {
            must_be_certificate(name)?;
            open(&showing.store)?.set_default(name.as_ref())?;
            say(showing, json!({ "default": name.to_string() }), || format!("{name} is meant by its key"))?;
        }
        CertVerb::Delete { name, showing } => {
            must_be_certificate(name)?;
            open(&showing.store)?.delete(name.as_ref())?;
            say(showing, json!({ "deleted": name.to_string() }), || format!("{name} is deleted"))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Milliseconds since 1970.
pub fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}

/// A second since 1970 as the command line says it: `now`, days from now, or a date.
pub fn moment(text: &str) -> Result<u64, String> {
    let now_s = now_ms() / 1000;
    let days =
        text.strip_prefix('+').and_then(|rest| rest.strip_suffix('d')).and_then(|days| days.parse().ok());
    let moment = match (text, days) {
        ("now", _) => Some(now_s),
        (_, Some(days)) => DAY_S.checked_mul(days).and_then(|s| now_s.checked_add(s)),
        _ => calendar::parse(text),
    };
    moment.ok_or_else(|| "expected 20260131T120000, 2026-01-31, now or +365d".to_owned())
}

fn read(file: &Path) -> Result<Vec<u8>> {
    certificate::read_file(&files::read(file)?)
        .with_context(|| format!("{} holds no certificate", file.display()))
}

/// A certificate in a file, or of the store.
fn find(what: &str, store: &Store) -> Result<Vec<u8>> {
    if what == "-" || Path::new(what).is_file() {
        return read(Path::new(what));
    }
    if !what.starts_with('/') && what != "default" {
        bail!("there is no file {what}, and a name begins with /");
    }
    let name = named(what)?;
    Ok(open(store)?.certificate(name.as_ref().map(Name::as_ref))?.wire)
}

fn request(name: &str, writing: &Writing, store: &Store) -> Result<()> {
    let (store, name) = (open(store)?, named(name)?);
    let key = store.key(name.as_ref().map(Name::as_ref))?;
    let own = key.certificates.iter().find(|c| c.name.as_ref().component(-2) == Some(ISSUER_SELF));
    let wire = match own {
        Some(own) => own.wire.clone(),
        None => {
            let now_s = now_ms() / 1000;
            let validity = Validity { not_before_s: now_s, not_after_s: now_s + REQUEST_DAYS * DAY_S };
            certificate::self_signed(&store.private_key(key.name.as_ref())?, now_ms(), validity)?
        }
    };
    files::write(writing, &wire)
}

fn sign(request: &[u8], signer: &str, issuer: &str, validity: Validity, store: &Store) -> Result<Vec<u8>> {
    if validity.not_after_s < validity.not_before_s {
        bail!(
            "it would be valid from {} until {}, which is before that",
            calendar::text(validity.not_before_s),
            calendar::text(validity.not_after_s)
        );
    }
    let request = Certificate::check(request)?;
    // Whoever asks must have the key.
    verify_data(&request.data(), &VerifyKey::from_spki(request.public_key())?)
        .context("the request is not signed by the key that is in it")?;
    let name = named(signer)?;
    let signer = open(store)?.credentials(name.as_ref().map(Name::as_ref))?;
    let issuer = single(issuer)?;
    Ok(certificate::issue(
        request.key_name(),
        request.public_key(),
        issuer.as_ref().component(0).context("--issuer is empty")?,
        &signer.key,
        now_ms(),
        validity,
    )?)
}

/// A name of one component.
fn single(word: &str) -> Result<Name> {
    let name: Name = format!("/{word}").parse().with_context(|| format!("{word} is no name component"))?;
    if name.as_ref().len() != 1 {
        bail!("--issuer is one component of a name, not {word:?}");
    }
    Ok(name)
}

fn list(showing: &Showing) -> Result<()> {
    let identities = open(&showing.store)?.identities()?;
    let keys = identities.iter().flat_map(|identity| &identity.keys);
    let mut rows = vec![row([&"certificate", &"valid until", &"default"])];
    for certificate in keys.flat_map(|key| &key.certificates) {
        if showing.json {
            let mut shown = as_json(&Certificate::check(&certificate.wire)?);
            shown["default"] = certificate.is_default.into();
            json_line(&shown)?;
            continue;
        }
        let validity = Certificate::check(&certificate.wire).ok().and_then(|c| Validity::of(&c));
        let until = validity.map_or("?".to_owned(), |validity| calendar::text(validity.not_after_s));
        rows.push(row([&certificate.name, &until, &if certificate.is_default { "yes" } else { "-" }]));
    }
    if showing.json { Ok(()) } else { table(&rows) }
}

fn show(wire: &[u8], showing: &Showing) -> Result<()> {
    let certificate = Certificate::check(wire)?;
    if showing.json {
        return json_line(&as_json(&certificate));
    }
    let data = certificate.data();
    let key = VerifyKey::from_spki(certificate.public_key());
    let itself = key.as_ref().is_ok_and(|key| verify_data(&data, key).is_ok());
    let by = locator(&data).map_or(String::new(), |by| format!(" by {by}"));
    let own = if itself { " (the key in it: signed by itself)" } else { "" };
    let mut rows = vec![
        row([&"name", &data.name()]),
        row([&"identity", &certificate.identity()]),
        row([&"key", &certificate.key_name()]),
        row([&"type", &key.map_or("unknown", |key| key.kind())]),
        row([&"issuer", &certificate.issuer()]),
        row([&"valid", &validity_text(&certificate)]),
        row([&"signature", &format!("{}{by}{own}", signature_word(data.signature_info().typ()))]),
        row([&"fingerprint", &hexadecimal(&data.digest())]),
    ];
    rows.extend(certificate::description(&certificate).iter().map(|(key, value)| row([key, value])));
    table(&rows)
}

fn validity_text(certificate: &Certificate<'_>) -> String {
    let Some(validity) = Validity::of(certificate) else {
        return "at no time: its dates are on no calendar".to_owned();
    };
    let now_s = now_ms() / 1000;
    let now = match () {
        () if validity.contains(now_s) => "valid now",
        () if now_s < validity.not_before_s => "not valid yet",
        () => "not valid any more",
    };
    format!(
        "from {} until {} UTC ({now})",
        calendar::text(validity.not_before_s),
        calendar::text(validity.not_after_s)
    )
}

fn as_json(certificate: &Certificate<'_>) -> Value {
    let data = certificate.data();
    let validity = Validity::of(certificate);
    let description: serde_json::Map<_, _> =
        certificate::description(certificate).into_iter().map(|(key, value)| (key, value.into())).collect();
    json!({ "name": data.name().to_string(), "identity": certificate.identity().to_string(),
        "key": certificate.key_name().to_string(),
        "type": VerifyKey::from_spki(certificate.public_key()).map_or("unknown", |key| key.kind()),
        "issuer": certificate.issuer().to_string(),
        "not_before_s": validity.map(|v| v.not_before_s), "not_after_s": validity.map(|v| v.not_after_s),
        "valid_now": validity.is_some_and(|v| v.contains(now_ms() / 1000)),
        "signature_type": data.signature_info().typ().number(), "key_locator": locator(&data),
        "fingerprint": hexadecimal(&data.digest()), "description": description })
}

fn locator(data: &Data<'_>) -> Option<String> {
    data.signature_info().key_locator().map(|locator| match locator {
        KeyLocator::Name(name) => name.to_string(),
        KeyLocator::Digest(digest) => hexadecimal(digest),
    })
}

fn signature_word(typ: SignatureType) -> String {
    match typ {
        SignatureType::DigestSha256 => "SHA-256 digest, by nobody".to_owned(),
        SignatureType::Sha256WithRsa => "RSA with SHA-256".to_owned(),
        SignatureType::Sha256WithEcdsa => "ECDSA with SHA-256".to_owned(),
        SignatureType::HmacWithSha256 => "HMAC with SHA-256".to_owned(),
        SignatureType::Ed25519 => "Ed25519".to_owned(),
        SignatureType::Null => "none".to_owned(),
        SignatureType::Other(number) => format!("of type {number}, unknown here"),
    }
}

fn hexadecimal(octets: &[u8]) -> String {
    octets.iter().map(|octet| format!("{octet:02x}")).collect()
}

fn must_be_certificate(name: &Name) -> Result<()> {
    let name: NameRef<'_> = name.as_ref();
    if level(name) != Level::Certificate {
        bail!("{name} names no certificate: `nw cert list` shows their names");
    }
    Ok(())
}
