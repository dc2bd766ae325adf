//! Plans carried out by an engine that fails, delays and repeats: at no step is anything
//! unreachable that was reachable before and is after, and nothing that is pending is lost.

use crate::world::{FOLDER, Fault, Outcome, World};
use nw_graph_language::GraphFile;
use nw_manage::plan::{Action, Phase};
use nw_manage::target::{Decisions, Registration};
use nw_manage::{Document, InstanceId, Target, expand, plan};
use proptest::prelude::*;
use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::path::Path;

const PREFIXES: &[&str] = &["/", "/campus/archive", "/campus/experiments", "/new"];

fn read(name: &str, text: &str) -> Document {
    Document::read(name, name, text).unwrap_or_else(|problems| panic!("{problems}"))
}

fn target_of(document: &Document, decisions: &Decisions) -> Target {
    expand(document, decisions, Path::new(FOLDER)).unwrap_or_else(|error| panic!("{error}"))
}

fn campus() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/networks/campus.graph");
    std::fs::read_to_string(path).expect("text")
}

/// Variants of a chain of services: with a filter in a service of its own, in the process of the
/// store, or without one; in two orders.
fn chain(filter: u8, order: &str, scaled: &str) -> String {
    let (declared, miss, service) = match filter {
        0 => (
            "",
            "cs.miss -> br.interest -> nr.interest -> faces\nbr.data -> cs.data\nbr.nack -> faces",
            "service cs { cs }",
        ),
        1 => (
            "nf = counter",
            "cs.miss -> nf.packet -> br.interest -> nr.interest -> faces\nbr.data -> cs.data\nbr.nack -> faces",
            "service cs { cs }\nservice nf { nf }",
        ),
        _ => (
            "nf = counter",
            "cs.miss -> nf.packet -> br.interest -> nr.interest -> faces\nbr.data -> cs.data\nbr.nack -> faces",
            "service cs { cs, nf }",
        ),
    };
    format!(
        "face consumers listens unix:///tmp/c.sock
face producer = unix:///tmp/p.sock
pd = packet_dispatcher
cs = content_store
br = backward_router
nr = name_router
{declared}
consumers -> pd.packet
pd.interest -> cs.interest
{miss}
cs.hit -> faces
cs.data -> faces
producer -> nr.interest
producer -> nr.data -> br.data
producer -> nr.nack -> br.nack
pd.data -> br.data
pd.nack -> br.nack
{service}
service pd {{ pd }}
scale {scaled} 1..4
route / at nr.producer
insert {order}
"
    )
}

/// A wanted state: a document and how often its services run.
#[derive(Clone, Debug)]
struct Wish {
    text: String,
    replicas: Vec<(String, u32)>,
    registered: bool,
    revision: &'static str,
}

thread_local! {
    /// Targets by wish: the checker builds every element of a graph, which takes most of the time.
    static TARGETS: RefCell<HashMap<String, Target>> = RefCell::default();
}

impl Wish {
    fn target(&self) -> Target {
        let key = format!("{self:?}");
        let known = TARGETS.with(|targets| targets.borrow().get(&key).cloned());
        known.unwrap_or_else(|| {
            let target = self.expand();
            TARGETS.with(|targets| targets.borrow_mut().insert(key, target.clone()));
            target
        })
    }

    fn expand(&self) -> Target {
        let document = read("net", &self.text);
        let mut decisions =
            Decisions { replicas: self.replicas.iter().cloned().collect(), ..Decisions::default() };
        self.revision.clone_into(&mut decisions.revision);
        if self.registered {
            decisions.registrations.push(Registration {
                instance: InstanceId { name: "nr2~1".to_owned(), host: "laboratory".to_owned() },
                element: "nr2".to_owned(),
                prefix: "/new".to_owned(),
                cost: 0,
            });
        }
        target_of(&document, &decisions)
    }
}

