//! Elements for hosts that do not know their types: ports are numbers, in the order of [`Port::ALL`].

use crate::{
    Context, DropCounters, Element, FaceId, FaceInfo, Instant, Outbox, PREFETCH_STAGES_MAX, Packet, Peer,
    Pool, Port, PortInfo, Work,
};
use core::any::Any;

/// What an element is lent by a host that does not know its type.
pub struct Lent<'a> {
    /// Bytes and metadata of packets.
    pub pool: &'a mut Pool,
    /// What leaves is appended, with the port's number.
    pub out: &'a mut Runs<u8>,
    /// Where dropped packets are counted.
    pub drops: &'a mut DropCounters,
}

/// Packets in order, each with a label; neighbours of the same label are one run.
#[derive(Debug)]
pub struct Runs<L> {
    /// Of each run its label, and which packet is its first.
    runs: Vec<(L, usize)>,
    packets: Vec<Packet>,
}

impl<L> Default for Runs<L> {
    fn default() -> Self {
        Runs { runs: Vec::new(), packets: Vec::new() }
    }
}

impl<L: Copy + Eq> Runs<L> {
    /// Appends one.
    #[inline(always)]
    pub fn push(&mut self, label: L, packet: Packet) {
        self.begin(self.packets.len(), label);
        self.packets.push(packet);
    }

    /// The packet at this place, which is still to come, has this label.
    #[inline(always)]
    fn begin(&mut self, at: usize, label: L) {
        if self.runs.last().is_none_or(|(last, _)| *last != label) {
            self.runs.push((label, at));
        }
    }

    /// Appends all of `packets`, which is empty then.
    pub fn append(&mut self, label: L, packets: &mut Vec<Packet>) {
        if !packets.is_empty() {
            self.begin(self.packets.len(), label);
            self.packets.append(packets);
        }
    }

    /// Appends all of `others`, which are none then.
    fn append_all(&mut self, others: &mut Self) {
        for (label, start) in others.runs.drain(..) {
            self.begin(self.packets.len() + start, label);
        }
        self.packets.append(&mut others.packets);
    }

    /// Packets.
    pub fn len(&self) -> usize {
        self.packets.len()
    }

    /// True without packets.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Each run: its label, and its packets.
    pub fn iter(&self) -> impl Iterator<Item = (L, &[Packet])> {
        let ends = self.runs.iter().skip(1).map(|(_, start)| *start).chain([self.packets.len()]);
        self.runs.iter().zip(ends).map(|((label, start), end)| (*label, &self.packets[*start..end]))
    }

    /// Takes the last packet.
    pub fn pop(&mut self) -> Option<(L, Packet)> {
        let packet = self.packets.pop()?;
        let (label, start) = *self.runs.last()?;
        if start == self.packets.len() {
            self.runs.pop();
        }
        Some((label, packet))
    }

    /// Gives each run to `each`, in order, in a list that comes back empty; `list` is such a list to begin with.
    pub fn drain(
        &mut self,
        mut list: Vec<Packet>,
        mut each: impl FnMut(L, Vec<Packet>) -> Vec<Packet>,
    ) -> Vec<Packet> {
        if let [(label, _)] = self.runs[..] {
            // All of them: no packet is touched.
            self.runs.clear();
            core::mem::swap(&mut list, &mut self.packets);
            return each(label, list);
        }
        let mut left = self.packets.len();
        let mut packets = self.packets.drain(..);
        let mut runs = self.runs.drain(..).peekable();
        while let Some((label, start)) = runs.next() {
            let len = runs.peek().map_or(left, |(_, next)| next - start);
            list.extend(packets.by_ref().take(len));
            left -= len;
            list = each(label, list);
        }
        list
    }
}

/// An [`Element`] of a type unknown to the host; made by [`Erased`].
pub trait AnyElement: Any + Send {
    /// [`Element::prefetch_stages`].
    fn prefetch_stages(&self, port: u8) -> usize;

    /// [`Element::TAKES_UNREAD_NAMES`].
    fn takes_unread_names(&self) -> bool;

    /// [`Element::prefetch`] for each of them; before the first stage [`Element::prefetch_far`] where that helps.
    fn prefetch(&self, stage: usize, port: u8, packets: &[Packet], pool: &Pool);

    /// [`Element::process`]. What leaves first is given back, what leaves after it is appended.
    fn process(
        &mut self,
        now: Instant,
        port: u8,
        packet: Packet,
        lent: &mut Lent<'_>,
    ) -> Option<(u8, Packet)>;

