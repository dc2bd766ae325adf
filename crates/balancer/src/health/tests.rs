//! Tests of the health verdict, and of a prober with a member that answers well, wrongly, late or
//! not.

use super::*;
use nw_wire::{DataBuilder, DigestSha256, Interest};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, mpsc};

const BACK: Outcome = Outcome::Answered(Duration::from_millis(1));

fn health() -> Health {
    Health { interval_ms: 50, timeout_ms: 100, failures: 3, successes: 2, ..Health::default() }
}

#[test]
fn verdict_changes_after_a_row_of_equal_outcomes() {
    let mut history = ProbeHistory::new(&health());
    assert_eq!(history.record(BACK), None);
    assert_eq!(history.record(Outcome::Lost), None);
    assert_eq!(history.record(BACK), None);
    assert_eq!(history.record(BACK), Some(true));
    assert_eq!(history.record(Outcome::Lost), Some(true));
    assert_eq!(history.record(Outcome::Nacked), Some(true));
    assert_eq!(history.record(BACK), Some(true), "the row was interrupted");
    for expected in [Some(true), Some(true), Some(false), Some(false)] {
        assert_eq!(history.record(Outcome::Late(Duration::from_secs(1))), expected);
    }
    assert_eq!((history.record(BACK), history.record(BACK)), (Some(false), Some(true)));
}

const GOOD: u8 = 0;
const SILENT: u8 = 1;
const WRONG: u8 = 2;
const SLOW: u8 = 3;

/// A socket that answers probes as `behaviour` selects.
fn member(behaviour: Arc<AtomicU8>) -> SocketAddr {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    std::thread::spawn(move || {
        let mut buffer = [0; 9000];
        while let Ok((len, from)) = socket.recv_from(&mut buffer) {
            let name = Interest::check(&buffer[..len]).unwrap().name().to_name();
            let number = name.as_ref().component(-1).unwrap().value().to_vec();
            let content = match behaviour.load(Ordering::Relaxed) {
                SILENT => continue,
                WRONG => b"wrong".to_vec(),
                SLOW => {
                    std::thread::sleep(Duration::from_millis(40));
                    number
                }
                _ => number,
            };
            let Ok(wire) = DataBuilder::new(&name, &content).encode(&DigestSha256);
            socket.send_to(&wire, from).unwrap();
            socket.send_to(b"\x05\x03abc and more that is not a packet", from).unwrap();
        }
    });
    address
}

fn wait_for(events: &mpsc::Receiver<Probed>, wanted: impl Fn(&Probed) -> bool) -> Probed {
    let deadline = time::Instant::now() + Duration::from_secs(10);
    loop {
        let remaining = deadline.saturating_duration_since(time::Instant::now());
        let probed = events.recv_timeout(remaining).expect("it happens in time");
        if wanted(&probed) {
            return probed;
        }
    }
}

#[test]
fn prober_reports_good_silent_wrong_and_slow_answers() {
    let behaviour = Arc::new(AtomicU8::new(GOOD));
    let target =
        Target { name: "m1".into(), address: member(Arc::clone(&behaviour)), has_agent: true };
    let (sender, events) = mpsc::channel();
    let (target_sender, targets) = mpsc::channel();
    let health = Health { slow_ms: 30, ..health() };
    let prober = Prober::new("c", &health, move |probed| drop(sender.send(probed))).unwrap();
    let thread = std::thread::spawn(move || prober.run(&targets));
    target_sender.send(vec![target]).unwrap();
    for (bad, trouble) in [(SILENT, "not answered"), (WRONG, "not answered"), (SLOW, "too late")] {
        let good = wait_for(&events, |probed| probed.verdict == Some(true));
        assert!(matches!(good.outcome, Outcome::Answered(_)), "{good:?}");
        behaviour.store(bad, Ordering::Relaxed);
        let failed = wait_for(&events, |probed| probed.verdict == Some(false));
        assert!(failed.outcome.trouble().unwrap().contains(trouble), "{failed:?}");
        behaviour.store(GOOD, Ordering::Relaxed);
    }
    target_sender.send(Vec::new()).unwrap();
    drop(target_sender);
    thread.join().unwrap();
}
