//! Replaces the graph while packets flow. Elements with the same name, kind and fixed parameters
//! stay, with their state; the others are added or removed.
//!
//! Removed elements may still track pending Interests. [`ChangeMode`] decides what happens to
//! these, and to packets that arrive in the meantime.

use super::wiring::{TappedPort, Wiring};
use super::{ElementSlot, Engine, Fault};
use crate::model::{Graph, Node};
use nw_element_api::parameters::BuildContext;
use nw_element_api::{DropCause, ErasedContext, FaceId, Kind, Packet, Parameters, Pool, Timestamp};
use std::collections::VecDeque;
use std::time::Duration;

/// What happens to packets during a change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChangeMode {
    /// Removes the old elements at once, with their state. Replies that still arrive for them are
    /// dropped and counted.
    Drop,
    /// Holds arriving Interests until the old elements have no pending Interests, then passes them
    /// to the new ones.
    Buffer,
    /// Passes all Interests to the new elements from now on; the old ones stay for the replies they
    /// wait for.
    #[default]
    MakeBeforeBreak,
}

/// The effect of a change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangeSummary {
    /// Elements that stay, possibly with other live parameters.
    pub kept_elements: usize,
    /// Elements that are new.
    pub added_elements: usize,
    /// Elements that are removed now, or when their pending Interests are satisfied.
    pub removed_elements: usize,
    /// False while old elements still wait for replies.
    pub is_complete: bool,
    /// Parameters that elements of the new graph rejected; the others are in effect.
    pub rejected_parameters: Vec<Fault>,
}

/// The slot of a node after a change.
enum PreparedSlot {
    /// Index of an element that stays.
    Existing(usize),
    /// A new element.
    New(Box<ElementSlot>),
}

/// Longest wait of old elements for replies: twice the default InterestLifetime of 4 s.
const WAIT_MAX: Duration = Duration::from_secs(8);
/// Interval between checks whether the old elements are idle.
const CHECK_INTERVAL: Duration = Duration::from_millis(1);
/// Maximum number of Interests held with [`ChangeMode::Buffer`].
const HELD_INTERESTS_MAX: usize = 4096;

/// A change that is not complete.
pub struct Transition {
    mode: ChangeMode,
    deadline: Timestamp,
    next_check: Timestamp,
    /// Wiring of the graph that does not receive new packets: the old one; with
    /// [`ChangeMode::Buffer`] too, as Interests wait.
    wiring: Wiring,
    /// Slots of the old elements.
    old_slots: Vec<usize>,
    held_interests: VecDeque<Packet>,
}

impl Transition {
    /// Sets the taps of the old wiring: see [`Wiring::set_taps`].
    pub fn set_taps(&mut self, ports: &[TappedPort]) {
        self.wiring.set_taps(ports);
    }

    /// Attaches a face to the old wiring: see [`Wiring::attach_face`].
    pub fn attach_face(&mut self, face: FaceId, graph_face: usize) {
        self.wiring.attach_face(face, graph_face);
    }

    /// Returns when to check again whether the old elements are idle.
    pub const fn next_check(&self) -> Timestamp {
        self.next_check
    }
}

impl Engine {
    /// Replaces the running graph by a checked one. A change that is not complete is finished
    /// first, as if its time were over.
    ///
    /// # Errors
    /// All invalid parameters of elements that had to be built; nothing has changed then.
    pub fn change(
        &mut self,
        now: Timestamp,
        graph: &Graph,
        mode: ChangeMode,
        pool: &mut Pool,
        out: &mut Vec<Packet>,
    ) -> Result<ChangeSummary, Vec<Fault>> {
        let slots = self.prepare_slots(graph)?;
        self.finish_transition(now, pool, out);
        let mut summary = ChangeSummary::default();
        let known_slots = core::mem::take(&mut self.slot_of_node);
        self.install_slots(graph, slots, &mut summary);
        let is_old = |index: &usize| !self.slot_of_node.contains(index);
        let old_slots: Vec<usize> = known_slots.iter().copied().filter(is_old).collect();
        summary.removed_elements = old_slots.len();
        let old_wiring = self.replace_wiring(graph, &known_slots);
        for node in 0..graph.nodes.len() {
            summary.rejected_parameters.extend(self.apply_to(now, node, pool, out));
        }
        let is_idle =
            |index: &usize| self.slots[*index].as_ref().is_none_or(|slot| slot.element.is_idle());
        if mode == ChangeMode::Drop || old_slots.iter().all(is_idle) {
            old_slots.into_iter().for_each(|index| self.remove_slot(index, pool));
            summary.is_complete = true;
        } else {
            let (deadline, next_check) = (now + WAIT_MAX, now + CHECK_INTERVAL);
            let (wiring, held_interests) = (old_wiring, VecDeque::new());
            let transition =
                Transition { mode, deadline, next_check, wiring, old_slots, held_interests };
            self.transition = Some(Box::new(transition));
        }
        Ok(summary)
    }

