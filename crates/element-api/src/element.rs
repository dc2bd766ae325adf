//! Elements, ports and outboxes.

use crate::drops::DropCounters;
use crate::meta::{Kind, Meta};
use crate::pool::{Packet, Pool};
use crate::status::ElementStatus;
use crate::{FaceId, FaceInfo, Peer, Timestamp};
use core::any::Any;
use std::collections::VecDeque;

/// The input or output ports of an element: an enum, so that a host connects them with an
/// exhaustive `match`.
pub trait Port: Copy + Eq + core::fmt::Debug + Send + 'static {
    /// Every port, in the order of [`index`](Self::index).
    const ALL: &'static [Self];

    /// Every port as data, for hosts that do not know the type.
    const INFOS: &'static [PortInfo];

    /// Returns the port's position in [`ALL`](Self::ALL).
    fn index(self) -> usize;

    /// Returns the port's name in graphs, cases and contracts: lower case.
    fn name(self) -> &'static str {
        Self::INFOS[self.index()].name
    }
}

/// A port as data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortInfo {
    /// The name in graphs, cases and contracts: lower case.
    pub name: &'static str,
    /// A former name, still accepted in graphs.
    pub alias: Option<&'static str>,
    /// The kinds of packets that may pass.
    pub kinds: &'static [Kind],
}

impl PortInfo {
    /// Returns whether the port has this name, or had it formerly.
    pub fn is_called(&self, name: &str) -> bool {
        self.name == name || self.alias == Some(name)
    }
}

/// Packets that leave an element, with their ports, in order.
///
/// Most calls send one packet. The first one is stored outside the queue, so that sending and
/// taking it costs one store and one load.
#[derive(Debug)]
pub struct Outbox<Out> {
    /// `None` only if `others` is empty too.
    first: Option<(Out, Packet)>,
    others: VecDeque<(Out, Packet)>,
}

impl<Out: Port> Outbox<Out> {
    /// Creates an empty outbox with capacity for a batch.
    pub fn with_capacity(packets: usize) -> Self {
        Outbox { first: None, others: VecDeque::with_capacity(packets) }
    }

    /// Sends a packet by a port.
    #[inline(always)]
    pub fn send(&mut self, port: Out, packet: Packet) {
        if self.is_empty() {
            self.first = Some((port, packet));
        } else {
            self.others.push_back((port, packet));
        }
    }

    /// Takes the packet that was sent first.
    #[inline(always)]
    pub fn take(&mut self) -> Option<(Out, Packet)> {
        let first = self.first.take()?;
        if !self.others.is_empty() {
            self.first = self.others.pop_front();
        }
        Some(first)
    }

    /// Returns whether there is more than one packet.
    #[inline(always)]
    pub(crate) fn has_several(&self) -> bool {
        !self.others.is_empty()
    }

    /// Takes all packets, in order, and passes them to `handle`. The fastest form if there usually
    /// is one.
    #[inline(always)]
    pub fn take_all(&mut self, mut handle: impl FnMut(Out, Packet)) {
        let Some((port, packet)) = self.first.take() else { return };
        handle(port, packet);
        while let Some((port, packet)) = self.others.pop_front() {
            handle(port, packet);
        }
    }

    /// Returns an iterator that takes all packets, in order.
    #[inline]
    pub fn drain(&mut self) -> impl Iterator<Item = (Out, Packet)> + '_ {
        core::iter::from_fn(|| self.take())
    }

    /// Returns the packets sent since [`len`](Self::len) was `len`, if none were taken in between.
    pub fn since(&self, len: usize) -> impl Iterator<Item = &(Out, Packet)> {
        self.first.iter().chain(&self.others).skip(len)
    }

    /// Returns the number of packets sent and not taken yet.
    pub fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.others.len()
    }

    /// Returns whether there is no packet.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.first.is_none()
    }
}

/// What an element may use while it processes a packet.
pub struct Context<'a, Out> {
    /// Bytes and metadata of packets.
    pub pool: &'a mut Pool,
    /// Receives the packets that leave.
    pub out: &'a mut Outbox<Out>,
    /// Counts dropped packets.
    pub drops: &'a mut DropCounters,
}

/// A task that an element hands to another thread. It owns or leases all it needs, so any thread
/// may run it.
pub trait OffloadTask: Any + Send {
    /// Runs the task.
    fn run(&mut self);
}

