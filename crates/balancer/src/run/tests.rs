//! A balancer without a kernel: real routers in this process, real agents and probes, and a data path that remembers what it was told.

use super::*;
use crate::agent::Router as Management;
use crate::config::Weight;
use nw_api::balancer::{MemberChange, MemberWanted};
use nw_api::management::{ControlParameters, Dataset, FacePersistency, Verb};
use nw_kernel::balancer::{BalancerCounters, HeldFragments, Link, MemberEntry};
use nw_name::Name;
use std::net::UdpSocket;
use std::path::Path;
use std::time::{Duration, Instant as Clock};

#[derive(Clone, Default)]
struct Told(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    adopted: bool,
    members: BTreeMap<u8, MemberEntry>,
    slots: Vec<u8>,
    control: u8,
    peers: Vec<SocketAddr>,
    removed: bool,
}

impl Told {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    fn serving(&self) -> BTreeSet<u8> {
        self.state().slots.iter().copied().filter(|number| *number != 0).collect()
    }
}

impl DataPath for Told {
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
        assert!(known, "names go to members that are known");
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
        Ok(BalancerCounters::default())
    }

    fn held_fragments(&mut self) -> Result<Option<HeldFragments>, KernelError> {
        Ok(None)
    }
}

/// Set in a process that a test started in a network namespace of its own.
const IN_NAMESPACE: &str = "NW_TEST_IN_NAMESPACE";

