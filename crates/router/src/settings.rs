//! From the configuration's words to what each part is made with.

use crate::plane::Plane;
use core::time::Duration;
use nw_api::config::Config;
use nw_elements::RouterConfig;
use nw_faces::FacesConfig;
use nw_faces::config::{ReassemblyLimits, ReliabilityLimits, Reliable};
use nw_name::HashKey;
use nw_tables::cs::CsConfig;
use nw_tables::fib::FibConfig;
use nw_tables::pit::PitConfig;

/// InterestLifetimes above an hour are cut: an entry must not outlive its usefulness.
const LIFETIME_MAX_MS: u32 = 3_600_000;

/// What faces are made with.
pub fn faces(config: &Config) -> FacesConfig {
    let kib = |kib: u32| kib as usize * 1024;
    FacesConfig {
        faces_max: config.faces.max as usize,
        queue_bytes_max: kib(config.faces.queue_kib),
        stream_send_buffer: kib(config.faces.stream_buffer_kib),
        udp_receive_buffer: kib(config.udp.receive_buffer_kib),
        udp_send_buffer: kib(config.udp.send_buffer_kib),
        udp_mtu: config.udp.mtu as usize,
        udp_idle: Duration::from_secs(u64::from(config.udp.idle_timeout_s)),
        loopback_udp_local: config.udp.loopback_is_local,
        congestion_marking: config.faces.congestion_marking,
        marking_interval: Duration::from_millis(u64::from(config.faces.marking_interval_ms)),
        marking_threshold: u64::from(config.faces.marking_threshold_kib) * 1024,
        reassembly: ReassemblyLimits {
            bytes_max_all: config.faces.reassembly_mib as usize * 1024 * 1024,
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
        burst_bytes_max: if config.udp.burst_kib == 0 { usize::MAX } else { kib(config.udp.burst_kib) },
        burst_pause: Duration::from_micros(u64::from(config.udp.burst_pause_us)),
        reconnect_max: Duration::from_secs(u64::from(config.faces.reconnect_max_s)),
        ..FacesConfig::default()
    }
}

/// The forwarding plane with its tables.
pub fn plane(config: &Config, key: HashKey, seed: u64) -> Plane {
    let tables = &config.tables;
    let router = RouterConfig {
        shard: 0,
        pit: PitConfig::for_entries(tables.pit_entries as usize),
        fib: FibConfig {
            next_hops_per_prefix_max: tables.next_hops_per_prefix as usize,
            ..FibConfig::new(tables.fib_prefixes as usize)
        },
        dead_nonces: tables.dead_nonces as usize,
        upstream_tokens: config.forwarder.upstream_tokens,
        accept_data_from_any_face: config.forwarder.accept_data_from_any_face,
        lifetime_max_ms: LIFETIME_MAX_MS,
        measurements: tables.measurements as usize,
        ..RouterConfig::default()
    };
    let store = CsConfig {
        packets_max: config.content_store.packets as usize,
        bytes_max: config.content_store.mib as usize * 1024 * 1024,
    };
    let mut plane = Plane::new(key, seed, router, store);
    let store = plane.content_store_mut().store_mut();
    store.set_admit(config.content_store.admit);
    store.set_serve(config.content_store.serve);
    plane.set_regions(config.forwarder.regions.clone());
    plane.set_face_limit(tables.pit_entries_per_face);
    plane
}
