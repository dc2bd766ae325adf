//! A thousand routers under light load; `make bench ROW=sim` sends more packets.

use crate::run;

#[test]
fn thousand_routers_satisfy_every_interest() {
    let outcome = run(
        "[run]\nduration_s = 1\n[topology]\ngenerate = \"scale-free:1000:2\"\n[routers]\nstore_packets = 100\n\
         [[producer]]\nprefix = \"/p\"\nat = [\"random:5\"]\n\
         [[consumer]]\nkind = \"zipf\"\nprefix = \"/p\"\nat = [\"all\"]\nrate_per_s = 10\nnames = 1000\n",
    );
    assert_eq!(outcome.nodes_count, 1000);
    assert_eq!((outcome.totals.satisfied, outcome.totals.dropped), (Some(1.0), 0));
    assert!(outcome.totals.sent > 9000 && outcome.totals.packets > 50_000, "{:?}", outcome.totals);
}
