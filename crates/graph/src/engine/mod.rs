//! Runs a graph: packets in, packets out, as the fused plane takes and gives them. Pure: no socket, no clock.
//!
//! A batch goes through in three passes. Elements to which only faces lead take all of it first; then every packet asks for the memory that it will
//! need where it usually goes; then each goes its way alone to its end, the first one first. So an element sees packets in the very order in which the
//! fused plane shows them to it, and the same packets leave.
//!
//! Where no element of a graph remembers Interests, replies find back by *return labels*: the face that an Interest came by is put before its token as it
//! leaves, and taken off what comes back. An element needs to know nothing of it.
//!
//! | file | what |
//! |---|---|
//! | `wiring.rs` | connections as numbers |
//! | `label.rs` | return labels |
//! | `change.rs` | another graph while packets flow |

mod change;
mod label;
mod wiring;

pub use change::{ChangeOrder, Changed};

use crate::model::{Graph, Place};
use change::Changing;
use nw_element_api::decode::{read_names, read_or_drop};
use nw_element_api::parameters::{Making, ParameterError};
use nw_element_api::{
    AnyElement, Cause, Context, DropCounters, Element, Erased, FaceId, FaceInfo, Instant, Kind, Lent,
    PREFETCH_STAGES_MAX, Packet, Parameters, Peer, Pool, Runs, Work,
};
use nw_elements::catalogue::Entry;
use nw_name::HashKey;
use std::any::Any;
use std::vec::Drain;
use wiring::{Site, Target, What, Wiring};

/// Packets that ask for memory together.
pub const BATCH: usize = 64;
/// Steps that one packet, and all that become of it, may take between elements.
const STEPS_MAX: u32 = 4096;

/// A parameter of an element that is not as it must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The element in the graph.
    pub node: String,
    /// Where that stands.
    pub place: Place,
    /// What is wrong.
    pub error: ParameterError,
}

/// An element of a running graph.
struct Slot {
    /// No other element of this engine ever has it.
    serial: u64,
    name: String,
    entry: &'static Entry,
    parameters: Parameters,
    element: Box<dyn AnyElement>,
    /// By port: packets that entered, and that left, before the connections became what they are.
    entered: Vec<u64>,
    left: Vec<u64>,
}

/// Work of an element for another thread; it goes back by [`Engine::finish_work`].
pub struct Errand {
    element: u64,
    work: Box<dyn Work>,
}

impl Errand {
    /// Does it.
    pub fn run(&mut self) {
        self.work.run();
    }
}

/// What passed one port of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortCount<'a> {
    /// The element in the graph.
    pub node: &'a str,
    /// True where packets leave.
    pub is_out: bool,
    /// The port.
    pub port: &'static str,
    /// Since the element is there.
    pub packets: u64,
}

/// See the module.
pub struct Engine {
    key: HashKey,
    seed: u64,
    start_unix_ms: u64,
    /// Elements made so far: each has a seed and a number of its own.
    made: u64,
    graph: Graph,
    /// Some are empty: what stood there was taken out.
    slots: Vec<Option<Slot>>,
    /// By node of the graph.
    places: Vec<usize>,
    wiring: Wiring,
    faces: Faces,
    drops: DropCounters,
    /// True while some element wants to be shown names that were read.
    reads_names: bool,
    /// Present while a change is not complete.
    changing: Option<Box<Changing>>,
    // Room used again by each packet.
    entering: Vec<Packet>,
    spare: Vec<Runs<u8>>,
    batch: Runs<Target>,
    stack: Vec<(Target, Packet)>,
    left: Runs<u8>,
    prefetch: bool,
}

/// Faces of the router, and which face of the graph each is.
#[derive(Debug, Default)]
struct Faces {
    /// The face of the graph that is the default.
    default: Option<usize>,
    /// By face of the graph: the one that leads there, if it is one and is up.
    of_graph: Vec<Option<FaceId>>,
    /// All there are, with the face of the graph by whose name each was made.
    known: Vec<(FaceId, FaceInfo, String)>,
    /// Which peers are behind them, where that is known.
    peers: Vec<(FaceId, Peer)>,
}

