//! Engine and operator with a real API server, under exactly the rights that are granted to them,
//! in a namespace that enforces the restricted level of pod security. No node runs pods: the test
//! says what a kubelet would.

mod server;

use nw_agent::{Hub, HubOptions};
use nw_kubernetes::{
    Cluster, Fence, KubernetesEngine, LeaseOptions, LinkVolume, ManifestOptions, NetworkSpec,
    NetworkStatus, OperatorOptions, Place, ScaleError, StatefulSetScale, apply, definition, delete,
    follow, manifests, rules, run,
};
use nw_manager::engine::{Engine, InstanceSpec, InstanceState, Labels, graph_hash};
use serde_json::Value;
use server::Server;
use std::collections::BTreeSet;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);
const DOCUMENT: &str = "host here = process
face near listens tcp4://0.0.0.0:6363
face next = tcp4://192.0.2.1:6363 default
cs = content_store(mib = 4)
faces -> cs.interest
faces -> cs.data
faces -> faces
cs.hit -> faces
cs.miss -> faces
cs.data -> faces
";

fn cluster(server: &Server, user: &str, fence: Fence) -> Arc<Cluster> {
    Arc::new(Cluster::from_file(&server.configuration(user), fence).unwrap())
}

fn prepare(server: &Server) {
    server.run(&["apply", "--server-side", "-f", "-"], &definition());
    server.run(&["create", "namespace", "namewire"], "");
    server.run(&["create", "namespace", "site"], "");
    let level = "pod-security.kubernetes.io/enforce=restricted";
    server.run(&["label", "namespace", "site", level], "");
    let watched = vec!["site".to_owned()];
    let options = ManifestOptions { namespace: "namewire".to_owned(), watched };
    server.run(&["apply", "--server-side", "-f", "-"], &manifests(&options));
    let wait = ["wait", "--for=condition=Established", "crd/networks.namewire.dev"];
    server.run(&wait, "");
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !is_so() {
        assert!(Instant::now() < deadline, "not within {} s: {what}", LIMIT.as_secs());
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// One server for all, as its start takes most of the time.
#[test]
fn pods_operator_rights_and_lease_with_a_real_api_server() {
    if let Some(reason) = server::missing() {
        assert!(std::env::var_os("NW_KUBERNETES").is_none(), "asked for: {reason}");
        // Not by the macro, whose output the test program would hold back.
        let _ = std::io::stderr().write_all(format!("SKIPPED: {reason}\n").as_bytes());
        return;
    }
    let server = Server::start();
    missing_definition_has_a_sentence(&server);
    prepare(&server);
    wrong_resources_are_refused(&server);
    engine_starts_finds_and_removes_pods(&server);
    operator_serves_resources(&server);
    lease_passes_on_and_fences_the_old_holder(&server);
    rights_granted_are_rights_used(&server);
    replicas_of_a_stateful_set_are_scaled(&server);
}

fn missing_definition_has_a_sentence(server: &Server) {
    let admin = cluster(server, "admin", Fence::open());
    let error = apply(&admin, "site", "net", &NetworkSpec::default()).unwrap_err().to_string();
    assert!(error.contains("nw network kubernetes crd"), "{error}");
}

fn wrong_resources_are_refused(server: &Server) {
    for (spec, word) in [
        (r#"{"document":""}"#, "spec.document"),
        (r#"{"document":"x","replicas":0}"#, "spec.replicas"),
        (r#"{"document":"x","imag":"y"}"#, "spec.imag"),
    ] {
        let text = format!(
            r#"{{"apiVersion":"namewire.dev/v1alpha1","kind":"Network",
                 "metadata":{{"name":"wrong"}},"spec":{spec}}}"#
        );
        let apply = ["apply", "--validate=strict", "-n", "site", "-f", "-"];
        let (is_done, told) = server.kubectl(&apply, &text);
        assert!(!is_done && told.contains(word), "{spec}: {told}");
    }
}

fn engine_starts_finds_and_removes_pods(server: &Server) {
    let admin = cluster(server, "admin", Fence::open());
    let spec = NetworkSpec {
        document: DOCUMENT.to_owned(),
        links: Some(LinkVolume { claim: Some("links".to_owned()), ..LinkVolume::default() }),
        hold: Some(true),
        ..NetworkSpec::default()
    };
    apply(&admin, "site", "owner", &spec).unwrap();
    let owner = server.get(&["network", "owner"]);
    let operator = cluster(server, "operator", Fence::open());
    let folder = tempfile::tempdir().unwrap();
    let authority = folder.path().join("authority");
    let listen = "127.0.0.1:0".parse().unwrap();
    let hub = Arc::new(Hub::start(HubOptions::new(authority.clone(), listen)).unwrap());
    let place = Place {
        namespace: "site".to_owned(),
        name: "owner".to_owned(),
        uid: owner["metadata"]["uid"].as_str().unwrap().to_owned(),
        agents: "192.0.2.2:6366".to_owned(),
        image: "namewire:test".to_owned(),
        spec,
    };
    let engine = KubernetesEngine::new(operator, hub, authority.clone(), place);
    let directory = folder.path();
    let spec = |graph: &str| instance(directory, "cs~1@here", graph);
    engine.start(&spec(DOCUMENT)).unwrap();
    engine.start(&spec(DOCUMENT)).unwrap();
    let error = engine.start(&spec("other")).unwrap_err().to_string();
    assert!(error.contains("another graph"), "{error}");
    let listed = engine.list(directory, "owner").unwrap();
    assert_eq!((listed.len(), &listed[0].state), (1, &InstanceState::Running));
    assert_eq!(listed[0].labels, spec(DOCUMENT).labels);
    let name = pod_is_as_described(server, &engine, directory);
    evict(server, &name);
    wait_until("the pod is seen as ended", || {
        let found = engine.find(directory, "owner", "cs~1@here").unwrap().unwrap();
        found.state == InstanceState::Ended("the pod has ended: Evicted disk is full".to_owned())
    });
    // An ended one is replaced, also by one with another graph.
    engine.start(&spec("other")).unwrap();
    assert!(engine.remove(directory, "cs~1@here").is_err(), "it runs");
    engine.stop(directory, "cs~1@here", Duration::from_secs(1)).unwrap();
    engine.remove(directory, "cs~1@here").unwrap();
    engine.remove(directory, "cs~1@here").unwrap();
    assert!(engine.list(directory, "owner").unwrap().is_empty());
    let secrets = server.get(&["secrets", "-l", "namewire.dev/network=owner"]);
    assert_eq!(secrets["items"].as_array().unwrap().len(), 0);
    pods_of_a_lost_node_are_replaced(server, &engine, directory, &authority);
    server.run(&["delete", "-n", "site", "network", "owner"], "");
}

fn instance(directory: &Path, instance: &str, graph: &str) -> InstanceSpec {
    InstanceSpec {
        labels: Labels {
            network: "owner".to_owned(),
            instance: instance.to_owned(),
            generation: 1,
            graph_hash: graph_hash(graph),
        },
        directory: directory.to_owned(),
        graph: graph.to_owned(),
        quota: None,
        image: None,
    }
}

/// Two pods of one host are on a node that no kubelet serves, and are deleted.
fn pods_of_a_lost_node_are_replaced(
    server: &Server,
    engine: &KubernetesEngine,
    directory: &Path,
    authority: &Path,
) {
    let instances = ["cs~1@here", "cs~2@here"];
    let select = ["pods", "-l", "namewire.dev/network=owner"];
    for key in instances {
        engine.start(&instance(directory, key, DOCUMENT)).unwrap();
    }
    let pods = server.get(&select)["items"].clone();
    let word = |pod: &Value, field: &str| pod["metadata"][field].as_str().unwrap().to_owned();
    let names: Vec<String> = pods.as_array().unwrap().iter().map(|pod| word(pod, "name")).collect();
    for name in &names {
        bind(server, name);
        report(server, name, "True");
        server.run(&["delete", "-n", "site", "pod", name, "--wait=false"], "");
    }
    let ended = || {
        let listed = engine.list(directory, "owner").unwrap();
        let reason = InstanceState::Ended("the node n9 does not answer".to_owned());
        listed.iter().filter(|found| found.state == reason).count()
    };
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(ended(), 0, "their kubelet may drain them");
    names.iter().for_each(|name| report(server, name, "False"));
    wait_until("both have ended", || ended() == 2);
    let told = engine.troubles(false, &BTreeSet::new()).unwrap();
    assert!(told["cs~2@here"].contains("n9 does not answer"), "{told:?}");
    // The second one goes as well: it would hold the first to the lost node.
    engine.start(&instance(directory, instances[0], DOCUMENT)).unwrap();
    let left = server.get(&select)["items"].clone();
    assert_eq!(left.as_array().unwrap().len(), 1);
    assert_eq!(word(&left[0], "name"), names[0]);
    assert_ne!(word(&left[0], "uid"), word(&pods[0], "uid"));
    assert!(left[0]["spec"]["nodeName"].is_null());
    let hosts = nw_agent::list_hosts(authority).unwrap();
    assert_eq!(hosts, [(names[0].clone(), false)], "no rights are left to the pods of the node");
    engine.stop(directory, instances[0], Duration::from_secs(1)).unwrap();
    instances.iter().for_each(|key| engine.remove(directory, key).unwrap());
}

const STATEFUL_SET: &str = r#"{"apiVersion":"apps/v1","kind":"StatefulSet",
    "metadata":{"name":"member","namespace":"site"},
    "spec":{"replicas":2,"serviceName":"member","selector":{"matchLabels":{"app":"member"}},
        "template":{"metadata":{"labels":{"app":"member"}},
            "spec":{"containers":[{"name":"c","image":"namewire:test"}]}}}}"#;

/// The rights that the chart grants to the balancer.
const SCALE_RIGHTS: &str = r#"{"apiVersion":"v1","kind":"List","items":[
    {"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role",
     "metadata":{"name":"scale","namespace":"site"},
     "rules":[{"apiGroups":["apps"],"resources":["statefulsets/scale"],
               "resourceNames":["member"],"verbs":["get","patch"]}]},
    {"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding",
     "metadata":{"name":"scale","namespace":"site"},
     "roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"scale"},
     "subjects":[{"kind":"ServiceAccount","name":"balancer","namespace":"site"}]}]}"#;

