//! The NFD management protocol: messages, names of commands and datasets, and a client's side of both.
//!
//! What follows which sentence of the protocol is said where it is done. Encoders write NFD's field order, always.

pub mod client;
pub mod command;
pub mod face;
pub mod named;
pub mod number;
pub mod parameters;
pub(crate) mod record;
pub mod table;
mod validate;

pub use command::{Dataset, Request, Root, Verb};
pub use face::{
    ChannelStatus, FaceEventKind, FaceEventNotification, FacePersistency, FaceQueryFilter, FaceScope,
    FaceStatus, LinkType,
};
pub use parameters::{ControlParameters, ControlResponse, Strategy, flags, origin};
pub use record::{Field, Scalar};
pub use table::{
    CsInfo, DropCount, FibEntry, ForwarderStatus, NextHopRecord, RibEntry, Route, ShardStatus,
    StrategyChoice, XdpStatus,
};

/// Names leave, and come, as URIs.
pub(crate) mod uri {
    use nw_name::Name;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub fn serialize<S: Serializer>(name: &Name, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(name)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Name, D::Error> {
        let uri = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        uri.parse().map_err(|error| D::Error::custom(format_args!("{uri:?} is no name: {error}")))
    }
}

/// As [`uri`].
pub(crate) mod uri_option {
    use nw_name::Name;
    use serde::{Deserializer, Serializer};

    pub fn serialize<S: Serializer>(name: &Option<Name>, serializer: S) -> Result<S::Ok, S::Error> {
        match name {
            Some(name) => serializer.collect_str(name),
            None => serializer.serialize_none(),
        }
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Name>, D::Error> {
        super::uri::deserialize(deserializer).map(Some)
    }
}
