//! Disables offload features of interfaces.
//!
//! A veth pair passes packets on with partial checksums. A kernel program that forwards such a
//! packet does not complete the checksum, so the receiver drops it. Senders must therefore compute
//! full checksums.

use crate::error::LabError;
use nw_faces::interfaces::ethtool;

/// Full checksums, and VLAN tags in the frame, where kernel programs see them.
pub(crate) const FULL_CHECKSUMS: &[(&str, bool)] = &[
    ("tx-checksum-ip-generic", false),
    ("tx-vlan-hw-insert", false),
    ("tx-vlan-stag-hw-insert", false),
];
/// Accepts frames that a kernel program redirects to the peer interface. They are dropped without
/// this or a program of the interface's own.
pub(crate) const ACCEPTS_REDIRECTED: &[(&str, bool)] = &[("rx-gro", true)];

/// Sets features of an interface in this thread's namespace. The interface must be up before GRO is
/// enabled.
pub(crate) fn set(interface: &str, features: &[(&str, bool)]) -> Result<(), LabError> {
    ethtool::set_features(interface, features).map_err(|errno| LabError::Refused {
        what: format!("ethtool -K {interface}"),
        said: errno.to_string(),
    })
}
