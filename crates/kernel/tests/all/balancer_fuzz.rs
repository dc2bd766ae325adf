//! Random and mutated frames through the balancer's program: each is counted once, with the verdict
//! of nw-wire, and with right checksums.

use crate::common::cluster::{Cluster, DROP, KEY, PASS, REDIRECT, TX, VIP, VIP6, member_port};
use crate::common::frames::{Udp, checksum};
use crate::common::may_run;
use crate::common::packets::{data, fragment, interest, link};
use nw_kernel::balancer::{Link, Verdict};
use nw_packet_types::random;
use nw_slot_table::{Effect, Rule, Rules};
use nw_wire::lp::{LpHeader, Token};
use nw_wire::shard::{Reason, shard_of_packet};

/// Returns the number of frames in each test; `NW_FUZZ_FRAMES` changes it.
fn frames() -> usize {
    std::env::var("NW_FUZZ_FRAMES").ok().and_then(|text| text.parse().ok()).unwrap_or(50_000)
}

/// Random numbers and frames with a fixed seed.
struct Random(random::Random);

impl Random {
    fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }

    /// Changes, removes or appends some bytes.
    fn mutate(&mut self, mut bytes: Vec<u8>, len_min: usize) -> Vec<u8> {
        for _ in 0..self.below(4) {
            let at = self.below(bytes.len());
            bytes[at] = match self.below(3) {
                0 => self.next() as u8,
                1 => bytes[at] ^ 1 << self.below(8),
                _ => [0, 1, 5, 6, 7, 80, 100, 253, 255][self.below(9)],
            };
        }
        match self.below(6) {
            0 => bytes.truncate(len_min.max(self.below(bytes.len() + 1))),
            1 => {
                let more = self.below(40);
                bytes.extend(self.bytes(more));
            }
            _ => {}
        }
        bytes
    }

    fn payload(&mut self) -> Vec<u8> {
        let uri: String = (0..1 + self.below(18))
            .map(|n| format!("/{n}{}", "x".repeat(self.below(40))))
            .collect();
        let header = LpHeader {
            pit_token: Token::new(&[9; 6]).expect("six bytes"),
            congestion_mark: self.next() % 2,
            ..LpHeader::default()
        };
        let whole = match self.below(7) {
            0 => data(&uri),
            1 => link(&header, &interest(&uri)),
            2 => link(&header, &data(&uri)),
            3 => fragment(self.next(), self.next() % 4, 4, &interest(&uri)),
            4 => {
                let len = self.below(300);
                self.bytes(len)
            }
            _ => interest(&uri),
        };
        if whole.is_empty() || self.below(3) == 0 { whole } else { self.mutate(whole, 0) }
    }

    fn datagram(&mut self) -> Udp {
        let peers = ["198.51.100.7:50000", "[2001:db8:1::7]:50000"];
        let family = self.below(2);
        let payload = self.payload();
        let mut frame = Udp::new(peers[family], [VIP, VIP6][family], &payload);
        if self.below(4) == 0 {
            let port = member_port(1 + self.below(3) as u8);
            frame.to.set_port(port);
        }
        frame.tags = (0..self.below(3)).map(|_| (0x8100, 5)).collect();
        frame.ttl = [64, 255, 2][self.below(3)];
        frame.id = self.next() as u16;
        frame
    }
}

/// Returns nw-wire's verdict on a datagram to the cluster's port; `None` if a token hides it.
fn expected(payload: &[u8]) -> Option<Verdict> {
    let (_, reason) = shard_of_packet(payload, &KEY, 1);
    Some(match reason {
        Reason::Interest => Verdict::Interest,
        Reason::Data => Verdict::Data,
        Reason::Nack => Verdict::Nack,
        Reason::Fragment => Verdict::Fragment,
        Reason::HeaderLimit => Verdict::HeaderLimit,
        Reason::Reliability => Verdict::Reliability,
        Reason::Idle => Verdict::Idle,
        Reason::Malformed => Verdict::Malformed,
        Reason::NotNdn => Verdict::NotNdn,
        Reason::Token | Reason::NameLimit => return None,
    })
}

/// Returns whether the checksums are right in a frame with a whole UDP datagram.
fn is_sound(frame: &[u8]) -> bool {
    let mut at = 12;
    while frame[at..at + 2] == [0x81, 0] {
        at += 4;
    }
    let ip = &frame[at + 2..];
    let (head, addresses) = if frame[at..at + 2] == [8, 0] { (20, 12..20) } else { (40, 8..40) };
    let len = if head == 20 {
        usize::from(u16::from_be_bytes([ip[2], ip[3]]))
    } else {
        40 + usize::from(u16::from_be_bytes([ip[4], ip[5]]))
    };
    let udp = &ip[head..len];
    let pseudo = [&ip[addresses], &[0, 17], &udp[4..6]].concat();
    (head == 40 || checksum(&[&ip[..20]]) == 0) && checksum(&[&pseudo, udp]) == 0
}

/// A cluster with VLAN 5 on the interface of test runs, and VLAN 5 within that.
fn cluster() -> Cluster {
    let mut cluster = Cluster::new();
    let link =
        |interface_index, underlying_index| Link { interface_index, underlying_index, vlan: 5 };
    cluster.balancer.set_links(&[link(50, 1), link(51, 50)]).expect("links");
    cluster
}

