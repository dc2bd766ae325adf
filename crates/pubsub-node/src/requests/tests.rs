//! Requests of applications: what they cost, and which rings and wake-ups they need.

use super::*;
use crate::node::PAUSED_RINGS_MAX;
use crate::relay::tests::{Application, node};
use crate::rules::Rules;
use nw_api::config::{PubSub, PubSubRule};
use nw_faces::local_pubsub::{RingWriter, Wakeup, item_bit};
use std::time::Duration;

fn publish(application: &mut Application, node: &mut Node, item: u32, name: String) {
    let options = ItemOptions { keeps_last: false, ..ItemOptions::default() };
    application.send(node, &Request::Publish { request: 1, item, options, name }, None);
}

fn subscribe(application: &mut Application, node: &mut Node, subscription: u32, pattern: String) {
    let (request, wants_last) = (1, false);
    application.send(
        node,
        &Request::Subscribe { request, subscription, wants_last, pattern },
        None,
    );
}

fn unsubscribe(application: &mut Application, node: &mut Node, subscription: u32) {
    application.send(node, &Request::Unsubscribe { request: 1, subscription }, None);
}

/// Offers a ring with a place for each of `items` items.
fn offer_ring(application: &mut Application, node: &mut Node, items: u32) -> RingWriter {
    let size = RingSize::at_least(1 << 16, items);
    let (ring, file) = RingWriter::create(size).unwrap();
    let RingSize { bytes, items } = size;
    application.send(node, &Request::Ring { bytes, items }, Some(file));
    ring
}

fn count(events: &[Event], is_counted: impl Fn(&Event) -> bool) -> usize {
    events.iter().filter(|event| is_counted(event)).count()
}

fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Returns the processor time of subscriptions to single items, each ended again, beside others.
fn subscription_time(items: u32, subscriptions: u32) -> Duration {
    let mut node = node();
    let mut publisher = Application::new(&mut node);
    let _ring = offer_ring(&mut publisher, &mut node, items);
    let (mut subscriber, _page) = Application::with_page(&mut node);
    // Without their messages, which are not what is measured.
    for item in 0..items {
        let name = format!("/i/{item}");
        node.publish(publisher.id, item, ItemOptions::default(), &name).unwrap();
    }
    for number in 0..subscriptions {
        let pattern = format!("/other/{number}");
        node.add_subscription(subscriber.id, number, (0, false), &pattern).unwrap();
    }
    let started = processor_time();
    for number in 0..200 {
        let item = number * 7919 % items;
        subscribe(&mut subscriber, &mut node, subscriptions, format!("/i/{item}"));
        unsubscribe(&mut subscriber, &mut node, subscriptions);
        let found = subscriber.events(&mut node);
        assert_eq!(count(&found, |event| matches!(event, Event::Item { .. })), 1);
        assert_eq!(count(&found, |event| matches!(event, Event::ItemEnd { .. })), 1);
        publisher.events(&mut node);
    }
    processor_time() - started
}

#[test]
fn subscription_costs_as_much_beside_many_items_and_subscriptions_as_beside_few() {
    let few = subscription_time(10, 10);
    let many = subscription_time(20_000, 2000);
    // With a look at each item, or at each subscription, it is above 50.
    let ratio = many.as_secs_f64() / few.as_secs_f64();
    assert!(ratio < 8.0, "{few:?} {many:?}");
}

#[test]
fn ring_is_passed_once_for_many_subscriptions_until_its_publisher_ends() {
    let mut node = node();
    let mut publisher = Application::new(&mut node);
    let _ring = offer_ring(&mut publisher, &mut node, 64);
    for item in 0..64 {
        publish(&mut publisher, &mut node, item, format!("/i/{item}"));
    }
    let (mut subscriber, page) = Application::with_page(&mut node);
    for number in 0..50 {
        subscribe(&mut subscriber, &mut node, number, format!("/i/{number}"));
        unsubscribe(&mut subscriber, &mut node, number);
    }
    let found = subscriber.events(&mut node);
    let sources = |found: &[Event]| {
        let begun = count(found, |event| matches!(event, Event::Source { .. }));
        (begun, count(found, |event| matches!(event, Event::SourceEnd { .. })))
    };
    assert_eq!(sources(&found), (1, 0));
    assert_eq!(count(&found, |event| matches!(event, Event::ItemEnd { .. })), 50);
    let found = publisher.events(&mut node);
    assert_eq!(count(&found, |event| matches!(event, Event::Reader { .. })), 1);
    let begun = count(&found, |event| matches!(event, Event::ItemReader { .. }));
    let ended = count(&found, |event| matches!(event, Event::ItemReaderEnd { .. }));
    assert_eq!((begun, ended), (50, 50));
    assert_eq!(count(&found, |event| matches!(event, Event::ReaderEnd { .. })), 0);
    // A reader that comes back stands where it begins.
    page.report(0, nw_faces::local_pubsub::Progress { cursor: 7, delivered: 3, lost: 1 });
    subscribe(&mut subscriber, &mut node, 1, "/i/60".into());
    let progress = page.progress(0);
    assert_eq!((progress.cursor, progress.delivered, progress.lost), (0, 3, 1));
    unsubscribe(&mut subscriber, &mut node, 1);
    assert_eq!(sources(&subscriber.events(&mut node)), (0, 0));
    // It may not have read the first item of this number to its end.
    subscribe(&mut subscriber, &mut node, 1, "/i/60".into());
    assert_eq!(sources(&subscriber.events(&mut node)), (1, 1));
    publisher.end(&mut node);
    assert_eq!(sources(&subscriber.events(&mut node)), (0, 1));
}

