//! What happens without the rights, and that no more than the two that are asked for are needed. Capabilities belong to threads, so each
//! case has its own.

mod common;

use common::cluster::Cluster;
use common::frames::Udp;
use common::may_run;
use common::net::{index_of, ip};
use nw_kernel::balancer::{AttachMode, Balancer, Verdict};
use nw_kernel::{Dispatch, KernelError, XdpOptions, XdpSteering};
use nw_name::HashKey;
use rustix::net::{AddressFamily, SocketType, bind, socket, sockopt};
use rustix::thread::{CapabilitySet, CapabilitySets, UnshareFlags, set_capabilities, unshare_unsafe};
use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};

const KEY: HashKey = HashKey::new([1, 3, 5, 7]);

fn bound() -> OwnedFd {
    let one = socket(AddressFamily::INET, SocketType::DGRAM, None).expect("a socket");
    sockopt::set_socket_reuseport(&one, true).expect("SO_REUSEPORT");
    bind(&one, &SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0)).expect("an address");
    one
}

fn dispatch() -> Result<(), KernelError> {
    Dispatch::attach_reuseport(&[bound().as_fd()], &KEY).map(|_| ())
}

fn steering() -> Result<(), KernelError> {
    XdpSteering::load(&KEY, 1, 1, &XdpOptions::default())?.attach("lo", None).map(|_| ())
}

fn balancer() -> Result<(), KernelError> {
    Balancer::load(&common::cluster::options())?.attach("lo", None).map(|_| ())
}

/// A fragment that comes before its first is held, and goes on.
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
    let turn = held.turn()?;
    assert_eq!((turn.taken, turn.released, turn.lost), (1, 1, 0), "{turn:?}");
    assert_eq!(cluster.counters().verdict(Verdict::IpFragment), 1);
    Ok(())
}

/// Whether a thread can have a network of its own, so that no program comes to the machine's loopback. Who can't has no rights to attach one.
fn may_unshare() -> bool {
    rustix::thread::capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_ADMIN))
}

/// Runs in a thread that has these capabilities and no others.
fn with<T: Send + 'static>(rights: CapabilitySet, what: fn() -> T) -> T {
    let thread = std::thread::spawn(move || {
        if may_unshare() {
            // SAFETY: this thread's network alone becomes another; memory and descriptors stay shared.
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
    for part in ["setcap cap_bpf,cap_net_admin+ep", "AmbientCapabilities=CAP_BPF CAP_NET_ADMIN", "shard"] {
        assert!(text.contains(part), "{part} is not in: {text}");
    }
    assert!(!text.contains('\n'), "one line: {text}");
    error
}

/// One test, in this order: the loader finds out once a process what the kernel can do, and finds nothing when the first to ask has no rights.
#[test]
fn two_rights_are_enough_and_without_them_the_error_says_so() {
    let both = CapabilitySet::BPF | CapabilitySet::NET_ADMIN;
    if may_run("rights, with the two") {
        let outcomes =
            [with(both, dispatch), with(both, steering), with(both, balancer), with(both, held_fragments)];
        for outcome in outcomes {
            outcome.unwrap_or_else(|e| panic!("{e}: {:?}", e.source()));
        }
    }
    // These need no right to run, so nothing skips them.
    refusal(with(CapabilitySet::empty(), dispatch));
    refusal(with(CapabilitySet::empty(), steering));
    refusal(with(CapabilitySet::empty(), balancer));
    if may_run("rights, with one of them") {
        with(CapabilitySet::BPF, dispatch).unwrap_or_else(|e| panic!("{e}: {:?}", e.source()));
        refusal(with(CapabilitySet::BPF, steering));
        refusal(with(CapabilitySet::NET_ADMIN, dispatch));
        refusal(with(CapabilitySet::NET_ADMIN, steering));
        refusal(with(CapabilitySet::BPF, balancer));
        refusal(with(CapabilitySet::NET_ADMIN, balancer));
    }
}
