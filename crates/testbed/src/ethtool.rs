//! Switching off what network cards do for the system.
//!
//! A pair of virtual interfaces hands a packet over with its checksum half made, as nobody looks. A kernel program that sends it on does not make
//! the other half, so the receiver drops it: senders must make whole ones.

use crate::error::LabError;
use nw_faces::interfaces::ethtool;

/// Whole checksums, and VLAN tags in the frame, where a kernel program sees them.
pub(crate) const WHOLE: &[(&str, bool)] =
    &[("tx-checksum-ip-generic", false), ("tx-vlan-hw-insert", false), ("tx-vlan-stag-hw-insert", false)];
/// Takes in what a kernel program at the other end sends: without either a program or this, frames that are redirected to an interface vanish.
pub(crate) const TAKES_REDIRECTED: &[(&str, bool)] = &[("rx-gro", true)];

/// Switches features of an interface in this thread's namespace. It must be up before GRO is switched on.
pub(crate) fn set(interface: &str, features: &[(&str, bool)]) -> Result<(), LabError> {
    ethtool::set_features(interface, features).map_err(|errno| LabError::Refused {
        what: format!("ethtool -K {interface}"),
        said: errno.to_string(),
    })
}
