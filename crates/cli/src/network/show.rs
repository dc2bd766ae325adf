//! Commands that show a network: map, plans, versions, events.

use super::locate::DocumentFile;
use crate::exit::Status;
use crate::observe::http::{self, ControlAddress, Method, Response};
use crate::output;
use anyhow::{Context, Result};
use nw_api::network::{
    AuditEntry, DocumentText, DocumentVersion, InstanceDetail, InstanceLog, NetworkEvent,
    NetworkEventKind, NetworkGraph, NetworkPlan, NetworkRoute, NetworkState, NetworkStatus,
    PlanRequest, ServiceScale,
};
use std::fmt::Display;
use std::io::{BufRead, BufReader, ErrorKind};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Interval at which the state is looked for while events are printed.
const STATE_INTERVAL: Duration = Duration::from_millis(50);
/// Failures in a row after which waiting for a network ends.
const FAILURES_MAX: usize = 3;
/// Lines around a difference.
const CONTEXT_LINES: usize = 2;

/// Shows the whole network.
pub fn network(address: &ControlAddress, is_json: bool) -> Result<()> {
    let graph: NetworkGraph = http::request_json(address, Method::Get, "/v1/graph", None)?;
    if is_json {
        return output::json_line(&graph);
    }
    outln!("{}: version {}, {}", graph.network, graph.version, graph.state.as_str())?;
    for condition in &graph.conditions {
        outln!("  {}: {}: {}", condition.subject, condition.kind, condition.reason)?;
    }
    let mut rows = vec![output::row([&"service", &"instances", &"bounds", &"why"])];
    rows.extend(graph.services.iter().map(|service| {
        let reason = if service.pinned { "set by a person" } else { "" };
        let reason = service.reason.as_deref().filter(|_| !service.pinned).unwrap_or(reason);
        let running = format!("{} of {}", service.running, service.wanted);
        let bounds = format!("{}..{}", service.min, service.max);
        output::row([&service.name, &running, &bounds, &reason])
    }));
    output::table(&rows)?;
    let defences = super::defence::read(address)?;
    if !defences.is_empty() {
        super::defence::table(&defences)?;
    }
    let titles: [&dyn Display; 8] =
        [&"instance", &"host", &"state", &"cpu", &"Interests/s", &"dropped/s", &"pending", &"pid"];
    let mut rows = vec![output::row(titles)];
    rows.extend(graph.instances.iter().map(|instance| {
        let cpu = format!("{:.1} %", 100.0 * instance.cpu_cores);
        let rate = format!("{:.0}", instance.rates.interests);
        let dropped = format!("{:.0}", instance.rates.dropped);
        let pid = instance.pid.map_or_else(|| "-".to_owned(), |pid| pid.to_string());
        let state = format!("{:?}", instance.state).to_lowercase();
        let cells: [&dyn Display; 8] = [
            &instance.name,
            &instance.host,
            &state,
            &cpu,
            &rate,
            &dropped,
            &instance.pending,
            &pid,
        ];
        output::row(cells)
    }));
    output::table(&rows)?;
    let mut rows = vec![output::row([&"link", &"to", &"kind", &"up", &"Interests/s", &"Data/s"])];
    rows.extend(graph.links.iter().map(|link| {
        let forward = format!("{:.0}", link.forward.interests);
        let backward = format!("{:.0}", link.backward.data);
        output::row([
            &link.from.instance,
            &link.to.instance,
            &link.kind,
            &link.up,
            &forward,
            &backward,
        ])
    }));
    output::table(&rows)
}

/// Shows one instance.
pub fn instance(address: &ControlAddress, name: &str, is_json: bool) -> Result<()> {
    let path = format!("/v1/instances/{}", http::escape(name));
    let detail: InstanceDetail = http::request_json(address, Method::Get, &path, None)?;
    if is_json {
        return output::json_line(&detail);
    }
    let shown = &detail.instance;
    outln!("{} on {}: {}", shown.name, shown.host, format!("{:?}", shown.state).to_lowercase())?;
    if let Some(reason) = &shown.reason {
        outln!("  {reason}")?;
    }
    if let Some(control) = &detail.control {
        outln!("  control socket {control}")?;
    }
    for element in &shown.elements {
        let values: Vec<String> =
            element.values.iter().map(|(name, value)| format!("{name} {value}")).collect();
        outln!("  {} ({}): {}", element.name, element.element, values.join(", "))?;
    }
    let graph = detail.graph.or(detail.wanted_graph).unwrap_or_default();
    Ok(out!("{graph}")?)
}

