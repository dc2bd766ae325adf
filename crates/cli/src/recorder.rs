//! Recordings: files, and a cluster that is recorded while it runs.

use crate::observe::http::{ControlAddress, Method, request_json};
use anyhow::{Context, Result, anyhow, bail};
use nw_api::balancer::{BalancerMember, BalancerStatus, MemberState};
use nw_api::recording::{RecordedFrame, RecordedHealth, RecordedNode, RecordedState, Recording};
use nw_api::rest::PageTicket;
use nw_rest_api::{PageAccess, PageUser, Recorder};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Interval of frames.
const FRAME_INTERVAL: Duration = Duration::from_millis(500);
/// Longest file, bytes.
const FILE_BYTES_MAX: u64 = 256 << 20;
/// Index of the balancer's node.
const BALANCER: u32 = 0;

/// Reads and checks a recording.
pub fn read(path: &Path) -> Result<Recording> {
    let file = File::open(path).with_context(|| format!("can't read {}", path.display()))?;
    let mut text = String::new();
    let read = file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text);
    read.with_context(|| format!("can't read {}", path.display()))?;
    if text.len() as u64 > FILE_BYTES_MAX {
        bail!("{} is longer than {FILE_BYTES_MAX} bytes", path.display());
    }
    let advice = || {
        format!(
            "{} is not a recording: make one with nw sim run, nw lab run or nw lab cluster, with --record",
            path.display()
        )
    };
    let recording: Recording = serde_json::from_str(&text).with_context(advice)?;
    match recording.check() {
        Ok(()) => Ok(recording),
        Err(fault) => bail!("{}: {fault}", path.display()),
    }
}

/// Writes a recording.
pub fn write(path: &Path, recording: &Recording) -> Result<()> {
    let write = || -> std::io::Result<()> {
        let mut file = BufWriter::new(File::create(path)?);
        serde_json::to_writer(&mut file, recording)?;
        file.flush()
    };
    write().with_context(|| format!("can't write {}", path.display()))
}

/// Returns a URL that opens a page once.
pub fn ticket(access: &PageAccess) -> Result<PageTicket> {
    access.create_ticket(PageUser::default()).map_err(|error| anyhow!(error.0.text))
}

/// Records a cluster by the control socket of its balancer, until it is dropped.
pub struct ClusterRecorder {
    recorder: Arc<Recorder>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl ClusterRecorder {
    /// Starts recording.
    pub fn start(control: PathBuf, title: &str) -> Result<Self> {
        let balancer = RecordedNode {
            name: "balancer".to_owned(),
            kind: "balancer".to_owned(),
            ..RecordedNode::default()
        };
        let recording = Recording {
            title: title.to_owned(),
            nodes: vec![balancer],
            is_running: true,
            ..Recording::default()
        };
        let (recorder, stop) = (Recorder::new(recording), Arc::new(AtomicBool::new(false)));
        let mut frames = ClusterFrames {
            recorder: Arc::clone(&recorder),
            indices: BTreeMap::new(),
            before: BTreeMap::new(),
            started: Instant::now(),
            at: Instant::now(),
        };
        let stop_flag = Arc::clone(&stop);
        let address = ControlAddress::Balancer(control);
        let run = move || {
            while !stop_flag.load(Ordering::Relaxed) {
                if let Ok(status) = request_json(&address, Method::Get, "/v1/balancer", None) {
                    frames.add(&status);
                }
                std::thread::sleep(FRAME_INTERVAL);
            }
        };
        let thread = std::thread::Builder::new().name("recorder".into()).spawn(run);
        let thread = Some(thread.context("can't start a thread")?);
        Ok(ClusterRecorder { recorder, stop, thread })
    }

    /// Returns what is recorded.
    pub fn recorder(&self) -> Arc<Recorder> {
        Arc::clone(&self.recorder)
    }

    /// Ends the recording.
    pub fn end(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        self.recorder.end();
    }
}

impl Drop for ClusterRecorder {
    fn drop(&mut self) {
        self.end();
    }
}

/// Frames of a cluster, from one status to the next.
struct ClusterFrames {
    recorder: Arc<Recorder>,
    /// Index of each member's node; its link has the index before it.
    indices: BTreeMap<String, u32>,
    /// State, packets of each member in the last frame.
    before: BTreeMap<String, (MemberState, u64)>,
    started: Instant,
    at: Instant,
}

impl ClusterFrames {
    fn add(&mut self, status: &BalancerStatus) {
        let seconds = self.at.elapsed().as_secs_f64().max(0.001);
        self.at = Instant::now();
        let mut texts = Vec::new();
        for member in &status.members {
            if !self.indices.contains_key(&member.name) {
                let node = RecordedNode {
                    name: member.name.clone(),
                    kind: "router".to_owned(),
                    ..RecordedNode::default()
                };
                let index = self.recorder.add_node(node, Some(BALANCER));
                self.indices.insert(member.name.clone(), index);
            }
        }
        let count = self.indices.len();
        let absent = RecordedState { health: RecordedHealth::Absent, ..RecordedState::default() };
        let (mut nodes, mut links) = (vec![absent; count + 1], vec![absent; count]);
        let mut total = 0.0;
        let mut active = 0;
        for member in &status.members {
            let packets = packets(member);
            let known = self.before.insert(member.name.clone(), (member.state, packets));
            let before = known.map_or(packets, |(_, before)| before);
            let rate = packets.saturating_sub(before) as f64 / seconds;
            total += rate;
            active += usize::from(member.state == MemberState::Active);
            if known.is_none_or(|(state, _)| state != member.state) {
                texts.push(format!("{} is {}", member.name, member.state));
            }
            let state = RecordedState { health: health(member, rate), rate, dropped: 0.0 };
            let index = self.indices[&member.name] as usize;
            (nodes[index], links[index - 1]) = (state, state);
        }
        for gone in self.indices.keys() {
            let is_there = status.members.iter().any(|member| member.name == *gone);
            if !is_there && self.before.remove(gone).is_some() {
                texts.push(format!("{gone} is removed"));
            }
        }
        let health = if total > 0.0 { RecordedHealth::Ok } else { RecordedHealth::Idle };
        nodes[0] = RecordedState { health, rate: total, dropped: 0.0 };
        let totals = [("packets/s", total), ("active members", active as f64)];
        self.recorder.add_frame(RecordedFrame {
            at_ms: self.started.elapsed().as_millis() as u64,
            text: texts.join("; "),
            nodes,
            links,
            totals: totals.map(|(name, value)| (name.to_owned(), value)).into(),
        });
    }
}

fn packets(member: &BalancerMember) -> u64 {
    let counters = member.counters;
    counters.in_interests + counters.in_data + counters.out_interests + counters.out_data
}

fn health(member: &BalancerMember, rate: f64) -> RecordedHealth {
    match member.state {
        MemberState::Failed => RecordedHealth::Failed,
        MemberState::Gone => RecordedHealth::Absent,
        MemberState::Joining | MemberState::Draining => RecordedHealth::Warning,
        _ if member.healthy == Some(false) => RecordedHealth::Warning,
        _ if rate > 0.0 => RecordedHealth::Ok,
        _ => RecordedHealth::Idle,
    }
}
