//! The routes and strategies that all members share, and the difference to what a router has. Pure.

use crate::probe;
use nw_api::balancer::{Replica, ReplicaRoute};
use nw_api::management::{
    FacePersistency, FaceScope, FaceStatus, LinkType, RibEntry, StrategyChoice,
};
use nw_app::FaceUri;
use nw_name::Name;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// A face as any member can create it: the remote FaceUri; for Ethernet also the local one after a
/// space.
pub type FaceSpec = Arc<str>;

/// The identity of a route.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RouteKey {
    /// The prefix.
    pub prefix: Name,
    /// The face it leads to.
    pub face: FaceSpec,
    /// The origin, such as 255 (static).
    pub origin: u64,
}

/// The attributes of a route that may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteAttributes {
    /// The cost.
    pub cost: u64,
    /// The route flags.
    pub flags: u64,
}

/// The routes and strategies of one router that can be replicated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Increases with every change. 0: nothing was read yet.
    pub generation: u64,
    /// The routes.
    pub routes: BTreeMap<RouteKey, RouteAttributes>,
    /// Strategy names by prefix.
    pub strategies: BTreeMap<Name, Name>,
}

/// The state of a router, read from its datasets.
#[derive(Clone, Debug, Default)]
pub struct RouterState {
    /// The replicable part.
    pub snapshot: Snapshot,
    /// UDP peers with an on-demand face: they accept packets from the cluster's port only.
    pub one_port_peers: BTreeSet<SocketAddr>,
    /// Number of routes that can't be replicated.
    pub skipped: u64,
    /// The ids of the router's replicable faces.
    pub faces: HashMap<FaceSpec, u64>,
}

impl RouterState {
    /// Reads the state from a router's datasets. Skips routes that lead back to the `cluster`
    /// addresses, and routes beyond `routes_max`.
    pub fn of(
        rib: Vec<RibEntry>,
        faces: &[FaceStatus],
        strategies: Vec<StrategyChoice>,
        cluster: &[IpAddr],
        routes_max: usize,
    ) -> RouterState {
        let mut state = RouterState::default();
        let texts: HashMap<u64, (FaceSpec, Option<SocketAddr>)> = faces
            .iter()
            .filter_map(|face| {
                let text: FaceSpec = face_spec(face, cluster)?.into();
                Some((face.face_id, (text, on_demand_peer(face))))
            })
            .collect();
        for (id, (text, _)) in &texts {
            state.faces.insert(Arc::clone(text), *id);
        }
        for entry in rib {
            if is_local_to_router(&entry.name) {
                continue;
            }
            for route in entry.routes {
                let known = texts.get(&route.face_id);
                let Some((face, peer)) = known.filter(|_| state.snapshot.routes.len() < routes_max)
                else {
                    state.skipped += 1;
                    continue;
                };
                state.one_port_peers.extend(peer);
                let key = RouteKey {
                    prefix: entry.name.clone(),
                    face: Arc::clone(face),
                    origin: route.origin,
                };
                state
                    .snapshot
                    .routes
                    .insert(key, RouteAttributes { cost: route.cost, flags: route.flags });
            }
        }
        state.snapshot.strategies = strategies
            .into_iter()
            .filter(|choice| !is_local_to_router(&choice.name))
            .map(|choice| (choice.name, choice.strategy.0))
            .collect();
        state
    }
}

/// Returns whether every router has its own routes under this name, so that none is replicated.
fn is_local_to_router(name: &Name) -> bool {
    let first = name.as_ref().component(0);
    let second = name.as_ref().component(1);
    let is = |component: Option<nw_name::Component<'_>>, value: &[u8]| {
        component.is_some_and(|component| component.value() == value)
    };
    is(first, b"localhost")
        || (is(first, b"localhop") && is(second, b"nfd"))
        || (is(first, b"nw") && is(second, b"balancer"))
}

/// Returns the face's specification. `None` if another router can't create a face like it.
fn face_spec(face: &FaceStatus, cluster: &[IpAddr]) -> Option<String> {
    if face.scope == FaceScope::Local || face.link_type != LinkType::PointToPoint {
        return None;
    }
    let is_on_demand = face.persistency == FacePersistency::OnDemand;
    match face.uri.parse().ok()? {
        FaceUri::Udp(peer) if !cluster.contains(&peer.ip().to_canonical()) => {
            Some(face.uri.clone())
        }
        FaceUri::Tcp(_) | FaceUri::Ws(_) if !is_on_demand => Some(face.uri.clone()),
        FaceUri::Ether(_) if !is_on_demand => Some(format!("{} {}", face.uri, face.local_uri)),
        _ => None,
    }
}

fn on_demand_peer(face: &FaceStatus) -> Option<SocketAddr> {
    match face.uri.parse().ok()? {
        FaceUri::Udp(peer) if face.persistency == FacePersistency::OnDemand => Some(peer),
        _ => None,
    }
}

/// The commands that turn one snapshot into another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    /// Routes to add or change.
    pub add: Vec<(RouteKey, RouteAttributes)>,
    /// Routes to remove.
    pub remove: Vec<RouteKey>,
    /// Strategies to set, by prefix.
    pub set_strategies: Vec<(Name, Name)>,
    /// Prefixes to unset the strategy of.
    pub unset_strategies: Vec<Name>,
}

