//! Domains and borders in virtual time. A domain is modelled by what its nodes promise: matching,
//! last values, presence, and order for each connection; messages take up to 5 ms.

use super::*;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Who has an item or a subscription: an application, or a border program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Owner {
    Application(usize),
    Program(usize),
}

#[derive(Debug)]
struct Item {
    stream: u64,
    last: u64,
    value: Option<(u64, Vec<u8>)>,
}

/// An application that subscribes, and what it received: plain name, number, bytes.
#[derive(Debug)]
struct Reader {
    domain: usize,
    pattern: ScopePattern,
    received: Vec<(String, u64, Vec<u8>)>,
    lost: u64,
    streams: BTreeMap<u64, u64>,
}

#[derive(Clone, Debug)]
enum Message {
    Presence(bool, bool, String, (u64, u64)),
    Publication { stream: u64, name: String, sequence: u64, lost: u64, last: bool, bytes: Vec<u8> },
    Lost { stream: u64, name: String, lost: u64 },
    Followed(String, u64),
}

struct Program {
    border: Border,
    domains: [usize; 2],
    is_alive: bool,
    /// Patterns by side: of the reader, of the follower.
    patterns: [[BTreeSet<ScopePattern>; 2]; 2],
    /// Numbers of streams by side that the reader has.
    streams: [BTreeMap<u64, u64>; 2],
    /// Messages by side, for watcher, reader and follower.
    mail: [[VecDeque<(u64, Message)>; 3]; 2],
}

#[derive(Default)]
struct World {
    now_ms: u64,
    random: u64,
    streams: u64,
    items: Vec<BTreeMap<(Owner, ItemName), Item>>,
    readers: Vec<Reader>,
    programs: Vec<Program>,
}

fn patterns(texts: &[&str]) -> Vec<ScopePattern> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

impl World {
    fn new(domains: usize, seed: u64) -> Self {
        let items = (0..domains).map(|_| BTreeMap::new()).collect();
        World { random: seed, items, ..World::default() }
    }

