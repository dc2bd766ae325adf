//! Changes of the list of hosts, by the manager or by another process beside it.

use crate::authority::Authority;
use crate::message::{SECRET_LEN, Token};
use crate::registry::Registry;
use crate::{AgentError, digest_bytes, now_s};
use std::path::Path;

/// Returns a new token for a host, which may enrol with it once within `valid_s` seconds. An
/// earlier token of the host is void.
///
/// # Errors
/// The name can't be used, there are too many hosts, or the state directory can't be written.
pub fn add_host(state_directory: &Path, host: &str, valid_s: u64) -> Result<String, AgentError> {
    let authority = Authority::open(state_directory, now_s())?;
    let mut secret = [0; SECRET_LEN];
    getrandom::fill(&mut secret).expect("the system has random numbers");
    let expires_s = now_s().saturating_add(valid_s);
    Registry::open(state_directory)?.set_token(host, &secret, expires_s)?;
    Ok(Token { secret, authority: digest_bytes(authority.certificate()) }.encode())
}

/// Ends the rights of a host: its certificates and its token. A running manager closes its
/// connections within seconds. Returns whether there was such a host.
///
/// # Errors
/// The state directory can't be written.
pub fn forget_host(state_directory: &Path, host: &str) -> Result<bool, AgentError> {
    Registry::open(state_directory)?.forget(host)
}

/// Returns the names of all hosts, and whether each is enrolled.
///
/// # Errors
/// The list can't be read.
pub fn list_hosts(state_directory: &Path) -> Result<Vec<(String, bool)>, AgentError> {
    Registry::open(state_directory)?.hosts()
}
