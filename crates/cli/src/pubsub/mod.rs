//! `nw pub`, `nw sub` and `nw pubsub …`.

mod args;
mod border;
mod events;
mod gateway;
mod group;
mod publish;
mod questions;
mod scope;
mod show;
mod subscribe;

pub use args::{Pub, PubSubCommand, Sub};
pub use publish::publish;
pub use subscribe::subscribe;

use anyhow::{Result, bail};
use args::NodeArgs;
use nw_app::FaceUri;
use nw_app::pubsub::PubSubOptions;
use std::process::ExitCode;

/// Runs `nw pubsub …`.
pub fn pubsub(command: &PubSubCommand) -> Result<ExitCode> {
    match command {
        PubSubCommand::Status { node, json } => show::status(&node.options()?, *json),
        PubSubCommand::Graph { node, dot } => show::graph(&node.options()?, *dot),
        PubSubCommand::Top { node, interval, count } => {
            show::top(&node.options()?, *interval, *count)
        }
        PubSubCommand::Trace { node, name, json } => show::trace(&node.options()?, name, *json),
        PubSubCommand::Gateway(args) => gateway::serve(args),
        PubSubCommand::Group(args) => group::connect(args),
        PubSubCommand::Border(args) => border::connect(args),
        PubSubCommand::Events { node, patterns, count, timeout, json } => {
            events::show(&node.options()?, patterns, *count, *timeout, *json)
        }
        PubSubCommand::Scope { node, name, strategy, under, timeout } => {
            scope::publish(&node.options()?, name, *strategy, under, *timeout)
        }
        PubSubCommand::Ask { node, name, payload, timeout } => {
            questions::ask(&node.options()?, name, payload, *timeout)
        }
        PubSubCommand::Answer(args) => questions::answer(args),
        PubSubCommand::Tap { node, patterns, count } => {
            subscribe::tap(&node.options()?, patterns, *count)
        }
    }
}

impl NodeArgs {
    /// Returns how to connect to the node.
    fn options(&self) -> Result<PubSubOptions> {
        crate::logs::show_warnings();
        let path = match &self.pubsub_socket {
            Some(path) => path.clone(),
            None => match crate::connect::uri(&self.router)? {
                FaceUri::Unix(path) => nw_api::config::pubsub_path_beside(&path),
                uri => bail!(
                    "publish/subscribe needs a node on this machine, not a router at {uri}: give \
                     its socket with --pubsub-socket"
                ),
            },
        };
        Ok(PubSubOptions { program: "nw".into(), ..PubSubOptions::at(path) })
    }
}
