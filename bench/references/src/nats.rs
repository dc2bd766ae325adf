//! NATS, over its server on the loopback interface. The server keeps what a subscriber has not
//! taken up to a limit, and slows a fast publisher down; what exceeds the limits is lost.

use crate::seen::{Failure, Load, Outcome, Seen, publish_all, report_ready};
use async_nats::{Client, ConnectOptions};
use futures_util::StreamExt;
use std::time::Duration;
use tokio::runtime::Runtime;

const SUBJECT: &str = "bench.item";
/// Publications that a client queues: more than a row of small ones has in flight.
const CAPACITY: usize = 1 << 20;

async fn connect(address: &str) -> Result<Client, Failure> {
    let options = ConnectOptions::new().subscription_capacity(CAPACITY);
    Ok(options.connect(address).await?)
}

/// Publishes a load.
pub fn publish(address: &str, load: &Load) -> Result<Outcome, Failure> {
    let runtime = Runtime::new()?;
    let client = runtime.block_on(connect(address))?;
    let send = |payload: &[u8]| {
        let payload = payload.to_vec().into();
        Ok(runtime.block_on(client.publish(SUBJECT, payload))?)
    };
    publish_all(load, send, || Ok(runtime.block_on(client.flush())?))
}

/// Counts a load.
pub fn subscribe(address: &str, load: &Load) -> Result<Outcome, Failure> {
    let runtime = Runtime::new()?;
    runtime.block_on(async {
        let client = connect(address).await?;
        let mut subscriber = client.subscribe(SUBJECT).await?;
        client.flush().await?;
        report_ready()?;
        let mut seen = Seen::new(load);
        while !seen.has_ended() {
            // One timer for many publications.
            let some = async {
                for _ in 0..1024 {
                    match subscriber.next().await {
                        Some(message) => seen.take(&message.payload),
                        None => break,
                    }
                    if seen.is_complete() {
                        break;
                    }
                }
            };
            let _ = tokio::time::timeout(Duration::from_millis(100), some).await;
        }
        Ok(seen.outcome())
    })
}
