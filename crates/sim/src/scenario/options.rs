//! All options: name, type, default, limits, documentation.

// These comments are the text of the reference, where brackets are TOML.
#![allow(rustdoc::broken_intra_doc_links)]

use super::values::{Decimal, Mbps, Ms, Secs, Share};
use nw_api::{item, section, string_enum};
use nw_name::Name;
use std::path::PathBuf;

section! {
    /// Duration, seed and expectations of the run.
    Run = "run" {
        /// Seed of all random numbers: the same seed gives the same result, byte by byte.
        seed: u64 = 1;
        /// Virtual seconds to simulate.
        duration_s: Secs = Secs(10_000_000_000), in 1_000_000..=1_000_000_000_000_000;
        /// Points in the time series.
        samples: u32 = 100, in 1..=10_000;
        /// MiB of packets in flight at one time, over all links; further ones are dropped as at a
        /// full queue.
        buffer_mib: u32 = 1024, in 1..=65_536;
        /// Failures, repairs and restarts: "2s link a-b down", "3s link a-b up", "4s node x down",
        /// "5s node x up", "6s node x restart" (with empty tables).
        at: Vec<String> = vec![], as "[\"2s link a-b down\", \"3s node c restart\"]";
        /// Expectations; the run fails if one does not hold: a measure, optionally of one
        /// application, and a bound. `nw sim measures` lists the measures.
        expect: Vec<String> = vec![], as "[\"satisfied >= 0.99\", \"viewers rtt_p99_ms <= 50\"]";
    }
}

section! {
    /// Nodes and links, in addition to those of [[node]] and [[link]], which may also change
    /// generated ones.
    TopologySection = "topology" {
        /// A generated topology or a published map; `nw sim topology` lists them.
        generate: Option<String> = None, as "\"grid:10x10\"";
        /// A file: GML, a topology of Mini-NDN, or a list of links (two nodes per line, optionally
        /// delay in ms and rate in Mbit/s), relative to the scenario's folder.
        file: Option<PathBuf> = None, as "\"map.gml\"";
    }
}

section! {
    /// Default properties of links, equal for both directions, which are independent.
    Links = "links" {
        /// Propagation delay, milliseconds.
        delay_ms: Ms = Ms(5_000_000);
        /// Rate, megabits per second; 0: unlimited.
        rate_mbps: Mbps = Mbps(1_000_000_000);
        /// Packets that may wait while one is sent; further ones are dropped.
        queue_packets: u32 = 100, in 0..=1_000_000;
        /// KiB that may wait.
        queue_kib: u32 = 1024, in 1..=1_048_576;
        /// Share of packets lost on the link.
        loss: Share = Share(0), in 0..=990_000_000;
        /// Mean number of packets lost in a row (Gilbert's model); 1: independent losses.
        loss_burst: u32 = 1, in 1..=10_000;
        /// Largest link packet, bytes; longer packets are fragmented. 0: no limit.
        mtu: u32 = 0, in 0..=9000;
        /// Set congestion marks when a queue stays long, so that downloads slow down.
        congestion_marking: bool = true;
        /// Queue length above which packets are marked, KiB.
        marking_threshold_kib: u32 = 64, in 1..=1_048_576;
        /// Time that a queue must be above the threshold, milliseconds.
        marking_interval_ms: u32 = 100, in 1..=60_000;
    }
}

string_enum! {
    /// Replacement policy of content stores.
    Policy {
        /// Least recently used first.
        Lru = "lru",
        /// Stale Data first, then first in, first out.
        PriorityFifo = "priority-fifo",
        /// S3-FIFO: Data requested only once first.
        S3Fifo = "s3-fifo",
    }
}

section! {
    /// Default table sizes of routers. Memory is allocated on first use.
    Routers = "routers" {
        /// Data in the content store; 0: no content store.
        store_packets: u32 = 1000, in 0..=100_000_000;
        /// KiB of these; 2 per packet if not given.
        store_kib: Option<u32> = None, in 1..=1_073_741_824, as "16384";
        /// Replacement policy.
        store_policy: Policy = Policy::Lru;
        /// Pending Interests.
        pit_entries: u32 = 4096, in 16..=67_108_864;
        /// Entries of the dead nonce list.
        dead_nonces: u32 = 4096, in 16..=67_108_864;
        /// Prefixes with measurements of strategies.
        measurements: u32 = 1024, in 16..=67_108_864;
    }
}

string_enum! {
    /// Metric of paths.
    Metric {
        /// Number of links.
        Hops = "hops",
        /// Sum of delays.
        Delay = "delay",
        /// Sum of link.cost (1 if not given).
        Cost = "cost",
    }
}

section! {
    /// Routes to producers, computed for the whole network as by a routing protocol.
    Routing = "routing" {
        /// Metric of paths.
        metric: Metric = Metric::Hops;
        /// Next hops per route, cheapest first, for strategies to choose from. Neighbours whose
        /// only shortest path leads back are left out.
        next_hops: u32 = 1, in 1..=32;
        /// Milliseconds from a failure or repair (the first of several) to the new routes.
        convergence_ms: Ms = Ms(1_000_000_000);
        /// Whether to compute new routes after failures and repairs.
        recompute: bool = true;
    }
}

