//! Retransmission suppression: an Interest received again too soon is not sent again.
//!
//! The interval starts at `initial_ms` and is multiplied at each retransmission that is sent, up to
//! `max_ms`. Best-route keeps one interval per pending Interest, multicast one per next hop.

use super::StrategyContext;
use nw_element_api::{FaceId, Timestamp};

/// The parameters `retx-suppression-initial`, `-max` and `-multiplier`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Suppression {
    /// First interval, milliseconds, at least 1.
    pub initial_ms: u16,
    /// Longest interval, milliseconds, at least `initial_ms`.
    pub max_ms: u16,
    /// Factor in thousandths, at least 1000.
    pub multiplier_milli: u32,
}

impl Default for Suppression {
    fn default() -> Self {
        Suppression { initial_ms: 10, max_ms: 250, multiplier_milli: 2000 }
    }
}

/// What to do with an Interest that may be a retransmission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetxVerdict {
    /// Not sent yet, or no answer can arrive any more: treat it as new.
    New,
    /// Sent long enough ago: send it again. Holds the next interval, milliseconds.
    Forward(u16),
    /// Sent a short while ago: do not send it.
    Suppress,
}

impl Suppression {
    /// Decides by the last out-record of all next hops: for strategies that use one next hop at a
    /// time.
    #[inline]
    pub fn per_entry(&self, context: &StrategyContext<'_>) -> RetxVerdict {
        if !context.has_pending_upstream() {
            return RetxVerdict::New;
        }
        let last =
            context.out_records().map(|record| record.sent).max().unwrap_or(Timestamp::START);
        self.judge(context.now(), last, context.retx_interval_ms())
    }

    /// Decides by the out-record of one next hop: for strategies that use several at once.
    #[inline]
    pub fn per_upstream(&self, context: &StrategyContext<'_>, face: FaceId) -> RetxVerdict {
        match context.out_record(face) {
            None => RetxVerdict::New,
            Some(record) => self.judge(context.now(), record.sent, record.retx_interval_ms),
        }
    }

    /// Decides by the time of the last transmission. `kept_ms` is the stored interval, 0 if none.
    fn judge(&self, now: Timestamp, last: Timestamp, kept_ms: u16) -> RetxVerdict {
        let interval_ms = if kept_ms == 0 { self.initial_ms } else { kept_ms };
        if now < last.plus_millis(u64::from(interval_ms)) {
            return RetxVerdict::Suppress;
        }
        let longer_ms = u64::from(interval_ms) * u64::from(self.multiplier_milli) / 1000;
        RetxVerdict::Forward(longer_ms.min(u64::from(self.max_ms)) as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suppression_interval_doubles_up_to_max() {
        let suppression = Suppression::default();
        let (mut interval_ms, mut last, mut seen) = (0, Timestamp::START, vec![]);
        for _ in 0..7 {
            let due = last.plus_millis(u64::from(if interval_ms == 0 { 10 } else { interval_ms }));
            let early = Timestamp::from_nanos(due.as_nanos() - 1);
            assert_eq!(suppression.judge(early, last, interval_ms), RetxVerdict::Suppress);
            let RetxVerdict::Forward(longer_ms) = suppression.judge(due, last, interval_ms) else {
                panic!("held back at {due:?}")
            };
            (interval_ms, last) = (longer_ms, due);
            seen.push(longer_ms);
        }
        assert_eq!(seen, [20, 40, 80, 160, 250, 250, 250]);
    }
}
