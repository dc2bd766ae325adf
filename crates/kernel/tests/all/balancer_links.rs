//! Tests of attaching the balancer and of pins, in a network namespace and a bpffs directory of
//! their own.

use crate::common::cluster::{Cluster, entry, members, options};
use crate::common::frames::Udp;
use crate::common::may_run;
use crate::common::net::{alone, index_of, ip};
use nw_kernel::KernelError;
use nw_kernel::balancer::{AttachMode, Balancer, BalancerOptions, Verdict};
use nw_slot_table::Table;
use rustix::thread::CapabilitySet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// A directory that is removed at the end of the test, even if it fails.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        Directory(Path::new("/sys/fs/bpf").join(format!("nw-test-{name}-{}", std::process::id())))
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // Best effort: a test that passed has removed it already.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn pinned(directory: &Directory) -> BalancerOptions {
    BalancerOptions { pin: Some(directory.0.clone()), ..options() }
}

fn veth() {
    ip("link add nw0 type veth peer name nw1");
    ip("link set nw0 up");
    ip("link set nw1 up");
    ip("link set lo up");
}

fn shown(interface: &str) -> String {
    let output = Command::new("ip")
        .args(["-d", "link", "show", interface])
        .output()
        .expect("ip of iproute2");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Returns the id of the XDP program on an interface.
fn program_id(interface: &str) -> Option<String> {
    let text = shown(interface);
    let (_, after) = text.split_once("prog/xdp id ")?;
    after.split_whitespace().next().map(str::to_owned)
}

/// Returns whether an interface is without a program within a second: processes that other tests
/// start inherit this process's descriptors until they exec, and with them its links.
fn is_left(interface: &str) -> bool {
    let end = Instant::now() + Duration::from_secs(1);
    while program_id(interface).is_some() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(2));
    }
    program_id(interface).is_none()
}

#[test]
fn attach_uses_each_mode_and_refuses_a_second_program() {
    if !may_run("balancer, modes") {
        return;
    }
    alone(|| {
        veth();
        let mut balancer = Balancer::load(&options()).expect("loaded");
        assert_eq!(balancer.attach("nw0", None).expect("attached"), AttachMode::Native);
        assert_eq!(balancer.attach("nw0", None).expect("still"), AttachMode::Native);
        assert_eq!(balancer.attach("lo", None).expect("attached"), AttachMode::Generic);
        let error = balancer.attach("nw1", Some(AttachMode::Native)).map(|_| ());
        error.expect("the other end, too");
        let error = balancer.attach("lo", Some(AttachMode::Native)).expect_err("not natively");
        assert!(matches!(error, KernelError::NoDriver { .. }), "{error}");
        assert!(program_id("nw0").is_some());
        let mut second = Balancer::load(&options()).expect("loaded");
        let error = second.attach("nw0", None).expect_err("there is one");
        assert!(matches!(error, KernelError::Busy { .. }), "{error}");
        match second.attach("nw0", Some(AttachMode::TrafficControl)) {
            Ok(mode) => assert_eq!(mode, AttachMode::TrafficControl),
            Err(e) => assert!(matches!(e, KernelError::NoTrafficControl { .. }), "{e}"),
        }
        balancer.detach("nw0").expect("off");
        assert!(is_left("nw0"));
        assert_eq!(balancer.attached(), [(index_of("nw1"), AttachMode::Native)]);
        drop(balancer);
        assert!(is_left("nw1"));
        let error = second.attach("nw-is-none", None).expect_err("no such interface");
        assert!(matches!(error, KernelError::NoInterface(_)), "{error}");
    });
}

