//! False positives of LIPSIN filters, against figures computed independently: 1000 random trees,
//! three other links next to each link of a tree. Rates may differ by 20 %.

use nw_pubsub::filter::{CANDIDATES, Criterion, LinkScheme, choose};
use nw_wire::publication::Fid;

const TREES: u32 = 1000;
const OTHERS_PER_LINK: u32 = 3;

/// Rates of false positives by n: theory, one table, *fpa*, *fpr*; m = 248, k = 5, d = 8.
const RATES_248: [(u32, [f64; 4]); 8] = [
    (10, [0.0002, 0.0002, 0.0001, 0.0]),
    (15, [0.0012, 0.0010, 0.0011, 0.0]),
    (20, [0.0041, 0.0038, 0.0030, 0.0]),
    (25, [0.0098, 0.0098, 0.0074, 0.0001]),
    (30, [0.0194, 0.0190, 0.0143, 0.0020]),
    (35, [0.0335, 0.0329, 0.0254, 0.0103]),
    (40, [0.0523, 0.0538, 0.0410, 0.0241]),
    (50, [0.1039, 0.1047, 0.0836, 0.0660]),
];

/// As above for m = 256: one table, *fpa*, *fpr*.
const RATES_256: [(u32, [f64; 3]); 8] = [
    (10, [0.0001, 0.0002, 0.0]),
    (15, [0.0012, 0.0009, 0.0]),
    (20, [0.0034, 0.0026, 0.0]),
    (25, [0.0083, 0.0061, 0.0]),
    (30, [0.0178, 0.0127, 0.0013]),
    (35, [0.0305, 0.0236, 0.0087]),
    (40, [0.0471, 0.0364, 0.0203]),
    (50, [0.0958, 0.0769, 0.0584]),
];

/// Shares of trees without a false positive, m = 248: one table, *fpa*, *fpr*.
const CLEAN_248: [(u32, [f64; 3]); 8] = [
    (10, [0.99, 1.0, 1.0]),
    (15, [0.95, 0.95, 1.0]),
    (20, [0.80, 0.84, 1.0]),
    (25, [0.47, 0.57, 1.0]),
    (30, [0.19, 0.28, 0.82]),
    (35, [0.03, 0.07, 0.25]),
    (40, [0.0, 0.01, 0.03]),
    (50, [0.0, 0.0, 0.0]),
];

/// Rates of false positives and shares of trees without one: one table, *fpa*, *fpr*.
struct Measured {
    rates: [f64; 3],
    clean: [f64; 3],
    fill: f64,
}

fn measure(bits: u16, links: u32) -> Measured {
    let (mut false_positives, mut clean, mut ones) = ([0_u32; 3], [0_u32; 3], 0);
    for tree in 0..TREES {
        let scheme = LinkScheme { bits, ones: 5, seed: u64::from(tree) << 32 | u64::from(links) };
        let mut filters = [Fid::EMPTY; CANDIDATES];
        for number in 0..links {
            for (filter, id) in filters.iter_mut().zip(scheme.candidates(number)) {
                *filter = filter.union(id);
            }
        }
        let others: Vec<_> =
            (0..links * OTHERS_PER_LINK).map(|number| scheme.candidates(1000 + number)).collect();
        let nearby: Vec<_> = others.iter().collect();
        ones += filters[0].count_ones();
        let fpa = choose(&filters, Criterion::Fpa, &nearby);
        let fpr = choose(&filters, Criterion::Fpr, &nearby);
        for (at, table) in [0, usize::from(fpa), usize::from(fpr)].into_iter().enumerate() {
            let matching = others.iter().filter(|ids| filters[table].contains(&ids[table]));
            let matching = matching.count() as u32;
            false_positives[at] += matching;
            clean[at] += u32::from(matching == 0);
        }
    }
    let tried = f64::from(TREES * links * OTHERS_PER_LINK);
    Measured {
        rates: false_positives.map(|count| f64::from(count) / tried),
        clean: clean.map(|count| f64::from(count) / f64::from(TREES)),
        fill: f64::from(ones) / f64::from(TREES) / f64::from(bits),
    }
}

/// Returns whether a value is within 20 % of the expected one, or as near as its last digit and
/// chance allow: a rate of 0.001 is some 45 events here.
fn is_near(value: f64, expected: f64, slack: f64) -> bool {
    (value - expected).abs() <= 0.2 * expected + slack
}

#[test]
fn rates_of_248_bits_are_those_computed() {
    for ((links, rates), (_, clean)) in RATES_248.into_iter().zip(CLEAN_248) {
        let measured = measure(248, links);
        let [theory, expected @ ..] = rates;
        let fill = 1.0 - (1.0 - 1.0 / 248.0_f64).powi(5 * links as i32);
        assert!(is_near(measured.fill, fill, 0.005), "n {links}: fill {}", measured.fill);
        assert!(is_near(fill.powi(5), theory, 0.0001), "n {links}: theory");
        for (at, how) in ["one table", "fpa", "fpr"].into_iter().enumerate() {
            let (rate, share) = (measured.rates[at], measured.clean[at]);
            assert!(is_near(rate, expected[at], 0.0004), "n {links}, {how}: rate {rate}");
            assert!(is_near(share, clean[at], 0.03), "n {links}, {how}: {share} without any");
        }
    }
}

#[test]
fn rates_of_256_bits_are_those_computed() {
    for (links, expected) in RATES_256 {
        let measured = measure(256, links);
        for (at, how) in ["one table", "fpa", "fpr"].into_iter().enumerate() {
            let rate = measured.rates[at];
            assert!(is_near(rate, expected[at], 0.0004), "n {links}, {how}: rate {rate}");
        }
    }
}

/// The original deals link *i* one bit for each 256 links before it, and one; so short trees in
/// networks of 300 links or more have several false positives. Figures for trees of 10, 20, 40.
#[test]
fn single_bits_beyond_256_links_have_the_false_positives_of_the_original() {
    let mut state = 0x1234_5678_9abc_def1_u64;
    let mut random = move |below: u32| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 33) as u32 % below
    };
    for (links, expected) in [
        (256, [0.0, 0.0, 0.0]),
        (300, [3.0, 5.5, 10.8]),
        (512, [10.6, 22.0, 45.0]),
        (1024, [23.7, 50.0, 112.0]),
    ] {
        let mut ids: Vec<Fid> = Vec::new();
        while ids.len() < links {
            let at = ids.len();
            let id = match at < 256 {
                true => Fid::of_bit(at as u8),
                false => (0..=at / 256)
                    .fold(Fid::EMPTY, |id, _| id.union(Fid::of_bit(random(256) as u8))),
            };
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
        for (size, expected) in [10, 20, 40].into_iter().zip(expected) {
            let mut false_positives = 0;
            for _ in 0..TREES {
                let mut tree = std::collections::BTreeSet::new();
                while tree.len() < size {
                    tree.insert(random(links as u32) as usize);
                }
                let filter = tree.iter().fold(Fid::EMPTY, |filter, at| filter.union(ids[*at]));
                let matching = ids.iter().filter(|id| filter.contains(id)).count();
                false_positives += matching - size;
            }
            let each = false_positives as f64 / f64::from(TREES);
            assert!(is_near(each, expected, 0.01), "{links} links, tree of {size}: {each}");
        }
    }
}
