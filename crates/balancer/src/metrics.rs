//! The `/metrics` page: Prometheus text format, version 0.0.4.

use core::fmt::Display;
use nw_agent::{Enrolment, EnrolmentCounts};
use nw_api::balancer::{BalancerMember, BalancerStatus, MemberCounters, MemberState};
use nw_api::exposition::Exposition;

const STATES: [MemberState; 5] = [
    MemberState::Joining,
    MemberState::Active,
    MemberState::Draining,
    MemberState::Drained,
    MemberState::Failed,
];

/// Returns all metrics of a balancer.
pub fn encode(status: &BalancerStatus, enrolments: &EnrolmentCounts) -> String {
    let mut text = Exposition::default();
    text.family("nw_balancer_packets_total", "counter", "Packets by verdict.");
    for (verdict, count) in &status.verdicts {
        text.sample("nw_balancer_packets_total", &[("verdict", verdict)], count);
    }
    write_members(&mut text, &status.members);
    let routes = &status.routes;
    text.single("nw_balancer_routes", "gauge", "Replicated routes.", routes.routes);
    let help = "Routes of the control member that can't be replicated.";
    text.single("nw_balancer_routes_skipped", "gauge", help, routes.skipped);
    text.family("nw_balancer_build_info", "gauge", "1, with the version of the program.");
    let version = env!("CARGO_PKG_VERSION");
    text.sample("nw_balancer_build_info", &[("version", &version)], 1);
    let help = "Attempts of agents to enrol with the token of a group, by outcome.";
    text.family("nw_balancer_enrolments_total", "counter", help);
    for outcome in Enrolment::ALL {
        let labels: [(&str, &dyn Display); 1] = [("outcome", &outcome.as_str())];
        text.sample("nw_balancer_enrolments_total", &labels, enrolments.count(outcome));
    }
    let help = "Diagnostics that need an operator.";
    text.single("nw_balancer_warnings", "gauge", help, status.warnings.len());
    text.single("nw_balancer_uptime_seconds", "gauge", "Time since the start.", status.uptime_s);
    text.finish()
}

/// Writes the metrics of all members.
fn write_members(text: &mut Exposition, members: &[BalancerMember]) {
    let name = "nw_balancer_member_packets_total";
    text.family(name, "counter", "Packets to and from a member.");
    for member in members {
        for (direction, counts, _) in traffic(&member.counters) {
            for (kind, count) in KINDS.iter().zip(counts) {
                let labels: [(&str, &dyn Display); 3] =
                    [("member", &member.name), ("direction", &direction), ("kind", kind)];
                text.sample(name, &labels, count);
            }
        }
    }
    let name = "nw_balancer_member_bytes_total";
    text.family(name, "counter", "Bytes to and from a member.");
    for member in members {
        for (direction, _, bytes) in traffic(&member.counters) {
            text.sample(name, &[("member", &member.name), ("direction", &direction)], bytes);
        }
    }
    let name = "nw_balancer_member_share";
    text.family(name, "gauge", "A member's share of all names, 0 to 1.");
    for member in members {
        text.sample(name, &[("member", &member.name)], member.share);
    }
    let name = "nw_balancer_member_weight";
    text.family(name, "gauge", "A member's weight.");
    for member in members {
        text.sample(name, &[("member", &member.name)], member.weight);
    }
    let name = "nw_balancer_member_state";
    text.family(name, "gauge", "1 for the current state of a member.");
    for member in members {
        for state in STATES {
            let is_current = u8::from(member.state == state);
            text.sample(name, &[("member", &member.name), ("state", &state)], is_current);
        }
    }
    let name = "nw_balancer_member_probe_seconds";
    text.family(name, "gauge", "Duration of a member's last probe.");
    for member in members {
        if let Some(us) = member.probe_us {
            text.sample(name, &[("member", &member.name)], us as f64 / 1e6);
        }
    }
}

const KINDS: [&str; 5] = ["interest", "data", "nack", "fragment", "other"];

/// Returns the packets by kind and the bytes of a member in both directions.
const fn traffic(counted: &MemberCounters) -> [(&'static str, [u64; 5], u64); 2] {
    let received = [
        counted.in_interests,
        counted.in_data,
        counted.in_nacks,
        counted.in_fragments,
        counted.in_others,
    ];
    let sent = [
        counted.out_interests,
        counted.out_data,
        counted.out_nacks,
        counted.out_fragments,
        counted.out_others,
    ];
    [("in", received, counted.in_bytes), ("out", sent, counted.out_bytes)]
}