fn replicas_of_a_stateful_set_are_scaled(server: &Server) {
    let scale = |user: &str, namespace, name: &str| {
        let cluster = Cluster::from_file(&server.configuration(user), Fence::open()).unwrap();
        StatefulSetScale::new(cluster, namespace, name)
    };
    // The namespace of the configuration.
    let mut balancer = scale("balancer", None, "member");
    let error = balancer.replicas().unwrap_err().to_string();
    assert!(error.contains("cannot get") && error.contains("cluster.elastic.enabled"), "{error}");
    let mut missing = scale("admin", Some("site"), "member");
    let error = missing.replicas().unwrap_err().to_string();
    assert!(error.contains("there is no StatefulSet site/member"), "{error}");
    server.run(&["apply", "-f", "-"], STATEFUL_SET);
    server.run(&["apply", "-f", "-"], SCALE_RIGHTS);
    wait_until("the rights hold", || balancer.replicas().is_ok());
    assert_eq!(balancer.replicas().unwrap(), 2);
    let present = || server.get(&["statefulset", "member"])["spec"]["replicas"].clone();
    balancer.set_replicas(3).unwrap();
    assert_eq!((present(), balancer.replicas().unwrap()), (3.into(), 3));
    // A person's change since the read is not overwritten.
    server.run(&["scale", "-n", "site", "statefulset", "member", "--replicas=5"], "");
    let refused = balancer.set_replicas(2).unwrap_err();
    assert!(matches!(refused, ScaleError::Changed(_)), "{refused}");
    assert_eq!((present(), balancer.replicas().unwrap()), (5.into(), 5));
    balancer.set_replicas(0).unwrap();
    assert_eq!(balancer.replicas().unwrap(), 0);
    // No other name, and nothing else of this one.
    let mut other = scale("balancer", None, "another");
    assert!(matches!(other.replicas(), Err(ScaleError::Forbidden(_))));
    let account = "--as=system:serviceaccount:site:balancer";
    let (is_done, text) = server.kubectl(&["get", "-n", "site", account, "statefulsets"], "");
    assert!(!is_done && text.contains("cannot list"), "{text}");
    let get_only = SCALE_RIGHTS.replace(r#","patch""#, "");
    server.run(&["apply", "-f", "-"], &get_only);
    wait_until("the right to patch ends", || {
        balancer.replicas().unwrap();
        matches!(balancer.set_replicas(1), Err(ScaleError::Forbidden(_)))
    });
}

/// Puts a pod on a node, as the scheduler does.
fn bind(server: &Server, pod: &str) {
    let path = format!("/api/v1/namespaces/site/pods/{pod}/binding");
    let binding = format!(
        r#"{{"apiVersion":"v1","kind":"Binding","metadata":{{"name":"{pod}"}},
             "target":{{"apiVersion":"v1","kind":"Node","name":"n9"}}}}"#
    );
    server.run(&["create", "--raw", &path, "-f", "-"], &binding);
}

