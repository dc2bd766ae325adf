//! Checks of the machine: whether a router with this configuration could start and work well here.

use super::Checks;
use crate::output::{count, describe};
use nw_api::config::Config;
use nw_app::keystore::{KeyStore, KeyStoreError, KeyStoreLocation};
use nw_trust::Validity;
use nw_wire::certificate::Certificate;
use std::fs;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Earliest plausible time of the clock, seconds since 1970: the year 2025.
const CLOCK_MIN_S: u64 = 1_735_689_600;
/// File descriptors that a router needs in addition to one per face.
const DESCRIPTORS_OTHER: u64 = 64;
/// Certificates that expire within this time are reported, seconds: a week.
const CERTIFICATE_SOON_S: u64 = 7 * 86_400;
const NET_ADMIN: (u32, &str) = (12, "CAP_NET_ADMIN");
const NET_RAW: (u32, &str) = (13, "CAP_NET_RAW");
const IPC_LOCK: (u32, &str) = (14, "CAP_IPC_LOCK");
const BPF: (u32, &str) = (39, "CAP_BPF");

/// Runs all checks. `path`: the configuration file; `is_running`: a router runs, so its ports are
/// in use.
pub fn check(checks: &mut Checks, path: Option<&Path>, is_running: bool) {
    let config = configuration(checks, path);
    if !is_running {
        ports(checks, &config);
    }
    receive_buffer(checks, &config);
    rights(checks, &config);
    descriptors(checks, &config);
    clock(checks);
    keys(checks);
}

fn configuration(checks: &mut Checks, path: Option<&Path>) -> Config {
    let Some(path) = path.map(Path::to_owned).or_else(crate::run::found_config) else {
        checks.ok("config", "no file: defaults are used");
        return Config::default();
    };
    match crate::run::load(&path) {
        Ok(config) => {
            checks.ok("config", format!("{} is valid", path.display()));
            config.config
        }
        Err(error) => {
            let text = describe(&error);
            let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
            let remedy = format!("nw config --check {}", path.display());
            checks.fail("config", format!("a router would not start: {first}"), remedy);
            Config::default()
        }
    }
}

/// Checks whether the router's ports are free, by opening them for a moment.
fn ports(checks: &mut Checks, config: &Config) {
    let udp = config.udp.listen.iter().map(|address| ("UDP", *address));
    let tcp = config.tcp.listen.iter().map(|address| ("TCP", *address));
    let mut free = 0;
    for (transport, address) in udp.chain(tcp) {
        match is_free(transport, address) {
            Ok(()) => free += 1,
            Err(error) if error.kind() == ErrorKind::AddrInUse => {
                let flag = if transport == "UDP" { "u" } else { "t" };
                checks.fail(
                    "ports",
                    format!(
                        "{transport} {address} is in use by another program (NFD, another router?)"
                    ),
                    format!("sudo ss -l{flag}np 'sport = :{}'", address.port()),
                );
            }
            Err(error) => checks.fail(
                "ports",
                format!("{transport} {address} can't be opened: {error}"),
                "choose another address: faces.udp.listen, faces.tcp.listen",
            ),
        }
    }
    if free > 0 {
        checks.ok("ports", format!("{} free for a router", count(free, "listener")));
    }
}

fn is_free(transport: &str, address: SocketAddr) -> std::io::Result<()> {
    // Unlike the router's, a socket at [::] opened here would also take IPv4; ::1 does not.
    let address = match address {
        SocketAddr::V6(six) if six.ip().is_unspecified() => {
            SocketAddr::from(([0, 0, 0, 0, 0, 0, 0, 1], six.port()))
        }
        address => address,
    };
    match transport {
        "UDP" => UdpSocket::bind(address).map(drop),
        _ => TcpListener::bind(address).map(drop),
    }
    .or_else(|error| match error.kind() {
        // A machine without IPv6: the router ignores the address, too.
        ErrorKind::AddrNotAvailable | ErrorKind::Unsupported if address.is_ipv6() => Ok(()),
        _ => Err(error),
    })
}

fn receive_buffer(checks: &mut Checks, config: &Config) {
    if config.udp.listen.is_empty() {
        return;
    }
    let configured = u64::from(config.udp.receive_buffer_kib) * 1024;
    match number_in("/proc/sys/net/core/rmem_max") {
        Some(max) if max < configured && !has(NET_ADMIN) => checks.warn(
            "buffers",
            format!(
                "net.core.rmem_max is {max} bytes, UDP sockets are configured for {configured}: bursts may \
                 be lost"
            ),
            format!("sudo sysctl -w net.core.rmem_max={configured}"),
        ),
        Some(max) => checks.ok("buffers", format!("net.core.rmem_max is {max} bytes")),
        None => {}
    }
}

