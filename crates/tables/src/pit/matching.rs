//! Which pending Interests a Data satisfies.
//!
//! An entry is indexed under its name without implicit digests at the end. So all entries a Data can satisfy are found under the same
//! part of its own name, or under a shorter prefix when they have CanBePrefix; only lengths at which such entries are pending are looked
//! up.

use super::entry::Entry;
use super::{EntryRef, INTEREST_LEN_MAX, InRecord, Pit};
use crate::FaceId;
use crate::octets::are_same;
use nw_name::{NameRef, PREFIXES_MAX, Prefixes};
use nw_wire::Token;

/// Entries with an implicit digest that may be pending under one name: bounds how many share a hash.
pub const DIGESTS_PER_NAME_MAX: usize = 16;

/// Different lengths of names beyond [`PREFIXES_MAX`] components at which Interests with CanBePrefix may be pending: bounds the lookups
/// of a Data.
pub const DEEP_LENGTHS_MAX: usize = 32;

/// Entries one Data can satisfy, at most.
pub const MATCHES_MAX: usize = (PREFIXES_MAX + 2 + DEEP_LENGTHS_MAX) * (4 + DIGESTS_PER_NAME_MAX);

/// Octets of an implicit digest component.
const DIGEST_COMPONENT_LEN: usize = 34;

/// Components there can be in a name that was kept, plus one.
const LENGTHS: usize = INTEREST_LEN_MAX / 2 + 1;

/// At which lengths Interests with CanBePrefix are pending.
pub(super) struct PrefixLengths {
    counts: Vec<u32>,
    /// One bit for each length up to [`PREFIXES_MAX`] with a count.
    kept: u64,
    /// Lengths beyond that with a count.
    deep: usize,
}

impl PrefixLengths {
    pub fn new() -> Self {
        PrefixLengths { counts: vec![0; LENGTHS], kept: 0, deep: 0 }
    }

    pub fn memory_bytes(&self) -> usize {
        size_of_val(&self.counts[..])
    }

    #[inline]
    pub fn has_room(&self, length: usize) -> bool {
        length <= PREFIXES_MAX
            || self.deep < DEEP_LENGTHS_MAX
            || self.counts.get(length).is_some_and(|count| *count > 0)
    }

    /// Lengths beyond [`PREFIXES_MAX`] in use.
    pub const fn deep(&self) -> usize {
        self.deep
    }

    pub fn add(&mut self, length: usize) {
        self.counts[length] += 1;
        if length <= PREFIXES_MAX {
            self.kept |= 1 << length;
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
            self.kept &= !(1 << length);
        } else {
            self.deep -= 1;
        }
    }

    /// Lengths below `length` and within [`PREFIXES_MAX`], one bit each.
    #[inline]
    fn kept_below(&self, length: usize) -> u64 {
        if length > PREFIXES_MAX { self.kept } else { self.kept & ((1 << length) - 1) }
    }

    #[inline]
    fn any_below(&self, length: usize) -> bool {
        self.kept_below(length) != 0 || length > PREFIXES_MAX && self.deep > 0
    }
}

/// Components of the name without implicit digests at its end.
#[inline]
pub(super) fn key_components(name: NameRef<'_>, prefixes: &Prefixes) -> usize {
    if prefixes.has_digest() {
        NameRef::from_checked(&name.as_bytes()[..prefixes.key_len()]).len()
    } else {
        prefixes.count()
    }
}

/// A digest that is computed when first needed.
struct Lazy<F> {
    compute: Option<F>,
    digest: [u8; 32],
}

impl<F: FnOnce() -> [u8; 32]> Lazy<F> {
    fn value(&mut self) -> &[u8; 32] {
        if let Some(compute) = self.compute.take() {
            self.digest = compute();
        }
        &self.digest
    }
}

/// A pending Interest that one face asked and one was asked, and that alone is satisfied by a Data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Single {
    /// The entry.
    pub entry: EntryRef,
    /// Hash of its name.
    pub hash: u64,
    /// Who asked.
    pub asker: InRecord,
    /// Who was asked.
    pub asked: FaceId,
    /// Nonce of the Interest that was sent.
    pub nonce: u32,
    /// A cached Data had to be within its FreshnessPeriod.
    pub must_be_fresh: bool,
    /// What the strategy keeps with it: see [`Pit::strategy_bits`].
    pub strategy_bits: u32,
}

