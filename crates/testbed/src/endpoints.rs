//! Consumers and producers.

use crate::error::LabError;
use crate::node::Node;
use crate::process::Running;
use crate::router::Router;
use nw_name::Name;
use nw_packet_types::random::Random;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Receiver;
use std::time::Duration;

/// The time for a publication to be served.
const READY_TIMEOUT: Duration = Duration::from_secs(20);

/// Makes the file names of one process unique.
static FILE_COUNTER: AtomicUsize = AtomicUsize::new(0);

/// The options of a download.
#[derive(Clone, Debug)]
pub struct FetchPlan {
    /// Maximum number of pending Interests.
    pub window: u16,
    /// Maximum retransmissions of a segment. With 0 the client never retransmits, and the download
    /// fails when one packet is lost.
    pub retries: u32,
    /// The file for the content, which is discarded by default.
    pub output: Option<PathBuf>,
    /// Whether the newest version is discovered first, unless the name ends in a version.
    pub discover_version: bool,
}

impl Default for FetchPlan {
    fn default() -> Self {
        FetchPlan { window: 64, retries: 15, output: None, discover_version: true }
    }
}

/// The result of a download, as reported by `nw cat --json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Fetched {
    /// The name of the segments, without the segment number.
    pub name: String,
    /// Bytes of content.
    pub bytes: u64,
    /// Segments.
    pub segments: u64,
    /// Duration from the first Interest to the last Data.
    pub seconds: f64,
    /// Mbit of content per second.
    pub mbit_per_s: f64,
    /// Interests sent, including retransmissions.
    pub interests: u64,
    /// Retransmitted Interests.
    pub retransmissions: u64,
    /// Data with a congestion mark.
    pub marks: u64,
    /// Nacks received.
    pub nacks: u64,
}

/// A consumer.
#[derive(Debug)]
pub struct Consumer {
    pub(crate) router: Option<Router>,
    /// The node that it runs on.
    pub node: Node,
    pub(crate) nw: PathBuf,
    /// The face URI that its Interests go to: the cluster or its own router.
    pub uri: String,
}

impl Consumer {
    /// Returns the consumer's own router, if it has one.
    pub fn router(&self) -> Option<&Router> {
        self.router.as_ref()
    }

    /// Starts a download.
    ///
    /// # Errors
    /// Returns an error if the program can't be started.
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
        let log = format!("fetch{}", FILE_COUNTER.fetch_add(1, Ordering::Relaxed));
        Ok(Download { running: self.node.start(&log, &mut command)? })
    }

    /// Generates traffic below a prefix. `options` are those of `nw bench generate`: window,
    /// seconds, pattern.
    ///
    /// # Errors
    /// Returns an error if the program can't be started.
    pub fn generate(&self, prefix: &Name, options: &[&str]) -> Result<Generator, LabError> {
        let mut command = self.nw("bench");
        command.args(["generate", "--json", "--prefix", &prefix.to_string()]).args(options);
        let log = format!("generate{}", FILE_COUNTER.fetch_add(1, Ordering::Relaxed));
        let mut running = self.node.start(&log, command.stdout(Stdio::piped()))?;
        let lines = running.lines();
        Ok(Generator { running, lines })
    }

    /// Returns an `nw` command that connects where this consumer does, for [`Node::start`].
    pub fn nw(&self, verb: &str) -> Command {
        let mut command = Command::new(&self.nw);
        command.arg(verb).env("NDN_CLIENT_TRANSPORT", &self.uri);
        command
    }
}

/// A running download.
#[derive(Debug)]
pub struct Download {
    running: Running,
}

impl Download {
    /// Returns true until the download has ended.
    pub fn is_running(&mut self) -> bool {
        self.running.exit_status().is_none()
    }

    /// Returns the process.
    pub fn process(&self) -> &Running {
        &self.running
    }

    /// Waits for the end and returns the result.
    ///
    /// # Errors
    /// Returns an error if the program fails or takes longer than the timeout.
    pub fn finish(mut self, timeout: Duration) -> Result<Fetched, LabError> {
        self.running.finish(timeout)?;
        let log = self.running.log_tail();
        let report = log.lines().last().and_then(|line| serde_json::from_str(line).ok());
        report.ok_or_else(|| self.running.failure("it did not report what it fetched"))
    }
}

/// A running `nw bench generate`.
#[derive(Debug)]
pub struct Generator {
    running: Running,
    lines: Receiver<String>,
}

/// The result of `nw bench generate`; see its `--help`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Generated {
    /// Interests sent.
    pub asked: u64,
    /// Data received.
    pub answered: u64,
    /// Interests that were not answered in time.
    pub lost: u64,
    /// Data received per second.
    pub answered_per_s: f64,
    /// Mbit of Data per second.
    pub mbit_per_s: f64,
}

impl Generator {
    /// Returns the process.
    pub fn process(&self) -> &Running {
        &self.running
    }

