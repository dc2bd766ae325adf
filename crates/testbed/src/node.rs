//! Nodes and links. Each node is a namespace with a veth pair to the switch, which is a namespace
//! with two bridges.

use crate::cgroup::{Cgroup, CgroupHierarchy};
use crate::error::LabError;
use crate::ethtool;
use crate::netns;
use crate::plan::{Addresses, INSIDE, Net, OUTSIDE, Plan, Role};
use crate::process::Running;
use std::collections::HashMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The interface of a node, except of a balancer.
pub(crate) const IFACE: &str = "eth0";
/// The burst of a shaped link in bytes, and the longest time that a packet waits for it.
const BURST: &str = "64kb";
const LATENCY: &str = "100ms";
/// Maximum number of packets that wait for the thread of a link.
const QUEUE_PACKETS: u32 = 20_000;

/// The traffic of an interface, from its node's side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Traffic {
    /// Packets received.
    pub received_packets: u64,
    /// Bytes received, including Ethernet headers.
    pub received_bytes: u64,
    /// Packets sent.
    pub sent_packets: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Packets that the link lost in both directions.
    pub lost_packets: u64,
}

impl Traffic {
    /// Returns the traffic since an earlier snapshot.
    #[must_use]
    pub fn since(&self, before: &Traffic) -> Traffic {
        Traffic {
            received_packets: self.received_packets - before.received_packets,
            received_bytes: self.received_bytes - before.received_bytes,
            sent_packets: self.sent_packets - before.sent_packets,
            sent_bytes: self.sent_bytes - before.sent_bytes,
            lost_packets: self.lost_packets - before.lost_packets,
        }
    }
}

/// The namespace with the bridges.
#[derive(Debug)]
pub(crate) struct Switch {
    pub(crate) netns: String,
    vlan: Option<u16>,
    has_ipv6: bool,
    link_threads: bool,
}

impl Switch {
    pub(crate) fn make(lab: &str, plan: &Plan) -> Result<Switch, LabError> {
        let netns = format!("{lab}-net");
        netns::make(&[&netns])?;
        let switch = Switch {
            netns,
            vlan: plan.member_vlan,
            has_ipv6: plan.has_ipv6(),
            link_threads: plan.link_threads,
        };
        netns::set(&switch.netns, "net/ipv6/conf/default/disable_ipv6", "1")?;
        let mut lines = String::new();
        for bridge in [OUTSIDE, INSIDE] {
            let _ =
                writeln!(lines, "link add {bridge} type bridge mcast_snooping 0 forward_delay 0");
            let _ = writeln!(lines, "link set {bridge} up");
        }
        netns::batch("ip", Some(&switch.netns), &lines)?;
        Ok(switch)
    }

    /// Joins an interface of a node to a bridge through a port, which has the node's name if the
    /// node has one interface. A port that a kernel program sends to has a queue for each
    /// processor: frames are lost when a queue is full, but a processor that fills its own queue
    /// empties it before it continues.
    fn join(
        &self,
        node: &str,
        iface: &str,
        (port, queues): (&str, usize),
        bridge: &str,
    ) -> Result<(), LabError> {
        let lines = format!(
            "link add {iface} numrxqueues {queues} type veth peer name {port} numrxqueues {queues} netns {0}\nlink set {iface} up\n",
            self.netns
        );
        netns::batch("ip", Some(node), &lines)?;
        netns::batch("ip", Some(&self.netns), &format!("link set {port} master {bridge} up\n"))?;
        netns::within_netns(node, || ethtool::set(iface, ethtool::FULL_CHECKSUMS))?;
        netns::within_netns(&self.netns, || ethtool::set(port, ethtool::FULL_CHECKSUMS))
    }

    /// Processes the packets that arrive at an interface in a thread of the kernel. A queue at the
    /// peer interface holds back its senders.
    fn receive_in_thread(
        netns: &str,
        iface: &str,
        (peer_netns, peer_iface): (&str, &str),
    ) -> Result<(), LabError> {
        // Only an interface with GRO or a kernel program has NAPI, which the thread runs.
        netns::within_netns(netns, || ethtool::set(iface, ethtool::ACCEPTS_REDIRECTED))?;
        // `ip netns exec` mounts the namespace's own /sys.
        let script = format!("echo 1 > /sys/class/net/{iface}/threaded");
        netns::run("ip", &["netns", "exec", netns, "sh", "-c", &script])?;
        netns::batch(
            "tc",
            Some(peer_netns),
            &format!("qdisc replace dev {peer_iface} root pfifo limit {QUEUE_PACKETS}\n"),
        )
    }