section! {
    /// Random failures, in addition to those of run.at.
    Failures = "failures" {
        /// Failures per link and second.
        links_per_s: Decimal = Decimal(0), in 0..=100_000_000_000;
        /// Failures per node and second. Nodes restart with empty tables.
        nodes_per_s: Decimal = Decimal(0), in 0..=100_000_000_000;
        /// Mean duration of a failure, seconds.
        mean_down_s: Secs = Secs(1_000_000_000), in 1_000_000..=1_000_000_000_000_000;
    }
}

item! {
    /// A node, or changes of an existing node.
    NodeItem = "node" {
        /// Name, without spaces.
        name: String, as "\"paris\"";
        /// Overrides routers.store_packets.
        store_packets: Option<u32> = None, in 0..=100_000_000, as "0";
        /// Overrides routers.store_kib.
        store_kib: Option<u32> = None, in 1..=1_073_741_824, as "1024";
        /// Overrides routers.pit_entries.
        pit_entries: Option<u32> = None, in 16..=67_108_864, as "65536";
    }
}

item! {
    /// A link, or changes of an existing link. New nodes are created.
    LinkItem = "link" {
        /// Node at one end.
        from: String, as "\"paris\"";
        /// Node at the other end.
        to: String, as "\"london\"";
        /// Overrides links.delay_ms.
        delay_ms: Option<Ms> = None, as "2.5";
        /// Overrides links.rate_mbps.
        rate_mbps: Option<Mbps> = None, as "100";
        /// Overrides links.queue_packets.
        queue_packets: Option<u32> = None, in 0..=1_000_000, as "50";
        /// Overrides links.queue_kib.
        queue_kib: Option<u32> = None, in 1..=1_048_576, as "64";
        /// Overrides links.loss.
        loss: Option<Share> = None, in 0..=990_000_000, as "0.01";
        /// Overrides links.loss_burst.
        loss_burst: Option<u32> = None, in 1..=10_000, as "3";
        /// Cost, for routing.metric = "cost".
        cost: Option<u32> = None, in 1..=1_000_000, as "10";
    }
}

item! {
    /// The strategy for producers' prefixes under a prefix; best-route for all others.
    StrategyItem = "strategy" {
        /// Names under this prefix.
        prefix: Name, as "\"/films\"";
        /// Strategy name or its last component, optionally with parameters: asf, multicast,
        /// /localhost/nfd/strategy/asf/v=5/max-timeouts~2.
        strategy: String, as "\"asf\"";
    }
}

string_enum! {
    /// Signature of Data.
    Signature {
        /// 32 zero bytes: routers don't verify signatures.
        None = "none",
        /// A valid SHA-256 digest.
        Digest = "digest",
    }
}

item! {
    /// A producer: replies to any Interest under a prefix, which is announced to the network.
    ProducerItem = "producer" {
        /// Name in results, followed by @ and the node.
        name: String = "producer".to_owned();
        /// Nodes: names, "all", "leaves" (with one link), "random:N". One producer at each.
        at: Vec<String>, as "[\"paris\"]";
        /// Prefix that it serves and announces.
        prefix: Name, as "\"/films\"";
        /// Length of the content, bytes.
        payload: u32 = 1000, in 0..=8000;
        /// FreshnessPeriod, milliseconds; 0: none.
        freshness_ms: u32 = 10_000;
        /// Segments of the object that downloads fetch; later ones are not answered. 0: no end.
        segments: u32 = 0;
        /// Delay of a reply, milliseconds.
        delay_ms: Ms = Ms(0);
        /// Signature of Data.
        signature: Signature = Signature::None;
    }
}

string_enum! {
    /// Workload of a consumer.
    ConsumerKind {
        /// New names, each once.
        Rate = "rate",
        /// Names of a catalogue, by Zipf's law.
        Zipf = "zipf",
        /// Download of a segmented object, with the window of `nw cat`.
        Bulk = "bulk",
        /// New names, to measure the path to the producer.
        Ping = "ping",
    }
}

string_enum! {
    /// Intervals between requests.
    Arrivals {
        /// Equal intervals.
        Even = "even",
        /// Random intervals, as of many independent users.
        Poisson = "poisson",
    }
}

item! {
    /// A consumer.
    ConsumerItem = "consumer" {
        /// Name in results, followed by @ and the node.
        name: String = "consumer".to_owned();
        /// Workload.
        kind: ConsumerKind, as "\"zipf\"";
        /// Nodes: names, "all", "leaves" (with one link), "random:N". One consumer at each.
        at: Vec<String>, as "[\"random:10\"]";
        /// Prefix of the requested names.
        prefix: Name, as "\"/films\"";
        /// Requests per second; default 100, for ping 1. Not for bulk.
        rate_per_s: Option<Decimal> = None, in 1_000..=1_000_000_000_000_000, as "100";
        /// Intervals between requests.
        arrivals: Arrivals = Arrivals::Poisson;
        /// zipf: number of names in the catalogue.
        names: u32 = 10_000, in 1..=10_000_000;
        /// zipf: exponent; 0: all names equally likely.
        zipf: Decimal = Decimal(800_000_000), in 0..=10_000_000_000;
        /// bulk: maximum number of pending Interests.
        window: u32 = 256, in 2..=65_536;
        /// InterestLifetime, milliseconds.
        lifetime_ms: u32 = 2000, in 1..=600_000;
        /// Start time, seconds.
        start_s: Secs = Secs(0);
        /// Time of the last request, seconds; default: the end of the run.
        stop_s: Option<Secs> = None, as "8";
        /// Maximum number of requests; 0: unlimited. Not for bulk.
        requests: u64 = 0;
    }
}
