use super::*;
use proptest::prelude::*;

fn generate(text: &str) -> Topology {
    Topology::generate(text, 7).unwrap()
}

#[test]
fn generated_topologies_have_expected_sizes() {
    for (text, nodes, links) in [
        ("line:5", 5, 4),
        ("line:1", 1, 0),
        ("ring:5", 5, 5),
        ("star:5", 6, 5),
        ("full:5", 5, 10),
        ("grid:4x3", 12, 17),
        ("tree:3x2", 13, 12),
        ("scale-free:100:2", 100, 3 + 97 * 2),
        ("abilene", 11, 14),
        ("nsfnet", 14, 21),
        ("ndn-testbed", 37, 95),
        ("geant", 45, 71),
        ("sprint", 52, 84),
    ] {
        let topology = generate(text);
        assert_eq!((topology.nodes.len(), topology.links.len()), (nodes, links), "{text}");
        assert!(topology.is_connected(), "{text}");
    }
}

#[test]
fn random_topologies_connected_with_expected_degree_and_repeatable() {
    for text in ["random:500:6", "waxman:300:4", "random:2", "waxman:2", "scale-free:2:1"] {
        let topology = generate(text);
        assert!(topology.is_connected(), "{text}");
        assert_eq!(topology, generate(text));
        if topology.nodes.len() > 2 {
            assert_ne!(topology, Topology::generate(text, 8).unwrap());
            let expected = if text.starts_with("random") { 6.0 } else { 4.0 };
            let degree = 2.0 * topology.links.len() as f64 / topology.nodes.len() as f64;
            assert!((degree - expected).abs() < 0.6, "{text}: {degree}");
        }
    }
}

#[test]
fn abilene_link_delay_matches_distance() {
    let topology = generate("abilene");
    let link = topology.find_link("New_York-Chicago").expect("there is one");
    // 1145 km.
    let ms = topology.links[link].delay_ns.unwrap() as f64 / 1e6;
    assert!((5.5..6.0).contains(&ms), "{ms}");
}

#[test]
fn invalid_description_lists_valid_forms() {
    for text in [
        "",
        "line",
        "line:0",
        "line:x",
        "grid:3",
        "tree:9x9",
        "random:100:0",
        "hexagon:3",
        "line:100001",
    ] {
        let error = Topology::generate(text, 1).unwrap_err();
        assert!(error.0.contains("grid:WxH") && error.0.contains("abilene"), "{error}");
    }
}

#[test]
fn link_list_parsed_and_mistakes_reported() {
    let topology = edges::read("f", "# a map\na b 5 100\nb c 0.5 # short\n\nb,a\n").unwrap();
    assert_eq!((topology.nodes.len(), topology.links.len()), (3, 2));
    assert_eq!(
        (topology.links[0].delay_ns, topology.links[0].rate_bps),
        (Some(5_000_000), Some(100_000_000))
    );
    let error = edges::read("f", "a\na a\na b x\na b 1 2 3\n").unwrap_err().0;
    assert_eq!(error.lines().count(), 4, "{error}");
    assert!(error.starts_with("f:1: saw 1 words") && error.contains("f:3: saw \"x\""), "{error}");
    assert!(edges::read("f", "").unwrap_err().0.contains("a b 5 100"));
}

#[test]
fn gml_parsed_and_mistakes_reported() {
    let text = "graph [\n node [ id 0 label \"A B\" ]\n node [ id 1 ]\n edge [ source 0 target 1 LinkSpeedRaw 1e9 delay_ms 2.5 ]\n]\n";
    let topology = gml::read("f", text).unwrap();
    assert_eq!(topology.link_name(0), "A_B-n1");
    assert_eq!(
        (topology.links[0].delay_ns, topology.links[0].rate_bps),
        (Some(2_500_000), Some(1_000_000_000))
    );
    let error = gml::read("f", "graph [\n node [ ]\n edge [ source 0 target 1 ]\n]").unwrap_err().0;
    assert!(
        error.contains("f:2: a node without id") && error.contains("f:3: source 0 is not a node"),
        "{error}"
    );
    assert!(gml::read("f", "graph [ node [").unwrap_err().0.contains("not closed"));
}

#[test]
fn drawings_contain_every_link() {
    let topology = generate("waxman:20");
    let text = toml(&topology);
    assert_eq!(text.matches("[[link]]").count(), topology.links.len());
    assert_eq!(dot(&topology).matches(" -- ").count(), topology.links.len());
    let picture = svg(&topology, |_| 0.5);
    assert_eq!(picture.matches("<line").count(), topology.links.len());
    assert!(!picture.contains("NaN"));
}

proptest! {
    #[test]
    fn random_text_never_panics(text in "[\\[\\]a-z\"0-9 \n.#]{0,80}", gml_head in any::<bool>()) {
        let _ = edges::read("f", &text);
        let text = if gml_head { format!("graph [ node [ id {text}") } else { text };
        let _ = gml::read("f", &text);
    }
}

#[test]
fn mini_ndn_file_is_read_with_its_units() {
    let text = "# two nodes\n[nodes]\na: _ radius=1.0 angle=2.0\nb: _\n[switches]\n[links]\n\
                a:b delay=2.5ms bw=10 loss=0.5 max_queue_size=7 cost=3\n";
    let topology = Topology::parse("net.conf", text).unwrap();
    let expected = Edge {
        delay_ns: Some(2_500_000),
        rate_bps: Some(10_000_000),
        loss_ppb: Some(5_000_000),
        queue_packets: Some(7),
        cost: Some(3),
        ..Edge::between(0, 1)
    };
    assert_eq!(topology.links, [expected]);
    for (delay, ns) in [("300us", 300_000), ("1s", 1_000_000_000)] {
        let text = format!("[nodes]\na: _\nb: _\n[links]\na:b delay={delay}\n");
        assert_eq!(Topology::parse("net", &text).unwrap().links[0].delay_ns, Some(ns));
    }
}

#[test]
fn mini_ndn_mistakes_are_all_reported_with_their_lines() {
    let text = "[nodes]\na: _\nb: _\na: _\nword\n[switches]\ns1: _\n[links]\na:c\na:b bw=0\n\
                a:b bw=1e9\na:b delay=10\na:b loss=100\na:b speed=3\na:a\na:b\nb:a\n[aps]\nx: y\n";
    let error = Topology::parse("net.conf", text).unwrap_err().0;
    for expected in [
        "net.conf:4: the node a a second time",
        "net.conf:5: saw \"word\"; expected a node and a colon",
        "net.conf:7: a switch",
        "net.conf:9: no node c in [nodes]",
        "net.conf:10: bw=0: give a rate",
        "net.conf:11: saw bw=1e9; expected bw from 0 to 10000000 Mbit/s",
        "net.conf:12: saw delay=10; expected a time such as 10ms",
        "net.conf:13: saw loss=100; expected loss from 0 to 99 percent",
        "net.conf:14: saw the option speed; expected delay, bw, loss, max_queue_size or cost",
        "net.conf:15: a link from a to itself",
        "net.conf:17: the link b:a a second time",
        "net.conf:18: saw the section [aps]; expected [nodes], [links] or an empty [switches]",
    ] {
        assert!(error.contains(expected), "{expected} in:\n{error}");
    }
    assert_eq!(error.lines().count(), 12, "{error}");
    assert!(Topology::parse("x", "[nodes]\n").unwrap_err().0.contains("no node"));
}