impl Pit {
    /// The usual case of [`matches`](Self::matches), found sooner: just one entry is satisfied, by its name without a digest, with one record of
    /// each kind. `None` says nothing.
    ///
    /// Where `token` names an entry only names are compared: `prefixes` need be of nothing then, and `name` a name only if the entry is found.
    #[inline(always)]
    pub fn single(&self, name: NameRef<'_>, prefixes: &Prefixes, token: &Token) -> Option<Single> {
        let named = EntryRef::of(token).and_then(|token| Some((token.index, self.entry(token)?)));
        let (slot, entry) = match named {
            Some(named) => named,
            None => {
                let hash = prefixes.key();
                let slot = self.index.find(hash, |slot| self.entries[slot as usize].hash == hash)?;
                (slot, &self.entries[slot as usize])
            }
        };
        // The same name has the same components, and the same hash.
        let single = entry.is_plain()
            && !self.lengths.any_below(usize::from(entry.key_components))
            && are_same(self.name_bytes(entry), name.as_bytes());
        if !single {
            return None;
        }
        Some(Single {
            entry: EntryRef { index: slot, generation: entry.generation, shard: self.shard },
            hash: entry.hash,
            asker: entry.incoming.record(),
            asked: FaceId::from_bits(entry.outgoing.face),
            nonce: entry.outgoing.nonce,
            must_be_fresh: entry.must_be_fresh(),
            strategy_bits: entry.strategy_bits,
        })
    }

    /// Appends to `out` all entries that a Data satisfies, each once: the same name with any flags; CanBePrefix at each shorter
    /// prefix; name and implicit digest. When `token` names one of them, it comes first, and is often found to be the only one without a search.
    ///
    /// `digest` is asked at most once, and only when an entry with this name and a digest is pending. At most [`MATCHES_MAX`] are appended.
    #[inline]
    pub fn matches(
        &self,
        name: NameRef<'_>,
        prefixes: &Prefixes,
        token: Option<EntryRef>,
        digest: impl FnOnce() -> [u8; 32],
        out: &mut Vec<EntryRef>,
    ) {
        let mut digest = Lazy { compute: Some(digest), digest: [0; 32] };
        let length = key_components(name, prefixes);
        let mut found = None;
        if let Some(token) = token
            && let Some(entry) = self.entry(token)
            && self.is_satisfied_by(entry, name, &mut digest)
        {
            out.push(token);
            let alone = entry.hash == prefixes.key() && !entry.is_shared();
            if alone && !self.lengths.any_below(length) {
                return;
            }
            found = Some(token.index);
        }
        self.matches_under(prefixes.key(), name, found, &mut digest, out);
        if self.lengths.any_below(length) {
            self.matches_shorter(name, prefixes, length, found, &mut digest, out);
        }
    }

    /// Looks under each prefix shorter than `length` components.
    fn matches_shorter<F: FnOnce() -> [u8; 32]>(
        &self,
        name: NameRef<'_>,
        prefixes: &Prefixes,
        length: usize,
        found: Option<u32>,
        digest: &mut Lazy<F>,
        out: &mut Vec<EntryRef>,
    ) {
        let mut lengths = self.lengths.kept_below(length);
        while lengths != 0 {
            let hash = prefixes.hash(lengths.trailing_zeros() as usize);
            self.matches_under(hash, name, found, digest, out);
            lengths &= lengths - 1;
        }
        if length <= PREFIXES_MAX || self.lengths.deep == 0 {
            return;
        }
        let (mut hash, mut deep_left) = (prefixes.hash(PREFIXES_MAX), self.lengths.deep);
        let rest = &name.as_bytes()[prefixes.end(PREFIXES_MAX)..];
        let mut components = NameRef::from_checked(rest).components();
        let mut start = 0;
        for length in PREFIXES_MAX + 1..length {
            if components.next().is_none() || deep_left == 0 {
                break;
            }
            hash = self.key.step(hash, &rest[start..components.consumed()]);
            start = components.consumed();
            if self.lengths.counts.get(length).is_some_and(|count| *count > 0) {
                deep_left -= 1;
                self.matches_under(hash, name, found, digest, out);
            }
        }
    }

    #[inline]
    fn matches_under<F: FnOnce() -> [u8; 32]>(
        &self,
        hash: u64,
        name: NameRef<'_>,
        found: Option<u32>,
        digest: &mut Lazy<F>,
        out: &mut Vec<EntryRef>,
    ) {
        for slot in self.index.candidates(hash) {
            let entry = &self.entries[slot as usize];
            if entry.hash == hash && found != Some(slot) && self.is_satisfied_by(entry, name, digest) {
                out.push(self.reference(slot));
            }
        }
    }

    #[inline]
    fn is_satisfied_by<F: FnOnce() -> [u8; 32]>(
        &self,
        entry: &Entry,
        data: NameRef<'_>,
        digest: &mut Lazy<F>,
    ) -> bool {
        let (asked, data) = (self.name_bytes(entry), data.as_bytes());
        if asked.len() > data.len() {
            // Only an implicit digest may be more than the Data's name.
            return entry.has_digest()
                && asked.len() == data.len() + DIGEST_COMPONENT_LEN
                && asked.starts_with(data)
                && asked.ends_with(digest.value());
        }
        if entry.can_be_prefix() { data.starts_with(asked) } else { data == asked }
    }
}
