//! The state file of `nw join`.

use anyhow::{Context, Result, bail};
use nw_api::config::file::read_text;
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Longest state file, bytes.
const LEN_MAX: u64 = 64 << 10;

/// What `nw join` has made.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Joined {
    /// Face URI of the hub.
    pub hub: String,
    /// How the hub was found.
    pub source: String,
    /// Whether the face was made, not found.
    pub face_made: bool,
    /// Prefixes of routes to the hub.
    pub routes: Vec<String>,
    /// Key that was made for the site.
    pub key: Option<String>,
    /// Folder of the key store, if it is not the usual one.
    pub store: Option<PathBuf>,
    /// Certificate that the CA issued.
    pub certificate: Option<String>,
    /// Prefix registered at the hub.
    pub site: Option<String>,
}

/// The file, which is replaced as a whole.
#[derive(Debug)]
pub struct StateFile(PathBuf);

impl StateFile {
    /// Returns the file in a folder, or in the usual one.
    pub fn at(folder: Option<&Path>) -> Result<Self> {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let folder = match (folder, variable("XDG_STATE_HOME"), variable("HOME")) {
            (Some(folder), ..) => folder.to_owned(),
            (None, Some(state), _) => PathBuf::from(state).join("nw"),
            _ if rustix::process::geteuid().is_root() => "/var/lib/nw".into(),
            (None, None, Some(home)) => PathBuf::from(home).join(".local/state/nw"),
            _ => bail!("HOME is not set: give a folder for the state with --state"),
        };
        Ok(StateFile(folder.join("join.json")))
    }

    /// Returns the path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Returns the state. `None` if the file does not exist.
    pub fn read(&self) -> Result<Option<Joined>> {
        if !self.0.exists() {
            return Ok(None);
        }
        let text = read_text(&self.0, LEN_MAX)?;
        let state = serde_json::from_str(&text).with_context(|| {
            format!("{} is not a state of `nw join`; remove it", self.0.display())
        })?;
        Ok(Some(state))
    }

    /// Writes the state.
    pub fn write(&self, state: &Joined) -> Result<()> {
        let folder = self.0.parent().context("the state file has no folder")?;
        let write = || -> Result<()> {
            std::fs::create_dir_all(folder)?;
            let mut file = tempfile::NamedTempFile::new_in(folder)?;
            file.write_all(serde_json::to_string_pretty(state)?.as_bytes())?;
            file.persist(&self.0)?;
            Ok(())
        };
        write().with_context(|| format!("can't write {}", self.0.display()))
    }

    /// Removes the file.
    pub fn remove(&self) -> Result<()> {
        match std::fs::remove_file(&self.0) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(error).with_context(|| format!("can't remove {}", self.0.display()))
            }
            _ => Ok(()),
        }
    }
}
