//! Tests with real sockets on loopback: datagrams arrive at the socket of their shard.

use crate::common::{self, permitted, vectors};
use nw_kernel::{KernelError, ReuseportProgram};
use nw_name::{HashKey, Name};
use nw_wire::InterestBuilder;
use nw_wire::shard::{Reason, shard_of_packet};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket, socket_with, sockopt};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

const KEY: HashKey = HashKey::new([0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210, 5, 7]);

/// Opens the sockets of one group, on a port chosen by the system.
fn group(ip: IpAddr, count: usize) -> Vec<UdpSocket> {
    let mut address = SocketAddr::new(ip, 0);
    let family = if ip.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let open = |_| {
        let socket = socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, None);
        let socket = socket.expect("a socket");
        sockopt::set_socket_reuseport(&socket, true).expect("SO_REUSEPORT");
        sockopt::set_socket_recv_buffer_size(&socket, 1 << 20).expect("a buffer");
        bind(&socket, &address).expect("an address");
        let socket = UdpSocket::from(socket);
        address = socket.local_addr().expect("an address");
        socket.set_read_timeout(Some(Duration::from_secs(5))).expect("a timeout");
        socket
    };
    (0..count).map(open).collect()
}

fn attach(test: &str, sockets: &[UdpSocket]) -> Option<ReuseportProgram> {
    let sockets: Vec<_> = sockets.iter().map(AsFd::as_fd).collect();
    permitted(test, ReuseportProgram::attach(&sockets, &KEY))
}

fn interest(number: u64) -> Vec<u8> {
    let name: Name = format!("/ndn/app/{}/{number}", number % 97).parse().expect("a name");
    InterestBuilder::new(name).nonce(number as u32).encode()
}

/// Sends each packet from its own socket, one at a time, and checks where it arrives.
fn sent_one_by_one(ip: IpAddr, shards: u8, packets: &[Vec<u8>]) {
    let sockets = group(ip, usize::from(shards));
    let Some(program) = attach("reuseport, one by one", &sockets) else { return };
    let to = sockets[0].local_addr().expect("an address");
    let mut expected = vec![0; usize::from(shards)];
    let mut bytes = vec![0; 9000];
    for packet in packets {
        let (shard, reason) = shard_of_packet(packet, &KEY, shards);
        let sender = UdpSocket::bind((ip, 0)).expect("a sender");
        assert_eq!(sender.send_to(packet, to).expect("sent"), packet.len());
        let len = sockets[usize::from(shard)].recv(&mut bytes).unwrap_or_else(|e| {
            panic!("{} ({} bytes) not at shard {shard}: {e}", reason.as_str(), packet.len())
        });
        assert_eq!(&bytes[..len], packet);
        expected[usize::from(shard)] += 1;
    }
    let counters = program.counters().expect("counters");
    assert_eq!(counters.shards(), expected);
    assert_eq!((counters.no_socket(), counters.failed(), counters.passed()), (0, 0, 0));
    let counted: u64 = Reason::ALL.iter().map(|reason| counters.reason(*reason)).sum();
    assert_eq!(counted, packets.len() as u64);
}

#[test]
fn datagram_over_ipv4_arrives_at_its_shard() {
    let packets: Vec<_> = vectors().into_iter().map(|vector| vector.packet).collect();
    sent_one_by_one(Ipv4Addr::LOCALHOST.into(), 5, &packets);
}

#[test]
fn datagram_over_ipv6_arrives_at_its_shard() {
    let packets: Vec<_> = vectors().into_iter().map(|vector| vector.packet).collect();
    sent_one_by_one(Ipv6Addr::LOCALHOST.into(), 7, &packets);
}

