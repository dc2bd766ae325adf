//! `nw sync`: a member of a sync group.

mod fetcher;
mod membership;

pub use fetcher::{Missing, Outcome, Publication};
pub use membership::{MemberArgs, Membership};

use crate::args::flags::RouterArgs;
use crate::exit::Status;
use crate::output::{count, json_line, printable_line};
use crate::signals::StopFlag;
use crate::signing;
use anyhow::{Context, Result};
use clap::Args;
use core::time::Duration;
use nw_app::ClientError;
use nw_name::NameRef;
use serde_json::json;
use std::io::{BufRead, Read};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::time::Instant;

/// Longest wait for packets while lines of standard input or publications may arrive.
const SLICE: Duration = Duration::from_millis(10);
/// Shortest time between two warnings.
const WARNING_INTERVAL: Duration = Duration::from_secs(1);
/// Bytes of a line at most: a publication is one Data.
const LINE_BYTES_MAX: u64 = 8000;
/// Lines that are read ahead.
const LINES_MAX: usize = 64;

#[derive(Debug, Args)]
pub struct SyncArgs {
    #[command(flatten)]
    router: RouterArgs,
    #[command(flatten)]
    member: MemberArgs,
    /// Of publications that are learnt at once, as after a late start, fetch only the last N
    #[arg(long, value_name = "N", default_value_t = 1000)]
    history: u64,
    /// End after this many publications of others
    #[arg(long, short = 'n', value_name = "N")]
    count: Option<u64>,
    /// Print one JSON object per publication
    #[arg(long)]
    json: bool,
    /// Print only publications
    #[arg(long, short)]
    quiet: bool,
}

/// A bound on warnings of one kind: the counts at the end have all.
#[derive(Debug, Default)]
pub struct WarningLimit {
    warned: Option<Instant>,
}

impl WarningLimit {
    /// Returns whether a warning may be shown now; then the next one not before the interval ends.
    pub fn is_due(&mut self) -> bool {
        let is_due = self.warned.is_none_or(|at| at.elapsed() >= WARNING_INTERVAL);
        if is_due {
            self.warned = Some(Instant::now());
        }
        is_due
    }
}

/// What was received, and what was not.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    received: u64,
    /// Publications that could not be fetched.
    missing: u64,
    /// Publications and state vectors that were not accepted.
    refused: u64,
}

/// The member and its input.
struct Session<'a> {
    args: &'a SyncArgs,
    membership: Membership<'a>,
    lines: Receiver<Result<Vec<u8>>>,
    counts: Counts,
    warnings: WarningLimit,
}

/// Runs `nw sync` until Ctrl-C.
pub fn sync(args: &SyncArgs) -> Result<ExitCode> {
    let stop = StopFlag::watch()?;
    let member = &args.member;
    let signer = signing::signer(&member.signing)?;
    let membership = Membership::join(&args.router, member, &signer, false, &stop)?;
    let mut session = Session {
        args,
        membership,
        lines: read_lines(),
        counts: Counts::default(),
        warnings: WarningLimit::default(),
    };
    if args.json {
        json_line(&json!({ "event": "ready", "group": member.group.to_string() }))?;
    } else if !args.quiet {
        note!("{} is a member of {}; Ctrl-C ends it", member.name, member.group);
    }
    let result = session.run();
    session.report()?;
    match result {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) if matches!(error.downcast_ref(), Some(ClientError::Interrupted)) => {
            Ok(Status::Done.into())
        }
        Err(error) => Err(error).context("no longer a member"),
    }
}

/// Reads lines of standard input in a thread of its own.
fn read_lines() -> Receiver<Result<Vec<u8>>> {
    let (lines, found) = sync_channel(LINES_MAX);
    std::thread::spawn(move || {
        let mut input = std::io::stdin().lock();
        loop {
            let mut line = Vec::new();
            let read = (&mut input).take(LINE_BYTES_MAX + 2).read_until(b'\n', &mut line);
            let result = match read {
                Ok(0) => return,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => Err(error).context("standard input"),
                Ok(_) => {
                    line.pop_if(|byte| *byte == b'\n');
                    match line.len() as u64 > LINE_BYTES_MAX {
                        true => Err(anyhow::anyhow!(
                            "a line has more than {LINE_BYTES_MAX} bytes: use `nw put` for files"
                        )),
                        false => Ok(line),
                    }
                }
            };
            let is_last = result.is_err();
            if lines.send(result).is_err() || is_last {
                return;
            }
        }
    });
    found
}

