//! Tests of the event loop without a kernel: real routers in this process, real agents and probes,
//! and a data path that records its calls.

mod pods;

use super::*;
use crate::agent::ManagementClient as Management;
use crate::config::Weight;
use crate::remote_agents::{self, AgentReply, AgentRequest};
use nw_api::balancer::{MemberChange, MemberWanted};
use nw_api::management::{ControlParameters, Dataset, FacePersistency, Verb};
use nw_kernel::balancer::{BalancerCounters, HeldFragments, Link, MemberCounters, MemberEntry};
use nw_name::Name;
use std::net::UdpSocket;
use std::path::Path;
use std::time::{Duration, Instant as Clock};

#[derive(Clone, Default)]
struct RecordingDataPath(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    adopted: bool,
    members: BTreeMap<u8, MemberEntry>,
    slots: Vec<u8>,
    control: u8,
    peers: Vec<SocketAddr>,
    removed: bool,
    /// Interests to member 1 so far.
    interests: u64,
}

impl RecordingDataPath {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    fn serving(&self) -> BTreeSet<u8> {
        self.state().slots.iter().copied().filter(|number| *number != 0).collect()
    }
}

impl DataPath for RecordingDataPath {
    fn adopted(&self) -> bool {
        self.state().adopted
    }

    fn attach(&mut self, _: &str, _: Option<AttachMode>) -> Result<AttachMode, KernelError> {
        Ok(AttachMode::Generic)
    }

    fn detach(&mut self, _: &str) -> Result<(), KernelError> {
        Ok(())
    }

    fn attached(&self) -> Vec<(u32, AttachMode)> {
        Vec::new()
    }

    fn remove(self: Box<Self>) -> Result<(), KernelError> {
        self.state().removed = true;
        Ok(())
    }

    fn members(&self) -> Vec<(u8, MemberEntry)> {
        self.state().members.iter().map(|(number, entry)| (*number, *entry)).collect()
    }

    fn set_member(&mut self, number: u8, entry: &MemberEntry) -> Result<(), KernelError> {
        self.state().members.insert(number, *entry);
        Ok(())
    }

    fn clear_member(&mut self, number: u8) -> Result<(), KernelError> {
        self.state().members.remove(&number);
        Ok(())
    }

    fn set_slots(&mut self, slots: &[u8]) -> Result<usize, KernelError> {
        let mut state = self.state();
        let known = slots.iter().all(|number| *number == 0 || state.members.contains_key(number));
        assert!(known, "slots refer to existing members only");
        state.slots = slots.to_vec();
        Ok(1)
    }

    fn set_control(&mut self, number: u8) -> Result<(), KernelError> {
        self.state().control = number;
        Ok(())
    }

    fn set_rules(&mut self, _: &Rules) -> Result<(), KernelError> {
        Ok(())
    }

    fn set_one_port_peers(&mut self, peers: &[SocketAddr]) -> Result<(), KernelError> {
        self.state().peers = peers.to_vec();
        Ok(())
    }

    fn set_links(&mut self, _: &[Link]) -> Result<(), KernelError> {
        Ok(())
    }

    fn counters(&self) -> Result<BalancerCounters, KernelError> {
        let mut counted = MemberCounters::default();
        counted.to.interests = self.state().interests;
        Ok([(1, counted)].into_iter().collect())
    }

    fn held_fragments(&mut self) -> Result<Option<HeldFragments>, KernelError> {
        Ok(None)
    }
}

/// Set in a test process that runs in its own network namespace.
const IN_NAMESPACE: &str = "NW_TEST_IN_NAMESPACE";

/// Returns a non-loopback address of this machine, for members. Without one, runs the calling test
/// again in a network namespace that has one, and returns `None`.
fn own_address() -> Option<IpAddr> {
    if std::env::var_os(IN_NAMESPACE).is_some() {
        return Some(IpAddr::from([198, 51, 100, 1]));
    }
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    let connected = socket.connect("192.0.2.1:9").is_ok();
    let address = socket.local_addr().ok().filter(|_| connected).map(|address| address.ip());
    let address = address.filter(|ip| !ip.is_loopback() && !ip.is_unspecified());
    if address.is_none() {
        run_in_namespace(std::thread::current().name().unwrap_or_default());
    }
    address
}

