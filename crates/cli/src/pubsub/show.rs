//! `nw pubsub status`, `graph`, `top` and `trace`.

use crate::exit::not_found;
use crate::output::{self, count, fitting_table, row, table};
use crate::signals::StopFlag;
use anyhow::{Context, Result};
use core::time::Duration;
use nw_api::pubsub::ItemName;
use nw_api::pubsub::status::{Delivery, ItemStatus, NameTrace, PubSubStatus};
use nw_app::pubsub::{PubSubOptions, query};
use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;

fn read(options: &PubSubOptions) -> Result<(String, PubSubStatus)> {
    let json = query(options, "status")?;
    let status = serde_json::from_str(&json).context("the node's status can't be read")?;
    Ok((json, status))
}

/// Shows the status.
pub fn status(options: &PubSubOptions, json: bool) -> Result<ExitCode> {
    let (text, status) = read(options)?;
    if json {
        outln!("{text}")?;
        return Ok(ExitCode::SUCCESS);
    }
    let node = if status.node.is_empty() { "no domain" } else { &status.node };
    let mut rows = vec![
        row([&"node", &node]),
        row([&"applications", &status.applications.len()]),
        row([&"items", &(status.items.len() as u64 + status.items_omitted)]),
        row([
            &"last values kept",
            &format!(
                "{} ({} bytes), {} dropped",
                status.last_values, status.last_values_bytes, status.last_values_dropped
            ),
        ]),
        row([&"requests refused", &status.refusals]),
        row([&"faulty applications", &status.faults]),
    ];
    if !status.node.is_empty() {
        let domain = &status.domain;
        let dropped = domain.duplicates
            + domain.unwanted
            + domain.hop_limit
            + domain.fill_limit
            + domain.invalid
            + domain.send_errors;
        rows.push(row([&"other nodes", &status.nodes.len()]));
        rows.push(row([
            &"packets",
            &format!(
                "{} sent, {} received, {} forwarded, {dropped} dropped",
                domain.sent, domain.received, domain.forwarded
            ),
        ]));
        rows.push(row([
            &"from other nodes",
            &format!(
                "{} delivered, {} lost, {} repaired",
                domain.delivered, domain.lost, domain.repaired
            ),
        ]));
    }
    table(&rows)?;
    applications(&status)?;
    items(&status)?;
    nodes(&status)?;
    ethernet_links(&status)?;
    Ok(ExitCode::SUCCESS)
}

fn applications(status: &PubSubStatus) -> Result<()> {
    let mut rows = vec![row([
        &"application",
        &"program",
        &"pid",
        &"items",
        &"delivered",
        &"lost",
        &"subscribes to",
    ])];
    for app in &status.applications {
        rows.push(row([
            &app.session,
            &app.program,
            &app.pid,
            &app.items,
            &app.delivered,
            &app.lost,
            &shortened(&app.subscriptions),
        ]));
    }
    outln!()?;
    fitting_table(&rows, &[2])
}

fn shortened(patterns: &[String]) -> String {
    let shown = patterns.iter().take(3).cloned().collect::<Vec<_>>().join(" ");
    match patterns.len() {
        0..=3 => shown,
        len => format!("{shown} and {} more", len - 3),
    }
}

/// Returns the choice of an item's publishers as text, with the strength of this one and whether it
/// stands by. Empty without a choice.
fn choice(item: &ItemStatus) -> String {
    let strength = match item.choice.as_str() {
        "strongest" => format!(" {}", item.strength),
        _ => String::new(),
    };
    format!("{}{strength}{}", item.choice, if item.standby { ", standby" } else { "" })
}

fn with_choice(text: String, item: &ItemStatus) -> String {
    if item.choice.is_empty() { text } else { format!("{text}, {}", choice(item)) }
}

/// Adds a column with the choices of items, if any has one.
fn add_choices(rows: &mut [Vec<String>], items: &[ItemStatus]) {
    if items.iter().all(|item| item.choice.is_empty()) {
        return;
    }
    let column = core::iter::once("serves".to_owned()).chain(items.iter().map(choice));
    rows.iter_mut().zip(column).for_each(|(row, text)| row.push(text));
}

fn items(status: &PubSubStatus) -> Result<()> {
    let mut rows = vec![row([&"item", &"publisher", &"published", &"subscribers", &"nodes"])];
    for item in &status.items {
        let publisher = match item.node.as_str() {
            "" => item.session.to_string(),
            node => node.to_owned(),
        };
        rows.push(row([&item.name, &publisher, &item.published, &item.subscribers, &item.nodes]));
    }
    add_choices(&mut rows, &status.items);
    outln!()?;
    fitting_table(&rows, &[])?;
    if status.items_omitted > 0 {
        outln!("and {}", count(status.items_omitted, "more item"))?;
    }
    Ok(())
}

