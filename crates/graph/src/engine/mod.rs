//! Runs a graph, with the same interface as the fused plane: decoded packets in, packets with an
//! egress face out. Pure: no socket, no clock.
//!
//! A batch is processed in three passes. First, the elements that only faces lead to (the
//! pre-stages) process all of it. Then memory is prefetched for every packet along its usual path.
//! Then each packet is run to its end, in order of arrival. So an element sees packets in the same
//! order as in the fused plane, and the same packets leave.
//!
//! If no element of a graph tracks pending Interests, replies find their way by *return labels*:
//! the ingress face of an Interest is prepended to its PIT token when it leaves, and taken off the
//! reply. Elements are not involved.
//!
//! | file | content |
//! |---|---|
//! | `wiring.rs` | connections as numbers |
//! | `label.rs` | return labels |
//! | `taps.rs` | captures between elements |
//! | `transition.rs` | replacing the graph while packets flow |

mod label;
mod taps;
mod transition;
mod wiring;

pub use taps::{PortSelection, StartedTap, TapError};
pub use transition::{ChangeMode, ChangeSummary};

use crate::model::{Graph, Position};
use nw_element_api::capture::Taps;
use nw_element_api::decode::{resolve_name_or_drop, resolve_names};
use nw_element_api::parameters::{BuildContext, ParameterError};
use nw_element_api::{
    AnyElement, Context, DropCause, DropCounters, Element, Erased, ErasedContext, FaceId, FaceInfo,
    Kind, OffloadTask, PREFETCH_STAGES_MAX, Packet, Parameters, Peer, Pool, Prediction,
    TaggedBatch, Timestamp,
};
use nw_elements::catalogue::Entry;
use nw_name::HashKey;
use std::any::Any;
use std::collections::BTreeMap;
use std::vec::Drain;
use transition::Transition;
use wiring::{Destination, InputPort, Link, TappedPort, Wiring};

/// Packets per batch: memory is prefetched for all of them before the first is processed.
pub const BATCH: usize = 64;
/// Steps that one packet and its copies may take between elements before it is dropped as looping.
const STEPS_MAX: u32 = 4096;

/// An invalid parameter of an element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Name of the element in the graph.
    pub node: String,
    /// Position of the element in the file.
    pub position: Position,
    /// The error.
    pub error: ParameterError,
}

/// An element of a running graph.
struct ElementSlot {
    /// Unique number of this element in this engine; never reused.
    serial: u64,
    name: String,
    entry: &'static Entry,
    parameters: Parameters,
    element: Box<dyn AnyElement>,
    /// Packets that entered, by input port, before the current wiring.
    packets_in: Vec<u64>,
    packets_out: Vec<u64>,
}

/// A task of an element for another thread. Pass it back with [`Engine::complete_task`].
pub struct OffloadJob {
    element: u64,
    work: Box<dyn OffloadTask>,
}

impl OffloadJob {
    /// Runs the task; may be called on any thread.
    pub fn run(&mut self) {
        self.work.run();
    }
}

/// Packets counted at one port of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortCount<'a> {
    /// Name of the element in the graph.
    pub node: &'a str,
    /// True for an output port.
    pub is_out: bool,
    /// Name of the port.
    pub port: &'static str,
    /// Packets since the element was created.
    pub packets: u64,
}

/// A running graph: elements, wiring, counters. See the module documentation.
pub struct Engine {
    key: HashKey,
    seed: u64,
    start_unix_ms: u64,
    /// Elements created so far: gives each its own seed and serial number.
    created_count: u64,
    graph: Graph,
    /// Elements by slot; `None` after an element was removed.
    slots: Vec<Option<ElementSlot>>,
    /// By node of the graph: the index of its slot.
    slot_of_node: Vec<usize>,
    wiring: Wiring,
    faces: FaceTable,
    drops: DropCounters,
    /// True while some element requires names to be decoded before it sees the packet.
    reads_names: bool,
    /// A change of the graph that is not complete.
    transition: Option<Box<Transition>>,
    /// Captures at faces, which the host observes, and at output ports.
    taps: Taps,
    tapped_ports: Vec<TappedPort>,
    // Buffers reused for each packet.
    input_buffer: Vec<Packet>,
    /// What prefetching found for the packets of `batch`, at the same positions.
    predictions: Vec<Prediction>,
    spare_runs: Vec<TaggedBatch<u8>>,
    batch: TaggedBatch<Link>,
    pending: Vec<(Link, Packet)>,
    emitted: TaggedBatch<u8>,
    prefetch: bool,
}

