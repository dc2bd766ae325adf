//! Orphans: instances of the network that no version of its document explains, such as those of a
//! manager whose store was lost.
//!
//! ```text
//!  seen, not in the target ─┬─ its version of the document has the service ─▶ retired by the plan
//!                           └─ no version has it: orphan ─┬─ a document names it ─▶ adopted
//!                                                         └─ the grace is over ───▶ retired
//! ```
//!
//! Invariant: plans do not touch an orphan before its grace is over, unless all is stopped.

use super::wanted::read_document;
use super::{Shared, Wanted, locked};
use crate::world::Seen;
use nw_manage::Document;
use nw_manage::target::{DEFENCE_PREFIX, InstanceId, Target};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Kind of the conditions of orphans.
const ORPHAN: &str = "Orphan";
/// Prefix of the services that spread Interests over instances.
const FORWARDER_PREFIX: &str = "balance-";

/// Orphans and when they were seen first.
pub(super) struct Orphans {
    grace: Duration,
    since_ms: BTreeMap<InstanceId, u64>,
    /// Services of versions of the document; `None` for a version that the store does not have.
    versions: BTreeMap<u64, Option<Names>>,
}

/// What a version of the document explains.
struct Names {
    services: BTreeSet<String>,
    scaled: Vec<String>,
    has_defence: bool,
}

impl Names {
    fn of(document: &Document) -> Self {
        let network = &document.file.network;
        let groups = network.groups(&document.file.graph);
        Names {
            services: groups.into_iter().map(|(name, _)| name).collect(),
            scaled: network.scales.iter().map(|scale| scale.service.clone()).collect(),
            has_defence: !network.defences.is_empty(),
        }
    }

    fn explain(&self, service: &str) -> bool {
        if let Some(of) = service.strip_prefix(FORWARDER_PREFIX) {
            let is_its = |scaled: &String| {
                of.strip_prefix(scaled.as_str())
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
            };
            return self.scaled.iter().any(is_its);
        }
        self.services.contains(service) || self.has_defence && service.starts_with(DEFENCE_PREFIX)
    }
}

impl Orphans {
    /// Creates an empty list. An orphan is removed when it was seen for this long.
    pub(super) fn new(grace: Duration) -> Self {
        Orphans { grace, since_ms: BTreeMap::new(), versions: BTreeMap::new() }
    }
}

impl Shared {
    /// Returns the instances that plans must leave alone: orphans whose grace is not over. Begins
    /// and ends their conditions.
    pub(super) fn held_orphans(&self, target: &Target, seen: &Seen) -> BTreeSet<InstanceId> {
        let is_unwanted = |id: &&InstanceId| target.instance(id).is_none();
        let unwanted: Vec<&InstanceId> = seen.instances.keys().filter(is_unwanted).collect();
        let mut orphans = locked(&self.orphans);
        if unwanted.is_empty() && orphans.since_ms.is_empty() {
            return BTreeSet::new();
        }
        let wanted = self.wanted().clone();
        let mut found = BTreeMap::new();
        for id in unwanted.into_iter().filter(|_| !wanted.is_stopping) {
            let version = seen.instances[id].engine.labels.generation;
            if !self.is_explained(&mut orphans, &wanted, id, version) {
                let since_ms = orphans.since_ms.get(id).copied().unwrap_or(seen.at_ms);
                found.insert(id.clone(), since_ms);
            }
        }
        let old = std::mem::replace(&mut orphans.since_ms, found.clone());
        let grace = orphans.grace;
        drop(orphans);
        for id in old.keys().filter(|id| !found.contains_key(id)) {
            self.end_condition(&format!("instance {id}"), ORPHAN);
        }
        for id in found.keys() {
            let reason = format!(
                "no version of the document explains it; it is removed after {} s unless a \
                 document names its service (`nw network apply`)",
                grace.as_secs()
            );
            self.begin_condition(&format!("instance {id}"), ORPHAN, reason);
        }
        let is_held = |since_ms: &u64| seen.at_ms < since_ms + grace.as_millis() as u64;
        found.into_iter().filter(|(_, since_ms)| is_held(since_ms)).map(|(id, _)| id).collect()
    }

    /// Returns whether the document in effect, or the version that an instance was started for, has
    /// its service. What can't be read explains nothing.
    fn is_explained(
        &self,
        orphans: &mut Orphans,
        wanted: &Wanted,
        id: &InstanceId,
        version: u64,
    ) -> bool {
        let service = id.name.rsplit_once('~').map_or(id.name.as_str(), |(service, _)| service);
        if Names::of(&wanted.document).explain(service) {
            return true;
        }
        let names = orphans.versions.entry(version).or_insert_with(|| {
            let text = self.store().document_at(version).ok().flatten()?;
            Some(Names::of(&read_document(&self.network, &text).ok()?))
        });
        names.as_ref().is_some_and(|names| names.explain(service))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "face c listens unix:///tmp/c.sock\nface p = unix:///tmp/p.sock\n\
        pd = packet_dispatcher\nbr = backward_router\nnr = name_router\nc -> pd.packet\n\
        pd.interest -> br.interest -> nr.interest -> faces\npd.data -> br.data\n\
        pd.nack -> br.nack\np -> nr.interest\np -> nr.data -> br.data -> faces\n\
        p -> nr.nack -> br.nack -> faces\nservice front { pd }\nscale br 1..2\nroute / at nr.p\n";

    #[test]
    fn document_explains_its_services_and_the_forwarders_of_scaled_ones() {
        let document = Document::read("n", "n.graph", TEXT).unwrap();
        let names = Names::of(&document);
        for service in ["front", "br", "nr", "balance-br", "balance-br-2"] {
            assert!(names.explain(service), "{service}");
        }
        for service in ["pd", "x", "balance-nr", "balance-brx", "defence-verify-br"] {
            assert!(!names.explain(service), "{service}");
        }
    }
}
