//! Elements, ports and outboxes.

use crate::drops::DropCounters;
use crate::meta::{Kind, Meta};
use crate::pool::{Packet, Pool};
use crate::{FaceId, FaceInfo, Instant, Peer};
use core::any::Any;
use std::collections::VecDeque;

/// The ports of an element, in or out: an enum, so that a host wires them with an exhaustive `match`.
pub trait Port: Copy + Eq + core::fmt::Debug + Send + 'static {
    /// Every port, in the order of [`index`](Self::index).
    const ALL: &'static [Self];

    /// The same for hosts that do not know the type.
    const INFOS: &'static [PortInfo];

    /// Its place in [`ALL`](Self::ALL).
    fn index(self) -> usize;

    /// Its name in graphs, cases and contracts: lower case.
    fn name(self) -> &'static str {
        Self::INFOS[self.index()].name
    }
}

/// What a host that does not know an element's type knows of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortInfo {
    /// In graphs, cases and contracts: lower case.
    pub name: &'static str,
    /// What may enter, or leave, here.
    pub kinds: &'static [Kind],
}

/// What leaves an element: packets by port, in order.
///
/// Most calls send one packet, which is kept apart: sending and taking it costs a store and a load.
#[derive(Debug)]
pub struct Outbox<Out> {
    /// None only where there are no others either.
    first: Option<(Out, Packet)>,
    others: VecDeque<(Out, Packet)>,
}

impl<Out: Port> Outbox<Out> {
    /// Empty, with room for a batch.
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

    /// Takes what left first.
    #[inline(always)]
    pub fn take(&mut self) -> Option<(Out, Packet)> {
        let first = self.first.take()?;
        if !self.others.is_empty() {
            self.first = self.others.pop_front();
        }
        Some(first)
    }

    /// True when more than one is to be taken.
    #[inline(always)]
    pub(crate) fn has_several(&self) -> bool {
        !self.others.is_empty()
    }

    /// Takes all that left, in order, and gives it to `each`: the quickest where it is one as a rule.
    #[inline(always)]
    pub fn take_all(&mut self, mut each: impl FnMut(Out, Packet)) {
        let Some((port, packet)) = self.first.take() else { return };
        each(port, packet);
        while let Some((port, packet)) = self.others.pop_front() {
            each(port, packet);
        }
    }

    /// Takes all that left, in order.
    #[inline]
    pub fn drain(&mut self) -> impl Iterator<Item = (Out, Packet)> + '_ {
        core::iter::from_fn(|| self.take())
    }

    /// What left since [`len`](Self::len) was `len`, while nothing was taken.
    pub fn since(&self, len: usize) -> impl Iterator<Item = &(Out, Packet)> {
        self.first.iter().chain(&self.others).skip(len)
    }

    /// Packets that left and were not taken yet.
    pub fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.others.len()
    }

    /// True when nothing is to be taken.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.first.is_none()
    }
}

/// What an element is lent while it works.
pub struct Context<'a, Out> {
    /// Bytes and metadata of packets.
    pub pool: &'a mut Pool,
    /// Where packets leave.
    pub out: &'a mut Outbox<Out>,
    /// Where dropped packets are counted.
    pub drops: &'a mut DropCounters,
}

/// What an element lets others do for it, with all that is needed for that: any thread may run it.
pub trait Work: Any + Send {
    /// Does it.
    fn run(&mut self);
}

/// As many passes of [`Element::prefetch`] as any element may ask for: hosts make no more.
pub const PREFETCH_STAGES_MAX: usize = 3;

/// A packet function. Written once, run by every host.
pub trait Element {
    /// Where packets enter.
    type In: Port;
    /// Where packets leave.
    type Out: Port;

    /// True when it remembers Interests that leave, and must be shown what answers them: only one such element may see to an Interest.
    const CLAIMS_REPLIES: bool = false;

    /// True when an Interest that comes a second time ends here, so that a graph may lead back to it.
    const GUARDS_LOOPS: bool = false;

    /// True when it copes with Data whose name was not read: see [`Meta::name_unread`](crate::Meta::name_unread). Other elements are shown none.
    const TAKES_UNREAD_NAMES: bool = false;

