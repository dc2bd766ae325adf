//! Answers to attacks: a state machine for each watched element, from signals to countermeasures.
//!
//! ```text
//!  poisoning   normal ─▶ suspicious ─▶ verifying ─▶ confirmed ─▶ isolated ─▶ quiet ─▶ normal
//!                 ▲          │             │            ▲            ▲          │
//!                 └──────────┴─ no sign ───┘            └────────────┴─ again ──┘
//!  flooding    normal ─▶ suspicious ─▶ confirmed ─▶ quiet ─▶ normal
//! ```
//!
//! Signals are compared with slow averages that are learned in periods with enough requests only:
//! first reports, changes of load and quiet periods are no attacks. A person's veto holds.

mod flooding;
mod poisoning;

use crate::document::Document;
use crate::target::Countermeasure;
use flooding::Flooding;
use nw_graph_language::network::{Attack, Defence};
use nw_graph_language::{Graph, Source, Target};
use poisoning::Poisoning;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Counters of one element, of all its instances together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ElementSample {
    /// Element of the document.
    pub element: String,
    /// Interests received since its start.
    pub interests: u64,
    /// Interests answered since its start: hits of a content store, or Data returned.
    pub answered: u64,
    /// Packets whose signature was checked by the element's verifier, since its start.
    pub verified: u64,
    /// Names of Data that its verifier rejected since the last sample; newest last.
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
    /// A verifier is in place; the attack is not confirmed.
    Verifying,
    /// The attack is confirmed; its origin is looked for.
    Confirmed,
    /// The attack is stopped as near to its origin as the network allows.
    Isolated,
    /// No sign of the attack for some periods; the countermeasure stays.
    Quiet,
}

/// Something that the defence decided.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DefenceEvent {
    /// Watched element.
    pub element: String,
    /// Attack.
    pub attack: Attack,
    /// State before.
    pub from: DefenceState,
    /// State now.
    pub to: DefenceState,
    /// Why, with figures: one sentence for a person.
    pub reason: String,
    /// Prefixes to erase from all content stores, once.
    pub erase: Vec<String>,
}

/// State of the defence of one element, for a person.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DefenceStatus {
    /// Watched element.
    pub element: String,
    /// Attack.
    pub attack: Attack,
    /// State.
    pub state: DefenceState,
    /// Whether a person forbids countermeasures at the element.
    pub is_vetoed: bool,
}

/// A machine of one element.
#[derive(Clone, Debug)]
enum Machine {
    Poisoning(Poisoning),
    Flooding(Flooding),
}

/// The defences of a network.
#[derive(Clone, Debug, Default)]
pub struct Defences {
    machines: BTreeMap<(Attack, String), (Defence, Machine)>,
    vetoes: BTreeSet<String>,
}

impl Defences {
    /// Takes counters of watched elements, and of elements with a verifier, and returns what
    /// changed. May be called more often than once per period; failures are collected.
    pub fn observe(
        &mut self,
        document: &Document,
        now_ms: u64,
        samples: &[ElementSample],
    ) -> Vec<DefenceEvent> {
        let graph = &document.file.graph;
        let watched = watched(document);
        self.machines.retain(|key, _| watched.contains_key(key));
        let mut events = Vec::new();
        for (key, defence) in watched {
            let (attack, element) = &key;
            let machine = self.machines.entry(key.clone()).or_insert_with(|| {
                let machine = match attack {
                    Attack::Poisoning => {
                        Machine::Poisoning(Poisoning::new(data_path(graph, element)))
                    }
                    Attack::Flooding => Machine::Flooding(Flooding::default()),
                };
                (defence.clone(), machine)
            });
            machine.0 = defence.clone();
            let machine = &mut machine.1;
            let from = machine.state();
            let decided = match machine {
                _ if self.vetoes.contains(element) => None,
                Machine::Poisoning(machine) => machine.observe(&defence, now_ms, samples),
                Machine::Flooding(machine) => {
                    let sample = samples.iter().find(|sample| sample.element == *element);
                    sample.and_then(|sample| machine.observe(&defence, now_ms, sample))
                }
            };
            if let Some((reason, erase)) = decided {
                let (element, attack) = (element.clone(), *attack);
                let to = machine.state();
                events.push(DefenceEvent { element, attack, from, to, reason, erase });
            }
        }
        events
    }

