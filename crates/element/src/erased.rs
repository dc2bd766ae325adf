//! Elements for hosts that do not know their types: ports are numbers, in the order of [`Port::ALL`].

use crate::{
    Context, DropCounters, Element, FaceId, FaceInfo, Instant, Outbox, PREFETCH_STAGES_MAX, Packet, Pool,
    Port, PortInfo, Work,
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
        match self.runs.last_mut() {
            Some((last, len)) if *last == label => *len += 1,
            _ => self.runs.push((label, 1)),
        }
        self.packets.push(packet);
    }

    /// Appends all of `packets`, which is empty then.
    pub fn append(&mut self, label: L, packets: &mut Vec<Packet>) {
        match self.runs.last_mut() {
            _ if packets.is_empty() => {}
            Some((last, len)) if *last == label => *len += packets.len(),
            _ => self.runs.push((label, packets.len())),
        }
        self.packets.append(packets);
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
        let mut rest = self.packets.as_slice();
        self.runs.iter().map(move |(label, len)| {
            let (run, others) = rest.split_at(*len);
            rest = others;
            (*label, run)
        })
    }

    /// Takes the last packet.
    pub fn pop(&mut self) -> Option<(L, Packet)> {
        let packet = self.packets.pop()?;
        let (label, len) = self.runs.last_mut()?;
        let label = *label;
        *len -= 1;
        if *len == 0 {
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
        let mut packets = self.packets.drain(..);
        for (label, len) in self.runs.drain(..) {
            list.extend(packets.by_ref().take(len));
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

    /// [`Element::prefetch`] for each of them.
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

    /// [`Element::face_gone`].
    fn face_gone(&mut self, now: Instant, face: FaceId);

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
}

impl<E: Element> Erased<E> {
    /// Where packets enter.
    pub const INS: &'static [PortInfo] = <E::In as Port>::INFOS;
    /// Where packets leave.
    pub const OUTS: &'static [PortInfo] = <E::Out as Port>::INFOS;

    /// Of an element.
    pub fn new(element: E) -> Self {
        Erased { element, out: Outbox::with_capacity(OUTBOX_LEN) }
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
        for packet in packets {
            self.element.prefetch(STAGE, port, pool.meta(packet));
        }
    }
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
            3 => self.prefetch_stage::<3>(port, packets, pool),
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
        for packet in packets.drain(..) {
            let mut context = Context { pool: &mut *lent.pool, out: &mut self.out, drops: &mut *lent.drops };
            self.element.process(now, port, packet, &mut context);
            self.out.take_all(|port, packet| lent.out.push(port.index() as u8, packet));
        }
    }

    fn face_added(&mut self, face: FaceId, info: FaceInfo) {
        self.element.face_added(face, info);
    }

    fn face_gone(&mut self, now: Instant, face: FaceId) {
        self.element.face_gone(now, face);
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
