//! `nw pubsub group`: connects a scope of publish/subscribe to a sync group.

use super::args::GroupArgs;
use crate::exit::Status;
use crate::output::{count, json_line};
use crate::signals::StopFlag;
use crate::signing;
use crate::sync::{Membership, Missing, Outcome, WarningLimit};
use anyhow::{Context, Result};
use core::time::Duration;
use nw_api::pubsub::{ItemName, NameFault};
use nw_app::ClientError;
use nw_app::pubsub::{ItemNumber, PresenceWatcher, PubSubError, Publisher, Received, Subscriber};
use nw_app::pubsub::{PubSubOptions, WhenFull};
use nw_app::sync::{BridgeElection, GroupScope, PUBLICATION_BYTES_MAX, SyncUpdate};
use nw_element_api::Timestamp;
use nw_name::Name;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Longest wait for packets while publications may arrive.
const SLICE: Duration = Duration::from_millis(5);
/// Publications of this domain that are read before packets are looked at again.
const PUBLICATIONS_PER_STEP: usize = 1024;
/// Publications of a member that are fetched of those learnt at once, at most: the last ones.
const BURST_MAX: u64 = 1000;
/// Updates from before the start that are remembered at most.
const EARLIER_MAX: usize = 1024;

/// What was passed on, and what was not.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    to_group: u64,
    from_group: u64,
    /// Publications of local publishers that were overwritten before they were read.
    lost: u64,
    /// Publications of the group that could not be fetched.
    missing: u64,
    /// Publications and state vectors that were not accepted.
    refused: u64,
}

/// A bound on publications per second.
struct RateLimit {
    per_s: u32,
    available: f64,
    updated: Instant,
}

impl RateLimit {
    fn new(per_s: u32) -> Self {
        RateLimit { per_s, available: f64::from(per_s), updated: Instant::now() }
    }

    fn is_reached(&mut self) -> bool {
        if self.available < 1.0 {
            let now = Instant::now();
            let gained = (now - self.updated).as_secs_f64() * f64::from(self.per_s);
            self.available = (self.available + gained).min(f64::from(self.per_s));
            self.updated = now;
        }
        self.available < 1.0
    }
}

/// The member, the connections to the node, and what was announced.
struct Bridge<'a> {
    args: &'a GroupArgs,
    membership: Membership<'a>,
    scope: GroupScope,
    election: BridgeElection,
    watcher: PresenceWatcher,
    subscriber: Subscriber,
    publisher: Publisher,
    /// Items of members; `None` for those that the node refused.
    items: BTreeMap<Name, Option<ItemNumber>>,
    /// Names of members that stand for items.
    suffixes: BTreeSet<Name>,
    is_active: bool,
    /// Publications from before the start; `None` once it is over.
    earlier: Option<Vec<SyncUpdate>>,
    limit: RateLimit,
    counts: Counts,
    warnings: WarningLimit,
    /// For Sync Interests that are refused, which anyone can send: they hide no other warning.
    refusals: WarningLimit,
}

/// Runs `nw pubsub group` until Ctrl-C.
pub fn connect(args: &GroupArgs) -> Result<ExitCode> {
    let stop = StopFlag::watch()?;
    let signer = signing::signer(&args.member.signing)?;
    let scope = GroupScope::new(args.scope.clone())?;
    let options = args.node.options()?;
    let router = &args.node.router;
    let membership = Membership::join(router, &args.member, &signer, true, &stop)?;
    let mut bridge = Bridge::new(args, scope, membership, &options)?;
    if args.json {
        let (scope, group) = (args.scope.to_string(), args.member.group.to_string());
        json_line(&json!({ "event": "ready", "scope": scope, "group": group }))?;
    }
    let result = bridge.run();
    bridge.report()?;
    match result {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error) if matches!(error.downcast_ref(), Some(ClientError::Interrupted)) => {
            Ok(Status::Done.into())
        }
        Err(error) => Err(error).context("no longer connected"),
    }
}

