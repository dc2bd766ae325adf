//! Results of a bulk run: each file, a time series, and what they come to.

use super::BulkPlan;
use serde::{Deserialize, Serialize};

/// Part of a run that is left out of the share of the link: it takes a moment to fill.
const START_SHARE: f64 = 0.1;

/// One file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BulkFile {
    /// Number of the file, from 0.
    pub file: u64,
    /// Start of its download, seconds.
    pub start_s: f64,
    /// Arrival of its last segment, seconds; `None` if it was given up.
    pub stop_s: Option<f64>,
    /// Interests sent.
    pub interests: u64,
    /// Interests sent again.
    pub retransmissions: u64,
    /// Nacks received.
    pub nacks: u64,
    /// Data with a congestion mark.
    pub marks: u64,
    /// Why it was given up.
    pub error: Option<String>,
}

/// State at one moment, and rates since the previous one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BulkSample {
    /// Seconds since the start.
    pub at_s: f64,
    /// Content received, Mbit/s.
    pub goodput_mbit: f64,
    /// Bytes received by the router from other machines, Mbit/s; `None` if it does not say.
    pub link_mbit: Option<f64>,
    /// Pending Interests of the router; `None` if it does not say.
    pub pending: Option<u64>,
    /// Outstanding Interests of the consumers.
    pub outstanding: u64,
    /// Interests sent again, per second.
    pub retransmissions_per_s: f64,
    /// Nacks received, per second.
    pub nacks_per_s: f64,
    /// Marked Data received, per second.
    pub marks_per_s: f64,
}

/// The link that limits a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Link {
    /// Rate, Mbit/s.
    pub rate_mbit: f64,
    /// Round-trip time without queues, milliseconds.
    pub rtt_ms: f64,
    /// Bytes that a segment takes on the link, with all headers.
    pub segment_bytes: f64,
}

/// What a run comes to.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct BulkSummary {
    /// Files that were started.
    pub files: u64,
    /// Files that are complete.
    pub complete: u64,
    /// Time until the last file was complete, seconds.
    pub seconds: f64,
    /// Mean goodput from the first tenth of the run to its end, Mbit/s.
    pub goodput_mbit: f64,
    /// Share of the Interests that were sent again.
    pub retransmitted_share: f64,
    /// Longest download, seconds.
    pub file_s_max: f64,
    /// Median download, seconds.
    pub file_s_median: f64,
    /// Smallest Jain's index of the download rates of files started in the same second, after the
    /// first tenth of the run where there are several seconds.
    pub jain: f64,
    /// Most pending Interests of the router after the first tenth, else of the consumers.
    pub pending_max: u64,
    /// Goodput as a share of what the link carries in content, while there is enough to download.
    pub goodput_share: Option<f64>,
    /// Pending Interests in units of the link's bandwidth-delay product.
    pub pending_in_bdp: Option<f64>,
    /// Time for all files as a multiple of the time that the link takes for them.
    pub time_share: Option<f64>,
}

/// A whole run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BulkResult {
    /// Which router, or "simulator".
    pub router: String,
    /// Files started per second.
    pub files_per_s: f64,
    /// Seconds in which files were started.
    pub start_seconds: f64,
    /// Bytes of a file.
    pub file_bytes: u64,
    /// Bytes of content of a segment.
    pub payload: u64,
    /// The link, if it is known.
    pub link: Option<Link>,
    /// The files.
    pub samples: Vec<BulkSample>,
    /// The time series.
    pub files: Vec<BulkFile>,
    /// What they come to.
    pub summary: BulkSummary,
}

impl BulkResult {
    /// Computes the summary of a run.
    pub fn new(
        router: String,
        plan: &BulkPlan,
        link: Option<Link>,
        files: Vec<BulkFile>,
        samples: Vec<BulkSample>,
    ) -> Self {
        let summary = summarize(plan, link, &files, &samples);
        BulkResult {
            router,
            files_per_s: plan.files_per_s,
            start_seconds: plan.seconds,
            file_bytes: plan.file_bytes,
            payload: plan.payload as u64,
            link,
            samples,
            files,
            summary,
        }
    }
}

