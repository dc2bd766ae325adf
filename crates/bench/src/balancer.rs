//! `balancer/xdp`: Interests through the balancer's XDP program, compared with a program on the
//! same path that only swaps addresses.
//!
//! ```text
//!  sender: wire ══ veth ══ left: the balancer, or the swap ─▶ right ══ veth ══ wire: counted and dropped
//! ```
//!
//! There are two such paths, each with one of the programs, measured alternately for milliseconds,
//! because the speed of a virtual processor varies. The programs change paths, and each is loaded
//! again several times. Everything runs on one processor: sender, both veths, program, counter.
//! SendMethod by a socket (`sendmmsg`, 64 datagrams a call), packets pass the kernel's network
//! stack, as a router's packets do; sent as frames (`BPF_PROG_TEST_RUN`), they pass only the veths.

use crate::report::{Row, median};
use crate::veth::path::{self, LEFT, Position, RIGHT, VethPath, WIRE};
use anyhow::{Context, Result, ensure};
use nw_faces::interfaces::Interfaces;
use nw_faces::raw::{self, Message};
use nw_kernel::balancer::{
    AttachMode, Balancer, BalancerOptions, Hop, MemberEntry, RunTime, Sink, Source, Statistics,
    Swap,
};
use nw_name::{HashKey, Name};
use nw_slot_table::{Member, Table};
use nw_wire::InterestBuilder;
use std::io::IoSlice;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// Number of loads of both programs on each path: the placement in memory changes the speed by a
/// percent or two.
const LOADS: usize = 4;
/// Rounds per load, and measurements of each program per round.
const ROUNDS: usize = 12;
const MEASUREMENTS: usize = 6;
/// Rounds with frames, each with one measurement per program.
const FRAME_ROUNDS: usize = 3;
const MEASUREMENT: Duration = Duration::from_millis(5);
/// Unmeasured time before each measurement, in which neighbours are resolved and caches fill.
const WARM_UP: Duration = Duration::from_millis(1);
/// Runs per load in which every packet is timed.
const TIMED_RUNS: usize = 3;
/// Numbers of name components that are timed, 8 bytes each.
const COMPONENTS: [usize; 4] = [2, 4, 8, 16];
/// Number of name components for the measurement of rates.
const COMPONENTS_MEASURED: usize = 8;
const PORT: u16 = 6363;
const MEMBERS: u8 = 4;
/// Datagrams per system call.
const BATCH: usize = 64;
/// Frames per `BPF_PROG_TEST_RUN` call: the fixed 20 ms of a call are then less than half of its
/// time.
const FRAMES: u32 = 1 << 17;

/// How packets are sent to the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SendMethod {
    BySocket,
    AsFrames,
}

