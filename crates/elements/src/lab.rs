//! What unit tests of elements share: one element, packets for it, and what left.

#![allow(dead_code)] // each test uses its part

use nw_element_api::decode::decode;
use nw_element_api::{
    Context, DropCounters, Element, FaceId, Instant, Kind, LinkFields, Meta, Outbox, Packet, Pool, Port,
};
use nw_name::{HashKey, Name};
use nw_wire::{DataBuilder, DigestSha256, InterestBuilder, NackReason};

pub(crate) const KEY: HashKey = HashKey::new([
    0x243f_6a88_85a3_08d3,
    0x1319_8a2e_0370_7344,
    0xa409_3822_299f_31d0,
    0x082e_fa98_ec4e_6c89,
]);

/// One element and what it works with.
pub(crate) struct Lab<E: Element> {
    pub element: E,
    pub pool: Pool,
    pub drops: DropCounters,
    pub now: Instant,
    out: Outbox<E::Out>,
}

/// A packet that left.
#[derive(Debug)]
pub(crate) struct Left {
    pub port: &'static str,
    pub kind: Kind,
    pub name: String,
    pub ingress: FaceId,
    pub egress: FaceId,
    pub link: LinkFields,
    pub wire: Vec<u8>,
}

impl<E: Element> Lab<E> {
    pub fn new(element: E) -> Self {
        Self::with_packets(element, 64)
    }

    /// Of which so many packets may be there at one time.
    pub fn with_packets(element: E, packets_max: usize) -> Self {
        Lab {
            element,
            pool: Pool::new(KEY, 64, packets_max),
            drops: DropCounters::default(),
            now: Instant::START,
            out: Outbox::with_capacity(8),
        }
    }

    /// Makes a packet: decoded, then changed.
    pub fn packet(&mut self, wire: &[u8], change: impl FnOnce(&mut Meta)) -> Packet {
        let packet = self.pool.copy_of(wire).expect("a buffer");
        self.pool.meta_mut(&packet).ingress = FaceId::NONE;
        self.pool.meta_mut(&packet).ingress_local = false;
        decode(&mut self.pool, &packet).expect("a packet");
        change(self.pool.meta_mut(&packet));
        packet
    }

    /// Hands a packet over and takes what leaves.
    pub fn give(&mut self, port: E::In, wire: &[u8], change: impl FnOnce(&mut Meta)) -> Vec<Left> {
        let packet = self.packet(wire, change);
        self.element.prefetch_far(port, self.pool.meta(&packet));
        for stage in 0..E::prefetch_stages(port) {
            self.element.prefetch(stage, port, self.pool.meta(&packet));
        }
        let Lab { element, pool, drops, now, out } = self;
        element.process(*now, port, packet, &mut Context { pool, out, drops });
        self.left()
    }

    /// Calls something of the element's that may send.
    pub fn with<T>(&mut self, call: impl FnOnce(&mut E, Instant, &mut Context<'_, E::Out>) -> T) -> T {
        let Lab { element, pool, drops, now, out } = self;
        call(element, *now, &mut Context { pool, out, drops })
    }

    /// Lets time pass.
    pub fn advance_ms(&mut self, millis: u64) -> Vec<Left> {
        let end = self.now.plus_millis(millis);
        while let Some(due) = self.element.deadline().filter(|due| *due <= end) {
            self.now = self.now.max(due);
            self.with(|element, now, context| element.tick(now, context));
        }
        self.now = end;
        self.left()
    }

    /// What left since last asked. The packets end.
    pub fn left(&mut self) -> Vec<Left> {
        let sent: Vec<_> = self.out.drain().collect();
        sent.into_iter()
            .map(|(port, packet)| {
                let (bytes, meta) = self.pool.view(&packet);
                let left = Left {
                    port: port.name(),
                    kind: meta.kind,
                    name: meta.name_in(bytes).to_string(),
                    ingress: meta.ingress,
                    egress: meta.egress,
                    link: meta.link,
                    wire: bytes.to_vec(),
                };
                self.pool.release(packet);
                left
            })
            .collect()
    }
}

/// Of all that left: by which port.
pub(crate) fn ports(left: &[Left]) -> Vec<&'static str> {
    left.iter().map(|left| left.port).collect()
}

pub(crate) fn name(uri: &str) -> Name {
    uri.parse().expect("a name")
}

pub(crate) fn interest(uri: &str, nonce: u32) -> Vec<u8> {
    InterestBuilder::new(name(uri)).nonce(nonce).encode()
}

pub(crate) fn data(uri: &str) -> Vec<u8> {
    let name = name(uri);
    DataBuilder::new(&name, b"content").encode(&DigestSha256).unwrap_or_else(|never| match never {})
}

/// An Interest as a Nack's metadata are: to be decoded as an Interest, then changed by this.
pub(crate) fn as_nack(reason: NackReason) -> impl Fn(&mut Meta) {
    move |meta| {
        meta.kind = Kind::Nack;
        meta.link.nack = Some(reason);
    }
}

pub(crate) fn face(number: u32) -> FaceId {
    FaceId::from_bits(number)
}
