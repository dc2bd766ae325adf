//! CPU time per packet, in nanoseconds, of a thread that relays packets from one face to another:
//! with faces, and by a bare relay that copies bytes. Unix sockets and UDP over loopback, short and
//! long packets, one run after the other.
//!
//! `cargo run --release -p nw-faces --example throughput [seconds per run]`

#![allow(clippy::print_stdout)]

use nw_element_api::{Packet, Pool};
use nw_faces::{FaceId, FaceOptions, FaceUri, Faces, FacesConfig, Timestamp};
use nw_name::HashKey;
use nw_name::tlv::push_tlv;
use rustix::event::epoll;
use rustix::time::{ClockId, clock_gettime};
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant as Clock};

/// Bytes in flight over UDP: a window, as consumers have.
const WINDOW: u64 = 512 << 10;

/// Bytes in flight over unix sockets; less than a socket holds.
const WINDOW_UNIX: usize = 160 << 10;

fn main() {
    let seconds = std::env::args().nth(1).and_then(|arg| arg.parse().ok()).unwrap_or(1.0);
    let run = Duration::from_secs_f64(seconds);
    println!(
        "{:<24} {:>8} {:>12} {:>12} {:>10}",
        "path", "bytes", "CPU ns/pkt", "packets/s", "lost"
    );
    for len in [100, 1000, 8000] {
        report("unix, faces", len, relay_unix(len, run, false));
        report("unix, bare", len, relay_unix(len, run, true));
        report("UDP, faces", len, relay_udp(len, run));
    }
}

struct Figures {
    cpu_ns: f64,
    rate: f64,
    lost: u64,
}

fn report(path: &str, len: usize, figures: Figures) {
    println!(
        "{path:<24} {len:>8} {:>12.0} {:>12.0} {:>10}",
        figures.cpu_ns, figures.rate, figures.lost
    );
}

fn packet(len: usize) -> Vec<u8> {
    let mut name = Vec::new();
    push_tlv(8, b"throughput", &mut name);
    push_tlv(8, b"of/faces", &mut name);
    let mut body = Vec::new();
    push_tlv(7, &name, &mut body);
    push_tlv(21, &vec![7; len.saturating_sub(90)], &mut body);
    push_tlv(22, &[27, 1, 0], &mut body);
    push_tlv(23, &[0; 32], &mut body);
    let mut out = Vec::new();
    push_tlv(6, &body, &mut out);
    out
}

fn thread_cpu() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

/// An event loop with faces.
struct Loop {
    faces: Faces,
    pool: Pool,
    epoll: OwnedFd,
    start: Clock,
    batch: Vec<Packet>,
}

impl Loop {
    fn new() -> Self {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).expect("epoll");
        Loop {
            faces: Faces::new(FacesConfig::default(), epoll.as_fd()).expect("faces"),
            pool: Pool::new(HashKey::new([1, 2, 3, 4]), 256, 65_536),
            epoll,
            start: Clock::now(),
            batch: Vec::new(),
        }
    }

    /// One iteration: received packets are sent to `out`, or released. Returns their number.
    fn turn(&mut self, wait_ms: u64, out: Option<FaceId>) -> u64 {
        let mut ready = [const { core::mem::MaybeUninit::uninit() }; 16];
        let timeout =
            rustix::time::Timespec::try_from(Duration::from_millis(wait_ms)).expect("short");
        let (ready, _) = epoll::wait(&self.epoll, &mut ready, Some(&timeout)).expect("epoll");
        let now = Timestamp::from_nanos(self.start.elapsed().as_nanos() as u64);
        let mut count = 0;
        for event in ready.iter() {
            self.faces.on_ready(
                now,
                event.data.u64(),
                event.flags,
                &mut self.pool,
                &mut self.batch,
            );
            count += self.batch.len() as u64;
            for packet in self.batch.drain(..) {
                match out {
                    Some(face) => self.faces.send(now, face, packet, &mut self.pool),
                    None => self.pool.release(packet),
                }
            }
        }
        self.faces.events().for_each(drop);
        self.faces.flush(&mut self.pool);
        count
    }
}

