//! Converts the configuration to the parameters of faces and tables.

use crate::placement::Machine;
use crate::plane::Plane;
use core::time::Duration;
use nw_api::config::{Config, ContentStore, CsPolicy, InterfacePattern};
use nw_elements::RouterConfig;
use nw_faces::FacesConfig;
use nw_faces::config::{ReassemblyLimits, ReliabilityLimits, Reliable, WebSocketConfig};
use nw_faces::interfaces::filter::{Filter, Pattern};
use nw_faces::interfaces::policy::{EtherPolicy, GroupPolicy, InterfacePolicy};
use nw_faces::mac::Mac;
use nw_name::HashKey;
use nw_tables::cs::{CsConfig, PolicyKind};
use nw_tables::fib::FibConfig;
use nw_tables::pit::PitConfig;

/// Returns the parameters of one shard's faces.
pub fn faces(config: &Config, share: ShardShare) -> FacesConfig {
    const MIB: usize = 1024 * 1024;
    let kib = |kib: u32| kib as usize * 1024;
    FacesConfig {
        faces_max: config.faces.max as usize,
        queue_bytes_max: kib(config.faces.queue_kib),
        queues_bytes_max: share.send_queue_bytes(config.faces.queues_mib as usize * MIB),
        stream_send_buffer: kib(config.faces.stream_buffer_kib),
        udp_receive_buffer: kib(config.udp.receive_buffer_kib),
        udp_send_buffer: kib(config.udp.send_buffer_kib),
        udp_mtu: config.udp.mtu as usize,
        ether_idle: Duration::from_secs(u64::from(config.ethernet.idle_timeout_s)),
        udp_idle: Duration::from_secs(u64::from(config.udp.idle_timeout_s)),
        loopback_udp_local: config.udp.loopback_is_local,
        congestion_marking: config.faces.congestion_marking,
        marking_interval: Duration::from_millis(u64::from(config.faces.marking_interval_ms)),
        marking_threshold: u64::from(config.faces.marking_threshold_kib) * 1024,
        interest_shaping: config.faces.interest_shaping,
        reassembly: ReassemblyLimits {
            bytes_max_all: share.part_of(config.faces.reassembly_mib as usize * MIB),
            timeout: Duration::from_millis(u64::from(config.faces.reassembly_timeout_ms)),
            ..ReassemblyLimits::default()
        },
        reliable: Reliable {
            unix: config.unix.reliability,
            tcp: config.tcp.reliability,
            udp: config.udp.reliability,
        },
        reliability: ReliabilityLimits {
            bytes_max: kib(config.faces.reliability_kib),
            ..ReliabilityLimits::default()
        },
        burst_bytes_max: if config.udp.burst_kib == 0 {
            usize::MAX
        } else {
            kib(config.udp.burst_kib)
        },
        burst_pause: Duration::from_micros(u64::from(config.udp.burst_pause_us)),
        share_ports: config.forwarder.shards > 1,
        // All packets read in one iteration must fit into the ring to another shard.
        udp_reads_per_turn: if config.forwarder.shards > 1 {
            1
        } else {
            FacesConfig::default().udp_reads_per_turn
        },
        websocket: websocket(config),
        reconnect_max: Duration::from_secs(u64::from(config.faces.reconnect_max_s)),
        ..FacesConfig::default()
    }
}

fn websocket(config: &Config) -> WebSocketConfig {
    let config = &config.websocket;
    WebSocketConfig {
        faces_max: config.connections as usize,
        ping_interval: Duration::from_secs(u64::from(config.ping_interval_s)),
        loopback_local: config.loopback_is_local,
        local_origins: config.local_origins.iter().map(|origin| origin.0.clone()).collect(),
        other_origins: config.other_origins,
        ..WebSocketConfig::default()
    }
}

