//! What the kernel is told: each change once, in the order that loses no packet.

use super::Balancer;
use crate::slots;
use nw_element_api::Instant;
use nw_kernel::KernelError;
use nw_kernel::balancer::{BalancerCounters, Link, MemberEntry, ONE_PORT_PEERS_MAX};
use nw_slot_table::Table;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

/// What it was told last.
#[derive(Default)]
pub(super) struct Written {
    pub(super) members: BTreeMap<u8, MemberEntry>,
    /// What the table was made of, and the table.
    made_of: Option<Vec<(u8, String, u32, bool)>>,
    pub(super) table: Option<Table>,
    pub(super) control: Option<u8>,
    links: Option<Vec<Link>>,
    peers: BTreeSet<SocketAddr>,
    pub(super) counters: BalancerCounters,
}

impl Balancer {
    /// What does not change later; and what an earlier process said that is so no more.
    pub(super) fn tell_kernel_first(&mut self) {
        self.write_rules();
        let Some(path) = &mut self.path else { return };
        // A number that has become another member's: its port would be in the way.
        for (number, entry) in path.members() {
            let same = self
                .members
                .iter()
                .any(|member| member.number == number && member.item.port == u32::from(entry.port));
            if !same && let Err(error) = path.clear_member(number) {
                warn(&mut self.warnings, "members", &error);
            }
        }
    }

    /// Writes the rules to the kernel's program.
    pub(super) fn write_rules(&mut self) {
        let Some(path) = &mut self.path else { return };
        said(&mut self.warnings, "rules", path.set_rules(&self.rules));
    }

    pub(super) fn write_kernel(&mut self) {
        let now = self.now();
        self.ways.take_news();
        let Some(path) = &mut self.path else { return };
        let (written, warnings) = (&mut self.written, &mut self.warnings);
        let links = self.ways.links();
        if written.links.as_deref() != Some(links) {
            said(warnings, "links", path.set_links(links));
            written.links = Some(links.to_vec());
        }
        let ethernet = self.config.cluster.ethernet_inside.is_some();
        for member in self.members.iter() {
            let addresses = || member.item.addresses.iter().map(|ip| ip.0);
            let before = written.members.get(&member.number);
            // A neighbour that does not answer for a while is where it was.
            let hop = addresses().find_map(|address| self.ways.hop(address)).or(before.and_then(|it| it.hop));
            let entry = MemberEntry {
                address_v4: addresses().find_map(|ip| if let IpAddr::V4(v4) = ip { Some(v4) } else { None }),
                address_v6: addresses().find_map(|ip| if let IpAddr::V6(v6) = ip { Some(v6) } else { None }),
                port: member.item.port as u16,
                hop,
                mac: hop.filter(|_| ethernet).map(|hop| hop.mac),
            };
            if before != Some(&entry) {
                said(warnings, "members", path.set_member(member.number, &entry));
                written.members.insert(member.number, entry);
            }
        }
        // Names before anybody goes.
        let serving = self.members.serving();
        let made_of: Vec<_> = self
            .members
            .iter()
            .map(|it| {
                (it.number, it.item.name.clone(), self.members.weight(it), serving.contains(&it.number))
            })
            .collect();
        // An earlier process' slots stay until there is something to put in their place.
        let waits = self.adopted && written.table.is_none() && serving.is_empty();
        if written.made_of.as_ref() != Some(&made_of) && !waits {
            let table = slots::table(&self.members, &self.key);
            match path.set_slots(table.slots()) {
                Ok(0) => {}
                Ok(changed) => tracing::debug!(changed, "slots"),
                Err(error) => warn(warnings, "slots", &error),
            }
            written.table = Some(table);
            written.made_of = Some(made_of);
        }
        let control = self.members.control(now).map_or(0, |member| member.number);
        if written.control != Some(control) {
            said(warnings, "control", path.set_control(control));
            written.control = Some(control);
        }
        if written.peers != self.peers {
            let peers: Vec<_> = self.peers.iter().copied().take(ONE_PORT_PEERS_MAX).collect();
            said(warnings, "peers", path.set_one_port_peers(&peers));
            written.peers.clone_from(&self.peers);
        }
        let gone: Vec<_> = written
            .members
            .keys()
            .copied()
            .filter(|number| self.members.iter().all(|member| member.number != *number))
            .collect();
        for number in gone {
            said(warnings, "members", path.clear_member(number));
            written.members.remove(&number);
        }
    }

    /// What the kernel counted.
    pub(super) fn look(&mut self, now: Instant) {
        let Some(path) = &self.path else { return };
        match path.counters() {
            Ok(counters) => {
                let numbers: Vec<u8> = self.members.iter().map(|member| member.number).collect();
                for number in numbers {
                    let packets = super::report::counters(&counters.member(number)).packets();
                    self.members.on_traffic(now, number, packets);
                }
                self.written.counters = counters;
            }
            Err(error) => warn(&mut self.warnings, "counters", &error),
        }
    }
}

fn said(warnings: &mut BTreeMap<&'static str, String>, about: &'static str, result: Result<(), KernelError>) {
    match result {
        Ok(()) => drop(warnings.remove(about)),
        Err(error) => warn(warnings, about, &error),
    }
}

fn warn(warnings: &mut BTreeMap<&'static str, String>, about: &'static str, error: &KernelError) {
    let text = whole(error);
    tracing::error!("{text}");
    warnings.insert(about, text);
}

/// An error with its causes.
pub(super) fn whole(error: &KernelError) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        text.push_str(&format!(": {error}"));
        source = error.source();
    }
    text
}