fn chain_wish() -> impl Strategy<Value = Wish> {
    let scaled = prop_oneof![Just("br"), Just("cs"), Just("nr")];
    let order = prop_oneof![Just("make-before-break"), Just("buffer")];
    let revision = prop_oneof![3 => Just(""), 1 => Just("a1")];
    let parts = (0u8..3, order, scaled, 1u32..4, revision);
    parts.prop_map(|(filter, order, scaled, count, revision)| Wish {
        text: chain(filter, order, scaled),
        replicas: vec![(scaled.to_owned(), count)],
        registered: false,
        revision,
    })
}

fn campus_wish() -> impl Strategy<Value = Wish> {
    (1u32..4, 1u32..3, any::<bool>(), any::<bool>()).prop_map(|(one, two, registered, by_core)| {
        let mut text = campus();
        if by_core {
            text = text.replace("route / at fib.uplink cost=10", "route / at nr1.archive");
        }
        let replicas = vec![("br1".to_owned(), one), ("br2".to_owned(), two)];
        Wish { text, replicas, registered, revision: "" }
    })
}

/// Carries a plan out and checks after each action that what stays reachable was never lost.
fn check_change(from: &Wish, to: &Wish, faults: &[u8], end: usize) {
    let (before, after) = (from.target(), to.target());
    let mut world = World::of(&before);
    for _ in 0..3 {
        world.pass_time();
    }
    let last = World::of(&after);
    let stays: BTreeSet<_> =
        world.reachable(PREFIXES).intersection(&last.reachable(PREFIXES)).cloned().collect();
    assert!(!stays.is_empty(), "something is reachable before and after");
    let mut end = Some(end);
    for _ in 0..40 {
        let made = plan(&after, &world.observe());
        if made.is_empty() {
            break;
        }
        let mut fault = |call: usize| match faults.get(call % (faults.len() + 1)) {
            Some(0) => Fault::Fails,
            Some(1) => Fault::Repeats,
            Some(2) => Fault::Delays,
            _ => Fault::None,
        };
        world.carry_out(&made, &mut fault, end.take(), &mut |world, step| {
            let now = world.reachable(PREFIXES);
            let missing: Vec<_> = stays.difference(&now).collect();
            assert!(missing.is_empty(), "after step {} ({}): {missing:?}", step.id, step.reason);
        });
    }
    assert!(plan(&after, &world.observe()).is_empty(), "the target is reached");
    let texts: Vec<(InstanceId, String)> =
        world.instances.iter().map(|(id, fake)| (id.clone(), fake.text.clone())).collect();
    let wanted: Vec<(InstanceId, String)> = after
        .instances
        .iter()
        .map(|instance| (instance.id.clone(), instance.graph.clone()))
        .collect();
    assert_eq!(texts, wanted);
    assert_eq!(world.lost, 0, "nothing that was pending is lost");
}

fn config() -> ProptestConfig {
    ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn chain_changed_with_faults_reachable_throughout(
        from in chain_wish(),
        to in chain_wish(),
        faults in proptest::collection::vec(0u8..12, 0..12),
        end in 0usize..40,
    ) {
        check_change(&from, &to, &faults, end);
    }

    #[test]
    fn campus_changed_with_faults_reachable_throughout(
        from in campus_wish(),
        to in campus_wish(),
        faults in proptest::collection::vec(0u8..12, 0..12),
        end in 0usize..60,
    ) {
        check_change(&from, &to, &faults, end);
    }
}

#[test]
fn target_reached_from_nothing_and_plan_of_target_empty() {
    let wish = Wish {
        text: campus(),
        replicas: vec![("br1".to_owned(), 3)],
        registered: true,
        revision: "",
    };
    let target = wish.target();
    let mut world = World::default();
    let made = plan(&target, &world.observe());
    let outcome = world.carry_out(&made, &mut |_| Fault::None, None, &mut |_, _| {});
    assert_eq!(outcome, Outcome::Done);
    assert!(plan(&target, &world.observe()).is_empty());
    assert_eq!(target, wish.expand(), "the same input gives the same target");
}

