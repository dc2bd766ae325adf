//! Compares a packet that left with the line that expects it.

use super::packet::{PacketSpec, TokenSpec, announce};
use super::{Sent, Tokens};
use crate::{FaceId, Kind};
use nw_name::Name;
use nw_wire::{Data, Interest, NackReason};
use std::fmt::Write;

/// How a case names faces.
type FaceNames<'a> = &'a dyn Fn(FaceId) -> String;

/// How a packet that left would be written in a case.
pub fn describe(sent: &Sent, face_name: FaceNames<'_>) -> String {
    let mut line = format!("{} {} ", if sent.lesson { "lesson" } else { "out" }, face_name(sent.face));
    let result = match sent.kind {
        Kind::Data => describe_data(sent, &mut line),
        Kind::Interest | Kind::Nack => describe_interest(sent, &mut line),
    };
    result.expect("a string takes all that is written");
    if !sent.link.token.is_none() {
        let _ = write!(line, " token={:?}", sent.link.token);
    }
    if sent.link.congestion_mark != 0 {
        let _ = write!(line, " mark={}", sent.link.congestion_mark);
    }
    if sent.link.non_discovery {
        line.push_str(" non-discovery");
    }
    if let Some(announcement) = &sent.announcement {
        let name = Data::check(announcement).map(|data| data.name().to_string());
        let _ = write!(line, " announcement={}", name.unwrap_or_default());
    }
    if sent.link.incoming_face != FaceId::NONE {
        let _ = write!(line, " from={}", face_name(sent.link.incoming_face));
    }
    line
}

fn describe_data(sent: &Sent, line: &mut String) -> std::fmt::Result {
    match Data::check(&sent.bytes) {
        Ok(data) => {
            write!(line, "Data {}", data.name())?;
            if !data.content().is_empty() {
                write!(line, " content={}", String::from_utf8_lossy(data.content()))?;
            }
            Ok(())
        }
        Err(error) => write!(line, "Data that is broken: {error}"),
    }
}

fn describe_interest(sent: &Sent, line: &mut String) -> std::fmt::Result {
    let interest = match Interest::check(&sent.bytes) {
        Ok(interest) => interest,
        Err(error) => return write!(line, "Interest that is broken: {error}"),
    };
    match sent.link.nack {
        Some(reason) => write!(line, "Nack {} {}", reason.as_str(), interest.name())?,
        None => write!(line, "Interest {}", interest.name())?,
    }
    if let Some(nonce) = interest.nonce() {
        write!(line, " nonce={nonce}")?;
    }
    if interest.can_be_prefix() {
        line.push_str(" can-be-prefix");
    }
    if interest.must_be_fresh() {
        line.push_str(" must-be-fresh");
    }
    if let Some(hop_limit) = interest.hop_limit() {
        write!(line, " hop={hop_limit}")?;
    }
    let hints: Vec<String> = interest.forwarding_hint().map(|name| name.to_string()).collect();
    if !hints.is_empty() {
        write!(line, " hint={}", hints.join(","))?;
    }
    Ok(())
}

/// Holds what left against what was expected.
///
/// # Errors
/// What differs.
pub fn compare(
    face: FaceId,
    wanted: &PacketSpec,
    sent: &Sent,
    tokens: &mut Tokens,
    face_name: FaceNames<'_>,
) -> Result<(), String> {
    same_face("face", face, sent.face, face_name)?;
    same("lesson", &false, &sent.lesson)?;
    let announcement = wanted.announcement.as_ref().map(announce);
    same("announcement", &announcement, &sent.announcement)?;
    let kind = match sent.kind {
        Kind::Interest => "Interest",
        Kind::Data => "Data",
        Kind::Nack => "Nack",
    };
    same("kind", &wanted.kind.as_str(), &kind)?;
    same("reason", &wanted.reason, &sent.link.nack)?;
    same("mark", &wanted.mark, &sent.link.congestion_mark)?;
    same("next hop", &None, &sent.link.next_hop_face)?;
    same("no-cache", &false, &sent.link.no_cache)?;
    same("non-discovery", &wanted.non_discovery, &sent.link.non_discovery)?;
    if let Some(from) = wanted.from {
        same_face("from", from, sent.link.incoming_face, face_name)?;
    }
    token(wanted, sent, tokens)?;
    // The expected packet encoded: brings the parameters digest into its name.
    let encoded = wanted.encode();
    if sent.kind == Kind::Data {
        compare_data(wanted, &encoded, sent)
    } else {
        compare_interest(wanted, &encoded, sent)
    }
}

