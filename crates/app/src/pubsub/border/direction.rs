//! One direction of a border: from the source to the target.

use super::demand::{Demand, RESERVED};
use super::item::{Item, Numbering};
use super::{Arrival, BorderAction, BorderCounters, BorderOptions, Side};
use nw_api::pubsub::{DomainName, DomainPath, ItemName, ScopePattern};
use nw_element_api::Timestamp;
use std::collections::{BTreeMap, BTreeSet};

/// Milliseconds that a subscription stays when no reader wants it any more.
const LINGER_MS: u64 = 2000;
/// Milliseconds in which others learn that an item is announced, or its last publications arrive.
const SETTLE_MS: u64 = 60;
/// Milliseconds that another program may take to end an item that this one has a shorter way for.
const HANDOVER_MS: u64 = 500;

/// Milliseconds in which the publications that a program lost at its end may come by another one.
const LOSS_DELAY_MS: u64 = 1000;

/// The domain where an item was published, and its plain name: `a/x/y`.
type Key = Box<str>;

/// One direction of a border.
#[derive(Debug)]
pub struct Direction {
    source: Side,
    target: Side,
    source_name: DomainName,
    target_name: DomainName,
    demand: Demand,
    has_changed: bool,
    /// Patterns that the reader has, and when those end that are not wanted any more.
    subscribed: BTreeMap<ScopePattern, Option<Timestamp>>,
    followed: BTreeSet<ScopePattern>,
    items: BTreeMap<Key, Item>,
    /// Items that something is due for.
    due: BTreeSet<Key>,
    /// The ways by which items come into the target, and nodes that announce them.
    ways: BTreeMap<Key, BTreeMap<DomainPath, BTreeSet<u64>>>,
    /// Numbers of the last publications that others passed into the target, while followed.
    seen: BTreeMap<Key, u64>,
    is_active: bool,
    items_max: usize,
    queue_bytes: usize,
    queue_bytes_max: usize,
    pub actions: Vec<BorderAction>,
    pub counters: BorderCounters,
}

/// Returns whether a way is to be used rather than another one.
fn is_better(way: &DomainPath, other: &DomainPath) -> bool {
    (way.domains().len(), way) < (other.domains().len(), other)
}

fn way_of(name: &ItemName) -> Option<DomainPath> {
    name.path().and_then(|path| path.parse().ok())
}

impl Direction {
    pub fn new(source: Side, options: &BorderOptions) -> Self {
        let target = source.other();
        let name = |side: Side| options.domains[side.index()].clone();
        let policy = options.policy[source.index()].clone();
        Direction {
            source,
            target,
            source_name: name(source),
            target_name: name(target),
            demand: Demand::new([name(source), name(target)], policy, options.patterns_max),
            has_changed: false,
            subscribed: BTreeMap::new(),
            followed: BTreeSet::new(),
            items: BTreeMap::new(),
            due: BTreeSet::new(),
            ways: BTreeMap::new(),
            seen: BTreeMap::new(),
            is_active: false,
            items_max: options.items_max,
            queue_bytes: 0,
            queue_bytes_max: options.queue_bytes_max,
            actions: Vec::new(),
            counters: BorderCounters::default(),
        }
    }

    fn policy(&self) -> &[ScopePattern] {
        self.demand.policy()
    }

    /// Returns the patterns to watch for subscribers of the target; their items do not matter.
    pub fn watched(&self) -> impl Iterator<Item = ScopePattern> {
        let own = DomainPath::default().and(&self.target_name).unwrap_or_default();
        self.policy().iter().filter_map(move |pattern| pattern.for_domains(&own).ok())
    }

    pub fn sizes(&self) -> (usize, usize) {
        (self.subscribed.len(), self.items.len())
    }

    pub fn on_subscriber(&mut self, pattern: &str, who: (u64, u64), is_here: bool) {
        self.has_changed |= self.demand.update(pattern, who, is_here);
    }

