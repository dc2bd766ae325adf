//! IPv4 fragments that came before the first one of their packet.
//!
//! Only the first one has ports and a name, so the program can't tell where the others go until it has come. It gives them to this process
//! (`held` in `bpf/balancer.h`), which holds them for some tens of milliseconds. Once the program has noted the first one, they come by their
//! interface again, in a test run with live frames, and go where it went. What that takes is bounded: fragments held, and steps in a millisecond.

mod pool;

use super::maps::Maps;
use crate::error::{Cause, KernelError};
use crate::object::verified;
use aya::maps::{Array, HashMap, MapData, MapError, ProgramArray, RingBuf};
use aya::programs::{ProgramError, TestRun, TestRunAttrs, TestRunOptions, Xdp};
use aya::{Ebpf, EbpfLoader};
use pool::{Fragment, Pool};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::time::{ClockId, clock_gettime};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

static CODE: &[u8] = aya::include_bytes_aligned!(concat!(env!("OUT_DIR"), "/held.o"));
const AGAIN: &str = "nw_balance_again";
const RECEIVE: &str = "nw_receive";

/// Between two turns while something is held.
const TURN: Duration = Duration::from_millis(1);
/// Without anything held, whether to stop is looked at so often.
const IDLE: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
/// Fragments that are taken in one turn. More wait in the ring, and when that is full the program drops them.
const TAKEN_PER_TURN: usize = 256;
/// Packets whose first one is looked for in one turn.
const LOOKS_PER_TURN: usize = 128;
/// Fragments that go on in one turn.
const RELEASED_PER_TURN: usize = 16;
/// A note that is valid for less is not taken: the program would find it outdated.
const MARGIN_NS: u64 = 100_000_000;

/// `struct held_fragment` of `bpf/balancer.h`, up to its frame.
const HEAD: usize = 24;
/// An IPv4 header without options.
const IPV4_HEADER: usize = 20;

/// `struct ip_fragment`: which packet a fragment is of. From, to, identification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key([u32; 3]);

impl Key {
    const fn source(self) -> u32 {
        self.0[0]
    }
}

/// What became of fragments in one turn.
#[derive(Debug, Default)]
pub struct HeldReport {
    /// Those that came.
    pub taken: u64,
    /// Those that went on, as the first one of their packet had come.
    pub released: u64,
    /// Those that were dropped: the first one did not come in time, or what follows.
    pub lost: u64,
    /// Of the lost: there was no room to hold them.
    pub refused: u64,
    /// Why the kernel did not take one that should have gone on.
    pub error: Option<KernelError>,
}

/// The fragments that a balancer's program gave out. See [`Balancer::held_fragments`](super::Balancer::held_fragments).
pub struct HeldFragments {
    ring: RingBuf<MapData>,
    firsts: HashMap<MapData, [u32; 3], [u64; 2]>,
    lost: Array<MapData, u64>,
    programs: Ebpf,
    /// Interfaces where the program is in the driver.
    native: BTreeSet<u32>,
    pool: Pool,
}

impl std::fmt::Debug for HeldFragments {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HeldFragments")
            .field("native", &self.native)
            .field("pool", &self.pool)
            .finish_non_exhaustive()
    }
}

impl HeldFragments {
    pub(super) fn new(maps: &mut Maps, native: BTreeSet<u32>) -> Result<Self, Cause> {
        let mut programs = EbpfLoader::new().btf(None).load(CODE)?;
        let mut balance: ProgramArray<&mut MapData> =
            programs.map_mut("balance").ok_or(MapError::ElementNotFound)?.try_into()?;
        balance.set(0, maps.xdp()?.fd()?, 0)?;
        for name in [AGAIN, RECEIVE] {
            let program: &mut Xdp = programs.program_mut(name).ok_or(ProgramError::NotLoaded)?.try_into()?;
            verified(|| program.load())?;
        }
        Ok(HeldFragments {
            ring: maps.share("held")?.try_into()?,
            firsts: maps.share("ip_fragments")?.try_into()?,
            lost: maps.share("held_lost")?.try_into()?,
            programs,
            native,
            pool: Pool::default(),
        })
    }

    /// Holds and releases until `stop` is set; in the network namespace of the balancer's interfaces. `report` is given each turn in which one
    /// was lost.
    ///
    /// # Errors
    /// When the kernel's maps can't be read.
    pub fn run(&mut self, stop: &AtomicBool, mut report: impl FnMut(&HeldReport)) -> Result<(), KernelError> {
        let mut idle = true;
        while !stop.load(Ordering::Relaxed) {
            if idle {
                let mut ready = [PollFd::new(&self.ring, PollFlags::IN)];
                // A signal ends it early, which does no harm.
                let _ = poll(&mut ready, Some(&IDLE));
            } else {
                thread::sleep(TURN);
            }
            let turn = self.turn()?;
            // After one that came there may be more: the pause bounds what a flood of them takes.
            idle = turn.taken == 0 && self.pool.is_empty();
            if turn.lost > 0 {
                report(&turn);
            }
        }
        Ok(())
    }

