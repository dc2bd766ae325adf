//! Nodes with links of their own between them, without a switch: chains and stars.
//!
//! ```text
//!  n0 ══ v1 ─ veth ─ v0 ══ n1 ══ v2 ─ veth ─ v1 ══ n2 …
//!    10.1.2.1     10.1.2.2     10.2.3.1     10.2.3.2
//! ```
//!
//! Each node has a namespace of its own. Everything is removed on drop, also after an error while
//! it is built.

use crate::cleanup::{LabLock, needs_root};
use crate::error::LabError;
use crate::netns;
use crate::node::Node;
use crate::plan::Addresses;
use std::fmt::Write;
use std::net::Ipv4Addr;
use std::path::Path;

/// Most nodes: their numbers are bytes of addresses.
const NODES_MAX: usize = 250;

/// A link between two nodes, by their numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PointLink {
    /// The ends.
    pub ends: (usize, usize),
    /// Rate in each direction, Mbit/s; `None`: as fast as the processors.
    pub rate_mbit: Option<f64>,
}

impl PointLink {
    /// Returns a link without a limit.
    pub const fn unlimited(a: usize, b: usize) -> Self {
        PointLink { ends: (a, b), rate_mbit: None }
    }
}

/// A running network of nodes and links.
#[derive(Debug)]
pub struct PointNetwork {
    // Dropped in this order: namespaces, then the name and its directories.
    nodes: Vec<Node>,
    lock: LabLock,
}

impl PointNetwork {
    /// Builds `count` nodes and the links between them.
    ///
    /// # Errors
    /// Returns an error that says what this machine lacks. Nothing is left behind.
    pub fn build(count: usize, links: &[PointLink]) -> Result<PointNetwork, LabError> {
        if !(1..=NODES_MAX).contains(&count) {
            return Err(LabError::Plan(format!("{count} nodes: give 1 to {NODES_MAX}")));
        }
        needs_root()?;
        let lock = LabLock::new()?;
        let node = |number: usize| {
            let v4 = Ipv4Addr::new(10, number as u8 + 1, 0, 1);
            let addresses = Addresses { v4, v6: v4.to_ipv6_mapped() };
            Node::unconnected(&lock.name, &lock.directory, &format!("n{number}"), addresses)
        };
        let nodes = (0..count).map(node).collect::<Result<Vec<_>, _>>()?;
        let network = PointNetwork { nodes, lock };
        links.iter().try_for_each(|link| network.connect(link))?;
        Ok(network)
    }

    fn connect(&self, link: &PointLink) -> Result<(), LabError> {
        let (a, b) = link.ends;
        let (near, far) = (&self.nodes[a], &self.nodes[b]);
        near.batch(&format!("link add v{b} type veth peer name v{a} netns {}\n", far.netns))?;
        for (at, to) in [(a, b), (b, a)] {
            let node = &self.nodes[at];
            let mut lines = String::new();
            let _ = writeln!(lines, "address add {}/24 dev v{to}", Self::address(at, to));
            let _ = writeln!(lines, "link set v{to} up");
            node.batch(&lines)?;
            if let Some(rate) = link.rate_mbit {
                let rate_kbit = (rate * 1000.0).round();
                let bucket = format!("tbf rate {rate_kbit}kbit burst 64kb latency 50ms");
                let shape = format!("qdisc replace dev v{to} root {bucket}\n");
                netns::batch("tc", Some(&node.netns), &shape)?;
            }
        }
        Ok(())
    }

    /// Returns the address of a node on its link to another one.
    pub fn address(node: usize, other: usize) -> Ipv4Addr {
        let (low, high) = (node.min(other) as u8 + 1, node.max(other) as u8 + 1);
        Ipv4Addr::new(10, low, high, if node < other { 1 } else { 2 })
    }

    /// Lets a node pass packets between the others, which all have a link to it and to no other.
    ///
    /// # Errors
    /// Returns an error if the system refuses.
    pub fn route_through(&self, middle: usize) -> Result<(), LabError> {
        self.nodes[middle].set("net/ipv4/ip_forward", "1")?;
        for (number, node) in self.nodes.iter().enumerate().filter(|(at, _)| *at != middle) {
            let via = Self::address(middle, number);
            node.batch(&format!("route add default via {via} dev v{middle}\n"))?;
        }
        Ok(())
    }

    /// Returns the nodes.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// Returns the directory of the network's sockets, configurations and logs.
    pub fn directory(&self) -> &Path {
        &self.lock.directory
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_link_share_a_network() {
        assert_eq!(PointNetwork::address(0, 1), Ipv4Addr::new(10, 1, 2, 1));
        assert_eq!(PointNetwork::address(1, 0), Ipv4Addr::new(10, 1, 2, 2));
        assert_eq!(PointNetwork::address(3, 14), Ipv4Addr::new(10, 4, 15, 1));
    }

    #[test]
    fn network_of_too_many_nodes_is_refused() {
        let error = PointNetwork::build(251, &[]).expect_err("refused");
        assert!(error.to_string().contains("give 1 to 250"), "{error}");
    }
}
