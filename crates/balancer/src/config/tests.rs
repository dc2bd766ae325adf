//! Valid configuration files, and invalid ones with every mistake reported.

use super::*;

const GOOD: &str = r#"
[cluster]
addresses = ["192.0.2.1", "2001:db8::1"]
interfaces = ["eth0", "eth1"]
control_member = "m1"
[[member]]
name = "m1"
addresses = ["10.0.0.11", "fd00::11"]
port = 6401
control = "/run/m1.sock"
[[member]]
name = "m2"
addresses = ["10.0.0.12", "fd00::12"]
port = 6402
weight = "measured"
[[rule]]
prefix = "/video"
depth = 2
"#;

fn problems(text: &str) -> Vec<String> {
    let problems = Config::parse("b.toml", text).expect_err("an invalid file");
    problems.0.iter().map(ToString::to_string).collect()
}

/// Returns the valid file with one line replaced.
fn with(line: &str, replacement: &str) -> String {
    assert!(GOOD.contains(line), "{line}");
    GOOD.replacen(line, replacement, 1)
}

#[test]
fn valid_file_is_parsed() {
    let config = Config::parse("b.toml", GOOD).unwrap();
    assert_eq!(config.member.len(), 2);
    assert_eq!(config.member[0].weight, Weight::Fixed(100));
    assert_eq!(config.member[1].weight, Weight::Measured);
    assert_eq!(config.rule[0].depth, Some(2));
    assert_eq!(config.cluster.port, 6363);
}

#[test]
fn reference_lacks_only_options_without_default() {
    let said = problems(&Config::reference());
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said[0].contains("cluster.addresses: saw none"), "{said:?}");
    assert!(said[1].contains("cluster.interfaces: saw none"), "{said:?}");
}

#[test]
fn invalid_value_is_reported_with_its_line() {
    for (line, other, expected) in [
        ("port = 6402", "port = 6401", "b.toml:14: member[1].port: saw 6401, which m1 has already"),
        (
            "port = 6402",
            "port = 6363",
            "b.toml:14: member[1].port: saw 6363, which is the cluster's port",
        ),
        (
            "port = 6402",
            "port = 70000",
            "b.toml:14: member[1].port: saw 70000; expected an integer from 1 to 65535",
        ),
        ("name = \"m2\"", "name = \"m1\"", "b.toml:12: member[1].name: saw \"m1\" again"),
        ("name = \"m2\"", "name = \"m 2\"", "b.toml:12: member[1].name: saw \"m 2\""),
        (
            "weight = \"measured\"",
            "weight = 0",
            "b.toml:15: member[1].weight: saw 0; expected an integer from 1 to",
        ),
        ("weight = \"measured\"", "weight = \"much\"", "member[1].weight: saw \"much\""),
        (
            "control_member = \"m1\"",
            "control_member = \"m9\"",
            "b.toml:5: cluster.control_member: saw \"m9\"; expected one of the members: m1, m2",
        ),
        ("control_member = \"m1\"\n", "", "cluster.control_member: saw none"),
        (
            "control = \"/run/m1.sock\"\n",
            "",
            "member[0].control: saw none; expected the socket of its router",
        ),
        (
            "[\"10.0.0.12\", \"fd00::12\"]",
            "[\"10.0.0.12\"]",
            "member[1].addresses: saw no address of IPv6",
        ),
        (
            "[\"10.0.0.12\", \"fd00::12\"]",
            "[\"192.0.2.1\", \"fd00::12\"]",
            "member[1].addresses: saw 192.0.2.1, which is the cluster's",
        ),
        (
            "interfaces = [\"eth0\", \"eth1\"]",
            "interfaces = []",
            "b.toml:4: cluster.interfaces: saw none",
        ),
        (
            "[\"192.0.2.1\", \"2001:db8::1\"]",
            "[\"192.0.2.1\", \"192.0.2.2\"]",
            "cluster.addresses: saw 2 addresses of IPv4",
        ),
        ("[\"192.0.2.1\", \"2001:db8::1\"]", "[\"0.0.0.0\"]", "cluster.addresses: saw"),
        ("depth = 2", "depth = 2\ncontrol = true", "rule[0].prefix: saw depth and control"),
        ("depth = 2", "", "rule[0].prefix: saw neither depth nor control"),
        ("\"/video\"", "\"/a/b/c\"", "rule[0].prefix: saw depth 2 below the prefix' 3 components"),
        ("\"/video\"", "\"/\"", "rule[0].prefix: saw 0 components"),
    ] {
        let said = problems(&with(line, other));
        assert!(said.iter().any(|said| said.contains(expected)), "{expected}: {said:#?}");
    }
}

#[test]
fn several_mistakes_are_reported_at_once() {
    let text = with("port = 6402", "port = 6401")
        .replace("depth = 2", "dept = 2")
        .replace("6401\ncontrol", "6363\ncontrol");
    let said = problems(&text);
    assert!(said.len() >= 3, "{said:#?}");
    assert!(said.iter().any(|line| line.contains("the unknown option dept")), "{said:#?}");
}

/// Asserts that a configuration with these lines more has a problem with this text.
fn assert_reported(more: &str, expected: &str) {
    let said = problems(&format!("{GOOD}{more}\n"));
    assert!(said.iter().any(|said| said.contains(expected)), "{expected}: {said:#?}");
}

