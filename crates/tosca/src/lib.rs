#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod descriptors;
mod yaml;

use descriptors::{NFV_TYPES_FILE, descriptors};
use nw_manage::Document;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{Cursor, Read, Write};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

/// Types of the specification that descriptors use.
const NFV_TYPES: &str = include_str!("nfv_types.yaml");
const META_PATH: &str = "TOSCA-Metadata/TOSCA.meta";
/// Files of a package, at most.
const FILES_MAX: usize = 1000;
/// Bytes of one file of a package, at most; a document of a network has at most 10 MB.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// Bytes of all files of a package, at most.
const TOTAL_BYTES_MAX: u64 = 64 << 20;

/// Why a package is not made, or not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ToscaError {
    /// The document is not one of a network that can run.
    #[error("{0}")]
    Document(String),
    /// The bytes are not a ZIP archive, or are larger than packages may be.
    #[error("this is not a TOSCA package (CSAR): {0}")]
    Archive(String),
    /// A package of another program.
    #[error(
        "this package has no document of Namewire (Files/NAME.graph); only packages that `nw \
         network export` wrote are imported"
    )]
    Foreign,
    /// A file differs from what the document in the package describes.
    #[error(
        "{file}:{line}: {found:?} where the package's document gives {expected:?}; packages are \
         made from their document: change {document}, import that, and export again"
    )]
    Differs {
        /// Path in the package.
        file: String,
        /// Line, from 1.
        line: usize,
        /// The line in the package; empty after its end.
        found: String,
        /// The line that belongs there; empty after its end.
        expected: String,
        /// Path of the document.
        document: String,
    },
    /// A file is missing.
    #[error("{0} is missing from the package")]
    Missing(String),
    /// A file does not belong to the package.
    #[error("{0} does not belong to the package: remove it, or export again")]
    Surplus(String),
}

/// Returns a package (CSAR) that describes the network: the same bytes for the same document.
pub fn export(document: &Document) -> Result<Vec<u8>, ToscaError> {
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default()
        .compression_method(CompressionMethod::Deflated)
        .last_modified_time(zip::DateTime::default());
    let failed = |error: &dyn ToString| ToscaError::Archive(error.to_string());
    for (path, text) in package(document)? {
        archive.start_file(path, options).map_err(|error| failed(&error))?;
        archive.write_all(text.as_bytes()).map_err(|error| failed(&error))?;
    }
    Ok(archive.finish().map_err(|error| failed(&error))?.into_inner())
}

/// Returns the name and the text of the document in a package, after comparing all other files with
/// what it describes.
pub fn import(bytes: &[u8]) -> Result<Document, ToscaError> {
    let files = unpack(bytes)?;
    let mut documents = files.iter().filter_map(|(path, text)| {
        let name = path.strip_prefix("Files/")?.strip_suffix(".graph")?;
        Some((path, name, text))
    });
    let (Some((path, name, text)), None) = (documents.next(), documents.next()) else {
        return Err(ToscaError::Foreign);
    };
    let document = Document::read(name, path, text)
        .map_err(|problems| ToscaError::Document(problems.to_string()))?;
    let expected: BTreeMap<String, String> = package(&document)?.into_iter().collect();
    if let Some(surplus) = files.keys().find(|path| !expected.contains_key(*path)) {
        return Err(ToscaError::Surplus(surplus.clone()));
    }
    // The manifest last: its digests follow from the other files.
    let (manifests, others): (Vec<_>, Vec<_>) =
        expected.iter().partition(|(path, _)| path.ends_with(".mf"));
    for (file, expected) in others.into_iter().chain(manifests) {
        let found = files.get(file).ok_or_else(|| ToscaError::Missing(file.clone()))?;
        compare(file, found, expected, path)?;
    }
    Ok(document)
}

/// Returns the files of a package, in its order.
fn package(document: &Document) -> Result<Vec<(String, String)>, ToscaError> {
    let descriptors = descriptors(document)?;
    let entry = descriptors.first().map(|(name, _)| name.clone()).unwrap_or_default();
    let meta = format!(
        "TOSCA-Meta-File-Version: 1.0\nCSAR-Version: 1.1\nCreated-By: Namewire {}\n\
         Entry-Definitions: Definitions/{entry}\n",
        env!("CARGO_PKG_VERSION")
    );
    let mut files = vec![(META_PATH.to_owned(), meta)];
    let definitions = descriptors.into_iter();
    files.extend(definitions.map(|(name, text)| (format!("Definitions/{name}"), text)));
    files.push((format!("Definitions/{NFV_TYPES_FILE}"), NFV_TYPES.to_owned()));
    files.push((format!("Files/{}.graph", document.name), document.text.clone()));
    let manifest = manifest(document, &files);
    files.push((format!("{}.mf", document.name), manifest));
    Ok(files)
}

/// Returns the manifest of SOL 004: what the package is, and a digest of each file.
fn manifest(document: &Document, files: &[(String, String)]) -> String {
    let mut text = format!(
        "metadata:\n  ns_name: {name}\n  ns_invariant_id: namewire-{name}\n  \
         ns_file_structure_version: {digest}\n",
        name = document.name,
        digest = document.digest(),
    );
    for (path, content) in files {
        let digest = Sha256::digest(content.as_bytes());
        let digits: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        let _ = write!(text, "\nSource: {path}\nAlgorithm: SHA-256\nHash: {digits}\n");
    }
    text
}

/// Returns the files of an archive by path.
fn unpack(bytes: &[u8]) -> Result<BTreeMap<String, String>, ToscaError> {
    let failed = |reason: String| ToscaError::Archive(reason);
    let mut archive =
        ZipArchive::new(Cursor::new(bytes)).map_err(|error| failed(error.to_string()))?;
    if archive.len() > FILES_MAX {
        return Err(failed(format!("it has more than {FILES_MAX} files")));
    }
    let (mut files, mut left) = (BTreeMap::new(), TOTAL_BYTES_MAX);
    for index in 0..archive.len() {
        let file = archive.by_index(index).map_err(|error| failed(error.to_string()))?;
        if file.is_dir() {
            continue;
        }
        let path = file.name().map_err(|error| failed(error.to_string()))?.into_owned();
        // Sizes in the archive are not trusted: reading ends at the limit.
        let limit = left.min(FILE_BYTES_MAX);
        let mut content = Vec::new();
        file.take(limit + 1)
            .read_to_end(&mut content)
            .map_err(|error| failed(format!("{path}: {error}")))?;
        if content.len() as u64 > limit {
            return Err(failed(format!("{path} is too long")));
        }
        left -= content.len() as u64;
        let text = String::from_utf8(content).map_err(|_| failed(format!("{path} is not text")))?;
        if files.insert(path.clone(), text).is_some() {
            return Err(failed(format!("{path} is there twice")));
        }
    }
    Ok(files)
}

/// Refuses a file that differs, with the first line that does.
fn compare(file: &str, found: &str, expected: &str, document: &str) -> Result<(), ToscaError> {
    if found == expected {
        return Ok(());
    }
    let (mut found, mut expected) = (found.lines(), expected.lines());
    for line in 1.. {
        let pair = (found.next(), expected.next());
        if pair.0 != pair.1 || pair.0.is_none() {
            let text = |line: Option<&str>| line.unwrap_or_default().trim().to_owned();
            return Err(ToscaError::Differs {
                file: file.to_owned(),
                line,
                found: text(pair.0),
                expected: text(pair.1),
                document: document.to_owned(),
            });
        }
    }
    Ok(())
}
