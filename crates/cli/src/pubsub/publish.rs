//! `nw pub`: publishes values, lines or a file.

use super::args::Pub;
use crate::exit::{Failure, Status};
use crate::output::{count, json_line};
use crate::signals::StopFlag;
use crate::signing;
use anyhow::{Context, Result, anyhow};
use core::time::Duration;
use nw_api::pubsub::{ImplicitRoute, ItemName, ItemOptions, PublisherChoice, Strategy};
use nw_app::pubsub::{ItemNumber, PubSubOptions, Publisher, Scope, WhenFull};
use nw_trust::Key;
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
    dropped: u64,
    /// Waiting readers that were woken, each by a system call.
    wakeups: u64,
    all_read: bool,
}

/// The publisher and what it has done.
struct Session<'a> {
    publisher: Publisher,
    item: ItemNumber,
    published: u64,
    stop: &'a StopFlag,
    interval: Duration,
    key: Option<&'a Key>,
    /// Publications of a signature.
    batch: usize,
    /// Publications that wait for it.
    waiting: Vec<Vec<u8>>,
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
    let when_full = match (args.overwrite, args.drop_newest) {
        (true, _) => WhenFull::Overwrite,
        (_, true) => WhenFull::DropNewest,
        _ => WhenFull::Wait(patience),
    };
    let mut publisher = Publisher::connect(&options, when_full)?;
    let signer = signing::signer(&args.signing)?;
    anyhow::ensure!(
        args.batch == 1 || signer.key().is_some(),
        "--batch is for signatures: give a key with --key or --hmac"
    );
    let (name, item) = announce(&mut publisher, args)?;
    let mut session = Session {
        publisher,
        item,
        published: 0,
        stop: &stop,
        interval: Duration::from_millis(args.interval),
        key: signer.key(),
        batch: usize::from(args.batch),
        waiting: Vec::new(),
    };
    session.wait_for_subscribers(args.wait, Duration::from_millis(args.timeout))?;
    match &args.file {
        Some(path) => {
            let content = read_all(path)?;
            session.publish_all(&[content], args.repeat)?;
        }
        None if !args.values.is_empty() => session.publish_all(&args.values, args.repeat)?,
        None => session.publish_lines()?,
    }
    session.sign_waiting()?;
    let all_read = session.publisher.drain(patience)?;
    let subscribers = session.publisher.subscribers(item)?;
    let (name, published) = (name.as_str(), session.published);
    let dropped = session.publisher.dropped();
    if args.json {
        let wakeups = session.publisher.wakeups();
        json_line(&Summary { name, published, subscribers, dropped, wakeups, all_read })?;
    } else if !args.quiet {
        let unread = if all_read { "" } else { "; some have not read everything yet" };
        let of_these =
            if dropped > 0 { format!(", of which {dropped} dropped") } else { String::new() };
        note!(
            "{} under {name}{of_these}, {}{unread}",
            count(published, "publication"),
            count(u64::from(subscribers), "subscriber")
        );
    }
    Ok(if stop.is_set() { Status::Interrupted.into() } else { ExitCode::SUCCESS })
}

/// Announces the item with its parents and its route.
fn announce(publisher: &mut Publisher, args: &Pub) -> Result<(ItemName, ItemNumber)> {
    let route = match (&args.like, args.path) {
        (Some(name), _) => Some(ImplicitRoute::Like(name.clone())),
        (_, path) => path.map(ImplicitRoute::Path),
    };
    let strategy = args.strategy.or(route.as_ref().map(|_| Strategy::Implicit));
    let choice = args.choice.or(args.strength.map(|_| PublisherChoice::Strongest));
    anyhow::ensure!(
        args.strength.is_none() || choice == Some(PublisherChoice::Strongest),
        "--strength is for --choice strongest"
    );
    let strength = args.strength.unwrap_or(0);
    let options = ItemOptions { keeps_last: !args.no_last, strategy, choice, strength };
    let name = match args.derived {
        Some(number) => args.name.derived(number).map_err(|fault| anyhow!("--derived: {fault}"))?,
        None => args.name.clone(),
    };
    let item = publisher.announce_with(&name, options)?;
    for parent in &args.under {
        publisher.add_parent(&name, &Scope::from(parent.clone()))?;
    }
    if let Some(route) = route {
        publisher.set_route(item, route)?;
    }
    Ok((name, item))
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
        self.published += 1;
        if self.key.is_none() {
            self.publisher.publish(self.item, value)?;
            return Ok(());
        }
        self.waiting.push(value.to_vec());
        if self.waiting.len() < self.batch { Ok(()) } else { self.sign_waiting() }
    }

    /// Signs and publishes what waits for a signature.
    fn sign_waiting(&mut self) -> Result<()> {
        let waiting = core::mem::take(&mut self.waiting);
        if let Some(key) = self.key
            && !waiting.is_empty()
        {
            let payloads: Vec<&[u8]> = waiting.iter().map(Vec::as_slice).collect();
            self.publisher.publish_signed(self.item, &payloads, key)?;
        }
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
