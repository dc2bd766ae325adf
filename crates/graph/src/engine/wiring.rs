//! The connections of a graph in the form the engine follows: indices instead of names. [`Wiring`]
//! is built once per graph; only its counters and the mapping of faces change while it is in use.

use crate::model::{ALL_KINDS, Graph, Source, Target};
use nw_element_api::{FaceId, Kind};
use std::collections::BTreeMap;

/// Where a packet goes next, in two bytes: an input port, a face, the packet's egress face, a tap,
/// or nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link(u16);

/// An input port: an element slot of the engine, and the port index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InputPort {
    /// Slot index of the element.
    pub element: u16,
    /// Port index of the element.
    pub port: u8,
    /// Index of the element's first entry in [`Wiring::links`].
    pub links: u16,
}

/// Maximum number of input ports of all elements.
pub const INPUT_PORTS_MAX: usize = 0x8000;
/// Maximum number of faces in a graph.
pub const FACES_MAX: usize = 0x7f00;

impl Link {
    /// No connection: packets are dropped and counted.
    pub const UNCONNECTED: Link = Link(u16::MAX);
    /// Out of the graph, by the packet's egress face.
    pub const EGRESS: Link = Link(u16::MAX - 1);
    /// The first tap.
    const FIRST_TAP: u16 = (INPUT_PORTS_MAX + FACES_MAX) as u16;

    /// Returns the link in decoded form.
    #[inline]
    pub fn destination(self) -> Destination {
        match self.0 {
            at if usize::from(at) < INPUT_PORTS_MAX => Destination::InputPort(usize::from(at)),
            at if usize::from(at) < INPUT_PORTS_MAX + FACES_MAX => {
                Destination::Face(usize::from(at) - INPUT_PORTS_MAX)
            }
            at if at == Link::EGRESS.0 => Destination::Egress,
            at if at == Link::UNCONNECTED.0 => Destination::Unconnected,
            at => Destination::Tap(usize::from(at - Link::FIRST_TAP)),
        }
    }
}

/// A [`Link`], decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// An entry of [`Wiring::input_ports`].
    InputPort(usize),
    /// Out of the graph, by a face of the graph.
    Face(usize),
    /// Out of the graph, by the packet's egress face.
    Egress,
    /// Through an entry of [`Wiring::tapped_links`].
    Tap(usize),
    /// No connection.
    Unconnected,
}

/// An output port at which packets are captured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TappedPort {
    /// Number by which captures know it.
    pub number: u32,
    /// Name of the element in the graph.
    pub node: String,
    /// Name of the port.
    pub port: &'static str,
}

/// A link that leads through a tap.
#[derive(Clone, Copy, Debug)]
pub struct TappedLink {
    /// Where packets go on.
    pub link: Link,
    /// Number of the port.
    pub number: u32,
    /// Index in [`Wiring::links`].
    index: usize,
}

/// Maximum number of links that lead through taps.
pub const TAPPED_LINKS_MAX: usize = 128;
const _: () = assert!(Link::FIRST_TAP as usize + TAPPED_LINKS_MAX < Link::EGRESS.0 as usize);

