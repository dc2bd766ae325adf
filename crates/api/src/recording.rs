//! A recorded run of a simulation or a testbed: nodes, links, and frames over time. The page
//! replays it in the same map that shows what runs.
//!
//! Frames refer to nodes and links by index. Nodes may be added while a run is recorded: lists of
//! earlier frames are then shorter.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa::ToSchema;

/// Most nodes of a recording.
pub const NODES_MAX: usize = 10_000;
/// Most links of a recording.
pub const LINKS_MAX: usize = 40_000;
/// Most frames of a recording.
pub const FRAMES_MAX: usize = 2_000;

/// A recorded run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Recording {
    /// What was run.
    pub title: String,
    /// Nodes, by index.
    pub nodes: Vec<RecordedNode>,
    /// Links, by index.
    pub links: Vec<RecordedLink>,
    /// Frames, by time.
    pub frames: Vec<RecordedFrame>,
    /// Number of frames before those in `frames`.
    #[serde(default)]
    pub frames_before: u64,
    /// Whether the run goes on.
    #[serde(default)]
    pub is_running: bool,
}

/// A node of a recorded run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RecordedNode {
    /// Name, unique in the recording.
    pub name: String,
    /// Kind, which chooses the shape: router, consumer, producer, balancer.
    pub kind: String,
    /// Place, from 0 to 1: right. Absent: the page finds one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub x: Option<f64>,
    /// Place, from 0 to 1: down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub y: Option<f64>,
}

/// A link of a recorded run, by indices of its nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RecordedLink {
    /// Index of one node.
    pub from: u32,
    /// Index of the other node.
    pub to: u32,
}

/// Health of a node or link in a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum RecordedHealth {
    /// It works and carries packets.
    Ok,
    /// It works and carries none.
    #[default]
    Idle,
    /// Packets are dropped, or it is about to leave.
    Warning,
    /// It does not work.
    Failed,
    /// It is not there.
    Absent,
}

/// State of a node or link in a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RecordedState {
    /// Health.
    pub health: RecordedHealth,
    /// Packets per second since the frame before, both directions.
    pub rate: f64,
    /// Packets dropped or lost per second since the frame before.
    pub dropped: f64,
}

/// One moment of a recorded run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RecordedFrame {
    /// Milliseconds since the start.
    pub at_ms: u64,
    /// What happened since the frame before. Empty if nothing did.
    #[serde(default)]
    pub text: String,
    /// States of the nodes.
    pub nodes: Vec<RecordedState>,
    /// States of the links.
    pub links: Vec<RecordedState>,
    /// Values of the whole run, by name.
    #[serde(default)]
    pub totals: BTreeMap<String, f64>,
}

impl Recording {
    /// Checks that all indices are valid and all lists are within their bounds.
    ///
    /// # Errors
    /// The text says what is wrong.
    pub fn check(&self) -> Result<(), String> {
        let (nodes, links) = (self.nodes.len(), self.links.len());
        for (what, len, max) in [
            ("nodes", nodes, NODES_MAX),
            ("links", links, LINKS_MAX),
            ("frames", self.frames.len(), FRAMES_MAX),
        ] {
            if len > max {
                return Err(format!("{len} {what}: at most {max} can be shown"));
            }
        }
        let is_node = |index: u32| (index as usize) < nodes;
        if let Some(link) = self.links.iter().find(|link| !is_node(link.from) || !is_node(link.to))
        {
            return Err(format!("a link from node {} to {} of {nodes}", link.from, link.to));
        }
        let is_long =
            |frame: &&RecordedFrame| frame.nodes.len() > nodes || frame.links.len() > links;
        match self.frames.iter().find(is_long) {
            Some(frame) => {
                Err(format!("the frame at {} ms has more states than nodes or links", frame.at_ms))
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recording_with_a_link_to_nowhere_or_a_long_frame_is_refused() {
        let node = RecordedNode { name: "a".into(), kind: "router".into(), ..Default::default() };
        let mut recording = Recording { nodes: vec![node], ..Default::default() };
        assert_eq!(recording.check(), Ok(()));
        recording
            .frames
            .push(RecordedFrame { nodes: vec![Default::default(); 2], ..Default::default() });
        assert!(recording.check().unwrap_err().contains("more states"));
        recording.frames.clear();
        recording.links.push(RecordedLink { from: 0, to: 1 });
        assert!(recording.check().unwrap_err().contains("from node 0 to 1"));
    }

    #[test]
    fn recording_is_read_as_it_was_written() {
        let state = RecordedState { health: RecordedHealth::Failed, rate: 1.5, dropped: 0.0 };
        let frame = RecordedFrame { at_ms: 5, nodes: vec![state], ..Default::default() };
        let node = RecordedNode { x: Some(0.5), y: Some(0.25), ..Default::default() };
        let recording = Recording { nodes: vec![node], frames: vec![frame], ..Default::default() };
        let text = serde_json::to_string(&recording).unwrap();
        assert_eq!(serde_json::from_str::<Recording>(&text).unwrap(), recording);
    }
}
