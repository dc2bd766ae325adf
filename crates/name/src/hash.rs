//! *The* name hash: keyed, chained over components, so that the hash of each prefix costs one step.
//!
//! A step folds the 128-bit product of two keyed words (16 octets of the component's encoding at a time). An encoding holds its own
//! length, so zero padding of the last words is unambiguous. The key is secret and random per process: whoever does not know it can't
//! choose names that collide. Every match is confirmed by comparing names all the same.
//!
//! ```text
//! h(/)       = K0
//! h(P / c)   = fold over 16-octet words (a, b) of c:  h <- lo ^ hi of (a ^ h) * (b ^ K1)
//! ```

use crate::component::ComponentType;
use crate::name::{NameRef, component_at};
use crate::tlv::Error;
use core::ops::Range;

/// Prefixes of a name whose hashes are kept; deeper ones are computed when asked for.
pub const PREFIXES_MAX: usize = 32;

/// The secret that keys the hash.
#[derive(Clone, Copy)]
pub struct HashKey([u64; 4]);

impl HashKey {
    /// From 32 octets; take them from the system's random source. The definition uses the first two words.
    pub const fn new(secret: [u64; 4]) -> Self {
        // An even or zero multiplier would lose bits.
        HashKey([secret[0], secret[1] | 1, secret[2], secret[3] | 1])
    }

    /// The two words that the definition uses, for the kernel's twin of it. They are the whole secret: show them to the kernel and nobody else.
    pub const fn words(&self) -> [u64; 2] {
        [self.0[0], self.0[1]]
    }

    /// The hash of `/`.
    #[inline]
    pub const fn root(&self) -> u64 {
        self.0[0]
    }

    /// The hash of a prefix and one more component, given as its whole encoding.
    #[inline]
    pub fn step(&self, prefix: u64, component: &[u8]) -> u64 {
        let mut state = prefix;
        let mut words = component.chunks_exact(16);
        for pair in &mut words {
            state = self.fold_in(state, word(pair, 0), word(pair, 8));
        }
        let rest = words.remainder();
        if rest.is_empty() {
            return state;
        }
        let (a, b) = tail(rest);
        self.fold_in(state, a, b)
    }

    /// The hash of a prefix and one more component, and the octets of its value, when `octets` begin with a short one that is no digest.
    #[inline(always)]
    fn short_step(&self, prefix: u64, octets: &[u8; 16]) -> Option<(u64, usize)> {
        // First, and by itself: where the next component is depends on it, and each has to wait for the one before.
        let value_len = usize::from(octets[1]);
        let octets = u128::from_le_bytes(*octets);
        let (a, b) = (octets as u64, (octets >> 64) as u64);
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

    /// The hash of a whole name.
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

/// Which of `shards` a name belongs to, by the hash that [`Prefixes::key`] gives. Takes bits that tables leave alone.
#[inline]
pub const fn shard_of(hash: u64, shards: usize) -> usize {
    ((hash & 0xffff) as usize * shards) >> 16
}

impl core::fmt::Debug for HashKey {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("HashKey(secret)")
    }
}

/// Longest value of a component that sixteen octets hold together with its type and length.
const SHORT_MAX: usize = 14;

/// What to keep of sixteen octets, as two little-endian words, to have a component with a value of so many octets.
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

/// The last 1..=15 octets as two little-endian words, zeros behind. Overlapping loads instead of a byte loop.
#[inline(always)]
fn tail(rest: &[u8]) -> (u64, u64) {
    let len = rest.len();
    if len >= 8 {
        // The last eight octets, less those the first word has.
        let high = if len == 8 { 0 } else { word(rest, len - 8) >> (8 * (16 - len)) };
        (word(rest, 0), high)
    } else if len >= 4 {
        let low = u32::from_le_bytes([rest[0], rest[1], rest[2], rest[3]]);
        let high = u32::from_le_bytes([rest[len - 4], rest[len - 3], rest[len - 2], rest[len - 1]]);
        let high = if len == 4 { 0 } else { u64::from(high) >> (8 * (8 - len)) };
        (u64::from(low) | high << 32, 0)
    } else {
        let mut low = u64::from(rest[0]);
        if len > 1 {
            low |= u64::from(rest[1]) << 8;
        }
        if len > 2 {
            low |= u64::from(rest[2]) << 16;
        }
        (low, 0)
    }
}

/// Where each prefix of one name ends, and its hash: computed once at ingress, carried with the packet.
///
/// What is always looked at comes first, the arrays that most names fill to a quarter last: fewer cache lines are touched.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct Prefixes {
    key: u64,
    whole: u64,
    key_len: u16,
    count: u16,
    digest: bool,
    ends: [u16; PREFIXES_MAX + 1],
    hashes: [u64; PREFIXES_MAX + 1],
}

