//! What a balancer says of itself over its control socket, and what it is told.

use crate::schema::{HostAddressText, MemberNameText, NameText, WeightText};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use utoipa::ToSchema;

/// What a member is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum MemberState {
    /// It gets routes, is probed and perhaps measured; it takes no names.
    Joining,
    /// It takes names.
    Active,
    /// It takes no new names, and answers what is pending.
    Draining,
    /// It stays, without names.
    Drained,
    /// Its probes don't come back: it takes no names until they do.
    Failed,
    /// It is no member any more.
    Gone,
}

impl MemberState {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            MemberState::Joining => "joining",
            MemberState::Active => "active",
            MemberState::Draining => "draining",
            MemberState::Drained => "drained",
            MemberState::Failed => "failed",
            MemberState::Gone => "gone",
        }
    }
}

impl core::fmt::Display for MemberState {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.pad(self.as_str())
    }
}

/// `GET /v1/balancer`: the balancer as a whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BalancerStatus {
    /// The cluster's name.
    pub cluster: String,
    /// Its addresses.
    #[schema(value_type = Vec<HostAddressText>)]
    pub addresses: Vec<IpAddr>,
    /// Its UDP port.
    pub port: u16,
    /// Seconds since this process started.
    pub uptime_s: f64,
    /// It took over a data path that an earlier process left working.
    pub adopted: bool,
    /// Where the program is attached, and how: `native`, `generic` or `tc`.
    pub interfaces: Vec<BalancerInterface>,
    /// The member that control names go to now.
    pub control_member: Option<String>,
    /// By number.
    pub members: Vec<BalancerMember>,
    /// Routes that members are given.
    pub routes: ReplicaStatus,
    /// Packets by what became of them.
    pub verdicts: BTreeMap<String, u64>,
    /// What it changed on this machine, and from what.
    pub system_settings: Vec<SystemSetting>,
    /// What is wrong and needs a person; empty when all is well.
    pub warnings: Vec<String>,
    /// The load and what the controller made of it, where members come and go by load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elastic: Option<ElasticStatus>,
}

/// An interface that the program is attached to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BalancerInterface {
    /// Its name.
    pub name: String,
    /// `native`, `generic` or `tc`.
    pub mode: String,
}

/// Something of this machine that the balancer changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SystemSetting {
    /// As sysctl calls it.
    pub name: String,
    /// Before.
    pub before: String,
    /// Now.
    pub now: String,
}

/// One router of the cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BalancerMember {
    /// What it is called.
    pub name: String,
    /// In the kernel's tables.
    pub number: u8,
    /// What it is doing.
    pub state: MemberState,
    /// For so many seconds.
    pub since_s: f64,
    /// Its addresses.
    #[schema(value_type = Vec<HostAddressText>)]
    pub addresses: Vec<IpAddr>,
    /// Its own UDP port.
    pub port: u16,
    /// What it weighs against the others.
    pub weight: u32,
    /// The weight is measured, not written.
    pub measured: bool,
    /// Interests a second it was measured to carry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_per_s: Option<u32>,
    /// Its share of all names, 0 to 1.
    pub share: f64,
    /// Control names go to it.
    pub control: bool,
    /// What its probes say; absent before the first verdict.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub healthy: Option<bool>,
    /// How long its last probe took, microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe_us: Option<u64>,
    /// Why it is not healthy, or has no routes; absent when all is well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// It has all routes.
    pub has_routes: bool,
    /// The kernel knows how to reach it.
    pub reachable: bool,
    /// It was added while the balancer ran.
    pub added: bool,
    /// What the kernel counted.
    pub counters: MemberCounters,
}

/// Packets of one member, since the program was loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MemberCounters {
    /// Interests to it.
    pub in_interests: u64,
    /// Data to it.
    pub in_data: u64,
    /// Nacks to it.
    pub in_nacks: u64,
    /// Fragments of link packets to it, after each packet's first, which counts as what the packet is.
    pub in_fragments: u64,
    /// Anything else to its own port.
    pub in_others: u64,
    /// Octets to it.
    pub in_bytes: u64,
    /// Interests from it.
    pub out_interests: u64,
    /// Data from it.
    pub out_data: u64,
    /// Nacks from it.
    pub out_nacks: u64,
    /// Fragments of link packets from it, after each packet's first.
    pub out_fragments: u64,
    /// Anything else from it.
    pub out_others: u64,
    /// Octets from it.
    pub out_bytes: u64,
}

