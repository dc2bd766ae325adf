//! Client of the router's event loop: one query at a time, and at most a tenth of the loop's time.

use crate::api_error::ApiError;
use core::time::Duration;
use nw_router::Handle;
use nw_router::introspection::{Query as RouterQuery, QueryReply};
use std::sync::Arc;
use tokio::sync::{Mutex, oneshot};
use tokio::time::{Instant, sleep_until, timeout};

/// Longest time to wait for a reply.
const REPLY_TIMEOUT: Duration = Duration::from_secs(10);
/// After a query, no other is sent for this many times the time that the loop spent on it.
const IDLE_FACTOR: u32 = 9;

/// Sends the queries of all requests to one router.
#[derive(Clone)]
pub struct RouterClient {
    handle: Handle,
    /// When the next query may be sent. Locked while a query is in progress.
    next_query: Arc<Mutex<Instant>>,
}

impl RouterClient {
    /// Creates a client of the router behind `handle`.
    pub fn new(handle: Handle) -> Self {
        RouterClient { handle, next_query: Arc::new(Mutex::new(Instant::now())) }
    }

    /// Sends a query as soon as the loop's share of time allows it, and waits for the reply.
    ///
    /// # Errors
    /// 503 if the router has too many requests or has stopped, 504 if it does not reply within 10
    /// s.
    pub async fn query(&self, query: RouterQuery) -> Result<QueryReply, ApiError> {
        let (sender, receiver) = oneshot::channel();
        // A command may wait long for its face to connect; other queries continue meanwhile.
        let is_command = matches!(query, RouterQuery::Command(..));
        let mut next_query = self.next_query.lock().await;
        sleep_until(*next_query).await;
        self.handle.query(query, move |reply, spent| {
            // Fails if the client of this request has disconnected.
            let _ = sender.send((reply, spent));
        })?;
        if is_command {
            drop(next_query);
            let (reply, _) = wait_for_reply(receiver).await?;
            return Ok(reply);
        }
        let (reply, spent) = wait_for_reply(receiver).await?;
        *next_query = Instant::now() + spent * IDLE_FACTOR;
        Ok(reply)
    }
}

async fn wait_for_reply(
    receiver: oneshot::Receiver<(QueryReply, Duration)>,
) -> Result<(QueryReply, Duration), ApiError> {
    match timeout(REPLY_TIMEOUT, receiver).await {
        Ok(Ok(reply)) => Ok(reply),
        Ok(Err(_)) => Err(ApiError::new(503, "the router has stopped")),
        Err(_) => Err(ApiError::new(504, "the router did not reply within 10 s")),
    }
}
