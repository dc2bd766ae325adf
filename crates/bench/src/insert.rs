//! `manager/insert…`: an element is put between two services, and taken out again, while packets
//! flow. What consumers lose is counted, for each order of a change.
//!
//! ```text
//! consumer ─▶ first ─▶ last ─▶ producer        before, and after it was taken out
//! consumer ─▶ first ─▶ middle ─▶ last ─▶ producer
//! ```

use crate::process::ChildProcess;
use crate::report::Row;
use crate::transfer::Place;
use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Exchanges per second with make-before-break.
const RATE: u32 = 50_000;
/// Seconds with make-before-break: 10^6 exchanges.
const LONG_S: u32 = 20;
/// Seconds with the other orders.
const SHORT_S: u32 = 6;
/// Outstanding Interests with the other orders.
const WINDOW: u32 = 64;
/// Interval between two changes.
const CHANGE_INTERVAL: Duration = Duration::from_millis(900);
/// Time for traffic to begin.
const BEGIN: Duration = Duration::from_millis(500);

/// What `nw bench generate --json` prints, as far as it is used.
#[derive(Debug, Deserialize)]
struct Outcome {
    asked: u64,
    answered: u64,
    lost: u64,
    latency_us: Latency,
}

#[derive(Debug, Deserialize)]
struct Latency {
    max: f64,
}

/// Measures the rows.
///
/// # Errors
/// If a process does not start, or a change is refused.
pub fn run() -> Result<Vec<Row>> {
    let place = Place::new()?;
    let services = Services::start(&place)?;
    let rate = RATE.to_string();
    let (kept, _) = services.measure("make-before-break", LONG_S, &["--rate", &rate])?;
    let window = WINDOW.to_string();
    let (held, _) = services.measure("buffer", SHORT_S, &["--window", &window])?;
    let (dropped, changes) = services.measure("drop", SHORT_S, &["--window", &window])?;
    let row = |name: &str, unit: &str, value: f64| Row::new(name, unit, &[value]);
    let (buffer, drop) = ("manager/insert/buffer", "manager/insert/drop");
    Ok(vec![
        row("manager/insert", "lost", kept.lost as f64),
        row("manager/insert", "exchanges", kept.answered as f64),
        row("manager/insert", "longest_gap_ms", kept.latency_us.max / 1000.0),
        row(buffer, "lost", held.lost as f64),
        row(buffer, "exchanges", held.answered as f64),
        row(buffer, "longest_gap_ms", held.latency_us.max / 1000.0),
        row(drop, "lost_per_change", dropped.lost as f64 / changes as f64),
        row(drop, "exchanges", dropped.answered as f64),
    ])
}

/// The three services, and the producer.
struct Services<'a> {
    place: &'a Place,
    _running: Vec<ChildProcess>,
}

impl<'a> Services<'a> {
    fn start(place: &'a Place) -> Result<Self> {
        let services = Services { place, _running: Vec::new() };
        let mut running = Vec::new();
        for (name, next) in [("last", None), ("middle", Some("last")), ("first", Some("last"))] {
            let graph = services.write_graph(name, next)?;
            let mut command = Command::new(&place.nw);
            command.args(["service", "run", "--log", "warn", "--graph"]).arg(graph);
            command.arg("--control").arg(services.control(name)).stdout(Stdio::null());
            let mut service = ChildProcess::start(name, &mut command)?;
            service.wait_for_listener(&services.socket(name))?;
            running.push(service);
        }
        // The producer registers its prefix with the last service.
        let mut command = Command::new(&place.nw);
        command.args(["bench", "answer", "--json", "--socket"]).arg(services.uri("last"));
        let (ready, lines) = std::io::pipe()?;
        command.stdout(lines);
        running.push(ChildProcess::start("the producer", &mut command)?);
        drop(command);
        let mut line = String::new();
        BufReader::new(ready).read_line(&mut line)?;
        ensure!(!line.is_empty(), "the producer ended before it was ready");
        Ok(Services { place, _running: running })
    }

    fn socket(&self, name: &str) -> PathBuf {
        self.place.path(&format!("{name}.sock"))
    }

    fn control(&self, name: &str) -> PathBuf {
        self.place.path(&format!("{name}.control.sock"))
    }

    fn uri(&self, name: &str) -> String {
        format!("unix://{}", self.socket(name).display())
    }

    /// Writes the graph of a service whose face `next` leads to another one. The last one takes
    /// registrations instead.
    fn write_graph(&self, name: &str, next: Option<&str>) -> Result<PathBuf> {
        let (face, parameters) = match next {
            Some(next) => {
                let face = format!("face next = {} default\n", self.uri(next));
                (face, "routes = [\"/ next\"]")
            }
            None => (String::new(), "commands = [\"localhost\"]"),
        };
        let text = format!(
            "face near listens {}\n{face}nr = name_router({parameters})\n\
             faces -> nr.interest -> faces\nfaces -> nr.data -> faces\nfaces -> nr.nack -> faces\n",
            self.uri(name)
        );
        let path = self.place.path(&format!("{name}.graph"));
        std::fs::write(&path, text)?;
        Ok(path)
    }

    /// Measures one order. Returns the consumer's result, and the number of changes.
    fn measure(&self, order: &str, seconds: u32, load: &[&str]) -> Result<(Outcome, u32)> {
        let mut command = Command::new(&self.place.nw);
        command.args(["bench", "generate", "--json", "--lifetime", "2000", "--socket"]);
        command.arg(self.uri("first")).arg("--seconds").arg(seconds.to_string()).args(load);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let consumer = command.spawn().context("can't start the consumer")?;
        std::thread::sleep(BEGIN);
        let end = std::time::Instant::now() + Duration::from_secs(u64::from(seconds)) - 2 * BEGIN;
        let mut changes = 0;
        while std::time::Instant::now() < end {
            let next = if changes % 2 == 0 { "middle" } else { "last" };
            let graph = self.write_graph("first", Some(next))?;
            let mut change = Command::new(&self.place.nw);
            change.args(["service", "graph"]).arg(self.control("first")).arg("--set").arg(graph);
            let status = change.args(["--order", order]).stdout(Stdio::null()).status()?;
            ensure!(status.success(), "the change of order {order} was refused");
            changes += 1;
            std::thread::sleep(CHANGE_INTERVAL);
        }
        let output = consumer.wait_with_output()?;
        let outcome: Outcome =
            serde_json::from_slice(&output.stdout).context("the consumer printed no result")?;
        ensure!(outcome.asked > 0 && changes > 0, "nothing was measured");
        Ok((outcome, changes))
    }
}
