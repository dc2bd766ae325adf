//! Host B: the standard graph in the graph engine.

use crate::fused::{SIZES, route_parameters};
use crate::memory::{InMemory, faces, run};
use crate::trace::face_info;
use crate::{FACES, Host, KEY, Outcome, Tables, Trace, tables};
use nw_element_api::{DropCounters, Erased, Packet, Parameters, Pool, Timestamp, Value};
use nw_graph::{Engine, Graph, standard};
use std::any::Any;

/// The graph engine as a host.
pub struct InGraph(pub Engine);

/// Returns the standard router with the routes of a trace.
pub fn graph_of(trace: &Trace) -> Graph {
    let (pending, prefixes, cached) = SIZES;
    let integer = |name: &str, number: usize| (name.to_owned(), Value::Integer(number as i64));
    let names: Vec<_> =
        FACES.iter().enumerate().map(|(number, name)| (*name, face_info(number))).collect();
    standard(&names, |node| {
        Parameters(match node {
            "store" => vec![integer("packets", cached), integer("mib", 1)],
            "router" => [
                vec![integer("pending", pending), integer("prefixes", prefixes)],
                route_parameters(trace),
            ]
            .concat(),
            _ => Vec::new(),
        })
    })
}

impl InMemory for InGraph {
    fn new(trace: &Trace) -> Self {
        let mut engine = match Engine::new(&graph_of(trace), KEY, 7) {
            Ok(engine) => engine,
            Err(faults) => panic!("the standard router is a valid graph: {faults:?}"),
        };
        faces()
            .enumerate()
            .for_each(|(number, (face, info))| engine.add_face(face, info, number, false));
        let mut pool = Pool::new(KEY, 1, 1);
        let applied = engine.apply(Timestamp::START, &mut pool, &mut Vec::new());
        assert_eq!(applied, Ok(()), "routes of traces are valid");
        InGraph(engine)
    }

    fn process(
        &mut self,
        now: Timestamp,
        packets: &mut Vec<Packet>,
        pool: &mut Pool,
        out: &mut Vec<Packet>,
    ) {
        self.0.process(now, packets, pool, out);
    }

    fn deadline(&self) -> Option<Timestamp> {
        self.0.deadline()
    }

    fn tick(&mut self, now: Timestamp, pool: &mut Pool, out: &mut Vec<Packet>) {
        self.0.tick(now, pool, out);
    }

    fn drops(&self) -> &DropCounters {
        self.0.drops()
    }

    fn tables(&self) -> Tables {
        tables_of(&self.0)
    }
}

/// Returns [`Outcome::tables`] of the elements that the engine has, which may be a part of the
/// standard router's.
pub fn tables_of(engine: &Engine) -> Tables {
    let mut sum = element(engine, "router").map(tables::of_router).unwrap_or_default();
    if let Some(store) = element(engine, "store") {
        tables::add(&mut sum, tables::of_store(store));
    }
    sum
}

fn element<'a, E: nw_element_api::Element + 'static>(
    engine: &'a Engine,
    node: &str,
) -> Option<&'a E> {
    let element: &dyn Any = engine.element(node)?;
    Some(element.downcast_ref::<Erased<E>>().expect("of this type").element())
}

impl Host for InGraph {
    const NAME: &'static str = "graph";

    fn run(trace: &Trace) -> Outcome {
        run::<InGraph>(trace, 1)
    }
}
