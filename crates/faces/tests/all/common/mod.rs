//! A host for tests: faces, a pool, an epoll instance, and what was received.

use nw_element_api::{Kind, Packet, Pool};
use nw_faces::{FaceEvent, FaceId, Faces, FacesConfig, Timestamp};
use nw_name::HashKey;
use nw_name::tlv::push_tlv;
use rustix::event::epoll;
use rustix::io::Errno;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant as Clock};

pub struct Host {
    pub faces: Faces,
    pub pool: Pool,
    pub events: Vec<FaceEvent>,
    /// Network packets received: face, kind, bytes.
    pub received: Vec<(FaceId, Kind, Vec<u8>)>,
    /// Congestion marks received.
    pub marked: usize,
    epoll: OwnedFd,
    batch: Vec<Packet>,
    start: Clock,
    /// Added to the clock.
    pub skipped_ms: u64,
}

impl Host {
    pub fn new(config: FacesConfig) -> Self {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
        Host {
            faces: Faces::new(config, epoll.as_fd()).unwrap(),
            pool: Pool::new(HashKey::new([1, 2, 3, 4]), 256, 16_384),
            events: Vec::new(),
            received: Vec::new(),
            marked: 0,
            epoll,
            batch: Vec::new(),
            start: Clock::now(),
            skipped_ms: 0,
        }
    }

    pub fn now(&self) -> Timestamp {
        Timestamp::from_nanos(self.start.elapsed().as_nanos() as u64).plus_millis(self.skipped_ms)
    }

    /// Runs one iteration of the loop, waiting at most `wait_ms`. Returns how many sockets were
    /// ready.
    pub fn turn(&mut self, wait_ms: u64) -> usize {
        self.faces.flush(&mut self.pool);
        let mut ready = [const { core::mem::MaybeUninit::uninit() }; 64];
        let timeout = rustix::time::Timespec::try_from(Duration::from_millis(wait_ms)).unwrap();
        let (ready, _) = match epoll::wait(&self.epoll, &mut ready, Some(&timeout)) {
            // The process was stopped and continued.
            Err(Errno::INTR) => return 0,
            waited => waited.unwrap(),
        };
        let now = self.now();
        for event in ready.iter() {
            let (token, flags) = (event.data.u64(), event.flags);
            assert!(Faces::owns(token));
            self.faces.on_ready(now, token, flags, &mut self.pool, &mut self.batch);
            self.receive_packet();
        }
        let count = ready.len();
        self.faces.tick(now, &mut self.pool);
        self.faces.flush(&mut self.pool);
        self.receive_packet();
        count
    }

    /// Takes events and packets.
    pub fn receive_packet(&mut self) {
        self.events.extend(self.faces.events());
        self.faces.take_last_packets(&mut self.batch);
        for packet in self.batch.drain(..) {
            let meta = self.pool.meta(&packet);
            self.marked += usize::from(meta.link.congestion_mark > 0);
            self.received.push((meta.ingress, meta.kind, self.pool.bytes(&packet).to_vec()));
            self.pool.release(packet);
        }
    }

    /// Iterates until a condition holds.
    pub fn until(&mut self, what: &str, mut holds: impl FnMut(&mut Host) -> bool) {
        let end = Clock::now() + Duration::from_secs(10);
        while !holds(self) {
            assert!(Clock::now() < end, "{what}: not within 10 s");
            self.turn(10);
        }
    }

    pub fn send(&mut self, face: FaceId, kind: Kind, bytes: &[u8]) {
        let packet = self.pool.copy_of(bytes).expect("the pool has room");
        self.pool.meta_mut(&packet).kind = kind;
        let now = self.now();
        self.faces.send(now, face, packet, &mut self.pool);
    }

    pub fn created(&self) -> Vec<FaceId> {
        let ids = self.events.iter().filter_map(|event| match event {
            FaceEvent::Created(status) => Some(status.id),
            _ => None,
        });
        ids.collect()
    }

    pub fn destroyed(&self) -> Vec<FaceId> {
        let ids = self.events.iter().filter_map(|event| match event {
            FaceEvent::Destroyed(status, _) => Some(status.id),
            _ => None,
        });
        ids.collect()
    }

    /// Checks that no memory is held for released packets.
    pub fn check_pool(&self) {
        assert_eq!(self.pool.packets_in_use(), 0);
    }
}

/// Returns an Interest for `/name`.
pub fn interest(name: &str) -> Vec<u8> {
    let mut body = name_of(name);
    push_tlv(10, &[1, 2, 3, 4], &mut body);
    wrap(5, &body)
}

/// Returns a Data `/name` of about `len` bytes of content.
pub fn data(name: &str, len: usize) -> Vec<u8> {
    let mut body = name_of(name);
    push_tlv(21, &vec![7; len], &mut body);
    push_tlv(22, &[27, 1, 0], &mut body);
    push_tlv(23, &[0; 32], &mut body);
    wrap(6, &body)
}

fn name_of(name: &str) -> Vec<u8> {
    wrap(7, &wrap(8, name.as_bytes()))
}

fn wrap(typ: u32, value: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    push_tlv(typ, value, &mut out);
    out
}