/// Returns which multicast and Ethernet faces are created for network interfaces.
pub fn interfaces(config: &Config) -> InterfacePolicy {
    let (udp, ethernet) = (&config.multicast, &config.ethernet);
    InterfacePolicy {
        udp: udp.enabled.then(|| GroupPolicy {
            groups: udp.groups.clone(),
            ad_hoc: udp.ad_hoc,
            filter: interface_filter(&udp.allow, &udp.deny),
        }),
        ethernet: Some(EtherPolicy {
            multicast: ethernet.multicast,
            listen: ethernet.listen,
            group: Mac(ethernet.group.0.0),
            vlan: ethernet.vlan as u16,
            ad_hoc: ethernet.ad_hoc,
            filter: interface_filter(&ethernet.allow, &ethernet.deny),
        }),
    }
}

/// Returns the filter for interfaces that use AF_XDP. `None` if there are none.
pub fn xdp(config: &Config) -> Option<Filter> {
    let interfaces = &config.xdp.interfaces;
    (!interfaces.is_empty()).then(|| interface_filter(interfaces, &[]))
}

fn interface_filter(whitelist: &[InterfacePattern], blacklist: &[InterfacePattern]) -> Filter {
    let pattern = |pattern: &InterfacePattern| match pattern {
        InterfacePattern::Name(name) => Pattern::Name(name.as_str().into()),
        InterfacePattern::Mac(mac) => Pattern::Mac(Mac(mac.0)),
        InterfacePattern::Subnet(network, bits) => Pattern::Subnet(*network, *bits),
    };
    let patterns = |list: &[InterfacePattern]| list.iter().map(pattern).collect();
    Filter { allow: patterns(whitelist), deny: patterns(blacklist) }
}

/// One shard's part of the router's tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardShare {
    /// Index of the shard.
    pub shard: usize,
    /// Number of shards.
    pub shards: usize,
}

impl ShardShare {
    #[cfg(test)]
    pub const WHOLE: ShardShare = ShardShare { shard: 0, shards: 1 };

    /// Returns this shard's part of a total; the parts add up to it.
    pub const fn part_of(self, total: usize) -> usize {
        total / self.shards + (self.shard < total % self.shards) as usize
    }
}

impl ShardShare {
    /// Returns this shard's part of the memory for send queues: the first shard, which has all
    /// stream faces, gets half.
    const fn send_queue_bytes(self, total: usize) -> usize {
        match (self.shards, self.shard) {
            (1, _) => total,
            (_, 0) => total / 2,
            (shards, _) => total / 2 / (shards - 1),
        }
    }
}

/// Returns the bounds of a FIB.
pub fn fib(config: &Config) -> FibConfig {
    FibConfig {
        next_hops_per_prefix_max: config.tables.next_hops_per_prefix as usize,
        ..FibConfig::new(config.tables.fib_prefixes as usize)
    }
}

/// Bytes of address space that a process needs without tables: program, libraries, buffers.
const SPACE_BASE: u64 = 192 << 20;
/// Bytes of address space per thread: its stack, and the arena that the allocator reserves for it.
const SPACE_PER_SHARD: u64 = 136 << 20;

/// Returns upper bounds of the address space of each table, in bytes, by option. A test compares
/// them with what is mapped.
pub fn address_space(config: &Config) -> Vec<(&'static str, u64)> {
    let tables = &config.tables;
    let (prefixes, shards) =
        (u64::from(tables.fib_prefixes), u64::from(config.forwarder.shards.max(1)));
    // The first shard's own, and the two replicas that other shards read.
    let fibs = if shards > 1 { 3 } else { 1 };
    let store = &config.content_store;
    vec![
        ("tables.pit_entries", u64::from(tables.pit_entries) * 1024),
        ("tables.fib_prefixes", prefixes * 512 * fibs),
        ("tables.dead_nonces", u64::from(tables.dead_nonces) * 16),
        ("tables.measurements", u64::from(tables.measurements) * 640),
        ("content_store.packets", u64::from(store.packets) * 160),
        // In size classes, each with capacity for what the others have.
        ("content_store.mib", (u64::from(store.mib) << 20) * 3 / 2),
    ]
}

