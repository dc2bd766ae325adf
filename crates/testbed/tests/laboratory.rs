//! Tests of testbeds with a single router: traffic, limits, counters and cleanup.
//!
//! The tests need root rights and an `nw` binary: `NW_BIN`, or `target/release/nw`. Where one is
//! missing, they print that they are skipped.

use nw_testbed::{Cluster, FetchPlan, LabError, Plan, PublishPlan, clean};
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

const TIMEOUT: Duration = Duration::from_secs(60);
/// Environment variable of the process that the test kills.
const VICTIM: &str = "NW_LAB_TEST_VICTIM";

/// Prints that the test is skipped on the process's standard error, which libtest does not capture.
fn skip(reason: &str) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    let _ = std::io::stderr().write_all(format!("skipped: {test}: {reason}\n").as_bytes());
}

fn plan() -> Option<Plan> {
    let default = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target/release/nw");
    let nw = std::env::var_os("NW_BIN").map_or(default, PathBuf::from);
    if !nw.exists() {
        let advice = "does not exist: cargo build --release -p nw-cli, or set NW_BIN";
        skip(&format!("{} {advice}", nw.display()));
        return None;
    }
    let plan = Plan { balancers: 0, ..Plan::new(nw.canonicalize().expect("it exists")) };
    match Cluster::build(&Plan { consumers: 0, producers: 0, ..plan.clone() }) {
        Ok(_) => Some(plan),
        Err(error @ (LabError::Missing(_) | LabError::Refused { .. })) => {
            skip(&error.to_string());
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Returns everything with a testbed's name: namespaces, control groups, directories.
fn leftovers(name: &str) -> Vec<String> {
    let directories =
        ["/run/netns", "/run/nwlab", "/var/lib/nwlab", "/sys/fs/cgroup/cpu", "/sys/fs/cgroup"];
    let entries = directories
        .iter()
        .flat_map(|directory| std::fs::read_dir(directory).into_iter().flatten().flatten());
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|found| found == name || found.starts_with(&format!("{name}-"))).collect()
}

#[test]
fn two_consumers_download_through_single_router() {
    let Some(plan) = plan() else { return };
    let plan = Plan { consumers: 2, ipv6: true, member_share: Some(0.5), ..plan };
    let cluster = Cluster::build(&plan).unwrap();
    let name = cluster.name().to_owned();
    assert!(leftovers(&name).len() >= 5, "{:?}", leftovers(&name));
    let content = "/lab/file".parse().unwrap();
    let publish = PublishPlan { bytes: 2_000_000, ..PublishPlan::default() };
    let publication = cluster.publish(0, &content, &publish).unwrap();
    let before = cluster.traffic().unwrap();
    let output = cluster.content_directory().join("fetched");
    let fetches =
        [Some(output.clone()), None].map(|output| FetchPlan { output, ..FetchPlan::default() });
    let downloads: Vec<_> =
        (0..2).map(|at| cluster.consumers()[at].fetch(&content, &fetches[at]).unwrap()).collect();
    for download in downloads {
        let fetched = download.finish(TIMEOUT).unwrap();
        assert_eq!((fetched.bytes, fetched.segments), (publication.bytes, publication.segments));
    }
    assert_eq!(std::fs::read(output).unwrap(), std::fs::read(&publication.file).unwrap());
    let traffic = cluster.traffic().unwrap()["c1"].since(&before["c1"]);
    assert!(traffic.received_bytes > 2_000_000 && traffic.sent_packets > 400, "{traffic:?}");
    let member = &cluster.members()[0];
    assert!(member.router.process.cpu() > Duration::ZERO);
    assert!(member.router.status().unwrap().out_data >= 2 * publication.segments - 100);
    assert_eq!(member.router.store().unwrap().entries, 0, "the content store is empty by default");
    drop(publication);
    drop(cluster);
    assert_eq!(leftovers(&name), Vec::<String>::new());
}

#[test]
fn processor_shares_and_link_rates_are_limits() {
    let Some(plan) = plan() else { return };
    let plan = Plan { member_share: Some(0.05), end_rate_mbit: Some(8.0), ..plan };
    let cluster = Cluster::build(&plan).unwrap();
    let content = "/lab/slow".parse().unwrap();
    let publish = PublishPlan { bytes: 2_000_000, ..PublishPlan::default() };
    let _publication = cluster.publish(0, &content, &publish).unwrap();
    let (started, before) = (Instant::now(), cluster.members()[0].router.process.cpu());
    let fetched = cluster.consumers()[0]
        .fetch(&content, &FetchPlan::default())
        .unwrap()
        .finish(TIMEOUT)
        .unwrap();
    assert!((4.0..8.5).contains(&fetched.mbit_per_s), "a link of 8 Mbit/s: {fetched:?}");
    let share = (cluster.members()[0].router.process.cpu() - before).as_secs_f64()
        / started.elapsed().as_secs_f64();
    assert!(share < 0.07, "a twentieth of a processor: {share}");
}

#[test]
fn panic_leaves_nothing_behind() {
    let Some(plan) = plan() else { return };
    let (sender, receiver) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        let cluster = Cluster::build(&plan).unwrap();
        sender.send(cluster.name().to_owned()).unwrap();
        panic!("this panic is part of the test");
    });
    let name = receiver.recv().unwrap();
    assert!(thread.join().is_err());
    assert_eq!(leftovers(&name), Vec::<String>::new());
}

/// The process that [`leftovers_of_killed_process_are_removed`] kills.
#[test]
fn killed_process() {
    let Some(name_file) = std::env::var_os(VICTIM) else { return };
    let plan = plan().expect("the parent process could build");
    let cluster = Cluster::build(&plan).unwrap();
    std::fs::write(name_file, cluster.name()).unwrap();
    std::thread::sleep(TIMEOUT);
}

#[test]
fn leftovers_of_killed_process_are_removed() {
    let Some(plan) = plan() else { return };
    let file = std::env::temp_dir().join(format!("nwlab-victim-{}", std::process::id()));
    let mut victim = Command::new(std::env::current_exe().unwrap());
    victim.args(["--exact", "killed_process", "--nocapture"]).env(VICTIM, &file);
    let mut victim = victim.spawn().unwrap();
    let end = Instant::now() + TIMEOUT;
    let name = loop {
        match std::fs::read_to_string(&file) {
            Ok(name) if !name.is_empty() => break name,
            _ => assert!(Instant::now() < end, "the process did not start"),
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let own = Cluster::build(&plan).unwrap();
    assert!(clean().unwrap().in_use.contains(&name), "its owner still runs");
    victim.kill().unwrap();
    victim.wait().unwrap();
    std::fs::remove_file(file).unwrap();
    assert!(leftovers(&name).len() >= 4);
    let cleaned = clean().unwrap();
    assert!(cleaned.removed.contains(&name), "{cleaned:?}");
    assert!(cleaned.in_use.contains(&own.name().to_owned()), "{cleaned:?}");
    assert_eq!(leftovers(&name), Vec::<String>::new());
    assert!(!leftovers(own.name()).is_empty());
}
