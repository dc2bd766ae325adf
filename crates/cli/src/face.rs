//! `nw face …`

use crate::args::{FaceOptions, FaceVerb, Order, Persistency, Reading};
use crate::connect::connect;
use crate::control::{Done, read, read_of, report};
use crate::exit::not_found;
use crate::output::{fitting_table, json_line, row, table};
use crate::shown::{self, FACE_BITS};
use crate::signals;
use crate::signing::commanded;
use anyhow::{Context, Result, bail};
use core::time::Duration;
use nw_api::management::{
    ChannelStatus, ControlParameters, Dataset, FaceEventNotification, FacePersistency, FaceQueryFilter,
    FaceScope, FaceStatus, Root, Verb, flags,
};
use nw_app::control::{Commander, ControlError};
use nw_app::object::{Reply, exchange};
use nw_app::{Client, FaceUri};
use nw_name::{Name, convention};
use nw_wire::{Data, InterestBuilder};
use std::process::ExitCode;

/// Does what `verb` says.
pub fn face(verb: &FaceVerb) -> Done {
    match verb {
        FaceVerb::List { reading, scheme, remote, local } => {
            let filter = FaceQueryFilter {
                uri_scheme: scheme.clone(),
                local_uri: local.as_deref().map(as_shown),
                uri: remote.as_deref().map(as_shown),
                ..FaceQueryFilter::default()
            };
            list(reading, &filter)
        }
        FaceVerb::Show { face, reading } => show(reading, face),
        FaceVerb::Channels { reading } => {
            let channels: Vec<ChannelStatus> = read_of(reading, Dataset::FacesChannels)?;
            match reading.json {
                true => channels.iter().try_for_each(json_line)?,
                false => channels.iter().try_for_each(|channel| outln!("{}", channel.local_uri))?,
            }
            Ok(ExitCode::SUCCESS)
        }
        FaceVerb::Create { uri, local, options, order } => create(uri, local.as_ref(), options, order),
        FaceVerb::Update { face, options, order } => {
            let mut router = commanded(order)?;
            let (client, commander) = router.parts();
            let id = existing(client, face)?.face_id;
            let parameters = ControlParameters { face_id: Some(id), ..parameters(options) };
            let body = commander.command(client, Verb::FacesUpdate, &parameters)?;
            report(&order.reading, shown::answer(&body, FACE_BITS), || format!("face {id} changed"))
        }
        FaceVerb::Destroy { face, order } => {
            let mut router = commanded(order)?;
            let (client, commander) = router.parts();
            // The command succeeds for faces that are not there: a misspelt number would go unnoticed.
            let id = existing(client, face)?.face_id;
            let parameters = ControlParameters { face_id: Some(id), ..ControlParameters::default() };
            let body = commander.command(client, Verb::FacesDestroy, &parameters)?;
            report(&order.reading, shown::answer(&body, FACE_BITS), || format!("face {id} ended"))
        }
        FaceVerb::Events { reading } => events(reading),
    }
}

/// The face that an id or URI names.
fn existing(client: &mut Client, face: &str) -> Result<FaceStatus> {
    let filter = match face.parse() {
        Ok(id) => FaceQueryFilter { face_id: Some(id), ..FaceQueryFilter::default() },
        Err(_) => FaceQueryFilter { uri: Some(as_shown(face)), ..FaceQueryFilter::default() },
    };
    let mut faces: Vec<FaceStatus> = read(client, Dataset::FacesQuery, Some(&filter))?;
    match faces.len() {
        0 if filter.face_id.is_some() => {
            Err(not_found(format!("there is no face {face} (`nw face list` shows those there are)")))
        }
        0 => Err(not_found(format!("there is no face to {face} (`nw face list` shows those there are)"))),
        1 => Ok(faces.remove(0)),
        several => {
            let ids: Vec<String> = faces.iter().map(|face| face.face_id.to_string()).collect();
            bail!("{several} faces lead to {face}: name one by its id ({})", ids.join(", "))
        }
    }
}

