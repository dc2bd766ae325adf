//! The name hash: keyed, and chained over components, so that the hash of each further prefix costs
//! one step.
//!
//! ```text
//! h(/)       = K0
//! h(P / c)   = fold over 16-byte words (a, b) of c:  h <- lo ^ hi of (a ^ h) * (b ^ K1)
//! ```
//!
//! A step folds the 128-bit product of two keyed words (16 bytes of the component's encoding at a
//! time). The encoding contains its length, so padding the last word with zeros is unambiguous. The
//! key is secret and random per process: names that collide can't be chosen without it. Every
//! match is confirmed by comparing names nevertheless.
//!
//! Main invariant: PIT, content store, FIB, shards and the kernel programs all use this function;
//! golden vectors keep the kernel's C version equal.

use crate::component::ComponentType;
use crate::name::{NameRef, component_at};
use crate::tlv::Error;
use core::ops::Range;

/// The number of prefixes, by components, with stored hashes; those of longer prefixes are
/// computed when needed.
pub const PREFIXES_MAX: usize = 32;

/// The secret key of the hash.
#[derive(Clone, Copy)]
pub struct HashKey([u64; 4]);

impl HashKey {
    /// Creates a key from 32 random bytes of the operating system. The hash uses the first two
    /// words.
    pub const fn new(secret: [u64; 4]) -> Self {
        // An even or zero multiplier would lose bits.
        HashKey([secret[0], secret[1] | 1, secret[2], secret[3] | 1])
    }

    /// Returns the two words that the hash uses, for the kernel programs. They are the whole
    /// secret.
    pub const fn words(&self) -> [u64; 2] {
        [self.0[0], self.0[1]]
    }

    /// Returns the hash of `/`.
    #[inline]
    pub const fn root(&self) -> u64 {
        self.0[0]
    }

    /// Returns the hash of a prefix extended by one component, which is given with its type and
    /// length.
    #[inline]
    pub fn step(&self, prefix: u64, component: &[u8]) -> u64 {
        let mut state = prefix;
        let mut words = component.chunks_exact(16);
        for pair in &mut words {
            state = self.fold_in(state, word(pair, 0), word(pair, 8));
        }
        let remainder = words.remainder();
        if remainder.is_empty() {
            return state;
        }
        let (a, b) = tail(remainder);
        self.fold_in(state, a, b)
    }

    /// Returns the hash of a prefix extended by the first component of `bytes`, and the length of
    /// that component's value. `None` if it is longer than 14 bytes or a digest.
    #[inline(always)]
    fn step_short_component(&self, prefix: u64, bytes: &[u8; 16]) -> Option<(u64, usize)> {
        // The length is read first: the position of the next component depends on it.
        let value_len = usize::from(bytes[1]);
        let bytes = u128::from_le_bytes(*bytes);
        let (a, b) = (bytes as u64, (bytes >> 64) as u64);
        let typ = a as u8;
        if typ.wrapping_sub(3) > 249 || value_len > SHORT_MAX {
            return None;
        }
        let (mask_a, mask_b) = MASKS[value_len];
        Some((self.fold_in(prefix, a & mask_a, b & mask_b), value_len))
    }

    #[inline(always)]
    fn fold_in(&self, state: u64, a: u64, b: u64) -> u64 {
        fold(a ^ state, b ^ self.0[1])
    }

    /// Returns the hash of a whole name.
    pub fn name(&self, name: NameRef<'_>) -> u64 {
        let bytes = name.as_bytes();
        let mut components = name.components();
        let mut state = self.root();
        let mut start = 0;
        while components.next().is_some() {
            state = self.step(state, &bytes[start..components.consumed()]);
            start = components.consumed();
        }
        state
    }
}

/// Returns the shard (0 to `shards` - 1) of a name with this
/// [`lookup_hash`](PrefixHashes::lookup_hash). Uses 16 bits that the tables do not use.
#[inline]
pub const fn shard_of(hash: u64, shards: usize) -> usize {
    ((hash & 0xffff) as usize * shards) >> 16
}

impl core::fmt::Debug for HashKey {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("HashKey(secret)")
    }
}

