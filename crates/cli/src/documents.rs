//! What the program says of itself: configuration reference, completions, manual pages. All made from the same sources as the program.

use crate::args::{Arguments, Config};
use anyhow::{Context, Result};
use clap::CommandFactory;
use std::fs;
use std::io::{Write, stderr, stdout};
use std::path::Path;
use std::process::ExitCode;

/// Prints the default configuration, checks a file, or translates one of NFD's.
pub fn config(args: &Config) -> Result<ExitCode> {
    if let Some(path) = &args.from_nfd {
        let translation = crate::nfd::translate_file(path)?;
        for (line, note) in &translation.notes {
            writeln!(stderr(), "nw: {}:{line}: {note}", path.display())?;
        }
        stdout().write_all(translation.toml.as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    }
    match &args.check {
        Some(path) => {
            let checked = crate::run::load(path)?;
            let verdict = crate::run::verdict(&path.display().to_string(), &checked);
            stdout().write_all(verdict.as_bytes())?;
        }
        None => stdout().write_all(nw_api::config::Config::reference().as_bytes())?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints completions.
pub fn completions(shell: clap_complete::Shell) -> Result<ExitCode> {
    clap_complete::generate(shell, &mut Arguments::command(), "nw", &mut stdout());
    Ok(ExitCode::SUCCESS)
}

/// Prints the page of `nw`, or writes all pages into a folder.
pub fn man(folder: Option<&Path>) -> Result<ExitCode> {
    let command = Arguments::command();
    match folder {
        None => clap_mangen::Man::new(command).render(&mut stdout())?,
        Some(folder) => {
            fs::create_dir_all(folder).with_context(|| format!("can't make {}", folder.display()))?;
            let written = clap_mangen::generate_to(command, folder)
                .and_then(|()| fs::write(folder.join("nw.toml.5"), crate::options_page::page()));
            written.with_context(|| format!("can't write into {}", folder.display()))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn every_command_has_a_page() {
        let folder = tempfile::tempdir().unwrap();
        man(Some(folder.path())).unwrap();
        for page in ["nw.1", "nw-run.1", "nw-put.1", "nw-face.1", "nw-face-create.1", "nw.toml.5"] {
            assert!(folder.path().join(page).exists(), "{page}");
        }
    }
}
