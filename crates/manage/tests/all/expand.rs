//! Documents to targets: the example networks, scaled, defended and changed. Every graph text must
//! be one that a service accepts.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use nw_graph_language::GraphFile;
use nw_manage::target::{
    AddedRoute, Countermeasure, Decisions, Link, Origin, Registration, SigningRule,
};
use nw_manage::{Document, InstanceId, Target, expand};
use nw_name::Name;
use nw_trust::certificate::self_signed;
use nw_trust::{Key, KeyKind, Validity};
use std::collections::BTreeMap;
use std::path::Path;

fn file(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    std::fs::read_to_string(path).expect("text")
}

fn example(name: &str) -> Document {
    let text = file(&format!("examples/networks/{name}.graph"));
    Document::read(name, name, &text).unwrap_or_else(|problems| panic!("{problems}"))
}

fn expanded(document: &Document, decisions: &Decisions) -> Target {
    let target = expand(document, decisions, Path::new("/run/nw/net")).expect("a target");
    for instance in &target.instances {
        if let Err(problems) = GraphFile::read(&instance.id.name, &instance.graph) {
            panic!("{problems}\n{}", instance.graph);
        }
    }
    target
}

fn replicas(counts: &[(&str, u32)]) -> Decisions {
    let replicas = counts.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
    Decisions { replicas, ..Decisions::default() }
}

fn graph_of<'a>(target: &'a Target, name: &str) -> &'a str {
    let found = target.instances.iter().find(|instance| instance.id.name == name);
    &found.unwrap_or_else(|| panic!("{name} is in {:?}", names(target))).graph
}

fn names(target: &Target) -> Vec<&str> {
    target.instances.iter().map(|instance| instance.id.name.as_str()).collect()
}

#[test]
fn one_sender_spreads_in_its_own_process() {
    let target = expanded(&example("chain"), &replicas(&[("br", 2)]));
    assert_eq!(names(&target), ["br~1", "br~2", "front~1", "nr~1"]);
    let front = graph_of(&target, "front~1");
    assert!(front.contains("balance-br = strategy_forwarder"), "{front}");
    assert!(front.contains("cs.miss -> balance-br.interest"), "{front}");
    assert_eq!(target.links.len(), 4);
}

#[test]
fn several_senders_share_a_forwarder_service() {
    let target = expanded(&example("campus"), &replicas(&[("br1", 3)]));
    let forwarders: Vec<&str> = target
        .instances
        .iter()
        .filter(|instance| instance.origin == Origin::Scaling)
        .map(|instance| instance.id.name.as_str())
        .collect();
    assert_eq!(forwarders, ["balance-br1-2~1", "balance-br1~1"]);
}

#[test]
fn replicas_beyond_bounds_clamped() {
    let target = expanded(&example("chain"), &replicas(&[("br", 99), ("nr", 5)]));
    let count =
        |service: &str| target.instances.iter().filter(|one| one.service == service).count();
    assert_eq!((count("br"), count("nr")), (3, 1));
}

/// Over many targets of one network: a face name never stands for two addresses.
#[test]
fn face_name_never_used_for_two_addresses() {
    let mut known: BTreeMap<(String, String), String> = BTreeMap::new();
    let mut add = |target: &Target| {
        for instance in &target.instances {
            let (file, _) = GraphFile::parse(&instance.graph);
            for face in file.graph.faces {
                let uri = face.uri.expect("an address");
                let key = (instance.id.to_string(), face.name);
                let before = known.entry(key.clone()).or_insert_with(|| uri.clone());
                assert_eq!(*before, uri, "{key:?}");
            }
        }
    };
    let campus = example("campus");
    let quick = |document: &Document, decisions: &Decisions| {
        expand(document, decisions, Path::new("/run/nw/net")).expect("a target")
    };
    for (one, two) in [(1, 1), (2, 1), (3, 2), (2, 3)] {
        add(&quick(&campus, &replicas(&[("br1", one), ("br2", two)])));
    }
    let text = file("examples/networks/campus.graph");
    for (old, new) in [
        ("ports=16400..16499", "ports=17400..17499"),
        ("unix:///tmp/nw-campus-archive.sock", "unix:///tmp/other.sock"),
        ("over tcp", "over udp"),
        ("service br1 on library", "service br1 on core"),
    ] {
        let text = text.replace(old, new);
        let document = Document::read("campus", "campus", &text).expect("a good document");
        add(&quick(&document, &replicas(&[("br1", 2)])));
    }
}

