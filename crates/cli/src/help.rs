//! What help and manual pages say besides options: examples, exit statuses, files.

mod complete;

pub use complete::{Values, extend_script, print_values};

use crate::args::Arguments;
use crate::exit::Status;
use clap::{Command, CommandFactory};
use clap_mangen::Man;
use clap_mangen::roff::{Inline, Roff, bold, roman};
use std::io;

/// A verb a line, then its examples, each with a comment.
const EXAMPLES: &str = include_str!("examples.txt");

const FILES: &[(&str, &str)] = &[
    (
        "$XDG_CONFIG_HOME/namewire/nw.toml, ~/.config/namewire/nw.toml, /etc/namewire/nw.toml",
        "the router's configuration; the first one is read",
    ),
    ("/run/nfd/nfd.sock, $XDG_RUNTIME_DIR/nfd.sock", "the router's socket for programs"),
    ("/run/nfd/nfd.control.sock", "its control socket, beside the other"),
    ("~/.ndn/client.conf, /etc/ndn/client.conf", "where programs find the router, and the key store"),
    ("~/.ndn/pib.db, ~/.ndn/ndnsec-key-file/", "the key store"),
];

/// Examples of a verb: command and comment. Of a group: the first of each of its verbs.
fn examples(path: &str) -> Vec<(&'static str, &'static str)> {
    let (mut found, mut of_group, mut verb) = (Vec::new(), Vec::new(), "");
    for line in EXAMPLES.lines() {
        match line.split_once("  # ") {
            None => verb = line,
            Some(example) if verb == path => found.push(example),
            Some(example) => {
                let is_below =
                    path.is_empty() || verb.strip_prefix(path).is_some_and(|rest| rest.starts_with(' '));
                if is_below && of_group.last().is_none_or(|(last, _)| *last != verb) {
                    of_group.push((verb, example));
                }
            }
        }
    }
    if found.is_empty() { of_group.into_iter().map(|(_, example)| example).take(3).collect() } else { found }
}

/// The command line with examples and exit statuses in each help.
pub fn command() -> Command {
    explain(Arguments::command(), "")
}

fn explain(command: Command, path: &str) -> Command {
    let mut text = String::from("Examples:\n");
    for (example, comment) in examples(path) {
        text.push_str(&format!("  # {comment}\n  {example}\n"));
    }
    // The table is long, and the same everywhere.
    if path.is_empty() {
        text.push_str("\nExit status:\n");
        for status in Status::ALL {
            text.push_str(&format!("  {:<4} {}\n", status as u8, status.meaning()));
        }
    } else {
        let all = Status::ALL.map(|status| format!("{} {}", status as u8, status.word()));
        text.push_str(&format!("\nExit status: {}", all.join(", ")));
    }
    command.after_help(text.trim_end().to_owned()).mut_subcommands(|below| {
        let path = match path {
            "" => below.get_name().to_owned(),
            path => format!("{path} {}", below.get_name()),
        };
        explain(below, &path)
    })
}

/// Every page: its file's name and text.
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
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        let path = if path.is_empty() {
            below.get_name().to_owned()
        } else {
            format!("{path} {}", below.get_name())
        };
        add_pages(below, &path, pages)?;
    }
    Ok(())
}

fn page_name(path: &str) -> String {
    match path {
        "" => "nw".to_owned(),
        path => format!("nw-{}", path.replace(' ', "-")),
    }
}

/// One manual page, as roff.
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
    // As help has it: with the values of options, which the generator's own synopsis leaves out.
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
        entry(&mut tail, &(status as u8).to_string(), roman(status.meaning()));
    }
    tail.control("SH", ["FILES"]);
    for (file, meaning) in FILES {
        entry(&mut tail, file, roman(*meaning));
    }
    tail.control("SH", ["SEE ALSO"]);
    let mut others = see_also(command, path);
    let last = others.pop().unwrap_or_default();
    let mut line: Vec<Inline> =
        others.iter().flat_map(|other| [bold(other.clone()), roman("(1), ")]).collect();
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

/// Pages above and below; of a verb those beside it.
fn see_also(command: &Command, path: &str) -> Vec<String> {
    let mut others: Vec<String> = match path {
        "" => Vec::new(),
        _ => vec!["nw".to_owned()],
    };
    let group = path.rsplit_once(' ').map(|(group, _)| group);
    others.extend(group.map(page_name));
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        others.push(page_name(format!("{path} {}", below.get_name()).trim()));
    }
    if let Some(group) = group {
        let mut all = Arguments::command();
        let beside = group.split(' ').try_fold(&mut all, |command, word| command.find_subcommand_mut(word));
        let beside = beside.into_iter().flat_map(|group| group.get_subcommands());
        let beside = beside.map(|beside| page_name(&format!("{group} {}", beside.get_name())));
        others.extend(beside.filter(|beside| *beside != page_name(path)));
    }
    if others.len() < 2 {
        others.push("nw-doctor".to_owned());
    }
    others
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::FromArgMatches;

    fn verbs(command: &Command, path: &str, found: &mut Vec<String>) {
        if command.get_subcommands().next().is_none() {
            found.push(path.to_owned());
        }
        for below in command.get_subcommands() {
            verbs(below, format!("{path} {}", below.get_name()).trim(), found);
        }
    }

    /// Words of a command as a shell reads them; none of the examples nests quotes.
    fn words(command: &str) -> Vec<String> {
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
    fn examples_three_for_every_verb_and_all_parse() {
        let mut all = Vec::new();
        verbs(&Arguments::command(), "", &mut all);
        let mut wrong = Vec::new();
        let all: Vec<String> = all.into_iter().filter(|verb| verb != "complete").collect();
        for verb in &all {
            assert!(examples(verb).len() >= 3, "examples.txt has no three examples for {verb:?}");
        }
        for line in EXAMPLES.lines() {
            let Some((example, _)) = line.split_once("  # ") else {
                assert!(all.contains(&line.to_owned()), "examples.txt: there is no verb {line:?}");
                continue;
            };
            for part in example.split(['|', '&', '>', '<']) {
                let words = words(part);
                let Some(at) = words.iter().position(|word| word == "nw") else { continue };
                let mut line = words[at..].to_vec();
                if line.iter().any(|word| word == "xargs") || words[..at].iter().any(|word| word == "xargs") {
                    line.push("256".to_owned());
                }
                let parsed =
                    command().try_get_matches_from(&line).and_then(|m| Arguments::from_arg_matches(&m));
                wrong.extend(parsed.err().map(|error| format!("{example}: {error}")));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    #[test]
    fn page_has_all_sections() {
        let pages = pages().unwrap();
        for (name, text) in &pages {
            let text = String::from_utf8_lossy(text);
            for section in ["NAME", "SYNOPSIS", "DESCRIPTION", "EXAMPLES", "EXIT STATUS", "FILES", "SEE ALSO"]
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
    fn help_has_examples_and_statuses() {
        let mut command = command();
        let face = command.find_subcommand_mut("face").unwrap().find_subcommand_mut("create").unwrap();
        for help in [face.render_long_help().to_string(), face.render_help().to_string()] {
            assert!(help.contains("Examples:") && help.contains("Exit status:"), "{help}");
            assert!(help.contains("3 not found"), "{help}");
        }
    }
}
