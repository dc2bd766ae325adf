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
use nw_elements::signature_verifier::Fault;
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
    /// Names among them of which the verifier has accepted Data as well.
    pub contested: Vec<String>,
    /// Data that its verifier rejected since the last sample only because a certificate is missing.
    pub unverifiable: u64,
    /// Interests received and not answered, by face of the document, since its start.
    pub unsatisfied: Vec<(String, u64)>,
}

/// Returns whether a verifier rejected a packet only because a certificate is missing.
pub fn is_certificate_missing(reason: &str) -> bool {
    reason == Fault::CertificateMissing.as_str()
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
    /// What to erase, once.
    pub erase: Vec<Erasure>,
}

/// Packets to erase.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Erasure {
    /// Prefix of their names.
    pub prefix: String,
    /// Element to erase them from, if it is a content store; `None`: from all content stores.
    pub element: Option<String>,
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
    /// Whether what is usual is not known yet: nothing is suspicious then.
    pub is_learning: bool,
    /// Why the state is what it is, with figures. Empty before the first change.
    pub reason: String,
    /// Countermeasures in effect.
    pub countermeasures: Vec<Countermeasure>,
}

/// A machine of one element.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Machine {
    Poisoning(Poisoning),
    Flooding(Flooding),
}

/// A machine as it is kept for the next process.
#[derive(Serialize, Deserialize)]
struct StoredMachine {
    attack: Attack,
    element: String,
    reason: String,
    machine: Machine,
}

