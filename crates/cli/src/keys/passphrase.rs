//! Passphrases: from a file, or from the terminal without echo.

use super::Passphrase;
use anyhow::{Context, Result, bail};
use nw_api::config::file::{KEY_MAX, read_text};

/// The passphrase that opens something.
pub fn ask(passphrase: &Passphrase) -> Result<String> {
    match &passphrase.passphrase_file {
        Some(path) => {
            let text = read_text(path, KEY_MAX)?;
            Ok(text.lines().next().unwrap_or_default().to_owned())
        }
        None => prompt("passphrase: "),
    }
}

/// A passphrase for something new: asked for twice, and not empty.
pub fn choose(passphrase: &Passphrase) -> Result<String> {
    let chosen = ask(passphrase)?;
    if chosen.is_empty() {
        bail!("an empty passphrase protects nothing: choose another");
    }
    if passphrase.passphrase_file.is_none() && prompt("once more: ")? != chosen {
        bail!("these are two different passphrases: begin again");
    }
    Ok(chosen)
}

fn prompt(prompt: &str) -> Result<String> {
    rpassword::prompt_password(prompt)
        .context("there is no terminal to ask for the passphrase on: give it with --passphrase-file")
}