/// The maximum length of a value that fits 16 bytes together with a one-byte type and length.
const SHORT_MAX: usize = 14;

/// By length of the value: the mask of the component's bytes in 16 bytes, as two little-endian
/// words.
const MASKS: [(u64, u64); SHORT_MAX + 1] = {
    let mut masks = [(0, 0); SHORT_MAX + 1];
    let mut len = 0;
    while len <= SHORT_MAX {
        let mask = u128::MAX >> (8 * (SHORT_MAX - len));
        masks[len] = (mask as u64, (mask >> 64) as u64);
        len += 1;
    }
    masks
};

#[inline(always)]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

#[inline(always)]
fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes([
        bytes[at],
        bytes[at + 1],
        bytes[at + 2],
        bytes[at + 3],
        bytes[at + 4],
        bytes[at + 5],
        bytes[at + 6],
        bytes[at + 7],
    ])
}

/// Returns the last 1 to 15 bytes as two little-endian words, padded with zeros. Uses overlapping
/// loads instead of a loop over bytes.
#[inline(always)]
fn tail(bytes: &[u8]) -> (u64, u64) {
    let len = bytes.len();
    if len >= 8 {
        // The last eight bytes, shifted to drop those in the first word.
        let high = if len == 8 { 0 } else { word(bytes, len - 8) >> (8 * (16 - len)) };
        (word(bytes, 0), high)
    } else if len >= 4 {
        let low = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        let high =
            u32::from_le_bytes([bytes[len - 4], bytes[len - 3], bytes[len - 2], bytes[len - 1]]);
        let high = if len == 4 { 0 } else { u64::from(high) >> (8 * (8 - len)) };
        (u64::from(low) | high << 32, 0)
    } else {
        let mut low = u64::from(bytes[0]);
        if len > 1 {
            low |= u64::from(bytes[1]) << 8;
        }
        if len > 2 {
            low |= u64::from(bytes[2]) << 16;
        }
        (low, 0)
    }
}

/// The hash and the end of each prefix of one name: computed once at ingress and carried with the
/// packet.
///
/// Fields used for every packet come first, the arrays, which most names fill to a quarter, last:
/// so fewer cache lines are touched.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct PrefixHashes {
    key: u64,
    full: u64,
    key_len: u16,
    count: u16,
    digest: bool,
    ends: [u16; PREFIXES_MAX + 1],
    hashes: [u64; PREFIXES_MAX + 1],
}

impl PrefixHashes {
    /// Creates the hashes of the name `/`.
    pub const fn new(key: &HashKey) -> Self {
        let root = key.root();
        PrefixHashes {
            hashes: [root; PREFIXES_MAX + 1],
            ends: [0; PREFIXES_MAX + 1],
            count: 0,
            digest: false,
            full: root,
            key: root,
            key_len: 0,
        }
    }

    /// Resets to the name `/`. `key` must be the one of [`new`](Self::new).
    #[inline(always)]
    pub fn clear(&mut self, key: &HashKey) {
        // Element 0 is that of `/` always; writing it could touch another cache line.
        debug_assert_eq!((self.hashes[0], self.ends[0]), (key.root(), 0));
        self.count = 0;
        self.full = key.root();
        self.key = key.root();
        self.key_len = 0;
        self.digest = false;
    }

    /// Sets the full hash of a name of `len` bytes without digest and without parsed components
    /// parsed. No other prefix but `/` is stored.
    #[inline(always)]
    pub fn set_full_hash(&mut self, hash: u64, len: u16) {
        self.full = hash;
        self.key = hash;
        self.key_len = len;
    }

    /// Checks the name with the TLV-VALUE `wire[name]` and stores its hashes, replacing the old
    /// ones. `key` must be the one of [`new`](Self::new). Undefined content after an error.
    ///
    /// Bytes after the name are not interpreted, but if 16 bytes follow the start of a component it
    /// is read with two loads.
    ///
    /// # Errors
    /// The fault and its offset in `wire`, if the name is invalid.
    #[inline(always)]
    pub fn read(
        &mut self,
        key: &HashKey,
        wire: &[u8],
        name: Range<usize>,
    ) -> Result<ParametersDigests, Error> {
        let (start, len) = (name.start, name.len());
        let from_name = wire.get(start..).unwrap_or_default();
        if self.hash_fast(key, from_name, len) {
            return Ok(ParametersDigests::default());
        }
        self.hash_slow(key, from_name.get(..len).unwrap_or(from_name), start)
    }

