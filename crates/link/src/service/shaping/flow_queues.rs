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

use super::turns::{Queue, Turns};
use super::{QUEUE_BYTES_MAX, QUEUE_MAX, WaitingInterest};
use nw_element_api::FaceId;
use nw_name::{HashKey, NameRef};
use std::collections::{HashSet, VecDeque};

/// Faces that are remembered after their turn has passed.
const FACES_PASSED_MAX: usize = 256;

#[derive(Debug)]
struct Flow {
    hash: u64,
    cost: f64,
    interests: VecDeque<WaitingInterest>,
}

impl Queue for Flow {
    fn next_cost(&mut self) -> Option<f64> {
        (!self.interests.is_empty()).then_some(self.cost)
    }
}

#[derive(Debug)]
struct Downstream {
    face: FaceId,
    flows: Turns<Flow>,
    /// Flows that were not served yet.
    new_flows: VecDeque<Flow>,
    /// The last turn was a new flow's.
    was_new: bool,
    /// Interests in all its flows.
    len: usize,
}

impl Queue for Downstream {
    fn next_cost(&mut self) -> Option<f64> {
        let new_cost = self.new_flows.front().map(|flow| flow.cost);
        new_cost.filter(|_| !self.was_new).or_else(|| self.next_known_cost()).or(new_cost)
    }
}

impl Downstream {
    fn new(face: FaceId) -> Self {
        let (flows, new_flows) = (Turns::default(), VecDeque::new());
        Downstream { face, flows, new_flows, was_new: false, len: 0 }
    }

    fn all_flows(&self) -> impl Iterator<Item = &Flow> {
        self.flows.iter().chain(&self.new_flows)
    }

    fn all_flows_mut(&mut self) -> impl Iterator<Item = &mut Flow> {
        self.flows.iter_mut().chain(&mut self.new_flows)
    }

    fn next_known_cost(&mut self) -> Option<f64> {
        self.flows.next(drop).map(|(_, cost)| cost)
    }

    /// Removes the Interest that [`next_cost`](Queue::next_cost) found.
    fn pop(&mut self) -> Option<WaitingInterest> {
        self.len -= 1;
        let has_known = self.next_known_cost().is_some();
        self.was_new = !self.new_flows.is_empty() && (!has_known || !self.was_new);
        if self.was_new {
            let mut flow = self.new_flows.pop_front()?;
            let interest = flow.interests.pop_front();
            self.flows.push_last(flow);
            return interest;
        }
        let (flow, cost) = self.flows.next(drop)?;
        let interest = flow.interests.pop_front();
        self.flows.on_served(cost);
        interest
    }

    /// Adds an Interest; `is_new`: of a flow that was not known.
    fn push(&mut self, interest: WaitingInterest, cost: f64, is_new: bool) {
        self.len += 1;
        if let Some(flow) = self.all_flows_mut().find(|flow| flow.hash == interest.flow) {
            flow.cost = cost;
            flow.interests.push_back(interest);
            return;
        }
        let flow = Flow { hash: interest.flow, cost, interests: VecDeque::from([interest]) };
        if is_new {
            self.new_flows.push_back(flow);
        } else {
            self.flows.push_returned(flow);
        }
    }
}

/// Queues of waiting Interests.
#[derive(Debug)]
pub(super) struct FlowQueues {
    key: HashKey,
    faces: Turns<Downstream>,
    /// Faces whose turn has passed while they were empty, the last ones.
    passed: VecDeque<FaceId>,
    names: HashSet<u64>,
    len: usize,
    bytes: usize,
}

impl FlowQueues {
    pub(super) fn new(seed: u64) -> Self {
        let word = |n: u64| (seed ^ n).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29) ^ seed;
        FlowQueues {
            key: HashKey::new([word(1), word(2), word(3), word(4)]),
            faces: Turns::default(),
            passed: VecDeque::new(),
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
        let faces = self.faces.iter().filter(|queue| queue.len > 0);
        let Some(own) = faces.clone().find(|queue| queue.face == face) else {
            return cost * (faces.count() + 1) as f64;
        };
        let own_flow = own.all_flows().find(|queue| queue.hash == flow);
        let position = own_flow.map_or(0, |queue| queue.interests.len()) + 1;
        // Interests of this face that are served before it: no flow is served more often than its
        // own.
        let of_face: usize =
            own.all_flows().map(|queue| queue.interests.len().min(position)).sum::<usize>() + 1;
        let of_others: usize =
            faces.filter(|queue| queue.face != face).map(|queue| queue.len.min(of_face)).sum();
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
        if let Some(downstream) = self.faces.iter_mut().find(|queue| queue.face == face) {
            downstream.push(interest, cost, is_new);
            return true;
        }
        let mut downstream = Downstream::new(face);
        downstream.push(interest, cost, is_new);
        // A face that was never served has no turn that it let pass: faces are as many as a peer
        // forges addresses.
        match self.passed.iter().position(|passed| *passed == face) {
            Some(index) => {
                self.passed.remove(index);
                self.faces.push_returned(downstream);
            }
            None => self.faces.push_last(downstream),
        }
        true
    }

    /// Gives the waiting Interest of the same name the nonce and link fields of a newer one.
    fn replace(&mut self, newer: &WaitingInterest) -> bool {
        let flows = self.faces.iter_mut().flat_map(Downstream::all_flows_mut);
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
        let passed = &mut self.passed;
        let (face, cost) = self.faces.next(|queue| {
            passed.truncate(FACES_PASSED_MAX - 1);
            passed.push_front(queue.face);
        })?;
        let interest = face.pop()?;
        self.faces.on_served(cost);
        self.len -= 1;
        self.bytes -= interest.bytes.len();
        self.names.remove(&interest.name_hash);
        Some(interest)
    }
}