    /// Returns the traffic of each port by its name, from the node's side.
    pub(crate) fn traffic(&self) -> Result<HashMap<String, Traffic>, LabError> {
        let path = Path::new("/proc/thread-self/net/dev");
        let text = netns::within_netns(&self.netns, || {
            fs::read_to_string(path).map_err(LabError::at("read", path))
        })?;
        Ok(traffic(&text))
    }
}

/// The counters of an interface in `/proc/net/dev`.
pub(crate) struct InterfaceCounters {
    bytes_in: u64,
    packets_in: u64,
    pub(crate) lost_in: u64,
    bytes_out: u64,
    packets_out: u64,
    pub(crate) lost_out: u64,
}

impl InterfaceCounters {
    /// Returns the bytes received, including Ethernet headers.
    pub(crate) const fn received_bytes(&self) -> u64 {
        self.bytes_in
    }
}

/// Parses the counters of each interface in `/proc/net/dev`.
pub(crate) fn parse_net_dev(text: &str) -> impl Iterator<Item = (&str, InterfaceCounters)> {
    text.lines().skip(2).filter_map(|line| {
        let (name, numbers) = line.split_once(':')?;
        let numbers: Vec<u64> = numbers.split_whitespace().filter_map(|n| n.parse().ok()).collect();
        let [bytes_in, packets_in, _, lost_in, _, _, _, _, bytes_out, packets_out, _, lost_out, ..] =
            numbers[..]
        else {
            return None;
        };
        Some((
            name.trim(),
            InterfaceCounters { bytes_in, packets_in, lost_in, bytes_out, packets_out, lost_out },
        ))
    })
}

/// Returns the traffic of the nodes from the counters of the switch's ports: a node sent what its
/// port received.
fn traffic(text: &str) -> HashMap<String, Traffic> {
    let by_node = parse_net_dev(text).map(|(name, port)| {
        let traffic = Traffic {
            received_packets: port.packets_out,
            received_bytes: port.bytes_out,
            sent_packets: port.packets_in,
            sent_bytes: port.bytes_in,
            lost_packets: port.lost_in + port.lost_out,
        };
        (name.to_owned(), traffic)
    });
    by_node.collect()
}

/// A node of the testbed.
#[derive(Debug)]
pub struct Node {
    /// The node's name: `c1`, `m2`, `p1`, `b1`.
    pub name: String,
    /// The namespace, for `ip netns exec`.
    pub netns: String,
    /// The node's addresses; for a balancer its own ones, not the cluster's.
    pub addresses: Addresses,
    pub(crate) cgroup: Option<Cgroup>,
    directory: PathBuf,
}

impl Node {
    /// Makes a node without programs.
    pub(crate) fn make(
        (lab, directory): (&str, &Path),
        switch: &Switch,
        role: Role,
        number: usize,
        share: Option<(&CgroupHierarchy, f64)>,
        rate_mbit: Option<f64>,
    ) -> Result<Node, LabError> {
        let name = format!("{}{number}", role.letter());
        let netns = format!("{lab}-{name}");
        netns::make(&[&netns])?;
        let addresses = Addresses::node(role, number);
        let cgroup =
            share.map(|(hierarchy, share)| hierarchy.make(lab, &name, share)).transpose()?;
        let node = Node { name, netns, addresses, cgroup, directory: directory.to_owned() };
        match role {
            Role::Balancer => node.connect_balancer(switch, number)?,
            _ => node.connect(switch, Net::of(role))?,
        }
        if let Some(rate) = rate_mbit {
            node.limit(switch, rate)?;
        }
        Ok(node)
    }

    /// Makes a node without interfaces.
    pub(crate) fn unconnected(
        lab: &str,
        directory: &Path,
        name: &str,
        addresses: Addresses,
    ) -> Result<Node, LabError> {
        let netns = format!("{lab}-{name}");
        netns::make(&[&netns])?;
        let (name, directory) = (name.to_owned(), directory.to_owned());
        Ok(Node { name, netns, addresses, cgroup: None, directory })
    }

