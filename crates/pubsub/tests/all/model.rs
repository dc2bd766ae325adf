//! The rendezvous function against a naive model: sets of full identifiers and nothing else.
//!
//! The model finds who publishes and subscribes to an item by looking at everything. After each
//! request, the memberships that a receiver builds from the increments, and those that
//! `membership` returns, are compared with it; so are the codes of replies.

use crate::common::{client, code, republish, request};
use nw_pubsub::names::{matches, parse_name, parse_pattern};
use nw_pubsub::rendezvous::{ItemKey, Publisher};
use nw_pubsub::{Effect, Rendezvous, RendezvousLimits, Request, ReturnCode, Timestamp};
use nw_wire::publication::{Id, Label, Operation, SubscriptionScope};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const NAMES: [&str; 3] = ["a", "b", "c"];
const CLIENTS: u64 = 4;

/// Vertices by number; every relation is a set that is searched in full.
#[derive(Default)]
struct Model {
    next: u32,
    is_item: BTreeMap<u32, bool>,
    /// (parent or `None` for roots, label, vertex)
    edges: BTreeSet<(Option<u32>, Label, u32)>,
    /// (vertex, parent, client)
    publishers: BTreeSet<(u32, Option<u32>, Label)>,
    subscribers: BTreeSet<(u32, Option<u32>, Label)>,
    patterns: BTreeSet<(Label, Id, SubscriptionScope)>,
}

impl Model {
    fn child(&self, parent: Option<u32>, label: Label) -> Option<u32> {
        self.edges.iter().find(|(p, l, _)| (*p, *l) == (parent, label)).map(|(.., v)| *v)
    }

    fn find(&self, id: &Id) -> Option<u32> {
        let mut at = None;
        for label in id.labels() {
            at = Some(self.child(at, *label)?);
        }
        at
    }

    fn parents(&self, vertex: u32) -> Vec<Option<u32>> {
        self.edges.iter().filter(|(.., v)| *v == vertex).map(|(p, ..)| *p).collect()
    }

    fn children(&self, vertex: u32) -> Vec<u32> {
        self.edges.iter().filter(|(p, ..)| *p == Some(vertex)).map(|(.., v)| *v).collect()
    }

    fn ids(&self, vertex: u32) -> BTreeSet<Id> {
        let above = |(parent, label): (Option<u32>, Label)| -> Vec<Id> {
            match parent {
                None => vec![Id::new(vec![label])],
                Some(parent) => self.ids(parent).iter().map(|id| id.child(label)).collect(),
            }
        };
        let edges = self.edges.iter().filter(|(.., v)| *v == vertex);
        edges.flat_map(|(parent, label, _)| above((*parent, *label))).collect()
    }

    fn is_below(&self, vertex: u32, above: u32) -> bool {
        vertex == above
            || self.parents(vertex).into_iter().flatten().any(|p| self.is_below(p, above))
    }

    fn publishers_of(&self, item: u32) -> BTreeSet<Label> {
        self.publishers.iter().filter(|(v, ..)| *v == item).map(|(.., client)| *client).collect()
    }

    fn subscribers_of(&self, item: u32) -> BTreeSet<Label> {
        let mut covering = self.parents(item);
        covering.push(Some(item));
        let direct = self.subscribers.iter().filter(|(v, ..)| covering.contains(&Some(*v)));
        let ids = self.ids(item);
        let matching = self
            .patterns
            .iter()
            .filter(|(_, pattern, covered)| ids.iter().any(|id| matches(pattern, *covered, id)));
        direct.map(|(.., client)| *client).chain(matching.map(|(client, ..)| *client)).collect()
    }

    fn published_items(&self) -> Memberships {
        let items = self.is_item.iter().filter(|(_, is_item)| **is_item).map(|(v, _)| *v);
        items
            .filter(|item| !self.publishers_of(*item).is_empty())
            .map(|item| (self.ids(item), (self.publishers_of(item), self.subscribers_of(item))))
            .collect()
    }

