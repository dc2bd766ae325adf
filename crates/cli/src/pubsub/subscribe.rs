//! `nw sub` and `nw pubsub tap`: prints publications, or writes them to files.

use super::args::Sub;
use crate::exit::{Failure, Status};
use crate::output::{self, count, json_line, printable_line};
use crate::signals::StopFlag;
use anyhow::{Context, Result};
use core::time::Duration;
use nw_api::pubsub::ScopePattern;
use nw_app::pubsub::{PubSubOptions, Received, Subscriber};
use serde::Serialize;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

/// Longest wait without looking for Ctrl-C.
const SLICE: Duration = Duration::from_millis(100);
/// Payload bytes that `nw pubsub tap` shows.
const TAP_BYTES: usize = 24;

/// How publications are shown.
enum Show<'a> {
    Line,
    Raw,
    Json,
    File(&'a Path),
    Header,
    Nothing,
}

/// A publication or loss as JSON.
#[derive(Serialize)]
struct Line<'a> {
    name: &'a str,
    sequence: u64,
    bytes: usize,
    lost: u64,
    is_last_value: bool,
    /// The payload, if it is text.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
}

#[derive(Serialize)]
struct Summary {
    received: u64,
    lost: u64,
}

/// Runs `nw sub`.
pub fn subscribe(args: &Sub) -> Result<ExitCode> {
    let options = PubSubOptions { shared_memory: !args.no_shared_memory, ..args.node.options()? };
    let show = match &args.output {
        Some(folder) => {
            std::fs::create_dir_all(folder)
                .with_context(|| format!("can't create {}", folder.display()))?;
            Show::File(folder)
        }
        None if args.quiet => Show::Nothing,
        None if args.json => Show::Json,
        None if args.raw => Show::Raw,
        None => Show::Line,
    };
    if !args.quiet && !args.json {
        let patterns: Vec<&str> = args.patterns.iter().map(ScopePattern::as_str).collect();
        note!("subscribing to {}; Ctrl-C ends it", patterns.join(" "));
    }
    let timeout = args.timeout.map(Duration::from_millis);
    let limits = Limits { count: args.count, timeout };
    let (summary, status) = run(&options, &args.patterns, !args.no_last, &show, &limits)?;
    if args.json {
        json_line(&summary)?;
    } else {
        note!("{}, {} lost", count(summary.received, "publication"), summary.lost);
    }
    Ok(status.into())
}

/// Runs `nw pubsub tap`.
pub fn tap(
    options: &PubSubOptions,
    patterns: &[ScopePattern],
    count: Option<u64>,
) -> Result<ExitCode> {
    let limits = Limits { count, timeout: None };
    let (_, status) = run(options, patterns, false, &Show::Header, &limits)?;
    Ok(status.into())
}

/// When to end.
struct Limits {
    count: Option<u64>,
    timeout: Option<Duration>,
}

fn run(
    options: &PubSubOptions,
    patterns: &[ScopePattern],
    wants_last: bool,
    show: &Show<'_>,
    limits: &Limits,
) -> Result<(Summary, Status)> {
    let stop = StopFlag::watch()?;
    let mut subscriber = Subscriber::connect(options)?;
    for pattern in patterns {
        subscriber.subscribe(pattern, wants_last)?;
    }
    let mut last = Instant::now();
    let mut received = 0;
    let status = loop {
        if limits.count.is_some_and(|count| received >= count) {
            break Status::Done;
        }
        if stop.is_set() {
            break if limits.count.is_some() { Status::Interrupted } else { Status::Done };
        }
        match subscriber.receive(SLICE)? {
            Received::Nothing => {
                output::stdout().flush()?;
                if limits.timeout.is_some_and(|timeout| last.elapsed() >= timeout) {
                    let is_missing = received == 0 || limits.count.is_some();
                    break if is_missing { Status::TimedOut } else { Status::Done };
                }
            }
            Received::Publication { name, sequence, payload, lost, is_last_value } => {
                if lost > 0 {
                    note!("{name}: {} lost", count(lost, "publication"));
                }
                show.publication(name, sequence, payload, lost, is_last_value)?;
                received += 1;
                last = Instant::now();
            }
            Received::Lost { name, lost } => {
                note!("{name}: {} lost", count(lost, "publication"));
            }
        }
    };
    let counts = subscriber.counts();
    Ok((Summary { received, lost: counts.lost }, status))
}

impl Show<'_> {
    fn publication(
        &self,
        name: &str,
        sequence: u64,
        payload: &[u8],
        lost: u64,
        is_last_value: bool,
    ) -> Result<()> {
        let text = core::str::from_utf8(payload).ok();
        match self {
            Show::Nothing => {}
            Show::Line => match text {
                Some(text) => outln!("{name} {}", printable_line(text))?,
                None => outln!("{name} ({} bytes)", payload.len())?,
            },
            Show::Raw => output::stdout().write_all(payload)?,
            Show::Json => {
                let bytes = payload.len();
                json_line(&Line { name, sequence, bytes, lost, is_last_value, text })?;
            }
            Show::Header => {
                let start = &payload[..payload.len().min(TAP_BYTES)];
                let start = match core::str::from_utf8(start) {
                    Ok(text) => printable_line(text),
                    Err(_) => start.iter().map(|byte| format!("{byte:02x}")).collect(),
                };
                let gap = if lost > 0 { format!(" after {lost} lost") } else { String::new() };
                outln!("{name} {sequence}{gap}: {} bytes: {start}", payload.len())?;
                output::stdout().flush()?;
            }
            Show::File(folder) => {
                let path = file_path(folder, name);
                write_file(&path, payload)
                    .with_context(|| format!("can't write {}", path.display()))
                    .map_err(|error| Failure::new(Status::Failed, output::describe(&error)))?;
                note!("{name}: {} bytes in {}", payload.len(), path.display());
            }
        }
        Ok(())
    }
}

/// Returns the file for an item. No name leads out of the folder.
fn file_path(folder: &Path, name: &str) -> PathBuf {
    let mut path = folder.to_owned();
    for component in name.split('/').filter(|component| !component.is_empty()) {
        match component {
            "." | ".." => path.push(component.replace('.', "%2E")),
            _ => path.push(component),
        }
    }
    path
}

/// Writes a file that appears when it is complete.
fn write_file(path: &Path, payload: &[u8]) -> Result<()> {
    let folder = path.parent().context("a file needs a folder")?;
    std::fs::create_dir_all(folder)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(payload)?;
    file.persist(path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_paths_stay_in_the_folder() {
        let folder = Path::new("/out");
        assert_eq!(file_path(folder, "/a/b"), Path::new("/out/a/b"));
        assert_eq!(file_path(folder, "/../../etc/x"), Path::new("/out/%2E%2E/%2E%2E/etc/x"));
        assert_eq!(file_path(folder, "/./x"), Path::new("/out/%2E/x"));
    }
}
