//! Memory of fixed size that the kernel zeroes when it is first touched, and prefetching.
//!
//! The one module of this crate with `unsafe` in it (decisions 0003 and 0034): typed views over anonymous maps, the processor's prefetch instruction,
//! comparing all tags of a bucket at once, and octets that are lent to other threads.

pub mod lending;

use core::fmt;
use core::mem::{align_of, align_of_val, needs_drop, size_of, size_of_val};
use core::ops::{Deref, DerefMut, Range};
use core::ptr::NonNull;
use memmap2::{Advice, MmapMut, MmapOptions, UncheckedAdvice};
use zerocopy::FromZeros;

/// Octets of a cache line, as far as layouts here are concerned.
pub const LINE: usize = 64;

/// Whole blocks of so many octets go back to the kernel: a multiple of the pages of every supported kernel.
const GIVE_BACK: usize = 64 << 10;

/// The largest alignment that a map is sure to have.
const PAGE: usize = 4096;

/// Maps of at least so many octets ask for huge pages: translating addresses costs a third of a random access there. Smaller ones would
/// only hold more memory while they are nearly empty.
const HUGE_FROM: usize = 4 << 20;

/// Octets of a huge page where they are most often used; elsewhere a map is only a little longer than it must be.
const HUGE_PAGE: usize = 2 << 20;

/// Returns true when the system would map so many bytes now, as tables do: reserved, not taken. Nothing stays mapped.
pub fn can_map(bytes: u64) -> bool {
    let Ok(len) = usize::try_from(bytes) else { return false };
    MmapOptions::new().len(len.max(1)).no_reserve_swap().map_anon().is_ok()
}

/// An array of fixed length, zeroed lazily by the kernel and page aligned: what was never touched costs no resident memory.
pub struct Lines<T> {
    first: NonNull<T>,
    len: usize,
    map: MmapMut,
}

// SAFETY: `Lines` owns its elements as `Box<[T]>` does; the pointer leads into `map` only, which moves between threads freely.
unsafe impl<T: Send> Send for Lines<T> {}
// SAFETY: shared references to `Lines` give shared references to elements only.
unsafe impl<T: Sync> Sync for Lines<T> {}

impl<T: FromZeros> Lines<T> {
    /// `len` elements, all zero; large arrays in huge pages, if the kernel has some.
    ///
    /// # Panics
    /// As `Vec` does when the address space can't hold them. Resident memory is taken when elements are touched, not here.
    pub fn new(len: usize) -> Self {
        let lines = Self::map(len, HUGE_FROM);
        if lines.map.len() >= HUGE_FROM {
            // Only advice: a kernel without huge pages is slower, not wrong.
            let _ = lines.map.advise(Advice::HugePage);
        }
        lines
    }

    /// As [`new`](Self::new), in small pages always: for large arrays of which few places are touched, or seldom.
    ///
    /// # Panics
    /// As [`new`](Self::new).
    pub fn sparse(len: usize) -> Self {
        Self::map(len, usize::MAX)
    }

    /// Maps from `whole_from` octets on are whole huge pages: the kernel aligns those, and leaves no ends in small pages.
    fn map(len: usize, whole_from: usize) -> Self {
        const {
            assert!(!needs_drop::<T>(), "elements are never dropped");
            assert!(align_of::<T>() <= PAGE, "maps are aligned to pages only");
        }
        let bytes = len.checked_mul(size_of::<T>()).expect("a table's octets overflow the address space");
        let mapped = if bytes >= whole_from { bytes.next_multiple_of(HUGE_PAGE) } else { bytes.max(1) };
        let mut options = MmapOptions::new();
        options.len(mapped).no_reserve_swap();
        let mut map = match options.map_anon() {
            Ok(map) => map,
            Err(error) => panic!("no address space for a table of {bytes} octets: {error}"),
        };
        let first = NonNull::new(map.as_mut_ptr()).expect("a map has an address").cast();
        Lines { first, len, map }
    }

