//! Applications at both ends of a node, without its thread: each step is made by the test.

use super::*;
use crate::rules::Rules;
use nw_api::config::PubSub;
use nw_api::pubsub::{ItemOptions, Request, VERSION};
use nw_faces::credentials::Credentials;
use nw_faces::local_pubsub::ring::{FIRST, LAST, RecordHeader};
use nw_faces::local_pubsub::{FrameSocket, ReaderPage, RingSize, RingWriter};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;

const SIZE: RingSize = RingSize { bytes: 1 << 20, items: 16 };

/// An application at the other end of a socket.
pub(crate) struct Application {
    pub(crate) id: SessionId,
    socket: FrameSocket,
}

pub(crate) fn node() -> Node {
    Node::new(PubSub::default(), Rules::default(), None)
}

impl Application {
    pub(crate) fn new(node: &mut Node) -> Self {
        Application::connect(node, None)
    }

    /// Connects an application that reads rings, and returns its reader page.
    pub(crate) fn with_page(node: &mut Node) -> (Self, ReaderPage) {
        let (page, file) = ReaderPage::create().unwrap();
        (Application::connect(node, Some(file)), page)
    }

    /// Ends the connection.
    pub(crate) fn end(self, node: &mut Node) {
        let id = self.id;
        drop(self);
        node.receive(id);
        node.flush();
    }

    fn connect(node: &mut Node, page: Option<OwnedFd>) -> Self {
        let (near, far) = UnixStream::pair().unwrap();
        let credentials = Credentials { pid: 1, uid: 1, gid: 1 };
        let id = node.open(OwnedFd::from(far), credentials).unwrap();
        let mut application = Application { id, socket: FrameSocket::new(OwnedFd::from(near)) };
        let hello = Request::Hello { version: VERSION, program: "test".into() };
        application.send(node, &hello, page);
        application
    }

    pub(crate) fn send(&mut self, node: &mut Node, request: &Request, file: Option<OwnedFd>) {
        self.socket.send(request.kind(), &request.encode(), file).unwrap();
        assert!(self.socket.flush().unwrap());
        node.receive(self.id);
        node.flush();
    }

    pub(crate) fn subscribe(&mut self, node: &mut Node, pattern: &str) {
        let (request, subscription, wants_last) = (1, 1, false);
        let pattern = pattern.into();
        self.send(node, &Request::Subscribe { request, subscription, wants_last, pattern }, None);
    }

    /// Announces an item in a ring of this application.
    pub(crate) fn announce(&mut self, node: &mut Node, name: &str) -> RingWriter {
        let (ring, file) = RingWriter::create(SIZE).unwrap();
        self.send(node, &Request::Ring { bytes: SIZE.bytes, items: SIZE.items }, Some(file));
        ring.start_item(0, 0);
        let (request, item, options) = (1, 0, ItemOptions::default());
        let name = name.into();
        self.send(node, &Request::Publish { request, item, options, name }, None);
        ring
    }

    /// Reads all messages that the node has for this application.
    pub(crate) fn events(&mut self, node: &mut Node) -> Vec<Event> {
        let mut events = Vec::new();
        loop {
            while self.socket.receive().unwrap() {}
            let before = events.len();
            while let Some(frame) = self.socket.next_frame().unwrap() {
                events.push(Event::decode(frame.kind, &frame.body).unwrap());
            }
            node.has_space(self.id);
            node.flush();
            if events.len() == before {
                return events;
            }
        }
    }
}

fn write(ring: &mut RingWriter, sequence: u64, total: usize, (start, end): (usize, usize)) {
    let first = if start == 0 { FIRST } else { 0 };
    let last = if end == total { LAST } else { 0 };
    let header = RecordHeader {
        sequence,
        total_bytes: total as u64,
        offset: start as u64,
        flags: first | last,
        ..RecordHeader::default()
    };
    ring.write(header, &vec![sequence as u8; end - start]);
}

fn pump(node: &mut Node, application: &Application) {
    node.pump(application.id, usize::MAX);
    node.flush();
}

#[test]
fn publication_read_in_parts_has_no_bytes_of_another_ring() {
    let mut node = node();
    let mut subscriber = Application::new(&mut node);
    subscriber.subscribe(&mut node, "/**");
    let (mut first, mut second) = (Application::new(&mut node), Application::new(&mut node));
    let mut ring = first.announce(&mut node, "/first");
    let mut other = second.announce(&mut node, "/second");
    write(&mut ring, 7, 2000, (0, 1000));
    pump(&mut node, &first);
    write(&mut other, 9, 1500, (0, 1500));
    pump(&mut node, &second);
    // A last value is read from the ring, too.
    let mut late = Application::new(&mut node);
    late.subscribe(&mut node, "/second");
    write(&mut ring, 7, 2000, (1000, 2000));
    pump(&mut node, &first);
    let found: Vec<Fragment> = subscriber
        .events(&mut node)
        .into_iter()
        .filter_map(|event| match event {
            Event::Data { fragment, .. } => Some(fragment),
            _ => None,
        })
        .collect();
    let payloads: Vec<_> = found.iter().map(|part| (part.sequence, part.payload.len())).collect();
    assert_eq!(payloads, [(9, 1500), (7, 2000)]);
    for part in found {
        assert!(part.payload.iter().all(|byte| u64::from(*byte) == part.sequence));
    }
}

#[test]
fn losses_are_told_before_the_end_of_an_item_that_is_withdrawn() {
    let mut node = node();
    let mut subscriber = Application::new(&mut node);
    subscriber.subscribe(&mut node, "/**");
    let mut publisher = Application::new(&mut node);
    let mut ring = publisher.announce(&mut node, "/lagging");
    for sequence in 1..=400 {
        write(&mut ring, sequence, 50_000, (0, 50_000));
        pump(&mut node, &publisher);
    }
    publisher.send(&mut node, &Request::Unpublish { request: 2, item: 0 }, None);
    let (mut delivered, mut lost, mut has_ended) = (0, 0, false);
    for event in subscriber.events(&mut node) {
        match event {
            Event::Data { fragment, .. } => delivered += u64::from(fragment.is_last()),
            Event::Lost { count, .. } => {
                assert!(!has_ended, "a loss after the end is not counted for any item");
                lost += count;
            }
            Event::ItemEnd { .. } => has_ended = true,
            _ => {}
        }
    }
    assert!(has_ended && lost > 0 && delivered > 0, "{delivered} {lost}");
    assert_eq!(delivered + lost, 400);
}
