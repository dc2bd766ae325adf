//! Where networks are: one folder for each, below a folder of all.

use super::Network;
use crate::exit::{Failure, Status};
use crate::observe::http::ControlAddress;
use anyhow::{Context, Result, bail};
use nw_api::config::file::{KEY_MAX, read_text};
use nw_manage::Document;
use nw_manager::{CONTROL_SOCKET, DOCUMENT_BYTES_MAX};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// Longest name of a network, bytes.
const NAME_LEN_MAX: usize = 32;

impl Network {
    /// Returns the folder of all networks.
    pub fn folder(&self) -> Result<PathBuf> {
        if let Some(folder) = &self.directory {
            return Ok(std::path::absolute(folder)?);
        }
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        if let Some(state) = variable("XDG_STATE_HOME") {
            return Ok(PathBuf::from(state).join("nw/networks"));
        }
        if rustix::process::geteuid().is_root() {
            return Ok("/var/lib/nw/networks".into());
        }
        match variable("HOME") {
            Some(home) => Ok(PathBuf::from(home).join(".local/state/nw/networks")),
            None => bail!("HOME is not set: give the folder of networks with --directory"),
        }
    }

    /// Returns the control socket of the selected network, or of the only one that is managed.
    pub fn address(&self) -> Result<ControlAddress> {
        if let Some(manager) = &self.manager {
            let authority = manager.strip_prefix("https://").unwrap_or(manager);
            let file = self.token_file.as_deref().context("give --token-file with --manager")?;
            let token = read_text(file, KEY_MAX)?.trim().to_owned();
            let authority = authority.trim_end_matches('/').to_owned();
            return Ok(ControlAddress::Tls(authority, token));
        }
        let folder = self.folder()?;
        if let Some(name) = &self.name {
            check_name(name)?;
            return Ok(ControlAddress::Network(folder.join(name).join(CONTROL_SOCKET)));
        }
        let managed = managed(&folder);
        match managed.as_slice() {
            [name] => Ok(ControlAddress::Network(folder.join(name).join(CONTROL_SOCKET))),
            [] => {
                let text = format!(
                    "no network is managed in {}: start one with `nw network up FILE`, or give \
                     another --directory",
                    folder.display()
                );
                Err(Failure::new(Status::Unreachable, text).into())
            }
            names => {
                bail!("several networks are managed: choose one with --name {}", names.join(", "))
            }
        }
    }
}

/// Returns the names of the networks whose managers answer.
fn managed(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter(|entry| UnixStream::connect(entry.path().join(CONTROL_SOCKET)).is_ok())
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    names
}

/// Checks the name of a network.
pub fn check_name(name: &str) -> Result<()> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.is_empty() || name.len() > NAME_LEN_MAX || !name.chars().all(is_allowed) {
        bail!(
            "{name:?} can't be the name of a network: use up to {NAME_LEN_MAX} letters, digits, - \
             and _ (--name)"
        );
    }
    Ok(())
}

/// A graph file that was read and checked here, so that mistakes are reported with its name.
pub struct DocumentFile {
    /// Text.
    pub text: String,
    /// Folder that file names in it are relative to.
    pub folder: PathBuf,
}

impl DocumentFile {
    /// Reads and checks a graph file.
    pub fn read(path: &Path) -> Result<Self> {
        let text = read_text(path, DOCUMENT_BYTES_MAX as u64)?;
        Document::read("network", &path.display().to_string(), &text)?;
        let absolute = std::path::absolute(path)?;
        let folder = absolute.parent().unwrap_or(Path::new("/")).to_owned();
        Ok(DocumentFile { text, folder })
    }
}
