//! The testbed of the experiments: plans, publications, downloads and measurements. Each pause
//! checks for Ctrl-C.

use crate::conditions::{Conditions, ProcessorTime};
use crate::reference::{self, Reference};
use crate::setup::{Machine, Options, Setup};
use nw_kernel::balancer::{RunTime, Statistics};
use nw_name::Name;
use nw_testbed::{Cluster, Download, FetchPlan, LabError, Plan, Publication, PublishPlan, Traffic};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

/// Number of consumers and of producers in the experiments with different contents.
pub(crate) const ENDPOINTS: usize = 5;
/// Bytes of content in a packet, as in the paper.
pub(crate) const CHUNK_BYTES: usize = 4400;
/// Maximum number of pending Interests of a download: enough for a member that runs every 20 ms,
/// and few enough for the queues of limited links.
const WINDOW: u16 = 40;
/// The interval between checks for an interruption.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Number of concurrent downloads during calibration.
pub(crate) const CALIBRATION_DOWNLOADS: usize = 3;
/// An upper bound of the throughput of a router with a whole processor. Contents need a length
/// before the throughput is known.
const PROCESSOR_MBIT: f64 = 4000.0;
/// The time for which the idle machine is observed before a testbed is built.
const IDLE_PERIOD: Duration = Duration::from_millis(500);

/// The reason for the early end of an experiment.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The user interrupted the run.
    #[error("interrupted; the testbed is removed")]
    Interrupted,
    /// The testbed can't be built, or an operation in it failed.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// The statistics of kernel programs are not available.
    #[error(transparent)]
    Kernel(#[from] nw_kernel::KernelError),
    /// The processor times can't be read.
    #[error("can't read the processor times (/proc/stat)")]
    Processors(#[from] std::io::Error),
    /// A download failed or stalled.
    #[error("{0}")]
    Download(String),
    /// A network of services can't be started, or an exchange in it failed.
    #[error("{0}")]
    Network(String),
}

/// Callbacks for interruption and progress.
pub struct Watch<'a> {
    /// Returns true when the run shall end.
    pub is_interrupted: &'a dyn Fn() -> bool,
    /// Receives a description of the current measurement.
    pub progress: &'a dyn Fn(&str),
}

/// The testbed of the experiments.
pub(crate) struct Testbed<'a> {
    pub(crate) options: &'a Options,
    watch: &'a Watch<'a>,
    setup: Setup,
    /// The capacity of one member at its last measurement, in Mbit/s.
    capacity_mbit: Cell<f64>,
    conditions: RefCell<Conditions>,
    _statistics: Statistics,
}

/// The traffic and processor load during a measurement.
#[derive(Clone, Debug)]
pub(crate) struct Measurement {
    pub(crate) seconds: f64,
    traffic: HashMap<String, Traffic>,
    /// Processor time of the members' routers by name, as a share of one processor.
    pub(crate) members: BTreeMap<String, f64>,
    /// Processor time of the balancer, as a share of one processor.
    pub(crate) balancer: f64,
    /// Share of all processors of the machine that was in use, 0 to 1.
    pub(crate) busy: f64,
}

/// A measured point with the capacity of one member at the same time.
pub(crate) struct MeasuredPoint {
    /// The measurement of the cluster.
    pub(crate) passed: Measurement,
    /// The capacity of one member in Mbit/s.
    pub(crate) capacity_mbit: f64,
}

impl Measurement {
    /// Returns the throughput of a node in Mbit/s, received and sent.
    pub(crate) fn mbit(&self, node: &str) -> f64 {
        self.received_mbit(node) + self.sent_mbit(node)
    }

    pub(crate) fn received_mbit(&self, node: &str) -> f64 {
        self.rate(node, |traffic| traffic.received_bytes)
    }

    pub(crate) fn sent_mbit(&self, node: &str) -> f64 {
        self.rate(node, |traffic| traffic.sent_bytes)
    }

    /// Returns the throughput of all consumers in Mbit/s, received and sent.
    pub(crate) fn consumers_mbit(&self) -> f64 {
        (1..=ENDPOINTS).map(|number| self.mbit(&format!("c{number}"))).sum()
    }

    /// Returns the number of packets that a node sent.
    pub(crate) fn sent_packets(&self, node: &str) -> u64 {
        self.traffic.get(node).map_or(0, |traffic| traffic.sent_packets)
    }

    fn rate(&self, node: &str, bytes: fn(&Traffic) -> u64) -> f64 {
        self.traffic.get(node).map_or(0.0, |traffic| bytes(traffic) as f64 * 8e-6 / self.seconds)
    }
}

