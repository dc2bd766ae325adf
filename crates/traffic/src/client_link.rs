//! A face to a router, as a generator's link.

use super::link::{Arrival, Link, wake_on_time};
use core::time::Duration;
use nw_app::client::plain_token;
use nw_app::{Client, ClientError};
use nw_element_api::{Instant, Kind, LinkFields};

/// A client whose packets a generator makes.
#[derive(Debug)]
pub struct ClientLink {
    client: Client,
}

impl ClientLink {
    /// By this client. Its [`stop_when`](Client::stop_when) ends the run.
    pub fn new(client: Client) -> Self {
        wake_on_time();
        ClientLink { client }
    }
}

impl Link for ClientLink {
    type Error = ClientError;

    fn now(&self) -> Duration {
        self.client.now().since(Instant::START)
    }

    fn send(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        // A token tells a router that this end understands them.
        let link = LinkFields { token: plain_token(), ..LinkFields::default() };
        self.client.send_written(link, write);
    }

    fn turn(
        &mut self,
        wait: Duration,
        mut arrived: impl FnMut(Duration, Arrival<'_>),
    ) -> Result<bool, ClientError> {
        let turned = self.client.turn(Some(wait), |now, received, _| {
            let name = received.name();
            let arrival = match received.kind() {
                Kind::Data => {
                    Arrival::Data { name, octets: received.wire.len(), is_marked: received.is_marked() }
                }
                Kind::Nack => Arrival::Nack { name, reason: received.nack().unwrap_or_default() },
                Kind::Interest => return,
            };
            arrived(now.since(Instant::START), arrival);
        });
        match turned {
            Ok(_) => Ok(true),
            Err(ClientError::Interrupted) => Ok(false),
            Err(error) => Err(error),
        }
    }
}
