//! Polls the control member's routes and publishes them as snapshots.
//!
//! With routers whose dataset versions identify the content, a poll without changes costs one
//! Interest and its Data. With others it costs the whole list; after a long list the watcher idles
//! for four times as long as the poll took.

use super::management_client::{Fetched, ManagementClient};
use super::shared_snapshot::SharedSnapshot;
use super::snapshot::{RouterState, Snapshot};
use crate::config::Routes;
use core::time::Duration;
use nw_api::balancer::ReplicaStatus;
use nw_api::management::Dataset;
use nw_api::management::client::decode_items;
use nw_app::control::ControlError;
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The member to poll: its name and its router's socket. `None`: no member.
pub type Source = Arc<Mutex<Option<(String, PathBuf)>>>;

/// An event of the watcher.
#[derive(Clone, Debug)]
pub enum WatchEvent {
    /// Routes or strategies changed.
    Changed {
        /// A summary for `nw balancer status`.
        status: ReplicaStatus,
        /// Peers that accept packets from the cluster's port only.
        one_port_peers: BTreeSet<SocketAddr>,
    },
    /// The router of this member closed the connection.
    ConnectionLost(String),
    /// Polling this member failed, for this reason.
    Failed(String, String),
    /// Polling this member works again.
    Recovered(String),
}

/// Polls the control member's routes in a thread of its own.
pub struct RouteWatcher<F> {
    /// The member to poll. May be changed at any time.
    pub source: Source,
    /// Where snapshots are published.
    pub shared_snapshot: Arc<SharedSnapshot>,
    /// The polling options.
    pub routes: Routes,
    /// The cluster's addresses.
    pub cluster: Vec<IpAddr>,
    /// Set to end the thread.
    pub stop: Arc<AtomicBool>,
    /// Called with each event.
    pub on_event: F,
}

/// After a poll that read a long list, the watcher idles this many times as long as the poll took.
const IDLE_FACTOR: u32 = 4;
/// Maximum idle time after a long list.
const IDLE_MAX: Duration = Duration::from_secs(5);
/// A list shorter than this does not count as long, bytes.
const LONG_LIST_LEN: usize = 64 << 10;
const RETRY: Duration = Duration::from_millis(500);
const STOP_LATENCY: Duration = Duration::from_millis(50);

/// The datasets read last.
#[derive(Default)]
struct LastRead {
    rib_version: Option<u64>,
    rib_content: Vec<u8>,
    strategies_version: Option<u64>,
    strategies_content: Vec<u8>,
    /// The last poll read a long list.
    was_long: bool,
}

impl<F: FnMut(WatchEvent)> RouteWatcher<F> {
    /// Polls until it is stopped.
    pub fn run(mut self) {
        let mut snapshot = Snapshot::default();
        while !self.stop.load(Ordering::Relaxed) {
            let source = self.source();
            let Some((name, path)) = source else {
                std::thread::sleep(STOP_LATENCY);
                continue;
            };
            let error = match ManagementClient::connect(&path, Arc::clone(&self.stop)) {
                Ok(router) => self.watch(router, &name, &mut snapshot),
                Err(error) => Err(error.into()),
            };
            match error {
                Ok(()) => continue,
                Err(ControlError::Client(nw_app::ClientError::Closed(_))) => {
                    (self.on_event)(WatchEvent::ConnectionLost(name))
                }
                Err(error) => (self.on_event)(WatchEvent::Failed(name, error.to_string())),
            }
            self.pause(RETRY);
        }
    }

    fn source(&self) -> Option<(String, PathBuf)> {
        self.source.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Polls one router until another member is to be polled or an error occurs.
    fn watch(
        &mut self,
        mut router: ManagementClient,
        name: &str,
        snapshot: &mut Snapshot,
    ) -> Result<(), ControlError> {
        let mut last_read = LastRead::default();
        let mut first = true;
        while !self.stop.load(Ordering::Relaxed)
            && self.source().is_some_and(|(now, _)| now == name)
        {
            let start = Instant::now();
            let state = self.poll(&mut router, &mut last_read)?;
            if core::mem::take(&mut first) {
                (self.on_event)(WatchEvent::Recovered(name.to_owned()));
            }
            let took = start.elapsed();
            let interval = Duration::from_millis(u64::from(self.routes.interval_ms));
            // A poll without a long list costs next to nothing, however long it took on a busy
            // machine.
            let idle = if last_read.was_long {
                (took * IDLE_FACTOR).min(IDLE_MAX)
            } else {
                Duration::ZERO
            };
            if let Some(state) = state {
                self.publish(state, took, snapshot);
            }
            self.pause(interval.max(idle));
        }
        Ok(())
    }

    fn poll(
        &self,
        router: &mut ManagementClient,
        last_read: &mut LastRead,
    ) -> Result<Option<RouterState>, ControlError> {
        let mut changed = false;
        last_read.was_long = false;
        for (dataset, version, content) in [
            (Dataset::RibList, &mut last_read.rib_version, &mut last_read.rib_content),
            (
                Dataset::StrategyChoiceList,
                &mut last_read.strategies_version,
                &mut last_read.strategies_content,
            ),
        ] {
            if let Fetched::New(number, new) = router.dataset(dataset, *version)? {
                last_read.was_long |= new.len() > LONG_LIST_LEN;
                *version = number;
                changed |= new != *content || new.is_empty();
                *content = new;
            }
        }
        if !changed {
            return Ok(None);
        }
        let malformed =
            |what: Dataset| move |error| ControlError::Answer { what: what.to_string(), error };
        let rib = decode_items(&last_read.rib_content).map_err(malformed(Dataset::RibList))?;
        let strategies = decode_items(&last_read.strategies_content)
            .map_err(malformed(Dataset::StrategyChoiceList))?;
        // Read after the routes, so that the faces of all routes are in the list.
        let faces = router.faces()?;
        Ok(Some(RouterState::of(
            rib,
            &faces,
            strategies,
            &self.cluster,
            self.routes.routes_max as usize,
        )))
    }

    fn publish(&mut self, state: RouterState, took: Duration, snapshot: &mut Snapshot) {
        let same = snapshot.routes == state.snapshot.routes
            && snapshot.strategies == state.snapshot.strategies;
        if !same || snapshot.generation == 0 {
            let generation = match snapshot.generation {
                0 => first_generation(),
                before => before + 1,
            };
            *snapshot = Snapshot { generation, ..state.snapshot };
            self.shared_snapshot.publish(snapshot.clone());
        }
        let status = ReplicaStatus {
            generation: snapshot.generation,
            routes: snapshot.routes.len() as u64,
            strategies: snapshot.strategies.len() as u64,
            skipped: state.skipped,
            one_port_peers: state.one_port_peers.len() as u64,
            look_ms: took.as_millis() as u64,
        };
        (self.on_event)(WatchEvent::Changed { status, one_port_peers: state.one_port_peers });
    }

    fn pause(&self, time: Duration) {
        let end = Instant::now() + time;
        while Instant::now() < end && !self.stop.load(Ordering::Relaxed) {
            std::thread::sleep(STOP_LATENCY.min(end.saturating_duration_since(Instant::now())));
        }
    }
}

/// Returns the generation of the first snapshot: milliseconds since 1970, which exceeds all
/// generations of an earlier process. An agent that outlives its balancer would take an equal
/// number for the routes that it has.
fn first_generation() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(1, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX / 2).max(1))
}
