//! The laboratory as the experiments use it: built to a plan, downloads started, what passes looked at, and an ear for Ctrl-C in every pause.

use crate::conditions::{Conditions, ProcessorTime};
use crate::reference::{self, Reference};
use crate::setup::{Machine, Options, Setup};
use nw_kernel::balancer::{RunTime, Statistics};
use nw_name::Name;
use nw_testbed::{Cluster, Download, FetchPlan, LabError, Plan, Publication, PublishPlan, Traffic};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

/// Ends of the experiments with different contents.
pub(crate) const ENDS: usize = 5;
/// Octets of content in a packet, as the paper's.
pub(crate) const CHUNK_OCTETS: usize = 4400;
/// Interests that a download has on their way at most: enough for a member's turn every 20 ms, and not more than fits into the queues of limited
/// links.
const WINDOW: u16 = 40;
/// Between two looks at whether to go on.
const STEP: Duration = Duration::from_millis(20);
/// Downloads that calibration runs at a time.
pub(crate) const CALIBRATING: usize = 3;
/// More than a router passes on with a whole processor: contents need a length before that is known.
const PROCESSOR_MBIT: f64 = 4000.0;
/// For how long the machine is watched before something is built.
const QUIET: Duration = Duration::from_millis(500);

/// Why an experiment ended early.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The watch said so.
    #[error("interrupted; the laboratory is removed")]
    Interrupted,
    /// The laboratory can't be built, or something in it failed.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// The kernel does not tell what its programs do.
    #[error(transparent)]
    Kernel(#[from] nw_kernel::KernelError),
    /// The system does not tell how busy its processors are.
    #[error("can't read how busy the processors are (/proc/stat)")]
    Processors(#[from] std::io::Error),
    /// A download did what the experiment does not allow for.
    #[error("{0}")]
    Download(String),
}

/// Who watches: asked in every pause, and told what is done.
pub struct Watch<'a> {
    /// True when it shall end.
    pub ended: &'a dyn Fn() -> bool,
    /// Told what is measured now.
    pub said: &'a dyn Fn(&str),
}

/// How experiments are run.
pub(crate) struct Bed<'a> {
    pub(crate) options: &'a Options,
    watch: &'a Watch<'a>,
    setup: Setup,
    /// What one member could do when that was measured last, Mbit/s.
    capacity_mbit: Cell<f64>,
    conditions: RefCell<Conditions>,
    _statistics: Statistics,
}

/// What passed while something was measured.
#[derive(Clone, Debug)]
pub(crate) struct Passed {
    pub(crate) seconds: f64,
    traffic: HashMap<String, Traffic>,
    /// Processor time of the members' routers, by name, as a share of one processor.
    pub(crate) members: BTreeMap<String, f64>,
    /// That of the balancer, if there is one.
    pub(crate) balancer: f64,
    /// Share of all the machine's processors in use, 0 to 1.
    pub(crate) busy: f64,
}

/// A point, with what one member could do at the same time.
pub(crate) struct Point {
    /// In the cluster.
    pub(crate) passed: Passed,
    /// What one member could do, Mbit/s.
    pub(crate) capacity_mbit: f64,
}

impl Passed {
    /// Mbit/s of a node, in and out.
    pub(crate) fn mbit(&self, node: &str) -> f64 {
        self.received_mbit(node) + self.sent_mbit(node)
    }

    pub(crate) fn received_mbit(&self, node: &str) -> f64 {
        self.rate(node, |traffic| traffic.received_octets)
    }

    pub(crate) fn sent_mbit(&self, node: &str) -> f64 {
        self.rate(node, |traffic| traffic.sent_octets)
    }

    /// Mbit/s of all consumers, in and out.
    pub(crate) fn consumers_mbit(&self) -> f64 {
        (1..=ENDS).map(|number| self.mbit(&format!("c{number}"))).sum()
    }

    /// Packets that a node sent.
    pub(crate) fn sent_packets(&self, node: &str) -> u64 {
        self.traffic.get(node).map_or(0, |traffic| traffic.sent_packets)
    }

    fn rate(&self, node: &str, octets: fn(&Traffic) -> u64) -> f64 {
        self.traffic.get(node).map_or(0.0, |traffic| octets(traffic) as f64 * 8e-6 / self.seconds)
    }
}

/// A moment.
struct Moment {
    at: Instant,
    processors: ProcessorTime,
    traffic: HashMap<String, Traffic>,
    members: BTreeMap<String, Duration>,
    program: RunTime,
    balancers: Duration,
}

