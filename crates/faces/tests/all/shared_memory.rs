//! Faces over shared memory: two hosts, and peers that violate the protocol.

use crate::common::{Host, data, interest};
use nw_element_api::{DropCause, Kind};
use nw_faces::{
    CloseReason, FaceError, FaceEvent, FaceId, FaceOptions, FaceUri, FacesConfig, Persistency,
    Scope, SharedMemoryFault,
};
use nw_packet_types::random::Random;
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::net::{
    AddressFamily, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType,
};
use std::fs::File;
use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Offsets of words of the connecting end's ring: its position, and the words of the other ring.
const WRITTEN: u64 = 0;
const READ: u64 = 128;
const READER_WAITS: u64 = 256;
const OTHER: u64 = 512;
const HEAD_LEN: u64 = 4096;
const RING_LEN: u64 = 64 << 10;

fn listening(config: FacesConfig) -> (Host, PathBuf, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("new/link.sock");
    let mut host = Host::new(config);
    host.faces.listen_shared_memory(&path, 0o600).unwrap();
    (host, path, directory)
}

fn permanent() -> FaceOptions {
    FaceOptions { persistency: Some(Persistency::Permanent), ..FaceOptions::default() }
}

/// Returns a host connected to the path, and both ends' faces.
fn connected(near: &mut Host, path: &Path, config: FacesConfig) -> (Host, FaceId, FaceId) {
    let mut far = Host::new(config);
    let before = near.created().len();
    let id = far.faces.connect(far.now(), &FaceUri::Shm(path.into()), None, &permanent()).unwrap();
    assert!(!far.faces.status(id).unwrap().up, "not before the other end agrees");
    both(near, &mut far, "connected", |near, far| {
        near.created().len() > before && far.faces.status(id).is_some_and(|status| status.up)
    });
    let accepted = *near.created().last().unwrap();
    (far, id, accepted)
}

/// Iterates both hosts until a condition holds.
fn both(
    near: &mut Host,
    far: &mut Host,
    what: &str,
    mut holds: impl FnMut(&mut Host, &mut Host) -> bool,
) {
    near.until(what, |near| {
        far.turn(0);
        holds(near, far)
    });
}

fn turns(host: &mut Host, count: usize) {
    for _ in 0..count {
        host.turn(1);
    }
}

/// Checks that the loop of an idle host sleeps.
fn at_rest(host: &mut Host) {
    turns(host, 8);
    assert_eq!(host.turn(0), 0, "nothing makes the loop spin");
}

#[test]
fn packets_are_exchanged_in_both_directions() {
    let (mut near, path, _directory) = listening(FacesConfig::default());
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let (mut far, id, accepted) = connected(&mut near, &path, FacesConfig::default());
    let (here, there) = (far.faces.status(id).unwrap(), near.faces.status(accepted).unwrap());
    assert!(matches!(here.local_uri, FaceUri::Fd(_)));
    assert_eq!(
        (here.uri, here.scope, here.persistency),
        (FaceUri::Shm(path.clone()), Scope::Local, Persistency::Permanent)
    );
    assert_eq!((there.local_uri, there.scope, there.mtu), (FaceUri::Shm(path), Scope::Local, None));
    assert!(matches!(there.uri, FaceUri::Fd(_)));
    at_rest(&mut near);
    at_rest(&mut far);

    for at in 0..300usize {
        far.send(id, Kind::Interest, &interest(&format!("{at}")));
        near.send(accepted, Kind::Data, &data(&format!("{at}"), at * 29));
        if at % 7 == 0 {
            both(&mut near, &mut far, "a turn", |_, _| true);
        }
    }
    both(&mut near, &mut far, "all", |near, far| {
        near.received.len() == 300 && far.received.len() == 300
    });
    for at in 0..300 {
        assert_eq!(near.received[at], (accepted, Kind::Interest, interest(&format!("{at}"))));
        assert_eq!(far.received[at], (id, Kind::Data, data(&format!("{at}"), at * 29)));
    }
    assert_eq!((near.faces.totals().in_interests, far.faces.totals().in_data), (300, 300));
    assert!(
        near.faces.drops().iter().chain(far.faces.drops().iter()).all(|(_, packets)| packets == 0)
    );
    at_rest(&mut near);
    at_rest(&mut far);
    assert_eq!(near.pool.chunks_in_use(), 1, "only what the pool fills with packets made here");
    near.check_pool();
    far.check_pool();
}

