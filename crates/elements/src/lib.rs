//! The packet functions: one file each; forwarding strategies under `strategy/`.
//!
//! Layer 3 (action): refuses to know hosts. Each element file opens with its contract, and a test
//! holds it to its ports.

#![forbid(unsafe_code)]

pub mod backward_router;
mod by_kind;
pub mod catalogue;
pub mod content_store;
pub mod counter;
mod forwarding_hint;
mod interest_key;
pub mod name_filter;
pub mod name_router;
pub mod packet_dispatcher;
pub mod rate_limiter;
mod rewrite;
mod route_sources;
pub mod router;
pub mod scope;
pub mod signature_verifier;
pub mod sink;
pub mod strategy;
pub mod strategy_forwarder;
pub mod tee;

pub use backward_router::{BackwardRouter, BackwardRouterConfig};
pub use content_store::ContentStore;
pub use counter::Counter;
pub use forwarding_hint::HINTS_MAX;
pub use name_filter::{NameFilter, NameFilterConfig};
pub use name_router::{NameRouter, NameRouterConfig};
pub use packet_dispatcher::PacketDispatcher;
pub use rate_limiter::{RateLimiter, RateLimiterConfig};
pub use router::{Router, RouterConfig};
pub use signature_verifier::{SignatureVerifier, SignatureVerifierConfig};
pub use sink::Sink;
pub use strategy_forwarder::{StrategyForwarder, StrategyForwarderConfig};
pub use tee::Tee;

/// Longest InterestLifetime by default, in milliseconds (one hour): longer ones are reduced to it.
pub const INTEREST_LIFETIME_MAX_MS: u32 = 3_600_000;

/// The README's example is compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