fn run_in_namespace(test: &str) {
    let prepare = "ip link set lo up && ip address add 198.51.100.1/24 dev lo && exec \"$@\"";
    let program = std::env::current_exe().unwrap();
    let mut command = std::process::Command::new("unshare");
    command.args(["--net", "sh", "-c", prepare, "sh"]).arg(program).args([
        "--exact",
        test,
        "--nocapture",
    ]);
    let may = rustix::process::geteuid().is_root();
    if !may {
        // Written past the capture of the test runner: a skipped test must be visible.
        let line = format!(
            "skipped: {test}: no address but loopback, and only root can make a namespace\n"
        );
        let _ = std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes());
        return;
    }
    let status = command.env(IN_NAMESPACE, "1").status().unwrap();
    assert!(status.success(), "{test} failed in a network namespace: {status}");
}

struct Member {
    handle: nw_router::Handle,
    thread: Option<JoinHandle<()>>,
    socket: PathBuf,
    port: u16,
}

impl Member {
    fn start(directory: &Path, name: &str, address: IpAddr) -> Member {
        let port = UdpSocket::bind((address, 0)).unwrap().local_addr().unwrap().port();
        Member::start_at(directory, name, address, port)
    }

    fn start_at(directory: &Path, name: &str, address: IpAddr, port: u16) -> Member {
        let socket = directory.join(format!("{name}.sock"));
        let text = format!(
            "[faces.unix]\npath = {socket:?}\n[faces.udp]\nlisten = [\"{address}:{port}\"]\n\
             [faces.tcp]\nlisten = []\n[control]\nenabled = false\n"
        );
        let mut host = nw_router::Host::new(nw_api::Config::parse("test", &text).unwrap()).unwrap();
        let handle = host.handle();
        let thread = std::thread::spawn(move || host.run().unwrap());
        Member { handle, thread: Some(thread), socket, port }
    }

    fn end(&mut self) {
        self.handle.stop();
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }

    fn management(&self) -> Management {
        Management::connect(&self.socket, Arc::default()).unwrap()
    }

    /// Returns the routes over UDP faces, each as prefix, FaceUri and cost.
    fn routes(&self) -> Vec<String> {
        let mut router = self.management();
        let faces = router.faces().unwrap();
        let uri =
            |id: u64| faces.iter().find(|face| face.face_id == id).map(|face| face.uri.clone());
        let mut routes: Vec<String> = Vec::new();
        for entry in router.rib().unwrap() {
            for route in entry.routes {
                let uri = uri(route.face_id).unwrap_or_default();
                if uri.starts_with("udp") {
                    routes.push(format!("{} {uri} {}", entry.name, route.cost));
                }
            }
        }
        routes
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.end();
    }
}

fn name(text: &str) -> Name {
    text.parse().unwrap()
}

fn register(router: &mut Management, prefix: &str, uri: &str, cost: u64) {
    let parameters = ControlParameters {
        uri: Some(uri.to_owned()),
        face_persistency: Some(FacePersistency::Persistent as u64),
        ..ControlParameters::default()
    };
    let answers = router.commands(vec![(Verb::FacesCreate, parameters)]).unwrap();
    let face_id = answers[0].as_ref().unwrap().body.face_id;
    let route =
        ControlParameters { face_id, cost: Some(cost), ..ControlParameters::of(name(prefix)) };
    router.command(Verb::RibRegister, &route).unwrap();
}

/// A cluster of routers with a balancer. The test runs the event loop.
struct Bench {
    directory: tempfile::TempDir,
    address: IpAddr,
    members: Vec<Member>,
    data_path: RecordingDataPath,
    balancer: Option<Balancer>,
}