    fn draw(&mut self, below: u64) -> u64 {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.random >> 33) % below
    }

    fn now(&self) -> Timestamp {
        Timestamp::START.plus_millis(self.now_ms)
    }

    fn program(&mut self, domains: [usize; 2], export: &[&str], import: &[&str]) -> usize {
        let options = BorderOptions {
            domains: domains.map(|number| format!("d{number}").parse().unwrap()),
            policy: [patterns(export), patterns(import)],
            items_max: 100,
            patterns_max: 4,
            queue_bytes_max: 1000,
        };
        let number = self.programs.len();
        let border = Border::new(&options, 7, number as u32, self.now()).unwrap();
        let item = border.election_item().clone();
        self.programs.push(Program {
            border,
            domains,
            is_alive: true,
            patterns: Default::default(),
            streams: Default::default(),
            mail: Default::default(),
        });
        for domain in domains {
            let known: Vec<_> = self.items[domain].keys().cloned().collect();
            for (owner, name) in known {
                self.tell(Some(number), domain, (true, true), name.as_str(), owner);
            }
            self.announce(domain, Owner::Program(number), &item, 0);
        }
        let known: Vec<_> = self.subscriptions();
        for (domain, owner, pattern) in known {
            self.tell(Some(number), domain, (false, true), pattern.as_str(), owner);
        }
        number
    }

    fn subscriptions(&self) -> Vec<(usize, Owner, ScopePattern)> {
        let own = self.readers.iter().enumerate();
        let own = own.map(|(n, r)| (r.domain, Owner::Application(n), r.pattern.clone()));
        let others = self.programs.iter().enumerate().flat_map(|(n, program)| {
            Side::BOTH.into_iter().flat_map(move |side| {
                let all = program.patterns[side.index()].iter().flatten();
                all.map(move |p| (program.domains[side.index()], Owner::Program(n), p.clone()))
            })
        });
        own.chain(others).collect()
    }

    fn post(&mut self, program: usize, side: Side, kind: usize, message: Message) {
        let at = self.now_ms + self.draw(6);
        let mail = &mut self.programs[program].mail[side.index()][kind];
        let at = mail.back().map_or(at, |(last, _)| at.max(*last));
        mail.push_back((at, message));
    }

    /// Tells the programs of a domain, or one of them, of an item or subscription.
    fn tell(
        &mut self,
        only: Option<usize>,
        domain: usize,
        (is_publisher, is_here): (bool, bool),
        name: &str,
        owner: Owner,
    ) {
        let who = match owner {
            Owner::Application(number) => (1, number as u64),
            Owner::Program(number) => (100 + number as u64, 0),
        };
        for number in 0..self.programs.len() {
            let program = &self.programs[number];
            let Some(at) = program.domains.iter().position(|found| *found == domain) else {
                continue;
            };
            let side = Side::BOTH[at];
            let is_watched =
                program.border.watched(side).iter().any(|watched| match is_publisher {
                    true => {
                        watched.demand_path().is_none() && watched.matches(&name.parse().unwrap())
                    }
                    false => watched.overlaps(&name.parse().unwrap()),
                });
            if program.is_alive && is_watched && only.is_none_or(|only| only == number) {
                let message = Message::Presence(is_publisher, is_here, name.to_owned(), who);
                self.post(number, side, 0, message);
            }
        }
    }

    fn announce(&mut self, domain: usize, owner: Owner, name: &ItemName, last: u64) {
        self.streams += 1;
        let stream = self.streams;
        let before =
            self.items[domain].insert((owner, name.clone()), Item { stream, last, value: None });
        assert!(before.is_none(), "{name} is announced twice");
        for reader in self.readers.iter_mut().filter(|reader| reader.domain == domain) {
            reader.streams.insert(stream, last);
        }
        for program in &mut self.programs {
            for side in Side::BOTH {
                program.streams[side.index()].insert(stream, last);
            }
        }
        self.tell(None, domain, (true, true), name.as_str(), owner);
    }

    fn withdraw(&mut self, domain: usize, owner: Owner, name: &ItemName) {
        self.items[domain].remove(&(owner, name.clone())).expect("it was announced");
        self.tell(None, domain, (true, false), name.as_str(), owner);
    }

    /// Delivers a publication; without bytes, a loss up to the number.
    fn publish(
        &mut self,
        domain: usize,
        owner: Owner,
        name: &ItemName,
        sequence: u64,
        bytes: Option<&[u8]>,
    ) {
        let item = self.items[domain].get_mut(&(owner, name.clone())).expect("announced");
        assert!(sequence > item.last, "{name}: {sequence} after {}", item.last);
        item.last = sequence;
        if let Some(bytes) = bytes {
            item.value = Some((sequence, bytes.to_vec()));
        }
        let stream = item.stream;
        for reader in self.readers.iter_mut().filter(|reader| reader.domain == domain) {
            if reader.pattern.matches(name) {
                let before = reader.streams.insert(stream, sequence).unwrap_or(sequence - 1);
                reader.lost += sequence - before - u64::from(bytes.is_some());
                if let Some(bytes) = bytes {
                    let plain = name.plain().to_owned();
                    reader.received.push((plain, sequence, bytes.to_vec()));
                }
            }
        }
        for number in 0..self.programs.len() {
            for side in Side::BOTH {
                let program = &mut self.programs[number];
                if !program.is_alive || program.domains[side.index()] != domain {
                    continue;
                }
                let [reader, follower] = &program.patterns[side.index()];
                let matches = |all: &BTreeSet<ScopePattern>| all.iter().any(|p| p.matches(name));
                let (is_read, is_followed) = (matches(reader), matches(follower));
                let before = program.streams[side.index()].insert(stream, sequence);
                let lost = sequence - before.unwrap_or(sequence - 1) - u64::from(bytes.is_some());
                let name = name.to_string();
                if let Some(bytes) = bytes.filter(|_| is_followed) {
                    assert!(!bytes.is_empty());
                    self.post(number, side, 2, Message::Followed(name.clone(), sequence));
                }
                match bytes.map(<[u8]>::to_vec) {
                    _ if !is_read => {}
                    Some(bytes) => {
                        let last = false;
                        let found =
                            Message::Publication { stream, name, sequence, lost, last, bytes };
                        self.post(number, side, 1, found);
                    }
                    None => self.post(number, side, 1, Message::Lost { stream, name, lost }),
                }
            }
        }
    }

    fn subscribe(&mut self, number: usize, side: Side, kind: usize, pattern: &ScopePattern) {
        let domain = self.programs[number].domains[side.index()];
        let owner = Owner::Program(number);
        let all = &mut self.programs[number].patterns[side.index()][kind];
        let others = all.clone();
        assert!(all.insert(pattern.clone()));
        let mut values = Vec::new();
        for ((_, name), item) in &self.items[domain] {
            let is_new = pattern.matches(name) && !others.iter().any(|p| p.matches(name));
            if let Some((sequence, bytes)) = item.value.clone().filter(|_| is_new) {
                values.push((name.to_string(), item.stream, sequence, bytes));
            }
            if kind == 0 && is_new {
                self.programs[number].streams[side.index()].insert(item.stream, item.last);
            }
        }
        for (name, stream, sequence, bytes) in values {
            let (lost, last) = (0, true);
            let message = match kind {
                0 => Message::Publication { stream, name, sequence, lost, last, bytes },
                _ => Message::Followed(name, sequence),
            };
            self.post(number, side, kind + 1, message);
        }
        self.tell(None, domain, (false, true), pattern.as_str(), owner);
    }

    fn unsubscribe(&mut self, number: usize, side: Side, kind: usize, pattern: &ScopePattern) {
        let domain = self.programs[number].domains[side.index()];
        assert!(self.programs[number].patterns[side.index()][kind].remove(pattern));
        self.tell(None, domain, (false, false), pattern.as_str(), Owner::Program(number));
    }

    fn act(&mut self, number: usize, action: BorderAction) {
        let owner = Owner::Program(number);
        let domains = self.programs[number].domains;
        match action {
            BorderAction::Subscribe(side, pattern) => self.subscribe(number, side, 0, &pattern),
            BorderAction::Follow(side, pattern) => self.subscribe(number, side, 1, &pattern),
            BorderAction::Unsubscribe(side, p) => self.unsubscribe(number, side, 0, &p),
            BorderAction::Unfollow(side, p) => self.unsubscribe(number, side, 1, &p),
            BorderAction::Announce(side, name, last) => {
                self.announce(domains[side.index()], owner, &name, last);
            }
            BorderAction::Withdraw(side, name) => {
                self.withdraw(domains[side.index()], owner, &name);
            }
            BorderAction::Publish(side, name, sequence, bytes) => {
                self.publish(domains[side.index()], owner, &name, sequence, Some(&bytes));
            }
            BorderAction::Lost(side, name, last) => {
                self.publish(domains[side.index()], owner, &name, last, None);
            }
        }
    }

    /// Lets time pass, in steps of a millisecond.
    fn run(&mut self, ms: u64) {
        for _ in 0..ms {
            self.now_ms += 1;
            for number in 0..self.programs.len() {
                if !self.programs[number].is_alive {
                    continue;
                }
                self.deliver(number);
                let now = self.now();
                self.programs[number].border.tick(now);
                for action in self.programs[number].border.take_actions() {
                    self.act(number, action);
                }
            }
        }
    }

    fn deliver(&mut self, number: usize) {
        let (now, now_ms) = (self.now(), self.now_ms);
        let program = &mut self.programs[number];
        for side in Side::BOTH {
            for mail in &mut program.mail[side.index()] {
                while mail.front().is_some_and(|(at, _)| *at <= now_ms) {
                    let Some((_, message)) = mail.pop_front() else { break };
                    let border = &mut program.border;
                    match message {
                        Message::Presence(is_publisher, is_here, name, who) => {
                            border.on_presence(now, side, (is_publisher, is_here), &name, who);
                        }
                        Message::Publication { stream, name, sequence, lost, last, bytes } => {
                            let (name, payload, is_last_value) = (&name[..], &bytes[..], last);
                            let arrival =
                                Arrival { name, stream, sequence, lost, is_last_value, payload };
                            border.on_publication(now, side, &arrival);
                        }
                        Message::Lost { stream, name, lost } => {
                            border.on_lost(now, side, &name, stream, lost);
                        }
                        Message::Followed(name, sequence) => {
                            border.on_followed(side, &name, sequence);
                        }
                    }
                }
            }
        }
    }

    /// Ends a program without a word. Others learn of it.
    fn kill(&mut self, number: usize) {
        self.programs[number].is_alive = false;
        let owner = Owner::Program(number);
        for side in Side::BOTH {
            let domain = self.programs[number].domains[side.index()];
            let items = self.items[domain].keys().filter(|(found, _)| *found == owner);
            for (_, name) in items.cloned().collect::<Vec<_>>() {
                self.withdraw(domain, owner, &name);
            }
            for kind in 0..2 {
                for pattern in self.programs[number].patterns[side.index()][kind].clone() {
                    self.unsubscribe(number, side, kind, &pattern);
                }
            }
        }
    }

    fn reader(&mut self, domain: usize, pattern: &str) -> usize {
        let number = self.readers.len();
        let pattern: ScopePattern = pattern.parse().unwrap();
        let (received, lost, streams) = (Vec::new(), 0, BTreeMap::new());
        self.readers.push(Reader { domain, pattern, received, lost, streams });
        let pattern = self.readers[number].pattern.to_string();
        self.tell(None, domain, (false, true), &pattern, Owner::Application(number));
        number
    }

    /// Publishes as an application: announces the item at its first publication.
    fn publish_in(&mut self, domain: usize, name: &str, sequence: u64) {
        let (owner, name) = (Owner::Application(domain), name.parse::<ItemName>().unwrap());
        if !self.items[domain].contains_key(&(owner, name.clone())) {
            self.announce(domain, owner, &name, 0);
        }
        let bytes = format!("{domain} {name} {sequence}").into_bytes();
        self.publish(domain, owner, &name, sequence, Some(&bytes));
    }

    fn numbers(&self, reader: usize) -> Vec<u64> {
        self.readers[reader].received.iter().map(|(_, sequence, _)| *sequence).collect()
    }

    /// Returns the patterns of borders in a domain.
    fn demands(&self, domain: usize) -> Vec<String> {
        let all = self.subscriptions().into_iter();
        let all =
            all.filter(|(found, owner, _)| *found == domain && matches!(owner, Owner::Program(_)));
        all.map(|(_, _, pattern)| pattern.to_string()).collect()
    }
}

