//! Compares a sent packet with the line that expects it.

use super::packet::{PacketSpec, TokenSpec, announce};
use super::{Sent, Tokens};
use nw_element_api::{FaceId, Kind};
use nw_name::Name;
use nw_wire::publication::{Envelope, StagedFilter};
use nw_wire::{Data, Interest, NackReason};
use std::fmt::Write;

/// Returns the name of a face in the case.
type FaceNames<'a> = &'a dyn Fn(FaceId) -> String;

/// Returns a sent packet as it would be written in a case.
pub fn describe(sent: &Sent, face_name: FaceNames<'_>) -> String {
    let mut line = format!(
        "{} {} ",
        if sent.route_event { "route-event" } else { "out" },
        face_name(sent.face)
    );
    let result = match sent.kind {
        Kind::Data => describe_data(sent, &mut line),
        Kind::Interest | Kind::Nack => describe_interest(sent, &mut line),
        Kind::Publication => describe_publication(sent, &mut line),
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
        Err(error) => write!(line, "malformed Data: {error}"),
    }
}

fn describe_publication(sent: &Sent, line: &mut String) -> std::fmt::Result {
    match Envelope::check(&sent.bytes) {
        Ok(envelope) => {
            write!(line, "Publication {:?}", envelope.ids().to_ids())?;
            match envelope.staged() {
                None => write!(line, " fid={} table={}", envelope.fid(), envelope.table())?,
                Some(staged) => describe_stages(&staged, line)?,
            }
            write!(line, " hop={}", envelope.hop_limit())?;
            write!(line, " content={}", String::from_utf8_lossy(envelope.payload()))
        }
        Err(error) => write!(line, "malformed Publication: {error}"),
    }
}

fn describe_stages(staged: &StagedFilter<'_>, line: &mut String) -> std::fmt::Result {
    for (at, stage) in staged.iter().enumerate() {
        let start = if at == 0 { " stages=" } else { "/" };
        write!(line, "{start}{}.{}.", stage.ones, stage.seed)?;
        stage.bits.iter().try_for_each(|byte| write!(line, "{byte:02x}"))?;
    }
    Ok(())
}

