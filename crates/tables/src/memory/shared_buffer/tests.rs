//! Tests of leases: what the owner may write, and how leases end, on one and several threads.

use super::*;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

const BLOCK: usize = 4096;
const LEN: usize = 4 * BLOCK + 64;

fn memory() -> SharedBuffer<BLOCK> {
    let mut memory = SharedBuffer::new(LEN);
    for (at, byte) in memory.write(0..LEN).iter_mut().enumerate() {
        *byte = pattern(at);
    }
    memory
}

fn pattern(at: usize) -> u8 {
    (at % 251) as u8
}

fn is_pattern(bytes: &[u8], from: usize) -> bool {
    bytes.iter().enumerate().all(|(at, byte)| *byte == pattern(from + at))
}

fn may_write(memory: &mut SharedBuffer<BLOCK>, range: Range<usize>) -> bool {
    catch_unwind(AssertUnwindSafe(|| memory.write(range).len())).is_ok()
}

#[test]
fn write_next_to_lease_leaves_leased_bytes() {
    let mut memory = memory();
    let leases = [(0, 100..200), (0, 300..300), (1, BLOCK..2 * BLOCK)].map(|(block, range)| {
        let start = range.start;
        (start, memory.lease(block, range))
    });
    thread::scope(|scope| {
        let reading = scope.spawn(|| {
            for _ in 0..200 {
                assert!(leases.iter().all(|(start, lease)| is_pattern(lease, *start)));
            }
        });
        for turn in 0..200u8 {
            memory.write(0..100).fill(turn);
            memory.write(200..BLOCK).fill(turn);
            memory.copy_within(0..64, 2 * BLOCK);
            memory.write_blocks([3, 2]).into_iter().for_each(|block| block.fill(turn));
            assert_eq!((memory[99], memory[100], memory[2 * BLOCK]), (turn, pattern(100), turn));
        }
        reading.join().unwrap();
    });
}

#[test]
fn write_leased_bytes_panics() {
    let mut memory = memory();
    let lease = memory.lease(1, BLOCK + 10..BLOCK + 20);
    for range in [
        BLOCK + 10..BLOCK + 11,
        BLOCK + 19..BLOCK + 30,
        0..LEN,
        BLOCK..BLOCK + 11,
        BLOCK + 12..BLOCK + 13,
    ] {
        assert!(!may_write(&mut memory, range.clone()), "{range:?}");
    }
    for range in
        [BLOCK..BLOCK + 10, BLOCK + 20..2 * BLOCK, BLOCK + 15..BLOCK + 15, 0..BLOCK, 2 * BLOCK..LEN]
    {
        assert!(may_write(&mut memory, range.clone()), "{range:?}");
    }
    let mut fails = |act: &mut dyn FnMut(&mut SharedBuffer<BLOCK>)| {
        assert!(catch_unwind(AssertUnwindSafe(|| act(&mut memory))).is_err());
    };
    fails(&mut |memory| _ = memory.write_blocks([0, 1]).len());
    fails(&mut |memory| memory.copy_within(0..100, BLOCK));
    fails(&mut |memory| _ = memory.write_blocks([0, 2, 0]).len());
    assert!(is_pattern(&lease, BLOCK + 10));
    // The owner may read leased bytes and copy from them.
    memory.copy_within(BLOCK + 10..BLOCK + 20, 0);
    assert_eq!(memory[..10], lease[..]);
}

#[test]
fn write_or_lease_out_of_range_panics() {
    let mut memory = memory();
    let mut lease = None;
    for _ in 0..2 {
        #[expect(clippy::reversed_empty_ranges, reason = "refused too")]
        for range in [0..LEN + 1, LEN + 1..LEN + 1, 8..7, usize::MAX - 1..usize::MAX] {
            assert!(!may_write(&mut memory, range.clone()), "{range:?}");
        }
        for (block, range) in [
            (0, 0..BLOCK + 1),
            (1, 0..1),
            (4, 4 * BLOCK..4 * BLOCK),
            (0, BLOCK + 1..BLOCK + 1),
            (5, 0..0),
        ] {
            let leased = catch_unwind(AssertUnwindSafe(|| memory.lease(block, range.clone())));
            assert!(leased.is_err(), "{block} {range:?}");
        }
        lease.get_or_insert_with(|| memory.lease(0, BLOCK..BLOCK));
    }
    assert!(lease.is_some_and(|lease| lease.is_empty()));
}

