//! `nw pubsub ask` and `nw pubsub answer`.

use super::args::AnswerArgs;
use crate::connect::connect_with_retry;
use crate::exit::{Failure, Status};
use crate::signals::StopFlag;
use crate::{output, signing};
use anyhow::{Context, Result};
use core::time::Duration;
use nw_api::pubsub::ItemName;
use nw_app::Client;
use nw_app::packet::{RetryPolicy, fetch_packet};
use nw_app::pubsub::{PubSubOptions, Question, Replier, Requester};
use nw_app::verify::Verifier;
use nw_name::{Component, Name};
use nw_wire::{Data, InterestBuilder};
use std::io::Write;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

/// Longest wait without looking for Ctrl-C.
const SLICE: Duration = Duration::from_millis(100);

/// Where answers come from.
enum Source<'a> {
    /// The same text for all.
    Text(&'a str),
    /// The output of a program.
    Program(&'a Path),
    /// Data below a prefix.
    Producer(Box<Producer<'a>>),
}

/// Data below a prefix.
struct Producer<'a> {
    client: Client,
    verifier: Verifier,
    prefix: &'a Name,
    lifetime: Duration,
}

/// Runs `nw pubsub ask`.
pub fn ask(
    options: &PubSubOptions,
    name: &ItemName,
    payload: &str,
    timeout: u64,
) -> Result<ExitCode> {
    let mut requester = Requester::connect(options)?;
    let answer = requester.ask(name, payload.as_bytes(), Duration::from_millis(timeout))?;
    let Some(answer) = answer else {
        let text = format!(
            "no answer within {timeout} ms; start `nw pubsub answer {name}`, or raise --timeout"
        );
        return Err(Failure::new(Status::TimedOut, text).into());
    };
    let mut out = output::stdout();
    out.write_all(&answer)?;
    out.write_all(b"\n")?;
    out.flush()?;
    Ok(ExitCode::SUCCESS)
}

/// Runs `nw pubsub answer`.
pub fn answer(args: &AnswerArgs) -> Result<ExitCode> {
    let stop = StopFlag::watch()?;
    let mut source = match (&args.exec, &args.fetch) {
        (Some(program), _) => Source::Program(program),
        (_, Some(prefix)) => {
            let mut client = connect_with_retry(&args.node.router, false)?;
            client.stop_when(stop.flag());
            let verifier = signing::verifier(&args.verify)?;
            let lifetime = Duration::from_millis(args.lifetime);
            Source::Producer(Box::new(Producer { client, verifier, prefix, lifetime }))
        }
        _ => Source::Text(args.payload.as_deref().unwrap_or_default()),
    };
    let mut replier = Replier::connect(&args.node.options()?, &args.pattern)?;
    note!("answering questions under {}; Ctrl-C ends it", args.pattern);
    let mut answered = 0;
    while !stop.is_set() && args.count.is_none_or(|count| answered < count) {
        let Some(question) = replier.receive(SLICE)? else { continue };
        match source.answer(&question) {
            Ok(text) => replier.answer(&question, &text)?,
            Err(error) => note!("{}: no answer: {error:#}", question.name),
        }
        answered += 1;
    }
    let is_cut = args.count.is_some_and(|count| answered < count);
    Ok(if is_cut { Status::Interrupted } else { Status::Done }.into())
}

impl Source<'_> {
    fn answer(&mut self, question: &Question) -> Result<Vec<u8>> {
        let Producer { client, verifier, prefix, lifetime } = match self {
            Source::Text(text) => return Ok(text.as_bytes().to_vec()),
            Source::Program(program) => {
                return output_of(program, &question.name, &question.payload);
            }
            Source::Producer(producer) => &mut **producer,
        };
        let components = question.name.split('/').skip(1);
        let name = components.fold((*prefix).clone(), |name, component| {
            name.with(Component::generic(component.as_bytes()))
        });
        let mut interest = InterestBuilder::new(name).can_be_prefix(true).must_be_fresh(true);
        if !question.payload.is_empty() {
            interest = interest.parameters(question.payload.as_slice());
        }
        let patience = RetryPolicy { timeout: *lifetime, ..RetryPolicy::once(*lifetime) };
        let (wire, _) = fetch_packet(client, interest, verifier, patience)?;
        Ok(Data::check(&wire)?.content().to_vec())
    }
}

/// Runs a program with a question as standard input and its name as argument.
fn output_of(program: &Path, name: &str, question: &[u8]) -> Result<Vec<u8>> {
    let started = || format!("can't run {}", program.display());
    let mut child = Command::new(program)
        .arg(name)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(started)?;
    if let Some(mut input) = child.stdin.take() {
        // A program need not read the question.
        let _ = input.write_all(question);
    }
    let mut output = child.wait_with_output().with_context(started)?.stdout;
    if output.last() == Some(&b'\n') {
        output.pop();
    }
    Ok(output)
}
