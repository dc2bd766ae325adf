//! `nw pubsub events`: publishers and subscribers that come and go.

use crate::exit::Status;
use crate::output::{self, json_line};
use crate::signals::StopFlag;
use anyhow::Result;
use core::time::Duration;
use nw_api::pubsub::ScopePattern;
use nw_app::pubsub::{Presence, PresenceWatcher, PubSubOptions};
use serde::Serialize;
use std::io::Write;
use std::process::ExitCode;
use std::time::Instant;

/// Longest wait without looking for Ctrl-C.
const SLICE: Duration = Duration::from_millis(100);

/// An event as JSON.
#[derive(Serialize)]
struct Line<'a> {
    /// `publisher` or `subscriber`.
    kind: &'a str,
    is_here: bool,
    name: &'a str,
    /// Identifier of another node; empty for this one.
    node: String,
    session: u64,
    program: &'a str,
}

/// Runs `nw pubsub events`.
pub fn show(
    options: &PubSubOptions,
    patterns: &[ScopePattern],
    count: Option<u64>,
    timeout: Option<u64>,
    json: bool,
) -> Result<ExitCode> {
    let stop = StopFlag::watch()?;
    let mut watcher = PresenceWatcher::connect(options)?;
    for pattern in patterns {
        watcher.watch(pattern)?;
    }
    let timeout = timeout.map(Duration::from_millis);
    let (mut last, mut shown) = (Instant::now(), 0);
    while !stop.is_set() {
        if count.is_some_and(|count| shown >= count) {
            return Ok(Status::Done.into());
        }
        let Some(event) = watcher.receive(SLICE)? else {
            output::stdout().flush()?;
            if timeout.is_some_and(|timeout| last.elapsed() >= timeout) {
                let is_missing = shown == 0 || count.is_some();
                return Ok(if is_missing { Status::TimedOut } else { Status::Done }.into());
            }
            continue;
        };
        print(&event, json)?;
        shown += 1;
        last = Instant::now();
    }
    Ok(if count.is_some() { Status::Interrupted } else { Status::Done }.into())
}

fn print(event: &Presence, json: bool) -> Result<()> {
    let kind = if event.is_publisher { "publisher" } else { "subscriber" };
    let node = event.node.map_or_else(String::new, |node| format!("{node:016x}"));
    let Presence { is_here, name, session, program, .. } = event;
    if json {
        let (is_here, session) = (*is_here, *session);
        return json_line(&Line { kind, is_here, name, node, session, program });
    }
    let sign = if *is_here { '+' } else { '-' };
    let by = match event.node {
        Some(_) => format!("node {node}"),
        None if program.is_empty() => format!("application {session}"),
        None => format!("application {session} ({program})"),
    };
    outln!("{sign} {kind} {name}: {by}")?;
    output::stdout().flush()?;
    Ok(())
}