    /// Takes an event about an item in the target, by whichever program.
    pub fn on_other(&mut self, now: Timestamp, name: &str, node: u64, is_here: bool) {
        let Ok(name) = name.parse::<ItemName>() else { return };
        let Some(way) = way_of(&name) else { return };
        let Some(origin) = way.domains().first() else { return };
        let key: Key = format!("{origin}{}", name.plain()).into();
        if is_here {
            let is_full = self.ways.len() >= self.items_max && !self.ways.contains_key(&key);
            if !is_full {
                self.ways.entry(key.clone()).or_default().entry(way).or_default().insert(node);
            }
        } else if let Some(ways) = self.ways.get_mut(&key) {
            if let Some(nodes) = ways.get_mut(&way) {
                nodes.remove(&node);
            }
            ways.retain(|_, nodes| !nodes.is_empty());
            if ways.is_empty() {
                self.ways.remove(&key);
            }
            // Its last publications may still be on the way.
            if let Some(item) = self.items.get_mut(&key)
                && way_of(&item.name).is_some_and(|own| own != way)
            {
                item.ready = item.ready.max(now.plus_millis(SETTLE_MS));
            }
        }
        self.due.insert(key);
    }

    /// Returns where an item came from, and its name in the target. `None`, and counted, if it may
    /// not cross.
    fn admit(&mut self, text: &str) -> Option<(Key, ItemName)> {
        let name = text.parse::<ItemName>().ok();
        let permitted = name.filter(|name| {
            let is_permitted = self.policy().iter().any(|pattern| pattern.matches(name));
            is_permitted && !name.plain().starts_with(RESERVED)
        });
        let Some(name) = permitted else {
            self.counters.refused += 1;
            return None;
        };
        let way = way_of(&name).unwrap_or_default();
        if way.contains(&self.target_name) || way.contains(&self.source_name) {
            self.counters.looped += 1;
            return None;
        }
        let origin = way.domains().first().unwrap_or(&self.source_name);
        let key: Key = format!("{origin}{}", name.plain()).into();
        let marked = way.and(&self.source_name).and_then(|way| name.with_path(&way).ok());
        if marked.is_none() {
            self.counters.refused += 1;
        }
        marked.map(|name| (key, name))
    }

    pub fn on_publication(&mut self, now: Timestamp, arrival: &Arrival<'_>) {
        let Some((key, name)) = self.admit(arrival.name) else { return };
        if !self.items.contains_key(&key) {
            self.make_space();
            self.items.insert(key.clone(), Item::new(name.clone(), arrival, now));
        }
        let Some(item) = self.items.get_mut(&key) else { return };
        item.used = now;
        if item.is_refused {
            self.counters.refused += 1;
            return;
        }
        let is_same_way = item.name == name;
        let number = match item.number(arrival, is_same_way) {
            Numbering::Own => arrival.sequence,
            Numbering::Restart(base) => {
                self.queue_bytes -= item.restart(base);
                self.seen.remove(&key);
                self.withdraw(&key);
                arrival.sequence
            }
            Numbering::Other(number) => {
                self.counters.renumbered += 1;
                number
            }
            Numbering::Repeated => {
                self.counters.looped += 1;
                return;
            }
        };
        if !is_same_way {
            self.withdraw(&key);
        }
        self.make_queue_space(&key, arrival.payload.len());
        let Some(item) = self.items.get_mut(&key) else { return };
        item.name = name;
        item.last = number;
        if self.seen.get(&key).is_some_and(|seen| *seen >= number) {
            self.queue_bytes -= item.skip_to(number);
        }
        if number > item.sent && arrival.payload.len() <= self.queue_bytes_max {
            self.queue_bytes += arrival.payload.len();
            item.queue.push_back((number, arrival.payload.to_vec()));
        }
        self.pass_on(now, &key);
    }

    pub fn on_lost(&mut self, now: Timestamp, name: &str, stream: u64, lost: u64) {
        let Some((key, _)) = self.admit(name) else { return };
        let Some(item) = self.items.get_mut(&key) else { return };
        if item.is_from(stream) {
            let before = item.lost_after.map_or(item.last, |(last, _)| last.max(item.last));
            let due = now.plus_millis(LOSS_DELAY_MS);
            item.lost_after = Some((before.saturating_add(lost), due));
            self.due.insert(key);
        }
    }