#[test]
fn registration_reaches_all_name_routers() {
    let registration = Registration {
        instance: InstanceId { name: "nr2~1".to_owned(), host: "laboratory".to_owned() },
        element: "nr2".to_owned(),
        prefix: "/new".to_owned(),
        cost: 0,
    };
    let decisions = Decisions { registrations: vec![registration], ..Decisions::default() };
    let target = expanded(&example("campus"), &decisions);
    assert!(graph_of(&target, "nr1~1").contains("\"/new library_core_"));
    assert!(graph_of(&target, "core~1").contains("\"/new core_laboratory_"));
    // The name router of the producer has the route itself.
    assert!(!graph_of(&target, "nr2~1").contains("/new"));
}

#[test]
fn route_of_a_person_is_added_where_it_fits_and_reaches_all_name_routers() {
    let route = |element: &str, face: &str, prefix: &str| AddedRoute {
        prefix: prefix.to_owned(),
        element: element.to_owned(),
        face: face.to_owned(),
        cost: 7,
    };
    let routes = vec![
        route("nr2", "experiments", "/hand"),
        route("nr2", "experiments", "/campus/experiments"),
        route("nr2", "archive", "/elsewhere"),
        route("gone", "experiments", "/gone"),
    ];
    let decisions = Decisions { routes, ..Decisions::default() };
    let target = expanded(&example("campus"), &decisions);
    let nr2 = graph_of(&target, "nr2~1");
    assert!(nr2.contains("\"/hand experiments_"), "{nr2}");
    assert!(graph_of(&target, "nr1~1").contains("\"/hand library_core_"));
    assert!(graph_of(&target, "core~1").contains("\"/hand core_laboratory_"));
    // A face of another service, and an element that is gone, have no effect.
    assert!(!nr2.contains("/elsewhere") && !nr2.contains("/gone"), "{nr2}");
    // The document's route stays, once.
    let count = nr2.matches("/campus/experiments experiments_").count();
    assert_eq!(count, 1, "{nr2}");
}

#[test]
fn keys_and_rules_reach_verifiers_and_registration_ports() {
    let (document, decisions) = defended();
    let text =
        document.text.replace("nr = name_router", "nr = name_router(commands = [\"localhop\"])");
    let document = Document::read("chain", "chain", &text).expect("a good document");
    let (anchor, chain) = (certificate("/a"), certificate("/b"));
    let added = Decisions {
        added_anchors: vec![anchor.clone()],
        certificates: vec![chain.clone()],
        added_rules: vec![SigningRule {
            names: "/a/<..>".to_owned(),
            keys: "/k/KEY/<_>".to_owned(),
        }],
        countermeasures: vec![verify("cs", false)],
        ..decisions
    };
    let target = expanded(&document, &added);
    let (nr, front) = (graph_of(&target, "nr~1"), graph_of(&target, "front~1"));
    for (graph, prefix) in [(nr, "command_"), (front, "")] {
        let rules = "[\"/site/<..> by /site/KEY/<..>\", \"/a/<..> by /k/KEY/<_>\"]";
        assert!(graph.contains(&format!("{prefix}rules = {rules}")), "{graph}");
        assert!(graph.contains(&format!("{prefix}certificates = [\"{chain}\"]")), "{graph}");
        assert!(graph.contains(&format!("\"{anchor}\"]")), "{graph}");
    }
    // A name router that takes no commands gets nothing.
    let quiet = expanded(&defended().0, &Decisions { countermeasures: Vec::new(), ..added });
    assert!(!graph_of(&quiet, "nr~1").contains("command_"));
}

/// Returns a new certificate in base64.
fn certificate(identity: &str) -> String {
    let identity: Name = identity.parse().expect("a name");
    let key = Key::generate(KeyKind::Ed25519, identity.as_ref()).expect("a key");
    let validity = Validity { not_before_s: 0, not_after_s: 4_000_000_000 };
    STANDARD.encode(self_signed(&key, 1, validity).expect("a certificate"))
}

/// The chain with a trust anchor.
fn defended() -> (Document, Decisions) {
    let mut text = file("examples/networks/chain.graph");
    text.push_str(
        "trust {\n  anchor \"site.cert\"\n  allow \"/site/<..>\" by \"/site/KEY/<..>\"\n}\n",
    );
    let document =
        Document::read("chain", "chain", &text).unwrap_or_else(|problems| panic!("{problems}"));
    let certificate = certificate("/site");
    let anchors = [("site.cert".to_owned(), certificate)].into();
    (document, Decisions { anchors, ..Decisions::default() })
}

fn verify(element: &str, is_isolated: bool) -> Countermeasure {
    Countermeasure::Verify { element: element.to_owned(), sample: 1.0, is_isolated }
}

