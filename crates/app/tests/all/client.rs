//! A client against a peer that sends all its Interests at once and reads late.

use nw_app::{Client, FaceUri, Outgoing, Received};
use nw_name::Name;
use nw_name::tlv::{Framing, frame};
use nw_wire::{Data, DataBuilder, DigestSha256, InterestBuilder};
use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::time::Duration;

#[test]
fn replies_beyond_socket_buffer_keep_order() {
    const INTERESTS: u64 = 600;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("peer.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let uri: FaceUri = format!("unix://{}", path.display()).parse().unwrap();
    let mut client = Client::connect(&uri).unwrap();
    let (mut peer, _) = listener.accept().unwrap();
    let name = |number| Name::new().with_generic("t").with_segment(number);
    let interests: Vec<u8> =
        (0..INTERESTS).flat_map(|number| InterestBuilder::new(name(number)).encode()).collect();
    peer.write_all(&interests).unwrap();

    let mut replies = 0;
    while replies < INTERESTS {
        let answer = |_, received: Received<'_>, out: &mut Outgoing| {
            let number = received.name().component(-1).and_then(|number| number.integer()).unwrap();
            let content = vec![number as u8; 8192];
            let wire = DataBuilder::new(&received.name().to_name(), &content)
                .encode(&DigestSha256)
                .unwrap();
            out.answer(&received, &wire);
            replies += 1;
        };
        client.poll(Some(Duration::from_millis(10)), answer).unwrap();
    }
    assert!(client.queue_bytes() > 2 << 20, "packets that the socket does not accept are queued");

    let reader = std::thread::spawn(move || {
        let (mut bytes, mut at, mut numbers) = (Vec::new(), 0, Vec::new());
        let mut read = vec![0; 64 << 10];
        while numbers.len() < INTERESTS as usize {
            let len = peer.read(&mut read).unwrap();
            assert_ne!(len, 0, "every reply arrives");
            bytes.extend_from_slice(&read[..len]);
            while let Ok(Framing::Whole(len)) = frame(&bytes[at..], 8800) {
                let data = Data::check(&bytes[at..at + len]).unwrap();
                let number = data.name().component(-1).and_then(|number| number.integer()).unwrap();
                assert!(data.content().iter().all(|byte| *byte == number as u8), "{number}");
                numbers.push(number);
                at += len;
            }
        }
        (numbers, peer)
    });
    while !reader.is_finished() {
        client.poll(Some(Duration::from_millis(10)), |_, _, _| {}).unwrap();
    }
    let (numbers, _peer) = reader.join().unwrap();
    assert_eq!(numbers, (0..INTERESTS).collect::<Vec<_>>());
}