/// A URI as faces have it: an address for a host name, with its port. What can't be read is compared as it stands.
fn as_shown(uri: &str) -> String {
    canonical(uri).unwrap_or_else(|_| uri.to_owned())
}

fn list(reading: &Reading, filter: &FaceQueryFilter) -> Done {
    let mut client = connect(&reading.router)?;
    let is_filtered = *filter != FaceQueryFilter::default();
    let faces: Vec<FaceStatus> = match is_filtered {
        false => read(&mut client, Dataset::FacesList, None)?,
        true => read(&mut client, Dataset::FacesQuery, Some(filter))?,
    };
    if is_filtered && faces.is_empty() {
        return Err(not_found("no face is like that (`nw face list` shows those there are)"));
    }
    if reading.json {
        faces.iter().try_for_each(|face| json_line(&shown::face(face)))?;
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
    // What a narrow terminal does without, first to last.
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
        &shown::face_flags(face),
    ])
}

fn show(reading: &Reading, face: &str) -> Done {
    let mut client = connect(&reading.router)?;
    let face = existing(&mut client, face)?;
    if reading.json {
        json_line(&shown::face(&face))?;
        return Ok(ExitCode::SUCCESS);
    }
    let on = |bit: u64| if face.flags & bit != 0 { "on" } else { "off" };
    let scope = match face.scope {
        FaceScope::Local => "local (a program of this machine)",
        FaceScope::NonLocal => "non-local",
    };
    let mut marking = on(flags::CONGESTION_MARKING).to_owned();
    if let Some(bytes) = face.default_congestion_threshold {
        marking.push_str(&format!(", above {bytes} bytes in its queue"));
    }
    if let Some(ns) = face.base_congestion_marking_interval {
        marking.push_str(&format!(", at first every {} ms", ns / 1_000_000));
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
            &face.expiration_period.map_or("never".to_owned(), |ms| format!("in {} s when idle", ms / 1000)),
        ]),
        row([&"MTU", &face.mtu.map_or("no limit".to_owned(), |mtu| format!("{mtu} bytes"))]),
        row([&"local fields", &on(flags::LOCAL_FIELDS)]),
        row([&"reliability", &on(flags::RELIABILITY)]),
        row([&"congestion marking", &marking]),
        row([&"received", &traffic(face.in_interests, face.in_data, face.in_nacks, face.in_bytes)]),
        row([&"sent", &traffic(face.out_interests, face.out_data, face.out_nacks, face.out_bytes)]),
    ])?;
    Ok(ExitCode::SUCCESS)
}