/// Faces of the router, and the face of the graph each belongs to.
#[derive(Debug, Default)]
struct FaceTable {
    /// Index of the graph's default face.
    default: Option<usize>,
    /// By face of the graph: the router's face that leads to its peer, while that is up. `None` for
    /// listeners.
    by_graph_face: Vec<Option<FaceId>>,
    /// All faces, each with the name of its graph face.
    attached: Vec<(FaceId, FaceInfo, String)>,
    /// Peers of the faces, where known.
    peers: Vec<(FaceId, Peer)>,
}

impl FaceTable {
    /// Returns the face for Interests without an egress face; [`FaceId::NONE`] if there is none.
    fn default_face(&self) -> FaceId {
        self.default.and_then(|face| self.by_graph_face[face]).unwrap_or(FaceId::NONE)
    }
}

impl Engine {
    /// Builds the elements of a checked graph, without faces. The wall clock starts at 1970.
    ///
    /// # Errors
    /// All invalid parameters.
    pub fn new(graph: &Graph, key: HashKey, seed: u64) -> Result<Self, Vec<Fault>> {
        Engine::with_start_time(graph, key, seed, 0)
    }

    /// Passes a wall clock reading to all elements, and keeps it for elements created later.
    pub fn wall_clock_set(&mut self, now: Timestamp, unix_ms: u64) {
        self.start_unix_ms = unix_ms.saturating_sub(now.as_millis());
        for slot in self.slots.iter_mut().flatten() {
            slot.element.wall_clock_set(now, unix_ms);
        }
    }

    /// Like [`new`](Self::new), with the wall clock time at [`Timestamp::START`] in milliseconds
    /// since 1970.
    ///
    /// # Errors
    /// All invalid parameters.
    pub fn with_start_time(
        graph: &Graph,
        key: HashKey,
        seed: u64,
        start_unix_ms: u64,
    ) -> Result<Self, Vec<Fault>> {
        let mut engine = Engine {
            key,
            seed,
            start_unix_ms,
            created_count: 0,
            graph: Graph::default(),
            slots: Vec::new(),
            slot_of_node: Vec::new(),
            wiring: Wiring::default(),
            faces: FaceTable::default(),
            drops: DropCounters::default(),
            reads_names: false,
            transition: None,
            taps: Taps::default(),
            tapped_ports: Vec::new(),
            input_buffer: Vec::with_capacity(BATCH),
            predictions: Vec::with_capacity(BATCH),
            spare_runs: Vec::new(),
            batch: TaggedBatch::default(),
            pending: Vec::new(),
            emitted: TaggedBatch::default(),
            prefetch: true,
        };
        let mut pool = Pool::new(key, 1, 1);
        let summary =
            engine.change(Timestamp::START, graph, ChangeMode::Drop, &mut pool, &mut Vec::new())?;
        if summary.rejected_parameters.is_empty() {
            Ok(engine)
        } else {
            Err(summary.rejected_parameters)
        }
    }

    /// Turns prefetching on or off; off only to measure its effect.
    pub const fn set_prefetch(&mut self, prefetch: bool) {
        self.prefetch = prefetch;
    }

    /// Adds a face of the router; call it before the face's first packet. `graph_face` is the face
    /// of the graph that leads to the peer, or whose listener accepted it (`is_accepted`).
    ///
    /// Routes that name the face take effect with the next [`apply`](Self::apply).
    pub fn add_face(&mut self, face: FaceId, info: FaceInfo, graph_face: usize, is_accepted: bool) {
        self.faces.attached.push((face, info, self.graph.faces[graph_face].name.clone()));
        // For a listener with one peer at a time, packets go to the peer that connected first.
        if !is_accepted
            || self.graph.faces[graph_face].is_single_peer
                && self.faces.by_graph_face[graph_face].is_none()
        {
            self.faces.by_graph_face[graph_face] = Some(face);
        }
        self.wiring.attach_face(face, graph_face);
        if let Some(transition) = &mut self.transition {
            transition.attach_face(face, graph_face);
        }
        for slot in self.slots.iter_mut().flatten() {
            slot.element.face_added(face, info);
        }
    }

