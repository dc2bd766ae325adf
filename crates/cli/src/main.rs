//! The `nw` command: `nw <noun> <verb>`. One file per group of verbs; `args.rs` holds every word of the command line.

#![forbid(unsafe_code)]
// It panics where standard error can't be written: `note!` does not.
#![deny(clippy::print_stderr)]

// First: its macros are for all others.
#[macro_use]
mod output;

mod args;
mod balancer;
mod bench;
mod connect;
mod control;
mod demo;
mod dissect;
mod documents;
mod exit;
mod graph;
mod inside;
mod keys;
mod lab;
mod logs;
mod paper;
mod peek;
mod ping;
mod progress;
mod routes;
mod run;
mod service;
mod signals;
mod signing;
mod sim;
mod systemd;
mod target;
mod transfer;

use anyhow::Result;
use args::{Arguments, Command};
use clap::Parser;
use exit::Status;
use std::io::{ErrorKind, Write};
use std::process::ExitCode;

fn main() -> ExitCode {
    let result = match Arguments::try_parse() {
        Ok(arguments) => run_command(arguments.command),
        Err(usage) => say_usage(&usage),
    };
    // What is still buffered: a line without an end, as of `nw peek`.
    let result = result.and_then(|code| {
        output::stdout().flush()?;
        Ok(code)
    });
    result.unwrap_or_else(|error| match output::failure(&error) {
        // A reader that has enough, such as `head`, is no error.
        Some(ErrorKind::BrokenPipe) => Status::Done.into(),
        _ => {
            note!("nw: {}", output::describe(&error));
            exit::status(&error).into()
        }
    })
}

fn run_command(command: Command) -> Result<ExitCode> {
    match command {
        Command::Run(args) => run::run(&args),
        Command::Put(args) => transfer::put(args),
        Command::Cat(args) => transfer::cat(&args),
        Command::Ping(args) => ping::ping(&args),
        Command::PingServer(args) => ping::serve(&args),
        Command::Peek(args) => peek::peek(&args),
        Command::Poke(args) => peek::poke(&args),
        Command::Status(args) => control::status(&args),
        Command::Face(verb) => control::face(&verb),
        Command::Route(verb) => control::route(&verb),
        Command::Strategy(verb) => control::strategy(&verb),
        Command::Cs(verb) => control::cs(&verb),
        Command::Key(verb) => keys::key(&verb),
        Command::Cert(verb) => keys::cert(&verb),
        Command::Top(args) => inside::top(&args),
        Command::Trace(args) => inside::trace(&args),
        Command::Tap(args) => inside::tap(&args),
        Command::Log(verb) => inside::log(&verb),
        Command::Openapi => inside::openapi(),
        Command::Balancer(verb) => balancer::balancer(&verb),
        Command::Service(verb) => service::service(&verb),
        Command::Graph(verb) => graph::graph(&verb),
        Command::Bench(verb) => bench::bench(&verb),
        Command::Sim(verb) => sim::sim(&verb),
        Command::Lab(verb) => lab::lab(&verb),
        Command::Paper(verb) => paper::paper(&verb),
        Command::Dissect(args) => dissect::dissect(&args),
        Command::Demo(args) => demo::demo(&args),
        Command::Config(args) => documents::config(&args),
        Command::Completions { shell } => documents::completions(shell),
        Command::Man { folder } => documents::man(folder.as_deref()),
    }
}

/// Help and version go to standard output, mistakes to standard error.
fn say_usage(usage: &clap::Error) -> Result<ExitCode> {
    if usage.use_stderr() {
        let _ = usage.print();
        return Ok(Status::Usage.into());
    }
    output::print(usage)?;
    Ok(Status::Done.into())
}
