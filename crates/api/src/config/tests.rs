use super::*;

fn problems(text: &str) -> Vec<String> {
    match Config::parse("nw.toml", text) {
        Ok(_) => Vec::new(),
        Err(problems) => problems.0.iter().map(ToString::to_string).collect(),
    }
}

#[test]
fn the_reference_says_what_no_file_says() {
    let reference = Config::reference();
    assert_eq!(Config::parse("reference", &reference), Ok(Config::default()), "{reference}");
    assert_eq!(Config::parse("empty", ""), Ok(Config::default()));
    for name in Config::option_names() {
        let key = name.rsplit('.').next().unwrap();
        let line =
            reference.lines().find(|line| line.trim_start_matches("# ").starts_with(&format!("{key} = ")));
        assert!(
            line.is_some_and(|line| !line.ends_with("= ") && !line.ends_with('…')),
            "{name} has no value to show"
        );
    }
}

#[test]
fn examples_of_items_can_be_read() {
    let reference = Config::reference();
    let items = reference.split_once("# [[face]]").unwrap().1;
    // Take the comments off what looks like TOML.
    let lines = items.lines().map(|line| line.strip_prefix("# ").unwrap_or(""));
    let toml: Vec<&str> = lines.filter(|line| line.contains(" = ") || line.starts_with("[[")).collect();
    let config = Config::parse("items", &format!("[[face]]\n{}", toml.join("\n"))).unwrap();
    assert_eq!((config.face.len(), config.route.len(), config.strategy.len()), (1, 1, 1));
    assert_eq!(config.face[0].mtu, Some(1420));
    assert_eq!(config.route[0].prefix.to_string(), "/example");
}

