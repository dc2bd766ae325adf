//! A network of services without services: an engine that carries out actions on graph texts, with
//! calls that fail, are repeated or take effect late, and packets as sets of paths.

use nw_element_api::{Kind, Value};
use nw_graph_language::{Graph, GraphFile, Source, Target as To};
use nw_manage::observed::{InstanceState, ObservedFace, ObservedInstance};
use nw_manage::plan::{Action, OnLimit, Step};
use nw_manage::{InstanceId, Observed, Plan, Target};
use std::collections::{BTreeMap, BTreeSet};

/// Folder of the sockets between instances.
pub const FOLDER: &str = "/run/nw/net";
/// Looks at the world within a step's time limit.
const LOOKS: usize = 24;
/// Interests pending by a face that is in use.
const IN_USE: u64 = 2;

/// An instance.
#[derive(Clone)]
pub struct Fake {
    pub state: InstanceState,
    pub text: String,
    pub graph: Graph,
    pending_by: BTreeMap<String, u64>,
    pending: u64,
    imported: u64,
}

/// What goes wrong with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It works.
    None,
    /// It fails without effect.
    Fails,
    /// It takes effect, but its answer is lost: it is repeated.
    Repeats,
    /// It takes effect when the next call is made.
    Delays,
}

/// All instances.
#[derive(Clone, Default)]
pub struct World {
    pub instances: BTreeMap<InstanceId, Fake>,
    /// Interests whose replies were lost.
    pub lost: u64,
    /// Calls so far.
    pub calls: usize,
    late: Vec<Action>,
}

/// How carrying out a plan ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Done,
    /// A step's time limit passed.
    Failed,
    /// The call at which the manager was to end was reached.
    Interrupted,
}

fn parse(text: &str) -> Graph {
    let (file, problems) = GraphFile::parse(text);
    assert!(problems.is_empty(), "{problems:?}\n{text}");
    file.graph
}

impl World {
    /// Returns a world in which exactly the target runs.
    pub fn of(target: &Target) -> World {
        let mut world = World::default();
        for instance in &target.instances {
            world.start(&instance.id, &instance.graph);
        }
        world
    }

    fn start(&mut self, id: &InstanceId, text: &str) {
        let fake = Fake {
            state: InstanceState::Running,
            text: text.to_owned(),
            graph: parse(text),
            pending_by: BTreeMap::new(),
            pending: 0,
            imported: 0,
        };
        self.instances.insert(id.clone(), fake);
    }

    /// Carries out an action, as a real engine would: what is done already is not done again.
    pub fn apply(&mut self, action: &Action) {
        match action {
            Action::Start { instance, graph, .. } => {
                if !self.instances.contains_key(instance) {
                    self.start(instance, graph);
                }
            }
            Action::Await { .. } => {}
            Action::SetGraph { instance, graph, .. } => {
                let Some(fake) = self.instances.get_mut(instance) else { return };
                let new = parse(graph);
                for (face, pending) in &fake.pending_by {
                    if new.face_index(face).is_none() {
                        self.lost += pending;
                    }
                }
                fake.pending_by.retain(|face, _| new.face_index(face).is_some());
                (fake.text, fake.graph) = (graph.clone(), new);
            }
            Action::CopyStore { to, .. } => {
                if let Some(fake) = self.instances.get_mut(to) {
                    fake.imported += 1;
                }
            }
            Action::Drain { instance } => {
                if let Some(fake) = self.instances.get_mut(instance) {
                    fake.state = InstanceState::Draining;
                }
            }
            Action::Stop { instance } => {
                if let Some(fake) = self.instances.remove(instance) {
                    self.lost += fake.pending;
                }
            }
        }
    }

    /// Lets some time pass: replies arrive, drained instances end.
    pub fn pass_time(&mut self) {
        let used: BTreeSet<InstanceId> = self
            .instances
            .iter()
            .flat_map(|(id, fake)| {
                let faces = sending_faces(&fake.graph);
                faces
                    .into_iter()
                    .filter_map(|face| self.peer(id, face).map(|(peer, _)| peer.clone()))
            })
            .collect();
        for (id, fake) in &mut self.instances {
            fake.pending_by.values_mut().for_each(|pending| *pending = pending.saturating_sub(1));
            for face in sending_faces(&fake.graph) {
                fake.pending_by.insert(fake.graph.faces[face].name.clone(), IN_USE);
            }
            let is_used = used.contains(id) && fake.state == InstanceState::Running;
            fake.pending = if is_used { IN_USE } else { fake.pending.saturating_sub(1) };
            if fake.state == InstanceState::Draining && fake.pending == 0 {
                fake.state = InstanceState::Ended;
            }
        }
    }