#[test]
fn write_after_last_lease_released_succeeds() {
    let mut memory = memory();
    let leases: Vec<_> =
        (0..5).map(|at| memory.lease(2, 2 * BLOCK + at..2 * BLOCK + 100)).collect();
    let other = memory.lease(0, 0..BLOCK);
    // Not in the order in which they were created.
    for (at, lease) in leases.into_iter().enumerate().rev().collect::<Vec<_>>() {
        assert!(!may_write(&mut memory, 2 * BLOCK + 50..2 * BLOCK + 51), "{at}");
        assert_eq!(memory.release(lease), 2);
    }
    assert!(may_write(&mut memory, 2 * BLOCK..3 * BLOCK) && memory.has_leases());
    assert_eq!(memory.release(other), 0);
    assert!(!memory.has_leases() && may_write(&mut memory, 0..LEN));
}

#[test]
fn release_reuses_lease_records() {
    let mut memory = memory();
    for _ in 0..100 {
        let leases: Vec<_> =
            (0..8).map(|at| memory.lease(at % 4, at % 4 * BLOCK..at % 4 * BLOCK + 9)).collect();
        leases.into_iter().for_each(|lease| _ = memory.release(lease));
    }
    assert_eq!((memory.leases.len(), memory.free_leases.len()), (8, 8));
}

#[test]
fn lease_of_panicked_thread_is_dropped() {
    let mut memory = memory();
    let (lost, kept) = (memory.lease(1, BLOCK..BLOCK + 9), memory.lease(1, BLOCK + 9..BLOCK + 19));
    let died = thread::spawn(move || panic!("with {} bytes", lost.len())).join();
    assert!(died.is_err());
    assert!(
        !may_write(&mut memory, BLOCK..BLOCK + 9),
        "the lease ends when the owner polls for it"
    );
    assert_eq!((memory.next_dropped(), memory.next_dropped()), (Some(1), None));
    assert!(
        may_write(&mut memory, BLOCK..BLOCK + 9) && !may_write(&mut memory, BLOCK + 18..BLOCK + 20)
    );
    drop(kept);
    assert_eq!((memory.next_dropped(), memory.has_leases()), (Some(1), false));
}

#[test]
fn lease_outlives_buffer() {
    let mut owner = memory();
    let leases = [owner.lease(0, 7..BLOCK), owner.lease(3, 3 * BLOCK..4 * BLOCK)];
    let (owner_is_gone, wait) = std::sync::mpsc::channel();
    let reading = thread::spawn(move || {
        wait.recv().unwrap();
        assert!(is_pattern(&leases[0], 7) && is_pattern(&leases[1], 3 * BLOCK));
    });
    drop(owner);
    // Would reuse the memory if it had been unmapped by mistake.
    let other = SharedBuffer::<BLOCK>::new(LEN);
    owner_is_gone.send(()).unwrap();
    reading.join().unwrap();
    assert!(other.iter().all(|byte| *byte == 0));
}

#[test]
fn release_other_buffers_lease_panics() {
    let (mut ours, mut theirs) = (memory(), memory());
    let (lease, other) = (ours.lease(0, 0..9), theirs.lease(0, 0..9));
    assert!(catch_unwind(AssertUnwindSafe(|| ours.release(other))).is_err());
    assert!(!may_write(&mut ours, 0..9) && ours.next_dropped().is_none());
    assert_eq!(theirs.next_dropped(), Some(0), "its own buffer is notified");
    assert_eq!(ours.release(lease), 0);
}

#[test]
fn lease_leaked_bytes_stay_protected() {
    let mut memory = memory();
    core::mem::forget(memory.lease(0, 0..9));
    assert!(memory.next_dropped().is_none() && !may_write(&mut memory, 8..9));
}
