//! Counts packets and bytes by kind and, if configured, by name prefix.
//!
//! Prefixes are the first `depth` components of names. The 256 prefixes with most traffic are
//! counted approximately (`nw_tables::sketch`): a flood of names can distort the counts of small
//! prefixes, not those of large ones, and uses no more memory.
//!
//! ```text
//! In:     packet
//! Out:    packet
//! Needs:  kind; for prefixes: name, prefixes
//! Sets:   nothing
//! State:  four pairs of counters; 256 prefixes where prefixes are counted
//! Timers: none
//! Cost:   two additions; where prefixes are counted a search among 256 hashes
//! Drops:  none
//! Spec:   none
//! ```

use nw_element_api::{Context, Element, Kind, Packet, Timestamp};
use nw_name::PREFIXES_MAX;
use nw_tables::sketch::{PREFIX_LEN_MAX, PrefixCount, Sketch, Traffic};

nw_element_api::ports! {
    /// Input ports.
    pub enum In {
        /// Any packet.
        Packet = "packet" [Interest, Data, Nack],
    }
}

nw_element_api::ports! {
    /// Output ports.
    pub enum Out {
        /// The packet, unchanged.
        Packet = "packet" [Interest, Data, Nack],
    }
}

/// Packets and bytes of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrafficCount {
    /// Packets.
    pub packets: u64,
    /// Bytes of the network packets, without link headers.
    pub bytes: u64,
}

/// The counter element.
#[derive(Clone, Debug, Default)]
pub struct Counter {
    /// By kind, in the order of [`Kind`].
    passed: [TrafficCount; 4],
    depth: usize,
    prefixes: Option<Sketch>,
}

impl Counter {
    /// Creates a counter by kind. If `depth` is not 0, it also counts by the first `depth` (at most
    /// 32) components of names.
    pub fn new(depth: usize) -> Self {
        let prefixes = (depth > 0).then(Sketch::new);
        Counter { passed: Default::default(), depth: depth.min(PREFIXES_MAX), prefixes }
    }

    /// Returns the counts of one kind.
    pub const fn passed(&self, kind: Kind) -> TrafficCount {
        self.passed[kind as usize]
    }

    /// Returns the prefixes with most traffic, in no particular order. Empty if prefixes are not
    /// counted.
    pub fn prefixes(&self) -> &[PrefixCount] {
        self.prefixes.as_ref().map_or(&[], Sketch::entries)
    }

    /// Sets all counts to zero.
    pub fn reset(&mut self) {
        *self = Counter::new(self.depth);
    }
}

impl Element for Counter {
    type In = In;
    type Out = Out;

    fn main_output(_: In) -> Option<Out> {
        Some(Out::Packet)
    }

    #[inline]
    fn process(&mut self, _: Timestamp, port: In, packet: Packet, context: &mut Context<'_, Out>) {
        let In::Packet = port;
        let (bytes, meta) = context.pool.view(&packet);
        let len = bytes.len() as u64;
        let passed = &mut self.passed[meta.kind as usize];
        passed.packets += 1;
        passed.bytes += len;
        if let Some(sketch) = &mut self.prefixes {
            let mut depth = self.depth.min(meta.prefixes.stored_len());
            while meta.prefixes.end(depth) > PREFIX_LEN_MAX {
                depth -= 1;
            }
            let prefix = &meta.name_in(bytes).as_bytes()[..meta.prefixes.end(depth)];
            let traffic = Traffic {
                interests: u64::from(meta.kind != Kind::Data),
                data: u64::from(meta.kind == Kind::Data),
                bytes: len,
            };
            sketch.count(meta.prefixes.hash(depth), prefix, 1, traffic);
        }
        context.out.send(Out::Packet, packet);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nw_testkit::bench::{TestBench, as_nack, data, interest, ports};
    use nw_wire::NackReason;

    #[test]
    fn packets_are_counted_by_kind_and_prefix() {
        let mut bench = TestBench::new(Counter::new(2));
        let (request, reply) = (interest("/a/b/c", 7), data("/a/b/c"));
        assert_eq!(ports(&bench.process(In::Packet, &request, |_| {})), ["packet"]);
        assert_eq!(ports(&bench.process(In::Packet, &request, |_| {})), ["packet"]);
        assert_eq!(ports(&bench.process(In::Packet, &reply, |_| {})), ["packet"]);
        assert_eq!(
            ports(&bench.process(In::Packet, &request, as_nack(NackReason::NoRoute))),
            ["packet"]
        );
        bench.process(In::Packet, &interest("/x", 7), |_| {});
        let bytes = request.len() as u64;
        let counter = &bench.element;
        assert_eq!(
            counter.passed(Kind::Data),
            TrafficCount { packets: 1, bytes: reply.len() as u64 }
        );
        assert_eq!(counter.passed(Kind::Nack), TrafficCount { packets: 1, bytes });
        assert_eq!(counter.passed(Kind::Interest).packets, 3);
        let mut prefixes: Vec<_> =
            counter.prefixes().iter().map(|c| (c.prefix().to_string(), c.packets())).collect();
        prefixes.sort();
        assert_eq!(prefixes, [("/a/b".to_owned(), 4), ("/x".to_owned(), 1)]);
        bench.element.reset();
        assert_eq!(bench.element.passed(Kind::Interest), TrafficCount::default());
        assert!(bench.element.prefixes().is_empty());
    }

    #[test]
    fn long_prefix_is_counted_by_its_fitting_components() {
        let mut bench = TestBench::new(Counter::new(3));
        let long = "n".repeat(200);
        bench.process(In::Packet, &interest(&format!("/a/{long}/c"), 7), |_| {});
        assert_eq!(bench.element.prefixes()[0].prefix().to_string(), "/a");
        let mut bench = TestBench::new(Counter::new(0));
        bench.process(In::Packet, &interest("/a", 7), |_| {});
        assert!(bench.element.prefixes().is_empty());
    }
}
