//! The figures, each as points, and the statements about them.

use super::flow::{self, Flow, Load};
use super::node::{LocalNode, NodeNetwork, lack_of_namespaces};
use super::response::{ResponseLoad, Responses, respond};
use super::{
    BlackadderOptions, BlackadderPoint, BlackadderReport, blackadder_paper, exchange, sockets,
};
use crate::bulk::Paper;
use crate::check::{Check, Relation, Source};
use crate::testbed::{Failure, Watch};
use std::path::PathBuf;
use std::time::Duration;

/// Bytes of a publication that fits a packet between nodes, which has at most 1,400 bytes.
pub const PACKET: usize = 1300;
/// Ring of a publisher, bytes.
const RING: u32 = 8 << 20;
/// Share of the capacity at which loss is measured.
const PACE: f64 = 0.8;
/// Curves that several functions name.
pub(super) const ONE_A_NODE: &str = "1 subscriber a node";
pub(super) const SIX_A_NODE: &str = "6 subscribers a node";
pub(super) const LOCAL: &str = "node-local";
const STAR: &str = "star, subscribers at each leaf";
pub(super) const STORE: &str = "NDN, content store";
pub(super) const PUBSUB: &str = "publish/subscribe";
pub(super) const NDN: &str = "NDN, 1 consumer";
pub(super) const OVER_CHAIN: &str = "immutable, 1 subscriber";

/// The state of a run.
pub(super) struct Run<'a> {
    pub(super) options: &'a BlackadderOptions,
    pub(super) watch: &'a Watch<'a>,
    pub(super) report: &'a mut BlackadderReport,
    pub(super) paper: Paper,
}

impl Run<'_> {
    pub(super) fn is_quick(&self) -> bool {
        self.options.is_quick
    }

    fn is_selected(&self, figures: &[u8]) -> bool {
        figures.iter().any(|figure| self.options.figures.contains(figure))
    }

    /// Returns the number of the paper that belongs to a key in a list of keys and numbers.
    fn paper_at(&self, name: &str, key: f64) -> Option<f64> {
        let pairs = self.paper.number[name].values.chunks_exact(2);
        pairs.filter(|pair| pair[0] == key).map(|pair| pair[1]).next()
    }

    pub(super) fn add(&mut self, figure: u8, series: &'static str, x: f64, value: f64) {
        let (paper, lost, cpu_us) = (None, None, None);
        let point = BlackadderPoint { figure, series, x, value, paper, lost, cpu_us };
        self.report.points.push(point);
    }

    /// Adds to the point that was added last.
    fn last(&mut self) -> Option<&mut BlackadderPoint> {
        self.report.points.last_mut()
    }
}

/// Measures the selected figures.
pub(super) fn measure(
    options: &BlackadderOptions,
    watch: &Watch<'_>,
    report: &mut BlackadderReport,
) -> Result<(), Failure> {
    let mut run = Run { options, watch, report, paper: blackadder_paper() };
    if run.is_selected(&[4, 6, 8]) {
        local_figures(&mut run)?;
    }
    let lack = lack_of_namespaces();
    if let Some(lack) = &lack
        && run.is_selected(&[5, 6, 7, 9, 10])
    {
        run.report.left_out.push(format!("What needs several nodes was not run: {lack}"));
    }
    if lack.is_none() {
        if run.is_selected(&[5, 9, 10]) {
            chain_figures(&mut run)?;
        }
        if run.is_selected(&[6]) {
            star(&mut run)?;
        }
        if run.is_selected(&[7]) {
            sockets::measure(&mut run)?;
        }
    }
    if run.is_selected(&[6]) {
        run.report.left_out.push(
            "Figure 6 on PlanetLab was not run: it needs 106 machines with the delays of the \
             Internet between them."
                .to_owned(),
        );
    }
    if run.is_selected(&[8, 9, 10]) {
        run.report.left_out.push(
            "CCNx is not run: its curves have this router's NDN side in its place, and the \
             numbers of the paper beside it."
                .to_owned(),
        );
    }
    Ok(())
}

fn local_figures(run: &mut Run<'_>) -> Result<(), Failure> {
    let node = LocalNode::start(&run.options.nw)?;
    if run.is_selected(&[4]) {
        throughput_in_node(run, &node)?;
    }
    if run.is_selected(&[8]) {
        pieces(run, &node)?;
    }
    if run.is_selected(&[6]) {
        responses_in_node(run, &node)?;
    }
    Ok(())
}