#[test]
fn all_mistakes_at_once_each_with_its_line() {
    let text = "\
[tables]
pit_entries = \"many\"
pitt = 5

[faces]
max = 3

[faces.udp]
mtu = 9000
listen = [\"0.0.0.0\"]

[[route]]
prefix = \"example\"
face = \"http://x\"

[[route]]
cost = -1

[colour]
";
    let expected = [
        "nw.toml:2: tables.pit_entries: saw \"many\"; expected an integer from 64 to 67108863",
        "nw.toml:3: tables: saw the unknown option pitt; expected one of pit_entries, ",
        "nw.toml:6: faces.max: saw 3; expected an integer from 16 to 1000000",
        "nw.toml:9: faces.udp.mtu: saw 9000; expected an integer from 64 to 8800",
        "nw.toml:10: faces.udp.listen: saw [\"0.0.0.0\"]; expected a list in brackets, each item an address and port",
        "nw.toml:13: route[0].prefix: saw \"example\"; expected a name in quotes",
        "nw.toml:14: route[0].face: saw \"http://x\"; expected a face URI",
        "nw.toml:16: route[1].prefix: saw nothing; expected a name",
        "nw.toml:16: route[1].face: saw nothing; expected a face URI",
        "nw.toml:17: route[1].cost: saw -1; expected an integer from 0",
        "nw.toml:19: sections: saw the unknown section colour; expected one of faces, faces.unix",
    ];
    let seen = problems(text);
    assert_eq!(seen.len(), expected.len(), "{seen:#?}");
    for (seen, expected) in seen.iter().zip(expected) {
        assert!(seen.starts_with(expected), "saw      {seen}\nexpected {expected}");
    }
}

#[test]
fn text_that_is_no_toml() {
    let seen = problems("[tables]\npit_entries = = 5\n\n[log\n");
    assert_eq!(
        seen,
        [
            "nw.toml:2: TOML: expected a value after `=`; the line is: pit_entries = = 5",
            "nw.toml:4: TOML: the name of a section stands between brackets, as in [faces.udp]; the line is: [log",
        ]
    );
    assert!(!problems("tables = 5").is_empty());
    assert!(!problems("[route]\nprefix = \"/\"").is_empty());
    assert!(!problems("route = [5]").is_empty());
    assert!(!problems("faces = 5").is_empty());
    assert!(!problems("[log]\nlevel = \"info\"\nlevel = \"warn\"").is_empty());
}

#[test]
fn contradictions() {
    let long = format!("[faces.unix]\npath = \"/{}\"", "x".repeat(107));
    for (text, line, option) in [
        ("[faces.unix]\nenabled = false\npath = \"/x\"", 3, "faces.unix.path"),
        (
            "[faces.unix]\nenabled = false\n[faces.tcp]\nlisten = []\n[faces.udp]\nlisten = []",
            2,
            "faces.unix.enabled",
        ),
        ("[faces.tcp]\nlisten = [\"0.0.0.0:1\", \"127.0.0.1:1\"]", 2, "faces.tcp.listen"),
        ("[faces.udp]\nlisten = [\"[::1]:1\", \"[::1]:1\"]", 2, "faces.udp.listen"),
        ("[faces.websocket]\nlisten = [\"[::1]:1\", \"[::1]:1\"]", 2, "faces.websocket.listen"),
        ("[faces.websocket]\nlisten = [\"127.0.0.1:6363\"]", 2, "faces.websocket.listen"),
        ("[faces.multicast]\ngroups = [\"192.0.2.1:56363\"]", 2, "faces.multicast.groups"),
        ("[faces.multicast]\ngroups = [\"[ff05::1]:56363\"]", 2, "faces.multicast.groups"),
        ("[faces.multicast]\ngroups = [\"[ff02::1]:1\", \"[ff02::1]:1\"]", 2, "faces.multicast.groups"),
        (&long, 2, "faces.unix.path"),
        ("[control]\npath = \"/x\"\n[faces.unix]\npath = \"/x\"", 2, "control.path"),
        ("[control]\nlisten = [\"127.0.0.1:6363\"]", 2, "control.listen"),
        ("[faces.udp]\nlisten = [\"224.0.0.1:6363\"]", 2, "faces.udp.listen"),
        ("[faces]\nqueue_kib = 64\nmarking_threshold_kib = 65", 3, "faces.marking_threshold_kib"),
        ("[content_store]\npackets = 0", 2, "content_store.packets"),
        ("[content_store]\nmib = 0", 2, "content_store.mib"),
        ("[tables]\npit_entries = 64\npit_entries_per_face = 65", 3, "tables.pit_entries_per_face"),
        ("[management]\nknown_key = \"nowhere\"", 2, "management.known_key"),
        ("[management]\ndigest = \"nowhere\"\nunknown_key = \"nowhere\"", 2, "management.digest"),
        ("[[face]]\nuri = \"udp4://192.0.2.1\"\n[[face]]\nuri = \"udp4://192.0.2.1\"", 4, "face[1].uri"),
        ("[[route]]\nprefix = \"/localhost/nfd/x\"\nface = \"unix:///x\"", 2, "route[0].prefix"),
        (
            "[[route]]\nprefix = \"/\"\nface = \"unix:///x\"\n[[route]]\ncost = 1\nprefix = \"/\"\nface = \"unix:///x\"",
            6,
            "route[1].prefix",
        ),
        (
            "[[strategy]]\nprefix = \"/\"\nstrategy = \"/s\"\n[[strategy]]\nprefix = \"/\"\nstrategy = \"/t\"",
            5,
            "strategy[1].prefix",
        ),
    ] {
        let seen = problems(text);
        assert!(
            seen.len() == 1 && seen[0].starts_with(&format!("nw.toml:{line}: {option}: ")),
            "{text}\n{seen:#?}"
        );
    }
    let deep = format!("[[route]]\nprefix = \"{}\"\nface = \"unix:///x\"", "/a".repeat(33));
    assert!(problems(&deep)[0].contains("33 components"));
    assert_eq!(
        problems("[faces.tcp]\nlisten = [\"127.0.0.1:0\", \"127.0.0.1:0\"]"),
        [""; 0],
        "any free port, twice"
    );
}

#[test]
fn toml_mistakes_are_sentences_that_say_what_to_do() {
    for (text, expected) in [
        (
            "[log]\nlevel=\"info\"\n[log]\nformat=\"json\"\n",
            "3: TOML: duplicate section [log], first opened on line 1: write the options of a section together",
        ),
        (
            "[tables]\nroutes = 1\n[log]\nlevel = \"info\"\n level = \"warn\"\n",
            "5: TOML: duplicate key `level`, first set on line 4: set it once",
        ),
        ("hello\n", "1: TOML: `hello` has no value: write `hello = …`; the line is: hello"),
        (
            "[log]\nlevel = info\n",
            "2: TOML: a text stands in quotes, as in \"text\"; the line is: level = info",
        ),
        (
            "[log]\nlevel = warn\n",
            "2: TOML: a text stands in quotes, as in \"text\"; the line is: level = warn",
        ),
        ("[log]\nlevel =\n", "2: TOML: expected a value after `=`; the line is: level ="),
        (
            "garbage = [\n",
            "1: TOML: a list that begins with `[` has no `]` at its end; the line is: garbage = [",
        ),
        (
            "[faces.tcp]\nlisten = [\"a\" \"b\"]\n",
            "2: TOML: two items of a list need a comma between them; the line is: listen = [\"a\" \"b\"]",
        ),
    ] {
        let seen = problems(text);
        assert_eq!(seen[0], format!("nw.toml:{expected}"), "{text}");
    }
    // Whatever the parser says, it does not stand where something expected would.
    for text in ["a = \"\\q\"", "a = 1__2", "a = {b = 1", "= 1", "a.b = 1\na = 2", "\u{1}", "[[", "a = 'x"] {
        let seen = problems(text);
        let bad = seen.iter().find(|problem| problem.contains("; expected ") || problem.contains("saw "));
        assert!(!seen.is_empty() && bad.is_none(), "{text}: {seen:#?}");
    }
}

#[test]
fn mistakes_of_rules_are_named_with_all_others_and_with_their_lines() {
    let text = "\
[[allow]]
id = \"broken\"
privileges = 5
[[allow]]
id = \"r\"
anchors = [\"sitte\"]
privileges = [\"dance\"]
[[anchor]]
id = \"site\"
file = 5
[tables]
pit_entries = 3
";
    let expected = [
        "nw.toml:1: allow[0].anchors: saw nothing; expected a list",
        "nw.toml:3: allow[0].privileges: saw 5; expected a list",
        "nw.toml:6: allow[1].anchors: saw \"sitte\" (did you mean site?); expected the id of an [[anchor]]",
        "nw.toml:7: allow[1].privileges: saw [\"dance\"]; expected a list",
        "nw.toml:10: anchor[0].file: saw 5; expected a path",
        "nw.toml:12: tables.pit_entries: saw 3; expected an integer",
    ];
    let seen = problems(text);
    // The second rule has no `from`: what is wrong with it by default stands at the rule itself, not at the file's first line.
    assert!(seen.len() >= expected.len(), "{seen:#?}");
    for expected in expected {
        assert!(seen.iter().any(|seen| seen.starts_with(expected)), "{expected}\n{seen:#?}");
    }
    let from =
        "[log]\nlevel = \"info\"\n\n[[allow]]\nid = \"r\"\nanchors = [\"any\"]\nprivileges = [\"rib\"]\n";
    assert!(
        problems(from)[0].starts_with("nw.toml:4: allow[0].from: saw a rule for local faces"),
        "{:?}",
        problems(from)
    );
}

#[test]
fn words_that_are_nearly_right_are_recognised() {
    let seen = problems("[content_stor]\npackets = 5\n[tables]\npit_entires = 70\n");
    assert!(seen[0].contains("the unknown section content_stor (did you mean content_store?)"), "{seen:#?}");
    assert!(seen[1].contains("the unknown option pit_entires (did you mean pit_entries?)"), "{seen:#?}");
}

#[test]
fn many_mistakes_cost_as_much_as_their_lines() {
    let time = |count: usize| {
        let lines: String = (0..count).map(|at| format!("k{at} = 1\n")).collect();
        let listen: Vec<String> = (0..count).map(|at| format!("\"127.0.0.1:{}\"", at % 60_000 + 1)).collect();
        let text = format!(
            "[tables]\n{lines}[faces.udp]\nlisten = [{}]\n[log]\n{}",
            listen.join(","),
            "level = \"info\"\n".repeat(count / 10)
        );
        let before = std::time::Instant::now();
        let Err(problems) = Config::parse("nw.toml", &text) else { panic!("there are mistakes") };
        assert!(problems.0.len() <= problem::PROBLEMS_MAX && problems.to_string().len() < 100_000);
        before.elapsed()
    };
    // Four times as much takes about four times as long; a test machine that is busy gets some room.
    let (few, many) = (time(10_000), time(40_000));
    assert!(
        many < few * 10 + std::time::Duration::from_millis(200),
        "{few:?} for 10,000, {many:?} for 40,000"
    );
}

#[test]
fn strategies_and_levels_are_written_short_or_whole() {
    let strategy = |text: &str| {
        let file = format!("[[strategy]]\nprefix = \"/x\"\nstrategy = {text:?}\n");
        Config::parse("nw.toml", &file).map(|config| config.strategy[0].strategy.0.to_string())
    };
    let whole = "/localhost/nfd/strategy/multicast";
    assert_eq!(strategy("multicast").unwrap(), whole);
    assert_eq!(strategy(whole).unwrap(), whole);
    assert_eq!(strategy("asf/v=5/max-timeouts~5").unwrap(), "/localhost/nfd/strategy/asf/v=5/max-timeouts~5");
    assert!(strategy("").is_err());
    let level = |text: &str| Config::parse("nw.toml", &format!("[log]\nlevel = {text:?}\n"));
    for good in ["debug", "info,router=debug", "warn, nw_faces=trace", "off"] {
        assert_eq!(level(good).unwrap().log.level.as_str(), good);
    }
    for bad in ["", "loud", "routr=debug", "router=loud", "info,", "router="] {
        assert!(level(bad).is_err(), "{bad}");
    }
}

#[test]
fn options_that_need_a_restart_are_named() {
    let config = |text: &str| Config::parse("nw.toml", text).unwrap();
    let before = config("");
    let after = config(
        "[faces.udp]\nlisten = []\n[tables]\nlock = true\n[log]\nlevel = \"debug\"\n[content_store]\npackets = 5\n",
    );
    assert_eq!(before.restart_options(&after), ["faces.udp.listen", "tables.lock"]);
    assert_eq!(before.restart_options(&before), [""; 0]);
}

#[test]
fn origins_are_as_browsers_write_them() {
    let file = |origin: &str| format!("[faces.websocket]\nlocal_origins = [\"{origin}\"]");
    let config = Config::parse("nw.toml", &file("HTTP://Localhost:8080")).expect("an origin");
    assert_eq!(config.websocket.local_origins, [Origin("http://localhost:8080".to_owned())]);
    for bad in ["null", "", "localhost:8080", "http://", "http://localhost/", "http://*", "http://a b"] {
        assert_eq!(problems(&file(bad)).len(), 1, "{bad}");
    }
}

#[test]
fn values() {
    let text = "\
[faces.unix]
path = \"/run/test/nw.sock\"
mode = 0o600
[faces.tcp]
listen = []
[forwarder]
regions = [\"/a\", \"/b/c\"]
[management]
localhop = \"anywhere\"
[log]
level = \"debug\"
[[route]]
prefix = \"/x\"
face = \"udp4://192.0.2.1:6363\"
cost = 1_000
capture = true
";
    let config = Config::parse("nw.toml", text).unwrap();
    assert_eq!(config.unix.path.as_deref(), Some(Path::new("/run/test/nw.sock")));
    assert_eq!(config.unix.mode.0, 0o600);
    assert!(config.tcp.listen.is_empty());
    assert_eq!(config.forwarder.regions.len(), 2);
    assert_eq!((config.management.localhop, config.log.level.as_str()), (Reach::Anywhere, "debug"));
    assert_eq!(
        (config.route[0].cost, config.route[0].capture, config.route[0].child_inherit),
        (1000, true, true)
    );
    assert!(config.needs_restart(&Config::default()));
    let ether = "[faces.ethernet]\nlisten = true\nwhitelist = [\"eth*\", \"192.0.2.0/24\"]\nvlan = 7\ngroup = \"01:00:5e:00:17:ab\"";
    let ether = Config::parse("nw.toml", ether).unwrap();
    assert_eq!((ether.ethernet.vlan, ether.ethernet.whitelist.len()), (7, 2));
    assert!(!ether.needs_restart(&Config::default()));
    for bad in [
        "group = \"02:00:5e:00:17:ab\"",
        "vlan = 4095",
        "whitelist = [\"a b\"]",
        "blacklist = [\"1.2.3.4/40\"]",
    ] {
        assert_eq!(problems(&format!("[faces.ethernet]\n{bad}")).len(), 1, "{bad}");
    }
    let only_route = Config { route: config.route.clone(), ..Config::default() };
    assert!(!only_route.needs_restart(&Config::default()));
}

#[test]
fn where_the_socket_is() {
    let config = Config::default();
    let runtime = Path::new("/run/user/1000");
    assert_eq!(config.unix_path(true, Some(runtime)), Path::new("/run/nfd/nfd.sock"));
    assert_eq!(config.unix_path(false, Some(runtime)), Path::new("/run/user/1000/nfd.sock"));
    assert_eq!(config.unix_path(false, None), Path::new("/run/nfd/nfd.sock"));
    assert_eq!(config.faces.max, 16_384);
    assert_eq!(config.tcp.listen.len(), 2);
}

proptest::proptest! {
    #[test]
    fn no_text_panics(text in "[\\[\\]a-z.=\" \\n0-9{}#,]{0,80}") {
        if let Err(problems) = Config::parse("x", &text) {
            proptest::prop_assert!(!problems.0.is_empty() && !problems.to_string().is_empty());
        }
    }
}

const RULES: &str = "\
[management]
digest = \"nowhere\"
unknown_key = \"nowhere\"
localhop = \"anywhere\"
[[anchor]]
id = \"site\"
file = \"/x\"
";

#[test]
fn rules_of_control() {
    let rule = |lines: &str| format!("{RULES}[[allow]]\nid = \"r\"\n{lines}");
    let config = Config::parse(
        "nw.toml",
        &rule("from = \"anywhere\"\nanchors = [\"site\"]\nprivileges = [\"all\"]\nsigner = \"/site/<who>/KEY/<_>\"\nprefix = \"/<who>/<..>\"\n[[vouch]]\ncertificate = \"/<a..>/<_>/KEY/<_>\"\nsigner = \"/<a..>/KEY/<_>\""),
    )
    .unwrap();
    assert_eq!((config.anchor.len(), config.allow.len(), config.vouch.len()), (1, 1, 1));
    assert_eq!(config.allow[0].privileges[0].privileges().len(), 7);
    assert!(!config.needs_restart(&Config::default()), "who may command changes at once");
    for (lines, at, expected) in [
        (
            "anchors = [\"lab\"]\nprivileges = [\"rib\"]",
            10,
            "allow[0].anchors: saw \"lab\"; expected the id of an [[anchor]]",
        ),
        ("anchors = []\nprivileges = [\"rib\"]", 10, "allow[0].anchors: saw []; expected the id"),
        (
            "anchors = [\"site\", \"any\"]\nprivileges = [\"rib\"]",
            10,
            "allow[0].anchors: saw \"any\" beside others",
        ),
        (
            "anchors = [\"site\"]\nprivileges = []",
            11,
            "allow[0].privileges: saw []; expected what is allowed",
        ),
        (
            "anchors = [\"site\"]\nprivileges = [\"dance\"]",
            11,
            "allow[0].privileges: saw [\"dance\"]; expected a list in brackets, each item one of \"faces\"",
        ),
        ("anchors = [\"site\"]", 8, "allow[0].privileges: saw nothing; expected a list"),
        (
            "anchors = [\"site\"]\nprivileges = [\"rib\"]\nsigner = \"site\"",
            12,
            "allow[0].signer: saw \"site\"; expected a pattern of names",
        ),
        (
            "anchors = [\"site\"]\nprivileges = [\"rib\"]\nsigner = \"/<a>\"\nprefix = \"/<a..>\"",
            13,
            "allow[0].prefix: saw /<a..>; expected a variable to be one component",
        ),
        (
            "anchors = [\"site\"]\nprivileges = [\"rib\"]\n[[vouch]]\ncertificate = \"/<a>\"\nsigner = \"/<a..>\"",
            14,
            "vouch[0].signer: saw /<a..>; expected a variable",
        ),
        (
            "anchors = [\"site\"]\nprivileges = [\"rib\"]\n[[anchor]]\nid = \"site\"\nbase64 = \"x\"",
            13,
            "anchor[1].id: saw the anchor \"site\" again; expected each id once",
        ),
        (
            "anchors = [\"site\"]\nprivileges = [\"rib\"]\n[[anchor]]\nid = \"s\"",
            13,
            "anchor[1].id: saw an anchor with none or several of them; expected one of file",
        ),
        (
            "anchors = [\"site\"]\nprivileges = [\"rib\"]\n[[anchor]]\nid = \"any\"\nfolder = \"/y\"",
            13,
            "anchor[1].id: saw \"any\"; expected another word",
        ),
    ] {
        let seen = problems(&rule(lines));
        assert_eq!(seen.len(), 1, "{lines}: {seen:#?}");
        assert!(seen[0].starts_with(&format!("nw.toml:{at}: {expected}")), "{}", seen[0]);
    }
}

#[test]
fn rules_that_the_plain_ones_make_idle() {
    let rule = "[[allow]]\nid = \"r\"\nanchors = [\"any\"]\nprivileges = [\"rib\"]\n";
    for (before, from, expected) in [
        ("", "local", "saw a rule for local faces, while management.digest lets all of them do everything"),
        (
            "[management]\ndigest = \"nowhere\"\n",
            "anywhere",
            "saw a rule for local faces, while management.unknown_key",
        ),
        (
            "",
            "remote",
            "saw a rule for other machines, while management.localhop is \"local\"; expected localhop = \"anywhere\"",
        ),
    ] {
        let seen = problems(&format!("{before}{rule}from = \"{from}\"\n"));
        assert_eq!(seen.len(), 1, "{seen:#?}");
        assert!(seen[0].contains(&format!("allow[0].from: {expected}")), "{}", seen[0]);
    }
    let nobody = "[management]\ndigest = \"nowhere\"\nunknown_key = \"nowhere\"\n";
    assert_eq!(problems(nobody).len(), 1);
    assert_eq!(problems(&format!("{nobody}{rule}from = \"local\"\n")), Vec::<String>::new());
}

#[test]
fn control_stays_on_this_machine_unless_told() {
    let remote = "[control]\nlisten = [\"0.0.0.0:6380\"]\n";
    assert!(
        problems(remote)[0]
            .starts_with("nw.toml:2: control.listen: saw 0.0.0.0:6380, which other machines reach")
    );
    let allowed = format!("{remote}allow_remote = true\n");
    assert!(
        problems(&allowed)[0].starts_with("nw.toml:3: control.allow_remote: saw true, without a token_file")
    );
    assert!(problems(&format!("{allowed}token_file = \"/t\"\n")).is_empty());
    let metrics = "[control]\nmetrics_listen = [\"0.0.0.0:6380\"]\n";
    assert!(
        problems(metrics)[0].contains("control.metrics_listen: saw 0.0.0.0:6380, which other machines reach")
    );
    assert!(problems(&format!("{metrics}allow_remote = true\n")).is_empty());
    assert!(
        problems("[control]\nlisten = [\"127.0.0.1:1\"]\nmetrics_listen = [\"127.0.0.1:1\"]\n")[0]
            .contains("of its own")
    );
    assert!(problems("[control]\nlisten = [\"127.0.0.1:1\", \"[::1]:1\"]\n").is_empty());
    assert!(!problems("[control]\nenabled = false\npath = \"/x\"\n").is_empty());

    let unix = Path::new("/run/nfd/nfd.sock");
    let config = |text: &str| Config::parse("nw.toml", text).unwrap();
    assert_eq!(config("").control_path(unix).unwrap(), Path::new("/run/nfd/nfd.control.sock"));
    assert_eq!(config("[control]\nenabled = false\n").control_path(unix), None);
    assert_eq!(config("[faces.unix]\nenabled = false\n").control_path(unix), None);
    assert!(config("").needs_restart(&config("[log]\nformat = \"json\"\n")));
    assert!(!config("").needs_restart(&config("[log]\nlevel = \"debug\"\n")));
}