    /// [`Element::process`] for all of them, in order; all that leaves is appended.
    fn process_all(&mut self, now: Instant, port: u8, packets: &mut Vec<Packet>, lent: &mut Lent<'_>);

    /// [`Element::face_added`].
    fn face_added(&mut self, face: FaceId, info: FaceInfo);

    /// [`Element::set_peer`].
    fn set_peer(&mut self, face: FaceId, peer: Peer);

    /// [`Element::face_gone`].
    fn face_gone(&mut self, now: Instant, face: FaceId);

    /// [`Element::wall_clock_set`].
    fn wall_clock_set(&mut self, now: Instant, unix_ms: u64);

    /// [`Element::is_idle`].
    fn is_idle(&self) -> bool;

    /// [`Element::expects`].
    fn expects(&self, packet: &Packet, pool: &Pool) -> bool;

    /// [`Element::deadline`].
    fn deadline(&self) -> Option<Instant>;

    /// [`Element::tick`].
    fn tick(&mut self, now: Instant, lent: &mut Lent<'_>);

    /// [`Element::take_work`].
    fn take_work(&mut self) -> Option<Box<dyn Work>>;

    /// [`Element::finish_work`].
    fn finish_work(&mut self, now: Instant, work: Box<dyn Work>, lent: &mut Lent<'_>);

    /// [`Element::give_up`].
    fn give_up(&mut self, lent: &mut Lent<'_>);
}

/// An element with its outbox.
#[derive(Debug)]
pub struct Erased<E: Element> {
    element: E,
    out: Outbox<E::Out>,
    /// Room used again, by [`AnyElement::process_all`].
    several: Runs<u8>,
}

impl<E: Element> Erased<E> {
    /// Where packets enter.
    pub const INS: &'static [PortInfo] = <E::In as Port>::INFOS;
    /// Where packets leave.
    pub const OUTS: &'static [PortInfo] = <E::Out as Port>::INFOS;

    /// Of an element.
    pub fn new(element: E) -> Self {
        Erased { element, out: Outbox::with_capacity(OUTBOX_LEN), several: Runs::default() }
    }

    /// The element.
    pub const fn element(&self) -> &E {
        &self.element
    }

    /// Does something with the element that may make packets leave.
    pub fn with<R>(
        &mut self,
        lent: &mut Lent<'_>,
        change: impl FnOnce(&mut E, &mut Context<'_, E::Out>) -> R,
    ) -> R {
        let mut context = Context { pool: lent.pool, out: &mut self.out, drops: lent.drops };
        let result = change(&mut self.element, &mut context);
        while let Some((port, packet)) = self.out.take() {
            lent.out.push(port.index() as u8, packet);
        }
        result
    }
}

impl<E: Element> Erased<E> {
    #[inline(always)]
    fn prefetch_stage<const STAGE: usize>(&self, port: E::In, packets: &[Packet], pool: &Pool) {
        const { assert!(STAGE < PREFETCH_STAGES_MAX) };
        if STAGE == 0 && self.element.is_far() {
            packets.iter().for_each(|packet| self.element.prefetch_far(port, pool.meta(packet)));
        }
        for packet in packets {
            self.element.prefetch(STAGE, port, pool.meta(packet));
        }
    }
}

/// All that left, in order, goes to `runs`. Apart, as seldom used.
#[inline(never)]
fn move_all<Out: Port>(out: &mut Outbox<Out>, runs: &mut Runs<u8>) {
    out.take_all(|port, packet| runs.push(port.index() as u8, packet));
}

/// Room for what leaves by one packet; it grows where more does.
const OUTBOX_LEN: usize = 16;

impl<E: Element + Send + 'static> AnyElement for Erased<E> {
    fn prefetch_stages(&self, port: u8) -> usize {
        E::prefetch_stages(E::In::ALL[usize::from(port)])
    }

    fn takes_unread_names(&self) -> bool {
        E::TAKES_UNREAD_NAMES
    }

    fn prefetch(&self, stage: usize, port: u8, packets: &[Packet], pool: &Pool) {
        let port = E::In::ALL[usize::from(port)];
        // A stage that is known when this is compiled leaves nothing of the others.
        match stage {
            0 => self.prefetch_stage::<0>(port, packets, pool),
            1 => self.prefetch_stage::<1>(port, packets, pool),
            2 => self.prefetch_stage::<2>(port, packets, pool),
            _ => {}
        }
    }

    fn process(
        &mut self,
        now: Instant,
        port: u8,
        packet: Packet,
        lent: &mut Lent<'_>,
    ) -> Option<(u8, Packet)> {
        let port = E::In::ALL[usize::from(port)];
        let mut context = Context { pool: lent.pool, out: &mut self.out, drops: lent.drops };
        self.element.process(now, port, packet, &mut context);
        let (port, first) = self.out.take()?;
        while let Some((port, packet)) = self.out.take() {
            lent.out.push(port.index() as u8, packet);
        }
        Some((port.index() as u8, first))
    }

    fn process_all(&mut self, now: Instant, port: u8, packets: &mut Vec<Packet>, lent: &mut Lent<'_>) {
        let port = E::In::ALL[usize::from(port)];
        let mut context = Context { pool: &mut *lent.pool, out: &mut self.out, drops: &mut *lent.drops };
        // As a rule one leaves for each that enters, nearly all by one port: so they stay in the list that they came in, which is not copied where an
        // iterator ends in the list that it began with. From the first on that becomes several, all that leave go to another one.
        let (mut left, mut last) = (lent.out.len(), None);
        let mut ones: Vec<Packet> = core::mem::take(packets)
            .into_iter()
            .filter_map(|packet| {
                self.element.process(now, port, packet, &mut context);
                if !self.several.is_empty() || context.out.has_several() {
                    move_all(context.out, &mut self.several);
                    return None;
                }
                let (port, packet) = context.out.take()?;
                if last != Some(port) {
                    lent.out.begin(left, port.index() as u8);
                    last = Some(port);
                }
                left += 1;
                Some(packet)
            })
            .collect();
        if lent.out.packets.is_empty() {
            core::mem::swap(&mut lent.out.packets, &mut ones);
        } else {
            lent.out.packets.append(&mut ones);
        }
        lent.out.append_all(&mut self.several);
        *packets = ones;
    }

    fn face_added(&mut self, face: FaceId, info: FaceInfo) {
        self.element.face_added(face, info);
    }

    fn set_peer(&mut self, face: FaceId, peer: Peer) {
        self.element.set_peer(face, peer);
    }

    fn face_gone(&mut self, now: Instant, face: FaceId) {
        self.element.face_gone(now, face);
    }

    fn wall_clock_set(&mut self, now: Instant, unix_ms: u64) {
        self.element.wall_clock_set(now, unix_ms);
    }

    fn is_idle(&self) -> bool {
        self.element.is_idle()
    }

    fn expects(&self, packet: &Packet, pool: &Pool) -> bool {
        self.element.expects(packet, pool)
    }

    fn deadline(&self) -> Option<Instant> {
        self.element.deadline()
    }

    fn tick(&mut self, now: Instant, lent: &mut Lent<'_>) {
        self.with(lent, |element, context| element.tick(now, context));
    }

    fn take_work(&mut self) -> Option<Box<dyn Work>> {
        self.element.take_work()
    }

    fn finish_work(&mut self, now: Instant, work: Box<dyn Work>, lent: &mut Lent<'_>) {
        self.with(lent, |element, context| element.finish_work(now, work, context));
    }

    fn give_up(&mut self, lent: &mut Lent<'_>) {
        self.with(lent, |element, context| element.give_up(context));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cause;
    use nw_name::HashKey;

    /// Labels of packets, and their octets, which are the numbers they were made with.
    type Listed = Vec<(u8, u8)>;

    fn listed(runs: &Runs<u8>, pool: &Pool) -> Listed {
        let of_run = |(label, packets): (u8, &[Packet])| -> Listed {
            packets.iter().map(|packet| (label, pool.bytes(packet)[0])).collect()
        };
        runs.iter().flat_map(of_run).collect()
    }

    crate::ports! {
        enum In { Packet = "packet" [Data] }
    }

    crate::ports! {
        enum Out { One = "one" [Data], Other = "other" [Data] }
    }

    /// Does with a packet what its octet says: 0 drop it, 1 and 2 let it leave by the first port or the second, 3 let it leave by both.
    struct Told;

    impl Element for Told {
        type In = In;
        type Out = Out;

        fn process(&mut self, _: Instant, In::Packet: In, packet: Packet, context: &mut Context<'_, Out>) {
            match context.pool.bytes(&packet)[0] {
                0 => context.pool.drop_packet(packet, Cause::NoBuffer, context.drops),
                1 => context.out.send(Out::One, packet),
                2 => context.out.send(Out::Other, packet),
                _ => {
                    let twin = context.pool.share(&packet).unwrap();
                    context.out.send(Out::One, packet);
                    context.out.send(Out::Other, twin);
                }
            }
        }
    }

    #[test]
    fn all_that_leaves_is_in_order_and_what_leaves_one_for_one_in_the_same_list() {
        let mut pool = Pool::new(HashKey::new([1, 2, 3, 4]), 8, 64);
        let (mut drops, mut told) = (DropCounters::default(), Erased::new(Told));
        let mut packets = Vec::with_capacity(16);
        let mut out = Runs::default();
        for (enter, leave) in [
            (&[1, 1, 1][..], &[(0, 1), (0, 1), (0, 1)][..]),
            (&[0, 2, 0, 1, 1, 0], &[(1, 2), (0, 1), (0, 1)]),
            (&[1, 3, 0, 1, 2], &[(0, 1), (0, 3), (1, 3), (0, 1), (1, 2)]),
            (&[3, 3], &[(0, 3), (1, 3), (0, 3), (1, 3)]),
            (&[0, 0], &[]),
            (&[], &[]),
            (&[2], &[(1, 2)]),
        ] {
            packets.extend(enter.iter().map(|octet| pool.copy_of(&[*octet]).unwrap()));
            let list = packets.as_ptr();
            // What left before stays before it.
            out.push(1, pool.copy_of(&[9]).unwrap());
            let mut lent = Lent { pool: &mut pool, out: &mut out, drops: &mut drops };
            told.process_all(Instant::START, 0, &mut packets, &mut lent);
            assert_eq!(listed(&out, &pool), [&[(1, 9)], leave].concat(), "{enter:?}");
            assert!(packets.is_empty() && packets.as_ptr() == list, "nothing is allocated");
            while let Some((_, packet)) = out.pop() {
                pool.release(packet);
            }
            // Where nothing left before, that list is handed on and the other one comes back.
            packets.extend(enter.iter().map(|octet| pool.copy_of(&[*octet]).unwrap()));
            let mut lent = Lent { pool: &mut pool, out: &mut out, drops: &mut drops };
            told.process_all(Instant::START, 0, &mut packets, &mut lent);
            assert_eq!((listed(&out, &pool), packets.len()), (leave.to_vec(), 0), "{enter:?}");
            assert_eq!(out.packets.as_ptr(), list, "{enter:?}");
            while let Some((_, packet)) = out.pop() {
                pool.release(packet);
            }
            core::mem::swap(&mut out.packets, &mut packets);
        }
        assert_eq!((pool.packets_in_use(), drops.total(Cause::NoBuffer)), (0, 12));
    }

    #[test]
    fn packets_stay_in_order_and_neighbours_of_a_label_together() {
        let mut pool = Pool::new(HashKey::new([1, 2, 3, 4]), 8, 64);
        let mut runs = Runs::default();
        let mut wanted = Listed::new();
        for (number, label) in [7, 7, 9, 7, 7, 7, 0].into_iter().enumerate() {
            runs.push(label, pool.copy_of(&[number as u8]).unwrap());
            wanted.push((label, number as u8));
        }
        assert_eq!(
            runs.iter().map(|(label, run)| (label, run.len())).collect::<Vec<_>>(),
            [(7, 2), (9, 1), (7, 3), (0, 1)]
        );
        let mut more: Vec<Packet> = [100, 101].map(|number| pool.copy_of(&[number]).unwrap()).into();
        runs.append(0, &mut more);
        runs.append(1, &mut more);
        runs.append_all(&mut Runs::default());
        wanted.extend([(0, 100), (0, 101)]);
        assert_eq!((listed(&runs, &pool), runs.len(), more.len()), (wanted.clone(), wanted.len(), 0));
        for _ in 0..4 {
            let (label, packet) = runs.pop().unwrap();
            assert_eq!(Some((label, pool.bytes(&packet)[0])), wanted.pop());
            pool.release(packet);
            assert_eq!(listed(&runs, &pool), wanted);
        }
        // What a run was taken from goes on.
        runs.push(7, pool.copy_of(&[50]).unwrap());
        wanted.push((7, 50));
        assert_eq!(runs.iter().count(), 3);
        for several in [true, false] {
            let (mut seen, mut calls) = (Listed::new(), 0);
            let spare = runs.drain(Vec::new(), |label, mut packets| {
                calls += 1;
                for packet in packets.drain(..) {
                    seen.push((label, pool.bytes(&packet)[0]));
                    pool.release(packet);
                }
                packets
            });
            assert_eq!((seen, calls), (wanted, if several { 3 } else { 1 }));
            assert!(
                spare.is_empty() && runs.is_empty() && runs.iter().next().is_none() && runs.pop().is_none()
            );
            runs.push(3, pool.copy_of(&[60]).unwrap());
            runs.push(3, pool.copy_of(&[61]).unwrap());
            wanted = vec![(3, 60), (3, 61)];
        }
        let mut others = Runs::default();
        for (label, number) in [(3, 70), (4, 71), (3, 72)] {
            others.push(label, pool.copy_of(&[number]).unwrap());
        }
        runs.append_all(&mut others);
        wanted.extend([(3, 70), (4, 71), (3, 72)]);
        assert_eq!((listed(&runs, &pool), runs.iter().count()), (wanted, 3));
        assert!(others.is_empty() && others.iter().next().is_none());
        while let Some((_, packet)) = runs.pop() {
            pool.release(packet);
        }
        assert_eq!(pool.packets_in_use(), 0);
    }
}
