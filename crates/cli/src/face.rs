//! `nw face …`

use crate::args::face::{FaceCommand, FaceOptions, Persistency};
use crate::args::flags::{CommandArgs, QueryArgs};
use crate::connect::connect;
use crate::exit::not_found;
use crate::management::{CommandResult, connect_and_fetch, fetch_records, print_outcome};
use crate::output::{fitting_table, json_line, row, table};
use crate::parse::canonical_uri;
use crate::render::{self, FACE_FLAGS};
use crate::signals;
use crate::signing::connect_signed;
use anyhow::{Context, Result, bail};
use core::time::Duration;
use nw_api::management::{
    ChannelStatus, ControlParameters, Dataset, FaceEventNotification, FacePersistency,
    FaceQueryFilter, FaceScope, FaceStatus, Root, Verb, flags,
};
use nw_app::Client;
use nw_app::control::{Commander, ControlError};
use nw_app::object::{Reply, exchange};
use nw_name::{Name, convention};
use nw_wire::{Data, InterestBuilder};
use std::process::ExitCode;

/// Runs `nw face …`.
pub fn face(action: &FaceCommand) -> CommandResult {
    match action {
        FaceCommand::List { query, scheme, remote, local } => {
            let filter = FaceQueryFilter {
                uri_scheme: scheme.clone(),
                local_uri: local.as_deref().map(uri_for_filter),
                uri: remote.as_deref().map(uri_for_filter),
                ..FaceQueryFilter::default()
            };
            list(query, &filter)
        }
        FaceCommand::Show { face, query } => show(query, face),
        FaceCommand::Channels { query } => {
            let channels: Vec<ChannelStatus> = connect_and_fetch(query, Dataset::FacesChannels)?;
            match query.json {
                true => channels.iter().try_for_each(json_line)?,
                false => channels.iter().try_for_each(|channel| outln!("{}", channel.local_uri))?,
            }
            Ok(ExitCode::SUCCESS)
        }
        FaceCommand::Create { uri, local, options, command } => {
            create(uri, local.as_ref(), options, command)
        }
        FaceCommand::Update { face, options, command } => {
            let mut router = connect_signed(command)?;
            let (client, commander) = router.parts();
            let id = face_status(client, face)?.face_id;
            let parameters = ControlParameters { face_id: Some(id), ..parameters(options) };
            let body = commander.command(client, Verb::FacesUpdate, &parameters)?;
            print_outcome(&command.query, render::answer(&body, FACE_FLAGS), || {
                format!("face {id} changed")
            })
        }
        FaceCommand::Destroy { face, command } => {
            let mut router = connect_signed(command)?;
            let (client, commander) = router.parts();
            // The router accepts the command for faces that do not exist; a mistyped id would go
            // unnoticed.
            let id = face_status(client, face)?.face_id;
            let parameters =
                ControlParameters { face_id: Some(id), ..ControlParameters::default() };
            let body = commander.command(client, Verb::FacesDestroy, &parameters)?;
            print_outcome(&command.query, render::answer(&body, FACE_FLAGS), || {
                format!("face {id} destroyed")
            })
        }
        FaceCommand::Events { query } => events(query),
    }
}

/// Returns the face with this id or remote URI.
fn face_status(client: &mut Client, face: &str) -> Result<FaceStatus> {
    let filter = match face.parse() {
        Ok(id) => FaceQueryFilter { face_id: Some(id), ..FaceQueryFilter::default() },
        Err(_) => FaceQueryFilter { uri: Some(uri_for_filter(face)), ..FaceQueryFilter::default() },
    };
    let mut faces: Vec<FaceStatus> = fetch_records(client, Dataset::FacesQuery, Some(&filter))?;
    match faces.len() {
        0 if filter.face_id.is_some() => {
            Err(not_found(format!("there is no face {face} (`nw face list` shows all faces)")))
        }
        0 => Err(not_found(format!("there is no face to {face} (`nw face list` shows all faces)"))),
        1 => Ok(faces.remove(0)),
        count => {
            let ids: Vec<String> = faces.iter().map(|face| face.face_id.to_string()).collect();
            bail!("{count} faces lead to {face}: give one of their ids ({})", ids.join(", "))
        }
    }
}