impl Prefixes {
    /// Of the name `/`.
    pub const fn new(key: &HashKey) -> Self {
        let root = key.root();
        Prefixes {
            hashes: [root; PREFIXES_MAX + 1],
            ends: [0; PREFIXES_MAX + 1],
            count: 0,
            digest: false,
            whole: root,
            key: root,
            key_len: 0,
        }
    }

    /// Those of `/` again, whatever name was taken in before. `key` is the one they were made with.
    #[inline(always)]
    pub fn clear(&mut self, key: &HashKey) {
        // The first of the arrays is always that of `/`, and in a line that nobody else may need.
        debug_assert_eq!((self.hashes[0], self.ends[0]), (key.root(), 0));
        self.count = 0;
        self.whole = key.root();
        self.key = key.root();
        self.key_len = 0;
        self.digest = false;
    }

    /// Takes in what is known without reading it of a name of `len` octets that ends with no digest: the hash of the whole. Of its prefixes only
    /// `/` is there.
    #[inline(always)]
    pub fn set_whole(&mut self, hash: u64, len: u16) {
        self.whole = hash;
        self.key = hash;
        self.key_len = len;
    }

    /// Checks the name whose TLV-VALUE stands at `name` in `wire`, forgets the former one and takes this one in. After an error it is no name. `key` is
    /// the one they were made with.
    ///
    /// What is around the name in `wire` is not looked at, but lets a component be read in two loads where sixteen octets are left of it.
    ///
    /// # Errors
    /// What is wrong and at which octet of `wire`.
    #[inline(always)]
    pub fn read(
        &mut self,
        key: &HashKey,
        wire: &[u8],
        name: Range<usize>,
    ) -> Result<ParametersDigests, Error> {
        let (start, len) = (name.start, name.len());
        let from_name = wire.get(start..).unwrap_or_default();
        if self.read_usual(key, from_name, len) {
            return Ok(ParametersDigests::default());
        }
        self.read_on(key, from_name.get(..len).unwrap_or(from_name), start)
    }

    /// Forgets the former name and takes in the first components of the one whose TLV-VALUE is the first `len` octets of `from_name`, as far as they are
    /// short and no digests. True when that is all of it.
    #[inline(never)]
    fn read_usual(&mut self, key: &HashKey, from_name: &[u8], len: usize) -> bool {
        // While sixteen octets of it are left there is one more component, which two loads read.
        let readable = &from_name[..from_name.len().min(len + 15)];
        debug_assert_eq!((self.hashes[0], self.ends[0]), (key.root(), 0));
        let (mut hash, mut count) = (key.root(), 0);
        // Where a component starts, and its value when it is a short one: each start waits for the length before, and for one addition instead of two.
        let (mut pos, mut value) = (0u32, 2u32);
        // Nearly every component has one octet of type and of length, is short and no digest.
        while count < PREFIXES_MAX
            && let Some(octets) = readable.get(pos as usize..pos as usize + 16)
            && let Some(octets) = octets.first_chunk::<16>()
            && let Some((folded, value_len)) = key.short_step(hash, octets)
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
        self.whole = hash;
        self.key = hash;
        self.key_len = pos as u16;
        self.digest = false;
        if pos > len {
            // The last component seemed to be short but ends behind the name: it is taken back, to be told what is wrong with it.
            self.count -= 1;
            self.key_len = self.ends[count - 1];
            self.whole = self.hashes[count - 1];
            self.key = self.whole;
        }
        pos == len
    }

