//! The secret key of the name hash that chooses members: the same on all balancers of a cluster.

use crate::config::Cluster;
use nw_api::config::file;
use nw_name::HashKey;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The key can't be read or created.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The key file can't be read or created.
    #[error("can't {what} the key of the cluster, {}: {error}", path.display())]
    File {
        /// The operation that failed.
        what: &'static str,
        /// The path of the file.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// The file does not contain a key.
    #[error(
        "{} is not a key: it should hold 64 hexadecimal digits; remove it on all balancers of the cluster, \
         and a new one is created", .0.display()
    )]
    Content(PathBuf),
}

/// Returns the configured key, and whether it was created just now. A key file that does not exist
/// is created.
///
/// # Errors
/// The file can't be read or created, or does not contain a key.
pub fn key(cluster: &Cluster) -> Result<(HashKey, bool), KeyError> {
    if let Some(secret) = &cluster.secret {
        return Ok((from_bytes(&nw_wire::sha256(&[b"nw balancer", secret.as_bytes()])), false));
    }
    let path = cluster.key_file.clone();
    let path = path.unwrap_or_else(|| cluster.state_dir.join(format!("{}.key", cluster.name)));
    match path.try_exists() {
        Ok(true) => Ok((from_bytes(&read(&path)?), false)),
        Ok(false) => {
            let mut bytes = [0; 32];
            let created = getrandom::fill(&mut bytes)
                .map_err(|_| io::Error::other("no random bytes"))
                .and_then(|()| save(&path, &bytes));
            created.map_err(|error| KeyError::File { what: "make", path, error })?;
            Ok((from_bytes(&bytes), true))
        }
        Err(error) => Err(KeyError::File { what: "read", path, error }),
    }
}

/// Reads the bytes of a key file.
///
/// # Errors
/// The file can't be read or does not contain a key.
pub fn read(path: &Path) -> Result<[u8; 32], KeyError> {
    let text = file::read_text(path, file::KEY_MAX).map_err(|error| KeyError::File {
        what: "read",
        path: path.to_owned(),
        error: io::Error::other(error.reason),
    })?;
    parse(text.trim()).ok_or_else(|| KeyError::Content(path.to_owned()))
}

/// Writes a key file atomically, readable by its owner only.
fn save(path: &Path, bytes: &[u8; 32]) -> io::Result<()> {
    let directory =
        path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(directory)?;
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    writeln!(file, "{text}")?;
    file.as_file().sync_all()?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

fn parse(text: &str) -> Option<[u8; 32]> {
    if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let mut bytes = [0; 32];
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * at..2 * at + 2)?, 16).ok()?;
    }
    Some(bytes)
}

fn from_bytes(bytes: &[u8; 32]) -> HashKey {
    let word = |at: usize| u64::from_le_bytes(core::array::from_fn(|i| bytes[8 * at + i]));
    HashKey::new(core::array::from_fn(word))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn key_file_is_created_once_and_checked() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("below/cluster.key");
        let cluster = Cluster { key_file: Some(path.clone()), ..Cluster::default() };
        let (first, made) = key(&cluster).unwrap();
        assert!(made);
        let (second, made) = key(&cluster).unwrap();
        assert!(!made && first.words() == second.words());
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        fs::write(&path, "short").unwrap();
        assert!(key(&cluster).unwrap_err().to_string().contains("is not a key: it should hold 64"));
        let below_file = Cluster { key_file: Some(path.join("x")), ..Cluster::default() };
        assert!(
            key(&below_file)
                .unwrap_err()
                .to_string()
                .starts_with("can't read the key of the cluster")
        );
    }

    #[test]
    fn key_depends_on_the_secret_only() {
        let of = |secret: &str| Cluster { secret: Some(secret.to_owned()), ..Cluster::default() };
        let words = |secret: &str| key(&of(secret)).unwrap().0.words();
        assert_eq!(words("a long secret of ours"), words("a long secret of ours"));
        assert_ne!(words("a long secret of ours"), words("another long secret"));
    }
}
