//! Reliability, pacing and reconnection over real sockets.

use crate::common::{Host, data, interest};
use nw_element_api::{DropCause, Kind};
use nw_faces::{
    CloseReason, FaceError, FaceEvent, FaceFlags, FaceId, FaceOptions, FaceUri, FacesConfig,
    Persistency, Timestamp,
};
use nw_wire::{LpHeader, LpPacket};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::unix::net::UnixListener;
use std::time::Duration;

const RELIABLE: FaceOptions = FaceOptions {
    persistency: None,
    flags: FaceFlags::RELIABILITY,
    flags_mask: FaceFlags::RELIABILITY,
    mtu: None,
    marking_interval: None,
    marking_threshold: None,
};

const PERMANENT: FaceOptions = FaceOptions {
    persistency: Some(Persistency::Permanent),
    flags: FaceFlags(0),
    flags_mask: FaceFlags(0),
    mtu: None,
    marking_interval: None,
    marking_threshold: None,
};

fn udp_host(config: FacesConfig) -> (Host, SocketAddr) {
    let mut host = Host::new(config);
    let bound = host.faces.listen_udp("127.0.0.1:0".parse().unwrap()).unwrap();
    (host, bound)
}

fn peer() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    socket
}

fn connect(host: &mut Host, uri: &FaceUri, options: &FaceOptions) -> FaceId {
    let now = host.now();
    host.faces.connect(now, uri, None, options).unwrap()
}

/// Iterates both ends until a condition holds.
fn both(a: &mut Host, b: &mut Host, what: &str, mut holds: impl FnMut(&Host, &Host) -> bool) {
    a.until(what, |a| {
        b.turn(0);
        holds(a, b)
    });
}

#[test]
fn reliable_link_without_loss_retransmits_nothing() {
    // Load on this machine must not look like losses.
    let mut config = FacesConfig::default();
    config.reliability.rto_min = Duration::from_secs(60);
    let (mut a, _) = udp_host(config.clone());
    config.reliable.udp = true;
    let (mut b, b_address) = udp_host(config);
    let face =
        connect(&mut a, &FaceUri::Udp(b_address), &FaceOptions { mtu: Some(1400), ..RELIABLE });
    for at in 0..40 {
        a.send(face, Kind::Data, &data(&format!("{at}"), 8000));
        a.send(face, Kind::Interest, &interest(&format!("{at}")));
    }
    both(&mut a, &mut b, "all", |a, b| {
        let counters = a.faces.status(face).unwrap().counters.reliability;
        b.received.len() == 80 && counters.acknowledged == 280
    });
    let counters = a.faces.status(face).unwrap().counters;
    assert_eq!((counters.reliability.retransmitted, counters.reliability.given_up), (0, 0));
    let back = b.created()[0];
    assert!(b.faces.status(back).unwrap().flags.contains(FaceFlags::RELIABILITY));
    // After the timers set before the acknowledgements, neither end wakes up again, except for idle
    // timers.
    for host in [&mut a, &mut b] {
        host.skipped_ms += 120_000;
        host.turn(0);
    }
    assert!(
        a.faces.deadline().is_none() && b.faces.deadline() > Some(Timestamp::from_millis(500_000))
    );
    // Off again: packets without link header.
    let now = a.now();
    let off = FaceOptions { flags_mask: FaceFlags::RELIABILITY, ..FaceOptions::default() };
    a.faces.update(now, face, &off).unwrap();
    a.send(face, Kind::Interest, &interest("x"));
    both(&mut a, &mut b, "one more", |_, b| b.received.len() == 81);
    assert_eq!(a.faces.status(face).unwrap().counters.reliability, counters.reliability);
    a.check_pool();
    b.check_pool();
}

#[test]
fn unacknowledged_packet_is_sent_four_times_and_counted() {
    let (mut host, _) = udp_host(FacesConfig::default());
    let peer = peer();
    let face = connect(&mut host, &FaceUri::Udp(peer.local_addr().unwrap()), &RELIABLE);
    host.send(face, Kind::Interest, &interest("a"));
    let mut seen = Vec::new();
    for _ in 0..4 {
        host.turn(0);
        let mut buffer = [0; 2000];
        let len = peer.recv(&mut buffer).unwrap();
        let lp = LpPacket::check(&buffer[..len]).unwrap();
        assert_eq!(lp.fragment, Some(&interest("a")[..]));
        seen.push((lp.sequence.unwrap(), lp.tx_sequence.unwrap()));
        host.skipped_ms += 1000;
    }
    host.turn(0);
    assert!(
        seen.windows(2).all(|pair| pair[0].0 == pair[1].0 && pair[0].1 + 1 == pair[1].1),
        "{seen:?}"
    );
    let counters = host.faces.status(face).unwrap().counters;
    assert_eq!(
        (counters.dropped(DropCause::RetransmissionsSpent), counters.reliability.given_up),
        (1, 1)
    );
    assert_eq!((counters.out_interests, counters.out_packets, host.faces.deadline()), (1, 4, None));
}

