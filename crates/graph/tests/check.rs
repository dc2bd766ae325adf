//! The checker and the reader over graphs nobody would write: they never panic, and what they find good can be made, drawn and run.

use nw_element_api::{FaceInfo, Instant, LinkType, Parameters, Pool, Scope};
use nw_elements::catalogue::ENTRIES;
use nw_graph::check::check;
use nw_graph::engine::Engine;
use nw_graph::{Connection, Face, From, Graph, GraphFile, Node, Place, To, draw};
use nw_name::HashKey;
use proptest::prelude::*;

/// Elements without large tables: a thousand graphs are made.
const SMALL: [&str; 6] = ["packet_dispatcher", "tee", "counter", "sink", "name_filter", "rate_limiter"];

fn graph(elements: &[usize], names: &[&str], links: &[(usize, u8, usize, u8)], is_small: bool) -> Graph {
    let pick = |at: usize| match is_small {
        true => nw_elements::catalogue::find(SMALL[at % SMALL.len()]).expect("one of them"),
        false => &ENTRIES[at % ENTRIES.len()],
    };
    let node = |(number, at): (usize, &usize)| Node {
        name: format!("n{number}"),
        entry: pick(*at),
        parameters: Parameters::default(),
        parameter_places: Vec::new(),
        place: Place { line: number as u32 + 1, column: 1 },
    };
    let info = FaceInfo { scope: Scope::Local, link_type: LinkType::PointToPoint };
    let face = |name: &&str| Face {
        name: (*name).to_owned(),
        uri: None,
        listens: false,
        is_single: false,
        is_default: false,
        info,
        place: Place::default(),
    };
    let nodes: Vec<Node> = elements.iter().enumerate().map(node).collect();
    // Mostly ports and faces that are there; the largest number means one that is not.
    let wrap = |number: u8, count: usize| if number == 4 { 4 } else { number % (count as u8).max(1) };
    let connection = |(from, out, to, into): &(usize, u8, usize, u8)| Connection {
        from: match from % (nodes.len() + 2) {
            0 => From::Faces,
            1 => From::Face(usize::from(wrap(*out, names.len()))),
            node => From::Port(node - 2, wrap(*out, nodes[node - 2].entry.outs.len())),
        },
        to: match to % (nodes.len() + 2) {
            0 => To::Faces,
            1 => To::Face(usize::from(wrap(*into, names.len()))),
            node => To::Port(node - 2, wrap(*into, nodes[node - 2].entry.ins.len())),
        },
        place: Place::default(),
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
    fn any_graph_is_judged_without_a_panic(
        elements in proptest::collection::vec(0usize..16, 0..6),
        links in proptest::collection::vec((0usize..9, 0u8..4, 0usize..9, 0u8..4), 0..24),
    ) {
        let graph = graph(&elements, &["a", "b"], &links, true);
        let problems = check(&graph);
        prop_assert!(problems.iter().all(|problem| !problem.what.is_empty() && !problem.remedy.is_empty()));
        if problems.is_empty() {
            let key = HashKey::new([1, 2, 3, 4]);
            let mut engine = Engine::new(&graph, key, 1).expect("a good graph can be made");
            engine.tick(Instant::START, &mut Pool::new(key, 1, 1), &mut Vec::new());
            let drawn = draw::terminal(&graph); prop_assert!(drawn.as_ref().is_ok_and(|drawn| drawn.contains('▶')), "{graph:?}{drawn:?}");
        }
    }

    #[test]
    fn any_text_is_read_without_a_panic(text in "(face|test|faces|[a-z]{1,3}|router|tee|->|=|\\.|\\(|\\)|\\[|\\]|,|\"|\\{|\\}|#|[0-9]{1,3}|\n| |é){0,60}") {
        let (_, problems) = GraphFile::examine(&text);
        prop_assert!(problems.iter().all(|problem| problem.place.line as usize <= text.lines().count() + 1));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// The same with every element there is.
    #[test]
    fn any_graph_of_any_elements_is_judged_without_a_panic(
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
fn faces_may_be_connected_by_kind() {
    let text = "face north = udp4://192.0.2.1:6363\ncs = content_store\nfib = router\nnobody = sink\n\
                faces -> cs.interest\nfaces -> fib.data -> cs.data -> faces\nfaces -> fib.nack -> faces\ncs.hit -> faces\n\
                cs.miss -> fib.interest -> faces\nfib.lesson -> nobody\n";
    assert_eq!(problems(text), NONE);
}

/// A chain through a shared counter: only what really passes there must be taken behind it.
#[test]
fn elements_for_all_kinds_pass_on_what_came_in() {
    let text = "face north = udp4://192.0.2.1:6363\npd = packet_dispatcher\ncs = content_store\nasked = counter\n\
                faces -> pd.packet\npd.interest -> asked -> cs.interest\npd.data -> cs.data -> faces\npd.nack -> faces\n\
                cs.hit -> faces\ncs.miss -> north\n";
    assert_eq!(problems(text), NONE);
}

/// Two that remember Interests are good one behind the other, as long as answers pass both.
#[test]
fn two_claimers_may_be_nested() {
    let text = "face north = udp4://192.0.2.1:6363\npd = packet_dispatcher\nnear = backward_router\nfar = router(routes = [\"/ north\"])\nnobody = sink\n\
                faces -> pd.packet\npd.interest -> near.interest -> far.interest -> faces\npd.data -> far.data -> near.data -> faces\n\
                pd.nack -> far.nack -> near.nack -> faces\nfar.lesson -> nobody\n";
    assert_eq!(problems(text), NONE);
}

/// A circle is good where something in it ends what comes a second time.
#[test]
fn a_circle_through_a_guard_is_good() {
    let text = "face north = udp4://192.0.2.1:6363\npd = packet_dispatcher\nagain = name_filter(refused = \"port\")\nfib = router\nnobody = sink\n\
                faces -> pd.packet\npd.interest -> fib.interest -> again.packet\nagain.passed -> faces\nagain.refused -> fib.interest\n\
                pd.data -> fib.data -> faces\npd.nack -> fib.nack -> faces\nfib.lesson -> nobody\n";
    assert_eq!(problems(text), NONE);
}

#[test]
fn problems_are_bounded_and_so_is_the_text() {
    let text = "what is this\n".repeat(10_000);
    let error = GraphFile::read("x.graph", &text).expect_err("nonsense");
    assert!(error.problems.len() <= nw_graph::language::PROBLEMS_MAX, "{}", error.problems.len());
    let text = "#".repeat(nw_graph::language::TEXT_LEN_MAX + 1);
    assert!(GraphFile::read("x.graph", &text).expect_err("too long").to_string().contains("octets"));
}

/// Errors name the file, the line and the column, one a line, as compilers do.
#[test]
fn problems_are_written_as_editors_read_them() {
    let error = GraphFile::read("my.graph", "face a\n\nb = ruoter\na -> b.interest\n").expect_err("a slip");
    assert_eq!(
        error.to_string(),
        "my.graph:3:5: no element is called `ruoter`; did you mean `router`? `nw graph help` lists all there are"
    );
}
