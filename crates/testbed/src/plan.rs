//! What a laboratory is built of, and who has which address.

use crate::error::LabError;
use nw_name::Name;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;

/// The port that the cluster is known by.
pub const PORT: u16 = 6363;
/// Most consumers, and most producers.
pub const ENDS_MAX: usize = 60;
/// Most members.
pub const MEMBERS_MAX: usize = 63;

/// The program of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RouterProgram {
    /// `nw run`, from this binary.
    Namewire(PathBuf),
    /// Any other router that takes NFD's management on a unix socket and listens on a UDP port. In its arguments `{socket}`, `{port}`,
    /// `{address}`, `{address6}` and `{folder}` are replaced; they are in its environment as well: `NW_LAB_SOCKET` and so on.
    Other {
        /// Where it is.
        program: PathBuf,
        /// Its arguments.
        arguments: Vec<String>,
    },
}

/// How packets travel between the ends and the cluster.
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

/// A laboratory as wanted. [`Plan::new`] is the smallest; change its fields.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Who asks.
    pub consumers: usize,
    /// Routers of the cluster.
    pub members: usize,
    /// Who answers.
    pub producers: usize,
    /// Balancers before the members: 1, 2 that stand in for each other (keepalived), or 0: one plain router stands in the cluster's place.
    pub balancers: usize,
    /// The `nw` binary: runs ends and balancers.
    pub nw: PathBuf,
    /// What members run.
    pub router: RouterProgram,
    /// The members that run it, by number from 1, while the others run `nw`; empty is all of them.
    pub router_for: Vec<u8>,
    /// How ends reach the cluster.
    pub transport: Transport,
    /// IPv6 addresses beside the others.
    pub ipv6: bool,
    /// The VLAN that members are in: their frames carry its tag.
    pub member_vlan: Option<u16>,
    /// Mbit/s of the link of each consumer and producer, each way.
    pub end_rate_mbit: Option<f64>,
    /// Mbit/s of the link of each member, each way; the last one is for all that follow.
    pub member_rates_mbit: Vec<Option<f64>>,
    /// Share of one processor that each member gets.
    pub member_share: Option<f64>,
    /// Share of one processor that each consumer gets, and each producer.
    pub end_share: Option<f64>,
    /// Threads of the kernel's carry what routers of the cluster send, and work off what reaches a balancer; else whoever sends a packet does all
    /// that follows from it, out of its own share. Queues hold their senders back where the kernel can (Linux 6.17); before that, bursts are lost.
    pub link_threads: bool,
    /// Packets that each member's content store holds; 0 is none.
    pub cache_packets: u64,
    /// A router of its own at each consumer, as in the paper; else applications talk to the cluster.
    pub consumer_routers: bool,
    /// Weights of members in the balancer; 100 for those that are not in it.
    pub weights: Vec<u32>,
    /// Only so many components of names under a prefix choose the member.
    pub depth_rules: Vec<(Name, u32)>,
    /// More of the balancer's configuration, as TOML.
    pub balancer_config: String,
    /// More of the members' configuration where they run `nw`, as TOML.
    pub member_config: String,
}

