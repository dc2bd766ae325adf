//! Holds IPv4 fragments that arrived before the first fragment of their packet.
//!
//! Only the first fragment has ports and a name, so the program can't route the others before it.
//! It passes them to this process (map `held` in `bpf/balancer.h`), which holds them for at most 50
//! ms. Once the program has recorded the first fragment, the held ones are injected at their
//! interface again, by a test run with live frames, and follow it. Bounded: the number of held
//! fragments, and the work per millisecond.

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
/// Injects a frame into the balancer's program (native XDP).
const BALANCE_AGAIN: &str = "nw_balance_again";
/// Injects a frame into the system (generic XDP, traffic control).
const RECEIVE: &str = "nw_receive";

/// Time between two ticks while fragments are held.
const TICK: Duration = Duration::from_millis(1);
/// Maximum time before `stop` is checked while nothing is held.
const IDLE: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
/// Fragments read per tick. Others wait in the ring; when that is full, the program drops them.
const READS_PER_TICK: usize = 256;
/// Packets whose first fragment is looked up per tick.
const LOOKUPS_PER_TICK: usize = 128;
/// Fragments released per tick.
const RELEASES_PER_TICK: usize = 16;
/// A first fragment's record must be valid for at least this long, as the program checks it again.
const MARGIN_NS: u64 = 100_000_000;

/// Length of `struct held_fragment` in `bpf/balancer.h` before its frame, bytes.
const RECORD_HEADER_LEN: usize = 24;
/// Length of an IPv4 header without options, bytes.
const IPV4_HEADER: usize = 20;

/// The identity of a fragmented packet (`struct ip_fragment`): source, destination, identification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key([u32; 3]);

impl Key {
    const fn source(self) -> u32 {
        self.0[0]
    }
}

/// The outcome of one tick.
#[derive(Debug, Default)]
pub struct HeldReport {
    /// Fragments read from the ring.
    pub taken: u64,
    /// Fragments released after the first one of their packet.
    pub released: u64,
    /// Fragments dropped: the first one did not arrive in time, or as below.
    pub lost: u64,
    /// Of the lost: dropped as there was no space.
    pub refused: u64,
    /// The error of a fragment that could not be injected.
    pub error: Option<KernelError>,
}

