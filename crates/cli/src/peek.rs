//! `nw peek` and `nw poke`: one packet.

use crate::args::{Peek, PeekShow, Poke};
use crate::connect::connect;
use crate::exit::{Failure, Status};
use crate::output::json_line;
use crate::output::stdout;
use crate::{dissect, signals, signing};
use anyhow::{Context, Result};
use nw_app::object::{Reply, exchange};
use nw_element::Kind;
use nw_wire::{Data, DataBuilder, Interest, InterestBuilder, KeyLocator};
use serde_json::json;
use std::io::{Read, Write, stdin};
use std::process::ExitCode;
use std::time::Duration;

/// Fetches one Data packet.
pub fn peek(args: &Peek) -> Result<ExitCode> {
    let mut client = connect(&args.router)?;
    let mut interest = InterestBuilder::new(args.name.clone())
        .can_be_prefix(args.prefix)
        .must_be_fresh(args.fresh)
        .lifetime_ms(args.lifetime);
    for hint in &args.hint {
        interest = interest.forwarding_hint(hint.clone());
    }
    if let Some(limit) = args.hop_limit {
        interest = interest.hop_limit(limit);
    }
    if let Some(parameters) = &args.parameters {
        interest = interest.parameters(parameters.as_bytes());
    }
    // A little more than the lifetime, so that a Nack at its very end is still seen.
    match exchange(&mut client, interest, Duration::from_millis(args.lifetime + 100))? {
        Reply::Data(wire) => show(args, &wire),
        Reply::Nack(reason) => {
            let text = format!("{} was refused: Nack({})", args.name, reason.as_str());
            Err(Failure::new(Status::Nack, text).into())
        }
        Reply::Silence => {
            let text = format!("no answer to {} within {} ms", args.name, args.lifetime);
            Err(Failure::new(Status::TimedOut, text).into())
        }
    }
}

fn show(args: &Peek, wire: &[u8]) -> Result<ExitCode> {
    let data = Data::check(wire)?;
    if args.json {
        let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
        let locator = data.signature_info().key_locator().map(|locator| match locator {
            KeyLocator::Name(name) => name.to_string(),
            KeyLocator::Digest(digest) => hex(digest),
        });
        json_line(
            &json!({ "name": data.name().to_string(), "content_type": data.content_type(), "freshness_ms": data.freshness_ms(),
            "final_block": data.final_block().map(|c| c.to_string()), "signature_type": data.signature_info().typ().number(),
            "key_locator": locator, "content_hex": hex(data.content()), "digest": hex(&data.digest()) }),
        )?;
        return Ok(ExitCode::SUCCESS);
    }
    match args.show {
        PeekShow::Content => stdout().write_all(data.content())?,
        PeekShow::Packet => stdout().write_all(wire)?,
        PeekShow::Tree => dissect::print_tree(wire)?,
    }
    stdout().flush()?;
    Ok(ExitCode::SUCCESS)
}

/// Offers one Data packet until somebody asked.
pub fn poke(args: &Poke) -> Result<ExitCode> {
    let ended = signals::Ended::watch()?;
    let content = match &args.content {
        Some(text) => text.clone().into_bytes(),
        None => {
            let mut content = Vec::new();
            // One packet holds no more; reading on would only take memory.
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
    Data::check(&packet)
        .with_context(|| format!("{} octets of content do not fit one packet", content.len()))?;
    let mut client = connect(&args.router)?;
    signer
        .commander(&args.router)?
        .register(&mut client, args.name.clone())
        .context("can't serve the name")?;
    let deadline = args.timeout.map(|ms| client.now() + Duration::from_millis(ms));
    let mut answered = false;
    while !answered && !ended.is_ended() {
        if deadline.is_some_and(|deadline| client.now() >= deadline) {
            let text = format!("no Interest for {} came in time", args.name);
            return Err(Failure::new(Status::TimedOut, text).into());
        }
        client.turn(Some(Duration::from_millis(50)), |_, received, out| {
            let asks = received.kind() == Kind::Interest
                && Interest::check(received.wire).is_ok_and(|interest| {
                    interest.is_answered_by(args.name.as_ref(), || nw_wire::sha256(&[&packet]))
                });
            if asks && !answered {
                answered = true;
                out.answer(&received, &packet);
            }
        })?;
    }
    client.flush();
    Ok(if answered { ExitCode::SUCCESS } else { Status::Interrupted.into() })
}
