//! The plan of a testbed, and the addresses of its nodes.

use crate::error::LabError;
use nw_name::Name;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;

/// The cluster's port.
pub const PORT: u16 = 6363;
/// Maximum number of consumers and of producers.
pub const ENDPOINTS_MAX: usize = 60;
/// Maximum number of members.
pub const MEMBERS_MAX: usize = 63;

/// The router program of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RouterProgram {
    /// `nw run` of this binary.
    Namewire(PathBuf),
    /// Any other router that takes NFD management commands on a unix socket and listens on a UDP
    /// port. `{socket}`, `{port}`, `{address}`, `{address6}` and `{folder}` are replaced in its
    /// arguments and set in its environment as `NW_LAB_SOCKET` and so on.
    Other {
        /// The path of the program.
        program: PathBuf,
        /// The program's arguments.
        arguments: Vec<String>,
    },
}

impl RouterProgram {
    /// Returns NDNd, another project's router. Its configuration is written by a shell, as it takes
    /// no options.
    pub fn ndnd(program: &std::path::Path) -> Self {
        let script = "cat >$NW_LAB_FOLDER/ndnd.yml <<YAML\n\
            core: {log_level: WARN}\n\
            faces:\n  udp: {enabled_unicast: true, enabled_multicast: false, \
            port_unicast: $NW_LAB_PORT, default_mtu: 1420}\n  tcp: {enabled: true, \
            port_unicast: $NW_LAB_PORT}\n  unix: {enabled: true, socket_path: $NW_LAB_SOCKET}\n  \
            websocket: {enabled: false}\nfw: {threads: 1}\nmgmt: {allow_localhop: true}\n\
            tables:\n  content_store: {capacity: 4096}\nYAML\n\
            exec \"$0\" fw run $NW_LAB_FOLDER/ndnd.yml";
        RouterProgram::Other {
            program: "/bin/sh".into(),
            arguments: vec!["-c".into(), script.into(), program.display().to_string()],
        }
    }
}

/// The transport between endpoints and the cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// UDP over IPv4.
    #[default]
    Udp4,
    /// UDP over IPv6.
    Udp6,
    /// Ethernet frames, no IP.
    Ethernet,
}

/// The plan of a testbed. [`Plan::new`] returns the smallest one, whose fields can be changed.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Number of consumers.
    pub consumers: usize,
    /// Number of members.
    pub members: usize,
    /// Number of producers.
    pub producers: usize,
    /// Number of balancers: 1, 2 with failover by keepalived, or 0 for a single router with the
    /// cluster's address.
    pub balancers: usize,
    /// The `nw` binary that runs endpoints and balancers.
    pub nw: PathBuf,
    /// The router program of the members.
    pub router: RouterProgram,
    /// Numbers, from 1, of the members that run `router` while the others run `nw`; empty for all.
    pub router_for: Vec<u8>,
    /// The transport between endpoints and the cluster.
    pub transport: Transport,
    /// Whether nodes have IPv6 addresses as well.
    pub ipv6: bool,
    /// The VLAN of the members, whose frames carry its tag.
    pub member_vlan: Option<u16>,
    /// The link rate of each consumer and producer in Mbit/s, in each direction.
    pub end_rate_mbit: Option<f64>,
    /// The link rate of each member in Mbit/s, in each direction; the last value applies to all
    /// that follow.
    pub member_rates_mbit: Vec<Option<f64>>,
    /// The share of one processor of each member.
    pub member_share: Option<f64>,
    /// The share of one processor of each consumer and producer.
    pub mark_face_ended: Option<f64>,
    /// Whether kernel threads process the packets sent by members and received by balancers.
    /// Otherwise the sender of a packet does all the work that follows from it, out of its own
    /// share. Full queues hold back their senders from Linux 6.17 on; earlier kernels drop bursts.
    pub link_threads: bool,
    /// Capacity of each member's content store in packets.
    pub cache_packets: u64,
    /// Whether each consumer has its own router, as in the paper; otherwise applications connect to
    /// the cluster.
    pub consumer_routers: bool,
    /// Weights of the members in the balancer; 100 for members without an entry.
    pub weights: Vec<u32>,
    /// Prefixes with the number of name components that choose the member.
    pub depth_rules: Vec<(Name, u32)>,
    /// Additional configuration of the balancers, as TOML.
    pub balancer_config: String,
    /// Additional configuration of the members that run `nw`, as TOML.
    pub member_config: String,
}

