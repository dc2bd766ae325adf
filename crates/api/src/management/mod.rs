//! The NFD management protocol: messages, names of commands and datasets, and the client side.
//!
//! Invariant: encoders always write fields in NFD's order.

pub mod client;
pub mod command;
pub mod face;
pub mod labels;
pub mod number;
pub mod parameters;
pub(crate) mod record;
pub mod table;
mod validate;

pub use command::{Dataset, Request, Root, Verb};
pub use face::{
    ChannelStatus, FaceEventKind, FaceEventNotification, FacePersistency, FaceQueryFilter,
    FaceScope, FaceStatus, LinkType,
};
pub use parameters::{ControlParameters, ControlResponse, Strategy, flags, origin};
pub use record::{Field, Scalar};
pub use table::{
    CsInfo, DropCount, FibEntry, ForwarderStatus, NextHopRecord, RibEntry, Route, ShardStatus,
    StrategyChoice, XdpStatus,
};

/// Serialization of names as URIs.
pub(crate) mod uri {
    use nw_name::Name;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub fn serialize<S: Serializer>(name: &Name, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(name)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Name, D::Error> {
        let uri = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        uri.parse()
            .map_err(|error| D::Error::custom(format_args!("{uri:?} is not a name: {error}")))
    }
}

/// Serialization of optional names as URIs.
pub(crate) mod uri_option {
    use nw_name::Name;
    use serde::{Deserializer, Serializer};

    pub fn serialize<S: Serializer>(name: &Option<Name>, serializer: S) -> Result<S::Ok, S::Error> {
        match name {
            Some(name) => serializer.collect_str(name),
            None => serializer.serialize_none(),
        }
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Name>, D::Error> {
        super::uri::deserialize(deserializer).map(Some)
    }
}