#[test]
fn peer_that_does_not_read_is_bounded_and_holds_no_packets() {
    let (mut near, path, _directory) = listening(FacesConfig::default());
    let small = FacesConfig { shared_ring_len: 1, ..FacesConfig::default() };
    let (mut far, id, accepted) = connected(&mut near, &path, small);
    let mut sent = 0;
    for _ in 0..100 {
        for _ in 0..10 {
            far.send(id, Kind::Data, &data(&format!("{sent:04}"), 8000));
            sent += 1;
        }
        far.turn(0);
        far.check_pool();
    }
    let status = far.faces.status(id).unwrap();
    assert!(
        status.queue_bytes <= 1 << 20 && status.queue_bytes > 1000 << 10,
        "{}",
        status.queue_bytes
    );
    let dropped = status.counters.dropped(DropCause::FaceQueueFull);
    assert_eq!(dropped, status.counters.out_data_dropped);
    assert_eq!(status.counters.out_data + dropped, 1000);
    // 64 KiB in the ring, 1 MiB in the queue.
    assert!(dropped > 850, "{dropped}");
    at_rest(&mut far);

    // It reads again: queued packets arrive whole and in order, followed by new ones.
    let kept = status.counters.out_data as usize;
    both(&mut near, &mut far, "drained", |near, _| near.received.len() == kept);
    far.send(id, Kind::Data, &data("last", 8000));
    both(&mut near, &mut far, "the last", |near, _| near.received.len() == kept + 1);
    for (at, (face, _, bytes)) in near.received.iter().take(kept).enumerate() {
        assert!(*face == accepted && *bytes == data(&format!("{at:04}"), 8000), "packet {at}");
    }
    assert_eq!(near.received[kept].2, data("last", 8000));
    at_rest(&mut near);
    at_rest(&mut far);
}

#[test]
fn closed_peer_is_read_to_its_end_and_reconnected() {
    let (mut near, path, _directory) = listening(FacesConfig::default());
    let (mut far, id, accepted) = connected(&mut near, &path, FacesConfig::default());
    near.send(accepted, Kind::Data, &data("parting", 100));
    near.turn(0);
    near.faces.close_all(&mut near.pool);
    drop(near);
    far.until("down", |far| far.faces.status(id).is_some_and(|status| !status.up));
    assert_eq!(far.received, [(id, Kind::Data, data("parting", 100))]);
    assert!(matches!(far.events.last(), Some(FaceEvent::Down(down)) if *down == id));
    far.send(id, Kind::Interest, &interest("a"));
    assert_eq!(far.faces.drops().total(DropCause::FaceDown), 1);
    at_rest(&mut far);

    let mut again = Host::new(FacesConfig::default());
    again.faces.listen_shared_memory(&path, 0o600).unwrap();
    far.skipped_ms += 10_000;
    both(&mut again, &mut far, "up", |_, far| far.faces.status(id).is_some_and(|status| status.up));
    far.send(id, Kind::Interest, &interest("b"));
    both(&mut again, &mut far, "the Interest", |again, _| again.received.len() == 1);
    assert_eq!(far.faces.status(id).unwrap().counters.out_interests, 1);

    // Now the connecting end closes.
    drop(far);
    again.until("the end", |again| again.destroyed().len() == 1);
    assert!(matches!(again.events.last(), Some(FaceEvent::Destroyed(_, CloseReason::PeerClosed))));
    again.check_pool();
}

