//! Generated documentation: configuration reference, completions, manual pages. All are made from
//! the same sources as the program.

use crate::args::Arguments;
use crate::args::tools::ConfigArgs;
use crate::help;
use crate::output::stdout;
use anyhow::{Context, Result};
use clap::CommandFactory;
use std::fs;
use std::io::{Write, stderr};
use std::path::Path;
use std::process::ExitCode;

/// Prints the default configuration, checks a file, or translates an nfd.conf.
pub fn config(args: &ConfigArgs) -> Result<ExitCode> {
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
            out!("{verdict}")?;
        }
        None => stdout().write_all(nw_api::config::Config::reference().as_bytes())?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints shell completions.
pub fn completions(shell: clap_complete::Shell) -> Result<ExitCode> {
    // The generator panics if it can't write, so it writes to memory.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Arguments::command(), "nw", &mut script);
    let script = help::extend_script(shell, String::from_utf8(script)?);
    stdout().write_all(script.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the manual page of `nw`, or writes all pages into a folder.
pub fn man(folder: Option<&Path>) -> Result<ExitCode> {
    let pages = help::pages()?;
    match folder {
        None => stdout().write_all(&pages[0].1)?,
        Some(folder) => {
            fs::create_dir_all(folder)
                .with_context(|| format!("can't create {}", folder.display()))?;
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
    fn command_line_passes_clap_checks() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn graph_cut_is_accepted_as_old_name_of_split() {
        let words = ["nw", "graph", "cut", "g", "--into", "d", "--service", "a=b"];
        assert!(Arguments::command().try_get_matches_from(words).is_ok());
        let help =
            Arguments::command().find_subcommand_mut("graph").unwrap().render_help().to_string();
        assert!(help.contains("split") && !help.contains("cut"), "{help}");
    }

    #[test]
    fn balancer_add_accepts_old_name_of_external_routes() {
        let member = ["nw", "balancer", "add", "m4", "--address", "10.0.0.14", "--port", "6404"];
        for flag in ["--external-routes", "--own-routes"] {
            let words = member.into_iter().chain([flag]);
            assert!(Arguments::command().try_get_matches_from(words).is_ok(), "{flag}");
        }
    }

    #[test]
    fn man_writes_a_page_for_every_command() {
        let folder = tempfile::tempdir().unwrap();
        man(Some(folder.path())).unwrap();
        for page in ["nw.1", "nw-run.1", "nw-put.1", "nw-face.1", "nw-face-create.1", "nw.toml.5"] {
            assert!(folder.path().join(page).exists(), "{page}");
        }
    }
}
