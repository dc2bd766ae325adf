//! The steps of a plan, in waves.

use super::merge::with_faces_of;
use super::successions::Successions;
use super::{Action, Condition, OnLimit, Phase, Plan, Step, Wave};
use crate::observed::{InstanceState, Observed, ObservedInstance};
use crate::routes::{NextHops, push_order};
use crate::target::{Instance, InstanceId, Target, digest};
use nw_element_api::Value;
use nw_graph_language::network::InsertionOrder;
use nw_graph_language::{Graph, GraphFile, language};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Most bytes of packets that one instance hands over to another.
const COPY_BYTES_MAX: u64 = 64 << 20;
/// Time limit of a request to an engine or a control socket, milliseconds.
const REQUEST_MS: u64 = 5_000;
/// Time limit until a new instance answers and its links are up, milliseconds.
const READY_MS: u64 = 10_000;
/// Longest wait for replies: the longest usual lifetime of an Interest twice, milliseconds.
const IDLE_MS: u64 = 8_000;

/// An instance that runs and stays.
struct Kept<'a> {
    target: &'a Instance,
    /// Graph that it runs now.
    now: Graph,
    /// Graph that it will run.
    wanted: Graph,
    /// Graph after the steps so far.
    current: Graph,
}

/// Builds the plan.
struct Planner<'a> {
    target: &'a Target,
    observed: &'a Observed,
    waves: Vec<Wave>,
    kept: Vec<Kept<'a>>,
    /// Instances whose addresses others still have.
    successions: Successions<'a>,
}

/// Returns the steps from what runs to the target.
pub fn plan(target: &Target, observed: &Observed) -> Plan {
    let successions = Successions::find(target, observed);
    let mut planner =
        Planner { target, observed, waves: Vec::new(), kept: Vec::new(), successions };
    planner.forget();
    planner.start();
    if !planner.has_unknown_graphs() {
        planner.change();
    }
    let mut waves = planner.waves;
    for (at, wave) in waves.iter_mut().enumerate() {
        for (number, step) in wave.steps.iter_mut().enumerate() {
            step.id = format!("{}.{}", at + 1, number + 1);
        }
    }
    Plan { id: id(target, observed), waves }
}

/// Returns the digest of everything that a plan rests on.
fn id(target: &Target, observed: &Observed) -> String {
    let mut facts: Vec<String> = vec![target.network.clone(), target.order.name().to_owned()];
    for instance in &target.instances {
        facts.push(format!("{} {:?}", instance.id, instance.quota_cores));
        facts.push(instance.graph.clone());
    }
    for seen in &observed.instances {
        facts.push(format!("{} {:?}", seen.id, seen.state));
        facts.push(seen.graph.clone().unwrap_or_default());
    }
    let facts: Vec<&str> = facts.iter().map(String::as_str).collect();
    digest(&facts)
}

fn parse(text: &str) -> Graph {
    GraphFile::parse(text).0.graph
}

/// Builds a step; its id is set when the plan is complete.
fn step(action: Action, precondition: Condition, evidence: Condition, reason: String) -> Step {
    Step {
        id: String::new(),
        action,
        precondition,
        evidence,
        limit_ms: REQUEST_MS,
        on_limit: OnLimit::Fail,
        undo: None,
        reason,
    }
}

/// Builds the step that gives an instance another graph.
fn set_graph(
    id: &InstanceId,
    graph: &Graph,
    before: Option<&Graph>,
    order: InsertionOrder,
    reason: String,
) -> Step {
    let text = language::write(graph);
    let digest = digest(&[&text]);
    let instance = id.clone();
    let undo = before.map(|graph| Action::SetGraph {
        instance: id.clone(),
        graph: language::write(graph),
        order: InsertionOrder::MakeBeforeBreak,
    });
    let running = Condition::Running { instance: id.clone() };
    let evidence = Condition::Graph { instance: id.clone(), digest };
    let action = Action::SetGraph { instance, graph: text, order };
    Step { undo, ..step(action, running, evidence, reason) }
}

