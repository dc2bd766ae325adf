//! "Bulk of Interest" (SIGCOMM 2012): parallel downloads over one link, with 2, 10 and 100 files a
//! second. In the simulator, also at 10 Gbit/s and over 20 hops; and with real routers in a chain
//! of network namespaces, this project's and others, one after the other.

mod report;
mod simulated;

pub use report::{BulkReport, bulk_page};
pub use simulated::{SimulatedChain, simulate};

use crate::paper_data::Number;
use crate::testbed::{Failure, Watch};
use nw_api::management::Dataset;
use nw_api::management::client::decode_status;
use nw_app::{Client, ClientError, control};
use nw_testbed::{Chain, ChainPlan};
use nw_traffic::bulk::{BulkPlan, BulkResult, Link, RouterSample, download};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Content of a segment, bytes.
const PAYLOAD: usize = 8000;
/// Time between two questions to a router.
const STATUS_INTERVAL: Duration = Duration::from_millis(90);
/// Bytes of a segment's Data, with names of this experiment.
const DATA_LEN: f64 = 8070.0;
/// Content and headers of an Ethernet frame of 1514 bytes.
const FRAME: (f64, f64) = (1450.0, 64.0);

/// The paper's numbers.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Paper {
    /// Title.
    pub title: String,
    /// Authors.
    pub authors: String,
    /// Numbers by name.
    pub number: BTreeMap<String, Number>,
}

impl Paper {
    /// Reads the file that is built into this crate.
    pub fn read() -> Paper {
        toml::from_str(include_str!("../../data/bulk.toml")).expect("a test parses the file")
    }

    /// Returns the first value of a number by its name.
    pub fn value(&self, name: &str) -> f64 {
        self.number[name].values[0]
    }
}

/// Returns the downloads of the paper at one load: 20 files at 2 a second, 100 files otherwise.
pub fn paper_plan(files_per_s: f64) -> BulkPlan {
    BulkPlan {
        prefix: "/bulk".parse().expect("a name"),
        files_per_s,
        seconds: if files_per_s >= 100.0 { 1.0 } else { 10.0 },
        file_bytes: 1_250_000,
        payload: PAYLOAD,
        lifetime_ms: 4000,
        window_max: 256,
    }
}

/// Runs one load through a chain of real routers, which is built and removed. `name` is the
/// router's in the report.
///
/// # Errors
/// Returns an error that says what this machine lacks, or [`Failure::Interrupted`]. Nothing is left
/// behind.
pub fn through_chain(
    plan: &ChainPlan,
    name: &str,
    files_per_s: f64,
    watch: &Watch<'_>,
) -> Result<BulkResult, Failure> {
    let downloads = paper_plan(files_per_s);
    let mut chain = Chain::build(plan)?;
    chain.serve(&downloads.prefix, PAYLOAD)?;
    (watch.progress)(&format!("{name}: {files_per_s} files a second"));
    let link = Link {
        rate_mbit: plan.rate_mbit,
        rtt_ms: 2.0 * plan.delay_ms,
        segment_bytes: DATA_LEN + (DATA_LEN / FRAME.0).ceil() * FRAME.1,
    };
    let (status, done) = (Mutex::new(None), AtomicBool::new(false));
    let interrupted = Arc::new(AtomicBool::new(false));
    let mut client = Client::connect(&chain.near().uri()).map_err(failure)?;
    client.stop_when(Arc::clone(&interrupted));
    let result = std::thread::scope(|scope| {
        scope.spawn(|| watch_chain(&chain, &status, &done));
        let download = scope.spawn(|| {
            let result = download(&mut client, &downloads, name, Some(link), &status);
            done.store(true, Ordering::Relaxed);
            result
        });
        while !done.load(Ordering::Relaxed) {
            interrupted.store((watch.is_interrupted)(), Ordering::Relaxed);
            std::thread::sleep(STATUS_INTERVAL);
        }
        download.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    if (watch.is_interrupted)() {
        return Err(Failure::Interrupted);
    }
    result.map_err(failure)
}

fn failure(error: ClientError) -> Failure {
    Failure::Download(error.to_string())
}

/// Reads the near router's pending Interests and the bytes received on the link until `done`.
fn watch_chain(chain: &Chain, status: &Mutex<Option<RouterSample>>, done: &AtomicBool) {
    let Ok(mut client) = Client::connect(&chain.near().uri()) else { return };
    while !done.load(Ordering::Relaxed) {
        let general = control::dataset(&mut client, Dataset::StatusGeneral, None).ok();
        let general = general.and_then(|content| decode_status(&content).ok());
        let (Some(general), Ok(in_bytes)) = (general, chain.received_bytes()) else { return };
        let sample = RouterSample { pending: general.pit_entries, in_bytes };
        *status.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(sample);
        std::thread::sleep(STATUS_INTERVAL);
    }
}

#[cfg(test)]
mod tests;
