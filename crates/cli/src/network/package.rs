//! `nw network export` and `import`: networks as TOSCA packages (CSAR).

use super::locate::DocumentFile;
use anyhow::{Context, Result};
use nw_manage::Document;
use std::fs;
use std::io::Read;
use std::path::Path;

/// Bytes of a package that is read, at most.
const PACKAGE_BYTES_MAX: u64 = 64 << 20;

/// Writes a package that describes the network of `file`.
pub fn export(file: &Path, name: Option<&str>, output: &Path) -> Result<()> {
    let source = DocumentFile::read(file)?;
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    let name = name.unwrap_or(&stem);
    super::locate::check_name(name)?;
    let document = Document::read(name, &file.display().to_string(), &source.text)?;
    let package = nw_tosca::export(&document)?;
    fs::write(output, package).with_context(|| format!("can't write {}", output.display()))
}

/// Writes the document of a package, after comparing the package with it.
pub fn import(package: &Path, output: &Path) -> Result<()> {
    let mut bytes = Vec::new();
    let read = fs::File::open(package)
        .and_then(|file| file.take(PACKAGE_BYTES_MAX).read_to_end(&mut bytes));
    read.with_context(|| format!("can't read {}", package.display()))?;
    let document = nw_tosca::import(&bytes).with_context(|| package.display().to_string())?;
    fs::write(output, document.text).with_context(|| format!("can't write {}", output.display()))
}
