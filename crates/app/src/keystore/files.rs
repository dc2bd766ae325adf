//! Private keys as files: `<SHA-256 of the key's name>.privkey`, base64 of the key's DER encoding.
//! Mode 0600 in a folder of mode 0700; written atomically.

use super::KeyStoreError;
use nw_name::NameRef;
use nw_trust::{Key, pem};
use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// Returns the path of a key's file.
pub fn path(folder: &Path, key_name: NameRef<'_>) -> PathBuf {
    let mut wire = Vec::new();
    key_name.encode(&mut wire);
    let digest = nw_wire::sha256(&[&wire]);
    let hexadecimal: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    folder.join(hexadecimal + ".privkey")
}

/// Writes a key; fails if its file exists.
pub fn write(folder: &Path, key: &Key) -> Result<(), KeyStoreError> {
    let path = path(folder, key.name());
    let to_error = |error| KeyStoreError::File { what: "write", path: path.clone(), error };
    make_folder(folder)?;
    let text = pem::encode_base64(&key.to_der()?);
    let mut file =
        tempfile::Builder::new().prefix(".new-").tempfile_in(folder).map_err(to_error)?;
    file.write_all(text.as_bytes()).and_then(|()| file.as_file().sync_all()).map_err(to_error)?;
    match file.persist_noclobber(&path) {
        Ok(_) => sync(folder).map_err(to_error),
        Err(error) if error.error.kind() == ErrorKind::AlreadyExists => {
            Err(KeyStoreError::Exists(key.name().to_name()))
        }
        Err(error) => Err(to_error(error.error)),
    }
}

/// Reads a key.
pub fn read(folder: &Path, key_name: NameRef<'_>) -> Result<Key, KeyStoreError> {
    let path = path(folder, key_name);
    let text = fs::read_to_string(&path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => {
            KeyStoreError::NoPrivateKey { key: key_name.to_name(), path: path.clone() }
        }
        _ => KeyStoreError::File { what: "read", path: path.clone(), error },
    })?;
    let key = pem::decode(&text).and_then(|der| Key::from_der(key_name, &der));
    key.map_err(|error| KeyStoreError::KeyFile { path, error })
}

/// Removes a key; a missing file is not an error.
pub fn remove(folder: &Path, key_name: NameRef<'_>) -> Result<(), KeyStoreError> {
    let path = path(folder, key_name);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(KeyStoreError::File { what: "remove", path, error })
        }
        _ => Ok(()),
    }
}

/// Creates a folder that only its owner can access, unless it exists.
pub fn make_folder(folder: &Path) -> Result<(), KeyStoreError> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|error| KeyStoreError::File {
        what: "make the folder",
        path: folder.to_owned(),
        error,
    })
}

fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}
