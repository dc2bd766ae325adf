//! Admission to a small pool of faces: peers over IP get at most half, programs of this machine the
//! other half, and refusals are counted.

use crate::common::{Host, interest};
use nw_element_api::SharedPool;
use nw_faces::{CloseReason, FaceError, FaceEvent, FaceOptions, FaceUri, FacesConfig};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

const MAX: usize = 16;
const RESERVE: usize = MAX / 8;

fn host() -> (Host, PathBuf, SocketAddr, SocketAddr, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("nfd.sock");
    let mut host = Host::new(FacesConfig { faces_max: MAX, ..FacesConfig::default() });
    host.faces.listen_unix(&path, 0o666).unwrap();
    let any = "127.0.0.1:0".parse().unwrap();
    let (tcp, udp) = (host.faces.listen_tcp(any).unwrap(), host.faces.listen_udp(any).unwrap());
    (host, path, tcp, udp, directory)
}

fn shortages(host: &Host) -> u64 {
    host.faces.drops().shortages.count(SharedPool::Faces)
}

/// Checks that an Interest arrives on a connection.
#[track_caller]
fn is_served(host: &mut Host, mut client: impl Write, name: &str) {
    client.write_all(&interest(name)).unwrap();
    let wanted = interest(name);
    host.until("served", |host| host.received.iter().any(|(.., bytes)| *bytes == wanted));
}

#[test]
fn peers_over_ip_leave_half_to_programs() {
    let (mut host, path, tcp, udp, _directory) = host();
    let senders: Vec<UdpSocket> = (0..3 * MAX)
        .map(|_| {
            let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
            (0..3).for_each(|_| assert!(sender.send_to(&interest("u"), udp).is_ok()));
            sender
        })
        .collect();
    host.until("heard", |host| host.faces.listeners()[2].refused > 0);
    let mut connections: Vec<TcpStream> =
        (0..3 * MAX).map(|_| TcpStream::connect(tcp).unwrap()).collect();
    for _ in 0..20 {
        host.turn(1);
    }
    // Connections and datagrams of one address come to equal shares.
    assert_eq!(host.faces.len(), MAX / 2);
    let by_tcp = host
        .faces
        .ids()
        .filter(|id| matches!(host.faces.status(*id).unwrap().uri, FaceUri::Tcp(_)));
    assert_eq!(by_tcp.count(), MAX / 4);
    let refused = connections.iter_mut().filter_map(|client| {
        client.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        matches!(client.read(&mut [0]), Ok(0)).then_some(())
    });
    assert_eq!(refused.count(), 3 * MAX - MAX / 4, "what is refused is closed at once");
    assert!(shortages(&host) >= 4 * MAX as u64);
    let programs: Vec<UnixStream> =
        (0..MAX / 2).map(|_| UnixStream::connect(&path).unwrap()).collect();
    for (at, client) in programs.iter().enumerate() {
        is_served(&mut host, client, &format!("program {at}"));
    }
    assert_eq!(host.faces.len(), MAX);
    drop(senders);
}

/// Programs that have more than half lose the faces beyond it to new network peers, and to no one
/// else.
#[test]
fn programs_with_more_than_half_are_evicted() {
    let (mut host, path, tcp, udp, _directory) = host();
    let programs: Vec<UnixStream> = (0..MAX).map(|_| UnixStream::connect(&path).unwrap()).collect();
    for (at, client) in programs.iter().enumerate() {
        is_served(&mut host, client, &format!("program {at}"));
    }
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    sender.send_to(&interest("u"), udp).unwrap();
    host.until("heard", |host| host.received.last().unwrap().2 == interest("u"));
    is_served(&mut host, TcpStream::connect(tcp).unwrap(), "t");
    let gave_way = host
        .events
        .iter()
        .filter(|event| matches!(event, FaceEvent::Destroyed(_, CloseReason::Evicted)));
    assert!((1..=4).contains(&gave_way.count()));
    assert!(host.faces.len() <= MAX);
    // A program that holds most gets no more, and faces in use stay.
    let _more = UnixStream::connect(&path).unwrap();
    host.turn(10);
    let before = host.destroyed().len();
    for _ in 0..5 {
        host.turn(1);
    }
    assert!(host.destroyed().len() <= before + 1);
    assert!(shortages(&host) > 0);
}

#[test]
fn faces_by_command_leave_a_reserve() {
    let (mut host, path, _tcp, _udp, _directory) = host();
    let now = host.now();
    let mut made = 0;
    let error = (1..=MAX as u16).find_map(|port| {
        let uri = FaceUri::Udp(SocketAddr::from(([192, 0, 2, 1], port)));
        let result = host.faces.connect(now, &uri, None, &FaceOptions::default());
        made += usize::from(result.is_ok());
        result.err()
    });
    assert!(
        matches!(error, Some(FaceError::TooMany(max)) if max == MAX - 2 * RESERVE),
        "{error:?}"
    );
    assert_eq!((made, shortages(&host)), (MAX - 2 * RESERVE, 1));
    is_served(&mut host, UnixStream::connect(&path).unwrap(), "a program");
}