impl Bench {
    fn start(count: usize, more: &str) -> Option<Bench> {
        let address = own_address()?;
        let directory = tempfile::tempdir().unwrap();
        let members: Vec<_> = (1..=count)
            .map(|number| Member::start(directory.path(), &format!("m{number}"), address))
            .collect();
        let data_path = RecordingDataPath::default();
        let mut bench = Bench { directory, address, members, data_path, balancer: None };
        bench.start_balancer(more);
        Some(bench)
    }

    fn start_balancer(&mut self, more: &str) {
        self.start_with(more, Starters::default());
    }

    fn start_with(&mut self, more: &str, starters: Starters) {
        let text = self.file(more);
        let config = Config::parse("test", &text).unwrap();
        let (key, _) = crate::key::key(&config.cluster).unwrap();
        let next_hops = NextHopResolver::watch().unwrap();
        let data_path = Box::new(self.data_path.clone());
        let balancer = Balancer::from_parts(config, key, data_path, next_hops, starters);
        self.balancer = Some(balancer.unwrap());
    }

    /// Returns the configuration file for the current members.
    fn file(&self, more: &str) -> String {
        let mut text = format!(
            "[cluster]\naddresses = [\"192.0.2.1\"]\ninterfaces = [\"lo\"]\ncontrol_member = \"m1\"\n\
             state_dir = {:?}\nsystem_settings = false\n\
             [health]\ninterval_ms = 100\ntimeout_ms = 300\nsuccesses = 2\n[routes]\ninterval_ms = 50\n{more}",
            self.directory.path()
        );
        for (index, member) in self.members.iter().enumerate() {
            text += &format!(
                "[[member]]\nname = \"m{}\"\naddresses = [\"{}\"]\nport = {}\ncontrol = {:?}\n",
                index + 1,
                self.address,
                member.port,
                member.socket
            );
        }
        text
    }

    fn reload(&mut self, text: &str) {
        let config = Config::parse("test", text).unwrap();
        self.balancer().reload(config);
    }

    /// Runs the event loop until the condition holds. Returns the time that took.
    fn until(&mut self, what: &str, mut holds: impl FnMut(&mut Bench) -> bool) -> Duration {
        let start = Clock::now();
        while !holds(self) {
            assert!(
                start.elapsed() < Duration::from_secs(20),
                "{what}: {:#?}",
                self.balancer().status()
            );
            self.tick();
        }
        start.elapsed()
    }

    fn tick(&mut self) {
        let balancer = self.balancer.as_mut().unwrap();
        if let Ok(event) = balancer.events.recv_timeout(Duration::from_millis(20)) {
            balancer.handle_event(event);
        }
        balancer.tick();
    }

    fn balancer(&mut self) -> &mut Balancer {
        self.balancer.as_mut().unwrap()
    }

    fn state(&mut self, name: &str) -> Option<MemberState> {
        self.balancer().members.named(name).ok().map(|member| member.state)
    }

    fn all_active(&mut self) {
        let count = self.members.len();
        self.until("all are active", |bench| bench.data_path.serving().len() == count);
    }

    fn end(&mut self, ending: Shutdown) {
        if let Some(balancer) = self.balancer.take() {
            balancer.shut_down(ending);
        }
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.end(Shutdown::Detach);
    }
}

