//! FIB and its index: nanoseconds per operation by number of entries.
//!
//! Entries have 4 to 8 components (about 50 bytes) and share the upper two; lookups have two
//! components more. Names and hashes are made before each measured batch, so they are in the cache
//! as after ingress.

use super::{Row, Samples};
use nw_name::{HashKey, Name, PrefixHashes, component::ComponentType};
use nw_packet_types::random::splitmix64;
use nw_tables::FaceId;
use nw_tables::fib::{Fib, FibConfig, NextHop, StrategyId};
use nw_tables::index::Index;
use std::hint::black_box;

const BATCH: usize = 32;
const LOOKUPS: usize = 400_000;

/// Measures the rows `tables/fib/{set,hit,miss,remove}/…` and `tables/index/…` for each size.
pub fn run(sizes: &[usize]) -> Vec<Row> {
    let mut rows = Vec::new();
    for size in sizes {
        fib(*size, &mut rows);
        index(*size, &mut rows);
    }
    rows
}

fn key() -> HashKey {
    HashKey::new([splitmix64(1), splitmix64(2), splitmix64(3), splitmix64(4)])
}

/// Returns the prefix of this number.
fn prefix(number: u64) -> Name {
    let mut name = Name::new()
        .with_generic(format!("org{}", number % 317))
        .with_generic(format!("site{}", number / 317 % 97));
    for level in 2..3 + number % 5 {
        name = name.with_generic(format!("{:06x}", splitmix64(number << 3 | level) as u32 >> 8));
    }
    // This component makes names of equal length differ.
    name.with_generic(number.to_string())
}

struct LookupKey {
    name: Name,
    prefixes: PrefixHashes,
}

fn lookup_key(prefix: Name) -> LookupKey {
    let name = prefix.with_generic("video").with_number(ComponentType::SEGMENT, 7);
    LookupKey { prefixes: PrefixHashes::of(&key(), name.as_ref()), name }
}

fn fib(size: usize, rows: &mut Vec<Row>) {
    let mut fib = Fib::new(key(), FibConfig::new(size + 1));
    fib.set(Name::new().as_ref(), &[], StrategyId(0)).expect("room for all");
    let (mut set, mut remove) = (Samples::new(), Samples::new());
    // Small tables are filled and emptied until there are enough operations.
    let rounds = (100_000 / size).max(1);
    for round in 0..rounds {
        each_batch(size, |numbers| {
            let names: Vec<Name> = numbers.map(prefix).collect();
            let hops = [NextHop {
                face: FaceId::from_bits(256 + splitmix64(names.len() as u64) as u32 % 64),
                cost: 1,
            }];
            set.measure(names.len(), || {
                for name in &names {
                    fib.set(name.as_ref(), &hops, StrategyId(0)).expect("room for all");
                }
            });
        });
        if round + 1 < rounds {
            empty(&mut fib, size, &mut remove);
        }
    }
    let hit = |draw: u64| lookup_key(prefix(splitmix64(draw) % size as u64));
    let miss = |draw: u64| lookup_key(prefix(size as u64 + splitmix64(draw) % (1 << 40)));
    let mut row =
        |what: &str, samples: Samples| rows.push(samples.row(format!("tables/fib/{what}/{size}")));
    row("hit/batched", lookups(&fib, hit, true));
    row("hit/alone", lookups(&fib, hit, false));
    row("miss/batched", lookups(&fib, miss, true));
    row("miss/alone", lookups(&fib, miss, false));
    empty(&mut fib, size, &mut remove);
    row("set", set);
    row("remove", remove);
}

fn empty(fib: &mut Fib, size: usize, remove: &mut Samples) {
    each_batch(size, |numbers| {
        let names: Vec<Name> = numbers.map(|number| prefix(number * 7 % size as u64)).collect();
        remove.measure(names.len(), || {
            for name in &names {
                black_box(fib.remove(name.as_ref()));
            }
        });
    });
    assert!(fib.len() == 1, "sizes are no multiples of 7");
}

fn lookups(fib: &Fib, ask: impl Fn(u64) -> LookupKey, prefetch: bool) -> Samples {
    let mut samples = Samples::new();
    each_batch(LOOKUPS, |numbers| {
        let batch: Vec<LookupKey> = numbers.map(&ask).collect();
        samples.measure(batch.len(), || {
            if prefetch && fib.exceeds_tlb_reach() {
                batch.iter().for_each(|asked| fib.prefetch_pages(&asked.prefixes));
            }
            for stage in 0..if prefetch { Fib::PREFETCH_STAGES } else { 0 } {
                for asked in &batch {
                    fib.prefetch(stage, &asked.prefixes);
                }
            }
            for asked in &batch {
                black_box(fib.lookup(asked.name.as_ref(), &asked.prefixes));
            }
        });
    });
    samples
}

fn index(size: usize, rows: &mut Vec<Row>) {
    let mut index = Index::with_capacity(size);
    let (mut insert, mut remove) = (Samples::new(), Samples::new());
    let rounds = (100_000 / size).max(1);
    for round in 0..rounds {
        each_batch(size, |numbers| {
            insert.measure(numbers.clone().count(), || {
                for number in numbers {
                    index.insert(splitmix64(number), number as u32).expect("room for all");
                }
            });
        });
        if round + 1 < rounds {
            empty_index(&mut index, size, &mut remove);
        }
    }
    let mut row = |what: &str, samples: Samples| {
        rows.push(samples.row(format!("tables/index/{what}/{size}")))
    };
    for (what, beyond) in [("hit", 0), ("miss", size as u64)] {
        for (how, prefetch) in [("batched", true), ("alone", false)] {
            let mut samples = Samples::new();
            each_batch(LOOKUPS, |numbers| {
                let hashes: Vec<u64> =
                    numbers.map(|n| splitmix64(beyond + splitmix64(n) % size as u64)).collect();
                samples.measure(hashes.len(), || {
                    if prefetch {
                        hashes.iter().for_each(|hash| index.prefetch(*hash));
                    }
                    for hash in &hashes {
                        black_box(index.find(*hash, |_| true));
                    }
                });
            });
            row(&format!("{what}/{how}"), samples);
        }
    }
    empty_index(&mut index, size, &mut remove);
    row("insert", insert);
    row("remove", remove);
}

fn empty_index(index: &mut Index, size: usize, remove: &mut Samples) {
    each_batch(size, |numbers| {
        remove.measure(numbers.clone().count(), || {
            for number in numbers {
                black_box(index.remove(splitmix64(number), number as u32));
            }
        });
    });
}

fn each_batch(count: usize, mut work: impl FnMut(std::ops::Range<u64>)) {
    for start in (0..count).step_by(BATCH) {
        work(start as u64..(start + BATCH).min(count) as u64);
    }
}
