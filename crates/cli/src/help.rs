//! Help and manual pages: adds examples, exit statuses and files to the generated option lists.

mod complete;

pub use complete::{extend_script, print_candidates};

use crate::args::Arguments;
use crate::exit::Status;
use clap::{Command, CommandFactory};
use clap_mangen::Man;
use clap_mangen::roff::{Inline, Roff, bold, roman};
use std::io;

/// A command path per line, each followed by its examples: `example  # comment`.
#[cfg(not(feature = "kubernetes"))]
const EXAMPLES: &str = include_str!("examples.txt");
#[cfg(feature = "kubernetes")]
const EXAMPLES: &str =
    concat!(include_str!("examples.txt"), include_str!("examples-kubernetes.txt"));

const FILES: &[(&str, &str)] = &[
    (
        "$XDG_CONFIG_HOME/namewire/nw.toml, ~/.config/namewire/nw.toml, /etc/namewire/nw.toml",
        "the router's configuration; the first existing file is read",
    ),
    ("/run/nfd/nfd.sock, $XDG_RUNTIME_DIR/nfd.sock", "the router's socket for programs"),
    ("/run/nfd/nfd.control.sock", "the router's control socket, in the same folder"),
    (
        "~/.ndn/client.conf, /etc/ndn/client.conf",
        "tells programs where the router and the key store are",
    ),
    ("~/.ndn/pib.db, ~/.ndn/ndnsec-key-file/", "the key store"),
];

/// Returns the examples of a command as (example, comment). For a command group: the first example
/// of its first three commands.
fn examples(path: &str) -> Vec<(&'static str, &'static str)> {
    let (mut found, mut of_group, mut command) = (Vec::new(), Vec::new(), "");
    for line in EXAMPLES.lines() {
        match line.split_once("  # ") {
            None => command = line,
            Some(example) if command == path => found.push(example),
            Some(example) => {
                let is_in_group = path.is_empty()
                    || command.strip_prefix(path).is_some_and(|tail| tail.starts_with(' '));
                if is_in_group && of_group.last().is_none_or(|(last, _)| *last != command) {
                    of_group.push((command, example));
                }
            }
        }
    }
    if found.is_empty() {
        of_group.into_iter().map(|(_, example)| example).take(3).collect()
    } else {
        found
    }
}

/// Returns the command line with examples and exit statuses added to each help.
pub fn command() -> Command {
    add_examples(Arguments::command(), "")
}

fn add_examples(command: Command, path: &str) -> Command {
    let mut text = String::from("Examples:\n");
    for (example, comment) in examples(path) {
        text.push_str(&format!("  # {comment}\n  {example}\n"));
    }
    // The full table only in the main help; a line elsewhere.
    if path.is_empty() {
        text.push_str("\nExit status:\n");
        for status in Status::ALL {
            text.push_str(&format!("  {:<4} {}\n", *status as u8, status.meaning()));
        }
    } else {
        let statuses =
            Status::ALL.iter().map(|status| format!("{} {}", *status as u8, status.word()));
        let statuses: Vec<String> = statuses.collect();
        text.push_str(&format!("\nExit status: {}", statuses.join(", ")));
    }
    command.after_help(text.trim_end().to_owned()).mut_subcommands(|subcommand| {
        let path = match path {
            "" => subcommand.get_name().to_owned(),
            path => format!("{path} {}", subcommand.get_name()),
        };
        add_examples(subcommand, &path)
    })
}

/// Returns every manual page as (file name, roff).
pub fn pages() -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut command = Arguments::command().disable_help_subcommand(true);
    command.build();
    let mut pages = Vec::new();
    add_pages(&command, "", &mut pages)?;
    Ok(pages)
}

fn add_pages(command: &Command, path: &str, pages: &mut Vec<(String, Vec<u8>)>) -> io::Result<()> {
    let name = page_name(path);
    pages.push((format!("{name}.1"), page(command, path)?));
    for subcommand in command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set()) {
        let path = if path.is_empty() {
            subcommand.get_name().to_owned()
        } else {
            format!("{path} {}", subcommand.get_name())
        };
        add_pages(subcommand, &path, pages)?;
    }
    Ok(())
}

fn page_name(path: &str) -> String {
    match path {
        "" => "nw".to_owned(),
        path => format!("nw-{}", path.replace(' ', "-")),
    }
}

/// Returns a manual page as roff.
fn page(command: &Command, path: &str) -> io::Result<Vec<u8>> {
    let name = page_name(path);
    let man = Man::new(command.clone()).title(name.clone());
    let mut out = Vec::new();
    man.render_title(&mut out)?;
    let mut head = Roff::new();
    head.control("SH", ["NAME"]);
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    head.text([roman(format!("{name} - {about}"))]);
    head.control("SH", ["SYNOPSIS"]);
    // The usage line of the help: unlike the generator's synopsis it has the values of options.
    let usage = command.clone().bin_name(format!("nw {path}").trim()).render_usage().to_string();
    head.text([roman(usage.trim_start_matches("Usage:").trim().to_owned())]);
    head.to_writer(&mut out)?;
    man.render_description_section(&mut out)?;
    man.render_options_section(&mut out)?;
    if command.get_subcommands().next().is_some() {
        man.render_subcommands_section(&mut out)?;
    }
    let mut tail = Roff::new();
    tail.control("SH", ["EXAMPLES"]);
    for (example, comment) in examples(path) {
        entry(&mut tail, &format!("{}:", sentence(comment)), roman(example));
    }
    tail.control("SH", ["EXIT STATUS"]);
    for status in Status::ALL {
        entry(&mut tail, &(*status as u8).to_string(), roman(status.meaning()));
    }
    tail.control("SH", ["FILES"]);
    for (file, meaning) in FILES {
        entry(&mut tail, file, roman(*meaning));
    }
    tail.control("SH", ["SEE ALSO"]);
    let mut related = see_also(command, path);
    let last = related.pop().unwrap_or_default();
    let mut line: Vec<Inline> =
        related.iter().flat_map(|page| [bold(page.clone()), roman("(1), ")]).collect();
    line.extend([bold(last), roman("(1)")]);
    tail.text(line);
    tail.to_writer(&mut out)?;
    Ok(out)
}

