//! A member of a sync group with its connections: what `nw sync` and `nw pubsub group` share.

use super::fetcher::{Fetcher, Missing, Outcome};
use crate::args::flags::{RouterArgs, ServeArgs, SigningArgs, VerifyArgs};
use crate::connect::{LinkChange, Registration, connect_with_retry};
use crate::signals::StopFlag;
use crate::signing::{self, DataSigner};
use anyhow::Result;
use clap::Args;
use core::time::Duration;
use nw_api::management::parameters::Strategy;
use nw_api::management::{ControlParameters, Verb};
use nw_app::Client;
use nw_app::object::fresh_nonce;
use nw_app::sync::{StateVector, SyncMember, SyncUpdate};
use nw_element_api::{Kind, Timestamp};
use nw_name::{Name, NameRef};
use nw_wire::Interest;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

#[derive(Debug, Clone, Args)]
pub struct MemberArgs {
    /// Prefix of the group, such as /example/chat
    pub group: Name,
    /// Name of this member, different from those of all others, such as /alice
    #[arg(long, value_name = "NAME")]
    pub name: Name,
    #[command(flatten)]
    pub signing: SigningArgs,
    /// Accept only members whose certificate chain ends at this certificate; may be repeated
    #[arg(long, value_name = "FILE", help_heading = "Verification")]
    pub anchor: Vec<PathBuf>,
    #[allow(rustdoc::broken_intra_doc_links, reason = "sections of a file, in a text for users")]
    /// Accept only Data that the rules in this file allow: [[anchor]], [[allow]] and [[issuer]]
    #[arg(long, value_name = "FILE", help_heading = "Verification")]
    pub trust: Option<PathBuf>,
    /// Accept only members with a signature by a trusted key: with --hmac by its secret, with
    /// --anchor by a chain, else by a key of the key store
    #[arg(long = "verify", help_heading = "Verification")]
    pub is_verified: bool,
}

impl MemberArgs {
    fn verify_args(&self) -> VerifyArgs {
        VerifyArgs {
            anchor: self.anchor.clone(),
            trust: self.trust.clone(),
            hmac: self.signing.hmac.clone().filter(|_| self.is_verified),
            key_name: None,
            required: self.is_verified,
            store: self.signing.store.clone(),
        }
    }
}

/// The member and its connections.
pub struct Membership<'a> {
    router: &'a RouterArgs,
    signer: &'a DataSigner,
    member: SyncMember<&'a DataSigner>,
    client: Client,
    fetcher: Fetcher,
    registrations: Vec<Registration<'a>>,
}

/// Returns seconds since 1970.
fn unix_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

impl<'a> Membership<'a> {
    /// Joins the group. `has_names_below`: whether the member publishes under names below its own.
    pub fn join(
        router: &'a RouterArgs,
        args: &'a MemberArgs,
        signer: &'a DataSigner,
        has_names_below: bool,
        stop: &StopFlag,
    ) -> Result<Self> {
        let mut client = connect_with_retry(router, false)?;
        client.stop_when(stop.flag());
        let seed = u64::from(fresh_nonce(&client));
        let (group, name) = (args.group.clone(), args.name.clone());
        let mut member = SyncMember::new(group, name, unix_s(), client.now(), seed, signer);
        if has_names_below {
            member.own_names_below();
        }
        let serving = ServeArgs { origin: None, expose: false, no_reconnect: false };
        let mut registrations = Vec::new();
        for prefix in member.prefixes() {
            let (commander, key) = (signer.commander(router)?, signer.key_name());
            let registration =
                Registration::new(&mut client, commander, Some(prefix), key, &serving)?;
            registrations.push(registration);
        }
        let verifier = || signing::verifier(&args.verify_args());
        let fetcher = Fetcher::start(router, verifier, &args.group, stop)?;
        let mut joined = Membership { router, signer, member, client, fetcher, registrations };
        joined.choose_strategy()?;
        Ok(joined)
    }

