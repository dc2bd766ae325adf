//! Completion of face ids, prefixes and keys, from the running router and the key store.
//!
//! Shell scripts call the hidden `nw complete -- WORDS`, which prints candidates for the next word,
//! one per line.

use crate::args::Arguments;
use crate::args::flags::RouterArgs;
use crate::args::tools::CompleteArgs;
use crate::connect::connect;
use crate::management::fetch_records;
use anyhow::Result;
use clap::{Command, CommandFactory};
use clap_complete::Shell;
use nw_api::management::{Dataset, FaceStatus, RibEntry};
use nw_app::keystore::{KeyStore, KeyStoreLocation};
use std::collections::BTreeSet;
use std::process::ExitCode;

/// The kind of value that the next positional argument takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ValueKind {
    Face,
    Prefix,
    Key,
    Other,
}

/// Prints candidates for the next word. Errors are ignored, as a shell could not show them.
pub fn print_candidates(args: &CompleteArgs) -> Result<ExitCode> {
    let router = RouterArgs { socket: None };
    let values: BTreeSet<String> = match next_kind(&Arguments::command(), &args.words) {
        ValueKind::Other => BTreeSet::new(),
        ValueKind::Face => connect(&router)
            .and_then(|mut client| {
                fetch_records::<FaceStatus>(&mut client, Dataset::FacesList, None)
            })
            .unwrap_or_default()
            .iter()
            .map(|face| face.face_id.to_string())
            .collect(),
        ValueKind::Prefix => connect(&router)
            .and_then(|mut client| fetch_records::<RibEntry>(&mut client, Dataset::RibList, None))
            .unwrap_or_default()
            .iter()
            .map(|entry| entry.name.to_string())
            .collect(),
        ValueKind::Key => KeyStoreLocation::of_user()
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

/// Returns the kind of value that follows these words.
fn next_kind(command: &Command, words: &[String]) -> ValueKind {
    let (mut command, mut path, mut given, mut is_value) = (command.clone(), Vec::new(), 0, false);
    for word in words {
        if is_value {
            is_value = false;
        } else if let Some(option) = word.strip_prefix('-') {
            let option = option.trim_start_matches('-');
            let has_name = |arg: &&clap::Arg| {
                arg.get_long() == Some(option)
                    || arg.get_short().map(String::from).as_deref() == Some(option)
            };
            is_value = command
                .get_arguments()
                .find(has_name)
                .is_some_and(|arg| arg.get_action().takes_values());
        } else if let Some(subcommand) = command.find_subcommand(word).cloned() {
            path.push(word.clone());
            command = subcommand;
        } else {
            given += 1;
        }
    }
    let next = command.get_positionals().nth(given).map(|arg| arg.get_id().as_str().to_owned());
    let group = path.first().map(String::as_str).unwrap_or_default();
    match (is_value, next.as_deref()) {
        (false, Some("face" | "next_hop")) => ValueKind::Face,
        (false, Some("name")) if ["key", "cert"].contains(&group) => ValueKind::Key,
        (false, Some("name" | "prefix")) if !["balancer", "service"].contains(&group) => {
            ValueKind::Prefix
        }
        _ => ValueKind::Other,
    }
}

/// Adds a call of `nw complete` to a shell's completion script, and file names as a fallback.
pub fn extend_script(shell: Shell, script: String) -> String {
    match shell {
        Shell::Bash => script + BASH,
        Shell::Fish => script + FISH,
        Shell::Zsh => script.replace(":_default'", ":_nw_values'").replacen(
            "_nw() {",
            &format!("{ZSH}\n_nw() {{"),
            1,
        ),
        _ => script,
    }
}

/// The generated function offers options in place of values; these are removed, as they would keep
/// the shell from offering files.
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
    fn next_kind_follows_commands_options_and_positions() {
        let of = |line: &str| {
            let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            next_kind(&Arguments::command(), &words)
        };
        assert_eq!(of("face show"), ValueKind::Face);
        assert_eq!(of("face destroy"), ValueKind::Face);
        assert_eq!(of("face show 7"), ValueKind::Other);
        assert_eq!(of("face show --socket"), ValueKind::Other, "the value of an option");
        assert_eq!(of("route add"), ValueKind::Prefix);
        assert_eq!(of("route add /a"), ValueKind::Face);
        assert_eq!(of("route add --cost 7 /a"), ValueKind::Face);
        assert_eq!(of("trace"), ValueKind::Prefix);
        assert_eq!(of("key delete"), ValueKind::Key);
        assert_eq!(of("graph check"), ValueKind::Other);
    }
}
