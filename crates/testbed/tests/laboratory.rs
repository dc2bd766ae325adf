//! The laboratory itself, with one plain router in the cluster's place: what is built works, is limited, is counted, and goes away however it ends.
//!
//! Needs the rights of root and an `nw` binary: `NW_BIN`, else `target/release/nw`. Where one is missing it says so and passes.

use nw_testbed::{Cluster, FetchPlan, LabError, Plan, PublishPlan, clean};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);
/// Set for a process of this test that is to be killed.
const VICTIM: &str = "NW_LAB_TEST_VICTIM";

fn plan() -> Option<Plan> {
    let beside = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target/release/nw");
    let nw = std::env::var_os("NW_BIN").map_or(beside, PathBuf::from);
    if !nw.exists() {
        eprintln!("skipped: {} is not there: cargo build --release -p nw-cli, or set NW_BIN", nw.display());
        return None;
    }
    let plan = Plan { balancers: 0, ..Plan::new(nw.canonicalize().expect("it exists")) };
    match Cluster::build(&Plan { consumers: 0, producers: 0, ..plan.clone() }) {
        Ok(_) => Some(plan),
        Err(error @ (LabError::Missing(_) | LabError::Refused { .. })) => {
            eprintln!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// What has a laboratory's name: namespaces, control groups, the folder.
fn remains(name: &str) -> Vec<String> {
    let folders = ["/run/netns", "/run/nwlab", "/var/lib/nwlab", "/sys/fs/cgroup/cpu", "/sys/fs/cgroup"];
    let entries = folders.iter().flat_map(|folder| std::fs::read_dir(folder).into_iter().flatten().flatten());
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|found| found == name || found.starts_with(&format!("{name}-"))).collect()
}

#[test]
fn two_download_through_a_router() {
    let Some(plan) = plan() else { return };
    let plan = Plan { consumers: 2, ipv6: true, member_share: Some(0.5), ..plan };
    let cluster = Cluster::build(&plan).unwrap();
    let name = cluster.name().to_owned();
    assert!(remains(&name).len() >= 5, "{:?}", remains(&name));
    let content = "/lab/file".parse().unwrap();
    let publish = PublishPlan { octets: 2_000_000, ..PublishPlan::default() };
    let publication = cluster.publish(0, &content, &publish).unwrap();
    let before = cluster.traffic().unwrap();
    let output = cluster.contents().join("fetched");
    let fetches = [Some(output.clone()), None].map(|output| FetchPlan { output, ..FetchPlan::default() });
    let downloads: Vec<_> =
        (0..2).map(|at| cluster.consumers()[at].fetch(&content, &fetches[at]).unwrap()).collect();
    for download in downloads {
        let fetched = download.finish(PATIENCE).unwrap();
        assert_eq!((fetched.bytes, fetched.segments), (publication.octets, publication.segments));
    }
    assert_eq!(std::fs::read(output).unwrap(), std::fs::read(&publication.file).unwrap());
    let passed = cluster.traffic().unwrap()["c1"].since(&before["c1"]);
    assert!(passed.received_octets > 2_000_000 && passed.sent_packets > 400, "{passed:?}");
    let member = &cluster.members()[0];
    assert!(member.router.process.cpu() > Duration::ZERO);
    assert!(member.router.status().unwrap().out_data >= 2 * publication.segments - 100);
    assert_eq!(member.router.store().unwrap().entries, 0, "it keeps nothing unless it is to");
    drop(publication);
    drop(cluster);
    assert_eq!(remains(&name), Vec::<String>::new());
}

#[test]
fn shares_and_rates_hold() {
    let Some(plan) = plan() else { return };
    let plan = Plan { member_share: Some(0.05), end_rate_mbit: Some(8.0), ..plan };
    let cluster = Cluster::build(&plan).unwrap();
    let content = "/lab/slow".parse().unwrap();
    let publish = PublishPlan { octets: 2_000_000, ..PublishPlan::default() };
    let _publication = cluster.publish(0, &content, &publish).unwrap();
    let (started, before) = (Instant::now(), cluster.members()[0].router.process.cpu());
    let fetched =
        cluster.consumers()[0].fetch(&content, &FetchPlan::default()).unwrap().finish(PATIENCE).unwrap();
    assert!((4.0..8.5).contains(&fetched.mbit_per_s), "a link of 8 Mbit/s: {fetched:?}");
    let share =
        (cluster.members()[0].router.process.cpu() - before).as_secs_f64() / started.elapsed().as_secs_f64();
    assert!(share < 0.07, "a twentieth of a processor: {share}");
}

#[test]
fn a_panic_leaves_nothing() {
    let Some(plan) = plan() else { return };
    let (tell, told) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        let cluster = Cluster::build(&plan).unwrap();
        tell.send(cluster.name().to_owned()).unwrap();
        panic!("as wanted");
    });
    let name = told.recv().unwrap();
    assert!(thread.join().is_err());
    assert_eq!(remains(&name), Vec::<String>::new());
}

/// The process that [`what_a_killed_one_left_is_found`] kills.
#[test]
fn victim() {
    let Some(at) = std::env::var_os(VICTIM) else { return };
    let plan = plan().expect("who started this could build");
    let cluster = Cluster::build(&plan).unwrap();
    std::fs::write(at, cluster.name()).unwrap();
    std::thread::sleep(PATIENCE);
}

#[test]
fn what_a_killed_one_left_is_found() {
    let Some(plan) = plan() else { return };
    let file = std::env::temp_dir().join(format!("nwlab-victim-{}", std::process::id()));
    let mut victim = Command::new(std::env::current_exe().unwrap());
    victim.args(["--exact", "victim", "--nocapture"]).env(VICTIM, &file);
    let mut victim = victim.spawn().unwrap();
    let end = Instant::now() + PATIENCE;
    let name = loop {
        match std::fs::read_to_string(&file) {
            Ok(name) if !name.is_empty() => break name,
            _ => assert!(Instant::now() < end, "it does not start"),
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let mine = Cluster::build(&plan).unwrap();
    assert!(clean().unwrap().in_use.contains(&name), "its owner lives");
    victim.kill().unwrap();
    victim.wait().unwrap();
    std::fs::remove_file(file).unwrap();
    assert!(remains(&name).len() >= 4);
    let cleaned = clean().unwrap();
    assert!(cleaned.removed.contains(&name), "{cleaned:?}");
    assert!(cleaned.in_use.contains(&mine.name().to_owned()), "{cleaned:?}");
    assert_eq!(remains(&name), Vec::<String>::new());
    assert!(!remains(mine.name()).is_empty());
}
