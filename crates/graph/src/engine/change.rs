//! Another graph while packets flow. Elements of the same name, kind and fixed parameters stay, with all they remember; the others come and go.
//!
//! What goes may still remember Interests. What becomes of these, and of packets that come meanwhile, is the [`ChangeOrder`].

use super::wiring::Wiring;
use super::{Engine, Fault, Slot};
use crate::model::{Graph, Node};
use nw_element_api::parameters::Making;
use nw_element_api::{Cause, FaceId, Instant, Kind, Lent, Packet, Parameters, Pool};
use std::collections::VecDeque;
use std::time::Duration;

/// What becomes of packets during a change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChangeOrder {
    /// The old elements go at once, with what they remember. Answers that still come for it are dropped, and counted.
    Drop,
    /// Interests that come are held until the old elements remember nothing, then they go to the new ones.
    Buffer,
    /// The new elements take all Interests from now on; the old ones stay for what they wait for.
    #[default]
    MakeBeforeBreak,
}

/// What a change did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changed {
    /// Elements that stay as they were, or with other parameters.
    pub kept: usize,
    /// Elements that are new.
    pub added: usize,
    /// Elements that go, or wait to go.
    pub removed: usize,
    /// False while old elements still wait for answers.
    pub complete: bool,
    /// Parameters that the elements of the new graph did not take.
    pub not_in_effect: Vec<Fault>,
}

/// Old elements wait for answers no longer than this: as long as Interests live as a rule, and a bit.
const WAIT_MAX: Duration = Duration::from_secs(8);
/// How often it is looked whether they still do.
const LOOK_EVERY: Duration = Duration::from_millis(1);
/// Interests held at a time.
const HELD_MAX: usize = 4096;

/// A change that is under way.
pub struct Changing {
    order: ChangeOrder,
    until: Instant,
    look: Instant,
    /// Connections of the other graph: the old one's; with [`ChangeOrder::Buffer`] the new one's until the old has ended.
    wiring: Wiring,
    /// Elements that go.
    old: Vec<usize>,
    held: VecDeque<Packet>,
}

impl Changing {
    /// See [`Wiring::open`].
    pub fn open(&mut self, face: FaceId, of: usize) {
        self.wiring.open(face, of);
    }

    /// When to look again.
    pub const fn deadline(&self) -> Instant {
        self.look
    }
}

