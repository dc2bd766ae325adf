//! Tests of AF_XDP sockets that share a queue, each in its own thread: the program brings each
//! frame to the socket of its shard, and none is lost, duplicated or overwritten. Between two
//! interfaces of a network namespace.

use crate::common::may_run;
use crate::common::net::{alone, index_of, ip};
use nw_faces::xdp::rings::{Sizes, Xsk, lost};
use nw_kernel::{XdpOptions, XdpProgram};
use nw_name::HashKey;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const KEY: HashKey = HashKey::new([0x0123_4567_89ab_cdef, 0xfedc_ba98_7654_3210, 5, 7]);
const SIZES: Sizes = Sizes { received: 256, sent: 64, frame: 2048, threads: 2 };
const TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum number of frames in flight, so that no ring is full.
const WINDOW: u32 = 100;

/// Returns an Interest with this number: in its name, and repeated in its parameters.
fn frame(number: u32) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x86, 0x24, 5, 0xfd, 0, 0, 7, 6, 8, 4];
    frame.extend_from_slice(&number.to_be_bytes());
    frame.extend_from_slice(&[10, 4, 1, 2, 3, 4, 0x24, 0xfd, 3, 232]);
    frame.extend((0..250).flat_map(|_| number.to_be_bytes()));
    let len = (frame.len() - 18) as u16;
    frame[16..18].copy_from_slice(&len.to_be_bytes());
    frame
}

/// Returns the number of a frame, after checking all its bytes.
fn number_of(bytes: &[u8]) -> u32 {
    let number = u32::from_be_bytes(bytes[22..26].try_into().expect("four bytes"));
    assert!(bytes == frame(number), "frame {number} is as it was sent");
    number
}

fn shard_of(number: u32) -> u8 {
    nw_wire::shard::shard_of_packet(&frame(number)[14..], &KEY, 2).0
}

/// Creates two connected interfaces: sockets of the first one with its program, and sockets of the
/// second.
fn wire() -> (XdpProgram, Vec<Xsk>, Vec<Xsk>) {
    ip("link add nw0 type veth peer name nw1");
    ip("link set nw0 up");
    ip("link set nw1 up");
    let [here, there] =
        ["nw0", "nw1"].map(|name| Xsk::open(index_of(name), 0, SIZES, true).expect("sockets"));
    let mut program = XdpProgram::load(&KEY, 1, 2, &XdpOptions::default()).expect("loaded");
    program.attach("nw0", None).expect("attached");
    for (shard, xsk) in (0..).zip(&here) {
        program.set_socket(0, shard, xsk.as_fd()).expect("set");
    }
    (program, here, there)
}

fn send(xsk: &mut Xsk, number: u32) {
    let end = Instant::now() + TIMEOUT;
    let write = |buffer: &mut [u8]| {
        let frame = frame(number);
        buffer[..frame.len()].copy_from_slice(&frame);
        Some(frame.len())
    };
    while !xsk.put(write) {
        xsk.kick().expect("sent");
        assert!(Instant::now() < end, "a frame to send is free again");
    }
    xsk.kick().expect("sent");
}

/// Appends the numbers of received frames to `seen`.
fn receive(xsk: &mut Xsk, seen: &mut Vec<u32>) {
    xsk.receive(64, |bytes| {
        seen.push(number_of(bytes));
        true
    });
}

