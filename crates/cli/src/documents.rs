//! What the program says of itself: configuration reference, completions, manual pages. All made from the same sources as the program.

use crate::args::{Arguments, Config};
use crate::output::stdout;
use anyhow::{Context, Result};
use clap::CommandFactory;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

/// Prints the default configuration, or checks a file.
pub fn config(args: &Config) -> Result<ExitCode> {
    match &args.check {
        Some(path) => {
            crate::run::load(path)?;
            outln!("{} is a configuration this router can run with", path.display())?;
        }
        None => stdout().write_all(nw_api::config::Config::reference().as_bytes())?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints completions.
pub fn completions(shell: clap_complete::Shell) -> Result<ExitCode> {
    // Generators panic where they can't write.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "nw", &mut script);
    stdout().write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the page of `nw`, or writes all pages into a folder.
pub fn man(folder: Option<&Path>) -> Result<ExitCode> {
    let command = Arguments::command();
    match folder {
        None => clap_mangen::Man::new(command).render(&mut stdout())?,
        Some(folder) => {
            fs::create_dir_all(folder).with_context(|| format!("can't make {}", folder.display()))?;
            clap_mangen::generate_to(command, folder)
                .with_context(|| format!("can't write into {}", folder.display()))?;
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
        for page in ["nw.1", "nw-run.1", "nw-put.1", "nw-face.1", "nw-face-create.1"] {
            assert!(folder.path().join(page).exists(), "{page}");
        }
    }
}