/// The buffer of held fragments. [`Balancer::held_fragments`](super::Balancer::held_fragments)
/// creates it.
pub struct HeldFragments {
    ring: RingBuf<MapData>,
    firsts: HashMap<MapData, [u32; 3], [u64; 2]>,
    lost: Array<MapData, u64>,
    programs: Ebpf,
    /// Interfaces with the program in the driver.
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
        for name in [BALANCE_AGAIN, RECEIVE] {
            let program: &mut Xdp =
                programs.program_mut(name).ok_or(ProgramError::NotLoaded)?.try_into()?;
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

    /// Holds and releases fragments until `stop` is set. Must run in the network namespace of the
    /// balancer's interfaces. `report` receives each tick with lost fragments.
    ///
    /// # Errors
    /// The kernel's maps can't be read.
    pub fn run(
        &mut self,
        stop: &AtomicBool,
        mut report: impl FnMut(&HeldReport),
    ) -> Result<(), KernelError> {
        let mut idle = true;
        while !stop.load(Ordering::Relaxed) {
            if idle {
                let mut ready = [PollFd::new(&self.ring, PollFlags::IN)];
                // A signal ends the wait early, which is harmless.
                let _ = poll(&mut ready, Some(&IDLE));
            } else {
                thread::sleep(TICK);
            }
            let outcome = self.tick()?;
            // After a fragment more may follow: sleeping bounds the work that a flood causes.
            idle = outcome.taken == 0 && self.pool.is_empty();
            if outcome.lost > 0 {
                report(&outcome);
            }
        }
        Ok(())
    }

    /// Runs one tick: reads, releases and expires fragments.
    ///
    /// # Errors
    /// The kernel's maps can't be read.
    pub fn tick(&mut self) -> Result<HeldReport, KernelError> {
        let mut report = HeldReport::default();
        self.read_ring(&mut report);
        if self.pool.is_empty() && report.lost == 0 {
            return Ok(report);
        }
        let step = |held: &mut HeldFragments, report: &mut HeldReport| -> Result<(), Cause> {
            held.find_released()?;
            held.release(report);
            report.lost += held.pool.drop_expired(now_ns());
            if report.lost > 0 {
                let before = held.lost.get(&0, 0)?;
                held.lost.set(0, before.wrapping_add(report.lost), 0)?;
            }
            Ok(())
        };
        step(self, &mut report)
            .map_err(|e| KernelError::of("holding fragments for the balancer", e))?;
        Ok(report)
    }

    /// Reads fragments from the ring.
    fn read_ring(&mut self, report: &mut HeldReport) {
        for _ in 0..READS_PER_TICK {
            let Some(record) = self.ring.next() else { break };
            report.taken += 1;
            match fragment_of(&record, |source, outwards| self.pool.has_capacity(source, outwards))
            {
                Some(fragment) => self.pool.insert(fragment),
                None => {
                    report.lost += 1;
                    report.refused += 1;
                }
            }
        }
    }

    /// Releases the fragments whose first one has arrived.
    fn find_released(&mut self) -> Result<(), Cause> {
        let valid_ns = now_ns() + MARGIN_NS;
        for key in self.pool.next_keys(LOOKUPS_PER_TICK) {
            match self.firsts.get(&key.0, 0) {
                Ok([_, until_ns]) if until_ns > valid_ns => self.pool.release(key),
                Ok(_) | Err(MapError::KeyNotFound) => {}
                Err(e) => return Err(e.into()),
            }
        }
        Ok(())
    }

    fn release(&mut self, report: &mut HeldReport) {
        for _ in 0..RELEASES_PER_TICK {
            let Some(fragment) = self.pool.pop_ready() else { break };
            match self.inject(&fragment) {
                Ok(()) => report.released += 1,
                // For example, its interface was removed.
                Err(source) => {
                    report.lost += 1;
                    report.error = Some(KernelError::of(
                        "injecting a fragment that the balancer held",
                        source,
                    ));
                }
            }
        }
    }

    /// Injects a frame at its interface.
    fn inject(&self, fragment: &Fragment) -> Result<(), Cause> {
        let name =
            if self.native.contains(&fragment.interface_index) { BALANCE_AGAIN } else { RECEIVE };
        let program: &Xdp =
            self.programs.program(name).ok_or(ProgramError::NotLoaded)?.try_into()?;
        // `struct xdp_md`: the end of the frame, and its ingress interface.
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

/// Returns the time on the program's clock (monotonic), nanoseconds.
fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Parses a record of the ring. `None` if it is malformed, or there is no capacity (then nothing is
/// copied).
fn fragment_of(record: &[u8], has_capacity: impl FnOnce(u32, bool) -> bool) -> Option<Fragment> {
    let (head, frame) = record.split_at_checked(RECORD_HEADER_LEN)?;
    let word =
        |bytes: &[u8], at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let half = |at: usize| Some(u16::from_ne_bytes(head.get(at..at + 2)?.try_into().ok()?));
    let frame = frame.get(..word(head, 12)? as usize)?;
    let ip = frame.get(usize::from(half(20)?)..)?.get(..IPV4_HEADER)?;
    let id = u32::from(u16::from_ne_bytes([ip[4], ip[5]]));
    let key = Key([word(ip, 12)?, word(ip, 16)?, id]);
    let outwards = half(22)? != 0;
    if !has_capacity(key.source(), outwards) {
        return None;
    }
    let (tag, tag_type) = (half(16)?, half(18)?);
    let mut bytes = Vec::with_capacity(frame.len() + 4);
    bytes.extend_from_slice(frame.get(..12)?);
    if tag_type != 0 {
        bytes.extend_from_slice(&tag_type.to_ne_bytes());
        bytes.extend_from_slice(&tag.to_be_bytes());
    }
    bytes.extend_from_slice(frame.get(12..)?);
    let at_ns = u64::from_ne_bytes(head.get(..8)?.try_into().ok()?);
    Some(Fragment { key, at_ns, outwards, interface_index: word(head, 8)?, frame: bytes })
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
        record.resize(RECORD_HEADER_LEN + 2016, 0xee);
        record
    }

    #[test]
    fn record_is_parsed_as_the_program_writes_it() {
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
        // A VLAN tag removed by the system is restored.
        let tagged =
            fragment_of(&record(0x2005, 0x8100u16.to_be()), |_, _| true).expect("a fragment");
        let frame = [&expected.frame[..12], &[0x81, 0, 0x20, 5], &expected.frame[12..]].concat();
        assert_eq!(tagged, Fragment { frame, ..expected });
        assert_eq!(fragment_of(&record(0, 0), |_, _| false), None);
        for len in [0, 23, 24, 83] {
            assert_eq!(fragment_of(&record(0, 0)[..len], |_, _| true), None, "{len}");
        }
    }
}