    /// Returns what engines and control sockets would report.
    pub fn observe(&self) -> Observed {
        let observed = |(id, fake): (&InstanceId, &Fake)| ObservedInstance {
            id: id.clone(),
            state: fake.state,
            graph: (fake.state != InstanceState::Ended).then(|| fake.text.clone()),
            faces: (0..fake.graph.faces.len())
                .map(|face| ObservedFace {
                    name: fake.graph.faces[face].name.clone(),
                    is_up: !is_link(&fake.graph, face) || self.peer(id, face).is_some(),
                    pending: fake
                        .pending_by
                        .get(&fake.graph.faces[face].name)
                        .copied()
                        .unwrap_or(0),
                })
                .collect(),
            pending: fake.pending,
            is_changing: false,
            cached_packets: u64::from(fake.text.contains("content_store")),
            imported_packets: fake.imported,
        };
        Observed { instances: self.instances.iter().map(observed).collect() }
    }

    /// Returns the instance and face at the other end of a link.
    fn peer(&self, id: &InstanceId, face: usize) -> Option<(&InstanceId, usize)> {
        let own = &self.instances[id].graph.faces[face];
        self.instances.iter().filter(|(other, _)| *other != id).find_map(|(other, fake)| {
            let matches = |peer: &nw_graph_language::Face| {
                peer.uri == own.uri && peer.is_listener != own.is_listener && peer.uri.is_some()
            };
            let alive = matches!(fake.state, InstanceState::Running | InstanceState::Draining);
            let face = fake.graph.faces.iter().position(matches).filter(|_| alive)?;
            Some((other, face))
        })
    }

    /// Carries out a plan. `faults` says what goes wrong with each call, `end` after how many calls
    /// the manager ends; `check` is called after each action.
    pub fn carry_out(
        &mut self,
        plan: &Plan,
        faults: &mut dyn FnMut(usize) -> Fault,
        end: Option<usize>,
        check: &mut dyn FnMut(&World, &Step),
    ) -> Outcome {
        for wave in &plan.waves {
            let mut waiting: Vec<&Step> = wave.steps.iter().collect();
            for _ in 0..LOOKS {
                let observed = self.observe();
                waiting.retain(|step| !step.evidence.holds(&observed));
                if waiting.is_empty() {
                    break;
                }
                for step in &waiting {
                    if !step.precondition.holds(&self.observe()) {
                        continue;
                    }
                    if end.is_some_and(|end| self.calls >= end) {
                        return Outcome::Interrupted;
                    }
                    let late = std::mem::take(&mut self.late);
                    late.iter().for_each(|action| self.apply(action));
                    self.calls += 1;
                    match faults(self.calls) {
                        Fault::None => self.apply(&step.action),
                        Fault::Fails => {}
                        Fault::Repeats => {
                            self.apply(&step.action);
                            self.apply(&step.action);
                        }
                        Fault::Delays => self.late.push(step.action.clone()),
                    }
                    check(self, step);
                }
                self.pass_time();
                let late = std::mem::take(&mut self.late);
                late.iter().for_each(|action| self.apply(action));
            }
            let observed = self.observe();
            waiting.retain(|step| !step.evidence.holds(&observed));
            if waiting.iter().any(|step| step.on_limit == OnLimit::Fail) {
                return Outcome::Failed;
            }
        }
        Outcome::Done
    }