/// All connections of one graph, with packet counters.
#[derive(Debug, Default)]
pub struct Wiring {
    /// All input ports, element by element.
    pub input_ports: Vec<InputPort>,
    /// The link of each output port, element by element.
    pub links: Vec<Link>,
    /// Packets that entered each input port since this wiring is in use.
    pub packets_in: Vec<u64>,
    /// Packets that left by each output port since this wiring is in use.
    pub packets_out: Vec<u64>,
    /// By element slot: index of its first input port and of its first link.
    first_indices: Vec<(usize, usize)>,
    /// By input port: the input ports on the usual path of a packet that enters there, itself
    /// first. Used to prefetch.
    pub main_path: Vec<Vec<usize>>,
    /// By input port: true if only faces and other such elements are connected to its element.
    /// These elements (the pre-stages) process the whole batch before all others.
    pub is_pre_stage: Vec<bool>,
    /// By input port: true if no packet that leaves this element can return to it. Then several
    /// packets may enter it one after another before the first one goes on, without a change of
    /// order.
    pub is_linear: Vec<bool>,
    /// By face of the graph: the link for each packet kind.
    inputs: Vec<[Link; KINDS]>,
    /// By slot of the router's face: the same.
    by_face_slot: Vec<[Link; KINDS]>,
    /// True if no element tracks pending Interests: replies then find their way by return labels.
    pub uses_labels: bool,
    /// Links that lead through taps.
    pub tapped_links: Vec<TappedLink>,
    /// By node and output port: the index in `links`.
    outputs: BTreeMap<(String, &'static str), usize>,
}

/// Number of packet kinds.
const KINDS: usize = ALL_KINDS.len();

/// Returns the target of packets from a face, by kind: the port that accepts the kind, otherwise a
/// face if a connection leads to one.
fn inputs(graph: &Graph, face: usize) -> [Option<Target>; KINDS] {
    let own =
        || graph.connections.iter().filter(move |connection| connection.from == Source::Face(face));
    let from = if own().next().is_some() { Source::Face(face) } else { Source::Faces };
    let connections = || graph.connections.iter().filter(move |connection| connection.from == from);
    let takes = |to: Target, kind: Kind| {
        matches!(to, Target::Port(..)) && graph.kinds_into(to).contains(&kind)
    };
    core::array::from_fn(|number| {
        let to_port = connections().find(|connection| takes(connection.to, ALL_KINDS[number]));
        to_port
            .or_else(|| connections().find(|connection| !matches!(connection.to, Target::Port(..))))
            .map(|connection| connection.to)
    })
}

/// Maximum length of the usual path that is prefetched.
const MAIN_PATH_LEN_MAX: usize = 4;

impl Wiring {
    /// Builds the wiring of a graph whose node `i` is in the engine's slot `slots[i]`.
    pub fn new(graph: &Graph, slots: &[usize]) -> Self {
        let mut wiring = Wiring {
            uses_labels: !graph.nodes.iter().any(|node| node.entry.tracks_pending),
            ..Wiring::default()
        };
        let mut first_port = Vec::new();
        let mut links = 0;
        wiring.first_indices = vec![(0, 0); slots.iter().max().map_or(0, |slot| slot + 1)];
        for (node, slot) in graph.nodes.iter().zip(slots) {
            first_port.push(wiring.input_ports.len());
            wiring.first_indices[*slot] = (wiring.input_ports.len(), links);
            let input =
                |port| InputPort { element: *slot as u16, port: port as u8, links: links as u16 };
            wiring.input_ports.extend((0..node.entry.ins.len()).map(input));
            let outputs = node.entry.outs.iter().enumerate();
            wiring
                .outputs
                .extend(outputs.map(|(at, out)| ((node.name.clone(), out.name), links + at)));
            links += node.entry.outs.len();
        }
        let fits = wiring.input_ports.len() <= INPUT_PORTS_MAX
            && links <= INPUT_PORTS_MAX
            && graph.faces.len() <= FACES_MAX;
        assert!(fits, "the checker rejects larger graphs");
        let link_to = |target: Target| match target {
            Target::Face(face) => Link((INPUT_PORTS_MAX + face) as u16),
            Target::Faces => Link::EGRESS,
            Target::Port(node, port) => Link((first_port[node] + usize::from(port)) as u16),
        };
        let link_by_source: BTreeMap<Source, Link> = graph
            .connections
            .iter()
            .map(|connection| (connection.from, link_to(connection.to)))
            .collect();
        let link_of =
            |from: Source| link_by_source.get(&from).copied().unwrap_or(Link::UNCONNECTED);
        for (number, node) in graph.nodes.iter().enumerate() {
            wiring.links.extend(
                (0..node.entry.outs.len()).map(|port| link_of(Source::Port(number, port as u8))),
            );
        }
        wiring.packets_in = vec![0; wiring.input_ports.len()];
        wiring.packets_out = vec![0; wiring.links.len()];
        wiring.inputs = (0..graph.faces.len())
            .map(|face| inputs(graph, face).map(|to| to.map_or(Link::UNCONNECTED, link_to)))
            .collect();
        wiring.main_path = wiring.main_paths(graph, slots);
        wiring.is_pre_stage = wiring.pre_stage_ports(graph, &first_port);
        wiring.is_linear = wiring.linear_ports(graph);
        wiring
    }

    fn main_paths(&self, graph: &Graph, slots: &[usize]) -> Vec<Vec<usize>> {
        let entry_of = |element: usize| {
            slots.iter().position(|slot| *slot == element).map(|at| graph.nodes[at].entry)
        };
        let path = |first: usize| {
            let mut path = vec![first];
            while path.len() < MAIN_PATH_LEN_MAX
                && let InputPort { element, port, links } = self.input_ports[path[path.len() - 1]]
                && let Some(out) =
                    entry_of(usize::from(element)).and_then(|entry| (entry.main_output)(port))
                && let Destination::InputPort(next) =
                    self.links[usize::from(links) + usize::from(out)].destination()
                && !path.contains(&next)
            {
                path.push(next);
            }
            path
        };
        (0..self.input_ports.len()).map(path).collect()
    }

