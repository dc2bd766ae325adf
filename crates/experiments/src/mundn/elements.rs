//! Table 3: each service alone between one consumer and one producer. Table 4: four services in a
//! chain, and one router with the same functions.

use super::exchange::{Answers, Names, PAYLOAD, Producer, ask, workload};
use super::managed::{ManagedNetwork, failed, process_cpu};
use crate::testbed::{Failure, Watch};
use nw_element_api::{Parameters, Value};
use nw_graph::language;
use nw_service::{Endpoints, single_element_graph};
use nw_traffic::workload::Workload;
use nw_trust::certificate::{self, Validity};
use nw_trust::{Key, KeyKind, Signer, pem};
use nw_wire::DataBuilder;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Interests under way.
const WINDOW: usize = 64;
/// Seconds before a measurement: the first exchanges meet empty tables.
const WARM_UP_S: f64 = 0.1;
/// Names that a store answers again and again.
const CACHED_NAMES: usize = 1_000;
/// Signed packets: in a quick run and in a full one.
const SIGNED: (usize, usize) = (200, 1_000);
/// Period of the manager's samples, milliseconds: it must not disturb.
const PERIOD_MS: u64 = 5_000;
/// Time for a producer to be connected.
const CONNECT_TIME: Duration = Duration::from_millis(150);

/// Rows of the table: name, as in the paper's data, and element.
pub const ROWS: [(&str, &str, &str); 10] = [
    ("name_router", "name_router", "Name Router"),
    ("backward_router", "backward_router", "Backward Router"),
    ("packet_dispatcher", "packet_dispatcher", "Packet Dispatcher"),
    ("content_store_fresh0", "content_store", "Content Store (freshness = 0)"),
    ("content_store", "content_store", "Content Store (freshness > 0)"),
    ("content_store_hit", "content_store", "Content Store (from cache)"),
    ("strategy_forwarder", "strategy_forwarder", "Strategy Forwarder"),
    ("signature_verifier_rsa", "signature_verifier", "Signature Verifier (RSA2048)"),
    ("signature_verifier_ecdsa", "signature_verifier", "Signature Verifier (ECDSA256)"),
    ("name_filter", "name_filter", "Name Filter"),
];

/// One service between a consumer and a producer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ElementResult {
    /// Name of the row.
    pub row: String,
    /// Data packets, Mbit/s.
    pub mbit: f64,
    /// Processor time of the service per exchange, microseconds.
    pub cpu_us: f64,
    /// Interests without an answer.
    pub lost: u64,
}

/// A chain of services, or one router.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ChainResult {
    /// Data packets, Mbit/s.
    pub mbit: f64,
    /// Median latency with one Interest under way, milliseconds.
    pub latency_ms: f64,
    /// Processor time by service, percent of a core.
    pub cpu_percent: BTreeMap<String, f64>,
    /// Processor time of all services per exchange, microseconds.
    pub cpu_us: f64,
    /// Interests without an answer.
    pub lost: u64,
}

/// A network that has been measured, with its producer; both end with this value.
pub(super) struct Measured {
    _network: ManagedNetwork,
    _producer: Producer,
}

