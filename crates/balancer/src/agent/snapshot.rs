//! The routes that every member shall have, and what a router lacks of them. Pure.

use crate::probe;
use nw_api::balancer::{Replica, ReplicaRoute};
use nw_api::management::{FacePersistency, FaceScope, FaceStatus, LinkType, RibEntry, StrategyChoice};
use nw_app::FaceUri;
use nw_name::Name;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// A face as every member can make it: its far end, and for Ethernet its near one behind a space.
pub type FaceText = Arc<str>;

/// Which route.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RouteKey {
    /// Its prefix.
    pub prefix: Name,
    /// Where it leads.
    pub face: FaceText,
    /// Who made it.
    pub origin: u64,
}

/// How it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteUse {
    /// Its cost.
    pub cost: u64,
    /// Its flags.
    pub flags: u64,
}

/// Routes and strategies of one router that others can have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Changes with each change.
    pub generation: u64,
    /// Routes.
    pub routes: BTreeMap<RouteKey, RouteUse>,
    /// Strategies by prefix.
    pub strategies: BTreeMap<Name, Name>,
}

/// What a router's lists come to.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// What others can have.
    pub snapshot: Snapshot,
    /// Producers that came by themselves, which take packets from the cluster's port only.
    pub one_port_peers: BTreeSet<SocketAddr>,
    /// Routes that nobody else can have.
    pub skipped: u64,
    /// Its faces that others can have, by number.
    pub faces: HashMap<FaceText, u64>,
}

impl Seen {
    /// From the lists of a router. `cluster` has the addresses of the cluster: a route back to it is none; `routes_max` bounds what is taken.
    pub fn of(
        rib: Vec<RibEntry>,
        faces: &[FaceStatus],
        strategies: Vec<StrategyChoice>,
        cluster: &[IpAddr],
        routes_max: usize,
    ) -> Seen {
        let mut seen = Seen::default();
        let texts: HashMap<u64, (FaceText, Option<SocketAddr>)> = faces
            .iter()
            .filter_map(|face| {
                let text: FaceText = given(face, cluster)?.into();
                Some((face.face_id, (text, on_demand_peer(face))))
            })
            .collect();
        for (id, (text, _)) in &texts {
            seen.faces.insert(Arc::clone(text), *id);
        }
        for entry in rib {
            if is_own(&entry.name) {
                continue;
            }
            for route in entry.routes {
                let known = texts.get(&route.face_id);
                let Some((face, peer)) = known.filter(|_| seen.snapshot.routes.len() < routes_max) else {
                    seen.skipped += 1;
                    continue;
                };
                seen.one_port_peers.extend(peer);
                let key =
                    RouteKey { prefix: entry.name.clone(), face: Arc::clone(face), origin: route.origin };
                seen.snapshot.routes.insert(key, RouteUse { cost: route.cost, flags: route.flags });
            }
        }
        seen.snapshot.strategies = strategies
            .into_iter()
            .filter(|choice| !is_own(&choice.name))
            .map(|choice| (choice.name, choice.strategy.0))
            .collect();
        seen
    }
}

/// Each router has its own of these.
fn is_own(name: &Name) -> bool {
    let first = name.as_ref().component(0);
    let second = name.as_ref().component(1);
    let is = |component: Option<nw_name::Component<'_>>, word: &[u8]| {
        component.is_some_and(|component| component.value() == word)
    };
    is(first, b"localhost")
        || (is(first, b"localhop") && is(second, b"nfd"))
        || (is(first, b"nw") && is(second, b"balancer"))
}

/// The face, if another router can make its like.
fn given(face: &FaceStatus, cluster: &[IpAddr]) -> Option<String> {
    if face.scope == FaceScope::Local || face.link_type != LinkType::PointToPoint {
        return None;
    }
    let by_itself = face.persistency == FacePersistency::OnDemand;
    match face.uri.parse().ok()? {
        FaceUri::Udp(peer) if !cluster.contains(&peer.ip().to_canonical()) => Some(face.uri.clone()),
        FaceUri::Tcp(_) | FaceUri::Ws(_) if !by_itself => Some(face.uri.clone()),
        FaceUri::Ether(_) if !by_itself => Some(format!("{} {}", face.uri, face.local_uri)),
        _ => None,
    }
}

