//! Routers on nodes. They are controlled only by the NFD management protocol, so any router that
//! supports it can be used.

use crate::error::LabError;
use crate::node::Node;
use crate::plan::{Addresses, RouterProgram};
use crate::process::Running;
use nw_api::management::client::{decode_cs_info, decode_items, decode_status};
use nw_api::management::{
    ControlParameters, CsInfo, Dataset, DropCount, ForwarderStatus, RibEntry, Verb,
};
use nw_app::control::{self, ControlError};
use nw_app::{Client, FaceUri};
use nw_name::Name;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

const START_TIMEOUT: Duration = Duration::from_secs(20);

/// The addresses on which a router listens for UDP. It does not listen on all addresses because it
/// would then answer from another address than the one that received the packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Listen {
    pub(crate) addresses: Addresses,
    pub(crate) port: u16,
    pub(crate) has_ipv6: bool,
    /// Whether it also listens for TCP, over IPv4.
    pub(crate) has_tcp: bool,
}

/// A router that runs on a node.
#[derive(Debug)]
pub struct Router {
    /// The router's process.
    pub process: Running,
    /// The router's unix socket, for applications and commands.
    pub socket: PathBuf,
    name: String,
}

impl Router {
    /// Starts a router that listens on these addresses. `config` applies only to `nw`.
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
                if at.has_ipv6 {
                    listen.push(format!("[{}]:{}", at.addresses.v6, at.port));
                }
                let tcp = if at.has_tcp { &listen[..1] } else { &[] };
                let text = format!(
                    "[faces.unix]\npath = {socket:?}\n[faces.tcp]\nlisten = {tcp:?}\n[faces.udp]\nlisten = {listen:?}\n\
                     [forwarder]\nshards = 1\n[log]\nlevel = \"warn\"\n{config}"
                );
                std::fs::write(&file, text).map_err(LabError::at("write", &file))?;
                let mut command = Command::new(nw);
                command.args(["run", "--config"]).arg(file);
                command
            }
            RouterProgram::Other { program, arguments } => {
                other_router(program, arguments, node, at, &socket)
            }
        };
        let mut process = node.start("router", command.stdout(Stdio::null()))?;
        process.wait_until(START_TIMEOUT, "accepted commands", || {
            UnixStream::connect(&socket).is_ok()
        })?;
        Ok(Router { process, socket, name: format!("the router on {}", node.name) })
    }

    /// Returns the face URI for applications.
    pub fn uri(&self) -> FaceUri {
        format!("unix://{}", self.socket.display())
            .parse()
            .expect("the path of the socket is valid in a URI")
    }

    /// Adds a route to a face, which is created if necessary.
    ///
    /// # Errors
    /// Returns an error if the router refuses.
    pub fn add_route(
        &self,
        prefix: &Name,
        next_hop: &str,
        local: Option<&str>,
    ) -> Result<(), LabError> {
        self.with_client(|client| {
            let face = ControlParameters {
                uri: Some(next_hop.to_owned()),
                local_uri: local.map(str::to_owned),
                ..ControlParameters::default()
            };
            let face_id = match control::command(client, Verb::FacesCreate, &face) {
                Ok(created) => created.face_id,
                // The face exists, and the response contains its id.
                Err(ControlError::Refused { response, .. }) if response.code == 409 => {
                    response.body.face_id
                }
                Err(error) => return Err(error),
            };
            let route = ControlParameters { face_id, ..ControlParameters::of(prefix.clone()) };
            control::command(client, Verb::RibRegister, &route).map(drop)
        })
    }

    /// Returns true if the router has a route for exactly this prefix.
    ///
    /// # Errors
    /// Returns an error if the router does not answer.
    pub fn has_route(&self, prefix: &Name) -> Result<bool, LabError> {
        self.with_client(|client| {
            let content = control::dataset(client, Dataset::RibList, None)?;
            let entries: Vec<RibEntry> = decode_items(&content).map_err(|error| {
                ControlError::Answer { what: Dataset::RibList.to_string(), error }
            })?;
            Ok(entries.iter().any(|entry| entry.name == *prefix))
        })
    }

    /// Returns the router's status: packets, pending Interests, stored packets.
    ///
    /// # Errors
    /// Returns an error if the router does not answer.
    pub fn status(&self) -> Result<ForwarderStatus, LabError> {
        self.with_client(|client| {
            let content = control::dataset(client, Dataset::StatusGeneral, None)?;
            decode_status(&content).map_err(|error| ControlError::Answer {
                what: Dataset::StatusGeneral.to_string(),
                error,
            })
        })
    }

    /// Returns the dropped packets by reason; empty for a router without this dataset.
    ///
    /// # Errors
    /// Returns an error if the router can't be reached.
    pub fn drops(&self) -> Result<Vec<DropCount>, LabError> {
        self.with_client(|client| {
            let content = match control::dataset(client, Dataset::StatusDrops, None) {
                Err(error) if error.is_unknown() => return Ok(Vec::new()),
                answer => answer?,
            };
            decode_items(&content).map_err(|error| ControlError::Answer {
                what: Dataset::StatusDrops.to_string(),
                error,
            })
        })
    }

    /// Returns the state of the content store: entries, hits and misses.
    ///
    /// # Errors
    /// Returns an error if the router does not answer.
    pub fn store(&self) -> Result<CsInfo, LabError> {
        self.with_client(|client| {
            let content = control::dataset(client, Dataset::CsInfo, None)?;
            decode_cs_info(&content)
                .map_err(|error| ControlError::Answer { what: Dataset::CsInfo.to_string(), error })
        })
    }

    /// Runs commands over a connection of their own.
    pub(crate) fn with_client<T>(
        &self,
        action: impl FnOnce(&mut Client) -> Result<T, ControlError>,
    ) -> Result<T, LabError> {
        let result = Client::connect(&self.uri())
            .map_err(ControlError::from)
            .and_then(|mut client| action(&mut client));
        result.map_err(|source| LabError::Router {
            router: self.name.clone(),
            source: Box::new(source),
        })
    }
}

fn other_router(
    program: &Path,
    arguments: &[String],
    node: &Node,
    at: Listen,
    socket: &Path,
) -> Command {
    let directory = node.path("files");
    let _ = std::fs::create_dir_all(&directory);
    let values = [
        ("socket", socket.display().to_string()),
        ("port", at.port.to_string()),
        ("address", at.addresses.v4.to_string()),
        ("address6", at.addresses.v6.to_string()),
        ("folder", directory.display().to_string()),
    ];
    let mut command = Command::new(program);
    for (key, value) in &values {
        command.env(format!("NW_LAB_{}", key.to_uppercase()), value);
    }
    command.args(arguments.iter().map(|argument| {
        values
            .iter()
            .fold(argument.clone(), |text, (key, value)| text.replace(&format!("{{{key}}}"), value))
    }));
    command
}