/// Reports a pod as running: ready as a kubelet says it, or not ready as the node controller says
/// it of a node that is lost.
fn report(server: &Server, pod: &str, ready: &str) {
    let status = format!(
        r#"{{"status":{{"phase":"Running","conditions":[
             {{"type":"Ready","status":"{ready}"}},
             {{"type":"ContainersReady","status":"True"}}],
             "containerStatuses":[{{"name":"service","image":"","imageID":"","ready":true,
             "restartCount":0,"state":{{"running":{{}}}}}}]}}}}"#
    );
    let patch = ["patch", "-n", "site", "pod", pod, "--subresource=status", "--type=merge"];
    server.run(&[&patch[..], &["-p", &status]].concat(), "");
}

/// Reports a pod as ended, as a kubelet does whose disk is full.
fn evict(server: &Server, pod: &str) {
    let status = r#"{"status":{"phase":"Failed","reason":"Evicted","message":"disk is full"}}"#;
    let patch = ["patch", "-n", "site", "pod", pod, "--subresource=status", "--type=merge"];
    server.run(&[&patch[..], &["-p", status]].concat(), "");
}

/// Returns the name of the only pod, after a look at it and a change of its quota.
fn pod_is_as_described(server: &Server, engine: &KubernetesEngine, directory: &Path) -> String {
    let pods = server.get(&["pods", "-l", "namewire.dev/network=owner"]);
    let pod = &pods["items"][0];
    let name = pod["metadata"]["name"].as_str().unwrap().to_owned();
    assert_eq!(pod["metadata"]["ownerReferences"][0]["name"], "owner");
    assert_eq!(pod["metadata"]["annotations"]["namewire.dev/graph"], DOCUMENT);
    // Whether a pod without a node can be resized is up to the version of the API server.
    let note = engine.set_quota(directory, "cs~1@here", Some(0.5)).unwrap();
    let quota = engine.find(directory, "owner", "cs~1@here").unwrap().unwrap().quota;
    let told = note.as_deref().unwrap_or("in effect");
    assert!(quota == Some(0.5) && note.is_none() || told.contains("not in effect"), "{told}");
    // No node has written a log.
    assert_eq!(engine.logs(directory, "cs~1@here", 10).unwrap(), "");
    name
}

