use super::*;

fn parse(text: &str) -> Result<RunPlan, Diagnostics> {
    Scenario::parse("net.toml", text, None, &Overrides::default())
}

#[test]
fn example_scenario_valid() {
    let plan = parse(EXAMPLE).unwrap();
    assert_eq!(
        (plan.topology.nodes.len(), plan.producers.len(), plan.consumers.len()),
        (11, 1, 3 + 1 + 11)
    );
    assert_eq!((plan.actions.len(), plan.expectations.len()), (2, 2));
}

#[test]
fn scenario_every_mistake_reported_with_line_and_remedy() {
    let text = r#"[run]
at = ["2s link n0-n9 down", "20s node n0 restart"]
expect = ["happy >= 1", "unknown sent > 0", "satisfied ~ 1"]
[topology]
generate = "line:3"
[links]
loss = 1.5
mtu = 3
[[producer]]
at = ["paris"]
prefix = "/a"
[[consumer]]
kind = "bulk"
at = ["random:9"]
prefix = "/a"
rate_per_s = 3
[[consumer]]
kind = "rate"
at = []
prefix = "/b"
start_s = 11
[[strategy]]
prefix = "/c"
strategy = "self-learning"
[[link]]
from = "n0"
to = "n0"
"#;
    let problems = parse(text).unwrap_err().to_string();
    for (line, needle) in [
        (2, "a link of the topology, such as n0-n1"),
        (2, "a time before the end, 10 s"),
        (3, "one of the measures satisfied"),
        (3, "the name of a [[consumer]]"),
        (3, "one of the operators"),
        (7, "a share from 0 to 0.99"),
        (8, "at least 64"),
        (10, "a node of the topology (such as n0)"),
        (13, "segments = 1000"),
        (14, "a number from 1 to 3"),
        (16, "its window decides"),
        (19, "at least one node"),
        (20, "a prefix that some [[producer]] answers"),
        (21, "a time before stop_s, 10"),
        (23, "a prefix of some [[producer]]"),
        (24, "self-learning needs control"),
        (27, "a link from n0 to itself"),
    ] {
        let there = problems.lines().any(|problem| {
            problem.starts_with(&format!("net.toml:{line}:")) && problem.contains(needle)
        });
        assert!(there, "{line}: {needle}\n{problems}");
    }
    assert_eq!(problems.lines().count(), 17, "{problems}");
}

#[test]
fn scenario_reference_valid_except_empty_sections() {
    let text = Scenario::reference();
    // It has no consumer and no topology, which are its only mistakes.
    let problems = parse(&text).unwrap_err();
    let options: Vec<&str> = problems.0.iter().map(|problem| problem.option.as_str()).collect();
    assert_eq!(options, ["consumer", "topology"], "{problems}");
}

#[test]
fn scenario_overrides_replace_file_options() {
    let overrides = Overrides {
        seed: Some(9),
        duration: Secs::parse("2.5"),
        topology: Some("ring:4".into()),
        topology_file: None,
        at: vec!["1s node n2 restart".into()],
        expect: vec!["satisfied > 0.5".into()],
    };
    let text = "[topology]\nfile = \"nowhere\"\n[[producer]]\nprefix = \"/a\"\nat = [\"n0\"]\n[[consumer]]\nkind = \"ping\"\nprefix = \"/a\"\nat = [\"n1\"]\n";
    let plan = Scenario::parse("f", text, None, &overrides).unwrap();
    assert_eq!((plan.scenario.run.seed, plan.scenario.run.duration_s.0), (9, 2_500_000_000));
    assert_eq!(plan.topology.nodes.len(), 4);
    assert_eq!(plan.actions[0].describe(&plan.topology), "1s node n2 restart");
    assert!(
        Scenario::parse("f", text, None, &Overrides::default())
            .unwrap_err()
            .to_string()
            .contains("nowhere")
    );
}

#[test]
fn random_failures_match_rate_and_text_form() {
    let text = "[run]\nduration_s = 1000\n[topology]\ngenerate = \"ring:10\"\n[failures]\nlinks_per_s = 0.01\nmean_down_s = 5\n[[producer]]\nprefix = \"/a\"\nat = [\"n0\"]\n[[consumer]]\nkind = \"ping\"\nprefix = \"/a\"\nat = [\"n1\"]\n";
    let plan = parse(text).unwrap();
    let downs: Vec<_> =
        plan.actions.iter().filter(|t| matches!(t.action, Action::Link(_, false))).collect();
    assert!((60..140).contains(&downs.len()), "{}", downs.len());
    assert!(plan.actions.is_sorted_by_key(|timed| timed.at_ns));
    let shown: Vec<String> =
        plan.actions.iter().map(|timed| timed.describe(&plan.topology)).collect();
    let again: Vec<_> =
        shown.iter().map(|text| Timed::parse(text, &plan.topology).unwrap().action).collect();
    assert_eq!(again, plan.actions.iter().map(|timed| timed.action).collect::<Vec<_>>());
}

#[test]
fn node_and_link_items_override_defaults() {
    let text = "[topology]\ngenerate = \"line:2\"\n[[link]]\nfrom = \"n1\"\nto = \"n0\"\ndelay_ms = 0.5\n[[link]]\nfrom = \"n1\"\nto = \"x\"\n[[node]]\nname = \"x\"\nstore_packets = 0\n[[producer]]\nprefix = \"/a\"\nat = [\"leaves\"]\n[[consumer]]\nkind = \"ping\"\nprefix = \"/a\"\nat = [\"n1\"]\n";
    let plan = parse(text).unwrap();
    assert_eq!(
        plan.links.iter().map(|link| link.delay_ns).collect::<Vec<_>>(),
        [500_000, 5_000_000]
    );
    let x = plan.topology.find("x").unwrap();
    assert_eq!((plan.nodes[x].config.store_packets, plan.nodes[x].config.store_bytes), (0, 0));
    assert_eq!(
        plan.producers.iter().map(|producer| producer.name.as_str()).collect::<Vec<_>>(),
        ["producer@n0", "producer@x"]
    );
}
