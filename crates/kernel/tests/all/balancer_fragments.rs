//! Tests with IPv4 fragments in any order, through a balancer between real sockets: each side is a
//! network namespace, in which the system reassembles packets.

use crate::common::cluster::{VIP, member_port};
use crate::common::frames::Udp;
use crate::common::machines::{Network, OUTSIDE_MAC, PEER_MAC, Raw, received};
use crate::common::may_run;
use crate::common::net::{alone, index_of};
use crate::common::packets::name;
use nw_kernel::balancer::{AttachMode, HeldFragments, Hop, MemberEntry, Verdict};
use rustix::time::{ClockId, Timespec, clock_gettime};
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const ARRIVES: Duration = Duration::from_secs(5);
/// How long to wait for a packet that should not arrive.
const LOST: Duration = Duration::from_millis(300);
const TRIES: usize = 5;
/// Payload of a fragment in frames of 1500 bytes.
const PART: usize = 1480;
const ORDERS: [[usize; 3]; 6] = [[2, 1, 0], [1, 2, 0], [1, 0, 2], [2, 0, 1], [0, 2, 1], [0, 1, 2]];

fn data(uri: &str) -> Vec<u8> {
    let content: Vec<u8> = (0..4000u32).map(|at| (at * 7) as u8).collect();
    nw_wire::DataBuilder::new(name(uri).as_ref(), &content)
        .encode(&nw_wire::DigestSha256)
        .expect("signed")
}

/// Runs `test` while a thread holds fragments; returns the CPU time of that thread.
fn with_held(mut held: HeldFragments, test: impl FnOnce()) -> Duration {
    let stop = AtomicBool::new(false);
    /// Ends the thread, even if the test panics.
    struct Stop<'a>(&'a AtomicBool);
    impl Drop for Stop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            held.run(&stop, |report| assert!(report.error.is_none(), "{report:?}")).expect("held");
            let Timespec { tv_sec, tv_nsec } = clock_gettime(ClockId::ThreadCPUTime);
            Duration::new(tv_sec as u64, tv_nsec as u32)
        });
        {
            let _stop = Stop(&stop);
            test();
        }
        thread.join().expect("no panic")
    })
}

