//! Taps: captures of packets at output ports of elements.
//!
//! A tap changes the wiring between two batches: the link of its port leads to
//! [`Destination::Tap`](super::Destination), which observes packets and passes them on to where the
//! port led before. Without a tap no packet meets code of this file. The counters, the order of
//! packets and what is prefetched stay as they are.
//!
//! Bounds: those of [`Taps`], and [`TAPPED_LINKS_MAX`] ports.

use super::Engine;
use super::wiring::{Link, TAPPED_LINKS_MAX, TappedPort};
use nw_element_api::capture::{Capture, TapFilter, Taps};
use nw_element_api::{Packet, Pool, Timestamp};

/// Selects output ports of an element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortSelection {
    /// Name of the element in the graph.
    pub element: String,
    /// Name of the port; `None` selects all.
    pub port: Option<String>,
}

/// A capture that has started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StartedTap {
    /// Its id.
    pub id: u64,
    /// Output ports at which it captures, with their numbers in the capture, as `ELEMENT.PORT`.
    /// Empty if it captures at faces.
    pub ports: Vec<(u32, String)>,
}

/// Reasons why a capture can't start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TapError {
    /// The graph has no such element: its name, and the names there are.
    #[error("no element of this graph is called {0:?}: it has {names}", names = .1.join(", "))]
    NoElement(String, Vec<String>),
    /// The element has no such output: its name, that of the port, and the names there are.
    #[error("{0} has no output called {1:?}: it has {names}", names = .2.join(", "))]
    NoOutput(String, String, Vec<String>),
    /// The element has no output at all.
    #[error("{0} has no output: tap the element before it")]
    NoOutputs(String),
    /// As many captures are running as may.
    #[error("too many captures are running: stop one of them")]
    TooMany,
}

impl Engine {
    /// Starts a capture at faces, whose packets the caller observes with [`taps`](Self::taps), or
    /// at output ports.
    ///
    /// # Errors
    /// If the selection names nothing, or too many captures are running.
    pub fn start_tap(
        &mut self,
        now: Timestamp,
        filter: TapFilter,
        selection: Option<&PortSelection>,
    ) -> Result<StartedTap, TapError> {
        self.expire_taps(now);
        let Some(selection) = selection else {
            let id = self.taps.start(now, filter).ok_or(TapError::TooMany)?;
            return Ok(StartedTap { id, ports: Vec::new() });
        };
        let names = self.selected_outputs(selection)?;
        let known_ports = self.tapped_ports.len();
        let numbers: Vec<u32> =
            names.iter().map(|port| self.port_number(&selection.element, port)).collect();
        let started = match self.tapped_ports.len() <= TAPPED_LINKS_MAX {
            true => self.taps.start_at_ports(now, filter, numbers.clone()),
            false => None,
        };
        let Some(id) = started else {
            self.tapped_ports.truncate(known_ports);
            return Err(TapError::TooMany);
        };
        self.rewire_taps();
        let label = |port: &&str| format!("{}.{port}", selection.element);
        Ok(StartedTap { id, ports: numbers.into_iter().zip(names.iter().map(label)).collect() })
    }