fn describe_interest(sent: &Sent, line: &mut String) -> std::fmt::Result {
    let interest = match Interest::check(&sent.bytes) {
        Ok(interest) => interest,
        Err(error) => return write!(line, "malformed Interest: {error}"),
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

/// Compares a sent packet with the expected one.
///
/// # Errors
/// The first difference.
pub fn compare(
    face: FaceId,
    expected: &PacketSpec,
    sent: &Sent,
    tokens: &mut Tokens,
    face_name: FaceNames<'_>,
) -> Result<(), String> {
    same_face("face", face, sent.face, face_name)?;
    same("route event", &false, &sent.route_event)?;
    let announcement = expected.announcement.as_ref().map(announce);
    same("announcement", &announcement, &sent.announcement)?;
    let kind = match sent.kind {
        Kind::Interest => "Interest",
        Kind::Data => "Data",
        Kind::Nack => "Nack",
        Kind::Publication => "Publication",
    };
    same("kind", &expected.kind.as_str(), &kind)?;
    same("reason", &expected.reason, &sent.link.nack)?;
    same("mark", &expected.mark, &sent.link.congestion_mark)?;
    same("next hop", &None, &sent.link.next_hop_face)?;
    same("no-cache", &false, &sent.link.no_cache)?;
    same("non-discovery", &expected.non_discovery, &sent.link.non_discovery)?;
    if let Some(from) = expected.from {
        same_face("from", from, sent.link.incoming_face, face_name)?;
    }
    token(expected, sent, tokens)?;
    // Encoding the expected packet adds the parameters digest to its name.
    let encoded = expected.encode();
    match sent.kind {
        Kind::Data => compare_data(expected, &encoded, sent),
        Kind::Interest | Kind::Nack => compare_interest(expected, &encoded, sent),
        Kind::Publication => same("bytes", &encoded, &sent.bytes),
    }
}

/// Checks `route-event N announce PREFIX` or `route-event N withdraw NAME`.
pub(super) fn compare_route_event(
    face: FaceId,
    kind: &str,
    name: &Name,
    sent: &Sent,
    face_name: FaceNames<'_>,
) -> Result<(), String> {
    same("route event", &true, &sent.route_event)?;
    same_face("face", face, sent.face, face_name)?;
    match kind {
        "announce" | "learn" => same("announcement", &announce(name), &sent.bytes),
        "withdraw" | "forget" => {
            same("reason", &Some(NackReason::NoRoute), &sent.link.nack)?;
            let got = Interest::check(&sent.bytes).map_err(|error| error.to_string())?;
            same("name", &name.to_string(), &got.name().to_string())
        }
        other => Err(format!("a route event is announce or withdraw, not {other:?}")),
    }
}

/// Compares the PIT token, or binds a token variable.
fn token(expected: &PacketSpec, sent: &Sent, tokens: &mut Tokens) -> Result<(), String> {
    let bytes = sent.link.token.as_bytes();
    match &expected.token {
        // Interests usually carry one, which a case need not state.
        None if sent.kind == Kind::Interest => Ok(()),
        None | Some(TokenSpec::Absent) => same("token", &[][..], bytes),
        Some(TokenSpec::Bytes(expected)) => same("token", &expected[..], bytes),
        Some(TokenSpec::Variable(name)) => {
            if bytes.len() != 6 {
                return Err(format!("a token of this router has 6 bytes, not {}", bytes.len()));
            }
            match tokens.get(name) {
                Some(bound) => same("token", &bound[..], bytes),
                None => {
                    tokens.insert(name.clone(), bytes.to_vec());
                    Ok(())
                }
            }
        }
    }
}

fn compare_interest(expected: &PacketSpec, encoded: &[u8], sent: &Sent) -> Result<(), String> {
    let got = Interest::check(&sent.bytes).map_err(|error| error.to_string())?;
    let expected_interest =
        Interest::check(encoded).map_err(|error| format!("this line: {error}"))?;
    same("name", &expected_interest.name().to_string(), &got.name().to_string())?;
    same("can-be-prefix", &expected.can_be_prefix, &got.can_be_prefix())?;
    same("must-be-fresh", &expected.must_be_fresh, &got.must_be_fresh())?;
    same("hop", &expected.hop, &got.hop_limit())?;
    let hints: Vec<_> = got.forwarding_hint().map(|name| name.to_name()).collect();
    same("hint", &expected.hint, &hints)?;
    if expected.nonce.is_some() {
        same("nonce", &expected.nonce, &got.nonce())?;
    } else if got.nonce().is_none() {
        return Err("it has no nonce".to_owned());
    }
    if let Some(lifetime) = expected.lifetime {
        same("lifetime", &lifetime, &got.lifetime_ms())?;
    }
    Ok(())
}

fn compare_data(expected: &PacketSpec, encoded: &[u8], sent: &Sent) -> Result<(), String> {
    let got = Data::check(&sent.bytes).map_err(|error| error.to_string())?;
    same("name", &expected.name.to_string(), &got.name().to_string())?;
    if let Some(content) = &expected.content {
        same("content", &content.as_bytes(), &got.content())?;
    }
    if let (Some(freshness), true) = (expected.freshness, !encoded.is_empty()) {
        same("freshness", &freshness, &got.freshness_ms())?;
    }
    Ok(())
}

fn same_face(
    what: &str,
    expected: FaceId,
    got: FaceId,
    face_name: FaceNames<'_>,
) -> Result<(), String> {
    match expected == got {
        true => Ok(()),
        false => Err(format!("{what}: expected {}, got {}", face_name(expected), face_name(got))),
    }
}

fn same<T: PartialEq + std::fmt::Debug + ?Sized>(
    what: &str,
    expected: &T,
    got: &T,
) -> Result<(), String> {
    if expected == got {
        Ok(())
    } else {
        Err(format!("{what}: expected {expected:?}, got {got:?}"))
    }
}