fn rights(checks: &mut Checks, config: &Config) {
    let mut needed: Vec<((u32, &str), &str)> = Vec::new();
    if config.ethernet.listen || config.ethernet.multicast {
        needed.push((NET_RAW, "Ethernet faces"));
    }
    if config.forwarder.shards > 1 {
        needed.push((BPF, "steering packets to shards in the kernel"));
    }
    let missing: Vec<_> = needed.iter().filter(|(capability, _)| !has(*capability)).collect();
    for ((_, name), feature) in &missing {
        checks.warn(
            "rights",
            format!("this user lacks {name}, needed for {feature}"),
            format!(
                "AmbientCapabilities={name} in the systemd unit, or: sudo setcap {}+ep $(command \
                 -v nw)",
                name.to_lowercase()
            ),
        );
    }
    if missing.is_empty() {
        let capabilities = [NET_ADMIN, NET_RAW, IPC_LOCK, BPF];
        let held: Vec<&str> = capabilities
            .iter()
            .filter(|capability| has(**capability))
            .map(|(_, name)| *name)
            .collect();
        let held = if held.is_empty() { "none".to_owned() } else { held.join(", ") };
        checks.ok(
            "rights",
            format!("all capabilities that the configuration needs (this user has {held})"),
        );
    }
}

/// Returns whether this process has a capability.
fn has((number, _): (u32, &str)) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let mask = line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask & (1 << number) != 0
}

fn descriptors(checks: &mut Checks, config: &Config) {
    let Some((soft, hard)) = open_files() else { return };
    let needed = u64::from(config.faces.max) + DESCRIPTORS_OTHER;
    if soft < needed {
        checks.warn(
            "descriptors",
            format!("{soft} open files are allowed (hard limit {hard}), faces.max needs {needed}"),
            format!(
                "ulimit -n {needed}, LimitNOFILE={needed} in the systemd unit, or a lower faces.max"
            ),
        );
    } else {
        checks.ok("descriptors", format!("{soft} open files are allowed"));
    }
}

/// Returns the soft and hard limit of open files.
fn open_files() -> Option<(u64, u64)> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    let mut numbers = line.split_whitespace().map(|word| word.parse().unwrap_or(u64::MAX));
    Some((numbers.next()?, numbers.next()?))
}

fn number_in(path: &str) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

fn clock(checks: &mut Checks) {
    if now_s() < CLOCK_MIN_S {
        let found = "the clock of this machine was never set: certificates and commands fail";
        checks.fail("clock", found, "sudo timedatectl set-ntp true");
    }
}

fn keys(checks: &mut Checks) {
    let store = KeyStoreLocation::of_user()
        .and_then(KeyStore::open)
        .and_then(|store| Ok((store.identities()?, store)));
    let identities = match store {
        Ok((identities, _)) => identities,
        Err(KeyStoreError::NoStore(_) | KeyStoreError::NoHome) => {
            checks.ok(
                "keys",
                "none: packets and commands carry a plain digest (`nw key generate /your/name` \
                 makes one)",
            );
            return;
        }
        Err(error) => {
            checks.fail("keys", error.to_string(), "nw key list");
            return;
        }
    };
    let mut problems = 0;
    let keys: Vec<_> = identities.iter().flat_map(|identity| &identity.keys).collect();
    for key in &keys {
        if !key.has_private {
            problems += 1;
            checks.warn(
                "keys",
                format!("the private key of {} is missing", key.name),
                "nw key import FILE",
            );
        }
        let default = key.certificates.iter().find(|certificate| certificate.is_default);
        let until = default.and_then(|it| {
            Some(Validity::from_certificate(&Certificate::check(&it.wire).ok()?)?.not_after_s)
        });
        match until {
            Some(until) if until < now_s() + CERTIFICATE_SOON_S => {
                problems += 1;
                let state = if until < now_s() { "has expired" } else { "expires within a week" };
                checks.warn(
                    "keys",
                    format!("the certificate of {} {state}", key.name),
                    format!("nw cert request {}, have it signed, nw cert install FILE", key.name),
                );
            }
            _ => {}
        }
    }
    if problems == 0 {
        checks.ok(
            "keys",
            format!(
                "{}, all with private keys and valid certificates",
                count(keys.len() as u64, "key")
            ),
        );
    }
}