    /// Lets Interests for a face of the graph leave by this face from now on. Routes that name it
    /// take effect with the next [`apply`](Self::apply).
    pub fn set_peer_face(&mut self, graph_face: usize, face: FaceId) {
        self.faces.by_graph_face[graph_face] = Some(face);
    }

    /// Sets the peer of a face that was added: see [`Element::set_peer`].
    pub fn set_peer(&mut self, face: FaceId, peer: Peer) {
        self.faces.peers.push((face, peer));
        for slot in self.slots.iter_mut().flatten() {
            slot.element.set_peer(face, peer);
        }
    }

    /// Removes a face. If it was the peer of a single-peer listener, the next accepted face takes
    /// its place.
    pub fn remove_face(&mut self, now: Timestamp, face: FaceId) {
        self.faces.attached.retain(|(known, ..)| *known != face);
        self.faces.peers.retain(|(known, _)| *known != face);
        for (declared, peer_face) in self.graph.faces.iter().zip(&mut self.faces.by_graph_face) {
            if *peer_face == Some(face) {
                let mut accepted = self
                    .faces
                    .attached
                    .iter()
                    .filter(|(_, _, name)| declared.is_single_peer && *name == declared.name);
                *peer_face = accepted.next().map(|(next, ..)| *next);
            }
        }
        for slot in self.slots.iter_mut().flatten() {
            slot.element.face_gone(now, face);
        }
    }

    /// Applies the live parameters of all elements again. Call it after faces that routes name were
    /// added or removed.
    ///
    /// # Errors
    /// All parameters that could not be applied; the others are in effect.
    pub fn apply(
        &mut self,
        now: Timestamp,
        pool: &mut Pool,
        out: &mut Vec<Packet>,
    ) -> Result<(), Vec<Fault>> {
        let mut faults = Vec::new();
        for node in 0..self.graph.nodes.len() {
            faults.extend(self.apply_to(now, node, pool, out));
        }
        if faults.is_empty() { Ok(()) } else { Err(faults) }
    }

    fn apply_to(
        &mut self,
        now: Timestamp,
        node: usize,
        pool: &mut Pool,
        out: &mut Vec<Packet>,
    ) -> Vec<Fault> {
        let index = self.slot_of_node[node];
        let Some(slot) = &mut self.slots[index] else { return Vec::new() };
        let (names, by_graph_face) = (&self.graph.faces, &self.faces.by_graph_face);
        // A face that is not up yet is valid, but has no id.
        let face = |name: &str| {
            let at = names.iter().position(|face| face.name == name)?;
            Some(by_graph_face[at].unwrap_or(FaceId::NONE))
        };
        let seed = self.seed.wrapping_add(index as u64);
        let context =
            BuildContext { key: self.key, seed, start_unix_ms: self.start_unix_ms, faces: &face };
        let mut ctx =
            ErasedContext { pool: &mut *pool, out: &mut self.emitted, drops: &mut self.drops };
        let applied =
            slot.entry.apply(slot.element.as_mut(), now, &context, &slot.parameters, &mut ctx);
        self.run_emitted(now, index, pool, out);
        let graph_node = &self.graph.nodes[node];
        let fault =
            |error| Fault { node: graph_node.name.clone(), position: graph_node.position, error };
        applied.err().into_iter().flatten().map(fault).collect()
    }

    /// Processes all decoded packets in order. Appends packets that leave to `out`, with
    /// `meta.egress` set.
    pub fn process(
        &mut self,
        now: Timestamp,
        packets: &mut Vec<Packet>,
        pool: &mut Pool,
        out: &mut Vec<Packet>,
    ) {
        if self.reads_names || self.transition.is_some() {
            resolve_names(pool, packets, &mut self.drops);
        }
        if self.transition.is_some() {
            self.intercept(now, packets, pool, out);
        }
        let mut packets = packets.drain(..);
        while !packets.as_slice().is_empty() {
            self.run_pre_stages(now, &mut packets, pool, out);
            if self.prefetch && self.batch.len() > 1 {
                self.prefetch_batch(pool);
            }
            self.drain_batch(now, pool, out);
        }
    }

