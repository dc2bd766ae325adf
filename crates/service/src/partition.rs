//! Services of a partitioned graph that run from one folder: addresses of the links between them.

use nw_faces::uri::UNIX_PATH_LEN_MAX;
use nw_graph::{Graph, Problem};
use std::path::{Path, PathBuf};

/// Transport of the links. Both kinds meet at a socket in the folder of the graph files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LinkKind {
    /// Unix stream sockets.
    #[default]
    Unix,
    /// Shared memory.
    SharedMemory,
}

impl LinkKind {
    const fn scheme(self) -> &'static str {
        match self {
            LinkKind::Unix => "unix",
            LinkKind::SharedMemory => "shm",
        }
    }
}

/// One service of a partitioned graph.
#[derive(Clone, Debug)]
pub struct ServicePart {
    /// Name of the service.
    pub name: String,
    /// Graph that the service runs.
    pub graph: Graph,
}

/// Everything that is wrong with a partition.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.join("\n"))]
pub struct PartitionError(pub Vec<String>);

/// Partitions a checked graph. Each service has a name, and the names of its elements and faces. A
/// face that is not named belongs to the service of the element its packets enter. All links are of
/// one kind and meet in `folder`; of two services the later one listens.
///
/// # Errors
/// Everything that is wrong with the partition.
pub fn partition(
    graph: &Graph,
    services: &[(String, Vec<String>)],
    folder: &Path,
    kind: LinkKind,
) -> Result<Vec<ServicePart>, PartitionError> {
    let describe = |problem: Problem| format!("{}: {}", problem.message, problem.remedy);
    let parts = nw_graph::partition::partition(graph, services)
        .map_err(|problems| PartitionError(problems.into_iter().map(describe).collect()))?;
    let mut errors = Vec::new();
    let mut services_out = Vec::new();
    for (service, part) in parts.into_iter().enumerate() {
        let mut graph = part.graph;
        for link in part.links {
            let (low, high) = (service.min(link.other), service.max(link.other));
            let socket = socket_path(folder, services, low, high);
            let len = socket.as_os_str().len();
            if len > UNIX_PATH_LEN_MAX && service == low {
                errors.push(format!(
                    "the socket between {} and {} would have a path of {len} bytes (limit {UNIX_PATH_LEN_MAX}): use a folder with a shorter path, or shorter service names",
                    services[low].0, services[high].0
                ));
            }
            let uri = format!("{}://{}", kind.scheme(), socket.display());
            graph.faces[link.face].uri = Some(uri);
        }
        services_out.push(ServicePart { name: part.name, graph });
    }
    if errors.is_empty() { Ok(services_out) } else { Err(PartitionError(errors)) }
}

/// Returns the socket path of a link.
fn socket_path(
    folder: &Path,
    services: &[(String, Vec<String>)],
    low: usize,
    high: usize,
) -> PathBuf {
    folder.join(format!("{}-{}.sock", services[low].0, services[high].0))
}