impl<'a> Bed<'a> {
    /// Measures what one member can do.
    pub(crate) fn calibrated(options: &'a Options, watch: &'a Watch<'a>) -> Result<Self, Failure> {
        // First of all: the kernel's own error does not name the missing rights.
        nw_testbed::needs_root()?;
        let setup = Setup {
            machine: Machine::here(),
            quick: options.quick,
            share: options.share,
            capacity_mbit: PROCESSOR_MBIT * options.share,
            window: WINDOW,
        };
        let capacity_mbit = Cell::new(setup.capacity_mbit);
        let conditions = RefCell::new(Conditions::begin());
        let mut bed =
            Bed { options, watch, setup, capacity_mbit, conditions, _statistics: Statistics::keep()? };
        bed.say("what one member can do");
        let (_, measured) = options.window();
        bed.calibrate(measured)?;
        bed.setup.capacity_mbit = bed.capacity_mbit();
        Ok(bed)
    }

    /// Builds a plain router, measures what it can do alone, and returns it, to be measured beside each point of a cluster. Its contents last for
    /// points of this length.
    pub(crate) fn calibrate(&self, longest: Duration) -> Result<Reference, Failure> {
        let before = ProcessorTime::now()?;
        self.pause(QUIET)?;
        self.conditions.borrow_mut().note_before(ProcessorTime::now()?.busy_since(&before));
        let reference = Reference::build(self, longest)?;
        let running = reference.start(self)?;
        let (warm_up, measured) = self.options.window();
        self.pause(warm_up)?;
        let passed = self.watch_for(reference.cluster(), measured)?;
        drop(running);
        self.capacity_mbit.set(passed.consumers_mbit());
        Ok(reference)
    }

    /// Returns the conditions so far.
    pub(crate) fn conditions(&self) -> Conditions {
        self.conditions.borrow().clone()
    }

    pub(crate) fn setup(&self) -> &Setup {
        &self.setup
    }

    /// What [`calibrate`](Self::calibrate) said last.
    pub(crate) fn capacity_mbit(&self) -> f64 {
        self.capacity_mbit.get()
    }

    pub(crate) fn say(&self, what: &str) {
        (self.watch.said)(what);
    }

    /// What all experiments have.
    pub(crate) fn plan(&self) -> Plan {
        Plan { member_share: Some(self.options.share), link_threads: true, ..Plan::new(&self.options.nw) }
    }

    /// Ends that can do as much as a member each.
    pub(crate) fn plan_of_equals(&self) -> Plan {
        Plan { consumers: ENDS, producers: ENDS, end_rate_mbit: Some(self.capacity_mbit()), ..self.plan() }
    }

    /// A content at each of the first producers, long enough for every point.
    pub(crate) fn publish(&self, cluster: &Cluster, count: usize) -> Result<Vec<Publication>, Failure> {
        let (_, measured) = self.options.window();
        self.publish_for(cluster, count, measured)
    }

    /// A content at each of the first producers, that a download does not end while something is measured for so long.
    pub(crate) fn publish_for(
        &self,
        cluster: &Cluster,
        count: usize,
        measured: Duration,
    ) -> Result<Vec<Publication>, Failure> {
        let (warm_up, _) = self.options.window();
        let longest = (warm_up + measured + Duration::from_secs(2)).as_secs_f64();
        let plan = PublishPlan { octets: self.octets(longest), ..publish_plan() };
        (0..count)
            .map(|at| {
                self.look()?;
                Ok(cluster.publish(at, &content(at), &plan)?)
            })
            .collect()
    }

    /// A client that never retransmits, as the paper's last one: a member that is held back for a moment is not asked twice for it, and a lost packet is
    /// an error instead of a smaller number.
    pub(crate) fn fetch_plan(&self) -> FetchPlan {
        FetchPlan { window: WINDOW, retries: 0, ..FetchPlan::default() }
    }

    /// Octets that one member passes on within this time.
    pub(crate) fn octets(&self, seconds: f64) -> u64 {
        (self.capacity_mbit() * 125_000.0 * seconds) as u64
    }

    /// So many downloads at a time, each of a content of its own, for the usual time, and one member beside them. `fills` says that the members
    /// have more to do than their quota allows.
    pub(crate) fn measure(
        &self,
        (cluster, reference): (&Cluster, &Reference),
        contents: &[Publication],
        downloads: usize,
        fills: bool,
    ) -> Result<Point, Failure> {
        let plan = self.fetch_plan();
        let started = contents.iter().zip(cluster.consumers()).take(downloads);
        let mut running = started
            .map(|(content, consumer)| consumer.fetch(&content.name, &plan))
            .collect::<Result<Vec<_>, _>>()?;
        let beside = reference.start(self)?;
        let (warm_up, measured) = self.options.window();
        self.pause(warm_up)?;
        let point = self.watch_beside(cluster, beside.cluster(), measured, fills)?;
        still_running(&mut running)?;
        let still = (1..=downloads).find(|number| point.passed.received_mbit(&format!("c{number}")) == 0.0);
        match still {
            None => Ok(point),
            Some(number) => Err(Failure::Download(format!(
                "download {number} stands still: a packet was lost, and nobody asks again; is something else at work on this machine? The laboratory \
                 lost so far: {}",
                cluster.losses().map_or_else(|error| error.to_string(), |losses| losses.to_string())
            ))),
        }
    }

