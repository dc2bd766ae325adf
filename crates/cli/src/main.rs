//! The `nw` command: `nw <noun> <verb>`. One file or folder per group of commands; `args/` declares
//! the command line.

#![forbid(unsafe_code)]
// `eprintln!` panics if standard error can't be written; `note!` does not.
#![deny(clippy::print_stderr)]

// First, because all other modules use its macros.
#[macro_use]
mod output;

mod args;
mod balancer;
mod bench;
mod connect;
mod cs;
mod demo;
mod dissect;
mod docs;
mod doctor;
mod exit;
mod face;
mod graph;
mod help;
mod image;
mod join;
mod keys;
mod lab;
mod logs;
mod management;
mod network;
mod nfd;
mod observe;
mod options_page;
mod output_target;
mod paper;
mod parse;
mod peek;
mod ping;
mod progress;
mod pubsub;
mod recorder;
mod render;
mod routes;
mod run;
mod service;
mod signals;
mod signing;
mod sim;
mod status;
mod strategy;
mod sync;
mod systemd;
mod transfer;

use anyhow::Result;
use args::{Arguments, Command};
use clap::FromArgMatches;
use exit::Status;
use std::io::{ErrorKind, Write};
use std::process::ExitCode;

fn main() -> ExitCode {
    let parsed = help::command().try_get_matches();
    let result = match parsed.and_then(|matches| Arguments::from_arg_matches(&matches)) {
        Ok(arguments) => run_command(arguments.command),
        Err(usage) => print_usage(&usage),
    };
    // Writes what is still buffered: an unfinished line, as of `nw peek`.
    let result = result.and_then(|code| {
        output::stdout().flush()?;
        Ok(code)
    });
    result.unwrap_or_else(|error| match output::failure(&error) {
        // A reader that closes the pipe, such as `head`, is not an error.
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
        Command::Pub(args) => pubsub::publish(&args),
        Command::Sub(args) => pubsub::subscribe(&args),
        Command::Pubsub(verb) => pubsub::pubsub(&verb),
        Command::Sync(args) => sync::sync(&args),
        Command::Ping(args) => ping::ping(&args),
        Command::PingServer(args) => ping::serve(&args),
        Command::Peek(args) => peek::peek(&args),
        Command::Poke(args) => peek::poke(&args),
        Command::Status(args) => status::status(&args),
        Command::Face(verb) => face::face(&verb),
        Command::Route(verb) => routes::route(&verb),
        Command::Strategy(verb) => strategy::strategy(&verb),
        Command::Cs(verb) => cs::cs(&verb),
        Command::Key(verb) => keys::key(&verb),
        Command::Cert(verb) => keys::cert(&verb),
        Command::Top(args) => observe::top(&args),
        Command::Trace(args) => observe::trace(&args),
        Command::Tap(args) => observe::tap(&args),
        Command::Log(verb) => observe::log(&verb),
        Command::Open(args) => observe::open(&args),
        Command::Openapi => observe::openapi(),
        Command::Balancer(verb) => balancer::balancer(&verb),
        Command::Service(verb) => service::service(&verb),
        Command::Network(verb) => network::network(&verb),
        Command::Graph(verb) => graph::graph(&verb),
        Command::Bench(verb) => bench::bench(&verb),
        Command::Sim(verb) => sim::sim(&verb),
        Command::Lab(verb) => lab::lab(&verb),
        Command::Join(args) => join::join(&args),
        Command::Leave(args) => join::leave(&args),
        Command::Paper(verb) => paper::paper(&verb),
        Command::Image(verb) => image::image(&verb),
        Command::Doctor(args) => doctor::doctor(&args),
        Command::Dissect(args) => dissect::dissect(&args),
        Command::Demo(args) => demo::demo(&args),
        Command::Config(args) => docs::config(&args),
        Command::Completions { shell } => docs::completions(shell),
        Command::Complete(args) => help::print_candidates(&args),
        Command::Man { folder } => docs::man(folder.as_deref()),
    }
}

/// Prints help and version to standard output, usage errors to standard error.
fn print_usage(usage: &clap::Error) -> Result<ExitCode> {
    if usage.use_stderr() {
        let _ = usage.print();
        return Ok(Status::Usage.into());
    }
    output::print(usage)?;
    Ok(Status::Done.into())
}
