use super::*;

fn mistakes(text: &str) -> Vec<String> {
    match Config::parse("nw.toml", text) {
        Ok(_) => Vec::new(),
        Err(diagnostics) => diagnostics.0.iter().map(ToString::to_string).collect(),
    }
}

#[test]
fn reference_equals_default_configuration() {
    let reference = Config::reference();
    assert_eq!(Config::parse("reference", &reference), Ok(Config::default()), "{reference}");
    assert_eq!(Config::parse("empty", ""), Ok(Config::default()));
    for name in Config::option_names() {
        let key = name.rsplit('.').next().unwrap();
        let line = reference
            .lines()
            .find(|line| line.trim_start_matches("# ").starts_with(&format!("{key} = ")));
        assert!(
            line.is_some_and(|line| !line.ends_with("= ") && !line.ends_with('…')),
            "{name} has no value to show"
        );
    }
}

#[test]
fn examples_of_items_can_be_parsed() {
    let reference = Config::reference();
    let items = reference.split_once("# [[face]]").unwrap().1;
    // Uncomment the lines that look like TOML.
    let lines = items.lines().map(|line| line.strip_prefix("# ").unwrap_or(""));
    let toml: Vec<&str> =
        lines.filter(|line| line.contains(" = ") || line.starts_with("[[")).collect();
    let config = Config::parse("items", &format!("[[face]]\n{}", toml.join("\n"))).unwrap();
    assert_eq!((config.face.len(), config.route.len(), config.strategy.len()), (1, 1, 1));
    assert_eq!(config.face[0].mtu, Some(1420));
    assert_eq!(config.route[0].prefix.to_string(), "/example");
}

#[test]
fn parse_reports_all_mistakes_with_their_lines() {
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
        "nw.toml:10: faces.udp.listen: saw [\"0.0.0.0\"]; expected a list in brackets, each item \
         an address and port",
        "nw.toml:13: route[0].prefix: saw \"example\"; expected a name in quotes",
        "nw.toml:14: route[0].face: saw \"http://x\"; expected a face URI",
        "nw.toml:16: route[1].prefix: saw nothing; expected a name",
        "nw.toml:16: route[1].face: saw nothing; expected a face URI",
        "nw.toml:17: route[1].cost: saw -1; expected an integer from 0",
        "nw.toml:19: sections: saw the unknown section colour; expected one of faces, faces.unix",
    ];
    let seen = mistakes(text);
    assert_eq!(seen.len(), expected.len(), "{seen:#?}");
    for (seen, expected) in seen.iter().zip(expected) {
        assert!(seen.starts_with(expected), "saw      {seen}\nexpected {expected}");
    }
}

#[test]
fn invalid_toml_is_reported_with_lines() {
    let seen = mistakes("[tables]\npit_entries = = 5\n\n[log\n");
    assert_eq!(
        seen,
        [
            "nw.toml:2: TOML: expected a value after `=`; the line is: pit_entries = = 5",
            "nw.toml:4: TOML: the name of a section needs brackets, as in [faces.udp]; the line \
             is: [log",
        ]
    );
    assert!(!mistakes("tables = 5").is_empty());
    assert!(!mistakes("[route]\nprefix = \"/\"").is_empty());
    assert!(!mistakes("route = [5]").is_empty());
    assert!(!mistakes("faces = 5").is_empty());
    assert!(!mistakes("[log]\nlevel = \"info\"\nlevel = \"warn\"").is_empty());
}