#[test]
fn verifier_inserted_in_process_and_isolated() {
    let (document, mut decisions) = defended();
    decisions.countermeasures = vec![verify("cs", false)];
    let target = expanded(&document, &decisions);
    let front = graph_of(&target, "front~1");
    assert!(front.contains("defence-verify-cs.valid -> cs.data"), "{front}");
    assert!(front.contains("rules = [\"/site/<..> by /site/KEY/<..>\"]"), "{front}");
    assert_eq!(names(&target), ["br~1", "front~1", "nr~1"]);
    decisions.countermeasures = vec![verify("cs", true)];
    let target = expanded(&document, &decisions);
    let own = graph_of(&target, "defence-verify-cs~1");
    assert!(own.contains("defence-verify-cs = signature_verifier"), "{own}");
    // Moved one element towards the source.
    decisions.countermeasures = vec![verify("cs", false), verify("br", false)];
    let target = expanded(&document, &decisions);
    assert!(graph_of(&target, "br~1").contains("defence-verify-br.valid -> br.data"));
}

#[test]
fn filter_and_limiter_inserted() {
    let (document, mut decisions) = defended();
    let names = vec!["/site/a/1".to_owned()];
    decisions.countermeasures = vec![
        verify("cs", false),
        Countermeasure::Filter { element: "cs".to_owned(), names },
        Countermeasure::Limit { element: "pd".to_owned(), rate: 50 },
    ];
    let target = expanded(&document, &decisions);
    let front = graph_of(&target, "front~1");
    for line in [
        "defence-filter-cs = name_filter(rules = [\"deny /site/a/1\"])",
        "pd.interest -> defence-limit-pd.interest",
        "defence-limit-pd.interest -> cs.interest",
        "cs.hit -> defence-limit-pd.data",
        "defence-limit-pd.data -> faces",
    ] {
        assert!(front.contains(line), "{line} is not in\n{front}");
    }
}

#[test]
fn countermeasure_for_unknown_element_refused_with_reason() {
    let (document, mut decisions) = defended();
    decisions.countermeasures = vec![verify("missing", false)];
    let error = expand(&document, &decisions, Path::new("/run/nw")).expect_err("no such element");
    assert!(error.to_string().contains("\"missing\""), "{error}");
    decisions.countermeasures = vec![verify("cs", false)];
    decisions.anchors.clear();
    let error = expand(&document, &decisions, Path::new("/run/nw")).expect_err("no anchor");
    assert!(error.to_string().contains("\"site.cert\" has not been read"), "{error}");
}

#[test]
fn file_without_network_statements_is_one_service() {
    let text = file("examples/graphs/standard.graph");
    let document = Document::read("standard", "standard", &text).expect("a good document");
    let target = expanded(&document, &Decisions::default());
    assert_eq!(names(&target), ["all~1"]);
    assert_eq!(target.hosts.len(), 1);
    assert!(target.links.is_empty());
}

#[test]
fn long_folder_refused_with_advice() {
    let folder = format!("/{}", "long".repeat(30));
    let error = expand(&example("chain"), &Decisions::default(), Path::new(&folder));
    let error = error.expect_err("too long").to_string();
    assert!(error.contains("use a folder with a shorter path"), "{error}");
}

#[test]
fn links_between_hosts_use_addresses_of_instances_where_these_have_some() {
    let document = example("campus");
    let with = |addresses| expanded(&document, &Decisions { addresses, ..Decisions::default() });
    let between = |target: &Target| {
        let links =
            target.links.iter().filter(|link| link.from.instance.host != link.to.instance.host);
        links.cloned().collect::<Vec<_>>()
    };
    let of_hosts = between(&with(None));
    assert!(of_hosts.iter().all(|link| link.from.uri.starts_with("tcp4://127.0.0.1:")));
    let unknown = between(&with(Some(Vec::new())));
    assert_eq!(unknown.len(), of_hosts.len());
    assert!(unknown.iter().all(|link| link.from.uri.starts_with("tcp4://192.0.2.1:")));
    assert!(unknown.iter().all(|link| link.to.uri.starts_with("tcp4://0.0.0.0:")));
    let listening = unknown[0].to.instance.clone();
    let known = between(&with(Some(vec![(listening.clone(), [10, 0, 0, 7].into())])));
    let mut changed = 0;
    for before in &unknown {
        let is_it = |link: &&Link| {
            link.from.instance == before.from.instance
                && link.to.instance == before.to.instance
                && link.to.face == before.to.face
        };
        let after = known.iter().find(is_it).expect("the listening face keeps its name");
        assert_eq!(after.to, before.to);
        if before.to.instance == listening {
            let port = before.from.uri.rsplit(':').next().unwrap();
            assert_eq!(after.from.uri, format!("tcp4://10.0.0.7:{port}"));
            assert_ne!(after.from.face, before.from.face);
            changed += 1;
        } else {
            assert_eq!(after, before);
        }
    }
    assert!(changed > 0);
}
