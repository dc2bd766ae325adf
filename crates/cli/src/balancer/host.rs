//! `nw balancer host`: the machines whose agents may connect to a balancer.

use super::run::load;
use crate::output::{json_line, stdout};
use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use nw_agent::{
    GroupStatus, add_group, add_host, forget_group, forget_host, list_groups, list_hosts,
};
use nw_balancer::remote_agents::authority_folder;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

#[derive(Debug, Args)]
pub struct Configured {
    /// Configuration file of the balancer, whose state directory has the list
    #[arg(long, short, value_name = "FILE")]
    config: PathBuf,
}

#[derive(Debug, Subcommand)]
pub enum HostCommand {
    /// Print a token with which the agent of a member enrols, once; or a group of members, often
    ///
    /// An earlier token of the member or group is void. The balancer need not run. With --group,
    /// agents enrol under names that are the group's, `-`, and more, and again when they are
    /// replaced: `nw balancer agent GROUP-1 --balancer PLACE --enrol-file FILE`.
    Add {
        #[command(flatten)]
        configured: Configured,
        /// Name of the member
        #[arg(required_unless_present = "group")]
        member: Option<String>,
        /// Make a token of this group instead
        #[arg(long, value_name = "GROUP", conflicts_with = "member")]
        group: Option<String>,
        /// Members of the group at a time, at most; the name of one that has ended counts for an
        /// hour
        #[arg(long, value_name = "N", default_value_t = 100, requires = "group",
              value_parser = clap::value_parser!(u32).range(1..=1000))]
        members_max: u32,
        /// Seconds until the token expires; default: 3600, for a group 2592000 (30 days)
        #[arg(long, value_name = "SECONDS")]
        valid: Option<u64>,
    },
    /// List the members with a token, whether their agents are enrolled, and the groups
    List {
        #[command(flatten)]
        configured: Configured,
        /// Print JSON instead of text
        #[arg(long)]
        json: bool,
    },
    /// Take the rights of a member's agent away; its connection is closed within seconds
    ///
    /// The member stays: `nw balancer remove` removes it.
    Remove {
        #[command(flatten)]
        configured: Configured,
        /// Name of the member
        #[arg(required_unless_present = "group")]
        member: Option<String>,
        /// Remove this group instead: its token, and the rights of all of its agents
        #[arg(long, value_name = "GROUP", conflicts_with = "member")]
        group: Option<String>,
    },
}

impl Configured {
    fn folder(&self) -> Result<PathBuf> {
        Ok(authority_folder(&load(&self.config)?))
    }
}

/// Seconds for which a token is valid: that of a member, and that of a group.
const MEMBER_VALID_S: u64 = 3600;
const GROUP_VALID_S: u64 = 30 * 86_400;

/// Runs `nw balancer host …`.
pub fn host(action: &HostCommand) -> Result<()> {
    match action {
        HostCommand::Add { configured, member: Some(member), valid, .. } => {
            let valid_s = valid.unwrap_or(MEMBER_VALID_S);
            outln!("{}", add_host(&configured.folder()?, member, valid_s)?)?;
        }
        HostCommand::Add { configured, group: Some(group), members_max, valid, .. } => {
            let config = load(&configured.config)?;
            if config.control.group.as_ref() == Some(group) {
                let file = config.control.group_token_file.unwrap_or_default();
                bail!("the token of {group} is in {}: write another one there", file.display());
            }
            let valid_s = valid.unwrap_or(GROUP_VALID_S);
            let folder = authority_folder(&config);
            outln!("{}", add_group(&folder, group, *members_max as usize, valid_s)?)?;
        }
        HostCommand::List { configured, json } => list(&configured.folder()?, *json)?,
        HostCommand::Remove { configured, member: Some(member), .. } => {
            if !forget_host(&configured.folder()?, member)? {
                let text = format!("no agent of {member} is enrolled, nor has it a token");
                return Err(crate::exit::not_found(text));
            }
        }
        HostCommand::Remove { configured, group: Some(group), .. } => {
            if !forget_group(&configured.folder()?, group)? {
                let text = format!("there is no group {group}, nor is an agent of it enrolled");
                return Err(crate::exit::not_found(text));
            }
        }
        // The parser asks for a member or a group.
        HostCommand::Add { .. } | HostCommand::Remove { .. } => bail!("name a member or a group"),
    }
    Ok(())
}

fn list(folder: &Path, json: bool) -> Result<()> {
    for (name, is_enrolled) in list_hosts(folder)? {
        if json {
            json_line(&serde_json::json!({ "name": name, "enrolled": is_enrolled }))?;
        } else {
            let state = if is_enrolled { "enrolled" } else { "has a token" };
            writeln!(stdout(), "{name:<20} {state}")?;
        }
    }
    for GroupStatus { name, hosts, hosts_max, expires_s } in list_groups(folder)? {
        let now_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        let left_s = expires_s.saturating_sub(now_s);
        if json {
            json_line(&serde_json::json!({
                "group": name, "members": hosts, "members_max": hosts_max, "valid_s": left_s,
            }))?;
        } else {
            let token = match left_s {
                0 => "token has expired".to_owned(),
                _ => format!("token valid for {left_s} s"),
            };
            writeln!(stdout(), "{name:<20} group of {hosts} members of {hosts_max}; {token}")?;
        }
    }
    Ok(())
}
