//! An object file with its maps: the common part of the reuseport and the XDP program.

use crate::counters::{REASONS, SHARDS, ShardCounters};
use crate::error::{Cause, KernelError, os_error};
use aya::maps::{Array, MapError, PerCpuArray};
use aya::programs::ProgramError;
use aya::{Ebpf, EbpfLoader};
use nw_name::HashKey;
use rustix::io::Errno;
use std::net::IpAddr;

/// Maximum number of UDP ports for XDP.
pub(crate) const PORTS_MAX: usize = 8;

/// The settings, as `struct config` in `bpf/ndn.h`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Config<'a> {
    pub key: &'a HashKey,
    pub shards: u8,
    pub ethernet: Option<u16>,
    pub ports: [u16; PORTS_MAX],
    /// The interface's own address and its multicast address; frames to others are left to the
    /// system.
    pub only: Option<[[u8; 6]; 2]>,
}

impl Config<'_> {
    /// Returns the structure as words: key (two words), shards and ethernet (32 bits each), eight
    /// ports in network order, two Ethernet addresses.
    fn words(&self) -> [u64; 7] {
        let [a, b] = self.key.words();
        let mut halves = [0; 8];
        halves[..4].copy_from_slice(&u32::from(self.shards).to_ne_bytes());
        halves[4..]
            .copy_from_slice(&self.ethernet.map_or(0, |vlan| 1 + u32::from(vlan)).to_ne_bytes());
        let mut ports = [0; 16];
        for (bytes, port) in ports.chunks_exact_mut(2).zip(self.ports) {
            bytes.copy_from_slice(&port.to_be_bytes());
        }
        let half = |at: usize| u64::from_ne_bytes(std::array::from_fn(|i| ports[at + i]));
        let [mac, group] = self.only.unwrap_or_default().map(|mac| {
            let mut bytes = [0; 8];
            bytes[..6].copy_from_slice(&mac);
            u64::from_le_bytes(bytes)
        });
        [a, b, u64::from_ne_bytes(halves), half(0), half(8), mac, group]
    }
}

/// Maximum number of attempts to load a program.
const LOADS_MAX: usize = 20;

/// Loads a program with `load`. The verifier stops with EAGAIN if a signal is pending for this
/// thread, which is no fault of the program: then loading is repeated.
pub(crate) fn verified(
    mut load: impl FnMut() -> Result<(), ProgramError>,
) -> Result<(), ProgramError> {
    for _ in 1..LOADS_MAX {
        match load() {
            Err(error) if os_error(&error) == Some(Errno::AGAIN) => {}
            done => return done,
        }
    }
    load()
}

/// A loaded object file. Its owner loads the programs, as it knows their types.
#[derive(Debug)]
pub(crate) struct Object {
    pub ebpf: Ebpf,
    pub shards: u8,
}

impl Object {
    /// Creates the maps. `sockets` is the capacity of the socket map.
    pub fn load(code: &[u8], config: &Config<'_>, sockets: u32) -> Result<Self, KernelError> {
        if !(1..=nw_wire::shard::SHARDS_MAX).contains(&config.shards) {
            return Err(KernelError::Shards(usize::from(config.shards)));
        }
        let mut ebpf = EbpfLoader::new()
            // None of the programs needs the running kernel's types, and reading them takes a
            // while.
            .btf(None)
            .map_max_entries("sockets", sockets)
            .load(code)
            .map_err(|e| KernelError::of("the maps of the shard programs", e))?;
        configure(&mut ebpf, config)
            .map_err(|e| KernelError::of("the shard programs' configuration", e))?;
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

/// Returns an address as the programs' maps hold it: two words of IPv6, with IPv4 mapped.
pub(crate) fn address_key(address: IpAddr) -> [u64; 2] {
    let bytes = match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    };
    let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
    [word(0), word(8)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use aya::sys::SyscallError;

    #[test]
    fn loading_is_repeated_while_a_signal_is_pending() {
        let failed = |errno: Errno| {
            ProgramError::SyscallError(SyscallError {
                call: "bpf_prog_load",
                io_error: errno.into(),
            })
        };
        let mut results = vec![Ok(()), Err(failed(Errno::AGAIN)), Err(failed(Errno::AGAIN))];
        verified(|| results.pop().expect("no more than are needed")).expect("the third time");
        let mut attempts = 0;
        let error = verified(|| {
            attempts += 1;
            Err(failed(if attempts == 2 { Errno::INVAL } else { Errno::AGAIN }))
        });
        assert_eq!((attempts, os_error(&error.expect_err("a fault"))), (2, Some(Errno::INVAL)));
        let mut attempts = 0;
        let error = verified(|| {
            attempts += 1;
            Err(failed(Errno::AGAIN))
        });
        assert_eq!(
            (attempts, os_error(&error.expect_err("a limit"))),
            (LOADS_MAX, Some(Errno::AGAIN))
        );
    }

    #[test]
    fn config_layout_equals_the_program_s() {
        let key = HashKey::new([1, 3, 0, 0]);
        let config = Config {
            key: &key,
            shards: 5,
            ethernet: Some(0),
            ports: [6363, 0, 0, 0, 0, 0, 0, 56_363],
            only: Some([[2, 0, 0, 0, 0, 1], [3, 0, 0, 0, 0, 2]]),
        };
        let bytes: Vec<u8> = config.words().iter().flat_map(|word| word.to_ne_bytes()).collect();
        assert_eq!(bytes[..16], [1u64.to_ne_bytes(), 3u64.to_ne_bytes()].concat());
        assert_eq!(bytes[16..24], [5u32.to_ne_bytes(), 1u32.to_ne_bytes()].concat());
        assert_eq!(bytes[24..26], 6363u16.to_be_bytes());
        assert_eq!(bytes[38..40], 56_363u16.to_be_bytes());
        assert_eq!(bytes[40..], [2, 0, 0, 0, 0, 1, 0, 0, 3, 0, 0, 0, 0, 2, 0, 0]);
    }
}
