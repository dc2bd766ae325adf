//! UDP faces over real sockets.

use crate::common::{Host, data, interest};
use nw_element_api::{DropCause, DropReason, Kind};
use nw_faces::{
    CloseReason, FaceError, FaceEvent, FaceFlags, FaceId, FaceOptions, FaceUri, FacesConfig,
    Persistency, Scope,
};
use nw_wire::{Fault, LpPacket};
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

fn udp_host(config: FacesConfig, address: &str) -> (Host, SocketAddr) {
    let mut host = Host::new(config);
    let bound = host.faces.listen_udp(address.parse().unwrap()).unwrap();
    (host, bound)
}

fn socket(to: SocketAddr) -> UdpSocket {
    let address = if to.is_ipv4() { "127.0.0.1:0" } else { "[::1]:0" };
    let socket = UdpSocket::bind(address).unwrap();
    socket.connect(to).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    socket
}

fn connect(host: &mut Host, to: SocketAddr) -> FaceId {
    let now = host.now();
    host.faces.connect(now, &FaceUri::Udp(to), None, &FaceOptions::default()).unwrap()
}

#[test]
fn first_burst_of_new_peer_is_received() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let (mut host, bound) = udp_host(FacesConfig::default(), address);
        let client = socket(bound);
        // A hundred at once, or fewer if the limit on buffers of unprivileged users is too small.
        let granted = host.faces.listeners()[0].udp.unwrap().granted;
        let burst = (granted / 20_000).clamp(1, 100);
        for at in 0..100 {
            client.send(&data(&format!("{at}"), 8000)).unwrap();
            if (at + 1) % burst == 0 {
                host.until("a burst", |host| host.received.len() == at + 1);
            }
        }
        host.until("all", |host| host.received.len() == 100);
        let id = host.created()[0];
        assert_eq!(host.created().len(), 1);
        for (at, (face, kind, bytes)) in host.received.iter().enumerate() {
            assert!(
                *face == id && *kind == Kind::Data && *bytes == data(&format!("{at}"), 8000),
                "packet {at}"
            );
        }
        let status = host.faces.status(id).unwrap();
        assert_eq!(status.uri, FaceUri::Udp(client.local_addr().unwrap()));
        assert_eq!((status.local_uri, status.scope), (FaceUri::Udp(bound), Scope::NonLocal));
        assert_eq!((status.persistency, status.mtu), (Persistency::OnDemand, Some(8800)));
        assert_eq!(host.faces.listeners()[0].udp.unwrap().overflows, 0);
        host.check_pool();
        assert_eq!(host.pool.chunks_in_use(), 0);

        host.send(id, Kind::Data, &data("answer", 8000));
        host.turn(0);
        let mut answer = [0; 9000];
        let len = client.recv(&mut answer).unwrap();
        assert_eq!(answer[..len], data("answer", 8000));
    }
}

#[test]
fn bursts_between_two_routers_arrive_in_both_directions() {
    let config = FacesConfig { burst_bytes_max: usize::MAX, ..FacesConfig::default() };
    let (mut a, _) = udp_host(config, "127.0.0.1:0");
    let (mut b, b_address) = udp_host(FacesConfig::default(), "127.0.0.1:0");
    let face = connect(&mut a, b_address);
    // Runs of equal length, runs with a shorter last datagram, growing ones, tiny ones.
    let lens = |at: usize| [8000, 8000, 8000, 100, 100, 3000, 40, 41, 42, 8000][at % 10];
    for round in 0..20 {
        for at in 0..100 {
            a.send(face, Kind::Data, &data(&format!("{round}/{at}"), lens(at)));
        }
        a.turn(0);
        b.until("all", |host| host.received.len() == 100);
        for (at, (_, _, bytes)) in b.received.drain(..).enumerate() {
            assert!(
                bytes == data(&format!("{round}/{at}"), lens(at)),
                "packet {at} of round {round}"
            );
        }
    }
    assert_eq!(b.created().len(), 1);
    let back = b.created()[0];
    assert_eq!(b.faces.status(back).unwrap().uri, a.faces.status(face).unwrap().local_uri);
    for at in 0..300 {
        b.send(back, Kind::Interest, &interest(&format!("{at:03}")));
    }
    b.turn(0);
    a.until("all", |host| host.received.len() == 300);
    assert!(a.received.iter().all(|(id, kind, _)| *id == face && *kind == Kind::Interest));
    let (out, inn) =
        (b.faces.status(back).unwrap().counters, a.faces.status(face).unwrap().counters);
    assert_eq!((out.out_interests, out.out_bytes), (inn.in_interests, inn.in_bytes));
    assert_eq!(
        (
            a.faces.drops().iter().map(|(_, n)| n).sum::<u64>(),
            b.faces.drops().iter().map(|(_, n)| n).sum()
        ),
        (0, 0)
    );
}