/// Payloads of figure 4 with their names; the last two need more than a netlink socket holds.
const PAYLOADS: [(&str, usize); 5] = [
    ("100 bytes", 100),
    ("2 kB", 2_000),
    ("100 kB", 100_000),
    ("1 MB", 1_000_000),
    ("16 MB", 16_000_000),
];

/// Returns a load of at most `most` publications, and of at most `bytes` that all subscribers copy.
fn bounded(payload: usize, subscribers: u64, most: u64, bytes: u64) -> Load {
    let count = (bytes / (payload as u64 * subscribers)).clamp(8, most);
    Load { payload, count, interval_us: 0.0, ring_bytes: RING }
}

/// Figure 4.
fn throughput_in_node(run: &mut Run<'_>, node: &LocalNode) -> Result<(), Failure> {
    let (payloads, counts, most, bytes): (_, &[u64], _, _) = match run.is_quick() {
        true => (&PAYLOADS[..4], &[1, 10], 2_000, 100_000_000),
        false => (&PAYLOADS[..], &[1, 2, 3, 5, 10], 100_000, 8_000_000_000),
    };
    for (series, payload) in payloads {
        for subscribers in counts {
            (run.watch.progress)(&format!("figure 4: {series}, subscribers: {subscribers}"));
            let load = bounded(*payload, *subscribers, most, bytes);
            let before = node.cpu();
            let flow = local_flow(node, *subscribers, &load, run.watch)?;
            let cpu = flow.cpu() + node.cpu().saturating_sub(before);
            let each = slowest_per_s(&flow) * *payload as f64 / 1e6;
            run.add(4, series, *subscribers as f64, each);
            let paper = match (*payload, *subscribers) {
                (100_000, 1) => Some(run.paper.value("local_few_mbyte_per_s")),
                (100_000, 10) => Some(run.paper.number["local_ten_mbyte_per_s"].values[1]),
                _ => None,
            };
            let deliveries = (load.count * subscribers) as f64;
            if let Some(point) = run.last() {
                point.paper = paper;
                point.cpu_us = Some(cpu.as_secs_f64() * 1e6 / deliveries);
                point.lost = Some(flow.loss());
            }
        }
    }
    Ok(())
}

fn local_flow(
    node: &LocalNode,
    subscribers: u64,
    load: &Load,
    watch: &Watch<'_>,
) -> Result<Flow, Failure> {
    let paths = vec![node.path(); subscribers as usize];
    flow::run(&node.path(), &paths, subscribers as u32, load, watch)
}

/// Returns the publications a second of the slowest end.
fn slowest_per_s(flow: &Flow) -> f64 {
    let ends = flow.subscribers.iter().map(|end| {
        let elapsed = end.elapsed.max(flow.publisher.elapsed);
        end.publications as f64 / elapsed.as_secs_f64().max(1e-9)
    });
    ends.fold(f64::INFINITY, f64::min)
}

/// Figure 8: 10,000 pieces of 2 kB and 100 kB to one application.
fn pieces(run: &mut Run<'_>, node: &LocalNode) -> Result<(), Failure> {
    let (most, seconds) = if run.is_quick() { (500, 0.2) } else { (10_000, 2.0) };
    for payload in [2_000, 100_000] {
        (run.watch.progress)(&format!("figure 8: pieces of {payload} bytes"));
        let load = Load { payload, count: most, interval_us: 0.0, ring_bytes: RING };
        let flow = local_flow(node, 1, &load, run.watch)?;
        let kilobytes = payload as f64 / 1000.0;
        run.add(8, PUBSUB, kilobytes, slowest_per_s(&flow) * kilobytes / 1000.0);
        // A piece of 100 kB is 13 segments of 8,000 bytes, because a packet has 8,800 at most.
        let stored = exchange::from_store(node, payload.min(8_000), seconds, run.watch)?;
        run.add(8, STORE, kilobytes, stored);
    }
    Ok(())
}

fn add_responses(run: &mut Run<'_>, series: &'static str, x: f64, responses: &Responses) {
    run.add(6, series, x, responses.mean_ms());
    let all = responses.ms.len() as f64 + f64::from(responses.missed);
    if let Some(point) = run.last() {
        point.lost = Some(f64::from(responses.missed) / all.max(1.0));
    }
}

/// Figure 6, within a node.
fn responses_in_node(run: &mut Run<'_>, node: &LocalNode) -> Result<(), Failure> {
    let (items, counts, most): (_, &[u32], _) = match run.is_quick() {
        true => (2_000, &[1, 20], 20),
        false => (100_000, &[1, 50, 100, 200, 500], 500),
    };
    for subscribers in counts {
        (run.watch.progress)(&format!("figure 6: node-local, subscribers: {subscribers}"));
        let load = ResponseLoad::random(items, most.min(50_000 / subscribers));
        let paths = vec![node.path(); *subscribers as usize];
        let responses = respond(&node.path(), &paths, &load, run.watch)?;
        add_responses(run, LOCAL, f64::from(*subscribers), &responses);
        let paper = run.paper_at("response_local_ms", f64::from(*subscribers));
        if let Some(point) = run.last() {
            point.paper = paper;
        }
    }
    Ok(())
}