/// Makes a face; one that is there is changed to what was asked for, as nfdc does.
fn create(uri: &str, local: Option<&String>, options: &FaceOptions, order: &Order) -> Done {
    let wanted = parameters(options);
    let creation =
        ControlParameters { uri: Some(canonical(uri)?), local_uri: local.cloned(), ..wanted.clone() };
    let mut router = commanded(order)?;
    let (client, commander) = router.parts();
    let id = match commander.command(client, Verb::FacesCreate, &creation) {
        Ok(body) => {
            return report(&order.reading, shown::answer(&body, FACE_BITS), || {
                format!("face {} to {}", number(body.face_id), body.uri.as_deref().unwrap_or(uri))
            });
        }
        Err(ControlError::Refused { response, .. })
            if response.code == 409 && response.body.face_id.is_some() =>
        {
            number(response.body.face_id)
        }
        Err(error) => return Err(error.into()),
    };
    let before = existing(client, &id)?;
    let change = difference(&before, &wanted);
    if change != ControlParameters::default() {
        let change = ControlParameters { face_id: Some(before.face_id), ..change };
        commander
            .command(client, Verb::FacesUpdate, &change)
            .with_context(|| format!("face {id} to {} is there already, but can't be changed", before.uri))?;
    }
    let after = existing(client, &id)?;
    let changed = changes(&before, &after);
    if order.reading.json {
        let mut shown = shown::face(&after);
        shown["changed"] = changed.iter().map(|(what, _)| *what).collect();
        json_line(&shown)?;
    } else if changed.is_empty() {
        outln!("face {id} to {} is there already, as it should be", after.uri)?;
    } else {
        let words: Vec<String> = changed.iter().map(|(what, how)| format!("{what} {how}")).collect();
        outln!("face {id} to {} was there already; changed: {}", after.uri, words.join(", "))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What has to be commanded so that a face becomes as wanted. Its persistency only rises: others may rely on a face that stays.
fn difference(face: &FaceStatus, wanted: &ControlParameters) -> ControlParameters {
    fn other<T: PartialEq + Copy>(wanted: Option<T>, actual: Option<T>) -> Option<T> {
        wanted.filter(|wanted| Some(*wanted) != actual)
    }
    const fn rank(persistency: FacePersistency) -> u8 {
        match persistency {
            FacePersistency::OnDemand => 0,
            FacePersistency::Persistent => 1,
            FacePersistency::Permanent => 2,
        }
    }
    let persistency = wanted.face_persistency.and_then(FacePersistency::from_number);
    // Without a word about it a face that was made by hand is persistent.
    let persistency = persistency.unwrap_or(FacePersistency::Persistent);
    let mask =
        wanted.mask.map(|mask| mask & (face.flags ^ wanted.flags.unwrap_or(0))).filter(|mask| *mask != 0);
    ControlParameters {
        face_persistency: (rank(persistency) > rank(face.persistency)).then_some(persistency.number()),
        mtu: other(wanted.mtu, face.mtu),
        default_congestion_threshold: other(
            wanted.default_congestion_threshold,
            face.default_congestion_threshold,
        ),
        base_congestion_marking_interval: other(
            wanted.base_congestion_marking_interval,
            face.base_congestion_marking_interval,
        ),
        flags: mask.map(|mask| wanted.flags.unwrap_or(0) & mask),
        mask,
        ..ControlParameters::default()
    }
}

/// What changed, and from what to what.
fn changes(before: &FaceStatus, after: &FaceStatus) -> Vec<(&'static str, String)> {
    let number = |number: Option<u64>| number.map_or("none".to_owned(), |number| number.to_string());
    let on = |face: &FaceStatus, bit: u64| if face.flags & bit != 0 { "on" } else { "off" }.to_owned();
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
    rows.extend(FACE_BITS.iter().map(|(bit, word)| (*word, on(before, *bit), on(after, *bit))));
    rows.into_iter()
        .filter(|(_, before, after)| before != after)
        .map(|(what, before, after)| (what, format!("{before} → {after}")))
        .collect()
}

/// A host name becomes an address here, as routers do not resolve.
pub(crate) fn canonical(uri: &str) -> Result<String> {
    let parsed: FaceUri = uri.parse().with_context(|| format!("{uri} is no face URI"))?;
    parsed.resolve()?.first().map(FaceUri::to_string).context("no address")
}

fn parameters(options: &FaceOptions) -> ControlParameters {
    let bits = [
        (options.local_fields, flags::LOCAL_FIELDS),
        (options.congestion_marking, flags::CONGESTION_MARKING),
        (options.reliability, flags::RELIABILITY),
    ];
    let mask = bits.iter().filter(|(wanted, _)| wanted.is_some()).fold(0, |mask, (_, bit)| mask | bit);
    let set = bits.iter().filter(|(wanted, _)| *wanted == Some(true)).fold(0, |set, (_, bit)| set | bit);
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
        base_congestion_marking_interval: options.marking_interval.map(|ms| ms.saturating_mul(1_000_000)),
        ..ControlParameters::default()
    }
}

fn events(reading: &Reading) -> Done {
    const LIFETIME: Duration = Duration::from_secs(60);
    let ended = signals::Ended::watch()?;
    let mut client = connect(&reading.router)?;
    let stream = Root::Localhost.name().with_generic("faces").with_generic("events");
    let mut next: Option<Name> = None;
    while !ended.is_ended() {
        let interest = match &next {
            Some(name) => InterestBuilder::new(name.clone()),
            None => InterestBuilder::new(stream.clone()).can_be_prefix(true).must_be_fresh(true),
        };
        let interest = interest.lifetime_ms(LIFETIME.as_millis() as u64);
        let Some(wire) = await_data(&mut client, interest, LIFETIME, &ended)? else { continue };
        let data = Data::check(&wire)?;
        let event = FaceEventNotification::decode(data.content())?;
        if reading.json {
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

/// As `exchange`, in slices short enough for Ctrl-C.
fn await_data(
    client: &mut Client,
    interest: InterestBuilder,
    patience: Duration,
    ended: &signals::Ended,
) -> Result<Option<Vec<u8>>> {
    let until = client.now() + patience;
    while !ended.is_ended() && client.now() < until {
        // Sent again with a new nonce, the router keeps the pending Interest alive.
        if let Reply::Data(wire) = exchange(client, interest.clone(), Duration::from_millis(500))? {
            return Ok(Some(wire));
        }
    }
    Ok(None)
}

/// The face that a number or URI names, if it is there.
pub(crate) fn find(client: &mut Client, next_hop: &str) -> Result<Option<u64>> {
    if let Ok(id) = next_hop.parse() {
        return Ok(Some(id));
    }
    let filter = FaceQueryFilter { uri: Some(canonical(next_hop)?), ..FaceQueryFilter::default() };
    let faces: Vec<FaceStatus> = read(client, Dataset::FacesQuery, Some(&filter))?;
    Ok(faces.first().map(|face| face.face_id))
}

/// The face that a number or URI names; made if it is not there.
pub(crate) fn find_or_create(client: &mut Client, commander: Commander<'_>, next_hop: &str) -> Result<u64> {
    if let Ok(id) = next_hop.parse() {
        return Ok(id);
    }
    let parameters = ControlParameters { uri: Some(canonical(next_hop)?), ..ControlParameters::default() };
    let body = match commander.command(client, Verb::FacesCreate, &parameters) {
        Ok(body) => body,
        Err(ControlError::Refused { response, .. }) if response.code == 409 => response.body,
        Err(error) => return Err(error.into()),
    };
    body.face_id.context("the router did not report the face's id")
}

fn number(number: Option<u64>) -> String {
    number.map_or("?".to_owned(), |number| number.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(persistency: FacePersistency) -> FaceStatus {
        FaceStatus {
            persistency,
            mtu: Some(8800),
            flags: flags::CONGESTION_MARKING,
            ..FaceStatus::new(256, "udp4://192.0.2.1:6363", "udp4://192.0.2.2:6363", FaceScope::NonLocal)
        }
    }

    #[test]
    fn difference_has_only_what_differs_and_persistency_only_rises() {
        use FacePersistency::{OnDemand, Permanent, Persistent};
        let none = ControlParameters::default();
        assert_eq!(difference(&status(Persistent), &none), none);
        assert_eq!(difference(&status(OnDemand), &none).face_persistency, Some(Persistent.number()));
        let lower = ControlParameters { face_persistency: Some(Persistent.number()), ..none.clone() };
        assert_eq!(difference(&status(Permanent), &lower), none);
        let wanted = ControlParameters {
            face_persistency: Some(Permanent.number()),
            mtu: Some(1400),
            flags: Some(flags::RELIABILITY | flags::CONGESTION_MARKING),
            mask: Some(flags::RELIABILITY | flags::CONGESTION_MARKING),
            ..none.clone()
        };
        let change = difference(&status(Persistent), &wanted);
        assert_eq!((change.face_persistency, change.mtu), (Some(Permanent.number()), Some(1400)));
        assert_eq!((change.flags, change.mask), (Some(flags::RELIABILITY), Some(flags::RELIABILITY)));
        let after = FaceStatus { mtu: Some(1400), ..status(Permanent) };
        let changed = changes(&status(Persistent), &after);
        assert_eq!(changed[0], ("persistency", "persistent → permanent".to_owned()));
        assert_eq!(changed[1], ("mtu", "8800 → 1400".to_owned()));
    }
}