    /// Takes the number of a publication that another program passed into the target.
    pub fn on_followed(&mut self, name: &str, sequence: u64) {
        let Ok(name) = name.parse::<ItemName>() else { return };
        let Some(way) = way_of(&name) else { return };
        let Some(origin) = way.domains().first() else { return };
        let key: Key = format!("{origin}{}", name.plain()).into();
        if let Some(item) = self.items.get_mut(&key)
            && sequence <= item.last
        {
            self.queue_bytes -= item.skip_to(sequence);
        }
        if self.seen.len() < self.items_max || self.seen.contains_key(&key) {
            self.seen.insert(key, sequence);
        }
    }

    pub fn refuse(&mut self, name: &ItemName) {
        let refused = self.items.iter_mut().find(|(_, item)| item.name == *name);
        if let Some((_, item)) = refused {
            item.is_refused = true;
            item.announced = None;
            self.counters.refused += item.queue.len() as u64;
            self.queue_bytes -= item.restart(item.last);
        }
    }

    /// Ends the item that was used least, if there are too many.
    fn make_space(&mut self) {
        if self.items.len() < self.items_max {
            return;
        }
        let oldest = self.items.iter().min_by_key(|(_, item)| item.used);
        if let Some(key) = oldest.map(|(key, _)| key.clone()) {
            self.remove(&key);
        }
    }

    /// Drops the oldest publications of an item, then those of others, until there is space.
    fn make_queue_space(&mut self, key: &Key, len: usize) {
        while self.queue_bytes + len > self.queue_bytes_max {
            let own = self.items.get(key).is_some_and(|item| !item.queue.is_empty());
            let item = match own {
                true => self.items.get_mut(key),
                false => self.items.values_mut().find(|item| !item.queue.is_empty()),
            };
            let Some((_, payload)) = item.and_then(|item| item.queue.pop_front()) else { return };
            self.queue_bytes -= payload.len();
        }
    }

    fn remove(&mut self, key: &Key) {
        self.withdraw(key);
        if let Some(mut item) = self.items.remove(key) {
            self.queue_bytes -= item.restart(0);
        }
        self.due.remove(key);
    }

    fn withdraw(&mut self, key: &Key) {
        let Some(item) = self.items.get_mut(key) else { return };
        if item.announced.take().is_some() {
            self.actions.push(BorderAction::Withdraw(self.target, item.name.clone()));
        }
    }

    /// Passes on what waits of an item, if this program is the one to do so, and it is time.
    fn pass_on(&mut self, now: Timestamp, key: &Key) {
        let Some(item) = self.items.get_mut(key) else { return };
        if let Some((last, due)) = item.lost_after {
            match now < due && last > item.last {
                true => _ = self.due.insert(key.clone()),
                false => {
                    item.lost_after = None;
                    item.last = item.last.max(last);
                }
            }
        }
        let Some(own) = way_of(&item.name) else { return };
        let others = self.ways.get(key).into_iter().flat_map(BTreeMap::keys);
        let others: Vec<&DomainPath> = others.filter(|way| **way != own).collect();
        if !self.is_active || others.iter().any(|way| is_better(way, &own)) {
            return self.withdraw(key);
        }
        if item.is_refused {
            return;
        }
        let Some(announced) = item.announced else {
            item.announced = Some(item.sent);
            item.ready = now.plus_millis(SETTLE_MS);
            item.handover_end = now.plus_millis(HANDOVER_MS);
            let announce = BorderAction::Announce(self.target, item.name.clone(), item.sent);
            self.actions.push(announce);
            self.due.insert(key.clone());
            return;
        };
        if now < item.ready || !others.is_empty() && now < item.handover_end {
            self.due.insert(key.clone());
            return;
        }
        if announced != item.sent && item.last > item.sent {
            // Another program passed some on since then; they are not lost.
            self.actions.push(BorderAction::Withdraw(self.target, item.name.clone()));
            let announce = BorderAction::Announce(self.target, item.name.clone(), item.sent);
            self.actions.push(announce);
        }
        for (number, payload) in item.queue.drain(..) {
            self.queue_bytes -= payload.len();
            if number > item.sent {
                self.counters.passed += 1;
                self.counters.lost += number - item.sent - 1;
                item.sent = number;
                let name = item.name.clone();
                self.actions.push(BorderAction::Publish(self.target, name, number, payload));
            }
        }
        if item.last > item.sent {
            self.counters.lost += item.last - item.sent;
            item.sent = item.last;
            self.actions.push(BorderAction::Lost(self.target, item.name.clone(), item.last));
        }
        item.announced = Some(item.sent);
    }

