//! The user's identities, keys and certificates: the key store format of ndn-cxx, shared with
//! python-ndn and others.
//!
//! ```text
//! identity /alice ─▶ key /alice/KEY/<id> ─▶ certificates /alice/KEY/<id>/<issuer>/<version>
//!    (pib.db)              (pib.db)           (pib.db)
//!                           └─▶ private key   (ndnsec-key-file/<digest>.privkey)
//! ```
//!
//! One identity, one key per identity and one certificate per key is the default. Every change is
//! atomic: the database by a transaction, a private key's file before the transaction is committed.

mod database;
mod files;
mod location;
mod signing;

pub use database::Level;
pub use location::KeyStoreLocation;
pub use signing::Credentials;

use database::Database;
use nw_name::{Name, NameRef, convention};
use nw_trust::{Key, Validity, certificate, safebag};
use nw_wire::certificate::Certificate;
use std::io;
use std::path::PathBuf;

/// Errors of the key store.
#[derive(Debug, thiserror::Error)]
pub enum KeyStoreError {
    /// A setting names a store of another kind.
    #[error(
        "{source_name} is set to {text:?}, but only {scheme}:/folder is supported (or use --store)"
    )]
    Locator {
        /// The setting.
        source_name: String,
        /// Its value.
        text: String,
        /// The supported scheme.
        scheme: &'static str,
    },
    /// The location is unknown.
    #[error("HOME is not set: give the location of the keys with --store")]
    NoHome,
    /// There is no store yet.
    #[error("there are no keys at {} yet (`nw key generate /your/name` makes the first one)", .0.display())]
    NoStore(PathBuf),
    /// An operation on a file or folder failed.
    #[error("can't {what} {}: {error}", path.display())]
    File {
        /// The operation.
        what: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The error.
        error: io::Error,
    },
    /// A private key's file is invalid.
    #[error("{}: {error}", path.display())]
    KeyFile {
        /// The file.
        path: PathBuf,
        /// The error.
        error: nw_trust::Error,
    },
    /// The database is damaged, or not a key database.
    #[error("{} is not a key database: {why} (restore a copy, or move it away and import the keys again)", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The error.
        why: String,
    },
    /// The database can't be written.
    #[error("can't write {}: {error} (check owner and mode of the file and its folder)", path.display())]
    Unwritable {
        /// The file.
        path: PathBuf,
        /// The error.
        error: rusqlite::Error,
    },
    /// The disk is full.
    #[error("disk full while writing {}: nothing was changed; free some space and try again", .0.display())]
    DiskFull(PathBuf),
    /// Another program has locked the database.
    #[error("{} is locked by another program: try again", .0.display())]
    Busy(PathBuf),
    /// There is no such identity, key or certificate.
    #[error("there is no {what} {name} (`nw key list` and `nw cert list` list them)")]
    Unknown {
        /// Identity, key or certificate.
        what: &'static str,
        /// The name.
        name: Name,
    },
    /// There is no default identity.
    #[error("no identity is the default: choose one with `nw key default NAME`")]
    NoDefault,
    /// An identity without keys.
    #[error("{0} has no key (`nw key generate {0}` makes one)")]
    NoKey(Name),
    /// A key without certificates.
    #[error("{0} has no certificate (`nw cert install FILE` adds one)")]
    NoCertificate(Name),
    /// The private key is missing.
    #[error("the private key of {key} is not here: {} is missing (`nw key import` adds it)", path.display())]
    NoPrivateKey {
        /// Name of the key.
        key: Name,
        /// Expected file.
        path: PathBuf,
    },
    /// The key already exists.
    #[error("{0} already exists (`nw key delete` removes it)")]
    Exists(Name),
    /// The certificate is for another key of the same name.
    #[error("the certificate is for a different key than {0} in this store")]
    OtherKey(Name),
    /// A key or certificate is invalid.
    #[error(transparent)]
    Trust(#[from] nw_trust::Error),
}

impl From<nw_wire::Error> for KeyStoreError {
    fn from(error: nw_wire::Error) -> Self {
        KeyStoreError::Trust(error.into())
    }
}

/// An identity with its keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The name.
    pub name: Name,
    /// True for the default identity.
    pub is_default: bool,
    /// The keys, in the order they were added.
    pub keys: Vec<KeyEntry>,
}

/// A key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyEntry {
    /// The name.
    pub name: Name,
    /// True for the default key of the identity.
    pub is_default: bool,
    /// Public key, DER SubjectPublicKeyInfo.
    pub public_key: Vec<u8>,
    /// True if the private key is in the store.
    pub has_private: bool,
    /// The certificates, in the order they were added.
    pub certificates: Vec<CertificateEntry>,
}

