//! A bench for unit tests of elements: one element, packets for it, and the packets it emitted.

use nw_element_api::decode::decode;
use nw_element_api::{
    Context, DropCounters, Element, FaceId, Kind, LinkFields, Meta, Outbox, Packet, Pool, Port,
    Prediction, Timestamp,
};
use nw_name::{HashKey, Name};
use nw_wire::{DataBuilder, DigestSha256, InterestBuilder, NackReason};

/// The hash key of all tests.
pub const KEY: HashKey = HashKey::new([
    0x243f_6a88_85a3_08d3,
    0x1319_8a2e_0370_7344,
    0xa409_3822_299f_31d0,
    0x082e_fa98_ec4e_6c89,
]);

/// One element with pool, outbox, drop counters and time.
pub struct TestBench<E: Element> {
    /// The element under test.
    pub element: E,
    /// Bytes and metadata of packets.
    pub pool: Pool,
    /// Counters of dropped packets.
    pub drops: DropCounters,
    /// Virtual time.
    pub now: Timestamp,
    out: Outbox<E::Out>,
}

/// A packet that an element emitted.
#[derive(Debug)]
pub struct Emitted {
    /// The output port's name.
    pub port: &'static str,
    /// Kind of packet.
    pub kind: Kind,
    /// Its name as URI.
    pub name: String,
    /// Ingress face.
    pub ingress: FaceId,
    /// Egress face.
    pub egress: FaceId,
    /// Link header fields.
    pub link: LinkFields,
    /// The network packet.
    pub wire: Vec<u8>,
}

impl<E: Element> TestBench<E> {
    /// Creates a bench with at most 64 packets at one time.
    pub fn new(element: E) -> Self {
        Self::with_packets(element, 64)
    }

    /// Creates a bench with at most `packets_max` packets at one time.
    pub fn with_packets(element: E, packets_max: usize) -> Self {
        TestBench {
            element,
            pool: Pool::new(KEY, 64, packets_max),
            drops: DropCounters::default(),
            now: Timestamp::START,
            out: Outbox::with_capacity(8),
        }
    }

    /// Creates a decoded packet and changes its metadata.
    pub fn packet(&mut self, wire: &[u8], change: impl FnOnce(&mut Meta)) -> Packet {
        let packet = self.pool.copy_of(wire).expect("a buffer");
        self.pool.meta_mut(&packet).ingress = FaceId::NONE;
        self.pool.meta_mut(&packet).ingress_local = false;
        decode(&mut self.pool, &packet).expect("a packet");
        change(self.pool.meta_mut(&packet));
        packet
    }

    /// Processes one packet, with all prefetch stages, and returns what the element emitted.
    pub fn process(
        &mut self,
        port: E::In,
        wire: &[u8],
        change: impl FnOnce(&mut Meta),
    ) -> Vec<Emitted> {
        let packet = self.packet(wire, change);
        let mut prediction = Prediction::default();
        for stage in 0..E::prefetch_stages(port) {
            self.element.prefetch(stage, port, self.pool.meta(&packet), &mut prediction);
        }
        let TestBench { element, pool, drops, now, out } = self;
        element.process(*now, port, packet, &mut Context { pool, out, drops });
        self.emitted()
    }

    /// Calls a method of the element that may emit packets.
    pub fn with<T>(
        &mut self,
        call: impl FnOnce(&mut E, Timestamp, &mut Context<'_, E::Out>) -> T,
    ) -> T {
        let TestBench { element, pool, drops, now, out } = self;
        call(element, *now, &mut Context { pool, out, drops })
    }

    /// Advances the time, with every tick that is due, and returns what the element emitted.
    pub fn advance_ms(&mut self, millis: u64) -> Vec<Emitted> {
        let end = self.now.plus_millis(millis);
        while let Some(due) = self.element.deadline().filter(|due| *due <= end) {
            self.now = self.now.max(due);
            self.with(|element, now, context| element.tick(now, context));
        }
        self.now = end;
        self.emitted()
    }

    /// Returns the packets emitted since the last call, and ends them.
    pub fn emitted(&mut self) -> Vec<Emitted> {
        let sent: Vec<_> = self.out.drain().collect();
        sent.into_iter()
            .map(|(port, packet)| {
                let (bytes, meta) = self.pool.view(&packet);
                let emitted = Emitted {
                    port: port.name(),
                    kind: meta.kind,
                    name: meta.name_in(bytes).to_string(),
                    ingress: meta.ingress,
                    egress: meta.egress,
                    link: meta.link,
                    wire: bytes.to_vec(),
                };
                self.pool.release(packet);
                emitted
            })
            .collect()
    }
}

/// Returns the port of each packet.
pub fn ports(emitted: &[Emitted]) -> Vec<&'static str> {
    emitted.iter().map(|emitted| emitted.port).collect()
}

/// Parses a name.
pub fn name(uri: &str) -> Name {
    uri.parse().expect("a name")
}

/// Returns an Interest.
pub fn interest(uri: &str, nonce: u32) -> Vec<u8> {
    InterestBuilder::new(name(uri)).nonce(nonce).encode()
}

/// Returns a Data with the content `content`, signed by a digest.
pub fn data(uri: &str) -> Vec<u8> {
    let name = name(uri);
    DataBuilder::new(&name, b"content").encode(&DigestSha256).unwrap_or_else(|never| match never {})
}

/// Makes an Interest's metadata that of a Nack. The packet is decoded as an Interest first.
pub fn as_nack(reason: NackReason) -> impl Fn(&mut Meta) {
    move |meta| {
        meta.kind = Kind::Nack;
        meta.link.nack = Some(reason);
    }
}

/// Returns a face id by its number.
pub fn face(number: u32) -> FaceId {
    FaceId::from_bits(number)
}