/// Shows the end of an instance's log.
pub fn logs(address: &ControlAddress, name: &str, lines: u64) -> Result<()> {
    let path = format!("/v1/instances/{}/logs?lines={lines}", http::escape(name));
    let log: InstanceLog = http::request_json(address, Method::Get, &path, None)?;
    log.lines.iter().try_for_each(|line| Ok(outln!("{line}")?))
}

/// Shows what a document would change.
pub fn plan(address: &ControlAddress, file: Option<&Path>, is_json: bool) -> Result<()> {
    let file = file.map(DocumentFile::read).transpose()?;
    let (text, folder) = file.map(|file| (file.text, file.folder)).unzip();
    let request = serde_json::to_value(PlanRequest { text, folder, ..PlanRequest::default() })?;
    let plan: NetworkPlan = http::request_json(address, Method::Post, "/v1/plan", Some(&request))?;
    if is_json {
        return output::json_line(&plan);
    }
    if plan.steps.is_empty() {
        return Ok(outln!("nothing needs to be done")?);
    }
    outln!("plan {} with {} steps; nothing has changed yet", plan.id, plan.steps.len())?;
    let mut rows = vec![output::row([&"step", &"what", &"instance", &"host", &"why"])];
    rows.extend(plan.steps.iter().map(|step| {
        output::row([&step.id, &step.phase, &step.instance, &step.host, &step.reason])
    }));
    output::table(&rows)
}

/// Compares a document with the one in effect. The exit status is 1 if they differ.
pub fn diff(
    address: &ControlAddress,
    file: Option<&Path>,
    version: Option<u64>,
) -> Result<ExitCode> {
    let status: NetworkStatus = http::request_json(address, Method::Get, "/v1/network", None)?;
    let text_of = |version: u64| -> Result<String> {
        let path = format!("/v1/history/{version}");
        let text: DocumentText = http::request_json(address, Method::Get, &path, None)?;
        Ok(text.text)
    };
    let (old, new) = match (file, version) {
        (Some(file), None) => (status.text, DocumentFile::read(file)?.text),
        (Some(file), Some(version)) => (text_of(version)?, DocumentFile::read(file)?.text),
        (None, Some(version)) => (text_of(version)?, status.text),
        (None, None) if status.version > 1 => (text_of(status.version - 1)?, status.text),
        (None, None) => (String::new(), status.text),
    };
    let lines = differences(&old, &new);
    lines.iter().try_for_each(|line| outln!("{line}"))?;
    Ok(if lines.is_empty() { Status::Done } else { Status::Failed }.into())
}

/// Returns the lines that differ, with `-` and `+`, and some lines around them. Lines at the begin
/// and the end that are the same are left out; between the first and the last difference the
/// longest common sequence is found.
fn differences(old: &str, new: &str) -> Vec<String> {
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let same = |pairs: &mut dyn Iterator<Item = (&&str, &&str)>| {
        pairs.take_while(|(left, right)| left == right).count()
    };
    let head = same(&mut old.iter().zip(&new));
    if head == old.len() && head == new.len() {
        return Vec::new();
    }
    let tail = same(&mut old[head..].iter().rev().zip(new[head..].iter().rev()));
    let (old_end, new_end) = (old.len() - tail, new.len() - tail);
    let mut lines: Vec<String> = old[head.saturating_sub(CONTEXT_LINES)..head]
        .iter()
        .map(|line| format!("  {line}"))
        .collect();
    lines.extend(changed(&old[head..old_end], &new[head..new_end]));
    let after = &old[old_end..(old_end + CONTEXT_LINES).min(old.len())];
    lines.extend(after.iter().map(|line| format!("  {line}")));
    lines
}

/// Longest product of line counts for which a common sequence is looked for.
const TABLE_CELLS_MAX: usize = 4_000_000;

fn changed(old: &[&str], new: &[&str]) -> Vec<String> {
    let removed = |line: &&str| format!("- {line}");
    let added = |line: &&str| format!("+ {line}");
    let width = new.len() + 1;
    if (old.len() + 1) * width > TABLE_CELLS_MAX {
        return old.iter().map(removed).chain(new.iter().map(added)).collect();
    }
    // Length of the longest common sequence of the rests from (row, column) on.
    let mut common = vec![0_u32; (old.len() + 1) * width];
    for row in (0..old.len()).rev() {
        for column in (0..new.len()).rev() {
            let (right, below) = (row * width + column + 1, (row + 1) * width + column);
            common[row * width + column] = match old[row] == new[column] {
                true => common[below + 1] + 1,
                false => common[right].max(common[below]),
            };
        }
    }
    let (mut row, mut column, mut lines) = (0, 0, Vec::new());
    while row < old.len() || column < new.len() {
        if row < old.len() && column < new.len() && old[row] == new[column] {
            lines.push(format!("  {}", old[row]));
            (row, column) = (row + 1, column + 1);
        } else if column == new.len()
            || row < old.len()
                && common[(row + 1) * width + column] >= common[row * width + column + 1]
        {
            lines.push(removed(&old[row]));
            row += 1;
        } else {
            lines.push(added(&new[column]));
            column += 1;
        }
    }
    lines
}

