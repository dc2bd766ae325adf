//! Hash flooding: a peer without the hash key can't fill a part of an index, whatever names it
//! chooses; names that collide under one key do not under another. A peer that has the key could:
//! this is tested too, so that these tests can fail.

use nw_name::{Component, ComponentType, HashKey, Name};
use nw_packet_types::random::Random;
use nw_tables::index::Index;

const NAMES: u32 = 20_000;

/// Random-looking keys, as a process would draw them.
fn keys() -> impl Iterator<Item = HashKey> {
    let mut random = Random::new(1);
    let mut draw = move || random.next_u64();
    (0..3).map(move |_| HashKey::new([draw(), draw(), draw(), draw()]))
}

type Pattern = (&'static str, fn(u32) -> Name);

/// Families of names with much in common, by number.
const PATTERNS: [Pattern; 9] = [
    ("counted", |at| Name::new().with_generic("flood").with_generic(at.to_be_bytes())),
    ("counted from the other end", |at| {
        Name::new().with_generic("flood").with_generic(at.reverse_bits().to_be_bytes())
    }),
    ("multiples of a power of two", |at| {
        Name::new().with_generic((u64::from(at) << 40).to_be_bytes())
    }),
    ("one bit set", |at| {
        let mut value = vec![0; 1 + at as usize / 8 % 1024];
        let last = value.len() - 1;
        value[last] = 1 << (at % 8);
        Name::new().with_generic(&value[..]).with_generic((at / 8192).to_be_bytes())
    }),
    ("different in the second word only", |at| {
        Name::new().with_generic([&[0x55; 14][..], &at.to_le_bytes(), &[0xaa; 12]].concat())
    }),
    ("words of all ones and zeros", |at| {
        let component = |bit: u32| if at >> bit & 1 == 1 { [0xff; 14] } else { [0; 14] };
        (0..16).fold(Name::new(), |name, bit| name.with_generic(component(bit)))
    }),
    ("the same component again and again", |at| {
        let first = Name::new().with_generic((at / 100).to_le_bytes());
        (0..1 + at % 100).fold(first, |name, _| name.with_generic("x"))
    }),
    ("empty components of any type", |at| {
        [at & 0xff, at >> 8].iter().fold(Name::new(), |name, typ| {
            let typ = ComponentType::new(300 + *typ as u16).expect("a type");
            name.with(Component::new(typ, b"").expect("a component"))
        })
    }),
    ("segments", |at| Name::new().with_generic("file").with_segment(u64::from(at))),
];

/// Inserts all hashes; returns the maximum and the mean number of candidates per search, `None` if
/// the index rejected one.
fn crowding(hashes: &[u64], capacity: usize) -> Option<(usize, f64)> {
    let mut index = Index::with_capacity(capacity);
    for (slot, hash) in hashes.iter().enumerate() {
        index.insert(*hash, slot as u32).ok()?;
    }
    let found: Vec<usize> = hashes.iter().map(|hash| index.candidates(*hash).count()).collect();
    let total: usize = found.iter().sum();
    Some((found.into_iter().max().unwrap_or(0), total as f64 / hashes.len() as f64))
}

#[test]
fn index_similar_names_spread_evenly() {
    for (how, name) in PATTERNS {
        for key in keys() {
            let hashes: Vec<u64> = (0..NAMES).map(|at| key.name(name(at).as_ref())).collect();
            let (most, mean) =
                crowding(&hashes, NAMES as usize).unwrap_or_else(|| panic!("{how}: no space"));
            assert!(
                most <= 4 && mean < 1.01,
                "{how}: {most} candidates at most, {mean} on average"
            );
        }
    }
}

#[test]
fn index_colliding_names_spread_under_other_key() {
    let all: Vec<HashKey> = keys().collect();
    let name = |at: u32| Name::new().with_generic("chosen").with_generic(at.to_be_bytes());
    // All within a thousandth of the buckets.
    let home = |key: &HashKey, at: u32| key.name(name(at).as_ref()) >> 38 & 0x3ff;
    let chosen: Vec<u32> = (0..).filter(|at| home(&all[0], *at) == 7).take(400).collect();
    let hashes =
        |key: &HashKey| chosen.iter().map(|at| key.name(name(*at).as_ref())).collect::<Vec<u64>>();
    assert_eq!(
        crowding(&hashes(&all[0]), NAMES as usize),
        None,
        "a peer that has the key can flood"
    );
    for key in &all[1..] {
        let (most, mean) = crowding(&hashes(key), NAMES as usize).expect("there is space");
        assert!(most <= 2 && mean < 1.01, "{most} candidates at most, {mean} on average");
    }
}
