//! `chain4/…` and `service/…`: elements as services between one consumer and one producer, as in
//! table 3 of the µNDN paper: one by one, and as a chain (8192 bytes of payload). The links are
//! Unix sockets, and alternately shared memory (rows that end in `/shm`).

use crate::endpoints::{TransferStats, produce_prepared};
use crate::process::ChildProcess;
use crate::report::Row;
use crate::transfer::{CONNECT_TIME, Place, Series, WARM_UP_SEGMENTS, gbit_per_s};
use anyhow::{Context, Result};
use nw_app::FaceUri;
use nw_element_api::{Parameters, Value};
use nw_graph::language;
use nw_name::Name;
use nw_service::{Endpoints, single_element_graph};
use nw_trust::certificate::{self, Validity};
use nw_trust::{Key, KeyKind, Signer, pem};
use nw_wire::DataBuilder;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Bytes of payload.
const LEN: usize = 8192;
/// Segments per transfer: 400 MB.
const SEGMENTS: u32 = 50_000;
const RUNS: usize = 5;
/// Throughput of the chain in the paper, in Gbit/s.
const PAPER_CHAIN: f64 = 0.776;

/// Schemes of the links, with the suffix of the row's name.
const LINKS: [(&str, &str); 2] = [("unix", ""), ("shm", "/shm")];

/// Services of the paper's table 3: name of the row, element, Gbit/s in the paper.
const SERVICES: [(&str, &str, f64); 7] = [
    ("name_router", "name_router", 1.820),
    ("backward_router", "backward_router", 1.304),
    ("packet_dispatcher", "packet_dispatcher", 1.761),
    // All Data may be cached, because the freshness is not 0.
    ("content_store", "content_store", 1.031),
    ("content_store_fresh0", "content_store", 1.760),
    ("strategy_forwarder", "strategy_forwarder", 1.756),
    ("name_filter", "name_filter", 1.804),
];
/// Signature verifiers: name of the row, kind of key, Gbit/s in the paper.
const VERIFIERS: [(&str, KeyKind, f64); 2] = [
    ("signature_verifier_rsa", KeyKind::Rsa2048, 0.515),
    ("signature_verifier_ecdsa", KeyKind::EcdsaP256, 0.122),
];
/// Signed segments, made once for all runs: an RSA signature takes twenty times as long as a
/// measured packet. A run takes half a second, so the first packets into empty tables have little
/// weight.
const SIGNED_SEGMENTS: usize = 24_000;
/// Maximum number of packets that wait for the verifier's threads.
const QUEUE_MAX: i64 = 1024;
/// The content store when it answers everything: name of the row, Gbit/s in the paper.
const FROM_CACHE: (&str, f64) = ("content_store_hit", 2.447);

/// Measures the rows.
///
/// # Errors
/// If a process does not start, or a transfer fails.
pub fn run(row: &str) -> Result<Vec<Row>> {
    let place = Place::new()?;
    let name = row.strip_prefix("service/").and_then(|row| row.strip_suffix("/8192"));
    if let Some((name, element, paper)) =
        SERVICES.into_iter().find(|(known, ..)| Some(*known) == name)
    {
        return Ok(rows(row, &measure_chain(&place, name, &[element])?, paper));
    }
    if let Some((name, kind, paper)) =
        VERIFIERS.into_iter().find(|(known, ..)| Some(*known) == name)
    {
        return Ok(rows(row, &verifier(&place, name, kind)?, paper));
    }
    if name == Some(FROM_CACHE.0) {
        return from_cache(&place, row);
    }
    chain(&place, row)
}

/// Figures with one kind of link, one per run.
struct Figures {
    gbit: Vec<f64>,
    cpu_us: Vec<f64>,
}

/// Runs a measurement with both kinds of link alternately. It returns the consumer's result and the
/// processor time of the services.
fn by_each_link(
    transfer: impl Fn(&str, usize) -> Result<(TransferStats, Duration)>,
) -> Result<[Figures; LINKS.len()]> {
    let mut figures = [const { Figures { gbit: Vec::new(), cpu_us: Vec::new() } }; LINKS.len()];
    for run in 0..RUNS {
        for ((scheme, _), figures) in LINKS.iter().zip(&mut figures) {
            let (seen, cpu) = transfer(scheme, run)?;
            figures.gbit.push(gbit_per_s(&seen));
            figures.cpu_us.push(cpu.as_secs_f64() * 1e6 / seen.segments as f64);
        }
    }
    Ok(figures)
}

