//! What a restart must find: members that were added or changed while the balancer ran, and what was changed on this machine.

use crate::config::{Ip, MemberItem, Weight};
use crate::members::{Member, Wanted};
use nw_api::balancer::{MemberState, SystemSetting};
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::{self, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// The file's content.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Kept {
    /// By number.
    pub members: Vec<KeptMember>,
    /// What was changed.
    pub system_settings: Vec<SystemSetting>,
}

/// A member as it was.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KeptMember {
    /// Its name.
    pub name: String,
    /// Its number.
    pub number: u8,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// Its port.
    pub port: u32,
    /// Its weight.
    pub weight: Weight,
    /// Its router's socket.
    pub control: Option<PathBuf>,
    /// It gets its routes otherwise.
    pub own_routes: bool,
    /// What it was doing.
    pub state: MemberState,
    /// It was to go.
    pub leaving: bool,
    /// It was added while the balancer ran.
    pub added: bool,
    /// The process that the engine started for it.
    pub process: Option<u32>,
    /// What it was measured to carry.
    pub measured_per_s: Option<u32>,
}

impl KeptMember {
    /// As it is now.
    pub fn of(member: &Member, process: Option<u32>) -> Self {
        KeptMember {
            name: member.item.name.clone(),
            number: member.number,
            addresses: member.item.addresses.iter().map(|ip| ip.0).collect(),
            port: member.item.port,
            weight: member.item.weight,
            control: member.item.control.clone(),
            own_routes: member.item.own_routes,
            state: member.state,
            leaving: member.wanted == Wanted::Gone,
            added: member.added,
            process,
            measured_per_s: member.measured_per_s,
        }
    }

    /// As it would be configured.
    pub fn item(&self) -> MemberItem {
        MemberItem {
            name: self.name.clone(),
            addresses: self.addresses.iter().map(|address| Ip(*address)).collect(),
            port: self.port,
            weight: self.weight,
            control: self.control.clone(),
            own_routes: self.own_routes,
        }
    }
}

/// Where it is.
pub fn path(folder: &Path, cluster: &str) -> PathBuf {
    folder.join(format!("{cluster}.json"))
}

impl Kept {
    /// Reads it; nothing where there is none. What can't be read is said and left as it is until something is kept.
    ///
    /// # Errors
    /// For people.
    pub fn load(path: &Path) -> Result<Option<Kept>, String> {
        let words = |error: &dyn core::fmt::Display| {
            format!("{} can't be read, so members that were added are forgotten: {error}", path.display())
        };
        match fs::read_to_string(path) {
            Ok(text) => serde_json::from_str(&text).map(Some).map_err(|error| words(&error)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(words(&error)),
        }
    }

    /// Writes it, whole or not at all.
    ///
    /// # Errors
    /// What the system says.
    pub fn save(&self, path: &Path) -> io::Result<()> {
        let folder = path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder)?;
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
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
    fn it_comes_back_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = path(folder.path(), "c");
        assert_eq!(Kept::load(&path), Ok(None));
        let member = KeptMember {
            name: "m4".to_owned(),
            number: 4,
            addresses: vec!["10.0.0.14".parse().unwrap()],
            port: 6404,
            weight: Weight::Measured,
            control: Some("/run/m4.sock".into()),
            own_routes: false,
            state: MemberState::Active,
            leaving: false,
            added: true,
            process: Some(77),
            measured_per_s: Some(5000),
        };
        let kept = Kept { members: vec![member], system_settings: Vec::new() };
        kept.save(&path).unwrap();
        assert_eq!(Kept::load(&path), Ok(Some(kept)));
        fs::write(&path, "{").unwrap();
        assert!(Kept::load(&path).unwrap_err().contains("members that were added are forgotten"));
    }

    #[test]
    fn a_full_disk_is_said() {
        let full = Path::new("/dev/full/x.json");
        assert!(Kept::default().save(full).is_err());
    }
}