impl Faces {
    /// Where Interests go for which no element decided.
    fn default_face(&self) -> FaceId {
        self.default.and_then(|face| self.of_graph[face]).unwrap_or(FaceId::NONE)
    }
}

impl Engine {
    /// Makes the elements of a graph that was found good. Faces are still to come. To elements it is 1970.
    ///
    /// # Errors
    /// All that is wrong with parameters.
    pub fn new(graph: &Graph, key: HashKey, seed: u64) -> Result<Self, Vec<Fault>> {
        Engine::starting_at(graph, key, seed, 0)
    }

    /// Takes a reading of the wall clock, for the elements there are and those that are made later.
    pub fn wall_clock_set(&mut self, now: Instant, unix_ms: u64) {
        self.start_unix_ms = unix_ms.saturating_sub(now.as_millis());
        for slot in self.slots.iter_mut().flatten() {
            slot.element.wall_clock_set(now, unix_ms);
        }
    }

    /// As [`new`](Self::new), where the wall clock shows `start_unix_ms` at [`Instant::START`].
    ///
    /// # Errors
    /// See there.
    pub fn starting_at(
        graph: &Graph,
        key: HashKey,
        seed: u64,
        start_unix_ms: u64,
    ) -> Result<Self, Vec<Fault>> {
        let mut engine = Engine {
            key,
            seed,
            start_unix_ms,
            made: 0,
            graph: Graph::default(),
            slots: Vec::new(),
            places: Vec::new(),
            wiring: Wiring::default(),
            faces: Faces::default(),
            drops: DropCounters::default(),
            reads_names: false,
            changing: None,
            entering: Vec::with_capacity(BATCH),
            spare: Vec::new(),
            batch: Runs::default(),
            stack: Vec::new(),
            left: Runs::default(),
            prefetch: true,
        };
        let mut pool = Pool::new(key, 1, 1);
        let changed = engine.change(Instant::START, graph, ChangeOrder::Drop, &mut pool, &mut Vec::new())?;
        if changed.not_in_effect.is_empty() { Ok(engine) } else { Err(changed.not_in_effect) }
    }

    /// Turns asking for memory off: for measuring what it brings.
    pub const fn set_prefetch(&mut self, prefetch: bool) {
        self.prefetch = prefetch;
    }

    /// Tells of a face before its first packet: `of` is the face of the graph that leads there, or that it was accepted by (`is_accepted`).
    ///
    /// Routes that name a face lead there from the next [`apply`](Self::apply) on.
    pub fn add_face(&mut self, face: FaceId, info: FaceInfo, of: usize, is_accepted: bool) {
        self.faces.known.push((face, info, self.graph.faces[of].name.clone()));
        // Who connected first to a face for one is where that face leads.
        if !is_accepted || self.graph.faces[of].is_single && self.faces.of_graph[of].is_none() {
            self.faces.of_graph[of] = Some(face);
        }
        self.wiring.open(face, of);
        if let Some(changing) = &mut self.changing {
            changing.open(face, of);
        }
        for slot in self.slots.iter_mut().flatten() {
            slot.element.face_added(face, info);
        }
    }

    /// Says which peer is behind a face that was added: see [`Element::set_peer`].
    pub fn set_peer(&mut self, face: FaceId, peer: Peer) {
        self.faces.peers.push((face, peer));
        for slot in self.slots.iter_mut().flatten() {
            slot.element.set_peer(face, peer);
        }
    }

    /// Tells that a face is gone. Where it was the one of a face for a single peer, the next that waits there takes its place.
    pub fn remove_face(&mut self, now: Instant, face: FaceId) {
        self.faces.known.retain(|(known, ..)| *known != face);
        self.faces.peers.retain(|(known, _)| *known != face);
        for (of, led) in self.graph.faces.iter().zip(&mut self.faces.of_graph) {
            if *led == Some(face) {
                let mut waiting =
                    self.faces.known.iter().filter(|(_, _, name)| of.is_single && *name == of.name);
                *led = waiting.next().map(|(next, ..)| *next);
            }
        }
        for slot in self.slots.iter_mut().flatten() {
            slot.element.face_gone(now, face);
        }
    }

