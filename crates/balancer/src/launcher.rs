//! Starting and stopping members' routers: a trait, and the implementation with processes. Pods
//! start by themselves: `member_count.rs`.

mod process;

pub use process::ProcessLauncher;

use crate::config::MemberItem;

/// A member could not be started.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct LaunchError(pub String);

/// Starts and stops routers. A started router joins the cluster like any other member: it takes
/// names once it is healthy and has all routes.
pub trait MemberLauncher: Send {
    /// Starts router `number`, from 1, without waiting for it to be ready. Returns its member, and
    /// its process id if it is a process.
    ///
    /// # Errors
    /// The router can't be started.
    fn start(&mut self, number: u32) -> Result<(MemberItem, Option<u32>), LaunchError>;

    /// Takes over a router started by an earlier balancer. Returns false if it no longer runs.
    fn adopt(&mut self, member: &MemberItem, process: u32) -> bool;

    /// Stops the router of a member, if it runs.
    fn stop(&mut self, name: &str);

    /// Returns the members whose routers exited by themselves since the last call.
    fn take_exited(&mut self) -> Vec<String>;
}

/// Returns the member name of started router `number`.
pub fn member_name(number: u32) -> String {
    format!("e{number}")
}
