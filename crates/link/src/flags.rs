//! Persistency and flags of a face, numbered as in NFD's management protocol.

/// When a face is closed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Persistency {
    /// Closed on request, or when its socket fails.
    #[default]
    Persistent = 0,
    /// Created for an incoming peer; also closed when the peer is idle for long or disconnects.
    OnDemand = 1,
    /// Closed on request only: reconnects after failures, and survives errors of datagrams.
    Permanent = 2,
}

impl Persistency {
    /// Returns the persistency with this number in the management protocol.
    pub const fn from_number(number: u64) -> Option<Self> {
        match number {
            0 => Some(Persistency::Persistent),
            1 => Some(Persistency::OnDemand),
            2 => Some(Persistency::Permanent),
            _ => None,
        }
    }

    /// Returns the word that commands print and accept: `persistent`, `on-demand`, `permanent`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Persistency::Persistent => "persistent",
            Persistency::OnDemand => "on-demand",
            Persistency::Permanent => "permanent",
        }
    }
}

/// Flags of a face, as a bit set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaceFlags(pub u64);

impl FaceFlags {
    /// IncomingFaceId is sent, NextHopFaceId is honoured.
    pub const LOCAL_FIELDS: FaceFlags = FaceFlags(1);
    /// Link packets are acknowledged, and retransmitted when lost; both ends must enable it.
    pub const RELIABILITY: FaceFlags = FaceFlags(2);
    /// A long send queue sets congestion marks.
    pub const CONGESTION_MARKING: FaceFlags = FaceFlags(4);

    /// Returns whether all flags of `other` are set.
    pub const fn contains(self, other: FaceFlags) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns these flags with those of `other` set (`on`) or cleared.
    #[must_use]
    pub const fn with(self, other: FaceFlags, on: bool) -> FaceFlags {
        if on { FaceFlags(self.0 | other.0) } else { FaceFlags(self.0 & !other.0) }
    }
}