#[test]
fn routes_and_strategies_of_the_control_member_are_replicated() {
    let Some(mut bench) = Bench::start(3, "") else { return };
    let mut control = bench.members[0].management();
    register(&mut control, "/a", "udp4://192.0.2.7:6363", 5);
    bench.all_active();
    assert_eq!(bench.data_path.state().control, 1);
    // The first list of routes may be older than this one.
    bench.until("the route at all members", |bench| {
        bench.members.iter().all(|member| member.routes() == ["/a udp4://192.0.2.7:6363 5"])
    });
    // A new route, a changed one, a withdrawn one: each is replicated within a second.
    register(&mut control, "/b", "udp4://192.0.2.8:6363", 1);
    let took = bench.until("a new route", |bench| bench.members[2].routes().len() == 2);
    assert!(took < Duration::from_secs(1), "{took:?}");
    register(&mut control, "/a", "udp4://192.0.2.7:6363", 9);
    bench.until("a changed route", |bench| bench.members[1].routes()[0].ends_with(" 9"));
    let faces = control.faces().unwrap();
    let face = faces.iter().find(|face| face.uri == "udp4://192.0.2.8:6363").unwrap().face_id;
    control
        .command(
            Verb::FacesDestroy,
            &ControlParameters { face_id: Some(face), ..ControlParameters::default() },
        )
        .unwrap();
    let took = bench.until("a withdrawn route", |bench| bench.members[2].routes().len() == 1);
    assert!(took < Duration::from_secs(1), "{took:?}");
    bench.until("an unused face is destroyed", |bench| {
        bench.members[2]
            .management()
            .faces()
            .unwrap()
            .iter()
            .all(|face| face.uri != "udp4://192.0.2.8:6363")
    });
    // Strategies are replicated as well.
    let strategy = nw_api::management::Strategy(name("/localhost/nfd/strategy/multicast"));
    let parameters =
        ControlParameters { strategy: Some(strategy), ..ControlParameters::of(name("/a")) };
    control.command(Verb::StrategyChoiceSet, &parameters).unwrap();
    bench.until("a strategy", |bench| {
        let choices = bench.members[1].management().strategies().unwrap();
        choices.iter().any(|choice| {
            choice.name == name("/a") && choice.strategy.0.to_string().contains("multicast")
        })
    });
}

#[test]
fn new_member_has_all_routes_before_it_takes_names() {
    let Some(mut bench) = Bench::start(2, "") else { return };
    let mut control = bench.members[0].management();
    register(&mut control, "/first", "udp4://192.0.2.7:6363", 0);
    let faces = control.faces().unwrap();
    let face_id =
        faces.iter().find(|face| face.uri == "udp4://192.0.2.7:6363").map(|face| face.face_id);
    let routes: Vec<_> = (0..5_000)
        .map(|number| ControlParameters {
            face_id,
            origin: Some(255),
            cost: Some(1),
            flags: Some(1),
            ..ControlParameters::of(name(&format!("/many/{number}")))
        })
        .collect();
    assert_eq!(control.register(&routes).unwrap(), []);
    bench.until("all routes were seen", |bench| bench.balancer().replica.routes == 5_001);
    bench.all_active();
    let member = Member::start(bench.directory.path(), "late", bench.address);
    let wanted = MemberWanted {
        name: "late".to_owned(),
        addresses: vec![bench.address],
        port: member.port,
        weight: None,
        control: Some(member.socket.clone()),
        external_routes: false,
    };
    assert_eq!(bench.balancer().add(wanted.clone()).unwrap().state, MemberState::Joining);
    let twice = bench.balancer().add(wanted).unwrap_err().to_string();
    assert!(
        twice.contains("a name that no other member has")
            && twice.contains("a port that no other member has"),
        "{twice}"
    );
    bench.until("it takes names", |bench| bench.data_path.serving().contains(&3));
    assert_eq!(member.routes().len(), 5_001, "it had all routes before");
    // Without changes the generation stays the same.
    let generation = bench.balancer().replica.generation;
    for _ in 0..30 {
        bench.tick();
    }
    assert_eq!(bench.balancer().replica.generation, generation);
    bench.balancer().remove("late").unwrap();
    // Its router may have reported already that nothing is pending; then it is gone.
    assert!(!bench.data_path.serving().contains(&3), "no new names from now on");
    let took = bench.until("it is gone", |bench| !bench.data_path.state().members.contains_key(&3));
    assert!(
        took < Duration::from_secs(5),
        "nothing was pending, so the limit is not awaited: {took:?}"
    );
}