#[test]
fn pinned_maps_and_links_are_adopted() {
    if !may_run("balancer, pins") || !may_mount("balancer, pins") {
        return;
    }
    alone(|| {
        veth();
        let directory = Directory::new("adopt");
        let mut first = Cluster::with(&pinned(&directory));
        assert!(!first.balancer.adopted());
        assert_eq!(first.balancer.attach("nw0", None).expect("attached"), AttachMode::Native);
        let frame = Udp::new("198.51.100.7:50000", "192.0.2.1:6372", b"x").frame();
        first.run(&frame);
        let before = program_id("nw0").expect("attached");
        let table = first.table.clone();
        drop(first);
        assert_eq!(program_id("nw0"), Some(before.clone()), "it stays attached without a process");

        let mut second = Balancer::load(&pinned(&directory)).expect("loaded");
        assert!(second.adopted());
        let after = program_id("nw0").expect("attached");
        assert_ne!(after, before, "this process's program replaced it");
        assert_eq!(second.attached(), [(index_of("nw0"), AttachMode::Native)]);
        assert_eq!(second.members().keys().copied().collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(second.members()[&2], entry(2));
        assert_eq!(second.slots(), table.slots());
        assert_eq!(second.counters().expect("counters").verdict(Verdict::ToMember), 1);
        assert_eq!(second.attach("nw0", None).expect("there"), AttachMode::Native);
        assert_eq!(program_id("nw0"), Some(after));
        // Only differences are written.
        let four = Table::compute(&members(4), 7);
        let changed = second.set_slots(four.slots()).expect("slots");
        assert!(
            (0.24..0.26).contains(&(changed as f64 / nw_slot_table::SLOTS as f64)),
            "{changed}"
        );
        assert_eq!(second.set_slots(four.slots()).expect("slots"), 0);

        second.remove().expect("removed");
        assert!(is_left("nw0"));
        assert!(!directory.0.exists());
    });
}

#[test]
fn links_of_another_layout_are_taken_over_and_of_gone_interfaces_removed() {
    if !may_run("balancer, layouts") || !may_mount("balancer, layouts") {
        return;
    }
    alone(|| {
        veth();
        let directory = Directory::new("layout");
        let mut first = Balancer::load(&pinned(&directory)).expect("loaded");
        first.attach("nw0", None).expect("attached");
        first.attach("lo", None).expect("attached");
        let before = program_id("nw0");
        drop(first);
        // The directory as another version would have left it.
        std::fs::rename(maps_of(&directory), directory.0.join("maps-0")).expect("renamed");
        let mut second = Balancer::load(&pinned(&directory)).expect("loaded");
        assert!(!second.adopted() && second.members().is_empty());
        assert!(!directory.0.join("maps-0").exists());
        assert_eq!(program_id("nw0"), before, "the old program works until this one is attached");
        second.attach("nw0", None).expect("attached");
        assert!(program_id("nw0").is_some() && program_id("nw0") != before);
        drop(second);
        ip("link del nw0");
        let third = Balancer::load(&pinned(&directory)).expect("loaded");
        assert!(third.adopted());
        assert_eq!(third.attached(), [(index_of("lo"), AttachMode::Generic)]);
        third.remove().expect("removed");
    });
}

fn maps_of(directory: &Directory) -> PathBuf {
    let entries = std::fs::read_dir(&directory.0).expect("the directory");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    paths.into_iter().find(|path| path.display().to_string().contains("maps-")).expect("maps")
}

#[test]
fn directory_outside_a_bpf_file_system_is_refused() {
    if !may_run("balancer, folders") {
        return;
    }
    let directory = std::env::temp_dir().join(format!("nw-test-pins-{}", std::process::id()));
    let options = BalancerOptions { pin: Some(directory.clone()), ..options() };
    let error = Balancer::load(&options).map(|_| ()).expect_err("not in a bpf file system");
    assert!(error.to_string().contains("/sys/fs/bpf"), "{error}");
    assert!(!directory.exists());
}

#[test]
fn invalid_arguments_are_errors() {
    let refused = |change: fn(&mut BalancerOptions)| {
        let mut options = options();
        change(&mut options);
        matches!(Balancer::load(&options), Err(KernelError::Cluster(_)))
    };
    assert!(refused(|options| options.port = 0));
    assert!(refused(|options| (options.cluster_v4, options.cluster_v6) = (None, None)));
    assert!(refused(|options| options.cluster_v4 = Some([0, 0, 0, 0].into())));
    if !may_run("balancer, checks") {
        return;
    }
    let mut cluster = Cluster::new();
    let balancer = &mut cluster.balancer;
    let mut wrong = |number: u8, change: fn(&mut nw_kernel::balancer::MemberEntry)| {
        let mut member = entry(9);
        change(&mut member);
        matches!(balancer.set_member(number, &member), Err(KernelError::Member { .. }))
    };
    assert!(wrong(0, |_| ()) && wrong(64, |_| ()));
    assert!(wrong(9, |member| member.port = 6363) && wrong(9, |member| member.port = 0));
    assert!(wrong(9, |member| member.port = 6371), "another member's");
    assert!(wrong(9, |member| (member.address_v4, member.address_v6) = (None, None)));
    assert!(wrong(9, |member| member.hop =
        member.hop.map(|hop| nw_kernel::balancer::Hop { vlan: Some(4095), ..hop })));
    assert!(!wrong(1, |member| member.port = 6371), "its own");
    assert!(matches!(balancer.set_slots(&[1; 7]), Err(KernelError::Slots(_))));
    assert!(matches!(
        balancer.set_slots(&vec![64; nw_slot_table::SLOTS]),
        Err(KernelError::Slots(_))
    ));
    assert!(matches!(balancer.set_control(64), Err(KernelError::Member { .. })));
    let peers: Vec<_> =
        (0..=4096u16).map(|port| std::net::SocketAddr::from(([192, 0, 2, 9], port))).collect();
    assert!(matches!(balancer.set_one_port_peers(&peers), Err(KernelError::TooMany { .. })));
    balancer.set_one_port_peers(&peers[1..]).expect("as many as there may be");
}

/// Returns whether the process may mount a bpf file system, which needs more rights than the
/// program.
fn may_mount(test: &str) -> bool {
    let may = rustix::thread::capabilities(None)
        .is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_ADMIN));
    if !may {
        use std::io::Write;
        let _ = std::io::stderr()
            .write_all(format!("skipped: {test}: this process has no CAP_SYS_ADMIN\n").as_bytes());
    }
    may
}
