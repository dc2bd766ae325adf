//! The key of the hash that chooses members: the same at all balancers of a cluster, and nobody else's.

use crate::config::Cluster;
use nw_api::config::file;
use nw_name::HashKey;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file.
    #[error("can't {what} the key of the cluster, {}: {error}", path.display())]
    File {
        /// What could not be done.
        what: &'static str,
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// It holds something else.
    #[error("{} is no key: it should hold 64 hexadecimal digits; remove it to have one made, on all balancers of the cluster", .0.display())]
    Content(PathBuf),
}

/// The key as configured; made and kept with the first start where it is a file that is not there. The second value says that it was made.
///
/// # Errors
/// When it can't be read or made.
pub fn key(cluster: &Cluster) -> Result<(HashKey, bool), KeyError> {
    if let Some(secret) = &cluster.secret {
        return Ok((of_octets(&nw_wire::sha256(&[b"nw balancer", secret.as_bytes()])), false));
    }
    let path = cluster.key_file.clone();
    let path = path.unwrap_or_else(|| cluster.folder.join(format!("{}.key", cluster.name)));
    match path.try_exists() {
        Ok(true) => Ok((of_octets(&read(&path)?), false)),
        Ok(false) => {
            let mut octets = [0; 32];
            let made = getrandom::fill(&mut octets)
                .map_err(|_| io::Error::other("no random octets"))
                .and_then(|()| keep(&path, &octets));
            made.map_err(|error| KeyError::File { what: "make", path, error })?;
            Ok((of_octets(&octets), true))
        }
        Err(error) => Err(KeyError::File { what: "read", path, error }),
    }
}

/// The bytes in a key's file.
///
/// # Errors
/// When it can't be read, or holds something else.
pub fn read(path: &Path) -> Result<[u8; 32], KeyError> {
    let text = file::read_text(path, file::KEY_MAX).map_err(|error| KeyError::File {
        what: "read",
        path: path.to_owned(),
        error: io::Error::other(error.why),
    })?;
    octets(text.trim()).ok_or_else(|| KeyError::Content(path.to_owned()))
}

/// Whole under its name or not at all; a temporary file is its owner's alone.
fn keep(path: &Path, octets: &[u8; 32]) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    let text: String = octets.iter().map(|octet| format!("{octet:02x}")).collect();
    writeln!(file, "{text}")?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

fn octets(text: &str) -> Option<[u8; 32]> {
    if text.len() != 64 || !text.bytes().all(|octet| octet.is_ascii_hexdigit()) {
        return None;
    }
    let mut octets = [0; 32];
    for (at, octet) in octets.iter_mut().enumerate() {
        *octet = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    Some(octets)
}

fn of_octets(octets: &[u8; 32]) -> HashKey {
    let word = |at: usize| u64::from_le_bytes(core::array::from_fn(|i| octets[8 * at + i]));
    HashKey::new(core::array::from_fn(word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_key_is_made_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("below/cluster.key");
        let cluster = Cluster { key_file: Some(path.clone()), ..Cluster::default() };
        let (first, made) = key(&cluster).unwrap();
        assert!(made);
        let (second, made) = key(&cluster).unwrap();
        assert!(!made && first.words() == second.words());
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        fs::write(&path, "short").unwrap();
        assert!(key(&cluster).unwrap_err().to_string().contains("is no key: it should hold 64"));
        let nowhere = Cluster { key_file: Some(path.join("x")), ..Cluster::default() };
        assert!(key(&nowhere).unwrap_err().to_string().starts_with("can't read the key of the cluster"));
    }

    #[test]
    fn one_secret_is_one_key() {
        let of = |secret: &str| Cluster { secret: Some(secret.to_owned()), ..Cluster::default() };
        let words = |secret: &str| key(&of(secret)).unwrap().0.words();
        assert_eq!(words("a long secret of ours"), words("a long secret of ours"));
        assert_ne!(words("a long secret of ours"), words("another long secret"));
    }
}
