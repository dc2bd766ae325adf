//! The INFO format of Boost's property tree, in which nfd.conf is written: `key value { … }`, one key a line, `;` begins a comment.

use anyhow::{Result, bail};

/// Blocks in each other.
const DEPTH_MAX: usize = 64;

/// A key with its value, which may be empty, and what stands in its braces.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Node {
    pub key: String,
    pub value: String,
    /// From 1.
    pub line: usize,
    pub children: Vec<Node>,
}

/// Reads a text: what stands at its top.
///
/// # Errors
/// A brace too many or too few, a quote that does not end.
pub fn read(text: &str) -> Result<Vec<Node>> {
    let mut open: Vec<Node> = vec![Node::default()];
    for (at, line) in text.lines().enumerate() {
        let number = at + 1;
        let mut rest = line.trim_start();
        // A key may have a value until the line, or a brace, ends it.
        let mut wants_value = false;
        while let Some(first) = rest.chars().next() {
            match first {
                ';' => break,
                '{' | '}' => {
                    rest = &rest[1..];
                    wants_value = false;
                    turn(&mut open, first, number)?;
                }
                _ => {
                    let (word, after) = word(rest, number)?;
                    rest = after;
                    let siblings = &mut open.last_mut().expect("the top is open").children;
                    match siblings.last_mut() {
                        Some(last) if wants_value => last.value = word,
                        _ => siblings.push(Node { key: word, line: number, ..Node::default() }),
                    }
                    wants_value = !wants_value;
                }
            }
            rest = rest.trim_start();
        }
    }
    match (open.len(), open.pop()) {
        (1, Some(top)) => Ok(top.children),
        (_, Some(unclosed)) => bail!("line {}: `{} {{` has no `}}`", unclosed.line, unclosed.key),
        (_, None) => bail!("there is a `}}` too many"),
    }
}

/// Opens or closes a block.
fn turn(open: &mut Vec<Node>, brace: char, line: usize) -> Result<()> {
    if brace == '{' {
        let Some(owner) = open.last_mut().and_then(|parent| parent.children.pop()) else {
            bail!("line {line}: a `{{` without a name before it");
        };
        open.push(owner);
        if open.len() > DEPTH_MAX {
            bail!("line {line}: more than {DEPTH_MAX} blocks in each other");
        }
    } else {
        let Some(closed) = open.pop().filter(|_| !open.is_empty()) else {
            bail!("line {line}: a `}}` too many");
        };
        open.last_mut().expect("the top is open").children.push(closed);
    }
    Ok(())
}

/// The next word, in quotes perhaps, and what follows it.
fn word(text: &str, line: usize) -> Result<(String, &str)> {
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
        bail!("line {line}: a text in quotes has no end");
    }
    let end = text.find(|c: char| c.is_whitespace() || [';', '{', '}'].contains(&c)).unwrap_or(text.len());
    // One of these alone is a brace, which is not asked for here.
    Ok((text[..end.max(1)].to_owned(), &text[end.max(1)..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_values_quotes_and_comments() {
        let text = "; a comment\na\n{\n  b 1 ; two\n  \"c d\" \"e \\\" f\" { g\n h }\n}\n\ni j { }\n";
        let nodes = read(text).unwrap();
        let [a, i] = nodes.as_slice() else { panic!("{nodes:?}") };
        assert_eq!((a.key.as_str(), a.value.as_str(), a.line, a.children.len()), ("a", "", 2, 2));
        assert_eq!((a.children[0].key.as_str(), a.children[0].value.as_str()), ("b", "1"));
        assert_eq!((a.children[1].key.as_str(), a.children[1].value.as_str()), ("c d", "e \" f"));
        let inner: Vec<&str> = a.children[1].children.iter().map(|node| node.key.as_str()).collect();
        assert_eq!(inner, ["g", "h"]);
        assert_eq!((i.value.as_str(), i.line), ("j", 9));
        for wrong in ["{", "a {", "}", "a { } }", "\"a"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        assert!(read(&"a {".repeat(1000)).is_err());
        assert!(read("").unwrap().is_empty());
    }
}