#[test]
fn idle_packet_acknowledges_and_duplicate_is_dropped() {
    let (mut host, bound) = udp_host(FacesConfig::default());
    let peer = peer();
    let to = FaceUri::Udp(peer.local_addr().unwrap());
    let face = connect(&mut host, &to, &RELIABLE);
    let packet = interest("a");
    for tx_sequence in [5, 1 << 63] {
        let mut bytes = Vec::new();
        let header =
            LpHeader { sequence: Some(9), tx_sequence: Some(tx_sequence), ..LpHeader::default() };
        header.encode(packet.len(), &mut bytes);
        bytes.extend_from_slice(&packet);
        peer.send_to(&bytes, bound).unwrap();
    }
    host.until("both", |host| host.faces.status(face).unwrap().counters.in_packets == 2);
    assert_eq!(host.received.len(), 1);
    assert_eq!(host.faces.drops().total(DropCause::DuplicateSequence), 1);
    host.until("its time", |host| host.faces.status(face).unwrap().counters.out_packets == 1);
    let mut buffer = [0; 2000];
    let len = peer.recv(&mut buffer).unwrap();
    let lp = LpPacket::check(&buffer[..len]).unwrap();
    assert_eq!((lp.fragment, lp.acks().collect::<Vec<_>>()), (None, vec![5, 1 << 63]));
}

#[test]
fn paced_burst_loses_nothing() {
    let config = FacesConfig {
        burst_bytes_max: 64 << 10,
        burst_pause: Duration::from_millis(5),
        ..FacesConfig::default()
    };
    let (mut host, _) = udp_host(config);
    let peer = peer();
    let face =
        connect(&mut host, &FaceUri::Udp(peer.local_addr().unwrap()), &FaceOptions::default());
    // More at once than the default receive buffer holds.
    for at in 0..100 {
        host.send(face, Kind::Data, &data(&format!("{at:02}"), 8000));
    }
    let mut buffer = [0; 9000];
    let (mut got, mut turns) = (0, 0);
    peer.set_nonblocking(true).unwrap();
    let end = std::time::Instant::now() + Duration::from_secs(10);
    while got < 100 {
        assert!(std::time::Instant::now() < end, "{got} came");
        host.turn(1);
        let before = got;
        while let Ok(len) = peer.recv(&mut buffer) {
            assert_eq!(buffer[..len], data(&format!("{got:02}"), 8000)[..], "in order");
            got += 1;
        }
        assert!(got - before <= 16, "a turn, or two, of 8 packets: {}", got - before);
        turns += usize::from(got > before);
    }
    assert!(turns >= 7, "{turns}");
    let status = host.faces.status(face).unwrap();
    assert_eq!((status.queue_bytes, status.counters.out_data), (0, 100));
    assert_eq!(host.faces.drops().iter().map(|(_, n)| n).sum::<u64>(), 0);
}

#[test]
fn advertised_receive_window_allows_larger_bursts() {
    // An hour between bursts, so that later bursts are not sent in this test.
    let pause = Duration::from_secs(3600);
    let config =
        FacesConfig { burst_bytes_max: 16 << 10, burst_pause: pause, ..FacesConfig::default() };
    let (mut host, address) = udp_host(config);
    for (peer_window_kib, expected) in
        [(None, 2), (Some(1), 2), (Some(64), 4), (Some(u64::MAX), 10)]
    {
        let peer = peer();
        let mut asks = Vec::new();
        LpHeader { receive_window_kib: peer_window_kib, ..LpHeader::default() }
            .encode(interest("asks").len(), &mut asks);
        asks.extend_from_slice(&interest("asks"));
        peer.send_to(&asks, address).unwrap();
        let before = host.received.len();
        host.until("an Interest", |host| host.received.len() == before + 1);
        let face = *host.created().last().unwrap();
        for at in 0..10 {
            host.send(face, Kind::Data, &data(&format!("{at}"), 7900));
        }
        host.turn(0);
        peer.set_nonblocking(true).unwrap();
        let mut buffer = [0; 9000];
        let arrived = core::iter::from_fn(|| peer.recv(&mut buffer).ok()).count();
        assert_eq!(arrived, expected, "{peer_window_kib:?} KiB");
    }
}

