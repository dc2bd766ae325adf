//! Every option: name, type, default, limits, documentation.

// Texts of the reference: their brackets are TOML.
#![allow(rustdoc::broken_intra_doc_links)]

use super::values::{Decimal, Mbps, Ms, Secs, Share};
use nw_api::{item, section, words};
use nw_name::Name;
use std::path::PathBuf;

section! {
    /// How long, by which seed, and what is to come of it.
    Run = "run" {
        /// All that is random comes from it: the same seed gives the same result, octet by octet.
        seed: u64 = 1;
        /// Virtual seconds.
        duration_s: Secs = Secs(10_000_000_000), in 1_000_000..=1_000_000_000_000_000;
        /// Points of the series over time.
        samples: u32 = 100, in 1..=10_000;
        /// MiB of packets that may be on their way at one time, over all links; more are dropped as by a full queue.
        buffer_mib: u32 = 1024, in 1..=65_536;
        /// What happens when: "2s link a-b down", "3s link a-b up", "4s node x down", "5s node x up", "6s node x restart" (its tables are empty then).
        at: Vec<String> = vec![], as "[\"2s link a-b down\", \"3s node c restart\"]";
        /// What must hold at the end, or the run fails: a measure, perhaps of one application, and a bound. `nw sim measures` lists them.
        expect: Vec<String> = vec![], as "[\"satisfied >= 0.99\", \"viewers rtt_p99_ms <= 50\"]";
    }
}

section! {
    /// Nodes and links, besides those of [[node]] and [[link]], which may also change what is generated.
    TopologySection = "topology" {
        /// By rule or from a published map: `nw sim topology` lists what there is.
        generate: Option<String> = None, as "\"grid:10x10\"";
        /// From a file: GML, or a list of links (two nodes a line, then perhaps delay in ms and rate in Mbit/s). Found from the scenario's folder.
        file: Option<PathBuf> = None, as "\"map.gml\"";
    }
}

section! {
    /// Links that don't say otherwise. Both directions of a link are alike and independent.
    Links = "links" {
        /// From one end to the other, milliseconds.
        delay_ms: Ms = Ms(5_000_000);
        /// Megabits a second; 0 is without bound.
        rate_mbps: Mbps = Mbps(1_000_000_000);
        /// Packets that may wait while one is being sent; those that come then are dropped.
        queue_packets: u32 = 100, in 0..=1_000_000;
        /// KiB that may wait.
        queue_kib: u32 = 1024, in 1..=1_048_576;
        /// Share of packets that are lost on the way.
        loss: Share = Share(0), in 0..=990_000_000;
        /// How many are lost in a row, on average (Gilbert's model); 1 is each for itself.
        loss_burst: u32 = 1, in 1..=10_000;
        /// Octets of the largest link packet; larger packets are cut into fragments. 0 is no bound.
        mtu: u32 = 0, in 0..=9000;
        /// Mark packets when a queue stays long, so that downloads slow down.
        congestion_marking: bool = true;
        /// A queue is long above so many KiB.
        marking_threshold_kib: u32 = 64, in 1..=1_048_576;
        /// A queue stays long after so many milliseconds.
        marking_interval_ms: u32 = 100, in 1..=60_000;
    }
}

words! {
    /// Which Data a full content store gives up.
    Policy {
        /// The one used least lately.
        Lru = "lru",
        /// Stale ones first.
        PriorityFifo = "priority-fifo",
        /// Those asked for once.
        S3Fifo = "s3-fifo",
    }
}

section! {
    /// Tables of routers that don't say otherwise. Memory is taken as it is used.
    Routers = "routers" {
        /// Data that a content store keeps; 0 is no content store.
        store_packets: u32 = 1000, in 0..=100_000_000;
        /// KiB of these; 2 for each packet when not given.
        store_kib: Option<u32> = None, in 1..=1_073_741_824, as "16384";
        /// Which go first.
        store_policy: Policy = Policy::Lru;
        /// Pending Interests.
        pit_entries: u32 = 4096, in 16..=67_108_864;
        /// Nonces remembered after their Interest is gone.
        dead_nonces: u32 = 4096, in 16..=67_108_864;
        /// Prefixes of which strategies remember something.
        measurements: u32 = 1024, in 16..=67_108_864;
    }
}

words! {
    /// What the shortest way is.
    Metric {
        /// The one with fewest links.
        Hops = "hops",
        /// The one with the least delay.
        Delay = "delay",
        /// The one with the least sum of link.cost (1 where not given).
        Cost = "cost",
    }
}

section! {
    /// Routes to where producers are: computed for the whole network, as a routing daemon would have it.
    Routing = "routing" {
        /// What the shortest way is.
        metric: Metric = Metric::Hops;
        /// Neighbours that a route lists, cheapest first; strategies choose. Those whose only shortest way leads back here are left out.
        next_hops: u32 = 1, in 1..=32;
        /// So many milliseconds after a failure or repair (the first of several), routes are as they should be.
        convergence_ms: Ms = Ms(1_000_000_000);
        /// Compute new routes after failures and repairs at all.
        recompute: bool = true;
    }
}