/// Measures a row of table 3 for some seconds, on a host with this engine.
///
/// # Errors
/// The service can't be started, or the user interrupted.
pub(super) fn element(
    nw: &Path,
    engine: &str,
    row: &str,
    (seconds, is_quick): (f64, bool),
    watch: &Watch<'_>,
) -> Result<(ElementResult, Measured), Failure> {
    let name = |known: &&(&str, &str, &str)| known.0 == row;
    let (_, element, _) = ROWS.iter().find(name).ok_or_else(|| failed(row, "no such row"))?;
    let signed = if is_quick { SIGNED.0 } else { SIGNED.1 };
    let (requests, freshness_ms) = match row {
        "content_store_hit" => (workload(Names::Again(CACHED_NAMES)), 3_600_000),
        "content_store_fresh0" => (workload(Names::New), 0),
        _ if *element == "signature_verifier" => (workload(Names::Again(signed)), 1_000),
        _ => (workload(Names::New), 1_000),
    };
    let (mut parameters, mut answers) = (Parameters::default(), Answers::Generated(freshness_ms));
    match row {
        "signature_verifier_rsa" => {
            (parameters, answers) = verified(KeyKind::Rsa2048, &requests)?;
        }
        "signature_verifier_ecdsa" => {
            (parameters, answers) = verified(KeyKind::EcdsaP256, &requests)?;
        }
        "content_store_hit" => parameters.0.push(("mib".to_owned(), Value::Integer(64))),
        "name_router" | "strategy_forwarder" => {
            let routes = Value::List(vec![Value::Text("/ far".to_owned())]);
            parameters.0.push(("routes".to_owned(), routes));
        }
        _ => {}
    }
    let network = ManagedNetwork::start(nw, PERIOD_MS, watch, |folder| {
        Ok(format!("host here = {engine}\n{}", graph(element, parameters, folder)?))
    })?;
    let (near, far) = (network.socket("c.sock")?, network.socket("p.sock")?);
    let producer = Producer::start(&far, &requests, answers, false)?;
    std::thread::sleep(CONNECT_TIME);
    ask(&near, &requests, (WINDOW, WARM_UP_S), watch, || {})?;
    let cpu = |network: &ManagedNetwork| -> Result<Duration, Failure> {
        Ok(network.instance_cpu()?.into_iter().map(|(_, cpu)| cpu).sum())
    };
    let before = cpu(&network)?;
    let outcome = ask(&near, &fresh(&requests), (WINDOW, seconds), watch, || {})?;
    let used = cpu(&network)?.saturating_sub(before);
    let result = ElementResult {
        row: row.to_owned(),
        mbit: outcome.mbit_per_s,
        cpu_us: used.as_secs_f64() * 1e6 / outcome.answered.max(1) as f64,
        lost: outcome.lost + outcome.refused.values().sum::<u64>(),
    };
    Ok((result, Measured { _network: network, _producer: producer }))
}

/// Returns a workload with other new names, or the same names that are asked for again.
fn fresh(requests: &Workload) -> Workload {
    match requests.hit_ratio {
        Some(_) => workload(Names::New),
        None => requests.clone(),
    }
}

/// Returns the graph of one element between the sockets of a folder.
fn graph(element: &str, parameters: Parameters, folder: &Path) -> Result<String, Failure> {
    let uri = |name: &str| format!("unix://{}", folder.join(name).display());
    let ends =
        Endpoints { listen: vec![uri("c.sock")], to: vec![("far".to_owned(), uri("p.sock"))] };
    let mut graph =
        single_element_graph(element, parameters, &ends).map_err(|error| failed(element, error))?;
    for face in graph.faces.iter_mut().filter(|face| face.name == "far") {
        (face.is_listener, face.is_single_peer) = (true, true);
    }
    Ok(language::write(&graph))
}

/// Returns the parameters of a verifier with a new key, and packets that the key has signed.
fn verified(kind: KeyKind, requests: &Workload) -> Result<(Parameters, Answers), Failure> {
    let error = |error: String| failed("signing", error);
    let key = Key::generate(kind, requests.prefix.as_ref());
    let key = key.map_err(|reason| error(reason.to_string()))?;
    let validity = Validity { not_before_s: 0, not_after_s: 4_000_000_000 };
    let wire = certificate::self_signed(&key, 1, validity);
    let wire = wire.map_err(|reason| error(reason.to_string()))?;
    let known: String = pem::encode_base64(&wire).split_whitespace().collect();
    let signer = Signer::from(key);
    let content = vec![0x5a; PAYLOAD];
    let sign = |number: usize| {
        let name = requests.name(number as u64);
        DataBuilder::new(&name, &content).freshness_ms(1_000).encode(&signer)
    };
    let packets: Result<Vec<_>, _> = (0..requests.names).map(sign).collect();
    let packets = packets.map_err(|reason| error(format!("{reason:?}")))?;
    let keys = ("keys".to_owned(), Value::List(vec![Value::Text(known)]));
    let whole = |name: &str, number: i64| (name.to_owned(), Value::Integer(number));
    // The same packets come again: their results must not be remembered.
    let parameters = Parameters(vec![keys, whole("queue_max", 1024), whole("results", 0)]);
    Ok((parameters, Answers::Prepared(packets)))
}

