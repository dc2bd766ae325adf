//! `nw status`: state and counters of a router, its drops, its shards, or this machine's hardware.

use crate::args::flags::RouterArgs;
use crate::args::tools::StatusArgs;
use crate::connect::connect;
use crate::management::{CommandResult, fetch_dataset};
use crate::output::{json_line, row, table};
use crate::render;
use anyhow::Result;
use nw_api::counters::{drop_reasons, dropped_and_done};
use nw_api::management::client::{decode_cs_info, decode_items, decode_status};
use nw_api::management::{Dataset, DropCount, ShardStatus};
use nw_api::report::Status;
use nw_app::Client;
use nw_app::control::dataset;
use nw_router::placement::{self, Machine};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::process::ExitCode;

/// Runs `nw status`.
pub fn status(args: &StatusArgs) -> CommandResult {
    if args.hardware {
        return hardware(args.query.json);
    }
    let mut client = connect(&args.query.router)?;
    let status = gather(&mut client, &args.query.router)?;
    if args.drops {
        return drops(&status, args.query.json);
    }
    if args.shards {
        return shards(&status, args.query.json);
    }
    if args.query.json {
        json_line(&render::status(&status))?;
        return Ok(ExitCode::SUCCESS);
    }
    let (forwarder, cs) = (&status.forwarder, &status.content_store);
    let up_s = forwarder.current_timestamp.saturating_sub(forwarder.start_timestamp) / 1000;
    let hit_share = match cs.hits + cs.misses {
        0 => "-".to_owned(),
        lookups => format!("{:.1} %", cs.hits as f64 * 100.0 / lookups as f64),
    };
    let total = forwarder.satisfied_interests + forwarder.unsatisfied_interests;
    let mut rows = vec![
        row([&"version", &forwarder.version]),
        row([
            &"up",
            &format!(
                "{} d {:02}:{:02}:{:02}",
                up_s / 86_400,
                up_s / 3600 % 24,
                up_s / 60 % 60,
                up_s % 60
            ),
        ]),
        row([
            &"listens",
            &status.channels.iter().map(|c| c.local_uri.as_str()).collect::<Vec<_>>().join(" "),
        ]),
        row([&"faces", &status.faces.len()]),
        row([&"shards", &describe_shards(&status.shards)]),
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
        row([&"dropped", &describe_drops(&status.drops)]),
    ];
    if !status.xdp.is_empty() {
        let interfaces: Vec<_> = status.xdp.iter().map(ToString::to_string).collect();
        // After the row of shards.
        rows.insert(5, row([&"AF_XDP", &interfaces.join("; ")]));
    }
    table(&rows)?;
    Ok(ExitCode::SUCCESS)
}

