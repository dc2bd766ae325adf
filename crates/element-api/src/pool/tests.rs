use super::*;
use proptest::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

const KEY: HashKey = HashKey::new([1, 2, 3, 4]);

fn pool(chunks_max: usize) -> Pool {
    Pool::new(KEY, chunks_max, 64)
}

/// A received chunk with packets of these lengths back to back, each filled with its own number.
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

fn is_all(bytes: &[u8], mark: u8) -> bool {
    bytes.iter().all(|byte| *byte == mark)
}

#[test]
fn chunk_with_leases_is_not_reused() {
    let mut pool = pool(1);
    let packets = received(&mut pool, &[1000, 0, CHUNK_LEN - 1000, 0]);
    let leases: Vec<_> = packets.iter().map(|packet| pool.lease(packet)).collect();
    release_all(&mut pool, packets);
    assert_eq!((pool.packets_in_use(), pool.chunks_in_use()), (0, 1));
    assert!(leases.iter().map(|lease| lease.len()).eq([1000, 0, CHUNK_LEN - 1000, 0]));
    for lease in leases {
        assert!(pool.take_chunk().is_none() && pool.alloc(1).is_none(), "the only chunk is erased");
        pool.end_lease(lease);
    }
    assert_eq!(pool.chunks_in_use(), 0);
    let again = received(&mut pool, &[CHUNK_LEN]);
    release_all(&mut pool, again);
}

#[test]
fn ended_lease_leaves_packet_writable() {
    let mut pool = pool(1);
    let packets = received(&mut pool, &[500]);
    let lease = pool.lease(&packets[0]);
    pool.end_lease(lease);
    pool.bytes_mut(&packets[0])[0] = 9;
    assert_eq!((pool.bytes(&packets[0])[0], pool.chunks_in_use()), (9, 1));
    release_all(&mut pool, packets);
    assert_eq!(pool.chunks_in_use(), 0);
}

#[test]
fn leases_of_panicked_threads_are_collected() {
    let mut pool = pool(3);
    for round in 0..20 {
        let erased: Vec<Vec<ReadLease>> = (0..3)
            .map(|_| {
                let packets = received(&mut pool, &[100, 200]);
                let leases = packets.iter().map(|packet| pool.lease(packet)).collect();
                release_all(&mut pool, packets);
                leases
            })
            .collect();
        let dead = erased.into_iter().map(|leases| {
            thread::spawn(move || {
                assert!(is_all(&leases[0], 1) && leases[1].len() < 200, "it dies here");
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
fn leases_outlive_the_pool() {
    let mut pool = pool(4);
    let packets: Vec<_> = (0..3).flat_map(|_| received(&mut pool, &[8000, 8000, 100])).collect();
    let leases: Vec<_> = packets.iter().map(|packet| pool.lease(packet)).collect();
    release_all(&mut pool, packets);
    let (is_gone, wait) = std::sync::mpsc::channel();
    let reader = thread::spawn(move || {
        wait.recv().unwrap();
        assert!(
            leases.iter().zip([1, 2, 3].iter().cycle()).all(|(lease, mark)| is_all(lease, *mark))
        );
    });
    drop(pool);
    is_gone.send(()).unwrap();
    reader.join().unwrap();
}

#[test]
fn chunk_with_leased_packet_allows_writing_other_packets() {
    let mut pool = pool(4);
    let data = pool.copy_of(&[7; 300]).expect("a buffer");
    let interest = pool.copy_of(&[8; 50]).expect("a buffer");
    pool.meta_mut(&interest).kind = Kind::Interest;
    let lease = pool.lease(&data);
    pool.bytes_mut(&interest)[3] = 9;
    let copy = pool.duplicate(&interest).expect("a buffer");
    pool.bytes_mut(&copy)[4] = 10;
    assert_eq!(pool.bytes(&interest)[..6], [8, 8, 8, 9, 8, 8]);
    assert_eq!(pool.bytes(&copy)[..6], [8, 8, 8, 9, 10, 8]);
    let announcement = pool.keep_announcement_in(&data, 0..10);
    let announcement = pool.announcement_packet(announcement).expect("kept");
    assert_eq!((pool.bytes(&announcement), &lease[..]), (&[7; 10][..], &[7; 300][..]));
    let others = received(&mut pool, &[CHUNK_LEN]);
    let three = [(); 2].map(|()| pool.take_chunk().expect("a chunk"));
    pool.chunks_bytes_mut(&three).into_iter().for_each(|chunk| chunk.fill(1));
    assert!(is_all(&lease, 7));
    three.into_iter().for_each(|chunk| pool.release_chunk(chunk));
    release_all(&mut pool, others);
    release_all(&mut pool, vec![data, interest, copy, announcement]);
    pool.end_lease(lease);
    assert_eq!(pool.chunks_in_use(), 1, "that which packets made here are written to");
}

#[test]
fn writing_leased_bytes_panics() {
    let mut pool = pool(2);
    let chunk = pool.take_chunk().expect("a chunk");
    let [data, overlapping] =
        [0..100, 90..200].map(|range| pool.packet_in(&chunk, range).expect("a packet"));
    let shared = pool.clone_shallow(&data).expect("a packet");
    let lease = pool.lease(&data);
    pool.narrow(&data, 10..20);
    for packet in [&data, &shared, &overlapping] {
        assert!(catch_unwind(AssertUnwindSafe(|| pool.bytes_mut(packet).len())).is_err());
    }
    assert!(catch_unwind(AssertUnwindSafe(|| pool.chunk_bytes_mut(&chunk).len())).is_err());
    assert_eq!((lease.len(), pool.bytes(&data).len()), (100, 10));
    pool.end_lease(lease);
    pool.chunk_bytes_mut(&chunk).fill(3);
    pool.release_chunk(chunk);
    release_all(&mut pool, vec![data, shared, overlapping]);
    assert_eq!(pool.chunks_in_use(), 0);
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 60,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Whatever is received, written, ended and lost meanwhile, leased bytes stay unchanged and all
    /// chunks become free.
    #[test]
    fn leased_bytes_never_change(steps in proptest::collection::vec((0u8..8, 0usize..64, 0usize..20_000), 1..300)) {
        let mut pool = pool(6);
        let (mut packets, mut leases) = (Vec::<Packet>::new(), Vec::<(ReadLease, Vec<u8>)>::new());
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
                    let bytes = pool.bytes(packet).to_vec();
                    leases.push((pool.lease(packet), bytes));
                }
                5 if !packets.is_empty() => pool.release(packets.swap_remove(at % packets.len())),
                6 if !leases.is_empty() => pool.end_lease(leases.swap_remove(at % leases.len()).0),
                7 if !leases.is_empty() => drop(leases.swap_remove(at % leases.len())),
                _ => {}
            }
            prop_assert!(leases.iter().all(|(lease, bytes)| lease[..] == bytes[..]));
        }
        release_all(&mut pool, packets);
        leases.into_iter().for_each(|(lease, _)| pool.end_lease(lease));
        let chunk = pool.take_chunk().expect("none is erased");
        pool.release_chunk(chunk);
        prop_assert!(pool.chunks_in_use() <= 1, "at most the one that packets made here are written to");
    }
}

#[test]
fn too_long_packet_keeps_the_write_chunk() {
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
