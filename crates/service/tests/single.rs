//! Every element of the catalogue can stand alone between two faces.

use nw_element_api::{Parameters, Value};
use nw_elements::catalogue::ENTRIES;
use nw_graph::{GraphFile, language};
use nw_service::{Ends, SingleError, single};

fn ends(scheme: &str) -> Ends {
    Ends {
        listen: vec![format!("{scheme}:///run/near.sock")],
        to: vec![("far".to_owned(), format!("{scheme}:///run/far.sock"))],
    }
}

#[test]
fn all_are_graphs_that_can_run() {
    for entry in ENTRIES {
        let has_routes = entry.parameters.iter().any(|info| info.name == "routes");
        let routes = ("routes".to_owned(), Value::List(vec![Value::Text("/ far".to_owned())]));
        let parameters = Parameters(if has_routes { vec![routes] } else { Vec::new() });
        for scheme in ["unix", "shm"] {
            let graph = single(entry.name, parameters.clone(), &ends(scheme)).expect("an element");
            let text = language::write(&graph);
            let read = GraphFile::read(entry.name, &text);
            let read = read.unwrap_or_else(|problems| panic!("{text}\n{problems}"));
            assert_eq!(read.graph.faces[0].info, graph.faces[0].info, "{text}");
        }
    }
}

#[test]
fn what_nobody_knows_is_said() {
    let refused = single("contentstore", Parameters::default(), &ends("unix")).expect_err("refused");
    assert_eq!(refused, SingleError::Unknown("contentstore".to_owned()));
    assert!(refused.to_string().contains("nw graph help"));
}
