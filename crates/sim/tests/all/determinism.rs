//! The same scenario and seed give the same files, byte by byte; another seed gives different ones.

use crate::run_seed;
use nw_sim::{Topology, report};

const NET: &str = "[run]\nduration_s = 3\n[topology]\ngenerate = \"scale-free:60:2\"\n[links]\nrate_mbps = 5\nqueue_packets = 20\nloss = 0.01\nloss_burst = 3\n\
    [routers]\nstore_packets = 100\n[routing]\nnext_hops = 3\nconvergence_ms = 100\n\
    [failures]\nlinks_per_s = 0.05\nnodes_per_s = 0.02\nmean_down_s = 0.5\n\
    [[strategy]]\nprefix = \"/b\"\nstrategy = \"asf\"\n[[strategy]]\nprefix = \"/c\"\nstrategy = \"multicast\"\n[[strategy]]\nprefix = \"/d\"\nstrategy = \"random\"\n\
    [[producer]]\nprefix = \"/a\"\nat = [\"random:2\"]\nsegments = 2000\n[[producer]]\nprefix = \"/b\"\nat = [\"random:1\"]\n\
    [[producer]]\nprefix = \"/c\"\nat = [\"random:1\"]\ndelay_ms = 2\n[[producer]]\nprefix = \"/d\"\nat = [\"random:1\"]\n\
    [[consumer]]\nkind = \"bulk\"\nprefix = \"/a\"\nat = [\"random:5\"]\n[[consumer]]\nkind = \"zipf\"\nprefix = \"/b\"\nat = [\"random:20\"]\n\
    [[consumer]]\nkind = \"rate\"\nprefix = \"/c\"\nat = [\"random:5\"]\n[[consumer]]\nkind = \"ping\"\nprefix = \"/d\"\nat = [\"all\"]\n";

fn files(seed: u64) -> Vec<String> {
    let outcome = run_seed(NET, Some(seed));
    assert!(
        outcome.totals.dropped > 0 && outcome.totals.satisfied.unwrap() > 0.3,
        "{:?}",
        outcome.totals
    );
    vec![
        report::csv(&outcome.applications),
        report::csv(&outcome.links),
        report::csv(&outcome.nodes),
        report::csv(&outcome.series),
        report::page(&outcome, &Topology::generate("scale-free:60:2", seed).unwrap(), "net"),
    ]
}

#[test]
fn equal_seed_gives_equal_result() {
    let first = files(7);
    // In other threads at the same time: nothing is shared.
    let threads = [7, 8].map(|seed| std::thread::spawn(move || files(seed)));
    let [equal_seed, different_seed] = threads.map(|thread| thread.join().unwrap());
    assert_eq!(first, equal_seed);
    assert!(first.iter().zip(&different_seed).all(|(file, different)| file != different));
}