fn on_demand_peer(face: &FaceStatus) -> Option<SocketAddr> {
    match face.uri.parse().ok()? {
        FaceUri::Udp(peer) if face.persistency == FacePersistency::OnDemand => Some(peer),
        _ => None,
    }
}

/// What makes one snapshot of another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// Routes to be added, or changed.
    pub add: Vec<(RouteKey, RouteUse)>,
    /// Routes to be removed.
    pub remove: Vec<RouteKey>,
    /// Strategies to be chosen.
    pub choose: Vec<(Name, Name)>,
    /// Prefixes whose strategy is to be left to shorter ones.
    pub unset: Vec<Name>,
}

impl Difference {
    /// True when there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.add.is_empty() && self.remove.is_empty() && self.choose.is_empty() && self.unset.is_empty()
    }
}

impl Snapshot {
    /// What turns `self` into `wanted`.
    pub fn to(&self, wanted: &Snapshot) -> Difference {
        let changed = |(key, usage): &(&RouteKey, &RouteUse)| self.routes.get(*key) != Some(*usage);
        let add = wanted.routes.iter().filter(changed).map(|(key, usage)| (key.clone(), *usage));
        let gone = self.routes.keys().filter(|key| !wanted.routes.contains_key(*key));
        let chosen = wanted.strategies.iter();
        let choose = chosen.filter(|(prefix, strategy)| self.strategies.get(*prefix) != Some(*strategy));
        // The strategy of `/` can be another one, but never none.
        let left = self.strategies.keys().filter(|prefix| !prefix.as_ref().is_empty());
        Difference {
            add: add.collect(),
            remove: gone.cloned().collect(),
            choose: choose.map(|(prefix, strategy)| (prefix.clone(), strategy.clone())).collect(),
            unset: left.filter(|prefix| !wanted.strategies.contains_key(*prefix)).cloned().collect(),
        }
    }

    /// As it is given to agents on other machines.
    pub fn to_replica(&self, cluster: &str, member: &str) -> Replica {
        let route = |(key, usage): (&RouteKey, &RouteUse)| ReplicaRoute {
            prefix: key.prefix.to_string(),
            face: key.face.to_string(),
            origin: key.origin,
            cost: usage.cost,
            flags: usage.flags,
        };
        let strategies = self.strategies.iter();
        Replica {
            generation: self.generation,
            probe_prefix: probe::prefix(cluster, member).to_string(),
            routes: self.routes.iter().map(route).collect(),
            strategies: strategies.map(|(prefix, name)| (prefix.to_string(), name.to_string())).collect(),
        }
    }

