//! The second part of `nw demo`: three routers behind a kernel balancer; a fourth is added and
//! removed during a download by a client that never retransmits.

use super::{digest, print_step};
use crate::observe::open_on_desktop;
use crate::recorder::{self, ClusterRecorder};
use crate::signals::StopFlag;
use anyhow::{Context, Result, bail};
use nw_api::balancer::BalancerStatus;
use nw_api::config::Page;
use nw_rest_api::{PageAccess, Server};
use nw_testbed::{Cluster, Download, FetchPlan, LabError, Plan, PublishPlan};
use std::io::{self, IsTerminal};
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

/// Mbit/s of each member's link, so that the members are the bottleneck, not this machine.
const RATE_MBIT: f64 = 20.0;
const MEMBERS: usize = 3;
const SEGMENT: usize = 1000;
const LEN: u64 = 100 << 20;
/// Interests in flight: enough for all links, and fewer than the shortest queue of virtual
/// interfaces holds (256 frames).
const WINDOW: u16 = 200;
/// Interval of rows in the table.
const ROW_INTERVAL: Duration = Duration::from_millis(500);
/// How long each state of the cluster is shown.
const PHASE: Duration = Duration::from_secs(3);
const PATIENCE: Duration = Duration::from_secs(120);

/// Shows a cluster, or prints one line why that can't be done here.
pub fn cluster(stop_flag: &StopFlag) -> Result<()> {
    outln!()?;
    let plan = Plan {
        members: MEMBERS,
        member_rates_mbit: vec![Some(RATE_MBIT)],
        ..Plan::new(std::env::current_exe().context("can't find this program's own file")?)
    };
    let mut cluster = match Cluster::build(&plan) {
        Ok(cluster) => cluster,
        Err(
            error @ (LabError::Missing(_) | LabError::Refused { .. } | LabError::Program { .. }),
        ) => {
            print_step(&format!(
                "the cluster behind a kernel balancer is skipped: {}",
                first_line(&error)
            ))?;
            return Ok(());
        }
        Err(error) => return Err(error.into()),
    };
    print_step(&format!(
        "a cluster: {MEMBERS} routers behind a kernel balancer, each on a link of {RATE_MBIT} \
         Mbit/s, in network namespaces"
    ))?;
    out!(
        "{}",
        cluster.diagram().lines().take(3).map(|line| format!("    {line}\n")).collect::<String>()
    )?;
    let name = "/demo/cluster".parse()?;
    let publish = PublishPlan { bytes: LEN, segment_len: SEGMENT, ..PublishPlan::default() };
    let content = cluster.publish(0, &name, &publish)?;
    let copy = cluster.content_directory().join("copy");
    print_step(&format!(
        "{MEMBERS} members can carry {:.0} Mbit/s of frames, about 50 of content; names are \
         assigned by hash, so one member may be busier",
        RATE_MBIT * MEMBERS as f64
    ))?;
    print_step(&format!(
        "fetching {} MiB through it; each packet is requested only once, so a lost packet would \
         end the download",
        LEN >> 20
    ))?;
    let fetch = FetchPlan {
        window: WINDOW,
        retries: 0,
        output: Some(copy.clone()),
        ..FetchPlan::default()
    };
    let mut download = cluster.consumers()[0].fetch(&name, &fetch)?;
    let control = cluster.balancers().first().context("one was planned")?.control().to_owned();
    let page = ClusterPage::open(&control)?;
    rescale(&mut cluster, &plan.nw, &control, &mut download, stop_flag)?;
    if stop_flag.is_set() {
        return Ok(());
    }
    let fetched = download.finish(PATIENCE)?;
    if digest(&copy)? != digest(&content.file)? {
        bail!("the file fetched through the cluster differs from the published one");
    }
    outln!(
        "\n{} packets fetched in {:.1} s ({:.0} Mbit/s), {} retransmitted; the copy equals the \
         original",
        fetched.segments,
        fetched.seconds,
        fetched.mbit_per_s,
        fetched.retransmissions
    )?;
    page.wait(stop_flag)
}