/// d0 - d1 - d2.
fn chain(seed: u64) -> World {
    let mut world = World::new(3, seed);
    world.program([0, 1], &["/x/**", "/y/*"], &[]);
    world.program([1, 2], &["/x/**"], &[]);
    world.run(1100);
    world
}

#[test]
fn publications_cross_two_borders_when_wanted_and_as_far_as_permitted() {
    let mut world = chain(1);
    for name in ["/x/1", "/y/1", "/z"] {
        world.publish_in(0, name, 1);
    }
    world.run(100);
    assert_eq!((world.demands(0), world.demands(1)), (vec![], vec![]), "nothing is wanted");
    let near = world.reader(1, "/**");
    let far = world.reader(2, "/**");
    world.run(300);
    let names = |world: &World, reader: usize| -> Vec<String> {
        let all = world.readers[reader].received.iter();
        all.map(|(name, sequence, _)| format!("{name} {sequence}")).collect()
    };
    assert_eq!(names(&world, near), ["/x/1 1", "/y/1 1"], "the last values");
    assert_eq!(names(&world, far), ["/x/1 1"]);
    assert_eq!(world.demands(1), ["/@to/d2/x/**"]);
    assert_eq!(world.demands(0), ["/@to/d1/x/**", "/@to/d1/y/*"]);
    for sequence in 2..=100 {
        world.publish_in(0, "/x/1", sequence);
        world.publish_in(0, "/z", sequence);
        world.publish_in(2, "/x/1", sequence - 1);
        world.run(1);
    }
    world.run(300);
    let own: Vec<_> = world.readers[far].received.iter().filter(|r| r.2[0] == b'2').collect();
    assert_eq!(own.len(), 99, "its own domain's, once");
    assert_eq!(world.readers[far].received.len(), 99 + 100);
    assert_eq!(world.readers[near].received.len(), 2 + 99, "nothing may be imported");
    assert_eq!((world.readers[near].lost, world.readers[far].lost), (0, 0));
}