    /// Zeroes elements; large whole blocks among them go back to the kernel.
    ///
    /// # Panics
    /// When the range is outside the array.
    pub fn zero(&mut self, range: Range<usize>) {
        let elements = &self[range.clone()];
        let (start, end) =
            (range.start * size_of::<T>(), range.start * size_of::<T>() + size_of_val(elements));
        let (inner_start, inner_end) = (start.next_multiple_of(GIVE_BACK), end / GIVE_BACK * GIVE_BACK);
        // SAFETY: `elements` was exclusively borrowed through `self`, is not used any more, and zero octets are a valid `T` by `FromZeros`.
        // After MADV_DONTNEED a private anonymous map reads as zeros.
        let given = inner_start < inner_end
            && unsafe {
                self.map.unchecked_advise_range(
                    UncheckedAdvice::DontNeed,
                    inner_start,
                    inner_end - inner_start,
                )
            }
            .is_ok();
        if given {
            self.map[start..inner_start].fill(0);
            self.map[inner_end..end].fill(0);
        } else {
            self.map[start..end].fill(0);
        }
    }
}

impl<T> Lines<T> {
    /// Asks for the cache lines of an element without waiting for them; nothing happens when there is no such element.
    #[inline(always)]
    pub fn prefetch(&self, index: usize) {
        if let Some(element) = self.get(index) {
            prefetch_value(element);
        }
    }

    /// Octets of address space, an upper bound of resident memory.
    pub fn memory_bytes(&self) -> usize {
        self.map.len()
    }
}

impl<T> Deref for Lines<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: the map holds `len` elements from `first`, aligned to a page, alive as long as `self`; each is a valid `T`: zeros at first
        // (`FromZeros`), afterwards written through `&mut [T]` only.
        unsafe { core::slice::from_raw_parts(self.first.as_ptr(), self.len) }
    }
}