#[test]
fn contradictions_are_reported_with_lines() {
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
        (
            "[faces.multicast]\ngroups = [\"[ff02::1]:1\", \"[ff02::1]:1\"]",
            2,
            "faces.multicast.groups",
        ),
        (&long, 2, "faces.unix.path"),
        ("[control]\nlisten = [\"127.0.0.1:6363\"]", 2, "control.listen"),
        ("[faces.udp]\nlisten = [\"224.0.0.1:6363\"]", 2, "faces.udp.listen"),
        ("[faces]\nqueue_kib = 64\nmarking_threshold_kib = 65", 3, "faces.marking_threshold_kib"),
        ("[content_store]\npackets = 0", 2, "content_store.packets"),
        ("[content_store]\nmib = 0", 2, "content_store.mib"),
        ("[tables]\npit_entries = 64\npit_entries_per_face = 65", 3, "tables.pit_entries_per_face"),
        ("[management]\nknown_key = \"nowhere\"", 2, "management.known_key"),
        ("[management]\ndigest = \"nowhere\"\nunknown_key = \"nowhere\"", 2, "management.digest"),
        (
            "[[face]]\nuri = \"udp4://192.0.2.1\"\n[[face]]\nuri = \"udp4://192.0.2.1\"",
            4,
            "face[1].uri",
        ),
        ("[[route]]\nprefix = \"/localhost/nfd/x\"\nface = \"unix:///x\"", 2, "route[0].prefix"),
        (
            "[[route]]\nprefix = \"/\"\nface = \"unix:///x\"\n[[route]]\ncost = 1\nprefix = \
             \"/\"\nface = \"unix:///x\"",
            6,
            "route[1].prefix",
        ),
        (
            "[[strategy]]\nprefix = \"/\"\nstrategy = \"/s\"\n[[strategy]]\nprefix = \
             \"/\"\nstrategy = \"/t\"",
            5,
            "strategy[1].prefix",
        ),
    ] {
        let seen = mistakes(text);
        assert!(
            seen.len() == 1 && seen[0].starts_with(&format!("nw.toml:{line}: {option}: ")),
            "{text}\n{seen:#?}"
        );
    }
    let deep = format!("[[route]]\nprefix = \"{}\"\nface = \"unix:///x\"", "/a".repeat(33));
    assert!(mistakes(&deep)[0].contains("33 components"));
    assert_eq!(
        mistakes("[faces.tcp]\nlisten = [\"127.0.0.1:0\", \"127.0.0.1:0\"]"),
        [""; 0],
        "any free port, twice"
    );
}

#[test]
fn toml_errors_say_what_to_do() {
    for (text, expected) in [
        (
            "[log]\nlevel=\"info\"\n[log]\nformat=\"json\"\n",
            "3: TOML: duplicate section [log], first opened on line 1: write the options of a \
             section together",
        ),
        (
            "[tables]\nroutes = 1\n[log]\nlevel = \"info\"\n level = \"warn\"\n",
            "5: TOML: duplicate key `level`, first set on line 4: set it once",
        ),
        ("hello\n", "1: TOML: `hello` has no value: write `hello = …`; the line is: hello"),
        (
            "[log]\nlevel = info\n",
            "2: TOML: text needs quotes, as in \"text\"; the line is: level = info",
        ),
        (
            "[log]\nlevel = warn\n",
            "2: TOML: text needs quotes, as in \"text\"; the line is: level = warn",
        ),
        ("[log]\nlevel =\n", "2: TOML: expected a value after `=`; the line is: level ="),
        (
            "garbage = [\n",
            "1: TOML: a list that begins with `[` has no `]` at its end; the line is: garbage = [",
        ),
        (
            "[faces.tcp]\nlisten = [\"a\" \"b\"]\n",
            "2: TOML: two items of a list need a comma between them; the line is: listen = [\"a\" \
             \"b\"]",
        ),
    ] {
        let seen = mistakes(text);
        assert_eq!(seen[0], format!("nw.toml:{expected}"), "{text}");
    }
    // Messages of the TOML parser must not appear in the form `saw …; expected …`.
    for text in
        ["a = \"\\q\"", "a = 1__2", "a = {b = 1", "= 1", "a.b = 1\na = 2", "\u{1}", "[[", "a = 'x"]
    {
        let seen = mistakes(text);
        let bad = seen
            .iter()
            .find(|diagnostic| diagnostic.contains("; expected ") || diagnostic.contains("saw "));
        assert!(!seen.is_empty() && bad.is_none(), "{text}: {seen:#?}");
    }
}

#[test]
fn mistakes_of_rules_are_reported_with_all_others() {
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
        "nw.toml:6: allow[1].anchors: saw \"sitte\" (did you mean site?); expected the id of an \
         [[anchor]]",
        "nw.toml:7: allow[1].privileges: saw [\"dance\"]; expected a list",
        "nw.toml:10: anchor[0].file: saw 5; expected a path",
        "nw.toml:12: tables.pit_entries: saw 3; expected an integer",
    ];
    let seen = mistakes(text);
    // The second rule has no `from`: a mistake of its default is reported at the line of the rule.
    assert!(seen.len() >= expected.len(), "{seen:#?}");
    for expected in expected {
        assert!(seen.iter().any(|seen| seen.starts_with(expected)), "{expected}\n{seen:#?}");
    }
    let from = "[log]\nlevel = \"info\"\n\n[[allow]]\nid = \"r\"\nanchors = [\"any\"]\nprivileges = \
         [\"rib\"]\n";
    assert!(
        mistakes(from)[0].starts_with("nw.toml:4: allow[0].from: saw a rule for local faces"),
        "{:?}",
        mistakes(from)
    );
}

