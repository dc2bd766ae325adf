//! The attackers of each scenario, and the producers that help them.

use super::{AttackError, AttackPlan, AttackStats, Scenario, bystander};
use nw_app::{Client, ClientError, FaceUri, control};
use nw_element_api::{Kind, LinkFields};
use nw_name::Name;
use nw_wire::{DataBuilder, DigestSha256, InterestBuilder, Token};
use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Prefix of the attackers' names.
const PREFIX: &str = "/attack";
/// Faces of each attacker with many faces.
const FACES: usize = 24;
/// Interests sent between two looks at the clock.
const BURST: usize = 32;
/// Delay of a slow producer; Interests live a little longer.
const DELAY: Duration = Duration::from_millis(3900);
/// Answers that a slow producer holds.
const HELD_MAX: usize = 1 << 18;
/// Niceness of the attackers and their accomplices, above that of the bystanders.
const NICENESS: i32 = 10;
/// Content of the accomplices' Data, bytes.
const CONTENT: [u8; 4000] = [b'x'; 4000];

/// Producers that help the attackers; they end on drop.
#[derive(Debug)]
pub(super) struct Accomplices {
    stop: Arc<AtomicBool>,
    producer: Option<JoinHandle<()>>,
}

impl Accomplices {
    /// Starts the producer of a scenario. Without it, Interests under its prefix would be refused
    /// at once for want of a route, and take no state.
    pub(super) fn start(plan: &AttackPlan) -> Result<Self, AttackError> {
        let stop = Arc::new(AtomicBool::new(false));
        let mut producer = Client::connect(&plan.router)?;
        control::register(&mut producer, PREFIX.parse::<Name>().expect("a constant name"))?;
        let (scenario, flag) = (plan.scenario, Arc::clone(&stop));
        let serving = std::thread::spawn(move || {
            let _ = help(&mut producer, scenario, &flag);
        });
        Ok(Accomplices { stop, producer: Some(serving) })
    }
}

impl Drop for Accomplices {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(producer) = self.producer.take() {
            let _ = producer.join();
        }
    }
}

/// Reads Interests until `stop`, and answers them as the scenario wants.
fn help(producer: &mut Client, scenario: Scenario, stop: &AtomicBool) -> Result<(), ClientError> {
    yield_to_bystanders();
    let mut held: VecDeque<(Instant, Vec<u8>, Token)> = VecDeque::new();
    while !stop.load(Ordering::Relaxed) {
        producer.poll(Some(Duration::from_millis(10)), |_, received, out| {
            if received.kind() != Kind::Interest {
                return;
            }
            let answer = || DataBuilder::new(received.name(), &CONTENT).encode(&DigestSha256);
            let link = LinkFields { token: received.token(), ..LinkFields::default() };
            match scenario {
                Scenario::Collusion => match answer() {
                    Ok(wire) => out.send_with(&wire, link),
                    Err(never) => match never {},
                },
                Scenario::SlowProducer if held.len() < HELD_MAX => {
                    let data = DataBuilder::new(received.name(), b"late").encode(&DigestSha256);
                    match data {
                        Ok(wire) => {
                            held.push_back((Instant::now() + DELAY, wire, received.token()))
                        }
                        Err(never) => match never {},
                    }
                }
                _ => {}
            }
        })?;
        while let Some((_, wire, token)) = held.pop_front_if(|(due, ..)| *due <= Instant::now()) {
            producer.send_with(&wire, LinkFields { token, ..LinkFields::default() });
        }
    }
    Ok(())
}

/// Gives this thread a lower priority than bystanders have. Attackers on other machines would take
/// no processor time from bystanders, so those on this machine take what the bystanders leave.
fn yield_to_bystanders() {
    // Lowering a priority needs no rights. Without it the figures would only look worse.
    let _ = rustix::process::nice(NICENESS);
}

/// Runs one attacker until `ended`.
pub(super) fn run(plan: &AttackPlan, number: usize, ended: &AtomicBool) -> AttackStats {
    yield_to_bystanders();
    match plan.scenario {
        Scenario::FewFaces => interests(plan, number, ended, 1, 3_600_000),
        Scenario::ManyFaces => interests(plan, number, ended, FACES, 200),
        Scenario::Unanswered => interests(plan, number, ended, 1, 4000),
        Scenario::SlowProducer | Scenario::Collusion => interests(plan, number, ended, 1, 4000),
        Scenario::Hijack => hijack(&plan.attacked, ended),
        Scenario::SpoofedUdp => spoof(plan, number, ended),
    }
}

