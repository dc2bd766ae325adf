//! PIT: nanoseconds per operation by number of pending Interests.
//!
//! Names have 4 components (about 45 bytes, with a random component and a segment), Interests 60
//! bytes. Each entry has one in-record with a token of 6 bytes and one out-record. Data answer
//! random entries, which are not in the processor's cache if there are many; `in-order` rows answer
//! the oldest entry, as with equal delays. Names and hashes are made before each measured batch, so
//! they are in the cache as after ingress.

use super::{Row, Samples};
use nw_name::{HashKey, Name, PrefixHashes, component::ComponentType};
use nw_packet_types::random::splitmix64;
use nw_tables::pit::{EntryRef, InRecord, OutRecord, Pit, PitConfig};
use nw_tables::{FaceId, InterestKey, Timestamp};
use nw_wire::Token;
use std::hint::black_box;

const BATCH: usize = 32;
const OPERATIONS: usize = 320_000;
const LIFETIME_NANOS: u64 = 4_000_000_000;

/// Measures the rows `tables/pit/{insert,satisfy,find,match-token,match-name,fill,expire}/…` for
/// each size.
///
/// `insert` covers all PIT work of a new Interest: entry, in-record, out-record, timer. `satisfy`
/// covers that of a Data: token, match, in-records, removal.
pub fn run(sizes: &[usize]) -> Vec<Row> {
    sizes.iter().flat_map(|size| Bench::new(*size).rows()).collect()
}

/// The fields of a packet that the PIT reads.
struct LookupKey {
    name: Name,
    prefixes: PrefixHashes,
    wire: Vec<u8>,
    token: [u8; 6],
}

struct Bench {
    pit: Pit,
    key: HashKey,
    size: usize,
    /// Number of the name, and token, of each pending Interest.
    pending: Vec<(u64, [u8; 6])>,
    made: u64,
    drawn: u64,
    /// Index of the oldest pending Interest, for rows in order.
    oldest: usize,
    now_nanos: u64,
    matched: Vec<EntryRef>,
}

impl Bench {
    fn new(size: usize) -> Self {
        let key = HashKey::new([splitmix64(1), splitmix64(2), splitmix64(3), splitmix64(4)]);
        let pit = Pit::new(key, 0, PitConfig::for_entries(size + BATCH));
        let pending = Vec::with_capacity(size);
        Bench {
            pit,
            key,
            size,
            pending,
            made: 0,
            drawn: 0,
            oldest: 0,
            now_nanos: 0,
            matched: Vec::with_capacity(64),
        }
    }

    fn rows(mut self) -> Vec<Row> {
        let mut rows = Vec::new();
        let (mut fill, mut expire) = (Samples::new(), Samples::new());
        self.fill(&mut fill);
        for (how, prefetch) in [("batched", true), ("alone", false)] {
            let (mut insert, mut satisfy) = (Samples::new(), Samples::new());
            for _ in 0..OPERATIONS / BATCH {
                self.satisfy_and_insert(prefetch, true, &mut satisfy, &mut insert);
            }
            let samples = [("insert/in-order", insert), ("satisfy/in-order", satisfy)];
            rows.extend(samples.map(|(what, samples)| {
                samples.row(format!("tables/pit/{what}/{how}/{}", self.size))
            }));
        }
        for (how, prefetch) in [("batched", true), ("alone", false)] {
            let (mut insert, mut satisfy) = (Samples::new(), Samples::new());
            let (mut find, mut by_token, mut by_name) =
                (Samples::new(), Samples::new(), Samples::new());
            for _ in 0..OPERATIONS / BATCH {
                self.satisfy_and_insert(prefetch, false, &mut satisfy, &mut insert);
            }
            for _ in 0..OPERATIONS / BATCH {
                self.find(prefetch, &mut find);
                self.matches(prefetch, true, &mut by_token);
                self.matches(prefetch, false, &mut by_name);
            }
            let samples = [
                ("insert", insert),
                ("satisfy", satisfy),
                ("find", find),
                ("match-token", by_token),
                ("match-name", by_name),
            ];
            rows.extend(samples.map(|(what, samples)| {
                samples.row(format!("tables/pit/{what}/{how}/{}", self.size))
            }));
        }
        // Small tables are filled and emptied until there are enough operations.
        for _ in 0..(OPERATIONS / self.size).max(1) {
            self.expire(&mut expire);
            if self.size < OPERATIONS {
                self.fill(&mut fill);
            }
        }
        rows.push(fill.row(format!("tables/pit/fill/{}", self.size)));
        rows.push(expire.row(format!("tables/pit/expire/{}", self.size)));
        rows
    }

