//! What must run: instances with their graph texts, the links between them, and what led to them.
//!
//! A target is a pure function of document and [`Decisions`]: the same input gives the same bytes.
//! A face name is never used for two addresses: it ends in a digest of its link.

use nw_graph_language::network::{EngineKind, InsertionOrder, LinkKind};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

/// One process or container of a network. While a service moves, its name exists on two hosts.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct InstanceId {
    /// `SERVICE~N`, where N counts the instances of the service from 1; with a revision, or with an
    /// image that the document names for the host, it is `SERVICE~N-REVISION`.
    pub name: String,
    /// Name of the host it runs on.
    pub host: String,
}

impl fmt::Display for InstanceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}", self.name, self.host)
    }
}

/// Everything that must run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Target {
    /// Name of the network.
    pub network: String,
    /// Hosts with engines, by name.
    pub hosts: Vec<TargetHost>,
    /// Instances, sorted by id.
    pub instances: Vec<Instance>,
    /// Links between instances, sorted by id.
    pub links: Vec<Link>,
    /// How packets are handled while the network changes.
    pub order: InsertionOrder,
    /// Whether each instance has an address of its own: then several may listen at the same port.
    pub has_addresses: bool,
}

/// A host of the target.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TargetHost {
    /// Name.
    pub name: String,
    /// Engine that starts instances.
    pub engine: EngineKind,
    /// Whether an agent on another machine runs the engine.
    pub is_remote: bool,
    /// Container image, if the document names one.
    pub image: Option<String>,
    /// Processor cores for all instances together.
    pub cores: Option<f64>,
    /// Memory for all instances together, MiB.
    pub memory_mib: Option<u64>,
}

/// An instance of the target.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Instance {
    /// Name and host.
    pub id: InstanceId,
    /// Service it is an instance of.
    pub service: String,
    /// Text of the graph file it runs, with all routes.
    pub graph: String,
    /// Share of a processor core that it may use at most.
    pub quota_cores: Option<f64>,
    /// Why it exists.
    pub origin: Origin,
    /// Names of the elements whose content stores should be handed over when it goes.
    pub stores: Vec<String>,
    /// Position from the producers: instances with lower numbers are switched first.
    pub depth: u32,
}

/// Why an instance exists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// The document names the service.
    #[default]
    Document,
    /// It spreads Interests over the instances of a service.
    Scaling,
    /// It is part of a countermeasure.
    Defence,
}

/// A link between two instances.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Link {
    /// Id: a digest of transport, address and both instances; the faces' names end in it. Where
    /// instances have addresses of their own, the listening face has a digest without the address.
    pub id: String,
    /// Transport.
    pub kind: LinkKind,
    /// The end that connects.
    pub from: LinkEnd,
    /// The end that listens.
    pub to: LinkEnd,
    /// Cost for routes.
    pub cost: u64,
}

/// One end of a link.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkEnd {
    /// Instance.
    pub instance: InstanceId,
    /// Name of the face in the instance's graph.
    pub face: String,
    /// URI of the face in the instance's graph.
    pub uri: String,
}

/// What was decided beyond the document. The default is the document alone.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Decisions {
    /// Number of instances, by service. Bounds of the document hold all the same.
    pub replicas: BTreeMap<String, u32>,
    /// Countermeasures in effect.
    pub countermeasures: Vec<Countermeasure>,
    /// Prefixes that producers registered.
    pub registrations: Vec<Registration>,
    /// Contents of the anchor files as base64 certificates, by the file's name in the document.
    pub anchors: BTreeMap<String, String>,
    /// Certificates (base64) that chains may need, for all verifiers.
    pub certificates: Vec<String>,
    /// Anchors (base64) beside those of the document.
    pub added_anchors: Vec<String>,
    /// Rules beside those of the document.
    pub added_rules: Vec<SigningRule>,
    /// Routes that persons have set. One at an element or face that is gone has no effect.
    pub routes: Vec<AddedRoute>,
    /// What instances are made of, such as a digest of their image: lower-case letters and digits.
    /// With another revision all instances are others, so a plan replaces them. May be empty.
    pub revision: String,
    /// Addresses of instances, if each has one of its own: links between hosts use these, not the
    /// addresses of hosts. One that is not known yet is [`ADDRESS_UNKNOWN`].
    pub addresses: Option<Vec<(InstanceId, IpAddr)>>,
}

/// Stands for the address of an instance that is not known yet. Nothing answers there: it is part
/// of the range for documentation.
pub const ADDRESS_UNKNOWN: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

/// A rule: keys of these names may sign, and register, these names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SigningRule {
    /// Pattern of names.
    pub names: String,
    /// Pattern of the names of keys.
    pub keys: String,
}

/// A route that leads out of the network by a face of the document.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct AddedRoute {
    /// Prefix, as a URI.
    pub prefix: String,
    /// Element that routes by name.
    pub element: String,
    /// Face of the document, in the same service.
    pub face: String,
    /// Cost beyond the face.
    pub cost: u64,
}

/// A change of the graph against an attack. Elements that it adds are named `defence-…`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Countermeasure {
    /// Verifies the Data that enter an element.
    Verify {
        /// Element whose Data are verified.
        element: String,
        /// Share of the packets that is verified.
        sample: f64,
        /// Whether the verifier runs in a process of its own.
        is_isolated: bool,
    },
    /// Rejects names at the faces of a service.
    Filter {
        /// Element before which the filter is placed.
        element: String,
        /// Names that are rejected, as URIs.
        names: Vec<String>,
    },
    /// Limits the Interests that enter an element by each face.
    Limit {
        /// Element before which the limiter is placed.
        element: String,
        /// Interests per second of each face.
        rate: u64,
    },
}

impl Countermeasure {
    /// Returns the name of the element that it adds to the graph.
    pub fn element_name(&self) -> String {
        match self {
            Countermeasure::Verify { element, .. } => format!("{DEFENCE_PREFIX}verify-{element}"),
            Countermeasure::Filter { element, .. } => format!("{DEFENCE_PREFIX}filter-{element}"),
            Countermeasure::Limit { element, .. } => format!("{DEFENCE_PREFIX}limit-{element}"),
        }
    }
}

/// Prefix of the names of elements that countermeasures add.
pub const DEFENCE_PREFIX: &str = "defence-";

/// A prefix that a producer registered at a name router.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Registration {
    /// Instance where it was registered.
    pub instance: InstanceId,
    /// Element of the instance that routes by name.
    pub element: String,
    /// Prefix, as a URI.
    pub prefix: String,
    /// Cost beyond the producer's face.
    pub cost: u64,
}

/// Returns the first 16 hexadecimal digits of the SHA-256 digest of texts, each with its length.
pub fn digest(texts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for text in texts {
        hash.update((text.len() as u64).to_be_bytes());
        hash.update(text.as_bytes());
    }
    hash.finalize()[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}

impl InstanceId {
    /// Returns the service that the name says it is an instance of; empty if it says none.
    pub fn service(&self) -> &str {
        self.name.rsplit_once('~').map_or("", |(service, _)| service)
    }

    /// Returns the revision of the instance; empty if it has none.
    pub fn revision(&self) -> &str {
        let number = self.name.rsplit_once('~').map_or("", |(_, number)| number);
        number.split_once('-').map_or("", |(_, revision)| revision)
    }
}

impl Target {
    /// Returns an instance by id.
    pub fn instance(&self, id: &InstanceId) -> Option<&Instance> {
        self.instances
            .binary_search_by(|instance| instance.id.cmp(id))
            .ok()
            .map(|at| &self.instances[at])
    }
}
