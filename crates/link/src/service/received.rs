//! The link fields of a received link packet, kept until its network packet is complete.

use nw_element_api::{AnnouncementRef, DropCause, DropReason, FaceId, LinkFields};
use nw_wire::{Fault, LpPacket, NackReason, Token, types};

/// Fields of a link packet that outlive its bytes.
#[derive(Clone, Copy, Debug)]
pub struct ReceivedFields {
    token: Token,
    nack: Option<NackReason>,
    pub(super) congestion_mark: u64,
    next_hop: Option<u64>,
    no_cache: bool,
    non_discovery: bool,
    has_announcement: bool,
    announcement: AnnouncementRef,
}

impl ReceivedFields {
    /// Returns the fields of `lp`; `announcement` is the stored copy of its prefix announcement.
    #[inline]
    pub(super) fn new(lp: &LpPacket<'_>, announcement: AnnouncementRef) -> Self {
        ReceivedFields {
            token: lp.pit_token,
            nack: lp.nack,
            congestion_mark: lp.congestion_mark,
            next_hop: lp.next_hop_face_id,
            no_cache: lp.no_cache,
            non_discovery: lp.non_discovery,
            has_announcement: lp.prefix_announcement.is_some(),
            announcement,
        }
    }

    /// Returns the fields for forwarding, for a network packet of TLV type `kind`.
    ///
    /// # Errors
    /// A field that NDNLPv2 does not permit on this kind of packet, or NextHopFaceId on a face
    /// without local fields. (The decoder checks Nack and NonDiscovery on Data.)
    #[inline]
    pub(super) fn link_fields(
        &self,
        kind: Option<u32>,
        local_fields: bool,
        congested: bool,
    ) -> Result<LinkFields, DropReason> {
        let mut link = LinkFields {
            token: self.token,
            nack: self.nack,
            congestion_mark: self.congestion_mark.max(u64::from(congested)),
            no_cache: self.no_cache,
            non_discovery: self.non_discovery,
            announcement: self.announcement,
            ..LinkFields::default()
        };
        if let Some(number) = self.next_hop {
            if kind == Some(types::DATA) {
                return Err(DropReason::Malformed(Fault::LinkField));
            }
            if !local_fields {
                return Err(DropCause::LinkFieldRefused.into());
            }
            link.next_hop_face =
                Some(FaceId::from_number(number).ok_or(DropCause::NextHopUnknown)?);
        }
        if kind == Some(types::INTEREST) && (self.no_cache || self.has_announcement) {
            return Err(DropReason::Malformed(Fault::LinkField));
        }
        Ok(link)
    }
}
