//! Document and decisions to target.

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
    let _ = (document, decisions, folder);
    Ok(Target::default())
}
