//! Routes of all name routers: from registrations and static routes to shortest paths.

use crate::target::InstanceId;
use serde::{Deserialize, Serialize};

/// A route of one name router.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Route {
    /// Instance.
    pub instance: InstanceId,
    /// Element that routes by name.
    pub element: String,
    /// Prefix, as a URI.
    pub prefix: String,
    /// Face of the instance that leads to the prefix.
    pub face: String,
    /// Cost of the path by that face.
    pub cost: u64,
}
