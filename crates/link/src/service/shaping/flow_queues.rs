//! Waiting Interests: one queue per downstream face and flow, served in turn.
//!
//! ```text
//!  faces (deficit round robin): 260 ─▶ 261 ─▶ 262
//!                               └ flows (deficit round robin): a ─▶ b ─▶ c, each first in first out
//! ```
//!
//! A downstream face gets an equal share of the link's bytes, and within it each flow: the names
//! that differ in their last component only, such as the segments of one object. A face or flow
//! that asks for more than its share only makes its own queue longer.
//!
//! The first Interest of a new flow goes ahead of the others of its face, in every second turn at
//! most: it measures the path for its consumer, and so do replies to single requests.

use super::{QUEUE_BYTES_MAX, QUEUE_MAX, WaitingInterest};
use nw_element_api::FaceId;
use nw_name::{HashKey, NameRef};
use std::collections::{HashSet, VecDeque};

/// Bytes of Data that a face or flow may ask for in one turn.
const QUANTUM: f64 = 9000.0;

#[derive(Debug)]
struct Flow {
    hash: u64,
    cost: f64,
    deficit: f64,
    interests: VecDeque<WaitingInterest>,
}

#[derive(Debug)]
struct Downstream {
    face: FaceId,
    deficit: f64,
    flows: VecDeque<Flow>,
    /// Flows that were not served yet.
    new_flows: VecDeque<Flow>,
    /// The last turn was a new flow's.
    was_new: bool,
    /// Interests in all its flows.
    len: usize,
}

impl Downstream {
    fn new(face: FaceId) -> Self {
        let (flows, new_flows) = (VecDeque::new(), VecDeque::new());
        Downstream { face, deficit: 0.0, flows, new_flows, was_new: false, len: 0 }
    }

    fn all_flows(&mut self) -> impl Iterator<Item = &mut Flow> {
        self.flows.iter_mut().chain(&mut self.new_flows)
    }

    /// Returns the cost of the next Interest in turn, after moving the turn on to it.
    fn next_cost(&mut self) -> Option<f64> {
        if (self.flows.is_empty() || !self.was_new)
            && let Some(flow) = self.new_flows.front()
        {
            return Some(flow.cost);
        }
        // Each round adds a quantum, so a flow is served after a bounded number of rounds.
        loop {
            let flow = self.flows.front_mut()?;
            if flow.deficit >= flow.cost {
                return Some(flow.cost);
            }
            flow.deficit += QUANTUM;
            self.flows.rotate_left(1);
        }
    }

    /// Removes the Interest that [`next_cost`](Self::next_cost) found.
    fn pop(&mut self) -> Option<WaitingInterest> {
        self.len -= 1;
        self.was_new = !self.new_flows.is_empty() && (self.flows.is_empty() || !self.was_new);
        if self.was_new {
            let mut flow = self.new_flows.pop_front()?;
            let interest = flow.interests.pop_front();
            if !flow.interests.is_empty() {
                self.flows.push_back(flow);
            }
            return interest;
        }
        let flow = self.flows.front_mut()?;
        flow.deficit -= flow.cost;
        let interest = flow.interests.pop_front();
        if flow.interests.is_empty() {
            self.flows.pop_front();
        }
        interest
    }
}

/// Queues of waiting Interests.
#[derive(Debug)]
pub(super) struct FlowQueues {
    key: HashKey,
    faces: VecDeque<Downstream>,
    names: HashSet<u64>,
    len: usize,
    bytes: usize,
}

