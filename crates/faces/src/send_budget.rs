//! The common budget of all send queues.
//!
//! Each face may queue up to a quarter of what is free (dynamic thresholds: Choudhury and Hahne,
//! 1998), and never more than its own limit. The fuller the queues together, the lower that limit:
//! the face with the most queued bytes is refused first, and one with few can still queue. An
//! eighth is reserved for local faces.
//!
//! The kernel's send buffers of accepted connections have a budget of half of that: each gets a
//! sixteenth of what is left of it.
//!
//! Invariant: `bytes` is the sum of what all queues were last charged.

/// A face may queue the free bytes divided by this.
const FREE_DIVISOR: usize = 4;
/// The budget divided by this is reserved for local faces.
const RESERVE_DIVISOR: usize = 8;
/// An accepted connection gets the free bytes of kernel buffers divided by this.
const KERNEL_DIVISOR: usize = 16;
/// Bytes of the kernel's send buffer that every connection gets.
const KERNEL_BUFFER_MIN: usize = 16 << 10;

/// Memory of all send queues of a shard.
#[derive(Debug)]
pub struct SendBudget {
    bytes_max: usize,
    bytes: usize,
    /// Bytes of the kernel's send buffers that were granted.
    kernel_bytes: usize,
}

impl SendBudget {
    /// Creates a budget with nothing charged.
    pub const fn new(bytes_max: usize) -> Self {
        SendBudget { bytes_max, bytes: 0, kernel_bytes: 0 }
    }

    /// Returns the bytes charged for all queues.
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns how many bytes one face may queue now; at most its own limit `queue_max`.
    pub fn limit(&self, local: bool, queue_max: usize) -> usize {
        let reserve = if local { 0 } else { self.bytes_max / RESERVE_DIVISOR };
        let free = (self.bytes_max - reserve).saturating_sub(self.bytes);
        queue_max.min(free / FREE_DIVISOR)
    }

    /// Replaces what a queue was charged by the bytes that it holds now.
    pub const fn recharge(&mut self, charged: &mut usize, held: usize) {
        self.bytes = self.bytes - *charged + held;
        *charged = held;
    }

    /// Grants a kernel send buffer to an accepted connection. Returns its bytes, at most `wanted`.
    pub fn grant_kernel_buffer(&mut self, wanted: usize) -> usize {
        let free = (self.bytes_max / 2).saturating_sub(self.kernel_bytes);
        let granted = wanted.min((free / KERNEL_DIVISOR).max(KERNEL_BUFFER_MIN));
        self.kernel_bytes += granted;
        granted
    }

    /// Returns a buffer granted by [`grant_kernel_buffer`](Self::grant_kernel_buffer) to the
    /// budget.
    pub const fn return_kernel_buffer(&mut self, granted: usize) {
        self.kernel_bytes -= granted;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MIB: usize = 1 << 20;

    #[test]
    fn limit_with_free_memory_equals_own_limit() {
        let budget = SendBudget::new(256 * MIB);
        assert_eq!(budget.limit(false, MIB), MIB);
        assert_eq!(budget.limit(true, 1024 * MIB), 64 * MIB);
    }

    #[test]
    fn many_greedy_faces_leave_room_for_a_newcomer() {
        let mut budget = SendBudget::new(256 * MIB);
        let mut charged = vec![0; 2500];
        for _ in 0..200 {
            for face in &mut charged {
                let limit = budget.limit(false, MIB);
                budget.recharge(face, (*face + 8 * 1024).min(limit).max(*face));
            }
        }
        assert!(budget.bytes() <= 224 * MIB, "{}", budget.bytes());
        assert!(budget.limit(false, MIB) > 64 * 1024, "{}", budget.limit(false, MIB));
        assert!(budget.limit(true, MIB) == MIB, "the reserve is for local faces");
    }

    #[test]
    fn kernel_buffers_shrink_as_connections_come_and_are_returned() {
        let mut budget = SendBudget::new(256 * MIB);
        let granted: Vec<usize> = (0..2500).map(|_| budget.grant_kernel_buffer(MIB)).collect();
        assert_eq!((granted[0], granted[2499]), (MIB, KERNEL_BUFFER_MIN));
        assert!(budget.kernel_bytes <= 128 * MIB + 2500 * KERNEL_BUFFER_MIN);
        granted.into_iter().for_each(|granted| budget.return_kernel_buffer(granted));
        assert_eq!(budget.grant_kernel_buffer(MIB), MIB);
    }

    proptest! {
        #[test]
        fn queues_within_their_limits_stay_within_the_bound(
            steps in proptest::collection::vec((0usize..40, any::<bool>(), 0usize..3 * MIB), 0..500),
        ) {
            let mut budget = SendBudget::new(16 * MIB);
            let mut charged = [0; 40];
            for (face, local, wanted) in steps {
                let limit = budget.limit(local, MIB);
                let held = if wanted > charged[face] { wanted.min(limit).max(charged[face]) } else { wanted };
                budget.recharge(&mut charged[face], held);
                prop_assert!(budget.bytes() <= 16 * MIB);
                prop_assert_eq!(budget.bytes(), charged.iter().sum::<usize>());
            }
        }
    }
}
