//! Runs one case.

use super::expect::{compare, compare_lesson, describe};
use super::packet::PacketSpec;
use super::{NameVariables, Subject, Tokens, Words, equal, number};
use crate::{DropCounters, Instant};
use core::fmt;
use nw_wire::{Data, Interest};
use std::collections::BTreeMap;

/// Where a case did not go as it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The line, from 1.
    pub line: usize,
    /// What stands there; at the end, nothing.
    pub text: String,
    /// What was wrong.
    pub error: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.text.as_str() {
            "" => write!(f, "line {} (end): {}", self.line, self.error),
            text => write!(f, "line {}: {text}\n    {}", self.line, self.error),
        }
    }
}

impl core::error::Error for Failure {}

/// Runs the text of a case.
///
/// # Errors
/// The line and what was wrong there.
pub fn run(text: &str, subject: &mut dyn Subject) -> Result<(), Failure> {
    let mut case =
        Case { subject, names: NameVariables::new(), tokens: Tokens::new(), drops: BTreeMap::new() };
    let mut lines = 0;
    for (at, whole) in text.lines().enumerate() {
        lines = at + 1;
        let line = whole.split(" #").next().unwrap_or_default().trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        case.line(line).map_err(|error| Failure { line: lines, text: line.to_owned(), error })?;
    }
    case.end().map_err(|error| Failure { line: lines, text: String::new(), error })
}

struct Case<'a> {
    subject: &'a mut dyn Subject,
    names: NameVariables,
    tokens: Tokens,
    /// By reason: how many are expected.
    drops: BTreeMap<String, u64>,
}

impl Case<'_> {
    fn line(&mut self, line: &str) -> Result<(), String> {
        let mut words = Words::of(line);
        let command = words.need("a command")?;
        match command {
            "drop" => return self.expect_drop(&mut words),
            "let" => return self.bind_name(&mut words),
            "out" => return self.expect(&mut words),
            "lesson" => return self.expect_lesson(&mut words),
            _ => self.nothing_left()?,
        }
        match command {
            "at" => self.at(&mut words),
            "in" => self.receive(&mut words),
            other => self
                .subject
                .command(other, &mut words, &self.names)
                .unwrap_or_else(|| Err(format!("no command: {other:?}"))),
        }
    }

    /// `let x Data …`: `$x` is its implicit digest; `let x Interest … params=…`: its parameters digest.
    fn bind_name(&mut self, words: &mut Words<'_>) -> Result<(), String> {
        let variable = words.need("what to call it")?.to_owned();
        let packet = PacketSpec::parse(words, &self.names, self.subject)?;
        let wire = packet.encode();
        let component = if packet.kind == "Data" {
            let data = Data::check(&wire).map_err(|error| error.to_string())?;
            nw_wire::data::full_name(&data)
        } else {
            Interest::check(&wire).map_err(|error| error.to_string())?.name().to_name()
        };
        let component = component.as_ref().component(-1).ok_or("the name is empty")?;
        self.names.insert(variable, component.to_string());
        Ok(())
    }

    fn at(&mut self, words: &mut Words<'_>) -> Result<(), String> {
        let word = words.need("a time")?;
        let millis =
            word.strip_suffix("ms").ok_or_else(|| format!("a time ends with ms, unlike {word:?}"))?;
        let moment = Instant::from_millis(number(millis, "a time")?);
        if moment < self.subject.now() {
            return Err("time runs forwards".to_owned());
        }
        self.subject.advance(moment);
        words.end()
    }

    fn receive(&mut self, words: &mut Words<'_>) -> Result<(), String> {
        let face = self.subject.face(words.need("a face")?)?;
        let packet = PacketSpec::parse(words, &self.names, self.subject)?;
        let link = packet.link(&self.tokens)?;
        self.subject.receive(face, &packet.encode(), link, &packet.announcement());
        Ok(())
    }

    fn expect(&mut self, words: &mut Words<'_>) -> Result<(), String> {
        let face = self.subject.face(words.need("a face")?)?;
        let wanted = PacketSpec::parse(words, &self.names, self.subject)?;
        let sent = self.subject.sent(true).ok_or("nothing was sent")?;
        let face_name = |face| self.subject.face_name(face);
        compare(face, &wanted, &sent, &mut self.tokens, &face_name)
            .map_err(|error| format!("{error}\n    sent: {}", describe(&sent, &face_name)))
    }

    fn expect_lesson(&mut self, words: &mut Words<'_>) -> Result<(), String> {
        let face = self.subject.face(words.need("a face")?)?;
        let what = words.need("learn or forget")?;
        let name = words.name(&self.names)?;
        words.end()?;
        let sent = self.subject.sent(true).ok_or("nothing was sent")?;
        let face_name = |face| self.subject.face_name(face);
        compare_lesson(face, what, &name, &sent, &face_name)
            .map_err(|error| format!("{error}\n    sent: {}", describe(&sent, &face_name)))
    }

    fn expect_drop(&mut self, words: &mut Words<'_>) -> Result<(), String> {
        let reason = words.need("a reason")?;
        let known = DropCounters::default().iter().any(|(known, _)| known.as_str() == reason);
        if !known {
            return Err(format!("packets are not dropped for {reason:?}"));
        }
        let count: u64 = words.next().map_or(Ok(1), |word| number(word, "how many"))?;
        *self.drops.entry(reason.to_owned()).or_default() += count;
        words.end()
    }

    fn nothing_left(&mut self) -> Result<(), String> {
        match self.subject.sent(false) {
            Some(sent) => {
                let face_name = |face| self.subject.face_name(face);
                Err(format!("before this, nobody expected: {}", describe(&sent, &face_name)))
            }
            None => Ok(()),
        }
    }

    fn end(mut self) -> Result<(), String> {
        self.nothing_left()?;
        for (reason, count) in self.subject.drops().iter() {
            let wanted = self.drops.get(reason.as_str()).copied().unwrap_or(0);
            if wanted != count {
                return Err(format!("drop {}: expected {wanted}, got {count}", reason.as_str()));
            }
        }
        equal("packets that neither left nor ended", self.subject.packets_in_use(), 0)
    }
}