    /// Returns the pairs of a face that consumers use and a prefix that Interests reach a producer
    /// from, whatever choice elements make.
    pub fn reachable(&self, prefixes: &[&'static str]) -> BTreeSet<(String, &'static str)> {
        let mut found = BTreeSet::new();
        for (id, fake) in &self.instances {
            for (at, face) in fake.graph.faces.iter().enumerate() {
                if !face.is_listener || is_link(&fake.graph, at) {
                    continue;
                }
                for prefix in prefixes {
                    if self.arrives(id, at, prefix, &mut Vec::new()) {
                        found.insert((face.name.clone(), *prefix));
                    }
                }
            }
        }
        found
    }

    /// Returns whether an Interest that arrives at an instance by a face reaches a producer.
    fn arrives(
        &self,
        id: &InstanceId,
        face: usize,
        prefix: &str,
        path: &mut Vec<(InstanceId, usize)>,
    ) -> bool {
        let fake = &self.instances[id];
        let here = (id.clone(), face);
        if fake.state != InstanceState::Running || path.contains(&here) {
            return false;
        }
        path.push(here);
        let own = Source::Face(face);
        let has_own = fake.graph.connections.iter().any(|connection| connection.from == own);
        let from = if has_own { own } else { Source::Faces };
        let done = self.leaves(id, from, (face, None), prefix, path, 0);
        path.pop();
        done
    }

    fn leaves(
        &self,
        id: &InstanceId,
        from: Source,
        (ingress, egress): (usize, Option<usize>),
        prefix: &str,
        path: &mut Vec<(InstanceId, usize)>,
        steps: usize,
    ) -> bool {
        let graph = &self.instances[id].graph;
        if steps > graph.nodes.len() {
            return false;
        }
        match graph.target_for(from, Kind::Interest) {
            None => false,
            Some(To::Face(face)) => self.sent(id, face, prefix, path),
            Some(To::Faces) => egress.is_some_and(|face| self.sent(id, face, prefix, path)),
            Some(To::Port(node, _)) => {
                let entry = graph.nodes[node].entry;
                let outs = (0..entry.outs.len() as u8).filter(|out| {
                    entry.outs[usize::from(*out)].kinds.contains(&Kind::Interest)
                        && !entry.is_closed(*out, &graph.nodes[node].parameters)
                });
                let choices = choices(graph, node, prefix, ingress);
                let choices = match choices {
                    None => vec![egress],
                    Some(faces) if faces.is_empty() => return false,
                    Some(faces) => faces.into_iter().map(Some).collect(),
                };
                outs.into_iter().all(|out| {
                    choices.iter().all(|egress| {
                        let from = Source::Port(node, out);
                        self.leaves(id, from, (ingress, *egress), prefix, path, steps + 1)
                    })
                })
            }
        }
    }

    fn sent(
        &self,
        id: &InstanceId,
        face: usize,
        prefix: &str,
        path: &mut Vec<(InstanceId, usize)>,
    ) -> bool {
        let own = &self.instances[id].graph.faces[face];
        match self.peer(id, face) {
            Some((peer, face)) => self.arrives(&peer.clone(), face, prefix, path),
            // A producer's address.
            None => !own.is_listener && !is_link(&self.instances[id].graph, face),
        }
    }
}

/// Returns whether a face is the end of a link between instances.
fn is_link(graph: &Graph, face: usize) -> bool {
    let face = &graph.faces[face];
    let uri = face.uri.as_deref().unwrap_or_default();
    uri.contains(FOLDER) || uri.starts_with("tcp4://127.0.0.1:16")
}

/// Returns the faces that an element may send an Interest to. `None` if it chooses none.
fn choices(graph: &Graph, node: usize, prefix: &str, ingress: usize) -> Option<Vec<usize>> {
    let node = &graph.nodes[node];
    if !node.entry.chooses_egress {
        return None;
    }
    let Some(Value::List(routes)) = node.parameters.get("routes") else { return Some(Vec::new()) };
    let texts = routes.iter().filter_map(|route| match route {
        Value::Text(text) => Some(text.as_str()),
        _ => None,
    });
    let covers = |route: &str| {
        route == "/"
            || prefix == route
            || prefix.strip_prefix(route).is_some_and(|rest| rest.starts_with('/'))
    };
    let best = texts
        .filter(|text| text.split_whitespace().next().is_some_and(covers))
        .max_by_key(|text| text.split_whitespace().next().map(str::len));
    let words = best.unwrap_or_default().split_whitespace().skip(1);
    let faces: Vec<usize> = words
        .filter(|word| !word.starts_with("cost="))
        .map(|word| {
            graph
                .face_index(word)
                .unwrap_or_else(|| panic!("a route to {word:?}, which is no face"))
        })
        .filter(|face| *face != ingress)
        .collect();
    // Name routers use the cheapest; routes are written cheapest first.
    let takes_one = node.entry.name != "strategy_forwarder";
    Some(if takes_one { faces.into_iter().take(1).collect() } else { faces })
}

/// Returns the faces that Interests leave a graph by.
fn sending_faces(graph: &Graph) -> BTreeSet<usize> {
    let direct = graph.connections.iter().filter_map(|connection| match connection.to {
        To::Face(face) if graph.kinds_from(connection.from).contains(&Kind::Interest) => {
            (graph.target_for(connection.from, Kind::Interest) == Some(connection.to))
                .then_some(face)
        }
        _ => None,
    });
    let mut faces: BTreeSet<usize> = direct.collect();
    for node in &graph.nodes {
        if let Some(Value::List(routes)) = node.parameters.get("routes") {
            for route in routes {
                if let Value::Text(text) = route {
                    let words = text.split_whitespace().skip(1);
                    faces.extend(words.filter_map(|word| graph.face_index(word)));
                }
            }
        }
    }
    faces
}
