//! Answers to attacks: a state machine for each watched element, from signals to countermeasures.

use crate::document::Document;
use crate::target::Countermeasure;
use nw_graph_language::network::Attack;
use serde::{Deserialize, Serialize};

/// Counters of one watched element since its start, of all its instances together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ElementSample {
    /// Element of the document.
    pub element: String,
    /// Interests received.
    pub interests: u64,
    /// Interests answered: hits of a content store, or Data returned.
    pub answered: u64,
    /// Data received, which a content store may store.
    pub stored: u64,
    /// Packets whose signature was checked by the element's verifier.
    pub verified: u64,
    /// Names of Data whose signature was wrong, since the last sample; newest last.
    pub failures: Vec<String>,
    /// Interests received and not answered, by face of the document, since its start.
    pub unsatisfied: Vec<(String, u64)>,
}

/// State of the defence of one element.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DefenceState {
    /// No sign of an attack.
    #[default]
    Normal,
    /// A signal is out of bounds; it must stay so.
    Suspicious,
    /// A verifier or limiter is in place; the attack is not confirmed.
    Verifying,
    /// The attack is confirmed.
    Confirmed,
    /// The attack is confirmed, and what it uses is rejected.
    Isolated,
    /// No sign of the attack for some periods; the countermeasure stays.
    Quiet,
}

/// Something that the defence decided.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DefenceEvent {
    /// Element.
    pub element: String,
    /// Attack.
    pub attack: Attack,
    /// State before.
    pub from: DefenceState,
    /// State now.
    pub to: DefenceState,
    /// Why, with figures: one sentence for a person.
    pub reason: String,
    /// Prefixes to erase from content stores, once.
    pub erase: Vec<String>,
}

/// The defences of a network.
#[derive(Clone, Debug, Default)]
pub struct Defences {}

impl Defences {
    /// Takes counters of all watched elements and returns what changed.
    pub fn observe(
        &mut self,
        document: &Document,
        now_ms: u64,
        samples: &[ElementSample],
    ) -> Vec<DefenceEvent> {
        let _ = (document, now_ms, samples);
        Vec::new()
    }

    /// Returns the countermeasures in effect, sorted by element.
    pub fn countermeasures(&self) -> Vec<Countermeasure> {
        Vec::new()
    }

    /// Forbids or allows countermeasures at an element. A person's veto removes what is in effect.
    pub fn set_veto(&mut self, element: &str, is_forbidden: bool) {
        let _ = (element, is_forbidden);
    }
}
