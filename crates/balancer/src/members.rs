//! The state machine of the members. Pure: time, health, routes, measurements and traffic are
//! inputs (`on_…`), and [`Members::tick`] returns the state changes.
//!
//! ```text
//!            healthy, has all routes, weight known            drain, remove
//! joining ──────────────────────────────────────▶ active ─────────────────▶ draining ──▶ drained
//! (stays, without names)
//!      ▲                                             │                            └──────▶ gone
//!      └────────────── healthy again ──── failed ◀───┘ probes are lost
//! ```
//!
//! Invariant: only active members take names. If none is active, the failed ones take them: the
//! probes themselves may be at fault, and nothing would be gained by dropping all packets.

mod drain;
#[cfg(test)]
mod tests;

use crate::config::{MEMBERS_MAX, MemberItem, WEIGHT_MAX, Weight};
use core::time::Duration;
use drain::DrainProgress;
pub use drain::Pending;
use nw_api::balancer::MemberState;
use nw_element_api::Timestamp;

/// The time limits and the inputs that the state machine uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// Members are probed; otherwise all count as healthy.
    pub has_probes: bool,
    /// Routes are replicated to members; otherwise all count as having them.
    pub has_replication: bool,
    /// A draining member is gone after this time in any case.
    pub drain_limit: Duration,
    /// How long a control member that does not appear after the start is waited for.
    pub failover: Duration,
    /// A draining member without an agent is gone after this time without a packet.
    pub idle: Duration,
}

/// The state that commands and configuration want a member to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DesiredState {
    /// Takes names.
    Serving,
    /// Stays in the cluster without names.
    Drained,
    /// Leaves the cluster.
    Gone,
}

/// A router of the cluster.
#[derive(Clone, Debug)]
pub struct Member {
    /// Its number in the kernel's tables, from 1.
    pub number: u8,
    /// Its configuration.
    pub item: MemberItem,
    /// True if it was added while the balancer ran, by a command or by the autoscaler.
    pub added: bool,
    /// Its state.
    pub state: MemberState,
    /// When it entered that state.
    pub since: Timestamp,
    /// The state it should have.
    pub desired: DesiredState,
    /// Whether its probes are answered. `None` before the first verdict.
    pub healthy: Option<bool>,
    /// Whether it has every route of the control member.
    pub has_routes: bool,
    /// The measured rate, Interests per second.
    pub measured_per_s: Option<u32>,
    /// Its router closed the connection since the last tick.
    is_lost: bool,
    /// It has been active before.
    was_active: bool,
    drain: DrainProgress,
}

/// A member can't be added, found or removed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MemberError {
    /// All numbers are in use.
    #[error("there are {MEMBERS_MAX} members already: remove one first")]
    Full,
    /// No member has this name.
    #[error("no member is called {name:?}; the members are: {there}")]
    Unknown {
        /// The name.
        name: String,
        /// The names of all members.
        there: String,
    },
    /// The member is being removed already.
    #[error("{0} is leaving already")]
    Leaving(String),
    /// The configured control member can't be removed.
    #[error(
        "{0} is the control member of the configuration: name another one there first, or use `nw balancer drain`"
    )]
    Control(String),
}

/// A state change of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The member's name.
    pub name: String,
    /// The member's number.
    pub number: u8,
    /// The state before.
    pub from: MemberState,
    /// The state after.
    pub to: MemberState,
    /// The reason, for the log.
    pub reason: &'static str,
}

/// All members, by number.
#[derive(Clone, Debug)]
pub struct Members {
    list: Vec<Member>,
    timeouts: Timeouts,
    control: Option<String>,
}

/// The weight of a member that is not measured yet.
const WEIGHT_DEFAULT: u32 = 100;
/// Measured Interests per second for each unit of weight.
const RATE_PER_WEIGHT: u32 = 100;

impl Member {
    /// Returns the rate that the weight is computed from, Interests per second. `None` if the
    /// weight is fixed or not measured yet.
    fn measured_rate_per_s(&self) -> Option<u32> {
        self.measured_per_s.filter(|_| self.item.weight == Weight::Measured)
    }

    /// Returns whether it waits for its weight to be measured.
    pub fn needs_measurement(&self) -> bool {
        self.state == MemberState::Joining
            && self.item.weight == Weight::Measured
            && self.measured_per_s.is_none()
    }
}

