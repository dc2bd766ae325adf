//! Who asks and who answers.

use crate::error::LabError;
use crate::node::Node;
use crate::process::Running;
use crate::router::Router;
use nw_name::Name;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Receiver;
use std::time::Duration;

/// For a publication to be served.
const PATIENCE: Duration = Duration::from_secs(20);

/// Tells files of one process apart.
static MADE: AtomicUsize = AtomicUsize::new(0);

/// How something is fetched.
#[derive(Clone, Debug)]
pub struct FetchPlan {
    /// Interests on their way at most.
    pub window: u16,
    /// How often a segment is asked for again; 0 is a client that never retransmits: one packet lost, and the download fails.
    pub retries: u32,
    /// Where the content goes; nowhere if not said.
    pub output: Option<PathBuf>,
    /// Ask for the newest version first, unless the name ends in one.
    pub discover_version: bool,
}

impl Default for FetchPlan {
    fn default() -> Self {
        FetchPlan { window: 64, retries: 15, output: None, discover_version: true }
    }
}

/// What a download was like, as `nw cat --json` tells it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Fetched {
    /// Of the segments, without their number.
    pub name: String,
    /// Octets of content.
    pub bytes: u64,
    /// Segments.
    pub segments: u64,
    /// From the first Interest to the last Data.
    pub seconds: f64,
    /// Mbit of content a second.
    pub mbit_per_s: f64,
    /// Interests sent, retransmissions included.
    pub interests: u64,
    /// Interests sent again.
    pub retransmissions: u64,
    /// Data with a congestion mark.
    pub marks: u64,
    /// Nacks received.
    pub nacks: u64,
}

/// One who asks.
#[derive(Debug)]
pub struct Consumer {
    pub(crate) router: Option<Router>,
    /// Its machine.
    pub node: Node,
    pub(crate) nw: PathBuf,
    /// Where it asks: the cluster, or its own router.
    pub uri: String,
}

impl Consumer {
    /// Its own router, if it has one.
    pub fn router(&self) -> Option<&Router> {
        self.router.as_ref()
    }

    /// Starts a download.
    ///
    /// # Errors
    /// When it can't be started.
    pub fn fetch(&self, name: &Name, plan: &FetchPlan) -> Result<Download, LabError> {
        let mut command = self.nw("cat");
        command.args(["--json", "--quiet", "--window", &plan.window.to_string()]);
        command.args(["--retries", &plan.retries.to_string()]);
        if !plan.discover_version {
            command.arg("--no-version");
        }
        if let Some(path) = &plan.output {
            command.arg("--output").arg(path);
        }
        command.arg(name.to_string()).stdout(Stdio::null());
        let log = format!("fetch{}", MADE.fetch_add(1, Ordering::Relaxed));
        Ok(Download { running: self.node.start(&log, &mut command)? })
    }

    /// Sends traffic by a rule below a prefix. `options` are those of `nw bench generate`: window, seconds, pattern.
    ///
    /// # Errors
    /// When it can't be started.
    pub fn generate(&self, prefix: &Name, options: &[&str]) -> Result<Generating, LabError> {
        let mut command = self.nw("bench");
        command.args(["generate", "--json", "--prefix", &prefix.to_string()]).args(options);
        let log = format!("generate{}", MADE.fetch_add(1, Ordering::Relaxed));
        let mut running = self.node.start(&log, command.stdout(Stdio::piped()))?;
        let lines = running.lines();
        Ok(Generating { running, lines })
    }

    /// A command of `nw` that asks where this consumer asks; give it arguments and [`Node::start`] it.
    pub fn nw(&self, verb: &str) -> Command {
        let mut command = Command::new(&self.nw);
        command.arg(verb).env("NDN_CLIENT_TRANSPORT", &self.uri);
        command
    }
}

/// A download that runs.
#[derive(Debug)]
pub struct Download {
    running: Running,
}

impl Download {
    /// True until it has ended, well or not.
    pub fn is_running(&mut self) -> bool {
        self.running.ended().is_none()
    }

    /// Its process.
    pub fn process(&self) -> &Running {
        &self.running
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// When it fails, or takes longer.
    pub fn finish(mut self, patience: Duration) -> Result<Fetched, LabError> {
        self.running.finish(patience)?;
        let words = self.running.last_words();
        let report = words.lines().last().and_then(|line| serde_json::from_str(line).ok());
        report.ok_or_else(|| self.running.complaint("it did not say what it fetched"))
    }
}

/// Traffic by a rule that runs: `nw bench generate`.
#[derive(Debug)]
pub struct Generating {
    running: Running,
    lines: Receiver<String>,
}

/// What came of it: see `nw bench generate --help`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Generated {
    /// Requests.
    pub asked: u64,
    /// Answers.
    pub answered: u64,
    /// Requests that were not answered in time.
    pub lost: u64,
    /// Answers a second.
    pub answered_per_s: f64,
    /// Mbit of Data a second.
    pub mbit_per_s: f64,
}

