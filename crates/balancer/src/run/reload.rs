//! Applies a changed configuration file to a running balancer: members, rules, drain limits and the
//! control member. All other changes need a restart.

use super::{Balancer, timeouts};
use crate::config::{Config, MemberItem};
use crate::slots;

impl Balancer {
    /// Applies what may change while packets flow, and logs what needs a restart.
    pub(crate) fn reload(&mut self, config: Config) {
        config.renamed.iter().for_each(|renamed| tracing::warn!("{renamed}"));
        let restart = restart_sections(&self.config, &config);
        if !restart.is_empty() {
            tracing::warn!(
                "changes in {} take effect at the next start; with `nw balancer stop --keep` and a new start no \
                 packet is lost",
                restart.join(", ")
            );
        }
        let before = core::mem::replace(&mut self.config.member, config.member);
        self.config.cluster.control_member = config.cluster.control_member;
        self.config.drain = config.drain;
        self.config.measure = config.measure;
        self.config.routes.failover_timeout_s = config.routes.failover_timeout_s;
        self.members
            .reconfigure(timeouts(&self.config), self.config.cluster.control_member.clone());
        if self.config.rule != config.rule {
            self.replace_rules(config.rule);
        }
        for removed in before.iter().filter(|item| named(&self.config.member, &item.name).is_none())
        {
            self.rejoining.retain(|item| item.name != removed.name);
            // Fails if the member is gone already.
            let _ = self.members.remove_to_rejoin(&removed.name);
        }
        for item in self.config.member.clone() {
            self.reload_member(item);
        }
        self.save_state();
        self.tick();
        tracing::info!("configuration reloaded");
    }

    fn reload_member(&mut self, item: MemberItem) {
        let name = item.name.clone();
        let Ok(member) = self.members.named(&name) else {
            self.rejoining.retain(|waiting| waiting.name != name);
            return self.rejoining.push(item);
        };
        let is_leaving = member.desired == crate::members::DesiredState::Gone;
        let only_weight_differs = MemberItem { weight: item.weight, ..member.item.clone() } == item;
        if is_leaving || !only_weight_differs {
            tracing::info!(
                member = name,
                "it leaves and joins again, as its configuration changed"
            );
            let _ = self.members.remove_to_rejoin(&name);
            self.rejoining.retain(|waiting| waiting.name != name);
            return self.rejoining.push(item);
        }
        if member.item.weight != item.weight {
            let changed = self.members.set_weight(self.now(), &name, item.weight);
            self.on_changes(changed.ok().flatten().into_iter().collect());
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
            Err(error) => tracing::error!("the rules stay unchanged: {error}"),
        }
    }

    /// Adds the waiting members whose predecessors of the same name are gone.
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

/// Returns the sections with changes that need a restart.
fn restart_sections(before: &Config, after: &Config) -> Vec<&'static str> {
    let cluster =
        |config: &Config| crate::config::Cluster { control_member: None, ..config.cluster.clone() };
    let routes =
        |config: &Config| crate::config::Routes { failover_timeout_s: 0, ..config.routes.clone() };
    let changed = [
        ("[cluster]", cluster(before) != cluster(after)),
        ("[health]", before.health != after.health),
        ("[routes]", routes(before) != routes(after)),
        ("[elastic]", before.elastic != after.elastic),
        ("[control]", before.control != after.control),
    ];
    changed.into_iter().filter(|(_, changed)| *changed).map(|(section, _)| section).collect()
}
