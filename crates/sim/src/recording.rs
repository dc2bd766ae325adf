//! A run as a recording: states of all nodes and links at equal intervals of its time. The
//! simulator and a laboratory record the same.

use crate::applications::AppCounters;
use crate::link::LinkCounters;
use crate::scenario::RunPlan;
use crate::topology::Topology;
use nw_api::recording::{
    RecordedFrame, RecordedHealth, RecordedLink, RecordedNode, RecordedState, Recording,
};

/// Frames of a recorded run.
pub const FRAMES: u64 = 200;

/// Counters of a link, both directions: packets, and those that did not arrive.
type LinkCounts = (u64, u64);

/// A running scenario, as a recording shows it.
pub trait RecordedRun {
    /// Returns whether a link is up.
    fn is_link_up(&self, link: usize) -> bool;
    /// Returns whether a node is up.
    fn is_node_up(&self, node: usize) -> bool;
    /// Returns the counters of a link direction: 2n leads from the first end of link n, 2n + 1 to
    /// it. `None` if there is no such link.
    fn link_counters(&self, direction: usize) -> Option<&LinkCounters>;
    /// Returns the counters of the consumers.
    fn consumer_counters(&self) -> impl Iterator<Item = &AppCounters>;
}

/// Builds a recording step by step.
#[derive(Debug)]
pub struct RecordingBuilder {
    topology: Topology,
    recording: Recording,
    before: Vec<LinkCounts>,
    before_sent: (u64, u64),
    at_ns: u64,
}

impl RecordingBuilder {
    /// Creates the recording of a run before its start.
    pub fn new(plan: &RunPlan, title: &str) -> Self {
        let topology = plan.topology.clone();
        let recording = Recording {
            title: title.to_owned(),
            nodes: nodes(plan),
            links: links(&topology),
            ..Recording::default()
        };
        let before = vec![(0, 0); topology.links.len()];
        RecordingBuilder { topology, recording, before, before_sent: (0, 0), at_ns: 0 }
    }

    /// Adds the state at a moment.
    pub fn add_frame(&mut self, run: &impl RecordedRun, now_ns: u64) {
        let seconds = (now_ns - self.at_ns) as f64 / 1e9;
        self.at_ns = now_ns;
        if seconds <= 0.0 {
            return;
        }
        let mut nodes = vec![RecordedState::default(); self.topology.nodes.len()];
        let mut links = Vec::with_capacity(self.topology.links.len());
        let mut dropped_total = 0.0;
        for (index, edge) in self.topology.links.iter().enumerate() {
            let counts = counts(run, index);
            let before = core::mem::replace(&mut self.before[index], counts);
            let rate = (counts.0 - before.0) as f64 / seconds;
            let dropped = (counts.1 - before.1) as f64 / seconds;
            dropped_total += dropped;
            let is_up = run.is_link_up(index);
            links.push(RecordedState { health: health(is_up, rate, dropped), rate, dropped });
            for end in [edge.ends.0, edge.ends.1] {
                nodes[end as usize].rate += rate;
                nodes[end as usize].dropped += dropped;
            }
        }
        for (index, node) in nodes.iter_mut().enumerate() {
            // What its links drop is shown at the links.
            node.health = health(run.is_node_up(index), node.rate, 0.0);
        }
        let (sent, satisfied) = consumers(run);
        let per_s = |now: u64, before: u64| (now - before) as f64 / seconds;
        let totals = [
            ("Interests/s", per_s(sent, self.before_sent.0)),
            ("satisfied/s", per_s(satisfied, self.before_sent.1)),
            ("dropped/s", dropped_total),
        ];
        self.before_sent = (sent, satisfied);
        let text = self.changes(&nodes, &links);
        self.recording.frames.push(RecordedFrame {
            at_ms: now_ns / 1_000_000,
            text,
            nodes,
            links,
            totals: totals.map(|(name, value)| (name.to_owned(), value)).into(),
        });
    }

    /// Returns the recording.
    pub fn finish(self) -> Recording {
        self.recording
    }

    /// Describes nodes and links that have failed or come back since the last frame.
    fn changes(&self, nodes: &[RecordedState], links: &[RecordedState]) -> String {
        let last = self.recording.frames.last();
        let changed = |now: &[RecordedState], before: Option<&Vec<RecordedState>>| {
            let is_down = |state: &RecordedState| state.health == RecordedHealth::Failed;
            let was_down = |at: usize| before.and_then(|list| list.get(at)).is_some_and(is_down);
            let states = now.iter().enumerate();
            let changed = states.filter(|(at, state)| is_down(state) != was_down(*at));
            changed.map(|(at, state)| (at, is_down(state))).collect::<Vec<_>>()
        };
        let word = |is_down| if is_down { "fails" } else { "is up again" };
        let node = |(at, is_down): &(usize, bool)| {
            format!("{} {}", self.recording.nodes[*at].name, word(*is_down))
        };
        let link = |(at, is_down): &(usize, bool)| {
            let RecordedLink { from, to } = self.recording.links[*at];
            let name = |index: u32| &self.recording.nodes[index as usize].name;
            format!("the link {}-{} {}", name(from), name(to), word(*is_down))
        };
        let nodes = changed(nodes, last.map(|frame| &frame.nodes));
        let links = changed(links, last.map(|frame| &frame.links));
        let texts = nodes.iter().map(node).chain(links.iter().map(link));
        texts.collect::<Vec<_>>().join("; ")
    }
}

fn nodes(plan: &RunPlan) -> Vec<RecordedNode> {
    let kind = |node: usize| {
        let has_producer = plan.producers.iter().any(|producer| producer.node == node);
        let has_consumer = plan.consumers.iter().any(|consumer| consumer.node == node);
        match (has_producer, has_consumer) {
            (true, _) => "producer",
            (false, true) => "consumer",
            (false, false) => "router",
        }
    };
    let nodes = plan.topology.nodes.iter().enumerate().map(|(index, node)| RecordedNode {
        name: node.name.clone(),
        kind: kind(index).to_owned(),
        x: node.position.map(|(x, _)| x),
        y: node.position.map(|(_, y)| y),
    });
    nodes.collect()
}

fn links(topology: &Topology) -> Vec<RecordedLink> {
    let ends = topology.links.iter().map(|edge| edge.ends);
    ends.map(|(from, to)| RecordedLink { from, to }).collect()
}

fn counts(run: &impl RecordedRun, link: usize) -> LinkCounts {
    let both = [2 * link, 2 * link + 1];
    let counters = both.iter().filter_map(|direction| run.link_counters(*direction));
    counters.fold((0, 0), |sum, one| (sum.0 + one.packets, sum.1 + one.dropped()))
}

fn consumers(run: &impl RecordedRun) -> (u64, u64) {
    let all = run.consumer_counters();
    all.fold((0, 0), |sum, one| (sum.0 + one.sent, sum.1 + one.satisfied))
}

fn health(is_up: bool, rate: f64, dropped: f64) -> RecordedHealth {
    match is_up {
        false => RecordedHealth::Failed,
        true if dropped > 0.0 => RecordedHealth::Warning,
        true if rate > 0.0 => RecordedHealth::Ok,
        true => RecordedHealth::Idle,
    }
}
