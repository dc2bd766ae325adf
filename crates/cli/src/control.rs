//! `nw status`, `nw face`, `nw route`, `nw strategy`, `nw cs`: the management protocol for people.

use crate::args::{
    CsVerb, FaceOptions, FaceVerb, Order, Persistency, Reading, RouteVerb, Status as StatusArgs, StrategyVerb,
};
use crate::connect::connect;
use crate::output::{json_line, row, table};
use crate::signals;
use crate::signing::commanded;
use anyhow::{Context, Result, bail};
use core::time::Duration;
use nw_api::counters::{drop_reasons, dropped_and_done};
use nw_api::management::client::{decode_cs_info, decode_items, decode_status};
use nw_api::management::parameters::Strategy;
use nw_api::management::{
    ChannelStatus, ControlParameters, Dataset, DropCount, FaceEventNotification, FacePersistency,
    FaceQueryFilter, FaceStatus, FibEntry, RibEntry, Root, ShardStatus, StrategyChoice, Verb, flags, origin,
};
use nw_api::report::Status;
use nw_app::control::{Commander, ControlError, dataset};
use nw_app::object::{Reply, exchange};
use nw_app::{Client, FaceUri};
use nw_name::{Name, convention};
use nw_router::placement::{self, Machine};
use nw_wire::{Data, InterestBuilder};
use std::process::ExitCode;

type Done = Result<ExitCode>;

/// Sends a command and tells what came of it.
fn give(
    order: &Order,
    verb: Verb,
    parameters: &ControlParameters,
    done: impl FnOnce(&ControlParameters) -> String,
) -> Done {
    let mut router = commanded(order)?;
    let (client, commander) = router.parts();
    report(&order.reading, &commander.command(client, verb, parameters)?, done)
}

