//! Splits decoded packets by kind, after the checks that need no table.
//!
//! ```text
//! In:     packet
//! Out:    interest, data, nack
//! Needs:  all that decoding fills; ingress, ingress_local, link as received
//! Sets:   the nonce of an Interest without one; its hop limit, decremented
//! State:  one random number, 8 bytes
//! Timers: none
//! Cost:   a few nanoseconds; an Interest without nonce is copied
//! Drops:  hop_limit_zero, scope_localhost, link_field_refused, malformed_too_long (no space for a
//!         nonce), no_buffer, publication_unhandled
//! Spec:   NDN Packet Format 0.3, HopLimit and Nonce; NDNLPv2, fields by kind of packet; scope of
//!         /localhost
//! ```

use crate::rewrite;
use crate::scope::{NameScope, Scopes};
use nw_element_api::{Context, DropCause, DropReason, Element, Kind, Packet, Pool, Timestamp};
use nw_name::HashKey;
use nw_packet_types::random::Random;

nw_element_api::ports! {
    /// Input ports.
    pub enum In {
        /// Any decoded packet.
        Packet = "packet" [Interest, Data, Nack],
    }
}

nw_element_api::ports! {
    /// Output ports.
    pub enum Out {
        /// Interests, with a nonce and a decremented hop limit.
        Interest = "interest" [Interest],
        /// Data, unchanged.
        Data = "data" [Data],
        /// Nacks, unchanged.
        Nack = "nack" [Nack],
    }
}

/// The packet dispatcher element.
#[derive(Debug)]
pub struct PacketDispatcher {
    random: Random,
    scopes: Scopes,
}

impl PacketDispatcher {
    /// Creates a dispatcher. `key` must be the key that packets are decoded with; `seed` is that of
    /// the nonces added to Interests without one.
    pub fn new(key: &HashKey, seed: u64) -> Self {
        PacketDispatcher { random: Random::new(seed), scopes: Scopes::new(key) }
    }

    /// Returns the output port of a packet, or the packet and its drop reason. Does the work of
    /// [`process`](Element::process), for a host without an outbox.
    #[inline(always)]
    pub fn dispatch(
        &mut self,
        packet: Packet,
        pool: &mut Pool,
    ) -> Result<(Out, Packet), (Packet, DropReason)> {
        let meta = pool.meta(&packet);
        match meta.kind {
            Kind::Interest => self.interest(packet, pool).map(|packet| (Out::Interest, packet)),
            Kind::Data if self.crosses_scope(&packet, pool) => {
                Err((packet, DropCause::ScopeLocalhost.into()))
            }
            Kind::Data => Ok((Out::Data, packet)),
            // "CachePolicy or NextHopFaceId on a Nack: drop."
            Kind::Nack if meta.link.no_cache || meta.link.next_hop_face.is_some() => {
                Err((packet, DropCause::LinkFieldRefused.into()))
            }
            Kind::Nack => Ok((Out::Nack, packet)),
            Kind::Publication => Err((packet, DropCause::PublicationUnhandled.into())),
        }
    }

    /// Returns the next nonce. Nonces must differ, not be secret.
    fn next_nonce(&mut self) -> u32 {
        (self.random.next_u64() >> 32) as u32
    }

    /// Checks an Interest. Most have no hop limit and need no change.
    #[inline(always)]
    fn interest(
        &mut self,
        packet: Packet,
        pool: &mut Pool,
    ) -> Result<Packet, (Packet, DropReason)> {
        let meta = pool.meta(&packet);
        let is_simple = meta.hop_limit_start == 0 && meta.nonce_start != 0 && !meta.link.no_cache;
        if is_simple && !self.crosses_scope(&packet, pool) {
            Ok(packet)
        } else {
            self.interest_slow(packet, pool)
        }
    }

    /// The slow form of [`interest`](Self::interest): decrements the hop limit, adds a nonce.
    #[inline(never)]
    fn interest_slow(
        &mut self,
        packet: Packet,
        pool: &mut Pool,
    ) -> Result<Packet, (Packet, DropReason)> {
        let meta = pool.meta(&packet);
        if meta.link.no_cache {
            return Err((packet, DropCause::LinkFieldRefused.into()));
        }
        let (hop_limit_start, has_nonce) =
            (usize::from(meta.hop_limit_start), meta.nonce_start != 0);
        if hop_limit_start != 0 {
            // "HopLimit 0: drop; otherwise decrement." An absent one stays absent.
            match &mut pool.bytes_mut(&packet)[hop_limit_start] {
                0 => return Err((packet, DropCause::HopLimitZero.into())),
                hop_limit => *hop_limit -= 1,
            }
        }
        if self.crosses_scope(&packet, pool) {
            return Err((packet, DropCause::ScopeLocalhost.into()));
        }
        if has_nonce { Ok(packet) } else { rewrite::with_nonce(pool, packet, self.next_nonce()) }
    }

    /// Returns whether this is a `/localhost` name from another machine. Checked before any table
    /// is read, so that no cache answers it.
    #[inline(always)]
    fn crosses_scope(&self, packet: &Packet, pool: &Pool) -> bool {
        let meta = pool.meta(packet);
        let name = || meta.name_in(pool.bytes(packet));
        !meta.ingress_local && self.scopes.of_packet(name, meta) == NameScope::Localhost
    }
}

impl Element for PacketDispatcher {
    type In = In;
    type Out = Out;

    const ACCEPTS_DEFERRED_NAMES: bool = true;

    #[inline(always)]
    fn process(&mut self, _: Timestamp, port: In, packet: Packet, context: &mut Context<'_, Out>) {
        let In::Packet = port;
        match self.dispatch(packet, context.pool) {
            Ok((port, packet)) => context.out.send(port, packet),
            Err((packet, reason)) => context.pool.drop_packet(packet, reason, context.drops),
        }
    }
}