    /// Returns the countermeasures in effect, sorted by attack and element.
    pub fn countermeasures(&self) -> Vec<Countermeasure> {
        let is_allowed = |element: &String| !self.vetoes.contains(element);
        let mut all: Vec<Countermeasure> = Vec::new();
        for ((_, element), (defence, machine)) in &self.machines {
            let made = match machine {
                _ if !is_allowed(element) => Vec::new(),
                Machine::Poisoning(machine) => machine.countermeasures(defence),
                Machine::Flooding(machine) => machine.countermeasures(element, defence),
            };
            for made in made {
                // Two watched stores may lead to the same place.
                if !all.iter().any(|known| known.element_name() == made.element_name()) {
                    all.push(made);
                }
            }
        }
        all
    }

    /// Forbids or allows countermeasures at an element. A veto removes what is in effect.
    pub fn set_veto(&mut self, element: &str, is_forbidden: bool) {
        if is_forbidden {
            self.vetoes.insert(element.to_owned());
        } else {
            self.vetoes.remove(element);
        }
        self.machines.retain(|(_, watched), _| watched != element);
    }

    /// Returns the state of the defence of each watched element.
    pub fn status(&self, document: &Document) -> Vec<DefenceStatus> {
        let status = |(attack, element): &(Attack, String)| {
            let machine = self.machines.get(&(*attack, element.clone()));
            DefenceStatus {
                state: machine.map(|(_, machine)| machine.state()).unwrap_or_default(),
                is_vetoed: self.vetoes.contains(element),
                element: element.clone(),
                attack: *attack,
            }
        };
        watched(document).keys().map(status).collect()
    }
}

impl Machine {
    fn state(&self) -> DefenceState {
        match self {
            Machine::Poisoning(machine) => machine.state,
            Machine::Flooding(machine) => machine.state,
        }
    }
}

/// Returns the watched elements with their defences. Without a list these are all content stores
/// for poisoning, and the elements that consumers' Interests enter for flooding.
fn watched(document: &Document) -> BTreeMap<(Attack, String), Defence> {
    let graph = &document.file.graph;
    let mut watched = BTreeMap::new();
    for defence in &document.file.network.defences {
        let named = defence.watch.iter().map(|(name, _)| name.clone());
        let names: Vec<String> = match (defence.watch.is_empty(), defence.attack) {
            (false, _) => named.collect(),
            (true, Attack::Poisoning) => {
                let stores = graph.nodes.iter().filter(|node| node.entry.name == "content_store");
                stores.map(|node| node.name.clone()).collect()
            }
            (true, Attack::Flooding) => entered(graph),
        };
        for name in names {
            watched.entry((defence.attack, name)).or_insert_with(|| defence.clone());
        }
    }
    watched
}

/// Returns the elements that Interests from listening faces enter first.
fn entered(graph: &Graph) -> Vec<String> {
    let listens = |from: Source| match from {
        Source::Face(face) => graph.faces[face].is_listener,
        Source::Faces => graph.faces.iter().any(|face| face.is_listener),
        Source::Port(..) => false,
    };
    let entered = graph.connections.iter().filter(|connection| listens(connection.from));
    let names = entered.filter_map(|connection| match connection.to {
        Target::Port(node, _) => Some(graph.nodes[node].name.clone()),
        _ => None,
    });
    names.collect::<BTreeSet<_>>().into_iter().collect()
}

/// Returns an element and those that its Data come from, nearest first: the places of a verifier on
/// its path towards an origin of fake Data.
fn data_path(graph: &Graph, element: &str) -> Vec<String> {
    use nw_element_api::Kind;
    let mut path: Vec<String> = vec![element.to_owned()];
    loop {
        let last = path.last().and_then(|name| graph.node_index(name));
        let Some(last) = last else { return path };
        let sends_data = |connection: &&nw_graph_language::Connection| {
            let into = matches!(connection.to, Target::Port(node, _) if node == last);
            into && graph.kinds_from(connection.from).contains(&Kind::Data)
                && graph.kinds_into(connection.to).contains(&Kind::Data)
        };
        let next = graph.connections.iter().filter(sends_data).find_map(|connection| {
            let Source::Port(node, _) = connection.from else { return None };
            let node = &graph.nodes[node];
            (!path.contains(&node.name)).then(|| node.name.clone())
        });
        match next {
            Some(next) => path.push(next),
            None => return path,
        }
    }
}