fn wait(id: &InstanceId, evidence: Condition, limit_ms: u64, reason: String) -> Step {
    let action = Action::Await { instance: id.clone() };
    Step { limit_ms, ..step(action, Condition::Always, evidence, reason) }
}

fn stop(id: &InstanceId, reason: String) -> Step {
    let instance = || id.clone();
    let action = Action::Stop { instance: instance() };
    step(action, Condition::Always, Condition::Absent { instance: instance() }, reason)
}

impl<'a> Planner<'a> {
    fn wave(&mut self, phase: Phase, steps: Vec<Step>) {
        if !steps.is_empty() {
            self.waves.push(Wave { phase, steps });
        }
    }

    /// Removes what has ended, and what drains although it is wanted.
    fn forget(&mut self) {
        let is_wanted = |seen: &&ObservedInstance| self.target.instance(&seen.id).is_some();
        let seen = || self.observed.instances.iter();
        let draining = seen().filter(|seen| seen.state == InstanceState::Draining);
        let draining: Vec<&InstanceId> = draining.filter(is_wanted).map(|seen| &seen.id).collect();
        let waits = draining.iter().map(|id| {
            let finished = Condition::Finished { instance: (*id).clone() };
            let reason = format!("{id} drains but is wanted: it starts again when it has finished");
            Step { on_limit: OnLimit::Continue, ..wait(id, finished, IDLE_MS, reason) }
        });
        let waits = waits.collect();
        let ended = seen().filter(|seen| seen.state == InstanceState::Ended);
        let stops = ended.map(|seen| stop(&seen.id, format!("{} has ended", seen.id)));
        let again = draining.iter().map(|id| stop(id, format!("{id} has been drained")));
        let stops = stops.chain(again).collect();
        self.wave(Phase::Forget, waits);
        self.wave(Phase::Forget, stops);
    }

    /// Starts what does not run, and waits until all that is wanted answers.
    fn start(&mut self) {
        let (mut starts, mut waits) = (Vec::new(), Vec::new());
        let later = |id: &InstanceId| self.successions.later.contains(id);
        for wanted in self.target.instances.iter().filter(|wanted| !later(&wanted.id)) {
            let id = || wanted.id.clone();
            let seen = self.observed.instance(&wanted.id);
            if !seen.is_some_and(ObservedInstance::is_alive) {
                let action = Action::Start {
                    instance: id(),
                    graph: wanted.graph.clone(),
                    quota_cores: wanted.quota_cores,
                };
                let reason = match seen {
                    Some(_) => format!("{} is wanted and no longer runs", wanted.id),
                    None => format!("{} is wanted and does not run", wanted.id),
                };
                let alive = Condition::Alive { instance: id() };
                starts.push(Step {
                    undo: Some(Action::Stop { instance: id() }),
                    ..step(action, Condition::Absent { instance: id() }, alive, reason)
                });
            }
            let running = Condition::Running { instance: id() };
            if !running.holds(self.observed) {
                let reason = format!("{} must answer before Interests are sent to it", wanted.id);
                waits.push(wait(&wanted.id, running, READY_MS, reason));
            }
        }
        self.wave(Phase::Start, starts);
        self.wave(Phase::Ready, waits);
    }

    /// Returns whether instances that are starting may have been given another graph than the one
    /// that is wanted now. The plan then ends when they answer, and the next one knows.
    fn has_unknown_graphs(&self) -> bool {
        let seen = self.target.instances.iter().filter_map(|one| self.observed.instance(&one.id));
        seen.into_iter().any(|seen| seen.state == InstanceState::Starting && seen.graph.is_none())
    }

    /// Changes graphs of what stays, and ends what does not.
    fn change(&mut self) {
        self.find_kept();
        self.prefill();
        match self.target.order {
            InsertionOrder::Drop if self.successions.later.is_empty() => self.replace(),
            InsertionOrder::Drop => {}
            order => {
                self.wire();
                self.connect();
                // What the old instances use stays until those that follow them run.
                if self.successions.later.is_empty() {
                    self.switch(order);
                    self.route();
                    self.await_idle();
                    self.unwire();
                }
            }
        }
        self.retire();
    }