    /// Gives all elements the parameters that may change while packets flow once more: after faces came or went that routes name.
    ///
    /// # Errors
    /// All that is wrong with them.
    pub fn apply(&mut self, now: Instant, pool: &mut Pool, out: &mut Vec<Packet>) -> Result<(), Vec<Fault>> {
        let mut faults = Vec::new();
        for node in 0..self.graph.nodes.len() {
            faults.extend(self.apply_to(now, node, pool, out));
        }
        if faults.is_empty() { Ok(()) } else { Err(faults) }
    }

    fn apply_to(&mut self, now: Instant, node: usize, pool: &mut Pool, out: &mut Vec<Packet>) -> Vec<Fault> {
        let place = self.places[node];
        let Some(slot) = &mut self.slots[place] else { return Vec::new() };
        let (names, of_graph) = (&self.graph.faces, &self.faces.of_graph);
        // A face that is not up yet is known, and leads nowhere.
        let face = |name: &str| {
            let at = names.iter().position(|face| face.name == name)?;
            Some(of_graph[at].unwrap_or(FaceId::NONE))
        };
        let seed = self.seed.wrapping_add(place as u64);
        let making = Making { key: self.key, seed, start_unix_ms: self.start_unix_ms, faces: &face };
        let mut lent = Lent { pool: &mut *pool, out: &mut self.left, drops: &mut self.drops };
        let applied = slot.entry.apply(slot.element.as_mut(), now, &making, &slot.parameters, &mut lent);
        self.go_left(now, place, pool, out);
        let graph_node = &self.graph.nodes[node];
        let fault = |error| Fault { node: graph_node.name.clone(), place: graph_node.place, error };
        applied.err().into_iter().flatten().map(fault).collect()
    }

    /// Takes decoded packets, all of them, in order; what leaves is appended to `out` with `meta.egress` set.
    pub fn process(
        &mut self,
        now: Instant,
        packets: &mut Vec<Packet>,
        pool: &mut Pool,
        out: &mut Vec<Packet>,
    ) {
        if self.reads_names || self.changing.is_some() {
            read_names(pool, packets, &mut self.drops);
        }
        if self.changing.is_some() {
            self.intercept(now, packets, pool, out);
        }
        let mut packets = packets.drain(..);
        while !packets.as_slice().is_empty() {
            self.enter(now, &mut packets, pool, out);
            if self.prefetch && self.batch.len() > 1 {
                self.prefetch_batch(pool);
            }
            self.run_batch(now, pool, out);
        }
    }

    /// Takes a batch of packets through what is ahead of all others, and keeps what becomes of them.
    fn enter(
        &mut self,
        now: Instant,
        packets: &mut Drain<'_, Packet>,
        pool: &mut Pool,
        out: &mut Vec<Packet>,
    ) {
        let mut left = packets.len().min(BATCH);
        while left > 0 {
            // As a rule all of them enter by the same port, and most of the same face.
            let came_as = |packet: &Packet| {
                let meta = pool.meta(packet);
                (meta.ingress, meta.kind)
            };
            let enters_by = |(face, kind)| self.wiring.input(face, kind);
            let batch = &packets.as_slice()[..left];
            let first = came_as(&batch[0]);
            let target = enters_by(first);
            let enters_alike = |packet: &&Packet| {
                let as_what = came_as(packet);
                as_what == first || enters_by(as_what) == target
            };
            let together = batch.iter().take_while(enters_alike).count();
            left -= together;
            let run = packets.take(together);
            if self.wiring.labels {
                for packet in run {
                    match label::take_off(&packet, pool) {
                        true => self.entering.push(packet),
                        false => pool.drop_packet(packet, Cause::ReturnLabel, &mut self.drops),
                    }
                }
            } else {
                self.entering.extend(run);
            }
            self.enter_run(now, target, pool, out);
        }
    }

