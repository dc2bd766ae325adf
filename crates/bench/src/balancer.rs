//! `balancer/xdp`: Interests through the balancer's XDP program, beside a program on the same path that only swaps addresses.
//!
//! ```text
//!  asker: wire ══ veth ══ left: the balancer, or the swap ─▶ right ══ veth ══ wire: counted and dropped
//! ```
//!
//! All of a run is on one processor: who sends, both veths, the program, who counts. Sent by a socket (`sendmmsg`, 64 a call) the system's
//! network code is on the path, as it is for a router's packets; sent as frames (`BPF_PROG_TEST_RUN`) nothing is but the veths.

use crate::report::{Row, median};
use crate::veth::path::{self, LEFT, Place, RIGHT, Street, WIRE};
use anyhow::{Context, Result, ensure};
use nw_balance::{Member, Table};
use nw_faces::interfaces::Interfaces;
use nw_faces::raw::{self, Message};
use nw_kernel::balancer::{
    AttachMode, Balancer, BalancerOptions, Hop, MemberEntry, RunTime, Sink, Source, Statistics, Swap,
};
use nw_name::{HashKey, Name};
use nw_wire::InterestBuilder;
use std::io::IoSlice;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// Repetitions, the two programs in turn: short and many, as virtual processors are faster for some seconds and slower for others.
const RUNS: usize = 101;
const MEASURED: Duration = Duration::from_millis(60);
/// Of what is timed, whose every run is long enough to tell.
const TIMED_RUNS: usize = 25;
/// Components of names that are timed, 8 octets each.
const COMPONENTS: [usize; 4] = [2, 4, 8, 16];
/// Those of names whose rate is measured.
const USUAL: usize = 8;
const PORT: u16 = 6363;
const MEMBERS: u8 = 4;
/// Datagrams a call.
const BATCH: usize = 64;
/// Frames that the kernel is asked for at once.
const FRAMES: u32 = 1 << 16;

/// How packets come to the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sent {
    BySocket,
    AsFrames,
}

/// What is on the path, for as long as this lives.
enum Program<'a> {
    Balancer(&'a mut Balancer),
    Swap(Swap),
}

/// The rows; none where a path can't be made.
///
/// # Errors
/// When a program can't be attached, or nothing comes through.
pub fn run(row: &str) -> Result<Vec<Row>> {
    let street = match Street::new() {
        Ok(street) => street,
        Err(error) => {
            eprintln!("{row} is left out: {error:#}");
            return Ok(Vec::new());
        }
    };
    let bench = Bench::new(&street)?;
    let mut balancer = bench.balancer()?;
    let mut rates = [const { Vec::new() }; 4];
    for _ in 0..RUNS {
        for (at, sent) in [Sent::BySocket, Sent::AsFrames].into_iter().enumerate() {
            rates[2 * at].push(bench.with_balancer(&mut balancer, |bench, _| bench.rate(sent))?);
            rates[2 * at + 1].push(bench.with_swap(|bench, _| bench.rate(sent))?);
        }
    }
    let [socket, socket_swap, frames, frames_swap] = rates;
    let ratios = |of: &[f64], to: &[f64]| of.iter().zip(to).map(|(of, to)| of / to).collect::<Vec<_>>();
    let mut rows = vec![
        Row::new(row, "ratio_to_swap", &ratios(&socket, &socket_swap)).at_least(0.9),
        Row::new(row, "packets_per_s", &socket).beside(median(&socket_swap)),
        Row::new(row, "ratio_to_swap_frames", &ratios(&frames, &frames_swap)),
        Row::new(row, "packets_per_s_frames", &frames).beside(median(&frames_swap)),
    ];
    for components in COMPONENTS {
        let (mut balanced, mut swapped) = (Vec::new(), Vec::new());
        for _ in 0..TIMED_RUNS {
            let timed = |bench: &Bench<'_>, program: &mut Program<'_>| bench.timed(program, components);
            balanced.push(bench.with_balancer(&mut balancer, timed)?);
            swapped.push(bench.with_swap(timed)?);
        }
        rows.push(
            Row::new(row, format!("ns_per_packet_{components}_components"), &balanced)
                .beside(median(&swapped)),
        );
    }
    Ok(rows)
}

/// The path.
struct Bench<'a> {
    street: &'a Street,
    sink: Sink,
    asker: Interface,
    left: Interface,
    hop: Hop,
}