/// Returns a URI in the form in which faces report it: host names resolved, with port. A URI that
/// can't be parsed is returned unchanged.
fn uri_for_filter(uri: &str) -> String {
    canonical_uri(uri).unwrap_or_else(|_| uri.to_owned())
}

fn list(query: &QueryArgs, filter: &FaceQueryFilter) -> CommandResult {
    let mut client = connect(&query.router)?;
    let is_filtered = *filter != FaceQueryFilter::default();
    let faces: Vec<FaceStatus> = match is_filtered {
        false => fetch_records(&mut client, Dataset::FacesList, None)?,
        true => fetch_records(&mut client, Dataset::FacesQuery, Some(filter))?,
    };
    if is_filtered && faces.is_empty() {
        return Err(not_found("no face matches (`nw face list` shows all faces)"));
    }
    if query.json {
        faces.iter().try_for_each(|face| json_line(&render::face(face)))?;
        return Ok(ExitCode::SUCCESS);
    }
    let head = row([
        &"id",
        &"peer",
        &"here",
        &"kind",
        &"mtu",
        &"in I/D/N",
        &"out I/D/N",
        &"in bytes",
        &"out bytes",
        &"flags",
    ]);
    let rows: Vec<_> = std::iter::once(head).chain(faces.iter().map(face_row)).collect();
    // Columns that a narrow terminal omits, first to last.
    fitting_table(&rows, &[8, 7, 9, 4, 2])?;
    Ok(ExitCode::SUCCESS)
}

fn face_row(face: &FaceStatus) -> Vec<String> {
    row([
        &face.face_id,
        &face.uri,
        &face.local_uri,
        &face.persistency,
        &face.mtu.map_or("-".to_owned(), |mtu| mtu.to_string()),
        &format!("{}/{}/{}", face.in_interests, face.in_data, face.in_nacks),
        &format!("{}/{}/{}", face.out_interests, face.out_data, face.out_nacks),
        &face.in_bytes,
        &face.out_bytes,
        &render::face_flags(face),
    ])
}

fn show(query: &QueryArgs, face: &str) -> CommandResult {
    let mut client = connect(&query.router)?;
    let face = face_status(&mut client, face)?;
    if query.json {
        json_line(&render::face(&face))?;
        return Ok(ExitCode::SUCCESS);
    }
    let on = |bit: u64| if face.flags & bit != 0 { "on" } else { "off" };
    let scope = match face.scope {
        FaceScope::Local => "local (a program on this machine)",
        FaceScope::NonLocal => "non-local",
    };
    let mut marking = on(flags::CONGESTION_MARKING).to_owned();
    if let Some(bytes) = face.default_congestion_threshold {
        marking.push_str(&format!(" above {bytes} queued bytes"));
    }
    if let Some(ns) = face.base_congestion_marking_interval {
        marking.push_str(&format!(", base interval {} ms", ns / 1_000_000));
    }
    let traffic = |interests: u64, data: u64, nacks: u64, bytes: u64| {
        format!("{interests} Interests, {data} Data, {nacks} Nacks, {bytes} bytes")
    };
    table(&[
        row([&"face", &face.face_id]),
        row([&"peer", &face.uri]),
        row([&"here", &face.local_uri]),
        row([&"scope", &scope]),
        row([&"link type", &face.link_type]),
        row([&"persistency", &face.persistency]),
        row([
            &"expires",
            &face
                .expiration_period
                .map_or("never".to_owned(), |ms| format!("in {} s when idle", ms / 1000)),
        ]),
        row([&"MTU", &face.mtu.map_or("no limit".to_owned(), |mtu| format!("{mtu} bytes"))]),
        row([&"local fields", &on(flags::LOCAL_FIELDS)]),
        row([&"reliability", &on(flags::RELIABILITY)]),
        row([&"congestion marking", &marking]),
        row([&"received", &traffic(face.in_interests, face.in_data, face.in_nacks, face.in_bytes)]),
        row([&"sent", &traffic(face.out_interests, face.out_data, face.out_nacks, face.out_bytes)]),
        row([&"shaping", &shaping(&face)]),
    ])?;
    Ok(ExitCode::SUCCESS)
}