/// A page that shows the cluster while it grows, and replays it afterwards.
struct ClusterPage {
    recorder: ClusterRecorder,
    access: Arc<PageAccess>,
    _server: Server,
    /// A browser of the desktop shows it.
    is_open: bool,
}

impl ClusterPage {
    fn open(control: &Path) -> Result<Self> {
        let recorder = ClusterRecorder::start(control.to_owned(), "nw demo: a cluster")?;
        let page = Page { listen: vec![(Ipv4Addr::LOCALHOST, 0).into()], ..Page::default() };
        let (server, access) = nw_rest_api::serve_recording(recorder.recorder(), &page)?;
        let url = recorder::ticket(&access)?.url;
        let is_open = open_on_desktop(&url);
        match is_open {
            true => print_step("the browser shows the cluster as it grows")?,
            false => print_step(&format!("the same in a browser, as it happens: {url}"))?,
        }
        Ok(ClusterPage { recorder, access, _server: server, is_open })
    }

    /// Keeps the page until a person has seen it. Without a desktop it ends with the cluster.
    fn wait(mut self, stop_flag: &StopFlag) -> Result<()> {
        self.recorder.end();
        if !self.is_open || !std::io::stdin().is_terminal() {
            return Ok(());
        }
        print_step(&format!(
            "{} replays it: move the slider. Press Enter to go on",
            self.access.url()
        ))?;
        let (sender, pressed) = mpsc::channel();
        std::thread::spawn(move || {
            let _ = std::io::stdin().read_line(&mut String::new());
            let _ = sender.send(());
        });
        while !stop_flag.is_set() {
            match pressed.recv_timeout(ROW_INTERVAL / 5) {
                Err(RecvTimeoutError::Timeout) => {}
                _ => break,
            }
        }
        Ok(())
    }
}

/// Adds and removes a member during the download, while a table of rates is printed.
fn rescale(
    cluster: &mut Cluster,
    nw: &Path,
    control: &Path,
    download: &mut Download,
    stop_flag: &StopFlag,
) -> Result<()> {
    let stop_table = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| drop(watch(nw, control, &stop_table)));
        // Stops the table on every return path.
        let _guard = SetOnDrop(&stop_table);
        pause(stop_flag);
        print_step(
            "adding a member: the download becomes a third faster, as names are now spread over \
             four links",
        )?;
        let number = cluster.add_member()?;
        pause(stop_flag);
        print_step(
            "removing it again: it gets no new names, and is removed when nothing is pending \
             there; the rate falls back",
        )?;
        cluster.remove_member(number)?;
        pause(stop_flag);
        while download.is_running() && !stop_flag.is_set() {
            std::thread::sleep(ROW_INTERVAL / 5);
        }
        Ok(())
    })
}

fn first_line(error: &LabError) -> String {
    error.to_string().lines().next().unwrap_or_default().to_owned()
}

fn pause(stop_flag: &StopFlag) {
    let end = Instant::now() + PHASE;
    while Instant::now() < end && !stop_flag.is_set() {
        std::thread::sleep(ROW_INTERVAL / 5);
    }
}

/// Sets a flag when dropped.
struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Prints a row at intervals: the rate of the cluster, and the state and Interest rate of each
/// member.
fn watch(nw: &Path, control: &Path, stop: &AtomicBool) -> io::Result<()> {
    let Some(mut before) = status(nw, control) else { return Ok(()) };
    let mut at = Instant::now();
    outln!(
        "    {:>7} {:>8}  {:<20} {:<20} {:<20} {:<20}",
        "seconds",
        "Mbit/s",
        "m1",
        "m2",
        "m3",
        "m4"
    )?;
    let started = at;
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(ROW_INTERVAL);
        // Packets after the end do not belong to the download.
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
