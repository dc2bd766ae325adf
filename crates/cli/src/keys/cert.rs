//! `nw cert …`: certificates.

use super::key::print_result;
use super::{CertCommand, PacketOutputArgs, StoreQueryArgs, files};
use crate::args::flags::KeyStoreArgs;
use crate::output::{json_line, row, table};
use crate::signing::{open, parse_key_name};
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
/// Validity of a new certificate request, days.
const REQUEST_DAYS: u64 = 10;

/// Runs `nw cert …`.
pub fn cert(action: &CertCommand) -> Result<ExitCode> {
    match action {
        CertCommand::List { query } => list(query)?,
        CertCommand::Show { certificate, query } => show(&find(certificate, &query.store)?, query)?,
        CertCommand::Request { name, output, store } => request(name, output, store)?,
        CertCommand::Sign { file, signer, issuer, not_before, not_after, output, store } => {
            let validity = Validity { not_before_s: *not_before, not_after_s: *not_after };
            let certificate = sign(&read(file)?, signer, issuer, validity, store)
                .with_context(|| format!("can't sign {}", file.display()))?;
            files::write(output, &certificate)?;
        }
        CertCommand::Install { file, no_default, query } => {
            let name = open(&query.store)?.add_certificate(&read(file)?, !no_default)?;
            print_result(query, json!({ "certificate": name.to_string() }), || {
                format!("{name} is installed")
            })?;
        }
        CertCommand::Export { name, output, store } => {
            let name = parse_key_name(name)?;
            files::write(output, &open(store)?.certificate(name.as_ref().map(Name::as_ref))?.wire)?;
        }
        CertCommand::Default { name, query } => {
            must_be_certificate(name)?;
            open(&query.store)?.set_default(name.as_ref())?;
            print_result(query, json!({ "default": name.to_string() }), || {
                format!("{name} is the default of its key")
            })?;
        }
        CertCommand::Delete { name, query } => {
            must_be_certificate(name)?;
            open(&query.store)?.delete(name.as_ref())?;
            print_result(query, json!({ "deleted": name.to_string() }), || {
                format!("{name} is deleted")
            })?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the current time, milliseconds since 1970.
pub fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}

/// Parses a time: `now`, days from now, or a date. Returns seconds since 1970.
pub fn parse_time(text: &str) -> Result<u64, String> {
    let now_s = now_ms() / 1000;
    let days = text
        .strip_prefix('+')
        .and_then(|tail| tail.strip_suffix('d'))
        .and_then(|days| days.parse().ok());
    let time_s = match (text, days) {
        ("now", _) => Some(now_s),
        (_, Some(days)) => DAY_S.checked_mul(days).and_then(|s| now_s.checked_add(s)),
        _ => calendar::parse(text),
    };
    time_s.ok_or_else(|| "expected 20260131T120000, 2026-01-31, now or +365d".to_owned())
}

/// Returns the certificate packet in a file.
pub fn read(file: &Path) -> Result<Vec<u8>> {
    certificate::read_file(&files::read(file)?)
        .with_context(|| format!("{} does not contain a certificate", file.display()))
}

/// Returns a certificate from a file or from the store.
fn find(certificate: &str, store: &KeyStoreArgs) -> Result<Vec<u8>> {
    if certificate == "-" || Path::new(certificate).is_file() {
        return read(Path::new(certificate));
    }
    if !certificate.starts_with('/') && certificate != "default" {
        bail!("there is no file {certificate}, and names begin with /");
    }
    let name = parse_key_name(certificate)?;
    Ok(open(store)?.certificate(name.as_ref().map(Name::as_ref))?.wire)
}

fn request(name: &str, output: &PacketOutputArgs, store: &KeyStoreArgs) -> Result<()> {
    let (store, name) = (open(store)?, parse_key_name(name)?);
    let key = store.key(name.as_ref().map(Name::as_ref))?;
    let self_signed =
        key.certificates.iter().find(|c| c.name.as_ref().component(-2) == Some(ISSUER_SELF));
    let wire = match self_signed {
        Some(certificate) => certificate.wire.clone(),
        None => {
            let now_s = now_ms() / 1000;
            let validity =
                Validity { not_before_s: now_s, not_after_s: now_s + REQUEST_DAYS * DAY_S };
            certificate::self_signed(&store.private_key(key.name.as_ref())?, now_ms(), validity)?
        }
    };
    files::write(output, &wire)
}

fn sign(
    request: &[u8],
    signer: &str,
    issuer: &str,
    validity: Validity,
    store: &KeyStoreArgs,
) -> Result<Vec<u8>> {
    if validity.not_after_s < validity.not_before_s {
        bail!(
            "the end of validity is before its start: from {} until {}",
            calendar::format_utc(validity.not_before_s),
            calendar::format_utc(validity.not_after_s)
        );
    }
    let request = Certificate::check(request)?;
    // Proves that the sender of the request has the private key.
    verify_data(&request.data(), &VerifyKey::from_spki(request.public_key())?)
        .context("the request is not signed by the key in it")?;
    let name = parse_key_name(signer)?;
    let signer = open(store)?.credentials(name.as_ref().map(Name::as_ref))?;
    let issuer = issuer_name(issuer)?;
    Ok(certificate::issue(
        request.key_name(),
        request.public_key(),
        issuer.as_ref().component(0).context("--issuer is empty")?,
        &signer.key,
        now_ms(),
        validity,
    )?)
}

/// Returns a name of one component for `--issuer`.
fn issuer_name(word: &str) -> Result<Name> {
    let name: Name =
        format!("/{word}").parse().with_context(|| format!("{word} is not a name component"))?;
    if name.as_ref().len() != 1 {
        bail!("--issuer must be one name component, not {word:?}");
    }
    Ok(name)
}

fn list(query: &StoreQueryArgs) -> Result<()> {
    let identities = open(&query.store)?.identities()?;
    let keys = identities.iter().flat_map(|identity| &identity.keys);
    let mut rows = vec![row([&"certificate", &"valid until", &"default"])];
    for certificate in keys.flat_map(|key| &key.certificates) {
        if query.json {
            let mut json = as_json(&Certificate::check(&certificate.wire)?);
            json["default"] = certificate.is_default.into();
            json_line(&json)?;
            continue;
        }
        let validity =
            Certificate::check(&certificate.wire).ok().and_then(|c| Validity::from_certificate(&c));
        let until =
            validity.map_or("?".to_owned(), |validity| calendar::format_utc(validity.not_after_s));
        rows.push(row([
            &certificate.name,
            &until,
            &if certificate.is_default { "yes" } else { "-" },
        ]));
    }
    if query.json { Ok(()) } else { table(&rows) }
}

fn show(wire: &[u8], query: &StoreQueryArgs) -> Result<()> {
    let certificate = Certificate::check(wire)?;
    if query.json {
        return json_line(&as_json(&certificate));
    }
    let data = certificate.data();
    let key = VerifyKey::from_spki(certificate.public_key());
    let is_self_signed = key.as_ref().is_ok_and(|key| verify_data(&data, key).is_ok());
    let signer = locator(&data).map_or(String::new(), |name| format!(" by {name}"));
    let note = if is_self_signed { " (self-signed)" } else { "" };
    let mut rows = vec![
        row([&"name", &data.name()]),
        row([&"identity", &certificate.identity()]),
        row([&"key", &certificate.key_name()]),
        row([&"type", &key.map_or("unknown", |key| key.kind())]),
        row([&"issuer", &certificate.issuer()]),
        row([&"valid", &validity_text(&certificate)]),
        row([
            &"signature",
            &format!("{}{signer}{note}", signature_word(data.signature_info().typ())),
        ]),
        row([&"fingerprint", &hexadecimal(&data.digest())]),
    ];
    rows.extend(
        certificate::description(&certificate).iter().map(|(key, value)| row([key, value])),
    );
    table(&rows)
}

fn validity_text(certificate: &Certificate<'_>) -> String {
    let Some(validity) = Validity::from_certificate(certificate) else {
        return "never: its dates are invalid".to_owned();
    };
    let now_s = now_ms() / 1000;
    let state = match () {
        () if validity.contains(now_s) => "valid now",
        () if now_s < validity.not_before_s => "not valid yet",
        () => "expired",
    };
    format!(
        "from {} until {} UTC ({state})",
        calendar::format_utc(validity.not_before_s),
        calendar::format_utc(validity.not_after_s)
    )
}

fn as_json(certificate: &Certificate<'_>) -> Value {
    let data = certificate.data();
    let validity = Validity::from_certificate(certificate);
    let description: serde_json::Map<_, _> = certificate::description(certificate)
        .into_iter()
        .map(|(key, value)| (key, value.into()))
        .collect();
    json!({
        "name": data.name().to_string(),
        "identity": certificate.identity().to_string(),
        "key": certificate.key_name().to_string(),
        "type": VerifyKey::from_spki(certificate.public_key()).map_or("unknown", |key| key.kind()),
        "issuer": certificate.issuer().to_string(),
        "not_before_s": validity.map(|v| v.not_before_s),
        "not_after_s": validity.map(|v| v.not_after_s),
        "valid_now": validity.is_some_and(|v| v.contains(now_ms() / 1000)),
        "signature_type": data.signature_info().typ().number(),
        "key_locator": locator(&data),
        "fingerprint": hexadecimal(&data.digest()),
        "description": description,
    })
}

fn locator(data: &Data<'_>) -> Option<String> {
    data.signature_info().key_locator().map(|locator| match locator {
        KeyLocator::Name(name) => name.to_string(),
        KeyLocator::Digest(digest) => hexadecimal(digest),
    })
}

fn signature_word(typ: SignatureType) -> String {
    match typ {
        SignatureType::DigestSha256 => "SHA-256 digest, no signer".to_owned(),
        SignatureType::Sha256WithRsa => "RSA with SHA-256".to_owned(),
        SignatureType::Sha256WithEcdsa => "ECDSA with SHA-256".to_owned(),
        SignatureType::HmacWithSha256 => "HMAC with SHA-256".to_owned(),
        SignatureType::Ed25519 => "Ed25519".to_owned(),
        SignatureType::Null => "none".to_owned(),
        SignatureType::Other(number) => format!("unknown type {number}"),
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn must_be_certificate(name: &Name) -> Result<()> {
    let name: NameRef<'_> = name.as_ref();
    if level(name) != Level::Certificate {
        bail!("{name} is not the name of a certificate (`nw cert list` shows all)");
    }
    Ok(())
}