fn operator_options(folder: &Path, identity: Option<&str>) -> OperatorOptions {
    OperatorOptions {
        state_directory: folder.to_owned(),
        namespaces: vec!["site".to_owned()],
        listen: "127.0.0.1:0".parse().unwrap(),
        agents: "192.0.2.2:6366".to_owned(),
        image: "namewire:test".to_owned(),
        program: "/usr/bin/nw".into(),
        period: Duration::from_millis(200),
        lease: identity.map(|identity| LeaseOptions {
            namespace: "namewire".to_owned(),
            name: "namewire-operator".to_owned(),
            identity: identity.to_owned(),
        }),
    }
}

fn condition<'s>(status: Option<&'s NetworkStatus>, kind: &str) -> Option<(&'s str, &'s str)> {
    let condition = status?.condition(kind)?;
    Some((&condition.status, &condition.message))
}

/// Ends an operator when a check fails, which would otherwise wait for it.
struct StopAtEnd<'s>(&'s AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn operator_serves_resources(server: &Server) {
    let admin = cluster(server, "admin", Fence::open());
    let operator = cluster(server, "operator", Fence::closed());
    let folder = tempfile::tempdir().unwrap();
    let options = operator_options(folder.path(), Some("one"));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _stop = StopAtEnd(&stop);
        let running = scope.spawn(|| run(&operator, &options, &stop));
        let mut spec = NetworkSpec { document: "near -> \n".to_owned(), ..NetworkSpec::default() };
        let applied = apply(&admin, "site", "net", &spec).unwrap();
        let deadline = Instant::now() + LIMIT;
        follow(&admin, &applied, |status| {
            let refused = condition(status, "Accepted").filter(|(status, _)| *status == "False");
            assert!(refused.is_some() || Instant::now() < deadline, "{status:?}");
            refused.is_none()
        })
        .unwrap();
        spec.document = DOCUMENT.to_owned();
        let applied = apply(&admin, "site", "net", &spec).unwrap();
        follow(&admin, &applied, |status| {
            let accepted = condition(status, "Accepted").map(|(status, _)| status);
            assert!(Instant::now() < deadline, "{status:?}");
            accepted != Some("True")
        })
        .unwrap();
        let select = ["pods", "-l", "namewire.dev/network=net"];
        wait_until("a pod", || server.get(&select)["items"].as_array().unwrap().len() == 1);
        let status = &server.get(&["network", "net"])["status"];
        assert_eq!(status["observedGeneration"], applied.generation);
        // Its name ends with the revision of the pod.
        wait_until("the instance is in the status", || {
            let status = &server.get(&["network", "net"])["status"];
            status["instances"][0]["name"].as_str().is_some_and(|name| name.starts_with("cs~1-"))
        });
        delete(&admin, &applied).unwrap();
        wait_until("the network is gone", || {
            !server.kubectl(&["get", "-n", "site", "network", "net"], "").0
        });
        assert_eq!(server.get(&select)["items"].as_array().unwrap().len(), 0);
        stop.store(true, Ordering::Relaxed);
        running.join().unwrap().unwrap();
    });
}

