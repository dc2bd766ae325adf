//! The user's identities, keys and certificates: the store that ndn-cxx made and python-ndn and others read and write.
//!
//! ```text
//! identity /alice ─▶ key /alice/KEY/<id> ─▶ certificates /alice/KEY/<id>/<issuer>/<version>     in pib.db
//!                        └─▶ private key                                                        in ndnsec-key-file/<digest>.privkey
//! ```
//!
//! One identity, one key of each identity and one certificate of each key is the default. What is changed is changed as a whole, or not at all: the
//! database by a transaction, a private key's file before the transaction ends.

mod database;
mod files;
mod place;
mod signing;

pub use database::Level;
pub use place::Place;
pub use signing::Credentials;

use database::Database;
use nw_name::{Name, NameRef, convention};
use nw_trust::{Key, Validity, certificate, safebag};
use nw_wire::certificate::Certificate;
use std::io;
use std::path::PathBuf;

/// Why something about the key store did not work.
#[derive(Debug, thiserror::Error)]
pub enum KeyStoreError {
    /// A setting names a store of another kind.
    #[error("{source_name} says {text:?}, but keys are kept in {scheme}:/folder here (or use --store)")]
    Locator {
        /// Which setting.
        source_name: String,
        /// What it says.
        text: String,
        /// What it may say.
        scheme: &'static str,
    },
    /// There is nowhere to look.
    #[error("HOME is not set: say where the keys are with --store")]
    NoHome,
    /// There is none yet.
    #[error("there are no keys at {} yet (`nw key generate /your/name` makes the first one)", .0.display())]
    NoStore(PathBuf),
    /// A file or folder.
    #[error("can't {what} {}: {error}", path.display())]
    File {
        /// What was to be done.
        what: &'static str,
        /// With what.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// A private key's file holds something else.
    #[error("{}: {error}", path.display())]
    KeyFile {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        error: nw_trust::Error,
    },
    /// The database is none.
    #[error("{} is no key database: {why} (put back a copy, or move it away and import your keys anew)", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
    /// The database can't be changed.
    #[error("can't write {}: {error} (look at its owner and mode, and those of its folder)", path.display())]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// Why not.
        error: rusqlite::Error,
    },
    /// The disk is full.
    #[error("no room for {}: nothing was changed; free some and try again", .0.display())]
    NoRoom(PathBuf),
    /// Another program changes the database.
    #[error("another program holds {}: try again", .0.display())]
    Busy(PathBuf),
    /// It is not there.
    #[error("there is no {what} {name} (`nw key list` and `nw cert list` show what there is)")]
    Unknown {
        /// What was looked for.
        what: &'static str,
        /// By which name.
        name: Name,
    },
    /// Nothing says which to take.
    #[error("no identity is the default: choose one with `nw key default NAME`")]
    NoDefault,
    /// An identity without keys.
    #[error("{0} has no key (`nw key generate {0}` makes one)")]
    NoKey(Name),
    /// A key without certificates.
    #[error("{0} has no certificate (`nw cert install FILE` adds one)")]
    NoCertificate(Name),
    /// The private half is elsewhere.
    #[error("the private key of {key} is not here: {} is missing (`nw key import` brings it)", path.display())]
    NoPrivateKey {
        /// Which key.
        key: Name,
        /// Where it was looked for.
        path: PathBuf,
    },
    /// It is there already.
    #[error("{0} is there already (`nw key delete` removes it)")]
    Exists(Name),
    /// A certificate for another key of the same name.
    #[error("the certificate is for another key than the one named {0} here")]
    OtherKey(Name),
    /// Keys and certificates by themselves.
    #[error(transparent)]
    Trust(#[from] nw_trust::Error),
}

impl From<nw_wire::Error> for KeyStoreError {
    fn from(error: nw_wire::Error) -> Self {
        KeyStoreError::Trust(error.into())
    }
}

/// Somebody, with keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The name.
    pub name: Name,
    /// Meant when none is named.
    pub is_default: bool,
    /// The keys, in the order they came.
    pub keys: Vec<KeyEntry>,
}

/// A key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyEntry {
    /// The name.
    pub name: Name,
    /// Meant when the identity is named.
    pub is_default: bool,
    /// The public half, DER SubjectPublicKeyInfo.
    pub public_key: Vec<u8>,
    /// True when the private half is here, too.
    pub has_private: bool,
    /// The certificates, in the order they came.
    pub certificates: Vec<CertificateEntry>,
}

/// A certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateEntry {
    /// The name.
    pub name: Name,
    /// Meant when the key is named.
    pub is_default: bool,
    /// The packet.
    pub wire: Vec<u8>,
}

impl Identity {
    /// The key that is meant when the identity is named.
    pub fn default_key(&self) -> Option<&KeyEntry> {
        self.keys.iter().find(|key| key.is_default).or(self.keys.last())
    }
}

