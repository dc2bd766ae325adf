//! Elements for hosts that do not know their types: ports are numbers, in the order of
//! [`Port::ALL`].

use crate::{
    Context, DropCounters, Element, ElementStatus, FaceId, FaceInfo, OffloadTask, Outbox,
    PREFETCH_STAGES_MAX, Packet, Peer, Pool, Port, PortInfo, Timestamp,
};
use core::any::Any;

/// What an element may use, with output ports as numbers.
pub struct ErasedContext<'a> {
    /// Bytes and metadata of packets.
    pub pool: &'a mut Pool,
    /// Receives the packets that leave, tagged with the port's number.
    pub out: &'a mut TaggedBatch<u8>,
    /// Counts dropped packets.
    pub drops: &'a mut DropCounters,
}

/// Packets in order, each with a tag. Neighbours with the same tag form one run.
///
/// ```text
/// packets: a b c d e
/// runs:    (tag 1, from 0) (tag 0, from 3)      a, b, c have tag 1; d, e have tag 0
/// ```
#[derive(Debug)]
pub struct TaggedBatch<T> {
    /// Of each run: its tag and the index of its first packet.
    runs: Vec<(T, usize)>,
    packets: Vec<Packet>,
}

impl<T> Default for TaggedBatch<T> {
    fn default() -> Self {
        TaggedBatch { runs: Vec::new(), packets: Vec::new() }
    }
}

impl<T: Copy + Eq> TaggedBatch<T> {
    /// Appends one packet.
    #[inline(always)]
    pub fn push(&mut self, tag: T, packet: Packet) {
        self.start_run(self.packets.len(), tag);
        self.packets.push(packet);
    }

    /// Starts a run at index `at` unless the last run has the same tag.
    #[inline(always)]
    fn start_run(&mut self, at: usize, tag: T) {
        if self.runs.last().is_none_or(|(last, _)| *last != tag) {
            self.runs.push((tag, at));
        }
    }

    /// Appends all of `packets`, which is empty afterwards.
    pub fn append(&mut self, tag: T, packets: &mut Vec<Packet>) {
        if !packets.is_empty() {
            self.start_run(self.packets.len(), tag);
            self.packets.append(packets);
        }
    }

    /// Appends all of `batch`, which is empty afterwards.
    fn append_all(&mut self, batch: &mut Self) {
        for (tag, start) in batch.runs.drain(..) {
            self.start_run(self.packets.len() + start, tag);
        }
        self.packets.append(&mut batch.packets);
    }

    /// Returns the number of packets.
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// Returns whether there are no packets.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Returns the runs, each with its tag and packets.
    pub fn iter(&self) -> impl Iterator<Item = (T, &[Packet])> {
        let ends = self.runs.iter().skip(1).map(|(_, start)| *start).chain([self.packets.len()]);
        self.runs.iter().zip(ends).map(|((tag, start), end)| (*tag, &self.packets[*start..end]))
    }

    /// Takes the last packet.
    pub fn pop(&mut self) -> Option<(T, Packet)> {
        let packet = self.packets.pop()?;
        let (tag, start) = *self.runs.last()?;
        if start == self.packets.len() {
            self.runs.pop();
        }
        Some((tag, packet))
    }

    /// Passes each run to `handle`, in order, as a list that `handle` returns empty. `list` is an
    /// empty list to start with; the last one is returned, so that no list is allocated.
    pub fn drain(
        &mut self,
        mut list: Vec<Packet>,
        mut handle: impl FnMut(T, Vec<Packet>) -> Vec<Packet>,
    ) -> Vec<Packet> {
        if let [(tag, _)] = self.runs[..] {
            // A single run: the list is handed over without touching packets.
            self.runs.clear();
            core::mem::swap(&mut list, &mut self.packets);
            return handle(tag, list);
        }
        let mut remaining = self.packets.len();
        let mut packets = self.packets.drain(..);
        let mut runs = self.runs.drain(..).peekable();
        while let Some((tag, start)) = runs.next() {
            let len = runs.peek().map_or(remaining, |(_, next)| next - start);
            list.extend(packets.by_ref().take(len));
            remaining -= len;
            list = handle(tag, list);
        }
        list
    }
}