#[test]
fn unusable_path_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let mut host = Host::new(FacesConfig::default());
    let said = |result: Result<FaceId, FaceError>| result.unwrap_err().to_string();
    let to = |host: &mut Host, path: &Path| {
        let now = host.now();
        host.faces.connect(now, &FaceUri::Shm(path.into()), None, &permanent())
    };
    let missing = directory.path().join("missing");
    assert!(said(to(&mut host, &missing)).contains("no such path"));
    // A plain unix socket, from both ends.
    let plain = directory.path().join("plain");
    let listener = UnixListener::bind(&plain).unwrap();
    assert!(said(to(&mut host, &plain)).contains("write unix:// or shm:// on both sides"));
    let shared = directory.path().join("shared");
    host.faces.listen_shared_memory(&shared, 0o600).unwrap();
    assert!(UnixStream::connect(&shared).is_err());
    // A listener of either kind exists; or none any more, of either kind.
    let mut other = Host::new(FacesConfig::default());
    for taken in [&plain, &shared] {
        assert!(matches!(
            other.faces.listen_shared_memory(taken, 0o600),
            Err(FaceError::SocketInUse(_))
        ));
        assert!(matches!(other.faces.listen_unix(taken, 0o600), Err(FaceError::SocketInUse(_))));
    }
    drop(listener);
    assert!(said(to(&mut host, &plain)).contains("no program listens there"));
    other.faces.listen_shared_memory(&plain, 0o600).unwrap();
    let file = directory.path().join("file");
    std::fs::write(&file, "mine").unwrap();
    assert!(matches!(
        other.faces.listen_shared_memory(&file, 0o600),
        Err(FaceError::NotASocket(_))
    ));
    assert!(host.faces.stop_listening(&FaceUri::Shm(shared.clone())));
    assert!(!shared.exists());
    let options =
        FaceOptions { persistency: Some(Persistency::OnDemand), ..FaceOptions::default() };
    assert!(host.faces.connect(host.now(), &FaceUri::Shm(shared), None, &options).is_err());
}

/// A hand-made peer.
struct RawPeer {
    socket: OwnedFd,
    memory: File,
}

fn socket_to(path: &Path) -> OwnedFd {
    let flags = SocketFlags::CLOEXEC;
    let socket =
        rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
    rustix::net::connect(&socket, &SocketAddrUnix::new(path).unwrap()).unwrap();
    socket
}

fn memory_of(len: u64, seals: SealFlags) -> File {
    let file =
        rustix::fs::memfd_create("x", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
    rustix::fs::ftruncate(&file, len).unwrap();
    rustix::fs::fcntl_add_seals(&file, seals).unwrap();
    file.into()
}

fn hello(version: u8, ring_len: u64) -> Vec<u8> {
    [&b"nw-shm\0"[..], &[version], &ring_len.to_le_bytes()].concat()
}

fn send_message(socket: &OwnedFd, bytes: &[u8], files: &[&File]) {
    let files: Vec<_> = files.iter().map(|file| file.as_fd()).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(16))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() {
        assert!(control.push(SendAncillaryMessage::ScmRights(&files)));
    }
    rustix::net::sendmsg(socket, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)
        .unwrap();
}

impl RawPeer {
    fn at(path: &Path) -> Self {
        let memory = memory_of(HEAD_LEN + 2 * RING_LEN, SealFlags::SHRINK | SealFlags::GROW);
        let socket = socket_to(path);
        send_message(&socket, &hello(1, RING_LEN), &[&memory]);
        RawPeer { socket, memory }
    }

    fn word(&self, at: u64, value: u64) {
        self.memory.write_all_at(&value.to_ne_bytes(), at).unwrap();
    }

    fn ring(&self) {
        let _ = rustix::net::send(&self.socket, &[1], SendFlags::NOSIGNAL);
    }

    /// Writes packets correctly.
    fn write(&self, bytes: &[u8]) {
        self.memory.write_all_at(bytes, HEAD_LEN).unwrap();
        self.word(WRITTEN, bytes.len() as u64);
        self.word(READER_WAITS, 0);
        self.ring();
    }
}

