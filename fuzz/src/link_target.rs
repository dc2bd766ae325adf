//! The link service, which keeps state over packets: reassembly and reliability against whatever a
//! peer sends, and time that passes. Frames of AF_XDP and messages of netlink as well. Replayed by
//! `crates/faces/tests/corpus.rs`.

use core::time::Duration;
use nw_element_api::{DropCounters, FaceId, Kind, Pool, Timestamp};
use nw_faces::xdp::frame::{Body, read};
use nw_link::Outbox;
use nw_link::config::{LINK_PACKET_LEN_MAX, ReassemblyLimits};
use nw_link::{DropRecorder, LinkService, LinkSettings, QueueState, ReassemblyBudget, Source};
use nw_link::{FaceCounters, FaceFlags, LinkDefaults};
use nw_name::HashKey;
use nw_wire::LpHeader;

/// Bytes of fragments that all faces together may hold here: few, so that the bound is met.
const BYTES_MAX: usize = 64 * 1024;
const STEPS_MAX: usize = 2000;

/// A link service with what it borrows.
struct Link {
    service: LinkService,
    pool: Pool,
    budget: ReassemblyBudget,
    face: FaceCounters,
    all: DropCounters,
    now: Timestamp,
}

/// The first byte has the flags of the face and its MTU; what follows are steps: time that passes,
/// link packets as they are, link packets made of numbers, acknowledgements, packets to send.
pub fn link(bytes: &[u8]) -> Result<(), &'static str> {
    let mut bytes = Bytes(bytes);
    let how = bytes.one();
    let mtu = [None, Some(64), Some(200), Some(1400)][usize::from(how >> 6)];
    let mut settings = LinkSettings::new(&LinkDefaults::default(), mtu);
    settings.flags = FaceFlags(u64::from(how & 7));
    let limits = ReassemblyLimits { bytes_max_all: BYTES_MAX, ..ReassemblyLimits::default() };
    let mut link = Link {
        service: LinkService::new(settings, u64::MAX - 3),
        pool: Pool::new(HashKey::new([1, 2, 3, 4]), 16, 1024),
        budget: ReassemblyBudget::new(limits),
        face: FaceCounters::default(),
        all: DropCounters::default(),
        now: Timestamp::from_millis(1000),
    };
    let mut received = 0;
    for _ in 0..STEPS_MAX {
        if bytes.0.is_empty() {
            break;
        }
        received += link.step(&mut bytes);
        assert!(link.budget.bytes() <= BYTES_MAX, "{} bytes held", link.budget.bytes());
        assert_eq!(link.pool.packets_in_use(), 0, "a packet is lost");
    }
    let mut drops = DropRecorder { face: &mut link.face, total: &mut link.all };
    link.service.close(&mut link.budget, &mut drops);
    assert_eq!(link.budget.bytes(), 0, "fragments outlive their face");
    if received > 0 { Ok(()) } else { Err("nothing") }
}

impl Link {
    /// Does one step and returns the network packets that came of it.
    fn step(&mut self, bytes: &mut Bytes<'_>) -> usize {
        match bytes.one() % 6 {
            0 => {
                self.now = self.now + Duration::from_millis(u64::from(bytes.one()) * 8);
                let mut drops = DropRecorder { face: &mut self.face, total: &mut self.all };
                self.service.expire(self.now, &mut self.budget, &mut drops);
                0
            }
            1 => {
                let len = usize::from(bytes.one()) * 8;
                let packet = bytes.some(len).to_vec();
                self.receive(&packet, 0)
            }
            2 | 3 => self.fragment(bytes),
            4 => {
                let numbers: Vec<u64> = (0..bytes.one() % 8)
                    .map(|_| (u64::MAX - 3).wrapping_add(u64::from(bytes.one())))
                    .collect();
                let mut packet = Vec::new();
                LpHeader { acks: &numbers, ..LpHeader::default() }.encode(0, &mut packet);
                self.receive(&packet, 0)
            }
            _ => {
                self.send(usize::from(bytes.one()) * 32);
                0
            }
        }
    }

    /// A fragment whose sequence number, index and count are near those of others.
    fn fragment(&mut self, bytes: &mut Bytes<'_>) -> usize {
        let (sequence, index, count, sender) = (bytes.one(), bytes.one(), bytes.one(), bytes.one());
        let len = usize::from(bytes.one()) * 4;
        let payload = bytes.some(len).to_vec();
        let header = LpHeader {
            sequence: Some(u64::from(sequence).wrapping_sub(4)),
            fragment: Some((u64::from(index % 16), u64::from(count % 16))),
            tx_sequence: (sender & 4 != 0).then_some(u64::from(sequence)),
            ..LpHeader::default()
        };
        let mut packet = Vec::new();
        header.encode(payload.len(), &mut packet);
        packet.extend_from_slice(&payload);
        self.receive(&packet, u64::from(sender % 4))
    }

    fn receive(&mut self, link_packet: &[u8], sender: u64) -> usize {
        if link_packet.len() > LINK_PACKET_LEN_MAX {
            return 0;
        }
        let packet = self.pool.copy_of(link_packet).expect("the pool has room");
        let face = FaceId::from_number(300).expect("a face id");
        let source = Source { face, local: false, congested: false, sender };
        let mut drops = DropRecorder { face: &mut self.face, total: &mut self.all };
        let packet = self.service.receive(
            self.now,
            packet,
            source,
            &mut self.pool,
            &mut self.budget,
            &mut drops,
        );
        packet.map_or(0, |packet| {
            self.pool.release(packet);
            1
        })
    }

    fn send(&mut self, len: usize) {
        let packet = self.pool.copy_of(&vec![6; len.max(2)]).expect("the pool has room");
        self.pool.meta_mut(&packet).kind = Kind::Data;
        let mut outbox = Outbox::default();
        let queue = QueueState { bytes: 0, bytes_max: u64::MAX };
        let mut drops = DropRecorder { face: &mut self.face, total: &mut self.all };
        self.service.send(self.now, packet, queue, &mut self.pool, &mut outbox, &mut drops);
        outbox.clear(&mut self.pool);
    }
}

/// A frame as AF_XDP and Ethernet faces read it: what is found is inside the frame.
pub fn frame(bytes: &[u8]) -> Result<(), &'static str> {
    match read(bytes) {
        Ok(seen) => {
            if let Body::Ndn(at) = seen.body {
                assert!(at <= bytes.len());
            }
            Ok(())
        }
        Err(_) => Err("unreadable"),
    }
}

/// Messages of the kernel about interfaces, addresses, neighbours and routes.
pub fn netlink(bytes: &[u8]) -> Result<(), &'static str> {
    let count = nw_faces::raw::events(bytes).count();
    assert!(count <= bytes.len(), "no message is shorter than its header");
    if count > 0 { Ok(()) } else { Err("nothing") }
}

/// What is left of the input; zeros, or less than was asked for, behind its end.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn one(&mut self) -> u8 {
        self.some(1).first().copied().unwrap_or(0)
    }

    fn some(&mut self, len: usize) -> &'a [u8] {
        let (some, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        some
    }
}