fn holder(server: &Server) -> Value {
    let text =
        server.run(&["get", "-n", "namewire", "lease", "namewire-operator", "-o", "json"], "");
    let lease: Value = serde_json::from_str(&text).unwrap();
    lease["spec"]["holderIdentity"].clone()
}

fn lease_passes_on_and_fences_the_old_holder(server: &Server) {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let clusters = [0, 1].map(|_| cluster(server, "operator", Fence::closed()));
    let stops = [AtomicBool::new(false), AtomicBool::new(false)];
    let options = [
        operator_options(folders[0].path(), Some("one")),
        operator_options(folders[1].path(), Some("two")),
    ];
    std::thread::scope(|scope| {
        let _stops = stops.each_ref().map(StopAtEnd);
        let first = scope.spawn(|| run(&clusters[0], &options[0], &stops[0]));
        wait_until("the first leads", || clusters[0].fence().is_open());
        let second = scope.spawn(|| run(&clusters[1], &options[1], &stops[1]));
        // The lease is taken away: the first one must stop, whatever it still holds for true.
        std::thread::sleep(Duration::from_secs(3));
        assert!(!clusters[1].fence().is_open());
        server.run(
            &[
                "patch",
                "-n",
                "namewire",
                "lease",
                "namewire-operator",
                "--type=merge",
                "-p",
                r#"{"spec":{"holderIdentity":"another"}}"#,
            ],
            "",
        );
        let error = first.join().unwrap().unwrap_err().to_string();
        assert!(error.contains("does not hold the lease"), "{error}");
        assert!(!clusters[0].fence().is_open());
        let spec = NetworkSpec { document: "x".to_owned(), ..NetworkSpec::default() };
        let error = apply(&clusters[0], "site", "late", &spec).unwrap_err().to_string();
        assert!(error.contains("not sent"), "{error}");
        assert!(!server.kubectl(&["get", "-n", "site", "network", "late"], "").0);
        wait_until("the second leads", || clusters[1].fence().is_open());
        assert_eq!(holder(server), "two");
        stops[1].store(true, Ordering::Relaxed);
        second.join().unwrap().unwrap();
    });
}

/// What the API server saw the operator ask for, and what is granted, are the same.
fn rights_granted_are_rights_used(server: &Server) {
    let mut used: BTreeSet<_> = server.asked().into_iter().collect();
    // Server-side apply of something new is a `patch` that needs the right to `create` as well.
    for resource in ["pods", "secrets"] {
        used.insert((String::new(), resource.to_owned(), "create".to_owned()));
    }
    let granted: BTreeSet<_> = [rules(false), rules(true)]
        .concat()
        .iter()
        .flat_map(|rule| {
            let verb =
                |verb: &&str| (rule.group.to_owned(), rule.resource.to_owned(), (*verb).to_owned());
            rule.verbs.iter().map(verb).collect::<Vec<_>>()
        })
        .collect();
    let superfluous: Vec<_> = granted.difference(&used).collect();
    assert!(superfluous.is_empty(), "granted and never used: {superfluous:?}");
    let lacking: Vec<_> = used.difference(&granted).filter(|right| !right.1.is_empty()).collect();
    assert!(lacking.is_empty(), "used and not granted: {lacking:?}");
    let role = ["get", "role", "-n", "site", "namewire-operator", "-o", "json"];
    let mut role: Value = serde_json::from_str(&server.run(&role, "")).unwrap();
    for rule in role["rules"].as_array_mut().unwrap() {
        rule["verbs"].as_array_mut().unwrap().retain(|verb| verb != "create");
    }
    server.run(&["apply", "--server-side", "--force-conflicts", "-f", "-"], &{
        role["metadata"]["managedFields"].take();
        role.to_string()
    });
    let account = "--as=system:serviceaccount:namewire:namewire-operator";
    let secret = r#"{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"}}"#;
    let apply = ["apply", "--server-side", "-n", "site", account, "-f", "-"];
    let (is_done, text) = server.kubectl(&apply, secret);
    assert!(!is_done && text.contains("cannot create"), "{text}");
}
