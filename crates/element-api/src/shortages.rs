//! Bounded pools shared by several peers, and how often each was exhausted.
//!
//! Every such pool is bounded in total and per peer, and keeps a reserve for local programs and
//! management. A refusal or an eviction counts as one shortage; the host logs it.

macro_rules! shared_pools {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal, $remedy:literal;)+) => {
        /// A bounded pool that several peers share.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum SharedPool { $($(#[doc = $doc])+ $variant,)+ }

        impl SharedPool {
            /// Every pool, in counter order.
            pub const ALL: &'static [SharedPool] = &[$(SharedPool::$variant,)+];

            /// Returns the name in metrics and logs.
            pub const fn as_str(self) -> &'static str {
                match self { $(SharedPool::$variant => $name,)+ }
            }

            /// Returns what an operator can do when the pool is exhausted.
            pub const fn remedy(self) -> &'static str {
                match self { $(SharedPool::$variant => $remedy,)+ }
            }
        }
    };
}

shared_pools! {
    /// Entries and records of the PIT.
    PendingInterests = "pending_interests",
        "see which faces have many unsatisfied Interests (nw face list); raise tables.pit_entries if traffic is legitimate";
    /// Slots of the PIT for large Interests.
    LargeInterests = "large_interests",
        "see which faces send large Interests (nw face list); raise tables.pit_entries if traffic is legitimate";
    /// Faces.
    Faces = "faces", "see which peers have many faces (nw face list); raise faces.max if they are legitimate";
    /// File descriptors of the process.
    Descriptors = "descriptors", "raise the limit of open files (ulimit -n, LimitNOFILE=)";
    /// Bytes in the send queues of all faces together.
    SendQueues = "send_queues", "see which faces do not read (nw face list); raise faces.queues_mib if memory allows";
    /// Bytes of fragments of incomplete packets.
    Reassembly = "reassembly", "raise faces.reassembly_mib if links reorder or lose much";
    /// Certificates being fetched.
    CertificateFetches = "certificate_fetches", "see the log for refused commands and who signs them";
    /// Commands that wait for certificates.
    Commands = "commands", "see the log for refused commands and who signs them";
}

const POOLS: usize = SharedPool::ALL.len();

/// The number of shortages of each pool: requests refused, and entries evicted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shortages {
    counts: [u64; POOLS],
}

impl Shortages {
    /// Counts one shortage.
    #[inline]
    pub fn record(&mut self, pool: SharedPool) {
        self.counts[pool as usize] += 1;
    }

    /// Sets the count of a pool.
    pub fn set(&mut self, pool: SharedPool, count: u64) {
        self.counts[pool as usize] = count;
    }

    /// Returns the number of shortages of a pool.
    pub fn count(&self, pool: SharedPool) -> u64 {
        self.counts[pool as usize]
    }

    /// Returns the number of shortages of all pools.
    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Yields every pool and its count, in a fixed order, zeros included.
    pub fn iter(&self) -> impl Iterator<Item = (SharedPool, u64)> + '_ {
        SharedPool::ALL.iter().map(|pool| (*pool, self.count(*pool)))
    }

    /// Adds another's counts to these.
    pub fn merge(&mut self, other: &Shortages) {
        for (count, more) in self.counts.iter_mut().zip(other.counts) {
            *count += more;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_pool_counts_separately() {
        let mut shortages = Shortages::default();
        for (index, pool) in SharedPool::ALL.iter().enumerate() {
            assert_eq!(*pool as usize, index);
            (0..=index).for_each(|_| shortages.record(*pool));
        }
        let mut sum = shortages.clone();
        sum.merge(&shortages);
        assert_eq!(sum.count(SharedPool::Faces), 2 * shortages.count(SharedPool::Faces));
        assert_eq!(sum.total(), 2 * shortages.total());
        assert_eq!(sum.iter().map(|(_, count)| count).sum::<u64>(), sum.total());
    }
}
