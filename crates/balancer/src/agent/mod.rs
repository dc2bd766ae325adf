//! One FIB on all members: the routes of the control member, given to the others by the management protocol.
//!
//! ```text
//!  control member ──rib/list──▶ Watcher ──▶ Board ──▶ Agent ──faces/create, rib/register──▶ each other member
//!                    (a look)                 │            └─ answers probes at the member's end
//!                                             └─ HTTP ──▶ nw balancer agent, on another machine
//! ```
//!
//! Members need know nothing of it: they are routers that are told routes.

mod board;
mod router;
mod snapshot;
mod watcher;
mod worker;

pub use board::Board;
pub use router::{Fetched, Router};
pub use snapshot::{Difference, FaceText, RouteKey, RouteUse, Seen, Snapshot};
pub use watcher::{Looked, Watcher};
pub use worker::{Agent, Lead, LeadError};