    /// The rest of a name, whatever its components are. Errors count octets from `base`.
    #[inline(never)]
    fn read_on(&mut self, key: &HashKey, name: &[u8], base: usize) -> Result<ParametersDigests, Error> {
        let mut digests = ParametersDigests::default();
        let (mut pos, mut count) = (usize::from(self.key_len), usize::from(self.count));
        while pos < name.len() {
            let (typ, end) = component_at(name, pos, base)?;
            self.whole = key.step(self.whole, &name[pos..end]);
            count += 1;
            if count <= PREFIXES_MAX {
                self.hashes[count] = self.whole;
                self.ends[count] = end as u16;
            }
            self.digest = typ == ComponentType::IMPLICIT_DIGEST;
            if !self.digest {
                self.key = self.whole;
                self.key_len = end as u16;
            }
            digests.push(typ, end);
            pos = end;
        }
        self.count = count.min(usize::from(u16::MAX)) as u16;
        Ok(digests)
    }

    /// Of a name already checked.
    pub fn of(key: &HashKey, name: NameRef<'_>) -> Self {
        let mut prefixes = Prefixes::new(key);
        // A checked name can't fail; one that was not has the prefixes up to its fault.
        let _: Result<ParametersDigests, Error> =
            prefixes.read(key, name.as_bytes(), 0..name.as_bytes().len());
        prefixes
    }

    /// Number of components of the name.
    #[inline]
    pub const fn count(&self) -> usize {
        self.count as usize
    }

    /// Longest prefix whose hash is kept: `min(count, PREFIXES_MAX)` components.
    #[inline]
    pub fn kept(&self) -> usize {
        usize::from(self.count).min(PREFIXES_MAX)
    }

    /// Hash of the first `count` components; `count` at most [`kept`](Self::kept).
    #[inline]
    pub fn hash(&self, count: usize) -> u64 {
        self.hashes[count]
    }

    /// Where the first `count` components end in the name's TLV-VALUE; `count` at most [`kept`](Self::kept).
    #[inline]
    pub fn end(&self, count: usize) -> usize {
        usize::from(self.ends[count])
    }

    /// Hash of the whole name.
    #[inline]
    pub const fn whole(&self) -> u64 {
        self.whole
    }

    /// Hash of the name without an implicit digest at its end: what PIT, content store and shards are chosen by, so that an Interest with
    /// digest and the Data it asks for meet.
    #[inline]
    pub const fn key(&self) -> u64 {
        self.key
    }

    /// Octets of the name that [`key`](Self::key) covers.
    #[inline]
    pub const fn key_len(&self) -> usize {
        self.key_len as usize
    }

    /// True when the last component is an implicit digest.
    #[inline]
    pub const fn has_digest(&self) -> bool {
        self.digest
    }
}

/// Where a name's ParametersSha256DigestComponents end, in octets from the name's start; 0 for none. Only one may be there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ParametersDigests {
    /// The first one.
    pub first_end: u16,
    /// The last one, when there are several.
    pub last_end: u16,
}

