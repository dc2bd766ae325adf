//! Scanner for graph files: reads words, strings and numbers, and keeps the current position.

use crate::{Position, Problem};
use nw_element_api::Value;

/// Maximum nesting of lists.
const DEPTH_MAX: u32 = 4;

/// A position in a text, and the text that follows it.
#[derive(Clone)]
pub(super) struct Scanner<'a> {
    remaining: &'a str,
    position: Position,
}

/// Returns whether a name may begin with `c`.
fn begins_name(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_'
}

/// Returns whether a name may continue with `c`. A `-` is handled separately: it may begin an
/// arrow.
fn in_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

impl<'a> Scanner<'a> {
    pub(super) const fn new(text: &'a str) -> Self {
        Scanner { remaining: text, position: Position { line: 1, column: 1 } }
    }

    /// Creates a scanner of the rest of a text from a position on, whose byte offset is `offset`.
    pub(super) fn at(text: &'a str, offset: usize, position: Position) -> Self {
        Scanner { remaining: &text[offset..], position }
    }

    /// Returns the byte offset in the text that it scans.
    pub(super) const fn offset(&self, text: &str) -> usize {
        text.len() - self.remaining.len()
    }

    pub(super) const fn position(&self) -> Position {
        self.position
    }

    pub(super) fn peek(&self) -> Option<char> {
        self.remaining.chars().next()
    }

    pub(super) fn bump(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.remaining = &self.remaining[c.len_utf8()..];
        match c {
            '\n' => self.position = Position { line: self.position.line + 1, column: 1 },
            _ => self.position.column += 1,
        }
        Some(c)
    }

