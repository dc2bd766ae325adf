//! Location of the key store, determined as other NDN programs do.
//!
//! `NDN_CLIENT_PIB` and `NDN_CLIENT_TPM`, else `pib=` and `tpm=` in `client.conf`, else `~/.ndn`. A
//! locator is a scheme and optionally a folder: `pib-sqlite3:/folder` is the database
//! `/folder/pib.db`, `tpm-file:/folder` the private keys in `/folder/ndnsec-key-file`.

use super::KeyStoreError;
use crate::transport::client_conf;
use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

const DATABASE: &str = "pib.db";
const KEY_FOLDER: &str = "ndnsec-key-file";

/// Locations of the two parts of a key store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyStoreLocation {
    /// The database of names, public keys and certificates.
    pub database: PathBuf,
    /// The folder of private keys.
    pub keys: PathBuf,
    /// Locator of the private keys that is written to a new database; empty: the default location.
    pub(super) locator: String,
}

impl KeyStoreLocation {
    /// Returns the location of a store in a folder of its own.
    pub fn in_folder(folder: &Path) -> Self {
        KeyStoreLocation {
            database: folder.join(DATABASE),
            keys: folder.join(KEY_FOLDER),
            locator: String::new(),
        }
    }

    /// Returns the location of the user's store.
    ///
    /// # Errors
    /// [`KeyStoreError::Locator`] if a setting names an unsupported kind of store; an error if
    /// there is no home folder.
    pub fn of_user() -> Result<Self, KeyStoreError> {
        let pib = Locator::of("NDN_CLIENT_PIB", "pib", "pib-sqlite3")?;
        let tpm = Locator::of("NDN_CLIENT_TPM", "tpm", "tpm-file")?;
        Ok(KeyStoreLocation {
            database: pib.folder()?.join(DATABASE),
            keys: key_folder(tpm.folder()?),
            locator: format!("tpm-file:{}", tpm.written),
        })
    }
}

/// Returns the key folder of a locator, which names the folder for python-ndn, but its parent for
/// ndn-cxx: accept both.
fn key_folder(folder: PathBuf) -> PathBuf {
    match folder.file_name() == Some(OsStr::new(KEY_FOLDER)) {
        true => folder,
        false => folder.join(KEY_FOLDER),
    }
}

/// The value of a setting.
struct Locator {
    /// The folder as written; empty: the default.
    written: String,
    /// Folder that a relative path starts at.
    base: PathBuf,
}

impl Locator {
    fn of(variable: &str, key: &str, scheme: &'static str) -> Result<Self, KeyStoreError> {
        let (source, base, text) = match env::var(variable) {
            Ok(text) => (variable.to_owned(), PathBuf::new(), text),
            Err(_) => match client_conf(key) {
                Some((path, text)) => {
                    let folder = path.parent().unwrap_or(Path::new("")).to_owned();
                    (path.display().to_string(), folder, text)
                }
                None => return Ok(Locator { written: String::new(), base: PathBuf::new() }),
            },
        };
        Self::read(&text, scheme, base).ok_or(KeyStoreError::Locator {
            source_name: source,
            text,
            scheme,
        })
    }

    fn read(text: &str, scheme: &str, base: PathBuf) -> Option<Self> {
        let (found, written) = text.split_once(':').unwrap_or((text, ""));
        (found == scheme || found.is_empty()).then(|| Locator { written: written.to_owned(), base })
    }

    fn folder(&self) -> Result<PathBuf, KeyStoreError> {
        if !self.written.is_empty() {
            return Ok(self.base.join(&self.written));
        }
        let home =
            env::var_os("HOME").filter(|home| !home.is_empty()).ok_or(KeyStoreError::NoHome)?;
        Ok(PathBuf::from(home).join(".ndn"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locator_parsed_by_scheme() {
        let read = |text| {
            Locator::read(text, "tpm-file", PathBuf::from("/etc/ndn")).map(|l| l.folder().unwrap())
        };
        assert_eq!(read("tpm-file:/a/b"), Some(PathBuf::from("/a/b")));
        assert_eq!(read("tpm-file:keys"), Some(PathBuf::from("/etc/ndn/keys")));
        assert!(read("tpm-file").is_some() && read("tpm-file:").is_some());
        assert_eq!(read("tpm-memory:"), None);
        assert_eq!(read("tpm-osxkeychain:"), None);
    }

    #[test]
    fn key_folder_accepts_folder_or_parent() {
        for folder in ["/a", "/a/ndnsec-key-file"] {
            assert_eq!(key_folder(PathBuf::from(folder)), PathBuf::from("/a/ndnsec-key-file"));
        }
    }
}
