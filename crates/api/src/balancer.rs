//! Messages of a balancer's control socket, as JSON.

use crate::schema::{HostAddressText, MemberNameText, NameText, WeightText};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use utoipa::ToSchema;

/// The state of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum MemberState {
    /// It receives routes, is probed, and optionally measured. It has no names.
    Joining,
    /// Names are assigned to it.
    Active,
    /// It gets no new names, and answers pending Interests.
    Draining,
    /// It stays in the cluster without names.
    Drained,
    /// Its probes are not answered. It has no names until they are.
    Failed,
    /// It was removed.
    Gone,
}

impl MemberState {
    /// Returns the state as in JSON.
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
    /// Name of the cluster.
    pub cluster: String,
    /// Addresses of the cluster.
    #[schema(value_type = Vec<HostAddressText>)]
    pub addresses: Vec<IpAddr>,
    /// UDP port of the cluster.
    pub port: u16,
    /// Seconds since this process started.
    pub uptime_s: f64,
    /// Whether it took over the data path of an earlier process.
    pub adopted: bool,
    /// Interfaces to which the program is attached.
    pub interfaces: Vec<BalancerInterface>,
    /// Name of the member that is assigned control names.
    pub control_member: Option<String>,
    /// Members, by number.
    pub members: Vec<BalancerMember>,
    /// Routes that are copied to members.
    pub routes: ReplicaStatus,
    /// Packets by verdict of the kernel program.
    pub verdicts: BTreeMap<String, u64>,
    /// System settings that it changed on this machine.
    pub system_settings: Vec<SystemSetting>,
    /// Problems that need an operator; empty if there are none.
    pub warnings: Vec<String>,
    /// State of the autoscaler; absent if it is disabled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elastic: Option<ElasticStatus>,
}

/// An interface to which the program is attached.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BalancerInterface {
    /// Name of the interface.
    pub name: String,
    /// Kind of attachment: `native`, `generic` or `tc`.
    pub mode: String,
}

/// A system setting that the balancer changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SystemSetting {
    /// Name of the sysctl.
    pub name: String,
    /// Value before the change.
    pub before: String,
    /// Value set by the balancer.
    pub now: String,
}

/// A router of the cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BalancerMember {
    /// Name of the member.
    pub name: String,
    /// Number of the member in the kernel's tables.
    pub number: u8,
    /// State of the member.
    pub state: MemberState,
    /// Seconds since the state changed.
    pub since_s: f64,
    /// Addresses of the member.
    #[schema(value_type = Vec<HostAddressText>)]
    pub addresses: Vec<IpAddr>,
    /// UDP port of the member.
    pub port: u16,
    /// Weight relative to the other members.
    pub weight: u32,
    /// Whether the weight is measured.
    pub measured: bool,
    /// Measured capacity, Interests per second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measured_per_s: Option<u32>,
    /// Share of all names, 0 to 1.
    pub share: f64,
    /// Whether it is assigned control names.
    pub control: bool,
    /// Whether its probes are answered; absent before the first result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub healthy: Option<bool>,
    /// Round-trip time of the last probe, microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe_us: Option<u64>,
    /// Why it is not healthy or has no routes; absent without a problem.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// Whether it has all routes.
    pub has_routes: bool,
    /// Whether the kernel has resolved its link address.
    pub reachable: bool,
    /// Whether it was added at run time.
    pub added: bool,
    /// Packet counters of the kernel program.
    pub counters: MemberCounters,
}

/// Packet counters of a member, since the program was loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MemberCounters {
    /// Interests sent to the member.
    pub in_interests: u64,
    /// Data sent to the member.
    pub in_data: u64,
    /// Nacks sent to the member.
    pub in_nacks: u64,
    /// Fragments sent to the member, except the first of each packet, which counts as the packet.
    pub in_fragments: u64,
    /// Other packets to the member's port.
    pub in_others: u64,
    /// Bytes sent to the member.
    pub in_bytes: u64,
    /// Interests received from the member.
    pub out_interests: u64,
    /// Data received from the member.
    pub out_data: u64,
    /// Nacks received from the member.
    pub out_nacks: u64,
    /// Fragments received from the member, except the first of each packet.
    pub out_fragments: u64,
    /// Other packets received from the member.
    pub out_others: u64,
    /// Bytes received from the member.
    pub out_bytes: u64,
}

