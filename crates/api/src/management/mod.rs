//! The NFD management protocol: messages, names of commands and datasets, and a client's side of both.
//!
//! What follows which sentence of the protocol is said where it is done. Encoders write NFD's field order, always.

pub mod client;
pub mod command;
pub mod face;
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
    CsInfo, DropCount, FibEntry, ForwarderStatus, NextHopRecord, RibEntry, Route, StrategyChoice,
};

use nw_name::Name;
use serde::Serializer;

/// Names leave as URIs.
pub(crate) fn uri<S: Serializer>(name: &Name, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(name)
}

/// As [`uri`].
pub(crate) fn uri_option<S: Serializer>(name: &Option<Name>, serializer: S) -> Result<S::Ok, S::Error> {
    match name {
        Some(name) => serializer.collect_str(name),
        None => serializer.serialize_none(),
    }
}
