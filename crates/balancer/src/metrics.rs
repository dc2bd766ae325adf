//! The `/metrics` page: Prometheus text format, version 0.0.4.

use core::fmt::Write;
use nw_api::balancer::{BalancerStatus, MemberCounters, MemberState};

const STATES: [MemberState; 5] = [
    MemberState::Joining,
    MemberState::Active,
    MemberState::Draining,
    MemberState::Drained,
    MemberState::Failed,
];

/// Returns all metrics of a balancer.
pub fn encode(status: &BalancerStatus) -> String {
    let mut out = String::new();
    let mut metric = |name: &str, kind: &str, help: &str, samples: Vec<(String, String)>| {
        let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for (labels, value) in samples {
            let _ = writeln!(out, "{name}{labels} {value}");
        }
    };
    let verdicts = status.verdicts.iter();
    let verdicts =
        verdicts.map(|(verdict, count)| (format!("{{verdict=\"{verdict}\"}}"), count.to_string()));
    metric("nw_balancer_packets_total", "counter", "Packets by verdict.", verdicts.collect());
    let (mut packets, mut byte_counts) = (Vec::new(), Vec::new());
    let (mut shares, mut states, mut probes, mut weights) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for member in &status.members {
        // A member's name has letters, digits, - and _ only: no quoting is needed.
        let (name, counted) = (&member.name, &member.counters);
        add_traffic(name, counted, &mut packets, &mut byte_counts);
        shares.push((format!("{{member=\"{name}\"}}"), member.share.to_string()));
        weights.push((format!("{{member=\"{name}\"}}"), member.weight.to_string()));
        for state in STATES {
            let labels = format!("{{member=\"{name}\",state=\"{state}\"}}");
            states.push((labels, u8::from(member.state == state).to_string()));
        }
        let probe = member.probe_us.map(|us| (us as f64 / 1e6).to_string());
        probes.extend(probe.map(|seconds| (format!("{{member=\"{name}\"}}"), seconds)));
    }
    metric("nw_balancer_member_packets_total", "counter", "Packets to and from a member.", packets);
    metric("nw_balancer_member_bytes_total", "counter", "Bytes to and from a member.", byte_counts);
    metric("nw_balancer_member_share", "gauge", "A member's share of all names, 0 to 1.", shares);
    metric("nw_balancer_member_weight", "gauge", "A member's weight.", weights);
    metric("nw_balancer_member_state", "gauge", "1 for the current state of a member.", states);
    metric(
        "nw_balancer_member_probe_seconds",
        "gauge",
        "Duration of a member's last probe.",
        probes,
    );
    let single = |value: String| vec![(String::new(), value)];
    let routes = &status.routes;
    metric("nw_balancer_routes", "gauge", "Replicated routes.", single(routes.routes.to_string()));
    let help = "Routes of the control member that can't be replicated.";
    metric("nw_balancer_routes_skipped", "gauge", help, single(routes.skipped.to_string()));
    let version = vec![(format!("{{version=\"{}\"}}", env!("CARGO_PKG_VERSION")), "1".to_owned())];
    metric("nw_balancer_build_info", "gauge", "1, with the version of the program.", version);
    let help = "Diagnostics that need an operator.";
    metric("nw_balancer_warnings", "gauge", help, single(status.warnings.len().to_string()));
    metric(
        "nw_balancer_uptime_seconds",
        "gauge",
        "Time since the start.",
        single(status.uptime_s.to_string()),
    );
    out
}

/// A sample: labels and value.
type Sample = (String, String);

/// Adds the packet and byte counters of a member in both directions.
fn add_traffic(
    name: &str,
    counted: &MemberCounters,
    packets: &mut Vec<Sample>,
    bytes: &mut Vec<Sample>,
) {
    const KINDS: [&str; 5] = ["interest", "data", "nack", "fragment", "other"];
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
    for (direction, counts, total) in
        [("in", received, counted.in_bytes), ("out", sent, counted.out_bytes)]
    {
        for (kind, count) in KINDS.iter().zip(counts) {
            let labels = format!("{{member=\"{name}\",direction=\"{direction}\",kind=\"{kind}\"}}");
            packets.push((labels, count.to_string()));
        }
        bytes.push((format!("{{member=\"{name}\",direction=\"{direction}\"}}"), total.to_string()));
    }
}