impl Difference {
    /// Returns whether both snapshots are equal.
    pub fn is_empty(&self) -> bool {
        self.add.is_empty()
            && self.remove.is_empty()
            && self.set_strategies.is_empty()
            && self.unset_strategies.is_empty()
    }
}

impl Snapshot {
    /// Returns the commands that turn `self` into `wanted`.
    pub fn difference_to(&self, wanted: &Snapshot) -> Difference {
        let is_changed =
            |(key, usage): &(&RouteKey, &RouteAttributes)| self.routes.get(*key) != Some(*usage);
        let add = wanted.routes.iter().filter(is_changed).map(|(key, usage)| (key.clone(), *usage));
        let removed = self.routes.keys().filter(|key| !wanted.routes.contains_key(*key));
        let set = wanted
            .strategies
            .iter()
            .filter(|(prefix, strategy)| self.strategies.get(*prefix) != Some(*strategy));
        // The strategy of `/` can be changed but not unset.
        let unset = self.strategies.keys().filter(|prefix| !prefix.as_ref().is_empty());
        Difference {
            add: add.collect(),
            remove: removed.cloned().collect(),
            set_strategies: set
                .map(|(prefix, strategy)| (prefix.clone(), strategy.clone()))
                .collect(),
            unset_strategies: unset
                .filter(|prefix| !wanted.strategies.contains_key(*prefix))
                .cloned()
                .collect(),
        }
    }

    /// Converts to the form sent to agents on other machines.
    pub fn to_replica(&self, cluster: &str, member: &str) -> Replica {
        let route = |(key, usage): (&RouteKey, &RouteAttributes)| ReplicaRoute {
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
            strategies: strategies
                .map(|(prefix, name)| (prefix.to_string(), name.to_string()))
                .collect(),
        }
    }

    /// Converts from the form sent by a balancer.
    ///
    /// # Errors
    /// The text that is not a valid name.
    pub fn from_replica(replica: &Replica) -> Result<Snapshot, String> {
        let name = |text: &str| {
            text.parse::<Name>().map_err(|error| format!("invalid name {text:?}: {error}"))
        };
        let mut faces: BTreeSet<FaceSpec> = BTreeSet::new();
        let mut snapshot = Snapshot { generation: replica.generation, ..Snapshot::default() };
        for route in &replica.routes {
            let face = match faces.get(route.face.as_str()) {
                Some(face) => Arc::clone(face),
                None => {
                    let face: FaceSpec = route.face.as_str().into();
                    faces.insert(Arc::clone(&face));
                    face
                }
            };
            let key = RouteKey { prefix: name(&route.prefix)?, face, origin: route.origin };
            snapshot.routes.insert(key, RouteAttributes { cost: route.cost, flags: route.flags });
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

    fn router_state() -> RouterState {
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
        RouterState::of(
            rib,
            &faces,
            vec![choice("/"), choice("/b"), choice("/localhost")],
            &cluster,
            100,
        )
    }

    #[test]
    fn only_replicable_routes_and_faces_are_taken() {
        let state = router_state();
        let faces: Vec<&str> = state.snapshot.routes.keys().map(|key| &*key.face).collect();
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
            state.one_port_peers.iter().map(ToString::to_string).collect::<Vec<_>>(),
            ["192.0.2.8:40000"]
        );
        // TCP on demand, the cluster itself, a local face, a multi-access face, an unknown face.
        assert_eq!(state.skipped, 5);
        assert_eq!(state.snapshot.strategies.len(), 2);
    }

    #[test]
    fn difference_adds_changes_and_removes() {
        let wanted = router_state().snapshot;
        let from_empty = Snapshot::default().difference_to(&wanted);
        let counts =
            (from_empty.add.len(), from_empty.remove.len(), from_empty.set_strategies.len());
        assert_eq!(counts, (4, 0, 2));
        assert!(wanted.difference_to(&wanted).is_empty());
        let mut changed = wanted.clone();
        let first = changed.routes.keys().next().unwrap().clone();
        changed.routes.get_mut(&first).unwrap().cost = 9;
        let last = changed.routes.keys().next_back().unwrap().clone();
        changed.routes.remove(&last);
        changed.strategies.remove(&name("/b"));
        let difference = wanted.difference_to(&changed);
        assert_eq!(difference.add, [(first, RouteAttributes { cost: 9, flags: 1 })]);
        assert_eq!(difference.remove, [last]);
        assert_eq!(difference.unset_strategies, [name("/b")]);
        let to_empty = wanted.difference_to(&Snapshot::default());
        assert_eq!(to_empty.unset_strategies, [name("/b")], "/ keeps one");
    }

    #[test]
    fn replica_converts_to_the_same_snapshot() {
        let snapshot = Snapshot { generation: 7, ..router_state().snapshot };
        let replica = snapshot.to_replica("c", "m2");
        assert_eq!(replica.probe_prefix, "/nw/balancer/c/probe/m2");
        assert_eq!(Snapshot::from_replica(&replica), Ok(snapshot));
    }

    #[test]
    fn routes_beyond_the_maximum_are_skipped() {
        let faces = [face(256, "udp4://192.0.2.7:6363", FacePersistency::Persistent)];
        let rib = (0..10).map(|number| entry(&format!("/{number}"), &[256])).collect();
        let state = RouterState::of(rib, &faces, Vec::new(), &[], 4);
        assert_eq!((state.snapshot.routes.len(), state.skipped), (4, 6));
    }
}