#[test]
fn router_that_exits_is_replaced_and_joins_again() {
    let Some(mut bench) = Bench::start(3, "") else { return };
    register(&mut bench.members[0].management(), "/a", "udp4://192.0.2.7:6363", 5);
    bench.all_active();
    bench.until("the others have the route", |bench| {
        bench.members[1..].iter().all(|member| member.routes().len() == 1)
    });
    // The control member itself: another one takes its place, and no route is lost.
    bench.members[0].end();
    let took = bench.until("it has failed", |bench| bench.state("m1") == Some(MemberState::Failed));
    assert!(took < Duration::from_secs(2), "{took:?}");
    bench.until("another one stands in", |bench| bench.data_path.state().control == 2);
    assert_eq!(bench.data_path.serving(), BTreeSet::from([2, 3]));
    let port = bench.members[0].port;
    let (directory, address) = (bench.directory.path().to_owned(), bench.address);
    bench.members[0] = Member::start_at(&directory, "m1", address, port);
    bench.until("it is back", |bench| bench.state("m1") == Some(MemberState::Active));
    for member in &bench.members {
        assert_eq!(
            member.routes(),
            ["/a udp4://192.0.2.7:6363 5"],
            "the new router got its routes back"
        );
    }
    bench.until("it is the control member again", |bench| bench.data_path.state().control == 1);
}

#[test]
fn restart_takes_over_the_data_path() {
    let Some(mut bench) = Bench::start(2, "") else { return };
    bench.all_active();
    let member = Member::start(bench.directory.path(), "late", bench.address);
    let wanted = MemberWanted {
        name: "late".to_owned(),
        addresses: vec![bench.address],
        port: member.port,
        weight: Some("50".to_owned()),
        control: Some(member.socket.clone()),
        external_routes: true,
    };
    bench.balancer().add(wanted).unwrap();
    bench.until("it takes names", |bench| bench.data_path.serving().len() == 3);
    bench
        .balancer()
        .change("m2", &MemberChange { drain: Some(true), ..MemberChange::default() })
        .unwrap();
    bench.until("it is drained", |bench| bench.state("m2") == Some(MemberState::Drained));
    let slots = bench.data_path.state().slots.clone();
    bench.end(Shutdown::LeaveAttached);
    assert!(!bench.data_path.state().removed);
    bench.data_path.state().adopted = true;
    bench.start_balancer("");
    assert_eq!(bench.data_path.state().slots, slots, "from the first moment");
    assert_eq!(bench.state("m2"), Some(MemberState::Drained));
    assert_eq!(bench.state("late"), Some(MemberState::Active));
    let weight = bench.balancer().members.named("late").unwrap().item.weight;
    assert_eq!(weight, Weight::Fixed(50));
    for _ in 0..50 {
        bench.tick();
        assert_eq!(bench.data_path.state().slots, slots);
    }
    bench.end(Shutdown::Detach);
    assert!(bench.data_path.state().removed);
}

