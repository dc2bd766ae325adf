//! `cluster/scale4`: what four members carry beside four times what one carries; how evenly they share 10^4 names, and whether one download uses all.

use super::name;
use crate::report::{Row, median};
use anyhow::{Context, Result, anyhow};
use nw_lab::{Cluster, FetchPlan, Plan, PublishPlan, Running};
use nw_name::Name;
use std::time::{Duration, Instant};

const MEMBERS: usize = 4;
/// Of one processor, for each member.
const SHARE: f64 = 0.03;
/// Pairs of consumer and producer.
const PAIRS: usize = 2;
const RUNS: usize = 11;
const LOAD: [&str; 4] = ["--pattern", "sequential", "--names", "1000000"];
/// Interests that each consumer keeps waiting for each member. A member is held back for most of each period of 100 ms, so that an Interest and its Data fall
/// into two: twice what it does in one has to wait, and more where one member is slower for a while, or the others are idle at times.
const WINDOW_PER_MEMBER: usize = 600;
const MEASURED_S: &str = "4";
const PAYLOAD: [&str; 2] = ["--payload", "1000"];
const PATIENCE: Duration = Duration::from_secs(60);
/// The balancer's status knows all packets after so long.
const COUNTED: Duration = Duration::from_secs(3);
/// Segments of the single download.
const NAMES: u64 = 10_000;
const SEGMENT: usize = 1000;

pub fn run(row: &str, plan: &Plan) -> Result<Vec<Row>> {
    let plan = Plan { consumers: PAIRS, producers: PAIRS, member_share: Some(SHARE), ..plan.clone() };
    // Side by side: a virtual processor is twice as fast for some seconds and slow for others, which both feel alike.
    let [single, several] = [1, MEMBERS].map(|members| Loaded::build(&Plan { members, ..plan.clone() }));
    let (single, several) = (single?, several?);
    let (mut one, mut four, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for run in 0..=RUNS {
        let (alone, together) = std::thread::scope(|scope| {
            let together = scope.spawn(|| several.carried());
            let alone = single.carried()?;
            Ok::<_, anyhow::Error>((alone, together.join().map_err(|_| anyhow!("a thread panicked"))??))
        })?;
        // Tables are touched for the first time before what is measured.
        if run > 0 {
            ratios.push(together / alone / MEMBERS as f64);
            one.push(alone);
            four.push(together);
        }
    }
    drop((single, several));
    let spread = shares(&Plan { members: MEMBERS, member_share: None, ..plan })?;
    let fair = spread.iter().sum::<u64>() as f64 / MEMBERS as f64;
    let busiest = spread.iter().max().copied().unwrap_or(0) as f64 / fair;
    let used = spread.iter().filter(|interests| **interests as f64 > fair / 2.0).count();
    Ok(vec![
        Row::new(row, "ratio_to_linear", &ratios).at_least(0.95),
        Row::new(row, "exchanges_per_s", &four).beside(median(&one)),
        Row::new(row, "busiest_share", &[busiest]).at_most(1.10),
        Row::new(row, "members_of_one_download", &[used as f64]).at_least(MEMBERS as f64),
    ])
}

/// A cluster and those who answer behind it.
struct Loaded {
    // Before the cluster, as they end first.
    _answering: Vec<Running>,
    cluster: Cluster,
    prefixes: Vec<Name>,
    window: String,
}

impl Loaded {
    fn build(plan: &Plan) -> Result<Self> {
        let cluster = Cluster::build(plan)?;
        let prefixes: Vec<_> = (0..PAIRS).map(|pair| name(&format!("/scale/{pair}"))).collect();
        let answering = prefixes.iter().enumerate().map(|(at, prefix)| cluster.answer(at, prefix, &PAYLOAD));
        let answering = answering.collect::<Result<Vec<_>, _>>()?;
        let window = (WINDOW_PER_MEMBER * plan.members).to_string();
        Ok(Loaded { _answering: answering, cluster, prefixes, window })
    }

    /// Exchanges a second of all consumers together.
    fn carried(&self) -> Result<f64> {
        let more = ["--window", &self.window, "--seconds", MEASURED_S, "--lifetime", "4000"];
        let options = [&LOAD[..], &PAYLOAD[..], &more].concat();
        let loads = self.prefixes.iter().zip(self.cluster.consumers());
        let loads = loads.map(|(prefix, by)| by.generate(prefix, &options)).collect::<Result<Vec<_>, _>>()?;
        loads.into_iter().map(|load| Ok(load.finish(PATIENCE)?.answered_per_s)).sum()
    }
}

/// Interests of one download by member.
fn shares(plan: &Plan) -> Result<Vec<u64>> {
    let cluster = Cluster::build(plan)?;
    let content = name("/scale/one");
    let publish =
        PublishPlan { octets: NAMES * SEGMENT as u64, segment_len: SEGMENT, ..PublishPlan::default() };
    let _publication = cluster.publish(0, &content, &publish)?;
    let interests = || -> Result<Vec<u64>> {
        let status = cluster.balancers().first().context("one was planned")?.status()?;
        Ok(status.members.iter().map(|member| member.counters.in_interests).collect())
    };
    let before = interests()?;
    cluster.consumers()[0].fetch(&content, &FetchPlan::default())?.finish(PATIENCE)?;
    let end = Instant::now() + COUNTED;
    loop {
        let spread: Vec<u64> =
            interests()?.iter().zip(&before).map(|(after, before)| after - before).collect();
        if spread.iter().sum::<u64>() >= NAMES || Instant::now() > end {
            return Ok(spread);
        }
        std::thread::sleep(COUNTED / 20);
    }
}
