//! `nw pub`: publishes values, lines or a file.

use super::args::Pub;
use crate::exit::{Failure, Status};
use crate::output::{count, json_line};
use crate::signals::StopFlag;
use anyhow::{Context, Result};
use core::time::Duration;
use nw_app::pubsub::{ItemNumber, PubSubOptions, Publisher, WhenFull};
use serde::Serialize;
use std::io::{BufRead, Read};
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

/// Longest line of standard input, bytes.
const LINE_BYTES_MAX: u64 = 64 << 20;
/// Pause while subscribers are waited for.
const PAUSE: Duration = Duration::from_millis(5);

#[derive(Serialize)]
struct Summary<'a> {
    name: &'a str,
    published: u64,
    subscribers: u32,
    all_read: bool,
}

/// The publisher and what it has done.
struct Session<'a> {
    publisher: Publisher,
    item: ItemNumber,
    published: u64,
    stop: &'a StopFlag,
    interval: Duration,
}

/// Runs `nw pub`.
pub fn publish(args: &Pub) -> Result<ExitCode> {
    let stop = StopFlag::watch()?;
    let options = PubSubOptions {
        shared_memory: !args.no_shared_memory,
        ring_bytes: args.ring.saturating_mul(1024),
        ..args.node.options()?
    };
    let patience = Duration::from_millis(args.patience);
    let when_full = if args.overwrite { WhenFull::Overwrite } else { WhenFull::Wait(patience) };
    let mut publisher = Publisher::connect(&options, when_full)?;
    let item = publisher.announce(&args.name, !args.no_last)?;
    let interval = Duration::from_millis(args.interval);
    let mut session = Session { publisher, item, published: 0, stop: &stop, interval };
    session.wait_for_subscribers(args.wait, Duration::from_millis(args.timeout))?;
    match &args.file {
        Some(path) => {
            let content = read_all(path)?;
            session.publish_all(&[content], args.repeat)?;
        }
        None if !args.values.is_empty() => session.publish_all(&args.values, args.repeat)?,
        None => session.publish_lines()?,
    }
    let all_read = session.publisher.drain(patience)?;
    let subscribers = session.publisher.subscribers(item)?;
    let (name, published) = (args.name.as_str(), session.published);
    if args.json {
        json_line(&Summary { name, published, subscribers, all_read })?;
    } else if !args.quiet {
        let unread = if all_read { "" } else { "; some have not read everything yet" };
        note!(
            "{} under {name}, {}{unread}",
            count(published, "publication"),
            count(u64::from(subscribers), "subscriber")
        );
    }
    Ok(if stop.is_set() { Status::Interrupted.into() } else { ExitCode::SUCCESS })
}

fn read_all(path: &Path) -> Result<Vec<u8>> {
    if path == Path::new("-") {
        let mut content = Vec::new();
        std::io::stdin().lock().read_to_end(&mut content).context("standard input")?;
        return Ok(content);
    }
    std::fs::read(path).with_context(|| format!("can't read {}", path.display()))
}

impl Session<'_> {
    fn wait_for_subscribers(&mut self, wanted: u32, timeout: Duration) -> Result<()> {
        let deadline = Instant::now() + timeout;
        loop {
            let found = self.publisher.subscribers(self.item)?;
            if found >= wanted || self.stop.is_set() {
                return Ok(());
            }
            if Instant::now() >= deadline {
                let text = format!(
                    "{} of {wanted} came within {} ms; start `nw sub` first, or raise --timeout",
                    count(u64::from(found), "subscriber"),
                    timeout.as_millis()
                );
                return Err(Failure::new(Status::TimedOut, text).into());
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn publish_all(&mut self, values: &[impl AsRef<[u8]>], repeat: u64) -> Result<()> {
        for _ in 0..repeat {
            for value in values {
                if self.stop.is_set() {
                    return Ok(());
                }
                self.publish(value.as_ref())?;
            }
        }
        Ok(())
    }

    fn publish(&mut self, value: &[u8]) -> Result<()> {
        if self.published > 0 && !self.interval.is_zero() {
            std::thread::sleep(self.interval);
        }
        self.publisher.publish(self.item, value)?;
        self.published += 1;
        Ok(())
    }

    fn publish_lines(&mut self) -> Result<()> {
        let mut input = std::io::stdin().lock();
        let mut line = Vec::new();
        loop {
            line.clear();
            let read = (&mut input).take(LINE_BYTES_MAX).read_until(b'\n', &mut line);
            match read {
                Ok(0) => return Ok(()),
                Ok(_) => {}
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error).context("standard input"),
            }
            if self.stop.is_set() {
                return Ok(());
            }
            if line.last() == Some(&b'\n') {
                line.pop();
            }
            self.publish(&line)?;
        }
    }
}
