//! What a process saw, and the pace of a publisher.

use std::io::Write;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Why a process of the benchmark ends.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Longest pause of publications before a subscriber ends.
const SILENCE: Duration = Duration::from_secs(3);
/// Longest wait for the first publication.
const PATIENCE: Duration = Duration::from_secs(60);

/// The workload.
#[derive(Clone, Debug)]
pub struct Load {
    /// Payload bytes of a publication, at least 8.
    pub len: usize,
    /// Publications.
    pub count: u64,
    /// Time between publications, microseconds; 0: as fast as possible.
    pub interval_us: u64,
    /// Pause of a subscriber after each publication, microseconds.
    pub pause_us: u64,
    /// Whether publications may be lost; otherwise the publisher waits.
    pub overwrites: bool,
}

/// What one process saw.
#[derive(Debug, Default)]
pub struct Outcome {
    publications: u64,
    cpu_us: f64,
    elapsed_s: f64,
    delays_us: (f64, f64),
}

impl Outcome {
    /// Returns the outcome as JSON. None of these systems tells a subscriber of a loss.
    pub fn json(&self) -> String {
        serde_json::json!({
            "publications": self.publications,
            "lost": 0,
            "cpu_us": self.cpu_us,
            "elapsed_s": self.elapsed_s,
            "delays_us": [self.delays_us.0, self.delays_us.1],
        })
        .to_string()
    }
}

/// Writes the line that says that this process is connected.
pub fn report_ready() -> Result<(), Failure> {
    let mut out = std::io::stdout();
    writeln!(out, "ready")?;
    Ok(out.flush()?)
}

/// Publishes all of a load by `send`, at its pace, once a line of standard input has come.
/// `finish` returns when all is with the subscribers or the network.
pub fn publish_all(
    load: &Load,
    mut send: impl FnMut(&[u8]) -> Result<(), Failure>,
    finish: impl FnOnce() -> Result<(), Failure>,
) -> Result<Outcome, Failure> {
    report_ready()?;
    std::io::stdin().read_line(&mut String::new())?;
    let mut payload = vec![0; load.len];
    let (cpu_us, started) = (own_cpu_us(), Instant::now());
    let mut due = started;
    for _ in 0..load.count {
        if load.interval_us > 0 {
            due += Duration::from_micros(load.interval_us);
            wait_until(due);
            payload[..8].copy_from_slice(&unix_nanoseconds().to_le_bytes());
        }
        send(&payload)?;
    }
    finish()?;
    let elapsed_s = started.elapsed().as_secs_f64();
    let cpu_us = own_cpu_us() - cpu_us;
    Ok(Outcome { publications: load.count, cpu_us, elapsed_s, delays_us: (0.0, 0.0) })
}

/// What a subscriber has seen so far.
#[derive(Debug)]
pub struct Seen {
    load: Load,
    count: u64,
    started: Option<Instant>,
    last: Instant,
    cpu_us: f64,
    last_byte: u8,
    delays_us: Vec<f64>,
}

impl Seen {
    /// Returns a count of nothing.
    pub fn new(load: &Load) -> Self {
        Seen {
            load: load.clone(),
            count: 0,
            started: None,
            last: Instant::now(),
            cpu_us: 0.0,
            last_byte: 0,
            delays_us: Vec::new(),
        }
    }

    /// Counts a publication, whose last byte is read as a user would.
    pub fn take(&mut self, payload: &[u8]) {
        if self.started.is_none() {
            self.started = Some(Instant::now());
            self.last = Instant::now();
            self.cpu_us = own_cpu_us();
        }
        self.count += 1;
        self.last_byte ^= payload.last().copied().unwrap_or(0);
        let sent = payload.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        if sent > 0 {
            self.delays_us.push(unix_nanoseconds().saturating_sub(sent) as f64 / 1000.0);
        }
        if self.load.pause_us > 0 {
            std::thread::sleep(Duration::from_micros(self.load.pause_us));
        }
        // The clock is read for one of 64 publications, and for each where they are few or large.
        if self.count & 63 == 0 || payload.len() > 4096 || self.is_complete() {
            self.last = Instant::now();
        }
    }

    /// Returns whether all publications have come.
    pub const fn is_complete(&self) -> bool {
        self.count >= self.load.count
    }

    /// Returns whether all have come, or nothing has come for long.
    pub fn has_ended(&self) -> bool {
        let limit = if self.started.is_some() { SILENCE } else { PATIENCE };
        self.is_complete() || self.last.elapsed() > limit
    }

    /// Returns the outcome. Silence at the end does not count.
    pub fn outcome(&mut self) -> Outcome {
        std::hint::black_box(self.last_byte);
        self.delays_us.sort_by(f64::total_cmp);
        let len = self.delays_us.len() as f64;
        let at = |share: f64| self.delays_us.get((len * share) as usize).copied().unwrap_or(0.0);
        Outcome {
            publications: self.count,
            cpu_us: own_cpu_us() - self.cpu_us,
            elapsed_s: self.started.map_or(0.0, |started| (self.last - started).as_secs_f64()),
            delays_us: (at(0.5), at(0.99)),
        }
    }
}

/// Returns the processor time of all threads of this process, microseconds.
fn own_cpu_us() -> f64 {
    let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let nanoseconds =
        |stat: String| stat.split(' ').next().and_then(|text| text.parse::<f64>().ok());
    threads
        .filter_map(|thread| std::fs::read_to_string(thread.path().join("schedstat")).ok())
        .filter_map(nanoseconds)
        .sum::<f64>()
        / 1000.0
}

fn unix_nanoseconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}

/// Sleeps, and turns for the last moment: a sleep is longer than asked for.
fn wait_until(due: Instant) {
    loop {
        let left = due.saturating_duration_since(Instant::now());
        match left {
            Duration::ZERO => return,
            left if left > Duration::from_micros(200) => {
                std::thread::sleep(left - Duration::from_micros(150));
            }
            _ => std::hint::spin_loop(),
        }
    }
}
