//! `balancer/xdp`: Interests through the balancer's XDP program, beside a program on the same path that only swaps addresses.
//!
//! ```text
//!  asker: wire ══ veth ══ left: the balancer, or the swap ─▶ right ══ veth ══ wire: counted and dropped
//! ```
//!
//! There are two such paths, each with one of the programs, in turns of milliseconds: a virtual processor is faster at times, which both feel alike so. The programs
//! are changed over, and each is loaded anew, several times. All is on one processor: who sends, both veths, the program, who counts. Sent by a socket
//! (`sendmmsg`, 64 a call) the system's network code is on the path, as it is for a router's packets; sent as frames (`BPF_PROG_TEST_RUN`) nothing is but the veths.

use crate::report::{Row, median};
use crate::veth::path::{self, LEFT, Place, RIGHT, Street, WIRE};
use anyhow::{Context, Result, ensure};
use nw_faces::interfaces::Interfaces;
use nw_faces::raw::{self, Message};
use nw_kernel::balancer::{
    AttachMode, Balancer, BalancerOptions, Hop, MemberEntry, RunTime, Sink, Source, Statistics, Swap,
};
use nw_name::{HashKey, Name};
use nw_slot_table::{Member, Table};
use nw_wire::InterestBuilder;
use std::io::IoSlice;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// Times that both programs are loaded anew on each of the paths: how one happens to lie in memory makes it a point or two faster or slower.
const LOADS: usize = 4;
/// Rounds of each load, and turns that each program has in a round.
const ROUNDS: usize = 12;
const TURNS: usize = 6;
/// Rounds of a turn each of frames.
const FRAME_ROUNDS: usize = 3;
const TURN: Duration = Duration::from_millis(5);
/// Before what is counted: neighbours are learnt, caches are warm.
const WARM_UP: Duration = Duration::from_millis(1);
/// Runs of each load whose every packet is timed.
const TIMED_RUNS: usize = 3;
/// Components of names that are timed, 8 octets each.
const COMPONENTS: [usize; 4] = [2, 4, 8, 16];
/// Those of names whose rate is measured.
const USUAL: usize = 8;
const PORT: u16 = 6363;
const MEMBERS: u8 = 4;
/// Datagrams a call.
const BATCH: usize = 64;
/// Frames that the kernel is asked for at once: the 20 ms that a call takes to begin and to end are less than half of it.
const FRAMES: u32 = 1 << 17;

/// How packets come to the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sent {
    BySocket,
    AsFrames,
}

/// The rows; none where a path can't be made.
///
/// # Errors
/// When a program can't be attached, or nothing comes through.
pub fn run(row: &str) -> Result<Vec<Row>> {
    let streets = match Street::new().and_then(|street| Ok([street, Street::new()?])) {
        Ok(streets) => streets,
        Err(error) => {
            eprintln!("{row} is left out: {error:#}");
            return Ok(Vec::new());
        }
    };
    let [first, second] = streets.each_ref().map(Path::new);
    let (first, second) = (first?, second?);
    let (mut socket, mut frames) = (Compared::default(), Compared::default());
    let mut timed = COMPONENTS.map(|components| (components, Compared::default()));
    for [ours, theirs] in [[&first, &second], [&second, &first]].repeat(LOADS) {
        let (mut balancer, mut swap) = (ours.balancer()?, theirs.swap()?);
        for _ in 0..ROUNDS {
            socket.push(round(Sent::BySocket, TURNS, [ours, theirs])?);
        }
        for _ in 0..FRAME_ROUNDS {
            frames.push(round(Sent::AsFrames, 1, [ours, theirs])?);
        }
        for (components, compared) in &mut timed {
            for _ in 0..TIMED_RUNS {
                compared.push([
                    ours.timed(*components, || Ok(balancer.run_time()?))?,
                    theirs.timed(*components, || Ok(swap.run_time()?))?,
                ]);
            }
        }
    }
    let mut rows = vec![
        Row::new(row, "ratio_to_swap", &socket.ratios()).at_least(0.9),
        socket.row(row, "packets_per_s"),
        Row::new(row, "ratio_to_swap_frames", &frames.ratios()),
        frames.row(row, "packets_per_s_frames"),
    ];
    rows.extend(timed.map(|(components, ns)| ns.row(row, &format!("ns_per_packet_{components}_components"))));
    Ok(rows)
}

