//! Arrays in memory that the kernel zeroes on first touch, prefetching, and vector compares.
//!
//! The only module of this crate with `unsafe` code (decisions 0003 and 0034): typed views of
//! anonymous mappings, the prefetch instruction, comparing all tags of a bucket at once, and memory
//! that other threads read ([`shared_buffer`]).

pub mod shared_buffer;

use core::fmt;
use core::mem::{align_of, align_of_val, needs_drop, size_of, size_of_val};
use core::ops::{Deref, DerefMut, Range};
use core::ptr::NonNull;
use memmap2::{Advice, MmapMut, MmapOptions, UncheckedAdvice};
use zerocopy::FromZeros;

/// Bytes of a cache line that the layouts here assume.
pub const CACHE_LINE: usize = 64;

/// Blocks of this size are returned to the kernel: a multiple of the page size of every supported
/// kernel.
const RELEASE_BLOCK: usize = 64 << 10;

/// The alignment that every mapping has, bytes.
const PAGE: usize = 4096;

/// Mappings of at least this many bytes request huge pages, which save a third of the time of a
/// random access. Smaller ones would only take more memory while they are nearly empty.
const HUGE_PAGES_MIN: usize = 4 << 20;

/// Bytes of a huge page on most systems; elsewhere a mapping is only a little longer than needed.
const HUGE_PAGE: usize = 2 << 20;

/// Returns whether the system would map this many bytes now, as tables do: reserved, not touched.
/// The mapping is removed again.
pub fn can_map(bytes: u64) -> bool {
    let Ok(len) = usize::try_from(bytes) else { return false };
    MmapOptions::new().len(len.max(1)).no_reserve_swap().map_anon().is_ok()
}

/// An array of fixed length in an anonymous mapping: page-aligned, zeroed by the kernel on first
/// touch, so untouched pages take no memory.
pub struct MmapArray<T> {
    first: NonNull<T>,
    len: usize,
    map: MmapMut,
}

// SAFETY: `MmapArray` owns its elements like `Box<[T]>`; the pointer refers to `map` only, which
// may move between threads.
unsafe impl<T: Send> Send for MmapArray<T> {}
// SAFETY: shared references to `MmapArray` give shared references to elements only.
unsafe impl<T: Sync> Sync for MmapArray<T> {}

impl<T: FromZeros> MmapArray<T> {
    /// Creates an array of `len` elements, all zero. Large arrays use huge pages if the kernel has
    /// some.
    ///
    /// # Panics
    /// When the address space can't hold them. Memory is taken when elements are touched, not here.
    pub fn new(len: usize) -> Self {
        let array = Self::map(len, HUGE_PAGES_MIN);
        if array.map.len() >= HUGE_PAGES_MIN {
            // Only advice: without huge pages access is slower.
            let _ = array.map.advise(Advice::HugePage);
        }
        array
    }

    /// Creates an array like [`new`](Self::new), always in small pages: for large arrays that are
    /// touched in few places or rarely.
    ///
    /// # Panics
    /// When the address space can't hold them.
    pub fn with_small_pages(len: usize) -> Self {
        Self::map(len, usize::MAX)
    }

    /// Maps `len` elements. Mappings of at least `huge_min` bytes are a multiple of huge pages, so
    /// the kernel aligns them.
    fn map(len: usize, huge_min: usize) -> Self {
        const {
            assert!(!needs_drop::<T>(), "elements are never dropped");
            assert!(align_of::<T>() <= PAGE, "mappings are aligned to pages only");
        }
        let bytes = len
            .checked_mul(size_of::<T>())
            .expect("the size of the table overflows the address space");
        let mapped =
            if bytes >= huge_min { bytes.next_multiple_of(HUGE_PAGE) } else { bytes.max(1) };
        let mut options = MmapOptions::new();
        options.len(mapped).no_reserve_swap();
        let mut map = match options.map_anon() {
            Ok(map) => map,
            Err(error) => {
                panic!("can't reserve address space for a table of {bytes} bytes: {error}")
            }
        };
        let first = NonNull::new(map.as_mut_ptr()).expect("a mapping has an address").cast();
        MmapArray { first, len, map }
    }