#[test]
fn weight_is_measured_and_remote_agent_completes_a_member() {
    let Some(mut bench) = Bench::start(1, "[measure]\nduration_ms = 300\n") else { return };
    register(&mut bench.members[0].management(), "/a", "udp4://192.0.2.7:6363", 5);
    bench.all_active();
    let changed = MemberChange { weight: Some("measured".to_owned()), ..MemberChange::default() };
    bench.balancer().change("m1", &changed).unwrap();
    bench.until("it was measured", |bench| {
        bench.balancer().members.named("m1").unwrap().measured_per_s.is_some()
    });
    let per_s = bench.balancer().members.named("m1").unwrap().measured_per_s.unwrap();
    assert!(per_s > 100, "{per_s}");
    let wrong = MemberChange { weight: Some("much".to_owned()), ..MemberChange::default() };
    assert!(matches!(bench.balancer().change("m1", &wrong), Err(CommandError::Wrong(_))));
    assert!(matches!(bench.balancer().show("m9"), Err(CommandError::Unknown(_))));
    assert!(matches!(bench.balancer().remove("m1"), Err(CommandError::Conflict(_))));
    // A member with an agent elsewhere joins once the agent reports that all routes are there.
    let far = Member::start(bench.directory.path(), "far", bench.address);
    let wanted = MemberWanted {
        name: "far".to_owned(),
        addresses: vec![bench.address],
        port: far.port,
        weight: None,
        control: None,
        external_routes: false,
    };
    bench.balancer().add(wanted).unwrap();
    let mut router = far.management();
    router.answer_probes(crate::probe::prefix("cluster", "far")).unwrap();
    let answers = std::thread::spawn(move || router.serve(Duration::from_secs(4)).unwrap());
    bench.until("it is healthy", |bench| {
        bench.balancer().members.named("far").unwrap().healthy == Some(true)
    });
    let trouble = bench.balancer().show("far").unwrap().trouble.unwrap();
    assert!(trouble.contains("nw balancer agent"), "{trouble}");
    let mut config = bench.balancer().config.clone();
    config.control.agents_listen = Some("127.0.0.1:0".parse().unwrap());
    let (handle, counts) = (bench.balancer().handle(), bench.balancer().enrolment_counts());
    let hub = remote_agents::listen(&config, handle, counts).unwrap().unwrap();
    let folder = remote_agents::authority_folder(&config);
    let agent = std::thread::spawn(move || {
        report_as_enrolled_host(&folder, &hub.address().to_string());
        hub
    });
    bench.until("the agent has reported", |_| agent.is_finished());
    let hub = agent.join().unwrap();
    bench.until("it takes names", |bench| bench.state("far") == Some(MemberState::Active));
    answers.join().unwrap();
    drop(hub);
}

/// Enrols as the host of `far`, and reports that its router has all routes.
fn report_as_enrolled_host(folder: &Path, balancer: &str) {
    let state = folder.join("test-agent");
    let token = nw_agent::add_host(folder, "far", 60).unwrap();
    nw_agent::enrol(&state, balancer, &token).unwrap();
    let mut client = nw_agent::ManagerClient::open(&state, None).unwrap();
    let mut send = |request: &[u8]| -> AgentReply {
        serde_json::from_slice(&client.call(request, Duration::from_secs(20)).unwrap()).unwrap()
    };
    let mut call = |request: AgentRequest| send(&serde_json::to_vec(&request).unwrap());
    let AgentReply::Cluster(cluster) = call(AgentRequest::Cluster) else { panic!() };
    assert_eq!((cluster.name.as_str(), cluster.addresses.len()), ("cluster", 1));
    let AgentReply::Entry(Some(entry)) = call(AgentRequest::Entry) else { panic!() };
    assert_eq!(entry.name, "far");
    let AgentReply::Replica(Some(replica)) = call(AgentRequest::Replica(0)) else { panic!() };
    let faces: Vec<_> = replica.routes.iter().map(|route| route.face.as_str()).collect();
    assert_eq!(faces, ["udp4://192.0.2.7:6363"]);
    let report = AgentReport { generation: Some(replica.generation), ..AgentReport::default() };
    assert!(matches!(call(AgentRequest::Report(report)), AgentReply::Order(_)));
    let known = AgentRequest::Replica(replica.generation);
    assert_eq!(call(known), AgentReply::Replica(None));

    // What is not about its own member, or would open a file of the balancer's machine.
    let wanted = |name: &str, control: Option<&str>| {
        let (name, addresses) = (name.to_owned(), entry.addresses.clone());
        let control = control.map(PathBuf::from);
        let port = entry.port;
        MemberWanted { name, addresses, port, weight: None, control, external_routes: false }
    };
    for (wanted, code) in [
        (wanted("m1", None), 403),
        (wanted("far", Some("/run/x.sock")), 403),
        (MemberWanted { port: 0, ..wanted("far", None) }, 422),
        (wanted("far", None), 400),
    ] {
        let AgentReply::Refused(problem) = call(AgentRequest::Join(wanted)) else { panic!() };
        assert_eq!(problem.code, code, "{}", problem.text);
    }
    let AgentReply::Refused(problem) = send(b"{\"unknown\":1}") else { panic!() };
    assert!(problem.text.contains("install the same version"), "{}", problem.text);
}