#[test]
fn dead_instance_started_again_and_nothing_else_done() {
    let target =
        Wish { text: campus(), replicas: vec![], registered: false, revision: "" }.target();
    let mut world = World::of(&target);
    let dead = target.instances[2].id.clone();
    world.instances.remove(&dead);
    let made = plan(&target, &world.observe());
    let phases: Vec<Phase> = made.waves.iter().map(|wave| wave.phase).collect();
    assert_eq!(phases, [Phase::Start, Phase::Ready, Phase::Connect]);
    world.carry_out(&made, &mut |_| Fault::None, None, &mut |_, _| {});
    assert!(plan(&target, &world.observe()).is_empty());
}

#[test]
fn link_that_is_down_needs_no_plan() {
    let target =
        Wish { text: campus(), replicas: vec![], registered: false, revision: "" }.target();
    let mut observed = World::of(&target).observe();
    let faces = observed.instances.iter_mut().flat_map(|seen| &mut seen.faces);
    faces.for_each(|face| face.is_up = false);
    assert!(plan(&target, &observed).is_empty());
}

#[test]
fn plan_id_changes_with_the_world_and_with_the_target() {
    let target =
        Wish { text: campus(), replicas: vec![], registered: false, revision: "" }.target();
    let other = Wish {
        text: campus(),
        replicas: vec![("br1".to_owned(), 2)],
        registered: false,
        revision: "",
    };
    let mut world = World::of(&target);
    let id = plan(&target, &world.observe()).id;
    assert_eq!(id, plan(&target, &world.observe()).id);
    assert_ne!(id, plan(&other.target(), &world.observe()).id);
    world.instances.pop_first();
    assert_ne!(id, plan(&target, &world.observe()).id);
}

#[test]
fn drop_order_replaces_graphs_at_once() {
    let from =
        Wish { text: chain(0, "drop", "br"), replicas: vec![], registered: false, revision: "" };
    let to =
        Wish { text: chain(1, "drop", "br"), replicas: vec![], registered: false, revision: "" };
    let mut world = World::of(&from.target());
    let made = plan(&to.target(), &world.observe());
    let phases: Vec<Phase> = made.waves.iter().map(|wave| wave.phase).collect();
    assert_eq!(phases, [Phase::Start, Phase::Ready, Phase::Switch]);
    assert_eq!(world.carry_out(&made, &mut |_| Fault::None, None, &mut |_, _| {}), Outcome::Done);
    assert!(plan(&to.target(), &world.observe()).is_empty());
}

/// Every graph that a plan gives to a service on the way is one that a service accepts.
#[test]
fn graphs_on_the_way_pass_the_checker() {
    let wish = |filter, scaled: &str, count| Wish {
        revision: "",
        text: chain(filter, "make-before-break", scaled),
        replicas: vec![(scaled.to_owned(), count)],
        registered: false,
    };
    let wishes = [wish(0, "br", 1), wish(1, "br", 2), wish(2, "cs", 2), wish(0, "nr", 2)];
    let mut checked = 0;
    for from in &wishes {
        for to in &wishes {
            let made = plan(&to.target(), &World::of(&from.target()).observe());
            for step in made.steps() {
                let Action::SetGraph { instance, graph, .. } = &step.action else { continue };
                if let Err(problems) = GraphFile::read(&instance.name, graph) {
                    panic!("{}: {}\n{problems}\n{graph}", step.id, step.reason);
                }
                checked += 1;
            }
        }
    }
    assert!(checked > 20, "{checked}");
}

