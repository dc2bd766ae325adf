//! Ends every packet.
//!
//! ```text
//! In:     packet
//! Out:    none
//! Needs:  nothing
//! Sets:   nothing
//! State:  none
//! Timers: none
//! Cost:   only that of ending a packet
//! Drops:  sink
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
    /// Output ports: none.
    pub enum Out {}
}

/// The sink element.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sink;

impl Element for Sink {
    type In = In;
    type Out = Out;

    const ACCEPTS_DEFERRED_NAMES: bool = true;

    fn process(&mut self, _: Timestamp, port: In, packet: Packet, context: &mut Context<'_, Out>) {
        let In::Packet = port;
        context.pool.drop_packet(packet, DropCause::Sink, context.drops);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nw_testkit::bench::{TestBench, data, interest};

    #[test]
    fn every_packet_ends_and_is_counted() {
        let mut bench = TestBench::new(Sink);
        for wire in [interest("/a", 7), data("/a")] {
            assert!(bench.process(In::Packet, &wire, |_| {}).is_empty());
        }
        assert_eq!(bench.drops.total(DropCause::Sink), 2);
        assert_eq!(bench.pool.packets_in_use(), 0);
    }
}