/// `lesson N learn PREFIX`, `lesson N forget NAME`.
pub(super) fn compare_lesson(
    face: FaceId,
    what: &str,
    name: &Name,
    sent: &Sent,
    face_name: FaceNames<'_>,
) -> Result<(), String> {
    same("lesson", &true, &sent.lesson)?;
    same_face("face", face, sent.face, face_name)?;
    match what {
        "learn" => same("announcement", &announce(name), &sent.bytes),
        "forget" => {
            same("reason", &Some(NackReason::NoRoute), &sent.link.nack)?;
            let got = Interest::check(&sent.bytes).map_err(|error| error.to_string())?;
            same("name", &name.to_string(), &got.name().to_string())
        }
        other => Err(format!("a lesson is learn or forget, not {other:?}")),
    }
}

fn token(wanted: &PacketSpec, sent: &Sent, tokens: &mut Tokens) -> Result<(), String> {
    let octets = sent.link.token.as_bytes();
    match &wanted.token {
        // Interests usually carry one that a case need not care about.
        None if sent.kind == Kind::Interest => Ok(()),
        None | Some(TokenSpec::Absent) => same("token", &[][..], octets),
        Some(TokenSpec::Octets(wanted)) => same("token", &wanted[..], octets),
        Some(TokenSpec::Variable(name)) => {
            if octets.len() != 6 {
                return Err(format!("a token of ours has 6 octets, not {}", octets.len()));
            }
            match tokens.get(name) {
                Some(bound) => same("token", &bound[..], octets),
                None => {
                    tokens.insert(name.clone(), octets.to_vec());
                    Ok(())
                }
            }
        }
    }
}

fn compare_interest(wanted: &PacketSpec, encoded: &[u8], sent: &Sent) -> Result<(), String> {
    let got = Interest::check(&sent.bytes).map_err(|error| error.to_string())?;
    let wanted_interest = Interest::check(encoded).map_err(|error| format!("this line: {error}"))?;
    same("name", &wanted_interest.name().to_string(), &got.name().to_string())?;
    same("can-be-prefix", &wanted.can_be_prefix, &got.can_be_prefix())?;
    same("must-be-fresh", &wanted.must_be_fresh, &got.must_be_fresh())?;
    same("hop", &wanted.hop, &got.hop_limit())?;
    let hints: Vec<_> = got.forwarding_hint().map(|name| name.to_name()).collect();
    same("hint", &wanted.hint, &hints)?;
    if wanted.nonce.is_some() {
        same("nonce", &wanted.nonce, &got.nonce())?;
    } else if got.nonce().is_none() {
        return Err("it has no nonce".to_owned());
    }
    if let Some(lifetime) = wanted.lifetime {
        same("lifetime", &lifetime, &got.lifetime_ms())?;
    }
    Ok(())
}

fn compare_data(wanted: &PacketSpec, encoded: &[u8], sent: &Sent) -> Result<(), String> {
    let got = Data::check(&sent.bytes).map_err(|error| error.to_string())?;
    same("name", &wanted.name.to_string(), &got.name().to_string())?;
    if let Some(content) = &wanted.content {
        same("content", &content.as_bytes(), &got.content())?;
    }
    if let (Some(freshness), true) = (wanted.freshness, !encoded.is_empty()) {
        same("freshness", &freshness, &got.freshness_ms())?;
    }
    Ok(())
}

fn same_face(what: &str, wanted: FaceId, got: FaceId, face_name: FaceNames<'_>) -> Result<(), String> {
    match wanted == got {
        true => Ok(()),
        false => Err(format!("{what}: expected {}, got {}", face_name(wanted), face_name(got))),
    }
}

fn same<T: PartialEq + std::fmt::Debug + ?Sized>(what: &str, wanted: &T, got: &T) -> Result<(), String> {
    if wanted == got { Ok(()) } else { Err(format!("{what}: expected {wanted:?}, got {got:?}")) }
}
