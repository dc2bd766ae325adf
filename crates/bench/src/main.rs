//! `nw-bench run --row NAME` measures rows. The other commands are processes that rows start.

#![forbid(unsafe_code)]

use anyhow::{Result, bail};
use clap::{Parser, Subcommand};
use nw_app::FaceUri;
use nw_bench::{
    balancer, cluster, control, domain_join, endpoints, forward, idle, insert, local_pubsub,
    manager, overload, poison, publish_subscribe, pubsub_nodes, registration, relay, report,
    scaling, services, shards, sim, table_rows, transfer, udp_baseline, verify, veth,
};
use nw_name::Name;
use nw_traffic::machine::Machine;
use std::fmt::Display;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

#[derive(Parser)]
#[command(about = "Measures rows, each beside its reference in the same run")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measures rows.
    Run {
        /// Prefix of the rows to measure; empty for all
        #[arg(long, default_value = "")]
        row: String,
        /// Also write the rows to this file, as a JSON list of {name, unit, value, spread,
        /// reference, ratio, bound, machine}
        #[arg(long)]
        json: Option<PathBuf>,
        /// Also write the rows to this file, as a Markdown table
        #[arg(long)]
        markdown: Option<PathBuf>,
        /// Exit with status 3 if a row misses its bound
        #[arg(long)]
        strict: bool,
    },
    /// Lists the rows.
    List,
    /// Runs the in-memory forwarding measurement alone, for a profiler.
    #[command(hide = true)]
    Forward {
        #[arg(long, default_value_t = 1_000_000)]
        prefixes: u64,
        #[arg(long, default_value_t = 1_000_000)]
        pending: u64,
        #[arg(long, default_value_t = 10)]
        rounds: usize,
        #[arg(long)]
        no_prefetch: bool,
        #[arg(long)]
        graph: bool,
    },
    /// Moves bytes between the first two connections.
    #[command(hide = true)]
    Relay { socket: PathBuf },
    /// Answers segments.
    #[command(hide = true)]
    Produce {
        /// A path, or `shm://…`.
        router: String,
        prefix: Name,
        segments: u32,
        len: usize,
        #[arg(long, default_value_t = 1000)]
        freshness_ms: u64,
        #[arg(long)]
        no_register: bool,
    },
    /// Fetches segments and prints what it saw.
    #[command(hide = true)]
    Consume {
        /// A path, `udp4://…` or `shm://…`.
        router: String,
        prefix: Name,
        window_max: usize,
    },
    /// Sends plain datagrams.
    #[command(hide = true)]
    PlainSend { from: SocketAddr, to: SocketAddr, count: u64, len: usize, window: u64 },
    /// Counts plain datagrams.
    #[command(hide = true)]
    PlainCount { at: SocketAddr, count: u64 },
    /// Asks and answers small packets.
    #[command(hide = true)]
    VethEnds {
        asker: String,
        middle: String,
        answerer: String,
        port: u16,
        window: u64,
        measured_ms: u64,
        #[arg(long)]
        xdp: bool,
    },
    /// Passes packets on and looks nothing up.
    #[command(hide = true)]
    VethNull { at: SocketAddr, one: SocketAddr, other: SocketAddr },
    /// Publishes.
    #[command(hide = true)]
    PubsubPublish(local_pubsub::Publish),
    /// Subscribes and prints what it saw.
    #[command(hide = true)]
    PubsubSubscribe { socket: PathBuf, count: u64, pause_us: u64 },
    /// The same by AF_XDP.
    #[command(hide = true)]
    VethNullXdp { port: u16 },
}

