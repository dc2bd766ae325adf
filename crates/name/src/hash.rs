//! *The* name hash: keyed, chained over components, so that the hash of each prefix costs one step.
//!
//! A step folds the 128-bit product of two keyed words (16 octets of the component's encoding at a time). An encoding holds its own
//! length, so zero padding of the last words is unambiguous. The key is secret and random per process: whoever does not know it can't
//! choose names that collide. Every match is confirmed by comparing names all the same.
//!
//! ```text
//! h(/)       = K0
//! h(P / c)   = fold over 16-octet words (a, b) of c:  h <- lo ^ hi of (a ^ h) * (b ^ K1),  then  h <- lo ^ hi of (h ^ K2) * K3
//! ```

use crate::component::ComponentType;
use crate::name::NameRef;
use crate::tlv::Error;

/// Prefixes of a name whose hashes are kept; deeper ones are computed when asked for.
pub const PREFIXES_MAX: usize = 32;

/// The secret that keys the hash.
#[derive(Clone, Copy)]
pub struct HashKey([u64; 4]);

impl HashKey {
    /// From 32 octets; take them from the system's random source.
    pub const fn new(secret: [u64; 4]) -> Self {
        // An even or zero multiplier would lose bits.
        HashKey([secret[0], secret[1] | 1, secret[2], secret[3] | 1])
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
            state = fold(word(pair, 0) ^ state, word(pair, 8) ^ self.0[1]);
        }
        let rest = words.remainder();
        if !rest.is_empty() {
            let (a, b) = tail(rest);
            state = fold(a ^ state, b ^ self.0[1]);
        }
        fold(state ^ self.0[2], self.0[3])
    }

    /// As [`step`](Self::step), for a component that stands at `start..end` of `bytes`: what is around it there lets one of up to sixteen octets be
    /// read in two loads, without a branch on its length.
    ///
    /// # Panics
    /// When the place is outside `bytes`.
    #[inline(always)]
    pub fn step_at(&self, prefix: u64, bytes: &[u8], start: usize, end: usize) -> u64 {
        let len = end.wrapping_sub(start);
        let (a, b) = if len > 16 {
            return self.step(prefix, &bytes[start..end]);
        } else if let Some(behind) = bytes.get(start..start + 16) {
            (word(behind, 0) & MASKS[len].0, word(behind, 8) & MASKS[len].1)
        } else if end >= 16 && end <= bytes.len() {
            let before = &bytes[end - 16..end];
            let both = u128::from(word(before, 0)) | u128::from(word(before, 8)) << 64;
            let both = both.checked_shr(8 * (16 - len as u32)).unwrap_or(0);
            (both as u64, (both >> 64) as u64)
        } else {
            return self.step(prefix, &bytes[start..end]);
        };
        let state = if len == 0 { prefix } else { fold(a ^ prefix, b ^ self.0[1]) };
        fold(state ^ self.0[2], self.0[3])
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

impl core::fmt::Debug for HashKey {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("HashKey(secret)")
    }
}

