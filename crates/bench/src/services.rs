//! `chain4/…` and `service/…`: elements as processes of their own between one consumer and one producer, over unix sockets, as the services of µNDN were
//! measured one by one and as a chain (their table 3; 8192 octets of payload).

use crate::ends::Seen;
use crate::process::Running;
use crate::report::Row;
use crate::transfer::{Place, SETTLE, WARM_UP_SEGMENTS, gbit_per_s};
use anyhow::{Context, Result};
use nw_element::{Parameters, Value};
use nw_graph::language;
use nw_service::{Ends, single};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Octets of payload.
const LEN: usize = 8192;
/// Segments of one transfer: 400 MB.
const SEGMENTS: u32 = 50_000;
const RUNS: usize = 5;
/// What the paper's chain did, Gbit/s.
const PAPER_CHAIN: f64 = 0.776;

/// A service of the paper's table 3: name of the row, element, Gbit/s there.
const SERVICES: [(&str, &str, f64); 6] = [
    ("name_router", "name_router", 1.820),
    ("backward_router", "backward_router", 1.304),
    ("packet_dispatcher", "packet_dispatcher", 1.761),
    // All Data may be kept: freshness is not 0.
    ("content_store", "content_store", 1.031),
    ("strategy_forwarder", "strategy_forwarder", 1.756),
    ("name_filter", "name_filter", 1.804),
];
/// The content store where all is answered from it.
const FROM_CACHE: f64 = 2.447;

/// The rows.
///
/// # Errors
/// When something does not start, or a transfer fails.
pub fn run(row: &str) -> Result<Vec<Row>> {
    match row {
        "chain4/8192" => chain(row),
        _ => services(),
    }
}

fn chain(row: &str) -> Result<Vec<Row>> {
    let place = Place::new()?;
    let (mut gbit, mut cpu_us) = (Vec::new(), Vec::new());
    for run in 0..RUNS {
        let elements = ["packet_dispatcher", "content_store", "backward_router", "name_router"];
        let (seen, cpu) = through(&place, &format!("chain{run}"), &elements)?;
        gbit.push(gbit_per_s(&seen));
        cpu_us.push(cpu.as_secs_f64() * 1e6 / seen.segments as f64);
    }
    Ok(vec![
        Row::new(row, "gbit_per_s", &gbit).beside(PAPER_CHAIN).at_least(3.0),
        Row::new(row, "cpu_us_per_exchange", &cpu_us),
    ])
}

fn services() -> Result<Vec<Row>> {
    let place = Place::new()?;
    let mut rows = Vec::new();
    for (name, element, paper) in SERVICES {
        let (mut gbit, mut cpu_us) = (Vec::new(), Vec::new());
        for run in 0..RUNS {
            let (seen, cpu) = through(&place, &format!("{name}{run}"), &[element])?;
            gbit.push(gbit_per_s(&seen));
            cpu_us.push(cpu.as_secs_f64() * 1e6 / seen.segments as f64);
        }
        let row = format!("service/{name}/8192");
        rows.push(Row::new(&row, "gbit_per_s", &gbit).beside(paper).at_least(5.0 * paper));
        rows.push(Row::new(&row, "cpu_us_per_exchange", &cpu_us));
    }
    let gbit = (0..RUNS).map(|run| from_cache(&place, run)).collect::<Result<Vec<f64>>>()?;
    let row = Row::new("service/content_store_hit/8192", "gbit_per_s", &gbit);
    rows.push(row.beside(FROM_CACHE).at_least(5.0 * FROM_CACHE));
    Ok(rows)
}

/// Services in a row, the first one nearest to the consumer.
struct Chain {
    running: Vec<Running>,
    /// Where the consumer connects to, and the producer.
    near: PathBuf,
    far: PathBuf,
}

impl Chain {
    fn start(place: &Place, name: &str, elements: &[&str], parameters: &Parameters) -> Result<Self> {
        let socket = |at: usize| place.path(&format!("{name}-{at}.sock"));
        let mut chain = Chain { running: Vec::new(), near: socket(0), far: socket(elements.len()) };
        // The last one first, so that each finds the next one.
        for (at, element) in elements.iter().enumerate().rev() {
            let is_last = at + 1 == elements.len();
            let graph = graph(element, parameters.clone(), &socket(at), &socket(at + 1), is_last)?;
            let file = place.path(&format!("{name}-{at}.graph"));
            std::fs::write(&file, graph)?;
            let mut command = Command::new(&place.nw);
            command.args(["service", "run", "--log", "warn", "--graph"]).arg(&file);
            command
                .arg("--control")
                .arg(place.path(&format!("{name}-{at}.control.sock")))
                .stdout(Stdio::null());
            let mut running = Running::start(element, &mut command)?;
            // Not by connecting: the far end is for one.
            running.wait_for(&socket(at))?;
            std::thread::sleep(SETTLE);
            chain.running.push(running);
        }
        Ok(chain)
    }

    fn cpu(&self) -> Duration {
        self.running.iter().map(Running::cpu).sum()
    }
}

/// One element between two sockets; the last one of a chain waits for the producer.
fn graph(
    element: &str,
    mut parameters: Parameters,
    near: &Path,
    far: &Path,
    is_last: bool,
) -> Result<String> {
    let uri = |path: &Path| format!("unix://{}", path.display());
    if matches!(element, "name_router" | "strategy_forwarder") {
        parameters.0.push(("routes".to_owned(), Value::List(vec![Value::Text("/ far".to_owned())])));
    }
    let ends = Ends { listen: vec![uri(near)], to: vec![("far".to_owned(), uri(far))] };
    let mut graph = single(element, parameters, &ends)?;
    let face = graph.faces.iter_mut().find(|face| face.name == "far").context("a face of that name")?;
    (face.listens, face.is_single) = (is_last, is_last);
    Ok(language::write(&graph))
}

fn through(place: &Place, name: &str, elements: &[&str]) -> Result<(Seen, Duration)> {
    let chain = Chain::start(place, name, elements, &Parameters::default())?;
    // Into stores that are full, as those of any service in use are.
    let cold = format!("/{name}/cold");
    let producer = place.produce(&chain.far, &cold, WARM_UP_SEGMENTS, LEN, false)?;
    std::thread::sleep(SETTLE);
    place.consume(&chain.near, &cold)?;
    drop(producer);
    let prefix = format!("/{name}/warm");
    let _producer = place.produce(&chain.far, &prefix, SEGMENTS, LEN, false)?;
    std::thread::sleep(SETTLE);
    let before = chain.cpu();
    let seen = place.consume(&chain.near, &prefix)?;
    Ok((seen, chain.cpu().saturating_sub(before)))
}

/// What was fetched once is fetched again.
fn from_cache(place: &Place, run: usize) -> Result<f64> {
    let name = format!("hit{run}");
    let whole = |name: &str, number: i64| (name.to_owned(), Value::Integer(number));
    let parameters = Parameters(vec![whole("packets", 65_536), whole("mib", 512)]);
    let chain = Chain::start(place, &name, &["content_store"], &parameters)?;
    let prefix = format!("/{name}/data");
    let producer = place.produce(&chain.far, &prefix, SEGMENTS, LEN, false)?;
    std::thread::sleep(SETTLE);
    place.consume(&chain.near, &prefix)?;
    drop(producer);
    Ok(gbit_per_s(&place.consume(&chain.near, &prefix)?))
}
