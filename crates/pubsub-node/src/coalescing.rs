//! When packets of other nodes are received: as they come, or at a high rate after a pause in which
//! several come, as network cards delay interrupts.
//!
//! Pure: time is an argument. Invariants: a packet waits no longer than the configured time; where
//! packets come one by one, as requests and replies do, pauses are rare.

/// Microseconds over which the rate is measured.
const WINDOW_US: u64 = 2000;
/// Packets that a pause is to collect at most: what each further one saves is little, and the
/// socket's buffer must hold them.
const PACKETS_MAX: u64 = 32;
/// Packets that a pause must be expected to collect.
const PACKETS_MIN: u64 = 3;
/// Microseconds without a pause after one that was in vain.
const BACKOFF_US: u64 = 20_000;

/// The state of reception.
#[derive(Clone, Copy, Debug)]
pub struct Coalescing {
    pause_max_us: u64,
    window_start_us: u64,
    window_packets: u64,
    packets_per_s: u64,
    /// End of the pause.
    due_us: Option<u64>,
    /// No pause begins before.
    next_pause_us: u64,
}

impl Coalescing {
    /// Creates the state, with pauses of at most `pause_max_us` microseconds; 0: none.
    pub const fn new(pause_max_us: u32) -> Self {
        Coalescing {
            pause_max_us: pause_max_us as u64,
            window_start_us: 0,
            window_packets: 0,
            packets_per_s: 0,
            due_us: None,
            next_pause_us: 0,
        }
    }

    /// Returns when packets are received next, microseconds. `None`: as they come.
    pub const fn due_us(&self) -> Option<u64> {
        self.due_us
    }

    /// Records a reception, and decides about the next one.
    pub fn record(&mut self, now_us: u64, packets: usize) {
        let packets = packets as u64;
        let was_in_vain = self.due_us.take().is_some() && packets < 2;
        if was_in_vain {
            self.next_pause_us = now_us + BACKOFF_US;
        }
        self.window_packets += packets;
        let elapsed_us = now_us.saturating_sub(self.window_start_us);
        if elapsed_us >= WINDOW_US {
            self.packets_per_s = self.window_packets.saturating_mul(1_000_000) / elapsed_us;
            (self.window_start_us, self.window_packets) = (now_us, 0);
        }
        if now_us < self.next_pause_us || self.packets_per_s == 0 {
            return;
        }
        let pause_us = self.pause_max_us.min(PACKETS_MAX * 1_000_000 / self.packets_per_s);
        if pause_us * self.packets_per_s >= PACKETS_MIN * 1_000_000 {
            self.due_us = Some(now_us + pause_us);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packets at an interval for a second. Returns the receptions, and the longest wait.
    fn receptions(pause_max_us: u32, interval_us: u64) -> (u64, u64) {
        let mut coalescing = Coalescing::new(pause_max_us);
        let (mut count, mut waiting, mut longest_us) = (0, Vec::new(), 0);
        for now_us in 1..1_000_000 {
            if now_us % interval_us == 0 {
                waiting.push(now_us);
            }
            let is_due = coalescing.due_us().map_or(!waiting.is_empty(), |due| now_us >= due);
            if is_due {
                count += 1;
                longest_us = waiting.first().map_or(0, |at| now_us - at).max(longest_us);
                coalescing.record(now_us, waiting.len());
                waiting.clear();
            }
        }
        (count, longest_us)
    }

    #[test]
    fn packets_at_a_high_rate_are_received_together_within_the_time() {
        let (count, longest_us) = receptions(500, 50);
        assert!((1900..2200).contains(&count), "{count}");
        assert!(longest_us <= 500, "{longest_us}");
        // At a very high rate the pause is shorter: 32 packets.
        let (count, longest_us) = receptions(500, 5);
        // 400 of them before the rate is known.
        assert!((6000..6900).contains(&count), "{count}");
        assert!(longest_us <= 160, "{longest_us}");
    }

    #[test]
    fn packets_at_a_low_rate_or_without_pauses_do_not_wait() {
        assert_eq!(receptions(500, 1000), (999, 0));
        assert_eq!(receptions(500, 200), (4999, 0));
        assert_eq!(receptions(0, 50), (19_999, 0));
    }

    #[test]
    fn requests_and_replies_are_hardly_delayed() {
        let mut coalescing = Coalescing::new(500);
        let (mut now_us, mut paused_us) = (0, 0);
        while now_us < 1_000_000 {
            // The next request comes 50 µs after the reception of the last one.
            let arrival_us = now_us + 50;
            now_us = coalescing.due_us().unwrap_or(arrival_us).max(arrival_us);
            paused_us += now_us - arrival_us;
            coalescing.record(now_us, 1);
        }
        assert!(paused_us > 0 && paused_us < 25_000, "{paused_us} of 1,000,000 µs");
    }

    #[test]
    fn flow_that_ends_leaves_no_pause() {
        let mut coalescing = Coalescing::new(500);
        (1..1000_u64).for_each(|at| coalescing.record(at * 50, 1));
        let due_us = coalescing.due_us();
        assert!(due_us.is_none(), "each pause of this loop was in vain: {due_us:?}");
        (1000..3000_u64).for_each(|at| coalescing.record(at * 500, 10));
        let due_us = coalescing.due_us().unwrap();
        coalescing.record(due_us, 0);
        assert_eq!(coalescing.due_us(), None);
    }
}
