//! Membership of a router that joins a cluster by itself, and leaves it at the end.
//!
//! Its entry at the balancer always has its own address: an older one of the same name is removed
//! first, because a name can move to another machine.

use super::client::BalancerClient;
use crate::exit::{self, Status};
use crate::output::describe;
use crate::signals::StopFlag;
use anyhow::{Result, bail};
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;
use nw_api::balancer::{BalancerMember, MemberState, MemberWanted};
use std::sync::Arc;
use std::time::Instant;

/// Pause between two attempts to join.
const RETRY: Duration = Duration::from_millis(500);
/// Interval of queries while names are handed over.
const LEAVE_QUERY: Duration = Duration::from_millis(100);

/// The entry of a router at the balancer.
#[derive(Clone)]
pub struct Membership {
    /// The balancer.
    pub balancer: BalancerClient,
    /// The entry.
    pub wanted: MemberWanted,
    /// Longest time for which names are handed over.
    pub leave_within: Duration,
    /// Set when it begins to leave: it joins no more.
    pub is_leaving: Arc<AtomicBool>,
}

impl Membership {
    /// Joins, and waits for a balancer that does not run yet. Returns `false` if it was stopped.
    pub fn join(&self, stop_flag: &StopFlag) -> Result<bool> {
        let mut error: Option<String> = None;
        while !stop_flag.is_set() {
            match self.try_join() {
                Ok(true) => return Ok(true),
                Ok(false) => {}
                Err(fault) if !is_temporary(&fault) => return Err(fault),
                Err(fault) => {
                    let text = describe(&fault);
                    if error.as_ref() != Some(&text) {
                        tracing::warn!("{text}; trying again");
                        error = Some(text);
                    }
                }
            }
            std::thread::sleep(RETRY);
        }
        Ok(false)
    }

    /// Makes one step towards the entry. Returns whether the balancer has it.
    pub fn try_join(&self) -> Result<bool> {
        let name = &self.wanted.name;
        match self.balancer.entry()? {
            Some(member) if member.state == MemberState::Gone => Ok(false),
            Some(member) if self.is_same(&member) => match member.state {
                // The end of a router of the same name and address: it has to leave first.
                MemberState::Draining => Ok(false),
                _ => Ok(true),
            },
            Some(member) => {
                tracing::info!(member = name, "removes the entry of {:?}", member.addresses);
                self.balancer.leave()?;
                Ok(false)
            }
            // The agent reports until its member has left, and the balancer does not know it then.
            None if self.is_leaving.load(Ordering::SeqCst) => Ok(false),
            None => {
                self.balancer.join(&self.wanted)?;
                tracing::info!(member = name, balancer = %self.balancer, "joined");
                Ok(true)
            }
        }
    }

    /// Joins again at a balancer that was started anew and does not know the member.
    pub fn rejoin(&self) -> Result<()> {
        match self.is_leaving.load(Ordering::SeqCst) {
            // The balancer has removed the entry, as it should.
            true => Ok(()),
            false => self.try_join().map(drop),
        }
    }

    /// Leaves: the balancer gives the names to others, and removes the entry when nothing is
    /// pending.
    pub fn leave(&self) -> Result<()> {
        let name = &self.wanted.name;
        tracing::info!(member = name, "leaves");
        // Before the entry is removed: what finds none after that finds this as well.
        self.is_leaving.store(true, Ordering::SeqCst);
        let deadline = Instant::now() + self.leave_within;
        self.balancer.leave()?;
        while let Some(member) = self.balancer.entry()?.filter(|member| self.is_same(member)) {
            // A request to join was on its way when this began.
            if !matches!(member.state, MemberState::Draining | MemberState::Gone) {
                self.balancer.leave()?;
            }
            if Instant::now() > deadline {
                bail!(
                    "{name} has not left within {} s: answers to its pending Interests are lost",
                    self.leave_within.as_secs()
                );
            }
            std::thread::sleep(LEAVE_QUERY);
        }
        Ok(())
    }

    fn is_same(&self, member: &BalancerMember) -> bool {
        member.addresses == self.wanted.addresses && member.port == self.wanted.port
    }
}

/// Returns whether a later attempt can succeed without a change of the arguments.
fn is_temporary(error: &anyhow::Error) -> bool {
    matches!(exit::status(error), Status::Unreachable | Status::TimedOut)
}
