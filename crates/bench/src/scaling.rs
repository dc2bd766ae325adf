//! `manager/scale`: figure 5 of the µNDN paper. `manager/idle`: processor time of a manager with 100
//! services that nothing happens to.

use crate::process::ChildProcess;
use crate::report::Row;
use crate::transfer::Place;
use anyhow::{Result, ensure};
use nw_experiments::{Watch, mundn_paper, scaling};
use std::fmt::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Chains of four elements in three services each: 99 services.
const CHAINS: usize = 33;
/// Time after the start that is left out, and time of the measurement.
const SETTLE: Duration = Duration::from_secs(5);
const MEASURED: Duration = Duration::from_secs(10);
/// Time limit until all services run.
const START_LIMIT: Duration = Duration::from_secs(120);

/// Measures a row.
///
/// # Errors
/// If a process does not start, or no clone is added under load.
pub fn run(row: &str) -> Result<Vec<Row>> {
    let place = Place::new()?;
    match row {
        "manager/idle" => idle(&place, row),
        _ => scale(&place, row),
    }
}

fn scale(place: &Place, row: &str) -> Result<Vec<Row>> {
    let watch = Watch { is_interrupted: &|| false, progress: &|text| eprintln!("  {text}") };
    let result = scaling(&place.nw, false, &watch)?;
    eprintln!(
        "  quotas: router {:.0} %, store {:.0} %, name router {:.0} % of a core{}",
        100.0 * result.quotas.router,
        100.0 * result.quotas.store,
        100.0 * result.quotas.name_router,
        match result.quota_problems.as_slice() {
            [] => ", in effect".to_owned(),
            problems => format!("; INCONCLUSIVE: {}", problems.join("; ")),
        }
    );
    for (routers, loads) in [1, 2].iter().zip(&result.loads) {
        let load = |(name, load): (&String, &f64)| format!("{name} {:.0} %", 100.0 * load);
        let loads: Vec<String> = loads.iter().map(load).collect();
        eprintln!("  load with {routers} backward routers: {}", loads.join(", "));
    }
    result.decisions.iter().for_each(|decision| eprintln!("  {decision}"));
    if !result.reason.is_empty() {
        eprintln!("  no further one: {}", result.reason);
    }
    let paper = &mundn_paper().number["scaling_mbit"].values;
    let figure = |unit: &str, value: f64| Row::new(row, unit, &[value]);
    Ok(vec![
        figure("speedup", result.speedup()).with_reference(paper[1] / paper[0]),
        figure("seconds_to_carry", result.seconds_to_carry),
        figure("lost", (result.lost + result.refused) as f64),
        figure("duplicates", result.duplicates as f64),
        figure("useless_instances", f64::from(result.useless_instances())),
        figure("end_equals_start", f64::from(u8::from(result.end_equals_start))),
        figure("mbit_per_s", result.mbit_two).with_reference(result.mbit_one),
        figure("exchanges", result.exchanges as f64),
    ])
}

fn idle(place: &Place, row: &str) -> Result<Vec<Row>> {
    let folder = place.folder.path();
    let document = place.path("idle.graph");
    std::fs::write(&document, idle_document(folder))?;
    let mut command = Command::new(&place.nw);
    command.args(["network", "up", "--name", "idle", "--directory"]).arg(folder).arg(&document);
    let manager = ChildProcess::start("the manager", command.stdout(Stdio::null()))?;
    let instances = folder.join("idle/i");
    let deadline = Instant::now() + START_LIMIT;
    let running = || {
        let listed = std::fs::read_dir(&instances).into_iter().flatten().flatten();
        listed.filter(|entry| entry.path().join("control.sock").exists()).count()
    };
    while running() < 3 * CHAINS {
        ensure!(Instant::now() < deadline, "{} of {} services run", running(), 3 * CHAINS);
        std::thread::sleep(Duration::from_millis(100));
    }
    std::thread::sleep(SETTLE);
    let (before, begun) = (manager.cpu_of_process(), Instant::now());
    std::thread::sleep(MEASURED);
    let used = manager.cpu_of_process().saturating_sub(before);
    let percent = 100.0 * used.as_secs_f64() / begun.elapsed().as_secs_f64();
    // SIGTERM stops the services as well, which takes longer than a child is waited for.
    let mut down = Command::new(&place.nw);
    down.args(["network", "down", "--name", "idle", "--directory"]).arg(folder);
    ensure!(down.stdout(Stdio::null()).status()?.success(), "the network was not stopped");
    manager.finish(START_LIMIT)?;
    Ok(vec![
        Row::new(row, "percent_of_core", &[percent]),
        Row::new(row, "services", &[3.0 * CHAINS as f64]),
    ])
}

fn idle_document(folder: &Path) -> String {
    let mut text = "host here = process\n".to_owned();
    let folder = folder.display();
    for at in 0..CHAINS {
        // Writing to a string can't fail.
        let _ = write!(
            text,
            "face in{at} listens unix://{folder}/in{at}.sock\n\
             face out{at} listens unix://{folder}/out{at}.sock\npd{at} = packet_dispatcher\n\
             cs{at} = content_store(packets = 16, mib = 1)\n\
             br{at} = backward_router(pending = 1024, dead_nonces = 1024)\n\
             nr{at} = name_router(prefixes = 64, commands = [\"localhost\"])\n\
             in{at} -> pd{at}.packet\npd{at}.interest -> cs{at}.interest\n\
             pd{at}.data -> br{at}.data\npd{at}.nack -> br{at}.nack\ncs{at}.hit -> faces\n\
             cs{at}.miss -> br{at}.interest -> nr{at}.interest -> faces\n\
             out{at} -> nr{at}.interest\n\
             out{at} -> nr{at}.data -> br{at}.data -> cs{at}.data -> faces\n\
             out{at} -> nr{at}.nack -> br{at}.nack -> faces\n\
             service front{at} {{ pd{at}, cs{at} }}\n"
        );
    }
    text
}
