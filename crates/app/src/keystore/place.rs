//! Where the key store is: as NDN's programs find it.
//!
//! `NDN_CLIENT_PIB` and `NDN_CLIENT_TPM`, else `pib=` and `tpm=` in `client.conf`, else `~/.ndn`. A locator is a scheme and perhaps a folder:
//! `pib-sqlite3:/folder` is the database `/folder/pib.db`, `tpm-file:/folder` the private keys in `/folder/ndnsec-key-file`.

use super::KeyStoreError;
use crate::transport::client_conf;
use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

const DATABASE: &str = "pib.db";
const KEY_FOLDER: &str = "ndnsec-key-file";

/// Where the two halves of a key store are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The database of names, public keys and certificates.
    pub database: PathBuf,
    /// The folder of private keys.
    pub keys: PathBuf,
    /// What a new database says of where its private keys are. Empty: whoever opens it knows.
    pub(super) locator: String,
}

impl Place {
    /// A store in a folder of its own.
    pub fn folder(folder: &Path) -> Self {
        Place { database: folder.join(DATABASE), keys: folder.join(KEY_FOLDER), locator: String::new() }
    }

    /// The user's store.
    ///
    /// # Errors
    /// [`KeyStoreError::Locator`] when a setting names a kind of store that is not ours to read, or there is no home.
    pub fn of_user() -> Result<Self, KeyStoreError> {
        let pib = Locator::of("NDN_CLIENT_PIB", "pib", "pib-sqlite3")?;
        let tpm = Locator::of("NDN_CLIENT_TPM", "tpm", "tpm-file")?;
        Ok(Place {
            database: pib.folder()?.join(DATABASE),
            keys: key_folder(tpm.folder()?),
            locator: format!("tpm-file:{}", tpm.written),
        })
    }
}

/// The folder itself when it is named: so python-ndn reads a locator, while ndn-cxx names what it is in.
fn key_folder(folder: PathBuf) -> PathBuf {
    match folder.file_name() == Some(OsStr::new(KEY_FOLDER)) {
        true => folder,
        false => folder.join(KEY_FOLDER),
    }
}

/// What a setting says.
struct Locator {
    /// The folder as written, empty for the usual one.
    written: String,
    /// What a relative folder is relative to.
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
        Self::read(&text, scheme, base).ok_or(KeyStoreError::Locator { source_name: source, text, scheme })
    }

    fn read(text: &str, scheme: &str, base: PathBuf) -> Option<Self> {
        let (found, written) = text.split_once(':').unwrap_or((text, ""));
        (found == scheme || found.is_empty()).then(|| Locator { written: written.to_owned(), base })
    }

    fn folder(&self) -> Result<PathBuf, KeyStoreError> {
        if !self.written.is_empty() {
            return Ok(self.base.join(&self.written));
        }
        let home = env::var_os("HOME").filter(|home| !home.is_empty()).ok_or(KeyStoreError::NoHome)?;
        Ok(PathBuf::from(home).join(".ndn"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locators() {
        let read =
            |text| Locator::read(text, "tpm-file", PathBuf::from("/etc/ndn")).map(|l| l.folder().unwrap());
        assert_eq!(read("tpm-file:/a/b"), Some(PathBuf::from("/a/b")));
        assert_eq!(read("tpm-file:keys"), Some(PathBuf::from("/etc/ndn/keys")));
        assert!(read("tpm-file").is_some() && read("tpm-file:").is_some());
        assert_eq!(read("tpm-memory:"), None);
        assert_eq!(read("tpm-osxkeychain:"), None);
    }

    #[test]
    fn both_readings_of_a_key_folder() {
        for folder in ["/a", "/a/ndnsec-key-file"] {
            assert_eq!(key_folder(PathBuf::from(folder)), PathBuf::from("/a/ndnsec-key-file"));
        }
    }
}