    /// Returns the time of the connection.
    pub fn now(&self) -> Timestamp {
        self.client.now()
    }

    /// Returns a random number.
    pub fn nonce(&self) -> u32 {
        fresh_nonce(&self.client)
    }

    /// Makes the router send Sync Interests to all members, not only to the nearest.
    fn choose_strategy(&mut self) -> Result<()> {
        let [sync_prefix, _] = self.member.prefixes();
        let multicast = "/localhost/nfd/strategy/multicast".parse().map(Strategy)?;
        let parameters = ControlParameters {
            strategy: Some(multicast),
            ..ControlParameters::of(sync_prefix.clone())
        };
        let commander = self.signer.commander(self.router)?;
        if let Err(error) =
            commander.command(&mut self.client, Verb::StrategyChoiceSet, &parameters)
        {
            tracing::warn!(%error, "ask the operator for: nw strategy set {sync_prefix} multicast");
        }
        Ok(())
    }

    /// Receives packets: passes state vectors to be verified, and answers Interests.
    pub fn exchange(&mut self, slice: Duration) -> Result<()> {
        let (member, fetcher, signer) = (&self.member, &self.fetcher, self.signer);
        self.client.poll(Some(slice), |_, received, out| {
            if received.kind() != Kind::Interest || signer.answer(&received, out) {
                return;
            }
            let Ok(interest) = Interest::check(received.wire) else { return };
            if let Some(data) = member.sync_data(&interest) {
                return fetcher.verify(data.to_vec());
            }
            match member.answer(&interest) {
                Ok(Some(data)) => out.answer(&received, &data),
                Ok(None) => {}
                Err(error) => tracing::warn!(%error, "can't sign a snapshot"),
            }
        })?;
        Ok(())
    }

    /// Sends a Sync Interest if it is time.
    pub fn send_vector(&mut self) -> Result<()> {
        let (now, nonce) = (self.client.now(), fresh_nonce(&self.client));
        if let Some(interest) = self.member.tick(now, nonce)? {
            self.client.send(&interest);
        }
        Ok(())
    }

    /// Publishes under the member's name and a suffix. Returns false if the group is full.
    pub fn publish(&mut self, suffix: NameRef<'_>, content: &[u8]) -> Result<bool> {
        let number = self.member.publish_below(self.client.now(), suffix, content)?;
        Ok(number.is_some())
    }

    /// Returns the next outcome, if there is one.
    pub fn next_outcome(&self) -> Option<Outcome> {
        self.fetcher.outcomes.try_recv().ok()
    }

    /// Takes a verified state vector, and returns the new publications of others.
    pub fn receive(&mut self, vector: &StateVector) -> Vec<SyncUpdate> {
        self.member.receive(self.client.now(), unix_s(), vector)
    }

    /// Fetches the last `history` publications of an update. Returns those that are not fetched.
    pub fn fetch(&self, update: SyncUpdate, history: u64) -> Option<Missing> {
        let SyncUpdate { first, last, .. } = update;
        let member = update.name.clone();
        let missing = |last, why: &str| Missing {
            member,
            first,
            last,
            why: why.to_owned(),
            is_refused: false,
        };
        let start = first.max(last.saturating_sub(history).saturating_add(1));
        if start <= last && !self.fetcher.fetch(SyncUpdate { first: start, ..update }) {
            return Some(missing(last, "too many updates wait"));
        }
        (start > first).then(|| missing(start - 1, "older than --history"))
    }

    /// Registers again after a reconnect, and reports changes of the connection.
    pub fn update(&mut self, json: bool, quiet: bool) -> Result<()> {
        for index in 0..self.registrations.len() {
            let change = self.registrations[index].update(&mut self.client)?;
            if index > 0 {
                continue;
            }
            change.report(json, quiet)?;
            if change == LinkChange::Restored {
                self.choose_strategy()?;
            }
        }
        Ok(())
    }
}
