//! Events about publishers and subscribers that come and go.

use super::connection::{Connection, PubSubError, PubSubOptions};
use core::time::Duration;
use nw_api::pubsub::{Event, Request, ScopePattern};
use std::collections::VecDeque;
use std::time::Instant;

/// Longest wait without looking at the clock.
const SLICE: Duration = Duration::from_millis(100);

/// A publisher or subscriber that is here, or is no longer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Presence {
    /// Whether it is a publisher.
    pub is_publisher: bool,
    /// Whether it is here.
    pub is_here: bool,
    /// Name of the item, or pattern of the subscription.
    pub name: String,
    /// Its node; `None` for the node that the watcher is connected to.
    pub node: Option<u64>,
    /// Number of its connection; 0 for other nodes.
    pub session: u64,
    /// Its program, in its own words; empty for other nodes.
    pub program: String,
}

/// Receives events about publishers and subscribers.
#[derive(Debug)]
pub struct PresenceWatcher {
    connection: Connection,
    events: VecDeque<Presence>,
}

impl PresenceWatcher {
    /// Connects to a node.
    ///
    /// # Errors
    /// If no node can be reached.
    pub fn connect(options: &PubSubOptions) -> Result<Self, PubSubError> {
        let options = PubSubOptions { shared_memory: false, ..options.clone() };
        Ok(PresenceWatcher { connection: Connection::open(&options)?, events: VecDeque::new() })
    }

    /// Watches publishers whose items match a pattern, and subscribers whose patterns overlap it.
    /// Those that are here are reported first.
    ///
    /// # Errors
    /// If the node refuses it, or the connection is lost.
    pub fn watch(&mut self, pattern: &ScopePattern) -> Result<(), PubSubError> {
        let request = self.connection.new_request();
        let pattern = pattern.to_string();
        self.connection.send(&Request::Watch { request, pattern }, None)?;
        self.connection.reply(request)
    }

    /// Waits for the next event, at most `timeout`. `None` if there is none in time.
    ///
    /// # Errors
    /// If the connection is lost; all events before are returned first.
    pub fn receive(&mut self, timeout: Duration) -> Result<Option<Presence>, PubSubError> {
        let deadline = Instant::now() + timeout;
        loop {
            if let Some(event) = self.events.pop_front() {
                return Ok(Some(event));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            self.connection.wait(left.min(SLICE));
            for (event, _) in self.connection.take_events()? {
                if let Event::Presence { is_publisher, is_here, node, session, name, program } =
                    event
                {
                    let node = Some(node).filter(|node| *node != 0);
                    let presence = Presence { is_publisher, is_here, name, node, session, program };
                    self.events.push_back(presence);
                }
            }
            if left.is_zero() && self.events.is_empty() {
                return Ok(None);
            }
        }
    }
}
