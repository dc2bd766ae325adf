//! Registrations with targets: one session per target and prefix, with its retries and refreshes.

use super::{Kind, Target};
use crate::environment::Environment;
use nw_api::config;
use nw_api::management::client::{self, Uniqueness};
use nw_api::management::{ControlParameters, Root, Verb, flags, origin};
use nw_name::{Name, NameRef};
use nw_tables::Timestamp;
use nw_trust::Signer;
use std::collections::{BTreeMap, BTreeSet};

/// Commands in flight.
const IN_FLIGHT_MAX: usize = 64;
/// Commands in flight per target, so that a target without replies leaves capacity for others.
const IN_FLIGHT_PER_TARGET_MAX: usize = IN_FLIGHT_MAX / 4;
/// Commands postponed in one part because their target has too many in flight.
const POSTPONED_PER_PART: usize = 64;
/// Milliseconds by which they are postponed.
const POSTPONE_MS: u64 = 1000;
/// Commands sent, or timed out, in one part. Signing may take 0.1 ms.
const COMMANDS_PER_PART: usize = 2;
/// Milliseconds between two registrations with the routing daemon.
const DAEMON_REFRESH_MS: u64 = 3_600_000;
/// How far timestamps may be ahead of the wall clock, so that they still increase when the clock is
/// set back: half of what receivers accept.
const CLOCK_AHEAD_MAX_MS: u64 = 60_000;
/// Refresh intervals after which an upstream registration expires.
const EXPIRATION_REFRESHES: u64 = 3;

/// The registration of one prefix with one target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Session {
    /// Registers the prefix if `true`, unregisters it otherwise.
    should_register: bool,
    /// When the next command is due; `None` while one is in flight.
    due: Option<Timestamp>,
    /// Milliseconds to wait after the next failure.
    retry_ms: u64,
    /// Number of the last command, so that a late reply to an earlier one is ignored.
    command: u64,
}

/// A command without a reply yet.
#[derive(Debug)]
struct InFlight {
    target: Target,
    prefix: Name,
    number: u64,
    /// When it times out.
    until: Timestamp,
}

/// All sessions, with the commands that are due and in flight.
#[derive(Debug)]
pub(super) struct Sessions {
    sessions: BTreeMap<(Target, Name), Session>,
    /// Sessions with a command to send, by time.
    due: BTreeSet<(Timestamp, Target, Name)>,
    /// By the name of the command Interest.
    in_flight: BTreeMap<Name, InFlight>,
    last_command: u64,
    last_time_ms: u64,
    seed: u64,
}

impl Sessions {
    pub(super) const fn new(seed: u64) -> Self {
        Sessions {
            sessions: BTreeMap::new(),
            due: BTreeSet::new(),
            in_flight: BTreeMap::new(),
            last_command: 0,
            last_time_ms: 0,
            seed,
        }
    }

    pub(super) fn next_timeout(&self) -> Option<Timestamp> {
        let due =
            self.due.first().map(|(at, ..)| *at).filter(|_| self.in_flight.len() < IN_FLIGHT_MAX);
        let next_expiry = self.in_flight.values().map(|command| command.until).min();
        due.into_iter().chain(next_expiry).min()
    }

    /// Starts to register a prefix with a target.
    pub(super) fn register(&mut self, now: Timestamp, target: Target, prefix: &Name) {
        self.change(now, target, prefix, true);
    }

    /// Starts to withdraw a prefix from a target.
    pub(super) fn withdraw(&mut self, now: Timestamp, target: Target, prefix: &Name) {
        self.change(now, target, prefix, false);
    }

    fn change(&mut self, now: Timestamp, target: Target, prefix: &Name, should_register: bool) {
        let key = (target, prefix.clone());
        let before = self.sessions.get(&key).copied();
        if before.is_none() && !should_register {
            return;
        }
        if let Some(at) = before.and_then(|session| session.due) {
            self.due.remove(&(at, target, prefix.clone()));
        }
        self.last_command += 1;
        let session =
            Session { should_register, due: Some(now), retry_ms: 0, command: self.last_command };
        self.sessions.insert(key, session);
        self.due.insert((now, target, prefix.clone()));
    }

