//! `cluster/scale4`: what four members carry beside four times what one carries; how evenly they share 10^4 names, and whether one download uses all.

use super::name;
use crate::report::{Row, median};
use anyhow::{Context, Result, anyhow, ensure};
use nw_name::Name;
use nw_testbed::{Cluster, FetchPlan, Plan, PublishPlan, Running};
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::time::{Duration, Instant};

const MEMBERS: usize = 4;
/// Of one processor, for each member.
const SHARE: f64 = 0.03;
/// Pairs of consumer and producer.
const PAIRS: usize = 2;
/// Times that all is built anew: runs of one build are more alike than builds are. The system gives each member's quota a moment of its own in the period, for as
/// long as the member lives; those whose moments are near each other have to take turns on the processor.
const BUILDS: usize = 5;
/// Runs of each build.
const RUNS: usize = 5;
const LOAD: [&str; 4] = ["--pattern", "sequential", "--names", "1000000"];
/// Interests that each consumer keeps waiting for each member. A member is held back for most of each of its quota's periods, so that an Interest and its Data
/// fall into two: twice what it does in one has to wait, and more where one member is slower for a while, or the others are idle at times.
const WINDOW_PER_MEMBER: usize = 600;
const ASKED_S: &str = "6";
/// Until all members have much to do.
const FILLED: Duration = Duration::from_secs(1);
/// What is counted: it ends before consumers stop asking, as the members whose names were done first would then be idle, and the others not.
const COUNTED: Duration = Duration::from_millis(4500);
/// A Data fits into one packet.
const PAYLOAD: [&str; 2] = ["--payload", "1000"];
const PATIENCE: Duration = Duration::from_secs(60);
/// The balancer's status knows all packets after so long.
const KNOWN: Duration = Duration::from_secs(3);
/// Segments of the single download.
const NAMES: u64 = 10_000;
const SEGMENT: usize = 1000;

pub fn run(row: &str, plan: &Plan) -> Result<Vec<Row>> {
    // Processors are chosen for a thread and all that it starts.
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| measure(row, plan));
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn measure(row: &str, plan: &Plan) -> Result<Vec<Row>> {
    let plan = Plan { consumers: PAIRS, producers: PAIRS, member_share: Some(SHARE), ..plan.clone() };
    let processors = Processors::apart();
    let (mut one, mut four) = (Vec::new(), Vec::new());
    for _ in 0..BUILDS {
        // Side by side: a virtual processor is twice as fast for some seconds and slow for others, which both feel alike.
        let [single, several] =
            [1, MEMBERS].map(|members| Loaded::build(&Plan { members, ..plan.clone() }, processors.as_ref()));
        let (single, several) = (single?, several?);
        for run in 0..=RUNS {
            let (alone, together) = std::thread::scope(|scope| {
                let together = scope.spawn(|| several.carried());
                let alone = single.carried()?;
                Ok::<_, anyhow::Error>((alone, together.join().map_err(|_| anyhow!("a thread panicked"))??))
            })?;
            // Tables are touched for the first time before what is measured.
            if run > 0 {
                one.push(alone);
                four.push(together);
            }
        }
    }
    let spread = shares(&Plan { members: MEMBERS, member_share: None, ..plan })?;
    let fair = spread.iter().sum::<u64>() as f64 / MEMBERS as f64;
    let busiest = spread.iter().max().copied().unwrap_or(0) as f64 / fair;
    let used = spread.iter().filter(|interests| **interests as f64 > fair / 2.0).count();
    let ratios = |of: fn(&Carried) -> f64| -> Vec<f64> {
        one.iter().zip(&four).map(|(one, four)| of(four) / of(one) / MEMBERS as f64).collect()
    };
    let beside = |unit: &str, of: fn(&Carried) -> f64| {
        let figures = |runs: &[Carried]| runs.iter().map(of).collect::<Vec<_>>();
        Row::new(row, unit, &figures(&four)).beside(median(&figures(&one)))
    };
    Ok(vec![
        Row::new(row, "ratio_to_linear", &ratios(|carried| carried.per_s)).at_least(0.95),
        Row::new(row, "ratio_to_linear_with_ends", &ratios(|carried| carried.with_ends_per_s)),
        beside("exchanges_per_s", |carried| carried.per_s),
        beside("quota_used", |carried| carried.quota_used),
        beside("quota_used_least", |carried| carried.quota_used_least),
        beside("processor_us_per_exchange", |carried| carried.processor_us_per_exchange),
        Row::new(row, "busiest_share", &[busiest]).at_most(1.10),
        Row::new(row, "members_of_one_download", &[used as f64]).at_least(MEMBERS as f64),
    ])
}

/// What a cluster did in one run.
struct Carried {
    /// Exchanges a second of all consumers together, while all members had work.
    per_s: f64,
    /// The same from the first Interest to the last Data.
    with_ends_per_s: f64,
    /// Processor time of members over what they might use: 1 where nothing but the quota limits.
    quota_used: f64,
    /// The same of the member that used least.
    quota_used_least: f64,
    /// Processor time of members for one exchange.
    processor_us_per_exchange: f64,
}

