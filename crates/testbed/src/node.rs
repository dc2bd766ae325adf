//! Nodes and what joins them: a namespace each, a pair of interfaces to a switch, which is a namespace with two bridges.

use crate::error::LabError;
use crate::ethtool;
use crate::plan::{Addresses, INSIDE, Net, OUTSIDE, Plan, Role};
use crate::process::Running;
use crate::quota::{Groups, Quota};
use crate::space;
use std::collections::HashMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The interface of a node that is no balancer.
pub(crate) const CARD: &str = "eth0";
/// Octets that a shaped link lets through in a row, and how long a packet may wait for it.
const BURST: &str = "64kb";
const LATENCY: &str = "100ms";
/// Packets that may wait for a thread that carries them.
const QUEUE_PACKETS: u32 = 20_000;

/// What passed an interface, as its node sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Traffic {
    /// Packets that came.
    pub received_packets: u64,
    /// Octets that came, with Ethernet's heads.
    pub received_octets: u64,
    /// Packets that left.
    pub sent_packets: u64,
    /// Octets that left.
    pub sent_octets: u64,
    /// Packets that the link lost, both ways.
    pub lost_packets: u64,
}

impl Traffic {
    /// What passed since an earlier look.
    #[must_use]
    pub fn since(&self, before: &Traffic) -> Traffic {
        Traffic {
            received_packets: self.received_packets - before.received_packets,
            received_octets: self.received_octets - before.received_octets,
            sent_packets: self.sent_packets - before.sent_packets,
            sent_octets: self.sent_octets - before.sent_octets,
            lost_packets: self.lost_packets - before.lost_packets,
        }
    }
}

/// The namespace with the bridges.
#[derive(Debug)]
pub(crate) struct Switch {
    pub(crate) space: String,
    vlan: Option<u16>,
    has_v6: bool,
    link_threads: bool,
}

impl Switch {
    pub(crate) fn make(lab: &str, plan: &Plan) -> Result<Switch, LabError> {
        let space = format!("{lab}-net");
        space::make(&[&space])?;
        let switch =
            Switch { space, vlan: plan.member_vlan, has_v6: plan.has_v6(), link_threads: plan.link_threads };
        space::set(&switch.space, "net/ipv6/conf/default/disable_ipv6", "1")?;
        let mut lines = String::new();
        for bridge in [OUTSIDE, INSIDE] {
            let _ = writeln!(lines, "link add {bridge} type bridge mcast_snooping 0 forward_delay 0");
            let _ = writeln!(lines, "link set {bridge} up");
        }
        space::batch("ip", Some(&switch.space), &lines)?;
        Ok(switch)
    }

    /// Joins an interface of a node to a bridge. The port has the node's name where that has one interface, and a queue for each processor where a kernel
    /// program sends to it: what is sent so is lost when the queue is full, and who fills a queue of his own processor empties it before he goes on.
    fn join(
        &self,
        node: &str,
        card: &str,
        (port, queues): (&str, usize),
        bridge: &str,
    ) -> Result<(), LabError> {
        let lines = format!(
            "link add {card} numrxqueues {queues} type veth peer name {port} numrxqueues {queues} netns {0}\nlink set {card} up\n",
            self.space
        );
        space::batch("ip", Some(node), &lines)?;
        space::batch("ip", Some(&self.space), &format!("link set {port} master {bridge} up\n"))?;
        space::within(node, || ethtool::set(card, ethtool::WHOLE))?;
        space::within(&self.space, || ethtool::set(port, ethtool::WHOLE))
    }

    /// Gives what arrives at an interface to a thread of its own; a queue at the other end holds back whoever fills it.
    fn carry(space: &str, card: &str, (from, other): (&str, &str)) -> Result<(), LabError> {
        // Only an interface that has GRO, or a kernel program, has what such a thread works for.
        space::within(space, || ethtool::set(card, ethtool::TAKES_REDIRECTED))?;
        // `ip netns exec` shows the namespace's own /sys.
        let word = format!("echo 1 > /sys/class/net/{card}/threaded");
        space::ask("ip", &["netns", "exec", space, "sh", "-c", &word])?;
        space::batch(
            "tc",
            Some(from),
            &format!("qdisc replace dev {other} root pfifo limit {QUEUE_PACKETS}\n"),
        )
    }

    /// What passed each port, by its name, as the nodes see it.
    pub(crate) fn traffic(&self) -> Result<HashMap<String, Traffic>, LabError> {
        let path = Path::new("/proc/thread-self/net/dev");
        let text =
            space::within(&self.space, || fs::read_to_string(path).map_err(LabError::at("read", path)))?;
        Ok(traffic(&text))
    }
}

/// What an interface received and sent, and lost of both.
pub(crate) struct Passed {
    octets_in: u64,
    packets_in: u64,
    pub(crate) lost_in: u64,
    octets_out: u64,
    packets_out: u64,
    pub(crate) lost_out: u64,
}

