//! Gives all members the same FIB: copies the control member's routes to the others by the
//! management protocol.
//!
//! ```text
//! control member ──rib/list──▶ RouteWatcher ──▶ SharedSnapshot ──▶ Agent ──faces/create,
//! rib/register──▶ another member
//! (polled)                        │                └─ answers probes at the member's far side
//! └─ TLS ───▶ nw balancer agent, on another machine (`remote_agents`)
//! ```
//!
//! Members are ordinary routers: they need no support for it.

mod management_client;
mod member_agent;
mod route_watcher;
mod shared_snapshot;
mod snapshot;

pub use management_client::{Fetched, ManagementClient};
pub use member_agent::{Agent, BalancerConnection, ConnectionError};
pub use route_watcher::{RouteWatcher, WatchEvent};
pub use shared_snapshot::SharedSnapshot;
pub use snapshot::{Difference, FaceSpec, RouteAttributes, RouteKey, RouterState, Snapshot};