#[test]
fn misspelled_names_get_suggestions() {
    let seen = mistakes("[content_stor]\npackets = 5\n[tables]\npit_entires = 70\n");
    assert!(
        seen[0].contains("the unknown section content_stor (did you mean content_store?)"),
        "{seen:#?}"
    );
    assert!(
        seen[1].contains("the unknown option pit_entires (did you mean pit_entries?)"),
        "{seen:#?}"
    );
}

#[test]
fn time_for_many_mistakes_is_linear() {
    let time = |count: usize| {
        let lines: String = (0..count).map(|at| format!("k{at} = 1\n")).collect();
        let listen: Vec<String> =
            (0..count).map(|at| format!("\"127.0.0.1:{}\"", at % 60_000 + 1)).collect();
        let text = format!(
            "[tables]\n{lines}[faces.udp]\nlisten = [{}]\n[log]\n{}",
            listen.join(","),
            "level = \"info\"\n".repeat(count / 10)
        );
        let before = std::time::Instant::now();
        let Err(diagnostics) = Config::parse("nw.toml", &text) else {
            panic!("there are mistakes")
        };
        assert!(
            diagnostics.0.len() <= diagnostics::DIAGNOSTICS_MAX
                && diagnostics.to_string().len() < 100_000
        );
        before.elapsed()
    };
    // Four times the size should take four times as long; 10 allows for a busy machine.
    let (small, large) = (time(10_000), time(40_000));
    assert!(
        large < small * 10 + std::time::Duration::from_millis(200),
        "{small:?} for 10,000, {large:?} for 40,000"
    );
}