    /// Takes what entered, all for one target, through what is ahead, and keeps it for the batch.
    fn enter_run(&mut self, now: Instant, target: Target, pool: &mut Pool, out: &mut Vec<Packet>) {
        if self.entering.is_empty() {
            return;
        }
        let run = core::mem::take(&mut self.entering);
        self.entering = self.go_together(now, target, run, pool, out, true);
    }

    /// Takes each packet of the batch to its end.
    fn run_batch(&mut self, now: Instant, pool: &mut Pool, out: &mut Vec<Packet>) {
        let mut batch = core::mem::take(&mut self.batch);
        let list = core::mem::take(&mut self.entering);
        self.entering = batch.drain(list, |target, run| self.go_together(now, target, run, pool, out, false));
        self.batch = batch;
    }

    /// As [`go`](Self::go) for each of several packets, in order: those that leave elements by the same ports stay together. Gives the list back, empty.
    fn go_together(
        &mut self,
        now: Instant,
        target: Target,
        mut run: Vec<Packet>,
        pool: &mut Pool,
        out: &mut Vec<Packet>,
        ahead_only: bool,
    ) -> Vec<Packet> {
        let site = match target.what() {
            What::Site(site) if ahead_only && !self.wiring.ahead[site] => {
                self.batch.append(target, &mut run);
                return run;
            }
            What::Site(site) if run.len() > 1 && self.wiring.straight[site] => site,
            what @ (What::Egress | What::Face(_) | What::Nowhere) => {
                self.leave_together(what, &mut run, pool, out);
                return run;
            }
            What::Site(_) => {
                run.drain(..).for_each(|packet| self.go(now, target, packet, pool, out, ahead_only));
                return run;
            }
        };
        self.wiring.entered[site] += run.len() as u64;
        let Site { element, port, routes } = self.wiring.sites[site];
        let mut left = self.spare.pop().unwrap_or_default();
        let slot = self.slots[usize::from(element)].as_mut().expect(THERE);
        let mut lent = Lent { pool: &mut *pool, out: &mut left, drops: &mut self.drops };
        slot.element.process_all(now, port, &mut run, &mut lent);
        let run = left.drain(run, |port, run| {
            let route = usize::from(routes) + usize::from(port);
            self.wiring.left[route] += run.len() as u64;
            self.go_together(now, self.wiring.routes[route], run, pool, out, ahead_only)
        });
        self.spare.push(left);
        run
    }

    fn prefetch_batch(&self, pool: &Pool) {
        for stage in 0..PREFETCH_STAGES_MAX {
            for (target, packets) in self.batch.iter() {
                let What::Site(site) = target.what() else { continue };
                for next in &self.wiring.usual[site] {
                    let next = self.wiring.sites[*next];
                    let element = &self.slots[usize::from(next.element)].as_ref().expect(THERE).element;
                    if stage < element.prefetch_stages(next.port) {
                        element.prefetch(stage, next.port, packets, pool);
                    }
                }
            }
        }
    }

    /// Takes a packet, and all that becomes of it, to the end, what leaves an element first foremost; or only through what is ahead, and the rest
    /// into the batch.
    #[inline]
    fn go(
        &mut self,
        now: Instant,
        mut target: Target,
        mut packet: Packet,
        pool: &mut Pool,
        out: &mut Vec<Packet>,
        ahead_only: bool,
    ) {
        let mut steps = 0;
        loop {
            let next = match target.what() {
                What::Site(site) if ahead_only && !self.wiring.ahead[site] => {
                    self.batch.push(target, packet);
                    None
                }
                What::Site(site) => {
                    steps += 1;
                    self.step(now, site, packet, steps, pool)
                }
                other => {
                    self.leave(other, packet, pool, out);
                    None
                }
            };
            match next.or_else(|| self.stack.pop()) {
                Some(next) => (target, packet) = next,
                None => return,
            }
        }
    }