    /// Runs up to one batch of packets through the pre-stages, and keeps the results in
    /// `self.batch`.
    fn run_pre_stages(
        &mut self,
        now: Timestamp,
        packets: &mut Drain<'_, Packet>,
        pool: &mut Pool,
        out: &mut Vec<Packet>,
    ) {
        let mut remaining = packets.len().min(BATCH);
        while remaining > 0 {
            // Usually all packets enter by the same port, and most come from one face.
            let ingress_and_kind = |packet: &Packet| {
                let meta = pool.meta(packet);
                (meta.ingress, meta.kind)
            };
            let link_for = |(face, kind)| self.wiring.input(face, kind);
            let batch = &packets.as_slice()[..remaining];
            let first = ingress_and_kind(&batch[0]);
            let link = link_for(first);
            let has_same_link = |packet: &&Packet| {
                let key = ingress_and_kind(packet);
                key == first || link_for(key) == link
            };
            let group_len = batch.iter().take_while(has_same_link).count();
            remaining -= group_len;
            let group = packets.take(group_len);
            if self.wiring.uses_labels {
                for packet in group {
                    match label::detach(&packet, pool) {
                        true => self.input_buffer.push(packet),
                        false => pool.drop_packet(packet, DropCause::ReturnLabel, &mut self.drops),
                    }
                }
            } else {
                self.input_buffer.extend(group);
            }
            self.enter_group(now, link, pool, out);
        }
    }

    /// Runs `self.input_buffer`, whose packets share one link, through the pre-stages into the
    /// batch.
    fn enter_group(&mut self, now: Timestamp, link: Link, pool: &mut Pool, out: &mut Vec<Packet>) {
        if self.input_buffer.is_empty() {
            return;
        }
        let group = core::mem::take(&mut self.input_buffer);
        self.input_buffer = self.run_batch(now, link, group, pool, out, true);
    }

    /// Runs each packet of the batch to its end.
    fn drain_batch(&mut self, now: Timestamp, pool: &mut Pool, out: &mut Vec<Packet>) {
        let mut batch = core::mem::take(&mut self.batch);
        let list = core::mem::take(&mut self.input_buffer);
        self.input_buffer =
            batch.drain(list, |link, group| self.run_batch(now, link, group, pool, out, false));
        self.batch = batch;
    }

    /// Like [`run`](Self::run) for several packets, in order; packets that leave an element by the
    /// same port stay together. Returns the emptied list for reuse.
    fn run_batch(
        &mut self,
        now: Timestamp,
        link: Link,
        mut group: Vec<Packet>,
        pool: &mut Pool,
        out: &mut Vec<Packet>,
        pre_stages_only: bool,
    ) -> Vec<Packet> {
        let input = match link.destination() {
            Destination::InputPort(input)
                if pre_stages_only && !self.wiring.is_pre_stage[input] =>
            {
                self.batch.append(link, &mut group);
                return group;
            }
            Destination::InputPort(input) if group.len() > 1 && self.wiring.is_linear[input] => {
                input
            }
            destination @ (Destination::Egress
            | Destination::Face(_)
            | Destination::Unconnected) => {
                self.emit_batch(destination, &mut group, pool, out);
                return group;
            }
            Destination::Tap(tap) => {
                let link = self.observe(now, tap, &group, pool);
                return self.run_batch(now, link, group, pool, out, pre_stages_only);
            }
            Destination::InputPort(_) => {
                group
                    .drain(..)
                    .for_each(|packet| self.run(now, link, packet, pool, out, pre_stages_only));
                return group;
            }
        };
        self.wiring.packets_in[input] += group.len() as u64;
        let InputPort { element, port, links } = self.wiring.input_ports[input];
        let mut emitted = self.spare_runs.pop().unwrap_or_default();
        let slot = self.slots[usize::from(element)].as_mut().expect(SLOT_IN_USE);
        let mut ctx = ErasedContext { pool: &mut *pool, out: &mut emitted, drops: &mut self.drops };
        slot.element.process_all(now, port, &mut group, &mut ctx);
        let group = emitted.drain(group, |port, group| {
            let link_index = usize::from(links) + usize::from(port);
            self.wiring.packets_out[link_index] += group.len() as u64;
            self.run_batch(now, self.wiring.links[link_index], group, pool, out, pre_stages_only)
        });
        self.spare_runs.push(emitted);
        group
    }

