//! Signing and verification as the command line selects them: the key that signs Data and commands,
//! and the keys that are trusted for fetched Data.

use crate::args::flags::{CommandArgs, KeyStoreArgs, RouterArgs, SigningArgs, VerifyArgs};
use crate::connect::{connect, uri};
use anyhow::{Context, Result};
use nw_api::config::DataTrust;
use nw_api::config::file::{KEY_MAX, TEXT_MAX, read_bytes, read_text};
use nw_app::control::Commander;
use nw_app::keystore::{Credentials, KeyStore, KeyStoreError, KeyStoreLocation};
use nw_app::verify::Verifier;
use nw_app::{Client, FaceUri, Outgoing, Received};
use nw_element_api::Kind;
use nw_name::Name;
use nw_trust::{Error, Key, Signer};
use nw_wire::{Interest, Sign};
use std::path::Path;

/// The word for the default identity of the key store.
const DEFAULT: &str = "default";

/// The signer of Data packets.
#[derive(Debug)]
pub enum DataSigner {
    /// A plain digest, or a key in a file. Commands carry a plain digest.
    Plain(Signer),
    /// A key of the key store, which also signs commands.
    Stored(Box<Credentials>),
}

impl DataSigner {
    /// Returns the sender of prefix registrations for this router.
    pub fn commander(&self, router: &RouterArgs) -> Result<Commander<'_>> {
        let credentials = match self {
            DataSigner::Plain(_) => None,
            DataSigner::Stored(credentials) => Some(&**credentials),
        };
        Ok(Commander::at(&uri(router)?, credentials))
    }

    /// Returns the key. `None` for a plain digest.
    pub fn key(&self) -> Option<&Key> {
        match self {
            DataSigner::Plain(Signer::Digest) => None,
            DataSigner::Plain(Signer::Key(key)) => Some(key),
            DataSigner::Stored(credentials) => Some(&credentials.key),
        }
    }

    /// Returns the name under which certificates of the signing key are served. `None` for keys
    /// that are not in the key store.
    pub fn key_name(&self) -> Option<Name> {
        match self {
            DataSigner::Plain(_) => None,
            DataSigner::Stored(credentials) => Some(credentials.key.name().to_name()),
        }
    }

    /// Answers an Interest for a certificate of the signing key. Returns false for any other
    /// packet.
    pub fn answer(&self, received: &Received<'_>, out: &mut Outgoing) -> bool {
        let DataSigner::Stored(credentials) = self else { return false };
        if received.kind() != Kind::Interest {
            return false;
        }
        let interest = Interest::check(received.wire);
        let certificate = interest.ok().and_then(|interest| credentials.answer(&interest));
        certificate.inspect(|certificate| out.answer(received, certificate)).is_some()
    }
}

impl Sign for DataSigner {
    type Error = Error;

    fn info(&self) -> Vec<u8> {
        match self {
            DataSigner::Plain(signer) => signer.info(),
            DataSigner::Stored(credentials) => credentials.key.info(),
        }
    }

    fn sign(&self, parts: &[&[u8]]) -> Result<Vec<u8>, Error> {
        match self {
            DataSigner::Plain(signer) => signer.sign(parts),
            DataSigner::Stored(credentials) => credentials.key.sign(parts),
        }
    }
}

/// Returns the signer that the options select.
pub fn signer(signing: &SigningArgs) -> Result<DataSigner> {
    let plain = |signer| Ok(DataSigner::Plain(signer));
    match (&signing.key, &signing.hmac, &signing.key_name) {
        (None, None, None) => plain(Signer::Digest),
        (Some(path), _, Some(name)) => plain(key_of_file(Path::new(path), name)?.into()),
        (Some(name), _, None) => {
            Ok(DataSigner::Stored(Box::new(credentials(&signing.store, name)?)))
        }
        (None, Some(path), Some(name)) => {
            plain(Key::from_secret(name.as_ref(), &read_secret(path)?).into())
        }
        (None, _, _) => {
            anyhow::bail!(
                "--key-name is the name of a key in a file: give the file with --key or --hmac"
            )
        }
    }
}

fn read_secret(path: &Path) -> Result<Vec<u8>> {
    let secret = read_bytes(path, KEY_MAX)?;
    anyhow::ensure!(!secret.is_empty(), "the secret in {} is empty", path.display());
    Ok(secret)
}

