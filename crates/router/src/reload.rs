//! A changed configuration while the router runs: what can change live is applied, the rest is named.

use crate::StartError;
use crate::control::Plan;
use crate::host::Host;
use crate::settings::{self, Share};
use crate::shards::order::Order;
use nw_element_api::Instant;
use nw_trust::Rules;
use std::sync::Arc;

impl Host {
    /// Applies another configuration: routes, faces, strategies, rules of management, the content store. Logs options that wait for a restart.
    pub(crate) fn reload(&mut self, now: Instant, mut plan: Plan, rules: Result<Box<Rules>, StartError>) {
        if plan.rest.forwarder.shards == 0 {
            plan.rest.forwarder.shards = self.shards();
        }
        let (store_before, store) = (&self.config.content_store, &plan.rest.content_store);
        let share = Share { shard: 0, shards: self.config.forwarder.shards as usize };
        let fits = settings::change_store(&mut self.plane, store_before, store, share);
        if let Some(crew) = &mut self.crew {
            crew.order(&Order::Reload(Arc::new((store_before.clone(), store.clone()))));
        }
        let mut restart = self.config.restart_options(&plan.rest);
        if !fits {
            restart.push("content_store above its size at the start".to_owned());
        }
        if !restart.is_empty() {
            let options = restart.join(", ");
            tracing::warn!("changed, but in effect only after a restart: {options}");
        }
        let policy = settings::interfaces(&plan.rest);
        if let Err(error) = self.faces.set_interface_policy(now, policy, &mut self.pool) {
            tracing::error!("faces of network interfaces stay as they are: {error}");
        }
        if let Err(error) = self.faces.set_xdp_interfaces(now, settings::xdp(&plan.rest)) {
            tracing::error!("interfaces that go by AF_XDP stay as they are: {error}");
        }
        self.authority.restrict_tcp(plan.rest.management.tcp);
        match rules {
            Ok(rules) => self.authority.reconfigure(*rules),
            Err(error) => tracing::error!("who may command stays as it was: {error}"),
        }
        let shards = self.shards();
        self.config = plan.rest.clone();
        self.config.forwarder.shards = shards;
        self.with_control(now, |control, hands| control.apply_config(plan, hands));
        self.forward(now);
        tracing::info!("configuration taken over");
    }
}
