//! Counts what passes: packets and octets by kind and, if asked for, by prefix.
//!
//! Prefixes are the first components of names, as many as the counter is made with. Those with most traffic are counted, about
//! (`nw_tables::sketch`): whoever floods it with names can make counts of small prefixes wrong, not those of large ones, and takes no memory.
//!
//! ```text
//! In:     packet
//! Out:    packet
//! Needs:  kind; for prefixes: name, prefixes
//! Sets:   nothing
//! State:  three pairs of counters; 256 prefixes where prefixes are counted
//! Timers: none
//! Cost:   two additions; where prefixes are counted a search among 256 hashes
//! Drops:  none
//! Spec:   none
//! ```

use nw_element_api::{Context, Element, Instant, Kind, Packet};
use nw_name::PREFIXES_MAX;
use nw_tables::sketch::{Counted, PREFIX_LEN_MAX, Sketch, Traffic};

nw_element_api::ports! {
    /// Where packets enter.
    pub enum In {
        /// Any packet.
        Packet = "packet" [Interest, Data, Nack],
    }
}

nw_element_api::ports! {
    /// Where packets leave.
    pub enum Out {
        /// As it came.
        Packet = "packet" [Interest, Data, Nack],
    }
}

/// What passed of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// Packets.
    pub packets: u64,
    /// Their octets, link headers not among them.
    pub octets: u64,
}

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Counter {
    /// By kind, in the order of [`Kind`].
    passed: [Passed; 3],
    depth: usize,
    prefixes: Option<Sketch>,
}

impl Counter {
    /// Counts by kind; also by the first `depth` components of names if that is not 0. Of 32 at most.
    pub fn new(depth: usize) -> Self {
        let prefixes = (depth > 0).then(Sketch::new);
        Counter { passed: Default::default(), depth: depth.min(PREFIXES_MAX), prefixes }
    }

    /// What passed of one kind.
    pub const fn passed(&self, kind: Kind) -> Passed {
        self.passed[kind as usize]
    }

    /// The prefixes with most traffic, in no order; none when they are not counted.
    pub fn prefixes(&self) -> &[Counted] {
        self.prefixes.as_ref().map_or(&[], Sketch::places)
    }

    /// Starts from zero.
    pub fn reset(&mut self) {
        *self = Counter::new(self.depth);
    }
}

impl Element for Counter {
    type In = In;
    type Out = Out;

    fn usual(_: In) -> Option<Out> {
        Some(Out::Packet)
    }

    #[inline]
    fn process(&mut self, _: Instant, port: In, packet: Packet, context: &mut Context<'_, Out>) {
        let In::Packet = port;
        let (bytes, meta) = context.pool.view(&packet);
        let octets = bytes.len() as u64;
        let passed = &mut self.passed[meta.kind as usize];
        passed.packets += 1;
        passed.octets += octets;
        if let Some(sketch) = &mut self.prefixes {
            let mut depth = self.depth.min(meta.prefixes.kept());
            while meta.prefixes.end(depth) > PREFIX_LEN_MAX {
                depth -= 1;
            }
            let prefix = &meta.name_in(bytes).as_bytes()[..meta.prefixes.end(depth)];
            let each = Traffic {
                interests: u64::from(meta.kind != Kind::Data),
                data: u64::from(meta.kind == Kind::Data),
                bytes: octets,
            };
            sketch.count(meta.prefixes.hash(depth), prefix, 1, each);
        }
        context.out.send(Out::Packet, packet);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::{Lab, as_nack, data, interest, ports};
    use nw_wire::NackReason;

    #[test]
    fn by_kind_and_by_prefix() {
        let mut lab = Lab::new(Counter::new(2));
        let (asked, answer) = (interest("/a/b/c", 7), data("/a/b/c"));
        assert_eq!(ports(&lab.give(In::Packet, &asked, |_| {})), ["packet"]);
        assert_eq!(ports(&lab.give(In::Packet, &asked, |_| {})), ["packet"]);
        assert_eq!(ports(&lab.give(In::Packet, &answer, |_| {})), ["packet"]);
        assert_eq!(ports(&lab.give(In::Packet, &asked, as_nack(NackReason::NoRoute))), ["packet"]);
        lab.give(In::Packet, &interest("/x", 7), |_| {});
        let octets = asked.len() as u64;
        let counter = &lab.element;
        assert_eq!(counter.passed(Kind::Data), Passed { packets: 1, octets: answer.len() as u64 });
        assert_eq!(counter.passed(Kind::Nack), Passed { packets: 1, octets });
        assert_eq!(counter.passed(Kind::Interest).packets, 3);
        let mut prefixes: Vec<_> =
            counter.prefixes().iter().map(|c| (c.prefix().to_string(), c.packets())).collect();
        prefixes.sort();
        assert_eq!(prefixes, [("/a/b".to_owned(), 4), ("/x".to_owned(), 1)]);
        lab.element.reset();
        assert_eq!(lab.element.passed(Kind::Interest), Passed::default());
        assert!(lab.element.prefixes().is_empty());
    }

    #[test]
    fn a_long_prefix_is_counted_by_what_fits() {
        let mut lab = Lab::new(Counter::new(3));
        let long = "n".repeat(200);
        lab.give(In::Packet, &interest(&format!("/a/{long}/c"), 7), |_| {});
        assert_eq!(lab.element.prefixes()[0].prefix().to_string(), "/a");
        let mut lab = Lab::new(Counter::new(0));
        lab.give(In::Packet, &interest("/a", 7), |_| {});
        assert!(lab.element.prefixes().is_empty());
    }
}