    /// What passes within some time, and what a busy plain router passes on meanwhile.
    pub(crate) fn watch_beside(
        &self,
        cluster: &Cluster,
        reference: &Cluster,
        time: Duration,
        fills: bool,
    ) -> Result<Point, Failure> {
        let before = (moment(cluster)?, moment(reference)?);
        self.pause(time)?;
        let after = (moment(cluster)?, moment(reference)?);
        let (passed, beside) = (between(&before.0, &after.0), between(&before.1, &after.1));
        let (capacity_mbit, reference_used) = reference::capacity(&beside, self.options.share);
        let least = passed.members.values().copied().fold(f64::INFINITY, f64::min) / self.options.share;
        // The reference has enough to do at every point.
        let used = if fills && least.is_finite() { least.min(reference_used) } else { reference_used };
        self.conditions.borrow_mut().note_point(passed.busy, Some(used));
        self.capacity_mbit.set(capacity_mbit);
        Ok(Point { passed, capacity_mbit })
    }

    /// What passes within some time.
    pub(crate) fn watch_for(&self, cluster: &Cluster, time: Duration) -> Result<Passed, Failure> {
        let before = moment(cluster)?;
        self.pause(time)?;
        Ok(between(&before, &moment(cluster)?))
    }

    /// Waits, unless it shall end.
    pub(crate) fn pause(&self, time: Duration) -> Result<(), Failure> {
        let end = Instant::now() + time;
        loop {
            self.look()?;
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(STEP));
        }
    }

    /// Waits for the end of a download.
    pub(crate) fn await_end(&self, download: &mut Download, patience: Duration) -> Result<(), Failure> {
        let end = Instant::now() + patience;
        while download.is_running() && Instant::now() < end {
            self.pause(STEP)?;
        }
        Ok(())
    }

    fn look(&self) -> Result<(), Failure> {
        if (self.watch.ended)() { Err(Failure::Interrupted) } else { Ok(()) }
    }
}

/// What the paper's producers do.
pub(crate) fn publish_plan() -> PublishPlan {
    PublishPlan { segment_len: CHUNK_OCTETS, ..PublishPlan::default() }
}

/// The paper's contents are named a, b, …
pub(crate) fn content(at: usize) -> Name {
    Name::new().with_generic([b'a' + at as u8])
}

fn still_running(downloads: &mut [Download]) -> Result<(), Failure> {
    match downloads.iter_mut().position(|download| !download.is_running()) {
        None => Ok(()),
        Some(at) => Err(Failure::Download(format!(
            "download {} ended while it was measured; its last words: {}",
            at + 1,
            downloads[at].process().last_words()
        ))),
    }
}

fn between(before: &Moment, after: &Moment) -> Passed {
    let took = after.at - before.at;
    let share = |time: Duration| time.as_secs_f64() / took.as_secs_f64();
    let traffic = after.traffic.iter().map(|(node, traffic)| {
        (node.clone(), before.traffic.get(node).map_or(*traffic, |before| traffic.since(before)))
    });
    let members = after.members.iter().map(|(name, cpu)| {
        (name.clone(), share(cpu.saturating_sub(before.members.get(name).copied().unwrap_or_default())))
    });
    Passed {
        seconds: took.as_secs_f64(),
        traffic: traffic.collect(),
        members: members.collect(),
        balancer: share(Duration::from_nanos(after.program.since(before.program).time_ns))
            + share(after.balancers.saturating_sub(before.balancers)),
        busy: after.processors.busy_since(&before.processors),
    }
}

fn moment(cluster: &Cluster) -> Result<Moment, Failure> {
    let members =
        cluster.members().iter().map(|member| (member.node.name.clone(), member.router.process.cpu()));
    let balancers = cluster.balancers().iter().filter_map(|balancer| balancer.process());
    Ok(Moment {
        members: members.collect(),
        program: RunTime::of_all_balancers()?,
        balancers: balancers.map(nw_testbed::Running::cpu).sum(),
        traffic: cluster.traffic()?,
        processors: ProcessorTime::now()?,
        at: Instant::now(),
    })
}
