//! The network as a map shows it: instances with rates and positions, links, faces to the outside.
//!
//! Invariant: computed from one observation, the one before it, and the target; nothing is asked.

use crate::engine::InstanceState as EngineState;
use crate::world::{Seen, SeenInstance, pending};
use nw_api::network::{
    GraphEdge, GraphElement, GraphHost, GraphInstance, GraphInstanceState, GraphLink, GraphLinkEnd,
    GraphOrigin, GraphPosition, GraphRates,
};
use nw_api::service::ServiceLink;
use nw_manage::target::{InstanceId, LinkEnd, Origin, Target};
use std::collections::{BTreeMap, BTreeSet};

/// What changed per second between two observations.
#[derive(Clone, Debug, Default)]
pub struct Rates {
    instances: BTreeMap<InstanceId, InstanceRates>,
}

#[derive(Clone, Debug, Default)]
struct InstanceRates {
    packets: GraphRates,
    cpu_cores: f64,
    hit_ratio: Option<f64>,
    /// Packets sent and received per second, by face.
    faces: BTreeMap<String, (GraphRates, GraphRates)>,
}

impl Rates {
    /// Compares two observations. An instance that was not in the first one, or has started anew,
    /// has no rates.
    pub fn between(before: &Seen, now: &Seen) -> Self {
        let seconds = now.at_ms.saturating_sub(before.at_ms) as f64 / 1e3;
        let mut instances = BTreeMap::new();
        if seconds <= 0.0 {
            return Rates { instances };
        }
        for (id, seen) in &now.instances {
            if let Some(earlier) = before.instances.get(id)
                && let Some(rates) = instance_rates(earlier, seen, seconds)
            {
                instances.insert(id.clone(), rates);
            }
        }
        Rates { instances }
    }
}

fn instance_rates(before: &SeenInstance, now: &SeenInstance, s: f64) -> Option<InstanceRates> {
    let (old, new) = (before.status.as_ref()?, now.status.as_ref()?);
    if old.pid != new.pid || new.uptime_s < old.uptime_s {
        return None;
    }
    let per_s = |old: u64, new: u64| new.saturating_sub(old) as f64 / s;
    let rates = |old: [u64; 3], new: [u64; 3]| GraphRates {
        interests: per_s(old[0], new[0]),
        data: per_s(old[1], new[1]),
        nacks: per_s(old[2], new[2]),
        dropped: 0.0,
    };
    let cpu = |status: &nw_api::service::ServiceStatus| status.cpu_user_s + status.cpu_system_s;
    let packets = GraphRates {
        dropped: per_s(old.dropped, new.dropped),
        ..rates(old.received, new.received)
    };
    let faces = sums(&now.links).into_iter().map(|(name, (sent, received))| {
        let old = sums(&before.links).get(name).copied().unwrap_or_default();
        (name.to_owned(), (rates(old.0, sent), rates(old.1, received)))
    });
    let total = |seen: &SeenInstance, name: &str| -> u64 {
        seen.elements.iter().filter_map(|element| element.values.get(name)).sum()
    };
    let change = |name: &str| total(now, name).saturating_sub(total(before, name));
    let (hits, misses) = (change("hits"), change("misses"));
    Some(InstanceRates {
        packets,
        cpu_cores: (cpu(new) - cpu(old)).max(0.0) / s,
        hit_ratio: (hits + misses > 0).then(|| hits as f64 / (hits + misses) as f64),
        faces: faces.collect(),
    })
}

/// Packets by kind: sent and received.
type Counts = ([u64; 3], [u64; 3]);

/// Returns packets sent and received by face; connections of a listener are added.
fn sums(links: &[ServiceLink]) -> BTreeMap<&str, Counts> {
    let mut sums: BTreeMap<&str, Counts> = BTreeMap::new();
    for link in links {
        let (sent, received) = sums.entry(&link.name).or_default();
        for kind in 0..3 {
            sent[kind] += link.sent[kind];
            received[kind] += link.received[kind];
        }
    }
    sums
}

/// What a map is computed from.
pub struct MapInput<'a> {
    /// What must run.
    pub target: &'a Target,
    /// What runs.
    pub seen: &'a Seen,
    /// Rates.
    pub rates: &'a Rates,
    /// Positions that a person has set, by `NAME on HOST`.
    pub positions: &'a BTreeMap<String, GraphPosition>,
}

