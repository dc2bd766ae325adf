//! What starts and ends members: one trait, and the engine that makes them processes of this machine.

mod process;

pub use process::ProcessEngine;

use crate::config::MemberItem;

/// Why a member could not be started.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct EngineError(pub String);

/// Starts and ends routers. What is started joins the cluster like any other member: healthy and with all routes, or never.
pub trait Engine: Send {
    /// Starts router number `number`, from 1 on; it may take its time to be there. Its member, and the number of its process if it is one.
    ///
    /// # Errors
    /// What is missing.
    fn start(&mut self, number: u32) -> Result<(MemberItem, Option<u32>), EngineError>;

    /// Takes over a router that an earlier balancer started; false when it is not there any more.
    fn adopt(&mut self, member: &MemberItem, process: u32) -> bool;

    /// Ends the router of a member. That it is not there is fine.
    fn stop(&mut self, name: &str);

    /// Members whose routers ended by themselves since the last time.
    fn ended(&mut self) -> Vec<String>;
}

/// Numbers that may be started: as many as there are addresses.
pub fn name_of(number: u32) -> String {
    format!("e{number}")
}