/// A certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateEntry {
    /// The name.
    pub name: Name,
    /// True for the default certificate of the key.
    pub is_default: bool,
    /// The certificate packet.
    pub wire: Vec<u8>,
}

impl Identity {
    /// Returns the default key, otherwise the newest.
    pub fn default_key(&self) -> Option<&KeyEntry> {
        self.keys.iter().find(|key| key.is_default).or(self.keys.last())
    }
}

impl KeyEntry {
    /// Returns the default certificate, otherwise the newest.
    pub fn default_certificate(&self) -> Option<&CertificateEntry> {
        self.certificates
            .iter()
            .find(|certificate| certificate.is_default)
            .or(self.certificates.last())
    }
}

/// Returns what a name refers to by its form: an identity, a key or a certificate.
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
    location: KeyStoreLocation,
    database: Database,
}

impl KeyStore {
    /// Opens an existing store.
    ///
    /// # Errors
    /// If there is none, or it can't be read.
    pub fn open(location: KeyStoreLocation) -> Result<Self, KeyStoreError> {
        Ok(KeyStore { database: Database::open(&location.database)?, location })
    }

    /// Opens a store, or creates an empty one.
    ///
    /// # Errors
    /// If it can't be read or created.
    pub fn create(location: KeyStoreLocation) -> Result<Self, KeyStoreError> {
        if let Some(folder) =
            location.database.parent().filter(|folder| !folder.as_os_str().is_empty())
        {
            files::make_folder(folder)?;
        }
        files::make_folder(&location.keys)?;
        Ok(KeyStore {
            database: Database::create(&location.database, &location.locator)?,
            location,
        })
    }

    /// Returns all identities, sorted by name.
    ///
    /// # Errors
    /// If the database can't be read.
    pub fn identities(&self) -> Result<Vec<Identity>, KeyStoreError> {
        let mut identities = self.database.identities()?;
        for key in identities.iter_mut().flat_map(|identity| &mut identity.keys) {
            key.has_private = files::path(&self.location.keys, key.name.as_ref()).exists();
        }
        Ok(identities)
    }

    /// Returns the identity of this name, or the default one.
    ///
    /// # Errors
    /// If there is none.
    pub fn identity(&self, name: Option<NameRef<'_>>) -> Result<Identity, KeyStoreError> {
        let mut identities = self.identities()?.into_iter();
        match name {
            None => identities.find(|identity| identity.is_default).ok_or(KeyStoreError::NoDefault),
            Some(name) => identities
                .find(|identity| identity.name.as_ref() == name)
                .ok_or_else(|| KeyStoreError::Unknown { what: "identity", name: name.to_name() }),
        }
    }

    /// Returns the key a name refers to: itself, that of a certificate, or the default key of an
    /// identity. `None`: that of the default identity.
    ///
    /// # Errors
    /// If there is none.
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

    /// Returns the certificate a name refers to: itself, or the default one of a key or of an
    /// identity's default key.
    ///
    /// # Errors
    /// If there is none.
    pub fn certificate(
        &self,
        name: Option<NameRef<'_>>,
    ) -> Result<CertificateEntry, KeyStoreError> {
        let key = self.key(name)?;
        match name.filter(|name| level(*name) == Level::Certificate) {
            Some(name) => key
                .certificates
                .into_iter()
                .find(|certificate| certificate.name.as_ref() == name)
                .ok_or_else(|| KeyStoreError::Unknown {
                    what: "certificate",
                    name: name.to_name(),
                }),
            None => {
                key.default_certificate().cloned().ok_or(KeyStoreError::NoCertificate(key.name))
            }
        }
    }

    /// Returns a private key.
    ///
    /// # Errors
    /// If it is missing or can't be read.
    pub fn private_key(&self, key_name: NameRef<'_>) -> Result<Key, KeyStoreError> {
        files::read(&self.location.keys, key_name)
    }