/// Figure 6, in a star of 15 nodes: the publisher at one leaf, subscribers at all but the centre.
fn star(run: &mut Run<'_>) -> Result<(), Failure> {
    let (count, items, per_node, iterations): (_, _, &[usize], _) = match run.is_quick() {
        true => (4, 200, &[1, 4], 4),
        false => (15, 10_000, &[1, 5, 20], 20),
    };
    (run.watch.progress)("figure 6: a star of nodes");
    let nodes = NodeNetwork::star(&run.options.nw, count)?;
    for each in per_node {
        (run.watch.progress)(&format!("figure 6: star, subscribers at each leaf: {each}"));
        let leaves = (1..count).flat_map(|node| std::iter::repeat_n(nodes.path(node), *each));
        let paths: Vec<PathBuf> = leaves.collect();
        let load = ResponseLoad::random(items, iterations);
        let responses = respond(&nodes.path(1), &paths, &load, run.watch)?;
        add_responses(run, STAR, *each as f64, &responses);
    }
    Ok(())
}

/// Nodes of a chain: the first runs no application in figure 5, as in the paper; the publisher is
/// at the second one.
const PUBLISHER: usize = 1;

fn chain_figures(run: &mut Run<'_>) -> Result<(), Failure> {
    let count = if run.is_quick() { 5 } else { 15 };
    (run.watch.progress)(&format!("figures 5, 9 and 10: a chain of {count} nodes"));
    let nodes = NodeNetwork::chain(&run.options.nw, count)?;
    if run.is_selected(&[5, 9]) {
        forwarding(run, &nodes, count)?;
    }
    if run.is_selected(&[9]) {
        let seconds = if run.is_quick() { 0.3 } else { 3.0 };
        for hops in hops(count) {
            (run.watch.progress)(&format!("figure 9: NDN, hops: {hops}"));
            let rate = exchange::through_chain(&nodes, hops, PACKET, seconds, run.watch)?;
            run.add(9, NDN, hops as f64, rate);
            let paper = run.paper_at("ccnx_chain_mbyte_per_s", hops as f64);
            if let Some(point) = run.last() {
                point.paper = paper;
            }
        }
    }
    if run.is_selected(&[10]) {
        let iterations = if run.is_quick() { 50 } else { 1_000 };
        for hops in hops(count) {
            (run.watch.progress)(&format!("figure 10: rendezvous, hops: {hops}"));
            let load = ResponseLoad {
                items: iterations,
                iterations,
                window: 16,
                is_random: false,
                payload: PACKET,
            };
            let to = [nodes.path(PUBLISHER + hops)];
            let responses = respond(&nodes.path(PUBLISHER), &to, &load, run.watch)?;
            run.add(10, OVER_CHAIN, hops as f64, responses.per_s() * PACKET as f64 / 1e6);
            if let Some(point) = run.last() {
                point.lost = Some(f64::from(responses.missed) / f64::from(iterations));
            }
        }
    }
    Ok(())
}

/// Returns the distances from the publisher at which something is measured.
fn hops(count: usize) -> Vec<usize> {
    [1, 3, 6, 13].into_iter().filter(|hops| PUBLISHER + hops < count).collect()
}