    fn prefetch_batch(&mut self, pool: &Pool) {
        self.predictions.clear();
        self.predictions.resize(self.batch.len(), Prediction::default());
        for stage in 0..PREFETCH_STAGES_MAX {
            let mut others = &mut self.predictions[..];
            for (link, packets) in self.batch.iter() {
                let predictions =
                    others.split_off_mut(..packets.len()).expect("one for each packet");
                let Destination::InputPort(input) = link.destination() else { continue };
                for next in &self.wiring.main_path[input] {
                    let next = self.wiring.input_ports[*next];
                    let element =
                        &self.slots[usize::from(next.element)].as_ref().expect(SLOT_IN_USE).element;
                    if stage < element.prefetch_stages(next.port) {
                        element.prefetch(stage, next.port, packets, predictions, pool);
                    }
                }
            }
        }
    }

    /// Runs a packet, and all packets that result from it, to their end, depth first in the order
    /// of emission. With `pre_stages_only`, stops before the first element that is not a pre-stage,
    /// and adds the packet to the batch.
    #[inline]
    fn run(
        &mut self,
        now: Timestamp,
        mut link: Link,
        mut packet: Packet,
        pool: &mut Pool,
        out: &mut Vec<Packet>,
        pre_stages_only: bool,
    ) {
        let mut steps = 0;
        loop {
            let next = match link.destination() {
                Destination::InputPort(input)
                    if pre_stages_only && !self.wiring.is_pre_stage[input] =>
                {
                    self.batch.push(link, packet);
                    None
                }
                Destination::InputPort(input) => {
                    steps += 1;
                    self.step(now, input, packet, steps, pool)
                }
                Destination::Tap(tap) => {
                    let observed = self.observe(now, tap, core::slice::from_ref(&packet), pool);
                    Some((observed, packet))
                }
                destination => {
                    self.emit(destination, packet, pool, out);
                    None
                }
            };
            match next.or_else(|| self.pending.pop()) {
                Some(next) => (link, packet) = next,
                None => return,
            }
        }
    }

    /// Processes a packet with one element. Returns the first packet it emits and that packet's
    /// link; further ones are pushed to `self.pending`.
    #[inline(always)]
    fn step(
        &mut self,
        now: Timestamp,
        input: usize,
        packet: Packet,
        steps: u32,
        pool: &mut Pool,
    ) -> Option<(Link, Packet)> {
        let InputPort { element, port, links } = self.wiring.input_ports[input];
        if steps > STEPS_MAX {
            pool.drop_packet(packet, DropCause::GraphLoop, &mut self.drops);
            return None;
        }
        let slot = self.slots[usize::from(element)].as_mut().expect(SLOT_IN_USE);
        self.wiring.packets_in[input] += 1;
        let mut ctx = ErasedContext { pool, out: &mut self.emitted, drops: &mut self.drops };
        let (port, first) = slot.element.process(now, port, packet, &mut ctx)?;
        if !self.emitted.is_empty() {
            self.push_emitted(usize::from(element));
        }
        let link_index = usize::from(links) + usize::from(port);
        self.wiring.packets_out[link_index] += 1;
        Some((self.wiring.links[link_index], first))
    }

    /// Pushes the packets an element emitted to `self.pending`, the first one on top.
    fn push_emitted(&mut self, element: usize) {
        let links = self.wiring.first_link(element);
        while let Some((port, packet)) = self.emitted.pop() {
            let link_index = links + usize::from(port);
            self.wiring.packets_out[link_index] += 1;
            self.pending.push((self.wiring.links[link_index], packet));
        }
    }

