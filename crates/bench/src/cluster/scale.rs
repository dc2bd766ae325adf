//! `cluster/scale4`: the throughput of four members against four times that of one; how evenly they
//! share 10^4 names, and whether one download uses all.

use super::name;
use crate::report::{Row, median};
use anyhow::{Context, Result, anyhow, ensure};
use nw_name::Name;
use nw_testbed::{Cluster, FetchPlan, Plan, PublishPlan, Running};
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::time::{Duration, Instant};

const MEMBERS: usize = 4;
/// Quota of each member as a share of one processor.
const QUOTA: f64 = 0.03;
/// Pairs of consumer and producer.
const PAIRS: usize = 2;
/// Number of testbeds that are built. Results vary more between builds than between runs, because
/// the kernel gives each member's quota a fixed phase in the period for as long as the member
/// lives: members with similar phases compete for the processor.
const BUILDS: usize = 5;
/// Runs per build.
const RUNS: usize = 5;
const LOAD: [&str; 4] = ["--pattern", "sequential", "--names", "1000000"];
/// Outstanding Interests per consumer and member. A quota stops a member for most of each period,
/// so that an Interest and its Data fall into two periods: the window must hold twice the work of
/// one period, and more if one member is slower for a while.
const WINDOW_PER_MEMBER: usize = 600;
const RUN_S: &str = "6";
/// Time until all members have work.
const RAMP_UP: Duration = Duration::from_secs(1);
/// Measured time. It ends before the consumers do, because at their end some members would be idle
/// already.
const MEASURED: Duration = Duration::from_millis(4500);
/// Content that fits one packet.
const PAYLOAD: [&str; 2] = ["--payload", "1000"];
const TIMEOUT: Duration = Duration::from_secs(60);
/// Time until the balancer's status includes all packets.
const STATUS_DELAY: Duration = Duration::from_secs(3);
/// Segments of the single download.
const NAMES: u64 = 10_000;
const SEGMENT: usize = 1000;

