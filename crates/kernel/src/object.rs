//! One compiled program with its maps, as the reuseport and the XDP side both need it.

use crate::counters::{REASONS, SHARDS, ShardCounters};
use crate::error::{Cause, KernelError, os_error};
use aya::maps::{Array, MapError, PerCpuArray};
use aya::programs::ProgramError;
use aya::{Ebpf, EbpfLoader};
use nw_name::HashKey;
use rustix::io::Errno;

/// UDP ports that XDP may look for.
pub(crate) const PORTS_MAX: usize = 8;

/// `struct config` of `bpf/ndn.h`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Config<'a> {
    pub key: &'a HashKey,
    pub shards: u8,
    pub ethernet: Option<u16>,
    pub ports: [u16; PORTS_MAX],
    /// The interface's own address and its group's, where frames to others are left alone.
    pub only: Option<[[u8; 6]; 2]>,
}

impl Config<'_> {
    /// Its octets as words of this machine: key (two words), shards and ethernet (32 bits each), eight ports in network order, two
    /// Ethernet addresses.
    fn words(&self) -> [u64; 7] {
        let [a, b] = self.key.words();
        let mut halves = [0; 8];
        halves[..4].copy_from_slice(&u32::from(self.shards).to_ne_bytes());
        halves[4..].copy_from_slice(&self.ethernet.map_or(0, |vlan| 1 + u32::from(vlan)).to_ne_bytes());
        let mut ports = [0; 16];
        for (octets, port) in ports.chunks_exact_mut(2).zip(self.ports) {
            octets.copy_from_slice(&port.to_be_bytes());
        }
        let half = |at: usize| u64::from_ne_bytes(std::array::from_fn(|i| ports[at + i]));
        let [mac, group] = self.only.unwrap_or_default().map(|mac| {
            let mut octets = [0; 8];
            octets[..6].copy_from_slice(&mac);
            u64::from_le_bytes(octets)
        });
        [a, b, u64::from_ne_bytes(halves), half(0), half(8), mac, group]
    }
}

/// The kernel is asked to verify a program so often at most.
const LOADS_MAX: usize = 20;

/// Has the kernel verify a program by `load`. It stops and says EAGAIN when a signal waits for this thread, which tells nothing of the program: it is
/// asked again then.
pub(crate) fn verified(mut load: impl FnMut() -> Result<(), ProgramError>) -> Result<(), ProgramError> {
    for _ in 1..LOADS_MAX {
        match load() {
            Err(error) if os_error(&error) == Some(Errno::AGAIN) => {}
            done => return done,
        }
    }
    load()
}

/// A loaded object; its programs are loaded by whoever knows their type.
#[derive(Debug)]
pub(crate) struct Object {
    pub ebpf: Ebpf,
    pub shards: u8,
}

impl Object {
    /// Makes the maps. `sockets` is the room of the map of sockets.
    pub fn load(code: &[u8], config: &Config<'_>, sockets: u32) -> Result<Self, KernelError> {
        if !(1..=nw_wire::shard::SHARDS_MAX).contains(&config.shards) {
            return Err(KernelError::Shards(usize::from(config.shards)));
        }
        let mut ebpf = EbpfLoader::new()
            // The running kernel's own types matter to none of the programs, and reading them takes a while.
            .btf(None)
            .map_max_entries("sockets", sockets)
            .load(code)
            .map_err(|e| KernelError::of("the maps of the shard programs", e))?;
        configure(&mut ebpf, config).map_err(|e| KernelError::of("the shard programs' configuration", e))?;
        Ok(Object { ebpf, shards: config.shards })
    }

    pub fn counters(&self) -> Result<ShardCounters, KernelError> {
        self.read_counters().map_err(|e| KernelError::of("reading the shard programs' counters", e))
    }

    fn read_counters(&self) -> Result<ShardCounters, Cause> {
        let map = self.ebpf.map("counters").ok_or("the program has no map `counters`")?;
        let map: PerCpuArray<_, [u64; REASONS + SHARDS]> = map.try_into()?;
        let mut sum = ShardCounters::new(self.shards);
        map.get(&0, 0)?.iter().for_each(|counted| sum.add(counted));
        Ok(sum)
    }
}

fn configure(ebpf: &mut Ebpf, config: &Config<'_>) -> Result<(), MapError> {
    let map = ebpf.map_mut("config").ok_or(MapError::ElementNotFound)?;
    let mut map: Array<_, [u64; 7]> = map.try_into()?;
    map.set(0, config.words(), 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use aya::sys::SyscallError;

    #[test]
    fn a_signal_that_waits_is_no_reason_to_give_up() {
        let says = |errno: Errno| {
            ProgramError::SyscallError(SyscallError { call: "bpf_prog_load", io_error: errno.into() })
        };
        let mut answers = vec![Ok(()), Err(says(Errno::AGAIN)), Err(says(Errno::AGAIN))];
        verified(|| answers.pop().expect("no more than are needed")).expect("the third time");
        let mut asked = 0;
        let error = verified(|| {
            asked += 1;
            Err(says(if asked == 2 { Errno::INVAL } else { Errno::AGAIN }))
        });
        assert_eq!((asked, os_error(&error.expect_err("a fault"))), (2, Some(Errno::INVAL)));
        let mut asked = 0;
        let error = verified(|| {
            asked += 1;
            Err(says(Errno::AGAIN))
        });
        assert_eq!((asked, os_error(&error.expect_err("no end of it"))), (LOADS_MAX, Some(Errno::AGAIN)));
    }

    #[test]
    fn configuration_is_laid_out_as_the_program_reads_it() {
        let key = HashKey::new([1, 3, 0, 0]);
        let config = Config {
            key: &key,
            shards: 5,
            ethernet: Some(0),
            ports: [6363, 0, 0, 0, 0, 0, 0, 56_363],
            only: Some([[2, 0, 0, 0, 0, 1], [3, 0, 0, 0, 0, 2]]),
        };
        let octets: Vec<u8> = config.words().iter().flat_map(|word| word.to_ne_bytes()).collect();
        assert_eq!(octets[..16], [1u64.to_ne_bytes(), 3u64.to_ne_bytes()].concat());
        assert_eq!(octets[16..24], [5u32.to_ne_bytes(), 1u32.to_ne_bytes()].concat());
        assert_eq!(octets[24..26], 6363u16.to_be_bytes());
        assert_eq!(octets[38..40], 56_363u16.to_be_bytes());
        assert_eq!(octets[40..], [2, 0, 0, 0, 0, 1, 0, 0, 3, 0, 0, 0, 0, 2, 0, 0]);
    }
}
