//! Publish/subscribe between applications and their node: names, patterns, rules, messages and the
//! status as JSON.
//!
//! The payload of publications is not here: it goes through a ring in shared memory
//! (`nw_faces::local_pubsub`), or in [`message::Fragment`]s for applications without it.

pub mod message;
pub mod name;
pub mod passage;
pub mod status;

pub use message::{
    Event, ForwardingPath, Fragment, ImplicitRoute, ItemOptions, MessageFault, Reply, Request,
    VERSION,
};
pub use name::{ItemName, NameFault, ScopePattern};
pub use nw_pubsub::{PublisherChoice, Strategy};
pub use passage::{DomainName, DomainPath};