/// Returns Jain's index of some rates: 1 if all are equal, 1/n if one has everything.
pub fn jain(rates: &[f64]) -> f64 {
    let (sum, squares) = (rates.iter().sum::<f64>(), rates.iter().map(|r| r * r).sum::<f64>());
    if squares > 0.0 { sum * sum / (rates.len() as f64 * squares) } else { 1.0 }
}

fn summarize(
    plan: &BulkPlan,
    link: Option<Link>,
    files: &[BulkFile],
    samples: &[BulkSample],
) -> BulkSummary {
    let mut times: Vec<f64> =
        files.iter().filter_map(|file| Some(file.stop_s? - file.start_s)).collect();
    times.sort_by(f64::total_cmp);
    let last_sample = samples.last().map_or(0.0, |sample| sample.at_s);
    let is_complete = times.len() == files.len();
    let seconds = match is_complete {
        true => files.iter().filter_map(|file| file.stop_s).fold(0.0, f64::max),
        false => last_sample,
    };
    let from = seconds * START_SHARE;
    let later: Vec<&BulkSample> =
        samples.iter().filter(|s| s.at_s > from && s.at_s <= seconds + 1e-9).collect();
    let interests: u64 = files.iter().map(|file| file.interests).sum();
    let again: u64 = files.iter().map(|file| file.retransmissions).sum();
    let pending_max =
        later.iter().map(|sample| sample.pending.unwrap_or(sample.outstanding)).max().unwrap_or(0);
    let segments = files.len() as f64 * plan.segments() as f64;
    let link_s = link.map(|link| segments * link.segment_bytes * 8.0 / link.rate_mbit / 1e6);
    // Files that come slower than the link carries them leave it idle in between.
    let demand_s = link_s.map(|link_s| {
        let last_start = files.last().map_or(0.0, |file| file.start_s);
        link_s.max(last_start + link_s / files.len().max(1) as f64)
    });
    let goodput_mbit = mean_goodput(&later, from);
    let bdp = |link: Link| link.rate_mbit * 1e3 * link.rtt_ms / 8.0 / link.segment_bytes;
    BulkSummary {
        files: files.len() as u64,
        complete: times.len() as u64,
        seconds,
        goodput_mbit,
        retransmitted_share: again as f64 / interests.max(1) as f64,
        file_s_max: times.last().copied().unwrap_or(f64::NAN),
        file_s_median: times.get(times.len() / 2).copied().unwrap_or(f64::NAN),
        jain: jain_of_seconds(files, from),
        pending_max,
        goodput_share: link.zip(demand_s).map(|(link, demand_s)| {
            let content = segments * plan.payload as f64 * 8.0 / 1e6;
            let possible =
                (link.rate_mbit * plan.payload as f64 / link.segment_bytes).min(content / demand_s);
            goodput_mbit / possible
        }),
        pending_in_bdp: link.filter(|l| l.rtt_ms > 0.0).map(|l| pending_max as f64 / bdp(l)),
        time_share: demand_s.map(|demand_s| seconds / demand_s),
    }
}

fn mean_goodput(later: &[&BulkSample], from: f64) -> f64 {
    let (mut before, mut content, mut first) = (from, 0.0, None);
    for sample in later {
        content += sample.goodput_mbit * (sample.at_s - before);
        first.get_or_insert(before);
        before = sample.at_s;
    }
    first.map_or(0.0, |first| content / (before - first).max(1e-9))
}

/// Returns the smallest index of the files of one second. A file that was given up has rate 0.
fn jain_of_seconds(files: &[BulkFile], from: f64) -> f64 {
    let last = files.last().map_or(0.0, |file| file.start_s) as u64;
    let first = if last > 0 { from.ceil() as u64 } else { 0 };
    let of_second = |second: u64| {
        let same = files.iter().filter(|file| (file.start_s + 1e-9) as u64 == second);
        let rate = |file: &BulkFile| file.stop_s.map_or(0.0, |stop| 1.0 / (stop - file.start_s));
        jain(&same.map(rate).collect::<Vec<_>>())
    };
    (first.min(last)..=last).map(of_second).fold(1.0, f64::min)
}