/// All counters at one time.
struct Snapshot {
    at: Instant,
    processors: ProcessorTime,
    traffic: HashMap<String, Traffic>,
    members: BTreeMap<String, Duration>,
    program: RunTime,
    balancers: Duration,
}

impl<'a> Testbed<'a> {
    /// Measures the capacity of one member.
    pub(crate) fn calibrated(options: &'a Options, watch: &'a Watch<'a>) -> Result<Self, Failure> {
        // Checked first because the kernel's error does not name the missing rights.
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
        let mut testbed = Testbed {
            options,
            watch,
            setup,
            capacity_mbit,
            conditions,
            _statistics: Statistics::enable()?,
        };
        testbed.say("the capacity of one member");
        let (_, measured) = options.window();
        testbed.calibrate(measured)?;
        testbed.setup.capacity_mbit = testbed.capacity_mbit();
        Ok(testbed)
    }

    /// Builds a single router, measures its capacity, and returns it to be measured beside each
    /// point of a cluster. Its contents last for points of the given length.
    pub(crate) fn calibrate(&self, longest: Duration) -> Result<Reference, Failure> {
        let before = ProcessorTime::now()?;
        self.pause(IDLE_PERIOD)?;
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

    /// Returns the last measured capacity of one member in Mbit/s.
    pub(crate) fn capacity_mbit(&self) -> f64 {
        self.capacity_mbit.get()
    }

    pub(crate) fn say(&self, what: &str) {
        (self.watch.progress)(what);
    }

    /// Returns the plan that all experiments share.
    pub(crate) fn plan(&self) -> Plan {
        Plan {
            member_share: Some(self.options.share),
            link_threads: true,
            ..Plan::new(&self.options.nw)
        }
    }

    /// Returns a plan with endpoints that are limited to the capacity of one member each.
    pub(crate) fn plan_with_limited_endpoints(&self) -> Plan {
        Plan {
            consumers: ENDPOINTS,
            producers: ENDPOINTS,
            end_rate_mbit: Some(self.capacity_mbit()),
            ..self.plan()
        }
    }

    /// Publishes a content on each of the first producers, long enough for every point.
    pub(crate) fn publish(
        &self,
        cluster: &Cluster,
        count: usize,
    ) -> Result<Vec<Publication>, Failure> {
        let (_, measured) = self.options.window();
        self.publish_for(cluster, count, measured)
    }

    /// Publishes a content on each of the first producers, long enough that a download lasts longer
    /// than a measurement of the given length.
    pub(crate) fn publish_for(
        &self,
        cluster: &Cluster,
        count: usize,
        measured: Duration,
    ) -> Result<Vec<Publication>, Failure> {
        let (warm_up, _) = self.options.window();
        let longest = (warm_up + measured + Duration::from_secs(2)).as_secs_f64();
        let plan = PublishPlan { bytes: self.bytes(longest), ..publish_plan() };
        (0..count)
            .map(|at| {
                self.check_interrupted()?;
                Ok(cluster.publish(at, &content(at), &plan)?)
            })
            .collect()
    }

    /// Returns the options of a client that never retransmits, as in the paper's last experiment. A
    /// lost packet is therefore an error instead of a lower throughput.
    pub(crate) fn fetch_plan(&self) -> FetchPlan {
        FetchPlan { window: WINDOW, retries: 0, ..FetchPlan::default() }
    }

    /// Returns the number of bytes that one member forwards within a time.
    pub(crate) fn bytes(&self, seconds: f64) -> u64 {
        (self.capacity_mbit() * 125_000.0 * seconds) as u64
    }

    /// Measures concurrent downloads of different contents, with the reference router beside them.
    /// `fills` says that the members have more work than their quota allows.
    pub(crate) fn measure(
        &self,
        (cluster, reference): (&Cluster, &Reference),
        contents: &[Publication],
        downloads: usize,
        fills: bool,
    ) -> Result<MeasuredPoint, Failure> {
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
        let stalled =
            (1..=downloads).find(|number| point.passed.received_mbit(&format!("c{number}")) == 0.0);
        match stalled {
            None => Ok(point),
            Some(number) => Err(Failure::Download(format!(
                "download {number} has stalled: a packet was lost, and the client never retransmits. Other programs may be busy on this machine. Packets \
                 lost so far in the testbed: {}",
                cluster
                    .losses()
                    .map_or_else(|error| error.to_string(), |losses| losses.to_string())
            ))),
        }
    }

    /// Measures a cluster, and the reference router at the same time.
    pub(crate) fn watch_beside(
        &self,
        cluster: &Cluster,
        reference: &Cluster,
        time: Duration,
        fills: bool,
    ) -> Result<MeasuredPoint, Failure> {
        let before = (snapshot(cluster)?, snapshot(reference)?);
        self.pause(time)?;
        let after = (snapshot(cluster)?, snapshot(reference)?);
        let (passed, beside) = (between(&before.0, &after.0), between(&before.1, &after.1));
        let (capacity_mbit, reference_used) = reference::capacity(&beside, self.options.share);
        let least =
            passed.members.values().copied().fold(f64::INFINITY, f64::min) / self.options.share;
        // The reference fills its quota at every point.
        let used =
            if fills && least.is_finite() { least.min(reference_used) } else { reference_used };
        self.conditions.borrow_mut().note_point(passed.busy, Some(used));
        self.capacity_mbit.set(capacity_mbit);
        Ok(MeasuredPoint { passed, capacity_mbit })
    }

    /// Measures a cluster for some time.
    pub(crate) fn watch_for(
        &self,
        cluster: &Cluster,
        time: Duration,
    ) -> Result<Measurement, Failure> {
        let before = snapshot(cluster)?;
        self.pause(time)?;
        Ok(between(&before, &snapshot(cluster)?))
    }

    /// Waits for some time, or returns an error if the run is interrupted.
    pub(crate) fn pause(&self, time: Duration) -> Result<(), Failure> {
        let end = Instant::now() + time;
        loop {
            self.check_interrupted()?;
            let remaining = end.saturating_duration_since(Instant::now());
            if remaining.is_zero() {
                return Ok(());
            }
            std::thread::sleep(remaining.min(POLL_INTERVAL));
        }
    }

    /// Waits for the end of a download.
    pub(crate) fn wait_for_download(
        &self,
        download: &mut Download,
        timeout: Duration,
    ) -> Result<(), Failure> {
        let end = Instant::now() + timeout;
        while download.is_running() && Instant::now() < end {
            self.pause(POLL_INTERVAL)?;
        }
        Ok(())
    }

    fn check_interrupted(&self) -> Result<(), Failure> {
        if (self.watch.is_interrupted)() { Err(Failure::Interrupted) } else { Ok(()) }
    }
}

/// Returns the options of the paper's producers.
pub(crate) fn publish_plan() -> PublishPlan {
    PublishPlan { segment_len: CHUNK_BYTES, ..PublishPlan::default() }
}

/// Returns the name of a content; the paper's contents are named a, b, …
pub(crate) fn content(at: usize) -> Name {
    Name::new().with_generic([b'a' + at as u8])
}

fn still_running(downloads: &mut [Download]) -> Result<(), Failure> {
    match downloads.iter_mut().position(|download| !download.is_running()) {
        None => Ok(()),
        Some(at) => Err(Failure::Download(format!(
            "download {} ended during the measurement; the end of its log: {}",
            at + 1,
            downloads[at].process().log_tail()
        ))),
    }
}

fn between(before: &Snapshot, after: &Snapshot) -> Measurement {
    let elapsed = after.at - before.at;
    let share = |time: Duration| time.as_secs_f64() / elapsed.as_secs_f64();
    let traffic = after.traffic.iter().map(|(node, traffic)| {
        (node.clone(), before.traffic.get(node).map_or(*traffic, |before| traffic.since(before)))
    });
    let members = after.members.iter().map(|(name, cpu)| {
        (
            name.clone(),
            share(cpu.saturating_sub(before.members.get(name).copied().unwrap_or_default())),
        )
    });
    Measurement {
        seconds: elapsed.as_secs_f64(),
        traffic: traffic.collect(),
        members: members.collect(),
        balancer: share(Duration::from_nanos(after.program.since(before.program).time_ns))
            + share(after.balancers.saturating_sub(before.balancers)),
        busy: after.processors.busy_since(&before.processors),
    }
}

fn snapshot(cluster: &Cluster) -> Result<Snapshot, Failure> {
    let members = cluster
        .members()
        .iter()
        .map(|member| (member.node.name.clone(), member.router.process.cpu()));
    let balancers = cluster.balancers().iter().filter_map(|balancer| balancer.process());
    Ok(Snapshot {
        members: members.collect(),
        program: RunTime::of_all_balancers()?,
        balancers: balancers.map(nw_testbed::Running::cpu).sum(),
        traffic: cluster.traffic()?,
        processors: ProcessorTime::now()?,
        at: Instant::now(),
    })
}
