//! Host A: the fused plane, as in the router.

use crate::memory::{InMemory, faces, run};
use crate::{FACES, Host, KEY, Outcome, Tables, Trace, memory, tables};
use nw_element_api::parameters::{BuildContext, ParameterReader, Parameters, Value};
use nw_element_api::{DropCounters, Packet, Pool, Timestamp};
use nw_elements::RouterConfig;
use nw_elements::catalogue::Configured;
use nw_router::plane::Plane;
use nw_tables::cs::CsConfig;
use nw_tables::fib::FibConfig;
use nw_tables::pit::PitConfig;

/// The fused plane as a host, with or without prefetching and the lookup probes that it fills.
pub struct Fused<const PREFETCH: bool = true>(Plane);

/// Sizes in every host: pending Interests, prefixes, packets in the content store (few, so that
/// some are evicted).
pub const SIZES: (usize, usize, usize) = (256, 64, 3);

/// Returns the parameters of a router element for a trace's routes.
pub fn route_parameters(trace: &Trace) -> Vec<(String, Value)> {
    let list = |texts: &[String]| Value::List(texts.iter().cloned().map(Value::Text).collect());
    vec![
        ("routes".to_owned(), list(&trace.routes.routes)),
        ("strategies".to_owned(), list(&trace.routes.strategies)),
    ]
}

impl<const PREFETCH: bool> InMemory for Fused<PREFETCH> {
    fn new(trace: &Trace) -> Self {
        let (pending, prefixes, cached) = SIZES;
        let router = RouterConfig {
            pit: PitConfig::for_entries(pending),
            fib: FibConfig::new(prefixes),
            ..RouterConfig::default()
        };
        let mut plane =
            Plane::new(KEY, 7, router, CsConfig { packets_max: cached, bytes_max: 1 << 20 });
        plane.set_prefetch(PREFETCH);
        let mut pool = Pool::new(KEY, 1, 1);
        let face = |name: &str| FACES.iter().position(|face| *face == name).map(memory::face);
        let making = BuildContext { key: KEY, seed: 0, start_unix_ms: 0, faces: &face };
        let parameters = Parameters(route_parameters(trace));
        plane.with_router(Timestamp::START, &mut pool, &mut Vec::new(), |router, context| {
            faces().for_each(|(face, info)| router.add_face(face, info));
            let mut reader =
                ParameterReader::new(making, &parameters, nw_elements::Router::PARAMETERS);
            router.apply(Timestamp::START, &mut reader, context);
            assert_eq!(reader.into_errors(), [], "routes of traces are valid");
        });
        Fused(plane)
    }

    fn process(
        &mut self,
        now: Timestamp,
        packets: &mut Vec<Packet>,
        pool: &mut Pool,
        out: &mut Vec<Packet>,
    ) {
        self.0.process(now, packets, pool, out);
        while let Some(lesson) = self.0.next_route_event() {
            pool.release(lesson);
        }
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

/// Returns [`Outcome::tables`] of a plane.
pub fn tables_of(plane: &Plane) -> Tables {
    let mut tables = tables::of_router(plane.router());
    tables::add(&mut tables, tables::of_store(plane.content_store()));
    tables
}

impl Host for Fused {
    const NAME: &'static str = "fused";

    fn run(trace: &Trace) -> Outcome {
        run::<Fused>(trace, 1)
    }
}
