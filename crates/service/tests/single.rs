//! Every element of the catalogue can stand alone between two faces.

use nw_element::{Parameters, Value};
use nw_elements::catalogue::ENTRIES;
use nw_graph::{GraphFile, language};
use nw_service::{Ends, SingleError, single};

fn ends() -> Ends {
    Ends {
        listen: vec!["unix:///run/near.sock".to_owned()],
        to: vec![("far".to_owned(), "unix:///run/far.sock".to_owned())],
    }
}

#[test]
fn all_are_graphs_that_can_run() {
    for entry in ENTRIES {
        let has_routes = entry.parameters.iter().any(|info| info.name == "routes");
        let routes = ("routes".to_owned(), Value::List(vec![Value::Text("/ far".to_owned())]));
        let parameters = Parameters(if has_routes { vec![routes] } else { Vec::new() });
        let graph = single(entry.name, parameters, &ends()).expect("an element");
        let text = language::write(&graph);
        GraphFile::read(entry.name, &text).unwrap_or_else(|problems| panic!("{text}\n{problems}"));
    }
}

#[test]
fn what_nobody_knows_is_said() {
    let refused = single("contentstore", Parameters::default(), &ends()).expect_err("refused");
    assert_eq!(refused, SingleError::Unknown("contentstore".to_owned()));
    assert!(refused.to_string().contains("nw graph help"));
}
