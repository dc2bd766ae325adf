//! Publish/subscribe for applications: [`Publisher`], [`Subscriber`] and [`Scope`].
//!
//! Publications are written once to a ring in shared memory that all subscribers of the machine
//! read; the node connects the two and carries publications to other nodes. Nothing here waits for
//! a slow subscriber unless [`WhenFull::Wait`] is chosen, and each subscriber is told how many
//! publications it lost.

mod connection;
mod publisher;
mod scope;
mod subscriber;

pub use connection::{PubSubError, PubSubOptions, default_path, query};
pub use publisher::{ItemNumber, Publisher, WhenFull};
pub use scope::Scope;
pub use subscriber::{Counts, Received, Subscriber};
