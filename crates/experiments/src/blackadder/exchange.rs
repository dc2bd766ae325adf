//! The NDN side of figures 8 and 9: Interests with a window, answered from a content store or by a
//! producer at the first node of a chain.

use super::node::{LocalNode, NodeNetwork, failed};
use crate::mundn::exchange::{Answers, Names, Producer, ask, workload};
use crate::testbed::{Failure, Watch};
use nw_app::FaceUri;
use nw_traffic::number_range::NumberRange;
use nw_traffic::workload::Workload;
use std::path::Path;
use std::time::Duration;

const WINDOW: usize = 64;
/// Time for a producer's prefix to be registered.
const CONNECT_TIME: Duration = Duration::from_millis(150);
/// Names that the content store answers.
const CACHED_NAMES: usize = 1000;
/// FreshnessPeriod of Data, milliseconds.
const FRESHNESS_MS: u64 = 3_600_000;

fn uri(path: &Path) -> Result<FaceUri, Failure> {
    let text = format!("unix://{}", path.display());
    text.parse().map_err(|error| failed("the socket", error))
}

fn requests(names: Names, payload: usize) -> Workload {
    let prefix = "/ndn".parse().expect("a name");
    Workload { prefix, payload: NumberRange::exactly(payload), ..workload(names) }
}

/// Returns requests whose names no later ones have, so that no cache answers those.
fn requests_of_first_contact(payload: usize) -> Workload {
    let workload = requests(Names::New, payload);
    Workload { seed: workload.seed + 1_000_000_000, ..workload }
}

/// Returns the content that a consumer gets from the content store of a node, MB/s.
pub(super) fn from_store(
    node: &LocalNode,
    payload: usize,
    seconds: f64,
    watch: &Watch<'_>,
) -> Result<f64, Failure> {
    let (uri, requests) = (uri(&node.ndn_path())?, requests(Names::Again(CACHED_NAMES), payload));
    let producer = Producer::start(&uri, &requests, Answers::Generated(FRESHNESS_MS), true)?;
    std::thread::sleep(CONNECT_TIME);
    ask(&uri, &requests, (WINDOW, seconds / 2.0), watch, || {})?;
    drop(producer);
    let outcome = ask(&uri, &requests, (WINDOW, seconds), watch, || {})?;
    Ok(outcome.answered_per_s * payload as f64 / 1e6)
}

/// Returns the content that a consumer at a node gets from a producer at node 0, MB/s. Each name is
/// new, so no cache helps. The first Interests over a chain open its faces and find addresses,
/// which takes longer than a short run: they are not measured.
pub(super) fn through_chain(
    nodes: &NodeNetwork,
    consumer: usize,
    payload: usize,
    seconds: f64,
    watch: &Watch<'_>,
) -> Result<f64, Failure> {
    let requests = requests(Names::New, payload);
    let producer_uri = uri(&nodes.ndn_path(0))?;
    let answers = Answers::Generated(FRESHNESS_MS);
    let _producer = Producer::start(&producer_uri, &requests, answers, true)?;
    std::thread::sleep(CONNECT_TIME);
    let consumer = uri(&nodes.ndn_path(consumer))?;
    let first = requests_of_first_contact(payload);
    ask(&consumer, &first, (WINDOW, seconds / 2.0), watch, || {})?;
    let outcome = ask(&consumer, &requests, (WINDOW, seconds), watch, || {})?;
    Ok(outcome.answered_per_s * payload as f64 / 1e6)
}
