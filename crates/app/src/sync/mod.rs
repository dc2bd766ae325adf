//! Sync groups: members that know of each other's publications without a server, by State Vector
//! Sync (SVS) version 3.
//!
//! ```text
//! /GROUP/32=svs/v=3/params-sha256=…         Sync Interest: a signed Data with a state vector
//! /GROUP/MEMBER/t=BOOT/seq=N/v=0/seg=0      publication N of a member since it started
//! ```
//!
//! The names are those of NDNd's `SvsALO`. [`SyncMember`] is pure: time and packets are arguments.
//! A [`GroupScope`] maps names of publish/subscribe to members, and a [`BridgeElection`] chooses
//! one of the programs that connect a domain to a group.

mod election;
mod group;
mod member;
mod scope;
mod vector;

pub use election::BridgeElection;
pub use group::SyncUpdate;
pub use member::{PUBLICATION_BYTES_MAX, SEGMENTS_MAX, SyncMember};
pub use member::{is_vector_name, publication_name, snapshot_name};
pub use scope::GroupScope;
pub use vector::StateVector;