#[derive(Clone, Copy)]
struct Interface {
    index: u32,
    mac: [u8; 6],
}

impl<'a> Bench<'a> {
    fn new(street: &'a Street) -> Result<Self> {
        let right = interface(street, Place::Middle, RIGHT)?;
        let end = interface(street, Place::Answerer, WIRE)?;
        let sink = path::within(&street.name(Place::Answerer), || Ok(Sink::attach(end.index)?))?;
        let hop = Hop {
            interface_index: right.index,
            own_mac: right.mac,
            mac: end.mac,
            vlan: None,
            mtu_octets: 1500,
        };
        let (asker, left) = (interface(street, Place::Asker, WIRE)?, interface(street, Place::Middle, LEFT)?);
        Ok(Bench { street, sink, asker, left, hop })
    }

    /// With members behind the right interface.
    fn balancer(&self) -> Result<Balancer> {
        let options = BalancerOptions {
            key: HashKey::new([1, 2, 3, 4]),
            cluster_v4: Some(v4(path::middle_address(Place::Asker, PORT))),
            cluster_v6: None,
            port: PORT,
            ethernet: None,
            pin: None,
        };
        let mut balancer = Balancer::load(&options)?;
        for number in 1..=MEMBERS {
            let entry = MemberEntry {
                address_v4: Some(Ipv4Addr::new(10, 79, 2, 100 + number)),
                address_v6: None,
                port: PORT + u16::from(number),
                hop: Some(self.hop),
                mac: None,
            };
            balancer.set_member(number, &entry)?;
        }
        let member = |number: u8| Member { number, id: number.into(), weight: 100, takes_names: true };
        let members: Vec<_> = (1..=MEMBERS).map(member).collect();
        balancer.set_slots(Table::compute(&members, 1).slots())?;
        Ok(balancer)
    }

