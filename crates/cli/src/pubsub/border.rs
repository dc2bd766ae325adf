//! `nw pubsub border`: passes publications between two domains.

use super::args::BorderArgs;
use crate::exit::Status;
use crate::output::{count, json_line};
use crate::signals::StopFlag;
use anyhow::{Context, Result, bail};
use core::time::Duration;
use nw_api::pubsub::{ItemName, ItemOptions, ScopePattern};
use nw_app::pubsub::{
    Arrival, Border, BorderAction, BorderCounters, BorderOptions, BorderSide, ItemNumber,
    PresenceWatcher, PubSubError, PubSubOptions, Publisher, Received, Subscriber, WhenFull,
};
use nw_element_api::Timestamp;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Publications of a side that are read before those of the other one.
const PUBLICATIONS_PER_STEP: usize = 256;
/// Longest wait for publications of one side while publications cross.
const BUSY_SLICE: Duration = Duration::from_millis(1);
/// The same once none has crossed for `IDLE_AFTER`.
const IDLE_SLICE: Duration = Duration::from_millis(10);
const IDLE_AFTER: Duration = Duration::from_millis(200);
/// Time between two looks at presence, of which each is a system call, while much crosses.
const PRESENCE_INTERVAL: Duration = Duration::from_millis(5);

/// A subscriber, with its subscriptions by pattern.
struct Reader {
    subscriber: Subscriber,
    numbers: BTreeMap<ScopePattern, u32>,
}

impl Reader {
    fn connect(options: &PubSubOptions) -> Result<Self> {
        let subscriber = Subscriber::connect(options)?;
        Ok(Reader { subscriber, numbers: BTreeMap::new() })
    }

