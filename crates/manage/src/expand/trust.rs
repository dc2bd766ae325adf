//! Gives the network's keys and rules to everything that verifies: to signature verifiers, for
//! Data, and to name routers that take commands, for registrations. What an element has of its own
//! stays.

use crate::target::Decisions;
use nw_element_api::Value;
use nw_graph_language::network::Network;
use nw_graph_language::{Graph, Node};

/// Parameters of an element that hold anchors, certificates and rules.
type Names = [&'static str; 3];

const VERIFIER: Names = ["anchors", "certificates", "rules"];
const COMMANDS: Names = ["command_anchors", "command_certificates", "command_rules"];

/// Anchors, certificates and rules as values of parameters.
pub(super) struct Trust([Vec<Value>; 3]);

impl Trust {
    /// Returns what document and decisions trust, without anchors that have not been read.
    pub fn new(network: &Network, decisions: &Decisions) -> Self {
        let read = network.anchors.iter().filter_map(|known| decisions.anchors.get(&known.file));
        let mut anchors: Vec<Value> = read.cloned().map(Value::Text).collect();
        let text = |certificate: &String| Value::Text(certificate.clone());
        anchors.extend(decisions.added_anchors.iter().map(text));
        let document = network.permissions.iter().map(|rule| (&rule.names, &rule.keys));
        let added = decisions.added_rules.iter().map(|rule| (&rule.names, &rule.keys));
        let rules = document.chain(added);
        let rules = rules.map(|(names, keys)| Value::Text(format!("{names} by {keys}")));
        let certificates = decisions.certificates.iter().map(text);
        Trust([anchors, certificates.collect(), rules.collect()])
    }

    /// Returns the parameters of a new verifier.
    pub fn parameters(self) -> Vec<(&'static str, Value)> {
        VERIFIER.into_iter().zip(self.0.map(Value::List)).collect()
    }

    /// Adds it to all elements of a graph that verify.
    pub fn apply(&self, graph: &mut Graph) {
        for node in &mut graph.nodes {
            match node.entry.name {
                "signature_verifier" => self.add(node, VERIFIER),
                "name_router" if takes_commands(node) => self.add(node, COMMANDS),
                _ => {}
            }
        }
    }

    fn add(&self, node: &mut Node, names: Names) {
        for (name, values) in names.into_iter().zip(&self.0) {
            if values.is_empty() {
                continue;
            }
            let parameters = &mut node.parameters.0;
            let at = parameters.iter().position(|(known, _)| known == name).unwrap_or_else(|| {
                parameters.push((name.to_owned(), Value::List(Vec::new())));
                parameters.len() - 1
            });
            let Value::List(list) = &mut parameters[at].1 else { continue };
            for value in values {
                if !list.contains(value) {
                    list.push(value.clone());
                }
            }
        }
    }
}

fn takes_commands(node: &Node) -> bool {
    let is_empty = |value: &Value| matches!(value, Value::List(list) if list.is_empty());
    node.parameters.0.iter().any(|(name, value)| name == "commands" && !is_empty(value))
}
