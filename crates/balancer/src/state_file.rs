//! The state that survives a restart: members added or changed by commands, and changed system
//! settings.

use crate::config::{Ip, MemberItem, Weight};
use crate::members::{DesiredState, Member};
use nw_api::balancer::{MemberState, SystemSetting};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::{self, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// The content of the state file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PersistedState {
    /// The members, by number.
    pub members: Vec<PersistedMember>,
    /// The system settings that were changed, with their values before.
    pub system_settings: Vec<SystemSetting>,
}

/// A member in the state file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PersistedMember {
    /// The member's name.
    pub name: String,
    /// The member's number in the kernel's tables.
    pub number: u8,
    /// The member's addresses.
    pub addresses: Vec<IpAddr>,
    /// The member's UDP port.
    pub port: u32,
    /// The member's weight.
    pub weight: Weight,
    /// The unix socket of its router.
    pub control: Option<PathBuf>,
    /// True if it gets its routes from elsewhere.
    #[serde(alias = "own_routes")]
    pub external_routes: bool,
    /// The member's state.
    pub state: MemberState,
    /// True if it was being removed.
    pub leaving: bool,
    /// True if it was added while the balancer ran.
    pub added: bool,
    /// The process id of its router, if the launcher started it.
    pub process: Option<u32>,
    /// The measured rate, Interests per second.
    pub measured_per_s: Option<u32>,
}

impl PersistedMember {
    /// Returns the current state of a member.
    pub fn of(member: &Member, process: Option<u32>) -> Self {
        PersistedMember {
            name: member.item.name.clone(),
            number: member.number,
            addresses: member.item.addresses.iter().map(|ip| ip.0).collect(),
            port: member.item.port,
            weight: member.item.weight,
            control: member.item.control.clone(),
            external_routes: member.item.external_routes,
            state: member.state,
            leaving: member.desired == DesiredState::Gone,
            added: member.added,
            process,
            measured_per_s: member.measured_per_s,
        }
    }

    /// Returns the member's configuration.
    pub fn item(&self) -> MemberItem {
        MemberItem {
            name: self.name.clone(),
            addresses: self.addresses.iter().map(|address| Ip(*address)).collect(),
            port: self.port,
            weight: self.weight,
            control: self.control.clone(),
            external_routes: self.external_routes,
        }
    }
}

/// Returns the path of the state file.
pub fn path(directory: &Path, cluster: &str) -> PathBuf {
    directory.join(format!("{cluster}.json"))
}

impl PersistedState {
    /// Reads the file. `None` if there is none. A malformed file is left in place until the next
    /// save.
    ///
    /// # Errors
    /// A message for the log.
    pub fn load(path: &Path) -> Result<Option<PersistedState>, String> {
        let describe = |error: &dyn core::fmt::Display| {
            format!(
                "{} can't be read, so members added by commands are lost: {error}",
                path.display()
            )
        };
        match fs::read_to_string(path) {
            Ok(text) => serde_json::from_str(&text).map(Some).map_err(|error| describe(&error)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(describe(&error)),
        }
    }

    /// Writes the file atomically.
    ///
    /// # Errors
    /// The directory or file can't be written.
    pub fn save(&self, path: &Path) -> io::Result<()> {
        let directory = path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(directory)?;
        let mut file = tempfile::NamedTempFile::new_in(directory)?;
        serde_json::to_writer_pretty(&mut file, self)?;
        file.write_all(b"\n")?;
        file.as_file().sync_all()?;
        file.persist(path).map_err(|error| error.error)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn saved_state_loads_to_the_same() {
        let directory = tempfile::tempdir().unwrap();
        let path = path(directory.path(), "c");
        assert_eq!(PersistedState::load(&path), Ok(None));
        let member = PersistedMember {
            name: "m4".to_owned(),
            number: 4,
            addresses: vec!["10.0.0.14".parse().unwrap()],
            port: 6404,
            weight: Weight::Measured,
            control: Some("/run/m4.sock".into()),
            external_routes: false,
            state: MemberState::Active,
            leaving: false,
            added: true,
            process: Some(77),
            measured_per_s: Some(5000),
        };
        let state = PersistedState { members: vec![member], system_settings: Vec::new() };
        state.save(&path).unwrap();
        assert_eq!(PersistedState::load(&path), Ok(Some(state)));
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, text.replace("external_routes", "own_routes")).unwrap();
        assert!(
            PersistedState::load(&path).unwrap().is_some(),
            "the old name of the field is accepted"
        );
        fs::write(&path, "{").unwrap();
        assert!(
            PersistedState::load(&path).unwrap_err().contains("members added by commands are lost")
        );
    }

    #[test]
    fn save_to_full_disk_is_an_error() {
        let full = Path::new("/dev/full/x.json");
        assert!(PersistedState::default().save(full).is_err());
    }
}
