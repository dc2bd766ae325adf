//! Members and their states: a pure machine. Time, health, routes, measurements and traffic are told; what follows is read off.
//!
//! ```text
//!            healthy, has all routes, weight known            drain, remove
//!   joining ──────────────────────────────────────▶ active ─────────────────▶ draining ──▶ drained (stays, without names)
//!      ▲                                             │                            └──────▶ gone
//!      └────────────── healthy again ──── failed ◀───┘ probes are lost
//! ```
//!
//! Only active members take names. When none is active, those that failed take them: it may be the probes that fail, and there is nothing to lose.

mod leave;
#[cfg(test)]
mod tests;

use crate::config::{MEMBERS_MAX, MemberItem, WEIGHT_MAX, Weight};
use core::time::Duration;
use leave::Leave;
pub use leave::Pending;
use nw_api::balancer::MemberState;
use nw_element_api::Instant;

/// How patient the machine is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// Members are probed; else all are taken for healthy.
    pub probes: bool,
    /// Routes are given to members; else all are taken to have them.
    pub routes: bool,
    /// A draining member is gone after this, whatever is pending.
    pub drain_limit: Duration,
    /// A control member that is not there at the start is waited for so long.
    pub control: Duration,
    /// Where nobody says what is pending: after so long without a packet.
    pub quiet: Duration,
}

/// What its owner wants of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// To take names.
    Serving,
    /// To stay, without names.
    Resting,
    /// To go.
    Gone,
}

/// A router of the cluster.
#[derive(Clone, Debug)]
pub struct Member {
    /// In the kernel's tables, from 1.
    pub number: u8,
    /// As configured or added.
    pub item: MemberItem,
    /// Added while the balancer ran: by a command or by load.
    pub added: bool,
    /// Started by the engine, which ends it when it is gone.
    pub by_engine: bool,
    /// What it is doing.
    pub state: MemberState,
    /// Since when.
    pub since: Instant,
    /// Its owner's will.
    pub wanted: Wanted,
    /// What the probes say; nothing before the first verdict.
    pub healthy: Option<bool>,
    /// It has every route of the control member.
    pub has_routes: bool,
    /// What it was measured to carry, Interests a second.
    pub measured_per_s: Option<u32>,
    /// Its router went away since the last turn.
    lost: bool,
    /// It took names before.
    was_active: bool,
    leave: Leave,
}

/// Why a member can't be added or found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MemberError {
    /// All numbers are in use.
    #[error("there are {MEMBERS_MAX} members already: remove one first")]
    Full,
    /// Nobody is called so.
    #[error("no member is called {name:?}: there are {there}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// Names there are.
        there: String,
    },
    /// It may not go.
    #[error("{0} is leaving already")]
    Leaving(String),
    /// The control member.
    #[error(
        "{0} is the control member of the configuration: name another one there first, or use `nw balancer drain`"
    )]
    Control(String),
}

/// Something that happened to a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// Which.
    pub name: String,
    /// Its number.
    pub number: u8,
    /// From which state.
    pub from: MemberState,
    /// To which.
    pub to: MemberState,
    /// Why, for people.
    pub why: &'static str,
}

/// All members.
#[derive(Clone, Debug)]
pub struct Members {
    list: Vec<Member>,
    patience: Patience,
    control: Option<String>,
}

/// A weight nobody has measured yet counts as this in the mean time.
const WEIGHT_USUAL: u32 = 100;
/// Measured Interests a second for each unit of weight.
const PER_WEIGHT: u32 = 100;

impl Member {
    /// The rate that its weight follows, Interests per second; `None` where its weight is fixed or not measured yet.
    fn measured_rate_per_s(&self) -> Option<u32> {
        self.measured_per_s.filter(|_| self.item.weight == Weight::Measured)
    }

    /// It waits for its weight to be measured.
    pub fn wants_measuring(&self) -> bool {
        self.state == MemberState::Joining
            && self.item.weight == Weight::Measured
            && self.measured_per_s.is_none()
    }
}

fn mean(values: impl Iterator<Item = u32>) -> Option<u32> {
    let (sum, count) = values.fold((0u64, 0u64), |(sum, count), value| (sum + u64::from(value), count + 1));
    sum.checked_div(count).map(|mean| mean as u32)
}

impl Members {
    /// None yet. `control` is the configured control member.
    pub const fn new(patience: Patience, control: Option<String>) -> Self {
        Members { list: Vec::new(), patience, control }
    }

