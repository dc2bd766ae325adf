//! Checker and parser over random texts and graphs: they never panic, and what they accept can be
//! built, drawn and run.

use nw_element_api::{FaceInfo, LinkType, Parameters, Pool, Scope, Timestamp};
use nw_elements::catalogue::ENTRIES;
use nw_graph::check::check;
use nw_graph::engine::Engine;
use nw_graph::{Connection, Face, Graph, GraphFile, Node, Position, Source, Target, draw};
use nw_name::HashKey;
use proptest::prelude::*;

/// Elements without large tables, since thousands of graphs are built.
const SMALL: [&str; 6] =
    ["packet_dispatcher", "tee", "counter", "sink", "name_filter", "rate_limiter"];

fn graph(
    elements: &[usize],
    names: &[&str],
    links: &[(usize, u8, usize, u8)],
    is_small: bool,
) -> Graph {
    let pick = |at: usize| match is_small {
        true => nw_elements::catalogue::find(SMALL[at % SMALL.len()]).expect("one of them"),
        false => &ENTRIES[at % ENTRIES.len()],
    };
    let node = |(number, at): (usize, &usize)| Node {
        name: format!("n{number}"),
        entry: pick(*at),
        parameters: Parameters::default(),
        parameter_positions: Vec::new(),
        position: Position { line: number as u32 + 1, column: 1 },
    };
    let info = FaceInfo { scope: Scope::Local, link_type: LinkType::PointToPoint };
    let face = |name: &&str| Face {
        name: (*name).to_owned(),
        uri: None,
        is_listener: false,
        is_single_peer: false,
        is_default: false,
        info,
        position: Position::default(),
    };
    let nodes: Vec<Node> = elements.iter().enumerate().map(node).collect();
    // Mostly existing ports and faces; 4 stands for one that does not exist.
    let wrap =
        |number: u8, count: usize| if number == 4 { 4 } else { number % (count as u8).max(1) };
    let connection = |(from, out, to, into): &(usize, u8, usize, u8)| Connection {
        from: match from % (nodes.len() + 2) {
            0 => Source::Faces,
            1 => Source::Face(usize::from(wrap(*out, names.len()))),
            node => Source::Port(node - 2, wrap(*out, nodes[node - 2].entry.outs.len())),
        },
        to: match to % (nodes.len() + 2) {
            0 => Target::Faces,
            1 => Target::Face(usize::from(wrap(*into, names.len()))),
            node => Target::Port(node - 2, wrap(*into, nodes[node - 2].entry.ins.len())),
        },
        position: Position::default(),
    };
    Graph {
        connections: links.iter().map(connection).collect(),
        nodes,
        faces: names.iter().map(face).collect(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn check_random_graph_never_panics(
        elements in proptest::collection::vec(0usize..16, 0..6),
        links in proptest::collection::vec((0usize..9, 0u8..4, 0usize..9, 0u8..4), 0..24),
    ) {
        let graph = graph(&elements, &["a", "b"], &links, true);
        let problems = check(&graph);
        prop_assert!(problems.iter().all(|problem| !problem.message.is_empty() && !problem.remedy.is_empty()));
        if problems.is_empty() {
            let key = HashKey::new([1, 2, 3, 4]);
            let mut engine = Engine::new(&graph, key, 1).expect("a good graph can be made");
            engine.tick(Timestamp::START, &mut Pool::new(key, 1, 1), &mut Vec::new());
            let drawn = draw::terminal(&graph); prop_assert!(drawn.as_ref().is_ok_and(|drawn| drawn.contains('▶')), "{graph:?}{drawn:?}");
        }
    }

    #[test]
    fn parse_random_text_never_panics(text in "(face|test|faces|[a-z]{1,3}|router|tee|->|=|\\.|\\(|\\)|\\[|\\]|,|\"|\\{|\\}|#|[0-9]{1,3}|\n| |é){0,60}") {
        let (_, problems) = GraphFile::examine(&text);
        prop_assert!(problems.iter().all(|problem| problem.position.line as usize <= text.lines().count() + 1));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// The same with every element of the catalogue.
    #[test]
    fn check_random_graph_of_all_elements_never_panics(
        elements in proptest::collection::vec(0usize..64, 0..4),
        links in proptest::collection::vec((0usize..7, 0u8..5, 0usize..7, 0u8..5), 0..16),
    ) {
        let graph = graph(&elements, &["a", "b"], &links, false);
        for problem in check(&graph) {
            prop_assert!(!problem.remedy.is_empty());
        }
    }
}

fn problems(text: &str) -> Vec<String> {
    GraphFile::examine(text).1.iter().map(ToString::to_string).collect()
}

const NONE: [String; 0] = [];

#[test]
fn check_face_connected_by_kind_accepted() {
    let text = "face north = udp4://192.0.2.1:6363\ncs = content_store\nfib = router\ndiscard = sink\n\
                faces -> cs.interest\nfaces -> fib.data -> cs.data -> faces\nfaces -> fib.nack -> faces\ncs.hit -> faces\n\
                cs.miss -> fib.interest -> faces\nfib.route_event -> discard\n";
    assert_eq!(problems(text), NONE);
}

/// Behind a shared counter only the kinds that really pass it must be accepted.
#[test]
fn check_counter_passes_only_received_kinds() {
    let text = "face north = udp4://192.0.2.1:6363\npd = packet_dispatcher\ncs = content_store\nseen = counter\n\
                faces -> pd.packet\npd.interest -> seen -> cs.interest\npd.data -> cs.data -> faces\npd.nack -> faces\n\
                cs.hit -> faces\ncs.miss -> north\n";
    assert_eq!(problems(text), NONE);
}

/// Two elements that track Interests may follow each other if replies pass both.
#[test]
fn check_nested_pending_trackers_accepted() {
    let text = "face north = udp4://192.0.2.1:6363\npd = packet_dispatcher\nnear = backward_router\nfar = router(routes = [\"/ north\"])\ndiscard = sink\n\
                faces -> pd.packet\npd.interest -> near.interest -> far.interest -> faces\npd.data -> far.data -> near.data -> faces\n\
                pd.nack -> far.nack -> near.nack -> faces\nfar.route_event -> discard\n";
    assert_eq!(problems(text), NONE);
}

/// A cycle is allowed if one of its elements detects loops.
#[test]
fn check_cycle_with_loop_detection_accepted() {
    let text = "face north = udp4://192.0.2.1:6363\npd = packet_dispatcher\nagain = name_filter(refused = \"port\")\nfib = router\ndiscard = sink\n\
                faces -> pd.packet\npd.interest -> fib.interest -> again.packet\nagain.passed -> faces\nagain.refused -> fib.interest\n\
                pd.data -> fib.data -> faces\npd.nack -> fib.nack -> faces\nfib.route_event -> discard\n";
    assert_eq!(problems(text), NONE);
}

#[test]
fn parse_many_mistakes_or_long_text_bounded() {
    let text = "what is this\n".repeat(10_000);
    let error = GraphFile::read("x.graph", &text).expect_err("nonsense");
    assert!(error.problems.len() <= nw_graph::language::PROBLEMS_MAX, "{}", error.problems.len());
    let text = "#".repeat(nw_graph::language::TEXT_LEN_MAX + 1);
    assert!(GraphFile::read("x.graph", &text).expect_err("too long").to_string().contains("bytes"));
}

/// Errors begin with file, line and column, one per line, as those of compilers.
#[test]
fn problems_display_file_line_column() {
    let error =
        GraphFile::read("my.graph", "face a\n\nb = ruoter\na -> b.interest\n").expect_err("a slip");
    assert_eq!(
        error.to_string(),
        "my.graph:3:5: no element is called `ruoter`; did you mean `router`? `nw graph help` lists all elements"
    );
}