/// Checks that the process may map the address space of its tables: `ulimit -v`, LimitAS= of a
/// unit, or strict overcommit may forbid it.
///
/// # Errors
/// A text with the size needed and the options that make it smaller.
pub fn address_space_fits(config: &Config) -> Result<(), String> {
    let mut config = config.clone();
    if config.forwarder.shards == 0 {
        config.forwarder.shards = Machine::detect().shards() as u32;
    }
    let parts = address_space(&config);
    let shards = u64::from(config.forwarder.shards);
    let tables: u64 = parts.iter().map(|(_, bytes)| bytes).sum();
    let needed = tables + SPACE_BASE + shards * SPACE_PER_SHARD;
    if nw_tables::memory::can_map(needed) {
        return Ok(());
    }
    let mib = |bytes: u64| bytes.div_ceil(1 << 20);
    let mut largest = parts;
    largest.sort_by_key(|(_, bytes)| core::cmp::Reverse(*bytes));
    let largest: Vec<_> = largest
        .iter()
        .take(3)
        .map(|(option, bytes)| format!("{option} ({} MiB)", mib(*bytes)))
        .collect();
    Err(format!(
        "this process may not have the {} MiB of address space that its tables and content store may \
         need: raise `ulimit -v` (LimitAS= in a unit), or make these options smaller: {}",
        mib(needed),
        largest.join(", ")
    ))
}

/// Creates the forwarding plane of one shard with its tables.
pub fn plane(config: &Config, key: HashKey, seed: u64, share: ShardShare) -> Plane {
    let tables = &config.tables;
    let part = |total: u32| share.part_of(total as usize).max(1);
    let router = RouterConfig {
        shard: share.shard as u8,
        pit: PitConfig::for_entries(part(tables.pit_entries)),
        fib: fib(config),
        dead_nonces: part(tables.dead_nonces),
        upstream_tokens: config.forwarder.upstream_tokens,
        accept_data_from_any_face: config.forwarder.accept_data_from_any_face,
        lifetime_max_ms: tables.lifetime_max_s * 1000,
        measurements: part(tables.measurements),
        ..RouterConfig::default()
    };
    let store = cs_bounds(&config.content_store, share);
    let mut plane = Plane::new(key, seed, router, store);
    let store = plane.content_store_mut().store_mut();
    store.set_policy(cache_policy(config.content_store.policy));
    store.set_admit(config.content_store.admit);
    store.set_serve(config.content_store.serve);
    plane.set_regions(config.forwarder.regions.clone());
    let per_face = match tables.pit_entries_per_face {
        0 => tables.pit_entries / 2,
        limit => limit,
    };
    plane.set_face_limit(per_face.div_ceil(share.shards as u32));
    plane
}

/// Applies the differences between two configurations of the content store. Returns `false` if its
/// memory was allocated for less than is configured now.
pub fn change_store(
    plane: &mut Plane,
    before: &ContentStore,
    after: &ContentStore,
    share: ShardShare,
) -> bool {
    let store = plane.content_store_mut().store_mut();
    if before.policy != after.policy {
        store.set_policy(cache_policy(after.policy));
    }
    if before.admit != after.admit {
        store.set_admit(after.admit);
    }
    if before.serve != after.serve {
        store.set_serve(after.serve);
    }
    if (before.packets, before.mib) == (after.packets, after.mib) {
        return true;
    }
    let (limits, capacity) = (cs_bounds(after, share), store.capacity());
    store.set_limits(limits.packets_max, limits.bytes_max);
    limits.packets_max <= capacity.packets_max && limits.bytes_max <= capacity.bytes_max
}

const fn cs_bounds(store: &ContentStore, share: ShardShare) -> CsConfig {
    CsConfig {
        packets_max: share.part_of(store.packets as usize),
        bytes_max: share.part_of(store.mib as usize * 1024 * 1024),
    }
}