impl Plan {
    /// Returns a plan with one node of each kind and without limits, for an `nw` binary.
    pub fn new(nw: impl Into<PathBuf>) -> Plan {
        let nw = nw.into();
        Plan {
            consumers: 1,
            members: 1,
            producers: 1,
            balancers: 1,
            router: RouterProgram::Namewire(nw.clone()),
            router_for: Vec::new(),
            nw,
            transport: Transport::Udp4,
            ipv6: false,
            member_vlan: None,
            end_rate_mbit: None,
            member_rates_mbit: Vec::new(),
            member_share: None,
            mark_face_ended: None,
            link_threads: false,
            cache_packets: 0,
            consumer_routers: false,
            weights: Vec::new(),
            depth_rules: Vec::new(),
            balancer_config: String::new(),
            member_config: String::new(),
        }
    }

    /// Checks that the plan can be built.
    pub(crate) fn check(&self) -> Result<(), LabError> {
        let refuse = |message: String| Err(LabError::Plan(message));
        for (what, count, max) in [
            ("consumers", self.consumers, ENDPOINTS_MAX),
            ("producers", self.producers, ENDPOINTS_MAX),
            ("members", self.members, MEMBERS_MAX),
            ("balancers", self.balancers, 2),
        ] {
            if count > max {
                return refuse(format!("{count} {what} are too many: at most {max}"));
            }
        }
        if self.members == 0 {
            return refuse("a cluster has at least one member".into());
        }
        if self.balancers == 0 && self.members > 1 {
            return refuse("without a balancer there is only one router: set one member".into());
        }
        if self.balancers == 0 && self.transport == Transport::Ethernet {
            return refuse("Ethernet faces need a balancer: they connect to its interface".into());
        }
        let rates = self.member_rates_mbit.iter().flatten().chain(&self.end_rate_mbit);
        for (what, value) in rates.map(|rate| ("a rate in Mbit/s", rate)).chain(
            [&self.member_share, &self.mark_face_ended]
                .into_iter()
                .flatten()
                .map(|s| ("a share", s)),
        ) {
            if !(value.is_finite() && *value > 0.0) {
                return refuse(format!("{value} is not {what}: it must be above 0"));
            }
        }
        if let Some(number) = self
            .router_for
            .iter()
            .find(|number| !(1..=MEMBERS_MAX).contains(&usize::from(**number)))
        {
            return refuse(format!(
                "{number} is not a member number: they are from 1 to {MEMBERS_MAX}"
            ));
        }
        if self.member_vlan.is_some_and(|vlan| !(1..=4094).contains(&vlan)) {
            return refuse("a VLAN's number is from 1 to 4094".into());
        }
        Ok(())
    }

    pub(crate) fn has_ipv6(&self) -> bool {
        self.ipv6 || self.transport == Transport::Udp6
    }

    /// Returns the link rate of a member, counted from 0.
    pub(crate) fn member_rate_mbit(&self, at: usize) -> Option<f64> {
        *self.member_rates_mbit.get(at).or(self.member_rates_mbit.last())?
    }

    pub(crate) fn weight(&self, at: usize) -> u32 {
        self.weights.get(at).copied().unwrap_or(100)
    }
}

/// The role of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Role {
    Consumer,
    Producer,
    Member,
    Balancer,
}

impl Role {
    pub(crate) const fn letter(self) -> char {
        match self {
            Role::Consumer => 'c',
            Role::Producer => 'p',
            Role::Member => 'm',
            Role::Balancer => 'b',
        }
    }
}

