//! Passphrases from a file, or from the terminal without echo.

use super::PassphraseArgs;
use anyhow::{Context, Result, bail};
use nw_api::config::file::{KEY_MAX, read_text};

/// Reads an existing passphrase.
pub fn read(passphrase: &PassphraseArgs) -> Result<String> {
    match &passphrase.passphrase_file {
        Some(path) => {
            let text = read_text(path, KEY_MAX)?;
            Ok(text.lines().next().unwrap_or_default().to_owned())
        }
        None => prompt("passphrase: "),
    }
}

/// Reads a new passphrase, which must not be empty. On the terminal it has to be entered twice.
pub fn choose(passphrase: &PassphraseArgs) -> Result<String> {
    let chosen = read(passphrase)?;
    if chosen.is_empty() {
        bail!("the passphrase must not be empty");
    }
    if passphrase.passphrase_file.is_none() && prompt("repeat the passphrase: ")? != chosen {
        bail!("the passphrases differ: try again");
    }
    Ok(chosen)
}

fn prompt(prompt: &str) -> Result<String> {
    rpassword::prompt_password(prompt)
        .context("there is no terminal to enter the passphrase: use --passphrase-file")
}