    /// Shows a packet to an element. Gives what left first and where it goes; the rest lies on the stack, in order.
    #[inline(always)]
    fn step(
        &mut self,
        now: Instant,
        site: usize,
        packet: Packet,
        steps: u32,
        pool: &mut Pool,
    ) -> Option<(Target, Packet)> {
        let Site { element, port, routes } = self.wiring.sites[site];
        if steps > STEPS_MAX {
            pool.drop_packet(packet, Cause::GraphLoop, &mut self.drops);
            return None;
        }
        let slot = self.slots[usize::from(element)].as_mut().expect(THERE);
        self.wiring.entered[site] += 1;
        let mut lent = Lent { pool, out: &mut self.left, drops: &mut self.drops };
        let (port, first) = slot.element.process(now, port, packet, &mut lent)?;
        if !self.left.is_empty() {
            self.take_left(usize::from(element));
        }
        let route = usize::from(routes) + usize::from(port);
        self.wiring.left[route] += 1;
        Some((self.wiring.routes[route], first))
    }

    /// Lays what left an element on the stack, what left first topmost.
    fn take_left(&mut self, element: usize) {
        let routes = self.wiring.routes_of(element);
        while let Some((port, packet)) = self.left.pop() {
            let route = routes + usize::from(port);
            self.wiring.left[route] += 1;
            self.stack.push((self.wiring.routes[route], packet));
        }
    }

    /// Takes all that left an element outside of a packet's way to its end.
    fn go_left(&mut self, now: Instant, element: usize, pool: &mut Pool, out: &mut Vec<Packet>) {
        self.take_left(element);
        if let Some((target, packet)) = self.stack.pop() {
            self.go(now, target, packet, pool, out, false);
        }
    }

    /// As [`leave`](Self::leave) for each of several packets, in order. Nothing is to be seen to where each says which way, as a rule.
    fn leave_together(&mut self, what: What, run: &mut Vec<Packet>, pool: &mut Pool, out: &mut Vec<Packet>) {
        let says_where = |packet: &Packet| {
            let meta = pool.meta(packet);
            meta.egress != FaceId::NONE && meta.knows_hash()
        };
        if what == What::Egress && !self.wiring.labels && run.iter().all(says_where) {
            out.append(run);
        } else {
            run.drain(..).for_each(|packet| self.leave(what, packet, pool, out));
        }
    }

    fn leave(&mut self, what: What, packet: Packet, pool: &mut Pool, out: &mut Vec<Packet>) {
        let egress = match what {
            What::Face(face) => self.faces.of_graph[face].unwrap_or(FaceId::NONE),
            What::Egress => match pool.meta(&packet) {
                meta if meta.egress == FaceId::NONE && meta.kind == Kind::Interest => {
                    self.faces.default_face()
                }
                meta => meta.egress,
            },
            What::Site(_) | What::Nowhere => {
                return pool.drop_packet(packet, Cause::Unconnected, &mut self.drops);
            }
        };
        if egress == FaceId::NONE {
            return pool.drop_packet(packet, Cause::FaceGone, &mut self.drops);
        }
        // No element on its way may have looked at its name.
        let packet = match pool.meta(&packet).knows_hash() {
            true => packet,
            false => match read_or_drop(pool, packet, &mut self.drops) {
                Some(packet) => packet,
                None => return,
            },
        };
        let meta = pool.meta_mut(&packet);
        meta.egress = egress;
        if self.wiring.labels && meta.kind == Kind::Interest && !label::put_on(meta) {
            return pool.drop_packet(packet, Cause::ReturnLabel, &mut self.drops);
        }
        out.push(packet);
    }

    /// Ends what is due; what leaves is appended to `out`.
    pub fn tick(&mut self, now: Instant, pool: &mut Pool, out: &mut Vec<Packet>) {
        for element in 0..self.slots.len() {
            let is_due = |slot: &Slot| slot.element.deadline().is_some_and(|deadline| deadline <= now);
            if !self.slots[element].as_ref().is_some_and(is_due) {
                continue;
            }
            self.by_itself(element, |engine| {
                let Some(slot) = &mut engine.slots[element] else { return };
                let mut lent = Lent { pool: &mut *pool, out: &mut engine.left, drops: &mut engine.drops };
                slot.element.tick(now, &mut lent);
                engine.go_left(now, element, pool, out);
            });
        }
        self.go_on_changing(now, pool, out);
    }