/// Measures a chain of these elements.
fn measure_chain(place: &Place, name: &str, elements: &[&str]) -> Result<[Figures; LINKS.len()]> {
    by_each_link(|scheme, run| {
        transfer_through(place, scheme, &format!("{name}{run}{scheme}"), elements)
    })
}

/// Returns the rows of both kinds of link, and their ratio.
fn rows(row: &str, [unix, shared]: &[Figures; LINKS.len()], paper: f64) -> Vec<Row> {
    let name = |join: usize| format!("{row}{}", LINKS[join].1);
    let gbit = |join, figures: &Figures| {
        Row::new(name(join), "gbit_per_s", &figures.gbit).with_reference(paper)
    };
    let ratios: Vec<f64> =
        shared.gbit.iter().zip(&unix.gbit).map(|(shared, unix)| shared / unix).collect();
    vec![
        gbit(0, unix),
        Row::new(name(0), "cpu_us_per_exchange", &unix.cpu_us),
        gbit(1, shared),
        Row::new(name(1), "cpu_us_per_exchange", &shared.cpu_us),
        Row::new(name(1), "ratio_to_unix", &ratios),
    ]
}

fn chain(place: &Place, row: &str) -> Result<Vec<Row>> {
    let elements = ["packet_dispatcher", "content_store", "backward_router", "name_router"];
    Ok(rows(row, &measure_chain(place, "chain", &elements)?, PAPER_CHAIN))
}

/// A chain of services, the first one nearest to the consumer.
struct Chain {
    running: Vec<ChildProcess>,
    /// URIs for the consumer and for the producer.
    near: String,
    far: String,
}

impl Chain {
    fn start(
        place: &Place,
        scheme: &str,
        name: &str,
        elements: &[&str],
        parameters: &Parameters,
    ) -> Result<Self> {
        let socket = |at: usize| place.path(&format!("{name}-{at}.sock"));
        let uri = |at: usize| format!("{scheme}://{}", socket(at).display());
        let mut chain = Chain { running: Vec::new(), near: uri(0), far: uri(elements.len()) };
        // The last service starts first, so that each finds the next one.
        for (at, element) in elements.iter().enumerate().rev() {
            let is_last = at + 1 == elements.len();
            let graph = graph(element, parameters.clone(), uri(at), uri(at + 1), is_last)?;
            let file = place.path(&format!("{name}-{at}.graph"));
            std::fs::write(&file, graph)?;
            let mut command = Command::new(&place.nw);
            command.args(["service", "run", "--log", "warn", "--graph"]).arg(&file);
            command
                .arg("--control")
                .arg(place.path(&format!("{name}-{at}.control.sock")))
                .stdout(Stdio::null());
            let mut running = ChildProcess::start(element, &mut command)?;
            // Without a connection: the far end accepts only one.
            running.wait_for(&socket(at))?;
            std::thread::sleep(CONNECT_TIME);
            chain.running.push(running);
        }
        Ok(chain)
    }

    fn cpu(&self) -> Duration {
        self.running.iter().map(ChildProcess::cpu).sum()
    }
}

/// Returns the graph of one element between two sockets. The last service of a chain listens for
/// the producer.
fn graph(
    element: &str,
    mut parameters: Parameters,
    near: String,
    far: String,
    is_last: bool,
) -> Result<String> {
    if matches!(element, "name_router" | "strategy_forwarder") {
        parameters
            .0
            .push(("routes".to_owned(), Value::List(vec![Value::Text("/ far".to_owned())])));
    }
    let ends = Endpoints { listen: vec![near], to: vec![("far".to_owned(), far)] };
    let mut graph = single_element_graph(element, parameters, &ends)?;
    let face =
        graph.faces.iter_mut().find(|face| face.name == "far").context("a face of that name")?;
    (face.is_listener, face.is_single_peer) = (is_last, is_last);
    Ok(language::write(&graph))
}

/// Returns the series of a row: with FreshnessPeriod 0 for `content_store_fresh0`.
fn series<'a>(prefix: &'a str, segments: u32, name: &str) -> Series<'a> {
    let freshness_ms = if name.starts_with("content_store_fresh0") { 0 } else { 1000 };
    Series::new(prefix, segments, LEN).freshness_ms(freshness_ms)
}

