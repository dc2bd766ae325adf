//! Completion of what only a running router and the key store know: face ids, prefixes, keys.
//!
//! The scripts of shells call the hidden `nw complete -- WORDS`, which prints candidates for the next word, one a line.

use crate::args::{Arguments, Router};
use crate::connect::connect;
use crate::control::read;
use anyhow::Result;
use clap::{Args, Command, CommandFactory};
use clap_complete::Shell;
use nw_api::management::{Dataset, FaceStatus, RibEntry};
use nw_app::keystore::{KeyStore, Place};
use std::collections::BTreeSet;
use std::process::ExitCode;

#[derive(Debug, Args)]
pub struct Values {
    /// Words before the one to complete
    #[arg(last = true)]
    pub words: Vec<String>,
}

/// What a positional argument wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    Face,
    Prefix,
    Key,
    Nothing,
}

/// Prints candidates. A shell shows no errors of a completion, so there are none.
pub fn print_values(args: &Values) -> Result<ExitCode> {
    let router = Router { socket: None };
    let values: BTreeSet<String> = match wanted(&Arguments::command(), &args.words) {
        Wanted::Nothing => BTreeSet::new(),
        Wanted::Face => connect(&router)
            .and_then(|mut client| read::<FaceStatus>(&mut client, Dataset::FacesList, None))
            .unwrap_or_default()
            .iter()
            .map(|face| face.face_id.to_string())
            .collect(),
        Wanted::Prefix => connect(&router)
            .and_then(|mut client| read::<RibEntry>(&mut client, Dataset::RibList, None))
            .unwrap_or_default()
            .iter()
            .map(|entry| entry.name.to_string())
            .collect(),
        Wanted::Key => Place::of_user()
            .and_then(KeyStore::open)
            .and_then(|store| store.identities())
            .unwrap_or_default()
            .iter()
            .flat_map(|identity| {
                let keys = identity.keys.iter().map(|key| key.name.to_string());
                keys.chain([identity.name.to_string()])
            })
            .collect(),
    };
    for value in values {
        outln!("{value}")?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What comes after these words.
fn wanted(command: &Command, words: &[String]) -> Wanted {
    let (mut command, mut path, mut given, mut is_value) = (command.clone(), Vec::new(), 0, false);
    for word in words {
        if is_value {
            is_value = false;
        } else if let Some(option) = word.strip_prefix('-') {
            let option = option.trim_start_matches('-');
            let is_this = |arg: &&clap::Arg| {
                arg.get_long() == Some(option) || arg.get_short().map(String::from).as_deref() == Some(option)
            };
            is_value =
                command.get_arguments().find(is_this).is_some_and(|arg| arg.get_action().takes_values());
        } else if let Some(below) = command.find_subcommand(word).cloned() {
            path.push(word.clone());
            command = below;
        } else {
            given += 1;
        }
    }
    let next = command.get_positionals().nth(given).map(|arg| arg.get_id().as_str().to_owned());
    let group = path.first().map(String::as_str).unwrap_or_default();
    match (is_value, next.as_deref()) {
        (false, Some("face" | "next_hop")) => Wanted::Face,
        (false, Some("name")) if ["key", "cert"].contains(&group) => Wanted::Key,
        (false, Some("name" | "prefix")) if !["balancer", "service"].contains(&group) => Wanted::Prefix,
        _ => Wanted::Nothing,
    }
}

/// Adds to a shell's script what asks `nw complete`, and file names where nothing else fits.
pub fn extend_script(shell: Shell, script: String) -> String {
    match shell {
        Shell::Bash => script + BASH,
        Shell::Fish => script + FISH,
        Shell::Zsh => {
            script.replace(":_default'", ":_nw_values'").replacen("_nw() {", &format!("{ZSH}\n_nw() {{"), 1)
        }
        _ => script,
    }
}

/// The generated function offers options where a word is wanted: these would keep the shell from offering files.
const BASH: &str = r#"
_nw_values() {
    local current="${COMP_WORDS[COMP_CWORD]}" word kept=()
    _nw "$@"
    [[ $current == -* ]] && return
    for word in "${COMPREPLY[@]}"; do
        [[ $word == -* || $word == [\<\[]* ]] || kept+=("$word")
    done
    COMPREPLY=("${kept[@]}")
    while IFS= read -r word; do
        [[ $word == "$current"* ]] && COMPREPLY+=("$word")
    done < <("${COMP_WORDS[0]}" complete -- "${COMP_WORDS[@]:1:COMP_CWORD-1}" 2>/dev/null)
}
complete -F _nw_values -o bashdefault -o default nw
"#;

const FISH: &str = r#"
complete -c nw -a '(nw complete -- (commandline -opc)[2..] 2>/dev/null)'
"#;

const ZSH: &str = r#"_nw_values() {
    local -a values
    values=(${(f)"$(nw complete -- ${words[2,CURRENT-1]} 2>/dev/null)"})
    (( $#values )) && compadd -a values || _default
}
"#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wanted_follows_verbs_options_and_positions() {
        let of = |line: &str| {
            let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            wanted(&Arguments::command(), &words)
        };
        assert_eq!(of("face show"), Wanted::Face);
        assert_eq!(of("face destroy"), Wanted::Face);
        assert_eq!(of("face show 7"), Wanted::Nothing);
        assert_eq!(of("face show --socket"), Wanted::Nothing, "the value of an option");
        assert_eq!(of("route add"), Wanted::Prefix);
        assert_eq!(of("route add /a"), Wanted::Face);
        assert_eq!(of("route add --cost 7 /a"), Wanted::Face);
        assert_eq!(of("trace"), Wanted::Prefix);
        assert_eq!(of("key delete"), Wanted::Key);
        assert_eq!(of("graph check"), Wanted::Nothing);
    }
}