    /// As it came from a balancer.
    ///
    /// # Errors
    /// What is no name.
    pub fn from_replica(replica: &Replica) -> Result<Snapshot, String> {
        let name = |text: &str| text.parse::<Name>().map_err(|error| format!("{text:?} is no name: {error}"));
        let mut faces: BTreeSet<FaceText> = BTreeSet::new();
        let mut snapshot = Snapshot { generation: replica.generation, ..Snapshot::default() };
        for route in &replica.routes {
            let face = match faces.get(route.face.as_str()) {
                Some(face) => Arc::clone(face),
                None => {
                    let face: FaceText = route.face.as_str().into();
                    faces.insert(Arc::clone(&face));
                    face
                }
            };
            let key = RouteKey { prefix: name(&route.prefix)?, face, origin: route.origin };
            snapshot.routes.insert(key, RouteUse { cost: route.cost, flags: route.flags });
        }
        for (prefix, strategy) in &replica.strategies {
            snapshot.strategies.insert(name(prefix)?, name(strategy)?);
        }
        Ok(snapshot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nw_api::management::{Route, Strategy};

    fn name(text: &str) -> Name {
        text.parse().unwrap()
    }

    fn face(id: u64, uri: &str, persistency: FacePersistency) -> FaceStatus {
        let face = FaceStatus::new(id, uri, "udp4://10.0.0.11:6401", FaceScope::NonLocal);
        FaceStatus { persistency, ..face }
    }

    fn entry(prefix: &str, faces: &[u64]) -> RibEntry {
        let route = |face_id: &u64| Route {
            face_id: *face_id,
            origin: 65,
            cost: 1,
            flags: 1,
            expiration_period: None,
        };
        RibEntry { name: name(prefix), routes: faces.iter().map(route).collect() }
    }

    fn seen() -> Seen {
        use FacePersistency::{OnDemand, Persistent};
        let faces = [
            face(256, "udp4://192.0.2.7:6363", Persistent),
            face(257, "udp4://192.0.2.8:40000", OnDemand),
            face(258, "tcp4://192.0.2.9:6363", OnDemand),
            face(259, "tcp4://192.0.2.10:6363", Persistent),
            face(260, "udp4://192.0.2.1:6363", Persistent),
            FaceStatus::new(261, "fd://9", "unix:///run/x.sock", FaceScope::Local),
            FaceStatus {
                link_type: LinkType::MultiAccess,
                ..face(262, "udp4://224.0.23.170:56363", Persistent)
            },
            face(263, "ether://[02:00:00:00:00:01]", Persistent),
        ];
        let rib = vec![
            entry("/a", &[256, 257]),
            entry("/b", &[258, 259, 260, 261, 262, 263, 999]),
            entry("/localhost/nfd", &[256]),
            entry("/localhop/nfd", &[256]),
            entry("/nw/balancer/c/probe/m1", &[256]),
        ];
        let choice = |prefix: &str| StrategyChoice {
            name: name(prefix),
            strategy: Strategy(name("/localhost/nfd/strategy/multicast/v=5")),
        };
        let cluster = ["192.0.2.1".parse().unwrap()];
        Seen::of(rib, &faces, vec![choice("/"), choice("/b"), choice("/localhost")], &cluster, 100)
    }

    #[test]
    fn what_others_can_have() {
        let seen = seen();
        let faces: Vec<&str> = seen.snapshot.routes.keys().map(|key| &*key.face).collect();
        assert_eq!(
            faces,
            [
                "udp4://192.0.2.7:6363",
                "udp4://192.0.2.8:40000",
                "ether://[02:00:00:00:00:01] udp4://10.0.0.11:6401",
                "tcp4://192.0.2.10:6363",
            ]
        );
        assert_eq!(
            seen.one_port_peers.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["192.0.2.8:40000"]
        );
        assert_eq!(seen.skipped, 5, "who came by TCP, the cluster itself, an application, a group, nobody");
        assert_eq!(seen.snapshot.strategies.len(), 2);
    }

    #[test]
    fn differences() {
        let wanted = seen().snapshot;
        let whole = Snapshot::default().to(&wanted);
        assert_eq!((whole.add.len(), whole.remove.len(), whole.choose.len()), (4, 0, 2));
        assert!(wanted.to(&wanted).is_empty());
        let mut other = wanted.clone();
        let first = other.routes.keys().next().unwrap().clone();
        other.routes.get_mut(&first).unwrap().cost = 9;
        let last = other.routes.keys().next_back().unwrap().clone();
        other.routes.remove(&last);
        other.strategies.remove(&name("/b"));
        let difference = wanted.to(&other);
        assert_eq!(difference.add, [(first, RouteUse { cost: 9, flags: 1 })]);
        assert_eq!(difference.remove, [last]);
        assert_eq!(difference.unset, [name("/b")]);
        assert_eq!(wanted.to(&Snapshot::default()).unset, [name("/b")], "/ keeps one");
    }

    #[test]
    fn agents_far_away_get_the_same() {
        let snapshot = Snapshot { generation: 7, ..seen().snapshot };
        let replica = snapshot.to_replica("c", "m2");
        assert_eq!(replica.probe_prefix, "/nw/balancer/c/probe/m2");
        assert_eq!(Snapshot::from_replica(&replica), Ok(snapshot));
    }

    #[test]
    fn there_is_a_bound() {
        let faces = [face(256, "udp4://192.0.2.7:6363", FacePersistency::Persistent)];
        let rib = (0..10).map(|number| entry(&format!("/{number}"), &[256])).collect();
        let seen = Seen::of(rib, &faces, Vec::new(), &[], 4);
        assert_eq!((seen.snapshot.routes.len(), seen.skipped), (4, 6));
    }
}