#[test]
fn strategy_names_and_log_levels_may_be_short() {
    let strategy = |text: &str| {
        let file = format!("[[strategy]]\nprefix = \"/x\"\nstrategy = {text:?}\n");
        Config::parse("nw.toml", &file).map(|config| config.strategy[0].strategy.0.to_string())
    };
    let full = "/localhost/nfd/strategy/multicast";
    assert_eq!(strategy("multicast").unwrap(), full);
    assert_eq!(strategy(full).unwrap(), full);
    assert_eq!(
        strategy("asf/v=5/max-timeouts~5").unwrap(),
        "/localhost/nfd/strategy/asf/v=5/max-timeouts~5"
    );
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
fn restart_options_lists_changed_options() {
    let config = |text: &str| Config::parse("nw.toml", text).unwrap();
    let before = config("");
    let after = config(
        "[faces.udp]\nlisten = []\n[tables]\nlock = true\n[log]\nlevel = \
         \"debug\"\n[content_store]\npackets = 5\n",
    );
    assert_eq!(before.restart_options(&after), ["faces.udp.listen", "tables.lock"]);
    assert_eq!(before.restart_options(&before), [""; 0]);
}

#[test]
fn origin_accepts_only_the_form_of_browsers() {
    let file = |origin: &str| format!("[faces.websocket]\nlocal_origins = [\"{origin}\"]");
    let config = Config::parse("nw.toml", &file("HTTP://Localhost:8080")).expect("an origin");
    assert_eq!(config.websocket.local_origins, [Origin("http://localhost:8080".to_owned())]);
    for bad in
        ["null", "", "localhost:8080", "http://", "http://localhost/", "http://*", "http://a b"]
    {
        assert_eq!(mistakes(&file(bad)).len(), 1, "{bad}");
    }
}

#[test]
fn parse_reads_values_of_all_types() {
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
    assert_eq!(
        (config.management.localhop, config.log.level.as_str()),
        (AllowFrom::Anywhere, "debug")
    );
    assert_eq!(
        (config.route[0].cost, config.route[0].capture, config.route[0].child_inherit),
        (1000, true, true)
    );
    assert!(config.needs_restart(&Config::default()));
    let ether = "[faces.ethernet]\nlisten = true\nallow = [\"eth*\", \"192.0.2.0/24\"]\nvlan = 7\ngroup = \"01:00:5e:00:17:ab\"";
    let ether = Config::parse("nw.toml", ether).unwrap();
    assert_eq!((ether.ethernet.vlan, ether.ethernet.allow.len()), (7, 2));
    assert!(!ether.needs_restart(&Config::default()));
    for bad in [
        "group = \"02:00:5e:00:17:ab\"",
        "vlan = 4095",
        "allow = [\"a b\"]",
        "deny = [\"1.2.3.4/40\"]",
    ] {
        assert_eq!(mistakes(&format!("[faces.ethernet]\n{bad}")).len(), 1, "{bad}");
    }
    let only_route = Config { route: config.route.clone(), ..Config::default() };
    assert!(!only_route.needs_restart(&Config::default()));
}

#[test]
fn unix_path_depends_on_user_and_runtime_folder() {
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
    fn parse_never_panics(text in "[\\[\\]a-z.=\" \\n0-9{}#,]{0,80}") {
        if let Err(diagnostics) = Config::parse("x", &text) {
            proptest::prop_assert!(!diagnostics.0.is_empty() && !diagnostics.to_string().is_empty());
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

fn rule(lines: &str) -> String {
    format!("{RULES}[[allow]]\nid = \"r\"\n{lines}")
}

#[test]
fn access_rules_are_parsed() {
    let config = Config::parse(
        "nw.toml",
        &rule(
            "from = \"anywhere\"\nanchors = [\"site\"]\nprivileges = [\"all\"]\n\
             signer = \"/site/<who>/KEY/<_>\"\nprefix = \"/<who>/<..>\"\n\
             [[issuer]]\ncertificate = \"/<a..>/<_>/KEY/<_>\"\nsigner = \"/<a..>/KEY/<_>\"",
        ),
    )
    .unwrap();
    assert_eq!((config.anchor.len(), config.allow.len(), config.issuer.len()), (1, 1, 1));
    assert_eq!(config.allow[0].privileges[0].privileges().len(), 7);
    assert!(!config.needs_restart(&Config::default()), "access rules change without restart");
}

#[test]
fn mistakes_of_access_rules_are_reported() {
    for (lines, line, expected) in [
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
            "allow[0].privileges: saw [\"dance\"]; expected a list in brackets, each item one of \
             \"faces\"",
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
            "anchors = [\"site\"]\nprivileges = [\"rib\"]\n[[issuer]]\ncertificate = \
             \"/<a>\"\nsigner = \"/<a..>\"",
            14,
            "issuer[0].signer: saw /<a..>; expected a variable",
        ),
        (
            "anchors = [\"site\"]\nprivileges = [\"rib\"]\n[[anchor]]\nid = \"site\"\nbase64 = \
             \"x\"",
            13,
            "anchor[1].id: saw the anchor \"site\" again; expected each id once",
        ),
        (
            "anchors = [\"site\"]\nprivileges = [\"rib\"]\n[[anchor]]\nid = \"s\"",
            13,
            "anchor[1].id: saw an anchor with none or several of them; expected one of file",
        ),
        (
            "anchors = [\"site\"]\nprivileges = [\"rib\"]\n[[anchor]]\nid = \"any\"\nfolder = \
             \"/y\"",
            13,
            "anchor[1].id: saw \"any\"; expected another word",
        ),
    ] {
        let seen = mistakes(&rule(lines));
        assert_eq!(seen.len(), 1, "{lines}: {seen:#?}");
        assert!(seen[0].starts_with(&format!("nw.toml:{line}: {expected}")), "{}", seen[0]);
    }
}

#[test]
fn access_rules_without_effect_are_reported() {
    let rule = "[[allow]]\nid = \"r\"\nanchors = [\"any\"]\nprivileges = [\"rib\"]\n";
    for (before, from, expected) in [
        (
            "",
            "local",
            "saw a rule for local faces, while management.digest lets all of them do everything",
        ),
        (
            "[management]\ndigest = \"nowhere\"\n",
            "anywhere",
            "saw a rule for local faces, while management.unknown_key",
        ),
        (
            "",
            "remote",
            "saw a rule for other machines, while management.localhop is \"local\"; expected \
             localhop = \"anywhere\"",
        ),
    ] {
        let seen = mistakes(&format!("{before}{rule}from = \"{from}\"\n"));
        assert_eq!(seen.len(), 1, "{seen:#?}");
        assert!(seen[0].contains(&format!("allow[0].from: {expected}")), "{}", seen[0]);
    }
    let closed = "[management]\ndigest = \"nowhere\"\nunknown_key = \"nowhere\"\n";
    assert_eq!(mistakes(closed).len(), 1);
    assert_eq!(mistakes(&format!("{closed}{rule}from = \"local\"\n")), Vec::<String>::new());
}

#[test]
fn control_refuses_remote_addresses_by_default() {
    let remote = "[control]\nlisten = [\"0.0.0.0:6380\"]\n";
    assert!(
        mistakes(remote)[0]
            .starts_with("nw.toml:2: control.listen: saw 0.0.0.0:6380, which other machines reach")
    );
    let allowed = format!("{remote}allow_remote = true\n");
    assert!(
        mistakes(&allowed)[0]
            .starts_with("nw.toml:3: control.allow_remote: saw true, without a token_file")
    );
    assert!(mistakes(&format!("{allowed}token_file = \"/t\"\n")).is_empty());
    let metrics = "[control]\nmetrics_listen = [\"0.0.0.0:6380\"]\n";
    assert!(
        mistakes(metrics)[0]
            .contains("control.metrics_listen: saw 0.0.0.0:6380, which other machines reach")
    );
    assert!(mistakes(&format!("{metrics}allow_remote = true\n")).is_empty());
    assert!(
        mistakes("[control]\nlisten = [\"127.0.0.1:1\"]\nmetrics_listen = [\"127.0.0.1:1\"]\n")[0]
            .contains("of its own")
    );
    assert!(mistakes("[control]\nlisten = [\"127.0.0.1:1\", \"[::1]:1\"]\n").is_empty());
    assert!(!mistakes("[control]\nenabled = false\npath = \"/x\"\n").is_empty());

    let unix = Path::new("/run/nfd/nfd.sock");
    let config = |text: &str| Config::parse("nw.toml", text).unwrap();
    assert_eq!(config("").control_path(unix).unwrap(), Path::new("/run/nfd/nfd.control.sock"));
    assert_eq!(config("[control]\nenabled = false\n").control_path(unix), None);
    assert_eq!(config("[faces.unix]\nenabled = false\n").control_path(unix), None);
    assert!(config("").needs_restart(&config("[log]\nformat = \"json\"\n")));
    assert!(!config("").needs_restart(&config("[log]\nlevel = \"debug\"\n")));
}

#[test]
fn option_with_old_name_is_read_and_reported_once() {
    let config = Config::parse("nw.toml", "[faces.ethernet]\nwhitelist = [\"eth*\"]\n").unwrap();
    assert_eq!(config.ethernet.allow, [InterfacePattern::Name("eth*".to_owned())]);
    let reports: Vec<String> = config.renamed.iter().map(ToString::to_string).collect();
    assert_eq!(
        reports,
        ["nw.toml:2: faces.ethernet.whitelist is now called faces.ethernet.allow; \
             the next version will not accept the old name"]
    );
    let config = Config::parse("nw.toml", "[faces.ethernet]\nallow = [\"eth*\"]\n").unwrap();
    assert_eq!(config.renamed, []);
}

#[test]
fn option_with_old_name_and_wrong_value_is_reported_by_its_new_name() {
    let seen = mistakes("[faces.ethernet]\nblacklist = [\"1.2.3.4/40\"]\n");
    assert!(
        seen.len() == 1 && seen[0].starts_with("nw.toml:2: faces.ethernet.deny: saw "),
        "{seen:?}"
    );
}

#[test]
fn option_with_both_names_is_refused() {
    let seen = mistakes("[faces.ethernet]\nallow = []\nwhitelist = []\n");
    let expected = "nw.toml:3: faces.ethernet.allow: saw whitelist, the old name of allow, \
                    in addition to allow; expected allow only";
    assert_eq!(seen, [expected]);
}

#[test]
fn section_with_old_name_is_read_and_reported_once() {
    let vouch = "[[vouch]]\ncertificate = \"/<a>/KEY/<_>\"\nsigner = \"/KEY/<_>\"\n".repeat(2);
    let config = Config::parse("nw.toml", &vouch).unwrap();
    assert_eq!(config.issuer.len(), 2);
    let reports: Vec<String> = config.renamed.iter().map(ToString::to_string).collect();
    assert_eq!(reports.len(), 1);
    assert!(reports[0].starts_with("nw.toml:1: vouch is now called issuer;"), "{reports:?}");
    let both = format!("{vouch}{}", vouch.replace("vouch", "issuer"));
    let seen = mistakes(&both);
    assert!(
        seen.len() == 1 && seen[0].contains("issuer: saw vouch, the old name of issuer"),
        "{seen:?}"
    );
}
