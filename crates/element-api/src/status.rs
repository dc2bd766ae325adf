//! The state of an element as data, for operators.

use crate::{FaceId, Timestamp};
use nw_name::Name;

/// The state of an element: numbers by name, and failures where it verifies packets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ElementStatus {
    /// Numbers by name, such as `pending` or `hits`.
    pub values: Vec<(&'static str, u64)>,
    /// Number of all failures so far.
    pub failures_total: u64,
    /// The last failures, oldest first.
    pub failures: Vec<PacketFailure>,
    /// Names of certificates, or of their keys, that are needed and were not seen.
    pub wanted_certificates: Vec<Name>,
}

/// A packet that failed verification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketFailure {
    /// Name of the packet.
    pub name: Name,
    /// The reason.
    pub reason: &'static str,
    /// Its ingress face.
    pub ingress: FaceId,
    /// Time of arrival.
    pub at: Timestamp,
    /// Whether another packet of this name was valid.
    pub is_contested: bool,
}