    fn linear_ports(&self, graph: &Graph) -> Vec<bool> {
        let ports = graph.nodes.iter().flat_map(|node| {
            (0..node.entry.ins.len()).map(|port| (node.entry.outputs_for)(port as u8))
        });
        let next: Vec<Vec<usize>> = ports
            .zip(&self.input_ports)
            .map(|(outs, input)| {
                let targets = outs
                    .into_iter()
                    .map(|out| self.links[usize::from(input.links) + usize::from(out)]);
                targets
                    .filter_map(|target| {
                        if let Destination::InputPort(next) = target.destination() {
                            Some(next)
                        } else {
                            None
                        }
                    })
                    .collect()
            })
            .collect();
        let is_never_reentered = |first: usize| {
            let (mut seen, mut queue) = (vec![false; self.input_ports.len()], next[first].clone());
            while let Some(input) = queue.pop() {
                if self.input_ports[input].element == self.input_ports[first].element {
                    return false;
                }
                if !core::mem::replace(&mut seen[input], true) {
                    queue.extend(&next[input]);
                }
            }
            true
        };
        (0..self.input_ports.len()).map(is_never_reentered).collect()
    }

    /// Returns the largest cycle-free set of elements to which only faces and each other are
    /// connected.
    fn pre_stage_ports(&self, graph: &Graph, first_port: &[usize]) -> Vec<bool> {
        let mut is_pre_stage = vec![false; graph.nodes.len()];
        loop {
            let is_next = |node: usize| {
                !is_pre_stage[node]
                    && graph.connections.iter().all(|connection| {
                        match (connection.from, connection.to) {
                            (Source::Port(from, _), Target::Port(to, _)) if to == node => {
                                is_pre_stage[from]
                            }
                            _ => true,
                        }
                    })
            };
            let next: Vec<usize> = (0..graph.nodes.len()).filter(|node| is_next(*node)).collect();
            if next.is_empty() {
                break;
            }
            next.into_iter().for_each(|node| is_pre_stage[node] = true);
        }
        let mut input_ports = vec![false; self.input_ports.len()];
        for (node, first) in first_port.iter().enumerate() {
            input_ports[*first..*first + graph.nodes[node].entry.ins.len()]
                .fill(is_pre_stage[node]);
        }
        input_ports
    }

    /// Leads packets of these output ports through taps, and those of all others as the graph
    /// connects them. Ports that do not exist are ignored.
    pub fn set_taps(&mut self, ports: &[TappedPort]) {
        for tapped in self.tapped_links.drain(..) {
            self.links[tapped.index] = tapped.link;
        }
        for TappedPort { number, node, port } in ports.iter().take(TAPPED_LINKS_MAX) {
            let Some(index) = self.outputs.get(&(node.clone(), *port)).copied() else { continue };
            let tap = Link(Link::FIRST_TAP + self.tapped_links.len() as u16);
            let link = core::mem::replace(&mut self.links[index], tap);
            self.tapped_links.push(TappedLink { link, number: *number, index });
        }
    }

    /// Returns the index of an element's first entry in [`links`](Self::links).
    pub fn first_link(&self, element: usize) -> usize {
        self.first_indices[element].1
    }

    /// Returns the counters of an element and all after it: packets in by port, packets out by
    /// port.
    pub fn counts(&self, element: usize) -> (&[u64], &[u64]) {
        let (input, route) = self.first_indices.get(element).copied().unwrap_or_default();
        (&self.packets_in[input..], &self.packets_out[route..])
    }

    /// Returns the link for packets of a kind that arrive by a face.
    #[inline]
    pub fn input(&self, face: FaceId, kind: Kind) -> Link {
        self.by_face_slot.get(face.slot()).map_or(Link::UNCONNECTED, |inputs| inputs[kind as usize])
    }

    /// Lets packets of a router face enter the graph as packets of a face of the graph.
    pub fn attach_face(&mut self, face: FaceId, graph_face: usize) {
        if self.by_face_slot.len() <= face.slot() {
            self.by_face_slot.resize(face.slot() + 1, [Link::UNCONNECTED; KINDS]);
        }
        self.by_face_slot[face.slot()] =
            self.inputs.get(graph_face).copied().unwrap_or([Link::UNCONNECTED; KINDS]);
    }

    /// Lets the replies of a face that the graph no longer has enter where those of its default
    /// face enter, or else those of its first connecting face. Interests of the face are dropped.
    pub fn attach_removed_face(&mut self, face: FaceId, graph: &Graph) {
        let substitute = graph
            .faces
            .iter()
            .position(|declared| declared.is_default)
            .or_else(|| graph.faces.iter().position(|declared| !declared.is_listener));
        let Some(substitute) = substitute else { return };
        self.attach_face(face, substitute);
        self.by_face_slot[face.slot()][Kind::Interest as usize] = Link::UNCONNECTED;
    }
}
