//! The options and the setup of a run.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

/// The figures that are repeated.
pub const FIGURES: [u8; 9] = [6, 7, 8, 9, 10, 11, 12, 13, 14];

/// The options of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The `nw` binary for the testbeds.
    pub nw: PathBuf,
    /// The selected figures of [`FIGURES`].
    pub figures: Vec<u8>,
    /// Whether downloads are shorter and points fewer, for a run of about 90 seconds.
    pub quick: bool,
    /// Share of one processor of each member.
    pub share: f64,
}

impl Options {
    /// The default share, with which four members leave enough of a machine with two processors to
    /// everything else.
    pub const SHARE: f64 = 0.05;

    /// Returns the options for a full run of all figures.
    pub fn new(nw: impl Into<PathBuf>) -> Options {
        Options { nw: nw.into(), figures: FIGURES.to_vec(), quick: false, share: Options::SHARE }
    }

    /// Returns the numbers of concurrent downloads.
    pub(crate) fn downloads(&self) -> &'static [usize] {
        if self.quick { &[1, 2, 3, 5] } else { &[1, 2, 3, 4, 5] }
    }

    /// Returns the warm-up and measurement times of a point.
    pub(crate) fn window(&self) -> (Duration, Duration) {
        let (warm_up_ms, measured_ms) = if self.quick { (400, 900) } else { (1000, 5000) };
        (Duration::from_millis(warm_up_ms), Duration::from_millis(measured_ms))
    }

    /// Returns the length of a download that is measured as a whole.
    pub(crate) fn download(&self) -> Duration {
        Duration::from_secs(if self.quick { 3 } else { 15 })
    }

    /// Returns the length of a stage in figure 14.
    pub(crate) fn stage(&self) -> Duration {
        Duration::from_secs(if self.quick { 3 } else { 15 })
    }
}

/// The machine of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The name of the first processor.
    pub processor: String,
    /// Number of processors.
    pub processors: usize,
    /// The release of the running kernel.
    pub kernel: String,
}

impl Machine {
    /// Returns the current machine.
    pub fn here() -> Machine {
        let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let named = cpuinfo
            .lines()
            .find_map(|line| Some(line.strip_prefix("model name")?.split_once(':')?.1));
        Machine {
            processor: named.unwrap_or("unknown").trim().to_owned(),
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
        }
    }
}

/// The setup of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Setup {
    /// The machine.
    pub machine: Machine,
    /// Whether downloads were shorter and points fewer.
    pub quick: bool,
    /// Share of one processor of each member.
    pub share: f64,
    /// Throughput of a single router with that share before the experiments, in Mbit/s. Each point
    /// has its own simultaneously measured unit.
    pub capacity_mbit: f64,
    /// Maximum number of pending Interests of a download.
    pub window: u16,
}

impl Setup {
    /// Returns paragraphs about the differences to the paper's testbed.
    pub fn describe(&self) -> Vec<String> {
        vec![
            format!(
                "The paper had a server of 16 cores, a virtual machine for each node, and a processor for each machine. Here each node is a network namespace on one machine \
                 ({}, {} processors, Linux {}), and all share its processors. So that the balancer and the endpoints are not the bottleneck, a control group \
                 gives each member {:.1} % of one processor, distributed every 20 ms. Kernel threads process the packets that members send and that reach the \
                 balancer, so that a member's share is used for its own packets only, as on a separate machine.",
                self.machine.processor,
                self.machine.processors,
                self.machine.kernel,
                100.0 * self.share
            ),
            format!(
                "A single router with that share forwards {:.1} Mbit/s (Interests and Data with all headers, as the paper counts; the paper's 300 Mbit/s). That is \
                 the unit of the charts, so that shapes can be compared: 1 is the capacity of one member. Such a router is measured beside each point at the same time, with unlimited endpoints \
                 of its own, because the speed of a shared machine changes; this is the first measurement.",
                self.capacity_mbit
            ),
            "In the paper a consumer and a producer have the capacity of one member each. Here the links of consumers and producers are limited to the same rate \
             (figures 6 to 10); in the other figures they are not."
                .to_owned(),
            format!(
                "Downloads are nw cat's, with at most {} pending Interests (the paper: ndncatchunks, 16), and never retransmit: one lost packet would end an \
                 experiment. Consumers have no router of their own. Packets hold 4400 bytes of content as the paper's, and travel in NDNLPv2 fragments that \
                 fit the links' frames of 1500.",
                self.window
            ),
            "The balancer's processor time is that of its kernel program, from the kernel's own statistics of programs, and of its process; the work of the system to \
             move frames to and from the program is not included. A member's processor time is that of its process."
                .to_owned(),
        ]
    }
}
