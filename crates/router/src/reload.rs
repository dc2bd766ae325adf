//! Applies a changed configuration to a running router: what can change at runtime is applied, the
//! rest is logged.

use crate::StartError;
use crate::host::Host;
use crate::settings::{self, ShardShare};
use crate::shards::command::ShardCommand;
use nw_control::DesiredConfig;
use nw_element_api::Timestamp;
use nw_trust::Rules;
use std::sync::Arc;

impl Host {
    /// Applies routes, faces, strategies, command rules and the content store's options. Logs the
    /// options that need a restart.
    pub(crate) fn reload(
        &mut self,
        now: Timestamp,
        mut desired: DesiredConfig,
        rules: Result<Box<Rules>, StartError>,
    ) {
        if desired.settings.forwarder.shards == 0 {
            desired.settings.forwarder.shards = self.shards();
        }
        let (store_before, store) = (&self.config.content_store, &desired.settings.content_store);
        let share = ShardShare { shard: 0, shards: self.config.forwarder.shards as usize };
        let store_fits = settings::change_store(&mut self.plane, store_before, store, share);
        if let Some(shard_pool) = &mut self.shard_pool {
            shard_pool
                .command(&ShardCommand::Reload(Arc::new((store_before.clone(), store.clone()))));
        }
        let mut restart = self.config.restart_options(&desired.settings);
        if !store_fits {
            restart.push("content_store above its size at the start".to_owned());
        }
        if !restart.is_empty() {
            let options = restart.join(", ");
            tracing::warn!("changed, but in effect only after a restart: {options}");
        }
        let policy = settings::interfaces(&desired.settings);
        if let Err(error) = self.faces.set_interface_policy(now, policy, &mut self.pool) {
            tracing::error!("faces of network interfaces stay as they are: {error}");
        }
        if let Err(error) = self.faces.set_xdp_interfaces(now, settings::xdp(&desired.settings)) {
            tracing::error!("the AF_XDP interfaces stay as they are: {error}");
        }
        self.authority.restrict_tcp(desired.settings.management.tcp);
        match rules {
            Ok(rules) => self.authority.reconfigure(*rules),
            Err(error) => tracing::error!("the rules for commands stay as they were: {error}"),
        }
        let shards = self.shards();
        self.config = desired.settings.clone();
        self.config.forwarder.shards = shards;
        self.with_control(now, |control, env| control.apply_config(desired, env));
        self.forward(now);
        tracing::info!("configuration applied");
    }
}