    /// Runs all packets that an element emitted outside of `process` to their end.
    fn run_emitted(
        &mut self,
        now: Timestamp,
        element: usize,
        pool: &mut Pool,
        out: &mut Vec<Packet>,
    ) {
        self.push_emitted(element);
        if let Some((link, packet)) = self.pending.pop() {
            self.run(now, link, packet, pool, out, false);
        }
    }

    /// Like [`emit`](Self::emit) for several packets, in order. Usually every packet has an egress
    /// face and a decoded name, and nothing is left to do.
    fn emit_batch(
        &mut self,
        destination: Destination,
        group: &mut Vec<Packet>,
        pool: &mut Pool,
        out: &mut Vec<Packet>,
    ) {
        let is_ready_to_send = |packet: &Packet| {
            let meta = pool.meta(packet);
            meta.egress != FaceId::NONE && meta.has_full_hash()
        };
        if destination == Destination::Egress
            && !self.wiring.uses_labels
            && group.iter().all(is_ready_to_send)
        {
            out.append(group);
        } else {
            group.drain(..).for_each(|packet| self.emit(destination, packet, pool, out));
        }
    }

    fn emit(
        &mut self,
        destination: Destination,
        packet: Packet,
        pool: &mut Pool,
        out: &mut Vec<Packet>,
    ) {
        let egress = match destination {
            Destination::Face(face) => self.faces.by_graph_face[face].unwrap_or(FaceId::NONE),
            Destination::Egress => match pool.meta(&packet) {
                meta if meta.egress == FaceId::NONE && meta.kind == Kind::Interest => {
                    self.faces.default_face()
                }
                meta => meta.egress,
            },
            Destination::InputPort(_) | Destination::Tap(_) | Destination::Unconnected => {
                return pool.drop_packet(packet, DropCause::Unconnected, &mut self.drops);
            }
        };
        if egress == FaceId::NONE {
            return pool.drop_packet(packet, DropCause::FaceGone, &mut self.drops);
        }
        // No element on its path may have decoded its name.
        let packet = match pool.meta(&packet).has_full_hash() {
            true => packet,
            false => match resolve_name_or_drop(pool, packet, &mut self.drops) {
                Some(packet) => packet,
                None => return,
            },
        };
        let meta = pool.meta_mut(&packet);
        meta.egress = egress;
        if self.wiring.uses_labels && meta.kind == Kind::Interest && !label::attach(meta) {
            return pool.drop_packet(packet, DropCause::ReturnLabel, &mut self.drops);
        }
        out.push(packet);
    }

    /// Runs the timers that are due. Appends packets that leave to `out`.
    pub fn tick(&mut self, now: Timestamp, pool: &mut Pool, out: &mut Vec<Packet>) {
        for element in 0..self.slots.len() {
            let is_due = |slot: &ElementSlot| {
                slot.element.deadline().is_some_and(|deadline| deadline <= now)
            };
            if !self.slots[element].as_ref().is_some_and(is_due) {
                continue;
            }
            self.outside_packet_path(element, |engine| {
                let Some(slot) = &mut engine.slots[element] else { return };
                let mut ctx = ErasedContext {
                    pool: &mut *pool,
                    out: &mut engine.emitted,
                    drops: &mut engine.drops,
                };
                slot.element.tick(now, &mut ctx);
                engine.run_emitted(now, element, pool, out);
            });
        }
        self.advance_transition(now, pool, out);
    }

    /// Returns a task that another thread may run, or `None`.
    pub fn take_task(&mut self) -> Option<OffloadJob> {
        self.slots.iter_mut().flatten().find_map(|slot| {
            let work = slot.element.take_task()?;
            Some(OffloadJob { element: slot.serial, work })
        })
    }

