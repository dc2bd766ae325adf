//! Runs the kernel program on the golden vectors that the Rust implementation is tested with.

use crate::common::{Probe, may_run, vectors};
use nw_wire::shard::Reason;

#[test]
fn kernel_chooses_the_shards_of_the_golden_vectors() {
    if !may_run("vectors") {
        return;
    }
    let mut probe = Probe::load();
    let mut wrong = Vec::new();
    for vector in vectors() {
        probe.configure(vector.key, vector.shards);
        let (shard, reason, _) = probe.run(&vector.packet, 1);
        let reason = Reason::ALL.get(usize::from(reason)).map_or("?", |reason| reason.as_str());
        if (shard, reason) != (vector.shard, &vector.reason) {
            wrong.push(format!(
                "line {}: {shard} {reason} instead of {} {}",
                vector.line, vector.shard, vector.reason
            ));
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}