#[test]
fn demand_ends_and_items_with_it() {
    let mut world = chain(2);
    let far = world.reader(2, "/x/*");
    world.publish_in(0, "/x/1", 1);
    world.run(300);
    assert_eq!(world.numbers(far), [1]);
    assert_eq!(world.programs[0].border.sizes(Side::Inside), (1, 1));
    let pattern = world.readers[far].pattern.to_string();
    world.tell(None, 2, (false, false), &pattern, Owner::Application(far));
    world.run(4500);
    assert_eq!((world.demands(0), world.demands(1)), (vec![], vec![]));
    assert_eq!(world.programs[0].border.sizes(Side::Inside), (0, 0));
    let marked = world.items[2].keys().filter(|(_, name)| name.path().is_some());
    assert_eq!(marked.count(), 0);
}

#[test]
fn loss_before_a_border_is_told_behind_it() {
    let mut world = chain(3);
    let far = world.reader(2, "/x/**");
    world.publish_in(0, "/x/1", 1);
    world.run(300);
    world.publish_in(0, "/x/1", 4);
    world.publish(0, Owner::Application(0), &"/x/1".parse().unwrap(), 9, None);
    world.run(100);
    assert_eq!(world.readers[far].lost, 2, "the rest may still come by another program");
    world.run(2100);
    assert_eq!((world.numbers(far), world.readers[far].lost), (vec![1, 4], 2 + 5));
    let counters = world.programs[1].border.counters(Side::Inside);
    assert_eq!((counters.passed, counters.lost), (2, 7));
}