/// Returns an address of this machine that is not loopback, as members have. On a machine without one the test that calls this runs again in a
/// network namespace with such an address, and `None` tells it that this was done.
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
    command.args(["--net", "sh", "-c", prepare, "sh"]).arg(program).args(["--exact", test, "--nocapture"]);
    let may = rustix::process::geteuid().is_root();
    if !may {
        // Past the capture of the test runner: a test that does not run must be seen.
        let line = format!("skipped: {test}: no address but loopback, and only root can make a namespace\n");
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
    fn start(folder: &Path, name: &str, address: IpAddr) -> Member {
        let port = UdpSocket::bind((address, 0)).unwrap().local_addr().unwrap().port();
        Member::start_at(folder, name, address, port)
    }

    fn start_at(folder: &Path, name: &str, address: IpAddr, port: u16) -> Member {
        let socket = folder.join(format!("{name}.sock"));
        let text = format!(
            "[faces.unix]\npath = {socket:?}\n[faces.udp]\nlisten = [\"{address}:{port}\"]\n[faces.tcp]\nlisten = []\n[control]\nenabled = false\n"
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

    /// Prefixes with their faces' URIs, of routes that lead away from this machine's routers.
    fn routes(&self) -> Vec<String> {
        let mut router = self.management();
        let faces = router.faces().unwrap();
        let uri = |id: u64| faces.iter().find(|face| face.face_id == id).map(|face| face.uri.clone());
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
    let route = ControlParameters { face_id, cost: Some(cost), ..ControlParameters::of(name(prefix)) };
    router.command(Verb::RibRegister, &route).unwrap();
}

/// A cluster of routers, and the balancer's loop turned by the test.
struct Lab {
    folder: tempfile::TempDir,
    address: IpAddr,
    members: Vec<Member>,
    told: Told,
    balancer: Option<Balancer>,
}

impl Lab {
    fn start(count: usize, more: &str) -> Option<Lab> {
        let address = own_address()?;
        let folder = tempfile::tempdir().unwrap();
        let members: Vec<_> =
            (1..=count).map(|number| Member::start(folder.path(), &format!("m{number}"), address)).collect();
        let mut lab = Lab { folder, address, members, told: Told::default(), balancer: None };
        lab.balance(more);
        Some(lab)
    }

    fn balance(&mut self, more: &str) {
        let text = self.file(more);
        let config = Config::parse("test", &text).unwrap();
        let (key, _) = crate::key::key(&config.cluster).unwrap();
        let ways = crate::ways::Ways::watch().unwrap();
        let balancer = Balancer::with(config, key, Box::new(self.told.clone()), ways, None);
        self.balancer = Some(balancer.unwrap());
    }

    /// Returns the configuration file for the members there are.
    fn file(&self, more: &str) -> String {
        let mut text = format!(
            "[cluster]\naddresses = [\"192.0.2.1\"]\ninterfaces = [\"lo\"]\ncontrol_member = \"m1\"\nfolder = {:?}\nsystem_settings = false\n\
             [health]\ninterval_ms = 100\ntimeout_ms = 300\nsuccesses = 2\n[routes]\ninterval_ms = 50\n{more}",
            self.folder.path()
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

    /// Turns the loop until something is so; how long that took.
    fn until(&mut self, what: &str, mut holds: impl FnMut(&mut Lab) -> bool) -> Duration {
        let start = Clock::now();
        while !holds(self) {
            assert!(start.elapsed() < Duration::from_secs(20), "{what}: {:#?}", self.balancer().status());
            self.turn();
        }
        start.elapsed()
    }

    fn turn(&mut self) {
        let balancer = self.balancer.as_mut().unwrap();
        if let Ok(event) = balancer.events.recv_timeout(Duration::from_millis(20)) {
            balancer.take(event);
        }
        balancer.turn();
    }

    fn balancer(&mut self) -> &mut Balancer {
        self.balancer.as_mut().unwrap()
    }

    fn state(&mut self, name: &str) -> Option<MemberState> {
        self.balancer().members.named(name).ok().map(|member| member.state)
    }

    fn all_active(&mut self) {
        let count = self.members.len();
        self.until("all are active", |lab| lab.told.serving().len() == count);
    }

    fn end(&mut self, ending: Ending) {
        if let Some(balancer) = self.balancer.take() {
            balancer.finish(ending);
        }
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.end(Ending::Clean);
    }
}

#[test]
fn routes_follow_and_members_get_names_when_they_have_them() {
    let Some(mut lab) = Lab::start(3, "") else { return };
    let mut control = lab.members[0].management();
    register(&mut control, "/a", "udp4://192.0.2.7:6363", 5);
    lab.all_active();
    assert_eq!(lab.told.state().control, 1);
    for member in &lab.members {
        assert_eq!(member.routes(), ["/a udp4://192.0.2.7:6363 5"]);
    }
    // A new one, a changed one, a withdrawn one: each within a second.
    register(&mut control, "/b", "udp4://192.0.2.8:6363", 1);
    let took = lab.until("a new route", |lab| lab.members[2].routes().len() == 2);
    assert!(took < Duration::from_secs(1), "{took:?}");
    register(&mut control, "/a", "udp4://192.0.2.7:6363", 9);
    lab.until("a changed route", |lab| lab.members[1].routes()[0].ends_with(" 9"));
    let faces = control.faces().unwrap();
    let face = faces.iter().find(|face| face.uri == "udp4://192.0.2.8:6363").unwrap().face_id;
    control
        .command(
            Verb::FacesDestroy,
            &ControlParameters { face_id: Some(face), ..ControlParameters::default() },
        )
        .unwrap();
    let took = lab.until("a withdrawn route", |lab| lab.members[2].routes().len() == 1);
    assert!(took < Duration::from_secs(1), "{took:?}");
    lab.until("a face that nobody needs", |lab| {
        lab.members[2].management().faces().unwrap().iter().all(|face| face.uri != "udp4://192.0.2.8:6363")
    });
    // Strategies go along.
    let strategy = nw_api::management::Strategy(name("/localhost/nfd/strategy/multicast"));
    let parameters = ControlParameters { strategy: Some(strategy), ..ControlParameters::of(name("/a")) };
    control.command(Verb::StrategyChoiceSet, &parameters).unwrap();
    lab.until("a strategy", |lab| {
        let choices = lab.members[1].management().strategies().unwrap();
        choices
            .iter()
            .any(|choice| choice.name == name("/a") && choice.strategy.0.to_string().contains("multicast"))
    });
}

#[test]
fn a_new_member_has_all_routes_before_it_gets_names() {
    let Some(mut lab) = Lab::start(2, "") else { return };
    let mut control = lab.members[0].management();
    register(&mut control, "/first", "udp4://192.0.2.7:6363", 0);
    let faces = control.faces().unwrap();
    let face_id = faces.iter().find(|face| face.uri == "udp4://192.0.2.7:6363").map(|face| face.face_id);
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
    lab.until("all routes were seen", |lab| lab.balancer().replica.routes == 5_001);
    lab.all_active();
    let member = Member::start(lab.folder.path(), "late", lab.address);
    let wanted = MemberWanted {
        name: "late".to_owned(),
        addresses: vec![lab.address],
        port: member.port,
        weight: None,
        control: Some(member.socket.clone()),
        own_routes: false,
    };
    assert_eq!(lab.balancer().add(wanted.clone()).unwrap().state, MemberState::Joining);
    let twice = lab.balancer().add(wanted).unwrap_err().to_string();
    assert!(
        twice.contains("a name that no other member has")
            && twice.contains("a port that no other member has"),
        "{twice}"
    );
    lab.until("it takes names", |lab| lab.told.serving().contains(&3));
    assert_eq!(member.routes().len(), 5_001, "all routes were there at once");
    // Nothing changes: looks are short, and nobody is told anything.
    let generation = lab.balancer().replica.generation;
    for _ in 0..30 {
        lab.turn();
    }
    assert_eq!(lab.balancer().replica.generation, generation);
    lab.balancer().remove("late").unwrap();
    // Its router may have said already that nothing is pending there; then it is gone.
    assert!(!lab.told.serving().contains(&3), "no new names from now on");
    let took = lab.until("it is gone", |lab| !lab.told.state().members.contains_key(&3));
    assert!(
        took < Duration::from_secs(5),
        "nothing was pending, so it need not wait for the limit: {took:?}"
    );
}

#[test]
fn a_router_that_dies_is_replaced_and_comes_back() {
    let Some(mut lab) = Lab::start(3, "") else { return };
    register(&mut lab.members[0].management(), "/a", "udp4://192.0.2.7:6363", 5);
    lab.all_active();
    // The control member itself: another one stands in, and nobody loses a route.
    lab.members[0].end();
    let took = lab.until("it has failed", |lab| lab.state("m1") == Some(MemberState::Failed));
    assert!(took < Duration::from_secs(2), "{took:?}");
    lab.until("another one stands in", |lab| lab.told.state().control == 2);
    assert_eq!(lab.told.serving(), BTreeSet::from([2, 3]));
    let port = lab.members[0].port;
    let (folder, address) = (lab.folder.path().to_owned(), lab.address);
    lab.members[0] = Member::start_at(&folder, "m1", address, port);
    lab.until("it is back", |lab| lab.state("m1") == Some(MemberState::Active));
    for member in &lab.members {
        assert_eq!(member.routes(), ["/a udp4://192.0.2.7:6363 5"], "what the first one forgot, it was told");
    }
    lab.until("it commands again", |lab| lab.told.state().control == 1);
}

#[test]
fn a_restart_takes_over() {
    let Some(mut lab) = Lab::start(2, "") else { return };
    lab.all_active();
    let member = Member::start(lab.folder.path(), "late", lab.address);
    let wanted = MemberWanted {
        name: "late".to_owned(),
        addresses: vec![lab.address],
        port: member.port,
        weight: Some("50".to_owned()),
        control: Some(member.socket.clone()),
        own_routes: true,
    };
    lab.balancer().add(wanted).unwrap();
    lab.until("it takes names", |lab| lab.told.serving().len() == 3);
    lab.balancer().change("m2", &MemberChange { drain: Some(true), ..MemberChange::default() }).unwrap();
    lab.until("it is drained", |lab| lab.state("m2") == Some(MemberState::Drained));
    let slots = lab.told.state().slots.clone();
    lab.end(Ending::Keep);
    assert!(!lab.told.state().removed);
    lab.told.state().adopted = true;
    lab.balance("");
    assert_eq!(lab.told.state().slots, slots, "from the first moment");
    assert_eq!(lab.state("m2"), Some(MemberState::Drained));
    assert_eq!(lab.state("late"), Some(MemberState::Active));
    let weight = lab.balancer().members.named("late").unwrap().item.weight;
    assert_eq!(weight, Weight::Fixed(50));
    for _ in 0..50 {
        lab.turn();
        assert_eq!(lab.told.state().slots, slots);
    }
    lab.end(Ending::Clean);
    assert!(lab.told.state().removed);
}

#[test]
fn weights_are_measured_and_agents_far_away_are_heard() {
    let Some(mut lab) = Lab::start(1, "[measure]\nduration_ms = 300\n") else { return };
    register(&mut lab.members[0].management(), "/a", "udp4://192.0.2.7:6363", 5);
    lab.all_active();
    let changed = MemberChange { weight: Some("measured".to_owned()), ..MemberChange::default() };
    lab.balancer().change("m1", &changed).unwrap();
    lab.until("it was measured", |lab| lab.balancer().members.named("m1").unwrap().measured_per_s.is_some());
    let per_s = lab.balancer().members.named("m1").unwrap().measured_per_s.unwrap();
    assert!(per_s > 100, "{per_s}");
    let wrong = MemberChange { weight: Some("much".to_owned()), ..MemberChange::default() };
    assert!(matches!(lab.balancer().change("m1", &wrong), Err(CommandError::Wrong(_))));
    assert!(matches!(lab.balancer().show("m9"), Err(CommandError::Unknown(_))));
    assert!(matches!(lab.balancer().remove("m1"), Err(CommandError::Conflict(_))));
    // A member whose agent is elsewhere: it waits until that says that all is there.
    let far = Member::start(lab.folder.path(), "far", lab.address);
    let wanted = MemberWanted {
        name: "far".to_owned(),
        addresses: vec![lab.address],
        port: far.port,
        weight: None,
        control: None,
        own_routes: false,
    };
    lab.balancer().add(wanted).unwrap();
    let mut router = far.management();
    router.answer_probes(crate::probe::prefix("cluster", "far")).unwrap();
    let answers = std::thread::spawn(move || router.serve(Duration::from_secs(4)).unwrap());
    lab.until("it is healthy", |lab| lab.balancer().members.named("far").unwrap().healthy == Some(true));
    let trouble = lab.balancer().show("far").unwrap().trouble.unwrap();
    assert!(trouble.contains("nw balancer agent"), "{trouble}");
    let replica = lab.balancer().replica_for("far", 0).unwrap().unwrap();
    assert_eq!((replica.routes.len(), replica.routes[0].face.as_str()), (1, "udp4://192.0.2.7:6363"));
    let report = AgentReport { generation: Some(replica.generation), ..AgentReport::default() };
    assert!(lab.balancer().on_remote_report("nobody", &report).is_err());
    lab.balancer().on_remote_report("far", &report).unwrap();
    assert_eq!(lab.balancer().replica_for("far", replica.generation), Ok(None));
    assert!(lab.balancer().replica_for("nobody", 0).is_err());
    lab.until("it takes names", |lab| lab.state("far") == Some(MemberState::Active));
    answers.join().unwrap();
}

#[test]
fn one_port_peers_are_producers_that_came_by_themselves() {
    let Some(mut lab) = Lab::start(1, "") else { return };
    lab.all_active();
    // A producer that registers by UDP at the control member, as by /localhop/nfd: here somebody registers for its face.
    let producer = UdpSocket::bind((lab.address, 0)).unwrap();
    let interest = nw_wire::InterestBuilder::new(name("/x")).nonce(1).encode();
    producer.send_to(&interest, (lab.address, lab.members[0].port)).unwrap();
    let peer = producer.local_addr().unwrap();
    let mut control = lab.members[0].management();
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
    lab.until("the kernel knows it", |lab| lab.told.state().peers == [peer]);
    let known = control.dataset(Dataset::RibList, None).unwrap();
    assert!(matches!(known, crate::agent::Fetched::New(Some(_), _)));
}

#[test]
fn file_read_again_changes_members_rules_and_weights() {
    let Some(mut lab) = Lab::start(3, "") else { return };
    lab.all_active();
    // Another weight, a rule, a limit: at once, and nobody leaves.
    let text = lab.file("[drain]\nlimit_s = 7\n[[rule]]\nprefix = \"/a\"\ndepth = 2\n");
    lab.reload(&text.replacen("name = \"m2\"\n", "name = \"m2\"\nweight = 200\n", 1));
    assert_eq!(lab.told.serving().len(), 3);
    let shares: Vec<_> = lab.balancer().status().members.iter().map(|member| member.share).collect();
    assert!((shares[1] - 0.5).abs() < 0.02, "{shares:?}");
    assert_eq!(lab.balancer().rule_texts().len(), 2);
    assert_eq!(lab.balancer().config.drain.limit_s, 7);
    // A member that the file has no more leaves, and comes back with it.
    let last = lab.members.pop().unwrap();
    let text = lab.file("");
    lab.reload(&text);
    lab.until("the third has left", |lab| lab.state("m3").is_none());
    assert_eq!(lab.told.serving().len(), 2);
    lab.members.push(last);
    let text = lab.file("");
    lab.reload(&text);
    lab.all_active();
    assert!(!lab.balancer().members.named("m3").unwrap().added);
    // A member whose port changed leaves and joins there, the control member too.
    for number in [2, 1] {
        let moved = &mut lab.members[number - 1];
        moved.end();
        let address = lab.address;
        *moved = Member::start(lab.folder.path(), &format!("m{number}"), address);
        let port = moved.port;
        let text = lab.file("");
        lab.reload(&text);
        lab.until("the moved one is back", |lab| {
            let there = lab.told.state().members.values().any(|entry| entry.port == port);
            there && lab.state(&format!("m{number}")) == Some(MemberState::Active)
        });
    }
    lab.all_active();
    // Removed and named again before it has left.
    let text = lab.file("");
    let without = text.split("[[member]]\nname = \"m3\"").next().unwrap().to_owned();
    lab.reload(&without);
    lab.reload(&text);
    lab.all_active();
}
