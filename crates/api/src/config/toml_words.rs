//! What the TOML parser objects to, in sentences that say what to do.

use super::problem::{Source, shorten};
use core::ops::Range;

/// Says what is wrong at a place of a text that is no TOML.
pub(super) fn sentence(source: &Source<'_>, at: &Range<usize>, message: &str) -> String {
    let line = source.line_text(at.start);
    let (what, wanted) = message.split_once(", expected ").unwrap_or((message, ""));
    let here = source.text.get(at.clone()).unwrap_or("");
    let word = match here.trim().is_empty() {
        true => shorten(line),
        false => shorten(here),
    };
    let sentence = match what {
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
        _ if what.starts_with("invalid ")
            && line.contains('=')
            && here.starts_with(|c: char| c.is_alphabetic()) =>
        {
            "a text stands in quotes, as in \"text\"".to_owned()
        }
        "string values must be quoted" => "a text stands in quotes, as in \"text\"".to_owned(),
        "invalid value" | "unexpected key or value" | "unexpected content" => {
            format!("`{word}` can't stand here")
        }
        "unclosed table" | "missing table open" => {
            "the name of a section stands between brackets, as in [faces.udp]".to_owned()
        }
        "unclosed array table" => {
            "the name of a repeated section stands between double brackets, as in [[route]]".to_owned()
        }
        "unclosed array" => "a list that begins with `[` has no `]` at its end".to_owned(),
        "unclosed inline table" => "a table that begins with `{` has no `}` at its end".to_owned(),
        "missing comma between array elements" => "two items of a list need a comma between them".to_owned(),
        "missing comma between key-value pairs" => {
            "two options in `{ }` need a comma between them".to_owned()
        }
        "invalid unquoted key" | "unquoted keys cannot be empty" | "missing key for inline table element" => {
            "the name of an option is letters, digits, - and _".to_owned()
        }
        "cannot recurse further; max recursion depth met" => {
            "brackets stand too deep in each other".to_owned()
        }
        _ => {
            let wanted = wanted.strip_prefix("expected ").filter(|wanted| !wanted.is_empty());
            let wanted =
                wanted.map_or_else(String::new, |w| format!(" ({} would fit)", w.replace('\n', " ")));
            format!("{what}{wanted}")
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
    let since =
        |verb: &str| first.map_or_else(String::new, |first| format!(", first {verb} on line {first}"));
    match header {
        true => {
            let name = shorten(line.split('#').next().unwrap_or(line));
            format!("duplicate section {name}{}: write the options of a section together", since("opened"))
        }
        false => {
            let key = source.text.get(at.clone()).unwrap_or("").trim();
            format!("duplicate key `{}`{}: set it once", shorten(key), since("set"))
        }
    }
}

/// Returns the line on which a section was opened, or an option set, before. `None` where that is written in another form.
fn first_of(source: &Source<'_>, at: &Range<usize>, line: &str, header: bool) -> Option<usize> {
    let number = source.line(at.start);
    let name = |line: &str| {
        let line = line.trim_start();
        let end = if header { line.find(']').map(|end| end + 1) } else { line.find('=') };
        end.map(|end| line[..end].trim_end_matches('=').split_whitespace().collect::<String>())
    };
    let wanted = name(line)?;
    let before: Vec<&str> = source.text.lines().take(number - 1).collect();
    // An option's section begins at the last header before it.
    let begin = match header {
        true => 0,
        false => before.iter().rposition(|line| line.trim_start().starts_with('[')).map_or(0, |at| at + 1),
    };
    let found = before[begin..].iter().position(|line| name(line).is_some_and(|name| name == wanted))?;
    Some(begin + found + 1)
}
