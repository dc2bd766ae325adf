//! Looks at the control member's routes again and again. A look costs a question and its answer while nothing changes, with routers that tell versions
//! of datasets; with others it costs the whole list, and long lists are read no more than a fifth of the time.

use super::board::Board;
use super::router::{Fetched, Router};
use super::snapshot::{Seen, Snapshot};
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
use std::time::Instant;

/// Who is looked at: a member's name and its router's socket.
pub type Source = Arc<Mutex<Option<(String, PathBuf)>>>;

/// What a look brought.
#[derive(Clone, Debug)]
pub enum Looked {
    /// Something changed.
    Changed {
        /// For people.
        status: ReplicaStatus,
        /// Peers that take packets from the cluster's port only.
        one_port_peers: BTreeSet<SocketAddr>,
    },
    /// The member's router went away.
    Lost(String),
    /// It could not be asked.
    Trouble(String, String),
    /// It could be asked again.
    Well(String),
}

/// See the module.
pub struct Watcher<F> {
    /// Where to look.
    pub source: Source,
    /// Where snapshots go.
    pub board: Arc<Board>,
    /// How often.
    pub routes: Routes,
    /// The cluster's addresses.
    pub cluster: Vec<IpAddr>,
    /// Ends it.
    pub stop: Arc<AtomicBool>,
    /// Hears what is new.
    pub tell: F,
}

/// A look that takes long makes the next one wait so many times as long.
const REST_TIMES: u32 = 4;
/// But never longer than this.
const REST_MAX: Duration = Duration::from_secs(5);
/// A list of fewer octets is no burden to anybody.
const READ_LEN: usize = 64 << 10;
const RETRY: Duration = Duration::from_millis(500);
const STOP_LATENCY: Duration = Duration::from_millis(50);

/// What was seen last.
#[derive(Default)]
struct Known {
    rib: Option<u64>,
    rib_content: Vec<u8>,
    strategies: Option<u64>,
    strategies_content: Vec<u8>,
    /// The last look read a list.
    read: bool,
}

impl<F: FnMut(Looked)> Watcher<F> {
    /// Looks until it is stopped.
    pub fn run(mut self) {
        let mut snapshot = Snapshot::default();
        while !self.stop.load(Ordering::Relaxed) {
            let source = self.source();
            let Some((name, path)) = source else {
                std::thread::sleep(STOP_LATENCY);
                continue;
            };
            let error = match Router::connect(&path, Arc::clone(&self.stop)) {
                Ok(router) => self.watch(router, &name, &mut snapshot),
                Err(error) => Err(error.into()),
            };
            match error {
                Ok(()) => continue,
                Err(ControlError::Client(nw_app::ClientError::Closed(_))) => (self.tell)(Looked::Lost(name)),
                Err(error) => (self.tell)(Looked::Trouble(name, error.to_string())),
            }
            self.pause(RETRY);
        }
    }

    fn source(&self) -> Option<(String, PathBuf)> {
        self.source.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Until another member is to be looked at, or it fails.
    fn watch(&mut self, mut router: Router, name: &str, snapshot: &mut Snapshot) -> Result<(), ControlError> {
        let mut known = Known::default();
        let mut first = true;
        while !self.stop.load(Ordering::Relaxed) && self.source().is_some_and(|(now, _)| now == name) {
            let start = Instant::now();
            let seen = self.look(&mut router, &mut known)?;
            if core::mem::take(&mut first) {
                (self.tell)(Looked::Well(name.to_owned()));
            }
            let took = start.elapsed();
            let interval = Duration::from_millis(u64::from(self.routes.interval_ms));
            // A question that nothing had to be read for costs nothing, however busy this machine is.
            let rest = if known.read { (took * REST_TIMES).min(REST_MAX) } else { Duration::ZERO };
            if let Some(seen) = seen {
                self.publish(seen, took, snapshot);
            }
            self.pause(interval.max(rest));
        }
        Ok(())
    }

    fn look(&self, router: &mut Router, known: &mut Known) -> Result<Option<Seen>, ControlError> {
        let mut changed = false;
        known.read = false;
        for (dataset, version, content) in [
            (Dataset::RibList, &mut known.rib, &mut known.rib_content),
            (Dataset::StrategyChoiceList, &mut known.strategies, &mut known.strategies_content),
        ] {
            if let Fetched::New(number, new) = router.dataset(dataset, *version)? {
                known.read |= new.len() > READ_LEN;
                *version = number;
                changed |= new != *content || new.is_empty();
                *content = new;
            }
        }
        if !changed {
            return Ok(None);
        }
        let unreadable = |what: Dataset| move |error| ControlError::Answer { what: what.to_string(), error };
        let rib = decode_items(&known.rib_content).map_err(unreadable(Dataset::RibList))?;
        let strategies =
            decode_items(&known.strategies_content).map_err(unreadable(Dataset::StrategyChoiceList))?;
        // Behind the routes, so that the faces of all of them are there.
        let faces = router.faces()?;
        Ok(Some(Seen::of(rib, &faces, strategies, &self.cluster, self.routes.routes_max as usize)))
    }

    fn publish(&mut self, seen: Seen, took: Duration, snapshot: &mut Snapshot) {
        let same = snapshot.routes == seen.snapshot.routes && snapshot.strategies == seen.snapshot.strategies;
        if !same || snapshot.generation == 0 {
            let generation = snapshot.generation + 1;
            *snapshot = Snapshot { generation, ..seen.snapshot };
            self.board.put(snapshot.clone());
        }
        let status = ReplicaStatus {
            generation: snapshot.generation,
            routes: snapshot.routes.len() as u64,
            strategies: snapshot.strategies.len() as u64,
            skipped: seen.skipped,
            one_port_peers: seen.one_port_peers.len() as u64,
            look_ms: took.as_millis() as u64,
        };
        (self.tell)(Looked::Changed { status, one_port_peers: seen.one_port_peers });
    }

    fn pause(&self, time: Duration) {
        let end = Instant::now() + time;
        while Instant::now() < end && !self.stop.load(Ordering::Relaxed) {
            std::thread::sleep(STOP_LATENCY.min(end.saturating_duration_since(Instant::now())));
        }
    }
}