/// What `/proc/net/dev` says of each interface.
pub(crate) fn passed(text: &str) -> impl Iterator<Item = (&str, Passed)> {
    text.lines().skip(2).filter_map(|line| {
        let (name, numbers) = line.split_once(':')?;
        let numbers: Vec<u64> = numbers.split_whitespace().filter_map(|n| n.parse().ok()).collect();
        let [octets_in, packets_in, _, lost_in, _, _, _, _, octets_out, packets_out, _, lost_out, ..] =
            numbers[..]
        else {
            return None;
        };
        Some((name.trim(), Passed { octets_in, packets_in, lost_in, octets_out, packets_out, lost_out }))
    })
}

/// Of a switch's ports, turned round: what a port received the node sent.
fn traffic(text: &str) -> HashMap<String, Traffic> {
    let turned = passed(text).map(|(name, port)| {
        let traffic = Traffic {
            received_packets: port.packets_out,
            received_octets: port.octets_out,
            sent_packets: port.packets_in,
            sent_octets: port.octets_in,
            lost_packets: port.lost_in + port.lost_out,
        };
        (name.to_owned(), traffic)
    });
    turned.collect()
}

/// A machine of the laboratory.
#[derive(Debug)]
pub struct Node {
    /// `c1`, `m2`, `p1`, `b1`.
    pub name: String,
    /// The namespace: `ip netns exec` takes it.
    pub space: String,
    /// Its addresses; a balancer's own, not the cluster's.
    pub addresses: Addresses,
    pub(crate) quota: Option<Quota>,
    folder: PathBuf,
}

impl Node {
    /// A node with everything but programs.
    pub(crate) fn make(
        (lab, folder): (&str, &Path),
        switch: &Switch,
        role: Role,
        number: usize,
        share: Option<(&Groups, f64)>,
        rate_mbit: Option<f64>,
    ) -> Result<Node, LabError> {
        let name = format!("{}{number}", role.letter());
        let space = format!("{lab}-{name}");
        space::make(&[&space])?;
        let addresses = Addresses::node(role, number);
        let quota = share.map(|(groups, share)| groups.make(lab, &name, share)).transpose()?;
        let node = Node { name, space, addresses, quota, folder: folder.to_owned() };
        match role {
            Role::Balancer => node.wire_balancer(switch, number)?,
            _ => node.wire(switch, Net::of(role))?,
        }
        if let Some(rate) = rate_mbit {
            node.limit(switch, rate)?;
        }
        Ok(node)
    }

    fn wire(&self, switch: &Switch, net: Net) -> Result<(), LabError> {
        switch.join(&self.space, CARD, (&self.name, 1), net.link())?;
        if switch.link_threads && net == Net::Members {
            Switch::carry(&switch.space, &self.name, (&self.space, CARD))?;
        }
        let mut lines = String::new();
        let card = match switch.vlan.filter(|_| net == Net::Members) {
            Some(vlan) => {
                let _ = writeln!(lines, "link add link {CARD} name {CARD}.{vlan} type vlan id {vlan}");
                let _ = writeln!(lines, "link set {CARD}.{vlan} up");
                format!("{CARD}.{vlan}")
            }
            None => CARD.to_owned(),
        };
        let gateway = net.gateway();
        let _ = writeln!(lines, "address add {}/24 dev {card}", self.addresses.v4);
        let _ = writeln!(lines, "route add default via {} dev {card}", gateway.v4);
        if switch.has_v6 {
            let _ = writeln!(lines, "address add {}/64 dev {card} nodad", self.addresses.v6);
            let _ = writeln!(lines, "route add ::/0 via {} dev {card}", gateway.v6);
        }
        self.batch(&lines)?;
        if card != CARD {
            space::within(&self.space, || ethtool::set(&card, &ethtool::WHOLE[..1]))?;
        }
        Ok(())
    }

    /// Two interfaces, with addresses of its own in all networks.
    fn wire_balancer(&self, switch: &Switch, number: usize) -> Result<(), LabError> {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        for link in [OUTSIDE, INSIDE] {
            let port = format!("{}-{link}", self.name);
            switch.join(&self.space, link, (&port, processors), link)?;
            // What a kernel program sends by the interface arrives at the port.
            space::within(&switch.space, || ethtool::set(&port, ethtool::TAKES_REDIRECTED))?;
        }
        let mut lines = String::new();
        if let Some(vlan) = switch.vlan {
            let _ = writeln!(lines, "link add link {INSIDE} name {INSIDE}.{vlan} type vlan id {vlan}");
            let _ = writeln!(lines, "link set {INSIDE}.{vlan} up");
        }
        self.batch(&lines)?;
        self.set("net/ipv4/ip_forward", "1")?;
        self.set("net/ipv4/conf/all/send_redirects", "0")?;
        self.set("net/ipv4/conf/default/send_redirects", "0")?;
        for link in [OUTSIDE, INSIDE] {
            self.set(&format!("net/ipv4/conf/{link}/send_redirects"), "0")?;
        }
        if switch.has_v6 {
            self.set("net/ipv6/conf/all/forwarding", "1")?;
        }
        self.batch(&own_addresses(switch, |net| Addresses::of(net, 1 + number as u8)))
    }

    /// What reaches a balancer is worked off by threads, where the plan says so.
    pub(crate) fn take_by_threads(&self, switch: &Switch) -> Result<(), LabError> {
        self.carry_both(switch, |link, port| Switch::carry(&self.space, link, (&switch.space, port)))
    }

