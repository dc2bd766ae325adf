//! Dead nonce list: nanoseconds per operation by number of pairs remembered. All pairs are
//! different; hits are drawn at random.

use super::{Row, Samples};
use nw_packet_types::random::splitmix64;
use nw_tables::Timestamp;
use nw_tables::dnl::DeadNonceList;
use std::hint::black_box;

const BATCH: usize = 32;
const OPERATIONS: usize = 640_000;

/// As hosts ask for a batch.
fn ask(list: &DeadNonceList, now: Timestamp, hashes: &[u64], pairs: &[u64]) {
    hashes.iter().zip(pairs).for_each(|(hash, pair)| list.prefetch(now, *hash, *pair as u32));
}

/// Rows `tables/dnl/{insert,hit,miss}/…` for each size.
pub fn run(sizes: &[usize]) -> Vec<Row> {
    sizes.iter().flat_map(|size| rows(*size)).collect()
}

fn rows(size: usize) -> Vec<Row> {
    let mut list = DeadNonceList::new(size);
    let at = |number: u64| Timestamp::from_nanos(number * 6_000_000_000 / size as u64);
    let (mut rows, mut made) = (Vec::new(), 0_u64);
    while made < size as u64 {
        list.insert(at(made), splitmix64(made), made as u32);
        made += 1;
    }
    for (how, prefetch) in [("batched", true), ("alone", false)] {
        let mut insert = Samples::new();
        for _ in 0..OPERATIONS / BATCH {
            let pairs: Vec<u64> = (made..made + BATCH as u64).collect();
            made += BATCH as u64;
            let hashes: Vec<u64> = pairs.iter().map(|pair| splitmix64(*pair)).collect();
            let now = at(made);
            insert.measure(BATCH, || {
                if prefetch {
                    ask(&list, now, &hashes, &pairs);
                }
                for (hash, pair) in hashes.iter().zip(&pairs) {
                    list.insert(at(*pair), *hash, *pair as u32);
                }
            });
        }
        rows.push(insert.row(format!("tables/dnl/insert/{how}/{size}")));
        for what in ["hit", "miss"] {
            let mut samples = Samples::new();
            let mut found = 0;
            for batch in 0..(OPERATIONS / BATCH) as u64 {
                let draw = |n: u64| splitmix64(batch * BATCH as u64 + n) % size as u64;
                let pair = |n: u64| if what == "hit" { made - 1 - draw(n) } else { made + draw(n) };
                let pairs: Vec<u64> = (0..BATCH as u64).map(pair).collect();
                let hashes: Vec<u64> = pairs.iter().map(|pair| splitmix64(*pair)).collect();
                let now = at(made);
                samples.measure(BATCH, || {
                    if prefetch {
                        ask(&list, now, &hashes, &pairs);
                    }
                    for (hash, pair) in hashes.iter().zip(&pairs) {
                        found += usize::from(black_box(list.contains(now, *hash, *pair as u32)));
                    }
                });
            }
            assert!(
                if what == "hit" { found == OPERATIONS } else { found < 10 },
                "{what}: {found}"
            );
            rows.push(samples.row(format!("tables/dnl/{what}/{how}/{size}")));
        }
    }
    rows
}
