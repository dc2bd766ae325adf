//! The commands of the control socket.

use super::Balancer;
use crate::config::{Ip, MemberItem, Weight, member_faults};
use crate::members::MemberError;
use nw_api::balancer::{BalancerMember, MemberChange, MemberState, MemberWanted};
use nw_api::rest::Problem;

/// A command was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// The request itself is invalid.
    #[error("{0}")]
    Wrong(String),
    /// No member has this name.
    #[error("{0}")]
    Unknown(MemberError),
    /// The request conflicts with the current state.
    #[error("{0}")]
    Conflict(MemberError),
}

impl From<CommandError> for Problem {
    fn from(error: CommandError) -> Self {
        let code = match &error {
            CommandError::Wrong(_) => 400,
            CommandError::Unknown(_) => 404,
            CommandError::Conflict(_) => 409,
        };
        Problem { code, text: error.to_string() }
    }
}

impl From<MemberError> for CommandError {
    fn from(error: MemberError) -> Self {
        match error {
            error @ MemberError::Unknown { .. } => CommandError::Unknown(error),
            error => CommandError::Conflict(error),
        }
    }
}

impl Balancer {
    pub(crate) fn add(&mut self, wanted: MemberWanted) -> Result<BalancerMember, CommandError> {
        let weight = wanted.weight.as_deref().unwrap_or("100").parse::<Weight>();
        let item = MemberItem {
            name: wanted.name,
            addresses: wanted.addresses.into_iter().map(Ip).collect(),
            port: u32::from(wanted.port),
            weight: weight.map_err(CommandError::Wrong)?,
            control: wanted.control,
            // The name in the REST interface.
            external_routes: wanted.external_routes,
        };
        self.add_item(item, None)
    }

    pub(super) fn add_item(
        &mut self,
        item: MemberItem,
        process: Option<u32>,
    ) -> Result<BalancerMember, CommandError> {
        let others: Vec<_> = self.members.iter().map(|member| member.item.clone()).collect();
        let faults = member_faults(&self.config.cluster, &item, &others);
        let unusable = item
            .addresses
            .iter()
            .find(|ip| ip.0.is_unspecified() || ip.0.is_loopback() || ip.0.is_multicast());
        let mut messages: Vec<String> = faults.iter().map(ToString::to_string).collect();
        messages.extend(
            unusable
                .map(|ip| format!("addresses: saw {}; expected the address of one machine", ip.0)),
        );
        let no_port = "port: saw 0; expected an integer from 1 to 65535".to_owned();
        messages.extend((item.port == 0).then_some(no_port));
        if !messages.is_empty() {
            return Err(CommandError::Wrong(messages.join("\n")));
        }
        let (now, name) = (self.now(), item.name.clone());
        let configured = self.config.member.iter().any(|member| member.name == name);
        let member = self.members.add(now, item, MemberState::Joining, None)?;
        member.added = !configured;
        if let Some(process) = process {
            self.processes.insert(name.clone(), process);
        }
        tracing::info!(member = name, "joining: it was added");
        self.save_state();
        self.tick();
        self.shown(&name)
    }

    fn shown(&self, name: &str) -> Result<BalancerMember, CommandError> {
        let members = self.status().members;
        let shown = members.into_iter().find(|member| member.name == name);
        shown.ok_or_else(|| CommandError::Wrong(format!("{name} is gone already")))
    }

    pub(crate) fn remove(&mut self, name: &str) -> Result<Option<BalancerMember>, CommandError> {
        self.members.remove(name)?;
        self.tick();
        Ok(self.shown(name).ok())
    }

    pub(crate) fn show(&self, name: &str) -> Result<BalancerMember, CommandError> {
        self.members.named(name)?;
        self.shown(name)
    }

    pub(crate) fn change(
        &mut self,
        name: &str,
        change: &MemberChange,
    ) -> Result<BalancerMember, CommandError> {
        self.members.named(name)?;
        let weight = change.weight.as_deref().map(str::parse::<Weight>).transpose();
        if let Some(weight) = weight.map_err(CommandError::Wrong)? {
            let changed = self.members.set_weight(self.now(), name, weight)?;
            self.on_changes(changed.into_iter().collect());
        }
        if let Some(drain) = change.drain {
            self.members.set_drained(name, drain)?;
        }
        self.save_state();
        self.tick();
        self.shown(name)
    }
}