fn mean(values: impl Iterator<Item = u32>) -> Option<u32> {
    let (sum, count) =
        values.fold((0u64, 0u64), |(sum, count), value| (sum + u64::from(value), count + 1));
    sum.checked_div(count).map(|mean| mean as u32)
}

impl Members {
    /// Creates an empty list. `control` is the name of the configured control member.
    pub const fn new(timeouts: Timeouts, control: Option<String>) -> Self {
        Members { list: Vec::new(), timeouts, control }
    }

    /// Returns a member's weight in the slot table.
    ///
    /// Measured weights are scaled if there are fixed ones, so that a measured member weighs on
    /// average as much as one with a fixed weight; measured members keep their ratio to each other.
    pub fn weight(&self, member: &Member) -> u32 {
        let rate_per_s = match (member.item.weight, member.measured_rate_per_s()) {
            (Weight::Fixed(weight), _) => return weight,
            (Weight::Measured, None) => return self.fixed_mean().unwrap_or(WEIGHT_DEFAULT),
            (Weight::Measured, Some(rate_per_s)) => rate_per_s,
        };
        let weight = match self.fixed_mean() {
            None => rate_per_s / RATE_PER_WEIGHT,
            Some(fixed) => {
                let mean =
                    mean(self.list.iter().filter_map(Member::measured_rate_per_s)).unwrap_or(1);
                let scaled = u64::from(fixed) * u64::from(rate_per_s) / u64::from(mean.max(1));
                scaled.min(u64::from(WEIGHT_MAX)) as u32
            }
        };
        weight.max(1)
    }

    fn fixed_mean(&self) -> Option<u32> {
        mean(self.list.iter().filter_map(|member| match member.item.weight {
            Weight::Fixed(weight) => Some(weight),
            Weight::Measured => None,
        }))
    }

    /// Returns all members, by number.
    pub fn iter(&self) -> impl Iterator<Item = &Member> {
        self.list.iter()
    }

    /// Returns the number of members.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Returns whether there are no members.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns the member of this name.
    ///
    /// # Errors
    /// [`MemberError::Unknown`].
    pub fn named(&self, name: &str) -> Result<&Member, MemberError> {
        self.list.iter().find(|member| member.item.name == name).ok_or_else(|| self.unknown(name))
    }

    fn unknown(&self, name: &str) -> MemberError {
        let there: Vec<_> = self.list.iter().map(|member| member.item.name.as_str()).collect();
        let there = if there.is_empty() { "none".to_owned() } else { there.join(", ") };
        MemberError::Unknown { name: name.to_owned(), there }
    }

    fn find(&mut self, name: &str) -> Result<&mut Member, MemberError> {
        match self.list.iter().position(|member| member.item.name == name) {
            Some(at) => Ok(&mut self.list[at]),
            None => Err(self.unknown(name)),
        }
    }

    /// Adds a member with its previous number, or else the lowest free one. The caller has checked
    /// that it does not conflict with others. `state` is [`MemberState::Joining`], or the state
    /// before a restart during which the data path went on.
    ///
    /// # Errors
    /// [`MemberError::Full`].
    pub fn add(
        &mut self,
        now: Timestamp,
        item: MemberItem,
        state: MemberState,
        previous_number: Option<u8>,
    ) -> Result<&mut Member, MemberError> {
        let free = |number: &u8| !self.list.iter().any(|member| member.number == *number);
        let numbers = previous_number
            .into_iter()
            .chain(1..)
            .take_while(|number| usize::from(*number) <= MEMBERS_MAX);
        let number = numbers.filter(|number| *number > 0).find(free).ok_or(MemberError::Full)?;
        let wanted = if state == MemberState::Drained {
            DesiredState::Drained
        } else {
            DesiredState::Serving
        };
        let member = Member {
            number,
            item,
            added: false,
            state,
            since: now,
            desired: wanted,
            healthy: None,
            has_routes: false,
            measured_per_s: None,
            is_lost: false,
            was_active: matches!(state, MemberState::Active | MemberState::Failed),
            drain: DrainProgress::default(),
        };
        let at = self.list.partition_point(|known| known.number < number);
        self.list.insert(at, member);
        Ok(&mut self.list[at])
    }

