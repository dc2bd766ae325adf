//! Questions and answers: a publication that subscribes to its answer.
//!
//! ```text
//! question  "nwask\0" | length of the answer's name 2 | name of the answer's item | payload
//! answer    the payload, as the only publication of that item
//! ```
//!
//! A requester subscribes once to a scope of its own, `/answers/RANDOM`, and each question names an
//! item below it. Invariant: the first answer counts; later ones, of other repliers, are dropped.

use super::connection::{PubSubError, PubSubOptions};
use super::publisher::{ItemNumber, Publisher, WhenFull};
use super::subscriber::{Received, Subscriber};
use core::time::Duration;
use nw_api::pubsub::{ItemName, ItemOptions, ScopePattern};
use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

const MARK: &[u8] = b"nwask\0";
/// First component of the names of answers.
const SCOPE: &str = "answers";
/// Answers that a replier keeps announced.
const ANSWERS_MAX: usize = 256;
/// Items that a requester keeps announced.
const ITEMS_MAX: usize = 1024;
/// Time that a subscriber which reads nothing is waited for.
const PATIENCE: Duration = Duration::from_secs(1);
/// Pause while repliers are waited for.
const PAUSE: Duration = Duration::from_millis(2);

/// Asks questions.
#[derive(Debug)]
pub struct Requester {
    publisher: Publisher,
    answers: Subscriber,
    scope: String,
    items: BTreeMap<ItemName, ItemNumber>,
    count: u64,
}

impl Requester {
    /// Connects to a node.
    ///
    /// # Errors
    /// If no node can be reached, or it refuses the subscription to the answers.
    pub fn connect(options: &PubSubOptions) -> Result<Self, PubSubError> {
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(|_| PubSubError::Random)?;
        let scope = format!("/{SCOPE}/{:016x}", u64::from_ne_bytes(random));
        let mut answers = Subscriber::connect(options)?;
        let pattern: ScopePattern =
            format!("{scope}/*").parse().map_err(|_| PubSubError::Protocol)?;
        answers.subscribe(&pattern, true)?;
        let publisher = Publisher::connect(options, WhenFull::Wait(PATIENCE))?;
        Ok(Requester { publisher, answers, scope, items: BTreeMap::new(), count: 0 })
    }

    /// Publishes a question under a name and waits for the first answer, at most `timeout`. `None`
    /// if no one answers in time.
    ///
    /// # Errors
    /// If the node refuses the name, or the connection is lost.
    pub fn ask(
        &mut self,
        name: &ItemName,
        payload: &[u8],
        timeout: Duration,
    ) -> Result<Option<Vec<u8>>, PubSubError> {
        let deadline = Instant::now() + timeout;
        let item = self.item(name)?;
        while self.publisher.subscribers(item)? == 0 {
            if Instant::now() >= deadline {
                return Ok(None);
            }
            std::thread::sleep(PAUSE);
        }
        self.count += 1;
        let answer = format!("{}/{}", self.scope, self.count);
        let len = (answer.len() as u16).to_be_bytes();
        let question = [MARK, &len, answer.as_bytes(), payload].concat();
        self.publisher.publish(item, &question)?;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.answers.receive(left)? {
                Received::Publication { name, payload, .. } if name == answer => {
                    return Ok(Some(payload.to_vec()));
                }
                Received::Nothing if left.is_zero() => return Ok(None),
                _ => {}
            }
        }
    }

    fn item(&mut self, name: &ItemName) -> Result<ItemNumber, PubSubError> {
        if let Some(item) = self.items.get(name) {
            return Ok(*item);
        }
        if self.items.len() >= ITEMS_MAX
            && let Some((_, oldest)) = self.items.pop_first()
        {
            self.publisher.withdraw(oldest)?;
        }
        let options = ItemOptions { keeps_last: false, ..ItemOptions::default() };
        let item = self.publisher.announce_with(name, options)?;
        self.items.insert(name.clone(), item);
        Ok(item)
    }
}

/// A question that waits for its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Name that it was published under.
    pub name: String,
    /// The bytes.
    pub payload: Vec<u8>,
    answer: ItemName,
}

/// Answers questions.
#[derive(Debug)]
pub struct Replier {
    publisher: Publisher,
    questions: Subscriber,
    answered: VecDeque<ItemNumber>,
}

impl Replier {
    /// Connects to a node, and subscribes to the questions below a pattern.
    ///
    /// # Errors
    /// If no node can be reached, or it refuses the subscription.
    pub fn connect(options: &PubSubOptions, pattern: &ScopePattern) -> Result<Self, PubSubError> {
        let publisher = Publisher::connect(options, WhenFull::Wait(PATIENCE))?;
        let mut questions = Subscriber::connect(options)?;
        questions.subscribe(pattern, false)?;
        Ok(Replier { publisher, questions, answered: VecDeque::new() })
    }

    /// Waits for the next question, at most `timeout`. Publications that are no questions are
    /// skipped. `None` if there is none in time.
    ///
    /// # Errors
    /// If the connection is lost.
    pub fn receive(&mut self, timeout: Duration) -> Result<Option<Question>, PubSubError> {
        let deadline = Instant::now() + timeout;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.questions.receive(left)? {
                Received::Publication { name, payload, .. } => {
                    if let Some((answer, payload)) = split(payload) {
                        let (name, payload) = (name.to_owned(), payload.to_vec());
                        return Ok(Some(Question { name, payload, answer }));
                    }
                }
                Received::Lost { .. } => {}
                Received::Nothing if left.is_zero() => return Ok(None),
                Received::Nothing => {}
            }
        }
    }

    /// Publishes the answer to a question.
    ///
    /// # Errors
    /// If the node refuses it, or the connection is lost.
    pub fn answer(&mut self, question: &Question, payload: &[u8]) -> Result<(), PubSubError> {
        if self.answered.len() >= ANSWERS_MAX
            && let Some(oldest) = self.answered.pop_front()
        {
            self.publisher.withdraw(oldest)?;
        }
        let item = self.publisher.announce(&question.answer, true)?;
        self.answered.push_back(item);
        self.publisher.publish(item, payload)?;
        Ok(())
    }
}

/// Divides a question into the name of its answer and the payload. `None` if it is none.
fn split(question: &[u8]) -> Option<(ItemName, &[u8])> {
    let (len, rest) = question.strip_prefix(MARK)?.split_first_chunk::<2>()?;
    let (name, payload) = rest.split_at_checked(usize::from(u16::from_be_bytes(*len)))?;
    let name: ItemName = core::str::from_utf8(name).ok()?.parse().ok()?;
    // An answer can't be a publication of any other item.
    name.as_str().strip_prefix('/')?.starts_with(SCOPE).then_some((name, payload))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_divided_and_other_publications_are_not() {
        let question = b"nwask\0\0\x0e/answers/0a/17what?";
        let (name, payload) = split(question).unwrap();
        assert_eq!((name.as_str(), payload), ("/answers/0a/17", &b"what?"[..]));
        for end in 0..22 {
            assert_eq!(split(&question[..end]), None);
        }
        for other in [&b"plain"[..], b"nwask\0\0\x06/a/b/cx", b"nwask\0\xff\xff/answers/1"] {
            assert_eq!(split(other), None);
        }
    }
}
