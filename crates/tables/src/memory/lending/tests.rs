use super::*;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

const BLOCK: usize = 4096;
const LEN: usize = 4 * BLOCK + 64;

fn memory() -> Lendable<BLOCK> {
    let mut memory = Lendable::new(LEN);
    for (at, octet) in memory.write(0..LEN).iter_mut().enumerate() {
        *octet = pattern(at);
    }
    memory
}

fn pattern(at: usize) -> u8 {
    (at % 251) as u8
}

fn is_pattern(octets: &[u8], from: usize) -> bool {
    octets.iter().enumerate().all(|(at, octet)| *octet == pattern(from + at))
}

fn may_write(memory: &mut Lendable<BLOCK>, range: Range<usize>) -> bool {
    catch_unwind(AssertUnwindSafe(|| memory.write(range).len())).is_ok()
}

#[test]
fn what_is_beside_a_loan_is_written_while_another_thread_reads() {
    let mut memory = memory();
    let loans = [(0, 100..200), (0, 300..300), (1, BLOCK..2 * BLOCK)].map(|(block, range)| {
        let start = range.start;
        (start, memory.lend(block, range))
    });
    thread::scope(|scope| {
        let reading = scope.spawn(|| {
            for _ in 0..200 {
                assert!(loans.iter().all(|(start, loan)| is_pattern(loan, *start)));
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
fn what_is_lent_is_not_written_by_any_way() {
    let mut memory = memory();
    let loan = memory.lend(1, BLOCK + 10..BLOCK + 20);
    for range in
        [BLOCK + 10..BLOCK + 11, BLOCK + 19..BLOCK + 30, 0..LEN, BLOCK..BLOCK + 11, BLOCK + 12..BLOCK + 13]
    {
        assert!(!may_write(&mut memory, range.clone()), "{range:?}");
    }
    for range in [BLOCK..BLOCK + 10, BLOCK + 20..2 * BLOCK, BLOCK + 15..BLOCK + 15, 0..BLOCK, 2 * BLOCK..LEN]
    {
        assert!(may_write(&mut memory, range.clone()), "{range:?}");
    }
    let mut fails = |act: &mut dyn FnMut(&mut Lendable<BLOCK>)| {
        assert!(catch_unwind(AssertUnwindSafe(|| act(&mut memory))).is_err());
    };
    fails(&mut |memory| _ = memory.write_blocks([0, 1]).len());
    fails(&mut |memory| memory.copy_within(0..100, BLOCK));
    fails(&mut |memory| _ = memory.write_blocks([0, 2, 0]).len());
    assert!(is_pattern(&loan, BLOCK + 10));
    // What is lent is read by the owner too, and copied from.
    memory.copy_within(BLOCK + 10..BLOCK + 20, 0);
    assert_eq!(memory[..10], loan[..]);
}

#[test]
fn places_outside_are_refused_with_and_without_loans() {
    let mut memory = memory();
    let mut loan = None;
    for _ in 0..2 {
        #[expect(clippy::reversed_empty_ranges, reason = "refused too")]
        for range in [0..LEN + 1, LEN + 1..LEN + 1, 8..7, usize::MAX - 1..usize::MAX] {
            assert!(!may_write(&mut memory, range.clone()), "{range:?}");
        }
        for (block, range) in
            [(0, 0..BLOCK + 1), (1, 0..1), (4, 4 * BLOCK..4 * BLOCK), (0, BLOCK + 1..BLOCK + 1), (5, 0..0)]
        {
            let lent = catch_unwind(AssertUnwindSafe(|| memory.lend(block, range.clone())));
            assert!(lent.is_err(), "{block} {range:?}");
        }
        loan.get_or_insert_with(|| memory.lend(0, BLOCK..BLOCK));
    }
    assert!(loan.is_some_and(|loan| loan.is_empty()));
}

#[test]
fn octets_are_free_again_when_the_last_of_their_loans_has_ended() {
    let mut memory = memory();
    let loans: Vec<_> = (0..5).map(|at| memory.lend(2, 2 * BLOCK + at..2 * BLOCK + 100)).collect();
    let other = memory.lend(0, 0..BLOCK);
    // Not in the order in which they were made.
    for (at, loan) in loans.into_iter().enumerate().rev().collect::<Vec<_>>() {
        assert!(!may_write(&mut memory, 2 * BLOCK + 50..2 * BLOCK + 51), "{at}");
        assert_eq!(memory.end(loan), 2);
    }
    assert!(may_write(&mut memory, 2 * BLOCK..3 * BLOCK) && memory.is_lent());
    assert_eq!(memory.end(other), 0);
    assert!(!memory.is_lent() && may_write(&mut memory, 0..LEN));
}

#[test]
fn places_of_loans_are_used_again() {
    let mut memory = memory();
    for _ in 0..100 {
        let loans: Vec<_> =
            (0..8).map(|at| memory.lend(at % 4, at % 4 * BLOCK..at % 4 * BLOCK + 9)).collect();
        loans.into_iter().for_each(|loan| _ = memory.end(loan));
    }
    assert_eq!((memory.loans.len(), memory.loans_free.len()), (8, 8));
}

#[test]
fn a_loan_that_a_dying_thread_had_ends_with_it() {
    let mut memory = memory();
    let (lost, kept) = (memory.lend(1, BLOCK..BLOCK + 9), memory.lend(1, BLOCK + 9..BLOCK + 19));
    let died = thread::spawn(move || panic!("with {} octets", lost.len())).join();
    assert!(died.is_err());
    assert!(!may_write(&mut memory, BLOCK..BLOCK + 9), "not before the owner has looked");
    assert_eq!((memory.next_ended(), memory.next_ended()), (Some(1), None));
    assert!(may_write(&mut memory, BLOCK..BLOCK + 9) && !may_write(&mut memory, BLOCK + 18..BLOCK + 20));
    drop(kept);
    assert_eq!((memory.next_ended(), memory.is_lent()), (Some(1), false));
}

#[test]
fn a_loan_outlives_its_owner() {
    let mut owner = memory();
    let loans = [owner.lend(0, 7..BLOCK), owner.lend(3, 3 * BLOCK..4 * BLOCK)];
    let (owner_is_gone, wait) = std::sync::mpsc::channel();
    let reading = thread::spawn(move || {
        wait.recv().unwrap();
        assert!(is_pattern(&loans[0], 7) && is_pattern(&loans[1], 3 * BLOCK));
    });
    drop(owner);
    // Memory that takes the place of what was given back by mistake.
    let other = Lendable::<BLOCK>::new(LEN);
    owner_is_gone.send(()).unwrap();
    reading.join().unwrap();
    assert!(other.iter().all(|octet| *octet == 0));
}

#[test]
fn a_loan_goes_back_to_its_own_memory_only() {
    let (mut ours, mut theirs) = (memory(), memory());
    let (loan, other) = (ours.lend(0, 0..9), theirs.lend(0, 0..9));
    assert!(catch_unwind(AssertUnwindSafe(|| ours.end(other))).is_err());
    assert!(!may_write(&mut ours, 0..9) && ours.next_ended().is_none());
    assert_eq!(theirs.next_ended(), Some(0), "whose it is learns that it ended");
    assert_eq!(ours.end(loan), 0);
}

#[test]
fn a_loan_that_never_ends_is_never_written() {
    let mut memory = memory();
    core::mem::forget(memory.lend(0, 0..9));
    assert!(memory.next_ended().is_none() && !may_write(&mut memory, 8..9));
}