impl<'a> Bridge<'a> {
    fn new(
        args: &'a GroupArgs,
        scope: GroupScope,
        membership: Membership<'a>,
        options: &PubSubOptions,
    ) -> Result<Self> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let unix_ms = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        let group = &args.member.group;
        let (random, now) = (membership.nonce(), membership.now());
        let election = BridgeElection::new(&args.scope, group, unix_ms, random, now)?;
        let mut watcher = PresenceWatcher::connect(options)?;
        watcher.watch(election.pattern())?;
        // No subscriber delays the group: one that is too slow is told what it lost.
        let mut publisher = Publisher::connect(options, WhenFull::Overwrite)?;
        publisher.announce(election.item(), false)?;
        let mut subscriber = Subscriber::connect(options)?;
        subscriber.subscribe(scope.pattern(), false)?;
        Ok(Bridge {
            args,
            membership,
            scope,
            election,
            watcher,
            subscriber,
            publisher,
            items: BTreeMap::new(),
            suffixes: BTreeSet::new(),
            is_active: false,
            earlier: Some(Vec::new()),
            limit: RateLimit::new(args.rate),
            counts: Counts::default(),
            warnings: WarningLimit::default(),
            refusals: WarningLimit::default(),
        })
    }

    fn run(&mut self) -> Result<()> {
        loop {
            self.membership.exchange(SLICE)?;
            self.elect()?;
            self.take_publications()?;
            // The first vector makes others send theirs; one that stands by is silent.
            if self.is_active || self.earlier.is_some() {
                self.membership.send_vector()?;
            }
            self.take_outcomes()?;
            // Handles messages of the node, and notices its end.
            self.publisher.next_change(Duration::ZERO)?;
            self.membership.update(self.args.json, self.args.quiet)?;
        }
    }

    /// Follows the others that connect the same scope to the same group.
    fn elect(&mut self) -> Result<()> {
        while let Some(presence) = self.watcher.receive(Duration::ZERO)? {
            if presence.is_publisher {
                self.election.update(&presence.name, presence.is_here);
            }
        }
        let now: Timestamp = self.membership.now();
        let is_active = self.election.is_active(now);
        let is_first = self.election.is_settled(now) && self.earlier.is_some();
        if is_first {
            let earlier = self.earlier.take().unwrap_or_default();
            for update in earlier.into_iter().filter(|_| is_active) {
                self.fetch(update, self.args.history);
            }
        }
        if is_first || is_active != self.is_active {
            self.is_active = is_active;
            self.report_role()?;
        }
        Ok(())
    }

    fn report_role(&self) -> Result<()> {
        let (scope, member) = (&self.args.scope, &self.args.member);
        if self.args.json {
            json_line(&json!({ "event": if self.is_active { "active" } else { "standby" } }))?;
        } else if !self.args.quiet && self.is_active {
            note!("{scope} is connected to {} as {}; Ctrl-C ends it", member.group, member.name);
        } else if !self.args.quiet {
            note!("standing by: another program connects {scope} to {}", member.group);
        }
        Ok(())
    }

    /// Passes publications of this domain to the group.
    fn take_publications(&mut self) -> Result<()> {
        for _ in 0..PUBLICATIONS_PER_STEP {
            // One that stands by reads on, so that it begins with what is published then.
            if self.is_active && self.limit.is_reached() {
                break;
            }
            match self.subscriber.receive(Duration::ZERO)? {
                Received::Publication { name, payload, lost, .. } => {
                    let suffix = self.scope.suffix_of(name).filter(|_| self.is_active);
                    let Some(suffix) = suffix else { continue };
                    self.limit.available -= 1.0;
                    self.counts.lost += lost;
                    let (name, len) = (name.to_owned(), payload.len());
                    let is_new = !self.suffixes.contains(&suffix);
                    let is_full = is_new && self.suffixes.len() >= self.args.members;
                    if !is_full && self.membership.publish(suffix.as_ref(), payload)? {
                        self.counts.to_group += 1;
                        self.suffixes.insert(suffix);
                        continue;
                    }
                    self.counts.refused += 1;
                    let why = match len > PUBLICATION_BYTES_MAX {
                        true => "it is too long for a publication of a group",
                        false => "the group has no space for a further member",
                    };
                    self.warn(|| format!("{name} is not passed to the group: {why}"));
                }
                Received::Lost { name, lost } => {
                    if self.is_active && self.scope.suffix_of(name).is_some() {
                        self.counts.lost += lost;
                    }
                }
                Received::Nothing => break,
            }
        }
        Ok(())
    }

    fn take_outcomes(&mut self) -> Result<()> {
        while let Some(outcome) = self.membership.next_outcome() {
            match outcome {
                Outcome::Vector(vector) => {
                    for update in self.membership.receive(&vector) {
                        match &mut self.earlier {
                            Some(earlier) if earlier.len() < EARLIER_MAX => earlier.push(update),
                            None if self.is_active => self.fetch(update, BURST_MAX),
                            _ => {}
                        }
                    }
                }
                Outcome::Publication(found) => self.publish(&found.member, &found.content)?,
                Outcome::Missing(missing) => self.report_missing(&missing),
                Outcome::Refused(why) => {
                    self.counts.refused += 1;
                    if self.refusals.is_due() && !self.args.quiet {
                        note!("nw: Sync Interest refused: {why}");
                    }
                }
            }
        }
        Ok(())
    }

    fn fetch(&mut self, update: SyncUpdate, history: u64) {
        if let Some(missing) = self.membership.fetch(update, history)
            && history == BURST_MAX
        {
            self.report_missing(&missing);
        }
    }

    fn report_missing(&mut self, missing: &Missing) {
        let counted = match missing.is_refused {
            true => &mut self.counts.refused,
            false => &mut self.counts.missing,
        };
        *counted = counted.saturating_add(missing.count());
        self.warn(|| missing.to_string());
    }

    /// Publishes what a member of the group has published.
    fn publish(&mut self, member: &Name, content: &[u8]) -> Result<()> {
        // Fetched before another program became active.
        if !self.is_active {
            return Ok(());
        }
        if let Some(Some(item)) = self.item_of(member)? {
            self.publisher.publish(item, content)?;
            self.counts.from_group += 1;
        } else {
            self.counts.refused += 1;
        }
        Ok(())
    }

    /// Returns the item of a member, which is announced at its first publication. `None` if there
    /// are too many.
    fn item_of(&mut self, member: &Name) -> Result<Option<Option<ItemNumber>>> {
        if let Some(known) = self.items.get(member) {
            return Ok(Some(*known));
        }
        if self.items.len() >= self.args.members {
            self.warn(|| format!("{member} is left out: give a greater number with --members"));
            return Ok(None);
        }
        let item: Result<ItemName, NameFault> = self.scope.item_of(member);
        let announced = match item.map(|item| self.publisher.announce(&item, true)) {
            Ok(Ok(number)) => Some(number),
            Ok(Err(error @ PubSubError::Refused { .. })) => {
                self.warn(|| format!("{member} is left out: {error}"));
                None
            }
            Ok(Err(error)) => return Err(error.into()),
            Err(fault) => {
                self.warn(|| format!("{member} is left out: {fault}"));
                None
            }
        };
        self.items.insert(member.clone(), announced);
        Ok(Some(announced))
    }

    /// Warns, at most once in an interval: the counts at the end have all.
    fn warn(&mut self, text: impl FnOnce() -> String) {
        if self.warnings.is_due() && !self.args.quiet {
            note!("nw: {}", text());
        }
    }

    fn report(&self) -> Result<()> {
        let Counts { to_group, from_group, lost, missing, refused } = self.counts;
        if self.args.json {
            json_line(&json!({
                "event": "end", "to_group": to_group, "from_group": from_group, "lost": lost,
                "missing": missing, "refused": refused,
            }))?;
        } else if !self.args.quiet {
            let to_group = count(to_group, "publication");
            note!(
                "{to_group} to the group, {from_group} from it, {lost} lost before they were \
                 passed, {missing} missing, {refused} refused"
            );
        }
        Ok(())
    }
}