/// Returns a hand-made peer that has sent one packet, and its face.
fn raw_peer(host: &mut Host, path: &Path) -> (RawPeer, FaceId) {
    let raw_peer = RawPeer::at(path);
    let (faces, packets) = (host.created().len(), host.received.len());
    host.until("accepted", |host| host.created().len() > faces);
    let mut answer = [0; 16];
    let (len, _) =
        rustix::net::recv(&raw_peer.socket, &mut answer[..], RecvFlags::empty()).unwrap();
    assert_eq!(answer[..len], *b"nw-shm\0\x01");
    raw_peer.write(&interest("before"));
    host.until("the Interest", |host| host.received.len() > packets);
    (raw_peer, *host.created().last().unwrap())
}

fn ends_by(host: &mut Host, id: FaceId, fault: SharedMemoryFault) {
    let counted = host.faces.drops().total(DropCause::SharedMemoryFault);
    host.until("the end", |host| host.destroyed().contains(&id));
    let Some(FaceEvent::Destroyed(status, reason)) = host.events.last() else {
        panic!("{:?}", host.events)
    };
    assert_eq!((status.id, reason), (id, &CloseReason::SharedMemory(fault)));
    assert_eq!(status.counters.dropped(DropCause::SharedMemoryFault), 1);
    assert_eq!(host.faces.drops().total(DropCause::SharedMemoryFault), counted + 1);
}

#[test]
fn invalid_memory_contents_close_the_link() {
    let (mut host, path, _directory) = listening(FacesConfig::default());
    let len = interest("before").len() as u64;
    // Impossible positions: more than the ring holds ahead, or behind.
    for written in [len + RING_LEN + 1, len - 1, 0, u64::MAX, 1 << 63] {
        let (raw_peer, id) = raw_peer(&mut host, &path);
        raw_peer.word(WRITTEN, written);
        raw_peer.ring();
        ends_by(&mut host, id, SharedMemoryFault::Position);
    }
    // Its read position, checked when something is sent.
    for read in [1, RING_LEN, 1 << 63, u64::MAX - RING_LEN] {
        let (raw_peer, id) = raw_peer(&mut host, &path);
        raw_peer.word(OTHER + READ, read);
        for _ in 0..20 {
            host.send(id, Kind::Data, &data("x", 8000));
        }
        ends_by(&mut host, id, SharedMemoryFault::Position);
    }
    // Bytes that are not packets, a whole ring of them.
    let (raw_peer, id) = raw_peer(&mut host, &path);
    raw_peer.memory.write_all_at(&vec![0xff; RING_LEN as usize], HEAD_LEN).unwrap();
    raw_peer.word(WRITTEN, len + RING_LEN);
    raw_peer.ring();
    host.until("the end", |host| host.destroyed().contains(&id));
    assert!(matches!(
        host.events.last(),
        Some(FaceEvent::Destroyed(_, CloseReason::FramingLost(_)))
    ));
    // The router's own words: writes there change nothing except whether it is woken.
    let (raw_peer, id) = self::raw_peer(&mut host, &path);
    turns(&mut host, 5);
    for at in [READ, READER_WAITS, 3 * 128, OTHER, OTHER + READER_WAITS, OTHER + 3 * 128] {
        raw_peer.word(at, u64::MAX);
    }
    raw_peer.ring();
    host.send(id, Kind::Data, &data("x", 100));
    turns(&mut host, 10);
    assert!(host.destroyed().iter().all(|ended| *ended != id));
    assert_eq!(host.faces.status(id).unwrap().counters.out_data, 1);
    host.check_pool();
}

