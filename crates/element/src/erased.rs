//! Elements for hosts that do not know their types: ports are numbers, in the order of [`Port::ALL`].

use crate::{
    Context, DropCounters, Element, FaceId, FaceInfo, Instant, Outbox, Packet, Pool, Port, PortInfo,
};
use core::any::Any;

/// What an element is lent by a host that does not know its type.
pub struct Lent<'a> {
    /// Bytes and metadata of packets.
    pub pool: &'a mut Pool,
    /// What leaves is appended: the port's number, and the packet.
    pub out: &'a mut Vec<(u8, Packet)>,
    /// Where dropped packets are counted.
    pub drops: &'a mut DropCounters,
}

/// An [`Element`] of a type unknown to the host; made by [`Erased`].
pub trait AnyElement: Any + Send {
    /// [`Element::PREFETCH_STAGES`].
    fn prefetch_stages(&self) -> usize;

    /// [`Element::prefetch`] for those of a batch whose entry in `ports` is `port`.
    fn prefetch(&self, stage: usize, port: u8, ports: &[u16], wanted: u16, packets: &[Packet], pool: &Pool);

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
            lent.out.push((port.index() as u8, packet));
        }
        result
    }
}

impl<E: Element> Erased<E> {
    #[inline(always)]
    fn prefetch_stage<const STAGE: usize>(
        &self,
        port: E::In,
        ports: &[u16],
        wanted: u16,
        packets: &[Packet],
        pool: &Pool,
    ) {
        const { assert!(E::PREFETCH_STAGES <= 3) };
        for (_, packet) in ports.iter().zip(packets).filter(|(at, _)| **at == wanted) {
            self.element.prefetch(STAGE, port, packet, pool);
        }
    }
}

/// Room for what leaves by one packet; it grows where more does.
const OUTBOX_LEN: usize = 16;

impl<E: Element + Send + 'static> AnyElement for Erased<E> {
    fn prefetch_stages(&self) -> usize {
        E::PREFETCH_STAGES
    }

    fn prefetch(&self, stage: usize, port: u8, ports: &[u16], wanted: u16, packets: &[Packet], pool: &Pool) {
        let port = E::In::ALL[usize::from(port)];
        // A stage that is known when this is compiled leaves nothing of the others.
        match stage {
            0 => self.prefetch_stage::<0>(port, ports, wanted, packets, pool),
            1 => self.prefetch_stage::<1>(port, ports, wanted, packets, pool),
            2 => self.prefetch_stage::<2>(port, ports, wanted, packets, pool),
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
            lent.out.push((port.index() as u8, packet));
        }
        Some((port.index() as u8, first))
    }

    fn process_all(&mut self, now: Instant, port: u8, packets: &mut Vec<Packet>, lent: &mut Lent<'_>) {
        let port = E::In::ALL[usize::from(port)];
        for packet in packets.drain(..) {
            let mut context = Context { pool: &mut *lent.pool, out: &mut self.out, drops: &mut *lent.drops };
            self.element.process(now, port, packet, &mut context);
            while let Some((port, packet)) = self.out.take() {
                lent.out.push((port.index() as u8, packet));
            }
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
}