/// All rows in the order of measurement.
const ROWS: &[&str] = &[
    "forward/memory/fib1e4",
    "forward/memory/fib1e6",
    "forward/memory/fib2p26",
    "forward/memory/headers",
    "forward/memory/no_tokens",
    "forward/memory/content1k",
    "forward/memory/shuffled",
    "forward/memory/worst",
    "forward/memory/pit1e7",
    "forward/memory/churn",
    "forward/memory/curve",
    "forward/veth/udp",
    "forward/veth/xdp",
    "cs_hit/memory",
    "cs_hit/memory/random",
    "shards/2",
    "graph/memory",
    "shards/udp",
    "idle",
    "transfer/unix/8000",
    "transfer/unix/100",
    "transfer/udp/8000",
    "transfer/udp-chain/8000",
    "chain4/8192",
    "service/name_router/8192",
    "service/backward_router/8192",
    "service/packet_dispatcher/8192",
    "service/content_store/8192",
    "service/content_store_fresh0/8192",
    "service/strategy_forwarder/8192",
    "service/name_filter/8192",
    "service/signature_verifier_rsa/8192",
    "service/signature_verifier_ecdsa/8192",
    "service/content_store_hit/8192",
    "manager/insert",
    "control/batch",
    "control/management",
    "control/pause",
    "verify/sha256",
    "verify/hmac",
    "verify/ecdsa-p256",
    "verify/rsa-2048",
    "verify/ed25519",
    "tables/fib",
    "tables/pit",
    "tables/cs",
    "tables/cs_policies",
    "tables/dnl",
    "lipsin/memory",
    "lipsin/veth",
    "pubsub/local/100/1",
    "pubsub/local/100/10",
    "pubsub/local/100k/1",
    "pubsub/local/100k/10",
    "pubsub/latency",
    "pubsub/slow",
    "pubsub/tree",
    "pubsub/join",
    "pubsub/chain13",
    "rendezvous/local",
    "sim/1000x1e7",
    "cluster/scale4",
    "cluster/rescale",
    "cluster/cache",
    "cluster/multicast",
    "cluster/failover",
    "balancer/xdp",
    "manager/plan",
    "manager/poison",
    "manager/routes",
    "manager/scale",
    "manager/idle",
    "overload/bulk/2",
    "overload/bulk/10",
    "overload/bulk/100",
    "overload/others",
    "overload/attack/few-faces",
    "overload/attack/many-faces",
    "overload/attack/unanswered",
    "overload/attack/slow-producer",
    "overload/attack/collusion",
    "overload/attack/hijack",
    "overload/attack/spoofed-udp",
];

fn main() -> Result<ExitCode> {
    match Arguments::parse().command {
        Command::Run { row, json, markdown, strict } => return run(&row, json, markdown, strict),
        Command::List => {
            ROWS.iter().try_for_each(print_line)?;
            Ok(())
        }
        Command::Forward { prefixes, pending, rounds, no_prefetch, graph } => {
            let measure = if graph { forward::measure_graph } else { forward::measure };
            let options = forward::Options {
                prefixes,
                pending,
                rounds,
                prefetch: !no_prefetch,
                ..forward::Options::default()
            };
            Ok(print_line(format!("{:?}", measure(options)))?)
        }
        Command::Relay { socket } => relay::run(&socket),
        Command::Produce { router, prefix, segments, len, freshness_ms, no_register } => {
            let series = endpoints::Series { prefix, segments, len, freshness_ms };
            endpoints::produce(&parse_uri(&router)?, &series, !no_register)
        }
        Command::Consume { router, prefix, window_max } => Ok(print_line(serde_json::to_string(
            &endpoints::consume(&parse_uri(&router)?, &prefix, window_max)?,
        )?)?),
        Command::PlainSend { from, to, count, len, window } => {
            udp_baseline::send(from, to, count, len, window)
        }
        Command::PlainCount { at, count } => {
            Ok(print_line(serde_json::to_string(&udp_baseline::count(at, count)?)?)?)
        }
        Command::VethEnds { asker, middle, answerer, port, window, measured_ms, xdp } => {
            let measured = Duration::from_millis(measured_ms);
            let outcome =
                veth::endpoints::run([&asker, &middle, &answerer], xdp, port, window, measured)?;
            Ok(print_line(serde_json::to_string(&outcome)?)?)
        }
        Command::PubsubPublish(args) => {
            Ok(print_line(serde_json::to_string(&local_pubsub::publish(&args)?)?)?)
        }
        Command::PubsubSubscribe { socket, count, pause_us } => {
            let outcome = local_pubsub::subscribe(&socket, count, pause_us)?;
            Ok(print_line(serde_json::to_string(&outcome)?)?)
        }
        Command::VethNullXdp { port } => veth::xdp::forward(port),
        Command::VethNull { at, one, other } => veth::null::forward(at, one, other),
    }?;
    Ok(ExitCode::SUCCESS)
}

