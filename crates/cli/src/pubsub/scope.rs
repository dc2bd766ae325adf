//! `nw pubsub scope`: publishes a scope while it runs.

use crate::signals::StopFlag;
use anyhow::Result;
use core::time::Duration;
use nw_api::pubsub::{ItemName, Strategy};
use nw_app::pubsub::{PubSubOptions, Publisher, Scope, WhenFull};
use std::process::ExitCode;
use std::time::Instant;

/// Longest wait without looking at the stop flag.
const SLICE: Duration = Duration::from_millis(100);

/// Publishes a scope, and under further scopes, until Ctrl-C or for `timeout_ms`.
pub fn publish(
    options: &PubSubOptions,
    name: &ItemName,
    strategy: Option<Strategy>,
    under: &[ItemName],
    timeout_ms: Option<u64>,
) -> Result<ExitCode> {
    let stop = StopFlag::watch()?;
    let options = PubSubOptions { shared_memory: false, ..options.clone() };
    let mut publisher = Publisher::connect(&options, WhenFull::Overwrite)?;
    publisher.publish_scope(&Scope::from(name.clone()), strategy)?;
    for parent in under {
        publisher.add_parent(name, &Scope::from(parent.clone()))?;
    }
    note!("publishing the scope {name}; Ctrl-C ends it");
    let started = Instant::now();
    let is_over = || timeout_ms.is_some_and(|ms| started.elapsed() >= Duration::from_millis(ms));
    while !stop.is_set() && !is_over() {
        publisher.next_change(SLICE)?;
    }
    publisher.withdraw_scope(&Scope::from(name.clone()))?;
    Ok(ExitCode::SUCCESS)
}
