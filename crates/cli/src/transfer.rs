//! `nw put` and `nw cat`: publish and fetch objects in segments.

use crate::args::transfer::{Cat, Put};
use crate::connect::{Registration, connect_with_retry};
use crate::exit::Status;
use crate::output::{count, duration_us, json_line};
use crate::output_target::OutputTarget;
use crate::{progress, signals, signing};
use anyhow::{Context, Result, bail};
use nw_app::fetch::FetchOptions;
use nw_app::object::{ObjectOptions, ObjectReport, fetch_object_verified};
use nw_app::publish::{Publication, PublishOptions};
use nw_app::verify::Signer;
use nw_app::{Client, ClientError};
use nw_wire::Sign;
use serde_json::json;
use std::fs::File;
use std::io::{self, stdin};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How long Interests for a changed file are still answered with an application Nack before the
/// program ends. Consumers retransmit within this time.
const GONE_GRACE: Duration = Duration::from_secs(4);

fn now_us() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_micros() as u64
}

/// Runs `nw put`: publishes until Ctrl-C, or until the file changes.
pub fn put(args: Put) -> Result<ExitCode> {
    let stop_flag = signals::StopFlag::watch()?;
    let file = open(args.file.as_deref())?;
    let options = PublishOptions {
        segment_len: args.segment,
        freshness_ms: args.freshness,
        ..PublishOptions::default()
    };
    let signer = signing::signer(&args.signing)?;
    let mut publication = Publication::new(file, args.name.as_ref(), now_us(), options, &signer)?;
    let mut client = connect_with_retry(&args.router, args.serve.no_reconnect)?;
    client.stop_when(stop_flag.flag());
    let prefix = (!args.no_register).then(|| publication.object().to_name());
    let mut registration = Registration::new(
        &mut client,
        signer.commander(&args.router)?,
        prefix,
        signer.key_name(),
        &args.serve,
    )?;
    if args.json {
        json_line(&event_json("ready", &publication))?;
    } else if !args.quiet {
        note!(
            "serving {} ({} bytes in {}) as {}; Ctrl-C ends it",
            publication.versioned(),
            publication.bytes(),
            count_segments(publication.segments()),
            publication.object()
        );
    }
    let result = serve(&args, &mut client, &signer, &mut publication, &mut registration);
    if args.json {
        json_line(&event_json("end", &publication))?;
    } else if !args.quiet {
        note!("{} sent", count_segments(publication.counters().segments));
    }
    match result {
        Ok(()) | Err(ClientError::Interrupted) if publication.is_changed() => {
            let path = args.file.as_deref().unwrap_or(Path::new("-"));
            bail!(
                "{} was changed while it was served, but a published version must not change: \
                 publish it again (files of up to {} MiB are copied first)",
                path.display(),
                nw_app::snapshot::COPY_BYTES_MAX >> 20
            )
        }
        Ok(()) | Err(ClientError::Interrupted) => Ok(ExitCode::SUCCESS),
        Err(error @ ClientError::Closed(_)) => Err(error).context("no longer serving"),
        Err(error) => Err(error.into()),
    }
}

fn count_segments(number: u64) -> String {
    count(number, "segment")
}

/// Returns the publication's counters as a JSON object.
fn event_json<S: Sign>(event: &str, publication: &Publication<S>) -> serde_json::Value
where
    S::Error: std::fmt::Display,
{
    let counters = publication.counters();
    json!({
        "event": event,
        "name": publication.object().to_string(),
        "versioned": publication.versioned().to_string(),
        "bytes": publication.bytes(),
        "segments": publication.segments(),
        "segments_sent": counters.segments,
        "metadata_sent": counters.metadata,
        "unknown": counters.unknown,
        "failed": counters.failed,
    })
}

