//! Content store policies: hits in a hundred on traces made by rule, the same for each.
//!
//! A hundred thousand names are asked for by Zipf's law (the `n`th in proportion to `n^-exponent`),
//! a miss fetches the Data. In `zipf/…` that is all; in `scan/…` every other Interest asks for a
//! name that is not requested again, as walks through archives do. The store holds a hundredth or a
//! tenth of the names. No time is measured, so these rows are the same on every machine.

use super::Row;
use super::cs::{data, key};
use nw_name::{Name, PrefixHashes};
use nw_packet_types::random::splitmix64;
use nw_report_kit::zipf::Zipf;
use nw_tables::cs::{BLOCK_LEN, ContentStore, CsConfig, PolicyKind};
use nw_tables::{InterestKey, Timestamp};

const NAMES: usize = 100_000;
const INTERESTS: u64 = 1_000_000;
/// Interests before hits are counted.
const WARM_UP: u64 = 300_000;

/// Rows `tables/cs_policies/{zipf,scan}/…/{lru,priority-fifo,s3-fifo}/…` for each size.
pub fn run() -> Vec<Row> {
    let policies = [
        ("lru", PolicyKind::Lru),
        ("priority-fifo", PolicyKind::PriorityFifo),
        ("s3-fifo", PolicyKind::S3Fifo),
    ];
    let mut rows = Vec::new();
    for exponent in [0.8, 1.0] {
        let zipf = Zipf::new(NAMES, exponent);
        for (trace, scan) in [("zipf", false), ("scan", true)] {
            for packets in [NAMES / 100, NAMES / 10] {
                for (policy, kind) in policies {
                    let value = hits_percent(kind, packets, &zipf, scan);
                    let name = format!("tables/cs_policies/{trace}/{exponent}/{policy}/{packets}");
                    rows.push(Row { name, unit: "percent", value, spread: 0.0, longest_us: 0.0 });
                }
            }
        }
    }
    rows
}

fn hits_percent(kind: PolicyKind, packets: usize, zipf: &Zipf, scan: bool) -> f64 {
    let mut cs =
        ContentStore::new(key(), CsConfig { packets_max: packets, bytes_max: packets * BLOCK_LEN });
    cs.set_policy(kind);
    let (mut hits, mut asked) = (0, 0);
    for i in 0..INTERESTS {
        // A millisecond each: Data are stale after four thousand.
        let now = Timestamp::from_millis(i);
        let popular = !scan || i % 2 == 0;
        let number = if popular { zipf.draw(splitmix64(i)) as u64 } else { (1 << 40) + i };
        let name = Name::new().with_generic("zipf").with_generic(number.to_string());
        let prefixes = PrefixHashes::of(&key(), name.as_ref());
        let ask = InterestKey {
            name: name.as_ref(),
            prefixes: &prefixes,
            can_be_prefix: false,
            must_be_fresh: false,
        };
        let hit = cs.find(now, &ask).is_some();
        if !hit {
            cs.insert(now, &data(name).incoming());
        }
        if i >= WARM_UP && popular {
            asked += 1;
            hits += u64::from(hit);
        }
    }
    100.0 * hits as f64 / asked as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The figures' order is the reason that there are policies.
    #[test]
    fn s3_fifo_hits_more_than_lru_when_there_are_scans() {
        let zipf = Zipf::new(NAMES, 1.0);
        let hits = |kind| hits_percent(kind, NAMES / 100, &zipf, true);
        assert!(hits(PolicyKind::S3Fifo) > hits(PolicyKind::Lru));
    }
}