#[test]
fn many_peers_are_served_in_one_iteration() {
    let (mut host, bound) = udp_host(FacesConfig::default(), "127.0.0.1:0");
    let clients: Vec<_> = (0..150).map(|_| socket(bound)).collect();
    for (at, client) in clients.iter().enumerate() {
        client.send(&interest(&format!("{at}"))).unwrap();
    }
    host.until("all", |host| host.received.len() == 150);
    assert_eq!(host.created().len(), 150);
    for (id, _, bytes) in core::mem::take(&mut host.received) {
        for copy in 0..3 {
            host.send(id, Kind::Data, &data(&format!("{copy}"), bytes.len() * 10));
        }
    }
    host.turn(0);
    for (at, client) in clients.iter().enumerate() {
        for copy in 0..3 {
            let mut answer = [0; 9000];
            let len = client.recv(&mut answer).unwrap();
            assert_eq!(
                answer[..len],
                data(&format!("{copy}"), interest(&format!("{at}")).len() * 10)
            );
        }
    }
}

#[test]
fn truncated_datagram_does_not_affect_the_next() {
    let (mut host, bound) = udp_host(FacesConfig::default(), "127.0.0.1:0");
    let client = socket(bound);
    client.send(&interest("first")).unwrap();
    client.send(&data("torn", 500)[..200]).unwrap();
    client.send(&[]).unwrap();
    client.send(&[6, 255, 255, 255, 255, 255, 255, 255, 255, 255]).unwrap();
    // Longer than the longest packet.
    client.send(&data("huge", 20_000)).unwrap();
    let mut two = interest("one");
    two.extend(interest("two"));
    client.send(&two).unwrap();
    client.send(&interest("next")).unwrap();
    host.until("both", |host| host.received.len() == 2);
    assert_eq!(host.received[1].2, interest("next"));
    let drops = host.faces.status(host.created()[0]).unwrap().counters;
    assert_eq!(drops.dropped(DropReason::Malformed(Fault::Truncated)), 3);
    assert_eq!(drops.dropped(DropReason::Malformed(Fault::TooLong)), 1);
    assert_eq!(drops.dropped(DropReason::Malformed(Fault::Trailing)), 1);
    assert!(host.destroyed().is_empty());
}

#[test]
fn new_peers_are_evicted_first_and_noise_gets_no_face() {
    let config = FacesConfig { peers_max: 3, ..FacesConfig::default() };
    let (mut host, bound) = udp_host(config, "127.0.0.1:0");
    let clients: Vec<_> = (0..40).map(|_| socket(bound)).collect();
    clients[0].send(b"hello?").unwrap();
    for client in &clients {
        client.send(&interest("a")).unwrap();
    }
    // Each sent one packet, so each is evicted for the next: no peer is refused.
    host.until("heard", |host| host.received.len() == 40);
    assert_eq!((host.faces.len(), host.faces.listeners()[0].refused), (3, 0));
    assert_eq!(host.destroyed().len(), 37);
    assert_eq!(host.faces.listeners()[0].udp.unwrap().unattributed, 1);
}