#[test]
fn interests_advertise_receive_window() {
    let (mut host, _) = udp_host(FacesConfig::default());
    let granted_kib = host.faces.listeners()[0].udp.unwrap().granted as u64 >> 10;
    let peer = peer();
    let face =
        connect(&mut host, &FaceUri::Udp(peer.local_addr().unwrap()), &FaceOptions::default());
    let mut told = |kind, bytes: &[u8], wait_ms| {
        host.skipped_ms += wait_ms;
        host.send(face, kind, bytes);
        host.turn(0);
        let mut buffer = [0; 100];
        let len = peer.recv(&mut buffer).unwrap();
        LpPacket::check(&buffer[..len]).unwrap().receive_window_kib
    };
    assert_eq!(told(Kind::Data, &data("a", 1), 0), None);
    assert_eq!(told(Kind::Interest, &interest("a"), 0), Some(granted_kib));
    assert_eq!(told(Kind::Interest, &interest("b"), 0), None);
    assert_eq!(told(Kind::Interest, &interest("c"), 300), Some(granted_kib));
}

#[test]
fn paced_queue_is_bounded_and_dropped_with_its_face() {
    let config = FacesConfig {
        burst_bytes_max: 64 << 10,
        queue_bytes_max: 200_000,
        ..FacesConfig::default()
    };
    let (mut host, _) = udp_host(config);
    let peer = peer();
    let face =
        connect(&mut host, &FaceUri::Udp(peer.local_addr().unwrap()), &FaceOptions::default());
    for at in 0..100 {
        host.send(face, Kind::Data, &data(&format!("{at}"), 8000));
    }
    host.faces.flush(&mut host.pool);
    let status = host.faces.status(face).unwrap();
    assert!((180_000..=200_000).contains(&status.queue_bytes), "{}", status.queue_bytes);
    let full = status.counters.dropped(DropCause::FaceQueueFull);
    assert!((60..90).contains(&full), "{full}");
    assert_eq!(status.counters.out_data + full, 100);
    assert!(host.faces.close(face, &mut host.pool));
    assert!(host.faces.drops().total(DropCause::FaceGone) > 10);
    assert_eq!(host.faces.deadline(), None);
}

fn ups_and_downs(host: &Host) -> String {
    let word = |event: &FaceEvent| match event {
        FaceEvent::Created(_) => 'c',
        FaceEvent::Up(_) => 'u',
        FaceEvent::Down(_) => 'd',
        FaceEvent::Destroyed(..) => 'x',
    };
    host.events.iter().map(word).collect()
}

#[test]
fn permanent_tcp_face_reconnects_with_id_and_counters() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let mut host = Host::new(FacesConfig::default());
    let face = connect(&mut host, &FaceUri::Tcp(address), &PERMANENT);
    host.until("up", |host| host.faces.status(face).unwrap().up);
    let (mut peer, _) = listener.accept().unwrap();
    host.send(face, Kind::Interest, &interest("a"));
    host.turn(0);
    let mut buffer = [0; 100];
    assert_eq!(peer.read(&mut buffer).unwrap(), interest("a").len());
    drop((peer, listener));
    host.until("down", |host| !host.faces.status(face).unwrap().up);
    // Packets sent meanwhile are dropped and counted.
    host.send(face, Kind::Interest, &interest("b"));
    assert_eq!(host.faces.status(face).unwrap().counters.dropped(DropCause::FaceDown), 1);
    // No listener: further attempts, each later.
    let mut wait = Duration::ZERO;
    for _ in 0..4 {
        wait = host.faces.deadline().unwrap().since(host.now());
        host.skipped_ms += wait.as_millis() as u64 + 1;
        host.turn(0);
        // An attempt refused in the background fails at once.
        host.turn(1);
        host.until("another attempt is to come", |host| host.faces.deadline() > Some(host.now()));
    }
    assert!(wait > Duration::from_secs(3), "{wait:?}");
    let wait = host.faces.deadline().unwrap().since(host.now());
    let listener = TcpListener::bind(address).unwrap();
    host.skipped_ms += wait.as_millis() as u64 + 1;
    host.until("up again", |host| host.faces.status(face).unwrap().up);
    let (mut peer, _) = listener.accept().unwrap();
    peer.write_all(&interest("c")).unwrap();
    host.until("heard", |host| host.received.len() == 1);
    assert_eq!((host.received[0].0, host.faces.deadline()), (face, None));
    host.send(face, Kind::Interest, &interest("d"));
    host.turn(0);
    let counters = host.faces.status(face).unwrap().counters;
    assert_eq!(
        (counters.out_interests, counters.out_interests_dropped, counters.in_interests),
        (2, 1, 1)
    );
    assert_eq!(ups_and_downs(&host).replace("cdu", "cu"), "cudu");
    // No longer permanent, it is closed like others.
    let now = host.now();
    let persistent =
        FaceOptions { persistency: Some(Persistency::Persistent), ..FaceOptions::default() };
    host.faces.update(now, face, &persistent).unwrap();
    drop(peer);
    host.until("the end", |host| host.destroyed() == [face]);
    assert_eq!(host.faces.deadline(), None);
}