fn nodes(status: &PubSubStatus) -> Result<()> {
    if status.nodes.is_empty() {
        return Ok(());
    }
    let mut rows = vec![row([&"other node", &"hops", &"address", &"subscribes to"])];
    for node in &status.nodes {
        rows.push(row([&node.node, &node.hops, &node.address, &shortened(&node.subscriptions)]));
    }
    outln!()?;
    fitting_table(&rows, &[])
}

fn ethernet_links(status: &PubSubStatus) -> Result<()> {
    if status.ethernet.is_empty() {
        return Ok(());
    }
    let header = ["ethernet", "sockets", "queues", "received", "sent", "lost"];
    let mut rows = vec![header.map(str::to_owned).to_vec()];
    for link in &status.ethernet {
        rows.push(match &link.af_xdp {
            Some(xdp) => {
                let sockets = format!("AF_XDP ({}, {})", xdp.mode, xdp.memory);
                row([&link.interface, &sockets, &xdp.queues, &xdp.received, &xdp.sent, &xdp.lost])
            }
            None => row([&link.interface, &"packet", &"", &"", &"", &""]),
        });
    }
    outln!()?;
    fitting_table(&rows, &[])
}

/// A scope or item of the tree.
#[derive(Default)]
struct Vertex {
    children: BTreeMap<String, Vertex>,
    /// What is known of the item, if it is one; strategy of a published scope.
    label: Option<String>,
    /// Scopes and items that are under this scope, too, with their first names.
    further: Vec<String>,
}

impl Vertex {
    /// Returns the vertex at a path below this one, which is made if needed.
    fn at(&mut self, path: &str) -> &mut Vertex {
        let components = path.split('/').skip(1);
        components.fold(self, |vertex, component| {
            vertex.children.entry(component.to_owned()).or_default()
        })
    }

    fn add_label(&mut self, label: String) {
        let known = self.label.take();
        self.label = Some(known.map_or(label.clone(), |known| format!("{known}; {label}")));
    }
}

/// Shows scopes and items as a tree.
pub fn graph(options: &PubSubOptions, dot: bool) -> Result<ExitCode> {
    let (_, status) = read(options)?;
    let mut root = Vertex::default();
    for item in &status.items {
        let publisher = match item.node.as_str() {
            "" => format!("application {}", item.session),
            node => format!("node {node}"),
        };
        let label = format!(
            "{publisher}, {} published, {}",
            item.published,
            count(item.subscribers + item.nodes, "subscriber")
        );
        let label = with_choice(label, item);
        root.at(&item.name).add_label(label);
    }
    for scope in &status.scopes {
        let vertex = root.at(&scope.name);
        if !scope.strategy.is_empty() {
            vertex.add_label(format!("strategy {}", scope.strategy));
        }
        for parent in &scope.parents {
            root.at(parent).further.push(scope.name.clone());
        }
    }
    if dot {
        outln!("digraph pubsub {{\n  rankdir=LR;\n  \"/\";")?;
        write_dot(&root, "")?;
        outln!("}}")?;
    } else {
        outln!("/")?;
        write_tree(&root, "")?;
    }
    Ok(ExitCode::SUCCESS)
}

fn write_tree(vertex: &Vertex, indent: &str) -> Result<()> {
    let last = (vertex.children.len() + vertex.further.len()).saturating_sub(1);
    for (at, (name, child)) in vertex.children.iter().enumerate() {
        let (branch, below) = if at == last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        let label = child.label.as_ref().map_or(String::new(), |label| format!(": {label}"));
        outln!("{indent}{branch}{name}{label}")?;
        write_tree(child, &format!("{indent}{below}"))?;
    }
    for (at, first) in vertex.further.iter().enumerate() {
        let branch = if vertex.children.len() + at == last { "└─ " } else { "├─ " };
        let label = first.rsplit('/').next().unwrap_or_default();
        outln!("{indent}{branch}{label} = {first}")?;
    }
    Ok(())
}

fn write_dot(vertex: &Vertex, path: &str) -> Result<()> {
    for (name, child) in &vertex.children {
        let own = format!("{path}/{name}");
        let parent = if path.is_empty() { "/" } else { path };
        let shape = if child.label.is_some() { "box" } else { "ellipse" };
        let label = child.label.as_deref().unwrap_or_default();
        outln!("  {own:?} [shape={shape}, label={name:?}, tooltip={label:?}];")?;
        outln!("  {parent:?} -> {own:?};")?;
        write_dot(child, &own)?;
    }
    for first in &vertex.further {
        outln!("  {path:?} -> {first:?} [style=dashed];")?;
    }
    Ok(())
}

