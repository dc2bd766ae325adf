use super::*;
use proptest::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

const KEY: HashKey = HashKey::new([1, 2, 3, 4]);

fn pool(chunks_max: usize) -> Pool {
    Pool::new(KEY, chunks_max, 64)
}

/// A chunk that was received into, with packets of these lengths back to back, each of octets of its own.
fn received(pool: &mut Pool, lens: &[usize]) -> Vec<Packet> {
    let chunk = pool.take_chunk().expect("a chunk");
    let mut start = 0;
    let packets = lens.iter().zip(1u8..).map(|(len, mark)| {
        pool.chunk_bytes_mut(&chunk)[start..start + len].fill(mark);
        start += len;
        pool.packet_in(&chunk, start - len..start).expect("a packet")
    });
    let packets = packets.collect();
    pool.release_chunk(chunk);
    packets
}

fn release_all(pool: &mut Pool, packets: Vec<Packet>) {
    packets.into_iter().for_each(|packet| pool.release(packet));
}

fn is_all(octets: &[u8], mark: u8) -> bool {
    octets.iter().all(|octet| *octet == mark)
}

#[test]
fn a_chunk_is_kept_until_its_loans_have_ended() {
    let mut pool = pool(1);
    let packets = received(&mut pool, &[1000, 0, CHUNK_LEN - 1000, 0]);
    let loans: Vec<_> = packets.iter().map(|packet| pool.lend(packet)).collect();
    release_all(&mut pool, packets);
    assert_eq!((pool.packets_in_use(), pool.chunks_in_use()), (0, 1));
    assert!(loans.iter().map(|loan| loan.len()).eq([1000, 0, CHUNK_LEN - 1000, 0]));
    for loan in loans {
        assert!(pool.take_chunk().is_none() && pool.alloc(1).is_none(), "the only chunk is lent");
        pool.end_loan(loan);
    }
    assert_eq!(pool.chunks_in_use(), 0);
    let again = received(&mut pool, &[CHUNK_LEN]);
    release_all(&mut pool, again);
}

#[test]
fn a_loan_that_ends_before_its_packet_leaves_it_as_it_was() {
    let mut pool = pool(1);
    let packets = received(&mut pool, &[500]);
    let loan = pool.lend(&packets[0]);
    pool.end_loan(loan);
    pool.bytes_mut(&packets[0])[0] = 9;
    assert_eq!((pool.bytes(&packets[0])[0], pool.chunks_in_use()), (9, 1));
    release_all(&mut pool, packets);
    assert_eq!(pool.chunks_in_use(), 0);
}

#[test]
fn threads_that_die_with_loans_give_the_chunks_back() {
    let mut pool = pool(3);
    for round in 0..20 {
        let lent: Vec<Vec<Loan>> = (0..3)
            .map(|_| {
                let packets = received(&mut pool, &[100, 200]);
                let loans = packets.iter().map(|packet| pool.lend(packet)).collect();
                release_all(&mut pool, packets);
                loans
            })
            .collect();
        let dead = lent.into_iter().map(|loans| {
            thread::spawn(move || {
                assert!(is_all(&loans[0], 1) && loans[1].len() < 200, "it dies here");
            })
        });
        assert!(dead.map(thread::JoinHandle::join).all(|end| end.is_err()), "{round}");
        assert_eq!(pool.chunks_in_use(), 3, "not noticed yet");
    }
    let chunk = pool.take_chunk().expect("all are back");
    pool.release_chunk(chunk);
    assert_eq!(pool.chunks_in_use(), 0);
}

#[test]
fn loans_outlive_the_pool() {
    let mut pool = pool(4);
    let packets: Vec<_> = (0..3).flat_map(|_| received(&mut pool, &[8000, 8000, 100])).collect();
    let loans: Vec<_> = packets.iter().map(|packet| pool.lend(packet)).collect();
    release_all(&mut pool, packets);
    let (is_gone, wait) = std::sync::mpsc::channel();
    let reader = thread::spawn(move || {
        wait.recv().unwrap();
        assert!(loans.iter().zip([1, 2, 3].iter().cycle()).all(|(loan, mark)| is_all(loan, *mark)));
    });
    drop(pool);
    is_gone.send(()).unwrap();
    reader.join().unwrap();
}