impl ParametersDigests {
    /// Takes in the next component of a name, which ends at octet `end`.
    #[inline]
    pub fn push(&mut self, typ: ComponentType, end: usize) {
        if typ == ComponentType::PARAMETERS_DIGEST {
            if self.first_end == 0 { self.first_end = end as u16 } else { self.last_end = end as u16 }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::Name;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    /// The definition in the module's comment, octet by octet.
    fn slow_step(key: &HashKey, prefix: u64, component: &[u8]) -> u64 {
        let mut state = prefix;
        for block in component.chunks(16) {
            let mut padded = [0; 16];
            padded[..block.len()].copy_from_slice(block);
            state = fold(word(&padded, 0) ^ state, word(&padded, 8) ^ key.0[1]);
        }
        state
    }

    /// Prefixes, component by component.
    #[derive(Default)]
    struct Model {
        prefixes: Vec<(u64, usize)>,
        key: Option<(u64, usize)>,
        digest: bool,
        digests: ParametersDigests,
    }

    impl Model {
        fn whole(&self) -> u64 {
            self.prefixes.last().map_or(KEY.root(), |(hash, _)| *hash)
        }

        fn push(&mut self, typ: ComponentType, component: &[u8], end: usize) {
            self.prefixes.push((slow_step(&KEY, self.whole(), component), end));
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

    /// Golden vectors: the kernel's twin of this function is held to the same numbers.
    #[test]
    fn golden_vectors() {
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
        ("/a/component-of-more-than-sixteen-octets", 0xc02c_d448_4325_9de8),
    ];

    proptest! {
        #[test]
        fn step_is_its_definition(prefix: u64, component in proptest::collection::vec(any::<u8>(), 1..70)) {
            prop_assert_eq!(KEY.step(prefix, &component), slow_step(&KEY, prefix, &component));
        }

        /// Reading a name in the midst of anything gives what component by component gives, faults included.
        #[test]
        fn names_read_are_those_pushed(
            before in proptest::collection::vec(any::<u8>(), 0..20), behind in proptest::collection::vec(any::<u8>(), 0..20),
            parts in proptest::collection::vec((0..12u16, proptest::collection::vec(any::<u8>(), 0..20)), 0..40), cut in 0..3usize,
        ) {
            let name = parts.iter().fold(Name::new(), |name, (typ, value)| match *typ {
                digest @ 1..=2 => name.with(crate::Component::new(ComponentType::new(digest).unwrap(), &[9; 32]).unwrap()),
                0 => name.with(crate::Component::new(ComponentType::new(300).unwrap(), value).unwrap()),
                _ => name.with_generic(value),
            });
            let bytes = name.as_ref().as_bytes();
            let bytes = &bytes[..bytes.len().saturating_sub(cut)];
            let wire = [&before[..], bytes, &behind].concat();
            let range = before.len()..before.len() + bytes.len();
            let mut model = Model::default();
            let checked = NameRef::check_with(bytes, before.len(), |typ, component, end| model.push(typ, component, end));
            let mut read = Prefixes::of(&KEY, "/x/y".parse::<Name>().unwrap().as_ref());
            let outcome = read.read(&KEY, &wire, range);
            prop_assert_eq!(outcome, checked.map(|_| model.digests));
            if outcome.is_ok() {
                prop_assert_eq!(read.count(), model.prefixes.len());
                prop_assert_eq!(read.whole(), model.whole());
                prop_assert_eq!((read.key(), read.key_len()), model.key.unwrap_or((KEY.root(), 0)));
                prop_assert_eq!(read.has_digest(), model.digest);
                for count in 1..=read.kept() {
                    prop_assert_eq!((read.hash(count), read.end(count)), model.prefixes[count - 1]);
                }
            }
        }

        #[test]
        fn prefixes_agree_with_whole_names(parts in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..20), 0..40)) {
            let name = parts.iter().fold(Name::new(), |n, p| n.with_generic(p));
            let prefixes = Prefixes::of(&KEY, name.as_ref());
            prop_assert_eq!(prefixes.count(), parts.len());
            prop_assert_eq!(prefixes.whole(), KEY.name(name.as_ref()));
            for count in 0..=prefixes.kept() {
                let prefix = name.as_ref().prefix(count);
                prop_assert_eq!(prefixes.hash(count), KEY.name(prefix));
                prop_assert_eq!(prefixes.end(count), prefix.as_bytes().len());
            }
        }
    }

    #[test]
    fn shards_share_the_hashes_evenly() {
        for shards in 1..=64 {
            let mut each = [0u32; 64];
            (0..=0xffffu64).for_each(|low| each[shard_of(low | 7 << 16, shards)] += 1);
            let (used, unused) = each.split_at(shards);
            let fair = 65_536 / shards as u32;
            assert!(used.iter().all(|count| (fair..=fair + 1).contains(count)), "{shards}: {used:?}");
            assert!(unused.iter().all(|count| *count == 0));
        }
    }

    #[test]
    fn implicit_digest_is_left_out_of_the_key() {
        let name: Name = "/a/b".parse().unwrap();
        let full =
            name.clone().with(crate::Component::new(ComponentType::IMPLICIT_DIGEST, &[7; 32]).unwrap());
        let (short, long) = (Prefixes::of(&KEY, name.as_ref()), Prefixes::of(&KEY, full.as_ref()));
        assert_eq!(short.key(), long.key());
        assert_ne!(short.whole(), long.whole());
        assert!(long.has_digest() && !short.has_digest());
        assert_eq!(long.key_len(), name.as_ref().as_bytes().len());
    }
}
