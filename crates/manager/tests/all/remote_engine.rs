//! An engine on another host: a manager's hub, an agent with a process engine, and services of a
//! real `nw` (`NW_BIN`, or `target/release/nw`) between them. Without one, the test says that it is
//! skipped.

use nw_agent::{AgentOptions, Hub, HubOptions, add_host, enrol, run};
use nw_manager::engine::{
    Engine, EngineError, HostAgent, InstanceSpec, InstanceState, Labels, ProcessEngine,
    RemoteEngine, graph_hash,
};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(20);

fn program() -> Option<PathBuf> {
    let default = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target/release/nw");
    let program = std::env::var_os("NW_BIN").map_or(default, PathBuf::from);
    if !program.exists() {
        let advice = "does not exist: cargo build --release -p nw-cli, or set NW_BIN";
        // libtest captures what eprintln! writes. One write: tests print at the same time.
        let _ = std::io::stderr().write_all(
            format!("skipped: remote engine: {} {advice}\n", program.display()).as_bytes(),
        );
        return None;
    }
    Some(program)
}

fn wait_for(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !condition() {
        assert!(Instant::now() < deadline, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn spec(directory: &Path) -> InstanceSpec {
    let [near, next] = ["near.sock", "next.sock"].map(|name| directory.join(name));
    let graph = format!(
        "face near listens unix://{} local\nface next = unix://{} local default\n\
         cs = content_store(mib = 4)\nfaces -> cs.interest\nfaces -> cs.data\nfaces -> faces\n\
         cs.hit -> faces\ncs.miss -> faces\ncs.data -> faces\n",
        near.display(),
        next.display()
    );
    let labels = Labels {
        network: "net".to_owned(),
        instance: "cs~1@h2".to_owned(),
        generation: 3,
        graph_hash: graph_hash(&graph),
    };
    InstanceSpec { labels, directory: directory.to_owned(), graph, quota: None, image: None }
}

#[test]
fn instance_on_another_host_is_started_reached_and_stopped() {
    let Some(program) = program() else { return };
    let folder = tempfile::tempdir().unwrap();
    let [state, agent_state, directory] =
        ["manager", "agent", "net"].map(|name| folder.path().join(name));
    std::fs::create_dir(&directory).unwrap();
    let listen = "127.0.0.1:0".parse().unwrap();
    let hub = Arc::new(Hub::start(HubOptions::new(state.clone(), listen)).unwrap());
    let engine = RemoteEngine::new(hub.clone(), "h2".to_owned(), "process");
    let error = engine.list(&directory, "net").unwrap_err().to_string();
    assert!(error.contains("host h2 is not connected"), "{error}");
    let token = add_host(&state, "h2", 60).unwrap();
    enrol(&agent_state, &hub.address().to_string(), &token).unwrap();
    let address = Some("192.0.2.2".to_owned());
    let options = AgentOptions { state_directory: agent_state, manager: None, address };
    let stop = Arc::new(AtomicBool::new(false));
    let handler = HostAgent::new(vec![Arc::new(ProcessEngine::new(program.clone()))]);
    let flag = stop.clone();
    let agent = std::thread::spawn(move || run(&options, Arc::new(handler), &flag));
    wait_for("the agent", || engine.list(&directory, "net").is_ok());

    let spec = spec(&directory);
    assert!(engine.start(&spec).unwrap().notes.is_empty());
    engine.start(&spec).unwrap();
    let listed = engine.list(&directory, "net").unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!((&listed[0].labels, &listed[0].state), (&spec.labels, &InstanceState::Running));
    assert_eq!(listed[0].address.as_deref(), Some("192.0.2.2"));
    assert_eq!(engine.find(&directory, "net", "cs~1@h2").unwrap().unwrap(), listed[0]);
    assert_eq!(engine.find(&directory, "net", "none").unwrap(), None);
    // The control socket of the other host answers at a path on this one.
    let control = &listed[0].control;
    assert_ne!(*control, spec.control());
    wait_for("its control socket", || {
        let mut command = Command::new(&program);
        command.args(["service", "graph"]).arg(control).stderr(Stdio::null());
        let output = command.output().unwrap();
        output.status.success() && String::from_utf8_lossy(&output.stdout).contains("content_store")
    });
    assert!(engine.logs(&directory, "cs~1@h2", 50).unwrap().contains("running"));
    assert!(matches!(engine.logs(&directory, "none", 1), Err(EngineError::Unknown(_))));
    let other = RemoteEngine::new(hub.clone(), "h2".to_owned(), "docker");
    let error = other.list(&directory, "net").unwrap_err().to_string();
    assert!(error.contains("no engine of this name"), "{error}");
    let error = engine.remove(&directory, "cs~1@h2").unwrap_err().to_string();
    assert!(error.contains("stop it first"), "{error}");
    engine.stop(&directory, "cs~1@h2", LIMIT).unwrap();
    let ended = engine.list(&directory, "net").unwrap().remove(0);
    assert!(matches!(ended.state, InstanceState::Ended(_)), "{ended:?}");
    engine.remove(&directory, "cs~1@h2").unwrap();
    assert!(engine.list(&directory, "net").unwrap().is_empty());
    assert!(!control.exists(), "the socket goes with the instance");

    stop.store(true, Relaxed);
    agent.join().unwrap().unwrap();
    wait_for("the end of the agent", || engine.list(&directory, "net").is_err());
}
