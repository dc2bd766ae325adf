//! Tests of the RIB: against a model that computes the whole FIB from scratch, and at scale.

use super::{DirectNextHop, FibChange, IMMEDIATE_MAX, Rib, Route};
use nw_api::management::flags::{CAPTURE, CHILD_INHERIT};
use nw_name::{Name, NameRef};
use nw_tables::fib::{NextHop, StrategyId};
use nw_tables::{FaceId, Timestamp};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const NEXT_HOPS_MAX: usize = 3;

type Prefix = (Vec<NextHop>, StrategyId);
type FakeFib = BTreeMap<Name, Prefix>;

fn apply(
    fib: &mut FakeFib,
    changes: &[FibChange<'_>],
    prefixes_max: usize,
) -> Result<(), (usize, &'static str)> {
    for (index, change) in changes.iter().enumerate() {
        match change {
            FibChange::Set { name, next_hops, strategy } => {
                let name = name.to_name();
                if !fib.contains_key(&name) && fib.len() >= prefixes_max {
                    return Err((index, "full"));
                }
                assert!(next_hops.is_sorted_by_key(|hop| (hop.cost, hop.face)));
                let before = fib.insert(name, (next_hops.to_vec(), *strategy));
                assert_ne!(
                    before,
                    Some((next_hops.to_vec(), *strategy)),
                    "the change has no effect"
                );
            }
            FibChange::Remove { name } => {
                assert!(
                    fib.remove(name.as_bytes()).is_some(),
                    "removed a prefix that did not exist"
                )
            }
        }
    }
    Ok(())
}

fn flush(rib: &mut Rib, fib: &mut FakeFib, prefixes_max: usize) -> bool {
    rib.flush(|changes| apply(fib, changes, prefixes_max)).is_ok()
}

fn rib() -> Rib {
    Rib::new(NEXT_HOPS_MAX, 1_000_000, StrategyId(0), Name::new())
}

/// Completes all work in parts of `names_max` names and returns the number of parts.
fn complete_work(rib: &mut Rib, fib: &mut FakeFib, names_max: usize) -> usize {
    let mut parts = 0;
    while rib.has_work() {
        rib.work(names_max);
        assert!(flush(rib, fib, usize::MAX));
        parts += 1;
    }
    assert_eq!(rib.applied_seq(), rib.issued_seq());
    parts
}

fn route(cost: u64, flags: u64) -> Route {
    Route { cost, flags, expires: Timestamp::NEVER }
}

#[derive(Clone, Debug, Default)]
struct Model {
    routes: BTreeMap<(Name, FaceId, u64), Route>,
    direct: BTreeMap<(Name, FaceId), DirectNextHop>,
    strategies: BTreeMap<Name, StrategyId>,
}

impl Model {
    fn names(&self) -> BTreeSet<Name> {
        let routes = self.routes.keys().map(|(name, ..)| name);
        let direct = self.direct.keys().map(|(name, _)| name);
        routes.chain(direct).chain(self.strategies.keys()).cloned().collect()
    }

    fn routes_of(&self, name: &Name) -> Vec<(FaceId, Route)> {
        self.routes
            .iter()
            .filter(|((n, ..), _)| n == name)
            .map(|((_, face, _), route)| (*face, *route))
            .collect()
    }

    fn shorter_prefixes(name: &Name) -> Vec<Name> {
        (0..name.as_ref().len()).rev().map(|len| name.as_ref().prefix(len).to_name()).collect()
    }

    fn own_next_hops(&self, name: &Name) -> BTreeMap<FaceId, u32> {
        let mut hops = BTreeMap::<FaceId, u32>::new();
        for (face, route) in self.routes_of(name) {
            let cost = hops.entry(face).or_insert(u32::MAX);
            *cost = (*cost).min(route.cost as u32);
        }
        if !self.routes_of(name).iter().any(|(_, route)| route.flags & CAPTURE != 0)
            && !hops.is_empty()
        {
            for shorter in Self::shorter_prefixes(name) {
                let mut level = BTreeMap::<FaceId, u32>::new();
                for (face, route) in self.routes_of(&shorter) {
                    if route.flags & CHILD_INHERIT != 0 {
                        let cost = level.entry(face).or_insert(u32::MAX);
                        *cost = (*cost).min(route.cost as u32);
                    }
                }
                for (face, cost) in level {
                    hops.entry(face).or_insert(cost);
                }
                if self.routes_of(&shorter).iter().any(|(_, route)| route.flags & CAPTURE != 0) {
                    break;
                }
            }
        }
        for ((_, face), direct) in self.direct.iter().filter(|((n, _), _)| n == name) {
            match direct {
                DirectNextHop::Cost(cost) => hops.insert(*face, *cost),
                DirectNextHop::Unlisted => hops.insert(*face, 0),
                DirectNextHop::Suppressed => hops.remove(face),
            };
        }
        hops
    }

    fn fib(&self) -> FakeFib {
        let mut fib = FakeFib::new();
        for name in self.names() {
            let costs = self.own_next_hops(&name);
            let mut hops: Vec<_> =
                costs.into_iter().map(|(face, cost)| NextHop { face, cost }).collect();
            hops.sort_by_key(|hop| (hop.cost, hop.face));
            hops.truncate(NEXT_HOPS_MAX);
            if hops.is_empty() {
                if !self.strategies.contains_key(&name) {
                    continue;
                }
                let hidden = Self::shorter_prefixes(&name)
                    .iter()
                    .find_map(|shorter| fib.get(shorter).map(|(hops, _)| hops.clone()));
                hops = hidden.unwrap_or_default();
            }
            let mut names = vec![name.clone()];
            names.extend(Self::shorter_prefixes(&name));
            let strategy = names.iter().find_map(|name| self.strategies.get(name)).unwrap();
            fib.insert(name, (hops, *strategy));
        }
        fib
    }

    fn remove_suppressions(&mut self, name: &Name) {
        if self.routes_of(name).is_empty() {
            self.direct.retain(|(n, _), direct| n != name || *direct != DirectNextHop::Suppressed);
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Register { name: Name, face: u64, origin: u64, cost: u64, flags: u64, expires_ms: Option<u64> },
    Unregister { name: Name, face: u64, origin: u64 },
    SetDirect { name: Name, face: u64, cost: Option<u32> },
    RemoveNextHop { name: Name, face: u64 },
    RemoveFace { face: u64 },
    SetStrategy { name: Name, strategy: u8 },
    UnsetStrategy { name: Name },
    Expire { now_ms: u64 },
}

fn names() -> impl Strategy<Value = Name> {
    proptest::collection::vec(0u8..2, 0..5)
        .prop_map(|parts| parts.iter().fold(Name::new(), |n, p| n.with_generic([b'a' + p])))
}

fn steps() -> impl Strategy<Value = Step> {
    let register =
        (names(), 256u64..261, 0u64..2, 0u64..4, 0u64..4, proptest::option::of(0u64..10));
    prop_oneof![
        6 => register.prop_map(|(name, face, origin, cost, flags, expires_ms)| {
            Step::Register { name, face, origin, cost, flags, expires_ms }
        }),
        4 => (names(), 256u64..261, 0u64..2)
            .prop_map(|(name, face, origin)| Step::Unregister { name, face, origin }),
        1 => (names(), 256u64..261, proptest::option::of(0u32..4))
            .prop_map(|(name, face, cost)| Step::SetDirect { name, face, cost }),
        1 => (names(), 256u64..261).prop_map(|(name, face)| Step::RemoveNextHop { name, face }),
        1 => (256u64..261).prop_map(|face| Step::RemoveFace { face }),
        2 => (names(), 0u8..3).prop_map(|(name, strategy)| Step::SetStrategy { name, strategy }),
        1 => names().prop_map(|name| Step::UnsetStrategy { name }),
        1 => (0u64..10).prop_map(|now_ms| Step::Expire { now_ms }),
    ]
}

fn apply_step(step: Step, rib: &mut Rib, model: &mut Model) {
    let id = |face| FaceId::from_number(face).unwrap();
    match step {
        Step::Register { name, face, origin, cost, flags, expires_ms } => {
            let expires = expires_ms.map_or(Timestamp::NEVER, Timestamp::from_millis);
            let route = Route { cost, flags, expires };
            let before = rib.register(name.as_ref(), id(face), origin, route).unwrap();
            if model.direct.get(&(name.clone(), id(face))) == Some(&DirectNextHop::Suppressed) {
                model.direct.remove(&(name.clone(), id(face)));
            }
            assert_eq!(before, model.routes.insert((name, id(face), origin), route));
        }
        Step::Unregister { name, face, origin } => {
            let before = rib.unregister(name.as_ref(), id(face), origin);
            assert_eq!(before, model.routes.remove(&(name.clone(), id(face), origin)));
            model.remove_suppressions(&name);
        }
        Step::SetDirect { name, face, cost } => {
            let direct = cost.map(|cost| {
                if cost == 0 { DirectNextHop::Unlisted } else { DirectNextHop::Cost(cost) }
            });
            rib.set_direct(name.as_ref(), id(face), direct).unwrap();
            match direct {
                Some(direct) => model.direct.insert((name, id(face)), direct),
                None => model.direct.remove(&(name, id(face))),
            };
        }
        Step::RemoveNextHop { name, face } => {
            // The model suppresses only next hops in effect, which are the cheapest few.
            let in_effect = model.own_next_hops(&name).contains_key(&id(face))
                && model
                    .fib()
                    .get(&name)
                    .is_some_and(|(hops, _)| hops.iter().any(|hop| hop.face == id(face)));
            rib.remove_next_hop(name.as_ref(), id(face));
            if in_effect {
                if model.routes_of(&name).is_empty() {
                    model.direct.remove(&(name, id(face)));
                } else {
                    model.direct.insert((name, id(face)), DirectNextHop::Suppressed);
                }
            }
        }
        Step::RemoveFace { face } => {
            rib.remove_face(id(face));
            model.routes.retain(|(_, f, _), _| *f != id(face));
            model.direct.retain(|(_, f), _| *f != id(face));
            model.names().iter().for_each(|name| model.remove_suppressions(name));
        }
        Step::SetStrategy { name, strategy } => {
            rib.set_strategy(name.as_ref(), StrategyId(strategy), Name::new());
            model.strategies.insert(name, StrategyId(strategy));
        }
        Step::UnsetStrategy { name } => {
            rib.unset_strategy(name.as_ref());
            if !name.as_ref().is_empty() {
                model.strategies.remove(&name);
            }
        }
        Step::Expire { now_ms } => {
            let now = Timestamp::from_millis(now_ms);
            while rib.expire(now, 2) {}
            model.routes.retain(|_, route| route.expires > now);
            model.names().iter().for_each(|name| model.remove_suppressions(name));
        }
    }
}

/// Counts the listed prefixes one by one.
fn count_listed(rib: &Rib) -> usize {
    let mut count = 0;
    rib.visit_next_hops(None, usize::MAX, |_, _| count += 1);
    count
}

#[test]
fn register_while_face_is_removed_sees_name_without_that_face() {
    let name = |uri: &str| uri.parse::<Name>().unwrap();
    let register = |uri: &str, face, flags| Step::Register {
        name: name(uri),
        face,
        origin: 0,
        cost: 0,
        flags,
        expires_ms: None,
    };
    let steps = [
        register("/", 257, 0),
        register("/a", 257, 0),
        register("/b", 257, 0),
        register("/", 258, 1),
        register("/a/b", 257, 0),
        Step::RemoveNextHop { name: name("/a/b"), face: 258 },
        Step::RemoveFace { face: 257 },
        register("/a/b", 259, 0),
    ];
    let mut model = Model { strategies: [(Name::new(), StrategyId(0))].into(), ..Model::default() };
    let (mut rib, mut fib) = (rib(), FakeFib::new());
    assert!(flush(&mut rib, &mut fib, usize::MAX));
    rib.immediate_max = 0;
    for step in steps {
        if matches!(step, Step::RemoveNextHop { .. }) {
            complete_work(&mut rib, &mut fib, 1);
        }
        apply_step(step, &mut rib, &mut model);
        assert!(flush(&mut rib, &mut fib, usize::MAX));
    }
    complete_work(&mut rib, &mut fib, 1);
    assert_eq!(fib, model.fib());
}

proptest! {
    #[test]
    fn rib_any_steps_match_model(steps in proptest::collection::vec(steps(), 0..60)) {
        let mut model = Model { strategies: [(Name::new(), StrategyId(0))].into(), ..Model::default() };
        let (mut rib, mut fib) = (rib(), FakeFib::new());
        rib.immediate_max = usize::MAX;
        for step in steps {
            apply_step(step, &mut rib, &mut model);
            prop_assert!(flush(&mut rib, &mut fib, usize::MAX));
            prop_assert_eq!(&fib, &model.fib());
            prop_assert_eq!(rib.listed_len(), count_listed(&rib));
            prop_assert_eq!(rib.routes_len(), model.routes.len());
        }
        let mut routed: Vec<Name> = Vec::new();
        let mut after = None;
        loop {
            after = rib.visit_routes(after.as_ref().map(Name::as_ref), 2, |name, _| routed.push(name.to_name()));
            if after.is_none() {
                break;
            }
        }
        let expected: BTreeSet<Name> = model.routes.keys().map(|(name, ..)| name.clone()).collect();
        prop_assert_eq!(routed, expected.into_iter().collect::<Vec<_>>());
    }

    /// Changes that are applied in parts, with other commands in between, have the same result.
    #[test]
    fn rib_any_steps_in_parts_match_model(
        steps in proptest::collection::vec((steps(), 0usize..4), 0..60),
        immediate_max in 0usize..3,
        part in 1usize..4,
    ) {
        let mut model = Model { strategies: [(Name::new(), StrategyId(0))].into(), ..Model::default() };
        let (mut rib, mut fib) = (rib(), FakeFib::new());
        prop_assert!(flush(&mut rib, &mut fib, usize::MAX));
        rib.immediate_max = immediate_max;
        for (step, parts) in steps {
            // Face ids are not reused, and RemoveNextHop refers to the next hops in effect.
            let face_used = match &step {
                Step::Register { face, .. }
                | Step::Unregister { face, .. }
                | Step::SetDirect { face, .. } => Some(*face),
                Step::RemoveNextHop { .. } => {
                    complete_work(&mut rib, &mut fib, part);
                    None
                }
                _ => None,
            };
            while face_used.is_some_and(|face| {
                rib.removed_faces.contains(&FaceId::from_number(face).unwrap())
            }) {
                rib.work(part);
                prop_assert!(flush(&mut rib, &mut fib, usize::MAX));
            }
            apply_step(step, &mut rib, &mut model);
            prop_assert!(flush(&mut rib, &mut fib, usize::MAX));
            let (issued_seq, no_removals) = (rib.issued_seq(), rib.removed_faces.is_empty());
            for _ in 0..parts {
                rib.work(part);
                prop_assert!(flush(&mut rib, &mut fib, usize::MAX));
            }
            if no_removals && rib.applied_seq() >= issued_seq {
                prop_assert_eq!(&fib, &model.fib());
                prop_assert_eq!(rib.listed_len(), count_listed(&rib));
            }
        }
        complete_work(&mut rib, &mut fib, part);
        prop_assert_eq!(&fib, &model.fib());
        prop_assert_eq!(rib.listed_len(), count_listed(&rib));
        prop_assert_eq!(rib.routes_len(), model.routes.len());
    }

    /// When a full FIB refuses a change, reverting it leaves everything as before.
    #[test]
    fn rib_change_refused_by_fib_is_reverted(
        steps in proptest::collection::vec(steps(), 0..60),
        prefixes_max in 1usize..6,
    ) {
        let mut model = Model { strategies: [(Name::new(), StrategyId(0))].into(), ..Model::default() };
        let (mut rib, mut fib) = (rib(), FakeFib::new());
        rib.immediate_max = usize::MAX;
        prop_assert!(flush(&mut rib, &mut fib, prefixes_max));
        for step in steps {
            let Step::Register { name, face, origin, cost, flags, .. } = step else {
                if let Step::Unregister { .. } | Step::RemoveFace { .. } = step {
                    apply_step(step, &mut rib, &mut model);
                    prop_assert!(flush(&mut rib, &mut fib, prefixes_max));
                }
                continue;
            };
            let id = FaceId::from_number(face).unwrap();
            let before = rib.register(name.as_ref(), id, origin, route(cost, flags)).unwrap();
            if flush(&mut rib, &mut fib, prefixes_max) {
                model.routes.insert((name, id, origin), route(cost, flags));
            } else {
                match before {
                    Some(before) => drop(rib.register(name.as_ref(), id, origin, before).unwrap()),
                    None => drop(rib.unregister(name.as_ref(), id, origin)),
                }
                prop_assert!(flush(&mut rib, &mut fib, prefixes_max));
            }
            prop_assert_eq!(&fib, &model.fib());
            prop_assert_eq!(rib.listed_len(), count_listed(&rib));
        }
    }
}

fn constant_name(uri: &str) -> Name {
    uri.parse().unwrap()
}

#[test]
fn rib_registering_again_sends_no_fib_change() {
    let (mut rib, mut fib) = (rib(), FakeFib::new());
    let face = FaceId::from_number(300).unwrap();
    rib.register(constant_name("/a").as_ref(), face, 0, route(5, CHILD_INHERIT)).unwrap();
    assert!(flush(&mut rib, &mut fib, 10));
    let later = Route { expires: Timestamp::from_millis(9), ..route(5, CHILD_INHERIT) };
    rib.register(constant_name("/a").as_ref(), face, 0, later).unwrap();
    rib.flush::<()>(|_| panic!("no change expected")).unwrap();
    assert_eq!(rib.next_expiry(), Some(Timestamp::from_millis(9)));
}

#[test]
fn rib_at_limit_refuses_new_routes_but_replaces() {
    let mut rib = Rib::new(4, 2, StrategyId(0), Name::new());
    let face = FaceId::from_number(300).unwrap();
    for origin in 0..2 {
        rib.register(NameRef::ROOT, face, origin, route(0, 1)).unwrap();
    }
    assert!(rib.register(NameRef::ROOT, face, 2, route(0, 1)).is_err());
    assert!(rib.set_direct(NameRef::ROOT, face, Some(DirectNextHop::Cost(1))).is_err());
    assert!(
        rib.register(NameRef::ROOT, face, 1, route(7, 1)).is_ok(),
        "an existing route can be replaced"
    );
    rib.unregister(NameRef::ROOT, face, 1);
    assert!(rib.register(NameRef::ROOT, face, 2, route(0, 1)).is_ok());
}

/// Ten thousand names under one prefix, registered and unregistered while the prefix itself is
/// added and removed; then ten thousand faces for one name.
#[test]
fn rib_ten_thousand_names_and_faces_match_fib() {
    let (mut rib, mut fib) = (rib(), FakeFib::new());
    let face = |n: u64| FaceId::from_number(256 + n).unwrap();
    let count = 10_000u64;
    let name = |n: u64| constant_name("/flood").with_generic(format!("{n}"));
    for n in 0..count {
        rib.register(name(n).as_ref(), face(n % 7), 0, route(0, CHILD_INHERIT)).unwrap();
        assert!(flush(&mut rib, &mut fib, usize::MAX));
    }
    assert_eq!(fib.len() as u64, count + 1);
    rib.register(constant_name("/flood").as_ref(), face(100), 0, route(9, CHILD_INHERIT)).unwrap();
    assert!(flush(&mut rib, &mut fib, usize::MAX));
    assert!(rib.applied_seq() < rib.issued_seq(), "ten thousand names take several parts");
    // Changes elsewhere do not wait for it.
    rib.register(constant_name("/other").as_ref(), face(1), 0, route(9, CHILD_INHERIT)).unwrap();
    assert!(complete_work(&mut rib, &mut fib, 100) >= 99);
    assert!(fib[&name(5)].0.iter().any(|hop| hop.face == face(100)));
    rib.remove_face(face(100));
    for n in (0..count).rev() {
        rib.unregister(name(n).as_ref(), face(n % 7), 0);
        assert!(flush(&mut rib, &mut fib, usize::MAX));
    }
    for n in 0..count {
        rib.register(constant_name("/one").as_ref(), face(n), 0, route(n, CHILD_INHERIT)).unwrap();
        assert!(flush(&mut rib, &mut fib, usize::MAX));
    }
    assert_eq!(
        fib[&constant_name("/one")].0.iter().map(|hop| hop.cost).collect::<Vec<_>>(),
        [0, 1, 2]
    );
    (0..count).for_each(|n| rib.remove_face(face(n)));
    assert!(flush(&mut rib, &mut fib, usize::MAX));
    complete_work(&mut rib, &mut fib, 100);
    rib.unregister(constant_name("/other").as_ref(), face(1), 0);
    assert!(flush(&mut rib, &mut fib, usize::MAX));
    assert_eq!((fib.len(), rib.routes_len(), rib.prefixes_len()), (1, 0, 1));
}

/// A closed face with routes that many names below inherit: the work per call is bounded.
#[test]
fn rib_face_removal_bounds_names_per_call() {
    const PART: usize = 8;
    let (mut rib, mut fib) = (rib(), FakeFib::new());
    let face = |n: u64| FaceId::from_number(256 + n).unwrap();
    for n in 0..200 {
        let parent = constant_name("/a").with_generic(format!("{n}"));
        rib.register(parent.as_ref(), face(0), 0, route(1, CHILD_INHERIT)).unwrap();
        for child in 0..50 {
            let child = parent.clone().with_generic(format!("{child}"));
            rib.register(child.as_ref(), face(1), 0, route(9, CHILD_INHERIT)).unwrap();
        }
    }
    assert!(flush(&mut rib, &mut fib, usize::MAX));
    complete_work(&mut rib, &mut fib, 100);
    assert_eq!(fib.len(), 1 + 200 * 51);
    let (mut changes_max, mut calls) = (0, 0);
    let mut count_and_flush = |rib: &mut Rib, fib: &mut FakeFib| {
        changes_max = changes_max.max(rib.changes.len());
        calls += 1;
        assert!(flush(rib, fib, usize::MAX));
    };
    rib.remove_face(face(0));
    count_and_flush(&mut rib, &mut fib);
    rib.register(NameRef::ROOT, face(2), 0, route(5, CHILD_INHERIT)).unwrap();
    count_and_flush(&mut rib, &mut fib);
    while rib.has_work() {
        rib.work(PART);
        count_and_flush(&mut rib, &mut fib);
    }
    assert!(changes_max <= IMMEDIATE_MAX + 1, "{changes_max} names were changed by one call");
    assert!(calls > 200 * 51 / PART, "all names were changed");
    assert!(fib.values().all(|(hops, _)| hops.iter().all(|hop| hop.face != face(0))));
    assert_eq!(fib.len(), 1 + 200 * 50);
}