    /// The fast form: hashes the leading components that are short and no digests. Returns whether
    /// these are the whole name; otherwise [`hash_slow`](Self::hash_slow) continues.
    #[inline(never)]
    fn hash_fast(&mut self, key: &HashKey, from_name: &[u8], len: usize) -> bool {
        // While 16 bytes are readable, there is one more component, which two loads read.
        let readable = &from_name[..from_name.len().min(len + 15)];
        debug_assert_eq!((self.hashes[0], self.ends[0]), (key.root(), 0));
        let (mut hash, mut count) = (key.root(), 0);
        // The start of the component, and of its value if the component is short. Both are kept, so
        // that each step waits for the length and one addition only.
        let (mut pos, mut value) = (0u32, 2u32);
        // Usual: a component has one byte of type and of length, is short and no digest.
        while count < PREFIXES_MAX
            && let Some(bytes) = readable.get(pos as usize..pos as usize + 16)
            && let Some(bytes) = bytes.first_chunk::<16>()
            && let Some((folded, value_len)) = key.step_short_component(hash, bytes)
        {
            hash = folded;
            pos = value + value_len as u32;
            value = pos + 2;
            count += 1;
            self.hashes[count] = hash;
            self.ends[count] = pos as u16;
        }
        let pos = pos as usize;
        self.count = count as u16;
        self.full = hash;
        self.key = hash;
        self.key_len = pos as u16;
        self.digest = false;
        if pos > len {
            // The last component ends after the name: remove it, so that the slow form reports the
            // fault.
            self.count -= 1;
            self.key_len = self.ends[count - 1];
            self.full = self.hashes[count - 1];
            self.key = self.full;
        }
        pos == len
    }

    /// The slow form: hashes the remaining components, of any kind. Offsets of errors count from
    /// `base`.
    #[inline(never)]
    fn hash_slow(
        &mut self,
        key: &HashKey,
        name: &[u8],
        base: usize,
    ) -> Result<ParametersDigests, Error> {
        let mut digests = ParametersDigests::default();
        let (mut pos, mut count) = (usize::from(self.key_len), usize::from(self.count));
        while pos < name.len() {
            let (typ, end) = component_at(name, pos, base)?;
            self.full = key.step(self.full, &name[pos..end]);
            count += 1;
            if count <= PREFIXES_MAX {
                self.hashes[count] = self.full;
                self.ends[count] = end as u16;
            }
            self.digest = typ == ComponentType::IMPLICIT_DIGEST;
            if !self.digest {
                self.key = self.full;
                self.key_len = end as u16;
            }
            digests.push(typ, end);
            pos = end;
        }
        self.count = count.min(usize::from(u16::MAX)) as u16;
        Ok(digests)
    }

    /// Returns the hashes of a checked name.
    pub fn of(key: &HashKey, name: NameRef<'_>) -> Self {
        let mut prefixes = PrefixHashes::new(key);
        // A checked name can't fail; an unchecked one has the prefixes before its fault.
        let _: Result<ParametersDigests, Error> =
            prefixes.read(key, name.as_bytes(), 0..name.as_bytes().len());
        prefixes
    }

    /// Returns the number of components of the name.
    #[inline]
    pub const fn count(&self) -> usize {
        self.count as usize
    }

    /// Returns the longest prefix with a stored hash, in components: `min(count, PREFIXES_MAX)`.
    #[inline]
    pub fn stored_len(&self) -> usize {
        usize::from(self.count).min(PREFIXES_MAX)
    }

    /// Returns the hash of the first `count` components; `count` is at most
    /// [`stored_len`](Self::stored_len).
    #[inline]
    pub fn hash(&self, count: usize) -> u64 {
        self.hashes[count]
    }