/// Forged sources bring a face each, which takes long: others get their turn in between.
#[test]
fn new_peers_of_one_turn_are_few() {
    let (mut host, bound) = udp_host(FacesConfig::default(), "127.0.0.1:0");
    let clients: Vec<_> = (0..64).map(|_| socket(bound)).collect();
    clients.iter().for_each(|client| assert!(client.send(&interest("a")).is_ok()));
    host.turn(1000);
    let first = host.created().len();
    assert!((4..=16).contains(&first), "{first} faces");
    // Now the socket is known to be flooded.
    host.turn(1000);
    let second = host.created().len() - first;
    assert!((1..=4).contains(&second), "{second} faces");
    host.until("heard", |host| host.received.len() == 64);
    assert_eq!(host.created().len(), 64);
}

#[test]
fn active_peers_are_not_evicted_for_new_ones() {
    let config = FacesConfig { peers_max: 3, ..FacesConfig::default() };
    let (mut host, bound) = udp_host(config, "127.0.0.1:0");
    let clients: Vec<_> = (0..5).map(|_| socket(bound)).collect();
    for name in ["a", "b"] {
        clients[..3].iter().for_each(|client| assert!(client.send(&interest(name)).is_ok()));
    }
    host.until("heard", |host| host.received.len() == 6);
    clients[3..].iter().for_each(|client| assert!(client.send(&interest("c")).is_ok()));
    host.until("refused", |host| host.faces.listeners()[0].refused == 2);
    assert_eq!((host.faces.len(), host.received.len()), (3, 6));
    assert_eq!(host.faces.drops().total(DropCause::PeersFull), 2);
    assert!(host.destroyed().is_empty());
}

#[test]
fn fragments_cross_a_small_mtu() {
    let config = FacesConfig { burst_bytes_max: usize::MAX, ..FacesConfig::default() };
    let (mut a, _) = udp_host(config, "127.0.0.1:0");
    let (mut b, b_address) = udp_host(FacesConfig::default(), "127.0.0.1:0");
    let now = a.now();
    let options = FaceOptions { mtu: Some(1400), ..FaceOptions::default() };
    let face = a.faces.connect(now, &FaceUri::Udp(b_address), None, &options).unwrap();
    for at in 0..50 {
        a.send(face, Kind::Data, &data(&format!("{at}"), 8000));
    }
    a.turn(0);
    b.until("all", |host| host.received.len() == 50);
    let status = b.faces.status(b.created()[0]).unwrap();
    assert_eq!((status.counters.in_packets, status.counters.in_data), (300, 50));
    assert_eq!((b.faces.reassembly_bytes(), b.pool.packets_in_use()), (0, 0));

    // An incomplete packet is dropped by the timer.
    let client = socket(b_address);
    let mut piece =
        vec![0x64, 19, 0x51, 8, 0, 0, 0, 0, 0, 0, 0, 9, 0x53, 1, 2, 0x50, 4, 6, 1, 2, 3];
    assert!(LpPacket::check(&piece).unwrap().is_fragmented());
    client.send(&piece).unwrap();
    b.until("a piece", |host| host.faces.reassembly_bytes() > 0);
    assert!(b.faces.deadline().is_some());
    for step_ms in [400, 100] {
        b.skipped_ms += step_ms;
        b.turn(0);
    }
    assert_eq!(
        (b.faces.reassembly_bytes(), b.faces.drops().total(DropCause::ReassemblyTimeout)),
        (0, 1)
    );
    piece[11] = 10;
    client.send(&piece).unwrap();
    b.until("another", |host| host.faces.reassembly_bytes() > 0);
    let id = b.created()[1];
    assert!(b.faces.close(id, &mut b.pool));
    assert_eq!(b.faces.reassembly_bytes(), 0);
}