    /// Collects the instances that run and stay.
    fn find_kept(&mut self) {
        for target in &self.target.instances {
            let seen = self.observed.instance(&target.id).filter(|seen| seen.is_alive());
            let Some(text) = seen.and_then(|seen| seen.graph.as_ref()) else { continue };
            if *text == target.graph {
                continue;
            }
            let (now, wanted) = (parse(text), parse(&target.graph));
            if language::write(&now) != language::write(&wanted) {
                let current = now.clone();
                self.kept.push(Kept { target, now, wanted, current });
            }
        }
    }

    fn is_new(&self, id: &InstanceId) -> bool {
        !self.observed.instance(id).is_some_and(ObservedInstance::is_alive)
    }

    /// Fills the stores of new instances from another instance of the service.
    fn prefill(&mut self) {
        let mut steps = Vec::new();
        let fills = |id: &InstanceId| self.is_new(id) && !self.successions.later.contains(id);
        for wanted in self.target.instances.iter().filter(|wanted| fills(&wanted.id)) {
            let source = self.target.instances.iter().find(|other| {
                let seen = self.observed.instance(&other.id).filter(|seen| seen.is_alive());
                other.service == wanted.service && seen.is_some_and(|seen| seen.cached_packets > 0)
            });
            let Some(source) = source else { continue };
            for element in &wanted.stores {
                steps.push(self.copy(&source.id, &wanted.id, element));
            }
        }
        self.wave(Phase::Prefill, steps);
    }

    fn copy(&self, from: &InstanceId, to: &InstanceId, element: &str) -> Step {
        let above = self.observed.instance(to).map_or(0, |seen| seen.imported_packets);
        let action = Action::CopyStore {
            from: from.clone(),
            to: to.clone(),
            element: element.to_owned(),
            bytes_max: COPY_BYTES_MAX,
        };
        let reason = format!("what {from} keeps in {element:?} shall be found at {to}");
        let evidence = Condition::Imported { instance: to.clone(), above };
        let running = Condition::Running { instance: to.clone() };
        Step { on_limit: OnLimit::Continue, ..step(action, running, evidence, reason) }
    }

    /// Adds faces that nothing is sent to yet.
    fn wire(&mut self) {
        let mut steps = Vec::new();
        for kept in &mut self.kept {
            let wired = with_faces_of(&kept.now, &kept.wanted);
            let new = wired.faces.len() - kept.now.faces.len();
            if language::write(&wired) == language::write(&kept.now) {
                continue;
            }
            let id = &kept.target.id;
            let reason =
                format!("{id} accepts packets by {new} new faces; it sends none there yet");
            let order = InsertionOrder::MakeBeforeBreak;
            steps.push(set_graph(id, &wired, Some(&kept.now), order, reason));
            kept.current = wired;
        }
        self.wave(Phase::Wire, steps);
    }

    /// Waits until all links between instances are up, if a new path is about to be used. Otherwise
    /// a link that is down is connected again by its services, without a plan.
    fn connect(&mut self) {
        if self.kept.is_empty() && self.waves.is_empty() {
            return;
        }
        let mut faces: BTreeMap<&InstanceId, Vec<String>> = BTreeMap::new();
        let later = |id: &InstanceId| self.successions.later.contains(id);
        for link in &self.target.links {
            if later(&link.from.instance) || later(&link.to.instance) {
                continue;
            }
            for end in [&link.from, &link.to] {
                let seen = self.observed.instance(&end.instance);
                let is_up =
                    seen.and_then(|seen| seen.face(&end.face)).is_some_and(|face| face.is_up);
                if !is_up {
                    faces.entry(&end.instance).or_default().push(end.face.clone());
                }
            }
        }
        let steps = faces.into_iter().map(|(id, faces)| {
            let reason = format!("{} links of {id} must be up before they are used", faces.len());
            wait(id, Condition::Up { instance: id.clone(), faces }, READY_MS, reason)
        });
        let steps = steps.collect();
        self.wave(Phase::Connect, steps);
    }