/// An [`Element`] whose type the host does not know. Implemented by [`Erased`].
pub trait AnyElement: Any + Send {
    /// Returns [`Element::prefetch_stages`].
    fn prefetch_stages(&self, port: u8) -> usize;

    /// Returns [`Element::ACCEPTS_DEFERRED_NAMES`].
    fn accepts_deferred_names(&self) -> bool;

    /// Calls [`Element::prefetch`] for each packet; before the first stage
    /// [`Element::prefetch_pages`] if it helps.
    fn prefetch(&self, stage: usize, port: u8, packets: &[Packet], pool: &Pool);

    /// Calls [`Element::process`]. Returns the first packet that leaves and appends further
    /// emitted.
    fn process(
        &mut self,
        now: Timestamp,
        port: u8,
        packet: Packet,
        erased: &mut ErasedContext<'_>,
    ) -> Option<(u8, Packet)>;

    /// Calls [`Element::process`] for all packets, in order, and appends all that leave.
    fn process_all(
        &mut self,
        now: Timestamp,
        port: u8,
        packets: &mut Vec<Packet>,
        erased: &mut ErasedContext<'_>,
    );

    /// Calls [`Element::face_added`].
    fn face_added(&mut self, face: FaceId, info: FaceInfo);

    /// Calls [`Element::set_peer`].
    fn set_peer(&mut self, face: FaceId, peer: Peer);

    /// Calls [`Element::face_gone`].
    fn face_gone(&mut self, now: Timestamp, face: FaceId);

    /// Calls [`Element::wall_clock_set`].
    fn wall_clock_set(&mut self, now: Timestamp, unix_ms: u64);

    /// Returns [`Element::is_idle`].
    fn is_idle(&self) -> bool;

    /// Returns [`Element::awaits_reply`].
    fn awaits_reply(&self, packet: &Packet, pool: &Pool) -> bool;

    /// Returns [`Element::status`].
    fn status(&self) -> ElementStatus;

    /// Returns [`Element::deadline`].
    fn deadline(&self) -> Option<Timestamp>;