    /// Removes the sessions of a target that no longer exists.
    pub(super) fn remove_target(&mut self, target: Target) {
        let sessions = self
            .sessions
            .range((target, Name::new())..)
            .map(|(key, session)| (key.clone(), *session));
        let removed: Vec<_> = sessions.take_while(|((owner, _), _)| *owner == target).collect();
        for (key, session) in removed {
            if let Some(at) = session.due {
                self.due.remove(&(at, target, key.1.clone()));
            }
            self.sessions.remove(&key);
        }
        self.in_flight.retain(|_, command| command.target != target);
    }

    /// Sends due commands and times out those without a reply.
    pub(super) fn step(
        &mut self,
        now: Timestamp,
        unix_ms: u64,
        options: &config::Rib,
        signer: &Signer,
        env: &mut dyn Environment,
    ) {
        let expired = self
            .in_flight
            .iter()
            .filter(|(_, command)| command.until <= now)
            .map(|(name, _)| name.clone());
        let expired: Vec<Name> = expired.take(COMMANDS_PER_PART).collect();
        for name in expired {
            self.on_reply(now, name.as_ref(), Err("no reply in time".to_owned()), options);
        }
        let (mut sent, mut postponed) = (0, 0);
        while sent < COMMANDS_PER_PART
            && postponed < POSTPONED_PER_PART
            && self.in_flight.len() < IN_FLIGHT_MAX
        {
            let (target, prefix) = match self.due.first() {
                Some((at, target, prefix)) if *at <= now => (*target, prefix.clone()),
                _ => return,
            };
            self.due.pop_first();
            if self.in_flight.values().filter(|command| command.target == target).count()
                < IN_FLIGHT_PER_TARGET_MAX
            {
                self.send(now, unix_ms, (target, prefix), options, signer, env);
                sent += 1;
            } else {
                let at = now.plus_millis(POSTPONE_MS);
                if let Some(session) = self.sessions.get_mut(&(target, prefix.clone())) {
                    session.due = Some(at);
                    self.due.insert((at, target, prefix));
                }
                postponed += 1;
            }
        }
    }

    /// Sends the command of a session.
    fn send(
        &mut self,
        now: Timestamp,
        unix_ms: u64,
        key: (Target, Name),
        options: &config::Rib,
        signer: &Signer,
        env: &mut dyn Environment,
    ) {
        self.last_command += 1;
        let command = self.last_command;
        let Some(session) = self.sessions.get_mut(&key) else { return };
        (session.due, session.command) = (None, command);
        let should_register = session.should_register;
        let (target, prefix) = key;
        self.last_time_ms = next_timestamp_ms(self.last_time_ms, unix_ms);
        let uniqueness = Uniqueness {
            nonce: mix_bits(self.seed ^ command) as u32,
            signature_nonce: mix_bits(self.seed.wrapping_add(command)).to_be_bytes(),
            time_ms: self.last_time_ms,
        };
        let until = now.plus_millis(u64::from(options.command_timeout_ms));
        let wire = match encode(target.kind, &prefix, should_register, options, uniqueness, signer)
        {
            Ok(wire) => wire,
            Err(error) => {
                tracing::warn!(%prefix, %error, "can't sign a command to another router");
                return self.complete(
                    now,
                    target,
                    prefix,
                    command,
                    Err(error.to_string()),
                    options,
                );
            }
        };
        let Ok(interest) = nw_wire::Interest::check(&wire) else { return };
        self.in_flight
            .insert(interest.name().to_name(), InFlight { target, prefix, number: command, until });
        env.send_interest(&wire, (target.kind != Kind::RoutingDaemon).then_some(target.face));
    }