#[test]
fn contradiction_in_each_section_is_reported() {
    for (more, expected) in [
        ("[cluster]\nsecret = \"short\"", "TOML"),
        ("[elastic]\nenabled = true", "elastic.addresses: saw none"),
        (
            "[elastic]\nenabled = true\nengine = \"kubernetes\"",
            "elastic.stateful_set: saw none; expected the StatefulSet whose pods are members",
        ),
        (
            "[elastic]\nenabled = true\nengine = \"kubernetes\"\nstateful_set = \"a/b/c\"",
            "elastic.stateful_set: saw \"a/b/c\"; expected NAME or NAMESPACE/NAME",
        ),
        (
            "[elastic]\nenabled = true\nengine = \"kubernetes\"\nstateful_set = \"m\"\n\
             addresses = [\"10.0.0.21\"]",
            "elastic.addresses: saw addresses; expected none, as pods have",
        ),
        (
            "[elastic]\nenabled = true\nstateful_set = \"m\"\naddresses = [\"10.0.0.21\"]",
            "elastic.stateful_set: saw \"m\"; expected engine = \"kubernetes\"",
        ),
        ("[elastic]\nlow_percent = 90", "elastic.low_percent: saw 90, with high_percent 80"),
        ("[elastic]\nmembers_min = 9", "elastic.members_min: saw 9 above members_max, 4"),
        (
            "[elastic]\nenabled = true\naddresses = [\"10.0.0.21\"]\nport_first = 6402",
            "elastic.port_first: saw 6402 to 6402, m2's among them",
        ),
        (
            "[control]\npath = \"/etc/passwd\"",
            "control.path: /etc/passwd exists and is not a socket",
        ),
        (
            "[elastic]\nenabled = true\naddresses = [\"10.0.0.21\"]\nrouter_config = \"/etc/passwd\"",
            "elastic.router_config: routers of members can't run with /etc/passwd: TOML: ",
        ),
        ("[health]\nslow_ms = 2000", "health.slow_ms: saw 2000, above timeout_ms"),
        ("[vrrp]\ninside_addresses = [\"10.0.0.1\"]", "vrrp.inside_addresses: saw"),
        ("[what]\nx = 1", "the unknown section what"),
    ] {
        assert_reported(more, expected);
    }
    let short = problems(&with("[cluster]", "[cluster]\nsecret = \"short\""));
    assert!(short[0].contains("cluster.secret"), "{short:?}");
}

#[test]
fn contradiction_of_tokens_and_groups_is_reported() {
    for (more, expected) in [
        (
            "[control]\nlisten = [\"10.0.0.1:6380\"]",
            "control.listen: saw 10.0.0.1:6380, which other machines reach",
        ),
        (
            "[control]\nlisten = [\"10.0.0.1:6380\"]\nallow_remote = true",
            "control.allow_remote: saw no token_file",
        ),
        (
            "[control]\ntoken_file = \"/no/such\"",
            "control.token_file: can't read /no/such: No such file or directory",
        ),
        ("[control]\ngroup = \"g\"", "control.group: saw no group_token_file"),
        (
            "[control]\ngroup_token_file = \"/no/such\"",
            "control.group_token_file: can't read /no/such: No such file or directory",
        ),
        (
            "[control]\ngroup_token_file = \"/etc/hostname\"",
            "control.group_token_file: this is not a token of a group: it has 24 to 1024 characters",
        ),
        ("[control]\ngroup_token_file = \"/x\"", "control.group_token_file: saw no group"),
        (
            "[control]\ngroup = \"a b\"\ngroup_token_file = \"/x\"",
            "control.group: saw \"a b\"; expected 1 to 48 letters",
        ),
        (
            "[control]\ngroup = \"g\"\ngroup_token_file = \"/x\"",
            "control.group: saw no agents_listen",
        ),
        ("[control]\ngroup_members_max = 0", "control.group_members_max: saw 0"),
    ] {
        assert_reported(more, expected);
    }
}

#[test]
fn weight_parses_numbers_and_measured_only() {
    assert_eq!("measured".parse(), Ok(Weight::Measured));
    assert_eq!("7".parse(), Ok(Weight::Fixed(7)));
    for wrong in ["0", "-1", "1000001", "much", ""] {
        let said = wrong.parse::<Weight>().unwrap_err();
        assert!(said.contains("a number from 1 to 1000000, or measured"), "{said}");
    }
}

#[test]
fn old_option_name_is_accepted_and_reported() {
    let old = with("[cluster]", "[cluster]\nfolder = \"/tmp/state\"\npin = \"/tmp/bpf\"")
        .replace("control = \"/run/m1.sock\"", "control = \"/run/m1.sock\"\nown_routes = true")
        + "[drain]\nquiet_ms = 700\n[routes]\npatience_s = 9\n";
    let config = Config::parse("b.toml", &old).unwrap();
    assert_eq!(config.cluster.state_dir.to_str(), Some("/tmp/state"));
    assert_eq!(config.cluster.bpffs_dir.to_str(), Some("/tmp/bpf"));
    assert!(config.member[0].external_routes);
    assert_eq!((config.drain.idle_ms, config.routes.failover_timeout_s), (700, 9));
    let reports: Vec<_> = config.renamed.iter().map(|renamed| renamed.new.as_str()).collect();
    assert_eq!(reports.len(), 5, "{reports:?}");
    let line = "patience_s = 9"; // (retired word)
    let twice = old.replace(line, &format!("{line}\nfailover_timeout_s = 9"));
    assert!(Config::parse("b.toml", &twice).is_err());
}