#[test]
fn another_revision_starts_all_beside_the_old_ones_which_drain_from_the_consumers_on() {
    let wish = |revision| Wish {
        text: chain(0, "make-before-break", "br"),
        replicas: vec![("br".to_owned(), 2)],
        registered: false,
        revision,
    };
    let (before, after) = (wish("").target(), wish("a1").target());
    let ids = |target: &Target| {
        target.instances.iter().map(|found| found.id.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(ids(&before), ["br~1", "br~2", "cs~1", "nr~1", "pd~1"]);
    assert_eq!(ids(&after)[0], "br~1-a1");
    assert!(before.links.iter().all(|link| after.links.iter().all(|new| new.id != link.id)));
    let made = plan(&after, &World::of(&before).observe());
    let started = made.steps().filter(|step| matches!(step.action, Action::Start { .. })).count();
    assert_eq!(started, before.instances.len());
    let drains = made.waves.iter().filter(|wave| wave.phase == Phase::Drain);
    let drained: Vec<Vec<&str>> = drains
        .map(|wave| {
            let drain = |step: &nw_manage::plan::Step| matches!(step.action, Action::Drain { .. });
            let steps = wave.steps.iter().filter(|step| drain(step));
            steps
                .map(|step| match &step.action {
                    Action::Drain { instance } => {
                        before.instance(instance).unwrap().service.as_str()
                    }
                    _ => "",
                })
                .collect()
        })
        .filter(|names: &Vec<&str>| !names.is_empty())
        .collect();
    assert_eq!(drained, [vec!["pd"], vec!["cs"], vec!["br", "br"], vec!["nr"]]);
}

fn image_wish(image: &str) -> Wish {
    let chain = chain(0, "make-before-break", "br");
    Wish {
        text: format!("host here = docker{image}\n{chain}"),
        replicas: vec![("br".to_owned(), 2)],
        registered: false,
        revision: "",
    }
}

/// Wherever the manager ends while images change, and whatever calls fail, the next plans lead to
/// the target.
#[test]
fn another_image_with_faults_ends_in_the_target_and_loses_nothing() {
    let [before, after] = [" image=namewire:1", ""].map(|image| image_wish(image).target());
    let faults = [Fault::None, Fault::Delays, Fault::None, Fault::Fails, Fault::Repeats];
    for end in 0..24 {
        let mut world = World::of(&before);
        (0..3).for_each(|_| world.pass_time());
        let mut end = Some(end);
        for _ in 0..40 {
            let made = plan(&after, &world.observe());
            let mut fault = |call: usize| faults[call % faults.len()];
            world.carry_out(&made, &mut fault, end.take(), &mut |_, _| {});
        }
        assert!(plan(&after, &world.observe()).is_empty(), "interrupted at {end:?}");
        assert_eq!((world.lost, world.instances.len()), (0, after.instances.len()));
    }
}

/// Another image of a host: what listens outside of the network follows the old container, all
/// others start beside those that run.
#[test]
fn another_image_of_a_host_replaces_its_containers_and_loses_nothing() {
    let (before, after) =
        (image_wish(" image=namewire:1").target(), image_wish(" image=namewire:2").target());
    assert_eq!(before, image_wish(" image=namewire:1").expand(), "names follow from the document");
    let names = |target: &Target| -> BTreeSet<String> {
        target.instances.iter().map(|found| found.id.name.clone()).collect()
    };
    assert!(names(&before).is_disjoint(&names(&after)), "{:?}", names(&after));
    assert!(
        names(&image_wish("").target()).contains("br~1"),
        "without an image: the service's own name"
    );
    let mut world = World::of(&before);
    for _ in 0..3 {
        world.pass_time();
    }
    let reachable = world.reachable(PREFIXES);
    let mut log: Vec<String> = Vec::new();
    let mut plans = 0;
    loop {
        let made = plan(&after, &world.observe());
        if made.is_empty() {
            break;
        }
        plans += 1;
        assert!(plans < 6, "{log:#?}");
        world.carry_out(&made, &mut |_| Fault::None, None, &mut |_, step| match &step.action {
            Action::Start { instance, .. } => log.push(format!("start {}", instance.service())),
            Action::Stop { instance } => log.push(format!("stop {}", instance.service())),
            _ => {}
        });
    }
    let at = |text: &str| log.iter().position(|line| line == text).unwrap_or(usize::MAX);
    // Consumers connect to `pd`: its container ends before the new one starts.
    assert!(at("stop pd") < at("start pd"), "{log:#?}");
    for service in ["br", "cs", "nr"] {
        assert!(at(&format!("start {service}")) < at("stop pd"), "{log:#?}");
        assert!(at("start pd") < at(&format!("stop {service}")), "{log:#?}");
    }
    let running: BTreeSet<String> = world.instances.keys().map(|id| id.name.clone()).collect();
    assert_eq!(running, names(&after));
    assert_eq!(world.reachable(PREFIXES), reachable);
    assert_eq!(world.lost, 0);
}
