//! The link service, which keeps state between packets: reassembly and reliability under any input
//! of a peer, with time passing. Also frames of AF_XDP and messages of netlink. Replayed by
//! `crates/faces/tests/all/corpus.rs`.

use core::time::Duration;
use nw_element_api::{DropCounters, FaceId, Kind, Pool, Timestamp};
use nw_faces::xdp::frame::{Body, read};
use nw_link::Outbox;
use nw_link::config::{LINK_PACKET_LEN_MAX, ReassemblyLimits};
use nw_link::{DropRecorder, LinkService, LinkSettings, QueueState, ReassemblyBudget, Source};
use nw_link::{FaceCounters, FaceFlags, LinkDefaults};
use nw_name::HashKey;
use nw_wire::LpHeader;

/// Maximum of fragment bytes of all faces: small, so that inputs reach it.
const BYTES_MAX: usize = 64 * 1024;
const STEPS_MAX: usize = 2000;

/// A link service with the pools and counters that it uses.
struct Link {
    service: LinkService,
    pool: Pool,
    budget: ReassemblyBudget,
    face: FaceCounters,
    all: DropCounters,
    now: Timestamp,
}

/// Runs a link service. The first byte has the flags of the face and its MTU; the others are steps:
/// time that passes, raw link packets, link packets built from numbers, acknowledgements, packets
/// to send.
pub fn link(bytes: &[u8]) -> Result<(), &'static str> {
    let mut bytes = Bytes(bytes);
    let flags = bytes.byte();
    let mtu = [None, Some(64), Some(200), Some(1400)][usize::from(flags >> 6)];
    let mut settings = LinkSettings::new(&LinkDefaults::default(), mtu);
    settings.flags = FaceFlags(u64::from(flags & 7));
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
    /// Runs one step and returns the number of network packets that it delivered.
    fn step(&mut self, bytes: &mut Bytes<'_>) -> usize {
        match bytes.byte() % 6 {
            0 => {
                self.now = self.now + Duration::from_millis(u64::from(bytes.byte()) * 8);
                let mut drops = DropRecorder { face: &mut self.face, total: &mut self.all };
                self.service.expire(self.now, &mut self.budget, &mut drops);
                0
            }
            1 => {
                let len = usize::from(bytes.byte()) * 8;
                let packet = bytes.take(len).to_vec();
                self.receive(&packet, 0)
            }
            2 | 3 => self.fragment(bytes),
            4 => {
                let numbers: Vec<u64> = (0..bytes.byte() % 8)
                    .map(|_| (u64::MAX - 3).wrapping_add(u64::from(bytes.byte())))
                    .collect();
                let mut packet = Vec::new();
                LpHeader { acks: &numbers, ..LpHeader::default() }.encode(0, &mut packet);
                self.receive(&packet, 0)
            }
            _ => {
                self.send(usize::from(bytes.byte()) * 32);
                0
            }
        }
    }

    /// Receives a fragment whose sequence number, index and count are close to those of other
    /// fragments.
    fn fragment(&mut self, bytes: &mut Bytes<'_>) -> usize {
        let (sequence, index, count, sender) =
            (bytes.byte(), bytes.byte(), bytes.byte(), bytes.byte());
        let len = usize::from(bytes.byte()) * 4;
        let payload = bytes.take(len).to_vec();
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

/// Parses a frame as AF_XDP and Ethernet faces do: the packet found is inside the frame.
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

/// Parses netlink messages about interfaces, addresses, neighbours and routes.
pub fn netlink(bytes: &[u8]) -> Result<(), &'static str> {
    let count = nw_faces::raw::events(bytes).count();
    assert!(count <= bytes.len(), "no message is shorter than its header");
    if count > 0 { Ok(()) } else { Err("nothing") }
}

/// The unread input. After its end `byte` returns 0 and `take` fewer bytes.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn byte(&mut self) -> u8 {
        self.take(1).first().copied().unwrap_or(0)
    }

    fn take(&mut self, len: usize) -> &'a [u8] {
        let (taken, unread) = self.0.split_at(len.min(self.0.len()));
        self.0 = unread;
        taken
    }
}
