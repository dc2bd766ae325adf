//! Counters of lost packets: of interfaces, queues and sockets in each namespace, of balancers by
//! verdict, and of routers by reason.

use crate::error::LabError;
use crate::netns;
use crate::node::{InterfaceCounters, parse_net_dev};
use nw_api::management::DropCount;
use nw_kernel::balancer::Verdict;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::Path;

/// Lost packets by place. Places without losses are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LossCounters(pub BTreeMap<String, u64>);

impl LossCounters {
    /// Returns the losses since an earlier snapshot.
    #[must_use]
    pub fn since(&self, before: &LossCounters) -> LossCounters {
        let increases = self.0.iter().map(|(place, now)| {
            (place.clone(), now.saturating_sub(before.0.get(place).copied().unwrap_or_default()))
        });
        LossCounters(increases.filter(|(_, packets)| *packets > 0).collect())
    }

    /// Updates the counters from a later snapshot. Counters of removed nodes are kept.
    pub fn update(&mut self, later: LossCounters) {
        self.0.extend(later.0);
    }

    /// Returns true if no packet was lost.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn add(&mut self, place: String, packets: u64) {
        if packets > 0 {
            *self.0.entry(place).or_default() += packets;
        }
    }

    /// Adds the losses in a namespace, shown as `name`.
    pub(crate) fn add_namespace(&mut self, netns: &str, name: &str) -> Result<(), LabError> {
        let read = |file: &str| {
            let path = Path::new("/proc/thread-self/net").join(file);
            netns::within_netns(netns, || {
                fs::read_to_string(&path).map_err(LabError::at("read", &path))
            })
        };
        self.add_interfaces(&read("dev")?, name);
        // A system without IPv6 has no snmp6.
        self.add_sockets(&read("snmp")?, &read("snmp6").unwrap_or_default(), name);
        self.add_queues(&netns::run("tc", &["-n", netns, "-s", "-j", "qdisc", "show"])?, name)
    }

    /// Adds the losses in `/proc/net/dev`.
    fn add_interfaces(&mut self, text: &str, name: &str) {
        for (iface, InterfaceCounters { lost_in, lost_out, .. }) in parse_net_dev(text) {
            self.add(format!("arriving at {iface} of {name}"), lost_in);
            self.add(format!("leaving by {iface} of {name}"), lost_out);
        }
    }

    /// Adds the losses in `/proc/net/snmp`, where a line of names is followed by a line of numbers,
    /// and in `/proc/net/snmp6`, where each line has both.
    fn add_sockets(&mut self, v4: &str, v6: &str, name: &str) {
        let mut udp_lines = v4.lines().filter_map(|line| line.strip_prefix("Udp: "));
        let (names, numbers) =
            (udp_lines.next().unwrap_or_default(), udp_lines.next().unwrap_or_default());
        let pairs = names.split_whitespace().zip(numbers.split_whitespace());
        let pairs6 = v6
            .lines()
            .filter_map(|line| line.strip_prefix("Udp6")?.split_once(char::is_whitespace));
        for (counter, number) in pairs.chain(pairs6) {
            let place = match counter {
                "RcvbufErrors" => "arriving at UDP sockets",
                "SndbufErrors" => "leaving by UDP sockets",
                _ => continue,
            };
            self.add(format!("{place} of {name}"), number.trim().parse().unwrap_or_default());
        }
    }

    /// Adds the losses in the output of `tc`.
    fn add_queues(&mut self, json: &str, name: &str) -> Result<(), LabError> {
        #[derive(Deserialize)]
        struct Queue {
            dev: String,
            #[serde(default)]
            drops: u64,
        }
        let queues: Vec<Queue> = serde_json::from_str(json).map_err(|error| LabError::Program {
            what: "tc".to_owned(),
            said: format!("its list of queues can't be read: {error}"),
        })?;
        for Queue { dev, drops } in queues {
            self.add(format!("waiting for {dev} of {name}"), drops);
        }
        Ok(())
    }

    /// Adds the packets dropped by a router.
    pub(crate) fn add_router(&mut self, drops: &[DropCount], name: &str) {
        for drop in drops {
            self.add(format!("by reason {} of the router on {name}", drop.reason), drop.count);
        }
    }

    /// Adds the packets dropped by a balancer.
    pub(crate) fn add_balancer(&mut self, verdicts: &BTreeMap<String, u64>, name: &str) {
        for verdict in Verdict::ALL.into_iter().filter(|verdict| verdict.is_drop()) {
            let packets = verdicts.get(verdict.as_str()).copied().unwrap_or_default();
            self.add(
                format!("by verdict {verdict} of {name}", verdict = verdict.as_str()),
                packets,
            );
        }
    }
}

impl fmt::Display for LossCounters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("nothing");
        }
        for (at, (place, packets)) in self.0.iter().enumerate() {
            write!(f, "{}{packets} {place}", if at == 0 { "" } else { ", " })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_are_reported_by_place() {
        let mut losses = LossCounters::default();
        losses.add_interfaces(
            "Inter-| Receive | Transmit\n face |bytes packets errs drop fifo frame compressed multicast|...\n  \
             eth0: 10 2 0 3 0 0 0 0 20 4 0 5 0 0 0 0\n    lo: 1 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0\n",
            "m1",
        );
        losses.add_sockets(
            "Ip: Forwarding\nIp: 1\nUdp: InDatagrams NoPorts RcvbufErrors SndbufErrors\nUdp: 9 8 7 0\n",
            "Udp6InDatagrams                 \t5\nUdp6RcvbufErrors                \t1\n",
            "m1",
        );
        let json = r#"[{"kind":"tbf","dev":"eth0","drops":6},{"kind":"noqueue","dev":"lo"}]"#;
        losses.add_queues(json, "m1").expect("read");
        losses.add_balancer(&[("no_hop".to_owned(), 2), ("interest".to_owned(), 99)].into(), "b1");
        assert_eq!(
            losses.to_string(),
            "8 arriving at UDP sockets of m1, 3 arriving at eth0 of m1, 2 by verdict no_hop of b1, 5 leaving by eth0 of m1, \
             6 waiting for eth0 of m1"
        );
        let mut later = losses.clone();
        later.add("leaving by eth0 of m1".to_owned(), 4);
        assert_eq!(later.since(&losses).to_string(), "4 leaving by eth0 of m1");
        assert_eq!(losses.since(&losses).to_string(), "nothing");
        later.update(LossCounters([("by verdict no_hop of b1".to_owned(), 9)].into()));
        assert_eq!(
            later.since(&losses).to_string(),
            "7 by verdict no_hop of b1, 4 leaving by eth0 of m1"
        );
    }
}
