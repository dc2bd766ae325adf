//! On random networks with random failures every packet is delivered, dropped for a counted reason,
//! or in flight.

use crate::run;
use proptest::prelude::*;

fn network() -> impl Strategy<Value = String> {
    let topology = prop_oneof![
        (2..12u32).prop_map(|n| format!("line:{n}")),
        (3..12u32).prop_map(|n| format!("ring:{n}")),
        (2..5u32, 2..5u32).prop_map(|(w, h)| format!("grid:{w}x{h}")),
        (3..25u32).prop_map(|n| format!("random:{n}:3")),
        (3..25u32).prop_map(|n| format!("waxman:{n}")),
        (3..25u32).prop_map(|n| format!("scale-free:{n}:2")),
    ];
    let links = (0..20u32, 0..3u32, 0..30u32, 0..3u32, 1..4u32, 0..2u32).prop_map(
        |(delay, rate, queue, loss, burst, mtu)| {
            format!(
                "[links]\ndelay_ms = {delay}\nrate_mbps = {}\nqueue_packets = {queue}\nloss = {}\nloss_burst = {burst}\nmtu = {}\n",
                [0, 1, 10][rate as usize],
                ["0", "0.02", "0.3"][loss as usize],
                [0, 500][mtu as usize],
            )
        },
    );
    let strategy = prop::sample::select(vec![
        "best-route",
        "multicast",
        "asf",
        "random",
        "access",
        "weighted",
        "hash",
        "round-robin",
        "fail-over",
    ]);
    let tables = (0..3u32, 16..200u32).prop_map(|(store, pit)| {
        format!(
            "[routers]\nstore_packets = {}\npit_entries = {pit}\ndead_nonces = 64\n",
            [0, 5, 100][store as usize]
        )
    });
    let failures = (0..3u32, 0..3u32).prop_map(|(links, nodes)| {
        format!(
            "[failures]\nlinks_per_s = {}\nnodes_per_s = {}\nmean_down_s = 0.3\n",
            ["0", "0.1", "1"][links as usize],
            ["0", "0.1", "0.5"][nodes as usize]
        )
    });
    let routing = (1..5u32, 0..400u32, any::<bool>()).prop_map(|(hops, convergence, recompute)| {
        format!("[routing]\nnext_hops = {hops}\nconvergence_ms = {convergence}\nrecompute = {recompute}\n")
    });
    (topology, links, strategy, tables, failures, routing, any::<u32>()).prop_map(
        |(topology, links, strategy, tables, failures, routing, seed)| {
            format!(
                "[run]\nduration_s = 2\nseed = {seed}\n[topology]\ngenerate = \"{topology}\"\n{links}{tables}{failures}{routing}\
                 [[strategy]]\nprefix = \"/p\"\nstrategy = \"{strategy}\"\n\
                 [[producer]]\nprefix = \"/p\"\nat = [\"random:2\"]\nsegments = 300\n\
                 [[consumer]]\nkind = \"bulk\"\nprefix = \"/p\"\nat = [\"random:2\"]\n\
                 [[consumer]]\nkind = \"zipf\"\nprefix = \"/p\"\nat = [\"random:2\"]\nrate_per_s = 150\nnames = 250\nlifetime_ms = 300\n\
                 [[consumer]]\nkind = \"rate\"\nprefix = \"/p\"\nat = [\"all\"]\nrate_per_s = 20\nlifetime_ms = 100\n\
                 [[consumer]]\nkind = \"ping\"\nprefix = \"/p\"\nat = [\"all\"]\n"
            )
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 48,
        max_shrink_iters: 40,
        ..ProptestConfig::default()
    })]
    /// `run` checks the counters of every link, node and consumer.
    #[test]
    fn random_network_accounts_for_every_packet(text in network()) {
        run(&text);
    }
}
