//! Splits decoded packets by kind, after the checks that need no table.
//!
//! ```text
//! In:     packet
//! Out:    interest, data, nack
//! Needs:  all that decoding fills; ingress, ingress_local, link as received
//! Sets:   nonce of an Interest that came without one; its hop limit, one less
//! State:  one random number, 8 octets
//! Timers: none
//! Cost:   a few nanoseconds; an Interest without nonce is copied
//! Drops:  hop_limit_zero, scope_localhost, link_field_refused, malformed_too_long (no room for a nonce), no_buffer
//! Spec:   NDN Packet Format 0.3, HopLimit and Nonce; NDNLPv2, fields by kind of packet; scope of /localhost
//! ```

use crate::rewrite;
use crate::scope::{NameScope, Scopes};
use nw_element_api::{Cause, Context, DropReason, Element, Instant, Kind, Packet, Pool};
use nw_name::HashKey;

nw_element_api::ports! {
    /// Where packets enter.
    pub enum In {
        /// Any decoded packet.
        Packet = "packet" [Interest, Data, Nack],
    }
}

nw_element_api::ports! {
    /// Where packets leave.
    pub enum Out {
        /// With a nonce, and a hop limit that is one less.
        Interest = "interest" [Interest],
        /// As it came.
        Data = "data" [Data],
        /// As it came.
        Nack = "nack" [Nack],
    }
}

/// See the module.
#[derive(Debug)]
pub struct PacketDispatcher {
    random: u64,
    scopes: Scopes,
}

impl PacketDispatcher {
    /// `key` is the one packets are decoded with; `seed` makes the nonces of Interests that came without one.
    pub fn new(key: &HashKey, seed: u64) -> Self {
        PacketDispatcher { random: seed, scopes: Scopes::new(key) }
    }

    /// Where a packet goes on, or why it doesn't: what [`process`](Element::process) does, for a host that has one place for all that leave.
    #[inline(always)]
    pub fn dispatch(
        &mut self,
        packet: Packet,
        pool: &mut Pool,
    ) -> Result<(Out, Packet), (Packet, DropReason)> {
        let meta = pool.meta(&packet);
        match meta.kind {
            Kind::Interest => self.interest(packet, pool).map(|packet| (Out::Interest, packet)),
            Kind::Data if self.crosses_scope(&packet, pool) => Err((packet, Cause::ScopeLocalhost.into())),
            Kind::Data => Ok((Out::Data, packet)),
            // "CachePolicy or NextHopFaceId on a Nack: drop."
            Kind::Nack if meta.link.no_cache || meta.link.next_hop_face.is_some() => {
                Err((packet, Cause::LinkFieldRefused.into()))
            }
            Kind::Nack => Ok((Out::Nack, packet)),
        }
    }

    /// SplitMix64: nonces must differ, not be secret.
    fn next_nonce(&mut self) -> u32 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.random ^ self.random >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed >> 32) as u32
    }

    #[inline(always)]
    fn interest(&mut self, packet: Packet, pool: &mut Pool) -> Result<Packet, (Packet, DropReason)> {
        let meta = pool.meta(&packet);
        let is_usual = meta.hop_limit_start == 0 && meta.nonce_start != 0 && !meta.link.no_cache;
        if is_usual && !self.crosses_scope(&packet, pool) {
            Ok(packet)
        } else {
            self.other_interest(packet, pool)
        }
    }

    #[inline(never)]
    fn other_interest(&mut self, packet: Packet, pool: &mut Pool) -> Result<Packet, (Packet, DropReason)> {
        let meta = pool.meta(&packet);
        if meta.link.no_cache {
            return Err((packet, Cause::LinkFieldRefused.into()));
        }
        let (hop_limit_start, has_nonce) = (usize::from(meta.hop_limit_start), meta.nonce_start != 0);
        if hop_limit_start != 0 {
            // "HopLimit 0: drop; otherwise decrement." An absent one stays absent.
            match &mut pool.bytes_mut(&packet)[hop_limit_start] {
                0 => return Err((packet, Cause::HopLimitZero.into())),
                hop_limit => *hop_limit -= 1,
            }
        }
        if self.crosses_scope(&packet, pool) {
            return Err((packet, Cause::ScopeLocalhost.into()));
        }
        if has_nonce { Ok(packet) } else { rewrite::with_nonce(pool, packet, self.next_nonce()) }
    }

    /// `/localhost` from another machine. Checked before any table is asked, so that no cache gives such names away.
    #[inline(always)]
    fn crosses_scope(&self, packet: &Packet, pool: &Pool) -> bool {
        let meta = pool.meta(packet);
        let name = || meta.name_in(pool.bytes(packet));
        !meta.ingress_local && self.scopes.of_any(name, meta) == NameScope::Localhost
    }
}

impl Element for PacketDispatcher {
    type In = In;
    type Out = Out;

    const TAKES_UNREAD_NAMES: bool = true;

    #[inline(always)]
    fn process(&mut self, _: Instant, port: In, packet: Packet, context: &mut Context<'_, Out>) {
        let In::Packet = port;
        match self.dispatch(packet, context.pool) {
            Ok((port, packet)) => context.out.send(port, packet),
            Err((packet, reason)) => context.pool.drop_packet(packet, reason, context.drops),
        }
    }
}