    /// Returns, for each node of a graph, the slot of an element that can stay, or a new element.
    fn prepare_slots(&mut self, graph: &Graph) -> Result<Vec<PreparedSlot>, Vec<Fault>> {
        let (mut slots, mut faults) = (Vec::new(), Vec::new());
        for node in &graph.nodes {
            match self.reusable_slot(node) {
                Some(index) => slots.push(PreparedSlot::Existing(index)),
                None => match self.build_slot(node, graph) {
                    Ok(slot) => slots.push(PreparedSlot::New(Box::new(slot))),
                    Err(node_faults) => faults.extend(node_faults),
                },
            }
        }
        if faults.is_empty() { Ok(slots) } else { Err(faults) }
    }

    /// Sets `slot_of_node` for a graph; new elements are notified of all faces.
    fn install_slots(
        &mut self,
        graph: &Graph,
        slots: Vec<PreparedSlot>,
        summary: &mut ChangeSummary,
    ) {
        for (node, prepared) in graph.nodes.iter().zip(slots) {
            let index = match prepared {
                PreparedSlot::Existing(index) => {
                    summary.kept_elements += 1;
                    if let Some(slot) = &mut self.slots[index] {
                        slot.parameters = node.parameters.clone();
                    }
                    index
                }
                PreparedSlot::New(mut slot) => {
                    summary.added_elements += 1;
                    for (face, info, _) in &self.faces.attached {
                        slot.element.face_added(*face, *info);
                    }
                    for (face, peer) in &self.faces.peers {
                        slot.element.set_peer(*face, *peer);
                    }
                    self.insert_slot(*slot)
                }
            };
            self.slot_of_node.push(index);
        }
    }

    /// Replaces graph and wiring, and returns the old wiring. Its counters are added to those of
    /// the elements it connected, which are in `known_slots`.
    fn replace_wiring(&mut self, graph: &Graph, known_slots: &[usize]) -> Wiring {
        let wiring = Wiring::new(graph, &self.slot_of_node);
        self.faces.by_graph_face =
            graph.faces.iter().map(|face| self.face_of_name(&face.name)).collect();
        self.faces.default = graph.faces.iter().position(|face| face.is_default);
        self.graph = graph.clone();
        let old_wiring = core::mem::replace(&mut self.wiring, wiring);
        for (index, slot) in self.slots.iter_mut().enumerate() {
            // New elements have no counters from before.
            if let Some(slot) = slot.as_mut().filter(|_| known_slots.contains(&index)) {
                let (packets_in, packets_out) = old_wiring.counts(index);
                slot.packets_in.iter_mut().zip(packets_in).for_each(|(sum, count)| *sum += count);
                slot.packets_out.iter_mut().zip(packets_out).for_each(|(sum, count)| *sum += count);
            }
        }
        for (face, _, name) in &self.faces.attached {
            match graph.faces.iter().position(|declared| declared.name == *name) {
                Some(graph_face) => self.wiring.attach_face(*face, graph_face),
                None => self.wiring.attach_removed_face(*face, graph),
            }
        }
        self.restore_taps();
        old_wiring
    }

    /// Returns the slot of an element that can stay for this node.
    fn reusable_slot(&self, node: &Node) -> Option<usize> {
        let at = self.graph.nodes.iter().position(|known| known.name == node.name)?;
        let index = self.slot_of_node[at];
        let slot = self.slots[index].as_ref()?;
        let fixed = |parameters: &Parameters| -> Vec<_> {
            let is_fixed = |name: &str| {
                node.entry.parameters.iter().any(|info| info.is_called(name) && !info.live)
            };
            parameters.0.iter().filter(|(name, _)| is_fixed(name)).cloned().collect()
        };
        let is_reusable = slot.entry.name == node.entry.name
            && fixed(&slot.parameters) == fixed(&node.parameters);
        is_reusable.then_some(index)
    }

    fn build_slot(&mut self, node: &Node, graph: &Graph) -> Result<ElementSlot, Vec<Fault>> {
        let face =
            |name: &str| graph.faces.iter().any(|face| face.name == name).then_some(FaceId::NONE);
        // Elements get different seeds, so their random choices differ and their table memos are
        // not mixed up.
        let seed = self.seed.wrapping_add(self.created_count);
        self.created_count += 1;
        let context =
            BuildContext { key: self.key, seed, start_unix_ms: self.start_unix_ms, faces: &face };
        let fault = |error| Fault { node: node.name.clone(), position: node.position, error };
        let element = node.entry.make(&context, &node.parameters);
        let element =
            element.map_err(|errors| errors.into_iter().map(fault).collect::<Vec<_>>())?;
        Ok(ElementSlot {
            serial: self.created_count,
            name: node.name.clone(),
            entry: node.entry,
            parameters: node.parameters.clone(),
            element,
            packets_in: vec![0; node.entry.ins.len()],
            packets_out: vec![0; node.entry.outs.len()],
        })
    }