#[test]
fn verdict_of_a_packet_equals_nw_wire_s() {
    if !may_run("balancer, fuzz, packets") {
        return;
    }
    let mut cluster = cluster();
    let mut chance = Random(random::Random::new(1));
    let mut seen = std::collections::BTreeMap::<&str, u32>::new();
    for _ in 0..frames() {
        let frame = chance.datagram();
        let before = cluster.counters();
        let (action, out) = cluster.run(&frame.frame());
        let after = cluster.counters();
        let counted: Vec<_> = after
            .verdicts()
            .filter(|(verdict, count)| *count != before.verdict(*verdict))
            .map(|(v, _)| v)
            .collect();
        assert_eq!((counted.len(), after.frames() - before.frames()), (1, 1), "{counted:?}");
        *seen.entry(counted[0].as_str()).or_default() += 1;
        if frame.to.port() != 6363 {
            let expected =
                if frame.payload.is_empty() { Verdict::NotNdn } else { Verdict::ToMember };
            assert_eq!(counted, [expected], "{frame:?}");
        } else if let Some(expected) = expected(&frame.payload) {
            assert_eq!(counted, [expected], "{frame:?}");
        }
        if counted[0].is_drop() {
            assert_eq!(action, DROP);
        } else {
            assert_eq!(action, REDIRECT);
            assert!(is_sound(&out), "{frame:?}");
        }
    }
    for verdict in ["interest", "data", "nack", "fragment", "malformed", "not_ndn", "to_member"] {
        assert!(
            verdict == "nack" || seen.get(verdict).is_some_and(|count| *count > 100),
            "{verdict}: {seen:?}"
        );
    }
}

#[test]
fn every_frame_is_counted_once() {
    if !may_run("balancer, fuzz, frames") {
        return;
    }
    let mut cluster = cluster();
    let depth = |prefix: &str, depth| Rule {
        prefix: prefix.parse().expect("a name"),
        effect: Effect::Depth(depth),
    };
    let control = Rule { prefix: "/0/1".parse().expect("a name"), effect: Effect::Control };
    cluster
        .balancer
        .set_rules(&Rules::new([depth("/", 3), depth("/0x", 2), control]).expect("rules"))
        .expect("rules");
    let mut chance = Random(random::Random::new(2));
    let mut actions = [0u64; 5];
    for number in 0..frames() {
        let whole = match number % 4 {
            0 => {
                let len = 14 + chance.below(200);
                chance.bytes(len)
            }
            1 => {
                let mut udp = Udp { fragment: 0, ..chance.datagram() };
                udp.payload.resize(64, 7);
                udp.fragments(32)[chance.below(2)].clone()
            }
            2 => member_frame(&mut chance),
            _ => chance.datagram().frame(),
        };
        let whole = chance.mutate(whole, 14);
        let (action, out) = cluster.run(&whole);
        actions[action as usize] += 1;
        if action == DROP || action == PASS && !cluster_may_rewrite(&whole) {
            assert_eq!(out, whole, "dropped or passed, and changed");
        }
    }
    let counters = cluster.counters();
    // No process takes the held ones, so they are not counted again.
    let held = counters.verdict(Verdict::IpFragmentHeld);
    assert_eq!(counters.frames() + held, frames() as u64);
    assert_eq!(counters.verdict(Verdict::Failed), 0);
    let dropped: u64 =
        counters.verdicts().filter(|(verdict, _)| verdict.is_drop()).map(|(_, count)| count).sum();
    let dropped = dropped + held;
    let passed: u64 = [
        Verdict::Passed,
        Verdict::IpOptions,
        Verdict::Ipv6Extensions,
        Verdict::Unresolved,
        Verdict::TooLongOut,
    ]
    .iter()
    .map(|verdict| counters.verdict(*verdict))
    .sum();
    assert_eq!((actions[DROP as usize], actions[PASS as usize]), (dropped, passed));
    assert_eq!(
        actions[REDIRECT as usize] + actions[TX as usize],
        frames() as u64 - dropped - passed
    );
    assert!(actions[0] == 0 && dropped > 100 && passed > 100, "{actions:?}");
}

/// Returns a random frame from a member.
fn member_frame(chance: &mut Random) -> Vec<u8> {
    let mut udp = chance.datagram();
    let number = 1 + chance.below(3) as u8;
    let is_v4 = udp.to.is_ipv4();
    let from = if is_v4 { format!("10.0.0.{number}") } else { format!("[fd00::{number}]") };
    udp.from = format!("{from}:{}", member_port(number)).parse().expect("an address");
    udp.to.set_ip(if is_v4 {
        [198, 51, 100, 7].into()
    } else {
        "2001:db8:1::7".parse().expect("v6")
    });
    udp.frame()
}

/// Returns whether a member's packet may be passed to the system with other addresses.
fn cluster_may_rewrite(frame: &[u8]) -> bool {
    frame.windows(4).any(|bytes| bytes[..3] == [10, 0, 0])
        || frame.windows(2).any(|bytes| bytes == [0xfd, 0])
}
