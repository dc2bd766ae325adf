//! The signer that the command line names: nobody, a key of the key store, or a key in a file.

use crate::args::{Order, Router, Signing, Store};
use crate::connect::{connect, uri};
use anyhow::{Context, Result};
use nw_api::config::file::{KEY_MAX, read_bytes, read_text};
use nw_app::control::Commander;
use nw_app::keystore::{Credentials, KeyStore, KeyStoreError, Place};
use nw_app::{Client, FaceUri};
use nw_name::Name;
use nw_trust::{Error, Key, Signer};
use nw_wire::Sign;
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
        (None, Some(path), Some(name)) => {
            let secret = read_bytes(path, KEY_MAX)?;
            anyhow::ensure!(!secret.is_empty(), "the secret in {} is empty", path.display());
            plain(Key::from_secret(name.as_ref(), &secret).into())
        }
        (None, _, _) => anyhow::bail!("--key-name names a key in a file: say which with --key or --hmac"),
    }
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