    /// Starts the removal of a member: no new names, and gone when no Interest is pending.
    ///
    /// # Errors
    /// There is no such member, it is leaving already, or it is the configured control member.
    pub fn remove(&mut self, name: &str) -> Result<(), MemberError> {
        let is_control = self.control.as_deref() == Some(name);
        let member = self.find(name)?;
        if is_control {
            return Err(MemberError::Control(name.to_owned()));
        }
        if member.desired == DesiredState::Gone {
            return Err(MemberError::Leaving(name.to_owned()));
        }
        member.desired = DesiredState::Gone;
        Ok(())
    }

    /// Starts the removal of a member that will join again with other settings. The control member
    /// is allowed, as another one takes its place meanwhile.
    ///
    /// # Errors
    /// [`MemberError::Unknown`].
    pub fn remove_to_rejoin(&mut self, name: &str) -> Result<(), MemberError> {
        self.find(name)?.desired = DesiredState::Gone;
        Ok(())
    }

    /// Replaces the settings for all members.
    pub fn reconfigure(&mut self, timeouts: Timeouts, control: Option<String>) {
        self.timeouts = timeouts;
        self.control = control;
    }

    /// Sets whether a member was added by a command (or is configured in the file).
    ///
    /// # Errors
    /// [`MemberError::Unknown`].
    pub fn set_added(&mut self, name: &str, added: bool) -> Result<(), MemberError> {
        self.find(name)?.added = added;
        Ok(())
    }

    /// Drains a member, which stays without names; or makes a drained member take names again.
    ///
    /// # Errors
    /// There is no such member, or it is leaving.
    pub fn set_drained(&mut self, name: &str, drained: bool) -> Result<(), MemberError> {
        let member = self.find(name)?;
        if member.desired == DesiredState::Gone {
            return Err(MemberError::Leaving(name.to_owned()));
        }
        member.desired = if drained { DesiredState::Drained } else { DesiredState::Serving };
        Ok(())
    }

    /// Sets a member's weight. To be measured, an active member joins again.
    ///
    /// # Errors
    /// [`MemberError::Unknown`].
    pub fn set_weight(
        &mut self,
        now: Timestamp,
        name: &str,
        weight: Weight,
    ) -> Result<Option<Change>, MemberError> {
        let member = self.find(name)?;
        member.item.weight = weight;
        if weight != Weight::Measured {
            return Ok(None);
        }
        member.measured_per_s = None;
        let rejoins = member.state == MemberState::Active;
        Ok(rejoins
            .then(|| member.transition(now, MemberState::Joining, "its weight is to be measured")))
    }

    /// Processes a health verdict.
    pub fn on_health(&mut self, name: &str, healthy: bool) {
        if let Ok(member) = self.find(name) {
            member.healthy = Some(healthy);
        }
    }

    /// Processes a lost connection to the member's router: it has failed, independent of its
    /// probes.
    pub fn on_lost(&mut self, name: &str) {
        if let Ok(member) = self.find(name) {
            member.has_routes = false;
            member.healthy = member.healthy.map(|_| false);
            member.is_lost = member.state == MemberState::Active;
        }
    }

    /// Processes an agent's report on whether the router has all routes.
    pub fn on_routes(&mut self, name: &str, complete: bool) {
        if let Ok(member) = self.find(name) {
            member.has_routes = complete;
        }
    }

    /// Processes a measured rate, Interests per second.
    pub fn on_measured(&mut self, name: &str, per_s: u32) {
        if let Ok(member) = self.find(name) {
            member.measured_per_s = Some(per_s.max(1));
        }
    }

    /// Processes a report of the router's pending Interests.
    pub fn on_pending(&mut self, now: Timestamp, name: &str, pending: Pending) {
        if let Ok(member) = self.find(name) {
            member.drain.on_pending(now, pending);
        }
    }

    /// Processes the packet counter of a member, both directions.
    pub fn on_traffic(&mut self, now: Timestamp, number: u8, packets: u64) {
        if let Some(member) = self.list.iter_mut().find(|member| member.number == number) {
            member.drain.on_traffic(now, packets);
        }
    }