impl MemberCounters {
    /// Returns the number of packets in both directions.
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

/// State of the routes that are copied to members.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReplicaStatus {
    /// Number that changes with each change of a route; 0 before the first query.
    pub generation: u64,
    /// Number of routes.
    pub routes: u64,
    /// Number of strategy choices.
    pub strategies: u64,
    /// Routes that can't be copied: to local applications, and over accepted connections.
    pub skipped: u64,
    /// Peers that accept packets only from the cluster's port.
    pub one_port_peers: u64,
    /// Duration of the last query, milliseconds.
    pub look_ms: u64,
}

/// State of the autoscaler.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ElasticStatus {
    /// Load of all members, Interests per second.
    pub load_per_s: f64,
    /// Capacity of the active members, Interests per second.
    pub capacity_per_s: f64,
    /// What the autoscaler waits for, or why it does nothing.
    pub says: String,
}

/// `POST /v1/members`: a member to add.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MemberWanted {
    /// Name of the member.
    #[schema(value_type = MemberNameText)]
    pub name: String,
    /// Addresses of the member, one of each address family of the cluster.
    #[schema(value_type = Vec<HostAddressText>, min_items = 1, max_items = 2)]
    pub addresses: Vec<IpAddr>,
    /// UDP port of the member.
    #[schema(example = 6404, minimum = 1, maximum = 65535)]
    pub port: u16,
    /// Weight: a number, or `measured`. Default 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<WeightText>)]
    pub weight: Option<String>,
    /// Unix socket of its router, on the balancer's machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub control: Option<PathBuf>,
    /// Do not copy the routes of the control member to it.
    #[serde(default, alias = "own_routes")]
    pub external_routes: bool,
}

/// `PATCH /v1/members/NAME`: changes of a member. Absent fields are unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct MemberChange {
    /// Weight: a number, or `measured`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<WeightText>)]
    pub weight: Option<String>,
    /// Drain the member, or activate it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drain: Option<bool>,
}

/// `GET /v1/where?name=…`: the member to which a name is assigned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NameWhere {
    /// The name.
    #[schema(value_type = NameText)]
    pub name: String,
    /// Name of the member; null if there is no active member.
    pub member: Option<String>,
    /// `name`: by the hash of the whole name; `depth`: by that of its first components; `control`:
    /// by a rule.
    pub by: String,
    /// The part of the name that is hashed.
    #[schema(value_type = NameText)]
    pub hashed: String,
    /// Slot of the hash; absent for control names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<u32>,
}

/// `GET /v1/rules`: one rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RuleText {
    /// The prefix.
    #[schema(value_type = NameText)]
    pub prefix: String,
    /// Number of hashed components; absent for a rule of control names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depth: Option<u32>,
    /// Whether names are assigned to the control member.
    pub control: bool,
}

/// `GET /v1/replica`: commands that an agent sends to its router, encoded as in the management
/// protocol.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Replica {
    /// Number that changes with each change. With the query parameter `known` the response is empty
    /// while it is the same.
    pub generation: u64,
    /// Prefix under which the agent answers probes.
    pub probe_prefix: String,
    /// Routes, in the order in which they are registered.
    pub routes: Vec<ReplicaRoute>,
    /// Strategies by prefix.
    pub strategies: BTreeMap<String, String>,
}

/// A route that every member has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReplicaRoute {
    /// Name prefix.
    #[schema(value_type = NameText)]
    pub prefix: String,
    /// Remote URI of the next hop.
    pub face: String,
    /// Origin number.
    pub origin: u64,
    /// Cost; lower is better.
    pub cost: u64,
    /// Flag bits.
    pub flags: u64,
}

/// `PUT /v1/members/NAME/agent`: the report of a member's agent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentReport {
    /// Generation of the routes that the member's router has completely; absent if none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<u64>,
    /// Pending Interests in its router, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pending: Option<u64>,
    /// A problem of the agent or its router, as a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

/// The response to [`AgentReport`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AgentOrder {
    /// Generation of the routes that the member should have.
    pub generation: u64,
    /// Whether the agent should report pending Interests.
    pub ask_pending: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn member_with_old_name_of_external_routes_is_accepted() {
        let member = |field: &str| {
            let text =
                format!("{{\"name\":\"m4\",\"addresses\":[],\"port\":6404,\"{field}\":true}}");
            serde_json::from_str::<MemberWanted>(&text).unwrap()
        };
        assert!(member("external_routes").external_routes);
        assert_eq!(member("own_routes"), member("external_routes"));
    }
}
