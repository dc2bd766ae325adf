//! What was told to whom, and what is to be told when.

use super::{Kind, Target};
use crate::control::environment::Environment;
use nw_api::config;
use nw_api::management::client::{self as message, Uniqueness};
use nw_api::management::{ControlParameters, Root, Verb, flags, origin};
use nw_name::{Name, NameRef};
use nw_tables::Instant;
use nw_trust::Signer;
use std::collections::{BTreeMap, BTreeSet};

/// Commands under way.
const OPEN_MAX: usize = 64;
/// Commands sent, or given up, in one part: a signature may take a millisecond's tenth.
const PER_PART: usize = 2;
/// The routing daemon is told again after so long.
const DAEMON_REFRESH_MS: u64 = 3_600_000;
/// How far timestamps may be ahead of the wall clock, so that they go on growing: half of what others accept.
const AHEAD_MAX_MS: u64 = 60_000;
/// A route told upstream outlives so many refreshes.
const REFRESHES_KEPT: u64 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Session {
    /// To be registered; otherwise to be unregistered.
    here: bool,
    /// When the next command is due; `None` while one is under way.
    due: Option<Instant>,
    /// How long to wait after the next failure.
    retry_ms: u64,
    /// Counts commands, so that a late answer to an earlier one says nothing.
    command: u64,
}

#[derive(Debug)]
struct Open {
    target: Target,
    prefix: Name,
    command: u64,
    until: Instant,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Sessions {
    all: BTreeMap<(Target, Name), Session>,
    due: BTreeSet<(Instant, Target, Name)>,
    /// By the command's name.
    open: BTreeMap<Name, Open>,
    commands: u64,
    time_ms: u64,
    seed: u64,
}

impl Sessions {
    pub(super) const fn new(seed: u64) -> Self {
        Sessions {
            all: BTreeMap::new(),
            due: BTreeSet::new(),
            open: BTreeMap::new(),
            commands: 0,
            time_ms: 0,
            seed,
        }
    }

    pub(super) fn next_timeout(&self) -> Option<Instant> {
        let due = self.due.first().map(|(at, ..)| *at).filter(|_| self.open.len() < OPEN_MAX);
        let given_up = self.open.values().map(|open| open.until).min();
        due.into_iter().chain(given_up).min()
    }

    pub(super) fn tell(&mut self, now: Instant, target: Target, prefix: &Name) {
        self.change(now, target, prefix, true);
    }

    pub(super) fn withdraw(&mut self, now: Instant, target: Target, prefix: &Name) {
        self.change(now, target, prefix, false);
    }

    fn change(&mut self, now: Instant, target: Target, prefix: &Name, here: bool) {
        let key = (target, prefix.clone());
        let before = self.all.get(&key).copied();
        if before.is_none() && !here {
            return;
        }
        if let Some(at) = before.and_then(|session| session.due) {
            self.due.remove(&(at, target, prefix.clone()));
        }
        self.commands += 1;
        let session = Session { here, due: Some(now), retry_ms: 0, command: self.commands };
        self.all.insert(key, session);
        self.due.insert((now, target, prefix.clone()));
    }

    /// The destination is not there any more.
    pub(super) fn forget(&mut self, target: Target) {
        let of_target = self.all.range((target, Name::new())..).map(|(key, session)| (key.clone(), *session));
        let gone: Vec<_> = of_target.take_while(|((other, _), _)| *other == target).collect();
        for (key, session) in gone {
            if let Some(at) = session.due {
                self.due.remove(&(at, target, key.1.clone()));
            }
            self.all.remove(&key);
        }
        self.open.retain(|_, open| open.target != target);
    }

    /// Sends what is due, gives up what was not answered.
    pub(super) fn work(
        &mut self,
        now: Instant,
        unix_ms: u64,
        options: &config::Rib,
        signer: &Signer,
        env: &mut dyn Environment,
    ) {
        let late = self.open.iter().filter(|(_, open)| open.until <= now).map(|(name, _)| name.clone());
        let late: Vec<Name> = late.take(PER_PART).collect();
        for name in late {
            self.answered(now, name.as_ref(), Err("no answer".to_owned()), options);
        }
        for _ in 0..PER_PART {
            if self.open.len() >= OPEN_MAX {
                return;
            }
            let (target, prefix) = match self.due.first() {
                Some((at, target, prefix)) if *at <= now => (*target, prefix.clone()),
                _ => return,
            };
            self.due.pop_first();
            self.send(now, unix_ms, (target, prefix), options, signer, env);
        }
    }