/// Packets a second of both, by as many turns of each.
fn round(sent: Sent, turns: usize, paths: [&Path<'_>; 2]) -> Result<[f64; 2]> {
    let mut counted = [(0, Duration::ZERO); 2];
    for _ in 0..turns {
        for (path, (frames, time)) in paths.iter().zip(&mut counted) {
            let (more, took) = path.turn(sent)?;
            *frames += more;
            *time += took;
        }
    }
    ensure!(counted.iter().all(|(frames, _)| *frames > 0), "nothing came through");
    Ok(counted.map(|(frames, time)| frames as f64 / time.as_secs_f64()))
}

/// Figures of the balancer and of the swap, measured in turn.
#[derive(Default)]
struct Compared {
    balancer: Vec<f64>,
    swap: Vec<f64>,
}

impl Compared {
    fn push(&mut self, [balancer, swap]: [f64; 2]) {
        self.balancer.push(balancer);
        self.swap.push(swap);
    }

    fn ratios(&self) -> Vec<f64> {
        self.balancer.iter().zip(&self.swap).map(|(balancer, swap)| balancer / swap).collect()
    }

    fn row(&self, row: &str, unit: &str) -> Row {
        Row::new(row, unit, &self.balancer).beside(median(&self.swap))
    }
}

/// A path.
struct Path<'a> {
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

impl<'a> Path<'a> {
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
        Ok(Path { street, sink, asker, left, hop })
    }

    /// At the left interface, for as long as this lives, with members behind the right one.
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
        path::within(&self.street.name(Place::Middle), || {
            Ok(balancer.attach(LEFT, Some(AttachMode::Native))?)
        })?;
        Ok(balancer)
    }

    /// In the same place.
    fn swap(&self) -> Result<Swap> {
        let mut swap = Swap::load(&self.hop)?;
        path::within(&self.street.name(Place::Middle), || Ok(swap.attach(self.left.index)?))?;
        Ok(swap)
    }

    /// Packets that came through, and in which time.
    fn turn(&self, sent: Sent) -> Result<(u64, Duration)> {
        self.by(sent, USUAL, |send| {
            send(WARM_UP)?;
            let (before, started) = (self.sink.frames()?, Instant::now());
            send(TURN)?;
            Ok((self.sink.frames()? - before, started.elapsed()))
        })
    }

    /// Nanoseconds of a run of the program itself, as the kernel says.
    fn timed(&self, components: usize, mut run_time: impl FnMut() -> Result<RunTime> + Send) -> Result<f64> {
        self.by(Sent::AsFrames, components, |send| {
            send(WARM_UP)?;
            let kept = Statistics::keep()?;
            let before = run_time()?;
            send(TURN)?;
            let ran = run_time()?.since(before);
            drop(kept);
            ensure!(ran.runs > 0, "the program did not run");
            Ok(ran.ns_per_run())
        })
    }

    /// Does something where packets are sent from, with what sends them for a time.
    fn by<T: Send>(
        &self,
        sent: Sent,
        components: usize,
        work: impl FnOnce(&mut dyn FnMut(Duration) -> Result<()>) -> Result<T> + Send,
    ) -> Result<T> {
        path::within(&self.street.name(Place::Asker), || {
            on_one_processor();
            let mut call: Box<dyn FnMut() -> Result<()>> = match sent {
                Sent::BySocket => Box::new(by_socket(components)?),
                Sent::AsFrames => {
                    let mut source = Source::load(self.asker.index, &self.frame(components))?;
                    Box::new(move || Ok(source.send(FRAMES)?))
                }
            };
            work(&mut |time| {
                let end = Instant::now() + time;
                while Instant::now() < end {
                    call()?;
                }
                Ok(())
            })
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
}

/// Sends datagrams of different names, as many as one call takes.
fn by_socket(components: usize) -> Result<impl FnMut() -> Result<()>> {
    let socket = UdpSocket::bind(path::end_address(Place::Asker, 0)).context("who asks has no socket")?;
    let mut interests = [(); BATCH].map(|()| interest(components));
    let to = path::middle_address(Place::Asker, PORT);
    let mut number = 0u32;
    Ok(move || {
        for interest in &mut interests {
            // The first component, behind six octets of types and lengths.
            number = number.wrapping_add(0x9e37_79b1);
            interest[6..10].copy_from_slice(&number.to_le_bytes());
        }
        let pieces = interests.each_ref().map(|interest| IoSlice::new(interest));
        let messages: [_; BATCH] =
            core::array::from_fn(|at| Message { peer: Some(to), pieces: (at, at + 1), segment: None });
        let mut at = 0;
        while at < BATCH {
            at += raw::send(socket.as_fd(), &messages[at..], &pieces).unwrap_or(1);
        }
        Ok(())
    })
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