    /// Returns whether something is due soon.
    pub fn is_busy(&self) -> bool {
        !self.due.is_empty() || self.has_changed
    }

    pub fn tick(&mut self, now: Timestamp, is_active: bool) {
        if is_active != self.is_active {
            self.is_active = is_active;
            self.due.extend(self.items.keys().cloned());
        }
        self.update_subscriptions(now);
        self.update_followed();
        for key in core::mem::take(&mut self.due) {
            self.pass_on(now, &key);
        }
    }

    fn update_subscriptions(&mut self, now: Timestamp) {
        if core::mem::take(&mut self.has_changed) {
            let wanted = self.demand.wanted();
            for (pattern, end) in &mut self.subscribed {
                match wanted.contains(pattern) {
                    true => *end = None,
                    false => *end = end.or(Some(now.plus_millis(LINGER_MS))),
                }
            }
            for pattern in wanted {
                if !self.subscribed.contains_key(&pattern) {
                    self.actions.push(BorderAction::Subscribe(self.source, pattern.clone()));
                    self.subscribed.insert(pattern, None);
                }
            }
        }
        let is_over = |end: &Option<Timestamp>| end.is_some_and(|end| end <= now);
        let ended = self.subscribed.iter().filter(|(_, end)| is_over(end));
        let ended: Vec<ScopePattern> = ended.map(|(pattern, _)| pattern.clone()).collect();
        if ended.is_empty() {
            return;
        }
        for pattern in ended {
            self.subscribed.remove(&pattern);
            self.actions.push(BorderAction::Unsubscribe(self.source, pattern));
        }
        let is_unwanted =
            |item: &Item| !self.subscribed.keys().any(|pattern| wants(pattern, &item.name));
        let unwanted = self.items.iter().filter(|(_, item)| is_unwanted(item));
        let unwanted: Vec<Key> = unwanted.map(|(key, _)| key.clone()).collect();
        unwanted.iter().for_each(|key| self.remove(key));
    }

    /// Follows what others pass into the target while there are some: this program goes on where
    /// they end.
    fn update_followed(&mut self) {
        let mut ways = self.ways.values().flat_map(BTreeMap::keys);
        let has_others = ways.any(|way| way.domains().last() != Some(&self.source_name));
        let wanted: BTreeSet<ScopePattern> = match self.is_active && !has_others {
            true => BTreeSet::new(),
            false => {
                let all = self.subscribed.keys();
                let marked = all.map(|pattern| format!("/@from/*{}", pattern.plain()));
                marked.filter_map(|text| text.parse().ok()).collect()
            }
        };
        if wanted == self.followed {
            return;
        }
        for pattern in wanted.difference(&self.followed) {
            self.actions.push(BorderAction::Follow(self.target, pattern.clone()));
        }
        for pattern in self.followed.difference(&wanted) {
            self.actions.push(BorderAction::Unfollow(self.target, pattern.clone()));
        }
        if wanted.is_empty() {
            self.seen.clear();
        }
        self.followed = wanted;
    }
}

/// Returns whether a pattern matches the plain name of an item.
fn wants(pattern: &ScopePattern, name: &ItemName) -> bool {
    let plain = pattern.plain().parse::<ScopePattern>();
    plain.is_ok_and(|plain| plain.matches(name))
}