/// Measures the rows. Returns none if a path can't be made.
///
/// # Errors
/// If a program can't be attached, or no packet passes.
pub fn run(row: &str) -> Result<Vec<Row>> {
    let streets = match VethPath::new().and_then(|path| Ok([path, VethPath::new()?])) {
        Ok(streets) => streets,
        Err(error) => {
            eprintln!("{row} is left out: {error:#}");
            return Ok(Vec::new());
        }
    };
    let [first, second] = streets.each_ref().map(Path::new);
    let (first, second) = (first?, second?);
    let (mut socket, mut frames) = (Comparison::default(), Comparison::default());
    let mut timed = COMPONENTS.map(|components| (components, Comparison::default()));
    for [ours, theirs] in [[&first, &second], [&second, &first]].repeat(LOADS) {
        let (mut balancer, mut swap) = (ours.balancer()?, theirs.swap()?);
        for _ in 0..ROUNDS {
            socket.push(round(SendMethod::BySocket, MEASUREMENTS, [ours, theirs])?);
        }
        for _ in 0..FRAME_ROUNDS {
            frames.push(round(SendMethod::AsFrames, 1, [ours, theirs])?);
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
        Row::new(row, "ratio_to_swap", &socket.ratios()),
        socket.row(row, "packets_per_s"),
        Row::new(row, "ratio_to_swap_frames", &frames.ratios()),
        frames.row(row, "packets_per_s_frames"),
    ];
    rows.extend(
        timed
            .map(|(components, ns)| ns.row(row, &format!("ns_per_packet_{components}_components"))),
    );
    Ok(rows)
}

/// Returns packets per second of both programs, from this many measurements of each.
fn round(sent: SendMethod, turns: usize, paths: [&Path<'_>; 2]) -> Result<[f64; 2]> {
    let mut counted = [(0, Duration::ZERO); 2];
    for _ in 0..turns {
        for (path, (frames, time)) in paths.iter().zip(&mut counted) {
            let (more, took) = path.measure(sent)?;
            *frames += more;
            *time += took;
        }
    }
    ensure!(counted.iter().all(|(frames, _)| *frames > 0), "nothing came through");
    Ok(counted.map(|(frames, time)| frames as f64 / time.as_secs_f64()))
}

/// Figures of the balancer and of the swap, measured alternately.
#[derive(Default)]
struct Comparison {
    balancer: Vec<f64>,
    swap: Vec<f64>,
}

impl Comparison {
    fn push(&mut self, [balancer, swap]: [f64; 2]) {
        self.balancer.push(balancer);
        self.swap.push(swap);
    }

    fn ratios(&self) -> Vec<f64> {
        self.balancer.iter().zip(&self.swap).map(|(balancer, swap)| balancer / swap).collect()
    }

    fn row(&self, row: &str, unit: &str) -> Row {
        Row::new(row, unit, &self.balancer).with_reference(median(&self.swap))
    }
}

/// A path with its interfaces.
struct Path<'a> {
    path: &'a VethPath,
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
    fn new(path: &'a VethPath) -> Result<Self> {
        let right = interface(path, Position::Middle, RIGHT)?;
        let end = interface(path, Position::Answerer, WIRE)?;
        let sink = path::within(&path.name(Position::Answerer), || Ok(Sink::attach(end.index)?))?;
        let hop = Hop {
            interface_index: right.index,
            own_mac: right.mac,
            mac: end.mac,
            vlan: None,
            mtu_bytes: 1500,
        };
        let (asker, left) = (
            interface(path, Position::Downstream, WIRE)?,
            interface(path, Position::Middle, LEFT)?,
        );
        Ok(Path { path, sink, asker, left, hop })
    }

    /// Attaches the balancer to the left interface, with members behind the right one. Dropping it
    /// detaches the program.
    fn balancer(&self) -> Result<Balancer> {
        let options = BalancerOptions {
            key: HashKey::new([1, 2, 3, 4]),
            cluster_v4: Some(v4(path::forwarder_address(Position::Downstream, PORT))),
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
        let member =
            |number: u8| Member { number, id: number.into(), weight: 100, accepts_names: true };
        let members: Vec<_> = (1..=MEMBERS).map(member).collect();
        balancer.set_slots(Table::compute(&members, 1).slots())?;
        path::within(&self.path.name(Position::Middle), || {
            Ok(balancer.attach(LEFT, Some(AttachMode::Native))?)
        })?;
        Ok(balancer)
    }

    /// Attaches the swap program at the same interface.
    fn swap(&self) -> Result<Swap> {
        let mut swap = Swap::load(&self.hop)?;
        path::within(&self.path.name(Position::Middle), || Ok(swap.attach(self.left.index)?))?;
        Ok(swap)
    }

    /// Sends for one measurement. Returns the packets that passed and the time.
    fn measure(&self, sent: SendMethod) -> Result<(u64, Duration)> {
        self.with_sender(sent, COMPONENTS_MEASURED, |send| {
            send(WARM_UP)?;
            let (before, started) = (self.sink.frames()?, Instant::now());
            send(MEASUREMENT)?;
            Ok((self.sink.frames()? - before, started.elapsed()))
        })
    }

    /// Returns nanoseconds per run of the program, from the kernel's statistics.
    fn timed(
        &self,
        components: usize,
        mut run_time: impl FnMut() -> Result<RunTime> + Send,
    ) -> Result<f64> {
        self.with_sender(SendMethod::AsFrames, components, |send| {
            send(WARM_UP)?;
            let kept = Statistics::enable()?;
            let before = run_time()?;
            send(MEASUREMENT)?;
            let ran = run_time()?.since(before);
            drop(kept);
            ensure!(ran.runs > 0, "the program did not run");
            Ok(ran.ns_per_run())
        })
    }

    /// Runs `work` in the sender's namespace, with the function that sends packets.
    fn with_sender<T: Send>(
        &self,
        sent: SendMethod,
        components: usize,
        work: impl FnOnce(&mut dyn FnMut(Duration) -> Result<()>) -> Result<T> + Send,
    ) -> Result<T> {
        path::within(&self.path.name(Position::Downstream), || {
            bind_to_one_processor();
            let mut call: Box<dyn FnMut() -> Result<()>> = match sent {
                SendMethod::BySocket => Box::new(socket_sender(components)?),
                SendMethod::AsFrames => {
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

    /// Returns a frame with an Interest to the cluster.
    fn frame(&self, components: usize) -> Vec<u8> {
        let interest = interest(components);
        let len = (20 + 8 + interest.len()) as u16;
        let mut frame = [self.left.mac, self.asker.mac].concat();
        frame.extend_from_slice(&[8, 0, 0x45, 0]);
        frame.extend_from_slice(&len.to_be_bytes());
        frame.extend_from_slice(&[0, 0, 0x40, 0, 64, 17, 0, 0]);
        frame.extend_from_slice(&v4(path::end_address(Position::Downstream, PORT)).octets());
        frame.extend_from_slice(&v4(path::forwarder_address(Position::Downstream, PORT)).octets());
        let sum = checksum(&frame[14..34]);
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
        // The UDP checksum is not verified here, but the program has to update one that is not 0.
        for word in [40_000, PORT, len - 20, 1] {
            frame.extend_from_slice(&word.to_be_bytes());
        }
        frame.extend_from_slice(&interest);
        frame
    }
}

/// Returns a function that sends one batch of datagrams with different names.
fn socket_sender(components: usize) -> Result<impl FnMut() -> Result<()>> {
    let socket = UdpSocket::bind(path::end_address(Position::Downstream, 0))
        .context("who asks has no socket")?;
    let mut interests = [(); BATCH].map(|()| interest(components));
    let to = path::forwarder_address(Position::Downstream, PORT);
    let mut number = 0u32;
    Ok(move || {
        for interest in &mut interests {
            // The first component follows six bytes of types and lengths.
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
        Ok(())
    })
}

fn interest(components: usize) -> Vec<u8> {
    let name = (0..components)
        .fold(Name::new(), |name, at| name.with_generic(format!("part-{at:03}").as_bytes()));
    InterestBuilder::new(name).nonce(7).encode()
}

/// Binds this thread, and the kernel work that it causes, to one processor.
fn bind_to_one_processor() {
    let mut set = rustix::thread::CpuSet::new();
    set.set(0);
    // Without the permission, the figures only spread more.
    let _ = rustix::thread::sched_setaffinity(None, &set);
}

fn interface(path: &VethPath, place: Position, name: &str) -> Result<Interface> {
    path::within(&path.name(place), || {
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

/// Returns the IPv4 checksum of a header whose checksum field is 0.
fn checksum(head: &[u8]) -> u16 {
    let mut sum: u32 =
        head.chunks_exact(2).map(|two| u32::from(u16::from_be_bytes([two[0], two[1]]))).sum();
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
    fn interest_first_component_is_at_patched_offset() {
        for components in COMPONENTS {
            let mut wire = interest(components);
            assert_eq!(&wire[6..14], b"part-000");
            wire[6..10].copy_from_slice(b"soup");
            let seen = Interest::check(&wire).expect("still an Interest");
            assert_eq!(seen.name().len(), components);
        }
    }

    #[test]
    fn checksum_matches_rfc_1071_example() {
        // A widely published example of RFC 1071's algorithm.
        let head = [
            0x45, 0, 0, 0x73, 0, 0, 0x40, 0, 0x40, 0x11, 0, 0, 0xc0, 0xa8, 0, 1, 0xc0, 0xa8, 0,
            0xc7,
        ];
        assert_eq!(checksum(&head), 0xb861);
    }
}