    fn connect(&self, switch: &Switch, net: Net) -> Result<(), LabError> {
        switch.join(&self.netns, IFACE, (&self.name, 1), net.link())?;
        if switch.link_threads && net == Net::Members {
            Switch::receive_in_thread(&switch.netns, &self.name, (&self.netns, IFACE))?;
        }
        let mut lines = String::new();
        let iface = match switch.vlan.filter(|_| net == Net::Members) {
            Some(vlan) => {
                let _ = writeln!(
                    lines,
                    "link add link {IFACE} name {IFACE}.{vlan} type vlan id {vlan}"
                );
                let _ = writeln!(lines, "link set {IFACE}.{vlan} up");
                format!("{IFACE}.{vlan}")
            }
            None => IFACE.to_owned(),
        };
        let gateway = net.gateway();
        let _ = writeln!(lines, "address add {}/24 dev {iface}", self.addresses.v4);
        let _ = writeln!(lines, "route add default via {} dev {iface}", gateway.v4);
        if switch.has_ipv6 {
            let _ = writeln!(lines, "address add {}/64 dev {iface} nodad", self.addresses.v6);
            let _ = writeln!(lines, "route add ::/0 via {} dev {iface}", gateway.v6);
        }
        self.batch(&lines)?;
        if iface != IFACE {
            netns::within_netns(&self.netns, || {
                ethtool::set(&iface, &ethtool::FULL_CHECKSUMS[..1])
            })?;
        }
        Ok(())
    }

    /// Adds two interfaces, with addresses in all networks.
    fn connect_balancer(&self, switch: &Switch, number: usize) -> Result<(), LabError> {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        for link in [OUTSIDE, INSIDE] {
            let port = format!("{}-{link}", self.name);
            switch.join(&self.netns, link, (&port, processors), link)?;
            // Frames that a kernel program sends through the interface arrive at the port.
            netns::within_netns(&switch.netns, || {
                ethtool::set(&port, ethtool::ACCEPTS_REDIRECTED)
            })?;
        }
        let mut lines = String::new();
        if let Some(vlan) = switch.vlan {
            let _ =
                writeln!(lines, "link add link {INSIDE} name {INSIDE}.{vlan} type vlan id {vlan}");
            let _ = writeln!(lines, "link set {INSIDE}.{vlan} up");
        }
        self.batch(&lines)?;
        self.set("net/ipv4/ip_forward", "1")?;
        self.set("net/ipv4/conf/all/send_redirects", "0")?;
        self.set("net/ipv4/conf/default/send_redirects", "0")?;
        for link in [OUTSIDE, INSIDE] {
            self.set(&format!("net/ipv4/conf/{link}/send_redirects"), "0")?;
        }
        if switch.has_ipv6 {
            self.set("net/ipv6/conf/all/forwarding", "1")?;
        }
        self.batch(&own_addresses(switch, |net| Addresses::of(net, 1 + number as u8)))
    }

    /// Processes packets to a balancer in threads, if the plan has link threads.
    pub(crate) fn receive_by_threads(&self, switch: &Switch) -> Result<(), LabError> {
        self.for_both_links(switch, |link, port| {
            Switch::receive_in_thread(&self.netns, link, (&switch.netns, port))
        })
    }

    /// Processes packets from the single router in threads, if the plan has link threads.
    pub(crate) fn send_by_threads(&self, switch: &Switch) -> Result<(), LabError> {
        self.for_both_links(switch, |link, port| {
            Switch::receive_in_thread(&switch.netns, port, (&self.netns, link))
        })
    }

    fn for_both_links(
        &self,
        switch: &Switch,
        run: impl Fn(&str, &str) -> Result<(), LabError>,
    ) -> Result<(), LabError> {
        let mut links = [OUTSIDE, INSIDE].into_iter().filter(|_| switch.link_threads);
        links.try_for_each(|link| run(link, &format!("{}-{link}", self.name)))
    }

    /// Adds the gateways' addresses to the only balancer.
    pub(crate) fn add_gateway_addresses(&self, switch: &Switch) -> Result<(), LabError> {
        self.batch(&own_addresses(switch, Net::gateway))
    }