const fn cache_policy(policy: CsPolicy) -> PolicyKind {
    match policy {
        CsPolicy::Lru => PolicyKind::Lru,
        CsPolicy::PriorityFifo => PolicyKind::PriorityFifo,
        CsPolicy::S3Fifo => PolicyKind::S3Fifo,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Attempts to measure without disturbance by other tests.
    const MEASUREMENTS_MAX: usize = 64;

    fn mapped_bytes() -> u64 {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmSize:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
    }

    #[test]
    fn address_space_estimate_is_between_mapped_size_and_twice_of_it() {
        for text in [
            "[tables]\npit_entries = 4000000",
            "[tables]\nfib_prefixes = 4000000",
            "[tables]\ndead_nonces = 16000000",
            "[tables]\nmeasurements = 4000000",
            "[content_store]\npackets = 8000000",
            "[content_store]\nmib = 4096",
            "",
        ] {
            let config = Config::parse("test", text).unwrap();
            let estimate: u64 = address_space(&config).iter().map(|(_, bytes)| bytes).sum();
            // Other tests of this process map and unmap memory at the same time, so repeat until
            // one measurement is undisturbed.
            let measure = || {
                let before = mapped_bytes();
                let plane = plane(&config, HashKey::new([1, 2, 3, 4]), 7, ShardShare::WHOLE);
                let mapped = mapped_bytes().saturating_sub(before);
                drop(plane);
                mapped
            };
            let mut measured = Vec::new();
            let is_within = |mapped: u64| (mapped..2 * mapped).contains(&estimate);
            while measured.len() < MEASUREMENTS_MAX
                && !measured.last().copied().is_some_and(is_within)
            {
                measured.push(measure());
            }
            assert!(
                measured.last().copied().is_some_and(is_within),
                "{text}: estimated {} MiB, mapped {measured:?} bytes",
                estimate >> 20,
            );
        }
    }

    #[test]
    fn change_store_applies_options_up_to_initial_size() {
        let config = |text: &str| Config::parse("test", text).expect("a configuration");
        let first = config("[content_store]\npackets = 100\nmib = 2\n");
        let mut plane = plane(&first, HashKey::new([1, 2, 3, 4]), 7, ShardShare::WHOLE);
        let store = |plane: &Plane| {
            let store = plane.content_store().store();
            (
                store.policy(),
                store.limits().packets_max,
                store.limits().bytes_max >> 20,
                store.admits(),
                store.serves(),
            )
        };
        assert_eq!(store(&plane), (PolicyKind::Lru, 100, 2, true, true));
        let smaller =
            config("[content_store]\npackets = 50\nmib = 1\npolicy = \"s3-fifo\"\nserve = false\n");
        assert!(change_store(
            &mut plane,
            &first.content_store,
            &smaller.content_store,
            ShardShare::WHOLE
        ));
        assert_eq!(store(&plane), (PolicyKind::S3Fifo, 50, 1, true, false));
        assert!(!first.needs_restart(&smaller));
        // A content store can't grow beyond its size at the start.
        let large = config(
            "[content_store]\npackets = 101\nmib = 1\npolicy = \"priority-fifo\"\nadmit = false\n",
        );
        assert!(!change_store(
            &mut plane,
            &smaller.content_store,
            &large.content_store,
            ShardShare::WHOLE
        ));
        assert_eq!(store(&plane), (PolicyKind::PriorityFifo, 100, 1, false, true));
        // What commands changed stays if the file has not changed.
        plane.content_store_mut().store_mut().set_admit(true);
        assert!(change_store(
            &mut plane,
            &large.content_store,
            &large.content_store,
            ShardShare::WHOLE
        ));
        assert_eq!(store(&plane), (PolicyKind::PriorityFifo, 100, 1, true, true));
    }
}
