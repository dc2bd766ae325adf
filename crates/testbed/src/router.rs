//! Routers on nodes: started, told their routes, asked how they are. They are told by NFD's management alone, so any router that has it will do.

use crate::error::LabError;
use crate::node::Node;
use crate::plan::{Addresses, RouterProgram};
use crate::process::Running;
use nw_api::management::client::{decode_cs_info, decode_items, decode_status};
use nw_api::management::{ControlParameters, CsInfo, Dataset, DropCount, ForwarderStatus, RibEntry, Verb};
use nw_app::control::{self, ControlError};
use nw_app::{Client, FaceUri};
use nw_name::Name;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(20);

/// Where a router listens for UDP. Not on every address: it would answer from another one than it was asked at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Listen {
    pub(crate) addresses: Addresses,
    pub(crate) port: u16,
    pub(crate) has_v6: bool,
}

/// A router that runs on a node.
#[derive(Debug)]
pub struct Router {
    /// Its process.
    pub process: Running,
    /// Its unix socket, for applications and commands.
    pub socket: PathBuf,
    name: String,
}

impl Router {
    /// Starts one that listens on these addresses. `config` is for `nw` alone.
    pub(crate) fn start(
        program: &RouterProgram,
        node: &Node,
        at: Listen,
        config: &str,
    ) -> Result<Router, LabError> {
        let socket = node.path("sock");
        let _ = std::fs::remove_file(&socket);
        let mut command = match program {
            RouterProgram::Namewire(nw) => {
                let file = node.path("toml");
                let mut listen = vec![format!("{}:{}", at.addresses.v4, at.port)];
                if at.has_v6 {
                    listen.push(format!("[{}]:{}", at.addresses.v6, at.port));
                }
                let text = format!(
                    "[faces.unix]\npath = {socket:?}\n[faces.tcp]\nlisten = []\n[faces.udp]\nlisten = {listen:?}\n\
                     [forwarder]\nshards = 1\n[log]\nlevel = \"warn\"\n{config}"
                );
                std::fs::write(&file, text).map_err(LabError::at("write", &file))?;
                let mut command = Command::new(nw);
                command.args(["run", "--config"]).arg(file);
                command
            }
            RouterProgram::Other { program, arguments } => other(program, arguments, node, at, &socket),
        };
        let mut process = node.start("router", command.stdout(Stdio::null()))?;
        process.wait_until(PATIENCE, "takes commands", || UnixStream::connect(&socket).is_ok())?;
        Ok(Router { process, socket, name: format!("the router on {}", node.name) })
    }

    /// Where applications find it.
    pub fn uri(&self) -> FaceUri {
        format!("unix://{}", self.socket.display()).parse().expect("paths of ours are plain")
    }

    /// Sends what is asked for under a prefix to a face, which is made if it is not there.
    ///
    /// # Errors
    /// When the router refuses.
    pub fn add_route(&self, prefix: &Name, next_hop: &str, local: Option<&str>) -> Result<(), LabError> {
        self.told(|client| {
            let face = ControlParameters {
                uri: Some(next_hop.to_owned()),
                local_uri: local.map(str::to_owned),
                ..ControlParameters::default()
            };
            let face_id = match control::command(client, Verb::FacesCreate, &face) {
                Ok(made) => made.face_id,
                // There already: the answer says which.
                Err(ControlError::Refused { response, .. }) if response.code == 409 => response.body.face_id,
                Err(error) => return Err(error),
            };
            let route = ControlParameters { face_id, ..ControlParameters::of(prefix.clone()) };
            control::command(client, Verb::RibRegister, &route).map(drop)
        })
    }

    /// True when it knows a way for a prefix, and for no shorter one.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn has_route(&self, prefix: &Name) -> Result<bool, LabError> {
        self.told(|client| {
            let content = control::dataset(client, Dataset::RibList, None)?;
            let entries: Vec<RibEntry> = decode_items(&content)
                .map_err(|error| ControlError::Answer { what: Dataset::RibList.to_string(), error })?;
            Ok(entries.iter().any(|entry| entry.name == *prefix))
        })
    }

    /// Packets, pending Interests, stored packets.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn status(&self) -> Result<ForwarderStatus, LabError> {
        self.told(|client| {
            let content = control::dataset(client, Dataset::StatusGeneral, None)?;
            decode_status(&content)
                .map_err(|error| ControlError::Answer { what: Dataset::StatusGeneral.to_string(), error })
        })
    }

    /// Packets that it dropped, by reason; none of a router that has no such list.
    ///
    /// # Errors
    /// When it can't be reached.
    pub fn drops(&self) -> Result<Vec<DropCount>, LabError> {
        self.told(|client| {
            let content = match control::dataset(client, Dataset::StatusDrops, None) {
                Err(error) if error.is_unknown() => return Ok(Vec::new()),
                answer => answer?,
            };
            decode_items(&content)
                .map_err(|error| ControlError::Answer { what: Dataset::StatusDrops.to_string(), error })
        })
    }

    /// Its content store: what it holds, how often it answered.
    ///
    /// # Errors
    /// When it does not answer.
    pub fn store(&self) -> Result<CsInfo, LabError> {
        self.told(|client| {
            let content = control::dataset(client, Dataset::CsInfo, None)?;
            decode_cs_info(&content)
                .map_err(|error| ControlError::Answer { what: Dataset::CsInfo.to_string(), error })
        })
    }

    fn told<T>(&self, talk: impl FnOnce(&mut Client) -> Result<T, ControlError>) -> Result<T, LabError> {
        let talked =
            Client::connect(&self.uri()).map_err(ControlError::from).and_then(|mut client| talk(&mut client));
        talked.map_err(|source| LabError::Router { router: self.name.clone(), source: Box::new(source) })
    }
}

fn other(program: &Path, arguments: &[String], node: &Node, at: Listen, socket: &Path) -> Command {
    let folder = node.path("files");
    let _ = std::fs::create_dir_all(&folder);
    let values = [
        ("socket", socket.display().to_string()),
        ("port", at.port.to_string()),
        ("address", at.addresses.v4.to_string()),
        ("address6", at.addresses.v6.to_string()),
        ("folder", folder.display().to_string()),
    ];
    let mut command = Command::new(program);
    for (key, value) in &values {
        command.env(format!("NW_LAB_{}", key.to_uppercase()), value);
    }
    command.args(arguments.iter().map(|argument| {
        values.iter().fold(argument.clone(), |text, (key, value)| text.replace(&format!("{{{key}}}"), value))
    }));
    command
}
