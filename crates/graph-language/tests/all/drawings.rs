//! Drawings of the example graphs, compared with the files in `tests/drawings`. `NW_RENEW=1`
//! rewrites them.

use nw_graph_language::{GraphFile, draw};
use std::fs;
use std::path::Path;

#[test]
fn examples_drawn_as_stored() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    for name in ["standard", "guarded", "chain", "verifying_cache", "two_stores"] {
        let text = fs::read_to_string(here.join(format!("../../examples/graphs/{name}.graph")))
            .expect("text");
        let graph = GraphFile::read(name, &text).expect("a good graph").graph;
        let svg = draw::svg(&graph).expect("small enough");
        for (ending, drawn) in [
            ("txt", draw::terminal(&graph).expect("small enough")),
            ("mmd", draw::mermaid(&graph)),
            ("svg", svg),
        ] {
            let path = here.join(format!("tests/drawings/{name}.{ending}"));
            if std::env::var_os("NW_RENEW").is_some() {
                fs::write(&path, &drawn).expect("written");
            }
            let known = fs::read_to_string(&path).expect("a drawing");
            assert_eq!(
                drawn,
                known,
                "{} is drawn differently: inspect it, then run with NW_RENEW=1",
                path.display()
            );
        }
    }
}

#[test]
fn example_networks_drawn_as_stored() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    for name in ["chain", "campus", "edge"] {
        let path = here.join(format!("../../examples/networks/{name}.graph"));
        let text = fs::read_to_string(path).expect("text");
        let file = GraphFile::read(name, &text).unwrap_or_else(|problems| panic!("{problems}"));
        let text = draw::services_terminal(&file).expect("a network").expect("small enough");
        let svg = draw::services_svg(&file).expect("a network").expect("small enough");
        let mermaid = draw::services_mermaid(&file).expect("a network");
        for (ending, drawn) in [("txt", text), ("mmd", mermaid), ("svg", svg)] {
            let path = here.join(format!("tests/drawings/network_{name}.{ending}"));
            if std::env::var_os("NW_RENEW").is_some() {
                fs::write(&path, &drawn).expect("written");
            }
            let known = fs::read_to_string(&path).expect("a drawing");
            let path = path.display();
            assert_eq!(
                drawn, known,
                "{path} is drawn differently: inspect it, then run with NW_RENEW=1"
            );
        }
    }
    let (plain, _) = GraphFile::parse("face a = udp4://192.0.2.1:6363\n");
    assert!(draw::services_terminal(&plain).is_none(), "no network, no drawing of one");
}

/// Every connection is drawn and ends at its port.
#[test]
fn every_connection_drawn_to_its_port() {
    let text = "face a = udp4://192.0.2.1:6363\npd = packet_dispatcher\ndiscard = sink\na -> pd.packet\npd.interest -> a\npd.data -> a\npd.nack -> discard\n";
    let graph = GraphFile::read("graph", text).expect("a good graph").graph;
    let drawn = draw::terminal(&graph).expect("small enough");
    assert_eq!(drawn.matches('▶').count(), 3, "{drawn}");
    assert_eq!(draw::svg(&graph).expect("small enough").matches("class=\"wire\"").count(), 4);
    assert_eq!(draw::mermaid(&graph).matches("-->").count(), 4);
}

#[test]
fn graph_with_too_many_boxes_rejected_with_advice() {
    let faces: String = (0..150).map(|at| format!("face f{at}\n")).collect();
    let lines: String = (0..150).map(|at| format!("f{at} -> discard\n")).collect();
    let text = format!("discard = sink\n{faces}{lines}");
    let graph = GraphFile::read("graph", &text).expect("a good graph").graph;
    let error = draw::terminal(&graph).expect_err("too many").to_string();
    assert!(error.contains("--mermaid"), "{error}");
}
