//! The status of a running balancer, as the control socket reports it.

use super::Balancer;
use crate::config::Weight;
use crate::health::Outcome;
use crate::members::Member;
use crate::remote_agents::ClusterInfo;
use nw_api::balancer::{
    BalancerInterface, BalancerMember, BalancerStatus, MemberCounters, MemberState, NameWhere,
    RuleText,
};
use nw_name::NameRef;
use nw_slot_table::{Effect, locate_name};

/// Converts the kernel's counters of a member.
pub(super) fn counters(counted: &nw_kernel::balancer::MemberCounters) -> MemberCounters {
    let (to, from) = (&counted.to, &counted.from);
    MemberCounters {
        in_interests: to.interests,
        in_data: to.data,
        in_nacks: to.nacks,
        in_fragments: to.fragments,
        in_others: to.others,
        in_bytes: to.bytes,
        out_interests: from.interests,
        out_data: from.data,
        out_nacks: from.nacks,
        out_fragments: from.fragments,
        out_others: from.others,
        out_bytes: from.bytes,
    }
}

impl Balancer {
    /// Returns what an agent has to know of the cluster.
    pub(crate) fn cluster_info(&self) -> ClusterInfo {
        let name = self.config.cluster.name.clone();
        ClusterInfo { name, addresses: super::cluster_addresses(&self.config) }
    }

    pub(crate) fn status(&self) -> BalancerStatus {
        let cluster = &self.config.cluster;
        let counted = &self.written.counters;
        let interface = |(name, mode): &(String, nw_kernel::balancer::AttachMode)| {
            BalancerInterface { name: name.clone(), mode: mode.as_str().to_owned() }
        };
        let verdicts =
            counted.verdicts().map(|(verdict, frames)| (verdict.as_str().to_owned(), frames));
        BalancerStatus {
            cluster: cluster.name.clone(),
            addresses: cluster.addresses.iter().map(|ip| ip.0).collect(),
            port: cluster.port as u16,
            uptime_s: self.started.elapsed().as_secs_f64(),
            adopted: self.adopted,
            interfaces: self.interfaces.iter().map(interface).collect(),
            control_member: self
                .members
                .control_member(self.now())
                .map(|member| member.item.name.clone()),
            members: self.members.iter().map(|member| self.member(member)).collect(),
            routes: self.replica.clone(),
            verdicts: verdicts.collect(),
            system_settings: self.settings.clone(),
            warnings: self.all_warnings(),
            elastic: self.scaling.status(),
        }
    }

    fn member(&self, member: &Member) -> BalancerMember {
        let name = &member.item.name;
        let probed = self.probes.get(name);
        let probe = probed.and_then(|probed| match probed.outcome {
            Outcome::Answered(took) | Outcome::Late(took) => Some(took.as_micros() as u64),
            Outcome::Nacked | Outcome::Lost => None,
        });
        let share = self.written.table.as_ref().map_or(0.0, |table| table.share(member.number));
        BalancerMember {
            name: name.clone(),
            number: member.number,
            state: member.state,
            since_s: self.now().since(member.since).as_secs_f64(),
            addresses: member.item.addresses.iter().map(|ip| ip.0).collect(),
            port: member.item.port as u16,
            weight: self.members.weight(member),
            measured: member.item.weight == Weight::Measured,
            measured_per_s: member.measured_per_s,
            share,
            control: self.written.control == Some(member.number),
            healthy: member.healthy,
            probe_us: probe,
            trouble: self.trouble(member),
            has_routes: member.has_routes
                || member.item.external_routes
                || !self.config.routes.replicate,
            reachable: self
                .written
                .members
                .get(&member.number)
                .is_some_and(|entry| entry.hop.is_some()),
            added: member.added,
            counters: counters(&self.written.counters.member(member.number)),
        }
    }

    fn trouble(&self, member: &Member) -> Option<String> {
        let name = &member.item.name;
        let errors = self.member_errors.iter().filter(|((of, _), _)| of == name);
        let mut all: Vec<String> = errors.map(|(_, message)| message.clone()).collect();
        if self.written.members.get(&member.number).is_none_or(|entry| entry.hop.is_none()) {
            let address = member.item.addresses[0].0;
            all.push(format!(
                "no neighbour answers for {address}: see `ip neighbour` and `ip route get {address}`"
            ));
        }
        if member.state != MemberState::Draining {
            let probed = self.probes.get(name).and_then(|probed| probed.outcome.trouble());
            all.extend(probed.map(str::to_owned));
        }
        let has_agent = member.item.control.is_some() || self.agents.is_remote(name);
        if member.state == MemberState::Joining
            && !has_agent
            && self.config.routes.replicate
            && !member.item.external_routes
        {
            all.push(
                "it has no agent: start `nw balancer agent` beside its router, or configure its socket (control)"
                    .to_owned(),
            );
        }
        (!all.is_empty()).then(|| all.join("; "))
    }

    fn all_warnings(&self) -> Vec<String> {
        let mut all: Vec<String> = self.warnings.values().cloned().collect();
        if self.members.is_empty() {
            all.push("there is no member: add one with `nw balancer add`".to_owned());
        } else if self.members.serving().is_empty() {
            all.push("no member takes names: packets to the cluster are dropped".to_owned());
        } else if !self.members.iter().any(|member| member.state == MemberState::Active) {
            all.push("no member is healthy: the failed ones keep their names".to_owned());
        }
        if self.config.vrrp.outside_addresses.is_empty() {
            for ip in
                self.config.cluster.addresses.iter().filter(|ip| !self.next_hops.has_address(ip.0))
            {
                all.push(format!(
                    "this machine does not have the cluster's address {}: `ip address add` it",
                    ip.0
                ));
            }
        }
        all
    }

    pub(crate) fn where_is(&self, name: NameRef<'_>) -> NameWhere {
        let unset = nw_slot_table::Table::compute(&[], 0);
        let table = self.written.table.as_ref().unwrap_or(&unset);
        let served =
            locate_name(name, &self.key, &self.rules, table, self.written.control.unwrap_or(0));
        let rule = served.decision.rule.and_then(|at| self.rules.iter().nth(at));
        let member = self.members.iter().find(|member| member.number == served.member);
        let (by, hashed) = match rule.map(|(_, effect)| effect) {
            Some(Effect::Control) => ("control", name.to_name()),
            Some(Effect::Depth(depth)) => ("depth", name.prefix(usize::from(depth)).to_name()),
            None => ("name", name.to_name()),
        };
        NameWhere {
            name: name.to_name().to_string(),
            member: member.map(|member| member.item.name.clone()),
            by: by.to_owned(),
            hashed: hashed.to_string(),
            slot: served.slot.map(|slot| slot as u32),
        }
    }

    pub(crate) fn rule_texts(&self) -> Vec<RuleText> {
        let rule = |(prefix, effect): (NameRef<'_>, Effect)| RuleText {
            prefix: prefix.to_name().to_string(),
            depth: match effect {
                Effect::Depth(depth) => Some(u32::from(depth)),
                Effect::Control => None,
            },
            control: effect == Effect::Control,
        };
        self.rules.iter().map(rule).collect()
    }
}