    /// Limits the rate of the node's link in both directions.
    pub(crate) fn limit(&self, switch: &Switch, rate_mbit: f64) -> Result<(), LabError> {
        for (netns, iface) in [(&self.netns, IFACE), (&switch.netns, self.name.as_str())] {
            let rate = (rate_mbit * 1000.0).round().max(1.0);
            let line = format!(
                "qdisc replace dev {iface} root tbf rate {rate}kbit burst {BURST} latency {LATENCY}\n"
            );
            netns::batch("tc", Some(netns), &line)?;
        }
        Ok(())
    }

    pub(crate) fn batch(&self, lines: &str) -> Result<(), LabError> {
        netns::batch("ip", Some(&self.netns), lines)
    }

    pub(crate) fn set(&self, key: &str, value: &str) -> Result<(), LabError> {
        netns::set(&self.netns, key, value)
    }

    /// Returns the path of a file of this node.
    pub(crate) fn path(&self, suffix: &str) -> PathBuf {
        self.directory.join(format!("{}.{suffix}", self.name))
    }

    /// Starts a program on this node, within its share. Its output goes to the file
    /// `<node>.<log>.log` in the testbed's directory.
    ///
    /// # Errors
    /// Returns an error if the program can't be started.
    pub fn start(&self, log: &str, command: &mut Command) -> Result<Running, LabError> {
        // Programs keep their keys and caches here.
        command.env("HOME", &self.directory);
        let what = format!("{log} on {}", self.name);
        Running::start(
            &what,
            command,
            &self.netns,
            self.cgroup.as_ref(),
            self.path(&format!("{log}.log")),
        )
    }

    /// Runs a function on this node; sockets opened in `work` belong to the node.
    ///
    /// # Errors
    /// Returns the errors of `work`, and an error if the namespace is gone.
    pub fn within<T: Send, E: From<LabError> + Send>(
        &self,
        work: impl FnOnce() -> Result<T, E> + Send,
    ) -> Result<T, E> {
        netns::within_netns(&self.netns, work)
    }

    /// Returns the Ethernet address of an interface.
    ///
    /// # Errors
    /// Returns an error if the interface does not exist.
    pub fn mac(&self, iface: &str) -> Result<String, LabError> {
        let text = netns::run("ip", &["-n", &self.netns, "-brief", "link", "show", "dev", iface])?;
        Ok(text.split_whitespace().nth(2).unwrap_or_default().to_owned())
    }

    /// Sets the node's share of one processor. The plan must have given it a share.
    ///
    /// # Errors
    /// Returns an error if the node has no share or the system refuses.
    pub fn set_share(&self, share: f64) -> Result<(), LabError> {
        let none = || {
            LabError::Plan(format!(
                "{} has no share of a processor: set one in the plan",
                self.name
            ))
        };
        self.cgroup.as_ref().ok_or_else(none)?.set_share(share)
    }

    /// Returns the total time in which the node's programs were runnable but throttled.
    pub fn throttled(&self) -> Duration {
        self.cgroup.as_ref().map(Cgroup::throttled).unwrap_or_default()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        netns::remove(&self.netns);
    }
}

/// Returns the `ip` commands that add a balancer's addresses in each network.
fn own_addresses(switch: &Switch, of: impl Fn(Net) -> Addresses) -> String {
    let mut lines = String::new();
    for net in Net::ALL {
        let iface = match switch.vlan {
            Some(vlan) if net == Net::Members => format!("{INSIDE}.{vlan}"),
            _ => net.link().to_owned(),
        };
        let addresses = of(net);
        let _ = writeln!(lines, "address add {}/24 dev {iface}", addresses.v4);
        if switch.has_ipv6 {
            let _ = writeln!(lines, "address add {}/64 dev {iface} nodad", addresses.v6);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traffic_of_port_is_reversed_for_node() {
        let text = "Inter-|   Receive  |  Transmit\n face |bytes packets\n    m1: 1000 10 0 1 0 0 0 0 2000 20 0 2 0 0 0 0\n";
        let m1 = traffic(text)["m1"];
        assert_eq!(
            (m1.sent_bytes, m1.sent_packets, m1.received_bytes, m1.received_packets),
            (1000, 10, 2000, 20)
        );
        assert_eq!(m1.lost_packets, 3);
        let later = Traffic { sent_packets: 15, ..m1 };
        assert_eq!(later.since(&m1), Traffic { sent_packets: 5, ..Traffic::default() });
    }
}