/// Lists the versions of the document.
pub fn history(address: &ControlAddress, is_json: bool) -> Result<()> {
    let versions: Vec<DocumentVersion> =
        http::request_json(address, Method::Get, "/v1/history", None)?;
    if is_json {
        return versions.iter().try_for_each(output::json_line);
    }
    let mut rows = vec![output::row([&"version", &"time", &"by", &"digest", &"why"])];
    rows.extend(versions.iter().map(|version| {
        let number = format!("{}{}", version.version, if version.current { " *" } else { "" });
        let time = clock(version.at_ms);
        output::row([&number, &time, &version.author, &version.digest, &version.reason])
    }));
    output::table(&rows)
}

/// Prints the text of a version.
pub fn version(address: &ControlAddress, version: u64) -> Result<()> {
    let path = format!("/v1/history/{version}");
    let text: DocumentText = http::request_json(address, Method::Get, &path, None)?;
    Ok(out!("{}", text.text)?)
}

/// Lists what was asked for.
pub fn audit(address: &ControlAddress, is_json: bool) -> Result<()> {
    let entries: Vec<AuditEntry> = http::request_json(address, Method::Get, "/v1/audit", None)?;
    if is_json {
        return entries.iter().try_for_each(output::json_line);
    }
    let mut rows = vec![output::row([&"time", &"by", &"what", &"result"])];
    rows.extend(entries.iter().map(|entry| {
        output::row([&clock(entry.at_ms), &entry.author, &entry.action, &entry.result])
    }));
    output::table(&rows)
}

/// Shows numbers of instances.
pub fn scale(address: &ControlAddress, service: Option<&str>, is_json: bool) -> Result<()> {
    let scales: Vec<ServiceScale> = match service {
        None => http::request_json(address, Method::Get, "/v1/scale", None)?,
        Some(service) => {
            let path = format!("/v1/scale/{}", http::escape(service));
            vec![http::request_json(address, Method::Get, &path, None)?]
        }
    };
    if is_json {
        return scales.iter().try_for_each(output::json_line);
    }
    scale_table(&scales)
}

/// Prints numbers of instances as a table.
pub fn scale_table(scales: &[ServiceScale]) -> Result<()> {
    let mut rows =
        vec![output::row([&"service", &"running", &"wanted", &"bounds", &"set by", &"why"])];
    rows.extend(scales.iter().map(|scale| {
        let bounds = format!("{}..{}", scale.min, scale.max);
        let set_by = if scale.pinned { "a person" } else { "load" };
        let reason = scale.reason.as_deref().unwrap_or("");
        output::row([&scale.service, &scale.running, &scale.wanted, &bounds, &set_by, &reason])
    }));
    output::table(&rows)
}

/// Lists routes.
pub fn routes(address: &ControlAddress, is_json: bool) -> Result<()> {
    let routes: Vec<NetworkRoute> = http::request_json(address, Method::Get, "/v1/routes", None)?;
    if is_json {
        return routes.iter().try_for_each(output::json_line);
    }
    let mut rows = vec![output::row([
        &"prefix",
        &"instance",
        &"element",
        &"face",
        &"cost",
        &"set by",
        &"who",
    ])];
    rows.extend(routes.iter().map(|route| {
        let by = route.by.as_deref().unwrap_or("-");
        output::row([
            &route.prefix,
            &route.instance,
            &route.element,
            &route.face,
            &route.cost,
            &route.origin,
            &by,
        ])
    }));
    output::table(&rows)
}

/// Prints an event.
pub fn print_event(event: &NetworkEvent, is_json: bool) -> Result<()> {
    if is_json {
        return output::json_line(event);
    }
    // The end of the step says the same with its duration.
    if event.kind == NetworkEventKind::StepStarted {
        return Ok(());
    }
    Ok(outln!("{} {}", clock(event.at_ms), event.text)?)
}

/// Returns the time of day in UTC, with milliseconds.
fn clock(at_ms: u64) -> String {
    let (s, ms) = (at_ms / 1000, at_ms % 1000);
    format!("{:02}:{:02}:{:02}.{ms:03}", s / 3600 % 24, s / 60 % 60, s % 60)
}

/// Parts of a stream of events.
struct EventLines {
    reader: BufReader<Response>,
    line: String,
}