    /// Returns a member's weight as the table takes it.
    ///
    /// Measured weights have a unit of their own. Beside fixed ones they are scaled, so that a measured member weighs on average as much
    /// as one with a fixed weight; among themselves measured members keep their ratio.
    pub fn weight(&self, member: &Member) -> u32 {
        let rate_per_s = match (member.item.weight, member.measured_rate_per_s()) {
            (Weight::Fixed(weight), _) => return weight,
            (Weight::Measured, None) => return self.fixed_mean().unwrap_or(WEIGHT_USUAL),
            (Weight::Measured, Some(rate_per_s)) => rate_per_s,
        };
        let weight = match self.fixed_mean() {
            None => rate_per_s / PER_WEIGHT,
            Some(fixed) => {
                let mean = mean(self.list.iter().filter_map(Member::measured_rate_per_s)).unwrap_or(1);
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

    /// By number.
    pub fn iter(&self) -> impl Iterator<Item = &Member> {
        self.list.iter()
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// True when there is none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The one of a name.
    ///
    /// # Errors
    /// When nobody is called so.
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

    /// Takes one in, with the lowest free number, or the one it had. The caller has looked whether it fits the others. `state` is
    /// [`MemberState::Joining`]; or what it was before a restart that packets did not notice.
    ///
    /// # Errors
    /// [`MemberError::Full`].
    pub fn add(
        &mut self,
        now: Instant,
        item: MemberItem,
        state: MemberState,
        had: Option<u8>,
    ) -> Result<&mut Member, MemberError> {
        let free = |number: &u8| !self.list.iter().any(|member| member.number == *number);
        let numbers = had.into_iter().chain(1..).take_while(|number| usize::from(*number) <= MEMBERS_MAX);
        let number = numbers.filter(|number| *number > 0).find(free).ok_or(MemberError::Full)?;
        let wanted = if state == MemberState::Drained { Wanted::Resting } else { Wanted::Serving };
        let member = Member {
            number,
            item,
            added: false,
            by_engine: false,
            state,
            since: now,
            wanted,
            healthy: None,
            has_routes: false,
            measured_per_s: None,
            lost: false,
            was_active: matches!(state, MemberState::Active | MemberState::Failed),
            leave: Leave::default(),
        };
        let at = self.list.partition_point(|other| other.number < number);
        self.list.insert(at, member);
        Ok(&mut self.list[at])
    }

    /// It shall go: no new names, and gone when nothing is pending.
    ///
    /// # Errors
    /// When there is none, or it is the configured control member.
    pub fn remove(&mut self, name: &str) -> Result<(), MemberError> {
        let is_control = self.control.as_deref() == Some(name);
        let member = self.find(name)?;
        if is_control {
            return Err(MemberError::Control(name.to_owned()));
        }
        if member.wanted == Wanted::Gone {
            return Err(MemberError::Leaving(name.to_owned()));
        }
        member.wanted = Wanted::Gone;
        Ok(())
    }

    /// Makes a member leave that will join again with other settings; the control member too, as another one stands in meanwhile.
    ///
    /// # Errors
    /// When there is none.
    pub fn remove_to_rejoin(&mut self, name: &str) -> Result<(), MemberError> {
        self.find(name)?.wanted = Wanted::Gone;
        Ok(())
    }

    /// Replaces what the configuration says about all members: how patient the machine is, and the control member.
    pub fn reconfigure(&mut self, patience: Patience, control: Option<String>) {
        self.patience = patience;
        self.control = control;
    }

    /// Marks a member as configured in the file (`added` is false) or added by a command.
    ///
    /// # Errors
    /// When there is none.
    pub fn set_added(&mut self, name: &str, added: bool) -> Result<(), MemberError> {
        self.find(name)?.added = added;
        Ok(())
    }

    /// It shall stay without names; or take names again.
    ///
    /// # Errors
    /// When there is none, or it is going.
    pub fn rest(&mut self, name: &str, rest: bool) -> Result<(), MemberError> {
        let member = self.find(name)?;
        if member.wanted == Wanted::Gone {
            return Err(MemberError::Leaving(name.to_owned()));
        }
        member.wanted = if rest { Wanted::Resting } else { Wanted::Serving };
        Ok(())
    }

    /// It has another weight from now on. To be measured, it joins anew.
    ///
    /// # Errors
    /// When there is none.
    pub fn set_weight(
        &mut self,
        now: Instant,
        name: &str,
        weight: Weight,
    ) -> Result<Option<Change>, MemberError> {
        let member = self.find(name)?;
        member.item.weight = weight;
        if weight != Weight::Measured {
            return Ok(None);
        }
        member.measured_per_s = None;
        let joins = member.state == MemberState::Active;
        Ok(joins.then(|| member.become_of(now, MemberState::Joining, "its weight is to be measured")))
    }

    /// Probes came back, or were lost.
    pub fn on_health(&mut self, name: &str, healthy: bool) {
        if let Ok(member) = self.find(name) {
            member.healthy = Some(healthy);
        }
    }

    /// Its router went away: it has failed, whatever the probes said before.
    pub fn on_lost(&mut self, name: &str) {
        if let Ok(member) = self.find(name) {
            member.has_routes = false;
            member.healthy = member.healthy.map(|_| false);
            member.lost = member.state == MemberState::Active;
        }
    }

    /// All routes are there; or the agent has lost its router.
    pub fn on_routes(&mut self, name: &str, complete: bool) {
        if let Ok(member) = self.find(name) {
            member.has_routes = complete;
        }
    }

    /// What it was measured to carry, Interests a second.
    pub fn on_measured(&mut self, name: &str, per_s: u32) {
        if let Ok(member) = self.find(name) {
            member.measured_per_s = Some(per_s.max(1));
        }
    }

    /// What its router says is pending.
    pub fn on_pending(&mut self, now: Instant, name: &str, pending: Pending) {
        if let Ok(member) = self.find(name) {
            member.leave.on_pending(now, pending);
        }
    }

    /// Packets that passed a member in either direction since the start.
    pub fn on_traffic(&mut self, now: Instant, number: u8, packets: u64) {
        if let Some(member) = self.list.iter_mut().find(|member| member.number == number) {
            member.leave.on_traffic(now, packets);
        }
    }

    /// What follows from all that was told. Members that are gone are in the list no more.
    pub fn turn(&mut self, now: Instant) -> Vec<Change> {
        let patience = self.patience;
        let mut changes = Vec::new();
        for member in &mut self.list {
            while let Some((to, why)) = member.next(now, &patience) {
                changes.push(member.become_of(now, to, why));
            }
        }
        self.list.retain(|member| member.state != MemberState::Gone);
        changes
    }

    /// Numbers of those that names go to.
    pub fn serving(&self) -> Vec<u8> {
        let those = |state| -> Vec<u8> {
            let wanted = |member: &&Member| member.state == state && member.wanted == Wanted::Serving;
            self.list.iter().filter(wanted).map(|member| member.number).collect()
        };
        let active = those(MemberState::Active);
        if active.is_empty() { those(MemberState::Failed) } else { active }
    }

    /// Who has the control names, and the routes that the others get. The configured member while it is active. One that was active and is so no more
    /// may have forgotten its routes: the first active member with a socket stands in, until the configured one has them back. One that never was
    /// active here has routes of its own that nobody else has yet: it is waited for, and taken as soon as it is healthy.
    pub fn control(&self, now: Instant) -> Option<&Member> {
        let configured = self.list.iter().find(|member| Some(&member.item.name) == self.control.as_ref())?;
        let with_socket = |member: &&Member| member.item.control.is_some();
        let stands_in = self.list.iter().filter(with_socket).find(|it| it.state == MemberState::Active);
        if configured.state == MemberState::Active {
            return Some(configured);
        }
        if configured.was_active {
            return Some(stands_in.unwrap_or(configured));
        }
        let healthy = |member: &Member| member.healthy == Some(true) || !self.patience.probes;
        if healthy(configured) || now.since(configured.since) < self.patience.control {
            return Some(configured);
        }
        // Nobody gets active without routes, so one that could is enough.
        let could = self.list.iter().filter(with_socket);
        let could = could.filter(|it| it.state == MemberState::Joining).find(|it| healthy(it));
        Some(stands_in.or(could).unwrap_or(configured))
    }
}

impl Member {
    fn become_of(&mut self, now: Instant, to: MemberState, why: &'static str) -> Change {
        let from = core::mem::replace(&mut self.state, to);
        (self.since, self.lost) = (now, false);
        match to {
            MemberState::Draining => self.leave.begin(now),
            MemberState::Active => self.was_active = true,
            // Its router may have started anew.
            MemberState::Failed => (self.has_routes, self.healthy) = (false, Some(false)),
            _ => {}
        }
        Change { name: self.item.name.clone(), number: self.number, from, to, why }
    }

    fn next(&self, now: Instant, patience: &Patience) -> Option<(MemberState, &'static str)> {
        use MemberState::{Active, Drained, Draining, Failed, Gone, Joining};
        let healthy = if patience.probes { self.healthy } else { Some(true) };
        let leaves = self.wanted != Wanted::Serving;
        Some(match self.state {
            // It had no names, so nothing of it is pending.
            Joining | Drained if self.wanted == Wanted::Gone => (Gone, "removed"),
            Joining if leaves => (Drained, "it takes no names"),
            Joining => {
                let weighed = self.item.weight != Weight::Measured || self.measured_per_s.is_some();
                let has_routes = self.has_routes || self.item.own_routes || !patience.routes;
                let ready = has_routes && weighed && healthy == Some(true);
                return ready.then_some((Active, "it is healthy and has all routes"));
            }
            Active | Failed if leaves => (Draining, "it takes no new names"),
            Active if self.lost => (Failed, "its router went away"),
            Active if healthy == Some(false) => (Failed, "its probes don't come back"),
            Failed if healthy == Some(true) => (Joining, "its probes come back"),
            Draining if self.wanted == Wanted::Serving => (Joining, "it is to take names again"),
            Draining => {
                let why = self.leave.is_over(now, patience)?;
                (if self.wanted == Wanted::Gone { Gone } else { Drained }, why)
            }
            Drained if self.wanted == Wanted::Serving => (Joining, "it is to take names again"),
            _ => return None,
        })
    }
}