    /// Gives instances their new elements and connections, nearest to the producers first: so an
    /// Interest that has taken the new path never comes back to an instance with the old one.
    fn switch(&mut self, order: InsertionOrder) {
        let depths: BTreeSet<u32> = self.kept.iter().map(|kept| kept.target.depth).collect();
        for depth in depths {
            let mut steps = Vec::new();
            for kept in self.kept.iter_mut().filter(|kept| kept.target.depth == depth) {
                let mut wanted = kept.wanted.clone();
                keep_routes(&kept.now, &mut wanted);
                let switched = with_faces_of(&wanted, &kept.current);
                if language::write(&switched) == language::write(&kept.current) {
                    continue;
                }
                let id = &kept.target.id;
                let reason = format!(
                    "{id} sends Interests by its new faces; replies still return by the old ones"
                );
                steps.push(set_graph(id, &switched, Some(&kept.current), order, reason));
                kept.current = switched;
            }
            self.wave(Phase::Switch, steps);
        }
    }

    /// Changes routes prefix by prefix in the order of [`push_order`].
    fn route(&mut self) {
        if self.kept.iter().all(|kept| routes_of(&kept.current) == routes_of(&kept.wanted)) {
            return;
        }
        for instances in self.turns().into_values() {
            let mut steps = Vec::new();
            for (at, prefixes) in instances {
                let id = &self.target.instances[at].id;
                let Some(kept) = self.kept.iter_mut().find(|kept| kept.target.id == *id) else {
                    continue;
                };
                let mut routed = kept.current.clone();
                take_routes(&mut routed, &kept.wanted, |prefix| prefixes.contains(prefix));
                if language::write(&routed) == language::write(&kept.current) {
                    continue;
                }
                let reason = format!("{id} changes routes of {} prefixes", prefixes.len());
                let order = InsertionOrder::MakeBeforeBreak;
                steps.push(set_graph(id, &routed, Some(&kept.current), order, reason));
                kept.current = routed;
            }
            self.wave(Phase::Route, steps);
        }
    }

    /// Returns, by turn and number of the instance, the prefixes whose routes it changes.
    fn turns(&self) -> BTreeMap<usize, BTreeMap<usize, BTreeSet<String>>> {
        let (hops, changed) = self.next_hops();
        let mut turns: BTreeMap<usize, BTreeMap<usize, BTreeSet<String>>> = BTreeMap::new();
        for prefix in changed {
            let Some([old, new]) = hops.get(&prefix) else { continue };
            let mut order = push_order(old, new);
            let ordered: BTreeSet<usize> = order.iter().flatten().copied().collect();
            // Costs alone may change as well: the order of those does not matter.
            let others = old.keys().chain(new.keys()).copied().filter(|at| !ordered.contains(at));
            let others: BTreeSet<usize> = others.collect();
            order.push(others.into_iter().collect());
            for (turn, group) in order.into_iter().enumerate() {
                for instance in group {
                    let prefixes = turns.entry(turn).or_default().entry(instance).or_default();
                    prefixes.insert(prefix.clone());
                }
            }
        }
        turns
    }