impl MapInput<'_> {
    /// Returns all instances: those that are wanted and those that run.
    pub fn instances(&self) -> Vec<GraphInstance> {
        let ids: BTreeSet<&InstanceId> = self
            .target
            .instances
            .iter()
            .map(|instance| &instance.id)
            .chain(self.seen.instances.keys())
            .collect();
        let layout = self.layout(&ids);
        ids.into_iter().map(|id| self.instance(id, layout[id])).collect()
    }

    /// Places instances in columns, from consumers to producers.
    fn layout<'i>(
        &self,
        ids: &BTreeSet<&'i InstanceId>,
    ) -> BTreeMap<&'i InstanceId, GraphPosition> {
        let depth = |id: &InstanceId| self.target.instance(id).map_or(0, |wanted| wanted.depth);
        let deepest = ids.iter().map(|id| depth(id)).max().unwrap_or(0);
        let mut rows: BTreeMap<u32, u32> = BTreeMap::new();
        let place = |id: &'i InstanceId| {
            let column = deepest - depth(id);
            let row = rows.entry(column).or_default();
            let computed = GraphPosition { x: column.into(), y: (*row).into(), fixed: false };
            *row += 1;
            (id, self.positions.get(&id.to_string()).copied().unwrap_or(computed))
        };
        ids.iter().copied().map(place).collect()
    }

    fn instance(&self, id: &InstanceId, position: GraphPosition) -> GraphInstance {
        let wanted = self.target.instance(id);
        let mut shown = GraphInstance {
            name: id.name.clone(),
            host: id.host.clone(),
            service: service_of(id, self.target),
            origin: wanted.map_or(GraphOrigin::Orphan, |wanted| origin(wanted.origin)),
            quota_cores: wanted.and_then(|wanted| wanted.quota_cores),
            position,
            ..GraphInstance::default()
        };
        let Some(seen) = self.seen.instances.get(id) else { return shown };
        shown.pid = seen.engine.pid;
        shown.state = match (&seen.engine.state, &seen.status) {
            (EngineState::Ended(reason), _) => {
                shown.reason = Some(reason.clone());
                GraphInstanceState::Ended
            }
            (EngineState::Running, None) => GraphInstanceState::Starting,
            (EngineState::Running, Some(status)) if status.draining => GraphInstanceState::Draining,
            (EngineState::Running, Some(_)) => GraphInstanceState::Running,
        };
        if let Some(status) = &seen.status {
            shown.uptime_s = status.uptime_s;
            shown.resident_bytes = status.resident_bytes;
        }
        if let Some(rates) = self.rates.instances.get(id) {
            shown.rates = rates.packets;
            shown.cpu_cores = rates.cpu_cores;
            shown.hit_ratio = rates.hit_ratio;
        }
        let sum = |name: &str| -> u64 {
            seen.elements.iter().filter_map(|element| element.values.get(name)).sum()
        };
        (shown.pending, shown.cached_packets) = (sum("pending"), sum("packets"));
        shown.elements = seen.elements.iter().map(shown_element).collect();
        shown
    }

    /// Returns the links of the target.
    pub fn links(&self) -> Vec<GraphLink> {
        let links = self.target.links.iter().map(|link| {
            let (from, to) = (self.face(&link.from), self.face(&link.to));
            let (forward, backward) = self.face_rates(&link.from);
            GraphLink {
                id: link.id.clone(),
                from: shown_end(&link.from.instance, &link.from.face),
                to: shown_end(&link.to.instance, &link.to.face),
                kind: link.kind.name().to_owned(),
                up: from.iter().any(|link| link.up) && to.iter().any(|link| link.up),
                forward,
                backward,
                pending: from.iter().map(|link| pending(link)).sum(),
            }
        });
        links.collect()
    }

    /// Returns the faces that belong to no link of the target.
    pub fn edges(&self) -> Vec<GraphEdge> {
        let ends: BTreeSet<(&InstanceId, &str)> = self
            .target
            .links
            .iter()
            .flat_map(|link| [&link.from, &link.to])
            .map(|end| (&end.instance, end.face.as_str()))
            .collect();
        let mut edges = Vec::new();
        for (id, seen) in &self.seen.instances {
            for (face, uri, is_listener) in faces(seen.graph.as_deref().unwrap_or_default()) {
                if ends.contains(&(id, face)) {
                    continue;
                }
                let up = seen.links.iter().any(|link| link.name == face && link.up);
                let end =
                    LinkEnd { instance: id.clone(), face: face.to_owned(), uri: uri.to_owned() };
                let (outward, inward) = self.face_rates(&end);
                edges.push(GraphEdge {
                    end: shown_end(id, face),
                    uri: uri.to_owned(),
                    up: up || is_listener,
                    inward,
                    outward,
                });
            }
        }
        edges
    }

    /// Returns the hosts of the target, with what runs on them.
    pub fn hosts(&self, instances: &[GraphInstance]) -> Vec<GraphHost> {
        let hosts = self.target.hosts.iter().map(|host| {
            let own = || instances.iter().filter(|instance| instance.host == host.name);
            GraphHost {
                name: host.name.clone(),
                engine: host.engine.name().to_owned(),
                remote: host.is_remote,
                up: !self.seen.engine_errors.iter().any(|(kind, _)| *kind == host.engine),
                instances: own().filter(|instance| instance.pid.is_some()).count() as u64,
                cpu_cores: own().map(|instance| instance.cpu_cores).sum(),
                resident_bytes: own().map(|instance| instance.resident_bytes).sum(),
            }
        });
        hosts.collect()
    }

    fn face(&self, end: &LinkEnd) -> Vec<&ServiceLink> {
        let seen = self.seen.instances.get(&end.instance);
        let links = seen.map_or(&[][..], |seen| seen.links.as_slice());
        links.iter().filter(|link| link.name == end.face).collect()
    }

    /// Returns the rates sent and received by a face.
    fn face_rates(&self, end: &LinkEnd) -> (GraphRates, GraphRates) {
        let rates = self.rates.instances.get(&end.instance);
        rates.and_then(|rates| rates.faces.get(&end.face)).copied().unwrap_or_default()
    }
}