/// Peers that write anything anywhere, all the time: their links are closed, and nothing else
/// happens.
#[test]
fn random_writes_close_only_their_link() {
    let (mut host, path, _directory) = listening(FacesConfig::default());
    let (mut honest, to_host, accepted) = connected(&mut host, &path, FacesConfig::default());
    let mut numbers = Random::new(1);
    let mut random = move || numbers.next_u64();
    let end = std::time::Instant::now() + Duration::from_secs(1);
    let mut links = 0;
    while std::time::Instant::now() < end {
        let (raw_peer, id) = raw_peer(&mut host, &path);
        links += 1;
        let scribbled = std::thread::scope(|scope| {
            let words: Vec<(u64, u64)> = (0..400)
                .map(|_| {
                    let near = random() % (2 * RING_LEN);
                    (random() % 8 * 128, if random() % 3 == 0 { random() } else { near })
                })
                .collect();
            let scribbles = scope.spawn(move || {
                for (at, value) in words {
                    raw_peer.word(at, value);
                    raw_peer
                        .memory
                        .write_all_at(&value.to_ne_bytes(), HEAD_LEN + value % RING_LEN)
                        .unwrap();
                    raw_peer.ring();
                }
            });
            while !scribbles.is_finished() {
                host.send(id, Kind::Data, &data("x", 4000));
                host.turn(0);
            }
            scribbles.join()
        });
        assert!(scribbled.is_ok());
        host.until("the end", |host| host.destroyed().contains(&id));
        honest.send(to_host, Kind::Interest, &interest(&format!("honest {links}")));
        both(&mut host, &mut honest, "the honest one", |host, _| {
            host.received.iter().any(|(face, ..)| *face == accepted)
        });
        host.received.clear();
        host.check_pool();
    }
    assert!(links > 3, "{links}");
    assert_eq!(host.faces.len(), 1);
}

#[test]
fn invalid_messages_close_the_link() {
    let (mut host, path, _directory) = listening(FacesConfig::default());
    for message in [&b"hello"[..], &[1, 1], &[2]] {
        let (raw_peer, id) = raw_peer(&mut host, &path);
        send_message(&raw_peer.socket, message, &[]);
        ends_by(&mut host, id, SharedMemoryFault::Wakeup);
    }
    // A flood of wake-ups closes the link. Passed descriptors are closed.
    let (raw_peer, id) = raw_peer(&mut host, &path);
    for _ in 0..20 {
        send_message(&raw_peer.socket, &[1], &[&raw_peer.memory]);
    }
    ends_by(&mut host, id, SharedMemoryFault::Wakeup);
}

/// Returns how many descriptors of this process refer to the file. Other tests open and close
/// others meanwhile.
fn descriptors_of(file: &File) -> usize {
    let file = file.metadata().unwrap();
    let entries = std::fs::read_dir("/proc/self/fd").unwrap();
    entries
        .filter_map(|entry| std::fs::metadata(entry.ok()?.path()).ok())
        .filter(|other| (other.dev(), other.ino()) == (file.dev(), file.ino()))
        .count()
}