#[test]
fn threads_share_a_queue_without_losing_frames() {
    const EACH: u32 = 20_000;
    if !may_run("xdp, sockets of threads") {
        return;
    }
    alone(|| {
        let (_program, here, there) = wire();
        let (sent, received) = (AtomicU32::new(0), AtomicU32::new(0));
        let mut seen = vec![Vec::new(); 2];
        thread::scope(|scope| {
            for (sender, mut xsk) in (0..).zip(there) {
                let (sent, received) = (&sent, &received);
                scope.spawn(move || {
                    let end = Instant::now() + TIMEOUT;
                    for number in (0..EACH).map(|at| 2 * at + sender) {
                        // `received` is read first: read after `sent`, it may count frames that
                        // the other thread has sent since.
                        let on_the_way = || {
                            let received = received.load(Ordering::SeqCst);
                            sent.load(Ordering::SeqCst) - received
                        };
                        while on_the_way() > WINDOW {
                            assert!(Instant::now() < end, "what was sent is received: {number}");
                            thread::yield_now();
                        }
                        sent.fetch_add(1, Ordering::SeqCst);
                        send(&mut xsk, number);
                    }
                });
            }
            for ((shard, mut xsk), seen) in (0u8..).zip(here).zip(&mut seen) {
                let received = &received;
                scope.spawn(move || {
                    let end = Instant::now() + TIMEOUT;
                    while received.load(Ordering::SeqCst) < 2 * EACH && Instant::now() < end {
                        let mut count = 0;
                        xsk.receive(64, |bytes| {
                            let number = number_of(bytes);
                            assert_eq!(shard_of(number), shard, "frame {number}");
                            seen.push(number);
                            count += 1;
                            true
                        });
                        received.fetch_add(count, Ordering::SeqCst);
                        while !xsk.return_frames() {
                            thread::yield_now();
                        }
                        thread::yield_now();
                    }
                    assert_eq!(lost(&xsk), 0);
                });
            }
        });
        assert!(seen.iter().all(|seen| seen.len() > EACH as usize / 2), "both have a share");
        let mut all = seen.concat();
        all.sort_unstable();
        assert!(all.into_iter().eq(0..2 * EACH), "each frame came once");
    });
}

#[test]
fn unread_socket_does_not_take_frames_of_others() {
    if !may_run("xdp, a socket that is not read") {
        return;
    }
    alone(|| {
        let (_program, mut here, mut there) = wire();
        let (idle, sender) = (1, &mut there[0]);
        let numbers = |shard| (0..).filter(move |number| shard_of(*number) == shard);
        numbers(idle).take(2000).for_each(|number| send(sender, number));
        let mut seen = Vec::new();
        let wanted: Vec<_> = numbers(1 - idle).take(2000).collect();
        let end = Instant::now() + TIMEOUT;
        for number in &wanted {
            send(sender, *number);
            while seen.last() != Some(number) {
                receive(&mut here[0], &mut seen);
                assert!(Instant::now() < end, "{} of {} came", seen.len(), wanted.len());
            }
        }
        assert_eq!(seen, wanted, "in order, and all");
        assert_eq!(lost(&here[0]), 0);
        // Its ring holds its own part; later frames were lost, without an effect on the other
        // socket.
        let mut held = 0;
        here[1].receive(512, |_| {
            held += 1;
            true
        });
        assert_eq!(
            (held, lost(&here[1])),
            (u64::from(SIZES.received), 2000 - u64::from(SIZES.received))
        );
    });
}

#[test]
fn poll_does_not_report_sent_frames() {
    if !may_run("xdp, waiting") {
        return;
    }
    alone(|| {
        let (_program, mut here, mut there) = wire();
        let waits = |xsk: &Xsk, longest: Duration| {
            let mut ready = [PollFd::new(xsk, PollFlags::IN | PollFlags::OUT)];
            let longest = Timespec {
                tv_sec: longest.as_secs() as i64,
                tv_nsec: longest.subsec_nanos().into(),
            };
            poll(&mut ready, Some(&longest)).expect("polled");
            ready[0].revents()
        };
        // It could send at once: a socket for both directions would report that, and wake the
        // waiting thread each time a frame has been sent.
        assert_eq!(waits(&here[0], Duration::ZERO), PollFlags::empty());
        send(&mut here[0], 1);
        assert_eq!(waits(&here[0], Duration::ZERO), PollFlags::empty());
        let number =
            (0..).find(|number| shard_of(*number) == 0).expect("a name of the first shard");
        send(&mut there[0], number);
        assert_eq!(waits(&here[0], TIMEOUT), PollFlags::IN);
        let mut seen = Vec::new();
        receive(&mut here[0], &mut seen);
        assert_eq!(seen, [number]);
    });
}
