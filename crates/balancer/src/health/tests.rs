//! Judging, and probing something that answers well, badly, late or not at all.

use super::*;
use nw_wire::{DataBuilder, DigestSha256, Interest};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, mpsc};

const BACK: Outcome = Outcome::Back(Duration::from_millis(1));

fn health() -> Health {
    Health { interval_ms: 50, timeout_ms: 100, failures: 3, successes: 2, ..Health::default() }
}

#[test]
fn verdicts_need_a_row() {
    let mut judge = Judge::new(&health());
    assert_eq!(judge.take(BACK), None);
    assert_eq!(judge.take(Outcome::Lost), None);
    assert_eq!(judge.take(BACK), None);
    assert_eq!(judge.take(BACK), Some(true));
    assert_eq!(judge.take(Outcome::Lost), Some(true));
    assert_eq!(judge.take(Outcome::Refused), Some(true));
    assert_eq!(judge.take(BACK), Some(true), "the row was broken");
    for expected in [Some(true), Some(true), Some(false), Some(false)] {
        assert_eq!(judge.take(Outcome::Slow(Duration::from_secs(1))), expected);
    }
    assert_eq!((judge.take(BACK), judge.take(BACK)), (Some(false), Some(true)));
}

const WELL: u8 = 0;
const SILENT: u8 = 1;
const NONSENSE: u8 = 2;
const SLOW: u8 = 3;

/// A socket that answers probes as `manner` says.
fn member(manner: Arc<AtomicU8>) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    std::thread::spawn(move || {
        let mut buffer = [0; 9000];
        while let Ok((len, from)) = socket.recv_from(&mut buffer) {
            let name = Interest::check(&buffer[..len]).unwrap().name().to_name();
            let number = name.as_ref().component(-1).unwrap().value().to_vec();
            let content = match manner.load(Ordering::Relaxed) {
                SILENT => continue,
                NONSENSE => b"nonsense".to_vec(),
                SLOW => {
                    std::thread::sleep(Duration::from_millis(40));
                    number
                }
                _ => number,
            };
            let Ok(wire) = DataBuilder::new(&name, &content).encode(&DigestSha256);
            socket.send_to(&wire, from).unwrap();
            socket.send_to(b"\x05\x03abc and more that is no packet", from).unwrap();
        }
    });
    address
}

fn wait_for(events: &mpsc::Receiver<Probed>, wanted: impl Fn(&Probed) -> bool) -> Probed {
    let deadline = time::Instant::now() + Duration::from_secs(10);
    loop {
        let left = deadline.saturating_duration_since(time::Instant::now());
        let probed = events.recv_timeout(left).expect("it happens in time");
        if wanted(&probed) {
            return probed;
        }
    }
}

#[test]
fn a_member_that_is_well_hangs_is_slow_and_talks_nonsense() {
    let manner = Arc::new(AtomicU8::new(WELL));
    let target = Target { name: "m1".into(), address: member(Arc::clone(&manner)), has_agent: true };
    let (tell, events) = mpsc::channel();
    let (aim, targets) = mpsc::channel();
    let health = Health { slow_ms: 30, ..health() };
    let prober = Prober::new("c", &health, move |probed| drop(tell.send(probed))).unwrap();
    let thread = std::thread::spawn(move || prober.run(&targets));
    aim.send(vec![target]).unwrap();
    for (bad, trouble) in [(SILENT, "don't come back"), (NONSENSE, "don't come back"), (SLOW, "too late")] {
        let well = wait_for(&events, |probed| probed.verdict == Some(true));
        assert!(matches!(well.outcome, Outcome::Back(_)), "{well:?}");
        manner.store(bad, Ordering::Relaxed);
        let failed = wait_for(&events, |probed| probed.verdict == Some(false));
        assert!(failed.outcome.trouble().unwrap().contains(trouble), "{failed:?}");
        manner.store(WELL, Ordering::Relaxed);
    }
    aim.send(Vec::new()).unwrap();
    drop(aim);
    thread.join().unwrap();
}