impl KeyEntry {
    /// The certificate that is meant when the key is named.
    pub fn default_certificate(&self) -> Option<&CertificateEntry> {
        self.certificates.iter().find(|certificate| certificate.is_default).or(self.certificates.last())
    }
}

/// What a name means by its form: of an identity, a key or a certificate.
pub fn level(name: NameRef<'_>) -> Level {
    match () {
        () if name.component(-4) == Some(convention::KEY) => Level::Certificate,
        () if name.component(-2) == Some(convention::KEY) => Level::Key,
        () => Level::Identity,
    }
}

/// An open key store.
#[derive(Debug)]
pub struct KeyStore {
    place: Place,
    database: Database,
}

impl KeyStore {
    /// Opens one that is there.
    ///
    /// # Errors
    /// When it is not, or can't be read.
    pub fn open(place: Place) -> Result<Self, KeyStoreError> {
        Ok(KeyStore { database: Database::open(&place.database)?, place })
    }

    /// Opens one, or makes an empty one.
    ///
    /// # Errors
    /// When it can't be read or made.
    pub fn create(place: Place) -> Result<Self, KeyStoreError> {
        if let Some(folder) = place.database.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            files::make_folder(folder)?;
        }
        files::make_folder(&place.keys)?;
        Ok(KeyStore { database: Database::create(&place.database, &place.locator)?, place })
    }

    /// All that is in it, by name.
    ///
    /// # Errors
    /// When it can't be read.
    pub fn identities(&self) -> Result<Vec<Identity>, KeyStoreError> {
        let mut identities = self.database.identities()?;
        for key in identities.iter_mut().flat_map(|identity| &mut identity.keys) {
            key.has_private = files::path(&self.place.keys, key.name.as_ref()).exists();
        }
        Ok(identities)
    }

    /// The identity of this name, or the default one.
    ///
    /// # Errors
    /// When there is none.
    pub fn identity(&self, name: Option<NameRef<'_>>) -> Result<Identity, KeyStoreError> {
        let mut identities = self.identities()?.into_iter();
        match name {
            None => identities.find(|identity| identity.is_default).ok_or(KeyStoreError::NoDefault),
            Some(name) => identities
                .find(|identity| identity.name.as_ref() == name)
                .ok_or_else(|| KeyStoreError::Unknown { what: "identity", name: name.to_name() }),
        }
    }

    /// The key that a name means: its own, that of its certificate, or an identity's default. `None`: the default identity's.
    ///
    /// # Errors
    /// When there is none.
    pub fn key(&self, name: Option<NameRef<'_>>) -> Result<KeyEntry, KeyStoreError> {
        let key_name = match name.map(|name| (level(name), name)) {
            None | Some((Level::Identity, _)) => {
                let identity = self.identity(name)?;
                return identity.default_key().cloned().ok_or(KeyStoreError::NoKey(identity.name));
            }
            Some((Level::Key, name)) => name,
            Some((Level::Certificate, name)) => name.prefix(name.len() - 2),
        };
        let keys = self.identities()?.into_iter().flat_map(|identity| identity.keys);
        keys.into_iter()
            .find(|key| key.name.as_ref() == key_name)
            .ok_or_else(|| KeyStoreError::Unknown { what: "key", name: key_name.to_name() })
    }

    /// The certificate that a name means: its own, or the default one of a key or of an identity's default key.
    ///
    /// # Errors
    /// When there is none.
    pub fn certificate(&self, name: Option<NameRef<'_>>) -> Result<CertificateEntry, KeyStoreError> {
        let key = self.key(name)?;
        match name.filter(|name| level(*name) == Level::Certificate) {
            Some(name) => key
                .certificates
                .into_iter()
                .find(|certificate| certificate.name.as_ref() == name)
                .ok_or_else(|| KeyStoreError::Unknown { what: "certificate", name: name.to_name() }),
            None => key.default_certificate().cloned().ok_or(KeyStoreError::NoCertificate(key.name)),
        }
    }

    /// The private half of a key.
    ///
    /// # Errors
    /// When it is not there or can't be read.
    pub fn private_key(&self, key_name: NameRef<'_>) -> Result<Key, KeyStoreError> {
        files::read(&self.place.keys, key_name)
    }

    /// Adds a key with a certificate for it. The first identity, and the first key of an identity, is the default.
    ///
    /// # Errors
    /// [`KeyStoreError::Exists`] when a key of this name is there; or when it can't be written. Then nothing was changed.
    pub fn add_key(&mut self, key: &Key, wire: &[u8]) -> Result<(), KeyStoreError> {
        let certificate = Certificate::check(wire)?;
        let (name, public_key) = (key.name(), key.public_key()?);
        if certificate.key_name() != name || certificate.public_key() != public_key {
            return Err(KeyStoreError::OtherKey(name.to_name()));
        }
        if self.key(Some(name)).is_ok() || files::path(&self.place.keys, name).exists() {
            return Err(KeyStoreError::Exists(name.to_name()));
        }
        let folder = &self.place.keys;
        let mut written = false;
        let added = self.database.change_with(
            |transaction| {
                database::insert_key(transaction, key.identity(), name, &public_key)?;
                database::insert_certificate(transaction, name, certificate.data().name(), wire)
            },
            || files::write(folder, key).inspect(|()| written = true),
        );
        if added.is_err() && written {
            let _ = files::remove(folder, name);
        }
        added
    }

    /// Makes a key's own certificate, from the beginning of time until `until_s`, and adds both.
    ///
    /// # Errors
    /// As [`add_key`](Self::add_key).
    pub fn add_new_key(&mut self, key: &Key, version: u64, until_s: u64) -> Result<Vec<u8>, KeyStoreError> {
        let validity = Validity { not_before_s: 0, not_after_s: until_s };
        let wire = certificate::self_signed(key, version, validity)?;
        self.add_key(key, &wire)?;
        Ok(wire)
    }

    /// Adds a certificate of a key that is here.
    ///
    /// # Errors
    /// [`KeyStoreError::Unknown`] when the key is not here, [`KeyStoreError::OtherKey`] when it is another of that name; or when it can't be written.
    pub fn add_certificate(&mut self, wire: &[u8], make_default: bool) -> Result<Name, KeyStoreError> {
        let certificate = Certificate::check(wire)?;
        let (name, key_name) = (certificate.data().name(), certificate.key_name());
        if self.key(Some(key_name))?.public_key != certificate.public_key() {
            return Err(KeyStoreError::OtherKey(key_name.to_name()));
        }
        self.database.change(|transaction| {
            database::insert_certificate(transaction, key_name, name, wire)?;
            match make_default {
                true => database::set_default(transaction, Level::Certificate, name),
                false => Ok(()),
            }
        })?;
        Ok(name.to_name())
    }

    /// Makes an identity, a key of its identity, or a certificate of its key the default.
    ///
    /// # Errors
    /// When there is none of that name, or the database can't be written.
    pub fn set_default(&mut self, name: NameRef<'_>) -> Result<Level, KeyStoreError> {
        let level = self.must_be(name)?;
        self.database.change(|transaction| database::set_default(transaction, level, name))?;
        Ok(level)
    }

    /// Removes an identity with its keys, a key with its certificates, or a certificate. Gives the keys removed.
    ///
    /// # Errors
    /// When there is none of that name, or something can't be removed. The database goes first: a private key's file may be left, never an entry
    /// without one.
    pub fn delete(&mut self, name: NameRef<'_>) -> Result<Vec<Name>, KeyStoreError> {
        let level = self.must_be(name)?;
        let keys: Vec<Name> = match level {
            Level::Identity => self.identity(Some(name))?.keys.into_iter().map(|key| key.name).collect(),
            Level::Key => vec![name.to_name()],
            Level::Certificate => Vec::new(),
        };
        self.database.change(|transaction| database::delete(transaction, level, name))?;
        keys.iter().try_for_each(|key| files::remove(&self.place.keys, key.as_ref()))?;
        Ok(keys)
    }

    fn must_be(&self, name: NameRef<'_>) -> Result<Level, KeyStoreError> {
        let level = level(name);
        match level {
            Level::Identity => drop(self.identity(Some(name))?),
            Level::Key => drop(self.key(Some(name))?),
            Level::Certificate => drop(self.certificate(Some(name))?),
        }
        Ok(level)
    }

    /// A certificate with its private key as a SafeBag: by the name of either, or of the identity.
    ///
    /// # Errors
    /// When there is none, or the private key is not here.
    pub fn export(&self, name: Option<NameRef<'_>>, passphrase: &[u8]) -> Result<Vec<u8>, KeyStoreError> {
        let certificate = self.certificate(name)?;
        let key_name = certificate.name.as_ref().prefix(certificate.name.as_ref().len() - 2);
        Ok(safebag::seal(&certificate.wire, &self.private_key(key_name)?, passphrase)?)
    }

    /// Adds what a SafeBag holds. Gives the key's name.
    ///
    /// # Errors
    /// When it does not open, or as [`add_key`](Self::add_key).
    pub fn import(&mut self, bag: &[u8], passphrase: &[u8]) -> Result<Name, KeyStoreError> {
        let (wire, key) = safebag::open(bag, passphrase)?;
        self.add_key(&key, &wire)?;
        Ok(key.name().to_name())
    }
}

#[cfg(test)]
mod tests;