    /// Zeroes a range of elements; whole blocks of 64 KiB are returned to the
    /// kernel.
    ///
    /// # Panics
    /// When the range is outside the array.
    pub fn zero(&mut self, range: Range<usize>) {
        let elements = &self[range.clone()];
        let (start, end) =
            (range.start * size_of::<T>(), range.start * size_of::<T>() + size_of_val(elements));
        let (inner_start, inner_end) =
            (start.next_multiple_of(RELEASE_BLOCK), end / RELEASE_BLOCK * RELEASE_BLOCK);
        // SAFETY: `elements` was exclusively borrowed through `self` and is not used any more; zero
        // bytes are a valid `T` by `FromZeros`. After MADV_DONTNEED a private anonymous mapping
        // reads as zeros.
        let released = inner_start < inner_end
            && unsafe {
                self.map.unchecked_advise_range(
                    UncheckedAdvice::DontNeed,
                    inner_start,
                    inner_end - inner_start,
                )
            }
            .is_ok();
        if released {
            self.map[start..inner_start].fill(0);
            self.map[inner_end..end].fill(0);
        } else {
            self.map[start..end].fill(0);
        }
    }
}

impl<T> MmapArray<T> {
    /// Prefetches the cache lines of an element. Does nothing if there is no such element.
    #[inline(always)]
    pub fn prefetch(&self, index: usize) {
        if let Some(element) = self.get(index) {
            prefetch_value(element);
        }
    }

    /// Returns the bytes of address space reserved, an upper bound of resident memory.
    pub fn memory_bytes(&self) -> usize {
        self.map.len()
    }
}

impl<T> Deref for MmapArray<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: the mapping holds `len` elements from `first`, page-aligned, alive as long as
        // `self`; each is a valid `T`: zeros at first (`FromZeros`), afterwards written through
        // `&mut [T]` only.
        unsafe { core::slice::from_raw_parts(self.first.as_ptr(), self.len) }
    }
}

