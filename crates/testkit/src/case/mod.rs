//! Test cases as text: packets in, packets out, in virtual time. The language is explained in
//! `tests/cases/README.md`.
//!
//! The packets go through a [`TestTarget`]: the standard graph in the tests of `nw-elements`, the
//! graph of a file in `nw-graph`. It adds its own commands (routes, sizes); those for packets, time
//! and drops are here.

mod expect;
mod packet;
mod run;

pub use expect::{compare, describe};
pub use packet::{PacketSpec, TokenSpec, announce};
pub use run::{Failure, run};

use nw_element_api::{DropCounters, FaceId, Kind, LinkFields, Timestamp};
use nw_name::Name;
use std::collections::BTreeMap;
use std::str::{FromStr, SplitWhitespace};

/// The system under test.
pub trait TestTarget {
    /// Returns the face with this name in the case.
    ///
    /// # Errors
    /// When there is no such face.
    fn face(&self, word: &str) -> Result<FaceId, String>;

    /// Returns the face's name in the case.
    fn face_name(&self, face: FaceId) -> String;

    /// Returns the current time.
    fn now(&self) -> Timestamp;

    /// Advances the time and does what is due on the way.
    fn advance(&mut self, to: Timestamp);

    /// Receives one packet by a face, its link header already removed. `announcement` is a prefix
    /// announcement received with it; empty for none.
    fn receive(&mut self, face: FaceId, bytes: &[u8], link: LinkFields, announcement: &[u8]);

    /// Returns the first packet sent and not taken yet; `take` takes it.
    fn sent(&mut self, take: bool) -> Option<Sent>;

    /// Returns the drop counters.
    fn drops(&self) -> &DropCounters;

    /// Returns the number of packets that have not ended.
    fn packets_in_use(&self) -> usize;

    /// Runs a command of the target's own. `None` if it has no such command.
    fn command(
        &mut self,
        command: &str,
        args: &mut Args<'_>,
        names: &NameVariables,
    ) -> Option<Result<(), String>>;
}

/// A packet that was sent.
#[derive(Clone, Debug)]
pub struct Sent {
    /// The egress face; for a route event the ingress face.
    pub face: FaceId,
    /// The kind of packet.
    pub kind: Kind,
    /// The link header fields, as to be sent.
    pub link: LinkFields,
    /// The network packet.
    pub bytes: Vec<u8>,
    /// The prefix announcement attached to it.
    pub announcement: Option<Vec<u8>>,
    /// Whether it was sent to control, as a route event.
    pub route_event: bool,
}

/// Values of the variables `$x` in names.
pub type NameVariables = BTreeMap<String, String>;

/// Values of the token variables `@x`.
pub type Tokens = BTreeMap<String, Vec<u8>>;

/// The arguments of one line, in order.
#[derive(Debug)]
pub struct Args<'a> {
    args: SplitWhitespace<'a>,
}

impl<'a> Args<'a> {
    /// Splits a line at white space.
    pub fn of(line: &'a str) -> Self {
        Args { args: line.split_whitespace() }
    }

    /// Returns the next argument.
    #[expect(
        clippy::should_implement_trait,
        reason = "args are asked for one by one, each for what it is"
    )]
    pub fn next(&mut self) -> Option<&'a str> {
        self.args.next()
    }

    /// Returns the next argument.
    ///
    /// # Errors
    /// When there is none: the message names `what` is missing.
    pub fn need(&mut self, what: &str) -> Result<&'a str, String> {
        self.next().ok_or_else(|| format!("{what} is missing"))
    }

    /// Returns the next argument as a number.
    ///
    /// # Errors
    /// When it is missing or not a number.
    pub fn number<T: FromStr>(&mut self, what: &str) -> Result<T, String> {
        let word = self.need(what)?;
        number(word, what)
    }

    /// Returns the next argument as a name.
    ///
    /// # Errors
    /// When it is missing or not a name.
    pub fn name(&mut self, names: &NameVariables) -> Result<Name, String> {
        name(self.need("a name")?, names)
    }

    /// Checks that all arguments were used.
    ///
    /// # Errors
    /// When there is another one.
    pub fn end(&mut self) -> Result<(), String> {
        self.next().map_or(Ok(()), |word| Err(format!("{word:?} is one argument too many")))
    }
}

/// Parses a number.
///
/// # Errors
/// When the text is not a number.
pub fn number<T: FromStr>(word: &str, what: &str) -> Result<T, String> {
    word.parse().map_err(|_| format!("{what} is a number, not {word:?}"))
}

/// Parses a name, after replacing variables `$x`.
///
/// # Errors
/// When the text is not a name.
pub fn name(text: &str, names: &NameVariables) -> Result<Name, String> {
    let mut uri = text.to_owned();
    for (variable, component) in names.iter().rev() {
        uri = uri.replace(&format!("${variable}"), component);
    }
    uri.parse().map_err(|error| format!("{uri}: {error}"))
}

/// Parses bytes in hexadecimal digits.
///
/// # Errors
/// When the text is not an even number of hexadecimal digits.
pub fn hex(digits: &str) -> Result<Vec<u8>, String> {
    let byte =
        |at: usize| digits.get(at..at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok());
    let bytes = (0..digits.len()).step_by(2).map(byte).collect::<Option<_>>();
    bytes.ok_or_else(|| format!("{digits:?} is not an even number of hexadecimal digits"))
}

/// Compares a value with the expected one.
///
/// # Errors
/// When they differ: the message names both.
pub fn equal<T: PartialEq + std::fmt::Debug>(
    what: &str,
    got: T,
    expected: T,
) -> Result<(), String> {
    if got == expected {
        Ok(())
    } else {
        Err(format!("{what}: expected {expected:?}, got {got:?}"))
    }
}