#[test]
fn on_demand_udp_producer_becomes_one_port_peer() {
    let Some(mut bench) = Bench::start(1, "") else { return };
    bench.all_active();
    // A UDP producer with a route at the control member, as registered by /localhop/nfd.
    let producer = UdpSocket::bind((bench.address, 0)).unwrap();
    let interest = nw_wire::InterestBuilder::new(name("/x")).nonce(1).encode();
    producer.send_to(&interest, (bench.address, bench.members[0].port)).unwrap();
    let peer = producer.local_addr().unwrap();
    let mut control = bench.members[0].management();
    let uri = format!("udp4://{peer}");
    let face_id = {
        let start = Clock::now();
        loop {
            let faces = control.faces().unwrap();
            if let Some(face) = faces.iter().find(|face| face.uri == uri) {
                break Some(face.face_id);
            }
            assert!(start.elapsed() < Duration::from_secs(5), "no face for {uri}");
        }
    };
    let route = ControlParameters { face_id, ..ControlParameters::of(name("/p")) };
    control.command(Verb::RibRegister, &route).unwrap();
    bench.until("the kernel knows it", |bench| bench.data_path.state().peers == [peer]);
    let known = control.dataset(Dataset::RibList, None).unwrap();
    assert!(matches!(known, crate::agent::Fetched::New(Some(_), _)));
}

#[test]
fn reload_changes_members_rules_and_weights() {
    let Some(mut bench) = Bench::start(3, "") else { return };
    bench.all_active();
    // A weight, a rule, a limit: applied at once, and no member leaves.
    let text = bench.file("[drain]\nlimit_s = 7\n[[rule]]\nprefix = \"/a\"\ndepth = 2\n");
    bench.reload(&text.replacen("name = \"m2\"\n", "name = \"m2\"\nweight = 200\n", 1));
    assert_eq!(bench.data_path.serving().len(), 3);
    let shares: Vec<_> =
        bench.balancer().status().members.iter().map(|member| member.share).collect();
    assert!((shares[1] - 0.5).abs() < 0.02, "{shares:?}");
    assert_eq!(bench.balancer().rule_texts().len(), 2);
    assert_eq!(bench.balancer().config.drain.limit_s, 7);
    // A member removed from the file leaves, and joins when it is in the file again.
    let last = bench.members.pop().unwrap();
    let text = bench.file("");
    bench.reload(&text);
    bench.until("the third has left", |bench| bench.state("m3").is_none());
    assert_eq!(bench.data_path.serving().len(), 2);
    bench.members.push(last);
    let text = bench.file("");
    bench.reload(&text);
    bench.all_active();
    assert!(!bench.balancer().members.named("m3").unwrap().added);
    // A member with another port leaves and joins with it, even the control member.
    for number in [2, 1] {
        let moved = &mut bench.members[number - 1];
        moved.end();
        let address = bench.address;
        *moved = Member::start(bench.directory.path(), &format!("m{number}"), address);
        let port = moved.port;
        let text = bench.file("");
        bench.reload(&text);
        bench.until("the moved one is back", |bench| {
            let there = bench.data_path.state().members.values().any(|entry| entry.port == port);
            there && bench.state(&format!("m{number}")) == Some(MemberState::Active)
        });
    }
    bench.all_active();
    // A member removed and added again before it is gone.
    let text = bench.file("");
    let without = text.split("[[member]]\nname = \"m3\"").next().unwrap().to_owned();
    bench.reload(&without);
    bench.reload(&text);
    bench.all_active();
}