    fn subscribe(&mut self, pattern: ScopePattern, history: u32) -> Result<()> {
        match self.subscriber.subscribe_from(&pattern, history) {
            Ok(number) => {
                self.numbers.insert(pattern, number);
            }
            Err(error @ PubSubError::Refused { .. }) => {
                tracing::warn!(%pattern, %error, "no subscription");
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    fn unsubscribe(&mut self, pattern: &ScopePattern) -> Result<()> {
        match self.numbers.remove(pattern) {
            Some(number) => Ok(self.subscriber.unsubscribe(number)?),
            None => Ok(()),
        }
    }
}

/// The connections to the node of one domain.
struct End {
    watcher: PresenceWatcher,
    reader: Reader,
    follower: Reader,
    publisher: Publisher,
    items: BTreeMap<ItemName, ItemNumber>,
}

impl End {
    fn connect(options: &PubSubOptions, election: &ItemName) -> Result<Self> {
        // No subscriber delays others, or the other side: one that is too slow is told its loss.
        let mut publisher = Publisher::connect(options, WhenFull::Overwrite)?;
        publisher.announce(election, false)?;
        Ok(End {
            watcher: PresenceWatcher::connect(options)?,
            reader: Reader::connect(options)?,
            follower: Reader::connect(options)?,
            publisher,
            items: BTreeMap::new(),
        })
    }

    /// Announces an item. Returns whether the node accepts it.
    fn announce(&mut self, name: ItemName, last: u64) -> Result<bool> {
        match self.publisher.announce_after(&name, ItemOptions::default(), last) {
            Ok(number) => {
                self.items.insert(name, number);
                Ok(true)
            }
            Err(error @ PubSubError::Refused { .. }) => {
                tracing::warn!(%name, %error, "an item does not cross");
                Ok(false)
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// The border and its connections.
struct Session<'a> {
    args: &'a BorderArgs,
    border: Border,
    ends: [End; 2],
    started: Instant,
    looked: Option<Instant>,
    /// When a publication last came.
    received: Instant,
    is_active: Option<bool>,
}

/// Runs `nw pubsub border` until Ctrl-C.
pub fn connect(args: &BorderArgs) -> Result<ExitCode> {
    let stop = StopFlag::watch()?;
    if args.inside == args.outside {
        bail!("the two domains need different names");
    }
    let options = BorderOptions {
        domains: [args.inside.clone(), args.outside.clone()],
        policy: [args.export.clone(), args.import.clone()],
        items_max: args.items as usize,
        patterns_max: args.patterns as usize,
        queue_bytes_max: (args.ring as usize) << 10,
    };
    let inside = PubSubOptions { ring_bytes: args.ring << 10, ..args.node.options()? };
    let outside = PubSubOptions { path: args.outside_socket.clone(), ..inside.clone() };
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let unix_ms = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
    let random = std::process::id() ^ since.subsec_nanos();
    let border = Border::new(&options, unix_ms, random, Timestamp::START)?;
    let item = border.election_item();
    let ends = [
        End::connect(&inside, item).context("the node inside")?,
        End::connect(&outside, item).context("the node outside")?,
    ];
    let (started, looked) = (Instant::now(), None);
    let received = started;
    let mut session = Session { args, border, ends, started, looked, received, is_active: None };
    for side in BorderSide::BOTH {
        for pattern in session.border.watched(side) {
            session.ends[side.index()].watcher.watch(&pattern)?;
        }
    }
    if args.json {
        let (inside, outside) = (args.inside.as_str(), args.outside.as_str());
        json_line(&json!({ "event": "ready", "inside": inside, "outside": outside }))?;
    }
    let result = session.run(&stop);
    session.report()?;
    result.context("no longer connected")?;
    Ok(Status::Done.into())
}

impl Session<'_> {
    fn run(&mut self, stop: &StopFlag) -> Result<()> {
        while !stop.is_set() {
            self.take_presence()?;
            for side in BorderSide::BOTH {
                self.take_publications(side)?;
                self.take_followed(side)?;
            }
            self.border.tick(self.now());
            for action in self.border.take_actions() {
                self.act(action)?;
            }
            self.report_role()?;
        }
        Ok(())
    }

    fn now(&self) -> Timestamp {
        let elapsed = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX);
        Timestamp::START.plus_millis(elapsed)
    }

    /// Takes events about publishers and subscribers, and notices the end of a node.
    fn take_presence(&mut self) -> Result<()> {
        if self.looked.is_some_and(|at| at.elapsed() < PRESENCE_INTERVAL) {
            return Ok(());
        }
        self.looked = Some(Instant::now());
        let now = self.now();
        for side in BorderSide::BOTH {
            let End { watcher, publisher, .. } = &mut self.ends[side.index()];
            while let Some(found) = watcher.receive(Duration::ZERO)? {
                let who = (found.node.unwrap_or(0), found.session);
                let kind = (found.is_publisher, found.is_here);
                self.border.on_presence(now, side, kind, &found.name, who);
            }
            publisher.next_change(Duration::ZERO)?;
        }
        Ok(())
    }

    /// Passes what a reader has to the border. The first wait is the only one.
    fn take_publications(&mut self, side: BorderSide) -> Result<()> {
        let now = self.now();
        let subscriber = &mut self.ends[side.index()].reader.subscriber;
        let is_idle = self.received.elapsed() > IDLE_AFTER;
        let mut wait = if is_idle { IDLE_SLICE } else { BUSY_SLICE };
        for _ in 0..PUBLICATIONS_PER_STEP {
            match subscriber.receive(core::mem::take(&mut wait))? {
                Received::Publication { name, sequence, payload, lost, is_last_value } => {
                    // Both are lent by the subscriber, which knows the stream, too.
                    let (name, payload) = (name.to_owned(), payload.to_vec());
                    let arrival = Arrival {
                        name: &name,
                        stream: subscriber.stream(),
                        sequence,
                        lost,
                        is_last_value,
                        payload: &payload,
                    };
                    self.border.on_publication(now, side, &arrival);
                    self.received = Instant::now();
                }
                Received::Lost { name, lost } => {
                    let name = name.to_owned();
                    self.border.on_lost(now, side, &name, subscriber.stream(), lost);
                }
                Received::Nothing => break,
            }
        }
        Ok(())
    }

    /// Takes the numbers of what others pass into a side.
    fn take_followed(&mut self, side: BorderSide) -> Result<()> {
        let follower = &mut self.ends[side.index()].follower;
        if follower.numbers.is_empty() {
            return Ok(());
        }
        for _ in 0..PUBLICATIONS_PER_STEP {
            match follower.subscriber.receive(Duration::ZERO)? {
                Received::Publication { name, sequence, .. } => {
                    self.border.on_followed(side, name, sequence);
                }
                Received::Lost { .. } => {}
                Received::Nothing => break,
            }
        }
        Ok(())
    }

    fn act(&mut self, action: BorderAction) -> Result<()> {
        match action {
            BorderAction::Subscribe(side, pattern) => {
                self.ends[side.index()].reader.subscribe(pattern, self.args.history)
            }
            BorderAction::Unsubscribe(side, pattern) => {
                self.ends[side.index()].reader.unsubscribe(&pattern)
            }
            BorderAction::Follow(side, pattern) => {
                self.ends[side.index()].follower.subscribe(pattern, 1)
            }
            BorderAction::Unfollow(side, pattern) => {
                self.ends[side.index()].follower.unsubscribe(&pattern)
            }
            BorderAction::Announce(side, name, last) => {
                if !self.ends[side.index()].announce(name.clone(), last)? {
                    self.border.refuse(side, &name);
                }
                Ok(())
            }
            BorderAction::Withdraw(side, name) => {
                let End { items, publisher, .. } = &mut self.ends[side.index()];
                match items.remove(&name) {
                    Some(item) => Ok(publisher.withdraw(item)?),
                    None => Ok(()),
                }
            }
            BorderAction::Publish(side, name, sequence, payload) => {
                let End { items, publisher, .. } = &mut self.ends[side.index()];
                match items.get(&name) {
                    Some(item) => Ok(publisher.publish_as(*item, sequence, &payload)?),
                    None => Ok(()),
                }
            }
            BorderAction::Lost(side, name, last) => {
                let End { items, publisher, .. } = &mut self.ends[side.index()];
                match items.get(&name) {
                    Some(item) => Ok(publisher.report_lost(*item, last)?),
                    None => Ok(()),
                }
            }
        }
    }

    fn report_role(&mut self) -> Result<()> {
        let is_active = self.border.is_active();
        let is_known = self.border.is_settled(self.now());
        if !is_known || self.is_active == Some(is_active) {
            return Ok(());
        }
        self.is_active = Some(is_active);
        let BorderArgs { inside, outside, .. } = self.args;
        if self.args.json {
            json_line(&json!({ "event": if is_active { "active" } else { "standby" } }))?;
        } else if !self.args.quiet && is_active {
            note!("{inside} is connected to {outside}; Ctrl-C ends it");
        } else if !self.args.quiet {
            note!("standing by: another program connects {inside} to {outside}");
        }
        Ok(())
    }

    fn report(&self) -> Result<()> {
        let counters = BorderSide::BOTH.map(|side| self.border.counters(side));
        if self.args.json {
            let [exported, imported] = counters.map(as_json);
            json_line(&json!({ "event": "end", "exported": exported, "imported": imported }))?;
        } else if !self.args.quiet {
            for (counters, way) in counters.into_iter().zip(["out", "in"]) {
                let BorderCounters { passed, lost, refused, looped, renumbered } = counters;
                let passed = count(passed, "publication");
                note!(
                    "{way}: {passed} passed, {lost} lost, {refused} refused, {looped} again, \
                     {renumbered} with new numbers"
                );
            }
        }
        Ok(())
    }
}

fn as_json(counters: BorderCounters) -> Value {
    let BorderCounters { passed, lost, refused, looped, renumbered } = counters;
    json!({
        "passed": passed, "lost": lost, "refused": refused, "looped": looped,
        "renumbered": renumbered,
    })
}
