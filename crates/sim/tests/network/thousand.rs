//! A thousand routers, the small way: `make bench ROW=sim` has more packets.

use crate::run;

#[test]
fn a_thousand_routers_run() {
    let outcome = run(
        "[run]\nduration_s = 1\n[topology]\ngenerate = \"scale-free:1000:2\"\n[routers]\nstore_packets = 100\n\
         [[producer]]\nprefix = \"/p\"\nat = [\"random:5\"]\n\
         [[consumer]]\nkind = \"zipf\"\nprefix = \"/p\"\nat = [\"all\"]\nrate_per_s = 10\nnames = 1000\n",
    );
    assert_eq!(outcome.nodes_count, 1000);
    assert_eq!((outcome.totals.satisfied, outcome.totals.dropped), (Some(1.0), 0));
    assert!(outcome.totals.sent > 9000 && outcome.totals.packets > 50_000, "{:?}", outcome.totals);
}