#[test]
fn ten_thousand_names_spread_evenly() {
    const SHARDS: u8 = 4;
    const NAMES: u64 = 10_000;
    let sockets = group(Ipv4Addr::LOCALHOST.into(), SHARDS.into());
    let Some(program) = attach("reuseport, even", &sockets) else { return };
    let (to, sender) =
        (sockets[0].local_addr().expect("one"), UdpSocket::bind("127.0.0.1:0").expect("a sender"));
    sockets.iter().for_each(|socket| socket.set_nonblocking(true).expect("non-blocking"));
    let mut bytes = [0; 9000];
    let mut counts = [0; SHARDS as usize];
    let mut receive = |counts: &mut [u64; SHARDS as usize]| {
        for (shard, socket) in sockets.iter().enumerate() {
            while let Ok(len) = socket.recv(&mut bytes) {
                assert_eq!(
                    shard_of_packet(&bytes[..len], &KEY, SHARDS),
                    (shard as u8, Reason::Interest)
                );
                counts[shard] += 1;
            }
        }
    };
    for number in 0..NAMES {
        // One sender is one flow: without the program all datagrams would arrive at one socket.
        sender.send_to(&interest(number), to).expect("sent");
        receive(&mut counts);
    }
    let deadline = Instant::now() + Duration::from_secs(5);
    while counts.iter().sum::<u64>() < NAMES && Instant::now() < deadline {
        receive(&mut counts);
    }
    assert_eq!(counts.iter().sum::<u64>(), NAMES, "{counts:?}");
    let fair = NAMES / u64::from(SHARDS);
    assert!(counts.iter().all(|count| count.abs_diff(fair) * 100 <= fair * 3), "{counts:?}");
    assert_eq!(program.counters().expect("counters").shards(), counts);
}

#[test]
fn socket_is_replaced_and_program_detached() {
    let mut sockets = group(Ipv4Addr::LOCALHOST.into(), 2);
    let Some(mut program) = attach("reuseport, changes", &sockets) else { return };
    let to = sockets[0].local_addr().expect("an address");
    let sender = UdpSocket::bind("127.0.0.1:0").expect("a sender");
    let wire = (0..)
        .map(interest)
        .find(|wire| shard_of_packet(wire, &KEY, 2).0 == 1)
        .expect("one of shard 1");
    // Its socket is closed: the system gives the packet to the remaining one. A process that
    // another test starts has a copy of the socket until it runs its program.
    sockets.truncate(1);
    let (mut lost, deadline) = (0, Instant::now() + Duration::from_secs(30));
    loop {
        sender.send_to(&wire, to).expect("sent");
        let no_socket = loop {
            assert!(Instant::now() < deadline, "the socket stays open, or a packet is not counted");
            let counters = program.counters().expect("counters");
            if counters.shards()[1] + counters.no_socket() > lost {
                break counters.no_socket();
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        if no_socket == 1 {
            break;
        }
        lost += 1;
    }
    let mut bytes = [0; 2000];
    assert_eq!(sockets[0].recv(&mut bytes).expect("left to the system"), wire.len());
    // Another socket replaces it.
    let again = socket(AddressFamily::INET, SocketType::DGRAM, None).expect("a socket");
    sockopt::set_socket_reuseport(&again, true).expect("SO_REUSEPORT");
    let refused = program.set_socket(1, again.as_fd()).expect_err("not bound yet");
    assert!(matches!(refused, KernelError::Socket { shard: 1, .. }), "{refused}");
    bind(&again, &to).expect("an address");
    program.set_socket(1, again.as_fd()).expect("taken");
    let again = UdpSocket::from(again);
    again.set_read_timeout(Some(Duration::from_secs(5))).expect("a timeout");
    sender.send_to(&wire, to).expect("sent");
    assert_eq!(again.recv(&mut bytes).expect("at shard 1"), wire.len());
    assert!(matches!(
        program.set_socket(2, again.as_fd()),
        Err(KernelError::Slot { shard: 2, .. })
    ));
    // The program outlives its handle, unless it is detached.
    let before = program.counters().expect("counters");
    assert_eq!(before.shards(), [0, lost + 1]);
    program.detach(again.as_fd()).expect("detached");
    sender.send_to(&wire, to).expect("sent to the socket of the flow");
}

#[test]
fn invalid_arguments_are_errors() {
    assert!(matches!(ReuseportProgram::attach(&[], &KEY), Err(KernelError::Shards(0))));
    let sockets = group(Ipv4Addr::LOCALHOST.into(), 1);
    let many = vec![sockets[0].as_fd(); 65];
    assert!(matches!(ReuseportProgram::attach(&many, &KEY), Err(KernelError::Shards(65))));
    let alone = UdpSocket::bind("127.0.0.1:0").expect("a socket without SO_REUSEPORT");
    let Some(Err(e)) = common::may_run("reuseport, checks")
        .then(|| ReuseportProgram::attach(&[alone.as_fd()], &KEY))
    else {
        return;
    };
    assert!(
        matches!(e, KernelError::Socket { shard: 0, .. }),
        "{e}: {:?}",
        std::error::Error::source(&e)
    );
}