/// Describes what Interest shaping does on a face.
fn shaping(face: &FaceStatus) -> String {
    let mut text = match (face.held_interests, face.shaping_rate_bytes) {
        (Some(held), Some(0)) => format!("{held} Interests held, learning the rate of the link"),
        (Some(held), rate) => {
            format!("{held} Interests held, {:.1} Mbit/s", rate.unwrap_or(0) as f64 * 8e-6)
        }
        _ => "no, as the link is not short".to_owned(),
    };
    let (refused, marked) = (face.refused_interests, face.shaping_marks);
    if refused.is_some() || marked.is_some() {
        let (refused, marked) = (refused.unwrap_or(0), marked.unwrap_or(0));
        text.push_str(&format!("; {refused} Interests refused and {marked} Data marked so far"));
    }
    text
}

/// Creates a face. If it exists already, it is updated to the given options, as nfdc does.
fn create(
    uri: &str,
    local: Option<&String>,
    options: &FaceOptions,
    command: &CommandArgs,
) -> CommandResult {
    let requested = parameters(options);
    let creation = ControlParameters {
        uri: Some(canonical_uri(uri)?),
        local_uri: local.cloned(),
        ..requested.clone()
    };
    let mut router = connect_signed(command)?;
    let (client, commander) = router.parts();
    let id = match commander.command(client, Verb::FacesCreate, &creation) {
        Ok(body) => {
            return print_outcome(&command.query, render::answer(&body, FACE_FLAGS), || {
                format!("face {} to {}", id_text(body.face_id), body.uri.as_deref().unwrap_or(uri))
            });
        }
        Err(ControlError::Refused { response, .. })
            if response.code == 409 && response.body.face_id.is_some() =>
        {
            id_text(response.body.face_id)
        }
        Err(error) => return Err(error.into()),
    };
    let before = face_status(client, &id)?;
    let change = difference(&before, &requested);
    if change != ControlParameters::default() {
        let change = ControlParameters { face_id: Some(before.face_id), ..change };
        commander.command(client, Verb::FacesUpdate, &change).with_context(|| {
            format!("face {id} to {} exists already, but can't be updated", before.uri)
        })?;
    }
    let after = face_status(client, &id)?;
    let changed = changes(&before, &after);
    if command.query.json {
        let mut json = render::face(&after);
        json["changed"] = changed.iter().map(|(option, _)| *option).collect();
        json_line(&json)?;
    } else if changed.is_empty() {
        outln!("face {id} to {} is there already with these options", after.uri)?;
    } else {
        let words: Vec<String> =
            changed.iter().map(|(option, change)| format!("{option} {change}")).collect();
        outln!("face {id} to {} was there already; changed: {}", after.uri, words.join(", "))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the parameters of an update that gives a face the requested options.
///
/// Persistency is only raised, because other programs may rely on a face that stays.
fn difference(face: &FaceStatus, requested: &ControlParameters) -> ControlParameters {
    fn if_different<T: PartialEq + Copy>(requested: Option<T>, actual: Option<T>) -> Option<T> {
        requested.filter(|requested| Some(*requested) != actual)
    }
    const fn rank(persistency: FacePersistency) -> u8 {
        match persistency {
            FacePersistency::OnDemand => 0,
            FacePersistency::Persistent => 1,
            FacePersistency::Permanent => 2,
        }
    }
    let persistency = requested.face_persistency.and_then(FacePersistency::from_number);
    // Faces created by a command are persistent by default.
    let persistency = persistency.unwrap_or(FacePersistency::Persistent);
    let mask = requested
        .mask
        .map(|mask| mask & (face.flags ^ requested.flags.unwrap_or(0)))
        .filter(|mask| *mask != 0);
    ControlParameters {
        face_persistency: (rank(persistency) > rank(face.persistency))
            .then_some(persistency.number()),
        mtu: if_different(requested.mtu, face.mtu),
        default_congestion_threshold: if_different(
            requested.default_congestion_threshold,
            face.default_congestion_threshold,
        ),
        base_congestion_marking_interval: if_different(
            requested.base_congestion_marking_interval,
            face.base_congestion_marking_interval,
        ),
        flags: mask.map(|mask| requested.flags.unwrap_or(0) & mask),
        mask,
        ..ControlParameters::default()
    }
}

/// Returns each changed option with its old and new value.
fn changes(before: &FaceStatus, after: &FaceStatus) -> Vec<(&'static str, String)> {
    let number =
        |number: Option<u64>| number.map_or("none".to_owned(), |number| number.to_string());
    let on =
        |face: &FaceStatus, bit: u64| if face.flags & bit != 0 { "on" } else { "off" }.to_owned();
    let mut rows = vec![
        ("persistency", before.persistency.to_string(), after.persistency.to_string()),
        ("mtu", number(before.mtu), number(after.mtu)),
        (
            "congestion-threshold",
            number(before.default_congestion_threshold),
            number(after.default_congestion_threshold),
        ),
        (
            "marking-interval",
            number(before.base_congestion_marking_interval),
            number(after.base_congestion_marking_interval),
        ),
    ];
    rows.extend(FACE_FLAGS.iter().map(|(bit, word)| (*word, on(before, *bit), on(after, *bit))));
    rows.into_iter()
        .filter(|(_, before, after)| before != after)
        .map(|(option, before, after)| (option, format!("{before} → {after}")))
        .collect()
}

/// Returns the management parameters of the options on the command line.
fn parameters(options: &FaceOptions) -> ControlParameters {
    let bits = [
        (options.local_fields, flags::LOCAL_FIELDS),
        (options.congestion_marking, flags::CONGESTION_MARKING),
        (options.reliability, flags::RELIABILITY),
    ];
    let mask =
        bits.iter().filter(|(value, _)| value.is_some()).fold(0, |mask, (_, bit)| mask | bit);
    let set =
        bits.iter().filter(|(value, _)| *value == Some(true)).fold(0, |set, (_, bit)| set | bit);
    let persistency = options.persistency.map(|persistency| match persistency {
        Persistency::Persistent => FacePersistency::Persistent.number(),
        Persistency::OnDemand => FacePersistency::OnDemand.number(),
        Persistency::Permanent => FacePersistency::Permanent.number(),
    });
    ControlParameters {
        face_persistency: persistency,
        mtu: options.mtu,
        flags: (mask != 0).then_some(set),
        mask: (mask != 0).then_some(mask),
        default_congestion_threshold: options.congestion_threshold,
        base_congestion_marking_interval: options
            .marking_interval
            .map(|ms| ms.saturating_mul(1_000_000)),
        ..ControlParameters::default()
    }
}

fn events(query: &QueryArgs) -> CommandResult {
    const LIFETIME: Duration = Duration::from_secs(60);
    let stop_flag = signals::StopFlag::watch()?;
    let mut client = connect(&query.router)?;
    let stream = Root::Localhost.name().with_generic("faces").with_generic("events");
    let mut next: Option<Name> = None;
    while !stop_flag.is_set() {
        let interest = match &next {
            Some(name) => InterestBuilder::new(name.clone()),
            None => InterestBuilder::new(stream.clone()).can_be_prefix(true).must_be_fresh(true),
        };
        let interest = interest.lifetime_ms(LIFETIME.as_millis() as u64);
        let Some(wire) = await_data(&mut client, interest, LIFETIME, &stop_flag)? else { continue };
        let data = Data::check(&wire)?;
        let event = FaceEventNotification::decode(data.content())?;
        if query.json {
            json_line(&event)?;
        } else {
            outln!("{} face {} {}", event.kind, event.face_id, event.uri)?;
        }
        let sequence = data
            .name()
            .component(-1)
            .and_then(|c| convention::Kind::Sequence.number(c))
            .context("no sequence number")?;
        next = Some(stream.clone().with_number(nw_name::ComponentType::SEQUENCE, sequence + 1));
    }
    Ok(ExitCode::SUCCESS)
}

/// Sends an Interest and waits for Data, in slices short enough to notice Ctrl-C. `None` if none
/// came in time.
fn await_data(
    client: &mut Client,
    interest: InterestBuilder,
    timeout: Duration,
    stop_flag: &signals::StopFlag,
) -> Result<Option<Vec<u8>>> {
    let until = client.now() + timeout;
    while !stop_flag.is_set() && client.now() < until {
        // Retransmitting with a new nonce keeps the Interest pending in the router.
        if let Reply::Data(wire) = exchange(client, interest.clone(), Duration::from_millis(500))? {
            return Ok(Some(wire));
        }
    }
    Ok(None)
}

/// Returns the id of the face with this id or remote URI. `None` if no face has this URI.
pub(crate) fn find(client: &mut Client, next_hop: &str) -> Result<Option<u64>> {
    if let Ok(id) = next_hop.parse() {
        return Ok(Some(id));
    }
    let filter =
        FaceQueryFilter { uri: Some(canonical_uri(next_hop)?), ..FaceQueryFilter::default() };
    let faces: Vec<FaceStatus> = fetch_records(client, Dataset::FacesQuery, Some(&filter))?;
    Ok(faces.first().map(|face| face.face_id))
}

/// Returns the id of the face with this id or remote URI. A missing face is created.
pub(crate) fn find_or_create(
    client: &mut Client,
    commander: Commander<'_>,
    next_hop: &str,
) -> Result<u64> {
    if let Ok(id) = next_hop.parse() {
        return Ok(id);
    }
    let parameters =
        ControlParameters { uri: Some(canonical_uri(next_hop)?), ..ControlParameters::default() };
    let body = match commander.command(client, Verb::FacesCreate, &parameters) {
        Ok(body) => body,
        Err(ControlError::Refused { response, .. }) if response.code == 409 => response.body,
        Err(error) => return Err(error.into()),
    };
    body.face_id.context("the router did not report the face's id")
}

fn id_text(id: Option<u64>) -> String {
    id.map_or("?".to_owned(), |id| id.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(persistency: FacePersistency) -> FaceStatus {
        FaceStatus {
            persistency,
            mtu: Some(8800),
            flags: flags::CONGESTION_MARKING,
            ..FaceStatus::new(
                256,
                "udp4://192.0.2.1:6363",
                "udp4://192.0.2.2:6363",
                FaceScope::NonLocal,
            )
        }
    }

    #[test]
    fn shaping_is_described_for_short_links_only() {
        let face = status(FacePersistency::Persistent);
        assert_eq!(shaping(&face), "no, as the link is not short");
        let face = FaceStatus {
            held_interests: Some(7),
            shaping_rate_bytes: Some(12_500_000),
            refused_interests: Some(2),
            ..face
        };
        assert_eq!(
            shaping(&face),
            "7 Interests held, 100.0 Mbit/s; 2 Interests refused and 0 Data marked so far"
        );
    }

    #[test]
    fn difference_has_only_changed_options_and_never_lowers_persistency() {
        use FacePersistency::{OnDemand, Permanent, Persistent};
        let none = ControlParameters::default();
        assert_eq!(difference(&status(Persistent), &none), none);
        assert_eq!(
            difference(&status(OnDemand), &none).face_persistency,
            Some(Persistent.number())
        );
        let lower =
            ControlParameters { face_persistency: Some(Persistent.number()), ..none.clone() };
        assert_eq!(difference(&status(Permanent), &lower), none);
        let requested = ControlParameters {
            face_persistency: Some(Permanent.number()),
            mtu: Some(1400),
            flags: Some(flags::RELIABILITY | flags::CONGESTION_MARKING),
            mask: Some(flags::RELIABILITY | flags::CONGESTION_MARKING),
            ..none.clone()
        };
        let change = difference(&status(Persistent), &requested);
        assert_eq!((change.face_persistency, change.mtu), (Some(Permanent.number()), Some(1400)));
        assert_eq!(
            (change.flags, change.mask),
            (Some(flags::RELIABILITY), Some(flags::RELIABILITY))
        );
        let after = FaceStatus { mtu: Some(1400), ..status(Permanent) };
        let changed = changes(&status(Persistent), &after);
        assert_eq!(changed[0], ("persistency", "persistent → permanent".to_owned()));
        assert_eq!(changed[1], ("mtu", "8800 → 1400".to_owned()));
    }
}