/// Answers Interests until Ctrl-C, until the connection is lost for good, or until [`GONE_GRACE`]
/// after the file changed.
fn serve<S: Sign>(
    args: &Put,
    client: &mut Client,
    signer: &signing::DataSigner,
    publication: &mut Publication<S>,
    registration: &mut Registration<'_>,
) -> Result<(), ClientError>
where
    S::Error: std::fmt::Display,
{
    let bar = progress::transfer(args.quiet || args.json);
    let started = client.now();
    let mut changed_at = None;
    loop {
        client.poll(Some(Duration::from_millis(100)), |now, received, out| {
            if !signer.answer(&received, out) {
                publication.on_interest(now, now_us(), &received, out);
            }
        })?;
        let sent = publication.counters().segments;
        progress::show_transfer(
            &bar,
            sent * args.segment as u64,
            client.now().since(started),
            (sent, None),
        );
        let change = registration.update(client)?;
        bar.suspend(|| {
            // Serving goes on if standard output is closed.
            let _ = change.report(args.json, args.quiet);
        });
        let now = client.now();
        if publication.is_changed() && now.since(*changed_at.get_or_insert(now)) >= GONE_GRACE {
            return Ok(());
        }
    }
}

/// Opens the file. Standard input is copied to an unnamed temporary file, as segments are read in
/// any order.
fn open(path: Option<&Path>) -> Result<File> {
    match path {
        Some(path) if path != Path::new("-") => {
            let file =
                File::open(path).with_context(|| format!("can't read {}", path.display()))?;
            if !file.metadata()?.is_file() {
                bail!("{} is not a regular file; pipe it in: … | nw put NAME", path.display());
            }
            Ok(file)
        }
        _ => {
            let mut file =
                tempfile::tempfile().context("can't create a temporary file for standard input")?;
            io::copy(&mut stdin().lock(), &mut file).context("can't store standard input")?;
            Ok(file)
        }
    }
}

/// Runs `nw cat`: fetches an object and writes it.
pub fn cat(args: &Cat) -> Result<ExitCode> {
    let stop_flag = signals::StopFlag::watch()?;
    if args.name.as_ref().component(-1).is_some_and(|last| last.typ().is_digest()) {
        bail!(
            "{} ends in a digest, so it names a single packet: fetch it with `nw peek`",
            args.name
        );
    }
    let mut verifier = signing::verifier(&args.verify)?;
    let mut target = OutputTarget::new(args.output.as_deref(), 0o644)?;
    let mut client = connect_with_retry(&args.router, args.no_reconnect)?;
    client.stop_when(stop_flag.flag());
    let options = ObjectOptions {
        fetch: FetchOptions {
            window_max: usize::from(args.window),
            // By default only the time without new Data is limited.
            retries_max: args.retries.unwrap_or(u32::MAX - 1),
            timeout: Duration::from_millis(args.timeout),
            ..FetchOptions::default()
        },
        lifetime_ms: args.lifetime,
        discover_version: !args.no_version,
        must_be_fresh: false,
        bytes_max: args.max_size,
    };
    let bar = progress::transfer(args.quiet || args.json);
    let started = std::time::Instant::now();
    let report = fetch_object_verified(
        &mut client,
        args.name.as_ref(),
        &options,
        &mut verifier,
        |progress| {
            let segments = (progress.segments, progress.segments_total);
            progress::show_transfer(&bar, progress.bytes, started.elapsed(), segments);
        },
        |content| target.write_all(content),
    );
    bar.finish_and_clear();
    let report = match report {
        Ok(report) => report,
        Err(_) if stop_flag.is_set() => return Ok(Status::Interrupted.into()),
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
        let json = json!({
            "name": report.name.to_string(),
            "bytes": report.bytes,
            "segments": report.segments,
            "seconds": seconds,
            "mbit_per_s": report.bytes as f64 * 8.0 / seconds / 1e6,
            "interests": counters.interests,
            "signer": report.signer.to_string(),
            "verified": matches!(report.signer, Signer::Verified(_)),
            "invalid": counters.invalid,
            "retransmissions": counters.retransmissions,
            "marks": counters.marks,
            "nacks": counters.nacks,
            "rtt_us": {
                "p50": rtt(0.5), "p90": rtt(0.9), "p99": rtt(0.99), "max": report.rtt_us.max(),
            },
        });
        note!("{json}");
    } else if !args.quiet {
        note!(
            "{}: {} bytes in {} ({:.1} Mbit/s), {} Interests, {} retransmitted, round trip median \
             {}, p99 {}; {}",
            report.name,
            report.bytes,
            duration_us(report.elapsed.as_micros() as u64),
            report.bytes as f64 * 8.0 / seconds / 1e6,
            counters.interests,
            counters.retransmissions,
            duration_us(rtt(0.5)),
            duration_us(rtt(0.99)),
            report.signer,
        );
    }
}