    /// One step of it.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn turn(&mut self) -> Result<HeldReport, KernelError> {
        let mut report = HeldReport::default();
        self.take(&mut report);
        if self.pool.is_empty() && report.lost == 0 {
            return Ok(report);
        }
        let step = |held: &mut HeldFragments, report: &mut HeldReport| -> Result<(), Cause> {
            held.look()?;
            held.release(report);
            report.lost += held.pool.drop_expired(now_ns());
            if report.lost > 0 {
                let before = held.lost.get(&0, 0)?;
                held.lost.set(0, before.wrapping_add(report.lost), 0)?;
            }
            Ok(())
        };
        step(self, &mut report).map_err(|e| KernelError::of("holding fragments for the balancer", e))?;
        Ok(report)
    }

    /// Takes what the program gave out.
    fn take(&mut self, report: &mut HeldReport) {
        for _ in 0..TAKEN_PER_TURN {
            let Some(record) = self.ring.next() else { break };
            report.taken += 1;
            match fragment_of(&record, |source, outwards| self.pool.has_room(source, outwards)) {
                Some(fragment) => self.pool.insert(fragment),
                None => {
                    report.lost += 1;
                    report.refused += 1;
                }
            }
        }
    }

    /// Finds those whose first one has come.
    fn look(&mut self) -> Result<(), Cause> {
        let valid_ns = now_ns() + MARGIN_NS;
        for key in self.pool.next_keys(LOOKS_PER_TURN) {
            match self.firsts.get(&key.0, 0) {
                Ok([_, until_ns]) if until_ns > valid_ns => self.pool.release(key),
                Ok(_) | Err(MapError::KeyNotFound) => {}
                Err(e) => return Err(e.into()),
            }
        }
        Ok(())
    }

    fn release(&mut self, report: &mut HeldReport) {
        for _ in 0..RELEASED_PER_TURN {
            let Some(fragment) = self.pool.pop_ready() else { break };
            match self.receive(&fragment) {
                Ok(()) => report.released += 1,
                // Its interface is gone.
                Err(source) => {
                    report.lost += 1;
                    report.error =
                        Some(KernelError::of("bringing back a fragment that the balancer held", source));
                }
            }
        }
    }

    /// Has a frame come by its interface again.
    fn receive(&self, fragment: &Fragment) -> Result<(), Cause> {
        let name = if self.native.contains(&fragment.interface_index) { AGAIN } else { RECEIVE };
        let program: &Xdp = self.programs.program(name).ok_or(ProgramError::NotLoaded)?.try_into()?;
        // `struct xdp_md`: where the frame ends, and what it came by.
        let context = [0, fragment.frame.len() as u32, 0, fragment.interface_index, 0, 0];
        let context: Vec<u8> = context.iter().flat_map(|number| number.to_ne_bytes()).collect();
        program.test_run(TestRunOptions {
            data_in: Some(&fragment.frame),
            ctx_in: Some(&context),
            attrs: TestRunAttrs::new().xdp_live_frames(1),
            ..TestRunOptions::default()
        })?;
        Ok(())
    }
}

/// As the program's clock.
fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// What a record of the ring says, where there is room for it; copied only then.
fn fragment_of(record: &[u8], has_room: impl FnOnce(u32, bool) -> bool) -> Option<Fragment> {
    let (head, frame) = record.split_at_checked(HEAD)?;
    let word = |octets: &[u8], at: usize| Some(u32::from_ne_bytes(octets.get(at..at + 4)?.try_into().ok()?));
    let half = |at: usize| Some(u16::from_ne_bytes(head.get(at..at + 2)?.try_into().ok()?));
    let frame = frame.get(..word(head, 12)? as usize)?;
    let ip = frame.get(usize::from(half(20)?)..)?.get(..IPV4_HEADER)?;
    let id = u32::from(u16::from_ne_bytes([ip[4], ip[5]]));
    let key = Key([word(ip, 12)?, word(ip, 16)?, id]);
    let outwards = half(22)? != 0;
    if !has_room(key.source(), outwards) {
        return None;
    }
    let (tag, tag_type) = (half(16)?, half(18)?);
    let mut octets = Vec::with_capacity(frame.len() + 4);
    octets.extend_from_slice(frame.get(..12)?);
    if tag_type != 0 {
        octets.extend_from_slice(&tag_type.to_ne_bytes());
        octets.extend_from_slice(&tag.to_be_bytes());
    }
    octets.extend_from_slice(frame.get(12..)?);
    let at_ns = u64::from_ne_bytes(head.get(..8)?.try_into().ok()?);
    Some(Fragment { key, at_ns, outwards, interface_index: word(head, 8)?, frame: octets })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(tag: u16, tag_type: u16) -> Vec<u8> {
        let mut record = 77u64.to_ne_bytes().to_vec();
        for number in [5u32, 60] {
            record.extend_from_slice(&number.to_ne_bytes());
        }
        for number in [tag, tag_type, 14, 1] {
            record.extend_from_slice(&number.to_ne_bytes());
        }
        record.extend(0..60);
        record.resize(HEAD + 2016, 0xee);
        record
    }

    #[test]
    fn records_are_read_as_the_program_writes_them() {
        let word = |at: u8| u32::from_ne_bytes(std::array::from_fn(|i| at + i as u8));
        let id = u32::from(u16::from_ne_bytes([18, 19]));
        let fragment = fragment_of(&record(0, 0), |source, outwards| {
            assert_eq!((source, outwards), (word(26), true));
            true
        });
        let key = Key([word(26), word(30), id]);
        let frame: Vec<u8> = (0..60).collect();
        let expected = Fragment { key, at_ns: 77, outwards: true, interface_index: 5, frame };
        assert_eq!(fragment, Some(expected.clone()));
        // A tag that the system has taken off is put back.
        let tagged = fragment_of(&record(0x2005, 0x8100u16.to_be()), |_, _| true).expect("a fragment");
        let frame = [&expected.frame[..12], &[0x81, 0, 0x20, 5], &expected.frame[12..]].concat();
        assert_eq!(tagged, Fragment { frame, ..expected });
        assert_eq!(fragment_of(&record(0, 0), |_, _| false), None);
        for len in [0, 23, 24, 83] {
            assert_eq!(fragment_of(&record(0, 0)[..len], |_, _| true), None, "{len}");
        }
    }
}
