//! A client against a peer that asks all at once and reads later.

use nw_app::{Client, FaceUri, Outgoing, Received};
use nw_name::Name;
use nw_name::tlv::{Framing, frame};
use nw_wire::{Data, DataBuilder, DigestSha256, InterestBuilder};
use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::time::Duration;

#[test]
fn more_answers_than_the_socket_takes_keep_their_order() {
    const ASKED: u64 = 600;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("peer.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let uri: FaceUri = format!("unix://{}", path.display()).parse().unwrap();
    let mut client = Client::connect(&uri).unwrap();
    let (mut peer, _) = listener.accept().unwrap();
    let name = |number| Name::new().with_generic("t").with_segment(number);
    let asked: Vec<u8> = (0..ASKED).flat_map(|number| InterestBuilder::new(name(number)).encode()).collect();
    peer.write_all(&asked).unwrap();

    let mut answered = 0;
    while answered < ASKED {
        let answer = |_, received: Received<'_>, out: &mut Outgoing| {
            let number = received.name().component(-1).and_then(|number| number.integer()).unwrap();
            let content = vec![number as u8; 8192];
            let wire = DataBuilder::new(&received.name().to_name(), &content).encode(&DigestSha256).unwrap();
            out.answer(&received, &wire);
            answered += 1;
        };
        client.turn(Some(Duration::from_millis(10)), answer).unwrap();
    }
    assert!(client.queue_bytes() > 2 << 20, "what the socket does not take waits");

    let reader = std::thread::spawn(move || {
        let (mut octets, mut at, mut numbers) = (Vec::new(), 0, Vec::new());
        let mut read = vec![0; 64 << 10];
        while numbers.len() < ASKED as usize {
            let len = peer.read(&mut read).unwrap();
            assert_ne!(len, 0, "all that was answered arrives");
            octets.extend_from_slice(&read[..len]);
            while let Ok(Framing::Whole(len)) = frame(&octets[at..], 8800) {
                let data = Data::check(&octets[at..at + len]).unwrap();
                let number = data.name().component(-1).and_then(|number| number.integer()).unwrap();
                assert!(data.content().iter().all(|octet| *octet == number as u8), "{number}");
                numbers.push(number);
                at += len;
            }
        }
        (numbers, peer)
    });
    while !reader.is_finished() {
        client.turn(Some(Duration::from_millis(10)), |_, _, _| {}).unwrap();
    }
    let (numbers, _peer) = reader.join().unwrap();
    assert_eq!(numbers, (0..ASKED).collect::<Vec<_>>());
}