    /// Returns the next hops of each prefix now and as they are wanted, and the prefixes that
    /// change. Instances are numbered in the order of the target.
    fn next_hops(&self) -> (BTreeMap<String, [NextHops; 2]>, BTreeSet<String>) {
        let peers = self.peers();
        let instances = self.target.instances.iter().enumerate();
        let numbers: BTreeMap<&InstanceId, usize> =
            instances.map(|(at, instance)| (&instance.id, at)).collect();
        let kept: BTreeMap<&InstanceId, &Kept<'_>> =
            self.kept.iter().map(|kept| (&kept.target.id, kept)).collect();
        let mut hops: BTreeMap<String, [NextHops; 2]> = BTreeMap::new();
        let mut changed: BTreeSet<String> = BTreeSet::new();
        for (number, instance) in self.target.instances.iter().enumerate() {
            let [current, wanted] = match kept.get(&instance.id) {
                Some(kept) => [routes_of(&kept.current), routes_of(&kept.wanted)],
                None => {
                    let routes = routes_of(&parse(&instance.graph));
                    [routes.clone(), routes]
                }
            };
            for (at, routes) in [&current, &wanted].into_iter().enumerate() {
                for ((_, prefix), text) in routes {
                    let words = text.split_whitespace().skip(1);
                    let faces = words.filter(|word| !word.starts_with("cost="));
                    let next = faces.map(|face| {
                        let peer = peers.get(&(&instance.id, face));
                        peer.and_then(|peer| numbers.get(*peer)).copied()
                    });
                    let all = hops.entry(prefix.clone()).or_default();
                    all[at].entry(number).or_default().extend(next);
                }
            }
            let keys = current.keys().chain(wanted.keys());
            let differs = keys.filter(|key| current.get(*key) != wanted.get(*key));
            changed.extend(differs.map(|(_, prefix)| prefix.clone()));
        }
        (hops, changed)
    }

    /// Returns the instance at the other end of each face of a link.
    fn peers(&self) -> BTreeMap<(&'a InstanceId, &'a str), &'a InstanceId> {
        let ends = self.target.links.iter().flat_map(|link| {
            let (from, to) = (&link.from, &link.to);
            [
                ((&from.instance, from.face.as_str()), &to.instance),
                ((&to.instance, to.face.as_str()), &from.instance),
            ]
        });
        ends.collect()
    }

    /// Waits until nothing is pending by faces that are about to be removed.
    fn await_idle(&mut self) {
        let mut steps = Vec::new();
        for kept in &self.kept {
            let is_old = |name: &&String| kept.wanted.face_index(name).is_none();
            let faces = kept.current.faces.iter().map(|face| &face.name);
            let faces: Vec<String> = faces.filter(is_old).cloned().collect();
            if faces.is_empty() {
                continue;
            }
            let id = &kept.target.id;
            let reason = format!("replies may still come by {} old faces of {id}", faces.len());
            let idle = Condition::Idle { instance: id.clone(), faces };
            steps.push(Step { on_limit: OnLimit::Continue, ..wait(id, idle, IDLE_MS, reason) });
        }
        self.wave(Phase::AwaitIdle, steps);
    }

    /// Gives all instances exactly the graph they shall have.
    fn unwire(&mut self) {
        let mut steps = Vec::new();
        for kept in &mut self.kept {
            if language::write(&kept.current) == language::write(&kept.wanted) {
                continue;
            }
            let id = &kept.target.id;
            let reason = format!("{id} no longer needs its old faces");
            let order = InsertionOrder::MakeBeforeBreak;
            steps.push(set_graph(id, &kept.wanted, None, order, reason));
            kept.current = kept.wanted.clone();
        }
        self.wave(Phase::Unwire, steps);
    }

    /// Gives all instances their graph at once: what is pending on the old path is lost.
    fn replace(&mut self) {
        let steps = self.kept.iter().map(|kept| {
            let id = &kept.target.id;
            let reason = format!("{id} gets its new graph; what is pending on the old one is lost");
            set_graph(id, &kept.wanted, Some(&kept.now), InsertionOrder::Drop, reason)
        });
        let steps = steps.collect();
        self.wave(Phase::Switch, steps);
    }

    /// Ends instances that are no longer wanted.
    fn retire(&mut self) {
        let is_old = |seen: &&ObservedInstance| {
            self.target.instance(&seen.id).is_none()
                && seen.state != InstanceState::Ended
                && self.successions.may_end(&seen.id)
        };
        let old: Vec<&ObservedInstance> = self.observed.instances.iter().filter(is_old).collect();
        if self.target.order != InsertionOrder::Drop {
            let copies = old.iter().flat_map(|seen| self.hand_over(seen)).collect();
            self.wave(Phase::HandOver, copies);
            // One that never answered has nothing to finish.
            let answering = old.iter().copied().filter(|seen| seen.graph.is_some()).collect();
            for group in self.drain_order(answering) {
                let drains = group.iter().map(|seen| {
                    let instance = || seen.id.clone();
                    let action = Action::Drain { instance: instance() };
                    let leaving = Condition::Leaving { instance: instance() };
                    let reason = format!("{} is no longer wanted", seen.id);
                    let drain = step(action, Condition::Always, leaving, reason);
                    Step { on_limit: OnLimit::Continue, ..drain }
                });
                let drains = drains.collect();
                let waits = group.iter().map(|seen| {
                    let finished = Condition::Finished { instance: seen.id.clone() };
                    let reason = format!("Interests may be pending in {}", seen.id);
                    Step {
                        on_limit: OnLimit::Continue,
                        ..wait(&seen.id, finished, IDLE_MS, reason)
                    }
                });
                let waits = waits.collect();
                self.wave(Phase::Drain, drains);
                self.wave(Phase::Drain, waits);
            }
        }
        let stops =
            old.iter().map(|seen| stop(&seen.id, format!("{} is no longer wanted", seen.id)));
        let stops = stops.collect();
        self.wave(Phase::Stop, stops);
    }

    /// Returns old instances in the order in which they drain. Those of an older revision still
    /// send Interests to each other: the one nearest to the consumers finishes first.
    fn drain_order(&self, old: Vec<&'a ObservedInstance>) -> Vec<Vec<&'a ObservedInstance>> {
        let mut groups: BTreeMap<Reverse<u32>, Vec<&ObservedInstance>> = BTreeMap::new();
        for seen in old {
            let is_next = |other: &&Instance| {
                other.service == seen.id.service() && other.id.revision() != seen.id.revision()
            };
            let next = self.target.instances.iter().find(is_next);
            let depth = next.map_or(u32::MAX, |next| next.depth);
            groups.entry(Reverse(depth)).or_default().push(seen);
        }
        groups.into_values().collect()
    }

    /// Returns the steps that hand the stores of an instance over to those that stay.
    fn hand_over(&self, seen: &ObservedInstance) -> Vec<Step> {
        let service = seen.id.service();
        if seen.cached_packets == 0 || seen.graph.is_none() {
            return Vec::new();
        }
        let stays = self.target.instances.iter().filter(|other| {
            other.service == service && !self.successions.later.contains(&other.id)
        });
        let stays: Vec<&Instance> = stays.collect();
        let copies = stays
            .iter()
            .flat_map(|to| to.stores.iter().map(|element| self.copy(&seen.id, &to.id, element)));
        copies.collect()
    }
}