fn report(
    reading: &Reading,
    body: &ControlParameters,
    done: impl FnOnce(&ControlParameters) -> String,
) -> Done {
    if reading.json {
        json_line(body)?;
    } else {
        outln!("{}", done(body))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// `nw status`
pub fn status(args: &StatusArgs) -> Done {
    if args.hardware {
        return hardware();
    }
    let mut client = connect(&args.reading.router)?;
    let status = gather(&mut client)?;
    if args.reading.json {
        json_line(&status)?;
        return Ok(ExitCode::SUCCESS);
    }
    if args.drops {
        return drops(&status);
    }
    if args.shards {
        return shards(&status);
    }
    let (forwarder, cs) = (&status.forwarder, &status.content_store);
    let up_s = forwarder.current_timestamp.saturating_sub(forwarder.start_timestamp) / 1000;
    let hit_share = match cs.hits + cs.misses {
        0 => "-".to_owned(),
        asked => format!("{:.1} %", cs.hits as f64 * 100.0 / asked as f64),
    };
    let total = forwarder.satisfied_interests + forwarder.unsatisfied_interests;
    let mut rows = vec![
        row([&"version", &forwarder.version]),
        row([
            &"up",
            &format!("{} d {:02}:{:02}:{:02}", up_s / 86_400, up_s / 3600 % 24, up_s / 60 % 60, up_s % 60),
        ]),
        row([
            &"listens",
            &status.channels.iter().map(|c| c.local_uri.as_str()).collect::<Vec<_>>().join(" "),
        ]),
        row([&"faces", &status.faces.len()]),
        row([&"shards", &shards_in_words(&status.shards)]),
        row([&"routes", &status.rib.iter().map(|entry| entry.routes.len()).sum::<usize>()]),
        row([&"prefixes", &forwarder.fib_entries]),
        row([&"pending", &forwarder.pit_entries]),
        row([&"cached", &format!("{} of {} packets, {hit_share} hits", cs.entries, cs.capacity)]),
        row([
            &"in",
            &format!(
                "{} Interests, {} Data, {} Nacks",
                forwarder.in_interests, forwarder.in_data, forwarder.in_nacks
            ),
        ]),
        row([
            &"out",
            &format!(
                "{} Interests, {} Data, {} Nacks",
                forwarder.out_interests, forwarder.out_data, forwarder.out_nacks
            ),
        ]),
        row([&"answered", &format!("{} of {total} Interests", forwarder.satisfied_interests)]),
        row([&"dropped", &dropped_in_words(&status.drops)]),
    ];
    if !status.xdp.is_empty() {
        let interfaces: Vec<_> = status.xdp.iter().map(ToString::to_string).collect();
        // Below the threads.
        rows.insert(5, row([&"AF_XDP", &interfaces.join("; ")]));
    }
    table(&rows)?;
    Ok(ExitCode::SUCCESS)
}

fn gather(client: &mut Client) -> Result<Status> {
    // Ours alone; other routers don't answer.
    let drops = match dataset(client, Dataset::StatusDrops, None) {
        Ok(content) => Some(decode_items(&content)?),
        Err(ControlError::Nack { .. } | ControlError::Silence(_)) => None,
        Err(error) => return Err(error.into()),
    };
    let shards = match drops {
        Some(_) => decode_items(&dataset(client, Dataset::StatusShards, None)?)?,
        None => Vec::new(),
    };
    // Newer than the others.
    let xdp = match drops {
        Some(_) => dataset(client, Dataset::StatusXdp, None)
            .ok()
            .map(|content| decode_items(&content))
            .transpose()?,
        None => None,
    };
    Ok(Status {
        forwarder: decode_status(&dataset(client, Dataset::StatusGeneral, None)?)?,
        content_store: decode_cs_info(&dataset(client, Dataset::CsInfo, None)?)?,
        faces: decode_items(&dataset(client, Dataset::FacesList, None)?)?,
        channels: decode_items(&dataset(client, Dataset::FacesChannels, None)?)?,
        fib: decode_items(&dataset(client, Dataset::FibList, None)?)?,
        rib: decode_items(&dataset(client, Dataset::RibList, None)?)?,
        strategies: decode_items(&dataset(client, Dataset::StrategyChoiceList, None)?)?,
        drops: drops.unwrap_or_default(),
        shards,
        xdp: xdp.unwrap_or_default(),
    })
}

fn dropped_in_words(drops: &[DropCount]) -> String {
    let (dropped, done) = dropped_and_done(drops.iter().map(|drop| (drop.reason.as_str(), drop.count)));
    format!("{dropped} packets, besides {done} that had done their work (--drops tells why)")
}

/// What part of all packets the busiest shard has, and what part it would have were all alike; `None` before the first packet.
fn busiest_share(shards: &[ShardStatus]) -> Option<(f64, f64)> {
    let all: u64 = shards.iter().map(|shard| shard.packets).sum();
    let busiest = shards.iter().map(|shard| shard.packets).max()?;
    (all > 0).then(|| (busiest as f64 / all as f64, 1.0 / shards.len() as f64))
}

fn shards_in_words(shards: &[ShardStatus]) -> String {
    match (shards.len(), busiest_share(shards)) {
        (0, _) => "-".to_owned(),
        (1, _) | (_, None) => shards.len().to_string(),
        (count, Some((busiest, even))) => {
            let (busiest, even) = (busiest * 100.0, even * 100.0);
            format!(
                "{count}, the busiest with {busiest:.1} % of packets, {even:.1} % would be even (--shards tells more)"
            )
        }
    }
}

/// What this machine has; no router is asked.
fn hardware() -> Done {
    let machine = Machine::here();
    out!("{machine}")?;
    let shards = machine.shards();
    outln!("threads: {shards} unless forwarder.shards or --shards says otherwise")?;
    outln!("placed by: {}", placement::RULE)?;
    for count in [shards.max(2), 2 * shards].into_iter().collect::<std::collections::BTreeSet<_>>() {
        let cpus: Vec<String> = machine.place(count).iter().map(usize::to_string).collect();
        outln!("{count} threads: processors {}", cpus.join(" "))?;
    }
    outln!(
        "one thread alone is not bound; forwarder.cpus chooses processors, forwarder.pin = false binds none"
    )?;
    Ok(ExitCode::SUCCESS)
}

fn shards(status: &Status) -> Done {
    let up_ns =
        status.forwarder.current_timestamp.saturating_sub(status.forwarder.start_timestamp) * 1_000_000;
    let head: [&dyn std::fmt::Display; 10] = [
        &"shard",
        &"packets",
        &"by kernel",
        &"by AF_XDP",
        &"handed over",
        &"waiting",
        &"busy",
        &"pending",
        &"cached",
        &"hits",
    ];
    let mut rows = vec![row(head)];
    rows.extend(status.shards.iter().map(|shard| {
        let busy = format!("{:.1} %", shard.busy_ns as f64 * 100.0 / up_ns.max(1) as f64);
        let waiting = format!("{} octets", shard.waiting_bytes);
        row([
            &shard.shard,
            &shard.packets,
            &shard.chosen_in_kernel,
            &shard.xdp_frames,
            &shard.handed_over,
            &waiting,
            &busy,
            &shard.pit_entries,
            &shard.cs_entries,
            &shard.cs_hits,
        ])
    }));
    table(&rows)?;
    Ok(ExitCode::SUCCESS)
}

fn drops(status: &Status) -> Done {
    let reasons = drop_reasons();
    let meaning = |name: &str| {
        reasons.iter().find(|reason| reason.name == name).map_or("", |reason| reason.explanation)
    };
    let mut rows = vec![row([&"packets", &"reason", &"meaning"])];
    rows.extend(status.drops.iter().map(|drop| row([&drop.count, &drop.reason, &meaning(&drop.reason)])));
    table(&rows)?;
    Ok(ExitCode::SUCCESS)
}

/// `nw face …`
pub fn face(verb: &FaceVerb) -> Done {
    match verb {
        FaceVerb::List { reading, scheme, uri, local } => {
            let filter = FaceQueryFilter {
                uri_scheme: scheme.clone(),
                local_uri: local.clone(),
                uri: uri.clone(),
                ..FaceQueryFilter::default()
            };
            faces(reading, &filter)
        }
        FaceVerb::Show { id, reading } => {
            faces(reading, &FaceQueryFilter { face_id: Some(*id), ..FaceQueryFilter::default() })
        }
        FaceVerb::Channels { reading } => {
            let mut client = connect(&reading.router)?;
            let channels: Vec<ChannelStatus> =
                decode_items(&dataset(&mut client, Dataset::FacesChannels, None)?)?;
            match reading.json {
                true => channels.iter().try_for_each(json_line)?,
                false => channels.iter().try_for_each(|channel| outln!("{}", channel.local_uri))?,
            }
            Ok(ExitCode::SUCCESS)
        }
        FaceVerb::Create { uri, local, options, order } => {
            let parameters = ControlParameters {
                uri: Some(canonical(uri)?),
                local_uri: local.clone(),
                ..face_parameters(options)
            };
            let mut router = commanded(order)?;
            let (client, commander) = router.parts();
            match commander.command(client, Verb::FacesCreate, &parameters) {
                Ok(body) => report(&order.reading, &body, |body| {
                    format!("face {} to {}", number(body.face_id), text(&body.uri))
                }),
                Err(ControlError::Refused { response, .. }) if response.code == 409 => {
                    report(&order.reading, &response.body, |body| {
                        format!("face {} is there already", number(body.face_id))
                    })
                }
                Err(error) => Err(error.into()),
            }
        }
        FaceVerb::Update { id, options, order } => {
            let parameters = ControlParameters { face_id: Some(*id), ..face_parameters(options) };
            give(order, Verb::FacesUpdate, &parameters, |_| format!("face {id} changed"))
        }
        FaceVerb::Destroy { id, order } => {
            let parameters = ControlParameters { face_id: Some(*id), ..ControlParameters::default() };
            give(order, Verb::FacesDestroy, &parameters, |_| format!("face {id} ended"))
        }
        FaceVerb::Events { reading } => events(reading),
    }
}

fn faces(reading: &Reading, filter: &FaceQueryFilter) -> Done {
    let mut client = connect(&reading.router)?;
    let content = match *filter == FaceQueryFilter::default() {
        true => dataset(&mut client, Dataset::FacesList, None)?,
        false => dataset(&mut client, Dataset::FacesQuery, Some(filter))?,
    };
    let faces: Vec<FaceStatus> = decode_items(&content)?;
    if reading.json {
        faces.iter().try_for_each(json_line)?;
    } else {
        let head = row([
            &"id",
            &"peer",
            &"here",
            &"kind",
            &"mtu",
            &"in I/D/N",
            &"out I/D/N",
            &"in octets",
            &"out octets",
        ]);
        let rows: Vec<_> = std::iter::once(head).chain(faces.iter().map(face_row)).collect();
        table(&rows)?;
    }
    Ok(if faces.is_empty() && *filter != FaceQueryFilter::default() {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}

fn face_row(face: &FaceStatus) -> Vec<String> {
    let persistency = match face.persistency {
        FacePersistency::OnDemand => "on-demand",
        FacePersistency::Persistent => "persistent",
        FacePersistency::Permanent => "permanent",
    };
    row([
        &face.face_id,
        &face.uri,
        &face.local_uri,
        &persistency,
        &face.mtu.map_or("-".to_owned(), |mtu| mtu.to_string()),
        &format!("{}/{}/{}", face.in_interests, face.in_data, face.in_nacks),
        &format!("{}/{}/{}", face.out_interests, face.out_data, face.out_nacks),
        &face.in_bytes,
        &face.out_bytes,
    ])
}

/// A host name becomes an address here, as routers do not resolve.
fn canonical(uri: &str) -> Result<String> {
    let parsed: FaceUri = uri.parse().with_context(|| format!("{uri} is no face URI"))?;
    parsed.resolve()?.first().map(FaceUri::to_string).context("no address")
}

fn face_parameters(options: &FaceOptions) -> ControlParameters {
    let bits = [
        (options.local_fields, flags::LOCAL_FIELDS),
        (options.congestion_marking, flags::CONGESTION_MARKING),
        (options.reliability, flags::RELIABILITY),
    ];
    let mask = bits.iter().filter(|(wanted, _)| wanted.is_some()).fold(0, |mask, (_, bit)| mask | bit);
    let set = bits.iter().filter(|(wanted, _)| *wanted == Some(true)).fold(0, |set, (_, bit)| set | bit);
    let persistency = options.persistency.map(|persistency| match persistency {
        Persistency::Persistent => FacePersistency::Persistent as u64,
        Persistency::OnDemand => FacePersistency::OnDemand as u64,
        Persistency::Permanent => FacePersistency::Permanent as u64,
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
        let Some(wire) =
            patiently(&mut client, interest.lifetime_ms(LIFETIME.as_millis() as u64), LIFETIME, &ended)?
        else {
            continue;
        };
        let data = Data::check(&wire)?;
        let event = FaceEventNotification::decode(data.content())?;
        if reading.json {
            json_line(&event)?;
        } else {
            outln!("{:?} face {} {}", event.kind, event.face_id, event.uri)?;
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
fn patiently(
    client: &mut Client,
    interest: InterestBuilder,
    patience: Duration,
    ended: &signals::Ended,
) -> Result<Option<Vec<u8>>> {
    let until = client.now() + patience;
    while !ended.is_ended() && client.now() < until {
        // Asked again with a new nonce, the router keeps the pending Interest alive.
        if let Reply::Data(wire) = exchange(client, interest.clone(), Duration::from_millis(500))? {
            return Ok(Some(wire));
        }
    }
    Ok(None)
}

/// `nw route …`
pub fn route(verb: &RouteVerb) -> Done {
    match verb {
        RouteVerb::List { fib: true, reading } => {
            let mut client = connect(&reading.router)?;
            let entries: Vec<FibEntry> = decode_items(&dataset(&mut client, Dataset::FibList, None)?)?;
            if reading.json {
                entries.iter().try_for_each(json_line)?;
                return Ok(ExitCode::SUCCESS);
            }
            let mut rows = vec![row([&"prefix", &"next hops (face:cost)"])];
            for entry in &entries {
                let hops: Vec<_> =
                    entry.next_hops.iter().map(|hop| format!("{}:{}", hop.face_id, hop.cost)).collect();
                rows.push(row([&entry.name, &hops.join(" ")]));
            }
            table(&rows)?;
            Ok(ExitCode::SUCCESS)
        }
        RouteVerb::List { fib: false, reading } => routes(reading),
        RouteVerb::Add { prefix, next_hop, cost, origin, no_inherit, capture, expires, order } => {
            let mut router = commanded(order)?;
            let (client, commander) = router.parts();
            let face = face_of(client, commander, next_hop)?;
            let inherit = if *no_inherit { 0 } else { flags::CHILD_INHERIT };
            let parameters = ControlParameters {
                face_id: Some(face),
                cost: Some(*cost),
                origin: Some(origin_number(origin)?),
                flags: Some(inherit | if *capture { flags::CAPTURE } else { 0 }),
                expiration_period: *expires,
                ..ControlParameters::of(prefix.clone())
            };
            let body = commander.command(client, Verb::RibRegister, &parameters)?;
            report(&order.reading, &body, |body| {
                format!("{prefix} goes to face {} at cost {}", number(body.face_id), number(body.cost))
            })
        }
        RouteVerb::Import { file, order } => crate::routes::import(file, order),
        RouteVerb::Export { origin, reading } => crate::routes::export(origin.as_deref(), reading),
        RouteVerb::Remove { prefix, next_hop, origin, order } => {
            let mut router = commanded(order)?;
            let (client, commander) = router.parts();
            let face = existing_face(client, next_hop)?
                .with_context(|| format!("there is no face to {next_hop}"))?;
            let parameters = ControlParameters {
                face_id: Some(face),
                origin: Some(origin_number(origin)?),
                ..ControlParameters::of(prefix.clone())
            };
            let body = commander.command(client, Verb::RibUnregister, &parameters)?;
            report(&order.reading, &body, |_| format!("{prefix} does not go to face {face} any more"))
        }
    }
}

fn routes(reading: &Reading) -> Done {
    let mut client = connect(&reading.router)?;
    let entries: Vec<RibEntry> = decode_items(&dataset(&mut client, Dataset::RibList, None)?)?;
    if reading.json {
        entries.iter().try_for_each(json_line)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut rows = vec![row([&"prefix", &"face", &"cost", &"origin", &"flags", &"expires"])];
    for entry in &entries {
        for route in &entry.routes {
            let bits = [(flags::CHILD_INHERIT, "child-inherit"), (flags::CAPTURE, "capture")];
            let set: Vec<_> =
                bits.iter().filter(|(bit, _)| route.flags & bit != 0).map(|(_, word)| *word).collect();
            let origin = origin::word(route.origin).map_or_else(|| route.origin.to_string(), str::to_owned);
            let expires = route.expiration_period.map_or("-".to_owned(), |ms| format!("{} s", ms / 1000));
            rows.push(row([&entry.name, &route.face_id, &route.cost, &origin, &set.join(" "), &expires]));
        }
    }
    table(&rows)?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn origin_number(word: &str) -> Result<u64> {
    origin::from_word(word).with_context(|| {
        format!("{word} is no origin: app, static, client, autoreg, autoconf, nlsr, or a number")
    })
}

/// The face that a number or URI means, if it is there.
fn existing_face(client: &mut Client, next_hop: &str) -> Result<Option<u64>> {
    if let Ok(id) = next_hop.parse() {
        return Ok(Some(id));
    }
    let filter = FaceQueryFilter { uri: Some(canonical(next_hop)?), ..FaceQueryFilter::default() };
    let faces: Vec<FaceStatus> = decode_items(&dataset(client, Dataset::FacesQuery, Some(&filter))?)?;
    Ok(faces.first().map(|face| face.face_id))
}

/// The face that a number or URI means; made if it is not there.
pub(crate) fn face_of(client: &mut Client, commander: Commander<'_>, next_hop: &str) -> Result<u64> {
    if let Ok(id) = next_hop.parse() {
        return Ok(id);
    }
    let parameters = ControlParameters { uri: Some(canonical(next_hop)?), ..ControlParameters::default() };
    let body = match commander.command(client, Verb::FacesCreate, &parameters) {
        Ok(body) => body,
        Err(ControlError::Refused { response, .. }) if response.code == 409 => response.body,
        Err(error) => return Err(error.into()),
    };
    body.face_id.context("the router did not tell the face's id")
}

/// `nw strategy …`
pub fn strategy(verb: &StrategyVerb) -> Done {
    match verb {
        StrategyVerb::List { reading } => {
            let mut client = connect(&reading.router)?;
            let choices: Vec<StrategyChoice> =
                decode_items(&dataset(&mut client, Dataset::StrategyChoiceList, None)?)?;
            if reading.json {
                choices.iter().try_for_each(json_line)?;
                return Ok(ExitCode::SUCCESS);
            }
            let head = row([&"prefix", &"strategy"]);
            let rows: Vec<_> =
                std::iter::once(head).chain(choices.iter().map(|c| row([&c.name, &c.strategy.0]))).collect();
            table(&rows)?;
            Ok(ExitCode::SUCCESS)
        }
        StrategyVerb::Set { prefix, strategy, order } => {
            let name: Name = match strategy.starts_with('/') {
                true => strategy.parse()?,
                false => format!("/localhost/nfd/strategy/{strategy}").parse()?,
            };
            let parameters =
                ControlParameters { strategy: Some(Strategy(name)), ..ControlParameters::of(prefix.clone()) };
            give(order, Verb::StrategyChoiceSet, &parameters, |body| {
                format!(
                    "{prefix} is forwarded by {}",
                    body.strategy_name().map_or(String::new(), |name| name.to_string())
                )
            })
        }
        StrategyVerb::Unset { prefix, order } => {
            give(order, Verb::StrategyChoiceUnset, &ControlParameters::of(prefix.clone()), |_| {
                format!("{prefix} is forwarded as what is above it")
            })
        }
    }
}

/// `nw cs …`
pub fn cs(verb: &CsVerb) -> Done {
    match verb {
        CsVerb::Info { reading } => {
            let mut client = connect(&reading.router)?;
            let info = decode_cs_info(&dataset(&mut client, Dataset::CsInfo, None)?)?;
            if reading.json {
                json_line(&info)?;
                return Ok(ExitCode::SUCCESS);
            }
            let on = |bit: u64| if info.flags & bit != 0 { "yes" } else { "no" };
            table(&[
                row([&"packets", &format!("{} of {}", info.entries, info.capacity)]),
                row([&"admits", &on(flags::CS_ADMIT)]),
                row([&"serves", &on(flags::CS_SERVE)]),
                row([&"hits", &info.hits]),
                row([&"misses", &info.misses]),
            ])?;
            Ok(ExitCode::SUCCESS)
        }
        CsVerb::Config { capacity, admit, serve, order } => {
            let bits = [(*admit, flags::CS_ADMIT), (*serve, flags::CS_SERVE)];
            let mask =
                bits.iter().filter(|(wanted, _)| wanted.is_some()).fold(0, |mask, (_, bit)| mask | bit);
            let set =
                bits.iter().filter(|(wanted, _)| *wanted == Some(true)).fold(0, |set, (_, bit)| set | bit);
            if capacity.is_none() && mask == 0 {
                bail!("nothing to change: say --capacity, --admit or --serve");
            }
            let parameters = ControlParameters {
                capacity: *capacity,
                flags: (mask != 0).then_some(set),
                mask: (mask != 0).then_some(mask),
                ..ControlParameters::default()
            };
            give(order, Verb::CsConfig, &parameters, |body| {
                format!("the content store holds up to {} packets", number(body.capacity))
            })
        }
        CsVerb::Erase { prefix, count, order } => erase(order, prefix, *count),
    }
}

/// The router erases a bounded number at a time and says when more are left.
fn erase(order: &Order, prefix: &Name, count: Option<u64>) -> Done {
    let mut router = commanded(order)?;
    let (client, commander) = router.parts();
    let mut erased = 0;
    loop {
        let left = count.map(|count| count - erased);
        let parameters = ControlParameters { count: left, ..ControlParameters::of(prefix.clone()) };
        let body = commander.command(client, Verb::CsErase, &parameters)?;
        let now = body.count.unwrap_or(0);
        erased += now;
        let more = body.capacity.is_some() && now > 0 && count.is_none_or(|count| erased < count);
        if !more {
            let total = ControlParameters { count: Some(erased), ..body };
            return report(&order.reading, &total, |_| format!("{erased} packets erased"));
        }
    }
}

fn number(number: Option<u64>) -> String {
    number.map_or("?".to_owned(), |number| number.to_string())
}

fn text(text: &Option<String>) -> &str {
    text.as_deref().unwrap_or("?")
}
