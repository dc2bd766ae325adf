//! Tests without rights, and with only the two that are needed. Capabilities belong to threads, so
//! each case has its own. Alone in its process, since the loader probes the kernel's features once
//! per process: the first thread decides for all.

#[allow(dead_code, reason = "a part is used")]
#[path = "all/common/mod.rs"]
mod common;

use common::cluster::Cluster;
use common::frames::Udp;
use common::may_run;
use common::net::{index_of, ip};
use nw_kernel::balancer::{AttachMode, Balancer, Verdict};
use nw_kernel::{KernelError, ReuseportProgram, XdpOptions, XdpProgram};
use nw_name::HashKey;
use rustix::net::{AddressFamily, SocketType, bind, socket, sockopt};
use rustix::thread::{
    CapabilitySet, CapabilitySets, UnshareFlags, set_capabilities, unshare_unsafe,
};
use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};

const KEY: HashKey = HashKey::new([1, 3, 5, 7]);

fn bound() -> OwnedFd {
    let socket = socket(AddressFamily::INET, SocketType::DGRAM, None).expect("a socket");
    sockopt::set_socket_reuseport(&socket, true).expect("SO_REUSEPORT");
    bind(&socket, &SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0)).expect("an address");
    socket
}

fn reuseport() -> Result<(), KernelError> {
    ReuseportProgram::attach(&[bound().as_fd()], &KEY).map(|_| ())
}

fn xdp() -> Result<(), KernelError> {
    XdpProgram::load(&KEY, 1, 1, &XdpOptions::default())?.attach("lo", None).map(|_| ())
}

fn balancer() -> Result<(), KernelError> {
    Balancer::load(&common::cluster::options())?.attach("lo", None).map(|_| ())
}

/// Holds a fragment that arrives before its first one, and releases it.
fn held_fragments() -> Result<(), KernelError> {
    let mut cluster = Cluster::new();
    ip("link set lo up");
    cluster.balancer.attach("lo", Some(AttachMode::Generic))?;
    let mut held = cluster.balancer.held_fragments()?;
    let frame = Udp { fragment: 0, ..Udp::new("198.51.100.7:50000", "192.0.2.1:6372", &[7; 200]) };
    let [first, later] = frame.fragments(104);
    for part in [later, first] {
        cluster.run_on(&part, Some(index_of("lo")));
    }
    let report = held.tick()?;
    assert_eq!((report.taken, report.released, report.lost), (1, 1, 0), "{report:?}");
    assert_eq!(cluster.counters().verdict(Verdict::IpFragment), 1);
    Ok(())
}

/// Returns whether a thread can have its own network namespace, so that no program is attached to
/// the machine's loopback. A process that can't has no rights to attach one.
fn may_unshare() -> bool {
    rustix::thread::capabilities(None)
        .is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_ADMIN))
}

/// Runs in a thread that has only these capabilities.
fn with<T: Send + 'static>(rights: CapabilitySet, what: fn() -> T) -> T {
    let thread = std::thread::spawn(move || {
        if may_unshare() {
            // SAFETY: only this thread's network namespace changes; memory and descriptors stay
            // shared.
            unsafe { unshare_unsafe(UnshareFlags::NEWNET) }.expect("a network namespace");
        }
        let none = CapabilitySet::empty();
        let sets = CapabilitySets { effective: rights, permitted: rights, inheritable: none };
        set_capabilities(None, sets).expect("rights can be given up");
        what()
    });
    thread.join().expect("no panic")
}

fn refusal(outcome: Result<(), KernelError>) -> KernelError {
    let error = outcome.expect_err("not without rights");
    let text = error.to_string();
    assert!(matches!(error, KernelError::Rights { .. }), "{text}: {:?}", error.source());
    for part in
        ["setcap cap_bpf,cap_net_admin+ep", "AmbientCapabilities=CAP_BPF CAP_NET_ADMIN", "shard"]
    {
        assert!(text.contains(part), "{part} is not in: {text}");
    }
    assert!(!text.contains('\n'), "one line: {text}");
    error
}

/// One test, in this order: the loader probes the kernel's features once per process, and finds
/// none if the first thread has no rights.
#[test]
fn two_capabilities_are_enough_and_errors_name_them() {
    let both = CapabilitySet::BPF | CapabilitySet::NET_ADMIN;
    if may_run("rights, with the two") {
        let outcomes = [
            with(both, reuseport),
            with(both, xdp),
            with(both, balancer),
            with(both, held_fragments),
        ];
        for outcome in outcomes {
            outcome.unwrap_or_else(|e| panic!("{e}: {:?}", e.source()));
        }
    }
    // These need no rights to run, so they are never skipped.
    refusal(with(CapabilitySet::empty(), reuseport));
    refusal(with(CapabilitySet::empty(), xdp));
    refusal(with(CapabilitySet::empty(), balancer));
    if may_run("rights, with one of them") {
        with(CapabilitySet::BPF, reuseport).unwrap_or_else(|e| panic!("{e}: {:?}", e.source()));
        refusal(with(CapabilitySet::BPF, xdp));
        refusal(with(CapabilitySet::NET_ADMIN, reuseport));
        refusal(with(CapabilitySet::NET_ADMIN, xdp));
        refusal(with(CapabilitySet::BPF, balancer));
        refusal(with(CapabilitySet::NET_ADMIN, balancer));
    }
}