/// Routes of a graph by element and prefix, as texts.
type Routes = BTreeMap<(String, String), String>;

/// Returns the routes of all name routers of a graph.
fn routes_of(graph: &Graph) -> Routes {
    let mut routes = Routes::new();
    for node in graph.nodes.iter().filter(|node| routes_by_name(node.entry.name)) {
        if let Some(Value::List(list)) = node.parameters.get("routes") {
            for value in list {
                if let Value::Text(text) = value {
                    let prefix = text.split_whitespace().next().unwrap_or_default();
                    routes.insert((node.name.clone(), prefix.to_owned()), text.clone());
                }
            }
        }
    }
    routes
}

fn routes_by_name(element: &str) -> bool {
    ["name_router", "router"].contains(&element)
}

/// Replaces the routes of a graph's elements.
fn set_routes(graph: &mut Graph, routes: &Routes) {
    for node in graph.nodes.iter_mut().filter(|node| routes_by_name(node.entry.name)) {
        let own = routes.iter().filter(|((element, _), _)| *element == node.name);
        let list: Vec<Value> = own.map(|(_, text)| Value::Text(text.clone())).collect();
        match node.parameters.0.iter_mut().find(|(name, _)| name == "routes") {
            Some((_, value)) => *value = Value::List(list),
            None if list.is_empty() => {}
            None => node.parameters.0.push(("routes".to_owned(), Value::List(list))),
        }
    }
}