    /// By which ports packets may leave because one entered here.
    fn leads(port: Self::In) -> &'static [Self::Out] {
        let _ = port;
        Self::Out::ALL
    }

    /// By which port a packet that enters here usually leaves, as the same packet. What is behind that port is asked for memory early.
    #[inline]
    fn usual(port: Self::In) -> Option<Self::Out> {
        let _ = port;
        None
    }

    /// True where tables are so large that [`prefetch_far`](Self::prefetch_far) helps. It stays as it is while a batch is prefetched.
    #[inline]
    fn is_far(&self) -> bool {
        false
    }

    /// Asks for the one line that takes longest to come, and does nothing else, so that many such requests look for their pages at the same time. Hosts call it for a
    /// whole batch before the first stage of [`prefetch`](Self::prefetch), if the element [is far](Self::is_far).
    #[inline]
    fn prefetch_far(&self, port: Self::In, packet: &Meta) {
        let _ = (port, packet);
    }

    /// Asks for the memory that [`process`](Self::process) will read for this packet, without waiting for it. Hosts call it for a whole batch, once per
    /// stage from 0 to [`prefetch_stages`](Self::prefetch_stages), before processing the first packet of the batch. It changes nothing
    /// that can be seen: at most it notes in the packet's metadata what `process` would find out again.
    #[inline]
    fn prefetch(&self, stage: usize, port: Self::In, packet: &Meta) {
        let _ = (stage, port, packet);
    }

    /// How many passes of [`prefetch`](Self::prefetch) help a packet that enters here: [`PREFETCH_STAGES_MAX`] at most.
    #[inline]
    fn prefetch_stages(port: Self::In) -> usize {
        let _ = port;
        0
    }

    /// Takes one packet. It leaves by a port, is held in the element's state, or is dropped with a reason: never anything else.
    fn process(&mut self, now: Instant, port: Self::In, packet: Packet, context: &mut Context<'_, Self::Out>);

    /// Tells of a face before its first packet, or of a change of it.
    fn face_added(&mut self, face: FaceId, info: FaceInfo) {
        let _ = (face, info);
    }

    /// Says which peer is behind a known face: faces of one peer count together where shares are by peer.
    fn set_peer(&mut self, face: FaceId, peer: Peer) {
        let _ = (face, peer);
    }

    /// Takes a reading of the wall clock, milliseconds since 1970 at `now`. A host passes one when the clock was set; the element itself reads none.
    fn wall_clock_set(&mut self, now: Instant, unix_ms: u64) {
        let _ = (now, unix_ms);
    }

    /// Tells that a face is gone.
    fn face_gone(&mut self, now: Instant, face: FaceId) {
        let _ = (now, face);
    }

    /// True when nothing is remembered that a later packet needs: it may be taken out of a graph, and nobody notices.
    fn is_idle(&self) -> bool {
        true
    }

    /// True when this Data or Nack answers an Interest that is remembered here.
    fn expects(&self, packet: &Packet, pool: &Pool) -> bool {
        let _ = (packet, pool);
        false
    }

    /// Work that another thread may do, while packets wait for it; it goes back by [`finish_work`](Self::finish_work). A host without other threads asks for
    /// none: the element does it in [`tick`](Self::tick).
    fn take_work(&mut self) -> Option<Box<dyn Work>> {
        None
    }

    /// Takes back work that is done; what waited for it leaves.
    fn finish_work(&mut self, now: Instant, work: Box<dyn Work>, context: &mut Context<'_, Self::Out>) {
        let _ = (now, work, context);
    }

    /// Drops the packets that it holds, with a reason: it is taken away before they could leave. What it only remembers may stay.
    fn give_up(&mut self, context: &mut Context<'_, Self::Out>) {
        let _ = context;
    }

    /// When [`tick`](Self::tick) wants to be called, if ever.
    fn deadline(&self) -> Option<Instant> {
        None
    }

    /// Does what is due by `now`: a bounded amount; what is left shows in [`deadline`](Self::deadline).
    fn tick(&mut self, now: Instant, context: &mut Context<'_, Self::Out>) {
        let _ = (now, context);
    }
}

/// Declares the ports of an element: each with its name and the kinds of packets that pass.
///
/// ```
/// nw_element_api::ports! {
///     /// Where packets leave a counter.
///     pub enum Out { /// All that came in.
///         Counted = "counted" [Interest, Data, Nack] }
/// }
/// ```
#[macro_export]
macro_rules! ports {
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
        $($(#[$port_meta:meta])* $port:ident = $text:literal [$($kind:ident),+]),+ $(,)?
    }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $vis enum $name { $($(#[$port_meta])* $port,)+ }

        impl $crate::Port for $name {
            const ALL: &'static [Self] = &[$($name::$port,)+];
            const INFOS: &'static [$crate::PortInfo] =
                &[$($crate::PortInfo { name: $text, kinds: &[$($crate::Kind::$kind),+] },)+];
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

    /// Whatever is sent and taken in between, packets are taken in the order in which they were sent.
    #[test]
    fn an_outbox_keeps_the_order() {
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