    fn create(&mut self, parent: Option<u32>, label: Label, is_item: bool) -> u32 {
        self.next += 1;
        self.is_item.insert(self.next, is_item);
        self.edges.insert((parent, label, self.next));
        self.next
    }

    /// Removes edges of vertices that are empty and unused there, until there are none.
    fn collapse(&mut self, touched: u32) {
        let mut pending = vec![touched];
        while let Some(vertex) = pending.pop() {
            for parent in self.parents(vertex) {
                let members = self.publishers.iter().chain(&self.subscribers);
                let is_used = members.clone().any(|(v, p, _)| (*v, *p) == (vertex, parent));
                if !is_used && self.children(vertex).is_empty() {
                    self.edges.retain(|(p, _, v)| (*p, *v) != (parent, vertex));
                    pending.extend(parent);
                }
            }
            if self.parents(vertex).is_empty() {
                self.is_item.remove(&vertex);
            }
        }
    }

    /// Removes one edge only, as a request names one parent.
    fn collapse_edge(&mut self, vertex: u32, parent: Option<u32>) {
        let members = self.publishers.iter().chain(&self.subscribers);
        let is_used = members.clone().any(|(v, p, _)| (*v, *p) == (vertex, parent));
        if is_used || !self.children(vertex).is_empty() {
            return;
        }
        self.edges.retain(|(p, _, v)| (*p, *v) != (parent, vertex));
        if self.parents(vertex).is_empty() {
            self.is_item.remove(&vertex);
        }
        if let Some(parent) = parent {
            self.collapse(parent);
        }
    }

    fn execute(&mut self, request: &Request) -> ReturnCode {
        let scope =
            SubscriptionScope { wildcards: request.wildcards, subtree: request.flags.0 & 1 != 0 };
        let client = request.client;
        let full = request.prefix.join(&request.id);
        if !scope.is_exact() {
            let key = (client, full, scope);
            return match request.operation {
                Operation::SubscribeScope | Operation::SubscribeItem => {
                    if self.patterns.insert(key) { ReturnCode::Success } else { ReturnCode::Exists }
                }
                _ if self.patterns.remove(&key) => ReturnCode::Success,
                _ => ReturnCode::NotMember,
            };
        }
        let of_item = request.operation as u8 % 2 == 1;
        let adds = matches!(request.operation as u8 / 2, 0 | 2);
        if of_item && adds && request.prefix.is_empty() {
            return ReturnCode::WrongIds;
        }
        let parent = match request.prefix.is_empty() {
            true => Some(None),
            false => self.find(&request.prefix).filter(|p| !self.is_item[p]).map(Some),
        };
        match request.operation as u8 / 2 {
            0 | 2 => self.add(request, parent, of_item),
            _ => self.end(request, parent, of_item),
        }
    }

    fn add(&mut self, request: &Request, parent: Option<Option<u32>>, of_item: bool) -> ReturnCode {
        let label = request.id.last().expect("a label");
        let source = (request.id.len() > 1).then(|| self.find(&request.id));
        let existing = parent.and_then(|parent| self.child(parent, label));
        let conflict = match of_item {
            true => ReturnCode::ScopeWithSameId,
            false => ReturnCode::ItemWithSameId,
        };
        let Some(parent) = parent else { return ReturnCode::ParentMissing };
        if existing.is_some_and(|vertex| self.is_item[&vertex] != of_item) {
            return conflict;
        }
        let source = match source {
            Some(Some(source)) if self.is_item[&source] == of_item => Some(source),
            Some(_) if of_item => return ReturnCode::ItemMissing,
            Some(_) => return ReturnCode::ScopeMissing,
            None => None,
        };
        let vertex = match (existing, source) {
            (Some(existing), _) => existing,
            (None, Some(source)) => {
                if parent.is_some_and(|parent| self.is_below(parent, source)) {
                    return ReturnCode::Cycle;
                }
                self.edges.insert((parent, label, source));
                source
            }
            (None, None) => self.create(parent, label, of_item),
        };
        let set = match request.operation as u8 / 2 {
            0 => &mut self.publishers,
            _ => &mut self.subscribers,
        };
        match set.insert((vertex, parent, request.client)) {
            true => ReturnCode::Success,
            false => ReturnCode::Exists,
        }
    }