impl Session<'_> {
    fn run(&mut self) -> Result<()> {
        loop {
            self.membership.exchange(SLICE)?;
            self.publish_lines()?;
            self.membership.send_vector()?;
            self.take_outcomes()?;
            if self.args.count.is_some_and(|count| self.counts.received >= count) {
                return Ok(());
            }
            self.membership.update(self.args.json, self.args.quiet)?;
        }
    }

    fn publish_lines(&mut self) -> Result<()> {
        loop {
            let line = match self.lines.try_recv() {
                Ok(line) => line?,
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => return Ok(()),
            };
            anyhow::ensure!(
                self.membership.publish(NameRef::from_checked(&[]), &line)?,
                "the group has too many members: their state does not fit a packet"
            );
        }
    }

    fn take_outcomes(&mut self) -> Result<()> {
        while let Some(outcome) = self.membership.next_outcome() {
            match outcome {
                Outcome::Vector(vector) => {
                    for update in self.membership.receive(&vector) {
                        if let Some(missing) = self.membership.fetch(update, self.args.history) {
                            self.report_missing(&missing)?;
                        }
                    }
                }
                Outcome::Publication(publication) => {
                    self.counts.received += 1;
                    self.print(&publication)?;
                    if self.args.count.is_some_and(|count| self.counts.received >= count) {
                        return Ok(());
                    }
                }
                Outcome::Missing(missing) => self.report_missing(&missing)?,
                Outcome::Refused(why) => self.report_refused(&why)?,
            }
        }
        Ok(())
    }

    fn print(&self, publication: &Publication) -> Result<()> {
        let Publication { member, boot_s, number, is_snapshot, content } = publication;
        let text = String::from_utf8_lossy(content);
        if self.args.json {
            return json_line(&json!({
                "event": if *is_snapshot { "snapshot" } else { "publication" },
                "member": member.to_string(), "boot_s": boot_s, "number": number, "content": text,
            }));
        }
        Ok(outln!("{member} {}", printable_line(&text))?)
    }

    /// Reports publications that were not received: all of them, as a member has few.
    fn report_missing(&mut self, missing: &Missing) -> Result<()> {
        match missing.is_refused {
            true => self.counts.refused = self.counts.refused.saturating_add(missing.count()),
            false => self.counts.missing = self.counts.missing.saturating_add(missing.count()),
        }
        if self.args.json {
            return json_line(&json!({
                "event": if missing.is_refused { "refused" } else { "missing" },
                "member": missing.member.to_string(), "first": missing.first, "last": missing.last,
                "reason": missing.why,
            }));
        }
        if !self.args.quiet {
            note!("nw: {missing}");
        }
        Ok(())
    }

    /// Reports a Sync Interest that was refused, at most one per interval: anyone can send them.
    fn report_refused(&mut self, why: &str) -> Result<()> {
        self.counts.refused += 1;
        if !self.warnings.is_due() {
            return Ok(());
        }
        if self.args.json {
            return json_line(&json!({ "event": "refused", "reason": why }));
        }
        if !self.args.quiet {
            note!("nw: Sync Interest refused: {why}");
        }
        Ok(())
    }

    /// Reports the counts at the end.
    fn report(&self) -> Result<()> {
        let Counts { received, missing, refused } = self.counts;
        if self.args.json {
            return json_line(&json!({
                "event": "end", "received": received, "missing": missing, "refused": refused,
            }));
        }
        if !self.args.quiet {
            note!("{}, {missing} missing, {refused} refused", count(received, "publication"));
        }
        Ok(())
    }
}
