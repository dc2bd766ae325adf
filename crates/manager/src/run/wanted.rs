//! What is wanted: the document in effect and the decisions beyond it, and the target they lead to.
//!
//! Invariant: the target always belongs to document and decisions, as it is computed whenever one
//! of them changes. What can't be expanded is refused and changes nothing.

use super::CommandError;
use super::person::PersonSettings;
use crate::store::StoredReplicas;
use nw_manage::target::{Countermeasure, Decisions, InstanceId, Registration};
use nw_manage::{Document, Target, expand};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Longest document, bytes.
pub const DOCUMENT_BYTES_MAX: usize = 1 << 20;
/// Longest file of a trust anchor, bytes.
const ANCHOR_BYTES_MAX: u64 = 64 << 10;

/// Document, decisions and target.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Document in effect.
    pub document: Document,
    /// Its version, from 1.
    pub version: u64,
    /// Folder that file names in the document are relative to.
    pub folder: PathBuf,
    /// Number of instances by service, where one was set.
    pub replicas: BTreeMap<String, StoredReplicas>,
    /// Countermeasures in effect.
    pub countermeasures: Vec<Countermeasure>,
    /// Prefixes that producers registered.
    pub registrations: Vec<Registration>,
    /// Keys, rules and routes that persons have set.
    pub persons: PersonSettings,
    /// Revision of instances; may be empty.
    pub revision: String,
    /// Addresses of instances, if each has one of its own, sorted.
    pub addresses: Option<Vec<(InstanceId, IpAddr)>>,
    /// Contents of the anchor files.
    pub anchors: BTreeMap<String, String>,
    /// Whether a person holds all changes.
    pub is_held: bool,
    /// Whether all services are to be stopped.
    pub is_stopping: bool,
    /// Counts changes of what is wanted.
    pub change: u64,
    /// What must run.
    pub target: Arc<Target>,
    /// Folder of link sockets.
    links_folder: PathBuf,
}

impl Wanted {
    /// Creates what is wanted from a document and the numbers that were set before.
    ///
    /// # Errors
    /// The document can't be expanded, or an anchor can't be read.
    pub fn new(
        (document, version, folder): (Document, u64, PathBuf),
        replicas: BTreeMap<String, StoredReplicas>,
        links_folder: PathBuf,
    ) -> Result<Self, CommandError> {
        let anchors = read_anchors(&document, &folder)?;
        let mut wanted = Wanted {
            document,
            version,
            folder,
            replicas,
            countermeasures: Vec::new(),
            registrations: Vec::new(),
            persons: PersonSettings::default(),
            revision: String::new(),
            addresses: None,
            anchors,
            is_held: false,
            is_stopping: false,
            change: 0,
            target: Arc::default(),
            links_folder,
        };
        wanted.refresh()?;
        Ok(wanted)
    }

    /// Returns a copy with another document.
    ///
    /// # Errors
    /// As [`Wanted::new`].
    pub fn with_document(&self, document: Document, folder: &Path) -> Result<Self, CommandError> {
        let mut wanted = self.clone();
        wanted.anchors = read_anchors(&document, folder)?;
        wanted.folder = folder.to_owned();
        wanted.document = document;
        wanted.refresh()?;
        Ok(wanted)
    }

    /// Computes the target anew.
    ///
    /// # Errors
    /// Document and decisions can't be expanded.
    pub fn refresh(&mut self) -> Result<(), CommandError> {
        let mut decisions = Decisions {
            replicas: self.replica_counts(),
            countermeasures: self.countermeasures.clone(),
            registrations: self.registrations.clone(),
            anchors: self.anchors.clone(),
            revision: self.revision.clone(),
            addresses: self.addresses.clone(),
            ..Decisions::default()
        };
        self.persons.apply(&mut decisions);
        let mut target = expand(&self.document, &decisions, &self.links_folder)
            .map_err(|error| CommandError::Wrong(error.to_string()))?;
        if self.is_stopping {
            target.instances.clear();
            target.links.clear();
        }
        self.target = Arc::new(target);
        self.change += 1;
        Ok(())
    }

    /// Returns the numbers of instances that were set, by service.
    pub fn replica_counts(&self) -> BTreeMap<String, u32> {
        let counts = self.replicas.iter().map(|(service, set)| (service.clone(), set.instances));
        counts.collect()
    }

    /// Returns the least, the most and the wanted number of instances of a service. `None` if the
    /// document has no such service.
    pub fn bounds(&self, service: &str) -> Option<(u32, u32, u32)> {
        let groups = self.document.file.network.groups(&self.document.file.graph);
        groups.iter().find(|(name, _)| name == service)?;
        let scale = self.document.file.network.scales.iter().find(|s| s.service == service);
        let (min, max) = scale.map_or((1, 1), |scale| (scale.min, scale.max));
        let set = self.replicas.get(service).map_or(min, |set| set.instances);
        Some((min, max, set.clamp(min, max)))
    }

    /// Returns the names of the document's services.
    pub fn services(&self) -> Vec<String> {
        let groups = self.document.file.network.groups(&self.document.file.graph);
        groups.into_iter().map(|(name, _)| name).collect()
    }
}

/// Parses and checks a document.
///
/// # Errors
/// It is too long, or has mistakes: all of them, with places and remedies.
pub fn read_document(network: &str, text: &str) -> Result<Document, CommandError> {
    if text.len() > DOCUMENT_BYTES_MAX {
        return Err(CommandError::Wrong(format!(
            "the document has {} bytes (limit {DOCUMENT_BYTES_MAX}): is it a graph file?",
            text.len()
        )));
    }
    Document::read(network, "document", text)
        .map_err(|problems| CommandError::Wrong(problems.to_string()))
}

fn read_anchors(
    document: &Document,
    folder: &Path,
) -> Result<BTreeMap<String, String>, CommandError> {
    let mut contents = BTreeMap::new();
    for anchor in &document.file.network.anchors {
        let path = folder.join(&anchor.file);
        let wrong = |reason: String| {
            CommandError::Wrong(format!(
                "the anchor {} can't be read: {reason}; its path is relative to the document",
                path.display()
            ))
        };
        let length = std::fs::metadata(&path).map_err(|error| wrong(error.to_string()))?.len();
        if length > ANCHOR_BYTES_MAX {
            return Err(wrong(format!("it has {length} bytes (limit {ANCHOR_BYTES_MAX})")));
        }
        let text = std::fs::read_to_string(&path).map_err(|error| wrong(error.to_string()))?;
        contents.insert(anchor.file.clone(), text.split_whitespace().collect());
    }
    Ok(contents)
}