    fn insert_slot(&mut self, slot: ElementSlot) -> usize {
        let is_free = |index: &usize| {
            self.slots[*index].is_none()
                && !self
                    .transition
                    .as_ref()
                    .is_some_and(|transition| transition.old_slots.contains(index))
        };
        let free_index = (0..self.slots.len()).find(is_free);
        self.reads_names |= !slot.element.accepts_deferred_names();
        match free_index {
            Some(index) => {
                self.slots[index] = Some(slot);
                index
            }
            None => {
                self.slots.push(Some(slot));
                self.slots.len() - 1
            }
        }
    }

    fn face_of_name(&self, name: &str) -> Option<FaceId> {
        let at = self.graph.faces.iter().position(|face| face.name == name)?;
        self.faces.by_graph_face.get(at).copied().flatten()
    }

    /// During a change: removes from `packets` those that the old elements wait for, and Interests
    /// to hold.
    pub(super) fn intercept(
        &mut self,
        now: Timestamp,
        packets: &mut Vec<Packet>,
        pool: &mut Pool,
        out: &mut Vec<Packet>,
    ) {
        let mut for_new_elements = Vec::with_capacity(packets.len());
        let mut for_old_elements = Vec::with_capacity(1);
        for packet in packets.drain(..) {
            let Some(transition) = &mut self.transition else {
                for_new_elements.push(packet);
                continue;
            };
            let is_interest = pool.meta(&packet).kind == Kind::Interest;
            if is_interest {
                match transition.mode {
                    ChangeMode::Buffer if transition.held_interests.len() < HELD_INTERESTS_MAX => {
                        transition.held_interests.push_back(packet)
                    }
                    ChangeMode::Buffer => {
                        pool.drop_packet(packet, DropCause::ChangeFull, &mut self.drops)
                    }
                    ChangeMode::Drop | ChangeMode::MakeBeforeBreak => for_new_elements.push(packet),
                }
                continue;
            }
            let expects = |index: &usize| {
                self.slots[*index]
                    .as_ref()
                    .is_some_and(|slot| slot.element.awaits_reply(&packet, pool))
            };
            if !transition.old_slots.iter().any(expects) {
                for_new_elements.push(packet);
                continue;
            }
            // The new elements may wait for the same packet.
            if self.slot_of_node.iter().any(expects)
                && let Some(copy) = pool.duplicate(&packet)
            {
                for_new_elements.push(copy);
            }
            for_old_elements.push(packet);
            self.with_old_wiring(|engine| {
                engine.run_pre_stages(now, &mut for_old_elements.drain(..), pool, out);
                engine.drain_batch(now, pool, out);
            });
        }
        *packets = for_new_elements;
        self.advance_transition(now, pool, out);
    }

    pub(super) fn with_old_wiring(&mut self, act: impl FnOnce(&mut Self)) {
        let Some(mut transition) = self.transition.take() else { return };
        core::mem::swap(&mut self.wiring, &mut transition.wiring);
        act(self);
        core::mem::swap(&mut self.wiring, &mut transition.wiring);
        self.transition = Some(transition);
    }

    /// Finishes the change if the old elements are idle or their time is over.
    pub(super) fn advance_transition(
        &mut self,
        now: Timestamp,
        pool: &mut Pool,
        out: &mut Vec<Packet>,
    ) {
        let Some(transition) = &mut self.transition else { return };
        let is_idle =
            |index: &usize| self.slots[*index].as_ref().is_none_or(|slot| slot.element.is_idle());
        if now >= transition.deadline || transition.old_slots.iter().all(is_idle) {
            self.finish_transition(now, pool, out);
        } else if now >= transition.next_check {
            transition.next_check = now + CHECK_INTERVAL;
        }
    }

    /// Removes the old elements and processes the held Interests.
    fn finish_transition(&mut self, now: Timestamp, pool: &mut Pool, out: &mut Vec<Packet>) {
        let Some(mut transition) = self.transition.take() else { return };
        for index in transition.old_slots {
            self.remove_slot(index, pool);
        }
        let mut held_interests: Vec<Packet> = transition.held_interests.drain(..).collect();
        self.process(now, &mut held_interests, pool, out);
    }

    /// Removes an element; packets that it still holds are dropped and counted.
    fn remove_slot(&mut self, index: usize, pool: &mut Pool) {
        if let Some(mut slot) = self.slots[index].take() {
            slot.element.drop_held(&mut ErasedContext {
                pool,
                out: &mut self.emitted,
                drops: &mut self.drops,
            });
        }
        self.reads_names =
            self.slots.iter().flatten().any(|slot| !slot.element.accepts_deferred_names());
    }

    /// Returns whether an old element only waits for replies.
    pub(super) fn is_draining(&self, element: usize) -> bool {
        self.transition.as_ref().is_some_and(|transition| transition.old_slots.contains(&element))
    }

    /// Returns whether old elements still wait for replies.
    pub const fn is_changing(&self) -> bool {
        self.transition.is_some()
    }
}