#[test]
fn invalid_offers_are_refused() {
    let (mut host, path, _directory) = listening(FacesConfig::default());
    let sealed = SealFlags::SHRINK | SealFlags::GROW;
    let good = memory_of(HEAD_LEN + 2 * RING_LEN, sealed);
    let open = memory_of(HEAD_LEN + 2 * RING_LEN, SealFlags::empty());
    let short = memory_of(HEAD_LEN, sealed);
    let plain = tempfile::tempfile().unwrap();
    plain.set_len(HEAD_LEN + 2 * RING_LEN).unwrap();
    let offers: [(&str, Vec<u8>, Vec<&File>); 11] = [
        ("no hello", b"GET / HTTP/1.0\r\n".to_vec(), vec![&good]),
        ("too long", [hello(1, RING_LEN), vec![0]].concat(), vec![&good]),
        ("a packet", interest("a"), vec![]),
        ("version", hello(2, RING_LEN), vec![&good]),
        ("no memory", hello(1, RING_LEN), vec![]),
        ("not sealed", hello(1, RING_LEN), vec![&open]),
        ("too short", hello(1, RING_LEN), vec![&short]),
        ("a file", hello(1, RING_LEN), vec![&plain]),
        ("odd size", hello(1, RING_LEN + 1), vec![&good]),
        ("large", hello(1, 1 << 40), vec![&good]),
        ("small", hello(1, 4096), vec![&good]),
    ];
    for (at, (what, bytes, files)) in offers.iter().enumerate() {
        let socket = socket_to(&path);
        send_message(&socket, bytes, files);
        host.until(what, |host| host.faces.listeners()[0].refused == at as u64 + 1);
        let mut heard = [0; 16];
        let (len, _) = rustix::net::recv(&socket, &mut heard[..], RecvFlags::empty()).unwrap();
        let version = if *what == "version" { &b"nw-shm\0\x01"[..] } else { &[] };
        assert_eq!(heard[..len], *version, "{what}");
        assert_eq!(host.faces.drops().total(DropCause::SharedMemoryFault), at as u64 + 1, "{what}");
    }
    // With several descriptors, the first is used and the others are closed.
    let socket = socket_to(&path);
    send_message(&socket, &hello(1, RING_LEN), &[&good; 16]);
    host.until("accepted", |host| host.created().len() == 1);
    assert_eq!(descriptors_of(&good), 1, "what is mapped is held by its mapping");
    assert!(host.faces.listeners()[0].accepted == 1);
}

#[test]
fn peer_without_offer_costs_little() {
    let mut config = FacesConfig { shared_faces_max: 1, ..FacesConfig::default() };
    config.websocket.handshake_timeout = Duration::from_millis(50);
    let (mut host, path, _directory) = listening(config);
    let silent = socket_to(&path);
    host.turn(10);
    host.skipped_ms += 100;
    host.until("given up", |host| host.faces.listeners()[0].refused == 1);
    let mut heard = [0; 64];
    assert_eq!(rustix::net::recv(&silent, &mut heard[..], RecvFlags::empty()).unwrap().0, 0);
    // As many as permitted.
    let (_stranger, _) = raw_peer(&mut host, &path);
    let _second = RawPeer::at(&path);
    host.until("refused", |host| host.faces.listeners()[0].refused == 2);
    assert_eq!((host.faces.len(), host.faces.drops().total(DropCause::SharedMemoryFault)), (1, 0));
}

/// The peer has another version, or never answers.
#[test]
fn peer_that_does_not_agree_gets_no_face() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("link.sock");
    let flags = SocketFlags::CLOEXEC;
    let listener =
        rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
    rustix::net::bind(&listener, &SocketAddrUnix::new(&path).unwrap()).unwrap();
    rustix::net::listen(&listener, 8).unwrap();
    let mut host = Host::new(FacesConfig::default());
    for (answer, reason) in [
        (Some(&b"nw-shm\0\x02"[..]), CloseReason::SharedMemory(SharedMemoryFault::Version)),
        (Some(b"HTTP/1.0 400"), CloseReason::SharedMemory(SharedMemoryFault::Hello)),
        (Some(b""), CloseReason::PeerClosed),
        (None, CloseReason::Socket(rustix::io::Errno::TIMEDOUT)),
    ] {
        let now = host.now();
        let id = host.faces.connect(now, &FaceUri::Shm(path.clone()), None, &permanent()).unwrap();
        let accepted = rustix::net::accept(&listener).unwrap();
        host.send(id, Kind::Interest, &interest("early"));
        match answer {
            Some(answer) if !answer.is_empty() => {
                assert!(rustix::net::send(&accepted, answer, SendFlags::NOSIGNAL).is_ok())
            }
            Some(_) => drop(accepted),
            None => {
                turns(&mut host, 5);
                assert_eq!(host.turn(0), 0, "nothing makes the loop spin");
                host.skipped_ms += 11_000;
            }
        }
        host.until("the end", |host| host.destroyed().contains(&id));
        let Some(FaceEvent::Destroyed(_, found)) = host.events.last() else {
            panic!("{:?}", host.events)
        };
        assert_eq!(*found, reason);
    }
    host.check_pool();
}
