//! Settings of one face's link service.

use crate::config::{FaceUpdate, LinkDefaults, MTU_MIN, ReliabilityLimits};
use crate::error::LinkError;
use crate::flags::FaceFlags;
use core::time::Duration;
use nw_element_api::{LinkType, Scope};
use nw_wire::PACKET_LEN_MAX;

/// Settings of one link service: the host's defaults, the transport's MTU, and what management
/// changed.
#[derive(Clone, Debug)]
pub struct LinkSettings {
    /// Largest link packet, bytes; `None` on streams, which are never fragmented.
    pub mtu: Option<usize>,
    /// MTU of the transport, used while none is set explicitly.
    mtu_default: Option<usize>,
    /// An MTU was set for this face: it holds even if the path could take less.
    pub(super) mtu_is_explicit: bool,
    /// Flags that are set.
    pub flags: FaceFlags,
    /// Base congestion marking interval.
    pub marking_interval: Duration,
    /// Congestion threshold, bytes of send queue.
    pub marking_threshold: u64,
    /// Whether Interests are shaped once the peer marks congestion.
    pub interest_shaping: bool,
    /// Limits of reliability, for when it is on.
    pub reliability: ReliabilityLimits,
}

impl LinkSettings {
    /// Returns the host's defaults, with the transport's `mtu` in bytes (`None` on streams).
    pub fn new(defaults: &LinkDefaults, mtu: Option<usize>) -> Self {
        LinkSettings {
            mtu,
            mtu_default: mtu,
            mtu_is_explicit: false,
            flags: FaceFlags::default()
                .with(FaceFlags::CONGESTION_MARKING, defaults.congestion_marking),
            marking_interval: defaults.marking_interval,
            marking_threshold: defaults.marking_threshold,
            interest_shaping: defaults.interest_shaping,
            reliability: defaults.reliability,
        }
    }

    /// Returns these settings with reliability on or off.
    #[must_use]
    pub const fn with_reliability(self, on: bool) -> Self {
        LinkSettings { flags: self.flags.with(FaceFlags::RELIABILITY, on), ..self }
    }

    /// Returns these settings with another MTU of the transport, in bytes. An explicit MTU stays.
    #[must_use]
    pub fn with_transport_mtu(mut self, mtu: usize) -> Self {
        self.mtu_default = Some(mtu);
        if !self.mtu_is_explicit {
            self.mtu = Some(mtu);
        }
        self
    }

    /// Returns these settings with the changes of `update`.
    ///
    /// # Errors
    /// Local fields on a face that is not local; an MTU on a stream, or one below [`MTU_MIN`].
    pub fn updated(&self, update: &FaceUpdate, scope: Scope) -> Result<Self, LinkError> {
        let mut settings = self.clone();
        settings.flags =
            FaceFlags(self.flags.0 & !update.flags_mask.0 | update.flags.0 & update.flags_mask.0);
        if settings.flags.contains(FaceFlags::LOCAL_FIELDS) && scope != Scope::Local {
            return Err(LinkError::LocalFieldsNonLocal);
        }
        if let Some(mtu) = update.mtu {
            if self.mtu.is_none() || mtu < MTU_MIN {
                return Err(LinkError::Mtu(mtu));
            }
            // A value above the longest packet clears an explicit MTU: nfdc's "auto" is 2^64 - 1.
            settings.mtu_is_explicit = mtu <= PACKET_LEN_MAX;
            settings.mtu = if settings.mtu_is_explicit { Some(mtu) } else { self.mtu_default };
        }
        settings.marking_interval = update.marking_interval.unwrap_or(self.marking_interval);
        settings.marking_threshold = update.marking_threshold.unwrap_or(self.marking_threshold);
        Ok(settings)
    }

    /// Checks that a link of this type can have these settings.
    ///
    /// # Errors
    /// Reliability on a link with several receivers: each would acknowledge.
    pub fn check_link_type(&self, link_type: LinkType) -> Result<(), LinkError> {
        if self.flags.contains(FaceFlags::RELIABILITY) && link_type != LinkType::PointToPoint {
            return Err(LinkError::ReliabilityShared);
        }
        Ok(())
    }
}
