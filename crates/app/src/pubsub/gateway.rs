//! Publications as Data: a producer below an NDN prefix that subscribes when Interests ask for it.
//!
//! ```text
//! Interest /<prefix>/<item>          CanBePrefix: the last publication of the item, or of the
//!                                    items below it
//! Interest /<prefix>/<item>/seq=N    publication N, if it is kept, or once it is published
//! Interest …/seq=N/seg=M             segment M of it
//! ```
//!
//! An Interest is a subscription with a lifetime: the gateway subscribes to what it asks for, and
//! stays subscribed for a while after the last Interest. The router's content store then serves
//! late and repeated readers. Pure: time is an argument, [`Action`]s are results. Invariants: a
//! Data name never has two contents while the gateway runs, so numbers go up also when publishers
//! restart or several publish one item; bounded in items, bytes, patterns and waiting Interests.

use nw_api::pubsub::{ItemName, ScopePattern};
use nw_element_api::Timestamp;
use nw_name::convention::Kind;
use nw_name::{ComponentType, Name};
use nw_pubsub::history::{History, HistoryDepth};
use nw_pubsub::parents::is_below;
use nw_wire::{DataBuilder, Interest, Sign, Token};
use std::collections::BTreeMap;

/// Bounds and times of a gateway.
#[derive(Clone, Copy, Debug)]
pub struct GatewayOptions {
    /// FreshnessPeriod of Data, milliseconds: how old the "last" publication may be for consumers
    /// that ask for a fresh one.
    pub freshness_ms: u64,
    /// How long a subscription stays after the last Interest, milliseconds.
    pub lease_ms: u64,
    /// Publications of an item that are kept at most.
    pub publications_max: u32,
    /// Bytes of all kept publications at most.
    pub bytes_max: usize,
    /// Content length of a segment, bytes. A publication that is not longer is one Data.
    pub segment_len: usize,
}

impl Default for GatewayOptions {
    fn default() -> Self {
        GatewayOptions {
            freshness_ms: 100,
            lease_ms: 10_000,
            publications_max: 1024,
            bytes_max: 64 << 20,
            segment_len: 8000,
        }
    }
}

/// Items with kept publications at most.
const ITEMS_MAX: usize = 16_384;
/// Subscriptions at most.
const PATTERNS_MAX: usize = 4096;
/// Interests that wait for a publication at most.
const WAITING_MAX: usize = 16_384;

/// What the owner of the gateway has to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send a Data with this PIT token.
    Data(Token, Vec<u8>),
    /// Send a Nack with reason NoRoute for the Interest: there is no such publication any more.
    Nack(Token, Vec<u8>),
    /// Subscribe to a pattern, with last values.
    Subscribe(ScopePattern),
    /// End the subscription to a pattern.
    Unsubscribe(ScopePattern),
}

/// Counters of a gateway.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GatewayCounters {
    /// Interests for names below the prefix.
    pub interests: u64,
    /// Data sent.
    pub data: u64,
    /// Interests whose time passed without a publication.
    pub expired: u64,
    /// Interests refused: invalid names, publications that are gone, full tables.
    pub refused: u64,
    /// Publications received.
    pub publications: u64,
}

#[derive(Debug)]
struct GatewayItem {
    history: History,
    /// Number given to the last publication.
    last: u64,
    /// Number that its publisher gave to it.
    published_as: u64,
    /// When it arrived, as a count over all items.
    arrived: u64,
}

#[derive(Debug)]
struct Waiting {
    interest: Vec<u8>,
    request: Request,
    token: Token,
    expires: Timestamp,
}

/// What an Interest asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Request {
    item: ItemName,
    sequence: Option<u64>,
    segment: Option<u64>,
    can_be_prefix: bool,
}

/// A gateway for one prefix.
#[derive(Debug)]
pub struct Gateway<S> {
    prefix: Name,
    options: GatewayOptions,
    signer: S,
    items: BTreeMap<ItemName, GatewayItem>,
    /// The items by the arrival of their last publications.
    by_arrival: BTreeMap<u64, ItemName>,
    bytes: usize,
    /// Subscriptions for good.
    followed: Vec<ScopePattern>,
    /// Other subscriptions, and when they end.
    leases: BTreeMap<ScopePattern, Timestamp>,
    /// By the item that they ask for.
    waiting: BTreeMap<ItemName, Vec<Waiting>>,
    waiting_count: usize,
    arrivals: u64,
    actions: Vec<Action>,
    counters: GatewayCounters,
}

