//! What a person or program may have done.

use super::Balancer;
use crate::config::{Ip, MemberItem, Weight, member_faults};
use crate::members::MemberError;
use nw_api::balancer::{BalancerMember, MemberChange, MemberState, MemberWanted};

/// A command that was not carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// What was asked for can't be.
    #[error("{0}")]
    Wrong(String),
    /// There is no such member.
    #[error("{0}")]
    Unknown(MemberError),
    /// It can't be as things are.
    #[error("{0}")]
    Conflict(MemberError),
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
            own_routes: wanted.own_routes,
        };
        self.add_item(item, None)
    }

    pub(super) fn add_item(
        &mut self,
        item: MemberItem,
        process: Option<u32>,
    ) -> Result<BalancerMember, CommandError> {
        let there: Vec<_> = self.members.iter().map(|member| member.item.clone()).collect();
        let faults = member_faults(&self.config.cluster, &item, &there);
        let unusable = item
            .addresses
            .iter()
            .find(|ip| ip.0.is_unspecified() || ip.0.is_loopback() || ip.0.is_multicast());
        let mut said: Vec<String> = faults.iter().map(ToString::to_string).collect();
        said.extend(
            unusable.map(|ip| format!("addresses: saw {}; expected the address of one machine", ip.0)),
        );
        said.extend((item.port == 0).then(|| "port: saw 0; expected an integer from 1 to 65535".to_owned()));
        if !said.is_empty() {
            return Err(CommandError::Wrong(said.join("\n")));
        }
        let (now, name) = (self.now(), item.name.clone());
        let configured = self.config.member.iter().any(|member| member.name == name);
        let member = self.members.add(now, item, MemberState::Joining, None)?;
        member.added = !configured;
        if let Some(process) = process {
            self.processes.insert(name.clone(), process);
        }
        tracing::info!(member = name, "joining: it was added");
        self.keep();
        self.turn();
        self.shown(&name)
    }

    fn shown(&self, name: &str) -> Result<BalancerMember, CommandError> {
        let members = self.status().members;
        let shown = members.into_iter().find(|member| member.name == name);
        shown.ok_or_else(|| CommandError::Wrong(format!("{name} has left already")))
    }

    pub(crate) fn remove(&mut self, name: &str) -> Result<Option<BalancerMember>, CommandError> {
        self.members.remove(name)?;
        self.turn();
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
            self.changed(changed.into_iter().collect());
        }
        if let Some(drain) = change.drain {
            self.members.rest(name, drain)?;
        }
        self.keep();
        self.turn();
        self.shown(name)
    }
}