    fn send(
        &mut self,
        now: Instant,
        unix_ms: u64,
        key: (Target, Name),
        options: &config::Rib,
        signer: &Signer,
        env: &mut dyn Environment,
    ) {
        self.commands += 1;
        let command = self.commands;
        let Some(session) = self.all.get_mut(&key) else { return };
        (session.due, session.command) = (None, command);
        let here = session.here;
        let (target, prefix) = key;
        self.time_ms = next_time(self.time_ms, unix_ms);
        let unique = Uniqueness {
            nonce: mix(self.seed ^ command) as u32,
            signature_nonce: mix(self.seed.wrapping_add(command)).to_be_bytes(),
            time_ms: self.time_ms,
        };
        let until = now.plus_millis(u64::from(options.command_timeout_ms));
        let wire = match encode(target.0, &prefix, here, options, unique, signer) {
            Ok(wire) => wire,
            Err(error) => {
                tracing::warn!(%prefix, %error, "can't sign a command to others");
                return self.end(now, target, prefix, command, Err(error.to_string()), options);
            }
        };
        let Ok(interest) = nw_wire::Interest::check(&wire) else { return };
        self.open.insert(interest.name().to_name(), Open { target, prefix, command, until });
        env.ask(&wire, (target.0 != Kind::RoutingDaemon).then_some(target.1));
    }

    /// A command of ours was answered, refused, or given up.
    pub(super) fn answered(
        &mut self,
        now: Instant,
        name: NameRef<'_>,
        done: Result<(), String>,
        options: &config::Rib,
    ) {
        let Some(open) = self.open.remove(name.as_bytes()) else { return };
        self.end(now, open.target, open.prefix, open.command, done, options);
    }

    fn end(
        &mut self,
        now: Instant,
        target: Target,
        prefix: Name,
        command: u64,
        done: Result<(), String>,
        options: &config::Rib,
    ) {
        let key = (target, prefix);
        let Some(session) = self.all.get_mut(&key) else { return };
        if session.command != command {
            return;
        }
        let (here, prefix) = (session.here, &key.1);
        let wait_ms = match done {
            Ok(()) => {
                tracing::debug!(%prefix, face = %target.1, here, "others were told");
                if !here {
                    self.all.remove(&key);
                    return;
                }
                session.retry_ms = 0;
                match target.0 {
                    Kind::RoutingDaemon => DAEMON_REFRESH_MS,
                    Kind::Upstream | Kind::Gateway => u64::from(options.refresh_s) * 1000,
                }
            }
            Err(why) => {
                let (min, max) =
                    (u64::from(options.retry_min_s) * 1000, u64::from(options.retry_max_s) * 1000);
                session.retry_ms = (session.retry_ms * 2).clamp(min, max.max(min));
                tracing::debug!(%prefix, face = %target.1, here, retry_ms = session.retry_ms, "others could not be told: {why}");
                session.retry_ms
            }
        };
        let at = now.plus_millis(wait_ms);
        session.due = Some(at);
        self.due.insert((at, key.0, key.1));
    }
}

fn encode(
    kind: Kind,
    prefix: &Name,
    here: bool,
    options: &config::Rib,
    unique: Uniqueness,
    signer: &Signer,
) -> Result<Vec<u8>, nw_trust::Error> {
    let verb = if here { Verb::RibRegister } else { Verb::RibUnregister };
    let mut parameters =
        ControlParameters { origin: Some(origin::CLIENT), ..ControlParameters::of(prefix.clone()) };
    if here {
        parameters.cost = Some(u64::from(options.propagate_cost));
        parameters.flags = Some(flags::CHILD_INHERIT);
    }
    match kind {
        Kind::RoutingDaemon => {
            let name = Name::new().with_generic("localhost").with_generic("nlsr");
            let name = name.with_generic(verb.module()).with_generic(verb.word());
            message::command_named(name.with_generic(parameters.encode()), unique, signer)
        }
        Kind::Upstream | Kind::Gateway => {
            let kept_ms = REFRESHES_KEPT * u64::from(options.refresh_s) * 1000;
            parameters.expiration_period = here.then_some(kept_ms);
            message::command(Root::Localhop, verb, &parameters, unique, signer)
        }
    }
}

/// Returns the timestamp of the next command: a signer's timestamps grow, also when the clock is set back a little. When it is set back by much,
/// others would refuse those that grow, as they are too far from their own clocks.
const fn next_time(last_ms: u64, unix_ms: u64) -> u64 {
    if last_ms < unix_ms || last_ms > unix_ms.saturating_add(AHEAD_MAX_MS) { unix_ms } else { last_ms + 1 }
}

/// Spreads a count over all numbers.
const fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_grow_unless_the_clock_was_set_back_by_much() {
        assert_eq!(next_time(0, 1_000_000), 1_000_000);
        assert_eq!(next_time(1_000_000, 1_000_000), 1_000_001);
        assert_eq!(next_time(1_000_000, 990_000), 1_000_001);
        assert_eq!(next_time(86_400_000, 1_000_000), 1_000_000);
    }
}
