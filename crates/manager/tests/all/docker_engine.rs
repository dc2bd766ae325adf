//! Instances in a real Docker engine. `tests/image` starts the engine, loads the image and runs
//! this file: it needs `DOCKER_HOST`, `NW_DOCKER_IMAGE` and `NW_BIN`, and else says that it is
//! skipped.

use nw_manager::engine::{
    DockerEngine, Engine, EngineError, InstanceSpec, InstanceState, Labels, graph_hash,
};
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(20);

struct Setup {
    nw: String,
    image: String,
}

fn setup() -> Option<Setup> {
    let variable = |name| std::env::var(name).ok();
    let setup = variable("NW_BIN").zip(variable("NW_DOCKER_IMAGE"));
    if setup.is_none() {
        // libtest captures what eprintln! writes. One write: tests print at the same time.
        let reason = "run by tests/image/run, which starts a Docker engine";
        let _ = std::io::stderr()
            .write_all(format!("skipped: instances in containers: {reason}\n").as_bytes());
    }
    setup.map(|(nw, image)| Setup { nw, image })
}

/// A process that is killed at the end of the test.
struct Guard(Child);

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn spec(directory: &Path, instance: &str, graph: String) -> InstanceSpec {
    let labels = Labels {
        network: "net".to_owned(),
        instance: instance.to_owned(),
        generation: 7,
        graph_hash: graph_hash(&graph),
    };
    InstanceSpec { labels, directory: directory.to_owned(), graph, quota: Some(0.5), image: None }
}

/// Returns a graph that passes what it receives at one socket of `directory` to another.
fn graph(directory: &Path, near: &str, next: &str) -> String {
    let sockets = directory.join("l");
    let (near, next) = (sockets.join(near), sockets.join(next));
    format!(
        "face near listens unix://{} local\nface next = unix://{} local default\n\
         cs = content_store(mib = 4)\nfaces -> cs.interest\nfaces -> cs.data\nfaces -> faces\n\
         cs.hit -> faces\ncs.miss -> faces\ncs.data -> faces\n",
        near.display(),
        next.display()
    )
}

fn wait_for(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !condition() {
        assert!(Instant::now() < deadline, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn free_port() -> u16 {
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").expect("a free port");
    socket.local_addr().expect("its address").port()
}

fn run(nw: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(nw);
    command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().expect("nw runs").success()
}

#[test]
fn two_containers_carry_packets_and_are_adopted_limited_and_drained() {
    let Some(setup) = setup() else { return };
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path();
    std::fs::create_dir(directory.join("l")).unwrap();
    let producer = directory.join("l/producer.sock");
    let socket = producer.display().to_string();
    let port = free_port().to_string();
    let router = ["run", "--socket", &socket, "--port", &port, "--log", "error"];
    let _router = Guard(Command::new(&setup.nw).args(router).spawn().unwrap());
    let uri = format!("unix://{socket}");
    wait_for("the router", || run(&setup.nw, &["status", "-s", &uri]));
    let server = ["ping-server", "/docker", "-s", &uri];
    let _server =
        Guard(Command::new(&setup.nw).args(server).stdout(Stdio::null()).spawn().unwrap());
    let (first, second) =
        [(); 2].map(|()| DockerEngine::from_environment(setup.image.clone()).unwrap()).into();
    let back = spec(directory, "back~1", graph(directory, "back.sock", "producer.sock"));
    let front = spec(directory, "front~1", graph(directory, "front.sock", "back.sock"));
    let before = Instant::now();
    for spec in [&back, &front, &front] {
        assert_eq!(first.start(spec).unwrap().notes, Vec::<String>::new());
    }
    let entry = format!("unix://{}", directory.join("l/front.sock").display());
    wait_for("an exchange", || run(&setup.nw, &["ping", "/docker", "-c", "1", "-s", &entry]));
    let _ = writeln!(std::io::stderr(), "first exchange after {:?}", before.elapsed());

    // Another engine, as after a restart of the manager, finds what the first one started.
    let listed = second.list(directory, "net").unwrap();
    assert_eq!(listed, first.list(directory, "net").unwrap());
    let names: Vec<_> = listed.iter().map(|item| item.labels.instance.as_str()).collect();
    assert_eq!(names, ["back~1", "front~1"]);
    assert_eq!((&listed[1].labels, listed[1].quota), (&front.labels, Some(0.5)));
    assert!(listed.iter().all(|item| item.state == InstanceState::Running && item.pid.is_some()));
    assert!(second.list(directory, "other").unwrap().is_empty());
    let control = listed[1].control.display().to_string();
    assert!(run(&setup.nw, &["service", "status", &control]), "the control socket answers");
    assert_eq!(second.set_quota(directory, "front~1", None).unwrap(), None);
    assert_eq!(second.list(directory, "net").unwrap()[1].quota, None);
    assert_eq!(second.set_quota(directory, "front~1", Some(0.25)).unwrap(), None);
    assert_eq!(second.list(directory, "net").unwrap()[1].quota, Some(0.25));
    let other = spec(directory, "front~1", graph(directory, "front.sock", "producer.sock"));
    let error = second.start(&other).unwrap_err().to_string();
    assert!(error.contains("runs with another graph"), "{error}");
    let error = second.remove(directory, "front~1").unwrap_err().to_string();
    assert!(error.contains("stop it first"), "{error}");
    assert!(second.logs(directory, "front~1", 50).unwrap().contains("running"));

    // A killed container is told from a running one, and starts again.
    second.stop(directory, "back~1", Duration::ZERO).unwrap();
    let ended = second.list(directory, "net").unwrap().remove(0).state;
    assert!(matches!(&ended, InstanceState::Ended(how) if how.contains("137")), "{ended:?}");
    first.start(&back).unwrap();
    wait_for("an exchange", || run(&setup.nw, &["ping", "/docker", "-c", "1", "-s", &entry]));

    for instance in ["front~1", "back~1", "none~1"] {
        second.stop(directory, instance, LIMIT).unwrap();
        second.stop(directory, instance, LIMIT).unwrap();
    }
    let ended = first.list(directory, "net").unwrap().remove(0).state;
    assert!(matches!(&ended, InstanceState::Ended(how) if how.contains("status 0")), "{ended:?}");
    for instance in ["front~1", "back~1", "none~1"] {
        second.remove(directory, instance).unwrap();
    }
    assert!(first.list(directory, "net").unwrap().is_empty());
    assert!(!back.instance_directory().exists());
    let error = first.logs(directory, "back~1", 1).unwrap_err();
    assert!(matches!(error, EngineError::Unknown(_)));
}

#[test]
fn missing_image_is_refused_with_the_command_that_makes_it() {
    if setup().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let engine = DockerEngine::from_environment("namewire:none".to_owned()).unwrap();
    let spec = spec(folder.path(), "cs~1", graph(folder.path(), "a.sock", "b.sock"));
    let error = engine.start(&spec).unwrap_err().to_string();
    assert!(error.contains("`nw image build --tag namewire:none`"), "{error}");
    assert!(engine.list(folder.path(), "net").unwrap().is_empty());
}