impl Generating {
    /// Its process.
    pub fn process(&self) -> &Running {
        &self.running
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// When it fails, or takes longer.
    pub fn finish(mut self, patience: Duration) -> Result<Generated, LabError> {
        self.running.finish(patience)?;
        let line = self.lines.recv_timeout(PATIENCE).unwrap_or_default();
        serde_json::from_str(&line)
            .map_err(|error| self.running.complaint(&format!("its result can't be read: {error}")))
    }
}

/// How something is published.
#[derive(Clone, Debug)]
pub struct PublishPlan {
    /// Octets of content.
    pub octets: u64,
    /// Octets of one segment.
    pub segment_len: usize,
    /// FreshnessPeriod of segments.
    pub freshness_ms: u64,
    /// Register with the cluster, over its address and port, instead of with the producer's own router.
    pub register_with_cluster: bool,
}

impl Default for PublishPlan {
    fn default() -> Self {
        PublishPlan { octets: 1 << 20, segment_len: 4400, freshness_ms: 60_000, register_with_cluster: false }
    }
}

/// One who answers.
#[derive(Debug)]
pub struct Producer {
    /// The router that its applications are behind.
    pub router: Router,
    /// Its machine.
    pub node: Node,
    pub(crate) nw: PathBuf,
    /// The cluster, for those who register there.
    pub(crate) cluster: String,
    /// Where what is published is kept.
    pub(crate) contents: PathBuf,
}

impl Producer {
    /// Makes a file and serves it under a name. Nobody else is told: [`crate::Cluster::publish`] also tells the cluster.
    ///
    /// # Errors
    /// When it is not served in time.
    pub fn publish(&self, name: &Name, plan: &PublishPlan) -> Result<Publication, LabError> {
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let file = self.contents.join(format!("{}.{number}", self.node.name));
        write_content(&file, plan.octets, number as u64).map_err(LabError::at("write", &file))?;
        let transport = match plan.register_with_cluster {
            true => self.cluster.clone(),
            false => self.router.uri().to_string(),
        };
        let mut command = Command::new(&self.nw);
        command.args(["put", "--json", "--quiet", "--segment", &plan.segment_len.to_string()]);
        command.args(["--freshness", &plan.freshness_ms.to_string()]).arg(name.to_string()).arg(&file);
        command.env("NDN_CLIENT_TRANSPORT", transport).stdout(Stdio::piped());
        let mut running = self.node.start(&format!("put{number}"), &mut command)?;
        wait_until_ready(&mut running)?;
        let segments = plan.octets.div_ceil(plan.segment_len.max(1) as u64).max(1);
        Ok(Publication { running, name: name.clone(), file, octets: plan.octets, segments })
    }

    /// Answers every Interest below a prefix with made-up Data, cheaply: `nw bench answer`, whose options these are. Nobody else is told:
    /// [`crate::Cluster::answer`] also tells the cluster.
    ///
    /// # Errors
    /// When it is not served in time.
    pub fn answer(&self, prefix: &Name, options: &[&str]) -> Result<Running, LabError> {
        let mut command = Command::new(&self.nw);
        command.args(["bench", "answer", "--json", "--prefix", &prefix.to_string()]).args(options);
        command.env("NDN_CLIENT_TRANSPORT", self.router.uri().to_string()).stdout(Stdio::piped());
        let log = format!("answer{}", MADE.fetch_add(1, Ordering::Relaxed));
        let mut running = self.node.start(&log, &mut command)?;
        wait_until_ready(&mut running)?;
        Ok(running)
    }
}

/// Both say so in their first line.
fn wait_until_ready(running: &mut Running) -> Result<(), LabError> {
    let lines = running.lines();
    running.wait_until(PATIENCE, "serves its name", || lines.try_recv().is_ok())
}

fn write_content(path: &PathBuf, octets: u64, seed: u64) -> std::io::Result<()> {
    let mut file = std::io::BufWriter::new(fs::File::create(path)?);
    let mut state = 0x9e37_79b9_7f4a_7c15_u64 ^ seed.wrapping_mul(0x2545_f491_4f6c_dd1d);
    let mut left = octets;
    while left > 0 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let part = &state.to_le_bytes()[..left.min(8) as usize];
        file.write_all(part)?;
        left -= part.len() as u64;
    }
    file.flush()
}

/// Something that is served until this is dropped.
#[derive(Debug)]
pub struct Publication {
    running: Running,
    /// The name, without version.
    pub name: Name,
    /// What is served; removed with this.
    pub file: PathBuf,
    /// Octets of content.
    pub octets: u64,
    /// Segments.
    pub segments: u64,
}

impl Publication {
    /// The application that serves it.
    pub fn process(&self) -> &Running {
        &self.running
    }
}

impl Drop for Publication {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.file);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_has_its_length_and_differs() {
        let folder = std::env::temp_dir().join(format!("nwlab-content-{}", std::process::id()));
        let read = |seed| {
            write_content(&folder, 1003, seed).unwrap();
            fs::read(&folder).unwrap()
        };
        let (one, other) = (read(1), read(2));
        assert_eq!(one.len(), 1003);
        assert_ne!(one, other);
        fs::remove_file(folder).unwrap();
    }
}