/// Where members run and where all else does: the same quota is the same work only on the same processor, as one is often faster than the other for a while.
struct Processors {
    members: CpuSet,
}

impl Processors {
    /// Moves this thread, and all that it starts, off the members' processor. `None` where there is one only, or it may not be chosen.
    fn apart() -> Option<Processors> {
        let all = sched_getaffinity(None).ok()?;
        let first = (0..CpuSet::MAX_CPU).find(|at| all.is_set(*at))?;
        let (mut members, mut others) = (CpuSet::new(), all);
        members.set(first);
        others.unset(first);
        (others.count() > 0 && sched_setaffinity(None, &others).is_ok()).then_some(Processors { members })
    }

    /// Moves a router there.
    fn take(&self, router: &Running) -> Result<()> {
        for thread in std::fs::read_dir(format!("/proc/{}/task", router.id()))? {
            let thread = thread?.file_name().to_string_lossy().parse()?;
            sched_setaffinity(Pid::from_raw(thread), &self.members)?;
        }
        Ok(())
    }
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
    fn build(plan: &Plan, processors: Option<&Processors>) -> Result<Self> {
        let cluster = Cluster::build(plan)?;
        let mut routers = cluster.members().iter().map(|member| &member.router.process);
        processors.map_or(Ok(()), |processors| routers.try_for_each(|router| processors.take(router)))?;
        let prefixes: Vec<_> = (0..PAIRS).map(|pair| name(&format!("/scale/{pair}"))).collect();
        let answering = prefixes.iter().enumerate().map(|(at, prefix)| cluster.answer(at, prefix, &PAYLOAD));
        let answering = answering.collect::<Result<Vec<_>, _>>()?;
        let window = (WINDOW_PER_MEMBER * plan.members).to_string();
        Ok(Loaded { _answering: answering, cluster, prefixes, window })
    }

    fn carried(&self) -> Result<Carried> {
        let more = ["--window", &self.window, "--seconds", ASKED_S, "--lifetime", "4000"];
        let options = [&LOAD[..], &PAYLOAD[..], &more].concat();
        let loads = self.prefixes.iter().zip(self.cluster.consumers());
        let loads = loads.map(|(prefix, by)| by.generate(prefix, &options)).collect::<Result<Vec<_>, _>>()?;
        std::thread::sleep(FILLED);
        let before = self.look()?;
        std::thread::sleep(COUNTED);
        let after = self.look()?;
        let mut with_ends_per_s = 0.0;
        for load in loads {
            let outcome = load.finish(PATIENCE)?;
            ensure!(outcome.lost == 0, "{} of {} Interests were not answered", outcome.lost, outcome.asked);
            with_ends_per_s += outcome.answered_per_s;
        }
        let exchanges = (after.answered - before.answered) as f64;
        let quota = (after.at - before.at).mul_f64(SHARE).as_secs_f64();
        let used: Vec<_> = after.processor_time.iter().zip(&before.processor_time).collect();
        let used: Vec<_> = used.into_iter().map(|(after, before)| (*after - *before).as_secs_f64()).collect();
        let all: f64 = used.iter().sum();
        Ok(Carried {
            per_s: exchanges / (after.at - before.at).as_secs_f64(),
            with_ends_per_s,
            quota_used: all / quota / used.len() as f64,
            quota_used_least: used.iter().copied().fold(f64::INFINITY, f64::min) / quota,
            processor_us_per_exchange: all * 1e6 / exchanges,
        })
    }

    fn look(&self) -> Result<Look> {
        let traffic = self.cluster.traffic()?;
        let answered = self.cluster.consumers().iter().map(|consumer| {
            traffic
                .get(&consumer.node.name)
                .map(|link| link.received_packets)
                .context("a consumer has a link")
        });
        Ok(Look {
            answered: answered.sum::<Result<u64>>()?,
            processor_time: self.cluster.members().iter().map(|member| member.router.process.cpu()).collect(),
            at: Instant::now(),
        })
    }
}

/// What was done up to a moment.
struct Look {
    at: Instant,
    /// Packets that consumers got: Data.
    answered: u64,
    /// Of each member.
    processor_time: Vec<Duration>,
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
    let end = Instant::now() + KNOWN;
    loop {
        let spread: Vec<u64> =
            interests()?.iter().zip(&before).map(|(after, before)| after - before).collect();
        if spread.iter().sum::<u64>() >= NAMES || Instant::now() > end {
            return Ok(spread);
        }
        std::thread::sleep(KNOWN / 20);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_have_a_processor_that_nothing_else_is_on() {
        let before = sched_getaffinity(None).expect("the system says");
        std::thread::spawn(move || match Processors::apart() {
            Some(processors) => {
                let others = sched_getaffinity(None).expect("the system says");
                assert_eq!((processors.members.count(), others.count()), (1, before.count() - 1));
                assert!((0..CpuSet::MAX_CPU).all(|at| !(others.is_set(at) && processors.members.is_set(at))));
            }
            None => assert!(before.count() == 1, "there was one to choose"),
        })
        .join()
        .expect("no assertion failed");
        assert_eq!(sched_getaffinity(None).expect("the system says"), before, "only that thread was moved");
    }
}