#[test]
fn what_is_beside_a_loan_in_its_chunk_is_used_as_ever() {
    let mut pool = pool(4);
    let data = pool.copy_of(&[7; 300]).expect("a buffer");
    let interest = pool.copy_of(&[8; 50]).expect("a buffer");
    pool.meta_mut(&interest).kind = Kind::Interest;
    let loan = pool.lend(&data);
    pool.bytes_mut(&interest)[3] = 9;
    let twin = pool.twin(&interest).expect("a buffer");
    pool.bytes_mut(&twin)[4] = 10;
    assert_eq!(pool.bytes(&interest)[..6], [8, 8, 8, 9, 8, 8]);
    assert_eq!(pool.bytes(&twin)[..6], [8, 8, 8, 9, 10, 8]);
    let ticket = pool.keep_announcement_in(&data, 0..10);
    let announcement = pool.announcement_packet(ticket).expect("kept");
    assert_eq!((pool.bytes(&announcement), &loan[..]), (&[7; 10][..], &[7; 300][..]));
    let others = received(&mut pool, &[CHUNK_LEN]);
    let three = [(); 2].map(|()| pool.take_chunk().expect("a chunk"));
    pool.chunks_bytes_mut(&three).into_iter().for_each(|chunk| chunk.fill(1));
    assert!(is_all(&loan, 7));
    three.into_iter().for_each(|chunk| pool.release_chunk(chunk));
    release_all(&mut pool, others);
    release_all(&mut pool, vec![data, interest, twin, announcement]);
    pool.end_loan(loan);
    assert_eq!(pool.chunks_in_use(), 1, "that which packets made here are written to");
}

#[test]
fn what_is_lent_is_not_written_through_any_packet() {
    let mut pool = pool(2);
    let chunk = pool.take_chunk().expect("a chunk");
    let [data, overlapping] = [0..100, 90..200].map(|range| pool.packet_in(&chunk, range).expect("a packet"));
    let shared = pool.share(&data).expect("a packet");
    let loan = pool.lend(&data);
    pool.narrow(&data, 10..20);
    for packet in [&data, &shared, &overlapping] {
        assert!(catch_unwind(AssertUnwindSafe(|| pool.bytes_mut(packet).len())).is_err());
    }
    assert!(catch_unwind(AssertUnwindSafe(|| pool.chunk_bytes_mut(&chunk).len())).is_err());
    assert_eq!((loan.len(), pool.bytes(&data).len()), (100, 10));
    pool.end_loan(loan);
    pool.chunk_bytes_mut(&chunk).fill(3);
    pool.release_chunk(chunk);
    release_all(&mut pool, vec![data, shared, overlapping]);
    assert_eq!(pool.chunks_in_use(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever is received, written, ended and lost meanwhile: what is lent stays as it was, and all chunks come back.
    #[test]
    fn loans_stay_as_they_were(steps in proptest::collection::vec((0u8..8, 0usize..64, 0usize..20_000), 1..300)) {
        let mut pool = pool(6);
        let (mut packets, mut loans) = (Vec::<Packet>::new(), Vec::<(Loan, Vec<u8>)>::new());
        for (number, (step, at, len)) in steps.into_iter().enumerate() {
            match step {
                0 | 1 => {
                    let packet = pool.alloc(len);
                    if let Some(packet) = packet {
                        pool.bytes_mut(&packet).fill(number as u8);
                        packets.push(packet);
                    }
                }
                2 if pool.chunks_in_use() < 6 && packets.len() + 2 <= 64 => {
                    if let Some(chunk) = pool.take_chunk() {
                        pool.chunk_bytes_mut(&chunk).fill(number as u8);
                        packets.extend(pool.packet_in(&chunk, 0..len));
                        packets.extend(pool.packet_in(&chunk, len..CHUNK_LEN));
                        pool.release_chunk(chunk);
                    }
                }
                3 | 4 if !packets.is_empty() => {
                    let packet = &packets[at % packets.len()];
                    let octets = pool.bytes(packet).to_vec();
                    loans.push((pool.lend(packet), octets));
                }
                5 if !packets.is_empty() => pool.release(packets.swap_remove(at % packets.len())),
                6 if !loans.is_empty() => pool.end_loan(loans.swap_remove(at % loans.len()).0),
                7 if !loans.is_empty() => drop(loans.swap_remove(at % loans.len())),
                _ => {}
            }
            prop_assert!(loans.iter().all(|(loan, octets)| loan[..] == octets[..]));
        }
        release_all(&mut pool, packets);
        loans.into_iter().for_each(|(loan, _)| pool.end_loan(loan));
        let chunk = pool.take_chunk().expect("none is lent");
        pool.release_chunk(chunk);
        prop_assert!(pool.chunks_in_use() <= 1, "at most the one that packets made here are written to");
    }
}

#[test]
fn what_is_too_long_leaves_the_chunk_being_filled() {
    let mut pool = pool(2);
    let first = pool.alloc(100).expect("room");
    assert!(pool.alloc(CHUNK_LEN + 1).is_none());
    let second = pool.alloc(CHUNK_LEN - 100).expect("the rest of the chunk");
    assert_eq!(pool.chunks_in_use(), 1);
    let third = pool.alloc(1).expect("another chunk");
    assert_eq!(pool.chunks_in_use(), 2);
    release_all(&mut pool, vec![first, second, third]);
    let whole = pool.alloc(CHUNK_LEN).expect("the first chunk is free again");
    pool.release(whole);
}