    /// Calls [`Element::tick`].
    fn tick(&mut self, now: Timestamp, erased: &mut ErasedContext<'_>);

    /// Calls [`Element::take_task`].
    fn take_task(&mut self) -> Option<Box<dyn OffloadTask>>;

    /// Calls [`Element::complete_task`].
    fn complete_task(
        &mut self,
        now: Timestamp,
        work: Box<dyn OffloadTask>,
        erased: &mut ErasedContext<'_>,
    );

    /// Calls [`Element::drop_held`].
    fn drop_held(&mut self, erased: &mut ErasedContext<'_>);
}

/// An element with its outbox, for use as [`AnyElement`].
#[derive(Debug)]
pub struct Erased<E: Element> {
    element: E,
    out: Outbox<E::Out>,
    /// A buffer reused by [`AnyElement::process_all`].
    overflow: TaggedBatch<u8>,
}

impl<E: Element> Erased<E> {
    /// The input ports.
    pub const INS: &'static [PortInfo] = <E::In as Port>::INFOS;
    /// The output ports.
    pub const OUTS: &'static [PortInfo] = <E::Out as Port>::INFOS;

    /// Wraps an element.
    pub fn new(element: E) -> Self {
        Erased { element, out: Outbox::with_capacity(OUTBOX_LEN), overflow: TaggedBatch::default() }
    }

    /// Returns the element.
    pub const fn element(&self) -> &E {
        &self.element
    }

    /// Calls a function with the element and a context. Packets that leave are appended to
    /// `erased.out`.
    pub fn with<R>(
        &mut self,
        erased: &mut ErasedContext<'_>,
        change: impl FnOnce(&mut E, &mut Context<'_, E::Out>) -> R,
    ) -> R {
        let mut context = Context { pool: erased.pool, out: &mut self.out, drops: erased.drops };
        let result = change(&mut self.element, &mut context);
        while let Some((port, packet)) = self.out.take() {
            erased.out.push(port.index() as u8, packet);
        }
        result
    }
}

impl<E: Element> Erased<E> {
    /// Runs one prefetch stage for all packets.
    #[inline(always)]
    fn prefetch_stage<const STAGE: usize>(&self, port: E::In, packets: &[Packet], pool: &Pool) {
        const { assert!(STAGE < PREFETCH_STAGES_MAX) };
        if STAGE == 0 && self.element.exceeds_tlb_reach() {
            packets.iter().for_each(|packet| self.element.prefetch_pages(port, pool.meta(packet)));
        }
        for packet in packets {
            self.element.prefetch(STAGE, port, pool.meta(packet));
        }
    }
}

/// Moves all packets to `runs`. Not inlined, as it is the slow path.
#[inline(never)]
fn move_all<Out: Port>(out: &mut Outbox<Out>, runs: &mut TaggedBatch<u8>) {
    out.take_all(|port, packet| runs.push(port.index() as u8, packet));
}

/// Capacity for packets that leave after one entered; it grows if there are more.
const OUTBOX_LEN: usize = 16;

impl<E: Element + Send + 'static> AnyElement for Erased<E> {
    fn prefetch_stages(&self, port: u8) -> usize {
        E::prefetch_stages(E::In::ALL[usize::from(port)])
    }

    fn accepts_deferred_names(&self) -> bool {
        E::ACCEPTS_DEFERRED_NAMES
    }

    fn prefetch(&self, stage: usize, port: u8, packets: &[Packet], pool: &Pool) {
        let port = E::In::ALL[usize::from(port)];
        // With a constant stage the compiler removes the code of the others.
        match stage {
            0 => self.prefetch_stage::<0>(port, packets, pool),
            1 => self.prefetch_stage::<1>(port, packets, pool),
            2 => self.prefetch_stage::<2>(port, packets, pool),
            _ => {}
        }
    }

    fn process(
        &mut self,
        now: Timestamp,
        port: u8,
        packet: Packet,
        erased: &mut ErasedContext<'_>,
    ) -> Option<(u8, Packet)> {
        let port = E::In::ALL[usize::from(port)];
        let mut context = Context { pool: erased.pool, out: &mut self.out, drops: erased.drops };
        self.element.process(now, port, packet, &mut context);
        let (port, first) = self.out.take()?;
        while let Some((port, packet)) = self.out.take() {
            erased.out.push(port.index() as u8, packet);
        }
        Some((port.index() as u8, first))
    }

    fn process_all(
        &mut self,
        now: Timestamp,
        port: u8,
        packets: &mut Vec<Packet>,
        erased: &mut ErasedContext<'_>,
    ) {
        let port = E::In::ALL[usize::from(port)];
        let mut context =
            Context { pool: &mut *erased.pool, out: &mut self.out, drops: &mut *erased.drops };
        // Fast path: each packet that enters makes at most one leave. These stay in the vector they
        // came in, as collecting from `into_iter` of a vector reuses its memory. From the first
        // packet on that makes several leave, all go to `self.overflow`.
        let (mut position, mut last) = (erased.out.len(), None);
        let mut emitted: Vec<Packet> = core::mem::take(packets)
            .into_iter()
            .filter_map(|packet| {
                self.element.process(now, port, packet, &mut context);
                if !self.overflow.is_empty() || context.out.has_several() {
                    move_all(context.out, &mut self.overflow);
                    return None;
                }
                let (port, packet) = context.out.take()?;
                if last != Some(port) {
                    erased.out.start_run(position, port.index() as u8);
                    last = Some(port);
                }
                position += 1;
                Some(packet)
            })
            .collect();
        if erased.out.packets.is_empty() {
            core::mem::swap(&mut erased.out.packets, &mut emitted);
        } else {
            erased.out.packets.append(&mut emitted);
        }
        erased.out.append_all(&mut self.overflow);
        *packets = emitted;
    }

    fn face_added(&mut self, face: FaceId, info: FaceInfo) {
        self.element.face_added(face, info);
    }

    fn set_peer(&mut self, face: FaceId, peer: Peer) {
        self.element.set_peer(face, peer);
    }

    fn face_gone(&mut self, now: Timestamp, face: FaceId) {
        self.element.face_gone(now, face);
    }

    fn wall_clock_set(&mut self, now: Timestamp, unix_ms: u64) {
        self.element.wall_clock_set(now, unix_ms);
    }

    fn is_idle(&self) -> bool {
        self.element.is_idle()
    }

    fn awaits_reply(&self, packet: &Packet, pool: &Pool) -> bool {
        self.element.awaits_reply(packet, pool)
    }

    fn status(&self) -> ElementStatus {
        self.element.status()
    }

    fn deadline(&self) -> Option<Timestamp> {
        self.element.deadline()
    }

    fn tick(&mut self, now: Timestamp, erased: &mut ErasedContext<'_>) {
        self.with(erased, |element, context| element.tick(now, context));
    }

    fn take_task(&mut self) -> Option<Box<dyn OffloadTask>> {
        self.element.take_task()
    }

    fn complete_task(
        &mut self,
        now: Timestamp,
        work: Box<dyn OffloadTask>,
        erased: &mut ErasedContext<'_>,
    ) {
        self.with(erased, |element, context| element.complete_task(now, work, context));
    }

    fn drop_held(&mut self, erased: &mut ErasedContext<'_>) {
        self.with(erased, |element, context| element.drop_held(context));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DropCause;
    use nw_name::HashKey;

    /// Tags of packets, and their first bytes, which identify them.
    type Listed = Vec<(u8, u8)>;

    fn listed(runs: &TaggedBatch<u8>, pool: &Pool) -> Listed {
        let of_run = |(tag, packets): (u8, &[Packet])| -> Listed {
            packets.iter().map(|packet| (tag, pool.bytes(packet)[0])).collect()
        };
        runs.iter().flat_map(of_run).collect()
    }

    crate::ports! {
        enum In { Packet = "packet" [Data] }
    }

    crate::ports! {
        enum Out { One = "one" [Data], Other = "other" [Data] }
    }

    /// Reads from a packet's first byte what to do: 0 drop it, 1 or 2 send it by the first or
    /// second port, 3 send it by both.
    struct ByFirstByte;

    impl Element for ByFirstByte {
        type In = In;
        type Out = Out;

        fn process(
            &mut self,
            _: Timestamp,
            In::Packet: In,
            packet: Packet,
            context: &mut Context<'_, Out>,
        ) {
            match context.pool.bytes(&packet)[0] {
                0 => context.pool.drop_packet(packet, DropCause::NoBuffer, context.drops),
                1 => context.out.send(Out::One, packet),
                2 => context.out.send(Out::Other, packet),
                _ => {
                    let copy = context.pool.clone_shallow(&packet).unwrap();
                    context.out.send(Out::One, packet);
                    context.out.send(Out::Other, copy);
                }
            }
        }
    }

    #[test]
    fn process_all_keeps_order_and_reuses_the_vector() {
        let mut pool = Pool::new(HashKey::new([1, 2, 3, 4]), 8, 64);
        let (mut drops, mut element) = (DropCounters::default(), Erased::new(ByFirstByte));
        let mut packets = Vec::with_capacity(16);
        let mut out = TaggedBatch::default();
        for (enter, leave) in [
            (&[1, 1, 1][..], &[(0, 1), (0, 1), (0, 1)][..]),
            (&[0, 2, 0, 1, 1, 0], &[(1, 2), (0, 1), (0, 1)]),
            (&[1, 3, 0, 1, 2], &[(0, 1), (0, 3), (1, 3), (0, 1), (1, 2)]),
            (&[3, 3], &[(0, 3), (1, 3), (0, 3), (1, 3)]),
            (&[0, 0], &[]),
            (&[], &[]),
            (&[2], &[(1, 2)]),
        ] {
            packets.extend(enter.iter().map(|byte| pool.copy_of(&[*byte]).unwrap()));
            let list = packets.as_ptr();
            // Packets that left before stay first.
            out.push(1, pool.copy_of(&[9]).unwrap());
            let mut erased = ErasedContext { pool: &mut pool, out: &mut out, drops: &mut drops };
            element.process_all(Timestamp::START, 0, &mut packets, &mut erased);
            assert_eq!(listed(&out, &pool), [&[(1, 9)], leave].concat(), "{enter:?}");
            assert!(packets.is_empty() && packets.as_ptr() == list, "nothing is allocated");
            while let Some((_, packet)) = out.pop() {
                pool.release(packet);
            }
            // If none left before, the input's vector is handed on and the other one comes back.
            packets.extend(enter.iter().map(|byte| pool.copy_of(&[*byte]).unwrap()));
            let mut erased = ErasedContext { pool: &mut pool, out: &mut out, drops: &mut drops };
            element.process_all(Timestamp::START, 0, &mut packets, &mut erased);
            assert_eq!((listed(&out, &pool), packets.len()), (leave.to_vec(), 0), "{enter:?}");
            assert_eq!(out.packets.as_ptr(), list, "{enter:?}");
            while let Some((_, packet)) = out.pop() {
                pool.release(packet);
            }
            core::mem::swap(&mut out.packets, &mut packets);
        }
        assert_eq!((pool.packets_in_use(), drops.total(DropCause::NoBuffer)), (0, 12));
    }

    #[test]
    fn tagged_batch_keeps_order_and_joins_neighbours_of_a_tag() {
        let mut pool = Pool::new(HashKey::new([1, 2, 3, 4]), 8, 64);
        let mut runs = TaggedBatch::default();
        let mut expected = Listed::new();
        for (number, tag) in [7, 7, 9, 7, 7, 7, 0].into_iter().enumerate() {
            runs.push(tag, pool.copy_of(&[number as u8]).unwrap());
            expected.push((tag, number as u8));
        }
        assert_eq!(
            runs.iter().map(|(tag, run)| (tag, run.len())).collect::<Vec<_>>(),
            [(7, 2), (9, 1), (7, 3), (0, 1)]
        );
        let mut appended: Vec<Packet> =
            [100, 101].map(|number| pool.copy_of(&[number]).unwrap()).into();
        runs.append(0, &mut appended);
        runs.append(1, &mut appended);
        runs.append_all(&mut TaggedBatch::default());
        expected.extend([(0, 100), (0, 101)]);
        assert_eq!(
            (listed(&runs, &pool), runs.len(), appended.len()),
            (expected.clone(), expected.len(), 0)
        );
        for _ in 0..4 {
            let (tag, packet) = runs.pop().unwrap();
            assert_eq!(Some((tag, pool.bytes(&packet)[0])), expected.pop());
            pool.release(packet);
            assert_eq!(listed(&runs, &pool), expected);
        }
        // A run that a packet was taken from continues.
        runs.push(7, pool.copy_of(&[50]).unwrap());
        expected.push((7, 50));
        assert_eq!(runs.iter().count(), 3);
        for has_runs in [true, false] {
            let (mut seen, mut calls) = (Listed::new(), 0);
            let spare = runs.drain(Vec::new(), |tag, mut packets| {
                calls += 1;
                for packet in packets.drain(..) {
                    seen.push((tag, pool.bytes(&packet)[0]));
                    pool.release(packet);
                }
                packets
            });
            assert_eq!((seen, calls), (expected, if has_runs { 3 } else { 1 }));
            assert!(
                spare.is_empty()
                    && runs.is_empty()
                    && runs.iter().next().is_none()
                    && runs.pop().is_none()
            );
            runs.push(3, pool.copy_of(&[60]).unwrap());
            runs.push(3, pool.copy_of(&[61]).unwrap());
            expected = vec![(3, 60), (3, 61)];
        }
        let mut batch = TaggedBatch::default();
        for (tag, number) in [(3, 70), (4, 71), (3, 72)] {
            batch.push(tag, pool.copy_of(&[number]).unwrap());
        }
        runs.append_all(&mut batch);
        expected.extend([(3, 70), (4, 71), (3, 72)]);
        assert_eq!((listed(&runs, &pool), runs.iter().count()), (expected, 3));
        assert!(batch.is_empty() && batch.iter().next().is_none());
        while let Some((_, packet)) = runs.pop() {
            pool.release(packet);
        }
        assert_eq!(pool.packets_in_use(), 0);
    }
}