fn chain_document(folder: &Path) -> String {
    let folder = folder.display();
    format!(
        "host here = process\nface consumers listens unix://{folder}/c.sock\n\
         face producer listens unix://{folder}/p.sock\npd = packet_dispatcher\n\
         cs = content_store(mib = 64)\nbr = backward_router\n\
         nr = name_router(commands = [\"localhost\"])\nconsumers -> pd.packet\n\
         pd.interest -> cs.interest\npd.data -> br.data\npd.nack -> br.nack\ncs.hit -> faces\n\
         cs.miss -> br.interest -> nr.interest -> faces\n\
         producer -> nr.data -> br.data -> cs.data -> faces\n\
         producer -> nr.nack -> br.nack -> faces\nproducer -> nr.interest\n"
    )
}

/// Measures the chain of four services, as processes.
///
/// # Errors
/// The services can't be started, or the user interrupted.
pub fn chain(nw: &Path, seconds: f64, watch: &Watch<'_>) -> Result<ChainResult, Failure> {
    let network = ManagedNetwork::start(nw, PERIOD_MS, watch, |folder| Ok(chain_document(folder)))?;
    let requests = workload(Names::New);
    let answers = Answers::Generated(1_000);
    let _producer = Producer::start(&network.socket("p.sock")?, &requests, answers, true)?;
    let near = network.socket("c.sock")?;
    measure(&near, seconds, watch, || network.instance_cpu())
}

/// A router that ends with this value.
struct Router(Child);

impl Drop for Router {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Measures one router (`nw run`) with all functions in one process.
///
/// # Errors
/// It can't be started, or the user interrupted.
pub fn router(nw: &Path, seconds: f64, watch: &Watch<'_>) -> Result<ChainResult, Failure> {
    let error = |reason: std::io::Error| failed("the router can't be started", reason);
    let folder = tempfile::Builder::new().prefix("nwm-").tempdir_in("/tmp").map_err(error)?;
    let (socket, config) = (folder.path().join("r.sock"), folder.path().join("r.toml"));
    let text = format!("[faces.unix]\npath = {socket:?}\n[log]\nlevel = \"warn\"\n");
    std::fs::write(&config, text).map_err(error)?;
    let mut command = Command::new(nw);
    command.arg("run").arg("--config").arg(&config).stdin(Stdio::null()).stdout(Stdio::null());
    let router = Router(command.stderr(Stdio::null()).spawn().map_err(error)?);
    let deadline = Instant::now() + Duration::from_secs(10);
    while std::os::unix::net::UnixStream::connect(&socket).is_err() {
        if Instant::now() > deadline {
            return Err(failed("the router", "it does not listen"));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let uri = format!("unix://{}", socket.display());
    let uri = uri.parse().map_err(|reason| failed("the router", format!("{reason}")))?;
    let requests = workload(Names::New);
    let _producer = Producer::start(&uri, &requests, Answers::Generated(1_000), true)?;
    let pid = router.0.id();
    measure(&uri, seconds, watch, || Ok(vec![("router".to_owned(), process_cpu(pid))]))
}

/// Measures throughput, then latency with one Interest under way.
fn measure(
    near: &nw_app::FaceUri,
    seconds: f64,
    watch: &Watch<'_>,
    cpu: impl Fn() -> Result<Vec<(String, Duration)>, Failure>,
) -> Result<ChainResult, Failure> {
    ask(near, &workload(Names::New), (WINDOW, WARM_UP_S), watch, || {})?;
    let before = cpu()?;
    let outcome = ask(near, &workload(Names::New), (WINDOW, seconds), watch, || {})?;
    let used = cpu()?
        .into_iter()
        .zip(before)
        .map(|((name, after), (_, before))| (name, after.saturating_sub(before).as_secs_f64()));
    let used: BTreeMap<String, f64> = used.collect();
    let single = ask(near, &workload(Names::New), (1, seconds / 2.0), watch, || {})?;
    let all_s: f64 = used.values().sum();
    Ok(ChainResult {
        mbit: outcome.mbit_per_s,
        latency_ms: single.latency_us.map_or(f64::NAN, |latency| latency.p50 / 1e3),
        cpu_percent: used
            .into_iter()
            .map(|(name, s)| (name, 100.0 * s / outcome.seconds))
            .collect(),
        cpu_us: all_s * 1e6 / outcome.answered.max(1) as f64,
        lost: outcome.lost + single.lost,
    })
}