#[test]
fn rings_without_items_are_bounded_and_the_oldest_is_taken_back() {
    let mut node = node();
    let (mut subscriber, _page) = Application::with_page(&mut node);
    let mut publishers = Vec::new();
    for number in 0..PAUSED_RINGS_MAX + 3 {
        let mut publisher = Application::new(&mut node);
        let ring = offer_ring(&mut publisher, &mut node, 1);
        publish(&mut publisher, &mut node, 0, format!("/p/{number}"));
        publishers.push((publisher, ring));
    }
    for number in 0..publishers.len() as u32 {
        subscribe(&mut subscriber, &mut node, number, format!("/p/{number}"));
        unsubscribe(&mut subscriber, &mut node, number);
    }
    let found = subscriber.events(&mut node);
    assert_eq!(count(&found, |event| matches!(event, Event::SourceEnd { .. })), 3);
    for (number, (publisher, _)) in publishers.iter_mut().enumerate() {
        let found = publisher.events(&mut node);
        let ended = count(&found, |event| matches!(event, Event::ReaderEnd { .. }));
        assert_eq!(ended, usize::from(number < 3), "{number}");
    }
    // The ring that was taken back is passed again.
    subscribe(&mut subscriber, &mut node, 100, "/p/0".into());
    let found = subscriber.events(&mut node);
    assert_eq!(count(&found, |event| matches!(event, Event::Source { .. })), 1);
    subscriber.end(&mut node);
    let found = publishers[5].0.events(&mut node);
    assert_eq!(count(&found, |event| matches!(event, Event::ReaderEnd { .. })), 1);
}

#[test]
fn item_that_a_former_reader_may_not_read_takes_the_ring_from_it() {
    let rule = PubSubRule {
        scope: "/secret/**".into(),
        publish: vec!["any".into()],
        subscribe: vec!["uid:77".into()],
        signed_by: vec![],
    };
    let mut node = Node::new(PubSub::default(), Rules::parse(&[rule]).unwrap(), None);
    let mut publisher = Application::new(&mut node);
    let _ring = offer_ring(&mut publisher, &mut node, 4);
    publish(&mut publisher, &mut node, 0, "/open".into());
    let (mut subscriber, _page) = Application::with_page(&mut node);
    subscribe(&mut subscriber, &mut node, 1, "/open".into());
    publish(&mut publisher, &mut node, 1, "/secret/1".into());
    unsubscribe(&mut subscriber, &mut node, 1);
    let refusals = |found: &[Event]| {
        count(found, |event| matches!(event, Event::Reply { code, .. } if *code != 0))
    };
    assert_eq!(refusals(&publisher.events(&mut node)), 1, "it reads the ring");
    publish(&mut publisher, &mut node, 1, "/secret/1".into());
    assert_eq!(refusals(&publisher.events(&mut node)), 0);
    let found = subscriber.events(&mut node);
    assert_eq!(count(&found, |event| matches!(event, Event::SourceEnd { .. })), 1);
}

#[test]
fn publication_that_the_node_writes_wakes_the_readers_of_its_item_only() {
    let mut node = node();
    let mut publisher = Application::new(&mut node);
    let (mut one, one_page) = Application::with_page(&mut node);
    let (mut other, other_page) = Application::with_page(&mut node);
    for (item, name) in [(0, "/one"), (1, "/other")] {
        publish(&mut publisher, &mut node, item, name.into());
    }
    subscribe(&mut one, &mut node, 1, "/one".into());
    subscribe(&mut other, &mut node, 1, "/other".into());
    one_page.set_items(0, item_bit(0));
    other_page.set_items(0, item_bit(1));
    // The first publication wakes all, as does each one after a quarter of the ring.
    for (item, sequence, expected) in
        [(0, 1, (true, true)), (0, 2, (true, false)), (1, 1, (false, true)), (1, 2, (false, true))]
    {
        one_page.announce_wait(true);
        other_page.announce_wait(true);
        let payload = vec![1];
        let fragment = Fragment { sequence, total_bytes: 1, offset: 0, payload };
        publisher.send(&mut node, &Request::Data { item, fragment }, None);
        // A reader that was woken does not wait any more.
        let was_woken = |page: &ReaderPage| page.wake() == Wakeup::Unneeded;
        let woken = (was_woken(&one_page), was_woken(&other_page));
        assert_eq!(woken, expected, "item {item}, publication {sequence}");
    }
}
