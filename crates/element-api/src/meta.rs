//! What is known of a packet besides its bytes: computed once at ingress, carried along.

use crate::announcements::Ticket;
use crate::{FaceId, Instant};
use core::cell::Cell;
use nw_name::{HashKey, NameRef, Prefixes};
use nw_tables::cs::CsHint;
use nw_tables::fib::FibHint;
use nw_wire::{NackReason, Token};

/// What a packet is to forwarding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Asks.
    Interest,
    /// Answers.
    Data,
    /// Refuses: an Interest sent back with a reason in its link header.
    Nack,
}

/// Fields of the link header: as received until forwarding decides, then as to be sent.
#[derive(Clone, Copy, Debug, Default)]
pub struct LinkFields {
    /// PIT token. Received on an Interest: the downstream's, to be given back. Received on Data or Nack: ours.
    pub token: Token,
    /// On a Nack.
    pub nack: Option<NackReason>,
    /// Congestion mark, 0 for none.
    pub congestion_mark: u64,
    /// The application wants the Interest to leave by this face.
    pub next_hop_face: Option<FaceId>,
    /// To be told to a local application that asked for it; [`FaceId::NONE`] when unknown.
    pub incoming_face: FaceId,
    /// CachePolicy NoCache.
    pub no_cache: bool,
    /// The Interest must not be flooded.
    pub non_discovery: bool,
    /// The prefix announcement that comes, or goes, with a Data: see [`Pool::announcement`](crate::Pool::announcement).
    pub announcement: Ticket,
}

impl LinkFields {
    /// Makes it the default, in place: fewer stores than moving one here.
    #[inline(always)]
    pub fn clear(&mut self) {
        let LinkFields {
            token,
            nack,
            congestion_mark,
            next_hop_face,
            incoming_face,
            no_cache,
            non_discovery,
            announcement,
        } = self;
        token.clear();
        *nack = None;
        *congestion_mark = 0;
        *next_hop_face = None;
        *incoming_face = FaceId::NONE;
        (*no_cache, *non_discovery) = (false, false);
        *announcement = Ticket::default();
    }
}

/// Metadata of one packet. In the order of what reads it, so that a Data whose name is not read touches few cache lines.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct Meta {
    /// What it is.
    pub kind: Kind,
    /// By which face it came.
    pub ingress: FaceId,
    /// True when that face is local.
    pub ingress_local: bool,
    /// By which face it leaves; set by forwarding.
    pub egress: FaceId,
    /// When it came.
    pub arrival: Instant,
    /// Link header fields.
    pub link: LinkFields,
    /// Where the name's TLV-VALUE stands in the packet: start and length, octets.
    pub name: (u16, u16),
    /// Data: FreshnessPeriod in milliseconds, limited to `u32`.
    pub freshness_ms: u32,
    /// Data: true once a content store has it, or must not have it.
    pub cached: bool,
    /// Data: its name was not read yet and may be none. [`prefixes`](Self::prefixes) are those of `/`, but for the hash of the whole once the
    /// pending Interest of that name is found. See [`decode_lazily`](crate::decode::decode_lazily).
    pub name_unread: bool,
    /// Interest: CanBePrefix.
    pub can_be_prefix: bool,
    /// Interest: MustBeFresh.
    pub must_be_fresh: bool,
    /// Data whose name was not read: its hash, as asking for memory found it where the label leads; 0 when it found nothing.
    pub likely_hash: Cell<u64>,
    /// Interest: nonce (0 until [`nonce_start`](Self::nonce_start) says there is one).
    pub nonce: u32,
    /// Interest: lifetime in milliseconds, limited to `u32`.
    pub lifetime_ms: u32,
    /// Interest: where the nonce's four octets start; 0 when there is none.
    pub nonce_start: u16,
    /// Interest: where the hop limit's octet stands; 0 when there is none.
    pub hop_limit_start: u16,
    /// Interest: TLV-VALUE of ForwardingHint, start and length; length 0 when there is none.
    pub hint: (u16, u16),
    /// Interest: asking for memory found that there may be a pending one like it.
    pub maybe_pending: Cell<bool>,
    /// Interest: what asking for the content store's memory found out already.
    pub cache_hint: CsHint,
    /// Interest: what asking for the FIB's memory found out already.
    pub route_hint: FibHint,
    /// Hashes and ends of the name's prefixes. Large, so last.
    pub prefixes: Prefixes,
}

impl Meta {
    /// Of a packet not decoded yet.
    pub fn new(key: &HashKey) -> Self {
        Meta {
            kind: Kind::Interest,
            ingress: FaceId::NONE,
            ingress_local: false,
            egress: FaceId::NONE,
            arrival: Instant::START,
            link: LinkFields::default(),
            name: (0, 0),
            can_be_prefix: false,
            must_be_fresh: false,
            nonce: 0,
            nonce_start: 0,
            lifetime_ms: 0,
            hop_limit_start: 0,
            hint: (0, 0),
            freshness_ms: 0,
            cached: false,
            name_unread: false,
            likely_hash: Cell::new(0),
            maybe_pending: Cell::new(false),
            cache_hint: CsHint::default(),
            route_hint: FibHint::default(),
            prefixes: Prefixes::new(key),
        }
    }

    /// True when the hash of the whole name is there, with those of its prefixes or without.
    #[inline(always)]
    pub const fn knows_hash(&self) -> bool {
        !self.name_unread || self.prefixes.key_len() != 0
    }

    /// The name, in the packet's bytes.
    #[inline]
    pub fn name_in<'a>(&self, bytes: &'a [u8]) -> NameRef<'a> {
        let (start, len) = (usize::from(self.name.0), usize::from(self.name.1));
        NameRef::from_checked(&bytes[start..start + len])
    }
}
