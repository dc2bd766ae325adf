//! `nw top`: what a router is doing, on a screen that goes on, or once.

mod rates;
mod screen;
mod source;

use super::Control;
use crate::output::{json_line, table};
use crate::signals::Ended;
use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use core::time::Duration;
use rates::{Rates, rates};
use source::Source;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Instant;

#[derive(Debug, Args)]
pub struct Top {
    #[command(flatten)]
    pub control: Control,
    /// Between two looks, milliseconds
    #[arg(long, short, default_value_t = 1000, value_name = "MS", value_parser = clap::value_parser!(u64).range(100..=60_000))]
    pub interval: u64,
    /// Components of a name that make its prefix
    #[arg(long, short, default_value_t = 2, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=16))]
    pub depth: u8,
    /// Sort faces by this first
    #[arg(long, value_enum, default_value_t = SortBy::Traffic)]
    pub sort: SortBy,
    /// Look for one interval, print, and end
    #[arg(long)]
    pub once: bool,
    /// Print one JSON object for each interval: rates a second
    #[arg(long)]
    pub json: bool,
}

/// What faces are sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SortBy {
    /// Octets in and out
    Traffic,
    /// Packets in
    In,
    /// Packets out
    Out,
    /// Id
    Id,
}

impl SortBy {
    const ALL: [SortBy; 4] = [SortBy::Traffic, SortBy::In, SortBy::Out, SortBy::Id];

    /// The one that the next press of the key chooses.
    fn next(self) -> Self {
        let at = SortBy::ALL.iter().position(|by| *by == self).unwrap_or(0);
        SortBy::ALL[(at + 1) % SortBy::ALL.len()]
    }
}

/// `nw top`
pub fn top(args: &Top) -> Result<ExitCode> {
    let ended = Ended::watch()?;
    let mut source = Source::connect(args)?;
    let interval = Duration::from_millis(args.interval);
    if args.once || args.json {
        return lines(args, &mut source, interval, &ended);
    }
    if !std::io::stdout().is_terminal() {
        bail!("nw top draws on a terminal: use --once or --json elsewhere");
    }
    screen::run(args, &mut source, interval, &ended)
}

/// Looks again and again, and prints what happened between two looks.
fn lines(args: &Top, source: &mut Source, interval: Duration, ended: &Ended) -> Result<ExitCode> {
    let mut before = (Instant::now(), source.look()?);
    loop {
        let wake = before.0 + interval;
        while Instant::now() < wake && !ended.is_ended() {
            std::thread::sleep(wake.saturating_duration_since(Instant::now()).min(Duration::from_millis(50)));
        }
        if ended.is_ended() {
            return Ok(ExitCode::SUCCESS);
        }
        let now = (Instant::now(), source.look()?);
        let mut rates = rates(&before.1, &now.1, now.0 - before.0);
        rates.sort_faces(args.sort, false);
        if args.json {
            json_line(&rates)?
        } else {
            print(&rates)?
        }
        if args.once {
            return Ok(ExitCode::SUCCESS);
        }
        before = now;
    }
}

fn print(rates: &Rates) -> Result<()> {
    for line in rates.head() {
        outln!("{line}")?;
    }
    outln!()?;
    table(&rates.face_rows())?;
    if !rates.prefixes.is_empty() {
        outln!()?;
        table(&rates.prefix_rows())?;
    }
    if !rates.drops.is_empty() {
        outln!()?;
        table(&rates.drop_rows())?;
    }
    Ok(())
}
