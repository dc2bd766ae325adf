//! Runs a test case.

use super::expect::{compare, compare_route_event, describe};
use super::packet::PacketSpec;
use super::{Args, NameVariables, TestTarget, Tokens, equal, number};
use core::fmt;
use nw_element_api::{DropCounters, Timestamp};
use nw_wire::{Data, Interest};
use std::collections::BTreeMap;

/// A failure: a line of the case that did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Number of the line, from 1.
    pub line: usize,
    /// Text of the line; empty at the end of the case.
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

/// Runs a case.
///
/// # Errors
/// The line and what was wrong there.
pub fn run(text: &str, target: &mut dyn TestTarget) -> Result<(), Failure> {
    let mut case =
        Case { target, names: NameVariables::new(), tokens: Tokens::new(), drops: BTreeMap::new() };
    let mut lines = 0;
    for (at, text_line) in text.lines().enumerate() {
        lines = at + 1;
        let line = text_line.split(" #").next().unwrap_or_default().trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        case.line(line).map_err(|error| Failure { line: lines, text: line.to_owned(), error })?;
    }
    case.end().map_err(|error| Failure { line: lines, text: String::new(), error })
}

/// A running case.
struct Case<'a> {
    target: &'a mut dyn TestTarget,
    names: NameVariables,
    tokens: Tokens,
    /// Expected drops by reason.
    drops: BTreeMap<String, u64>,
}

impl Case<'_> {
    /// Runs one line.
    fn line(&mut self, line: &str) -> Result<(), String> {
        let mut args = Args::of(line);
        let command = args.need("a command")?;
        match command {
            "drop" => return self.expect_drop(&mut args),
            "let" => return self.bind_name(&mut args),
            "out" => return self.expect(&mut args),
            // The old word `lesson` is accepted for one version.
            "route-event" | "lesson" => return self.expect_route_event(&mut args),
            _ => self.check_nothing_unexpected()?,
        }
        match command {
            "at" => self.at(&mut args),
            "in" => self.receive(&mut args),
            other => self
                .target
                .command(other, &mut args, &self.names)
                .unwrap_or_else(|| Err(format!("unknown command {other:?}"))),
        }
    }

    /// Runs `let x Data …` (`$x` is its implicit digest) or `let x Interest … params=…` (its
    /// parameters digest).
    fn bind_name(&mut self, args: &mut Args<'_>) -> Result<(), String> {
        let variable = args.need("a variable")?.to_owned();
        let packet = PacketSpec::parse(args, &self.names, self.target)?;
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

    /// Runs `at Tms`.
    fn at(&mut self, args: &mut Args<'_>) -> Result<(), String> {
        let word = args.need("a time")?;
        let millis =
            word.strip_suffix("ms").ok_or_else(|| format!("a time ends with ms: {word:?}"))?;
        let moment = Timestamp::from_millis(number(millis, "a time")?);
        if moment < self.target.now() {
            return Err("the time is before the previous one".to_owned());
        }
        self.target.advance(moment);
        args.end()
    }

    /// Runs `in FACE PACKET`.
    fn receive(&mut self, args: &mut Args<'_>) -> Result<(), String> {
        let face = self.target.face(args.need("a face")?)?;
        let packet = PacketSpec::parse(args, &self.names, self.target)?;
        let link = packet.link(&self.tokens)?;
        self.target.receive(face, &packet.encode(), link, &packet.announcement());
        Ok(())
    }

    /// Runs `out FACE PACKET`.
    fn expect(&mut self, args: &mut Args<'_>) -> Result<(), String> {
        let face = self.target.face(args.need("a face")?)?;
        let expected = PacketSpec::parse(args, &self.names, self.target)?;
        let sent = self.target.sent(true).ok_or("nothing was sent")?;
        let face_name = |face| self.target.face_name(face);
        compare(face, &expected, &sent, &mut self.tokens, &face_name)
            .map_err(|error| format!("{error}\n    sent: {}", describe(&sent, &face_name)))
    }

    /// Runs `route-event FACE announce|withdraw NAME`.
    fn expect_route_event(&mut self, args: &mut Args<'_>) -> Result<(), String> {
        let face = self.target.face(args.need("a face")?)?;
        let kind = args.need("announce or withdraw")?;
        let name = args.name(&self.names)?;
        args.end()?;
        let sent = self.target.sent(true).ok_or("nothing was sent")?;
        let face_name = |face| self.target.face_name(face);
        compare_route_event(face, kind, &name, &sent, &face_name)
            .map_err(|error| format!("{error}\n    sent: {}", describe(&sent, &face_name)))
    }

    /// Runs `drop REASON [N]`.
    fn expect_drop(&mut self, args: &mut Args<'_>) -> Result<(), String> {
        let reason = args.need("a reason")?;
        let known = DropCounters::default().iter().any(|(known, _)| known.as_str() == reason);
        if !known {
            return Err(format!("unknown drop reason {reason:?}"));
        }
        let count: u64 = args.next().map_or(Ok(1), |word| number(word, "how many"))?;
        *self.drops.entry(reason.to_owned()).or_default() += count;
        args.end()
    }

    /// Checks that no packet was sent that no line expects.
    fn check_nothing_unexpected(&mut self) -> Result<(), String> {
        match self.target.sent(false) {
            Some(sent) => {
                let face_name = |face| self.target.face_name(face);
                Err(format!(
                    "sent before this line, but not expected: {}",
                    describe(&sent, &face_name)
                ))
            }
            None => Ok(()),
        }
    }

    /// Checks the drops, and that all packets have ended.
    fn end(mut self) -> Result<(), String> {
        self.check_nothing_unexpected()?;
        for (reason, count) in self.target.drops().iter() {
            let expected = self.drops.get(reason.as_str()).copied().unwrap_or(0);
            if expected != count {
                return Err(format!("drop {}: expected {expected}, got {count}", reason.as_str()));
            }
        }
        equal("packets still in use", self.target.packets_in_use(), 0)
    }
}
