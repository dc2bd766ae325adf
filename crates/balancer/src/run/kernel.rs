//! Writes the kernel's tables: each change once, and in an order that loses no packet.

use super::Balancer;
use crate::slots;
use nw_element_api::Timestamp;
use nw_kernel::KernelError;
use nw_kernel::balancer::{BalancerCounters, Link, MemberEntry, ONE_PORT_PEERS_MAX};
use nw_slot_table::Table;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

/// The state written to the kernel last.
#[derive(Default)]
pub(super) struct Written {
    pub(super) members: BTreeMap<u8, MemberEntry>,
    /// The input of the slot table: number, name, weight, whether it takes names.
    table_input: Option<Vec<(u8, String, u32, bool)>>,
    pub(super) table: Option<Table>,
    pub(super) control: Option<u8>,
    links: Option<Vec<Link>>,
    peers: BTreeSet<SocketAddr>,
    pub(super) counters: BalancerCounters,
}

impl Balancer {
    /// Writes the settings fixed at the start, and removes stale entries of an earlier process.
    pub(super) fn initialize_kernel(&mut self) {
        self.write_rules();
        let Some(path) = &mut self.data_path else { return };
        // A member number that was reused: remove the old member's port first.
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
        let Some(path) = &mut self.data_path else { return };
        note(&mut self.warnings, "rules", path.set_rules(&self.rules));
    }

    /// Writes all changes to the kernel. Slots are reassigned before a member is removed, so that
    /// no slot ever refers to a missing member.
    pub(super) fn write_kernel(&mut self) {
        self.next_hops.poll_updates();
        self.write_links_and_members();
        self.write_slots();
        let now = self.now();
        let Some(path) = &mut self.data_path else { return };
        let (written, warnings) = (&mut self.written, &mut self.warnings);
        let control = self.members.control_member(now).map_or(0, |member| member.number);
        if written.control != Some(control) {
            note(warnings, "control", path.set_control(control));
            written.control = Some(control);
        }
        if written.peers != self.peers {
            let peers: Vec<_> = self.peers.iter().copied().take(ONE_PORT_PEERS_MAX).collect();
            note(warnings, "peers", path.set_one_port_peers(&peers));
            written.peers.clone_from(&self.peers);
        }
        let removed: Vec<_> = written
            .members
            .keys()
            .copied()
            .filter(|number| self.members.iter().all(|member| member.number != *number))
            .collect();
        for number in removed {
            note(warnings, "members", path.clear_member(number));
            written.members.remove(&number);
        }
    }

    fn write_links_and_members(&mut self) {
        let Some(path) = &mut self.data_path else { return };
        let (written, warnings) = (&mut self.written, &mut self.warnings);
        let links = self.next_hops.links();
        if written.links.as_deref() != Some(links) {
            note(warnings, "links", path.set_links(links));
            written.links = Some(links.to_vec());
        }
        let ethernet = self.config.cluster.ethernet_inside.is_some();
        for member in self.members.iter() {
            let addresses = || member.item.addresses.iter().map(|ip| ip.0);
            let before = written.members.get(&member.number);
            // While a neighbour does not answer, its last known address is used.
            let hop = addresses()
                .find_map(|address| self.next_hops.hop(address))
                .or(before.and_then(|entry| entry.hop));
            let entry = MemberEntry {
                address_v4: addresses()
                    .find_map(|ip| if let IpAddr::V4(v4) = ip { Some(v4) } else { None }),
                address_v6: addresses()
                    .find_map(|ip| if let IpAddr::V6(v6) = ip { Some(v6) } else { None }),
                port: member.item.port as u16,
                hop,
                mac: hop.filter(|_| ethernet).map(|hop| hop.mac),
            };
            if before != Some(&entry) {
                note(warnings, "members", path.set_member(member.number, &entry));
                written.members.insert(member.number, entry);
            }
        }
    }

    fn write_slots(&mut self) {
        let Some(path) = &mut self.data_path else { return };
        let written = &mut self.written;
        let serving = self.members.serving();
        let input: Vec<_> = self
            .members
            .iter()
            .map(|it| {
                (
                    it.number,
                    it.item.name.clone(),
                    self.members.weight(it),
                    serving.contains(&it.number),
                )
            })
            .collect();
        // The slots of an earlier process stay until a member can take them.
        let waits = self.adopted && written.table.is_none() && serving.is_empty();
        if written.table_input.as_ref() == Some(&input) || waits {
            return;
        }
        let table = slots::table(&self.members, &self.key);
        match path.set_slots(table.slots()) {
            Ok(0) => {}
            Ok(changed) => tracing::debug!(changed, "slots"),
            Err(error) => warn(&mut self.warnings, "slots", &error),
        }
        written.table = Some(table);
        written.table_input = Some(input);
    }

    /// Reads the kernel's counters.
    pub(super) fn read_counters(&mut self, now: Timestamp) {
        let Some(path) = &self.data_path else { return };
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

/// Sets or removes the warning of a subject, depending on the result.
fn note(
    warnings: &mut BTreeMap<&'static str, String>,
    about: &'static str,
    result: Result<(), KernelError>,
) {
    match result {
        Ok(()) => drop(warnings.remove(about)),
        Err(error) => warn(warnings, about, &error),
    }
}

fn warn(warnings: &mut BTreeMap<&'static str, String>, about: &'static str, error: &KernelError) {
    let text = with_causes(error);
    tracing::error!("{text}");
    warnings.insert(about, text);
}

/// Formats an error with its causes.
pub(super) fn with_causes(error: &KernelError) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        text.push_str(&format!(": {error}"));
        source = error.source();
    }
    text
}
