//! `nw status`, `nw cs`, and what the verbs of management share.

use crate::args::{CsVerb, Order, Reading, Router, Status as StatusArgs};
use crate::connect::{connect, uri};
use crate::exit::{Failure, Status as ExitStatus};
use crate::output::{count, json_line, row, table};
use crate::shown::{self, Bits, CS_BITS};
use crate::signing::commanded;
use anyhow::{Context, Result, bail};
use nw_api::counters::{drop_reasons, dropped_and_done};
use nw_api::management::client::{Item, decode_cs_info, decode_items, decode_status};
use nw_api::management::{ControlParameters, Dataset, DropCount, FaceQueryFilter, ShardStatus, Verb, flags};
use nw_api::report::Status;
use nw_app::control::{ControlError, dataset};
use nw_app::{Client, FaceUri};
use nw_name::Name;
use nw_router::placement::{self, Machine};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::process::ExitCode;

pub(crate) type Done = Result<ExitCode>;

/// Sends a command and reports what came of it; `bits`: what flags mean in the answer.
pub(crate) fn command(
    order: &Order,
    verb: Verb,
    parameters: &ControlParameters,
    bits: Bits,
    done: impl FnOnce(&ControlParameters) -> String,
) -> Done {
    let mut router = commanded(order)?;
    let (client, commander) = router.parts();
    let body = commander.command(client, verb, parameters)?;
    report(&order.reading, shown::answer(&body, bits), || done(&body))
}

