//! `manager/plan`: the plan for a network of a thousand services.
//!
//! The reference is hashing the same texts once, which a plan's id needs in any case.

use crate::report::Row;
use anyhow::{Result, ensure};
use nw_manage::observed::{InstanceState, ObservedFace, ObservedInstance};
use nw_manage::target::{Decisions, digest};
use nw_manage::{Document, Observed, Target, expand, plan};
use std::fmt::Write;
use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

/// Sites of three services each, beside a core: with the instances that scaling adds, a thousand.
const SITES: usize = 300;
/// Sites whose backward router has two instances after the change.
const SCALED: usize = 99;
const RUNS: usize = 5;

/// Measures the row.
///
/// # Errors
/// If the network can't be expanded, or a plan is not what it should be.
pub fn run(row: &str) -> Result<Vec<Row>> {
    let document = Document::read("bench", "bench", &text()).map_err(anyhow::Error::msg)?;
    let mut decisions = Decisions::default();
    let folder = Path::new("/run/nw/bench");
    let start = Instant::now();
    let before = expand(&document, &decisions, folder)?;
    let expand_ms = start.elapsed().as_secs_f64() * 1e3;
    decisions.replicas = (0..SCALED).map(|site| (format!("br{site}"), 2)).collect();
    let after = expand(&document, &decisions, folder)?;
    ensure!(after.instances.len() == 3 * SITES + 1 + SCALED, "{}", after.instances.len());
    let running = observe(&before);
    ensure!(plan(&before, &running).is_empty(), "the plan for what runs is empty");
    let (mut plans_ms, mut hashes_ms) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        for seen in [&Observed::default(), &running] {
            let start = Instant::now();
            let made = black_box(plan(&after, seen));
            plans_ms.push(start.elapsed().as_secs_f64() * 1e3);
            ensure!(made.steps().count() >= SCALED * 3, "{}", made.steps().count());
        }
        let start = Instant::now();
        let texts: Vec<&str> = after.instances.iter().map(|one| one.graph.as_str()).collect();
        black_box(digest(&texts));
        hashes_ms.push(start.elapsed().as_secs_f64() * 1e3);
    }
    let worst = plans_ms.iter().copied().fold(0.0, f64::max);
    let hash_ms = crate::report::median(&hashes_ms);
    Ok(vec![
        Row::new(row, "ms", &[worst]).with_reference(hash_ms),
        Row::new(row, "expand_ms", &[expand_ms]),
    ])
}

/// Returns the document: sites with a store, a backward router and a name router, joined to a core.
fn text() -> String {
    let mut text = String::from(
        "face uplink = udp4://192.0.2.1:6363\nsorter = packet_dispatcher\nfib = router(pending = 1024, dead_nonces = 1024, prefixes = 4096)\n\
         discard = sink\nuplink -> sorter.packet\nsorter.interest -> fib.interest -> faces\n\
         sorter.data -> fib.data -> faces\nsorter.nack -> fib.nack -> faces\n\
         fib.route_event -> discard\nservice core { sorter, fib, discard }\nroute / at fib.uplink\n",
    );
    for site in 0..SITES {
        // Writing to a string can't fail.
        let _ = write!(
            text,
            "face in{site} listens unix:///tmp/in{site}.sock\nface up{site}\nface down{site}\n\
             pd{site} = packet_dispatcher\ncs{site} = content_store(packets = 16, mib = 1)\n\
             br{site} = backward_router(pending = 1024, dead_nonces = 1024)\nnr{site} = name_router(prefixes = 64)\n\
             in{site} -> pd{site}.packet\npd{site}.interest -> cs{site}.interest\n\
             pd{site}.data -> br{site}.data\npd{site}.nack -> br{site}.nack\ncs{site}.hit -> faces\n\
             cs{site}.miss -> br{site}.interest -> nr{site}.interest -> faces\n\
             up{site} -> nr{site}.interest\nup{site} -> nr{site}.data -> br{site}.data -> cs{site}.data -> faces\n\
             up{site} -> nr{site}.nack -> br{site}.nack -> faces\ndown{site} -> sorter.packet\n\
             service front{site} {{ pd{site}, cs{site} }}\nscale br{site} 1..4\n\
             link up{site} -> down{site}\n"
        );
    }
    text
}

/// Returns what would be observed if exactly a target ran.
pub fn observe(target: &Target) -> Observed {
    let seen = |instance: &nw_manage::target::Instance| ObservedInstance {
        id: instance.id.clone(),
        state: InstanceState::Running,
        graph: Some(instance.graph.clone()),
        faces: faces(target, instance),
        pending: 0,
        is_changing: false,
        cached_packets: 0,
        imported_packets: 0,
    };
    Observed { instances: target.instances.iter().map(seen).collect() }
}

fn faces(target: &Target, instance: &nw_manage::target::Instance) -> Vec<ObservedFace> {
    let ends = target.links.iter().flat_map(|link| [&link.from, &link.to]);
    let own = ends.filter(|end| end.instance == instance.id);
    own.map(|end| ObservedFace { name: end.face.clone(), is_up: true, pending: 0 }).collect()
}
