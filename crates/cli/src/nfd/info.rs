//! Parser of the INFO format of Boost's property tree, used by nfd.conf: `key value { … }`, one key
//! per line; `;` begins a comment.

use anyhow::{Result, bail};

/// Maximum nesting depth of blocks.
const DEPTH_MAX: usize = 64;

/// A key with its value, which may be empty, and the nodes in its braces.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Node {
    pub key: String,
    pub value: String,
    /// Line number, from 1.
    pub line: usize,
    pub children: Vec<Node>,
}

/// Parses a text. Returns its top-level nodes.
///
/// # Errors
/// An unmatched brace, or an unterminated quoted text.
pub fn read(text: &str) -> Result<Vec<Node>> {
    let mut open: Vec<Node> = vec![Node::default()];
    for (at, line) in text.lines().enumerate() {
        let number = at + 1;
        let mut unread = line.trim_start();
        // The word after a key on the same line is its value.
        let mut wants_value = false;
        while let Some(first) = unread.chars().next() {
            match first {
                ';' => break,
                '{' | '}' => {
                    unread = &unread[1..];
                    wants_value = false;
                    open_or_close(&mut open, first, number)?;
                }
                _ => {
                    let (word, tail) = next_word(unread, number)?;
                    unread = tail;
                    let siblings = &mut open.last_mut().expect("the top is open").children;
                    match siblings.last_mut() {
                        Some(last) if wants_value => last.value = word,
                        _ => siblings.push(Node { key: word, line: number, ..Node::default() }),
                    }
                    wants_value = !wants_value;
                }
            }
            unread = unread.trim_start();
        }
    }
    match (open.len(), open.pop()) {
        (1, Some(top)) => Ok(top.children),
        (_, Some(unclosed)) => bail!("line {}: `{} {{` has no `}}`", unclosed.line, unclosed.key),
        (_, None) => bail!("a `}}` has no `{{`"),
    }
}

/// Opens or closes a block.
fn open_or_close(open: &mut Vec<Node>, brace: char, line: usize) -> Result<()> {
    if brace == '{' {
        let Some(owner) = open.last_mut().and_then(|parent| parent.children.pop()) else {
            bail!("line {line}: a `{{` without a name before it");
        };
        open.push(owner);
        if open.len() > DEPTH_MAX {
            bail!("line {line}: more than {DEPTH_MAX} nested blocks");
        }
    } else {
        let Some(closed) = open.pop().filter(|_| !open.is_empty()) else {
            bail!("line {line}: a `}}` has no `{{`");
        };
        open.last_mut().expect("the top is open").children.push(closed);
    }
    Ok(())
}

/// Returns the next word, with quotes removed, and the text after it.
fn next_word(text: &str, line: usize) -> Result<(String, &str)> {
    if let Some(quoted) = text.strip_prefix('"') {
        let (mut word, mut escaped) = (String::new(), false);
        for (at, c) in quoted.char_indices() {
            match (escaped, c) {
                (true, 'n') => word.push('\n'),
                (true, 't') => word.push('\t'),
                (true, other) => word.push(other),
                (false, '\\') => {}
                (false, '"') => return Ok((word, &quoted[at + 1..])),
                (false, other) => word.push(other),
            }
            escaped = !escaped && c == '\\';
        }
        bail!("line {line}: a quoted text has no end");
    }
    let end = text
        .find(|c: char| c.is_whitespace() || [';', '{', '}'].contains(&c))
        .unwrap_or(text.len());
    // At least one character: the caller has handled braces and comments.
    Ok((text[..end.max(1)].to_owned(), &text[end.max(1)..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_parses_blocks_values_quotes_and_comments() {
        let text =
            "; a comment\na\n{\n  b 1 ; two\n  \"c d\" \"e \\\" f\" { g\n h }\n}\n\ni j { }\n";
        let nodes = read(text).unwrap();
        let [first, second] = nodes.as_slice() else { panic!("{nodes:?}") };
        assert_eq!(
            (first.key.as_str(), first.value.as_str(), first.line, first.children.len()),
            ("a", "", 2, 2)
        );
        assert_eq!((first.children[0].key.as_str(), first.children[0].value.as_str()), ("b", "1"));
        assert_eq!(
            (first.children[1].key.as_str(), first.children[1].value.as_str()),
            ("c d", "e \" f")
        );
        let inner: Vec<&str> =
            first.children[1].children.iter().map(|node| node.key.as_str()).collect();
        assert_eq!(inner, ["g", "h"]);
        assert_eq!((second.value.as_str(), second.line), ("j", 9));
        for wrong in ["{", "a {", "}", "a { } }", "\"a"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        assert!(read(&"a {".repeat(1000)).is_err());
        assert!(read("").unwrap().is_empty());
    }
}
