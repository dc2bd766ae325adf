//! A changed configuration file while the balancer runs: members, rules, drain limits and the control member follow it, the rest waits for
//! the next start.

use super::{Balancer, patience};
use crate::config::{Config, MemberItem};
use crate::slots;

impl Balancer {
    /// Applies what may change while packets flow, and logs what may not.
    pub(crate) fn reload(&mut self, config: Config) {
        let waits = restart_sections(&self.config, &config);
        if !waits.is_empty() {
            tracing::warn!(
                "{} changed and take effect at the next start; `nw balancer stop --keep` and a new start lose no packet",
                waits.join(", ")
            );
        }
        let before = core::mem::replace(&mut self.config.member, config.member);
        self.config.cluster.control_member = config.cluster.control_member;
        self.config.drain = config.drain;
        self.config.measure = config.measure;
        self.config.routes.patience_s = config.routes.patience_s;
        self.members.reconfigure(patience(&self.config), self.config.cluster.control_member.clone());
        if self.config.rule != config.rule {
            self.replace_rules(config.rule);
        }
        for gone in before.iter().filter(|item| named(&self.config.member, &item.name).is_none()) {
            self.rejoining.retain(|item| item.name != gone.name);
            // A member that is leaving already is on its way.
            let _ = self.members.remove_to_rejoin(&gone.name);
        }
        for item in self.config.member.clone() {
            self.reload_member(item);
        }
        self.keep();
        self.turn();
        tracing::info!("configuration read again");
    }

    fn reload_member(&mut self, item: MemberItem) {
        let name = item.name.clone();
        let Ok(member) = self.members.named(&name) else {
            self.rejoining.retain(|other| other.name != name);
            return self.rejoining.push(item);
        };
        let is_leaving = member.wanted == crate::members::Wanted::Gone;
        let same_place = MemberItem { weight: item.weight, ..member.item.clone() } == item;
        if is_leaving || !same_place {
            tracing::info!(member = name, "it leaves and joins again, as its configuration changed");
            let _ = self.members.remove_to_rejoin(&name);
            self.rejoining.retain(|other| other.name != name);
            return self.rejoining.push(item);
        }
        if member.item.weight != item.weight {
            let changed = self.members.set_weight(self.now(), &name, item.weight);
            self.changed(changed.ok().flatten().into_iter().collect());
        }
        let _ = self.members.set_added(&name, false);
    }

    fn replace_rules(&mut self, items: Vec<crate::config::RuleItem>) {
        match slots::rules(&items) {
            Ok(rules) => {
                self.rules = rules;
                self.config.rule = items;
                self.write_rules();
            }
            Err(error) => tracing::error!("the rules stay as they were: {error}"),
        }
    }

    /// Adds members whose predecessors of the same name have left.
    pub(super) fn rejoin(&mut self) {
        let waiting = core::mem::take(&mut self.rejoining);
        let mut ready = Vec::new();
        for item in waiting {
            match self.members.named(&item.name) {
                Ok(_) => self.rejoining.push(item),
                Err(_) => ready.push(item),
            }
        }
        for item in ready {
            let name = item.name.clone();
            if let Err(error) = self.add_item(item, None) {
                tracing::error!(member = name, "it can't join: {error}");
            }
        }
    }
}

fn named<'a>(items: &'a [MemberItem], name: &str) -> Option<&'a MemberItem> {
    items.iter().find(|item| item.name == name)
}

/// Returns the sections that changed and that a running balancer can't apply.
fn restart_sections(before: &Config, after: &Config) -> Vec<&'static str> {
    let cluster = |config: &Config| crate::config::Cluster { control_member: None, ..config.cluster.clone() };
    let routes = |config: &Config| crate::config::Routes { patience_s: 0, ..config.routes.clone() };
    let changed = [
        ("[cluster]", cluster(before) != cluster(after)),
        ("[health]", before.health != after.health),
        ("[routes]", routes(before) != routes(after)),
        ("[elastic]", before.elastic != after.elastic),
        ("[control]", before.control != after.control),
    ];
    changed.into_iter().filter(|(_, changed)| *changed).map(|(section, _)| section).collect()
}