#[test]
fn idle_on_demand_face_is_closed_and_active_one_is_not() {
    let (mut host, bound) = udp_host(FacesConfig::default(), "127.0.0.1:0");
    let (idle, busy) = (socket(bound), socket(bound));
    idle.send(&interest("a")).unwrap();
    busy.send(&interest("a")).unwrap();
    host.until("both", |host| host.received.len() == 2);
    let of = |host: &Host, socket: &UdpSocket| {
        host.faces.find(&FaceUri::Udp(socket.local_addr().unwrap()))
    };
    let (idle_face, busy_face) = (of(&host, &idle).unwrap(), of(&host, &busy).unwrap());
    assert!(host.faces.status(idle_face).unwrap().expiry.is_some());
    host.skipped_ms += 599_000;
    busy.send(&interest("b")).unwrap();
    host.until("the busy one", |host| host.received.len() == 3);
    assert!(host.destroyed().is_empty());
    host.skipped_ms += 2_000;
    host.turn(0);
    assert_eq!(host.destroyed(), [idle_face]);
    assert!(matches!(host.events.last(), Some(FaceEvent::Destroyed(_, CloseReason::Idle))));
    // Persistent, it stays; on demand again, it is closed.
    let (now, update) = (host.now(), |persistency| FaceOptions {
        persistency: Some(persistency),
        ..FaceOptions::default()
    });
    host.faces.update(now, busy_face, &update(Persistency::Persistent)).unwrap();
    host.skipped_ms += 6_000_000;
    host.turn(0);
    assert_eq!((host.faces.len(), host.faces.deadline()), (1, None));
    let now = host.now();
    host.faces.update(now, busy_face, &update(Persistency::OnDemand)).unwrap();
    host.skipped_ms += 600_000;
    host.turn(0);
    assert_eq!((host.faces.len(), host.faces.deadline()), (0, None));
    // It sends again: another face.
    idle.send(&interest("a")).unwrap();
    host.until("again", |host| host.faces.len() == 1);
    assert_ne!(of(&host, &idle), Some(idle_face));
}

#[test]
fn unreachable_peer_closes_on_demand_face_only() {
    let (mut host, bound) = udp_host(FacesConfig::default(), "127.0.0.1:0");
    let client = socket(bound);
    let gone = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    client.send(&interest("a")).unwrap();
    host.until("heard", |host| host.received.len() == 1);
    let (on_demand, persistent) = (host.received[0].0, connect(&mut host, gone));
    drop(client);
    for _ in 0..5 {
        if host.faces.status(on_demand).is_some() {
            host.send(on_demand, Kind::Data, &data("a", 10));
        }
        host.send(persistent, Kind::Data, &data("a", 10));
        host.turn(1);
    }
    host.until("the end", |host| host.destroyed() == [on_demand]);
    let counters = host.faces.status(persistent).unwrap().counters;
    assert!(counters.dropped(DropCause::SendFailed) >= 1);
    // The socket still works, and the loop does not spin.
    let other = socket(bound);
    other.send(&interest("b")).unwrap();
    host.until("others", |host| host.received.len() == 2);
    while host.turn(20) > 0 {}
    assert_eq!(host.turn(0), 0);
}

#[test]
fn outgoing_faces_share_the_listener_socket() {
    let (mut host, bound) = udp_host(FacesConfig::default(), "127.0.0.1:0");
    let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
    peer.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let to = peer.local_addr().unwrap();
    let face = connect(&mut host, to);
    let now = host.now();
    assert!(matches!(
        host.faces.connect(now, &FaceUri::Udp(to), None, &FaceOptions::default()),
        Err(FaceError::Exists(id)) if id == face
    ));
    host.send(face, Kind::Interest, &interest("a"));
    host.turn(0);
    let mut bytes = [0; 100];
    assert_eq!(peer.recv_from(&mut bytes).unwrap().1, bound);

    // Without a listener, a socket is opened, shared, and closed with its last face.
    let mut client = Host::new(FacesConfig::default());
    let (first, second) = (connect(&mut client, bound), connect(&mut client, to));
    let local = |host: &Host, id| host.faces.status(id).unwrap().local_uri;
    assert_eq!(local(&client, first), local(&client, second));
    assert!(client.faces.listeners().is_empty());
    client.send(first, Kind::Interest, &interest("b"));
    client.turn(0);
    host.until("heard", |host| host.received.len() == 1);
    client.faces.close(first, &mut client.pool);
    client.faces.close(second, &mut client.pool);
    let third = connect(&mut client, bound);
    client.send(third, Kind::Interest, &interest("c"));
    client.turn(0);
    host.until("heard again", |host| host.received.len() == 2);
}