/// The defences of a network.
#[derive(Clone, Debug, Default)]
pub struct Defences {
    machines: BTreeMap<(Attack, String), (Defence, Machine)>,
    vetoes: BTreeSet<String>,
    /// Last reason of each machine.
    reasons: BTreeMap<(Attack, String), String>,
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
        self.reasons.retain(|key, _| watched.contains_key(key));
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
                self.reasons.insert(key.clone(), reason.clone());
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
            if !is_allowed(element) {
                continue;
            }
            for made in machine.countermeasures(element, defence) {
                // Two watched stores may lead to the same place.
                if !all.iter().any(|known| known.element_name() == made.element_name()) {
                    all.push(made);
                }
            }
        }
        all
    }

    /// Returns all states as JSON, for [`restore`](Self::restore) in the next process.
    pub fn export(&self) -> String {
        let stored = self.machines.iter().map(|(key, (_, machine))| StoredMachine {
            attack: key.0,
            element: key.1.clone(),
            reason: self.reasons.get(key).cloned().unwrap_or_default(),
            machine: machine.clone(),
        });
        // Numbers, texts and lists: this can't fail.
        serde_json::to_string(&stored.collect::<Vec<_>>()).unwrap_or_default()
    }

    /// Takes over states of an earlier process, of elements that the document still watches in the
    /// same way. Text of another version is ignored: the defences learn anew then.
    pub fn restore(&mut self, document: &Document, text: &str) {
        let watched = watched(document);
        let stored: Vec<StoredMachine> = serde_json::from_str(text).unwrap_or_default();
        for StoredMachine { attack, element, reason, machine } in stored {
            let key = (attack, element);
            let Some(defence) = watched.get(&key) else { continue };
            let fits = match &machine {
                Machine::Poisoning(machine) => {
                    machine.has_path(&data_path(&document.file.graph, &key.1))
                }
                Machine::Flooding(_) => true,
            };
            if fits {
                self.reasons.insert(key.clone(), reason);
                self.machines.insert(key, (defence.clone(), machine));
            }
        }
    }

    /// Forbids or allows countermeasures at an element. A veto removes what is in effect.
    pub fn set_veto(&mut self, element: &str, is_forbidden: bool) {
        if is_forbidden {
            self.vetoes.insert(element.to_owned());
        } else {
            self.vetoes.remove(element);
        }
        self.remove(element);
    }

    /// Removes what is in effect for a watched element. Its defences learn anew what is usual.
    pub fn remove(&mut self, element: &str) {
        self.machines.retain(|(_, watched), _| watched != element);
        self.reasons.retain(|(_, watched), _| watched != element);
    }

    /// Returns the state of the defence of each watched element.
    pub fn status(&self, document: &Document) -> Vec<DefenceStatus> {
        let status = |(attack, element): &(Attack, String)| {
            let key = (*attack, element.clone());
            let machine = self.machines.get(&key);
            let is_vetoed = self.vetoes.contains(element);
            let in_effect = machine
                .filter(|_| !is_vetoed)
                .map(|(defence, machine)| machine.countermeasures(element, defence));
            DefenceStatus {
                state: machine.map(|(_, machine)| machine.state()).unwrap_or_default(),
                is_vetoed,
                is_learning: machine.is_none_or(|(_, machine)| machine.is_learning()),
                reason: self.reasons.get(&key).cloned().unwrap_or_default(),
                countermeasures: in_effect.unwrap_or_default(),
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

    fn is_learning(&self) -> bool {
        match self {
            Machine::Poisoning(machine) => machine.is_learning(),
            Machine::Flooding(machine) => machine.is_learning(),
        }
    }

    fn countermeasures(&self, element: &str, defence: &Defence) -> Vec<Countermeasure> {
        match self {
            Machine::Poisoning(machine) => machine.countermeasures(defence),
            Machine::Flooding(machine) => machine.countermeasures(element, defence),
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
/// its path towards an origin of fake Data. Of several elements that send Data to one, the path
/// goes by the one that consumers do not enter, then by the one with most elements behind it.
fn data_path(graph: &Graph, element: &str) -> Vec<String> {
    let Some(first) = graph.node_index(element) else { return vec![element.to_owned()] };
    let mut path = vec![first];
    while let Some(last) = path.last() {
        let candidates: Vec<usize> =
            data_senders(graph, *last).into_iter().filter(|node| !path.contains(node)).collect();
        let merit = |node: &usize| (!is_open(graph, *node), behind(graph, *node, &path));
        // The last of equals is taken, so from the end of the file.
        match candidates.into_iter().rev().max_by_key(merit) {
            Some(next) => path.push(next),
            None => break,
        }
    }
    path.into_iter().map(|node| graph.nodes[node].name.clone()).collect()
}

/// Returns the elements that send Data to one, in the order of the file.
fn data_senders(graph: &Graph, node: usize) -> Vec<usize> {
    use nw_element_api::Kind;
    let sends_data = |connection: &&nw_graph_language::Connection| {
        matches!(connection.to, Target::Port(to, _) if to == node)
            && graph.kinds_from(connection.from).contains(&Kind::Data)
            && graph.kinds_into(connection.to).contains(&Kind::Data)
    };
    let mut senders = Vec::new();
    for connection in graph.connections.iter().filter(sends_data) {
        if let Source::Port(from, _) = connection.from
            && !senders.contains(&from)
        {
            senders.push(from);
        }
    }
    senders
}

/// Returns whether an element receives packets of any peer that connects.
fn is_open(graph: &Graph, node: usize) -> bool {
    graph.connections.iter().any(|connection| {
        let is_own = matches!(connection.to, Target::Port(to, _) if to == node);
        is_own
            && matches!(connection.from, Source::Face(face)
                if graph.faces[face].is_listener && !graph.faces[face].is_single_peer)
    })
}

/// Returns the number of elements that Data of one come from, itself included, without `path`.
fn behind(graph: &Graph, node: usize, path: &[usize]) -> usize {
    let mut found = vec![node];
    let mut next = 0;
    while let Some(node) = found.get(next).copied() {
        next += 1;
        for sender in data_senders(graph, node) {
            if !found.contains(&sender) && !path.contains(&sender) {
                found.push(sender);
            }
        }
    }
    found.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_leads_away_from_consumers_and_by_most_elements() {
        // The dispatcher at the consumers is named first, as is a shorter branch.
        let text = "face c listens unix:///tmp/c\nface p = unix:///tmp/p\nface q = unix:///tmp/q\n\
            pd = packet_dispatcher\ncs = content_store\nbr = backward_router\nnr = name_router\n\
            cs2 = content_store\nsf = strategy_forwarder(routes = [\"/ p\"])\n\
            nr2 = name_router\nc -> pd.packet\npd.interest -> cs.interest\npd.data -> br.data\n\
            pd.nack -> br.nack\ncs.hit -> faces\ncs.miss -> br.interest -> nr.interest\n\
            q -> nr2.data -> br.data\nq -> nr2.nack -> br.nack\nq -> nr2.interest -> faces\n\
            nr.interest -> cs2.interest\ncs2.hit -> nr.data\ncs2.miss -> sf.interest -> faces\n\
            p -> sf.data -> cs2.data -> nr.data -> br.data -> cs.data -> faces\n\
            p -> sf.nack -> nr.nack -> br.nack -> faces\np -> nr.interest\n";
        let document =
            Document::read("n", "n.graph", text).unwrap_or_else(|error| panic!("{error}"));
        let path = data_path(&document.file.graph, "cs");
        assert_eq!(path, ["cs", "br", "nr", "cs2", "sf"]);
        assert_eq!(data_path(&document.file.graph, "none"), ["none"]);
    }
}