impl<T> DerefMut for Lines<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`, and `self` is borrowed exclusively.
        unsafe { core::slice::from_raw_parts_mut(self.first.as_ptr(), self.len) }
    }
}

impl<T> fmt::Debug for Lines<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lines").field("len", &self.len).field("bytes", &self.map.len()).finish()
    }
}

/// Asks for all cache lines of a value or slice without waiting for them.
#[inline(always)]
pub fn prefetch_value<T: ?Sized>(value: &T) {
    let start = core::ptr::from_ref(value).cast::<u8>();
    // Once per line that the value touches. Where a value starts in its first line is known at compile time when it fills lines.
    let lead = if align_of_val(value) >= LINE { 0 } else { start.addr() % LINE };
    let mut offset = 0;
    while offset < size_of_val(value) + lead {
        prefetch_line(start.wrapping_add(offset));
        offset += LINE;
    }
}

/// Asks for the first and the last cache line of a slice: all of it when it is no longer than two, without a branch that is hard to foresee.
#[inline(always)]
pub fn prefetch_ends(octets: &[u8]) {
    let start = octets.as_ptr();
    prefetch_line(start);
    prefetch_line(start.wrapping_add(octets.len().saturating_sub(1)));
}

/// As [`prefetch_ends`], of no slice shorter than two octets, into the nearest cache: see [`prefetch_soon`].
#[inline(always)]
pub fn prefetch_ends_soon(octets: &[u8]) {
    if let [first, .., last] = octets {
        prefetch_soon(first);
        prefetch_soon(last);
    }
}

/// Asks for a line into the nearest cache. A processor that has many requests open seems to forget some that are for further caches only, by the time
/// that reading takes afterwards, but to wait with these: for few lines, which are read soon.
#[inline(always)]
pub fn prefetch_soon<T>(line: &T) {
    #[cfg(target_arch = "x86_64")]
    prefetch_to::<{ core::arch::x86_64::_MM_HINT_T0 }>(core::ptr::from_ref(line).cast());
    #[cfg(not(target_arch = "x86_64"))]
    prefetch_line(core::ptr::from_ref(line).cast());
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn prefetch_to<const CACHE: i32>(line: *const u8) {
    // SAFETY: a prefetch reads nothing that the program can see and never faults, whatever the address.
    unsafe { core::arch::x86_64::_mm_prefetch::<CACHE>(line.cast()) }
}

#[inline(always)]
fn prefetch_line(line: *const u8) {
    #[cfg(target_arch = "x86_64")]
    prefetch_to::<{ core::arch::x86_64::_MM_HINT_T1 }>(line);
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a prefetch reads nothing that the program can see and never faults, whatever the address.
    unsafe {
        core::arch::asm!("prfm pldl1keep, [{}]", in(reg) line, options(nostack, readonly, preserves_flags));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = line;
}

/// One bit per element that is `wanted`, the first one lowest.
#[inline(always)]
pub(crate) fn equal_words(words: &[u16; 10], wanted: u16) -> u32 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the loads read 16 octets and 4 of the 20 of `words`, unaligned; SSE2 is part of the x86-64 baseline.
    unsafe {
        use core::arch::x86_64::*;
        let start = words.as_ptr();
        let wanted = _mm_set1_epi16(wanted as i16);
        let first = _mm_cmpeq_epi16(_mm_loadu_si128(start.cast()), wanted);
        // Behind the last two there are zeros.
        let last = _mm_cmpeq_epi16(_mm_loadu_si32(start.add(8).cast()), wanted);
        // An octet per word.
        _mm_movemask_epi8(_mm_packs_epi16(first, last)) as u32 & 0x3ff
    }
    #[cfg(not(target_arch = "x86_64"))]
    words.iter().rev().fold(0, |mask, word| mask << 1 | u32::from(*word == wanted))
}

/// One bit per element that is `wanted`, the first one lowest.
#[inline(always)]
pub(crate) fn equal_octets(octets: &[u8; 8], wanted: u8) -> u32 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the load reads the 8 octets, unaligned; SSE2 is part of the x86-64 baseline.
    unsafe {
        use core::arch::x86_64::*;
        let equal = _mm_cmpeq_epi8(_mm_loadl_epi64(octets.as_ptr().cast()), _mm_set1_epi8(wanted as i8));
        // Behind them there are zeros.
        _mm_movemask_epi8(equal) as u32 & 0xff
    }
    #[cfg(not(target_arch = "x86_64"))]
    octets.iter().rev().fold(0, |mask, octet| mask << 1 | u32::from(*octet == wanted))
}

/// True when each of these pieces is the same octets as its counterpart.
#[inline(always)]
pub(crate) fn are_same_pieces(ones: [&[u8; 16]; 4], others: [&[u8; 16]; 4]) -> bool {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: each load reads 16 octets, unaligned, all of a piece; SSE2 is part of the x86-64 baseline.
    unsafe {
        use core::arch::x86_64::*;
        let load = |piece: &[u8; 16]| _mm_loadu_si128(piece.as_ptr().cast());
        let equal = |at: usize| _mm_cmpeq_epi8(load(ones[at]), load(others[at]));
        let all = _mm_and_si128(_mm_and_si128(equal(0), equal(1)), _mm_and_si128(equal(2), equal(3)));
        _mm_movemask_epi8(all) == 0xffff
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let difference = |at: usize| u128::from_ne_bytes(*ones[at]) ^ u128::from_ne_bytes(*others[at]);
        difference(0) | difference(1) | difference(2) | difference(3) == 0
    }
}

/// One bit per element that is `wanted`, the first one lowest.
#[inline(always)]
pub(crate) fn equal_doubles(doubles: &[u32; 10], wanted: u32) -> u32 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: each load reads 16 octets of the 40 of `doubles`, unaligned; SSE2 is part of the x86-64 baseline.
    unsafe {
        use core::arch::x86_64::*;
        let start = doubles.as_ptr();
        let wanted = _mm_set1_epi32(wanted as i32);
        let equal = |at: usize| _mm_cmpeq_epi32(_mm_loadu_si128(start.add(at).cast()), wanted);
        // A word per element of the first eight; the last two are the upper half of the last four.
        let first =
            _mm_movemask_epi8(_mm_packs_epi16(_mm_packs_epi32(equal(0), equal(4)), _mm_setzero_si128()));
        let last = _mm_movemask_ps(_mm_castsi128_ps(equal(6)));
        first as u32 | (last as u32 >> 2) << 8
    }
    #[cfg(not(target_arch = "x86_64"))]
    doubles.iter().rev().fold(0, |mask, double| mask << 1 | u32::from(*double == wanted))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_as_zeros_and_keeps_what_is_written() {
        let mut lines = Lines::<[u64; 8]>::new(1000);
        assert_eq!(lines.len(), 1000);
        assert!(lines.iter().all(|line| *line == [0; 8]));
        assert_eq!(lines.as_ptr().addr() % LINE, 0);
        lines[999][7] = 5;
        lines.prefetch(999);
        lines.prefetch(usize::MAX);
        assert_eq!(lines[999][7], 5);
    }

    #[test]
    fn equal_elements_are_found_where_they_are() {
        for position in 0..10 {
            let mut doubles = [0x8000_0003; 10];
            doubles[position] = 0x8003;
            assert_eq!(equal_doubles(&doubles, 0x8003), 1 << position);
            assert_eq!(equal_doubles(&doubles, 0x8000_0003), 0x3ff & !(1 << position));
            let mut words = [0x8003; 10];
            words[position] = 0x03;
            assert_eq!(equal_words(&words, 0x03), 1 << position);
            assert_eq!(equal_words(&words, 0x8003), 0x3ff & !(1 << position));
            assert_eq!((equal_words(&words, 0x80), equal_words(&words, 0)), (0, 0));
            words[position] = 0;
            assert_eq!(equal_words(&words, 0), 1 << position);
        }
        for position in 0..8 {
            let mut octets = [0x83; 8];
            octets[position] = 0x03;
            assert_eq!(equal_octets(&octets, 0x03), 1 << position);
            assert_eq!(equal_octets(&octets, 0x83), 0xff & !(1 << position));
            assert_eq!(equal_octets(&octets, 0), 0);
            octets[position] = 0;
            assert_eq!(equal_octets(&octets, 0), 1 << position);
        }
    }

    #[test]
    fn an_empty_array_is_one() {
        let mut lines = Lines::<u64>::new(0);
        assert!(lines.is_empty());
        lines.zero(0..0);
        prefetch_value(&lines[..]);
    }

    #[test]
    fn zero_clears_its_range_only() {
        for (len, range) in
            [(100, 10..20), (100_000, 3..99_999), (100_000, 8192..16384), (100_000, 0..100_000)]
        {
            let mut lines = Lines::<u64>::new(len);
            lines.fill(7);
            lines.zero(range.clone());
            for (index, value) in lines.iter().enumerate() {
                assert_eq!(*value, if range.contains(&index) { 0 } else { 7 }, "{index} of {len}");
            }
        }
    }

    #[test]
    #[should_panic(expected = "range")]
    fn zero_outside_is_a_bug() {
        Lines::<u64>::new(4).zero(2..5);
    }

    #[test]
    #[should_panic(expected = "overflow")]
    fn more_than_the_address_space_is_refused() {
        Lines::<u64>::new(usize::MAX);
    }

    /// A terabyte of address space, one page of memory.
    #[test]
    #[cfg(target_pointer_width = "64")]
    fn untouched_elements_cost_nothing() {
        let mut lines = Lines::<[u64; 8]>::new(1 << 34);
        lines[1 << 33][0] = 1;
        assert_eq!(lines[(1 << 33) - 1][0], 0);
    }
}
