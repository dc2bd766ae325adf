//! Where packets were lost: what the system counts at interfaces, queues and sockets of each namespace, balancers by verdict, routers by reason.

use crate::error::LabError;
use crate::node::{Passed, passed};
use crate::space;
use nw_api::management::DropCount;
use nw_kernel::balancer::Verdict;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::Path;

/// Packets lost at each place, which is described in words; places where none were are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Losses(pub BTreeMap<String, u64>);

impl Losses {
    /// What was lost since an earlier look.
    #[must_use]
    pub fn since(&self, before: &Losses) -> Losses {
        let more = self.0.iter().map(|(place, now)| {
            (place.clone(), now.saturating_sub(before.0.get(place).copied().unwrap_or_default()))
        });
        Losses(more.filter(|(_, packets)| *packets > 0).collect())
    }

    /// Takes in a later look. What is known of nodes that are gone stays.
    pub fn renew(&mut self, later: Losses) {
        self.0.extend(later.0);
    }

    /// True when nothing was lost.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn add(&mut self, place: String, packets: u64) {
        if packets > 0 {
            *self.0.entry(place).or_default() += packets;
        }
    }

    /// Adds what was lost in a namespace, of which people know by `name`.
    pub(crate) fn look(&mut self, space: &str, name: &str) -> Result<(), LabError> {
        let read = |file: &str| {
            let path = Path::new("/proc/thread-self/net").join(file);
            space::within(space, || fs::read_to_string(&path).map_err(LabError::at("read", &path)))
        };
        self.at_interfaces(&read("dev")?, name);
        // A system without IPv6 has no such file.
        self.at_sockets(&read("snmp")?, &read("snmp6").unwrap_or_default(), name);
        self.in_queues(&space::ask("tc", &["-n", space, "-s", "-j", "qdisc", "show"])?, name)
    }

    /// From `/proc/net/dev`.
    fn at_interfaces(&mut self, text: &str, name: &str) {
        for (card, Passed { lost_in, lost_out, .. }) in passed(text) {
            self.add(format!("arriving at {card} of {name}"), lost_in);
            self.add(format!("leaving by {card} of {name}"), lost_out);
        }
    }

    /// From `/proc/net/snmp`, where a line of names is followed by one of numbers, and `/proc/net/snmp6`, where each line has both.
    fn at_sockets(&mut self, v4: &str, v6: &str, name: &str) {
        let mut of_udp = v4.lines().filter_map(|line| line.strip_prefix("Udp: "));
        let (names, numbers) = (of_udp.next().unwrap_or_default(), of_udp.next().unwrap_or_default());
        let pairs = names.split_whitespace().zip(numbers.split_whitespace());
        let pairs6 = v6.lines().filter_map(|line| line.strip_prefix("Udp6")?.split_once(char::is_whitespace));
        for (counter, number) in pairs.chain(pairs6) {
            let what = match counter {
                "RcvbufErrors" => "arriving at UDP sockets",
                "SndbufErrors" => "leaving by UDP sockets",
                _ => continue,
            };
            self.add(format!("{what} of {name}"), number.trim().parse().unwrap_or_default());
        }
    }

    /// From what `tc` says.
    fn in_queues(&mut self, json: &str, name: &str) -> Result<(), LabError> {
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

    /// Adds what a router dropped.
    pub(crate) fn at_router(&mut self, drops: &[DropCount], name: &str) {
        for drop in drops {
            self.add(format!("by reason {} of the router on {name}", drop.reason), drop.count);
        }
    }

    /// Adds what a balancer dropped, of its verdicts.
    pub(crate) fn at_balancer(&mut self, verdicts: &BTreeMap<String, u64>, name: &str) {
        for verdict in Verdict::ALL.into_iter().filter(|verdict| verdict.is_drop()) {
            let packets = verdicts.get(verdict.as_str()).copied().unwrap_or_default();
            self.add(format!("by verdict {verdict} of {name}", verdict = verdict.as_str()), packets);
        }
    }
}

impl fmt::Display for Losses {
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
    fn every_place_is_named_where_packets_were_lost() {
        let mut losses = Losses::default();
        losses.at_interfaces(
            "Inter-| Receive | Transmit\n face |bytes packets errs drop fifo frame compressed multicast|...\n  \
             eth0: 10 2 0 3 0 0 0 0 20 4 0 5 0 0 0 0\n    lo: 1 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0\n",
            "m1",
        );
        losses.at_sockets(
            "Ip: Forwarding\nIp: 1\nUdp: InDatagrams NoPorts RcvbufErrors SndbufErrors\nUdp: 9 8 7 0\n",
            "Udp6InDatagrams                 \t5\nUdp6RcvbufErrors                \t1\n",
            "m1",
        );
        let json = r#"[{"kind":"tbf","dev":"eth0","drops":6},{"kind":"noqueue","dev":"lo"}]"#;
        losses.in_queues(json, "m1").expect("read");
        losses.at_balancer(&[("no_hop".to_owned(), 2), ("interest".to_owned(), 99)].into(), "b1");
        assert_eq!(
            losses.to_string(),
            "8 arriving at UDP sockets of m1, 3 arriving at eth0 of m1, 2 by verdict no_hop of b1, 5 leaving by eth0 of m1, \
             6 waiting for eth0 of m1"
        );
        let mut later = losses.clone();
        later.add("leaving by eth0 of m1".to_owned(), 4);
        assert_eq!(later.since(&losses).to_string(), "4 leaving by eth0 of m1");
        assert_eq!(losses.since(&losses).to_string(), "nothing");
        later.renew(Losses([("by verdict no_hop of b1".to_owned(), 9)].into()));
        assert_eq!(later.since(&losses).to_string(), "7 by verdict no_hop of b1, 4 leaving by eth0 of m1");
    }
}
