//! Content store: nanoseconds per operation by number of packets.
//!
//! Packets of one block with names of 4 to 8 components, all different (`different`: the worst case
//! of the prefix tree) or segments of files of a thousand segments (`segments`). Names, hashes and
//! packets are made before each measured batch, so they are in the cache as after ingress.

use super::{Row, Samples};
use nw_name::{HashKey, Name, PrefixHashes, component::ComponentType, tlv::push_tlv};
use nw_packet_types::random::splitmix64;
use nw_tables::cs::{
    BLOCK_LEN, ContentStore, CsConfig, CsProbe, IncomingData, Insertion, RECENT_MAX,
};
use nw_tables::{InterestKey, Timestamp};
use std::hint::black_box;
use std::ops::Range;

const BATCH: usize = 32;
const OPERATIONS: usize = 400_000;
const SEGMENTS: u64 = 1000;
const NOW: Timestamp = Timestamp::from_millis(1000);

/// Measures the rows `tables/cs/{insert,hit,miss,evict,prefix,evict_prefixes}/…` for each size; the
/// last two with the prefix tree.
pub fn run(sizes: &[usize]) -> Vec<Row> {
    let mut rows = Vec::new();
    for size in sizes {
        for names in [Names::Different, Names::Segments] {
            store(names, *size, &mut rows);
        }
    }
    rows
}

#[derive(Clone, Copy)]
enum Names {
    Different,
    Segments,
}

impl Names {
    const fn as_str(self) -> &'static str {
        match self {
            Names::Different => "different",
            Names::Segments => "segments",
        }
    }

    /// Returns the name of this number.
    fn name(self, number: u64) -> Name {
        match self {
            Names::Different => {
                let mut name = Name::new()
                    .with_generic(format!("org{}", number % 317))
                    .with_generic(format!("site{}", number / 317 % 97));
                for level in 2..3 + number % 5 {
                    name = name.with_generic(format!(
                        "{:06x}",
                        splitmix64(number << 3 | level) as u32 >> 8
                    ));
                }
                // This component makes names of equal length differ.
                name.with_generic(number.to_string())
            }
            Names::Segments => Name::new()
                .with_generic("video")
                .with_generic(format!("file{}", number / SEGMENTS))
                .with_number(ComponentType::VERSION, 1)
                .with_number(ComponentType::SEGMENT, number % SEGMENTS),
        }
    }

    /// Returns a prefix of the name of this number, which finds it or a neighbour.
    fn prefix(self, number: u64) -> Name {
        let name = self.name(number);
        name.as_ref().prefix(name.as_ref().len() - 2).to_name()
    }
}

/// A packet with its name.
pub(crate) struct Item {
    name: Name,
    prefixes: PrefixHashes,
    /// Range of the name's value in the packet.
    place: (u16, u16),
    wire: Vec<u8>,
}

impl Item {
    /// Returns the name.
    pub(crate) fn name(&self) -> nw_name::NameRef<'_> {
        self.name.as_ref()
    }

    /// Returns the hashes of the name's prefixes.
    pub(crate) const fn prefixes(&self) -> &PrefixHashes {
        &self.prefixes
    }

    /// Returns the packet as a store takes it.
    pub(crate) fn incoming(&self) -> IncomingData<'_> {
        let (prefixes, wire) = (&self.prefixes, &self.wire[..]);
        IncomingData { name: self.place, prefixes, wire, freshness_ms: 4000, unsolicited: false }
    }
}

/// Returns the key of the hashes.
pub(crate) fn key() -> HashKey {
    HashKey::new([splitmix64(1), splitmix64(2), splitmix64(3), splitmix64(4)])
}

fn lookup_key(name: Name) -> Item {
    Item {
        prefixes: PrefixHashes::of(&key(), name.as_ref()),
        name,
        place: (0, 0),
        wire: Vec::new(),
    }
}

/// Builds a Data packet with the fields that the store reads.
pub(crate) fn data(name: Name) -> Item {
    let mut body = Vec::new();
    name.as_ref().encode(&mut body);
    push_tlv(21, &[7; 64], &mut body);
    let mut item = lookup_key(name);
    push_tlv(6, &body, &mut item.wire);
    assert!(item.wire.len() <= BLOCK_LEN, "a packet of one block");
    // After two types and two lengths of at most three bytes.
    let name = item.name.as_ref().as_bytes();
    let start =
        (4..9).find(|start| item.wire[*start..].starts_with(name)).expect("a packet of this name");
    item.place = (start as u16, name.len() as u16);
    item
}