impl FlowQueues {
    pub(super) fn new(seed: u64) -> Self {
        let word = |n: u64| (seed ^ n).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29) ^ seed;
        FlowQueues {
            key: HashKey::new([word(1), word(2), word(3), word(4)]),
            faces: VecDeque::new(),
            names: HashSet::new(),
            len: 0,
            bytes: 0,
        }
    }

    /// Returns the hash of a name without its last component, and that of the whole name. `None`:
    /// malformed, as the name of Data was not checked yet.
    pub(super) fn hashes(&self, bytes: &[u8]) -> Option<(u64, u64)> {
        let name = NameRef::check(bytes).ok()?;
        let mut components = name.components();
        let (mut flow, mut whole) = (self.key.root(), self.key.root());
        let mut start = 0;
        while components.next().is_some() {
            flow = whole;
            whole = self.key.step(whole, &bytes[start..components.consumed()]);
            start = components.consumed();
        }
        Some((flow, whole))
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// Returns the bytes of Data that are sent before that of a new Interest of this face and flow,
    /// if each queue is served in turn.
    pub(super) fn bytes_before(&self, face: FaceId, flow: u64, cost: f64) -> f64 {
        let Some(own) = self.faces.iter().find(|queue| queue.face == face) else {
            return cost * (self.faces.len() + 1) as f64;
        };
        let mut own_flows = own.flows.iter().chain(&own.new_flows);
        let own_flow = own_flows.find(|queue| queue.hash == flow);
        let position = own_flow.map_or(0, |queue| queue.interests.len()) + 1;
        // Interests of this face that are served before it: no flow is served more often than its
        // own.
        let all_flows = own.flows.iter().chain(&own.new_flows);
        let of_face: usize =
            all_flows.map(|queue| queue.interests.len().min(position)).sum::<usize>() + 1;
        let of_others: usize = self
            .faces
            .iter()
            .filter(|queue| queue.face != face)
            .map(|queue| queue.len.min(of_face))
            .sum();
        cost * (of_face + of_others) as f64
    }

    /// Adds an Interest; `is_new`: of a flow that was not known. A retransmission replaces the one
    /// that waits. Returns false if there is no space.
    pub(super) fn push(
        &mut self,
        face: FaceId,
        interest: WaitingInterest,
        cost: f64,
        is_new: bool,
    ) -> bool {
        let is_known = self.names.contains(&interest.name_hash);
        if is_known && self.replace(&interest) {
            return true;
        }
        if self.len >= QUEUE_MAX || self.bytes + interest.bytes.len() > QUEUE_BYTES_MAX {
            return false;
        }
        self.len += 1;
        self.bytes += interest.bytes.len();
        self.names.insert(interest.name_hash);
        let downstream = match self.faces.iter_mut().position(|queue| queue.face == face) {
            Some(index) => &mut self.faces[index],
            None => {
                self.faces.push_back(Downstream::new(face));
                self.faces.back_mut().expect("just added")
            }
        };
        downstream.len += 1;
        if let Some(flow) = downstream.all_flows().find(|flow| flow.hash == interest.flow) {
            flow.cost = cost;
            flow.interests.push_back(interest);
            return true;
        }
        let hash = interest.flow;
        let flow = Flow { hash, cost, deficit: 0.0, interests: VecDeque::from([interest]) };
        let flows = if is_new { &mut downstream.new_flows } else { &mut downstream.flows };
        flows.push_back(flow);
        true
    }

    /// Gives the waiting Interest of the same name the nonce and link fields of a newer one.
    fn replace(&mut self, newer: &WaitingInterest) -> bool {
        let flows = self.faces.iter_mut().flat_map(Downstream::all_flows);
        let same = flows
            .filter(|flow| flow.hash == newer.flow)
            .flat_map(|flow| flow.interests.iter_mut())
            .find(|waiting| waiting.name_hash == newer.name_hash);
        let Some(waiting) = same else { return false };
        self.bytes = self.bytes - waiting.bytes.len() + newer.bytes.len();
        waiting.bytes = newer.bytes.clone();
        waiting.link = newer.link;
        waiting.expires_at = waiting.expires_at.max(newer.expires_at);
        true
    }

    /// Removes the next Interest in turn.
    pub(super) fn pop(&mut self) -> Option<WaitingInterest> {
        loop {
            let face = self.faces.front_mut()?;
            let cost = face.next_cost()?;
            if face.deficit < cost {
                face.deficit += QUANTUM;
                self.faces.rotate_left(1);
                continue;
            }
            face.deficit -= cost;
            let interest = face.pop()?;
            if face.len == 0 {
                self.faces.pop_front();
            }
            self.len -= 1;
            self.bytes -= interest.bytes.len();
            self.names.remove(&interest.name_hash);
            return Some(interest);
        }
    }
}