/// What to keep of sixteen octets, as two little-endian words, to have the first so many.
const MASKS: [(u64, u64); 17] = {
    let mut masks = [(0, 0); 17];
    let mut len = 1;
    while len <= 16 {
        let mask = u128::MAX >> (8 * (16 - len));
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
#[derive(Clone, Debug)]
pub struct Prefixes {
    hashes: [u64; PREFIXES_MAX + 1],
    ends: [u16; PREFIXES_MAX + 1],
    count: u16,
    digest: bool,
    whole: u64,
    key: u64,
    key_len: u16,
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

    /// Forgets the former name. Call before [`push`](Self::push)ing the components of another.
    #[inline]
    pub fn clear(&mut self, key: &HashKey) {
        self.hashes[0] = key.root();
        self.ends[0] = 0;
        self.count = 0;
        self.digest = false;
        self.whole = key.root();
        self.key = key.root();
        self.key_len = 0;
    }

    /// Forgets the former name and takes in another, component by component.
    #[inline(always)]
    pub fn begin<'p>(&'p mut self, key: &'p HashKey) -> PrefixesBuilder<'p> {
        self.hashes[0] = key.root();
        self.ends[0] = 0;
        let root = key.root();
        PrefixesBuilder {
            prefixes: self,
            hash_key: key,
            count: 0,
            digest: false,
            whole: root,
            key: root,
            key_len: 0,
        }
    }

    /// Appends one component, as [`NameRef::check_with`] shows it. Names of packets end before octet 65536.
    #[inline]
    pub fn push(&mut self, key: &HashKey, typ: ComponentType, component: &[u8], end: usize) {
        self.whole = key.step(self.whole, component);
        self.count = self.count.saturating_add(1);
        let index = usize::from(self.count);
        if index <= PREFIXES_MAX {
            self.hashes[index] = self.whole;
            self.ends[index] = end as u16;
        }
        self.digest = typ == ComponentType::IMPLICIT_DIGEST;
        if !self.digest {
            self.key = self.whole;
            self.key_len = end as u16;
        }
    }

    /// Of a name already checked.
    pub fn of(key: &HashKey, name: NameRef<'_>) -> Self {
        let mut prefixes = Prefixes::new(key);
        // A checked name can't fail; one that was not gives the prefixes up to its fault.
        let _: Result<NameRef<'_>, Error> = NameRef::check_with(name.as_bytes(), 0, |typ, component, end| {
            prefixes.push(key, typ, component, end)
        });
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

/// [`Prefixes`] in the making: what each component changes is kept at hand until [`finish`](Self::finish).
#[derive(Debug)]
#[must_use = "prefixes are whole when finished"]
pub struct PrefixesBuilder<'p> {
    prefixes: &'p mut Prefixes,
    hash_key: &'p HashKey,
    count: usize,
    digest: bool,
    whole: u64,
    key: u64,
    key_len: usize,
}

impl PrefixesBuilder<'_> {
    /// Appends one component, which stands at `start..` in `bytes`, as long as `component`, and ends at octet `end` of the name.
    #[inline(always)]
    pub fn push(&mut self, typ: ComponentType, bytes: &[u8], start: usize, component: &[u8], end: usize) {
        self.whole = self.hash_key.step_at(self.whole, bytes, start, start + component.len());
        self.count += 1;
        if self.count <= PREFIXES_MAX {
            self.prefixes.hashes[self.count] = self.whole;
            self.prefixes.ends[self.count] = end as u16;
        }
        self.digest = typ == ComponentType::IMPLICIT_DIGEST;
        if !self.digest {
            self.key = self.whole;
            self.key_len = end;
        }
    }

    /// All components were appended.
    #[inline(always)]
    pub fn finish(self) {
        let prefixes = self.prefixes;
        prefixes.count = self.count.min(usize::from(u16::MAX)) as u16;
        prefixes.digest = self.digest;
        prefixes.whole = self.whole;
        prefixes.key = self.key;
        prefixes.key_len = self.key_len as u16;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::name::Name;
    use alloc::vec;
    use proptest::prelude::*;

    /// The definition in the module's comment, octet by octet.
    fn slow_step(key: &HashKey, prefix: u64, component: &[u8]) -> u64 {
        let mut state = prefix;
        for block in component.chunks(16) {
            let mut padded = [0; 16];
            padded[..block.len()].copy_from_slice(block);
            state = fold(word(&padded, 0) ^ state, word(&padded, 8) ^ key.0[1]);
        }
        fold(state ^ key.0[2], key.0[3])
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
        ("/a", 0x642b_f152_e76c_3336),
        ("/a/b", 0x7422_bea4_1530_4d4b),
        ("/video/foo/seg=1", 0x7240_03f5_a6b2_e4eb),
        ("/a/component-of-more-than-sixteen-octets", 0xfadd_6158_da2c_5843),
    ];

    proptest! {
        #[test]
        fn step_is_its_definition(prefix: u64, component in proptest::collection::vec(any::<u8>(), 1..70)) {
            prop_assert_eq!(KEY.step(prefix, &component), slow_step(&KEY, prefix, &component));
        }

        #[test]
        fn step_is_the_same_wherever_a_component_stands(
            prefix: u64, before in 0_usize..20, component in proptest::collection::vec(any::<u8>(), 1..40), behind in 0_usize..20,
        ) {
            let mut bytes = vec![0xa5; before];
            bytes.extend_from_slice(&component);
            bytes.resize(before + component.len() + behind, 0x5a);
            let there = KEY.step_at(prefix, &bytes, before, before + component.len());
            prop_assert_eq!(there, KEY.step(prefix, &component));
        }

        #[test]
        fn built_prefixes_are_those_pushed(parts in proptest::collection::vec((any::<bool>(), proptest::collection::vec(any::<u8>(), 0..20)), 0..40)) {
            let digest = crate::Component::new(ComponentType::IMPLICIT_DIGEST, &[9; 32]).unwrap();
            let name = parts.iter().fold(Name::new(), |n, (d, p)| if *d { n.with(digest) } else { n.with_generic(p) });
            let bytes = name.as_ref().as_bytes();
            let pushed = Prefixes::of(&KEY, name.as_ref());
            let mut built = Prefixes::of(&KEY, "/x/y".parse::<Name>().unwrap().as_ref());
            let mut builder = built.begin(&KEY);
            NameRef::check_with(bytes, 0, |typ, component, end| {
                builder.push(typ, bytes, end - component.len(), component, end);
            }).unwrap();
            builder.finish();
            prop_assert_eq!((built.count(), built.whole(), built.key()), (pushed.count(), pushed.whole(), pushed.key()));
            prop_assert_eq!((built.key_len(), built.has_digest()), (pushed.key_len(), pushed.has_digest()));
            for count in 0..=pushed.kept() {
                prop_assert_eq!((built.hash(count), built.end(count)), (pushed.hash(count), pushed.end(count)));
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