/// A network. Consumers and producers share the outside link, members use the inside link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Net {
    Consumers = 1,
    Producers = 2,
    Members = 3,
}

impl Net {
    pub(crate) const ALL: [Net; 3] = [Net::Consumers, Net::Producers, Net::Members];

    pub(crate) const fn of(role: Role) -> Net {
        match role {
            Role::Consumer | Role::Balancer => Net::Consumers,
            Role::Producer => Net::Producers,
            Role::Member => Net::Members,
        }
    }

    /// Returns the gateway's addresses, which are the cluster's in the consumers' network.
    pub(crate) const fn gateway(self) -> Addresses {
        Addresses::of(self, 1)
    }

    /// Returns the link of the network.
    pub(crate) const fn link(self) -> &'static str {
        if matches!(self, Net::Members) { INSIDE } else { OUTSIDE }
    }
}

/// The links, and the balancer's interfaces to them.
pub(crate) const OUTSIDE: &str = "outside";
pub(crate) const INSIDE: &str = "inside";

/// The addresses of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// The IPv4 address.
    pub v4: Ipv4Addr,
    /// The IPv6 address, which is assigned only if the plan has IPv6.
    pub v6: Ipv6Addr,
}

impl Addresses {
    pub(crate) const fn of(net: Net, host: u8) -> Addresses {
        Addresses {
            v4: Ipv4Addr::new(10, 91, net as u8, host),
            v6: Ipv6Addr::new(0xfd91, net as u16, 0, 0, 0, 0, 0, host as u16),
        }
    }

    /// Returns the addresses of a node by role and number, from 1.
    pub(crate) const fn node(role: Role, number: usize) -> Addresses {
        let base = if matches!(role, Role::Balancer) { 1 } else { 100 };
        Addresses::of(Net::of(role), base + number as u8)
    }

    /// Returns the address for a transport.
    pub const fn by(self, transport: Transport) -> IpAddr {
        match transport {
            Transport::Udp6 => IpAddr::V6(self.v6),
            Transport::Udp4 | Transport::Ethernet => IpAddr::V4(self.v4),
        }
    }
}

/// Returns the port of a member, which identifies it in packets from members.
pub const fn member_port(number: u8) -> u16 {
    6400 + number as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn node_addresses_and_ports_are_unique() {
        let mut seen = HashSet::new();
        for net in Net::ALL {
            assert!(seen.insert(net.gateway().v4));
        }
        for (role, max) in [
            (Role::Consumer, ENDPOINTS_MAX),
            (Role::Producer, ENDPOINTS_MAX),
            (Role::Member, MEMBERS_MAX),
            (Role::Balancer, 2),
        ] {
            assert!(
                (1..=max).all(|number| seen.insert(Addresses::node(role, number).v4)),
                "{role:?}"
            );
        }
        assert!((1..=MEMBERS_MAX as u8).all(|number| member_port(number) != PORT));
    }

    #[test]
    fn impossible_plan_is_refused() {
        let mut plan = Plan::new("nw");
        assert!(plan.check().is_ok());
        plan.members = 64;
        assert_eq!(plan.check().unwrap_err().to_string(), "64 members are too many: at most 63");
        plan.members = 0;
        assert!(plan.check().unwrap_err().to_string().contains("at least one"));
        plan.members = 2;
        plan.balancers = 0;
        assert!(plan.check().unwrap_err().to_string().contains("one router"));
        plan.balancers = 1;
        plan.member_share = Some(0.0);
        assert!(plan.check().unwrap_err().to_string().contains("above 0"));
        plan.member_share = None;
        plan.router_for = vec![1, 64];
        assert_eq!(
            plan.check().unwrap_err().to_string(),
            "64 is not a member number: they are from 1 to 63"
        );
        plan.router_for = vec![2];
        plan.member_vlan = Some(5000);
        assert!(plan.check().unwrap_err().to_string().contains("4094"));
    }
}
