//! iceoryx2: shared memory of a service. At full speed the subscriber polls, and sleeps 20 µs
//! where nothing is there; at a given pace it waits for an event, as a program with other work
//! would.

use crate::seen::{Failure, Load, Outcome, Seen, publish_all, report_ready};
use iceoryx2::prelude::*;
use iceoryx2::service::port_factory::{event, publish_subscribe};
use std::time::Duration;

const BUFFER: usize = 64;

type Publications = publish_subscribe::PortFactory<ipc::Service, [u8], ()>;
type Events = event::PortFactory<ipc::Service>;

fn open(address: &str, load: &Load) -> Result<(Publications, Events), Failure> {
    let node = NodeBuilder::new().create::<ipc::Service>()?;
    let publications = node
        .service_builder(&format!("nw-bench/{address}").as_str().try_into()?)
        .publish_subscribe::<[u8]>()
        .enable_safe_overflow(load.overwrites)
        .subscriber_max_buffer_size(BUFFER)
        .max_subscribers(16)
        .max_nodes(32)
        .open_or_create()?;
    let events = node
        .service_builder(&format!("nw-bench/{address}/event").as_str().try_into()?)
        .event()
        .max_listeners(16)
        .max_notifiers(16)
        .max_nodes(32)
        .open_or_create()?;
    Ok((publications, events))
}

/// Publishes a load.
pub fn publish(address: &str, load: &Load) -> Result<Outcome, Failure> {
    let (publications, events) = open(address, load)?;
    let publisher = publications
        .publisher_builder()
        .initial_max_slice_len(load.len)
        .backpressure_strategy(BackpressureStrategy::RetryUntilDelivered)
        .create()?;
    let notifier = events.notifier_builder().create()?;
    let send = |payload: &[u8]| {
        let sample = publisher.loan_slice_uninit(payload.len())?;
        sample.write_from_slice(payload).send()?;
        if load.interval_us > 0 {
            notifier.notify()?;
        }
        Ok(())
    };
    let outcome = publish_all(load, send, || Ok(()))?;
    // The memory stays until subscribers have read it.
    std::thread::sleep(Duration::from_secs(1));
    Ok(outcome)
}

/// Counts a load.
pub fn subscribe(address: &str, load: &Load) -> Result<Outcome, Failure> {
    let (publications, events) = open(address, load)?;
    let subscriber = publications.subscriber_builder().buffer_size(BUFFER).create()?;
    let listener = events.listener_builder().create()?;
    report_ready()?;
    let mut seen = Seen::new(load);
    while !seen.has_ended() {
        let mut is_empty = true;
        while let Some(sample) = subscriber.receive()? {
            seen.take(sample.payload());
            is_empty = false;
        }
        if is_empty && load.interval_us > 0 {
            listener.timed_wait(|_| {}, Duration::from_millis(100))?;
        } else if is_empty {
            std::thread::sleep(Duration::from_micros(20));
        }
    }
    Ok(seen.outcome())
}