    /// Returns the state changes that follow from all inputs so far. Members that are gone are
    /// removed.
    pub fn tick(&mut self, now: Timestamp) -> Vec<Change> {
        let timeouts = self.timeouts;
        let mut changes = Vec::new();
        for member in &mut self.list {
            while let Some((to, reason)) = member.next_state(now, &timeouts) {
                changes.push(member.transition(now, to, reason));
            }
        }
        self.list.retain(|member| member.state != MemberState::Gone);
        changes
    }

    /// Returns the numbers of the members that take names.
    pub fn serving(&self) -> Vec<u8> {
        let in_state = |state| -> Vec<u8> {
            let wanted =
                |member: &&Member| member.state == state && member.desired == DesiredState::Serving;
            self.list.iter().filter(wanted).map(|member| member.number).collect()
        };
        let active = in_state(MemberState::Active);
        if active.is_empty() { in_state(MemberState::Failed) } else { active }
    }

    /// Returns the member that receives commands and whose routes are replicated.
    ///
    /// * The configured control member while it is active.
    /// * If it was active before, it may have lost its routes: the first active member with a
    ///   socket
    ///   replaces it until it has them back.
    /// * If it was never active here, only it knows its routes: it is waited for until the failover
    ///   timeout, and taken as soon as it is healthy.
    pub fn control_member(&self, now: Timestamp) -> Option<&Member> {
        let configured =
            self.list.iter().find(|member| Some(&member.item.name) == self.control.as_ref())?;
        let with_socket = |member: &&Member| member.item.control.is_some();
        let substitute =
            self.list.iter().filter(with_socket).find(|it| it.state == MemberState::Active);
        if configured.state == MemberState::Active {
            return Some(configured);
        }
        if configured.was_active {
            return Some(substitute.unwrap_or(configured));
        }
        let is_healthy =
            |member: &Member| member.healthy == Some(true) || !self.timeouts.has_probes;
        if is_healthy(configured) || now.since(configured.since) < self.timeouts.failover {
            return Some(configured);
        }
        // Without routes to replicate no member becomes active, so a healthy joining one is enough.
        let joining =
            self.list.iter().filter(with_socket).filter(|it| it.state == MemberState::Joining);
        Some(substitute.or(joining.into_iter().find(|it| is_healthy(it))).unwrap_or(configured))
    }
}

impl Member {
    fn transition(&mut self, now: Timestamp, to: MemberState, reason: &'static str) -> Change {
        let from = core::mem::replace(&mut self.state, to);
        (self.since, self.is_lost) = (now, false);
        match to {
            MemberState::Draining => self.drain.start(now),
            MemberState::Active => self.was_active = true,
            // Its router may have been restarted.
            MemberState::Failed => (self.has_routes, self.healthy) = (false, Some(false)),
            _ => {}
        }
        Change { name: self.item.name.clone(), number: self.number, from, to, reason }
    }

    fn next_state(
        &self,
        now: Timestamp,
        timeouts: &Timeouts,
    ) -> Option<(MemberState, &'static str)> {
        use MemberState::{Active, Drained, Draining, Failed, Gone, Joining};
        let healthy = if timeouts.has_probes { self.healthy } else { Some(true) };
        let is_leaving = self.desired != DesiredState::Serving;
        Some(match self.state {
            // It never had names, so nothing is pending.
            Joining | Drained if self.desired == DesiredState::Gone => (Gone, "removed"),
            Joining if is_leaving => (Drained, "it takes no names"),
            Joining => {
                let has_weight =
                    self.item.weight != Weight::Measured || self.measured_per_s.is_some();
                let has_routes =
                    self.has_routes || self.item.external_routes || !timeouts.has_replication;
                let ready = has_routes && has_weight && healthy == Some(true);
                return ready.then_some((Active, "it is healthy and has all routes"));
            }
            Active | Failed if is_leaving => (Draining, "it takes no new names"),
            Active if self.is_lost => (Failed, "its router closed the connection"),
            Active if healthy == Some(false) => (Failed, "its probes are not answered"),
            Failed if healthy == Some(true) => (Joining, "its probes are answered"),
            Draining if self.desired == DesiredState::Serving => {
                (Joining, "it is to take names again")
            }
            Draining => {
                let reason = self.drain.is_over(now, timeouts)?;
                (if self.desired == DesiredState::Gone { Gone } else { Drained }, reason)
            }
            Drained if self.desired == DesiredState::Serving => {
                (Joining, "it is to take names again")
            }
            _ => return None,
        })
    }
}
