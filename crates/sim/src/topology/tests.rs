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