impl MemberCounters {
    /// Packets in either direction.
    pub const fn packets(&self) -> u64 {
        self.in_interests
            + self.in_data
            + self.in_nacks
            + self.in_fragments
            + self.in_others
            + self.out_others
            + self.out_interests
            + self.out_data
            + self.out_nacks
            + self.out_fragments
    }
}

/// Routes that members are given.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReplicaStatus {
    /// Changes with each change of a route; 0 before the first look.
    pub generation: u64,
    /// Routes.
    pub routes: u64,
    /// Strategy choices.
    pub strategies: u64,
    /// Routes that can't be given on: of faces of applications, and of connections that others made.
    pub skipped: u64,
    /// Peers that take packets from the cluster's port only.
    pub one_port_peers: u64,
    /// Milliseconds that the last look took.
    pub look_ms: u64,
}

/// What the controller of members sees and does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ElasticStatus {
    /// Interests a second to all members.
    pub load_per_s: f64,
    /// What the members that take names carry, Interests a second.
    pub capacity_per_s: f64,
    /// What it waits for, or why it does nothing.
    pub says: String,
}

/// `POST /v1/members`: a member that is wanted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MemberWanted {
    /// What it is called.
    #[schema(value_type = MemberNameText)]
    pub name: String,
    /// Its addresses, one of each family that the cluster has.
    #[schema(value_type = Vec<HostAddressText>, min_items = 1, max_items = 2)]
    pub addresses: Vec<IpAddr>,
    /// Its own UDP port.
    #[schema(example = 6404, minimum = 1, maximum = 65535)]
    pub port: u16,
    /// A number, or `measured`; 100 when not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<WeightText>)]
    pub weight: Option<String>,
    /// The unix socket of its router on the balancer's machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub control: Option<PathBuf>,
    /// It gets its routes otherwise: it is not given those of the control member.
    #[serde(default)]
    pub own_routes: bool,
}

/// `PATCH /v1/members/NAME`: what is absent stays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MemberChange {
    /// A number, or `measured`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<WeightText>)]
    pub weight: Option<String>,
    /// Stay without names, or take them again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain: Option<bool>,
}

/// `GET /v1/where?name=…`: who serves a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NameWhere {
    /// The name.
    #[schema(value_type = NameText)]
    pub name: String,
    /// The member; absent when names go to none.
    pub member: Option<String>,
    /// `name`: its hash chose; `depth`: that of its first components; `control`: a rule.
    pub by: String,
    /// The name whose hash chose.
    #[schema(value_type = NameText)]
    pub hashed: String,
    /// The slot; absent for control names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<u32>,
}

/// One of `GET /v1/rules`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RuleText {
    /// The prefix.
    #[schema(value_type = NameText)]
    pub prefix: String,
    /// So many components choose; absent for a rule of control.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depth: Option<u32>,
    /// Names go to the control member.
    pub control: bool,
}

/// `GET /v1/replica`: what an agent gives its router. The same octets as the management protocol has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Replica {
    /// Changes with each change; ask with `known` to be told nothing while it is the same.
    pub generation: u64,
    /// The prefix under which the agent answers probes.
    pub probe_prefix: String,
    /// Routes, in order.
    pub routes: Vec<ReplicaRoute>,
    /// Strategies by prefix.
    pub strategies: BTreeMap<String, String>,
}

/// A route that every member has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReplicaRoute {
    /// Its prefix.
    #[schema(value_type = NameText)]
    pub prefix: String,
    /// Where it leads.
    pub face: String,
    /// Who made it.
    pub origin: u64,
    /// Its cost.
    pub cost: u64,
    /// Its flags.
    pub flags: u64,
}

/// `PUT /v1/members/NAME/agent`: what the agent of a member says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentReport {
    /// The member's router has all routes of this generation; absent while it has not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<u64>,
    /// Interests that are pending in its router, if it tells.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending: Option<u64>,
    /// What is wrong there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

/// What the agent is told back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AgentOrder {
    /// The generation that the member should have.
    pub generation: u64,
    /// Its router is to be asked what is pending.
    pub ask_pending: bool,
}