#[test]
fn options_and_updates_apply_or_are_refused() {
    let config = FacesConfig { loopback_udp_local: true, ..FacesConfig::default() };
    let (mut host, _) = udp_host(config, "127.0.0.1:0");
    let (now, to) = (host.now(), "udp4://127.0.0.1:9".parse().unwrap());
    let flags = |flags| FaceOptions { flags, flags_mask: flags, ..FaceOptions::default() };
    let on_demand =
        FaceOptions { persistency: Some(Persistency::OnDemand), ..FaceOptions::default() };
    assert!(matches!(
        host.faces.connect(now, &to, None, &on_demand),
        Err(FaceError::Persistency(_))
    ));
    let face = host.faces.connect(now, &to, None, &flags(FaceFlags::LOCAL_FIELDS)).unwrap();
    let status = host.faces.status(face).unwrap();
    assert_eq!((status.scope, status.flags), (Scope::Local, FaceFlags(5)));
    assert_eq!(
        (status.marking_interval, status.marking_threshold),
        (Duration::from_millis(100), 65_536)
    );
    let update =
        FaceOptions { mtu: Some(1400), marking_threshold: Some(1000), ..FaceOptions::default() };
    host.faces.update(now, face, &update).unwrap();
    let status = host.faces.status(face).unwrap();
    assert_eq!(
        (status.mtu, status.marking_threshold, status.flags),
        (Some(1400), 1000, FaceFlags(5))
    );
    assert!(
        host.faces
            .update(now, face, &FaceOptions { mtu: Some(1), ..FaceOptions::default() })
            .is_err()
    );
    assert!(matches!(host.faces.update(now, FaceId::NULL, &update), Err(FaceError::Unknown(_))));
}

#[test]
fn kernel_losses_are_counted_and_full_receive_buffer_marks() {
    let config = FacesConfig { udp_receive_buffer: 1 << 20, ..FacesConfig::default() };
    let (mut host, bound) = udp_host(config, "127.0.0.1:0");
    let client = socket(bound);
    for _ in 0..400 {
        client.send(&data("a", 8000)).unwrap();
    }
    while host.turn(20) > 0 {}
    let buffer = host.faces.listeners()[0].udp.unwrap();
    assert_eq!((buffer.requested, buffer.advice().is_some()), (1 << 20, buffer.granted < 1 << 20));
    assert!(buffer.overflows > 0);
    assert_eq!(host.received.len() as u64 + buffer.overflows, 400);
    // From the moment the queue is long until it is short.
    assert!(
        host.marked > 0 && host.marked < host.received.len(),
        "{} of {}",
        host.marked,
        host.received.len()
    );
    let marked = host.marked;
    client.send(&data("a", 8000)).unwrap();
    host.until("one more", |host| host.received.len() as u64 + buffer.overflows == 401);
    assert_eq!(host.marked, marked);
}

#[test]
fn small_pool_slows_reception_and_loses_nothing() {
    let (mut host, bound) = udp_host(FacesConfig::default(), "127.0.0.1:0");
    let client = socket(bound);
    let mut taken: Vec<_> = core::iter::from_fn(|| host.pool.take_chunk()).collect();
    for at in 0..50 {
        client.send(&data(&format!("{at}"), 8000)).unwrap();
    }
    host.turn(1);
    assert!(host.received.is_empty());
    host.pool.release_chunk(taken.pop().unwrap());
    host.until("all", |host| host.received.len() == 50);
    assert!(
        host.received
            .iter()
            .enumerate()
            .all(|(at, (_, _, bytes))| *bytes == data(&format!("{at}"), 8000))
    );
    taken.into_iter().for_each(|chunk| host.pool.release_chunk(chunk));
}
