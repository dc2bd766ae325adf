//! `nw top`: rates of a router, on a screen that is updated, or as lines.

mod rates;
mod screen;
mod source;

use super::ControlArgs;
use crate::output::{json_line, table};
use crate::signals::StopFlag;
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
    pub control: ControlArgs,
    /// Update interval, milliseconds
    #[arg(
        long,
        short,
        default_value_t = 1000,
        value_name = "MS",
        value_parser = clap::value_parser!(u64).range(100..=60_000)
    )]
    pub interval: u64,
    /// Number of name components that make a prefix
    #[arg(
        long,
        short,
        default_value_t = 2,
        value_name = "N",
        value_parser = clap::value_parser!(u8).range(1..=16)
    )]
    pub depth: u8,
    /// Initial sort order of faces
    #[arg(long, value_enum, default_value_t = SortBy::Traffic)]
    pub sort: SortBy,
    /// Measure one interval, print, and exit
    #[arg(long)]
    pub once: bool,
    /// Print one JSON object per interval, with rates per second
    #[arg(long)]
    pub json: bool,
}

/// The sort order of faces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SortBy {
    /// Bytes received and sent
    Traffic,
    /// Packets received
    In,
    /// Packets sent
    Out,
    /// Face id
    Id,
}

impl SortBy {
    const ALL: [SortBy; 4] = [SortBy::Traffic, SortBy::In, SortBy::Out, SortBy::Id];

    /// Returns the next sort order, for the key `s`.
    fn next(self) -> Self {
        let at = SortBy::ALL.iter().position(|by| *by == self).unwrap_or(0);
        SortBy::ALL[(at + 1) % SortBy::ALL.len()]
    }
}

/// Runs `nw top`.
pub fn top(args: &Top) -> Result<ExitCode> {
    let stop_flag = StopFlag::watch()?;
    let mut source = Source::connect(args)?;
    let interval = Duration::from_millis(args.interval);
    if args.once || args.json {
        return print_lines(args, &mut source, interval, &stop_flag);
    }
    if !std::io::stdout().is_terminal() {
        bail!("standard output is not a terminal: use --once or --json");
    }
    screen::run(args, &mut source, interval, &stop_flag)
}

/// Prints the rates of each interval.
fn print_lines(
    args: &Top,
    source: &mut Source,
    interval: Duration,
    stop_flag: &StopFlag,
) -> Result<ExitCode> {
    let mut before = (Instant::now(), source.snapshot()?);
    loop {
        let next = before.0 + interval;
        while Instant::now() < next && !stop_flag.is_set() {
            std::thread::sleep(
                next.saturating_duration_since(Instant::now()).min(Duration::from_millis(50)),
            );
        }
        if stop_flag.is_set() {
            return Ok(ExitCode::SUCCESS);
        }
        let now = (Instant::now(), source.snapshot()?);
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