    /// Completes a command: a reply, a Nack, or a timeout.
    pub(super) fn on_reply(
        &mut self,
        now: Timestamp,
        name: NameRef<'_>,
        result: Result<(), String>,
        options: &config::Rib,
    ) {
        let Some(command) = self.in_flight.remove(name.as_bytes()) else { return };
        self.complete(now, command.target, command.prefix, command.number, result, options);
    }

    /// Schedules the next command of a session: a refresh after success, a retry after an error.
    fn complete(
        &mut self,
        now: Timestamp,
        target: Target,
        prefix: Name,
        command: u64,
        result: Result<(), String>,
        options: &config::Rib,
    ) {
        let key = (target, prefix);
        let Some(session) = self.sessions.get_mut(&key) else { return };
        if session.command != command {
            return;
        }
        let (should_register, prefix) = (session.should_register, &key.1);
        let wait_ms = match result {
            Ok(()) => {
                let face = target.face;
                tracing::debug!(%prefix, %face, should_register, "prefix advertised or withdrawn");
                if !should_register {
                    self.sessions.remove(&key);
                    return;
                }
                session.retry_ms = 0;
                match target.kind {
                    Kind::RoutingDaemon => DAEMON_REFRESH_MS,
                    Kind::Upstream | Kind::Gateway => u64::from(options.refresh_s) * 1000,
                }
            }
            Err(reason) => {
                let (min, max) =
                    (u64::from(options.retry_min_s) * 1000, u64::from(options.retry_max_s) * 1000);
                session.retry_ms = (session.retry_ms * 2).clamp(min, max.max(min));
                let (face, retry_ms) = (target.face, session.retry_ms);
                tracing::debug!(
                    %prefix,
                    %face,
                    should_register,
                    retry_ms,
                    "command to another router failed: {reason}"
                );
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
    should_register: bool,
    options: &config::Rib,
    uniqueness: Uniqueness,
    signer: &Signer,
) -> Result<Vec<u8>, nw_trust::Error> {
    let verb = if should_register { Verb::RibRegister } else { Verb::RibUnregister };
    let mut parameters =
        ControlParameters { origin: Some(origin::CLIENT), ..ControlParameters::of(prefix.clone()) };
    if should_register {
        parameters.cost = Some(u64::from(options.propagate_cost));
        parameters.flags = Some(flags::CHILD_INHERIT);
    }
    match kind {
        Kind::RoutingDaemon => {
            let name = Name::new().with_generic("localhost").with_generic("nlsr");
            let name = name.with_generic(verb.module()).with_generic(verb.word());
            client::command_named(name.with_generic(parameters.encode()), uniqueness, signer)
        }
        Kind::Upstream | Kind::Gateway => {
            let expiration_ms = EXPIRATION_REFRESHES * u64::from(options.refresh_s) * 1000;
            parameters.expiration_period = should_register.then_some(expiration_ms);
            client::command(Root::Localhop, verb, &parameters, uniqueness, signer)
        }
    }
}

/// Returns the timestamp of the next command. A signer's timestamps must increase, also when the
/// clock is set back a little. When it is set back by much, increasing timestamps would be too far
/// from the receivers' clocks, so they follow the clock.
const fn next_timestamp_ms(last_ms: u64, unix_ms: u64) -> u64 {
    if last_ms < unix_ms || last_ms > unix_ms.saturating_add(CLOCK_AHEAD_MAX_MS) {
        unix_ms
    } else {
        last_ms + 1
    }
}

/// Mixes the bits of a counter (the finalizer of SplitMix64).
const fn mix_bits(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamp_clock_set_back_grows_within_one_minute_only() {
        assert_eq!(next_timestamp_ms(0, 1_000_000), 1_000_000);
        assert_eq!(next_timestamp_ms(1_000_000, 1_000_000), 1_000_001);
        assert_eq!(next_timestamp_ms(1_000_000, 990_000), 1_000_001);
        assert_eq!(next_timestamp_ms(86_400_000, 1_000_000), 1_000_000);
    }
}
