//! A chain of two routers with one link between them: the topology of "Bulk of Interest" (SIGCOMM
//! 2012).
//!
//! ```text
//!  consumers ─unix─▶ r1 ══ veth, tbf in both directions, netem if there is a delay ══ r2 ◀─unix─ producer
//! ```
//!
//! Each router has a namespace of its own. Everything is removed on drop, also after an error while
//! it is built.

use crate::cleanup::{LabLock, needs_root};
use crate::error::LabError;
use crate::netns;
use crate::node::{IFACE, Node};
use crate::plan::{Addresses, PORT, RouterProgram};
use crate::process::Running;
use crate::router::{Listen, Router};
use nw_name::Name;
use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Rates that the kernel's token bucket keeps, Mbit/s.
const RATE_MIN: f64 = 0.1;
const RATE_MAX: f64 = 100_000.0;
/// Longest delay of the link, milliseconds.
const DELAY_MAX_MS: f64 = 10_000.0;
/// Depth of the token bucket, bytes: four full segments.
const BUCKET_BYTES: u64 = 32 << 10;
const START_TIMEOUT: Duration = Duration::from_secs(20);

/// Transport of the link between the routers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChainTransport {
    /// UDP over IPv4.
    Udp,
    /// TCP over IPv4, as in the paper.
    Tcp,
}

/// A chain to build.
#[derive(Clone, Debug)]
pub struct ChainPlan {
    /// The program of both routers.
    pub router: RouterProgram,
    /// The `nw` binary, for the producer.
    pub nw: PathBuf,
    /// Rate of the link, Mbit/s in each direction.
    pub rate_mbit: f64,
    /// Delay of the link in each direction, milliseconds.
    pub delay_ms: f64,
    /// Bytes that wait for the link before it drops packets.
    pub queue_bytes: u64,
    /// Transport of the link.
    pub transport: ChainTransport,
}

impl ChainPlan {
    /// Returns the paper's chain: 100 Mbit/s, TCP.
    pub fn new(nw: PathBuf) -> Self {
        ChainPlan {
            router: RouterProgram::Namewire(nw.clone()),
            nw,
            rate_mbit: 100.0,
            delay_ms: 0.0,
            queue_bytes: 1 << 20,
            transport: ChainTransport::Tcp,
        }
    }

    /// Checks the numbers.
    ///
    /// # Errors
    /// The first number that is not possible.
    pub fn check(&self) -> Result<(), LabError> {
        check_rate(self.rate_mbit)?;
        if !(0.0..=DELAY_MAX_MS).contains(&self.delay_ms) {
            return Err(LabError::Plan(format!(
                "a delay of {} ms is not possible: give 0 to {DELAY_MAX_MS} ms",
                self.delay_ms
            )));
        }
        if !(16_384..=1 << 30).contains(&self.queue_bytes) {
            return Err(LabError::Plan(format!(
                "a queue of {} bytes is not possible: give 16384 to 1073741824 bytes",
                self.queue_bytes
            )));
        }
        Ok(())
    }
}

fn check_rate(rate_mbit: f64) -> Result<(), LabError> {
    if (RATE_MIN..=RATE_MAX).contains(&rate_mbit) {
        return Ok(());
    }
    Err(LabError::Plan(format!(
        "a link of {rate_mbit} Mbit/s is not possible: give {RATE_MIN} to {RATE_MAX} Mbit/s"
    )))
}

/// A running chain.
#[derive(Debug)]
pub struct Chain {
    // Dropped in this order: programs, namespaces, then the name and its directories.
    producer: Option<Running>,
    near: Router,
    far: Router,
    nodes: [Node; 2],
    plan: ChainPlan,
    _lock: LabLock,
}

impl Chain {
    /// Builds a chain. Routes are added by [`serve`](Self::serve).
    ///
    /// # Errors
    /// Returns an error that says what this machine lacks. Nothing is left behind.
    pub fn build(plan: &ChainPlan) -> Result<Chain, LabError> {
        plan.check()?;
        needs_root()?;
        let lock = LabLock::new()?;
        let node = |number: u8| {
            let addresses = Addresses {
                v4: Ipv4Addr::new(10, 77, 0, number),
                v6: Ipv4Addr::new(10, 77, 0, number).to_ipv6_mapped(),
            };
            Node::unconnected(&lock.name, &lock.directory, &format!("r{number}"), addresses)
        };
        let nodes = [node(1)?, node(2)?];
        nodes[0].batch(&format!(
            "link add {IFACE} type veth peer name {IFACE} netns {}\n",
            nodes[1].netns
        ))?;
        for node in &nodes {
            let address = node.addresses.v4;
            node.batch(&format!("address add {address}/24 dev {IFACE}\nlink set {IFACE} up\n"))?;
            shape(node, plan)?;
        }
        let start = |node: &Node| {
            let listen = Listen {
                addresses: node.addresses,
                port: PORT,
                has_ipv6: false,
                has_tcp: plan.transport == ChainTransport::Tcp,
            };
            Router::start(&plan.router, node, listen, "")
        };
        let (near, far) = (start(&nodes[0])?, start(&nodes[1])?);
        Ok(Chain { producer: None, near, far, nodes, plan: plan.clone(), _lock: lock })
    }

