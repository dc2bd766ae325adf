//! The RIB against a naive model that computes the whole FIB from scratch, and at size.

use super::{AT_ONCE_MAX, ByHand, FibChange, Rib, Route};
use nw_api::management::flags::{CAPTURE, CHILD_INHERIT};
use nw_name::{Name, NameRef};
use nw_tables::fib::{NextHop, StrategyId};
use nw_tables::{FaceId, Instant};
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
                assert_ne!(before, Some((next_hops.to_vec(), *strategy)), "a change that changes nothing");
            }
            FibChange::Remove { name } => {
                assert!(fib.remove(name.as_bytes()).is_some(), "removed what was not there")
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

/// Does what changes have left to do, in parts; how many there were.
fn settle(rib: &mut Rib, fib: &mut FakeFib, names_max: usize) -> usize {
    let mut parts = 0;
    while rib.has_work() {
        rib.work(names_max);
        assert!(flush(rib, fib, usize::MAX));
        parts += 1;
    }
    assert_eq!(rib.settled(), rib.asked());
    parts
}

fn route(cost: u64, flags: u64) -> Route {
    Route { cost, flags, expires: Instant::NEVER }
}

#[derive(Clone, Debug, Default)]
struct Model {
    routes: BTreeMap<(Name, FaceId, u64), Route>,
    by_hand: BTreeMap<(Name, FaceId), ByHand>,
    strategies: BTreeMap<Name, StrategyId>,
}

impl Model {
    fn names(&self) -> BTreeSet<Name> {
        let routes = self.routes.keys().map(|(name, ..)| name);
        let by_hand = self.by_hand.keys().map(|(name, _)| name);
        routes.chain(by_hand).chain(self.strategies.keys()).cloned().collect()
    }

    fn routes_of(&self, name: &Name) -> Vec<(FaceId, Route)> {
        self.routes
            .iter()
            .filter(|((n, ..), _)| n == name)
            .map(|((_, face, _), route)| (*face, *route))
            .collect()
    }

    fn shorter(name: &Name) -> Vec<Name> {
        (0..name.as_ref().len()).rev().map(|len| name.as_ref().prefix(len).to_name()).collect()
    }

    fn own(&self, name: &Name) -> BTreeMap<FaceId, u32> {
        let mut hops = BTreeMap::<FaceId, u32>::new();
        for (face, route) in self.routes_of(name) {
            let cost = hops.entry(face).or_insert(u32::MAX);
            *cost = (*cost).min(route.cost as u32);
        }
        if !self.routes_of(name).iter().any(|(_, route)| route.flags & CAPTURE != 0) && !hops.is_empty() {
            for shorter in Self::shorter(name) {
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
        for ((_, face), by_hand) in self.by_hand.iter().filter(|((n, _), _)| n == name) {
            match by_hand {
                ByHand::Cost(cost) => hops.insert(*face, *cost),
                ByHand::Unlisted => hops.insert(*face, 0),
                ByHand::Without => hops.remove(face),
            };
        }
        hops
    }

    fn fib(&self) -> FakeFib {
        let mut fib = FakeFib::new();
        for name in self.names() {
            let own = self.own(&name);
            let mut hops: Vec<_> = own.into_iter().map(|(face, cost)| NextHop { face, cost }).collect();
            hops.sort_by_key(|hop| (hop.cost, hop.face));
            hops.truncate(NEXT_HOPS_MAX);
            if hops.is_empty() {
                if !self.strategies.contains_key(&name) {
                    continue;
                }
                let hidden = Self::shorter(&name)
                    .iter()
                    .find_map(|shorter| fib.get(shorter).map(|(hops, _)| hops.clone()));
                hops = hidden.unwrap_or_default();
            }
            let mut names = vec![name.clone()];
            names.extend(Self::shorter(&name));
            let strategy = names.iter().find_map(|name| self.strategies.get(name)).unwrap();
            fib.insert(name, (hops, *strategy));
        }
        fib
    }

    fn forget_marks(&mut self, name: &Name) {
        if self.routes_of(name).is_empty() {
            self.by_hand.retain(|(n, _), by_hand| n != name || *by_hand != ByHand::Without);
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Register { name: Name, face: u64, origin: u64, cost: u64, flags: u64, expires_ms: Option<u64> },
    Unregister { name: Name, face: u64, origin: u64 },
    ByHand { name: Name, face: u64, cost: Option<u32> },
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
    let register = (names(), 256u64..261, 0u64..2, 0u64..4, 0u64..4, proptest::option::of(0u64..10));
    prop_oneof![
        6 => register.prop_map(|(name, face, origin, cost, flags, expires_ms)| Step::Register { name, face, origin, cost, flags, expires_ms }),
        4 => (names(), 256u64..261, 0u64..2).prop_map(|(name, face, origin)| Step::Unregister { name, face, origin }),
        1 => (names(), 256u64..261, proptest::option::of(0u32..4)).prop_map(|(name, face, cost)| Step::ByHand { name, face, cost }),
        1 => (names(), 256u64..261).prop_map(|(name, face)| Step::RemoveNextHop { name, face }),
        1 => (256u64..261).prop_map(|face| Step::RemoveFace { face }),
        2 => (names(), 0u8..3).prop_map(|(name, strategy)| Step::SetStrategy { name, strategy }),
        1 => names().prop_map(|name| Step::UnsetStrategy { name }),
        1 => (0u64..10).prop_map(|now_ms| Step::Expire { now_ms }),
    ]
}

fn take(step: Step, rib: &mut Rib, model: &mut Model) {
    let id = |face| FaceId::from_number(face).unwrap();
    match step {
        Step::Register { name, face, origin, cost, flags, expires_ms } => {
            let expires = expires_ms.map_or(Instant::NEVER, Instant::from_millis);
            let route = Route { cost, flags, expires };
            let before = rib.register(name.as_ref(), id(face), origin, route).unwrap();
            if model.by_hand.get(&(name.clone(), id(face))) == Some(&ByHand::Without) {
                model.by_hand.remove(&(name.clone(), id(face)));
            }
            assert_eq!(before, model.routes.insert((name, id(face), origin), route));
        }
        Step::Unregister { name, face, origin } => {
            let before = rib.unregister(name.as_ref(), id(face), origin);
            assert_eq!(before, model.routes.remove(&(name.clone(), id(face), origin)));
            model.forget_marks(&name);
        }
        Step::ByHand { name, face, cost } => {
            let by_hand = cost.map(|cost| if cost == 0 { ByHand::Unlisted } else { ByHand::Cost(cost) });
            rib.set_by_hand(name.as_ref(), id(face), by_hand).unwrap();
            match by_hand {
                Some(by_hand) => model.by_hand.insert((name, id(face)), by_hand),
                None => model.by_hand.remove(&(name, id(face))),
            };
        }
        Step::RemoveNextHop { name, face } => {
            // The model marks only next hops that are in effect, as the cheapest few are.
            let in_effect = model.own(&name).contains_key(&id(face))
                && model
                    .fib()
                    .get(&name)
                    .is_some_and(|(hops, _)| hops.iter().any(|hop| hop.face == id(face)));
            rib.remove_next_hop(name.as_ref(), id(face));
            if in_effect {
                if model.routes_of(&name).is_empty() {
                    model.by_hand.remove(&(name, id(face)));
                } else {
                    model.by_hand.insert((name, id(face)), ByHand::Without);
                }
            }
        }
        Step::RemoveFace { face } => {
            rib.remove_face(id(face));
            model.routes.retain(|(_, f, _), _| *f != id(face));
            model.by_hand.retain(|(_, f), _| *f != id(face));
            model.names().iter().for_each(|name| model.forget_marks(name));
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
            let now = Instant::from_millis(now_ms);
            while rib.expire(now, 2) {}
            model.routes.retain(|_, route| route.expires > now);
            model.names().iter().for_each(|name| model.forget_marks(name));
        }
    }
}

/// Prefixes that are shown, counted one by one.
fn listed(rib: &Rib) -> usize {
    let mut count = 0;
    rib.next_hops_part(None, usize::MAX, |_, _| count += 1);
    count
}

proptest! {
    #[test]
    fn as_the_model(steps in proptest::collection::vec(steps(), 0..60)) {
        let mut model = Model { strategies: [(Name::new(), StrategyId(0))].into(), ..Model::default() };
        let (mut rib, mut fib) = (rib(), FakeFib::new());
        rib.at_once_max = usize::MAX;
        for step in steps {
            take(step, &mut rib, &mut model);
            prop_assert!(flush(&mut rib, &mut fib, usize::MAX));
            prop_assert_eq!(&fib, &model.fib());
            prop_assert_eq!(rib.listed_len(), listed(&rib));
            prop_assert_eq!(rib.routes_len(), model.routes.len());
        }
        let mut routed: Vec<Name> = Vec::new();
        let mut behind = None;
        loop {
            behind = rib.routes_part(behind.as_ref().map(Name::as_ref), 2, |name, _| routed.push(name.to_name()));
            if behind.is_none() {
                break;
            }
        }
        let expected: BTreeSet<Name> = model.routes.keys().map(|(name, ..)| name.clone()).collect();
        prop_assert_eq!(routed, expected.into_iter().collect::<Vec<_>>());
    }

    /// Changes whose effects are brought about a part at a time, with other commands in between, come to the same.
    #[test]
    fn in_parts(
        steps in proptest::collection::vec((steps(), 0usize..4), 0..60),
        at_once_max in 0usize..3,
        part in 1usize..4,
    ) {
        let mut model = Model { strategies: [(Name::new(), StrategyId(0))].into(), ..Model::default() };
        let (mut rib, mut fib) = (rib(), FakeFib::new());
        prop_assert!(flush(&mut rib, &mut fib, usize::MAX));
        rib.at_once_max = at_once_max;
        for (step, parts) in steps {
            // Ids of faces do not come back, and a next hop is taken away by hand as the asker sees it.
            let mentions = match &step {
                Step::Register { face, .. } | Step::Unregister { face, .. } | Step::ByHand { face, .. } => Some(*face),
                Step::RemoveNextHop { .. } => { settle(&mut rib, &mut fib, part); None }
                _ => None,
            };
            while mentions.is_some_and(|face| rib.leaving.contains(&FaceId::from_number(face).unwrap())) {
                rib.work(part);
                prop_assert!(flush(&mut rib, &mut fib, usize::MAX));
            }
            take(step, &mut rib, &mut model);
            prop_assert!(flush(&mut rib, &mut fib, usize::MAX));
            let (asked, alone) = (rib.asked(), rib.leaving.is_empty());
            for _ in 0..parts {
                rib.work(part);
                prop_assert!(flush(&mut rib, &mut fib, usize::MAX));
            }
            if alone && rib.settled() >= asked {
                prop_assert_eq!(&fib, &model.fib());
                prop_assert_eq!(rib.listed_len(), listed(&rib));
            }
        }
        settle(&mut rib, &mut fib, part);
        prop_assert_eq!(&fib, &model.fib());
        prop_assert_eq!(rib.listed_len(), listed(&rib));
        prop_assert_eq!(rib.routes_len(), model.routes.len());
    }

    /// A full FIB refuses; taking the change back leaves all as it was before.
    #[test]
    fn refused_changes_are_taken_back(steps in proptest::collection::vec(steps(), 0..60), prefixes_max in 1usize..6) {
        let mut model = Model { strategies: [(Name::new(), StrategyId(0))].into(), ..Model::default() };
        let (mut rib, mut fib) = (rib(), FakeFib::new());
        rib.at_once_max = usize::MAX;
        prop_assert!(flush(&mut rib, &mut fib, prefixes_max));
        for step in steps {
            let Step::Register { name, face, origin, cost, flags, .. } = step else {
                if let Step::Unregister { .. } | Step::RemoveFace { .. } = step {
                    take(step, &mut rib, &mut model);
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
            prop_assert_eq!(rib.listed_len(), listed(&rib));
        }
    }
}

fn named(uri: &str) -> Name {
    uri.parse().unwrap()
}

#[test]
fn a_refresh_changes_nothing() {
    let (mut rib, mut fib) = (rib(), FakeFib::new());
    let face = FaceId::from_number(300).unwrap();
    rib.register(named("/a").as_ref(), face, 0, route(5, CHILD_INHERIT)).unwrap();
    assert!(flush(&mut rib, &mut fib, 10));
    let later = Route { expires: Instant::from_millis(9), ..route(5, CHILD_INHERIT) };
    rib.register(named("/a").as_ref(), face, 0, later).unwrap();
    rib.flush::<()>(|_| panic!("nothing to tell")).unwrap();
    assert_eq!(rib.next_expiry(), Some(Instant::from_millis(9)));
}

#[test]
fn bounded() {
    let mut rib = Rib::new(4, 2, StrategyId(0), Name::new());
    let face = FaceId::from_number(300).unwrap();
    for origin in 0..2 {
        rib.register(NameRef::ROOT, face, origin, route(0, 1)).unwrap();
    }
    assert!(rib.register(NameRef::ROOT, face, 2, route(0, 1)).is_err());
    assert!(rib.set_by_hand(NameRef::ROOT, face, Some(ByHand::Cost(1))).is_err());
    assert!(rib.register(NameRef::ROOT, face, 1, route(7, 1)).is_ok(), "one that is there can be changed");
    rib.unregister(NameRef::ROOT, face, 1);
    assert!(rib.register(NameRef::ROOT, face, 2, route(0, 1)).is_ok());
}

/// Tens of thousands of names under one prefix, registered and unregistered with the prefix itself coming and going; and of faces for one name.
#[test]
fn storms() {
    let (mut rib, mut fib) = (rib(), FakeFib::new());
    let face = |n: u64| FaceId::from_number(256 + n).unwrap();
    let count = 10_000u64;
    let name = |n: u64| named("/flood").with_generic(format!("{n}"));
    for n in 0..count {
        rib.register(name(n).as_ref(), face(n % 7), 0, route(0, CHILD_INHERIT)).unwrap();
        assert!(flush(&mut rib, &mut fib, usize::MAX));
    }
    assert_eq!(fib.len() as u64, count + 1);
    rib.register(named("/flood").as_ref(), face(100), 0, route(9, CHILD_INHERIT)).unwrap();
    assert!(flush(&mut rib, &mut fib, usize::MAX));
    assert!(rib.settled() < rib.asked(), "ten thousand names are not changed in one go");
    // Others need not wait for all of that.
    rib.register(named("/other").as_ref(), face(1), 0, route(9, CHILD_INHERIT)).unwrap();
    assert!(settle(&mut rib, &mut fib, 100) >= 99);
    assert!(fib[&name(5)].0.iter().any(|hop| hop.face == face(100)));
    rib.remove_face(face(100));
    for n in (0..count).rev() {
        rib.unregister(name(n).as_ref(), face(n % 7), 0);
        assert!(flush(&mut rib, &mut fib, usize::MAX));
    }
    for n in 0..count {
        rib.register(named("/one").as_ref(), face(n), 0, route(n, CHILD_INHERIT)).unwrap();
        assert!(flush(&mut rib, &mut fib, usize::MAX));
    }
    assert_eq!(fib[&named("/one")].0.iter().map(|hop| hop.cost).collect::<Vec<_>>(), [0, 1, 2]);
    (0..count).for_each(|n| rib.remove_face(face(n)));
    assert!(flush(&mut rib, &mut fib, usize::MAX));
    settle(&mut rib, &mut fib, 100);
    rib.unregister(named("/other").as_ref(), face(1), 0);
    assert!(flush(&mut rib, &mut fib, usize::MAX));
    assert_eq!((fib.len(), rib.routes_len(), rib.prefixes_len()), (1, 0, 1));
}

/// A face that goes, whose names have many below that inherit from them: what one call does is bounded, however much there is to do.
#[test]
fn what_one_call_does_is_bounded() {
    const PART: usize = 8;
    let (mut rib, mut fib) = (rib(), FakeFib::new());
    let face = |n: u64| FaceId::from_number(256 + n).unwrap();
    for n in 0..200 {
        let above = named("/a").with_generic(format!("{n}"));
        rib.register(above.as_ref(), face(0), 0, route(1, CHILD_INHERIT)).unwrap();
        for below in 0..50 {
            let below = above.clone().with_generic(format!("{below}"));
            rib.register(below.as_ref(), face(1), 0, route(9, CHILD_INHERIT)).unwrap();
        }
    }
    assert!(flush(&mut rib, &mut fib, usize::MAX));
    settle(&mut rib, &mut fib, 100);
    assert_eq!(fib.len(), 1 + 200 * 51);
    let (mut most, mut calls) = (0, 0);
    let mut made = |rib: &mut Rib, fib: &mut FakeFib| {
        most = most.max(rib.changes.len());
        calls += 1;
        assert!(flush(rib, fib, usize::MAX));
    };
    rib.remove_face(face(0));
    made(&mut rib, &mut fib);
    rib.register(NameRef::ROOT, face(2), 0, route(5, CHILD_INHERIT)).unwrap();
    made(&mut rib, &mut fib);
    while rib.has_work() {
        rib.work(PART);
        made(&mut rib, &mut fib);
    }
    assert!(most <= AT_ONCE_MAX + 1, "{most} names were changed by one call");
    assert!(calls > 200 * 51 / PART, "and all were");
    assert!(fib.values().all(|(hops, _)| hops.iter().all(|hop| hop.face != face(0))));
    assert_eq!(fib.len(), 1 + 200 * 50);
}