    /// Returns the length in bytes of the first `count` components; `count` is at most
    /// [`stored_len`](Self::stored_len).
    #[inline]
    pub fn end(&self, count: usize) -> usize {
        usize::from(self.ends[count])
    }

    /// Returns the hash of the whole name.
    #[inline]
    pub const fn full_hash(&self) -> u64 {
        self.full
    }

    /// Returns the hash of the name without implicit digests at its end. PIT, content store and
    /// shards use this one, so that an Interest with a digest and its Data have the same hash.
    #[inline]
    pub const fn lookup_hash(&self) -> u64 {
        self.key
    }

    /// Returns the length in bytes of the part of the name that [`lookup_hash`](Self::lookup_hash)
    /// covers.
    #[inline]
    pub const fn lookup_len(&self) -> usize {
        self.key_len as usize
    }

    /// Returns whether the last component is an implicit digest.
    #[inline]
    pub const fn has_digest(&self) -> bool {
        self.digest
    }
}

/// The ends of a name's ParametersSha256DigestComponents, in bytes from the start of the name; 0
/// for none. A valid name has at most one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ParametersDigests {
    /// The end of the first one.
    pub first_end: u16,
    /// The end of the last one, if there are several.
    pub last_end: u16,
}

impl ParametersDigests {
    /// Processes the next component of a name, which ends at byte `end`.
    #[inline]
    pub fn push(&mut self, typ: ComponentType, end: usize) {
        if typ == ComponentType::PARAMETERS_DIGEST {
            if self.first_end == 0 {
                self.first_end = end as u16
            } else {
                self.last_end = end as u16
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::Name;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    /// The definition in the module's documentation, byte by byte.
    fn slow_step(key: &HashKey, prefix: u64, component: &[u8]) -> u64 {
        let mut state = prefix;
        for block in component.chunks(16) {
            let mut padded = [0; 16];
            padded[..block.len()].copy_from_slice(block);
            state = fold(word(&padded, 0) ^ state, word(&padded, 8) ^ key.0[1]);
        }
        state
    }

    /// The hashes of prefixes, computed component by component.
    #[derive(Default)]
    struct Model {
        prefixes: Vec<(u64, usize)>,
        key: Option<(u64, usize)>,
        digest: bool,
        digests: ParametersDigests,
    }

    impl Model {
        fn full_hash(&self) -> u64 {
            self.prefixes.last().map_or(KEY.root(), |(hash, _)| *hash)
        }

        fn push(&mut self, typ: ComponentType, component: &[u8], end: usize) {
            self.prefixes.push((slow_step(&KEY, self.full_hash(), component), end));
            self.digests.push(typ, end);
            self.digest = typ == ComponentType::IMPLICIT_DIGEST;
            if !self.digest {
                self.key = self.prefixes.last().copied();
            }
        }
    }

    const KEY: HashKey = HashKey::new([
        0x0123_4567_89ab_cdef,
        0xfedc_ba98_7654_3210,
        0x0f1e_2d3c_4b5a_6978,
        0x8796_a5b4_c3d2_e1f0,
    ]);

    /// The same vectors test the kernel's C version of this function.
    #[test]
    fn name_hash_golden_vectors_match() {
        for (uri, hash) in GOLDEN {
            let name: Name = uri.parse().unwrap();
            assert_eq!(KEY.name(name.as_ref()), *hash, "{uri} {:#018x}", KEY.name(name.as_ref()));
        }
    }

    const GOLDEN: &[(&str, u64)] = &[
        ("/", 0x0123_4567_89ab_cdef),
        ("/a", 0xe911_feef_d5de_0ba2),
        ("/a/b", 0x66b9_bd73_2a89_3b94),
        ("/video/foo/seg=1", 0x3109_d753_5471_cb12),
        ("/a/component-of-more-than-sixteen-octets", 0xc02c_d448_4325_9de8), // (retired word)
    ];

    proptest! {
        #[test]
        fn step_any_component_equals_definition(
            prefix: u64,
            component in proptest::collection::vec(any::<u8>(), 1..70),
        ) {
            prop_assert_eq!(KEY.step(prefix, &component), slow_step(&KEY, prefix, &component));
        }

        /// Reading a name inside any bytes equals hashing component by component, including faults.
        #[test]
        fn read_any_name_equals_model(
            before in proptest::collection::vec(any::<u8>(), 0..20),
            after in proptest::collection::vec(any::<u8>(), 0..20),
            parts in proptest::collection::vec(
                (0..12u16, proptest::collection::vec(any::<u8>(), 0..20)),
                0..40,
            ),
            cut in 0..3usize,
        ) {
            let name = parts.iter().fold(Name::new(), |name, (typ, value)| match *typ {
                digest @ 1..=2 => name.with(
                    crate::Component::new(ComponentType::new(digest).unwrap(), &[9; 32]).unwrap(),
                ),
                0 => name
                    .with(crate::Component::new(ComponentType::new(300).unwrap(), value).unwrap()),
                _ => name.with_generic(value),
            });
            let bytes = name.as_ref().as_bytes();
            let bytes = &bytes[..bytes.len().saturating_sub(cut)];
            let wire = [&before[..], bytes, &after].concat();
            let range = before.len()..before.len() + bytes.len();
            let mut model = Model::default();
            let checked = NameRef::check_with(bytes, before.len(), |typ, component, end| {
                model.push(typ, component, end)
            });
            let mut read = PrefixHashes::of(&KEY, "/x/y".parse::<Name>().unwrap().as_ref());
            let outcome = read.read(&KEY, &wire, range);
            prop_assert_eq!(outcome, checked.map(|_| model.digests));
            if outcome.is_ok() {
                prop_assert_eq!(read.count(), model.prefixes.len());
                prop_assert_eq!(read.full_hash(), model.full_hash());
                prop_assert_eq!(
                    (read.lookup_hash(), read.lookup_len()),
                    model.key.unwrap_or((KEY.root(), 0))
                );
                prop_assert_eq!(read.has_digest(), model.digest);
                for count in 1..=read.stored_len() {
                    prop_assert_eq!((read.hash(count), read.end(count)), model.prefixes[count - 1]);
                }
            }
        }

        #[test]
        fn prefix_hashes_equal_hashes_of_prefixes(
            parts in proptest::collection::vec(
                proptest::collection::vec(any::<u8>(), 0..20),
                0..40,
            ),
        ) {
            let name = parts.iter().fold(Name::new(), |n, p| n.with_generic(p));
            let prefixes = PrefixHashes::of(&KEY, name.as_ref());
            prop_assert_eq!(prefixes.count(), parts.len());
            prop_assert_eq!(prefixes.full_hash(), KEY.name(name.as_ref()));
            for count in 0..=prefixes.stored_len() {
                let prefix = name.as_ref().prefix(count);
                prop_assert_eq!(prefixes.hash(count), KEY.name(prefix));
                prop_assert_eq!(prefixes.end(count), prefix.as_bytes().len());
            }
        }
    }

    #[test]
    fn shard_of_all_hashes_is_even() {
        for shards in 1..=64 {
            let mut each = [0u32; 64];
            (0..=0xffffu64).for_each(|low| each[shard_of(low | 7 << 16, shards)] += 1);
            let (used, unused) = each.split_at(shards);
            let fair = 65_536 / shards as u32;
            assert!(
                used.iter().all(|count| (fair..=fair + 1).contains(count)),
                "{shards}: {used:?}"
            );
            assert!(unused.iter().all(|count| *count == 0));
        }
    }

    #[test]
    fn lookup_hash_ignores_implicit_digest() {
        let name: Name = "/a/b".parse().unwrap();
        let full = name
            .clone()
            .with(crate::Component::new(ComponentType::IMPLICIT_DIGEST, &[7; 32]).unwrap());
        let (short, long) =
            (PrefixHashes::of(&KEY, name.as_ref()), PrefixHashes::of(&KEY, full.as_ref()));
        assert_eq!(short.lookup_hash(), long.lookup_hash());
        assert_ne!(short.full_hash(), long.full_hash());
        assert!(long.has_digest() && !short.has_digest());
        assert_eq!(long.lookup_len(), name.as_ref().as_bytes().len());
    }
}
