//! Metadata of a packet: computed once at ingress and carried along with its bytes.

use crate::announcements::AnnouncementRef;
use crate::{FaceId, Timestamp};
use nw_name::{HashKey, NameRef, PrefixHashes};
use nw_wire::{NackReason, Span, Token};

/// The kind of a packet in forwarding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A request.
    Interest,
    /// An answer.
    Data,
    /// A rejection: an Interest sent back with a reason in its link header.
    Nack,
    /// A publish/subscribe packet: see [`nw_wire::publication::Envelope`]. It has no name, so its
    /// metadata has none.
    Publication,
}

/// Link header fields: as received until forwarding decides, then as to be sent.
#[derive(Clone, Copy, Debug, Default)]
pub struct LinkFields {
    /// PIT token. Received with an Interest: the downstream's, to be returned. Received with Data
    /// or a Nack: this router's.
    pub token: Token,
    /// The reason, on a Nack.
    pub nack: Option<NackReason>,
    /// Congestion mark; 0 for none.
    pub congestion_mark: u64,
    /// NextHopFaceId: the face the application wants the Interest to be sent to.
    pub next_hop_face: Option<FaceId>,
    /// Ingress face, for local applications that enabled it; [`FaceId::NONE`] if unknown.
    pub incoming_face: FaceId,
    /// CachePolicy NoCache.
    pub no_cache: bool,
    /// NonDiscovery: the Interest must not be flooded.
    pub non_discovery: bool,
    /// The prefix announcement received, or to be sent, with a Data: see
    /// [`Pool::announcement`](crate::Pool::announcement).
    pub announcement: AnnouncementRef,
}

impl LinkFields {
    /// Sets all fields to their defaults in place, with fewer stores than an assignment.
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
        *announcement = AnnouncementRef::default();
    }
}

/// Metadata of one packet. Fields are ordered by use, so that a Data whose name is not resolved
/// touches few cache lines.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct Meta {
    /// The kind of packet.
    pub kind: Kind,
    /// Ingress face.
    pub ingress: FaceId,
    /// Whether the ingress face is local.
    pub ingress_local: bool,
    /// Egress face, set by forwarding.
    pub egress: FaceId,
    /// Time of arrival.
    pub arrival: Timestamp,
    /// Link header fields.
    pub link: LinkFields,
    /// Byte range of the name's TLV-VALUE in the packet.
    pub name: Span,
    /// Data: FreshnessPeriod in milliseconds, limited to `u32`.
    pub freshness_ms: u32,
    /// Data: whether a content store has it already, or must not store it.
    pub cached: bool,
    /// Data: whether its name was not resolved (checked and hashed) yet and may be malformed. Then
    /// [`prefixes`](Self::prefixes) are those of `/`, except for the full hash once the pending
    /// Interest of that name is found. See [`decode_lazily`](crate::decode::decode_lazily).
    pub name_deferred: bool,
    /// Interest: CanBePrefix.
    pub can_be_prefix: bool,
    /// Interest: MustBeFresh.
    pub must_be_fresh: bool,
    /// Interest: nonce; 0 if [`nonce_start`](Self::nonce_start) is 0.
    pub nonce: u32,
    /// Interest: lifetime in milliseconds, limited to `u32`.
    pub lifetime_ms: u32,
    /// Interest: offset of the nonce's 4 bytes; 0 if there is none.
    pub nonce_start: u16,
    /// Interest: offset of the hop limit's byte; 0 if there is none.
    pub hop_limit_start: u16,
    /// Interest: byte range of ForwardingHint's TLV-VALUE; [`Span::NONE`] if there is none.
    pub forwarding_hint: Span,
    /// Hashes and lengths of the name's prefixes. Last, because it is large.
    pub prefixes: PrefixHashes,
}

impl Meta {
    /// Creates the metadata of a packet that is not decoded yet.
    pub fn new(key: &HashKey) -> Self {
        Meta {
            kind: Kind::Interest,
            ingress: FaceId::NONE,
            ingress_local: false,
            egress: FaceId::NONE,
            arrival: Timestamp::START,
            link: LinkFields::default(),
            name: Span::NONE,
            can_be_prefix: false,
            must_be_fresh: false,
            nonce: 0,
            nonce_start: 0,
            lifetime_ms: 0,
            hop_limit_start: 0,
            forwarding_hint: Span::NONE,
            freshness_ms: 0,
            cached: false,
            name_deferred: false,
            prefixes: PrefixHashes::new(key),
        }
    }

    /// Returns whether the hash of the full name is known, with or without those of its prefixes.
    #[inline(always)]
    pub const fn has_full_hash(&self) -> bool {
        !self.name_deferred || self.prefixes.lookup_len() != 0
    }

    /// Returns the name in the packet's bytes.
    #[inline]
    pub fn name_in<'a>(&self, bytes: &'a [u8]) -> NameRef<'a> {
        NameRef::from_checked(self.name.in_bytes(bytes))
    }
}