impl Plan {
    /// One of each, nothing limited, from this `nw` binary.
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
            end_share: None,
            link_threads: false,
            cache_packets: 0,
            consumer_routers: false,
            weights: Vec::new(),
            depth_rules: Vec::new(),
            balancer_config: String::new(),
            member_config: String::new(),
        }
    }

    /// Whether it can be built at all.
    pub(crate) fn check(&self) -> Result<(), LabError> {
        let plan = |said: String| Err(LabError::Plan(said));
        for (what, count, max) in [
            ("consumers", self.consumers, ENDS_MAX),
            ("producers", self.producers, ENDS_MAX),
            ("members", self.members, MEMBERS_MAX),
            ("balancers", self.balancers, 2),
        ] {
            if count > max {
                return plan(format!("{count} {what} are too many: at most {max}"));
            }
        }
        if self.members == 0 {
            return plan("a cluster has at least one member".into());
        }
        if self.balancers == 0 && self.members > 1 {
            return plan("without a balancer there is one router: say one member".into());
        }
        if self.balancers == 0 && self.transport == Transport::Ethernet {
            return plan("Ethernet faces need a balancer: its interface is what they talk to".into());
        }
        let rates = self.member_rates_mbit.iter().flatten().chain(&self.end_rate_mbit);
        for (what, value) in rates
            .map(|rate| ("a rate in Mbit/s", rate))
            .chain([&self.member_share, &self.end_share].into_iter().flatten().map(|s| ("a share", s)))
        {
            if !(value.is_finite() && *value > 0.0) {
                return plan(format!("{value} is not {what}: it must be above 0"));
            }
        }
        if let Some(number) =
            self.router_for.iter().find(|number| !(1..=MEMBERS_MAX).contains(&usize::from(**number)))
        {
            return plan(format!("{number} is no number of a member: they are from 1 to {MEMBERS_MAX}"));
        }
        if self.member_vlan.is_some_and(|vlan| !(1..=4094).contains(&vlan)) {
            return plan("a VLAN's number is from 1 to 4094".into());
        }
        Ok(())
    }

    pub(crate) fn has_v6(&self) -> bool {
        self.ipv6 || self.transport == Transport::Udp6
    }

    /// Of the `at`-th member, from 0.
    pub(crate) fn member_rate_mbit(&self, at: usize) -> Option<f64> {
        *self.member_rates_mbit.get(at).or(self.member_rates_mbit.last())?
    }

    pub(crate) fn weight(&self, at: usize) -> u32 {
        self.weights.get(at).copied().unwrap_or(100)
    }
}

/// Who a node is.
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

/// The networks: consumers and producers share the link outside the cluster, members have the one inside.
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

    /// The gateway's address; in the consumers' network it is the cluster's.
    pub(crate) const fn gateway(self) -> Addresses {
        Addresses::of(self, 1)
    }

    /// The link it is on.
    pub(crate) const fn link(self) -> &'static str {
        if matches!(self, Net::Members) { INSIDE } else { OUTSIDE }
    }
}

/// Links, and the balancer's interfaces to them.
pub(crate) const OUTSIDE: &str = "outside";
pub(crate) const INSIDE: &str = "inside";

/// A node's addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// IPv4.
    pub v4: Ipv4Addr,
    /// IPv6, which it has where the plan says so.
    pub v6: Ipv6Addr,
}

impl Addresses {
    pub(crate) const fn of(net: Net, host: u8) -> Addresses {
        Addresses {
            v4: Ipv4Addr::new(10, 91, net as u8, host),
            v6: Ipv6Addr::new(0xfd91, net as u16, 0, 0, 0, 0, 0, host as u16),
        }
    }

    /// Of the `number`-th of a role, from 1.
    pub(crate) const fn node(role: Role, number: usize) -> Addresses {
        let base = if matches!(role, Role::Balancer) { 1 } else { 100 };
        Addresses::of(Net::of(role), base + number as u8)
    }

    /// The one of a transport.
    pub const fn by(self, transport: Transport) -> IpAddr {
        match transport {
            Transport::Udp6 => IpAddr::V6(self.v6),
            Transport::Udp4 | Transport::Ethernet => IpAddr::V4(self.v4),
        }
    }
}

/// A member's own port: where it is told apart by what comes back.
pub const fn member_port(number: u8) -> u16 {
    6400 + number as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn nobody_shares_an_address_or_the_well_known_port() {
        let mut seen = HashSet::new();
        for net in Net::ALL {
            assert!(seen.insert(net.gateway().v4));
        }
        for (role, max) in [
            (Role::Consumer, ENDS_MAX),
            (Role::Producer, ENDS_MAX),
            (Role::Member, MEMBERS_MAX),
            (Role::Balancer, 2),
        ] {
            assert!((1..=max).all(|number| seen.insert(Addresses::node(role, number).v4)), "{role:?}");
        }
        assert!((1..=MEMBERS_MAX as u8).all(|number| member_port(number) != PORT));
    }

    #[test]
    fn plans_that_cannot_be_are_refused_with_a_reason() {
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
            "64 is no number of a member: they are from 1 to 63"
        );
        plan.router_for = vec![2];
        plan.member_vlan = Some(5000);
        assert!(plan.check().unwrap_err().to_string().contains("4094"));
    }
}