    fn take(&mut self, len: usize) -> &'a str {
        let taken = &self.remaining[..len];
        for _ in taken.chars() {
            self.bump();
        }
        taken
    }

    /// Consumes `text` if it comes next, and returns whether it did.
    pub(super) fn eat(&mut self, text: &str) -> bool {
        let next = self.remaining.starts_with(text);
        if next {
            self.take(text.len());
        }
        next
    }

    /// Skips white space and comments on this line.
    pub(super) fn skip_blank(&mut self) {
        while let Some(c) = self.peek() {
            match c {
                '\n' => return,
                '#' => drop(self.line()),
                c if c.is_whitespace() => drop(self.bump()),
                _ => return,
            }
        }
    }

    /// Skips white space and comments on this line and the following ones.
    pub(super) fn skip_blank_lines(&mut self) {
        self.skip_blank();
        while self.peek() == Some('\n') {
            self.bump();
            self.skip_blank();
        }
    }

    /// Consumes an arrow if one follows, on this line or, after white space and comments only, on a
    /// later one.
    pub(super) fn eat_arrow(&mut self) -> bool {
        let mut lookahead = self.clone();
        lookahead.skip_blank_lines();
        let follows = lookahead.eat("->");
        if follows {
            *self = lookahead;
        }
        follows
    }

    /// Consumes the rest of the line, without its end.
    pub(super) fn line(&mut self) -> &'a str {
        self.take(self.remaining.find('\n').unwrap_or(self.remaining.len()))
    }

    /// Consumes a name: letters, digits, `_`, and `-` between them.
    pub(super) fn name(&mut self) -> Option<&'a str> {
        self.peek().filter(|c| begins_name(*c))?;
        let mut len = 0;
        let mut chars = self.remaining.chars().peekable();
        while let Some(c) = chars.next() {
            match c {
                c if in_name(c) => len += 1,
                '-' if chars.peek().is_some_and(|next| in_name(*next)) => len += 1,
                _ => break,
            }
        }
        Some(self.take(len))
    }

    /// Consumes all characters up to white space.
    pub(super) fn word(&mut self) -> &'a str {
        self.take(self.remaining.find(char::is_whitespace).unwrap_or(self.remaining.len()))
    }

    /// Consumes all characters up to white space or a curly bracket.
    pub(super) fn option_word(&mut self) -> &'a str {
        let is_end = |c: char| c.is_whitespace() || c == '{' || c == '}';
        let len = self.remaining.find(is_end).unwrap_or(self.remaining.len());
        // At least one character, so that a caller in a loop gets on.
        let first = self.peek().map_or(0, char::len_utf8);
        self.take(len.max(first))
    }

    /// Returns the next word in backquotes, for messages.
    pub(super) fn next_token(&self) -> String {
        let line = self.remaining.lines().next().unwrap_or_default();
        let mut words = line.split_whitespace();
        match words.next() {
            None => "the end of the line".to_owned(),
            Some(word) if word.chars().count() > TOKEN_LEN_MAX => {
                format!("`{}…`", word.chars().take(TOKEN_LEN_MAX).collect::<String>())
            }
            Some(word) => format!("`{word}`"),
        }
    }

    /// Consumes a quoted string with the escapes `\"`, `\\`, `\n` and `\t`.
    pub(super) fn text(&mut self) -> Result<String, Problem> {
        let position = self.position;
        self.bump();
        let mut text = String::new();
        loop {
            match self.peek() {
                None | Some('\n') => {
                    return Err(Problem::new(
                        position,
                        "a string without a closing quote",
                        "write `\"` after it, on the same line",
                    ));
                }
                Some('"') => {
                    self.bump();
                    return Ok(text);
                }
                Some('\\') => {
                    let position = self.position;
                    self.bump();
                    text.push(match self.peek() {
                        Some('n') => '\n',
                        Some('t') => '\t',
                        Some(same @ ('"' | '\\')) => same,
                        _ => {
                            return Err(Problem::new(
                                position,
                                "unknown escape after `\\`",
                                "write `\\\\` for the character itself; the other escapes are `\\\"`, `\\n` and `\\t`",
                            ));
                        }
                    });
                    self.bump();
                }
                Some(c) => {
                    text.push(c);
                    self.bump();
                }
            }
        }
    }

    /// Consumes a value: a number, a string, true, false, or a list of values.
    pub(super) fn value(&mut self) -> Result<Value, Problem> {
        self.value_within(DEPTH_MAX)
    }

    fn value_within(&mut self, depth: u32) -> Result<Value, Problem> {
        let position = self.position;
        let invalid_value = |scanner: &Self| {
            let what = format!("{} is not a value", scanner.next_token());
            Problem::new(
                position,
                what,
                "write a number, true, false, a string in quotes, or a list in brackets",
            )
        };
        match self.peek() {
            Some('"') => self.text().map(Value::Text),
            Some('[') => self.list(depth),
            Some(c) if c.is_ascii_digit() || c == '-' || c == '+' => {
                let before = self.clone();
                let is_digit = |c: char| c.is_ascii_alphanumeric() || "+-._".contains(c);
                let len = self.remaining.find(|c| !is_digit(c)).unwrap_or(self.remaining.len());
                let digits = self.take(len).replace('_', "");
                let integer = digits.parse().map(Value::Integer);
                let float = || digits.parse().ok().filter(|number: &f64| number.is_finite());
                integer
                    .ok()
                    .or_else(|| float().map(Value::Float))
                    .ok_or_else(|| invalid_value(&before))
            }
            _ => {
                let before = self.clone();
                match self.name() {
                    Some("true") => Ok(Value::Bool(true)),
                    Some("false") => Ok(Value::Bool(false)),
                    Some(word) => {
                        let what = format!("`{word}` is not a value");
                        Err(Problem::new(
                            position,
                            what,
                            format!("strings are quoted: write \"{word}\""),
                        ))
                    }
                    None => Err(invalid_value(&before)),
                }
            }
        }
    }

    fn list(&mut self, depth: u32) -> Result<Value, Problem> {
        let position = self.position;
        if depth == 0 {
            let what = format!("lists nested more than {DEPTH_MAX} deep");
            return Err(Problem::new(position, what, "no parameter needs them: remove them"));
        }
        self.bump();
        let mut values = Vec::new();
        loop {
            self.skip_blank_lines();
            if self.eat("]") {
                return Ok(Value::List(values));
            }
            values.push(self.value_within(depth - 1)?);
            self.skip_blank_lines();
            if !self.eat(",") && self.peek() != Some(']') {
                return Err(Problem::new(
                    self.position,
                    format!(
                        "unexpected {} within a list that begins in line {}",
                        self.next_token(),
                        position.line
                    ),
                    "write `,` between the values and `]` at the end",
                ));
            }
        }
    }
}

const TOKEN_LEN_MAX: usize = 40;