#[test]
fn publisher_that_begins_again_is_a_new_item_behind_the_border() {
    let mut world = chain(4);
    let far = world.reader(2, "/x/**");
    world.run(100);
    for sequence in 1..=3 {
        world.publish_in(0, "/x/1", sequence);
    }
    world.run(300);
    world.withdraw(0, Owner::Application(0), &"/x/1".parse().unwrap());
    for sequence in 1..=2 {
        world.publish_in(0, "/x/1", sequence);
    }
    world.run(300);
    assert_eq!((world.numbers(far), world.readers[far].lost), (vec![1, 2, 3, 1, 2], 0));
}

#[test]
fn what_waits_is_bounded_and_the_oldest_is_lost() {
    let mut world = chain(5);
    let far = world.reader(2, "/x/**");
    world.run(100);
    // 300 of about 10 bytes within the time that an announcement needs; 1000 bytes may wait.
    for sequence in 1..=300 {
        world.publish_in(0, "/x/1", sequence);
    }
    world.run(300);
    let (received, lost) = (world.numbers(far), world.readers[far].lost);
    assert!(received.len() < 150 && received.last() == Some(&300), "{received:?}");
    // Behind the first border, which keeps the newest, nothing is lost again.
    assert_eq!(received.len() as u64, 300 - received[0] + 1);
    assert!(received.is_sorted() && lost < 300);
    let counters = world.programs[0].border.counters(Side::Inside);
    assert_eq!(counters.passed + counters.lost, 300);
    for number in 0..300 {
        world.publish_in(0, &format!("/x/{number}/n"), 1);
    }
    world.run(300);
    assert_eq!(world.programs[0].border.sizes(Side::Inside), (1, 100));
}

