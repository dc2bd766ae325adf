//! The `nw` command: `nw <noun> <verb>`. One file per group of verbs; `args.rs` holds every word of the command line.

#![forbid(unsafe_code)]
#![allow(clippy::print_stdout)] // printing is what a command does

mod args;
mod balancer;
mod bench;
mod connect;
mod control;
mod demo;
mod dissect;
mod documents;
mod graph;
mod inside;
mod keys;
mod lab;
mod logs;
mod nfd;
mod options_page;
mod output;
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

use args::{Arguments, Command};
use clap::Parser;
use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let result = match arguments.command {
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
    };
    match result {
        Ok(code) => code,
        // A reader that has enough, such as `head`, is no error.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "nw: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.downcast_ref::<std::io::Error>().is_some_and(|e| e.kind() == std::io::ErrorKind::BrokenPipe)
    })
}