impl Engine {
    /// Takes another graph, which was found good, in place of the one that runs. A change that is under way is brought to its end first, as if
    /// its time were over.
    ///
    /// # Errors
    /// All that is wrong with parameters that elements are made with; nothing has changed then.
    pub fn change(
        &mut self,
        now: Instant,
        graph: &Graph,
        order: ChangeOrder,
        pool: &mut Pool,
        out: &mut Vec<Packet>,
    ) -> Result<Changed, Vec<Fault>> {
        let mut changed = Changed::default();
        let mut made = Vec::new();
        let mut faults = Vec::new();
        for node in &graph.nodes {
            match self.kept(node) {
                Some(place) => made.push(Ok(place)),
                None => match self.make(node, graph) {
                    Ok(slot) => made.push(Err(slot)),
                    Err(more) => faults.extend(more),
                },
            }
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        self.end_change(now, pool, out);
        let known = core::mem::take(&mut self.places);
        for (node, made) in graph.nodes.iter().zip(made) {
            let place = match made {
                Ok(place) => {
                    changed.kept += 1;
                    if let Some(slot) = &mut self.slots[place] {
                        slot.parameters = node.parameters.clone();
                    }
                    place
                }
                Err(mut slot) => {
                    changed.added += 1;
                    for (face, info, _) in &self.faces.known {
                        slot.element.face_added(*face, *info);
                    }
                    for (face, peer) in &self.faces.peers {
                        slot.element.set_peer(*face, *peer);
                    }
                    self.put(slot)
                }
            };
            self.places.push(place);
        }
        let old: Vec<usize> = known.iter().copied().filter(|place| !self.places.contains(place)).collect();
        changed.removed = old.len();
        let wiring = Wiring::new(graph, &self.places);
        self.faces.of_graph = graph.faces.iter().map(|face| self.face_named(&face.name)).collect();
        self.faces.default = graph.faces.iter().position(|face| face.is_default);
        self.graph = graph.clone();
        let before = core::mem::replace(&mut self.wiring, wiring);
        for (place, slot) in self.slots.iter_mut().enumerate() {
            // What is new was not there to be counted.
            if let Some(slot) = slot.as_mut().filter(|_| known.contains(&place)) {
                let (entered, left) = before.counts(place);
                slot.entered.iter_mut().zip(entered).for_each(|(sum, more)| *sum += more);
                slot.left.iter_mut().zip(left).for_each(|(sum, more)| *sum += more);
            }
        }
        for (face, _, name) in &self.faces.known {
            if let Some(of) = graph.faces.iter().position(|known| known.name == *name) {
                self.wiring.open(*face, of);
            }
        }
        for node in 0..graph.nodes.len() {
            changed.not_in_effect.extend(self.apply_to(now, node, pool, out));
        }
        let is_idle = |place: &usize| self.slots[*place].as_ref().is_none_or(|slot| slot.element.is_idle());
        if order == ChangeOrder::Drop || old.iter().all(is_idle) {
            old.into_iter().for_each(|place| self.take_away(place, pool));
            changed.complete = true;
        } else {
            let (until, look) = (now + WAIT_MAX, now + LOOK_EVERY);
            let changing = Changing { order, until, look, wiring: before, old, held: VecDeque::new() };
            self.changing = Some(Box::new(changing));
        }
        Ok(changed)
    }

    /// Where an element is that can stay for this node.
    fn kept(&self, node: &Node) -> Option<usize> {
        let at = self.graph.nodes.iter().position(|known| known.name == node.name)?;
        let place = self.places[at];
        let slot = self.slots[place].as_ref()?;
        let fixed = |parameters: &Parameters| -> Vec<_> {
            let is_fixed =
                |name: &str| node.entry.parameters.iter().any(|info| info.name == name && !info.live);
            parameters.0.iter().filter(|(name, _)| is_fixed(name)).cloned().collect()
        };
        let same = slot.entry.name == node.entry.name && fixed(&slot.parameters) == fixed(&node.parameters);
        same.then_some(place)
    }

    fn make(&mut self, node: &Node, graph: &Graph) -> Result<Slot, Vec<Fault>> {
        let face = |name: &str| graph.faces.iter().any(|face| face.name == name).then_some(FaceId::NONE);
        // Elements draw differently, and their tables take no hints of one another.
        let seed = self.seed.wrapping_add(self.made);
        self.made += 1;
        let making = Making { key: self.key, seed, start_unix_ms: self.start_unix_ms, faces: &face };
        let fault = |error| Fault { node: node.name.clone(), place: node.place, error };
        let element = node.entry.make(&making, &node.parameters);
        let element = element.map_err(|errors| errors.into_iter().map(fault).collect::<Vec<_>>())?;
        Ok(Slot {
            serial: self.made,
            name: node.name.clone(),
            entry: node.entry,
            parameters: node.parameters.clone(),
            element,
            entered: vec![0; node.entry.ins.len()],
            left: vec![0; node.entry.outs.len()],
        })
    }

    fn put(&mut self, slot: Slot) -> usize {
        let is_free = |place: &usize| {
            self.slots[*place].is_none()
                && !self.changing.as_ref().is_some_and(|changing| changing.old.contains(place))
        };
        let place = (0..self.slots.len()).find(is_free);
        self.reads_names |= !slot.element.takes_unread_names();
        match place {
            Some(place) => {
                self.slots[place] = Some(slot);
                place
            }
            None => {
                self.slots.push(Some(slot));
                self.slots.len() - 1
            }
        }
    }

    fn face_named(&self, name: &str) -> Option<FaceId> {
        let at = self.graph.faces.iter().position(|face| face.name == name)?;
        self.faces.of_graph.get(at).copied().flatten()
    }

    /// While a change is under way: takes out of `packets` what the old elements wait for, or what is held.
    pub(super) fn intercept(
        &mut self,
        now: Instant,
        packets: &mut Vec<Packet>,
        pool: &mut Pool,
        out: &mut Vec<Packet>,
    ) {
        let mut others = Vec::with_capacity(packets.len());
        let mut alone = Vec::with_capacity(1);
        for packet in packets.drain(..) {
            let Some(changing) = &mut self.changing else {
                others.push(packet);
                continue;
            };
            let is_interest = pool.meta(&packet).kind == Kind::Interest;
            if is_interest {
                match changing.order {
                    ChangeOrder::Buffer if changing.held.len() < HELD_MAX => changing.held.push_back(packet),
                    ChangeOrder::Buffer => pool.drop_packet(packet, Cause::ChangeFull, &mut self.drops),
                    ChangeOrder::Drop | ChangeOrder::MakeBeforeBreak => others.push(packet),
                }
                continue;
            }
            let expects = |place: &usize| {
                self.slots[*place].as_ref().is_some_and(|slot| slot.element.expects(&packet, pool))
            };
            if !changing.old.iter().any(expects) {
                others.push(packet);
                continue;
            }
            // The new elements may have asked for the same meanwhile.
            if self.places.iter().any(expects)
                && let Some(twin) = pool.twin(&packet)
            {
                others.push(twin);
            }
            alone.push(packet);
            self.with_old_wiring(|engine| {
                engine.enter(now, &mut alone.drain(..), pool, out);
                engine.run_batch(now, pool, out);
            });
        }
        *packets = others;
        self.go_on_changing(now, pool, out);
    }

    pub(super) fn with_old_wiring(&mut self, act: impl FnOnce(&mut Self)) {
        let Some(mut changing) = self.changing.take() else { return };
        core::mem::swap(&mut self.wiring, &mut changing.wiring);
        act(self);
        core::mem::swap(&mut self.wiring, &mut changing.wiring);
        self.changing = Some(changing);
    }

    /// Ends a change whose old elements wait for nothing any more, or have waited long enough.
    pub(super) fn go_on_changing(&mut self, now: Instant, pool: &mut Pool, out: &mut Vec<Packet>) {
        let Some(changing) = &mut self.changing else { return };
        let is_idle = |place: &usize| self.slots[*place].as_ref().is_none_or(|slot| slot.element.is_idle());
        if now >= changing.until || changing.old.iter().all(is_idle) {
            self.end_change(now, pool, out);
        } else if now >= changing.look {
            changing.look = now + LOOK_EVERY;
        }
    }

    /// Old elements go; what was held goes on.
    fn end_change(&mut self, now: Instant, pool: &mut Pool, out: &mut Vec<Packet>) {
        let Some(mut changing) = self.changing.take() else { return };
        for place in changing.old {
            self.take_away(place, pool);
        }
        let mut held: Vec<Packet> = changing.held.drain(..).collect();
        self.process(now, &mut held, pool, out);
    }

    /// An element goes; packets that it still holds are dropped.
    fn take_away(&mut self, place: usize, pool: &mut Pool) {
        if let Some(mut slot) = self.slots[place].take() {
            slot.element.give_up(&mut Lent { pool, out: &mut self.left, drops: &mut self.drops });
        }
        self.reads_names = self.slots.iter().flatten().any(|slot| !slot.element.takes_unread_names());
    }

    /// True for an element that only waits for answers.
    pub(super) fn is_going(&self, element: usize) -> bool {
        self.changing.as_ref().is_some_and(|changing| changing.old.contains(&element))
    }

    /// True while old elements still wait for answers.
    pub const fn is_changing(&self) -> bool {
        self.changing.is_some()
    }
}
