//! `nw sub` and `nw pubsub tap`: prints publications, or writes them to files.

use super::args::Sub;
use crate::exit::{Failure, Status};
use crate::output::{self, count, json_line, printable_line};
use crate::signals::StopFlag;
use anyhow::{Context, Result, anyhow};
use core::time::Duration;
use nw_api::pubsub::{ItemName, ScopePattern};
use nw_app::pubsub::{PubSubOptions, PublicationKeys, Received, Subscriber, payload_of};
use nw_trust::VerifyKey;
use nw_trust::publication::read_public_key;
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
    refused: u64,
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
    let patterns = patterns(args)?;
    if !args.quiet && !args.json {
        let patterns: Vec<&str> = patterns.iter().map(ScopePattern::as_str).collect();
        note!("subscribing to {}; Ctrl-C ends it", patterns.join(" "));
    }
    let timeout = args.timeout.map(Duration::from_millis);
    let limits = Limits { count: args.count, timeout };
    let history = if args.no_last { 0 } else { args.history };
    let wanted = Wanted { patterns: &patterns, history, is_here: args.here };
    let mut keys = keys(&args.signed_by)?;
    let (summary, status) = run(&options, &wanted, keys.as_mut(), &show, &limits)?;
    if args.json {
        json_line(&summary)?;
    } else {
        let refused = match summary.refused {
            0 => String::new(),
            refused => format!(", {refused} refused"),
        };
        note!("{}, {} lost{refused}", count(summary.received, "publication"), summary.lost);
    }
    Ok(status.into())
}

/// Returns the patterns, or the names derived from them.
fn patterns(args: &Sub) -> Result<Vec<ScopePattern>> {
    let Some(number) = args.derived else { return Ok(args.patterns.clone()) };
    let derive = |pattern: &ScopePattern| {
        let name: ItemName = pattern.as_str().parse()?;
        name.derived(number)?.as_str().parse::<ScopePattern>()
    };
    let derived = args.patterns.iter().map(|pattern| {
        derive(pattern).map_err(|fault| anyhow!("--derived with {pattern}: {fault}"))
    });
    derived.collect()
}

/// Runs `nw pubsub tap`.
pub fn tap(
    options: &PubSubOptions,
    patterns: &[ScopePattern],
    count: Option<u64>,
) -> Result<ExitCode> {
    let limits = Limits { count, timeout: None };
    let wanted = Wanted { patterns, history: 0, is_here: false };
    let (_, status) = run(options, &wanted, None, &Show::Header, &limits)?;
    Ok(status.into())
}

/// Reads the keys that publications must be signed with. `None` if they need no signature.
fn keys(texts: &[String]) -> Result<Option<PublicationKeys>> {
    let key = |text: &String| {
        let (path, is_secret) = match text.strip_prefix("hmac:") {
            Some(path) => (path, true),
            None => (text.as_str(), false),
        };
        let file = std::fs::read(path).with_context(|| format!("can't read {path}"))?;
        match is_secret {
            true => Ok(VerifyKey::from_secret(&file)),
            false => read_public_key(&file).with_context(|| {
                format!("{path} is no certificate or public key; a secret is hmac:{path}")
            }),
        }
    };
    let keys = texts.iter().map(key).collect::<Result<Vec<_>>>()?;
    Ok((!keys.is_empty()).then(|| PublicationKeys::new(keys)))
}

/// What is subscribed to.
struct Wanted<'a> {
    patterns: &'a [ScopePattern],
    history: u32,
    /// Whether other nodes are not told.
    is_here: bool,
}

/// When to end.
struct Limits {
    count: Option<u64>,
    timeout: Option<Duration>,
}

fn run(
    options: &PubSubOptions,
    wanted: &Wanted<'_>,
    mut keys: Option<&mut PublicationKeys>,
    show: &Show<'_>,
    limits: &Limits,
) -> Result<(Summary, Status)> {
    let stop = StopFlag::watch()?;
    let mut subscriber = Subscriber::connect(options)?;
    for pattern in wanted.patterns {
        match wanted.is_here {
            true => subscriber.subscribe_here(pattern, wanted.history)?,
            false => subscriber.subscribe_from(pattern, wanted.history)?,
        };
    }
    let mut last = Instant::now();
    let (mut received, mut refused) = (0, 0);
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
                let checked = match keys.as_deref_mut() {
                    Some(keys) => keys.check(name, sequence, payload),
                    None => Ok(payload_of(payload)),
                };
                let payload = match checked {
                    Ok(payload) => payload,
                    Err(fault) => {
                        note!("{name} {sequence} refused: {fault}");
                        refused += 1;
                        continue;
                    }
                };
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
    Ok((Summary { received, lost: counts.lost, refused }, status))
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
