//! Ends every packet.
//!
//! ```text
//! In:     packet
//! Out:    none
//! Needs:  nothing
//! Sets:   nothing
//! State:  none
//! Timers: none
//! Cost:   nothing but the packet's end
//! Drops:  sink
//! Spec:   none
//! ```

use nw_element_api::{Cause, Context, Element, Instant, Packet};

nw_element_api::ports! {
    /// Where packets enter.
    pub enum In {
        /// Any packet.
        Packet = "packet" [Interest, Data, Nack],
    }
}

nw_element_api::ports! {
    /// Where packets leave: nowhere.
    pub enum Out {}
}

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sink;

impl Element for Sink {
    type In = In;
    type Out = Out;

    const TAKES_UNREAD_NAMES: bool = true;

    fn process(&mut self, _: Instant, port: In, packet: Packet, context: &mut Context<'_, Out>) {
        let In::Packet = port;
        context.pool.drop_packet(packet, Cause::Sink, context.drops);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::{Lab, data, interest};

    #[test]
    fn all_end_and_are_counted() {
        let mut lab = Lab::new(Sink);
        for wire in [interest("/a", 7), data("/a")] {
            assert!(lab.give(In::Packet, &wire, |_| {}).is_empty());
        }
        assert_eq!(lab.drops.total(Cause::Sink), 2);
        assert_eq!(lab.pool.packets_in_use(), 0);
    }
}