fn sentence(comment: &str) -> String {
    let mut chars = comment.chars();
    chars.next().map_or(String::new(), |first| first.to_uppercase().chain(chars).collect())
}

fn entry(roff: &mut Roff, head: &str, text: Inline) {
    roff.control("TP", []);
    roff.text([bold(head)]);
    roff.text([text]);
}

/// Returns related pages: parents, subcommands and siblings.
fn see_also(command: &Command, path: &str) -> Vec<String> {
    let mut pages: Vec<String> = match path {
        "" => Vec::new(),
        _ => vec!["nw".to_owned()],
    };
    let group = path.rsplit_once(' ').map(|(group, _)| group);
    pages.extend(group.map(page_name));
    for subcommand in command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set()) {
        pages.push(page_name(format!("{path} {}", subcommand.get_name()).trim()));
    }
    if let Some(group) = group {
        let mut root = Arguments::command();
        let parent =
            group.split(' ').try_fold(&mut root, |command, word| command.find_subcommand_mut(word));
        let siblings = parent.into_iter().flat_map(|parent| parent.get_subcommands());
        let siblings =
            siblings.map(|sibling| page_name(&format!("{group} {}", sibling.get_name())));
        pages.extend(siblings.filter(|sibling| *sibling != page_name(path)));
    }
    if pages.len() < 2 {
        pages.push("nw-doctor".to_owned());
    }
    pages
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::FromArgMatches;

    fn leaf_commands(command: &Command, path: &str, found: &mut Vec<String>) {
        if command.get_subcommands().next().is_none() {
            found.push(path.to_owned());
        }
        for subcommand in command.get_subcommands() {
            leaf_commands(subcommand, format!("{path} {}", subcommand.get_name()).trim(), found);
        }
    }

    /// Splits a command into words as a shell does, without nested quotes.
    fn shell_words(command: &str) -> Vec<String> {
        let (mut words, mut word, mut quote) = (Vec::new(), String::new(), None);
        for c in command.chars() {
            match (c, quote) {
                ('"' | '\'', None) => quote = Some(c),
                (c, Some(open)) if c == open => quote = None,
                (' ', None) => words.extend((!word.is_empty()).then(|| core::mem::take(&mut word))),
                (c, _) => word.push(c),
            }
        }
        words.extend((!word.is_empty()).then_some(word));
        words
    }

    #[test]
    fn examples_exist_for_every_command_and_parse() {
        let mut commands = Vec::new();
        leaf_commands(&Arguments::command(), "", &mut commands);
        let mut wrong = Vec::new();
        let commands: Vec<String> =
            commands.into_iter().filter(|command| command != "complete").collect();
        for command in &commands {
            assert!(
                examples(command).len() >= 3,
                "examples.txt has no three examples for {command:?}"
            );
        }
        for line in EXAMPLES.lines() {
            let Some((example, _)) = line.split_once("  # ") else {
                assert!(
                    commands.contains(&line.to_owned()),
                    "examples.txt: there is no command {line:?}"
                );
                continue;
            };
            // Spaces around a sign make it the shell's: `<` is also part of patterns in quotes.
            let signs = ["|", "&&", "&", ">", "<"];
            for words in shell_words(example).split(|word| signs.contains(&word.as_str())) {
                let Some(start) = words.iter().position(|word| word == "nw") else { continue };
                let mut line = words[start..].to_vec();
                if line.iter().any(|word| word == "xargs")
                    || words[..start].iter().any(|word| word == "xargs")
                {
                    line.push("256".to_owned());
                }
                let parsed = command()
                    .try_get_matches_from(&line)
                    .and_then(|m| Arguments::from_arg_matches(&m));
                wrong.extend(parsed.err().map(|error| format!("{example}: {error}")));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    #[test]
    fn manual_page_has_all_sections() {
        let pages = pages().unwrap();
        for (name, text) in &pages {
            let text = String::from_utf8_lossy(text);
            for section in
                ["NAME", "SYNOPSIS", "DESCRIPTION", "EXAMPLES", "EXIT STATUS", "FILES", "SEE ALSO"]
            {
                let quoted = format!(".SH \"{section}\"");
                assert!(
                    text.contains(&format!(".SH {section}")) || text.contains(&quoted),
                    "{name}: no {section}"
                );
            }
            assert!(!text.contains("  \\- "), "{name}: two blanks in its name");
        }
        let cat = pages.iter().find(|(name, _)| name == "nw-cat.1").unwrap();
        assert!(String::from_utf8_lossy(&cat.1).contains("nw cat [OPTIONS] <NAME>"));
    }

    #[test]
    fn help_has_examples_and_exit_statuses() {
        let mut command = command();
        let face =
            command.find_subcommand_mut("face").unwrap().find_subcommand_mut("create").unwrap();
        for help in [face.render_long_help().to_string(), face.render_help().to_string()] {
            assert!(help.contains("Examples:") && help.contains("Exit status:"), "{help}");
            assert!(help.contains("3 not found"), "{help}");
        }
    }
}
