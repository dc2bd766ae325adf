//! What is run, where, and by which rules.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

/// The figures that are repeated.
pub const FIGURES: [u8; 9] = [6, 7, 8, 9, 10, 11, 12, 13, 14];

/// What is wanted.
#[derive(Clone, Debug)]
pub struct Options {
    /// The `nw` binary that laboratories are made of.
    pub nw: PathBuf,
    /// Of [`FIGURES`].
    pub figures: Vec<u8>,
    /// Everything within about 90 seconds: shorter downloads, fewer points.
    pub quick: bool,
    /// Share of one processor that each member gets.
    pub share: f64,
}

impl Options {
    /// The share of a processor that leaves the rest of a machine of two enough for everything else, when four members work.
    pub const SHARE: f64 = 0.05;

    /// All figures, at length.
    pub fn new(nw: impl Into<PathBuf>) -> Options {
        Options { nw: nw.into(), figures: FIGURES.to_vec(), quick: false, share: Options::SHARE }
    }

    /// How many downloads run at a time, in turn.
    pub(crate) fn downloads(&self) -> &'static [usize] {
        if self.quick { &[1, 2, 3, 5] } else { &[1, 2, 3, 4, 5] }
    }

    /// Before a point is measured, and for how long it is.
    pub(crate) fn window(&self) -> (Duration, Duration) {
        let (warm_up_ms, measured_ms) = if self.quick { (400, 900) } else { (1000, 5000) };
        (Duration::from_millis(warm_up_ms), Duration::from_millis(measured_ms))
    }

    /// How long one download takes that is measured as a whole.
    pub(crate) fn download(&self) -> Duration {
        Duration::from_secs(if self.quick { 3 } else { 15 })
    }

    /// How long each number of members stays in figure 14.
    pub(crate) fn stage(&self) -> Duration {
        Duration::from_secs(if self.quick { 3 } else { 15 })
    }
}

/// The machine it ran on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// As the system names the first.
    pub processor: String,
    /// How many.
    pub processors: usize,
    /// Release of the running kernel.
    pub kernel: String,
}

impl Machine {
    /// This one.
    pub fn here() -> Machine {
        let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let named =
            cpuinfo.lines().find_map(|line| Some(line.strip_prefix("model name")?.split_once(':')?.1));
        Machine {
            processor: named.unwrap_or("unknown").trim().to_owned(),
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
        }
    }
}

/// By which rules it ran.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Setup {
    /// Where.
    pub machine: Machine,
    /// With short downloads and fewer points.
    pub quick: bool,
    /// Share of one processor that each member had.
    pub share: f64,
    /// What a plain router passed on with that share before the experiments, Mbit/s. Each point has the unit of its own time.
    pub capacity_mbit: f64,
    /// Interests that a download has on their way at most.
    pub window: u16,
}

impl Setup {
    /// Differences to the paper's testbed that a reader should know.
    pub fn words(&self) -> Vec<String> {
        vec![
            format!(
                "The paper had a server of 16 cores, a virtual machine for each node, and a processor for each machine. Here each node is a network namespace on one machine \
                 ({}, {} processors, Linux {}), and all share its processors. So that the balancer and the ends are not the bottleneck, a control group \
                 gives each member {:.1} % of one processor, dealt out every 20 ms. Threads of the kernel's carry what members send and work off what reaches the \
                 balancer, so that a member's share pays for its own packets only, as in a machine of its own.",
                self.machine.processor,
                self.machine.processors,
                self.machine.kernel,
                100.0 * self.share
            ),
            format!(
                "A plain router with that share passes on {:.1} Mbit/s (Interests and Data with all headers, as the paper counts; the paper's 300 Mbit/s). That is \
                 the unit of the charts, so that shapes compare: 1 is what one member can do. Such a router is measured beside each point at the same time, with ends of \
                 its own that nothing limits, as a machine that others share becomes faster and slower; this is the first time.",
                self.capacity_mbit
            ),
            "In the paper a consumer and a producer can do as much as a member each. Here the links of consumers and producers are limited to the same rate \
             (figures 6 to 10); in the other figures they are not."
                .to_owned(),
            format!(
                "Downloads are nw cat's, with at most {} Interests on their way (the paper: ndncatchunks, 16), and never retransmit: one lost packet would end an \
                 experiment. Consumers have no router of their own. Packets hold 4400 octets of content as the paper's, and travel in NDNLPv2 fragments that \
                 fit the links' frames of 1500.",
                self.window
            ),
            "The balancer's processor time is that of its kernel program, from the kernel's own statistics of programs, and of its process; what the system does to \
             bring frames to the program and away is not in it. A member's is its process's."
                .to_owned(),
        ]
    }
}