    fn end(&mut self, request: &Request, parent: Option<Option<u32>>, of_item: bool) -> ReturnCode {
        let label = request.id.last().expect("a label");
        let vertex = parent.and_then(|parent| self.child(parent, label));
        let vertex = vertex.filter(|vertex| self.is_item[vertex] == of_item);
        let (Some(vertex), Some(parent)) = (vertex, parent) else {
            return if of_item { ReturnCode::ItemMissing } else { ReturnCode::ScopeMissing };
        };
        let publishes = request.operation as u8 / 2 == 1;
        let set = if publishes { &mut self.publishers } else { &mut self.subscribers };
        if !set.contains(&(vertex, parent, request.client)) {
            return ReturnCode::NotMember;
        }
        if publishes && !of_item {
            for item in self.children(vertex) {
                let is_own = self.publishers.remove(&(item, Some(vertex), request.client));
                if self.is_item[&item] && is_own {
                    self.collapse_edge(item, Some(vertex));
                } else if is_own {
                    self.publishers.insert((item, Some(vertex), request.client));
                }
            }
        }
        let set = if publishes { &mut self.publishers } else { &mut self.subscribers };
        set.remove(&(vertex, parent, request.client));
        self.collapse_edge(vertex, parent);
        ReturnCode::Success
    }
}

/// Memberships built from increments only.
#[derive(Default)]
struct Receiver {
    items: BTreeMap<ItemKey, ReceivedItem>,
}

#[derive(Default)]
struct ReceivedItem {
    ids: BTreeSet<Id>,
    publishers: BTreeSet<Publisher>,
    subscribers: BTreeSet<Label>,
    version: u32,
}

/// Publishers and subscribers by the identifiers of the item.
type Memberships = BTreeMap<BTreeSet<Id>, (BTreeSet<Label>, BTreeSet<Label>)>;

impl Receiver {
    fn apply(&mut self, effects: &[Effect]) {
        for effect in effects {
            let Effect::Membership(change) = effect else { continue };
            let item = self.items.entry(change.item).or_default();
            assert!(
                item.version == 0 || item.version + 1 == change.version,
                "no version is left out"
            );
            item.version = change.version;
            if !change.ids.is_empty() {
                item.ids = change.ids.iter().cloned().collect();
            }
            for publisher in &change.publishers_joined {
                assert!(item.publishers.insert(*publisher), "{publisher:?} joins twice");
            }
            for label in &change.publishers_left {
                let before = item.publishers.len();
                item.publishers.retain(|publisher| publisher.client != *label);
                assert_eq!(item.publishers.len() + 1, before, "{label} leaves once");
            }
            for label in &change.subscribers_joined {
                assert!(item.subscribers.insert(*label), "{label} joins twice");
            }
            for label in &change.subscribers_left {
                assert!(item.subscribers.remove(label), "{label} leaves once");
            }
            assert_eq!(change.ended, item.publishers.is_empty());
            if change.ended {
                self.items.remove(&change.item);
            }
        }
    }

    fn published_items(&self) -> Memberships {
        let clients =
            |publishers: &BTreeSet<Publisher>| publishers.iter().map(|p| p.client).collect();
        self.items
            .values()
            .map(|item| (item.ids.clone(), (clients(&item.publishers), item.subscribers.clone())))
            .collect()
    }
}

fn name() -> impl Strategy<Value = String> {
    prop::collection::vec(0..NAMES.len(), 1..4)
        .prop_map(|parts| parts.iter().map(|part| format!("/{}", NAMES[*part])).collect())
}

fn pattern() -> impl Strategy<Value = String> {
    (name(), 0..4_u8).prop_map(|(name, kind)| match kind {
        0 => format!("{name}/*"),
        1 => format!("/*{name}"),
        2 => format!("{name}/**"),
        _ => format!("/*{name}/**"),
    })
}