/// Most stages of [`Element::prefetch`] that an element may have.
pub const PREFETCH_STAGES_MAX: usize = 3;

/// A packet function. Written once, run by every host.
///
/// The minimum is the two port types and [`process`](Self::process). Elements are pure: time is an
/// argument, and they read no clock, open no socket, take no lock and start no thread.
pub trait Element {
    /// Input ports.
    type In: Port;
    /// Output ports.
    type Out: Port;

    /// Whether the element remembers Interests it sent and must see their replies. Only one such
    /// element may be on the path of an Interest.
    const TRACKS_PENDING: bool = false;

    /// Whether the element sets the egress face of Interests. In a graph, one such element must be
    /// on the path of Interests to the faces.
    const CHOOSES_EGRESS: bool = false;

    /// Whether a second copy of an Interest ends here, so that a graph may contain a loop through
    /// it.
    const DETECTS_LOOPS: bool = false;

    /// Whether the element accepts Data with a deferred name: see
    /// [`Meta::name_deferred`](crate::Meta::name_deferred). Other elements get it resolved.
    const ACCEPTS_DEFERRED_NAMES: bool = false;

    /// Returns the ports by which packets may leave after one entered by `port`.
    fn outputs_for(port: Self::In) -> &'static [Self::Out] {
        let _ = port;
        Self::Out::ALL
    }

    /// Returns the port by which a packet that enters by `port` usually leaves unchanged. Hosts
    /// prefetch for the next element on that path.
    #[inline]
    fn main_output(port: Self::In) -> Option<Self::Out> {
        let _ = port;
        None
    }

    /// Returns whether the tables are so large that [`prefetch_pages`](Self::prefetch_pages) helps.
    /// It does not change while a batch is prefetched.
    #[inline]
    fn exceeds_tlb_reach(&self) -> bool {
        false
    }

    /// Prefetches only the one cache line that takes longest to arrive, so that many page walks
    /// overlap. Hosts call it for a whole batch before the first stage of
    /// [`prefetch`](Self::prefetch), if [`exceeds_tlb_reach`](Self::exceeds_tlb_reach).
    #[inline]
    fn prefetch_pages(&self, port: Self::In, packet: &Meta) {
        let _ = (port, packet);
    }

    /// Prefetches the memory that [`process`](Self::process) will read for this packet. Hosts call
    /// it for a whole batch, once per stage from 0 to [`prefetch_stages`](Self::prefetch_stages),
    /// before processing the first packet. It has no visible effect: at most it caches lookup
    /// results in the packet's metadata.
    #[inline]
    fn prefetch(&self, stage: usize, port: Self::In, packet: &Meta) {
        let _ = (stage, port, packet);
    }

    /// Returns the number of stages of [`prefetch`](Self::prefetch) for a packet that enters by
    /// `port`, at most [`PREFETCH_STAGES_MAX`].
    #[inline]
    fn prefetch_stages(port: Self::In) -> usize {
        let _ = port;
        0
    }

    /// Processes one packet. It must leave by a port, be held in the element's state, or be dropped
    /// with a reason.
    fn process(
        &mut self,
        now: Timestamp,
        port: Self::In,
        packet: Packet,
        context: &mut Context<'_, Self::Out>,
    );

    /// Adds a face before its first packet, or changes its properties.
    fn face_added(&mut self, face: FaceId, info: FaceInfo) {
        let _ = (face, info);
    }

    /// Sets the peer behind a known face. Faces of one peer count together where limits are per
    /// peer.
    fn set_peer(&mut self, face: FaceId, peer: Peer) {
        let _ = (face, peer);
    }

    /// Sets the wall clock: `unix_ms` milliseconds since 1970 at `now`. Hosts call it after the
    /// clock was set.
    fn wall_clock_set(&mut self, now: Timestamp, unix_ms: u64) {
        let _ = (now, unix_ms);
    }

    /// Removes a face.
    fn face_gone(&mut self, now: Timestamp, face: FaceId) {
        let _ = (now, face);
    }

    /// Returns whether no state is left that a later packet needs, so that the element can be
    /// removed from a running graph.
    fn is_idle(&self) -> bool {
        true
    }

    /// Returns whether this Data or Nack answers an Interest remembered here.
    fn awaits_reply(&self, packet: &Packet, pool: &Pool) -> bool {
        let _ = (packet, pool);
        false
    }

    /// Returns the state for operators. Not for the path of a packet: it allocates.
    fn status(&self) -> ElementStatus {
        ElementStatus::default()
    }

    /// Takes a task for another thread. It comes back by [`complete_task`](Self::complete_task);
    /// packets wait for it meanwhile. A host without threads never calls this: the element then
    /// does the work in [`tick`](Self::tick).
    fn take_task(&mut self) -> Option<Box<dyn OffloadTask>> {
        None
    }

    /// Takes back a completed task; the packets that waited for it leave.
    fn complete_task(
        &mut self,
        now: Timestamp,
        work: Box<dyn OffloadTask>,
        context: &mut Context<'_, Self::Out>,
    ) {
        let _ = (now, work, context);
    }

    /// Drops the packets it holds, with a reason, because the element is being removed.
    fn drop_held(&mut self, context: &mut Context<'_, Self::Out>) {
        let _ = context;
    }

    /// Returns when [`tick`](Self::tick) is to be called. `None` for never.
    fn deadline(&self) -> Option<Timestamp> {
        None
    }

    /// Does what is due by `now`, a bounded amount. What is left shows in
    /// [`deadline`](Self::deadline).
    fn tick(&mut self, now: Timestamp, context: &mut Context<'_, Self::Out>) {
        let _ = (now, context);
    }
}

