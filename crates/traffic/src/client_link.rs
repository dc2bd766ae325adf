//! A client's face to a router, as the link of a generator.

use super::link::{Link, Reply, wake_on_time};
use core::time::Duration;
use nw_app::client::plain_token;
use nw_app::{Client, ClientError};
use nw_element_api::{Kind, LinkFields, Timestamp};

/// A link over an application's client.
#[derive(Debug)]
pub struct ClientLink {
    client: Client,
}

impl ClientLink {
    /// Creates a link over this client. The flag of [`Client::stop_when`] ends the run.
    pub fn new(client: Client) -> Self {
        wake_on_time();
        ClientLink { client }
    }
}

impl Link for ClientLink {
    type Error = ClientError;

    fn now(&self) -> Duration {
        self.client.now().since(Timestamp::START)
    }

    fn send(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        // A token shows the router that this end returns tokens.
        let link = LinkFields { token: plain_token(), ..LinkFields::default() };
        self.client.send_written(link, write);
    }

    fn poll(
        &mut self,
        wait: Duration,
        mut on_reply: impl FnMut(Duration, Reply<'_>),
    ) -> Result<bool, ClientError> {
        let polled = self.client.poll(Some(wait), |now, received, _| {
            let name = received.name();
            let reply = match received.kind() {
                Kind::Data => {
                    Reply::Data { name, len: received.wire.len(), is_marked: received.is_marked() }
                }
                Kind::Nack => Reply::Nack { name, reason: received.nack().unwrap_or_default() },
                Kind::Interest | Kind::Publication => return,
            };
            on_reply(now.since(Timestamp::START), reply);
        });
        match polled {
            Ok(_) => Ok(true),
            Err(ClientError::Interrupted) => Ok(false),
            Err(error) => Err(error),
        }
    }
}