    fn lookup_key(&self, number: u64, token: [u8; 6]) -> LookupKey {
        let name = Name::new()
            .with_generic("video")
            .with_generic(format!("site{}", number % 97))
            .with_generic(format!("{:016x}", splitmix64(number)))
            .with_number(ComponentType::SEGMENT, number & 0xffff);
        let mut wire = vec![5, 58, 7, name.as_ref().as_bytes().len() as u8];
        wire.extend_from_slice(name.as_ref().as_bytes());
        wire.extend_from_slice(&[10, 4, 1, 2, 3, 4, 12, 2, 15, 160]);
        LookupKey { prefixes: PrefixHashes::of(&self.key, name.as_ref()), name, wire, token }
    }

    /// Returns a batch of new names.
    fn new_batch(&mut self) -> (u64, Vec<LookupKey>) {
        let first = self.made;
        self.made += BATCH as u64;
        (first, (first..self.made).map(|number| self.lookup_key(number, [0; 6])).collect())
    }

    /// Returns a batch of distinct pending names with their indices.
    fn drawn(&mut self, in_order: bool) -> (Vec<usize>, Vec<LookupKey>) {
        let mut places: Vec<usize> = Vec::with_capacity(BATCH);
        if in_order {
            places.extend((0..BATCH).map(|more| (self.oldest + more) % self.pending.len()));
            self.oldest += BATCH;
        }
        while places.len() < BATCH.min(self.pending.len()) {
            self.drawn += 1;
            let place = (splitmix64(self.drawn) % self.pending.len() as u64) as usize;
            if !places.contains(&place) {
                places.push(place);
            }
        }
        let batch = places
            .iter()
            .map(|place| self.lookup_key(self.pending[*place].0, self.pending[*place].1))
            .collect();
        (places, batch)
    }

    fn insert(&mut self, batch: &mut [LookupKey], prefetch: bool, samples: &mut Samples) {
        let now = Timestamp::from_nanos(self.now_nanos);
        // One lifetime passes per number of pending Interests.
        self.now_nanos += LIFETIME_NANOS * BATCH as u64 / self.size as u64;
        let expiry = Timestamp::from_nanos(now.as_nanos() + LIFETIME_NANOS);
        let token = Token::new(&[1, 2, 3, 4, 5, 6]).expect("six bytes are a token");
        let pit = &mut self.pit;
        samples.measure(batch.len(), || {
            if prefetch {
                (0..Pit::PREFETCH_STAGES).for_each(|stage| {
                    batch.iter().for_each(|asked| _ = pit.prefetch(stage, &asked.prefixes))
                });
            }
            for (at, asked) in batch.iter_mut().enumerate() {
                let place = (4, asked.name.as_ref().as_bytes().len() as u16);
                let (entry, _) = pit
                    .get_or_insert_bare(&asked.ask(), &asked.wire, place, place.1 + 6)
                    .expect("room for all");
                let (asker, upstream) =
                    (FaceId::from_bits(256 + at as u32), FaceId::from_bits(512));
                let asker = InRecord { face: asker, nonce: at as u32, expiry, token };
                pit.upsert_in(entry, asker).expect("room for all");
                let upstream = OutRecord {
                    face: upstream,
                    nonce: at as u32,
                    sent: now,
                    expiry,
                    nack: None,
                    retx_interval_ms: 10,
                };
                pit.upsert_out(entry, upstream).expect("room for all");
                pit.set_expiry(entry, expiry);
                asked.token = entry.token();
            }
        });
    }