/// Declares the ports of an element: each with its name, a former name after `|` if it has one, and
/// the kinds of packets that pass.
///
/// ```
/// nw_element_api::ports! {
///     /// Output ports of a counter.
///     pub enum Out { /// All packets.
///         Counted = "counted" [Interest, Data, Nack] }
/// }
/// ```
#[macro_export]
macro_rules! ports {
    (@alias) => { None };
    (@alias $alias:literal) => { Some($alias) };
    ($(#[$meta:meta])* $vis:vis enum $name:ident {}) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $vis enum $name {}

        impl $crate::Port for $name {
            const ALL: &'static [Self] = &[];
            const INFOS: &'static [$crate::PortInfo] = &[];
            fn index(self) -> usize {
                match self {}
            }
        }
    };
    ($(#[$meta:meta])* $vis:vis enum $name:ident {
        $($(#[$port_meta:meta])* $port:ident = $text:literal $(| $alias:literal)? [$($kind:ident),+]),+ $(,)?
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $vis enum $name { $($(#[$port_meta])* $port,)+ }

        impl $crate::Port for $name {
            const ALL: &'static [Self] = &[$($name::$port,)+];
            const INFOS: &'static [$crate::PortInfo] =
                &[$($crate::PortInfo {
                    name: $text,
                    alias: $crate::ports!(@alias $($alias)?),
                    kinds: &[$($crate::Kind::$kind),+],
                },)+];
            #[inline(always)]
            fn index(self) -> usize {
                self as usize
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Pool;
    use nw_name::HashKey;

    crate::ports! {
        enum Out { One = "one" [Data], Other = "other" [Data] }
    }

    #[test]
    fn outbox_any_mix_of_send_and_take_keeps_order() {
        let mut pool = Pool::new(HashKey::new([1, 2, 3, 4]), 1, 64);
        let mut out = Outbox::with_capacity(1);
        let (mut sent, mut taken) = (0, 0);
        for (send, take) in [(1, 1), (3, 1), (1, 2), (2, 3), (2, 0)] {
            for _ in 0..send {
                sent += 1;
                let port = if sent % 2 == 0 { Out::One } else { Out::Other };
                out.send(port, pool.copy_of(&[sent]).expect("room"));
            }
            for _ in 0..take {
                taken += 1;
                let (port, packet) = out.take().expect("as many were sent");
                assert_eq!((pool.bytes(&packet), port == Out::One), (&[taken][..], taken % 2 == 0));
                pool.release(packet);
            }
            assert_eq!((out.len(), out.is_empty()), (usize::from(sent - taken), sent == taken));
            assert_eq!(out.since(0).count(), out.len());
        }
        out.take_all(|_, packet| {
            taken += 1;
            assert_eq!(pool.bytes(&packet), [taken]);
            pool.release(packet);
        });
        assert!(taken == sent && out.take().is_none());
    }
}
