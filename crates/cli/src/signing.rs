//! The signer that the command line names: none, a key of the key store, or a key in a file. And the signers trusted for what is fetched.

use crate::args::{Order, Router, Signing, Store, Verifying};
use crate::connect::{connect, uri};
use anyhow::{Context, Result};
use nw_api::config::file::{KEY_MAX, read_bytes, read_text};
use nw_app::control::Commander;
use nw_app::keystore::{Credentials, KeyStore, KeyStoreError, Place};
use nw_app::verify::Verifier;
use nw_app::{Client, FaceUri, Outgoing, Received};
use nw_element_api::Kind;
use nw_name::Name;
use nw_trust::{Error, Key, Signer};
use nw_wire::{Interest, Sign};
use std::path::Path;

/// What means the store's default identity.
const DEFAULT: &str = "default";

/// Signs packets.
#[derive(Debug)]
pub enum Signed {
    /// By a plain digest, or a key in a file.
    Plain(Signer),
    /// By a key of the store, which signs commands, too.
    Stored(Box<Credentials>),
}

impl Signed {
    /// Who registers prefixes with this router.
    pub fn commander(&self, router: &Router) -> Result<Commander<'_>> {
        let by = match self {
            Signed::Plain(_) => None,
            Signed::Stored(credentials) => Some(&**credentials),
        };
        Ok(Commander::at(&uri(router)?, by))
    }
}

impl Signed {
    /// The name that certificates of the signing key are served under, when the key store has the key.
    pub fn key_name(&self) -> Option<Name> {
        match self {
            Signed::Plain(_) => None,
            Signed::Stored(credentials) => Some(credentials.key.name().to_name()),
        }
    }

    /// Answers an Interest for a certificate of the signing key; false when it is for something else.
    pub fn answer(&self, received: &Received<'_>, out: &mut Outgoing) -> bool {
        let Signed::Stored(credentials) = self else { return false };
        if received.kind() != Kind::Interest {
            return false;
        }
        let interest = Interest::check(received.wire);
        let certificate = interest.ok().and_then(|interest| credentials.answer(&interest));
        certificate.inspect(|certificate| out.answer(received, certificate)).is_some()
    }
}

impl Sign for Signed {
    type Error = Error;

    fn info(&self) -> Vec<u8> {
        match self {
            Signed::Plain(signer) => signer.info(),
            Signed::Stored(credentials) => credentials.key.info(),
        }
    }

    fn sign(&self, parts: &[&[u8]]) -> Result<Vec<u8>, Error> {
        match self {
            Signed::Plain(signer) => signer.sign(parts),
            Signed::Stored(credentials) => credentials.key.sign(parts),
        }
    }
}

/// What signs packets.
pub fn signer(signing: &Signing) -> Result<Signed> {
    let plain = |signer| Ok(Signed::Plain(signer));
    match (&signing.key, &signing.hmac, &signing.key_name) {
        (None, None, None) => plain(Signer::Digest),
        (Some(path), _, Some(name)) => plain(key_of_file(Path::new(path), name)?.into()),
        (Some(name), _, None) => Ok(Signed::Stored(Box::new(credentials(&signing.store, name)?))),
        (None, Some(path), Some(name)) => plain(Key::from_secret(name.as_ref(), &read_secret(path)?).into()),
        (None, _, _) => anyhow::bail!("--key-name names a key in a file: say which with --key or --hmac"),
    }
}

fn read_secret(path: &Path) -> Result<Vec<u8>> {
    let secret = read_bytes(path, KEY_MAX)?;
    anyhow::ensure!(!secret.is_empty(), "the secret in {} is empty", path.display());
    Ok(secret)
}

/// What decides which fetched Data are accepted.
///
/// Anchors, rules and secrets that are named are required to verify a signature, and the key store is left aside. Without any, keys of the key
/// store verify what they are named by, and are required to only with `--verify`.
pub fn verifier(verifying: &Verifying) -> Result<Verifier> {
    let mut verifier = Verifier::default();
    for path in &verifying.anchor {
        verifier.add_anchor_file(path)?;
    }
    if let Some(path) = &verifying.trust {
        verifier.add_trust_file(path)?;
    }
    if let Some(path) = &verifying.hmac {
        verifier.add_secret(verifying.key_name.clone(), &read_secret(path)?);
    }
    let is_named = !verifying.anchor.is_empty() || verifying.trust.is_some() || verifying.hmac.is_some();
    if verifying.verify || !is_named {
        let must_be = verifying.verify && !is_named || verifying.store.store.is_some();
        match open(&verifying.store).and_then(|store| store.identities()) {
            Ok(identities) => {
                let keys = identities.iter().flat_map(|identity| &identity.keys);
                for certificate in keys.flat_map(|key| &key.certificates) {
                    // One that can't be an anchor verifies nothing, and is no reason not to fetch.
                    let _ = verifier.add_anchor(&certificate.wire);
                }
            }
            Err(error) if must_be => return Err(error).context("--verify needs keys that are trusted"),
            Err(KeyStoreError::NoStore(_) | KeyStoreError::NoHome) => {}
            Err(error) => note!("nw: keys of the key store verify nothing: {error}"),
        }
    }
    if verifying.verify || is_named {
        anyhow::ensure!(
            !verifier.is_without_keys(),
            "no key is trusted, so nothing can be accepted: name some with --anchor, --trust or --hmac, or make one with `nw key generate`"
        );
        verifier.require_trusted();
    }
    Ok(verifier)
}

fn key_of_file(path: &Path, name: &Name) -> Result<Key> {
    let pem = read_text(path, KEY_MAX)?;
    Key::from_pem(name.as_ref(), &pem)
        .with_context(|| format!("{} (make one with `openssl genpkey -algorithm ed25519`)", path.display()))
}

/// A key of the store.
fn credentials(store: &Store, name: &str) -> Result<Credentials> {
    if !name.starts_with('/') && name != DEFAULT {
        anyhow::bail!(
            "{name} is no name of a key: it begins with /, or is `default`; for a file say its name with --key-name"
        );
    }
    let name = named(name)?;
    let credentials = open(store)?.credentials(name.as_ref().map(Name::as_ref));
    Ok(credentials?)
}

/// A name of the command line; `None` for the default identity.
pub fn named(text: &str) -> Result<Option<Name>> {
    if text == DEFAULT {
        return Ok(None);
    }
    text.parse().map(Some).with_context(|| format!("{text} is no name"))
}

/// Where the store is.
pub fn place(store: &Store) -> Result<Place, KeyStoreError> {
    match &store.store {
        Some(folder) => Ok(Place::folder(folder)),
        None => Place::of_user(),
    }
}

/// A store that is there.
pub fn open(store: &Store) -> Result<KeyStore, KeyStoreError> {
    KeyStore::open(place(store)?)
}

/// A router, and who commands it.
pub struct Commanded {
    /// The connection.
    pub client: Client,
    uri: FaceUri,
    by: Option<Credentials>,
}

/// Reaches the router that an order is for.
pub fn commanded(order: &Order) -> Result<Commanded> {
    let by = order.key.as_deref().map(|name| credentials(&order.store, name)).transpose()?;
    let router = &order.reading.router;
    Ok(Commanded { uri: uri(router)?, client: connect(router)?, by })
}

impl Commanded {
    /// The connection, and who commands by it.
    pub fn parts(&mut self) -> (&mut Client, Commander<'_>) {
        (&mut self.client, Commander::at(&self.uri, self.by.as_ref()))
    }
}