    /// Returns the names of selected output ports, at least one.
    fn selected_outputs(&self, selection: &PortSelection) -> Result<Vec<&'static str>, TapError> {
        let PortSelection { element, port } = selection;
        let nodes = &self.graph.nodes;
        let node = nodes.iter().find(|node| node.name == *element).ok_or_else(|| {
            let known = nodes.iter().map(|node| node.name.clone()).collect();
            TapError::NoElement(element.clone(), known)
        })?;
        let outputs: Vec<&str> = node.entry.outs.iter().map(|out| out.name).collect();
        match port {
            _ if outputs.is_empty() => Err(TapError::NoOutputs(element.clone())),
            None => Ok(outputs),
            Some(port) => match outputs.iter().find(|output| *output == port) {
                Some(output) => Ok(vec![output]),
                None => {
                    let known = outputs.iter().map(|output| (*output).to_owned()).collect();
                    Err(TapError::NoOutput(element.clone(), port.clone(), known))
                }
            },
        }
    }

    /// Returns the number of a port, also if no capture is at it yet.
    fn port_number(&mut self, node: &str, port: &'static str) -> u32 {
        let is_same = |tapped: &&TappedPort| tapped.node == node && tapped.port == port;
        if let Some(tapped) = self.tapped_ports.iter().find(is_same) {
            return tapped.number;
        }
        let is_used = |number: u32| self.tapped_ports.iter().any(|known| known.number == number);
        let number = (0..).find(|number| !is_used(*number)).expect("few ports are tapped");
        self.tapped_ports.push(TappedPort { number, node: node.to_owned(), port });
        number
    }

    /// Returns the captures, to observe packets at faces.
    pub const fn taps(&mut self) -> &mut Taps {
        &mut self.taps
    }

    /// Fetches the packets captured since the last fetch. `None` if the capture has ended.
    pub fn take_tap(&mut self, now: Timestamp, id: u64) -> Option<Capture> {
        self.taps.take(now, id)
    }

    /// Stops a capture.
    pub fn stop_tap(&mut self, id: u64) {
        self.taps.stop(id);
        self.forget_unused_ports();
    }

    /// Ends captures that were not fetched for too long.
    pub fn expire_taps(&mut self, now: Timestamp) {
        if !self.taps.is_empty() {
            self.taps.expire(now);
            self.forget_unused_ports();
        }
    }

    /// Returns the output ports whose packets are captured, as `ELEMENT.PORT`.
    pub fn tapped_ports(&self) -> Vec<String> {
        self.tapped_ports.iter().map(|tapped| format!("{}.{}", tapped.node, tapped.port)).collect()
    }

    fn forget_unused_ports(&mut self) {
        let known = self.tapped_ports.len();
        self.tapped_ports.retain(|tapped| self.taps.uses_port(tapped.number));
        if self.tapped_ports.len() < known {
            self.rewire_taps();
        }
    }

    fn rewire_taps(&mut self) {
        self.wiring.set_taps(&self.tapped_ports);
        if let Some(transition) = &mut self.transition {
            transition.set_taps(&self.tapped_ports);
        }
    }

    /// Puts the taps into the wiring of a new graph. Captures none of whose ports it has end.
    pub(super) fn restore_taps(&mut self) {
        if self.tapped_ports.is_empty() {
            return;
        }
        let (nodes, ports) = (&self.graph.nodes, &self.tapped_ports);
        let has = |tapped: &TappedPort| {
            let node = nodes.iter().find(|node| node.name == tapped.node);
            node.is_some_and(|node| node.entry.outs.iter().any(|out| out.name == tapped.port))
        };
        self.taps.end_without_ports(|number| {
            ports.iter().any(|tapped| tapped.number == number && has(tapped))
        });
        self.tapped_ports.retain(|tapped| self.taps.uses_port(tapped.number));
        self.wiring.set_taps(&self.tapped_ports);
    }

    /// Lets captures observe packets that pass a tap, and returns the link by which they go on.
    #[cold]
    #[inline(never)]
    pub(super) fn observe(
        &mut self,
        now: Timestamp,
        tap: usize,
        packets: &[Packet],
        pool: &Pool,
    ) -> Link {
        let tapped = self.wiring.tapped_links[tap];
        self.taps.emitted(now, tapped.number, packets, pool);
        tapped.link
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nw_graph_language::GraphFile;
    use nw_name::HashKey;

    const GRAPH: &str = r#"
face a = udp4://192.0.2.1:6363 default
pd = packet_dispatcher
br = router(routes = ["/ a"])
discard = sink
faces -> pd.packet
pd.interest -> br.interest -> faces
pd.data -> br.data -> faces
pd.nack -> br.nack -> faces
br.route_event -> discard
"#;

    #[test]
    fn wiring_after_the_last_tap_is_that_before_the_first() {
        let file = GraphFile::read("test", GRAPH);
        let graph = file.unwrap_or_else(|problems| panic!("{problems}")).graph;
        let Ok(mut engine) = Engine::new(&graph, HashKey::new([1, 2, 3, 4]), 7) else {
            panic!("a good graph")
        };
        let links = engine.wiring.links.clone();
        let start = |engine: &mut Engine, element: &str| {
            let selection = PortSelection { element: element.to_owned(), port: None };
            engine.start_tap(Timestamp::START, TapFilter::default(), Some(&selection)).unwrap().id
        };
        let taps = [start(&mut engine, "br"), start(&mut engine, "pd"), start(&mut engine, "br")];
        assert!(engine.wiring.links.iter().zip(&links).all(|(now, before)| now != before));
        taps.into_iter().for_each(|id| engine.stop_tap(id));
        assert_eq!(engine.wiring.links, links);
        assert!(engine.wiring.tapped_links.is_empty());
    }
}
