//! Forwards each packet, and a copy of it by another port: for an element that watches, counts or
//! records.
//!
//! ```text
//! In:     packet
//! Out:    packet, copy
//! Needs:  nothing
//! Sets:   nothing: a copy has the same metadata as its packet
//! State:  none
//! Timers: none
//! Cost:   a slot of metadata; the bytes of a Data are shared, those of an Interest or Nack copied
//! Drops:  no_buffer (a copy that could not be made; the packet is forwarded)
//! Spec:   none
//! ```

use nw_element_api::{Context, DropCause, Element, Packet, Timestamp};

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
        /// The copy.
        Copy = "copy" [Interest, Data, Nack],
    }
}

/// The tee element.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tee;

impl Element for Tee {
    type In = In;
    type Out = Out;

    const ACCEPTS_DEFERRED_NAMES: bool = true;

    fn main_output(_: In) -> Option<Out> {
        Some(Out::Packet)
    }

    fn process(&mut self, _: Timestamp, port: In, packet: Packet, context: &mut Context<'_, Out>) {
        let In::Packet = port;
        let copy = context.pool.duplicate(&packet);
        context.out.send(Out::Packet, packet);
        match copy {
            Some(copy) => context.out.send(Out::Copy, copy),
            None => context.drops.count(DropCause::NoBuffer),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nw_element_api::Kind;
    use nw_testkit::bench::{TestBench, data, face, interest, ports};

    #[test]
    fn copy_has_the_same_metadata_and_bytes() {
        let mut bench = TestBench::new(Tee);
        for (wire, kind) in [(interest("/a/b", 7), Kind::Interest), (data("/a/b"), Kind::Data)] {
            let emitted = bench.process(In::Packet, &wire, |meta| {
                meta.ingress = face(300);
                meta.egress = face(301);
                meta.link.congestion_mark = 3;
            });
            assert_eq!(ports(&emitted), ["packet", "copy"]);
            for emitted in emitted {
                assert_eq!(
                    (emitted.kind, emitted.name.as_str(), emitted.wire),
                    (kind, "/a/b", wire.clone())
                );
                assert_eq!(
                    (emitted.ingress, emitted.egress, emitted.link.congestion_mark),
                    (face(300), face(301), 3)
                );
            }
        }
        assert_eq!(bench.pool.packets_in_use(), 0);
    }

    /// Hop limits are decremented in place, so the copy must have its own bytes.
    #[test]
    fn interest_copy_has_its_own_bytes() {
        let mut bench = TestBench::new(Tee);
        let packet = bench.packet(&interest("/a", 7), |_| {});
        let copy = bench.pool.duplicate(&packet).unwrap();
        bench.pool.bytes_mut(&packet).fill(0);
        assert_eq!(bench.pool.bytes(&copy), interest("/a", 7));
        assert_eq!(
            bench.pool.meta(&copy).prefixes.full_hash(),
            bench.pool.meta(&packet).prefixes.full_hash()
        );
        bench.pool.release(packet);
        bench.pool.release(copy);
    }

    #[test]
    fn no_buffer_forwards_the_packet_without_copy() {
        let mut bench = TestBench::with_packets(Tee, 1);
        for wire in [interest("/a", 7), data("/a")] {
            assert_eq!(ports(&bench.process(In::Packet, &wire, |_| {})), ["packet"]);
        }
        assert_eq!(bench.drops.total(DropCause::NoBuffer), 2);
        assert_eq!(bench.pool.packets_in_use(), 0);
    }
}