/// Returns the service of an instance: of one that is not wanted, its name without the number.
pub fn service_of(id: &InstanceId, target: &Target) -> String {
    let by_name = || id.name.rsplit_once('~').map_or(id.name.as_str(), |(name, _)| name);
    target.instance(id).map_or_else(by_name, |wanted| &wanted.service).to_owned()
}

/// Returns the origin as the interface has it.
pub const fn origin(origin: Origin) -> GraphOrigin {
    match origin {
        Origin::Document => GraphOrigin::Document,
        Origin::Scaling => GraphOrigin::Scaling,
        Origin::Defence => GraphOrigin::Defence,
    }
}

fn shown_element(element: &nw_api::service::ServiceElement) -> GraphElement {
    GraphElement {
        name: element.name.clone(),
        element: element.element.clone(),
        values: element.values.clone(),
    }
}

fn shown_end(id: &InstanceId, face: &str) -> GraphLinkEnd {
    GraphLinkEnd { instance: id.name.clone(), host: id.host.clone(), face: face.to_owned() }
}

/// Returns name, URI and whether it listens, of each face of a graph's canonical text.
fn faces(graph: &str) -> impl Iterator<Item = (&str, &str, bool)> {
    graph.lines().filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().take(4).collect();
        match words[..] {
            ["face", name, "listens", uri] => Some((name, uri, true)),
            ["face", name, "=", uri] => Some((name, uri, false)),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faces_of_a_graph_are_read_with_their_addresses() {
        let text = "face near listens unix:///a single\nface next = unix:///b default\n\
                    face only\ncs = content_store\n";
        let found: Vec<_> = faces(text).collect();
        assert_eq!(found, [("near", "unix:///a", true), ("next", "unix:///b", false)]);
    }

    #[test]
    fn instances_stand_in_columns_and_a_fixed_one_stays() {
        let id = |name: &str| InstanceId { name: name.to_owned(), host: "here".to_owned() };
        let instance = |name: &str, depth| nw_manage::target::Instance {
            id: id(name),
            service: name.to_owned(),
            graph: String::new(),
            quota_cores: None,
            origin: Origin::Document,
            stores: Vec::new(),
            depth,
        };
        let target = Target {
            instances: vec![instance("a~1", 1), instance("a~2", 1), instance("b~1", 0)],
            ..Target::default()
        };
        let fixed = GraphPosition { x: 9.0, y: 9.0, fixed: true };
        let positions = BTreeMap::from([("a~2 on here".to_owned(), fixed)]);
        let (seen, rates) = (Seen::default(), Rates::default());
        let input = MapInput { target: &target, seen: &seen, rates: &rates, positions: &positions };
        let shown: Vec<_> = input
            .instances()
            .into_iter()
            .map(|instance| (instance.name, instance.position.x, instance.position.y))
            .collect();
        let expected = [("a~1", 0.0, 0.0), ("a~2", 9.0, 9.0), ("b~1", 1.0, 0.0)];
        assert_eq!(shown, expected.map(|(name, x, y)| (name.to_owned(), x, y)));
    }
}