fn store(names: Names, size: usize, rows: &mut Vec<Row>) {
    let mut row = |what: &str, samples: Samples| {
        rows.push(samples.row(format!("tables/cs/{what}/{}/{size}", names.as_str())));
    };
    // Numbers in the store, and numbers beyond those of the evictions below.
    let there = |draw: u64| splitmix64(draw) % size as u64;
    let elsewhere = |draw: u64| (1 << 33) + there(draw);
    let mut insert = Samples::new();
    let mut cs = filled(names, size, &mut insert);
    row("insert", insert);
    for (how, batched) in [("batched", true), ("alone", false)] {
        let hit = finds(&mut cs, |draw| lookup_key(names.name(there(draw))), false, batched, true);
        row(&format!("hit/{how}"), hit);
        let miss =
            finds(&mut cs, |draw| lookup_key(names.name(elsewhere(draw))), false, batched, false);
        row(&format!("miss/{how}"), miss);
    }
    // After all those hits, the order of use is random.
    row("evict", evictions(&mut cs, names, size));
    // The same with the prefix tree, which prefix lookups create.
    let mut cs = filled(names, size, &mut Samples::new());
    let nowhere = lookup_key(Name::new().with_generic("nowhere"));
    while !cs.has_complete_tree() {
        let (name, prefixes) = (nowhere.name.as_ref(), &nowhere.prefixes);
        assert_eq!(
            cs.find(
                NOW,
                &InterestKey { name, prefixes, can_be_prefix: true, must_be_fresh: false }
            ),
            None
        );
        if size <= RECENT_MAX {
            return;
        }
    }
    for (how, batched) in [("batched", true), ("alone", false)] {
        let prefix =
            finds(&mut cs, |draw| lookup_key(names.prefix(there(draw))), true, batched, true);
        row(&format!("prefix/{how}"), prefix);
    }
    row("evict_prefixes", evictions(&mut cs, names, size));
}

fn filled(names: Names, size: usize, insert: &mut Samples) -> ContentStore {
    let mut cs =
        ContentStore::new(key(), CsConfig { packets_max: size, bytes_max: size * BLOCK_LEN });
    // Small stores are filled and emptied until there are enough operations.
    let rounds = (OPERATIONS / 4 / size).max(1);
    for round in 0..rounds {
        inserts(&mut cs, names, 0..size, insert);
        if round + 1 < rounds {
            cs.erase(Name::new().as_ref(), usize::MAX);
        }
    }
    assert_eq!(cs.len(), size, "all are kept");
    cs
}

fn evictions(cs: &mut ContentStore, names: Names, size: usize) -> Samples {
    let mut evict = Samples::new();
    inserts(cs, names, size..size + OPERATIONS, &mut evict);
    assert_eq!(cs.len(), size, "one goes for each that comes");
    evict
}

fn inserts(cs: &mut ContentStore, names: Names, numbers: Range<usize>, samples: &mut Samples) {
    each_batch(numbers, |numbers| {
        let batch: Vec<Item> = numbers.map(|number| data(names.name(number))).collect();
        samples.measure(batch.len(), || {
            for stage in 0..ContentStore::PREFETCH_STAGES {
                for item in &batch {
                    cs.prefetch_insert(stage, &item.prefixes);
                }
            }
            for item in &batch {
                assert_eq!(cs.insert(NOW, &item.incoming()), Insertion::New);
            }
        });
    });
}

/// Looks up packets and copies them.
fn finds(
    cs: &mut ContentStore,
    ask: impl Fn(u64) -> Item,
    can_be_prefix: bool,
    batched: bool,
    there: bool,
) -> Samples {
    let mut samples = Samples::new();
    let mut out = [0; 8800];
    each_batch(0..OPERATIONS, |numbers| {
        let batch: Vec<Item> = numbers.map(&ask).collect();
        samples.measure(batch.len(), || {
            for stage in 0..if batched { ContentStore::PREFETCH_STAGES } else { 0 } {
                for item in &batch {
                    cs.advance(stage, &item.prefixes, &mut CsProbe::default());
                    if can_be_prefix {
                        cs.prefetch_insert(stage, &item.prefixes);
                    }
                }
            }
            for item in &batch {
                let ask = InterestKey {
                    name: item.name.as_ref(),
                    prefixes: &item.prefixes,
                    can_be_prefix,
                    must_be_fresh: true,
                };
                let found = cs.find(NOW, &ask);
                assert_eq!(found.is_some(), there, "{:?}", item.name);
                if let Some(found) = found {
                    let len = cs.copy_wire(found, &mut out);
                    black_box(&out[..len]);
                }
            }
        });
    });
    samples
}

fn each_batch(numbers: Range<usize>, mut batch: impl FnMut(Range<u64>)) {
    let end = numbers.end as u64;
    for start in numbers.step_by(BATCH) {
        batch(start as u64..end.min((start + BATCH) as u64));
    }
}
