//! Turns errors of the TOML parser into sentences that say what to do.

use super::diagnostics::{Source, shorten};
use core::ops::Range;

/// Returns a sentence for a syntax error at a byte range.
pub(super) fn sentence(source: &Source<'_>, at: &Range<usize>, message: &str) -> String {
    let line = source.line_text(at.start);
    let (error, expected) = message.split_once(", expected ").unwrap_or((message, ""));
    let here = source.text.get(at.clone()).unwrap_or("");
    let word = match here.trim().is_empty() {
        true => shorten(line),
        false => shorten(here),
    };
    let sentence = match error {
        "duplicate key" => return duplicate(source, at, line),
        "key with no value" => format!("`{word}` has no value: write `{word} = …`"),
        "missing value for key"
        | "missing value"
        | "extra `=`"
        | "extra assignment between key-value pairs"
        | "invalid key-value pair" => "expected a value after `=`".to_owned(),
        "missing assignment between key-value pairs" => {
            "`=` is missing between an option and its value".to_owned()
        }
        _ if line.split_once('=').is_some_and(|(_, value)| value.trim().is_empty()) => {
            "expected a value after `=`".to_owned()
        }
        _ if error.starts_with("invalid ")
            && line.contains('=')
            && here.starts_with(|c: char| c.is_alphabetic()) =>
        {
            "text needs quotes, as in \"text\"".to_owned()
        }
        "string values must be quoted" => "text needs quotes, as in \"text\"".to_owned(),
        "invalid value" | "unexpected key or value" | "unexpected content" => {
            format!("`{word}` is not allowed here")
        }
        "unclosed table" | "missing table open" => {
            "the name of a section needs brackets, as in [faces.udp]".to_owned()
        }
        "unclosed array table" => {
            "the name of a repeated section needs double brackets, as in [[route]]".to_owned()
        }
        "unclosed array" => "a list that begins with `[` has no `]` at its end".to_owned(),
        "unclosed inline table" => "a table that begins with `{` has no `}` at its end".to_owned(),
        "missing comma between array elements" => {
            "two items of a list need a comma between them".to_owned()
        }
        "missing comma between key-value pairs" => {
            "two options in `{ }` need a comma between them".to_owned()
        }
        "invalid unquoted key"
        | "unquoted keys cannot be empty"
        | "missing key for inline table element" => {
            "the name of an option consists of letters, digits, - and _".to_owned()
        }
        "cannot recurse further; max recursion depth met" => {
            "brackets are nested too deeply".to_owned()
        }
        _ => {
            let expected =
                expected.strip_prefix("expected ").filter(|expected| !expected.is_empty());
            let expected = expected.map_or_else(String::new, |text| {
                format!(" ({} is possible)", text.replace('\n', " "))
            });
            format!("{error}{expected}")
        }
    };
    match line.trim().is_empty() {
        true => sentence,
        false => format!("{sentence}; the line is: {}", shorten(line)),
    }
}

fn duplicate(source: &Source<'_>, at: &Range<usize>, line: &str) -> String {
    let header = line.trim_start().starts_with('[');
    let first = first_of(source, at, line, header);
    let first_use = |verb: &str| {
        first.map_or_else(String::new, |first| format!(", first {verb} on line {first}"))
    };
    match header {
        true => {
            let name = shorten(line.split('#').next().unwrap_or(line));
            format!(
                "duplicate section {name}{}: write the options of a section together",
                first_use("opened")
            )
        }
        false => {
            let key = source.text.get(at.clone()).unwrap_or("").trim();
            format!("duplicate key `{}`{}: set it once", shorten(key), first_use("set"))
        }
    }
}

/// Returns the line where the section was opened, or the option set, before. `None` if it is
/// written in another form.
fn first_of(source: &Source<'_>, at: &Range<usize>, line: &str, header: bool) -> Option<usize> {
    let number = source.line(at.start);
    let name = |line: &str| {
        let line = line.trim_start();
        let end = if header { line.find(']').map(|end| end + 1) } else { line.find('=') };
        end.map(|end| line[..end].trim_end_matches('=').split_whitespace().collect::<String>())
    };
    let duplicate = name(line)?;
    let before: Vec<&str> = source.text.lines().take(number - 1).collect();
    // The section of an option begins at the last header before it.
    let begin = match header {
        true => 0,
        false => before
            .iter()
            .rposition(|line| line.trim_start().starts_with('['))
            .map_or(0, |at| at + 1),
    };
    let found =
        before[begin..].iter().position(|line| name(line).is_some_and(|name| name == duplicate))?;
    Some(begin + found + 1)
}