/// Returns the verifier of fetched Data that the options select.
///
/// If anchors, rules or secrets are given, one of them must verify each packet, and the key store
/// is used only with `--verify`. Otherwise the keys of the key store verify what they can, and are
/// mandatory only with `--verify`.
pub fn verifier(args: &VerifyArgs) -> Result<Verifier> {
    let mut verifier = Verifier::default();
    for path in &args.anchor {
        verifier.add_anchor_file(path)?;
    }
    if let Some(path) = &args.trust {
        verifier.add_trust_file(path)?;
        report_renamed(path)?;
    }
    if let Some(path) = &args.hmac {
        verifier.add_secret(args.key_name.clone(), &read_secret(path)?);
    }
    let has_explicit_trust = !args.anchor.is_empty() || args.trust.is_some() || args.hmac.is_some();
    if args.required || !has_explicit_trust {
        let is_store_required = args.required && !has_explicit_trust || args.store.store.is_some();
        match open(&args.store).and_then(|store| store.identities()) {
            Ok(identities) => {
                let keys = identities.iter().flat_map(|identity| &identity.keys);
                for certificate in keys.flat_map(|key| &key.certificates) {
                    // A certificate that can't be an anchor is skipped.
                    let _ = verifier.add_anchor(&certificate.wire);
                }
            }
            Err(error) if is_store_required => {
                return Err(error).context("--verify needs a trusted key");
            }
            Err(KeyStoreError::NoStore(_) | KeyStoreError::NoHome) => {}
            Err(error) => note!("nw: the key store can't be used for verification: {error}"),
        }
    }
    if args.required || has_explicit_trust {
        anyhow::ensure!(
            !verifier.is_without_keys(),
            "no key is trusted, so no Data can be accepted: give one with --anchor, --trust or \
             --hmac, or generate one with `nw key generate`"
        );
        verifier.require_trusted();
    }
    Ok(verifier)
}

/// Reports sections of a trust file that have an old name.
fn report_renamed(path: &Path) -> Result<()> {
    let trust = DataTrust::parse(&path.display().to_string(), &read_text(path, TEXT_MAX)?)?;
    for renamed in &trust.renamed {
        note!("nw: warning: {renamed}");
    }
    Ok(())
}

fn key_of_file(path: &Path, name: &Name) -> Result<Key> {
    let pem = read_text(path, KEY_MAX)?;
    Key::from_pem(name.as_ref(), &pem).with_context(|| {
        format!("{} (create one with `openssl genpkey -algorithm ed25519`)", path.display())
    })
}

/// Returns the key with this name, with its certificate, from the key store.
pub fn credentials(store: &KeyStoreArgs, name: &str) -> Result<Credentials> {
    if !name.starts_with('/') && name != DEFAULT {
        anyhow::bail!(
            "{name} is not the name of a key: names begin with /, or use `default`; for a key in a \
             file add --key-name"
        );
    }
    let name = parse_key_name(name)?;
    let credentials = open(store)?.credentials(name.as_ref().map(Name::as_ref));
    Ok(credentials?)
}

/// Parses a name on the command line. `None` stands for the default identity.
pub fn parse_key_name(text: &str) -> Result<Option<Name>> {
    if text == DEFAULT {
        return Ok(None);
    }
    text.parse().map(Some).with_context(|| format!("{text} is not a name"))
}

/// Returns the location of the key store.
pub fn store_location(store: &KeyStoreArgs) -> Result<KeyStoreLocation, KeyStoreError> {
    match &store.store {
        Some(folder) => Ok(KeyStoreLocation::in_folder(folder)),
        None => KeyStoreLocation::of_user(),
    }
}

/// Opens the key store, which must exist.
pub fn open(store: &KeyStoreArgs) -> Result<KeyStore, KeyStoreError> {
    KeyStore::open(store_location(store)?)
}

/// A connection to a router, with the credentials that sign commands.
pub struct SignedConnection {
    /// The connection.
    pub client: Client,
    uri: FaceUri,
    credentials: Option<Credentials>,
}

/// Connects to the router of a command.
pub fn connect_signed(command: &CommandArgs) -> Result<SignedConnection> {
    let credentials =
        command.key.as_deref().map(|name| credentials(&command.store, name)).transpose()?;
    let router = &command.query.router;
    Ok(SignedConnection { uri: uri(router)?, client: connect(router)?, credentials })
}

impl SignedConnection {
    /// Returns the connection and the sender of commands.
    pub fn parts(&mut self) -> (&mut Client, Commander<'_>) {
        (&mut self.client, Commander::at(&self.uri, self.credentials.as_ref()))
    }
}
