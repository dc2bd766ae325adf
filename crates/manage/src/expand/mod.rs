//! Document and decisions to target.
//!
//! | file | step |
//! |---|---|
//! | `countermeasures.rs` | elements against attacks are put into the document's graph |
//! | `trust.rs` | keys and rules are given to all elements that verify |
//! | (graph language) | the graph is partitioned into one graph per service |
//! | `sites.rs` | services and the links between them, as pairs of faces; routes |
//! | `spread.rs` | forwarders that spread Interests over several instances |
//! | `instances.rs` | one graph per instance: faces with addresses, names, texts |
//!
//! Nothing here depends on what ran before: the same input gives the same bytes.

mod countermeasures;
mod instances;
mod sites;
mod spread;
mod trust;

use crate::document::Document;
use crate::target::{Decisions, Target};
use std::path::Path;

/// Everything that keeps a document from being expanded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", .0.join("\n"))]
pub struct ExpandError(pub Vec<String>);

/// Returns what must run. `folder` is the folder of sockets between instances of one host; it
/// exists at the same path in all of them.
///
/// # Errors
/// Everything that keeps the document from being expanded.
pub fn expand(
    document: &Document,
    decisions: &Decisions,
    folder: &Path,
) -> Result<Target, ExpandError> {
    let (mut graph, network) = countermeasures::apply(document, decisions)?;
    trust::Trust::new(&network, decisions).apply(&mut graph);
    let mut sites = sites::Sites::new(&graph, &network, decisions)?;
    sites.add_routes(&network, decisions)?;
    spread::add_forwarders(&mut sites, &network)?;
    sites.check_label_budget()?;
    instances::build(document, &network, sites, folder)
}