pub fn run(row: &str, plan: &Plan) -> Result<Vec<Row>> {
    // Processor affinity is set for a thread and its children.
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| measure(row, plan));
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn measure(row: &str, plan: &Plan) -> Result<Vec<Row>> {
    let plan =
        Plan { consumers: PAIRS, producers: PAIRS, member_share: Some(QUOTA), ..plan.clone() };
    let processors = Processors::bind_away_from_members();
    let (mut one, mut four) = (Vec::new(), Vec::new());
    for _ in 0..BUILDS {
        // Both clusters are measured alternately, because the speed of a virtual processor varies
        // by up to a factor of two for seconds.
        let [single, several] = [1, MEMBERS].map(|members| {
            LoadedCluster::build(&Plan { members, ..plan.clone() }, processors.as_ref())
        });
        let (single, several) = (single?, several?);
        for run in 0..=RUNS {
            let (alone, together) = std::thread::scope(|scope| {
                let together = scope.spawn(|| several.measure());
                let alone = single.measure()?;
                Ok::<_, anyhow::Error>((
                    alone,
                    together.join().map_err(|_| anyhow!("a thread panicked"))??,
                ))
            })?;
            // The first run touches the tables and is not measured.
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
    let ratios = |of: fn(&Throughput) -> f64| -> Vec<f64> {
        one.iter().zip(&four).map(|(one, four)| of(four) / of(one) / MEMBERS as f64).collect()
    };
    let beside = |unit: &str, of: fn(&Throughput) -> f64| {
        let figures = |runs: &[Throughput]| runs.iter().map(of).collect::<Vec<_>>();
        Row::new(row, unit, &figures(&four)).with_reference(median(&figures(&one)))
    };
    Ok(vec![
        Row::new(row, "ratio_to_linear", &ratios(|carried| carried.per_s)),
        Row::new(row, "ratio_to_linear_with_ends", &ratios(|carried| carried.with_ends_per_s)),
        beside("exchanges_per_s", |carried| carried.per_s),
        beside("quota_used", |carried| carried.quota_used),
        beside("quota_used_least", |carried| carried.quota_used_least),
        beside("processor_us_per_exchange", |carried| carried.processor_us_per_exchange),
        Row::new(row, "busiest_share", &[busiest]),
        Row::new(row, "members_of_one_download", &[used as f64]),
    ])
}

/// Result of a cluster in one run.
struct Throughput {
    /// Exchanges per second of all consumers, while all members had work.
    per_s: f64,
    /// The same from the first Interest to the last Data.
    with_ends_per_s: f64,
    /// Used share of the members' quota: 1 if only the quota limits.
    quota_used: f64,
    /// The same for the member that used least.
    quota_used_least: f64,
    /// Processor time of members per exchange, in microseconds.
    processor_us_per_exchange: f64,
}

/// Processors of the members and of everything else. Equal quotas are equal work only on the same
/// processor.
struct Processors {
    members: CpuSet,
}

impl Processors {
    /// Binds this thread and its children to processors without members. `None` if there is only
    /// one processor, or no permission.
    fn bind_away_from_members() -> Option<Processors> {
        let all = sched_getaffinity(None).ok()?;
        let first = (0..CpuSet::MAX_CPU).find(|at| all.is_set(*at))?;
        let (mut members, mut others) = (CpuSet::new(), all);
        members.set(first);
        others.unset(first);
        (others.count() > 0 && sched_setaffinity(None, &others).is_ok())
            .then_some(Processors { members })
    }

    /// Binds a router to the members' processor.
    fn take(&self, router: &Running) -> Result<()> {
        for thread in std::fs::read_dir(format!("/proc/{}/task", router.id()))? {
            let thread = thread?.file_name().to_string_lossy().parse()?;
            sched_setaffinity(Pid::from_raw(thread), &self.members)?;
        }
        Ok(())
    }
}

/// A cluster with its producers.
struct LoadedCluster {
    // Declared before the cluster, so that they are dropped first.
    _answering: Vec<Running>,
    cluster: Cluster,
    prefixes: Vec<Name>,
    window: String,
}

impl LoadedCluster {
    fn build(plan: &Plan, processors: Option<&Processors>) -> Result<Self> {
        let cluster = Cluster::build(plan)?;
        let mut routers = cluster.members().iter().map(|member| &member.router.process);
        processors
            .map_or(Ok(()), |processors| routers.try_for_each(|router| processors.take(router)))?;
        let prefixes: Vec<_> = (0..PAIRS).map(|pair| name(&format!("/scale/{pair}"))).collect();
        let answering =
            prefixes.iter().enumerate().map(|(at, prefix)| cluster.answer(at, prefix, &PAYLOAD));
        let answering = answering.collect::<Result<Vec<_>, _>>()?;
        let window = (WINDOW_PER_MEMBER * plan.members).to_string();
        Ok(LoadedCluster { _answering: answering, cluster, prefixes, window })
    }

    fn measure(&self) -> Result<Throughput> {
        let more = ["--window", &self.window, "--seconds", RUN_S, "--lifetime", "4000"];
        let options = [&LOAD[..], &PAYLOAD[..], &more].concat();
        let loads = self.prefixes.iter().zip(self.cluster.consumers());
        let loads = loads
            .map(|(prefix, by)| by.generate(prefix, &options))
            .collect::<Result<Vec<_>, _>>()?;
        std::thread::sleep(RAMP_UP);
        let before = self.snapshot()?;
        std::thread::sleep(MEASURED);
        let after = self.snapshot()?;
        let mut with_ends_per_s = 0.0;
        for load in loads {
            let outcome = load.finish(TIMEOUT)?;
            ensure!(
                outcome.lost == 0,
                "{} of {} Interests were not answered",
                outcome.lost,
                outcome.asked
            );
            with_ends_per_s += outcome.answered_per_s;
        }
        let exchanges = (after.answered - before.answered) as f64;
        let quota = (after.at - before.at).mul_f64(QUOTA).as_secs_f64();
        let used: Vec<_> = after.processor_time.iter().zip(&before.processor_time).collect();
        let used: Vec<_> =
            used.into_iter().map(|(after, before)| (*after - *before).as_secs_f64()).collect();
        let all: f64 = used.iter().sum();
        Ok(Throughput {
            per_s: exchanges / (after.at - before.at).as_secs_f64(),
            with_ends_per_s,
            quota_used: all / quota / used.len() as f64,
            quota_used_least: used.iter().copied().fold(f64::INFINITY, f64::min) / quota,
            processor_us_per_exchange: all * 1e6 / exchanges,
        })
    }

    fn snapshot(&self) -> Result<Snapshot> {
        let traffic = self.cluster.traffic()?;
        let answered = self.cluster.consumers().iter().map(|consumer| {
            traffic
                .get(&consumer.node.name)
                .map(|link| link.received_packets)
                .context("a consumer has a link")
        });
        Ok(Snapshot {
            answered: answered.sum::<Result<u64>>()?,
            processor_time: self
                .cluster
                .members()
                .iter()
                .map(|member| member.router.process.cpu())
                .collect(),
            at: Instant::now(),
        })
    }
}

/// Counters at a moment.
struct Snapshot {
    at: Instant,
    /// Data packets that consumers received.
    answered: u64,
    /// Processor time of each member.
    processor_time: Vec<Duration>,
}

/// Returns the Interests of one download by member.
fn shares(plan: &Plan) -> Result<Vec<u64>> {
    let cluster = Cluster::build(plan)?;
    let content = name("/scale/one");
    let publish = PublishPlan {
        bytes: NAMES * SEGMENT as u64,
        segment_len: SEGMENT,
        ..PublishPlan::default()
    };
    let _publication = cluster.publish(0, &content, &publish)?;
    let interests = || -> Result<Vec<u64>> {
        let status = cluster.balancers().first().context("one was planned")?.status()?;
        Ok(status.members.iter().map(|member| member.counters.in_interests).collect())
    };
    let before = interests()?;
    cluster.consumers()[0].fetch(&content, &FetchPlan::default())?.finish(TIMEOUT)?;
    let end = Instant::now() + STATUS_DELAY;
    loop {
        let spread: Vec<u64> =
            interests()?.iter().zip(&before).map(|(after, before)| after - before).collect();
        if spread.iter().sum::<u64>() >= NAMES || Instant::now() > end {
            return Ok(spread);
        }
        std::thread::sleep(STATUS_DELAY / 20);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_run_on_a_processor_of_their_own() {
        let before = sched_getaffinity(None).expect("the system says");
        std::thread::spawn(move || match Processors::bind_away_from_members() {
            Some(processors) => {
                let others = sched_getaffinity(None).expect("the system says");
                assert_eq!((processors.members.count(), others.count()), (1, before.count() - 1));
                assert!(
                    (0..CpuSet::MAX_CPU)
                        .all(|at| !(others.is_set(at) && processors.members.is_set(at)))
                );
            }
            None => assert!(before.count() == 1, "there was one to choose"),
        })
        .join()
        .expect("no assertion failed");
        assert_eq!(
            sched_getaffinity(None).expect("the system says"),
            before,
            "only that thread was moved"
        );
    }
}
