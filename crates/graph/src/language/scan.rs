//! Reads words, texts and numbers, and always knows where it is.

use crate::{Place, Problem};
use nw_element_api::Value;

/// Lists in lists in lists: nobody writes more.
const DEPTH_MAX: u32 = 4;

/// A place in a text, and what follows.
#[derive(Clone)]
pub(super) struct Scan<'a> {
    rest: &'a str,
    place: Place,
}

/// May a name begin with this?
fn begins_name(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_'
}

/// May a name go on with this? A `-` is looked at apart: it may begin an arrow.
fn in_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

impl<'a> Scan<'a> {
    pub(super) const fn new(text: &'a str) -> Self {
        Scan { rest: text, place: Place { line: 1, column: 1 } }
    }

    pub(super) const fn place(&self) -> Place {
        self.place
    }

    pub(super) fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    pub(super) fn bump(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.rest = &self.rest[c.len_utf8()..];
        match c {
            '\n' => self.place = Place { line: self.place.line + 1, column: 1 },
            _ => self.place.column += 1,
        }
        Some(c)
    }

    fn take(&mut self, octets: usize) -> &'a str {
        let taken = &self.rest[..octets];
        for _ in taken.chars() {
            self.bump();
        }
        taken
    }

    /// Takes this text if it comes next.
    pub(super) fn eat(&mut self, text: &str) -> bool {
        let next = self.rest.starts_with(text);
        if next {
            self.take(text.len());
        }
        next
    }

    /// Passes over white space and comments of this line.
    pub(super) fn blank(&mut self) {
        while let Some(c) = self.peek() {
            match c {
                '\n' => return,
                '#' => drop(self.line()),
                c if c.is_whitespace() => drop(self.bump()),
                _ => return,
            }
        }
    }

    /// Passes over white space and comments of this line and others.
    pub(super) fn blank_lines(&mut self) {
        self.blank();
        while self.peek() == Some('\n') {
            self.bump();
            self.blank();
        }
    }

    /// True when an arrow follows, on this line or, after nothing but white space and comments, on one below.
    pub(super) fn arrow(&mut self) -> bool {
        let mut ahead = self.clone();
        ahead.blank_lines();
        let follows = ahead.eat("->");
        if follows {
            *self = ahead;
        }
        follows
    }

    /// The rest of this line, without its end.
    pub(super) fn line(&mut self) -> &'a str {
        self.take(self.rest.find('\n').unwrap_or(self.rest.len()))
    }

    /// A name: letters, digits, `_`, and `-` between them.
    pub(super) fn name(&mut self) -> Option<&'a str> {
        self.peek().filter(|c| begins_name(*c))?;
        let mut len = 0;
        let mut chars = self.rest.chars().peekable();
        while let Some(c) = chars.next() {
            match c {
                c if in_name(c) => len += 1,
                '-' if chars.peek().is_some_and(|next| in_name(*next)) => len += 1,
                _ => break,
            }
        }
        Some(self.take(len))
    }

    /// All up to white space.
    pub(super) fn word(&mut self) -> &'a str {
        self.take(self.rest.find(char::is_whitespace).unwrap_or(self.rest.len()))
    }

    /// What comes next, for messages.
    pub(super) fn seen(&self) -> String {
        let line = self.rest.lines().next().unwrap_or_default();
        let mut words = line.split_whitespace();
        match words.next() {
            None => "the end of the line".to_owned(),
            Some(word) if word.chars().count() > SEEN_LEN_MAX => {
                format!("`{}…`", word.chars().take(SEEN_LEN_MAX).collect::<String>())
            }
            Some(word) => format!("`{word}`"),
        }
    }

    /// A text in quotes: `\"`, `\\`, `\n` and `\t` are what they are elsewhere.
    pub(super) fn text(&mut self) -> Result<String, Problem> {
        let place = self.place;
        self.bump();
        let mut text = String::new();
        loop {
            match self.peek() {
                None | Some('\n') => {
                    return Err(Problem::new(
                        place,
                        "a text without an end",
                        "write `\"` behind it, on the same line",
                    ));
                }
                Some('"') => {
                    self.bump();
                    return Ok(text);
                }
                Some('\\') => {
                    let place = self.place;
                    self.bump();
                    text.push(match self.peek() {
                        Some('n') => '\n',
                        Some('t') => '\t',
                        Some(same @ ('"' | '\\')) => same,
                        _ => {
                            return Err(Problem::new(
                                place,
                                "`\\` with nothing known behind it",
                                "write `\\\\` for the character itself; there are `\\\"`, `\\n` and `\\t` beside it",
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

    /// A value: a number, a text, true, false, or a list of values.
    pub(super) fn value(&mut self) -> Result<Value, Problem> {
        self.value_within(DEPTH_MAX)
    }

    fn value_within(&mut self, depth: u32) -> Result<Value, Problem> {
        let place = self.place;
        let no_value = |scan: &Self| {
            let what = format!("{} is no value", scan.seen());
            Problem::new(place, what, "write a number, true, false, a text in quotes, or a list in brackets")
        };
        match self.peek() {
            Some('"') => self.text().map(Value::Text),
            Some('[') => self.list(depth),
            Some(c) if c.is_ascii_digit() || c == '-' || c == '+' => {
                let before = self.clone();
                let is_digit = |c: char| c.is_ascii_alphanumeric() || "+-._".contains(c);
                let len = self.rest.find(|c| !is_digit(c)).unwrap_or(self.rest.len());
                let digits = self.take(len).replace('_', "");
                let integer = digits.parse().map(Value::Integer);
                let float = || digits.parse().ok().filter(|number: &f64| number.is_finite());
                integer.ok().or_else(|| float().map(Value::Float)).ok_or_else(|| no_value(&before))
            }
            _ => {
                let before = self.clone();
                match self.name() {
                    Some("true") => Ok(Value::Bool(true)),
                    Some("false") => Ok(Value::Bool(false)),
                    Some(word) => {
                        let what = format!("`{word}` is no value");
                        Err(Problem::new(place, what, format!("a text stands in quotes: write \"{word}\"")))
                    }
                    None => Err(no_value(&before)),
                }
            }
        }
    }

    fn list(&mut self, depth: u32) -> Result<Value, Problem> {
        let place = self.place;
        if depth == 0 {
            let what = format!("lists in lists, more than {DEPTH_MAX} deep");
            return Err(Problem::new(place, what, "no parameter needs them: leave them out"));
        }
        self.bump();
        let mut values = Vec::new();
        loop {
            self.blank_lines();
            if self.eat("]") {
                return Ok(Value::List(values));
            }
            values.push(self.value_within(depth - 1)?);
            self.blank_lines();
            if !self.eat(",") && self.peek() != Some(']') {
                return Err(Problem::new(
                    self.place,
                    format!("{} within a list that begins in line {}", self.seen(), place.line),
                    "write `,` between its values and `]` at its end",
                ));
            }
        }
    }
}

const SEEN_LEN_MAX: usize = 40;