/// Gives `wanted` the routes of `now`, as far as it has their faces; routes that lose all their
/// faces are those of `wanted`.
fn keep_routes(now: &Graph, wanted: &mut Graph) {
    let (old, new) = (routes_of(now), routes_of(wanted));
    if old == new {
        return;
    }
    let mut routes = Routes::new();
    for (key, text) in &old {
        if wanted.node_index(&key.0).is_none() {
            continue;
        }
        let mut words = text.split_whitespace().peekable();
        let mut left: Vec<&str> = words.next().into_iter().collect();
        while let Some(face) = words.next() {
            let cost = words.next_if(|next| next.starts_with("cost="));
            if wanted.face_index(face).is_some() {
                left.push(face);
                left.extend(cost);
            }
        }
        if left.len() > 1 {
            let is_whole = left.len() == text.split_whitespace().count();
            let text = if is_whole { text.clone() } else { left.join(" ") };
            routes.insert(key.clone(), text);
        } else if let Some(text) = new.get(key) {
            routes.insert(key.clone(), text.clone());
        }
    }
    // An element that is new has its routes from the start.
    let is_new = |key: &&(String, String)| now.node_index(&key.0).is_none();
    for key in new.keys().filter(is_new) {
        routes.insert(key.clone(), new[key].clone());
    }
    set_routes(wanted, &routes);
}

/// Gives a graph the routes of another one for some prefixes.
fn take_routes(graph: &mut Graph, wanted: &Graph, takes: impl Fn(&str) -> bool) {
    let mut routes = routes_of(graph);
    routes.retain(|(_, prefix), _| !takes(prefix));
    routes.extend(routes_of(wanted).into_iter().filter(|((_, prefix), _)| takes(prefix)));
    if routes == routes_of(wanted) {
        // In the order of the wanted graph, so that nothing is left to do.
        let lists: BTreeMap<&str, &Value> = wanted
            .nodes
            .iter()
            .filter_map(|node| Some((node.name.as_str(), node.parameters.get("routes")?)))
            .collect();
        for node in graph.nodes.iter_mut().filter(|node| routes_by_name(node.entry.name)) {
            match lists.get(node.name.as_str()) {
                Some(value) => {
                    match node.parameters.0.iter_mut().find(|(name, _)| name == "routes") {
                        Some((_, own)) => *own = (*value).clone(),
                        None => node.parameters.0.push(("routes".to_owned(), (*value).clone())),
                    }
                }
                None => node.parameters.0.retain(|(name, _)| name != "routes"),
            }
        }
        return;
    }
    set_routes(graph, &routes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observed::{InstanceState, ObservedInstance};

    fn observed(state: InstanceState, graph: Option<&str>) -> Observed {
        let id = InstanceId { name: "br~1".to_owned(), host: "a".to_owned() };
        let graph = graph.map(str::to_owned);
        let instance = ObservedInstance {
            id,
            state,
            graph,
            faces: vec![],
            pending: 0,
            is_changing: false,
            cached_packets: 0,
            imported_packets: 0,
        };
        Observed { instances: vec![instance] }
    }

    /// A plan that a person has agreed to is carried out only in the world that it was made for.
    #[test]
    fn plan_id_changes_with_state_and_graph_of_instances() {
        use InstanceState::{Draining, Ended, Running, Starting};
        let target = Target::default();
        let mut worlds = vec![Observed::default()];
        for state in [Starting, Running, Draining, Ended] {
            for graph in [None, Some("cs = content_store"), Some("br = backward_router")] {
                worlds.push(observed(state, graph));
            }
        }
        let other_host = |mut world: Observed| {
            world.instances[0].id.host = "b".to_owned();
            world
        };
        worlds.push(other_host(observed(Running, None)));
        let ids: BTreeSet<String> = worlds.iter().map(|world| id(&target, world)).collect();
        assert_eq!(ids.len(), worlds.len(), "two of these worlds have the same id");
        assert_eq!(id(&target, &worlds[1]), id(&target, &worlds[1].clone()));
    }
}