impl<S: Sign> Gateway<S>
where
    S::Error: core::fmt::Display,
{
    /// Creates a gateway without subscriptions.
    pub fn new(prefix: Name, options: GatewayOptions, signer: S) -> Self {
        Gateway {
            prefix,
            options,
            signer,
            items: BTreeMap::new(),
            by_arrival: BTreeMap::new(),
            bytes: 0,
            followed: Vec::new(),
            leases: BTreeMap::new(),
            waiting: BTreeMap::new(),
            waiting_count: 0,
            arrivals: 0,
            actions: Vec::new(),
            counters: GatewayCounters::default(),
        }
    }

    /// Returns the counters.
    pub const fn counters(&self) -> GatewayCounters {
        self.counters
    }

    /// Returns whether publications may arrive now.
    pub fn is_subscribed(&self) -> bool {
        !self.leases.is_empty() || !self.followed.is_empty()
    }

    /// Takes what is to be done since the last call.
    pub fn take_actions(&mut self) -> Vec<Action> {
        core::mem::take(&mut self.actions)
    }

    /// Subscribes to a pattern for good, so that its publications are kept before Interests come.
    pub fn follow(&mut self, pattern: ScopePattern) {
        self.actions.push(Action::Subscribe(pattern.clone()));
        self.followed.push(pattern);
    }

    /// Handles an Interest. One that can't be answered yet waits for its lifetime.
    pub fn on_interest(&mut self, now: Timestamp, wire: &[u8], token: Token) {
        let Ok(interest) = Interest::check(wire) else { return };
        let Some(request) = self.request(&interest) else {
            self.counters.refused += 1;
            self.actions.push(Action::Nack(token, wire.to_vec()));
            return;
        };
        self.counters.interests += 1;
        let was_leased = self.renew(now, &request);
        // A publication is known to be the last one only while the gateway is subscribed.
        let may_be_old = request.sequence.is_some() || !interest.must_be_fresh() || was_leased;
        if may_be_old && self.answer(&request, token) {
            return;
        }
        let kept = self.items.get(&request.item);
        let is_gone = request.sequence.is_some_and(|n| kept.is_some_and(|item| n <= item.last));
        if is_gone || self.waiting_count >= WAITING_MAX {
            self.counters.refused += 1;
            self.actions.push(Action::Nack(token, wire.to_vec()));
            return;
        }
        let expires = now.plus_millis(interest.lifetime_ms());
        self.waiting_count += 1;
        let same = self.waiting.entry(request.item.clone()).or_default();
        same.push(Waiting { interest: wire.to_vec(), request, token, expires });
    }

    /// Returns what an Interest asks for. `None` if it can't be the name of a publication.
    fn request(&self, interest: &Interest<'_>) -> Option<Request> {
        let name = interest.name();
        if !self.prefix.as_ref().is_prefix_of(name) {
            return None;
        }
        let mut request = Request {
            item: "/x".parse().ok()?,
            sequence: None,
            segment: None,
            can_be_prefix: interest.can_be_prefix(),
        };
        let mut text = String::new();
        for component in name.components().skip(self.prefix.as_ref().components().count()) {
            match (component.typ(), request.sequence, request.segment) {
                (ComponentType::GENERIC, None, None) => {
                    let part = core::str::from_utf8(component.value()).ok()?;
                    if part.contains('/') {
                        return None;
                    }
                    text.push('/');
                    text.push_str(part);
                }
                (ComponentType::SEQUENCE, None, None) => {
                    request.sequence = Some(Kind::Sequence.number(component)?);
                }
                (ComponentType::SEGMENT, Some(_), None) => {
                    request.segment = Some(Kind::Segment.number(component)?);
                }
                _ => return None,
            }
        }
        request.item = text.parse().ok()?;
        Some(request)
    }

    /// Renews the subscription for a request, or starts it. Returns whether there was one.
    fn renew(&mut self, now: Timestamp, request: &Request) -> bool {
        let is_scope = request.sequence.is_none() && request.can_be_prefix;
        let text = if is_scope { format!("{}/**", request.item) } else { request.item.to_string() };
        let Ok(pattern) = text.parse::<ScopePattern>() else { return false };
        let end = now.plus_millis(self.options.lease_ms);
        if let Some(lease) = self.leases.get_mut(&pattern) {
            *lease = end;
            return true;
        }
        let is_covered = self.is_covered(&request.item);
        if self.leases.len() < PATTERNS_MAX {
            self.actions.push(Action::Subscribe(pattern.clone()));
            self.leases.insert(pattern, end);
        }
        is_covered
    }

    /// Returns whether there is a subscription that matches an item.
    fn is_covered(&self, item: &ItemName) -> bool {
        let has_lease = |text: &str| {
            text.parse::<ScopePattern>().is_ok_and(|pattern| self.leases.contains_key(&pattern))
        };
        let text = item.as_str();
        let ends = text.match_indices('/').map(|(at, _)| at).skip(1).chain([text.len()]);
        self.followed.iter().any(|pattern| pattern.matches(item))
            || has_lease(text)
            || ends.into_iter().any(|end| has_lease(&format!("{}/**", &text[..end])))
    }

    /// Answers from what is kept. Returns whether that was possible.
    fn answer(&mut self, request: &Request, token: Token) -> bool {
        let Some((item, sequence)) = self.find(request) else { return false };
        let Some(payload) = self.items.get(&item).and_then(|i| i.history.publication(sequence))
        else {
            return false;
        };
        match self.packet(request, &item, sequence, payload) {
            Some(Ok(packet)) => {
                self.counters.data += 1;
                self.actions.push(Action::Data(token, packet));
                true
            }
            Some(Err(error)) => {
                tracing::warn!(%item, %error, "can't sign a publication");
                false
            }
            None => false,
        }
    }

    /// Returns the item and the number of the publication that a request is answered with.
    fn find(&self, request: &Request) -> Option<(ItemName, u64)> {
        if let Some(sequence) = request.sequence {
            return Some((request.item.clone(), sequence));
        }
        if !request.can_be_prefix {
            return None;
        }
        if let Some(item) = self.items.get(&request.item) {
            return Some((request.item.clone(), item.last));
        }
        let below = self.items.range(&request.item..);
        let below = below.take_while(|(name, _)| name.as_str().starts_with(request.item.as_str()));
        let below = below.filter(|(name, _)| is_below(name.as_str(), request.item.as_str()));
        let newest = below.max_by_key(|(_, item)| item.arrived)?;
        Some((newest.0.clone(), newest.1.last))
    }

    /// Returns the Data for a request. `None` if the publication does not have this name.
    fn packet(
        &self,
        request: &Request,
        item: &ItemName,
        sequence: u64,
        payload: &[u8],
    ) -> Option<Result<Vec<u8>, S::Error>> {
        let name = self.data_name(item).with_number(ComponentType::SEQUENCE, sequence);
        let len = self.options.segment_len.max(1);
        let fits = payload.len() <= len;
        let last = (payload.len().div_ceil(len).max(1) - 1) as u64;
        if fits && request.segment.is_none() {
            let data = DataBuilder::new(&name, payload).freshness_ms(self.options.freshness_ms);
            return Some(data.encode(&self.signer));
        }
        let segment = match request.segment {
            Some(segment) => segment,
            None if request.can_be_prefix => 0,
            None => return None,
        };
        if segment > last {
            return None;
        }
        let start = segment as usize * len;
        let content = &payload[start..payload.len().min(start + len)];
        let (name, last) = (name.clone().with_segment(segment), name.with_segment(last));
        let data = DataBuilder::new(&name, content).freshness_ms(self.options.freshness_ms);
        Some(data.final_block_of(last.as_ref()).encode(&self.signer))
    }

    fn data_name(&self, item: &ItemName) -> Name {
        let components = item.as_str().split('/').skip(1);
        components.fold(self.prefix.clone(), |name, component| name.with_generic(component))
    }

    /// Takes a publication, and answers the Interests that wait for it. `sequence` is the
    /// publisher's number.
    pub fn on_publication(&mut self, name: &str, sequence: u64, payload: &[u8]) {
        let Ok(name) = name.parse::<ItemName>() else { return };
        self.counters.publications += 1;
        self.arrivals += 1;
        let (arrived, options) = (self.arrivals, self.options);
        let depth = HistoryDepth::Ring(options.publications_max);
        let item = self.items.entry(name.clone()).or_insert_with(|| GatewayItem {
            history: History::new(depth, options.bytes_max),
            last: 0,
            published_as: 0,
            arrived: 0,
        });
        self.by_arrival.remove(&item.arrived);
        self.by_arrival.insert(arrived, name.clone());
        if sequence == item.published_as && item.history.last().is_some_and(|l| l.1 == payload) {
            // The last value again, after a new subscription.
            item.arrived = arrived;
        } else {
            item.last = sequence.max(item.last + 1);
            item.published_as = sequence;
            item.arrived = arrived;
            let before = item.history.bytes();
            item.history.insert(item.last, payload);
            self.bytes = self.bytes + item.history.bytes() - before;
            self.evict(&name);
        }
        self.answer_waiting(&name);
    }

    /// Drops the items whose last publication is oldest while the bounds are exceeded.
    fn evict(&mut self, newest: &ItemName) {
        while self.bytes > self.options.bytes_max || self.items.len() > ITEMS_MAX {
            let Some((_, oldest)) = self.by_arrival.first_key_value() else { return };
            if oldest == newest {
                return;
            }
            if let Some(item) = self.items.remove(oldest) {
                self.bytes -= item.history.bytes();
            }
            self.by_arrival.pop_first();
        }
    }

    /// Answers the Interests that wait for a publication of this item, or of one below a scope
    /// that it is in.
    fn answer_waiting(&mut self, name: &ItemName) {
        for wanted in core::iter::once(name.clone()).chain(name.scopes()) {
            let Some(mut same) = self.waiting.remove(&wanted) else { continue };
            let before = same.len();
            same.retain(|waiting| !self.answer(&waiting.request, waiting.token));
            self.waiting_count -= before - same.len();
            if !same.is_empty() {
                self.waiting.insert(wanted, same);
            }
        }
    }

    /// Ends what is over: waiting Interests and subscriptions.
    pub fn tick(&mut self, now: Timestamp) {
        let before = self.waiting_count;
        self.waiting.retain(|_, same| {
            let before = same.len();
            same.retain(|waiting| waiting.expires > now);
            self.waiting_count -= before - same.len();
            !same.is_empty()
        });
        self.counters.expired += (before - self.waiting_count) as u64;
        let over = self.leases.iter().filter(|(_, end)| **end <= now);
        let over: Vec<ScopePattern> = over.map(|(pattern, _)| pattern.clone()).collect();
        for pattern in over {
            self.leases.remove(&pattern);
            self.actions.push(Action::Unsubscribe(pattern));
        }
    }

    /// Takes the refusal of a subscription: the Interests that need it are refused.
    pub fn refuse(&mut self, pattern: &ScopePattern) {
        self.leases.remove(pattern);
        for (_, same) in self.waiting.extract_if(.., |item, _| pattern.matches(item)) {
            self.waiting_count -= same.len();
            self.counters.refused += same.len() as u64;
            let nack = |waiting: Waiting| Action::Nack(waiting.token, waiting.interest);
            self.actions.extend(same.into_iter().map(nack));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nw_wire::{Data, DigestSha256, InterestBuilder};

    fn gateway(options: GatewayOptions) -> Gateway<DigestSha256> {
        Gateway::new("/ps".parse().unwrap(), options, DigestSha256)
    }

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_millis(ms)
    }

    /// Sends an Interest. `+` at the end of the name: CanBePrefix; `!`: MustBeFresh too.
    fn request(gateway: &mut Gateway<DigestSha256>, ms: u64, name: &str) -> Vec<Action> {
        let is_fresh = name.ends_with('!');
        let text = name.trim_end_matches(['+', '!']);
        let builder = InterestBuilder::new(text.parse::<Name>().unwrap())
            .can_be_prefix(text != name)
            .must_be_fresh(is_fresh)
            .lifetime_ms(1000)
            .nonce(7);
        gateway.on_interest(at(ms), &builder.encode(), Token::default());
        gateway.take_actions()
    }

    fn subscribe(pattern: &str) -> Action {
        Action::Subscribe(pattern.parse().unwrap())
    }

    /// Returns name and content of the only action, a Data.
    fn data(actions: &[Action]) -> (String, Vec<u8>) {
        let [Action::Data(_, packet)] = actions else { panic!("no single Data: {actions:?}") };
        let data = Data::check(packet).unwrap();
        (data.name().to_string(), data.content().to_vec())
    }

    #[test]
    fn interest_subscribes_and_is_answered_by_the_next_publication() {
        let mut gateway = gateway(GatewayOptions::default());
        assert_eq!(request(&mut gateway, 0, "/ps/a/b!"), [subscribe("/a/b/**")]);
        gateway.on_publication("/a/bc", 1, b"not this one");
        gateway.on_publication("/a/b", 7, b"x");
        assert_eq!(data(&gateway.take_actions()), ("/ps/a/b/seq=7".into(), b"x".to_vec()));
        let kept = request(&mut gateway, 1, "/ps/a/b!");
        assert_eq!(data(&kept).0, "/ps/a/b/seq=7", "the subscription goes on, so it is the last");
        assert_eq!(request(&mut gateway, 2, "/ps/a/b/seq=8"), [subscribe("/a/b")]);
        gateway.on_publication("/a/b", 8, b"y");
        assert_eq!(data(&gateway.take_actions()), ("/ps/a/b/seq=8".into(), b"y".to_vec()));
        assert_eq!(data(&request(&mut gateway, 3, "/ps/a/b/seq=7")).1, b"x");
        let counters = gateway.counters();
        assert_eq!((counters.interests, counters.data, counters.publications), (4, 4, 3));
    }

    #[test]
    fn subscription_ends_after_its_lease_and_fresh_interests_wait_again() {
        let mut gateway = gateway(GatewayOptions::default());
        request(&mut gateway, 0, "/ps/a!");
        gateway.on_publication("/a", 1, b"old");
        gateway.tick(at(9_999));
        assert_eq!(data(&gateway.take_actions()).1, b"old");
        assert!(gateway.is_subscribed());
        gateway.tick(at(10_000));
        assert_eq!(gateway.take_actions(), [Action::Unsubscribe("/a/**".parse().unwrap())]);
        assert!(!gateway.is_subscribed());
        assert_eq!(request(&mut gateway, 10_001, "/ps/a!"), [subscribe("/a/**")]);
        gateway.on_publication("/a", 1, b"old");
        assert_eq!(data(&gateway.take_actions()).0, "/ps/a/seq=1", "the last value came again");
        request(&mut gateway, 11_000, "/ps/z+");
        gateway.tick(at(12_000));
        assert_eq!(gateway.counters().expired, 1);
    }

    #[test]
    fn scope_is_answered_by_its_newest_item() {
        let mut gateway = gateway(GatewayOptions::default());
        gateway.follow("/s/**".parse().unwrap());
        gateway.take_actions();
        for (name, content) in [("/s/1", b"a"), ("/s/2", b"b"), ("/s/1", b"c"), ("/sx", b"d")] {
            gateway.on_publication(name, gateway.counters().publications + 1, content);
        }
        let found = request(&mut gateway, 0, "/ps/s!");
        let [Action::Subscribe(_), found @ ..] = &found[..] else { panic!("{found:?}") };
        assert_eq!(data(found), ("/ps/s/1/seq=3".into(), b"c".to_vec()));
        gateway.tick(at(60_000_000));
        assert!(gateway.is_subscribed(), "followed for good");
        gateway.take_actions();
        request(&mut gateway, 60_000_000, "/ps/t/u/v!");
        assert!(gateway.is_covered(&"/t/u/v".parse().unwrap()));
        assert!(gateway.is_covered(&"/t/u/v/w".parse().unwrap()));
        assert!(!gateway.is_covered(&"/t/u".parse().unwrap()));
    }

    #[test]
    fn large_publication_has_segments() {
        let options = GatewayOptions { segment_len: 10, ..GatewayOptions::default() };
        let mut gateway = gateway(options);
        request(&mut gateway, 0, "/ps/f!");
        gateway.on_publication("/f", 1, &[b'x'; 25]);
        assert_eq!(data(&gateway.take_actions()), ("/ps/f/seq=1/seg=0".into(), vec![b'x'; 10]));
        let answer = request(&mut gateway, 1, "/ps/f/seq=1/seg=2");
        let answer = &answer[answer.len() - 1..];
        assert_eq!(data(answer), ("/ps/f/seq=1/seg=2".into(), vec![b'x'; 5]));
        let Action::Data(_, packet) = &answer[0] else { panic!() };
        let last = Data::check(packet).unwrap().final_block().map(|last| last.integer());
        assert_eq!(last, Some(Some(2)));
        let none = request(&mut gateway, 2, "/ps/f/seq=1/seg=3");
        assert!(matches!(none[..], [Action::Nack(..)]), "{none:?}");
    }

    #[test]
    fn names_are_never_used_twice_and_invalid_ones_are_refused() {
        let options = GatewayOptions { publications_max: 2, ..GatewayOptions::default() };
        let mut gateway = gateway(options);
        request(&mut gateway, 0, "/ps/a/seq=1");
        for (sequence, content) in [(1, b"1"), (2, b"2"), (1, b"3")] {
            gateway.on_publication("/a", sequence, content);
        }
        gateway.take_actions();
        assert_eq!(data(&request(&mut gateway, 1, "/ps/a/seq=3")).1, b"3", "a new publisher");
        assert!(matches!(request(&mut gateway, 1, "/ps/a/seq=1")[..], [Action::Nack(..)]));
        for name in ["/ps", "/ps/%00", "/ps/a%2Fb", "/ps/seg=1", "/ps/a/seq=1/b", "/ps/*", "/other"]
        {
            let actions = request(&mut gateway, 2, name);
            assert!(matches!(actions[..], [Action::Nack(..)]), "{name}: {actions:?}");
        }
        request(&mut gateway, 3, "/ps/secret/seq=1");
        gateway.refuse(&"/secret".parse().unwrap());
        assert!(matches!(gateway.take_actions()[..], [Action::Nack(..)]));
    }

    #[test]
    fn kept_publications_are_bounded() {
        let options = GatewayOptions { bytes_max: 1000, ..GatewayOptions::default() };
        let mut gateway = gateway(options);
        for number in 0..20_000 {
            gateway.on_publication(&format!("/i/{number}"), 1, &[0; 100]);
            assert!(gateway.bytes <= 1000);
        }
        assert_eq!(gateway.items.len(), 10);
        for number in 0..20_000 {
            request(&mut gateway, 0, &format!("/ps/w/{number}+"));
        }
        assert!(gateway.waiting_count <= WAITING_MAX && gateway.leases.len() <= PATTERNS_MAX);
        assert!(gateway.counters().refused > 3000);
    }

    #[test]
    fn many_waiting_interests_and_kept_items_delay_no_publication() {
        let options = GatewayOptions { bytes_max: 1_700_000, ..GatewayOptions::default() };
        let mut gateway = gateway(options);
        for number in 0..WAITING_MAX {
            request(&mut gateway, 0, &format!("/ps/w/{number}+"));
        }
        for number in 0..ITEMS_MAX - 1 {
            gateway.on_publication(&format!("/i/{number}"), 1, &[0; 100]);
        }
        let started = std::time::Instant::now();
        (1..=500).for_each(|number| gateway.on_publication("/i/last", number, b"x"));
        gateway.on_publication("/i/large", 1, &[0; 1_690_000]);
        // Each waiting Interest looked at for each publication, and each item for each that is
        // dropped: more than ten seconds.
        assert!(started.elapsed().as_millis() < 2000, "{:?}", started.elapsed());
        assert!(gateway.items.len() < 200 && gateway.by_arrival.len() == gateway.items.len());
        gateway.tick(at(60_000_000));
        assert!(gateway.waiting.is_empty() && gateway.waiting_count == 0);
        assert_eq!(gateway.counters().expired, WAITING_MAX as u64);
    }
}
