//! Finds the pending Interests that a Data satisfies.
//!
//! An entry is indexed under its name without implicit digests at the end. So all entries that a
//! Data can satisfy are indexed under its own name (without digests), or under a shorter prefix if
//! they have CanBePrefix. Only lengths at which such entries exist are looked up (`PrefixLengths`).

use super::entry::Entry;
use super::{EntryRef, INTEREST_LEN_MAX, InRecord, Pit};
use crate::FaceId;
use crate::bytes;
use nw_name::{NameRef, PREFIXES_MAX, PrefixHashes};
use nw_wire::Token;

/// The maximum number of entries with an implicit digest per name; bounds the entries per hash.
pub const DIGESTS_PER_NAME_MAX: usize = 16;

/// The maximum number of different lengths above [`PREFIXES_MAX`] components at which entries with
/// CanBePrefix exist; bounds the lookups per Data.
pub const DEEP_LENGTHS_MAX: usize = 32;

/// The maximum number of entries one Data can satisfy.
pub const MATCHES_MAX: usize = (PREFIXES_MAX + 2 + DEEP_LENGTHS_MAX) * (4 + DIGESTS_PER_NAME_MAX);

/// Bytes of an implicit digest component.
const DIGEST_COMPONENT_LEN: usize = 34;

/// One more than the maximum number of components in a stored name.
const LENGTHS: usize = INTEREST_LEN_MAX / 2 + 1;

/// The lengths at which entries with CanBePrefix exist.
pub(super) struct PrefixLengths {
    counts: Vec<u32>,
    /// One bit per length in use up to [`PREFIXES_MAX`].
    short: u64,
    /// The number of lengths in use above [`PREFIXES_MAX`].
    deep: usize,
}

impl PrefixLengths {
    pub fn new() -> Self {
        PrefixLengths { counts: vec![0; LENGTHS], short: 0, deep: 0 }
    }

    pub fn memory_bytes(&self) -> usize {
        size_of_val(&self.counts[..])
    }

    /// Returns whether an entry with CanBePrefix and this length may be added.
    #[inline]
    pub fn has_capacity(&self, length: usize) -> bool {
        length <= PREFIXES_MAX
            || self.deep < DEEP_LENGTHS_MAX
            || self.counts.get(length).is_some_and(|count| *count > 0)
    }

    /// Returns the number of lengths in use above [`PREFIXES_MAX`].
    pub const fn deep(&self) -> usize {
        self.deep
    }

    pub fn add(&mut self, length: usize) {
        self.counts[length] += 1;
        if length <= PREFIXES_MAX {
            self.short |= 1 << length;
        } else if self.counts[length] == 1 {
            self.deep += 1;
        }
    }

    pub fn remove(&mut self, length: usize) {
        self.counts[length] -= 1;
        if self.counts[length] > 0 {
            return;
        }
        if length <= PREFIXES_MAX {
            self.short &= !(1 << length);
        } else {
            self.deep -= 1;
        }
    }

    /// Returns the lengths in use below `length`, at most [`PREFIXES_MAX`], one bit each.
    #[inline]
    fn short_below(&self, length: usize) -> u64 {
        if length > PREFIXES_MAX { self.short } else { self.short & ((1 << length) - 1) }
    }

    /// Returns whether any length below `length` is in use.
    #[inline]
    fn any_below(&self, length: usize) -> bool {
        self.short_below(length) != 0 || length > PREFIXES_MAX && self.deep > 0
    }
}

/// Returns the number of components of the name without implicit digests at its end.
#[inline]
pub(super) fn key_components(name: NameRef<'_>, prefixes: &PrefixHashes) -> usize {
    if prefixes.has_digest() {
        NameRef::from_checked(&name.as_bytes()[..prefixes.lookup_len()]).len()
    } else {
        prefixes.count()
    }
}

/// A digest that is computed when first used.
struct LazyDigest<F> {
    compute: Option<F>,
    digest: [u8; 32],
}

impl<F: FnOnce() -> [u8; 32]> LazyDigest<F> {
    fn value(&mut self) -> &[u8; 32] {
        if let Some(compute) = self.compute.take() {
            self.digest = compute();
        }
        &self.digest
    }
}

/// The only entry a Data satisfies, with one in-record and one out-record: the result of
/// [`Pit::match_one`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SingleMatch {
    /// The entry.
    pub entry: EntryRef,
    /// The hash of its name.
    pub hash: u64,
    /// Its in-record.
    pub downstream: InRecord,
    /// The face of its out-record.
    pub upstream: FaceId,
    /// The nonce of the Interest that was sent.
    pub nonce: u32,
    /// MustBeFresh of the pending Interest.
    pub must_be_fresh: bool,
    /// State of the strategy: see [`Pit::strategy_bits`].
    pub strategy_bits: u32,
}