#[test]
fn permanent_unix_face_reconnects_unless_never_up() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("peer.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let mut host = Host::new(FacesConfig::default());
    let uri = FaceUri::Unix(path.clone());
    let face = connect(&mut host, &uri, &PERMANENT);
    drop(listener.accept().unwrap());
    drop(listener);
    host.until("down", |host| !host.faces.status(face).unwrap().up);
    std::fs::remove_file(&path).unwrap();
    host.skipped_ms += 2000;
    host.turn(0);
    let listener = UnixListener::bind(&path).unwrap();
    host.skipped_ms += 4000;
    host.until("up", |host| host.faces.status(face).unwrap().up);
    listener.accept().unwrap();
    // A face that is down is closed by command.
    drop(listener);
    host.until("down", |host| !host.faces.status(face).unwrap().up);
    assert!(host.faces.close(face, &mut host.pool));
    host.turn(0);
    assert_eq!((host.faces.deadline(), ups_and_downs(&host)), (None, "cdudx".to_owned()));

    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let now = host.now();
    if let Ok(never) = host.faces.connect(now, &FaceUri::Tcp(free), None, &PERMANENT) {
        host.until("refused", |host| host.destroyed().contains(&never));
    }
    assert!(host.faces.is_empty());
}

#[test]
fn persistency_follows_the_rules() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ours.sock");
    let mut host = Host::new(FacesConfig::default());
    host.faces.listen_unix(&path, 0o666).unwrap();
    let tcp = host.faces.listen_tcp("127.0.0.1:0".parse().unwrap()).unwrap();
    let udp = host.faces.listen_udp("127.0.0.1:0".parse().unwrap()).unwrap();
    let out_unix = connect(&mut host, &FaceUri::Unix(path), &FaceOptions::default());
    host.until("in", |host| host.created().len() == 2);
    let out_tcp = connect(&mut host, &FaceUri::Tcp(tcp), &FaceOptions::default());
    host.until("in", |host| host.created().len() == 4);
    let (in_unix, in_tcp) = (host.created()[1], host.created()[3]);
    let client = peer();
    client.send_to(&interest("a"), udp).unwrap();
    host.until("in", |host| host.created().len() == 5);
    let in_udp = host.created()[4];
    use Persistency::{OnDemand, Permanent, Persistent};
    let cases = [
        (out_unix, [true, false, true]),
        (in_unix, [false, true, false]),
        (out_tcp, [true, true, true]),
        (in_tcp, [true, true, false]),
        (in_udp, [true, true, true]),
    ];
    for (face, may) in cases {
        for (persistency, may) in [Persistent, OnDemand, Permanent].into_iter().zip(may) {
            let now = host.now();
            let update = FaceOptions { persistency: Some(persistency), ..FaceOptions::default() };
            let done = host.faces.update(now, face, &update);
            assert_eq!(done.is_ok(), may, "{face:?} {persistency:?}");
            assert!(may || matches!(done, Err(FaceError::Persistency(_))));
        }
    }
    // A permanent UDP face survives its peer's port, and silence.
    drop(client);
    for _ in 0..5 {
        host.send(in_udp, Kind::Data, &data("a", 10));
        host.turn(1);
    }
    host.skipped_ms += 3_600_000;
    host.turn(0);
    let status = host.faces.status(in_udp).unwrap();
    assert!(
        status.up && status.expiry.is_none() && status.counters.dropped(DropCause::SendFailed) >= 1
    );
    let ended =
        |event: &FaceEvent| matches!(event, FaceEvent::Destroyed(_, CloseReason::Socket(_)));
    assert!(!host.events.iter().any(ended));
}

#[test]
fn kernel_queue_of_tcp_counts_for_congestion() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut host = Host::new(FacesConfig::default());
    let face =
        connect(&mut host, &FaceUri::Tcp(listener.local_addr().unwrap()), &FaceOptions::default());
    host.until("up", |host| host.faces.status(face).unwrap().up);
    let (peer, _) = listener.accept().unwrap();
    // The peer does not read. All bytes are in the kernel, which has sent what the peer's window
    // permits.
    for _ in 0..40 {
        host.send(face, Kind::Data, &data("a", 8000));
    }
    host.turn(5);
    assert_eq!(host.faces.status(face).unwrap().queue_bytes, 0);
    for marks in [0, 1] {
        host.send(face, Kind::Data, &data("a", 10));
        host.turn(0);
        assert_eq!(host.faces.status(face).unwrap().counters.out_marks, marks);
        host.skipped_ms += 101;
    }
    drop(peer);
}