/// Prints a line. Standard output may be closed or full.
fn print_line(line: impl Display) -> io::Result<()> {
    writeln!(io::stdout(), "{line}")
}

/// Parses a face URI; a plain path is a Unix socket.
fn parse_uri(router: &str) -> Result<FaceUri> {
    let unix = format!("unix://{router}");
    Ok(if router.contains("://") { router } else { &unix }.parse()?)
}

/// Exit status when a row misses its bound and `--strict` is given.
const BOUND_MISSED: u8 = 3;

/// Measures the rows whose name begins with `prefix`, and writes them as wanted.
fn run(
    prefix: &str,
    json: Option<PathBuf>,
    markdown: Option<PathBuf>,
    strict: bool,
) -> Result<ExitCode> {
    let machine = Machine::here();
    let chosen: Vec<_> = ROWS.iter().filter(|row| row.starts_with(prefix)).collect();
    if chosen.is_empty() {
        bail!("no row starts with {prefix:?}; there are: {}", ROWS.join(", "));
    }
    let mut rows = Vec::new();
    for row in chosen {
        eprintln!("measuring {row} …");
        rows.extend(match row.split('/').next() {
            Some("forward") if row.starts_with("forward/veth") => veth::run(row)?,
            Some("forward" | "cs_hit" | "graph") => forward::run(row),
            Some("shards") => shards::run(row)?,
            Some("transfer") => transfer::run(row)?,
            Some("chain4" | "service") => services::run(row)?,
            Some("manager") if *row == "manager/insert" => insert::run()?,
            Some("idle") => idle::run()?,
            Some("cluster") => cluster::run(row)?,
            Some("sim") => sim::run(row)?,
            Some("overload") => overload::run(row)?,
            Some("verify") => verify::run(row),
            Some("control") => control::run(row)?,
            Some("balancer") => balancer::run(row)?,
            _ if matches!(*row, "lipsin/veth" | "pubsub/chain13") => pubsub_nodes::run(row)?,
            Some("rendezvous") => pubsub_nodes::run(row)?,
            _ if *row == "pubsub/join" => domain_join::run(),
            Some("pubsub") if *row != "pubsub/tree" => local_pubsub::run(row)?,
            Some("lipsin" | "pubsub") => publish_subscribe::run(row),
            Some("manager") if *row == "manager/poison" => poison::run(row)?,
            Some("manager") if *row == "manager/routes" => registration::run(row)?,
            Some("manager") if matches!(*row, "manager/scale" | "manager/idle") => {
                scaling::run(row)?
            }
            Some("manager") => manager::run(row)?,
            _ => table_rows::run(row),
        });
    }
    print_line(report::table(&rows, &machine))?;
    if let Some(path) = json {
        std::fs::write(&path, report::json(&rows, &machine)?)?;
        eprintln!("written: {}", path.display());
    }
    if let Some(path) = markdown {
        std::fs::write(&path, report::markdown(&rows, &machine))?;
        eprintln!("written: {}", path.display());
    }
    for key in report::bounds_without_value(&rows) {
        eprintln!("no value for the bound {key}");
    }
    let missed: Vec<_> = rows.iter().filter(|row| !row.meets_bound()).collect();
    for row in &missed {
        eprintln!(
            "missed: {} ({}): {:.3}, bound {}",
            row.name,
            row.unit,
            row.value,
            row.bound.expect("it has one")
        );
    }
    Ok(if strict && !missed.is_empty() { BOUND_MISSED.into() } else { ExitCode::SUCCESS })
}