/// Shows rates at an interval.
pub fn top(options: &PubSubOptions, interval_ms: u64, limit: Option<u64>) -> Result<ExitCode> {
    let stop = StopFlag::watch()?;
    let is_terminal = std::io::stdout().is_terminal();
    let (_, mut before) = read(options)?;
    let mut shown = 0;
    while !stop.is_set() && limit.is_none_or(|limit| shown < limit) {
        let mut waited = 0;
        while waited < interval_ms && !stop.is_set() {
            let slice = (interval_ms - waited).min(100);
            std::thread::sleep(Duration::from_millis(slice));
            waited += slice;
        }
        let (_, now) = read(options)?;
        if is_terminal {
            output::stdout().write_all(b"\x1b[H\x1b[2J")?;
        }
        rates(&before, &now, interval_ms)?;
        output::stdout().flush()?;
        before = now;
        shown += 1;
    }
    Ok(ExitCode::SUCCESS)
}

fn rates(before: &PubSubStatus, now: &PubSubStatus, interval_ms: u64) -> Result<()> {
    let per_s = |now: u64, before: u64| now.saturating_sub(before) * 1000 / interval_ms;
    let mut rows = vec![row([&"item", &"published/s", &"subscribers", &"nodes"])];
    let known: BTreeMap<_, _> = before
        .items
        .iter()
        .map(|item| ((&item.name, item.session, &item.node), item.published))
        .collect();
    for item in &now.items {
        let key = (&item.name, item.session, &item.node);
        let rate = per_s(item.published, known.get(&key).copied().unwrap_or(0));
        rows.push(row([&item.name, &rate, &item.subscribers, &item.nodes]));
    }
    add_choices(&mut rows, &now.items);
    fitting_table(&rows, &[])?;
    let known: BTreeMap<_, _> =
        before.applications.iter().map(|app| (app.session, (app.delivered, app.lost))).collect();
    let mut rows = vec![row([&"application", &"program", &"delivered/s", &"lost/s", &"lost"])];
    for app in &now.applications {
        let (delivered, lost) = known.get(&app.session).copied().unwrap_or_default();
        rows.push(row([
            &app.session,
            &app.program,
            &per_s(app.delivered, delivered),
            &per_s(app.lost, lost),
            &app.lost,
        ]));
    }
    fitting_table(&rows, &[])?;
    Ok(outln!()?)
}

/// Shows what becomes of publications under a name.
pub fn trace(options: &PubSubOptions, name: &ItemName, json: bool) -> Result<ExitCode> {
    let text = query(options, &format!("trace {name}"))?;
    let trace: NameTrace = serde_json::from_str(&text).context("the node's trace can't be read")?;
    if json {
        outln!("{text}")?;
        return Ok(ExitCode::SUCCESS);
    }
    match trace.rule {
        Some(rule) => outln!("{name}: rule {rule} of the configuration decides")?,
        None => outln!("{name}: for all; no pubsub_rule matches")?,
    }
    for publisher in &trace.publishers {
        let origin = match publisher.item.node.as_str() {
            "" => format!("application {}", publisher.item.session),
            node => format!("node {node}"),
        };
        let published = format!("published by {origin}: {} so far", publisher.item.published);
        outln!("{}", with_choice(published, &publisher.item))?;
        for subscriber in &publisher.subscribers {
            let by = match subscriber.delivery {
                Delivery::Ring => "reads the publisher's ring",
                Delivery::Messages => "gets messages from the node",
            };
            outln!("  to application {} ({}): {by}", subscriber.session, subscriber.program)?;
        }
        for link in &publisher.links {
            outln!("  by link {}", link.replace(' ', " → "))?;
        }
        for stages in &publisher.stages {
            let links: Vec<String> = stages.links.iter().map(ToString::to_string).collect();
            let other_links = match stages.other_links {
                0 => String::new(),
                links => format!("; matches {} more", count(links, "link")),
            };
            outln!(
                "  in {} stages ({} bytes): {} links by distance{other_links}",
                stages.links.len() + 1,
                stages.bytes,
                links.join(", ")
            )?;
        }
        for path in &publisher.paths {
            outln!("  forwarding identifier {path}")?;
        }
    }
    for session in &trace.refused {
        outln!("not to application {session}: the rule does not let it subscribe")?;
    }
    match trace.publishers.is_empty() {
        true => Err(not_found(format!(
            "nothing publishes {name}; {} would match",
            count(trace.matching.len() as u64, "subscription")
        ))),
        false => Ok(ExitCode::SUCCESS),
    }
}