fn gather(client: &mut Client, router: &RouterArgs) -> Result<Status> {
    let forwarder = decode_status(&fetch_dataset(client, router, Dataset::StatusGeneral)?)?;
    // An extension of Namewire: other routers report it as unknown.
    let drops = match dataset(client, Dataset::StatusDrops, None) {
        Ok(content) => Some(decode_items(&content)?),
        Err(error) if error.is_unknown() => None,
        Err(error) => return Err(error.into()),
    };
    let shards = match drops {
        Some(_) => decode_items(&dataset(client, Dataset::StatusShards, None)?)?,
        None => Vec::new(),
    };
    // Added in a later version than the other datasets.
    let xdp = match drops {
        Some(_) => dataset(client, Dataset::StatusXdp, None)
            .ok()
            .map(|content| decode_items(&content))
            .transpose()?,
        None => None,
    };
    // Optional: not every router has this dataset.
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

fn describe_drops(drops: &[DropCount]) -> String {
    let (dropped, done) =
        dropped_and_done(drops.iter().map(|drop| (drop.reason.as_str(), drop.count)));
    format!("{dropped} packets, besides {done} that had done their work (--drops shows reasons)")
}

/// Returns the busiest shard's share of all packets, and the share with even load. `None` before
/// the first packet.
fn busiest_share(shards: &[ShardStatus]) -> Option<(f64, f64)> {
    let total: u64 = shards.iter().map(|shard| shard.packets).sum();
    let busiest = shards.iter().map(|shard| shard.packets).max()?;
    (total > 0).then(|| (busiest as f64 / total as f64, 1.0 / shards.len() as f64))
}

fn describe_shards(shards: &[ShardStatus]) -> String {
    match (shards.len(), busiest_share(shards)) {
        (0, _) => "-".to_owned(),
        (1, _) | (_, None) => shards.len().to_string(),
        (count, Some((busiest, even))) => {
            let (busiest, even) = (busiest * 100.0, even * 100.0);
            format!(
                "{count}; the busiest has {busiest:.1} % of packets, an even share is {even:.1} % \
                 (--shards shows each)"
            )
        }
    }
}

/// Prints the hardware of this machine. Needs no running router.
fn hardware(json: bool) -> CommandResult {
    let machine = Machine::detect();
    if json {
        json_line(&machine_value(&machine))?;
        return Ok(ExitCode::SUCCESS);
    }
    out!("{machine}")?;
    let shards = machine.shards();
    outln!("threads: {shards} by default; forwarder.shards or --shards changes it")?;
    outln!("placement rule: {}", placement::RULE)?;
    for count in [shards.max(2), 2 * shards].into_iter().collect::<std::collections::BTreeSet<_>>()
    {
        let cpus: Vec<String> = machine.assign_cpus(count).iter().map(usize::to_string).collect();
        outln!("{count} threads: processors {}", cpus.join(" "))?;
    }
    outln!(
        "a single thread is not pinned; forwarder.cpus selects processors, forwarder.pin = false \
         pins none"
    )?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the hardware as a JSON object. `placement` maps numbers of forwarding threads to their
/// processors.
fn machine_value(machine: &Machine) -> Value {
    let cpus = machine.cpus.iter().map(|cpu| {
        json!({
            "id": cpu.id,
            "socket": cpu.core.0,
            "core": cpu.core.1,
            "memory_node": cpu.node,
            "cache": cpu.cache,
            "allowed": cpu.allowed,
        })
    });
    let cards = machine.cards.iter().map(|card| {
        json!({
            "name": card.name,
            "memory_node": card.node,
            "receive_queues": card.queues,
            "interrupts": card.interrupts,
        })
    });
    let threads = machine.shards();
    let placement: BTreeMap<usize, Vec<usize>> = [threads.max(2), 2 * threads]
        .into_iter()
        .map(|count| (count, machine.assign_cpus(count)))
        .collect();
    json!({
        "cpus": cpus.collect::<Vec<_>>(),
        "cards": cards.collect::<Vec<_>>(),
        "threads": threads,
        "rule": placement::RULE,
        "placement": placement,
    })
}

fn shards(status: &Status, json: bool) -> CommandResult {
    if json {
        status.shards.iter().try_for_each(json_line)?;
        return Ok(ExitCode::SUCCESS);
    }
    let up_ns = status.forwarder.current_timestamp.saturating_sub(status.forwarder.start_timestamp)
        * 1_000_000;
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
        let waiting = format!("{} bytes", shard.waiting_bytes);
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

/// Prints dropped packets by reason, then packets whose work was done: an Interest that the content
/// store answers, for example, is not forwarded.
fn drops(status: &Status, json: bool) -> CommandResult {
    let reasons = drop_reasons();
    let meaning = |name: &str| {
        reasons.iter().find(|reason| reason.name == name).map_or("", |reason| reason.explanation)
    };
    let (done, dropped): (Vec<&DropCount>, Vec<&DropCount>) =
        status.drops.iter().partition(|drop| is_done(&drop.reason));
    if json {
        for drop in dropped.iter().chain(&done) {
            let is_loss = !is_done(&drop.reason);
            json_line(&json!({
                "reason": drop.reason,
                "count": drop.count,
                "is_loss": is_loss,
                "meaning": meaning(&drop.reason),
            }))?;
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
        rows.extend(
            drops.iter().map(|drop| row([&drop.count, &drop.reason, &meaning(&drop.reason)])),
        );
        table(&rows)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns whether a drop reason stands for packets whose work was done, which is no loss.
pub(crate) fn is_done(reason: &str) -> bool {
    dropped_and_done([(reason, 1)]) == (0, 1)
}