    fn fill(&mut self, samples: &mut Samples) {
        while self.pending.len() < self.size {
            let (first, mut batch) = self.new_batch();
            self.insert(&mut batch, true, samples);
            self.pending.extend(
                batch.iter().enumerate().map(|(at, asked)| (first + at as u64, asked.token)),
            );
        }
    }

    /// Satisfies a batch of pending Interests, then inserts as many new ones.
    fn satisfy_and_insert(
        &mut self,
        prefetch: bool,
        in_order: bool,
        satisfy: &mut Samples,
        insert: &mut Samples,
    ) {
        let (places, batch) = self.drawn(in_order);
        let Bench { pit, matched, .. } = self;
        satisfy.measure(batch.len(), || {
            prefetch_data(pit, prefetch, true, &batch);
            for asked in &batch {
                matched.clear();
                let token = pit.by_token(&asked.token);
                pit.matches(asked.name.as_ref(), &asked.prefixes, token, || [0; 32], matched);
                assert!(matched.len() == 1, "it was pending");
                for entry in matched.iter() {
                    pit.in_records(*entry).for_each(|record| {
                        black_box(record);
                    });
                    pit.remove(*entry);
                }
            }
        });
        let (first, mut batch) = self.new_batch();
        self.insert(&mut batch, prefetch, insert);
        let now = Timestamp::from_nanos(self.now_nanos);
        while let Some(entry) = self.pit.pop_expired(now) {
            // Entries that were never drawn remain.
            self.pit.set_expiry(entry, now.plus_millis(4000));
        }
        for (at, place) in places.into_iter().enumerate() {
            self.pending[place] = (first + at as u64, batch[at].token);
        }
    }

    fn find(&mut self, prefetch: bool, samples: &mut Samples) {
        let (_, batch) = self.drawn(false);
        let pit = &self.pit;
        samples.measure(batch.len(), || {
            if prefetch {
                (0..Pit::PREFETCH_STAGES).for_each(|stage| {
                    batch.iter().for_each(|asked| _ = pit.prefetch(stage, &asked.prefixes))
                });
            }
            for asked in &batch {
                assert!(pit.find(&asked.ask()).is_some(), "it was pending");
            }
        });
    }

    fn matches(&mut self, prefetch: bool, with_token: bool, samples: &mut Samples) {
        let (_, batch) = self.drawn(false);
        let Bench { pit, matched, .. } = self;
        samples.measure(batch.len(), || {
            prefetch_data(pit, prefetch, with_token, &batch);
            for asked in &batch {
                matched.clear();
                let token = if with_token { pit.by_token(&asked.token) } else { None };
                pit.matches(asked.name.as_ref(), &asked.prefixes, token, || [0; 32], matched);
                assert!(matched.len() == 1, "it was pending");
            }
        });
    }

    /// Lets all pending Interests expire.
    fn expire(&mut self, samples: &mut Samples) {
        self.now_nanos += 2 * LIFETIME_NANOS;
        let now = Timestamp::from_nanos(self.now_nanos);
        let pit = &mut self.pit;
        while !pit.is_empty() {
            let count = BATCH.min(pit.len());
            samples.measure(count, || {
                let mut ended = 0;
                while ended < count {
                    // None if moving timers used up the work bound of the call.
                    if let Some(entry) = pit.pop_expired(now) {
                        pit.remove(entry);
                        ended += 1;
                    }
                }
            });
        }
        self.pending.clear();
    }
}

impl LookupKey {
    fn ask(&self) -> InterestKey<'_> {
        InterestKey {
            name: self.name.as_ref(),
            prefixes: &self.prefixes,
            can_be_prefix: false,
            must_be_fresh: false,
        }
    }
}

fn prefetch_data(pit: &Pit, prefetch: bool, with_token: bool, batch: &[LookupKey]) {
    if !prefetch {
        return;
    }
    for stage in 0..Pit::PREFETCH_STAGES {
        for asked in batch {
            if with_token && stage == 2 {
                pit.prefetch_hash(asked.prefixes.lookup_hash());
            } else if with_token {
                pit.prefetch_token(stage, &Token::from_six(asked.token));
            } else {
                _ = pit.prefetch(stage, &asked.prefixes);
            }
        }
    }
}