    /// What the router in the cluster's place sends is carried by threads, where the plan says so: as a member's.
    pub(crate) fn send_by_threads(&self, switch: &Switch) -> Result<(), LabError> {
        self.carry_both(switch, |link, port| Switch::carry(&switch.space, port, (&self.space, link)))
    }

    fn carry_both(
        &self,
        switch: &Switch,
        carry: impl Fn(&str, &str) -> Result<(), LabError>,
    ) -> Result<(), LabError> {
        let mut links = [OUTSIDE, INSIDE].into_iter().filter(|_| switch.link_threads);
        links.try_for_each(|link| carry(link, &format!("{}-{link}", self.name)))
    }

    /// Gives the only balancer the addresses that others know.
    pub(crate) fn take_gateways(&self, switch: &Switch) -> Result<(), LabError> {
        self.batch(&own_addresses(switch, Net::gateway))
    }

    /// Both directions of its link.
    pub(crate) fn limit(&self, switch: &Switch, rate_mbit: f64) -> Result<(), LabError> {
        for (space, card) in [(&self.space, CARD), (&switch.space, self.name.as_str())] {
            let rate = (rate_mbit * 1000.0).round().max(1.0);
            let line = format!(
                "qdisc replace dev {card} root tbf rate {rate}kbit burst {BURST} latency {LATENCY}\n"
            );
            space::batch("tc", Some(space), &line)?;
        }
        Ok(())
    }

    pub(crate) fn batch(&self, lines: &str) -> Result<(), LabError> {
        space::batch("ip", Some(&self.space), lines)
    }

    pub(crate) fn set(&self, key: &str, value: &str) -> Result<(), LabError> {
        space::set(&self.space, key, value)
    }

    /// A file of this node.
    pub(crate) fn path(&self, ending: &str) -> PathBuf {
        self.folder.join(format!("{}.{ending}", self.name))
    }

    /// Starts a program on this node, within its share. Its words go to a file `<node>.<log>.log` in the laboratory's folder.
    ///
    /// # Errors
    /// When it can't be started.
    pub fn start(&self, log: &str, command: &mut Command) -> Result<Running, LabError> {
        // Keys and caches of programs stay here.
        command.env("HOME", &self.folder);
        let what = format!("{log} on {}", self.name);
        Running::start(&what, command, &self.space, self.quota.as_ref(), self.path(&format!("{log}.log")))
    }

    /// Does something on this node: sockets opened in `work` are the node's.
    ///
    /// # Errors
    /// Those of `work`, and when the namespace is gone.
    pub fn within<T: Send, E: From<LabError> + Send>(
        &self,
        work: impl FnOnce() -> Result<T, E> + Send,
    ) -> Result<T, E> {
        space::within(&self.space, work)
    }

    /// The Ethernet address of one of its interfaces.
    ///
    /// # Errors
    /// When it has no such interface.
    pub fn mac(&self, card: &str) -> Result<String, LabError> {
        let text = space::ask("ip", &["-n", &self.space, "-brief", "link", "show", "dev", card])?;
        Ok(text.split_whitespace().nth(2).unwrap_or_default().to_owned())
    }

    /// Changes its share of one processor; it must have had one in the plan.
    ///
    /// # Errors
    /// When it has none, or the system refuses.
    pub fn set_share(&self, share: f64) -> Result<(), LabError> {
        let none =
            || LabError::Plan(format!("{} has no share of a processor: say one in the plan", self.name));
        self.quota.as_ref().ok_or_else(none)?.set(share)
    }

    /// For how long its programs wanted to run and might not, all together.
    pub fn throttled(&self) -> Duration {
        self.quota.as_ref().map(Quota::throttled).unwrap_or_default()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        space::remove(&self.space);
    }
}

/// Lines that give a balancer an address in each network.
fn own_addresses(switch: &Switch, of: impl Fn(Net) -> Addresses) -> String {
    let mut lines = String::new();
    for net in Net::ALL {
        let card = match switch.vlan {
            Some(vlan) if net == Net::Members => format!("{INSIDE}.{vlan}"),
            _ => net.link().to_owned(),
        };
        let addresses = of(net);
        let _ = writeln!(lines, "address add {}/24 dev {card}", addresses.v4);
        if switch.has_v6 {
            let _ = writeln!(lines, "address add {}/64 dev {card} nodad", addresses.v6);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_counts_from_the_other_side() {
        let text = "Inter-|   Receive  |  Transmit\n face |bytes packets\n    m1: 1000 10 0 1 0 0 0 0 2000 20 0 2 0 0 0 0\n";
        let m1 = traffic(text)["m1"];
        assert_eq!(
            (m1.sent_octets, m1.sent_packets, m1.received_octets, m1.received_packets),
            (1000, 10, 2000, 20)
        );
        assert_eq!(m1.lost_packets, 3);
        let later = Traffic { sent_packets: 15, ..m1 };
        assert_eq!(later.since(&m1), Traffic { sent_packets: 5, ..Traffic::default() });
    }
}