/// One thread writes to the relay and reads what it forwards, with a window; the other is the
/// relay.
fn relay_unix(len: usize, run: Duration, bare: bool) -> Figures {
    let (mut source, relay_in) = UnixStream::pair().expect("a pair");
    let (relay_out, mut sink) = UnixStream::pair().expect("a pair");
    let name = if bare { "relay-bare" } else { "relay-faces" };
    let relay = thread::Builder::new().name(name.into()).spawn(move || {
        let begin = thread_cpu();
        if bare {
            let (mut relay_in, mut relay_out) = (relay_in, relay_out);
            let mut buffer = vec![0; 64 << 10];
            while let Ok(read @ 1..) = relay_in.read(&mut buffer) {
                relay_out.write_all(&buffer[..read]).expect("the sink reads");
            }
        } else {
            let mut host = Loop::new();
            let options = FaceOptions::default();
            host.faces.adopt(Timestamp::START, relay_in.into(), &options).expect("adopted");
            let out =
                host.faces.adopt(Timestamp::START, relay_out.into(), &options).expect("adopted");
            while host.faces.len() == 2 {
                host.turn(1000, Some(out));
            }
            report_drops(&host.faces);
        }
        thread_cpu() - begin
    });
    let relay = relay.expect("a thread");
    let one = packet(len);
    let many = one.repeat(WINDOW_UNIX / 4 / one.len());
    let mut buffer = vec![0; 256 << 10];
    let (mut sent, mut arrived) = (0, 0);
    let begin = Clock::now();
    while begin.elapsed() < run {
        while sent - arrived <= WINDOW_UNIX - many.len() {
            source.write_all(&many).expect("the relay reads");
            sent += many.len();
        }
        arrived += sink.read(&mut buffer).expect("the relay writes");
    }
    while arrived < sent {
        arrived += sink.read(&mut buffer).expect("the relay writes");
    }
    let seconds = begin.elapsed().as_secs_f64();
    drop(source);
    let cpu = relay.join().expect("relay");
    let packets = arrived / one.len();
    Figures { cpu_ns: cpu / packets as f64, rate: packets as f64 / seconds, lost: 0 }
}

fn report_drops(faces: &Faces) {
    for (reason, count) in faces.drops().iter().filter(|(_, count)| *count > 0) {
        println!("  dropped: {} {count}", reason.as_str());
    }
}

fn relay_udp(len: usize, run: Duration) -> Figures {
    let stop = Arc::new(AtomicBool::new(false));
    let arrived = Arc::new(AtomicU64::new(0));
    let mut sink = Loop::new();
    let sink_address =
        sink.faces.listen_udp("127.0.0.1:0".parse().expect("an address")).expect("bound");
    let mut relay = Loop::new();
    let relay_address =
        relay.faces.listen_udp("127.0.0.1:0".parse().expect("an address")).expect("bound");
    let (stop_sink, count) = (stop.clone(), arrived.clone());
    let sink = thread::spawn(move || {
        while !stop_sink.load(Ordering::Relaxed) {
            let got = sink.turn(10, None);
            count.fetch_add(got, Ordering::Relaxed);
        }
    });
    let stop_relay = stop.clone();
    let relay = thread::Builder::new().name("relay-udp".into()).spawn(move || {
        let out = relay
            .faces
            .connect(Timestamp::START, &FaceUri::Udp(sink_address), None, &FaceOptions::default())
            .expect("a face");
        let begin = thread_cpu();
        while !stop_relay.load(Ordering::Relaxed) {
            relay.turn(10, Some(out));
        }
        report_drops(&relay.faces);
        thread_cpu() - begin
    });
    let relay = relay.expect("a thread");
    let mut source = Loop::new();
    let face = source
        .faces
        .connect(Timestamp::START, &FaceUri::Udp(relay_address), None, &FaceOptions::default())
        .expect("a face");
    let one = packet(len);
    let begin = Clock::now();
    let (mut sent, mut seen, mut lost, mut since) = (0, 0, 0, Clock::now());
    while begin.elapsed() < run {
        let now = arrived.load(Ordering::Relaxed);
        if now > seen {
            (seen, since) = (now, Clock::now());
        } else if sent > seen + lost && since.elapsed() > Duration::from_millis(100) {
            // Packets that have not arrived by now are lost.
            lost = sent - seen;
            since = Clock::now();
        }
        if (sent - lost - now.min(sent - lost)) * len as u64 > WINDOW / 2 {
            thread::yield_now();
            continue;
        }
        for _ in 0..(64 << 10) / len {
            let packet = source.pool.copy_of(&one).expect("the pool has room");
            source.pool.meta_mut(&packet).kind = nw_element_api::Kind::Data;
            source.faces.send(Timestamp::START, face, packet, &mut source.pool);
            sent += 1;
        }
        source.turn(0, None);
    }
    thread::sleep(Duration::from_millis(50));
    stop.store(true, Ordering::Relaxed);
    let seconds = begin.elapsed().as_secs_f64();
    let cpu = relay.join().expect("relay");
    sink.join().expect("sink");
    let packets = arrived.load(Ordering::Relaxed);
    Figures { cpu_ns: cpu / packets as f64, rate: packets as f64 / seconds, lost: sent - packets }
}
