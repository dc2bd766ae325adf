//! Every element of the catalogue can run alone between two faces.

use nw_element_api::{Parameters, Value};
use nw_elements::catalogue::ENTRIES;
use nw_graph::{GraphFile, language};
use nw_service::{Endpoints, SingleElementError, single_element_graph};

fn endpoints(scheme: &str) -> Endpoints {
    Endpoints {
        listen: vec![format!("{scheme}:///run/near.sock")],
        to: vec![("far".to_owned(), format!("{scheme}:///run/far.sock"))],
    }
}

#[test]
fn single_element_graph_of_every_element_valid() {
    for entry in ENTRIES {
        let has_routes = entry.parameters.iter().any(|info| info.name == "routes");
        let routes = ("routes".to_owned(), Value::List(vec![Value::Text("/ far".to_owned())]));
        let parameters = Parameters(if has_routes { vec![routes] } else { Vec::new() });
        for scheme in ["unix", "shm"] {
            let graph = single_element_graph(entry.name, parameters.clone(), &endpoints(scheme))
                .expect("an element");
            let text = language::write(&graph);
            let read = GraphFile::read(entry.name, &text);
            let read = read.unwrap_or_else(|problems| panic!("{text}\n{problems}"));
            assert_eq!(read.graph.faces[0].info, graph.faces[0].info, "{text}");
        }
    }
}

#[test]
fn single_element_graph_unknown_element_rejected() {
    let refused = single_element_graph("contentstore", Parameters::default(), &endpoints("unix"))
        .expect_err("refused");
    assert_eq!(refused, SingleElementError::Unknown("contentstore".to_owned()));
    assert!(refused.to_string().contains("nw graph help"));
}
