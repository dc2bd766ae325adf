//! What is known about each flow that crosses a short link: bytes of Data per Interest, and whether
//! its Data is due for a congestion mark.
//!
//! A flow whose Interests are not answered costs the link nothing, so it must not use up the credit
//! of others: its cost follows what it received. The table is bounded; the flow that was used least
//! recently goes first.

use core::time::Duration;
use nw_element_api::Timestamp;
use std::collections::HashMap;

/// Flows that are remembered.
const FLOWS_MAX: usize = 4096;
/// Cost of an Interest of a new flow, bytes, before any Data was received on the link.
const COST_FIRST: f64 = 4000.0;
/// Smallest cost of an Interest, bytes.
const COST_MIN: f64 = 100.0;
/// Interests of a flow before its own cost is used, and before it is no longer new.
const SENT_MIN: u32 = 64;
/// Age of a flow before its own cost is used: longer than Interests live by default, as those that
/// are still outstanding say nothing.
const AGE_MIN: Duration = Duration::from_secs(5);
/// Interests after which the sums are halved.
const SENT_MAX: u32 = 16_384;
/// A flow whose waiting time exceeds the target for this long is marked.
const MARK_INTERVAL: Duration = Duration::from_millis(100);

#[derive(Clone, Copy, Debug, Default)]
struct FlowState {
    sent: u32,
    bytes: f64,
    first_sent: Option<Timestamp>,
    used_at: Timestamp,
    /// Since when Interests waited longer than the target.
    late_since: Option<Timestamp>,
    marks: u32,
    is_mark_due: bool,
}

/// State of the flows of one face.
#[derive(Debug, Default)]
pub(super) struct FlowTable {
    flows: HashMap<u64, FlowState>,
    /// Mean length of Data, bytes.
    data_len: Option<f64>,
}

impl FlowTable {
    /// Returns the bytes of Data that an Interest of this flow is expected to bring.
    pub(super) fn interest_cost(&self, now: Timestamp, flow: u64) -> f64 {
        let of_link = self.data_len.unwrap_or(COST_FIRST);
        let cost = match self.flows.get(&flow) {
            Some(state) if state.sent >= SENT_MIN && state.age(now) >= AGE_MIN => {
                state.bytes / f64::from(state.sent)
            }
            _ => of_link,
        };
        cost.clamp(COST_MIN, nw_wire::PACKET_LEN_MAX as f64)
    }

    /// Returns whether no Interest of this flow was sent yet.
    pub(super) fn is_new(&self, flow: u64) -> bool {
        !self.flows.contains_key(&flow)
    }

    /// Returns whether the last Interest of a flow that is no longer new waited less than the
    /// target. Marks also slow down the start of many new flows.
    pub(super) fn is_prompt(&self, flow: u64) -> bool {
        let state = self.flows.get(&flow);
        state.is_some_and(|state| state.sent >= SENT_MIN && state.late_since.is_none())
    }

    /// Records an Interest that did not wait.
    pub(super) fn on_sent(&mut self, now: Timestamp, flow: u64) {
        let state = self.state(now, flow);
        state.late_since = None;
        state.marks = 0;
        state.count_sent(now);
    }

    /// Records an Interest that waited for `sojourn`.
    pub(super) fn on_released(
        &mut self,
        now: Timestamp,
        flow: u64,
        sojourn: Duration,
        target: Duration,
    ) {
        let state = self.state(now, flow);
        state.count_sent(now);
        if sojourn < target {
            (state.late_since, state.marks) = (None, 0);
            return;
        }
        let since = *state.late_since.get_or_insert(now);
        let interval = MARK_INTERVAL.div_f64(f64::from(state.marks + 1).sqrt());
        if now.since(since) >= interval {
            state.is_mark_due = true;
            state.marks += 1;
            state.late_since = Some(now);
        }
    }

    /// Records Data. Returns whether it gets a mark.
    pub(super) fn on_data(&mut self, flow: u64, len: usize) -> bool {
        let mean = self.data_len.get_or_insert(len as f64);
        *mean += (len as f64 - *mean) / 16.0;
        let Some(state) = self.flows.get_mut(&flow) else { return false };
        state.bytes += len as f64;
        core::mem::take(&mut state.is_mark_due)
    }

    fn state(&mut self, now: Timestamp, flow: u64) -> &mut FlowState {
        if self.flows.len() >= FLOWS_MAX && !self.flows.contains_key(&flow) {
            self.evict();
        }
        let state = self.flows.entry(flow).or_default();
        state.used_at = now;
        state
    }

    /// Removes the half of the flows that was used least recently: rare, so that its cost is spread
    /// over many Interests.
    fn evict(&mut self) {
        let mut times: Vec<Timestamp> = self.flows.values().map(|state| state.used_at).collect();
        let middle = times.len() / 2;
        let (_, median, _) = times.select_nth_unstable(middle);
        let median = *median;
        self.flows.retain(|_, state| state.used_at > median);
        if self.flows.len() >= FLOWS_MAX {
            self.flows.clear();
        }
    }
}

impl FlowState {
    fn age(&self, now: Timestamp) -> Duration {
        self.first_sent.map_or(Duration::ZERO, |first| now.since(first))
    }

    fn count_sent(&mut self, now: Timestamp) {
        self.first_sent.get_or_insert(now);
        self.sent += 1;
        if self.sent >= SENT_MAX {
            self.sent /= 2;
            self.bytes /= 2.0;
        }
    }
}

#[cfg(test)]
impl FlowTable {
    /// Returns the number of flows.
    pub(super) fn len(&self) -> usize {
        self.flows.len()
    }
}