/// Sends Interests for new names, in turn over `faces` connections.
fn interests(
    plan: &AttackPlan,
    number: usize,
    ended: &AtomicBool,
    faces: usize,
    lifetime_ms: u64,
) -> AttackStats {
    let mut stats = AttackStats::default();
    let mut clients: Vec<Client> = Vec::new();
    let mut names = Names::new(number);
    let started = Instant::now();
    while !ended.load(Ordering::Relaxed) {
        if clients.len() < faces {
            match Client::connect(&plan.attacked) {
                Ok(client) => clients.push(client),
                Err(_) => stats.lost += 1,
            }
            stats.faces += 1;
        }
        let due = (started.elapsed().as_secs_f64() * plan.rate) as u64;
        let count = due.saturating_sub(stats.sent).min(BURST as u64);
        let turn = names.count as usize % clients.len().max(1);
        let Some(client) = clients.get_mut(turn) else {
            std::thread::sleep(Duration::from_millis(10));
            continue;
        };
        for _ in 0..count {
            client.send(&names.next_interest(lifetime_ms));
            stats.sent += 1;
        }
        let wait = if count == 0 { Duration::from_millis(1) } else { Duration::ZERO };
        let polled = client.poll(Some(wait), |_, received, _| match received.kind() {
            Kind::Data => stats.data += 1,
            Kind::Nack => stats.nacks += 1,
            Kind::Interest | Kind::Publication => {}
        });
        if polled.is_err() {
            clients.swap_remove(turn);
            stats.lost += 1;
        }
    }
    stats
}

/// Registers the bystanders' prefix again and again, and answers nothing.
fn hijack(attacked: &FaceUri, ended: &AtomicBool) -> AttackStats {
    let mut stats = AttackStats { faces: 1, ..AttackStats::default() };
    let Ok(mut client) = Client::connect(attacked) else {
        return AttackStats { lost: 1, ..stats };
    };
    while !ended.load(Ordering::Relaxed) {
        stats.sent += 1;
        let prefix: Name = bystander::PREFIX.parse().expect("a constant name");
        match control::register(&mut client, prefix) {
            Ok(()) => stats.registered += 1,
            Err(_) => stats.lost += 1,
        }
        let _ = client.poll(Some(Duration::from_millis(50)), |_, _, _| {});
    }
    stats
}

/// Sends datagrams from addresses of the loopback network, each used for one burst.
fn spoof(plan: &AttackPlan, number: usize, ended: &AtomicBool) -> AttackStats {
    let mut stats = AttackStats::default();
    let mut names = Names::new(number);
    let Some(target) = plan.udp_target() else { return stats };
    let started = Instant::now();
    while !ended.load(Ordering::Relaxed) {
        let due = (started.elapsed().as_secs_f64() * plan.rate) as u64;
        if stats.sent >= due {
            std::thread::sleep(Duration::from_millis(1));
            continue;
        }
        let [_, a, b, c] = (names.random() as u32).to_be_bytes();
        let source = SocketAddr::from((Ipv4Addr::new(127, a | 1, b, c.clamp(1, 254)), 0));
        let Ok(socket) = UdpSocket::bind(source) else {
            stats.lost += 1;
            continue;
        };
        stats.faces += 1;
        let _ = socket.set_nonblocking(true);
        if socket.send_to(&names.next_interest(4000), target).is_err() {
            stats.lost += 1;
        }
        stats.sent += 1;
    }
    stats
}

/// New names without end, different for each attacker.
#[derive(Debug)]
struct Names {
    state: u64,
    count: u64,
}

impl Names {
    fn new(number: usize) -> Self {
        let seed = u64::from(std::process::id()) << 32 | number as u64;
        Names { state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1, count: 0 }
    }

    /// Returns a number that differs from the earlier ones (xorshift).
    const fn random(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state
    }

    fn next_interest(&mut self, lifetime_ms: u64) -> Vec<u8> {
        let random = self.random();
        self.count += 1;
        let name: Name = PREFIX.parse().expect("a constant name");
        InterestBuilder::new(name.with_generic(random.to_be_bytes()))
            .nonce(random as u32)
            .lifetime_ms(lifetime_ms)
            .encode()
    }
}