/// The next part of a stream.
enum Part {
    Event(Box<NetworkEvent>),
    /// Nothing within the time limit, or something that is not shown.
    Nothing,
    End,
}

impl EventLines {
    fn new(stream: Response) -> Self {
        EventLines { reader: BufReader::new(stream), line: String::new() }
    }

    fn next(&mut self) -> Result<Part> {
        match self.reader.read_line(&mut self.line) {
            Ok(0) => return Ok(Part::End),
            Ok(_) => {}
            // What was read of a line stays in it.
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                return Ok(Part::Nothing);
            }
            Err(error) => return Err(error).context("the manager does not answer any more"),
        }
        let line = core::mem::take(&mut self.line);
        let data = line.trim_end().strip_prefix("data: ").filter(|data| *data != "{}");
        let Some(data) = data else { return Ok(Part::Nothing) };
        let event = serde_json::from_str(data)
            .context("an event of the manager can't be parsed: is it another version?")?;
        Ok(Part::Event(event))
    }
}

/// Prints events until Ctrl-C, or those that are kept.
pub fn events(address: &ControlAddress, past: bool, is_json: bool) -> Result<()> {
    let graph: NetworkGraph = http::request_json(address, Method::Get, "/v1/graph", None)?;
    let stream = http::request(address, Method::Get, "/v1/events", None)?;
    stream.set_timeout(Duration::from_secs(60))?;
    let mut lines = EventLines::new(stream);
    loop {
        if past && graph.event.ends_with("-0") {
            return Ok(());
        }
        match lines.next()? {
            Part::Event(event) => {
                print_event(&event, is_json)?;
                let is_last = format!("{}-{}", event.start_ms, event.number) == graph.event;
                if past && is_last {
                    return Ok(());
                }
            }
            Part::Nothing => {}
            Part::End => return Ok(()),
        }
    }
}

/// Prints events until the stream ends with the manager.
pub fn print_until_end(stream: Response) -> Result<()> {
    let mut lines = EventLines::new(stream);
    let since = Instant::now();
    let mut is_new = false;
    loop {
        match lines.next()? {
            Part::Event(event) => {
                // Only what happens from now on.
                is_new |= event.kind == NetworkEventKind::Stopping
                    || event.kind == NetworkEventKind::PlanStarted
                        && since.elapsed() > STATE_INTERVAL;
                if is_new {
                    print_event(&event, false)?;
                }
            }
            Part::Nothing => {}
            Part::End => return Ok(()),
        }
    }
}

/// Prints events until the network is as described, held, or has failed several times in a row.
/// Returns its state.
pub fn print_plan_state(
    address: &ControlAddress,
    stream: Response,
    is_json: bool,
) -> Result<NetworkState> {
    stream.set_timeout(STATE_INTERVAL)?;
    let mut lines = EventLines::new(stream);
    let mut failures = 0;
    let mut last_event = String::new();
    loop {
        match lines.next()? {
            Part::Event(event) => {
                print_event(&event, is_json)?;
                last_event = format!("{}-{}", event.start_ms, event.number);
                failures += usize::from(event.kind == NetworkEventKind::PlanEnded);
                if event.kind == NetworkEventKind::PlanDone {
                    failures = 0;
                }
            }
            Part::End => anyhow::bail!("the manager has ended"),
            Part::Nothing => {
                let graph: NetworkGraph =
                    http::request_json(address, Method::Get, "/v1/graph", None)?;
                let is_read = last_event.is_empty() || last_event == graph.event;
                let is_end = match graph.state {
                    NetworkState::Converged | NetworkState::Held => is_read,
                    _ => failures >= FAILURES_MAX,
                };
                if is_end && graph.plan.is_none() {
                    if graph.state != NetworkState::Converged {
                        print_conditions(&graph);
                    }
                    return Ok(graph.state);
                }
            }
        }
    }
}

fn print_conditions(graph: &NetworkGraph) {
    note!("the network is {}", graph.state.as_str());
    for condition in &graph.conditions {
        note!("{}: {}", condition.subject, condition.reason);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_have_both_sides_and_some_lines_around() {
        assert!(differences("a\nb\n", "a\nb\n").is_empty());
        assert_eq!(differences("", "a\n"), ["+ a"]);
        let lines = differences("1\n2\n3\n4\n5\n6\n7\n8\n", "1\n2\n3\nx\n5\ny\n6\n7\n8\n");
        assert_eq!(lines, ["  2", "  3", "- 4", "+ x", "  5", "+ y", "  6", "  7"]);
    }

    #[test]
    fn clock_is_the_time_of_day() {
        assert_eq!(clock(86_400_000 + 3_723_004), "01:02:03.004");
    }
}
