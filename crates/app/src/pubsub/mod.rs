//! Publish/subscribe for applications: [`Publisher`], [`Subscriber`] and [`Scope`]; and the
//! [`Gateway`] that answers Interests with publications. [`Requester`] and [`Replier`] exchange
//! questions and answers, [`PresenceWatcher`] tells who is here.
//!
//! Publications are written once to a ring in shared memory that all subscribers of the machine
//! read; the node connects the two and carries publications to other nodes. Nothing here waits for
//! a slow subscriber unless [`WhenFull::Wait`] is chosen, and each subscriber is told how many
//! publications it lost.

mod border;
mod connection;
mod gateway;
mod presence;
mod publisher;
mod questions;
mod scope;
mod scope_requests;
mod subscriber;

pub use border::{
    Arrival, Border, BorderAction, BorderCounters, BorderOptions, Side as BorderSide,
};
pub use connection::{PubSubError, PubSubOptions, default_path, query};
pub use gateway::{Action, Gateway, GatewayCounters, GatewayOptions};
pub use nw_trust::publication::{PublicationFault, PublicationKeys, payload_of};
pub use presence::{Presence, PresenceWatcher};
pub use publisher::{ItemNumber, Publisher, WhenFull};
pub use questions::{Question, Replier, Requester};
pub use scope::Scope;
pub use subscriber::{Counts, Received, Subscriber};