    fn with_balancer(
        &self,
        balancer: &mut Balancer,
        work: impl FnOnce(&Self, &mut Program<'_>) -> Result<f64>,
    ) -> Result<f64> {
        let middle = self.street.name(Place::Middle);
        path::within(&middle, || Ok(balancer.attach(LEFT, Some(AttachMode::Native))?))?;
        let figure = work(self, &mut Program::Balancer(balancer));
        path::within(&middle, || Ok(balancer.detach(LEFT)?))?;
        figure
    }

    fn with_swap(&self, work: impl FnOnce(&Self, &mut Program<'_>) -> Result<f64>) -> Result<f64> {
        let mut swap = Swap::load(&self.hop)?;
        path::within(&self.street.name(Place::Middle), || Ok(swap.attach(self.left.index)?))?;
        work(self, &mut Program::Swap(swap))
    }

    /// Packets a second that come through.
    fn rate(&self, sent: Sent) -> Result<f64> {
        let send = |time| match sent {
            Sent::BySocket => self.by_socket(time),
            Sent::AsFrames => self.as_frames(time, USUAL),
        };
        // Neighbours are learnt, caches are warm.
        send(MEASURED / 10)?;
        let (before, started) = (self.sink.frames()?, Instant::now());
        send(MEASURED)?;
        let (count, took) = (self.sink.frames()? - before, started.elapsed());
        ensure!(count > 0, "nothing came through");
        Ok(count as f64 / took.as_secs_f64())
    }

    /// Nanoseconds of a run of the program itself, as the kernel says.
    fn timed(&self, program: &mut Program<'_>, components: usize) -> Result<f64> {
        self.as_frames(MEASURED / 10, components)?;
        let kept = Statistics::keep()?;
        let before = program.run_time()?;
        self.as_frames(MEASURED, components)?;
        let ran = program.run_time()?.since(before);
        drop(kept);
        ensure!(ran.runs > 0, "the program did not run");
        Ok(ran.ns_per_run())
    }

    fn as_frames(&self, duration: Duration, components: usize) -> Result<()> {
        let frame = self.frame(components);
        path::within(&self.street.name(Place::Asker), || {
            on_one_processor();
            let mut source = Source::load(self.asker.index, &frame)?;
            let end = Instant::now() + duration;
            while Instant::now() < end {
                source.send(FRAMES)?;
            }
            Ok(())
        })
    }

    /// An Interest on its way to the cluster.
    fn frame(&self, components: usize) -> Vec<u8> {
        let interest = interest(components);
        let len = (20 + 8 + interest.len()) as u16;
        let mut frame = [self.left.mac, self.asker.mac].concat();
        frame.extend_from_slice(&[8, 0, 0x45, 0]);
        frame.extend_from_slice(&len.to_be_bytes());
        frame.extend_from_slice(&[0, 0, 0x40, 0, 64, 17, 0, 0]);
        frame.extend_from_slice(&v4(path::end_address(Place::Asker, PORT)).octets());
        frame.extend_from_slice(&v4(path::middle_address(Place::Asker, PORT)).octets());
        let sum = checksum(&frame[14..34]);
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
        // Nobody checks UDP's sum here; one that is not 0 has to be updated.
        for word in [40_000, PORT, len - 20, 1] {
            frame.extend_from_slice(&word.to_be_bytes());
        }
        frame.extend_from_slice(&interest);
        frame
    }

    fn by_socket(&self, duration: Duration) -> Result<()> {
        path::within(&self.street.name(Place::Asker), || {
            on_one_processor();
            let socket =
                UdpSocket::bind(path::end_address(Place::Asker, 0)).context("who asks has no socket")?;
            let mut interests = [(); BATCH].map(|()| interest(USUAL));
            let to = path::middle_address(Place::Asker, PORT);
            let (end, mut number) = (Instant::now() + duration, 0u32);
            while Instant::now() < end {
                for interest in &mut interests {
                    // The first component, behind six octets of types and lengths.
                    number = number.wrapping_add(0x9e37_79b1);
                    interest[6..10].copy_from_slice(&number.to_le_bytes());
                }
                let pieces = interests.each_ref().map(|interest| IoSlice::new(interest));
                let messages: [_; BATCH] = core::array::from_fn(|at| Message {
                    peer: Some(to),
                    pieces: (at, at + 1),
                    segment: None,
                });
                let mut at = 0;
                while at < BATCH {
                    at += raw::send(socket.as_fd(), &messages[at..], &pieces).unwrap_or(1);
                }
            }
            Ok(())
        })
    }
}

impl Program<'_> {
    fn run_time(&mut self) -> Result<RunTime> {
        Ok(match self {
            Program::Balancer(balancer) => balancer.run_time()?,
            Program::Swap(swap) => swap.run_time()?,
        })
    }
}

fn interest(components: usize) -> Vec<u8> {
    let name =
        (0..components).fold(Name::new(), |name, at| name.with_generic(format!("part-{at:03}").as_bytes()));
    InterestBuilder::new(name).nonce(7).encode()
}

/// The processor that this thread and all it sets in motion run on.
fn on_one_processor() {
    let mut set = rustix::thread::CpuSet::new();
    set.set(0);
    // Where it may not be chosen, the figures only spread more.
    let _ = rustix::thread::sched_setaffinity(None, &set);
}

fn interface(street: &Street, place: Place, name: &str) -> Result<Interface> {
    path::within(&street.name(place), || {
        let interfaces = Interfaces::watch()?;
        let found = interfaces.named(name).with_context(|| format!("no interface {name}"))?;
        Ok(Interface { index: found.index, mac: found.mac.context("it is no Ethernet")?.0 })
    })
}

fn v4(address: SocketAddr) -> Ipv4Addr {
    match address {
        SocketAddr::V4(v4) => *v4.ip(),
        SocketAddr::V6(v6) => unreachable!("the path has IPv4 addresses only: {v6}"),
    }
}

/// IPv4's, over a head whose own field is 0.
fn checksum(head: &[u8]) -> u16 {
    let mut sum: u32 = head.chunks_exact(2).map(|two| u32::from(u16::from_be_bytes([two[0], two[1]]))).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use nw_wire::Interest;

    #[test]
    fn interests_have_their_first_component_where_it_is_changed() {
        for components in COMPONENTS {
            let mut wire = interest(components);
            assert_eq!(&wire[6..14], b"part-000");
            wire[6..10].copy_from_slice(b"soup");
            let seen = Interest::check(&wire).expect("still an Interest");
            assert_eq!(seen.name().len(), components);
        }
    }

    #[test]
    fn checksums_are_ipv4s() {
        // RFC 1071's way, by an example that is all over the world.
        let head = [0x45, 0, 0, 0x73, 0, 0, 0x40, 0, 0x40, 0x11, 0, 0, 0xc0, 0xa8, 0, 1, 0xc0, 0xa8, 0, 0xc7];
        assert_eq!(checksum(&head), 0xb861);
    }
}