    /// Accepts a finished task. Appends packets that leave to `out`. If the element was removed,
    /// its packets were dropped with it.
    pub fn complete_task(
        &mut self,
        now: Timestamp,
        errand: OffloadJob,
        pool: &mut Pool,
        out: &mut Vec<Packet>,
    ) {
        let OffloadJob { element, work } = errand;
        let is_its_slot =
            |slot: &Option<ElementSlot>| slot.as_ref().is_some_and(|slot| slot.serial == element);
        let Some(index) = self.slots.iter().position(is_its_slot) else { return };
        self.outside_packet_path(index, |engine| {
            let Some(slot) = &mut engine.slots[index] else { return };
            let mut ctx = ErasedContext {
                pool: &mut *pool,
                out: &mut engine.emitted,
                drops: &mut engine.drops,
            };
            slot.element.complete_task(now, work, &mut ctx);
            engine.run_emitted(now, index, pool, out);
        });
    }

    /// Runs `act` for an element outside of `process`: packets it emits follow the wiring the
    /// element was created with.
    fn outside_packet_path(&mut self, element: usize, act: impl FnOnce(&mut Self)) {
        match self.is_draining(element) {
            true => self.with_old_wiring(act),
            false => act(self),
        }
    }

    /// Returns when to call [`tick`](Self::tick) next. Changes after every other call.
    pub fn deadline(&self) -> Option<Timestamp> {
        let elements = self.slots.iter().flatten().filter_map(|slot| slot.element.deadline());
        elements.chain(self.transition.as_ref().map(|transition| transition.next_check())).min()
    }

    /// Returns whether no element holds state that a later packet needs.
    pub fn is_idle(&self) -> bool {
        self.transition.is_none() && self.slots.iter().flatten().all(|slot| slot.element.is_idle())
    }

    /// Returns the packets dropped between ingress and egress, by reason.
    pub const fn drops(&self) -> &DropCounters {
        &self.drops
    }

    /// Returns the running graph; during a change, the new one.
    pub const fn graph(&self) -> &Graph {
        &self.graph
    }

    /// Returns the face that leads to the peer of each face of the graph, while that is up.
    pub fn peer_faces(&self) -> BTreeMap<String, FaceId> {
        let faces = self.graph.faces.iter().zip(&self.faces.by_graph_face);
        faces.filter_map(|(face, peer)| Some((face.name.clone(), (*peer)?))).collect()
    }

    /// Returns the element of a node; the caller can downcast it.
    pub fn element(&self, node: &str) -> Option<&dyn AnyElement> {
        let at = self.graph.nodes.iter().position(|known| known.name == node)?;
        self.slots[self.slot_of_node[at]].as_ref().map(|slot| slot.element.as_ref())
    }

    /// Calls `change` with the element of a node; it may emit packets. `None` if there is no such
    /// node, or its element is of another type.
    pub fn with<E: Element + Send + 'static, R>(
        &mut self,
        node: &str,
        now: Timestamp,
        pool: &mut Pool,
        out: &mut Vec<Packet>,
        change: impl FnOnce(&mut E, &mut Context<'_, E::Out>) -> R,
    ) -> Option<R> {
        let at = self.graph.nodes.iter().position(|known| known.name == node)?;
        let index = self.slot_of_node[at];
        let element: &mut dyn Any = self.slots[index].as_mut()?.element.as_mut();
        let element = element.downcast_mut::<Erased<E>>()?;
        let mut ctx =
            ErasedContext { pool: &mut *pool, out: &mut self.emitted, drops: &mut self.drops };
        let result = element.with(&mut ctx, change);
        self.run_emitted(now, index, pool, out);
        Some(result)
    }

    /// Returns the packets counted at each port, in the order of the graph.
    pub fn counts(&self) -> Vec<PortCount<'_>> {
        let mut counts = Vec::new();
        for index in &self.slot_of_node {
            let Some(slot) = &self.slots[*index] else { continue };
            let (packets_in, packets_out) = self.wiring.counts(*index);
            let ins = (false, slot.entry.ins, &slot.packets_in, packets_in);
            for (is_out, ports, before, now) in
                [ins, (true, slot.entry.outs, &slot.packets_out, packets_out)]
            {
                let ports = ports.iter().zip(before).zip(now);
                counts.extend(ports.map(|((port, before), now)| PortCount {
                    node: &slot.name,
                    is_out,
                    port: port.name,
                    packets: before + now,
                }));
            }
        }
        counts
    }
}

/// Reason why an element slot can't be empty.
const SLOT_IN_USE: &str = "links lead to slots in use";