/// Waits until `count` frames have this verdict.
fn wait_for(network: &Network, verdict: Verdict, count: u64) {
    let end = Instant::now() + ARRIVES;
    while network.cluster.counters().verdict(verdict) < count {
        assert!(Instant::now() < end, "{verdict:?}: {:?}", network.cluster.counters());
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Returns a datagram in three fragments, with an identification of its own.
fn parts(frame: &Udp, id: usize) -> Vec<Vec<u8>> {
    let parts = Udp { id: 1000 + id as u16, fragment: 0, ..frame.clone() }.parts(PART);
    assert_eq!(parts.len(), 3);
    parts
}

/// Sends a packet's fragments in an order until the packet is received; returns how often it was
/// sent again. A sender that waits for a CPU for 50 ms between two fragments is too late.
fn send_until_received(from: &Raw, to: &UdpSocket, frame: &Udp, order: &[usize], id: usize) -> u32 {
    for tries in 0..TRIES {
        let parts = parts(frame, id * TRIES + tries);
        order.iter().for_each(|at| from.send(&parts[*at]));
        if let Some(got) = received(to, ARRIVES / 5) {
            assert!(got == frame.payload, "received as sent");
            return tries as u32;
        }
    }
    panic!("{order:?} from {} to {} do not arrive", frame.from, frame.to);
}

fn any_order(mode: AttachMode) {
    let mut network = Network::new(mode, None);
    let held = network.cluster.balancer.held_fragments().expect("held fragments");
    let number = network.cluster.member_of("/a/b");
    let data = data("/a/b");
    let mut again = 0;
    with_held(held, || {
        for (id, order) in ORDERS.iter().enumerate() {
            let by_name = network.peer_datagram(VIP, &data);
            let by_port = network.peer_datagram(&format!("192.0.2.1:{}", member_port(2)), &data);
            for (id, frame, number) in [(2 * id, by_name, number), (2 * id + 1, by_port, 2)] {
                let socket = &network.members.sockets[usize::from(number) - 1];
                again += send_until_received(&network.peer.raw, socket, &frame, order, id);
            }
            let frame = network.member_datagram(3, &data);
            again += send_until_received(
                &network.members.raw,
                &network.peer.sockets[0],
                &frame,
                order,
                id,
            );
        }
    });
    let counters = network.cluster.counters();
    assert!(counters.verdict(Verdict::IpFragmentHeld) >= 3 * 6, "{counters:?}");
    if again > 0 {
        return;
    }
    // Of three packets each: two fragments before the first one in two orders, one in two orders.
    assert_eq!(counters.verdict(Verdict::IpFragmentHeld), 3 * 6, "{counters:?}");
    assert_eq!(counters.verdict(Verdict::IpFragmentLost), 0);
    assert_eq!(counters.verdict(Verdict::IpFragment), 2 * 6 * 2);
    assert_eq!(counters.verdict(Verdict::IpFragmentOut), 6 * 2);
}

#[test]
fn fragments_in_any_order_arrive_in_native_mode() {
    if may_run("balancer, fragments in any order") {
        alone(|| any_order(AttachMode::Native));
    }
}

#[test]
fn fragments_in_any_order_arrive_in_generic_mode() {
    if may_run("balancer, fragments in any order, generic mode") {
        alone(|| any_order(AttachMode::Generic));
    }
}

#[test]
fn fragments_in_any_order_arrive_by_traffic_control() {
    if may_run("balancer, fragments in any order, traffic control") {
        alone(|| any_order(AttachMode::TrafficControl));
    }
}

/// One interface is both sides: a packet leaves by the interface it arrived on.
fn by_one_interface(mode: AttachMode) {
    let mut network = Network::new(mode, None);
    let known = network.cluster.balancer.members()[&2];
    let hop = known.hop.map(|hop| Hop {
        interface_index: index_of("out0"),
        own_mac: OUTSIDE_MAC,
        mac: PEER_MAC,
        ..hop
    });
    network.cluster.balancer.set_member(2, &MemberEntry { hop, ..known }).expect("set");
    let mut held = network.cluster.balancer.held_fragments().expect("held fragments");
    let frame = network.peer_datagram(&format!("192.0.2.1:{}", member_port(2)), &data("/a/b"));
    let parts = parts(&frame, 0);
    parts.iter().rev().for_each(|part| network.peer.raw.send(part));
    let next = || loop {
        let (_, frame) = network.peer.raw.receive(ARRIVES).expect("another fragment");
        if frame[12..14] == [8, 0] {
            assert_eq!(frame[30..34], [10, 0, 0, 2], "{mode:?}");
            return frame.len();
        }
    };
    wait_for(&network, Verdict::ToMember, 1);
    // One tick looks up the first fragment before it drops expired ones.
    let report = held.tick().expect("a turn");
    assert_eq!((report.taken, report.released, report.lost), (2, 2, 0), "{mode:?}: {report:?}");
    // veth delivers frames sent by XDP_TX only once another frame follows.
    let expected = [0, 2, 1].map(|at| parts[at].len());
    assert_eq!([next(), next(), next()], expected, "{mode:?}: the others follow the first");
}

#[test]
fn fragments_leave_by_their_ingress_interface() {
    if may_run("balancer, fragments by one interface") {
        alone(|| by_one_interface(AttachMode::Native));
        alone(|| by_one_interface(AttachMode::Generic));
    }
}

#[test]
fn fragments_are_lost_if_the_first_arrives_late() {
    if !may_run("balancer, late fragments") {
        return;
    }
    alone(|| {
        let mut network = Network::new(AttachMode::Native, None);
        let held = network.cluster.balancer.held_fragments().expect("held fragments");
        let socket = 1;
        let to = format!("192.0.2.1:{}", member_port(2));
        let data = data("/a/b");
        with_held(held, || {
            let [first, second, third] =
                parts(&network.peer_datagram(&to, &data), 0).try_into().expect("three");
            network.peer.raw.send(&third);
            network.peer.raw.send(&second);
            wait_for(&network, Verdict::IpFragmentLost, 2);
            network.peer.raw.send(&first);
            assert_eq!(received(&network.members.sockets[socket], LOST), None);
            // Another packet of the same source is not affected.
            let frame = network.peer_datagram(&to, &data);
            let socket = &network.members.sockets[socket];
            send_until_received(&network.peer.raw, socket, &frame, &[2, 1, 0], 1);
        });
        let counters = network.cluster.counters();
        assert!(counters.verdict(Verdict::IpFragmentHeld) >= 4, "{counters:?}");
        // Without a process, fragments before their first one are dropped, and all others work.
        let parts = parts(&network.peer_datagram(&to, &data), 900);
        [2, 0, 1].iter().for_each(|at| network.peer.raw.send(&parts[*at]));
        assert_eq!(received(&network.members.sockets[socket], LOST), None);
        let parts = self::parts(&network.peer_datagram(&to, &data), 901);
        parts.iter().for_each(|part| network.peer.raw.send(part));
        assert!(received(&network.members.sockets[socket], ARRIVES).as_ref() == Some(&data));
    });
}

#[test]
fn flood_of_lone_fragments_takes_bounded_work_and_leaves_members_capacity() {
    const FLOOD: u32 = 30_000;
    if !may_run("balancer, lone fragments") {
        return;
    }
    alone(|| {
        let mut network = Network::new(AttachMode::Native, None);
        let held = network.cluster.balancer.held_fragments().expect("held fragments");
        let lone = |number: u32| {
            let mut frame = network.peer_datagram(VIP, &[7; 1000]);
            frame.from.set_ip([198, 18, (number >> 8) as u8, number as u8].into());
            Udp { id: number as u16, fragment: 0, ..frame }.fragments(504)[1].clone()
        };
        let data = data("/a/b");
        let start = Instant::now();
        let mut members = 0;
        let took = with_held(held, || {
            for number in 0..FLOOD {
                network.peer.raw.send(&lone(number));
                // At most about 20,000 per second.
                if number % 32 == 0 {
                    std::thread::sleep(Duration::from_micros(1500));
                }
                if number % 3000 == 2999 {
                    let parts = parts(&network.member_datagram(3, &data), number as usize);
                    parts.iter().rev().for_each(|part| network.members.raw.send(part));
                    let got = received(&network.peer.sockets[0], Duration::from_millis(500));
                    members += u32::from(got.as_ref() == Some(&data));
                }
            }
            // Each is counted in the end, by the program or by the process.
            wait_for(&network, Verdict::IpFragmentLost, u64::from(FLOOD));
        });
        let elapsed = start.elapsed();
        let counters = network.cluster.counters();
        assert!(counters.verdict(Verdict::IpFragmentLost) >= u64::from(FLOOD), "{counters:?}");
        assert!(members >= 7, "{members} of 10 packets of members, in reverse order");
        assert!(took < elapsed / 3, "{took:?} of {elapsed:?}");
    });
}