    /// Adds a key with a certificate for it. The first identity, and the first key of an identity,
    /// becomes the default.
    ///
    /// # Errors
    /// [`KeyStoreError::Exists`] if a key of this name exists; otherwise if it can't be written.
    /// Nothing has changed then.
    pub fn add_key(&mut self, key: &Key, wire: &[u8]) -> Result<(), KeyStoreError> {
        let certificate = Certificate::check(wire)?;
        let (name, public_key) = (key.name(), key.public_key()?);
        if certificate.key_name() != name || certificate.public_key() != public_key {
            return Err(KeyStoreError::OtherKey(name.to_name()));
        }
        if self.key(Some(name)).is_ok() || files::path(&self.location.keys, name).exists() {
            return Err(KeyStoreError::Exists(name.to_name()));
        }
        let folder = &self.location.keys;
        let mut file_written = false;
        let added = self.database.change_with(
            |transaction| {
                database::insert_key(transaction, key.identity(), name, &public_key)?;
                database::insert_certificate(transaction, name, certificate.data().name(), wire)
            },
            || files::write(folder, key).inspect(|()| file_written = true),
        );
        if added.is_err() && file_written {
            let _ = files::remove(folder, name);
        }
        added
    }

    /// Creates a self-signed certificate valid until `until_s` (seconds since 1970), and adds it
    /// with the key. Returns the certificate.
    ///
    /// # Errors
    /// As for [`add_key`](Self::add_key).
    pub fn add_new_key(
        &mut self,
        key: &Key,
        version: u64,
        until_s: u64,
    ) -> Result<Vec<u8>, KeyStoreError> {
        let validity = Validity { not_before_s: 0, not_after_s: until_s };
        let wire = certificate::self_signed(key, version, validity)?;
        self.add_key(key, &wire)?;
        Ok(wire)
    }

    /// Adds a certificate of a key in the store. Returns its name.
    ///
    /// # Errors
    /// [`KeyStoreError::Unknown`] if the key is not in the store, [`KeyStoreError::OtherKey`] if it
    /// differs from the one of that name; or if the database can't be written.
    pub fn add_certificate(
        &mut self,
        wire: &[u8],
        make_default: bool,
    ) -> Result<Name, KeyStoreError> {
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

    /// Makes an identity, a key or a certificate the default. Returns which of these it is.
    ///
    /// # Errors
    /// If there is none of that name, or the database can't be written.
    pub fn set_default(&mut self, name: NameRef<'_>) -> Result<Level, KeyStoreError> {
        let level = self.require(name)?;
        self.database.change(|transaction| database::set_default(transaction, level, name))?;
        Ok(level)
    }

    /// Removes an identity with its keys, a key with its certificates, or a certificate. Returns
    /// the names of the removed keys.
    ///
    /// # Errors
    /// If there is none of that name, or something can't be removed. The database is changed first:
    /// a private key's file may remain, but never an entry without one.
    pub fn delete(&mut self, name: NameRef<'_>) -> Result<Vec<Name>, KeyStoreError> {
        let level = self.require(name)?;
        let keys: Vec<Name> = match level {
            Level::Identity => {
                self.identity(Some(name))?.keys.into_iter().map(|key| key.name).collect()
            }
            Level::Key => vec![name.to_name()],
            Level::Certificate => Vec::new(),
        };
        self.database.change(|transaction| database::delete(transaction, level, name))?;
        keys.iter().try_for_each(|key| files::remove(&self.location.keys, key.as_ref()))?;
        Ok(keys)
    }

    fn require(&self, name: NameRef<'_>) -> Result<Level, KeyStoreError> {
        let level = level(name);
        match level {
            Level::Identity => drop(self.identity(Some(name))?),
            Level::Key => drop(self.key(Some(name))?),
            Level::Certificate => drop(self.certificate(Some(name))?),
        }
        Ok(level)
    }

    /// Returns a certificate with its private key as a SafeBag, by the name of either, or of the
    /// identity.
    ///
    /// # Errors
    /// If there is none, or the private key is missing.
    pub fn export(
        &self,
        name: Option<NameRef<'_>>,
        passphrase: &[u8],
    ) -> Result<Vec<u8>, KeyStoreError> {
        let certificate = self.certificate(name)?;
        let key_name = certificate.name.as_ref().prefix(certificate.name.as_ref().len() - 2);
        Ok(safebag::seal(&certificate.wire, &self.private_key(key_name)?, passphrase)?)
    }

    /// Adds the key and certificate of a SafeBag. Returns the name of the key.
    ///
    /// # Errors
    /// If it can't be decrypted, or as for [`add_key`](Self::add_key).
    pub fn import(&mut self, bag: &[u8], passphrase: &[u8]) -> Result<Name, KeyStoreError> {
        let (wire, key) = safebag::open(bag, passphrase)?;
        self.add_key(&key, &wire)?;
        Ok(key.name().to_name())
    }
}

#[cfg(test)]
mod tests;
