//! Cases as text: packets in, packets out, in virtual time. The language is explained in `tests/cases/README.md`.
//!
//! What the packets go through is a [`Subject`]: the standard graph in the tests of `nw-elements`, the graph of a file in `nw-graph`. It brings
//! words of its own (routes, sizes); those of packets, time and drops are here.

mod expect;
mod packet;
mod run;

pub use expect::{compare, describe};
pub use packet::{PacketSpec, TokenSpec, announce};
pub use run::{Failure, run};

use crate::{DropCounters, FaceId, Instant, Kind, LinkFields};
use nw_name::Name;
use std::collections::BTreeMap;
use std::str::{FromStr, SplitWhitespace};

/// What packets go through.
pub trait Subject {
    /// The face that a word names.
    ///
    /// # Errors
    /// Why it names none.
    fn face(&self, word: &str) -> Result<FaceId, String>;

    /// A face as a case names it.
    fn face_name(&self, face: FaceId) -> String;

    /// The time.
    fn now(&self) -> Instant;

    /// Lets time pass, doing at each moment what is due then.
    fn advance(&mut self, to: Instant);

    /// One packet comes by a face, its link header already taken off; `announcement` goes with it, an empty one is none.
    fn receive(&mut self, face: FaceId, bytes: &[u8], link: LinkFields, announcement: &[u8]);

    /// What left first of what nobody has looked at yet; `take` takes it away.
    fn sent(&mut self, take: bool) -> Option<Sent>;

    /// What was dropped.
    fn drops(&self) -> &DropCounters;

    /// Packets that neither left nor ended.
    fn packets_in_use(&self) -> usize;

    /// Does what a word says that is the subject's own; `None` where it is not.
    fn command(
        &mut self,
        command: &str,
        words: &mut Words<'_>,
        names: &NameVariables,
    ) -> Option<Result<(), String>>;
}

/// A packet that left by a face.
#[derive(Clone, Debug)]
pub struct Sent {
    /// By which one.
    pub face: FaceId,
    /// What it is.
    pub kind: Kind,
    /// The link header's fields, as to be sent.
    pub link: LinkFields,
    /// The network packet.
    pub bytes: Vec<u8>,
    /// The prefix announcement that goes with it.
    pub announcement: Option<Vec<u8>>,
    /// It went to control; `face` is where it came from.
    pub lesson: bool,
}

/// Words that stand for name components: `$x`.
pub type NameVariables = BTreeMap<String, String>;

/// Tokens by the names that a case gave them.
pub type Tokens = BTreeMap<String, Vec<u8>>;

/// Words of one line, in order.
#[derive(Debug)]
pub struct Words<'a> {
    words: SplitWhitespace<'a>,
}

impl<'a> Words<'a> {
    /// Of a line.
    pub fn of(line: &'a str) -> Self {
        Words { words: line.split_whitespace() }
    }

    /// The next one.
    #[expect(clippy::should_implement_trait, reason = "words are asked for one by one, each for what it is")]
    pub fn next(&mut self) -> Option<&'a str> {
        self.words.next()
    }

    /// The next one, which has to be there.
    ///
    /// # Errors
    /// When it is missing: `what`.
    pub fn need(&mut self, what: &str) -> Result<&'a str, String> {
        self.next().ok_or_else(|| format!("{what} is missing"))
    }

    /// The next one, which has to be a number.
    ///
    /// # Errors
    /// When it is none, or missing.
    pub fn number<T: FromStr>(&mut self, what: &str) -> Result<T, String> {
        let word = self.need(what)?;
        number(word, what)
    }

    /// The next one, which has to be a name.
    ///
    /// # Errors
    /// When it is none, or missing.
    pub fn name(&mut self, names: &NameVariables) -> Result<Name, String> {
        name(self.need("a name")?, names)
    }

    /// There may be no more.
    ///
    /// # Errors
    /// When there is.
    pub fn end(&mut self) -> Result<(), String> {
        self.next().map_or(Ok(()), |word| Err(format!("{word:?} is one word too many")))
    }
}

/// A number.
///
/// # Errors
/// When the word is none.
pub fn number<T: FromStr>(word: &str, what: &str) -> Result<T, String> {
    word.parse().map_err(|_| format!("{what} is a number, not {word:?}"))
}

/// A name, after `$x` was replaced.
///
/// # Errors
/// When it is none.
pub fn name(text: &str, names: &NameVariables) -> Result<Name, String> {
    let mut uri = text.to_owned();
    for (variable, component) in names.iter().rev() {
        uri = uri.replace(&format!("${variable}"), component);
    }
    uri.parse().map_err(|error| format!("{uri}: {error}"))
}

/// Octets written in hexadecimal digits.
///
/// # Errors
/// When they are none.
pub fn hex(digits: &str) -> Result<Vec<u8>, String> {
    let octet = |at: usize| digits.get(at..at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok());
    let octets = (0..digits.len()).step_by(2).map(octet).collect::<Option<_>>();
    octets.ok_or_else(|| format!("{digits:?} is not an even number of hexadecimal digits"))
}

/// What must be equal.
///
/// # Errors
/// What was expected, and what is.
pub fn equal<T: PartialEq + std::fmt::Debug>(what: &str, got: T, wanted: T) -> Result<(), String> {
    if got == wanted { Ok(()) } else { Err(format!("{what}: expected {wanted:?}, got {got:?}")) }
}
