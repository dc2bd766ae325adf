//! Sends each packet on, and a copy of it another way: to something that watches, counts or records.
//!
//! ```text
//! In:     packet
//! Out:    packet, copy
//! Needs:  nothing
//! Sets:   nothing: a copy is like its packet in everything
//! State:  none
//! Timers: none
//! Cost:   a slot of metadata; the octets of a Data are shared, those of an Interest or a Nack copied
//! Drops:  no_buffer (a copy that could not be made; the packet goes on)
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
    /// Where packets leave.
    pub enum Out {
        /// As it came.
        Packet = "packet" [Interest, Data, Nack],
        /// Another one like it.
        Copy = "copy" [Interest, Data, Nack],
    }
}

/// See the module.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tee;

impl Element for Tee {
    type In = In;
    type Out = Out;

    const TAKES_UNREAD_NAMES: bool = true;

    fn usual(_: In) -> Option<Out> {
        Some(Out::Packet)
    }

    fn process(&mut self, _: Instant, port: In, packet: Packet, context: &mut Context<'_, Out>) {
        let In::Packet = port;
        let copy = context.pool.twin(&packet);
        context.out.send(Out::Packet, packet);
        match copy {
            Some(copy) => context.out.send(Out::Copy, copy),
            None => context.drops.count(Cause::NoBuffer),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab::{Lab, data, face, interest, ports};
    use nw_element_api::Kind;

    #[test]
    fn a_copy_is_like_its_packet() {
        let mut lab = Lab::new(Tee);
        for (wire, kind) in [(interest("/a/b", 7), Kind::Interest), (data("/a/b"), Kind::Data)] {
            let left = lab.give(In::Packet, &wire, |meta| {
                meta.ingress = face(300);
                meta.egress = face(301);
                meta.link.congestion_mark = 3;
            });
            assert_eq!(ports(&left), ["packet", "copy"]);
            for left in left {
                assert_eq!((left.kind, left.name.as_str(), left.wire), (kind, "/a/b", wire.clone()));
                assert_eq!((left.ingress, left.egress, left.link.congestion_mark), (face(300), face(301), 3));
            }
        }
        assert_eq!(lab.pool.packets_in_use(), 0);
    }

    /// A hop limit is counted down in place: on one way that must not show on the other.
    #[test]
    fn an_interest_s_octets_are_its_own() {
        let mut lab = Lab::new(Tee);
        let packet = lab.packet(&interest("/a", 7), |_| {});
        let twin = lab.pool.twin(&packet).unwrap();
        lab.pool.bytes_mut(&packet).fill(0);
        assert_eq!(lab.pool.bytes(&twin), interest("/a", 7));
        assert_eq!(lab.pool.meta(&twin).prefixes.whole(), lab.pool.meta(&packet).prefixes.whole());
        lab.pool.release(packet);
        lab.pool.release(twin);
    }

    #[test]
    fn without_a_buffer_the_packet_goes_on() {
        let mut lab = Lab::with_packets(Tee, 1);
        for wire in [interest("/a", 7), data("/a")] {
            assert_eq!(ports(&lab.give(In::Packet, &wire, |_| {})), ["packet"]);
        }
        assert_eq!(lab.drops.total(Cause::NoBuffer), 2);
        assert_eq!(lab.pool.packets_in_use(), 0);
    }
}