/// Figures 5 and 9: one publication reaches all nodes of a chain.
fn forwarding(run: &mut Run<'_>, nodes: &NodeNetwork, count: usize) -> Result<(), Failure> {
    let series: &[(&'static str, usize)] = match run.is_quick() {
        true => &[(ONE_A_NODE, 1)],
        false => &[(ONE_A_NODE, 1), ("3 subscribers a node", 3), (SIX_A_NODE, 6)],
    };
    let most = if run.is_quick() { 2_000 } else { 100_000 };
    for (series, each) in series {
        for reached in hops(count) {
            (run.watch.progress)(&format!("figure 5: {series}, nodes: {reached}"));
            let at = PUBLISHER + 1..=PUBLISHER + reached;
            let paths: Vec<PathBuf> =
                at.flat_map(|node| std::iter::repeat_n(nodes.path(node), *each)).collect();
            let before = chain_cpu(nodes, count);
            let flow = chain_flow(nodes, &paths, reached, most, run.watch)?;
            let cpu = flow.cpu() + chain_cpu(nodes, count).saturating_sub(before);
            let published = flow.publisher.publications + capacity_count(most);
            let deliveries = published as f64 * paths.len() as f64;
            let cpu_us = cpu.as_secs_f64() * 1e6 / deliveries;
            let rate = slowest_per_s(&flow) * PACKET as f64 / 1e6;
            let line = run.paper.value("chain_line_mbyte_per_s");
            let six = run.paper.value("mutable_mbyte_per_s");
            let figures: &[u8] = if *each == 3 { &[5] } else { &[5, 9] };
            for figure in figures.iter().filter(|figure| run.options.figures.contains(figure)) {
                run.add(*figure, series, reached as f64, rate);
                let paper = match (*each, reached) {
                    (1, _) => Some(line),
                    (6, 13) => Some(six),
                    _ => None,
                };
                if let Some(point) = run.report.points.last_mut() {
                    (point.paper, point.lost) = (paper, Some(flow.loss()));
                    point.cpu_us = Some(cpu_us);
                }
            }
        }
    }
    Ok(())
}

/// Publications by which the capacity of a chain is measured at least: with fewer, most of the time
/// is that until all nodes and subscribers run.
const CAPACITY_COUNT_MIN: u64 = 4_000;

/// Returns the number of publications by which the capacity is measured.
fn capacity_count(most: u64) -> u64 {
    (most / 4).max(CAPACITY_COUNT_MIN)
}

/// Returns the processor time of the nodes of a chain.
fn chain_cpu(nodes: &NodeNetwork, count: usize) -> Duration {
    (0..count).map(|node| nodes.cpu(node)).sum()
}

/// Measures the capacity of a chain, and then at 80 % of it what arrives. Returns the second flow.
///
/// # Errors
/// If a node can't be reached, or the user interrupts.
pub fn chain_flow(
    nodes: &NodeNetwork,
    to: &[PathBuf],
    reached: usize,
    most: u64,
    watch: &Watch<'_>,
) -> Result<Flow, Failure> {
    let from = nodes.path(PUBLISHER);
    let count = capacity_count(most);
    let full = Load { payload: PACKET, count, interval_us: 0.0, ring_bytes: RING };
    let capacity = slowest_per_s(&flow::run(&from, to, reached as u32, &full, watch)?);
    let interval_us = 1e6 / (PACE * capacity.max(1.0));
    // At least some publications, and at most ten seconds.
    let count = ((1e7 / interval_us) as u64).clamp(200, most);
    let paced = Load { count, interval_us, ..full };
    std::thread::sleep(Duration::from_millis(200));
    flow::run(&from, to, reached as u32, &paced, watch)
}

/// Returns statements about the measured figures, with the number of the figure.
pub(super) fn checks(report: &BlackadderReport) -> Vec<(u8, Check)> {
    let mut checks = Vec::new();
    for point in &report.points {
        let figure = point.figure;
        let place = format!("figure {figure}, {}, {}", point.series, point.x);
        match (figure, point.paper) {
            (6, Some(paper)) => {
                let what = format!("{place}: mean time, ms,");
                checks.push((6, Check::new(what, point.value, paper, Relation::AtMost)));
            }
            (4 | 5 | 9, Some(paper)) => {
                let what = format!("{place}: MB/s to each subscriber");
                checks.push((figure, Check::new(what, point.value, paper, Relation::AtLeast)));
            }
            _ => {}
        }
        if let Some(lost) = point.lost
            && figure != 9
        {
            let what = format!("{place}: lost share");
            let check = Check::bound("paper/blackadder.lost", what, lost);
            // Within a node, a ring has no loss, however slow the machine.
            let is_local = figure == 4 || point.series == LOCAL;
            checks.push((figure, if is_local { check.on_any_machine() } else { check }));
        }
    }
    for point in report.of(8, PUBSUB) {
        if let Some(store) = report.at(8, STORE, point.x) {
            let what = format!(
                "figure 8, {} kB: MB/s by publish/subscribe, where the content store has the other,",
                point.x
            );
            let check = Check::new(what, point.value, store.value, Relation::AtLeast);
            checks.push((8, check.from(Source::Run)));
        }
    }
    for point in report.of(7, sockets::PUBSUB_TOTAL) {
        if let Some(udp) = report.at(7, sockets::UDP_TOTAL, point.x) {
            let what = format!("figure 7, {} clients: total over that of plain UDP", point.x);
            let ratio = point.value / udp.value;
            checks.push((7, Check::bound("paper/blackadder.sockets_total", what, ratio)));
        }
    }
    checks
}