impl<T> DerefMut for MmapArray<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`, and `self` is borrowed exclusively.
        unsafe { core::slice::from_raw_parts_mut(self.first.as_ptr(), self.len) }
    }
}

impl<T> fmt::Debug for MmapArray<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MmapArray").field("len", &self.len).field("bytes", &self.map.len()).finish()
    }
}

/// Prefetches all cache lines of a value or slice.
#[inline(always)]
pub fn prefetch_value<T: ?Sized>(value: &T) {
    let start = core::ptr::from_ref(value).cast::<u8>();
    // Once per line that the value touches. For values aligned to lines the offset in the first
    // line is known at compile time.
    let line_offset = if align_of_val(value) >= CACHE_LINE { 0 } else { start.addr() % CACHE_LINE };
    let mut offset = 0;
    while offset < size_of_val(value) + line_offset {
        prefetch_line(start.wrapping_add(offset));
        offset += CACHE_LINE;
    }
}

/// Prefetches the first and the last cache line of a slice: all of it if it spans at most two. Has
/// no branch that is hard to predict.
#[inline(always)]
pub fn prefetch_first_last(bytes: &[u8]) {
    let start = bytes.as_ptr();
    prefetch_line(start);
    prefetch_line(start.wrapping_add(bytes.len().saturating_sub(1)));
}

/// Prefetches like [`prefetch_first_last`] into the first-level cache; does nothing for slices of
/// less than 2 bytes.
#[inline(always)]
pub fn prefetch_first_last_l1(bytes: &[u8]) {
    if let [first, .., last] = bytes {
        prefetch_l1(first);
        prefetch_l1(last);
    }
}

/// Prefetches a line into the first-level cache: for few lines that are read soon. Measurements
/// suggest that a processor with many open requests drops prefetches for the outer caches but not
/// these.
#[inline(always)]
pub fn prefetch_l1<T>(line: &T) {
    #[cfg(target_arch = "x86_64")]
    prefetch_to::<{ core::arch::x86_64::_MM_HINT_T0 }>(core::ptr::from_ref(line).cast());
    #[cfg(not(target_arch = "x86_64"))]
    prefetch_line(core::ptr::from_ref(line).cast());
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn prefetch_to<const CACHE: i32>(line: *const u8) {
    // SAFETY: a prefetch has no effect that the program can observe and never faults, whatever the
    // address.
    unsafe { core::arch::x86_64::_mm_prefetch::<CACHE>(line.cast()) }
}

#[inline(always)]
fn prefetch_line(line: *const u8) {
    #[cfg(target_arch = "x86_64")]
    prefetch_to::<{ core::arch::x86_64::_MM_HINT_T1 }>(line);
    #[cfg(target_arch = "aarch64")]
    // SAFETY: a prefetch has no effect that the program can observe and never faults, whatever the
    // address.
    unsafe {
        core::arch::asm!(
            "prfm pldl1keep, [{}]",
            in(reg) line,
            options(nostack, readonly, preserves_flags)
        );
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = line;
}

/// Returns one bit per element equal to `target`, the first element in the lowest bit.
#[inline(always)]
pub(crate) fn eq_mask_u16x10(values: &[u16; 10], target: u16) -> u32 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the loads read 16 bytes and 4 of the 20 of `values`, unaligned; SSE2 is part of the
    // x86-64 baseline.
    unsafe {
        use core::arch::x86_64::*;
        let start = values.as_ptr();
        let target = _mm_set1_epi16(target as i16);
        let first = _mm_cmpeq_epi16(_mm_loadu_si128(start.cast()), target);
        // The 12 bytes after the last two elements are zero.
        let last = _mm_cmpeq_epi16(_mm_loadu_si32(start.add(8).cast()), target);
        // One byte per element.
        _mm_movemask_epi8(_mm_packs_epi16(first, last)) as u32 & 0x3ff
    }
    #[cfg(not(target_arch = "x86_64"))]
    values.iter().rev().fold(0, |mask, value| mask << 1 | u32::from(*value == target))
}

/// Returns one bit per element equal to `target`, the first element in the lowest bit.
#[inline(always)]
pub(crate) fn eq_mask_u8x8(bytes: &[u8; 8], target: u8) -> u32 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the load reads the 8 bytes, unaligned; SSE2 is part of the x86-64 baseline.
    unsafe {
        use core::arch::x86_64::*;
        let equal =
            _mm_cmpeq_epi8(_mm_loadl_epi64(bytes.as_ptr().cast()), _mm_set1_epi8(target as i8));
        // The upper 8 bytes of the register are zero.
        _mm_movemask_epi8(equal) as u32 & 0xff
    }
    #[cfg(not(target_arch = "x86_64"))]
    bytes.iter().rev().fold(0, |mask, byte| mask << 1 | u32::from(*byte == target))
}

/// Returns whether every piece of `a` equals that of `b`.
#[inline(always)]
pub(crate) fn eq_pieces(a: [&[u8; 16]; 4], b: [&[u8; 16]; 4]) -> bool {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: each load reads 16 bytes, unaligned, all of a piece; SSE2 is part of the x86-64
    // baseline.
    unsafe {
        use core::arch::x86_64::*;
        let load = |piece: &[u8; 16]| _mm_loadu_si128(piece.as_ptr().cast());
        let equal = |at: usize| _mm_cmpeq_epi8(load(a[at]), load(b[at]));
        let all =
            _mm_and_si128(_mm_and_si128(equal(0), equal(1)), _mm_and_si128(equal(2), equal(3)));
        _mm_movemask_epi8(all) == 0xffff
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let difference = |at: usize| u128::from_ne_bytes(*a[at]) ^ u128::from_ne_bytes(*b[at]);
        difference(0) | difference(1) | difference(2) | difference(3) == 0
    }
}

/// Returns one bit per element equal to `target`, the first element in the lowest bit.
#[inline(always)]
pub(crate) fn eq_mask_u32x10(values: &[u32; 10], target: u32) -> u32 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: each load reads 16 bytes of the 40 of `values`, unaligned; SSE2 is part of the x86-64
    // baseline.
    unsafe {
        use core::arch::x86_64::*;
        let start = values.as_ptr();
        let target = _mm_set1_epi32(target as i32);
        let equal = |at: usize| _mm_cmpeq_epi32(_mm_loadu_si128(start.add(at).cast()), target);
        // 16 bits per element for the first eight; the last two are the upper half of the last
        // load.
        let first = _mm_movemask_epi8(_mm_packs_epi16(
            _mm_packs_epi32(equal(0), equal(4)),
            _mm_setzero_si128(),
        ));
        let last = _mm_movemask_ps(_mm_castsi128_ps(equal(6)));
        first as u32 | (last as u32 >> 2) << 8
    }
    #[cfg(not(target_arch = "x86_64"))]
    values.iter().rev().fold(0, |mask, value| mask << 1 | u32::from(*value == target))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn array_new_is_zero_and_keeps_writes() {
        let mut array = MmapArray::<[u64; 8]>::new(1000);
        assert_eq!(array.len(), 1000);
        assert!(array.iter().all(|line| *line == [0; 8]));
        assert_eq!(array.as_ptr().addr() % CACHE_LINE, 0);
        array[999][7] = 5;
        array.prefetch(999);
        array.prefetch(usize::MAX);
        assert_eq!(array[999][7], 5);
    }

    #[test]
    fn eq_mask_any_position_sets_its_bit() {
        for position in 0..10 {
            let mut values = [0x8000_0003; 10];
            values[position] = 0x8003;
            assert_eq!(eq_mask_u32x10(&values, 0x8003), 1 << position);
            assert_eq!(eq_mask_u32x10(&values, 0x8000_0003), 0x3ff & !(1 << position));
            let mut values = [0x8003; 10];
            values[position] = 0x03;
            assert_eq!(eq_mask_u16x10(&values, 0x03), 1 << position);
            assert_eq!(eq_mask_u16x10(&values, 0x8003), 0x3ff & !(1 << position));
            assert_eq!((eq_mask_u16x10(&values, 0x80), eq_mask_u16x10(&values, 0)), (0, 0));
            values[position] = 0;
            assert_eq!(eq_mask_u16x10(&values, 0), 1 << position);
        }
        for position in 0..8 {
            let mut bytes = [0x83; 8];
            bytes[position] = 0x03;
            assert_eq!(eq_mask_u8x8(&bytes, 0x03), 1 << position);
            assert_eq!(eq_mask_u8x8(&bytes, 0x83), 0xff & !(1 << position));
            assert_eq!(eq_mask_u8x8(&bytes, 0), 0);
            bytes[position] = 0;
            assert_eq!(eq_mask_u8x8(&bytes, 0), 1 << position);
        }
    }

    #[test]
    fn array_empty_is_valid() {
        let mut array = MmapArray::<u64>::new(0);
        assert!(array.is_empty());
        array.zero(0..0);
        prefetch_value(&array[..]);
    }

    #[test]
    fn zero_range_clears_only_range() {
        for (len, range) in
            [(100, 10..20), (100_000, 3..99_999), (100_000, 8192..16384), (100_000, 0..100_000)]
        {
            let mut array = MmapArray::<u64>::new(len);
            array.fill(7);
            array.zero(range.clone());
            for (index, value) in array.iter().enumerate() {
                assert_eq!(*value, if range.contains(&index) { 0 } else { 7 }, "{index} of {len}");
            }
        }
    }

    #[test]
    #[should_panic(expected = "range")]
    fn zero_out_of_range_panics() {
        MmapArray::<u64>::new(4).zero(2..5);
    }

    #[test]
    #[should_panic(expected = "overflow")]
    fn array_larger_than_address_space_panics() {
        MmapArray::<u64>::new(usize::MAX);
    }

    /// A terabyte of address space, one page of memory.
    #[test]
    #[cfg(target_pointer_width = "64")]
    fn array_untouched_pages_take_no_memory() {
        let mut array = MmapArray::<[u64; 8]>::new(1 << 34);
        array[1 << 33][0] = 1;
        assert_eq!(array[(1 << 33) - 1][0], 0);
    }
}
