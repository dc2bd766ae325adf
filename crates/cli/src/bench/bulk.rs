//! `nw bench bulk`: downloads at a rate, through any router.

use super::args::Bulk;
use crate::output::json_line;
use crate::{connect, signals};
use anyhow::{Context, Result, bail, ensure};
use nw_api::management::client::{decode_items, decode_status};
use nw_api::management::{Dataset, FaceScope, FaceStatus};
use nw_app::{Client, FaceUri, control};
use nw_traffic::bulk::{
    BulkPlan, BulkResult, Link, RouterSample, csv_files, csv_samples, download, html,
};
use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Time between two questions to the router.
const STATUS_INTERVAL: Duration = Duration::from_millis(90);
/// Content of an Ethernet frame of 1514 bytes beside the headers of IPv4, UDP and NDNLPv2, bytes.
const FRAME_CONTENT: f64 = 1450.0;
/// Headers of such a frame, bytes.
const FRAME_HEADERS: f64 = 64.0;
/// Bytes of a Data beside its content.
const DATA_HEADERS: f64 = 70.0;

/// Runs `nw bench bulk`.
pub fn bulk(args: &Bulk) -> Result<ExitCode> {
    let plan = plan(args);
    plan.check()?;
    let link = link(args)?;
    if let Some(folder) = &args.output {
        fs::create_dir_all(folder).with_context(|| format!("can't create {}", folder.display()))?;
    }
    let stop_flag = signals::StopFlag::watch()?;
    let uri = connect::uri(&args.router)?;
    let mut client = connect::connect(&args.router)?;
    client.stop_when(stop_flag.flag());
    let (status, done) = (Arc::new(Mutex::new(None)), Arc::new(AtomicBool::new(false)));
    let watching = {
        let (uri, status, done) = (uri.clone(), Arc::clone(&status), Arc::clone(&done));
        let watch = move || watch_router(&uri, &status, &done);
        std::thread::Builder::new()
            .name("status".into())
            .spawn(watch)
            .context("can't start a thread")?
    };
    let result = download(&mut client, &plan, &uri.to_string(), link, &status);
    done.store(true, Ordering::Relaxed);
    let _ = watching.join();
    let result = result.context("the downloads ended early")?;
    if let Some(folder) = &args.output {
        write(folder, &result)?;
    }
    if args.json {
        json_line(&result)?;
    } else {
        outln!("{}", result.describe())?;
    }
    let unanswered = result.files.iter().all(|file| file.stop_s.is_none());
    if unanswered && !stop_flag.is_set() {
        let error = result.files.iter().find_map(|file| file.error.clone()).unwrap_or_default();
        bail!(
            "no file was complete ({error}): is `nw bench answer --prefix {} --payload {}` running?",
            args.prefix,
            args.payload
        );
    }
    let incomplete = result.summary.files - result.summary.complete;
    if incomplete == 0 {
        return Ok(ExitCode::SUCCESS);
    }
    let error = result.files.iter().find_map(|file| Some((file.file, file.error.as_ref()?)));
    if let Some((file, error)) = error {
        note!(
            "{incomplete} of {} files were not complete, such as file {file}: {error}; the link \
             was down or too slow for a while: see `nw face list`",
            result.summary.files
        );
    }
    Ok(ExitCode::FAILURE)
}

fn plan(args: &Bulk) -> BulkPlan {
    BulkPlan {
        prefix: args.prefix.clone(),
        files_per_s: args.files_per_s,
        seconds: args.seconds,
        file_bytes: args.size,
        payload: args.payload as usize,
        lifetime_ms: args.lifetime,
        window_max: args.window as usize,
    }
}

fn link(args: &Bulk) -> Result<Option<Link>> {
    let Some(rate_mbit) = args.link_rate else { return Ok(None) };
    ensure!(
        (0.001..=1e6).contains(&rate_mbit),
        "--link-rate {rate_mbit}: give a number of Mbit/s from 0.001 to 1000000"
    );
    ensure!(
        (0.0..=60_000.0).contains(&args.link_rtt),
        "--link-rtt {}: give a number of milliseconds from 0 to 60000",
        args.link_rtt
    );
    let data = args.payload as f64 + DATA_HEADERS;
    let segment_bytes = data + (data / FRAME_CONTENT).ceil() * FRAME_HEADERS;
    Ok(Some(Link { rate_mbit, rtt_ms: args.link_rtt, segment_bytes }))
}

/// Asks the router for its pending Interests and received bytes until `done`. A router that does
/// not answer is not asked again.
fn watch_router(uri: &FaceUri, status: &Mutex<Option<RouterSample>>, done: &AtomicBool) {
    let Ok(mut client) = Client::connect(uri) else { return };
    while !done.load(Ordering::Relaxed) {
        let Some(sample) = router_sample(&mut client) else { return };
        *status.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(sample);
        std::thread::sleep(STATUS_INTERVAL);
    }
}

fn router_sample(client: &mut Client) -> Option<RouterSample> {
    let general = control::dataset(client, Dataset::StatusGeneral, None).ok()?;
    let faces = control::dataset(client, Dataset::FacesList, None).ok()?;
    let faces: Vec<FaceStatus> = decode_items(&faces).ok()?;
    let outside = faces.iter().filter(|face| face.scope == FaceScope::NonLocal);
    Some(RouterSample {
        pending: decode_status(&general).ok()?.pit_entries,
        in_bytes: outside.map(|face| face.in_bytes).sum(),
    })
}

fn write(folder: &Path, result: &BulkResult) -> Result<()> {
    let files = [
        ("files.csv", csv_files(result)),
        ("samples.csv", csv_samples(result)),
        ("bulk.json", serde_json::to_string_pretty(result)?),
        ("bulk.html", html(result)),
    ];
    for (name, text) in files {
        let path = folder.join(name);
        fs::write(&path, text).with_context(|| format!("can't write {}", path.display()))?;
    }
    Ok(())
}
