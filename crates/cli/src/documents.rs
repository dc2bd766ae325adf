//! What the program says of itself: configuration reference, completions, manual pages. All made from the same sources as the program.

use crate::args::{Arguments, Config};
use crate::help;
use crate::output::stdout;
use anyhow::{Context, Result};
use clap::CommandFactory;
use std::fs;
use std::io::{Write, stderr};
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
            let verdict = crate::run::verdict(&path.display().to_string(), &checked.unchecked);
            out!("{verdict}")?;
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
    let script = help::extend_script(shell, String::from_utf8(script)?);
    stdout().write_all(script.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the page of `nw`, or writes all pages into a folder.
pub fn man(folder: Option<&Path>) -> Result<ExitCode> {
    let pages = help::pages()?;
    match folder {
        None => stdout().write_all(&pages[0].1)?,
        Some(folder) => {
            fs::create_dir_all(folder).with_context(|| format!("can't make {}", folder.display()))?;
            for (name, text) in &pages {
                fs::write(folder.join(name), text)
                    .with_context(|| format!("can't write into {}", folder.display()))?;
            }
            let page = folder.join("nw.toml.5");
            fs::write(&page, crate::options_page::page())
                .with_context(|| format!("can't write {}", page.display()))?;
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