section! {
    /// Failures at random, by the seed, besides those of run.at.
    Failures = "failures" {
        /// Failures of each link, a second.
        links_per_s: Decimal = Decimal(0), in 0..=100_000_000_000;
        /// Failures of each node, a second. A node that failed starts anew with empty tables.
        nodes_per_s: Decimal = Decimal(0), in 0..=100_000_000_000;
        /// How long a failure lasts on average, seconds.
        mean_down_s: Secs = Secs(1_000_000_000), in 1_000_000..=1_000_000_000_000_000;
    }
}

item! {
    /// A node, or what differs at one that is there.
    NodeItem = "node" {
        /// Its name, without spaces.
        name: String, as "\"paris\"";
        /// As routers.store_packets.
        store_packets: Option<u32> = None, in 0..=100_000_000, as "0";
        /// As routers.store_kib.
        store_kib: Option<u32> = None, in 1..=1_073_741_824, as "1024";
        /// As routers.pit_entries.
        pit_entries: Option<u32> = None, in 16..=67_108_864, as "65536";
    }
}

item! {
    /// A link, or what differs at one that is there. Nodes that are new are made.
    LinkItem = "link" {
        /// One end.
        from: String, as "\"paris\"";
        /// The other.
        to: String, as "\"london\"";
        /// As links.delay_ms.
        delay_ms: Option<Ms> = None, as "2.5";
        /// As links.rate_mbps.
        rate_mbps: Option<Mbps> = None, as "100";
        /// As links.queue_packets.
        queue_packets: Option<u32> = None, in 0..=1_000_000, as "50";
        /// As links.queue_kib.
        queue_kib: Option<u32> = None, in 1..=1_048_576, as "64";
        /// As links.loss.
        loss: Option<Share> = None, in 0..=990_000_000, as "0.01";
        /// As links.loss_burst.
        loss_burst: Option<u32> = None, in 1..=10_000, as "3";
        /// For routing.metric = "cost".
        cost: Option<u32> = None, in 1..=1_000_000, as "10";
    }
}

item! {
    /// The strategy for prefixes of producers under this; best-route for others.
    StrategyItem = "strategy" {
        /// For names under this.
        prefix: Name, as "\"/films\"";
        /// Its name, or the last part of it, with parameters perhaps: asf, multicast, /localhost/nfd/strategy/asf/v=5/max-timeouts~2.
        strategy: String, as "\"asf\"";
    }
}

words! {
    /// What stands in the signature of Data.
    Signature {
        /// 32 octets that claim to be a digest. Routers do not look.
        None = "none",
        /// A SHA-256 digest that fits.
        Digest = "digest",
    }
}

item! {
    /// Who answers: any Interest under a prefix, which the network has routes for.
    ProducerItem = "producer" {
        /// What results call it, with the node behind an @.
        name: String = "producer".to_owned();
        /// Nodes: names, "all", "leaves" (with one link), "random:N". One producer at each.
        at: Vec<String>, as "[\"paris\"]";
        /// Answers everything under this, and announces it.
        prefix: Name, as "\"/films\"";
        /// Octets of content.
        payload: u32 = 1000, in 0..=8000;
        /// How long caches may call it fresh; 0 is never.
        freshness_ms: u32 = 10_000;
        /// Segments of the object that downloads fetch; those beyond are not answered. 0 is no end.
        segments: u32 = 0;
        /// How long an answer takes, milliseconds.
        delay_ms: Ms = Ms(0);
        /// What stands in the signature.
        signature: Signature = Signature::None;
    }
}

words! {
    /// How a consumer asks.
    ConsumerKind {
        /// New names, each once.
        Rate = "rate",
        /// Names of a catalogue, by Zipf's law.
        Zipf = "zipf",
        /// An object of segments, with the window of `nw cat`, until it is whole.
        Bulk = "bulk",
        /// Names that nobody asked for before, to measure the way to the producer.
        Ping = "ping",
    }
}

words! {
    /// The pauses between requests.
    Arrivals {
        /// All the same.
        Even = "even",
        /// At random, as of many independent users.
        Poisson = "poisson",
    }
}

item! {
    /// Who asks.
    ConsumerItem = "consumer" {
        /// What results call it, with the node behind an @.
        name: String = "consumer".to_owned();
        /// How it asks.
        kind: ConsumerKind, as "\"zipf\"";
        /// Nodes: names, "all", "leaves" (with one link), "random:N". One consumer at each.
        at: Vec<String>, as "[\"random:10\"]";
        /// Below which it asks.
        prefix: Name, as "\"/films\"";
        /// Requests a second; 100 when not given, 1 for ping. Not for bulk.
        rate_per_s: Option<Decimal> = None, in 1_000..=1_000_000_000_000_000, as "100";
        /// The pauses between requests.
        arrivals: Arrivals = Arrivals::Poisson;
        /// zipf: names of the catalogue.
        names: u32 = 10_000, in 1..=10_000_000;
        /// zipf: exponent; 0 is all alike.
        zipf: Decimal = Decimal(800_000_000), in 0..=10_000_000_000;
        /// bulk: most Interests on their way.
        window: u32 = 256, in 2..=65_536;
        /// InterestLifetime.
        lifetime_ms: u32 = 2000, in 1..=600_000;
        /// Begins after so many seconds.
        start_s: Secs = Secs(0);
        /// Asks no more after so many seconds; the run's end when not given.
        stop_s: Option<Secs> = None, as "8";
        /// Asks at most so often; 0 is no bound. Not for bulk.
        requests: u64 = 0;
    }
}