#[test]
fn ring_of_domains_delivers_once_on_the_shortest_way() {
    for seed in 0..8 {
        let mut world = World::new(3, seed);
        for domains in [[0, 1], [1, 2], [2, 0]] {
            world.program(domains, &["/x/**"], &["/x/**"]);
        }
        world.run(1100);
        let readers: Vec<usize> = (0..3).map(|domain| world.reader(domain, "/**")).collect();
        world.run(100);
        for sequence in 1..=20 {
            world.publish_in(0, "/x/1", sequence);
            world.publish_in(0, "/secret", sequence);
            let pause = world.draw(20);
            world.run(pause);
        }
        world.run(700);
        let expected: Vec<u64> = (1..=20).collect();
        for reader in &readers[1..] {
            assert_eq!(world.numbers(*reader), expected, "seed {seed}, reader {reader}");
            assert_eq!(world.readers[*reader].lost, 0);
        }
        assert_eq!(world.readers[readers[0]].received.len(), 40, "nothing comes back");
        // The direct border fails, and the long way goes on.
        world.kill(2);
        for sequence in 21..=40 {
            world.publish_in(0, "/x/1", sequence);
            world.run(10);
        }
        world.run(700);
        let expected: Vec<u64> = (1..=40).collect();
        assert_eq!(world.numbers(readers[2]), expected, "seed {seed}");
        // It comes back.
        world.program([2, 0], &["/x/**"], &["/x/**"]);
        for sequence in 41..=300 {
            world.publish_in(0, "/x/1", sequence);
            world.run(10);
        }
        world.run(700);
        let expected: Vec<u64> = (1..=300).collect();
        assert_eq!(world.numbers(readers[2]), expected, "seed {seed}");
        assert!(world.programs[3].border.counters(Side::Outside).passed > 100, "the short way");
        assert_eq!(world.readers[readers[0]].received.len(), 320);
    }
}

#[test]
fn stand_in_goes_on_where_the_active_program_ended() {
    for seed in 0..8 {
        let mut world = chain(seed);
        let other = world.program([1, 0], &[], &["/x/**", "/y/*"]);
        let far = world.reader(2, "/x/**");
        world.run(1100);
        assert!(world.programs[0].border.is_active() && !world.programs[other].border.is_active());
        for sequence in 1..=200 {
            if sequence == 100 {
                world.kill(0);
            }
            world.publish_in(0, "/x/1", sequence);
            world.run(3);
        }
        world.run(300);
        let expected: Vec<u64> = (1..=200).collect();
        assert_eq!(world.numbers(far), expected, "seed {seed}");
        assert_eq!(world.readers[far].lost, 0);
        assert!(world.programs[other].border.is_active());
    }
}

#[test]
fn path_that_has_the_domain_or_is_full_does_not_cross() {
    let mut world = chain(6);
    let now = world.now();
    let border = &mut world.programs[0].border;
    let publication = |name| Arrival {
        name,
        stream: 1,
        sequence: 1,
        lost: 0,
        is_last_value: false,
        payload: b"x",
    };
    for name in ["/@from/d1/x/1", "/@from/a+d1+b/x/1", "/@from/d0/x/1"] {
        border.on_publication(now, Side::Inside, &publication(name));
    }
    assert_eq!(border.counters(Side::Inside).looped, 3);
    let long = format!("/x{}", "/1".repeat(30));
    for name in ["/@from/1+2+3+4+5+6+7+8/x/1", "/z", "/@group/x", "no name", &long] {
        border.on_publication(now, Side::Inside, &publication(name));
    }
    assert_eq!(border.counters(Side::Inside).refused, 5);
    assert!(border.take_actions().is_empty());
}