    /// Work that another thread may do; `None` when there is none.
    pub fn take_work(&mut self) -> Option<Errand> {
        self.slots.iter_mut().flatten().find_map(|slot| {
            let work = slot.element.take_work()?;
            Some(Errand { element: slot.serial, work })
        })
    }

    /// Takes back what another thread has done; what leaves is appended to `out`. Where its element is there no more, its packets were dropped with it.
    pub fn finish_work(&mut self, now: Instant, errand: Errand, pool: &mut Pool, out: &mut Vec<Packet>) {
        let Errand { element, work } = errand;
        let is_of = |slot: &Option<Slot>| slot.as_ref().is_some_and(|slot| slot.serial == element);
        let Some(place) = self.slots.iter().position(is_of) else { return };
        self.by_itself(place, |engine| {
            let Some(slot) = &mut engine.slots[place] else { return };
            let mut lent = Lent { pool: &mut *pool, out: &mut engine.left, drops: &mut engine.drops };
            slot.element.finish_work(now, work, &mut lent);
            engine.go_left(now, place, pool, out);
        });
    }

    /// Lets an element do something outside of a packet's way: what leaves it goes by the connections that it had when it came.
    fn by_itself(&mut self, element: usize, act: impl FnOnce(&mut Self)) {
        match self.is_going(element) {
            true => self.with_old_wiring(act),
            false => act(self),
        }
    }

    /// When [`tick`](Self::tick) wants to be called.
    pub fn deadline(&self) -> Option<Instant> {
        let elements = self.slots.iter().flatten().filter_map(|slot| slot.element.deadline());
        elements.chain(self.changing.as_ref().map(|changing| changing.deadline())).min()
    }

    /// True when no element remembers anything that a later packet needs.
    pub fn is_idle(&self) -> bool {
        self.changing.is_none() && self.slots.iter().flatten().all(|slot| slot.element.is_idle())
    }

    /// Packets dropped between ingress and egress.
    pub const fn drops(&self) -> &DropCounters {
        &self.drops
    }

    /// The graph that runs, or that a change leads to.
    pub const fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The element of a node, for whoever knows its type.
    pub fn element(&self, node: &str) -> Option<&dyn AnyElement> {
        let at = self.graph.nodes.iter().position(|known| known.name == node)?;
        self.slots[self.places[at]].as_ref().map(|slot| slot.element.as_ref())
    }

    /// Does something with the element of a node, which may make packets leave; `None` where there is no such node, or it is of another type.
    pub fn with<E: Element + Send + 'static, R>(
        &mut self,
        node: &str,
        now: Instant,
        pool: &mut Pool,
        out: &mut Vec<Packet>,
        change: impl FnOnce(&mut E, &mut Context<'_, E::Out>) -> R,
    ) -> Option<R> {
        let at = self.graph.nodes.iter().position(|known| known.name == node)?;
        let place = self.places[at];
        let element: &mut dyn Any = self.slots[place].as_mut()?.element.as_mut();
        let element = element.downcast_mut::<Erased<E>>()?;
        let mut lent = Lent { pool: &mut *pool, out: &mut self.left, drops: &mut self.drops };
        let result = element.with(&mut lent, change);
        self.go_left(now, place, pool, out);
        Some(result)
    }

    /// What passed each port, in the order of the graph.
    pub fn counts(&self) -> Vec<PortCount<'_>> {
        let mut counts = Vec::new();
        for place in &self.places {
            let Some(slot) = &self.slots[*place] else { continue };
            let (entered, left) = self.wiring.counts(*place);
            let ins = (false, slot.entry.ins, &slot.entered, entered);
            for (is_out, ports, before, now) in [ins, (true, slot.entry.outs, &slot.left, left)] {
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

/// Why there is an element.
const THERE: &str = "connections lead to elements that are there";