impl Pit {
    /// The fast form of [`matches`](Self::matches): returns the entry if the Data satisfies exactly
    /// one, by its name without a digest, and it has one record of each kind. `None`: fast path not
    /// applicable; use [`matches`](Self::matches).
    ///
    /// If `token` refers to an entry, only names are compared: `prefixes` is not used, and `name`
    /// need be a checked name only if the entry exists.
    #[inline(always)]
    pub fn match_one(
        &self,
        name: NameRef<'_>,
        prefixes: &PrefixHashes,
        token: &Token,
    ) -> Option<SingleMatch> {
        let named = EntryRef::of(token).and_then(|token| Some((token.index, self.entry(token)?)));
        let (slot, entry) = match named {
            Some(named) => named,
            None => {
                let hash = prefixes.lookup_hash();
                let slot =
                    self.index.find(hash, |slot| self.entries[slot as usize].hash == hash)?;
                (slot, &self.entries[slot as usize])
            }
        };
        // Equal names have equal lengths and hashes, so these are not compared.
        let single = entry.is_simple()
            && !self.lengths.any_below(usize::from(entry.key_components))
            && bytes::eq(self.name_bytes(entry), name.as_bytes());
        if !single {
            return None;
        }
        Some(SingleMatch {
            entry: EntryRef { index: slot, generation: entry.generation, shard: self.shard },
            hash: entry.hash,
            downstream: entry.incoming.record(),
            upstream: FaceId::from_bits(entry.outgoing.face),
            nonce: entry.outgoing.nonce,
            must_be_fresh: entry.must_be_fresh(),
            strategy_bits: entry.strategy_bits,
        })
    }

    /// Appends to `out` all entries that a Data satisfies, each once: entries with the same name;
    /// with CanBePrefix and a shorter name; with the same name and the Data's implicit digest. An
    /// entry that `token` refers to is first, and often needs no search.
    ///
    /// `digest` is called at most once, and only if an entry with this name and a digest exists. At
    /// most [`MATCHES_MAX`] entries are appended.
    #[inline]
    pub fn matches(
        &self,
        name: NameRef<'_>,
        prefixes: &PrefixHashes,
        token: Option<EntryRef>,
        digest: impl FnOnce() -> [u8; 32],
        out: &mut Vec<EntryRef>,
    ) {
        let mut digest = LazyDigest { compute: Some(digest), digest: [0; 32] };
        let length = key_components(name, prefixes);
        let mut found = None;
        if let Some(token) = token
            && let Some(entry) = self.entry(token)
            && self.is_satisfied_by(entry, name, &mut digest)
        {
            out.push(token);
            let is_only = entry.hash == prefixes.lookup_hash() && !entry.has_hash_siblings();
            if is_only && !self.lengths.any_below(length) {
                return;
            }
            found = Some(token.index);
        }
        self.push_matches_at(prefixes.lookup_hash(), name, found, &mut digest, out);
        if self.lengths.any_below(length) {
            self.push_shorter_matches(name, prefixes, length, found, &mut digest, out);
        }
    }

    /// Appends the matches under each prefix shorter than `length` components.
    fn push_shorter_matches<F: FnOnce() -> [u8; 32]>(
        &self,
        name: NameRef<'_>,
        prefixes: &PrefixHashes,
        length: usize,
        found: Option<u32>,
        digest: &mut LazyDigest<F>,
        out: &mut Vec<EntryRef>,
    ) {
        let mut lengths = self.lengths.short_below(length);
        while lengths != 0 {
            let hash = prefixes.hash(lengths.trailing_zeros() as usize);
            self.push_matches_at(hash, name, found, digest, out);
            lengths &= lengths - 1;
        }
        if length <= PREFIXES_MAX || self.lengths.deep == 0 {
            return;
        }
        let (mut hash, mut deep_left) = (prefixes.hash(PREFIXES_MAX), self.lengths.deep);
        let suffix = &name.as_bytes()[prefixes.end(PREFIXES_MAX)..];
        let mut components = NameRef::from_checked(suffix).components();
        let mut start = 0;
        for length in PREFIXES_MAX + 1..length {
            if components.next().is_none() || deep_left == 0 {
                break;
            }
            hash = self.key.step(hash, &suffix[start..components.consumed()]);
            start = components.consumed();
            if self.lengths.counts.get(length).is_some_and(|count| *count > 0) {
                deep_left -= 1;
                self.push_matches_at(hash, name, found, digest, out);
            }
        }
    }

    /// Appends the matches among the entries under one hash, except the slot `found`.
    #[inline]
    fn push_matches_at<F: FnOnce() -> [u8; 32]>(
        &self,
        hash: u64,
        name: NameRef<'_>,
        found: Option<u32>,
        digest: &mut LazyDigest<F>,
        out: &mut Vec<EntryRef>,
    ) {
        for slot in self.index.candidates(hash) {
            let entry = &self.entries[slot as usize];
            if entry.hash == hash
                && found != Some(slot)
                && self.is_satisfied_by(entry, name, digest)
            {
                out.push(self.reference(slot));
            }
        }
    }

    /// Returns whether the Data satisfies the entry: "Interest matches Data" of the specification.
    #[inline]
    fn is_satisfied_by<F: FnOnce() -> [u8; 32]>(
        &self,
        entry: &Entry,
        data: NameRef<'_>,
        digest: &mut LazyDigest<F>,
    ) -> bool {
        let (entry_name, data) = (self.name_bytes(entry), data.as_bytes());
        if entry_name.len() > data.len() {
            // Only an implicit digest may follow the Data's name.
            return entry.has_digest()
                && entry_name.len() == data.len() + DIGEST_COMPONENT_LEN
                && entry_name.starts_with(data)
                && entry_name.ends_with(digest.value());
        }
        if entry.can_be_prefix() { data.starts_with(entry_name) } else { data == entry_name }
    }
}