    /// Starts a producer for a prefix at the far router, and routes the prefix there.
    ///
    /// # Errors
    /// Returns an error if the producer does not start or a router refuses.
    pub fn serve(&mut self, prefix: &Name, payload: usize) -> Result<(), LabError> {
        let mut command = Command::new(&self.plan.nw);
        command
            .args(["bench", "answer", "--prefix", &prefix.to_string()])
            .args(["--payload", &payload.to_string(), "--socket", &self.far.uri().to_string()])
            .stdout(Stdio::null());
        let mut producer = self.nodes[1].start("producer", &mut command)?;
        let far = &self.far;
        producer.wait_until(START_TIMEOUT, "registered its prefix", || {
            far.has_route(prefix).unwrap_or(false)
        })?;
        self.near.add_route(prefix, &self.far_uri(), None)?;
        self.producer = Some(producer);
        Ok(())
    }

    /// Returns the URI of the far router on the link.
    pub fn far_uri(&self) -> String {
        let scheme = match self.plan.transport {
            ChainTransport::Udp => "udp4",
            ChainTransport::Tcp => "tcp4",
        };
        format!("{scheme}://{}:{PORT}", self.nodes[1].addresses.v4)
    }

    /// Returns the router at the consumers.
    pub const fn near(&self) -> &Router {
        &self.near
    }

    /// Returns the router at the producer.
    pub const fn far(&self) -> &Router {
        &self.far
    }

    /// Changes the rate of the link while it carries traffic.
    ///
    /// # Errors
    /// Returns an error if the rate is not possible or the link is gone.
    pub fn set_rate(&mut self, rate_mbit: f64) -> Result<(), LabError> {
        check_rate(rate_mbit)?;
        self.plan.rate_mbit = rate_mbit;
        self.nodes.iter().try_for_each(|node| shape(node, &self.plan))
    }

    /// Takes the link down or up.
    ///
    /// # Errors
    /// Returns an error if the link is gone.
    pub fn set_up(&self, up: bool) -> Result<(), LabError> {
        self.nodes[0].batch(&format!("link set {IFACE} {}\n", if up { "up" } else { "down" }))
    }

    /// Returns the bytes received by the near end of the link, with Ethernet headers.
    ///
    /// # Errors
    /// Returns an error if the link is gone.
    pub fn received_bytes(&self) -> Result<u64, LabError> {
        let path = Path::new("/proc/thread-self/net/dev");
        let text = self.nodes[0]
            .within(|| fs::read_to_string(path).map_err(LabError::at("read", path)))?;
        let counters = crate::node::parse_net_dev(&text).find(|(name, _)| *name == IFACE);
        let gone = || LabError::Plan("the link of the chain is gone: build it again".into());
        counters.map(|(_, counters)| counters.received_bytes()).ok_or_else(gone)
    }

    /// Returns a drawing with the sockets of the routers.
    pub fn diagram(&self) -> String {
        let plan = &self.plan;
        format!(
            "consumers ── {} ── r1 ══ {} Mbit/s, {} ms, {} ══ r2 ── {} ── producers\n",
            self.near.uri(),
            plan.rate_mbit,
            plan.delay_ms,
            self.far_uri(),
            self.far.uri()
        )
    }
}

/// Limits what a node sends, and delays it.
fn shape(node: &Node, plan: &ChainPlan) -> Result<(), LabError> {
    let rate_kbit = (plan.rate_mbit * 1000.0).round();
    let burst = BUCKET_BYTES.max((plan.rate_mbit * 1e6 / 8.0 * 0.001) as u64);
    let root = format!(
        "qdisc replace dev {IFACE} root handle 1: tbf rate {rate_kbit}kbit burst {burst} limit {}\n",
        plan.queue_bytes
    );
    netns::batch("tc", Some(&node.netns), &root)?;
    if plan.delay_ms == 0.0 {
        return Ok(());
    }
    let delay = format!(
        "qdisc replace dev {IFACE} parent 1:1 handle 10: netem delay {}us limit 100000\n",
        (plan.delay_ms * 1000.0).round()
    );
    netns::batch("tc", Some(&node.netns), &delay).map_err(|error| {
        LabError::Missing(format!(
            "this kernel can't delay packets (netem: {error}): leave out --delay, or use the \
             simulator (`nw paper bulk`), which has delays"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chain_plan_with_impossible_numbers_is_refused() {
        let plan = ChainPlan::new("nw".into());
        assert!(plan.check().is_ok());
        for rate_mbit in [0.0, -1.0, f64::NAN, 1e9] {
            let error = ChainPlan { rate_mbit, ..plan.clone() }.check().expect_err("refused");
            assert!(error.to_string().contains("give 0.1 to 100000 Mbit/s"), "{error}");
        }
        assert!(ChainPlan { delay_ms: -1.0, ..plan.clone() }.check().is_err());
        assert!(ChainPlan { queue_bytes: 1, ..plan }.check().is_err());
    }
}
