//! `nw peek` fetches one Data packet, `nw poke` serves one.

use crate::args::packet::{Peek, PeekShow, Poke};
use crate::connect::{Registration, connect, connect_with_retry};
use crate::exit::{Failure, Status};
use crate::output::{json_line, stdout};
use crate::output_target::is_binary;
use crate::{dissect, signals, signing};
use anyhow::{Context, Result, bail};
use nw_app::ClientError;
use nw_app::object::ObjectError;
use nw_app::packet::{RetryPolicy, fetch_packet};
use nw_app::verify::Signer;
use nw_element_api::Kind;
use nw_wire::types::content_type;
use nw_wire::{Data, DataBuilder, Interest, InterestBuilder, KeyLocator};
use serde_json::json;
use std::io::{IsTerminal, Read, Write, stdin};
use std::process::ExitCode;
use std::time::Duration;

/// Added to the lifetime, so that a Nack at its very end is still received.
const NACK_GRACE_MS: u64 = 100;

/// How long the connection stays open after the answer. A router may process the end of a
/// connection before packets received over it, and NDNd drops Data of a closed face.
const LINGER: Duration = Duration::from_millis(200);

/// Runs `nw peek`: fetches and prints one Data packet.
pub fn peek(args: &Peek) -> Result<ExitCode> {
    let stop_flag = signals::StopFlag::watch()?;
    let mut verifier = signing::verifier(&args.verify)?;
    let mut client = connect(&args.router)?;
    client.stop_when(stop_flag.flag());
    let mut interest = InterestBuilder::new(args.name.clone())
        .can_be_prefix(args.prefix)
        .must_be_fresh(args.fresh);
    for hint in &args.hint {
        interest = interest.forwarding_hint(hint.clone());
    }
    if let Some(limit) = args.hop_limit {
        interest = interest.hop_limit(limit);
    }
    if let Some(parameters) = &args.parameters {
        interest = interest.parameters(parameters.as_bytes());
    }
    let lifetime = Duration::from_millis(args.lifetime);
    let total = Duration::from_millis(args.timeout.unwrap_or(args.lifetime) + NACK_GRACE_MS);
    let patience = RetryPolicy { timeout: total, ..RetryPolicy::once(lifetime) };
    match fetch_packet(&mut client, interest, &mut verifier, patience) {
        Ok((wire, signer)) => print_packet(args, &wire, &signer),
        Err(_) if stop_flag.is_set() => Ok(Status::Interrupted.into()),
        Err(error) => Err(error.into()),
    }
}

fn print_packet(args: &Peek, wire: &[u8], signer: &Signer) -> Result<ExitCode> {
    let data = Data::check(wire)?;
    if args.json {
        let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
        let locator = data.signature_info().key_locator().map(|locator| match locator {
            KeyLocator::Name(name) => name.to_string(),
            KeyLocator::Digest(digest) => hex(digest),
        });
        json_line(&json!({
            "name": data.name().to_string(),
            "content_type": data.content_type(),
            "freshness_ms": data.freshness_ms(),
            "final_block": data.final_block().map(|c| c.to_string()),
            "signature_type": data.signature_info().typ().number(),
            "key_locator": locator,
            "verified": matches!(signer, Signer::Verified(_)),
            "content_hex": hex(data.content()),
            "digest": hex(&data.digest()),
        }))?;
        return Ok(ExitCode::SUCCESS);
    }
    let bytes = match args.show {
        PeekShow::Tree => {
            dissect::print_tree(wire)?;
            stdout().flush()?;
            return Ok(ExitCode::SUCCESS);
        }
        PeekShow::Packet => wire,
        PeekShow::Content if data.content_type() != content_type::BLOB && !args.raw => {
            return Err(ObjectError::from_content_type(&data))
                .context("use --raw to print its content, or --show tree for the whole packet");
        }
        PeekShow::Content => data.content(),
    };
    if std::io::stdout().is_terminal() && is_binary(bytes) {
        bail!(
            "the content is binary and standard output is a terminal: pipe it, or use --show tree \
             or --json"
        );
    }
    stdout().write_all(bytes)?;
    stdout().flush()?;
    Ok(ExitCode::SUCCESS)
}

/// Runs `nw poke`: serves one Data packet until it is requested.
pub fn poke(args: &Poke) -> Result<ExitCode> {
    let stop_flag = signals::StopFlag::watch()?;
    let content = match &args.content {
        Some(text) => text.clone().into_bytes(),
        None => {
            let mut content = Vec::new();
            // One packet holds no more, so a longer input is not read.
            stdin().lock().take(nw_wire::PACKET_LEN_MAX as u64 + 1).read_to_end(&mut content)?;
            content
        }
    };
    let signer = signing::signer(&args.signing)?;
    let mut builder = DataBuilder::new(&args.name, &content).freshness_ms(args.freshness);
    if args.last {
        builder = builder.final_block_of(args.name.as_ref());
    }
    let packet = builder.encode(&signer)?;
    Data::check(&packet).with_context(|| {
        format!("{} bytes of content do not fit into one packet", content.len())
    })?;
    let mut client = connect_with_retry(&args.router, args.serve.no_reconnect)?;
    client.stop_when(stop_flag.flag());
    let commander = signer.commander(&args.router)?;
    let mut registration = Registration::new(
        &mut client,
        commander,
        Some(args.name.clone()),
        signer.key_name(),
        &args.serve,
    )?;
    let deadline = args.timeout.map(|ms| client.now() + Duration::from_millis(ms));
    let mut answered = false;
    let mut close_at = None;
    while close_at.is_none_or(|at| client.now() < at) {
        if !answered && deadline.is_some_and(|deadline| client.now() >= deadline) {
            let text = format!("no Interest for {} arrived in time", args.name);
            return Err(Failure::new(Status::TimedOut, text).into());
        }
        let result = client.poll(Some(Duration::from_millis(50)), |_, received, out| {
            let is_request = received.kind() == Kind::Interest
                && Interest::check(received.wire).is_ok_and(|interest| {
                    interest.is_answered_by(args.name.as_ref(), || nw_wire::sha256(&[&packet]))
                });
            if is_request {
                answered = true;
                out.answer(&received, &packet);
            } else {
                signer.answer(&received, out);
            }
        });
        match result.and_then(|_| registration.update(&mut client)) {
            Ok(_) => {}
            Err(ClientError::Interrupted) => break,
            Err(_) if answered => break,
            Err(error) => return Err(error.into()),
        }
        if answered {
            close_at.get_or_insert(client.now() + LINGER);
        }
    }
    client.flush();
    Ok(if answered { ExitCode::SUCCESS } else { Status::Interrupted.into() })
}
