//! `nw put` and `nw cat`: files across the network.

use crate::args::{Cat, Put};
use crate::connect::connect;
use crate::exit::Status;
use crate::output::{duration_us, json_line};
use crate::target::Target;
use crate::{progress, signals, signing};
use anyhow::{Context, Result, bail};
use nw_app::ClientError;
use nw_app::fetch::FetchOptions;
use nw_app::object::{ObjectOptions, ObjectReport, fetch_object};
use nw_app::publish::{Publication, PublishOptions};
use serde_json::json;
use std::fs::File;
use std::io::{self, stdin};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

fn now_us() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros() as u64
}

/// Publishes until the user or the router ends it.
pub fn put(args: Put) -> Result<ExitCode> {
    let ended = signals::Ended::watch()?;
    let file = open(args.file.as_deref())?;
    let options = PublishOptions {
        segment_len: args.segment,
        freshness_ms: args.freshness,
        ..PublishOptions::default()
    };
    let signer = signing::signer(&args.signing)?;
    let mut publication = Publication::new(file, args.name.as_ref(), now_us(), options, &signer)?;
    let mut client = connect(&args.router)?;
    if !args.no_register {
        signer
            .commander(&args.router)?
            .register(&mut client, publication.object())
            .context("can't serve the name")?;
    }
    let about = |event: &str, publication: &Publication<_>| {
        let counters = publication.counters();
        json!({ "event": event, "name": publication.object().to_string(), "versioned": publication.versioned().to_string(),
            "bytes": publication.bytes(), "segments": publication.segments(), "segments_sent": counters.segments,
            "metadata_sent": counters.metadata, "unknown": counters.unknown, "failed": counters.failed })
    };
    if args.json {
        json_line(&about("ready", &publication))?;
    } else if !args.quiet {
        note!(
            "serving {} ({} octets in {} segments) as {}; Ctrl-C ends it",
            publication.versioned(),
            publication.bytes(),
            publication.segments(),
            publication.object()
        );
    }
    let bar = progress::bytes(None, args.quiet || args.json);
    let result = client.run(
        |now, received, out| {
            publication.on_interest(now, now_us(), &received, out);
            bar.set_position(publication.counters().segments * args.segment as u64);
        },
        || ended.is_ended(),
    );
    bar.finish_and_clear();
    if args.json {
        json_line(&about("end", &publication))?;
    } else if !args.quiet {
        note!("{} segments sent", publication.counters().segments);
    }
    match result {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error @ ClientError::Closed(_)) => Err(error).context("no longer serving"),
        Err(error) => Err(error.into()),
    }
}

/// The file, or standard input copied to one that has no name, as segments are read in any order.
fn open(path: Option<&Path>) -> Result<File> {
    match path {
        Some(path) if path != Path::new("-") => {
            let file = File::open(path).with_context(|| format!("can't read {}", path.display()))?;
            if !file.metadata()?.is_file() {
                bail!("{} is no file; pipe it in: … | nw put NAME", path.display());
            }
            Ok(file)
        }
        _ => {
            let mut file = tempfile::tempfile().context("can't make a temporary file for standard input")?;
            io::copy(&mut stdin().lock(), &mut file).context("can't store standard input")?;
            Ok(file)
        }
    }
}

/// Fetches and writes.
pub fn cat(args: &Cat) -> Result<ExitCode> {
    let ended = signals::Ended::watch()?;
    let mut target = Target::new(args.output.as_deref(), 0o644)?;
    let mut client = connect(&args.router)?;
    client.stop_when(ended.flag());
    let options = ObjectOptions {
        fetch: FetchOptions {
            window_max: usize::from(args.window),
            retries_max: args.retries,
            ..FetchOptions::default()
        },
        lifetime_ms: args.lifetime,
        discover_version: !args.no_version,
        must_be_fresh: false,
    };
    let bar = progress::bytes(None, args.quiet || args.json);
    let report = fetch_object(
        &mut client,
        args.name.as_ref(),
        &options,
        |progress| {
            bar.set_position(progress.bytes);
            if let Some(total) = progress.segments_total {
                bar.set_message(format!("{} of {total} segments", progress.segments));
            }
        },
        |content| target.write_all(content),
    );
    bar.finish_and_clear();
    let report = match report {
        Ok(report) => report,
        Err(_) if ended.is_ended() => return Ok(Status::Interrupted.into()),
        Err(error) => return Err(error.into()),
    };
    target.finish()?;
    summarize(args, &report);
    Ok(ExitCode::SUCCESS)
}

fn summarize(args: &Cat, report: &ObjectReport) {
    let seconds = report.elapsed.max(Duration::from_micros(1)).as_secs_f64();
    let rtt = |quantile| report.rtt_us.value_at_quantile(quantile);
    let counters = report.counters;
    if args.json {
        note!(
            "{}",
            json!({ "name": report.name.to_string(), "bytes": report.bytes, "segments": report.segments, "seconds": seconds,
                "mbit_per_s": report.bytes as f64 * 8.0 / seconds / 1e6, "interests": counters.interests,
                "retransmissions": counters.retransmissions, "marks": counters.marks, "nacks": counters.nacks,
                "rtt_us": { "p50": rtt(0.5), "p90": rtt(0.9), "p99": rtt(0.99), "max": report.rtt_us.max() } })
        );
    } else if !args.quiet {
        note!(
            "{}: {} octets in {} ({:.1} Mbit/s), {} Interests, {} again, round trip {} (median) {} (99 %)",
            report.name,
            report.bytes,
            duration_us(report.elapsed.as_micros() as u64),
            report.bytes as f64 * 8.0 / seconds / 1e6,
            counters.interests,
            counters.retransmissions,
            duration_us(rtt(0.5)),
            duration_us(rtt(0.99)),
        );
    }
}