/// Prints what was done.
pub(crate) fn report(reading: &Reading, json: Value, text: impl FnOnce() -> String) -> Done {
    if reading.json {
        json_line(&json)?;
    } else {
        outln!("{}", text())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The records of a dataset.
pub(crate) fn read<T: Item>(
    client: &mut Client,
    which: Dataset,
    filter: Option<&FaceQueryFilter>,
) -> Result<Vec<T>> {
    Ok(decode_items(&dataset(client, which, filter)?)?)
}

/// The records of a dataset of the router that `reading` names.
pub(crate) fn read_of<T: Item>(reading: &Reading, which: Dataset) -> Result<Vec<T>> {
    let mut client = connect(&reading.router)?;
    dataset_of(&mut client, &reading.router, which).and_then(|content| Ok(decode_items(&content)?))
}

/// A dataset; silence of a router elsewhere is explained.
fn dataset_of(client: &mut Client, router: &Router, which: Dataset) -> Result<Vec<u8>> {
    match dataset(client, which, None) {
        Err(error @ (ControlError::Silence(_) | ControlError::Nack { .. })) => {
            let uri = uri(router)?;
            match is_local(&uri) {
                true => Err(error.into()),
                false => Err(error).context(Failure::new(
                    ExitStatus::TimedOut,
                    format!(
                        "{uri} is no way to manage a router: it answers programs of its own machine only, over its unix socket or TCP on loopback"
                    ),
                )),
            }
        }
        result => Ok(result?),
    }
}

fn is_local(uri: &FaceUri) -> bool {
    match uri {
        FaceUri::Unix(_) | FaceUri::Shm(_) => true,
        FaceUri::Tcp(address) | FaceUri::Ws(address) => address.ip().to_canonical().is_loopback(),
        _ => false,
    }
}

/// `nw status`
pub fn status(args: &StatusArgs) -> Done {
    if args.hardware {
        return hardware(args.reading.json);
    }
    let mut client = connect(&args.reading.router)?;
    let status = gather(&mut client, &args.reading.router)?;
    if args.drops {
        return drops(&status, args.reading.json);
    }
    if args.shards {
        return shards(&status, args.reading.json);
    }
    if args.reading.json {
        json_line(&shown::status(&status))?;
        return Ok(ExitCode::SUCCESS);
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

fn gather(client: &mut Client, router: &Router) -> Result<Status> {
    let forwarder = decode_status(&dataset_of(client, router, Dataset::StatusGeneral)?)?;
    // Ours alone; other routers don't answer.
    let drops = match dataset(client, Dataset::StatusDrops, None) {
        Ok(content) => Some(decode_items(&content)?),
        Err(error) if error.is_unknown() => None,
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
    // Not every router has channels.
    let channels = match dataset(client, Dataset::FacesChannels, None) {
        Ok(content) => decode_items(&content)?,
        Err(error) if error.is_unknown() => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    Ok(Status {
        forwarder,
        content_store: decode_cs_info(&dataset(client, Dataset::CsInfo, None)?)?,
        faces: decode_items(&dataset(client, Dataset::FacesList, None)?)?,
        channels,
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
fn hardware(json: bool) -> Done {
    let machine = Machine::here();
    if json {
        json_line(&machine_value(&machine))?;
        return Ok(ExitCode::SUCCESS);
    }
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

/// The machine as a JSON object; `placement`: processors of so many threads that forward.
fn machine_value(machine: &Machine) -> Value {
    let cpus = machine.cpus.iter().map(|cpu| {
        json!({ "id": cpu.id, "socket": cpu.core.0, "core": cpu.core.1, "memory_node": cpu.node, "cache": cpu.cache,
            "allowed": cpu.allowed })
    });
    let cards = machine.cards.iter().map(|card| {
        json!({ "name": card.name, "memory_node": card.node, "receive_queues": card.queues, "interrupts": card.interrupts })
    });
    let threads = machine.shards();
    let placement: BTreeMap<usize, Vec<usize>> =
        [threads.max(2), 2 * threads].into_iter().map(|count| (count, machine.place(count))).collect();
    json!({ "cpus": cpus.collect::<Vec<_>>(), "cards": cards.collect::<Vec<_>>(), "threads": threads,
        "rule": placement::RULE, "placement": placement })
}

fn shards(status: &Status, json: bool) -> Done {
    if json {
        status.shards.iter().try_for_each(json_line)?;
        return Ok(ExitCode::SUCCESS);
    }
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

/// Packets that were dropped, and those that had done their work: an Interest that the content store answered is not forwarded.
fn drops(status: &Status, json: bool) -> Done {
    let reasons = drop_reasons();
    let meaning = |name: &str| {
        reasons.iter().find(|reason| reason.name == name).map_or("", |reason| reason.explanation)
    };
    let (done, dropped): (Vec<&DropCount>, Vec<&DropCount>) =
        status.drops.iter().partition(|drop| is_done(&drop.reason));
    if json {
        for drop in dropped.iter().chain(&done) {
            let is_loss = !is_done(&drop.reason);
            json_line(
                &json!({ "reason": drop.reason, "count": drop.count, "is_loss": is_loss, "meaning": meaning(&drop.reason) }),
            )?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    for (head, drops) in [("dropped", dropped), ("done", done)] {
        if head == "done" {
            if drops.is_empty() {
                break;
            }
            outln!()?;
        }
        let mut rows = vec![row([&head, &"reason", &"meaning"])];
        rows.extend(drops.iter().map(|drop| row([&drop.count, &drop.reason, &meaning(&drop.reason)])));
        table(&rows)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// True for packets that ended because their work was done.
pub(crate) fn is_done(reason: &str) -> bool {
    dropped_and_done([(reason, 1)]) == (0, 1)
}

/// `nw cs …`
pub fn cs(verb: &CsVerb) -> Done {
    match verb {
        CsVerb::Info { reading } => {
            let mut client = connect(&reading.router)?;
            let info = decode_cs_info(&dataset(&mut client, Dataset::CsInfo, None)?)?;
            if reading.json {
                json_line(&shown::cs_info(&info))?;
                return Ok(ExitCode::SUCCESS);
            }
            let on = |bit: u64| if info.flags & bit != 0 { "yes" } else { "no" };
            table(&[
                row([&"packets", &format!("{} of {}", info.entries, info.capacity)]),
                row([&"caching new Data", &on(flags::CS_ADMIT)]),
                row([&"answering from cache", &on(flags::CS_SERVE)]),
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
            let asked = *capacity;
            command(order, Verb::CsConfig, &parameters, CS_BITS, |body| cs_changed(asked, body))
        }
        CsVerb::Erase { prefix, count, order } => erase(order, prefix, *count),
    }
}

/// The router erases a bounded number at a time and says when more are left.
fn erase(order: &Order, prefix: &Name, most: Option<u64>) -> Done {
    let mut router = commanded(order)?;
    let (client, commander) = router.parts();
    let mut erased = 0;
    loop {
        let left = most.map(|most| most - erased);
        let parameters = ControlParameters { count: left, ..ControlParameters::of(prefix.clone()) };
        let body = commander.command(client, Verb::CsErase, &parameters)?;
        let now = body.count.unwrap_or(0);
        erased += now;
        let more = body.capacity.is_some() && now > 0 && most.is_none_or(|most| erased < most);
        if !more {
            let total = ControlParameters { count: Some(erased), ..body };
            return report(&order.reading, shown::answer(&total, CS_BITS), || {
                format!("{} erased", count(erased, "packet"))
            });
        }
    }
}

/// What the content store does from now on.
fn cs_changed(asked: Option<u64>, body: &ControlParameters) -> String {
    let mut words = Vec::new();
    if let Some(capacity) = body.capacity {
        let bounded = asked.filter(|asked| *asked != capacity).map_or(String::new(), |asked| {
            format!(" ({asked} are more than it may have: content_store.capacity at the router's start)")
        });
        words.push(format!("capacity {}{bounded}", count(capacity, "packet")));
    }
    if let Some(set) = body.flags {
        let on = |bit: u64| if set & bit != 0 { "yes" } else { "no" };
        words.push(format!("caching new Data: {}", on(flags::CS_ADMIT)));
        words.push(format!("answering from cache: {}", on(flags::CS_SERVE)));
    }
    format!("content store: {}", words.join(", "))
}