    /// Waits for the end and returns the result.
    ///
    /// # Errors
    /// Returns an error if the program fails or takes longer than the timeout.
    pub fn finish(mut self, timeout: Duration) -> Result<Generated, LabError> {
        self.running.finish(timeout)?;
        let line = self.lines.recv_timeout(READY_TIMEOUT).unwrap_or_default();
        serde_json::from_str(&line)
            .map_err(|error| self.running.failure(&format!("its result can't be read: {error}")))
    }
}

/// The options of a publication.
#[derive(Clone, Debug)]
pub struct PublishPlan {
    /// Bytes of content.
    pub bytes: u64,
    /// Bytes of one segment.
    pub segment_len: usize,
    /// FreshnessPeriod of the segments.
    pub freshness_ms: u64,
    /// Whether the prefix is registered with the cluster, over its address and port, instead of
    /// with the producer's own router.
    pub register_with_cluster: bool,
}

impl Default for PublishPlan {
    fn default() -> Self {
        PublishPlan {
            bytes: 1 << 20,
            segment_len: 4400,
            freshness_ms: 60_000,
            register_with_cluster: false,
        }
    }
}

/// A producer.
#[derive(Debug)]
pub struct Producer {
    /// The router that its applications connect to.
    pub router: Router,
    /// The node that it runs on.
    pub node: Node,
    pub(crate) nw: PathBuf,
    /// The face URI of the cluster, for registration there.
    pub(crate) cluster: String,
    /// The directory of published content.
    pub(crate) content_directory: PathBuf,
}

impl Producer {
    /// Makes a file and serves it under a name. Only [`crate::Cluster::publish`] also adds a route
    /// in the cluster.
    ///
    /// # Errors
    /// Returns an error if the name is not served in time.
    pub fn publish(&self, name: &Name, plan: &PublishPlan) -> Result<Publication, LabError> {
        let number = FILE_COUNTER.fetch_add(1, Ordering::Relaxed);
        let file = self.content_directory.join(format!("{}.{number}", self.node.name));
        write_content(&file, plan.bytes, number as u64).map_err(LabError::at("write", &file))?;
        let transport = match plan.register_with_cluster {
            true => self.cluster.clone(),
            false => self.router.uri().to_string(),
        };
        let mut command = Command::new(&self.nw);
        command.args(["put", "--json", "--quiet", "--segment", &plan.segment_len.to_string()]);
        command
            .args(["--freshness", &plan.freshness_ms.to_string()])
            .arg(name.to_string())
            .arg(&file);
        command.env("NDN_CLIENT_TRANSPORT", transport).stdout(Stdio::piped());
        let mut running = self.node.start(&format!("put{number}"), &mut command)?;
        wait_until_ready(&mut running)?;
        let segments = plan.bytes.div_ceil(plan.segment_len.max(1) as u64).max(1);
        Ok(Publication { running, name: name.clone(), file, bytes: plan.bytes, segments })
    }

    /// Answers every Interest below a prefix with generated Data: `nw bench answer`, with its
    /// options. Only [`crate::Cluster::answer`] also adds a route in the cluster.
    ///
    /// # Errors
    /// Returns an error if the name is not served in time.
    pub fn answer(&self, prefix: &Name, options: &[&str]) -> Result<Running, LabError> {
        let mut command = Command::new(&self.nw);
        command.args(["bench", "answer", "--json", "--prefix", &prefix.to_string()]).args(options);
        command.env("NDN_CLIENT_TRANSPORT", self.router.uri().to_string()).stdout(Stdio::piped());
        let log = format!("answer{}", FILE_COUNTER.fetch_add(1, Ordering::Relaxed));
        let mut running = self.node.start(&log, &mut command)?;
        wait_until_ready(&mut running)?;
        Ok(running)
    }
}

/// Waits for the first line of output, which `nw put` and `nw bench answer` print when ready.
fn wait_until_ready(running: &mut Running) -> Result<(), LabError> {
    let lines = running.lines();
    running.wait_until(READY_TIMEOUT, "served its name", || lines.try_recv().is_ok())
}

fn write_content(path: &PathBuf, bytes: u64, seed: u64) -> std::io::Result<()> {
    let mut file = std::io::BufWriter::new(fs::File::create(path)?);
    let mut random = Random::new(seed);
    let mut remaining = bytes;
    while remaining > 0 {
        let part = &random.next_u64().to_le_bytes()[..remaining.min(8) as usize];
        file.write_all(part)?;
        remaining -= part.len() as u64;
    }
    file.flush()
}

/// Content that is served until this is dropped.
#[derive(Debug)]
pub struct Publication {
    running: Running,
    /// The name, without the version.
    pub name: Name,
    /// The file that is served, removed on drop.
    pub file: PathBuf,
    /// Bytes of content.
    pub bytes: u64,
    /// Segments.
    pub segments: u64,
}

impl Publication {
    /// Returns the process that serves the content.
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
    fn generated_content_has_its_length_and_differs_by_seed() {
        let file = std::env::temp_dir().join(format!("nwlab-content-{}", std::process::id()));
        let read = |seed| {
            write_content(&file, 1003, seed).unwrap();
            fs::read(&file).unwrap()
        };
        let (first, second) = (read(1), read(2));
        assert_eq!(first.len(), 1003);
        assert_ne!(first, second);
        fs::remove_file(file).unwrap();
    }
}