#[derive(Clone, Debug)]
enum Step {
    Request(Request),
    /// Ends what an earlier request began, whether it succeeded or not.
    End(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![3 => any_request().prop_map(Step::Request), 1 => any::<usize>().prop_map(Step::End)]
}

impl Step {
    fn request(&self, earlier: &[Request]) -> Option<Request> {
        let at = match self {
            Step::Request(request) => return Some(request.clone()),
            Step::End(at) => at % earlier.len().max(1),
        };
        let mut request = earlier.get(at)?.clone();
        let number = request.operation as u8;
        request.operation = Operation::from_number(number | 2)?;
        request.id = Id::new(request.id.last().into_iter().collect());
        Some(request)
    }
}

/// Requests, with those that build more likely than those that end.
fn any_request() -> impl Strategy<Value = Request> {
    let operation = |number: u8| Operation::from_number(number).expect("below 8");
    let number = prop_oneof![4 => Just(0_u8), 4 => Just(1), 2 => Just(4), 3 => Just(5),
        1 => Just(2), 1 => Just(3), 1 => Just(6), 1 => Just(7)];
    prop_oneof![
        12 => (number, 0..CLIENTS, name())
            .prop_map(move |(number, from, name)| request(operation(number), from, &name)),
        3 => (0..2_u8, 0..CLIENTS, name(), name()).prop_map(move |(number, from, name, under)| {
            republish(operation(number), from, &name, &under)
        }),
        2 => (0..CLIENTS, pattern(), any::<bool>()).prop_map(move |(from, pattern, ends)| {
            request(operation(if ends { 7 } else { 5 }), from, &pattern)
        }),
    ]
}

fn check(rendezvous: &Rendezvous, receiver: &Receiver, model: &Model) -> Result<(), TestCaseError> {
    let expected = model.published_items();
    prop_assert_eq!(&receiver.published_items(), &expected);
    let mut whole = BTreeMap::new();
    for item in rendezvous.published_items() {
        let membership = rendezvous.membership(item).expect("it has a publisher");
        let publishers = membership.publishers_joined.iter().map(|p| p.client).collect();
        let subscribers: BTreeSet<Label> = membership.subscribers_joined.into_iter().collect();
        whole.insert(membership.ids.into_iter().collect(), (publishers, subscribers));
    }
    prop_assert_eq!(&whole, &expected);
    let scopes = model.is_item.values().filter(|is_item| !**is_item).count();
    let size = rendezvous.size();
    prop_assert_eq!((size.scopes, size.items), (scopes, model.is_item.len() - scopes));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn memberships_agree_with_the_model(steps in prop::collection::vec(step(), 1..200)) {
        let mut rendezvous = Rendezvous::new(RendezvousLimits::default());
        let (mut model, mut receiver) = (Model::default(), Receiver::default());
        let mut requests: Vec<Request> = Vec::new();
        for step in &steps {
            requests.extend(step.request(&requests));
            let Some(request) = requests.last() else { continue };
            let expected = model.execute(request);
            let effects = rendezvous.handle(request, Timestamp::START);
            prop_assert_eq!(code(&effects), expected, "{:?}", request);
            if expected != ReturnCode::Success {
                prop_assert_eq!(effects.len(), 1, "a refused request has no effect");
            }
            receiver.apply(&effects);
            check(&rendezvous, &receiver, &model)?;
        }
        // All clients end: nothing is left.
        for from in 0..CLIENTS {
            receiver.apply(&rendezvous.remove_client(client(from)));
        }
        prop_assert!(receiver.items.is_empty());
        prop_assert_eq!(rendezvous.size(), Default::default());
        prop_assert_eq!(rendezvous.pattern_count(), 0);
    }
}

#[test]
fn names_of_the_model_are_those_of_the_requests() {
    assert_eq!(parse_name("/a/b").map(|id| id.len()), Ok(2));
    assert!(parse_pattern("/*/a/**").is_ok_and(|(id, covered)| id.len() == 2 && covered.subtree));
}
