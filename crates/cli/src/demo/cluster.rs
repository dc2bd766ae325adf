//! The second part of `nw demo`: three routers that appear as one behind a kernel balancer; a fourth comes and goes while a file is fetched by a client
//! that never asks twice.

use super::{digest, say};
use crate::signals::Ended;
use anyhow::{Context, Result, bail};
use nw_api::balancer::BalancerStatus;
use nw_testbed::{Cluster, FetchPlan, LabError, Plan, PublishPlan};
use std::io;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Mbit/s of each member's link: what limits is the members, not this machine.
const RATE_MBIT: f64 = 20.0;
const MEMBERS: usize = 3;
const SEGMENT: usize = 1000;
const OCTETS: u64 = 100 << 20;
/// Interests on their way: enough for all links, and fewer than the shortest queue of virtual interfaces holds (256 frames).
const WINDOW: u16 = 200;
/// Between two rows of the table.
const ROW: Duration = Duration::from_millis(500);
/// How long each state of the cluster is watched.
const WATCHED: Duration = Duration::from_secs(3);
const PATIENCE: Duration = Duration::from_secs(120);

/// Shows a cluster, or says in one line why that can't be done here.
pub fn cluster(ended: &Ended) -> Result<()> {
    outln!()?;
    let plan = Plan {
        members: MEMBERS,
        member_rates_mbit: vec![Some(RATE_MBIT)],
        ..Plan::new(std::env::current_exe().context("can't find this program's own file")?)
    };
    let mut cluster = match Cluster::build(&plan) {
        Ok(cluster) => cluster,
        Err(error @ (LabError::Missing(_) | LabError::Refused { .. } | LabError::Program { .. })) => {
            say(&format!("the cluster behind a kernel balancer is left out: {}", first_line(&error)))?;
            return Ok(());
        }
        Err(error) => return Err(error.into()),
    };
    say(&format!(
        "a cluster: {MEMBERS} routers behind a kernel balancer, each on a link of {RATE_MBIT} Mbit/s, in network namespaces of their own"
    ))?;
    out!("{}", cluster.picture().lines().take(3).map(|line| format!("    {line}\n")).collect::<String>())?;
    let name = "/demo/cluster".parse()?;
    let publish = PublishPlan { octets: OCTETS, segment_len: SEGMENT, ..PublishPlan::default() };
    let content = cluster.publish(0, &name, &publish)?;
    let copy = cluster.contents().join("copy");
    say(&format!(
        "{MEMBERS} members can carry {:.0} Mbit/s of frames: some 50 of content; names fall to members by hash, so one may be busier",
        RATE_MBIT * MEMBERS as f64
    ))?;
    say(&format!(
        "fetching {} MiB through it; each packet is asked for once, so that one lost would be the end",
        OCTETS >> 20
    ))?;
    let fetch = FetchPlan { window: WINDOW, retries: 0, output: Some(copy.clone()), ..FetchPlan::default() };
    let mut download = cluster.consumers()[0].fetch(&name, &fetch)?;
    let control = cluster.balancers().first().context("one was planned")?.control().to_owned();
    let stop = AtomicBool::new(false);
    let fetched = std::thread::scope(|scope| {
        scope.spawn(|| drop(watch(&plan.nw, &control, &stop)));
        // The table ends however this ends.
        let _end = Stop(&stop);
        pause(ended);
        say("adding a member: the download becomes faster by a third, as its names now fall to four links")?;
        let number = cluster.add_member()?;
        pause(ended);
        say(
            "removing it again: it gets no new names, and is gone when nothing is pending there; the rate falls back",
        )?;
        cluster.remove_member(number)?;
        pause(ended);
        while download.is_running() && !ended.is_ended() {
            std::thread::sleep(ROW / 5);
        }
        anyhow::Ok(download)
    })?;
    if ended.is_ended() {
        return Ok(());
    }
    let fetched = fetched.finish(PATIENCE)?;
    if digest(&copy)? != digest(&content.file)? {
        bail!("what came through the cluster is not what was published");
    }
    outln!(
        "\n{} packets fetched in {:.1} s ({:.0} Mbit/s), {} asked for again; the copy is that of the original",
        fetched.segments,
        fetched.seconds,
        fetched.mbit_per_s,
        fetched.retransmissions
    )?;
    Ok(())
}

fn first_line(error: &LabError) -> String {
    error.to_string().lines().next().unwrap_or_default().to_owned()
}

fn pause(ended: &Ended) {
    let end = Instant::now() + WATCHED;
    while Instant::now() < end && !ended.is_ended() {
        std::thread::sleep(ROW / 5);
    }
}

/// Sets a flag when dropped.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A row now and then: what all members give, and what each does.
fn watch(nw: &Path, control: &Path, stop: &AtomicBool) -> io::Result<()> {
    let Some(mut before) = status(nw, control) else { return Ok(()) };
    let mut at = Instant::now();
    outln!("    {:>7} {:>8}  {:<20} {:<20} {:<20} {:<20}", "seconds", "Mbit/s", "m1", "m2", "m3", "m4")?;
    let started = at;
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(ROW);
        // What is counted after the end is not of the download.
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let Some(now) = status(nw, control) else { continue };
        let seconds = at.elapsed().as_secs_f64();
        at = Instant::now();
        let (mut data, mut cells) = (0.0, String::new());
        for member in &now.members {
            let earlier = before.members.iter().find(|earlier| earlier.name == member.name);
            let earlier = earlier.map(|earlier| earlier.counters).unwrap_or_default();
            let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
            data += rate(member.counters.out_data, earlier.out_data);
            let interests = rate(member.counters.in_interests, earlier.in_interests);
            cells += &format!("{:<20} ", format!("{} {interests:.0}/s", member.state));
        }
        let mbit = data * SEGMENT as f64 * 8.0 / 1e6;
        outln!("    {:>7.1} {mbit:>8.0}  {}", started.elapsed().as_secs_f64(), cells.trim_end())?;
        before = now;
    }
    Ok(())
}

fn status(nw: &Path, control: &Path) -> Option<BalancerStatus> {
    let mut command = Command::new(nw);
    command.args(["balancer", "status", "--json", "--control"]).arg(control);
    let output = command.output().ok()?;
    serde_json::from_slice(&output.stdout).ok()
}
