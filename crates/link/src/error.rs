//! Errors in the settings of a link.

/// Why a link can't have the settings requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// Local fields requested for a face that is not local.
    #[error("local fields are for faces of this machine")]
    LocalFieldsNonLocal,
    /// Reliability requested for a face with several receivers.
    #[error("reliability is between two: a face to a group can't have it")]
    ReliabilityShared,
    /// An MTU for a stream, or one out of range, bytes.
    #[error("the MTU of this face can't be {0} bytes (datagram faces: 64 or more)")]
    Mtu(usize),
}