fn transfer_through(
    place: &Place,
    scheme: &str,
    name: &str,
    elements: &[&str],
) -> Result<(TransferStats, Duration)> {
    let chain = Chain::start(place, scheme, name, elements, &Parameters::default())?;
    // Content stores are full first, as in any service in use.
    let cold = format!("/{name}/cold");
    let producer = place.produce(&chain.far, &series(&cold, WARM_UP_SEGMENTS, name), false)?;
    std::thread::sleep(CONNECT_TIME);
    place.consume(&chain.near, &cold)?;
    drop(producer);
    let prefix = format!("/{name}/warm");
    let _producer = place.produce(&chain.far, &series(&prefix, SEGMENTS, name), false)?;
    std::thread::sleep(CONNECT_TIME);
    let before = chain.cpu();
    let seen = place.consume(&chain.near, &prefix)?;
    Ok((seen, chain.cpu().saturating_sub(before)))
}

/// Measures signed packets through a verifier with the key. A packet that fails verification would
/// not arrive.
fn verifier(place: &Place, name: &str, kind: KeyKind) -> Result<[Figures; LINKS.len()]> {
    let prefix = format!("/{name}");
    let series: Name = prefix.parse()?;
    let key = Key::generate(kind, series.as_ref())?;
    let wire = certificate::self_signed(
        &key,
        1,
        Validity { not_before_s: 0, not_after_s: 4_000_000_000 },
    )?;
    let known: String = pem::encode_base64(&wire).split_whitespace().collect();
    let keys = ("keys".to_owned(), Value::List(vec![Value::Text(known)]));
    let signer = Signer::from(key);
    let packets = sign_segments(&series, &signer)?;
    let parameters = Parameters(vec![keys, ("queue_max".to_owned(), Value::Integer(QUEUE_MAX))]);
    by_each_link(|scheme, run| {
        let chain = Chain::start(
            place,
            scheme,
            &format!("{name}{run}{scheme}"),
            &["signature_verifier"],
            &parameters,
        )?;
        let far: FaceUri = chain.far.parse()?;
        std::thread::scope(|scope| {
            let producer = scope.spawn(|| produce_prepared(&far, &packets));
            std::thread::sleep(CONNECT_TIME);
            let before = chain.cpu();
            let seen = place.consume(&chain.near, &prefix);
            let cpu = chain.cpu().saturating_sub(before);
            // The producer ends with the service.
            drop(chain);
            producer.join().map_err(|_| anyhow::anyhow!("the producer panicked"))??;
            Ok((seen?, cpu))
        })
    })
}

/// Signs the segments on all processors.
fn sign_segments(series: &Name, signer: &Signer) -> Result<Vec<Vec<u8>>> {
    let last = Name::new().with_segment(SIGNED_SEGMENTS as u64 - 1);
    let last = last.as_ref().component(0).context("a component")?;
    let content = vec![0x5a; LEN];
    let sign = |number| {
        let name = series.clone().with_segment(number as u64);
        DataBuilder::new(&name, &content).freshness_ms(1000).final_block(last).encode(signer)
    };
    let share = SIGNED_SEGMENTS.div_ceil(std::thread::available_parallelism()?.get());
    std::thread::scope(|scope| {
        let begin = |from| {
            let numbers = from..SIGNED_SEGMENTS.min(from + share);
            scope.spawn(move || numbers.map(sign).collect::<Result<Vec<_>, _>>())
        };
        let threads: Vec<_> = (0..SIGNED_SEGMENTS).step_by(share).map(begin).collect();
        let mut packets = Vec::with_capacity(SIGNED_SEGMENTS);
        for thread in threads {
            packets.extend(thread.join().map_err(|_| anyhow::anyhow!("a signer panicked"))??);
        }
        Ok(packets)
    })
}

/// Fetches the same segments again, from the content store.
fn from_cache(place: &Place, row: &str) -> Result<Vec<Row>> {
    let gbit = (0..RUNS).map(|run| hits(place, run)).collect::<Result<Vec<f64>>>()?;
    Ok(vec![Row::new(row, "gbit_per_s", &gbit).with_reference(FROM_CACHE.1)])
}

fn hits(place: &Place, run: usize) -> Result<f64> {
    let name = format!("hit{run}");
    let whole = |name: &str, number: i64| (name.to_owned(), Value::Integer(number));
    let parameters = Parameters(vec![whole("packets", 65_536), whole("mib", 512)]);
    let chain = Chain::start(place, "unix", &name, &["content_store"], &parameters)?;
    let prefix = format!("/{name}/data");
    let producer = place.produce(&chain.far, &Series::new(&prefix, SEGMENTS, LEN), false)?;
    std::thread::sleep(CONNECT_TIME);
    place.consume(&chain.near, &prefix)?;
    drop(producer);
    Ok(gbit_per_s(&place.consume(&chain.near, &prefix)?))
}
